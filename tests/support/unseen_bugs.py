"""Fifty-three wrong programs of twenty-three shapes, and their right twins; none has a suite.

Losses and statistics are those that no suite of this project has: an examination has nothing but
the program.  ``bug`` is a word that a program's code asks for; empty is the right twin.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

import dpaudit as dp
from dpaudit.families.correlated import CorrelatedGaussian
from dpaudit.families.selection import AboveThreshold
from dpaudit.kernels.query import Array, Norm, Records, clip_rows
from dpaudit.scope import Adjacency

SETTING = dp.Setting("a test", "person", "one row")


def bounded(rows: Array, radius: float, norm: Norm = "l2") -> Array:
    """Rows (n, d) clipped."""
    return np.asarray(clip_rows(rows[None], np.array([radius]), norm)[0])


def finite(values: Array) -> Array:
    return np.where(np.isfinite(values), values, 0.0)


@dataclass(frozen=True, eq=False)
class Statistic:
    """A vector computed of all present rows by own code, with a stated sensitivity."""

    compute: Callable[[Array], Array]
    bound: float
    norm: Norm = "l2"
    doubles: bool = True

    def value(self, records: Records, chosen: Any = None) -> Array:
        rows = records.values * records.present.reshape(-1, *[1] * (records.values.ndim - 1))
        return np.asarray(self.compute(np.where(np.isfinite(rows), rows, 0.0)), dtype=float)[None]

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        twice = self.doubles and adjacency is Adjacency.REPLACE_ONE
        return np.array(self.bound * (2.0 if twice else 1.0))


class HuberLocation:
    """Five steps of an M-estimator of location; the library clips the scores."""

    def __init__(self, bug: str = "") -> None:
        self.bug = bug

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Repeat(dp.Gaussian("score", noise_multiplier=6), 5)

    def run(self, curator: dp.Curator) -> Array:
        centre = np.zeros((curator.trials, 3))
        memory: dict[str, Array] = {}
        for _ in range(5):
            at = centre

            def scores(values: Array, at: Array = at) -> Array:
                with np.errstate(all="ignore"):
                    away = values[None, :, :3] - at[:, None]
                    found = away / np.sqrt(1 + np.square(away).sum(-1, keepdims=True))
                    if self.bug == "centred":
                        found = found - np.nanmean(found, axis=1, keepdims=True)
                    if self.bug == "carries a row":
                        before = memory.get("row", np.zeros(3))
                        memory["row"] = np.nan_to_num(found[0, 0])
                        found = found + before
                return np.asarray(found)

            radius = 1.0
            if self.bug == "private radius":
                radius = float(np.clip(np.abs(memory.get("seen", np.ones(1))).max(), 0.1, 1))

                def watched(values: Array, inner: Any = scores) -> Array:
                    memory["seen"] = finite(values)
                    return np.asarray(inner(values))

                centre = centre + curator.release("score", dp.ClippedMean(watched, radius))
                continue
            centre = centre + curator.release("score", dp.ClippedMean(scores, radius))
        return centre


class SecondMoments:
    """The upper triangle of a second-moment matrix of clipped rows."""

    def __init__(self, bug: str = "", size: int = 30) -> None:
        self.bug, self.size = bug, size

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Gaussian("moments", noise_multiplier=3)

    def run(self, curator: dp.Curator) -> Array:
        # Of two unit rows, x x' and y y' are at most sqrt(2) apart.
        bound = np.sqrt(2) / self.size
        return curator.release("moments", Statistic(self._moments, bound, doubles=False))

    def _moments(self, values: Array) -> Array:
        rows = values.reshape(len(values), -1)
        if self.bug == "first columns clipped":
            length = np.linalg.norm(rows[:, :-1], axis=1, keepdims=True)
            rows = rows / np.maximum(1, length)
        elif self.bug == "clip of the mean":
            mean = (rows[:, :, None] * rows[:, None]).mean(axis=0).ravel()
            return bounded(mean[None], 1.0)[0]
        elif self.bug == "no clip below the median":
            length = np.linalg.norm(rows, axis=1)
            rows = np.where((length <= np.median(length))[:, None], rows, bounded(rows, 1.0))
        else:
            rows = bounded(rows, 1.0)
        return np.asarray((rows[:, :, None] * rows[:, None]).sum(axis=0).ravel() / self.size)


class Users:
    """A mean over users of what each of their items says, six items a user."""

    items = 6

    def __init__(self, bug: str = "", users: int = 20) -> None:
        self.bug, self.users = bug, users

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Gaussian("taste", noise_multiplier=4)

    def run(self, curator: dp.Curator) -> Array:
        return curator.release("taste", Statistic(self._taste, 1 / self.users))

    def _taste(self, values: Array) -> Array:
        rows = values if values.ndim == 3 else values[:, None]
        each = np.tanh(rows[..., :2])
        if self.bug == "items summed":
            return np.asarray(each.sum(axis=(0, 1)) / self.users)
        mine = bounded(each.mean(axis=1), 1.0)
        if self.bug == "by those who say something":
            said = (np.abs(mine).sum(axis=1) > 0).sum()
            return np.asarray(mine.sum(axis=0) / max(1, said))
        if self.bug == "neighbours helped out":
            empty = np.abs(mine).sum(axis=1, keepdims=True) == 0
            return np.asarray(np.where(empty, np.roll(mine, 1, axis=0), mine).sum(0) / self.users)
        return np.asarray(mine.sum(axis=0) / self.users)


class Halves:
    """A sum over the first rows and one over the last, declared in parallel."""

    def __init__(self, bug: str = "", size: int = 24) -> None:
        self.bug, self.size = bug, size

    def declaration(self, scope: dp.Scope) -> dp.Node:
        half = self.size // 2
        if self.bug == "overlap":
            return dp.Gaussian("both", noise_multiplier=3)
        return (
            dp.Parallel(*(dp.Gaussian(f"half {k}", noise_multiplier=3) for k in range(2)))
            if (half)
            else dp.Gaussian("both", noise_multiplier=3)
        )

    def run(self, curator: dp.Curator) -> Array:
        half = self.size // 2
        if self.bug == "overlap":
            return curator.release("both", Statistic(self._both, 1.0))
        heard: list[Array] = []
        total = np.zeros((curator.trials, 1))
        for k in range(2):

            def angle(values: Array, k: int = k) -> Array:
                with np.errstate(all="ignore"):
                    found = np.arctan2(values[:, 1], values[:, 0])[None, :, None] / np.pi
                if self.bug == "the other half too" and k == 1 and heard:
                    found = found + heard[0]
                heard[:] = [finite(found)[0].mean(axis=0)]
                return found

            total = total + curator.release(
                f"half {k}",
                dp.clipped_sum(angle, 1.0),
                rows=curator.part(k, (half, self.size - half)),
            )
        return total

    def _both(self, values: Array) -> Array:
        angle = np.arctan2(values[:, 1], values[:, 0]) / np.pi
        third = len(values) // 3
        return np.array([angle[: 2 * third].sum(), angle[third:].sum()])


class Levels:
    """Counts of a dyadic tree over [-1, 1), level by level, of one number a record."""

    depth = 4

    def __init__(self, bug: str = "") -> None:
        self.bug = bug

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Compose(
            *(dp.Laplace(f"level {k}", noise_multiplier=self.depth) for k in range(self.depth))
        )

    def run(self, curator: dp.Curator) -> list[Array]:
        return [
            curator.release(f"level {k}", Statistic(self._counts(k), 1.0, "l1"))
            for k in range(self.depth)
        ]

    def _counts(self, k: int) -> Callable[[Array], Array]:
        def counts(values: Array) -> Array:
            x = np.clip(values[:, 0], -1, 1 - 1e-9)
            bins = np.floor((x + 1) / 2 * 2**k).astype(int)
            found = np.bincount(bins, minlength=2**k).astype(float)
            if self.bug == "a level too many" and k == self.depth - 1:
                finer = np.floor((x + 1) * 2**k).astype(int)
                found = np.concatenate([found, np.bincount(finer, minlength=2 ** (k + 1))])
            if self.bug == "edges in both bins":
                edge = np.isclose((x + 1) / 2 * 2**k, np.rint((x + 1) / 2 * 2**k))
                left = np.maximum(bins - 1, 0)
                found += np.bincount(left[edge], minlength=2**k)
            if self.bug == "shares" and len(values):
                found = found / max(1, int((values[:, 0] > -0.5).sum())) * len(values)
            return found

        return counts


class Streams:
    """Noisy prefix sums by a tree over rounds; a record takes part in one."""

    rounds = 8

    def __init__(self, bug: str = "") -> None:
        self.bug = bug

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return CorrelatedGaussian("sums", 4, rounds=self.rounds, strategy="tree")

    def run(self, curator: dp.Curator) -> list[Array]:
        sizes = (3,) * self.rounds
        found, left = [], [np.zeros(2)]
        for t in range(self.rounds):

            def rows(values: Array, t: int = t) -> Array:
                with np.errstate(all="ignore"):
                    made = np.sin(values[None, :, :2]) + 0 * values[None, :, :2]
                if self.bug == "last round's rows again":
                    made = made + left[0]
                    left[0] = np.nan_to_num(made[0]).mean(axis=0)
                return made

            query: Any = dp.clipped_sum(rows, 1.0)
            if self.bug == "longer by the round":
                query = Statistic(lambda v, t=t: bounded(v[:, :2], 1 + 0.3 * t).sum(0), 1.0)
            found.append(curator.release("sums", query, rows=curator.part(t, sizes)))
        return found


class Alarm:
    """Whether a count of exceedances passes a level, query after query."""

    def __init__(self, bug: str = "") -> None:
        self.bug = bug

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return AboveThreshold("alarm", epsilon_threshold=1, epsilon_query=1)

    def run(self, curator: dp.Curator) -> list[Array]:
        held: dict[str, float] = {}
        found = []
        for level in (0.5, 1.0, 2.0):

            def count(values: Array, level: float = level) -> Array:
                over = np.abs(finite(values)).max(axis=-1) > level
                if self.bug == "tests the first half, twice":
                    return np.array([2.0 * over[: len(over) // 2].sum() - 5])
                if self.bug == "a level of the data":
                    held["level"] = float(np.median(np.abs(values)))
                    return np.array([over.sum() - held["level"]])
                if self.bug == "runs of exceedances":
                    return np.array([(over[1:] & over[:-1]).sum() - 5.0])
                return np.array([over.sum() - 5.0])

            found.append(curator.release("alarm", Statistic(count, 1.0, "l1", doubles=False)))
        return found


class AdaptiveClip:
    """A radius by noisy counts, then a mean of rows clipped to it."""

    def __init__(self, bug: str = "") -> None:
        self.bug = bug

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Compose(
            dp.Repeat(dp.Gaussian("share below", noise_multiplier=5), 4),
            dp.Gaussian("mean", noise_multiplier=5),
        )

    def run(self, curator: dp.Curator) -> Array:
        radius, true = np.ones(curator.trials), [0.0]
        for _ in range(4):

            def below(values: Array, radius: Array = radius) -> Array:
                with np.errstate(all="ignore"):
                    length = np.linalg.norm(values, axis=-1)
                    inside = (length[None] <= radius[:, None]).astype(float)
                true[0] = float(inside.mean())
                return inside[..., None]

            share = curator.release("share below", dp.ClippedMean(below, 1.0))[:, 0]
            if self.bug == "true share":
                share = share * 0 + true[0]
            radius = np.clip(radius * np.exp(0.5 - share), 1e-3, 1e3)
        if self.bug == "clip of another radius":
            return curator.release("mean", self._own(radius, 1.5))
        return curator.release("mean", self._own(radius, 1.0))

    def _own(self, radius: Array, more: float) -> Any:
        @dataclass(frozen=True)
        class Mean:
            norm: Norm = "l2"

            def value(self, records: Records, chosen: Any = None) -> Array:
                rows = finite(records.values.reshape(len(records), -1))
                rows = rows * records.present[:, None]
                return np.stack([bounded(rows, r * more).sum(0) / len(rows) for r in radius])

            def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
                return np.asarray(2 * radius / size)

        return Mean()


class Quantile:
    """A quantile by bisection with noisy counts."""

    def __init__(self, bug: str = "") -> None:
        self.bug = bug

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Repeat(dp.Laplace("below", noise_multiplier=8), 8)

    def run(self, curator: dp.Curator) -> Array:
        low, high = np.full(curator.trials, -4.0), np.full(curator.trials, 4.0)
        seen: list[float] = []
        for _ in range(8):
            middle = (low + high) / 2

            def below(values: Array, middle: Array = middle) -> Array:
                found = (values[None, :, 0] < middle[:, None]).astype(float)
                seen[:] = [float(found.sum())]
                return found[..., None]

            count = curator.release("below", dp.clipped_sum(below, 1.0, norm="l1"))[:, 0]
            if self.bug == "stops when nothing is below" and seen[0] == 0:
                break
            half = 12.0
            if self.bug == "half of the true size":
                half = seen[0] / 2 + 6
            low, high = np.where(count < half, middle, low), np.where(count < half, high, middle)
        return (low + high) / 2


class Poisson:
    """A sampled sum with a loss of its own, and its own clip."""

    def __init__(self, bug: str = "") -> None:
        self.bug = bug

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Repeat(dp.PoissonSampled(dp.Gaussian("step", 2), Fraction(1, 4)), 3)

    def run(self, curator: dp.Curator) -> Array:
        w = np.zeros((curator.trials, 3))
        for _ in range(3):
            with curator.batch("step") as batch:
                w = w - curator.release("step", self._query(w), rows=batch)
        return w

    def _query(self, w: Array) -> Any:
        bug = self.bug

        @dataclass(frozen=True)
        class Step:
            norm: Norm = "l2"

            def value(self, records: Records, chosen: Any = None) -> Array:
                x = finite(records.values[:, :3])
                inside = np.ones((len(w), len(x)), bool) if chosen is None else chosen
                found = []
                for at, members in zip(w, np.broadcast_to(inside, (len(w), len(x))), strict=True):
                    raw = x * np.exp(-np.square(x @ at))[:, None]
                    rows = bounded(raw, 1.0)
                    if bug == "one trial unclipped" and len(w) == 1:
                        rows = raw
                    if bug == "centred by all":
                        rows = rows - rows.mean(axis=0)
                    total = members.astype(float) @ rows
                    if bug == "realised batch":
                        total = total / max(1, members.sum()) * 6
                    found.append(total)
                return np.stack(found)

            def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
                return np.array(1.0)

        return Step()


class Pairs:
    """Kendall's tau-like counts over pairs of records."""

    def __init__(self, bug: str = "", size: int = 24) -> None:
        self.bug, self.size = bug, size

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Laplace("concordance", noise_multiplier=4)

    def run(self, curator: dp.Curator) -> Array:
        pairs = self.size * (self.size - 1) / 2
        bound = 2 * (self.size - 1) / pairs
        if self.bug == "one pair a record":
            bound = 2 / self.size
        return curator.release("concordance", Statistic(self._tau, bound, "l1", doubles=False))

    def _tau(self, values: Array) -> Array:
        x, y = values[:, 0], values[:, 1]
        signs = np.sign(x[:, None] - x) * np.sign(y[:, None] - y)
        return np.array([np.triu(signs, 1).sum() / (self.size * (self.size - 1) / 2)])


