"""Output of commands for people: tables on standard output, progress on standard error."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from dpaudit.certificate.cache import Files
    from dpaudit.curator.mechanism import Mechanism

STYLES = {
    "certified": "green",
    "certified_under_assumptions": "green",
    "refuted": "red",
    "alarm": "bold red",
    "inconclusive": "yellow",
    "unconfirmed": "yellow",
    "unsupported": "yellow",
}
PLAIN_SECONDS = 30.0  # between two lines of progress of one attack, if no bar is shown
PIPED_WIDTH = 180  # Characters of a line of piped output.
MAX_BARS = 8  # If there are more mechanisms, the bars of finished ones are hidden.
# Displacements below this share of the declared one are remarked on: the declaration may be too
# cautious.
LARGEST_REMARKED = 0.5
MAX_CAVEATS = 3  # Lines of caveats for each mechanism; the page has all of them.


def _console() -> Console:
    console = Console()
    # Piped output keeps whole cells; a terminal wraps them to its own width.
    return console if console.is_terminal else Console(width=PIPED_WIDTH)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=escape(title), title_justify="left", show_lines=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _print(table: Table) -> None:
    _console().print(table)


def rows(title: str, columns: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    """Print a table of texts."""
    table = _table(title, *columns)
    for line in lines:
        table.add_row(*map(escape, line))
    _print(table)


def catalogue(rows: Sequence[Mapping[str, Any]], *, filtered: bool) -> None:
    """Print the mechanisms, one line each, then the files and suites that were not loaded.

    Claims are shown for the project's mechanisms, and for all if the list is ``filtered``.
    """
    loaded = [row for row in rows if not row["error"]]
    local = [row for row in loaded if row["root"] == "project"]
    shipped = [row for row in loaded if row["root"] == "catalogue"]
    for title, mechanisms in (("This project", local), ("Shipped with dpaudit", shipped)):
        if mechanisms:
            _mechanisms(title, mechanisms, claims=filtered or mechanisms is local)
    if not filtered:
        hint = "dpaudit list WORD... searches and shows claims; dpaudit show TARGET shows one"
        _console().print(hint, markup=False, highlight=False)
    for row in rows:
        if row["error"]:
            warn(f"{row['name']}: {row['error']}")


def _mechanisms(title: str, rows: Sequence[Mapping[str, Any]], *, claims: bool) -> None:
    if not claims:
        table = _table(title, "target", "title")
        for row in rows:
            table.add_row(escape(row["target"]), escape(row["title"]))
    else:
        table = _table(title, "target", "title", "source", "scope", "claims")
        for row in rows:
            claimed = "\n".join(map(_claimed, row["claims"]))
            cells = (row["target"], row["title"], row["paper"], row["scope"], claimed)
            table.add_row(*map(escape, cells))
    _print(table)


def _claimed(claim: Mapping[str, str]) -> str:
    notes = [claim["reading"]] if claim["reading"] else []
    notes += [f"{claim['expected']} is expected"] if claim["expected"] != "proved" else []
    return claim["claim"] + (f" ({'; '.join(notes)})" if notes else "")


def derivation(mechanism: Mechanism, derivations: Mapping[str, str], checks: Sequence[str]) -> None:
    """Print declaration, derivations, claims and free parameters as plain text."""
    from dpaudit.curator.parameters import parameters

    blocks = [repr(mechanism.declaration), f"under {mechanism.scope}"]
    blocks += [f"{name}:\n{text}" for name, text in derivations.items()]
    blocks += ["claims:\n" + "\n".join(f"  {check}" for check in checks)]
    free = [
        f"  {row.name} = {row.default_text}: {row.free.unit}; {row.free.cost.value}"
        for row in parameters(mechanism.for_shape)
    ]
    if free:
        blocks += ["free parameters, for `dpaudit run --set KEY=VALUE`:\n" + "\n".join(free)]
    _console().print("\n\n".join(blocks), markup=False, highlight=False, soft_wrap=True)


def account(table: Mapping[str, Any]) -> None:
    """Print the numbers of an account."""
    columns = ("delta", "epsilon_lower", "epsilon_upper", "rule")
    if "epsilon" in table:
        shown = _table(table["scope"], "delta", "epsilon at least", "epsilon at most", "by")
        for row in table["epsilon"]:
            shown.add_row(*(escape(row[key]) for key in columns))
        _print(shown)
    for name, value in table.get("calculi", {}).items():
        _console().print(f"{name}: {value}", markup=False, highlight=False)
    for key, title in (("over_steps", "Epsilon over steps"), ("sigma", "Sigma over epsilon")):
        if rows := table.get(key):
            extra = _table(title, *(name.replace("_", " ") for name in rows[0]))
            for row in rows:
                extra.add_row(*(escape(str(value)) for value in row.values()))
            _print(extra)


def verdicts(certificates: Sequence[Mapping[str, Any]], written: Sequence[Files] = ()) -> None:
    """Print a line for each claim: claim, accounted, attacked, verdict; then caveats and files."""
    from dpaudit.report import summary_rows

    table = _table("Claims", "mechanism", "claim", "accounted", "attacked", "verdict")
    for certificate in certificates:
        claims = certificate["predicate"]["claims"]
        for row, claim in zip(summary_rows([certificate]), claims, strict=True):
            style = STYLES[claim["verdict"]]
            reading = f" ({row.reading})" if row.reading else ""
            attacked = "; ".join(filter(None, (row.attacked, row.likely)))
            cells = (row.name, row.claim + reading, row.accounted, attacked)
            shown = (escape(plain(cell)) for cell in cells)
            table.add_row(*shown, f"[{style}]{escape(row.verdict)}[/]")
    _print(table)
    for certificate in certificates:
        _caveats(certificate["predicate"])
    for files_of_one in written:
        files = f"{files_of_one.page}  {files_of_one.certificate}"
        _console().print(files, markup=False, highlight=False, soft_wrap=True)


def _caveats(predicate: Mapping[str, Any]) -> None:
    """Print the gravest caveats of one certificate; broken checks and examination gaps in red."""
    from dpaudit.report.words import CUT_SHORT, TOGETHER, UNATTACKED

    name = predicate["mechanism"]["name"]
    grave = [*_not_examined(predicate), *_broken(predicate)]
    reached = [text for text in predicate["caveats"] if TOGETHER in text]
    less = [text for text in predicate["caveats"] if text.startswith((UNATTACKED, CUT_SHORT))]
    lines = [*grave, *less, *_on_trust(predicate), *_short(predicate), *reached]
    lines += [*_stand_ins(predicate), *_never_run(predicate), *_tried(predicate)]
    shown = lines if len(lines) <= MAX_CAVEATS else lines[: MAX_CAVEATS - 1]
    for place, line in enumerate(shown):
        if place < len(grave):
            warn(f"{name}: {line}")
        else:
            _say(f"{name}: {line}")
    if len(shown) < len(lines):
        _say(f"{name}: {len(lines) - len(shown)} more caveats are on the page")


def _say(text: str) -> None:
    _console().print(plain(text), markup=False, highlight=False, soft_wrap=True)


def _not_examined(predicate: Mapping[str, Any]) -> Iterator[str]:
    """The parts of the program that were not examined."""
    from dpaudit.report.words import UNCOMPARED, UNEXAMINED, UNHEARD

    grave = UNEXAMINED, UNHEARD, UNCOMPARED
    yield from (text for text in predicate["caveats"] if text.startswith(grave))


def _broken(predicate: Mapping[str, Any]) -> Iterator[str]:
    for finding in predicate["conformance"]:
        if finding["status"] == "broken":
            yield f"{finding['check']}: {finding['detail']}"


def _on_trust(predicate: Mapping[str, Any]) -> Iterator[str]:
    """The claims whose bound the accountant computed and the checker cannot derive again."""
    from dpaudit.audit.verdict import ON_TRUST

    for reason in predicate["verdict"]["reasons"]:
        claim, unconfirmed, _ = reason.partition(" is unconfirmed: ")
        if unconfirmed and reason.endswith(ON_TRUST):
            yield f"{claim}{unconfirmed}{ON_TRUST}"


def _stand_ins(predicate: Mapping[str, Any]) -> Iterator[str]:
    """The lower bound of each audit of a stand-in, and how the stand-in differs."""
    for audit in predicate["audits"]:
        if audit["about"] == "stand_in" and audit["id"].endswith("lens"):
            (bound,) = audit["lower_bounds"]
            differs = "; ".join(audit["differs"])
            yield f"a stand-in shows mu >= {bound['mu']}, apart from the program: {differs}"


def _short(predicate: Mapping[str, Any]) -> Iterator[str]:
    """The queries that records moved by less than half of what is stated."""
    for row in predicate["examination"]["reached"]:
        share = float(row["displacement_share"])
        if share < LARGEST_REMARKED and not row.get("reaches"):
            label = f"release {row['label']!r}"
            yield f"{label}: records moved its query by {100 * share:.3g}% of what is stated"


def _never_run(predicate: Mapping[str, Any]) -> Iterator[str]:
    """The number of lines of the program that no examination ran."""
    code = predicate["examination"]["code"]
    if code and code["missed"]:
        missed = f"{code['lines'] - code['run']} of {code['lines']} lines"
        yield f"{missed} never ran while it was examined; the page lists them"


def _tried(predicate: Mapping[str, Any]) -> Iterator[str]:
    """How much the examination tried."""
    if tried := predicate["examination"].get("tried"):
        yield (
            f"examined on {tried['data_sets']:,} data sets with {tried['rows']:,} rows; "
            f"{tried['mutations']:,} pairs were made by mutation"
        )


def warn(text: str) -> None:
    """Print one line in red."""
    _console().print(plain(text), style="red", markup=False, highlight=False, soft_wrap=True)


def plain(text: object) -> str:
    """Untrusted text on one line, with non-printing characters escaped."""
    shown = str(text)
    # Non-breaking spaces are harmless, and readable as plain spaces.
    shown = shown.replace("\xa0", " ").replace("\u202f", " ")
    if shown.isprintable():
        return shown
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shown)


def budgets(totals: Sequence[Any]) -> None:
    """Print the composed guarantee of the releases from each data set."""
    for total in totals:
        for line in () if total.of_all else total.outside:
            warn(plain(f"{total.data}: {line}"))
        at = f"epsilon at delta = {total.delta}"
        table = _table(
            f"{total.data}: one {total.unit}, {total.adjacency}",
            "date",
            "release",
            "verdict",
            f"{at}, alone",
            "together",
        )
        for row in total.rows:
            cells = (row.entry.day.isoformat(), row.entry.name, row.entry.verdict.replace("_", " "))
            table.add_row(*map(escape, (*cells, row.alone, row.together)))
        _print(table)
        if total.refused:
            warn(f"not added: {total.refused}")
            continue
        exact = ", ".join(f"{name} {value}" for name, value in (total.exact or {}).items())
        lines = [f"together: {total.epsilon_lower} <= {at} <= {total.epsilon_upper}"]
        lines += [f"exact: {exact}"] if exact else []
        lines += [f"left of the budget: {total.left}"] if total.left and not total.over else []
        _console().print("\n".join(lines), markup=False, highlight=False, soft_wrap=True)
        if total.over:
            warn(f"over budget: {total.left} left")


def verified(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print for each file what was re-derived, what is taken on trust, and unmet requirements."""
    for row in rows:
        word = "verified" if row["verified"] else "FAILED"
        if row["verified"] and row["missing"]:
            word = "verified, NOT as required"
        reason = row["reason"].removeprefix(f"{row['file']}: ")
        lines = [f"{row['file']}: {word} ({row['verdict'] or reason})"]
        lines += [f"  not met: {line}" for line in row["missing"] if line != row["reason"]]
        lines += [f"  confirmed: {line}" for line in row["confirmed"]]
        lines += [f"  on trust: {line}" for line in row["on_trust"]]
        lines += [
            f"  not checked: {', '.join(part['fields'])} ({part['why']})"
            for part in row["unchecked"]
        ]
        lines += [f"  signature: {_signature(part)}" for part in row.get("signatures", [])]
        shown = "\n".join(map(plain, lines))
        _console().print(shown, markup=False, highlight=False, soft_wrap=True)


