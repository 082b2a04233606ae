"""Losses with one gradient per record, vectorised over trials.

Shapes: ``parameters`` is (trials, dimension); ``records`` is (n, features + 1) with the target in
the last column, or (trials, n, features + 1) where every trial has a batch of its own; gradients
are (trials, n, dimension), values (trials, n). Where a value overflows float64 it is infinite.

A row that holds a NaN or an infinity gets a gradient that is not finite, and touches no other row:
no warning, no exception, because either would tell that such a record is there. The clipping query
turns such a row into zeros. Targets are therefore validated by whoever loads the data, not here.
Errors concern shapes, types and sizes only, which are public.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from dpaudit.errors import InvalidParameter
from mechanisms.papers.common.factors import Factors

Array = NDArray[np.float64]
Start = Literal["inverse_sqrt_fan_in", "sqrt_fan_in"]

LARGEST_ARRAY = 2**30
LARGEST_BLOCK = 2**22
_quiet = np.errstate(all="ignore")


class Loss(Protocol):
    """A loss of parameters and one record, with its gradient in the parameters."""

    def dimension(self, features: int) -> int:
        """Return the number of parameters for records of that many features."""

    def initial(self, features: int, trials: int, seed: int) -> Array:
        """Return a start (trials, dimension), the same for all trials and free of any record."""

    def values(self, parameters: ArrayLike, records: ArrayLike) -> Array:
        """Return the loss of each record under each trial's parameters: (trials, n)."""

    def gradients(self, parameters: ArrayLike, records: ArrayLike) -> Array:
        """Return the gradient of each record's loss: (trials, n, dimension)."""


@dataclass(frozen=True)
class Logistic:
    """Logistic loss ``log(1 + exp(-s x.theta)) + l2/2 ||theta||^2``, ``s = 2 target - 1``.

    Targets are 0 or 1. Without ``l2`` a gradient has norm at most ||x||, and the loss is
    ||x||^2 / 4 smooth; ``l2`` adds ``l2 ||theta||`` and ``l2``. Raises InvalidParameter if ``l2``
    is negative or not finite.
    """

    l2: float = 0.0

    def __post_init__(self) -> None:
        _real("Logistic.l2", self.l2, at_least=0.0)

    def dimension(self, features: int) -> int:
        """Return the number of features: there is no intercept but a column of ones."""
        return _count("features", features)

    def initial(self, features: int, trials: int, seed: int) -> Array:
        """Return zeros (trials, features); the seed is not used."""
        return _zeros(self.dimension(features), trials, seed)

    @_quiet
    def values(self, parameters: ArrayLike, records: ArrayLike) -> Array:
        """Return the losses (trials, n), in nats."""
        theta, x, target = _arguments(self, parameters, records)
        losses = np.logaddexp(0.0, (1.0 - 2.0 * target) * _margins(theta, x))
        return _array(losses + (_ridge(self.l2, theta) if self.l2 else 0.0))

    @_quiet
    def gradients(self, parameters: ArrayLike, records: ArrayLike) -> Array:
        """Return ``-s sigmoid(-s x.theta) x + l2 theta`` for each record."""
        theta, x, _ = _arguments(self, parameters, records)
        gradients = _array(self.slopes(theta, records)[..., None] * x)
        if self.l2:
            gradients += self.l2 * theta[:, None, :]
        return gradients

    @_quiet
    def slopes(self, parameters: ArrayLike, records: ArrayLike) -> Array:
        """Return the derivatives in ``x.theta`` (trials, n), without the ridge term."""
        theta, x, target = _arguments(self, parameters, records)
        sign = 2.0 * target - 1.0
        # Not sigmoid(x.theta) - target: that difference loses every digit of a well fitted record.
        return _array(-sign * expit(-sign * _margins(theta, x)))


@dataclass(frozen=True)
class LeastSquares:
    """Squared error ``(x.theta - target)^2`` of a linear model; ``2 ||x||^2`` smooth."""

    def dimension(self, features: int) -> int:
        """Return the number of features: there is no intercept but a column of ones."""
        return _count("features", features)

    def initial(self, features: int, trials: int, seed: int) -> Array:
        """Return zeros (trials, features); the seed is not used."""
        return _zeros(self.dimension(features), trials, seed)

    @_quiet
    def values(self, parameters: ArrayLike, records: ArrayLike) -> Array:
        """Return the squared errors (trials, n), in squared units of the target."""
        theta, x, target = _arguments(self, parameters, records)
        return _array(np.square(_margins(theta, x) - target))

    @_quiet
    def gradients(self, parameters: ArrayLike, records: ArrayLike) -> Array:
        """Return ``2 (x.theta - target) x`` for each record."""
        _, x, _ = _arguments(self, parameters, records)
        return _array(self.slopes(parameters, records)[..., None] * x)

    @_quiet
    def slopes(self, parameters: ArrayLike, records: ArrayLike) -> Array:
        """Return the derivatives ``2 (x.theta - target)`` in ``x.theta``: (trials, n)."""
        theta, x, target = _arguments(self, parameters, records)
        return _array(2.0 * (_margins(theta, x) - target))


