"""Wrong programs with their right twins: what an examination without any suite must tell apart.

Each ``bug`` is a word that the program's code asks for; empty is the right twin.  Nothing here has
an audit of its own, and every bug is one that a stand-in does not show: its loss, its data or its
number of trials would have to be the program's own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from dpaudit.accountant.claim import Claim
from dpaudit.curator.curator import Curator
from dpaudit.curator.mechanism import Mechanism, Setting
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Compose, Parallel, Repeat
from dpaudit.families.opaque import GDP
from dpaudit.families.sampling import PoissonSampled
from dpaudit.kernels.query import Array, ClippedMean, Norm, Records, clip_rows
from dpaudit.nodes import Node
from dpaudit.scope import Adjacency, Scope

SETTING = Setting("a test", "row", "one row", ("the releases",))
SIZE, FEATURES, ROUNDS = 40, 4, 6


def mechanism(name: str, program: Any, adjacency: str = "replace_one") -> Mechanism:
    """A mechanism of the tests, without data and without a suite."""
    return Mechanism(
        name=name,
        title=name,
        source="dpaudit's tests",
        program=program,
        scope=Scope(adjacency, "record", "central", "transcript"),  # type: ignore[arg-type]
        claims=(Claim(GDP(100), by="dpaudit's tests"),),
        setting=SETTING,
    )


@dataclass(frozen=True, eq=False)
class OwnMean:
    """A mean of vectors that the program's own code clips; ``make`` does it, right or wrong."""

    make: Callable[[Records, Any], Array]
    radius: float = 1.0
    norm: Norm = "l2"

    def value(self, records: Records, chosen: Any = None) -> Array:
        return self.make(records, chosen)

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        factor = 2.0 if adjacency is Adjacency.REPLACE_ONE else 1.0
        return np.array(factor * self.radius / SIZE)


def clipped(rows: Array) -> Array:
    return np.asarray(clip_rows(rows[None], np.array([1.0]))[0])


