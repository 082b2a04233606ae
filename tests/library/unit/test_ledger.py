"""The ledger: what it takes, what it refuses, and what shows that it was changed."""

from __future__ import annotations

import json
import sqlite3
import threading
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from dpaudit.errors import BudgetExceeded, InvalidParameter, Unsupported
from dpaudit.exact.wire import digest
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Compose, Repeat
from dpaudit.families.discrete import DiscreteLaplace
from dpaudit.families.opaque import GDP, ZCDP, ApproxDP, PureDP
from dpaudit.families.sampling import PoissonSampled
from dpaudit.families.tabular import DiscreteGaussianVector
from dpaudit.ledger import (
    Ledger,
    LedgerBroken,
    LedgerRefused,
    LedgerUnavailable,
    book,
    open_ledger,
    terms_of,
)
from tests.support.ledger import COST, SCOPE, postgres, postgres_programs, stress, terms

pytest.importorskip("sqlalchemy")
TENTH = (Fraction(1, 10), Fraction(0))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def ledger(path: Path) -> Ledger:
    opened = open_ledger(path, wait=0.2)
    opened.create("people", terms(1))
    return opened


def charge(ledger: Ledger, title: str, cost=TENTH, entity="person", scope=SCOPE, schema=None):
    return ledger.charge("people", entity, scope, cost, title, title, schema)


def test_charges_add_up_and_the_first_that_does_not_fit_is_refused(ledger: Ledger) -> None:
    for number in range(10):
        receipt = charge(ledger, f"release {number}")
        assert receipt.spent == (Fraction(number + 1, 10), 0)
    with pytest.raises(BudgetExceeded, match=r"0.1 of epsilon does not fit: 1 of 1 is spent"):
        charge(ledger, "one more")
    state = ledger.verify("people", receipt.head)
    assert (state.count, state.remaining[0]) == (10, 0)
    with pytest.raises(BudgetExceeded):
        ledger.admit("people", "person", SCOPE, TENTH, "x", "x")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"entity": "household"}, "its unit is 'person'"),
        ({"scope": replace(SCOPE, unit="record")}, "its unit is 'person'"),
        ({"scope": SCOPE.under("replace_one")}, "different adjacencies do not add up"),
    ],
)
def test_mixed_units_and_adjacencies_are_refused(ledger: Ledger, change, said: str) -> None:
    with pytest.raises(LedgerRefused, match=said):
        charge(ledger, "mixed", **change)
    assert ledger.state("people").count == 0


def test_schemas_share_an_account_and_another_data_set_is_refused(path: Path) -> None:
    ledger = open_ledger(path)
    ledger.create("people", terms(1, schema="a" * 64))
    charge(ledger, "same", schema="a" * 64)
    charge(ledger, "changed", schema="b" * 64)
    assert open_ledger(path).verify("people").spent == tuple(2 * part for part in TENTH)
    with pytest.raises(LedgerRefused, match="no account of 'firms'"):
        ledger.charge("firms", "person", SCOPE, TENTH, "x", "x")
    with pytest.raises(LedgerRefused, match="has an account already"):
        ledger.create("people", terms(5))


def test_a_release_is_charged_once_and_one_that_was_not_finished_is_named(ledger: Ledger) -> None:
    charge(ledger, "first")
    with pytest.raises(LedgerRefused, match="Its charge is spent"):
        charge(ledger, "first")
    assert ledger.state("people").unfinished == ("first",)
    ledger.finish("people", "first", {"a.csv": "0" * 64})
    assert ledger.state("people").unfinished == ()
    with pytest.raises(LedgerRefused, match="was released on"):
        charge(ledger, "first")
    with pytest.raises(LedgerRefused, match="not charged, or is finished"):
        ledger.finish("people", "first", {})
    assert ledger.verify("people").spent == TENTH


def test_two_charges_of_one_release_are_refused_by_the_database_too(ledger: Ledger, path) -> None:
    charge(ledger, "first")
    with sqlite3.connect(path) as raw, pytest.raises(sqlite3.IntegrityError):
        raw.execute(
            "INSERT INTO dpaudit_entries SELECT dataset, 99, kind, release, body, previous, hash "
            "FROM dpaudit_entries WHERE kind = 'charge'"
        )


TAMPERINGS = {
    "a smaller cost": "UPDATE dpaudit_entries SET body = replace(body, '\"1/10\"', '\"1/20\"')"
    " WHERE number = 3",
    "a missing entry": "DELETE FROM dpaudit_entries WHERE number = 3",
    "another order": "UPDATE dpaudit_entries SET number = 90 WHERE number = 2",
    "smaller sums": 'UPDATE dpaudit_datasets SET spent = \'["0/1","0/1"]\'',
    "a larger cap": "UPDATE dpaudit_datasets SET terms = replace(terms, '\"1/1\"', '\"9/1\"')",
    "a missing end": "DELETE FROM dpaudit_entries WHERE number = 4",
}


