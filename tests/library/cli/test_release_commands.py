"""plan, release and ledger: what they print, write, spend and refuse."""

from __future__ import annotations

import csv
import json
import math
import shutil
import sqlite3
from fractions import Fraction
from functools import partial
from pathlib import Path
from statistics import NormalDist
from typing import Any

import click
import pytest
from click.testing import CliRunner

from dpaudit import ledger as ledgers
from dpaudit.certificate.evidence import FEWEST_TRIALS
from dpaudit.cli import release_commands
from dpaudit.cli.main import main
from dpaudit.errors import InvalidParameter, OutputNotWritable
from dpaudit.releases import publish as publishing
from dpaudit.releases.plan import load_plan
from dpaudit.tabular import source

pytestmark = pytest.mark.usefixtures("planned_once")
PLAN = """
title = "People, 2026"
adjacency = "add_remove"
ledger = "ledger.sqlite"

[budget]
epsilon = 1
delta = 1e-6

[table]
name = "people"
unit = "person"
entity = "person"
rows = 2

[table.columns]
age = { kind = "number", lower = 0, upper = 100, missing = "drop" }
sex = { kind = "category", keys = ["f", "m"] }

[[items]]
name = "persons"
query = "count"
per_group = 1

[[items]]
name = "by sex"
query = "count"
by = "sex"
groups = 1
"""


