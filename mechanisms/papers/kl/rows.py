"""This paper's algorithms on somebody's rows: their free parameters, and the noise for a budget."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, Any

from dpaudit.accountant.claim import Claim
from dpaudit.curator.mechanism import Setting
from dpaudit.curator.parameters import Cost, Free, in_unit_interval
from dpaudit.errors import InvalidParameter
from dpaudit.exact import enclose, sqrt
from dpaudit.families.opaque import GDP, ApproxDP
from dpaudit.measures.convert import gaussian_mu
from mechanisms.papers.common.free import Clip, Rounds, Smoothness, StepSize
from mechanisms.papers.common.losses import Logistic
from mechanisms.papers.kl import baselines as made
from mechanisms.papers.kl.adaptive import AdaptiveNoisyGD
from mechanisms.papers.kl.condition import GrowthCondition, KLCondition
from mechanisms.papers.kl.entries import BETA, CHOSEN, RHO, STARTING_GAP, stated
from mechanisms.papers.kl.problem import KLProblem
from mechanisms.papers.kl.proximal import ProximalPointMethod, RegularizedNoisyGD
from mechanisms.papers.kl.schedule import Constants, KLSpiderSchedule
from mechanisms.papers.kl.select import SelectStationaryIterate
from mechanisms.papers.kl.spider import KLSpider

DIGITS = 10**12
RIDGE = 0.01
Rho = Annotated[Fraction, Free("rho of the zCDP claim", Cost.CLAIM)]
Epsilon = Annotated[
    Fraction | None,
    Free("epsilon of a claim (epsilon, delta), which replaces rho", Cost.CLAIM, default="from rho"),
]
Delta = Annotated[
    Fraction | None,
    Free("delta of that claim, a probability", Cost.CLAIM, in_unit_interval, default="1e-6"),
]
Pull = Annotated[float, Free("weight of the pull to the centre, Lw", Cost.NOTHING)]
# The clip of a schedule that is computed from the Lipschitz constant.
ScheduledClip = Annotated[
    float | None,
    Free(
        "l2 norm to which the gradient of one record is clipped, L0",
        Cost.NOISE,
        default="sqrt(features), the Lipschitz constant",
        start=lambda of: math.sqrt(of["features"]),
    ),
]
Scale = Annotated[
    float | None,
    Free(
        "smoothness of the loss, L1: differences are clipped to L1 times a step's length",
        Cost.SCALE,
        default="features / 4",
        start=lambda of: of["features"] / 4,
    ),
]
Radius = Annotated[float, Free("l2 radius of the ball around the start", Cost.NOTHING)]


def budget_of(rho: Fraction, epsilon: Fraction | None, delta: Fraction | None) -> Fraction:
    """rho, or the largest with 12 digits whose Gaussian noise is (epsilon, delta)-DP.

    Errors: InvalidParameter for a delta without an epsilon.
    """
    if epsilon is None:
        if delta is not None:
            raise InvalidParameter(f"delta = {delta}: the claim is of rho; give epsilon too")
        return rho
    mu = gaussian_mu(epsilon, Fraction(1, 10**6) if delta is None else delta)
    square = float(enclose(mu * mu / 2).lower())
    return Fraction(math.floor(square * DIGITS * (1 - 1e-12)), DIGITS)


def claims_of(
    by: str, rho: Fraction, epsilon: Fraction | None, delta: Fraction | None
) -> tuple[Claim, ...]:
    """rho-zCDP, the mu that it is, and (epsilon, delta) where that was asked for."""
    claims = (
        stated(rho, by),
        Claim(GDP(sqrt(2 * rho)), by="the same noise, exactly composed: mu = sqrt(2 rho)"),
    )
    if epsilon is None:
        return claims
    at = Fraction(1, 10**6) if delta is None else delta
    return (*claims, Claim(ApproxDP(epsilon, at), by="the same mu, converted"))


def setting_of(covered: str, *notes: str) -> Setting:
    """The setting of somebody's rows."""
    return Setting(
        unit_entity="row of the data",
        unit_bound="one row",
        covered=(covered,),
        notes=(CHOSEN, *notes),
    )


def problem_of(features: int, count: int, clip: float | None, ridge: float = 0.0) -> KLProblem:
    """Logistic loss of rows of norm sqrt(features) at most, its Lipschitz constant."""
    norm = math.sqrt(features) if clip is None else clip
    return KLProblem(Logistic(l2=ridge), features, count, norm)


