"""Fifty forged declarations; a hundred thousand more by ``make quality``."""

from __future__ import annotations

import pytest
import sympy

import dpaudit.check.derivation as derivation
import dpaudit.measures.calculus as calculus
import dpaudit.nodes.core as core
from dpaudit.errors import InvalidParameter
from dpaudit.exact import exact
from dpaudit.families.additive import Laplace
from dpaudit.families.composition import Compose, Repeat
from dpaudit.nodes import Leaf, Node
from dpaudit.nodes.registry import load
from tests.support import wire_fuzz
from tests.support.wire_draws import Draws, parts, table_of, tree_of
from tests.support.wire_fuzz import Judge, block
from tests.support.wire_oracle import known_types

DECLARATIONS, PARTS = 600, 12
EACH = DECLARATIONS // PARTS
# Some that were accepted while no domain was asked about every value of an index.
WITHOUT_DOMAINS = (12, 15, 48, 60, 87, 90, 134, 142, 158, 174, 185, 219)


@pytest.mark.first_case
@pytest.mark.parametrize("number", range(PARTS))
def test_no_bound_is_too_small_and_nothing_meaningless_is_accepted(number: int) -> None:
    """Deterministic: every inequality holds, and every refusal is made, or there is a bug."""
    assert block(range(number * EACH, (number + 1) * EACH))["violations"] == []


def false_bounds() -> list[str]:
    """Of declarations that are read without the domains of their parameters."""
    with wire_fuzz.without_domains():
        found = block(WITHOUT_DOMAINS, guarded=False)["violations"]
    return [text for text in found if text.split(": ")[1] in ("below", "upside down")]


@pytest.mark.quality
def test_without_domains_the_invariants_let_no_false_bound_pass() -> None:
    """The accountant's and the checker's, each on its own."""
    assert false_bounds() == []


@pytest.mark.quality
def test_without_invariants_false_bounds_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is drawn would show it if either were left out."""
    for module, name in ((calculus, "require_consistent"), (derivation, "require_possible")):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, lambda *given: None)
            assert len(false_bounds()) > 2


def test_the_first_schedule_below_zero_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """One round of a noise that is negative: nothing was asked about the index's values."""
    i = sympy.Symbol("i", integer=True, positive=True)
    monkeypatch.setattr(core, "checked", lambda value, place, domain: exact(value, place))
    late = Laplace("warm up", i - sympy.Rational(109, 99))
    slow = Repeat(Compose(Laplace("answers", "0.1"), late), 1, i)
    table = table_of(tree_of(slow))
    monkeypatch.undo()
    assert Judge(table, "add_remove", converted=None).judge().violations == []
    for module, name in ((calculus, "require_consistent"), (derivation, "require_possible")):
        monkeypatch.setattr(module, name, lambda *given: None)
    with wire_fuzz.without_domains():
        found = Judge(table, "add_remove", converted=None).judge().violations
    assert any("accountant pure 0.1 for 10.0" in text for text in found)
    assert any("checker pure 0.1 for 10.0" in text for text in found)


def test_an_index_is_asked_about_below_another_one() -> None:
    """What is inside depends on the outer index alone."""
    i, j = sympy.symbols("i j", integer=True, positive=True)
    with pytest.raises(InvalidParameter, match="was not shown for every i"):
        Repeat(Repeat(Laplace("a", i - 3), 2, j), 8, i)
    Repeat(Repeat(Laplace("a", i), 2, j), 8, i)


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
    drawn = {p["type"] for seed in range(3000) for p in parts(Draws(seed).declaration()[0])}
    assert shipped() == known_types() == drawn