class Anchored:
    """Anchored differences of a bounded score, clipped to how far the point moved."""

    def __init__(self, bug: str = "", size: int = 24) -> None:
        self.bug, self.size = bug, size

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Compose(dp.Gaussian("start", 5), dp.Repeat(dp.Gaussian("change", 5), 5))

    def run(self, curator: dp.Curator) -> Array:
        at = [np.zeros((curator.trials, 2)), np.full((curator.trials, 2), 0.3)]
        found = curator.release("start", dp.ClippedMean(self._score(at[0]), 1.0))
        for _ in range(5):
            now, before = at[-1], at[-2]
            if self.bug == "from two points ago" and len(at) > 2:
                before = at[-3]
            length = np.linalg.norm(now - at[-2], axis=-1)
            query = self._change(now, before, length)
            found = found + curator.release("change", query)
            at.append(now - 0.4 * found)
        return at[-1]

    def _score(self, w: Array) -> Callable[[Array], Array]:
        def score(values: Array) -> Array:
            x = bounded(finite(values[:, :2]), 1.0)
            return np.asarray(np.cos(w @ x.T)[..., None] * x[None])

        return score

    def _change(self, now: Array, before: Array, length: Array) -> Any:
        one, two, size, bug = self._score(now), self._score(before), self.size, self.bug

        @dataclass(frozen=True)
        class Change:
            norm: Norm = "l2"

            def value(self, records: Records, chosen: Any = None) -> Array:
                present = records.present[None, :, None]
                moved = (one(records.values) - two(records.values)) * present
                if bug == "kept where it is large":
                    big = np.abs(one(records.values)) > 0.8
                    moved = np.where(big, one(records.values), moved)
                return np.asarray(moved.sum(axis=1) / size)

            def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
                return np.asarray(2 * length / size)

        return Change()


