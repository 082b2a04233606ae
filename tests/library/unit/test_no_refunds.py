"""Nothing that adds up privacy losses takes one below 0, or what is no number: each by itself."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import sympy

from dpaudit.accountant.filters import charges, odometer, open_filter, open_odometer, opened
from dpaudit.accountant.filters import spending as spent_by_curators
from dpaudit.accountant.filters.charges import Amounts, Charge, read_amounts, refuse_refunds
from dpaudit.accountant.filters.spending import Price, Spending
from dpaudit.certificate import budget
from dpaudit.cli.main import main
from dpaudit.errors import DpauditError, InvalidParameter
from dpaudit.families.adaptive import Filter
from dpaudit.families.additive import Gaussian
from dpaudit.families.individual.kernel import Budgeted
from dpaudit.families.opaque import GDP, ZCDP, ApproxDP, PureDP
from dpaudit.kernels.query import ClippedMean, Records
from dpaudit.ledger import LedgerBroken, book, open_ledger
from dpaudit.ledger import terms as terms_module
from dpaudit.releases import plan
from dpaudit.scope import central, protected
from tests.support.ledger import SCOPE, terms

NO_LOSSES: list[Any] = [Fraction(-1), -1, float("nan"), float("inf"), "1", None, True, sympy.nan]
NEGATIVE = Fraction(-29, 10)
UNDER = central("add_remove")


def forged(*values: object) -> Amounts:
    """Amounts that were never checked."""
    return tuple.__new__(Amounts, values)


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The lowest refusal, that of the type, is switched off."""
    monkeypatch.setattr(Amounts, "__new__", lambda cls, values=(): tuple.__new__(cls, values))
    return monkeypatch


@pytest.mark.parametrize("value", NO_LOSSES)
def test_amounts_are_fractions_of_at_least_0(value: object) -> None:
    with pytest.raises(InvalidParameter, match="privacy loss"):
        Amounts([Fraction(1), value])
    with pytest.raises(InvalidParameter, match="privacy loss"):
        refuse_refunds("here", [Fraction(1)], [value])
    assert Amounts([1, Fraction(1, 2)]) == (1, Fraction(1, 2))


@pytest.mark.parametrize("value", [Fraction(-1), -sympy.sqrt(2), sympy.log(sympy.Rational(1, 2))])
def test_a_charge_below_0_is_refused_before_its_power_hides_the_sign(value: object) -> None:
    with pytest.raises(InvalidParameter, match="privacy loss"):
        Charge([value])


def test_a_charge_that_is_no_number_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="nan"):
        Charge([sympy.nan])


def test_a_record_whose_cost_is_no_number_has_nothing_left() -> None:
    """A NaN would be larger and smaller than nothing, so that it would never be cut again."""
    mean = ClippedMean(lambda rows: rows[None], radius=1.0)
    object.__setattr__(mean, "radius", np.array([np.nan]))  # the query itself refuses it
    first = Budgeted(mean, 1.0)
    later = Budgeted(ClippedMean(lambda rows: rows[None], radius=1.0), 1.0, (first,))
    assert (later.left(Records(np.ones((3, 2)))) == 0).all()


# --- each consumer, with every refusal below it switched off --------------------------------------

COST = (NEGATIVE, Fraction(0))


