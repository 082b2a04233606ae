"""Figures of one's own for notebooks and papers: curves between their bounds, and audited events.

Each returns a Matplotlib figure in the report's style; notebooks show it, ``savefig`` writes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from dpaudit.report.plots import ACCOUNTED, ATTACKED, CHANCE, CLAIMED
from dpaudit.report.svg import drawing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Ends = Sequence[tuple[float, float, float]]
"""Rows of a curve: the argument, the lower and the upper end of the value."""
LEAST_PLOTTED = 1e-15  # Lower end of a logarithmic axis of deltas.
FIGURE_SIZE = (8.4, 3.6)  # Inches of a figure with two curves side by side.


def account_figure(profile: Ends, tradeoff: Ends, title: str) -> Figure:
    """The privacy profile and the trade-off curve, each as the band that holds it.

    ``profile``: (epsilon, delta) and ``tradeoff``: (false positive rate, false negative rate).
    """
    with drawing(columns=2) as (figure, axes):
        figure.set_size_inches(*FIGURE_SIZE)
        figure.suptitle(title)
        left, right = axes
        epsilons, lower, upper = (list(column) for column in zip(*profile, strict=True))
        left.fill_between(
            epsilons, [max(d, LEAST_PLOTTED) for d in lower], upper, color=ACCOUNTED, alpha=0.2
        )
        left.plot(epsilons, upper, color=ACCOUNTED, linewidth=2, label="at most")
        left.set(xlabel="epsilon", ylabel="delta (logarithmic)", yscale="log")
        left.set(
            xlim=(0, epsilons[-1]), ylim=(max(min(u for u in upper if u > 0), LEAST_PLOTTED), 1)
        )
        alphas, low, high = (list(column) for column in zip(*tradeoff, strict=True))
        right.plot([0, 1], [1, 0], color=CHANCE, linestyle="-.", label="blind guessing")
        right.fill_between(alphas, low, high, color=ACCOUNTED, alpha=0.2)
        right.plot(alphas, low, color=ACCOUNTED, linewidth=2, label="at least")
        right.set(xlabel="false positive rate", ylabel="false negative rate", xlim=(0, 1))
        right.set(ylim=(0, 1))
        for each_axes in axes:
            each_axes.legend(loc="upper right")
        return figure


def event_figure(
    edge: Sequence[tuple[float, float]],
    box: tuple[tuple[float, float, float], tuple[float, float, float]],
    claim: str,
    title: str,
) -> Figure:
    """How often the event of an audit happens on either data set, and what the claim allows.

    ``edge``: (q, the largest p) that the claim allows; ``box``: q and p, each with the lower and
    the upper end of its confidence interval.
    """
    with drawing() as (figure, axes):
        q, p = (list(column) for column in zip(*edge, strict=True))
        axes.fill_between(q, p, color=CLAIMED, alpha=0.08, linewidth=0)
        axes.plot(q, p, color=CLAIMED, linestyle=":", label=f"the most that {claim} allows")
        axes.plot([0, 1], [0, 1], color=CHANCE, linestyle="-.", label="as often on both")
        (at_q, low_q, high_q), (at_p, low_p, high_p) = box
        axes.errorbar(
            [at_q],
            [at_p],
            xerr=[[at_q - low_q], [high_q - at_q]],
            yerr=[[at_p - low_p], [high_p - at_p]],
            color=ATTACKED,
            marker="^",
            label="the event that was counted",
        )
        axes.set(xlabel="how often on one data set", ylabel="how often on the other", title=title)
        axes.set(xlim=(0, 1), ylim=(0, 1))
        axes.legend(loc="lower right")
        return figure


def bars_figure(bars: Sequence[tuple[str, float, float]], title: str) -> Figure:
    """Published numbers as points with their 95% margins; ``bars``: (key, value, margin)."""
    with drawing() as (figure, axes):
        names, values, margins = (list(column) for column in zip(*bars, strict=True))
        places = list(range(len(bars)))
        axes.errorbar(places, values, yerr=margins, color=ACCOUNTED, fmt="o", capsize=4)
        axes.set_xticks(places, names)
        axes.set(ylabel="value, and its error in 19 of 20 releases", title=title)
        return figure


def errors_figure(
    errors: Mapping[Fraction, Mapping[str, float]], budget: str, stated: Fraction
) -> Figure:
    """The 95% margin of each part of a plan against its budget, both on logarithmic axes.

    ``errors``: of :func:`dpaudit.releases.targets.errors_by_budget`; ``budget``: what it is called;
    ``stated``: the plan's own, a dotted line.
    """
    with drawing() as (figure, axes):
        values = sorted(errors)
        for label in errors[values[0]]:
            margins = [errors[value][label] for value in values]
            axes.plot([float(v) for v in values], margins, marker="o", label=label)
        axes.axvline(float(stated), color=CLAIMED, linestyle=":", label="the plan's budget")
        axes.set(xlabel=budget, ylabel="error in 19 of 20 releases", xscale="log", yscale="symlog")
        axes.legend(loc="upper right")
        return figure
