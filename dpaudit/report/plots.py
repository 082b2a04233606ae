"""The report's two drawings: the privacy profile and the trade-off curve."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from dpaudit.report import numbers
from dpaudit.report.say import language, say
from dpaudit.report.svg import drawing, element

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Point = tuple[float, float]
Data = TypeVar("Data")

ACCOUNTED, CLAIMED, ATTACKED, CHANCE = "#0b4f9e", "#111111", "#a8320a", "#6b7280"
_MARKERS = "os^vDP"
_KEPT_FIGURES = 64  # of 40 KB: the formats of several certificates show the same ones
_LONGEST_KEY = 40  # characters of the keys of a published number
_SMALLEST_DELTA = 1e-30  # where the logarithmic axis of deltas ends at the latest
_LARGEST_EXPONENT = 700.0  # exp of more overflows a float


@dataclass(frozen=True)
class ProfileData:
    """Figure 1: (epsilon, delta) points accounted, claimed and attacked.

    ``conditional``: points that hold only within a family of distributions.  ``conditional_mu``:
    the mu of a dashed Gaussian curve; 0 draws none.  ``bands``: of each pair of data sets, points
    that its profile is at least, by epsilon.
    """

    accounted: tuple[Point, ...]
    claims: tuple[Point, ...] = ()
    attacked: tuple[Point, ...] = ()
    conditional: tuple[Point, ...] = ()
    conditional_mu: float = 0.0
    bands: tuple[tuple[Point, ...], ...] = ()


@dataclass(frozen=True)
class Audited:
    """Audited points (false positive rate, false negative rate, upper limits of both)."""

    audits: str
    rows: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class TradeoffData:
    """Figure 2: the accounted curve (alpha, beta_lower), claims, and audited points."""

    accounted: tuple[Point, ...]
    claims: tuple[Point, ...] = ()
    audited: tuple[Audited, ...] = ()


def _drawn_once(draw: Callable[[Data], str]) -> Callable[[Data], str]:
    """Keeps figures by their data and language: each format of a page asks for the same ones."""

    @functools.lru_cache(_KEPT_FIGURES)
    def in_language(data: Data, _: str) -> str:
        return draw(data)

    @functools.wraps(draw)
    def kept(data: Data) -> str:
        return in_language(data, language())

    return kept


@_drawn_once
def profile_svg(data: ProfileData) -> str:
    """Figure 1: delta, on a logarithmic axis, against epsilon."""
    floor = _delta_floor(data)
    right = _epsilon_end(data, floor)
    with drawing() as (figure, axes):
        shown = _columns(_positive(data.accounted))
        axes.plot(*shown, color=ACCOUNTED, linewidth=2, label=say("accounted: at most"))
        for number, band in enumerate(data.bands):
            _draw_band(axes, band, "_" if number else say("from likelihoods: at least"), floor)
        _marks(axes, _positive(data.attacked), "^", ATTACKED, say("attacked: at least"))
        _draw_conditional(axes, data, right)
        for claim in data.claims:
            _draw_claim(axes, *claim)
        axes.set(xlabel="ε", ylabel=say("δ (logarithmic)"), yscale="log")
        axes.set(xlim=(0, right), ylim=(floor, 2))
        axes.yaxis.set_major_formatter(lambda value, _: _delta_text(value))
        axes.minorticks_off()
        axes.legend(loc="upper right")
        return element(figure, "profile", say("Privacy profile"), _profile_description(data))


@_drawn_once
def tradeoff_svg(data: TradeoffData) -> str:
    """Figure 2: false negative rate against false positive rate of an attacker."""
    with drawing() as (figure, axes):
        axes.plot(
            [0, 1], [1, 0], color=CHANCE, linewidth=0.9, linestyle="-.", label=say("blind guessing")
        )
        if data.accounted:
            alpha, beta = _columns(data.accounted)
            axes.fill_between(alpha, beta, color=ACCOUNTED, alpha=0.09, linewidth=0)
            label = say("accounted: at least")
            axes.plot(alpha, beta, color=ACCOUNTED, linewidth=2, label=label)
        alphas = [step / 400 for step in range(401)]
        for claim in data.claims:
            allowed = [claimed_beta(alpha_, *claim) for alpha_ in alphas]
            axes.plot(alphas, allowed, color=CLAIMED, linestyle=":", label=_claim_text(*claim))
        for audited, marker in zip(data.audited, itertools.cycle(_MARKERS), strict=False):
            _draw_audited(axes, audited, marker)
        axes.set(xlabel=say("false positive rate"), ylabel=say("false negative rate"))
        axes.set(xlim=(0, 1), ylim=(0, 1))
        axes.legend(loc="upper right")
        return element(figure, "tradeoff", say("Trade-off curve"), _tradeoff_description(data))


def published_svg(rows: Sequence[tuple[str, float, float]], place: int, item: str) -> str:
    """Published numbers of an item with their 95% margins; ``rows``: (keys, value, margin)."""
    with drawing() as (figure, axes):
        names, values, margins = (list(column) for column in zip(*rows, strict=True))
        heights = list(range(len(rows)))[::-1]
        axes.errorbar(values, heights, xerr=margins, color=ACCOUNTED, fmt="o", capsize=3)
        axes.set_yticks(heights, [name[:_LONGEST_KEY] for name in names])
        axes.set(xlabel=say("Published"))
        description = "; ".join(
            f"{name}: {numbers.estimate(value, 6)} ± {numbers.at_most(margin, 6)}"
            for name, value, margin in rows
        )
        return element(figure, f"published-{place}", item, description)


def gaussian_delta(epsilon: float, mu: float) -> float:
    """delta(epsilon) of mu-GDP, Phi(mu/2 - eps/mu) - exp(eps) Phi(-mu/2 - eps/mu), for drawing."""
    first = 0.5 * math.erfc((epsilon / mu - mu / 2) / math.sqrt(2))
    second = 0.5 * math.erfc((epsilon / mu + mu / 2) / math.sqrt(2))
    return max(first - math.exp(min(epsilon, _LARGEST_EXPONENT)) * second, 0.0)


def claimed_beta(alpha: float, epsilon: float, delta: float) -> float:
    """The least false negative rate under (epsilon, delta)-DP at false positive rate alpha."""
    growth = math.exp(min(epsilon, _LARGEST_EXPONENT))
    return max(0.0, 1 - delta - growth * alpha, (1 - delta - alpha) / growth)


def _draw_conditional(axes: Axes, data: ProfileData, right: float) -> None:
    label, mu = say("attacked (conditional)"), data.conditional_mu
    if mu > 0:
        epsilons = [right * step / 200 for step in range(201)]
        deltas = [gaussian_delta(epsilon, mu) or math.nan for epsilon in epsilons]
        axes.plot(epsilons, deltas, color=ATTACKED, linestyle="--", label=label)
        label = "_"
    _marks(axes, _positive(data.conditional), "^", ATTACKED, label, fill="white")


def _draw_band(axes: Axes, band: tuple[Point, ...], label: str, floor: float) -> None:
    """A profile falls, so that it is at least as much at every smaller epsilon."""
    steps = [(0.0, band[0][1])]
    for epsilon, delta in band:
        steps += [(steps[-1][0], delta), (epsilon, delta)]
    epsilons, deltas = _columns([*steps, (band[-1][0], floor)])
    axes.fill_between(epsilons, deltas, floor / 2, color=ATTACKED, alpha=0.09, linewidth=0)
    axes.plot(epsilons, deltas, color=ATTACKED, linewidth=1.4, label=label)


def _positive(points: tuple[Point, ...]) -> list[Point]:
    return [point for point in points if point[1] > 0]


def _draw_claim(axes: Axes, epsilon: float, delta: float) -> None:
    label = _claim_text(epsilon, delta)
    if delta <= 0:
        axes.axvline(epsilon, color=CLAIMED, linestyle=":", label=label)
        return
    _marks(axes, [(epsilon, delta)], "D", CLAIMED, label)
    corner = [(0.0, delta), (epsilon, delta), (epsilon, _SMALLEST_DELTA)]
    axes.plot(*_columns(corner), color=CLAIMED, linestyle=":", linewidth=0.9)


def _draw_audited(axes: Axes, audited: Audited, marker: str) -> None:
    from matplotlib.patches import Rectangle

    for left, bottom, right, top in audited.rows:
        box = Rectangle((left, bottom), right - left, top - bottom, color=ATTACKED, alpha=0.35)
        axes.add_patch(box)
    label = say("audited thresholds, audit {audits}", audits=audited.audits)
    _marks(axes, [row[:2] for row in audited.rows], marker, ATTACKED, label)


def _marks(
    axes: Axes,
    points: Sequence[tuple[float, ...]],
    marker: str,
    color: str,
    label: str,
    fill: str = "",
) -> None:
    if points:
        axes.plot(
            *_columns(points),
            marker=marker,
            color=color,
            markerfacecolor=fill or color,
            linestyle="none",
            label=label,
            markersize=4.5,
        )


def _columns(points: Sequence[tuple[float, ...]]) -> tuple[list[float], list[float]]:
    return [point[0] for point in points], [point[1] for point in points]


def curve_svg(
    lower: Sequence[Point], upper: Sequence[Point], labels: tuple[str, str], title: str
) -> str:
    """Upper bounds, and lower ones if given, against a parameter of a run.

    ``labels``: of the horizontal and vertical axes.
    """
    with drawing() as (figure, axes):
        axes.plot(*zip(*upper, strict=True), color=ACCOUNTED, marker="o", label=say("at most"))
        if lower:
            axes.plot(*zip(*lower, strict=True), color=CHANCE, marker="s", label=say("at least"))
            axes.legend(loc="upper left")
        axes.set(xlabel=labels[0], ylabel=labels[1], xlim=(0, None), ylim=(0, None))
        rows = "; ".join(f"{numbers.estimate(x, 6)}: {numbers.at_most(y, 4)}" for x, y in upper)
        return element(figure, "curve", title, f"{labels[1]} at {labels[0]}: {rows}")


def _delta_floor(data: ProfileData) -> float:
    """The lower end of the axis of deltas.

    Three decades below the smallest delta of a claim or an audit, but at most one decade below the
    accounted curve.
    """
    spoken = [delta for _, delta in (*data.claims, *data.attacked, *data.conditional) if delta > 0]
    wanted = min(spoken) / 1e3 if spoken else 1e-10
    reached = min((delta for _, delta in data.accounted if delta > 0), default=wanted)
    return max(_SMALLEST_DELTA, min(1e-3, max(wanted, reached / 10)))


def _epsilon_end(data: ProfileData, floor: float) -> float:
    inside = [epsilon for epsilon, delta in data.accounted if delta >= floor]
    marked = [epsilon for epsilon, _ in (*data.claims, *data.attacked, *data.conditional)]
    marked += [band[-1][0] for band in data.bands]
    return 1.08 * max([*inside, *marked, 0.1])


def _claim_text(epsilon: float, delta: float) -> str:
    return say(
        "claim: ε = {epsilon}, δ = {delta}", epsilon=f"{epsilon:g}", delta=_delta_text(delta)
    )


def _delta_text(delta: float) -> str:
    return numbers.estimate(delta)


def _profile_description(data: ProfileData) -> str:
    read = "; ".join(
        say(
            "δ at most {delta} at ε = {epsilon}",
            delta=numbers.at_most(delta, 2),
            epsilon=numbers.estimate(epsilon, 6),
        )
        for epsilon, delta in _sample(data.accounted)
    )
    parts = [say("Accounted: {read}.", read=read)]
    parts += [f"{_claim_text(*claim).capitalize()}." for claim in data.claims]
    parts += [
        say(
            "Attacked: ε at least {epsilon} at δ = {delta}.",
            epsilon=numbers.at_least(epsilon, 4),
            delta=_delta_text(delta),
        )
        for epsilon, delta in data.attacked
    ]
    for band in data.bands:
        points_text = "; ".join(
            say(
                "δ at least {delta} at ε = {epsilon}",
                delta=numbers.at_least(delta, 3),
                epsilon=numbers.estimate(epsilon, 6),
            )
            for epsilon, delta in _sample(band)
        )
        parts.append(say("From likelihoods: {read}.", read=points_text))
    if data.conditional_mu:
        parts.append(
            say("Conditional: Gaussian with μ = {mu}.", mu=numbers.estimate(data.conditional_mu, 4))
        )
    return " ".join(parts)


def _tradeoff_description(data: TradeoffData) -> str:
    read = "; ".join(
        say(
            "{beta} at false positive rate {alpha}",
            beta=numbers.at_least(beta, 2),
            alpha=numbers.estimate(alpha, 6),
        )
        for alpha, beta in _sample(data.accounted)
    )
    parts = [say("Least accounted false negative rate: {read}.", read=read)] if read else []
    parts += [
        say(
            "Audit {audits}: {count} thresholds, each with a confidence box.",
            audits=audited.audits,
            count=len(audited.rows),
        )
        for audited in data.audited
    ]
    return " ".join(parts)


def _sample(points: tuple[Point, ...]) -> tuple[Point, ...]:
    return points[:: max(1, -(-len(points) // 6))]
