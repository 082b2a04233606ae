"""Estimators: error counts of a distinguishing test into lower bounds on its privacy parameters.

A *score* is a log-likelihood ratio: large means that the trial looks like the first data set D0
(the alternative) and not like the second, D1 (the null).  At a threshold, a trial of D1 that
scores above it is a false positive; a trial of D0 that does not is a false negative.  A threshold
is chosen on :class:`TrainingScores` and counted on :class:`TestScores`, trials it has never seen;
the two are different types, so that a bound cannot be read off the scores its threshold came from.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar, SupportsIndex, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.special import betaincc, betainccinv

from dpaudit.audit.bounds.thresholds import at_most, candidates
from dpaudit.check.rates import lower_bound, upper_rate
from dpaudit.errors import InvalidParameter
from dpaudit.exact import exact

FloatArray = npt.NDArray[np.float64]
Rate = TypeVar("Rate", bound=float | Fraction)

MAXIMUM_TRIALS = 10**9  # counts that incomplete beta functions in floats take
MINIMUM_ERROR = 1e-100  # the smallest error rate: quantiles of smaller ones are no floats
TRAINING_ERROR = 0.16  # one-sided error at which a training rate is guessed: one standard deviation
MAXIMUM_MU = 1e6  # far above any mu that counts can show
# Bits of ball arithmetic, raised until the comparison is decided.
_ARB_PRECISIONS = (128, 512, 4_096)


@dataclass(frozen=True, eq=False)
class _Scores:
    """Scores of trials of D0 (``alternative``) and of D1 (``null``), each of shape (trials,).

    The arrays are copied and made read-only.  Infinite scores are allowed.
    Errors: InvalidParameter for NaN, no trials, or a shape other than (trials,).
    """

    alternative: FloatArray
    null: FloatArray

    def __post_init__(self) -> None:
        for side in ("alternative", "null"):
            object.__setattr__(self, side, _scores(getattr(self, side), f"{side} scores"))


class TrainingScores(_Scores):
    """Scores that thresholds are chosen on, and no bound is ever made of."""


class TestScores(_Scores):
    """Scores that bounds are made of, and no threshold is ever chosen on."""

    __test__: ClassVar[bool] = False  # pytest: not a test class


@dataclass(frozen=True)
class Counts:
    """Errors of one test: false positives among trials of D1, false negatives among those of D0.

    Errors: InvalidParameter unless all are integers with 0 <= errors <= trials, trials >= 1.
    """

    false_positives: int
    trials_null: int
    false_negatives: int
    trials_alternative: int

    def __post_init__(self) -> None:
        sides = {"false_positives": "trials_null", "false_negatives": "trials_alternative"}
        for errors, trials in sides.items():
            count, total = _count(getattr(self, errors), getattr(self, trials), errors)
            object.__setattr__(self, errors, count)
            object.__setattr__(self, trials, total)


@dataclass(frozen=True)
class _OfRates:
    """The error of a bound, and upper bounds of the two error rates that it follows from."""

    error: float
    false_positive_rate_upper: float
    false_negative_rate_upper: float

    @property
    def rates_upper(self) -> tuple[float, float]:
        """Both rates: false positives, false negatives."""
        return self.false_positive_rate_upper, self.false_negative_rate_upper


@dataclass(frozen=True)
class EpsilonLower(_OfRates):
    """A lower bound on epsilon at ``delta``, with the two error rates it follows from."""

    epsilon_lower: float
    delta: float


@dataclass(frozen=True)
class MuLower(_OfRates):
    """A lower bound on the mu of a claim of mu-GDP, with the two rates it follows from."""

    mu_lower: float


@dataclass(frozen=True)
class RocPoint:
    """A threshold's error rates and the upper corner of the box that holds the true ones."""

    threshold: float
    false_positive_rate: float
    false_negative_rate: float
    false_positive_rate_upper: float
    false_negative_rate_upper: float


