"""docs/certificate.md holds the whole format: three certificates are made from its text alone."""

from __future__ import annotations

import copy
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from dpaudit.check import assumptions, conformance
from dpaudit.check.file import schema
from dpaudit.check.process import verify_file
from dpaudit.check.theorem import THEOREMS
from dpaudit.nodes.registry import load

PAGE = (Path(__file__).parents[2] / "docs" / "certificate.md").read_text("utf-8")
BLOCKS = dict(re.findall(r"```json (\w+)\n(.*?)```", PAGE, re.S))
Json = dict[str, Any]


def sha256(value: Any) -> str:
    """RFC 8785 of what holds no number but whole ones: sorted keys, no spaces, UTF-8."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def written(name: str) -> Json:
    """A statement, by the page's rules and none of the package's writers."""
    predicate = json.loads(BLOCKS["predicate"])
    for path, value in {} if name == "predicate" else json.loads(BLOCKS[name]).items():
        inside: Any = predicate
        *parents, last = path.split(".")
        for part in parents:
            inside = inside[int(part) if part.isdigit() else part]
        inside[int(last) if last.isdigit() else last] = copy.deepcopy(value)
    while names := re.findall(r'"(@(?!declared)\w+)": ', text := json.dumps(predicate)):
        nodes = predicate["mechanism"]["declaration"]["nodes"]
        known = next(n for n in names if "@" not in json.dumps(nodes[n]))
        predicate = json.loads(text.replace(f'"{known}"', f'"{sha256(nodes[known])}"'))
    mechanism, scope = predicate["mechanism"], dict(predicate["scope"])
    del scope["title"], scope["controller"]
    root = mechanism["declaration"]["root"]
    mechanism["digest"] = sha256({"declaration": root, "scope": scope})
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "predicateType": "https://dpaudit.dev/certificate/v2",
        "subject": [{"name": "predicate", "digest": {"sha256": sha256(predicate)}}],
        "predicate": predicate,
    }


@pytest.mark.parametrize("name", ["predicate", "laplace", "composed"])
def test_a_certificate_made_from_the_page_verifies(name: str, tmp_path: Path) -> None:
    path = tmp_path / "case.json"
    path.write_text(json.dumps(written(name)))
    row = verify_file(path)
    assert row["verified"], row["reason"]
    assert row["verdict"] == "certified_under_assumptions"


def test_its_last_digit_lowered_it_does_not(tmp_path: Path) -> None:
    path = tmp_path / "case.json"
    for name, old, new in (
        ("predicate", '"0.5"', '"0.4"'),
        ("laplace", '"0.25"', '"0.24"'),
        ("composed", '"2.94322523981"', '"2.94322523980"'),
    ):
        statement = json.loads(json.dumps(written(name)).replace(old, new))
        statement["subject"][0]["digest"]["sha256"] = sha256(statement["predicate"])
        path.write_text(json.dumps(statement))
        assert not verify_file(path)["verified"]


def fields(form: Any) -> set[str]:
    found: set[str] = set()
    if isinstance(form, dict):
        found.update(form.get("properties", {}) if isinstance(form.get("properties"), dict) else ())
        for inside in form.values():
            found |= fields(inside)
    elif isinstance(form, list):
        for inside in form:
            found |= fields(inside)
    return found


def test_the_page_names_every_field_and_every_theorem() -> None:
    missing = [name for name in fields(schema()) if name not in PAGE]
    assert not missing
    load("theorem")
    for (_, node), theorem in THEOREMS.items():
        assert re.search(rf"`{theorem.name}`", PAGE), (node, theorem.name)
        assert node in PAGE, node


def test_format_1_is_refused_with_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "case.json"
    earlier = written("predicate") | {"predicateType": "https://dpaudit.dev/certificate/v1"}
    path.write_text(json.dumps(earlier))
    assert "certify again" in verify_file(path)["reason"]


def test_the_page_has_the_words_of_the_standing_assumptions() -> None:
    words = {assumptions.BOUNDED, assumptions.IMPLEMENTED, assumptions.UNPREDICTED}
    for texts in (
        assumptions.BOUNDED_EVIDENCE,
        assumptions.NOISE_EVIDENCE,
        assumptions.BITS_EVIDENCE,
    ):
        words |= set(texts.values())
    for one in (assumptions.REAL_NUMBERS, assumptions.WHOLE_NUMBERS):
        words |= {one.statement, one.evidence}
    assert [text for text in words if text not in PAGE] == []


def test_the_page_has_every_law_and_every_check() -> None:
    names = [*conformance.LAWS, *conformance.BY_PARAMETER, *conformance.EXAMINED]
    names += [conformance.EXECUTED, conformance.SENSITIVITIES, *conformance.KINDS]
    assert [name for name in names if name not in " ".join(PAGE.split())] == []
