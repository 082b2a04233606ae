"""Leaves of secure aggregation: a sum of whole numbers, to which every client adds noise."""

from __future__ import annotations

from dataclasses import dataclass

from dpaudit.exact import Number, is_symbolic
from dpaudit.exact.domains import count, number, positive, refuse
from dpaudit.families.discrete.node import preset, whole
from dpaudit.nodes.core import Leaf, labelled

LARGEST_VARIANCE = 10**4


@dataclass(frozen=True, eq=False, repr=False)
class DistributedGaussian(Leaf):
    """One whole number, the sum of clients', each of which adds discrete Gaussian noise.

    Nobody sees a summand: secure aggregation shows the sum alone (modulo a number, or as it is).
    Each client's noise is k with probability proportional to exp(-k^2 / (2 variance)); their sum is
    none of the kind, and its own law is accounted for.  A record moves the sum by at most the
    integer ``sensitivity``.
    ``variance``: of each client's noise.  ``dropouts``: at most so many clients add no noise, or
    tell theirs: those who drop out, and those who work with the aggregator.
    Source: Kairouz, Liu, Steinke 2021, The Distributed Discrete Gaussian Mechanism.

    >>> import dpaudit as dp
    >>> from dpaudit.families.distributed import DistributedGaussian
    >>> total = DistributedGaussian("total", variance=1, clients=100, dropouts=10)
    >>> dp.account(total, dp.central("replace_one")).epsilon("1e-5").upper < 1
    True
    """

    label: str
    variance: Number = number(positive)
    clients: Number = number(whole)
    dropouts: Number = preset(count, 0)
    sensitivity: Number = preset(whole, 1)

    def __post_init__(self) -> None:
        super().__post_init__()
        labelled(self.label, type(self))
        for name in ("variance", "clients", "dropouts", "sensitivity"):
            if is_symbolic(getattr(self, name)):
                refuse(getattr(self, name), f"{self.name}.{name}", "a number, not a symbol")
        if self.dropouts >= self.clients:
            refuse(self.dropouts, f"{self.name}.dropouts", "fewer than the clients: one adds noise")
        if self.total > LARGEST_VARIANCE:
            refuse(
                self.variance,
                f"{self.name}.variance",
                f"a sum of at most {LARGEST_VARIANCE} over the clients that are left: beyond it, "
                "count in larger units",
            )

    @property
    def left(self) -> int:
        """Clients whose noise is certain."""
        return int(self.clients) - int(self.dropouts)

    @property
    def total(self) -> Number:
        """The variance of the noise that is certain."""
        return self.left * self.variance


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
