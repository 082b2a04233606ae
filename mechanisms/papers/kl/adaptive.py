"""Adaptive noisy gradient descent: noise scaled to a private gradient norm, stopped by the budget.

The noise multiplier of every gradient is made of the noisy norm released before it, under a zCDP
filter: the guarantee is the cap, whatever the rounds spend.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpaudit.accountant.filters.spending import Mask
from dpaudit.curator.curator import Curator
from dpaudit.errors import InvalidParameter
from dpaudit.exact import sqrt
from dpaudit.families.adaptive import Filter, Select
from dpaudit.families.additive import Gaussian
from dpaudit.families.opaque import ZCDP
from dpaudit.kernels.query import Array, ClippedMean, Norm, Records
from dpaudit.nodes import Node
from dpaudit.scope import Adjacency, Scope
from mechanisms.papers.kl.problem import KLProblem, budget, chance, moves
from mechanisms.papers.srgd.problem import real

MODES = ("paper_corrected", "filter", "proof")
NORM, GRADIENT = "norm", "gradient"
RELEASES = Select(Gaussian(NORM, 1), Gaussian(GRADIENT, 1))


@dataclass(frozen=True, eq=False)
class PrivateGradientNorm:
    """The l2 norm of a clipped mean, (trials, 1): it moves no further than the mean itself.

    Source: the reverse triangle inequality; Menart et al. 2023, Algorithm 3, line 3.
    """

    mean: ClippedMean

    @property
    def norm(self) -> Norm:
        return "l2"

    def value(self, records: Records, chosen: NDArray[np.bool_] | None = None) -> Array:
        found = np.linalg.norm(self.mean.value(records, chosen), axis=-1, keepdims=True)
        return np.asarray(found, dtype=np.float64)

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        return self.mean.sensitivity(adjacency, size)

    def mixes_records(self, records: Records) -> bool:
        """Whether one record changes another's vector: an audit's check."""
        return self.mean.mixes_records(records)


@dataclass(frozen=True, eq=False)
class Walked:
    """What a run gives: its output, and the path of points at which a gradient was released.

    ``output`` (trials, d); ``rounds`` (trials,): noisy norms released; ``path``: one (trials, d) a
    round, NaN where that trial had stopped; ``norms``: the noisy norms as released, (trials,) each.
    """

    output: Array
    rounds: Array
    path: tuple[Array, ...]
    norms: tuple[Array, ...]


@dataclass
class _Progress:
    """A run so far."""

    x: Array
    on: Mask
    output: Array
    spent: Array
    path: list[Array] = field(default_factory=list)
    norms: list[Array] = field(default_factory=list)


@dataclass(frozen=True)
class AdaptiveNoisyGD:
    """Rounds of a noisy norm N_t and a gradient with noise max(N_t / sqrt(d ell), floor).

    sigma_norm = L0 / (sqrt(n) rho^(1/4)), floor = 2 L0 / (n sqrt(rho)), ell = log(n sqrt(rho) /
    beta), step 1 / (2 L1).  N_t is cut at 0 before any use, and a round is charged from the noise
    that it draws.  ``mode``:
    "paper_corrected": rounds go on while rho/2 less a norm's charge is not passed: the last one
    then fits in any case; "filter": while charges fit into rho; "proof": as paper_corrected with
    sigma_t = max(N_t / (2 sqrt(2 d log(2 n sqrt(rho) / beta))), floor), for which the descent
    inequality is proved.
    The output is the last point at which a gradient was released (w_T, which the theorem is
    about), in mode filter the last iterate.
    Errors: InvalidParameter unless n sqrt(rho) > 4 and n sqrt(rho) / beta > e, or for numbers that
    are not positive.
    Source: Menart et al. 2023, Algorithm 3 and Theorem 3, corrected; Whitehouse, Ramdas, Rogers, Wu
    2023 for the filter.
    """

    problem: KLProblem
    rho: Fraction
    beta: float
    smoothness: float
    mode: str = "paper_corrected"
    rounds_at_most: int = 100_000

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", budget(self.rho, f"{type(self).__name__}.rho"))
        real(self.smoothness, f"{type(self).__name__}.smoothness")
        if self.mode not in MODES:
            raise InvalidParameter(f"mode = {self.mode!r}: expected {', '.join(MODES)}")
        chance(self.beta, f"{type(self).__name__}.beta")
        if self.scale <= 4 or self.scale / self.beta <= math.e:
            raise InvalidParameter(
                f"n sqrt(rho) = {self.scale:.4g}: expected above 4, and above e beta; use more "
                "records or a larger rho"
            )

    @property
    def scale(self) -> float:
        """n sqrt(rho)."""
        return self.problem.size * math.sqrt(self.rho)

    @property
    def ell(self) -> float:
        """log(n sqrt(rho) / beta)."""
        return math.log(self.scale / self.beta)

    @property
    def ahead(self) -> bool:
        """Whether the output is the last iterate, not the point of the last released gradient."""
        return self.mode == "filter"

    @property
    def rounds_upper(self) -> int:
        """floor(n sqrt(rho) / 2) + 1: rounds, where a norm is charged sqrt(rho) / n or more.

        Source: Menart et al. 2023, proof of Theorem 3.
        """
        return math.floor(self.scale / 2) + 1

    @property
    def norm_noise(self) -> float:
        """sigma_norm."""
        own = self.problem
        return float(own.lipschitz / (math.sqrt(own.size) * float(self.rho) ** 0.25))

    @property
    def floor(self) -> float:
        """The least noise of a gradient."""
        return 2 * self.problem.lipschitz / self.scale

    def declaration(self, scope: Scope) -> Node:
        """Norms and gradients, as many as fit under the cap rho."""
        moves(scope, type(self).__name__)
        return Filter.of(RELEASES, ZCDP(self.rho))

    def run(self, curator: Curator) -> Walked:
        """Run on a curator; iterates are (trials, d)."""
        unit = moves(curator.scope, type(self).__name__) * self.problem.lipschitz
        unit = unit / self.problem.size
        x, trials = self.problem.initial(curator.trials), curator.trials
        now = _Progress(x, np.ones(trials, dtype=bool), x, np.zeros(trials))
        for _ in range(self.rounds_at_most):
            self.round(curator, now, unit)
            if not now.on.any():
                break
        rounds = np.sum([np.isfinite(n) for n in now.norms], axis=0) if now.norms else now.spent
        return Walked(now.output, np.asarray(rounds), tuple(now.path), tuple(now.norms))

    def round(self, curator: Curator, now: _Progress, unit: float) -> None:
        """One round of the trials that go on; ``unit``: the sensitivity of a mean gradient."""
        norm_multiplier = self.norm_noise / unit
        now.on = self.goes_on(now.spent, unit) & now.on
        now.on = curator.admits(NORM, norm_multiplier, on=now.on)
        if not now.on.any():
            return
        mean = self.problem.mean_gradient(now.x)
        noisy = self.noisy_norm(curator, mean, now.on, norm_multiplier)
        sigma = np.where(now.on, self.gradient_noise(noisy), self.floor)
        now.norms.append(noisy)
        now.spent = now.spent + np.where(now.on, self.charge(noisy, sigma, unit), 0.0)
        with np.errstate(over="ignore"):  # a norm that was drawn beyond float64's range
            multipliers = sigma / unit
        now.on = curator.admits(GRADIENT, multipliers, on=now.on & self.steps(now.spent))
        if not now.on.any():
            return
        released = curator.release(GRADIENT, mean, on=now.on, noise_multiplier=multipliers)
        self._step(now, released)

    def noisy_norm(
        self, curator: Curator, mean: ClippedMean, on: Mask, noise_multiplier: float
    ) -> Array:
        """N_t, (trials,): NaN where off, and as it was drawn, so that it can be negative."""
        query = PrivateGradientNorm(mean)
        return curator.release(NORM, query, on=on, noise_multiplier=noise_multiplier)[:, 0]

    def steps(self, spent: Array) -> Mask:
        """Which trials release a gradient in this round, its charge included in ``spent``: all."""
        return np.ones(len(spent), dtype=bool)

    def _step(self, now: _Progress, released: Array) -> None:
        on = now.on[:, None]
        now.path.append(np.where(on, now.x, np.nan))
        at, after = now.x, np.where(on, now.x - released / (2 * self.smoothness), now.x)
        now.output = np.where(on, after if self.ahead else at, now.output)
        now.x = after

    def goes_on(self, spent: Array, unit: float) -> Mask:
        """Which trials start another round; in mode filter the curator alone decides."""
        if self.mode == "filter":
            return np.ones(len(spent), dtype=bool)
        return np.asarray(spent <= float(self.rho) / 2 - unit**2 / (2 * self.norm_noise**2))

    def gradient_noise(self, noisy: Array) -> Array:
        """sigma_t of released norms; a norm that is negative or no number gets the floor."""
        d = self.problem.dimension
        wide = 2 * math.sqrt(2 * d * math.log(2 * self.scale / self.beta))
        divisor = wide if self.mode == "proof" else math.sqrt(d * self.ell)
        # fmax, not maximum: no NaN comes through.
        return np.asarray(np.fmax(np.fmax(noisy, 0.0) / divisor, self.floor))

    def charge(self, noisy: Array, sigma: Array, unit: float) -> Array:
        """What a round cost, from the noise it drew: unit^2 / (2 sigma^2), twice."""
        with np.errstate(over="ignore"):  # a norm that was drawn beyond float64's range
            return np.asarray(unit**2 / (2 * self.norm_noise**2) + unit**2 / (2 * sigma**2))


@dataclass(frozen=True)
class GradientNormAtStart:
    """One noisy gradient norm, at the start, with sigma = L0 / (sqrt(n) rho^(1/4)).

    2 sqrt(rho) / n-zCDP under replace_one, where the paper charges sqrt(rho) / n; a quarter of that
    under zero_out.
    Errors: InvalidParameter for a budget that is not positive.
    Source: Menart et al. 2023, Algorithm 3, line 3.
    """

    problem: KLProblem
    rho: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", budget(self.rho, "GradientNormAtStart.rho"))

    def declaration(self, scope: Scope) -> Node:
        """One Gaussian release: noise over sensitivity is sqrt(n) / (factor rho^(1/4))."""
        noise = sqrt(Fraction(self.problem.size)) / sqrt(sqrt(self.rho))
        return Gaussian(NORM, noise / moves(scope, type(self).__name__))

    def run(self, curator: Curator) -> Array:
        """The noisy norm, (trials, 1); it can be negative."""
        start = self.problem.initial(curator.trials)
        return curator.release(NORM, PrivateGradientNorm(self.problem.mean_gradient(start)))
