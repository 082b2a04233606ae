"""Detection on the project's own black-box set: the pair given, or a domain and a relation alone.

Every case is a task; finished ones are kept in a file of lines under the digest of the sources they
rest on, so that a run that was killed goes on where it stopped.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audits.blackbox import Case, catalogue
from benchmarks.side_by_side import ERROR, say
from dpaudit.audit import audit_domain, audit_function
from dpaudit.audit.blackbox.domains import Adjacent
from dpaudit.audit.workers import finished
from dpaudit.cli.terminal import Pace

FOLDER = Path(__file__).resolve().parent.parent
KEPT = FOLDER / "build" / "detection.jsonl"
SOURCES = ("dpaudit/audit", "audits/blackbox")


def with_pair(case: Case, trials: int, seed: int) -> str:
    """The verdict of `audit_function` on the case's worst pair."""
    found = audit_function(
        case.mechanism, case.d0, case.d1,
        claim=case.claim, trials=trials, refute_at=ERROR, seed=seed, attack=case.attack,
    )  # fmt: skip
    return str(found.verdict)


def with_domain(case: Case, trials: int, seed: int) -> str:
    """The verdict of `audit_domain`, which has to find a pair first."""
    found = audit_domain(
        case.mechanism, case.domain, str(Adjacent(case.relation)),
        claim=case.claim, trials=trials, refute_at=ERROR, seed=seed, attack=case.attack,
    )  # fmt: skip
    return str(found.verdict)


ENTRIES: dict[str, Callable[[Case, int, int], str]] = {"pair": with_pair, "domain": with_domain}


@dataclass(frozen=True)
class Audited:
    """Whether an entry point refutes the case of this place, and in how many seconds."""

    entry: str
    trials: int
    seed: int

    def __call__(self, place: int) -> tuple[bool, float]:
        start = time.perf_counter()
        verdict = ENTRIES[self.entry](catalogue()[place], self.trials, self.seed)
        return verdict in ("refuted", "alarm"), time.perf_counter() - start


def digest() -> str:
    """Of every source file an answer rests on."""
    found = hashlib.sha256()
    for folder in SOURCES:
        for path in sorted((FOLDER / folder).rglob("*.py")):
            found.update(str(path.relative_to(FOLDER)).encode() + path.read_bytes())
    return found.hexdigest()


def detection(
    audited: Audited, jobs: int, kept: Path | None = None, cases: Sequence[Case] | None = None
) -> dict[str, Any]:
    """How many wrong mechanisms are found, and how many right ones flagged, family by family.

    ``kept``: a file of what is done already, added to as cases finish.
    """
    chosen = catalogue() if cases is None else tuple(cases)
    places = [place for place, case in enumerate(catalogue()) if case in chosen]
    answers = _known(audited, kept)
    left = [place for place in places if catalogue()[place].name not in answers]
    pace = Pace()
    for done, (place, (refuted, seconds)) in enumerate(finished(audited, left, jobs), start=1):
        name = catalogue()[place].name
        answers[name] = (refuted, seconds)
        _keep(audited, kept, name, answers[name])
        say(f"{audited.entry}: {done} of {len(left)} cases{pace.left(done, len(left))}")
    return summary(audited, chosen, answers)


def summary(
    audited: Audited, cases: Sequence[Case], answers: dict[str, tuple[bool, float]]
) -> dict[str, Any]:
    """Counts and names of what was found, missed and flagged."""
    wrong = [case for case in cases if not case.correct]
    right = [case for case in cases if case.correct]
    families = dict.fromkeys(case.family for case in wrong)
    return {
        "entry": audited.entry,
        "trials": audited.trials,
        "bugs": len(wrong),
        "found": sum(answers[case.name][0] for case in wrong),
        "missed": [case.name for case in wrong if not answers[case.name][0]],
        "correct": len(right),
        "flagged": [case.name for case in right if answers[case.name][0]],
        "families": {family: _share(family, wrong, answers) for family in families},
        "seconds": round(sum(answers[case.name][1] for case in cases), 1),
    }


def _share(family: str, wrong: Sequence[Case], answers: dict[str, tuple[bool, float]]) -> str:
    names = [case.name for case in wrong if case.family == family]
    return f"{sum(answers[name][0] for name in names)} of {len(names)}"


def _place(audited: Audited) -> list[Any]:
    return [audited.entry, audited.trials, audited.seed, digest()]


def _known(audited: Audited, kept: Path | None) -> dict[str, tuple[bool, float]]:
    """What the file holds of these sources; a line cut short by a kill is left out."""
    if kept is None or not kept.exists():
        return {}
    place, found = _place(audited), {}
    for line in kept.read_text().splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if row["place"] == place:
            found[row["case"]] = (row["refuted"], row["seconds"])
    return found


def _keep(audited: Audited, kept: Path | None, name: str, answer: tuple[bool, float]) -> None:
    if kept is None:
        return
    kept.parent.mkdir(parents=True, exist_ok=True)
    row = {"place": _place(audited), "case": name, "refuted": answer[0], "seconds": answer[1]}
    cut = kept.exists() and not kept.read_bytes().endswith(b"\n")
    with kept.open("a") as file:
        file.write("\n" * cut + json.dumps(row) + "\n")


def main() -> int:
    """Audit the set and print what was found, as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", nargs="+", choices=sorted(ENTRIES), default=["pair"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--trials", type=int, default=100_000, help="draws a side")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--kept", type=Path, default=KEPT, help="what is done already")
    options = parser.parse_args()
    for entry in options.entries:
        audited = Audited(entry, options.trials, options.seed)
        sys.stdout.write(json.dumps(detection(audited, options.jobs, options.kept)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
