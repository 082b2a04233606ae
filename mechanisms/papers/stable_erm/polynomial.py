"""Searches that end in polynomial time on any data, and are private: ours, not the paper's.

The paper's own search is exponential in kappa (its open problem).  These replace its score by
others that also move by at most 1, for the mean of one number and for smooth losses.
Source: dpaudit 2026; proofs in the docstrings.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpaudit.errors import InvalidParameter
from dpaudit.families.stability import Distance
from dpaudit.kernels.query import Array
from dpaudit.nodes import Assumption
from mechanisms.papers.stable_erm.certificate import CONVEX, ROUNDING, measured
from mechanisms.papers.stable_erm.solver import Minimiser, RidgeLogistic
from mechanisms.papers.stable_erm.stable import Flags, Found, Statistic, kept_means

STEPS = 2**24
MOST_USERS = 2**24


@dataclass(frozen=True)
class GridMean:
    """The mean over users of one number each, cut to +-``bound`` and rounded to bound / 2^24.

    Sums of so many multiples are exact, so that a score made of them has no ties by rounding.
    Errors: InvalidParameter for a bound that is not positive and finite.
    """

    bound: float
    trials: int = 1

    def __post_init__(self) -> None:
        if not (math.isfinite(self.bound) and self.bound > 0):
            raise InvalidParameter(f"GridMean.bound = {self.bound}: expected a positive number")

    def of(self, chosen: Flags) -> GridMean:
        return self

    def at(self, users: Array, kept: Flags) -> Array:
        return kept_means(self.steps(users)[None, :, None], kept) * (self.bound / STEPS)

    def steps(self, users: Array) -> Array:
        """Each user's number in steps, (n,): the mean of its items' first feature; NaN counts 0."""
        with np.errstate(all="ignore"):
            means = np.nan_to_num(users[..., 0].mean(axis=1) / self.bound, nan=0.0)
        return np.asarray(np.rint(np.clip(means, -1.0, 1.0) * STEPS))


@dataclass(frozen=True)
class WindowMeanScore:
    """Least s <= 2 kappa with a window, a lowest and s - a highest users deleted, that is stable.

    For a kept window y and q others: up_q = sum_{j < q} (y_max - y_(j)) / (q (q+1)) over the q
    smallest, down_q alike; M = max over n-1-4 kappa <= q <= n-1-s of both.  Not the score of the
    paper's search (>= it; 2 against 1 on five 0, five 1 and one 1/2), and never to be passed for
    it, but it moves by at most 1 as well, and M <= unit is all that the released vector rests on.
    Proof: let W be the stable window of x', i the replaced user with value p in x, K = W without i.
    If p is not strictly inside K, K is a window of x.  Else if i was not in W, drop both ends of K
    with p: for every q its top falls and its q smallest rise (and mirrored).  Else W = K and t:
    for t <= p drop the highest of K with p (its q smallest dominate those of W, its top is no
    higher, its q largest are no higher than K's, its minimum is K's), for t >= p the lowest.
    Errors: InvalidParameter for another statistic than :class:`GridMean`.
    """

    @property
    def distance(self) -> Distance:
        return Distance.PATH

    def check(self, users: int, kappa: int) -> None:
        """Errors: InvalidParameter for so many users that their sums are not exact."""
        if users > MOST_USERS:
            raise InvalidParameter(f"{users} users: exact sums take at most {MOST_USERS}")

    def find(self, statistic: Statistic, users: Array, unit: Array | float, kappa: int) -> Found:
        if not isinstance(statistic, GridMean):
            raise InvalidParameter("WindowMeanScore: expected a GridMean")
        ordered = np.sort(statistic.steps(users))
        step = statistic.bound / STEPS
        found = [_window(ordered, float(u) / step, kappa) for u in np.atleast_1d(unit)]
        scores, means = np.array(found).T
        return Found(scores, means[:, None] * step)


def _window(ordered: Array, unit: float, kappa: int) -> tuple[float, float]:
    """Score and kept mean of sorted values."""
    sums = np.concatenate([[0.0], np.cumsum(ordered)])
    for score in range(2 * kappa + 1):
        for low in range(score + 1):
            high = len(ordered) - (score - low)
            if _stability(ordered, sums, low, high, kappa) <= unit:
                return float(score), float((sums[high] - sums[low]) / (high - low))
    return 2.0 * kappa + 1, 0.0


def _stability(ordered: Array, sums: Array, low: int, high: int, kappa: int) -> float:
    """M of the window [low, high)."""
    q = np.arange(len(ordered) - 1 - 4 * kappa, high - low)
    up = q * ordered[high - 1] - (sums[low + q] - sums[low])
    down = (sums[high] - sums[high - q]) - q * ordered[low]
    return float((np.maximum(up, down) / (q * (q + 1.0))).max())


@dataclass(frozen=True)
class Ladder:
    """Deletes users of large centred gradients, at a level that a score of sensitivity 1 chooses.

    w_j = ||g_j - mean|| at f(x), tau = 4 H G/(mu n) + 2 G/n + 4 H error, and what floats may lose
    of a norm; q_l = #{w_j > gamma + l tau}; score = min over l of max(l, q_l), and f of the users
    with w_j <= gamma + l tau at the smallest such l.  Vectors of neighbours are within 2 units.
    Proof: replacing a user moves f(x) by at most 2 G/(mu n), so every other w_j by at most tau and
    q_{l+1}(x') <= q_l(x) + 1.  With a score of at most 2 kappa, the kept users' gradients are
    within gamma_2 = gamma + 2 kappa tau + 4 kappa G (1 + 2 H/mu)/(n - 2 kappa) + 2 H error at the
    released point, and at most 2 kappa + 1 users are on either side only, so that each vector is
    within (2 kappa + 1) gamma_2 / (mu (n - 4 kappa - 1)) + error of the minimiser they share.
    Privacy rests on mu, G, H and the solver's error.
    Errors: InvalidParameter for a gamma that is not positive, another loss than one whose gradients
    are bounded for any item (:class:`RidgeLogistic`), a unit below :meth:`unit`.
    """

    gamma: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.gamma) and self.gamma > 0):
            raise InvalidParameter(f"Ladder.gamma = {self.gamma}: expected a positive number")

    @property
    def distance(self) -> Distance:
        return Distance.DIAMETER

    def check(self, users: int, kappa: int) -> None:
        """One solve and one more."""

    @property
    def assumption(self) -> Assumption:
        """What privacy rests on beside the noise."""
        return CONVEX

    def step(self, minimiser: Minimiser, users: int) -> Array:
        """tau, (trials,)."""
        loss = _bounded(minimiser)
        bent = 4 * loss.smoothness * loss.lipschitz / (minimiser.modulus * users)
        lost = ROUNDING * users * loss.lipschitz
        return bent + 2 * loss.lipschitz / users + 4 * loss.smoothness * loss.error + lost

    def unit(self, minimiser: Minimiser, users: int, kappa: int) -> Array:
        """The unit at which the vectors of neighbours are within 2 units, (trials,)."""
        loss, modulus = _bounded(minimiser), minimiser.modulus
        if users < 4 * kappa + 2:
            raise InvalidParameter(f"{users} users: kappa = {kappa} needs {4 * kappa + 2}")
        moved = 4 * kappa * loss.lipschitz * (1 + 2 * loss.smoothness / modulus)
        gamma = self.gamma + 2 * kappa * self.step(minimiser, users)
        gamma = gamma + moved / (users - 2 * kappa) + 2 * loss.smoothness * loss.error
        return np.asarray(
            (2 * kappa + 1) * gamma / (modulus * (users - 4 * kappa - 1)) + loss.error
        )

    def find(self, statistic: Statistic, users: Array, unit: Array | float, kappa: int) -> Found:
        if not isinstance(statistic, Minimiser):
            raise InvalidParameter("Ladder: expected the minimiser of a smooth loss")
        if (np.asarray(unit) < self.unit(statistic, len(users), kappa) * (1 - 1e-12)).any():
            raise InvalidParameter("Ladder: its unit is below Ladder.unit(...)")
        with np.errstate(all="ignore"):
            seen = measured(statistic, users)
        levels = np.arange(2 * kappa + 2)
        rungs = self.gamma + levels * self.step(statistic, len(users))[:, None]
        above = np.stack([(seen.norms > rungs[:, [k]]).sum(axis=1) for k in levels], axis=1)
        reached = np.maximum(levels, above)
        best = reached.argmin(axis=1)
        scores = np.minimum(reached.min(axis=1), 2 * kappa + 1).astype(np.float64)
        kept = seen.norms <= rungs[np.arange(len(best)), best][:, None]
        kept |= (scores > 2 * kappa)[:, None]
        return Found(scores, self._minimised(statistic, users, kept, seen.points))

    def _minimised(self, statistic: Minimiser, users: Array, kept: Flags, whole: Array) -> Array:
        """The minimiser of the kept users: that of all, ``whole``, where nobody was deleted."""
        found = np.array(whole)
        trials = np.arange(statistic.trials)
        for t in trials[~kept.all(axis=1)]:
            found[t] = statistic.of(trials == t).at(users, kept[t : t + 1])[0, 0]
        return found


def _bounded(minimiser: Minimiser) -> RidgeLogistic:
    if not isinstance(minimiser.loss, RidgeLogistic):
        raise InvalidParameter(
            f"Ladder: its guarantee rests on bounded, smooth gradients for any item, which "
            f"{type(minimiser.loss).__name__} does not enforce; use RidgeLogistic"
        )
    return minimiser.loss
