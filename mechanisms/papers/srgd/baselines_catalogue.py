"""The baselines on the RAND data, logistic regression, with their claims.

Source: Choquette-Choo, Ganesh, Thakurta 2024, Sections 2, 5.5 and Table 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Annotated, Any, TypeAlias

from dpaudit.accountant.calibrate import calibrate
from dpaudit.accountant.claim import Claim
from dpaudit.curator.curator import Program
from dpaudit.curator.mechanism import Mechanism, Metric, Setting
from dpaudit.curator.parameters import Cost, Free
from dpaudit.exact import Number, log, sqrt
from dpaudit.exact.domains import rate as in_rates
from dpaudit.families.opaque import GDP, ApproxDP
from dpaudit.measures.convert import gaussian_mu
from dpaudit.scope import Scope, central
from mechanisms.papers.common.free import (
    IN_ORDER,
    Build,
    Clip,
    Delta,
    Epsilon,
    Phases,
    Radius,
    Rounds,
    StepAt,
    at,
    on_rows,
)
from mechanisms.papers.common.rand_entries import holdout_losses, rand_setting, records
from mechanisms.papers.srgd.baselines import DPGD, AcceleratedDPSGD, DPSGDOnePass, DPSGDPoisson
from mechanisms.papers.srgd.localized import LocalizedAcceleratedDPSGD
from mechanisms.papers.srgd.online import DPFTRL, DPOnlineToBatch, online_to_batch_clip
from mechanisms.papers.srgd.phased_erm import PhasedERM
from mechanisms.papers.srgd.phased_sgd import PhasedSGD
from mechanisms.papers.srgd.phases import all_phases, cited_multiplier, cited_step_size, halves
from mechanisms.papers.srgd.problem import BoundedLogistic, Problem, Solution

PAPER = "Choquette-Choo, Ganesh and Thakurta 2024"
EPSILON, DELTA = Fraction(1), Fraction(1, 10**6)
MU = gaussian_mu(EPSILON, DELTA)
FEATURES, SIZE = 10, 16_150
ZERO_OUT, REPLACE_ONE, ADD_REMOVE = map(central, ("zero_out", "replace_one", "add_remove"))
PLAIN = "every gradient is clipped, so that privacy assumes nothing of the loss"
CHOSEN = "step size, radii and rounds were chosen without the data"
# The least, to six digits, that the accountant proves (1, 1e-6) for.
POISSON_NOISE, LOCALIZED_NOISE = Fraction("2.00055"), Fraction("2.60046")

Made: TypeAlias = tuple[Program, Sequence[Claim], Setting]
Beta = Annotated[
    float | None,
    Free(
        "inverse step size, beta",
        Cost.NOTHING,
        default="features / 4, smoothness",
        start=lambda of: of["features"] / 4,
    ),
]
Rate = Annotated[
    Fraction, Free("probability of a record to be in a round's batch", Cost.NOISE, in_rates)
]
CitedStep = Annotated[
    float | None,
    Free(
        "step size of the first phase",
        Cost.SCALE,
        default="as cited, of n, epsilon and delta",
        start=lambda of: cited_step(of),
    ),
]


def cited_step(of: Mapping[str, Any]) -> float:
    """The step size that is cited for so many records and features, a radius and a budget."""
    problem = problem_of(of["features"], of["count"], of["radius"])
    return cited_step_size(problem, of["features"], float(of["epsilon"]), float(of["delta"]))


def evaluate(solution: Solution) -> tuple[Metric, ...]:
    """Loss of the released model on the hold-out rows, which are treated as public."""
    problem = problem_of(FEATURES, SIZE)
    start, output = problem.start(1), solution.output
    return holdout_losses(problem.loss, {"at the start": start, "of the output": output})


def entry(
    name: str, title: str, source: str, build: Build, scope: Scope, **constants: Any
) -> Mechanism:
    """One baseline on the RAND data, at the default of every free parameter.

    ``constants``: numbers of these defaults that a run on other records computes anew.
    """
    title = f"{title}, logistic regression"
    hidden = scope == ADD_REMOVE
    program, claims, setting = build(FEATURES, None if hidden else SIZE, **constants)
    invariants: tuple[str, ...] = () if hidden else IN_ORDER
    return Mechanism(
        name=name,
        title=title,
        source=source,
        program=program,
        scope=scope,
        claims=tuple(claims),
        setting=rand_setting(setting.covered[0], invariants, *setting.notes),
        records=records,
        evaluate=evaluate,
        for_shape=on_rows(build, name, title, source, scope),
    )


def rows_setting(covered: str, *notes: str) -> Setting:
    """The setting of somebody's rows, with the reads that the guarantee covers."""
    return Setting(
        unit_entity="row of the data",
        unit_bound="one row",
        covered=(covered,),
        notes=(CHOSEN, *notes),
    )


