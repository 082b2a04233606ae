"""Noise that gives the same outputs on the other data set, and the privacy loss that follows.

A trial is a fixed map y = f(z) of its standard noise z on one data set, y = g(z) on the other.
Where both are one-to-one, y has the density p(y) = phi(z) / |det f'(z)| with f(z) = y, and q(y) =
phi(z') / |det g'(z')| with g(z') = y (change of variables), so that its privacy loss is

    log p/q = log phi(z) - log phi(z') + log |det g'(z')| - log |det f'(z)|.

If outputs are more than numbers of noise they lie on a surface, and |det| is the volume
sqrt(det J^T J) on it, or that of outputs that determine the others.  If the map f is not
one-to-one, a z alone gives at most p(y); the terms (p - e^epsilon q)_+ of several z that share one
q add up to at most that of their sum.  Only a z' that is missed makes a bound wrong: g must be
one-to-one, which is tested, and is an assumption.

Every z' is checked by running g on it.  If g(z') misses y by at most ``NOISE_TOLERANCE`` in noise,
q is taken at the likeliest noise within that distance; if it misses by more, the trial's loss
counts as 0, which is no evidence against any epsilon >= 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from scipy.optimize import elementwise

from dpaudit.audit.blackbox.draws import Array
from dpaudit.audit.blackbox.recorded import NORMAL, Law, Layout
from dpaudit.curator.proposal import MAX_LOG, NoLikelihood

# Standard deviations of noise by which a solution may be off and still be accepted.
NOISE_TOLERANCE = 1e-6
OUTPUT_ROUNDING = 1e-12  # Relative rounding error allowed to an output.
# Relative margin for rounding of solved noise and of its log ratios; losses are lowered by it.
RATIO_ROUNDING = 1e-9
LEAST_SLOPE = 1e-12  # Slopes below this share of the outputs' size count as 0.
RANK_TOLERANCE = 1e-9  # Slopes below this share of the largest one do not add to the rank.
# Standard deviations of the noise on which the maps are fitted.
FITTED_DEVIATIONS = (1.0, 2.0, 4.0)
FITTED_EXAMPLES = 200  # Noise vectors on which the maps are fitted, at the least.
MOST_AFFINE = 500  # Noise values a trial, if outputs are affine in them.
MOST_MONOTONE = 32  # Noise values a trial, if outputs are only monotone in them.
# Noise values at which a monotone output is tabulated before its root is bracketed.
NOISE_GRID = np.array(
    [-8, -6.5, -5, -4, -3, -2.3, -1.6, -1, -0.5, 0, 0.5, 1, 1.6, 2.3, 3, 4, 5, 6.5, 8]
)
SLOPE_STEP = 1e-4  # Step of numerical slopes, in standard normal noise.
SMALL_SLOPE_STEP = 1e-6  # A smaller step, with which slopes are compared.
# Largest relative difference of an output's slopes at the two step sizes, if it is smooth.
SLOPE_AGREEMENT = 1e-3
ROUNDED_OUTPUT = (
    "most outputs do not move when the noise does, as where they are rounded: they are not "
    "one-to-one in it"
)
NOT_MONOTONE = "an output is the same for several values of a number of noise: not one-to-one"
UNSOLVED = "for most outputs no noise was found that gives them on the other data set"

Run: TypeAlias = Callable[[int, Array], Array]
"""Called as run(side, noise), noise (trials, numbers); returns outputs, (trials, columns)."""


class NotAffine(NoLikelihood):
    """Outputs are no affine map of the noise."""


@dataclass(frozen=True, eq=False)
class Solved:
    """Privacy losses of trials, from the noise that was solved for.

    ``ratios``: log phi(z) - log phi(z') for each number of noise, (trials, numbers).  ``volume``:
    log |det g'| - log |det f'|, (trials,).  ``sure``: where running confirmed z', (trials,).
    """

    ratios: Array
    volume: Array
    sure: Array

    @property
    def losses(self) -> Array:
        """Privacy loss of each trial, rounded down; 0 if the solution was not confirmed."""
        ratios = self.ratios.clip(-MAX_LOG, MAX_LOG)
        losses = ratios.sum(axis=1) + self.volume
        losses -= RATIO_ROUNDING * (1 + np.abs(self.volume) + np.abs(ratios).sum(axis=1))
        return np.where(self.sure & np.isfinite(losses), losses, 0.0)


class Solver(Protocol):
    """Finds the noise on the other side; ``words`` says of which maps."""

    words: str

    def solve(self, side: int, scores: Array) -> Solved:
        """For trials with these normal scores of noise on ``side``."""
        ...


def solver_of(layout: Layout, run: Run, rng: np.random.Generator, *, affine: bool) -> Solver:
    """Errors: NoLikelihood where outputs are no such map, not one-to-one, or not finite."""
    numbers = len(layout.laws)
    kind, most = (Affine, MOST_AFFINE) if affine else (Monotone, MOST_MONOTONE)
    if numbers > most:
        raise NoLikelihood(f"a trial draws {numbers} numbers; at most {most} are {kind.solved}")
    shape = max(FITTED_EXAMPLES, 2 * numbers + 2), numbers
    plain = rng.standard_normal(shape)
    solver = kind(
        layout, run, rng.choice(FITTED_DEVIATIONS, (len(plain), 1)) * rng.standard_normal(shape)
    )
    for side in (0, 1):
        if np.mean(solver.solve(side, plain).sure) < 0.5:
            raise NoLikelihood(UNSOLVED)
    return solver


def _likeliest(laws: list[Law], noise: Array, off: Array) -> Array:
    """Largest log density within distance ``off`` of each noise value; each law is unimodal."""
    densities = []
    for k, law in enumerate(laws):
        away = noise[:, k] - law.mode
        nearest = np.sign(away) * np.maximum(np.abs(away) - off[:, k], 0)
        densities.append(law.log_density(law.mode + nearest))
    return np.stack(densities, axis=1)


def _finite(values: Array) -> Array:
    if not np.isfinite(values).all():
        raise NoLikelihood("an output is no finite number")
    return values


def confirmed(off: Array, slopes: Array, outputs: Array) -> Array:
    """Whether each trial's outputs are reached: off by at most ``NOISE_TOLERANCE`` of noise."""
    with np.errstate(invalid="ignore"):
        return np.asarray(
            (np.abs(off) <= NOISE_TOLERANCE * slopes + OUTPUT_ROUNDING * np.abs(outputs)).all(
                axis=1
            )
        )


class Affine:
    """Outputs a + z B, with one B for every trial of a data set; B may differ between data sets."""

    words = "affine"
    solved = "solved for"

    def __init__(self, layout: Layout, run: Run, scores: Array) -> None:
        self.layout, self.run = layout, run
        noise = layout.numbers(scores)
        design = np.column_stack([np.ones(len(noise)), noise])
        self.maps = [np.linalg.lstsq(design, _finite(run(s, noise)))[0] for s in (0, 1)]
        sizes = [np.abs(run(s, noise)).max() + 1e-300 for s in (0, 1)]
        slopes = [np.abs(m[1:]).max(axis=1) / n for m, n in zip(self.maps, sizes, strict=True)]
        self.live = np.max(slopes, axis=0) > LEAST_SLOPE
        for side in (0, 1):
            self.maps[side][1:][~self.live] = 0
            self.check(side, noise)
        singular_values = [np.linalg.svd(m[1:][self.live], compute_uv=False) for m in self.maps]
        count = int(self.live.sum())
        rank = min(int(np.sum(s > RANK_TOLERANCE * s.max(initial=0))) for s in singular_values)
        if not count:
            raise NoLikelihood(ROUNDED_OUTPUT)
        if rank < count:
            raise NoLikelihood(
                f"outputs move with {count} numbers of noise a trial but determine only {rank}, as "
                "where two draws are added: they are not one-to-one in the noise"
            )
        self.volumes = [np.log(s).sum() for s in singular_values]
        self.inverses = [np.linalg.pinv(m[1:][self.live]) for m in self.maps]

    def check(self, side: int, noise: Array) -> Array:
        """Outputs of this noise.  Errors: NotAffine if any is off the fitted map."""
        outputs = _finite(self.run(side, noise))
        start, slopes = self.maps[side][0], self.maps[side][1:]
        off = outputs - start - noise @ slopes
        if not confirmed(off, np.abs(slopes).sum(axis=0), outputs).all():
            raise NotAffine("outputs are not affine in the noise")
        return outputs

    def solve(self, side: int, scores: Array) -> Solved:
        """Errors: NotAffine where the drawn noise gives outputs off the map, on either side."""
        other, noise = 1 - side, self.layout.numbers(scores)
        outputs = self.check(side, noise)
        self.check(other, noise)
        start, slopes = self.maps[other][0], self.maps[other][1:]
        solved = noise.copy()
        solved[:, self.live] = (outputs - start) @ self.inverses[other]
        off = self.run(other, solved) - outputs
        sure = confirmed(off, np.abs(slopes).sum(axis=0), outputs)
        room = RATIO_ROUNDING * (1 + np.abs(solved))
        room[:, self.live] += 2 * np.abs(np.nan_to_num(off)) @ np.abs(self.inverses[other])
        room[:, ~self.live] = 0
        laws = self.layout.laws
        ratios = _likeliest(laws, noise, 0 * noise) - _likeliest(laws, solved, room)
        volume = self.volumes[other] - self.volumes[side]
        return Solved(ratios, np.full(len(noise), volume), sure)


class Monotone:
    """Outputs each of which adds one number of noise to those before it, and is monotone in it.

    Noise is given as normal scores, whose density is the standard normal one.
    """

    words = "monotone, one number of noise after another"
    solved = "solved for where outputs are not affine in them"

    def __init__(self, layout: Layout, run: Run, scores: Array) -> None:
        self.layout, self.run = layout, run
        numbers = scores.shape[1]
        moved: Any = 0
        for side in (0, 1):
            base = self.outputs(side, scores)
            columns = [self.outputs(side, scores + 0.5 * row) != base for row in np.eye(numbers)]
            moved = moved | np.stack([c.any(axis=0) for c in columns], axis=1)
        self.order: list[tuple[int, int]] = []  # (number of noise, output that is solved for it)
        while (alone := np.flatnonzero(moved.sum(axis=1) == 1)).size:
            k = int(np.argmax(moved[alone[0]]))
            self.order.append((k, int(alone[0])))
            moved[:, k] = False
        if moved.any():
            raise NoLikelihood(
                "outputs are not affine in the noise, and do not determine it one number after "
                "another, as where two draws are added"
            )
        if not self.order:
            raise NoLikelihood(ROUNDED_OUTPUT)
        flat = [np.mean(self.slopes(side, scores)[2] == 0) for side in (0, 1)]
        if max(flat) > 0.5:
            raise NoLikelihood(ROUNDED_OUTPUT)

    def outputs(self, side: int, scores: Array) -> Array:
        """Errors: NoLikelihood where one is not finite."""
        return _finite(self.run(side, self.layout.numbers(scores)))

    def slopes(self, side: int, scores: Array) -> tuple[Array, Array, Array]:
        """Slopes of all outputs, (trials, columns, solved numbers); how far two steps differ,
        beside the slope, (trials, solved numbers); and the slopes on which each number is solved.
        """
        differences = []
        for k, _ in self.order:
            step = np.eye(scores.shape[1])[k]
            for h in (SLOPE_STEP, SMALL_SLOPE_STEP):
                up, down = (self.outputs(side, scores + sign * h * step) for sign in (1, -1))
                differences.append((up - down) / (2 * h))
        slopes, small = np.stack(differences[::2], axis=2), np.stack(differences[1::2], axis=2)
        places = [j for _, j in self.order], range(len(self.order))
        own = slopes[:, places[0], places[1]]
        with np.errstate(divide="ignore", invalid="ignore"):
            apart = np.abs(small[:, places[0], places[1]] / own - 1)
        return slopes, np.nan_to_num(apart, nan=np.inf), own

    def solve(self, side: int, scores: Array) -> Solved:
        """Errors: NoLikelihood where an output is seen not to be monotone."""
        other, outputs = 1 - side, self.outputs(side, scores)
        solved, signs = scores.copy(), []
        for k, j in self.order:
            signs.append(self.root(other, solved, k, j, outputs[:, j]))
        off = self.outputs(other, solved) - outputs
        _, apart, own = self.slopes(side, scores)
        slopes, apart_there, other_slopes = self.slopes(other, solved)
        if (other_slopes * np.stack(signs, axis=1) < 0).any():
            raise NoLikelihood(NOT_MONOTONE)
        sure = confirmed(off, np.abs(slopes).sum(axis=2), outputs)
        sure &= (np.maximum(apart, apart_there) <= SLOPE_AGREEMENT).all(axis=1)
        places = [j for _, j in self.order]
        square = np.where(sure[:, None, None], slopes[:, places], np.eye(len(places)))
        away = np.linalg.solve(square, off[:, places, None])[..., 0]
        room = np.zeros(scores.shape)
        numbers = [k for k, _ in self.order]
        room[:, numbers] = 2 * np.abs(away) + RATIO_ROUNDING * (1 + np.abs(solved[:, numbers]))
        laws = [NORMAL] * scores.shape[1]
        ratios = _likeliest(laws, scores, 0 * scores) - _likeliest(laws, solved, room)
        with np.errstate(divide="ignore", invalid="ignore"):
            volume = (np.log(np.abs(other_slopes)) - np.log(np.abs(own))).sum(axis=1)
            volume -= 2 * (apart + apart_there).sum(axis=1)
        return Solved(ratios, volume, sure)

    def root(self, side: int, scores: Array, k: int, j: int, sought: Array) -> Array:
        """Sets number ``k`` of the scores to where output ``j`` is as sought, or near an end.

        Returns the direction in which the output grows, (trials,).
        Errors: NoLikelihood where it grows and falls.
        """
        grid = []
        for value in NOISE_GRID:
            scores[:, k] = value
            grid.append(self.outputs(side, scores)[:, j])
        heights = np.stack(grid)
        rises, falls = (np.diff(heights, axis=0) > 0).any(0), (np.diff(heights, axis=0) < 0).any(0)
        if (rises & falls).any():
            raise NoLikelihood(NOT_MONOTONE)
        sign = np.where(falls, -1.0, 1.0)
        place = np.sum(sign * heights < sign * sought, axis=0).clip(1, len(NOISE_GRID) - 1)
        low, high = NOISE_GRID[place - 1], NOISE_GRID[place]
        trials = np.arange(len(scores))

        def height(value: Array, trial: Array) -> Array:
            scores[trial, k] = value
            return np.asarray(self.outputs(side, scores)[trial, j] - sought[trial])

        roots = elementwise.find_root(height, (low, high), args=(trials,)).x
        scores[:, k] = np.where(np.isfinite(roots), roots, high)
        return sign
