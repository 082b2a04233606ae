"""Reports: a certificate as one HTML page, an index of pages, rows for a terminal."""

from __future__ import annotations

from dpaudit.report.html import render_html, render_index
from dpaudit.report.summary import SummaryRow, summary_rows

__all__ = ["SummaryRow", "render_html", "render_index", "summary_rows"]
