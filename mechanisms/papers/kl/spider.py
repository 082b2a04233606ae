"""KL-Spider: anchors and gradient differences in phases, stopped by released gradient norms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from dpaudit.curator.curator import Curator
from dpaudit.curator.entitlement import Mask
from dpaudit.errors import InvalidParameter
from dpaudit.exact import Number, exact, sqrt
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Compose, Repeat
from dpaudit.kernels.query import Array
from dpaudit.nodes import Node
from dpaudit.scope import Scope
from mechanisms.papers.kl.estimator import ANCHOR, DIFFERENCE, SpiderEstimator
from mechanisms.papers.kl.problem import KLProblem, budget, moves, of_length
from mechanisms.papers.kl.schedule import KLSpiderSchedule, Phase

Key = TypeVar("Key")
VACUOUS = "the theorem promises nothing better than the start (floor >= F0): no data was touched"


@dataclass(frozen=True)
class Found:
    """What a run gives: the output, how many updates each phase made, and what there is to say.

    ``output`` (trials, d); ``updates`` (trials, phases).
    """

    output: Array
    updates: Array
    note: str = ""


class SpiderNoise(Protocol):
    """Noise standard deviations of anchors and differences, as multiples of the clipping norms.

    An anchor's is times L0 / n, a difference's times the step's gradient change
    (step / gamma) Phi_k^(1/kappa) / n: one record moves a release by 1, or 2 under replace_one.
    """

    def anchor(self, schedule: KLSpiderSchedule, differences: int) -> Number:
        """Of the anchor of a phase with that many differences."""

    def difference(self, schedule: KLSpiderSchedule, length: Number) -> Number:
        """Of a difference in a phase of that length: differences, or T_k as printed."""


@dataclass(frozen=True)
class PrintedNoise:
    """sigma^2 = L0^2 K / (n^2 rho), sigma_k^2 = Phi_k^(2/kappa) T_k K / (gamma^2 n^2 rho).

    Source: Menart et al. 2023, Algorithm 1, lines 4 and 7.
    """

    def anchor(self, schedule: KLSpiderSchedule, differences: int) -> Number:
        return sqrt(schedule.count / schedule.rho)

    def difference(self, schedule: KLSpiderSchedule, length: Number) -> Number:
        return sqrt(length * schedule.count / schedule.rho) / schedule.constants.step


@dataclass(frozen=True)
class CorrectedNoise:
    """Shares ``anchor_share`` and the rest of rho: exactly rho-zCDP under replace_one.

    Each phase has rho / K; one without differences gives all of it to its anchor.
    Errors: InvalidParameter for a share outside (0, 1).
    Source: ours; 4/5 minimises the variance of an estimate of the paper's schedule.
    """

    anchor_share: Fraction = Fraction(4, 5)

    def __post_init__(self) -> None:
        share = budget(self.anchor_share, "CorrectedNoise.anchor_share")
        if share >= 1:
            raise InvalidParameter(f"CorrectedNoise.anchor_share = {share}: expected below 1")
        object.__setattr__(self, "anchor_share", share)

    def anchor(self, schedule: KLSpiderSchedule, differences: int) -> Number:
        share = self.anchor_share if differences else Fraction(1)
        return sqrt(2 * schedule.count / (share * schedule.rho))

    def difference(self, schedule: KLSpiderSchedule, length: Number) -> Number:
        return sqrt(2 * length * schedule.count / ((1 - self.anchor_share) * schedule.rho))


class Plan(NamedTuple):
    """The releases of one phase: labels and noise of its anchor and of its differences."""

    phase: Phase
    steps: int
    differences: int
    anchor: Gaussian
    difference: Gaussian


@dataclass(frozen=True)
class KLSpider:
    """Phases of normalised steps along a private gradient estimate.

    A phase releases the clipped mean gradient at its start, then after each step of length
    (step / gamma L1) Phi_k^(1/kappa) the mean of clipped gradient differences; it stops where the
    *released* estimate is shorter than (stop / gamma) Phi_k^(1/kappa), and in any case after
    ceil(T_k) steps.  The last estimate of a full phase would never be used and is not queried.
    A vacuous schedule returns the start, declares no release and says so.
    Errors: InvalidParameter where problem and schedule disagree on n or L0.
    Source: Menart et al. 2023, Algorithm 1, repaired: the next phase starts at the iterate that the
    stopping rule certified (lines 10 and 17 print the one before), with ceil(T_k) steps.
    """

    problem: KLProblem
    schedule: KLSpiderSchedule
    noise: SpiderNoise = CorrectedNoise()

    def __post_init__(self) -> None:
        own, public = self.problem, self.schedule
        if (own.size, own.lipschitz) != (public.size, public.lipschitz):
            raise InvalidParameter("KLSpider: problem and schedule differ in n or L0")

    @property
    def levels(self) -> tuple[Phase, ...]:
        """The phases; none where the theorem is vacuous."""
        return self.schedule.levels

    @property
    def estimator(self) -> SpiderEstimator:
        """Anchors and differences on the problem's records."""
        return SpiderEstimator(self.problem)

    def lengths(self) -> list[tuple[int, int, Number]]:
        """Of each phase: steps at most, differences at most, and the length its noise is made for.

        Differences are one fewer than steps, and the noise is made for their number.
        """
        return [(steps, steps - 1, Fraction(max(steps - 1, 1))) for steps in self.schedule.steps]

    def plans(self, factor: int) -> list[Plan]:
        """The releases of every phase, noise over sensitivity ``factor``; labels by the noise.

        Phases with the same noise share a label, so that an early stop leaves them interchangeable.
        """
        lengths = self.lengths()
        anchors = _leaves(ANCHOR, [d for _, d, _ in lengths], self._anchor, factor)
        noises = _leaves(DIFFERENCE, [length for *_, length in lengths], self._noise, factor)
        return [
            Plan(phase, steps, differences, anchors[differences], noises[length])
            for phase, (steps, differences, length) in zip(self.levels, lengths, strict=True)
        ]

    def _anchor(self, differences: int) -> Number:
        return self.noise.anchor(self.schedule, min(differences, 1))

    def _noise(self, length: Number) -> Number:
        return self.noise.difference(self.schedule, length)

    def declaration(self, scope: Scope) -> Node:
        """The full schedule, whatever early stops leave of it: K anchors and all differences."""
        factor = moves(scope, type(self).__name__)
        plans = self.plans(factor)
        if not plans:
            return Repeat(Gaussian(ANCHOR, 1), 0)
        parts: list[Node] = []
        for (anchor, difference, count), same in groupby(
            plans, key=lambda p: (p.anchor, p.difference, p.differences)
        ):
            phases = len(list(same))
            parts.append(Repeat(anchor, phases))
            if count:
                parts.append(Repeat(difference, count * phases))
        return Compose(*parts)

    def run(self, curator: Curator) -> Found:
        """Run on a curator; iterates are (trials, d)."""
        x, plans = self.problem.initial(curator.trials), self.plans(1)
        updates = np.zeros((curator.trials, len(plans)))
        if not plans:
            return Found(x, updates, VACUOUS)
        for k, plan in enumerate(plans):
            x, updates[:, k] = self.phase(curator, x, plan)
        return Found(x, updates)

    def phase(self, curator: Curator, x: Array, plan: Plan) -> tuple[Array, Array]:
        """One phase from x: its last iterate, and the updates it made, (trials,)."""
        estimate = self.estimator.anchored(curator, x, plan.anchor.label)
        made = np.zeros(curator.trials)
        for step in range(plan.steps):
            on = self.going_on(estimate, plan.phase) & (made == step)
            if not on.any():
                break
            previous, x = x, np.where(on[:, None], self.stepped(x, estimate, plan.phase), x)
            made += on
            if step + 1 < plan.steps:
                estimate = self.updated(curator, estimate, (previous, x), plan, on)
        return x, made

    def going_on(self, estimate: Array, phase: Phase) -> Mask:
        """Trials whose released estimate is not yet short: post-processing."""
        threshold = float(self.schedule.constants.stop) / self.schedule.condition.gamma
        return np.asarray(np.linalg.norm(estimate, axis=-1) >= threshold * phase.scale)

    def stepped(self, x: Array, estimate: Array, phase: Phase) -> Array:
        """A step of public length against the estimate."""
        length = self.gradient_change(phase) / self.schedule.smoothness
        return x - of_length(estimate, length)

    def gradient_change(self, phase: Phase) -> float:
        """(step / gamma) Phi_k^(1/kappa): how far a smooth gradient moves in one step."""
        return float(self.schedule.constants.step) / self.schedule.condition.gamma * phase.scale

    def updated(
        self, curator: Curator, estimate: Array, moved: tuple[Array, Array], plan: Plan, on: Mask
    ) -> Array:
        """The estimate with one more released difference, in the trials that are on."""
        radius, label = self.gradient_change(plan.phase), plan.difference.label
        return self.estimator.followed(curator, estimate, moved, radius, label, on)


