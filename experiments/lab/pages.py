"""An experiment's findings as JSON, as Markdown, and as lines for a terminal."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpaudit.storage.files import write_atomically
from experiments.lab.learning import BAND
from experiments.lab.model import Check, Experiment, Findings, Results, Status, Table, judge
from experiments.lab.plots import svg
from experiments.lab.protocol import PREDATES
from experiments.lab.running import Order

if TYPE_CHECKING:
    from experiments.lab.figures import Figure

EXIT_CODES: dict[str, int] = {
    Status.HELD: 0,
    Status.MISSED: 1,
    Status.INCONCLUSIVE: 3,
    Status.WITHHELD: 3,
}
# How a check says that values had been seen when its band was set: its own, or another run's.
SEEN = re.compile(r"\bhad been seen\b|\bafter (?:a look|earlier|an outside run)\b")
COUNT = re.compile(
    r"(?<=<!-- bands: written by python -m experiments pages -->\n).*?(?=<!-- end of bands)", re.S
)
UNFAIR = "## Run before the protocol: no fair comparison"
CHECK_COLUMNS = ("check", "value", "band", "two standard errors", "verdict", "band from")


def document(
    order: Order, experiment: Experiment, results: Results, findings: Findings, sources: str = ""
) -> dict[str, Any]:
    """Everything a run found; a number that is not finite is a word.

    ``sources``: a digest of the files that the cells were made by.
    """
    return {
        "experiment": experiment.name,
        "title": experiment.title,
        "source": experiment.source,
        "size": str(order.size),
        "seed": str(order.seed),
        **({"sources": sources} if sources else {}),
        **({"protocol": experiment.protocol.stamp} if experiment.protocol else {}),
        "verdict": str(judge(findings.checks)),
        "checks": [_check(check) for check in findings.checks],
        "tables": [_table(table) for table in findings.tables],
        "notes": list(findings.notes),
        "cells": [
            {
                "parameters": dict(result.cell.parameters),
                "values": {k: _json(v) for k, v in result.values.items()},
            }
            for result in results
        ],
    }


def write_page(of: Experiment | Figure, made: str, findings: Findings, folder: Path) -> list[Path]:
    """Write NAME.md, which says how it was ``made``, and NAME.svg where the figure has panels.

    Errors: OutputNotWritable.
    """
    content = {".md": markdown(of, made, findings)}
    if findings.panels:
        content[".svg"] = svg(findings.panels)
    paths = [folder / f"{of.name}{suffix}" for suffix in content]
    for path, text in zip(paths, content.values(), strict=True):
        write_atomically(path, text.encode())
    return paths


def markdown(of: Experiment | Figure, made: str, findings: Findings) -> str:
    """The page: title, source, plot, checks, tables and notes; ``made`` says by which command."""
    lines = [f"# {of.title}", "", f"Source: {of.source}.", "", made, ""]
    fair = tuple(check for check in findings.checks if not check.withheld)
    held_back = tuple(check for check in findings.checks if check.withheld)
    if fair and held_back:
        lines += markdown_table(checks_table(fair))
    if any(check.withheld == PREDATES for check in held_back):
        lines += [UNFAIR, "", f"{PREDATES[0].upper()}{PREDATES[1:]}.", ""]
        lines += ["Everything below is of that kind: numbers, and no conclusion.", ""]
    if findings.panels:
        lines += [f"![{of.title}]({of.name}.svg)", ""]
    if findings.checks:
        lines += markdown_table(checks_table(held_back or fair))
    for table in findings.tables:
        lines += markdown_table(table)
    lines += [f"- {escaped(note)}" for note in findings.notes]
    return "\n".join(lines).rstrip() + "\n"


def write(
    order: Order,
    experiment: Experiment,
    results: Results,
    findings: Findings,
    folder: Path,
    sources: str = "",
) -> list[Path]:
    """Write NAME.json, NAME.md and, where there is a plot, NAME.svg; each whole or not at all.

    Errors: OutputNotWritable.
    """
    made = document(order, experiment, results, findings, sources)
    values = folder / f"{experiment.name}.json"
    text = json.dumps(made, indent=1, ensure_ascii=False, allow_nan=False, default=np.generic.item)
    write_atomically(values, f"{text}\n".encode())
    command = f"`python -m experiments run {experiment.name}{_options(order)}`"
    return [values, *write_page(experiment, command, findings, folder)]


def entry(of: Experiment, findings: Findings) -> dict[str, Any]:
    """The line of one experiment in their list."""
    return {
        "experiment": of.name,
        "title": of.title,
        "verdict": str(judge(findings.checks)),
        "checks": [_check(check) for check in findings.checks],
    }


def index(documents: Sequence[Mapping[str, Any]], missing: Mapping[str, str]) -> str:
    """A page that links to the pages of all experiments, with their verdicts.

    ``missing``: why an experiment has no full result, by name.
    """
    columns = "experiment | what it shows | checks held | rows that end at or above their start"
    rows = ["# Experiments", "", f"| {columns} | verdict |", "|---|---|---|---|---|"]
    for made in documents:
        held = sum(check["verdict"] == Status.HELD for check in made["checks"])
        link = f"[{made['experiment']}]({made['experiment']}.md)"
        share = f"{held} of {len(made['checks'])}{_withheld(made)}"
        cells = (link, escaped(made["title"]), share, _not_learnt(made), made["verdict"])
        rows.append(f"| {' | '.join(cells)} |")
    rows += [f"| {name} | | | | not run: {escaped(why)} |" for name, why in sorted(missing.items())]
    return "\n".join(rows) + "\n"


def seen(documents: Sequence[Mapping[str, Any]]) -> str:
    """How many bands were set after a look at values, as their checks say, by experiment."""
    total, found = 0, {}
    for made in documents:
        checks = made["checks"]
        total += len(checks)
        if after := sum(bool(SEEN.search(check["source"])) for check in checks):
            found[made["experiment"]] = after
    where = ", ".join(f"{number} in `{name}`" for name, number in sorted(found.items()))
    return (
        f"{sum(found.values())} of {total} checks say that their band was set after values had "
        f"been seen, their own or those of an earlier or an outside run: {where or 'none'}."
    )


def counted(text: str, sentence: str) -> str:
    """A page with the sentence between its marks, if it has them."""
    return COUNT.sub(lambda _: f"{sentence}\n", text)


def _withheld(made: Mapping[str, Any]) -> str:
    """How many comparisons of an experiment are not judged."""
    number = sum(check["verdict"] == Status.WITHHELD for check in made["checks"])
    return f", {number} not judged" if number else ""


def _not_learnt(made: Mapping[str, Any]) -> str:
    """Of the rows that stand beside their start how many are not surely below it."""
    own = [check["verdict"] != Status.HELD for check in made["checks"] if check["source"] == BAND]
    return f"{sum(own)} of {len(own)}" if own else ""


def lines(experiment: Experiment | Figure, findings: Findings) -> Iterator[str]:
    """The title, every check and every table, in columns."""
    yield f"{experiment.name}: {experiment.title}"
    checks = (checks_table(findings.checks),) if findings.checks else ()
    for table in (*findings.tables, *checks):
        yield ""
        yield from table_lines(table)
    yield from (f"note: {note}" for note in findings.notes)


def checks_table(checks: tuple[Check, ...]) -> Table:
    """Checks as a table: value, band, margin and verdict."""
    rows = [
        (c.name, c.value, band(c), c.margin if c.margin else "", verdict(c), c.source)
        for c in checks
    ]
    return Table("Checks", CHECK_COLUMNS, tuple(rows))


def verdict(check: Check) -> str:
    """The status, and why a check is not judged where its reason is its own."""
    own = check.withheld and check.withheld != PREDATES
    return f"{check.status}: {check.withheld}" if own else str(check.status)


def shown(value: str | int | float) -> str:
    """A cell's text: four significant digits of a number that is not whole."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)