@dataclass(frozen=True, eq=False)
class Descent:
    """Noisy gradient descent of a squared loss on all rows, its own clip, ``ROUNDS`` rounds.

    The record is (features, label); the gradient is (w . x - y) x.
    """

    bug: str = ""
    adjacency: str = "replace_one"
    kept: dict[str, Any] = field(default_factory=dict)

    def declaration(self, scope: Scope) -> Node:
        return Repeat(Gaussian("gradient", 4), ROUNDS)

    def gradients(self, w: Array, values: Array) -> Array:
        x, y = values[:, :-1], values[:, -1:]
        return np.asarray((x @ w[:, None] - y) * x)

    def run(self, curator: Curator) -> Array:
        w = np.zeros((curator.trials, FEATURES))
        before = w
        for t in range(ROUNDS):
            at = w
            query = OwnMean(self._maker(at, before, t, curator.trials))
            released = curator.release("gradient", query)
            before, w = w, w - 0.1 * released
        return w

    def _maker(self, at: Array, before: Array, t: int, trials: int) -> Any:
        def make(records: Records, chosen: Any) -> Array:
            return np.stack([self._mean(w, records, t, trials) for w in at])

        return make

    def _mean(self, w: Array, records: Records, t: int, trials: int) -> Array:
        bug = self.bug
        values = records.values * (1 if bug == "absent" else records.present[:, None])
        with np.errstate(all="ignore"):
            raw = self.gradients(w, values)
            raw = np.where(np.isfinite(raw).all(-1, keepdims=True), raw, 0.0)
            rows = self._rows(raw, values, t, trials)
        weight = 1.0 / SIZE
        if bug == "realised count":
            weight = 1.0 / max(1, int((np.abs(rows).sum(-1) > 0).sum()))
        total = np.asarray(rows.sum(axis=0) * weight)
        if bug == "carry":
            last = self.kept.get("last", np.zeros(FEATURES))
            self.kept["last"] = rows[-1]
            total = total + last / SIZE
        return total

    def _rows(self, raw: Array, values: Array, t: int, trials: int) -> Array:  # noqa: C901
        bug = self.bug
        if bug == "no clip":
            return raw
        if bug == "clip after the mean":
            mean = clipped(raw.mean(axis=0)[None])
            return np.repeat(mean, len(raw), axis=0)
        if bug == "clip by halves":
            half = len(raw) // 2
            means = [clipped(part.mean(axis=0)[None]) for part in (raw[:half], raw[half:])]
            return np.concatenate(
                [
                    np.repeat(m, n, axis=0)
                    for m, n in zip(means, (half, len(raw) - half), strict=False)
                ]
            )
        if bug == "norm of a part":
            length = np.linalg.norm(raw[:, : FEATURES - 1], axis=-1, keepdims=True)
            return raw / np.maximum(1.0, length)
        if bug == "largest entry for norm":
            return raw / np.maximum(1.0, np.abs(raw).max(axis=-1, keepdims=True))
        if bug == "centred":
            return clipped(raw) - clipped(raw).mean(axis=0) + clipped(raw - raw.mean(axis=0))
        if bug == "one trial" and trials == 1:
            return raw
        if bug == "many trials" and trials > 1:
            return raw
        if bug == "rare round" and t == 4:
            return raw
        if bug == "last row":
            return np.concatenate([clipped(raw[:-1]), raw[-1:]])
        if bug == "first row":
            return np.concatenate([raw[:1], clipped(raw[1:])])
        if bug == "label -1":
            return np.where(values[:, -1:] == -1, raw, clipped(raw))
        if bug == "negative label":
            return np.where(values[:, -1:] < 0, raw, clipped(raw))
        if bug == "only large":
            large = np.linalg.norm(raw, axis=-1, keepdims=True) > 1e5
            return np.where(large, raw, clipped(raw))
        if bug == "only small":
            small = np.linalg.norm(raw, axis=-1, keepdims=True) < 1e-4
            return np.where(small & (raw != 0), np.sign(raw), clipped(raw))
        if bug == "once in a run":
            return raw if t == ROUNDS - 1 else clipped(raw)
        if bug == "radius of the data":
            radius = np.median(np.linalg.norm(raw, axis=-1))
            return np.asarray(clip_rows(raw[None], np.array([radius]))[0])
        if bug == "filter by the mean":
            near = np.linalg.norm(raw - raw.mean(axis=0), axis=-1, keepdims=True)
            return clipped(raw) * (near < np.median(near)) * 2
        if bug == "twice the clip":
            return 2 * clipped(raw)
        if bug == "clip to 1.001":
            return np.asarray(clip_rows(raw[None], np.array([1.001]))[0])
        if bug == "normalised":
            return raw / np.linalg.norm(raw)
        return clipped(raw)


DESCENT = (
    "no clip",
    "clip after the mean",
    "clip by halves",
    "norm of a part",
    "largest entry for norm",
    "centred",
    "realised count",
    "carry",
    "one trial",
    "many trials",
    "rare round",
    "last row",
    "first row",
    "label -1",
    "negative label",
    "only large",
    "only small",
    "once in a run",
    "radius of the data",
    "filter by the mean",
    "twice the clip",
    "clip to 1.001",
    "normalised",
)


