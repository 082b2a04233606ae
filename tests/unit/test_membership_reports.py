"""The membership audits kept in reports/membership: they verify, and pages are their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.membership_runs import COMPARED
from dpaudit.check import check
from dpaudit.check.file import load, validate
from dpaudit.membership.page import render

NAMES = (
    "accelerated_dp_srgd",
    "diff2_gd",
    "digits_logistic",
    "digits_network",
    "digits_network_opacus",
    "rand_tree",
)


@pytest.mark.parametrize("name", NAMES)
def test_a_kept_report_verifies_and_its_page_is_its_own(name: str, checkout: Path) -> None:
    path = checkout / "reports" / "membership" / f"{name}.json"
    certificate = load(path)
    validate(certificate)
    check(certificate)
    assert certificate["predicate"]["verdict"]["status"] != "refuted"
    page = path.with_suffix(".html").read_text("utf-8")
    assert page == render(certificate), f"{name}.html: stale, make membership-reports"


def test_the_comparison_of_networks_is_of_the_kept_certificates(checkout: Path) -> None:
    folder = checkout / "reports" / "membership"
    page = (folder / "networks.html").read_text("utf-8")
    assert page == render(
        {words: load(folder / f"{name}.json") for name, words in COMPARED.items()}
    )
    assert set(NAMES) == {path.stem for path in folder.glob("*.json")}
