"""What to believe about epsilon after counting errors: an estimate, never a bound.

Given the counts, FPR and FNR are independent Beta variables (Jeffreys priors), and epsilon at delta
is the smallest that allows the pair.  A credible interval says where epsilon is likely to lie for
*this* attack under that prior; it covers the true epsilon at no stated frequency, it is no lower
bound on the mechanism's, and no verdict can be made of it: nothing in this module has a type that
:mod:`dpaudit.audit.verdict` takes.

Source: Zanella-Beguelin, Wutschitz, Tople, Salem, Ruehle, Paverd, Naseri, Koepf and Jones (2023).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, betaincc, betaincinv, roots_legendre

from dpaudit.audit.bounds.estimators import Counts, _delta, _of_type
from dpaudit.errors import InvalidParameter

FloatArray = npt.NDArray[np.float64]

JEFFREYS = 0.5
MAXIMUM_EPSILON = 700.0
_NODES, _WEIGHTS = roots_legendre(16)
# Ends of the pieces of (0, 1) that the integral is taken over: fine in both tails.
_TAIL = 10.0 ** np.arange(-14.0, -0.5)
_PIECES = np.concatenate([[0.0], _TAIL, np.linspace(0.2, 0.8, 13), 1 - _TAIL[::-1], [1.0]])


@dataclass(frozen=True)
class CredibleInterval:
    """Epsilon lies in [``lowest``, ``highest``] with posterior probability ``level``.

    An estimate under a prior: it gates nothing.
    """

    lowest: float
    highest: float
    level: float


@dataclass(frozen=True)
class EpsilonPosterior:
    """Posterior of epsilon at ``delta`` from one test's ``counts``, as an estimate only.

    FPR ~ Beta(a + false positives, a + trials - false positives) and FNR likewise, a = ``prior``;
    epsilon = max(0, log((1 - delta - FNR) / FPR), log((1 - delta - FPR) / FNR)).  The counts should
    be of a threshold that their trials had no part in choosing.

    Errors: InvalidParameter for counts of another type, a delta outside [0, 1), a prior that is not
    in [1e-3, 1e3].
    """

    counts: Counts
    delta: float
    prior: float = JEFFREYS

    def __post_init__(self) -> None:
        _of_type(self.counts, Counts)
        _delta(self.delta)
        if not 1e-3 <= self.prior <= 1e3:
            raise InvalidParameter(f"prior = {self.prior!r}: expected in [0.001, 1000]")

    def cdf(self, epsilon: float) -> float:
        """P(epsilon' <= ``epsilon`` | counts), to about 1e-8; jumps at 0, where "no leak" has mass.

        The integral over FPR = x of P(FNR >= g(x)), g(x) the least FNR that ``epsilon`` allows.
        Errors: InvalidParameter for NaN.
        """
        if math.isnan(epsilon):
            raise InvalidParameter("epsilon = nan: expected a number")
        if epsilon < 0:
            return 0.0
        slack = min(epsilon, MAXIMUM_EPSILON)
        sums = self._tails(self._grid, slack) @ _WEIGHTS * np.diff(_PIECES) / 2
        for kink in {(1 - self.delta) / (1 + math.exp(slack)), 1 - self.delta}:
            rank = float(betainc(*self._fired, kink))
            piece = min(int(np.searchsorted(_PIECES, rank, "right")) - 1, sums.size - 1)
            sums[piece] = self._split(piece, rank, slack)
        return float(min(1.0, sums.sum()))

    def quantile(self, probability: float) -> float:
        """The smallest epsilon with posterior probability ``probability`` at or below it.

        Errors: InvalidParameter for a probability outside (0, 1).
        """
        if not 0 < probability < 1:
            raise InvalidParameter(f"probability = {probability!r}: expected in (0, 1)")
        from scipy.optimize import brentq

        if self.cdf(0.0) >= probability:
            return 0.0
        low, high = 0.0, 1.0
        while high < MAXIMUM_EPSILON and self.cdf(high) < probability:
            low, high = high, 2 * high
        if self.cdf(high) < probability:
            return math.inf
        return float(brentq(lambda epsilon: self.cdf(epsilon) - probability, low, high, xtol=1e-10))

    def interval(self, level: float) -> CredibleInterval:
        """The equal-tailed credible interval of posterior probability ``level``.

        Errors: InvalidParameter for a level outside (0, 1).
        """
        if not 0 < level < 1:
            raise InvalidParameter(f"level = {level!r}: expected in (0, 1)")
        tail = (1 - level) / 2
        return CredibleInterval(self.quantile(tail), self.quantile(1 - tail), float(level))

    @property
    def _fired(self) -> tuple[float, float]:
        """Parameters of the posterior of FPR."""
        hits, trials = self.counts.false_positives, self.counts.trials_null
        return self.prior + hits, self.prior + trials - hits

    @property
    def _missed(self) -> tuple[float, float]:
        """Parameters of the posterior of FNR."""
        hits, trials = self.counts.false_negatives, self.counts.trials_alternative
        return self.prior + hits, self.prior + trials - hits

    @cached_property
    def _grid(self) -> FloatArray:
        """Quantiles of FPR at the nodes of each piece of (0, 1); shape (pieces, nodes)."""
        return self._rates(_PIECES[:-1], _PIECES[1:])

    def _rates(self, low: FloatArray, high: FloatArray) -> FloatArray:
        ranks = low[:, None] + (high - low)[:, None] / 2 * (_NODES + 1)
        return np.asarray(betaincinv(*self._fired, ranks))

    def _tails(self, rates: FloatArray, epsilon: float) -> FloatArray:
        """P(FNR >= g(x)) at x = ``rates``, same shape."""
        left = 1 - self.delta - rates
        least = np.maximum(left - math.expm1(epsilon) * rates, math.exp(-epsilon) * left)
        return np.asarray(betaincc(*self._missed, np.clip(least, 0.0, 1.0)))

    def _split(self, piece: int, rank: float, epsilon: float) -> float:
        """The integral over one piece in two parts that meet at ``rank``, where g has a kink."""
        ends = np.array([_PIECES[piece], min(max(rank, _PIECES[piece]), _PIECES[piece + 1]),
                         _PIECES[piece + 1]])  # fmt: skip
        tails = self._tails(self._rates(ends[:-1], ends[1:]), epsilon)
        return float((tails @ _WEIGHTS) @ np.diff(ends) / 2)


def epsilon_posterior(counts: Counts, delta: float) -> EpsilonPosterior:
    """The posterior under Jeffreys priors; an estimate that never gates.

    Errors: InvalidParameter for counts of another type or a delta outside [0, 1).
    """
    return EpsilonPosterior(counts, delta)
