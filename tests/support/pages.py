"""Runs a page of the documentation as its reader would: writes its files, then runs its commands.

A block with ``title="NAME"`` is a file.  A line of a block of ``sh`` is run, and ends as its
comment says (``# exits with 1``, else 0); ``# not run here`` is left out, as is a line that needs a
program that is not installed.  The prompts of Python blocks are run by doctest, in the same folder.
"""

from __future__ import annotations

import doctest
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.M | re.S)
PROGRAMS = ("node", "Rscript")
SECONDS = 120


@dataclass(frozen=True)
class Ran:
    """What of a page was run, and what was left out for want of a program."""

    files: int
    lines: int
    prompts: int
    left_out: tuple[str, ...]


def run_page(page: Path, folder: Path, root: Path) -> Ran:
    """Run a page in an empty folder; AssertionError where a command ends otherwise than it says."""
    files, lines, left_out = 0, 0, []
    environment = _environment(folder / ".bin", root)
    for language, about, text in BLOCK.findall(page.read_text("utf-8")):
        title = re.search(r'title="([^"]+)"', about)
        if title:
            place = folder / title[1]
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, "utf-8")
            files += 1
        elif language == "sh":
            for line in text.replace("\\\n", " ").splitlines():
                missing = [p for p in PROGRAMS if p in line.split("#")[0] and not shutil.which(p)]
                if missing or "# not run here" in line or not line.strip():
                    left_out += missing
                    continue
                _run(line, folder, environment)
                lines += 1
    return Ran(files, lines, _prompts(page, folder), tuple(left_out))


def _run(line: str, folder: Path, environment: dict[str, str]) -> None:
    stated = re.search(r"# exits with (\d+)", line)
    done = subprocess.run(
        ["bash", "-c", line],  # noqa: S607
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert done.returncode == int(stated[1] if stated else 0), (line, done.stdout, done.stderr)


def _prompts(page: Path, folder: Path) -> int:
    before = Path.cwd()
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    try:
        result = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    finally:
        sys.path.remove(str(folder))
        os.chdir(before)
    assert result.failed == 0
    return result.attempted


def _environment(programs: Path, root: Path) -> dict[str, str]:
    """``dpaudit`` and ``python`` are those of the checkout."""
    programs.mkdir()
    for name, module in (("dpaudit", " -m dpaudit"), ("python", "")):
        (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable}{module} "$@"\n', "utf-8")
        (programs / name).chmod(0o755)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {"PATH": path, "PYTHONPATH": str(root), "NO_COLOR": "1"}