def count_errors(test: TestScores, threshold: float) -> Counts:
    """Count the errors of the test "score > threshold means D0"; a tie counts as D1.

    Errors: InvalidParameter for a NaN threshold or scores that are not :class:`TestScores`.
    """
    _of_type(test, TestScores)
    if math.isnan(threshold):
        raise InvalidParameter("threshold = nan: expected a number (+-inf is one)")
    false_positives = int(np.count_nonzero(test.null > threshold))
    false_negatives = int(np.count_nonzero(test.alternative <= threshold))
    return Counts(false_positives, test.null.size, false_negatives, test.alternative.size)


def proportion_upper(count: int, trials: int, error: float) -> float:
    """Clopper-Pearson upper bound: the smallest p with P(Binomial(trials, p) <= count) <= error.

    It is below the true proportion with probability at most ``error``.  Rounded outward: SciPy's
    root is widened until the tail at it, taken larger by more than that tail's rounding error, is
    at most ``error``; never below the exact value, and within 1e-9 of it if ``error`` <= 1/2.

    Errors: InvalidParameter unless 0 <= count <= trials <= 1e9, 1 <= trials, 1e-100 <= error < 1.
    Source: Clopper and Pearson (1934).
    """
    hits, total = _count(count, trials, "count")
    if hits == total:
        return 1.0
    shape = hits + 1.0, float(total - hits)
    # The tail's relative rounding error was measured below 3e-20 x trials (1e5 to 1e9).
    allowed = _error_rate(error) / (1 + 1e-12 + 1e-18 * total)
    root, widening = float(betainccinv(*shape, error)), 2.0**-46
    if math.isnan(root):  # SciPy gives up on some extreme arguments
        return 1.0
    while (upper := root * (1 + widening)) < 1 and betaincc(*shape, upper) > allowed:
        widening *= 2
    return min(upper, 1.0)


def epsilon_lower(
    counts: Counts, delta: float, error: float, *, pooled: bool = False, written: bool = False
) -> EpsilonLower:
    """Lower bound on epsilon at ``delta``, wrong with probability at most ``error``.

    (epsilon, delta)-DP gives 1 - FNR <= exp(epsilon) FPR + delta and the same with the two rates
    exchanged; each rate is replaced by its Clopper-Pearson upper bound at ``error`` / 2, so both
    directions hold at once; or both by :func:`pooled_upper`.  Valid at any threshold, and for
    either estimator, fixed before the test trials were drawn.
    Rounded down; at least 0.  ``written``: the rates are those of the checker's own function, as a
    certificate needs them, which takes 20 ms.

    Errors: InvalidParameter for a delta outside [0, 1) or an error rate outside (0, 1).
    Source: Kairouz, Oh and Viswanath (2015), Theorem 2.1, for the pair of neighbours tested.
    """
    slack = _delta(delta)
    rates = _rates_upper(counts, error, pooled=pooled, written=written)
    return EpsilonLower(float(error), *rates, _implied(rates, slack), float(delta))


def pooled_upper(counts: Counts, error: float, *, written: bool = False) -> float:
    """An upper bound on the mean of the two error rates, wrong with probability at most ``error``.

    With n trials a side, both kinds of errors form one count S of 2n trials, so the error rate is
    not split.  With the mean rate p, P(S <= t) <= P(Bin(2n, p) <= t) for every whole t <= 2np - 1;
    so the bound is the Clopper-Pearson bound of S if that is at least (S + 1) / 2n, else 1.  If a
    claim's allowed rates form a convex set that is symmetric in the two, their mean is at least
    that of the equal rates it allows: conclusions from two equal rates of this size hold.

    Errors: InvalidParameter for another number of trials on either side.
    Source: Hoeffding (1956), Theorem 4, for sums of independent trials that differ.
    """
    _of_type(counts, Counts)
    if counts.trials_null != counts.trials_alternative:
        raise InvalidParameter("pooled errors: expected as many trials on either side")
    errors, trials = counts.false_positives + counts.false_negatives, 2 * counts.trials_null
    share = Fraction(exact(_error_rate(error), "error"))
    upper = _proportion(errors, trials, share, written=written)
    return float(upper) if upper * trials >= errors + 1 else 1.0


