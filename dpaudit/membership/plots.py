"""Drawings of an empirical certificate: operating curves, histograms, epochs; SVG, no script."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from dpaudit.report.say import say
from dpaudit.report.svg import drawing, element

ATTACK_COLOURS = ("#0b4f9e", "#a8320a", "#1a7f4b", "#7a3fa0", "#9a6700", "#0f7c8a", "#57606a")
MEMBERS, OTHERS, CHANCE = "#a8320a", "#0b4f9e", "#6b7280"
MOST_CURVES = 4
_FLOOR = 1e-4
_RARE = 0.005

Row = Mapping[str, Any]


def roc_svg(curves: Sequence[tuple[str, Row]], prefix: str) -> str:
    """True against false positive rate, both logarithmic, with bands over resampled models."""
    with drawing() as (figure, axes):
        axes.plot([_FLOOR, 1], [_FLOOR, 1], color=CHANCE, linestyle="-.", linewidth=0.9)
        colours = itertools.cycle(ATTACK_COLOURS)
        for (label, row), colour in zip(curves[:MOST_CURVES], colours, strict=False):
            points = [[float(value) for value in point] for point in row["roc"]]
            seen = [point for point in points if point[0] >= _FLOOR]
            x = [point[0] for point in seen]
            rates, low, high = (
                [max(point[column], _FLOOR / 2) for point in seen] for column in (1, 2, 3)
            )
            axes.fill_between(x, low, high, color=colour, alpha=0.13, linewidth=0)
            axes.plot(x, rates, color=colour, label=f"{label} (AUC {float(row['auc'][0]):.3f})")
        axes.set(xscale="log", yscale="log", xlim=(_FLOOR, 1), ylim=(_FLOOR, 1.05))
        axes.set(xlabel=say("false positive rate"), ylabel=say("true positive rate"))
        axes.legend(loc="lower right")
        said = "; ".join(
            f"{label}: {_rate(row, '0.01')} at a false positive rate of 1%"
            for label, row in curves[:MOST_CURVES]
        )
        return element(
            figure, prefix, say("Receiver operating curves"), f"True positive rates. {said}."
        )


def _rate(row: Row, at: str) -> str:
    return next((str(found[1]) for found in row["true_positive_rates"] if found[0] == at), "none")


def _drawn(bars: Sequence[Sequence[float]]) -> Sequence[Sequence[float]]:
    """The bars but for those of rare, far scores at either end: at most 0.5% of either kind."""
    first, last = 0, len(bars)
    while first < last and all(sum(b[k] for b in bars[: first + 1]) <= _RARE for k in (1, 2)):
        first += 1
    while last > first and all(sum(b[k] for b in bars[last - 1 :]) <= _RARE for k in (1, 2)):
        last -= 1
    return bars[first:last]


def histogram_svg(row: Row, prefix: str) -> str:
    """Shares of members and of non-members by score, but for the rarest at either end."""
    with drawing() as (figure, axes):
        bars = [[float(value) for value in point] for point in row["histogram"]]
        width = bars[1][0] - bars[0][0] if len(bars) > 1 else 1.0
        edges, members, others = ([bar[column] for bar in _drawn(bars)] for column in range(3))
        for values, colour, label in (
            (others, OTHERS, say("not members")),
            (members, MEMBERS, say("members")),
        ):
            axes.bar(
                edges, values, width, align="edge", color=colour, alpha=0.45, label=label,
                linewidth=0,
            )  # fmt: skip
        axes.set(xlabel=say("score of {attack}", attack=row["attack"]), ylabel=say("share"))
        axes.legend(loc="upper right")
        words = f"Scores of {row['attack']}, members beside non-members; AUC {row['auc'][0]}."
        return element(figure, prefix, say("Scores"), words)


def epochs_svg(rows: Sequence[Row], prefix: str) -> str:
    """Attacked epsilon by epoch, and the accounted one beside it."""
    with drawing() as (figure, axes):
        epochs = [row["epoch"] for row in rows]
        attacked = [float(row["bound"]["value"]) for row in rows]
        axes.plot(epochs, attacked, "^-", color=MEMBERS, label=say("attacked: at least"))
        accounted = [float(row["accounted"]) for row in rows]
        known = [(x, y) for x, y in zip(epochs, accounted, strict=True) if y < float("inf")]
        if known:
            axes.plot(
                *zip(*known, strict=True), "o-", color=OTHERS, label=say("accounted: at most")
            )
        axes.set(xlabel=say("epoch"), ylabel="ε")
        axes.set_ylim(bottom=0)
        axes.legend(loc="upper left")
        said = "; ".join(f"epoch {x}: {y:.3g}" for x, y in zip(epochs, attacked, strict=True))
        return element(figure, prefix, say("Epsilon by epoch"), f"At least: {said}.")
