"""Arguments of a canary audit: the claim, its measure, and lower bounds in that measure."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from dpaudit.audit.bounds.estimators import MINIMUM_ERROR, Counts
from dpaudit.audit.bounds.joint import joint_epsilon_lower, region_p_value
from dpaudit.audit.target import Target
from dpaudit.errors import InvalidParameter
from dpaudit.exact.domains import real

_TRIM_SHARE = 1e-3  # share of the error spent on counts that are left out
_LOG_ERROR_RESOLUTION = 1e-3  # Nats: the smallest error rate is found to 0.1%.


@dataclass(frozen=True)
class ScoreTest(Target):
    """A claim, tested by the errors of a test on scores."""

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
        joint = self.joint_lower(counts, error) if self.measure in ("epsilon", "mu") else None
        return self.boxed_lower(counts, error) if joint is None else joint

    def strongest(self, trials: int, other_trials: int, error: float) -> float:
        """The Clopper-Pearson bound in the claim's measure if no score were on the wrong side."""
        return self.boxed_lower(Counts(0, other_trials, 0, trials), error)

    def epsilon_lower(self, counts: Counts, error: float) -> float:
        """Lower bound on epsilon at the claim's delta (0 if it has none), free of families."""
        return joint_epsilon_lower(counts, self.delta, error)


def _smallest_error(shown: Callable[[float], bool]) -> float:
    """The smallest error rate found, to 0.1%, at which a nested bound is shown; 1 if at none."""
    low, high = math.log(10 * MINIMUM_ERROR), math.log(0.999)
    if not shown(math.exp(high)):
        return 1.0
    while high - low > _LOG_ERROR_RESOLUTION:
        middle = (low + high) / 2
        low, high = (low, middle) if shown(math.exp(middle)) else (middle, high)
    return math.exp(high)


@dataclass(frozen=True)
class CanaryTerms:
    """The caller's arguments, checked."""

    target: ScoreTest
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
        return cls(ScoreTest.of(claim), shown, refuting, seed)

    @property
    def shown(self) -> float:
        """Error rate of the bound shown."""
        return 1 - self.confidence
