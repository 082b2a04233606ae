"""A pilot: which canaries, how many, and beside which records, tried on models nobody counts.

Every choice is made here, before the study's coins are drawn, so that the study's bound needs no
correction for it: its models are trained afterwards, on coins of their own.
"""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpaudit.audit.canaries.terms import CanaryTerms
from dpaudit.errors import InvalidParameter
from dpaudit.membership.bounds import coins_needed, promised, strongest, telling
from dpaudit.membership.crafted import (
    AS_GIVEN,
    KINDS,
    QUIET,
    Canaries,
    crafted,
    outside,
    quieted,
)
from dpaudit.membership.data import Data, duplicates, joined, without_duplicates
from dpaudit.membership.results import Finding
from dpaudit.membership.study import IgnoredRecords, Study, announce, references_of
from dpaudit.storage.files import write_new

FEW, MANY = 8, 32  # canaries in a model
FIRST_MODELS, LAST_MODELS = 8, 24  # of a choice: all are tried on so many, then the best
FINALISTS, ALONE = 3, 2  # choices of several canaries, and of one
CHEAP = 15.0  # seconds of training that a pilot may take although the study would take less
MOST_GROWTH = 16  # times as many models as by default, if those are cheap
_WORTH = 1.15  # of the claim: a promise that is likely to be kept
_PLACE = "pilot.json"
_STREAM = 0x70696C6F74


@dataclass(frozen=True)
class Choice:
    """Canaries of a kind, how many, and the records beside them; ``models`` of the study."""

    kind: str
    beside: str
    count: int
    models: int = 0

    @property
    def words(self) -> str:
        """The records that train, in words."""
        whose = "the data as given" if self.beside == AS_GIVEN else "records drawn to the middle"
        return f"{self.count} canaries ({self.kind}: {KINDS[self.kind][0]}) beside {whose}"


class Promise(NamedTuple):
    """Bounds that studies of several sizes would show, and the seconds that a model takes alone."""

    shown: list[float]
    seconds: float


