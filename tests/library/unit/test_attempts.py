"""Attempts to get something false accepted: a probe runs on a tree, and says what it saw."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from benchmarks.trust import __main__ as attempts

pytest.importorskip("sqlalchemy")
PROBES = sorted(attempts.HERE.glob("[0-9][0-9]_*.py"))


def test_every_probe_says_in_a_line_what_it_tries() -> None:
    titles = [ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "" for path in PROBES]
    assert all(titles)
    assert len(set(titles)) == len(titles) > 30


@pytest.mark.quality
def test_a_refund_is_refused_by_the_ledger_of_this_tree() -> None:
    said = attempts.answered(attempts.HERE / "02_ledger_refund.py", attempts.ROOT)
    assert said.startswith("1 taken, then refused"), said


def test_a_probe_that_hangs_and_one_that_fails_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "SECONDS", 0.5)
    hangs, fails = tmp_path / "hangs.py", tmp_path / "fails.py"
    hangs.write_text("def probe():\n    while True:\n        pass\n")
    fails.write_text("def probe():\n    raise ValueError('no such table')\n")
    assert attempts.answered(hangs, tmp_path) == "no answer in 0.5 s"
    monkeypatch.setattr(attempts, "SECONDS", 20)
    assert attempts.answered(fails, tmp_path) == "ValueError: no such table"
