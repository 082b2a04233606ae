"""How far one record moves a strategy's rows: the largest ||C u||^2 over its unit moves u.

A record takes part in rounds t_1 < ... < t_j, j at most k, neighbours at least b apart, with moves
u_t of norm at most 1.  With G = C^T C, ||C u||^2 = sum G_st <u_s, u_t> <= sum |G_st|, and equal
where all G_st are at least 0 and the u_t are equal.
Source: Choquette-Choo, McMahan, Rush, Thakurta 2023 (multi-epoch factorisation), Corollary 2.1;
banded strategies: Choquette-Choo et al. 2023 (amplified banded factorisation); falling Toeplitz
ones: Kalinin, Lampert 2024.  The proofs are short and stand here.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from itertools import accumulate, islice, pairwise
from math import comb, lcm
from typing import Any

from dpaudit.errors import Unsupported
from dpaudit.exact import Number, is_symbolic, log, maximum, total
from dpaudit.families.correlated.node import (
    LARGEST_MATRIX,
    BandedToeplitz,
    Factorisation,
    LowerTriangular,
    Participation,
    Strategy,
)

EXACT_ROUNDS = 512  # rounds up to which a move is an exact fraction
LARGEST_SUM = 5_000_000  # terms of a sum: more take minutes
MAX_PATTERNS = 20_000  # Patterns of participation that are enumerated.
GRAM_ROUNDS = 200  # rounds of a matrix whose patterns are searched
MOST_IN_TREE = 512  # participations that a tree's largest move is computed for
FIXED_POINT = 192  # bits after the point of a scaled integer

Gram = Callable[[int, int], Any]


@dataclass(frozen=True)
class Move:
    """The largest squared norm: an upper bound, and what some move reaches (None: not known)."""

    upper: Number
    reached: Number | None


def exactly(value: Number) -> Move:
    """A maximum that is known, and reached."""
    return Move(value, value)


@lru_cache(maxsize=1024)
def largest_move(strategy: Strategy, rounds: Number, who: Participation) -> Move:
    """The largest ||C u||^2 of one record.

    Errors: Unsupported where no bound is proved here: several participations in a symbolic number
    of rounds (but for identity and independent_prefix), or in too many rounds to search.
    """
    if who.at_most == 1:
        return _once(strategy, rounds)
    if is_symbolic(rounds):
        return _symbolic(strategy, rounds, int(who.at_most), int(who.separation))
    last, apart = int(rounds), int(who.separation)
    times = min(int(who.at_most), -(-last // apart))
    return _once(strategy, rounds) if times == 1 else _often(strategy, last, times, apart)


# --- one round a record: the largest column ------------------------------------------------------


def _once(strategy: Strategy, rounds: Number) -> Move:
    if isinstance(strategy, LowerTriangular):
        squares = ([row[t] ** 2 for row in strategy.entries[t:]] for t in range(int(rounds)))
        return exactly(max(map(sum, squares)))
    if isinstance(strategy, BandedToeplitz):
        # The first column, cut after so many rounds; in full where the rounds are a symbol.
        total = sum((c**2 for c in strategy.entries), Fraction(0))
        if is_symbolic(rounds):
            return exactly(total) if len(strategy.entries) == 1 else Move(total, None)
        return exactly(sum((c**2 for c in strategy.entries[: int(rounds)]), Fraction(0)))
    return _COLUMNS[strategy](rounds)


def levels(rounds: Number) -> Number:
    """floor(log2 T) + 1: the nodes of a Fenwick tree that hold round 1, and no round is in more."""
    if not is_symbolic(rounds):
        return Fraction(int(rounds).bit_length())
    import sympy

    return sympy.floor(sympy.log(rounds) / sympy.log(2)) + 1


def _blocks(rounds: Number) -> Move:
    """One dyadic block a level; the release combines them, and reaches less.

    Reached by round 1, seen in prefixes 1, 2, 4, ... alone.  With V_0 = 1 and V_j = 2 V_{j-1} /
    (1 + 2 V_{j-1}), prefix 2^j is V_j times its own noisy block and 1 - V_j times the estimates of
    its halves, of variance V_{j-1} each; less 1 - V_j times prefix 2^(j-1), its mean moves by V_j
    and its noise, V_j^2 + (1 - V_j)^2 V_{j-1}, is new.  The squares add up:
    V_j^2 / (V_j^2 + (1 - V_j)^2 V_{j-1}) = 4 V_{j-1} / (4 V_{j-1} + 1).
    """
    if is_symbolic(rounds):
        return Move(levels(rounds), None)
    reached, variance = Fraction(1), Fraction(1)
    for _ in range(int(rounds).bit_length() - 1):
        reached += 4 * variance / (4 * variance + 1)
        variance = 2 * variance / (1 + 2 * variance)
    return Move(levels(rounds), reached)


def _half_height(rounds: Number) -> Move:
    """The most blocks that hold one round: at most h/2, its left children above a leaf.

    Reached, h the smallest even one with binomial(h, h/2) > T: leaf t + 1 has exactly one left
    sibling of a node of its path whose last round is t, the deepest that holds any.  So prefix t
    has one block that no prefix before it has; as many blocks as prefixes, and each is released up
    to an invertible map.
    """
    if is_symbolic(rounds):
        raise Unsupported("smooth_binary in a symbolic number of rounds: bind the rounds first")
    half = 1
    while comb(2 * half, half) < rounds + 1:
        half += 1
    if rounds > EXACT_ROUNDS:
        return Move(Fraction(half), Fraction(1))  # prefix 1 is one block
    starts = smooth_starts(int(rounds), half)
    starts_less_ends = [0] * (int(rounds) + 1)
    for end, start in enumerate(starts, 1):
        starts_less_ends[start] += 1
        starts_less_ends[end] -= 1
    return exactly(Fraction(max(accumulate(starts_less_ends))))


def smooth_starts(rounds: int, half: int) -> list[int]:
    """How many rounds come before the block that ends with round 1, 2, ...

    The block ends at the ancestor of leaf t that is a child of the lowest common ancestor of leaves
    t and t + 1.
    """
    leaves = list(islice((n for n in range(4**half) if n.bit_count() == half), rounds + 1))
    shifts = [(leaf ^ other).bit_length() - 1 for leaf, other in pairwise(leaves)]
    return [
        bisect_left(leaves, leaf >> shift << shift)
        for leaf, shift in zip(leaves[:-1], shifts, strict=True)
    ]


def _roots(rounds: Number) -> Move:
    """Sum of c_k^2; for a symbol 1 + log((4 T - 1) / 3) / pi.

    Proof: (k + 1/4) c_k^2 grows to 1/pi, so c_k^2 < 1 / (pi (k + 1/4)), which is convex: its sum
    over 1..T-1 is at most its integral over [1/2, T - 1/2].
    """
    if not is_symbolic(rounds) and rounds <= LARGEST_SUM:
        return _toeplitz_roots(int(rounds), 1, 1)
    import sympy

    return Move(1 + log((4 * rounds - 1) / 3) / sympy.pi, None)


_COLUMNS: dict[Factorisation, Callable[[Number], Move]] = {
    Factorisation.IDENTITY: lambda rounds: exactly(Fraction(1)),
    Factorisation.INDEPENDENT_PREFIX: exactly,
    Factorisation.TREE: lambda rounds: exactly(levels(rounds)),
    Factorisation.TREE_HONAKER: _blocks,
    Factorisation.SMOOTH_BINARY: _half_height,
    Factorisation.SQRT_TOEPLITZ: _roots,
}


# --- several rounds a record ---------------------------------------------------------------------


def _symbolic(strategy: Strategy, rounds: Any, times: int, apart: int) -> Move:
    import sympy

    if strategy is Factorisation.IDENTITY:
        return exactly(sympy.Min(times, sympy.ceiling(rounds / apart)))
    if strategy is Factorisation.INDEPENDENT_PREFIX and times <= EXACT_ROUNDS:
        rows_left = [maximum((rounds - j * apart, Fraction(0))) for j in range(times)]
        return exactly(total((2 * j + 1) * rows for j, rows in enumerate(rows_left)))
    raise Unsupported(
        f"{strategy} with {times} participations in {rounds} rounds: bind the rounds to a number"
    )


def _often(strategy: Strategy, last: int, times: int, apart: int) -> Move:
    if strategy is Factorisation.IDENTITY:
        return exactly(Fraction(times))
    if strategy is Factorisation.INDEPENDENT_PREFIX:
        earlier = times * (times - 1) * (4 * times + 1) // 6  # sum of j (2 j + 1), j < times
        return exactly(Fraction(times**2 * last - apart * earlier))
    if strategy is Factorisation.SQRT_TOEPLITZ:
        return _toeplitz_roots(last, times, apart)
    if strategy is Factorisation.TREE:
        return _tree(last, times, apart)
    if isinstance(strategy, BandedToeplitz):
        return _banded(strategy.entries, last, times, apart)
    if isinstance(strategy, LowerTriangular):
        return _explicit(strategy.entries, last, times, apart)
    raise Unsupported(f"{strategy} with {times} participations: no bound is proved; use tree")


def _way_out(apart: int) -> str:
    return (
        f"use fewer rounds, or a BandedToeplitz of at most {min(apart, LARGEST_MATRIX)} bands, of "
        "which no two participations share a row"
    )


def regular(column: Sequence[Any], last: int, times: int, apart: int) -> Any:
    """||sum of columns 1, 1+b, 1+2b, ...||^2 of the Toeplitz strategy with this first column."""
    if len(column) <= apart:  # no two of them share a row
        # All but the last of them are whole.
        rounds_left = last - (times - 1) * apart
        return sum((times - (i >= rounds_left)) * entry**2 for i, entry in enumerate(column))
    sums = [
        sum(column[i - j * apart] for j in range(times) if 0 <= i - j * apart < len(column))
        for i in range(min(last, len(column) + (times - 1) * apart))
    ]
    return sum(v**2 for v in sums)


def _toeplitz_roots(last: int, times: int, apart: int) -> Move:
    """Exact up to ``EXACT_ROUNDS``; above that in fixed point, rounded up and down."""
    if last * times > LARGEST_SUM:
        raise Unsupported(
            f"sqrt_toeplitz: {times} participations in {last} rounds are too many: at most "
            f"{LARGEST_SUM} of rounds times participations are added up; {_way_out(apart)}"
        )
    if last <= EXACT_ROUNDS:
        column = [comb(2 * k, k) * 4 ** (last - k) for k in range(last)]
        return exactly(Fraction(regular(column, last, times, apart), 16**last))
    unit = 1 << FIXED_POINT
    above, below = [unit], [unit]
    for k in range(1, last):
        above.append(-(-above[-1] * (2 * k - 1) // (2 * k)))
        below.append(below[-1] * (2 * k - 1) // (2 * k))
    upper, reached = (regular(c, last, times, apart) for c in (above, below))
    scale = 1 << FIXED_POINT
    return Move(Fraction(-(-upper // scale), scale), Fraction(reached // scale, scale))


def _banded(coefficients: Sequence[Fraction], last: int, times: int, apart: int) -> Move:
    """Rounds 1, 1+b, ... are the worst where the coefficients fall, none negative, or b bands.

    Proof: G_st is a sum of products c_l c_(l+t-s) over l <= T - t; it falls as t or t - s grows,
    and the j-th round is at least 1 + (j-1) b, the i-th and j-th at least (j-i) b apart.  With at
    most b coefficients G_st = 0 for s != t, and G_tt falls as t grows.
    """
    if len(coefficients) > apart and last * times > LARGEST_SUM:
        raise Unsupported(
            f"{times} participations in {last} rounds are too many: at most {LARGEST_SUM} of "
            f"rounds times participations are added up; {_way_out(apart)}"
        )
    falling = all(a >= b for a, b in pairwise(coefficients))
    if (falling and coefficients[-1] >= 0) or len(coefficients) <= apart:
        return exactly(regular(coefficients, last, times, apart))
    if last > EXACT_ROUNDS:
        raise Unsupported(f"{last} rounds of rising or signed coefficients: at most {EXACT_ROUNDS}")
    rows = [
        [coefficients[i - t] if i - t < len(coefficients) else Fraction(0) for t in range(i + 1)]
        for i in range(last)
    ]
    return _explicit(rows, last, times, apart)


def _explicit(rows: Sequence[Sequence[Fraction]], last: int, times: int, apart: int) -> Move:
    scale = lcm(*(entry.denominator for row in rows for entry in row))
    columns = [[int(row[t] * scale) for row in rows[t:]] for t in range(last)]
    weights = [sum(c**2 for c in column) for column in columns]
    if all(not any(column[apart:]) for column in columns):
        return exactly(Fraction(heaviest(weights, times, apart), scale**2))

    @cache
    def gram(s: int, t: int) -> int:
        """Rounds from 0, s <= t."""
        return sum(a * b for a, b in zip(columns[s][t - s :], columns[t], strict=False))

    move = _searched(gram, last, times, apart)
    by = scale**2
    lower = None if move.reached is None else Fraction(move.reached, by)
    return Move(Fraction(move.upper, by), lower)


def _tree(last: int, times: int, apart: int) -> Move:
    """By search where the patterns are few; else the smaller of two bounds of the sum over blocks
    of (rounds inside)^2, where a block of length m holds at most ceil(m / b) of k: rounds that need
    not be b apart; rounds that are, with one factor of each square replaced by what fits.
    Reached: the best of :func:`spread`.
    """

    def blocks(t: int) -> Iterator[int]:
        while t <= last:
            yield t
            t += t & -t

    def gram(s: int, t: int) -> int:
        return sum(m - (m & -m) < s + 1 for m in blocks(t + 1))

    if _patterns(last, times, apart) <= MAX_PATTERNS:
        return _searched(gram, last, times, apart)
    if times > MOST_IN_TREE:
        raise Unsupported(f"tree: {times} participations: expected at most {MOST_IN_TREE}")
    upper = most_in_blocks(last, times, apart)
    if last * times <= LARGEST_SUM:
        fits = [sum(min(times, -(-(m & -m) // apart)) for m in blocks(t + 1)) for t in range(last)]
        upper = min(upper, heaviest(fits, times, apart))
    reached = max(_squared(gram, pattern)[0] for pattern in spread(last, times, apart))
    return Move(Fraction(upper), Fraction(reached))


def spread(last: int, times: int, apart: int) -> Iterator[range]:
    """Rounds at equal distances: the smallest one allowed, and powers of two."""
    distance = apart
    while (times - 1) * distance < last:
        yield range(0, times * distance, distance)
        distance = 1 << distance.bit_length()
    if distance == apart:  # fewer fit
        yield range(0, last, apart)


def most_in_blocks(last: int, times: int, apart: int) -> int:
    """The largest sum of squares of the numbers of rounds in the left blocks of a binary tree.

    A block of length 2^l with j rounds inside adds j^2 if it is a left one, and the best split of j
    among its halves.  The blocks of ``last`` in binary share all rounds.
    """
    inner = [[0, 0]]  # of one round, itself not counted
    for level in range(1, last.bit_length()):
        below = inner[-1]
        most = min(times, -(-(1 << level) // apart))
        inner.append([_split(_squares(below), below, j) for j in range(most + 1)])
    best = [0]
    for level in range(last.bit_length()):
        if last >> level & 1:
            own = _squares(inner[level])
            splits = range(min(times, len(best) + len(own) - 2) + 1)
            best = [_split(own, best, j) for j in splits]
    return max(best)


def _squares(inner: Sequence[int]) -> list[int]:
    return [j * j + value for j, value in enumerate(inner)]


def _split(one: Sequence[int], other: Sequence[int], both: int) -> int:
    """The largest one[i] + other[both - i]."""
    first, last = max(both - len(other) + 1, 0), min(both, len(one) - 1)
    return max(one[i] + other[both - i] for i in range(first, last + 1))


# --- search --------------------------------------------------------------------------------------


def heaviest(weights: Sequence[Any], times: int, apart: int) -> Any:
    """The largest total weight of at most ``times`` rounds, neighbours ``apart`` or more apart."""
    best = [0] * (len(weights) + 1)
    for _ in range(times):
        chosen = [0]
        for t, weight in enumerate(weights, 1):
            chosen.append(max(chosen[-1], weight + best[max(t - apart, 0)]))
        best = chosen
    return best[-1]


def _patterns(last: int, times: int, apart: int) -> int:
    """How many patterns there are; counted no further than ``MAX_PATTERNS``."""
    number = 0
    for j in range(1, times + 1):
        number += comb(max(last - (j - 1) * (apart - 1), 0), j)
        if number > MAX_PATTERNS:
            break
    return number


def patterns(last: int, times: int, apart: int, start: int = 0) -> Iterator[tuple[int, ...]]:
    """Every choice of 1 to ``times`` rounds from ``start``, neighbours ``apart`` or more apart."""
    if times == 0:
        return
    for t in range(start, last):
        yield (t,)
        for later in patterns(last, times - 1, apart, t + apart):
            yield (t, *later)


def _searched(gram: Gram, last: int, times: int, apart: int) -> Move:
    """Every pattern where they are few; else r_s = the heaviest row of |G|, then the heaviest r."""
    if _patterns(last, times, apart) <= MAX_PATTERNS:
        sums = [_squared(gram, chosen) for chosen in patterns(last, times, apart)]
        reached_values = [value for value, reached in sums if reached]
        return Move(max(value for value, _ in sums), max(reached_values))
    if last > GRAM_ROUNDS:
        raise Unsupported(
            f"{times} participations in {last} rounds: too many patterns to search; use at most "
            f"{GRAM_ROUNDS} rounds, or a strategy of at most as many bands as the separation"
        )
    rows = [[abs(gram(min(s, t), max(s, t))) for t in range(last)] for s in range(last)]
    for s, row in enumerate(rows):
        for t in range(last):
            row[t] *= s == t or abs(s - t) >= apart
    upper = heaviest([heaviest(row, times, apart) for row in rows], times, apart)
    return Move(upper, _regular(gram, last, times, apart))


def _squared(gram: Gram, chosen: Sequence[int]) -> tuple[Any, bool]:
    """Sum of |G_st| over a pattern, and whether all of them are at least 0."""
    off = [gram(s, t) for i, t in enumerate(chosen) for s in chosen[:i]]
    value = sum(gram(t, t) for t in chosen) + 2 * sum(map(abs, off))
    return value, all(g >= 0 for g in off)


def _regular(gram: Gram, last: int, times: int, apart: int) -> Any:
    value, reached = _squared(gram, range(0, last, apart)[:times])
    return value if reached else gram(0, 0)
