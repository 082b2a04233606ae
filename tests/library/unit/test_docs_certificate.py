"""docs/certificate.md holds the whole format: three certificates are made from its text alone."""

from __future__ import annotations

import copy
import hashlib
import inspect
import json
import re
from pathlib import Path
from typing import Any

import pytest

from dpaudit.check import assumptions, conformance, laws
from dpaudit.check.file import schema
from dpaudit.check.profile import fourier
from dpaudit.check.rows import verify_file
from dpaudit.check.theorem import THEOREMS
from dpaudit.nodes.registry import load

PAGE = (Path(__file__).parents[3] / "docs" / "certificate.md").read_text("utf-8")
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
    assert row["verdict"] == "unconfirmed", "what is written by hand was never run"


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
    words.add(assumptions.READY_MADE)
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
    names = [*laws.LAWS, *laws.BY_PARAMETER, *conformance.EXAMINED]
    names += [conformance.EXECUTED, conformance.SENSITIVITIES, *conformance.KINDS]
    assert [name for name in names if name not in " ".join(PAGE.split())] == []


# A part of a row of the table of errors of Fourier sums, and the checker's line that charges it.
CHARGED = {
    "u (16 + 8 t\\|loss\\| + 4 \\|shift\\|), 8000 u more": (
        "UNIT * (16 + 8 * tilt * reach + 4 * abs(shift) + (8000 if extreme else 0))"
    ),
    "u (8192 + 8 \\|s\\| \\|loss\\|)": "UNIT * (8192 + 8 * abs(extra) * reach)",
    "2 exp(-38)": "2 * math.exp(-FOLDED)",
    "2e-22/T of w and 1e-300 a factor, T times": "dropped=2 * cut + UNDERFLOW",
    "come to 1e-11/(K t (1 + t) h)": "left_out <= LEFT_OUT / half * _size_at_zero(h, tilt)",
    "direct 1.5 u (256 + rows + 32)": "UNIT * (BLOCK + rows + 32) * 1.5",
    "FFT u (32 log2 N + folds) times": "(FFT_FACTOR * math.log2(period) + folds) * UNIT * norm",
    "off/\\|phi\\| + u (8 + 8 \\|log\\| + 8 \\|angle\\|)": (
        "off / size + UNIT * (8 + 8 * np.abs(logs) + 8 * np.abs(own_angle))"
    ),
    "u (64 + F (8 + 8 F + T \\|log\\|))": (
        "UNIT * (64 + len(tilted) * (8 + len(tilted) * 8 + sizes))"
    ),
    "u (16 + 8 \\|log\\|)), and": "(most + UNIT * (16 + 8 * np.abs(most)))",
    "u (128 + 8 (t+1) h)": "UNIT * (128 + 8 * (tilt + 1) * h) * size",
    "2 (terms + 4) u": "2 * (frequencies + 4) * UNIT",
    "1.01 of these, and 2^-40": "error * 1.01",
}


def test_the_table_of_fourier_errors_is_the_code() -> None:
    """Both ways: each row has its line, and no line of the checker charges what no row has."""
    code = inspect.getsource(fourier)
    numbers = (fourier.FOLDED, fourier.DROPPED, fourier.LEFT_OUT, fourier.BLOCK, fourier.FFT_FACTOR)
    assert numbers == (38, 1e-22, 1e-11, 256, 32)
    for row, line in CHARGED.items():
        assert row in PAGE, row
        assert line in code, line
    body = code.partition("@dataclass")[2]
    known = (*CHARGED.values(), "8 * UNIT * (abs(end) + abs(centre))", "t.nodes.relative + UNIT")
    for line in body.splitlines():
        assert "UNIT" not in line or any(part in line for part in known), line
