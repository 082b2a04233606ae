"""Bugs planted in programs: how many of them ``certify`` reports, without an audit suite.

:func:`of_mechanism` plants mutants in one mechanism of the catalogue, drawn by a seed;
:func:`of_shape` certifies the hand-written wrong programs of ``tests/support/unseen_bugs.py``, of
one shape at a time, and their right twin.  ``python -m benchmarks.evidence planted written`` runs
all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import dpaudit as dp
from dpaudit.mutate import report
from dpaudit.mutate.operators import CODE, RELEASES
from dpaudit.mutate.run import CAUGHT, CERTIFIED, SAME, Order, Result, run
from dpaudit.project.project import foreign_catalogue
from tests.support.unseen_bugs import SHAPES, mechanism

ROOT = Path(__file__).resolve().parent.parent
STORE = ROOT / "reports" / ".mutants"  # finished mutants: an interrupted mechanism resumes here
# Mutants that break nothing, each with the proof, by "mechanism:operator@module:line.number".
EQUIVALENT = Path(__file__).with_name("equivalent.json")
MUTANTS = 4  # of each mechanism: about a minute of one core
TRIALS = 400  # of each audit, on each of the two data sets
WHAT = {**{k: v[0] for k, v in RELEASES.items()}, **{k: v.what for k, v in CODE.items()}}
CERTIFIED_VERDICT = "certified under assumptions"
Json = dict[str, Any]


def mechanisms() -> list[str]:
    """Names of the catalogue's mechanisms."""
    return [row.name for row in foreign_catalogue(ROOT) if not row.error]


def of_mechanism(name: str) -> Json:
    """Counts by operator of one mechanism's mutants, and the mutants that were certified.

    ``operators`` maps an operator to [reported, certified, breaking nothing, twins left alone,
    twins flagged].  Mutants that fail on ordinary records or take too long are not counted.
    """
    return counted(name, run(Order(name, ROOT, seed=1, limit=MUTANTS, store=STORE)).results)


def counted(name: str, results: Sequence[Result]) -> Json:
    """The counts, of the results of one mechanism's mutants."""
    proved = json.loads(EQUIVALENT.read_text("utf-8"))
    judged = [
        replace(r, status=SAME) if r.status == CERTIFIED and f"{name}:{r.name}" in proved else r
        for r in results
    ]
    counts = {
        operator: [row[CAUGHT], row[CERTIFIED], row[SAME], row["left_alone"], row["flagged"]]
        for operator, row in report.by_operator(judged).items()
    }
    missed = [f"{r.operator} at {r.where}" for r in judged if r.status == CERTIFIED]
    return {"operators": counts, "certified": missed}


def shapes() -> list[str]:
    """Names of the hand-written programs."""
    return [kind.__name__ for kind, _, _ in SHAPES]


def of_shape(name: str) -> Json:
    """Verdicts of the wrong programs of one shape, by bug; the right twin's is under ""."""
    kind, adjacency, bugs = next(row for row in SHAPES if row[0].__name__ == name)
    verdicts = {
        bug: dp.certify(mechanism(kind, adjacency, bug), seed=1, trials=TRIALS).verdict
        for bug in ("", *bugs)
    }
    return {"shape": (kind.__doc__ or "").strip().partition("\n")[0], "verdicts": verdicts}


# --- the page ------------------------------------------------------------------------------------


def by_operator(parts: Mapping[str, Json]) -> dict[str, list[int]]:
    """Counts of all mechanisms, operator by operator; operators without a mutant are left out."""
    sums = {operator: [0] * 5 for operator in WHAT}
    for part in parts.values():
        for operator, counts in part["operators"].items():
            sums[operator] = [a + b for a, b in zip(sums[operator], counts, strict=True)]
    return {operator: counts for operator, counts in sums.items() if any(counts)}


def mutant_lines(parts: Mapping[str, Json]) -> list[str]:
    """The mutants of the catalogue, by operator."""
    sums = by_operator(parts)
    total = [sum(column) for column in zip(*sums.values(), strict=True)]
    tried = sum(any(part["operators"].values()) for part in parts.values())
    missed = [f"{place} in {name}" for name, part in parts.items() for place in part["certified"]]
    lines = [
        f"`dpaudit mutate` changed the source of {tried} of the catalogue's {len(parts)} "
        "mechanisms in one place at a time; the others cannot be run, or no change fits their "
        f"code. `certify` reported {total[0]} of the {total[0] + total[1]} mutants that change "
        f"what is released, without an audit suite. {total[2]} more mutants break nothing, and do "
        "not count: they gave the right program's values on all records tried, or a proof shows "
        "that their guarantee holds. A right twin makes the same change correctly: "
        f"{total[3]} of {total[3] + total[4]} were left alone.",
        "",
        "| planted bug | reported | certified | right twins left alone |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {WHAT[operator]} | {counts[0]} | {counts[1]} | {twins(counts)} |"
        for operator, counts in sums.items()
    ]
    if missed:
        lines += [
            "",
            "Certified although wrong: " + "; ".join(f"`{place}`" for place in missed) + ".",
        ]
    return lines


def twins(counts: list[int]) -> str:
    """How many right twins of an operator were left alone; "none planted" where there are none."""
    planted = counts[3] + counts[4]
    return f"{counts[3]} of {planted}" if planted else "none planted"


def written_lines(parts: Mapping[str, Json]) -> list[str]:
    """The hand-written programs, in one sentence and a table."""
    wrong = [v for part in parts.values() for bug, v in part["verdicts"].items() if bug]
    right = [part["verdicts"][""] for part in parts.values()]
    missed = sum(verdict == CERTIFIED_VERDICT for verdict in wrong)
    flagged = sum(verdict != CERTIFIED_VERDICT for verdict in right)
    lines = [
        f"{len(wrong)} bugs were written by hand into programs of {len(parts)} shapes for which no "
        f"audit suite exists. `certify` certified {missed} of them, and flagged {flagged} of the "
        f"{len(right)} right programs.",
        "",
        "| program | bugs that were reported | bugs that were certified |",
        "|---|---|---|",
    ]
    for part in parts.values():
        bugs = {bug: v for bug, v in part["verdicts"].items() if bug}
        reported = [bug for bug, verdict in bugs.items() if verdict != CERTIFIED_VERDICT]
        certified = [bug for bug in bugs if bug not in reported]
        lines.append(
            f"| {part['shape']} | {'; '.join(reported)} | {'; '.join(certified) or 'none'} |"
        )
    return lines