def _signature(signature: Mapping[str, Any]) -> str:
    name = f"{signature['name']}, " if signature["name"] else ""
    stamp = ", with a time stamp that is not verified here" if signature["timestamp"] else ""
    return f"{signature['state']}, {name}key {signature['key_id'][:16]}{stamp}"


def comparison(columns: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str]) -> None:
    """Print a comparison of methods: losses and verdicts; the settings are on its page."""
    shown = [
        index for index, name in enumerate(columns) if name not in ("chosen", "settings tried")
    ]
    table = _table("Methods, each searched alike", *(columns[index] for index in shown))
    for row in rows:
        table.add_row(*(escape(plain(row[index])) for index in shown))
    _print(table)
    _console().print("\n".join(map(plain, notes)), markup=False, highlight=False, soft_wrap=True)


Report = Callable[[str, int, int], None]


@dataclass
class Pace:
    """An estimate of the remaining time, from the progress since the first call.

    Batches of an earlier run are complete at the first call, so that they do not count.
    """

    clock: Callable[[], float] = time.monotonic
    _first: tuple[float, int] | None = field(default=None, init=False)

    def left(self, done: int, total: int) -> str:
        """Text such as ", 40 s left"; empty at the start, at the end and without progress."""
        now = self.clock()
        if self._first is None:
            self._first = now, done
        start, before = self._first
        if done <= before or done >= total:
            return ""
        return f", {_duration((now - start) / (done - before) * (total - done))} left"


