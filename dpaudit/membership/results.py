"""Findings about a study, and estimates of what attacks achieve.

Only :class:`~dpaudit.membership.bounds.LowerBound` is a bound; rates, areas and their intervals are
estimates.  Intervals resample whole models, because records of one model depend on each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpaudit.audit.roc import FALSE_POSITIVE_RATES, area
from dpaudit.membership.attacks import Attack
from dpaudit.membership.data import Data, FloatArray

BoolArray = npt.NDArray[np.bool_]

RESAMPLED = 1_000  # resamples of models behind each interval
_GROUPS = 256  # of models; of more models whole groups are resampled, as exact and faster
LEVEL = 0.95  # of the intervals
_THRESHOLDS = 160  # points of a curve, for each of three spacings
_SHOWN = 3  # groups of duplicates that a finding names
_BINS = 40  # of a histogram


@dataclass(frozen=True)
class Finding:
    """A fact about the study that its reader has to know; if it ``voids``, no bound is made."""

    name: str
    words: str
    voids: bool

    @classmethod
    def duplicates(cls, groups: Sequence[tuple[int, ...]], audited: Data) -> Finding:
        shown = "; ".join(
            ", ".join("background" if row == -1 else f"record {row}" for row in group)
            for group in groups[:_SHOWN]
        )
        more = f" and {len(groups) - _SHOWN} more" if len(groups) > _SHOWN else ""
        return cls(
            "duplicates",
            f"{len(groups)} contents occur on both sides of the line: {shown}{more}; a record left "
            "out may be in by its double. Leave doubles out (without_duplicates), or give them one "
            "unit",
            True,
        )

    @classmethod
    def shared(cls, how: str) -> Finding:
        return cls(
            "noise that models share",
            f"several models use the same draws of noise ({how}), so that together they show more "
            "than each alone. Draw noise in each training, or from the generator that fit is given",
            True,
        )

    @classmethod
    def same_noise(cls, *, claimed: bool) -> Finding:
        return cls(
            "the same noise in every model",
            "training on the same records gives the same model whatever the generator: its noise, "
            "if any, is a constant of the program"
            + (", and no claim about noise is true of it" if claimed else "")
            + ". Draw from the generator that fit is given",
            False,
        )

    @classmethod
    def stopped(cls, models: int, targets: int, error: float) -> Finding:
        return cls(
            "models to refusal",
            f"a test that looks after each model, and may stop at any, refuses the claim at error "
            f"{error:g} after {models:,} of the {targets:,} models that are counted",
            False,
        )

    @classmethod
    def looks(cls, models: int, planned: int) -> Finding:
        return cls(
            "looks",
            f"a study that may stop after {models:,} of {planned:,} models, and tests there and at "
            "its end with half of the error each",
            False,
        )

    @classmethod
    def control(cls, words: str) -> Finding:
        return cls("positive control", words, False)

    @classmethod
    def noticed(cls, epsilon: float, targets: int) -> Finding:
        return cls(
            "what would be noticed",
            f"by the best attack on the {targets:,} models that are counted, sums under Gaussian "
            f"noise would be refuted if they allowed epsilon {epsilon:.3g} or more; smaller "
            "excesses over the claim stay unseen, whatever the canaries are",
            False,
        )

    @classmethod
    def repeated(cls) -> Finding:
        return cls(
            "the same noise in every run",
            "every new run of the program starts with the same noise, as from a seed written into "
            "a module: whoever knows it subtracts it from a released model. Draw from the "
            "generator that fit is given, or from the system",
            False,
        )

    @classmethod
    def untested(cls, error: str) -> Finding:
        return cls(
            "shared noise is not tested",
            f"a new process could not repeat a training ({error}), so noise that is drawn once in "
            "a process would not be noticed. Give functions of a module that can be imported",
            False,
        )

    @classmethod
    def independent(cls, words: str) -> Finding:
        return cls("randomness from elsewhere than the generator", words, False)

    @classmethod
    def failed(cls, kinds: Sequence[str], models: int) -> Finding:
        named = ", ".join(sorted(set(kinds)))
        return cls(
            "failed trainings",
            f"{len(kinds)} of {models} trainings failed ({named}); their coins are guessed by what "
            "other models show",
            False,
        )

    @classmethod
    def missing(cls, count: int, total: int) -> Finding:
        return cls(
            "scores that are no numbers",
            f"{count:,} of {total:,} scores are NaN or infinite; they count as the record's median",
            False,
        )

    @classmethod
    def together(cls) -> Finding:
        return cls(
            "scores depend on the batch",
            "a record scores differently alone than among others; an attacker may see either",
            False,
        )


@dataclass(frozen=True)
class Interval:
    """An estimate and its percentile interval over resampled models, at 95%."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3g} ({self.low:.3g} to {self.high:.3g})"


