"""Releases added over time: exactly, per data set, never across units or adjacencies."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from dpaudit import GDP, Gaussian, Laplace, PureDP, scope
from dpaudit.accountant.account import Account
from dpaudit.certificate.budget import Entry, entry_of, totals
from dpaudit.certificate.certificate import save, statement
from dpaudit.cli.main import main
from dpaudit.errors import CertificateRejected, InvalidParameter
from dpaudit.families.composition import Compose
from dpaudit.families.events import Group
from dpaudit.ledger import open_ledger, terms_of
from dpaudit.nodes import Node
from dpaudit.report.timeline import timeline_svg
from dpaudit.scope import Protected, central, protected
from tests.library.cli.bench import caught, pure

PERSON = {"kind": "record", "entity": "person", "period": None, "bound": ""}


def entry(
    node: Node,
    day: int = 1,
    number: int = 0,
    unit: Mapping[str, Any] | None = None,
    adjacency: str = "replace_one",
    data: tuple[str, ...] = ("register",),
    model: str = "central",
    **changes: Any,
) -> Entry:
    scope = {"unit": PERSON | dict(unit or {}), "adjacency": adjacency, "model": model}
    values: dict[str, Any] = {
        "file": Path(f"{number}.json"),
        "name": f"release {number}",
        "protects": protected(scope, data),
        "day": date(2026, 1, day),
        "node": node,
        "verdict": "certified",
        "digest": f"{number}{day}",
    }
    return Entry(**values | changes)


def test_gaussian_releases_add_in_squares_and_the_order_is_that_of_dates() -> None:
    entries = [entry(Gaussian("b", 2), 9, 1), entry(Gaussian("a", 2), 2, 2)]
    (total,) = totals(entries, delta="1e-5")
    assert [row.entry.day.day for row in total.rows] == [2, 9]
    exact = Account(Compose(Gaussian("a", 2), Gaussian("b", 2)), central("replace_one"))
    bound = exact.epsilon(Fraction(1, 10**5))
    assert Fraction(total.epsilon_lower) <= bound.lower
    assert Fraction(total.epsilon_upper) >= Fraction(bound.upper)
    assert total.exact is not None
    assert total.exact["gdp"].startswith("sqrt(2)/2")
    assert float(total.rows[0].together) < float(total.rows[1].together)


def test_a_budget_leaves_exactly_what_is_not_spent() -> None:
    entries = [entry(Laplace("a", 2), 1, 1), entry(Laplace("b", 4), 2, 2)]
    (total,) = totals(entries, {"register": {"epsilon": "1"}})
    assert (total.left, total.over) == ("0.25", False)
    (total,) = totals(entries, {"register": {"epsilon": "0.7"}})
    assert (total.left, total.over) == ("-0.05", True)
    (total,) = totals([entry(Gaussian("a", 2))], {"register": {"rho": "0.5", "unit": "person"}})
    assert total.left == "0.375"
    (total,) = totals(entries, {"register": {"epsilon": "9", "unit": "household"}})
    assert "the budget is for one household" in total.refused


def test_a_budget_of_days_looks_at_the_worst_window() -> None:
    entries = [entry(Laplace(str(day), 2), day, day) for day in (1, 2, 20)]
    (total,) = totals(entries, {"register": {"epsilon": "2", "days": "7"}})
    assert [float(row.together) for row in total.rows] == [0.5, 1.0, 0.5]
    assert total.left == "1"


def test_units_and_adjacencies_are_not_mixed() -> None:
    one, other = (
        entry(Laplace("a", 2), 1, 1),
        entry(Laplace("b", 2), 2, 2, unit={"entity": "household"}),
    )
    (total,) = totals([one, other])
    assert "different units are not added" in total.refused
    assert total.rows == ()
    other = entry(Laplace("b", 2), 2, 2, adjacency="add_remove")
    (total,) = totals([one, other])
    assert "convert=true adds them under replace_one" in total.refused
    other = entry(Laplace("b", 2), 2, 2, adjacency="zero_out")
    (total,) = totals([one, other], convert=True)
    assert "replace_one and zero_out are not added" in total.refused
    both = totals([one, entry(Laplace("b", 2), 2, 2, data=("survey",))])
    assert [total.data for total in both] == ["register", "survey", "all data sets"]


def test_a_conversion_is_that_of_groups_of_two() -> None:
    entries = [entry(Laplace("a", 2), 1, 1), entry(Laplace("b", 2), 2, 2, adjacency="add_remove")]
    (total,) = totals(entries, {"register": {"epsilon": "2"}}, convert=True)
    assert total.adjacency == "replace_one"
    assert total.left == "0.5"
    entries = [entry(Gaussian("a", 2), 1, 1), entry(GDP(1), 2, 2, adjacency="add_remove")]
    (total,) = totals(entries, convert=True)
    group = Account(Group(GDP(1), 2), central("add_remove")).step("gdp").value
    assert group == 2
    assert total.exact is not None
    assert total.exact["gdp"].startswith("sqrt(17)/2")


def test_what_was_refuted_is_not_added(tmp_path: Path) -> None:
    with pytest.raises(CertificateRejected, match="what it lost is not known"):
        entry_of(caught(), tmp_path / "caught.json")


@pytest.mark.parametrize("delta", ["x", "1", "-0.1", "1/0"])
def test_a_delta_is_a_probability(delta: str) -> None:
    with pytest.raises(InvalidParameter, match="delta"):
        totals([entry(PureDP(1))], delta=delta)


@pytest.mark.usefixtures("verified_here")
def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("mechanisms", "audits"):
        (tmp_path / package).mkdir()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dpaudit.toml").write_text('[budgets."Data not stated"]\nepsilon = "0.1"\n')
    first = pure()
    later = {**first["predicate"], "issued": "2027-01-01T00:00:00Z"}
    save(first, tmp_path / "first.json")
    save(statement(later), tmp_path / "later.json")
    (tmp_path / "bad.json").write_text("{")

    def run(*arguments: str) -> tuple[int, str, str]:
        found = CliRunner().invoke(main, ["ledger", "total", *arguments])
        return found.exit_code, found.stdout, found.stderr

    code, out, err = run("first.json", "bad.json", "later.json", "--figure", "figures")
    assert code == 1
    assert "over budget" in out
    assert err.startswith("dpaudit: bad.json: not complete JSON")
    figure = (tmp_path / "figures" / "budget-1.svg").read_text("utf-8")
    ElementTree.fromstring(figure)  # noqa: S314  (our own)
    assert "var(--" not in figure
    (tmp_path / "dpaudit.toml").unlink()
    code, out, _ = run("first.json", "later.json", "--json", "--set", "delta=0")
    assert code == 0
    (total,) = json.loads(out)
    assert total["epsilon_upper"] == "0.666667"
    code, out, err = run("first.json", "later.json", "first.json", "--set", "since=2026-12-31")
    assert (code, err) == (0, "")
    assert out.count("certified under assumptions") == 1


def test_a_release_counts_once() -> None:
    with pytest.raises(InvalidParameter, match="the same release as"):
        totals([entry(PureDP(1)), entry(PureDP(1))])


def test_infinite_totals_are_named_and_not_drawn() -> None:
    svg = timeline_svg("register", [(date(2026, 1, 1), 1.0), (date(2026, 1, 2), float("inf"))], "0")
    assert "2026-01-02: inf" in svg


def test_a_ledger_tells_what_it_charged_and_has_left(tmp_path: Path) -> None:
    book = open_ledger(tmp_path / "ledger.db")
    scope = central("replace_one")
    terms = terms_of("person", scope, PureDP(1))
    book.create("register", terms)
    for number, noise in enumerate((Laplace("a", 2), Laplace("b", 3))):
        book.charge(
            "register", "person", scope, terms.cost(noise), str(number), f"release {number}"
        )
    found = CliRunner().invoke(
        main, ["ledger", "show", "--set", f"ledger={tmp_path}/ledger.db", "--json"]
    )
    assert found.exit_code == 0, found.output
    (row,) = json.loads(found.stdout)
    spent = [charge["spent"] for charge in row["history"]]
    assert spent == [["0.5 epsilon"], ["0.833334 epsilon"]]
    assert row["left"] == ["0.166666 epsilon"]
    assert row["unfinished"] == ["release 0", "release 1"]
    text = (
        CliRunner().invoke(main, ["ledger", "show", "--set", f"ledger={tmp_path}/ledger.db"]).stdout
    )
    assert "left: 0.166666" in text
    assert CliRunner().invoke(main, ["ledger", "total"]).exit_code == 2


# --- whom releases protect, in which data ---------------------------------------------------------

OTHERS = {
    "a part of a person's time": {"period": "day", "bound": "one day of one person"},
    "a part of a person's rows": {"bound": "one visit of one person"},
    "another kind": {"kind": "client"},
    "another entity": {"entity": "household"},
}


@pytest.mark.parametrize("unit", OTHERS.values(), ids=OTHERS)
def test_a_guarantee_for_another_unit_is_not_added(unit: Mapping[str, Any], monkeypatch) -> None:
    entries = [entry(Laplace("a", 2), 1, 1), entry(Laplace("b", 2), 2, 2, unit=unit)]
    (total,) = totals(entries, delta="0")
    assert "different units are not added" in total.refused
    for text in unit.values():
        assert text in total.unit
    (own,) = totals(entries[1:], {"register": {"epsilon": "9", "unit": "person"}})
    assert ("the budget is for one person" in own.refused) is (unit != OTHERS["another kind"])
    monkeypatch.setattr(Protected, "unit_key", property(lambda self: ("", "person", "", "")))
    (total,) = totals(entries, delta="0")
    assert total.epsilon_upper == "1"


def test_the_bound_of_a_whole_person_is_no_other_unit() -> None:
    """It says how contributions are limited; all of a person's are protected."""
    rows = [{"kind": "user", "bound": f"at most {rows} rows count"} for rows in (1, 2)]
    entries = [entry(Laplace("a", 2), day, day, unit=row) for day, row in enumerate(rows, 1)]
    (total,) = totals(entries, delta="0")
    assert total.epsilon_upper == "1"


