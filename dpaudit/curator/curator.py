"""Curators: the only holders of records.

A program hands a curator queries and gets releases.  :class:`Sampler` answers from the data with
the declared noise; :class:`Tracer` answers from public placeholder rows without noise; the
replayer (``replayer.py``) answers from a transcript and accumulates declared densities.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from itertools import accumulate
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpaudit.accountant.filters.spending import chosen_multipliers
from dpaudit.curator.coins import public_value
from dpaudit.curator.entitlement import PUBLIC_COIN, Entitlements, Grant, Mask
from dpaudit.curator.locations import at, program_line
from dpaudit.curator.scales import require_neutral, scaled
from dpaudit.errors import Dependent, Diverged, InvalidParameter, Undeclared
from dpaudit.kernels.base import Search, Session
from dpaudit.kernels.batches import Places, batches_of, in_slot
from dpaudit.kernels.query import Array, Query, Records, as_numbers
from dpaudit.nodes import Node
from dpaudit.scope import Adjacency, Scope, Trust

Generator = np.random.Generator


class Program(Protocol):
    """A private algorithm: holds no record, draws no noise.

    >>> import dpaudit as dp
    >>> class Count:
    ...     def declaration(self, scope: dp.Scope) -> dp.Node:
    ...         return dp.Laplace("count", noise_multiplier=1)
    ...
    ...     def run(self, curator: dp.Curator):
    ...         return curator.release("count", dp.ClippedMean(lambda v: v[None], 1, divisor=1))
    >>> Count().declaration(dp.central("add_remove"))
    Laplace('count', noise_multiplier=1)
    """

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
OneRun = Callable[["Curator"], tuple[Any, Array]]


@dataclass(frozen=True)
class Part:
    """A public block of rows: part ``index`` of a partition into contiguous blocks."""

    index: int
    start: int
    stop: int


@dataclass(frozen=True, eq=False)
class Batch:
    """Handle of a secret random batch, valid inside one step; who is in it stays in the curator.

    ``part``: the public block of rows that it is drawn from; None for all rows.  ``index``: which
    of the declared batches it is, from 0.
    """

    sampling: Node
    part: Part | None = None
    index: int = 0

    @property
    def slot(self) -> int:
        """Which batch of its pass it is; batches that come again are the same."""
        return batches_of(self.sampling).slot(self.index)

    @property
    def opens(self) -> bool:
        """Whether it is the first of a pass: the batches of a pass are drawn together."""
        return self.index % batches_of(self.sampling).length == 0

    @property
    def closes(self) -> bool:
        """Whether it is the last of a pass."""
        return (self.index + 1) % batches_of(self.sampling).length == 0

    @property
    def key(self) -> tuple[Node, Part | None]:
        """The sampling, and the rows that it draws from."""
        return self.sampling, self.part


@dataclass(frozen=True, eq=False)
class Request:
    """One release that passed every check: what to evaluate, and the noise it must carry.

    ``draws``: the secret batch (or several, to average over); empty on all rows or a part.
    """

    label: str
    query: Query
    records: Records
    draws: Sequence[Mask]
    session: Session
    scale: Array
    sensitivity: Array
    mask: Mask

    @property
    def first_draw(self) -> Mask | None:
        """The secret batch of a curator that draws one; None on all rows or a part."""
        return self.draws[0] if self.draws else None


class Curator(ABC):
    """The base of the three curators: the declaration's entitlements and the checks before data.

    >>> import dpaudit as dp
    >>> issubclass(dp.Sampler, dp.Curator)
    True
    """

    independent = False  # whether an audit counts this curator's trials one by one

    def __init__(self, declaration: Node, scope: Scope, records: Records, trials: int) -> None:
        if not hasattr(trials, "__index__") or trials < 1:
            raise InvalidParameter(f"trials = {trials}: expected a whole number, at least 1")
        self.scope = scope
        self.trials = trials
        self.entitlements = Entitlements(declaration, trials)
        self._records = records
        self._order: NDArray[np.intp] | None = None
        self._sizes: tuple[int, ...] | None = None
        self._divided_as: Sequence[int] | None = None
        self._ends: tuple[int, ...] = (0,)
        self._parts: dict[Part, Records] = {}
        self._sessions: dict[str, Session] = {}
        self._open: Batch | None = None
        self._latent: Sequence[Mask] = ()
        self._passes: dict[tuple[Node, Part | None], Places] = {}
        self._searching = False
        self._found: Mask | None = None
        self._users: dict[str, tuple[int, int]] = {}
        self._evaluating = False
        for sampling in self.entitlements.samplings():
            self._check_population(sampling, len(records))

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Errors: Undeclared: a copy would hold the records, and could release all over again."""
        raise Undeclared(
            f"the curator holds the records: it is neither copied nor saved{at(program_line())}; "
            "keep what was released"
        )

    def _require_turn(self) -> None:
        """Called before anything is asked of the records, or drawn.

        Two releases at once could both be checked before either is charged, and their order would
        be chance.  Queries asked inside a query could depend on the records.
        Errors: Undeclared in another thread or process than the first, or inside a query.
        """
        caller = os.getpid(), threading.get_ident()
        if self._users.setdefault("first", caller) != caller:
            raise Undeclared(
                f"the curator is used by a second thread or process{at(program_line())}; ask for "
                "releases one after the other, where the first was asked for"
            )
        if self._evaluating:
            raise Undeclared(
                f"a query uses the curator while it is evaluated{at(program_line())}; a query is a "
                "function of its rows alone: ask for the release before, and close over its value"
            )

    @contextmanager
    def _evaluated(self) -> Iterator[None]:
        """While the program's own function runs on records, or draws a coin."""
        self._evaluating = True
        try:
            yield
        finally:
            self._evaluating = False

    def permute(self) -> Array:
        """Put the records in a public random order; from now on parts are blocks of it.

        The order is a public coin, (1, records): uniform, independent of the data, recorded, and
        the same in all trials of a run, which it makes dependent on one another: an audit runs one
        trial at a time.
        Errors: InvalidParameter under add_remove, a second time, or after a part or release was
        asked for; Dependent where the curator's trials have to be independent.
        """
        self._require_turn()
        if self.scope.adjacency is Adjacency.ADD_REMOVE:
            raise InvalidParameter(
                "permute: under add_remove an order would show how many records there are; "
                "leave it out"
            )
        if self._order is not None or self._parts or self._sessions:
            raise InvalidParameter("permute: call it once, before the first part or release")
        if self.independent and self.trials > 1:
            raise Dependent(
                f"permute: {self.trials} trials would share one order; use a curator of one trial"
            )
        size = len(self._records)
        drawn = self.coin(lambda rng: rng.permutation(size)[None])
        if drawn.shape != (1, size) or (np.sort(drawn[0]) != np.arange(size)).any():
            raise InvalidParameter(f"permute: what was recorded is no order of {size} records")
        self._order = drawn[0].astype(np.intp)
        self._records = self._records.in_order(self._order)
        return drawn

    def place_of(self, row: int) -> int:
        """Where a row of the data set stands in the order of this run."""
        return row if self._order is None else int(np.flatnonzero(self._order == row)[0])

    def part(self, index: int, sizes: Sequence[int]) -> Part:
        """Part ``index`` of the partition into blocks of these public sizes, the same all run.

        Blocks of the records as they are, or of the public order that :meth:`permute` drew.

        Errors: InvalidParameter under add_remove (blocks by position move when a record is added),
        for sizes that do not sum to the number of records, or that change during a run.
        """
        if self.scope.adjacency is Adjacency.ADD_REMOVE:
            raise InvalidParameter(
                "part: under add_remove a record that comes or goes shifts all positions"
            )
        # The same tuple was looked at before: thousands of parts would be gone through each time.
        if not (isinstance(sizes, tuple) and sizes is self._divided_as):
            self._divide(index, sizes)
        if not 0 <= index < len(self._ends) - 1:
            raise InvalidParameter(f"part({index}) of {len(sizes)}: no such part")
        part = Part(index, self._ends[index], self._ends[index + 1])
        if part not in self._parts:
            self._parts[part] = self._records.rows(part.start, part.stop)
        return part

    def _divide(self, index: int, given: Sequence[int]) -> None:
        sizes = tuple(int(s) for s in given)
        if self._sizes not in (None, sizes) or sum(sizes) != len(self._records):
            raise InvalidParameter(
                f"part({index}): sizes {sizes[:8]} must sum to the {len(self._records)} records "
                "and stay the same during a run"
            )
        if not sizes or min(sizes) < 1:
            raise InvalidParameter(f"part({index}) of {len(sizes)}: it is empty; leave it out")
        self._sizes, self._divided_as, self._ends = sizes, given, (0, *accumulate(sizes))

    def release(
        self,
        label: str,
        query: Query,
        *,
        on: Mask | None = None,
        rows: Part | Batch | None = None,
        noise_multiplier: Any = None,
    ) -> Array:
        """The query's value with the noise declared under ``label``, shape (trials, d).

        ``on`` (trials,) is public: trials that are off hold NaN and are not charged.
        ``noise_multiplier`` (trials,), or a number: under a Filter and only there; public too.
        Errors, all before data is touched and with nothing spent: Undeclared for a release that
        was not declared, is used up or passes its cap; InvalidParameter for a norm, a shape or a
        sensitivity that does not fit.  A query that fails on the data is charged, and says no more
        than that.
        """
        self._require_turn()
        mask = self._mask(on)
        if not mask.any() and self._found is None:
            raise Undeclared(f"release {label!r}: no trial is on; end the loop instead")
        records, draws = self._rows(rows)
        if self.scope.trust is Trust.LOCAL and (draws or len(records) != 1):
            raise InvalidParameter(
                f"release {label!r}: in the local model a report is of one {self.scope.unit}'s "
                f"records alone; ask for a part of one, not of {len(records)}"
            )
        block = rows.part if isinstance(rows, Batch) else rows
        part = None if block is None else block.index
        sampling = rows.sampling if isinstance(rows, Batch) else None
        multipliers = noise_multiplier
        chosen = (
            None if multipliers is None else chosen_multipliers(multipliers, self.trials, label)
        )
        grant = self.entitlements.grant(label, mask, part, sampling, chosen)
        session = self._session(label, grant, mask)
        size, hidden = len(records), self._hidden()
        require_neutral(label, query, sampling, self.scope, size)
        query = session.prepared(query, self.scope.adjacency, size, hidden)
        scale, sensitivity = scaled(label, query, grant, (self.scope, size), mask)
        request = Request(label, query, records, draws, session, scale, sensitivity, mask)
        with self._evaluated():
            self._rehearse(request)
            self.entitlements.spend(grant, mask)
            return self._answer(request)

    def admits(self, label: str, noise_multiplier: Any, *, on: Mask | None = None) -> Mask:
        """The trials that are on in which a release with this noise would fit its filter's cap.

        Nothing is spent.  Errors: Undeclared or InvalidParameter for a label under no Filter.
        """
        chosen = chosen_multipliers(noise_multiplier, self.trials, label)
        return self.entitlements.admits(label, chosen, self._mask(on))

    def best_of(self, label: str, run: OneRun) -> tuple[Any, Mask]:
        """The output of the best of a random number of runs, and the trials that made any.

        A search declared as :class:`~dpaudit.families.tuning.Tuned` over what one run releases, of
        which ``label`` is the first.  ``run(curator)`` makes one on the curator that it is given,
        from the start, its settings drawn as its public coins, and gives its output and its score,
        (trials,); the largest is best.  Nothing of another run is shown, nor how many there were:
        whatever a run keeps outside of its output is a leak, which audits compare.
        Where a trial makes no run its releases are NaN.
        Errors: Undeclared for a label under no search, or one that is spent; InvalidParameter
        inside a batch, or for runs of which one releases something else than another.
        """
        self._require_turn()
        if self._open is not None:
            raise InvalidParameter(
                f"best_of({label!r}): a search cannot run inside a batch; move it before or after"
            )
        mask = self._mask(None)
        grant = self.entitlements.grant(label, mask, None, None, search=True)
        session: Any = self._open_session(grant)
        self.entitlements.spend(grant, mask)
        return self._best_of(label, session, run)

    def _best_of(self, label: str, session: Search, run: OneRun) -> tuple[Any, Mask]:
        """Run the best run only, as a replay does: the transcript holds its releases."""
        has_run = self._any_run() if session.may_find_none else np.ones(self.trials, dtype=bool)
        with self._inside(session.leaf.child, has_run if session.may_find_none else None):
            output, _ = run(self)
        return output, has_run

    def _any_run(self) -> Mask:
        """The trials in which a search made a run: a coin, which no record moves."""
        return np.ones(self.trials, dtype=bool)

    @contextmanager
    def _inside(self, declaration: Node, has_run: Mask | None) -> Iterator[None]:
        """One run of a search: what it releases is declared by itself."""
        before = self.entitlements, self._sessions, self._passes, self._searching, self._found
        self.entitlements = Entitlements(declaration, self.trials)
        for sampling in self.entitlements.samplings():
            self._check_population(sampling, len(self._records))
        self._sessions, self._passes, self._searching, self._found = {}, {}, True, has_run
        try:
            yield
        finally:
            self.entitlements, self._sessions, self._passes, self._searching, self._found = before

    @abstractmethod
    def coin(self, draw: Callable[[Generator], Any]) -> Array:
        """A public random value, independent of the data; recorded and replayed verbatim.

        It leads with the axis of trials; of another shape it is the same in all trials of a run,
        which it makes dependent on one another: an audit runs one trial at a time.
        Errors: Dependent where the curator's trials have to be independent.
        """

    @contextmanager
    def batch(self, label: str, rows: Part | None = None) -> Iterator[Batch]:
        """A secret batch for the releases of one step, drawn as declared above ``label``.

        Batches that are drawn together (a shuffled order, slots of an allocation) come one after
        the other, and so do the blocks of a public order.
        ``rows``: the part of the records it is drawn from; all of them by default.
        Errors: Undeclared where ``label`` has no sampling, or on other rows, or its declared
        batches were all drawn; InvalidParameter inside another batch, or for a part of another
        size than was declared.
        """
        self._require_turn()
        if self._open is not None:
            raise InvalidParameter("a batch is open already; end its step before drawing the next")
        records, _ = self._rows(rows)
        part = None if rows is None else rows.index
        self._check_population(self.entitlements.sampling_of(label, part), len(records))
        sampling, index = self.entitlements.open_batch(label, part)
        self._open = Batch(sampling, rows, index)
        try:
            self._latent = self._draw(sampling, len(records))
            yield self._open
            self._close()
        finally:
            self._open, self._latent = None, ()

    @abstractmethod
    def _draw(self, sampling: Node, size: int) -> list[Mask]:
        """Draw the batch of one step from ``size`` rows (or several, to average over)."""

    def _next_batch(self, trials: int, size: int, rng: Generator) -> list[Mask]:
        """The batch that is open, of a pass that is drawn where its first batch is."""
        batch = self._open
        assert batch is not None  # noqa: S101  (a batch is drawn where it is opened)
        if batch.opens:
            self._passes[batch.key] = batches_of(batch.sampling).assign(trials, size, rng)
        return [in_slot(self._passes[batch.key], batch.slot)]

    def _hidden(self) -> Generator | None:
        """Whom a kernel asks for noise that no release shows; None where it is fixed."""
        return None

    @abstractmethod
    def _answer(self, request: Request) -> Array:
        """The release; everything that can be refused has been."""

    def _close(self) -> None:  # noqa: B027  (most curators have nothing to close)
        """Called when a step ends without an error."""

    def _rehearse(self, request: Request) -> None:  # noqa: B027  (audits show the error itself)
        """Called before data is touched."""

    def _mask(self, on: Mask | None) -> Mask:
        mask = np.ones(self.trials, dtype=bool) if on is None else np.array(on)
        if mask.shape != (self.trials,) or mask.dtype != bool:
            raise InvalidParameter(f"on: expected {self.trials} truth values, one a trial")
        if self._found is not None:
            mask &= self._found
        mask.flags.writeable = False
        return mask

    def _rows(self, rows: Part | Batch | None) -> tuple[Records, Sequence[Mask]]:
        if rows is None:
            return self._records, ()
        if isinstance(rows, Batch):
            if rows is not self._open:
                raise Undeclared("a batch is valid only inside the step that drew it")
            return self._block(rows.part), self._latent
        return self._block(rows), ()

    def _block(self, part: Part | None) -> Records:
        if part is None:
            return self._records
        if part not in self._parts:
            raise Undeclared("rows: expected a part or a batch that this curator gave")
        return self._parts[part]

    def _check_population(self, sampling: Node, size: int) -> None:
        batches_of(sampling).check(size, self.scope.adjacency)

    def _session(self, label: str, grant: Grant, mask: Mask) -> Session:
        kernel = grant.entitlement.kernel
        secret = grant.sampling is not None and not grant.entitlement.within_use
        if kernel.memory and (secret or not mask.all()):
            raise InvalidParameter(
                f"release {label!r}: a kernel with memory needs every trial on, and no secret batch"
            )
        if label not in self._sessions or (kernel.memory and grant.first_use):
            self._sessions[label] = self._open_session(grant)
        return self._sessions[label]

    def _open_session(self, grant: Grant) -> Session:
        session: Session = grant.entitlement.kernel(grant.leaf, self.trials)  # type: ignore[assignment]
        return session

    def _value(
        self, request: Request, chosen: Mask | None = None, records: Records | None = None
    ) -> Array:
        """The noise-free value, shape (trials, d); a record can cause no warning."""
        if chosen is not None:
            chosen = np.broadcast_to(chosen, (self.trials, chosen.shape[1]))
        with np.errstate(all="ignore"):
            raw = request.query.value(records or request.records, chosen)
        kind = type(request.query).__name__
        value = as_numbers(raw, f"release {request.label!r}: its query, {kind},")
        if value.ndim != 2 or value.shape[0] not in (1, self.trials):
            raise InvalidParameter(
                f"release {request.label!r}: its query has shape {value.shape}; "
                f"expected ({self.trials}, d)"
            )
        return np.broadcast_to(value, (self.trials, value.shape[1]))