def problem_of(features: int, size: int, radius: float = 2.0, clip: float | None = None) -> Problem:
    """Logistic loss of rows scaled to norm sqrt(features) at most, its Lipschitz constant."""
    norm = math.sqrt(features)
    return Problem(
        BoundedLogistic(norm=norm), features, size, radius, norm if clip is None else clip
    )


def stated(epsilon: Fraction, delta: Fraction, by: str) -> Claim:
    """(epsilon, delta)."""
    return Claim(ApproxDP(epsilon, delta), by=by)


def tight(epsilon: Fraction, delta: Fraction) -> tuple[Claim, Claim]:
    """(epsilon, delta), and the mu that it is: of noise for exactly that mu."""
    return (
        stated(epsilon, delta, "calibrated here to the exact curve; the paper states no noise"),
        Claim(
            GDP(gaussian_mu(epsilon, delta)),
            by=f"the largest mu that is {at(epsilon, delta)}-DP (Balle and Wang 2018, Theorem 8)",
        ),
    )


def accounted(epsilon: Fraction, delta: Fraction) -> tuple[Claim]:
    """(epsilon, delta) of noise that the accountant found."""
    return (stated(epsilon, delta, "calibrated here by the accountant"),)


def tree_noise(steps: int, mu: Number = MU) -> Number:
    """sqrt(floor(log2 T) + 1) / mu: what makes the tree over T steps exactly mu-GDP.

    Source: Choquette-Choo, Ganesh, Thakurta 2024, Lemma 5.6, with the exact number of levels.
    """
    return sqrt(Fraction(steps.bit_length())) / mu


def least_noise(
    program: Callable[[Number], Program], scope: Scope, epsilon: Fraction, delta: Fraction
) -> Number:
    """The least noise multiplier, to six digits, at which the accountant proves (epsilon, delta).

    Errors: Unsupported where no multiplier of at most 2^64 does.
    """
    import sympy

    symbol = sympy.Symbol("noise_multiplier", positive=True)
    declaration = program(symbol).declaration(scope)
    return calibrate(declaration, scope, ApproxDP(epsilon, delta)).value


# --- fresh noise ---------------------------------------------------------------------------------


def accelerated_rows(
    features: int,
    count: int,
    *,
    epsilon: Epsilon = EPSILON,
    delta: Delta = DELTA,
    rounds: Rounds = 20,
    beta: Beta = None,
    clip: Clip = None,
    radius: Radius = 2.0,
) -> Made:
    """Accelerated DP-SGD with independent batch gradients."""
    program = AcceleratedDPSGD(
        problem_of(features, count, radius, clip),
        steps=rounds,
        beta=features / 4 if beta is None else beta,
        noise_multiplier=1 / gaussian_mu(epsilon, delta),
    )
    covered = f"{rounds} noisy batch gradients, each row in one batch"
    return program, tight(epsilon, delta), rows_setting(covered, PLAIN)


def one_pass_rows(
    clips: int,
    features: int,
    count: int,
    *,
    epsilon: Epsilon = EPSILON,
    delta: Delta = DELTA,
    rounds: Rounds = 20,
    step_size: StepAt = 0.4,
    clip: Clip = None,
    radius: Radius = 2.0,
) -> Made:
    """DP-SGD in one pass over disjoint batches; one record moves a sum by ``clips`` clips."""
    program = DPSGDOnePass(
        problem_of(features, count, radius, clip),
        steps=rounds,
        step_size=step_size,
        noise_multiplier=clips / gaussian_mu(epsilon, delta),
    )
    covered = f"{rounds} noisy batch gradients, each row in one batch"
    return program, tight(epsilon, delta), rows_setting(covered, PLAIN)


def poisson_rows(
    features: int,
    count: None,
    *,
    epsilon: Epsilon = EPSILON,
    delta: Delta = DELTA,
    expected_records: Annotated[
        int, Free("a public guess of the number of records, which divides sums", Cost.NOTHING)
    ] = SIZE,
    rounds: Rounds = 60,
    rate: Rate = Fraction(1, 20),
    step_size: StepAt = 0.4,
    clip: Clip = None,
    radius: Radius = 2.0,
    noise: Fraction | None = None,
) -> Made:
    """DP-SGD on Poisson batches; the number of records is private, and ``count`` None."""
    del count
    problem = problem_of(features, expected_records, radius, clip)

    def program(multiplier: Any) -> DPSGDPoisson:
        return DPSGDPoisson(problem, rounds, rate, step_size, multiplier)

    found = least_noise(program, ADD_REMOVE, epsilon, delta) if noise is None else noise
    covered = f"{rounds} noisy gradients on secret batches, each row with probability {rate}"
    divisor = (
        f"gradients are divided by {float(rate * expected_records):g}, a public number, whatever "
        "the number of records"
    )
    return program(found), accounted(epsilon, delta), rows_setting(covered, PLAIN, divisor)


