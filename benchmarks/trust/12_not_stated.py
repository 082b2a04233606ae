"""The first certificate of a new project, as a page in three languages: what is said of no unit."""

import re
from pathlib import Path

from shared import command


def probe() -> str:
    """How often a page shows the certificate's own placeholder inside a sentence."""
    command("init", "project")
    command(*"certify noisy_mean --seed 1 --trials 1000".split(), cwd="project")
    counts = []
    for spoken in ("en", "de", "fr"):
        words = ["report", "reports/noisy_mean.json", "--format", "html", "--language", spoken]
        command(*words, "--out", spoken, cwd="project")
        page = Path("project", spoken, "noisy_mean.html").read_text("utf-8")
        text = " ".join(re.sub(r"<[^>]*>", " ", page).split()).casefold()
        pattern = "one not stated" if spoken == "en" else "not stated"
        counts.append(f"{spoken} {text.count(pattern)}")
    return f"placeholders on the page: {', '.join(counts)}"
