"""Randomised smoothing against exact values: the distance to a point in three dimensions.

Averaged over the ball of radius r, ||x|| is 3r/4 + p^2/(2r) - p^4/(20 r^3) at p = ||x|| <= r, and
p + r^2/(5p) beyond: by integration over shells.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dpaudit.kernels.query import Array
from experiments.lab.model import (
    Cell,
    Check,
    Experiment,
    Findings,
    Panel,
    Results,
    Series,
    Size,
    Table,
    Values,
)
from experiments.user_level import problem
from mechanisms.papers.user_level.smoothing import BallSmoothedLoss

DIMENSION, RADIUS, LIPSCHITZ = 3, 0.5, 1.0
SURE = 5.0  # standard errors: 16 unbiased means are all within them but once in 10^5 times
PLACES = {Size.QUICK: (0.0, 0.5, 2.0), Size.FULL: (0.0, 0.1, 0.25, 0.5, 0.75, 1.0, 2.0, 4.0)}
DRAWS = {Size.QUICK: 20_000, Size.FULL: 400_000}


@dataclass(frozen=True)
class Distance:
    """||x - z||: convex, 1-Lipschitz, and not smooth at z.  ``size``: parameters."""

    size: int

    def dimension(self, features: int) -> int:
        """As many as the record has."""
        return self.size

    def initial(self, features: int, trials: int, seed: int) -> Array:
        """Zeros."""
        return np.zeros((trials, self.size))

    def values(self, parameters: ArrayLike, records: ArrayLike) -> Array:
        """Distances, (trials, n)."""
        return np.asarray(np.linalg.norm(self._apart(parameters, records), axis=-1))

    def gradients(self, parameters: ArrayLike, records: ArrayLike) -> Array:
        """Unit vectors, 0 at the record itself: (trials, n, d)."""
        apart = self._apart(parameters, records)
        length = np.linalg.norm(apart, axis=-1, keepdims=True)
        return np.asarray(apart / np.where(length > 0, length, 1.0))

    def _apart(self, parameters: ArrayLike, records: ArrayLike) -> Array:
        x, z = np.asarray(parameters, dtype=np.float64), np.asarray(records, dtype=np.float64)
        return np.asarray(x[:, None, :] - z)


def exact(place: float) -> float:
    """f_r at distance ``place`` of the record."""
    if place > RADIUS:
        return place + RADIUS**2 / (5 * place)
    return 0.75 * RADIUS + place**2 / (2 * RADIUS) - place**4 / (20 * RADIUS**3)


def exact_slope(place: float) -> float:
    """Its derivative."""
    if place > RADIUS:
        return 1 - RADIUS**2 / (5 * place**2)
    return place / RADIUS - place**3 / (5 * RADIUS**3)


def cells(size: Size) -> list[Cell]:
    """Distances from the record, over the radius of the ball."""
    return [Cell.of(place=p, draws=DRAWS[size]) for p in PLACES[size]]


def run(cell: Cell, rng: np.random.Generator) -> Values:
    """Mean value and mean gradient along the way out, with standard errors."""
    draws, place = cell.count("draws"), cell.number("place") * RADIUS
    direction = rng.standard_normal(DIMENSION)
    direction /= np.linalg.norm(direction)
    loss = BallSmoothedLoss(Distance(DIMENSION), RADIUS, int(rng.integers(2**31)))
    point, rows = (place * direction)[None], np.zeros((draws, DIMENSION))
    values = loss.values(point, rows)[0]
    slopes = loss.gradients(point, rows)[0] @ direction
    root = math.sqrt(draws)
    return {
        "value": float(values.mean()),
        "value_error": float(values.std(ddof=1) / root),
        "slope": float(slopes.mean()),
        "slope_error": float(slopes.std(ddof=1) / root),
    }


def read(results: Results) -> Findings:
    """Means near exact values; f <= f_r <= f + L r, and f_r <= f <= f_r + L r as printed."""
    rows, scores = [], []
    for r in results:
        place = r.cell.number("place") * RADIUS
        measured = [r.number(k) for k in ("value", "value_error", "slope", "slope_error")]
        stated = exact(place), exact_slope(place)
        scores.append(abs(measured[0] - stated[0]) / measured[1])
        scores.append(abs(measured[2] - stated[1]) / measured[3])
        rows.append((r.cell.number("place"), place, measured[0], stated[0], measured[2], stated[1]))
    lifts = [
        ((r.number("value") - r.cell.number("place") * RADIUS) / (LIPSCHITZ * RADIUS),
         4 * r.number("value_error") / (LIPSCHITZ * RADIUS))
        for r in results
    ]  # fmt: skip
    lowest, highest = min(lifts), max(lifts)
    checks = (
        Check("most standard errors from an exact value or slope", max(scores), upper=SURE,
              source="acceptance 7"),
        Check("least (f_r - f) / (L r), measured", lowest[0], lower=0.0, margin=lowest[1],
              source="acceptance 7"),
        Check("largest (f_r - f) / (L r), measured", highest[0], upper=1.0, margin=highest[1],
              source="acceptance 7"),
        Check("as printed: largest (f_r - f) / (L r), measured", highest[0], upper=0.0,
              margin=highest[1], source="Lemma D.1 as printed: f_r <= f"),
        Check("as printed: least (f_r - f) / (L r), measured", lowest[0], lower=-1.0,
              margin=lowest[1], source="Lemma D.1 as printed: f <= f_r + L r"),
    )  # fmt: skip
    columns = ("distance over r", "f", "f_r measured", "exact", "slope measured", "exact")
    table = Table("The distance to a record, smoothed over a ball", columns, tuple(rows))
    x = tuple(r.cell.number("place") for r in results)
    panel = Panel(
        "Slope of the smoothed distance",
        "distance over r",
        "slope",
        (
            Series("measured", x, tuple(r.number("slope") for r in results), style=""),
            Series("exact", x, tuple(exact_slope(p * RADIUS) for p in x), marker=""),
        ),
        "linear",
    )
    note = (
        f"d = 3, r = {RADIUS}; Lemma D.1 prints f_r <= f <= f_r + L r; of a convex f Jensen's "
        "inequality has f <= f_r, and L that f_r <= f + L r"
    )
    return Findings((table,), checks, (panel,), (note,))


user_level_smoothing = Experiment(
    name="user_level_smoothing",
    title="Randomised smoothing: values and gradients against exact ones",
    source=f"{problem.PAPER}, Lemma D.1",
    cells=cells,
    run=run,
    read=read,
    alone=("",),
)
