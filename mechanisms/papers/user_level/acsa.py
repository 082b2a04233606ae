"""AC-SA and its restarts: an optimal method for strongly convex losses with noisy gradients.

Source: Ghadimi, Lan 2012 (one stage) and 2013 (restarts); a reconstruction, since the paper only
cites them (Lowy, Liu, Asi 2024, Algorithm 2, line 15, and Remark C.5).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array
from mechanisms.papers.user_level.problem import positive, whole

Project = Callable[[Array], Array]


@dataclass(frozen=True)
class Stage:
    """One stage: so many steps at step constant phi, from the last stage's average."""

    steps: int
    phi: float


@dataclass(frozen=True)
class State:
    """x and x_ag, (trials, d)."""

    point: Array
    average: Array


def middle(state: State, t: int, convexity: float, phi: float) -> Array:
    """x_md of step t = 1, 2, ..., where the gradient is taken."""
    alpha, gamma = 2 / (t + 1), 4 * phi / (t * (t + 1))
    below = gamma + (1 - alpha**2) * convexity
    old = (1 - alpha) * (convexity + gamma) / below
    return np.asarray(old * state.average + (1 - old) * state.point)


def ac_sa_step(
    state: State, at: Array, gradient: Array, t: int, convexity: float, phi: float, project: Project
) -> State:
    """Step t with a gradient taken at x_md: x by a prox step, x_ag by averaging."""
    alpha, gamma = 2 / (t + 1), 4 * phi / (t * (t + 1))
    pulled = alpha * convexity * at + ((1 - alpha) * convexity + gamma) * state.point
    point = project((pulled - alpha * gradient) / (convexity + gamma))
    return State(point, alpha * point + (1 - alpha) * state.average)


def ac_sa(
    start: Array,
    gradient: Callable[[Array], Array],
    stages: Sequence[Stage],
    convexity: float,
    project: Project,
) -> Array:
    """x_ag after all stages, (trials, d); each restarts from the average of the one before."""
    average = start
    for stage in stages:
        state = State(average, average)
        for t in range(1, stage.steps + 1):
            at = middle(state, t, convexity, stage.phi)
            state = ac_sa_step(state, at, gradient(at), t, convexity, stage.phi, project)
        average = state.average
    return average


def one_stage(steps: int, smoothness: float) -> tuple[Stage, ...]:
    """phi = 2 beta: excess at most 2 phi |x_0 - x*|^2 / (T (T + 1)) + 8 V^2 / (mu T)."""
    return (Stage(whole(steps, "steps"), 2 * positive(smoothness, "smoothness")),)


def restarts(
    steps: int, smoothness: float, convexity: float, variance: float, excess: float
) -> tuple[Stage, ...]:
    """N_k and phi_k that halve the excess each stage, cut to ``steps`` in all.

    N_k = ceil(max(4 sqrt(2 beta / mu), 64 V^2 / (3 mu V_0 2^-k))), phi_k = max(2 beta,
    sqrt(mu V^2 / (3 V_0 2^-(k-1) N_k (N_k + 1) (N_k + 2)))).  ``excess``: V_0, at least that of the
    start; ``variance``: V^2 of a gradient.  All are public.
    Source: Ghadimi, Lan 2013, Section 3.
    """
    left, stages, k = whole(steps, "steps"), list[Stage](), 1
    for name, value in (("smoothness", smoothness), ("convexity", convexity), ("excess", excess)):
        positive(value, name)
    if not (math.isfinite(variance) and variance >= 0):
        raise InvalidParameter(f"variance = {variance}: expected a number from 0 on")
    while left:
        before = excess * 2.0 ** -(k - 1)
        wanted = max(
            4 * math.sqrt(2 * smoothness / convexity), 128 * variance / (3 * convexity * before)
        )
        length = min(left, math.ceil(wanted)) if wanted < left else left
        product = length * (length + 1) * (length + 2)
        phi = math.sqrt(convexity * variance / (3 * before * product))
        stages.append(Stage(length, max(2 * smoothness, phi)))
        left, k = left - length, k + 1
    return tuple(stages)
