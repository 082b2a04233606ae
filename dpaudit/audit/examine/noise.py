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
from scipy.special import ndtri

from dpaudit.audit.engine import generator
from dpaudit.audit.residuals import Finding, check_residuals
from dpaudit.check.assumptions import DRAWN
from dpaudit.curator.locations import at
from dpaudit.families.correlated.strategies import prefix_root
from dpaudit.kernels.base import Session
from dpaudit.kernels.query import Array

STREAM = 0x6E6F69
ERROR = 1e-10  # of a false alarm
TRIALS, SINGLES = (200, 4_000), 64
NUMBERS = 20_000  # drawn of one kernel, where its dimension allows
USES, ROUNDS = 16, 64
WIDEST = 2_000
LABELS = 8  # of different kernels, leaves, dimensions and scales
GRID = np.sinh(np.linspace(-10, 10, 401))
TRANSFORMED = 800  # trials, by a density
PASSES = 3
SURE = 700.0


@dataclass(frozen=True, eq=False)
class Release:
    """One release of a run: the leaf, who draws it, around which value, at which scale."""

    leaf: Any
    kernel: type[Any]
    value: Array
    scale: float
    place: str


Made = Callable[[int], Session]


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
                found = _statistics(uses, label, drawn, alone=bool(name))
                statistics += len(found)
                least = min(found, key=lambda f: f.p_value, default=None)
                if least is not None and least.p_value < worst[0]:
                    text = f"release {label!r}, its noise drawn alone{name}: {least.check}"
                    worst = least.p_value, f"{text}: {least.detail.partition('; p <=')[0]}{where}"
        except Exception as error:  # noqa: BLE001  (whatever a kernel raises is the finding)
            text = f"release {label!r}: its kernel fails when it draws alone"
            problems[f"{text} ({type(error).__name__}){where}"] = None
    if not numbers and not problems:
        return Finding(DRAWN, "not_run", 0.0, 0.0, "nothing was released")
    p = min(1.0, worst[0] * max(1, statistics))
    evidence = SURE if problems or p <= 0 else min(-math.log(p), SURE)
    broken = evidence >= -math.log(ERROR)
    said = "; ".join([*problems, *([worst[1]] if p <= ERROR else [])][:4])
    held = f"{numbers} numbers of {len(chosen)} kernels follow the declared law, fresh each time"
    return Finding(
        DRAWN,
        "broken" if broken else "held",
        evidence,
        ERROR,
        said if broken else held,
        p_value=math.exp(-evidence),
        law="evidence",
        size=max(1, statistics),
    )


def _different(releases: Mapping[str, Sequence[Release]]) -> list[tuple[str, Sequence[Release]]]:
    """Of labels whose leaves and scales are alike, the first; no more than a few."""
    found: dict[Any, tuple[str, Sequence[Release]]] = {}
    for label, uses in releases.items():
        usable = [use for use in uses if np.isfinite(use.value).all() and use.scale > 0]
        if not usable or (usable[0].kernel.memory and len(usable) < len(uses)):
            continue
        first = usable[0]
        alike = repr(first.leaf).replace(repr(label), "").replace(f'"{label}"', "")
        key = (first.kernel, alike, first.value.size, f"{first.scale:.6g}", len(usable) > 1)
        found.setdefault(key, (label, _so_many(usable)))
    return list(found.values())[:LABELS]


def _so_many(uses: Sequence[Release]) -> Sequence[Release]:
    first = uses[0]
    if first.kernel.memory:
        return uses[: min(int(first.kernel.releases(first.leaf)), ROUNDS)]
    return uses[:USES]


def _drawn(uses: Sequence[Release], seed: int, number: int, *, alone: bool, key: int = 0) -> Array:
    """What a new session releases, (trials, uses, d); ``alone``: one session a trial, around 0."""
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
    found = []
    for values, scale in _asked(uses, trials, zero=zero):
        session.admit(scale, values.shape[1])
        found.append(np.asarray(session.sample(values, scale, rng), dtype=np.float64))
    return np.stack(found, axis=1)


def _asked(uses: Sequence[Release], trials: int, *, zero: bool) -> Iterator[tuple[Array, Array]]:
    # A value may be packed of several things: only where noise is added to it may it be another.
    added = _restated(uses[0]) is not None
    for use in uses:
        value = use.value[:WIDEST] * (0.0 if zero else 1.0) if added else use.value
        yield np.broadcast_to(value, (trials, value.size)), np.full(trials, use.scale)


def _stale(uses: Sequence[Release], seed: int, number: int, drawn: Array) -> Iterator[str]:
    """Noise that another generator does not change."""
    again = _drawn(uses, seed, number, alone=False, key=1)
    same = (drawn == again) & np.isfinite(drawn)
    fixed = same.any() if uses[0].kernel.continuous else same.all() and np.unique(drawn).size > 2
    if fixed:
        yield "its noise is the same from another generator: it is seeded, or drawn only once"


def _silent(use: Release, drawn: Array) -> Iterator[str]:
    """Coordinates of a release that carry no noise."""
    if not use.kernel.continuous:
        return
    still = (np.ptp(np.nan_to_num(drawn), axis=0) == 0) & np.isfinite(drawn).all(axis=0)
    if still.any():
        use_number, coordinate = (int(k) for k in np.argwhere(still)[0])
        share = f"{int(still.sum())} of {still.size} numbers"
        yield f"no noise in {share} (the first: use {use_number + 1}, coordinate {coordinate + 1})"


