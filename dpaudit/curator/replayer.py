"""The replayer: walks both data sets along a transcript under the declared densities.

The score it gives a transcript is the log-likelihood ratio of the declared program on the two data
sets: the Neyman-Pearson optimal statistic where the densities are exact, a valid one always.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.curator.coins import public_value
from dpaudit.curator.curator import (
    Batch,
    Curator,
    Event,
    OneRun,
    Part,
    Program,
    Request,
    Sampler,
    Transcript,
    scores_of,
)
from dpaudit.curator.entitlement import PUBLIC_COIN, Mask
from dpaudit.curator.generators import seeds_kept
from dpaudit.curator.latent import Outcomes, drawn, enumerated
from dpaudit.curator.locations import at, program_line
from dpaudit.curator.outputs import same_output
from dpaudit.curator.uses import grouped
from dpaudit.errors import Diverged, SensitivityExceeded
from dpaudit.kernels.base import Search, Session
from dpaudit.kernels.batches import Places, batches_of, in_slot
from dpaudit.kernels.query import Array, Query, Records
from dpaudit.nodes import Node
from dpaudit.scope import Scope

Generator = np.random.Generator
RELATIVE_TOLERANCE = 1e-9  # by which a query may exceed its sensitivity: rounding
ROUNDING = 1e-12  # Rounding error of a value, relative to its size.
# Keeps the replayer's coins apart from those of any curator with the same seed.
LATENT, PUBLIC, RUNS, SPREAD = 0x4C6174, 0x507562, 0x52756E, 0x537072


@dataclass(frozen=True, eq=False)
class Visit:
    """One release as a walk saw it: value (of the first secret batch, if there are several), scale,
    and the sensitivity its query stated; ``matches``: coordinates released without noise;
    ``place``: the line of the program that asked for it.
    """

    label: str
    value: Array
    scale: Array
    sensitivity: Array
    session: Session
    on: Mask
    matches: NDArray[np.bool_]
    mixes: bool
    place: str = ""


@dataclass(frozen=True, eq=False)
class _Latent:
    """A release on a secret batch, kept until its pass is over."""

    batch: Batch
    request: Request
    released: Array


class Walk(Curator):
    """Walks one data set along a transcript and adds up the declared log densities.

    Latent coins are its own: ``coins`` seeds them, and the likelihood is averaged over ``draws`` of
    them over the steps in which they are shared: one, or those of a pass.  Public coins are those
    of the transcript; ``redrawn`` holds what the program would have drawn, and ``ranked`` what
    ranks the runs of its searches, (trials,): no record may change either.
    Errors: Diverged where the program asks for another release than the transcript recorded.
    """

    def __init__(
        self,
        declaration: Node,
        scope: Scope,
        records: Records,
        transcript: Transcript,
        *,
        coins: int,
        draws: int = 32,
    ) -> None:
        trials = len(transcript[0].on) if transcript else 1
        super().__init__(declaration, scope, records, trials)
        self._transcript = transcript
        self._position = 0
        self._coins = coins
        self._draws = draws
        self._steps = 0
        self._sampled = False
        self._in_pass: dict[tuple[Node, Part | None], list[_Latent]] = {}
        self._drawn_at: dict[tuple[Node, Part | None], int] = {}
        self._place = ""
        self.log_density = np.zeros(trials)
        self.visits: list[Visit] = []
        self.residuals: dict[str, list[Array]] = {}
        self.redrawn: list[Array] = []
        self.ranked: list[Array] = []

    @property
    def averaged(self) -> bool:
        """Whether the likelihood is an average over draws of latent coins."""
        return self._sampled or any(getattr(v.session, "averaged", False) for v in self.visits)

    def release(self, label: str, query: Query, **options: Any) -> Array:
        self._place = program_line()
        return super().release(label, query, **options)

    def coin(self, draw: Callable[[Generator], Any]) -> Array:
        self._place = program_line()
        released = self._next(PUBLIC_COIN, self._mask(None)).released
        self.redrawn.append(public_value(draw(self._generator(PUBLIC, self._position))))
        return released

    def _any_run(self) -> Mask:
        has_run = self._next(PUBLIC_COIN, self._mask(None)).released.astype(bool)
        return np.broadcast_to(has_run, (self.trials,))

    def _best_of(self, label: str, session: Search, run: OneRun) -> tuple[Any, Mask]:
        """The best run is that of the transcript; its rank has a density, beside its own."""
        has_run = self._any_run() if session.may_find_none else np.ones(self.trials, dtype=bool)
        with self._inside(session.leaf.child, has_run if session.may_find_none else None):
            output, score = run(self)
        score = np.where(has_run, scores_of((None, score), self.trials), -np.inf)
        self.ranked.append(score)
        self._ranked(session, run, score, has_run)
        return output, has_run

    def _ranked(self, session: Search, run: OneRun, score: Array, has_run: Mask) -> None:
        """The share of runs below the best one's score, of fresh runs on this data set.

        Their coins are the same on both data sets; whatever they say, the score is a function of
        the transcript and of these.
        """
        self._sampled = True
        below = np.full(self.trials, 0.5)
        for k in range(self._draws):
            rng = self._generator(RUNS, self._position, k)
            sampler = Sampler(
                session.leaf.child, self.scope, self._records, rng=rng, trials=self.trials
            )
            other = scores_of(run(sampler), self.trials)
            below += (other < score) + 0.5 * (other == score)
        weight = session.log_weight(below / (self._draws + 1))
        self.log_density += np.where(has_run, weight, 0.0)

    def finish(self) -> None:
        """Errors: Diverged if the transcript holds releases the program did not ask for."""
        for key in list(self._in_pass):
            self._average(key)
        if self._position < len(self._transcript):
            label = self._transcript[self._position].label
            raise Diverged(
                f"release {self._position}: the program stopped, the transcript goes on ({label!r})"
                f"{at(self._place and f'after {self._place}')}"
            )

    def _next(self, label: str, mask: Mask) -> Event:
        index = self._position
        if index >= len(self._transcript):
            raise Diverged(
                f"release {index}: the program asks for {label!r}, the transcript has ended"
                f"{at(self._place)}"
            )
        event = self._transcript[index]
        if event.label != label:
            raise Diverged(
                f"release {index}: the program asks for {label!r}, recorded {event.label!r}"
                f"{at(self._place)}"
            )
        if (event.on != mask).any():
            raise Diverged(
                f"release {index} ({label!r}): other trials are on than were recorded"
                f"{at(self._place)}"
            )
        self._position += 1
        return event

    def _generator(self, *key: int) -> Generator:
        return np.random.default_rng(np.random.SeedSequence(self._coins, spawn_key=key))

    def _draw(self, sampling: Node, size: int) -> list[Mask]:
        return self._coupled(self.trials, size)

    def _coupled(self, trials: int, size: int) -> list[Mask]:
        """The batch that is open, by coins that two data sets share."""
        batch = self._open
        assert batch is not None  # noqa: S101  (a batch is drawn where it is opened)
        if batch.opens:
            self._steps += 1
            self._drawn_at[batch.key] = self._steps
            coins = self._generator(LATENT, self._steps, 0)
            self._passes[batch.key] = batches_of(batch.sampling).coupled(trials, size, coins)
        return [in_slot(self._passes[batch.key], batch.slot)]

    def _close(self) -> None:
        if self._open is not None and self._open.closes:
            self._average(self._open.key)

    def _average(self, key: tuple[Node, Part | None]) -> None:
        """The likelihood of a pass's releases, averaged over who was in which batch."""
        latents = self._in_pass.pop(key, [])
        if latents:
            outcomes = self._outcomes(key, latents)
            added = np.array([self._pass_density(places, latents) for places in outcomes.masks])
            self.log_density += np.logaddexp.reduce(added + outcomes.logs[:, None])

    def _outcomes(self, key: tuple[Node, Part | None], held: Sequence[_Latent]) -> Outcomes:
        """All batches that differ in what is released, where they are few; draws otherwise."""
        sampling, records = key[0], held[0].request.records
        queries = ((latent.request.query, latent.request.mask) for latent in held)
        exact = enumerated(sampling, records, queries)
        if exact is not None:
            return exact
        self._sampled = True
        step = self._drawn_at[key]
        makers = [partial(self._generator, LATENT, step, k) for k in range(self._draws)]
        return drawn(sampling, self.trials, len(records), makers)

    def _pass_density(self, places: Places, held: Sequence[_Latent]) -> Array:
        """Log density of a pass's releases together, for one assignment of records to batches."""
        total = np.zeros(self.trials)
        # The memory of a kernel depends on who was in the earlier batches.
        memories: dict[Session, Session] = {}
        with np.errstate(all="ignore"):
            for latent in held:
                request = latent.request
                session = request.session
                if getattr(session, "memory", False):
                    session = memories.setdefault(session, self._anew(session))
                value = self._value(request, in_slot(places, latent.batch.slot))
                shown = np.where(request.mask[:, None], latent.released, 0.0)
                density = session.log_density(shown, value, request.scale)
                total += np.where(request.mask, density, 0.0)
        return total

    def _anew(self, session: Any) -> Session:
        new_session: Session = type(session)(session.leaf, self.trials)
        return new_session

    def _answer(self, request: Request) -> Array:
        value = self._value(request, request.first_draw)
        released = self._next(request.label, request.mask).released
        shape = request.session.centre(value).shape
        if released.shape != shape:
            raise Diverged(
                f"release {self._position - 1} ({request.label!r}): the program releases shape "
                f"{shape}, recorded {released.shape}{at(self._place)}"
            )
        self._visit(request, value, released)
        if self._open is not None and request.draws:
            self._in_pass.setdefault(self._open.key, []).append(
                _Latent(self._open, request, released)
            )
            if getattr(request.session, "memory", False):
                request.session.log_density(released, value, request.scale)
        else:
            self._exact(request, value, released)
        return released

    def _visit(self, request: Request, value: Array, released: Array) -> None:
        noisy = request.mask & (request.scale > 0) & request.session.continuous
        centre = request.session.centre(value)
        same = (released == centre) | (~np.isfinite(released) & ~np.isfinite(centre))
        visit = Visit(
            label=request.label,
            value=value,
            scale=request.scale,
            sensitivity=request.sensitivity,
            session=request.session,
            on=request.mask,
            matches=noisy[:, None] & same,
            mixes=self._mixes(request),
            place=self._place,
        )
        self.visits.append(visit)

    def _mixes(self, request: Request) -> bool:
        """Whether the query lets one record change another's vector; asked once a label."""
        check = getattr(request.query, "mixes_records", None)
        visited = any(visit.label == request.label for visit in self.visits)
        return check is not None and not visited and bool(check(request.records))

    def _exact(self, request: Request, value: Array, released: Array) -> None:
        on, scale = request.mask, request.scale
        with np.errstate(all="ignore"):
            shown = np.where(on[:, None], released, request.session.centre(value))
            # Each batch and release has a generator of its own, the same for both data sets.
            request.session.spread = self._generator(SPREAD, self._position)
            noise = np.where(on[:, None], request.session.residual(shown, value, scale), np.nan)
            if self._searching:
                # The best of several runs was selected, so its noise has no known law.
                noise = np.full_like(noise, np.nan)
            density = request.session.log_density(shown, value, scale)
        self.residuals.setdefault(request.label, []).append(noise)
        self.log_density += np.where(on, density, 0.0)


