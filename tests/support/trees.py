"""Random declarations, each with the cells of a mechanism that it describes."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import wraps
from typing import Any

import numpy as np
import sympy

from dpaudit.accountant.account import Account
from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.families.adaptive import Filter, Select
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.banded import CyclicPoisson
from dpaudit.families.batches import CyclicBatches, ShuffledBatches, TruncatedPoisson
from dpaudit.families.bounded import Staircase, StudentT, TruncatedLaplace, Tulap
from dpaudit.families.composition import Assuming, Compose, Parallel, Repeat
from dpaudit.families.correlated import (
    BandedToeplitz,
    CorrelatedGaussian,
    LowerTriangular,
    Participation,
)
from dpaudit.families.discrete import (
    DiscreteGaussian,
    DiscreteLaplace,
    RandomizedResponse,
    TruncatedDiscreteLaplace,
)
from dpaudit.families.distributed import (
    DistributedGaussian,
    DistributedGaussianVector,
    DistributedSkellam,
    DistributedSkellamVector,
)
from dpaudit.families.events import EventSlack, Group, ProposeTestRelease
from dpaudit.families.individual import IndividualGaussian
from dpaudit.families.iterates import LastIterate, SampledLastIterate
from dpaudit.families.local import Shuffled, SubsetResponse
from dpaudit.families.opaque import (
    GDP,
    ZCDP,
    ApproxDP,
    Laws,
    MixtureOfGaussians,
    ProfilePoints,
    PureDP,
    RenyiCurve,
    RenyiDP,
)
from dpaudit.families.sampling import (
    PoissonSampled,
    RandomAllocation,
    SampledWithoutReplacement,
    SampledWithReplacement,
)
from dpaudit.families.selection import (
    AboveThreshold,
    ExponentialMechanism,
    IntegerExponentialMechanism,
    NoisyComparisons,
    ReportNoisyMax,
)
from dpaudit.families.stability import CoupledGaussian, StableRelease
from dpaudit.families.tabular import (
    DiscreteGaussianVector,
    ThresholdedDiscreteGaussian,
    ThresholdedDiscreteLaplace,
)
from dpaudit.families.tuning import Tuned, TunedPoisson
from dpaudit.nodes import Assumption, Node
from dpaudit.scope import central
from tests.support.coarse import (
    ALL,
    NOTHING,
    Cells,
    ahead,
    answers,
    best_of_poisson,
    best_of_runs,
    clipped,
    delta_lower,
    drawn,
    drawn_of,
    epsilon_lower,
    exceeds,
    gaussian_tail,
    laplace,
    mixture,
    normal,
    one_of,
    opposed,
    picked,
    polled,
    redrawn,
    response,
    response_of,
    scored,
    seen,
    sets,
    shuffled,
    staircase,
    stays,
    student,
    summed,
    switched,
    thresholded,
    truncated_laplace,
    whole_laplace,
)

Tree = tuple[Node, Cells]
Kind = Callable[["Draws", str, int], Tree]
TOLERANCE, NEAR = 1e-8, 1e-6
WIDTH = 0.05
SHADES = 24


class Draws(random.Random):
    """Random choices; decimals come from a palette of the seed, so that equal leaves meet again."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._palettes: dict[tuple[float, float], list[Fraction]] = {}

    def decimal(self, low: float, high: float) -> Fraction:
        """One of ``SHADES`` decimals between the ends."""
        if (low, high) not in self._palettes:
            found = [Fraction(f"{self.uniform(low, high):.2f}") for _ in range(SHADES)]
            self._palettes[low, high] = found
        return self.choice(self._palettes[low, high])


def draw(rng: Draws, adjacency: str, depth: int = 2) -> Tree:
    """A random tree under an adjacency; the cells are in the remove direction."""
    if depth == 0 or rng.random() < 0.25:
        return rng.choice(LEAVES)(rng)
    return rng.choice(COMBINED)(rng, adjacency, depth - 1)


def of_one_data_set(kind: Kind) -> Kind:
    """Drawn again while its parts state other numbers of records than one data set has."""

    @wraps(kind)
    def drawn(rng: Draws, adjacency: str, depth: int) -> Tree:
        while True:
            try:
                return kind(rng, adjacency, depth)
            except InvalidParameter as error:
                if ": declared " not in str(error):
                    raise

    return drawn


def _gaussian(rng: Draws) -> Tree:
    z = rng.decimal(0.3, 6)
    return Gaussian("g", z), normal(float(1 / z))


