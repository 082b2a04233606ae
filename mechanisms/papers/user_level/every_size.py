"""Theorems 3.1 and 4.1 at every number of users from some on, where this closed bound reaches.

Algorithm 3 as printed, xi drawn once, K_i = n_i, T_i = ceil((1 + sqrt(beta / lambda_i)) log(n d m))
as it is run here (the paper leaves the constant of T_i open).  With c = 1 - 2^-q, p = 3 q + 5/2
and y = n / 2^i, phase i has

    K_i >= c n^(1-q) y^q - 2,
    T_i <= 1 + (1 + sqrt(beta R / L) (n m)^(1/4) (y / n)^(p/2)) log(n d m).

The test costs epsilon / 2.  That a round which is not concentrated passes, or keeps few inliers,
costs (1 + e^epsilon) T_i (2/3 e^(-epsilon K_i / 160) + e^(-9 K_i / 200)).  The last phase, y = 1,
costs most: T_i grows by at most y^(p/2), and K_i by at least c n^(1-q) q log y, which is enough
once c q n^(1-q) min(epsilon / 160, 9 / 200) >= p / 2.  Among more than k = ``coins`` flips in a
round all may be told: they have at most e^-6 (6 e / (k + 1))^(k + 1) of probability (Chernoff
1952; the flips are binomial of mean below 6).  Otherwise all rounds move by
mu = 16 (k + 2) epsilon (1 + 1 / K_i) / (1000 log(n d e^epsilon / delta)) together, and
delta(epsilon / 2) <= exp(-a^2 / 2) / 2, a = epsilon / (2 mu) - mu / 2 >= 0.

Theorem 4.1 is the same of f_r, r = R sqrt(d) / (epsilon n sqrt(m)) (Theorem D.3), which is
L sqrt(d) / r smooth (Lemma D.1): beta R / L = epsilon n sqrt(m).
Source: dpaudit 2026.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpaudit.exact.inequality import balls_at, certainly, covered, is_positive
from mechanisms.papers.user_level.constants import ROOM, budget
from mechanisms.papers.user_level.problem import Problem

MOST = 10**30
# Sizes and rounds are made in floating point.
FLOATS = Fraction(1, 10**9)


@dataclass(frozen=True)
class EverySize:
    """The claim (epsilon, delta) of the theorem for a problem of any number of users.

    Of ``problem`` everything counts but its users; ``smoothness``: beta, None for that of f_r,
    which the theorem chooses for n; ``shrink``: q; ``coins``: k, of the proof.
    """

    problem: Problem
    epsilon: Fraction
    delta: Fraction
    smoothness: float | None
    shrink: Fraction = Fraction(1, 10)
    coins: int = 60

    def __post_init__(self) -> None:
        for name, value in zip(("epsilon", "delta"), budget(self.epsilon, self.delta), strict=True):
            object.__setattr__(self, name, value)

    def hypothesis(self) -> int:
        """The least n >= 2 from which on n^(1-q) > 100 log(20 n m d e^epsilon / delta) / (eps c).

        Source: Lowy, Liu, Asi 2024, Theorem 3.1.
        """
        q, epsilon = float(self.shrink), float(self.epsilon)
        samples = 20 * self.problem.items * self.problem.dimension / float(self.delta)

        def holds(users: int) -> bool:
            needed = 100 * (math.log(users * samples) + epsilon) / (epsilon * (1 - 2**-q))
            return bool(users ** (1 - q) > needed)

        return least_from(holds)

    def bound(self, users: Any) -> Any:
        """The delta at epsilon of the last phase, as an expression of the number of users."""
        import sympy

        epsilon, delta, q = map(sympy.Rational, (self.epsilon, self.delta, self.shrink))
        items, dimension = self.problem.items, self.problem.dimension
        batch, power = self._batch(users), 3 * q + sympy.Rational(5, 2)
        first = sympy.sqrt(self._ratio(users)) * sympy.root(users * items, 4)
        room = 1 + sympy.Rational(FLOATS)
        logarithm = sympy.log(users * dimension * items) * room
        last = 1 + (1 + first * users ** (-power / 2)) * logarithm
        most = 1 + (1 + first) * logarithm
        tail = sympy.exp(-epsilon * batch / 160) * sympy.Rational(2, 3)
        tail += sympy.exp(-sympy.Rational(9, 200) * batch)
        flips = sympy.exp(-6) * (6 * sympy.E / (self.coins + 1)) ** (self.coins + 1)
        slack = (last * tail + most * flips) * sympy.Rational(str(ROOM))
        loss = sympy.log(users * dimension / delta) + epsilon
        mu = 16 * (self.coins + 2) * epsilon * (1 + 1 / batch) * room / (1000 * loss)
        end = epsilon / (2 * mu) - mu / 2
        return (1 + sympy.exp(epsilon)) * slack + sympy.exp(-(end**2) / 2) / 2

    def _ratio(self, users: Any) -> Any:
        """beta R / L."""
        import sympy

        if self.smoothness is None:
            return sympy.Rational(self.epsilon) * users * sympy.sqrt(self.problem.items)
        width = Fraction(self.problem.diameter) / Fraction(self.problem.lipschitz)
        return sympy.Rational(Fraction(self.smoothness) * width)

    def _batch(self, users: Any) -> Any:
        """Below K of the last phase."""
        import sympy

        q = sympy.Rational(self.shrink)
        room = 1 - sympy.Rational(FLOATS)
        return (1 - 2**-q) * room * users ** (1 - q) - 2

    def proved(self, least: int, most: int = MOST) -> bool:
        """Whether the claim is shown for every n in [least, most], in balls over all of them.

        That a >= 0 and that the last phase costs most hold from n = ``least`` on if they hold
        there: both sides of each move one way with n.
        """
        import sympy

        n = sympy.Symbol("n", positive=True)
        q = sympy.Rational(self.shrink)
        grows = sympy.Min(sympy.Rational(self.epsilon) / 160, sympy.Rational(9, 200))
        grows = grows * q * (self._batch(n) + 2) - (3 * q + sympy.Rational(5, 2)) / 2
        loss = sympy.log(n * self.problem.dimension / sympy.Rational(self.delta))
        # With 1 / K <= 1: mu^2 <= epsilon, where a >= 0.
        small = loss - 16 * (self.coins + 2) * 3 * sympy.sqrt(sympy.Rational(self.epsilon)) / 1000
        at = balls_at({n: Fraction(least)})
        if not all(certainly(side, is_positive, at) for side in (grows, small, self._batch(n) - 1)):
            return False
        gap = sympy.Rational(self.delta) - self.bound(n)
        return covered(
            [n],
            {n: (Fraction(least), Fraction(most))},
            lambda balls: certainly(gap, is_positive, balls),
            lambda values: certainly(-gap, is_positive, balls_at(values, gap)),
        )

    def least(self) -> int:
        """The least n from which on the claim is shown, and at least the theorem's own."""
        hypothesis = self.hypothesis()
        return hypothesis if self.proved(hypothesis) else least_from(self.proved, hypothesis)


def least_from(holds: Any, low: int = 1) -> int:
    """The least whole number above ``low`` at which what stays true from some on is true."""
    high = 2 * low
    while not holds(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
