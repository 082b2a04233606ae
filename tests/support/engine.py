"""The checker in a browser's engine: Pyodide under Node, one process for file after file."""

from __future__ import annotations

import json
import math
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from dpaudit.check.rows import verify_file
from dpaudit.report import verifier

PROGRAM = Path(__file__).with_name("pyodide_rows.mjs")
POLLED = 1.0  # seconds between two looks at the process's time
Row = dict[str, Any]


def _fields(process: int) -> list[str]:
    text = Path(f"/proc/{process}/stat").read_text("ascii")
    return text.rpartition(")")[2].split()


def spent(process: int) -> float:
    """The processor's seconds that a process has taken."""
    return sum(map(int, _fields(process)[11:13])) / os.sysconf("SC_CLK_TCK")


def children(process: int) -> list[int]:
    """The processes that a process began, and those that they began."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if int(_fields(int(path.name))[1]) == process:
                found += [int(path.name), *children(int(path.name))]
        except OSError:
            continue  # it has ended
    return found


class Engine:
    """A warm process; ``start``: the processor's seconds until it was ready."""

    def __init__(self, folder: Path) -> None:
        verifier.for_node(verifier.assets(), folder)
        self.process = subprocess.Popen(
            [str(shutil.which("node")), str(PROGRAM), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=sys.stderr,
            text=True,
        )
        first = self._answer()
        assert first["bits"] == 32
        self.start = float(first["start"])

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.communicate()

    def answer(self, file: Path, limit: float = math.inf) -> Row:
        """The checker's answer on a file, and the processor's seconds it took.

        Errors: TimeoutError beyond ``limit`` seconds of a processor; the process has ended then.
        """
        assert self.process.stdin is not None
        self.process.stdin.write(f"{file}\n")
        self.process.stdin.flush()
        begun = spent(self.process.pid)
        while not select.select([self.process.stdout], [], [], POLLED)[0]:
            if spent(self.process.pid) - begun > limit:
                self.__exit__(None, None, None)
                raise TimeoutError(f"no answer within {limit:g} s")
        return self._answer()

    def _answer(self) -> Row:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the engine has ended"
        found: Row = json.loads(line)
        return found

    def differing(self, files: Iterable[Path]) -> Iterator[str]:
        """The files that it judges otherwise than this process, with both judgements."""
        for file in files:
            here, there = judged(verify_file(file)), judged(self.answer(file)["row"])
            if here != there:
                yield f"{file.name}: {here} natively, {there} in the engine"


def judged(row: Row) -> tuple[Any, ...]:
    """What has to be the same wherever a file is judged."""
    parts = row["verified"], row["verdict"], row["failure"], row["epsilons"], row["on_trust"]
    return tuple(json.loads(json.dumps(parts)))