def _gdp(rng: Draws) -> Tree:
    mu = rng.decimal(0.1, 3)
    return GDP(mu), normal(float(mu))


def _laplace(rng: Draws) -> Tree:
    scale = rng.decimal(0.2, 5)
    return Laplace("l", scale), laplace(float(1 / scale))


def _pure(rng: Draws) -> Tree:
    epsilon = rng.decimal(0.05, 3)
    return PureDP(epsilon), response(float(epsilon))


def _response(rng: Draws) -> Tree:
    """Of two answers; of more, the one, the other and the rest."""
    epsilon, choices = rng.decimal(0.05, 3), rng.choice((2, 2, 3, 10))
    if choices == 2:
        return RandomizedResponse("r", epsilon), response(float(epsilon))
    return RandomizedResponse("r", epsilon, choices), shuffled(float(epsilon), choices, 1)


def _discrete_laplace(rng: Draws) -> Tree:
    scale, move = rng.decimal(0.3, 5), rng.choice((1, 1, 2, 5))
    return DiscreteLaplace("d", scale, move), whole_laplace(float(scale), move)


def _truncated_laplace(rng: Draws) -> Tree:
    scale, move = rng.decimal(0.3, 5), rng.choice((1, 1, 2, 5))
    bound = move + rng.randint(0, 30)
    node = TruncatedDiscreteLaplace("t", scale, bound, move)
    return node, whole_laplace(float(scale), move, bound)


def _bounded(rng: Draws) -> Tree:
    """Noise of bounded loss, and noise whose loss is bounded but for a mass delta."""
    epsilon, share, scale = rng.decimal(0.05, 3), rng.decimal(0.05, 1), rng.decimal(0.3, 5)
    kind, delta = rng.randrange(4), Fraction(1, 10 ** rng.randint(2, 30))
    if kind == 0:
        return Staircase("s", epsilon, share), staircase(float(epsilon), float(share))
    if kind == 1:
        return Tulap("s", epsilon, delta), response(float(epsilon), float(delta))
    if kind == 2:
        degrees = rng.decimal(0.5, 20)
        return StudentT("s", scale, degrees), student(float(scale), float(degrees))
    bound = 1 + rng.decimal(0.1, 30)
    return TruncatedLaplace("s", scale, bound), truncated_laplace(float(scale), float(bound))


def _discrete_gaussian(rng: Draws) -> Tree:
    variance, move = rng.decimal(0.3, 4), rng.randint(1, 5)
    return DiscreteGaussian("n", variance, move), summed(float(variance), 1, False, move)


def _sets(rng: Draws) -> Tree:
    """Sets of equal weight; the shares are parts of 20, so that some overlap is possible."""
    epsilon, share = rng.decimal(0.05, 3), Fraction(rng.randint(1, 19), 20)
    least = max(2 * share - 1, Fraction(0))
    overlap = least + (share - least) * Fraction(rng.randint(0, 3), 4)
    return (
        SubsetResponse("s", epsilon, share, overlap),
        sets(float(epsilon), float(share), float(overlap)),
    )


def _iterates(rng: Draws) -> Tree:
    """Linear updates x -> c x + 1 against x -> c x; on an interval, one update to its ends."""
    z, steps = rng.decimal(0.5, 6), rng.choice((1, 2, 5, 20))
    contraction = rng.choice((Fraction(1), rng.decimal(0.5, 0.99)))
    if rng.random() < 0.3:
        diameter = rng.decimal(0.2, 3)
        run = LastIterate("x", z, steps, contraction, diameter)
        return run, clipped(float(z), float(diameter))
    # In passes over batches, the last of which has the record.
    batches = rng.choice((1, 1, 2, 5))
    steps *= batches
    shares = [float(contraction) ** k for k in range(steps)]
    moved = sum(shares[::batches]) / math.sqrt(sum(share**2 for share in shares)) / float(z)
    return LastIterate("x", z, steps, contraction, batches=batches), normal(moved)


def _correlated(rng: Draws) -> Tree:
    """One round of a tree of 2^h leaves: h + 1 nodes; several rounds with fresh noise."""
    z = rng.decimal(0.5, 6)
    if rng.random() < 0.5:
        height = rng.randint(0, 8)
        sums = CorrelatedGaussian("c", z, 2**height, "tree")
        return sums, normal(math.sqrt(height + 1) / float(z))
    times, apart = rng.randint(1, 4), rng.randint(1, 3)
    sums = CorrelatedGaussian("c", z, times * apart, "identity", Participation(times, apart))
    return sums, normal(math.sqrt(times) / float(z))


