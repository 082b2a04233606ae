"""The checker in a browser's engine beside this process: judgements, and seconds."""

from __future__ import annotations

import atexit
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import dpaudit as dp
from dpaudit.audit.examine import Examination
from dpaudit.certificate import certify
from dpaudit.check.rows import verify_file
from dpaudit.errors import DpauditError
from dpaudit.project.project import load
from dpaudit.report.verifier import SECONDS, write_verifier
from tests.support.altered import altered_files
from tests.support.chromium import Chromium
from tests.support.engine import Engine, children, judged, spent
from tests.support.verify_page import differing, hostile_files, ready, shown

ROOT = Path(__file__).resolve().parent.parent
CERTIFICATES = ROOT / "build" / "browser"
ALTERED, SHARDS = 500, 5
START, COLD, REPORT, ENTRY, SHARD = "start", "cold", "report ", "entry ", "altered "
IN_PAGE, HOSTILE = "page: altered ", "page: hostile"
LONGEST_START = 600.0  # seconds of a busy machine
LONGEST_COLD = 10.0  # seconds of a processor until the page is ready in Chromium, cold
BUSY = 3600  # seconds of a busy machine's clock that the page may take here; a reader's has SECONDS
SHOWN = 12  # entries of the catalogue that take the engine longest
UNEXAMINED = Examination(not_examined="a measurement of the checker alone")
SLOW = 10.0  # seconds above which a warm check is long
_warm: list[Engine] = []
_open: list[Chromium] = []


class Judged(NamedTuple):
    """Files that both judged: how many the same, how many verified, the seconds of a processor.

    ``why``: of files that the engine did not judge, or that there are not.
    """

    files: int
    same: int
    verified: int
    native: float
    browser: float
    why: str = ""


def engine() -> Engine:
    """One warm process for all parts; another where a limit has ended it."""
    if not _warm or _warm[-1].process.poll() is not None:
        folder = tempfile.TemporaryDirectory()
        _warm.append(Engine(Path(folder.name)))
        atexit.register(folder.cleanup)
        atexit.register(_warm[-1].process.kill)
    return _warm[-1]


def page() -> Chromium:
    """One Chromium with the page open, for all parts."""
    if not _open:
        folder = tempfile.TemporaryDirectory()
        _open.append(Chromium(Path(folder.name) / "profile"))
        atexit.register(folder.cleanup)
        atexit.register(_open[0].process.kill)
        ready(_open[0], write_verifier(Path(folder.name)), f"?seconds={BUSY}")
    return _open[0]


def reports() -> list[Path]:
    """The committed certificates: of mechanisms, then of membership audits."""
    return [*sorted((ROOT / "reports").glob("*.json")), *sorted(ROOT.glob("reports/*/*.json"))]


def parts() -> list[str]:
    """The names of all measurements: reports, shards of altered ones, entries of the catalogue."""
    return [
        START,
        COLD,
        *(f"{REPORT}{path.relative_to(ROOT / 'reports')}" for path in reports()),
        HOSTILE,
        *(f"{kind}{shard + 1} of {SHARDS}" for kind in (SHARD, IN_PAGE) for shard in range(SHARDS)),
        *(f"{ENTRY}{name}" for name in load(ROOT).mechanisms),
    ]


def measured(part: str) -> Judged | list[float] | float:
    """The judgement of each file of a part, here and there, with the seconds of both."""
    if part == START:
        return round(engine().start, 2)
    if part == COLD:
        return cold()
    if part.startswith(REPORT):
        return compared([ROOT / "reports" / part.removeprefix(REPORT)])
    if part == HOSTILE:
        with tempfile.TemporaryDirectory() as folder:
            return in_page(hostile_files(ROOT / "reports" / "dp_gd.json", Path(folder)))
    if part.startswith((SHARD, IN_PAGE)):
        shard = int(part.split()[-3]) - 1
        with tempfile.TemporaryDirectory() as folder:
            files = altered_files(reports(), Path(folder), ALTERED)[shard::SHARDS]
            return in_page(sorted(files)) if part.startswith(IN_PAGE) else compared(files)
    try:
        return compared([certificate(part.removeprefix(ENTRY))])
    except DpauditError as error:
        return Judged(0, 0, 0, 0, 0, str(error))


def cold() -> list[float]:
    """The page's first start in Chromium: seconds of a processor and of a clock, and the load."""
    with tempfile.TemporaryDirectory() as folder:
        page = write_verifier(Path(folder))
        load = os.getloadavg()[0]
        with Chromium(Path(folder) / "profile") as browser:
            before, begun = _taken(browser), time.monotonic()
            browser.open(page.as_uri())
            browser.until("document.body && document.body.dataset.ready === 'yes'", LONGEST_START)
            clock = time.monotonic() - begun
            return [round(s, 2) for s in (_taken(browser) - before, clock, load)]


def _taken(browser: Chromium) -> float:
    """The processor's seconds of a browser and all its processes."""
    return sum(map(spent, [browser.process.pid, *children(browser.process.pid)]))


