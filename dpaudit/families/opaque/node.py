"""Leaves for what somebody else proved, which are also the claims; and for no privacy at all."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from reprlib import repr as short
from typing import ClassVar

from dpaudit.errors import InvalidParameter
from dpaudit.exact import Number
from dpaudit.exact.domains import (
    Domain,
    above_one,
    checked,
    non_negative,
    number,
    positive,
    probability,
)
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
        points = _pairs(self.points, "ProfilePoints.points", non_negative, probability)
        object.__setattr__(self, "points", points)
        epsilons = [epsilon for epsilon, _ in self.points]
        if any(a >= b for a, b in pairwise(epsilons)):
            raise InvalidParameter("ProfilePoints.points: expected points of growing epsilon")
        deltas = [delta for _, delta in self.points]
        if any(a < b for a, b in pairwise(deltas)):
            raise InvalidParameter("ProfilePoints.points: expected deltas that do not grow")


@dataclass(frozen=True, eq=False, repr=False)
class Laws(Leaf):
    """An opaque mechanism that two laws on finitely many outcomes dominate.

    ``outcomes``: ((p, q), ...), rational, each column of sum 1; p are the probabilities with the
    record, or on the first data set, and q those without it.  Under ``replace_one`` either data set
    may be the first.

    >>> import dpaudit as dp
    >>> coin = Laws((("3/4", "1/4"), ("1/4", "3/4")), source="a poll")
    >>> dp.account(coin, dp.central("replace_one")).delta(0).upper <= 0.500001
    True
    """

    outcomes: tuple[tuple[Number, Number], ...]
    label: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "outcomes", _pairs(self.outcomes, "Laws.outcomes", _share, _share))
        if any(sum(masses) != 1 for masses in zip(*self.outcomes, strict=True)):
            raise InvalidParameter("Laws.outcomes: expected probabilities of sum 1 in each column")


@dataclass(frozen=True, eq=False, repr=False)
class MixtureOfGaussians(Leaf):
    """A release with Gaussian noise that one record moves by a secret, random length.

    Noise of ``noise_multiplier`` D in every coordinate; ``moves``: ((length, chance), ...), how far
    the record moves the release, at most, in units of D.  With the chance that is left it does not
    move it.  A record that takes part several times is so, or one that is in one of some groups.
    Numbers of ``moves`` are rational.  Under replace_one the length is that from the one record to
    the other, which are drawn alike.  Which length was drawn is not shown.

    >>> import dpaudit as dp
    >>> step = MixtureOfGaussians(1, [(1, "0.18"), (2, "0.01")], source="two draws a round")
    >>> print(dp.account(dp.Repeat(step, 100), "add_remove").epsilon("1e-5").upper < 20)
    True
    """

    noise_multiplier: Number = number(positive)
    moves: tuple[tuple[Number, Number], ...] = ()
    label: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        place = "MixtureOfGaussians.moves"
        object.__setattr__(self, "moves", _pairs(self.moves, place, non_negative, _share))
        if sum(chance for _, chance in self.moves) > 1:
            raise InvalidParameter(f"{place}: expected chances of sum 1 at most")


def _share(value: Number, place: str) -> None:
    """Domain [0, 1]."""
    non_negative(value, place)
    non_negative(1 - value, place)


def _pairs(
    rows: object, place: str, first: Domain, second: Domain
) -> tuple[tuple[Fraction, Fraction], ...]:
    """Pairs of rational numbers, of one domain each; errors: InvalidParameter."""
    if not isinstance(rows, (tuple, list)) or not rows:
        raise InvalidParameter(f"{place} = {short(rows)}: expected pairs of numbers")
    pairs = []
    for k, row in enumerate(rows):
        row_place = f"{place}[{k}]"
        if not isinstance(row, (tuple, list)) or len(row) != 2:
            raise InvalidParameter(f"{row_place} = {short(row)}: expected two numbers")
        pair = checked(row[0], row_place, first), checked(row[1], row_place, second)
        if not all(isinstance(n, Fraction) for n in pair):
            raise InvalidParameter(f"{row_place} = {short(row)}: expected rational numbers")
        pairs.append(pair)
    return tuple(pairs)


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
