"""The entries of the paper: the inventory, claims, scopes, and the audit of each."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from audits import kl, kl_adaptive, kl_baselines, kl_readings
from dpaudit.cli.main import main
from dpaudit.curator.curator import Sampler
from dpaudit.curator.mechanism import Mechanism
from dpaudit.errors import InvalidParameter
from dpaudit.scope import Scope, central
from mechanisms.papers.kl import (
    adaptive_catalogue,
    adaptive_readings,
    baselines_catalogue,
    bounds,
    catalogue,
)
from mechanisms.papers.kl.condition import (
    GrowthCondition,
    KLCondition,
    check_growth,
    check_kl,
    growth_to_kl,
    kl_to_growth,
)
from mechanisms.papers.kl.instances import (
    huber_fingerprint_instance,
    two_point_detector,
    two_point_growth_instance,
)
from mechanisms.papers.kl.schedule import KLSpiderSchedule
from mechanisms.papers.kl.spider import KLSpider
from tests.support.claims import value

REPLACE_ONE, ZERO_OUT = central("replace_one"), central("zero_out")
MECHANISMS = {
    m.name: m
    for module in (catalogue, adaptive_catalogue, adaptive_readings, baselines_catalogue)
    for m in vars(module).values()
    if isinstance(m, Mechanism)
}
SUITES = [*kl.suites, *kl_adaptive.suites, *kl_readings.suites, *kl_baselines.suites]
# Entries that the default attack bounds as far as a stand-in would, or a search for a loss does.
BY_DEFAULT = {
    "adaptive_noisy_gd",
    "adaptive_noisy_gd_filter",
    "adaptive_noisy_gd_paper_absolute",
    "select_noisy_argmin",
    "select_stationary_iterate",
    "noisy_gd_pl",
    "noisy_gd_stationary",
    "convex_noisy_gd",
    "kl_spider_paper_replace_one",
    "kl_spider_paper_zero_out",
    "regularized_noisy_gd",
    "regularized_noisy_gd_paper",
    "proximal_point_method",
    "proximal_point_method_paper",
    "epoch_localized_erm",
    "growth_reduction",
    "adaptive_noisy_gd_paper_clipped",
    "adaptive_noisy_gd_paper_from_the_noise",
    "adaptive_noisy_gd_paper_zero_out",
    "private_gradient_norm",
    "spider_estimator",
}


def test_every_entry_has_its_audit_and_every_audit_its_entry() -> None:
    assert sorted(suite.mechanism for suite in SUITES) == sorted({*MECHANISMS} - BY_DEFAULT)


# The audit plan's inventory: rows that run by the name of their entry, the others by what they are.
INVENTORY: dict[int, str | tuple[Any, ...]] = {
    1: (KLCondition, GrowthCondition, kl_to_growth, growth_to_kl, check_kl, check_growth),
    2: (bounds.zcdp_to_dp, bounds.rho_for_dp),
    3: "kl_spider",
    4: (KLSpiderSchedule.levels, KLSpiderSchedule.steps, KLSpider.going_on),
    5: "spider_estimator",
    6: "proximal_point_method",
    7: "regularized_noisy_gd",
    8: "adaptive_noisy_gd",
    9: "private_gradient_norm",
    10: "adaptive_noisy_gd_filter",
    11: "select_stationary_iterate",
    12: "growth_reduction",
    13: (huber_fingerprint_instance,),
    14: (two_point_growth_instance, two_point_detector),
    15: (bounds.growth_lower, bounds.kl_lower, bounds.convex_lower, bounds.one_dimensional_lower),
    16: "noisy_gd_pl",
    17: "noisy_gd_stationary",
    18: "private_spider",
    19: "epoch_localized_erm",
    20: "convex_noisy_gd",
}


def test_the_command_lists_the_inventory(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each entry with name, paper, scope and claims; all of this paper are in it."""
    monkeypatch.chdir(checkout)
    result = CliRunner().invoke(main, ["list", "--json"])
    assert result.exit_code == 0, result.output
    rows = {row["name"]: row for row in json.loads(result.stdout)}
    assert set(INVENTORY) == set(range(1, 21))
    named = {name for name in INVENTORY.values() if isinstance(name, str)}
    assert named <= set(MECHANISMS) <= set(rows)
    for name in MECHANISMS:
        row = rows[name]
        assert row["paper"]
        assert row["scope"]
        assert row["claims"]
        assert all(claim["by"] and claim["claim"] for claim in row["claims"])


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.mechanism)
def test_an_audit_attacks_the_declaration_of_its_mechanism(suite: Any) -> None:
    found = MECHANISMS[suite.mechanism]
    assert suite.program.declaration(found.scope) == found.declaration


@pytest.mark.parametrize("name", MECHANISMS)
def test_claims_come_out_as_the_catalogue_expects(name: str) -> None:
    """Where the printed signed listing is open for the account, its attack decides."""
    found = MECHANISMS[name]
    outcomes = tuple(c.check(found.declaration, found.scope).outcome for c in found.claims)
    if name in ("adaptive_noisy_gd_paper", "adaptive_noisy_gd_paper_signed_zero_out"):
        # An epsilon is refuted by what spends the filter's cap.
        assert outcomes == ("unproved", "refuted")[: len(outcomes)]
    else:
        assert outcomes == found.expectations


def test_kl_spider_as_printed_side_by_side() -> None:
    """Every noisy gradient released: between 17/8 and 9/4 rho, a quarter of it under zero_out."""
    share = {
        name: value(MECHANISMS[name].declaration, "zcdp", adjacency) / catalogue.RHO
        for name, adjacency in (
            ("kl_spider_paper_replace_one", "replace_one"),
            ("kl_spider_paper_zero_out", "zero_out"),
        )
    }
    replaced, zeroed = share.values()
    assert Fraction(17, 8) < replaced < Fraction(9, 4)
    assert replaced == 4 * zeroed


@pytest.mark.parametrize("name", sorted(MECHANISMS))
def test_programs_refuse_scopes_they_have_no_noise_for(name: str) -> None:
    program = MECHANISMS[name].program
    for scope in (
        central("add_remove"),
        Scope("replace_one", "user", "central", "transcript"),  # type: ignore[arg-type]
        Scope("replace_one", "record", "local", "transcript"),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidParameter, match=r"replace_one|trusted curator"):
            program.declaration(scope)


def test_the_catalogue_has_a_vacuous_theorem_and_says_so() -> None:
    """The printed constants at this size: the start, no release, no cost, a note on the page."""
    found = MECHANISMS["kl_spider_vacuous"]
    assert found.records is not None
    curator = Sampler(found.declaration, found.scope, found.records(), rng=np.random.default_rng(0))
    given = found.program.run(curator)
    assert given.output.tolist() == [[0.0] * 10]
    assert curator.transcript == []
    assert any(given.note in note for note in found.setting.notes)
    assert found.claims[0].check(found.declaration, found.scope).outcome == "proved"


@pytest.mark.parametrize("name", ["kl_spider", "adaptive_noisy_gd", "private_spider"])
def test_an_entry_is_made_for_as_many_records_as_its_data_have(name: str) -> None:
    found = MECHANISMS[name]
    assert found.records is not None
    rows = found.records()
    assert len(rows) == found.program.problem.size  # type: ignore[attr-defined]
