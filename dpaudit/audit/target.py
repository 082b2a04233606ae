"""The claim that an audit of outputs or scores tests: what it states, and what it allows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Self

import numpy as np

from dpaudit.accountant.claim import Claim, stated
from dpaudit.audit.bounds.estimators import Counts, epsilon_lower, mu_lower, proportion_upper
from dpaudit.audit.bounds.joint import joint_epsilon_lower, joint_mu_lower, joint_rho_lower
from dpaudit.families.opaque import ApproxDP, PureDP, RenyiDP
from dpaudit.measures.calculus import measure_of, of_rates
from dpaudit.measures.region import ApproxRegion, Region, RenyiRegion, region_of
from dpaudit.nodes import Node

RENYI = "renyi_epsilon"


@dataclass(frozen=True)
class Target:
    """The claim under test: ``claimed`` is its number, ``measure`` the number's name.

    ``region``: the pairs of event probabilities that it allows.  ``family``: the region of the same
    claim with another number.
    """

    guarantee: Node
    region: Region
    measure: str
    claimed: float
    delta: float
    family: Callable[[float], Region]

    @classmethod
    def of(cls, claim: object) -> Self:
        """The tested target of a node or a :class:`dpaudit.accountant.claim.Claim`.

        Errors: InvalidParameter for what states no number in a registered measure.
        """
        node, parameter = stated(claim.guarantee if isinstance(claim, Claim) else claim)
        region = region_of(node)
        delta = region.delta if isinstance(region, ApproxRegion) else 0.0
        measure = RENYI if isinstance(node, RenyiDP) else parameter
        family = partial(_of_another_number, node, parameter, delta)
        return cls(node, region, measure, float(node.parameters[parameter]), delta, family)

    @property
    def words(self) -> str:
        return Claim(self.guarantee, by="the caller").text

    @property
    def top(self) -> float:
        """The largest number that a claim in this measure may state."""
        measure = measure_of(self.guarantee)
        return measure.top if measure else math.inf

    @property
    def order(self) -> float:
        """Order of a Renyi claim."""
        return float(self.guarantee.parameters["order"])

    def boxed_lower(self, counts: Counts, error: float) -> float:
        """Lower bound in the claim's measure, wrong with probability at most ``error``.

        From Clopper-Pearson bounds of both error rates, each at half of ``error``.
        """
        if self.measure == "epsilon":
            return epsilon_lower(counts, self.delta, error).epsilon_lower
        if self.measure == "mu":
            return mu_lower(counts, error).mu_lower
        rates = rates_upper(counts, error)
        if self.measure == RENYI:
            return renyi_of_rates(*rates, self.order)
        return of_rates(self.guarantee)(*rates)

    def joint_lower(self, counts: Counts, error: float) -> float | None:
        """The lower bound by the exact joint test of both counts; None if the measure has none."""
        if self.measure == "epsilon":
            return joint_epsilon_lower(counts, self.delta, error)
        if self.measure == "mu":
            return joint_mu_lower(counts, error)
        return joint_rho_lower(counts, error) if self.measure == "rho" else None


def _of_another_number(node: Node, parameter: str, delta: float, value: float) -> Region:
    """The region of the same claim with another number, a float."""
    if isinstance(node, RenyiDP):
        return RenyiRegion((float(node.parameters["order"]),), (value,))
    if isinstance(node, (PureDP, ApproxDP)):
        return ApproxRegion(value, delta)
    return region_of(node.with_parameters(**{parameter: value}))


def rates_upper(counts: Counts, error: float) -> tuple[float, float]:
    """Clopper-Pearson bounds of both error rates, each at half of ``error``."""
    fired = proportion_upper(counts.false_positives, counts.trials_null, error / 2)
    return fired, proportion_upper(counts.false_negatives, counts.trials_alternative, error / 2)


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
    hit = order * math.log(p) + (1 - order) * math.log(q)
    missed = order * math.log1p(-p) + (1 - order) * math.log1p(-q)
    return float(np.logaddexp(hit, missed)) / (order - 1)
