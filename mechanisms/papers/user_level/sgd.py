"""One pass of projected SGD by every group at once, and how far two such runs drift apart.

Source: Lowy, Liu, Asi 2024, Algorithm 1, lines 5 to 8, and Lemma 2.3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array, Records
from mechanisms.papers.common.losses import LeastSquares, Logistic, Loss
from mechanisms.papers.user_level.problem import Problem

LARGEST_CHUNK = 40_000
BLOCK = 2**18
WITHIN = 1 - 1e-9
NOBODY = np.zeros(0, dtype=np.intp)


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

    First by one number and then by two items of each, which are most often enough: sorting all
    rows copies them thrice.
    """
    if len(np.unique(rows[:, 0, 0])) == len(rows):
        return rows, np.arange(len(rows))
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
    many = [len(starts) if axis == 0 else 1 for axis in run.order]  # every start, every group
    for items in _blocks(rows, run.order):
        run.through(np.tile(items, many) if len(starts) > 1 else items)
    return np.asarray((run.sum() / steps).reshape(len(starts), groups, -1))


def _blocks(rows: Array, order: tuple[int, int, int]) -> Iterator[Array]:
    """Items of every group in turn, (items, groups, features) or so, some at a time.

    A group's items lie together: item t of all groups, taken alone, misses the cache every time.
    A block is valid until the next: memory that is new costs more than what is written to it.
    """
    size = max(1, BLOCK // rows[:, 0].size)
    block = np.empty(rows[:, :size].transpose(order).shape)
    for first in range(0, rows.shape[1], size):
        taken = rows[:, first : first + size].transpose(order)
        np.copyto(block[: len(taken)], taken)
        yield block[: len(taken)]


class _Run:
    """Runs side by side: where they are, less where they started, and the sum of that.

    ``order``: how it takes blocks of (groups, items, features).
    """

    order: tuple[int, int, int] = (1, 0, 2)

    def __init__(self, problem: Problem, origin: Array, step: float) -> None:
        self.problem, self.step = problem, step
        self.origin = np.array(origin, dtype=np.float64)
        self.here = self.origin.copy()
        self.moved, self.total = np.zeros_like(self.origin), np.zeros_like(self.origin)
        self.room = 0  # steps that cannot lead out of the set: each is L step long at most

    def sum(self) -> Array:
        """Of the displacements, (runs, d)."""
        return self.total

    @np.errstate(all="ignore")
    def through(self, items: Array) -> None:
        """One step an item of a block; equal ones are taken until none moves."""
        equal = bool((items[-1, 0] == items[0, 0]).all() and (items == items[0]).all())
        for taken, change in enumerate(self.changes(items)):
            before = self.moved.copy() if equal else self.moved
            self.moved -= change
            np.add(self.origin, self.moved, out=self.here)
            if self.room > 0:
                self.room -= 1
            else:
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
        far = self.outside(squares)
        if far.size:
            ahead = self.here.take(far, axis=0)
            inside = self.problem.project(ahead)
            cut = (inside != ahead).any(axis=1)
            self.here[far] = inside
            self.moved[far[cut]] = (inside - self.origin.take(far, axis=0))[cut]

    def outside(self, squares: Array) -> NDArray[np.intp]:
        """Runs that may be outside; where none is, how many steps none can be."""
        far = _beyond(squares, self.problem.radius)
        if not far.size:
            gap = WITHIN * self.problem.radius - math.sqrt(float(squares.max()))
            self.room = max(0, int(gap / (self.step * self.problem.lipschitz)) - 1)
        return far


class _LinearRun(_Run):
    """The same for a linear model, coordinate by coordinate: (d, runs), which is twice as fast.

    The gradient is its slope in the margin times the features, whose norms are taken in blocks.
    """

    order = (1, 2, 0)

    def __init__(self, problem: Problem, origin: Array, step: float, slope: Slope) -> None:
        super().__init__(problem, np.ascontiguousarray(origin.T), step)
        self.slope = slope
        self.change, self.margins = np.empty_like(self.here), np.empty_like(self.here[0])

    def sum(self) -> Array:
        """Of the displacements, (runs, d)."""
        return np.ascontiguousarray(self.total.T)

    def changes(self, items: Array) -> Iterator[Array]:
        """As above, (d, runs), of items (items, features, runs); overwritten by the next."""
        features, target = items[:, :-1], items[:, -1]
        squares = np.einsum("tdk,tdk->tk", features, features)
        first, second = self.slope.prepared(target, self.step)
        change, margins, far = self.change, self.margins, NOBODY
        within, reach = self.within(squares, target), self.step * self.problem.lipschitz
        for t in range(len(items)):
            np.multiply(features[t], self.here, out=change)
            np.add.reduce(change, axis=0, out=margins)
            steps = self.slope.at(margins, first[t], second[t])
            if not within:
                far = _beyond(steps * steps * squares[t], reach)
            np.multiply(features[t], steps, out=change)
            if far.size:
                points, records = self.here.T[far], items[t, :, far]
                change[:, far] = self.step * self.problem.paired_gradients(points, records).T
            yield change

    def within(self, squares: Array, target: Array) -> bool:
        """Whether no gradient of a block can be longer than L, in the set: margins are bounded."""
        longest = math.sqrt(float(squares.max()))  # not a number, or infinite, is not within
        most = self.slope.most(longest * self.problem.radius / WITHIN, target)
        return longest * most <= WITHIN * self.problem.lipschitz

    def project(self) -> None:
        """As above."""
        squares = np.einsum("dk,dk->k", self.here, self.here)
        far = self.outside(squares)
        if far.size:
            ahead = self.here.T[far]
            inside = self.problem.project(ahead)
            cut = (inside != ahead).any(axis=1)
            self.here[:, far] = inside.T
            self.moved[:, far[cut]] = (inside - self.origin.T[far])[cut].T


@dataclass(frozen=True)
class Slope:
    """The derivative of a linear model's loss in its margin, times the step.

    That is ``at(margins, *prepared(targets, step))``, which may write to the margins;
    ``most(margin, targets)`` bounds the derivative itself over all of them up to a margin.
    """

    prepared: Callable[[Array, float], tuple[Array, Array]]
    at: Callable[[Array, Array, Array], Array]
    most: Callable[[float, Array], float]


def margin_slope(loss: Loss) -> Slope | None:
    """The slope of a linear model's loss; None for other losses."""
    if type(loss) is Logistic and loss.l2 == 0:
        return Slope(_signs, _logistic_step, _most_logistic)
    if type(loss) is LeastSquares:
        return Slope(_doubled, _squares_step, _most_squares)
    return None


def _signs(targets: Array, step: float) -> tuple[Array, Array]:
    signs = 1 - 2 * targets
    return -signs, step * signs


def _logistic_step(margins: Array, other_signs: Array, signs: Array) -> Array:
    """signs / (1 + exp(-signs margins)): NumPy's exponential is four times as fast as expit."""
    margins *= other_signs
    np.exp(margins, out=margins)
    margins += 1
    return np.divide(signs, margins, out=margins)


def _most_logistic(margin: float, targets: Array) -> float:
    sign = float(np.abs(1 - 2 * targets).max())
    return sign * float(expit(sign * margin))


def _doubled(targets: Array, step: float) -> tuple[Array, Array]:
    return targets, np.full(len(targets), 2 * step)


def _squares_step(margins: Array, targets: Array, doubled: Array) -> Array:
    margins -= targets
    margins *= doubled
    return margins


def _most_squares(margin: float, targets: Array) -> float:
    return 2 * (margin + float(np.abs(targets).max()))


def _beyond(squares: Array, radius: float) -> NDArray[np.intp]:
    """Vectors that may be longer than ``radius``, or are not finite, by their squared norms."""
    bound = WITHIN * radius**2
    if squares.max() <= bound:  # false where one is not finite
        return NOBODY
    return np.flatnonzero(~(squares <= bound))


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
