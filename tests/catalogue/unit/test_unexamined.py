"""Entries of the catalogue whose claims stay unconfirmed, each with its reason."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dpaudit.audit.examine import examine, shape_like
from dpaudit.certificate.evidence import examination_row
from dpaudit.check.reach import gaps
from dpaudit.curator.mechanism import Mechanism
from dpaudit.project.project import Project, load, suite_of

NEVER_RUN = frozenset(
    """
    accelerated_dp_srgd_corollary_5_7_equation_19 accelerated_dp_srgd_theorem_5_8
    accelerated_dp_srgd_theorem_5_8_iid deletion_stable_output_perturbation
    deletion_stable_output_perturbation_calibrated group_private_phased_sgd kl_spider_vacuous
    stable_phased_erm stable_phased_sco strongly_convex_erm
    strongly_convex_output_perturbation_printed strongly_convex_sco
    user_level_accelerated_sgd_secret_batches user_level_phased_erm_appendix_d
    user_level_phased_erm_paper user_level_phased_sgd_paper
    """.split()
)
MOVED_LITTLE = frozenset(
    """
    accelerated_dp_srgd_corollary_5_7_two_rounds accelerated_dp_srgd_theorem_5_12
    full_batch_outlier_removed_dpsgd outlier_removed_mean_random smoothed_user_level_phased_erm
    stable_phased_erm_rows stable_phased_sco_rows strongly_convex_erm_rows
    strongly_convex_reduction strongly_convex_sco_rows user_level_accelerated_sgd
    user_level_accelerated_sgd_paper user_level_accelerated_sgd_sampled_tests
    user_level_phased_erm user_level_phased_erm_paper_large_epsilon
    user_level_phased_erm_sampled_tests user_level_phased_sgd user_level_phased_sgd_baseline
    user_level_phased_sgd_public_order user_level_phased_sgd_random winsorized_mean_dpsgd
    """.split()
)


@pytest.fixture(scope="module")
def project() -> Project:
    return load(Path(__file__).parents[3])


def gaps_of(project: Project, mechanism: Mechanism) -> list[str]:
    suite = suite_of(project, mechanism)
    likely = None if suite is None else shape_like(suite.neighbours.first)
    found = examine(mechanism, seed=1, likely=likely)
    return gaps(examination_row(found), mechanism.declaration)


def test_the_entries_that_no_examination_reaches_are_these(project: Project) -> None:
    named = {name for name, one in project.mechanisms.items() if one.unexamined}
    assert named == NEVER_RUN | MOVED_LITTLE


@pytest.mark.parametrize("name", ["kl_spider_vacuous", "group_private_phased_sgd"])
def test_what_is_never_run_is_not_examined(name: str, project: Project) -> None:
    assert gaps_of(project, project.mechanisms[name])


@pytest.mark.quality
def test_every_other_entry_is_examined_and_these_are_not(project: Project) -> None:
    """Twenty minutes; `make certify-all` says the same by its exit code."""
    entries = project.mechanisms.items()
    unreached = {name for name, one in entries if gaps_of(project, one)}
    assert unreached == NEVER_RUN | MOVED_LITTLE


@pytest.mark.quality
def test_an_author_who_says_why_a_release_moves_no_further_is_believed(project: Project) -> None:
    made = project.mechanisms["deletion_stable_output_perturbation_laplace"]
    assert not gaps_of(project, made)
    (gap,) = gaps_of(project, replace(made, reaches={}))
    assert "moved its query by 0.408% of what is stated" in gap