@dataclass
class Momentum:
    """Logistic regression of labels in {0, 1} with momentum, clipped by the library."""

    bug: str = ""
    velocity: Any = None
    log: list[float] = field(default_factory=list)

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Repeat(dp.Gaussian("gradient", noise_multiplier=8), 4)

    def run(self, curator: dp.Curator) -> Any:
        w = np.zeros((curator.trials, 3))
        self.velocity, self.log = np.zeros((curator.trials, 3)), []
        step = 0.5
        for _ in range(4):

            def gradients(values: Array, w: Array = w) -> Array:
                x, y = values[:, :3], (values[:, -1] > 0).astype(float)
                with np.errstate(all="ignore"):
                    p = 1 / (1 + np.exp(-(x @ w.T)))
                    found = (p - y[:, None]).T[..., None] * x[None]
                    if self.bug:
                        self.log.append(float(np.nan_to_num(np.abs(found)).mean()))
                return found

            released = curator.release("gradient", dp.ClippedMean(gradients, 1.0))
            self.velocity = 0.9 * self.velocity + released
            if self.bug == "step by the private loss":
                step = 0.5 / (1 + self.log[-1])
            w = w - step * self.velocity
        if self.bug == "the loss beside":
            return w, self.log[-1]
        return w


class Matched:
    """Mean outcome after nearest-neighbour imputation: rows see one another."""

    def __init__(self, bug: str = "", size: int = 24) -> None:
        self.bug, self.size = bug, size

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Gaussian("outcome", noise_multiplier=3)

    def run(self, curator: dp.Curator) -> Array:
        return curator.release("outcome", Statistic(self._outcome, 1 / self.size))

    def _outcome(self, values: Array) -> Array:
        y = np.clip(values[:, -1], -1, 1)
        if self.bug == "imputed from the nearest":
            missing = values[:, 0] < 0
            near = np.abs(values[:, 1][:, None] - values[:, 1])
            near[:, missing] = np.inf
            donor = np.argmin(near, axis=1)
            y = np.where(missing & ~missing.all(), y[donor], y)
        if self.bug == "winsorised at its quantiles":
            low, high = np.quantile(values[:, -1], [0.1, 0.9])
            y = np.clip(values[:, -1], low, high)
        if self.bug == "standardised":
            y = np.clip((values[:, -1] - y.mean()) / (y.std() + 1e-3), -1, 1)
        return np.array([y.sum() / self.size])


