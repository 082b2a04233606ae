"""Scope: what one unit of privacy is, which data sets are neighbours, who is trusted."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from dpaudit.errors import InvalidParameter

Choice = TypeVar("Choice", bound=StrEnum)

# What a certificate holds where its author says nothing; pages say it in their own language.
NOT_STATED = "not stated"


class Adjacency(StrEnum):
    """Which pairs of data sets a guarantee speaks of.

    ``ADD_REMOVE``: one has one record more.  ``REPLACE_ONE``: equal size, one record differs.
    ``ZERO_OUT``: equal public size, one record's contribution becomes exactly zero.

    >>> import dpaudit as dp
    >>> dp.Scope("replace-one", "record", "central", "output").adjacency is dp.Adjacency.REPLACE_ONE
    True
    """

    ADD_REMOVE = "add_remove"
    REPLACE_ONE = "replace_one"
    ZERO_OUT = "zero_out"


class Unit(StrEnum):
    """What one unit of privacy is."""

    RECORD = "record"
    USER = "user"
    CLIENT = "client"


class Trust(StrEnum):
    """Who sees data before noise is added."""

    CENTRAL = "central"
    LOCAL = "local"
    SHUFFLE = "shuffle"
    FEDERATED = "federated"
    DISTRIBUTED = "distributed"


class Released(StrEnum):
    """What an observer sees of a run."""

    TRANSCRIPT = "transcript"
    LAST_ITERATE = "last_iterate"
    OUTPUT = "output"


@dataclass(frozen=True)
class Scope:
    """The scope of a guarantee; nothing in it has a default, so nothing in it is hidden.

    ``adjacency``, ``unit``, ``trust`` and ``released`` take the enumerations above or their names.
    Errors: InvalidParameter for a name that is none of them.

    >>> import dpaudit as dp
    >>> print(dp.Scope("add_remove", unit="user", trust="central", released="output"))
    add_remove of one user, central model, output released
    """

    adjacency: Adjacency
    unit: Unit
    trust: Trust
    released: Released

    def __post_init__(self) -> None:
        for name, kind in _FIELDS.items():
            object.__setattr__(self, name, choose(kind, getattr(self, name), f"Scope.{name}"))

    def under(self, adjacency: Adjacency | str) -> Scope:
        """The same scope under another adjacency."""
        chosen = choose(Adjacency, adjacency, "Scope.adjacency")
        return Scope(chosen, self.unit, self.trust, self.released)

    def __str__(self) -> str:
        return f"{self.adjacency} of one {self.unit}, {self.trust} model, {self.released} released"


def central(adjacency: Adjacency | str) -> Scope:
    """The scope of most accountants: per record, a trusted curator, the whole transcript released.

    Errors: InvalidParameter for a name that is no adjacency.

    >>> import dpaudit as dp
    >>> print(dp.central("add_remove"))
    add_remove of one record, central model, transcript released
    """
    chosen = choose(Adjacency, adjacency, "adjacency")
    return Scope(chosen, Unit.RECORD, Trust.CENTRAL, Released.TRANSCRIPT)


_FIELDS: dict[str, type[StrEnum]] = {
    "adjacency": Adjacency,
    "unit": Unit,
    "trust": Trust,
    "released": Released,
}


LONGEST = 80


def choose(kind: type[Choice], value: object, place: str) -> Choice:
    """The member of an enumeration with this name; an error that lists the names otherwise."""
    try:
        return kind(str(value).replace("-", "_"))
    except ValueError:
        names = ", ".join(member.value for member in kind)
        raise InvalidParameter(f"{place} = {shown(value)}: expected one of {names}") from None


def shown(value: object) -> str:
    """A value of any kind for an error, cut where it is long."""
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
