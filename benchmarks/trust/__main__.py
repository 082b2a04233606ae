"""Run every probe of this folder on an earlier revision and on this one: ``before | after``.

A probe is a file ``NN_name.py`` whose ``probe()`` tries one thing and says in a few words what was
seen.  It runs in a process of its own, in an empty folder, with the code of either revision; what
probes share is in ``shared.py``.

    python -m benchmarks.trust --before 7f067450 --page docs/trust.md
"""

from __future__ import annotations

import argparse
import ast
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BEFORE = "7f067450"  # the last revision before the probes were written
SECONDS = 120  # a probe that takes longer is reported as hanging
# The probes' folder comes last on the path: the tree that is tried has no module of its names.
CALL = (
    "import os, runpy, sys; sys.path.append(os.path.dirname(sys.argv[1]));"
    "print(runpy.run_path(sys.argv[1])['probe']())"
)
MOST_SHOWN = 160  # characters of an answer


def main() -> None:
    """Print the table, or write it into a page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", default=BEFORE, help="the earlier revision")
    parser.add_argument("--page", type=Path, help="write the table into this page")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        earlier = checked_out(asked.before, Path(folder) / "before")
        lines = list(table(earlier, asked.before))
    if asked.page is None:
        return
    asked.page.write_text(page(lines, asked.before), encoding="utf-8")


def checked_out(revision: str, folder: Path) -> Path:
    """The files of a revision, in a folder of their own."""
    folder.mkdir()
    command = ["git", "-C", str(ROOT), "archive", revision]
    archive = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    return folder


def table(earlier: Path, revision: str) -> Iterator[str]:
    """Rows in Markdown, printed as they are known."""
    for line in (f"| tried | before ({revision}) | now |", "|---|---|---|"):
        print(line, flush=True)
        yield line
    for file in sorted(HERE.glob("[0-9][0-9]_*.py")):
        tried = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or file.stem
        answers = [answered(file, tree) for tree in (earlier, ROOT)]
        cells = [tried.splitlines()[0], *answers]
        line = f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"
        print(line, flush=True)
        yield line


def answered(probe: Path, tree: Path) -> str:
    """What a probe says of the code in a tree."""
    with tempfile.TemporaryDirectory() as empty:
        environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            ran = subprocess.run(
                [sys.executable, "-c", CALL, str(probe)],
                cwd=empty,
                env=environment,
                capture_output=True,
                text=True,
                timeout=SECONDS,
            )
        except subprocess.TimeoutExpired:
            return f"no answer in {SECONDS} s"
    lines = ran.stdout.strip().splitlines() or ran.stderr.strip().splitlines() or ["nothing said"]
    return lines[-1][:MOST_SHOWN]


def page(lines: list[str], revision: str) -> str:
    """The page around the table."""
    return "\n".join(
        [
            "# Attempts to get something false accepted, before and now",
            "",
            "Each row is one attempt to get something false verified, published or charged.",
            f"`python -m benchmarks.trust --page docs/trust.md` ran it on revision {revision} and",
            "on the code of this page; each attempt is a file of `benchmarks/trust`.",
            "",
            *lines,
            "",
        ]
    )


if __name__ == "__main__":
    main()
