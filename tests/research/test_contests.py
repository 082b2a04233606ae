"""Contests under the protocol: guarantees at every setting, the optimum, and who is judged how."""

from __future__ import annotations

import math
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from dpaudit.accountant.account import Account
from dpaudit.compare.search import Axis
from experiments.kl import contest as kl
from experiments.kl.problem import SCOPE
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
    judged,
)
from experiments.lab.running import distinct
from experiments.srgd import contest as srgd
from experiments.srgd import problem, variance
from experiments.user_level import contest as user_level
from experiments.user_level import problem as users

CONTESTS = {"srgd_contest": srgd, "kl_contest": kl, "user_level_contest": user_level}


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
        if method == FULL_BATCH:  # a batch of all: sqrt(rounds) Gaussian curves
            mu = math.sqrt(made.rounds) / float(made.noise_multiplier)
            assert mu == pytest.approx(0.236704, abs=1e-6)
            continue
        spent = Account(made.declaration(problem.SCOPE), problem.SCOPE).epsilon(problem.DELTA)
        assert float(spent.upper) <= 1.001 * problem.EPSILON


@pytest.mark.parametrize("method", [*kl.PAPERS, FULL_BATCH])
def test_every_method_of_paper_5_spends_rho_at_most(method: str) -> None:
    made = kl.program(kl.SETTINGS["two"], method, 300_000, setting(kl.free(method)))
    spent = float(Account(made.declaration(SCOPE), SCOPE).step("zcdp").value)
    assert 0.4 < spent <= float(kl.RHO) * (1 + 1e-9)


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
        papers = (kl.SPIDER, srgd.TREE, srgd.ROOT, srgd.TREE_FEW, user_level.OURS)
        level = {NOTHING: 100.0, OPTIMUM: 0.0}.get(method, ours if method in papers else 1.0)
        size = module.PROTOCOL.judging
        values: Values = {
            "judged": [level] * size, "tried": 9, "batch_steps": 8 if method in papers else 9,
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
        own = [s for s in own if "square-root" not in s.says and "falls as" not in s.says]
        return {agreement(s, Read(name, found))[0] for s in own}

    assert outcomes(rows(module, 0.5)) == {Agreement.AGREES}
    assert outcomes(rows(module, 2.0)) == {Agreement.DOES_NOT}
    assert outcomes(rows(module, 0.5, ended=True)) == {Agreement.UNFAIR}


@pytest.mark.parametrize("name", CONTESTS)
def test_every_instance_has_the_required_rows(name: str) -> None:
    for found in (Size.QUICK, Size.FULL):
        instances: dict[tuple[object, ...], set[str]] = {}
        for cell in CONTESTS[name].cells(found):
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
