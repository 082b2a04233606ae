"""Leaves that add one continuous number of bounded loss to a query of sensitivity D."""

from __future__ import annotations

from dataclasses import dataclass

from dpaudit.exact import Number
from dpaudit.exact.domains import known_sign, number, positive, probability, rate, refuse
from dpaudit.nodes.core import LabelledLeaf


def above_one_step(value: Number, place: str) -> None:
    """Domain (1, inf): farther than the query moves."""
    if known_sign(value - 1, strict=True) is False:
        refuse(value, place, "above 1, in sensitivities")


@dataclass(frozen=True, eq=False, repr=False)
class Staircase(LabelledLeaf):
    """Adds staircase noise: its density falls by e^-epsilon at (k + share) D, k = 0, 1, ...

    The share 1 / (1 + e^(epsilon/2)) has the smallest mean absolute error of all epsilon-DP noise.
    Source: Geng, Viswanath 2014, Theorems 1 and 5.

    >>> import dpaudit as dp
    >>> noise = Staircase("mean", epsilon=1, share="0.38")
    >>> dp.account(noise, dp.central("add_remove")).epsilon("0.1").upper < 0.9
    True
    """

    epsilon: Number = number(positive)
    share: Number = number(rate)


@dataclass(frozen=True, eq=False, repr=False)
class Tulap(LabelledLeaf):
    """Adds D times Tulap noise: just (epsilon, delta)-DP, and nothing weaker.

    Noise is a discrete Laplace number plus a uniform one on [-1/2, 1/2]; of either tail the share
    delta e^-epsilon / (1 - e^-epsilon + 2 delta e^-epsilon) is cut off.
    Source: Awan, Slavkovic 2020, Definition 3.1; Awan, Vadhan 2023, Proposition 2.8 (every move).

    >>> import dpaudit as dp
    >>> dp.account(Tulap("count", 1, "1e-6"), dp.central("add_remove")).epsilon("1e-6").upper
    Fraction(1, 1)
    """

    epsilon: Number = number(positive)
    delta: Number = number(probability)


@dataclass(frozen=True, eq=False, repr=False)
class StudentT(LabelledLeaf):
    """Adds Student's t noise with ``degrees`` degrees of freedom, scaled by noise_multiplier D.

    >>> import dpaudit as dp
    >>> noise = StudentT("median", noise_multiplier=10, degrees=3)
    >>> float(dp.account(noise, dp.central("add_remove")).epsilon(0)) < 0.1155
    True
    """

    noise_multiplier: Number = number(positive)
    degrees: Number = number(positive)


@dataclass(frozen=True, eq=False, repr=False)
class TruncatedLaplace(LabelledLeaf):
    """Adds Laplace noise of scale noise_multiplier D, drawn again until within +- bound D.

    Source: Geng, Ding, Guo, Kumar 2020, Definition 1.

    >>> import dpaudit as dp
    >>> noise = TruncatedLaplace("sum", noise_multiplier=1, bound=12)
    >>> dp.account(noise, dp.central("add_remove")).delta(1).upper < 6e-6
    True
    """

    noise_multiplier: Number = number(positive)
    bound: Number = number(above_one_step)
