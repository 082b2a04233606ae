"""Kernels for tables: noise on vectors of whole numbers, thresholded counts, and exact choices."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from scipy.special import log_softmax, ndtri

from dpaudit.errors import InvalidParameter
from dpaudit.exact import enclose
from dpaudit.families.additive.kernel import (
    DiscreteKernel,
    DiscreteLaplaceKernel,
    rounded,
)
from dpaudit.families.selection import ExponentialMechanism, IntegerExponentialMechanism
from dpaudit.families.selection.kernel import ExponentialMechanismKernel, logits_of, one_hot
from dpaudit.families.tabular import (
    DiscreteGaussianVector,
    ThresholdedDiscreteGaussian,
    ThresholdedDiscreteLaplace,
)
from dpaudit.kernels.base import SCALE_ROUNDING, Generator, Kernel, exact_kernel, kernel
from dpaudit.kernels.query import Array, Norm
from dpaudit.kernels.random_bits import Bits, Whole, bits_of
from dpaudit.kernels.samplers import (
    LARGEST_NUMERATOR,
    chosen_places,
    gaussian_log_mass,
    gaussian_tail,
    gaussian_units,
)


@exact_kernel(DiscreteGaussianVector)
@kernel(DiscreteGaussianVector)
class DiscreteGaussianVectorKernel(DiscreteKernel):
    """values + k, i.i.d. k with probability proportional to exp(-k^2 / (2 variance)), exactly.

    Errors: InvalidParameter for a variance that is irrational or above 2^100.
    Source: Canonne, Kamath and Steinke (2020), Algorithm 3.
    """

    norm: ClassVar[Norm] = "l2"
    vectors: ClassVar[bool] = True

    def __init__(self, leaf: Any, trials: int) -> None:
        super().__init__(leaf, trials)
        if not isinstance(leaf.variance, Fraction) or leaf.variance > LARGEST_NUMERATOR**2 // 16:
            raise InvalidParameter(f"{leaf.head}: a variance is a fraction of at most 2^100")
        self._variance = float(leaf.variance)

    @staticmethod
    def own_scale(leaf: Any) -> float:
        return math.sqrt(float(enclose(leaf.variance).mid()))

    @classmethod
    def multiplier(cls, leaf: Any) -> float:
        return cls.own_scale(leaf) / math.sqrt(float(enclose(leaf.squared).mid()))

    def draw(self, count: int, bits: Bits) -> Whole:
        return gaussian_units([self.leaf.variance], np.zeros(count, dtype=np.int64), bits)

    def log_mass(self, k: Array) -> Array:
        return gaussian_log_mass(k, self._variance)

    def tail(self, k: Array) -> Array:
        return gaussian_tail(k, self._variance)

    def apart(self, values: Array, others: Array, stated: Array) -> Array:
        """The l2-distance; infinite where no vector of the leaf's moves is as large everywhere."""
        first, second = rounded(values), rounded(others)
        moved = np.sort(np.abs(first - second), axis=-1)[:, ::-1]
        distance = np.linalg.norm(moved, axis=-1)
        if not self.leaf.moves:
            return np.asarray(distance)
        fits = np.zeros(len(moved), dtype=bool)
        for vector in self.leaf.moves:
            allowed = np.zeros(moved.shape[-1])
            start = 0
            for size, count in vector:
                allowed[start : start + int(count)] = float(size)
                start += int(count)
            fits |= (moved <= allowed).all(axis=-1)
        return np.asarray(np.where(fits, distance, np.inf))


