"""Curators: the only holders of records.

A program hands a curator queries and gets releases.  :class:`Sampler` answers from the data with
the declared noise; :class:`Tracer` answers from public placeholder rows without noise; the
replayer (``replayer.py``) answers from a transcript and accumulates declared densities.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpaudit.entitlement import Entitlements, Grant, Mask
from dpaudit.errors import Diverged, InvalidParameter, Undeclared
from dpaudit.kernels import Session
from dpaudit.nodes import Node, PoissonSampled
from dpaudit.query import Array, Query, Records
from dpaudit.scope import Adjacency, Scope

Generator = np.random.Generator


class Program(Protocol):
    """A private algorithm: holds no record, draws no noise."""

    def declaration(self, scope: Scope) -> Node:
        """The noise of every release, normalised by the sensitivity under the scope."""

    def run(self, curator: Curator) -> Any:
        """Run on a curator; every array leads with the trials axis."""


@dataclass(frozen=True, eq=False)
class Event:
    """One entry of a transcript: a release (with the trials that were on), or a public coin."""

    label: str
    released: Array
    on: Mask


Transcript = Sequence[Event]


@dataclass(frozen=True)
class Part:
    """A public block of rows: part ``index`` of a partition into contiguous blocks."""

    index: int
    start: int
    stop: int


@dataclass(eq=False)
class Batch:
    """A secret random batch, valid inside one step; ``draws`` never leave the curator."""

    sampling: Node
    draws: list[Mask] = field(repr=False)
    log_densities: Array | None = field(default=None, repr=False)


@dataclass(frozen=True, eq=False)
class Request:
    """One release that passed every check: what to evaluate, and the noise it must carry."""

    label: str
    query: Query
    rows: Part | Batch | None
    session: Session
    scale: Array
    sensitivity: Array
    mask: Mask

    @property
    def first_draw(self) -> Mask | None:
        """The secret batch of a curator that draws one; None on all rows or a part."""
        return self.rows.draws[0] if isinstance(self.rows, Batch) else None


class Curator(ABC):
    """What the three curators share: the declaration's entitlements and the checks before data."""

    def __init__(self, declaration: Node, scope: Scope, records: Records, trials: int) -> None:
        if trials < 1:
            raise InvalidParameter(f"trials = {trials}: expected at least 1")
        self.scope = scope
        self.trials = trials
        self.entitlements = Entitlements(declaration, trials)
        self._records = records
        self._sizes: tuple[int, ...] | None = None
        self._sessions: dict[str, Session] = {}
        self._open: Batch | None = None

    def part(self, index: int, sizes: Sequence[int]) -> Part:
        """Part ``index`` of the partition into blocks of these public sizes, the same all run.

        Errors: InvalidParameter under add_remove (blocks by position move when a record is added),
        for sizes that do not sum to the number of records, or that change during a run.
        """
        if self.scope.adjacency is Adjacency.ADD_REMOVE:
            raise InvalidParameter("parts by position have no meaning under add_remove")
        sizes = tuple(int(s) for s in sizes)
        if self._sizes not in (None, sizes) or sum(sizes) != len(self._records):
            raise InvalidParameter(
                f"part({index}): sizes {sizes[:8]} must sum to the {len(self._records)} records "
                "and stay the same during a run"
            )
        if not 0 <= index < len(sizes) or min(sizes) < 1:
            raise InvalidParameter(f"part({index}) of {len(sizes)}: no such part, or an empty one")
        self._sizes = sizes
        return Part(index, sum(sizes[:index]), sum(sizes[: index + 1]))

    def release(
        self,
        label: str,
        query: Query,
        *,
        on: Mask | None = None,
        rows: Part | Batch | None = None,
    ) -> Array:
        """The query's value with the noise declared under ``label``, shape (trials, d).

        ``on`` (trials,) is public: trials that are off hold NaN and are not charged.
        Errors, all before data is touched: Undeclared for a release that was not declared or is
        used up; InvalidParameter for a norm or a sensitivity that does not fit.
        """
        mask = self._mask(on)
        if not mask.any():
            raise Undeclared(f"release {label!r}: no trial is on; end the loop instead")
        part = rows.index if isinstance(rows, Part) else None
        sampling = self._sampling(rows)
        grant = self.entitlements.grant(label, mask, part, sampling)
        scale, sensitivity = self._scale(label, query, grant, rows, mask)
        session = self._session(label, grant, mask)
        released = self._answer(Request(label, query, rows, session, scale, sensitivity, mask))
        self.entitlements.spend(grant, mask)
        return released

    @abstractmethod
    def coin(self, draw: Callable[[Generator], Any]) -> Array:
        """A public random value, independent of the data; recorded and replayed verbatim."""

    @contextmanager
    def batch(self, label: str) -> Iterator[Batch]:
        """A secret batch for the releases of one step, drawn as declared above ``label``."""
        if self._open is not None:
            raise InvalidParameter("a batch is open already: one step, one batch")
        sampling = self.entitlements.sampling_of(label)
        self._open = Batch(sampling, self._draw(sampling))
        try:
            yield self._open
            self._close(self._open)
        finally:
            self._open = None

    @abstractmethod
    def _draw(self, sampling: Node) -> list[Mask]:
        """Draw the batch of one step (or several, to average over)."""

    @abstractmethod
    def _answer(self, request: Request) -> Array:
        """The release; everything that can be refused has been."""

    def _close(self, batch: Batch) -> None:  # noqa: B027  (most curators have nothing to close)
        """Called when a step ends without an error."""

    def _mask(self, on: Mask | None) -> Mask:
        if on is None:
            return np.ones(self.trials, dtype=bool)
        if np.shape(on) != (self.trials,) or np.asarray(on).dtype != bool:
            raise InvalidParameter(f"on: expected {self.trials} truth values, one a trial")
        return np.asarray(on)

    def _sampling(self, rows: Part | Batch | None) -> Node | None:
        if not isinstance(rows, Batch):
            return None
        if rows is not self._open:
            raise Undeclared("a batch is valid only inside the step that drew it")
        return rows.sampling

    def _scale(
        self, label: str, query: Query, grant: Grant, rows: Part | Batch | None, mask: Mask
    ) -> tuple[Array, Array]:
        kernel = grant.entitlement.kernel
        if query.norm != kernel.norm:
            raise InvalidParameter(
                f"release {label!r}: {kernel.__name__} needs a query bounded in {kernel.norm}, "
                f"not {query.norm}"
            )
        size = rows.stop - rows.start if isinstance(rows, Part) else len(self._records)
        bound = np.asarray(query.sensitivity(self.scope.adjacency, size), dtype=np.float64)
        sensitivity = np.broadcast_to(bound, (self.trials,))
        if not (np.isfinite(sensitivity[mask]).all() and (sensitivity[mask] >= 0).all()):
            raise InvalidParameter(f"release {label!r}: its sensitivity is not a finite number")
        return np.where(mask, grant.multipliers * sensitivity, 1.0), sensitivity

    def _session(self, label: str, grant: Grant, mask: Mask) -> Session:
        kernel = grant.entitlement.kernel
        if kernel.releases(grant.leaf) > 1 and (grant.sampling or not mask.all()):
            raise InvalidParameter(
                f"release {label!r}: a kernel with memory needs every trial on, and all rows"
            )
        if label not in self._sessions or grant.first_use:
            self._sessions[label] = self._open_session(grant)
        return self._sessions[label]

    def _open_session(self, grant: Grant) -> Session:
        session: Session = grant.entitlement.kernel(grant.leaf, self.trials)  # type: ignore[assignment]
        return session

    def _value(self, request: Request, chosen: Mask | None = None) -> Array:
        part = request.rows if isinstance(request.rows, Part) else None
        records = self._records if part is None else self._part_records(part)
        value = np.asarray(request.query.value(records, chosen), dtype=np.float64)
        if value.ndim != 2 or value.shape[0] not in (1, self.trials):
            raise InvalidParameter(
                f"a query returned shape {value.shape}: expected ({self.trials}, d)"
            )
        return np.broadcast_to(value, (self.trials, value.shape[1]))

    def _part_records(self, part: Part) -> Records:
        blocks = self.__dict__.setdefault("_blocks", {})
        if part not in blocks:
            blocks[part] = self._records.rows(part.start, part.stop)
        block: Records = blocks[part]
        return block


