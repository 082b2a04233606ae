"""The tutorials run as they are printed, and the site's navigation holds what there is."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from dpaudit import __all__ as public

TUTORIALS = sorted(
    path.name for path in (Path(__file__).parents[3] / "docs" / "tutorials").glob("*.md")
)
# cli/test_how_to.py and cli/test_releases_page.py run the commands of these.
ELSEWHERE = ("pytorch.md", "review.md", "table.md")


@pytest.mark.long_cases("certificate.md", "epsilon.md", "exercise.md")
@pytest.mark.parametrize(
    "name",  # Training takes long.
    [
        pytest.param(n, marks=[pytest.mark.quality] * (n == "training.md"))
        for n in TUTORIALS
        if n not in ELSEWHERE
    ],
)
def test_a_tutorial_runs_as_it_is_printed(name: str, checkout: Path) -> None:
    path = str(checkout / "docs" / "tutorials" / name)
    result = doctest.testfile(path, module_relative=False, encoding="utf-8")
    assert result.attempted >= 4
    assert result.failed == 0


def test_the_first_page_runs_and_opens_a_door_for_each_reader(checkout: Path) -> None:
    path = checkout / "docs" / "index.md"
    result = doctest.testfile(str(path), module_relative=False, encoding="utf-8")
    assert result.attempted >= 7
    assert result.failed == 0
    text = path.read_text("utf-8")
    doors = re.findall(r"^\| \*\*(\w+) .*?\]\(([\w/]+\.md)\)", text, re.M)
    assert dict(doors).keys() == {"certify", "audit", "release", "verify"}
    assert len(text[: text.index("Learn:")].splitlines()) <= 30  # one screen


def test_tutorials_are_written_with_the_front_door_alone(checkout: Path) -> None:
    for name in TUTORIALS:
        text = (checkout / "docs" / "tutorials" / name).read_text("utf-8")
        assert set(re.findall(r"\bdp\.(\w+)", text)) <= set(public)
        assert not re.findall(r"(?:import|from) dpaudit\.", text)


def test_every_page_of_the_site_is_in_its_navigation(checkout: Path) -> None:
    navigation = (checkout / "mkdocs.yml").read_text("utf-8")
    named = set(re.findall(r": ([\w/-]+\.md)$", navigation, re.M))
    docs = checkout / "docs"
    pages = {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")}
    assert {one for one in pages if not one.startswith(("decisions/", "utility/"))} == named