def _individual(rng: Draws) -> Tree:
    """A record that fills the radius spends its whole budget."""
    z, mu = rng.decimal(0.5, 6), rng.decimal(0.1, 3)
    rounds = math.floor(z**2 * mu**2) + rng.randint(1, 10)
    return IndividualGaussian("i", z, mu, rounds), normal(float(mu))


def _secure(rng: Draws) -> Tree:
    """Clients' noise: on a number, or on vectors of which one number moves, also modulo one."""
    variance, skellam = rng.decimal(0.3, 4), rng.random() < 0.5
    clients, gone, move = rng.randint(1, 6), rng.randint(0, 3), rng.randint(1, 5)
    if rng.random() < 0.4:
        kind = DistributedSkellam if skellam else DistributedGaussian
        cells = summed(float(variance), clients, skellam, move)
        return kind("s", variance, clients + gone, gone, move), cells
    modulus = rng.choice((0, 0, 16, 1024))
    vectors = DistributedSkellamVector if skellam else DistributedGaussianVector
    squared = move**2 + rng.randint(0, 2 * move)
    node = vectors("s", variance, clients + gone, gone, squared, modulus)
    return node, summed(float(variance), clients, skellam, move, modulus)


def _approximate(rng: Draws) -> Tree:
    epsilon, delta = rng.decimal(0.05, 2), Fraction(1, 10 ** rng.randint(2, 30))
    return ApproxDP(epsilon, delta), response(float(epsilon), float(delta))


def _stated(rng: Draws) -> Tree:
    """Gaussian noise that has just this zCDP, Renyi curve or Renyi divergence; or two answers."""
    value, order = rng.decimal(0.01, 3), rng.decimal(1.1, 30)
    kind = rng.randrange(4)
    if kind == 0:
        return ZCDP(value), normal(math.sqrt(2 * value))
    if kind == 1:
        return RenyiCurve(value * sympy.Symbol("alpha", positive=True)), normal(
            math.sqrt(2 * value)
        )
    node = RenyiDP(order, value)
    if kind == 2:
        return node, normal(math.sqrt(2 * value / order))
    return node, response_of(float(order), float(value))


def _points(rng: Draws) -> Tree:
    """Some of a mechanism's own points; or all of its outcomes, or a mixture of Gaussians."""
    kind = rng.random()
    if kind < 0.1:
        moves = [(rng.decimal(0, 3), rng.decimal(0, 0.3)) for _ in range(rng.randint(1, 3))]
        noise = rng.decimal(0.3, 5)
        return MixtureOfGaussians(noise, tuple(moves)), mixture(
            [(float(move / noise), float(chance)) for move, chance in moves]
        )
    if kind < 0.3:
        _, cells = rng.choice((_response, _truncated_laplace))(rng)
        p, q = ([Fraction(float(mass)) for mass in law] for law in (cells.p, cells.q))
        outcomes = [(a / sum(p), b / sum(q)) for a, b in zip(p, q, strict=True)]
        return Laws(tuple(outcomes)), Cells(cells.p, cells.q)
    _, cells = rng.choice((_gaussian, _laplace, _pure, _approximate))(rng)
    places = sorted({rng.decimal(0, rng.choice((4, 30))) for _ in range(rng.randint(1, 4))})
    both = cells, cells.swapped
    most = [max(delta_lower(c, float(place)) for c in both) for place in places]
    above = [Fraction(min(delta * (1 + 1e-6), 1.0)) for delta in most]
    return ProfilePoints(tuple(zip(places, above, strict=True))), Cells(cells.p, cells.q)


def _filter(rng: Draws) -> Tree:
    """All that is left is spent on a second release where the first one told much."""
    cap, share, noise = rng.decimal(0.1, 3), rng.choice((0.1, 0.5, 0.9)), Gaussian("g", 1)
    measure = rng.choice(("pure", "approx", "zcdp", "rdp", "gdp"))
    if measure in ("pure", "approx"):
        leaf, first, rest = Laplace("l", 1), laplace(float(cap) * share), float(cap) * (1 - share)
        delta = Fraction(1, 10 ** rng.randint(2, 30)) if measure == "approx" else Fraction(0)
        if delta:
            leaf, first = ApproxDP(1, "0.1"), response(float(cap) * share, float(delta))
        return Filter(leaf, measure, cap, delta), first.then(laplace(rest), NOTHING)
    square = float(cap) ** 2 if measure == "gdp" else 2 * float(cap)
    alone = measure != "rdp" and rng.random() < 0.3
    kind = laplace if alone and measure == "zcdp" else normal
    first, rest = (kind(math.sqrt(square * part)) for part in (share, 1 - share))
    amount = cap * sympy.Symbol("alpha", positive=True) if measure == "rdp" else cap
    child = Select(noise, Laplace("l", 1)) if alone else noise
    return Filter(child, measure, amount), first.then(rest, NOTHING)