def _statistics(uses: Sequence[Release], label: str, drawn: Array, *, alone: bool) -> list[Finding]:
    scores = _scores(uses, drawn, alone=alone)
    named = {f"{label}{'' if k == 0 else f' ({k + 1})'}": one for k, one in enumerate(scores)}
    return [f for f in check_residuals(named, ERROR) if not math.isnan(f.p_value)]


def _restated(use: Release) -> Callable[[Any, Any, Array, Array], Array] | None:
    return _LAWS.get(type(use.leaf).__name__) if use.leaf.is_shipped else None


def _scores(uses: Sequence[Release], drawn: Array, *, alone: bool) -> list[Array]:
    """Independent N(0, 1) numbers under the declaration, (trials, uses, d), once or several times.

    By the law restated here, by the density of a kernel that is not the library's, else by the
    library's own residual.
    """
    asked = list(_asked(uses, len(drawn), zero=alone))
    restated = _restated(uses[0])
    if restated is not None:
        noise = np.stack([drawn[:, t] - values for t, (values, _) in enumerate(asked)], axis=1)
        scale = np.array([use.scale for use in uses])
        return [restated(uses[0].leaf, asked, drawn, noise / scale[:, None])]
    if uses[0].kernel.__module__.partition(".")[0] == "dpaudit":
        return [_by_kernel(uses, drawn, asked)]
    passes = min(PASSES, asked[0][0].shape[1])
    drawn = drawn[:TRANSFORMED]
    asked = list(_asked(uses, len(drawn), zero=alone))
    return [_by_density(uses, drawn, asked, start) for start in range(passes)]


def _by_kernel(uses: Sequence[Release], drawn: Array, asked: list[tuple[Array, Array]]) -> Array:
    session: Any = uses[0].kernel(uses[0].leaf, len(drawn))
    found = []
    for t, given in enumerate(asked):
        with np.errstate(all="ignore"):
            found.append(session.residual(drawn[:, t], *given))
            session.log_density(drawn[:, t], *given)
    width = max(one.shape[1] for one in found)
    padded = [
        np.pad(one, ((0, 0), (0, width - one.shape[1])), constant_values=np.nan) for one in found
    ]
    whole = np.stack(padded, axis=1)
    # Off is all of a release: what a kernel has no residual of in part is left out.
    return np.where(np.isnan(whole).any(axis=-1, keepdims=True), np.nan, whole)


def _by_density(
    uses: Sequence[Release], drawn: Array, asked: list[tuple[Array, Array]], start: int
) -> Array:
    """The transform of one coordinate a use, the next one at the next use: (trials, uses, 1)."""
    session: Any = uses[0].kernel(uses[0].leaf, len(drawn))
    found = []
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
        found.append(_transformed(points, logs, released[:, j]))
        with np.errstate(all="ignore"):
            session.log_density(released, *given)
    return np.stack(found, axis=1)[:, :, None]


def _transformed(points: Array, logs: Array, seen: Array) -> Array:
    """Normal scores of ``seen`` (trials,) under densities on a grid, (grid, trials)."""
    highest = np.max(np.nan_to_num(logs, nan=-np.inf), axis=0)
    highest = np.where(np.isfinite(highest), highest, 0.0)
    density = np.exp(np.nan_to_num(logs - highest, nan=-np.inf))
    steps = np.diff(points)[:, None] * (density[1:] + density[:-1]) / 2
    below = np.concatenate([np.zeros((1, len(seen))), np.cumsum(steps, axis=0)])
    share = np.array(
        [
            np.interp(one, points, column / max(column[-1], 1e-300))
            for one, column in zip(seen, below.T, strict=True)
        ]
    )
    return np.asarray(ndtri(np.clip(share, 1e-12, 1 - 1e-12)))


# --- laws restated -------------------------------------------------------------------------------


def _gaussian(leaf: Any, asked: Any, drawn: Array, noise: Array) -> Array:
    return noise


def _laplace(leaf: Any, asked: Any, drawn: Array, noise: Array) -> Array:
    """P(noise > x) = e^-x / 2 for x >= 0."""
    tail = np.clip(0.5 * np.exp(-np.abs(noise)), 1e-300, 0.5)
    return np.where(noise < 0, ndtri(tail), -ndtri(tail))


def _correlated(leaf: Any, asked: Any, drawn: Array, noise: Array) -> Array:
    """Release t is x_1 + ... + x_t + (K z)_t, K K^T the covariance of prefix noise."""
    rows = np.stack([values for values, _ in asked], axis=1)
    prefix = drawn - np.cumsum(rows, axis=1)
    root = np.asarray(prefix_root(leaf.strategy, int(leaf.rounds)))[: len(asked), : len(asked)]
    trials, rounds, width = prefix.shape
    flat = np.moveaxis(prefix, 1, 0).reshape(rounds, -1)
    fresh = np.linalg.solve(root, flat).reshape(rounds, trials, width)
    return np.asarray(np.moveaxis(fresh, 0, 1) / asked[0][1][0])


_LAWS: Mapping[str, Callable[[Any, Any, Array, Array], Array]] = {
    "Gaussian": _gaussian,
    "Laplace": _laplace,
    "CorrelatedGaussian": _correlated,
}
