"""What an examination reaches of every program of the catalogue, and which bugs it refuses.

``python -m benchmarks.examination run`` examines each mechanism, then certifies the wrong programs
of ``tests/support/unseen_bugs.py`` with no suite; it keeps what it has in docs/examination/ and
resumes there.  ``verdicts`` keeps what ``make certify-all`` said of every claim.  ``page`` writes
docs/examination.md from those files.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dpaudit.storage.files import write_atomically

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "examination"
CATALOGUE, BUGS = FOLDER / "catalogue.json", FOLDER / "bugs.json"
# What ``certify --all`` says, and what was expected of it before programs were examined.
VERDICTS, EARLIER = FOLDER / "verdicts.json", FOLDER / "before.json"
CERTIFICATES = ROOT / "reports" / "catalogue"
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
    from tests.support.unseen_bugs import SHAPES, mechanism

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


def verdicts(folder: Path) -> None:
    """Keep every claim's verdict, of the certificates in a folder, and whether it is expected."""
    from dpaudit.certificate.certificate import surprises
    from dpaudit.certificate.publish import verified
    from dpaudit.project.project import load

    found: Json = {}
    for name, mechanism in sorted(load(ROOT).mechanisms.items()):
        path = folder / f"{name}.json"
        if not path.exists():
            raise SystemExit(f"{path}: missing; `make certify-all` makes it")
        certificate, _ = verified(path)
        found[name] = {
            "claims": [[c["stated_text"], c["check"]] for c in certificate["predicate"]["claims"]],
            "verdict": certificate["predicate"]["verdict"]["status"],
            "revision": certificate["predicate"]["environment"]["git"]["commit"][:7],
            "surprises": list(surprises(certificate, mechanism.expectations)),
        }
    _keep(VERDICTS, found)


# --- the page ------------------------------------------------------------------------------------


def page(
    catalogue: Mapping[str, Json],
    bugs: Mapping[str, Json],
    said: Mapping[str, Json],
    earlier: Mapping[str, Json],
) -> str:
    """The page: what was measured, in sentences made of it, and the tables."""
    parts = (_head(catalogue, bugs), _changed(said, earlier), _catalogue(catalogue), _planted(bugs))
    return "\n".join(line for part in parts for line in (*part, "")).rstrip("\n") + "\n"


def _changed(said: Mapping[str, Json], earlier: Mapping[str, Json]) -> Iterator[str]:
    """How many mechanisms have which verdict, and each claim of which something else is said."""
    counts = Counter(one["verdict"].replace("_", " ") for one in said.values())
    told = ", ".join(f"{number} {verdict}" for verdict, number in counts.most_common())
    code = ", ".join(sorted({one["revision"] for one in said.values()}))
    surprised = {name: one["surprises"] for name, one in said.items() if one["surprises"]}
    before: Mapping[str, list[list[str]]] = earlier["claims"]
    yield "## Every verdict, and which changed"
    yield ""
    yield (
        f"`make certify-all` certified {len(said)} mechanisms (revision {code}): {told}. "
        f"{len(surprised) or 'None'} of them differ from what the catalogue expects."
    )
    for name, lines in surprised.items():
        yield f"- {name}: {_cell('; '.join(lines))}"
    new, gone = sorted(set(said) - set(before)), sorted(set(before) - set(said))
    rows, same = [], 0
    for name in sorted(set(said) & set(before)):
        then, now = _outcomes(before[name]), _outcomes(said[name]["claims"])
        for claim in dict.fromkeys((*then, *now)):
            old, found = (", ".join(of.get(claim, ["not claimed"])) for of in (then, now))
            same += old == found
            if old != found:
                rows.append(f"| {name} | {_cell(claim)} | {old} | {found} |")
    yield (
        f"Before programs were examined (revision {earlier['revision']}) there were "
        f"{len(before)} mechanisms. Of those that there still are, {same} claims have the outcome "
        f"that they had, and {len(rows)} have another or other words; {len(new)} mechanisms are "
        f"new, {len(gone)} are gone{': ' if gone else ''}{', '.join(gone)}."
    )
    yield ""
    yield "| mechanism | claim | then | now |"
    yield "|---|---|---|---|"
    yield from rows


def _outcomes(claims: Sequence[Sequence[str]]) -> dict[str, list[str]]:
    """The outcomes of each claim, by its text: in several readings it has several."""
    found: dict[str, list[str]] = {}
    for text, outcome in claims:
        found.setdefault(text, []).append(outcome)
    return found


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
    parser.add_argument("what", choices=("run", "verdicts", "page"))
    parser.add_argument("--minutes", type=float, default=60.0)
    given = parser.parse_args()
    if given.what == "run":
        measure(given.minutes)
    if given.what == "verdicts":
        verdicts(CERTIFICATES)
    kept = [_kept(path) for path in (CATALOGUE, BUGS, VERDICTS, EARLIER)]
    write_atomically(PAGE, page(*kept).encode())


if __name__ == "__main__":
    main()
