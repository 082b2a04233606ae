"""What an audit of canaries is asked: the claim, its measure, and lower bounds in that measure."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dpaudit.accountant.claim import Claim, stated
from dpaudit.audit.bounds.estimators import (
    MINIMUM_ERROR,
    Counts,
    epsilon_lower,
    mu_lower,
    proportion_upper,
)
from dpaudit.audit.bounds.joint import joint_epsilon_lower, joint_mu_lower, region_p_value
from dpaudit.errors import InvalidParameter
from dpaudit.exact.domains import real
from dpaudit.families.opaque import RenyiDP
from dpaudit.measures.calculus import of_rates
from dpaudit.measures.region import ApproxRegion, GaussianRegion, Region, region_of
from dpaudit.nodes import Node

_TRIM_SHARE = 1e-3
_PRECISION = 1e-3


@dataclass(frozen=True)
class Target:
    """The claim under test: ``claimed`` is its epsilon, mu, rho or renyi_epsilon (``measure``)."""

    guarantee: Node
    region: Region
    measure: str
    claimed: float
    delta: float

    @property
    def words(self) -> str:
        return Claim(self.guarantee, by="the caller").text

    @property
    def order(self) -> float:
        """Order of a Renyi claim."""
        return float(self.guarantee.parameters["order"])

    def p_value(self, counts: Counts, enough: float) -> float:
        """P-value of the claim for an event fixed before its trials; ``enough`` sets its floor.

        The exact joint test for claims of epsilon and mu.  For rho and Renyi divergences, the
        smallest error at which the Clopper-Pearson bound :meth:`lower` exceeds the claim; these
        bounds are nested in the error.
        """
        if self.measure in ("epsilon", "mu"):
            hits = counts.trials_alternative - counts.false_negatives
            trim = max(MINIMUM_ERROR, enough * _TRIM_SHARE)
            other = counts.false_positives, counts.trials_null
            return region_p_value(hits, counts.trials_alternative, *other, self.region, trim)
        return _smallest_error(lambda error: self.lower(counts, error) > self.claimed)

    def lower(self, counts: Counts, error: float) -> float:
        """Lower bound in the claim's measure, wrong with probability at most ``error``."""
        if self.measure == "epsilon":
            return joint_epsilon_lower(counts, self.delta, error)
        if self.measure == "mu":
            return joint_mu_lower(counts, error)
        rates = _rates_upper(counts, error)
        if self.measure == "renyi_epsilon":
            return renyi_of_rates(*rates, self.order)
        return of_rates(self.guarantee)(*rates)

    def strongest(self, trials: int, other_trials: int, error: float) -> float:
        """The Clopper-Pearson bound in the claim's measure if no score were on the wrong side."""
        counts = Counts(0, other_trials, 0, trials)
        if self.measure == "epsilon":
            return epsilon_lower(counts, self.delta, error).epsilon_lower
        return (
            mu_lower(counts, error).mu_lower if self.measure == "mu" else self.lower(counts, error)
        )

    def epsilon_lower(self, counts: Counts, error: float) -> float:
        """Lower bound on epsilon at the claim's delta (0 if it has none), free of families."""
        return joint_epsilon_lower(counts, self.delta, error)


def target_of(claim: object) -> Target:
    """What a node or :class:`dpaudit.accountant.claim.Claim` asks to be tested.

    Errors: InvalidParameter for what states no number in a registered measure.
    """
    node, parameter = stated(claim.guarantee if isinstance(claim, Claim) else claim)
    region = region_of(node)
    value: Any = region.mu if isinstance(region, GaussianRegion) else node.parameters[parameter]
    delta = region.delta if isinstance(region, ApproxRegion) else 0.0
    measure = "renyi_epsilon" if isinstance(node, RenyiDP) else parameter
    return Target(node, region, measure, float(value), delta)


def renyi_of_rates(false_positive_upper: float, false_negative_upper: float, order: float) -> float:
    """A Renyi divergence of ``order`` that any mechanism with these error rates must reach.

    Data processing: D >= D_order((p, 1 - p) || (q, 1 - q)) with p = 1 - FNR_upper, q = FPR_upper,
    which grows with p and falls with q where p > q; likewise for the complement.  Rounded down.
    Source: van Erven and Harremoes (2014), Theorem 9.
    """
    p, q = 1 - false_negative_upper, false_positive_upper
    if not 0 < q < p < 1:
        return 0.0
    best = max(_two_point(p, q, order), _two_point(1 - q, 1 - p, order))
    return max(0.0, best * (1 - 1e-9) - 1e-12)


def _two_point(p: float, q: float, order: float) -> float:
    from numpy import logaddexp

    hit = order * math.log(p) + (1 - order) * math.log(q)
    missed = order * math.log1p(-p) + (1 - order) * math.log1p(-q)
    return float(logaddexp(hit, missed)) / (order - 1)


def _rates_upper(counts: Counts, error: float) -> tuple[float, float]:
    fired = proportion_upper(counts.false_positives, counts.trials_null, error / 2)
    return fired, proportion_upper(counts.false_negatives, counts.trials_alternative, error / 2)


def _smallest_error(shown: Callable[[float], bool]) -> float:
    """The smallest error rate found, to 0.1%, at which a nested bound is shown; 1 if at none."""
    low, high = math.log(10 * MINIMUM_ERROR), math.log(0.999)
    if not shown(math.exp(high)):
        return 1.0
    while high - low > _PRECISION:
        middle = (low + high) / 2
        low, high = (low, middle) if shown(math.exp(middle)) else (middle, high)
    return math.exp(high)


@dataclass(frozen=True)
class CanaryTerms:
    """What the caller asked for, checked."""

    target: Target
    confidence: float
    refute_at: float
    seed: int

    @classmethod
    def of(
        cls, claim: object, confidence: float | str, refute_at: float | str, seed: int
    ) -> CanaryTerms:
        """Errors: InvalidParameter for a value outside its domain."""
        shown, refuting = real(confidence, "confidence"), real(refute_at, "refute_at")
        if not 0.5 < shown < 1:
            raise InvalidParameter(f"confidence = {confidence!r}: expected in (0.5, 1)")
        if not 1e-12 <= refuting < 0.5:
            raise InvalidParameter(f"refute_at = {refute_at!r}: expected in [1e-12, 0.5)")
        if type(seed) is not int or not 0 <= seed < 2**128:
            raise InvalidParameter(f"seed = {seed!r}: expected an integer >= 0 and < 2^128")
        return cls(target_of(claim), shown, refuting, seed)

    @property
    def shown(self) -> float:
        """Error rate of the bound shown."""
        return 1 - self.confidence