class Sketch:
    """A count sketch of categories with public hashes, add or remove a record."""

    def __init__(self, bug: str = "") -> None:
        self.bug = bug

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Gaussian("sketch", noise_multiplier=2)

    def run(self, curator: dp.Curator) -> Array:
        return curator.release("sketch", Statistic(self._sketch, np.sqrt(3), doubles=False))

    def _sketch(self, values: Array) -> Array:
        keys = np.floor(np.clip(values[:, 0], -50, 50)).astype(int)
        tables = []
        for row, salt in enumerate((3, 7, 11)):
            weight = np.ones(len(keys))
            if self.bug == "weights of the record":
                weight = 1 + np.abs(np.clip(values[:, 1], -1, 1))
            if self.bug == "first of its kind counts":
                weight = np.isin(np.arange(len(keys)), np.unique(keys, return_index=True)[1]) * 2.0
            tables.append(np.bincount((keys * salt + row) % 8, weight, minlength=8))
        return np.concatenate(tables)


class Rare:
    """A mean that is clipped but for one kind of record, or in one round."""

    def __init__(self, bug: str = "", size: int = 24) -> None:
        self.bug, self.size = bug, size

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Repeat(dp.Gaussian("mean", noise_multiplier=9), 12)

    def run(self, curator: dp.Curator) -> Array:
        total = np.zeros((curator.trials, 2))
        for t in range(12):
            query = Statistic(lambda v, t=t: self._mean(v, t), 1 / self.size)
            total = total + curator.release("mean", query)
        return total

    def _mean(self, values: Array, t: int) -> Array:
        x = values[:, :2]
        rows = bounded(x, 1.0)
        if self.bug == "third to last round" and t == 9:
            rows = x
        if self.bug == "outliers pass":
            rows = np.where(np.abs(x).max(axis=1, keepdims=True) > 100, x, rows)
        if self.bug == "integers pass":
            rows = np.where((x == np.rint(x)).all(axis=1, keepdims=True), x, rows)
        if self.bug == "one sign":
            rows = np.where(x > 0, rows, np.maximum(x, -2.0))
        return np.asarray(rows.sum(axis=0) / self.size)