def _choice(rng: Draws) -> Tree:
    """Of a few candidates, scores moved within a unit; or of two, one unit each."""
    epsilon, scores = rng.decimal(0.1, 3), rng.choice(("any", "monotone"))
    least, unit = (0 if scores == "monotone" else -1), float(epsilon) / 2
    noise = rng.choice(("exponential", "laplace", "gumbel", "", ""))
    if noise in ("exponential", "laplace"):
        gap, moved = rng.uniform(-2, 2), unit * (1 - least)
        chances = (ahead(g, laplace_noise=noise == "laplace") for g in (gap + moved, gap))
        return ReportNoisyMax("m", epsilon, noise, scores), answers(*chances)
    count = rng.randint(2, 4)
    own = [unit * rng.randint(-6, 6) for _ in range(count)]
    cells = picked(own, [unit, unit * least, *(unit * rng.randint(least, 1) for _ in own[2:])])
    if noise:
        return ReportNoisyMax("m", epsilon, noise, scores), cells
    kind = rng.choice((ExponentialMechanism, IntegerExponentialMechanism))
    return kind("e", epsilon, scores), cells


def _above_threshold(rng: Draws) -> Tree:
    """Many queries that are below, and then as many as may be above."""
    (ours, theirs), yeses = (rng.decimal(0.2, 3) for _ in range(2)), rng.randint(1, 3)
    monotone = rng.random() < 0.5
    node = AboveThreshold("a", ours, theirs, yeses, "monotone" if monotone else "any")
    scale, query = float(1 / ours), float(2 * yeses / theirs)
    levels = rng.uniform(-4, 4) * scale, rng.uniform(-6, 2) * query
    moved = levels[0] - 1, levels[1] + (0 if monotone else 1)
    return node, thresholded(scale, query, rng.choice((1, 10, 1000)), yeses, levels, moved)


def _comparisons(rng: Draws) -> Tree:
    """Queries that are all as far from the threshold, which may be the node's own margin."""
    one, other = rng.decimal(0.5, 2), rng.decimal(2.1, 8)
    if rng.random() < 0.5:
        one, other = other, one
    margin, count = rng.decimal(1, 9), rng.randint(1, 4)
    held = rng.choice((float(margin), rng.uniform(-3, 9)))
    chances = (exceeds(m, float(one), float(other)) for m in (held - 1, held))
    return NoisyComparisons("n", one, other, margin, count), answers(*chances) ** count


def _coupled(rng: Draws) -> Tree:
    """How many coins came is seen, and the same on either side."""
    z, rate = rng.decimal(0.5, 6), Fraction(rng.randint(1, 100), 100)
    always, flips = rng.randint(0, 3), rng.randint(1, 4)
    chances = [math.comb(flips, k) * rate**k * (1 - rate) ** (flips - k) for k in range(flips + 1)]
    parts = [(float(c), float(c), normal((always + k) / float(z))) for k, c in enumerate(chances)]
    return CoupledGaussian("c", z, always, flips, rate), seen(*parts)


def _vector(rng: Draws) -> Tree:
    """Coordinates that move by whole numbers, each with noise of its own."""
    variance, moves = rng.decimal(0.3, 4), [rng.randint(1, 4) for _ in range(rng.randint(1, 3))]
    cells, squared = NOTHING, sum(move**2 for move in moves)
    for move in moves:
        cells = cells * summed(float(variance), 1, False, move)
    vectors = ([(move, 1) for move in moves],) if rng.random() < 0.7 else ()
    return DiscreteGaussianVector("v", variance, squared, vectors), cells


