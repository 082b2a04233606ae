"""The commands about declarations alone: rules, calibrate, corpus, score."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import sympy
from click.testing import Result

import tools.corpus.declarations
from dpaudit.crosscheck.interchange.files import save_declaration
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Repeat
from tests.library.cli.conftest import Invoke
from tools.corpus.declarations import Question
from tools.corpus.score import ACCOUNTANTS

z = sympy.Symbol("z", positive=True)
QUESTIONS = (
    Question("laplace", Repeat(Laplace("noise", 10), 100), "add_remove", "0"),
    Question("gaussian", Gaussian("noise", 1), "replace_one", "0.00001"),
)


def document(result: Result) -> Any:
    return json.loads(result.stdout)


def test_rules_names_a_source_or_a_reason_in_every_cell(tools: Invoke) -> None:
    rows = document(tools("rules", "--json"))
    assert all(bool(row["source"]) != bool(row["reason"]) for row in rows)
    assert {"pure", "approx", "zcdp", "rdp", "gdp", "profile"} == {row["calculus"] for row in rows}


def test_the_page_of_rules_is_the_committed_one(tools: Invoke, checkout: Path) -> None:
    page = (checkout / "docs" / "rules.md").read_text("utf-8")
    assert tools("rules", "--markdown").stdout == page


def test_calibrate_answers_with_the_value_and_its_derivation(
    dpaudit: Invoke, tmp_path: Path
) -> None:
    path = tmp_path / "node.json"
    save_declaration(Repeat(Gaussian("noise", z), 16), path)
    asked = ("account", path, "--set", "adjacency=add_remove", "--budget", "mu=0.5")
    found = document(dpaudit(*asked, "--json"))
    assert (found["symbol"], found["value"], found["check"]) == ("z", "8", "proved")
    assert "z = 8\n" in dpaudit(*asked).stdout


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        ("", "expected EPSILON or EPSILON,DELTA"),
        ("mu=1 rho=1", "expected EPSILON"),
        ("mu=1 mu=1", "expected EPSILON"),
        ("1,1e-5,3", "expected EPSILON"),
        ("mu=1 delta=0.1", "expected EPSILON"),
        ("mu=one", "expected one finite number"),
        ("rho=-1", "rho"),
        ("epsilon=1 delta=2", "delta"),
    ],
)
def test_a_guarantee_that_is_none_is_refused(
    budget: str, words: str, dpaudit: Invoke, tmp_path: Path
) -> None:
    path = tmp_path / "node.json"
    save_declaration(Gaussian("noise", z), path)
    result = dpaudit("account", path, "--set", "adjacency=add_remove", "--budget", budget, code=2)
    assert words in result.stderr


@pytest.mark.quality
def test_the_corpus_is_written_and_scored(
    tools: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus_declarations, "questions", lambda: iter(QUESTIONS))
    monkeypatch.setattr("tools.corpus.questions", lambda: iter(QUESTIONS))
    two = {name: ACCOUNTANTS[name] for name in ("dpaudit", "dp-accounting rdp, as it is")}
    monkeypatch.setattr("tools.corpus.score.ACCOUNTANTS", two)  # each gets a process of its own
    path = tmp_path / "corpus.jsonl"
    result = tools("corpus", "--out", path, "--json")
    assert document(result)["rows"] == len(QUESTIONS)
    assert "corpus: 2/2" in result.stderr
    scores = {row["accountant"]: row for row in document(tools("score", path, "--json"))}
    assert scores["dpaudit"]["wrong"] == 0
    assert scores["dp-accounting rdp, as it is"]["infinite"] == 1


def test_a_corpus_that_is_none_is_refused(tools: Invoke, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text("{}\n")
    assert "corpus line 1" in tools("score", tmp_path / "rows.jsonl", code=2).stderr
    assert "give a corpus file" in tools("score", tmp_path / "none.jsonl", code=2).stderr


corpus_declarations = tools.corpus.declarations
