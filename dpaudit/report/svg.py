"""Matplotlib figures as SVG elements of a page: deterministic bytes, unique ids, titles."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dpaudit.report.say import localised
from dpaudit.storage.files import MADE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK = "#24292f"
_FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
_SIZE_INCHES = (6.0, 3.9)  # width and height of a figure
_STYLED = frozenset(
    {"axes", "figure", "font", "grid", "legend", "lines", "mathtext", "patch", "path"}
    | {"savefig", "svg", "text", "xtick", "ytick"}
)
# Colours replaced by CSS variables, so that they follow the page's light or dark scheme.
_THEMED = {
    INK: "ink",
    "#57606a": "soft",
    "#e4e7eb": "grid",
    "#0b4f9e": "qualified",
    "#a8320a": "attacked",
    "#111111": "ink",
    "#6b7280": "soft",
    "#ffffff": "page",
}
_OURS: dict[str, Any] = {
    "svg.hashsalt": "dpaudit",
    "svg.fonttype": "none",
    "font.family": ["DejaVu Sans"],
    "font.size": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#57606a",
    "axes.labelcolor": INK,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e7eb",
    "grid.linewidth": 0.7,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.framealpha": 0.92,
    "legend.edgecolor": "none",
    "legend.fontsize": 8.5,
}


def standalone(svg: str) -> str:
    """An ``<svg>`` element as a file of its own, in the light scheme."""
    named = light(svg).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    return f"{named.rstrip()}\n{MADE}\n"


def light(text: str) -> str:
    """A figure, or a page of figures, with the light scheme's colours in place of variables."""
    for colour, variable in _THEMED.items():
        text = text.replace(f"var(--{variable})", colour)
    return text


@contextmanager
def drawing(columns: int = 1) -> Iterator[tuple[Figure, Any]]:
    """A figure and its axes in the report's style; the user's matplotlibrc is ignored.

    ``columns``: how many axes beside each other; more than one come as an array.
    """
    import matplotlib
    from matplotlib.figure import Figure

    defaults: dict[Any, Any] = {
        key: value
        for key, value in matplotlib.rcParamsDefault.items()
        if key.split(".")[0] in _STYLED
    }
    with matplotlib.rc_context(defaults | _OURS):
        figure = Figure(figsize=_SIZE_INCHES, layout="constrained")
        yield figure, figure.subplots(ncols=columns)


def element(figure: Figure, prefix: str, title: str, description: str) -> str:
    """The figure as one ``<svg>`` element whose ids begin with ``prefix``.

    Screen readers read ``title`` and ``description``; both are escaped.
    """
    target = io.StringIO()
    undated = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(target, format="svg", metadata=undated, transparent=True)
    return _inlined(target.getvalue(), prefix, title, description)


def _inlined(text: str, prefix: str, title: str, description: str) -> str:
    body = text[text.index("<svg") :]
    body = re.sub(r"\s*<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r"\s*<defs>\s*<style[^>]*>.*?</style>\s*</defs>", "", body, flags=re.DOTALL)
    body = re.sub(r'\bid="', f'id="{prefix}-', body)
    body = re.sub(r'xlink:href="#', f'href="#{prefix}-', body)
    body = re.sub(r"url\(#", f"url(#{prefix}-", body)
    body = re.sub(r"'DejaVu Sans'[^;\"]*", _FONTS, body)
    for colour, variable in _THEMED.items():
        body = body.replace(colour, f"var(--{variable})")
    body = re.sub(r"(?<=>)[^<>]+(?=</text>)", lambda label: localised(label[0]), body)
    width, height = (72 * side for side in _SIZE_INCHES)
    opening = (
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" '
        f'aria-labelledby="{prefix}-title {prefix}-desc">'
        f'<title id="{prefix}-title">{html.escape(title)}</title>'
        f'<desc id="{prefix}-desc">{html.escape(localised(description))}</desc>'
    )
    return opening + body[body.index(">") + 1 :].strip()