@dataclass(frozen=True, eq=False)
class Stepping:
    """One noisy mean of library-clipped rows a part; public steps, radii and thresholds.

    The bugs take what is private for public.
    """

    bug: str = ""
    parts: int = 4
    kept: dict[str, Any] = field(default_factory=dict)

    def declaration(self, scope: Scope) -> Node:
        return Parallel(*(Gaussian(f"part {k}", 4) for k in range(self.parts)))

    def run(self, curator: Curator) -> Array:
        sizes = (SIZE // self.parts,) * self.parts
        x = np.zeros((curator.trials, FEATURES))
        self.kept.clear()
        for k in range(self.parts):
            step, radius = 0.5, 1.0
            if self.bug == "private radius" and "norm" in self.kept:
                radius = self.kept["norm"]
            if self.bug == "private step" and "norm" in self.kept:
                step = self.kept["norm"]
            if self.bug == "private threshold" and self.kept.get("norm", 0.0) > 2.0:
                break
            query: Any = ClippedMean(self._rows(k), radius)
            if self.bug == "radius of its rows":
                query = Adaptive(self._rows(k), 1.0)
            released = curator.release(f"part {k}", query, rows=curator.part(k, sizes))
            x = x - step * released
        if self.bug == "private output":
            return x + self.kept["norm"]
        return x

    def _rows(self, k: int) -> Any:
        def rows(values: Array) -> Array:
            found = np.asarray(values)[None, :, :FEATURES]
            with np.errstate(all="ignore"):
                if self.bug:
                    self.kept["norm"] = float(np.nan_to_num(np.abs(values)).max())
                if self.bug == "carried to the next part":
                    before = self.kept.get("row", np.zeros(FEATURES))
                    if k == self.parts - 1:
                        found = found + before
                    self.kept["row"] = np.nan_to_num(found[0, -1])
                if self.bug == "centred by the batch":
                    found = found - found.mean(axis=1, keepdims=True)
                if self.bug == "scaled by the largest":
                    found = found / np.abs(found).max()
            return found

        return rows


class Adaptive(ClippedMean):
    """Clips to the largest norm of its rows."""

    def value(self, records: Records, chosen: Any = None) -> Array:
        rows = np.nan_to_num(records.values[:, :FEATURES])
        radius = np.linalg.norm(rows, axis=-1).max()
        found = np.asarray(clip_rows(rows[None], np.array([radius])))
        return np.asarray(found.mean(axis=1))


STEPPING = (
    "private radius",
    "private step",
    "private threshold",
    "private output",
    "radius of its rows",
    "carried to the next part",
    "centred by the batch",
    "scaled by the largest",
)


@dataclass(frozen=True, eq=False)
class Windows:
    """Means over groups of rows, each released with noise of one group; groups must not overlap."""

    bug: str = ""

    def declaration(self, scope: Scope) -> Node:
        return Compose(Gaussian("groups", 2), Gaussian("test", 2))

    def run(self, curator: Curator) -> Array:
        found = curator.release("groups", OwnVector(self._groups, np.sqrt(2.0) * 2))
        curator.release("test", OwnVector(self._test, 1.0))
        return found

    def _groups(self, values: Array) -> Array:
        rows = clipped(values[:, :FEATURES])
        size = len(rows) // 4
        step = size // 2 if self.bug == "one record in two groups" else size
        more = 2 if self.bug == "one record in two groups" else 1
        groups = [rows[k * step : k * step + size * more].sum(axis=0) for k in range(4)]
        return np.concatenate(groups)

    def _test(self, values: Array) -> Array:
        """How many rows, of all of them, are within a unit of the first feature's clip."""
        rows = np.nan_to_num(values)
        if self.bug == "count of pairs":
            near = np.abs(rows[:, None, 0] - rows[None, :, 0]) < 1
            return np.array([float(near.sum()) / 2])
        inside = np.abs(rows[:, 0]) < 1
        if self.bug == "counts twice":
            inside = np.concatenate([inside, inside[: len(inside) // 2]])
        if self.bug == "test on a part":
            share = inside[: len(inside) // 4]
            return np.array([4.0 * share.sum()])
        return np.array([float(inside.sum())])


@dataclass(frozen=True, eq=False)
class OwnVector:
    make: Callable[[Array], Array]
    bound: float
    norm: Norm = "l2"

    def value(self, records: Records, chosen: Any = None) -> Array:
        return self.make(records.values)[None]

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        return np.array(self.bound)


WINDOWS = ("one record in two groups", "count of pairs", "counts twice", "test on a part")


@dataclass(frozen=True, eq=False)
class Differences:
    """Anchored differences: f(x_t) - f(x_(t-1)) clipped to how far the point moved."""

    bug: str = ""

    def declaration(self, scope: Scope) -> Node:
        return Compose(Gaussian("anchor", 4), Repeat(Gaussian("difference", 4), ROUNDS))

    def _gradients(self, w: Array, values: Array) -> Array:
        """Bounded and smooth: tanh of the margin, times a unit row."""
        x = np.nan_to_num(values[:, :FEATURES])
        x = x / np.maximum(1.0, np.linalg.norm(x, axis=-1, keepdims=True))
        return np.asarray(np.tanh(x @ w)[:, None] * x)

    def run(self, curator: Curator) -> Array:
        w = np.zeros((curator.trials, FEATURES))
        estimate = curator.release("anchor", OwnMean(self._anchor(w)))
        points = [w, w - 0.5 * estimate]
        for _ in range(ROUNDS):
            now, before = points[-1], points[-2]
            moved = np.linalg.norm(now - before, axis=-1)
            if self.bug == "stale point" and len(points) > 2:
                before = points[-3]
            if self.bug == "anchor for the point before":
                before = points[0]
            query = Difference(self._difference(now, before), moved)
            estimate = estimate + curator.release("difference", query)
            points.append(now - 0.5 * estimate)
        return points[-1]

    def _anchor(self, at: Array) -> Any:
        def make(records: Records, chosen: Any) -> Array:
            return np.stack([clipped(self._gradients(w, records.values)).sum(0) / SIZE for w in at])

        return make

    def _difference(self, now: Array, before: Array) -> Any:
        def make(records: Records) -> Array:
            rows = [
                self._gradients(a, records.values) - self._gradients(b, records.values)
                for a, b in zip(now, before, strict=False)
            ]
            if self.bug == "no difference":
                rows = [self._gradients(a, records.values) for a in now]
            return np.stack([r.sum(axis=0) / SIZE for r in rows])

        return make


@dataclass(frozen=True, eq=False)
class Difference:
    make: Callable[[Records], Array]
    moved: Array
    norm: Norm = "l2"

    def value(self, records: Records, chosen: Any = None) -> Array:
        return self.make(records)

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        return np.asarray(2 * self.moved / SIZE)


DIFFERENCES = ("stale point", "anchor for the point before", "no difference")


@dataclass(frozen=True, eq=False)
class Sampled:
    """A sum over a secret Poisson batch, over the expected size."""

    bug: str = ""

    def declaration(self, scope: Scope) -> Node:
        return Repeat(PoissonSampled(Gaussian("batch", 2), Fraction(1, 2)), ROUNDS)  # type: ignore[arg-type]

    def run(self, curator: Curator) -> Array:
        x = np.zeros((curator.trials, FEATURES))
        for _ in range(ROUNDS):
            with curator.batch("batch") as batch:
                x = x + curator.release("batch", OwnBatch(self.bug), rows=batch)
        return x


@dataclass(frozen=True, eq=False)
class OwnBatch:
    bug: str
    norm: Norm = "l2"

    def value(self, records: Records, chosen: Any = None) -> Array:
        rows = clipped(records.values[:, :FEATURES])
        if self.bug == "all rows for the batch":
            rows = rows + 0.5 * clipped(records.values[:, :FEATURES]).sum(axis=0)
        chosen = np.ones((1, len(records)), bool) if chosen is None else chosen
        if self.bug == "not on the batch":
            chosen = np.ones_like(chosen)
        total = chosen.astype(float) @ rows
        if self.bug == "over the realised batch":
            return np.asarray(total / np.maximum(1, chosen.sum(axis=1, keepdims=True)))
        return np.asarray(total / (SIZE / 2))

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        return np.array(2.0 / SIZE)


SAMPLED = ("all rows for the batch", "not on the batch", "over the realised batch")

CASES: tuple[tuple[str, Callable[[str], Any], tuple[str, ...], str], ...] = (
    ("descent", lambda bug: Descent(bug), DESCENT, "replace_one"),
    ("descent_zeroed", lambda bug: Descent(bug), (*DESCENT, "absent"), "zero_out"),
    ("stepping", lambda bug: Stepping(bug), STEPPING, "replace_one"),
    ("windows", lambda bug: Windows(bug), WINDOWS, "replace_one"),
    ("differences", lambda bug: Differences(bug), DIFFERENCES, "replace_one"),
    ("sampled", lambda bug: Sampled(bug), SAMPLED, "add_remove"),
)
