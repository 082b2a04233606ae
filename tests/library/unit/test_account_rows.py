"""The page's table of rows is what the command writes, and a run goes on where it was stopped."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

from benchmarks import account_grid, account_rows
from dpaudit.accountant.account import Account
from dpaudit.check.profile.conversions import confirm_conversion
from dpaudit.exact import decimal_upper
from dpaudit.families.adaptive import Filter
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.correlated import CorrelatedGaussian
from dpaudit.families.discrete import DiscreteGaussian
from dpaudit.families.opaque import ZCDP, PureDP
from dpaudit.families.sampling import PoissonSampled
from dpaudit.nodes import Node
from dpaudit.nodes.registry import load
from dpaudit.scope import central


def test_rows_that_the_log_holds_are_not_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, str]] = []

    def alone(place: int, of: str) -> dict[str, object]:
        asked.append((place, of))
        return {"answer": "[1, 1]", "seconds": 0.1, "megabytes": 1}

    monkeypatch.setattr(account_rows, "alone", alone)
    log, name = tmp_path / "rows.jsonl", account_rows.ROWS[0].name
    log.write_text(json.dumps({"name": name, "ours": {"answer": "[2, 2]"}}) + "\n" + '{"na')
    account_rows.measure(log, "discrete")
    named = [place for place, row in enumerate(account_rows.ROWS) if "discrete" in row.name]
    assert asked == [(place, "ours") for place in named[1:]]
    shown = account_rows.table(log)
    assert shown.count("\n") == 1 + len(named)
    assert f"| {name} | {account_rows.ROWS[0].then} | [2, 2] |" in shown


def test_only_what_is_between_the_marks_is_replaced() -> None:
    page = account_rows.PAGE.read_text()
    for name in ("rows", "wide", "grid", "trees"):
        once = account_rows.written(page, name, "new")
        assert "new" in once
        assert account_rows.written(once, name, "newer").replace("newer", "new") == once
        start = f"<!-- {name}:"
        assert once.split(start)[0] == page.split(start)[0]


def test_an_upper_end_that_falls_with_more_steps_is_seen() -> None:
    def row(steps: int, delta: str, upper: float) -> dict[str, object]:
        return {
            "setting": ["1", "0.1", steps, delta],
            "ends": [upper * 0.9999, upper],
            "said": [],
            "theirs": None,
        }

    rows = [row(10, "1e-5", 1.0), row(100, "1e-5", 2.0), row(100, "1e-8", 3.0)]
    assert account_grid.falling(rows) == []
    assert len(account_grid.falling([*rows, row(1000, "1e-8", 2.5)])) == 1
    assert "0 wide" in account_grid.summary(rows)


def test_every_row_asks_something_of_its_own() -> None:
    names = [row.name for row in account_rows.ROWS]
    assert len(set(names)) == len(names)
    bound = next(row for row in account_rows.ROWS if row.name.startswith("filter of Gauss")).ours()
    assert 0 < bound.lower <= bound.upper


CONFIRMED: list[Node] = [
    Filter.of(Gaussian("q", 1), ZCDP("0.5")),
    Filter.of(Laplace("q", 1), PureDP(2)),
    DiscreteGaussian("x", 100, 400),
    PoissonSampled(DiscreteGaussian("x", 1, 40), Fraction(1, 1000)),
    CorrelatedGaussian("sums", 4, 256, "tree_honaker"),
]


@pytest.mark.parametrize("node", CONFIRMED, ids=lambda node: node.name)
def test_both_mended_ends_are_confirmed_by_the_checker(node: Node) -> None:
    """And neither of them when it is moved inwards by a ten-millionth."""
    load("theorem")
    delta, opened = Fraction(1, 10**5), Account(node, central("add_remove"))
    step, losses = opened.converted("profile", delta), opened.step("profile").value
    assert step.lower is not None
    text = decimal_upper(step.value[0])
    found = confirm_conversion(losses, delta, text, step.witness)
    assert found is not None
    assert (found.reached, found.doubt, found.reached_doubted) == (step.lower, None, False)
    lowered = decimal_upper(step.lower * Fraction(9_999_999, 10**7))
    row = {**step.witness["upper"][0], "value": lowered, "epsilon": lowered}
    witness = {**step.witness, "upper": [row] * len(step.witness["upper"])}
    assert confirm_conversion(losses, delta, lowered, witness) is None


def test_what_is_wide_stands_beside_its_reason(tmp_path: Path) -> None:
    row = next(row for row in account_rows.ROWS if row.why)
    log = tmp_path / "rows.jsonl"
    log.write_text(json.dumps({"name": row.name, "ours": {"answer": "[0, 9]"}}) + "\n")
    assert account_rows.wide(log).splitlines()[2:] == [f"| {row.name} | [0, 9] | {row.why} |"]


@pytest.mark.parametrize(
    ("answers", "seconds"),
    [((2.0, 1.1, 0.9), 3), ((0.9,), 1), ((2.0, None), None), ((2.0, 2.0, 2.0, 2.0), None)],
)
def test_a_peer_is_timed_where_it_is_as_tight(
    answers: tuple[float | None, ...], seconds: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the first finer grid that is, for its last answer alone; never where it gives up."""
    told = iter(enumerate(answers, start=1))
    monkeypatch.setattr(account_grid, "timed", lambda *_: (lambda k, a: (a, k))(*next(told)))
    assert account_grid.as_tight(("1", "0.1", 10, "1e-5"), 1.0) == seconds
