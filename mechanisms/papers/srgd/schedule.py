"""Clipping norms that differ from round to round, on top of any square strategy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.exact import Number, decimal_lower, exact, is_symbolic, sqrt
from dpaudit.exact.domains import positive
from dpaudit.families.correlated.node import (
    LARGEST_MATRIX,
    Factorisation,
    LowerTriangular,
    Strategy,
)
from dpaudit.kernels.query import ClippedMean, Query
from dpaudit.nodes import Node
from mechanisms.papers.srgd.rows import Rows, Run


@dataclass(frozen=True)
class ClipSchedule:
    """Rows of round t are clipped to norm C_t: mu = max C_t ||C[:, t]|| / (B beta sigma).

    C_0 = L costs a Lipschitz loss nothing, since D_0 is one gradient, and the tree's first column
    is its only longest.  ``norms``: rationals, one a round.
    Errors: InvalidParameter for a norm that is no positive rational, too many rounds for an
    explicit matrix, or another number of rounds than the program has.
    """

    norms: tuple[Number, ...]

    def __post_init__(self) -> None:
        norms = tuple(exact(n, "ClipSchedule.norms") for n in self.norms)
        if not 0 < len(norms) <= LARGEST_MATRIX:
            raise InvalidParameter(
                f"ClipSchedule: {len(norms)} rounds, expected 1 to {LARGEST_MATRIX}"
            )
        for norm in norms:
            positive(norm, "ClipSchedule.norms")
            if is_symbolic(norm):
                raise InvalidParameter(f"ClipSchedule.norms: {norm} is no rational number")
        object.__setattr__(self, "norms", norms)

    @classmethod
    def first(cls, lipschitz: Number, clip: Number, rounds: int) -> ClipSchedule:
        """C_0 = L, and the same C in every later round."""
        return cls((lipschitz, *([clip] * (rounds - 1))))

    @classmethod
    def even(cls, base: Strategy, clip: Number, rounds: int) -> ClipSchedule:
        """C_t = C max ||C[:, i]|| / ||C[:, t]||, rounded down to 12 digits: the mu of C throughout.

        Later rounds are in fewer sums, so that they may move them by more.
        """
        matrix = square_strategy(base, rounds)
        squares = [sum(row[t] ** 2 for row in matrix[t:]) for t in range(rounds)]
        norms = [sqrt(exact(clip, "clip") ** 2 * max(squares) / square) for square in squares]
        return cls(tuple(Fraction(decimal_lower(norm)) for norm in norms))

    @property
    def largest(self) -> Number:
        return max(self.norms)

    def share(self, t: int) -> float:
        return float(self.norms[t] / self.largest)

    def strategy(self, base: Strategy, rounds: int) -> Strategy:
        if rounds != len(self.norms):
            raise InvalidParameter(
                f"ClipSchedule: {len(self.norms)} norms for {rounds} rounds; give one a round"
            )
        shares = [Fraction(norm / self.largest) for norm in self.norms]
        matrix = square_strategy(base, rounds)
        rows = [" ".join(str(e * s) for e, s in zip(row, shares, strict=False)) for row in matrix]
        return LowerTriangular("; ".join(rows))

    def query(self, rows: Rows, divisor: float) -> Query:
        return ClippedMean(rows, float(self.largest), divisor=divisor)

    def declared(self, noise: Node) -> Node:
        return noise

    def admit(self, run: Run) -> None:
        """Any program."""


def square_strategy(strategy: Strategy, rounds: int) -> list[list[Fraction]]:
    """The rows of a square strategy C up to the diagonal, exactly.

    Errors: Unsupported for strategies that are not square.
    """
    if isinstance(strategy, LowerTriangular):
        return [list(row) for row in strategy.entries]
    if isinstance(strategy, Factorisation):
        return [[_entry(strategy, t, i) for i in range(t + 1)] for t in range(rounds)]
    column = [*strategy.entries, *[Fraction(0)] * rounds]
    return [[column[t - i] for i in range(t + 1)] for t in range(rounds)]


def _entry(strategy: Factorisation, t: int, i: int) -> Fraction:
    """C_ti for rounds from 0."""
    if strategy is Factorisation.TREE:
        m = t + 1
        return Fraction(int(m - (m & -m) <= i))
    if strategy is Factorisation.IDENTITY:
        return Fraction(int(t == i))
    if strategy is Factorisation.INDEPENDENT_PREFIX:
        return Fraction(1)
    if strategy is Factorisation.SQRT_TOEPLITZ:
        return Fraction(math.comb(2 * (t - i), t - i), 4 ** (t - i))
    raise Unsupported(f"{strategy} is no square strategy; use tree or sqrt_toeplitz")
