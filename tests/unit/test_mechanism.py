"""A mechanism: what an entry of the catalogue must say."""

from __future__ import annotations

from typing import Any

import pytest

from dpaudit.claim import Claim
from dpaudit.errors import InvalidParameter
from dpaudit.mechanism import Mechanism, Metric, Setting
from dpaudit.nodes import GDP, Gaussian
from tests.kernels_for_tests import REPLACE_ONE, Releases

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
