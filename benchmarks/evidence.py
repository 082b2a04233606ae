"""The page of evidence: how tight bounds are, how often they fail, and which bugs are found.

``python -m benchmarks.evidence`` (``make evidence``) measures the parts that docs/evidence.json
does not hold yet, keeps each as it is done, and writes docs/evidence.md from that file.  Names of
sections restrict it to these; ``--again`` measures them anew; ``--page`` writes the page alone.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from dpaudit.storage.files import write_atomically

ROOT = Path(__file__).resolve().parent.parent
KEPT, PAGE = ROOT / "docs" / "evidence.json", ROOT / "docs" / "evidence.md"
BUILD = ROOT / "build"
# Other tools need other versions of libraries, so each group has an environment of its own.
ENVIRONMENTS = {
    "prv": ("prv_accountant==0.2.0",),
    "peers": ("jax-privacy==2.0.0", "autodp==0.2.3.1", "PLD_accounting==2.0", "numba"),
    "opendp": ("opendp[polars]", "pyarrow"),
    "tumult": ("tmlt.analytics",),
    # diffprivlib 0.6.6 imports names that scikit-learn 1.6 has not.
    "smartnoise": ("smartnoise-sql==1.0.10", "diffprivlib==0.6.6", "scikit-learn<1.6"),
    "training": (
        "torch==2.14.1", "opacus==1.6.0", "jax==0.10.2", "optax==0.2.8", "keras==3.15.1",
        "scikit-learn", "joblib", "threadpoolctl",
    ),
}  # fmt: skip
DRAWS = 100_000  # of each side, in the audits of functions
FALSE_ALARM_RUNS = 10_000  # of each kernel at each scale
Parts = Mapping[str, Any]


@cache
def interpreter(group: str) -> str:
    """The Python of an environment below build/, which is made where it is missing."""
    python = BUILD / group / "bin" / "python"
    ready = BUILD / group / ".ready"
    if not ready.exists():
        sys.stderr.write(f"installing {' and '.join(ENVIRONMENTS[group])} in {BUILD / group}\n")
        subprocess.run([sys.executable, "-m", "venv", str(BUILD / group)], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", *ENVIRONMENTS[group]]
        subprocess.run(pip, check=True)
        ready.touch()
    return str(python)


@dataclass(frozen=True)
class Section:
    """A section of the page, of parts that are measured one by one.

    ``parts``: names of all parts.  ``measure``: a part's result, as JSON; a text says why there is
    none, and is not kept.  ``lines``: Markdown of the results, in the order of ``parts``.
    """

    title: str
    parts: Callable[[], Iterable[str]]
    measure: Callable[[str], Any]
    lines: Callable[[Parts], list[str]]


def module(name: str) -> Any:
    """A module of the benchmarks, imported when it is needed: some need extras."""
    return import_module(f"benchmarks.{name}")


# --- the accountant -------------------------------------------------------------------------------


def tasks() -> dict[str, Any]:
    """Questions that other accountants answer too."""
    every = module("account").TASKS
    return {task.name: task for task in every if task.dp_accounting or task.prv or task.peers}


def answered(name: str) -> Any:
    """Answers and processor seconds of all accountants; no seconds where there is no answer."""
    task = tasks()[name]
    prv = interpreter("prv") if task.prv else None
    peers = interpreter("peers") if task.peers else None
    row = module("account").measure(task, prv, peers, rounds=1)
    return {
        tool: [answer["answer"], _seconds(answer["seconds"])]
        for tool, answer in row.items()
        if tool != "task"
    }


def _seconds(measured: float) -> float | None:
    return None if math.isnan(measured) else round(measured, 3)


def answer_lines(parts: Parts) -> list[str]:
    """Our intervals beside other tools' bounds."""
    lines = [
        "dpaudit, prv_accountant and PLD_accounting give intervals that hold the true epsilon, the "
        "others upper bounds. Seconds are those of a processor, of one answer in a process of "
        "its own; loading libraries is not timed.",
        "",
        "| question | dpaudit | seconds | other tools (seconds) |",
        "|---|---|---|---|",
    ]
    for name, row in parts.items():
        answer, seconds = row["dpaudit"]
        others = "; ".join(
            f"{tool} {text.removeprefix('upper ')}" + ("" if took is None else f" ({took:g})")
            for tool, (text, took) in row.items()
            if tool != "dpaudit"
        )
        lines.append(f"| {name} | {answer.partition(' width')[0]} | {seconds:g} | {others} |")
    return lines


