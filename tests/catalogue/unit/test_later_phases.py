"""Bugs of paper 1 in a later phase or restart: its own attack is red, one on the first is not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from audits import (
    srgd_baselines,
    stable_erm,
    stable_erm_baselines,
    stable_erm_rows,
    user_level,
    user_level_baselines,
    user_level_options,
)
from audits.broken import later_phases as broken
from dpaudit.audit.attack import attack
from dpaudit.audit.neighbours import Neighbours
from dpaudit.audit.suite import Suite
from dpaudit.audit.verdict import DecisionBudget, bounds_of, deltas, lens, raw
from dpaudit.curator.mechanism import Mechanism
from dpaudit.families.composition import Parallel, Repeat
from dpaudit.kernels.query import Array
from dpaudit.nodes import Node
from mechanisms.papers.srgd import baselines_catalogue as srgd_catalogue
from mechanisms.papers.srgd.batches_catalogue import phased_erm_in_batches
from mechanisms.papers.stable_erm import baselines_catalogue as stable_baselines
from mechanisms.papers.stable_erm import catalogue as stable_catalogue
from mechanisms.papers.stable_erm import rows_catalogue
from mechanisms.papers.user_level import baselines_catalogue, catalogue, options_catalogue
from tests.support.planted import Planted, planted_in, printed_table

SEED = 20_241_023
BENCH = planted_in(broken, seed=SEED)
PLAIN = sorted(name for name in BENCH.bugs if "clip" in BENCH.suites[name].bug)
HALVED = sorted(name for name in BENCH.bugs if "half" in BENCH.suites[name].bug)
FIRST = {name: BENCH.suites[f"{name.partition('_')[0]}_first"].neighbours for name in BENCH.bugs}


@pytest.fixture(scope="module")
def table() -> Iterator[list[str]]:
    """Rows of the table, printed when the module is done (run with -s)."""
    yield from printed_table("epsilon, or mu")


@pytest.mark.first_case
@pytest.mark.long_cases("restarts_plain", "restarts_untested", "sampled_half", "sampled_plain")
@pytest.mark.parametrize("name", sorted(BENCH.bugs))
def test_a_bug_of_a_later_phase_is_found_by_the_attack_on_it(name: str, table: list[str]) -> None:
    result = BENCH.judged(name, table)
    assert not BENCH.missed(name, result)
    assert result.verdict in ("refuted", "alarm")


@pytest.mark.parametrize("name", sorted(BENCH.bugs))
@pytest.mark.quality
def test_an_attack_on_the_first_phase_alone_does_not_see_it(name: str) -> None:
    """Halved noise is seen by its residuals wherever a user is; nothing else is seen at all.

    Where all users of a phase are equal its tests pass, with noise or without.
    """
    elsewhere = replace(BENCH.suites[name], neighbours=FIRST[name])
    bench = Planted({name: elsewhere}, BENCH.mechanisms, SEED)
    caught = bench.caught_by(bench.attacked(name))
    assert caught == (["conformance"] if name in HALVED else [])


def test_every_algorithm_in_phases_has_a_clip_deleted_and_noise_halved() -> None:
    kinds = {name.partition("_")[0] for name in BENCH.bugs}
    assert kinds == {"passes", "full", "restarts", "sampled"}
    assert {name.partition("_")[0] for name in PLAIN} == kinds
    assert {name.partition("_")[0] for name in HALVED} == kinds


@pytest.mark.parametrize("name", sorted(BENCH.twins))
@pytest.mark.quality
def test_a_correct_twin_is_flagged_in_no_phase(name: str) -> None:
    """False alarms: at most 1e-4 each, the decision error of a run."""
    mechanism, suite = BENCH.mechanism(name), BENCH.suites[name]
    assert isinstance(suite, Suite)
    found = attack(mechanism, suite, seed=SEED, error=5e-5)
    assert [finding.check for finding in found.findings if finding.status == "broken"] == []
    (claim,), budget = mechanism.claims, DecisionBudget(bounds_of(mechanism.claims), 1)
    assert claim.check(mechanism.declaration, mechanism.scope).outcome == "proved"
    at = deltas(mechanism.claims)
    bound = raw(found, budget, at[0]) if at else lens(found, budget)
    assert bound is not None
    assert bound.decisive <= float(claim.value)


# --- the catalogue's own suites -------------------------------------------------------------------

ATTACKED: list[tuple[Mechanism, Suite]] = [
    (baselines_catalogue.user_level_phased_sgd_baseline,
     user_level_baselines.user_level_phased_sgd_baseline),
    (baselines_catalogue.full_batch_outlier_removed_dpsgd,
     user_level_baselines.full_batch_outlier_removed_dpsgd),
    (options_catalogue.user_level_phased_sgd_plain,
     user_level_options.user_level_phased_sgd_plain),
    (options_catalogue.user_level_phased_erm_sampled_tests,
     user_level_options.user_level_phased_erm_sampled_tests),
    (catalogue.strongly_convex_reduction, user_level.strongly_convex_reduction),
    (catalogue.user_level_phased_sgd, user_level.user_level_phased_sgd),
    (catalogue.user_level_phased_sgd_random, user_level.user_level_phased_sgd_random),
    (catalogue.user_level_phased_erm, user_level.user_level_phased_erm),
    (catalogue.smoothed_user_level_phased_erm, user_level.smoothed_user_level_phased_erm),
    (srgd_catalogue.phased_sgd, srgd_baselines.phased_sgd),
    (srgd_catalogue.phased_erm, srgd_baselines.phased_erm),
    (phased_erm_in_batches, srgd_baselines.phased_erm_in_batches),
    (srgd_catalogue.localized_accelerated_dp_sgd, srgd_baselines.localized_accelerated_dp_sgd),
    (stable_catalogue.stable_phased_sco, stable_erm.stable_phased_sco),
    (stable_catalogue.strongly_convex_sco, stable_erm.strongly_convex_sco),
    (rows_catalogue.stable_phased_sco_rows, stable_erm_rows.stable_phased_sco_rows),
    (rows_catalogue.strongly_convex_sco_rows, stable_erm_rows.strongly_convex_sco_rows),
    (stable_baselines.item_phased_erm, stable_erm_baselines.item_phased_erm),
]  # fmt: skip
PHASES = [4, 2, 2, 3, 4, 2, 4, 2, 2, 6, 6, 6, 3, 3, 3, 3, 2, 5]
LEFT_OUT = {"phased_erm_in_batches": 3}  # phases alike, whose runs are long
HERE = {
    "user_level_phased_sgd_baseline",
    "user_level_phased_sgd_plain",
    "full_batch_outlier_removed_dpsgd",
    "phased_sgd",
    "phased_erm",
    "stable_phased_sco",
    "strongly_convex_sco",
    "stable_phased_sco_rows",
    "strongly_convex_sco_rows",
}


def later() -> list[object]:
    """Each attack on a later phase; the second one of a mechanism, and long ones, for quality."""
    return [
        pytest.param(
            mechanism, suite, id=f"{mechanism.name} {k}",
            marks=[pytest.mark.quality] * (k > 0 or mechanism.name not in HERE),
        )
        for mechanism, first in ATTACKED
        for k, suite in enumerate(first.also)
    ]  # fmt: skip


def parts(node: Node) -> int:
    """How many phases of records of their own a declaration has that release anything."""
    while not isinstance(node, Parallel):
        node = node.children[-1]
    return sum(not (isinstance(one, Repeat) and one.times == 0) for one in node.children)


def test_suites_attack_as_many_phases_as_are_declared() -> None:
    for (mechanism, first), count in zip(ATTACKED, PHASES, strict=True):
        assert parts(mechanism.declaration) == count
        attacked = count - LEFT_OUT.get(mechanism.name, 0)
        assert len(first.all) == attacked
        differing = [tuple(np.flatnonzero(_apart(one.neighbours).any(axis=1))) for one in first.all]
        assert len(set(differing)) == attacked


def _apart(pair: Neighbours) -> Array:
    one, two = pair.pair
    values = (one.values != two.values).reshape(len(one), -1)
    return np.asarray(values | (one.present != two.present)[:, None])


@pytest.mark.first_case
@pytest.mark.long_cases("full_batch_outlier_removed_dpsgd 0")
@pytest.mark.parametrize(("mechanism", "suite"), later())
def test_a_later_phase_of_the_catalogue_is_attacked(mechanism: Mechanism, suite: Suite) -> None:
    """Something is seen, and nothing is broken; of two phases in secret batches too little is."""
    found = attack(mechanism, suite, seed=3, error=5e-5)
    assert [finding.check for finding in found.findings if finding.status == "broken"] == []
    bound = lens(found, DecisionBudget(bounds_of(mechanism.claims), 1))
    assert bound is not None
    # The attack on its third phase, which sees its test, is the first of its suites.
    unseen = mechanism.name == "user_level_phased_erm_sampled_tests"
    assert (bound.shown > 0) != unseen