def certificate(name: str) -> Path:
    """The certificate of an entry of the catalogue; made where it is not kept.

    Its program is neither examined nor attacked: the checker re-derives what is declared.
    """
    path = CERTIFICATES / f"{name}.json"
    if not path.exists():
        with patch.object(certify, "examined", lambda *_, **__: UNEXAMINED):
            dp.certify(load(ROOT).mechanisms[name], seed=1).save(CERTIFICATES)
    return path


def compared(files: list[Path], limit: float = SECONDS) -> Judged:
    """Both judgements of files: how many are the same, and how many are refused.

    ``limit``: the seconds after which the page ends a check; here a check may take as long.
    """
    natively = engined = 0.0
    same, verified, why = [], [], []
    for file in files:
        begun = time.process_time()
        here = verify_file(file, limit)
        natively += time.process_time() - begun
        verified.append(here["verified"])
        try:
            there = engine().answer(file, limit)
        except TimeoutError as error:
            engined += limit
            why.append(f"{file.stem}: {error}")
        else:
            engined += there["seconds"]
            same.append(judged(here) == judged(there["row"]))
    seconds = round(natively, 2), round(engined, 2)
    return Judged(len(files), sum(same), sum(verified), *seconds, *filter(None, ["; ".join(why)]))


def in_page(files: list[Path]) -> Judged:
    """As :func:`compared`, by the page in Chromium, which is given one file after another."""
    natively, before, verified, why = 0.0, _taken(page()), 0, []
    for file in files:
        begun = time.process_time()
        row = verify_file(file)
        natively += time.process_time() - begun
        verified += row["verified"]
        (section,) = shown(page(), file, each=BUSY)
        if difference := differing(row, section):
            why.append(f"{file.name}: {difference}")
    seconds = round(natively, 2), round(_taken(page()) - before, 2)
    same = len(files) - len(why)
    return Judged(len(files), same, verified, *seconds, *filter(None, ["; ".join(why)]))


def lines(held: dict[str, Any]) -> Iterator[str]:
    """Lines of the page."""
    kinds = {
        kind: {n: Judged(*row) for n, row in held.items() if n.startswith(kind)}
        for kind in (REPORT, ENTRY, SHARD, IN_PAGE, HOSTILE)
    }
    yield (
        "`verify.html` re-derives certificates in a browser, by the checker's own modules in "
        "Pyodide: 32-bit arithmetic, no NumPy. Here that engine runs under Node, and each file is "
        "judged by it and by `dpaudit verify`: verdict, reasons, bounds, and what is on trust. "
        f"Seconds are those of a processor, where they were measured; the page ends a check after "
        f"{SECONDS}."
    )
    yield ""
    if START in held:
        yield f"It was ready after {held[START]:.1f} s.\n"
    if COLD in held:
        processor, clock, load = held[COLD]
        yield (
            f"In Chromium the page was ready, cold, after {processor:.1f} s of a processor and "
            f"{clock:.1f} s of a clock, on two cores whose load was {load:.1f} before.\n"
        )
    yield "| certificates | judged | the same in both | verified | native s | browser s |"
    yield "|---|---|---|---|---|---|"
    titles = {
        REPORT: "of `reports/`",
        ENTRY: "of the catalogue, by their declarations",
        SHARD: "altered",
        IN_PAGE: "altered, given to `verify.html` in a headless Chromium",
        HOSTILE: "hostile files, given to `verify.html` in a headless Chromium",
    }
    for kind, title in titles.items():
        if rows := list(kinds[kind].values()):
            total: list[float] = [
                sum(column) for column in zip(*(row[:5] for row in rows), strict=True)
            ]
            if not all(row.browser for row in rows if row.files):
                total[3:] = 0.0, 0.0
            yield (
                f"| {title} | {total[0]} | {total[1]} | {total[2]} "
                f"| {_shown(total[3], 0)} | {_shown(total[4], 0)} |"
            )
    yield ""
    if entries := kinds[ENTRY]:
        middle = statistics.median(row.browser for row in entries.values() if row.files)
        native = statistics.median(row.native for row in entries.values() if row.files)
        long = sum(row.browser > SLOW for row in entries.values())
        yield (
            f"An entry takes the browser's engine {middle:.1f} s in the middle, {native:.1f} s "
            f"natively; {long} take it longer than {SLOW:g} s.\n"
        )
    for row in (row for rows in kinds.values() for row in rows.values() if row.why):
        yield f"- without the same answer there: {row.why}"
    yield ""
    yield "Committed reports, and the entries that take the engine longest:\n"
    yield "| certificate | native s | browser s |"
    yield "|---|---|---|"
    slowest = sorted(kinds[ENTRY].items(), key=lambda item: -item[1].browser)[:SHOWN]
    for name, row in [*kinds[REPORT].items(), *slowest]:
        shown = name.removeprefix(REPORT).removeprefix(ENTRY)
        yield f"| `{shown}` | {_shown(row.native, 2)} | {_shown(row.browser, 1)} |"


def _shown(seconds: float, digits: int) -> str:
    """Nothing where a judgement was not timed by the processor, but by a busy machine's clock."""
    return f"{seconds:.{digits}f}" if seconds else ""
