"""Policies: what each rule refuses, and the how-to page's example as it is printed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dpaudit.certificate.certificate import save
from dpaudit.certificate.policy import RULE_FIELDS, Policy, read_policy
from dpaudit.cli.main import main
from dpaudit.errors import InvalidParameter
from dpaudit.families.additive import Laplace
from dpaudit.families.opaque import PureDP
from dpaudit.sign import make_keys, public_key
from tests.library.cli.bench import Json, certified, forged, mechanism, suite

PAGE = Path(__file__).parents[3] / "docs" / "policy.md"
Run = Callable[..., Any]


@cache
def noisy_mean() -> Json:
    """A Laplace mean of epsilon 1, claimed to be 2, with an audit that could have refuted it."""
    found = mechanism("noisy_mean", Laplace("laplace mean", 1), PureDP(2), labels=["laplace mean"])
    return certified(found, suite(found, 20_000)).certificate


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verified_here: None) -> Path:
    """A signed certificate, the officer's key, and a stranger's."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reports").mkdir()
    save(noisy_mean(), tmp_path / "reports" / "noisy_mean.json")
    for name in ("officer", "stranger"):
        make_keys(tmp_path / f"{name}.pem")
    assert run("sign", "reports/noisy_mean.json", "--key", "officer.pem").exit_code == 0
    return tmp_path


def run(*arguments: object) -> Any:
    return CliRunner().invoke(main, list(map(str, arguments)))


def verdict(folder: Path, rule: str, keys: str = "", *, code: int = 1) -> str:
    """What is missing of the certificate by a policy of one rule."""
    for name in ("officer", "stranger"):
        keys += f'[keys.{name}]\nfile = "{name}.pub"\n'
    (folder / "policy.toml").write_text(f"{keys}[[rules]]\n{rule}\n")
    result = run("verify", "--policy", "policy.toml", "reports/noisy_mean.json", "--json")
    assert result.exit_code == code, result.output
    (row,) = json.loads(result.stdout)
    assert row["file"] == "reports/noisy_mean.json"
    assert row["passed"] == (code == 0)
    return "; ".join(row["missing"])


def test_the_example_of_the_page_runs_as_it_is_printed(folder: Path) -> None:
    text = PAGE.read_text("utf-8")
    (command,) = re.findall(r"```sh\n(.*?)```", text, re.S)
    (policy,) = re.findall(r"```toml\n(.*?)```", text, re.S)
    written = policy.replace("KEY", public_key(folder / "officer.pub").id)
    issued = datetime.fromisoformat(noisy_mean()["predicate"]["issued"])
    days = (datetime.now(issued.tzinfo) - issued).days + 1
    (folder / "policy.toml").write_text(written.replace("days = 90", f"days = {days}"))
    program, *arguments = command.split()
    assert program == "dpaudit"
    accepted = run(*arguments)
    assert accepted.exit_code == 0, accepted.output
    (folder / "policy.toml").write_text(written.replace('epsilon = "5"', 'epsilon = "0.5"'))
    refused = run(*arguments)
    assert refused.exit_code == 1
    said = "policy, clinic means: wanted epsilon <= 0.5 at a delta of at most 1e-05"
    assert said in refused.stdout


def test_the_page_names_every_key_of_a_rule() -> None:
    rows = re.findall(r"^\| (`.*?) \|", PAGE.read_text("utf-8"), re.M)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert named == set(RULE_FIELDS) - {"name"}


ANY = 'mechanisms = ["noisy_*"]\n'
REFUSED = {
    'mechanisms = ["other_*"]': "no rule is of mechanism 'noisy_mean'",
    'data = ["another register"]': "no rule is of mechanism 'noisy_mean' on data",
    ANY + 'keys = ["stranger"]': "0 of 1 wanted signatures: none valid of stranger",
    ANY + 'keys = ["officer", "stranger"]\nthreshold = 2': "1 of 2 wanted signatures",
    ANY + 'verdict = "certified"': "the verdict is certified_under_assumptions, at least wanted",
    ANY + 'adjacency = "add_remove"': "the adjacency is 'replace_one', wanted: 'add_remove'",
    ANY + 'unit = "person"': "wanted: 'person (record)'",
    ANY + 'unit = "row"': "the unit is 'row (record, one row)', wanted: 'row (record)'",
    ANY + 'unit = "row"\nbound = "one row"\nperiod = "day"': "wanted: 'row (record, period day",
    ANY + 'kind = "user"': "the kind is 'record', wanted: 'user'",
    ANY + 'model = "local"': "the model is 'central', wanted: 'local'",
    ANY + 'outputs = ["output"]': "its outputs have 'transcript', which is not allowed",
    ANY + 'epsilon = "0.99"': "wanted epsilon <= 0.99 at a delta of at most 0: epsilon <= 1 is the",
    ANY + "mu = 1": "wanted mu <= 1: none is proved",
    ANY + 'rho = "0.1"': "wanted rho <= 0.1: none is proved",
    ANY + "days = 0": "more than 0 days ago",
    ANY + "assumptions = []": "it rests on the assumption real_arithmetic (declared)",
    ANY + 'implementation = { "mechanisms/case.py" = "' + "1" * 64 + '" }': "another file than",
    ANY + 'implementation = { "more.py" = "' + "0" * 64 + '" }': "more.py: another file than",
}  # fmt: skip


