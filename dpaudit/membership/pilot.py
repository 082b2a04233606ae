"""A pilot: which canaries, how many, and beside which records, tried on models nobody counts.

Every choice is made here, before the study's coins are drawn, so that the study's bound needs no
correction for it: its models are trained afterwards, on coins of their own.
"""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpaudit.audit.canaries.terms import CanaryTerms
from dpaudit.curator.locations import at, line_of_error
from dpaudit.errors import InvalidParameter
from dpaudit.membership.attacks import ATTACKS, chosen_attacks
from dpaudit.membership.beside import BESIDE, trained_beside
from dpaudit.membership.bounds import (
    Known,
    coins_needed,
    of_one_side,
    promised,
    strongest,
    telling,
)
from dpaudit.membership.crafted import (
    OWN_GRADIENT,
    WORDS,
    Canaries,
    Directions,
    Table,
    crafted,
    outside,
    probes_of,
)
from dpaudit.membership.data import Data, FloatArray, without_duplicates
from dpaudit.membership.results import Finding
from dpaudit.membership.signals import directions_of
from dpaudit.membership.study import (
    Study,
    announce,
    error_shares,
    quietly,
    references_of,
    too_few,
)
from dpaudit.membership.targets import Released
from dpaudit.storage.files import write_new

FEW, MANY = 8, 32  # canaries in a model
FIRST_MODELS = 8  # of each choice of several canaries; those that are left get twice as many
ALONE_MODELS, MOST_ALONE = 32, 128  # of a single canary: a model has one coin
FINALISTS, ALONE = 2, 6  # choices of several canaries, and of one, that are tried on more models
RARE = 4  # choices of one canary that seldom tell, and then all
CHEAP = 15.0  # seconds of training that a pilot may take although the study would take less
LONGEST = 20.0  # seconds of training that a study of more models than planned may take
GROWTH = (4, 4, 4, 2, 2)  # times as many models, one after the other, up to LONGEST
MOST_COINS = 2**16  # of more models than planned: attacks on more take longer than training
_STEP = 4.0  # times as far, of canaries or the records beside them, from a choice to the next
CLIMBED, ROUNDS = 2, 2  # best choices whose neighbours are tried, and how often
SURE_MODELS = 1024  # of those that are best at last, where few of the noise's draws tell
_WORTH = 1.3  # of the claim: a promise that is likely to be kept
_PLACE = "pilot.json"
_STREAM = 0x70696C6F74  # key of the pilot's stream of random numbers ("pilot")


@dataclass(frozen=True)
class Choice:
    """Canaries of a kind, how many, and the records beside them; ``models`` of the study.

    ``farther`` and ``wider``: the distance of canaries, and of those records, from the middle, as a
    multiple of what the kind says.  ``last``: canaries come after the other records.
    """

    kind: str
    beside: str
    count: int
    models: int = 0
    farther: float = 1.0
    wider: float = 1.0
    last: bool = False

    @property
    def words(self) -> str:
        """The records that train, in words."""
        whose = BESIDE[self.beside][0]
        far = "" if self.farther == 1 else f", {self.farther:g} times as far"
        wide = "" if self.wider == 1 else f", {self.wider:g} times as far from the middle"
        after = "after" if self.last else "beside"
        return f"{self.count} canaries ({self.kind}: {WORDS[self.kind]}{far}) {after} {whose}{wide}"

    def changed(self) -> Iterator[Choice]:
        """The choices next to this one: canaries or records nearer or farther, another order."""
        for times in (1 / _STEP, _STEP):
            yield replace(self, farther=self.farther * times)
            yield replace(self, wider=self.wider * times)
        yield replace(self, last=not self.last)


