"""Gaussian noise correlated over rounds: a strategy matrix, and who takes part in which rounds.

A data set gives one row a round, x_1, ..., x_T; the mechanism releases C X + Z, with independent
N(0, s^2) entries in Z, row by row, so that the prefix sums A X are released with noise B Z,
A = B C.  A row may depend on what was released before it.
Source: Denisov, McMahan, Rush, Smith, Thakurta 2022, Theorem 2.1 (adaptive rows, C lower
triangular); Li, Miklau, Hay, McGregor, Rastogi 2015 (the matrix mechanism).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from reprlib import repr as short
from typing import Any, TypeAlias

from dpaudit.errors import InvalidParameter
from dpaudit.exact import Number, exact, is_symbolic, readable
from dpaudit.exact.domains import count, known_sign, number, positive, refuse
from dpaudit.nodes.core import VALUES, LabelledLeaf, adjacencies
from dpaudit.scope import choose

LARGEST_MATRIX = 512  # rows of a matrix that a declaration holds
LONGEST_TEXT = 4_000_000  # characters of its text


class Factorisation(StrEnum):
    """Named strategies C for prefix sums, T rows unless said otherwise.

    ``IDENTITY``: every x_t is released with fresh noise.
    ``INDEPENDENT_PREFIX``: every prefix sum is released with fresh noise (C = A).
    ``TREE``: the nodes of a Fenwick tree, node m covering (m - lowbit(m), m].
    ``TREE_HONAKER``: all dyadic blocks that end by T; prefix sums by least squares.
    ``SMOOTH_BINARY``: left children above the leaves of a binary tree of height h that have h/2
    ones in their address.
    ``SQRT_TOEPLITZ``: C = A^(1/2), Toeplitz with c_0 = 1, c_k = c_{k-1} (2k - 1) / (2k).
    Sources, in order: Dwork, Naor, Pitassi, Rothblum 2010; Honaker 2015; Andersson, Pagh 2023;
    Fichtenberger, Henzinger, Upadhyay 2023.
    """

    IDENTITY = "identity"
    INDEPENDENT_PREFIX = "independent_prefix"
    TREE = "tree"
    TREE_HONAKER = "tree_honaker"
    SMOOTH_BINARY = "smooth_binary"
    SQRT_TOEPLITZ = "sqrt_toeplitz"


@dataclass(frozen=True)
class LowerTriangular:
    """An explicit strategy: row t holds t exact rationals, the last of them not zero.

    ``rows``: a text, rows apart by ";" and entries by spaces, or the rows as sequences of numbers;
    a float stands for its shortest decimal.
    Errors: InvalidParameter for entries that are no rationals, rows of another length, a zero on
    the diagonal (the prefix sums would not be released), more than ``LARGEST_MATRIX`` rows.
    """

    rows: str

    def __post_init__(self) -> None:
        rows_read = _rows(self.rows, "LowerTriangular.rows")
        if len(rows_read) > LARGEST_MATRIX:
            raise InvalidParameter(
                f"LowerTriangular: {len(rows_read)} rows, expected at most {LARGEST_MATRIX}"
            )
        for t, row in enumerate(rows_read, 1):
            place = f"LowerTriangular.rows[{t - 1}] = {short(_joined(row))}"
            if len(row) != t:
                raise InvalidParameter(
                    f"{place}: {len(row)} entries in row {t} of a lower triangle: expected {t}"
                )
            if row[-1] == 0:
                raise InvalidParameter(
                    f"{place}: expected the last entry of row {t}, on the diagonal, not zero: a "
                    "singular matrix does not release the prefix sums"
                )
        object.__setattr__(self, "rows", "; ".join(map(_joined, rows_read)))

    @cached_property
    def entries(self) -> tuple[tuple[Fraction, ...], ...]:
        """The rows, each up to its diagonal."""
        return tuple(tuple(map(Fraction, row.split())) for row in self.rows.split(";"))

    def __str__(self) -> str:
        return f"{len(self.entries)} explicit rows"


@dataclass(frozen=True)
class BandedToeplitz:
    """A strategy with ``coefficients`` c_0, c_1, ... down every column, zero below the last.

    ``coefficients``: a text of exact rationals apart by spaces, or a sequence of numbers.
    Errors: InvalidParameter for entries that are no rationals, c_0 = 0, too many of them.

    >>> import dpaudit as dp
    >>> bands = dp.BandedToeplitz(("1", "0.5", "0.375"))
    >>> sums = dp.CorrelatedGaussian("prefix sums", 4, rounds=100, strategy=bands)
    >>> round(float(dp.account(sums, dp.central("add_remove")).step("gdp").value), 4)
    0.2948
    """

    coefficients: str

    def __post_init__(self) -> None:
        rows = _rows(self.coefficients, "BandedToeplitz.coefficients", depth=1)
        if len(rows) != 1 or not 0 < len(rows[0]) <= LARGEST_MATRIX or rows[0][0] == 0:
            raise InvalidParameter(
                "BandedToeplitz.coefficients: expected one row of at most "
                f"{LARGEST_MATRIX} rationals, the first not zero"
            )
        object.__setattr__(self, "coefficients", _joined(rows[0]))

    @cached_property
    def entries(self) -> tuple[Fraction, ...]:
        """The coefficients, from the diagonal down."""
        return tuple(map(Fraction, self.coefficients.split()))

    def __str__(self) -> str:
        return f"Toeplitz {short(self.coefficients)}"


@dataclass(frozen=True)
class Participation:
    """A record takes part in at most ``at_most`` rounds, any two at least ``separation`` apart.

    The rounds are public, and the same whatever the record holds.
    Errors: InvalidParameter unless both are whole numbers of at least 1.

    >>> import dpaudit as dp
    >>> print(dp.Participation(at_most=4, separation=100))
    4 rounds, 100 apart
    """

    at_most: Number = Fraction(1)
    separation: Number = Fraction(1)

    def __post_init__(self) -> None:
        for name in ("at_most", "separation"):
            place = f"Participation.{name}"
            value = exact(getattr(self, name), place)
            if is_symbolic(value):
                refuse(value, place, "a number, not a symbol")
            count(value, place)
            positive(value, place)
            object.__setattr__(self, name, value)

    def __str__(self) -> str:
        if self.at_most == 1:
            return "one round"
        return f"{self.at_most} rounds, {self.separation} apart"


Strategy: TypeAlias = Factorisation | LowerTriangular | BandedToeplitz
SINGLE = Participation()
VALUES.update({kind.__name__: kind for kind in (LowerTriangular, BandedToeplitz, Participation)})


@dataclass(frozen=True, eq=False, repr=False)
class CorrelatedGaussian(LabelledLeaf):
    """Releases C X + Z in ``rounds`` rows; ``noise_multiplier`` = s / D.

    D bounds the l2-distance by which one record moves one row x_t that it takes part in, under the
    declared adjacency; a row of no such round does not move.  ``strategy``: a
    :class:`Factorisation` or its name, a :class:`LowerTriangular` or a :class:`BandedToeplitz`;
    ``participation``: in which rounds one record takes part, the same on both data sets.
    ``under``: as of :class:`Gaussian`.
    Errors: InvalidParameter for a strategy that is none of these, or of another number of rounds;
    for more bands than rounds, or more participations, that far apart, than the rounds hold
    (symbolic rounds are judged once they are bound).

    >>> import dpaudit as dp
    >>> sums = dp.CorrelatedGaussian("prefix sums", 4, rounds=8, strategy="tree")
    >>> dp.account(sums, dp.central("add_remove")).step("gdp").value
    Fraction(1, 2)
    """

    noise_multiplier: Number = number(positive)
    rounds: Number = number(count)
    strategy: Strategy | str = Factorisation.TREE
    participation: Participation = SINGLE
    under: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "under", adjacencies(self.under, f"{self.name}.under"))
        positive(self.rounds, f"{self.name}.rounds")
        if isinstance(self.strategy, str):
            chosen = choose(Factorisation, self.strategy, f"{self.name}.strategy")
            object.__setattr__(self, "strategy", chosen)
        elif not isinstance(self.strategy, (LowerTriangular, BandedToeplitz)):
            raise InvalidParameter(f"{self.name}.strategy = {_no_strategy(self.strategy)}")
        if not isinstance(self.participation, Participation):
            raise InvalidParameter(
                f"{self.name}.participation = {short(self.participation)}: expected a Participation"
            )
        if isinstance(self.strategy, LowerTriangular):
            size = len(self.strategy.entries)
            if self.rounds != size:
                refuse(self.rounds, f"{self.name}.rounds", f"{size}, the rows of its strategy")
        self._within(self.rounds)

    def _within(self, rounds: Number) -> None:
        """Errors: InvalidParameter for bands, or participations, that so many rounds do not hold.

        Rounds 1, 1 + b, 1 + 2 b, ... are the most that are b apart: m of them need (m - 1) b + 1.
        """
        if isinstance(self.strategy, BandedToeplitz):
            bands = len(self.strategy.entries)
            if known_sign(rounds - bands, strict=False) is False:
                raise InvalidParameter(
                    f"{self.name}.strategy = {self.strategy}: {bands} bands, longer than "
                    f"{self.name}.rounds = {rounds}: expected at most {rounds} coefficients"
                )
        who = self.participation
        needed = (who.at_most - 1) * who.separation + 1
        if known_sign(rounds - needed, strict=False) is False:
            advice = "too few for them in some round"
            if not is_symbolic(rounds):
                fit = -(-rounds // who.separation)
                advice = f"at most {fit} of them; declare Participation({fit}, {who.separation})"
            raise InvalidParameter(
                f"{self.name}.participation = {who}: {self.name}.rounds = {readable(rounds)} hold "
                f"{advice}"
            )


def _no_strategy(value: object) -> str:
    """The value, what was expected, and where a strategy inside of it is."""
    inside = f"; give the {type(value).__name__}'s .strategy" if hasattr(value, "strategy") else ""
    return (
        f"{short(value)}: expected the name of a factorisation, a LowerTriangular or a "
        f"BandedToeplitz{inside}"
    )


# --- exact rationals, as text or as numbers ------------------------------------------------------


def _rows(value: object, place: str, depth: int = 2) -> list[list[Fraction]]:
    if isinstance(value, str):
        if len(value) > LONGEST_TEXT:
            raise InvalidParameter(f"{place}: a text of over {LONGEST_TEXT} characters")
        return [[_rational(word, place) for word in row.split()] for row in value.split(";")]
    rows: Any = value if depth == 2 else [value]
    if not _is_sequence(rows) or not all(map(_is_sequence, rows)):
        raise InvalidParameter(f"{place} = {short(value)}: expected a text, or rows of numbers")
    return [[_number(entry, place) for entry in row] for row in rows]


def _is_sequence(value: object) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes, dict))


def _rational(word: str, place: str) -> Fraction:
    try:
        return _number(Fraction(word), place)
    except (ValueError, ZeroDivisionError):
        raise InvalidParameter(f"{place}: {word[:40]!r} is not a rational number") from None


def _number(value: object, place: str) -> Fraction:
    number = exact(value, place)
    if is_symbolic(number):
        raise InvalidParameter(f"{place}: {str(number)[:40]} is not a rational number")
    return Fraction(number)


def _joined(row: Sequence[Fraction]) -> str:
    return " ".join(map(str, row))
