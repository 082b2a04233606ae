"""Fragments of the changelog have one form, and towncrier makes a section of them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

NAME = re.compile(r"\+[a-z0-9-]+\.(added|changed|fixed|removed)\.md")
LONGEST = 300  # characters of a sentence
END_OF_A_SENTENCE = re.compile(r"[.!?] +[A-Z]")


def faults(path: Path) -> list[str]:
    """Why a fragment is not one sentence in a file of the right name; empty if it is."""
    text = path.read_text("utf-8").strip()
    checks = {
        "the name is not +WORDS.KIND.md": NAME.fullmatch(path.name),
        "the text is not one line": "\n" not in text and text,
        "the sentence has no full stop at its end": text.endswith("."),
        "the text has more than one sentence": not END_OF_A_SENTENCE.search(text),
        f"the sentence is longer than {LONGEST} characters": len(text) <= LONGEST,
    }
    return [fault for fault, holds in checks.items() if not holds]


def draft(folder: Path) -> subprocess.CompletedProcess[str]:
    """The section that towncrier would write."""
    command = [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "9.9.9"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_every_fragment_is_one_sentence(checkout: Path) -> None:
    paths = [p for p in (checkout / "changelog.d").iterdir() if p.name != "README.md"]
    assert {path.name: faults(path) for path in paths if faults(path)} == {}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("refuse.fixed.md", "It refuses."),
        ("+refuse.mended.md", "It refuses."),
        ("+refuse.fixed.md", ""),
        ("+refuse.fixed.md", "It refuses"),
        ("+refuse.fixed.md", "It refuses. Correct the plan."),
        ("+refuse.fixed.md", "It refuses.\n\nCorrect it."),
        ("+refuse.fixed.md", "x" * LONGEST + "."),
    ],
)
def test_another_form_is_refused(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text, "utf-8")
    assert faults(tmp_path / name)


def test_towncrier_makes_a_section_of_the_fragments(checkout: Path, tmp_path: Path) -> None:
    for name in ("pyproject.toml", "CHANGELOG.md"):
        shutil.copy(checkout / name, tmp_path)
    shutil.copytree(checkout / "changelog.d", tmp_path / "changelog.d")
    (tmp_path / "changelog.d" / "+refuse.fixed.md").write_text("`charge` refuses a debt.", "utf-8")
    done = draft(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "## 9.9.9 (" in done.stdout
    assert "- `charge` refuses a debt." in done.stdout.partition("### Fixed")[2]


def test_towncrier_drops_a_kind_that_it_does_not_know(checkout: Path, tmp_path: Path) -> None:
    """This is why the names of fragments are tested above."""
    shutil.copy(checkout / "pyproject.toml", tmp_path)
    folder = tmp_path / "changelog.d"
    folder.mkdir()
    (folder / "+refuse.mended.md").write_text("`charge` refuses a debt.", "utf-8")
    assert "refuses a debt" not in draft(tmp_path).stdout
