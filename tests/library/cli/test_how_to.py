"""The first page and the how-to pages run as they are printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.pages import run_page

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PAGES = {path.name: path for path in (DOCS / "index.md", *sorted((DOCS / "how-to").glob("*.md")))}


@pytest.mark.quality
@pytest.mark.parametrize("name", PAGES)
def test_a_page_runs_as_it_is_printed(name: str, tmp_path: Path) -> None:
    ran = run_page(PAGES[name], tmp_path, ROOT)
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
