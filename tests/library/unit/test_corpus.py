"""The corpus: its size and form, its rows read back, and the scores of accountants on it."""

from __future__ import annotations

import math
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Repeat
from dpaudit.nodes import Node
from dpaudit.scope import Scope, central
from tools.corpus import answer, node_of, read, shipped, write
from tools.corpus.declarations import Question, questions
from tools.corpus.patience import GaveUp, patient
from tools.corpus.score import ACCOUNTANTS, score

ROWS = 300
SMALL = (
    Question("laplace", Repeat(Laplace("noise", 10), 100), "add_remove", "0"),
    Question("gaussian", Gaussian("noise", 1), "add_remove", "0.00001"),
)


def test_the_shipped_corpus_has_the_rows_of_the_questions() -> None:
    rows, asked = shipped(), list(questions())
    assert len(rows) == len(asked) >= ROWS
    for row, question in zip(rows, asked, strict=True):
        assert node_of(row) == question.node
        assert (row["adjacency"], row["delta"]) == (question.adjacency, question.delta)


def test_every_shipped_interval_is_one() -> None:
    for row in shipped():
        lower, upper = float(row["epsilon_lower"]), float(row["epsilon_upper"])
        assert 0 <= lower <= upper
        assert math.isfinite(upper) or row["delta"] == "0"


def test_rows_are_answered_and_written_and_read(tmp_path: Path) -> None:
    rows = [answer(question) for question in SMALL]
    assert (rows[0]["epsilon_lower"], rows[0]["epsilon_upper"]) == ("10", "10")
    lower, upper = (Fraction(rows[1][f"epsilon_{end}"]) for end in ("lower", "upper"))
    assert Fraction("4.377178095") < lower <= upper < Fraction("4.377178096")
    write(rows, tmp_path / "corpus.jsonl")
    assert read((tmp_path / "corpus.jsonl").read_text()) == rows


@pytest.mark.parametrize("text", ["{", "[]", "1", '{"delta": "0"}'])
def test_what_is_no_row_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameter, match="corpus line 1"):
        read(text)


def test_a_wrong_a_loose_and_a_refusing_accountant_are_told_apart() -> None:
    rows = [answer(question) for question in SMALL]

    def optimist(node: Node, scope: Scope, delta: Fraction) -> float:
        return 1.0

    def pessimist(node: Node, scope: Scope, delta: Fraction) -> float:
        return math.inf if delta == 0 else 2 * 4.377178

    def refuser(node: Node, scope: Scope, delta: Fraction) -> float:
        raise Unsupported("no")

    wrong, loose, none = (
        score(name, asked, rows)
        for name, asked in (("o", optimist), ("p", pessimist), ("r", refuser))
    )
    assert (wrong.answered, wrong.wrong) == (2, 2)
    assert (loose.wrong, loose.infinite) == (0, 1)
    assert loose.excess == pytest.approx(2, rel=1e-3)
    assert (none.answered, none.refused) == (0, 2)
    assert none.table()["excess"] is None


def sleeper(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def hoarder(gigabytes: int) -> int:
    return len(bytearray(gigabytes * 2**30))


@pytest.mark.quality
def test_a_child_that_is_too_slow_or_too_large_is_given_up() -> None:
    with patient(sleeper, seconds=20) as asked:
        assert asked(0.0) == 0.0
    with patient(sleeper, seconds=1) as asked, pytest.raises(GaveUp, match="no answer in 1 s"):
        asked(600.0)
    with patient(hoarder, memory=2**30) as asked, pytest.raises(GaveUp, match="within 1 GiB"):
        asked(8)


def test_rows_given_up_are_counted() -> None:
    def endless(node: Node, scope: Scope, delta: Fraction) -> float:
        raise GaveUp("no answer")

    found = score("e", endless, [answer(question) for question in SMALL])
    assert (found.answered, found.refused, found.gave_up) == (0, 2, 2)


def test_our_own_bounds_are_not_wrong_on_the_closed_forms() -> None:
    found = score("dpaudit", ACCOUNTANTS["dpaudit"], [answer(question) for question in SMALL])
    assert (found.answered, found.wrong, found.infinite) == (2, 0, 0)
    assert found.excess == pytest.approx(1, abs=1e-6)


def test_a_rows_scope_is_its_adjacency() -> None:
    for adjacency in ("add_remove", "replace_one", "zero_out"):
        scope: Any = central(adjacency)
        assert str(scope.adjacency) == adjacency
