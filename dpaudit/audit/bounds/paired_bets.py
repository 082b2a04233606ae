"""Pairs of test draws bet on, both sides at once: what the variational bounds have in common.

Paired draws (X, Y) multiply a wealth by (1 + c A(X)) (1 - c B(Y)), both factors positive.  Where a
claim gives E_P A <= E_Q B = w, the mean of the product is at most (1 + c w) (1 - c w) <= 1, so that
by Ville's inequality the wealth ever reaches 1 / error with probability at most ``error``.

Test draws are paired in a pseudo-random order that does not depend on them; draws without a partner
are left out.  One bet on both sides is cheaper than two bounds at half the error each.

Sources: Ville (1939); Waudby-Smith and Ramdas (2023).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from dpaudit.audit.bounds.estimators import MAXIMUM_TRIALS, TrainingScores, _error_rate, _of_type
from dpaudit.errors import InvalidParameter

FloatArray = npt.NDArray[np.float64]
Sides = tuple[FloatArray, FloatArray]

# Second stake that is tried, as a multiple of the one that is best for the expected effect.
BOLD_STAKE = 1.2
MAX_STAKE = 0.95  # Largest share of the wealth that one bet may lose.
# Seed of the order in which scores are paired; fixed, so that bounds are reproducible.
_PAIRING_SEED = 0x6470_6175
_PARAMETER_BISECTIONS = 24  # Halvings of the search for the largest refuted parameter.


def reach_of(training: TrainingScores, pairs: int, error: float) -> float:
    """2 log(1 / error) a pair: the square of a bound's width in standard deviations."""
    _of_type(training, TrainingScores)
    if not 1 <= pairs <= MAXIMUM_TRIALS:
        raise InvalidParameter(f"pairs = {pairs!r}: expected an integer in [1, 1e9]")
    return -2 * math.log(_error_rate(error)) / pairs


def paired(first: FloatArray, second: FloatArray) -> Sides:
    """Pairs of draws in an order that does not depend on them."""
    pairs = min(first.size, second.size)
    shuffled = np.random.default_rng(_PAIRING_SEED).permutation
    return shuffled(first)[:pairs], shuffled(second)[:pairs]


def peak(won: FloatArray, lost: FloatArray) -> float:
    """The largest log wealth after any pair, lowered by more than the sums' rounding error."""
    path = np.cumsum(won + lost)
    return float(np.max(path)) - 1e-7


def last_refuted(refuted: Callable[[float], bool], beyond: float) -> float:
    """The largest parameter found that is refuted, all smaller ones being so; 0 if none is."""
    low, high = 0.0, beyond if refuted(0.0) else 0.0
    for _ in range(_PARAMETER_BISECTIONS if high else 0):
        middle = low + (high - low) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low