def pools(training: TrainingScores, threshold: float, trials: int, error: float) -> bool:
    """Whether training scores predict a larger bound on mu from pooled errors at a threshold."""
    positive, negative = (
        (np.count_nonzero(side) + 0.5) / (side.size + 1)
        for side in (training.null > threshold, training.alternative <= threshold)
    )
    expected = [min(trials, round(rate * trials)) for rate in (positive, negative)]
    counts = Counts(expected[0], trials, expected[1], trials)
    return mu_lower(counts, error, pooled=True).mu_lower > mu_lower(counts, error).mu_lower


def mu_lower(
    counts: Counts, error: float, *, pooled: bool = False, written: bool = False
) -> MuLower:
    """Lower bound on mu that holds, except with probability ``error``, if mu-GDP is claimed.

    mu-GDP gives mu >= Phi^-1(1 - FPR) - Phi^-1(FNR), decreasing in both rates; each is replaced by
    its Clopper-Pearson upper bound at ``error`` / 2, or both by :func:`pooled_upper`; which, has to
    be settled before the trials are counted.  It refutes a claim of mu-GDP and nothing
    else: the epsilon that follows from it is conditional on the Gaussian family, and is no bound
    for, say, a Laplace mechanism.  Rounded down; at least 0.

    Errors: InvalidParameter for an error rate outside (0, 1).
    Source: Dong, Roth and Su (2022), definition of mu-GDP; Nasr et al. (2023), its use in audits.
    """
    rates = _rates_upper(counts, error, pooled=pooled, written=written)
    return MuLower(float(error), *rates, _implied(rates, None))


def _implied(rates: tuple[float, float], delta: Fraction | None) -> float:
    """The epsilon of two rates, by the checker's function; a float is its shortest decimal."""
    positive, negative = (Fraction(exact(rate, "rate")) for rate in rates)
    return float(lower_bound((positive, negative), delta))


def epsilon_of_gaussian(mu: float, delta: float) -> float:
    """Largest float epsilon at which the profile of mu-GDP provably reaches ``delta``.

    delta(epsilon) = Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu), decreasing in
    epsilon and evaluated in Arb balls: never above the exact epsilon; 0 if delta(0) < ``delta``.
    A float ``mu`` or ``delta`` means its shortest decimal.

    Errors: InvalidParameter unless 0 <= mu <= 1e6 and 0 < delta < 1.
    Source: Balle and Wang (2018), Theorem 8; Dong, Roth and Su (2022), Corollary 2.13.
    """
    from flint import fmpq

    slack = _delta(delta)
    if slack == 0:
        raise InvalidParameter("delta = 0: a Gaussian has no epsilon there; give one in (0, 1)")
    if not 0 <= mu <= MAXIMUM_MU:
        raise InvalidParameter(f"mu = {mu!r}: expected a number in [0, {MAXIMUM_MU:g}]")
    ratio, excess = exact(mu, "mu").as_integer_ratio(), slack.as_integer_ratio()
    exceeds = partial(_gaussian_exceeds, fmpq(*ratio), fmpq(*excess))
    if mu == 0 or not exceeds(0.0):
        return 0.0
    # delta(epsilon) <= Phi(mu/2 - epsilon/mu) <= exp(-(epsilon/mu - mu/2)^2 / 2).
    log_slack = math.log(slack.numerator) - math.log(slack.denominator)
    return _last_true(exceeds, mu * (mu / 2 + math.sqrt(-2 * log_slack)) * 1.001)


def choose_threshold(training: TrainingScores, delta: float, trials: int, error: float) -> float:
    """The threshold at which ``trials`` test trials a side promise the largest epsilon bound.

    Each candidate's two rates are estimated pessimistically from training by the Clopper-Pearson
    upper bound at error rate 0.16, one standard error above the observed rate, because a tail
    without observed errors may still have some.  The predicted bound is
    :func:`epsilon_lower` at the error counts those rates give.  Candidates lie half-way between
    neighbouring scores; scores closer than 1e-9 count as tied, because rounding inside an atom
    of the score's distribution is no signal; beyond 2,048 of them, ranks are thinned
    geometrically from both tails.  Any threshold is valid; only power is at stake.

    Errors: InvalidParameter for bad arguments or scores that are not :class:`TrainingScores`.
    """
    return _most_promising(training, delta, trials, error)[0]


