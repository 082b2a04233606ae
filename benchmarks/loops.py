"""Hot kernels of the papers' runs beside the same loops in C (loops.c, compiled by gcc -O3).

Per-record clipped gradients of a linear model, the noise of prefix sums, and the groups' passes of
user-level SGD.  Both give the same numbers, which is checked first; they take turns, and the least
processor time of each counts.  The target is twice the loop's time.
"""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dpaudit.families.correlated.kernel import past_of
from dpaudit.families.correlated.node import Factorisation
from dpaudit.families.correlated.strategies import prefix_column
from dpaudit.kernels.query import Array, Records
from mechanisms.papers.common.losses import Logistic
from mechanisms.papers.diff2.framework import Diff2
from mechanisms.papers.diff2.noise import Noise
from mechanisms.papers.user_level.problem import Problem
from mechanisms.papers.user_level.sgd import one_pass_sgd

RECORDS, FEATURES, RADIUS = 16_000, 10, 0.8
ROUNDS, DIMENSION = 512, 100
GROUPS, USERS_EACH, ITEMS, WIDTH = 800, 25, 10, 20
START = 0.1  # not zero, from where a run takes a pass less
REPEATS, TARGET = 15, 2.0
Pointer = ctypes.POINTER(ctypes.c_double)


@dataclass(frozen=True)
class Loop:
    """A kernel and the loop in C, which give the same array; ``times``: calls a measure has."""

    name: str
    ours: Callable[[], Array]
    theirs: Callable[[], Array]
    times: int = 1


def compiled() -> Any:
    """loops.c as a library.  Errors: RuntimeError without gcc."""
    gcc = shutil.which("gcc")
    if gcc is None:
        raise RuntimeError("gcc: not found; the loops in C need it")
    folder = Path(tempfile.mkdtemp(prefix="dpaudit-loops-"))
    library, source = folder / "loops.so", Path(__file__).with_name("loops.c")
    options = ["-O3", "-march=native", "-shared", "-fPIC"]
    subprocess.run([gcc, *options, str(source), "-o", str(library), "-lm"], check=True)
    return ctypes.CDLL(str(library))


def _pointer(array: Array) -> Any:
    return np.ascontiguousarray(array).ctypes.data_as(Pointer)


def loops(library: Any) -> Iterator[Loop]:
    """The three kernels, on data that a run of the papers has."""
    rng = np.random.default_rng(0)
    yield _clipped(library, rng)
    yield _prefix(library, rng)
    yield _users(library, rng)


def _clipped(library: Any, rng: np.random.Generator) -> Loop:
    rows = np.column_stack(
        [rng.uniform(-1, 1, (RECORDS, FEATURES)), rng.integers(0, 2, RECORDS).astype(float)]
    )
    theta, records = rng.standard_normal((1, FEATURES)), Records(rows)
    program = Diff2(Logistic(), FEATURES, (RECORDS,), 2, 1, RADIUS, 1.0, 0.1, noise=Noise(1.0, 1.0))
    found = np.empty(FEATURES)
    size = ctypes.c_size_t

    def theirs() -> Array:
        library.clipped_logistic(
            _pointer(rows), _pointer(theta), size(RECORDS), size(FEATURES),
            ctypes.c_double(RADIUS), _pointer(found),
        )  # fmt: skip
        return found

    name = f"clipped gradients, logistic, {RECORDS} x {FEATURES}"
    return Loop(name, lambda: program.gradient_query(theta).value(records)[0], theirs, 20)


def _prefix(library: Any, rng: np.random.Generator) -> Loop:
    fresh = rng.standard_normal((ROUNDS, 1, DIMENSION))
    column = np.ascontiguousarray(prefix_column(Factorisation.SQRT_TOEPLITZ, ROUNDS))
    found = np.empty((ROUNDS, DIMENSION))
    size = ctypes.c_size_t

    def ours() -> Array:
        past = past_of(Factorisation.SQRT_TOEPLITZ, ROUNDS)
        noise = np.empty((ROUNDS, DIMENSION))
        for t in range(1, ROUNDS + 1):
            drawn = past.known(t) + past.weight(t) * fresh[t - 1]
            past.push(t, drawn, fresh[t - 1])
            noise[t - 1] = drawn[0]
        return noise

    def theirs() -> Array:
        library.prefix_noise(
            _pointer(column), _pointer(fresh), size(ROUNDS), size(DIMENSION), _pointer(found)
        )
        return found

    return Loop(f"prefix noise, {ROUNDS} rounds of {DIMENSION}", ours, theirs, 5)


def _users(library: Any, rng: np.random.Generator) -> Loop:
    users = rng.standard_normal((GROUPS * USERS_EACH, ITEMS, WIDTH + 1))
    users[..., :-1] /= np.linalg.norm(users[..., :-1], axis=-1, keepdims=True)
    users[..., -1] = users[..., -1] > 0
    problem = Problem(Logistic(), len(users), ITEMS, WIDTH, 2.0, 1.0)
    start, found = np.full((1, WIDTH), START), np.empty((GROUPS, WIDTH))
    size = ctypes.c_size_t

    def theirs() -> Array:
        library.one_pass(
            _pointer(users), _pointer(start), size(GROUPS), size(USERS_EACH * ITEMS), size(WIDTH),
            ctypes.c_double(0.1), ctypes.c_double(1.0), ctypes.c_double(2.0), _pointer(found),
        )  # fmt: skip
        return found

    name = f"one-pass SGD of {GROUPS} groups, {USERS_EACH * ITEMS} items each"
    return Loop(name, partial(_averages, problem, start, users), theirs)


def _averages(problem: Problem, start: Array, users: Array) -> Array:
    return one_pass_sgd(problem, start, users, GROUPS, 0.1)[0]


def ratio(loop: Loop) -> tuple[float, float]:
    """Least processor seconds of a call, ours and of the loop in C; they take turns."""
    np.testing.assert_allclose(loop.ours(), loop.theirs(), rtol=1e-9, atol=1e-12)
    seconds: dict[str, float] = {"ours": np.inf, "theirs": np.inf}
    for _ in range(REPEATS):
        for name in seconds:
            call = getattr(loop, name)
            start = time.process_time()
            for _ in range(loop.times):
                call()
            seconds[name] = min(seconds[name], (time.process_time() - start) / loop.times)
    return seconds["ours"], seconds["theirs"]


def main() -> int:
    """Print one JSON line a kernel; 1 where one takes more than twice its loop's time."""
    worst = 0.0
    for loop in loops(compiled()):
        ours, theirs = ratio(loop)
        worst = max(worst, ours / theirs)
        row = {"kernel": loop.name, "ours": ours, "c": theirs, "ratio": round(ours / theirs, 2)}
        print(json.dumps(row))
    return int(worst > TARGET)


if __name__ == "__main__":
    sys.exit(main())
