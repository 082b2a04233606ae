"""Attacks across releases: noise that is used again, or is made of the noise of other releases.

Under the declaration the standardised noises (residuals) of a trial's releases are independent
N(0, 1), given what was released before.  An attacker who sees several releases whose noises depend
on one another subtracts the noise, all of it if the dependence is exact.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import gammainc

from dpaudit.audit.residuals import Finding
from dpaudit.errors import InvalidParameter

FloatArray = npt.NDArray[np.float64]

MOST_COLUMNS = 256  # releases, or coordinates of releases, in one regression
MOST_ROWS = 40_000  # residuals of a column: 40,000 show a correlation of .03
# Share of a column's length that a regression may leave of an exact combination.
EXACT_RESIDUAL = 1e-9
# Factor above the relative rounding error of SciPy's incomplete gamma function.
ROUND_UP = 1 + 1e-9
RANK, EXPLAINED = "linear dependence across releases", "noise explained by other releases"
COORDINATES = "noise explained by other coordinates"


@dataclass(frozen=True, eq=False)
class _Columns:
    """Noises as columns in the order in which they were drawn; 0 where a trial was off."""

    values: FloatArray
    on: npt.NDArray[np.bool_]
    names: tuple[str, ...]


def check_dependence(
    residuals: Mapping[str, npt.ArrayLike],
    error: float,
    order: Sequence[tuple[str, int]] | None = None,
) -> tuple[Finding, ...]:
    """Test residuals, label -> (trials, uses, d) with NaN where off, for linear dependence.

    Each noise z_j (trials, or trials times coordinates) is regressed on the k noises drawn before
    it.  Given those, and who was on, z_j is N(0, I_n), so what the regression leaves has
    RSS_j ~ chi-square(n - k) exactly, whatever k noises they are; a small RSS_j says that z_j is
    (nearly) a combination of them.  Exact lower tails, Bonferroni over releases; the checks share
    ``error`` equally.  ``linear dependence``: RSS_j is zero up to rounding, so that the matrix of
    noises has not full rank: under the declaration that has probability zero.
    ``order``: (label, use) as drawn; without it, uses of one label are in order, and labels are
    compared with each other only where every trial was on (then the order does not matter).
    Errors: InvalidParameter for no labels, a shape that is not (trials, uses, d), different
    numbers of trials, an order that names other releases, or an error rate outside (0, 1).
    Source: Cochran (1934), the chi-square law of a projection's remainder.
    """
    if not 0 < error < 1:
        raise InvalidParameter(f"error = {error!r}: expected in (0, 1)")
    labels = {label: _array(label, values) for label, values in residuals.items()}
    if len({len(values) for values in labels.values()}) != 1:
        raise InvalidParameter("residuals: give one number of trials for all labels, and a label")
    drawn = _order(labels, order)
    releases = [
        remainder for group in drawn for remainder in _remainders(_by_release(labels, group))
    ]
    flat = [
        remainder for group in drawn for remainder in _remainders(_by_coordinate(labels, group))
    ]
    return (
        _rank(releases + flat),
        _explained(EXPLAINED, releases, error / 2),
        _explained(COORDINATES, flat, error / 2),
    )


@dataclass(frozen=True)
class _Remainder:
    """The residual of one noise after a regression on the noises before it."""

    name: str
    left: float
    length: float
    degrees: int

    @property
    def p_value(self) -> float:
        """P(chi-square(degrees) <= left), rounded up."""
        return min(1.0, ROUND_UP * float(gammainc(self.degrees / 2, self.left / 2)))

    @property
    def exact(self) -> bool:
        """Whether nothing is left but rounding."""
        return self.left <= (EXACT_RESIDUAL**2) * self.length


def _array(label: str, values: npt.ArrayLike) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 3 or array.size == 0:
        raise InvalidParameter(
            f"residuals of {label}: shape {array.shape}; expected (trials, uses, d), not empty"
        )
    return array


def _order(
    labels: Mapping[str, FloatArray], order: Sequence[tuple[str, int]] | None
) -> list[list[tuple[str, int]]]:
    """Groups of releases that are compared with each other, each in order of drawing."""
    releases = [(label, use) for label, a in labels.items() for use in range(a.shape[1])]
    if order is not None:
        if sorted(order) != sorted(releases):
            raise InvalidParameter("order: expected every release of the residuals, each once")
        return [list(order)]
    if all(not np.isnan(a).any() for a in labels.values()):
        return [releases]
    return [[release for release in releases if release[0] == label] for label in labels]


def _by_release(labels: Mapping[str, FloatArray], order: Sequence[tuple[str, int]]) -> _Columns:
    """A column a release, a row for each trial and coordinate; a short vector is off further on."""
    releases = list(order)[:MOST_COLUMNS]
    width = max(labels[label].shape[2] for label, _ in releases)
    trials = max(1, min(len(next(iter(labels.values()))), MOST_ROWS // width))
    columns = np.full((trials, width, len(releases)), np.nan)
    for j, (label, use) in enumerate(releases):
        values = labels[label][:trials, use]
        columns[:, : values.shape[1], j] = values
    return _columns(
        columns.reshape(-1, len(releases)), [f"{label}[{use}]" for label, use in releases]
    )


def _by_coordinate(labels: Mapping[str, FloatArray], order: Sequence[tuple[str, int]]) -> _Columns:
    """A column for each coordinate of each release, a row a trial; at most a third as many."""
    trials = len(next(iter(labels.values())))
    room = min(MOST_COLUMNS, trials // 3)
    parts = [(label, use, k) for label, use in order for k in range(labels[label].shape[2])][:room]
    if not parts:
        return _columns(np.empty((0, 0)), [])
    values = np.stack([labels[label][:MOST_ROWS, use, k] for label, use, k in parts], axis=1)
    return _columns(values, [f"{label}[{use}].{k}" for label, use, k in parts])


def _columns(values: FloatArray, names: Sequence[str]) -> _Columns:
    on = ~np.isnan(values)
    return _Columns(np.where(on, values, 0.0), on, tuple(names))


def _remainders(columns: _Columns) -> list[_Remainder]:
    """The regression of every column on those before it that have enough rows to tell."""
    if columns.values.size == 0:
        return []
    if columns.on.all():
        # By one QR decomposition: the diagonal of R is what each column adds to those before it.
        rows, count = columns.values.shape
        usable = min(count, rows - 1)
        diagonal = np.abs(np.diag(np.linalg.qr(columns.values[:, :usable], mode="r")))
        lengths = np.square(columns.values).sum(axis=0)
        return [
            _Remainder(columns.names[j], float(diagonal[j] ** 2), float(lengths[j]), rows - j)
            for j in range(1, usable)
            if lengths[j] > 0
        ]
    return [
        remainder
        for j in range(1, len(columns.names))
        if (remainder := _one(columns, j)) is not None
    ]


def _one(columns: _Columns, j: int) -> _Remainder | None:
    rows = columns.on[:, j]
    before, noise = columns.values[rows, :j], columns.values[rows, j]
    if len(noise) <= j + 1 or not noise.any():
        return None
    coefficients, _, rank, _ = np.linalg.lstsq(before, noise, rcond=None)
    residual_square = float(np.square(noise - before @ coefficients).sum())
    return _Remainder(
        columns.names[j], residual_square, float(noise @ noise), len(noise) - int(rank)
    )


def _rank(remainders: Sequence[_Remainder]) -> Finding:
    """The finding whether any noise is a combination of earlier noises."""
    exact = [remainder.name for remainder in remainders if remainder.exact]
    if not remainders:
        return Finding(RANK, "not_run", math.nan, 0.0, "one release alone")
    if exact:
        more = f" and {len(exact) - 1} more" if len(exact) > 1 else ""
        detail = f"the noise of {exact[0]}{more} is a combination of the noises before"
        return Finding(RANK, "broken", float(len(exact)), 0.0, detail)
    return Finding(
        RANK, "held", 0.0, 0.0, f"{len(remainders)} noises, none a combination of others"
    )


def _explained(check: str, remainders: Sequence[_Remainder], share: float) -> Finding:
    if not remainders:
        return Finding(check, "not_run", math.nan, share, "too few releases, or trials")
    worst = min(remainders, key=lambda remainder: remainder.p_value)
    p = min(1.0, worst.p_value * len(remainders))
    explained = 1 - worst.left / worst.length
    detail = (
        f"{explained:.4g} of the noise of {worst.name} is explained by the noises before, worst of "
        f"{len(remainders)}; p <= {p:.2g}, broken at {share:.2g}"
    )
    return Finding(check, "broken" if p <= share else "held", explained, share, detail)
