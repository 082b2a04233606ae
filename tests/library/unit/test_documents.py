"""Pages for contributors name what is there."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

PARTS = {"dpaudit": "library", "mechanisms": "catalogue", "experiments": "research"}
MOST_WORDS = 30


def test_every_part_has_a_page_and_its_tests_a_folder(checkout: Path) -> None:
    for part, folder in PARTS.items():
        assert (checkout / part / "README.md").is_file()
        assert any((checkout / "tests" / folder).rglob("test_*.py"))
        assert f"`{folder}/`" in (checkout / "tests" / "README.md").read_text("utf-8")


def test_the_library_page_names_every_package(checkout: Path) -> None:
    page = (checkout / "dpaudit" / "README.md").read_text("utf-8")
    packages = {path.parent.name for path in (checkout / "dpaudit").glob("*/__init__.py")}
    assert packages - set(re.findall(r"`(\w+)`", page)) == set()


def test_the_glossary_is_short_and_sorted(checkout: Path) -> None:
    page = (checkout / "docs" / "glossary.md").read_text("utf-8")
    words = re.findall(r"^\| ([a-z-]+) \|", page, re.MULTILINE)[1:]
    assert words == sorted(words)
    assert len(words) <= MOST_WORDS


def test_workflows_run_what_the_makefile_has(checkout: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (checkout / "Makefile").read_text(), re.MULTILINE))
    for path in (checkout / ".github" / "workflows").glob("*.yml"):
        jobs = yaml.safe_load(path.read_text("utf-8"))["jobs"]
        commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
        assert commands
        for target in re.findall(r"make ([a-z-]+)", "\n".join(commands)):
            assert target in targets