@dataclass(frozen=True)
class Pilot:
    """Trainings of ``study``'s target on canaries made for its records, to choose among them.

    ``share`` of the records train beside them.  ``models``: of the study that is planned.
    """

    target: Any
    data: Data
    kinds: Sequence[str]
    share: float
    models: int
    references: float
    terms: CanaryTerms
    grows: bool
    attacks: str | Sequence[str] | None = None
    jobs: int = 1

    def study(self, choice: Choice, models: int, made_from: int, **settings: Any) -> Study | None:
        """The study of a choice; None where the data cannot have such canaries.

        ``made_from``: the seed of the canaries and of the records beside them.
        """
        parts = self._parts(choice, made_from)
        if parts is None:
            return None
        canaries, background = parts
        return Study(
            self.target,
            canaries.data,
            models,
            background=background,
            queries=canaries.queries,
            **settings,
        )

    def _parts(self, choice: Choice, made_from: int) -> tuple[Canaries, Data] | None:
        rng = np.random.default_rng([made_from, _STREAM])
        units = self.data.unit_count
        records = round(float(np.median(np.bincount(self.data.unit_of))))
        # On average as many units train as the data have, or the share of them that is asked for.
        kept = max(2, round(self.share * units) - choice.count // 2)
        beside = self.data.take(np.isin(self.data.unit_of, rng.permutation(units)[:kept]))
        canaries = crafted(choice.kind, self.data, choice.count, rng)
        quiet = quieted(beside) if choice.beside == QUIET else beside
        if canaries is None or quiet is None or choice.count > units // 2:
            return None
        try:
            kept_apart = without_duplicates(canaries.data, quiet)
        except InvalidParameter:
            return None
        if len(kept_apart) < len(canaries.data):
            return None
        return (canaries if records == 1 else canaries.of_users(records)), quiet

    def chosen(self, kept: Kept, **settings: Any) -> Study:
        """The study of what was chosen.

        Errors: InvalidParameter for a choice of a pilot on other data.
        """
        models = kept.choice.models
        share = self._opened(models) / models
        study = self.study(kept.choice, models, kept.seed, references=share, **settings)
        if study is None:
            raise InvalidParameter(f"{_PLACE}: of a pilot on other data; choose another folder")
        study.notes = (kept.finding, *self._control(kept))
        return study

    def _control(self, kept: Kept) -> tuple[Finding, ...]:
        """The bound that the chosen study would show for the same training without noise."""
        try:
            promise = self._promise(
                kept.choice, FIRST_MODELS, [kept.choice.models], kept.seed, silent=True
            )
        except IgnoredRecords:
            dropped = (
                "without the noise of its generator all models of this study score the same: "
                "training drops these canaries, as a filter of outliers or a loader does that "
                "leaves out what is short of a batch, or score hides them; choose others by "
                "--canaries"
            )
            return (Finding("positive control", dropped, False),)
        except InvalidParameter:  # the training needs its noise
            return ()
        if promise is None:
            return ()
        shown = f"{self.terms.target.measure} >= {max(promise.shown[0], 0.0):.3g}"
        return (
            Finding(
                "positive control",
                f"this study of the same training without the noise of its generator would show "
                f"about {shown}, judged by {FIRST_MODELS} models",
                False,
            ),
        )

    def run(self, made_from: int) -> tuple[Choice, Finding]:
        """The choice that promises the most, and what is said of it.

        Errors: InvalidParameter where the data can have none of the canaries, or nothing trains.
        """
        refused = []
        tried: dict[Choice, Promise] = {}
        for choice in (Choice(k, b, FEW) for k in self.kinds for b in (QUIET, AS_GIVEN)):
            spent = FIRST_MODELS * sum(promise.seconds for promise in tried.values())
            if tried and len(tried) * FIRST_MODELS >= self.models and spent > CHEAP:
                break
            try:
                promise = self._promise(choice, FIRST_MODELS, [self.models], made_from)
            except InvalidParameter as error:  # of a training that such canaries break
                refused.append(error)
                continue
            if promise is not None:
                tried[choice] = promise
                if len(tried) == 1:
                    self._announce(promise.seconds)
        if not tried:
            none = InvalidParameter("canaries: these records can have none of them; choose others")
            raise refused[0] if refused else none
        ordered = sorted(tried, key=lambda choice: -tried[choice].shown[0])[:FINALISTS]
        others = [replace(choice, count=self._many()) for choice in ordered[:2]]
        others += self._alone(made_from)
        sizes = self._sizes(tried[ordered[0]].seconds)
        last = {
            choice: promise
            for choice in (*ordered, *others)
            if (promise := self._promise(choice, LAST_MODELS, sizes, made_from)) is not None
        }
        best = self._best(last, sizes)
        trained = len(tried) * FIRST_MODELS + len(last) * LAST_MODELS
        return best, self._said(best, len(tried), trained, made_from)

    def _announce(self, seconds: float) -> None:
        """Warn of long trainings: the pilot's that are left, and the study's."""
        firsts = max(self.models, FIRST_MODELS)
        lasts = (FINALISTS + 2 * ALONE + 2) * LAST_MODELS
        announce(
            seconds, firsts + lasts + self.models, self.jobs,
            ", to choose canaries and to count; --canaries none leaves out the choice",
        )  # fmt: skip

    def _many(self) -> int:
        """As many canaries as the claim needs coins in the models that are counted."""
        needed = coins_needed(self.terms.target, self.terms.refute_at) or 0
        targets = self.models - self._opened(self.models)
        return max(MANY, min(2 * math.ceil(needed / targets), self.data.unit_count // 4))

    def _sizes(self, seconds: float) -> list[int]:
        """Numbers of models: as asked for, or more where that is cheap and nobody fixed it."""
        sizes = [self.models]
        while self.grows and 2 * sizes[-1] <= MOST_GROWTH * self.models:
            if 2 * sizes[-1] * seconds > CHEAP:
                break
            sizes.append(2 * sizes[-1])
        return sizes

    def _opened(self, models: int) -> int:
        """How many of the models are references: of more models than planned, twice as many."""
        planned = references_of(self.models, self.references)
        return planned if models <= self.models else 2 * planned

    def _best(self, promises: Mapping[Choice, Promise], sizes: Sequence[int]) -> Choice:
        """The choice of the fewest models that are likely to decide, else the best promise."""
        best: list[Choice] = []
        for place, size in enumerate(sizes):
            choice = max(promises, key=lambda each: promises[each].shown[place])
            best.append(replace(choice, models=size))
            if promises[choice].shown[place] > _WORTH * self.terms.target.claimed:
                break
        return best[-1]

    def _promise(
        self,
        choice: Choice,
        models: int,
        planned: Sequence[int],
        made_from: int,
        *,
        silent: bool = False,
    ) -> Promise | None:
        """The bounds that studies of so many models would show, from ``models`` trained here."""
        study = self.study(choice, models, made_from, seed=made_from + 1, silent=silent)
        if study is None:
            return None
        by_attack, seconds = study.open(self.attacks, jobs=self.jobs)
        best = max(by_attack, key=lambda known: np.sort(telling(known))[-FEW:].mean())
        targets = [size - self._opened(size) for size in planned]
        target, error = self.terms.target, self.terms.refute_at

        def promised_by(count: int) -> float:
            # A study that could not refute the claim by any outcome promises less than all others.
            reach = strongest(target, count, study.audited.unit_count, error)
            return promised(best, count, target, error) if reach > target.claimed else -1.0

        return Promise([promised_by(count) for count in targets], seconds)

    def _alone(self, made_from: int) -> list[Choice]:
        """Single canaries that tell the most of a model that holds one of every kind."""
        worth: dict[Choice, float] = {}
        for beside in (QUIET, AS_GIVEN):
            choices, parts = [], []
            for choice in (Choice(kind, beside, 1) for kind in self.kinds):
                made = self._parts(choice, made_from)
                if made is not None:
                    choices.append(choice)
                    parts.append(made)
            if not parts:
                continue
            together = parts[0][0].data
            for canaries, _ in parts[1:]:
                together = joined(together, canaries.data)
            if duplicates(together):
                continue
            study = Study(
                self.target, together, LAST_MODELS, background=parts[0][1], seed=made_from + 2
            )
            try:
                by_attack, _ = study.open(self.attacks, jobs=self.jobs)
            except InvalidParameter:  # a training that one of them breaks
                continue
            told = np.max([telling(known) for known in by_attack], axis=0)
            worth |= dict(zip(choices, told.tolist(), strict=True))
        return sorted(worth, key=lambda choice: -worth[choice])[:ALONE]

    def _said(self, best: Choice, tried: int, trained: int, made_from: int) -> Finding:
        parts = self._parts(best, made_from)
        beyond = ""
        if parts is not None and outside(self.data, parts[0].data):
            beyond = (
                "; they lie outside the range of the data. If the claim presumes that range, audit "
                "it with canaries inside (mislabelled, blank, rare_class)"
            )
        return Finding(
            "canaries",
            f"{best.words}, the most telling of {tried} choices on {trained} models that are not "
            f"counted{beyond}",
            False,
        )


def kept(folder: Path, make: Callable[[int], tuple[Choice, Finding]], seed: int | None) -> Kept:
    """The choice that a study's folder holds; else that of ``make(seed)``, written there."""
    place = folder / _PLACE
    if not place.exists():
        drawn = secrets.randbits(64) if seed is None else seed
        choice, finding = make(drawn)
        content = {"seed": drawn, "choice": asdict(choice), "words": finding.words}
        write_new(place, json.dumps(content).encode())
    content = json.loads(place.read_text())
    finding = Finding("canaries", content["words"], False)
    return Kept(content["seed"], Choice(**content["choice"]), finding)


class Kept(NamedTuple):
    """A pilot's choice, and the seed that its canaries are made from."""

    seed: int
    choice: Choice
    finding: Finding
