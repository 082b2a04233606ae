"""Attacks on the arithmetic of a sampler: supports, low bits, few values, odd inputs, time.

Noise computed in floating point is not the noise that was proved private: 1 + noise has no bits
below its last place, few seeds give few values, infinities and NaN pass through.
Source: Mironov (2012); Haney, Desfontaines, Hartman, Shrestha and Hay (2022); Garfinkel and
Leclerc (2020); Jin, McMurtry, Rubinstein and Ohrimenko (2022).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dpaudit.audit.arithmetic.summation import Total, check_total
from dpaudit.audit.arithmetic.timing import check_timing
from dpaudit.audit.blackbox.bits import lowest_bit
from dpaudit.audit.bounds.estimators import proportion_upper
from dpaudit.audit.residuals import DEFAULT_ERROR, Finding, Status
from dpaudit.errors import InvalidParameter
from dpaudit.families.additive.kernel import arithmetic_of
from dpaudit.kernels.base import Kernel, kernel_of
from dpaudit.nodes import Node

FloatArray = npt.NDArray[np.float64]
Generator = np.random.Generator
Noise: TypeAlias = Callable[[FloatArray, Generator], Any]

# Noise draws for each value of a pair: so many to choose an event, as many again to test it.
DRAWS_PER_SIDE = 10_000
# Noise scales around the middle of a pair; only outputs this close are compared.
SUPPORT_REACH = 3.0
# Pairs of exact values whose floats differ in exponent, sign or spacing.
NEIGHBOURING_VALUES = (
    (0.0, 1.0),
    (1.0, 2.0),
    (3.0, 4.0),
    (-1.0, 0.0),
    (1023.0, 1024.0),
    (2.0**20, 2.0**20 + 1),
)
NO_NUMBER = {"not a number": math.nan, "infinity": math.inf, "minus infinity": -math.inf}
TINY = {"negative zero": -0.0, "a subnormal number": 5e-324}


@dataclass(frozen=True)
class Noisy:
    """The attacked mechanism: noise of ``scale`` on values that neighbours move by ``step``."""

    add: Noise
    scale: float
    step: float

    def draw(self, value: float, count: int, rng: Generator) -> FloatArray:
        """Outputs for one value, shape (count,).

        Errors: InvalidParameter for a sampler that returns another shape.
        """
        with np.errstate(all="ignore"):
            outputs = np.asarray(self.add(np.full(count, value), rng), dtype=np.float64)
        if outputs.shape != (count,):
            raise InvalidParameter(
                f"the sampler returned shape {outputs.shape} for values of shape ({count},)"
            )
        return outputs


def audit_arithmetic(
    noise: Noise | Kernel | Node,
    *,
    scale: float = 1.0,
    total: Total | None = None,
    bound: float = 1.0,
    seed: int = 0,
    error: float = DEFAULT_ERROR,
) -> tuple[Finding, ...]:
    """Every arithmetic attack on a sampler, and on the sum it protects; under 30 s together.

    ``noise``: ``add(values, rng) -> outputs`` of the values' shape (n,), noise of ``scale``
    (Laplace, Gaussian, or either on a grid) added to each; or a kernel, or a leaf (its kernel
    here, whose noise for one unit of sensitivity is taken).  ``total``: a sum of records in
    [-bound, bound], see :func:`dpaudit.audit.arithmetic.summation.check_total`.
    Statistical checks share ``error``: all are ``held`` except with that probability if the
    sampler is exact.  Deterministic ones have error rate 0.
    Errors: InvalidParameter for a scale, bound or error outside its domain.
    """
    for name, value in (("scale", scale), ("bound", bound)):
        if not 1e-200 < value < 1e200:
            raise InvalidParameter(f"{name} = {value!r}: expected a positive, finite number")
    if not 1e-9 < error < 1:
        raise InvalidParameter(f"error = {error!r}: expected in (1e-9, 1)")
    target = _target(noise, float(scale))
    rng = np.random.default_rng(seed)
    share = error / (2 * len(NEIGHBOURING_VALUES) + 1)
    findings = [
        finding for pair in NEIGHBOURING_VALUES for finding in _pair(target, pair, rng, share)
    ]
    findings += [_odd(target, name, value, seed) for name, value in NO_NUMBER.items()]
    findings += [_tiny(target, name, value, seed) for name, value in TINY.items()]
    wrong = _tried(target, 0.0, 0, seed).size
    # The largest finite values give numbers.
    largest = float(np.finfo(np.float64).max)
    outputs = [_tried(target, value, 100, seed) for value in (largest, -largest, largest / 2)]
    shown = int(np.count_nonzero(np.isnan(outputs)))
    findings += [
        _exact("value: the largest floats", shown, f"{shown} of 300 outputs are not numbers"),
        _exact("no value", wrong, "no values give no outputs, and no error"),
        _time(target, rng, share),
    ]
    return (*findings, *(check_total(total, bound) if total is not None else ()))


def describe(noise: Noise | Kernel | Node) -> str:
    """How a sampler draws, in words: exact, in floating point, or not known."""
    if isinstance(noise, Node):
        return describe(kernel_of(noise)(noise, 1))
    if not isinstance(noise, Kernel):
        return "a function of the user's: arithmetic not known"
    kind = arithmetic_of(type(noise))
    exactness = (
        "draws are exact" if kind == "exact" else f"draws in {kind}: low bits tell the value"
    )
    return f"{type(noise).__name__}: {exactness}"


def _target(noise: Noise | Kernel | Node, scale: float) -> Noisy:
    """A sampler of values (n,), whatever was given."""
    if isinstance(noise, Node):
        return _target(kernel_of(noise)(noise, 1), scale)
    if not isinstance(noise, Kernel):
        return Noisy(noise, scale, scale)
    if noise.memory:
        raise InvalidParameter(
            f"{type(noise).__name__}: its rounds share noise; probe the Gaussian that a round draws"
        )
    step = float(getattr(noise.leaf, "sensitivity", 1))
    own = noise.multiplier(noise.leaf) * step

    def add(values: FloatArray, rng: Generator) -> FloatArray:
        kernel: Any = noise
        sampled: FloatArray = kernel.sample(values[:, None], np.full(values.size, own), rng)
        return sampled[:, 0]

    return Noisy(add, own, step)


@dataclass(frozen=True, eq=False)
class Side:
    """Outputs for one value of a pair, those within reach of its middle: to choose on, to test."""

    value: float
    chosen_on: FloatArray
    tested: FloatArray


def _pair(
    target: Noisy, pair: tuple[float, float], rng: Generator, error: float
) -> tuple[Finding, Finding]:
    sides = [_side(target, pair, value, rng) for value in pair]
    name = f"{pair[0]:g} and {pair[1]:g}"
    loss = SUPPORT_REACH * max(target.step / target.scale, 1.0) ** 2
    return _low(sides, loss, name, error), _few(sides, loss, name, error)


def _side(target: Noisy, pair: tuple[float, float], value: float, rng: Generator) -> Side:
    middle = (pair[0] + pair[1]) / 2 * target.step
    draws = target.draw(value * target.step, 2 * DRAWS_PER_SIDE, rng)
    reach = SUPPORT_REACH * max(target.scale, target.step)
    halves = [
        half[np.abs(half - middle) <= reach]
        for half in (draws[:DRAWS_PER_SIDE], draws[DRAWS_PER_SIDE:])
    ]
    return Side(value * target.step, halves[0], halves[1])


def _low(sides: list[Side], loss: float, name: str, error: float) -> Finding:
    """How many low bits are set: the outputs of one value have bits that the other's cannot have.

    Mironov (2012), section 4; with larger values the last place is coarser (Haney et al. 2022).
    Threshold and side are chosen on other draws than they are tested on.
    """
    places = [lowest_bit(side.chosen_on) for side in sides]
    levels = np.unique(np.concatenate([*places, np.zeros(1)]))
    rows = [np.searchsorted(np.sort(place), levels, side="right") for place in places]
    gains = [rows[first] - math.exp(loss) * rows[1 - first] for first in (0, 1)]
    first = int(gains[1].max() > gains[0].max())
    level = float(levels[np.argmax(gains[first])])
    hits = [int(np.count_nonzero(lowest_bit(side.tested) <= level)) for side in sides]
    event_text = f"a bit at 2^{level:.0f} or below"
    return _compared(f"low bits of {name}", event_text, sides, hits, first, loss, error)


def _few(sides: list[Side], loss: float, name: str, error: float) -> Finding:
    """Values seen before on one side come again there, and never on the other.

    Both sides are tried, each at half of the error.
    """
    findings = []
    for first in (0, 1):
        outputs_seen = np.unique(sides[first].chosen_on)
        hits = [int(np.isin(side.tested, outputs_seen).sum()) for side in sides]
        check, event_text = f"few values of {name}", "an output seen before"
        findings.append(_compared(check, event_text, sides, hits, first, loss, error / 2))
    return max(findings, key=lambda finding: finding.statistic)


def _compared(
    check: str,
    seen: str,
    sides: list[Side],
    hits: list[int],
    first: int,
    loss: float,
    error: float,
) -> Finding:
    """Whether an event is likelier on one side than noise of that scale allows.

    Clopper and Pearson's bounds at half of the error each; the event has seen none of these draws.
    """
    missed = proportion_upper(DRAWS_PER_SIDE - hits[first], DRAWS_PER_SIDE, error / 2)
    other = proportion_upper(hits[1 - first], DRAWS_PER_SIDE, error / 2)
    shown = math.log((1 - missed) / other) if missed < 1 else -math.inf
    status: Status = "broken" if shown > loss else "held"
    detail = (
        f"{seen}: {hits[first]} of {DRAWS_PER_SIDE} outputs for {sides[first].value:g}, "
        f"{hits[1 - first]} for {sides[1 - first].value:g}; a loss of {shown:.3g} at least, "
        f"{loss:.3g} allowed"
    )
    return Finding(check, status, shown, error, detail)


def _odd(target: Noisy, name: str, value: float, seed: int) -> Finding:
    """Infinities and NaN must give outputs that look like any other value's."""
    shown = int(np.count_nonzero(~np.isfinite(_tried(target, value, 100, seed))))
    return _exact(f"value: {name}", shown, f"{shown} of 100 outputs are no finite numbers")


def _tiny(target: Noisy, name: str, value: float, seed: int) -> Finding:
    """Whether a value near zero gives, from the same random bits, the outputs of zero."""
    at_zero, two = (_tried(target, each, 1_000, seed) for each in (0.0, value))
    different = int(np.count_nonzero(at_zero.view(np.int64) != two.view(np.int64)))
    return _exact(f"value: {name}", different, f"{different} of 1,000 outputs differ from zero's")


def _tried(target: Noisy, value: float, count: int, seed: int) -> FloatArray:
    """Outputs; as many NaN (at least one) for an error, which reveals the value just as well."""
    try:
        return target.draw(value, count, np.random.default_rng(seed))
    except Exception:  # noqa: BLE001  (whatever a sampler raises on one value tells something of it)
        return np.full(max(count, 1), math.nan)


def _exact(check: str, wrong: int, detail: str) -> Finding:
    return Finding(check, "broken" if wrong else "held", float(wrong), 0.0, detail)


def _time(target: Noisy, rng: Generator, error: float) -> Finding:
    value = np.zeros(1)

    def draw(_: int) -> float:
        return float(np.asarray(target.add(value, rng))[0])

    return check_timing(draw, error)
