"""Products of branches, atoms, one normal and at most one Laplace pair: sums of closed forms.

Every choice of branches and outcomes, taken with mass p under P and q under Q, leaves a normal and
a Laplace pair, whose profile counts as p delta(x q / p), and as p where q = 0.  With the loss of
LaplaceShift(e) at -e and e, or between them of P density exp((u - e) / 2) / 4, and e' = epsilon:

    delta = Phi(mu/2 + (e - e')/mu) - x Phi(-mu/2 - (e + e')/mu)
            - exp((e' - e)/2 - mu^2/8) (Phi((e - e')/mu) - Phi(-(e + e')/mu)).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from dpaudit.exact import Number
from dpaudit.pairs.balls import Ball, bits, number, phi

MAX_CASES = 1000  # Cases into which a product may be split.
NO_SHIFT = Fraction(0)  # mu^2 or epsilon of a case without normal or Laplace noise.
CERTAIN = Fraction(1)  # Probability of a case that always occurs.


@dataclass(frozen=True)
class Case:
    """One choice: its masses, mu^2 of the normal noise that it leaves, epsilon of Laplace noise.

    ``laplaces``: of how many pairs that Laplace noise is.
    """

    p: Number = CERTAIN
    q: Number = CERTAIN
    square: Number = NO_SHIFT
    epsilon: Number = NO_SHIFT
    laplaces: int = 0

    def joined(self, other: Case) -> Case:
        """Both choices, independently."""
        return Case(
            self.p * other.p,
            self.q * other.q,
            self.square + other.square,
            self.epsilon + other.epsilon,
            self.laplaces + other.laplaces,
        )


@lru_cache(maxsize=256)
def has_closed_cases(pair: Any, most: int = MAX_CASES) -> bool:
    """Whether a pair's cases are at most so many, each of one Laplace pair at most."""
    return 0 < pair.case_count <= most and all(case.laplaces <= 1 for case in pair.cases)


@dataclass(frozen=True)
class _Known:
    """A case in balls; ``ratio`` is q / p, None where q = 0, or p may be: then p adds up to p."""

    p: Ball
    ratio: Ball | None
    mu: Ball
    epsilon: Ball


@lru_cache(maxsize=64)
def _known(pair: Any, precision: int) -> tuple[_Known, ...]:
    """The cases that P takes, at the precision of the context."""
    cases = []
    for case in pair.cases:
        p, noise = number(case.p), (number(case.square).sqrt(), number(case.epsilon))
        if not p > 0:
            cases.append(_Known(number(0).union(p), None, *noise))
        else:
            cases.append(_Known(p, None if case.q == 0 else number(case.q) / p, *noise))
    return tuple(cases)


def delta_of_cases(pair: Any, x: Ball) -> Ball:
    """delta at x > 0 of a pair that :func:`has_closed_cases`."""
    total = number(0)
    for case in _known(pair, bits()):
        total += case.p if case.ratio is None else case.p * _noise(case, x * case.ratio)
    return total


def _noise(case: _Known, x: Ball) -> Ball:
    mu, e, at = case.mu, case.epsilon, x.log()
    if mu == 0:
        return (1 - ((at - e) / 2).exp()).max(0).max(1 - x)
    passes, fails = phi(mu / 2 + (e - at) / mu), phi(-mu / 2 - (e + at) / mu)
    if e == 0:
        return passes - x * fails
    between = phi((e - at) / mu) - phi(-(e + at) / mu)
    return passes - x * fails - ((at - e) / 2 - mu * mu / 8).exp() * between
