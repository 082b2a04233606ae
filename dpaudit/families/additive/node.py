"""Leaves that add continuous noise; ``noise_multiplier`` is scale over sensitivity."""

from __future__ import annotations

from dataclasses import dataclass

from dpaudit.exact import Number
from dpaudit.exact.domains import number, positive
from dpaudit.nodes.core import LabelledLeaf, adjacencies


@dataclass(frozen=True, eq=False, repr=False)
class Gaussian(LabelledLeaf):
    """Adds N(0, s^2 I) to a query of l2-sensitivity D; ``noise_multiplier`` = s / D.

    ``under``: adjacencies under which D is the sensitivity, separated by blanks; the noise is
    accounted for under no other.  None where D is that of whatever adjacency is asked for.

    >>> import dpaudit as dp
    >>> noise = dp.Gaussian("mean", noise_multiplier="2")
    >>> dp.account(noise, dp.central("replace_one")).step("gdp").value
    Fraction(1, 2)
    """

    noise_multiplier: Number = number(positive)
    under: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "under", adjacencies(self.under, f"{self.name}.under"))


@dataclass(frozen=True, eq=False, repr=False)
class Laplace(LabelledLeaf):
    """Adds i.i.d. Laplace(b) to a query of l1-sensitivity D; ``noise_multiplier`` = b / D.

    >>> import dpaudit as dp
    >>> noise = dp.Laplace("count", noise_multiplier=2)
    >>> dp.account(noise, dp.central("add_remove")).step("pure").value
    Fraction(1, 2)
    """

    noise_multiplier: Number = number(positive)