def _table(rng: Draws) -> Tree:
    """A key of one side alone, and a count of both that moves by what is left; or that alone."""
    scale, largest, left = rng.decimal(0.3, 3), rng.randint(1, 3), rng.randint(0, 3)
    threshold = largest + rng.randint(1, 60)
    gone = rng.random() < 0.5
    common: Cells
    if (threshold - largest) % 2:
        squares = largest**2 + left**2
        node: Node = ThresholdedDiscreteGaussian("k", scale, threshold, squares, 1, largest)
        shown = gaussian_tail(threshold - largest, float(scale))
        move = left if gone else math.isqrt(squares)
        common = summed(float(scale), 1, False, move) if move else NOTHING
    else:
        node = ThresholdedDiscreteLaplace("k", scale, threshold, largest + left, 1, largest)
        fall = math.exp(-1 / float(scale))
        shown = fall ** (threshold - largest) / (1 + fall)
        move = left if gone else largest + left
        common = whole_laplace(float(scale), move) if move else NOTHING
    if not gone:
        shown = 0.0
    return node, seen((shown, 0.0, NOTHING), (1 - shown, 1.0, NOTHING)) * common


@of_one_data_set
def _compose(rng: Draws, adjacency: str, depth: int) -> Tree:
    children = [draw(rng, adjacency, depth) for _ in range(rng.randint(2, 3))]
    cells = children[0][1]
    for _, more in children[1:]:
        cells = cells * more
    return Compose(*(node for node, _ in children)), cells


def _repeat(rng: Draws, adjacency: str, depth: int) -> Tree:
    node, cells = draw(rng, adjacency, depth)
    times = rng.choice((1, 2, 3, 10, 100))
    return Repeat(node, times), cells**times


def _parallel(rng: Draws, adjacency: str, depth: int) -> Tree:
    """The record is in the last part."""
    children = [draw(rng, adjacency, depth) for _ in range(2)]
    return Parallel(*(node for node, _ in children)), replace(children[-1][1], worst=False)


@of_one_data_set
def _select(rng: Draws, adjacency: str, depth: int) -> Tree:
    """The first is always chosen; or the past says which."""
    children = [draw(rng, adjacency, depth) for _ in range(2)]
    (first, cells), (second, others) = children
    chosen = Select(first, second)
    if rng.random() < 0.5:
        return chosen, replace(cells, worst=False)
    past, before = _response(rng)
    return Compose(past, chosen), before.then(cells, others)


@of_one_data_set
def _event(rng: Draws, adjacency: str, depth: int) -> Tree:
    """All is told in the event; or a test is passed, by neighbours of whom none is stable too."""
    (node, cells), rare = draw(rng, adjacency, depth), Fraction(1, 10 ** rng.randint(2, 30))
    if rng.random() < 0.3:
        whose = Assumption("bound", "the bound is public", "declared")
        return Assuming(node, whose), cells
    p = float(rare)
    if rng.random() < 0.5:
        return EventSlack(node, rare, "the noise is large"), seen(
            (p, p, ALL), (1 - p, 1 - p, cells)
        )
    test, outcome = rng.choice((_gaussian, _laplace, _response, _choice))(rng)
    tested = ProposeTestRelease(test, node, rare)
    if rng.random() < 0.3:
        return tested, seen((p, p, ALL), (1 - p, 1 - p, NOTHING))
    return tested, outcome.halves.then(cells, NOTHING)


def _group(rng: Draws, adjacency: str, depth: int) -> Tree:
    """Of a Gaussian: the query moves twice."""
    z = rng.decimal(0.5, 6)
    return Group(Gaussian("g", z), 2), normal(float(2 / z))


def _users(rng: Draws, adjacency: str, depth: int) -> Tree:
    """A group of a Poisson sampled Gaussian: a binomial number of its records is in the batch."""
    z, rate, size = rng.decimal(0.5, 6), Fraction(rng.randint(1, 100), 100), rng.randint(2, 5)
    node = Group(PoissonSampled(Gaussian("g", z), rate), size)
    return node, drawn(float(1 / z), float(rate), size)


def _hidden_batches(rng: Draws, adjacency: str, depth: int) -> Tree:
    """Last iterates of sampled batches: the last step alone, or linear updates without a set."""
    z, rate, steps = rng.decimal(0.5, 6), Fraction(rng.randint(1, 100), 100), rng.randint(1, 30)
    contraction, diameter = rng.choice((Fraction(1), rng.decimal(0.5, 0.99))), rng.choice((0, 0, 2))
    node = SampledLastIterate("x", z, steps, rate, contraction, diameter)
    if contraction == 1 and diameter == 0:
        return node, drawn(1 / float(z) / math.sqrt(steps), float(rate), steps)
    return node, drawn(1 / float(z), float(rate), 1)