@dataclass(frozen=True, eq=False)
class Replay:
    """The evidence of a transcript about two data sets.

    ``scores`` (trials,): log density on the first data set minus that on the second, under the
    declaration; infinite where a release equals one data set's noise-free value.
    ``attack`` is ``exact`` or ``averaged(K)`` over K draws of latent coins.
    ``violations`` are deterministic findings, one line each.
    ``residuals``: per label (trials, uses, d), the noise on the data set the transcript came from.
    ``opposite``: what the noise would have been on the other data set, shaped alike.
    ``places``: per label, the line of the program that released it first.
    """

    scores: Array
    attack: str
    violations: tuple[str, ...]
    residuals: dict[str, Array]
    opposite: dict[str, Array]
    places: dict[str, str]


PRIVATE_COIN = "a public coin is drawn in a way that depends on the private records"
PRIVATE_SCORE = (
    "the score that ranks a run of a search depends on the private records beyond what the run "
    "released"
)
PRIVATE_OUTPUT = "the output depends on the private records beyond what was released"


class Replayer:
    """Replays transcripts of one program on two neighbouring data sets."""

    def __init__(
        self,
        program: Program,
        declaration: Node,
        scope: Scope,
        pair: tuple[Records, Records],
        *,
        coins: int = 0,
        draws: int = 32,
    ) -> None:
        self._program = program
        self._declaration = declaration
        self._scope = scope
        self._pair = pair
        self._coins = coins
        self._draws = draws

    def scores(self, transcript: Transcript) -> Array:
        """Log-likelihood ratios, shape (trials,).

        Errors: Diverged for control flow that differs from the transcript's on either data set;
        SensitivityExceeded where the data sets move a query by more than it states.
        """
        replay = self.inspect(transcript, own=0)
        if replay.violations:
            raise SensitivityExceeded("; ".join(replay.violations))
        return replay.scores

    def inspect(self, transcript: Transcript, own: int) -> Replay:
        """Scores with the violations collected; ``own`` is the data set the transcript came from.

        Errors: Diverged, as :meth:`scores`.
        """
        first, second = (self.walk(records, transcript) for records in self._pair)
        return self.compared(first, second, own)

    def compared(self, one: tuple[Walk, Any], two: tuple[Walk, Any], own: int) -> Replay:
        """Two replays of one transcript, with their outputs, compared: see :meth:`inspect`."""
        first, second = one[0], two[0]
        with np.errstate(invalid="ignore"):
            scores = first.log_density - second.log_density
        for a, b in zip(first.visits, second.visits, strict=True):
            # A coordinate that equals one data set's noise-free value, not the other's, decides.
            scores = np.where((a.matches & ~b.matches).any(-1), np.inf, scores)
            scores = np.where((b.matches & ~a.matches).any(-1), -np.inf, scores)
        walked, other_walk = (first, second) if own == 0 else (second, first)
        return Replay(
            scores=np.where(np.isnan(scores), 0.0, scores),
            attack=f"averaged({self._draws})" if first.averaged else "exact",
            violations=(
                *_violations(first.visits, second.visits, grouped(self._declaration)[1]),
                *disclosures(one, two),
            ),
            residuals=_stacked(walked),
            opposite=_stacked(other_walk),
            places={visit.label: visit.place for visit in reversed(walked.visits)},
        )

    def walk(self, records: Records, transcript: Transcript) -> tuple[Walk, Any]:
        """The walk of one data set along a transcript, and the program's output.

        Errors: Diverged, as :meth:`scores`.
        """
        walk = Walk(
            self._declaration,
            self._scope,
            records,
            transcript,
            coins=self._coins,
            draws=self._draws,
        )
        with seeds_kept():  # what it draws from them is the same on both data sets
            output = self._program.run(walk)
        walk.finish()
        return walk, output


