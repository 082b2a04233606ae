"""Comparisons of a derived with a claimed guarantee, as predicates on balls of the symbols."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpaudit.errors import InvalidParameter
from dpaudit.exact import (
    Number,
    canonical,
    enclose,
    lower_fraction,
    sympify,
    unknowns,
    upper_fraction,
)
from dpaudit.exact.inequality import Balls, balls_at, certainly, is_positive
from dpaudit.measures.convert import gaussian_delta


@dataclass(frozen=True)
class Difference:
    """A value that is attained, minus the claimed one."""

    reached: Number
    claimed: Number

    @property
    def expressions(self) -> tuple[Number, ...]:
        """The expressions that have to be evaluated."""
        return (canonical(sympify(self.reached) - sympify(self.claimed)),)

    def exceeds(self, balls: Balls) -> bool:
        """Whether it is certainly above."""
        return certainly(self.expressions[0], is_positive, balls)


@dataclass(frozen=True)
class Curve:
    """The exact curve of mu-GDP at ``epsilon`` against ``delta``."""

    mu: Number
    epsilon: Number
    delta: Number

    @property
    def expressions(self) -> tuple[Number, ...]:
        """The expressions that have to be evaluated."""
        return self.mu, self.epsilon, self.delta

    @property
    def atoms(self) -> list[Any]:
        """The symbols in any of them."""
        return atoms_of(self.expressions)

    def holds(self, balls: Balls) -> bool:
        """delta(epsilon) <= delta all over a box: it falls with epsilon and grows with mu."""
        ends = self._ends(balls, (upper_fraction, lower_fraction, lower_fraction))
        return ends is not None and bool(_delta(*ends[:2]) <= enclose(ends[2]))

    def exceeds(self, balls: Balls) -> bool:
        """delta(epsilon) > delta all over a box."""
        ends = self._ends(balls, (lower_fraction, upper_fraction, upper_fraction))
        return ends is not None and bool(_delta(*ends[:2]) > enclose(ends[2]))

    def fails(self, values: Mapping[Any, Fraction]) -> bool:
        """delta(epsilon) > delta at values."""
        return self.exceeds(balls_at(values, *self.expressions))

    def _ends(self, balls: Balls, sides: Iterable[Callable[[Any], Any]]) -> list[Any] | None:
        try:
            enclosed = [enclose(value, balls) for value in self.expressions]
        except InvalidParameter:
            return None
        if not all(ball.is_finite() for ball in enclosed):
            return None
        ends = [side(ball) for side, ball in zip(sides, enclosed, strict=True)]
        return ends if ends[0] >= 0 and ends[1] >= 0 else None


def _delta(mu: Fraction, epsilon: Fraction) -> Any:
    return enclose(0) if mu == 0 else gaussian_delta(enclose(epsilon), enclose(mu))


def atoms_of(expressions: Iterable[Number]) -> list[Any]:
    """The symbols in any of the expressions, in a fixed order."""
    return sorted(set[Any]().union(*map(unknowns, expressions)), key=str)