def _groups(rng: Draws, adjacency: str, depth: int) -> Tree:
    """Of one or more records in a batch of one size, or who answer a poll: all are replaced."""
    if adjacency != "replace_one":
        return _users(rng, adjacency, depth)
    size, population = rng.randint(1, 5), rng.randint(5, 40)
    if rng.random() < 0.5:
        epsilon, choices = rng.decimal(0.05, 3), rng.choice((2, 3, 10))
        poll = Shuffled(RandomizedResponse("r", epsilon, choices), population)
        held = rng.choice((0, 1, 2))
        return Group(poll, size), shuffled(float(epsilon), choices, population, held, size)
    z, batch = rng.decimal(0.5, 6), rng.randint(1, population)
    sampled = SampledWithoutReplacement(Gaussian("g", z), batch, population)
    cells, times = drawn_of(float(1 / z), batch, population, size), rng.choice((1, 2, 10))
    return Group(Repeat(sampled, times), size), cells**times


@of_one_data_set
def _allocated(rng: Draws, adjacency: str, depth: int) -> Tree:
    node, cells = draw(rng, adjacency, 0)
    slots = rng.choice((1, 2, 3, 10))
    return RandomAllocation(node, slots), one_of(cells, slots)


@of_one_data_set
def _batches(rng: Draws, adjacency: str, depth: int) -> Tree:
    """One pass over batches in an order that is public, or secret; neighbours in place."""
    if adjacency == "add_remove":
        return _cut(rng, adjacency, depth)
    node, cells = draw(rng, adjacency, 0)
    batches, batch = rng.choice((1, 2, 3, 10)), rng.randint(1, 50)
    if rng.random() < 0.3:
        return CyclicBatches(node, batches * batch, batch), cells
    return ShuffledBatches(node, batches * batch, batch), one_of(cells, batches)


@of_one_data_set
def _cut(rng: Draws, adjacency: str, depth: int) -> Tree:
    """A Poisson batch that is cut where it is too large."""
    node, cells = draw(rng, adjacency, 0)
    rate, population = Fraction(rng.randint(1, 100), 100), rng.randint(1, 40)
    batch = rng.randint(1, population)
    cut = TruncatedPoisson(node, rate, population, batch)
    return cut, cells.mixed(stays(float(rate), population, batch))


@of_one_data_set
def _sampled(rng: Draws, adjacency: str, depth: int) -> Tree:
    """A child, which may be made of others or sampled again, whose batch the record joins."""
    nested = rng.random() < 0.5
    if adjacency == "replace_one":
        population = rng.randint(2, 100)
        batch = rng.randint(1, population)
        if nested and rng.random() < 0.3:
            inner, cells = draw(rng, adjacency, 0)
            few = rng.randint(1, batch)
            node: Node = SampledWithoutReplacement(inner, few, batch)
            cells = cells.mixed(few / batch)
        else:
            node, cells = _below_a_sample(rng, adjacency, nested=nested)
        return SampledWithoutReplacement(node, batch, population), cells.mixed(batch / population)
    rate = Fraction(rng.randint(1, 100), 100)
    node, cells = _below_a_sample(rng, adjacency, nested=nested)
    return PoissonSampled(node, rate), cells.mixed(float(rate))


def _below_a_sample(rng: Draws, adjacency: str, *, nested: bool) -> Tree:
    """What has no population of its own, and, in batches of one size, no public places."""
    if not nested:
        return draw(rng, adjacency, 0)
    kinds = [_compose, _repeat, _select, _tuned, _event]
    if adjacency != "replace_one":
        kinds += [_parallel, _sampled, _allocated, _cut, _turns]
    return rng.choice(kinds)(rng, adjacency, 0)


def _tuned(rng: Draws, adjacency: str, depth: int) -> Tree:
    """The best of a random number of runs, of three laws; outcomes are ranked as listed."""
    node, cells = rng.choice((_gaussian, _laplace, _pure, _response, _discrete_laplace))(rng)
    if rng.random() < 0.3:
        mean = rng.decimal(0.1, 30)
        return TunedPoisson(node, mean), best_of_poisson(cells, float(mean))
    gamma, shape = Fraction(rng.randint(1, 99), 100), rng.choice((0, 1))
    return Tuned(node, gamma, shape), best_of_runs(cells, float(gamma), shape)


def _shuffled(rng: Draws, adjacency: str, depth: int) -> Tree:
    """Of randomised response: all others hold the value of either record, or a third one."""
    if adjacency != "replace_one":
        return _sampled(rng, adjacency, depth)
    epsilon, choices = rng.decimal(0.05, 3), rng.choice((2, 3, 10))
    population = rng.choice((1, 2, 5, 20))
    node = Shuffled(RandomizedResponse("r", epsilon, choices), population)
    return node, shuffled(float(epsilon), choices, population, rng.choice((0, 1, 2)))


