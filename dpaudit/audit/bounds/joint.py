"""Exact joint tests of a claim: both event counts at once, with no split of the error.

For an event E fixed before the trials were drawn, ``hits`` ~ Binomial(trials, p) counts it under P
and ``other_hits`` ~ Binomial(other_trials, q) under Q.  A claim says p <= region.largest(q).

*Order.*  Outcomes are ordered by the likelihood ratio of the claim, T(x, y) = min over the region
of trials kl(x / trials, p) + other_trials kl(y / other_trials, q), with a quarter of a count added
against the finding on each side.  Outside the region T grows with x and falls with y (envelope
theorem), so each set {T >= t} is closed upward in x and downward in y (Barnard's convexity), and
its probability grows with p: the worst p is the region's edge.  T falls as the region grows, so the
order by "the claim at which T reaches a fixed level" is nested too.

*P-value.*  For a set A = {T >= T(observed)} and an interval C(y) that misses q with probability at
most ``trim``, trim + sup over q in C(y) of P(A; largest(q), q) is a valid p-value.
Source: Barnard (1947); Berger and Boos (1994), lemma in section 2.

*Bound.*  For nested claims (a growing epsilon) and a fixed order this p-value does not decrease
with epsilon, because A stays the same and the edge rises.  So if the p-value at e is at most the
error, it is so at every smaller epsilon: e exceeds a true epsilon only where the test at the truth
has p-value at most the error.  Source: Buehler (1957); Lloyd and Kabaila (2003).

*Rounding.*  A is replaced by a superset, probabilities by upper bounds, and the supremum over the
continuum of q is bounded between grid points (:mod:`dpaudit.audit.bounds.extremes`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from scipy.special import ndtri

from dpaudit.audit.bounds.estimators import MINIMUM_ERROR, Counts, proportion_upper
from dpaudit.audit.bounds.extremes import (
    Extreme,
    Trials,
    at_least,
    half_deviance,
    supremum_estimate,
    supremum_upper,
    tail_upper,
)
from dpaudit.errors import InvalidParameter
from dpaudit.measures.region import ApproxRegion, GaussianRegion, Region, zcdp_region

DEFAULT_TRIM = 1e-9  # Failure probability spent on counts that are left out of the exact sum.
_TRIM_SHARE = 0.005  # share of the error for them
_NEGLIGIBLE_SHARE = 0.01  # A tail bounded by this share of the trim is left out whole.
_LARGEST_EPSILON = 50.0  # the largest epsilon that is looked for
_LARGEST_MU = 50.0  # the largest mu that is looked for
# Most halvings of the search for the last claim whose likelihood ratio reaches its level.
_ORDER_BISECTIONS = 50
_SECANT_STEPS = 6  # Secant steps before the search falls back to halving.
_MAX_EXACT_POINTS = 12  # Parameters at which the exact supremum is computed; it is slow.
_BOUND_RESOLUTION = 3e-4  # Relative width of the bracket at which the search stops.


def region_p_value(
    hits: int,
    trials: int,
    other_hits: int,
    other_trials: int,
    region: Region,
    trim: float = DEFAULT_TRIM,
) -> float:
    """P-value of "p <= region.largest(q)": at most u with probability at most u, for every u.

    hits ~ Binomial(trials, p) and other_hits ~ Binomial(other_trials, q), independent, of an event
    fixed before these trials.  Exact: trim + the supremum over q in a Clopper-Pearson interval of
    level 1 - ``trim`` of the probability of an outcome at least as extreme; rounded up.  Outcomes
    so far out that Chernoff's bound is below ``trim`` / 100 get a little over ``trim`` at once, for
    which all others pay ``trim`` / 100.  ``trim`` must not depend on the counts.
    Errors: InvalidParameter unless 0 <= counts <= trials <= 1e9, 1 <= trials, 2e-100 <= trim < 1.
    Source: Berger and Boos (1994); the order is the likelihood ratio of ``region.reference``.
    """
    least = 2 * MINIMUM_ERROR  # each side of the interval has half
    if not least <= trim < 1:
        raise InvalidParameter(f"trim = {trim!r}: expected in [{least:g}, 1)")
    checked = Counts(other_hits, other_trials, hits, trials)
    observed = Trials(
        checked.false_negatives,
        checked.trials_alternative,
        checked.false_positives,
        checked.trials_null,
    )
    if tail_upper(half_deviance(observed, region)) <= _NEGLIGIBLE_SHARE * trim:
        return trim * (1 + 2 * _NEGLIGIBLE_SHARE)
    cost = half_deviance(observed, region.reference)
    if cost == 0:
        return 1.0
    low, high = _interval(observed, trim)
    extreme = at_least(observed, region.reference, cost, low, high)
    return min(1.0, (1 + _NEGLIGIBLE_SHARE) * trim + supremum_upper(extreme, region, low, high))


def joint_epsilon_lower(counts: Counts, delta: float, error: float) -> float:
    """Lower bound on epsilon at ``delta``, wrong with probability at most ``error``.

    The largest epsilon found whose claim the exact joint test refuses at ``error``; both
    inequalities of (epsilon, delta)-DP at the event are tested at once, nothing is split.  Valid
    for an event fixed before the trials.  Rounded down; at least 0, at most 50.
    Errors: InvalidParameter for a delta outside [0, 1) or an error rate outside [1e-96, 1).
    Source: Buehler (1957); Berger and Boos (1994).
    """
    ApproxRegion(0.0, delta)

    def family(epsilon: float) -> Region:
        return ApproxRegion(epsilon, delta)

    return _invert(counts, family, family, _LARGEST_EPSILON, error)


def joint_mu_lower(counts: Counts, error: float) -> float:
    """Lower bound on the mu of a claim of mu-GDP, wrong with probability at most ``error``.

    As :func:`joint_epsilon_lower`, for Gaussian regions: it refutes claims of mu-GDP, no others.
    Rounded down; at least 0, at most 50.
    Errors: InvalidParameter for an error rate outside [1e-96, 1).
    """
    return _invert(counts, GaussianRegion, GaussianRegion, _LARGEST_MU, error)


def joint_rho_lower(counts: Counts, error: float) -> float:
    """Lower bound on the rho of rho-zCDP, wrong with probability at most ``error``.

    As :func:`joint_epsilon_lower`, for the two-point Renyi constraints; outcomes are ordered as
    for the Gaussian mechanism of the same rho.  Rounded down; at least 0, at most 1250.
    Errors: InvalidParameter for an error rate outside [1e-96, 1).
    """

    def ranking(rho: float) -> Region:
        return GaussianRegion(math.sqrt(2 * rho))

    return _invert(counts, zcdp_region, ranking, _LARGEST_MU**2 / 2, error)


def _invert(
    counts: Counts,
    family: Callable[[float], Region],
    ranking: Callable[[float], Region],
    largest: float,
    error: float,
) -> float:
    """The bound for a nested ``family`` of claims; outcomes are ordered by another, ``ranking``."""
    if not isinstance(counts, Counts):
        raise InvalidParameter(f"{type(counts).__name__}: expected Counts")
    if not 1e-96 <= error < 1:
        raise InvalidParameter(f"error = {error!r}: expected in [1e-96, 1)")
    hits = counts.trials_alternative - counts.false_negatives
    observed = Trials(hits, counts.trials_alternative, counts.false_positives, counts.trials_null)
    trim = error * _TRIM_SHARE
    order, cost = _order(observed, ranking, largest, error)
    if cost == 0:
        return 0.0
    low, high = _interval(observed, trim)
    extreme = at_least(observed, ranking(order), cost, low, high)
    return _Search(extreme, family, low, high, error - trim, largest).bound(order)


def _order(
    seen: Trials, ranking: Callable[[float], Region], largest: float, error: float
) -> tuple[float, float]:
    """The largest parameter whose likelihood ratio reaches the level of ``error``, and the level.

    If none does: 0, the strictest claim, and the likelihood ratio that it reaches.
    """
    level = float(ndtri(min(error, 0.4))) ** 2 / 2
    strictest = half_deviance(seen, ranking(0.0))
    if strictest <= level:
        return 0.0, strictest
    reached, beyond = 0.0, largest
    for _ in range(_ORDER_BISECTIONS):
        middle = (reached + beyond) / 2
        if half_deviance(seen, ranking(middle)) >= level:
            reached = middle
        else:
            beyond = middle
        if beyond - reached <= 1e-7 * beyond:
            break
    return reached, level


@dataclass(frozen=True)
class _Ends:
    """Where a parameter is accepted and where refused, with how far both are from the target.

    Gaps are None where nothing was computed; one that stays is halved (Illinois).
    """

    refused: float
    accepted: float = 0.0
    below: float | None = None
    above: float | None = None

    @property
    def narrow(self) -> bool:
        return self.refused - self.accepted <= _BOUND_RESOLUTION * self.accepted

    def moved(self, point: float, gap: float, *, accepted: bool) -> _Ends:
        """With one end at ``point``."""
        if accepted:
            above = self.above if self.below is None or self.above is None else self.above / 2
            return _Ends(self.refused, point, gap, above)
        below = self.below if self.above is None or self.below is None else self.below / 2
        return _Ends(point, self.accepted, below, gap)

    def between(self, guess: float) -> float:
        """The next point: a secant's, or ``guess`` while an end is missing; never near an end."""
        width = self.refused - self.accepted
        if self.below is not None and self.above is not None and self.below > self.above:
            guess = self.accepted + width * self.below / (self.below - self.above)
        elif self.below is None:  # nothing is accepted yet: down by 1% at least
            guess = min(max(guess, self.refused / 2), 0.99 * self.refused)
        else:
            guess = min(max(guess, 1.01 * self.accepted), 2 * self.accepted)
        return min(max(guess, self.accepted + width / 50), self.refused - width / 50)


