"""Strategies as float64 matrices: C, B with A = B C, and the root K of the prefix noise.

A is the lower triangle of ones.  Prefix t of C X + Z, Z with independent N(0, s^2) entries, carries
the noise (B Z)_t of covariance s^2 B B^T = s^2 K K^T with K lower triangular: so B Z has the law of
K Z', one fresh row of Z' a round.  K = B where C is square.
Source: Denisov, McMahan, Rush, Smith, Thakurta 2022, Theorem 2.1.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import islice
from math import comb
from typing import Any

import numpy as np

from dpaudit.errors import InvalidParameter
from dpaudit.families.correlated.node import (
    BandedToeplitz,
    Factorisation,
    LowerTriangular,
    Strategy,
)
from dpaudit.kernels.query import Array

LARGEST_DENSE = 1_024  # rounds of a strategy that needs its whole matrix
LARGEST_ROUNDS = 1_000_000  # rounds of a strategy whose noise is made as it is asked for
LARGEST_RATIO = 1e9  # growth of noise beyond which floats lose the fresh part


def strategy_matrix(strategy: Strategy, rounds: int) -> Array:
    """C, one row for every number that is noised, ``rounds`` columns.

    Errors: InvalidParameter for more rounds than a dense matrix is made for, entries that are no
    float64, or another number of rounds than an explicit strategy has.
    """
    _dense(strategy, rounds)
    if strategy in _BLOCKS:
        return _covered(_BLOCKS[strategy](rounds)[0], rounds)
    return _square(strategy, rounds)


def prefix_matrix(strategy: Strategy, rounds: int) -> Array:
    """B, ``rounds`` rows: A = B C.

    Errors: as :func:`strategy_matrix`.
    """
    _dense(strategy, rounds)
    if strategy in _BLOCKS:
        return _BLOCKS[strategy](rounds)[1]
    from scipy.linalg import solve_triangular

    prefixes = np.tril(np.ones((rounds, rounds)))
    matrix = _square(strategy, rounds)
    return np.asarray(solve_triangular(matrix.T, prefixes.T, lower=False).T)


@lru_cache(maxsize=4)
def prefix_root(strategy: Strategy, rounds: int) -> Array:
    """K, lower triangular with K K^T = B B^T; read-only.

    Errors: InvalidParameter as :func:`strategy_matrix`, and where one round's prefix noise is
    10^9 times what is fresh in another's: float64 cannot carry it.
    """
    prefixes = prefix_matrix(strategy, rounds)
    root = np.asarray(
        np.linalg.cholesky(prefixes @ prefixes.T) if strategy in _BLOCKS else prefixes
    )
    _carried(strategy, np.abs(np.diagonal(root)), np.sqrt(np.square(root).sum(axis=1)))
    root.flags.writeable = False
    return root


@lru_cache(maxsize=64)
def prefix_column(strategy: Strategy, rounds: int) -> Array:
    """The first column of K where it is Toeplitz: running sums of the inverse of C's; read-only.

    Errors: as :func:`prefix_root`, for over 10^6 rounds; of strategies that are not Toeplitz.
    """
    if rounds > LARGEST_ROUNDS:
        raise InvalidParameter(
            f"CorrelatedGaussian: {rounds} rounds of {strategy}: expected at most {LARGEST_ROUNDS}"
        )
    column: Array
    if strategy is Factorisation.SQRT_TOEPLITZ:
        column = _roots(rounds)
    elif isinstance(strategy, BandedToeplitz):
        from scipy.signal import lfilter

        impulse = np.zeros(rounds)
        impulse[0] = 1.0
        with np.errstate(all="ignore"):
            column = np.cumsum(lfilter([1.0], _floats(strategy.entries), impulse))
    else:
        raise InvalidParameter(f"{strategy} is not a Toeplitz strategy: use its prefix_root")
    with np.errstate(all="ignore"):
        norm = np.sqrt(np.square(column).sum(keepdims=True))
    _carried(strategy, np.abs(column[:1]), norm)
    column.flags.writeable = False
    return column


def prefix_squares(strategy: Strategy, rounds: int) -> Array:
    """||B_t||^2, the variance of prefix t's noise over s^2, t = 1..``rounds``: shape (rounds,).

    Errors: as :func:`prefix_root`.
    """
    if strategy is Factorisation.TREE:
        return np.array([t.bit_count() for t in range(1, rounds + 1)], dtype=np.float64)
    if strategy is Factorisation.IDENTITY:
        return np.arange(1.0, rounds + 1)
    if strategy is Factorisation.INDEPENDENT_PREFIX:
        return np.ones(rounds)
    if is_toeplitz(strategy):
        return np.cumsum(np.square(prefix_column(strategy, rounds)))
    return np.asarray(np.square(prefix_root(strategy, rounds)).sum(axis=1))


def is_toeplitz(strategy: Strategy) -> bool:
    """Whether B is given by its first column, however many rounds there are."""
    return strategy is Factorisation.SQRT_TOEPLITZ or isinstance(strategy, BandedToeplitz)


def fenwick(end: int) -> tuple[int, ...]:
    """The last rounds of the dyadic blocks that tile 1..end, the longest block first."""
    ends: tuple[int, ...] = ()
    while end:
        ends = (end, *ends)
        end &= end - 1
    return ends


# --- square strategies ---------------------------------------------------------------------------


def _dense(strategy: Strategy, rounds: int) -> None:
    if rounds > LARGEST_DENSE:
        raise InvalidParameter(
            f"CorrelatedGaussian: {rounds} rounds of {strategy} need a dense matrix, which is made "
            f"for at most {LARGEST_DENSE}; tree, identity, independent_prefix, sqrt_toeplitz and "
            "a BandedToeplitz need none"
        )


def _carried(strategy: Strategy, fresh: Array, whole: Array) -> None:
    """``fresh``: |K_tt|; ``whole``: ||K_t||."""
    with np.errstate(all="ignore"):
        ratio = whole.max() / fresh.min()
    if not (fresh.min() > 1e-100 and whole.max() < 1e100 and ratio <= LARGEST_RATIO):
        raise InvalidParameter(
            f"CorrelatedGaussian: the prefix noise of {strategy} grows to over {LARGEST_RATIO:.0g} "
            "times what is fresh in a round, which float64 cannot carry; use another strategy"
        )


def _floats(entries: Iterable[Any]) -> Array:
    try:
        return np.array([float(entry) for entry in entries])
    except OverflowError:
        raise InvalidParameter(
            "CorrelatedGaussian: an entry of its strategy is no float64"
        ) from None


def _square(strategy: Strategy, rounds: int) -> Array:
    if isinstance(strategy, LowerTriangular):
        if len(strategy.entries) != rounds:
            raise InvalidParameter(
                f"rounds = {rounds}: the strategy has {len(strategy.entries)} explicit rows"
            )
        matrix = np.zeros((rounds, rounds))
        for t, row in enumerate(strategy.entries):
            matrix[t, : t + 1] = _floats(row)
        return matrix
    if isinstance(strategy, BandedToeplitz):
        return _toeplitz(_floats(strategy.entries)[:rounds], rounds)
    return _NAMED[strategy](rounds)


def _toeplitz(column: Array, rounds: int) -> Array:
    padded = np.concatenate([column, np.zeros(rounds - len(column))])
    later = np.subtract.outer(np.arange(rounds), np.arange(rounds))
    return np.where(later >= 0, padded[later], 0.0)


def _roots(rounds: int) -> Array:
    """c_0 = 1, c_k = c_{k-1} (2k - 1) / (2k)."""
    k = np.arange(1, rounds)
    return np.concatenate([[1.0], np.cumprod((2 * k - 1) / (2 * k))])


def _tree(rounds: int) -> Array:
    ends = np.arange(1, rounds + 1)
    return _covered(np.stack([ends - (ends & -ends), ends], axis=1), rounds)


_NAMED: dict[Factorisation, Callable[[int], Array]] = {
    Factorisation.IDENTITY: np.eye,
    Factorisation.INDEPENDENT_PREFIX: lambda rounds: np.tril(np.ones((rounds, rounds))),
    Factorisation.TREE: _tree,
    Factorisation.SQRT_TOEPLITZ: lambda rounds: _toeplitz(_roots(rounds), rounds),
}


# --- strategies of blocks: (start, end] of every row of C, and B ---------------------------------


def _covered(blocks: Array, rounds: int) -> Array:
    """C of blocks (start, end], shape (rows, 2): 1 for every round inside."""
    steps = np.arange(1, rounds + 1)
    return ((blocks[:, :1] < steps) & (steps <= blocks[:, 1:])).astype(np.float64)


def _honaker(rounds: int) -> tuple[Array, Array]:
    """All dyadic blocks that end by ``rounds``; B by least squares from those inside a prefix.

    A block of 2^k rounds, estimated from itself (variance 1) and its halves (2 V), has variance
    V' = 2V / (1 + 2V), V = 1 for a round; its own weight is V', that of its halves 1 - V'.
    Source: Honaker 2015.
    """
    levels = range(rounds.bit_length())
    blocks = np.array([(e - 2**k, e) for k in levels for e in range(2**k, rounds + 1, 2**k)])
    sizes = blocks[:, 1] - blocks[:, 0]
    own = [1.0]
    for _ in levels:
        own.append(2 * own[-1] / (1 + 2 * own[-1]))
    matrix = np.zeros((rounds, len(blocks)))
    for t in range(1, rounds + 1):
        for end in fenwick(t):
            size = end & -end
            inside = (blocks[:, 0] >= end - size) & (blocks[:, 1] <= end)
            factor, level = 1.0, size.bit_length() - 1
            for k in range(level, -1, -1):
                matrix[t - 1, inside & (sizes == 2**k)] = factor * own[k]
                factor *= 1 - own[k]
    return blocks, matrix


def _smooth(rounds: int) -> tuple[Array, Array]:
    """Round t at the t-th leaf with h/2 ones; prefix t is the left siblings on leaf t+1's path.

    Nodes above no such leaf need no noise and have none.
    Source: Andersson, Pagh 2023.
    """
    half = next(k for k in range(1, rounds + 2) if comb(2 * k, k) > rounds)
    leaves = list(islice(_addresses(half), rounds + 1))
    blocks: dict[tuple[int, int], int] = {}
    entries = []
    for t, leaf in enumerate(leaves[1:]):
        for bit in range(2 * half):
            end = bisect_left(leaves, leaf >> bit << bit)
            start = bisect_left(leaves, (leaf >> bit) - 1 << bit)
            if leaf >> bit & 1 and start < end:
                entries.append((t, blocks.setdefault((start, end), len(blocks))))
    matrix = np.zeros((rounds, len(blocks)))
    matrix[tuple(np.array(entries).T)] = 1.0
    return np.array(list(blocks)), matrix


def _addresses(half: int) -> Iterable[int]:
    """Numbers of 2 half binary digits, half of them ones, rising (Gosper's next permutation)."""
    address = (1 << half) - 1
    while True:
        yield address
        low = address & -address
        ripple = address + low
        address = ripple | ((address ^ ripple) // low >> 2)


_BLOCKS: dict[Any, Callable[[int], tuple[Array, Array]]] = {
    Factorisation.TREE_HONAKER: _honaker,
    Factorisation.SMOOTH_BINARY: _smooth,
}
