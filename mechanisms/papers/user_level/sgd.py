"""One pass of projected SGD by every group at once, and how far two such runs drift apart.

Source: Lowy, Liu, Asi 2024, Algorithm 1, lines 5 to 8, and Lemma 2.3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array, Records
from mechanisms.papers.common.losses import LeastSquares, Logistic, Loss
from mechanisms.papers.user_level.problem import Problem

Slope = Callable[[Array, Array], Array]
LARGEST_CHUNK = 40_000
BLOCK = 2**18
WITHIN = 1 - 1e-9


def one_pass_sgd(problem: Problem, start: Array, users: Array, groups: int, step: float) -> Array:
    """Average iterates less their start, (trials, groups, d).

    start: (trials, d), in the set; users: (users, items, features), of which the first groups * N
    are used, N users a group, item by item in their order.  x_t = Proj(x_(t-1) - step * gradient),
    averaged over t = 1, ..., N items.  A group's average depends on its own users only, and is
    within step * L * (T + 1) / 2 of the start.
    """
    rows = _group_rows(users, groups)
    distinct, origin = _distinct(rows)
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


def _distinct(rows: Array) -> tuple[Array, NDArray[np.intp]]:
    """Groups of different rows, and which of them each group is.

    First by two items of each, which are most often enough: sorting all rows copies them thrice.
    """
    ends = rows[:, [0, -1]].reshape(len(rows), -1)
    kinds, origin = Records(ends).distinct()
    if len(kinds) == len(rows):
        return rows, np.arange(len(rows))
    first = np.unique(origin, return_index=True)[1]
    if all((rows[k] == rows[first[kind]]).all() for k, kind in enumerate(origin)):
        # Never one alone: sums of a single column are rounded in another order.
        return rows[first if len(first) > 1 else first[[0, 0]]], origin
    kinds, origin = Records(rows.reshape(len(rows), -1)).distinct()
    return kinds.reshape(len(kinds), *rows.shape[1:]), origin


def _averages(problem: Problem, starts: Array, rows: Array, step: float) -> Array:
    """Averages of every group from every start, less the start: (starts, groups, d)."""
    groups, steps, _ = rows.shape
    origin, slope = np.repeat(starts, groups, axis=0), margin_slope(problem.loss)
    run = _Run(problem, origin, step) if slope is None else _LinearRun(problem, origin, step, slope)
    for items in _blocks(rows):
        run.through(np.tile(items, (1, len(starts), 1)) if len(starts) > 1 else items)
    return np.asarray((run.sum() / steps).reshape(len(starts), groups, -1))


def _blocks(rows: Array) -> Iterator[Array]:
    """Items of every group in turn, (items, groups, features), some at a time.

    A group's items lie together: item t of all groups, taken alone, misses the cache every time.
    """
    size = max(1, BLOCK // rows[:, 0].size)
    for first in range(0, rows.shape[1], size):
        yield np.ascontiguousarray(rows[:, first : first + size].swapaxes(0, 1))


class _Run:
    """Runs side by side: where they are, less where they started, and the sum of that."""

    def __init__(self, problem: Problem, origin: Array, step: float) -> None:
        self.problem, self.step = problem, step
        self.origin = np.array(origin, dtype=np.float64)
        self.here = self.origin.copy()
        self.moved, self.total = np.zeros_like(self.origin), np.zeros_like(self.origin)

    def sum(self) -> Array:
        """Of the displacements, (runs, d)."""
        return self.total

    @np.errstate(all="ignore")
    def through(self, items: Array) -> None:
        """One step an item, (items, runs, features); equal ones are taken until none moves."""
        equal = bool((items[:2] == items[0]).all() and (items == items[0]).all())
        for taken, change in enumerate(self.changes(items)):
            before = self.moved.copy() if equal else self.moved
            self.moved -= change
            np.add(self.origin, self.moved, out=self.here)
            self.project()
            self.total += self.moved
            if equal and (self.moved == before).all():
                for _ in range(taken + 1, len(items)):
                    self.total += self.moved
                break

    def changes(self, items: Array) -> Iterator[Array]:
        """The step times the gradient of each item, of norm at most L, where the runs then are."""
        for records in items:
            found = self.problem.loss.gradients(self.here, records[:, None, :])[:, 0]
            far = _beyond(np.einsum("kd,kd->k", found, found), self.problem.lipschitz)
            if far.size:
                found = np.array(found)
                found[far] = self.problem.paired_gradients(self.here[far], records[far])
            yield self.step * found

    def project(self) -> None:
        """Onto the set; where nothing is cut, displacements keep all digits, however small."""
        squares = np.einsum("kd,kd->k", self.here, self.here)
        far = _beyond(squares, self.problem.radius)
        if far.size:
            ahead = self.here.take(far, axis=0)
            inside = self.problem.project(ahead)
            cut = (inside != ahead).any(axis=1)
            self.here[far] = inside
            self.moved[far[cut]] = (inside - self.origin.take(far, axis=0))[cut]


class _LinearRun(_Run):
    """The same for a linear model, coordinate by coordinate: (d, runs), which is twice as fast.

    The gradient is its slope in the margin times the features, whose norms are taken in blocks.
    """

    def __init__(self, problem: Problem, origin: Array, step: float, slope: Slope) -> None:
        super().__init__(problem, np.ascontiguousarray(origin.T), step)
        self.slope = slope

    def sum(self) -> Array:
        """Of the displacements, (runs, d)."""
        return np.ascontiguousarray(self.total.T)

    def changes(self, items: Array) -> Iterator[Array]:
        """As above, (d, runs)."""
        turned = np.ascontiguousarray(items.swapaxes(1, 2))
        features, targets = turned[:, :-1], turned[:, -1]
        squares = np.einsum("tdk,tdk->tk", features, features)
        for t in range(len(turned)):
            slopes = self.slope(np.einsum("dk,dk->k", features[t], self.here), targets[t])
            far = _beyond(slopes * slopes * squares[t], self.problem.lipschitz)
            change = features[t] * (self.step * slopes)
            if far.size:
                points, records = self.here.T[far], items[t, far]
                change[:, far] = self.step * self.problem.paired_gradients(points, records).T
            yield change

    def project(self) -> None:
        """As above."""
        squares = np.einsum("dk,dk->k", self.here, self.here)
        far = _beyond(squares, self.problem.radius)
        if far.size:
            ahead = self.here.T[far]
            inside = self.problem.project(ahead)
            cut = (inside != ahead).any(axis=1)
            self.here[:, far] = inside.T
            self.moved[:, far[cut]] = (inside - self.origin.T[far])[cut].T


def margin_slope(loss: Loss) -> Slope | None:
    """The derivative of a linear model's loss in its margin, given targets; None for others."""
    if type(loss) is Logistic and loss.l2 == 0:
        return lambda margins, targets: (1 - 2 * targets) * expit((1 - 2 * targets) * margins)
    if type(loss) is LeastSquares:
        return lambda margins, targets: 2 * (margins - targets)
    return None


def _beyond(squares: Array, radius: float) -> NDArray[np.intp]:
    """Vectors that may be longer than ``radius``, or are not finite, by their squared norms."""
    return np.flatnonzero(~(squares <= WITHIN * radius**2))


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