def _filter(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(opened, "given", lambda asked, size: SimpleNamespace(values=[NEGATIVE]))
    patch.setattr(
        opened, "raised", lambda c, p: SimpleNamespace(rounded=forged(*c.values), assumes=())
    )
    open_filter(PureDP(3), SCOPE).spend(NEGATIVE)


def _filter_admits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(opened, "raised", lambda c, p: SimpleNamespace(rounded=forged(NEGATIVE)))
    open_filter(PureDP(3), SCOPE).admits(1)


def _filter_refunded(patch: pytest.MonkeyPatch) -> None:
    kept = open_filter(PureDP(3), SCOPE)
    object.__setattr__(kept, "spent", forged(NEGATIVE))
    kept.spend(5)


def _odometer(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        odometer, "raised", lambda c, p: SimpleNamespace(rounded=forged(NEGATIVE), assumes=())
    )
    open_odometer("pure", SCOPE).spend(1)


def _odometer_read(patch: pytest.MonkeyPatch) -> None:
    read = replace(open_odometer("pure", SCOPE), count=1)
    object.__setattr__(read, "spent", forged(NEGATIVE))
    assert read.epsilon_upper


def _odometer_bounds(patch: pytest.MonkeyPatch) -> None:
    law = odometer._law("pure")
    below = replace(law[0], upper=lambda spent, delta: NEGATIVE)
    patch.setattr(odometer, "_law", lambda measure: (below, law[1]))
    assert open_odometer("pure", SCOPE).spend(1).epsilon_upper


def _curator(patch: pytest.MonkeyPatch) -> None:
    price = object.__new__(Price)
    object.__setattr__(price, "factor", Fraction(-1))
    object.__setattr__(price, "power", 2)
    patch.setattr(spent_by_curators, "price_of", lambda leaf, node: price)
    Spending(Filter.of(Gaussian("noise", 1), ZCDP(1)), trials=2)


def _curator_charges(patch: pytest.MonkeyPatch) -> None:
    leaf = Gaussian("noise", 1)
    kept = Spending(Filter.of(leaf, ZCDP(1)), trials=2)
    kept._roots = dict.fromkeys(kept._roots, float("nan"))
    kept.spend("noise", leaf, np.ones(2), np.ones(2, dtype=bool))


def _cost(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        terms_module, "raised", lambda c, p: SimpleNamespace(rounded=forged(NEGATIVE, Fraction(0)))
    )
    terms().cost(PureDP(1))


def _total(patch: pytest.MonkeyPatch) -> None:
    terms().after(forged(Fraction(1), Fraction(0)), forged(*COST), "release")


def _total_so_far(patch: pytest.MonkeyPatch) -> None:
    terms().after(forged(*COST), forged(Fraction(5), Fraction(0)), "release")


def _ledger(patch: pytest.MonkeyPatch) -> book.Ledger:
    ledger = open_ledger(Path("ledger.sqlite"))
    ledger.create("people", terms())
    patch.setattr(terms_module, "refuse_refunds", lambda *_: None)
    return ledger


def _charge(patch: pytest.MonkeyPatch) -> None:
    _ledger(patch).charge("people", "person", SCOPE, forged(*COST), "a", "a")


def _admit(patch: pytest.MonkeyPatch) -> None:
    _ledger(patch).admit("people", "person", SCOPE, forged(*COST), "a", "a")


def _chain(patch: pytest.MonkeyPatch) -> None:
    """A chain whose hashes are right, and whose sums are what its costs make."""
    ledger = _ledger(patch)
    with patch.context() as inside:
        inside.setattr(book, "refuse_refunds", lambda *_: None)
        ledger.charge("people", "person", SCOPE, forged(*COST), "a", "a")
    patch.setattr(book, "read_amounts", lambda rows: forged(*map(Fraction, rows)))
    open_ledger(Path("ledger.sqlite")).state("people")


def _remaining(patch: pytest.MonkeyPatch) -> None:
    assert book.State("people", terms(), forged(*COST), 1, book.FIRST).remaining


def _plan(patch: pytest.MonkeyPatch) -> None:
    account = SimpleNamespace(upper=lambda _: SimpleNamespace(value=NEGATIVE))
    release = SimpleNamespace(budget=GDP(1))
    plan._cost(SimpleNamespace(release=release, account=account))  # type: ignore[arg-type]


CONSUMERS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "a filter spends": _filter,
    "a filter is asked": _filter_admits,
    "a filter that was refunded": _filter_refunded,
    "an odometer counts": _odometer,
    "an odometer is read": _odometer_read,
    "an odometer's bound": _odometer_bounds,
    "a curator's filter opens": _curator,
    "a curator's filter charges": _curator_charges,
    "a ledger's cost": _cost,
    "a ledger's total": _total,
    "a ledger's total so far": _total_so_far,
    "a ledger charges": _charge,
    "a ledger is asked": _admit,
    "a ledger's chain": _chain,
    "what a ledger has left": _remaining,
    "a plan's cost": _plan,
}


@pytest.mark.parametrize("consumer", CONSUMERS.values(), ids=CONSUMERS)
def test_each_consumer_refuses_by_itself(consumer, unchecked, tmp_path: Path) -> None:
    unchecked.chdir(tmp_path)
    with pytest.raises(DpauditError, match=r"privacy loss|negative or not a number"):
        consumer(unchecked)


