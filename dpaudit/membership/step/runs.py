"""The protocol of a training step, and how steps are repeated with noise of a chosen seed."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from dpaudit.errors import InvalidParameter, described
from dpaudit.membership.data import Array, Data, FloatArray

_MADE = 7  # seed of the training itself, where noise is seeded apart from it


class Training(Protocol):
    """A private training that can be asked for single steps.

    A function ``make(records, rng)`` gives a fresh one.  Two methods are optional: ``loader()``,
    the batches of an epoch, each ``(features, labels)`` or row numbers, and ``released()``, the
    noisy gradient of the last step, for optimisers whose update is not linear in it.
    """

    def parameters(self) -> Any:
        """All numbers that a step changes: an array, or arrays by name or in a list."""

    def step(self, features: Array, labels: Array | None) -> None:
        """One optimiser step on exactly these records, of which there may be none."""


Make = Callable[[Data, np.random.Generator], Training]


@dataclass(frozen=True, eq=False)
class Batch:
    """Records of one step; there may be none."""

    features: Array
    labels: Array | None

    def __len__(self) -> int:
        return len(self.features)

    def __add__(self, other: Batch) -> Batch:
        labels = None
        if self.labels is not None and other.labels is not None:
            labels = np.concatenate([self.labels, other.labels])
        return Batch(np.concatenate([self.features, other.features]), labels)

    def take(self, rows: Any) -> Batch:
        return Batch(self.features[rows], None if self.labels is None else self.labels[rows])

    @classmethod
    def of(cls, data: Data) -> Batch:
        return cls(data.features, data.labels)


@dataclass
class Runner:
    """Repeats steps of fresh trainings.

    ``remade``: a noise seed makes the training anew too; ``root``: all seeds stem from it.
    """

    make: Make
    records: Data
    remade: bool = False
    root: int = 0
    names: list[str] = field(default_factory=list)
    spans: list[slice] = field(default_factory=list)

    def fresh(self, seed: int, records: Data | None = None) -> Training:
        """A training whose noise is that of ``seed``.

        Errors: InvalidParameter where ``make`` gives no training.
        """
        noise = int(np.random.SeedSequence([self.root, seed]).generate_state(1)[0])
        rng = np.random.default_rng(noise if self.remade else _MADE)
        _seed_libraries(noise if self.remade else _MADE)
        built = self.make(self.records if records is None else records, rng)
        for name in ("parameters", "step"):
            if not callable(getattr(built, name, None)):
                raise InvalidParameter(
                    f"{described_function(self.make)}: returned {type(built).__name__}, which has "
                    f"no method {name}; return an object with parameters() and step(features, "
                    "labels)"
                )
        if not self.remade:
            rng.bit_generator.state = np.random.default_rng(noise).bit_generator.state
            _seed_libraries(noise)
        return built

    def observed(
        self, batches: Sequence[Batch], seed: int, records: Data | None = None
    ) -> FloatArray:
        """The release of every step, (steps, numbers): its noisy gradient, or its update."""
        training = self.fresh(seed, records)
        rows = []
        before: Any = 0.0  # an estimator has no parameters before its first step
        if any(True for _ in leaves(training.parameters())):
            before = self.flat(training.parameters())
        for batch in batches:
            training.step(batch.features, batch.labels)
            after = self.flat(training.parameters())
            released = getattr(training, "released", lambda: None)()
            rows.append(after - before if released is None else self.flat(released))
            before = after
        return np.stack(rows)

    def start(self, seed: int) -> FloatArray:
        """The parameters before the first step; none of an estimator that was not fitted."""
        given = self.fresh(seed).parameters()
        return self.flat(given) if any(True for _ in leaves(given)) else np.zeros(0)

    def shapes(self, seed: int) -> set[tuple[int, ...]]:
        """The shapes that gradients may have: those of parameters, flat, and of all together."""
        parts = [np.shape(value) for _, value in leaves(self.fresh(seed).parameters())]
        flat = {(int(np.prod(shape)),) for shape in parts}
        return {*parts, *flat, (sum(size for (size,) in flat),), (self.spans[-1].stop,)}

    def flat(self, given: Any) -> FloatArray:
        """All numbers in one row, in the order of ``names`` and ``spans``."""
        parts = [(name, np.array(value, dtype=np.float64).ravel()) for name, value in leaves(given)]
        if not parts:
            raise InvalidParameter("parameters(): it holds no numbers")
        ends = np.cumsum([0, *(part.size for _, part in parts)])
        if not self.names or ends[-1] != self.spans[-1].stop:
            self.names = [name for name, _ in parts]
            self.spans = [slice(a, b) for a, b in pairwise(ends.tolist())]
        return np.concatenate([part for _, part in parts])


def leaves(given: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The arrays of nested dictionaries, lists and tuples, with their names."""
    if isinstance(given, dict):
        for key in given:
            yield from leaves(given[key], f"{name}.{key}" if name else str(key))
    elif isinstance(given, list | tuple):
        for place, value in enumerate(given):
            yield from leaves(value, f"{name}[{place}]")
    elif hasattr(given, "detach"):
        yield name or "parameters", given.detach().double().cpu().numpy()
    elif given is not None:
        yield name or "parameters", given


def described_function(function: Any) -> str:
    """A function by its module and name."""
    named = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{getattr(function, '__module__', '')}:{named}"


def first_failure(run: Callable[[], Any], place: str) -> Any:
    """The value of ``run()``; an error of the program becomes one that names its line.

    Errors: InvalidParameter, without the error's text, which may quote data.
    """
    try:
        return run()
    except InvalidParameter:
        raise
    except Exception as error:
        raise InvalidParameter(f"{place}: {described(error)}") from error


def _seed_libraries(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 (a program may draw from it)
    torch = sys.modules.get("torch")
    if torch is not None:
        # torch.manual_seed formats a stack for each absent device, 3 ms a call.
        torch.random.default_generator.manual_seed(seed)
        if torch.cuda.is_available():
            torch.cuda.manual_seed_all(seed)


def rows_of(batch: Any) -> Array:
    """The first part of a loader's batch as an array: features, or row numbers."""
    part: Any = batch
    if isinstance(batch, dict):
        part = next(iter(batch.values()))
    elif isinstance(batch, tuple | list) and not np.isscalar(next(iter(batch), 0)):
        part = next(iter(batch), [])
    part = getattr(part, "features", part)
    if hasattr(part, "detach"):
        part = part.detach().cpu().numpy()
    return np.asarray(part)


def batches_of(training: Training) -> Iterable[Any] | None:
    """The batches of one epoch; None where the training has no loader."""
    loader = getattr(training, "loader", None)
    if loader is None:
        return None
    batches: Iterable[Any] | None = loader() if callable(loader) else loader
    return batches
