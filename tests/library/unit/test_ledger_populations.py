"""Accounts of populations: caps over several data sets of the same persons, and who charged."""

from __future__ import annotations

import getpass
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dpaudit.accountant.filters.charges import Amounts
from dpaudit.errors import BudgetExceeded, InvalidParameter
from dpaudit.families.additive import Gaussian
from dpaudit.families.opaque import ZCDP, ApproxDP
from dpaudit.ledger import (
    Ledger,
    LedgerBroken,
    LedgerRefused,
    LedgerUnavailable,
    NoAccount,
    open_ledger,
    terms_of,
)
from dpaudit.ledger import book as books
from dpaudit.ledger.terms import Terms, read_terms
from dpaudit.releases import publish as publishing
from dpaudit.releases.cost import ledger_row
from dpaudit.releases.items.counts import Count
from dpaudit.releases.plan import Plan, Release
from dpaudit.releases.program import exact_values
from dpaudit.scope import Adjacency
from dpaudit.tabular import Category, Join, Schema, Table
from tests.library.unit.test_ledger import needs_postgres
from tests.support.ledger import SCOPE, postgres

pytest.importorskip("sqlalchemy")
NOISE = Gaussian("query", noise_multiplier=4)  # rho = 1 / 32
DELTA = Fraction(1, 10**7)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    pytest.importorskip("psycopg")
    with postgres() as url:
        yield url


@dataclass(frozen=True)
class Office:
    """A ledger with a population of two data sets."""

    ledger: Ledger
    everybody: str
    census: str
    survey: str

    def charge(self, name: str, title: str, **more: str) -> None:
        costs = self.ledger.costs(name, NOISE, DELTA)
        self.ledger.charge(name, "person", SCOPE, costs, title, title, **more)


def within(*populations: str, entity: str = "person") -> Terms:
    budget = ApproxDP(30, Fraction(1, 10**5))
    return terms_of(entity, SCOPE, budget, populations=populations)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=needs_postgres)])
def office(request: pytest.FixtureRequest, tmp_path: Path) -> Office:
    sqlite = request.param == "sqlite"
    place = tmp_path / "ledger.sqlite" if sqlite else str(request.getfixturevalue("server"))
    ledger, own = open_ledger(place), tmp_path.name  # tests share a server
    made = Office(ledger, f"{own} all", f"{own} census", f"{own} survey")
    ledger.create(made.everybody, terms_of("person", SCOPE, ZCDP(Fraction(1, 10))))
    for name in (made.census, made.survey):
        ledger.create(name, within(made.everybody))
    return made


def test_a_charge_goes_to_the_data_set_and_its_population(office: Office) -> None:
    """Three charges of rho = 1/32 fit into 0.1, whichever data sets they are of."""
    for number, name in enumerate([office.census, office.survey, office.census]):
        office.charge(name, f"release {number}")
    with pytest.raises(BudgetExceeded, match=f"{office.everybody}: one more"):
        office.charge(office.survey, "one more")
    ledger = office.ledger
    assert ledger.verify(office.everybody).spent[0] == Fraction(3, 32)
    counts = [ledger.verify(name).count for name in (office.census, office.survey)]
    assert counts == [2, 1]
    assert [r.dataset for r in ledger.state(office.everybody).releases] == [
        office.census,
        office.survey,
        office.census,
    ]
    assert ledger.state(office.everybody).unfinished == ()


def test_a_charge_that_names_no_cost_for_the_population_is_refused(office: Office) -> None:
    own = office.ledger.costs(office.census, NOISE, DELTA)[office.census]
    for ask in (office.ledger.admit, office.ledger.charge):
        with pytest.raises(LedgerRefused, match="belongs to the population"):
            ask(office.census, "person", SCOPE, own, "a", "a")
    assert office.ledger.state(office.census).count == 0


def test_without_the_population_the_cap_would_be_passed(office: Office, monkeypatch) -> None:
    """Taken away: the same charges go through where only the data set's account is held."""
    only = lambda self, c, name, cost, *, locked=False: {  # noqa: E731
        name: self._known(c, name, locked=locked)
    }
    monkeypatch.setattr(Ledger, "_family", only)
    for number in range(4):
        office.charge(office.census, f"release {number}")
    assert office.ledger.state(office.everybody).spent[0] == 0


