"""How much noise a strategy leaves at equal privacy, and the strategy of least mean square error.

All errors are standard deviations per coordinate at mu = 1 and unit sensitivity: multiply by
C_clip / (B beta mu).
Source: Choquette-Choo, Ganesh, Thakurta 2024, Sections 1.1 and 2.2 (matrix factorisations).
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np

from dpaudit.errors import InvalidParameter
from dpaudit.families.correlated.moves import largest_move
from dpaudit.families.correlated.node import SINGLE, LowerTriangular, Strategy
from dpaudit.families.correlated.strategies import prefix_matrix, prefix_squares
from dpaudit.kernels.query import Array
from mechanisms.papers.srgd.accelerated import output_weights
from mechanisms.papers.srgd.constants import as_float
from mechanisms.papers.srgd.geometry import EtaSchedule
from mechanisms.papers.srgd.problem import whole

MOST_ROUNDS = 512
ITERATIONS = 300
DIGITS = 9


def column_norm(strategy: Strategy, rounds: int) -> float:
    """sens(C): the largest column norm of C, the sensitivity of what is noised."""
    whole(rounds, "rounds")
    return float(as_float(largest_move(strategy, Fraction(rounds), SINGLE).upper) ** 0.5)


def largest_prefix_error(strategy: Strategy, rounds: int) -> float:
    """sens(C) max_t ||B_t||, A = B C: of the noisiest prefix sum."""
    return column_norm(strategy, rounds) * float(prefix_squares(strategy, rounds).max() ** 0.5)


def mean_prefix_error(strategy: Strategy, rounds: int) -> float:
    """sens(C) ||B||_F / sqrt(T): the root mean square over prefix sums."""
    return column_norm(strategy, rounds) * float(prefix_squares(strategy, rounds).mean() ** 0.5)


def output_error(
    strategy: Strategy, rounds: int, schedule: EtaSchedule = EtaSchedule.LINEAR
) -> float:
    """sens(C) ||B^T w||: of y_T = sum_t w_t G_t, for linear losses where no projection binds.

    The noise that the model gets; a strategy with the least of the noisiest prefix sum need not
    have the least of this one.
    """
    weights = prefix_matrix(strategy, rounds).T @ output_weights(rounds, schedule)
    return column_norm(strategy, rounds) * float(np.linalg.norm(weights))


@lru_cache(maxsize=8)
def optimal_rmse(rounds: int) -> LowerTriangular:
    """The strategy of least root mean square prefix error, entries rounded to 9 digits.

    Iterates v <- diag((v^(1/2) A^T A v^(1/2))^(1/2)) and takes the lower triangular factor of
    X = v^(-1/2) (...)^(1/2) v^(-1/2) = C^T C, whose columns have norm 1.  What is declared are the
    rounded entries, whose column norms are exact rationals: rounding costs no privacy.
    Errors: InvalidParameter for over 512 rounds.
    Source: Denisov, McMahan, Rush, Smith, Thakurta 2022, Section 3 (the fixed point).
    """
    if whole(rounds, "rounds") > MOST_ROUNDS:
        raise InvalidParameter(
            f"optimal_rmse({rounds}): at most {MOST_ROUNDS} rounds; use sqrt_toeplitz"
        )
    square = _gram(rounds)
    flipped = np.linalg.cholesky(square[::-1, ::-1])
    matrix = flipped[::-1, ::-1].T
    rows = [" ".join(f"{e:.{DIGITS}f}" for e in row[: t + 1]) for t, row in enumerate(matrix)]
    return LowerTriangular("; ".join(rows))


def _gram(rounds: int) -> Array:
    """X = C^T C with a diagonal of ones, the fixed point of the iteration."""
    prefixes = np.tril(np.ones((rounds, rounds)))
    target = prefixes.T @ prefixes
    v = np.ones(rounds)
    for _ in range(ITERATIONS):
        root = np.sqrt(v)
        values, vectors = np.linalg.eigh(root[:, None] * target * root)
        middle = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        v, before = np.diag(middle).copy(), v
        if np.allclose(v, before, rtol=1e-9, atol=0.0):
            break
    scale = 1 / np.sqrt(np.diag(middle))
    return np.asarray(scale[:, None] * middle * scale)
