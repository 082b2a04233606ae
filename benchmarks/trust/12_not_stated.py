"""The first certificate of a new project, as a page in three languages: what is said of no unit."""

import re
import subprocess
import sys
from pathlib import Path


def dpaudit(*words: str, folder: str = ".") -> None:
    """Run a command."""
    subprocess.run(
        [sys.executable, "-m", "dpaudit", *words], cwd=folder, capture_output=True, check=False
    )


def probe() -> str:
    """How often a page shows the certificate's own placeholder inside a sentence."""
    dpaudit("init", "project")
    dpaudit("certify", "noisy_mean", "--seed", "1", "--trials", "1000", folder="project")
    counts = []
    for spoken in ("en", "de", "fr"):
        words = ["report", "reports/noisy_mean.json", "--format", "html", "--language", spoken]
        dpaudit(*words, "--out", spoken, folder="project")
        page = Path("project", spoken, "noisy_mean.html").read_text("utf-8")
        text = " ".join(re.sub(r"<[^>]*>", " ", page).split()).casefold()
        pattern = "one not stated" if spoken == "en" else "not stated"
        counts.append(f"{spoken} {text.count(pattern)}")
    return f"placeholders on the page: {', '.join(counts)}"
