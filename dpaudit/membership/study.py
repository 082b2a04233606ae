"""A study: draw and commit to coins, train many models (resumable), attack them, bound the loss."""

from __future__ import annotations

import contextlib
import json
import math
import os
import secrets
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, reduce
from pathlib import Path
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from dpaudit.audit.canaries.commitment import Labels, commit, load_labels
from dpaudit.audit.canaries.terms import CanaryTerms, ScoreTest
from dpaudit.audit.engine import Batch, Progress, generator, run_batches
from dpaudit.audit.verdict import Verdict
from dpaudit.curator.locations import at, line_of_error
from dpaudit.errors import LEFT_OUT, TRACEBACK, InvalidParameter, missing_extra
from dpaudit.families.opaque import ApproxDP
from dpaudit.membership import clock
from dpaudit.membership.attacks import ATTACKS, View, applicable, chosen_attacks
from dpaudit.membership.bounds import (
    Known,
    LowerBound,
    bound_of,
    coins_needed,
    noticed,
    promised,
    refused_after,
    strongest,
)
from dpaudit.membership.certificate import MembershipAudit
from dpaudit.membership.control import Without, clip_off, generator_of
from dpaudit.membership.data import Data, FloatArray, duplicates, joined, shared
from dpaudit.membership.exposure import exposure
from dpaudit.membership.randomness import examined, is_importable
from dpaudit.membership.results import Finding, attack_result
from dpaudit.membership.signals import (
    constant,
    fit_of,
    possible,
    scores_single_records,
    seen,
    signals,
)
from dpaudit.membership.targets import Released, Target, as_target, source_digest
from dpaudit.storage.batches import Arrays, AuditStore
from dpaudit.storage.files import write_new

BoolArray = npt.NDArray[np.bool_]

# Kinds of training: of a model; model 0 with the same generator again; with another generator.
MAIN, AGAIN, OTHER = 0, 1, 2
# Folds of the models, for estimates: each fold is attacked with the others as references.  Many
# models need fewer folds: some are references enough, and each fold costs time.
FOLDS, FOLDS_OF_MANY, MANY = 8, 4, 128
FIRST = 2  # trainings that fail before a study stops
LONG = 600.0  # seconds of trainings ahead that are announced
FEWEST_MODELS = 4  # two references and two targets
DEFAULT_DELTA = 1e-5  # at which epsilon is bounded without a claim
_REPEATED = 60.0  # seconds of a failed training that is run again for its text
_COINS, _LABELS = "coins.json", "labels.json"