def _own(rng: Draws, adjacency: str, depth: int) -> Tree:
    """What is of some adjacencies only."""
    kinds = (_turns,)
    if adjacency == "replace_one":
        kinds = (_polls, _reports, _replaced, _redrawn, _stable)
    return rng.choice(kinds)(rng, adjacency, depth)


def _turns(rng: Draws, adjacency: str, depth: int) -> Tree:
    """Groups in turn, of one or more turns each; moves of either sign, along their sum."""
    z, rate, groups = rng.decimal(0.5, 6), Fraction(rng.randint(1, 100), 100), rng.randint(1, 4)
    turns = rng.randint(1, 5)
    rounds = groups * (turns - 1) + rng.randint(1, groups)
    strategy, columns = _columns(rng, rounds)
    if turns == 1:
        groups = rounds
    who = Participation(turns, groups) if turns > 1 else Participation()
    node = CyclicPoisson(CorrelatedGaussian("c", z, rounds, strategy, who), groups, rate)
    signs = rng.choice(((1,), (1, -1)))
    moved = np.array([rng.choice(signs) * columns[:, t] for t in range(0, rounds, groups)])
    if turns == 1:
        moved = np.array([columns[:, rng.choice((0, rounds - 1))]])
    # Along one direction; of moves that share no row, along each of their own.
    if not (moved @ moved.T - np.diag(np.diag(moved @ moved.T))).any():
        cells = NOTHING
        for size in np.linalg.norm(moved, axis=1):
            cells = cells * switched([size / float(z)], float(rate))
        return node, cells
    along = moved.sum(axis=0) if moved.sum(axis=0).any() else moved[0]
    sizes = moved @ along / np.linalg.norm(along) / float(z)
    return node, switched(list(sizes), float(rate))


def _columns(rng: Draws, rounds: int) -> tuple[Any, Any]:
    """A strategy, and its matrix."""
    kind = rng.choice(("identity", "bands", "rows", "tree", "independent_prefix"))
    matrix = np.tri(rounds)
    if kind == "identity":
        matrix = np.eye(rounds)
    elif kind == "tree":
        nodes = [(m - (m & -m), m) for m in range(1, rounds + 1)]
        matrix = np.array([[first <= t < last for t in range(rounds)] for first, last in nodes])
    elif kind == "bands":
        bands = [Fraction(1), *(rng.decimal(-0.2, 1) for _ in range(rng.randint(0, rounds - 1)))]
        below = np.subtract.outer(np.arange(rounds), np.arange(rounds))
        padded = [*map(float, bands), *[0.0] * rounds]
        matrix = np.where(below < 0, 0.0, np.take(padded, np.maximum(below, 0)))
        return BandedToeplitz(bands), matrix
    elif kind == "rows":
        rows = [[rng.decimal(-0.5, 1) for _ in range(t)] + [Fraction(1)] for t in range(rounds)]
        matrix = np.array([[*map(float, row), *[0.0] * (rounds - len(row))] for row in rows])
        return LowerTriangular(rows), matrix
    return kind, matrix.astype(np.float64)


def _polls(rng: Draws, adjacency: str, depth: int) -> Tree:
    """Answers of two values; any number of the others holds the one, in every poll another."""
    epsilon, others, times = rng.decimal(0.05, 3), rng.randint(1, 300), rng.choice((1, 1, 2))
    poll = Shuffled(RandomizedResponse("r", epsilon), others + 1)
    cells = NOTHING
    for _ in range(times):
        few = rng.randint(0, min(others, 9))  # the worst number is rarely larger
        cells = cells * polled(float(epsilon), others, rng.choice((few, rng.randint(0, others))))
    return (poll if times == 1 else Repeat(poll, times)), cells


def _reports(rng: Draws, adjacency: str, depth: int) -> Tree:
    """Others all hold what one record is replaced by; two of the shuffled reports are seen."""
    kinds = (_gaussian, _laplace, _discrete_laplace, _pure, _response, _sets)
    (report, cells), population = rng.choice(kinds)(rng), rng.choice((1, 2, 3, 10))
    return Shuffled(report, population), one_of(cells, population)


