"""The best of a random number of runs, as a search for a step size is."""

from __future__ import annotations

from dataclasses import dataclass

from dpaudit.exact import Number, exp, log
from dpaudit.exact.domains import known_sign, number, positive, refuse
from dpaudit.families.discrete.node import preset
from dpaudit.families.events.node import rare
from dpaudit.nodes.core import Node


def above_minus_one(value: Number, place: str) -> None:
    """Domain (-1, infinity)."""
    if known_sign(value + 1, strict=True) is not True:
        refuse(value, place, "above -1")


@dataclass(frozen=True, eq=False, repr=False)
class Tuned(Node):
    """The best of K runs of ``child``, K random and drawn beforehand; no other run is shown.

    ``child``: one run and the score that it is ranked by, both of them private, at a setting drawn
    anew from a public law (a ``Select`` of all settings, where they differ).  K - 1 >= 0 and
        P(K = k) = C (1 - gamma)^k (shape)(shape + 1) .. (shape + k - 1) / k!,  k >= 1,
    the truncated negative binomial law: ``shape`` 1 is the geometric one, of mean 1 / gamma, and 0
    the logarithmic one, C / k.  How many runs there were is not shown either.
    Source: Papernot, Steinke 2022, Definition 1; Liu, Talwar 2019 (shape 1).

    >>> import dpaudit as dp
    >>> search = dp.Tuned(dp.PureDP("0.1"), gamma="0.01")
    >>> dp.account(search, dp.central("replace_one")).step("pure").value
    Fraction(3, 10)
    """

    child: Node
    gamma: Number = number(rare)
    shape: Number = preset(above_minus_one, 1)

    @property
    def mean(self) -> Number:
        """E K, of numbers or symbols."""
        gamma, shape = self.gamma, self.shape
        if shape == 0:
            return (1 / gamma - 1) / log(1 / gamma)
        if shape == 1:
            return 1 / gamma
        return shape * (1 - gamma) / (gamma * (1 - exp(shape * log(gamma))))


@dataclass(frozen=True, eq=False, repr=False)
class TunedPoisson(Node):
    """The best of K runs of ``child``, K a Poisson number of this ``mean``; a default at K = 0.

    Otherwise as :class:`Tuned`.  The default is public, and shows that there was no run.
    Source: Papernot, Steinke 2022, Theorem 6.

    >>> import dpaudit as dp
    >>> from dpaudit.families.tuning import TunedPoisson
    >>> search = TunedPoisson(dp.ZCDP("0.001", source="one run"), mean=30)
    >>> dp.account(search, dp.central("replace_one")).epsilon("1e-6").upper < 1
    True
    """

    child: Node
    mean: Number = number(positive)
