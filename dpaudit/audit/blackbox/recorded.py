"""A NumPy generator that hands out recorded noise, and which of it belongs to which trial.

Every number handed out is a standard one (normal, Laplace, uniform on (0, 1), exponential,
logistic or Gumbel), shifted and scaled by the arguments of the call.  The function is then a fixed
map of its data and the recorded numbers, and can be run again on other data with chosen numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from scipy.special import log_ndtr, ndtr

from dpaudit.audit.blackbox.draws import Array, read_output
from dpaudit.audit.blackbox.sampler import Mechanism
from dpaudit.curator.proposal import NoLikelihood
from dpaudit.errors import InvalidParameter

Shape: TypeAlias = tuple[int, ...]
# Trials of two short calls; comparing them shows which draws belong to each trial.
CALL_SIZES = (7, 11)
ELSEWHERE = "two runs with the same recorded noise differ: it draws from another generator as well"
CHANGES = "the draws that it asks for depend on the data, on earlier draws, or on the call"
SHARED = "noise of one trial moves the output of another"
NOT_REAL = "it returns {}; noise can be solved for only where outputs are real numbers"


@dataclass(frozen=True)
class Law:
    """A standard law of one number: unimodal around ``mode``.

    ``of_score(t)`` has this law if t is standard normal, and grows with t.  ``log_density`` leaves
    out the constant, which a ratio of densities of one law does not hold.
    """

    name: str
    of_score: Callable[[Array], Array]
    log_density: Callable[[Array], Array]
    mode: float = 0.0


def _laplace(t: Array) -> Array:
    return np.asarray(-np.sign(t) * (math.log(2) + log_ndtr(-np.abs(t))))


def _uniform_score(t: Array) -> Array:
    """On the range of ``Generator.random`` without 0, which an inverse distribution lacks."""
    return np.clip(ndtr(t), 2.0**-53, 1 - 2.0**-53)


def _within(inside: Array, values: Array) -> Array:
    return np.asarray(np.where(inside, values, -np.inf))


NORMAL = Law("normal", lambda t: t, lambda x: -(x**2) / 2)
LAPLACE = Law("Laplace", _laplace, lambda x: -np.abs(x))
UNIFORM = Law("uniform", _uniform_score, lambda x: _within((x >= 0) & (x <= 1), 0 * x), 0.5)
EXPONENTIAL = Law("exponential", lambda t: -log_ndtr(-t), lambda x: _within(x >= 0, -x))
LOGISTIC = Law(
    "logistic",
    lambda t: log_ndtr(t) - log_ndtr(-t),
    lambda x: -np.logaddexp(0, x) - np.logaddexp(0, -x),
)
GUMBEL = Law(
    "Gumbel",
    lambda t: -np.log(-log_ndtr(t)),
    lambda x: -x - np.exp(np.minimum(-x, 700.0)),
)

Feed: TypeAlias = Callable[[int, Law, Shape], Array]
"""Called as feed(index of the request, law, shape); returns standard numbers."""


class RecordedGenerator(np.random.Generator):
    """A ``numpy.random.Generator`` whose numbers come from ``feed``.

    ``asked``: the law and shape of each request.  ``refused``: why a request could not be met; it
    is kept so that it is noticed even if the function catches the error.  Errors: NoLikelihood,
    naming the method, for laws that are not recorded, and for the bit generator itself.
    """

    def __init__(self, feed: Feed) -> None:
        super().__init__(np.random.PCG64(0))
        self.feed, self.refused = feed, ""
        self.asked: list[tuple[Law, Shape]] = []

    def numbers(self, law: Law, size: Any, *parameters: Any, dtype: Any = float) -> Any:
        """Standard numbers of ``size``, or of the shape that the parameters broadcast to."""
        shape = np.broadcast_shapes(*map(np.shape, parameters))
        if size is not None:
            shape = tuple(int(n) for n in np.atleast_1d(size))
        try:
            numbers = self.feed(len(self.asked), law, shape)
        except NoLikelihood as error:
            self.refused = str(error)
            raise
        self.asked.append((law, shape))
        return np.array(numbers, dtype=dtype)[()]


def _scaled(law: Law) -> Callable[..., Any]:
    def method(self: RecordedGenerator, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        return np.asarray(loc) + scale * self.numbers(law, size, loc, scale)

    return method


def _standard(law: Law, *options: str) -> Callable[..., Any]:
    """A method of (size, dtype, ..., out)."""

    def method(
        self: RecordedGenerator, size: Any = None, dtype: Any = float, *more: Any, **named: Any
    ) -> Any:
        given = dict(zip([*options, "out"], more, strict=False)) | named
        out = given.get("out")
        numbers = self.numbers(law, size if out is None else out.shape, dtype=dtype)
        if out is None:
            return numbers
        out[...] = numbers
        return out

    return method


def _uniform(self: RecordedGenerator, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
    return np.asarray(low) + np.subtract(high, low) * self.numbers(UNIFORM, size, low, high)


def _exponential(self: RecordedGenerator, scale: Any = 1.0, size: Any = None) -> Any:
    return np.asarray(scale) * self.numbers(EXPONENTIAL, size, scale)


def _lognormal(self: RecordedGenerator, mean: Any = 0.0, sigma: Any = 1.0, size: Any = None) -> Any:
    return np.exp(np.asarray(mean) + sigma * self.numbers(NORMAL, size, mean, sigma))


def _multivariate_normal(
    self: RecordedGenerator, mean: Any, cov: Any, size: Any = None, *_: Any, **__: Any
) -> Any:
    shape = () if size is None else tuple(int(n) for n in np.atleast_1d(size))
    values, vectors = np.linalg.eigh(np.asarray(cov))
    root = vectors * np.sqrt(np.maximum(values, 0))
    return np.asarray(mean) + self.numbers(NORMAL, (*shape, len(root))) @ root.T


def _refusing(name: str) -> Callable[..., Any]:
    def method(self: RecordedGenerator, *_: Any, **__: Any) -> Any:
        self.refused = f"it uses rng.{name}, whose numbers are not recorded"
        raise NoLikelihood(self.refused)

    return method


_METHODS: dict[str, Callable[..., Any]] = {
    "normal": _scaled(NORMAL), "laplace": _scaled(LAPLACE), "logistic": _scaled(LOGISTIC),
    "gumbel": _scaled(GUMBEL), "uniform": _uniform, "exponential": _exponential,
    "lognormal": _lognormal, "multivariate_normal": _multivariate_normal,
    "standard_normal": _standard(NORMAL), "random": _standard(UNIFORM),
    "standard_exponential": _standard(EXPONENTIAL, "method"),
}  # fmt: skip
for _name in dir(np.random.Generator):
    if not _name.startswith("_"):
        _method = _METHODS.get(_name) or _refusing(_name)
        _is_property = _name == "bit_generator"
        setattr(RecordedGenerator, _name, property(_method) if _is_property else _method)


@dataclass(frozen=True)
class Layout:
    """Which recorded numbers belong to which trial of a call.

    ``asked``: the law and shape of each request of one trial.  ``axes``: the axis of each request
    that runs over the trials; None where each trial makes its own requests, one after another.
    """

    asked: tuple[tuple[Law, Shape], ...]
    axes: tuple[int, ...] | None

    @property
    def laws(self) -> list[Law]:
        """The law of each number of a trial."""
        return [law for law, shape in self.asked for _ in range(math.prod(shape))]

    def numbers(self, scores: Array) -> Array:
        """The standard numbers at normal scores, (trials, numbers)."""
        columns = [law.of_score(t) for law, t in zip(self.laws, scores.T, strict=True)]
        return np.stack(columns, axis=1)

    def outputs(self, mechanism: Mechanism, data: Any, numbers: Array) -> Array:
        """Outputs of one call with these numbers, (trials, columns).

        Errors: NoLikelihood where it raises, asks for other numbers, or returns no real numbers.
        """
        trials = len(numbers)
        ends = np.cumsum([math.prod(shape) for _, shape in self.asked])
        blocks = np.split(numbers, ends[:-1], axis=1)

        def feed(index: int, law: Law, shape: Shape) -> Array:
            trial, place = divmod(index, len(self.asked))
            if trial >= (1 if self.axes else trials) or self._shape(place, trials) != (law, shape):
                raise NoLikelihood(CHANGES)
            own = self.asked[place][1]
            if self.axes is None:
                return np.asarray(blocks[place][trial].reshape(own))
            return np.moveaxis(blocks[place].reshape(trials, *own), 0, self.axes[place])

        returned, numbers_asked = _called(mechanism, data, trials, feed)
        if len(numbers_asked) != len(self.asked) * (1 if self.axes else trials):
            raise NoLikelihood(CHANGES)
        try:
            values = read_output(returned, trials, "it").values
        except InvalidParameter as error:
            raise NoLikelihood(str(error)) from error
        if values.dtype.kind != "f" or np.asarray(returned).dtype.kind not in "fc":
            raise NoLikelihood(NOT_REAL.format("whole numbers, truth values or text"))
        return values

    def _shape(self, place: int, trials: int) -> tuple[Law, Shape]:
        law, shape = self.asked[place]
        if self.axes is None:
            return law, shape
        axis = self.axes[place]
        return law, (*shape[:axis], trials, *shape[axis:])


def layout_of(mechanism: Mechanism, data: tuple[Any, Any], rng: np.random.Generator) -> Layout:
    """How the numbers of a call belong to its trials, found by calls of two sizes on both sides.

    Errors: NoLikelihood where they do not, with the reason.
    """

    def feed(index: int, law: Law, shape: Shape) -> Array:
        return law.of_score(rng.standard_normal(shape))

    calls = [[_called(mechanism, side, n, feed)[1] for n in CALL_SIZES] for side in data]
    if not calls[0][0]:
        raise NoLikelihood("it draws nothing from its generator")
    if calls[0] != calls[1]:
        raise NoLikelihood(CHANGES)
    layout = _layout(*calls[0])
    scores = rng.standard_normal((CALL_SIZES[0], len(layout.laws)))
    other = np.where(np.arange(CALL_SIZES[0])[:, None] % 2, scores, -scores)
    for side in data:
        same = layout.numbers(scores)
        outputs = [layout.outputs(mechanism, side, z) for z in (same, same, layout.numbers(other))]
        if not np.array_equal(outputs[0], outputs[1], equal_nan=True):
            raise NoLikelihood(ELSEWHERE)
        if not np.array_equal(outputs[0][1::2], outputs[2][1::2], equal_nan=True):
            raise NoLikelihood(SHARED)
    return layout


def _layout(few: list[tuple[Law, Shape]], more: list[tuple[Law, Shape]]) -> Layout:
    axes = [
        next((i for i, pair in enumerate(zip(a, b, strict=False)) if pair == CALL_SIZES), -1)
        for (_, a), (_, b) in zip(few, more, strict=False)
    ]
    if len(few) == len(more) and min(axes) >= 0:
        per_call = (
            (law, (*shape[:axis], *shape[axis + 1 :]))
            for (law, shape), axis in zip(few, axes, strict=True)
        )
        return Layout(tuple(per_call), tuple(axes))
    each, remainder = divmod(len(few), CALL_SIZES[0])
    if remainder or few != few[:each] * CALL_SIZES[0] or more != few[:each] * CALL_SIZES[1]:
        raise NoLikelihood("the numbers that it draws cannot be told apart by trial")
    return Layout(tuple(few[:each]), None)


def _called(
    mechanism: Mechanism, data: Any, trials: int, feed: Feed
) -> tuple[Any, list[tuple[Law, Shape]]]:
    rng = RecordedGenerator(feed)
    try:
        with np.errstate(all="ignore"):
            returned = mechanism(data, rng, trials)
    except Exception as error:
        raised = f"it raised {type(error).__name__} in a run with recorded noise"
        raise NoLikelihood(rng.refused or raised) from error
    if rng.refused:
        raise NoLikelihood(rng.refused)
    return returned, rng.asked
