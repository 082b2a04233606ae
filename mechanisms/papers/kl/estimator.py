"""The gradient estimate of Spider: a noisy anchor, then noisy differences after every move."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpaudit.accountant.filters.spending import Mask
from dpaudit.curator.curator import Curator
from dpaudit.kernels.query import Array
from mechanisms.papers.kl.problem import KLProblem

ANCHOR, DIFFERENCE = "anchor", "difference"


@dataclass(frozen=True)
class SpiderEstimator:
    """Both queries of an estimate; one record moves a difference by radius / n, or twice that.

    Source: Menart et al. 2023, Algorithm 1, lines 8 and 13; Fang, Li, Lin, Zhang 2018.
    """

    problem: KLProblem

    def anchored(self, curator: Curator, x: Array, label: str = ANCHOR) -> Array:
        """A noisy clipped mean gradient at x, (trials, d)."""
        return curator.release(label, self.problem.mean_gradient(x))

    def followed(
        self,
        curator: Curator,
        estimate: Array,
        moved: tuple[Array, Array],
        radius: float,
        label: str = DIFFERENCE,
        on: Mask | None = None,
    ) -> Array:
        """The estimate after a move (from, to), in the trials that are on; the others keep theirs.

        ``radius``: what a record's gradient moves by at most, public.
        """
        before, after = moved
        query = self.problem.mean_difference(after, before, radius)
        released = curator.release(label, query, on=on)
        if on is None:
            return estimate + released
        return np.where(on[:, None], estimate + released, estimate)
