"""Every text that becomes a number is bounded before it is read: long exponents are refused."""

from __future__ import annotations

import contextlib
import copy
import fractions
import json
import re
import tomllib
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from dpaudit.check.reading import decimal
from dpaudit.cli.main import main
from dpaudit.errors import DpauditError, InvalidParameter
from dpaudit.exact.domains import rational
from dpaudit.ledger.terms import read_terms
from dpaudit.releases.plan import release_of
from dpaudit.storage.fields import read_fields
from tests.library.cli.test_release_commands import PLAN
from tests.support.ledger import terms

HOSTILE = ["1e99999999", "1e-99999999", "1E+99999999", "9" * 100_000, f"1/{'9' * 100_000}"]
MANY = """
[[items]]
name = "mean"
query = "mean"
column = "age"
weight = 2

[[items]]
name = "quantiles"
query = "quantiles"
column = "age"
at = [0.5]

[[items]]
name = "least"
query = "minimum"
column = "age"
share = 0.02

[[items]]
name = "ages"
query = "count"
by = "age"
edges = [0, 50, 100]

[[items]]
name = "older"
query = "count"
where = { age = { above = 50 } }

[[items]]
name = "groups"
query = "groups"
column = "sex"
delta = 1e-8

[[post]]
kind = "round"
items = ["mean"]
to = 1
"""


class Guard:
    """Python's own reading of fractions, which reports what it should never be given."""

    def __init__(self, pattern: Any) -> None:
        self._pattern, self.given = pattern, list[str]()

    def match(self, text: str) -> Any:
        if "99999999" in text:
            self.given.append(text[:40])
            return None
        return self._pattern.match(text)


@pytest.fixture
def guard(monkeypatch: pytest.MonkeyPatch) -> Guard:
    found = Guard(fractions._RATIONAL_FORMAT)  # type: ignore[attr-defined]
    monkeypatch.setattr(fractions, "_RATIONAL_FORMAT", found)
    return found


def test_the_guard_sees_what_python_is_given(guard: Guard) -> None:
    with pytest.raises(ValueError, match="Invalid literal"):
        Fraction(HOSTILE[0])
    assert guard.given == [HOSTILE[0]]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:12])
def test_the_shared_reader_refuses_by_the_place(text: str, guard: Guard) -> None:
    with pytest.raises(InvalidParameter, match="--here"):
        rational(text, "--here")
    assert not guard.given


# --- options --------------------------------------------------------------------------------------


def options(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[Any]:
    """Every option of every command that takes a text or a number, and every setting."""
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            found = command.get_command(click.Context(command), name)
            assert found is not None
            yield from options(found, (*path, name))
        return
    for option in command.params:
        number = option.type in (click.STRING, click.INT, click.FLOAT)
        ranged = isinstance(option.type, click.IntRange | click.FloatRange)
        if isinstance(option, click.Option) and not option.is_flag and (number or ranged):
            words = [option.opts[0], *[HOSTILE[0]] * option.nargs]
            yield pytest.param(path, words, id=f"{' '.join(path)} {option.opts[0]}")
    for name in getattr(command, "settings", ()):
        words = ["--set", f"{name}={HOSTILE[0]}"]
        yield pytest.param(path, words, id=f"{' '.join(path)} {name}")


# What else a command needs before it looks at the option.
NEEDED = {
    "check": ["classics.laplace"],
    "ledger init": ["people", "--set", "entity=person", "adjacency=add_remove"],
    "ledger charge": ["people", "noisy_count", "--set", "entity=person"],
    "release": ["plan.toml", "--data", "people.csv", "--out", "out"],
    "account": ["noisy_count"],
    "ledger total": ["none.json"],
    "verify": ["none.json"],
    "run": [
        *("noisy_count", "--data", "people.csv", "--out", "out.npz"),
        *("--set", "ledger=l.sqlite", "dataset=people", "entity=person"),
    ],
    "audit": ["--scores", "in.txt", "out.txt"],
}


@pytest.mark.parametrize(("path", "words"), list(options(main)))
def test_an_option_is_bounded_before_it_is_read(
    path: tuple[str, ...], words: list[str], guard: Guard, tmp_path: Path
) -> None:
    """Whatever else is wrong with the call, Python's own reader never sees the text."""
    with contextlib.chdir(tmp_path):
        Path("plan.toml").write_text(PLAN)
        Path("people.csv").write_text("person,age,sex\n1,2,f\n")
        Path("none.json").write_text("{}")
        for name in ("in.txt", "out.txt"):
            Path(name).write_text("0.5\n0.25\n" * 20)
        needed = NEEDED.get(" ".join(path), [])
        found = CliRunner().invoke(main, [*path, *needed, *words])
    assert not guard.given
    assert not isinstance(found.exception, MemoryError | OverflowError | ValueError)


READ = [
    ("ledger init", ("--budget", f"epsilon={HOSTILE[0]}")),
    ("ledger init", ("--budget", f"1,{HOSTILE[0]}")),
    ("ledger init", ("--budget", f"renyi=2:{HOSTILE[0]}")),
    ("ledger total", ("--set", f"delta={HOSTILE[0]}")),
    ("verify", ("--max-epsilon", HOSTILE[0])),
]


@pytest.mark.first_case
@pytest.mark.parametrize(("path", "words"), READ)
def test_such_an_option_is_refused_by_name(path: str, words: tuple[str, str], tmp_path) -> None:
    with contextlib.chdir(tmp_path):
        Path("none.json").write_text("{}")
        found = CliRunner().invoke(main, [*path.split(), *NEEDED[path], *words])
        assert found.exit_code == 2, found.output
        names = {"epsilon", "delta", "--budget"} & set(re.findall(r"[-\w]+", found.output))
        assert names, found.output


# --- files ----------------------------------------------------------------------------------------


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict | list):
        keys = value if isinstance(value, dict) else range(len(value))
        for key in keys:
            yield from leaves(value[key], (*path, key))
    else:
        yield path