class Sampler(Curator):
    """Answers from the data, with exactly the declared noise.

    ``rng``: seeded for audits and tests, the operating system's entropy for releases.  Public
    coins come from a generator of their own: who draws them learns nothing of the noise's.
    ``kernels`` replaces kernels by leaf type, and the draw of batches by the type of sampling (by a
    class whose ``draw(size, rng)`` gives membership): only audits of wrong implementations do that.

    >>> import dpaudit as dp, numpy as np
    >>> rows = dp.ClippedMean(lambda values: values[None], radius=1, divisor=1, norm="l1")
    >>> declared, scope = dp.Laplace("count", 1), dp.central("add_remove")
    >>> data, rng = dp.Records([[1.0], [1.0]]), np.random.default_rng(1)
    >>> curator = dp.Sampler(declared, scope, data, rng=rng)
    >>> curator.release("count", rows).shape
    (1, 1)
    >>> try:
    ...     curator.release("count", rows)
    ... except dp.DpauditError as error:
    ...     print(error)
    release 'count': all 1 declared uses are spent; declare more
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
        seed = int.from_bytes(sha256(rng.bytes(32)).digest(), "big")
        self._public = np.random.default_rng(seed)
        self._kernels = dict(kernels or {})
        self._drawers: dict[Node, Any] = {}
        self._dimensions: dict[str, int] = {}
        self.transcript: list[Event] = []

    def coin(self, draw: Callable[[Generator], Any]) -> Array:
        self._require_turn()
        with self._evaluated():
            value = public_value(draw(self._public))
        if self.independent and self.trials > 1 and value.shape[:1] != (self.trials,):
            raise Dependent(f"coin: {self.trials} trials would share one of shape {value.shape}")
        self.transcript.append(Event(PUBLIC_COIN, value, self._mask(None)))
        return value

    def _hidden(self) -> Generator | None:
        return self._rng

    def _best_of(self, label: str, session: Search, run: OneRun) -> tuple[Any, Mask]:
        """All runs in turn, in all trials; the best one's releases are the transcript's.

        Its output is made anew, from what it released alone.
        """
        numbers, start = session.numbers(self._rng), len(self.transcript)
        self._drawn_runs(label, session, numbers)
        best, highest = Best(self.trials), np.full(self.trials, -np.inf)
        for k in range(1, max(1, int(numbers.max())) + 1):
            with self._inside(session.leaf.child, None):
                score = scores_of(run(self), self.trials)
            improved = (numbers >= k) & ((score > highest) | (k == 1))
            best.take(self.transcript[start:], improved)
            del self.transcript[start:]
            highest = np.where(improved, score, highest)
        has_run = numbers >= 1
        if session.may_find_none:
            self.transcript.append(Event(PUBLIC_COIN, public_value(has_run), self._mask(None)))
        self.transcript += best.events
        conditioned = Told(session.leaf.child, self.scope, self._records.placeholder(), best.events)
        conditioned._found = has_run
        output, _ = run(conditioned)
        conditioned.finish()
        return output, has_run

    def _drawn_runs(self, label: str, session: Search, numbers: Array) -> None:
        """Audits note how many runs there were."""

    def _rehearse(self, request: Request) -> None:
        """Errors of the query show on rows of zeros, once a label; then the kernel is asked."""
        if request.label not in self._dimensions:
            records = request.records.placeholder()
            nobody = np.broadcast_to(np.False_, (self.trials, len(records)))
            value = self._value(request, nobody if request.draws else None, records)
            self._dimensions[request.label] = value.shape[1]
        request.session.admit(request.scale, self._dimensions[request.label])

    def _draw(self, sampling: Node, size: int) -> list[Mask]:
        wrong = self._kernels.get(type(sampling))
        if wrong is None:
            return self._next_batch(self.trials, size, self._rng)
        drawer = self._drawers.setdefault(sampling, wrong(sampling, self.trials))
        return [drawer.draw(size, self._rng)]

    def _open_session(self, grant: Grant) -> Session:
        kernel = self._kernels.get(type(grant.leaf), grant.entitlement.kernel)
        session: Session = kernel(grant.leaf, self.trials)
        return session

    def _answer(self, request: Request) -> Array:
        with np.errstate(all="ignore"):
            value = self._private_value(request)
            released = request.session.sample(value, request.scale, self._rng)
        released = np.where(request.mask[:, None], released, np.nan)
        released.flags.writeable = False
        self.transcript.append(Event(request.label, released, request.mask))
        return released

    def _private_value(self, request: Request) -> Array:
        # An exception's text, attributes or frames can hold a record: none is passed on.
        with suppress(Exception):
            value = self._value(request, request.first_draw)
            if value.shape[1] == self._dimensions[request.label]:
                return value
        self.entitlements.forfeit(request.label)
        raise InvalidParameter(
            f"release {request.label!r}: its query failed on these records, and ran on rows of "
            "zeros; it must give one vector of the same length for any records"
        )


class Best:
    """The releases of the best run so far of each trial."""

    def __init__(self, trials: int) -> None:
        self.trials = trials
        self.events: list[Event] = []

    def take(self, events: Sequence[Event], taken: Mask) -> None:
        """Put a run's releases in the place of others where it is better; NaN where none was.

        Errors: InvalidParameter for releases of other labels or shapes than another run's.
        """
        if not self.events:
            for e in events:
                released = e.released if e.label == PUBLIC_COIN else _off(e.released, ~taken)
                self.events.append(Event(e.label, released, e.on & taken))
            return
        if [(e.label, e.released.shape) for e in events] != [
            (e.label, e.released.shape) for e in self.events
        ]:
            raise InvalidParameter(
                "best_of: two runs make different releases; every run must make the same"
            )
        for k, (old, new) in enumerate(zip(self.events, events, strict=True)):
            if len(new.released) != self.trials:
                raise InvalidParameter("best_of: a coin of a run has no row for each trial")
            rows = taken.reshape(-1, *[1] * (new.released.ndim - 1))
            released = np.where(rows, new.released, old.released)
            released.flags.writeable = False
            self.events[k] = Event(new.label, released, np.where(taken, new.on, old.on))


def _off(released: Array, off: Mask) -> Array:
    rows = off.reshape(-1, *[1] * (released.ndim - 1))
    masked = np.where(rows, np.nan, released)
    masked.flags.writeable = False
    return masked


def scores_of(made: tuple[Any, Array], trials: int) -> Array:
    """A run's scores, (trials,); what is no number is lowest.  Errors: InvalidParameter."""
    score = np.asarray(made[1], dtype=np.float64)
    if score.shape != (trials,):
        raise InvalidParameter(f"best_of: scores of shape {score.shape}; expected ({trials},)")
    return np.where(np.isnan(score), -np.inf, score)


