"""Residuals: checks that standardised noise is what was declared, fresh at every release.

A residual is a released value less the value computed, over the declared standard deviation
(kernels that are not Gaussian map it to normal first).  Under the declaration the residuals of a
trial's releases are independent N(0, 1), given which trials were on: whether a trial is on is made
of values released before.  Outcomes of positive probability are spread over their share of [0, 1]
by independent uniform numbers, so that this is exact for discrete noise of few values, and where
floats are coarse.  Every check is valid under exactly that, so the number of residuals may itself
depend on the noise.  p-values are of exact laws or bounds that hold for every number of residuals
(:mod:`dpaudit.check.laws`); the checker computes them by the same functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from dpaudit.check.laws import EXACT_DEGREES, SLOPE_VARIANCE, WINDOW, is_broken, p_value
from dpaudit.errors import InvalidParameter

FloatArray = npt.NDArray[np.float64]
Status: TypeAlias = Literal["held", "broken", "not_run"]

DEFAULT_ERROR = 1e-6  # false-alarm rate of all checks together
MAXIMUM_RANKED = 2_000_000  # residuals sorted at once
MAXIMUM_COLUMNS = 1_024  # columns of one correlation matrix
MAXIMUM_ENTRIES = 2 * 10**7  # entries of the rows it is made of
MAXIMUM_PRODUCTS = 5 * 10**10  # multiplications it may cost
# Residuals are clipped at this many standard deviations, so that no sum overflows.
MAX_RESIDUAL = 1e6
# Cell width, in standard deviations; residuals in the same cell count as equal.
DUPLICATE_CELL = 1e-5


@dataclass(frozen=True)
class Finding:
    """Finding of one check: right noise is called ``broken`` with chance ``error_rate`` at most.

    ``assumption``: the standing assumption that it tests.  ``tried``: on how many values, data sets
    or runs; 0 where the detail says it.  ``p_value``: NaN where there is none; by ``law`` it
    follows from the statistic of ``size`` residuals, pairs or draws, the worst ``among`` so many.
    ``parameter`` of the law: a slope's sum of squares, a binomial's rate; NaN where it has none.
    """

    check: str
    status: Status
    statistic: float
    error_rate: float
    detail: str
    assumption: str = "declared_noise"
    tried: int = 0
    p_value: float = math.nan
    law: str = ""
    size: int = 0
    among: int = 1
    parameter: float = math.nan


class _Test(NamedTuple):
    """A statistic and its law (:mod:`dpaudit.check.laws`), which gives a bound on its p-value."""

    statistic: float
    detail: str
    law: str = ""
    size: int = 0
    among: int = 1
    parameter: float = math.nan


_NOTHING = _Test(math.nan, "too few residuals")


def check_residuals(
    residuals: Mapping[str, npt.ArrayLike], error: float = DEFAULT_ERROR
) -> tuple[Finding, ...]:
    """Check residuals (label -> (trials, uses, d), NaN where a trial was off) to be fresh N(0, 1).

    Per label: range (largest residual), mean, variance, shape (Kolmogorov-Smirnov), successive
    (each release against the one before), coordinates (pairs within a release).  Over all:
    releases (every pair of releases, within and across labels), duplicates (equal vectors in two
    trials or releases).  The checks share ``error`` equally; each splits its share over the pairs
    or groups it looks at: all findings are ``held`` except with probability ``error`` if the
    residuals are as declared.  A check that cannot run is ``not_run`` and its share is not used.

    Errors: InvalidParameter for no labels, a wrong shape, different numbers of trials, a release
    that is NaN in part, or an error rate outside (0, 1).
    """
    if not 0 < error < 1:
        raise InvalidParameter(f"error = {error!r}: expected in (0, 1)")
    labels = {label: _label(label, values) for label, values in residuals.items()}
    if len({array.shape[0] for array in labels.values()}) != 1:
        counts = {label: array.shape[0] for label, array in labels.items()}
        raise InvalidParameter(f"residuals: trials {counts}; give one number for all labels")
    tests = [
        (f"{name} of {label}", test, array)
        for label, array in labels.items()
        for name, test in _LABEL_CHECKS.items()
    ]
    share = error / (len(tests) + len(_JOINT_CHECKS))
    each = [_finding(name, test(array), share) for name, test, array in tests]
    joint = [_finding(name, test(labels), share) for name, test in _JOINT_CHECKS.items()]
    return (*each, *joint)


def _finding(check: str, test: _Test, share: float) -> Finding:
    if not test.law:
        return Finding(check, "not_run", test.statistic, share, test.detail)
    p = p_value(test.law, test.statistic, test.size, test.among, test.parameter)
    return Finding(
        check,
        "broken" if is_broken(p, share) else "held",
        test.statistic,
        share,
        f"{test.detail}; p <= {p:.2g}, broken at {share:.2g}",
        p_value=p,
        law=test.law,
        size=test.size,
        among=test.among,
        parameter=test.parameter,
    )


def _label(label: str, values: npt.ArrayLike) -> FloatArray:
    """The residuals of one label as floats.  Errors: InvalidParameter."""
    array = np.asarray(values)
    if array.ndim != 3 or array.size == 0 or array.dtype.kind not in "fiu":
        expected = "numbers of shape (trials, uses, d), not empty"
        raise InvalidParameter(f"residuals of {label}: shape {array.shape}, expected {expected}")
    off = np.isnan(array)
    if np.any(off.any(axis=2) & ~off.all(axis=2)):
        raise InvalidParameter(
            f"residuals of {label}: a release is NaN in some entries; one that is off is NaN in all"
        )
    return np.clip(array.astype(np.float64), -MAX_RESIDUAL, MAX_RESIDUAL)


# Each label by itself.


def _range(array: FloatArray) -> _Test:
    """The largest |z|: P(max |z| > t) <= 2 N Phi(-t), N the most residuals there could be."""
    if np.all(np.isnan(array)):
        return _NOTHING
    largest = float(np.nanmax(np.abs(array)))
    return _Test(largest, f"largest residual {largest:.4g}", "range", array.size)


def _mean(array: FloatArray) -> _Test:
    """The mean: N(0, 1/n) exactly if no trial was off, else the slope on a constant."""
    values, fixed = _pooled(array)
    if values.size == 0:
        return _NOTHING
    mean = float(values.mean())
    detail = f"mean {mean:.5g} of {values.size} residuals, declared 0"
    return _Test(mean, detail, _law("mean", fixed=fixed), values.size)


def _variance(array: FloatArray) -> _Test:
    """The mean square: chi-square(n) / n exactly if no trial was off, else a mixture's bound."""
    values, fixed = _pooled(array)
    if values.size == 0:
        return _NOTHING
    variance = float(np.dot(values, values)) / values.size
    detail = f"variance {variance:.6g} of {values.size} residuals, declared 1"
    many = fixed and values.size > EXACT_DEGREES
    law = "variance bound" if many else _law("variance", fixed=fixed)
    return _Test(variance, detail, law, values.size)


