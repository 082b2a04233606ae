"""Clouds of points: how concentrated they are, which of them are inliers, and the inliers' mean.

Points are displacements from a released centre, (trials, C, d); nothing of shape (C, C, d) is
made.  Sensitivities are those of one point that is replaced, C even.
Source: Lowy, Liu, Asi 2024, Algorithm 1, lines 8 to 12; weighted inliers: dpaudit 2026.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array, Records

BLOCK = 2_000_000
WITHIN = 1 - 1e-9


def counts_within(points: Array, unit: Array | float, radii: tuple[float, ...]) -> list[Array]:
    """For each radius, how many points lie within radius * unit of each, itself too: (trials, C).

    Differences of coordinates, never of squared norms: ``unit`` may be 1e-8 of the points.
    Errors: InvalidParameter for a unit that is not positive and finite.
    """
    trials, count, _ = points.shape
    units = np.broadcast_to(np.asarray(unit, dtype=np.float64), (trials,))
    if not (np.isfinite(units) & (units > 0)).all():
        raise InvalidParameter("radius of a cloud of points: expected positive, finite numbers")
    scaled = points / units[:, None, None]
    if trials > 1 and (scaled == scaled[:1]).all():
        return [np.repeat(found, trials, axis=0) for found in counts_within(scaled[:1], 1.0, radii)]
    found = np.empty((len(radii), trials, count))
    for t in range(trials):
        found[:, t] = _counts_of(scaled[t], radii)
    return list(found)


def _counts_of(points: Array, radii: tuple[float, ...]) -> Array:
    """(radii, C); equal points are counted once, and only then all of them.

    Points within half the least radius of a centre are all within it of each other, by the
    triangle inequality: distances are taken to the other points alone.
    """
    kinds, origin = Records(points).distinct()
    sizes = np.bincount(origin).astype(np.float64)
    reach = min(radii) / 2 * WITHIN
    with np.errstate(all="ignore"):
        offsets = kinds - np.median(kinds, axis=0)
        core = np.einsum("cd,cd->c", offsets, offsets) <= reach * reach
    found = np.full((len(radii), len(kinds)), float(sizes[core].sum()))
    far = np.flatnonzero(~core)
    rows = max(1, BLOCK // len(kinds))
    for start in range(0, len(far), rows):
        block = far[start : start + rows]
        for near, row in zip(_neighbours(kinds[block], kinds, radii), found, strict=True):
            row[core] += sizes[block] @ near[:, core]
            row[block] = near @ sizes
    # Itself too, though a point that is not a number is at no distance from itself.
    return np.asarray(np.maximum(found, 1.0)[:, origin])


def _neighbours(rows: Array, kinds: Array, radii: tuple[float, ...]) -> Iterator[NDArray[np.bool_]]:
    from scipy.spatial.distance import cdist

    squares = cdist(rows, kinds, "sqeuclidean")
    yield from (squares <= radius * radius for radius in radii)


def concentration_score(points: Array, radius: Array | float) -> Array:
    """(ordered pairs within radius) / C, in [1, C], (trials,): sensitivity 2 (C - 1) / C.

    Only pairs with the replaced point can change, and its pair with itself does not.
    """
    (counts,) = counts_within(points, radius, (1.0,))
    return score_of_counts(counts)


def score_of_counts(counts: Array) -> Array:
    """The score, from how many points lie within the radius of each."""
    return np.asarray(counts.sum(axis=1) / counts.shape[1])


def inlier_probabilities(counts: Array) -> Array:
    """clip((h - C/2) / (C/6), 0, 1) of the numbers h of neighbours, (trials, C).

    One point moves another's probability by at most 6 / C; with C even two points of positive
    probability, on either of two neighbours, have a common neighbour.
    """
    count = counts.shape[1]
    return np.asarray(np.clip((counts - count / 2) / (count / 6), 0.0, 1.0))


def weighted_inlier_mean(probabilities: Array, points: Array) -> Array:
    """sum_j p_j x_j / sum_j p_j, (trials, d); 0 where no probability is positive.

    No coins, so its sensitivity has no factor log(1 / zeta).  Source: dpaudit 2026.
    """
    total = probabilities.sum(axis=1)
    safe = np.where(total > 0, total, 1.0)
    return np.asarray(np.einsum("tc,tcd->td", probabilities, points) / safe[:, None])


def even(real: float) -> int:
    """The least even whole number that is at least ``real``, and at least 2."""
    return max(2, 2 * int(np.ceil(real / 2)))