def wide_lines(parts: Parts) -> list[str]:
    """Intervals that are wide, and why."""
    reasons = {question.name: question for question in module("wide").QUESTIONS}
    lines = [
        "The true value lies in each interval. The upper bound assumes more than any attack is "
        "known to attain, and the lower bound is attained by the example that is named.",
        "",
        "| question | interval | the upper bound allows | the lower bound is attained by |",
        "|---|---|---|---|",
    ]
    for name, row in parts.items():
        low, high = row["interval"]
        why = reasons[name]
        lines.append(f"| {name} | [{low}, {high}] | {why.upper} | {why.lower} |")
    return lines


def declarations(kind: str) -> Any:
    """Random declarations judged by ``make quality-trees`` or ``make quality-forged``."""
    blocks = import_module("tests.support.tree_blocks")
    log = BUILD / kind / f"{blocks.code_digest(kind)}.jsonl"
    rows = blocks.finished(log)
    if not rows:
        return f"there is no log of this code: run `make quality-{kind}` first"
    counts = ("trees", "comparisons", "unfinished", "seconds")
    found = {key: sum(row[key] for row in rows) for key in counts if key in rows[0]}
    many, seconds = found.pop("trees"), found.pop("seconds")
    violations = sum(len(row["violations"]) for row in rows)
    return {"declarations": many, "violations": violations, **found} | {
        "milliseconds": round(1000 * seconds / many)
    }


def declaration_lines(parts: Parts) -> list[str]:
    """How often a random declaration contradicted the accountant."""
    words = {
        "trees": (
            "random declarations of every kind of node were accounted (`make quality-trees`), each "
            "beside a mechanism of that declaration whose privacy loss is computed exactly",
            "upper bounds were below that loss",
        ),
        "forged": (
            "declarations with any numbers that can be written were accounted and checked "
            "(`make quality-forged`), beside a second implementation that shares no code",
            "contradicted it",
        ),
    }
    lines = []
    for kind, row in parts.items():
        line = f"{row['declarations']:,} {words[kind][0]}; {row['violations']} {words[kind][1]}."
        if "comparisons" in row:
            line += (
                f" {row['comparisons']:,} bounds were compared, {row['unfinished']:,} were refused "
                "because they take more work than is allowed (3 s for the accountant and 3 s for "
                f"the checker), and a declaration took {row['milliseconds']} ms on average."
            )
        lines.append(line + "\n")
    return lines


# --- audits ---------------------------------------------------------------------------------------


def covered(_: str) -> Any:
    """How often each estimator's bound exceeds the truth; cells are kept in build/coverage."""
    coverage = import_module("tests.support.coverage")
    cells = coverage.measure(coverage.whole_table(), jobs=2, folder=BUILD / "coverage")
    return {"rows": coverage.summary(cells), "alarm": round(coverage.false_alarm(cells), 3)}


def coverage_lines(parts: Parts) -> list[str]:
    """The share of runs in which a lower bound exceeds the truth."""
    (found,) = parts.values()
    head = ("estimator", "cells", "runs", "mean", "largest", "above 5% + 2 se", "mean where exact")
    return [
        "The share of runs in which a lower bound at a nominal error of 5% exceeds the truth, "
        "under 25 true claims and 100 to 100,000 trials a side (`make quality`). A cell above 5% "
        "plus two standard errors is measured once more with four times the runs, and judged by "
        "that. Exact estimators must also reach 3%, less two standard errors. If they erred by 5% "
        f"each, a table would fail with probability {found['alarm']} at most.",
        "",
        f"| {' | '.join(head)} |",
        "|---" * len(head) + "|",
        *(f"| {' | '.join(row)} |" for row in found["rows"]),
    ]


HEAVIER, HEAVIER_AUDITS, AUDITS = "weights 1% too heavy", 100, 1_000


def audited(part: str) -> Any:
    """How many of 1,000 audits of a program give a bound above the truth, number by number."""
    audits = import_module("tests.support.likelihood")
    if part == HEAVIER:
        return {str(w): audits.refuted_truths(w, HEAVIER_AUDITS) for w in (1.0, 1.01)}
    name, _, method = part.partition(", ")
    return (audits.plain_above if method == "plain" else audits.likely_above)(name, AUDITS)


