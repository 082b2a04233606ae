"""Entries whose stand-ins are gone: a loss that a search finds shows nine tenths of theirs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from audits import diff2, kl_adaptive, kl_readings, srgd, srgd_baselines
from dpaudit.audit.examine import Examination, examine, shape_of
from dpaudit.audit.examine.steep import steeper
from dpaudit.audit.likelihood import likelihood_audit
from dpaudit.audit.neighbours import Neighbours
from dpaudit.audit.suite import Suite
from dpaudit.curator.curator import Program
from dpaudit.curator.mechanism import Mechanism
from dpaudit.project.project import catalogue_root, load
from mechanisms.papers.kl.adaptive import AdaptiveNoisyGD
from mechanisms.papers.kl.adaptive_printed import PrintedAdaptiveNoisyGD
from mechanisms.papers.kl.select import SelectStationaryIterate

PROJECT = load(catalogue_root())
SIZES = {"dp_sgd_one_pass_replace_one": 20, "dp_online_to_batch": 32, "dp_sgd_poisson": 2}
GONE = (
    *SIZES, "accelerated_dp_srgd", "accelerated_dp_srgd_sqrt_toeplitz", "dp_srgd",
    "accelerated_dp_srgd_corollary_5_7", "accelerated_dp_srgd_theorem_5_12", "diff2_gd_client",
    "diff2_gd_shares", "adaptive_noisy_gd", "adaptive_noisy_gd_filter",
    "adaptive_noisy_gd_paper_absolute", "select_noisy_argmin", "select_stationary_iterate",
)  # fmt: skip
RUNS, ENOUGH = 100, 0.9


def stand_in(mechanism: Mechanism) -> Suite:
    """The worst case that was its suite."""
    if mechanism.name in SIZES:
        return srgd_baselines.suite(mechanism, SIZES[mechanism.name])
    if "diff2" in mechanism.name:
        return diff2.suite(mechanism)
    program: Any = mechanism.program
    if isinstance(program, PrintedAdaptiveNoisyGD):
        return Suite(mechanism.name, kl_readings.silent(program), kl_readings.REPLACED)
    if isinstance(program, AdaptiveNoisyGD):
        return kl_adaptive.suite(mechanism.name, program)
    if isinstance(program, SelectStationaryIterate):
        worst = kl_adaptive.suite(mechanism.name, program.descent)
        return replace(worst, program=replace(program, descent=worst.program))
    return srgd.suite(mechanism)


def shown(mechanism: Mechanism, program: Program, pair: Neighbours) -> float:
    found = likelihood_audit(
        program, mechanism.declaration, mechanism.scope, pair, mechanism.claims,
        seed=1, runs=RUNS, shown_error=0.05, decisive_error=4e-5,
    )  # fmt: skip
    return found.bounds[0].shown


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("name", GONE)
def test_a_search_shows_nine_tenths_of_the_stand_in(name: str) -> None:
    mechanism = PROJECT.mechanisms[name]
    assert name not in PROJECT.suites
    shape = shape_of(mechanism.program, mechanism.declaration, mechanism.scope)
    made = steeper(mechanism, Examination(shape=shape), 1)
    assert made is not None
    worst = stand_in(mechanism)
    before = shown(mechanism, worst.program, worst.neighbours)
    assert shown(mechanism, made.program, made.neighbours) >= ENOUGH * before > 0


@pytest.mark.quality
def test_its_own_loss_shows_as_much_where_nothing_is_clipped() -> None:
    mechanism = PROJECT.mechanisms["accelerated_dp_srgd_unclipped"]
    assert mechanism.name not in PROJECT.suites
    pair, worst = examine(mechanism, seed=1).pair, srgd.suite(mechanism)
    assert pair is not None
    before = shown(mechanism, worst.program, worst.neighbours)
    assert shown(mechanism, mechanism.program, pair) >= ENOUGH * before > 0
