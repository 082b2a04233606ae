"""Running the cells of an experiment: in this process or several, resumed where a run stopped."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from hashlib import sha256
from pathlib import Path

import numpy as np

from dpaudit.audit.workers import finished, resumed
from dpaudit.errors import InvalidParameter
from dpaudit.storage import roots
from dpaudit.storage.batches import RowStore
from dpaudit.storage.imported import imported
from dpaudit.version import __version__
from experiments.lab.found import load, named
from experiments.lab.model import Cell, Experiment, Result, Results, Size, Values
from experiments.lab.times import Times

Progress = Callable[[str, Sequence[Cell], Sequence[Cell]], None]


@dataclass(frozen=True)
class Order:
    """Which experiment of which root to run, how much of it, and under which seed.

    ``cells``: run in place of the grid of ``size``; a figure's, on a user's files.
    """

    root: Path
    name: str
    size: Size = Size.FULL
    seed: int = 1
    cells: tuple[Cell, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 2**128:
            raise InvalidParameter(f"seed = {self.seed}: expected in [0, 2^128)")


def run(
    order: Order,
    *,
    jobs: int = 1,
    store: Path | None = None,
    progress: Progress | None = None,
    times: Times | None = None,
) -> Results:
    """Run every cell that ``store`` does not hold yet; equal orders give equal results.

    ``store``: a folder that keeps finished cells until all are; None keeps none.  ``times``: where
    the processor time of every cell that is run is written down.
    ``progress(name, done, all)`` is called at the start and after every cell.
    Errors: UnknownTarget for an unknown name; InvalidParameter for cells that are not distinct, or
    a result that is no number; whatever a cell raises.
    """
    experiment = named(load(order.root, figures=True), order.name, order.root)
    cells = distinct(order.cells or experiment.cells(order.size))
    kept = None if store is None else kept_cells(order, experiment, store)
    sources = "" if times is None else sources_of(order.root, experiment)
    named_cells = {cell.name: cell for cell in cells}

    def report(done: Mapping[str, Values]) -> None:
        if progress is not None:
            progress(order.name, [named_cells[name] for name in done], cells)

    def run_missing(missing: list[Cell]) -> Generator[tuple[Cell, Values], None, None]:
        # Long cells first keep several workers busy to the end; short ones give a pace at once.
        missing.sort(key=lambda cell: cell.cost, reverse=jobs > 1)
        with contextlib.closing(finished(partial(_timed_cell, order), missing, jobs)) as running:
            for cell, (values, seconds) in running:
                if times is not None:
                    times.add(order.name, cell, seconds, sources)
                yield cell, values

    done: dict[str, Values] = resumed(named_cells, run_missing, kept=kept, report=report)
    if kept is not None:
        kept.remove()
    return Results(tuple(Result(cell, done[cell.name]) for cell in cells))


def run_cell(order: Order, cell: Cell) -> Values:
    """One cell of an order, in this process or a worker."""
    with contextlib.redirect_stdout(sys.stderr):
        return measured(_opened(order.root, order.name), cell, order.seed)


def _timed_cell(order: Order, cell: Cell) -> tuple[Values, float]:
    """One cell, and the processor seconds of the process that ran it."""
    start = time.process_time()
    return run_cell(order, cell), time.process_time() - start


def kept_cells(order: Order, experiment: Experiment, store: Path) -> RowStore:
    """The finished cells of an order that was not ended."""
    return RowStore(store / _identity(order, experiment))


def measured(experiment: Experiment, cell: Cell, seed: int) -> Values:
    """One cell, by a generator that depends on the seed, the experiment and the cell alone.

    Errors: InvalidParameter for a result that is neither a number nor a list of numbers.
    """
    text = sha256(f"{experiment.name}\n{cell.name}".encode()).digest()
    key = tuple(int.from_bytes(text[k : k + 4], "big") for k in range(0, 16, 4))
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
    place = f"{experiment.name}: {cell.name}"
    values = experiment.run(cell, rng)
    return {name: _plain(value, f"{place}: {name}") for name, value in values.items()}


def distinct(cells: Sequence[Cell]) -> tuple[Cell, ...]:
    """The cells of a grid.

    Errors: InvalidParameter for none, or two with equal parameters.
    """
    names = [cell.name for cell in cells]
    if not names or len(set(names)) < len(names):
        twice = next((name for name in names if names.count(name) > 1), "no cell")
        raise InvalidParameter(f"cells: {twice}; expected distinct cells, at least one")
    return tuple(cells)


@lru_cache(maxsize=8)
def _opened(root: Path, name: str) -> Experiment:
    """The experiment, in this process or a worker."""
    return named(load(root, figures=True), name, root)


def _plain(value: object, place: str) -> int | float | list[int | float]:
    array = np.asarray(value)
    if array.dtype.kind not in "biuf" or array.ndim > 1:
        raise InvalidParameter(f"{place}: expected a number or a list of numbers")
    plain: int | float | list[int | float] = array.tolist()
    return plain


def _identity(order: Order, experiment: Experiment) -> str:
    """A digest of everything that a result depends on: an edit of other files leaves it."""
    content = {
        "experiment": order.name,
        "seed": f"{order.seed:032x}",
        "sources": sources_of(order.root, experiment),
        "dpaudit": __version__,
        "numpy": np.__version__,
    }
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]


def sources_of(root: Path, experiment: Experiment) -> str:
    """A digest of the module that defines an experiment, and of what it imports from the root."""
    module = sys.modules[experiment.run.__module__]
    packages = ("mechanisms", *roots.optional(root))
    laboratory = Path(__file__).parent
    files = [
        file
        for file in imported(root, [Path(str(module.__file__))], packages)
        if laboratory not in (root / file).resolve().parents
    ]
    return sha256(json.dumps(roots.digests(root, files), sort_keys=True).encode()).hexdigest()
