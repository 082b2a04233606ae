"""KL-Spider's schedule: phases, steps and thresholds, made of public numbers alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from dpaudit.errors import InvalidParameter
from mechanisms.papers.kl.condition import KLCondition
from mechanisms.papers.kl.problem import budget, chance
from mechanisms.papers.srgd.problem import real, whole

LARGEST_PHASES = 100_000
LARGEST_STEPS = 10_000_000


@dataclass(frozen=True)
class Constants:
    """The constants of the schedule; of these only ``step`` enters the noise.

    ``contraction`` (64) and ``floor`` (32) make the phases, ``stop`` (7/8) the stopping threshold,
    ``step`` (1/4) the length of a step.  ``steps_at_most`` caps the steps of a phase: the noise is
    then made for the steps that are left.
    Errors: InvalidParameter for one that is not positive.
    Source: Menart et al. 2023, Algorithm 1.
    """

    contraction: float = 64.0
    floor: float = 32.0
    stop: Fraction = Fraction(7, 8)
    step: Fraction = Fraction(1, 4)
    steps_at_most: int = 100_000

    def __post_init__(self) -> None:
        real(self.contraction, "Constants.contraction")
        real(self.floor, "Constants.floor")
        for name in ("stop", "step"):
            object.__setattr__(self, name, budget(getattr(self, name), f"Constants.{name}"))
        whole(self.steps_at_most, "Constants.steps_at_most")


PAPER = Constants()
# No theorem: short phases that fit data of some thousand records.
PRACTICAL = Constants(contraction=1.0, floor=1.0)


@dataclass(frozen=True)
class Phase:
    """One phase: its level Phi_k, T_k as in the paper (a real number), and Phi_k^(1/kappa)."""

    level: float
    length: float
    scale: float


@dataclass(frozen=True)
class KLSpiderSchedule:
    """Phases k = 1..K: Phi_k = max(Phi_{k-1} / c, min(floor, F0)), T_k = (F0/Phi_k)^((2-k)/k).

    ``dimension``, ``size``: d and n; ``rho``: the zCDP budget; ``beta``: the failure probability;
    ``starting_gap``: F0 >= F(w0) - min F, at most (gamma L0)^kappa; ``phases``: K, "paper" for the
    printed one, "tight" for the least K whose contraction reaches its own floor.
    Everything is public: F0, gamma, kappa, L0, L1 must not be computed from the records.
    Errors: InvalidParameter for kappa outside [1, 2], beta outside (0, 1), F0 above its bound,
    numbers that are not positive and finite, or absurdly many phases.
    Source: Menart et al. 2023, Algorithm 1, lines 1 to 7; log(F0 / phi0) for its printed bracket.
    """

    condition: KLCondition
    dimension: int
    size: int
    rho: Fraction
    beta: float
    starting_gap: float
    lipschitz: float
    smoothness: float
    constants: Constants = PAPER
    phases: str | int = "paper"

    def __post_init__(self) -> None:
        for name in ("dimension", "size"):
            whole(getattr(self, name), f"KLSpiderSchedule.{name}")
        for name in ("lipschitz", "smoothness"):
            real(getattr(self, name), f"KLSpiderSchedule.{name}")
        _ = self.gap
        object.__setattr__(self, "rho", budget(self.rho, "KLSpiderSchedule.rho"))
        if self.condition.kappa > 2:
            raise InvalidParameter(
                f"KL-Spider needs kappa in [1, 2], not {self.condition.kappa}: "
                "use the proximal point method above 2"
            )
        chance(self.beta, "KLSpiderSchedule.beta")
        if isinstance(self.phases, str) and self.phases not in ("paper", "tight"):
            raise InvalidParameter(f"phases = {self.phases!r}: expected paper, tight or a count")
        given = 0 if isinstance(self.phases, str) else whole(self.phases, "KLSpiderSchedule.phases")
        if given > LARGEST_PHASES or (not self.vacuous and self.count > LARGEST_PHASES):
            raise InvalidParameter(
                f"{max(given, self.count)} phases, above {LARGEST_PHASES}: use other constants, or "
                "another number of phases"
            )

    @cached_property
    def gap(self) -> float:
        """F0."""
        place = "KLSpiderSchedule.starting_gap"
        return self.condition.admitted_gap(self.starting_gap, self.lipschitz, place)

    @property
    def exponent(self) -> float:
        """(2 - kappa) / kappa."""
        return (2 - self.condition.kappa) / self.condition.kappa

    @property
    def contraction(self) -> float:
        """c - 1 = F0^((2 - kappa)/kappa) / (64 gamma^2 L1)."""
        scale = self.constants.contraction * self.condition.gamma**2 * self.smoothness
        return float(self.gap**self.exponent / scale)

    @property
    def _unit(self) -> float:
        """gamma L0 sqrt(d) / (n sqrt(rho))."""
        noise = self.lipschitz * math.sqrt(self.dimension) / (self.size * math.sqrt(self.rho))
        return self.condition.gamma * noise

    @cached_property
    def count(self) -> int:
        """K; 0 where the start is below phi0 already."""
        log_ratio = math.log(self.gap) - self.condition.kappa * math.log(self._unit)
        if log_ratio <= 0:
            return 0
        printed = math.ceil((1 + 1 / self.contraction) * log_ratio)
        if self.phases == "tight":
            return self._tight(printed)
        return printed if self.phases == "paper" else int(self.phases)

    def _tight(self, most: int) -> int:
        """The least K with c^-K F0 <= floor(K): the floor grows with K, the left side falls."""
        low, high = 1, most
        while low < high:
            middle = (low + high) // 2
            reached = math.log(self.gap) - middle * math.log1p(self.contraction)
            if reached <= math.log(self._floor(middle)):
                high = middle
            else:
                low = middle + 1
        return low

    def _failure(self, count: int) -> float:
        unit = self._unit * math.sqrt(count) / float(self.gap ** (1 / self.condition.kappa))
        return min(0.5, float(self.beta / count * unit ** (2 - self.condition.kappa)))

    def _floor(self, count: int) -> float:
        deviations = math.sqrt(count * math.log(1 / self._failure(count)))
        return float((self.constants.floor * self._unit * deviations) ** self.condition.kappa)

    @cached_property
    def failure(self) -> float:
        """beta' of one estimate, at most 1/2."""
        return self._failure(max(self.count, 1))

    @cached_property
    def floor(self) -> float:
        """The level at which the theorem's bound ends."""
        return self._floor(max(self.count, 1))

    @property
    def vacuous(self) -> bool:
        """Whether the theorem promises nothing better than the start: floor >= F0, or K = 0."""
        return self.count == 0 or self.floor >= self.gap

    @cached_property
    def levels(self) -> tuple[Phase, ...]:
        """The phases in order; none where the theorem is vacuous."""
        return () if self.vacuous else self.printed_levels

    @cached_property
    def printed_levels(self) -> tuple[Phase, ...]:
        """The phases as printed, which has no rule for a vacuous theorem: all at F0 then."""
        found, level, floor = [], self.gap, min(self.floor, self.gap)
        for _ in range(self.count):
            level = max(level / (1 + self.contraction), floor)
            length = (self.gap / level) ** self.exponent
            found.append(Phase(level, length, level ** (1 / self.condition.kappa)))
        return tuple(found)

    @cached_property
    def steps(self) -> tuple[int, ...]:
        """Steps of each phase: ceil(T_k), at most ``constants.steps_at_most``."""
        most = self.constants.steps_at_most
        found = tuple(min(most, max(1, _whole_above(p.length))) for p in self.levels)
        if sum(found) > LARGEST_STEPS:
            raise InvalidParameter(f"{sum(found)} steps: set Constants.steps_at_most lower")
        return found

    @property
    def excess_upper(self) -> float:
        """Phi_K, the explicit bound on F(output) - min F with probability 1 - beta; F0 if vacuous.

        Only for the paper's constants and uncapped steps.
        """
        return self.levels[-1].level if self.levels else self.gap

    @property
    def region_radius(self) -> float:
        """No iterate leaves this ball around w0: the sum of all steps' lengths."""
        length = float(self.constants.step) / (self.condition.gamma * self.smoothness)
        return float(
            length * sum(s * p.scale for s, p in zip(self.steps, self.levels, strict=True))
        )


def _whole_above(length: float) -> int:
    """ceil, where a whole number that came out a rounding error above itself counts as itself."""
    nearest = round(length)
    return nearest if abs(length - nearest) <= 1e-12 * length else math.ceil(length)