@dataclass(frozen=True, eq=False)
class Training:
    """One training as a picklable task of the engine; its key is (model, kind of training)."""

    target: Target
    audited: Data
    background: Data | None
    population: Data | None
    included: BoolArray
    root_seed: int
    queries: tuple[Data, ...] = ()
    probes: Data | None = None
    last: bool = False
    without: Without = Without.NOTHING

    def __call__(self, batch: Batch, _: np.random.Generator) -> Arrays:
        model, kind = batch.key
        rng = generator(self.root_seed, (model, max(kind - MAIN - 1, 0)))
        started = clock.seconds()
        try:
            arrays = self._trained(rng, model, whole=model == 0)
            failed = ""
        except InvalidParameter:
            raise
        except (Exception, SystemExit) as error:  # of the user's own training
            if os.environ.get(TRACEBACK):
                raise
            arrays, failed = {}, f"{type(error).__name__}{at(line_of_error(error))}"
        arrays["failed"] = np.array([failed])
        arrays["seconds"] = np.array([clock.seconds() - started])
        return arrays

    def raw(self, stream: int) -> FloatArray:
        """Scores of the first model's training with a stream of its generator."""
        rng = generator(self.root_seed, (0, stream))
        return np.asarray(self._trained(rng, 0, whole=True)["raw"][0], dtype=np.float64)

    def failure(self, model: int, seconds: float) -> str:
        """The error of a training that failed after ``seconds``, and the way out.

        Its text is shown where it quotes no record: where training on generated records of the
        same shapes, types and classes raises the same.
        """
        error = _error_of(self, model) if seconds < _REPEATED else None
        if error is not None and (missing := missing_extra(error)):
            return f"fit: {missing}"
        if error is None:
            return f"fit: the first {FIRST} trainings failed ({LEFT_OUT})"
        alike = replace(
            self,
            audited=_generated(self.audited),
            background=None if self.background is None else _generated(self.background),
            population=None,
        )
        other, place = _error_of(alike, model), line_of_error(error) or "fit"
        text = f", {LEFT_OUT}"
        if other is not None and repr(other) == repr(error):
            text = f": {error}" if str(error) else ""
        return (
            f"{place} raised {type(error).__name__}{text}; the first {FIRST} trainings failed, and "
            "the others were not tried"
        )

    def _trained(self, rng: np.random.Generator, model: int, *, whole: bool) -> Arrays:
        """Train one model, and read its signals of the audited records."""
        # Copies, so that training code that writes into its records affects no other training.
        audited, population = _copied(self.audited), _copied(self.population)
        with quietly():
            fitted = self._fitted(self._members(model), rng)
            seed = self.root_seed % 2**32
            by_name = signals(self.target, fitted, audited, seed)
            arrays = {name: values[None] for name, values in by_name.items()}
            arrays |= self._answers(fitted)
            if population is not None:
                of_population = signals(self.target, fitted, population, seed)
                arrays |= {
                    f"population.{name}": values[None] for name, values in of_population.items()
                }
            if whole:
                # Scores of all records show whether two trainings gave the same model; a single
                # record's score may not depend on the noise.
                scored = _copied(joined(self.audited, self.background))
                score = np.asarray(self.target.score(fitted, scored), dtype=np.float64)
                alone = scores_single_records(self.target, fitted, _copied(self.audited))
                arrays |= {"raw": score[None], "alone": np.array([alone])}
        return arrays

    def _fitted(self, records: Data, rng: np.random.Generator) -> Any:
        rng = generator_of(self.without, rng)
        if self.without is not Without.CLIP:
            return self.target.fit(records, rng)
        with clip_off(self.target) as target:
            return target.fit(records, rng)

    def _answers(self, fitted: Any) -> Arrays:
        """A model's answers to the queries and probes, asked in one call: calls cost most."""
        asked = {f"query_{place}": query for place, query in enumerate(self.queries)}
        if self.probes is not None:
            asked["probes"] = self.probes
        if not asked:
            return {}
        said = fit_of(self.target, fitted, _copied(reduce(joined, asked.values())))[None]
        ends = np.cumsum([len(each) for each in asked.values()])[:-1]
        return dict(zip(asked, np.split(said, ends, axis=1), strict=True))

    def _members(self, model: int) -> Data:
        rows = self.included[model][self.audited.unit_of]
        if rows.any():
            members = self.audited.take(rows)
            if self.last and self.background is not None:
                return joined(self.background, members)
            return joined(members, self.background)
        if self.background is None:
            raise EmptyTraining("no coin came up: a model without records")
        return _copied(self.background)


def _error_of(training: Training, model: int) -> Exception | SystemExit | None:
    try:
        training._trained(generator(training.root_seed, (model, 0)), model, whole=False)
    except (Exception, SystemExit) as error:  # noqa: BLE001 (of the user's own training)
        return error
    return None


def _generated(data: Data) -> Data:
    """Records of the same shapes, types, classes and units that hold nothing of the others."""
    rng = np.random.default_rng(0)
    kind = data.features.dtype.kind
    values = rng.normal(size=data.features.shape)
    features = (values if kind == "f" else np.abs(values) > 1).astype(data.features.dtype)
    labels = data.labels
    if labels is not None:
        drawn = rng.normal(size=len(data))
        classes = np.unique(labels)
        labels = (
            drawn
            if labels.dtype.kind == "f"
            else classes[rng.permutation(len(data)) % classes.size]
        )
    return Data(features, labels, data.units)


@overload
def _copied(data: Data) -> Data: ...
@overload
def _copied(data: None) -> None: ...
def _copied(data: Data | None) -> Data | None:
    return None if data is None else data.take(np.arange(len(data)))


class EmptyTraining(Exception):
    """A model whose coins left out every record: a failed training."""


class IgnoredRecords(InvalidParameter):
    """Scores do not depend on which of the audited records a model was trained on."""


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """A user's training on one thread, without warnings; what it prints goes to stderr."""
    with (
        one_thread(),
        warnings.catch_warnings(),
        np.errstate(all="ignore"),
        contextlib.redirect_stdout(sys.stderr),
    ):
        warnings.simplefilter("ignore")
        yield


