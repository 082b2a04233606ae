"""The transform Phi of a composition, by FFT."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from dpaudit.exact.effort import spend
from dpaudit.grids.discrete import Reals, TooFine
from dpaudit.grids.hull import UNIT
from dpaudit.profiles.grid.stack import Stack, Tilted

Complexes = NDArray[np.complexfloating[Any, Any]]
FFT_FACTOR = 32.0  # roundings of a fast transform, per level
LEFT_OUT_EXPONENT = 46.0  # nats: frequencies with a smaller transform are left out
MOST_KEPT = 2**18  # frequencies that are kept
# Losses of an FFT, its logarithms and powers, to a unit of work.
PER_UNIT = 5
LONGEST_FFT = 2**22  # losses of one fast transform: 64 MB


@dataclass(frozen=True)
class Transform:
    """Phi at frequencies 0, 1, ..., the error of each, and the largest |Phi| at the others."""

    values: Complexes
    errors: Reals
    left_out: float


def transform(stack: Stack, tilted: Tilted, centres: NDArray[np.int64], period: int) -> Transform:
    """Phi at the frequencies that matter, by one real FFT per factor.

    Errors: TooFine for more losses than one FFT may have, or frequencies than are kept.
    """
    if period > LONGEST_FFT:
        raise TooFine(f"an FFT of length {period}; take a larger step")
    spend(period * len(stack.factors) / PER_UNIT, f"FFTs of length {period}")
    log_sum = np.zeros(period // 2 + 1, dtype=np.complex128)
    bound = np.zeros(period // 2 + 1)
    grown = np.zeros(period // 2 + 1)
    for k, (discrete, times) in enumerate(stack.factors):
        start = stack.starts[k]
        masses = tilted.masses[start : start + stack.sizes[k]]
        folded = _folded(masses, discrete.first - int(centres[k]), period)
        values = fft.rfft(folded)
        off = FFT_FACTOR * UNIT * math.log2(period) * math.sqrt(period * float(folded @ folded))
        size = np.abs(values)
        # A value of 0 has the log -inf, and times that no known argument: its power is 0 again.
        with np.errstate(divide="ignore", invalid="ignore"):
            log_sum += times * np.log(values)
            bound += times * np.log(size + off)
            grown += times * (np.log1p(off / size) + 16 * UNIT)
    return _kept(log_sum, bound, grown)


def _folded(masses: Reals, lead: int, period: int) -> Reals:
    """Masses at indices lead, lead + 1, ... modulo the period."""
    folded = np.zeros(period)
    at = lead % period
    if at + len(masses) <= period:
        folded[at : at + len(masses)] = masses
    else:
        np.add.at(folded, (at + np.arange(len(masses))) % period, masses)
    return folded


def _kept(log_sum: Complexes, bound: Reals, grown: Reals) -> Transform:
    large = np.flatnonzero(bound > -LEFT_OUT_EXPONENT)
    count = int(large[-1]) + 1 if len(large) else 1
    if count > MOST_KEPT:
        raise TooFine(f"{count} frequencies matter, of {len(bound)}; take a larger step")
    bounds_left = bound[count:]
    rounding = _rounding(log_sum[:count].real, grown[:count], bound[:count])
    left_out = float(np.exp(bounds_left.max())) if len(bounds_left) else 0.0
    return Transform(np.exp(log_sum[:count]), rounding, left_out)


def _rounding(log_size: Reals, grown: Reals, largest: Reals) -> Reals:
    """prod (|phi| + E)^T - prod |phi|^T, from the logs of the product, of the ratio and of the sum.

    The ratio's log, sum T (log1p(E / |phi|) + 16 u), is infinite where some phi is 0.
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        difference = np.exp(log_size + np.log(np.expm1(grown)))
    # Neither product is more than the larger one, but for its own roundings.
    return np.where(np.isfinite(difference), difference, 2 * np.exp(np.minimum(largest, 0.0)))