def band(check: Check) -> str:
    """A check's band in words."""
    if math.isinf(check.lower):
        return f"at most {check.upper:.6g}"
    if math.isinf(check.upper):
        return f"at least {check.lower:.6g}"
    return f"[{check.lower:.6g}, {check.upper:.6g}]"


def _check(check: Check) -> dict[str, Any]:
    return {
        "name": check.name,
        "value": _json(check.value),
        "lower": _json(check.lower),
        "upper": _json(check.upper),
        "margin": check.margin,
        "verdict": str(check.status),
        "source": check.source,
    }


def _table(table: Table) -> dict[str, Any]:
    rows = [[_json(value) for value in row] for row in table.rows]
    return {"title": table.title, "columns": list(table.columns), "rows": rows}


def _json(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_json(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _options(order: Order) -> str:
    seed = "" if order.seed == Order.seed else f" --seed {order.seed}"
    return seed if order.size == Order.size else f"{seed} --size {order.size}"


def markdown_table(table: Table) -> list[str]:
    """A table below its title."""

    def row(cells: list[str]) -> str:
        return f"| {' | '.join(cells)} |"

    body = [row([escaped(shown(value)) for value in values]) for values in table.rows]
    head = row(list(map(escaped, table.columns)))
    return [f"## {table.title}", "", head, row(["---"] * len(table.columns)), *body, ""]


def escaped(text: str) -> str:
    """Text as a cell of a table."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")


def table_lines(table: Table) -> Iterator[str]:
    """A table for a terminal, in columns below its title."""
    rows = [list(table.columns), *([shown(v) for v in row] for row in table.rows)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    yield table.title
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield f"  {'  '.join(cells)}".rstrip()
