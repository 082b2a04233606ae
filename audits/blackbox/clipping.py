"""Clipping that does not bound what one record can do."""

from __future__ import annotations

import math

import numpy as np

from audits.blackbox.case import (
    Array,
    Domain,
    Family,
    Generator,
    Pair,
    Relation,
    frozen,
    laplace_above,
    normal_above,
    reals,
)
from dpaudit.families.opaque import GDP, ZCDP, ApproxDP, PureDP

FAMILY = Family("clipping")
ONE = PureDP(1)
ABADI = "Abadi et al. 2016, Deep learning with differential privacy, Algorithm 1"
CLIP = "Dwork and Roth 2014, section 3.3; every record has to be clipped before it is summed"


def _vectors(record: list[float], reach: float, special: tuple[float, ...] = ()) -> Pair:
    """A record against a record of zeros, among three."""
    width = len(record)
    zeros = np.zeros((3, width))
    other = zeros.copy()
    other[0] = record
    domain = Domain(3, 3, -reach, reach, (width,), special=special)
    return Pair(frozen(zeros), frozen(other), domain, Relation.REPLACE_ONE)


def _numbers(one: float, low: float, high: float, special: tuple[float, ...] = ()) -> Pair:
    domain = Domain(3, 3, low, high, special=special)
    return Pair(reals(0, 0, 0), reals(one, 0, 0), domain, Relation.REPLACE_ONE)


def _clip_norm(rows: Array, radius: float) -> Array:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows * np.minimum(1.0, radius / np.maximum(norms, radius)))


def _gaussian_sum(rows: Array, deviation: float, rng: Generator, size: int) -> Array:
    return np.asarray(rows.sum(axis=0) + deviation * rng.standard_normal((size, rows.shape[1])))


def _laplace_sum(values: Array, rng: Generator, size: int, scale: float = 1.0) -> Array:
    return np.asarray(values.sum() + scale * rng.laplace(size=size))


CORNER = _vectors([1.0] * 4, 1.0)
FAR = _vectors([3.0] + [0.0] * 3, 3.0)
OPPOSITE = Pair(
    frozen(np.array([[-1.0, 0.0], [0.0, 0.0]])),
    frozen(np.array([[1.0, 0.0], [0.0, 0.0]])),
    Domain(2, 2, -3.0, 3.0, (2,)),
    Relation.REPLACE_ONE,
)


@FAMILY.correct(GDP(1), OPPOSITE, ABADI)
def clip_by_norm(data: Array, rng: Generator, size: int) -> Array:
    """Right: rows of l2-norm at most 1, replaced: sensitivity 2, noise N(0, 2^2)."""
    return _gaussian_sum(_clip_norm(data, 1.0), 2.0, rng, size)


@FAMILY.buggy(
    GDP(1),
    Pair(
        OPPOSITE.d0, frozen(np.array([[3.0, 0.0], [0.0, 0.0]])), OPPOSITE.domain, OPPOSITE.relation
    ),
    ABADI,
    lambda draws: draws[:, 0] < 1,
    (normal_above(-1.0), normal_above(1.0)),
)
def clip_off(data: Array, rng: Generator, size: int) -> Array:
    """Rows are not clipped at all: a row of norm 3 moves the sum by 4 in place of 2."""
    return _gaussian_sum(data, 2.0, rng, size)


@FAMILY.buggy(
    GDP(1),
    CORNER,
    ABADI + ", with a clip of each coordinate",
    lambda draws: draws.sum(1) < 2,
    (normal_above(-1.0), normal_above(1.0)),
)
def clip_each_coordinate(data: Array, rng: Generator, size: int) -> Array:
    """Coordinates are clipped to [0, 1] for an l2-radius of 1: mu = 2 in four dimensions."""
    return _gaussian_sum(np.clip(data, 0.0, 1.0), 1.0, rng, size)


@FAMILY.buggy(
    ZCDP(0.125),
    CORNER,
    ABADI + ", with a clip of each coordinate",
    lambda draws: draws.sum(1) < 1,
    (normal_above(-0.25), normal_above(0.75)),
)
def clip_each_coordinate_zcdp(data: Array, rng: Generator, size: int) -> Array:
    """The same under zero-concentrated privacy: rho = 1/2 for 1/8."""
    return _gaussian_sum(np.clip(data, 0.0, 1.0), 2.0, rng, size)


@FAMILY.correct(ONE, _numbers(1.0, -5.0, 5.0), CLIP)
def clip_value(data: Array, rng: Generator, size: int) -> Array:
    """Right: values clipped to [0, 1] before the sum, noise Lap(1/eps)."""
    return _laplace_sum(np.clip(data, 0.0, 1.0), rng, size)


@FAMILY.buggy(
    ONE,
    _numbers(5.0, 0.0, 5.0),
    CLIP,
    lambda draws: draws == 0,
    (0.5, laplace_above(5.0)),
)
def clip_after_noise(data: Array, rng: Generator, size: int) -> Array:
    """The noisy sum is clipped to [0, 3], its records are not: 5 eps."""
    return np.asarray(np.clip(_laplace_sum(data, rng, size), 0.0, 3.0))


@FAMILY.correct(ONE, _numbers(1.0, 0.0, 1.0), CLIP)
def clip_before_and_after(data: Array, rng: Generator, size: int) -> Array:
    """Right: the same clip of the output, after records were clipped too."""
    return np.asarray(np.clip(_laplace_sum(np.clip(data, 0.0, 1.0), rng, size), 0.0, 3.0))


