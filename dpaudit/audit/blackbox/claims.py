"""A claim as what is tested: its region, its parameter, and lower bounds in its own measure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from functools import cached_property
from math import inf

import numpy as np
from scipy.special import bdtr

from dpaudit.audit.blackbox.evidence import Edge
from dpaudit.audit.bounds.estimators import (
    MINIMUM_ERROR,
    Counts,
    epsilon_lower,
    proportion_upper,
)
from dpaudit.audit.bounds.joint import region_p_value
from dpaudit.audit.target import RENYI, Target
from dpaudit.measures.region import Region

# Upper end of the search for epsilon: no audit shows more than the log of its draws.
MAX_EPSILON_SEARCHED = 50.0
QUICK_SHARE = 0.05  # share of the error for the quick test by boxes, the rest is for the exact one
# If the quick bound is this many times the claim, the slower exact bound is not computed.
DECISIVE_RATIO = 1.1
# Standard deviations of evidence above which the exact test is worth its time.
EXACT_TEST_EVIDENCE = 1.2
LARGE = {"epsilon": 3.0, "mu": 2.5, "rho": 3.0, "renyi_epsilon": 3.0}
# Error levels that the box test tries for its p-value, from 10^-1.5 to 10^-15.
BOX_ERRORS = tuple(10.0 ** (-k / 2) for k in range(3, 31))
CLAIM_BISECTIONS = 14  # Halvings of the search for the smallest claim that an audit can refute.


@dataclass(frozen=True)
class Tally:
    """Counts of one event in the direction that it favours."""

    hits: int
    trials: int
    other_hits: int
    other_trials: int

    @property
    def counts(self) -> Counts:
        return Counts(self.other_hits, self.other_trials, self.trials - self.hits, self.trials)


@dataclass(frozen=True)
class EventTest(Target):
    """A claim, tested by the counts of events of outputs."""

    def p_value(self, tally: Tally, enough: float) -> float:
        """P-value of the claim for an event fixed before its trials.

        The smaller of two, each divided by its share (a union bound): from Clopper-Pearson boxes,
        which are quick, and from a sharper test, left out where the boxes give ``enough`` or the
        counts lie so close to the claim that it could not matter.  The sharper one is the exact
        joint test; for large claims, where one of the two counts is all that matters, its tail.
        """
        quick = min(1.0, box_p_value(tally, self.region) / QUICK_SHARE)
        if quick <= enough or not self._is_close(tally):
            return quick
        if self.is_large:
            return min(quick, tail_p_value(tally, self.region, enough / 2) / (1 - QUICK_SHARE))
        joint = region_p_value(
            tally.hits,
            tally.trials,
            tally.other_hits,
            tally.other_trials,
            self.region,
            max(min(1e-9, enough / 100), MINIMUM_ERROR),
        )
        return min(quick, joint / (1 - QUICK_SHARE))

    @property
    def is_large(self) -> bool:
        """Whether the claim is so weak that the smaller of the two counts decides alone."""
        return self.claimed >= LARGE.get(self.measure, inf)

    def _is_close(self, tally: Tally) -> bool:
        """Whether the counts lie far enough beyond the claim to be worth the exact joint test."""
        return self.edge.evidence_of(*astuple(tally)) > EXACT_TEST_EVIDENCE

    @cached_property
    def edge(self) -> Edge:
        """The boundary of the claim's region."""
        return Edge(self.region)

    def lower(self, tallies: Sequence[Tally], errors: Sequence[float]) -> float:
        """Lower bound in the claim's measure, wrong with probability at most the sum of ``errors``.

        As for the p-value, Clopper-Pearson bounds get a share of each error.  The rest goes to the
        exact bound of the event with the largest of them; it is skipped if that is large enough.
        """
        pairs = list(zip(tallies, errors, strict=True))
        bounds = [self.boxed_lower(tally.counts, error * QUICK_SHARE) for tally, error in pairs]
        quick, best = max(bounds), pairs[int(np.argmax(bounds))]
        return quick if quick > DECISIVE_RATIO * self.claimed else max(quick, self._sharper(*best))

    def epsilon_lower(self, tallies: Sequence[Tally], errors: Sequence[float]) -> float:
        """Lower bound on epsilon at the claim's delta (0 if it has none), free of families."""
        if self.measure == "epsilon":
            return self.lower(tallies, errors)
        pairs = zip(tallies, errors, strict=True)
        return max(epsilon_lower(t.counts, 0.0, error).epsilon_lower for t, error in pairs)

    def _sharper(self, tally: Tally, error: float) -> float:
        error_left = error * (1 - QUICK_SHARE)
        if self.measure == RENYI and not self.is_large:
            return self.boxed_lower(tally.counts, error_left)
        joint = None if self.is_large else self.joint_lower(tally.counts, error_left)
        return tail_lower(tally, self.family, error_left, self.top) if joint is None else joint

    def smallest_showable(self, trials: int, error: float) -> float:
        """The smallest true value that the best event would refute the claim with, half the time.

        The best event lies on the edge of the region of that value; its likelihood ratio against
        the claim must reach the level of ``error``.  A prediction, not a bound; inf if none does.
        """
        from scipy.special import ndtri

        edge, level = self.edge, -float(ndtri(error))
        q = edge.q[:: 4 if self.measure in ("epsilon", "mu") else 20]

        def shown(value: float) -> bool:
            p = self.family(value).largest(q)
            return bool(np.max(edge.evidence(p * trials, trials, q * trials, trials)) >= level)

        low, high = self.claimed, min(max(2 * self.claimed, 0.1), self.top)
        while not shown(high):
            if high >= min(self.top, 2 * MAX_EPSILON_SEARCHED):
                return inf
            low, high = high, min(2 * high, self.top)
        for _ in range(CLAIM_BISECTIONS):
            if high - low <= 1e-3 * high:
                break
            middle = (low + high) / 2
            low, high = (low, middle) if shown(middle) else (middle, high)
        return high


