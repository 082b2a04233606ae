"""One pass of projected SGD by every group at once, and how far two such runs drift apart.

Source: Lowy, Liu, Asi 2024, Algorithm 1, lines 5 to 8, and Lemma 2.3.
"""

from __future__ import annotations

import math

import numpy as np

from dpaudit.errors import InvalidParameter
from dpaudit.query import Array, Records
from mechanisms.user_level.problem import Problem

LARGEST_CHUNK = 40_000


def one_pass_sgd(problem: Problem, start: Array, users: Array, groups: int, step: float) -> Array:
    """Average iterates less their start, (trials, groups, d).

    start: (trials, d), in the set; users: (users, items, features), of which the first groups * N
    are used, N users a group, item by item in their order.  x_t = Proj(x_(t-1) - step * gradient),
    averaged over t = 1, ..., N items.  A group's average depends on its own users only, and is
    within step * L * (T + 1) / 2 of the start.
    """
    rows = _group_rows(users, groups)
    kinds, origin = Records(rows.reshape(groups, -1)).distinct()
    distinct = kinds.reshape(len(kinds), *rows.shape[1:])
    same = bool((start == start[:1]).all())
    starts = start[:1] if same else start
    chunk = max(1, LARGEST_CHUNK // len(distinct))
    blocks = [starts[i : i + chunk] for i in range(0, len(starts), chunk)]
    found = np.concatenate([_averages(problem, block, distinct, step) for block in blocks])
    return found[:, origin]


def _group_rows(users: Array, groups: int) -> Array:
    """(groups, T, features)."""
    each = len(users) // groups
    if each < 1:
        raise InvalidParameter(f"{len(users)} users in {groups} groups: need one in each")
    return users[: groups * each].reshape(groups, each * users.shape[1], users.shape[2])


def _averages(problem: Problem, starts: Array, rows: Array, step: float) -> Array:
    """Averages of every group from every start, less the start: (starts, groups, d)."""
    groups, steps, _ = rows.shape
    origin = np.repeat(starts, groups, axis=0)
    moved, total = np.zeros_like(origin), np.zeros_like(origin)
    for t in range(steps):
        here = origin + moved
        slope = problem.paired_gradients(here, np.tile(rows[:, t], (len(starts), 1)))
        ahead = here - step * slope
        inside = problem.project(ahead)
        # Where nothing is cut the displacement keeps all its digits, however small the step.
        cut = (inside != ahead).any(axis=1, keepdims=True)
        moved = np.where(cut, inside - origin, moved - step * slope)
        total += moved
    return np.asarray((total / steps).reshape(len(starts), groups, -1))


def sgd_two_run_radius(step: float, lipschitz: float, steps: int, zeta: float) -> float:
    """9 eta L sqrt(T log(2 T / zeta)): two runs on i.i.d. data are closer with prob. 1 - zeta.

    For every convex, L-Lipschitz, 1/eta-smooth loss and in any dimension.
    Errors: InvalidParameter where log(2 T / zeta) < 2.
    Source: dpaudit 2026, by Azuma's inequality; the constant of Lowy, Liu, Asi 2024, Lemma 2.3 is
    1000 log(n d m).
    """
    logarithm = math.log(2 * steps / zeta)
    if not logarithm >= 2:
        raise InvalidParameter(f"two-run radius: log(2 T / zeta) = {logarithm:g}, expected >= 2")
    return 9 * step * lipschitz * math.sqrt(steps * logarithm)