def disclosures(first: tuple[Walk, Any], second: tuple[Walk, Any]) -> tuple[str, ...]:
    """Leaks beside the released values: differences between two replays of one transcript."""
    leaks: dict[str, None] = {}
    for a, b in zip(first[0].visits, second[0].visits, strict=True):
        if (a.scale != b.scale)[a.on].any():
            text = f"release {a.label!r}: its sensitivity depends on the private records"
            leaks[text + at(a.place)] = None
    if not same_output(first[0].redrawn, second[0].redrawn):
        leaks[PRIVATE_COIN] = None
    if not same_output(first[0].ranked, second[0].ranked):
        leaks[PRIVATE_SCORE] = None
    if not same_output(first[1], second[1]):
        leaks[PRIVATE_OUTPUT] = None
    return tuple(leaks)


def _stacked(walk: Walk) -> dict[str, Array]:
    return {label: np.stack(uses, axis=1) for label, uses in walk.residuals.items()}


def _violations(first: Sequence[Visit], second: Sequence[Visit], group: int) -> tuple[str, ...]:
    """The faults of queries on two data sets that differ in at most ``group`` records."""
    faults: dict[str, None] = {}
    for a, b in zip(first, second, strict=True):
        where = at(a.place)
        if a.mixes or b.mixes:
            faults[f"release {a.label!r}: a record changes another record's vector{where}"] = None
        stated = group * np.minimum(a.sensitivity, b.sensitivity)
        if moved_too_far((a.value, b.value), stated, a.session, a.on):
            faults[
                f"release {a.label!r}: the two data sets move the query by more than its stated "
                f"{a.session.norm} sensitivity{where}"
            ] = None
    return tuple(faults)


def moved_too_far(values: tuple[Array, Array], stated: Array, session: Session, on: Mask) -> bool:
    """Whether two values, (trials, d), are further apart than ``stated`` (trials,) in some trial.

    Rounding of the values' own size is allowed; a value that is not a number is too far.
    """
    with np.errstate(all="ignore"):
        distance = session.apart(*values, stated)
        size = sum(np.abs(value).max(-1, initial=0.0) for value in values)
        allowed = stated * (1 + RELATIVE_TOLERANCE) + ROUNDING * size
    # A value that is not a number has moved by no finite distance.
    return not bool((distance <= allowed)[on].all())
