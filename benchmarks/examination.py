"""What an examination reaches of every program of the catalogue, and which bugs it refuses.

``python -m benchmarks.examination run`` examines each mechanism, then certifies the wrong programs
of ``tests/unseen_bugs.py`` with no suite; it keeps what it has in docs/examination/ and resumes
there.  ``page`` writes docs/examination.md from those files.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dpaudit.storage.files import write_atomically

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "examination"
CATALOGUE, BUGS = FOLDER / "catalogue.json", FOLDER / "bugs.json"
PAGE = ROOT / "docs" / "examination.md"
AIM, MOST = 2.0, 20.0
CERTIFIED = "certified under assumptions"
# Of the issue that asked for the examiner, before there was one.
BEFORE = (
    "Before programs were examined, somebody else planted 32 bugs in user mechanisms and certified "
    "them with this project's own suites: 24 came out certified under assumptions."
)
Json = dict[str, Any]


def measure(minutes: float) -> None:
    """Examine what has not been examined yet, then certify the wrong programs."""
    from dpaudit.audit.examine import examine, shape_like
    from dpaudit.certificate.certify import stand_in
    from dpaudit.project.project import load

    stop = time.monotonic() + 60 * minutes
    project, found = load(ROOT), _kept(CATALOGUE)
    for name, mechanism in sorted(project.mechanisms.items()):
        if name in found or time.monotonic() > stop:
            continue
        suite = project.suites.get(name)
        likely = None if suite is None else shape_like(suite.neighbours.first)
        seen = examine(mechanism, seed=1, likely=likely)
        clips = [one.clip for one in seen.reached if one.clip is not None]
        found[name] = {
            "not_examined": seen.not_examined,
            "lines": seen.ran.lines if seen.ran else 0,
            "run": seen.ran.run if seen.ran else 0,
            "clip": min(clips) if clips else None,
            "broken": [finding.detail for finding in seen.broken],
            "suite": suite is not None,
            "stand_in": list(stand_in(mechanism, suite)) if suite else [],
            "seconds": round(seen.seconds, 2),
            "stopped": seen.stopped,
        }
        _keep(CATALOGUE, found)
    _bugs(stop)


def _bugs(stop: float) -> None:
    import dpaudit as dp
    from tests.unseen_bugs import SHAPES, mechanism

    found = _kept(BUGS)
    for kind, adjacency, bugs in SHAPES:
        for bug in ("", *bugs):
            name = f"{kind.__name__}: {bug}"
            if name in found or time.monotonic() > stop:
                continue
            certificate = dp.certify(mechanism(kind, adjacency, bug), seed=1, trials=400)
            rows = certificate.content["predicate"]["conformance"]
            broken = [row["check"] for row in rows if row["status"] == "broken"]
            found[name] = {
                "shape": (kind.__doc__ or "").strip().partition("\n")[0],
                "bug": bug,
                "verdict": certificate.verdict,
                "check": broken[0] if broken else "",
            }
            _keep(BUGS, found)


def _kept(path: Path) -> Json:
    return json.loads(path.read_text("utf-8")) if path.exists() else {}


def _keep(path: Path, found: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(dict(sorted(found.items())), indent=1, ensure_ascii=False) + "\n"
    write_atomically(path, text.encode())


# --- the page ------------------------------------------------------------------------------------


def page(catalogue: Mapping[str, Json], bugs: Mapping[str, Json]) -> str:
    """The page: what was measured, in sentences made of it, and the two tables."""
    return "\n".join([*_head(catalogue, bugs), *_catalogue(catalogue), "", *_planted(bugs), ""])


def _head(catalogue: Mapping[str, Json], bugs: Mapping[str, Json]) -> Iterator[str]:
    examined = {k: v for k, v in catalogue.items() if not v["not_examined"]}
    seconds = sorted(v["seconds"] for v in examined.values())
    wrong = [v for v in bugs.values() if v["bug"]]
    right = [v for v in bugs.values() if not v["bug"]]
    through = sum(v["verdict"] == CERTIFIED for v in wrong)
    flagged = sum(v["verdict"] != CERTIFIED for v in right)
    stand_ins = sum(bool(v["stand_in"]) for v in catalogue.values())
    suites = sum(v["suite"] for v in catalogue.values())
    yield "# What is certified is what was examined"
    yield ""
    yield "Made by `python -m benchmarks.examination page` from the files in `docs/examination/`;"
    yield "`run` measures anew what is not in them."
    yield ""
    yield (
        f"`certify` and `audit` run every mechanism's own program on made-up records, with no "
        f"suite. Of {len(catalogue)} mechanisms of the catalogue {len(examined)} could be run; "
        "the others cannot be run at all, or on no records that could be made up, and their "
        "certificates say so first."
    )
    if seconds:
        middle = seconds[len(seconds) // 2]
        within = sum(s <= AIM for s in seconds)
        over = sum(s > MOST for s in seconds)
        yield (
            f"An examination took {middle:.1f} s in the median and {seconds[-1]:.1f} s at most; "
            f"{within} took {AIM:.0f} s or less, {over} more than {MOST:.0f} s (seconds of one "
            "core, with other work on the machine)."
        )
    yield (
        f"{stand_ins} of {suites} suites attack a stand-in: a program that differs from the named "
        "one. Their bounds stand apart on its page."
    )
    yield ""
    yield BEFORE
    yield (
        f"Of {len(wrong)} other bugs, in programs of {len(right)} shapes that no suite knows, "
        f"certified with no suite, {through} came out certified; {flagged} of {len(right)} right "
        "twins were flagged."
    )
    yield ""


def _catalogue(catalogue: Mapping[str, Json]) -> Iterator[str]:
    yield "## The catalogue"
    yield ""
    yield "Lines: of the program's own code that a run can reach by name, those that ran while it"
    yield "was examined; what audits of the same program run besides is not traced or counted."
    yield "Clip: the least share of a clipping radius that its own loss reached at a release; a"
    yield "dash where no query is the library's clipped mean."
    yield ""
    yield "| mechanism | lines run | clip reached | suite attacks | seconds | found |"
    yield "|---|---|---|---|---|---|"
    for name, one in catalogue.items():
        if one["not_examined"]:
            yield f"| {name} | not examined | | {_suite(one)} | {one['seconds']:.1f} | |"
            continue
        lines = f"{one['run']} of {one['lines']}"
        clip = "—" if one["clip"] is None else f"{100 * one['clip']:.3g}%"
        found = _cell("; ".join(one["broken"][:1]))
        yield (f"| {name} | {lines} | {clip} | {_suite(one)} | {one['seconds']:.1f} | {found} |")


def _suite(one: Json) -> str:
    if not one["suite"]:
        return "none"
    return _cell(f"stand-in: {'; '.join(one['stand_in'])}") if one["stand_in"] else "the program"


def _planted(bugs: Mapping[str, Json]) -> Iterator[str]:
    yield "## Planted bugs, with no suite"
    yield ""
    yield "| program | bug | verdict | by |"
    yield "|---|---|---|---|"
    for one in bugs.values():
        bug = one["bug"] or "none: the right twin"
        yield f"| {_cell(one['shape'])} | {_cell(bug)} | {one['verdict']} | {_cell(one['check'])} |"


def _cell(text: str) -> str:
    """Text that cannot end a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")[:200]


def main() -> None:
    """Measure, or write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=("run", "page"))
    parser.add_argument("--minutes", type=float, default=60.0)
    given = parser.parse_args()
    if given.what == "run":
        measure(given.minutes)
    write_atomically(PAGE, page(_kept(CATALOGUE), _kept(BUGS)).encode())


if __name__ == "__main__":
    main()