@pytest.mark.parametrize("statement", TAMPERINGS.values(), ids=TAMPERINGS)
def test_whatever_is_changed_shows(ledger: Ledger, path: Path, statement: str) -> None:
    for number in range(3):
        charge(ledger, f"release {number}")
    ledger.verify("people")
    with sqlite3.connect(path) as raw:
        raw.execute(statement)
    with pytest.raises(LedgerBroken):
        open_ledger(path).verify("people")


def test_a_whole_new_chain_shows_against_a_head_kept_elsewhere(ledger: Ledger, tmp_path) -> None:
    head = charge(ledger, "first").head
    other = open_ledger(tmp_path / "other.sqlite")
    other.create("people", terms(1))
    charge(other, "cheaper")
    other.verify("people")
    with pytest.raises(LedgerBroken, match="entries are missing"):
        other.verify("people", head)


def test_a_ledger_that_is_missing_locked_read_only_or_full_says_so(
    ledger, path, tmp_path, monkeypatch
) -> None:
    with pytest.raises(LedgerUnavailable, match="no ledger is there"):
        open_ledger(tmp_path / "nowhere.sqlite").state("people")
    with pytest.raises(LedgerUnavailable, match="NUL in its name"):
        open_ledger("people.sqlite\0")
    with pytest.raises(LedgerUnavailable, match="expected a file, or a URL"):
        open_ledger("nosuch://host/name").state("people")
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(LedgerUnavailable, match="another writer holds it"):
        charge(ledger, "locked out")
    holder.execute("ROLLBACK")
    connect = sqlite3.connect
    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", lambda u, **k: connect(u.replace("=rw", "=ro"), **k))
        with pytest.raises(LedgerUnavailable, match="Nothing was charged"):
            charge(open_ledger(path), "read only")
    pages = holder.execute("PRAGMA page_count").fetchone()[0]
    full = open_ledger(path)
    from sqlalchemy import event

    event.listen(
        full._engine,
        "connect",
        lambda c, _: c.execute(f"PRAGMA max_page_count = {pages}"),
    )
    small = (Fraction(1, 10**6), Fraction(0))

    def until_full() -> None:
        for number in range(200):
            charge(full, f"full {number}", cost=small)

    with pytest.raises(LedgerUnavailable, match="make room"):
        until_full()
    holder.close()
    kept = ledger.verify("people")
    charge(ledger, "room again", cost=small)
    assert ledger.verify("people").count == kept.count + 1


def test_every_measure_charges_what_its_theorem_says() -> None:
    leaf = DiscreteGaussianVector("a", 50, 4, (((2, 1),), ((1, 4),)))
    rows = terms_of("person", SCOPE, ZCDP(1)).cost(leaf)
    assert rows == (Fraction(4, 100),)
    sgd = Repeat(PoissonSampled(Gaussian("gradient", 2), Fraction(1, 100)), 100)
    (mu,) = terms_of("person", SCOPE, GDP(1)).cost(Gaussian("a", 4))
    assert mu == Fraction(1, 16)
    renyi = terms_of("person", SCOPE, None, renyi={2: 1, "8": "0.5"})
    assert renyi.units == ("divergence of order 2", "divergence of order 8")
    assert renyi.cost(leaf) == (Fraction(8, 100), Fraction(32, 100))
    assert all(0 < c < Fraction(1, 10) for c in renyi.cost(sgd))
    pure = terms_of("person", SCOPE, PureDP(1))
    assert pure.cost(Compose(DiscreteLaplace("a", 4), DiscreteLaplace("b", 4))) == (Fraction(1, 2),)
    with pytest.raises(Unsupported):
        pure.cost(leaf)
    tight = terms_of("person", SCOPE, ApproxDP(1, Fraction(1, 10**5)))
    epsilon, delta = tight.cost(Repeat(leaf, 3), Fraction(1, 10**6))
    assert delta == Fraction(1, 10**6)
    assert 0 < epsilon < 3 * tight.cost(leaf, Fraction(1, 3 * 10**6))[0]


def test_renyi_caps_are_kept_at_every_order(path: Path) -> None:
    ledger = open_ledger(path)
    ledger.create("people", terms_of("person", SCOPE, None, renyi={2: 1, 8: 1}))
    charge(ledger, "first", cost=(Fraction(1, 10), Fraction(9, 10)))
    with pytest.raises(BudgetExceeded, match="divergence of order 8"):
        charge(ledger, "second", cost=(Fraction(1, 10), Fraction(2, 10)))


@pytest.mark.parametrize("given", [{}, {"renyi": {1: 1}}, {"renyi": {2: 0}}])
def test_budgets_that_are_none_are_refused(given) -> None:
    with pytest.raises(InvalidParameter):
        terms_of("person", SCOPE, None, **given)
    with pytest.raises(InvalidParameter):
        terms_of(" ", SCOPE, PureDP(1))


