"""Contests under the protocol: guarantees at every setting, the optimum, and who is judged how."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy.special import ndtr

from dpaudit.accountant.account import Account
from dpaudit.compare.search import Axis
from dpaudit.curator.curator import Sampler
from dpaudit.kernels.query import Array
from experiments.diff2 import contest as diff2
from experiments.diff2 import local, network
from experiments.diff2 import problem as diff2_problem
from experiments.diff2.runs import SCOPE as RECORD
from experiments.kl import contest as kl
from experiments.kl.problem import SCOPE, replicas, sampler
from experiments.kl.spider import landscape
from experiments.lab.found import load
from experiments.lab.model import Result, Results, Size, Status, Values
from experiments.lab.papers import Agreement, Read, agreement, load_papers
from experiments.lab.protocol import (
    END,
    FULL_BATCH,
    NOTHING,
    ONE_PASS,
    OPTIMUM,
    REQUIRED,
    SET,
    at_ends,
    judged,
)
from experiments.lab.running import distinct
from experiments.srgd import contest as srgd
from experiments.srgd import dimensions, problem, variance
from experiments.user_level import contest as user_level
from experiments.user_level import problem as users
from experiments.user_level.risk import EPSILON
from mechanisms.papers.diff2.framework import LocalDescent
from mechanisms.papers.srgd.baselines import DPSGDPoisson
from mechanisms.papers.user_level.problem import USERS

CONTESTS = {
    "diff2_contest": diff2, "srgd_contest": srgd, "kl_contest": kl,
    "user_level_contest": user_level,
}  # fmt: skip
INSTANCES = CONTESTS | {"diff2_local": local, "srgd_dimensions": dimensions}


def setting(free: tuple[Axis, ...]) -> dict[str, float]:
    return {one.name: one.start for one in free}


@pytest.mark.parametrize("method", srgd.METHODS[2**12, srgd.INSIDE])
def test_every_method_of_paper_3_keeps_its_guarantee(method: str) -> None:
    if method in srgd.REFERENCES:
        return
    n = 2**10
    for factor in (1.0, 0.5):
        chosen = {k: v * factor for k, v in setting(srgd.free(method, n)).items()}
        made = srgd.programs()[method](n, chosen)
        spent = Account(made.declaration(problem.SCOPE), problem.SCOPE).epsilon(problem.DELTA)
        assert float(spent.upper) <= 1.001 * problem.EPSILON


@pytest.mark.parametrize("method", [FULL_BATCH, ONE_PASS])
def test_steps_above_the_longest_of_paper_3_have_the_same_end(method: str) -> None:
    """Longer ones than a step size of n move the model by less than 1% of the ball's radius."""
    n = 2**10
    longest = next(one.most for one in srgd.free(method, n) if one.name == "step size")
    data = srgd.sample(n, srgd.BOUNDARY, np.random.default_rng(0))

    def end(length: float) -> Array:
        made = srgd.programs()[method](n, {"step size": length, "clip": 1.0, "steps": 2.0})
        declared = made.declaration(problem.SCOPE)
        curator = Sampler(declared, problem.SCOPE, data, rng=np.random.default_rng(1))
        return np.asarray(made.run(curator).output[0])

    beyond = end(1000 * longest)
    assert np.linalg.norm(end(longest) - beyond) < 0.01 * problem.RADIUS
    assert np.linalg.norm(end(longest / 1000) - beyond) > 0.1 * problem.RADIUS


def test_a_search_of_paper_3_that_ends_at_our_most_steps_is_marked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cell = next(c for c in srgd.cells(Size.FULL) if c.text("method") == FULL_BATCH)
    for steps, marked in ((srgd.MOST, 1), (srgd.MOST - 1, 0)):
        found = {SET + "steps": steps, END + "steps": 0}
        monkeypatch.setattr(srgd, "tuned", lambda *_, found=found: found)
        assert srgd.run(cell, np.random.default_rng(0))[END + "steps"] == marked


