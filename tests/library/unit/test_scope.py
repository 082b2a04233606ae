"""A scope has no defaults, and takes names or members."""

from __future__ import annotations

import dataclasses

import pytest

from dpaudit.errors import InvalidParameter
from dpaudit.scope import Adjacency, Released, Scope, Trust, Unit, choose

GOOD = ("replace_one", "record", "central", "transcript")


def test_names_and_members_are_the_same_scope() -> None:
    named = Scope(*GOOD)
    assert named == Scope(Adjacency.REPLACE_ONE, Unit.RECORD, Trust.CENTRAL, Released.TRANSCRIPT)
    assert named.adjacency is Adjacency.REPLACE_ONE
    assert str(named) == "replace_one of one record, central model, transcript released"
    assert hash(named) == hash(Scope(*GOOD))


def test_nothing_has_a_default() -> None:
    assert all(
        f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
        for f in dataclasses.fields(Scope)
    )
    with pytest.raises(TypeError):
        Scope("replace_one", "record", "central")


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("value", ["", "none", None, 1, 0.5, Trust, "replace_on", "local "])
def test_unknown_names_are_refused_with_the_choices(place: int, value: object) -> None:
    fields = [*GOOD]
    fields[place] = value
    names = ("adjacency", "unit", "trust", "released")
    with pytest.raises(InvalidParameter, match=rf"Scope\.{names[place]} = .*expected one of \w+"):
        Scope(*fields)


def test_a_member_of_another_enumeration_is_refused() -> None:
    with pytest.raises(InvalidParameter, match=r"Scope\.unit"):
        Scope("replace_one", Trust.LOCAL, "central", "transcript")


def test_hyphens_are_read_as_underscores() -> None:
    assert choose(Adjacency, "zero-out", "place") is Adjacency.ZERO_OUT
    assert choose(Released, "last-iterate", "place") is Released.LAST_ITERATE


@pytest.mark.parametrize("adjacency", Adjacency)
def test_the_same_scope_under_another_adjacency(adjacency: Adjacency) -> None:
    scope = Scope("replace_one", "user", "federated", "output")
    other = scope.under(adjacency.value)
    assert other == Scope(adjacency, Unit.USER, Trust.FEDERATED, Released.OUTPUT)
    assert scope.adjacency is Adjacency.REPLACE_ONE
    with pytest.raises(InvalidParameter, match="expected one of add_remove"):
        scope.under("swap")


def test_a_scope_is_immutable() -> None:
    scope = Scope(*GOOD)
    with pytest.raises(dataclasses.FrozenInstanceError):
        scope.adjacency = Adjacency.ZERO_OUT
