"""What a run of mutants is worth: kill rates, survivors, and the exit code."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from dpaudit.mutate.ladder import EQUIVALENT, HARMLESS, KILLED, SURVIVED, Result
from dpaudit.mutate.mutant import FAMILIES
from dpaudit.mutate.run import Ran

STATUSES = (KILLED, SURVIVED, EQUIVALENT, HARMLESS)
REQUIRED = 0.95
ENOUGH, TOO_FEW, UNDECIDED, FLAGGED = 0, 1, 3, 5


def kill_rate(results: Sequence[Result]) -> float | None:
    """Killed over killed and survived; None where there is neither.

    Mutants that change nothing (equivalent), or cost no privacy (harmless), do not count.
    """
    count = counts(results)
    told = count[KILLED] + count[SURVIVED]
    return count[KILLED] / told if told else None


def counts(results: Sequence[Result]) -> dict[str, int]:
    """How many mutants have each status."""
    return {status: sum(r.status == status for r in results) for status in STATUSES}


def median_seconds(results: Sequence[Result]) -> float | None:
    """Median time of a mutant."""
    return statistics.median(r.seconds for r in results) if results else None


def as_json(ran: Ran) -> dict[str, Any]:
    """The whole run as JSON."""
    families = {f: [r for r in ran.results if r.family == f] for f in FAMILIES}
    return {
        "target": ran.target,
        "mechanism": ran.mechanism,
        "title": ran.title,
        "seed": ran.seed,
        "trials": ran.trials,
        "planted": ran.planted,
        "run": len(ran.results),
        "unchanged": ran.faults or "held",
        "hostile_records": ran.hostile,
        **counts(ran.results),
        "kill_rate": kill_rate(ran.results),
        "median_seconds": median_seconds(ran.results),
        "families": {
            name: {**counts(found), "kill_rate": kill_rate(found)}
            for name, found in families.items()
            if found
        },
        "mutants": [asdict(r) for r in ran.results],
    }


def exit_code(ran: Ran, required: float = REQUIRED) -> int:
    """5 if the unchanged target is flagged, 3 if nothing can be told, 1 below the rate, else 0."""
    rate = kill_rate(ran.results)
    if ran.faults:
        return FLAGGED
    if rate is None:
        return UNDECIDED
    return ENOUGH if rate >= required else TOO_FEW


def lines(ran: Ran) -> list[str]:
    """The run for people: each survivor with its line, the rates by family, the sum."""
    if ran.faults:
        return [f"{ran.mechanism}: its audits flag it as it is, so no mutant was run: {ran.faults}"]
    found = [_line(r) for r in ran.results if r.status == SURVIVED]
    for family in FAMILIES:
        own = [r for r in ran.results if r.family == family]
        if own:
            found.append(f"  {family:14} {_summary(own)}")
    if not ran.hostile:
        found.append("  hostile records left out: the program's own queries do not withstand them")
    return [*found, f"{ran.mechanism}: {len(ran.results)} mutants, {_summary(ran.results)}"]


def _line(result: Result) -> str:
    return f"SURVIVED {result.name} ({result.where}): {result.what}"


def _summary(results: Sequence[Result]) -> str:
    rate, seconds = kill_rate(results), median_seconds(results)
    told = "none that count" if rate is None else f"{rate:.1%} killed"
    count = counts(results)
    parts = ", ".join(f"{count[status]} {status}" for status in STATUSES if count[status])
    return f"{told} ({parts}; median {seconds or 0:.1f} s)"
