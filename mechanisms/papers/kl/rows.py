"""This paper's algorithms on somebody's rows: their free parameters, and the noise for a budget."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
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
Built = tuple[Any, ...]  # the program, what it releases, and notes


def budgeted(build: Callable[..., Built]) -> Callable[..., Made]:
    """A builder at a zCDP budget ``rho``, as one that takes rho, or epsilon and delta.

    The first argument of what it returns says what states the claims.
    """

    def made(
        by: str,
        *shape: Any,
        rho: Rho = RHO,
        epsilon: Epsilon = None,
        delta: Delta = None,
        **values: Any,
    ) -> Made:
        least = budget_of(rho, epsilon, delta)
        program, covered, *notes = build(*shape, rho=least, **values)
        return program, claims_of(by, least, epsilon, delta), setting_of(covered, *notes)

    both = (inspect.signature(function).parameters for function in (made, build))
    budget, own = (list(parameters.values()) for parameters in both)
    kept = [one for one in budget if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    kept += [one for one in own if one.name != "rho"]
    shaped = sorted(kept, key=lambda one: one.kind)
    made.__signature__ = inspect.Signature(shaped)  # type: ignore[attr-defined]
    made.__annotations__ = {**build.__annotations__, **made.__annotations__}
    made.__doc__ = build.__doc__
    return made


@budgeted
def spider_rows(
    features: int,
    count: int,
    *,
    rho: Fraction,
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
) -> Built:
    """KL-Spider with corrected noise and loop."""
    problem = problem_of(features, count, clip)
    condition = KLCondition(gamma=gamma, kappa=kappa)
    schedule = KLSpiderSchedule(
        condition,
        dimension=features,
        size=count,
        rho=rho,
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
    return program, covered


@budgeted
def regularized_rows(
    features: int,
    count: int,
    *,
    rho: Fraction,
    rounds: Rounds = 100,
    pull: Pull = 0.1,
    clip: Clip = None,
) -> Built:
    """Projected noisy gradient descent with a proximal term."""
    problem = problem_of(features, count, clip, RIDGE)
    program = RegularizedNoisyGD(problem, rho, BETA, weak_convexity=pull, max_steps=rounds)
    covered = f"{program.steps - 1} noisy mean gradients"
    return program, covered


@budgeted
def proximal_rows(
    features: int,
    count: int,
    *,
    rho: Fraction,
    rounds: Rounds = 25,
    calls: Annotated[int, Free("calls of the solver, at most", Cost.NOISE)] = 8,
    pull: Annotated[float, Free("weight of the pull to the centre, Lw", Cost.NOISE)] = 0.5,
    clip: ScheduledClip = None,
) -> Built:
    """The private proximal point method, kappa = 2 and gamma = 1."""
    problem = problem_of(features, count, clip, RIDGE)
    program = ProximalPointMethod(
        problem,
        KLCondition(gamma=1.0, kappa=2.0),
        rho,
        BETA,
        min(STARTING_GAP, problem.lipschitz**2),
        weak_convexity=pull,
        max_steps=rounds,
        calls_at_most=calls,
    )
    covered = f"{program.calls * (program.solver.steps - 1)} noisy mean gradients"
    return program, covered


@budgeted
def adaptive_rows(
    mode: str,
    features: int,
    count: int,
    *,
    rho: Fraction,
    smoothness: Smoothness = None,
    clip: Clip = None,
) -> Built:
    """Adaptive noisy gradient descent, with the charges of the noise that it draws."""
    return _adaptive(mode, features, count, rho, smoothness, clip), ADAPTIVE, CAP


@budgeted
def argmin_rows(
    features: int,
    count: int,
    *,
    rho: Fraction,
    smoothness: Smoothness = None,
    clip: Clip = None,
) -> Built:
    """The iterate of adaptive noisy gradient descent with the least noisy gradient norm."""
    descent = _adaptive("paper_corrected", features, count, rho, smoothness, clip)
    return SelectStationaryIterate(descent, method="noisy_argmin"), ADAPTIVE, CAP


def _adaptive(
    mode: str,
    features: int,
    count: int,
    rho: Fraction,
    smoothness: float | None,
    clip: float | None,
) -> AdaptiveNoisyGD:
    smooth = features / 4 if smoothness is None else smoothness
    return AdaptiveNoisyGD(problem_of(features, count, clip), rho, BETA, smooth, mode=mode)


ADAPTIVE = "noisy gradient norms and noisy gradients, as many as fit under the cap"
CAP = "the guarantee is the cap; what a run happened to spend is no guarantee"


@budgeted
def descent_rows(
    output: made.Output,
    features: int,
    count: int,
    *,
    rho: Fraction,
    rounds: Rounds = 60,
    step_size: StepSize = None,
    clip: Clip = None,
) -> Built:
    """Noisy gradient descent on all rows: the last iterate, or a random one."""
    step = 4 / features if step_size is None else step_size
    ridge = RIDGE if output == "last" else 0.0
    problem = problem_of(features, count, clip, ridge)
    program = made.FixedNoisyGD(problem, rho, rounds, step, output)
    covered = f"{rounds} noisy mean gradients"
    return program, covered


@budgeted
def convex_rows(
    features: int,
    count: int,
    *,
    rho: Fraction,
    rounds: Rounds = 60,
    radius: Radius = 3.0,
    clip: Clip = None,
) -> Built:
    """Averaged projected gradient descent, whose step size follows from radius and noise."""
    problem = problem_of(features, count, clip)
    program = made.convex_noisy_gd(problem, rho, radius, rounds)
    covered = f"{program.steps} noisy mean gradients"
    return program, covered


@budgeted
def private_spider_rows(
    features: int,
    count: int,
    *,
    rho: Fraction,
    rounds: Rounds = 60,
    restart_every: Annotated[int, Free("steps from one anchor to the next", Cost.NOISE)] = 10,
    step_length: Annotated[float, Free("length of a step", Cost.SCALE)] = 0.05,
    smoothness: Scale = None,
    clip: Clip = None,
) -> Built:
    """Private Spider with fixed phases."""
    problem = problem_of(features, count, clip)
    smooth = features / 4 if smoothness is None else smoothness
    program = made.PrivateSpider(problem, rho, smooth, rounds, restart_every, step_length)
    covered = f"{program.anchors} noisy mean gradients, {rounds - program.anchors} differences"
    return program, covered


@budgeted
def epochs_rows(
    features: int,
    count: int,
    *,
    rho: Fraction,
    rounds: Rounds = 30,
    epochs: Annotated[int, Free("epochs, each twice as local", Cost.NOISE)] = 3,
    pull: Pull = 0.5,
    clip: Clip = None,
) -> Built:
    """Noisy gradient descent in localising epochs."""
    program = made.EpochLocalizedERM(
        problem_of(features, count, clip, RIDGE),
        GrowthCondition(lam=0.1, tau=2.0),
        rho,
        BETA,
        weak_convexity=pull,
        epochs=epochs,
        max_steps=rounds,
    )
    covered = f"{epochs * (program.solvers[0].steps - 1)} noisy mean gradients"
    return program, covered
