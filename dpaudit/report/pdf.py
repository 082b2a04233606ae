"""Pages as PDF, printed by an installed Chromium or Chrome, and as PDF/A, made by WeasyPrint."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from dpaudit.errors import InvalidParameter, OutputNotWritable, optional
from dpaudit.report.svg import light

BROWSER = "DPAUDIT_BROWSER"
_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")  # of a browser that prints
PDF_A = "pdf/a-1b"  # ISO 19005-1, level B: all fonts inside, no transparency, no encryption
_BROWSER_SECONDS = 120  # Seconds for one page, after which a hanging browser is stopped.


def unfolded(page: str) -> str:
    """The page with its evidence open: on paper nothing can be unfolded."""
    return page.replace('<details id="auditor">', '<details id="auditor" open>')


def render_pdf(page: str) -> bytes:
    """The page printed to PDF by a headless browser without network access.

    Errors: OutputNotWritable if no browser is found, or it fails.
    """
    program = os.environ.get(BROWSER) or next(filter(None, map(shutil.which, _NAMES)), None)
    if program is None:
        raise OutputNotWritable(
            f"no browser found to print a PDF: install chromium or name one with {BROWSER}; "
            "or print the HTML page"
        )
    with tempfile.TemporaryDirectory(prefix="dpaudit-") as folder:
        source, target = Path(folder) / "page.html", Path(folder) / "page.pdf"
        source.write_text(unfolded(page), "utf-8")
        command = [
            program,
            *("--headless", "--disable-gpu", "--no-first-run"),
            # Chromium's sandbox refuses to run as root.  Without it the page is still safe: it has
            # no script.
            *(["--no-sandbox"] if os.geteuid() == 0 else []),
            *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
            "--host-resolver-rules=MAP * ~NOTFOUND",
            f"--user-data-dir={folder}/profile",
            "--no-pdf-header-footer",
            f"--print-to-pdf={target}",
            source.as_uri(),
        ]
        try:
            subprocess.run(command, capture_output=True, check=True, timeout=_BROWSER_SECONDS)
            return target.read_bytes()
        except (OSError, subprocess.SubprocessError) as error:
            raise OutputNotWritable(
                f"{program} printed no PDF ({type(error).__name__}); print the HTML page instead"
            ) from None


def archival_pdf(page: str) -> bytes:
    """The page as PDF/A-1b (ISO 19005-1), to be read in decades; nothing is fetched.

    Errors: InvalidParameter if WeasyPrint, of the extra ``pdf``, or its library Pango is missing.
    """
    try:
        with optional("pdf", "PDF/A"):
            import weasyprint
    except OSError:
        raise InvalidParameter(
            "PDF/A: WeasyPrint finds no Pango; apt install libpango-1.0-0 libpangoft2-1.0-0"
        ) from None
    # WeasyPrint draws no variables of figures.
    opaque = re.sub(r"(fill-|stroke-)?opacity: ?[0-9.]+;?", "", light(unfolded(page)))
    nothing = weasyprint.urls.URLFetcher(allowed_protocols=())
    source = weasyprint.HTML(string=opaque, url_fetcher=nothing)
    pdf: bytes = source.write_pdf(pdf_variant=PDF_A, finisher=_archival)
    return pdf


def _archival(_: Any, pdf: Any) -> None:
    """Make the file what PDF/A-1 asks for, and its metadata what every validator reads.

    Transparency groups are forbidden, and where all is opaque they do nothing.  Each description
    of the metadata declares its namespaces itself: PDFBox 2 looks for them nowhere else.
    """
    for item in pdf.objects:
        extra = getattr(item, "extra", {})
        extra.pop("Group", None)
        if extra.get("Type") == "/Metadata":
            item.stream = [_declared(content) for content in item.stream]


def _declared(content: bytes) -> bytes:
    match = re.search(rb"<rdf:RDF( [^>]*)>", content)
    spaces = match[1] if match else b""
    return content.replace(b"<rdf:Description", b"<rdf:Description" + spaces)
