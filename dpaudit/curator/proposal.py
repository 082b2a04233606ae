"""The curator of a likelihood audit: runs drawn from a proposal, with exact likelihoods.

Along one run it asks every query of both data sets, P's and Q's, and draws each release from a law
R that leans away from Q's value (``Kernel.sample_away``), so that privacy losses log p/q of some
size are common however rare they are under P.  A run in ten is drawn as declared: R is the mixture
over whole runs, so that no weight p/r exceeds ten.

Secret batches are exact mixtures over all that can happen.  An average over a few draws of the
batches is no substitute: (1 - e^epsilon q/p)_+ is convex in q/p, and a mean of noisy ratios puts a
lower bound on the wrong side.  Programs whose likelihood is not exact are refused by name.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import log_softmax

from dpaudit.curator.curator import Batch, Event, OneRun, Part, Program, Request, Sampler
from dpaudit.curator.entitlement import Grant, Mask
from dpaudit.curator.latent import Outcomes, enumerated
from dpaudit.errors import Unsupported
from dpaudit.kernels.base import Search, Session
from dpaudit.kernels.batches import in_slot
from dpaudit.kernels.query import Array, Records
from dpaudit.nodes import Node
from dpaudit.scope import Scope

Generator = np.random.Generator
PLAIN_SHARE = 0.1  # Share of the runs that are drawn as declared, without a shift.
# Rounding error of a sum of logs relative to the numbers added; losses and weights are lowered by
# it.
LOG_ROUNDING = 1e-9
VALUE_ROUNDING = 1e-15  # The same for a value, relative to it.
MAX_LOG = 1e6  # Losses and log weights are clipped to at most this size, in nats.


class NoLikelihood(Unsupported):
    """A program whose exact likelihood is not known."""


@dataclass(frozen=True)
class Proposal:
    """How runs are drawn.

    ``shift``: how far every release leans away from the other data set's, in their distances.
    ``include``: the chance that a secret batch holds a record in which the data sets differ; 0 for
    the declared one.  ``plain``: the share of runs drawn as declared.
    """

    shift: float = 0.0
    include: float = 0.0
    plain: float = PLAIN_SHARE


@dataclass(frozen=True, eq=False)
class Weighted:
    """Privacy losses log p/q of runs drawn from R, and log p/r, both (trials,).

    Each is rounded down by more than floating point can be off, and finite.
    """

    losses: Array
    log_weights: Array


@dataclass(eq=False)
class _Mixture:
    """One pass of secret batches, or one release on all rows: a mixture of one component.

    ``first``, ``second``: who is where in either data set; ``picked``: the component each trial
    draws.  The log densities so far, (components, trials), include the components' chances.
    """

    first: Outcomes
    second: Outcomes
    queries: list[Any] = field(default_factory=list)
    picked: Any = None
    log_first: Any = None
    log_second: Any = None
    log_proposed: Any = None


# The mixture of a release without a secret batch: one outcome, of probability 1.
SINGLE_OUTCOME = Outcomes([np.ones((1, 1), dtype=bool)], np.zeros(1), exact=True)


class Proposer(Sampler):
    """Answers both data sets at once along runs drawn from a proposal.

    :meth:`weighted` gives the losses and weights of the runs once the program has returned.
    Errors: NoLikelihood, naming the release, where no exact likelihood is known; otherwise as
    :class:`Sampler`.
    """

    def __init__(
        self,
        declaration: Node,
        scope: Scope,
        pair: tuple[Records, Records],
        *,
        rng: Generator,
        trials: int,
        proposal: Proposal,
    ) -> None:
        super().__init__(declaration, scope, pair[0], rng=rng, trials=trials)
        for sampling in self.entitlements.samplings():
            self._check_population(sampling, len(pair[1]))
        self._beside = pair[1]
        self._proposal = proposal
        self._leans = rng.random(trials) >= proposal.plain
        self._loss, self._lean, self._size = (np.zeros(trials) for _ in range(3))
        self._mixtures: dict[Any, _Mixture] = {}
        self._grants: dict[Session, Grant] = {}
        self._copies: dict[tuple[Session, str, int], Session] = {}

    def weighted(self) -> Weighted:
        """The losses and weights of the runs; nothing may be released afterwards."""
        for key in list(self._mixtures):
            self._finish(self._mixtures.pop(key))
        plain = self._proposal.plain
        with np.errstate(all="ignore"):
            leaning = (
                math.log1p(-plain) + self._lean if plain < 1 else np.full(self.trials, -np.inf)
            )
            weights = -np.logaddexp(math.log(plain), leaning)
            rounded = (part - LOG_ROUNDING * self._size for part in (self._loss, weights))
            return Weighted(*(np.clip(_down(part), -MAX_LOG, MAX_LOG) for part in rounded))

    def permute(self) -> Array:
        drawn = super().permute()
        assert self._order is not None  # noqa: S101  (it was just drawn)
        self._beside = self._beside.in_order(self._order)
        return drawn

    def _best_of(self, label: str, session: Search, run: OneRun) -> tuple[Any, Mask]:
        raise NoLikelihood(f"search {label!r}: the density of the best of several runs is unknown")

    def _open_session(self, grant: Grant) -> Session:
        session = super()._open_session(grant)
        self._grants[session] = grant
        return session

    def _copy(self, session: Session, whose: str, component: int = 0) -> Session:
        """The session of a kernel that remembers, for one reading of the run's past."""
        if not getattr(session, "memory", False):
            return session
        key = session, whose, component
        if key not in self._copies:
            self._copies[key] = Sampler._open_session(self, self._grants[session])
        return self._copies[key]

    def _draw(self, sampling: Node, size: int) -> list[Mask]:
        """Nobody: who is in a batch is drawn with its first release."""
        return [np.broadcast_to(np.False_, (self.trials, size))]

    def _close(self) -> None:
        if self._open is not None and self._open.closes and self._open.key in self._mixtures:
            self._finish(self._mixtures.pop(self._open.key))

    def _second(self, part: Part | None) -> Records:
        return self._beside if part is None else self._beside.rows(part.start, part.stop)

    def _answer(self, request: Request) -> Array:
        if getattr(request.session, "hides", False):
            raise NoLikelihood(f"release {request.label!r}: noise that no release shows")
        if not callable(getattr(request.session, "log_density", None)):
            name = type(request.session).__name__
            raise NoLikelihood(f"release {request.label!r}: {name} states no density of its noise")
        batch = self._open if request.draws else None
        second = self._second(None if batch is None else batch.part)
        if batch is None:
            part = next((p for p, rows in self._parts.items() if rows is request.records), None)
            second = self._second(part)
        mixture = self._mixture(request, second, batch)
        released = self._released(request, second, mixture, batch)
        if batch is None:
            self._finish(mixture)
        shown = np.where(request.mask[:, None], released, np.nan)
        shown.flags.writeable = False
        self.transcript.append(Event(request.label, shown, request.mask))
        return shown

    def _mixture(self, request: Request, second: Records, batch: Batch | None) -> _Mixture:
        """The pass that a release is of.  Errors: NoLikelihood for too many outcomes."""
        if batch is None:
            return _Mixture(SINGLE_OUTCOME, SINGLE_OUTCOME)
        mixture = self._mixtures.get(batch.key)
        queries = [] if mixture is None else mixture.queries
        queries = [*queries, (request.query, request.mask)]
        first, other = (enumerated(batch.sampling, r, queries) for r in (request.records, second))
        if first is None or other is None:
            raise NoLikelihood(
                f"release {request.label!r}: more ways in which its secret batch can be drawn than "
                "an exact likelihood can add up; let all records but the one that differs be zero, "
                "in a query that says that such rows are `silent`"
            )
        if mixture is None:
            mixture = self._mixtures[batch.key] = _Mixture(first, other, queries)
        elif first is not mixture.first or other is not mixture.second:
            raise NoLikelihood(
                f"release {request.label!r}: it is moved by other records than the releases of the "
                "same secret batch before it"
            )
        mixture.queries = queries
        return mixture

    def _values(
        self, request: Request, records: Records, places: Sequence[Any], batch: Batch | None
    ) -> list[Array]:
        """The noise-free value for each outcome, (trials, d); 0 in the trials that are off."""
        values = []
        for assigned in places:
            chosen = None
            if batch is not None:
                chosen = in_slot(assigned, batch.slot)[:, : len(records)]
                # A record more of this data set is in no batch of the other's.
                lacking = len(records) - chosen.shape[1]
                chosen = np.pad(chosen, ((0, 0), (0, lacking)))
            value = self._value(request, chosen, records)
            values.append(np.where(request.mask[:, None], value, 0.0))
        return values

    def _released(
        self, request: Request, second: Records, mixture: _Mixture, batch: Batch | None
    ) -> Array:
        """Draw a release of each trial's component, and take it into all log densities."""
        session, scale = request.session, request.scale
        first = self._values(request, request.records, mixture.first.masks, batch)
        other = self._values(request, second, mixture.second.masks, batch)
        beside = other
        if mixture.first.masks is not mixture.second.masks:
            beside = self._values(request, second, mixture.first.masks, batch)
        if mixture.picked is None:
            self._pick(mixture, [(a != b).any() for a, b in zip(first, beside, strict=True)])
        rows = mixture.picked, np.arange(self.trials)
        shift = np.where(request.mask & (scale > 0), self._proposal.shift, 0.0)
        with np.errstate(all="ignore"):
            drawn = session.sample_away(
                np.stack(first)[rows],
                np.stack(beside)[rows],
                np.where(self._leans, shift, 0.0),
                scale,
                self._rng,
            )
            released = np.where(request.mask[:, None], drawn, 0.0)
            proposed = [
                self._copy(session, "r", k).log_density_away(released, a, b, shift, scale)
                for k, (a, b) in enumerate(zip(first, beside, strict=True))
            ]
            if len(first) == len(other) == 1:
                log, loss = self._compared(request, released, first[0], other[0])
                logs, others = [log], [log - loss]
                self._loss += np.where(request.mask, loss, 0.0)
                mixture.log_second = None
            else:
                logs, others = (
                    [
                        self._copy(session, who, k).log_density(released, value, scale)
                        for k, value in enumerate(values)
                    ]
                    for who, values in (("p", first), ("q", other))
                )
        averaged = (self._copies.get((session, "p", 0), session), session)
        if any(getattr(s, "averaged", False) for s in averaged):
            raise NoLikelihood(f"release {request.label!r}: its density is an average over coins")
        self._add(request, mixture, (logs, others, proposed))
        self._size += self._rounding(request, released, first, other, (logs, others))
        return released

    def _compared(
        self, request: Request, released: Array, value: Array, other: Array
    ) -> tuple[Array, Array]:
        """Log density of a release on the first data set, and its loss to the second, (trials,)."""
        whose = self._copy(request.session, "p"), self._copy(request.session, "q")
        return whose[0].compared(whose[1], released, value, other, request.scale)

    def _pick(self, mixture: _Mixture, differs: Sequence[bool]) -> None:
        """Draw each trial's component: as declared, or with the loud record more often."""
        declared = mixture.first.logs
        tilted, loud = declared.copy(), np.array(differs)
        include = self._proposal.include
        if include and loud.any() and not loud.all():
            for members, share in ((loud, include), (~loud, 1 - include)):
                tilted[members] = log_softmax(declared[members]) + math.log(share)
        law = np.where(self._leans[:, None], tilted, declared)
        mixture.picked = np.argmax(law + self._rng.gumbel(size=law.shape), axis=-1)
        ones = np.ones(self.trials)
        mixture.log_first = declared[:, None] * ones
        mixture.log_second = mixture.second.logs[:, None] * ones
        mixture.log_proposed = tilted[:, None] * ones

    def _add(self, request: Request, mixture: _Mixture, values: Sequence[Sequence[Array]]) -> None:
        names = ("log_first", "log_second", "log_proposed")
        for name, logs in zip(names, values, strict=True):
            before = getattr(mixture, name)
            if before is not None:
                setattr(mixture, name, before + np.where(request.mask, np.stack(logs), 0.0))

    def _finish(self, mixture: _Mixture) -> None:
        """Add a finished pass over secret batches to the losses and the log weights."""
        if mixture.log_first is None:
            return
        with np.errstate(all="ignore"):
            first = np.logaddexp.reduce(mixture.log_first)
            self._lean += np.logaddexp.reduce(mixture.log_proposed) - first
            if mixture.log_second is not None:
                self._loss += first - np.logaddexp.reduce(mixture.log_second)

    def _rounding(
        self,
        request: Request,
        released: Array,
        first: Sequence[Array],
        other: Sequence[Array],
        logs: Sequence[Sequence[Array]],
    ) -> Array:
        """The size of what was added up, and of the values over their noise, (trials,)."""
        scale = np.where(request.scale > 0, request.scale, 1.0)
        with np.errstate(all="ignore"):
            width = max(released.shape[1], first[0].shape[1])
            values = np.max([np.abs(v).max(-1, initial=0.0) for v in (*first, *other)], axis=0)
            values = (values + np.abs(np.nan_to_num(released)).max(-1, initial=0.0)) / scale
            moved = np.max([np.abs(v - first[0]).sum(-1) for v in (*first, *other)], axis=0) / scale
            size = sum(
                np.max([np.abs(np.nan_to_num(log, posinf=0, neginf=0)) for log in side], axis=0)
                for side in logs
            )
            rounded = VALUE_ROUNDING / LOG_ROUNDING * values * (math.sqrt(width) + moved)
            return np.where(request.mask, np.nan_to_num(size + rounded, posinf=MAX_LOG), 0.0)


def _down(values: Array) -> Array:
    """The values, with -inf for NaN: a NaN is no evidence."""
    return np.where(np.isnan(values), -np.inf, values)


def proposed(
    program: Program,
    declaration: Node,
    scope: Scope,
    pair: tuple[Records, Records],
    *,
    rng: Generator,
    trials: int,
    proposal: Proposal,
) -> tuple[Weighted, Proposer]:
    """Runs of a program on the first data set drawn from a proposal: losses to the second.

    Errors: NoLikelihood where the likelihood of a run is not exactly known; Dependent where trials
    would share a coin; whatever else the program raises.
    """
    curator = Proposer(declaration, scope, pair, rng=rng, trials=trials, proposal=proposal)
    curator.independent = True
    program.run(curator)
    return curator.weighted(), curator
