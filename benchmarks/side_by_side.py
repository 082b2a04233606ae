"""What benchmarks/bounds.py measures with: rows of bounds, and the other tools' process."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dpaudit.cli.terminal import Pace

FloatArray = npt.NDArray[np.float64]
Sides: TypeAlias = tuple[FloatArray, FloatArray]
Bounds: TypeAlias = dict[str, tuple[float, float]]

ERROR = 0.05
PINNED = ("jax-privacy==2.0.0", "privacy-estimates==0.1.0.post1")
SCRIPT = Path(__file__).with_name("bounds_others.py")
ENVIRONMENT = Path(__file__).resolve().parent.parent / "build" / "bounds"


@dataclass
class Row:
    """One tool in one setting: its bounds against the truth, its seconds a bound."""

    setting: str
    tool: str
    truth: float
    bounds: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    failed: str = ""

    @property
    def median(self) -> float:
        return float(np.median(self.bounds)) if self.bounds else math.nan

    @property
    def above(self) -> float:
        """Share of the runs above the truth."""
        return float(np.mean(np.array(self.bounds) > self.truth + 1e-9)) if self.bounds else 0.0

    @property
    def ours(self) -> bool:
        return self.tool.startswith("dpaudit")

    def to_json(self) -> dict[str, Any]:
        kept = {k: v for k, v in asdict(self).items() if k not in ("bounds", "seconds")}
        took = float(np.median(self.seconds)) if self.seconds else math.nan
        found = {"median": self.median, "above_truth": self.above, "runs": len(self.bounds)}
        return kept | found | {"seconds": round(took, 5)}


class Others:
    """The other tools' process; asks and answers one line each.  Without it, no answers."""

    def __init__(self, python: Path | None) -> None:
        self.child = None
        self.folder = tempfile.TemporaryDirectory()
        if python is not None:
            self.child = subprocess.Popen(
                [str(python), str(SCRIPT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )

    def __enter__(self) -> Others:
        return self

    def __exit__(self, *_: object) -> None:
        self.folder.cleanup()
        if self.child is not None:
            self.child.stdin.close()  # type: ignore[union-attr]
            self.child.wait(60)

    def ask(
        self,
        sides: Sides,
        delta: float,
        tools: Sequence[str],
        threshold: float | None = None,
        error: float = ERROR,
    ) -> dict[str, dict[str, Any]]:
        """Answers by tool, ``bound`` and ``seconds``, or ``failed``; none without a process."""
        if self.child is None or not tools:
            return {}
        path = Path(self.folder.name) / "scores.npz"
        np.savez(path, alternative=sides[0], null=sides[1])
        question = {"scores": str(path), "delta": delta, "error": error, "threshold": threshold}
        assert self.child.stdin is not None  # noqa: S101  (made with a pipe)
        assert self.child.stdout is not None  # noqa: S101
        self.child.stdin.write(json.dumps(question | {"tools": list(tools)}) + "\n")
        self.child.stdin.flush()
        answer: dict[str, dict[str, Any]] = json.loads(self.child.stdout.readline())
        return answer


def environment(folder: Path) -> Path:
    """The interpreter of ``folder``, which is made and filled if it is not there."""
    python = folder / "bin" / "python"
    if not (folder / ".ready").exists():
        say(f"installing {' and '.join(PINNED)} in {folder}")
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *PINNED], check=True)
        (folder / ".ready").touch()
    return python


def say(words: str) -> None:
    """A line on standard error."""
    sys.stderr.write(words + "\n")


def timed(bound: Callable[[], float]) -> tuple[float, float]:
    """A bound and its seconds."""
    start = time.perf_counter()
    found = bound()
    return found, time.perf_counter() - start


@dataclass
class Bench:
    """Rows by (setting, tool), as they come in."""

    others: Others
    seed: int
    share: float
    rows: dict[tuple[str, str], Row] = field(default_factory=dict)

    def repeat(self, full: int, name: str) -> Iterable[np.random.Generator]:
        """A generator for each repetition; progress on standard error."""
        runs, pace = max(3, round(full * self.share)), Pace()
        for run in range(runs):
            say(f"{name}: {run} of {runs} runs{pace.left(run, runs)}")
            yield np.random.default_rng([self.seed, run, *name.encode()])

    def add(self, setting: str, truth: float, ours: Bounds, theirs: dict[str, Any]) -> None:
        """One repetition's bounds."""
        for tool, (bound, seconds) in ours.items():
            row = self.rows.setdefault((setting, tool), Row(setting, tool, truth))
            row.bounds.append(bound)
            row.seconds.append(seconds)
        for tool, answer in theirs.items():
            row = self.rows.setdefault((setting, tool), Row(setting, tool, truth))
            if "failed" in answer:
                row.failed = answer["failed"]
                continue
            row.bounds.append(answer["bound"])
            row.seconds.append(answer["seconds"])
