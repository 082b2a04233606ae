"""The checker in a browser's engine beside this process: judgements, and seconds."""

from __future__ import annotations

import atexit
import statistics
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import dpaudit as dp
from dpaudit.check.rows import verify_file
from dpaudit.errors import DpauditError
from dpaudit.project.project import load
from tests.support.altered import altered_files
from tests.support.engine import Engine, judged

ROOT = Path(__file__).resolve().parent.parent
CERTIFICATES = ROOT / "build" / "browser"
ALTERED, SHARDS = 500, 50
START, REPORT, ENTRY, SHARD = "start", "report ", "entry ", "altered "
SHOWN = 12  # entries of the catalogue that take the engine longest
Parts = dict[str, dict[str, Any]]


@cache
def engine() -> Engine:
    """One warm process for all parts."""
    folder = tempfile.TemporaryDirectory()
    made = Engine(Path(folder.name))
    atexit.register(folder.cleanup)
    atexit.register(made.process.kill)
    return made


def reports() -> list[Path]:
    """The committed certificates: of mechanisms, then of membership audits."""
    return [*sorted((ROOT / "reports").glob("*.json")), *sorted(ROOT.glob("reports/*/*.json"))]


def parts() -> list[str]:
    """The names of all measurements: reports, shards of altered ones, entries of the catalogue."""
    return [
        START,
        *(f"{REPORT}{path.relative_to(ROOT / 'reports')}" for path in reports()),
        *(f"{SHARD}{shard + 1} of {SHARDS}" for shard in range(SHARDS)),
        *(f"{ENTRY}{name}" for name in load(ROOT).mechanisms),
    ]


def measured(part: str) -> dict[str, Any] | str:
    """The judgement of each file of a part, here and there, with the seconds of both."""
    if part == START:
        return {"seconds": round(engine().start, 2)}
    if part.startswith(REPORT):
        return compared([ROOT / "reports" / part.removeprefix(REPORT)])
    if part.startswith(SHARD):
        shard = int(part.split()[1]) - 1
        with tempfile.TemporaryDirectory() as folder:
            return compared(altered_files(reports(), Path(folder), ALTERED)[shard::SHARDS])
    try:
        return compared([certificate(part.removeprefix(ENTRY))])
    except DpauditError as error:
        return str(error)


def certificate(name: str) -> Path:
    """The certificate of an entry of the catalogue, without attacks; made where it is not kept."""
    path = CERTIFICATES / f"{name}.json"
    if not path.exists():
        dp.certify(load(ROOT).mechanisms[name], seed=1).save(CERTIFICATES)
    return path


def compared(files: list[Path]) -> dict[str, Any]:
    """Both judgements of files: how many are the same, and how many are refused."""
    natively = engined = 0.0
    same, verified = [], []
    for file in files:
        begun = time.monotonic()
        here = verify_file(file)
        natively += time.monotonic() - begun
        there = engine().answer(file)
        engined += there["seconds"]
        same.append(judged(here) == judged(there["row"]))
        verified.append(here["verified"])
    return {
        "files": len(files),
        "same": sum(same),
        "verified": sum(verified),
        "native": round(natively, 2),
        "browser": round(engined, 2),
    }


def lines(held: Parts) -> Iterator[str]:
    """Lines of the page."""
    kinds = {k: {n: r for n, r in held.items() if n.startswith(k)} for k in (REPORT, ENTRY, SHARD)}
    yield (
        "`verify.html` re-derives certificates in a browser, by the checker's own modules in "
        "Pyodide: 32-bit arithmetic, no NumPy. Here that engine runs under Node, and each file is "
        "judged by it and by `dpaudit verify`: verdict, reasons, bounds, and what is on trust."
    )
    yield ""
    if START in held:
        yield f"It was ready after {held[START]['seconds']:.1f} s.\n"
    yield "| certificates | judged | the same in both | verified | native s | browser s |"
    yield "|---|---|---|---|---|---|"
    titles = {
        REPORT: "of `reports/`",
        ENTRY: "of the catalogue, unattacked, as far as measured",
        SHARD: "altered",
    }
    for kind, title in titles.items():
        rows = list(kinds[kind].values())
        if rows:
            total = {key: sum(row[key] for row in rows) for key in rows[0]}
            yield (
                f"| {title} | {total['files']} | {total['same']} | {total['verified']} "
                f"| {total['native']:.0f} | {total['browser']:.0f} |"
            )
    yield ""
    if entries := kinds[ENTRY]:
        middle = statistics.median(row["browser"] for row in entries.values())
        native = statistics.median(row["native"] for row in entries.values())
        yield (
            f"An entry takes the browser's engine {middle:.1f} s in the middle, {native:.1f} s "
            "natively. Committed reports, and the entries that take it longest:\n"
        )
    yield "| certificate | native s | browser s |"
    yield "|---|---|---|"
    slowest = sorted(entries.items(), key=lambda item: -item[1]["browser"])[:SHOWN]
    for name, row in [*kinds[REPORT].items(), *slowest]:
        shown = name.removeprefix(REPORT).removeprefix(ENTRY)
        yield f"| `{shown}` | {row['native']:.2f} | {row['browser']:.1f} |"
