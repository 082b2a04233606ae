"""Independent pairs together, and the pointwise largest of several profiles."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from dpaudit.errors import InvalidParameter
from dpaudit.exact import (
    Number,
    infinity,
    is_infinite,
    is_symbolic,
    maximum,
    readable,
    settled,
    sqrt,
    total,
)
from dpaudit.exact.later import Later
from dpaudit.pairs.atoms import largest_of
from dpaudit.pairs.balls import Ball, Delta, bits, number, positive
from dpaudit.pairs.cases import Case, delta_of_cases, has_closed_cases
from dpaudit.pairs.core import (
    ByText,
    Change,
    Extremes,
    Factor,
    Pair,
    at_least,
    delta_of,
    numbers_in,
)
from dpaudit.pairs.enumerated import is_enumerable, outcomes_of
from dpaudit.pairs.normal import Normal

if TYPE_CHECKING:
    from dpaudit import grids
else:
    grids = Later("dpaudit.grids")


@dataclass(frozen=True)
class Product(Pair):
    """Independent factors with their counts; made by :func:`product` only."""

    parts: tuple[Factor, ...]

    is_product = True

    def pieces(self) -> Iterator[str]:
        for place, (pair, times) in enumerate(self.parts):
            if place:
                yield " x "
            yield from pair.pieces()
            if times != 1:
                yield f"^{readable(times)}"

    @property
    def swapped(self) -> Pair:
        return Product(_sorted([(pair.swapped, times) for pair, times in self.parts]))

    @property
    def factors(self) -> tuple[Factor, ...]:
        return self.parts

    @property
    def extremes(self) -> Extremes:
        """Losses of independent factors add up, and so do their ends."""
        ends = [(pair.extremes, times) for pair, times in self.parts]
        return _sum((end[0], times) for end, times in ends), _sum(
            (end[1], times) for end, times in ends
        )

    def with_numbers(self, change: Change) -> Pair:
        return product((pair.with_numbers(change), change(times)) for pair, times in self.parts)

    def _dominates_alike(self, other: Product) -> bool:
        """Whether every factor has one of its own that dominates it, as often; no others."""
        unmatched = list(self.parts)
        if len(unmatched) != len(other.parts):
            return False
        for pair, times in other.parts:
            fit = [f for f in unmatched if at_least(f[1], times) and f[0].dominates(pair)]
            if not fit:
                return False
            unmatched.remove(fit[0])
        return True

    @property
    def has_delta(self) -> bool:
        return is_enumerable(self.parts) or self._is_mixture

    @property
    def _is_mixture(self) -> bool:
        return any(pair.seen for pair, _ in self.parts) and has_closed_cases(self)

    def delta(self, x: Ball, of: Delta | None = None) -> Ball:
        """Over all outcomes of atoms, or over all cases of branches with normal noise."""
        if self._is_mixture:
            return delta_of_cases(self, x)
        return sum((positive(p - x * q) for p, q in _outcomes(self, bits())), number(0))

    def _on_grid(self, grid: grids.Grid, side: grids.Side) -> grids.Discrete:
        if any(is_symbolic(times) or times.denominator != 1 for _, times in self.parts):
            raise InvalidParameter(
                "a product inside another pair: bind its counts to whole numbers"
            )
        profiles = [(pair.on_grid, int(times)) for pair, times in self.parts]
        return grids.composed_on(profiles, grid, side)

    @property
    def case_count(self) -> int:
        """The number of joint cases where each factor occurs once; 0 otherwise."""
        once = all(times == 1 for _, times in self.parts)
        return math.prod(pair.case_count for pair, _ in self.parts) if once else 0

    @property
    def cases(self) -> Iterator[Case]:
        joined = [Case()]
        for pair, _ in self.parts:
            own = list(pair.cases)
            joined = [case.joined(other) for case in joined for other in own]
        yield from joined


@lru_cache(maxsize=64)
def _outcomes(pair: Product, precision: int) -> list[tuple[Ball, Ball]]:
    """All outcomes at the precision of the context."""
    return outcomes_of(pair.parts)


def _sum(losses: Iterable[tuple[Number, Number]]) -> Number:
    met = [(loss, times) for loss, times in losses if times != 0]
    if any(is_infinite(loss) for loss, _ in met):
        return infinity()
    return settled(total(loss * times for loss, times in met))


@dataclass(frozen=True)
class Largest(Pair):
    """The pointwise largest of several profiles; made by :func:`largest` only."""

    pairs: tuple[Pair, ...]

    @property
    def swapped(self) -> Pair:
        return Largest(_ordered(tuple(pair.swapped for pair in self.pairs)))

    @property
    def inner(self) -> tuple[Pair, ...]:
        return self.pairs

    @property
    def alternatives(self) -> tuple[Pair, ...]:
        return self.pairs

    @property
    def extremes(self) -> Extremes:
        ends = [pair.extremes for pair in self.pairs]
        return largest_of(low for low, _ in ends), largest_of(high for _, high in ends)

    def with_numbers(self, change: Change) -> Pair:
        return largest(pair.with_numbers(change) for pair in self.pairs)

    def delta(self, x: Ball, of: Delta | None = None) -> Ball:
        first, *others = ((of or delta_of)(pair, x) for pair in self.pairs)
        for other in others:
            first = first.max(other)
        return first

    def _on_grid(self, grid: grids.Grid, side: grids.Side) -> grids.Discrete:
        return grids.largest_values([pair.on_grid(grid, side) for pair in self.pairs], side)


def product(factors: Iterable[Factor]) -> Pair:
    """Independent factors as one pair: equal ones merged, all normal ones collapsed into one.

    Normal(a) x Normal(b) has the profile of Normal(sqrt(a^2 + b^2)) exactly.
    Source: Dong, Roth, Su 2022, Corollary 3.3 (composition of Gaussian trade-off curves).
    """
    return _collected([(p, inner * times) for base, times in factors for p, inner in base.factors])


def joined(pairs: Iterable[Pair]) -> Pair:
    """The product of several pairs, each once."""
    return _collected([factor for pair in pairs for factor in pair.factors])


def _collected(factors: list[Factor]) -> Pair:
    """The product of the factors in normal form: one Gaussian pair, and each other pair once.

    Gaussian factors merge into one, of shift sqrt(sum of mu^2); the order is canonical, so that
    equal products are equal objects.
    """
    counts: dict[Pair, list[Number]] = {}
    squares: list[Number] = []
    for pair, times in factors:
        mu = pair.gaussian_shift
        if mu is not None:
            squares.append(mu**2 * times)
        else:
            counts.setdefault(pair, []).append(times)
    merged = [(pair, n) for pair, parts in counts.items() if (n := total(parts)) != 0]
    if squares and (mu := sqrt(total(squares))) != 0:
        merged.append((Normal(mu), Fraction(1)))
    if not merged:
        return Normal(Fraction(0))
    return merged[0][0] if len(merged) == 1 and merged[0][1] == 1 else Product(_sorted(merged))


def _sorted(factors: list[Factor]) -> tuple[Factor, ...]:
    return tuple(sorted(factors, key=lambda factor: ByText(factor[0])))


def distinct(pairs: Iterable[Pair]) -> tuple[Pair, ...]:
    """Alternatives, each once; of several of an ordered kind only the largest."""
    kept_pairs = list(dict.fromkeys(pairs))
    kinds = {type(pair) for pair in kept_pairs if pair.is_ordered}
    kind: Any
    for kind in sorted(kinds, key=lambda kind: kind.__name__, reverse=True):
        own = [pair for pair in kept_pairs if type(pair) is kind]
        if len(own) > 1:
            most = kind(maximum(n for pair in own for n in numbers_in(pair)))
            kept_pairs = [most, *(pair for pair in kept_pairs if type(pair) is not kind)]
    return tuple(kept_pairs)


def largest(pairs: Iterable[Pair]) -> Pair:
    """One pair whose profile is the pointwise largest of several."""
    pairs_once = distinct(part for pair in pairs for part in pair.alternatives)
    return pairs_once[0] if len(pairs_once) == 1 else Largest(_ordered(pairs_once))


def _ordered(pairs: tuple[Pair, ...]) -> tuple[Pair, ...]:
    return tuple(sorted(pairs, key=ByText))
