"""Two certificates compared: each value that differs, by the part that it belongs to."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Json: TypeAlias = Mapping[str, Any]
# The part of each place of a predicate, of the longest entry that the place begins with.
PARTS = {
    "claims": "claim",
    "verdict": "claim",
    "in_plain_words": "claim",
    "derivation": "claim",
    "assumptions": "claim",
    "caveats": "claim",
    "mechanism.declaration": "noise",
    "mechanism.declaration_text": "noise",
    "mechanism.digest": "noise",
    "scope": "noise",
    "scope.title": "data",
    "scope.data_accesses": "data",
    "run": "data",
    "mechanism": "program",
    "examination": "program",
    "conformance": "program",
    "audits": "attack",
    "likelihoods": "attack",
    "fields": "fields",
    "scope.controller": "fields",
    "environment": "checker",
    "issued": "issue",
    "reproduce": "issue",
}
# The parts of a certificate, the most important first.
ORDER = ("claim", "noise", "data", "program", "attack", "fields", "checker", "issue")
KEYS = ("id", "name", "check", "claim")  # of which one tells the rows of a list apart
ABSENT = object()
MAX_SHOWN = 120  # Characters of a value that are shown.


@dataclass(frozen=True)
class Change:
    """A value that differs: its part and place, and its text before and after.

    ``before`` and ``after``: JSON values; ``None`` where ``added`` or ``removed`` says so.
    """

    part: str
    place: str
    before: Any
    after: Any
    kind: str

    def __str__(self) -> str:
        if self.kind == "changed":
            texts = _text(self.before), _text(self.after)
            pairs = enumerate(zip(*texts, strict=False))
            same = next((k for k, (text, other) in pairs if text != other), min(map(len, texts)))
            before, after = (_short(value, same) for value in (self.before, self.after))
            return f"{self.place}: {before} before, {after} now"
        value = self.before if self.kind == "removed" else self.after
        return f"{self.place}: {_short(value)} {self.kind}"


def changes(old: Json, new: Json) -> list[Change]:
    """The values that differ, in the order of ``ORDER``, those further out first."""
    before, after = dict(_values(old["predicate"])), dict(_values(new["predicate"]))
    differing = []
    # Summaries stand higher in a certificate than what they are of.
    for place in sorted(dict.fromkeys([*before, *after]), key=len):
        old_value, other = before.get(place, ABSENT), after.get(place, ABSENT)
        if old_value == other and type(old_value) is type(other):
            continue
        kind = "added" if old_value is ABSENT else "removed" if other is ABSENT else "changed"
        values = [None if value is ABSENT else value for value in (old_value, other)]
        differing.append(Change(part_of(place), ".".join(place), values[0], values[1], kind))
    return sorted(differing, key=lambda change: ORDER.index(change.part))


def part_of(place: tuple[str, ...]) -> str:
    """The part that a place of a predicate belongs to."""
    for length in range(len(place), 0, -1):
        if part := PARTS.get(".".join(place[:length])):
            return part
    return "claim"


def _values(value: Any, place: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The innermost values with their places; lists of numbers and texts are one value."""
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _values(inner, (*place, key))
    elif (
        isinstance(value, list) and value and any(isinstance(row, (Mapping, list)) for row in value)
    ):
        for key, inner in zip(_keys(value), value, strict=True):
            yield from _values(inner, (*place, key))
    else:
        yield place, value


def _keys(rows: list[Any]) -> list[str]:
    """Names of a list's rows: a key in which all differ, or else their numbers."""
    for key in KEYS:
        names = [row.get(key) if isinstance(row, Mapping) else None for row in rows]
        if all(isinstance(name, str) for name in names) and len(set(names)) == len(names):
            return [str(name) for name in names]
    return [str(number) for number in range(1, len(rows) + 1)]


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _short(value: Any, same: int = 0) -> str:
    """A value as JSON; of a long one the part about where it differs, after ``same`` characters."""
    text = _text(value)
    if len(text) <= MAX_SHOWN:
        return text
    start = max(0, same - MAX_SHOWN // 2)
    end = start + MAX_SHOWN
    return "…" * (start > 0) + text[start:end] + "…" * (end < len(text))
