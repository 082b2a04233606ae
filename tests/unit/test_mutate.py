"""Mutation testing: which bugs are planted where, what kills them, and what is left as it was.

A mutant without a bug is killed with probability at most 1e-4.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpaudit.accountant.claim import Claim
from dpaudit.audit.neighbours import Neighbours
from dpaudit.audit.suite import Suite
from dpaudit.curator.curator import Curator
from dpaudit.curator.mechanism import Mechanism, Setting
from dpaudit.errors import InvalidParameter
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Compose, Repeat
from dpaudit.families.opaque import GDP, ApproxDP, PureDP
from dpaudit.families.sampling import PoissonSampled
from dpaudit.kernels.query import Array, ClippedMean, Records
from dpaudit.mutate import ladder
from dpaudit.mutate.ladder import (
    EQUIVALENT,
    HARMLESS,
    KILLED,
    SURVIVED,
    Baseline,
    Result,
    baseline,
    faults,
    run_mutant,
)
from dpaudit.mutate.mutant import FAMILIES, Mutant, Planted, ready, survey
from dpaudit.mutate.operators import chosen, mutants
from dpaudit.mutate.report import as_json, counts, exit_code, kill_rate, lines
from dpaudit.mutate.run import Order, Ran, _Store
from dpaudit.nodes import Node
from dpaudit.scope import Scope
from tests.kernels_for_tests import Stated, total

SETTING = Setting("a test", "row", "one row", ("the releases",))
SEED = 11


def rows(values: Array) -> Array:
    return np.asarray(values)[None]


@dataclass(frozen=True)
class Walk:
    """Moves a point by noisy means, every second of them with a smaller radius."""

    steps: int = 8

    def declaration(self, scope: Scope) -> Node:
        wide = self.steps // 2
        return Compose(Repeat(Gaussian("wide", 4), wide), Repeat(Gaussian("narrow", 4), wide))

    def run(self, curator: Curator) -> Array:
        x = np.zeros((curator.trials, 2))
        for t in range(self.steps):
            if t % 2 == 0:
                x = x + curator.release("wide", ClippedMean(rows, 1.0))
            else:
                x = x + curator.release("narrow", ClippedMean(rows, 0.5))
        return x


@dataclass(frozen=True)
class Batches:
    """Noisy sums over secret batches."""

    steps: int = 6

    def declaration(self, scope: Scope) -> Node:
        return Repeat(PoissonSampled(Gaussian("sum", 1), 0.25), self.steps)

    def run(self, curator: Curator) -> Array:
        released = np.zeros((curator.trials, 2))
        for _ in range(self.steps):
            with curator.batch("sum") as batch:
                query = ClippedMean(rows, 1.0, divisor=1.0)
                released = curator.release("sum", query, rows=batch)
        return released


@dataclass(frozen=True)
class Once:
    """One number, with Laplace noise."""

    def declaration(self, scope: Scope) -> Node:
        return Laplace("count", 1)

    def run(self, curator: Curator) -> Array:
        return curator.release("count", ClippedMean(lambda z: z[None, :, :1], 1.0, norm="l1"))


def target(program: Any, claim: Node, adjacency: str, trials: int = 400) -> Planted:
    scope = Scope(adjacency, "record", "central", "transcript")  # type: ignore[arg-type]
    claims = (Claim(claim, by="a test"),)
    mechanism = Mechanism("case", "Case", "a test", program, scope, claims, SETTING)
    first = np.zeros((5, 2))
    first[2] = (2.0, 0.0)
    zeroed = Records(first, np.arange(5) != 2)
    other = Records(-first) if adjacency == "replace_one" else zeroed
    pair = Neighbours(Records(first), other, adjacency, "a row")  # type: ignore[arg-type]
    return Planted(mechanism, Suite("case", program, pair, trials=trials))


TARGETS = {
    "walk": target(Walk(), GDP(1), "replace_one"),
    "batches": target(Batches(), ApproxDP(6, 1e-5), "zero_out"),
    "once": target(Once(), PureDP(1), "zero_out", trials=6_000),
}


def opened(name: str, seed: int = SEED) -> tuple[Baseline, list[Mutant]]:
    mechanism, suite = TARGETS[name]
    found = survey(mechanism, suite, seed, 2.5e-5)
    return baseline(found, seed, suite.trials), mutants(found)


# --- which bugs are planted ----------------------------------------------------------------------


def test_every_family_is_planted() -> None:
    found = {m.family for name in TARGETS for m in opened(name)[1]}
    assert found == set(FAMILIES)


@pytest.mark.parametrize("name", TARGETS)
def test_mutants_are_named_once_and_placed(name: str) -> None:
    _, made = opened(name)
    assert len({m.name for m in made}) == len(made) > 20
    assert all(m.where.startswith("tests/unit/test_mutate.py:") for m in made)
    assert [m.name for m in opened(name)[1]] == [m.name for m in made]


@pytest.mark.parametrize("name", TARGETS)
def test_mutants_are_killed_or_cost_nothing(name: str) -> None:
    """Two dozen of each target (`make quality` runs all): no survivor, no flag on the target."""
    base, made = opened(name)
    assert faults(base, base.trials) == ""
    results = [run_mutant(base, mutant) for mutant in chosen(made, 24, SEED)]
    assert kill_rate(results) == 1.0, [r.name for r in results if r.status == SURVIVED]
    assert all(r.detail for r in results if r.status != SURVIVED)


def test_what_kills_which_bug() -> None:
    base, made = opened("walk")
    by_name = {m.name: m for m in made}
    expected = {
        "wide.scale_half": "variance of wide",
        "wide.noise_same": "coordinates of wide",
        "wide.bound_half": "sensitivity on hostile records",
        "wide.clip_nan": "sensitivity on hostile records",
        "wide.clip_together": "sensitivity on hostile records",
        "wide.release_repeated": "undeclared access",
        "wide.release_left_out": "executed against declared releases",
        "narrow.budget_halved": "accountant",
        "output_leaks": "control flow and released values",
        "halts_on_data": "control flow and released values",
        "steps_one_more": "undeclared access",
    }
    found = {name: run_mutant(base, by_name[name]).check for name in expected}
    assert found == expected


def test_wrong_batches_are_killed_by_their_frequencies() -> None:
    base, made = opened("batches")
    found = {m.name: run_mutant(base, m) for m in made if m.name.startswith("batch_")}
    assert len(found) == 5
    assert {r.status for r in found.values()} == {KILLED}
    assert found["batch_reused"].check == "sampling frequencies"
    assert found["batch_not_secret"].check == "sampling frequencies"


# --- what does not count -------------------------------------------------------------------------


def nothing(base: Baseline, **changes: Any) -> Mutant:
    planted = Planted(base.survey.mechanism, base.survey.suite)
    mutant = Mutant("nothing", "scale", "no bug", "a.py:1", lambda: ready(planted))
    return replace(mutant, **changes)


@pytest.mark.parametrize("name", TARGETS)
def test_a_mutant_without_a_bug_is_equivalent(name: str) -> None:
    """Three seeds of each: a false kill has probability below 1e-3 in all."""
    mechanism, suite = TARGETS[name]
    for seed in range(3):
        base = baseline(survey(mechanism, suite, seed, 2.5e-5), seed, suite.trials)
        assert run_mutant(base, nothing(base)).status == EQUIVALENT


def test_public_code_and_stronger_declarations_are_harmless() -> None:
    base, made = opened("walk")
    results = [run_mutant(base, m) for m in made if m.family == "source"]
    checks = {(r.status, r.check) for r in results}
    assert (KILLED, "accountant") in checks or (KILLED, "undeclared access") in checks
    assert {s for s, _ in checks} <= {KILLED, EQUIVALENT, HARMLESS}

    class Quiet(Walk):
        def declaration(self, scope: Scope) -> Node:
            return Compose(Repeat(Gaussian("wide", 9), 4), Repeat(Gaussian("narrow", 9), 4))

    mechanism, suite = TARGETS["walk"]
    quiet = Planted(replace(mechanism, program=Quiet()), replace(suite, program=Quiet()))
    result = run_mutant(base, nothing(base, plant=lambda: ready(quiet)))
    assert (result.status, result.check) == (HARMLESS, "accountant")


def test_a_weak_audit_lets_bugs_survive() -> None:
    """Two trials of one number cannot tell 0.9 of the noise from all of it."""
    mechanism, suite = TARGETS["once"]
    found = survey(mechanism, replace(suite, trials=2), SEED, 2.5e-5)
    base = baseline(found, SEED, 2)
    mutant = next(m for m in mutants(found) if m.name == "count.scale_nine_tenths")
    result = run_mutant(base, mutant)
    assert (result.status, result.trials) == (SURVIVED, 2)
    assert kill_rate([result]) == 0.0


# --- mutants that fail ---------------------------------------------------------------------------


def test_a_mutant_that_does_not_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ladder, "SECONDS", 0.3)

    class Endless(Walk):
        def run(self, curator: Curator) -> Any:
            time.sleep(60)

    base, _ = opened("walk")
    base = replace(base, survey=replace(base.survey, seconds=0.0))
    endless = base.survey.planted(program=Endless())
    started = time.monotonic()
    result = run_mutant(base, nothing(base, plant=lambda: ready(endless)))
    assert (result.status, result.check) == (KILLED, "time")
    assert time.monotonic() - started < 20


def test_a_crash_is_named_without_its_text() -> None:
    @contextmanager
    def crashing() -> Iterator[Planted]:
        raise ZeroDivisionError("row 17.5")
        yield TARGETS["walk"]

    base, _ = opened("walk")
    result = run_mutant(base, nothing(base, plant=crashing))
    assert (result.check, result.detail) == ("crash", "ZeroDivisionError")


# --- limits, orders, reports ---------------------------------------------------------------------


def test_a_limit_takes_from_every_family_in_turn() -> None:
    _, made = opened("walk")
    families = {m.family for m in made}
    few = chosen(made, len(families), 1)
    assert {m.family for m in few} == families
    assert [m.name for m in chosen(made, 20, 1)] == [m.name for m in chosen(made, 20, 1)]
    assert [m.name for m in chosen(made, 20, 1)] != [m.name for m in chosen(made, 20, 2)]
    assert chosen(made, None, 1) == chosen(made, 10**6, 1) == made


@pytest.mark.parametrize(
    "wrong", [{"limit": 0}, {"limit": -1}, {"trials": 1}, {"families": ("typos",)}]
)
def test_an_order_that_makes_no_sense_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidParameter):
        Order("walk", Path(), **wrong)


def result(status: str, name: str = "a", family: str = "scale") -> Result:
    return Result(name, family, "what", "a.py:1", status, "check", "detail", 0, 0.5)


def ran(*statuses: str, flagged: str = "") -> Ran:
    results = tuple(result(s, str(i)) for i, s in enumerate(statuses))
    return Ran("case", "case", "Case", 1, 400, len(results), results, flagged)


def test_the_kill_rate_counts_what_can_be_told() -> None:
    found = ran(KILLED, KILLED, KILLED, SURVIVED, EQUIVALENT, HARMLESS)
    assert kill_rate(found.results) == 0.75
    assert kill_rate(ran(EQUIVALENT, HARMLESS).results) is None
    assert counts(found.results) == {KILLED: 3, SURVIVED: 1, EQUIVALENT: 1, HARMLESS: 1}
    document = as_json(found)
    assert json.loads(json.dumps(document))["families"]["scale"]["kill_rate"] == 0.75
    assert any(text.startswith("SURVIVED 3 (a.py:1)") for text in lines(found))


@pytest.mark.parametrize(
    ("of", "code"),
    [
        (ran(KILLED), 0),
        (ran(*[KILLED] * 19, SURVIVED), 0),
        (ran(*[KILLED] * 18, SURVIVED), 1),
        (ran(SURVIVED, EQUIVALENT), 1),
        (ran(EQUIVALENT), 3),
        (ran(HARMLESS), 3),
        (ran(KILLED, flagged="variance of a"), 5),
        (ran(flagged="variance of a"), 5),
    ],
)
def test_exit_codes(of: Ran, code: int) -> None:
    assert exit_code(of) == code


def test_finished_mutants_are_read_back_and_torn_ones_are_not(tmp_path: Path) -> None:
    store = _Store(tmp_path / "kept")
    store.write(result(KILLED, "a"))
    store.write(result(SURVIVED, "b"))
    (tmp_path / "kept" / "torn.json").write_text('{"name": "c", "family"')
    (tmp_path / "kept" / "other.json").write_text("[1]")
    assert store.read({"a", "b", "c"}) == {"a": result(KILLED, "a"), "b": result(SURVIVED, "b")}
    assert store.read({"a"}) == {"a": result(KILLED, "a")}
    store.remove()
    assert store.read({"a"}) == {}
    assert not (tmp_path / "kept").exists()


# --- queries that keep their bound on a domain only -----------------------------------------------


@dataclass(frozen=True)
class Trusting:
    """Sums numbers that it trusts to lie in [-1, 1]: hostile records would flag it as it is."""

    def declaration(self, scope: Scope) -> Node:
        return Repeat(Gaussian("sum", 1), 4)

    def run(self, curator: Curator) -> Array:
        released = np.zeros((curator.trials, 2))
        for _ in range(4):
            released = curator.release("sum", Stated(total, 2.0))
        return released


def test_a_target_of_a_domain_is_mutated_without_hostile_records() -> None:
    mechanism, suite = target(Trusting(), GDP(2), "replace_one")
    values = np.zeros((5, 2))
    values[2, 0] = 1.0
    pair = Neighbours(Records(values), Records(-values), mechanism.scope.adjacency, "a row")
    found = survey(mechanism, replace(suite, neighbours=pair), SEED, 2.5e-5)
    assert found.hostile == {}
    assert found.inspection.broken == ()
    base = baseline(found, SEED, 400)
    by_name = {m.name: m for m in mutants(found)}
    assert run_mutant(base, by_name["sum.bound_half"]).status == KILLED
    assert run_mutant(base, by_name["sum.noise_reused"]).status == KILLED
    assert not any(name.startswith("sum.clip") for name in by_name)
    assert any("hostile records left out" in text for text in lines(replace(ran(), hostile=0)))