class Favourite:
    """The noisy mean of the column that a noisy vote chose."""

    def __init__(self, bug: str = "") -> None:
        self.bug = bug

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Compose(dp.ExponentialMechanism("vote", epsilon=1), dp.Gaussian("mean", 4))

    def run(self, curator: dp.Curator) -> Array:
        true: list[int] = []

        def votes(values: Array) -> Array:
            found = np.abs(np.clip(values, -1, 1)).sum(axis=0)
            if self.bug:
                true[:] = [int(found.argmax())]
            return found

        query = Statistic(votes, 1.0, "linf", doubles=False)
        chosen = curator.release("vote", query).argmax(axis=1)
        if self.bug == "the true favourite":
            chosen = np.full(curator.trials, true[0])
        return curator.release(
            "mean",
            dp.ClippedMean(lambda v: np.take(v, chosen, axis=1).T[..., None], 1, divisor=20.0),
        )


class Rated:
    """A sum over people, of one row or of several each; it asks which it has."""

    def __init__(self, bug: str = "") -> None:
        self.bug = bug

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Gaussian("ratings", noise_multiplier=3)

    def run(self, curator: dp.Curator) -> Array:
        return curator.release("ratings", Statistic(self._ratings, 1.0, doubles=False))

    def _ratings(self, values: Array) -> Array:
        length = np.maximum(1.0, np.linalg.norm(values, axis=-1, keepdims=True))
        rows = values / length
        if rows.ndim == 3:
            rows = rows.sum(axis=1) if self.bug else rows.mean(axis=1)
        return np.asarray(rows.sum(axis=0))


