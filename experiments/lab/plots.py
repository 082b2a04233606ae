"""The plot of an experiment: its panels in one SVG, the same bytes in every process."""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING

from dpaudit.report.svg import drawing
from experiments.lab.model import Panel, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0b4f9e", "#a8320a", "#1a7f37", "#8250df", "#9a6700", "#6b7280", "#bf3989", "#111111")
MARKERS = "os^vDPX*"
PANEL_INCHES = (5.2, 4.0)
LEGEND_INCHES = 0.2  # of height, for a line of a legend below its axes
INSIDE = 3  # series whose legend finds room inside
ACROSS = 2


def svg(panels: tuple[Panel, ...]) -> str:
    """All panels in rows of two, as a stand-alone SVG document."""
    across = min(ACROSS, len(panels))
    down = -(-len(panels) // across)
    with drawing() as (figure, _):
        figure.clear()
        height = PANEL_INCHES[1] + max(map(_legend_height, panels))
        figure.set_size_inches(PANEL_INCHES[0] * across, height * down)
        grid = figure.subplots(down, across, squeeze=False)
        for axes, panel in zip(grid.flat, panels, strict=False):
            _draw(axes, panel)
        for axes in grid.flat[len(panels) :]:
            axes.set_axis_off()
        target = io.StringIO()
        undated = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(target, format="svg", metadata=undated, facecolor="white")
    return target.getvalue()


def _draw(axes: Axes, panel: Panel) -> None:
    for index, series in enumerate(panel.series):
        _series(axes, series, panel.scale, index)
    axes.set(xlabel=panel.x, ylabel=panel.y, title=panel.title)
    if panel.scale == "loglog":
        axes.set_xscale("log")
    if panel.scale in ("loglog", "semilogy"):
        axes.set_yscale("log")
    if axes.get_legend_handles_labels()[0]:
        below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.14), "ncols": 2}
        axes.legend(**(below if len(panel.series) > INSIDE else {}))


def _legend_height(panel: Panel) -> float:
    count = len(panel.series)
    return LEGEND_INCHES * -(-count // 2) if count > INSIDE else 0.0


def _series(axes: Axes, series: Series, scale: str, index: int) -> None:
    points = [p for p in zip(series.x, series.y, _errors(series), strict=True) if _drawn(p, scale)]
    if not points:
        return
    x, y, error = zip(*points, strict=True)
    bars = _bars(y, error, scale)
    axes.errorbar(
        x,
        y,
        bars if any(bars) else None,
        color=COLOURS[index % len(COLOURS)],
        linestyle=series.style or "none",
        marker=MARKERS[index % len(MARKERS)] if series.marker else "",
        markersize=4,
        label=series.label,
        capsize=2,
    )


def _errors(series: Series) -> tuple[float, ...]:
    return series.error or (0.0,) * len(series.x)


def _bars(y: tuple[float, ...], error: tuple[float, ...], scale: str) -> list[float]:
    """Half lengths of the bars; on a logarithmic axis none reaches down to zero."""
    if scale == "linear":
        return list(error)
    return [min(half, 0.9 * height) for half, height in zip(error, y, strict=True)]


def _drawn(point: tuple[float, ...], scale: str) -> bool:
    positive = (scale != "loglog" or point[0] > 0) and (scale == "linear" or point[1] > 0)
    return all(map(math.isfinite, point)) and positive
