"""The membership audits kept in reports/membership: they verify, and pages are their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import membership_runs
from benchmarks.membership_runs import COMPARED
from dpaudit.check import check
from dpaudit.check.file import load, validate
from dpaudit.membership.certificate import statement
from dpaudit.report.membership import render

NAMES = (
    "accelerated_dp_srgd",
    "diff2_gd",
    "digits_logistic",
    "digits_network",
    "digits_network_opacus",
    "rand_tree",
)


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("name", NAMES)
def test_a_kept_report_verifies_and_its_page_is_its_own(name: str, checkout: Path) -> None:
    path = checkout / "reports" / "membership" / f"{name}.json"
    certificate = load(path)
    validate(certificate)
    check(certificate)
    assert certificate["predicate"]["verdict"]["status"] != "refuted"
    page = path.with_suffix(".html").read_text("utf-8")
    assert page == render(certificate), f"{name}.html: stale, make membership-reports"


@pytest.mark.quality
def test_the_comparison_of_networks_is_of_the_kept_certificates(checkout: Path) -> None:
    folder = checkout / "reports" / "membership"
    page = (folder / "networks.html").read_text("utf-8")
    assert page == render(
        {words: load(folder / f"{name}.json") for name, words in COMPARED.items()}
    )
    assert set(NAMES) == {path.stem for path in folder.glob("*.json")}


@pytest.mark.quality
def test_a_kept_study_comes_out_again(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that trains fastest, from its seed: every bound, and who is exposed, to the digit.

    The commitment is salted anew.  Late digits of linear algebra are the machine's: curves move
    with them, and so do the splits of the trees that the quantile attack grows, and its bound.
    """
    monkeypatch.setattr(membership_runs, "KEPT", tmp_path)
    kept = load(checkout / "reports" / "membership" / "digits_logistic.json")["predicate"]
    again = statement(membership_runs.digits_logistic())["predicate"]
    for one in (kept, again):
        del one["issued"], one["study"]["commitment"]
        one["lower_bounds"] = [r for r in one["lower_bounds"] if r["attack"] != "quantile"]
    first, second = kept.pop("estimates"), again.pop("estimates")
    assert again == kept
    for old, new in zip(first, second, strict=True):
        assert old["attack"] == new["attack"]
        numbers = [[*map(float, row["auc"]), float(row["advantage"][0])] for row in (old, new)]
        assert numbers[0] == pytest.approx(numbers[1], abs=2e-3), old["attack"]
