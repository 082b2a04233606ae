"""The display of an object in a notebook: a caption and a small table, escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def card(caption: str, rows: Iterable[Sequence[str]], head: Sequence[str] = ()) -> str:
    """A small HTML table; ``head`` names its columns."""
    lines = [_row("th", head)] if head else []
    lines += [_row("td", row) for row in rows]
    return f"<table><caption>{escape(caption)}</caption>{''.join(lines)}</table>"


def _row(tag: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"