class Tried(NamedTuple):
    """Models of a choice: their scores by the best attack that needs no more references than the
    key, how much the most telling tells, in nats a coin, how many scores at an end are of one side
    alone, and the seconds a model takes alone.
    """

    known: Mapping[int, Known]
    telling: float
    at_ends: int
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
            probes=probes_of(self.data, made_from),
            last=choice.last,
            **settings,
        )

    @cached_property
    def _directions(self) -> Directions | None:
        """Directions of gradients in the middle of a training on the data; None where none is seen.

        Errors: InvalidParameter for a training that fails.
        """
        target = self.target
        if not hasattr(target, "gradients") or not target.released.shows(Released.PARAMETERS):
            return None
        try:
            with quietly():
                model = target.fit(self.data, np.random.default_rng(_STREAM))
                path = target.iterates(model) if hasattr(target, "iterates") else []
        except Exception as error:
            failed = f"{type(error).__name__}{at(line_of_error(error))}"
            raise InvalidParameter(f"fit: {failed} on the whole data") from error
        middle = path[len(path) // 2] if path else model

        def directions(records: Data) -> FloatArray:
            with quietly():
                found = directions_of(target, middle, records)
            return np.zeros((len(records), 1)) if found is None else found

        return directions if directions(self.data.take(np.arange(1))).any() else None

    def _parts(self, choice: Choice, made_from: int) -> tuple[Canaries, Data] | None:
        """Canaries of a choice, and the records beside them; None where they do not fit."""
        rng = np.random.default_rng([made_from, _STREAM])
        units = self.data.unit_count
        records = round(float(np.median(np.bincount(self.data.unit_of))))
        # On average as many units train as the data have, or the share of them that is asked for.
        units_kept = max(2, round(self.share * units) - choice.count // 2)
        others = self.data.take(np.isin(self.data.unit_of, rng.permutation(units)[:units_kept]))
        seen = self._directions if choice.kind == OWN_GRADIENT else None
        canaries = crafted(choice.kind, self.data, choice.count, rng, seen)
        if canaries is None or choice.count > units // 2:
            return None
        if choice.farther != 1:
            canaries = canaries.moved(self.data, choice.farther)
        trained = trained_beside(choice.beside, self.data, others, canaries)
        if trained is not None and choice.wider != 1:
            table = Table.of(self.data)
            trained = None if table is None else table.moved(trained, choice.wider)
        if trained is None:
            return None
        try:
            kept_apart = without_duplicates(canaries.data, trained)
        except InvalidParameter:
            return None
        if len(kept_apart) < len(canaries.data):
            return None
        return (canaries if records == 1 else canaries.of_users(records)), trained

    def chosen(self, kept: Kept, **settings: Any) -> Study:
        """The study of what was chosen.

        Errors: InvalidParameter for a choice of a pilot on other data.
        """
        models = kept.choice.models
        share = self._opened(models) / models
        study = self.study(kept.choice, models, kept.seed, references=share, **settings)
        if study is None:
            raise InvalidParameter(f"{_PLACE}: of a pilot on other data; choose another folder")
        study.notes = (kept.finding,)
        first = study.target_count // GROWTH[0]
        terms = self.terms.target, first, kept.choice.count, self.terms.refute_at / 2
        if models > GROWTH[0] * self.models and strongest(*terms) > self.terms.target.claimed:
            study.look = study.reference_count + first
        return study

    def run(self, made_from: int) -> tuple[Choice, Finding]:
        """The choice that promises the most, and what is said of it.

        Errors: InvalidParameter where the data can have none of the canaries, where no outcome
        could refute the claim, or nothing trains.
        """
        self._check()
        refused: list[InvalidParameter] = []
        several = self._all(FEW, FIRST_MODELS, self.models // FIRST_MODELS, made_from, refused)
        if not several:
            none = InvalidParameter("canaries: these records can have none of them; choose others")
            raise refused[0] if refused else none
        last, trained = self._halved(several, made_from)
        sizes = self._sizes(next(iter(last.values())).seconds)
        best, likely = self._best(last, sizes)
        more = self._reach(sizes[-1], 1) > self.terms.target.claimed
        if more and not likely:
            few = [choice for choice in last if choice.count == FEW] or list(last)
            surest = max(few, key=lambda choice: last[choice].telling)
            if (sure := self._tried(surest, SURE_MODELS, made_from)) is not None:
                last[surest] = sure
            trained += SURE_MODELS
            best, likely = self._best(last, sizes)
        if more and not likely:
            single = self._all(1, ALONE_MODELS, 0, made_from, refused)
            telling = sorted(single, key=lambda choice: -single[choice].telling)[:ALONE]
            rare = sorted(single, key=lambda choice: -single[choice].at_ends)[:RARE]
            telling = list(dict.fromkeys([*telling, *rare]))
            last |= {
                choice: tried
                for choice in telling
                if (tried := self._tried(choice, MOST_ALONE, made_from)) is not None
            }
            trained += len(single) * ALONE_MODELS + len(telling) * MOST_ALONE
            trained += self._climb(last, sizes[-1], made_from)
            best, _ = self._best(last, sizes)
        return best, self._said(best, len(several), trained, made_from)

    def _rounds(self, choices: int) -> list[tuple[int, int]]:
        """How many choices are left in each round after the first, and on how many models.

        Each round costs about as much as the first; the last has half of the planned models.
        """
        rounds, models = [], FIRST_MODELS
        while 2 * models <= self.models and (choices > FINALISTS or 4 * models <= self.models):
            choices, models = max(FINALISTS, choices // 2), 2 * models
            rounds.append((choices, models))
        return rounds

    def _halved(
        self, tried: dict[Choice, Tried], made_from: int
    ) -> tuple[dict[Choice, Tried], int]:
        """The choices that are left when the worse half is dropped round by round, and the best
        with more canaries; and how many models were trained, those of ``tried`` among them.

        Few models say little of a choice, so that none is dropped by them alone while half of all
        are better.
        Source: Karnin, Koren and Somekh (2013), sequential halving.
        """
        trained, models = len(tried) * FIRST_MODELS, FIRST_MODELS

        def best(count: int) -> list[Choice]:
            worth = {c: (self._promise(t, self.models), t.telling) for c, t in tried.items()}
            return sorted(tried, key=lambda choice: worth[choice], reverse=True)[:count]

        def on_models(choices: Sequence[Choice]) -> dict[Choice, Tried]:
            results = {choice: self._tried(choice, models, made_from) for choice in choices}
            return {choice: result for choice, result in results.items() if result is not None}

        for count, models in self._rounds(len(tried)):
            tried = on_models(best(count))
            trained += len(tried) * models
        more = on_models([replace(each, count=self._many()) for each in best(FINALISTS)])
        return tried | more, trained + len(more) * models

    def _all(
        self, count: int, models: int, fewest: int, made_from: int, refused: list[InvalidParameter]
    ) -> dict[Choice, Tried]:
        """``count`` canaries of each kind, beside each kind of records, while training is cheap.

        At least the ``fewest`` first are tried, beside quiet records and the data first; errors of
        trainings that canaries break are kept in ``refused``.
        """
        tried: dict[Choice, Tried] = {}
        beside = list(BESIDE)
        order = [(k, b) for half in (beside[:2], beside[2:]) for k in self.kinds for b in half]
        for choice in (Choice(*pair, count) for pair in order):
            spent = models * sum(each.seconds for each in tried.values())
            if tried and len(tried) >= fewest and spent > CHEAP:
                break
            try:
                result = self._tried(choice, models, made_from)
            except InvalidParameter as error:
                refused.append(error)
                continue
            if result is not None:
                tried[choice] = result
                if len(tried) == 1 and count > 1:
                    self._announce(result.seconds)
        return tried

    def _climb(self, tried: dict[Choice, Tried], models: int, made_from: int) -> int:
        """Try variants of the best single canaries until one is likely to decide.

        If none is, keep only the best, and try them on so many models that chance does not choose
        among them.
        Returns: how many models were trained.
        """
        trained = 0
        for _ in range(ROUNDS):
            worth = {
                choice: (self._promise(each, models), each.telling)
                for choice, each in tried.items()
                if choice.count == 1
            }
            best = sorted(worth, key=lambda choice: worth[choice], reverse=True)[:CLIMBED]
            if not best or worth[best[0]][0] > _WORTH * self.terms.target.claimed:
                break
            for choice in (next_to for each in best for next_to in each.changed()):
                if choice in tried:
                    continue
                try:
                    result = self._tried(choice, MOST_ALONE, made_from)
                except InvalidParameter:  # training breaks on them
                    continue
                if result is not None:
                    tried[choice] = result
                    trained += MOST_ALONE
        else:
            sure = {choice: self._tried(choice, SURE_MODELS, made_from) for choice in best}
            trained += SURE_MODELS * len(sure)
            for choice in [each for each in tried if each.count == 1]:
                del tried[choice]
            tried |= {choice: result for choice, result in sure.items() if result is not None}
        return trained

    def _most(self) -> int:
        """The largest number of canaries that is tried."""
        return min(self._many(), self.data.unit_count // 2)

    def _check(self) -> None:
        """Errors: InvalidParameter where no outcome of the largest study could refute the claim."""
        largest = self.models * math.prod(GROWTH if self.grows else ())
        reach = max(self._reach(largest, units) for units in {1, max(self._most(), 1)})
        if not reach > self.terms.target.claimed:
            targets = largest - self._opened(largest)
            arguments = self.terms.target, targets, self._most(), self.terms.refute_at
            raise InvalidParameter(too_few(*arguments))

    def _announce(self, seconds: float) -> None:
        """Warn of long trainings: the pilot's that are left, and the study's."""
        firsts = max(1, self.models // FIRST_MODELS)
        reach = self._reach(self.models, self._most())
        rounds = [(firsts, FIRST_MODELS), *self._rounds(firsts)]
        rounds.append((min(firsts, FINALISTS), rounds[-1][1]))  # with more canaries
        pilot = sum(choices * models for choices, models in rounds)
        announce(
            seconds, pilot + self.models, self.jobs,
            f", to choose canaries and to count; at best they show {self.terms.target.measure} >= "
            f"{reach:.3g}; --set canaries=none leaves out the choice",
        )  # fmt: skip

    def _many(self) -> int:
        """As many canaries as the claim needs coins in the models that are counted."""
        needed = coins_needed(self.terms.target, self.terms.refute_at) or 0
        targets = self.models - self._opened(self.models)
        return max(MANY, min(2 * math.ceil(needed / targets), self.data.unit_count // 4))

    def _sizes(self, seconds: float) -> list[int]:
        """Numbers of models: as asked for, or more where that is cheap and nobody fixed it."""
        sizes = [self.models]
        for times in GROWTH if self.grows else ():
            if times * sizes[-1] * seconds > LONGEST:
                break
            sizes.append(times * sizes[-1])
        return sizes

    def _opened(self, models: int) -> int:
        """How many of the models are references: of more models than planned, fewer of them."""
        planned = references_of(self.models, self.references)
        return planned if models <= self.models else max(2 * planned, models // 8)

    def _best(self, tried: Mapping[Choice, Tried], sizes: Sequence[int]) -> tuple[Choice, bool]:
        """The choice, and the number of models, that promise the most, among numbers up to the one
        after the fewest that are likely to decide; and whether it is likely to decide.

        The fewest are chosen because they promise the most, and so keep less than they promise; and
        more may promise less, as each coin in play adds to the price of delta.
        """
        best: dict[Choice, tuple[float, float]] = {}
        likely = False
        for size in sizes:
            # Where nothing promises anything, what could show the most.
            shown = {
                replace(choice, models=size): (
                    self._promise(each, size), self._reach(size, choice.count),
                )
                for choice, each in tried.items()
                if size == self.models or size * choice.count <= MOST_COINS
            }  # fmt: skip
            best |= shown
            if likely or not shown:
                break
            likely = max(shown.values())[0] > _WORTH * self.terms.target.claimed
        return max(best, key=lambda choice: best[choice]), likely

    def _tried(self, choice: Choice, models: int, made_from: int) -> Tried | None:
        """``models`` models of a choice, with coins that are open."""
        study = self.study(choice, models, made_from, seed=made_from + 1)
        if study is None:
            return None
        by_attack, seconds = study.open(self.attacks, jobs=self.jobs)
        revealed = {
            name: float(np.sort(telling(scores))[-FEW:].mean())
            for name, scores in by_attack.items()
        }
        worth: Mapping[str, Any] = revealed
        if choice.count == 1 and models >= MOST_ALONE:
            # An attack that seldom tells everything promises more than one that always tells a
            # little.
            largest = self.models * math.prod(GROWTH if self.grows else ())
            worth = {
                name: (self._promised(scores, largest), revealed[name])
                for name, scores in by_attack.items()
            }
        known = {}
        for fewest in sorted({ATTACKS[name].fewest for name in by_attack}):
            usable = [name for name in by_attack if ATTACKS[name].fewest <= fewest]
            known[fewest] = by_attack[max(usable, key=lambda name: worth[name])]
        at_ends = max(of_one_side(scores) for scores in by_attack.values())
        return Tried(known, max(revealed.values()), at_ends, seconds)

    def _promise(self, tried: Tried, models: int) -> float:
        """The bound that a study of so many models would show."""
        units = next(iter(tried.known.values())).included.shape[1]
        # A study that could not refute the claim by any outcome promises less than all others.
        if not self._reach(models, units) > self.terms.target.claimed:
            return -1.0
        enough = [fewest for fewest in tried.known if fewest <= self._opened(models)]
        return self._promised(tried.known[max(enough)], models) if enough else -1.0

    def _promised(self, scores: Known, models: int) -> float:
        """With the error that the best of several attacks has."""
        targets = models - self._opened(models)
        alone = len(chosen_attacks(self.attacks) or ()) == 1
        share = error_shares(dict.fromkeys(("best",) if alone else ("best", "others"), 0.0))["best"]
        return promised(scores, targets, self.terms.target, self.terms.refute_at * share)

    def _reach(self, models: int, units: int) -> float:
        """The largest bound that a study can show."""
        targets = models - self._opened(models)
        return strongest(self.terms.target, targets, units, self.terms.refute_at)

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
