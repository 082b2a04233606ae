"""Reports: a certificate as a page, as files for other programs, and as rows for a terminal."""

from __future__ import annotations

from dpaudit.report.exports import (
    render_badge,
    render_csv,
    render_junit,
    render_sarif,
    render_sbom,
)
from dpaudit.report.html import render_html, render_index, render_project
from dpaudit.report.markdown import render_markdown
from dpaudit.report.pdf import render_pdf
from dpaudit.report.registry import registry_record, render_registry
from dpaudit.report.summary import SummaryRow, summary_rows

__all__ = [
    "SummaryRow",
    "registry_record",
    "render_badge",
    "render_csv",
    "render_html",
    "render_index",
    "render_junit",
    "render_markdown",
    "render_pdf",
    "render_project",
    "render_registry",
    "render_sarif",
    "render_sbom",
    "summary_rows",
]