@pytest.mark.parametrize("rule", REFUSED)
def test_each_rule_refuses(rule: str, folder: Path) -> None:
    assert REFUSED[rule] in verdict(folder, rule)


def test_what_is_asked_for_is_accepted(folder: Path) -> None:
    wanted = (
        ANY + 'keys = ["officer", "stranger"]\nepsilon = "2"\naudit = true\n'
        'unit = "row"\nbound = "one row"\n'
        'implementation = { "mechanisms/case.py" = "' + "0" * 64 + '" }\n'
    )
    assert verdict(folder, wanted, code=0) == ""


def test_every_rule_that_applies_has_to_hold(folder: Path) -> None:
    two = 'name = "first"\n' + ANY + '[[rules]]\nname = "second"\n' + ANY + 'epsilon = "0.5"'
    assert verdict(folder, two).startswith("policy, second: wanted epsilon")


def test_an_audit_that_could_refute_is_wanted_of_every_claim(folder: Path) -> None:
    found = mechanism("noisy_mean", Laplace("laplace mean", 1), PureDP(2))
    save(certified(found).certificate, folder / "reports" / "noisy_mean.json")
    (folder / "reports" / "noisy_mean.json.dsse").unlink()
    assert "not audited" in verdict(folder, ANY + "audit = true")


def test_a_file_that_does_not_verify_keeps_its_exit_code(folder: Path) -> None:
    def lower(predicate: Json) -> None:
        predicate["derivation"]["steps"][0]["conclusion"]["epsilon"] = "0.1"

    save(forged(noisy_mean(), lower), folder / "reports" / "noisy_mean.json")
    assert verdict(folder, ANY, code=12)


def test_a_date_to_come_is_refused(folder: Path) -> None:
    verdict(folder, ANY + "days = 40000", code=0)
    policy = read_policy(folder / "policy.toml")
    issued = datetime.fromisoformat(noisy_mean()["predicate"]["issued"])
    row = {"verdict": "certified_under_assumptions", "powerless": [], "signatures": []}

    def said(days: int) -> list[str]:
        return policy.refusals(row, noisy_mean(), issued + timedelta(days=days))

    assert said(1) == []
    assert "which is to come" in said(-1)[0]
    assert "more than 40000 days ago" in said(40_001)[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "without a rule nothing would be accepted"),
        ("rule = 1", "did you mean 'rules'"),
        ("[[rules]]\nepsilon = '1'", "name the mechanisms or data"),
        ("[[rules]]\ndata = ['*']\nepsilom = '1'", "did you mean 'epsilon'"),
        ("[[rules]]\ndata = ['*']\nepsilon = 0.5", "as text"),
        ("[[rules]]\ndata = ['*']\nepsilon = '1e99999999'", "as text"),
        ("[[rules]]\ndata = ['*']\ndelta = '0.1'", "give its epsilon too"),
        ("[[rules]]\ndata = ['*']\nkeys = ['nobody']", "nothing is called 'nobody'"),
        ("[[rules]]\ndata = ['*']\nthreshold = 1", "0 keys may sign"),
        ("[[rules]]\ndata = ['*']\nverdict = 'passed'", "expected refuted"),
        ("[[rules]]\ndata = ['*']\ndays = true", "whole number of days"),
        ("[[rules]]\ndata = ['*']\naudit = 1", "true or false"),
        ("[[rules]]\ndata = '*'", "list of texts"),
        ("[[rules]]\ndata = ['*']\nimplementation = { a = 'b' }", "64 hex digits"),
        ("[keys.a]\nfile = 'officer.pub'\nsha256 = '00'\n[[rules]]\ndata = ['*']", "not this one"),
        ("[keys.a]\nfile = 'none.pub'\n[[rules]]\ndata = ['*']", "give a key file"),
        (
            "[keys.a]\nfile = 'officer.pub'\n[keys.b]\nfile = 'officer.pub'\n"
            "[[rules]]\ndata = ['*']\nkeys = ['a', 'b']\nthreshold = 2",
            "[keys.b]: the same key as a",
        ),
        ("[[rules]]\ndata = ['*']\nperiod = 'day'", "give their unit too"),
        ("x = ", "not TOML"),
    ],
)
def test_errors_of_a_policy_name_the_place(text: str, said: str, tmp_path: Path) -> None:
    make_keys(tmp_path / "officer.pem")
    path = tmp_path / "policy.toml"
    path.write_text(text)
    with pytest.raises(InvalidParameter, match=re.escape(said)) as refused:
        read_policy(path)
    assert str(tmp_path) in str(refused.value)


