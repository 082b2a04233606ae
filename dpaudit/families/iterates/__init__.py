"""Runs of which the last iterate alone is shown."""

from dpaudit.families.iterates.node import LastIterate, SampledLastIterate

__all__ = ["LastIterate", "SampledLastIterate"]