def audited_lines(parts: Parts) -> list[str]:
    """The share of audits whose bound exceeds the truth, by program and number."""
    audits = import_module("tests.support.likelihood")
    rows = {part: row for part, row in parts.items() if part != HEAVIER}
    numbers = [n for n in audits.NUMBERS if any(n in row for row in rows.values())]
    worst = max(count for row in rows.values() for count in row.values())
    lines = [
        f"{AUDITS:,} audits of each program, whose claims are true and attained or nearly so: 200 "
        "runs drawn from a proposal, or 500 plain runs a side, at a nominal error of 5%. The share "
        "of audits whose bound exceeds the truth; 6.4% is 5% plus two standard errors. The largest "
        f"is {worst / AUDITS:.1%}.",
        "",
        f"| program | {' | '.join(numbers)} |",
        "|---" * (len(numbers) + 1) + "|",
    ]
    for part, row in rows.items():
        cells = [f"{row[n] / AUDITS:.1%}" if n in row else "" for n in numbers]
        lines.append(f"| {part} | {' | '.join(cells)} |")
    if HEAVIER in parts:
        right, wrong = parts[HEAVIER].values()
        lines += [
            "",
            f"The table would show a weight that is wrong: of {HEAVIER_AUDITS} audits with 400,000 "
            f"runs each, {right} exceed the truth with the right weights, and {wrong} with weights "
            "that are 1% too heavy.",
        ]
    return lines


def likelihood_rows(parts: Parts) -> list[list[str]]:
    """The rows of all entries; what is kept of an entry does not repeat its name."""
    return [[name, *row] for name, rows in parts.items() for row in rows]


def likelihood_lines(parts: Parts) -> list[str]:
    """Shares of the accounted bounds that audits of the catalogue's own programs reach."""
    return [
        "Audits of the catalogue's programs with their own losses, on pairs that the examination "
        "finds by itself or that a suite names: bounds at 95% from exact likelihoods, which hold "
        "for the program with the declared noise, and of 500 plain runs a side. The pairs of a "
        "program share the error, and the largest of its bounds counts. An accounted bound that is "
        "attained is reached by some pair of data sets, which a program's own loss need "
        "not allow. A stand-in has the same declaration and the worst loss; so has a steeper loss, "
        "which a second search of `certify` finds where the library clips every row. The shares of "
        "both are not counted. Runs are those that were counted; seconds are of one core, of "
        f"likelihoods and of plain runs. {len(parts)} entries are measured so far, in "
        f"{module('likelihoods').LIMIT:g} "
        'processor seconds each; `make evidence ARGS="likelihoods"` adds the others.',
        "",
        *module("likelihoods").lines(likelihood_rows(parts), module("likelihoods").stand_ins()),
    ]


def false_alarms(kernel: str) -> Any:
    """Alarms on right noise of one kernel, over all scales; nothing where it has no residuals."""
    measured = module("false_alarms")
    scales = [measured.alarms(measured.CASES[kernel], e, FALSE_ALARM_RUNS) for e in measured.SCALES]
    return [sum(column) for column in zip(*scales, strict=True)]


def false_alarm_lines(parts: Parts) -> list[str]:
    """Alarms of the checks of noise, on right noise."""
    runs, broken, counted, tied = (sum(column) for column in zip(*parts.values(), strict=True))
    upper = module("false_alarms").upper
    worst = max((row[2] / row[0], name) for name, row in parts.items() if row[0])
    return [
        f"{sum(row[0] > 0 for row in parts.values())} noise kernels were drawn as declared, at "
        "epsilon 1/100 to 64 a release. The checks of residuals, which `certify` runs at an error "
        f"rate of one in a million, raised "
        f"{broken} alarms in {runs:,} runs; the checks of ties raised {tied}. At a rate of 5%, "
        f"where alarms can be counted, they raised {counted:,} ({counted / runs:.1%}, with 95% "
        f"confidence at most {upper(counted, runs):.1%}); the most of one kernel is "
        f"{worst[0]:.1%} ({worst[1]}).",
    ]