class _ThresholdedKernel(DiscreteKernel):
    """The noisy counts that are at least the threshold, of the keys that are there; else NaN.

    A value is a count for each key of a list that holds those of both data sets; 0 is a key that is
    not there.  The release has no noise that could be standardised, so it has no residual.
    """

    order: ClassVar[float]  # of the norm that bounds the common counts

    def sample(self, values: Array, scale: Array, rng: Generator) -> Array:
        noisy = super().sample(values, scale, rng)
        return np.where((values > 0) & (noisy >= int(self.leaf.threshold)), noisy, np.nan)

    def away(self, values: Array, others: Array, shift: Array) -> Array:
        """Counts moved by whole numbers; a key that is there stays, and one that is not too."""
        return np.where(values > 0, np.maximum(super().away(values, others, shift), 1.0), values)

    # A hidden count has no known tilted law, so the proposal moves the counts and keeps the noise.
    sample_away = Kernel.sample_away
    log_density_away = Kernel.log_density_away

    def log_density(self, released: Array, values: Array, scale: Array) -> Array:
        self._checked(values, scale)
        hidden = np.isnan(released)
        away = np.where(hidden, 0.0, released - values)
        large = (values > 0) & (released >= int(self.leaf.threshold))
        shown = np.where(large, self.log_mass(away), -np.inf)
        logs = np.where(hidden, self._log_hidden(values), shown)
        return np.asarray(logs.sum(axis=-1))

    def _log_hidden(self, values: Array) -> Array:
        """log P(count + noise < threshold), 0 for a key that is not there."""
        distance = int(self.leaf.threshold) - values
        above = self.tail(np.maximum(distance, 1))
        # By symmetry P(noise < t) = P(noise >= 1 - t).
        below = self.tail(np.maximum(1 - distance, 1))
        with np.errstate(divide="ignore"):
            logs = np.where(distance >= 1, np.log1p(-above), np.log(below))
        return np.where(values > 0, logs, 0.0)

    def residual(self, released: Array, values: Array, scale: Array) -> Array:
        return np.full(values.shape, np.nan)

    def apart(self, values: Array, others: Array, stated: Array) -> Array:
        """The distance in its norm; infinite for too many keys of its own, or too large ones."""
        moved = np.abs(rounded(values) - rounded(others))
        own = [np.where(a > 0, 0.0, b) for a, b in ((values, others), (others, values))]
        most = float(enclose(self.leaf.own).mid())
        far = np.zeros(len(values), dtype=bool)
        for counts in own:
            far |= np.count_nonzero(counts, axis=-1) > most
            far |= counts.max(axis=-1) > float(enclose(self.leaf.largest).mid())
        return np.asarray(np.where(far, np.inf, np.linalg.norm(moved, self.order, axis=-1)))


@exact_kernel(ThresholdedDiscreteLaplace)
@kernel(ThresholdedDiscreteLaplace)
class ThresholdedDiscreteLaplaceKernel(_ThresholdedKernel, DiscreteLaplaceKernel):
    """Counts under discrete Laplace noise, which records move in l1-norm."""

    order: ClassVar[float] = 1


@exact_kernel(ThresholdedDiscreteGaussian)
@kernel(ThresholdedDiscreteGaussian)
class ThresholdedDiscreteGaussianKernel(_ThresholdedKernel, DiscreteGaussianVectorKernel):
    """Counts under discrete Gaussian noise, which records move in l2-norm."""

    order: ClassVar[float] = 2


@exact_kernel(ExponentialMechanism)
class ExactChoiceKernel(ExponentialMechanismKernel):
    """Chooses i with probability proportional to exp(epsilon score_i / (2 moved)), exactly.

    Scores are whole numbers, moved the whole number by which one of them moves.  No outcome depends
    on rounding.
    Errors: InvalidParameter for an irrational epsilon, or a score that moves by no whole number.
    """

    arithmetic: ClassVar[str] = "exact"

    def admit(self, scale: Array, dimension: int) -> None:
        self._moved(scale)

    def _moved(self, scale: Array) -> list[int]:
        epsilon = self.leaf.epsilon
        if not isinstance(epsilon, Fraction):
            raise InvalidParameter(f"{self.leaf.head}: an exact choice needs a rational epsilon")
        steps = scale * float(epsilon) / 2
        integral_steps = np.rint(steps)
        if (
            np.abs(steps - integral_steps) > (SCALE_ROUNDING - 1) * np.maximum(integral_steps, 1)
        ).any() or (integral_steps < 1).any():
            raise InvalidParameter(
                f"{self.leaf.head}: an exact choice needs scores that move by whole numbers"
            )
        return [int(w) for w in integral_steps]

    def _read(self, values: Array) -> tuple[Array, Array]:
        """The scores, and how many candidates have each."""
        present = np.isfinite(values)
        return np.where(present, values, 0.0), present.astype(np.float64)

    def _shown(self, places: Whole, values: Array) -> Array:
        """The release for these chosen places."""
        return one_hot(places, values.shape[-1])

    def _chances(self, values: Array, scale: Array) -> Array:
        """The logarithm of each one's chance; one row where those of all trials are the same."""
        if values.strides[0] == 0 and (scale == scale[:1]).all():
            values, scale = values[:1], scale[:1]
        scores, sizes = self._read(values)
        with np.errstate(divide="ignore"):
            logits = np.log(sizes) + logits_of(scores, scale)
        log_chances = log_softmax(logits, axis=-1)
        return np.asarray(log_chances)

    def sample(self, values: Array, scale: Array, rng: Generator) -> Array:
        bits, moved = bits_of(rng), np.array(self._moved(scale), dtype=np.int64)
        places = np.zeros(len(values), dtype=np.int64)
        for trials in _alike(values, moved):
            scores, sizes = self._read(values[trials[:1]])
            integral = scores[0].astype(np.int64), sizes[0].astype(np.int64)
            places[trials] = self.choices(*integral, int(moved[trials[0]]), len(trials), bits)
        return self._shown(places, values)

    def residual(self, released: Array, values: Array, scale: Array) -> Array:
        """The chance of an earlier place, and a share of the chosen one's own; (trials, 1)."""
        chances = np.exp(self._chances(values, scale))
        place = self._places(released)
        own = _picked(chances, place)
        before = _picked(np.cumsum(chances, axis=-1), place) - own
        share = before + own * self.uniforms(len(released), 1)[:, 0]
        return np.asarray(ndtri(np.clip(share, 1e-15, 1 - 1e-15)))[:, None]

    def _places(self, released: Array) -> Whole:
        return np.asarray(np.argmax(released, axis=-1), dtype=np.int64)

    def choices(self, scores: Whole, sizes: Whole, moved: int, count: int, bits: Bits) -> Whole:
        """``count`` draws of which of several runs of candidates the chosen one is in.

        ``scores``: of the candidates of each run; ``sizes``: how many there are, 0 for none.
        """
        present = np.flatnonzero(sizes)
        present_scores = scores[present]
        gaps = present_scores.max() - present_scores
        rate = self.leaf.epsilon / (2 * moved)
        return present[chosen_places(gaps, rate, count, bits, sizes[present])].astype(np.int64)


