"""One pass of projected SGD by every group at once, and how far two such runs drift apart.

Source: Lowy, Liu, Asi 2024, Algorithm 1, lines 5 to 8, and Lemma 2.3.
"""

from __future__ import annotations

import math

import numpy as np

from dpaudit.errors import InvalidParameter
from dpaudit.query import Array, Records
from mechanisms.user_level.problem import Problem


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
    found = np.stack([_averages(problem, x, distinct, step) for x in starts])
    return found[:, origin]


def _group_rows(users: Array, groups: int) -> Array:
    """(groups, T, features)."""
    each = len(users) // groups
    if each < 1:
        raise InvalidParameter(f"{len(users)} users in {groups} groups: need one in each")
    return users[: groups * each].reshape(groups, each * users.shape[1], users.shape[2])


def _averages(problem: Problem, start: Array, rows: Array, step: float) -> Array:
    """One trial's averages, (groups, d), less the start."""
    moved = np.zeros((len(rows), len(start)))
    total = np.zeros_like(moved)
    for t in range(rows.shape[1]):
        slope = problem.paired_gradients(start + moved, rows[:, t])
        ahead = start + moved - step * slope
        inside = problem.project(ahead)
        # Where nothing is cut the displacement keeps all its digits, however small the step.
        moved = np.where(inside == ahead, moved - step * slope, inside - start)
        total += moved
    return np.asarray(total / rows.shape[1])


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
