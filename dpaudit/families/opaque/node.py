"""Leaves for what somebody else proved, which are also the claims; and for no privacy at all."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from reprlib import repr as short
from typing import ClassVar

from dpaudit.errors import InvalidParameter
from dpaudit.exact import Number
from dpaudit.exact.domains import above_one, checked, non_negative, number, probability
from dpaudit.nodes.core import Leaf


@dataclass(frozen=True, eq=False, repr=False)
class PureDP(Leaf):
    """An opaque ``epsilon``-DP mechanism; also the claim of pure differential privacy.

    ``source`` says who proved it; a guarantee that rests on it is certified under that assumption.

    >>> import dpaudit as dp
    >>> dp.PureDP("0.5").epsilon
    Fraction(1, 2)
    """

    states_in: ClassVar[str] = "pure"

    epsilon: Number = number(non_negative)
    label: str = ""
    source: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class ApproxDP(Leaf):
    """An opaque (``epsilon``, ``delta``)-DP mechanism; also the claim of it.

    >>> import dpaudit as dp
    >>> dp.ApproxDP(1, delta="1e-6").delta
    Fraction(1, 1000000)
    """

    states_in: ClassVar[str] = "approx"

    epsilon: Number = number(non_negative)
    delta: Number = number(probability)
    label: str = ""
    source: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class ZCDP(Leaf):
    """An opaque ``rho``-zCDP mechanism (Renyi divergence <= rho * order); also the claim of it.

    >>> import dpaudit as dp
    >>> print(dp.account(dp.ZCDP("0.5"), dp.central("replace_one")).epsilon("1e-6").upper < 5.4)
    True
    """

    states_in: ClassVar[str] = "zcdp"

    rho: Number = number(non_negative)
    label: str = ""
    source: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class GDP(Leaf):
    """An opaque ``mu``-GDP mechanism (trade-off curve above G_mu); also the claim of it.

    >>> import dpaudit as dp
    >>> dp.account(dp.GDP(1), dp.central("replace_one")).epsilon("1e-5")
    Bound(0 to 4.37718)
    """

    states_in: ClassVar[str] = "gdp"

    mu: Number = number(non_negative)
    label: str = ""
    source: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class RenyiDP(Leaf):
    """An opaque (``order``, ``epsilon``)-Renyi-DP mechanism; also the claim of it.

    Renyi divergences do not decrease in the order: it holds at every order up to this one.

    >>> import dpaudit as dp
    >>> dp.RenyiDP(order=8, epsilon="0.5")
    RenyiDP(order=8, epsilon=0.5)
    """

    states_in: ClassVar[str] = "rdp"

    order: Number = number(above_one)
    epsilon: Number = number(non_negative)
    label: str = ""
    source: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class RenyiCurve(Leaf):
    """An opaque mechanism whose Renyi divergence at every order > 1 is at most ``curve``.

    ``curve``: an expression in Symbol("alpha", positive=True), the only place for that symbol.
    """

    states_in: ClassVar[str] = "rdp"

    speaks_of: ClassVar[str] = "alpha"
    curve: Number = number(non_negative)
    label: str = ""
    source: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class ProfilePoints(Leaf):
    """An opaque mechanism that is (epsilon, delta)-DP at each of several points.

    ``points``: ((epsilon, delta), ...), epsilon growing, numbers only.
    """

    states_in: ClassVar[str] = "profile"

    points: tuple[tuple[Number, Number], ...]
    label: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "points", tuple(map(_point, enumerate(_rows(self.points)))))
        epsilons = [epsilon for epsilon, _ in self.points]
        if not epsilons or any(a >= b for a, b in pairwise(epsilons)):
            raise InvalidParameter("ProfilePoints.points: expected points of growing epsilon")
        deltas = [delta for _, delta in self.points]
        if any(a < b for a, b in pairwise(deltas)):
            raise InvalidParameter("ProfilePoints.points: expected deltas that do not grow")


def _rows(points: object) -> tuple[object, ...]:
    if not isinstance(points, (tuple, list)):
        raise InvalidParameter(f"ProfilePoints.points = {short(points)}: expected pairs of numbers")
    return tuple(points)


def _point(row: tuple[int, object]) -> tuple[Fraction, Fraction]:
    place, point = f"ProfilePoints.points[{row[0]}]", row[1]
    if not isinstance(point, (tuple, list)) or len(point) != 2:
        raise InvalidParameter(f"{place} = {short(point)}: expected (epsilon, delta)")
    found = checked(point[0], place, non_negative), checked(point[1], place, probability)
    if not all(isinstance(n, Fraction) for n in found):
        raise InvalidParameter(f"{place} = {short(point)}: expected rational numbers")
    return found


@dataclass(frozen=True, eq=False, repr=False)
class NonPrivate(Leaf):
    """An access to the data that carries no noise; no calculus gives it a finite guarantee.

    >>> import dpaudit as dp
    >>> dp.account(dp.NonPrivate("the mean"), dp.central("add_remove")).epsilon("1e-6").upper
    oo
    """

    reason: str

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.reason:
            raise InvalidParameter("NonPrivate: expected the reason, in words")
