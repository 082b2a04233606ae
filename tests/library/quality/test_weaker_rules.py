"""Every rule of the checker that gives a tenth less is noticed, on some declaration."""

from __future__ import annotations

from functools import cache

import pytest

from tests.support.weaker_rules import CONVERTED, Case, accepts_less, cases, rules, survivors
from tests.support.weaker_rules import weaker_conversion as weaker


@cache
def known() -> list[Case]:
    return cases()


@pytest.mark.parametrize("calculus", list(CONVERTED))
def test_every_theorem_that_gives_a_tenth_less_is_noticed(calculus: str) -> None:
    seen, unseen = survivors(calculus, known())
    assert unseen == []
    assert len(seen) == sum(rule.calculus == calculus for rule in rules())


@pytest.mark.parametrize("calculus", list(CONVERTED))
def test_a_conversion_that_accepts_a_tenth_less_is_noticed(calculus: str) -> None:
    assert not accepts_less(calculus)
    with weaker(calculus):
        assert accepts_less(calculus)
