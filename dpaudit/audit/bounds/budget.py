"""One error budget of an audit: a total, spent once, over everything that may go wrong.

A union bound: if each of several statements fails with probability at most its error, all hold at
once except with probability the sum.  Sums are exact fractions; a float handed out is rounded down,
so that no order of spending and no rounding exceeds the total.  As everywhere, a float stands for
its shortest decimal: half of 0.05 is 0.025.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import SupportsIndex

from dpaudit.errors import BudgetExceeded, InvalidParameter
from dpaudit.exact import exact

# The smallest failure probability that a budget, or one part of it, may have.
SMALLEST_BUDGET = Fraction(1, 10**90)


@dataclass(frozen=True)
class Spent:
    """One error that was handed out, and what for."""

    what: str
    error: float


class ErrorBudget:
    """An error rate to spend: ``spend`` takes a share of the total, once, and never gives it back.

    ``total``: a number in [1e-90, 1), a float meaning its shortest decimal.
    Errors: InvalidParameter for another total.
    """

    def __init__(self, total: float | Fraction, owner: str = "audit") -> None:
        amount = Fraction(exact(total, "error budget"))
        if not SMALLEST_BUDGET <= amount < 1:
            raise InvalidParameter(f"error budget = {total!r}: expected in [1e-90, 1)")
        self._total, self._taken = amount, Fraction(0)
        self._entries: list[Spent] = []
        self.owner = owner

    @property
    def total(self) -> float:
        """The whole error, rounded down."""
        return _down(self._total)

    @property
    def left(self) -> float:
        """The unspent remainder, rounded down."""
        return _down(self._total - self._taken)

    @property
    def entries(self) -> tuple[Spent, ...]:
        """Every error handed out, in order."""
        return tuple(self._entries)

    def spend(self, share: float | Fraction, what: str) -> float:
        """An error rate of ``share`` of the total, for ``what``; rounded down.

        Errors: InvalidParameter for a share outside (0, 1] or no words; BudgetExceeded, and nothing
        taken, if less than that share is left.
        """
        part = Fraction(exact(share, "share"))
        if not 0 < part <= 1:
            raise InvalidParameter(f"share = {share!r}: expected in (0, 1]")
        amount = part * self._total
        self._take(amount, what)
        return _down(amount)

    def split(self, parts: SupportsIndex, what: str = "parts") -> tuple[ErrorBudget, ...]:
        """Divide the remaining error into ``parts`` equal budgets, one for each statement.

        Errors: InvalidParameter unless ``parts`` is an integer of at least 1; BudgetExceeded if
        nothing is left.
        """
        try:
            count = operator.index(parts)
        except TypeError:
            raise InvalidParameter(f"parts = {parts!r}: expected an integer") from None
        if count < 1:
            raise InvalidParameter(f"parts = {count}: expected at least 1")
        return self.divide([Fraction(1, count)] * count, [f"{what} {k + 1}" for k in range(count)])

    def divide(
        self, weights: Sequence[float | Fraction], what: Sequence[str]
    ) -> tuple[ErrorBudget, ...]:
        """Divide the remaining error into budgets in proportion to ``weights``, named by ``what``.

        Errors: InvalidParameter for no weights, weights not positive, or another number of names;
        BudgetExceeded if nothing is left.
        """
        shares = [Fraction(exact(weight, "weight")) for weight in weights]
        if not shares or min(shares) <= 0 or len(shares) != len(what):
            raise InvalidParameter("weights: expected a positive number for each of the names")
        remaining, total_share = self._total - self._taken, sum(shares)
        parts = [remaining * share / total_share for share in shares]
        if min(parts) < SMALLEST_BUDGET:
            raise BudgetExceeded(f"error budget of {self.owner}: too little left for {what[0]}")
        for amount, name in zip(parts, what, strict=True):
            self._take(amount, name)
        return tuple(ErrorBudget(*pair) for pair in zip(parts, what, strict=True))

    def _take(self, amount: Fraction, what: str) -> None:
        if not what:
            raise InvalidParameter("spend: say in words what the error is for")
        if self._taken + amount > self._total:
            raise BudgetExceeded(
                f"error budget of {self.owner}: {what} asks for {float(amount):g}, "
                f"{self.left:g} of {self.total:g} is left; plan fewer bounds or smaller shares"
            )
        self._taken += amount
        self._entries.append(Spent(what, _down(amount)))


def _down(amount: Fraction) -> float:
    """The float nearest to an amount if its decimal is not above it, or else the next one down."""
    nearest = float(amount)
    return nearest if Fraction(str(nearest)) <= amount else math.nextafter(nearest, 0.0)
