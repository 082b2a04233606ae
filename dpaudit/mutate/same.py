"""Compare a mutant with the right program on equal draws and many data sets.

Every query value, answer and output is compared, so that even differences without effect on privacy
show.  A mutant without any difference is no bug, or a bug only on records that were not generated;
it is counted apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from dpaudit.audit.engine import generator
from dpaudit.audit.examine.made import rows_of, worlds_of
from dpaudit.audit.examine.shapes import Shape
from dpaudit.audit.examine.study import Louder
from dpaudit.curator.curator import Request
from dpaudit.curator.mechanism import Mechanism
from dpaudit.errors import DpauditError
from dpaudit.kernels.query import Array, Records

TRACE_STREAM = 0x736D  # Number of the random stream, used by no other draws of the seed.
NOISE_FACTORS = (1.0, 30.0)  # Factors on the noise of a run: ordinary, and far in the tails.
MAX_RELEASES = 200  # Releases of a run that are traced.
MAX_PROBES = 4  # Probes of one release.
NOTED_NUMBERS = 64  # Numbers of an array that are noted.
MAX_NUMBERS = 20_000_000  # Numbers read for the probes of one run.
TRACE_ROUNDING = 1e-9  # Differences below this share of the largest number count as rounding.
Trace = list[list[float]]


class _Traced(Louder):
    """A curator that notes each query's value, its answer, and its value on other records."""

    def __init__(self, *arguments: Any, rows: Mapping[str, Array], **options: Any) -> None:
        self.rows = list(rows.values())
        self.noted: Trace = []
        self.read = 0
        super().__init__(*arguments, **options)

    def _answer(self, request: Request) -> Array:
        released = super()._answer(request)
        if len(self.asked) <= MAX_RELEASES:
            # In units of the noise, because differences far below it are rounding.
            unit = np.where(request.scale > 0, request.scale, 1.0)[:, None]
            with np.errstate(all="ignore"):
                self.noted += [[1.0, *_short(a / unit)] for a in (self._latest, released)]
            self.noted.append(_short(request.scale))
            for records in self._probes(request.records):
                try:
                    value = self._value(request, request.first_draw, records)
                    with np.errstate(all="ignore"):
                        self.noted.append([1.0, *_short(value / unit)])
                except Exception as error:  # noqa: BLE001  (a mutant may fail in any way)
                    self.noted.append(_text(error))
        return released

    def _probes(self, records: Records) -> Iterator[Records]:
        for k in range(MAX_PROBES):
            self.read += records.values.size
            if self.read > MAX_NUMBERS:
                return
            number = MAX_PROBES * len(self.asked) + k
            values = records.values.copy()
            values[(number * 7919) % len(values)] = self.rows[number % len(self.rows)]
            yield Records(values, records.present)


def trace(mechanism: Mechanism, shape: Shape, seed: int) -> list[Trace]:
    """The notes of a program's runs on every generated data set, with draws from ``seed``."""
    rng = np.random.default_rng(seed)
    rows, traces = rows_of(shape, rng), []
    for number, world in enumerate(worlds_of(shape, rng)):
        for far in NOISE_FACTORS:
            sampler = _Traced(
                mechanism.declaration,
                mechanism.scope,
                world.records(),
                rng=generator(seed, (TRACE_STREAM, number)),
                rows=rows,
                far=far,
            )
            try:
                with np.errstate(all="ignore"):
                    output = mechanism.program.run(sampler)
                traces.append([*sampler.noted, *map(_short, _arrays(output))])
            except Exception as error:  # noqa: BLE001  (a mutant may fail in any way)
                traces.append([*sampler.noted, _text(error)])
    return traces


def same(one: Sequence[Trace], two: Sequence[Trace]) -> bool:
    """Whether the notes of two programs agree, up to rounding, in every run."""
    runs = zip(one, two, strict=True)
    return all(len(a) == len(b) and all(map(_close, a, b)) for a, b in runs)


def _close(a: Sequence[float], b: Sequence[float]) -> bool:
    if len(a) != len(b):
        return False
    first, two = np.array(a, dtype=np.float64), np.array(b, dtype=np.float64)
    size = max(
        (float(np.abs(v[np.isfinite(v)]).max(initial=0.0)) for v in (first, two)), default=0.0
    )
    return bool(np.allclose(first, two, rtol=0.0, atol=TRACE_ROUNDING * size, equal_nan=True))


def _short(array: Any) -> list[float]:
    flat = np.asarray(array, dtype=np.float64).ravel()
    if len(flat) <= NOTED_NUMBERS:
        return [float(v) for v in flat]
    weights = np.cos(np.arange(len(flat)))
    return [*(float(v) for v in flat[:NOTED_NUMBERS]), float(np.nan_to_num(flat) @ weights)]


def _text(error: Exception) -> list[float]:
    message = str(error) if isinstance(error, DpauditError) else ""
    return [float(byte) for byte in f"{type(error).__name__} {message}".encode()]


def _arrays(output: Any) -> Iterator[Array]:
    """The numeric arrays inside an output of any type."""
    if isinstance(output, (np.ndarray, bool, int, float, np.generic)):
        array = np.asarray(output)
        if array.dtype.kind in "fiub":
            yield array
        return
    if is_dataclass(output):
        inner: Any = [getattr(output, field.name) for field in fields(output)]
    elif isinstance(output, (list, tuple)):
        inner = output
    else:
        inner = (
            output if isinstance(output, Mapping) else getattr(output, "__dict__", {})
        ).values()
    for value in inner:
        yield from _arrays(value)