@dataclass(frozen=True)
class SoftplusNetwork:
    """Squared error of one hidden layer, ``(w.softplus(W x + b) + c - target)^2``.

    A parameter vector packs ``W`` (hidden, features) row by row, then ``b`` (hidden), ``w``
    (hidden) and ``c``: hidden * features + 2 * hidden + 1 numbers. The loss has no global
    smoothness constant. ``start`` names the half-width of the uniform start of a layer: one over
    the square root of its number of inputs, which the paper's experiments almost surely used, or
    ``sqrt_fan_in``, that square root itself, which the paper prints.
    Raises InvalidParameter if ``hidden`` is no count or ``start`` is neither.
    Source: Murata and Suzuki (2023), Section 6 and Appendix A.
    """

    hidden: int = 10
    start: Start = "inverse_sqrt_fan_in"

    def __post_init__(self) -> None:
        _count("SoftplusNetwork.hidden", self.hidden, at_most=2**16)
        if self.start not in ("inverse_sqrt_fan_in", "sqrt_fan_in"):
            raise InvalidParameter(
                f"SoftplusNetwork.start is {self.start!r}: "
                "use 'inverse_sqrt_fan_in' or 'sqrt_fan_in'"
            )

    def dimension(self, features: int) -> int:
        """Return ``hidden * features + 2 * hidden + 1``."""
        return self.hidden * (_count("features", features) + 2) + 1

    def initial(self, features: int, trials: int, seed: int) -> Array:
        """Return a uniform start (trials, dimension) made of the seed alone, equal in all trials.

        Weights and biases of a layer lie in plus or minus the half-width that ``start`` names.
        """
        size = self.dimension(features)
        zeros = _zeros(size, trials, seed)
        into_hidden = self.hidden * (features + 1)
        power = -0.5 if self.start == "inverse_sqrt_fan_in" else 0.5
        scale = np.full(size, float(self.hidden) ** power)
        scale[:into_hidden] = float(features) ** power
        return zeros + scale * np.random.default_rng(seed).uniform(-1.0, 1.0, size)

    def unpack(self, parameters: Array) -> tuple[Array, Array, Array, Array]:
        """Return views ``W`` (trials, hidden, features), ``b``, ``w`` (trials, hidden), ``c``."""
        trials, size = parameters.shape
        inner = size - 2 * self.hidden - 1
        weights = parameters[:, :inner].reshape(trials, self.hidden, inner // self.hidden)
        bias = parameters[:, inner : inner + self.hidden]
        return weights, bias, parameters[:, inner + self.hidden : -1], parameters[:, -1]

    @_quiet
    def values(self, parameters: ArrayLike, records: ArrayLike) -> Array:
        """Return the squared errors (trials, n), in squared units of the target."""
        theta, x, target = _arguments(self, parameters, records)
        return _array(np.square(self._forward(theta, x)[-1] - target))

    @_quiet
    def gradients(self, parameters: ArrayLike, records: ArrayLike) -> Array:
        """Return the gradients (trials, n, dimension), packed as the parameters are."""
        theta, x, target = _arguments(self, parameters, records)
        inner, hidden, error = self._backward(theta, x, target)
        trials, n, units = hidden.shape
        gradients = np.empty((trials, n, theta.shape[1]))
        split = units * x.shape[-1]
        # A view: the outer products land in the result, with no second array of that size.
        layer = gradients[..., :split].reshape(trials, n, units, x.shape[-1])
        np.multiply(inner[..., None], x[..., None, :], out=layer)
        gradients[..., split : split + units] = inner
        np.multiply(error, hidden, out=gradients[..., split + units : -1])
        gradients[..., -1:] = error
        return gradients

    @_quiet
    def factors(self, parameters: ArrayLike, records: ArrayLike) -> Factors:
        """Return the same gradients as (delta) (x) (x, 1), with rest (e h, e)."""
        theta, x, target = _arguments(self, parameters, records)
        inner, hidden, error = self._backward(theta, x, target)
        ones = np.ones((*x.shape[:-1], 1))
        rest = np.concatenate([error * hidden, error], axis=-1)
        return Factors(inner, np.concatenate([x, ones], axis=-1), rest)

    def pack(self, outer: Array, rest: Array) -> Array:
        """Return sums of outer products (trials, hidden, features + 1) and rests, packed."""
        trials = len(outer)
        return np.concatenate([outer[..., :-1].reshape(trials, -1), outer[..., -1], rest], axis=1)

    def _backward(self, theta: Array, x: Array, target: Array) -> tuple[Array, Array, Array]:
        """Return delta and hidden values (trials, n, hidden), and 2 residuals (trials, n, 1)."""
        scores, small, hidden, prediction = self._forward(theta, x)
        error = (2.0 * (prediction - target))[..., None]
        # exp(-|s|), or 1 where s >= 0; a choice by np.where takes five times as long.
        slopes = np.maximum(small, scores >= 0.0) / (1.0 + small)
        return error * self.unpack(theta)[2][:, None, :] * slopes, hidden, error

    def _forward(self, theta: Array, x: Array) -> tuple[Array, Array, Array, Array]:
        """Return scores, exp(-|scores|), hidden values (trials, n, hidden) and predictions.

        One exponential serves softplus and its derivative; ``logaddexp`` takes five times as long.
        """
        weights, bias, outer, shift = self.unpack(theta)
        scores = _array(np.matmul(x, weights.swapaxes(1, 2)) + bias[:, None, :])
        small = _array(np.exp(-np.abs(scores)))
        hidden = _array(np.maximum(scores, 0.0) + np.log1p(small))
        return scores, small, hidden, _margins(outer, hidden) + shift[:, None]


@dataclass(frozen=True, kw_only=True)
class WorstCase:
    """The canary that saturates every clip: ``s (slope x_1 + curvature/2 ||x||^2)``.

    Here x is the parameter vector (``size`` numbers) and a record is its sign ``s`` alone: +1, -1,
    or 0 for a bystander, so records are (n, 1). The gradient ``s (slope u + curvature x)`` has norm
    at least ``slope - curvature ||x||``, so it is clipped to any smaller radius, and two iterates'
    gradients differ by exactly ``s curvature (x - x')`` (to 1e-16 of ``slope`` in floats).
    Raises InvalidParameter if ``size`` is no count, ``slope`` not positive or ``curvature``
    negative. Source: the loss that attains Murata and Suzuki (2023), Lemma C.1, in every round.
    """

    size: int
    curvature: float
    slope: float = 1e3

    def __post_init__(self) -> None:
        _count("WorstCase.size", self.size)
        _real("WorstCase.curvature", self.curvature, at_least=0.0)
        if _real("WorstCase.slope", self.slope, at_least=0.0) == 0.0:
            raise InvalidParameter("WorstCase.slope is 0: use a positive number above any radius")

    def dimension(self, features: int) -> int:
        """Return ``size``; a record has no feature but its sign."""
        if features != 0:
            raise InvalidParameter(f"WorstCase takes records (n, 1), not {features} features")
        return self.size

    def initial(self, features: int, trials: int, seed: int) -> Array:
        """Return zeros (trials, size); the seed is not used."""
        return _zeros(self.dimension(features), trials, seed)

    @_quiet
    def values(self, parameters: ArrayLike, records: ArrayLike) -> Array:
        """Return the losses (trials, n)."""
        theta, _, sign = _arguments(self, parameters, records)
        height = self.slope * theta[:, 0] + _ridge(self.curvature, theta)[:, 0]
        return _array(sign * height[:, None])

    @_quiet
    def gradients(self, parameters: ArrayLike, records: ArrayLike) -> Array:
        """Return ``s (slope u + curvature x)`` for each record, u the first basis vector."""
        theta, _, sign = _arguments(self, parameters, records)
        direction = self.curvature * theta
        direction[:, 0] += self.slope
        return _array(sign[..., None] * direction[:, None, :])


def mean_value(loss: Loss, parameters: ArrayLike, records: ArrayLike) -> Array:
    """Return the mean loss over public records for each trial: (trials,).

    It is not private: evaluate hold-out data that counts as public with it, nothing else.
    Raises InvalidParameter if there is no record.
    """
    return _mean(loss.values, loss, parameters, records)


@_quiet
def squared_gradient_norm(loss: Loss, parameters: ArrayLike, records: ArrayLike) -> Array:
    """Return ``||mean gradient||_2^2`` over public records for each trial: (trials,).

    It is not private: evaluate hold-out data that counts as public with it, nothing else.
    Raises InvalidParameter if there is no record.
    """
    return _array(np.square(_mean(loss.gradients, loss, parameters, records)).sum(axis=1))


@_quiet
def _mean(
    function: Callable[[ArrayLike, ArrayLike], Array],
    loss: Loss,
    parameters: ArrayLike,
    records: ArrayLike,
) -> Array:
    theta, rows = _floats("parameters", parameters), _floats("records", records)
    _check_shapes(loss, theta, rows)
    if rows.shape[-2] == 0:
        raise InvalidParameter("records are empty: a mean needs at least one row")
    blocks = _blocks(rows, theta.size)
    return _array(sum(function(theta, block).sum(axis=1) for block in blocks) / rows.shape[-2])


def _blocks(rows: Array, width: int) -> Iterator[Array]:
    """Yield slices of rows so small that a gradient of one stays under LARGEST_BLOCK numbers."""
    step = max(1, LARGEST_BLOCK // max(1, width))
    for begin in range(0, rows.shape[-2], step):
        yield rows[..., begin : begin + step, :]


def _margins(theta: Array, x: Array) -> Array:
    """Return ``x.theta`` as (trials, n) for x of (n, k) or (trials, n, k), theta (trials, k)."""
    return _array(np.matmul(x, theta[:, :, None])[..., 0])


def _ridge(weight: float, theta: Array) -> Array:
    return _array(weight / 2.0 * np.square(theta).sum(axis=1, keepdims=True))


def _zeros(size: int, trials: int, seed: int) -> Array:
    _count("seed", seed, at_least=0, at_most=None)
    if _count("trials", trials) * size > LARGEST_ARRAY:
        raise InvalidParameter(
            f"trials * dimension is {trials * size}, above {LARGEST_ARRAY}: use fewer trials"
        )
    return np.zeros((trials, size))


def _arguments(loss: Loss, parameters: ArrayLike, records: ArrayLike) -> tuple[Array, Array, Array]:
    """Return parameters (trials, dimension), features (.., n, k) and targets (.., n), checked."""
    theta, rows = _floats("parameters", parameters), _floats("records", records)
    _check_shapes(loss, theta, rows)
    if theta.size * rows.shape[-2] > LARGEST_ARRAY:
        raise InvalidParameter(
            f"trials * n * dimension is {theta.size * rows.shape[-2]}, "
            f"above {LARGEST_ARRAY}: use fewer trials in a batch"
        )
    return theta, rows[..., :-1], rows[..., -1]


def _check_shapes(loss: Loss, theta: Array, rows: Array) -> None:
    if theta.ndim != 2 or theta.shape[0] == 0:
        raise InvalidParameter(f"parameters have shape {theta.shape}: use (trials, dimension)")
    if rows.ndim not in (2, 3) or rows.shape[-1] == 0:
        raise InvalidParameter(f"records have shape {rows.shape}: use (n, features + 1)")
    if rows.ndim == 3 and rows.shape[0] != theta.shape[0]:
        raise InvalidParameter(
            f"records of {rows.shape[0]} trials meet parameters of {theta.shape[0]}: "
            "use one batch of records a trial, or one for all"
        )
    size = loss.dimension(rows.shape[-1] - 1)
    if theta.shape[1] != size:
        raise InvalidParameter(
            f"parameters have {theta.shape[1]} columns, {type(loss).__name__} needs {size} "
            f"for {rows.shape[-1] - 1} features"
        )


def _floats(name: str, value: ArrayLike) -> Array:
    """Return the value as float64; the cause is dropped, because it may quote an entry."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        raise InvalidParameter(f"{name} are no rectangular array: use one of numbers") from None
    if array.dtype.kind not in "biuf":
        raise InvalidParameter(f"{name} have type {array.dtype.name}: use real numbers")
    with np.errstate(over="ignore"):
        return array.astype(np.float64, copy=False)


def _array(value: object) -> Array:
    """Return a NumPy result as what it is; only its static type gets narrower."""
    return np.asarray(value, dtype=np.float64)


def _count(name: str, value: int, at_least: int = 1, at_most: int | None = 2**24) -> int:
    """Return the whole number if it lies in the stated range, both ends included."""
    try:
        count = operator.index(value)
    except TypeError:
        raise InvalidParameter(f"{name} is {value!r}: use a whole number") from None
    if isinstance(value, bool) or count < at_least:
        raise InvalidParameter(f"{name} is {value!r}: use a whole number from {at_least} on")
    if at_most is not None and count > at_most:
        raise InvalidParameter(f"{name} is {value!r}: use at most {at_most}")
    return count


def _real(name: str, value: float, at_least: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.floating, np.integer)):
        raise InvalidParameter(f"{name} is {value!r}: use a number")
    if not math.isfinite(value) or value < at_least:
        raise InvalidParameter(f"{name} is {value!r}: use a finite number from {at_least} on")
    return float(value)