@pytest.mark.parametrize("epsilon", [3, 5])
def test_every_method_of_paper_4_has_the_epsilon_of_its_instance(epsilon: int) -> None:
    """At two settings each; the paper's own preparation has no guarantee, and declares it."""
    data = network.split("friedman1", 0, network.PUBLIC)
    for every in (1, 4):
        made = network.program(
            data, network.Setting(2.0, 3.0, every), 0.5, rounds=12, epsilon=epsilon,
            calibration="tight",
        )  # fmt: skip
        spent = Account(made.declaration(RECORD), RECORD).epsilon(diff2_problem.DELTA)
        assert float(spent.upper) == pytest.approx(epsilon, rel=1e-3)
    mu = 2 / float(diff2._doubled(epsilon))  # one pass: each batch has the whole budget
    above = ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)
    assert above == pytest.approx(float(diff2_problem.DELTA), rel=1e-4)
    prepared = network.split("friedman1", 0, network.PAPER)
    made = network.program(prepared, network.Setting(2.0, 3.0, 1), 0.5, rounds=2, epsilon=epsilon)
    spent = Account(made.declaration(RECORD), RECORD).epsilon(diff2_problem.DELTA)
    assert math.isinf(float(spent.upper))


@pytest.mark.parametrize(("name", "numeric"), [("randhie", 4), ("friedman1", 8)])
def test_rows_are_prepared_as_section_6_says(name: str, numeric: int) -> None:
    """Training rows have mean 0 and deviation 1; indicators stay; the largest target is 1."""
    made = network.split(name, 0)
    features = made.train[:, :-1]
    np.testing.assert_allclose(features[:, :numeric].mean(axis=0), 0.0, atol=1e-9)
    np.testing.assert_allclose(features[:, :numeric].std(axis=0), 1.0, rtol=1e-9)
    assert ((features[:, numeric:] >= 0) & (features[:, numeric:] <= 1)).all()
    targets = np.concatenate([made.train[:, -1], made.test[:, -1]])
    assert 0.9 < np.abs(targets).max() <= 1
    for preparation in (network.PAPER, network.PUBLIC):
        seeds = [network.split(name, seed, preparation) for seed in (0, 1)]
        assert all(len(one.train) % network.CLIENTS == 0 for one in seeds)
        assert not np.array_equal(seeds[0].train[:, -1], seeds[1].train[:, -1])
    assert np.abs(network.split(name, 0, network.PUBLIC).train[:, :-1]).max() <= 1


@pytest.mark.parametrize(
    "method",
    [
        FULL_BATCH,
        local.GD,
        local.EQUAL,
        pytest.param(local.BVR, marks=pytest.mark.quality),
    ],
)
def test_every_program_of_diff2_spends_epsilon_at_most(method: str) -> None:
    """K = b = sqrt(N), and each client's epsilon is 3 to the accountant's digits."""
    chosen = setting(local.free(method)) | ({"rounds": 6.0} if method == local.GD else {})
    made = local.program(method, 256, chosen)
    assert all(2.99 < epsilon <= diff2_problem.EPSILON for epsilon in local._epsilons(made))
    if method == local.BVR:
        routine = made.routine
        assert isinstance(routine, LocalDescent)
        assert (routine.steps, routine.batch_size) == (16, 16)


def test_gradients_are_counted_as_table_1_counts_them() -> None:
    """A restart reads N, a difference two of each, a local step two of its batch."""
    chosen = {"rounds": 10.0, "T": 5.0}
    assert local.gradients(local.GD, 100, chosen) == 100 * (2 + 2 * 8)
    assert local.gradients(FULL_BATCH, 100, chosen) == 1000
    assert local.gradients(local.BVR, 100, chosen) == 100 * (1 + 2 * 9) + 10 * 2 * 10 * 9


