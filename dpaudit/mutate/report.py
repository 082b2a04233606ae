"""What a run of mutants is worth: how many are not certified, by operator, and the exit code."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from dpaudit.mutate.operators import OPERATORS
from dpaudit.mutate.run import CAUGHT, CERTIFIED, LEFT_ALONE, STATUSES, UNTOLD, Ran, Result

REQUIRED = 0.95
ENOUGH, TOO_FEW, UNDECIDED, FLAGGED = 0, 1, 3, 5


def rate(results: Iterable[Result]) -> float | None:
    """Not certified over all that can be told; None where nothing can.

    Mutants that fail on ordinary records, or of which nothing could be told, do not count.
    """
    count = counts(results)
    told = count[CAUGHT] + count[CERTIFIED]
    return count[CAUGHT] / told if told else None


def counts(results: Iterable[Result]) -> dict[str, int]:
    """How many mutants have each status."""
    found = [r.status for r in results]
    return {status: found.count(status) for status in STATUSES}


def twins(results: Iterable[Result]) -> dict[str, int]:
    """How many right twins were left alone, and flagged; of one that took too long, neither."""
    told = [r.twin for r in results if r.twin and not r.twin.startswith(UNTOLD)]
    alone = told.count(LEFT_ALONE)
    return {"left_alone": alone, "flagged": len(told) - alone}


def by_operator(results: Sequence[Result]) -> dict[str, dict[str, Any]]:
    """Figures of each operator that has a mutant."""
    groups = {o: [r for r in results if r.operator == o] for o in OPERATORS}
    return {
        name: {**counts(found), "rate": rate(found), **twins(found)}
        for name, found in groups.items()
        if found
    }


def as_json(ran: Ran) -> dict[str, Any]:
    """The whole run as JSON."""
    return {
        "target": ran.target,
        "mechanism": ran.mechanism,
        "seed": ran.seed,
        "planted": ran.planted,
        "run": len(ran.results),
        "right_program": ran.right,
        "found_without_any": ran.faults,
        **counts(ran.results),
        "rate": rate(ran.results),
        "twins": twins(ran.results),
        "operators": by_operator(ran.results),
        "mutants": [asdict(r) for r in ran.results],
    }


def exit_code(ran: Ran, required: float = REQUIRED) -> int:
    """5 if a right twin is flagged, 3 if nothing can be told, 1 below the rate, else 0."""
    found = rate(ran.results)
    if twins(ran.results)["flagged"]:
        return FLAGGED
    if found is None:
        return UNDECIDED
    return ENOUGH if found >= required else TOO_FEW


def lines(ran: Ran) -> list[str]:
    """The run for people: each mutant that is certified, figures by operator, the sum."""
    if not ran.results:
        why = ran.faults or "no operator fits its code"
        return [f"{ran.mechanism}: no mutant was run: {why}"]
    found = [f"CERTIFIED {r.name}: {r.what}" for r in ran.results if r.status == CERTIFIED]
    found += [
        f"RIGHT TWIN of {r.name} {r.twin}" for r in ran.results if r.twin not in ("", LEFT_ALONE)
    ]
    for operator in OPERATORS:
        own = [r for r in ran.results if r.operator == operator]
        if own:
            found.append(f"  {operator:28} {_summary(own)}")
    some = "" if len(ran.results) == ran.planted else f" of {ran.planted}"
    return [*found, f"{ran.mechanism}: {len(ran.results)}{some} mutants, {_summary(ran.results)}"]


def _summary(results: Sequence[Result]) -> str:
    found, seconds = rate(results), statistics.median(r.seconds for r in results)
    told = "none that count" if found is None else f"{found:.1%} not certified"
    count = counts(results)
    parts = ", ".join(f"{count[s]} {s.replace('_', ' ')}" for s in STATUSES if count[s])
    return f"{told} ({parts}; median {seconds:.1f} s)"
