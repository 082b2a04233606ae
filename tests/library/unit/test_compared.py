"""Two certificates compared: each change is named once, in the part that it belongs to."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dpaudit.check.file import schema
from dpaudit.cli.main import main
from dpaudit.report import compared
from dpaudit.report.compared import changes

REPORTS = Path(__file__).parents[3] / "reports"
REPORT = REPORTS / "diff2_gd.json"


@pytest.fixture(scope="module")
def certificate() -> Any:
    return json.loads(REPORT.read_text("utf-8"))


def put(*path: Any) -> Callable[[Any], None]:
    *places, last, value = path

    def change(predicate: Any) -> None:
        for place in places:
            predicate = predicate[place]
        predicate[last] = value

    return change


CHANGES = {
    "claim": put("claims", 0, "verdict", "another"),
    "noise": put("mechanism", "declaration_text", "Gaussian"),
    "data": put("scope", "title", "other data"),
    "program": put("mechanism", "implementation", 0, "digest", "sha256", "0"),
    "attack": put("audits", 0, "trials", 7),
    "fields": put("fields", "purpose", ["another"]),
    "checker": put("environment", "dpaudit", "9.9"),
    "issue": put("reproduce", "root_seed", "0"),
}


def test_a_certificate_is_as_itself(certificate: Any) -> None:
    assert changes(certificate, copy.deepcopy(certificate)) == []


@pytest.mark.parametrize("part", compared.ORDER)
def test_a_change_is_named_in_its_part(part: str, certificate: Any) -> None:
    other = copy.deepcopy(certificate)
    CHANGES[part](other["predicate"])
    (found,) = changes(certificate, other)
    assert found.part == part
    assert found.before != found.after


def test_rows_are_told_apart_by_name_and_not_by_place(certificate: Any) -> None:
    other = copy.deepcopy(certificate)
    gone = other["predicate"]["mechanism"]["implementation"].pop(0)
    found = changes(certificate, other)
    place = f"mechanism.implementation.{gone['name']}."
    assert {one.place for one in found} == {f"{place}digest.sha256", f"{place}name"}
    assert {one.kind for one in found} == {"removed"}
    assert {one.kind for one in changes(other, certificate)} == {"added"}


def test_long_values_are_shown_where_they_differ() -> None:
    old, new = ("x" * 500 + digit + "y" * 500 for digit in "12")
    text = str(compared.Change("noise", "a", old, new, "changed"))
    assert "x1y" in text
    assert "x2y" in text
    assert len(text) < 300


def test_every_place_of_the_schema_belongs_to_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    predicate = schema()["properties"]["predicate"]
    named = set(schema()["$defs"].get("predicate", predicate)["properties"])
    assert named == {place.partition(".")[0] for place in compared.PARTS}


COMMAND = ("report", "--format", "changes")


@pytest.mark.quality
def test_the_command_says_what_differs_and_by_its_status_whether(verified_here: None) -> None:
    same = CliRunner().invoke(main, [*COMMAND, str(REPORT), str(REPORT)])
    assert (same.exit_code, same.output) == (0, "nothing changed\n")
    other = REPORTS / "diff2_bvr_local_sgd.json"
    found = CliRunner().invoke(main, [*COMMAND, str(REPORT), str(other)])
    assert found.exit_code == 1
    assert "noise:\n" in found.output
    assert "more, which --json lists" in found.output
    refused = CliRunner().invoke(main, [*COMMAND, str(REPORT), str(REPORT.with_suffix(".html"))])
    assert refused.exit_code == 10
    assert "dpaudit: " in refused.output
