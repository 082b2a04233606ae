"""The committed reports are of the files, declarations, claims and fields that are committed."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpaudit.check.file import load, validate
from dpaudit.cli.gate import changes
from dpaudit.project.project import load as load_project
from dpaudit.report import render_html
from dpaudit.storage.fields import read_fields

REMEDY = "stale: make certify"


@pytest.mark.usefixtures("unserved")
def test_no_committed_report_is_stale(checkout: Path) -> None:
    """Each certificate, and its page; `make quality` makes them again byte for byte."""
    project = load_project(checkout)
    fields = read_fields(checkout, project.mechanisms)
    found = sorted((checkout / "reports").glob("*.json"))
    assert len(found) >= 8
    for path in found:
        certificate = load(path)
        validate(certificate)
        predicate = certificate["predicate"]
        mechanism = project.mechanisms[predicate["mechanism"]["name"]]
        assert list(changes(project, mechanism, predicate, fields)) == [], f"{path.name} {REMEDY}"
        page = path.with_suffix(".html").read_text("utf-8")
        assert page == render_html(certificate), f"{path.name} {REMEDY}"
