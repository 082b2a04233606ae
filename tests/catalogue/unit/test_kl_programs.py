"""KL-Spider, the proximal point method, selection and baselines: runs, masks, refusals, claims."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from audits.broken.kl_bench import SCHEDULE, SPIDER_BENCH
from dpaudit.curator.curator import Sampler
from dpaudit.curator.mechanism import Mechanism
from dpaudit.errors import InvalidParameter, Undeclared
from dpaudit.families.additive import Gaussian
from dpaudit.kernels.query import Records
from dpaudit.scope import Scope, central
from mechanisms.papers.common.losses import Logistic, WorstCase
from mechanisms.papers.kl import (
    adaptive_catalogue,
    adaptive_readings,
    baselines_catalogue,
    catalogue,
)
from mechanisms.papers.kl.baselines import (
    FixedNoisyGD,
    PrivateSpider,
    convex_noisy_gd,
    noisy_gd_pl,
    noisy_gd_stationary,
)
from mechanisms.papers.kl.condition import (
    KLCondition,
)
from mechanisms.papers.kl.problem import KLProblem
from mechanisms.papers.kl.proximal import ProximalPointMethod, RegularizedNoisyGD
from mechanisms.papers.kl.schedule import Constants, KLSpiderSchedule
from mechanisms.papers.kl.spider import CorrectedNoise, KLSpider
from tests.support.claims import value
from tests.support.kernels import NoNoise

REPLACE_ONE, ZERO_OUT = central("replace_one"), central("zero_out")
MECHANISMS = {
    m.name: m
    for module in (catalogue, adaptive_catalogue, adaptive_readings, baselines_catalogue)
    for m in vars(module).values()
    if isinstance(m, Mechanism)
}
LINE = KLProblem(WorstCase(size=1, curvature=0.0), 0, 50, 1.0)


def sampler(program: Any, records: Records, scope: Scope = REPLACE_ONE, **options: Any) -> Sampler:
    rng = np.random.default_rng(options.pop("seed", 0))
    return Sampler(program.declaration(scope), scope, records, rng=rng, **options)


# --- KL-Spider -----------------------------------------------------------------------------------


def test_a_vacuous_schedule_returns_the_start_and_costs_nothing() -> None:
    public = replace(SCHEDULE, size=20, starting_gap=1e-3)
    assert public.vacuous
    assert public.excess_upper == 1e-3
    problem = KLProblem(WorstCase(size=3, curvature=0.0), 0, 20, 1.0, (1.0, 2.0, 3.0))
    program = KLSpider(problem, public)
    assert value(program.declaration(REPLACE_ONE), "zcdp") == 0
    curator = sampler(program, Records(np.ones((20, 1))), trials=2)
    found = program.run(curator)
    assert found.output.tolist() == [[1.0, 2.0, 3.0]] * 2
    assert "no data was touched" in found.note
    assert curator.transcript == []


@pytest.mark.parametrize("make", ["spider", "proximal", "noisy_gd_pl"])
def test_a_gap_above_its_bound_is_refused(make: str) -> None:
    """F0 <= (gamma L0)^kappa = 1 whatever the data are: the bound itself is admitted."""

    def made(gap: float) -> Any:
        if make == "spider":
            return replace(SCHEDULE, starting_gap=gap)
        if make == "proximal":
            return method(starting_gap=gap)
        return noisy_gd_pl(LINE, Fraction(1), KLCondition(1.0, 2.0), 1.0, gap, 9)

    assert made(1.0) is not None
    for gap in (1.000001, 1e9):
        with pytest.raises(
            InvalidParameter, match=r"starting_gap = 1.*above \(gamma L0\)\^kappa = 1"
        ):
            made(gap)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"condition": KLCondition(1.0, 2.5)}, "proximal point method"),
        ({"beta": 0.0}, "beta"),
        ({"beta": 1.0}, "beta"),
        ({"beta": math.nan}, "beta"),
        ({"rho": 0}, "rho"),
        ({"rho": -1}, "rho"),
        ({"rho": math.inf}, "rho"),
        ({"size": 0}, "size"),
        ({"dimension": 1.5}, "dimension"),
        ({"starting_gap": 0.0}, "starting_gap"),
        ({"starting_gap": -1.0}, "starting_gap"),
        ({"smoothness": math.nan}, "smoothness"),
        ({"lipschitz": 0.0}, "lipschitz"),
        ({"phases": "many"}, "paper, tight"),
        ({"phases": 0}, "phases"),
        ({"phases": 10**6}, "use other constants"),
        ({"size": 10**9, "phases": "paper", "smoothness": 1e9}, "use other constants"),
    ],
)
def test_a_schedule_refuses_what_it_cannot_mean(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        replace(SCHEDULE, **changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"contraction": 0.0},
        {"floor": math.nan},
        {"stop": 0},
        {"step": -1},
        {"steps_at_most": 0},
    ],
)
def test_constants_are_positive(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter, match="Constants"):
        Constants(**changes)


def test_problem_and_schedule_have_to_agree() -> None:
    with pytest.raises(InvalidParameter, match="differ in n or L0"):
        KLSpider(LINE, SCHEDULE)
    with pytest.raises(InvalidParameter, match="expected below 1"):
        CorrectedNoise(Fraction(1))
    with pytest.raises(InvalidParameter, match="expected 3 numbers"):
        KLProblem(WorstCase(size=3, curvature=0.0), 0, 5, 1.0, (1.0,)).initial(1)
    with pytest.raises(InvalidParameter, match="finite"):
        KLProblem(WorstCase(size=1, curvature=0.0), 0, 5, 1.0, (math.inf,))


@pytest.mark.parametrize("share", [Fraction(1, 2), Fraction(4, 5), Fraction(99, 100)])
@pytest.mark.parametrize("kappa", [1.0, 1.3, 2.0])
@pytest.mark.parametrize("most", [1, 2, 50])
def test_corrected_noise_costs_exactly_rho(share: Fraction, kappa: float, most: int) -> None:
    """Whatever the shares and the cap on steps: the noise is made for the steps that are left."""
    public = replace(
        SCHEDULE,
        condition=KLCondition(1.0, kappa),
        constants=replace(SCHEDULE.constants, steps_at_most=most),
    )
    program = KLSpider(SPIDER_BENCH.problem, public, CorrectedNoise(share))
    assert value(program.declaration(REPLACE_ONE), "zcdp") == public.rho
    assert value(program.declaration(ZERO_OUT), "zcdp", "zero_out") == public.rho / 4
    made = sum(p.differences for p in program.plans(2))
    assert made == sum(s - 1 for s in public.steps)


def test_trials_stop_apart_and_a_stopped_one_stays() -> None:
    """Trial 0 starts at the minimum, as far as its noisy gradients tell, trial 1 far from it."""

    class Bowl(WorstCase):
        def initial(self, features: int, trials: int, seed: int) -> Any:
            start = np.zeros((trials, 2))
            start[1:, 0] = 5.0
            return start

        def gradients(self, parameters: Any, records: Any) -> Any:
            return np.repeat(np.asarray(parameters)[:, None], len(records), axis=1)

    public = replace(SCHEDULE, dimension=2, phases=2)
    program = KLSpider(KLProblem(Bowl(size=2, curvature=0.0), 0, 500, 1.0), public)
    records = Records(np.zeros((500, 1)))
    curator = sampler(program, records, trials=2, kernels={Gaussian: NoNoise})
    found = program.run(curator)
    assert found.updates[0].tolist() == [0.0, 0.0]
    assert found.output[0].tolist() == [0.0, 0.0]
    assert found.updates[1].tolist() == [float(s) for s in public.steps]
    lengths = sum(s * p.scale for s, p in zip(public.steps, public.levels, strict=True))
    assert found.output[1, 0] == pytest.approx(5.0 - lengths / 4)
    assert np.abs(found.output).max() <= 5.0 + public.region_radius


# --- the solver and the proximal point method ----------------------------------------------------


def solver(**changes: Any) -> RegularizedNoisyGD:
    options: dict[str, Any] = {
        "problem": LINE, "rho": 1, "beta": 0.05, "weak_convexity": 1.0, "max_steps": 30,
    } | changes  # fmt: skip
    return RegularizedNoisyGD(**options)


def test_the_solver_stays_in_its_ball_and_nears_its_minimum() -> None:
    """F + Lw w^2 with slope 1: minimum at -1/2, the edge of the ball of radius L0 / (2 Lw)."""
    program = solver()
    records = Records(np.ones((50, 1)))
    found = program.run(sampler(program, records, trials=20, kernels={Gaussian: NoNoise}))
    assert (np.abs(found) <= program.radius).all()
    assert found == pytest.approx(np.full((20, 1), -0.5), abs=0.01)


def test_one_step_releases_nothing() -> None:
    program = solver(max_steps=1)
    assert value(program.declaration(REPLACE_ONE), "zcdp") == 0
    curator = sampler(program, Records(np.ones((50, 1))), trials=2)
    assert program.run(curator).tolist() == [[0.0], [0.0]]
    assert curator.transcript == []


def test_more_steps_than_declared_are_refused() -> None:
    curator = sampler(solver(), Records(np.ones((50, 1))))
    with pytest.raises(Undeclared, match="29 declared uses are spent"):
        solver(max_steps=31).run(curator)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weak_convexity": 0.0}, "weak_convexity"),
        ({"weak_convexity": -1.0}, "weak_convexity"),
        ({"rho": 0}, "rho"),
        ({"beta": 1.0}, "beta"),
        ({"max_steps": 0}, "max_steps"),
        ({"max_steps": 10**9}, "max_steps"),
        ({"constants": "tight"}, "paper or corrected"),
        ({"step_rule": "any"}, "step_rule"),
    ],
)
def test_the_solver_refuses_bad_parameters(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        solver(**changes)


def method(**changes: Any) -> ProximalPointMethod:
    options: dict[str, Any] = {
        "problem": LINE, "condition": KLCondition(1.0, 2.0), "rho": 1, "beta": 0.05,
        "starting_gap": 1.0, "weak_convexity": 1.0, "max_steps": 4, "calls_at_most": 3,
    } | changes  # fmt: skip
    return ProximalPointMethod(**options)


def test_calls_share_the_budget() -> None:
    assert value(method().declaration(REPLACE_ONE), "zcdp") == 1
    assert method().calls == 3
    found = method().run(sampler(method(), Records(np.ones((50, 1))), trials=2))
    assert (np.abs(found.output) <= method().region_radius).all()


def test_a_start_below_the_floor_is_returned() -> None:
    program = method(starting_gap=1e-9)
    curator = sampler(program, Records(np.ones((50, 1))))
    found = program.run(curator)
    assert program.calls == 0
    assert "no data was touched" in found.note
    assert curator.transcript == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"condition": KLCondition(1.0, 1.9)}, "use KL-Spider"),
        ({"weak_convexity": 0.0}, "weak_convexity"),
        ({"starting_gap": math.nan}, "starting_gap"),
        ({"rho": 0}, "rho"),
        ({"beta": 0.0}, "beta"),
        ({"calls_at_most": 0}, "calls_at_most"),
    ],
)
def test_the_method_refuses_bad_parameters(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        method(**changes)


# --- baselines -----------------------------------------------------------------------------------


@pytest.mark.parametrize("output", ["last", "random", "average"])
def test_fixed_descent_gives_what_it_is_asked_for(output: Any) -> None:
    program = FixedNoisyGD(LINE, Fraction(1), 4, 0.5, output, radius=1.0)
    records = Records(np.ones((50, 1)))
    found = program.run(sampler(program, records, trials=400, kernels={Gaussian: NoNoise}))
    path = [0.0, -0.5, -1.0, -1.0]
    assert found.last == pytest.approx(np.full((400, 1), -1.0))
    if output == "random":
        assert set(found.output[:, 0].round(9)) == set(path)
    else:
        expected = {"last": -1.0, "average": sum(path) / 4}[output]
        assert found.output == pytest.approx(np.full((400, 1), expected))


def test_baselines_calibrate_to_rho() -> None:
    problem = KLProblem(Logistic(), 3, 400, 2.0)
    pl = KLCondition(1.0, 2.0)
    made = [
        noisy_gd_pl(problem, Fraction(1), pl, 2.0, 1.0, 1_000),
        noisy_gd_stationary(problem, Fraction(1), 2.0, 1.0, 1_000),
        convex_noisy_gd(problem, Fraction(1), 2.0, 500),
        PrivateSpider(problem, Fraction(1), 2.0, rounds=17, phase=5, step_length=0.1),
        PrivateSpider(problem, Fraction(1), 2.0, rounds=4, phase=1, step_length=0.1),
    ]
    for program in made:
        assert value(program.declaration(REPLACE_ONE), "zcdp") == 1
    steps = math.ceil(2 * 2 * math.log(400**2 / (2.0**2 * 3)))
    assert made[0].steps == steps  # type: ignore[union-attr]
    assert made[1].steps == math.ceil(400 * math.sqrt(2) / (2 * math.sqrt(3)))  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FixedNoisyGD(LINE, Fraction(1), 0, 1.0), "steps"),
        (lambda: FixedNoisyGD(LINE, Fraction(1), 1, math.nan), "step_size"),
        (lambda: FixedNoisyGD(LINE, Fraction(1), 1, 1.0, "first"), "output"),  # type: ignore[arg-type]
        (lambda: FixedNoisyGD(LINE, Fraction(1), 1, 1.0, radius=0.0), "radius"),
        (lambda: FixedNoisyGD(LINE, Fraction(0), 1, 1.0), "rho"),
        (lambda: noisy_gd_pl(LINE, Fraction(1), KLCondition(1.0, 1.5), 1.0, 1.0, 9), "expected 2"),
        (lambda: noisy_gd_pl(LINE, Fraction(1), KLCondition(1.0, 2.0), 1.0, 1e-9, 9), "below its"),
        (lambda: PrivateSpider(LINE, Fraction(1), 1.0, 5, 0, 0.1), "phase"),
        (lambda: PrivateSpider(LINE, Fraction(1), 1.0, 5, 2, -0.1), "step_length"),
    ],
)
def test_baselines_refuse_bad_parameters(make: Any, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        make()


def test_schedules_are_free_of_the_data() -> None:
    kappa_two = KLSpiderSchedule(
        KLCondition(1.0, 2.0), 3, 500, Fraction(1), 0.05, 1.0, 1.0, 1.0, SCHEDULE.constants, 4
    )
    assert kappa_two.steps == (1, 1, 1, 1)
    assert KLSpider(SPIDER_BENCH.problem, kappa_two).plans(2)[0].differences == 0
