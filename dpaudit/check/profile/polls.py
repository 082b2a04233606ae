"""One poll of answers of two values, from above: every number k of others that hold the one.

With p = e^e0 / (1 + e^e0), q = 1 - p, the others' ones are A + B, A binomial(k, p), and N - k - B
binomial(N - k, p).  The masses of t ones in all are P = p f(t - 1) + q f(t) and Q = q f(t - 1) + p
f(t), f the masses of A + B; delta(x) is the sum of (P - x Q)+, at the worst k.

Laws of k + 1 are made of those of k, q f(t) + p f(t - 1), so that all terms are positive, and every
mass is within 3 roundings a step.  Masses that fall out of a window are added up: those of all
later laws are short of no more than these in all, and whatever is missing may be one-sided.
"""

from __future__ import annotations

import math
from fractions import Fraction

from dpaudit.check.profile.cells import UNIT, ball
from dpaudit.exact import is_symbolic
from dpaudit.exact.arrays import Floats, np
from dpaudit.pairs import Pair

MOST_POLLED = 20_000  # other reports: each number of ones among them is tried
FARTHEST = 30.0  # largest epsilon
REACH, MORE_COUNTS = 10.5, 40  # a binomial window: standard deviations, and counts more


def polled_at_most(pair: Pair, epsilon: Fraction, delta: Fraction) -> bool:
    """Whether delta(epsilon) <= delta for certain."""
    import flint

    report = pair.report
    if report is None or not report.is_polled or not 0 <= epsilon <= FARTHEST:
        return False
    others = report.others
    if is_symbolic(others) or not (others == int(others) and 0 < others <= MOST_POLLED):
        return False
    with flint.ctx.workprec(128):
        loss = ball(report.epsilon)
        if not 0 < loss < FARTHEST:
            return False
        p, q = (float(chance.mid()) for chance in (1 / (1 + (-loss).exp()), 1 / (1 + loss.exp())))
        x = float(ball(epsilon).exp().mid()) * (1 - 4 * UNIT)
    return largest_delta(int(others), (p, q), x) <= delta


def largest_delta(others: int, chances: tuple[float, float], x: float) -> float:
    """At least delta(x) of every k."""
    p, q = chances
    laws, lost = _laws(others, p, q)
    width = laws.shape[1]
    # Roundings of a mass of A + B: both factors', a sum over a window, and then those of P and Q.
    relative = UNIT * (6 * others + width + 32)
    largest = 0.0
    for k in range(others + 1):
        f = np.convolve(laws[k], laws[others - k][::-1])
        before, own = np.append(0.0, f), np.append(f, 0.0)
        more, less = p * before + q * own, q * before + p * own
        over = (1 + relative) * more - (1 - relative) * x * less
        largest = max(largest, float(np.maximum(over, 0.0).sum()))
    return float(largest * (1 + relative) + 2 * lost)


def _laws(others: int, p: float, q: float) -> tuple[Floats, float]:
    """Windows of binomial(k, p), k = 0, .., others, and what falls out of all."""
    half = math.ceil(REACH * math.sqrt(others * p * q)) + MORE_COUNTS
    laws = np.zeros((others + 1, 2 * half + 1))
    laws[0, 0], start, lost = 1.0, 0, 0.0
    for k in range(others):
        longer = np.append(q * laws[k], 0.0)
        longer[1:] += p * laws[k]
        up = start < round((k + 1) * p) - half
        start += int(up)
        laws[k + 1] = longer[1:] if up else longer[:-1]
        lost += float(longer[0 if up else -1])
    return laws, lost * (1 + UNIT * 8 * (others + 4)) + 1e-290 * others