@of_one_data_set
def _replaced(rng: Draws, adjacency: str, depth: int) -> Tree:
    """Batches without the record run as with its replacement; or show that they are empty.

    Or an absent record adds zero: of one sample with a release or two, replaced by its opposite.
    """
    rate = Fraction(rng.randint(1, 100), 100)
    if rng.random() < 0.3:
        noises = [rng.decimal(0.3, 4) for _ in range(rng.choice((1, 1, 2)))]
        releases = [Gaussian(f"neutral {k}", z) for k, z in enumerate(noises)]
        below = releases[0] if len(releases) == 1 else Compose(*releases)
        half = math.sqrt(sum(float(z) ** -2 for z in noises)) / 2
        return PoissonSampled(below, rate, "zero"), opposed(half, float(rate))
    if rng.random() < 0.5:
        node, cells = _below_a_sample(rng, adjacency, nested=rng.random() < 0.3)
        return PoissonSampled(node, rate), cells.mixed(float(rate))
    node, cells = rng.choice((_gaussian, _laplace, _pure, _approximate))(rng)
    q = float(rate)
    return PoissonSampled(node, rate), seen((1 - q, 1 - q, NOTHING), (q, q, cells))


def _redrawn(rng: Draws, adjacency: str, depth: int) -> Tree:
    """Of all records but the one, which counts as often as it is drawn, there is nothing."""
    scale, draws, population = rng.decimal(0.5, 5), rng.randint(1, 6), rng.randint(1, 20)
    node = SampledWithReplacement(Laplace("l", scale), draws, population)
    return node, redrawn(float(1 / scale), 1 / population, draws)


def _stable(rng: Draws, adjacency: str, depth: int) -> Tree:
    """Neighbours of scores one apart, as far apart as such may be."""
    epsilon, steps = rng.decimal(0.5, 4), rng.randint(9, 70)
    kappa = math.ceil(steps / epsilon)  # the last score passes with probability e^-steps
    distance, z = rng.choice((("path", kappa), ("diameter", 1)))
    z *= rng.decimal(0.5, 5)
    score = rng.choice((kappa + 1, 2 * kappa + 1, rng.randint(1, 2 * kappa + 1)))
    mu = (2 * score + 1 if distance == "path" else 2) / float(z)
    node = StableRelease("s", epsilon, kappa, z, distance)
    return node, scored(float(epsilon), kappa, score, normal(mu))


LEAVES: tuple[Callable[[Draws], Tree], ...] = (
    _gaussian,
    _gdp,
    _laplace,
    _pure,
    _response,
    _discrete_laplace,
    _discrete_gaussian,
    _approximate,
    _sets,
    _iterates,
    _correlated,
    _individual,
    _secure,
    _truncated_laplace,
    _bounded,
    _stated,
    _points,
    _filter,
    _choice,
    _above_threshold,
    _comparisons,
    _coupled,
    _vector,
    _table,
)
COMBINED: tuple[Kind, ...] = (
    _compose,
    _repeat,
    _parallel,
    _select,
    _group,
    _sampled,
    _tuned,
    _shuffled,
    _users,
    _hidden_batches,
    _groups,
    _allocated,
    _batches,
    _event,
    _own,
    _own,
)


def violations(seed: int, trees: int) -> list[str]:
    """Declarations whose upper bound is below a lower bound of a mechanism they describe."""
    return [found for found in judged(seed, trees) if found]


def judged(seed: int, trees: int) -> list[str | None]:
    """Of every declaration: a violation, an empty text, None where no one calculus has rules."""
    rng = Draws(seed)
    return [_judged(rng) for _ in range(trees)]


def _judged(rng: Draws) -> str | None:
    adjacency = rng.choice(("add_remove", "replace_one", "zero_out"))
    node, cells = draw(rng, adjacency)
    return judge(node, cells, adjacency, Fraction(f"{10 ** -rng.uniform(2, 30):.3e}"))


def judge(node: Node, cells: Cells, adjacency: str, delta: Fraction) -> str | None:
    """One declaration and the cells of a mechanism that it describes."""
    try:
        bound = Account(node, central(adjacency), WIDTH).epsilon(delta)
    except Unsupported:
        return None
    known = max(epsilon_lower(c, float(delta)) for c in (cells, cells.swapped))
    most = known * (1 + NEAR) + NEAR if cells.worst else math.inf
    if bound.lower <= min(bound.upper, most) and known * (1 - TOLERANCE) <= bound.upper:
        return ""
    ends = f"[{float(bound.lower):.6g}, {float(bound.upper):.6g}]"
    return f"{ends} at delta={float(delta):.3g}, but {known:.6g}:\n{node!r}"
