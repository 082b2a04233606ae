"""The black-box audit as a command."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from dpaudit import GDP, ZCDP, ApproxDP, PureDP
from dpaudit.cli.main import main
from dpaudit.cli.membership import claim_of
from dpaudit.errors import DpauditError, InvalidParameter, UnknownTarget

SOURCE = """
def flip(data, rng, size):
    return rng.random(size) < (0.95 if data else 0.05)

def laplace(data, rng, size):
    return data + rng.laplace(0, 1, size)

def score(outputs):
    return -outputs

def scoreless(outputs):
    return outputs.sum()
"""


def test_a_function_is_audited_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "flipping.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    given = ["flipping:flip", "0", "1", "--claim", "1", "--trials", "2000", "--seed", "1"]
    done = CliRunner().invoke(main, ["audit", *given, "--json"])
    assert done.exit_code == 1
    assert json.loads(done.stdout)["verdict"] == "refuted"
    assert "refuted" in CliRunner().invoke(main, ["audit", *given]).stdout


@pytest.fixture
def flipping(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    (tmp_path / "flipping.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    sys.modules.pop("flipping", None)
    return ["--trials", "20000", "--seed", "1", "--json"]


def test_all_digits_or_a_score_of_ones_own(flipping: list[str]) -> None:
    """A plain sampler's low bits refute a true claim; the score refutes a false one only."""
    drawn = ["flipping:laplace", "0", "1", *flipping]
    by_default = CliRunner().invoke(main, ["audit", *drawn, "--claim", "1.05"])
    assert by_default.exit_code == 3
    assert "attack=bits" in json.loads(by_default.stdout)["findings"]["low_bits"]
    bits = CliRunner().invoke(main, ["audit", *drawn, "--claim", "1.05", "--set", "attack=bits"])
    assert bits.exit_code == 1
    assert "low_bits" not in json.loads(bits.stdout)["findings"]
    for epsilon, code in (("0.5", 1), ("1.05", 3)):
        given = [*drawn, "--claim", epsilon, "--set", "attack=flipping:score"]
        assert CliRunner().invoke(main, ["audit", *given]).exit_code == code


def test_confidence_and_error_rate_reach_the_audit(flipping: list[str]) -> None:
    given = ["flipping:flip", "0", "1", "--claim", "1", *flipping]
    sure, surer = (
        json.loads(CliRunner().invoke(main, ["audit", *given, "--set", f"confidence={c}"]).stdout)
        for c in ("0.9", "0.999")
    )
    assert (sure["confidence"], surer["confidence"]) == (0.9, 0.999)
    assert sure["epsilon_lower"] > surer["epsilon_lower"]
    found = json.loads(
        CliRunner().invoke(main, ["audit", *given, "--set", "refute_at=0.01"]).stdout
    )
    assert found["refute_at"] == 0.01


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        (
            ["--set", "attack=flipping:nothing"],
            UnknownTarget,
            "the module flipping has no 'nothing'",
        ),
        (["--set", "attack=digits"], UnknownTarget, "digits: expected MODULE:NAME"),
        (["--set", "attack=flipping:SOURCELESS"], UnknownTarget, "has no 'SOURCELESS'"),
        (["--set", "attack=flipping:scoreless"], InvalidParameter, "attack"),
        (["--set", "confidence=1"], InvalidParameter, "confidence = '1'"),
        (["--set", "confidence=nan"], InvalidParameter, "confidence = 'nan'"),
        (["--set", "refute_at=0"], InvalidParameter, "refute_at = '0'"),
    ],
)
def test_bad_options(
    arguments: list[str], error: type[DpauditError], said: str, flipping: list[str]
) -> None:
    given = ["flipping:laplace", "0", "1", "--claim", "1", *flipping]
    done = CliRunner().invoke(main, ["audit", *given, *arguments])
    assert done.exit_code == error.exit_code == 2
    assert said in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere:f", "0", "1", "--claim", "1"], "nowhere:f: there is no module 'nowhere'"),
        (["json:dumps", "0", "{", "--claim", "1"], "D1: expected JSON"),
        (["json:dumps", "0", "1"], "needs two data sets and a claim"),
        (["json:dumps", "0", "--claim", "1"], "needs two data sets and a claim"),
        (["json:dumps", "0", "1", "--claim", "1,2,3"], "EPSILON or EPSILON,DELTA"),
        (["json:dumps", "0", "1", "--claim", "nu=1"], "EPSILON or EPSILON,DELTA"),
        (["json:dumps", "0", "1", "--claim", "one"], "PureDP.epsilon = 'one'"),
        (["diff2_gd", "--claim", "1"], "declared mechanisms, which have claims of their own"),
    ],
)
def test_bad_arguments(arguments: list[str], said: str) -> None:
    done = CliRunner().invoke(main, ["audit", *arguments, "--seed", "1"])
    assert done.exit_code == 2
    assert said in done.stderr


def test_every_measure_can_be_claimed() -> None:
    assert claim_of("0.9") == PureDP("0.9")
    assert claim_of("0.9,1e-6") == ApproxDP("0.9", "1e-6")
    assert (claim_of("rho=1/2"), claim_of("mu=2")) == (ZCDP("0.5"), GDP(2))


def test_one_verb_attacks() -> None:
    assert "attack" not in main.commands


@pytest.mark.quality
def test_recorded_noise_is_an_option(flipping: list[str]) -> None:
    given = [
        "flipping:laplace",
        "0",
        "1",
        "--claim",
        "0.98",
        "--set",
        "generator=recorded",
        *flipping,
    ]
    done = CliRunner().invoke(main, ["audit", *given])
    assert done.exit_code == 1
    shown = json.loads(done.stdout)["recorded"]
    assert "one-to-one in the noise" in shown["assumption"]
    assert 0.99 < shown["lower"] <= 1
    assert "from likelihoods" in CliRunner().invoke(main, ["audit", *given[:-1]]).stdout
