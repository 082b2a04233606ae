"""Private selection: the best of a random number of runs."""

from dpaudit.families.tuning.node import Tuned, TunedPoisson

__all__ = ["Tuned", "TunedPoisson"]
