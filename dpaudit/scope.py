"""Scope: what one unit of privacy is, which data sets are neighbours, who is trusted."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from dpaudit.errors import InvalidParameter

Choice = TypeVar("Choice", bound=StrEnum)

# Text of a certificate where its author says nothing; pages say it in their own language.
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
    """The unit of privacy."""

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
    """The part of a run that an observer sees."""

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
        """A copy under another adjacency."""
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


# How many characters of a value an error shows.
LONGEST = 80
# Alphabets with letters that look like those of another one.
_ALPHABETS = frozenset({"LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU"})
_UNSEEN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
# Characters of other categories that are drawn as nothing, by words of their names.
_UNSEEN_WORDS = ("VARIATION SELECTOR", "FILLER", "JOINER", "BRAILLE PATTERN BLANK")


def name_key(name: str) -> str:
    """A name as it is compared: compatible forms of letters, cases and blanks are one.

    >>> name_key(" Clinic\u00a0A") == name_key("clinic a")
    True
    """
    folded = unicodedata.normalize("NFKC", name).casefold()
    return " ".join(unicodedata.normalize("NFKC", folded).split())


def disguise(name: str) -> str:
    """Why a name may be read as another one; empty where nothing in it suggests that.

    A name that is spelled in the letters of one other alphabet throughout is not recognised.

    >>> disguise("\u0441linic")
    'it mixes the letters of CYRILLIC and LATIN'
    """
    for letter in name:
        word = unicodedata.name(letter, "")
        if unicodedata.category(letter) in _UNSEEN or any(w in word for w in _UNSEEN_WORDS):
            return f"it holds U+{ord(letter):04X}, which is not seen"
    letters = filter(str.isalpha, unicodedata.normalize("NFKC", name))
    used = {unicodedata.name(letter, "").partition(" ")[0] for letter in letters} & _ALPHABETS
    return f"it mixes the letters of {' and '.join(sorted(used))}" if len(used) > 1 else ""


def disguised(*names: str) -> list[str]:
    """The names that may be read as another one, and why, a line a name."""
    return [f"{ascii(name)[:LONGEST]}: {disguise(name)}" for name in names if disguise(name)]


def refuse_disguise(name: str, place: str) -> None:
    """Refuse a name that may be read as another one.  Errors: InvalidParameter."""
    if why := disguise(name):
        raise InvalidParameter(f"{place} = {ascii(name)[:LONGEST]}: {why}; write another name")


@dataclass(frozen=True)
class Protected:
    """Whom a guarantee protects, in which data: guarantees are added for the same ones only.

    ``kind``, ``entity``, ``period``, ``bound``: the unit, whose period is empty where all times
    are protected.  ``adjacency``, ``model``, ``outputs``: of the scope.  ``data``: the data sets.
    """

    kind: str
    entity: str
    period: str
    bound: str
    adjacency: str
    model: str
    outputs: tuple[str, ...]
    data: tuple[str, ...]

    @property
    def unit_key(self) -> tuple[str, str, str, str]:
        """The unit as it is compared.

        A record's bound says which part of an entity a record is.  A user's or client's says how
        the contributions of all of it are limited, and leaves the unit as it is.
        """
        bound = self.bound if self.kind == Unit.RECORD else ""
        entity, period, part = map(name_key, (self.entity, self.period, bound))
        return self.kind, entity, period, part

    @property
    def unit(self) -> str:
        """The unit in words."""
        kind, _, period, part = self.unit_key
        more = [kind, *([f"period {self.period}"] if period else []), *([self.bound] * bool(part))]
        return f"{self.entity or NOT_STATED} ({', '.join(more)})"

    @property
    def data_keys(self) -> frozenset[str]:
        """The data sets as they are compared."""
        return frozenset(map(name_key, self.data))

    @property
    def disguises(self) -> list[str]:
        """Names that may be read as another name, one line each."""
        return disguised(*self.data, self.entity, self.period)


def protected(scope: Mapping[str, Any], data: tuple[str, ...]) -> Protected:
    """Whom the scope of a certificate protects, in these data sets."""
    row = scope["unit"]
    # A membership audit names its unit as a text.
    unit: Mapping[str, Any] = row if isinstance(row, Mapping) else {"entity": row}
    texts = (unit.get(name) or "" for name in ("kind", "entity", "period", "bound"))
    kind, entity, period, bound = ("" if text == NOT_STATED else str(text) for text in texts)
    outputs = tuple(map(str, scope.get("outputs", ())))
    model = str(scope.get("model", ""))
    return Protected(kind, entity, period, bound, str(scope["adjacency"]), model, outputs, data)


_FIELDS: dict[str, type[StrEnum]] = {
    "adjacency": Adjacency,
    "unit": Unit,
    "trust": Trust,
    "released": Released,
}


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
