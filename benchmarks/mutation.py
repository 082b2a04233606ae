"""Bugs planted in every program of the catalogue: how many would ``certify`` still certify?

``python -m benchmarks.mutation run`` plants some of each mechanism's mutants, drawn by a seed from
all operators in turn, and keeps what it has in docs/mutation/certify.json; it resumes there.
``page`` writes docs/mutation.md from that file and from docs/mutation/tests.json.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dpaudit.mutate import report
from dpaudit.mutate.run import (
    CAUGHT,
    CERTIFIED,
    LEFT_ALONE,
    SAME,
    STILLBORN,
    UNTOLD,
    Order,
    Result,
    run,
)
from dpaudit.storage.files import write_atomically
from dpaudit.storage.roots import code_digest

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "mutation"
RESULTS, TESTS = FOLDER / "certify.json", FOLDER / "tests.json"
EQUIVALENT, PAGE = FOLDER / "equivalent.json", ROOT / "docs" / "mutation.md"
EXAMINED = ROOT / "docs" / "examination" / "catalogue.json"
KEPT = ROOT / "reports" / ".mutants"  # where a run that is stopped goes on


def names() -> list[str]:
    """Every mechanism of the catalogue."""
    from dpaudit.project.project import foreign_catalogue

    return [row.name for row in foreign_catalogue(ROOT) if not row.error]


def measure(limit: int, seed: int, jobs: int, minutes: float) -> None:
    """Run what has not been run yet, then what was run on other code; the quickest first of each.

    Every target says of which state of the code it is, and how many mutants were asked for.
    """
    code, found = code_digest(), _found()
    stop = time.monotonic() + 60 * minutes
    todo = names()
    found |= {"seed": seed, "known": len(todo)}
    targets: dict[str, Any] = found["targets"]
    slow = {name: row["seconds"] for name, row in json.loads(EXAMINED.read_text("utf-8")).items()}
    todo.sort(key=lambda name: (name in targets, slow.get(name, 0.0), name))
    now = {"code": code, "seed": seed, "limit": limit}
    for name in todo:
        known = {key: targets.get(name, {}).get(key) for key in now}
        if known == now or time.monotonic() > stop:
            continue
        began = resource.getrusage(resource.RUSAGE_CHILDREN)
        order = Order(name, ROOT, seed=seed, limit=limit, store=KEPT)
        ran = run(order, jobs=jobs)
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        targets[name] = {
            **now,
            "right_program": ran.right,
            "found_without_any": ran.faults,
            "planted": ran.planted,
            "seconds": round(sum(ended[:2]) - sum(began[:2]), 1),
            "mutants": [asdict(r) for r in ran.results],
        }
        found["targets"] = targets = dict(sorted(targets.items()))
        text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
        write_atomically(RESULTS, text.encode())
        print("\n".join(report.lines(ran)), flush=True)


def _found() -> dict[str, Any]:
    if not RESULTS.exists():
        return {"seed": 1, "known": len(names()), "targets": {}}
    known: dict[str, Any] = json.loads(RESULTS.read_text("utf-8"))
    return known


# --- the page ------------------------------------------------------------------------------------

HEAD = """# Mutation testing

Made by `python -m benchmarks.mutation page` from the files in `docs/mutation/`.

## What would `certify` still certify?

