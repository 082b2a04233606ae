"""A session of an analyst: one budget, charged first, then queries, and one certificate."""

from __future__ import annotations

import contextlib
import json
import math
import time
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import dpaudit as dp
from dpaudit.accountant.claim import Claim
from dpaudit.certificate.publish import confirmed
from dpaudit.check.file import read
from dpaudit.errors import BudgetExceeded, InvalidParameter, ReleaseInterrupted
from dpaudit.families.adaptive import Filter
from dpaudit.ledger import LedgerRefused, open_ledger, terms_of
from dpaudit.releases import session as sessions
from dpaudit.releases.publish import NO_LEDGER
from dpaudit.scope import Scope
from dpaudit.tabular import Category, DataRefused, Number, Schema

pa = pytest.importorskip("pyarrow")
pytest.importorskip("sqlalchemy")

SCHEMA = Schema(
    "people",
    {"age": Number(0, 100), "sex": Category(("f", "m"))},
    unit="person",
    entity="person",
    rows=2,
)
SCOPE = Scope("add_remove", "user", "central", "transcript")


def people(size: int = 10_000, sex: str = "fm") -> Any:
    return pa.table(
        {
            "person": list(range(size)),
            "age": [20 + i % 60 for i in range(size)],
            "sex": [sex[i % 2] for i in range(size)],
        }
    )


@pytest.fixture
def ledger(tmp_path: Path) -> Any:
    made = open_ledger(tmp_path / "ledger.sqlite")
    made.create("people", terms_of("person", SCOPE, dp.ZCDP("0.5")))
    return made


def opened(**more: Any) -> Any:
    asked = {"title": "t", "adjacency": "add_remove", "budget": "0.2", "ledger": NO_LEDGER}
    return dp.open(people(), SCHEMA, **asked | {"trials": 0} | more)


def test_queries_are_answered_until_the_budget_is_spent() -> None:
    """Each answer is within five margins of the truth (false alarm: less than 10^-12)."""
    with opened() as table:
        by_sex = table.count(by="sex", rho="0.1")
        mean = table.mean("age", rho="0.05")
        assert table.left == Fraction(1, 20)
        with pytest.raises(BudgetExceeded, match=r"rho = 0.1 was asked, and 0.05 is left"):
            table.sum("age", rho="0.1")
        (total,) = table.sum("age", rho="0.05")
        with pytest.raises(BudgetExceeded):
            table.count()
    for row, truth in zip([*by_sex, *mean, total], [5000, 5000, 49.5, 494_800], strict=True):
        assert abs(row.value - Fraction(truth)) < 5 * row.error + 1
    with pytest.raises(dp.InvalidParameter, match="session is closed"):
        table.count()


def test_a_default_query_spends_a_tenth() -> None:
    with opened() as table:
        assert len(table.quantile("age", at="1/2")) == 1
        assert table.left == Fraction(9, 50)
        assert str(table.count(by="sex")).startswith("f: count ")


def test_the_whole_budget_is_charged_before_data_are_touched(ledger: Any, tmp_path: Path) -> None:
    with opened(ledger=ledger) as table:
        assert ledger.state("people").spent[0] == Fraction(1, 5)
        table.count()
        assert ledger.state("people").unfinished == ("t",)
    assert ledger.verify("people").unfinished == ()
    with pytest.raises(LedgerRefused, match="was released"):
        opened(ledger=ledger)
    opened(ledger=tmp_path / "ledger.sqlite", title="second").close()
    with pytest.raises(BudgetExceeded, match=r"0.2 of rho does not fit"):
        opened(ledger=ledger, title="third")


def test_bad_queries_spend_nothing() -> None:
    with opened() as table:
        for query, settings, said in (
            ("count", {"by": "town"}, "no column 'town'"),
            ("sum", {"column": "sex"}, "holds no numbers"),
            ("median", {}, "expected one of count"),
            ("groups", {"column": "sex", "delta": "1e-7"}, "keys of 'sex' are public"),
            ("count", {"name": "a/b"}, "a text without '/'"),
            ("count", {"rho": "0"}, "rho = 0 was asked"),
        ):
            with pytest.raises(dp.DpauditError, match=said):
                table.ask(query, **settings)
        assert table.left == Fraction(1, 5)


