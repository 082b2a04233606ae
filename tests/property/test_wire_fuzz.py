"""Two thousand forged declarations; a hundred thousand by ``make quality``."""

from __future__ import annotations

import pytest

from dpaudit.nodes import Leaf, Node
from dpaudit.nodes.registry import load
from tests.wire_draws import Draws, parts
from tests.wire_fuzz import block
from tests.wire_oracle import known_types

DECLARATIONS, PARTS = 2000, 20
EACH = DECLARATIONS // PARTS


@pytest.mark.parametrize("number", range(PARTS))
def test_no_bound_is_too_small_and_nothing_meaningless_is_accepted(number: int) -> None:
    """Deterministic: every inequality holds, and every refusal is made, or there is a bug."""
    assert block(range(number * EACH, (number + 1) * EACH))["violations"] == []


def shipped() -> set[str]:
    load("node")
    kinds, pending = set(), [Node]
    while pending:
        kind = pending.pop()
        pending += kind.__subclasses__()
        if kind.__module__.startswith("dpaudit.families.") and kind is not Leaf:
            kinds.add(kind.__name__)
    return kinds


def test_every_shipped_type_is_drawn_and_known_to_the_oracle() -> None:
    drawn = {p["type"] for seed in range(2000) for p in parts(Draws(seed).declaration()[0])}
    assert shipped() == known_types() == drawn
