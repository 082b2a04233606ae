"""The witness against KL-Spider's Theorem 1 of its output alone, by quadrature.

One phase of the printed loop on the line, with linear losses: the output is the step to the right
exactly if the first estimate is far enough below 0, and the second is not short.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from scipy.special import ndtr

from audits.kl_adaptive import Pulled
from dpaudit.exact import enclose
from dpaudit.families.additive import Gaussian
from mechanisms.papers.kl.condition import KLCondition
from mechanisms.papers.kl.problem import KLProblem
from mechanisms.papers.kl.schedule import KLSpiderSchedule
from mechanisms.papers.kl.spider import PrintedKLSpider

SIZE = 100
MEANS = (0.0216, 0.0416)  # of the gradients of two data sets that differ in one record, by 2 L0 / n


@dataclass(frozen=True)
class Witness:
    """The probability of one output on either data set."""

    first: float
    second: float

    def divergence_lower(self, order: float) -> float:
        """What the Renyi divergence of that order is at least: the part of this output alone."""
        chance = order * math.log(self.first) - (order - 1) * math.log(self.second)
        return chance / (order - 1)

    def delta_lower(self, epsilon: float) -> float:
        """What delta at that epsilon is at least."""
        return self.first - math.exp(epsilon) * self.second


def program() -> PrintedKLSpider:
    """K = 1, T_1 = 1 and Phi_1 = F0 = e^0.98 / n^2; a canary of slope +-1, the others pull."""
    gap = math.exp(0.98) / SIZE**2
    public = KLSpiderSchedule(
        KLCondition(1.0, 2.0), 1, SIZE, Fraction(1), 0.05, gap, lipschitz=1.0, smoothness=1e-4
    )
    pull = sum(MEANS) / 2 * SIZE / (SIZE - 1)
    return PrintedKLSpider(KLProblem(Pulled(1, 1.0, pull), 0, SIZE, 1.0), public)


def step() -> float:
    """The output w0 + step that the witness is about."""
    own = program()
    return own.gradient_change(own.levels[0]) / own.schedule.smoothness


def witness() -> Witness:
    """P(output = w0 + step) on both data sets."""
    first, second = (_chance(program(), mean) for mean in MEANS)
    return Witness(first, second)


def _chance(own: PrintedKLSpider, mean: float) -> float:
    """The first estimate below -threshold, the second, one difference later, not short."""
    from scipy.integrate import quad

    (plan,) = own.plans(1)
    anchor = _number(plan.anchor) / SIZE
    noise = _number(plan.difference) * own.gradient_change(plan.phase) / SIZE
    stop = float(own.schedule.constants.stop) / own.schedule.condition.gamma * plan.phase.scale

    def density(z: float) -> float:
        estimate = mean + anchor * z
        long = 1 - (ndtr((stop - estimate) / noise) - ndtr((-stop - estimate) / noise))
        return float(math.exp(-(z**2) / 2) / math.sqrt(2 * math.pi) * long)

    edge = (-stop - mean) / anchor
    ends = (edge - 12, edge - 0.2, edge - 0.05, edge)
    return float(sum(quad(density, a, b, epsabs=0, epsrel=1e-9)[0] for a, b in pairwise(ends)))


def _number(leaf: Gaussian) -> float:
    return float(enclose(leaf.noise_multiplier).mid())
