"""Points of an empirical receiver operating curve: estimates of what an attacker achieves.

Nothing here is a bound: rates of one sample of scores, ties shared, no confidence attached.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

# Rates at which reports print the true positive rate.
FALSE_POSITIVE_RATES = (1e-1, 1e-2, 1e-3, 1e-4)


def roc_curve(scores_in: FloatArray, scores_out: FloatArray) -> tuple[FloatArray, FloatArray]:
    """False and true positive rates of "score >= t" for every t, from (0, 0) to (1, 1)."""
    thresholds = np.unique(np.concatenate([scores_in, scores_out]))[::-1]
    rates = [
        1 - np.searchsorted(np.sort(side), thresholds, "left") / side.size
        for side in (scores_out, scores_in)
    ]
    return np.concatenate([[0.0], rates[0]]), np.concatenate([[0.0], rates[1]])


def area(scores_in: FloatArray, scores_out: FloatArray) -> float:
    """P(a member scores above a non-member) + half of P(they tie): the area under the curve."""
    ordered = np.sort(scores_out)
    below = np.searchsorted(ordered, scores_in, "left")
    above = np.searchsorted(ordered, scores_in, "right")
    return float(np.mean(below + above)) / (2 * scores_out.size)


def advantage(scores_in: FloatArray, scores_out: FloatArray) -> float:
    """The largest true positive rate less false positive rate over all thresholds."""
    false_positive, true_positive = roc_curve(scores_in, scores_out)
    return float(np.max(true_positive - false_positive))


def true_positive_rate_at(
    scores_in: FloatArray, scores_out: FloatArray, false_positive_rate: float
) -> float:
    """The largest true positive rate of a threshold whose false positive rate is at most that."""
    false_positive, true_positive = roc_curve(scores_in, scores_out)
    return float(np.max(true_positive[false_positive <= false_positive_rate]))
