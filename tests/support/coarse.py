"""A lower bound of epsilon that shares nothing with the accountant: coarse-grained outputs.

The outputs of a mechanism on two data sets are put into finitely many cells, whose P and Q masses
are known; by data processing delta(x) >= sum over cells of (P - x Q)_+.  Products of cells are
again cells, merged by likelihood ratio.  All sums are of positive terms, so that double precision
keeps a relative accuracy of about 1e-12 at any delta.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.special import ive, ndtr
from scipy.stats import hypergeom
from scipy.stats import t as student_t

Floats = NDArray[np.float64]
CELLS = 160
SLACK = 1e-9
NEAR = 1e-10
LARGEST = 600.0
BISECTIONS = 70
QUADRATURE, SCALES = 20, 100


@dataclass(frozen=True)
class Cells:
    """P and Q masses of the cells, remove direction; swapping them gives the other.

    ``worst``: they are all outcomes of a pair that dominates the declaration, so that nothing
    reaches more.
    """

    p: Floats
    q: Floats
    worst: bool = False

    @property
    def swapped(self) -> Cells:
        return Cells(self.q, self.p)

    @cached_property
    def loss(self) -> Floats:
        """log(P / Q) of every cell; NaN where both are 0."""
        with np.errstate(divide="ignore", invalid="ignore"):
            found: Floats = np.log(self.p) - np.log(self.q)
        return found

    def __mul__(self, other: Cells) -> Cells:
        p, q = np.multiply.outer(self.p, other.p), np.multiply.outer(self.q, other.q)
        with np.errstate(invalid="ignore"):
            loss = np.add.outer(self.loss, other.loss)
        whole = self.worst and other.worst and p.size <= CELLS
        return replace(merged(p.ravel(), q.ravel(), loss.ravel()), worst=whole)

    def __pow__(self, times: int) -> Cells:
        found, power = replace(NOTHING, worst=True), self
        while times:
            if times & 1:
                found = found * power
            times >>= 1
            if times:
                power = power * power
        return found

    def mixed(self, rate: float) -> Cells:
        """((1 - rate) Q + rate P, Q)."""
        return Cells((1 - rate) * self.q + rate * self.p, self.q)

    def then(self, above: Cells, below: Cells) -> Cells:
        """What runs next is chosen by whether this outcome is likelier under P."""
        up = self.p > self.q
        return _joined(
            Cells(self.p[side], self.q[side]) * after for side, after in ((up, above), (~up, below))
        )

    @property
    def halves(self) -> Cells:
        """Whether the outcome is likelier under P, and no more."""
        up = self.p > self.q
        p, q = ([own[up].sum(), own[~up].sum()] for own in (self.p, self.q))
        return Cells(np.array(p), np.array(q))


NOTHING = Cells(np.ones(1), np.ones(1))
ALL = Cells(np.array([1.0, 0.0]), np.array([0.0, 1.0]))


def seen(*branches: tuple[float, float, Cells]) -> Cells:
    """One of several, with these chances under P and under Q; which one is seen."""
    return _joined(Cells(p * cells.p, q * cells.q) for p, q, cells in branches)


def _joined(parts: Iterable[Cells]) -> Cells:
    found = list(parts)
    return few(np.concatenate([c.p for c in found]), np.concatenate([c.q for c in found]))


def few(p: Floats, q: Floats) -> Cells:
    """These cells, merged where they are many."""
    return merged(p, q, Cells(p, q).loss)


def merged(p: Floats, q: Floats, loss: Floats) -> Cells:
    """At most ``CELLS`` cells: neighbours in likelihood ratio are joined."""
    if len(p) <= CELLS:
        return Cells(p, q)
    finite = np.isfinite(loss) & ((p > 0) | (q > 0))
    if not finite.any():
        return Cells(np.array([p.sum(), 0.0]), np.array([0.0, q.sum()]))
    low, high = loss[finite].min(), loss[finite].max()
    width = (high - low) / (CELLS - 3) or 1.0
    scaled = np.nan_to_num((loss - low) / width, nan=-1.0, posinf=CELLS - 2, neginf=-1.0)
    place = np.clip(scaled, -1, CELLS - 2).astype(np.int64) + 1
    joined = (np.bincount(place, masses, CELLS).astype(np.float64) for masses in (p, q))
    return Cells(*joined)


@lru_cache(maxsize=1024)
def normal(mu: float) -> Cells:
    """N(mu, 1) against N(0, 1): the tails are taken on the side where they are small."""
    reach = 12.0
    return _between(np.linspace(mu / 2 - reach - mu / 2, mu / 2 + reach + mu / 2, CELLS), mu)


def _between(edges: Floats, mu: float) -> Cells:
    """N(mu, 1) against N(0, 1), cut at these edges."""
    return Cells(_masses(edges, mu), _masses(edges, 0.0))


def _masses(edges: Floats, centre: float) -> Floats:
    z = np.concatenate([[-np.inf], edges - centre, [np.inf]])
    below, above = np.diff(ndtr(z)), -np.diff(ndtr(-z))
    found: Floats = np.where(z[1:] <= 0, below, above)
    return found


def opposed(mu: float, rate: float) -> Cells:
    """(1 - rate) N(0, 1) + rate N(mu, 1) against (1 - rate) N(0, 1) + rate N(-mu, 1)."""
    edges = np.linspace(-12.0 - mu, 12.0 + mu, CELLS - 1)
    still = (1 - rate) * _masses(edges, 0.0)
    return Cells(*(still + rate * _masses(edges, way * mu) for way in (1, -1)))


def drawn(mu: float, rate: float, size: int) -> Cells:
    """N(J mu, 1) against N(0, 1), J binomial(size, rate)."""
    weights = [math.comb(size, j) * rate**j * (1 - rate) ** (size - j) for j in range(size + 1)]
    return mixture([(j * mu, weight) for j, weight in enumerate(weights)])


def mixture(moves: Sequence[tuple[float, float]]) -> Cells:
    """N(m, 1) against N(0, 1), m one of these moves, each with its chance; else 0."""
    edges = np.linspace(-12.0, 12.0 + max(m for m, _ in moves), CELLS - 1)
    still = max(1 - sum(w for _, w in moves), 0.0)
    parts = [w * _masses(edges, m) for m, w in [(0.0, still), *moves]]
    return Cells(np.sum(parts, axis=0), _masses(edges, 0.0))


def switched(moves: Sequence[float], rate: float) -> Cells:
    """N(the sum of the moves whose coins came, 1) against N(0, 1); a coin for each."""
    sums = [(0.0, 1.0)]
    for move in moves:
        sums = [x for s, w in sums for x in ((s, w * (1 - rate)), (s + move, w * rate))]
    edges = np.linspace(min(s for s, _ in sums) - 12, max(s for s, _ in sums) + 12, CELLS - 1)
    p: Floats = np.sum([w * _masses(edges, s) for s, w in sums], axis=0)
    return Cells(p, _masses(edges, 0.0))


def drawn_of(mu: float, batch: int, population: int, size: int) -> Cells:
    """N(J mu / 2, 1) against N(-J mu / 2, 1), J of a group of ``size`` in a batch of one size."""
    edges = np.linspace(-12.0 - size * mu / 2, 12.0 + size * mu / 2, CELLS - 1)
    weights = hypergeom(population, size, batch).pmf(np.arange(size + 1))
    p, q = (
        np.sum([w * _masses(edges, sign * j * mu / 2) for j, w in enumerate(weights)], axis=0)
        for sign in (1, -1)
    )
    return Cells(p, q)


@lru_cache(maxsize=1024)
def summed(variance: float, clients: int, skellam: bool, move: int, modulus: int = 0) -> Cells:
    """The sum of clients' noise moved by a whole number against not; modulo a number if there is.

    Discrete Gaussian noise by convolution, all terms positive; Skellam noise by SciPy's masses.
    """
    far = math.ceil(12 * math.sqrt(variance * clients)) + 40 + move
    k = np.arange(-far, far + 1)
    one = np.exp(-(k**2) / (2 * variance))
    one = one / one.sum()
    masses = np.asarray(ive(np.abs(k), variance * clients) if skellam else one, dtype=np.float64)
    for _ in range(0 if skellam else clients - 1):
        masses = np.convolve(masses, one)[far:-far].astype(np.float64)
    p, q = np.roll(masses, move), masses
    p[:move] = 0.0
    if modulus:
        p, q = (np.bincount(k % modulus, law, modulus).astype(np.float64) for law in (p, q))
    return few(p, q)


def one_of(cells: Cells, slots: int) -> Cells:
    """The first two of several slots, of which one, uniformly, holds P and all others Q."""
    if slots == 1:
        return cells
    pq = np.multiply.outer(cells.p, cells.q)
    neither = np.multiply.outer(cells.q, cells.q)
    p = (pq + pq.T + (slots - 2) * neither) / slots
    return few(p.ravel(), neither.ravel())


def stays(rate: float, population: int, batch: int) -> float:
    """How often a record is in a Poisson batch that is cut uniformly to ``batch``."""
    others = population - 1
    kept = [
        math.comb(others, x) * rate**x * (1 - rate) ** (others - x) * min(1.0, batch / (1 + x))
        for x in range(others + 1)
    ]
    return rate * math.fsum(kept)


@lru_cache(maxsize=1024)
def laplace(epsilon: float) -> Cells:
    """Laplace noise moved by ``epsilon`` scales, cut at many points."""
    return redrawn(epsilon, 1.0, 1)


def redrawn(epsilon: float, rate: float, draws: int) -> Cells:
    """Laplace noise moved by ``epsilon`` scales for each of binomially many draws."""
    centres = epsilon * np.arange(draws + 1)
    # Every centre is an edge, and none of them twice: what is cut off by rounding has no ratio.
    steps = (CELLS - 2) // draws
    inside = [np.linspace(a, b, steps, endpoint=False) for a, b in pairwise(centres)]
    edges = np.concatenate([*inside, centres[-1:]])

    def masses(centre: float) -> Floats:
        below = np.exp(np.minimum(edges - centre, 0)) / 2
        above = np.exp(np.minimum(centre - edges, 0)) / 2
        left = np.diff(below, prepend=0.0)
        right = -np.diff(above, append=0.0)
        cumulative = edges <= centre
        inner = np.where(cumulative[1:], left[1:], right[:-1])
        first = below[0]
        last = above[-1] if edges[-1] >= centre else 1 - below[-1]
        return np.concatenate([[first], np.maximum(inner, 0), [last]])

    weights = [math.comb(draws, j) * rate**j * (1 - rate) ** (draws - j) for j in range(draws + 1)]
    p: Floats = np.sum([w * masses(c) for w, c in zip(weights, centres, strict=True)], axis=0)
    return few(p, masses(0.0))


def whole_laplace(scale: float, move: int, bound: int = 0) -> Cells:
    """Discrete Laplace noise moved by a whole number; within ``bound`` of 0 where there is any."""
    fall = math.exp(-1 / scale)
    if bound:
        law = fall ** np.abs(np.arange(-bound, bound + 1))
        law, gone = law / law.sum(), np.zeros(move)
        return few(np.append(gone, law), np.append(law, gone))
    inner = fall ** np.arange(1, move) * (1 - fall) / (1 + fall)
    q: Floats = np.concatenate([[1 / (1 + fall)], inner, [fall**move / (1 + fall)]])
    return Cells(q[::-1], q, worst=True)


def moved_by_one(below: Callable[[Floats], Floats], places: Floats) -> Cells:
    """Symmetric noise around 0 against around 1, between these places; ``below``: of y <= 0."""
    edges = np.unique(np.concatenate([places, 1 - places, [0.0, 1.0]]).round(9))

    def masses(centre: float) -> Floats:
        y = edges - centre
        tail = below(-np.abs(y))
        inner = np.where(y[1:] <= 0, tail[1:] - tail[:-1], tail[:-1] - tail[1:])
        return np.concatenate([[tail[0]], np.maximum(inner, 0), [tail[-1]]])

    return Cells(masses(0.0), masses(1.0))


def student(scale: float, degrees: float) -> Cells:
    """Student's t noise."""
    places = np.linspace(-8 * scale - 4, 8 * scale + 4, CELLS // 2)
    return moved_by_one(lambda y: student_t.cdf(y / scale, degrees), places)


def staircase(epsilon: float, share: float) -> Cells:
    """Staircase noise: its distribution function as a sum over whole steps."""
    fall = math.exp(-epsilon)
    whole = share + fall * (1 - share)

    def below(y: Floats) -> Floats:
        step, place = np.floor(-y), -y - np.floor(-y)
        gone = np.minimum(place, share) + fall * np.maximum(place - share, 0)
        return np.asarray(fall**step * (1 - (1 - fall) * gone / whole) / 2)

    steps = np.arange(-20, 21)
    return moved_by_one(below, np.concatenate([steps, steps - share, steps + share]))


def truncated_laplace(scale: float, bound: float) -> Cells:
    """Laplace noise within a bound."""

    def below(y: Floats) -> Floats:
        law = np.exp(-bound / scale) * np.expm1(np.maximum(y + bound, 0) / scale)
        return np.asarray(law / (-2 * np.expm1(-bound / scale)))

    return moved_by_one(below, np.linspace(-bound, bound, CELLS // 2))


@lru_cache(maxsize=1024)
def response(epsilon: float, delta: float = 0.0) -> Cells:
    """Randomised response with probability 1 - delta, else an outcome that tells all."""
    high, low = 1 / (1 + math.exp(-epsilon)), 1 / (1 + math.exp(epsilon))
    return Cells(
        np.array([delta, (1 - delta) * high, (1 - delta) * low, 0.0]),
        np.array([0.0, (1 - delta) * low, (1 - delta) * high, delta]),
        worst=delta == 0,
    )


def response_of(order: float, epsilon: float) -> Cells:
    """Randomised response whose Renyi divergence at this order is ``epsilon``."""
    low, high = 0.0, epsilon + math.log(2) / (order - 1) + 1
    for _ in range(BISECTIONS):
        e = (low + high) / 2
        moments = math.exp(order * e) + math.exp((1 - order) * e)
        found = math.log(moments / (1 + math.exp(e))) / (order - 1)
        low, high = (e, high) if found <= epsilon else (low, e)
    return replace(response(low * (1 - SLACK)), worst=False)


def sets(epsilon: float, share: float, overlap: float) -> Cells:
    """A set, one's own e^epsilon as likely: of one value alone, of the other alone, the rest."""
    own, grown = share - overlap, math.exp(epsilon)
    whole = grown * share + 1 - share
    rest = (grown * overlap + 1 - share - own) / whole
    p = np.array([grown * own, own]) / whole
    return Cells(np.append(p, max(rest, 0.0)), np.append(p[::-1], max(rest, 0.0)), worst=True)


def clipped(noise: float, diameter: float) -> Cells:
    """One update to 0 or to 1 (or the end), noise, then the projection to [0, diameter]."""
    edges = np.linspace(0.0, diameter / noise, CELLS - 1)
    return _between(edges, min(1.0, diameter) / noise)


def best_of_poisson(cells: Cells, mean: float) -> Cells:
    """The largest of a Poisson number of outcomes, in the cells' order; or that there was none."""

    def masses(own: Floats) -> Floats:
        left = np.append(np.cumsum(own[::-1])[::-1], 0.0) / own.sum()
        found = np.exp(-mean * left[:-1]) * np.expm1(mean * own / own.sum())
        return np.append(found, math.exp(-mean))

    return Cells(masses(cells.p), masses(cells.q))


def best_of_runs(cells: Cells, gamma: float, shape: int) -> Cells:
    """The largest of K independent outcomes, in the cells' order; K geometric, or logarithmic.

    f(q) = E q^K is gamma q / (1 - (1 - gamma) q), or log(1 - (1 - gamma) q) / log gamma.
    """

    def masses(own: Floats) -> Floats:
        after = np.cumsum(own) / own.sum()
        before = np.append(0.0, after[:-1])
        left, right = 1 - (1 - gamma) * before, 1 - (1 - gamma) * after
        found: Floats = (
            gamma * own / (left * right)
            if shape
            else np.log1p(-(1 - gamma) * own / left) / math.log(gamma)
        )
        return found

    return Cells(masses(cells.p), masses(cells.q))


@lru_cache(maxsize=1024)
def shuffled(epsilon: float, choices: int, population: int, held: int = 2, group: int = 1) -> Cells:
    """Counts of two answers, ``group`` records holding the first under P, the second under Q.

    All others hold the answer ``held``: the first (0), the second (1), or a third one where there
    is any (2).  With two answers, the second.
    """
    whole = math.exp(epsilon) + choices - 1
    truth, lie = math.exp(epsilon) / whole, 1 / whole
    rest = (choices - 2) * lie
    reports = (
        (truth, lie, rest),
        (lie, truth, rest),
        (lie, truth, rest) if choices == 2 else (lie, lie, truth + rest - lie),
    )
    counts = np.zeros((population + 1, population + 1))
    counts[0, 0] = 1.0
    for _ in range(population - group):
        counts = _counted(counts, reports[held])
    both = [counts, counts]
    for _ in range(group):
        both = [_counted(law, own) for law, own in zip(both, reports, strict=False)]
    return few(*(law.ravel() for law in both))


def _counted(counts: Floats, masses: tuple[float, float, float]) -> Floats:
    """The law of two counts after one more report: either answer, or none of them."""
    found = masses[2] * counts
    found[1:, :] += masses[0] * counts[:-1, :]
    found[:, 1:] += masses[1] * counts[:, :-1]
    return found


@lru_cache(maxsize=1024)
def polled(epsilon: float, others: int, ones: int) -> Cells:
    """How many of two answers are the one: of a record, and of others of whom ``ones`` hold it."""
    truth, lie = 1 / (1 + math.exp(-epsilon)), 1 / (1 + math.exp(epsilon))
    law = np.ones(1)
    for k in range(others):
        law = np.convolve(law, (lie, truth) if k < ones else (truth, lie))
    return few(np.convolve(law, (lie, truth)), np.convolve(law, (truth, lie)))


def picked(scores: Sequence[float], moves: Sequence[float]) -> Cells:
    """A candidate with probability proportional to exp(score), scores moved and not."""
    p, q = np.exp(np.add(scores, moves)), np.exp(scores)
    return Cells(p / p.sum(), q / q.sum())


def answers(p: float, q: float) -> Cells:
    """Yes, with these probabilities, or no."""
    return Cells(np.array([p, 1 - p]), np.array([q, 1 - q]))


def ahead(gap: float, *, laplace_noise: bool) -> float:
    """How often the first of two scores, ``gap`` scales of the noise ahead, is the largest.

    The noise is Laplace noise, or exponential.
    """
    behind = math.exp(-abs(gap)) / 2 * (1 + abs(gap) / 2 if laplace_noise else 1)
    return behind if gap < 0 else 1 - behind


def exceeds(margin: float, one: float, other: float) -> float:
    """How often two Laplace noises of different scales add up to more than ``margin``."""
    tails = one**2 * math.exp(-abs(margin) / one) - other**2 * math.exp(-abs(margin) / other)
    beyond = tails / (2 * (one**2 - other**2))
    return beyond if margin >= 0 else 1 - beyond


def thresholded(
    threshold: float,
    query: float,
    noes: int,
    yeses: int,
    levels: Sequence[float],
    moved: Sequence[float],
) -> Cells:
    """Whether ``noes`` queries at one level are all below, and then ``yeses`` at another above.

    Two levels, as far above the threshold, under Q; ``moved`` under P; noise of these two scales.
    Gauss's quadrature over the threshold's noise, between all kinks.
    """
    reach = SCALES * threshold
    cuts = np.arange(-reach, reach, min(threshold, query))
    cuts = np.union1d(cuts, np.clip([reach, 0.0, *levels, *moved], -reach, reach))
    at, weights = np.polynomial.legendre.leggauss(QUADRATURE)
    half, middle = np.diff(cuts) / 2, (cuts[1:] + cuts[:-1]) / 2
    noise = middle[:, None] + np.outer(half, at)
    density = np.outer(half, weights) * np.exp(-abs(noise) / threshold) / (2 * threshold)

    def every(times: int, margin: Floats) -> tuple[Floats, Floats]:
        """Whether fresh noise is below the margin so many times, or not."""
        tail = np.exp(-abs(margin) / query) / 2
        logs = times * np.where(margin < 0, -abs(margin) / query - math.log(2), np.log1p(-tail))
        return np.exp(logs), -np.expm1(logs)

    def masses(first: float, second: float) -> Floats:
        silent, loud = every(noes, noise - first)
        told, rest = every(yeses, second - noise)
        return np.array([(density * part).sum() for part in (loud, silent * told, silent * rest)])

    return Cells(masses(*moved), masses(*levels))


def scored(epsilon: float, kappa: int, score: int, released: Cells) -> Cells:
    """A score, one less under P, is at most a secret threshold; then a release is seen."""
    law = np.exp(-epsilon * abs(np.arange(2 * kappa + 1) - kappa))
    law = law / law.sum()
    before, after = score - 1, score
    failed = (float(law[:before].sum()), float(law[:after].sum()), NOTHING)
    return seen(failed, (float(law[before:].sum()), float(law[after:].sum()), released))


def delta_lower(cells: Cells, epsilon: float) -> float:
    """sum (P - e^epsilon Q)_+, a little less for rounding."""
    terms = np.where(cells.q > 0, cells.p - math.exp(epsilon) * cells.q * (1 + SLACK), cells.p)
    return float(np.maximum(terms, 0).sum()) * (1 - SLACK)


def epsilon_lower(cells: Cells, delta: float) -> float:
    """An epsilon, at most ``LARGEST``, at which the cells show more than ``delta``; 0 if none does.

    A guess from sorted cells, taken where :func:`delta_lower` confirms it, and bisection elsewhere.
    """
    if delta_lower(cells, 0.0) <= delta:
        return 0.0
    if delta_lower(cells, LARGEST) > delta:
        return LARGEST
    guess = _guess(cells, delta) * (1 - NEAR)
    beyond = guess * (1 + 4 * NEAR)
    if guess > 0 and delta_lower(cells, beyond) <= delta < delta_lower(cells, guess):
        return guess
    low, high = 0.0, LARGEST
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_lower(cells, middle) > delta else (low, middle)
    return low


def _guess(cells: Cells, delta: float) -> float:
    """About where the line through the right two kinks meets delta; only a guess."""
    kept = (cells.q > 0) & (cells.p > 0)
    p, q = cells.p[kept], cells.q[kept] * (1 + SLACK)
    order = np.argsort(q / p)
    p, q = p[order], q[order]
    wanted = delta / (1 - SLACK) - float(cells.p[cells.q == 0].sum())
    with np.errstate(over="ignore", invalid="ignore"):
        above = np.cumsum(p) - p / q * np.cumsum(q)
    first = int(np.argmax(above > wanted)) if (above > wanted).any() else len(p)
    top = float(p[:first].sum()) - wanted
    return math.log(top / float(q[:first].sum())) if first and top > 0 else 0.0


def gaussian_tail(least: int, variance: float) -> float:
    """P(noise >= least) of discrete Gaussian noise, term by term."""
    reach = math.ceil(40 * math.sqrt(variance)) + 1
    weights = {k: math.exp(-(k**2) / (2 * variance)) for k in range(-reach, reach + 1)}
    return math.fsum(w for k, w in weights.items() if k >= least) / math.fsum(weights.values())
