"""The objective that judges the models of a comparison: a loss of the catalogue, over a ball."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize

from dpaudit.kernels.query import Array, Records
from mechanisms.papers.common.losses import Logistic, Loss, mean_value

LARGEST = 1e6  # of a weight: data that a hyperplane separates have no minimiser
NEARLY = 1 + 1e-9  # norms above the bound by round-off alone are not named


@dataclass(frozen=True)
class LossObjective:
    """The mean of a loss over rows; models within ``radius`` of 0.

    Rows are features, then a target.  Records of units, (units, items, columns), count row by row;
    an item that is NaN in all columns is one that its unit does not have.
    """

    loss: Loss
    features: int
    radius: float = math.inf

    def start(self, records: Records) -> Array:
        """The loss's start, (1, d)."""
        return self.loss.initial(self.features, 1, 0)

    def losses(self, models: Array, records: Records) -> Array:
        """The mean loss of each model, (trials,)."""
        return mean_value(self.loss, models, rows_of(records))

    def optimum(self, records: Records) -> Array:
        """The minimiser over the ball, by SciPy with the loss's gradients, (1, d)."""
        rows = rows_of(records)

        def value(w: Array) -> float:
            return float(mean_value(self.loss, w[None], rows)[0])

        def slope(w: Array) -> Array:
            return np.asarray(self.loss.gradients(w[None], rows)[0].mean(axis=0))

        start = self.start(records)[0]
        size = min(self.radius, LARGEST)
        ball: Any = {"type": "ineq", "fun": lambda w: size**2 - w @ w, "jac": lambda w: -2 * w}
        found = minimize(value, start, jac=slope, method="L-BFGS-B").x
        if float(np.linalg.norm(found)) > size:
            found = minimize(value, start, jac=slope, method="SLSQP", constraints=ball).x
        return np.asarray(found)[None]

    def warnings(self, records: Records) -> tuple[str, ...]:
        """Rows longer than the norm that programs scale them to, and targets beyond 0 and 1."""
        rows = rows_of(records)
        norms = np.linalg.norm(rows[:, :-1], axis=1)
        bound = math.sqrt(self.features)
        longer = int(np.count_nonzero(norms > bound * NEARLY))
        outside = int(np.count_nonzero((rows[:, -1] < 0) | (rows[:, -1] > 1)))
        said = []
        if longer:
            said.append(
                f"{longer:,} of {len(rows):,} rows have a norm above sqrt({self.features}), which "
                "the programs scale or clip; scale features by public bounds to [-1, 1]"
            )
        if outside:
            said.append(f"{outside:,} of {len(rows):,} labels lie outside 0 to 1, and are cut")
        return tuple(said)


def rows_of(records: Records) -> Array:
    """All rows of all records, (rows, columns), without items that are not there."""
    rows = records.values.reshape(-1, records.values.shape[-1])
    return rows[~np.isnan(rows).all(axis=1)]


def logistic(features: int, values: Mapping[str, Any]) -> LossObjective:
    """Logistic loss over the ball of the radius that was set, or of 2."""
    return LossObjective(Logistic(), features, float(values.get("radius", 2.0)))


def logistic_anywhere(features: int, values: Mapping[str, Any]) -> LossObjective:
    """Logistic loss without a bound of the model."""
    return LossObjective(Logistic(), features)
