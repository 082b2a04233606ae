"""Products of branches, atoms, one normal and at most one Laplace pair: sums of closed forms.

Every choice of branches and outcomes, taken with mass p under P and q under Q, leaves a normal and
a Laplace pair, whose profile counts as p delta(x q / p), and as p where q = 0.  With the loss of
LaplaceShift(e) at -e and e, or between them of P density exp((u - e) / 2) / 4, and e' = epsilon:

    delta = Phi(mu/2 + (e - e')/mu) - x Phi(-mu/2 - (e + e')/mu)
            - exp((e' - e)/2 - mu^2/8) (Phi((e - e')/mu) - Phi(-(e + e')/mu)).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from dpaudit.errors import Unsupported
from dpaudit.exact import Number
from dpaudit.pairs import Atoms, Branched, LaplaceShift, Normal, Pair, Product

Ball = Any
MOST = 1000
NOTHING, CERTAIN = Fraction(0), Fraction(1)


@dataclass(frozen=True)
class Term:
    """One choice: its masses, the square of what is left of normal noise, and of Laplace noise."""

    p: Number
    q: Number
    square: Number = NOTHING
    epsilon: Number = NOTHING

    def joined(self, other: Term) -> Term:
        """Both choices, independently."""
        return Term(
            self.p * other.p,
            self.q * other.q,
            self.square + other.square,
            self.epsilon + other.epsilon,
        )


def is_mixture(pair: Product) -> bool:
    """Whether a product is of this kind, each factor once, with at most ``MOST`` terms."""
    branched = any(isinstance(factor, Branched) for factor, _ in pair.parts)
    return branched and 0 < _count(pair) <= MOST and _laplaces(pair) <= 1


def _count(pair: Pair) -> int:
    """How many terms there are; 0 for another kind."""
    if isinstance(pair, (Normal, LaplaceShift)):
        return 1
    if isinstance(pair, Atoms):
        return len(pair.outcomes)
    if isinstance(pair, Branched):
        counts = [_count(base) for _, _, base in pair.branches]
        return sum(counts) if all(counts) else 0
    if isinstance(pair, Product) and all(times == 1 for _, times in pair.parts):
        return math.prod(_count(factor) for factor, _ in pair.parts)
    return 0


def _laplaces(pair: Pair) -> int:
    """How many Laplace pairs a choice leaves at most."""
    if isinstance(pair, Branched):
        return max(_laplaces(base) for _, _, base in pair.branches)
    if isinstance(pair, Product):
        return sum(_laplaces(factor) for factor, _ in pair.parts)
    return int(isinstance(pair, LaplaceShift))


def _terms(pair: Pair) -> Iterator[Term]:
    if isinstance(pair, Normal):
        yield Term(CERTAIN, CERTAIN, pair.mu**2)
    elif isinstance(pair, LaplaceShift):
        yield Term(CERTAIN, CERTAIN, NOTHING, pair.epsilon)
    elif isinstance(pair, Atoms):
        yield from (Term(p, q) for p, q in pair.outcomes)
    elif isinstance(pair, Branched):
        for p, q, base in pair.branches:
            yield from (Term(p, q).joined(term) for term in _terms(base))
    elif isinstance(pair, Product):
        found = [Term(CERTAIN, CERTAIN)]
        for factor, _ in pair.parts:
            own = list(_terms(factor))
            found = [one.joined(other) for one in found for other in own]
        yield from found
    else:
        raise Unsupported(f"{type(pair).__name__}: no term of a mixture")


@dataclass(frozen=True)
class _Known:
    """A term in balls; ``ratio`` is q / p, None where q = 0."""

    p: Ball
    ratio: Ball | None
    mu: Ball
    epsilon: Ball


@lru_cache(maxsize=64)
def _known(pair: Product, number: Callable[[Any], Ball], bits: int) -> tuple[_Known, ...]:
    """The terms that P takes, at the precision of the context (``bits``)."""
    return tuple(
        _Known(
            number(term.p),
            None if term.q == 0 else number(term.q) / number(term.p),
            number(term.square).sqrt(),
            number(term.epsilon),
        )
        for term in _terms(pair)
        if term.p != 0
    )


def mixture_delta(pair: Product, x: Ball, number: Callable[[Any], Ball]) -> Ball:
    """delta at x > 0 of a product that :func:`is_mixture`; ``number`` makes balls of numbers."""
    import flint

    whole = flint.arb(0)
    for term in _known(pair, number, int(flint.ctx.prec)):
        whole += term.p if term.ratio is None else term.p * _noise(term, x * term.ratio)
    return whole


def _noise(term: _Known, x: Ball) -> Ball:
    mu, e, at = term.mu, term.epsilon, x.log()
    if mu == 0:
        return (1 - ((at - e) / 2).exp()).max(0).max(1 - x)
    passes, fails = _phi(mu / 2 + (e - at) / mu), _phi(-mu / 2 - (e + at) / mu)
    if e == 0:
        return passes - x * fails
    between = _phi((e - at) / mu) - _phi(-(e + at) / mu)
    return passes - x * fails - ((at - e) / 2 - mu * mu / 8).exp() * between


def _phi(z: Ball) -> Ball:
    import flint

    return (-z / flint.arb(2).sqrt()).erfc() / 2
