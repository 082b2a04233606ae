"""The first page, the how-to pages and the tutorials with commands run as they are printed."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from tests.support import pages
from tests.support.pages import run_page

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PAGES = ["index.md", "tutorials/review.md", "tutorials/pytorch.md"]
PAGES += sorted(path.relative_to(DOCS).as_posix() for path in DOCS.glob("how-to/*.md"))
# The other pages start many processes, or certify, which takes more than 3 s.
QUICK = ("tutorials/pytorch.md", *(f"how-to/{name}.md" for name in ("loss", "measure", "pair")))
EXTRAS = {"tutorials/pytorch.md": "torch", "how-to/ledger.md": "sqlalchemy"}


@pytest.mark.first_case
@pytest.mark.long_cases("how-to/loss.md", "how-to/pair.md")
@pytest.mark.parametrize(
    "name", [pytest.param(p, marks=[pytest.mark.quality] * (p not in QUICK)) for p in PAGES]
)
def test_a_page_runs_as_it_is_printed(name: str, tmp_path: Path) -> None:
    if name in EXTRAS:
        pytest.importorskip(EXTRAS[name])
    ran = run_page(DOCS / name, tmp_path, ROOT)
    assert ran.files + ran.lines + ran.prompts >= 3, ran


def test_a_page_that_says_what_is_not_so_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```sh\ntrue  # exits with 1\n```\n", "utf-8")
    with pytest.raises(AssertionError, match="exits with 1"):
        run_page(page, tmp_path, ROOT)
    page.write_text("```python\n>>> 1 + 1\n3\n\n```\n", "utf-8")
    (tmp_path / "again").mkdir()
    with pytest.raises(AssertionError):
        run_page(page, tmp_path / "again", ROOT)


@pytest.mark.quality
def test_a_line_that_takes_too_long_of_a_processor_is_stopped_and_one_that_waits_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that no load of the machine fails a page."""
    monkeypatch.setattr(pages, "SECONDS", 1)
    pages._run("sleep 1.5", tmp_path, dict(os.environ))
    with pytest.raises(AssertionError, match="while :"):
        pages._run("while :; do :; done", tmp_path, dict(os.environ))


def test_prompts_after_an_extra_that_is_not_installed_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\n>>> import torch\n\n```\n```python\n>>> 1\n2\n\n```\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    monkeypatch.setattr("tests.support.pages.find_spec", lambda name: None)
    assert pages._here(page, tmp_path, ROOT).left_out == ("torch",)
    monkeypatch.setattr("tests.support.pages.IMPORTED", re.compile("nothing"))
    (tmp_path / "again").mkdir()
    with pytest.raises(AssertionError):
        pages._here(page, tmp_path / "again", ROOT)
