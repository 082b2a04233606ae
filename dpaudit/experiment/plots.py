"""The plot of an experiment: its panels in one SVG, the same bytes in every process."""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING

from dpaudit.experiment.model import Panel, Series
from dpaudit.report.svg import drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0b4f9e", "#a8320a", "#1a7f37", "#8250df", "#9a6700", "#6b7280", "#bf3989", "#111111")
PANEL_INCHES = (5.2, 4.0)
ACROSS = 2


def svg(panels: tuple[Panel, ...]) -> str:
    """All panels in rows of two, as a stand-alone SVG document."""
    across = min(ACROSS, len(panels))
    down = -(-len(panels) // across)
    with drawing() as (figure, _):
        figure.clear()
        figure.set_size_inches(PANEL_INCHES[0] * across, PANEL_INCHES[1] * down)
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
        _series(axes, series, panel.scale, COLOURS[index % len(COLOURS)])
    axes.set(xlabel=panel.x, ylabel=panel.y, title=panel.title)
    if panel.scale == "loglog":
        axes.set_xscale("log")
    if panel.scale in ("loglog", "semilogy"):
        axes.set_yscale("log")
    if axes.get_legend_handles_labels()[0]:
        axes.legend()


def _series(axes: Axes, series: Series, scale: str, colour: str) -> None:
    points = [p for p in zip(series.x, series.y, _errors(series), strict=True) if _drawn(p, scale)]
    if not points:
        return
    x, y, error = zip(*points, strict=True)
    bars = _bars(y, error, scale)
    axes.errorbar(
        x,
        y,
        bars if any(bars) else None,
        color=colour,
        linestyle=series.style or "none",
        marker=series.marker,
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
