"""A finished comparison as files: a table, a plot, and a certificate of every method."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dpaudit.certificate.evidence import LIKELIHOOD
from dpaudit.certificate.order import Options, Order, plan
from dpaudit.certificate.previous import Opened
from dpaudit.certificate.publish import Failed, Finished, certify_each
from dpaudit.certificate.training import of_shape, set_words
from dpaudit.compare.comparison import NOTHING, OPTIMUM, Outcome, Row
from dpaudit.compare.find import Found
from dpaudit.curator.parameters import shown
from dpaudit.report.svg import drawing
from dpaudit.scope import Adjacency
from dpaudit.storage.files import MADE, write_made

COLUMNS = (
    "method", "mean loss", "standard error", "share of the gain", "neighbours", "settings tried",
    "chosen", "at the end of its grid", "against one-pass DP-SGD", "against full-batch DP-GD",
)  # fmt: skip
BLUE, GREY = "#0b4f9e", "#6b7280"
# Seconds of a processor that each certificate's examination may take: a third of the usual, which
# asks every query of a run of hundreds of releases and finds a pair to attack.
EXAMINED = 6.0
MORE = (
    f"its command makes more than is here: it examines the program for {Options().seconds:g} "
    f"seconds of a processor, not {EXAMINED:g}, and attacks by plain runs too"
)  # a caveat of every certificate of a comparison
ROW_INCHES = 0.28  # Inches of a figure for each method.
MARGIN_INCHES = 1.2  # Inches above and below them.
WIDTH_INCHES = 8.0  # Inches of a figure's width.


def cells(outcome: Outcome) -> Iterator[tuple[str, ...]]:
    """The rows of the table as texts, in the order of :data:`COLUMNS`."""
    nothing, optimum = outcome.row(NOTHING).mean, outcome.row(OPTIMUM).mean
    beside = [
        outcome.row(name) for name in (outcome.comparison.one_pass, outcome.comparison.full_batch)
    ]
    for row in outcome.rows:
        if row.refused:
            yield (row.name, f"did not run: {row.refused}", *[""] * (len(COLUMNS) - 2))
            continue
        gain = f"{(nothing - row.mean) / (nothing - optimum):.0%}" if optimum < nothing else ""
        chosen = ", ".join(f"{name} = {_short(value)}" for name, value in dict(row.chosen).items())
        verdicts = ["" if row.method is None else outcome.verdict(row, other) for other in beside]
        yield (
            row.name,
            f"{row.mean:.4f}",
            f"{row.error:.4f}",
            gain,
            "" if row.scope is None else str(row.scope.adjacency),
            str(row.tried) if row.tried else "",
            chosen,
            "" if row.method is None else ", ".join(row.ends) or "none",
            *("" if row is other else said for other, said in zip(beside, verdicts, strict=True)),
        )


def _short(value: Any) -> str:
    """A value for a table: four digits of a number that is not whole."""
    number = float(value)
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else f"{number:.4g}"


def notes(outcome: Outcome) -> tuple[str, ...]:
    """The notes below the table, a sentence or two each."""
    protocol, count = outcome.protocol, outcome.shape[0]
    left_out = (
        f"Not compared: {', '.join(names)}: {why}." for names, why in outcome.comparison.left_out
    )
    refused = (f"{row.name} did not run: {row.refused}." for row in outcome.rows if row.refused)
    return (
        f"Each method trains on {count:,} records. Losses are means over records that neither "
        f"training nor the search reads, over {protocol.judging} runs under seeds of their own.",
        f"Every method is searched over all its free parameters in at most {protocol.budget} "
        "settings. Noise is made anew for each, so that every run has the same guarantee. A "
        "comparison with a parameter at the end of its grid does not count.",
        f"{outcome.choice[0].upper()}{outcome.choice[1:]}.",
        "The losses are computed from the data without noise: publish them only if the data are "
        "public.",
        "The share of the gain is 0% for doing nothing and 100% for the non-private optimum, which "
        "minimises the loss over the training records; it is left out where that one gains nothing "
        "on the judging records.",
        *outcome.warnings,
        *refused,
        *left_out,
    )


def markdown(outcome: Outcome) -> str:
    """The table and its notes as a page."""
    lines = [f"# {outcome.comparison.title}", "", _line(COLUMNS), _line(["---"] * len(COLUMNS))]
    lines += map(_line, cells(outcome))
    return "\n".join([*lines, "", *(f"- {note}" for note in notes(outcome)), ""])


def _line(texts: Any) -> str:
    return "| " + " | ".join(str(text).replace("|", "/") for text in texts) + " |"


def table(outcome: Outcome) -> dict[str, Any]:
    """The comparison as JSON holds it."""
    return {
        "comparison": outcome.comparison.name,
        "protocol": outcome.protocol.stamp,
        "shape": list(outcome.shape),
        "rows": [dict(zip(COLUMNS, row, strict=True)) for row in cells(outcome)],
        "losses": {row.name: list(row.judged) for row in outcome.rows},
        "chosen": {
            row.name: {key: shown(value) for key, value in dict(row.chosen).items()}
            for row in outcome.rows
            if row.chosen
        },
        "notes": list(notes(outcome)),
    }


def svg(outcome: Outcome) -> str:
    """Mean losses with two standard errors, a line a method; the optimum and doing nothing."""
    methods = [row for row in outcome.rows if row.method is not None and not row.refused]
    with drawing() as (figure, _):
        figure.clear()
        figure.set_size_inches(WIDTH_INCHES, ROW_INCHES * len(methods) + MARGIN_INCHES)
        axes = figure.subplots()
        places = range(len(methods))
        for name, style in ((NOTHING, ":"), (OPTIMUM, "--")):
            axes.axvline(outcome.row(name).mean, color=GREY, linestyle=style, label=name)
        for place, row in zip(places, methods, strict=True):
            axes.errorbar(
                row.mean, place, xerr=2 * row.error, color=BLUE, capsize=2, marker="o",
                markerfacecolor="white" if row.ends else BLUE,
            )  # fmt: skip
        axes.set_yticks(places, [row.name for row in methods])
        axes.invert_yaxis()
        axes.set_xlabel("mean loss; hollow: a parameter at the end of its grid")
        axes.legend(loc="best")
        target = io.StringIO()
        undated = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(target, format="svg", metadata=undated, facecolor="white")
    return target.getvalue()


def certificates(
    outcome: Outcome, found: Found, out: Path, options: Options
) -> Iterator[Finished | Failed]:
    """A certificate of every method that ran, for the shape and the settings that were judged.

    It holds what accounting and likelihoods show of them, how the settings were chosen, and that
    its command makes more; no data.
    """
    opened = Opened()
    for row in outcome.rows:
        if row.method is None or row.refused:
            continue
        mechanism = row.method.mechanism
        order = certified(outcome, row, found.order(mechanism))
        private = order.mechanism.scope.adjacency is Adjacency.ADD_REMOVE
        shape = ",".join(map(str, ["" if private else outcome.shape[0], *outcome.shape[1:]]))
        words = (found.target(mechanism), "--shape", shape, *set_words(dict(row.chosen)))
        run = plan([order], replace(options, targets=words))
        run = replace(run, options=replace(run.options, method=LIKELIHOOD, seconds=EXAMINED))
        yield from certify_each(run, out, keep=False, opened=opened)


def certified(outcome: Outcome, row: Row, order: Order) -> Order:
    """The order of a method at its chosen settings, which says how they were chosen.

    Notes of its authors that settings were chosen without the data are left out.
    """
    private = order.mechanism.scope.adjacency is Adjacency.ADD_REMOVE
    made = of_shape(
        order, None if private else outcome.shape[0], outcome.shape[1:], dict(row.chosen)
    )
    setting = made.mechanism.setting
    notes = [note for note in setting.notes if not note.endswith("chosen without the data")]
    mechanism = replace(
        made.mechanism,
        setting=replace(setting, notes=(*notes, outcome.said(row), MORE)),
        for_shape=None,
    )
    fields: Mapping[str, list[str]] = {**made.fields, "tuning": [outcome.said(row)]}
    return replace(made, mechanism=mechanism, fields=fields)


def names(comparison: str) -> tuple[str, str]:
    """The names of the page and of the plot."""
    return f"{comparison}.md", f"{comparison}.svg"


def write(outcome: Outcome, out: Path) -> tuple[Path, Path]:
    """The page and the plot, written together.

    Errors: OutputNotWritable in the place of files that dpaudit did not make.
    """
    page, plot = (out / name for name in names(outcome.comparison.name))
    contents = {page: markdown(outcome), plot: svg(outcome)}
    write_made({path: f"{text.rstrip()}\n{MADE}\n".encode() for path, text in contents.items()})
    return page, plot