@dataclass(frozen=True, eq=False)
class AttackResult:
    """Estimates of one attack over all models, each scored with the others as references.

    ``roc``: rows (false positive rate, true positive rate, low, high).  ``histogram``: rows (edge,
    share of members, share of non-members).
    """

    name: str
    words: str
    source: str
    auc: Interval
    advantage: Interval
    true_positive_rates: tuple[tuple[float, Interval], ...]
    roc: FloatArray
    histogram: FloatArray


def attack_result(attack: Attack, scores: FloatArray, included: BoolArray) -> AttackResult:
    """Estimates from scores and membership, (models, records)."""
    inside, outside = scores[included], scores[~included]
    thresholds = _thresholds(inside, outside)
    models = min(len(scores), _GROUPS)
    rows = np.array_split(scores, models)
    split = [np.array_split(side, models) for side in (included, ~included)]
    counts = [
        np.stack([_above(row[side], thresholds) for row, side in zip(rows, sides, strict=True)])
        for sides in split
    ]
    totals = [np.array([side.sum() for side in sides]) for sides in split]
    drawn = np.random.default_rng(0).multinomial(models, np.full(models, 1 / models), RESAMPLED)
    weights = np.concatenate([np.ones((1, models)), drawn])
    hits, alarms = (
        (weights @ count) / np.maximum(weights @ total, 1)[:, None]
        for count, total in zip(counts, totals, strict=True)
    )
    areas = np.sum(np.diff(alarms, axis=1) * (hits[:, 1:] + hits[:, :-1]) / 2, axis=1)
    best = np.max(hits - alarms, axis=1)
    rates = tuple(
        (rate, _interval(_at(alarms, hits, rate), models)) for rate in FALSE_POSITIVE_RATES
    )
    low, high = np.quantile(hits[1:], [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    auc = _interval(areas, models)
    return AttackResult(
        attack.name,
        attack.words,
        attack.source,
        Interval(area(inside, outside), auc.low, auc.high),
        _interval(best, models),
        rates,
        np.stack([alarms[0], hits[0], np.minimum(low, hits[0]), np.maximum(high, hits[0])], axis=1),
        _histogram(inside, outside),
    )


def _interval(values: FloatArray, models: int) -> Interval:
    if models < 2:
        return Interval(float(values[0]), 0.0, 1.0)
    low, high = np.quantile(values[1:], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(values[0]), float(min(low, values[0])), float(max(high, values[0])))


def _at(alarms: FloatArray, hits: FloatArray, rate: float) -> FloatArray:
    """The true positive rate at the last threshold with at most this false positive rate."""
    last = np.maximum((alarms <= rate).sum(axis=1) - 1, 0)
    return np.asarray(hits[np.arange(len(hits)), last])


def _thresholds(inside: FloatArray, outside: FloatArray) -> FloatArray:
    """Decreasing thresholds from above all scores, dense at small false positive rates."""
    rates = np.concatenate(
        [np.geomspace(0.5 / outside.size, 0.5, _THRESHOLDS), np.linspace(0, 1, _THRESHOLDS)]
    )
    ends = [np.inf, float(min(inside.min(), outside.min()))]
    of_members = np.quantile(inside, np.linspace(0, 1, _THRESHOLDS))
    # The next float above an order statistic, so that "score >= t" excludes that score.
    ordered = np.sort(outside)
    exact = ordered[np.clip(outside.size - np.ceil(rates * outside.size).astype(int), 0, None) - 1]
    strictly = np.nextafter(exact, np.inf)
    increasing = np.unique(np.concatenate([strictly, of_members, ends]))
    return increasing[::-1]


def _above(scores: FloatArray, thresholds: FloatArray) -> FloatArray:
    return np.asarray(scores.size - np.searchsorted(np.sort(scores), thresholds, "left"))


def _histogram(inside: FloatArray, outside: FloatArray) -> FloatArray:
    both = np.concatenate([inside, outside])
    low, high = np.quantile(both, [0.002, 0.998])
    if not low < high:
        low, high = low - 0.5, high + 0.5
    edges = np.linspace(low, high, _BINS + 1)
    shares = [
        np.histogram(np.clip(side, low, high), edges)[0] / side.size for side in (inside, outside)
    ]
    return np.stack([edges[:-1], *shares], axis=1)