@FAMILY.buggy(
    ONE,
    _numbers(-4.0, -4.0, 1.0),
    CLIP,
    lambda draws: draws > 0,
    (0.5, laplace_above(4.0)),
)
def clip_above_only(data: Array, rng: Generator, size: int) -> Array:
    """Values are cut at 1 above and nowhere below."""
    return _laplace_sum(np.minimum(data, 1.0), rng, size)


@FAMILY.buggy(
    ONE,
    Pair(
        reals(0, 0, 0),
        reals(math.nan, 0, 0),
        Domain(3, 3, 0.0, 1.0, special=(math.nan,)),
        Relation.REPLACE_ONE,
    ),
    "IEEE 754: NaN passes every comparison, also that of a clip",
    lambda draws: ~np.isnan(draws),
    (1.0, 0.0),
)
def clip_lets_nan_through(data: Array, rng: Generator, size: int) -> Array:
    """A clip leaves NaN as it is, and one such record makes every output NaN: infinite."""
    return _laplace_sum(np.clip(data, 0.0, 1.0), rng, size)


@FAMILY.correct(
    ONE,
    Pair(
        reals(0, 0, 0),
        reals(math.nan, 0, 0),
        Domain(3, 3, 0.0, 1.0, special=(math.nan, math.inf, -math.inf)),
        Relation.REPLACE_ONE,
    ),
    "IEEE 754",
)
def clip_with_nan_replaced(data: Array, rng: Generator, size: int) -> Array:
    """Right: what is not a number counts as 0 before the clip."""
    return _laplace_sum(np.clip(np.nan_to_num(data, nan=0.0), 0.0, 1.0), rng, size)


@FAMILY.buggy(
    GDP(1),
    _vectors([math.inf, 0.0], 3.0, special=(math.inf,)),
    "IEEE 754: infinity times zero is not a number",
    lambda draws: ~np.isnan(draws[:, 0]),
    (1.0, 0.0),
)
def clip_of_infinity(data: Array, rng: Generator, size: int) -> Array:
    """A row of infinite norm is scaled by 0, which gives NaN: infinite."""
    with np.errstate(invalid="ignore"):
        norms = np.linalg.norm(data, axis=1, keepdims=True)
        rows = data * (1.0 / np.maximum(norms, 1.0))
    return _gaussian_sum(rows, 2.0, rng, size)


@FAMILY.buggy(
    ONE,
    _numbers(1.0, 0.0, 1.0),
    "Thakkar, Andrew and McMahan 2019: a clip bound made of data has to be released privately",
    lambda draws: np.abs(draws) < 0.25,
    (1 - 2 * laplace_above(2.5), 0.5 * (math.exp(-0.75) - math.exp(-1.25))),
)
def clip_at_the_maximum(data: Array, rng: Generator, size: int) -> Array:
    """The clip bound, and with it the noise, is the data's own largest value: infinite."""
    bound = max(float(data.max()), 0.1)
    return _laplace_sum(np.clip(data, 0.0, bound), rng, size, bound)


@FAMILY.buggy(
    GDP(1),
    FAR,
    ABADI + ": each example is clipped, not their mean",
    lambda draws: draws[:, 0] < 0.5,
    (normal_above(-1.5), normal_above(1.5)),
)
def clip_the_mean(data: Array, rng: Generator, size: int) -> Array:
    """The mean of three rows is clipped to 1 and gets the noise of a mean of clipped rows.

    One row of norm 3 moves the mean by 1, against a deviation of 1/3: mu = 3.
    """
    mean = _clip_norm(data.mean(axis=0, keepdims=True), 1.0)
    return _gaussian_sum(mean, 1.0 / 3.0, rng, size)


@FAMILY.buggy(
    ONE,
    CORNER,
    "Dwork and Roth 2014, Definition 3.1: Laplace noise goes with the l1-norm",
    lambda draws: (draws < 0).all(1),
    (0.0625, (0.5 * math.exp(-0.5)) ** 4),
)
def clip_l2_noise_l1(data: Array, rng: Generator, size: int) -> Array:
    """Rows clipped to l2-norm 1 under Laplace noise of scale 1/eps: 2 eps in four dimensions."""
    rows = _clip_norm(data, 1.0)
    return np.asarray(rows.sum(axis=0) + rng.laplace(size=(size, data.shape[1])))


@FAMILY.buggy(
    ApproxDP(1, 0.01),
    FAR,
    ABADI + ": the norm, not its square",
    lambda draws: draws[:, 0] < -1.5,
    (normal_above(0.5), normal_above(1.5)),
)
def clip_squared_norm(data: Array, rng: Generator, size: int) -> Array:
    """The squared norm is compared with a bound of 9 that was meant for the norm's square root.

    A row of norm 3 stays as it is: delta = 0.127 at epsilon = 1, where noise N(0, 3^2) on a radius
    of 1 gives less than 0.01.
    """
    squares = np.square(data).sum(axis=1, keepdims=True)
    rows = data * np.minimum(1.0, 9.0 / np.maximum(squares, 9.0))
    return _gaussian_sum(rows, 3.0, rng, size)


@FAMILY.buggy(
    GDP(1),
    _vectors([1.0] * 4, 1.0),
    "McMahan et al. 2018, A general approach to adding differential privacy (per-layer clipping)",
    lambda draws: draws.sum(1) < 1.0 * math.sqrt(2),
    (normal_above(-math.sqrt(2) / 2), normal_above(math.sqrt(2) / 2)),
)
def clip_each_layer(data: Array, rng: Generator, size: int) -> Array:
    """Two layers are clipped to the whole radius each: mu = sqrt(2)."""
    layers = [_clip_norm(data[:, :2], 1.0), _clip_norm(data[:, 2:], 1.0)]
    return _gaussian_sum(np.concatenate(layers, axis=1), 1.0, rng, size)