def box_p_value(tally: Tally, region: Region) -> float:
    """The smallest of a row of errors at which a Clopper-Pearson box lies outside the region.

    P[E] >= p and Q[E] <= q hold together except with probability e (e / 2 each); the boxes of
    smaller errors hold those of larger ones, so the smallest e that leaves the region is a p-value.
    """
    smallest = 1.0
    for error in BOX_ERRORS:
        p = 1 - proportion_upper(tally.trials - tally.hits, tally.trials, error / 2)
        q = proportion_upper(tally.other_hits, tally.other_trials, error / 2)
        if p <= float(region.largest(np.array([q]))[0]) * (1 + 1e-12):
            break
        smallest = error
    return smallest


def tail_p_value(tally: Tally, region: Region, trim: float) -> float:
    """P-value from the tail of one count, with the other rate at its confidence bound.

    P[E] >= p except with probability ``trim`` / 2 (Clopper-Pearson).  Under the claim Q[E] is then
    at least the q with largest(q) = p, and the p-value is P(Binomial(other_trials, q) <=
    other_hits).  The same is done for the complement, with P and Q exchanged, and the smaller of
    the two is doubled.  Rounded up.  Source: Berger and Boos (1994).
    """
    turned = Tally(
        tally.other_trials - tally.other_hits,
        tally.other_trials,
        tally.trials - tally.hits,
        tally.trials,
    )
    return min(1.0, 2 * min(_tail(t, region, trim / 2) for t in (tally, turned)) + trim)


def _tail(tally: Tally, region: Region, trim: float) -> float:
    p = 1 - proportion_upper(tally.trials - tally.hits, tally.trials, trim)
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        reaches = float(region.largest(np.array([middle]))[0]) >= p
        low, high = (low, middle) if reaches else (middle, high)
    return min(1.0, float(bdtr(tally.other_hits, tally.other_trials, low)) * (1 + 1e-9))


def tail_lower(
    tally: Tally, family: Callable[[float], Region], error: float, top: float = MAX_EPSILON_SEARCHED
) -> float:
    """Lower bound by inverting :func:`tail_p_value`, which does not fall as the claim grows."""
    low, high = 0.0, min(top, MAX_EPSILON_SEARCHED)
    for _ in range(30):
        middle = (low + high) / 2
        refused = tail_p_value(tally, family(middle), error / 50) <= error
        low, high = (middle, high) if refused else (low, middle)
    return low