TABLE = tomllib.loads(PLAN + MANY)


@pytest.mark.parametrize("path", list(leaves(TABLE)), ids=lambda path: ".".join(map(str, path)))
@pytest.mark.parametrize(
    "text", [HOSTILE[0], HOSTILE[1], float("inf"), 10**1100], ids=["large", "small", "inf", "long"]
)
def test_a_plans_values_are_bounded(path: tuple[Any, ...], text: Any, guard: Guard) -> None:
    """Taken as a text where one is expected, else refused."""
    table = copy.deepcopy(TABLE)
    place = table
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = text
    try:
        release_of(table)
    except DpauditError as error:
        assert len(str(error)) < 2000  # noqa: PT017  (some texts are titles)
    assert not guard.given


@pytest.mark.parametrize("number", ["9" * 10_000, "0x" + "f" * 10_000, "1_" * 9_000 + "1"])
@pytest.mark.parametrize("key", ["epsilon = 1", "rows = 2", 'name = "persons"', 'by = "sex"'])
def test_a_plan_whose_numbers_are_too_long_for_python_is_refused(
    key: str, number: str, tmp_path: Path
) -> None:
    place = tmp_path / "plan.toml"
    place.write_text(PLAN.replace(key, f"{key.partition('=')[0]}= {number}"))
    found = CliRunner().invoke(main, ["release", str(place)])
    assert (found.exit_code, "plan.toml" in found.output) == (2, True), found.output


@pytest.mark.parametrize("key", ["epsilon", "delta", "rho", "days"])
@pytest.mark.parametrize("text", [*HOSTILE[:3], "1.5", "-1"])
def test_stated_budgets_are_bounded(key: str, text: str, guard: Guard, tmp_path: Path) -> None:
    others = {"epsilon": "1"} if key != "rho" else {}
    rows = "\n".join(f'{name} = "{value}"' for name, value in {**others, key: text}.items())
    (tmp_path / "dpaudit.toml").write_text(f'[budgets."people"]\n{rows}\n')
    if text == "1.5" and key != "days":
        read_fields(tmp_path)
    else:
        with pytest.raises(InvalidParameter, match=key):
            read_fields(tmp_path)
    assert not guard.given


@pytest.mark.parametrize("key", ["caps", "orders"])
@pytest.mark.parametrize("text", [*HOSTILE, "1e99999999/1"], ids=lambda text: text[:12])
def test_stored_terms_are_bounded(key: str, text: str, guard: Guard) -> None:
    row = json.loads(json.dumps(terms().to_json()))
    row[key] = [text, "0/1"]
    with pytest.raises(InvalidParameter):
        read_terms(row)
    assert not guard.given


@pytest.mark.parametrize("text", HOSTILE[:3])
def test_a_certificates_decimals_are_bounded(text: str, guard: Guard) -> None:
    with pytest.raises(DpauditError):
        decimal(text)
    assert not guard.given