class Baskets:
    """A sum over users of what their baskets hold, two numbers an item, in one long row each."""

    def __init__(self, bug: str = "") -> None:
        self.bug = bug

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Gaussian("bought", noise_multiplier=3)

    def run(self, curator: dp.Curator) -> Array:
        return curator.release("bought", Statistic(self._bought, 1.0))

    def _bought(self, values: Array) -> Array:
        items = values.reshape(len(values), -1, 2)
        if self.bug:
            short = items / np.maximum(1, np.linalg.norm(items, axis=-1, keepdims=True))
            return np.asarray(short.sum(axis=(0, 1)))
        return bounded(items.sum(axis=1), 1.0).sum(axis=0)


class PowerIteration:
    """The first direction of the second moments, by noisy power iteration."""

    rounds = 4

    def __init__(self, bug: str = "") -> None:
        self.bug = bug

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Repeat(dp.Gaussian("image", noise_multiplier=6), self.rounds)

    def run(self, curator: dp.Curator) -> Array:
        v = np.tile(np.array([1.0, 0.0, 0.0]), (curator.trials, 1))
        noted = [1.0]
        for _ in range(self.rounds):

            def image(values: Array, v: Array = v) -> Array:
                x = finite(values[:, :3])
                size = np.linalg.norm(x, axis=1, keepdims=True)
                noted[0] = float(size.mean())
                longest = np.maximum(1e-9, size.max() if self.bug == "by the longest" else size)
                unit = x / longest
                return np.asarray((v @ unit.T)[..., None] * unit[None])

            found = curator.release("image", dp.ClippedMean(image, 1.0))
            length = np.linalg.norm(found, axis=1, keepdims=True)
            if self.bug == "stops at short rows" and noted[0] < 1e-3:
                v = v * 0.5
            else:
                v = found / np.maximum(length, 1e-9)
        return v