def test_a_search_that_ends_at_our_own_limits_decides_nothing() -> None:
    """A best C2 at its least is marked by the run: in a corner with few tries it is there."""
    rows = of_sizes(0.5)
    assert {c.status for c in local.read(rows).checks if "utility" in c.name} == {Status.HELD}
    ended = Results(tuple(
        Result(r.cell, {**r.values, END + "C2": int(r.cell.text("method") == local.BVR)})
        for r in rows
    ))  # fmt: skip
    against = [c for c in local.read(ended).checks if "utility" in c.name and local.BVR in c.name]
    assert {c.status for c in against} == {Status.WITHHELD}
    slope = next(c for c in local.read(ended).checks if c.name.startswith(f"{local.BVR}: log-log"))
    assert slope.status is Status.WITHHELD


def of_sizes(ours: float) -> Results:
    """Results of ``diff2_local`` that fall as N^-4/3, BVR-L-SGD's and DIFF2-GD's by ``ours``."""
    made = []
    for cell in local.cells(Size.FULL):
        method = cell.text("method")
        if method == "identity":
            made.append(Result(cell, {"distance": 1e-12}))
            continue
        level = {NOTHING: 1e6, OPTIMUM: 0.0, local.GD: 0.9, local.EQUAL: 0.95, local.BVR: ours}
        value = level.get(method, 1.0) * cell.number("n") ** (-4 / 3)
        made.append(Result(cell, {
            "judged": [value] * local.PROTOCOL.judging, "tried": 9, "rounds": 9, "gradients": 9,
            "epsilons": [3.0, 3.0],
        }))  # fmt: skip
    return Results(tuple(made))


def test_noise_of_every_instance_over_p_epsilon_and_delta_is_that_of_its_budget() -> None:
    chosen = {"step size": 1.0, "clip": 0.5, "steps": 4.0}
    for at in dimensions.EVERY:
        for method in (dimensions.OURS, ONE_PASS):
            made = dimensions.program(method, 256, at, chosen)
            spent = Account(made.declaration(problem.SCOPE), problem.SCOPE).epsilon(at.delta)
            assert float(spent.upper) == pytest.approx(at.epsilon, rel=2e-3)
        whole = dimensions.program(FULL_BATCH, 256, at, chosen)
        assert isinstance(whole, DPSGDPoisson)
        mu = 2.0 / float(whole.noise_multiplier)
        assert mu == pytest.approx(at.mu)  # four rounds, each of mu / 2


def test_slopes_over_p_epsilon_and_delta_are_seen() -> None:
    def read(power: float) -> set[Status]:
        made = []
        for cell in dimensions.cells(Size.FULL):
            at = dimensions.At(cell.count("p"), cell.number("epsilon"), cell.count("digits"))
            values = [dimensions.number(over, at) for over in dimensions.VARIED]
            level = 1e-3 * float(np.prod(values)) ** power
            made.append(Result(cell, {"judged": [level] * 24, "tried": 9}))
        found = dimensions.read(Results(tuple(made))).checks
        return {c.status for c in found if "log-log" in c.name}

    assert read(0.3) == {Status.HELD}
    assert read(1.5) == {Status.MISSED}


@pytest.mark.parametrize(
    ("name", "method"),
    [(k, m) for k, s in kl.SETTINGS.items() for m in s.methods[len(kl.REFERENCES) :]],
)
def test_every_method_of_paper_5_spends_rho_at_most(name: str, method: str) -> None:
    """At two settings; Theorem 5's selection costs half as much again, as it allows (2 rho)."""
    if method == ONE_PASS:
        return
    made, most = kl.SETTINGS[name], 1.5 if method == kl.SELECTED else 1.0
    for factor in (1.0, 0.5):
        chosen = {k: v * factor for k, v in setting(kl.free(method)).items()}
        program = kl.program(made, method, made.sizes[-1], chosen)
        spent = float(Account(program.declaration(SCOPE), SCOPE).step("zcdp").value)
        assert 0.4 < spent <= most * float(kl.RHO) * (1 + 1e-9)


