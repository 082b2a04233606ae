"""Pages for contributors name what is there."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from dpaudit.cli.main import main

PARTS = {"dpaudit": "library", "mechanisms": "catalogue", "experiments": "research"}
MOST_WORDS = 30
# Sentences of comments and docstrings that open with a clause in the place of a subject.
CLAUSE = re.compile(r'(?:^\s*(?:#|""")? ?|\.  )(?:Of|What|Whoever|Whatever)(?: |$)', re.MULTILINE)


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


def test_sentences_have_a_subject(checkout: Path) -> None:
    """CONTRIBUTING.md, rule 1."""
    clauses = (
        '    """What is rounded is ..."""\n    # Of two ends\n# It holds.  Of two\n# So.  What\n'
    )
    assert len(CLAUSE.findall(clauses)) == 4
    lines = [
        f"{path.relative_to(checkout)}: {line.strip()}"
        for path in (checkout / "dpaudit").rglob("*.py")
        for line in path.read_text("utf-8").splitlines()
        if CLAUSE.search(line)
    ]
    assert lines == []


def test_workflows_run_what_the_makefile_has(checkout: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (checkout / "Makefile").read_text(), re.MULTILINE))
    for path in (checkout / ".github" / "workflows").glob("*.yml"):
        jobs = yaml.safe_load(path.read_text("utf-8"))["jobs"]
        commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
        assert commands
        for target in re.findall(r"make ([a-z-]+)", "\n".join(commands)):
            assert target in targets


def test_the_readme_lists_the_commands_that_there_are(checkout: Path) -> None:
    table = (checkout / "README.md").read_text("utf-8").partition("## Commands")[2]
    first = [row.split("|")[1] for row in table.split("\n\n")[1].splitlines()[2:]]
    named = {one.split()[0] for cell in first for one in re.findall(r"`([^`]+)`", cell)}
    there = set(main.commands)
    parts = {
        name for command in main.commands.values() for name in getattr(command, "commands", ())
    }
    assert there <= named <= there | parts