def detected(_: str) -> Any:
    """Audits of the wrong and right functions of ``audits/blackbox``, with a pair of data sets."""
    detection = module("detection")
    found = detection.detection(detection.Audited("pair", DRAWS, 1), 2, BUILD / "detection.jsonl")
    wanted = ("bugs", "found", "missed", "correct", "flagged", "families")
    return {"draws": DRAWS, **{key: found[key] for key in wanted}}


def detection_lines(parts: Parts) -> list[str]:
    """Which wrong functions an audit refutes."""
    (found,) = parts.values()
    flagged = len(found["flagged"])
    return [
        f"`audits/blackbox` holds {found['bugs']} wrong mechanisms and {found['correct']} right "
        "ones, from the literature or written to be hard. `audit_function` saw only the function "
        f"and two data sets, with {found['draws']:,} draws of each, at an error rate of 5%. It "
        f"refuted {found['found']} of the wrong ones and {flagged} of the right ones.",
        "",
        "| kind of bug | refuted |",
        "|---|---|",
        *(f"| {family} | {share} |" for family, share in found["families"].items()),
        "",
        f"Missed: {', '.join(f'`{name}`' for name in found['missed'])}.",
    ]


def training_section(title: str, name: str) -> Section:
    """Which wrong trainings of a module of the tests' support the default audit refutes."""

    def source() -> Any:
        return import_module(f"tests.support.{name}")

    return Section(
        title,
        lambda: module("training_bugs").parts(source()),
        lambda part: module("training_bugs").measured(part),
        lambda parts: module("training_bugs").lines(source(), parts),
    )


def reproduced(name: str) -> Any:
    """A published audit made again, with processor seconds in the place of those of the clock."""
    from dpaudit.membership.papers import reproduce

    started = time.process_time()
    made = reproduce(name).to_json()
    return {**made, "seconds": round(time.process_time() - started, 1)}


def reproduction_lines(parts: Parts) -> list[str]:
    """The papers' figures beside ours, at the same theoretical epsilon."""
    lines = [
        "`dpaudit audit --reproduce NAME` makes published audits again, on digits that ship with "
        "scikit-learn and on text that ships with Python. Papers train larger models for hours: "
        "the table compares how much of the same theoretical epsilon an audit shows, at 95% and "
        "delta 1e-5. Seconds are of one processor.",
        "",
        "| study | setting | theory | the paper | here | scale here, seconds |",
        "|---|---|---|---|---|---|",
    ]
    for name, made in parts.items():
        scale = f"{made['scale']}, {made['seconds']:.0f} s"
        lines += [
            f"| `{name}` | {row['setting']} | {row['theory']:g} | {row['reported']} | "
            f"{row['shown']:.2f} | {scale} |"
            for row in made["rows"]
        ]
    papers = [
        f"- `{name}`: {made['paper']}. Figures: {made['source']}." for name, made in parts.items()
    ]
    return [*lines, "", *papers]


# --- releases and the ledger ----------------------------------------------------------------------


def released(part: str) -> Any:
    """One tool's release of one table."""
    table, tool = part.split(", ")
    python = interpreter(tool) if tool in ENVIRONMENTS else None
    return module("release").compared(table, tool, python)


def scaled(part: str) -> Any:
    """A large table, by dpaudit and plain SQL, or by OpenDP."""
    release = module("release")
    rows, what = part.split(" rows, ")
    if what == "opendp":
        return release.opendp_of(int(rows), interpreter("opendp"))
    return release.scaled_of(int(rows), what)


def scales() -> list[str]:
    """Names of the parts of the scale."""
    release = module("release")
    own = [f"{rows} rows, {order}" for rows, order in release.SCALES]
    return own + [f"{rows} rows, opendp" for rows in release.OPENDP_ROWS]


