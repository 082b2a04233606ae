"""The derivation as an indented list: each conclusion above the premises it rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dpaudit.report import words
from dpaudit.report.model import Tree, TreeLine
from dpaudit.report.say import say
from dpaudit.report.words import Json

_MAX_INDENT = 8  # Levels of indentation; deeper ones would leave no room for text.


def tree(steps: Sequence[Json], claims: Sequence[Json]) -> Tree:
    """All steps as an indented list, each in full once, below the first step that uses it."""
    steps_by_id = {step["id"]: step for step in steps}
    serves = _served(claims)
    ids_seen: set[int] = set()
    lines: list[TreeLine] = []
    # Roots first.  The other steps follow, so that a derivation with a cycle is shown in full too.
    used = {premise for step in steps for premise in step["premises"]}
    ids = [step["id"] for step in steps]
    for root in [id_ for id_ in ids if id_ not in used] + ids:
        _walk(root, steps_by_id, serves, ids_seen, lines)
    return Tree(tuple(lines))


def _served(claims: Sequence[Json]) -> dict[int, list[str]]:
    serves: dict[int, list[str]] = {}
    for claim in claims:
        if claim["step"] is not None:
            serves.setdefault(claim["step"], []).append(claim["id"])
    return serves


def _walk(
    root: int,
    names: Mapping[int, Json],
    serves: Mapping[int, list[str]],
    seen: set[int],
    lines: list[TreeLine],
) -> None:
    if root in seen:
        return
    stack = [(root, 0)]
    while stack:
        id_, depth = stack.pop()
        if id_ in seen or id_ not in names:
            lines.append(_reference(id_, depth, seen=id_ in seen))
            continue
        seen.add(id_)
        lines.append(_line(names[id_], depth, serves.get(id_, [])))
        stack += [(premise, depth + 1) for premise in reversed(names[id_]["premises"])]


def _reference(id_: int, depth: int, *, seen: bool) -> TreeLine:
    text = (
        say("see step {step} above", step=str(id_))
        if seen
        else say("step {step} is missing", step=str(id_))
    )
    return TreeLine(min(depth, _MAX_INDENT), say("Step {step}", step=str(id_)), "", text, "", ())


def _line(step: Json, depth: int, claims: list[str]) -> TreeLine:
    # Long witnesses are shortened; the certificate holds them in full.
    witness = step["witness"]
    candidates: list[tuple[str, str]] = [
        (say("Applies to"), _short(step["node_text"])),
        (say("Exact value"), step["expression"]),
        (say("Attained"), say("yes") if words.is_attained(step) else say("not shown")),
        (say("Assumes"), ", ".join(step["assumes"])),
        (say("Witness"), ", ".join(f"{key} = {_short(value)}" for key, value in witness.items())),
        (say("Serves claim"), ", ".join(claims)),
    ]
    return TreeLine(
        depth=min(depth, _MAX_INDENT),
        label=say("Step {step}", step=str(step["id"])),
        conclusion=words.guarantee(step["conclusion"], "upper"),
        rule=f"{step['rule']} ({step['calculus']})",
        cite=step["cite"],
        details=tuple((label, text) for label, text in candidates if text),
    )


def _short(value: Any) -> str:
    text = str(value)
    return (
        text if len(text) <= 160 else f"{text[:80]}… ({say('{count} characters', count=len(text))})"
    )