def run(*arguments: str) -> Any:
    return CliRunner().invoke(main, list(map(str, arguments)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "plan.toml").write_text(PLAN)
    rows = [[i // 2, 20 + i % 60, "fm"[i % 2]] for i in range(2000)]
    with (tmp_path / "people.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([["person", "age", "sex"], *rows])
    return tmp_path


def opened(folder: Path, *more: str) -> Any:
    cap = more or ("--budget", "epsilon=2.5 delta=1e-5")
    given = ("--set", "entity=person", "adjacency=add_remove", *cap)
    return run("ledger", "init", "people", *given, "--set", f"ledger={folder}/ledger.sqlite")


def release(folder: Path, out: str = "out", *more: str) -> Any:
    plan, data = folder / "plan.toml", folder / "people.csv"
    given = ("--data", data, "--out", folder / out, "--trials", "300")
    return run("release", str(plan), *map(str, given), *more)


def test_one_rule_says_how_few_trials_attack_a_release(tmp_path: Path) -> None:
    """The command, publish() and dp.open() (see the tests of sessions) take as few."""
    (option,) = (param for param in release_commands.release.params if param.name == "trials")
    assert isinstance(option.type, click.IntRange)
    assert option.type.min == FEWEST_TRIALS
    plan: Any = None
    with pytest.raises(InvalidParameter, match=f"at least {FEWEST_TRIALS}"):
        publishing.publish(plan, "people.csv", tmp_path, trials=FEWEST_TRIALS - 1)


@pytest.mark.quality
def test_a_plan_says_cost_and_error_before_data_are_touched(folder: Path) -> None:
    assert opened(folder).exit_code == 0
    found = run("release", str(folder / "plan.toml"), "--json")
    assert found.exit_code == 0, found.output
    table = json.loads(found.stdout)
    assert [row["part"] for row in table["parts"]] == ["persons", "by sex"]
    assert 5 < int(table["parts"][0]["error_95"]) < 20
    assert 0.99 < float(table["guarantee"]["epsilon at delta 1e-6"]) <= 1
    assert table["ledger"]["spent"] == ["0 epsilon", "0 delta"]


def deviations(table: Any) -> tuple[float, float]:
    """What ``dpaudit plan`` prints of the noise on persons, and on persons by sex."""
    rows = [row["scale"].removeprefix("standard deviation ") for row in table["parts"]]
    return float(rows[0]), float(rows[1])


@pytest.mark.long_cases("rho = 0.05", "mu = 0.3")
@pytest.mark.parametrize("budget", ["epsilon = 1\ndelta = 1e-6", "rho = 0.05", "mu = 0.3"])
def test_the_measures_of_a_plan_are_those_of_its_printed_noise(folder: Path, budget: str) -> None:
    """One person moves the first count by 1, and one cell of the second by up to 2 (rows = 2).

    Discrete Gaussian noise of variance v on squares s: rho = s / (2 v), Renyi divergences rho times
    their order (Canonne, Kamath, Steinke 2020, Proposition 5 and Theorem 14); mu is at least
    sqrt(s / v), that of Gaussian noise, and above it by a part of 1 / (20 v).  The epsilon is that
    of Gaussian noise of such a mu (Balle, Wang 2018, Theorem 8), to half a percent.
    """
    plan = PLAN.replace("epsilon = 1\ndelta = 1e-6", budget)
    plan = plan.replace('query = "count"', 'query = "count"\nnoise = "gaussian"')
    (folder / "plan.toml").write_text(plan.replace('ledger = "ledger.sqlite"\n', ""))
    found = run("release", str(folder / "plan.toml"), "--json")
    assert found.exit_code == 0, found.output
    table = json.loads(found.stdout)
    told = table["guarantee"]
    first, second = deviations(table)
    squared = 1 / first**2 + 4 / second**2
    assert float(told["rho (zcdp)"]) == pytest.approx(squared / 2, rel=1e-4)  # seen from outside
    rows = dict(reversed(row.split(" at order ")) for row in told["renyi"].split(", "))
    assert list(rows) == ["2", "4", "8", "16", "32", "64"]
    leaves: Any = load_plan(folder / "plan.toml").plan().leaves
    exact = 1 / (2 * leaves["persons"].variance) + 4 / (2 * leaves["by sex"].variance)
    for value, order in [(told["rho (zcdp)"], "1"), *zip(rows.values(), rows, strict=True)]:
        # Printed from above.
        assert 1 <= Fraction(value) / (int(order) * exact) <= 1 + Fraction(1, 10**5)
    mu = float(told["mu (gdp)"])
    part = 1 / (20 * min(first, second) ** 2)
    assert squared**0.5 * (1 - 1e-5) <= mu <= squared**0.5 * (1 + part)
    epsilon, normal = float(told["epsilon at delta 1e-6"]), NormalDist()

    def delta(mu: float) -> float:
        low = normal.cdf(-mu / 2 - epsilon / mu)
        return normal.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * low

    assert delta(squared**0.5 * 0.995) < 1e-6 < delta(squared**0.5 * 1.005)


def test_the_epsilon_of_a_pure_plan_is_that_of_its_printed_noise(folder: Path) -> None:
    """Discrete Laplace noise of scale t on a count that moves by s: s / t, and these add up."""
    plan = PLAN.replace("delta = 1e-6\n", "").replace('ledger = "ledger.sqlite"\n', "")
    (folder / "plan.toml").write_text(plan)
    table = json.loads(run("release", str(folder / "plan.toml"), "--json").stdout)

    def scale(deviation: float) -> float:
        """Of variance 2 q / (1 - q)^2, where q = exp(-1 / t)."""
        square = deviation**2
        return -1 / math.log((square + 1 - math.sqrt(2 * square + 1)) / square)

    first, second = deviations(table)
    expected = 1 / scale(first) + 2 / scale(second)
    assert float(table["guarantee"]["epsilon (pure)"]) == pytest.approx(expected, rel=1e-4)
    assert 0.999 < expected <= 1 + 1e-5


@pytest.mark.quality
def test_a_plan_over_budget_is_shown_and_refused(folder: Path) -> None:
    opened(folder, "--budget", "epsilon=0.5 delta=1e-5")
    found = run("release", str(folder / "plan.toml"))
    assert found.exit_code == 2
    assert "does not fit" in found.output
    assert "persons" in found.output
    assert release(folder).exit_code == 2
    assert not (folder / "out" / "release.csv").exists()


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("released")
    (folder / "plan.toml").write_text(PLAN)
    rows = [[i // 2, 20 + i % 60, "fm"[i % 2]] for i in range(2000)]
    with (folder / "people.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([["person", "age", "sex"], *rows])
    assert opened(folder).exit_code == 0
    return folder, release(folder)


@pytest.mark.quality
def test_a_release_writes_exact_values_with_their_certificate(published: Any) -> None:
    folder, found = published
    assert found.exit_code == 0, found.output
    rows = list(csv.DictReader((folder / "out" / "release.csv").open()))
    assert [row["item"] for row in rows] == ["persons", "by sex", "by sex"]
    assert abs(int(rows[0]["value"]) - 1000) < 60  # over ten deviations
    whole = json.loads((folder / "out" / "release.json").read_text())
    assert whole["noisy"]["persons"] == [rows[0]["value"]]
    import pyarrow.parquet as pq

    table = pq.read_table(folder / "out" / "release.parquet").to_pylist()
    assert [row["value"] for row in table] == [row["value"] for row in rows]
    verified = run("verify", str(folder / "out" / "certificate" / "people_2026.json"))
    assert verified.exit_code == 0, verified.output
    # The command line that ran the release is not a place in its program.
    page = (folder / "out" / "certificate" / "people_2026.html").read_text()
    assert "core.py" not in page
    assert "release_commands.py" not in page


@pytest.mark.quality
def test_running_it_again_refuses_and_spends_nothing(published: Any) -> None:
    folder, _ = published
    before = run("ledger", "show", "--json", "--set", f"ledger={folder}/ledger.sqlite").stdout
    for out, said in (("out", "is there"), ("other", "was released on")):
        found = release(folder, out)
        assert found.exit_code == 2
        assert said in found.output
    after = run("ledger", "show", "--json", "--set", f"ledger={folder}/ledger.sqlite").stdout
    assert before == after
    assert json.loads(after)[0]["charges"] == 1
    assert run("ledger", "verify", "--set", f"ledger={folder}/ledger.sqlite").exit_code == 0


@pytest.mark.quality
def test_a_published_certificate_is_made_again_from_its_plan_alone(
    published: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of made-up tables; whatever opens a file of data raises here."""
    folder, _ = published
    monkeypatch.setattr(source, "_file", forbidden)
    certificate = str(folder / "out" / "certificate" / "people_2026.json")
    plan = str(folder / "plan.toml")
    again = run("verify", certificate, "--replay", "--fresh", "--set", f"plan={plan}", "seconds=60")
    assert again.exit_code == 0, again.output
    assert "plan=" in run("verify", certificate, "--replay").output
    (tmp_path / "plan.toml").write_text(PLAN.replace("upper = 100", "upper = 120"))
    other = run("verify", certificate, "--replay", "--set", f"plan={tmp_path / 'plan.toml'}")
    assert other.exit_code == 14
    assert "plan: another file than the certificate's" in other.output


@pytest.mark.quality
def test_a_digit_changed_after_publication_fails_verification(
    published: Any, tmp_path: Path
) -> None:
    folder, _ = published
    shutil.copytree(folder / "out", tmp_path / "out")
    certificate = str(tmp_path / "out" / "certificate" / "people_2026.json")
    command = ("verify", certificate, "--published", str(tmp_path / "out"))
    for as_published in (run(*command), run("verify", str(tmp_path / "out"))):
        assert as_published.exit_code == 0, as_published.output
    table = tmp_path / "out" / "release.csv"
    header, first, *rest = table.read_text().splitlines()
    cells = first.split(",")
    place = header.split(",").index("value")
    before, cells[place] = cells[place], "999999"
    table.write_text("\n".join([header, ",".join(cells), *rest, ""]))
    changed = run(*command, "--json")
    assert changed.exit_code == 14
    (missing,) = json.loads(changed.stdout)[0]["missing"]
    assert missing.startswith("release.csv, row 1 (")
    assert f"column value: '999999' is published, '{before}' certified" in missing
    of_folder = run("verify", str(tmp_path / "out"), "--json")
    assert json.loads(of_folder.stdout)[0]["missing"] == [missing]
    assert "--published" in run("verify", certificate, certificate, *command[2:]).output


def forbidden(*_: object) -> None:
    raise AssertionError("private data were opened")


@pytest.mark.quality
def test_certify_of_a_plan_opens_no_data_and_is_made_again_without_any(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside its data, where opening them raises, and in a folder that holds the plan alone.

    All is the same but how much the examination tried, which has a limit of time.
    """
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1795219200")
    monkeypatch.setattr(source, "_file", forbidden)
    alone = tmp_path_factory.mktemp("alone")
    (alone / "plan.toml").write_text(PLAN)
    made = []
    for place in (folder, alone):
        monkeypatch.chdir(place)
        command = ("certify", "plan.toml", "--seed", "1", "--trials", "300")
        found = run(*command)
        assert found.exit_code == 0, found.output
        predicate = json.loads((place / "reports" / "people_2026.json").read_bytes())["predicate"]
        assert predicate["run"] is None
        assert predicate["reproduce"]["command"] == " ".join(("dpaudit", *command))
        assert (place / "reports" / "people_2026.html").exists()
        tried = predicate.pop("conformance")
        made.append((predicate, [row["check"] for row in tried]))
        assert not [row for row in tried if row["status"] == "broken"]
    assert made[0] == made[1]
    assert not (folder / "ledger.sqlite").exists()


def test_a_release_without_a_ledger_has_to_be_asked_for(folder: Path) -> None:
    (folder / "plan.toml").write_text(PLAN.replace('ledger = "ledger.sqlite"\n', ""))
    found = release(folder)
    assert found.exit_code == 2
    assert "--no-ledger" in found.output


BAD = {
    "a column that is missing": ("person,age\n1,2\n", "no column 'sex'"),
    "text for numbers": ("person,age,sex\n1,old,f\n", "holds text where numbers are declared"),
    "a key not in the schema": ("person,age,sex\n1,2,x\n", "a key that is not in the schema in 1"),
    "rows of nobody": ("person,age,sex\n,2,f\n", "'person' has no unit in 1 row"),
    "no value": ("person,age,sex\n1,2,\n", "column 'sex' has no value in 1 row"),
}


@pytest.mark.parametrize(("rows", "said"), BAD.values(), ids=BAD)
def test_data_that_do_not_fit_get_a_line_an_exit_code_and_spend_nothing(
    folder: Path, rows: str, said: str
) -> None:
    opened(folder)
    (folder / "people.csv").write_text(rows)
    found = release(folder)
    assert found.exit_code == 2
    assert said in found.output
    assert "Traceback" not in found.output
    shown = run("ledger", "show", "--json", "--set", f"ledger={folder}/ledger.sqlite")
    assert json.loads(shown.stdout)[0]["charges"] == 0
    assert not (folder / "out" / "release.csv").exists()


def test_ledgers_that_are_missing_or_of_another_data_set_are_refused(folder: Path) -> None:
    found = release(folder)
    assert found.exit_code == 2
    assert "no ledger is there" in found.output
    given = ("--set", "entity=person", "adjacency=add_remove", "--budget", "epsilon=1")
    place = ("--set", f"ledger={folder}/ledger.sqlite")
    assert run("ledger", "init", "houses", *given, *place).exit_code == 0
    found = release(folder)
    assert found.exit_code == 2
    assert "it has no account of 'people' (it has: houses)" in found.output


@pytest.fixture
def unattacked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose releases are not attacked first, which has tests of its own."""
    real = publishing.publish

    def publish(*given: Any, **named: Any) -> Any:
        return real(*given, **named | {"trials": 0})

    monkeypatch.setattr(publishing, "publish", publish)
    return folder


def test_the_operator_alone_is_told_how_many_values_were_changed(unattacked: Path) -> None:
    folder = unattacked
    opened(folder)
    table = (folder / "people.csv").read_text()
    (folder / "people.csv").write_text(table + "7001,-99,f\n7002,999,m\n7003,,m\n")
    plan = PLAN.replace('missing = "drop"', 'missing = "drop", missing_codes = [-99]')
    (folder / "plan.toml").write_text(plan)
    found = release(folder, "out", "--json")
    assert found.exit_code == 0, found.output
    told = [line for line in found.stderr.splitlines() if "not private" in line]
    assert told == [
        "not private, for you alone (publish it nowhere): column 'age' has no value (left out) in "
        "2 rows; column 'age' holds values outside its bounds, or between its steps "
        "(counted as the nearest) in 1 row"
    ]
    assert "not private, for" not in found.stdout
    for path in (folder / "out").rglob("*.*"):
        assert b"in 2 rows" not in path.read_bytes(), path


def test_a_release_is_charged_in_the_ledger_of_the_projects_file(
    unattacked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan that names none; without the file it is asked for one."""
    folder = unattacked
    monkeypatch.chdir(folder)
    (folder / "plan.toml").write_text(PLAN.replace('ledger = "ledger.sqlite"\n', ""))
    opened(folder)
    assert release(folder).exit_code == 2
    (folder / "dpaudit.toml").write_text('[settings]\nledger = "ledger.sqlite"\n')
    found = release(folder)
    assert found.exit_code == 0, found.output
    assert ledgers.open_ledger(folder / "ledger.sqlite").state("people").count == 1


def test_a_folder_of_files_is_released_as_one_table(unattacked: Path) -> None:
    """Persons whose rows lie in two files count once; the plan says which files are read."""
    folder, years = unattacked, unattacked / "years"
    opened(folder)
    years.mkdir()
    header, *rows = (folder / "people.csv").read_text().splitlines()
    for name, part in (("2025.csv", rows[::2]), ("2026.csv", rows[1::2]), ("notes.txt", ["none"])):
        (years / name).write_text("\n".join([header, *part, ""]))
    plan, given = str(folder / "plan.toml"), ("--data", str(years), "--out", str(folder / "out"))
    refused = run("release", plan, *given)
    assert "notes.txt: expected a .csv" in refused.output
    (folder / "plan.toml").write_text(PLAN.replace("rows = 2", 'rows = 2\nfiles = "20*.csv"'))
    found = run("release", plan, *given)
    assert found.exit_code == 0, found.output
    persons = next(csv.DictReader((folder / "out" / "release.csv").open()))
    assert abs(int(persons["value"]) - 1000) < 60  # over ten deviations


@pytest.mark.quality
def test_every_schema_of_a_data_set_is_charged_to_its_one_account(unattacked: Path) -> None:
    """A cap of 2.5 takes two releases of epsilon 1, whatever form their schemas have."""
    folder = unattacked
    cap = ("--budget", "epsilon=2.5 delta=1e-5", "--plan", str(folder / "plan.toml"))
    assert opened(folder, *cap).exit_code == 0
    forms = [("upper = 100", "upper = 120"), ("rows = 2", "rows = 1"), ('["f", "m"]', '["m", "f"]')]
    for year, form in enumerate(forms):
        plan = PLAN.replace(*form).replace("2026", str(2027 + year))
        (folder / "plan.toml").write_text(plan)
        found = release(folder, f"out{year}")
        assert found.exit_code == (0 if year < 2 else 2), found.output
    assert "epsilon does not fit" in found.output
    ledger = ledgers.open_ledger(folder / "ledger.sqlite")
    charged = [entry.body["schema"] for entry in ledger.entries("people") if "cost" in entry.body]
    assert len(set(charged)) == 2


def test_an_account_is_opened_for_the_units_of_a_plan(folder: Path) -> None:
    """Where every row is a unit too, which is another kind of unit than a person."""
    plan, place = str(folder / "plan.toml"), ("--set", f"ledger={folder}/ledger.sqlite")
    cap = ("--budget", "epsilon=3 delta=1e-5", *place)
    for data, more, said in (
        ("people", ("--plan", plan, "--set", "entity=dog"), "entity = dog: the plan's is person"),
        ("dogs", ("--plan", plan), "a plan for 'people', not for 'dogs'"),
        ("people", ("--set", "adjacency=add_remove"), "entity: missing; give --set entity="),
    ):
        found = run("ledger", "init", data, *more, *cap)
        assert found.exit_code == 2
        assert said in found.output
    asked = run("release", plan)
    assert f"ledger init people --plan {plan} --budget 'epsilon=... delta=...'" in asked.output
    rows = PLAN.replace('unit = "person"\nentity = "person"\nrows = 2\n', "")
    rows = rows.replace("per_group = 1\n", "").replace("groups = 1\n", "")
    (folder / "plan.toml").write_text(rows)
    assert run("ledger", "init", "people", "--plan", plan, *cap).exit_code == 0
    shown = run("release", plan)
    assert shown.exit_code == 0, shown.output
    assert "row(s) count" not in shown.output
    (folder / "plan.toml").write_text(PLAN)
    shown = run("release", plan)
    assert "its unit is 'row' (record), the release's is 'person' (user)" in shown.output
    assert "At most 2 row(s) of one person count; others are cut." in shown.output


@pytest.mark.parametrize("key", ["entity", "rows"])
def test_units_are_described_or_refused(folder: Path, key: str) -> None:
    """One row would count where nobody said how many, and be called a row."""
    lines = [line for line in PLAN.splitlines() if not line.startswith(f"{key} =")]
    (folder / "plan.toml").write_text("\n".join(lines))
    found = run("release", str(folder / "plan.toml"))
    assert found.exit_code == 2
    assert f"table.{key}: rows of one 'person' belong together" in found.output


# --- of bad input, with a line, an exit code, and what was spent ----------------------------------


def spent(folder: Path) -> tuple[int, list[str]]:
    """How many charges the ledger has, and which of them were never finished."""
    shown = run("ledger", "show", "--json", "--set", f"ledger={folder}/ledger.sqlite")
    (row,) = json.loads(shown.stdout)
    return row["charges"], row["unfinished"]


@pytest.fixture
def quick(unattacked: Path) -> Path:
    """Such a folder with a ledger."""
    assert opened(unattacked).exit_code == 0
    return unattacked


def refused(folder: Path, said: str, *more: str, code: int = 2) -> None:
    found = release(folder, "out", *more)
    assert found.exit_code == code, found.output
    assert said in found.output
    assert len(found.stderr.strip().splitlines()) == 1, "one clear line"
    assert not list((folder / "out").glob("release.*"))


@pytest.mark.quality
def test_no_value_where_numbers_are_declared_is_refused(quick: Path) -> None:
    (quick / "plan.toml").write_text(PLAN.replace(', missing = "drop"', ""))
    for empty in ("nan", ""):
        (quick / "people.csv").write_text(f"person,age,sex\n1,{empty},f\n2,30,m\n")
        refused(quick, "column 'age' has no value in 1 row")
    assert spent(quick) == (0, [])


@pytest.mark.first_case
@pytest.mark.parametrize("rows", ["", "1,1e9,f\n2,-5,m\n3,inf,f\n"])
def test_an_empty_table_and_values_outside_the_bounds_are_released(quick: Path, rows: str) -> None:
    """Whether a table is empty is private; a value outside its bounds counts as the nearest."""
    (quick / "people.csv").write_text("person,age,sex\n" + rows)
    found = release(quick)
    assert found.exit_code == 0, found.output
    (first, *_) = csv.DictReader((quick / "out" / "release.csv").open())
    assert abs(int(first["value"])) < 100  # over ten deviations
    assert spent(quick) == (1, [])


def test_duplicate_items_are_refused_by_name(quick: Path) -> None:
    (quick / "plan.toml").write_text(PLAN.replace('name = "by sex"', 'name = "persons"'))
    refused(quick, "persons: two items of one name")
    assert run("release", str(quick / "plan.toml")).exit_code == 2
    assert spent(quick) == (0, [])


def test_a_locked_and_a_read_only_ledger_are_named(
    quick: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = quick / "ledger.sqlite"
    connect = sqlite3.connect
    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", lambda u, **k: connect(u.replace("=rw", "=ro"), **k))
        refused(quick, "mend its permissions. Nothing was charged")
    soon = partial(ledgers.open_ledger, wait=0.2)
    for place in (ledgers, publishing):
        monkeypatch.setattr(place, "open_ledger", soon)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    refused(quick, "another writer holds it; wait and run again. Nothing was charged")
    holder.execute("ROLLBACK")
    holder.close()
    assert spent(quick) == (0, [])


@pytest.mark.first_case
@pytest.mark.parametrize(
    "name",
    [
        "[1]*?{a,b}~$HOME'\";&|<>()!#%20 -\n\tü",
        "-o",
        "~",
        "sqlite:a?timeout=30#b",
        "file:x%5B1%5D?mode=memory",
        ":memory:",
    ],
)
def test_a_release_reads_and_writes_files_of_exactly_their_names(
    name: str, quick: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plan, data, ledger and folder; nothing else is there afterwards."""
    inside = quick / "inside"
    (inside / name).mkdir(parents=True)
    (quick / "people.csv").rename(inside / name / f"{name}.csv")
    monkeypatch.chdir(inside)
    place = json.dumps(f"./{name}")  # a text of TOML too
    text = PLAN.replace('"ledger.sqlite"', place)
    (inside / name / f"{name}.toml").write_text(text)
    given = ("--budget", "epsilon=2 delta=1e-5", "--set", "entity=person", "adjacency=add_remove")
    made = run("ledger", "init", "people", *given, "--set", f"ledger=./{name}/{name}")
    assert made.exit_code == 0, made.output
    data, out = f"--data={name}/{name}.csv", f"--out={name}/{name}.out"
    found = run("release", data, out, "--", f"{name}/{name}.toml")
    assert found.exit_code == 0, found.output
    shown = run("ledger", "show", "--json", "--set", f"ledger=./{name}/{name}")
    assert json.loads(shown.stdout)[0]["charges"] == 1, shown.output
    assert (inside / name / name).read_bytes().startswith(b"SQLite format 3")
    assert [path.name for path in inside.iterdir()] == [name]
    whole = json.loads((inside / name / f"{name}.out" / "release.json").read_text())
    assert int(whole["noisy"]["persons"][0]) == pytest.approx(1000, abs=60)


def test_a_release_that_was_drawn_is_finished_by_the_same_command(
    quick: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OutputNotWritable("out: No space left on device")

    with monkeypatch.context() as breaking:
        breaking.setattr(publishing, "write_together", full)
        found = release(quick)
    assert found.exit_code == 1
    assert "No space left on device" in found.output
    assert "run the same command again" in found.output
    assert spent(quick) == (1, ["People, 2026"])
    found = release(quick)
    assert found.exit_code == 0, found.output
    assert spent(quick) == (1, [])


def test_an_interrupted_release_says_that_its_charge_is_spent(
    quick: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as breaking:
        breaking.setattr(publishing, "draw", interrupted)
        breaking.setattr(publishing, "rehearse", lambda plan, targets: None)
        said = "was interrupted after it was charged (KeyboardInterrupt)"
        refused(quick, said, code=1)
    assert spent(quick) == (1, ["People, 2026"])
    refused(quick, "Its charge is spent; a new draw is a new release, under another title")
    plain = run("ledger", "show", "--set", f"ledger={quick}/ledger.sqlite")
    assert "charges stay spent: People, 2026" in plain.output
    verified = run("ledger", "verify", "--set", f"ledger={quick}/ledger.sqlite")
    assert verified.exit_code == 0
