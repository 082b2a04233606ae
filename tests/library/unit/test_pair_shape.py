"""A project's pair whose delta is no privacy profile is refused, with its name and the place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from dpaudit.errors import InvalidParameter
from dpaudit.pairs import Symmetric, balls, one


@dataclass(frozen=True)
class Given(Symmetric):
    """A pair with any delta."""

    formula: Callable[[Any], Any]

    def delta(self, x: Any, of: Any = None) -> Any:
        return self.formula(x)


def number(value: Any) -> Any:
    return balls.number(value)


def halves(x: Any) -> Any:
    """One fair coin that shows one of the two data sets: max(1/2, 1 - x/2)."""
    return (1 - x / 2).max(number(1) / 2)


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        (lambda x: number(-1), r"Given\.delta\(.*\) = -1.*: no pair has it"),
        (lambda x: number(2), r"Given\.delta\(.*\) = 2.*: no pair has it"),
        (lambda x: number(0), r"Given\.delta\(.*\) = 0: no pair has it; expected max\(0, 1 - x\)"),
        (lambda x: 0.5, r"Given\.delta: a float; expected an Arb ball"),
        (lambda x: (1 - x).max(x / (1 + x)), "bends downwards, or rises"),
        (lambda x: (1 - x * x / 4).max(number(0)), "bends downwards, or rises"),
    ],
)
def test_what_is_no_profile_is_refused(formula: Any, said: str) -> None:
    with pytest.raises(InvalidParameter, match=said):
        one(Given(formula))


def test_a_profile_is_taken_even_where_its_balls_are_wide() -> None:
    assert one(Given(halves)).pairs
    assert one(Given(lambda x: number(0).union(number(1)))).pairs


def test_without_the_look_a_rising_delta_would_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpaudit.pairs.losses.require_convex", lambda pair: None)
    assert one(Given(lambda x: (1 - x).max(x / (1 + x)))).pairs