Made = tuple[Any, Sequence[Claim], Setting]


def spider_rows(
    by: str,
    features: int,
    count: int,
    *,
    rho: Rho = RHO,
    epsilon: Epsilon = None,
    delta: Delta = None,
    kappa: Annotated[float, Free("exponent of the KL condition, 1 to 2", Cost.NOISE)] = 1.5,
    gamma: Annotated[float, Free("factor of the KL condition", Cost.NOISE)] = 1.0,
    contraction: Annotated[float, Free("how slowly phases contract", Cost.NOISE)] = 1.0,
    floor: Annotated[float, Free("level at which phases end", Cost.NOISE)] = 1.0,
    smoothness: Annotated[
        float | None,
        Free(
            "smoothness of the loss, L1",
            Cost.NOISE,
            default="features / 4",
            start=lambda of: of["features"] / 4,
        ),
    ] = None,
    clip: ScheduledClip = None,
) -> Made:
    """KL-Spider with corrected noise and loop."""
    least, problem = budget_of(rho, epsilon, delta), problem_of(features, count, clip)
    condition = KLCondition(gamma=gamma, kappa=kappa)
    schedule = KLSpiderSchedule(
        condition,
        dimension=features,
        size=count,
        rho=least,
        beta=BETA,
        starting_gap=min(STARTING_GAP, (gamma * problem.lipschitz) ** kappa),
        lipschitz=problem.lipschitz,
        smoothness=features / 4 if smoothness is None else smoothness,
        constants=Constants(contraction=contraction, floor=floor),
        phases="tight",
    )
    program = KLSpider(problem, schedule)
    differences = sum(schedule.steps)
    covered = f"{len(schedule.levels)} noisy mean gradients, and up to {differences} differences"
    return program, claims_of(by, least, epsilon, delta), setting_of(covered)


def regularized_rows(
    by: str,
    features: int,
    count: int,
    *,
    rho: Rho = RHO,
    epsilon: Epsilon = None,
    delta: Delta = None,
    rounds: Rounds = 100,
    pull: Pull = 0.1,
    clip: Clip = None,
) -> Made:
    """Projected noisy gradient descent with a proximal term."""
    least = budget_of(rho, epsilon, delta)
    problem = problem_of(features, count, clip, RIDGE)
    program = RegularizedNoisyGD(problem, least, BETA, weak_convexity=pull, max_steps=rounds)
    covered = f"{program.steps - 1} noisy mean gradients"
    return program, claims_of(by, least, epsilon, delta), setting_of(covered)


def proximal_rows(
    by: str,
    features: int,
    count: int,
    *,
    rho: Rho = RHO,
    epsilon: Epsilon = None,
    delta: Delta = None,
    rounds: Rounds = 25,
    calls: Annotated[int, Free("calls of the solver, at most", Cost.NOISE)] = 8,
    pull: Annotated[float, Free("weight of the pull to the centre, Lw", Cost.NOISE)] = 0.5,
    clip: ScheduledClip = None,
) -> Made:
    """The private proximal point method, kappa = 2 and gamma = 1."""
    least = budget_of(rho, epsilon, delta)
    problem = problem_of(features, count, clip, RIDGE)
    program = ProximalPointMethod(
        problem,
        KLCondition(gamma=1.0, kappa=2.0),
        least,
        BETA,
        min(STARTING_GAP, problem.lipschitz**2),
        weak_convexity=pull,
        max_steps=rounds,
        calls_at_most=calls,
    )
    covered = f"{program.calls * (program.solver.steps - 1)} noisy mean gradients"
    return program, claims_of(by, least, epsilon, delta), setting_of(covered)


def adaptive_rows(
    by: str,
    mode: str,
    features: int,
    count: int,
    *,
    rho: Rho = RHO,
    epsilon: Epsilon = None,
    delta: Delta = None,
    smoothness: Smoothness = None,
    clip: Clip = None,
) -> Made:
    """Adaptive noisy gradient descent, with the charges of the noise that it draws."""
    least = budget_of(rho, epsilon, delta)
    smooth = features / 4 if smoothness is None else smoothness
    program = AdaptiveNoisyGD(problem_of(features, count, clip), least, BETA, smooth, mode=mode)
    return program, claims_of(by, least, epsilon, delta), setting_of(ADAPTIVE, CAP)


