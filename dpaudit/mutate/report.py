"""Figures of a run of mutants: the share that is not certified, by operator, and the exit code."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from dpaudit.mutate.operators import OPERATORS
from dpaudit.mutate.run import CAUGHT, CERTIFIED, LEFT_ALONE, STATUSES, UNTOLD, Ran, Result

# Share of mutants that certify must not certify, unless the caller asks for another.
REQUIRED_SHARE = 0.95
# Exit code of `dpaudit mutate`: enough mutants that certify should not certify are not certified.
ENOUGH = 0
TOO_FEW = 1  # Exit code: too few are.
UNDECIDED = 3  # Exit code: no mutant was judged.
FLAGGED = 5  # Exit code: a right twin was flagged.


def rate(results: Iterable[Result]) -> float | None:
    """The share of judged mutants that are not certified; None if no mutant could be judged.

    Mutants that fail on ordinary records, act like the right program, or could not be judged do not
    count.
    """
    count = counts(results)
    judged = count[CAUGHT] + count[CERTIFIED]
    return count[CAUGHT] / judged if judged else None


def counts(results: Iterable[Result]) -> dict[str, int]:
    """The number of mutants of each status."""
    statuses = [r.status for r in results]
    return {status: statuses.count(status) for status in STATUSES}


def twins(results: Iterable[Result]) -> dict[str, int]:
    """The numbers of right twins that were left alone and flagged, without undecided ones."""
    decided = [r.twin for r in results if r.twin and not r.twin.startswith(UNTOLD)]
    alone = decided.count(LEFT_ALONE)
    return {"left_alone": alone, "flagged": len(decided) - alone}


def by_operator(results: Sequence[Result]) -> dict[str, dict[str, Any]]:
    """The figures of each operator that has a mutant."""
    groups = {o: [r for r in results if r.operator == o] for o in OPERATORS}
    return {
        name: {**counts(results_of), "rate": rate(results_of), **twins(results_of)}
        for name, results_of in groups.items()
        if results_of
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


def exit_code(ran: Ran, required: float = REQUIRED_SHARE) -> int:
    """5 if a right twin is flagged, 3 if no mutant was judged, 1 below ``required``, else 0."""
    share = rate(ran.results)
    if twins(ran.results)["flagged"]:
        return FLAGGED
    if share is None:
        return UNDECIDED
    return ENOUGH if share >= required else TOO_FEW


def lines(ran: Ran) -> list[str]:
    """The run for people: certified mutants, flagged twins, figures by operator, a total."""
    if not ran.results:
        why = ran.faults or "no operator fits its code"
        return [f"{ran.mechanism}: no mutant was run: {why}"]
    printed = [f"CERTIFIED {r.name}: {r.what}" for r in ran.results if r.status == CERTIFIED]
    printed += [
        f"RIGHT TWIN of {r.name} {r.twin}" for r in ran.results if r.twin not in ("", LEFT_ALONE)
    ]
    for operator in OPERATORS:
        of_operator = [r for r in ran.results if r.operator == operator]
        if of_operator:
            printed.append(f"  {operator:28} {_summary(of_operator)}")
    some = "" if len(ran.results) == ran.planted else f" of {ran.planted}"
    return [*printed, f"{ran.mechanism}: {len(ran.results)}{some} mutants, {_summary(ran.results)}"]


def _summary(results: Sequence[Result]) -> str:
    share, seconds = rate(results), statistics.median(r.seconds for r in results)
    share_text = "none that count" if share is None else f"{share:.1%} not certified"
    count = counts(results)
    parts = ", ".join(f"{count[s]} {s.replace('_', ' ')}" for s in STATUSES if count[s])
    return f"{share_text} ({parts}; median {seconds:.1f} s)"
