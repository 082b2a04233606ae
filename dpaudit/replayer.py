"""The replayer: walks both data sets along a transcript under the declared densities.

The score it gives a transcript is the log-likelihood ratio of the declared program on the two data
sets: the Neyman-Pearson optimal statistic where the densities are exact, a valid one always.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.curator import Batch, Curator, Event, Program, Request, Transcript, draw_batch
from dpaudit.entitlement import Mask
from dpaudit.errors import Diverged, SensitivityExceeded
from dpaudit.nodes import Node
from dpaudit.query import Array, Records
from dpaudit.scope import Scope

Generator = np.random.Generator
RELATIVE_TOLERANCE = 1e-9
ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Visit:
    """One release as a walk saw it: value, scale, and the sensitivity its query stated."""

    label: str
    value: Array
    scale: Array
    sensitivity: Array
    norm: str
    on: Mask
    matches: NDArray[np.bool_]


class Walk(Curator):
    """Walks one data set along a transcript and adds up the declared log densities.

    Latent coins are its own: ``coins`` seeds them, and the likelihood is averaged over ``draws`` of
    them inside the step in which they are shared.
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
        self._coins = np.random.default_rng(coins)
        self._draws = draws
        self.log_density = np.zeros(trials)
        self.visits: list[Visit] = []
        self.residuals: dict[str, list[Array]] = {}
        self.averaged = False

    def coin(self, draw: Callable[[Generator], Any]) -> Array:
        return self._next("coin", self._mask(None)).released

    def finish(self) -> None:
        """Errors: Diverged if the transcript holds releases the program did not ask for."""
        if self._position < len(self._transcript):
            left = self._transcript[self._position].label
            raise Diverged(
                f"release {self._position}: the program stopped, the transcript goes on ({left!r})"
            )

    def _next(self, label: str, mask: Mask) -> Event:
        at = self._position
        if at >= len(self._transcript):
            raise Diverged(
                f"release {at}: the program asks for {label!r}, the transcript has ended"
            )
        event = self._transcript[at]
        if event.label != label:
            raise Diverged(
                f"release {at}: the program asks for {label!r}, recorded {event.label!r}"
            )
        if (event.on != mask).any():
            raise Diverged(f"release {at} ({label!r}): other trials are on than were recorded")
        self._position += 1
        return event

    def _draw(self, sampling: Node) -> list[Mask]:
        self.averaged = True
        size = len(self._records)
        return [draw_batch(sampling, self.trials, size, self._coins) for _ in range(self._draws)]

    def _close(self, batch: Batch) -> None:
        if batch.log_densities is not None:
            self.log_density += np.logaddexp.reduce(batch.log_densities) - np.log(self._draws)

    def _answer(self, request: Request) -> Array:
        released = self._next(request.label, request.mask).released
        if isinstance(request.rows, Batch):
            self._averaged(request, request.rows, released)
        else:
            self._exact(request, released)
        return released

    def _averaged(self, request: Request, batch: Batch, released: Array) -> None:
        shown = np.where(request.mask[:, None], released, 0.0)
        densities = [
            request.session.log_density(shown, self._value(request, chosen), request.scale)
            for chosen in batch.draws
        ]
        added = np.where(request.mask, np.array(densities), 0.0)
        so_far = batch.log_densities
        batch.log_densities = added if so_far is None else so_far + added

    def _exact(self, request: Request, released: Array) -> None:
        value, on, scale = self._value(request), request.mask, request.scale
        shown = np.where(on[:, None], released, value)
        noise = np.where(on[:, None], request.session.residual(shown, value, scale), np.nan)
        self.residuals.setdefault(request.label, []).append(noise)
        density = request.session.log_density(shown, value, scale)
        self.log_density += np.where(on, density, 0.0)
        continuous = bool(getattr(request.session, "continuous", True))
        matches = on & (scale > 0) & (released == value).all(-1) & continuous
        norm = request.query.norm
        self.visits.append(
            Visit(request.label, value, scale, request.sensitivity, norm, on, matches)
        )


@dataclass(frozen=True, eq=False)
class Replay:
    """What a transcript says about two data sets.

    ``scores`` (trials,): log density on the first data set minus that on the second, under the
    declaration; infinite where a release equals one data set's noise-free value.
    ``attack`` is ``exact`` or ``averaged(K)`` over K draws of latent coins.
    ``violations`` are deterministic findings, one line each.
    ``residuals``: per label (trials, uses, d), the noise on the data set the transcript came from.
    """

    scores: Array
    attack: str
    violations: tuple[str, ...]
    residuals: dict[str, Array]


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
        first, second = (self._walk(records, transcript) for records in self._pair)
        with np.errstate(invalid="ignore"):
            scores = first.log_density - second.log_density
        for a, b in zip(first.visits, second.visits, strict=True):
            scores = _noise_free(scores, a, b)
        walked = (first, second)[own]
        return Replay(
            scores=np.where(np.isnan(scores), 0.0, scores),
            attack=f"averaged({self._draws})" if first.averaged else "exact",
            violations=_violations(first.visits, second.visits),
            residuals={k: np.stack(v, axis=1) for k, v in walked.residuals.items()},
        )

    def _walk(self, records: Records, transcript: Transcript) -> Walk:
        walk = Walk(
            self._declaration,
            self._scope,
            records,
            transcript,
            coins=self._coins,
            draws=self._draws,
        )
        self._program.run(walk)
        walk.finish()
        return walk


def _noise_free(scores: Array, first: Visit, second: Visit) -> Array:
    """A release that equals one data set's noise-free value, and not the other's, is decisive."""
    differ = (first.value != second.value).any(-1)
    scores = np.where(first.matches & differ, np.inf, scores)
    return np.where(second.matches & differ, -np.inf, scores)


def _violations(first: Sequence[Visit], second: Sequence[Visit]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for a, b in zip(first, second, strict=True):
        if (a.scale != b.scale)[a.on].any():
            found[f"release {a.label!r}: its sensitivity depends on the private records"] = None
        if _moved_too_far(a, b):
            found[
                f"release {a.label!r}: the two data sets move the query by more than its stated "
                f"{a.norm} sensitivity"
            ] = None
    return tuple(found)


def _moved_too_far(a: Visit, b: Visit) -> bool:
    order = 1 if a.norm == "l1" else 2
    distance = np.linalg.norm(a.value - b.value, ord=order, axis=-1)
    size = np.abs(a.value).max(-1, initial=0.0) + np.abs(b.value).max(-1, initial=0.0)
    allowed = a.sensitivity * (1 + RELATIVE_TOLERANCE) + ROUNDING * size
    return bool((distance > allowed)[a.on].any())
