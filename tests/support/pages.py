"""Runs a page of the documentation as its reader would: its files first, then from top to end.

A block with ``title="NAME"`` is a file.  A line of a block of ``sh`` is run, and ends as its
comment says (``# exits with 1``, else 0); ``# not run here`` is left out, as are installations and
a line that needs a program that is not installed.  The prompts of all Python blocks are run by
doctest, in one session in the same folder; none after the import of an extra that is not installed.
All of it happens in a process of its own.
"""

from __future__ import annotations

import doctest
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.M | re.S)
PROGRAMS = ("node", "Rscript")
IMPORTED = re.compile(r"^>>> (?:import|from) (torch)\b", re.M)
# Seconds of a processor that each process of a line may take; a busy machine changes nothing.
SECONDS = 120


@dataclass
class Ran:
    """What of a page was run, and what was left out for want of a program."""

    files: int = 0
    lines: int = 0
    prompts: int = 0
    left_out: tuple[str, ...] = ()


def run_page(page: Path, folder: Path, root: Path) -> Ran:
    """Run a page in an empty folder; AssertionError where a block ends otherwise than it says."""
    command = [sys.executable, "-m", "tests.support.pages", str(page), str(folder), str(root)]
    environment = os.environ | {"PYTHONPATH": str(root), "NO_COLOR": "1"}
    done = subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return Ran(**json.loads(done.stdout.splitlines()[-1]))


def _here(page: Path, folder: Path, root: Path) -> Ran:
    ran, session = Ran(), Session(page)
    environment = _environment(folder / ".bin", root)
    blocks = BLOCK.findall(page.read_text("utf-8"))
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    for _, about, text in blocks:
        if title := re.search(r'title="([^"]+)"', about):
            place = folder / title[1]
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, "utf-8")
            ran.files += 1
    for language, about, text in blocks:
        if language == "sh" and "title=" not in about:
            for line in text.replace("\\\n", " ").splitlines():
                missing = [p for p in PROGRAMS if p in line.split("#")[0] and not shutil.which(p)]
                ran.left_out += tuple(missing)
                others = "# not run here" in line or line.startswith("pip install")
                if not missing and not others and line.strip():
                    _run(line, folder, environment)
                    ran.lines += 1
        elif text.startswith(">>> "):
            absent = {name for name in IMPORTED.findall(text) if find_spec(name) is None}
            ran.left_out += tuple(absent)
            if absent:
                break
            ran.prompts += session.run(text)
    return ran


class Session:
    """Prompts of many blocks, one after the other, with the same names."""

    def __init__(self, page: Path) -> None:
        self.page, self.names = page, {"__name__": "__main__"}

    def run(self, block: str) -> int:
        """How many prompts the block has; AssertionError where one says something else."""
        test = doctest.DocTestParser().get_doctest(block, {}, self.page.name, str(self.page), 0)
        test.globs = self.names
        result = doctest.DocTestRunner().run(test, clear_globs=False)
        assert result.failed == 0
        return result.attempted


def _run(line: str, folder: Path, environment: dict[str, str]) -> None:
    stated = re.search(r"# exits with (\d+)", line)
    done = subprocess.run(
        ["bash", "-c", f"ulimit -t {SECONDS}\n{line}"],  # noqa: S607
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == int(stated[1] if stated else 0), (line, done.stdout, done.stderr)


def _environment(programs: Path, root: Path) -> dict[str, str]:
    """``dpaudit`` and ``python`` are those of the checkout."""
    programs.mkdir()
    for name, module in (("dpaudit", " -m dpaudit"), ("python", "")):
        (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable}{module} "$@"\n', "utf-8")
        (programs / name).chmod(0o755)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {"PATH": path, "PYTHONPATH": str(root), "NO_COLOR": "1"}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asdict(_here(*map(Path, sys.argv[1:])))) + "\n")
