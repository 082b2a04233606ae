"""Two disjoint events at once, one for each direction of a claim of (epsilon, delta)-DP.

Let A favour P and B favour Q.  Draws that fall into A or B are kept: N_P of P and N_Q of Q.  Given
these numbers, a draw of P is in A with probability a, one of Q in B with probability b, and pure
epsilon-DP gives a / (1 - a) * b / (1 - b) <= e^(2 epsilon), because P[A] <= e^epsilon Q[A] and
Q[B] <= e^epsilon P[B].  Let H = (draws of P in A) + (draws of Q in B), a sum of N = N_P + N_Q
independent indicators.  Where h >= N m + 1 with m their mean probability, P[H >= h] is at most that
of Binomial(N, m) (Hoeffding 1956, Theorem 4), which grows with m; m is maximised over the pairs
(a, b) allowed.  This uses every draw for both directions, where a split of the error cannot.

For delta > 0, P and Q are each within delta / (1 + e^epsilon) in total variation of a pair that is
pure epsilon-DP (Dwork and Roth 2014, Lemma 3.17), so all draws but at most K are draws of such a
pair, K a quantile of Binomial(all trials, that distance); at worst the K are all among the H.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import bdtrc, expit

from dpaudit.audit.blackbox.claims import MAX_EPSILON_SEARCHED, Tally
from dpaudit.audit.blackbox.draws import Draws
from dpaudit.audit.blackbox.events import Event
from dpaudit.errors import InvalidParameter

LOG_ODDS_STEP = 4e-3  # Spacing of the grid of log odds on which the mean is maximised.
# Nats beyond epsilon that the grid covers; the logistic function is within e^-20 of its limit.
LOG_ODDS_REACH = 20.0
LOGISTIC_CURVATURE = 0.0963  # The largest second derivative of the logistic function, rounded up.
LEAST_TAIL = 1e-300  # A tail probability that underflows is replaced by this, which is larger.
_EPSILON_BISECTIONS = 22  # Halvings of the search for epsilon: 50 / 2^22 is about 1e-5.
# Factor above the relative rounding error of SciPy's binomial tail and logistic function.
_ROUND_UP = 1 + 1e-9


@dataclass(frozen=True, eq=False)
class Without:
    """One event without another."""

    event: Event
    other: Event

    @property
    def words(self) -> str:
        return f"{self.event.words}, and not ({self.other.words})"

    @property
    def code(self) -> str:
        own, other = self.event.code, self.other.code
        return f"({own}) & ~({other})" if own and other else ""

    def __call__(self, draws: Draws) -> npt.NDArray[Any]:
        return np.asarray(self.event(draws) & ~self.other(draws))


@dataclass(frozen=True, eq=False)
class Complement:
    """Everything but an event."""

    event: Event

    @property
    def words(self) -> str:
        return f"not ({self.event.words})"

    @property
    def code(self) -> str:
        return self.event.code and f"~({self.event.code})"

    def __call__(self, draws: Draws) -> npt.NDArray[Any]:
        return np.asarray(~self.event(draws))


def mirrored_p_value(own: Tally, mirror: Tally, epsilon: float, delta: float, trim: float) -> float:
    """P-value of (epsilon, delta)-DP for disjoint events fixed before the trials.

    ``own`` counts A (hits of P), ``mirror`` B (hits of Q); ``trim`` is spent on delta > 0.
    Rounded up.  Errors: InvalidParameter where the two were not counted on the same trials.
    """
    if (own.trials, own.other_trials) != (mirror.other_trials, mirror.trials):
        raise InvalidParameter("mirrored events: expected counts of the same trials")
    counts = own.hits + mirror.other_hits, own.other_hits + mirror.hits
    total = sum(counts)
    apart = delta * float(expit(-epsilon)) * _ROUND_UP
    spoilt = _spoilt(own.trials + own.other_trials, apart, trim) if delta else 0
    hits = own.hits + mirror.hits - spoilt
    mean = _largest_mean(counts, epsilon)
    if total == 0 or hits < total * mean + 1:
        return 1.0
    tail = max(float(bdtrc(hits - 1, total, mean)) * _ROUND_UP, LEAST_TAIL)
    return min(1.0, tail + (trim if delta else 0.0))


def mirrored_epsilon_lower(own: Tally, mirror: Tally, delta: float, error: float) -> float:
    """Lower bound on epsilon by inverting the p-value, which does not decrease with epsilon."""
    low, high = 0.0, MAX_EPSILON_SEARCHED
    if mirrored_p_value(own, mirror, 0.0, delta, error / 20) > error:
        return 0.0
    for _ in range(_EPSILON_BISECTIONS):
        middle = (low + high) / 2
        refused = mirrored_p_value(own, mirror, middle, delta, error / 20) <= error
        low, high = (middle, high) if refused else (low, middle)
    return low


def _largest_mean(draws_kept: tuple[int, int], epsilon: float) -> float:
    """The largest mean of a and b, weighted by draws kept, with log odds that add to 2 epsilon.

    On a grid of log odds epsilon +- t; between grid points by a tangent and the largest curvature
    of the logistic function; beyond the grid by its limits.  Rounded up.
    """
    total = max(sum(draws_kept), 1)
    first, second = draws_kept[0] / total, draws_kept[1] / total
    reach = epsilon + LOG_ODDS_REACH
    t = np.arange(-reach, reach + LOG_ODDS_STEP, LOG_ODDS_STEP)
    a, b = expit(epsilon + t), expit(epsilon - t)
    slope = np.abs(first * a * (1 - a) - second * b * (1 - b))
    inside = (
        first * a
        + second * b
        + slope * LOG_ODDS_STEP / 2
        + LOGISTIC_CURVATURE / 2 * (LOG_ODDS_STEP / 2) ** 2
    )
    beyond = max(first, second) + min(first, second) * float(expit(-LOG_ODDS_REACH))
    return min(1.0, max(float(inside.max()), beyond) + 1e-12)


def _spoilt(trials: int, rate: float, trim: float) -> int:
    """The smallest K that Binomial(trials, rate) exceeds with probability at most ``trim``."""
    low, high = -1, trials
    while high - low > 1:
        middle = (low + high) // 2
        enough = middle >= trials or bdtrc(middle, trials, rate) * _ROUND_UP <= trim
        low, high = (low, middle) if enough else (middle, high)
    return high