SECTIONS = {
    "accountants": Section(
        "The accountant beside other tools", tasks, answered, answer_lines,
    ),
    "settings": Section(
        "Random settings of DP-SGD, beside dp-accounting",
        lambda: module("settings").settings(),
        lambda name: module("settings").compared(module("settings").settings()[name]),
        lambda parts: module("settings").lines(parts),
    ),
    "wide": Section(
        "Where the accountant's interval is wide",
        lambda: [question.name for question in module("wide").QUESTIONS],
        lambda name: module("wide").asked(
            next(q for q in module("wide").QUESTIONS if q.name == name)
        ),
        wide_lines,
    ),
    "declarations": Section(
        "Random declarations", lambda: ("trees", "forged"), declarations, declaration_lines,
    ),
    "coverage": Section(
        "How often a lower bound exceeds the truth", lambda: ("all",), covered, coverage_lines,
    ),
    "audits": Section(
        "How often a bound of an audit exceeds the truth",
        lambda: [
            *(f"{n}, {m}" for n in import_module("tests.support.likelihood").PROGRAMS
              for m in ("likelihood", "plain")),
            HEAVIER,
        ],
        audited, audited_lines,
    ),
    "bounds": Section(
        "Bounds of one mechanism by several tools, at equal numbers of runs",
        lambda: ["1,000 runs a side", "10,000 runs a side"],
        lambda name: module("bounds").side_by_side(int(name.partition(" ")[0].replace(",", ""))),
        lambda parts: module("bounds").side_by_side_lines(parts),
    ),
    "likelihoods": Section(
        "Shares of the accounted bounds that audits reach",
        lambda: module("likelihoods").names(),
        lambda name: [row[1:] for row in module("likelihoods").entry(name)],
        likelihood_lines,
    ),
    "false_alarms": Section(
        "False alarms on right noise",
        lambda: module("false_alarms").CASES, false_alarms, false_alarm_lines,
    ),
    "functions": Section(
        "Wrong functions that audits refute", lambda: ("pair",), detected, detection_lines,
    ),
    "trainings": training_section(
        "Wrong trainings that the default audit refutes", "trainings"
    ),
    "more_trainings": training_section(
        "Wrong trainings that were not known before", "more_trainings"
    ),
    "further_trainings": training_section(
        "Wrong trainings for which nothing was changed", "further_trainings"
    ),
    "unseen_trainings": training_section(
        "Wrong trainings by someone who did not know the canaries", "unseen_trainings"
    ),
    "steps": Section(
        "Wrong optimiser steps that the check of one step names",
        lambda: import_module("tests.support.steps").BUGS,
        lambda name: module("step_bugs").measured_by(interpreter("training"), name),
        lambda parts: module("step_bugs").lines(parts),
    ),
    "training_validity": Section(
        "How often audits of training are wrong",
        lambda: module("training_validity").parts(),
        lambda name: module("training_validity").measured(name),
        lambda parts: module("training_validity").lines(parts),
    ),
    "sequential": Section(
        "Pairs of draws until a claim is refused",
        lambda: module("sequential").CASES,
        lambda name: module("sequential").measured(name),
        lambda parts: module("sequential").lines(parts),
    ),
    "reproductions": Section(
        "Published audits of training, made again",
        lambda: import_module("dpaudit.membership.papers").PAPERS,
        reproduced, reproduction_lines,
    ),
    "written": Section(
        "Bugs written by hand, and `certify`",
        lambda: module("planted").shapes(),
        lambda name: module("planted").of_shape(name),
        lambda parts: module("planted").written_lines(parts),
    ),
    "planted": Section(
        "Bugs planted in the catalogue, and `certify`",
        lambda: module("planted").mechanisms(),
        lambda name: module("planted").of_mechanism(name),
        lambda parts: module("planted").mutant_lines(parts),
    ),
    "releases": Section(
        "Releases beside OpenDP and Tumult Analytics",
        lambda: [f"{t}, {tool}" for t in module("release").TABLES
                 for tool in module("release").TITLES],
        released,
        lambda parts: module("release").compared_lines(parts),
    ),
    "nine": Section(
        "Nine items beside OpenDP, Tumult Analytics, SmartNoise and diffprivlib",
        lambda: module("nine").TITLES,
        lambda tool: module("nine").measured(tool),
        lambda parts: module("nine").lines(parts),
    ),
    "planner": Section(
        "The planner beside every choice of noise",
        lambda: module("planner").parts(),
        lambda part: module("planner").measured(part),
        lambda parts: module("planner").lines(parts),
    ),
    "scale": Section(
        "Time of large releases", scales, scaled,
        lambda parts: module("release").scale_lines(parts),
    ),
    "ledger": Section(
        "Durable charges of the ledger",
        lambda: [str(n) for n in module("ledger").WRITERS],
        lambda name: module("ledger").rates(int(name)),
        lambda parts: module("ledger").lines(parts),
    ),
    "browser": Section(
        "Certificates in a browser's engine",
        lambda: module("browser").parts(),
        lambda name: module("browser").measured(name),
        lambda parts: list(module("browser").lines(parts)),
    ),
}  # fmt: skip