def test_a_query_that_breaks_is_spent_and_tells_nothing(monkeypatch) -> None:
    def broken(*_: Any) -> Any:
        raise ValueError("Ada is 36 years old")

    with opened() as table:
        table.count(name="first")
        with monkeypatch.context() as patched:
            patched.setattr(sessions, "exact_values", broken)
            with pytest.raises(ReleaseInterrupted, match=r"\(ValueError\): its rho") as caught:
                table.count(name="second")
        assert "Ada" not in str(caught.value)
        assert table.left == Fraction(4, 25)
        assert [item.name for item in table.plan().release.items] == ["first"]
        with pytest.raises(dp.InvalidParameter, match="an earlier one has this name"):
            table.count(name="second")


def test_answers_are_frames_and_figures() -> None:
    pytest.importorskip("matplotlib")
    with opened() as table:
        answer = table.count(by="sex")
        chosen = table.quantile("age", at="1/2")
    for backend in ("pandas", "polars", "pyarrow"):
        pytest.importorskip(backend)
        frame = answer.frame(backend)
        assert list(getattr(frame, "column_names", frame.columns)) == [
            *("sex", "statistic", "value", "error_95"),
        ]
    assert math.isnan(chosen.frame("polars")["error_95"][0])
    labels = [label.get_text() for label in answer.plot().axes[0].get_xticklabels()]
    assert labels == ["f", "m"]


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"title": ""}, dp.InvalidParameter, "give title= and adjacency="),
        ({"ledger": None}, dp.InvalidParameter, "give a ledger, or NO_LEDGER"),
        ({"budget": dp.PureDP(1)}, dp.InvalidParameter, "a session adds up rho"),
        ({"budget": 0}, dp.InvalidParameter, "expected a rho above 0"),
        ({"adjacency": "both"}, dp.InvalidParameter, "adjacency"),
        ({"trials": 99}, dp.InvalidParameter, "a whole number of at least 100"),
    ],
)
def test_sessions_that_cannot_be_opened_say_why(change: Any, error: Any, said: str) -> None:
    with pytest.raises(error, match=said):
        opened(**change)


def test_data_that_do_not_fit_are_refused_before_the_charge(ledger: Any) -> None:
    asked = {"title": "t", "adjacency": "add_remove", "budget": "0.2", "ledger": ledger}
    with pytest.raises(DataRefused, match="a key that is not in the schema"):
        dp.open(people(sex="fx"), SCHEMA, **asked)
    assert ledger.state("people").count == 0


def test_a_full_account_is_refused_before_data_are_read(ledger: Any) -> None:
    asked = {"title": "t", "adjacency": "add_remove", "budget": 1, "ledger": ledger}
    with pytest.raises(BudgetExceeded):
        dp.open(people(sex="fx"), SCHEMA, **asked)


def test_queries_of_several_threads_share_the_budget(monkeypatch) -> None:
    """All threads plan at once where no lock keeps them apart; then each would be admitted."""
    plan = sessions.Release.plan

    def slow(release: Any) -> Any:
        time.sleep(0.1)
        return plan(release)

    monkeypatch.setattr(sessions.Release, "plan", slow)

    def asked(_: int) -> bool:
        try:
            return bool(table.count(rho="0.15"))
        except BudgetExceeded:
            return False

    def admitted() -> int:
        with ThreadPoolExecutor(3) as threads:
            return sum(threads.map(asked, range(3)))

    table = opened()
    assert admitted() == 1
    assert table.left == Fraction(1, 20)
    table = opened()
    table._lock = contextlib.nullcontext()
    monkeypatch.setattr(sessions, "refuse_excess", lambda node: None)
    # Names of queries may meet without a lock; what was planned shows who was admitted.
    with contextlib.suppress(dp.DpauditError):
        admitted()
    assert table.left < 0


def test_a_copy_in_another_process_answers_nothing() -> None:
    table = opened()
    table._process += 1
    with pytest.raises(dp.InvalidParameter, match="open in another process"):
        table.count()
    assert table.close() is None


def test_a_session_takes_no_published_release_s_place(tmp_path: Path) -> None:
    with opened(out=tmp_path) as table:
        table.count()
    before = (tmp_path / "release.json").read_bytes()
    with pytest.raises(LedgerRefused, match="choose another folder"):
        opened(out=tmp_path)
    table = opened(out=tmp_path / "later")
    table.count()
    table.out = tmp_path  # as if it was published there meanwhile
    with pytest.raises(LedgerRefused, match="choose another folder"):
        table.close()
    assert (tmp_path / "release.json").read_bytes() == before