class one_thread:
    """BLAS, OpenMP and torch on one thread: tasks are the unit of parallel work."""

    def __enter__(self) -> None:
        self._limits = _thread_pools(len(sys.modules)).limit(limits=1)
        torch = sys.modules.get("torch")
        if torch is not None:
            torch.set_num_threads(1)

    def __exit__(self, *_: object) -> None:
        self._limits.restore_original_limits()


@lru_cache(maxsize=1)
def _thread_pools(_: int) -> Any:
    """The libraries with threads of their own; searched anew once more modules are imported."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


class LongTraining(UserWarning):
    """Training that will take long: how long, what it could show, and how to make it shorter."""


def announce(seconds: float, trainings: int, jobs: int, could_show: str) -> None:
    """Warn of trainings of so many seconds each, where they take long together."""
    total = seconds * trainings / max(jobs, 1)
    if total > LONG:
        warnings.warn(
            f"{trainings:,} trainings of {seconds:,.0f} s each are ahead, {total / 3600:,.1f} "
            f"hours by {max(jobs, 1)} at once{could_show}; fewer models, more jobs or a "
            "folder that resumes help, and --step checks one step in seconds",
            LongTraining,
            stacklevel=3,
        )


def too_few(tested: ScoreTest, targets: int, units: int, error: float) -> str:
    """The words for a study that can show no more than is claimed, and how many coins could."""
    reach, needed = strongest(tested, targets, units, error), coins_needed(tested, error)
    claim = f", and the claim is {tested.claimed:g}" if tested.claimed else ""
    opening = (
        f"this study: {targets * units:,} coins in {targets} target models could show "
        f"{tested.measure} >= {reach:.4g} at most, at error {error:g}{claim}; "
    )
    if needed is None:
        return opening + "no number of guesses can: use many models with one record (runs)"
    more = -(-needed // units)
    return opening + (
        f"{needed:,} are needed: give more records, or more models ({more:,} target models of "
        "these records, after the references); --step checks one step in seconds"
    )


def error_shares(worth: Mapping[str, float]) -> dict[str, float]:
    """The share of an error that each attack's bound may have, by what references promise of it.

    A half, a quarter, and so on, and the last as much as the one before: together 1, so that by a
    union bound the largest of all bounds is wrong at most with the whole error.
    """
    ordered = sorted(worth, key=lambda name: -worth[name])
    return {name: 0.5 ** min(rank + 1, len(ordered) - 1) for rank, name in enumerate(ordered)}


def references_of(models: int, share: float) -> int:
    """How many of the models are references: at least 2, and 2 targets are left."""
    return min(max(2, round(models * share)), models - 2)


@dataclass(eq=False)
class Study:
    """A membership study: the target, its records, and the number of models.

    ``audited``: the records under audit; a fair coin for each unit and model decides membership.
    ``background``: always in training.  ``population``: in no training, from the same source; some
    attacks need it.  ``references``: the share of models whose coins are known to attacks and to
    all choices; bounds are counted on the others.  ``folder`` keeps coins and finished trainings,
    so that an interrupted study resumes.  ``look``: a number of models, references included, after
    which the study stops where the claim is refuted; 0 for none.

    Errors: InvalidParameter for data or numbers that do not fit.
    """

    target: Any
    audited: Any
    models: int
    background: Any = None
    population: Any = None
    released: Released | str | None = None
    references: float = 0.5
    folder: str | Path | None = None
    seed: int | None = None
    queries: tuple[Data, ...] = ()
    probes: Data | None = None
    last: bool = False
    notes: tuple[Finding, ...] = ()
    without: Without = Without.NOTHING
    look: int = 0
    _kept: tempfile.TemporaryDirectory[str] | None = field(default=None, init=False, repr=False)
    _done: dict[Any, Arrays] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        self.target = as_target(self.target, self.released)
        self.audited = Data.of(self.audited)
        for name in ("background", "population"):
            if getattr(self, name) is not None:
                setattr(self, name, Data.of(getattr(self, name)))
                joined(self.audited, getattr(self, name))
        both = 0 if self.population is None else shared(self.audited, self.population)
        if both:
            raise InvalidParameter(
                f"population: {both:,} of the audited records are in it, and may be in training; "
                "drop them (without_duplicates)"
            )
        if type(self.models) is not int or not FEWEST_MODELS <= self.models < 2**31:
            raise InvalidParameter(
                f"models = {self.models!r}: expected an integer of {FEWEST_MODELS} or more"
            )
        if not 0 < self.references < 1:
            raise InvalidParameter(f"references = {self.references!r}: expected a share in (0, 1)")
        if self.background is None and self.audited.unit_count < 2:
            raise InvalidParameter(
                "audited: one unit and no background; a model without it has nothing to train on"
            )
        if self.folder is None:
            self._kept = tempfile.TemporaryDirectory(prefix="dpaudit-membership-")
            self.folder = self._kept.name
        self.folder = Path(self.folder)

    @property
    def reference_count(self) -> int:
        """The number of reference models: at least 2, and at most all but 2."""
        return references_of(self.models, self.references)

    @property
    def target_count(self) -> int:
        return self.models - self.reference_count

    # --- before training -------------------------------------------------------------------------

    def check(self, tested: ScoreTest, error: float) -> list[Finding]:
        """The findings that are known before any training.

        Errors: InvalidParameter, with the number of coins needed, if no outcome could refute the
        claim at ``error``.  A claim of 0 stands for none; then the error means that no outcome
        gives a positive bound.
        """
        findings = []
        groups = duplicates(self.audited, self.background)
        if groups:
            findings.append(Finding.duplicates(groups, self.audited))
        if tested.claimed < math.inf:
            reach = strongest(tested, self.target_count, self.audited.unit_count, error)
            if not reach > tested.claimed:
                units = self.audited.unit_count
                raise InvalidParameter(too_few(tested, self.target_count, units, error))
        return findings

    # --- training --------------------------------------------------------------------------------

    def coins(self) -> Labels:
        """The coins, (models x units,), drawn and committed to in the folder, or read back.

        Errors: CommitmentMismatch for coins that were changed; InvalidParameter for a folder of
        another study.
        """
        place = Path(str(self.folder))
        count = self.models * self.audited.unit_count
        if (place / _COINS).exists() and (place / _LABELS).exists():
            labels = load_labels(place / _LABELS, place / _COINS)
            if labels.canaries != count:
                raise InvalidParameter(
                    f"{place}: holds the coins of another study ({labels.canaries:,}, not "
                    f"{count:,}); choose another folder"
                )
            return labels
        labels = commit(place / _COINS, count, seed=self.seed)
        labels.save(place / _LABELS)
        return labels

    def train(
        self,
        *,
        jobs: int = 1,
        progress: Progress | None = None,
        repeated: bool = True,
        could_show: str = "",
        count: int = 0,
    ) -> Trained:
        """Train all models, or the ``count`` first; finished trainings are read from the folder.

        Trainings that will take long are announced after the first, with ``could_show``.

        Errors: InvalidParameter for scores of a wrong shape, models that cannot score a record
        alone, or more than half of the trainings failing; WorkersLost.
        """
        labels = self.coins()
        included = labels.included.reshape(self.models, self.audited.unit_count)
        task = self.task(included)
        seed = task.root_seed
        count = count or self.models
        batches = [Batch((model, MAIN), 1) for model in range(count)]
        if repeated:
            batches += [Batch((0, AGAIN), 1), Batch((0, OTHER), 1)]
        store = None
        if self._kept is None:  # a temporary folder cannot be resumed from
            store = AuditStore(Path(str(self.folder)) / "runs", self._identity(labels, seed))
        done = self._done

        def run(chosen: Sequence[Batch]) -> None:
            chosen = [batch for batch in chosen if batch.key not in done]
            before = len(done)

            def report(new: int, _: int) -> None:
                if progress is not None:
                    progress(before + new, len(batches))

            done.update(
                run_batches(task, chosen, root_seed=seed, jobs=jobs, store=store, progress=report)
            )

        for first in batches[:FIRST]:  # where neither can be trained the others are not tried
            run([first])
            if not done[first.key]["failed"][0]:
                break
        else:
            raise InvalidParameter(task.failure(0, float(done[(0, MAIN)]["seconds"][0])))
        announce(float(done[first.key]["seconds"][0]), len(batches) - len(done), jobs, could_show)
        run(batches)
        return Trained.of(done, included[:count], labels)

    def task(self, included: BoolArray) -> Training:
        """The trainings of models on these members, (models, units)."""
        seed = self.seed if self.seed is not None else self._root_seed()
        data = (self.audited, self.background, self.population)
        return Training(
            self.target,
            *data,
            included,
            seed,
            self.queries,
            self.probes,
            self.last,
            self.without,
        )

    def _root_seed(self) -> int:
        place = Path(str(self.folder)) / "seed.json"
        if not place.exists():
            with contextlib.suppress(FileExistsError):  # another process was first
                write_new(place, json.dumps(secrets.randbits(127)).encode())
        return int(json.loads(place.read_text()))

    def _identity(self, labels: Labels, seed: int) -> str:
        parts = [source_digest(self.target), labels.commitment, str(seed), str(self.models)]
        for data in (self.audited, self.background, self.population):
            parts.append("none" if data is None else data.digest())
        return "\n".join(["dpaudit membership study, version 1", *parts])

    # --- all of it -------------------------------------------------------------------------------

    def run(
        self,
        *,
        claim: object = None,
        attacks: str | Sequence[str] | None = None,
        confidence: float = 0.95,
        refute_at: float = 1e-4,
        groups: npt.ArrayLike | None = None,
        jobs: int = 1,
        progress: Progress | None = None,
    ) -> MembershipAudit:
        """Train, attack and bound; ``claim``: PureDP, ApproxDP or GDP per unit, under add/remove.

        Without a claim there is no verdict, and epsilon is bounded from below at delta 1e-5.
        ``groups``: one value a record, for exposure by group.

        Errors: InvalidParameter for bad terms, or a study that cannot show anything; the errors of
        :meth:`train`.
        """
        names = chosen_attacks(attacks)
        terms = CanaryTerms.of(claim or ApproxDP(0, DEFAULT_DELTA), confidence, refute_at, 0)
        if terms.target.measure not in ("epsilon", "mu"):
            raise InvalidParameter(
                f"claim of {terms.target.measure}: expected PureDP, ApproxDP or GDP; convert it"
            )
        allowed = {
            "references": self.reference_count,
            "population": 0 if self.population is None else len(self.population),
        }
        expected = possible(self.target.released) | ({"query_0"} if self.queries else set())
        applicable(names, expected, **allowed)
        before = self.check(terms.target, terms.shown if claim is None else terms.refute_at)
        reach = strongest(terms.target, self.target_count, self.audited.unit_count, terms.shown)
        could_show = f"; at best they show {terms.target.measure} >= {reach:.3g}"
        looks = [self.look, self.models] if self.look else [self.models]
        noise = None
        for count in looks:
            trained = self.train(jobs=jobs, progress=progress, could_show=could_show, count=count)
            if noise is None:
                noise = self._noise(trained, jobs=jobs, claimed=claim is not None)
            findings = [*self.notes, *before, *noise, *trained.findings()]
            shown = {name for name in trained.signals if not name.startswith("population.")}
            found = self.result(
                trained, applicable(names, shown, **allowed), terms, findings, groups,
                claimed=claim is not None, looks=len(looks),
            )  # fmt: skip
            if found.verdict is Verdict.REFUTED:
                break
        return found

    def open(
        self, attacks: str | Sequence[str] | None = None, *, jobs: int = 1
    ) -> tuple[dict[str, Known], float]:
        """Scores by each attack and all coins, of a study that is not counted; seconds a model.

        The seconds are those of the fastest training, and waits for a processor are not in them:
        how many models are planned should not depend on what else the machine does.

        Errors: InvalidParameter for models that show nothing; whatever :meth:`train` raises.
        """
        trained = self.train(jobs=jobs, repeated=False)
        trained.findings()
        shown = {name for name in trained.signals if not name.startswith("population.")}
        names = applicable(chosen_attacks(attacks), shown, references=self.models, population=0)
        everyone, unit_of = np.arange(self.models), self.audited.unit_of
        scores = {name: _by_unit(self._crossed(trained, name, everyone), unit_of) for name in names}
        by_attack = {name: Known(each, trained.included) for name, each in scores.items()}
        return by_attack, float(trained.seconds.min())

    def _noise(self, trained: Trained, *, jobs: int, claimed: bool) -> list[Finding]:
        first, again, other = trained.raw
        if first is None or again is None or other is None:
            return []
        return examined(
            self.task(trained.included).raw,
            (first[0], again[0], other[0]),
            jobs=jobs,
            importable=is_importable(self.target),
            claimed=claimed,
        )

    def result(
        self,
        trained: Trained,
        names: Sequence[str],
        terms: CanaryTerms,
        findings: Sequence[Finding],
        groups: npt.ArrayLike | None,
        *,
        claimed: bool,
        looks: int = 1,
    ) -> MembershipAudit:
        """Attack the trained models, and bound; ``findings`` are those known so far.

        Each of several ``looks`` has the same part of all errors, so that by a union bound what is
        said at the one where the study stops holds at the whole.
        """
        models = len(trained.included)
        references, targets = np.split(np.arange(models), [self.reference_count])
        unit_of = self.audited.unit_of
        by_record = trained.included[:, unit_of]
        results, by_attack, scores = {}, {}, {}
        for name in names:
            crossed = self._crossed(trained, name, np.arange(models))
            results[name] = attack_result(ATTACKS[name], crossed, by_record)
            if any(finding.voids for finding in findings):
                continue
            if ATTACKS[name].references:
                reference_scores = self._crossed(trained, name, references)
                target_scores = self._scores(trained, name, references, targets)
            else:
                reference_scores, target_scores = crossed[references], crossed[targets]
            by_attack[name] = Known(
                _by_unit(reference_scores, unit_of), trained.included[references]
            )
            scores[name] = _by_unit(target_scores, unit_of)
        target, included = terms.target, trained.included[targets]
        worth = {
            name: promised(by_attack[name], targets.size, target, terms.shown) for name in by_attack
        }
        shares = error_shares(worth)

        def strongest_of(error: float, seed: int) -> dict[str, LowerBound]:
            return {
                name: bound_of(
                    by_attack[name], scores[name], included, target, error * share / looks, seed
                )
                for name, share in shares.items()
            }

        bounds, best, decisive = strongest_of(terms.shown, 0), "", None
        if bounds:
            best = max(bounds, key=lambda name: bounds[name].value)
        if bounds and claimed:
            deciding = strongest_of(terms.refute_at, 1)
            best = max(deciding, key=lambda name: (deciding[name].value, bounds[name].value))
            decisive = deciding[best]
        if decisive is not None:
            known = by_attack[best], scores[best], included
            error = terms.refute_at / looks
            more = self._beside_verdict(terms, decisive, known, error, error * shares[best])
            findings = [*findings, *more]
        if looks > 1:
            findings = [*findings, Finding.looks(self.look, self.models)]
        return MembershipAudit(
            target=self.target.words,
            released=str(seen(self.target.released, trained.signals)),
            terms=terms,
            claimed=claimed,
            attacks=results,
            bounds=bounds,
            best=best,
            decisive=decisive,
            achievable=strongest(
                target, targets.size, self.audited.unit_count, terms.refute_at / looks
            ),
            findings=tuple(findings),
            exposure=exposure(trained.fit, by_record, self.audited.labels, groups),
            models=models,
            references=self.reference_count,
            records=len(self.audited),
            units=self.audited.unit_count,
            commitment=trained.labels.commitment,
            seconds=float(trained.seconds.sum()),
            data_digest=self.audited.digest(),
        )

    def _beside_verdict(
        self,
        terms: CanaryTerms,
        decisive: LowerBound,
        known: tuple[Known, FloatArray, BoolArray],
        whole: float,
        error: float,
    ) -> list[Finding]:
        """When a test would have stopped, or what would have been refuted; no error of its own.

        ``whole``: the error of all attacks together, of which the best one's is ``error``.
        """
        target, (targets, units) = terms.target, known[2].shape
        if not decisive.value > target.claimed:
            least = noticed(target, targets, units, whole / 2)
            return [] if least is None else [Finding.noticed(least, targets)]
        if target.measure != "epsilon":
            return []
        stopped = refused_after(*known, target, error)
        return [] if stopped is None else [Finding.stopped(stopped, targets, terms.refute_at)]

    def _crossed(self, trained: Trained, name: str, places: Any) -> FloatArray:
        """Scores of these models, each fold attacked with the other folds as references."""
        folds = min(FOLDS if places.size < MANY else FOLDS_OF_MANY, places.size)
        if not ATTACKS[name].references:
            return self._scores(trained, name, places, places)
        scores = np.empty((places.size, len(self.audited)))
        for fold in range(folds):
            in_fold = np.arange(places.size) % folds == fold
            scores[in_fold] = self._scores(trained, name, places[~in_fold], places[in_fold])
        return scores

    def _scores(self, trained: Trained, name: str, references: Any, targets: Any) -> FloatArray:
        def rows(prefix: str, places: Any) -> Mapping[str, FloatArray]:
            return {
                key.removeprefix(prefix): values[places]
                for key, values in trained.signals.items()
                if key.startswith("population.") == bool(prefix)
            }

        view = View(
            references=rows("", references),
            included=trained.included[references][:, self.audited.unit_of],
            targets=rows("", targets),
            population=rows("population.", references),
            population_targets=rows("population.", targets),
            records=self.audited,
            population_records=self.population,
            seed=0,
        )
        with one_thread():
            return ATTACKS[name].score(view)


def _by_unit(scores: FloatArray, unit_of: npt.NDArray[np.intp]) -> FloatArray:
    """The score of each unit, the sum over its records; (models, units)."""
    if unit_of.size == unit_of.max() + 1:
        return scores[:, np.argsort(unit_of)]
    sums = np.zeros((scores.shape[0], int(unit_of.max()) + 1))
    np.add.at(sums.T, unit_of, scores.T)
    return sums


@dataclass(frozen=True, eq=False)
class Trained:
    """All trainings: signals by name, (models, records), and the members, (models, units)."""

    signals: Mapping[str, FloatArray]
    included: BoolArray
    labels: Labels
    failed: tuple[str, ...]
    seconds: FloatArray
    raw: tuple[FloatArray | None, FloatArray | None, FloatArray | None]
    alone: bool

    @classmethod
    def of(cls, done: Mapping[Any, Arrays], included: BoolArray, labels: Labels) -> Trained:
        """Collect the arrays of the single trainings.

        Errors: InvalidParameter where more than half of the trainings failed.
        """
        models = included.shape[0]
        rows = [done[(model, MAIN)] for model in range(models)]
        failed = tuple(str(row["failed"][0]) for row in rows)
        broken = [name for name in failed if name]
        if 2 * len(broken) > models:
            kinds = ", ".join(sorted(set(broken)))
            raise InvalidParameter(
                f"fit: {len(broken)} of {models} trainings failed ({kinds}); run one by hand on "
                "half of the records"
            )
        complete = next(row for row in rows if not row["failed"][0])
        names = [n for n in complete if n not in ("failed", "seconds", "raw", "alone")]
        stacked = {
            name: np.concatenate(
                [row.get(name, np.full(complete[name].shape, np.nan)) for row in rows]
            )
            for name in names
        }
        first, again, other = (done.get((0, kind), {}).get("raw") for kind in (MAIN, AGAIN, OTHER))
        return cls(
            stacked,
            included,
            labels,
            failed,
            np.concatenate([row["seconds"] for row in rows]),
            (first, again, other),
            bool(complete.get("alone", np.array([True]))[0]),
        )

    @property
    def fit(self) -> FloatArray:
        """The signal for exposure: the fit; with labels only, the agreement or correctness."""
        for name in ("fit", "agreement", "correct"):
            if name in self.signals:
                return self.signals[name]
        raise InvalidParameter("signals: none of a record's fit")

    def findings(self) -> list[Finding]:
        """The findings that the finished trainings give: failures, missing scores, randomness.

        Errors: InvalidParameter for scores that are constant, all NaN, or independent of the
        training records.
        """
        main = self.fit
        if not np.isfinite(main).any():
            raise InvalidParameter("score: no finite score in any model; training diverged")
        if constant(main):
            raise IgnoredRecords(
                "score: the same for every record in every model; nothing can be told from it"
            )
        usable = main[[not name for name in self.failed]]
        if usable.shape[0] > 1 and np.array_equal(
            usable, np.broadcast_to(usable[0], usable.shape), equal_nan=True
        ):
            raise IgnoredRecords(
                "fit: every model scores the same whatever it was trained on; it ignores its "
                "records, or score ignores its model"
            )
        collected = []
        broken = [name for name in self.failed if name]
        if broken:
            collected.append(Finding.failed(broken, len(self.failed)))
        missing = int(np.count_nonzero(~np.isfinite(usable)))
        if missing:
            collected.append(Finding.missing(missing, usable.size))
        if not self.alone:
            collected.append(Finding.together())
        return collected