def _leaves(
    kind: str, keys: Sequence[Key], noise: Callable[[Key], Number], factor: int
) -> dict[Key, Gaussian]:
    """One leaf for every distinct noise, by what the noise is made of: ``kind``, ``kind 2``..."""
    found = {key: noise(key) for key in dict.fromkeys(keys)}
    distinct = list(dict.fromkeys(found.values()))
    names = {n: f"{kind} {i + 1}" if i else kind for i, n in enumerate(distinct)}
    return {key: Gaussian(names[n], n / factor) for key, n in found.items()}


@dataclass(frozen=True)
class PrintedKLSpider(KLSpider):
    """KL-Spider with the printed loop: up to floor(T_k) + 1 updates, each with a difference.

    The next phase starts at the iterate *before* the last update (line 17), which the stopping rule
    did not certify; w_{k,-1} is read as w_{k,0}.  The printed bound Phi_K on the excess
    is no bound: at kappa = 2 and n = 10^6 every run of the experiment kl_loop ends above it, at its
    other kappa and n none.
    Source: Menart et al. 2023, Algorithm 1, as printed.
    """

    noise: SpiderNoise = PrintedNoise()

    @property
    def levels(self) -> tuple[Phase, ...]:
        """The phases; the print has no rule for a vacuous theorem, and runs."""
        return self.schedule.printed_levels

    def lengths(self) -> list[tuple[int, int, Number]]:
        """floor(T_k) + 1 updates and differences, noise for T_k; at most ``steps_at_most``."""
        most = self.schedule.constants.steps_at_most
        found = []
        for phase in self.levels:
            steps = min(int(phase.length) + 1, most)
            found.append((steps, steps, exact(min(phase.length, float(most)), "T_k")))
        return found

    def phase(self, curator: Curator, x: Array, plan: Plan) -> tuple[Array, Array]:
        """One phase from x: the iterate before its last update, and the updates it made."""
        estimate = self.estimator.anchored(curator, x, plan.anchor.label)
        made, before = np.zeros(curator.trials), x
        for step in range(plan.steps):
            on = self.going_on(estimate, plan.phase) & (made == step)
            if not on.any():
                break
            before = np.where(on[:, None], x, before)
            previous, x = x, np.where(on[:, None], self.stepped(x, estimate, plan.phase), x)
            made += on
            estimate = self.updated(curator, estimate, (previous, x), plan, on)
        return before, made