def test_the_budget_is_proved_of_queries_that_answers_chose_and_no_smaller_number() -> None:
    """Even one query may have been the last by its answer: what it cost is no bound.

    Source: Rogers, Roth, Ullman, Vadhan 2016, on filters and odometers.
    """
    with opened() as table:
        table.count(rho="0.01")
        table.ask("top", column="sex", rho="0.02")
        table.sum("age", noise="laplace", rho="0.03")
        plan = table.plan()
    assert isinstance(plan.declaration, Filter)
    assert plan.claim.check_account(plan.account).outcome.name == "PROVED"
    assert plan.account.step("zcdp").value == Fraction(1, 5)
    assert plan.account.step("zcdp").assumptions() == ()
    smaller = Claim(dp.ZCDP("0.19"), by="what was spent").check_account(plan.account)
    assert smaller.outcome.name != "PROVED"


def test_a_query_that_the_filter_cannot_bear_is_refused_before_it_is_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is left is counted twice: by the rho that was asked, and by the noise's own cost."""
    with opened() as table:
        table.count(rho="0.15")
        monkeypatch.setattr(sessions.Session, "left", Fraction(1))
        with pytest.raises(InvalidParameter, match=r"above the cap 0.2 of its zcdp filter"):
            table.count(rho="0.15", name="again")
        assert len(table.plans) == 1


@pytest.mark.quality
def test_a_choice_of_several_keys_is_certified(tmp_path: Path) -> None:
    schema = Schema("people", {"sex": Category(("f", "m", "x"))})
    asked = {"title": "t", "adjacency": "add_remove", "budget": 1, "ledger": NO_LEDGER}
    with dp.open(people(50), schema, out=tmp_path, trials=200, **asked) as table:
        table.ask("top", column="sex", k=2)
    confirmed(read(tmp_path / "certificate" / "t.json"))


FILE = """
title = "Analyst, March"
adjacency = "add_remove"
ledger = "ledger.sqlite"
budget = { rho = 0.2 }

[table]
name = "people"
unit = "person"
entity = "person"
rows = 2

[table.columns]
age = { kind = "number", lower = 0, upper = 100 }
sex = { kind = "category", keys = ["f", "m"] }
"""


@pytest.mark.quality
def test_a_session_has_one_certificate(ledger: Any, tmp_path: Path) -> None:
    (tmp_path / "session.toml").write_text(FILE)
    with dp.open(people(600), tmp_path / "session.toml", out=tmp_path / "out", trials=400) as table:
        first = table.count(by="sex")
        largest = max(first, key=lambda row: row.value).keys[0][1]
        table.mean("age", where={"sex": largest})
    certificate, _ = confirmed(read(tmp_path / "out" / "certificate" / "analyst_march.json"))
    predicate = certificate["predicate"]
    assert predicate["verdict"]["status"].startswith("certified")
    assert predicate["run"]["ledger"]["cost"] == ["0.2"]
    assert predicate["run"]["published"]["count"] == 3
    released = json.loads((tmp_path / "out" / "release.json").read_text())
    assert [row["item"] for row in released["values"]] == ["1 count", "1 count", "2 mean"]
    assert ledger.verify("people").releases[0].folder == str(tmp_path / "out")


@pytest.fixture
def spending(tmp_path: Path) -> Any:
    """An account that adds epsilons and deltas."""
    made = open_ledger(tmp_path / "ledger.sqlite")
    made.create("people", terms_of("person", SCOPE, dp.ApproxDP(4, "1e-5")))
    return made


def test_an_account_of_epsilon_and_delta_is_charged_at_the_delta_of_the_session(
    spending: Any, tmp_path: Path
) -> None:
    """The charge is the epsilon of the session's rho at that delta; each refusal names the way."""
    for budget in ("0.2", dp.ApproxDP(1, "1e-6")):
        with pytest.raises(dp.DpauditError, match=r"charge_delta="):
            opened(ledger=spending, budget=budget)
    assert spending.state("people").count == 0
    file = tmp_path / "session.toml"
    file.write_text(FILE.replace("\n[table]", "charge_delta = 1e-6\n[table]", 1))
    with dp.open(people(600), file, out=tmp_path / "out", trials=0) as table:
        table.count()
    spent = spending.state("people").spent
    epsilon = dp.Account(dp.ZCDP("0.2"), SCOPE).epsilon(Fraction(1, 10**6))
    assert epsilon.lower <= spent[0] <= epsilon.upper * Fraction(1001, 1000)
    assert spent[1] == Fraction(1, 10**6)


def test_a_delta_that_no_account_adds_is_refused(ledger: Any) -> None:
    with pytest.raises(dp.InvalidParameter, match=r"this account adds rho, and no delta"):
        opened(ledger=ledger, charge_delta="1e-6")
    assert ledger.state("people").count == 0