def _duration(seconds: float) -> str:
    minutes = seconds / 60
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(minutes)} min" if minutes < 90 else f"{minutes / 60:.1f} h"


@contextmanager
def progress(*, ends: bool = True) -> Iterator[Report]:
    """Progress on standard error: bars on a terminal, otherwise a line from time to time.

    ``ends``: whether a line says that a mechanism is finished; else the command says so.
    """
    console = Console(stderr=True)
    with _bars(console) if console.is_terminal else _lines(console, ends=ends) as report:
        yield report


@contextmanager
def _bars(console: Console) -> Iterator[Report]:
    from rich.progress import Progress, TimeRemainingColumn

    with Progress(*Progress.get_default_columns()[:3], TimeRemainingColumn(), console=console) as p:
        tasks: dict[str, Any] = {}

        def report(name: str, done: int, total: int) -> None:
            if name not in tasks:
                # Batches stored by an earlier run are no evidence of this run's speed.
                tasks[name] = p.add_task(f"attacking {name}", total=total, completed=done)
            visible = done < total or len(tasks) <= MAX_BARS
            p.update(tasks[name], completed=done, visible=visible)

        yield report


@contextmanager
def _lines(console: Console, *, ends: bool) -> Iterator[Report]:
    """A line when a mechanism is finished, and one from time to time before."""
    started: dict[str, float] = {}
    batches: dict[tuple[str, int], int] = {}
    paces: dict[str, Pace] = {}
    last = [time.monotonic()]

    def say(text: str) -> None:
        last[0] = time.monotonic()
        console.print(text, markup=False, highlight=False)

    def end(name: str) -> None:
        seconds = time.monotonic() - started.pop(name)
        done = sum(count for (whose, _), count in batches.items() if whose == name)
        last[0] = time.monotonic()
        if ends:
            say(f"attacked {name}: {done} batches in {_duration(seconds)}")

    def report(name: str, done: int, total: int) -> None:
        if name not in started:
            for other in list(started):
                end(other)
            started[name] = time.monotonic()
            if done > 1:
                say(f"resuming {name}: {done} of {total} batches are stored")
        batches[name, total] = done
        time_left = paces.setdefault(name, Pace()).left(done, total)
        if done < total and time.monotonic() - last[0] > PLAIN_SECONDS:
            say(f"attacking {name}: {done} of {total} batches{time_left}")

    yield report
    for name in list(started):
        end(name)