@kernel(IntegerExponentialMechanism)
@exact_kernel(IntegerExponentialMechanism)
class ExactRunsKernel(ExactChoiceKernel):
    """An exact choice among candidates of which many in a row may have the same score.

    A value is 2 m numbers: the scores of m runs of candidates, and how many candidates each run
    has, 0 for one that is not there.  Released: the run of the chosen candidate, (trials, 1).  All
    candidates of a run are equally likely, whatever the data, so that which one it is tells nothing
    more.
    Errors: also InvalidParameter for values of another form, such as scores alone.
    """

    def _read(self, values: Array) -> tuple[Array, Array]:
        half, odd = divmod(values.shape[-1], 2)
        scores, sizes = values[:, :half], values[:, half:]
        if odd or not _are_runs(scores, sizes):
            raise InvalidParameter(
                f"{self.leaf.head}: a choice among runs of candidates needs the score of each run, "
                "and then how many candidates each run has: whole numbers from 0, together from 1 "
                f"to {LARGEST_NUMERATOR}"
            )
        return scores, sizes

    def away(self, values: Array, others: Array, shift: Array) -> Array:
        """Scores moved to whole numbers from 0, of the same numbers of candidates."""
        scores, sizes = self._read(values)
        moved = np.rint(super().away(scores, self._read(others)[0], shift))
        moved = np.where(sizes > 0, moved - moved.min(axis=-1, keepdims=True), scores)
        return np.concatenate([moved, sizes], axis=-1)

    def _shown(self, places: Whole, values: Array) -> Array:
        return places.astype(np.float64)[:, None]

    def _places(self, released: Array) -> Whole:
        return released[:, 0].astype(np.int64)

    def log_density(self, released: Array, values: Array, scale: Array) -> Array:
        return _picked(self._chances(values, scale), self._places(released))

    def centre(self, values: Array) -> Array:
        """The best run."""
        scores, sizes = self._read(values)
        best = np.argmax(np.where(sizes > 0, scores, -np.inf), axis=-1)
        return np.asarray(best, dtype=np.float64)[:, None]

    def apart(self, values: Array, others: Array, stated: Array) -> Array:
        """The most that a score differs by; infinite where the candidates differ."""
        (scores, sizes), (beside, theirs) = self._read(values), self._read(others)
        present = sizes > 0
        far = super().apart(np.where(present, scores, 0.0), np.where(present, beside, 0.0), stated)
        return np.asarray(np.where((sizes != theirs).any(axis=-1), np.inf, far))


def _are_runs(scores: Array, sizes: Array) -> bool:
    """Whether every run that is there has a score and a number of candidates; (trials, m) each."""
    if scores.strides[0] == 0:
        scores, sizes = scores[:1], sizes[:1]
    total = sizes.sum(axis=-1)
    counted = (sizes >= 0) & (sizes == np.rint(sizes)) & (np.isfinite(scores) | (sizes == 0))
    return bool(counted.all() and ((total >= 1) & (total <= LARGEST_NUMERATOR)).all())


def _picked(rows: Array, places: Whole) -> Array:
    """The number at a place of each row, or of the one row for all trials; (trials,)."""
    return np.asarray(rows[np.arange(len(places)) % len(rows), places])


def _alike(values: Array, moved: Whole) -> list[Whole]:
    """The places of rows that are the same."""
    alike = values.strides[0] == 0 or (values == values[:1]).all()
    if alike and (moved == moved[:1]).all():
        return [np.arange(len(values), dtype=np.int64)]
    rows = np.column_stack([moved, values])
    which = np.unique(rows, axis=0, return_inverse=True)[1].ravel()
    return [np.flatnonzero(which == kind).astype(np.int64) for kind in range(int(which.max()) + 1)]
