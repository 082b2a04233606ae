"""dpaudit.toml: what it states, what overrides what, and what is refused by file and key."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpaudit.check.file import schema
from dpaudit.errors import InvalidParameter
from dpaudit.storage.fields import FIELDS, missing, read_fields


def written(folder: Path, text: str) -> Path:
    (folder / "dpaudit.toml").write_text(text, "utf-8")
    return folder


def test_a_mechanism_overrides_its_project(tmp_path: Path) -> None:
    (tmp_path / "sbom.json").write_text("{}")
    root = written(
        tmp_path,
        '[fields]\npurpose = "health"\ncontroller = "Clinic"\nreview_date = 2027-01-31\n'
        'sbom = "sbom.json"\n[mechanisms.count]\npurpose = ["first", "second"]\n',
    )
    stated = read_fields(root, ["count", "mean"])
    assert stated.of("mean")["purpose"] == ["health"]
    assert stated.of("count")["purpose"] == ["first", "second"]
    assert stated.of("count")["controller"] == ["Clinic"]
    assert stated.of("mean")["review_date"] == ["2027-01-31"]
    assert stated.of("mean")["sbom"][0].startswith("sbom.json, SHA-256 44136fa355")
    assert "legal_basis" in missing(stated.of("count"))
    assert "purpose" not in missing(stated.of("count"))


def test_a_project_without_the_file_states_nothing(tmp_path: Path) -> None:
    assert read_fields(tmp_path).of("count") == {}
    assert len(missing({})) > 10


def test_the_schema_knows_every_field() -> None:
    assert tuple(schema()["$defs"]["fields"]["properties"]) == FIELDS


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[fields]\npurpos = 'x'\n", "did you mean 'purpose'"),
        ("[field]\n", "did you mean 'fields'"),
        ("[fields]\npurpose = 3\n", r"\[fields\] purpose = 3: expected a text"),
        ("[fields]\npurpose = ''\n", "expected a text"),
        ("[fields]\nreview_date = '31.1.2027'\n", "expected one YYYY-MM-DD"),
        ("[fields]\nrelease_type = 'often'\n", "'one release' or 'many releases'"),
        ("[fields]\nsbom = 'none.json'\n", "No such file"),
        ("[fields\n", "not TOML"),
        ("fields = 3\n", "expected a table"),
        ("[mechanisms.cuont]\n", "did you mean 'count'"),
        ('[budgets."a"]\nepsilon = 0.1\n', "write it as a text"),
        ('[budgets."a"]\ndelta = "0.1"\n', "expected epsilon, epsilon with delta, or rho"),
        ('[budgets."a"]\nepsilon = "-1"\n', "expected a number"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message) as caught:
        read_fields(written(tmp_path, text), ["count"])
    assert "dpaudit.toml" in str(caught.value)