@dataclass(frozen=True, eq=False)
class _Search:
    """The largest parameter of a nested family at which a set's probability is at most ``room``.

    Any parameter with an upper bound at most ``room`` is valid, however it was found.
    """

    extreme: Extreme
    family: Callable[[float], Region]
    low: float
    high: float
    room: float
    largest: float

    def bound(self, guess: float) -> float:
        """The largest parameter accepted: secants on quantiles inside a bracket that shrinks."""
        point, slope = self._secant(guess)
        ends, target = _Ends(self.largest), self._quantile(self.room * (1 - 2e-3))
        for _ in range(_MAX_EXACT_POINTS):
            upper = supremum_upper(self.extreme, self.family(point), self.low, self.high)
            gap = target - self._quantile(upper)
            ends = ends.moved(point, gap, accepted=upper <= self.room)
            if ends.narrow or (ends.accepted == point and gap <= _BOUND_RESOLUTION * slope * point):
                break
            point = ends.between(point + gap / slope)
        return ends.accepted

    def _secant(self, guess: float) -> tuple[float, float]:
        """About where the probability is ``room``, and the slope of its quantile there."""
        target = self._quantile(self.room)
        points = [max(guess, 1e-3), 1.02 * max(guess, 1e-3)]
        gaps = [target - self._estimate(point) for point in points]
        slope = 0.0
        for _ in range(_SECANT_STEPS):
            if points[-1] != points[-2] and gaps[-1] != gaps[-2]:
                slope = (gaps[-2] - gaps[-1]) / (points[-1] - points[-2])
            if not slope > 0:  # values on a few points may jump from one to another
                break
            third = min(max(points[-1] + gaps[-1] / slope, 0.5 * points[-1]), 2 * points[-1])
            if abs(third - points[-1]) <= 1e-5 * (1e-3 + points[-1]) or third > self.largest:
                break
            points, gaps = [*points, third], [*gaps, target - self._estimate(third)]
        best = min(range(len(points)), key=lambda i: abs(gaps[i]))
        return min(points[best], self.largest), slope if slope > 0 else 1 / max(guess, 1e-3)

    def _estimate(self, parameter: float) -> float:
        region = self.family(parameter)
        return self._quantile(supremum_estimate(self.extreme, region, self.low, self.high))

    @staticmethod
    def _quantile(probability: float) -> float:
        return float(ndtri(min(max(probability, 1e-300), 1 - 1e-12)))


def _interval(seen: Trials, trim: float) -> tuple[float, float]:
    """Clopper-Pearson interval of q that misses it with probability at most ``trim``."""
    upper = proportion_upper(seen.other_hits, seen.other, trim / 2)
    return 1 - proportion_upper(seen.other - seen.other_hits, seen.other, trim / 2), upper