def test_a_release_of_several_data_sets_counts_in_each_of_them() -> None:
    entries = [
        entry(Laplace("a", 2), 1, 1, data=("clinic",)),
        entry(Laplace("b", 2), 2, 2, data=("clinic", "registry")),
        entry(Laplace("c", 4), 3, 3, data=("registry",)),
    ]
    found = totals(entries, {"Registry ": {"epsilon": "0.7"}}, delta="0")
    assert {total.data: total.epsilon_upper for total in found} == {
        "clinic": "1",
        "registry": "0.75",
        "all data sets": "1.25",
    }
    assert [total.over for total in found] == [False, True, False]
    assert [total.of_all for total in found] == [False, False, True]


def test_the_sum_over_all_data_sets_is_refused_where_units_differ() -> None:
    unit = OTHERS["a part of a person's time"]
    entries = [entry(Laplace("a", 2), 1, 1), entry(Laplace("b", 2), 2, 2, unit, data=("b",))]
    *_, whole = totals(entries, delta="0")
    assert whole.of_all
    assert "different units are not added" in whole.refused


def test_names_that_are_compared_alike_are_one_data_set() -> None:
    names = ("Clinic", "clinic ", "CLINIC", "\uff43linic", "clinic\u00a0")
    entries = [entry(Laplace("a", 1), i, i, data=(name,)) for i, name in enumerate(names, 1)]
    (total,) = totals(entries, delta="0")
    assert (total.data, total.epsilon_upper) == ("Clinic", "5")
    with pytest.raises(InvalidParameter, match="two of them are of the same data set"):
        totals(entries, {"clinic": {"epsilon": "1"}, "Clinic": {"epsilon": "1"}})


