"""How long the noise of a prefix sum gets: bounds on max over rounds of ||b_t||.

b_t = sigma (B Z)_t is N(0, sigma^2 ||B_t||^2 I_p), A = B C the prefix sums; for the tree
||B_t||^2 is the number of ones in t.
Source: Choquette-Choo, Ganesh, Thakurta 2024, Lemma 5.6; the exact tails are ours.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from enum import StrEnum
from fractions import Fraction
from typing import Any

import numpy as np

from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.exact import (
    decimal_upper,
    enclose,
    exact,
    lower_fraction,
    sqrt,
    upper_fraction,
    working_precision,
)
from dpaudit.exact.domains import positive, probability
from dpaudit.families.correlated.moves import largest_move
from dpaudit.families.correlated.node import SINGLE, Factorisation, Strategy
from dpaudit.families.correlated.strategies import prefix_squares
from dpaudit.scope import choose
from mechanisms.papers.srgd.problem import whole

MOST_TAILS = 10_000
WIDER = 1 + 1e-12
LEAST_TAIL = Fraction(1, 10**300)


class Method(StrEnum):
    """How the bound is found.

    ``PAPER``: 4 log2(T)^(3/2) sqrt(p ln(2T/tail)), for the tree and T >= 2; loose, the
    more so the larger T is: 2 times in 2 rounds of one parameter, 73 times in 8,192 rounds of 1,000
    (tails of 1e-12).  ``EXACT``: a union bound over the rounds of chi-square tails, taken in ball
    arithmetic.
    """

    PAPER = "paper"
    EXACT = "exact"


def prefix_noise_bound(
    rounds: int,
    dimension: int,
    tail: object,
    strategy: Strategy = Factorisation.TREE,
    method: Method = Method.EXACT,
) -> float:
    """What no ||b_t|| exceeds but with probability ``tail``, per unit of sensitivity at mu = 1.

    There sigma = sens(C), the largest column norm; otherwise multiply by C_clip / (B beta mu).
    Rounded up.  Errors: InvalidParameter for counts that are not positive, a tail outside (0, 1),
    or the paper's method for another strategy or one round; Unsupported for too small a tail, or
    over 10^4 rounds of a strategy other than tree and independent_prefix.
    """
    _counts(rounds, dimension)
    allowed, strategy = _tail(tail), named(strategy)
    if choose(Method, method, "method") is Method.PAPER:
        return _printed(rounds, dimension, float(allowed), strategy)
    norms = _row_norms(strategy, rounds)
    radius = _radius(norms, dimension, allowed)
    columns = upper_fraction(enclose(sqrt(largest_move(strategy, Fraction(rounds), SINGLE).upper)))
    if columns is None:
        raise Unsupported(f"{strategy}: no finite column norm in {rounds} rounds")
    return math.nextafter(float(columns) * radius * WIDER, math.inf)


def prefix_noise_tail(
    rounds: int, dimension: int, bound: object, strategy: Strategy = Factorisation.TREE
) -> Fraction:
    """An upper bound on P[max ||b_t|| > ``bound`` sigma]: the chi-square tails of all rounds.

    Rounded up to 12 digits, and to 1e-300 at least.
    Errors: InvalidParameter for counts or a bound that are not positive, or where the sum is 1 or
    more, which bounds nothing.
    """
    _counts(rounds, dimension)
    length = exact(bound, "bound")
    positive(length, "bound")
    total = _tails(_row_norms(named(strategy), rounds), dimension, enclose(length))
    found = upper_fraction(total)
    if found is None or found >= 1:
        raise InvalidParameter(
            f"prefix_noise_tail: over {float(enclose(length).mid()):.3g} sigma the tails sum to 1 "
            "or more; use a larger bound"
        )
    return Fraction(decimal_upper(found)) if found > LEAST_TAIL else LEAST_TAIL


def named(strategy: Strategy | str) -> Strategy:
    """A strategy, or the factorisation of this name; errors: InvalidParameter for no such name."""
    if isinstance(strategy, str):
        return choose(Factorisation, strategy, "strategy")
    return strategy


def _counts(rounds: int, dimension: int) -> None:
    for name, value in (("rounds", rounds), ("dimension", dimension)):
        whole(value, name)


def _tail(tail: object) -> Fraction:
    value = exact(tail, "tail")
    positive(value, "tail")
    probability(value, "tail")
    if isinstance(value, Fraction):
        return value
    found = lower_fraction(enclose(value))
    if found is None or found <= 0:
        raise InvalidParameter(f"tail = {value}: expected a number in (0, 1)")
    return found


def _printed(rounds: int, dimension: int, tail: float, strategy: Strategy) -> float:
    if strategy is not Factorisation.TREE or rounds < 2:
        raise InvalidParameter(
            f"the printed bound is one for a tree of at least 2 rounds, not {strategy} of {rounds}"
        )
    size = 4 * math.log2(rounds) ** 1.5 * math.sqrt(dimension * math.log(2 * rounds / tail))
    return float(size * WIDER)


# --- chi-square tails ----------------------------------------------------------------------------


def _tails(norms: Counter[float], dimension: int, length: Any) -> Any:
    """Ball around the sum over rounds of P[chi^2_p > length^2 / ||B_t||^2]."""
    import flint

    with working_precision():
        half, total = flint.arb(dimension) / 2, flint.arb(0)
        for norm, times in norms.items():
            point = length * length / (2 * flint.arb(norm))
            total += times * point.gamma_upper(half, regularized=1)
        return total


def _radius(norms: Counter[float], dimension: int, allowed: Fraction) -> float:
    """A length over which the tails sum to at most ``allowed``, near the least.

    Found in floats, and then widened until ball arithmetic confirms it.
    """
    found, wider = _nearly(norms, dimension, float(allowed)), 1e-12
    while not _within(norms, dimension, found * (1 + wider), allowed):
        wider *= 10
        if wider > 1:
            raise Unsupported(
                f"prefix noise: no bound found at tail {decimal_upper(allowed, 3)}: use a larger"
            )
    return found * (1 + wider)


def _nearly(norms: Counter[float], dimension: int, allowed: float) -> float:
    from scipy.special import chdtrc, chdtri

    squares, times = np.array(list(norms)), np.array(list(norms.values()), dtype=np.float64)
    lower = 0.0
    upper = math.sqrt(squares.max() * float(chdtri(dimension, allowed / times.sum())))
    while math.isfinite(upper) and upper - lower > 1e-13 * upper:
        middle = (lower + upper) / 2
        if times @ chdtrc(dimension, middle**2 / squares) <= allowed:
            upper = middle
        else:
            lower = middle
    return upper


def _within(norms: Counter[float], dimension: int, length: float, allowed: Fraction) -> bool:
    import flint

    if not math.isfinite(length):
        return False
    return bool(_tails(norms, dimension, flint.arb(length)) <= enclose(allowed))


# --- ||B_t||^2, and in how many rounds -----------------------------------------------------------


def _row_norms(strategy: Strategy, rounds: int) -> Counter[float]:
    """Squared norms of the rows of B = A C^-1 in all rounds, rounded up."""
    if strategy is Factorisation.TREE:
        return Counter({float(k): n for k, n in _ones(rounds).items()})
    if strategy is Factorisation.INDEPENDENT_PREFIX:
        return Counter({1.0: rounds})
    if rounds > MOST_TAILS:
        raise Unsupported(f"{strategy} in {rounds} rounds: its noise is bounded up to {MOST_TAILS}")
    return Counter(float(s) for s in prefix_squares(strategy, rounds) * (1 + 1e-9))


def _ones(rounds: int) -> Counter[int]:
    """How many of 1, ..., T have k ones in binary, by the highest bit in which they are smaller."""
    found: Counter[int] = Counter({rounds.bit_count(): 1})
    for seen, bit in enumerate(_set_bits(rounds)):
        for more in range(bit + 1):
            found[seen + more] += math.comb(bit, more)
    found[0] -= 1  # the number 0
    return Counter({k: n for k, n in found.items() if n})


def _set_bits(value: int) -> Iterator[int]:
    for bit in range(value.bit_length() - 1, -1, -1):
        if value >> bit & 1:
            yield bit
