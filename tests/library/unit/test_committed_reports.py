"""The committed reports are of the files, declarations, claims and fields that are committed."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpaudit.check.file import load, validate
from dpaudit.cli.gate import changes
from dpaudit.project.project import load as load_project
from dpaudit.report import render_html, render_index, summary_rows, words
from dpaudit.report.numbers import lower
from dpaudit.storage.fields import read_fields

REMEDY = "stale: make certify"


@pytest.mark.long("each committed certificate and page")
@pytest.mark.usefixtures("unserved")
def test_no_committed_report_is_stale(checkout: Path) -> None:
    """Each certificate, and its page; `make quality` makes them again byte for byte."""
    project = load_project(checkout)
    fields = read_fields(checkout, project.mechanisms)
    found = sorted((checkout / "reports").glob("*.json"))
    assert len(found) >= 8
    certificates = {path: load(path) for path in found}
    index = render_index({f"{path.stem}.html": one for path, one in certificates.items()})
    assert (checkout / "reports" / "index.html").read_text("utf-8") == index, f"index {REMEDY}"
    for path, certificate in certificates.items():
        validate(certificate)
        predicate = certificate["predicate"]
        mechanism = project.mechanisms[predicate["mechanism"]["name"]]
        assert list(changes(project, mechanism, predicate, fields)) == [], f"{path.name} {REMEDY}"
        page = path.with_suffix(".html").read_text("utf-8")
        assert page == render_html(certificate), f"{path.name} {REMEDY}"


def rows_of(checkout: Path, name: str) -> list[str]:
    """A certificate's claims as the README's table has them: the program's attack and others'."""
    certificate = load(checkout / "reports" / f"{name}.json")
    audits = certificate["predicate"]["audits"]
    found = []
    for row, claim in zip(
        summary_rows([certificate]), certificate["predicate"]["claims"], strict=True
    ):
        others = [
            (bound, key)
            for audit in audits
            if audit["about"] == "stand_in"
            for bound in audit["lower_bounds"]
            if (key := words.comparable(claim["stated"], bound))
        ]
        letter = {"epsilon": "ε", "mu": "μ"}
        other = "".join(f"{letter[key]} ≥ {lower(bound[key], 4)}" for bound, key in others[:1])
        cells = [row.claim, row.accounted, row.attacked, row.likely, other, row.verdict.lower()]
        found.append(" | ".join([f"| {name}", *cells]).replace("\u00a0", " ") + " |")
    return found


def test_the_readme_shows_what_the_certificate_says(checkout: Path) -> None:
    readme = (checkout / "README.md").read_text("utf-8")
    for line in rows_of(checkout, "diff2_gd"):
        assert line in readme, f"README.md: the row is now {line}"
