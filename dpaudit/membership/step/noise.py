"""How far one record moves a sequence of steps, in deviations of their noise.

Let u (T, d) be what T steps release, E their mean difference between two neighbouring runs, and
let the noise of each coordinate have the covariance S (T, T) over steps.  The steps together are
then mu-GDP for these neighbours, with mu^2 = sum_i E_i' S^-1 E_i, and no less: momentum, which
mixes steps, leaves mu as it is; a record that comes back in a later step raises it; noise that is
used twice makes S singular, and mu infinite.  Private training with noise multiplier z has mu <=
1/z for a record in one of its batches.

S is estimated from repeated steps, with a common value for coordinates of one group.  For Gaussian
noise E' S_hat^-1 E / E' S^-1 E is n / chi^2(n - T + 1), n = (repeats - 1) x coordinates (Muirhead
1982, Theorem 3.2.12), from which the lower bound on mu follows; exact where E is of rank 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import chi2, f, kstest

from dpaudit.membership.data import FloatArray

Indices = npt.NDArray[np.intp]
BoolArray = npt.NDArray[np.bool_]

ZERO = 1e-9  # of the largest deviation: what is smaller is no noise
MOVED = 1e-6  # of the largest deviation: a difference that is smaller is rounding
_GROUPING = 1e-6  # error at which blocks are said to have different noise


@dataclass(frozen=True)
class Noise:
    """Samples (repeats, T, d) of steps on the same records, in groups of equal variance.

    ``residuals``: samples less their mean, of the variance of one sample.
    """

    samples: FloatArray
    residuals: FloatArray
    groups: tuple[Indices, ...]
    silent: BoolArray  # (d,), whether a coordinate has no noise in the first step

    @classmethod
    def of(cls, samples: FloatArray, spans: Sequence[slice]) -> Noise:
        residuals = samples - samples.mean(axis=0)
        residuals *= np.sqrt(len(samples) / (len(samples) - 1))
        deviations = residuals[:, 0].std(axis=0)
        silent = deviations <= ZERO * deviations.max(initial=0.0)
        blocks = [np.arange(span.start, span.stop)[~silent[span]] for span in spans]
        blocks = [block for block in blocks if block.size]
        return cls(samples, residuals, tuple(_grouped(residuals[:, 0], blocks)), silent)

    def last(self, spans: Sequence[slice]) -> Noise:
        """The noise of the last step alone."""
        return Noise.of(self.residuals[:, -1:], spans)

    @property
    def deviation(self) -> FloatArray:
        """Standard deviations of the noise of every coordinate in the first step, (d,)."""
        deviation = np.zeros(self.silent.size)
        for group in self.groups:
            deviation[group] = np.sqrt(np.mean(self.residuals[:, 0, group] ** 2))
        return deviation

    def mu(self, effect: FloatArray, error: float) -> float:
        """A lower bound on mu for the effect (T, d); infinite if noise hides a part of it not."""
        largest = float(self.deviation.max(initial=0.0))
        if np.abs(effect[:, self.silent]).max(initial=0.0) > MOVED * largest:
            return np.inf
        total = 0.0
        repeats, steps = len(self.residuals), len(effect)
        for group in self.groups:
            part = self.residuals[:, :steps, group]
            count = (repeats - 1) * group.size
            covariance = np.einsum("kti,ksi->ts", part, part) / (repeats * group.size)
            values, vectors = np.linalg.eigh(covariance)
            turned = vectors.T @ effect[:, group]
            open_ = values > ZERO * values[-1]
            if np.abs(turned[~open_]).max(initial=0.0) > MOVED * np.sqrt(values[-1]):
                return np.inf
            square = float((turned[open_] ** 2 / values[open_, None]).sum())
            freedom = max(count - int(open_.sum()) + 1, 1)
            total += square * float(chi2.ppf(error / len(self.groups), freedom)) / count
        return float(np.sqrt(total))

    def dependent(self) -> bool:
        """Whether the coordinates of the first step share draws: fewer draws than coordinates."""
        noisy = self.residuals[:, 0, ~self.silent] / self.deviation[~self.silent]
        values = np.linalg.svd(noisy, compute_uv=False)
        most = min(len(noisy) - 1, noisy.shape[1])
        return bool((values > 1e-6 * values[0]).sum() < most)

    def shape_p_value(self) -> float:
        """P-value of Gaussian noise in the first step (Kolmogorov-Smirnov; too large, if wrong)."""
        noisy = self.residuals[:, 0, ~self.silent] / self.deviation[~self.silent]
        return float(kstest(noisy.ravel(), "norm").pvalue)

    def shrinks(self, other: Noise, error: float) -> bool:
        """Whether the noise of ``other`` is smaller in some group, at this error rate."""
        for group in self.groups:
            ours, theirs = (noise.residuals[:, 0, group] for noise in (self, other))
            counts = [(len(part) - 1) * group.size for part in (ours, theirs)]
            ratio = float(np.mean(theirs**2) / np.mean(ours**2))
            if ratio < float(f.ppf(error / len(self.groups), counts[1], counts[0])):
                return True
        return False


def _grouped(first: FloatArray, blocks: Sequence[Indices]) -> list[Indices]:
    """One group of all coordinates, or the blocks apart if their variances differ."""
    if len(blocks) < 2:
        return list(blocks)
    every = np.concatenate(blocks)
    for block in blocks:
        others = np.setdiff1d(every, block)
        counts = [(len(first) - 1) * part.size for part in (block, others)]
        ratio = float(np.mean(first[:, block] ** 2) / np.mean(first[:, others] ** 2))
        tail = min(f.cdf(ratio, *counts), f.sf(ratio, *counts))
        if tail < _GROUPING:
            return list(blocks)
    return [every]
