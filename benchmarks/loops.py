"""Hot kernels of the papers' runs beside the same loops in C (loops.c, compiled by gcc -O3).

Each is the innermost loop of an experiment or program that takes long, on arrays of its sizes:
per-record clipped gradients, the noise of prefix sums, passes and gradients of users, and what a
certificate looks at.  Both give the same numbers, to 1e-12 of the largest, which is checked first;
they take turns, and the median of their processor times counts.  One that takes more than twice
its loop's time is told, and the command fails.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from dpaudit.families.correlated.kernel import past_of
from dpaudit.families.correlated.node import Factorisation
from dpaudit.families.correlated.strategies import prefix_column
from dpaudit.kernels.query import Array, Records
from experiments.user_level.phased import Distance
from mechanisms.papers.common.losses import Logistic, SoftplusNetwork
from mechanisms.papers.diff2.framework import Diff2
from mechanisms.papers.diff2.noise import Noise
from mechanisms.papers.stable_erm.certificate import measured
from mechanisms.papers.stable_erm.domains import Box
from mechanisms.papers.stable_erm.sharp import Shares
from mechanisms.papers.stable_erm.solver import Minimiser, Pull
from mechanisms.papers.user_level.problem import Problem, SquaredDistance
from mechanisms.papers.user_level.sgd import one_pass_sgd
from mechanisms.papers.user_level.smoothing import BallSmoothedLoss

RECORDS, FEATURES, RADIUS = 16_000, 10, 0.8
ROUNDS, DIMENSION = 512, 100
GROUPS, USERS_EACH, ITEMS, WIDTH = 800, 25, 10, 20
START = 0.1  # not zero, from where a run takes a pass less
TRAINED, INPUTS, HIDDEN = 16_510, 8, 10  # diff2_network
PHASE, EACH, SIGNS, BALL = 8_192, 64, 5, 0.1  # a phase of user_level_phased
SHARED, SHARES_EACH, TRIALS = 32_768, 4, 4  # stable_rates
LEVEL, HALF_WIDTH, WEIGHT = 0.5, 1.0, 0.8
REPEATS, TARGET, SAME = 31, 2.0, 1e-12
Pointer = ctypes.POINTER(ctypes.c_double)
size, real = ctypes.c_size_t, ctypes.c_double


@dataclass(frozen=True)
class Loop:
    """A kernel and the loop in C, which give the same array; ``times``: calls a measure has.

    ``where``: the experiments or programs that spend their time there.
    """

    name: str
    where: str
    ours: Callable[[], Array]
    theirs: Callable[[], Array]
    times: int = 1


@dataclass(frozen=True)
class Row:
    """Processor seconds of a call, ours and of the loop in C."""

    name: str
    where: str
    ours: float
    theirs: float

    @property
    def ratio(self) -> float:
        """Ours over theirs."""
        return self.ours / self.theirs


def _gcc() -> str:
    found = shutil.which("gcc")
    if found is None:
        raise RuntimeError("gcc: not found; the loops in C need it")
    return found


def compiled() -> Any:
    """loops.c as a library.  Errors: RuntimeError without gcc."""
    folder = Path(tempfile.mkdtemp(prefix="dpaudit-loops-"))
    library, source = folder / "loops.so", Path(__file__).with_name("loops.c")
    options = ["-O3", "-march=native", "-shared", "-fPIC", f"-I{np.get_include()}"]
    normals = Path(np.__file__).parent / "random" / "lib"  # NumPy's own generators, in C
    linked = [f"-L{normals}", "-lnpyrandom", "-lm"]
    subprocess.run([_gcc(), *options, str(source), "-o", str(library), *linked], check=True)
    return ctypes.CDLL(str(library))


def _pointer(array: Array) -> Any:
    return np.ascontiguousarray(array).ctypes.data_as(Pointer)


def loops(library: Any) -> Iterator[Loop]:
    """The kernels, on data that a run of the papers has."""
    rng = np.random.default_rng(0)
    yield _clipped(library, rng)
    yield from _softplus(library, rng)
    yield _prefix(library, rng)
    yield _users(library, rng)
    yield from _distances(library, rng)
    yield _shares(library, rng)


def _clipped(library: Any, rng: np.random.Generator) -> Loop:
    rows = np.column_stack(
        [rng.uniform(-1, 1, (RECORDS, FEATURES)), rng.integers(0, 2, RECORDS).astype(float)]
    )
    theta, records = rng.standard_normal((1, FEATURES)), Records(rows)
    program = Diff2(Logistic(), FEATURES, (RECORDS,), 2, 1, RADIUS, 1.0, 0.1, noise=Noise(1.0, 1.0))
    found = np.empty(FEATURES)

    def theirs() -> Array:
        library.clipped_logistic(
            _pointer(rows), _pointer(theta), size(RECORDS), size(FEATURES),
            real(RADIUS), _pointer(found),
        )  # fmt: skip
        return found

    name = f"clipped gradients, logistic, {RECORDS} x {FEATURES}"

    def ours() -> Array:
        return np.asarray(program.gradient_query(theta).value(records)[0])

    return Loop(name, "DIFF2 on linear models", ours, theirs, 20)


def _softplus(library: Any, rng: np.random.Generator) -> Iterator[Loop]:
    rows = rng.uniform(-1, 1, (TRAINED, INPUTS + 1))
    loss, records = SoftplusNetwork(HIDDEN), Records(rows)
    sizes = (TRAINED // 10,) * 10
    program = Diff2(loss, INPUTS, sizes, 2, 2, 1.0, 3.0, 0.1, noise=Noise(1.0, 1.0))
    before = loss.initial(INPUTS, 1, 0)
    theta = before + 0.05 * rng.standard_normal(before.shape)
    found = np.empty(theta.shape[1])

    def theirs(previous: Array | None, radius: float) -> Array:
        library.clipped_softplus(
            _pointer(rows), _pointer(theta), previous if previous is None else _pointer(previous),
            size(TRAINED), size(INPUTS), size(HIDDEN), real(radius), _pointer(found),
        )  # fmt: skip
        return found

    shape = f"softplus network, {TRAINED} x {theta.shape[1]}"
    yield Loop(
        f"clipped gradients, {shape}",
        "`diff2_network`",
        lambda: program.gradient_query(theta).value(records)[0],
        lambda: theirs(None, 1.0),
    )
    moved = 3.0 * float(np.linalg.norm(theta - before))
    yield Loop(
        f"clipped differences, {shape}",
        "`diff2_network`",
        lambda: program.difference_query(theta, before).value(records)[0],
        lambda: theirs(before, moved),
    )


def _prefix(library: Any, rng: np.random.Generator) -> Loop:
    fresh = rng.standard_normal((ROUNDS, 1, DIMENSION))
    column = np.ascontiguousarray(prefix_column(Factorisation.SQRT_TOEPLITZ, ROUNDS))
    found = np.empty((ROUNDS, DIMENSION))

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

    return Loop(
        f"prefix noise, {ROUNDS} rounds of {DIMENSION}",
        "`srgd_one_pass`, `srgd_risk`",
        ours,
        theirs,
        5,
    )


def _users(library: Any, rng: np.random.Generator) -> Loop:
    users = rng.standard_normal((GROUPS * USERS_EACH, ITEMS, WIDTH + 1))
    users[..., :-1] /= np.linalg.norm(users[..., :-1], axis=-1, keepdims=True)
    users[..., -1] = users[..., -1] > 0
    problem = Problem(Logistic(), len(users), ITEMS, WIDTH, 2.0, 1.0)
    start, found = np.full((1, WIDTH), START), np.empty((GROUPS, WIDTH))

    def theirs() -> Array:
        library.one_pass(
            _pointer(users), _pointer(start), size(GROUPS), size(USERS_EACH * ITEMS), size(WIDTH),
            real(0.1), real(1.0), real(2.0), _pointer(found),
        )  # fmt: skip
        return found

    name = f"one-pass SGD of {GROUPS} groups, {USERS_EACH * ITEMS} items each"
    ours = partial(_averages, problem, start, users)
    return Loop(name, "Algorithm 1 on linear models", ours, theirs)


def _averages(problem: Problem, start: Array, users: Array) -> Array:
    return np.asarray(one_pass_sgd(problem, start, users, GROUPS, 0.1)[0])


def _distances(library: Any, rng: np.random.Generator) -> Iterator[Loop]:
    items = np.where(rng.random((PHASE, EACH, SIGNS)) < 0.95, 1.0, -1.0) / np.sqrt(SIGNS)
    point, found = rng.uniform(0, 0.3, (1, SIGNS)), np.empty((PHASE, SIGNS))
    drawn = np.empty(items.size)
    counts = size(PHASE), size(EACH), size(SIGNS)
    smooth = Problem(SquaredDistance(SIGNS), PHASE, EACH, SIGNS, 1.0, 2.0)
    smoothed = BallSmoothedLoss(Distance(SIGNS), BALL)
    sharp = Problem(smoothed, PHASE, EACH, SIGNS, 1.0, 1.0)

    def squares() -> Array:
        library.user_distances(
            _pointer(items), _pointer(point), *counts, real(2.0), _pointer(found)
        )
        return found

    def balls() -> Array:
        words = np.frombuffer(sha256(point[0].tobytes()).digest(), dtype=np.uint32)
        generator = np.random.default_rng([smoothed.seed, *map(int, words)]).bit_generator
        library.user_smoothed(
            ctypes.c_void_p(generator.ctypes.bit_generator.value), _pointer(items),
            _pointer(point), *counts, real(BALL), real(1.0), _pointer(drawn), _pointer(found),
        )  # fmt: skip
        return found

    shape = f"{PHASE} users of {EACH} items"
    where = "`user_level_phased`"
    yield Loop(f"users' gradients, half the squared distance, {shape}", where,
               lambda: smooth.user_gradients(point, items)[0], squares)  # fmt: skip
    yield Loop(f"users' gradients, the distance smoothed, {shape}", where,
               lambda: sharp.user_gradients(point, items)[0], balls)  # fmt: skip


def _shares(library: Any, rng: np.random.Generator) -> Loop:
    shares = np.clip(0.6 + 0.1 * rng.standard_normal((SHARED, 1, SHARES_EACH)), 0, 1)
    centres = rng.uniform(-0.3, 0.3, (TRIALS, SHARES_EACH))
    pull = Pull(WEIGHT, centres)
    minimiser = Minimiser(Shares(LEVEL), Box(HALF_WIDTH, SHARES_EACH), pull)
    found = np.empty((TRIALS, SHARED))

    def ours() -> Array:
        with np.errstate(all="ignore"):
            return measured(minimiser, shares).norms

    def theirs() -> Array:
        library.shares_norms(
            _pointer(shares), _pointer(centres), size(TRIALS), size(SHARED), size(SHARES_EACH),
            real(WEIGHT), real(LEVEL), real(HALF_WIDTH), _pointer(found),
        )  # fmt: skip
        return found

    name = f"users' subgradients, shares, {SHARED} x {SHARES_EACH}, {TRIALS} runs"
    return Loop(name, "`stable_rates`", ours, theirs)


def timed(loop: Loop, repeats: int = REPEATS) -> Row:
    """Medians over rounds in which they take turns.

    Errors: RuntimeError where the loop in C gives other results.
    """
    ours, theirs = np.array(loop.ours()), np.array(loop.theirs())
    # Not as a difference above the bound: one that is no number must not pass.
    same = ours.shape == theirs.shape and bool(
        np.abs(ours - theirs).max() <= SAME * np.abs(ours).max()
    )
    if not same:
        raise RuntimeError(f"{loop.name}: the loop in C gives other results than ours")
    seconds: dict[str, list[float]] = {"ours": [], "theirs": []}
    for _ in range(repeats):
        for name, taken in seconds.items():
            call = getattr(loop, name)
            start = time.process_time()
            for _ in range(loop.times):
                call()
            taken.append((time.process_time() - start) / loop.times)
    medians = {name: float(np.median(taken)) for name, taken in seconds.items()}
    return Row(loop.name, loop.where, medians["ours"], medians["theirs"])


def page(rows: Sequence[Row], tools: str) -> str:
    """The table as Markdown; ``tools``: what it was measured with."""
    above = [row.name for row in rows if row.ratio > TARGET]
    said = f"Above it: {'; '.join(above)}." if above else "None is above it."
    lines = [
        "# Hot kernels beside C",
        "",
        "Made by `python -m benchmarks.loops` in `make bench`, which fails where a ratio is above "
        f"{TARGET:g}. {said} Each kernel is the innermost loop of what is named, on arrays of its "
        "sizes; beside it is the same arithmetic as a loop in C (`benchmarks/loops.c`, one "
        "thread, `gcc -O3 -march=native`, without `-ffast-math`), whose results are checked to be "
        f"equal to {SAME:g} of the largest. They take turns {REPEATS} times; the figures are "
        f"medians of processor time. {tools}.",
        "",
        "| kernel | hot in | ours, ms | C, ms | ratio |",
        "|---|---|---|---|---|",
        *(
            f"| {row.name} | {row.where} | {1000 * row.ours:.2f} | {1000 * row.theirs:.2f} "
            f"| {row.ratio:.2f} |"
            for row in rows
        ),
        "",
    ]
    return "\n".join(lines)


def measured_with() -> str:
    """The processor, the compiler and NumPy."""
    names = [line for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines()
             if line.startswith("model name")]  # fmt: skip
    processor = names[0].split(":")[1].strip() if names else platform.machine()
    asked = [_gcc(), "-dumpfullversion"]
    version = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
    return f"{processor}, gcc {version}, NumPy {np.__version__}"


def report(rows: Iterable[Row], written: Path | None = None, tools: str = "") -> int:
    """Print one JSON line a kernel and write the page; 1 where a ratio is above the target."""
    kept = []
    for row in rows:
        kept.append(row)
        told = {"kernel": row.name, "ours": row.ours, "c": row.theirs, "ratio": round(row.ratio, 2)}
        print(json.dumps(told), flush=True)
    if written is not None:
        written.write_text(page(kept, tools), "utf-8")
    above = [row for row in kept if not row.ratio <= TARGET]
    for row in above:
        print(f"{row.name}: {row.ratio:.2f} times the loop in C, above {TARGET:g}", file=sys.stderr)
    return int(bool(above))


def main() -> int:
    """Measure all; the status is 1 where one takes more than twice its loop's time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", type=Path, help="where the table is written, in Markdown")
    given = parser.parse_args()
    rows = (timed(loop) for loop in loops(compiled()))
    return report(rows, given.page, measured_with())


if __name__ == "__main__":
    sys.exit(main())