class Told(Curator):
    """Answers every release with what a transcript holds; queries are never evaluated.

    Errors: Diverged where the program asks for something else than was recorded.
    """

    def __init__(
        self, declaration: Node, scope: Scope, records: Records, transcript: Transcript
    ) -> None:
        trials = len(transcript[0].on) if transcript else 1
        super().__init__(declaration, scope, records, trials)
        self._transcript = list(transcript)[::-1]
        self._coins = np.random.default_rng(0)

    def coin(self, draw: Callable[[Generator], Any]) -> Array:
        return self._next(PUBLIC_COIN, None)

    def finish(self) -> None:
        """Errors: Diverged if the transcript holds releases that were not asked for."""
        if self._transcript:
            raise Diverged(
                f"release {self._transcript[-1].label!r}: the program did not ask for it again "
                "when replayed"
            )

    def _any_run(self) -> Mask:
        return self._next(PUBLIC_COIN, None).astype(bool)

    def _draw(self, sampling: Node, size: int) -> list[Mask]:
        return self._next_batch(self.trials, size, self._coins)

    def _answer(self, request: Request) -> Array:
        return self._next(request.label, request.mask)

    def _next(self, label: str, mask: Mask | None) -> Array:
        event = self._transcript.pop() if self._transcript else None
        if event is None or event.label != label or (mask is not None and (event.on != mask).any()):
            raise Diverged(f"release {label!r}: a different release was recorded on the data")
        return event.released


class Tracer(Curator):
    """Answers from public placeholder rows without noise; ``trace`` lists what was asked."""

    def __init__(self, declaration: Node, scope: Scope, placeholder: Records) -> None:
        super().__init__(declaration, scope, placeholder, 1)
        self._rng = np.random.default_rng(0)
        self.trace: list[tuple[str, float, float]] = []

    def coin(self, draw: Callable[[Generator], Any]) -> Array:
        self._require_turn()
        with self._evaluated():
            return public_value(draw(self._rng))

    def _draw(self, sampling: Node, size: int) -> list[Mask]:
        return self._next_batch(1, size, self._rng)

    def _answer(self, request: Request) -> Array:
        row = (request.label, float(request.sensitivity[0]), float(request.scale[0]))
        self.trace.append(row)
        value = self._value(request, request.first_draw)
        request.session.admit(request.scale, value.shape[1])
        released = request.session.centre(value)
        request.session.advance(value, request.scale)
        return released