def test_without_its_rules_a_policy_would_accept(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Policy, "refusals", lambda *arguments: [])
    assert verdict(folder, ANY + 'epsilon = "0.1"', code=0) == ""


# --- every data set, and whom it protects ---------------------------------------------------------

ROW = {"verdict": "certified_under_assumptions", "powerless": [], "signatures": []}


def refused(folder: Path, rules: str, change: Callable[[Json], None]) -> list[str]:
    """What a policy says of a changed certificate."""
    (folder / "rules.toml").write_text(rules)
    made = json.loads(json.dumps(noisy_mean()))
    change(made["predicate"])
    return read_policy(folder / "rules.toml").refusals(ROW, made)


def sources(*names: str) -> Callable[[Json], None]:
    return lambda predicate: predicate.update(fields={"data_source": list(names)})


def test_every_data_set_of_a_certificate_has_to_have_a_rule(tmp_path: Path) -> None:
    rule = '[[rules]]\ndata = ["Clinic*"]\n'
    assert refused(tmp_path, rule, sources("clinic 2026")) == []
    said = refused(tmp_path, rule, sources("clinic 2026", "registry"))
    assert said == ["policy: no rule is of mechanism 'noisy_mean' on data 'registry'"]
    two = rule + '[[rules]]\nname = "r"\ndata = ["registry"]\nadjacency = "zero_out"\n'
    assert "policy, r: the adjacency" in refused(tmp_path, two, sources("clinic", "registry"))[0]


def test_a_data_set_in_disguise_is_accepted_by_no_rule(tmp_path: Path, monkeypatch) -> None:
    rule = '[[rules]]\ndata = ["*"]\n'
    (said,) = refused(tmp_path, rule, sources("\u0441linic"))
    assert said.startswith("policy: a name may be read as another one, ")
    monkeypatch.setattr("dpaudit.scope.disguise", lambda name: "")
    assert refused(tmp_path, rule, sources("\u0441linic")) == []


RULES = '[[rules]]\nname = "r"\nmechanisms = ["noisy_*"]\nverdict = "certified"\n[[rules]]\n'


def named(name: str) -> Callable[[Json], None]:
    return lambda predicate: predicate["mechanism"].update(name=name)


@pytest.mark.parametrize("name", ["noisy_mean", "Noisy_mean", "NOISY_MEAN", "\uff4eoisy_mean"])
def test_a_mechanism_is_found_by_its_name_as_it_is_read(name: str, tmp_path: Path) -> None:
    (said,) = refused(tmp_path, RULES + 'mechanisms = ["*"]\n', named(name))
    assert said.startswith("policy, r: the verdict")


@pytest.mark.parametrize(
    "name",
    ["noisy\u200b_mean", "\u200bnoisy_mean", "n\u043eisy_mean", "\x1b[31mnoisy", "x\nn"],
)
def test_a_mechanism_in_disguise_is_accepted_by_no_rule(name: str, tmp_path: Path) -> None:
    (said,) = refused(tmp_path, RULES + 'mechanisms = ["*"]\n', named(name))
    assert said.startswith("policy: a name may be read as another one, ")


def test_what_a_scope_leaves_out_is_allowed_by_name(tmp_path: Path) -> None:
    def change(predicate: Json) -> None:
        predicate["scope"]["data_accesses"]["uncovered"] = ["the exact maximum"]
        predicate["scope"]["invariants"] = ["the number of records"]

    rule = '[[rules]]\ndata = ["*"]\n'
    assert refused(tmp_path, rule, change) == []
    strict = rule + "uncovered = []\ninvariants = []\n"
    assert refused(tmp_path, strict, change) == [
        "policy, rule 1: its uncovered have 'the exact maximum', which is not allowed",
        "policy, rule 1: its invariants have 'the number of records', which is not allowed",
    ]
    named = rule + 'uncovered = ["the exact maximum"]\ninvariants = ["the number of records"]\n'
    assert refused(tmp_path, named, change) == []


def test_a_key_of_two_names_signs_once(folder: Path) -> None:
    """Where reading let both names in, the count would still be of keys."""
    (rule,) = read_rule(folder)
    key = rule.keys[0]
    twice = replace(rule, keys=(key, replace(key, name="bob")), threshold=2)
    valid = {"signatures": [{"key_id": key.id, "state": "valid"}]}
    (said,) = Policy((), (twice,)).refusals(ROW | valid, noisy_mean())
    assert "1 of 2 wanted signatures" in said


def read_rule(folder: Path) -> tuple[Any, ...]:
    text = '[keys.ann]\nfile = "officer.pub"\n[[rules]]\ndata = ["*"]\nkeys = ["ann"]\n'
    (folder / "policy.toml").write_text(text)
    return read_policy(folder / "policy.toml").rules
