"""Learned scores: functions of a whole output that grow with the odds of the first data set.

Each is fitted on one half of the training draws and judged on the other.  Boosted trees come from
scikit-learn where it is installed; sums of log ratios and a linear score need only NumPy.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt

from dpaudit.audit.blackbox.cells import Sides, threshold_batches
from dpaudit.audit.blackbox.draws import Draws, TrainingDraws
from dpaudit.audit.blackbox.events import Measurement
from dpaudit.audit.blackbox.evidence import Batch

Array = npt.NDArray[Any]
# Standard errors subtracted from a learned event's evidence, so that simple events are preferred.
LEARNED_PENALTY = 0.3
SUM_CELLS = (8, 32)  # numbers of cells of a sum of outputs
MOST_ROWS = 20_000  # training draws of a classifier: more take seconds
BOOSTED_TREES = 60  # Trees of the boosted classifier.
_FINITE_EXTREME = 1e30  # Finite value in place of an infinite output, which the classifiers refuse.
_COVARIANCE_RIDGE = 1e-3  # Added to the diagonal of a covariance so that it can be inverted.


@dataclass(frozen=True, eq=False)
class SummedRatios:
    """The sum over measurements of the log ratio of the cell it falls into (naive Bayes)."""

    measurements: tuple[Measurement, ...]
    edges: tuple[Array, ...]
    ratios: tuple[Array, ...]

    code = ""

    @property
    def words(self) -> str:
        if len(self.measurements) == 1:
            return f"the log density ratio of {self.measurements[0].words}"
        return f"the sum of log density ratios of {len(self.measurements)} measurements"

    def __call__(self, draws: Draws) -> Array:
        total = np.zeros(draws.trials)
        for measurement, edges, ratios in zip(
            self.measurements, self.edges, self.ratios, strict=True
        ):
            total += ratios[_cell(edges, measurement(draws))]
        # Sums of the same cells in another order must tie.
        return np.round(total, 9)


@dataclass(frozen=True, eq=False)
class Linear:
    """A weighted sum of outputs, each cut off at its training quantiles."""

    columns: tuple[int, ...]
    low: Array
    high: Array
    weights: Array

    @property
    def words(self) -> str:
        shown = [f"{w:+.3g} output {c}" for w, c in zip(self.weights, self.columns, strict=True)]
        return "the linear score " + " ".join(shown[:6]) + (" ..." if len(shown) > 6 else "")

    @property
    def code(self) -> str:
        if len(self.columns) > 6:
            return ""
        low, high, weights = (v.tolist() for v in (self.low, self.high, self.weights))
        return (
            f"np.nan_to_num(np.clip(x[:, {list(self.columns)}].astype(float), {low}, {high})) "
            f"@ np.array({weights})"
        )

    def __call__(self, draws: Draws) -> Array:
        values = draws.values[:, self.columns].astype(float)
        return np.asarray(np.nan_to_num(np.clip(values, self.low, self.high)) @ self.weights)


@dataclass(frozen=True, eq=False)
class Boosted:
    """The probability of the first data set by boosted trees on several measurements."""

    measurements: tuple[Measurement, ...]
    model: Any

    code = ""

    @property
    def words(self) -> str:
        return f"the score of boosted trees on {len(self.measurements)} measurements"

    def __call__(self, draws: Draws) -> Array:
        table = np.column_stack([_finite(m(draws)) for m in self.measurements])
        with _one_thread():
            return np.round(np.asarray(self.model.decision_function(table), dtype=float), 9)


def has_trees() -> bool:
    """Whether scikit-learn (extra ``ml``) is installed."""
    return find_spec("sklearn") is not None


def learned_batches(
    first: TrainingDraws,
    second: TrainingDraws,
    measurements: Sequence[Measurement],
    columns: Sequence[int],
) -> Iterator[Batch]:
    """Thresholds of every score, fitted on the first halves and counted on the second."""
    fit = first.rows(slice(0, first.trials // 2)), second.rows(slice(0, second.trials // 2))
    judge = first.rows(slice(first.trials // 2, None)), second.rows(slice(second.trials // 2, None))
    for score in _scores(fit[0], fit[1], tuple(measurements), tuple(columns)):
        sides = Sides(score, score(judge[0]), score(judge[1]))
        yield from threshold_batches(sides, type(score).__name__, LEARNED_PENALTY)


def _scores(
    first: TrainingDraws,
    second: TrainingDraws,
    measurements: tuple[Measurement, ...],
    columns: tuple[int, ...],
) -> Iterator[Measurement]:
    values = [(m(first), m(second)) for m in measurements]
    if len(columns) > 1:
        for cells in SUM_CELLS:
            yield _summed(measurements[: len(columns)], values[: len(columns)], cells)
        yield linear_score(first, second, columns)
    if has_trees() and any(_varies(np.concatenate(pair)) for pair in values):
        yield _boosted(measurements, values)


def summed_ratios(
    measurements: Sequence[Measurement], first: TrainingDraws, second: TrainingDraws, cells: int
) -> SummedRatios:
    """The sum of log ratios of the cells, quantiles of both sides, that measurements fall into."""
    return _summed(measurements, [(m(first), m(second)) for m in measurements], cells)


def _summed(
    measurements: Sequence[Measurement], values: Sequence[tuple[Array, Array]], cells: int
) -> SummedRatios:
    edges = [_quantiles(np.concatenate(pair), cells) for pair in values]
    ratios = [_ratios(e, *pair) for e, pair in zip(edges, values, strict=True)]
    return SummedRatios(tuple(measurements), tuple(edges), tuple(ratios))


def _quantiles(values: Array, cells: int) -> Array:
    present = values[~np.isnan(values)] if values.dtype.kind == "f" else values
    if present.size == 0:
        return np.empty(0)
    distinct = np.unique(present)
    if distinct.size <= cells:
        return distinct[:-1]
    return np.unique(np.quantile(present, np.linspace(0, 1, cells + 1)[1:-1], method="lower"))


def _cell(edges: Array, values: Array) -> Array:
    """The cell of each value; NaN has the last."""
    cells = np.searchsorted(edges, values, "left")
    if values.dtype.kind != "f":
        return np.asarray(cells)
    return np.where(np.isnan(values), edges.size + 1, cells)


def _ratios(edges: Array, first: Array, second: Array) -> Array:
    counts = [np.bincount(_cell(edges, x), minlength=edges.size + 2) for x in (first, second)]
    return np.asarray(np.log((counts[0] + 1.0) / (counts[1] + 1.0)))


def linear_score(first: TrainingDraws, second: TrainingDraws, columns: tuple[int, ...]) -> Linear:
    """Fisher's discriminant, with a ridge."""
    both = [draws.values[:, columns].astype(float) for draws in (first, second)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        low, high = np.nanquantile(np.concatenate(both), [0.002, 0.998], axis=0)
    low, high = (
        np.nan_to_num(low, neginf=-_FINITE_EXTREME),
        np.nan_to_num(high, posinf=_FINITE_EXTREME),
    )
    cut = [np.nan_to_num(np.clip(x, low, high)) for x in both]
    spread = np.concatenate(cut).std(axis=0) + 1e-300
    centred = [x / spread for x in cut]
    covariance = sum(np.atleast_2d(np.cov(x, rowvar=False)) for x in centred)
    ridge = _COVARIANCE_RIDGE * np.eye(len(columns))
    gap = centred[0].mean(axis=0) - centred[1].mean(axis=0)
    weights = np.linalg.solve(covariance + ridge, gap) / spread
    return Linear(columns, low, high, np.nan_to_num(weights))


def _boosted(
    measurements: tuple[Measurement, ...], values: Sequence[tuple[Array, Array]]
) -> Boosted:
    from sklearn.ensemble import HistGradientBoostingClassifier

    useful = [i for i, pair in enumerate(values) if _varies(np.concatenate(pair))]
    measurements = tuple(measurements[i] for i in useful)
    values = [values[i] for i in useful]
    sides = [np.column_stack([_finite(pair[i]) for pair in values])[:MOST_ROWS] for i in (0, 1)]
    labels = np.repeat([1, 0], [len(sides[0]), len(sides[1])])
    model = HistGradientBoostingClassifier(
        max_iter=BOOSTED_TREES,
        learning_rate=0.15,
        max_leaf_nodes=15,
        min_samples_leaf=30,
        early_stopping=False,
        max_bins=128,
        random_state=0,
    )
    with _one_thread():
        model.fit(np.concatenate(sides), labels)
    return Boosted(measurements, model)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Without warnings, and without threads: where cores are busy they spin for each other.

    A fit is then also the same on any number of cores.
    """
    limits: Any = import_module("threadpoolctl").threadpool_limits  # scikit-learn requires it
    with warnings.catch_warnings(), limits(1):
        warnings.simplefilter("ignore")
        yield


def _varies(values: Array) -> bool:
    present = values[~np.isnan(values)] if values.dtype.kind == "f" else values
    return bool(present.size and (present != present[0]).any())


def _finite(values: Array) -> Array:
    return np.asarray(np.clip(values.astype(float), -_FINITE_EXTREME, _FINITE_EXTREME))