GUARDS = {
    "a filter spends": opened,
    "an odometer counts": odometer,
    "a ledger's cost": terms_module,
    "a ledger's total": terms_module,
    "a ledger charges": book,
    "a ledger's chain": book,
    "a plan's cost": plan,
    "a curator's filter opens": spent_by_curators,
}


@pytest.mark.parametrize("name", GUARDS)
def test_without_its_own_refusal_a_consumer_gives_back(name: str, unchecked, tmp_path) -> None:
    """The forgeries above are real: with the consumer's check gone as well, they pass."""
    unchecked.chdir(tmp_path)
    unchecked.setattr(GUARDS[name], "refuse_refunds", lambda *_: None)
    CONSUMERS[name](unchecked)


# --- from outside ---------------------------------------------------------------------------------


@pytest.mark.parametrize("cost", [COST, (float("nan"), 0), ("1", 0), (Fraction(1), -1), (1,)])
def test_a_ledger_refuses_costs_that_are_none(cost: Any, tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path / "ledger.sqlite")
    ledger.create("people", terms())
    ledger.charge("people", "person", SCOPE, (Fraction(29, 10), Fraction(0)), "a", "a")
    for ask in (ledger.charge, ledger.admit):
        with pytest.raises(InvalidParameter):
            ask("people", "person", SCOPE, cost, "b", "b")
    assert ledger.verify("people").spent == (Fraction(29, 10), 0)


@pytest.mark.parametrize("asked", [-1, Fraction(-1, 10**40), float("nan"), "-1", -sympy.sqrt(2)])
def test_filters_and_odometers_refuse_numbers_that_are_no_losses(asked: object) -> None:
    for guarantee in (PureDP(3), ZCDP(3), GDP(3), ApproxDP(3, "1e-6")):
        kept = open_filter(guarantee, SCOPE)
        for ask in (kept.charge, kept.admits, kept.spend):
            with pytest.raises(InvalidParameter):
                ask(asked)
    with pytest.raises(InvalidParameter):
        open_odometer("pure", SCOPE).spend(asked)


def test_a_negative_cost_in_a_stored_chain_is_refused_when_the_balance_is_made(tmp_path) -> None:
    """Whoever rewrites an entry also makes its hash, and the account's head, right."""
    place = tmp_path / "ledger.sqlite"
    ledger = open_ledger(place)
    ledger.create("people", terms())
    ledger.charge("people", "person", SCOPE, (Fraction(29, 10), Fraction(0)), "a", "a")
    ledger.charge("people", "person", SCOPE, (Fraction(0), Fraction(0)), "b", "b")
    last = ledger.entries("people")[-1]
    body = {**last.body, "cost": ["-29/10", "0/1"], "spent": ["0/1", "0/1"]}
    entry = book._entry("people", last.number, last.previous, body)
    with sqlite3.connect(place) as raw:
        text = book._text(body), entry.hash
        raw.execute("UPDATE dpaudit_entries SET body = ?, hash = ? WHERE number = 3", text)
        spent = book._text(["0/1", "0/1"]), entry.hash
        raw.execute("UPDATE dpaudit_datasets SET spent = ?, head = ?", spent)
    asked = ("people", "person", SCOPE, (Fraction(29, 10), Fraction(0)), "c", "c")
    attempts: list[Callable[[book.Ledger], object]] = [
        lambda known: known.state("people"),
        lambda known: known.verify("people"),
        lambda known: known.admit(*asked),
        lambda known: known.charge(*asked),
    ]
    for attempt in attempts:
        with pytest.raises(LedgerBroken, match=r"entry 3: .*-29/10"):
            attempt(open_ledger(place))
    # A process that added the entries up before they were changed notices too.
    with pytest.raises(LedgerBroken):
        ledger.charge(*asked)


def test_a_balance_that_was_set_back_is_refused_by_the_next_charge(tmp_path: Path) -> None:
    place = tmp_path / "ledger.sqlite"
    ledger = open_ledger(place)
    ledger.create("people", terms())
    ledger.charge("people", "person", SCOPE, (Fraction(29, 10), Fraction(0)), "a", "a")
    with sqlite3.connect(place) as raw:
        raw.execute("UPDATE dpaudit_datasets SET spent = ?", (book._text(["0/1", "0/1"]),))
    for known in (ledger, open_ledger(place)):
        with pytest.raises(LedgerBroken, match="is not what its 2 entries make"):
            known.charge("people", "person", SCOPE, (Fraction(1), Fraction(0)), "b", "b")


