"""The timeline of a budget: epsilon of all releases so far, against the date."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from dpaudit.report.plots import ACCOUNTED, ATTACKED
from dpaudit.report.say import say
from dpaudit.report.svg import drawing, element, standalone


def timeline_svg(
    title: str, points: Sequence[tuple[date, float]], delta: str, budget: float | None = None
) -> str:
    """A step line through (day, epsilon of all releases up to it), and the budget if there is one.

    Infinite values are not drawn; the description lists them.
    """
    finite = [(day, value) for day, value in points if value != float("inf")]
    with drawing() as (figure, axes):
        days, values = [day for day, _ in finite], [value for _, value in finite]
        label = say("all releases so far: at most")
        axes.step(days, values, where="post", color=ACCOUNTED, linewidth=2, label=label)
        axes.plot(days, values, "o", color=ACCOUNTED, markersize=4.5)
        if budget is not None:
            axes.axhline(budget, color=ATTACKED, linestyle="--", label=say("budget"))
        axes.set(ylabel=say("ε at δ = {delta}", delta=delta))
        axes.set_ylim(bottom=0)
        axes.legend(loc="upper left")
        figure.autofmt_xdate()
        read = "; ".join(f"{day.isoformat()}: {value:.4g}" for day, value in points)
        svg = element(figure, "timeline", title, read)
    return standalone(svg)
