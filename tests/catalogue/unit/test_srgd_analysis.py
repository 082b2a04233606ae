"""What the analysis of Accelerated-DP-SRGD promises: potentials, and acceleration."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpaudit.kernels.query import Array
from dpaudit.scope import central
from mechanisms.papers.srgd.accelerated import DPSRGD, AcceleratedDPSRGD, nesterov_potential
from mechanisms.papers.srgd.geometry import EtaSchedule
from mechanisms.papers.srgd.rows import Clipped
from tests.support.optimisation import (
    Hubers,
    Quadratic,
    program,
    states,
    without_noise,
)

REPLACE_ONE = central("replace_one")


def problems() -> list[Any]:
    """Convex quadratics and Hubers, smooth with constant 1, with their minimiser."""
    rng = np.random.default_rng(8)
    found = []
    for _ in range(6):
        root = rng.standard_normal((4, 4))
        matrix = root @ root.T
        matrix /= np.linalg.eigvalsh(matrix)[-1]
        optimum = rng.standard_normal(4)
        found.append((Quadratic(matrix, matrix @ optimum), optimum))
        rows = rng.standard_normal((9, 4))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        found.append((Hubers(rows, rows @ optimum), optimum))
    return found


def increase(
    loss: Any, optimum: Array, schedule: EtaSchedule, weight: float
) -> tuple[float, float]:
    """The largest step of the potential, and gap eta_{0:T-1} / (beta ||x*||^2) at the end."""
    of = program(loss, 25, beta=1, schedule=schedule, rows=Clipped(10**6))
    least = loss.values(optimum[None], np.ones((1, 1)))[0, 0]
    values = []
    for t, state in enumerate([of.start(1), *states(of, without_noise(of))]):
        gap = loss.values(state.y, np.ones((1, 1)))[:, 0] - least
        found = nesterov_potential(
            gap, state.z, optimum, t=t, beta=1.0, schedule=schedule, weight=weight
        )
        values.append(float(found[0]))
    return max(np.diff(values)), float(gap[0]) * schedule.total(24) / float(optimum @ optimum)


@pytest.mark.parametrize(("loss", "optimum"), problems())
def test_the_repaired_potential_never_grows(loss: Any, optimum: Array) -> None:
    """eta_t = (t + 1) / 2, weight beta / 2; and the gap it implies."""
    step, gap = increase(loss, optimum, EtaSchedule.HALVED, 0.5)
    assert step <= 1e-10
    assert gap <= 0.5


def test_the_printed_potential_does() -> None:
    """eta_t = t + 1 and weight 2 beta: some step of some problem grows."""
    assert max(increase(*p, EtaSchedule.LINEAR, 2.0)[0] for p in problems()) > 1e-3


def test_acceleration() -> None:
    """A chain, p = 400: gaps of y_T at T = 8, ..., 128, and slopes of both methods."""
    size, steps = 400, (8, 16, 32, 64, 128)
    shift = np.diag(np.ones(size - 1), 1)
    chain = Quadratic((2 * np.eye(size) - shift - shift.T) / 4, np.eye(size)[0] / 4)
    optimum = np.linalg.solve(chain.matrix, chain.linear)
    least = float(chain.values(optimum[None], np.ones((1, 1)))[0, 0])

    def gaps(kind: Any) -> Array:
        found = []
        for rounds in steps:
            of = kind(program(chain, rounds, beta=1).gradient)
            y = of.run(without_noise(of)).output
            found.append(float(chain.values(y, np.ones((1, 1)))[0, 0]) - least)
        return np.array(found)

    fast, slow = gaps(AcceleratedDPSRGD), gaps(DPSRGD)
    assert fast == pytest.approx([0.021623, 0.011142, 0.005530, 0.002638, 0.001171], abs=6e-7)
    slopes = [np.polyfit(np.log(steps), np.log(g), 1)[0] for g in (fast, slow)]
    assert slopes[0] == pytest.approx(-1.05, abs=0.1)
    assert slopes[1] == pytest.approx(-0.5, abs=0.1)
