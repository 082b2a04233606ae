"""Bounds from guesses of one unit's coins: an independent fair coin in each model.

*Theorem.*  Let training be (epsilon, delta)-DP in the unit, S_1, ..., S_m its fair coins in m
independent trainings, and let r guesses be chosen from everything that the trainings released, r
fixed beforehand.  With B ~ Binomial(m, delta) and s = e^epsilon / (1 + e^epsilon),
P[at least v of r guesses are right] <= sum over b of P[B = b] P[Binomial(r - b, 1 - s) <= r - v].

*Proof.*  Each training is a function of randomised response with the same epsilon and delta
(Kairouz, Oh and Viswanath 2015, theorem 3.4): with probability delta it tells the coin, else it
tells an answer that is right with probability s.  So a guess from the answers is right for sure in
the B models whose coin is told; given all answers, every other coin is still independent, and
guessed rightly with probability at most s.  Guesses on all models whose coin is told leave at most
Binomial(r - B, 1 - s) wrong ones in the sense of stochastic order, and fewer told coins leave more.

The dependence that the one-run theorem allows is not needed here, so that delta costs at most B
guesses and not a price for each coin.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit
from scipy.stats import binom

_LARGEST = 50.0  # epsilon
_CUT = 1e-6  # of the error: more told coins than this have a smaller chance, which is added
_ROUNDED = 1e-9  # relative, above the errors of SciPy's binomial distribution


def coins_p_value(wrong: Any, guesses: Any, told: tuple[Any, Any, float], epsilon: Any) -> Any:
    """The theorem's bound, for arrays of wrong guesses, guesses and epsilon that broadcast.

    ``told``: numbers of coins that the attacker sees, their probabilities, and the probability of
    more.
    """
    numbers, chances, more = told
    wrong, guesses, epsilon = np.broadcast_arrays(wrong, guesses, epsilon)
    guesses_left = np.maximum(guesses[..., None] - numbers, 0)
    under = binom.cdf(wrong[..., None], guesses_left, expit(-epsilon)[..., None])
    return np.minimum((under @ chances + more) * (1 + _ROUNDED), 1.0)


def coins_lower(correct: Any, guesses: Any, coins: int, delta: float, error: float) -> Any:
    """Lower bounds on epsilon, wrong with probability at most ``error`` each; 0 to 50.

    ``correct`` and ``guesses`` are numbers, or arrays of as many; ``coins``: models that count.
    """
    revealed = _told(coins, delta, error)
    guesses = np.atleast_1d(np.asarray(guesses))
    wrong = guesses - np.atleast_1d(np.asarray(correct))
    low, high = np.zeros(guesses.shape), np.full(guesses.shape, _LARGEST)
    refused = coins_p_value(wrong, guesses, revealed, low) <= error
    for _ in range(40):
        middle = (low + high) / 2
        below = coins_p_value(wrong, guesses, revealed, middle) <= error
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.where(refused, low, 0.0)


def _told(coins: int, delta: float, error: float) -> tuple[Any, Any, float]:
    most = 0 if delta == 0 else int(binom.isf(_CUT * error, coins, delta)) + 1
    numbers = np.arange(min(most, coins) + 1)
    return numbers, binom.pmf(numbers, coins, delta), float(binom.sf(most, coins, delta))


def best_number(
    odds: Any, references: int, coins: int, delta: float, error: float
) -> tuple[int, float]:
    """The number of guesses, surest first, of the largest expected bound, and this bound.

    ``odds``: the log odds of the surest guesses, in falling order, of all ``coins``, fitted to
    ``references`` known coins.  That none of r known guesses is wrong makes the next one right with
    probability (r + 1) / (r + 2) (Laplace's rule of succession), however large fitted odds are.
    """
    numbers = np.unique(np.geomspace(1, odds.size, 60).astype(int))
    seen = numbers / coins * references
    expected = np.minimum(np.cumsum(expit(odds))[numbers - 1], numbers * (seen + 1) / (seen + 2))
    wrong = np.round(numbers - expected).astype(int)
    bounds = coins_lower(numbers - wrong, numbers, coins, delta, error)
    best = int(np.argmax(bounds))
    if not bounds[best] > 0:  # what is likeliest to show anything
        best = int(np.argmax(coins_lower(numbers - wrong, numbers, coins, delta, 0.5)))
    return int(numbers[best]), float(bounds[best])


def strongest_coins(coins: int, delta: float, error: float) -> float:
    """The bound if every guess is right."""
    return float(coins_lower(coins, coins, coins, delta, error)[0])