def full_batch_rows(
    clips: int,
    features: int,
    count: int,
    *,
    epsilon: Epsilon = EPSILON,
    delta: Delta = DELTA,
    rounds: Rounds = 60,
    step_size: StepAt = 0.4,
    clip: Clip = None,
    radius: Radius = 2.0,
) -> Made:
    """Projected gradient descent on all rows; one record moves a sum by ``clips`` clips."""
    program = DPGD(
        problem_of(features, count, radius, clip),
        rounds,
        step_size,
        clips * sqrt(Fraction(rounds)) / gaussian_mu(epsilon, delta),
    )
    covered = f"{rounds} noisy mean gradients of all rows"
    return program, tight(epsilon, delta), rows_setting(covered, PLAIN)


accelerated_dp_sgd = entry(
    "accelerated_dp_sgd",
    "Accelerated DP-SGD with independent batch gradients",
    f"{PAPER}, Section 5.5 (noise calibrated here)",
    accelerated_rows,
    ZERO_OUT,
)
dp_sgd_one_pass = entry(
    "dp_sgd_one_pass",
    "DP-SGD in one pass over disjoint batches",
    f"{PAPER}, Section 2.1",
    partial(one_pass_rows, 1),
    ZERO_OUT,
)
dp_sgd_one_pass_replace_one = entry(
    "dp_sgd_one_pass_replace_one",
    "DP-SGD in one pass over disjoint batches, a replaced record",
    f"{PAPER}, Section 2.1, under replace_one: twice the noise",
    partial(one_pass_rows, 2),
    REPLACE_ONE,
)
dp_gd_projected = entry(
    "dp_gd_projected",
    "Projected noisy gradient descent on all rows",
    "Bassily, Smith and Thakurta 2014, with full gradients (noise calibrated here)",
    partial(full_batch_rows, 1),
    ZERO_OUT,
)
dp_sgd_poisson = entry(
    "dp_sgd_poisson",
    "DP-SGD on Poisson batches, three passes in expectation",
    f"{PAPER}, Section 2.1 (Abadi et al. 2016, Algorithm 1)",
    poisson_rows,
    ADD_REMOVE,
    noise=POISSON_NOISE,
)

# --- correlated noise ----------------------------------------------------------------------------


def ftrl_rows(
    features: int,
    count: int,
    *,
    epsilon: Epsilon = EPSILON,
    delta: Delta = DELTA,
    rounds: Rounds = 32,
    step_size: StepAt = 0.4,
    clip: Clip = None,
    radius: Radius = 2.0,
) -> Made:
    """DP-FTRL with binary-tree noise."""
    program = DPFTRL(
        problem_of(features, count, radius, clip),
        steps=rounds,
        step_size=step_size,
        noise_multiplier=tree_noise(rounds, gaussian_mu(epsilon, delta)),
    )
    covered = f"{rounds} noisy prefix sums of batch gradients, each row in one batch"
    return program, tight(epsilon, delta), rows_setting(covered, PLAIN)


def online_to_batch_rows(
    features: int,
    count: int,
    *,
    epsilon: Epsilon = EPSILON,
    delta: Delta = DELTA,
    rounds: Rounds = 32,
    step_size: StepAt = 0.05,
    radius: Radius = 2.0,
) -> Made:
    """Private online-to-batch conversion; no difference of gradients exceeds its clip."""
    program = DPOnlineToBatch(
        problem_of(features, count, radius),
        rounds,
        step_size,
        tree_noise(rounds, gaussian_mu(epsilon, delta)),
        clip=online_to_batch_clip(rounds, math.sqrt(features), features / 4, 2 * radius),
    )
    covered = f"{rounds} noisy prefix sums of weighted gradient differences, each row in one batch"
    batches = (
        f"the cited algorithm reads one row a round; batches of {count // rounds} rows are ours"
    )
    return program, tight(epsilon, delta), rows_setting(covered, PLAIN, batches)


dp_ftrl = entry(
    "dp_ftrl",
    "DP-FTRL with binary-tree noise",
    f"{PAPER}, Section 2.2",
    ftrl_rows,
    ZERO_OUT,
)
dp_online_to_batch = entry(
    "dp_online_to_batch",
    "Private online-to-batch conversion with binary-tree noise",
    f"reconstructed; {PAPER} cite Zhang, Tran and Cutkosky 2022 in Table 1",
    online_to_batch_rows,
    ZERO_OUT,
)

# --- phases --------------------------------------------------------------------------------------


