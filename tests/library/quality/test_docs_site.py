"""The documentation builds strictly, and a link to nowhere stops it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path


def built(folder: Path, checkout: Path, out: Path) -> subprocess.CompletedProcess[str]:
    """The site of the pages in a folder, with the checkout's own modules."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(checkout)}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_the_site_builds_and_holds_every_public_name(checkout: Path, tmp_path: Path) -> None:
    from dpaudit import __all__ as public

    result = built(checkout, checkout, tmp_path / "site")
    assert result.returncode == 0, result.stderr
    page = (tmp_path / "site" / "api" / "index.html").read_text("utf-8")
    missing = [n for n in public if n != "__version__" and f'id="dpaudit.{n}"' not in page]
    assert missing == []
    assert "<blockquote>" not in page  # prompts outside of code
    assert not re.findall(r":(?:func|class|meth|mod|attr|data|obj):", page)
    assert page.count("highlight") >= len(public)


def test_a_link_to_nowhere_stops_it(checkout: Path, tmp_path: Path) -> None:
    for name in ("docs", "dpaudit", "tools"):
        shutil.copytree(checkout / name, tmp_path / name, ignore=shutil.ignore_patterns("*.pyc"))
    shutil.copy(checkout / "mkdocs.yml", tmp_path)
    with (tmp_path / "docs" / "index.md").open("a", encoding="utf-8") as page:
        page.write("\n[nowhere](no_such_page.md)\n")
    result = built(tmp_path, checkout, tmp_path / "site")
    assert result.returncode != 0
    assert "no_such_page.md" in result.stderr
