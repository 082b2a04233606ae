"""Attacks on sums in floating point: order, repeated rounding, overflow, what is no number.

The sensitivity of a sum as it is computed can be far above that of the sum as it is meant.
Source: Casacuberta, Shoemate, Vadhan and Wagaman (2022), sections 4 to 6.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from dpaudit.audit.residuals import Finding

FloatArray = npt.NDArray[np.float64]
Total = Callable[[FloatArray], Any]
# Share of the sensitivity forgiven to rounding: it raises epsilon by a millionth.
SENSITIVITY_TOLERANCE = 1e-6
MANTISSA_BITS = (8, 11, 24, 53)  # bfloat16, float16, float32, float64
# Records that bring a sum to this many bounds, where a small addend can be rounded away.
RECORDS_BEFORE_TAIL = 1_024
# Records of the longest sum: more than 2^16, where 16-bit counters wrap around.
LONGEST_SUM = 70_000


def check_total(total: Total, bound: float = 1.0) -> tuple[Finding, ...]:
    """Attack a sum of records in [-bound, bound], ``total(records) -> number``; deterministic.

    A record that is no finite number, or outside, has to be cut or left out.  Each check compares
    what is computed for two neighbours (or one data set in two orders) with what it may differ by.
    """
    checks = (
        _order(total, bound),
        _rounding(total, bound),
        _overflow(total, bound),
        *(_odd(total, bound, name, value) for name, value in _ODD.items()),
        _empty(total),
    )
    return checks


def _order(total: Total, bound: float) -> Finding:
    """Whether the total is the same for the same records in another order."""
    worst, where = 0.0, "none"
    for name, records in _orders(bound):
        values = [_value(total, records[places]) for places in _permutations(records)]
        spread = (max(values) - min(values)) / bound
        if not spread <= worst:
            worst, where = spread, name
    return _finding(
        "sum: order", worst, SENSITIVITY_TOLERANCE, f"orders of {where} differ by that many bounds"
    )


def _orders(bound: float) -> Iterator[tuple[str, FloatArray]]:
    rng = np.random.default_rng(0)
    yield "random records", rng.uniform(-bound, bound, 4_096)
    yield "large and small records", np.repeat([bound, bound * 2.0**-12], [2_048, 8_192])
    yield "alternating records", np.tile([bound, bound * 2.0**-9, -bound], 2_048)


def _permutations(records: FloatArray) -> Iterator[npt.NDArray[np.intp]]:
    ascending = np.argsort(records, kind="stable")
    yield np.arange(records.size)
    yield ascending
    yield ascending[::-1]
    yield np.argsort(np.abs(records), kind="stable")
    yield np.random.default_rng(1).permutation(records.size)


def _rounding(total: Total, bound: float) -> Finding:
    """A sum that stays above a power of two and falls below it, for every format."""
    worst, where = 0.0, "none"
    for digits in MANTISSA_BITS:
        for sign in (1.0, -1.0):
            above, below = _straddling(digits, sign * bound)
            moved = abs(_value(total, above) - _value(total, below)) / bound
            if not moved <= worst:
                worst, where = moved, f"{digits} binary digits"
    detail = f"one record moves it by that many bounds, 1 is meant (attack on {where})"
    return _finding("sum: repeated rounding", worst, 1 + SENSITIVITY_TOLERANCE, detail)


def _straddling(digits: int, bound: float) -> tuple[FloatArray, FloatArray]:
    """Sums one bound above 1,024 bounds, and there; then many steps down that only one follows."""
    step = -0.6 * bound * RECORDS_BEFORE_TAIL * 2.0**-(digits)
    tail = (
        np.full(LONGEST_SUM - RECORDS_BEFORE_TAIL - 1, step)
        if abs(step) < abs(bound)
        else np.full(0, step)
    )
    base = np.full(RECORDS_BEFORE_TAIL, bound)
    return np.concatenate([[bound], base, tail]), np.concatenate([[0.0], base, tail])


def _overflow(total: Total, bound: float) -> Finding:
    """Sums of n bounds, n around the ranges of one and two bytes."""
    worst = 0.0
    for size in (100, 127, 128, 129, 255, 256, 257, 32_767, 32_768, 65_535, 65_536, LONGEST_SUM):
        for sign in (1, -1):
            value = _value(total, np.full(size, sign * bound))
            off = abs(value - sign * size * bound) / bound
            worst = off if not off <= worst else worst
    return _finding(
        "sum: overflow", worst, 1.0, "a sum of equal records is off by that many bounds"
    )


_ODD = {
    "not a number": math.nan,
    "infinity": math.inf,
    "minus infinity": -math.inf,
    "the largest float": 1.7976931348623157e308,
    "a subnormal number": 5e-324,
    "negative zero": -0.0,
}


def _odd(total: Total, bound: float, name: str, odd: float) -> Finding:
    """A record of this value in place of a zero may move the sum by a bound, and no more."""
    plain, changed = np.zeros(3), np.array([odd, 0.0, 0.0])
    before, after = _value(total, plain), _value(total, changed)
    moved = abs(after - before) / bound
    sign = before == after == 0 and math.copysign(1, before) != math.copysign(1, after)
    statistic = math.inf if sign or not moved <= math.inf else moved
    detail = f"a record that is {name} moves the sum by that many bounds, 1 is meant"
    return _finding(f"sum: {name}", statistic, 1 + SENSITIVITY_TOLERANCE, detail)


def _empty(total: Total) -> Finding:
    value = _value(total, np.zeros(0))
    return _finding("sum: no record", 0.0 if value == 0 else math.inf, 0.0, f"it gives {value!r}")


def _value(total: Total, records: FloatArray) -> float:
    """The sum as computed; an error or what is no number counts as NaN."""
    with np.errstate(all="ignore"):
        try:
            return float(total(records.copy()))
        except Exception:  # noqa: BLE001  (whatever a total raises on data tells something of it)
            return math.nan


def _finding(check: str, statistic: float, limit: float, detail: str) -> Finding:
    holds = statistic <= limit
    shown = math.inf if math.isnan(statistic) else statistic
    return Finding(check, "held" if holds else "broken", shown, 0.0, f"{shown:.6g}: {detail}")