def argmin_rows(
    by: str,
    features: int,
    count: int,
    *,
    rho: Rho = RHO,
    epsilon: Epsilon = None,
    delta: Delta = None,
    smoothness: Smoothness = None,
    clip: Clip = None,
) -> Made:
    """The iterate of adaptive noisy gradient descent with the least noisy gradient norm."""
    descent, claims, setting = adaptive_rows(
        by,
        "paper_corrected",
        features,
        count,
        rho=rho,
        epsilon=epsilon,
        delta=delta,
        smoothness=smoothness,
        clip=clip,
    )
    return SelectStationaryIterate(descent, method="noisy_argmin"), claims, setting


ADAPTIVE = "noisy gradient norms and noisy gradients, as many as fit under the cap"
CAP = "the guarantee is the cap; what a run happened to spend is no guarantee"


def descent_rows(
    by: str,
    output: made.Output,
    features: int,
    count: int,
    *,
    rho: Rho = RHO,
    epsilon: Epsilon = None,
    delta: Delta = None,
    rounds: Rounds = 60,
    step_size: StepSize = None,
    clip: Clip = None,
) -> Made:
    """Noisy gradient descent on all rows: the last iterate, or a random one."""
    least = budget_of(rho, epsilon, delta)
    step = 4 / features if step_size is None else step_size
    ridge = RIDGE if output == "last" else 0.0
    problem = problem_of(features, count, clip, ridge)
    program = made.FixedNoisyGD(problem, least, rounds, step, output)
    covered = f"{rounds} noisy mean gradients"
    return program, claims_of(by, least, epsilon, delta), setting_of(covered)


def convex_rows(
    by: str,
    features: int,
    count: int,
    *,
    rho: Rho = RHO,
    epsilon: Epsilon = None,
    delta: Delta = None,
    rounds: Rounds = 60,
    radius: Radius = 3.0,
    clip: Clip = None,
) -> Made:
    """Averaged projected gradient descent, whose step size follows from radius and noise."""
    least, problem = budget_of(rho, epsilon, delta), problem_of(features, count, clip)
    program = made.convex_noisy_gd(problem, least, radius, rounds)
    covered = f"{program.steps} noisy mean gradients"
    return program, claims_of(by, least, epsilon, delta), setting_of(covered)


def private_spider_rows(
    by: str,
    features: int,
    count: int,
    *,
    rho: Rho = RHO,
    epsilon: Epsilon = None,
    delta: Delta = None,
    rounds: Rounds = 60,
    restart_every: Annotated[int, Free("steps from one anchor to the next", Cost.NOISE)] = 10,
    step_length: Annotated[float, Free("length of a step", Cost.SCALE)] = 0.05,
    smoothness: Scale = None,
    clip: Clip = None,
) -> Made:
    """Private Spider with fixed phases."""
    least, problem = budget_of(rho, epsilon, delta), problem_of(features, count, clip)
    smooth = features / 4 if smoothness is None else smoothness
    program = made.PrivateSpider(problem, least, smooth, rounds, restart_every, step_length)
    covered = f"{program.anchors} noisy mean gradients, {rounds - program.anchors} differences"
    return program, claims_of(by, least, epsilon, delta), setting_of(covered)


def epochs_rows(
    by: str,
    features: int,
    count: int,
    *,
    rho: Rho = RHO,
    epsilon: Epsilon = None,
    delta: Delta = None,
    rounds: Rounds = 30,
    epochs: Annotated[int, Free("epochs, each twice as local", Cost.NOISE)] = 3,
    pull: Pull = 0.5,
    clip: Clip = None,
) -> Made:
    """Noisy gradient descent in localising epochs."""
    least = budget_of(rho, epsilon, delta)
    program = made.EpochLocalizedERM(
        problem_of(features, count, clip, RIDGE),
        GrowthCondition(lam=0.1, tau=2.0),
        least,
        BETA,
        weak_convexity=pull,
        epochs=epochs,
        max_steps=rounds,
    )
    covered = f"{epochs * (program.solvers[0].steps - 1)} noisy mean gradients"
    return program, claims_of(by, least, epsilon, delta), setting_of(covered)
