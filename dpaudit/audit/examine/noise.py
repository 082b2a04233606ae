"""The noise of a program's kernels, drawn alone, against the law that the declaration gives it.

A kernel's own residual could agree with a wrong sample.  So the law of shipped additive noise is
restated here, and that of somebody else's leaf is taken from its density: the probability integral
transform of one coordinate at a time, given the others and the past, is uniform exactly where the
draws are of that density.
Source: Rosenblatt 1952 (the transform); Denisov et al. 2022, Theorem 2.1 (correlated noise).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln, ndtri

from dpaudit.audit.engine import generator
from dpaudit.audit.residuals import Finding, check_residuals
from dpaudit.check.assumptions import DRAWN
from dpaudit.check.laws import is_broken
from dpaudit.curator.locations import at
from dpaudit.families.correlated.strategies import prefix_root
from dpaudit.kernels.base import normal_scores
from dpaudit.kernels.query import Array

STREAM = 0x6E6F69  # key of the streams of random numbers ("noi")
ROUNDED = 1e-4  # of the scale, what rounding may be where rounds share noise
ERROR = 1e-10  # of a false alarm
TRIALS, SINGLES = (200, 4_000), 64
NUMBERS = 20_000  # drawn of one kernel, where its dimension allows
USES, ROUNDS = 16, 64
WIDEST = 2_000  # coordinates of a release that are tested
LABELS = 8  # of different kernels, leaves, dimensions and scales
GRID = np.sinh(np.linspace(-10, 10, 1_601))
TRANSFORMED = 800  # trials, by a density
COLUMNS = 256  # uses and coordinates, of which ties are counted
INEXACT = 5e-3  # of a share of [0, 1] by a density, for which nothing is said
PASSES = 3  # releases of one label that are tested apart
SURE = 700.0  # nats of evidence that stand for certainty


@dataclass(frozen=True, eq=False)
class Release:
    """One release of a run: the leaf, who draws it, around which value, at which scale."""

    leaf: Any
    kernel: type[Any]
    value: Array
    scale: float
    place: str


Law = Callable[[Any, Any, Array, Any], Array]


def drawn_alone(releases: Mapping[str, Sequence[Release]], seed: int) -> Finding:
    """Whether every kernel draws what is declared, fresh, in one trial and in many.

    A false alarm has probability at most 1e-10: Bonferroni over all statistics of all kernels.
    """
    problems: dict[str, None] = {}
    worst: tuple[float, str] = (1.0, "")
    statistics = numbers = 0
    chosen = _different(releases)
    for number, (label, uses) in enumerate(chosen):
        where = at(uses[0].place)
        try:
            many, singles = (_drawn(uses, seed, number, alone=alone) for alone in (False, True))
            for text in (*_stale(uses, seed, number, many), *_silent(uses[0], many)):
                problems[f"release {label!r}: {text}{where}"] = None
            for name, drawn in (("", many), (", one trial at a time", singles)):
                numbers += drawn.size
                spread = generator(seed, (STREAM, number, 3, len(name)))
                findings = _statistics(uses, label, drawn, spread, alone=bool(name))
                statistics += len(findings)
                least = min(findings, key=lambda f: f.p_value, default=None)
                if least is not None and least.p_value < worst[0]:
                    text = f"release {label!r}, its noise drawn alone{name}: {least.check}"
                    detail = least.detail.partition("; p <=")[0]
                    worst = least.p_value, f"{text}: {detail}{_or_the_law(uses[0])}{where}"
        except Exception as error:  # noqa: BLE001  (whatever a kernel raises is the finding)
            text = f"release {label!r}: its kernel fails when it draws alone"
            problems[f"{text} ({type(error).__name__}){where}"] = None
    if not numbers and not problems:
        return Finding(DRAWN, "not_run", 0.0, 0.0, "nothing was released")
    p = min(1.0, worst[0] * max(1, statistics))
    evidence = SURE if problems or p <= 0 else min(-math.log(p), SURE)
    broken = is_broken(math.exp(-evidence), ERROR)
    problem_text = "; ".join([*problems, *([worst[1]] if p <= ERROR else [])][:4])
    summary = f"{numbers} numbers of {len(chosen)} kernels follow the declared law, fresh each time"
    return Finding(
        DRAWN,
        "broken" if broken else "held",
        evidence,
        ERROR,
        problem_text if broken else summary,
        p_value=math.exp(-evidence),
        law="evidence",
        size=max(1, statistics),
    )


def _different(releases: Mapping[str, Sequence[Release]]) -> list[tuple[str, Sequence[Release]]]:
    """The first of all labels whose leaves and scales are equal; no more than a few."""
    by_kernel: dict[Any, tuple[str, Sequence[Release]]] = {}
    for label, uses in releases.items():
        usable = [use for use in uses if np.isfinite(use.value).all() and use.scale > 0]
        if not usable or (usable[0].kernel.memory and len(usable) < len(uses)):
            continue
        first = usable[0]
        alike = repr(first.leaf).replace(repr(label), "").replace(f'"{label}"', "")
        key = (first.kernel, alike, first.value.size, f"{first.scale:.6g}", len(usable) > 1)
        by_kernel.setdefault(key, (label, _so_many(usable)))
    return list(by_kernel.values())[:LABELS]


def _so_many(uses: Sequence[Release]) -> Sequence[Release]:
    first = uses[0]
    if first.kernel.memory:
        return uses[: min(int(first.kernel.releases(first.leaf)), ROUNDS)]
    return uses[:USES]


def _drawn(uses: Sequence[Release], seed: int, number: int, *, alone: bool, key: int = 0) -> Array:
    """Releases of a new session, (trials, uses, d); ``alone``: one session a trial, around 0."""
    size = len(uses) * uses[0].value.size
    if not alone:
        trials = int(np.clip(NUMBERS // size, *TRIALS))
        rng = generator(seed, (STREAM, number, key))
        return _session(uses, trials, rng, zero=False)
    return np.concatenate(
        [
            _session(uses, 1, generator(seed, (STREAM, number, 2, k)), zero=True)
            for k in range(SINGLES)
        ]
    )


def _session(uses: Sequence[Release], trials: int, rng: Any, *, zero: bool) -> Array:
    session: Any = uses[0].kernel(uses[0].leaf, trials)
    draws = []
    for values, scale in _asked(uses, trials, zero=zero):
        session.admit(scale, values.shape[1])
        draws.append(np.asarray(session.sample(values, scale, rng), dtype=np.float64))
    return np.stack(draws, axis=1)


def _asked(uses: Sequence[Release], trials: int, *, zero: bool) -> Iterator[tuple[Array, Array]]:
    # A value may be packed of several things: only where noise is added to it may it be another.
    added = _restated(uses[0]) is not None
    for use in uses:
        value = use.value[:WIDEST] * (0.0 if zero else 1.0) if added else use.value
        yield np.broadcast_to(value, (trials, value.size)), np.full(trials, use.scale)


def _stale(uses: Sequence[Release], seed: int, number: int, drawn: Array) -> Iterator[str]:
    """Noise that another generator does not change: :func:`log_chance_of_ties` at most log 1e-10.

    One p-value for each use and coordinate, of as many trials as were drawn, times their number.
    """
    again = _drawn(uses, seed, number, alone=False, key=1)
    equal = (drawn == again) | (np.isnan(drawn) & np.isnan(again))
    tied = np.argwhere(equal.any(axis=0))
    chosen = tied[:: 1 + len(tied) // COLUMNS]
    least = min(
        (log_chance_of_ties(drawn[:, t, j], again[:, t, j]) for t, j in chosen), default=0.0
    )
    if least + math.log(equal[0].size) <= math.log(ERROR):
        yield "its noise is the same from another generator: it is seeded, or drawn only once"


def log_chance_of_ties(first: Array, second: Array) -> float:
    """Log of a bound on the chance of as many equal pairs, of two samples (trials,) of one law.

    Given the values in both samples, which of the second stands beside which of the first is a
    uniform permutation, whatever the law: continuous, rounded, or of a few values.  With a_v and
    b_v of a value v in each, ``S = sum a_v b_v`` and k equal pairs among n,
    P(at least k) <= E[C(K, k)] <= S^k (n - k)! / (n! k!) (a union over the sets of k pairs).
    All n are equal with probability prod b_v! / n!.  Both are used, each at half.
    """
    n = len(first)
    values, places = np.unique(np.concatenate([first, second]), return_inverse=True)
    counts = [np.bincount(part, minlength=len(values)) for part in np.split(places, 2)]
    ties = int(np.count_nonzero(places[:n] == places[n:]))
    if ties == 0:
        return 0.0
    together = float(np.dot(*[count.astype(np.float64) for count in counts]))
    log_chance = ties * math.log(together) + float(gammaln(n - ties + 1) - gammaln(n + 1))
    log_chance -= float(gammaln(ties + 1))
    every = float(gammaln(counts[1] + 1).sum() - gammaln(n + 1)) if ties == n else 0.0
    return min(0.0, min(log_chance, every) + math.log(2))


def _silent(use: Release, drawn: Array) -> Iterator[str]:
    """Coordinates of a release that carry no noise, though its scale is above rounding.

    Where the scale is at least twice the spacing of floats at the value, a draw of a density of at
    most 1 / scale equals another with probability at most 1/2, and 200 are equal with at most
    2^-199.
    """
    if not use.kernel.continuous:
        return
    finite = np.isfinite(drawn).all(axis=0)
    still = (np.ptp(np.nan_to_num(drawn), axis=0) == 0) & finite
    still &= 2 * np.spacing(np.abs(np.nan_to_num(drawn[0]))) <= use.scale
    if still.any():
        use_number, coordinate = (int(k) for k in np.argwhere(still)[0])
        share = f"{int(still.sum())} of {still.size} numbers"
        yield f"no noise in {share} (the first: use {use_number + 1}, coordinate {coordinate + 1})"


def _statistics(
    uses: Sequence[Release], label: str, drawn: Array, spread: Any, *, alone: bool
) -> list[Finding]:
    scores = _scores(uses, drawn, spread, alone=alone)
    named = {f"{label}{'' if k == 0 else f' ({k + 1})'}": score for k, score in enumerate(scores)}
    return [f for f in check_residuals(named, ERROR) if not math.isnan(f.p_value)]


def _or_the_law(use: Release) -> str:
    """Parts beside the draws that may be wrong, where a kernel of somebody else says their law."""
    if _restated(use) is not None or str(use.kernel.__module__).partition(".")[0] == "dpaudit":
        return ""
    name = use.kernel.__name__
    return f": {name}.sample, or the log_density or residual that it is held against, is wrong"


def _restated(use: Release) -> Law | None:
    return _LAWS.get(type(use.leaf).__name__) if use.leaf.is_shipped else None


def _scores(uses: Sequence[Release], drawn: Array, spread: Any, *, alone: bool) -> list[Array]:
    """Independent N(0, 1) numbers under the declaration, (trials, uses, d), once or several times.

    By the law restated here, by the density of a continuous kernel that is not the library's, else
    by the kernel's own residual.  ``spread``: the generator of uniform numbers inside a step of a
    distribution function, independent of what was drawn.
    """
    arguments = list(_asked(uses, len(drawn), zero=alone))
    restated = _restated(uses[0])
    if restated is not None:
        return [restated(uses[0].leaf, arguments, drawn, _Uniforms(spread))]
    shipped = str(uses[0].kernel.__module__).partition(".")[0] == "dpaudit"
    if shipped or not uses[0].kernel.continuous:
        return [_by_kernel(uses, drawn, arguments, spread)]
    passes = min(PASSES, arguments[0][0].shape[1])
    few = drawn[:TRANSFORMED]
    asked_few = list(_asked(uses, len(few), zero=alone))
    passes_made = [_by_density(uses, few, asked_few, start) for start in range(passes)]
    if max(error for _, error in passes_made) > INEXACT:
        return [_by_kernel(uses, drawn, arguments, spread)]
    return [scores for scores, _ in passes_made]


def _by_kernel(
    uses: Sequence[Release], drawn: Array, asked: list[tuple[Array, Array]], spread: Any
) -> Array:
    session: Any = uses[0].kernel(uses[0].leaf, len(drawn))
    session.spread = spread
    residuals = []
    for t, given in enumerate(asked):
        with np.errstate(all="ignore"):
            residuals.append(session.residual(drawn[:, t], *given))
            session.log_density(drawn[:, t], *given)
    width = max(residual.shape[1] for residual in residuals)
    padded = [
        np.pad(residual, ((0, 0), (0, width - residual.shape[1])), constant_values=np.nan)
        for residual in residuals
    ]
    stacked = np.stack(padded, axis=1)
    # Off is all of a release: what a kernel has no residual of in part is left out.
    return np.where(np.isnan(stacked).any(axis=-1, keepdims=True), np.nan, stacked)


def _by_density(
    uses: Sequence[Release], drawn: Array, asked: list[tuple[Array, Array]], start: int
) -> tuple[Array, float]:
    """The transform of one coordinate a use, the next one at the next use: (trials, uses, 1).

    And how far the share of [0, 1] is from that of every other point of the grid, at most.
    """
    session: Any = uses[0].kernel(uses[0].leaf, len(drawn))
    columns, error = [], 0.0
    for t, given in enumerate(asked):
        released = drawn[:, t]
        j = (start + t) % released.shape[1]
        middle = np.median(released[:, j])
        low, high = np.quantile(released[:, j], [0.25, 0.75])
        points = middle + max(float(high - low) / 1.35, 1e-12) * GRID
        logs = np.empty((len(points), len(drawn)))
        for k, point in enumerate(points):
            moved = released.copy()
            moved[:, j] = point
            opened = copy.deepcopy(session) if uses[0].kernel.memory else session
            with np.errstate(all="ignore"):
                logs[k] = opened.log_density(moved, *given)
        share = _shares(points, logs, released[:, j])
        coarse = _shares(points[::2], logs[::2], released[:, j])
        error = max(error, float(np.abs(share - coarse).max()))
        columns.append(ndtri(np.clip(share, 1e-12, 1 - 1e-12)))
        with np.errstate(all="ignore"):
            session.log_density(released, *given)
    return np.stack(columns, axis=1)[:, :, None], error


def _shares(points: Array, logs: Array, seen: Array) -> Array:
    """Distribution functions at ``seen`` (trials,), of densities on a grid, (grid, trials)."""
    highest = np.max(np.nan_to_num(logs, nan=-np.inf), axis=0)
    highest = np.where(np.isfinite(highest), highest, 0.0)
    density = np.exp(np.nan_to_num(logs - highest, nan=-np.inf))
    steps = np.diff(points)[:, None] * (density[1:] + density[:-1]) / 2
    below = np.concatenate([np.zeros((1, len(seen))), np.cumsum(steps, axis=0)])
    return np.array(
        [
            np.interp(point, points, column / max(column[-1], 1e-300))
            for point, column in zip(seen, below.T, strict=True)
        ]
    )


# --- laws restated -------------------------------------------------------------------------------


class _Uniforms:
    """Uniform numbers of a shape."""

    def __init__(self, generator: Any) -> None:
        self.generator = generator

    def __call__(self, *shape: int) -> Array:
        return np.asarray(self.generator.random(shape))


def _added(below: Callable[[Array], Array] | None) -> Law:
    """Noise that is added to the values of each use, of a distribution function of its scale."""

    def scores(leaf: Any, asked: Any, drawn: Array, uniforms: Any) -> Array:
        each = [
            normal_scores(drawn[:, t], values, scale, uniforms, below)
            for t, (values, scale) in enumerate(asked)
        ]
        return np.stack(each, axis=1)

    return scores


def _laplace_below(noise: Array) -> Array:
    """P(noise > x) = e^-x / 2 for x >= 0."""
    tail = 0.5 * np.exp(-np.abs(noise))
    return np.asarray(np.where(noise < 0, tail, 1 - tail))


def _correlated(leaf: Any, asked: Any, drawn: Array, uniforms: Any) -> Array:
    """Release t is x_1 + ... + x_t + (K z)_t, K K^T the covariance of prefix noise."""
    rows = np.stack([values for values, _ in asked], axis=1)
    sums = np.cumsum(rows, axis=1)
    prefix, scale = drawn - sums, asked[0][1][0]
    root = np.asarray(prefix_root(leaf.strategy, int(leaf.rounds)))[: len(asked), : len(asked)]
    trials, rounds, width = prefix.shape
    flat = np.moveaxis(prefix, 1, 0).reshape(rounds, -1)
    fresh = np.linalg.solve(root, flat).reshape(rounds, trials, width)
    residuals = np.moveaxis(fresh, 0, 1) / scale
    # Rounding of earlier rounds is not known: it is small, or nothing can be said.
    rounded = np.spacing(np.abs(sums).max()) > ROUNDED * np.abs(np.diag(root)).min() * scale
    return np.full_like(residuals, np.nan) if rounded else residuals


_LAWS: Mapping[str, Law] = {
    "Gaussian": _added(None),
    "Laplace": _added(_laplace_below),
    "CorrelatedGaussian": _correlated,
}