def draw_batch(sampling: Any, trials: int, size: int, rng: Generator) -> Mask:
    """Membership of each record in each trial's batch, shape (trials, size)."""
    if isinstance(sampling, PoissonSampled):
        return rng.random((trials, size)) < float(sampling.rate)
    if int(sampling.population) != size:
        raise InvalidParameter(f"{sampling.head}: declared for another number of records")
    chosen = np.zeros((trials, size), dtype=bool)
    order = np.argpartition(rng.random((trials, size)), int(sampling.batch_size) - 1, axis=1)
    np.put_along_axis(chosen, order[:, : int(sampling.batch_size)], True, axis=1)
    return chosen


class Sampler(Curator):
    """Answers from the data, with exactly the declared noise.

    ``rng``: seeded for audits and tests, the operating system's entropy for releases.
    ``kernels`` replaces kernels by leaf type: only audits of wrong implementations do that.
    """

    def __init__(
        self,
        declaration: Node,
        scope: Scope,
        records: Records,
        *,
        rng: Generator,
        trials: int = 1,
        kernels: Mapping[type[Node], type[Any]] | None = None,
    ) -> None:
        super().__init__(declaration, scope, records, trials)
        self._rng = rng
        self._kernels = dict(kernels or {})
        self.transcript: list[Event] = []

    def coin(self, draw: Callable[[Generator], Any]) -> Array:
        value = np.asarray(draw(self._rng))
        self.transcript.append(Event("coin", value, self._mask(None)))
        return value

    def _draw(self, sampling: Node) -> list[Mask]:
        return [draw_batch(sampling, self.trials, len(self._records), self._rng)]

    def _open_session(self, grant: Grant) -> Session:
        kernel = self._kernels.get(type(grant.leaf), grant.entitlement.kernel)
        session: Session = kernel(grant.leaf, self.trials)
        return session

    def _answer(self, request: Request) -> Array:
        value = self._value(request, request.first_draw)
        released = request.session.sample(value, request.scale, self._rng)
        released = np.where(request.mask[:, None], released, np.nan)
        released.flags.writeable = False
        self.transcript.append(Event(request.label, released, request.mask))
        return released


class Tracer(Curator):
    """Answers from public placeholder rows without noise; ``trace`` lists what was asked."""

    def __init__(self, declaration: Node, scope: Scope, placeholder: Records) -> None:
        super().__init__(declaration, scope, placeholder, 1)
        self._rng = np.random.default_rng(0)
        self.trace: list[tuple[str, float, float]] = []

    def coin(self, draw: Callable[[Generator], Any]) -> Array:
        return np.asarray(draw(self._rng))

    def _draw(self, sampling: Node) -> list[Mask]:
        return [draw_batch(sampling, 1, len(self._records), self._rng)]

    def _answer(self, request: Request) -> Array:
        row = (request.label, float(request.sensitivity[0]), float(request.scale[0]))
        self.trace.append(row)
        return self._value(request, request.first_draw)


def system_generator() -> Generator:
    """PCG64-DXSM seeded with 256 bits of the operating system's entropy."""
    import secrets

    return np.random.Generator(np.random.PCG64DXSM(secrets.randbits(256)))
