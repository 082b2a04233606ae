"""A mechanism: what an entry of the catalogue must say."""

from __future__ import annotations

from typing import Any

import pytest

from dpaudit.accountant.claim import Claim, Outcome
from dpaudit.curator.mechanism import Mechanism, Metric, Setting
from dpaudit.errors import InvalidParameter
from dpaudit.families.additive import Gaussian
from dpaudit.families.opaque import GDP
from tests.support.kernels import REPLACE_ONE, Releases

CLAIM = Claim(GDP(1), by="this file")
SETTING = Setting("nobody", "record", "one row", ("one release",))


def mechanism(**changes: Any) -> Mechanism:
    given = {
        "name": "one_release",
        "title": "One release",
        "source": "this file",
        "program": Releases(Gaussian("a", 1), ()),
        "scope": REPLACE_ONE,
        "claims": [CLAIM],
        "setting": SETTING,
    }
    return Mechanism(**{**given, **changes})


def test_a_mechanism_declares_what_its_program_does_under_its_scope() -> None:
    found = mechanism()
    assert found.declaration == Gaussian("a", 1)
    assert found.claims == (CLAIM,)
    assert found.records is None
    assert found.evaluate is None
    assert Metric("loss", 0.5, covered=False).note == ""


@pytest.mark.parametrize("name", ["", "Two", "2_times", "with space", "a-b", "a/b", "../a"])
def test_names_are_snake_case(name: str) -> None:
    with pytest.raises(InvalidParameter, match=r"Mechanism\.name"):
        mechanism(name=name)


def test_a_mechanism_states_a_claim() -> None:
    with pytest.raises(InvalidParameter, match="at least one claim"):
        mechanism(claims=())


def test_all_claims_are_expected_to_be_proved_unless_it_says_otherwise() -> None:
    assert mechanism(claims=[CLAIM] * 2).expectations == (Outcome.PROVED, Outcome.PROVED)
    found = mechanism(claims=[CLAIM] * 2, expected=["refuted", Outcome.UNPROVED])
    assert found.expectations == found.expected == (Outcome.REFUTED, Outcome.UNPROVED)


@pytest.mark.parametrize(
    ("expected", "said"),
    [
        (["certified"], "expected one of proved, refuted, unproved, unsupported"),
        (["alarm"], "expected one of"),
        ("refuted", "expected one of"),
        (["refuted"] * 2, "2 expected of 1 claims"),
    ],
)
def test_an_expectation_is_an_outcome_of_each_claim(expected: Any, said: str) -> None:
    with pytest.raises(InvalidParameter, match=said):
        mechanism(expected=expected)
