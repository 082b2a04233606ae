"""True and tight claims: pairs of laws, the claims they meet with equality, and how to draw them.

Scores are log-likelihood ratios, drawn in random order.  Each null has an event, fixed beforehand,
at which its (epsilon, delta) holds with equality, so that nothing but the estimator errs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq, minimize_scalar
from scipy.special import gammaln, ndtr, ndtri

FloatArray = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, int, int], FloatArray]

# What a bound may exceed a computed truth by: rounding of the truth, far below any bound's spread.
ROUNDING = 1e-7


@dataclass(frozen=True)
class Null:
    """``draw(rng, side, size)``: scores of P (side 0) or Q (side 1), shape (size,).

    ``hits``, ``alarms``: probabilities of the event "score > threshold" under P and Q, with
    hits = e^epsilon alarms + delta.  ``mu``, ``rho``: the smallest true claims, if computed.
    """

    name: str
    draw: Draw
    threshold: float
    hits: float
    alarms: float
    epsilon: float
    delta: float
    mu: float | None = None
    rho: float | None = None


def gaussian(mu: float, epsilon: float) -> Null:
    """N(0, 1) and N(mu, 1): scores N(mu^2 / 2, mu^2) and N(-mu^2 / 2, mu^2)."""

    def draw(rng: np.random.Generator, side: int, size: int) -> FloatArray:
        return rng.normal((1 - 2 * side) * mu**2 / 2, mu, size)

    hits, alarms = (float(ndtr(s * mu / 2 - epsilon / mu)) for s in (1, -1))
    delta = hits - math.exp(epsilon) * alarms
    name = f"Gaussian mu {mu:g}, epsilon {epsilon:g}"
    return Null(name, draw, epsilon, hits, alarms, epsilon, delta, mu, mu**2 / 2)


def gaussian_of(epsilon: float, delta: float) -> Null:
    """The Gaussian mechanism that is (epsilon, delta)-DP with equality."""
    mu = float(brentq(lambda m: gaussian(m, epsilon).delta - delta, 1e-3, 50))
    return gaussian(mu, epsilon)


def laplace(epsilon: float) -> Null:
    """Laplace of scale 1 / epsilon, moved by 1: pure DP, equality wherever the score is at its top.

    The score is epsilon, -epsilon, or in between; the event is the upper atom.
    """

    def draw(rng: np.random.Generator, side: int, size: int) -> FloatArray:
        at = rng.laplace(side, 1 / epsilon, size)
        return np.asarray(np.clip(epsilon * (1 - 2 * at), -epsilon, epsilon))

    alarms = math.exp(-epsilon) / 2
    threshold = epsilon * (1 - 1e-12)
    return Null(f"Laplace, epsilon {epsilon:g}", draw, threshold, 0.5, alarms, epsilon, 0.0)


def subsampled_gaussian(rate: float, sigma: float, epsilon: float) -> Null:
    """(1 - rate) N(0, sigma^2) + rate N(1, sigma^2) and N(0, sigma^2)."""

    def score(x: FloatArray) -> FloatArray:
        return np.asarray(np.log1p(rate * np.expm1((2 * x - 1) / (2 * sigma**2))))

    def draw(rng: np.random.Generator, side: int, size: int) -> FloatArray:
        shift = rng.random(size) < (rate if side == 0 else 0.0)
        return score(rng.normal(0, sigma, size) + shift)

    at = sigma**2 * math.log1p(math.expm1(epsilon) / rate) + 0.5
    alarms = float(ndtr(-at / sigma))
    hits = (1 - rate) * alarms + rate * float(ndtr((1 - at) / sigma))
    delta = hits - math.exp(epsilon) * alarms
    name = f"subsampled Gaussian, rate {rate:g}, epsilon {epsilon:g}"
    return Null(name, draw, epsilon, hits, alarms, epsilon, delta)


def cauchy(epsilon: float) -> Null:
    """Cauchy laws one apart: tails so heavy that large outputs say nothing; scores bounded."""

    def draw(rng: np.random.Generator, side: int, size: int) -> FloatArray:
        x = rng.standard_cauchy(size) + side
        # Both squares overflow together at draws beyond 1e154, where the score is 0.
        with np.errstate(over="ignore", invalid="ignore"):
            score = np.log1p((x - 1) ** 2) - np.log1p(x**2)
        return np.where(np.isnan(score), 0.0, score)

    # 1 + (x - 1)^2 > e^epsilon (1 + x^2) between two roots.
    ratio = math.exp(epsilon)
    root = math.sqrt(1 - (ratio - 1) * (ratio - 2))
    low, high = ((-1 - s * root) / (ratio - 1) for s in (1, -1))
    hits, alarms = (
        (math.atan(high - shift) - math.atan(low - shift)) / math.pi for shift in (0, 1)
    )
    delta = hits - ratio * alarms
    return Null(f"Cauchy, epsilon {epsilon:g}", draw, epsilon, hits, alarms, epsilon, delta)


def finite(name: str, first: npt.ArrayLike, second: npt.ArrayLike, delta: float = 0.0) -> Null:
    """Two laws on finitely many atoms; atoms of the same score are one.

    The epsilon at ``delta`` is computed, and reached by the largest event that reaches it.
    """
    masses = np.stack([np.array(law, dtype=np.float64) for law in (first, second)])
    masses /= masses.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        raw = np.round(np.log(masses[0]) - np.log(masses[1]), 9)
    scores, where = np.unique(-raw, return_inverse=True)
    p, q = (np.bincount(where.ravel(), law).astype(np.float64) for law in masses)
    values, above, fired = -scores, np.cumsum(p), np.cumsum(q)
    with np.errstate(divide="ignore"):
        epsilons = np.log(np.maximum(above - delta, 0) / np.where(fired > 0, fired, np.inf))
    top = float(epsilons.max())
    best = int(np.flatnonzero(epsilons >= top - 1e-12)[-1])
    if best + 1 == values.size:
        raise ValueError(f"{name}: no event short of everything shows a positive epsilon")
    full = bool(np.all(p > 0) and np.all(q > 0))
    return Null(
        name, _drawn(values, above, fired), float(np.clip(values[best + 1], -700, 700)),
        float(above[best]), float(fired[best]), top, delta,
        mu=_mu(above, fired) if full else None, rho=_rho(p, q) if full else None,
    )  # fmt: skip


def _drawn(values: FloatArray, *laws: FloatArray) -> Draw:
    """Values drawn by the inverse of either cumulative law."""

    def draw(rng: np.random.Generator, side: int, size: int) -> FloatArray:
        places = np.searchsorted(laws[side], rng.random(size), "right")
        return np.asarray(values[np.minimum(places, values.size - 1)])

    return draw


def identical(atoms: int, share: float) -> Null:
    """One law on both sides, epsilon 0: any score is as good; the event is a share of the atoms."""
    cumulative = np.arange(1, atoms + 1) / atoms
    values = np.arange(atoms, 0, -1.0)
    threshold = atoms * (1 - share)
    draw = _drawn(values, cumulative, cumulative)
    name = f"identical laws of {atoms:,} atoms"
    return Null(name, draw, threshold, share, share, 0.0, 0.0, mu=0.0, rho=0.0)


def _mu(above: FloatArray, fired: FloatArray) -> float:
    """The smallest mu: the largest distance of quantiles at a corner of the trade-off curve."""
    inside = (above < 1 - 1e-12) & (fired > 0)
    return float(np.max(ndtri(above[inside]) - ndtri(fired[inside]), initial=0.0))


def _rho(p: FloatArray, q: FloatArray) -> float:
    """The smallest rho: the supremum of D_a / a over orders a > 1 and both directions."""

    def negative(log_order: float, one: FloatArray, other: FloatArray) -> float:
        order = 1 + math.exp(log_order)
        ratio = np.log(one) - np.log(other)
        total = np.sum(one * np.exp((order - 1) * (ratio - ratio.max())))
        return -float(ratio.max() + np.log(total) / (order - 1)) / order

    found = 0.0
    for pair in ((p, q), (q, p)):
        grid = np.linspace(-12, 7, 400)
        values = [negative(x, *pair) for x in grid]
        near = float(grid[int(np.argmin(values))])
        around = (near - 0.05, near + 0.05)
        refined = minimize_scalar(negative, bounds=around, args=pair, method="bounded")
        found = max(found, -min(values), -float(refined.fun))
    return found * (1 + 1e-6)


def randomised_response(epsilon: float, choices: int = 2) -> Null:
    """The true answer with odds e^epsilon against each other one."""
    law = np.ones(choices)
    law[0] = math.exp(epsilon)
    name = f"randomised response of {choices}, epsilon {epsilon:g}"
    return finite(name, law, law[::-1])


def discrete_laplace(epsilon: float) -> Null:
    """Two-sided geometric noise on integers one apart; tails beyond 60 / epsilon lumped."""
    far = math.ceil(60 / epsilon)
    places = np.arange(-far, far + 2)
    first, second = (np.exp(-epsilon * np.abs(places - shift)) for shift in (0, 1))
    return finite(f"discrete Laplace, epsilon {epsilon:g}", first, second)


def extremal(epsilon: float, delta: float) -> Null:
    """The (epsilon, delta) pair that dominates all others: delta reveals, the rest randomises."""
    top, bottom = math.exp(epsilon) / (1 + math.exp(epsilon)), 1 / (1 + math.exp(epsilon))
    first = [delta, (1 - delta) * top, (1 - delta) * bottom, 0.0]
    return finite(f"extremal ({epsilon:g}, {delta:g})", first, first[::-1], delta)


def rounded_gaussian(mu: float, step: float, delta: float) -> Null:
    """Gaussian noise rounded to multiples of ``step``: heavy ties."""
    edges = (np.arange(-8, 8 + step, step), np.inf)
    cuts = np.concatenate([[-np.inf], np.ravel(edges[0]), [np.inf]])
    laws = (np.diff(ndtr(cuts - shift)) for shift in (0, mu))
    first, second = (np.maximum(law, 1e-18) for law in laws)
    return finite(f"rounded Gaussian mu {mu:g}, step {step:g}", first, second, delta)


def composed_response(epsilon: float, times: int, delta: float) -> Null:
    """The number of true answers among several randomised responses."""
    counts = np.arange(times + 1)
    ways = gammaln(times + 1) - gammaln(counts + 1) - gammaln(times - counts + 1)
    first, second = (np.exp(ways + epsilon * right) for right in (counts, times - counts))
    name = f"{times} responses of epsilon {epsilon:g}, delta {delta:g}"
    return finite(name, first, second, delta)


def mixture(low: float, high: float, share: float) -> Null:
    """Randomised response at one epsilon or, rarely, at a larger one; which is released."""
    parts = [np.array([math.exp(e), 1.0]) / (1 + math.exp(e)) for e in (low, high)]
    first = np.concatenate([(1 - share) * parts[0], share * parts[1]])
    second = np.concatenate([(1 - share) * parts[0][::-1], share * parts[1][::-1]])
    return finite(f"epsilon {low:g}, or {high:g} in {share:.0%} of runs", first, second)


NULLS: tuple[Null, ...] = (
    gaussian(0.25, 0.25),
    gaussian(1.0, 1.0),
    gaussian(2.0, 2.0),
    gaussian(4.0, 4.0),
    gaussian_of(1.0, 1e-5),
    laplace(0.5),
    laplace(1.0),
    laplace(3.0),
    randomised_response(0.1),
    randomised_response(1.0),
    randomised_response(3.0),
    randomised_response(4.0),
    randomised_response(2.0, 10),
    discrete_laplace(0.5),
    discrete_laplace(2.0),
    extremal(1.0, 1e-3),
    extremal(1.0, 0.05),
    extremal(0.1, 0.01),
    subsampled_gaussian(0.1, 1.0, 0.3),
    cauchy(0.3),
    rounded_gaussian(1.0, 0.5, 0.01),
    composed_response(0.3, 10, 0.01),
    mixture(0.1, 4.0, 0.1),
    identical(2, 0.5),
    identical(1_000, 0.1),
)
