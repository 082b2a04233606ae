"""Leaves that release what is stable: a threshold on a score, and means over random inliers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from dpaudit.exact import Number, readable
from dpaudit.exact.domains import count, known_sign, number, positive, rate, refuse
from dpaudit.families.discrete.node import whole
from dpaudit.nodes.core import Assumption, LabelledLeaf, Status
from dpaudit.scope import choose


class Distance(StrEnum):
    """How far apart two neighbours' releases may be, in units of the noise.

    ``PATH``: score + other score + 2 units.  ``DIAMETER``: 2 units, whatever the scores.
    """

    PATH = "path"
    DIAMETER = "diameter"


@dataclass(frozen=True, eq=False, repr=False)
class StableRelease(LabelledLeaf):
    """Releases a vector with Gaussian noise where a score is at most a secret threshold.

    The score is one of 0, 1, 2, ... and moves by at most 1; scores above 2 ``kappa`` never pass.
    The threshold is drawn from 0..2 kappa with probability proportional to exp(-``epsilon``
    |r - kappa|).  Below it the vector is released with noise of ``noise_multiplier`` units, and the
    vectors of two neighbours that pass are as far apart as ``distance`` says; otherwise bottom.
    """

    epsilon: Number = number(positive)
    kappa: Number = number(whole)
    noise_multiplier: Number = number(positive)
    distance: str = Distance.PATH

    def __post_init__(self) -> None:
        super().__post_init__()
        chosen = choose(Distance, self.distance, f"{self.name}.distance")
        object.__setattr__(self, "distance", chosen)


@dataclass(frozen=True, eq=False, repr=False)
class CoupledGaussian(LabelledLeaf):
    """Gaussian noise on a mean over random inliers; the runs' inner coins are coupled.

    Under the coupling the mean moves by at most ``always`` + B units, B at most a binomial of
    ``flips`` trials of probability ``rate``; ``noise_multiplier`` = standard deviation / unit.
    """

    noise_multiplier: Number = number(positive)
    always: Number = number(count)
    flips: Number = number(count)
    rate: Number = number(rate)

    def __post_init__(self) -> None:
        super().__post_init__()
        if known_sign(self.always + self.flips, strict=True) is False:
            refuse(self.always + self.flips, f"{self.name}.always + flips", "a mean that may move")

    @property
    def assumption(self) -> Assumption:
        """A coupling of the coins has these flips and this rate: its author answers for it."""
        return Assumption(
            f"coupling:{self.digest[:12]}",
            f"between neighbours {self.label!r} moves by at most {readable(self.always)} units and "
            f"one for each of {readable(self.flips)} flips of rate {readable(self.rate)}",
            Status.DECLARED,
        )
