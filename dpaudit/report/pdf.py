"""Pages as PDF, printed by an installed Chromium or Chrome."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from dpaudit.errors import OutputNotWritable

BROWSER = "DPAUDIT_BROWSER"
_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_SECONDS = 120  # for one page; a browser that hangs is stopped then


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
            subprocess.run(command, capture_output=True, check=True, timeout=_SECONDS)
            return target.read_bytes()
        except (OSError, subprocess.SubprocessError) as error:
            raise OutputNotWritable(
                f"{program} printed no PDF ({type(error).__name__}); print the HTML page instead"
            ) from None
