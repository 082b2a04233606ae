"""Transforms of tilted masses: direct sums at the frequencies that matter, a cover for the others.

Direct sums: an array of n = A B masses is a matrix of A rows; phi(j) = sum_a exp(-i theta_j (first
- c + a B)) sum_b p_{a,b} exp(-i theta_j b), one matrix product for all factors and frequencies.
A sum of m terms of total size 1 errs by at most m + 8 roundings in either part, so phi is within
    E = 4 u (A + B + 16),  u = 2^-53.

The frequencies left out, theta in (theta_J, pi], are covered by intervals [c - r, c + r]: with
phi' the derivative and m2 = sum p~_n (n - c_f)^2 (Taylor, |exp'' | <= 1)
    |phi(theta)| <= max(|phi(c) - r phi'(c)|, |phi(c) + r phi'(c)|) + m2 r^2 / 2,
and everywhere |phi(theta)| <= sum_n |p~_n - p~_{n-1}| / (2 sin(theta / 2)) (summation by parts).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.exact.effort import spend
from dpaudit.grids.cells import UNIT
from dpaudit.grids.discrete import Reals
from dpaudit.profiles.grid.stack import Stack, Tilted

Complexes = NDArray[np.complexfloating[Any, Any]]
Integers = NDArray[np.int64]
COVER_RATIO = 0.25  # width of an interval of frequencies, relative to its lower end
COVER_SLACK = 1e-8  # by which a transform is raised, for its rounding
COVER_EXPONENT = 40.0  # nats: frequencies with a smaller transform are left out
MOST_INTERVALS = 400  # of frequencies that are covered
# Angles in one array.
AT_ONCE = 2**19
PRODUCTS_PER_UNIT = 500  # Complex products of a matrix in one unit of work (a microsecond).
TURNS_PER_UNIT = 20  # Cosines and sines in one unit of work.


@dataclass(frozen=True)
class Rows:
    """Masses of all factors, padded to rows of equal length; where rows and factors start."""

    matrix: Reals
    leads: Integers
    starts: Integers
    relative: float

    @property
    def length(self) -> int:
        return int(self.matrix.shape[1])


def rows_of(stack: Stack, masses: Reals, centres: Integers) -> Rows:
    """Rows for factors whose indices count from their centres."""
    length = int(min(max(math.sqrt(float(stack.sizes.max())), 8), 512))
    counts = -(-stack.sizes // length)
    starts = np.concatenate(([0], np.cumsum(counts)[:-1])).astype(np.int64)
    flat = np.zeros(int(counts.sum()) * length)
    for k, (start, size) in enumerate(zip(stack.starts, stack.sizes, strict=True)):
        at = int(starts[k]) * length
        flat[at : at + size] = masses[start : start + size]
    first = np.array([d.first for d, _ in stack.factors]) - centres
    within = np.arange(int(counts.sum())) - np.repeat(starts, counts)
    leads = np.repeat(first, counts) + within * length
    relative = 4 * UNIT * (length + int(counts.max()) + 16)
    return Rows(flat.reshape(-1, length), leads, starts, relative)


def at_frequencies(rows: Rows, frequencies: Integers, period: int) -> Complexes:
    """phi of every factor (rows) at 2 pi j / period (columns), each within ``rows.relative``."""
    unit = 2 * math.pi / period
    inner = np.outer(np.arange(rows.length), frequencies) % period * unit
    return _sums(rows, inner, lambda leads: np.outer(leads, frequencies) % period * unit)


def at_angles(rows: Rows, angles: Reals) -> Complexes:
    """phi of every factor at any angles, within ``COVER_SLACK``."""
    inner = np.outer(np.arange(rows.length), angles)
    return _sums(rows, inner, lambda leads: np.outer(leads, angles))


def _sums(rows: Rows, inner: Reals, outer: Callable[[Integers], Reals]) -> Complexes:
    """A few factors at a time: of all of them the angles would be the largest array by far."""
    angles = inner.shape[1]
    units = (
        rows.matrix.size * angles / PRODUCTS_PER_UNIT
        + (inner.size + len(rows.leads) * angles) / TURNS_PER_UNIT
    )
    spend(units, f"the transform of a privacy profile at {angles} frequencies")
    low, high = np.cos(inner), np.sin(inner)
    ends = np.append(rows.starts[1:], len(rows.leads))
    sums = np.empty((len(rows.starts), inner.shape[1]), dtype=np.complex128)
    most, first = max(AT_ONCE // max(inner.shape[1], 1), 1), 0
    while first < len(ends):
        start = int(rows.starts[first])
        last = max(int(np.searchsorted(ends, start + most, side="right")), first + 1)
        part = slice(start, int(ends[last - 1]))
        parts = (rows.matrix[part] @ low) - 1j * (rows.matrix[part] @ high)
        parts *= np.exp(-1j * outer(rows.leads[part]))
        sums[first:last] = np.add.reduceat(parts, rows.starts[first:last] - start, axis=0)
        first = last
    return sums


# --- frequencies left out ------------------------------------------------------------------------


def left_out_bound(
    stack: Stack, tilted: Tilted, centres: Integers, rows: Rows, lowest: float
) -> float | None:
    """Log of a bound of |Phi| on [lowest, pi]; None where the cover does not reach far enough."""
    indices = stack.indices - np.repeat(centres, stack.sizes)
    second = np.add.reduceat(tilted.masses * indices.astype(float) ** 2, stack.starts)
    # Total variation of every factor's masses, ends included.
    jumps = np.abs(np.diff(tilted.masses, prepend=0.0))
    jumps[stack.starts] = tilted.masses[stack.starts]
    last = tilted.masses[stack.starts + stack.sizes - 1]
    variation: Reals = np.add.reduceat(jumps, stack.starts) + last
    middles, radii, tail = _intervals(stack, second, variation, lowest)
    if len(middles) > MOST_INTERVALS:
        return None
    if not len(middles):
        return tail
    slopes = rows_of(stack, tilted.masses * indices, centres)
    size = _largest(at_angles(rows, middles), at_angles(slopes, middles), radii)
    cover = size + second[:, None] * radii**2 / 2 + COVER_SLACK
    cover += COVER_SLACK * np.sqrt(second)[:, None] * radii
    bound = float(np.max(stack.times @ np.log(np.minimum(cover, 1.0))))
    return max(bound, tail)


def _largest(values: Complexes, moments: Complexes, radii: Reals) -> Reals:
    """Larger size of phi +- r phi' (phi' is -i times the sums of (n - c) p~_n)."""
    change = -1j * moments * radii
    larger: Reals = np.maximum(np.abs(values - change), np.abs(values + change))
    return larger


def _intervals(
    stack: Stack, second: Reals, variation: Reals, lowest: float
) -> tuple[Reals, Reals, float]:
    """Middles and radii that cover [lowest, top], and the log bound from the variation beyond."""
    top, tail = _settled_angle(stack, variation)
    width = 0.8 / math.sqrt(float(np.max(second * (stack.times > 0))) + 1e-300)
    edges = [lowest]
    while edges[-1] < top and len(edges) <= MOST_INTERVALS + 1:
        edges.append(edges[-1] + min(COVER_RATIO * edges[-1], width))
    ends = np.minimum(np.array(edges), math.pi)
    return (ends[:-1] + ends[1:]) / 2, np.diff(ends) / 2 * (1 + 1e-9) + 1e-12, tail


def _settled_angle(stack: Stack, variation: Reals) -> tuple[float, float]:
    """Smallest angle (or pi) from which the variation alone makes |Phi| small, and that bound."""
    angles = np.geomspace(1e-4, math.pi, 200)
    size = np.outer(variation, 1 / (2 * np.sin(angles / 2))) * (1 + 1e-12)
    bounds = stack.times @ np.log(np.minimum(size, 1.0))
    small = np.flatnonzero(bounds < -COVER_EXPONENT)
    if len(small):
        return float(angles[small[0]]), float(bounds[small[0]])
    return math.pi, -math.inf