def test_stored_terms_and_filters_with_negative_numbers_are_refused() -> None:
    with pytest.raises(InvalidParameter):
        replace(terms(), caps=(Fraction(-1), Fraction(0)))
    with pytest.raises(InvalidParameter):
        read_amounts(["-1/2"])
    with pytest.raises(InvalidParameter):
        replace(open_filter(PureDP(3), SCOPE), spent=(NEGATIVE,))
    with pytest.raises(InvalidParameter):
        replace(open_odometer("pure", SCOPE), spent=(NEGATIVE,))
    with pytest.raises(InvalidParameter):
        Price(Fraction(-1), 2)


# --- budget over time -----------------------------------------------------------------------------


class Accounted:
    """An account that says what it is told of declarations, and adds them up."""

    def __init__(self, node: Any, scope: object, width: object = None) -> None:
        self.value = sum((LOSS[leaf.label] for leaf in node.children or (node,)), Fraction(0))

    def routes(self) -> list[str]:
        return ["pure"]

    def step(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(value=self.value)

    def epsilon(self, delta: object) -> SimpleNamespace:
        return SimpleNamespace(lower=self.value, upper=self.value)


LOSS = {"honest": Fraction(4), "gift": Fraction(-39, 10)}


def entry(name: str) -> budget.Entry:
    return budget.Entry(
        Path(f"{name}.json"),
        name,
        protected({"unit": "person", "adjacency": "add_remove"}, ("people",)),
        date(2026, 1, 1),
        PureDP(4, label=name),
        "certified",
        name,
    )


@pytest.mark.parametrize("names", [("honest", "gift"), ("gift", "honest"), ("gift",)])
@pytest.mark.parametrize("bypassed", [False, True])
def test_a_budget_refuses_a_release_that_gives_back(names, bypassed, monkeypatch) -> None:
    """Twice: each loss is at least 0, and all together lose at least what each does alone."""
    monkeypatch.setattr(budget, "Account", Accounted)
    if bypassed:
        monkeypatch.setattr(Amounts, "__new__", lambda cls, values=(): tuple.__new__(cls, values))
    (total,) = budget.totals([entry(name) for name in names])
    assert "privacy loss" in total.refused or "give back" in total.refused
    assert not total.epsilon_upper


def test_without_the_refusal_a_budget_would_say_a_tenth(monkeypatch) -> None:
    monkeypatch.setattr(budget, "Account", Accounted)
    monkeypatch.setattr(budget, "_refuse_gain", lambda *_: None)
    (total,) = budget.totals([entry("honest"), entry("gift")])
    assert total.epsilon_upper in ("0.1", "4")


def test_the_command_that_shows_a_ledger_refuses_a_tampered_one(tmp_path: Path) -> None:
    from click.testing import CliRunner

    place = tmp_path / "ledger.sqlite"
    ledger = open_ledger(place)
    ledger.create("people", terms())
    with sqlite3.connect(place) as raw:
        raw.execute("UPDATE dpaudit_datasets SET spent = ?", (json.dumps(["-9/1", "0/1"]),))
    for command in (["ledger", "show"], ["ledger", "verify"]):
        shown = CliRunner().invoke(main, [*command, "--set", f"ledger={place}"])
        assert shown.exit_code != 0, shown.output


def test_the_charge_of_a_declaration_goes_through_the_same_gate(monkeypatch) -> None:
    """A fold that is wrong, whatever the reason, is priced by nobody."""
    monkeypatch.setattr(
        charges.CALCULI["zcdp"],
        "fold",
        lambda *_: SimpleNamespace(value=NEGATIVE, assumptions=tuple),
    )
    node = Gaussian("noise", 1)
    with pytest.raises(InvalidParameter):
        open_filter(ZCDP(1), SCOPE).spend(node)
    with pytest.raises(InvalidParameter):
        open_odometer("zcdp", SCOPE, "1e-6").spend(node)
    with pytest.raises(InvalidParameter):
        terms_module.terms_of("person", SCOPE, ZCDP(1)).cost(node)
