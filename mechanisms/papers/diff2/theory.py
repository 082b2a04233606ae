"""What DIFF2's utility theory promises, and parameters chosen by it: none of it reads data.

The bounds hold where no record is clipped (C1 >= G, C2 and C3 >= L) and the output is the uniformly
random iterate.  Norms are l2; gradients are those of f, the unweighted mean over clients.
Constants that the paper hides in Theta and O-tilde are 1 in ``*_theory_params``; the ``*_auto``
choosers minimise the bound with all its constants instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpaudit.errors import InvalidParameter
from dpaudit.exact import Number, enclose, exact
from dpaudit.kernels.query import Array
from mechanisms.papers.diff2.bvr_noise import Plan, diff2_bvr_noise_paper
from mechanisms.papers.diff2.noise import Noise, calibration_of

SHARES = (1.05, 1.25, 2.0, 4.0)
MOST_ROUNDS = 10**7
POINTS = 240


@dataclass(frozen=True)
class Problem:
    """Public facts of an objective: everything here must be known without the data.

    ``smoothness``: L, of every record's loss; ``gradient_bound``: G, on every record's gradient;
    ``gap``: f(x_0) - inf f, or more; ``dimension``: d.
    Errors: InvalidParameter for what is not positive and finite.
    """

    smoothness: float
    gradient_bound: float
    gap: float
    dimension: int

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            _positive(value, f"Problem.{name}")
        if not hasattr(self.dimension, "__index__"):
            raise InvalidParameter(f"Problem.dimension = {self.dimension}: expected a whole number")


@dataclass(frozen=True)
class Budget:
    """(epsilon, delta), N = n_min P, and the constants that spend it: ``paper`` or ``tight``.

    Errors: InvalidParameter for values outside their domains, or another calibration.
    """

    epsilon: object
    delta: object
    smallest_total: int
    calibration: str = "paper"

    def __post_init__(self) -> None:
        _counts(smallest_total=self.smallest_total)
        self.noise(1, 0, 1)

    def noise(self, restarts: int, differences: int, share: object) -> Noise:
        """The noise of a schedule, ``share`` = u."""
        calibrate = calibration_of(self.calibration)
        return calibrate(
            self.epsilon, self.delta, self.smallest_total, restarts, differences, share
        )

    @property
    def unit(self) -> float:
        """sigma_1^2 of a single restart that has the whole budget."""
        return _float(self.noise(1, 0, 1).sigma_1) ** 2

    @property
    def reach(self) -> float:
        """N epsilon."""
        return self.smallest_total * _float(exact(self.epsilon, "epsilon"))


@dataclass(frozen=True)
class Choice:
    """Parameters of a DIFF2-GD run; radii are C1 = G and C2 = L.

    ``share``: u, of which 1/u of the budget goes to restarts; ``gradient_norm_upper``: the bound on
    the mean squared gradient norm E ||grad f||^2 of the output.
    """

    rounds: int
    restart_every: int
    share: float
    step_size: float
    noise: Noise
    gradient_norm_upper: float


@dataclass(frozen=True)
class LocalChoice:
    """Parameters of a DIFF2-BVR-L-SGD run; radii are C1 = G and C2 = C3 = L."""

    plan: Plan
    step_size: float
    noise: Noise
    sigma: Number
    gradient_norm_upper: float


# --- DIFF2-GD ------------------------------------------------------------------------------------


def diff2_gd_step_size(problem: Problem, restart_every: int, noise: Noise) -> float:
    """min(1/(2L), 1/(2 sqrt(T d) sigma_2 C2)) with C2 = L: the largest step of the bound below.

    Errors: InvalidParameter for a period below 1, or noise that is symbolic.
    Source: Murata and Suzuki 2023, Proposition D.2 (its step prints without the root of T).
    """
    _counts(restart_every=restart_every)
    accumulated = math.sqrt(restart_every * problem.dimension) * _float(noise.sigma_2)
    return 1 / (2 * problem.smoothness * max(1.0, accumulated))


def diff2_gd_bound(problem: Problem, rounds: int, restart_every: int, noise: Noise) -> float:
    """2 gap/(eta R) + 2 sigma_1^2 C1^2 d, with eta of :func:`diff2_gd_step_size` and C1 = G.

    A bound on E ||grad f(output)||^2 of DIFF2-GD and, at restart_every = 1, of DP-GD.
    Errors: as there.  Source: Murata and Suzuki 2023, Propositions D.1 and D.2, with constants.
    """
    _counts(rounds=rounds)
    step = diff2_gd_step_size(problem, restart_every, noise)
    release = (_float(noise.sigma_1) * problem.gradient_bound) ** 2 * problem.dimension
    return 2 * problem.gap / (step * rounds) + 2 * release


def diff2_gd_theory_params(problem: Problem, budget: Budget, share: float = 2.0) -> Choice:
    """The schedule of Theorem 4.3 with its hidden constants 1: right in its rates, not the best.

    T = round(tau R) in 1..R, tau = (G^2 sqrt(d) / (L N eps))^(2/3), R = ceil(1 + L/e + L^2 d/(N eps
    e)^2), e = (L G d)^(2/3) / (N eps)^(4/3); N = n_min P.
    Errors: InvalidParameter for N below G^2 sqrt(d) / (L eps), where tau is above 1.
    Source: Murata and Suzuki 2023, Theorem 4.3.
    """
    target = _target(problem, budget.reach)
    ratio = (problem.smoothness / (budget.reach * target)) ** 2 * problem.dimension
    rounds = _rounds(1 + problem.smoothness / target + ratio)
    return _choice(problem, budget, rounds, _period(problem, budget.reach, rounds), share)


def diff2_gd_auto(
    problem: Problem,
    budget: Budget,
    shares: Sequence[float] = SHARES,
    most_rounds: int = MOST_ROUNDS,
) -> Choice:
    """The least :func:`diff2_gd_bound` over rounds, period and budget share: free of data.

    Searches a logarithmic grid, then twice around its best point; the bound is flat there.
    ``shares``: the values of u to try, each above 1.
    Errors: InvalidParameter for no share, one that is not above 1, or ``most_rounds`` below 1.
    Source: the bound is Murata and Suzuki 2023, Proposition D.2; minimising it is ours.
    """
    _counts(most_rounds=most_rounds)
    if not shares or not all(1 < share < math.inf for share in shares):
        raise InvalidParameter(f"shares = {shares}: expected numbers above 1")
    unit = budget.unit
    found = {share: _searched(problem, unit, share, most_rounds) for share in shares}
    share = min(found, key=lambda u: found[u])
    return _choice(problem, budget, *found[share][1:], share)


def dp_gd_auto(problem: Problem, budget: Budget, most_rounds: int = MOST_ROUNDS) -> Choice:
    """The number of rounds of DP-GD (a restart every round) with the least bound.

    The bound is a/R + b R, so that the best R is next to sqrt(a/b).
    Errors: InvalidParameter for ``most_rounds`` below 1.
    """
    _counts(most_rounds=most_rounds)
    falling = 4 * problem.gap * problem.smoothness
    rising = 2 * budget.unit * problem.gradient_bound**2 * problem.dimension
    best = min(math.sqrt(falling / rising), most_rounds)
    near = {min(max(1, int(best) + k), most_rounds) for k in (0, 1)}
    return _choice(problem, budget, min(near, key=lambda r: falling / r + rising * r), 1, 1.0)


def _choice(problem: Problem, budget: Budget, rounds: int, every: int, share: float) -> Choice:
    restarts = -(-rounds // every)
    noise = budget.noise(restarts, rounds - restarts, share)
    return Choice(
        rounds=rounds,
        restart_every=every,
        share=share,
        step_size=diff2_gd_step_size(problem, every, noise),
        noise=noise,
        gradient_norm_upper=diff2_gd_bound(problem, rounds, every, noise),
    )


def _searched(
    problem: Problem, unit: float, share: float, most_rounds: int
) -> tuple[float, int, int]:
    """The least bound at one share, with its rounds and period."""
    wide = np.geomspace(1, most_rounds, POINTS)
    best = _best_of(problem, unit, share, wide, wide)
    for _ in range(2):
        _, rounds, every = best
        near = np.linspace(0.9, 1.1, POINTS)
        closer = np.clip(rounds * near, 1, most_rounds), -(-rounds // every) * near
        best = min(best, _best_of(problem, unit, share, *closer))
    return best


def _best_of(
    problem: Problem, unit: float, share: float, rounds: Array, restarts: Array
) -> tuple[float, int, int]:
    """The least bound over all pairs of a number of rounds and one of restarts."""
    grid, counts = np.meshgrid(np.unique(rounds.round()), np.unique(np.ceil(restarts)))
    # The smallest period with so many restarts: a larger one costs step size.
    every = np.maximum(1.0, np.ceil(grid / counts))
    values = _bounds(problem, unit, share, grid, every)
    at = np.unravel_index(np.argmin(values), values.shape)
    return float(values[at]), int(grid[at]), int(every[at])


def _bounds(problem: Problem, unit: float, share: float, rounds: Array, every: Array) -> Array:
    """The bound for many schedules: sigma_1^2 = u N1 unit, sigma_2^2 = u/(u-1) N2 unit."""
    restarts = np.ceil(rounds / every)
    differences = unit * share / (share - 1) * (rounds - restarts)
    accumulated = np.sqrt(every * problem.dimension * differences)
    inverse_step = 2 * problem.smoothness * np.maximum(1.0, accumulated)
    release = unit * share * restarts * problem.gradient_bound**2 * problem.dimension
    return np.asarray(2 * problem.gap * inverse_step / rounds + 2 * release)


# --- DIFF2-BVR-L-SGD -----------------------------------------------------------------------------


def diff2_bvr_step_size(
    problem: Problem, plan: Plan, noise: Noise, sigma: Number, heterogeneity: float
) -> float:
    """The smallest of 1/(2L) and two terms, of local and of server noise; C2 = C3 = L.

    1/(2 sqrt(2e (K(K+1) zeta^2 + K L^2/b + K C3^2 sigma_3^2 d))), 1/(2 sqrt(2e T) K sigma_2 C2
    sqrt(d)); zeta is the ``heterogeneity``, a bound on ||Hess f_p - Hess f|| (2 (1 - 1/P) L always
    is one; L is not where losses are nonconvex and P >= 3).
    Errors: InvalidParameter for a heterogeneity that is negative or not finite.
    Source: Murata and Suzuki 2023, Proposition F.2, repaired: it prints K^2 eta^2 for K^2 zeta^2,
    the recursion gives K (K + 1), and its proof names C2 where C3 is the radius.
    """
    if not (math.isfinite(heterogeneity) and heterogeneity >= 0):
        raise InvalidParameter(f"heterogeneity = {heterogeneity}: expected a finite number >= 0")
    steps, smoothness = plan.steps, problem.smoothness
    spread = steps * (steps + 1) * heterogeneity**2
    spread += steps * smoothness**2 * (1 / plan.batch_size + _float(sigma) ** 2 * problem.dimension)
    local = math.sqrt(2 * math.e * spread)
    server = steps * smoothness * _float(noise.sigma_2) * math.sqrt(problem.dimension)
    server *= math.sqrt(2 * math.e * plan.restart_every)
    return 1 / (2 * max(smoothness, local, server))


def diff2_bvr_bound(
    problem: Problem, plan: Plan, noise: Noise, sigma: Number, heterogeneity: float
) -> float:
    """2 gap/(eta K R) + 2e sigma_1^2 C1^2 d with eta of :func:`diff2_bvr_step_size`, C1 = G.

    A bound on E ||grad f(output)||^2.  Errors: as there.
    Source: Murata and Suzuki 2023, Propositions F.2 and F.3, with constants.
    """
    step = diff2_bvr_step_size(problem, plan, noise, sigma, heterogeneity)
    release = (_float(noise.sigma_1) * problem.gradient_bound) ** 2 * problem.dimension
    return 2 * problem.gap / (step * plan.steps * plan.rounds) + 2 * math.e * release


def diff2_bvr_theory_params(
    problem: Problem,
    smallest: int,
    clients: int,
    steps: int,
    batch_size: int,
    heterogeneity: float,
    epsilon: object,
    delta: object,
) -> LocalChoice:
    """The schedule of Theorem F.4 with its hidden constants 1, and the printed noise.

    T = round(tau R) as in :func:`diff2_gd_theory_params`; R = ceil(1 + (L/K + zeta + L/sqrt(K b) +
    L sqrt(d)/(sqrt(K) b sqrt(eps))) / e + L^2 d / (n^2 P eps^2 e^2)), n the ``smallest`` client.
    Errors: InfeasibleBatchSize for a batch above what the printed noise is proved for; otherwise as
    :func:`diff2_gd_theory_params`.
    Source: Murata and Suzuki 2023, Theorem F.4 (the third term as in its proof).
    """
    _counts(smallest=smallest, clients=clients, steps=steps, batch_size=batch_size)
    budget = Budget(epsilon, delta, smallest * clients)
    at, target = budget.reach / budget.smallest_total, _target(problem, budget.reach)
    smoothness, root = problem.smoothness, math.sqrt(steps)
    local = smoothness / steps + heterogeneity + smoothness / (root * math.sqrt(batch_size))
    local += smoothness * math.sqrt(problem.dimension / at) / (root * batch_size)
    server = (smoothness / (smallest * at * target)) ** 2 * problem.dimension / clients
    rounds = _rounds(1 + local / target + server)
    every = _period(problem, budget.reach, rounds)
    plan = Plan(smallest, clients, rounds, every, steps, batch_size)
    noise, sigma = diff2_bvr_noise_paper(epsilon, delta, plan)
    return LocalChoice(
        plan=plan,
        step_size=diff2_bvr_step_size(problem, plan, noise, sigma, heterogeneity),
        noise=noise,
        sigma=sigma,
        gradient_norm_upper=diff2_bvr_bound(problem, plan, noise, sigma, heterogeneity),
    )


# --- shared --------------------------------------------------------------------------------------


def _target(problem: Problem, reach: float) -> float:
    """(L G d)^(2/3) / (N eps)^(4/3); ``reach`` is N eps."""
    scale = problem.smoothness * problem.gradient_bound * problem.dimension
    return float(scale ** (2 / 3) / reach ** (4 / 3))


def _period(problem: Problem, reach: float, rounds: int) -> int:
    """round(tau R) in 1..R with tau = (G^2 sqrt(d) / (L N eps))^(2/3)."""
    least = problem.gradient_bound**2 * math.sqrt(problem.dimension) / problem.smoothness
    if least > reach:
        raise InvalidParameter(
            f"n_min P epsilon = {reach:g}: the theory needs at least G^2 sqrt(d) / L = {least:g}"
        )
    return min(rounds, max(1, round(math.pow(least / reach, 2 / 3) * rounds)))


def _rounds(value: float) -> int:
    if not value <= 2**53:
        raise InvalidParameter(f"{value:g} rounds: no run makes so many; choose fewer yourself")
    return math.ceil(value)


def _float(value: Number) -> float:
    return float(enclose(value).mid())


def _counts(**values: int) -> None:
    for name, value in values.items():
        if isinstance(value, bool) or not (hasattr(value, "__index__") and value > 0):
            raise InvalidParameter(f"{name} = {value!r}: expected a positive whole number")


def _positive(value: object, name: str) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float, Fraction)):
        raise InvalidParameter(f"{name} = {value!r}: expected a number")
    if not (math.isfinite(value) and value > 0):
        raise InvalidParameter(f"{name} = {value}: expected a positive, finite number")