DISGUISED = {
    "\u0441linic": "mixes the letters of CYRILLIC and LATIN",
    "clin\u03b9c": "mixes the letters of GREEK and LATIN",
    "clinic\u200b": "U+200B, which is not seen",
    "cli\u00adnic": "U+00AD, which is not seen",
    "clinic\ufe0f": "U+FE0F, which is not seen",
    "clinic\u3164": "U+3164, which is not seen",
    "\u202eclinic": "U+202E, which is not seen",
}


@pytest.mark.parametrize("name", DISGUISED)
def test_a_name_in_disguise_is_added_to_nothing(name: str, monkeypatch) -> None:
    made = pure()
    for place in ("data", "entity"):
        predicate = json.loads(json.dumps(made["predicate"]))
        if place == "data":
            predicate["fields"] = {"data_source": ["registry", name]}
        else:
            predicate["scope"]["unit"]["entity"] = name
        with pytest.raises(CertificateRejected, match=DISGUISED[name].replace("+", r"\+")):
            entry_of(statement(predicate), Path("a.json"))
    monkeypatch.setattr(scope, "disguise", lambda name: "")
    assert entry_of(statement(predicate), Path("a.json")).protects.entity == name


@pytest.mark.parametrize(
    "name", ["Krankenhaus Köln", "Регистр", "病院データ ABC", "clinic_2026-a", "e\u0301"]
)
def test_a_plain_name_is_no_disguise(name: str) -> None:
    assert scope.disguise(name) == ""


def test_what_is_outside_of_the_guarantees_is_named_first(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    predicate = json.loads(json.dumps(pure()["predicate"]))
    predicate["scope"]["data_accesses"]["uncovered"] = ["the exact maximum was published"]
    predicate["scope"]["invariants"] = ["the number of records of every village"]
    told = entry_of(statement(predicate), Path("a.json"))
    (total,) = totals([told])
    assert total.outside[:2] == (
        "a.json: outside of its guarantee: the exact maximum was published",
        "a.json: stays exact: the number of records of every village",
    )
    monkeypatch.setattr("dpaudit.certificate.budget.chosen", lambda *_, **__: iter([told]))
    (tmp_path / "a.json").touch()
    shown = CliRunner().invoke(main, ["ledger", "total", "a.json"]).output
    assert 0 <= shown.index("exact maximum") < shown.index("together")
    (row,) = json.loads(CliRunner().invoke(main, ["ledger", "total", "a.json", "--json"]).stdout)
    assert row["outside_of_the_guarantees"] == list(total.outside)


def test_a_sum_of_several_models_says_against_whom_it_holds() -> None:
    entries = [entry(PureDP(1), 1, 1), entry(PureDP(1), 2, 2, model="local")]
    (total,) = totals(entries, delta="0")
    assert total.epsilon_upper == "2"
    assert "models central, local: the sum holds against who sees releases" in total.outside[0]