`dpaudit mutate TARGET` changes the source of a mechanism in one place, imports it in a process of
its own, and asks the function behind `dpaudit certify` for its verdict, with no suite: the
examination and the audit of the program itself. A mutant counts as found where `certify` says
less of it than of the right program. Its right twin does the same thing in the same place as it
should be done (a query of the user's own that clips, a radius made of released values), and has
to be left alone. The operators were written down before any was run, and a place is drawn by a
seed. In the runs of a search a radius or a step made of what another run released is a bug too, so
that no twin of these is planted there. `make mutants-certify` runs some of every mechanism of the
catalogue; it resumes. Audits have 400 trials a data set here, where `certify` has up to 2,000.

A certified mutant is run beside the right program, on made-up data sets and with equal draws.
Where every value, every answer and every output is the same, on changed records too, the change
changes nothing (it is inside a clip that no record reaches, say): that is shown, and not counted.

Not planted, because nothing could break, whoever looks. The last two, and of a query that states
no larger a sensitivity, are so since first trials, in which `certify` had rightly certified such
mutants; and what a radius, a step or a threshold follows is x / (1 + x) of what was seen since
then, for the tanh of it was 1 for all records:
"""
TESTED = """
## What do the tests of this repository notice?

`make mutants` has cosmic-ray mutate the rules, the checker, the curator, the replayer and the
estimators of bounds, draws as many of each group by a seed (a place first, then one of its
mutants) before any is run, and runs on each the tests that run its statement, the quickest first,
until one fails. Everything is imported once; a mutant is a new code of the functions that it
changes, in a forked child. Changes inside annotations and changes that compile to the same byte
code are not drawn. A mutant that survived is run again in a process of its own with more tests,
read, and either killed by a new test, or named equivalent with its reason in
`docs/mutation/equivalent.json`, or listed here. Equivalent is what changes nothing that is
promised: some of these change how long a search goes on, or at which of several valid numbers it
ends.
"""


def page() -> str:
    """The page, from the files of results."""
    from dpaudit.mutate.operators import CODE, HARMLESS, RELEASES

    found = _found()
    named = json.loads(EQUIVALENT.read_text("utf-8"))["certify"]
    what = {**{k: v[0] for k, v in RELEASES.items()}, **{k: v.what for k, v in CODE.items()}}
    results, excused = _results(found, named)
    reasons = [f"- `{operator}`: {reason}." for operator, reason in HARMLESS.items()]
    figures = report.by_operator(results)
    rows = [
        (f"`{name}`", text, *_told(figures[name])) if name in figures
        else (f"`{name}`", text, 0, 0, 0, 0, "", "")
        for name, text in what.items()
    ]  # fmt: skip
    rows.append(("all", "", *_told({**report.counts(results), **report.twins(results)})))
    right = [t["right_program"] for t in found["targets"].values()]
    without = {n: t["found_without_any"] for n, t in found["targets"].items() if not t["mutants"]}
    text = [
        HEAD,
        "\n".join(reasons),
        f"\nSeed {found['seed']}, {len(right)} of {found['known']} mechanisms, those first that "
        f"are examined the quickest; {len(without)} had none. {_states(found['targets'])}\n",
        _table(("operator", "what it does", "not certified", "certified", "change nothing",
                "do not run", "not certified, of those that count", "right twins left alone"),
               rows),
        "\nMutants that change nothing, fail on ordinary records or take too long do not count.",
        _listed("Certified all the same", [
            f"`{r.operator}` in {r.name.partition(':')[0]} ({r.where}): {r.what}"
            for r in results if r.status == CERTIFIED]),
        _listed("Equivalent, by reason", [f"`{n}`: {named[n]}" for n in sorted(excused)]),
        _listed("Right twins that were flagged", [
            f"{r.name}: {r.twin}" for r in results if r.twin not in ("", LEFT_ALONE)]),
        _listed("Mechanisms without a mutant", [
            f"{n}: {why or 'no operator fits its code'}" for n, why in without.items()]),
    ]  # fmt: skip
    if TESTS.exists():
        text += _of_tests(json.loads(TESTS.read_text("utf-8")))
    return "\n".join(part for part in text if part).replace("\n\n\n", "\n\n") + "\n"


def _states(targets: dict[str, Any]) -> str:
    """Of which states of the code the figures are, and how many mutants were asked for."""
    counted = Counter((t["code"], t["limit"]) for t in targets.values())
    told = [
        f"at most {limit} mutants of each of {count} on code {code.removeprefix('sha256:')[:8]}"
        for (code, limit), count in counted.most_common()
    ]
    return f"{'; '.join(told).capitalize()} (the first digits of the digest of all sources)."


def _results(found: dict[str, Any], named: dict[str, str]) -> tuple[list[Result], list[str]]:
    """The mutants of all mechanisms, and the names of those that are equivalent, left out."""
    results, excused = [], []
    for name, target in found["targets"].items():
        for row in target["mutants"]:
            one = Result(**{**row, "name": f"{name}:{row['name']}"})
            if one.status == CERTIFIED and one.name in named:
                excused.append(one.name)
            else:
                results.append(one)
    return results, excused


def _told(counted: dict[str, Any]) -> tuple[Any, ...]:
    good, bad = counted[CAUGHT], counted[CERTIFIED]
    share = f"{good / (good + bad):.1%}" if good + bad else ""
    twins = counted["left_alone"] + counted["flagged"]
    alone = f"{counted['left_alone']} of {twins}" if twins else ""
    return good, bad, counted[SAME], counted[STILLBORN] + counted[UNTOLD], share, alone


def _of_tests(found: dict[str, Any]) -> list[str]:
    rows: list[tuple[Any, ...]] = []
    for name, count in [*found["groups"].items(), *found["operators"].items()]:
        told = count["killed"] + count["survived"]
        share = f"{count['killed'] / told:.1%}" if told else ""
        rows.append((name, count["killed"], count["survived"], count["equivalent"], share))
    groups = found["groups"].values()
    killed, left = (sum(g[status] for g in groups) for status in ("killed", "survived"))
    share = f"{killed / (killed + left):.1%}" if killed + left else "none"
    equal = sum(g["equivalent"] for g in groups)
    at_first = found["killed_at_first"]
    first = [
        ("drawn", f"{found['drawn']} of {found['made']}"),
        ("run", found["run"]),
        ("killed at first", f"{at_first} ({at_first / max(1, found['run']):.1%})"),
        ("killed since, by more tests or new ones", killed - at_first),
        ("equivalent", equal),
        ("left", left),
        ("killed, of those that are not equivalent", share),
        ("processor seconds a mutant", found["seconds"]),
    ]
    return [
        TESTED,
        f"{found['tool']}, seed {found['seed']}, of the code at {found['code']}. Killed at first "
        "counts what a test as old as that code killed: what a mutant that nobody has read can "
        "expect.\n",
        _table(("mutants", ""), first) + "\n",
        _table(("group, then operator", "killed", "survived", "equivalent", "killed, of those that "
                "are not equivalent"), rows),
        _listed("Equivalent, with the reason", [
            f"`{name}`: {reason}" for name, reason in found["equivalent"].items()]),
        _listed("Survivors", [
            f"`{name}` (line {line}): `{' '.join(' '.join(change).split())}`"
            for name, (line, *change) in found["survivors"].items()]),
    ]  # fmt: skip


def _table(head: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in lines)


def _listed(title: str, items: list[str]) -> str:
    return f"\n### {title}\n\n" + "\n".join(f"- {i}" for i in items) if items else ""


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("verb", choices=("run", "page"))
    parser.add_argument("--limit", type=int, default=3, help="mutants a mechanism")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=600)
    asked = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    if asked.verb == "run":
        measure(asked.limit, asked.seed, asked.jobs, asked.minutes)
    PAGE.write_text(page(), "utf-8")


if __name__ == "__main__":
    main()
