"""What commands print for people: tables on standard output, progress on standard error."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from dpaudit.certify import Certified
    from dpaudit.mechanism import Mechanism
    from dpaudit.publish import Written

STYLES = {
    "certified": "green",
    "certified_under_assumptions": "green",
    "refuted": "red",
    "alarm": "bold red",
    "inconclusive": "yellow",
    "unsupported": "yellow",
}
PLAIN_SECONDS = 5.0
WIDTH = 180


def _console() -> Console:
    console = Console()
    # Piped output keeps whole cells; a terminal wraps them to its own width.
    return console if console.is_terminal else Console(width=WIDTH)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=escape(title), title_justify="left", show_lines=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _print(table: Table) -> None:
    _console().print(table)


def catalogue(rows: Sequence[Mapping[str, Any]]) -> None:
    """The mechanisms by name, with their claims."""
    table = _table("Mechanisms", "target", "title", "source", "scope", "claims")
    for row in rows:
        claims = "\n".join(row["claims"])
        cells = (row["target"], row["title"], row["paper"], row["scope"], claims)
        table.add_row(*map(escape, cells))
    _print(table)


def derivation(mechanism: Mechanism, derivations: Mapping[str, str], checks: Sequence[str]) -> None:
    """Declaration, derivations and claims, as plain text."""
    blocks = [repr(mechanism.declaration), f"under {mechanism.scope}"]
    blocks += [f"{name}:\n{text}" for name, text in derivations.items()]
    blocks += ["claims:\n" + "\n".join(f"  {check}" for check in checks)]
    _console().print("\n\n".join(blocks), markup=False, highlight=False, soft_wrap=True)


def account(table: Mapping[str, Any]) -> None:
    """The account's numbers."""
    columns = ("delta", "epsilon_lower", "epsilon_upper", "rule")
    shown = _table(table["scope"], "delta", "epsilon at least", "epsilon at most", "by")
    for row in table["epsilon"]:
        shown.add_row(*(escape(row[key]) for key in columns))
    _print(shown)
    for name, value in table["calculi"].items():
        _console().print(f"{name}: {value}", markup=False, highlight=False)


def verdicts(results: Sequence[Certified], written: Sequence[Written] = ()) -> None:
    """Claim, accounted, attacked, verdict: one line a claim; then the files."""
    from dpaudit.report import summary_rows

    table = _table("Claims", "mechanism", "claim", "accounted", "attacked", "verdict")
    for result in results:
        for row, judged in zip(summary_rows([result.certificate]), result.judged, strict=True):
            style = STYLES[str(judged.verdict)]
            reading = f" ({row.reading})" if row.reading else ""
            cells = (row.name, row.claim + reading, row.accounted, row.attacked)
            table.add_row(*map(escape, cells), f"[{style}]{escape(row.verdict)}[/]")
    _print(table)
    for result in results:
        _broken(result)
    for one in written:
        files = f"{one.page}  {one.certificate}"
        _console().print(files, markup=False, highlight=False, soft_wrap=True)


def _broken(result: Certified) -> None:
    for finding in result.attacked.findings if result.attacked else ():
        if finding.status == "broken":
            text = f"{result.mechanism.name}: {finding.check}: {finding.detail}"
            _console().print(text, style="red", markup=False, highlight=False)


def verified(rows: Sequence[Mapping[str, Any]]) -> None:
    """What was re-derived, and what was taken on trust."""
    for row in rows:
        word = "verified" if row["verified"] else "FAILED"
        lines = [f"{row['file']}: {word} ({row['verdict'] or row['reason']})"]
        lines += [f"  confirmed: {line}" for line in row["confirmed"]]
        lines += [f"  on trust: {line}" for line in row["on_trust"]]
        _console().print("\n".join(lines), markup=False, highlight=False, soft_wrap=True)


Report = Callable[[str, int, int], None]


@contextmanager
def progress() -> Iterator[Report]:
    """A progress bar on a terminal, a line now and then elsewhere; always standard error."""
    console = Console(stderr=True)
    if console.is_terminal:
        with _bars(console) as report:
            yield report
    else:
        yield _lines(console)


@contextmanager
def _bars(console: Console) -> Iterator[Report]:
    from rich.progress import Progress, TimeRemainingColumn

    with Progress(*Progress.get_default_columns()[:3], TimeRemainingColumn(), console=console) as p:
        tasks: dict[str, Any] = {}

        def report(name: str, done: int, total: int) -> None:
            if name not in tasks:
                tasks[name] = p.add_task(f"attacking {name}", total=total)
            p.update(tasks[name], completed=done)

        yield report


def _lines(console: Console) -> Report:
    last = [0.0]

    def report(name: str, done: int, total: int) -> None:
        now = time.monotonic()
        if done == total or now - last[0] > PLAIN_SECONDS:
            last[0] = now
            console.print(f"attacking {name}: {done} of {total} batches", highlight=False)

    return report