@pytest.mark.parametrize("n", [1_000, 1_000_000])
def test_at_kappa_1_one_long_step_is_below_every_bound(n: int) -> None:
    """Why no comparison is made there: the excess is e^-300, and less the longer the step is."""
    made = replace(kl.SETTINGS["two"], on=landscape(1.0))
    program = kl.program(made, FULL_BATCH, n, {"step": 300.0, "steps": 1.0})
    curator = sampler(program, replicas(made.dimension), 50, np.random.default_rng(0))
    assert made.on.excess(program.run(curator).output).max() < 1e-120


@pytest.mark.parametrize(
    ("method", "counted", "most"),
    [(method, *limit) for method, limit in kl.MOST.items() if method != kl.ADAPTIVE],
)
def test_a_search_of_paper_5_that_ends_at_our_most_steps_is_marked(
    method: str, counted: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = next(c for c in kl.cells(Size.FULL) if c.text("method") == method)
    for steps, marked in ((most, [f"{counted} (at most {most:,}, for time)"]), (most - 1, [])):
        found = {SET + counted: steps, END + counted: 0}
        monkeypatch.setattr(kl, "tuned", lambda *_, found=found: found)
        assert at_ends(Result(cell, kl.run(cell, np.random.default_rng(0)))) == marked


def test_a_judged_run_of_the_adaptive_method_that_ends_at_our_most_rounds_is_marked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = (c for c in kl.cells(Size.FULL) if c.text("method") == kl.ADAPTIVE)
    cell = next(c for c in found if c.text("setting") == "two")
    limit = "rounds (at most 1,000, for time)"
    for step, marked in ((4.0, [limit]), (1.0, [])):  # steps of 4 go on from side to side

        def tuned(*given: object, step: float = step) -> Values:
            given[2]({"step": step}, np.random.default_rng(0))  # type: ignore[operator]
            return {SET + "step": step}

        monkeypatch.setattr(kl, "tuned", tuned)
        assert at_ends(Result(cell, kl.run(cell, np.random.default_rng(0)))) == marked


def test_bs23_spends_the_budget_of_user_level_comparisons_at_most() -> None:
    """Its share is that of as many pure releases: of its ranges and means the account is less."""
    made = user_level.winsorized(2048, 16, {"tau": 1.0, "step": 1.0, "rounds": 1.0})
    spent = Account(made.declaration(USERS), USERS).epsilon(users.DELTA).upper
    assert spent <= EPSILON
    assert float(made.epsilon) >= EPSILON / 16


def test_a_pass_of_disjoint_batches_spends_rho_in_each() -> None:
    chosen = {"steps": 20.0, "step": 1.0}
    made = kl.program(kl.SETTINGS["two"], ONE_PASS, 300_000, chosen)
    assert made.problem.size == 15_000
    # Of T batches each step has rho: Delta^2 / (2 sigma^2) with Delta of two norms over n / T.
    assert 4 / (2 * float(made.noise) ** 2) == pytest.approx(float(kl.RHO))


def test_no_point_of_the_ball_has_less_risk_than_the_optimum() -> None:
    for place in srgd.STRENGTHS:
        least = srgd.least(place)
        rng = np.random.default_rng(0)
        for w in rng.normal(size=(20, problem.FEATURES)):
            inside = w * min(1.0, problem.RADIUS / np.linalg.norm(w))
            assert srgd.risk(inside, place) >= least
        data = srgd.sample(2**12, place, rng)
        found = srgd.minimiser(data)
        assert np.linalg.norm(found) <= problem.RADIUS * (1 + 1e-9)
        assert 0 <= srgd.risk(found, place) - least < 0.01


def rows(module: ModuleType, ours: float, ended: bool = False) -> Results:
    """Every method at 1, nothing at 100, the paper's at ``ours``."""
    made = []
    for cell in distinct(module.cells(Size.FULL)):
        method = cell.text("method")
        papers = (*kl.PAPERS, srgd.TREE, srgd.ROOT, srgd.TREE_FEW, *user_level.PAPERS, diff2.OURS)
        level = {NOTHING: 100.0, OPTIMUM: 0.0}.get(method, ours if method in papers else 1.0)
        size = module.PROTOCOL.judging
        values: Values = {
            "judged": [level] * size, "tried": 9, "batch_steps": 8 if method in papers else 9,
            **dict.fromkeys(diff2.MEASURES, [level] * size),
            **({END + "clip": 1} if ended else {}),
        }  # fmt: skip
        made.append(Result(cell, values))
    return Results(tuple(made))


@pytest.mark.parametrize("name", CONTESTS)
def test_statements_follow_the_judged_means(name: str, checkout: Path) -> None:
    module, experiment = CONTESTS[name], load(checkout)[name]

    def outcomes(results: Results) -> set[Agreement]:
        found = judged(experiment.read(results), experiment.alone, experiment.protocol)
        papers = load_papers(checkout)[name.removesuffix("_contest")]
        own = [s for s in papers.statements if s.experiment == name]
        assert own
        own = [s for s in own if not re.search("square-root|falls as|ends below", s.says)]
        return {agreement(s, Read(name, found))[0] for s in own}

    assert outcomes(rows(module, 0.5)) == {Agreement.AGREES}
    assert outcomes(rows(module, 2.0)) == {Agreement.DOES_NOT}
    assert outcomes(rows(module, 0.5, ended=True)) == {Agreement.UNFAIR}


@pytest.mark.parametrize("name", INSTANCES)
def test_every_instance_has_the_required_rows(name: str) -> None:
    for found in (Size.QUICK, Size.FULL):
        instances: dict[tuple[object, ...], set[str]] = {}
        for cell in INSTANCES[name].cells(found):
            if cell.text("method") == "identity":
                continue
            key = tuple(v for k, v in cell.parameters if k != "method")
            instances.setdefault(key, set()).add(cell.text("method"))
        assert all(set(REQUIRED) <= methods for methods in instances.values())


def test_glzw24_grows_as_table_1_cites_it() -> None:
    for n in (2**12, 2**16):
        batch = float(srgd.share(n)) * n
        assert math.log(srgd.rounds(n), n) == pytest.approx(1 / 4, abs=0.01)
        assert math.log(batch, n) == pytest.approx(7 / 8, abs=0.001)


def test_a_variance_that_falls_is_seen() -> None:
    def read(power: float) -> list[Status]:
        made = [
            Result(cell, {"variance": [of, 1.01 * of]})
            for cell in variance.cells(Size.FULL)
            for of in (cell.number("n") ** power,)
        ]
        return [check.status for check in variance.read(Results(tuple(made))).checks]

    assert set(read(0.0)) == {Status.HELD}
    assert set(read(-1.0)) == {Status.MISSED}


@pytest.mark.parametrize("one_pass", [True, False])
def test_the_noise_of_user_level_dp_sgd_is_that_of_the_budget(one_pass: bool) -> None:
    """Without data's own spread and with steps of 1 the last iterate's noise is the release's."""
    data = np.zeros((64, 2, users.DIMENSION))
    chosen = {"clip": 0.01, "step": 1.0, "steps": 4.0}
    rng = np.random.default_rng(0)
    found = [user_level.descend(data, chosen, rng, one_pass=one_pass) for _ in range(2000)]
    mu = 1.531545  # of (8, 1e-6)
    each, factor = (16, 1.0) if one_pass else (64, 2.0)
    spread = 2 * 0.01 / each / mu * factor
    last = np.concatenate(found)
    # x - clip(x) is 0 while x is shorter than the clip: what is left is the last release's noise.
    assert np.std(last) == pytest.approx(spread, rel=0.05)