def test_without_the_check_of_caps_the_population_would_be_overspent(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken away: the comparison with the caps; four charges of 1/32 then pass 1/10."""
    monkeypatch.setattr(
        Terms, "after", lambda self, spent, cost, what: Amounts(spent).plus(Amounts(cost))
    )
    for number, name in enumerate([office.census, office.survey] * 2):
        office.charge(name, f"release {number}")
    spent = office.ledger.state(office.everybody).spent[0]
    assert spent == Fraction(4, 32) > Fraction(1, 10)


@pytest.mark.first_case("said")
@pytest.mark.parametrize(
    ("terms", "error", "said"),
    [
        (lambda o: within("nobody"), NoAccount, "it has no account of 'nobody'"),
        (lambda o: within(o.everybody, entity="household"), LedgerRefused, "protects one kind"),
    ],
)
def test_a_data_set_fits_its_population(office: Office, terms, error, said: str) -> None:
    with pytest.raises(error, match=said):
        office.ledger.create(f"{office.census} 2", terms(office))
    assert f"{office.census} 2" not in office.ledger.names()


def test_charges_of_both_data_sets_at_once_wait_for_each_other(office: Office) -> None:
    """No deadlock, and the sums of all three accounts hold."""
    left = []

    def charges(name: str) -> None:
        for number in range(8):
            try:
                office.charge(name, f"{name} {number}")
            except BudgetExceeded:
                left.append(name)

    threads = [threading.Thread(target=charges, args=(n,)) for n in (office.census, office.survey)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    states = [office.ledger.verify(n) for n in (office.everybody, office.census, office.survey)]
    assert [states[0].count, states[1].count + states[2].count, len(left)] == [3, 3, 13]


def test_an_entry_says_who_charged(office: Office) -> None:
    office.charge(office.census, "first")
    who = {entry.body["by"] for entry in office.ledger.entries(office.census)}
    sqlite = office.ledger.place.endswith(".sqlite")
    assert who == {getpass.getuser() if sqlite else "tests"}
    assert " by " in office.ledger.state(office.census).releases[0].text


def test_a_release_is_corrected_and_withdrawn_once(office: Office) -> None:
    ledger, census = office.ledger, office.census
    office.charge(census, "a")
    with pytest.raises(LedgerRefused, match="no release 'a' was published"):
        ledger.withdraw(census, "a", "wrong")
    ledger.finish(census, "a", {})
    office.charge(census, "b", corrects="a")
    assert ledger.published(census, "a").errata == ()  # the correction is not published yet
    ledger.finish(census, "b", {})
    assert ledger.published(census, "a").errata == ("Corrected: use 'b' in its place.",)
    assert ledger.withdraw(census, "b", "wrong too").errata == ("Withdrawn: wrong too",)
    with pytest.raises(LedgerRefused, match="withdrawn already"):
        ledger.withdraw(census, "b", "again")
    with pytest.raises(InvalidParameter, match="expected a reason"):
        ledger.withdraw(census, "a", "")
    assert ledger.verify(census).count == 2


def test_a_title_of_two_releases_is_no_name(office: Office) -> None:
    ledger, census = office.ledger, office.census
    costs = ledger.costs(census, NOISE, DELTA)
    for digest in ("1" * 64, "2" * 64):
        ledger.charge(census, "person", SCOPE, costs, digest, "same")
        ledger.finish(census, digest, {})
    with pytest.raises(LedgerRefused, match="give one of these"):
        ledger.published(census, "same")
    assert ledger.published(census, "2" * 64).title == "same"


# --- ledgers of another version -------------------------------------------------------------------


def test_terms_of_a_newer_version_are_refused_by_name() -> None:
    table = within().to_json()
    assert "populations" not in table  # older versions read accounts without any
    with pytest.raises(InvalidParameter, match="'seasons' is not known; use the version"):
        read_terms(table | {"seasons": []})


def test_an_entry_of_a_newer_version_stops_the_ledger(office: Office) -> None:
    ledger, census = office.ledger, office.census
    with ledger._writing() as connection:
        row = ledger._known(connection, census, locked=True)
        ledger._append(connection, row, {"kind": "lent", "at": books._now()}, "x")
    with pytest.raises(LedgerBroken, match=r"entry 2 is a 'lent'.*use the version"):
        ledger.state(census)
    with pytest.raises(LedgerBroken, match="use the version that wrote it"):
        office.charge(census, "more")


# --- a team on a server ---------------------------------------------------------------------------

DOCUMENTED = Path(__file__).parents[3] / "docs" / "releases.md"


@needs_postgres
def test_a_role_that_may_only_insert_charges_and_changes_nothing(server: str) -> None:
    """The grants are those of the documentation, word for word."""
    text = DOCUMENTED.read_text()
    grants = text.split("```sql\n")[1].split("```")[0]
    owner = open_ledger(server)
    owner.create("team", within())
    with owner._engine.begin() as connection:
        connection.exec_driver_sql(grants)
    analyst = open_ledger(server.replace("tests@", "analyst@"))
    analyst.charge("team", "person", SCOPE, analyst.costs("team", NOISE, DELTA), "a", "a")
    analyst.finish("team", "a", {})
    charged = owner.verify("team").releases[0]
    assert charged.by == "analyst"
    for forbidden in (
        "DELETE FROM dpaudit_entries",
        "UPDATE dpaudit_entries SET body = ''",
        "UPDATE dpaudit_datasets SET terms = ''",
        "DELETE FROM dpaudit_datasets",
    ):
        denied = pytest.raises(LedgerUnavailable, match="permission denied")
        with denied, analyst._errors(), analyst._engine.begin() as connection:
            connection.exec_driver_sql(forbidden)
    with pytest.raises(LedgerUnavailable, match="permission denied"):
        analyst.create("other", within())
    assert owner.verify("team").count == 1


@pytest.fixture
def joined(tmp_path: Path) -> tuple[Ledger, Plan]:
    """A plan on people and their visits, and a ledger in which each has an account of its own."""
    pa = pytest.importorskip("pyarrow")
    ledger = open_ledger(tmp_path / "ledger.sqlite")
    for name in ("people", "visits"):
        ledger.create(name, terms_of("person", SCOPE, ZCDP(1)))
    visits = pa.table({"patient": [1, 1, 2], "ward": ["a", "a", "b"]})
    schema = Schema(
        "people",
        {"ward": Category(("a", "b"), missing="count", of="visits.ward")},
        unit="person",
        entity="person",
        joins={"visits": Join(visits, unit="patient", dataset="visits")},
    )
    items = (Count(name="wards", by="ward"),)
    return ledger, Release("t", schema, "add_remove", ZCDP(Fraction(1, 50)), items).plan()


def test_a_private_join_is_charged_to_both_accounts(joined) -> None:
    """To the joined one as two steps: four times rho; under replace_one once."""
    ledger, plan = joined
    publishing.charge(ledger, plan)
    cost = ledger.state("people").spent[0]
    assert 0 < cost <= Fraction(1, 50)
    assert ledger.state("visits").spent == (4 * cost,)
    (life,) = ledger.state("visits").releases
    assert (life.dataset, life.text.count("for people")) == ("people", 1)
    assert ledger.state("visits").unfinished == ()
    row = ledger_row(ledger, replace_title(plan, "next"))
    assert row["data set visits"][0].startswith("cost ")
    replaced = replace(plan.release, adjacency=Adjacency.REPLACE_ONE).plan()
    scope = replace(SCOPE, adjacency=Adjacency.REPLACE_ONE)
    other = open_ledger(Path(ledger.place).with_name("other.sqlite"))
    for name in ("people", "visits"):
        other.create(name, terms_of("person", scope, ZCDP(1)))
    publishing.charge(other, replaced)
    assert other.state("visits").spent == other.state("people").spent


def replace_title(plan: Plan, title: str) -> Plan:
    return replace(plan.release, title=title).plan()


def test_rows_of_the_joined_table_alone_are_two_steps(joined) -> None:
    """One person's visits come and go, and two counts move, where a person moves one."""
    pa = pytest.importorskip("pyarrow")
    _, plan = joined
    release, people = plan.release, pa.table({"person": [1, 2]})
    (join,) = release.schema.joins.values()
    without = replace(join, data=join.data.slice(0, 2))
    found = []
    for one in (join, without):
        made = replace(release, schema=replace(release.schema, joins={"visits": one}))
        (row,) = exact_values(made, Table(made.schema, people).opened("key")).values()
        found.append(np.array(row))
    assert np.abs(found[0] - found[1]).sum() == 2
    assert plan.parts["wards"].moves(Adjacency.ADD_REMOVE).absolute == 1


def test_a_joined_account_that_is_full_stops_the_charge(joined) -> None:
    ledger, plan = joined
    publishing.charge(ledger, plan)
    large = replace(plan.release, title="large", budget=ZCDP(Fraction(1, 4))).plan()
    with pytest.raises(BudgetExceeded, match="visits"):
        publishing.charge(ledger, large)
    assert ledger.state("people").count == ledger.state("visits").count == 1
    with pytest.raises(NoAccount, match="wards"):
        ledger.costs("people", NOISE, joined=("wards",))


def test_a_public_table_has_no_account() -> None:
    with pytest.raises(InvalidParameter, match="a private table, which has a unit"):
        Join("towns.csv", {"town": "id"}, dataset="towns")