@pytest.mark.quality
def test_writers_that_are_killed_lose_and_overspend_nothing(tmp_path: Path) -> None:
    count, killed, _ = stress(
        str(tmp_path / "ledger.sqlite"), tmp_path, writers=4, epsilon="0.2", kills=3, seed=1
    )
    assert (count, killed) == (200, 3)


def test_an_entry_says_what_was_charged(ledger: Ledger) -> None:
    charge(ledger, "first", cost=COST)
    opened, charged = ledger.entries("people")
    assert opened.body["terms"] == json.loads(json.dumps(terms(1).to_json()))
    assert charged.body["cost"] == ["1/1000", "1/10000000000"]


needs_postgres = pytest.mark.skipif(
    postgres_programs() is None, reason="PostgreSQL (Debian: postgresql) is not installed"
)


@pytest.fixture(scope="module")
def server():
    pytest.importorskip("psycopg")
    with postgres() as url:
        yield url


@needs_postgres
def test_postgresql_keeps_the_same_ledger(server: str, tmp_path: Path) -> None:
    count, killed, _ = stress(server, tmp_path, writers=4, epsilon="0.1", kills=2, seed=2)
    assert (count, killed) == (100, 2)
    ledger = open_ledger(server)
    state = ledger.verify("people")
    with pytest.raises(LedgerRefused, match="different adjacencies"):
        charge(ledger, "mixed", scope=SCOPE.under("zero_out"))
    with pytest.raises(BudgetExceeded):
        charge(ledger, "over")
    assert ledger.verify("people").head == state.head
    down = open_ledger(server.replace("127.0.0.1:", "127.0.0.1:1"))
    with pytest.raises(LedgerUnavailable, match="whether a charge was kept"):
        down.state("people")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=needs_postgres)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A ledger's URL, on either database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/ledger.sqlite"
    return str(request.getfixturevalue("server"))


@pytest.mark.first_case
def test_who_reads_while_another_charges_sees_one_state(place: str) -> None:
    """The account and its entries are read as they were at one time: else they would not match."""
    ledger, tiny = open_ledger(place), (Fraction(1, 1000), Fraction(0))
    ledger.create("read", terms(1))

    def charges() -> None:
        for number in range(60):
            ledger.charge("read", "person", SCOPE, tiny, f"{number}", f"{number}")

    writer = threading.Thread(target=charges)
    writer.start()
    reader = open_ledger(place)
    while writer.is_alive():
        reader.verify("read")
    writer.join()
    assert reader.verify("read").count == 60


def test_a_balance_that_was_set_back_is_found_on_either_database(place: str) -> None:
    ledger = open_ledger(place)
    ledger.create("set back", terms(1))
    ask = ("set back", "person", SCOPE, (Fraction(1, 2), Fraction(0)))
    ledger.charge(*ask, "first", "first")
    with ledger._engine.begin() as connection:
        connection.exec_driver_sql(
            """UPDATE dpaudit_datasets SET spent = '["0/1","0/1"]' WHERE name = 'set back'"""
        )
    for known in (ledger, open_ledger(place)):
        with pytest.raises(LedgerBroken, match="is not what its 2 entries make"):
            known.charge(*ask, "second", "second")
        with pytest.raises(LedgerBroken):
            known.state("set back")


@pytest.mark.parametrize("name", ["people", 'Bürger, "alle"', "people\n2", "\u2028"])
def test_an_entrys_hash_is_that_of_its_canonical_json(name: str) -> None:
    """The bytes that ledgers of every version have: another form would break their chains."""
    body = {"kind": "charge", "title": "ä\n", "cost": ["1/2"]}
    entry = book._entry(name, 7, "a" * 64, body)
    content = {"dataset": name, "number": "7", "previous": "a" * 64, "body": body}
    assert entry.hash == digest(content)
    assert entry.body == body


# --- names ----------------------------------------------------------------------------------------


def test_names_that_are_compared_alike_are_one_account_and_one_unit(ledger: Ledger) -> None:
    for name in ("People", "people ", "\uff50eople"):
        with pytest.raises(LedgerRefused, match="'people' has an account already"):
            ledger.create(name, terms())
    charge(ledger, "a", entity="Person ")
    assert ledger.state("people").count == 1


@pytest.mark.parametrize("name", ["p\u0435ople", "people\u200b", "peo\u00adple"])
def test_a_name_in_disguise_opens_no_account(ledger: Ledger, name: str, monkeypatch) -> None:
    with pytest.raises(InvalidParameter, match=r"data set = .*write another name"):
        ledger.create(name, terms())
    with pytest.raises(InvalidParameter, match=r"entity of a ledger = .*write another name"):
        terms(entity=name)
    monkeypatch.setattr("dpaudit.scope.disguise", lambda name: "")
    assert ledger.create(name, terms(entity=name)).name == name