class Centres:
    """One step of k-means around public centres: sums of clipped rows, and counts."""

    centres = np.array([[-1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])

    def __init__(self, bug: str = "") -> None:
        self.bug = bug

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Compose(dp.Gaussian("sums", 4), dp.Laplace("counts", 4))

    def run(self, curator: dp.Curator) -> Array:
        sums = curator.release("sums", Statistic(self._sums, 1.0))
        counts = curator.release("counts", Statistic(self._counts, 1.0, "l1"))
        return sums.reshape(-1, 3, 2) / np.maximum(1.0, counts)[:, :, None]

    def _near(self, x: Array) -> Array:
        return np.asarray(((x[:, None] - self.centres) ** 2).sum(-1).argsort(axis=1))

    def _sums(self, values: Array) -> Array:
        x = bounded(values[:, :2], 1.0)
        near, found = self._near(x), np.zeros((3, 2))
        alone = np.bincount(near[:, 0], minlength=3)[near[:, 0]] == 1
        for k in range(3):
            mine = near[:, 0] == k
            rows = x[mine]
            if self.bug == "whoever is alone counts double":
                rows = rows * (1 + alone[mine])[:, None]
            found[k] = rows.sum(axis=0)
        return found.ravel()

    def _counts(self, values: Array) -> Array:
        near = self._near(bounded(values[:, :2], 1.0))
        there = (values != 0).any(axis=1)
        kinds = near[:, :2] if self.bug == "in the second nearest too" else near[:, :1]
        return np.bincount(kinds[there].ravel(), minlength=3).astype(float)


class Binned:
    """Counts in bins of one column, between public ends."""

    def __init__(self, bug: str = "") -> None:
        self.bug = bug

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Laplace("bins", noise_multiplier=2)

    def run(self, curator: dp.Curator) -> Any:
        outside = [0]

        def bins(values: Array) -> Array:
            x = values[:, 0]
            low, high = -2.0, 2.0
            if self.bug == "ends of the data" and len(x):
                low, high = float(x.min()), float(x.max()) + 1e-9
            outside[0] = int((np.abs(x) > 2).sum())
            found = np.histogram(np.clip(x, low, high), 6, (low, high))[0].astype(float)
            if self.bug == "differences of rows":
                found = np.histogram(np.clip(np.diff(x), -2, 2), 6, (-2, 2))[0].astype(float)
            return found

        counts = curator.release("bins", Statistic(bins, 1.0, "l1", doubles=False))
        return (counts, outside[0]) if self.bug == "how many are outside" else counts


class Survey:
    """A mean of weighted answers, with a bound that depends on a group, and gaps."""

    def __init__(self, bug: str = "", size: int = 24) -> None:
        self.bug, self.size = bug, size

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Gaussian("answers", noise_multiplier=3)

    def run(self, curator: dp.Curator) -> Array:
        return curator.release("answers", Statistic(self._answers, 1.0 / self.size))

    def _answers(self, values: Array) -> Array:
        answers, group = np.clip(values[:, 0], -1, 1), values[:, -1] > 0
        weight = np.clip(np.abs(values[:, 1]), 0, 1)
        if self.bug == "weights add up to one":
            weight = weight / max(1e-9, float(weight.sum())) * self.size
        if self.bug == "gaps filled by the mean":
            given = values[:, 2] != 0
            answers = np.where(given, answers, answers[given].mean() if given.any() else 0.0)
        if self.bug == "the larger group twice":
            larger = group == (group.sum() * 2 > len(group))
            weight = weight * np.where(larger, 1.0, 0.5)
        return np.array([(answers * weight).sum() / self.size])


SHAPES: tuple[tuple[type[Any], str, tuple[str, ...]], ...] = (
    (HuberLocation, "replace_one", ("centred", "carries a row", "private radius")),
    (
        SecondMoments,
        "replace_one",
        ("first columns clipped", "clip of the mean", "no clip below the median"),
    ),
    (
        Users,
        "replace_one",
        ("items summed", "by those who say something", "neighbours helped out"),
    ),
    (Halves, "replace_one", ("overlap", "the other half too")),
    (Levels, "add_remove", ("a level too many", "edges in both bins", "shares")),
    (Streams, "zero_out", ("last round's rows again", "longer by the round")),
    (
        Alarm,
        "replace_one",
        ("tests the first half, twice", "a level of the data", "runs of exceedances"),
    ),
    (AdaptiveClip, "replace_one", ("true share", "clip of another radius")),
    (Quantile, "add_remove", ("stops when nothing is below", "half of the true size")),
    (Poisson, "add_remove", ("one trial unclipped", "centred by all", "realised batch")),
    (Pairs, "replace_one", ("one pair a record",)),
    (Anchored, "replace_one", ("from two points ago", "kept where it is large")),
    (Momentum, "replace_one", ("step by the private loss", "the loss beside")),
    (
        Matched,
        "replace_one",
        ("imputed from the nearest", "winsorised at its quantiles", "standardised"),
    ),
    (Sketch, "add_remove", ("weights of the record", "first of its kind counts")),
    (Favourite, "add_remove", ("the true favourite",)),
    (Rated, "add_remove", ("items added up",)),
    (
        Rare,
        "replace_one",
        ("third to last round", "outliers pass", "integers pass", "one sign"),
    ),
    (Baskets, "add_remove", ("clipped item by item",)),
    (PowerIteration, "replace_one", ("by the longest", "stops at short rows")),
    (
        Centres,
        "zero_out",
        ("whoever is alone counts double", "in the second nearest too"),
    ),
    (
        Binned,
        "add_remove",
        ("ends of the data", "differences of rows", "how many are outside"),
    ),
    (
        Survey,
        "replace_one",
        ("weights add up to one", "gaps filled by the mean", "the larger group twice"),
    ),
)


def mechanism(kind: type[Any], adjacency: str, bug: str = "") -> dp.Mechanism:
    """One of them, as an author would hand it in."""
    return dp.Mechanism(
        name="handed_in",
        title="Handed in",
        source="dpaudit's tests",
        program=kind(bug),
        scope=dp.central(adjacency),
        claims=[dp.Claim(dp.ApproxDP(1000, "1e-5"), by="its author")],
        setting=SETTING,
    )