def _law(name: str, *, fixed: bool) -> str:
    """The name of a law; another where some trials were off."""
    return name if fixed else f"{name} of some"


def _shape(array: FloatArray) -> _Test:
    """Kolmogorov-Smirnov distance D; P(D > t) <= 2 exp(-2 n t^2) at every n (Massart 1990).

    Pooled if no trial was off; otherwise use by use, since each use's residuals are independent
    given who was on, but their pooled number is not.  At most 2,000,000 residuals are ranked.
    """
    trials = max(1, MAXIMUM_RANKED // (array.shape[1] * array.shape[2]))
    values, fixed = _pooled(array[:trials])
    if values.size == 0:
        return _NOTHING
    groups = [values] if fixed else [_pooled(use)[0] for use in np.moveaxis(array[:trials], 1, 0)]
    distances = [(_distance(group), group.size) for group in groups if group.size]
    distance, size = max(distances, key=lambda pair: pair[0] ** 2 * pair[1])
    detail = f"distance {distance:.4g} from normal over {size} residuals, worst of {len(groups)}"
    return _Test(distance, detail, "shape", size, len(groups))


def _successive(array: FloatArray) -> _Test:
    """The slope of each release on the one before in its trial, over uses and coordinates."""
    before, after = array[:, :-1], array[:, 1:]
    both = ~np.isnan(before) & ~np.isnan(after)
    before, after = before[both], after[both]
    product, squares = float(np.dot(before, after)), float(np.dot(before, before))
    both_squares = squares * float(np.dot(after, after))
    if not both_squares > 0:  # no noise, or so little that its squares vanish
        return _NOTHING
    correlation = product / math.sqrt(both_squares)
    detail = f"correlation {correlation:.4g} with the release before, {before.size} pairs"
    slope = product / squares
    return _Test(slope, detail, "slope", parameter=squares)


def _coordinates(array: FloatArray) -> _Test:
    """Pairs of coordinates of a release, pooled over trials and uses; the first 1,024 of them."""
    rows = array[:, :, :MAXIMUM_COLUMNS].reshape(-1, min(array.shape[2], MAXIMUM_COLUMNS))
    rows = np.nan_to_num(rows[: _affordable(rows.shape[1])])
    products = rows.T @ rows
    # Coordinates are drawn together, so either of a pair may be treated as the later one.
    squares = np.broadcast_to(np.diag(products), products.shape)
    names = [str(index) for index in range(rows.shape[1])]
    return _worst_pair(products, squares, names)


def _releases(labels: Mapping[str, FloatArray]) -> _Test:
    """Every pair of releases, pooled over trials and coordinates; at most 1,024 releases.

    The later of two is N(0, 1) given the earlier and who was on.  Which is later is not known
    here, so the larger of the two sums of squares is used, which makes the bound weaker.
    """
    uses = max(1, MAXIMUM_COLUMNS // len(labels))
    width = max(array.shape[2] for array in labels.values())
    columns = sum(min(array.shape[1], uses) for array in labels.values())
    trials = max(2, _affordable(columns) // width)
    rows = np.concatenate(
        [_columns(array[:trials, :uses], width) for array in labels.values()], axis=1
    )
    on = (~np.isnan(rows)).astype(np.float64)
    rows = np.nan_to_num(rows)
    squares = (rows * rows).T @ on
    names = [f"{label}[{use}]" for label, a in labels.items() for use in range(a.shape[1])[:uses]]
    return _worst_pair(rows.T @ rows, np.maximum(squares, squares.T), names)


def _columns(array: FloatArray, width: int) -> FloatArray:
    """(trials, uses, d) as (trials x width, uses), missing coordinates as off."""
    missing = width - array.shape[2]
    padded = np.pad(array, ((0, 0), (0, 0), (0, missing)), constant_values=math.nan)
    return np.moveaxis(padded, 1, 2).reshape(-1, array.shape[1])


def _duplicates(labels: Mapping[str, FloatArray]) -> _Test:
    """Four residuals in a row that occur twice, along the releases or along the trials.

    A vector of four or more coordinates is compared by its first four; shorter ones are taken
    together with the next releases of their trial, and with the same release of the next trials.
    """
    uses = max(WINDOW, MAXIMUM_RANKED // sum(array.shape[0] for array in labels.values()))
    arrays = [array[:, :uses] for array in labels.values()]
    short = [array for array in arrays if array.shape[2] < WINDOW]
    repeated, pairs = 0, 0
    for axis, family in ((1, arrays), (0, short)):
        rows = np.concatenate([np.empty((0, WINDOW)), *(_windows(a, axis) for a in family)])
        # Rows that fall in the same cells as another one before them.
        cells = np.floor(rows / DUPLICATE_CELL).astype(np.int64)
        order = np.lexsort(cells.T)
        ordered = cells[order]
        repeated += int(np.count_nonzero((ordered[1:] == ordered[:-1]).all(axis=1)))
        pairs += len(rows) * (len(rows) - 1) // 2
    if pairs == 0:
        return _NOTHING
    vectors = sum(array.shape[0] * array.shape[1] for array in arrays)
    detail = f"{repeated} repeated vectors among {pairs} pairs"
    return _Test(repeated, detail, "repeats", vectors)


def _windows(array: FloatArray, axis: int) -> FloatArray:
    """Rows of four residuals: of one release, or of neighbours along ``axis``."""
    span = -(-WINDOW // array.shape[2])
    starts = array.shape[axis] - span + 1
    if starts < 1:
        return np.empty((0, WINDOW))
    shifted = [np.take(array, range(i, i + starts), axis) for i in range(span)]
    rows = np.concatenate(shifted, axis=2)[:, :, :WINDOW].reshape(-1, WINDOW)
    return rows[~np.isnan(rows).any(axis=1)]


def _affordable(columns: int) -> int:
    """How many rows, the first ones, enter a correlation matrix of so many columns."""
    return max(2, min(MAXIMUM_ENTRIES // columns, MAXIMUM_PRODUCTS // columns**2))


def _worst_pair(products: FloatArray, squares: FloatArray, names: list[str]) -> _Test:
    """The pair i < j whose slope is the least likely, with a Bonferroni factor for all pairs."""
    above = np.triu_indices(len(names), 1)
    if above[0].size == 0 or not products.any():
        return _NOTHING
    log_p = _slope_log_p(products[above], squares[above])
    worst = int(np.argmin(log_p))
    i, j = int(above[0][worst]), int(above[1][worst])
    scale = math.sqrt(products[i, i] * products[j, j])
    correlation = float(products[i, j]) / scale if scale else 0.0
    detail = f"correlation {correlation:.4g} of {names[i]} and {names[j]}, worst of {log_p.size}"
    most = float(squares[i, j])
    slope = float(products[i, j]) / most if most else 0.0
    return _Test(slope, detail, "slope", among=log_p.size, parameter=most)


def _slope_log_p(product: npt.ArrayLike, squares: npt.ArrayLike) -> FloatArray:
    """As :func:`dpaudit.check.laws.slope`, of many pairs at once: to choose the worst."""
    spread = 1 + SLOPE_VARIANCE * np.asarray(squares)
    gain = SLOPE_VARIANCE * np.asarray(product) ** 2 / (2 * spread)
    return np.asarray(np.log(spread) / 2 - gain)


def _pooled(array: FloatArray) -> tuple[FloatArray, bool]:
    """Residuals that are on, and whether all are: their number is then independent of the noise."""
    values = array.reshape(-1)
    on = ~np.isnan(values)
    return (values, True) if on.all() else (values[on], False)


def _distance(values: FloatArray) -> float:
    """Largest distance of the empirical distribution function from the normal one."""
    levels = ndtr(np.sort(values))
    steps = np.arange(values.size + 1) / values.size
    return float(max(np.max(steps[1:] - levels), np.max(levels - steps[:-1])))


_LABEL_CHECKS: dict[str, Callable[[FloatArray], _Test]] = {
    "range": _range,
    "mean": _mean,
    "variance": _variance,
    "shape": _shape,
    "successive": _successive,
    "coordinates": _coordinates,
}
_JOINT_CHECKS: dict[str, Callable[[Mapping[str, FloatArray]], _Test]] = {
    "releases": _releases,
    "duplicates": _duplicates,
}
