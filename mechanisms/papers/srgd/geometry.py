"""The constraint set and the step schedules that the algorithms of the paper share.

Source: Choquette-Choo, Ganesh, Thakurta 2024, Algorithm 1.
"""

from __future__ import annotations

import math
from enum import StrEnum

import numpy as np

from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array


class EtaSchedule(StrEnum):
    """The weights eta_t of Nesterov's coupling, t = 0, 1, ...

    ``LINEAR``: eta_t = t + 1, as printed; eta_t^2 <= 4 eta_{0:t}.
    ``HALVED``: eta_t = (t + 1) / 2, so that eta_t^2 <= eta_{0:t}: the potential argument closes.
    Source: Choquette-Choo, Ganesh, Thakurta 2024, Algorithm 1; Bansal, Gupta 2019 (``HALVED``).
    """

    LINEAR = "t+1"
    HALVED = "bg19"

    def eta(self, t: int) -> float:
        """The weight eta_t; eta_{-1} = 0."""
        if t < -1:
            raise InvalidParameter(f"eta({t}): rounds are counted from 0, and -1 stands for none")
        return (t + 1) * self.unit

    def total(self, t: int) -> float:
        """eta_{0:t} = eta_0 + ... + eta_t, which is (t + 1)(t + 2) / 2 of the unit."""
        if t < -1:
            raise InvalidParameter(f"total({t}): rounds are counted from 0, and -1 stands for none")
        return (t + 1) * (t + 2) / 2 * self.unit

    @property
    def unit(self) -> float:
        """eta_0."""
        return 1.0 if self is EtaSchedule.LINEAR else 0.5


def tau(t: int) -> float:
    """The coupling tau_t = eta_t / eta_{0:t} = 2 / (t + 2), the same for both schedules."""
    if t < 0:
        raise InvalidParameter(f"tau({t}): rounds are counted from 0")
    return 2.0 / (t + 2)


def project_l2_ball(points: Array, radius: float) -> Array:
    """The nearest point of the ball of ``radius`` around 0, for each row of (trials, d).

    An infinite radius is no constraint.  A row that is not finite stays as it is.
    Errors: InvalidParameter for a radius that is negative or NaN, or points of another shape.
    """
    if not radius >= 0:
        raise InvalidParameter(f"project_l2_ball: radius = {radius}, expected a number from 0 on")
    if points.ndim != 2:
        raise InvalidParameter(f"project_l2_ball: shape {points.shape}, expected (trials, d)")
    if math.isinf(radius):
        return points
    largest = np.abs(points).max(axis=-1, initial=0.0)
    # Scaled by the largest entry, so that the norm neither overflows nor underflows.
    scale = np.where(np.isfinite(largest) & (largest > 0), largest, 1.0)
    scaled = points / scale[:, None]
    norm = np.linalg.norm(scaled, axis=-1)
    with np.errstate(over="ignore", under="ignore"):
        outside = np.isfinite(largest) & (norm > radius / scale)
    projected = np.array(points)
    projected[outside] = scaled[outside] * (radius / norm[outside])[:, None]
    return projected


def nesterov_step(
    x: Array, z: Array, weighted: Array, t: int, schedule: EtaSchedule, radius: float
) -> tuple[Array, Array, Array]:
    """Lines 6 to 8 of Algorithm 1: the next x, y and z from the released G_t.

    z' = Proj(z - G_t), y' = Proj(x - G_t / eta_t), x' = (1 - tau_{t+1}) y' + tau_{t+1} z'.
    ``weighted`` is G_t = eta_t grad_t / beta - b_t; all arrays are (trials, d).
    Source: Choquette-Choo, Ganesh, Thakurta 2024, Algorithm 1.
    """
    ahead = project_l2_ball(z - weighted, radius)
    here = project_l2_ball(x - weighted / schedule.eta(t), radius)
    share = tau(t + 1)
    return (1 - share) * here + share * ahead, here, ahead


def ball(radius: object, place: str) -> float:
    """A radius as a float, checked: positive, or infinite where there is no constraint.

    Errors: InvalidParameter for anything else.
    """
    if isinstance(radius, bool) or not isinstance(radius, (int, float, np.floating)):
        raise InvalidParameter(f"{place} = {radius!r}: expected a number")
    if not radius > 0:
        raise InvalidParameter(f"{place} = {radius}: expected a positive number")
    return float(radius)