def phased_problem(features: int, count: int, radius: float) -> tuple[Problem, str]:
    """The problem, and the reason why its loss is Lipschitz and smooth for every record."""
    return problem_of(features, count, radius), (
        f"logistic loss; the query scales every row to norm sqrt({features}) and cuts its target "
        "to [0, 1]"
    )


def left_over(count: int, phases: int) -> str:
    """The rows that no phase reads."""
    return (
        f"{phases} phases of the {all_phases(count)} that have rows; the last "
        f"{halves(count, phases)[-1]} rows are never read"
    )


def phased_sgd_rows(
    features: int,
    count: int,
    *,
    epsilon: Epsilon = EPSILON,
    delta: Delta = DELTA,
    phases: Phases = 6,
    step_size: CitedStep = None,
    radius: Radius = 2.0,
) -> Made:
    """Phased SGD with the constants as cited."""
    problem, evidence = phased_problem(features, count, radius)
    step = step_size or cited_step_size(problem, features, float(epsilon), float(delta))
    noise = cited_multiplier(epsilon, delta)
    program = PhasedSGD(problem, phases, step, features / 4, noise, evidence=evidence)
    claims = (
        stated(epsilon, delta, "Feldman, Koren and Talwar 2020, as cited"),
        Claim(
            GDP(epsilon / (2 * sqrt(log(1 / delta)))),
            by="the same constants, exactly composed: mu = epsilon / (2 sqrt(log(1/delta)))",
        ),
    )
    covered = f"{phases} noisy mean iterates of passes over disjoint rows"
    return program, claims, rows_setting(covered, left_over(count, phases))


def phased_erm_rows(
    features: int,
    count: int,
    *,
    epsilon: Epsilon = EPSILON,
    delta: Delta = DELTA,
    phases: Phases = 6,
    step_size: CitedStep = None,
    radius: Radius = 2.0,
) -> tuple[PhasedERM, Sequence[Claim], Setting]:
    """Phased regularised minimisation with the constants as cited."""
    problem, evidence = phased_problem(features, count, radius)
    step = step_size or cited_step_size(problem, features, float(epsilon), float(delta))
    noise = cited_multiplier(epsilon, delta)
    program = PhasedERM(problem, phases, step, features / 4, noise, evidence=evidence)
    claims = (
        stated(epsilon, delta, "Feldman, Koren and Talwar 2020, Algorithm 3, as cited"),
        Claim(
            GDP(Fraction(201, 100) * epsilon / (4 * sqrt(log(1 / delta)))),
            by="the same constants, with one percent for the solver, exactly composed",
        ),
    )
    covered = f"{phases} noisy approximate minima over disjoint rows"
    solver = "every solver takes a public number of steps that certifies its accuracy for any data"
    return program, claims, rows_setting(covered, left_over(count, phases), solver)


def localized_rows(
    features: int,
    count: int,
    *,
    epsilon: Epsilon = EPSILON,
    delta: Delta = DELTA,
    phases: Phases = 3,
    rounds: Rounds = 16,
    rate: Rate = Fraction(1, 8),
    ridge: Annotated[float, Free("weight of the first phase's ridge", Cost.NOTHING)] = 0.05,
    clip: Clip = None,
    radius: Radius = 2.0,
    noise: Fraction | None = None,
) -> Made:
    """Localised accelerated DP-SGD on Poisson batches of the rows of a phase."""
    problem = problem_of(features, count, radius, clip)

    def program(multiplier: Any) -> LocalizedAcceleratedDPSGD:
        return LocalizedAcceleratedDPSGD(
            problem, phases, rounds, rate, ridge, features / 4, noise_multiplier=multiplier
        )

    found = least_noise(program, ZERO_OUT, epsilon, delta) if noise is None else noise
    covered = (
        f"{phases} phases of {rounds} noisy gradients on secret batches of the phase's own rows"
    )
    return program(found), accounted(epsilon, delta), rows_setting(covered, PLAIN)


phased_sgd = entry(
    "phased_sgd",
    "Phased SGD, constants as cited",
    f"reconstructed; {PAPER} cite Feldman, Koren and Talwar 2020 in Table 1",
    phased_sgd_rows,
    REPLACE_ONE,
)
phased_erm = entry(
    "phased_erm",
    "Phased regularised minimisation, constants as cited",
    f"reconstructed; {PAPER} cite Zhang, Thekumparampil, Oh and He 2022 in Table 1",
    phased_erm_rows,
    REPLACE_ONE,
)
localized_accelerated_dp_sgd = entry(
    "localized_accelerated_dp_sgd",
    "Localised accelerated DP-SGD on Poisson batches",
    f"reconstructed; {PAPER} cite Gao, Lowy, Zhou and Wright 2024 in Table 1",
    localized_rows,
    ZERO_OUT,
    noise=LOCALIZED_NOISE,
)