# --- what is kept, and the page -------------------------------------------------------------------


class Results:
    """Results by section and part, each after the day on which it was measured, in a JSON file."""

    def __init__(self, path: Path = KEPT) -> None:
        self.path = path
        self.held: dict[str, dict[str, tuple[str, Any]]] = (
            json.loads(path.read_text("utf-8")) if path.exists() else {}
        )

    def of(self, section: str) -> dict[str, Any]:
        """The results of a section by part, in the file's order."""
        return {part: result for part, (_, result) in self.held.get(section, {}).items()}

    def days(self, section: str) -> list[str]:
        """The first and the last day of a section's results; one, if they are the same."""
        found = sorted({day for day, _ in self.held.get(section, {}).values()})
        return [found[0], found[-1]] if len(found) > 1 else found

    def keep(self, section: str, part: str, result: Any) -> None:
        """Add a result, and write the file."""
        today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
        self.held.setdefault(section, {})[part] = today, result
        self.write()

    def forget(self, section: str) -> None:
        """Drop what was measured of a section."""
        self.held.pop(section, None)

    def write(self) -> None:
        """The file, one line a part, so that a change of one part is a change of one line."""
        blocks = [
            f" {json.dumps(section)}: {{\n"
            + ",\n".join(
                f"  {json.dumps(part)}: {json.dumps(row, ensure_ascii=False)}"
                for part, row in parts.items()
            )
            + "\n }"
            for section, parts in sorted(self.held.items())
        ]
        write_atomically(self.path, ("{\n" + ",\n".join(blocks) + "\n}\n").encode())


def measure(results: Results, names: Iterable[str], minutes: float) -> None:
    """Measure parts that are not held, until the time is up; say which had no result."""
    stop = time.monotonic() + 60 * minutes
    for name in names:
        section = SECTIONS[name]
        missing = [part for part in section.parts() if part not in results.of(name)]
        for done, part in enumerate(missing, start=1):
            if time.monotonic() > stop:
                sys.stderr.write(f"{name}: {len(missing) - done + 1} parts are left\n")
                break
            sys.stderr.write(f"{name}, {done} of {len(missing)}: {part}\n")
            result = section.measure(part)
            if isinstance(result, str):
                sys.stderr.write(f"{name}, {part}: no result: {result}\n")
            else:
                results.keep(name, part, result)


HEAD = """# Evidence

How tight the bounds are, how often they fail, and which bugs are found: each number is measured by
`make evidence`, which writes this page from `docs/evidence.json` and measures only what that file
does not hold; `make evidence ARGS="SECTION --again"` measures a section anew. Times are those of
two cores that did other work too. See also [forgeries of certificates](forgeries.md),
[attempts on the verifier and the ledger](trust.md) and [membership audits beside Privacy
Meter](membership.md).
"""


def page(results: Results) -> str:
    """The page, of what is held."""
    parts = [HEAD]
    for name, section in SECTIONS.items():
        held = results.of(name)
        if held:
            days = " to ".join(results.days(name))
            text = "\n".join(section.lines(held)).rstrip()
            parts.append(f"## {section.title}\n\n{text}\n\n*Measured {days}: `{name}`.*\n")
    return "\n".join(parts)


def main() -> None:
    """Measure what is missing, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "sections", nargs="*", choices=[[], *SECTIONS], help="all, if none is named"
    )
    parser.add_argument("--again", action="store_true", help="measure the named sections anew")
    parser.add_argument("--minutes", type=float, default=600)
    parser.add_argument("--page", action="store_true", help="measure nothing")
    asked = parser.parse_args()
    if asked.again and not asked.sections:
        parser.error("--again: name the sections that are to be measured anew")
    results = Results()
    for name in asked.sections if asked.again else ():
        results.forget(name)
    if not asked.page:
        measure(results, asked.sections or SECTIONS, asked.minutes)
    write_atomically(PAGE, page(results).encode())


if __name__ == "__main__":
    main()