def _most_promising(
    training: TrainingScores, delta: float, trials: int, error: float
) -> tuple[float, float]:
    """The threshold of :func:`choose_threshold`, and the ratio exp(epsilon) that it promises."""
    _of_type(training, TrainingScores)
    slack, rate = float(_delta(delta)), _error_rate(error)
    _, total = _count(0, trials, "trials")
    null, alternative = np.sort(training.null), np.sort(training.alternative)
    thresholds = candidates(alternative, null)
    positive = _predicted(null.size - at_most(null, thresholds), null.size, total, rate)
    negative = _predicted(at_most(alternative, thresholds), alternative.size, total, rate)
    ratios = np.maximum((1 - slack - negative) / positive, (1 - slack - positive) / negative)
    best = int(np.argmax(ratios))
    return float(thresholds[best]), float(ratios[best])


def choose_test(
    training: TrainingScores, delta: float, trials: int, error: float
) -> tuple[float, bool]:
    """The threshold, and whether to pool errors there, that promise the largest epsilon bound.

    As :func:`choose_threshold`, with the pooled estimator at the threshold of the fewest errors
    besides.  Errors: as there.
    """
    threshold, promised = _most_promising(training, delta, trials, error)
    if training.null.size != training.alternative.size:
        return threshold, False
    null, alternative = np.sort(training.null), np.sort(training.alternative)
    thresholds, size = candidates(alternative, null), null.size
    errors = size - at_most(null, thresholds) + at_most(alternative, thresholds)
    fewest = int(np.argmin(errors))
    rate = _upper_estimate(np.asarray(errors[fewest], dtype=np.float64), 2 * size, TRAINING_ERROR)
    expected = min(2 * trials, round(float(rate) * 2 * trials))
    both = Counts(expected // 2, trials, expected - expected // 2, trials)
    pooled = epsilon_lower(both, delta, error, pooled=True).epsilon_lower
    if pooled > math.log(max(1.0, promised)):
        return float(thresholds[fewest]), True
    return threshold, False


def strongest_epsilon(trials: int, delta: float, error: float, *, pooled: bool = False) -> float:
    """The largest bound :func:`epsilon_lower` could give: no error in ``trials`` trials a side."""
    counts = Counts(0, trials, 0, trials)
    return epsilon_lower(counts, delta, error, pooled=pooled, written=True).epsilon_lower


def strongest_mu(trials: int, error: float, *, pooled: bool = False) -> float:
    """The largest bound :func:`mu_lower` could give: no error in ``trials`` trials a side."""
    counts = Counts(0, trials, 0, trials)
    return mu_lower(counts, error, pooled=pooled, written=True).mu_lower


def roc_points(test: TestScores, thresholds: Sequence[float], error: float) -> tuple[RocPoint, ...]:
    """Error rates at each threshold, with boxes that all hold at once except with ``error``.

    Each of the 2 x len(thresholds) rates has its Clopper-Pearson upper bound at
    ``error`` / (2 len(thresholds)), a Bonferroni split: the true (FPR, FNR) of every threshold
    lies below and left of its upper corner.  The thresholds must be fixed beforehand.

    Errors: InvalidParameter for no thresholds, a NaN, or scores that are not TestScores.
    """
    if len(thresholds) == 0:
        raise InvalidParameter("thresholds: none given; give at least one, chosen on training")
    share = Fraction(exact(_error_rate(error), "error")) / len(thresholds)
    return tuple(_roc_point(test, threshold, share) for threshold in thresholds)


def _roc_point(test: TestScores, threshold: float, error: Fraction) -> RocPoint:
    counts = count_errors(test, threshold)
    return RocPoint(
        float(threshold),
        counts.false_positives / counts.trials_null,
        counts.false_negatives / counts.trials_alternative,
        *_rates_upper(counts, error, written=True),
    )


def _rates_upper(
    counts: Counts, error: float | Fraction, *, pooled: bool = False, written: bool = False
) -> tuple[float, float]:
    """Upper bounds on FPR and FNR that hold together except with probability ``error``."""
    if pooled:
        return (pooled_upper(counts, float(error), written=written),) * 2
    _of_type(counts, Counts)
    half = Fraction(exact(_error_rate(error), "error")) / 2
    sides = (
        (counts.false_positives, counts.trials_null),
        (counts.false_negatives, counts.trials_alternative),
    )
    positive, negative = (_proportion(*side, half, written=written) for side in sides)
    return float(positive), float(negative)


def _proportion(count: int, trials: int, error: Fraction, *, written: bool) -> Fraction:
    """The Clopper-Pearson bound by SciPy; where it is written, as the checker confirms it."""
    near = proportion_upper(count, trials, float(error))
    return upper_rate(count, trials, error, near) if written else Fraction(near)


def _last_true(proved: Callable[[float], bool], beyond: float) -> float:
    """The last float below ``beyond`` where ``proved`` holds, which it does at 0."""
    low, high = 0.0, beyond
    while low < (middle := low + (high - low) / 2) < high:
        low, high = (middle, high) if proved(middle) else (low, middle)
    return low


def _gaussian_exceeds(mu: Any, delta: Any, epsilon: float) -> bool:
    """Whether Arb proves that the Gaussian profile of ``mu`` at ``epsilon`` is >= ``delta``."""
    from flint import arb, ctx

    for precision in _ARB_PRECISIONS:
        with ctx.workprec(precision):
            excess = _gaussian_profile(arb(mu), arb(epsilon)) - arb(delta)
            if excess >= 0 or excess < 0:
                return bool(excess >= 0)
    return False


def _gaussian_profile(mu: Any, epsilon: Any) -> Any:
    root_two = (mu * 0 + 2).sqrt()
    lower, upper = ((epsilon / mu + shift) / root_two for shift in (-mu / 2, mu / 2))
    return (lower.erfc() - epsilon.exp() * upper.erfc()) / 2


def _predicted(errors: FloatArray, training: int, trials: int, error: float) -> FloatArray:
    """Upper bound that ``trials`` trials would give at the pessimistic rate of a training set."""
    rate = _upper_estimate(errors, training, TRAINING_ERROR)
    return _upper_estimate(rate * trials, trials, error / 2)


def _upper_estimate(errors: FloatArray, trials: int, error: float) -> FloatArray:
    """Clopper-Pearson for real counts, without care for rounding: for predictions only."""
    inside = np.minimum(errors, trials - 0.5)
    root = betainccinv(inside + 1, trials - inside, error)
    return np.asarray(np.where(errors >= trials, 1.0, root), dtype=np.float64)


def _scores(values: Any, place: str) -> FloatArray:
    try:
        given = np.asarray(values)
    except ValueError:  # lists of different lengths
        given = np.empty(0, dtype=object)
    if given.dtype.kind not in "fiu":
        raise InvalidParameter(f"{place}: expected an array of real numbers")
    scores = np.array(given, dtype=np.float64)
    if scores.ndim != 1 or scores.size == 0:
        raise InvalidParameter(f"{place}: shape {scores.shape}, expected (trials,), not empty")
    if missing := int(np.count_nonzero(np.isnan(scores))):
        raise InvalidParameter(f"{place}: {missing} NaN; every trial needs a score (+-inf is one)")
    scores.setflags(write=False)
    return scores


def _of_type(value: object, expected: type) -> None:
    if not isinstance(value, expected):
        raise InvalidParameter(f"{type(value).__name__}: expected {expected.__name__}")


def _count(count: SupportsIndex, trials: SupportsIndex, place: str) -> tuple[int, int]:
    try:
        hits, total = operator.index(count), operator.index(trials)
    except TypeError:
        raise InvalidParameter(f"{place} = {count!r} of {trials!r}: expected integers") from None
    if not (1 <= total <= MAXIMUM_TRIALS and 0 <= hits <= total):
        domain = f"0 <= count <= trials and 1 <= trials <= {MAXIMUM_TRIALS:,}"
        raise InvalidParameter(f"{place} = {hits} of {total}: expected {domain}")
    return hits, total


def _error_rate(error: Rate) -> Rate:
    if not MINIMUM_ERROR <= error < 1:
        raise InvalidParameter(f"error = {error!r}: expected in [{MINIMUM_ERROR:g}, 1)")
    return error


def _delta(delta: float) -> Fraction:
    if not 0 <= delta < 1:
        raise InvalidParameter(f"delta = {delta!r}: expected in [0, 1)")
    return Fraction(exact(delta, "delta"))
