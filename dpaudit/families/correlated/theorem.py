"""Correlated Gaussian noise, stated a second time: the largest ||C u||^2 of one record.

A record's moves u_t, of norm at most 1, sit in at most k rounds, b or more apart.  Strategies are
written out from their definitions: blocks as intervals of rounds, rows as sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache, lru_cache
from itertools import combinations
from math import comb, lcm
from typing import Any

from dpaudit.check.theorem import Premise, Table, Theorem, register
from dpaudit.errors import Unsupported
from dpaudit.exact import is_symbolic, log, maximum, sqrt, total
from dpaudit.families.correlated.node import CorrelatedGaussian
from dpaudit.pairs import Losses, Normal

# As the accountant: exact up to so many rounds, in fixed point above; searched up to so many.
EXACT, BITS, WORK, MOST_PATTERNS, MOST_PAIRS = 512, 192, 5_000_000, 20_000, 200
MOST_HELD = 512  # participations of a witness
Extent = tuple[Any, Any]  # an upper bound; what some move reaches, or None


def extent(node: CorrelatedGaussian) -> Extent:
    """Bounds of the largest squared move."""
    who = node.participation
    kind = getattr(node.strategy, "value", type(node.strategy).__name__)
    return _extent(kind, node.strategy, node.rounds, int(who.at_most), int(who.separation))


def column_of(kind: str, strategy: Any, rounds: Any) -> Extent:
    """The extent of a record in one round: the longest column."""
    return _extent(kind, strategy, rounds, 1, 1)


def turns_of(kind: str, strategy: Any, rounds: Any, turns: int, apart: int) -> Extent:
    """The extent of a record in at most ``turns`` rounds that are ``apart`` rounds apart."""
    return _extent(kind, strategy, rounds, turns, apart)


@lru_cache(maxsize=256)
def _extent(kind: str, strategy: Any, rounds: Any, most: int, apart: int) -> Extent:
    if is_symbolic(rounds):
        return _symbolic(kind, strategy, rounds, most, apart)
    last = int(rounds)
    times = min(most, (last + apart - 1) // apart)
    if kind == "identity":
        return _both(times)
    if kind == "independent_prefix":
        # Row i is the number of moves so far: each of 1..times-1 for b rows, then times.
        squares = (times - 1) * times * (2 * times - 1) // 6
        return _both(apart * squares + (last - (times - 1) * apart) * times**2)
    if kind == "sqrt_toeplitz":
        return _roots(last, times, apart)
    if kind == "BandedToeplitz":
        return _toeplitz(strategy.entries, last, times, apart)
    if kind == "LowerTriangular":
        return _explicit(strategy.entries, last, times, apart)
    if kind == "tree":
        return _tree(last, times, apart)
    if times > 1:
        raise Unsupported(f"{kind} with {times} participations: no theorem")
    return _honaker(last) if kind == "tree_honaker" else _smooth(last)


def _both(value: Any) -> Extent:
    return Fraction(value), Fraction(value)


def _levels(last: int) -> int:
    """Powers of two up to ``last``: round 1 is in the block of each, others in fewer."""
    return sum(1 for j in range(last.bit_length()) if 2**j <= last)


def _honaker(last: int) -> Extent:
    """Below: the estimates of prefixes 1, 2, 4, ... as one normal vector that moves by 1 each.

    Prefix 2n adds its own noisy block to prefix n and to as good an estimate of the other half, by
    least squares: in precisions 1 / V, p' = 1 + p / 2.  The new part of prefix 2n, which is its
    value minus prefix n's, has precision 1 / (1/p + 1) and the weight w' = 1 / p'
    for the block, so the squares are w'^2 / (w'^2 + (1 - w')^2 / p).
    """
    most, precision = Fraction(1), Fraction(1)
    for _ in range(_levels(last) - 1):
        wider = 1 + precision / 2
        own, other = 1 / wider, 1 - 1 / wider
        most += own**2 / (own**2 + other**2 / precision)
        precision = wider
    return Fraction(_levels(last)), most


def _smooth(last: int) -> Extent:
    """The most nodes that hold a round: left siblings on the paths of leaves 2, ..., last + 1.

    A leaf is its path, of as many left as right turns; round t is at leaf t.
    """
    half = next(half for half in range(1, last + 2) if comb(2 * half, half) > last)
    if last > EXACT:
        return Fraction(half), Fraction(1)
    turns = (sum(1 << (2 * half - 1 - k) for k in chosen)
             for chosen in combinations(range(2 * half), half))  # fmt: skip
    leaves = sorted(turns)[: last + 1]
    siblings = {
        (path >> depth) - 1 << depth | depth << 64
        for path in leaves[1:]
        for depth in range(2 * half)
        if path >> depth & 1
    }
    counts = [
        sum((leaf >> depth << depth | depth << 64) in siblings for depth in range(2 * half))
        for leaf in leaves[:-1]
    ]
    return _both(max(counts))


def _symbolic(kind: str, strategy: Any, rounds: Any, most: int, apart: int) -> Extent:
    import sympy

    if kind == "identity":
        bound = sympy.Min(most, sympy.ceiling(rounds / apart)) if most > 1 else Fraction(1)
        return bound, bound
    if kind == "independent_prefix" and most <= EXACT:
        rows = (maximum((rounds - j * apart, Fraction(0))) for j in range(most))
        bound = total((2 * j + 1) * left for j, left in enumerate(rows)) if most > 1 else rounds
        return bound, bound
    if most > 1 or kind in ("smooth_binary", "LowerTriangular"):
        raise Unsupported(f"{kind} in {rounds} rounds: no theorem")
    if kind == "sqrt_toeplitz":
        return 1 + log((4 * rounds - 1) / 3) / sympy.pi, None
    if kind == "BandedToeplitz":
        squares = total(c * c for c in strategy.entries)
        return squares, squares if len(strategy.entries) == 1 else None
    bound = sympy.floor(sympy.log(rounds) / sympy.log(2)) + 1
    return bound, bound if kind == "tree" else None


# --- Toeplitz strategies -------------------------------------------------------------------------


def _roots(last: int, times: int, apart: int) -> Extent:
    """c_k = c_{k-1} (2k - 1) / (2k): falling, so rounds 1, 1 + b, ... are the worst."""
    if last * times > WORK and times > 1:
        raise Unsupported(f"sqrt_toeplitz: {last} rounds are too many")
    if last > WORK:
        import sympy

        return 1 + log(Fraction(4 * last - 1, 3)) / sympy.pi, None
    unit = 4**last if last <= EXACT else 2**BITS
    high, low = [unit], [unit]
    for k in range(1, last):
        high.append((high[-1] * (2 * k - 1) + 2 * k - 1) // (2 * k))
        low.append(low[-1] * (2 * k - 1) // (2 * k))
    upper, reached = (_regular(c, last, times, apart) for c in (high, low))
    if last <= EXACT:  # 4^last c_k is whole: nothing was rounded
        return Fraction(upper, unit**2), Fraction(reached, unit**2)
    return Fraction((upper + unit - 1) // unit, unit), Fraction(reached // unit, unit)


def _regular(column: Sequence[Any], last: int, times: int, apart: int) -> Any:
    rows = [0] * last
    for start in range(0, times * apart, apart):
        for i, entry in enumerate(column[: last - start], start):
            rows[i] += entry
    return sum(row * row for row in rows)


def _toeplitz(column: Sequence[Fraction], last: int, times: int, apart: int) -> Extent:
    if times == 1:
        return _both(sum((c * c for c in column[:last]), Fraction(0)))
    if len(column) <= apart:
        final = column[: last - (times - 1) * apart]
        squares = (sum((c * c for c in part), Fraction(0)) for part in (column, final))
        return _both(sum(n * each for n, each in zip((times - 1, 1), squares, strict=True)))
    if last * times > WORK:
        raise Unsupported(f"Toeplitz: {last} rounds are too many")
    falling = list(column) == sorted(column, reverse=True) and min(column) >= 0
    if falling:
        return _both(_regular(column, last, times, apart))
    if last > EXACT:
        raise Unsupported(f"Toeplitz: {last} rounds are too many")
    rows = [
        [column[i - t] if i - t < len(column) else 0 for t in range(i + 1)] for i in range(last)
    ]
    return _explicit(rows, last, times, apart)


# --- by search -----------------------------------------------------------------------------------


def _allowed(last: int, times: int, apart: int) -> list[tuple[int, ...]] | None:
    """Every pattern of rounds 0..last-1, or None where they are many."""
    sizes: list[int] = []
    many = 0
    for j in range(times):
        sizes.append(last - j * (apart - 1))
        many += comb(max(sizes[-1], 0), j + 1)
        if many > MOST_PATTERNS:
            return None
    # Closing the gaps makes any choice of rounds allowed.
    return [
        tuple(t + i * (apart - 1) for i, t in enumerate(chosen))
        for j, size in enumerate(sizes, 1)
        for chosen in combinations(range(max(size, 0)), j)
    ]


def _most(weights: Sequence[Any], times: int, apart: int) -> Any:
    """The largest weight of an allowed pattern; from the last round back."""
    table = [[0] * (times + 1) for _ in range(len(weights) + apart + 1)]
    for t in reversed(range(len(weights))):
        for j in range(1, times + 1):
            table[t][j] = max(table[t + 1][j], weights[t] + table[t + apart][j - 1])
    return table[0][times]


def _tree(last: int, times: int, apart: int) -> Extent:
    """||C u||^2 is the sum over blocks of the squared number of moves inside."""
    if times == 1:
        return _both(_levels(last))
    chosen = _allowed(last, times, apart)
    if chosen is not None:
        return _both(max(_inside(pattern, last) for pattern in chosen))
    if times > MOST_HELD:
        raise Unsupported(f"tree: {times} participations are too many")
    upper = _loosely(last, times, apart)
    if last * times <= WORK:
        weights = [0] * last
        for m in range(1, last + 1):
            length = m & -m
            for t in range(m - length, m):
                weights[t] += min(times, (length + apart - 1) // apart)
        upper = min(upper, _most(weights, times, apart))
    distances = [apart]
    while (times - 1) * (wider := 2 ** distances[-1].bit_length()) < last:
        distances.append(wider)
    regular = (range(0, min(last, times * d), d) for d in distances)
    return Fraction(upper), Fraction(max(_inside(pattern, last) for pattern in regular))


def _loosely(last: int, times: int, apart: int) -> int:
    """The largest sum of squares where blocks of length m hold at most ceil(m / apart) moves."""

    @cache
    def inside(length: int, number: int) -> int:
        """The largest sum for the blocks inside one of this length; -1 if the moves do not fit."""
        if number > min(times, (length + apart - 1) // apart):
            return -1
        if length == 1:
            return 0
        splits = [
            (inside(length // 2, i), inside(length // 2, number - i), i) for i in range(number + 1)
        ]
        return max((a + i * i + b for a, b, i in splits if min(a, b) >= 0), default=-1)

    best, rounds_left = {0: 0}, last
    while rounds_left:
        length = rounds_left & -rounds_left
        rounds_left -= length
        options = [(number, inside(length, number)) for number in range(times + 1)]
        new: dict[int, int] = {}
        for before, value in best.items():
            for number, own in options:
                if own >= 0 and before + number <= times:
                    total_of = value + own + number**2
                    new[before + number] = max(new.get(before + number, 0), total_of)
        best = new
    return max(best.values())


def _inside(pattern: Sequence[int], last: int) -> int:
    counts: dict[int, int] = {}
    for t in pattern:
        m = t + 1
        while m <= last:
            counts[m] = counts.get(m, 0) + 1
            m += m & -m
    return sum(number**2 for number in counts.values())


def _explicit(rows: Any, last: int, times: int, apart: int) -> Extent:
    scale = lcm(*(Fraction(entry).denominator for row in rows for entry in row))
    columns = [[0] * t + [int(row[t] * scale) for row in rows[t:]] for t in range(last)]
    if times == 1 or not any(c for t, column in enumerate(columns) for c in column[t + apart :]):
        squares = [sum(c * c for c in column) for column in columns]
        return _both(Fraction(_most(squares, times, apart), scale**2))
    upper, reached = _quadratic(columns, last, times, apart)
    return Fraction(upper, scale**2), Fraction(reached, scale**2)


def _quadratic(columns: Any, last: int, times: int, apart: int) -> tuple[int, int]:
    """The largest squared norm over patterns of rounds: an upper bound, and an attained one."""
    sums: dict[tuple[int, int], int] = {}

    def dot(s: int, t: int) -> int:
        if (s, t) not in sums:
            sums[s, t] = sum(a * b for a, b in zip(columns[s], columns[t], strict=True))
        return sums[s, t]

    def size(pattern: Sequence[int]) -> tuple[int, bool]:
        entries = [dot(*sorted((s, t))) for s in pattern for t in pattern]
        return sum(map(abs, entries)), min(entries) >= 0

    chosen = _allowed(last, times, apart)
    if chosen is not None:
        sizes = [size(pattern) for pattern in chosen]
        return max(v for v, _ in sizes), max(v for v, reached in sizes if reached)
    if last > MOST_PAIRS:
        raise Unsupported(f"{last} rounds are too many")
    rows = [
        [abs(dot(min(s, t), max(s, t))) if s == t or abs(s - t) >= apart else 0
         for t in range(last)]
        for s in range(last)
    ]  # fmt: skip
    regular, reached = size(range(0, times * apart, apart))
    upper = _most([_most(row, times, apart) for row in rows], times, apart)
    return upper, regular if reached else dot(0, 0)


# --- what follows --------------------------------------------------------------------------------


def _mu(squared: Any, multiplier: Any) -> Any:
    if is_symbolic(squared) or is_symbolic(multiplier):
        return sqrt(squared) / multiplier
    return sqrt(squared / multiplier**2)


def _reached(node: Any, premises: Sequence[Premise]) -> bool:
    upper, reached = extent(node)
    return reached is not None and bool(upper == reached)


def _losses(node: Any) -> Losses:
    upper, reached = extent(node)
    above = (Normal(_mu(upper, node.noise_multiplier)),)
    if reached is None:
        return Losses(above, above)
    below = (Normal(_mu(reached, node.noise_multiplier)),)
    return Losses(above, above, below, below)


def _square(node: Any) -> Any:
    return extent(node)[0] / (2 * node.noise_multiplier**2)


NAME = "CorrelatedGaussian"
CORRELATED: Table = {
    ("gdp", NAME): Theorem(
        "correlated", lambda n: _mu(extent(n)[0], n.noise_multiplier), attained=_reached
    ),
    ("zcdp", NAME): Theorem("concentrated", _square, attained=_reached),
    ("rdp", NAME): Theorem("renyi", lambda n: lambda a: a * _square(n), attained=_reached),
    ("profile", NAME): Theorem("profile", _losses),
}

register(CORRELATED)
