"""Leaves of secure aggregation: sums of whole numbers, to which every client adds noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from dpaudit.exact import Number, is_symbolic
from dpaudit.exact.domains import count, number, positive, refuse
from dpaudit.families.discrete.node import preset, whole
from dpaudit.nodes.core import LabelledLeaf
from dpaudit.nodes.records import Counts

LARGEST_VARIANCE = 10**4  # of one client's noise, whose masses are listed
# The largest variance for vectors: the curvature of Skellam noise takes one step a unit of it.
LARGEST_OF_VECTORS = {"DistributedGaussianVector": 10**9, "DistributedSkellamVector": 10**6}


class _Noise:
    """The part of the clients' noise that is certain."""

    variance: Number
    clients: Number
    dropouts: Number

    @property
    def left(self) -> int:
        """Clients whose noise is certain."""
        return int(self.clients) - int(self.dropouts)

    @property
    def total(self) -> Number:
        """The variance of the noise that is certain, in each coordinate."""
        return self.left * self.variance


@dataclass(frozen=True, eq=False, repr=False)
class DistributedGaussian(_Noise, LabelledLeaf):
    """One whole number, the sum of clients', each of which adds discrete Gaussian noise.

    Nobody sees a summand: secure aggregation shows the sum alone (modulo a number, or as it is).
    Each client's noise is k with probability proportional to exp(-k^2 / (2 variance)); their sum is
    none of the kind, and its own law is accounted for.  A record moves the sum by at most the
    integer ``sensitivity``.
    ``variance``: of each client's noise.  ``dropouts``: at most so many clients add no noise, or
    tell theirs: those who drop out, and those who work with the aggregator.  Every client holds a
    record or more; below a draw of records only those who are drawn take part, and add noise.
    Source: Kairouz, Liu, Steinke 2021, The Distributed Discrete Gaussian Mechanism.

    >>> import dpaudit as dp
    >>> from dpaudit.families.distributed import DistributedGaussian
    >>> total = DistributedGaussian("total", variance=1, clients=100, dropouts=10)
    >>> dp.account(total, dp.central("replace_one")).epsilon("1e-5").upper < 1
    True
    """

    hidden_by: ClassVar[str] = "secure aggregation"
    counts: ClassVar[Counts] = Counts(at_least="clients")

    variance: Number = number(positive)
    clients: Number = number(whole)
    dropouts: Number = preset(count, 0)
    sensitivity: Number = preset(whole, 1)

    def __post_init__(self) -> None:
        super().__post_init__()
        _checked(self, ("variance", "clients", "dropouts", "sensitivity"), LARGEST_VARIANCE)


@dataclass(frozen=True, eq=False, repr=False)
class DistributedSkellam(DistributedGaussian):
    """One whole number, the sum of clients', each of which adds Skellam noise.

    Each client's noise is the difference of two Poisson numbers of mean variance / 2; their sum is
    Skellam noise again.  Otherwise as :class:`DistributedGaussian`.
    Source: Agarwal, Kairouz, Liu 2021, The Skellam Mechanism.

    >>> import dpaudit as dp
    >>> from dpaudit.families.distributed import DistributedSkellam
    >>> total = DistributedSkellam("total", variance=1, clients=100, dropouts=10)
    >>> dp.account(total, dp.central("replace_one")).epsilon("1e-5").upper < 1
    True
    """


@dataclass(frozen=True, eq=False, repr=False)
class DistributedGaussianVector(_Noise, LabelledLeaf):
    """A vector of whole numbers, the sum of clients', each of which adds discrete Gaussian noise.

    As :class:`DistributedGaussian`, coordinate by coordinate, for any number of coordinates.  The
    squares of how far one unit moves the coordinates add up to at most the whole number
    ``squared`` (moves of l1-norm A have squares of at most A times the largest of them).
    ``modulus``: what is shown are the sums modulo this number, as the multiple nearest to 0 gives
    them; 0 for the sums as they are.  Wrapping is post-processing, and never costs privacy; it
    costs the result where sums do not fit.
    Source: Kairouz, Liu, Steinke 2021, The Distributed Discrete Gaussian Mechanism, Algorithms 1
    and 2 (their rotation and rounding: :mod:`dpaudit.families.distributed.rotated`); the bound is
    ours.

    >>> import dpaudit as dp
    >>> total = dp.DistributedGaussianVector("total", 10, clients=100, dropouts=10, squared=225)
    >>> dp.account(total, dp.central("replace_one")).step("gdp").value < 0.51
    True
    """

    hidden_by: ClassVar[str] = "secure aggregation"
    counts: ClassVar[Counts] = Counts(at_least="clients")

    variance: Number = number(positive)
    clients: Number = number(whole)
    dropouts: Number = preset(count, 0)
    squared: Number = preset(whole, 1)
    modulus: Number = preset(count, 0)

    def __post_init__(self) -> None:
        super().__post_init__()
        names = ("variance", "clients", "dropouts", "squared", "modulus")
        _checked(self, names, LARGEST_OF_VECTORS[type(self).__name__])
        if self.modulus == 1:
            refuse(
                self.modulus, f"{self.name}.modulus", "0 or at least 2: modulo 1 nothing is said"
            )


@dataclass(frozen=True, eq=False, repr=False)
class DistributedSkellamVector(DistributedGaussianVector):
    """A vector of whole numbers, the sum of clients', each of which adds Skellam noise.

    Noise as in :class:`DistributedSkellam`, all else as :class:`DistributedGaussianVector`.
    Source: Agarwal, Kairouz, Liu 2021, The Skellam Mechanism; the bound is ours.

    >>> import dpaudit as dp
    >>> total = dp.DistributedSkellamVector("total", 10, clients=100, dropouts=10, squared=225)
    >>> dp.account(total, dp.central("replace_one")).step("gdp").value < 0.51
    True
    """


def _checked(leaf: Any, names: tuple[str, ...], largest: int) -> None:
    """Errors: InvalidParameter for symbols, no client that adds noise, or a large variance."""
    for name in names:
        if is_symbolic(getattr(leaf, name)):
            refuse(getattr(leaf, name), f"{leaf.name}.{name}", "a number, not a symbol")
    if leaf.dropouts >= leaf.clients:
        refuse(leaf.dropouts, f"{leaf.name}.dropouts", "fewer than the clients: one adds noise")
    if leaf.total > largest:
        refuse(
            leaf.variance,
            f"{leaf.name}.variance",
            f"a sum of at most {largest} over the clients that are left: beyond it, count in "
            "larger units",
        )
