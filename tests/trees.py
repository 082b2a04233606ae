"""Random declarations, each with the cells of a mechanism that it describes."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from fractions import Fraction

from dpaudit.accountant.account import Account
from dpaudit.errors import Unsupported
from dpaudit.families.adaptive import Select
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.batches import CyclicBatches, ShuffledBatches, TruncatedPoisson
from dpaudit.families.composition import Compose, Parallel, Repeat
from dpaudit.families.correlated import CorrelatedGaussian, Participation
from dpaudit.families.discrete import DiscreteGaussian, DiscreteLaplace, RandomizedResponse
from dpaudit.families.distributed import (
    DistributedGaussian,
    DistributedGaussianVector,
    DistributedSkellam,
    DistributedSkellamVector,
)
from dpaudit.families.events import Group
from dpaudit.families.individual import IndividualGaussian
from dpaudit.families.iterates import LastIterate, SampledLastIterate
from dpaudit.families.local import Shuffled, SubsetResponse
from dpaudit.families.opaque import GDP, ApproxDP, PureDP
from dpaudit.families.sampling import (
    PoissonSampled,
    RandomAllocation,
    SampledWithoutReplacement,
)
from dpaudit.families.tuning import Tuned
from dpaudit.nodes import Node
from dpaudit.scope import central
from tests.coarse import (
    Cells,
    best_of_runs,
    clipped,
    drawn,
    drawn_of,
    epsilon_lower,
    laplace,
    normal,
    one_of,
    response,
    sets,
    shuffled,
    stays,
    summed,
)

Tree = tuple[Node, Cells]
TOLERANCE = 1e-8
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
    """Sensitivity 1: the loss has two values, those of randomised response."""
    scale = rng.decimal(0.3, 5)
    return DiscreteLaplace("d", scale), response(float(1 / scale))


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
    return Parallel(*(node for node, _ in children)), children[-1][1]


def _select(rng: Draws, adjacency: str, depth: int) -> Tree:
    """The first is always chosen."""
    children = [draw(rng, adjacency, depth) for _ in range(2)]
    return Select(*(node for node, _ in children)), children[0][1]


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
    """Of records in a batch of one size, or who answer a poll among others: all are replaced."""
    if adjacency != "replace_one":
        return _users(rng, adjacency, depth)
    size, population = rng.randint(2, 5), rng.randint(5, 40)
    if rng.random() < 0.5:
        epsilon, choices = rng.decimal(0.05, 3), rng.choice((2, 3, 10))
        poll = Shuffled(RandomizedResponse("r", epsilon, choices), population)
        held = rng.choice((0, 1, 2))
        return Group(poll, size), shuffled(float(epsilon), choices, population, held, size)
    z, batch = rng.decimal(0.5, 6), rng.randint(1, population)
    sampled = SampledWithoutReplacement(Gaussian("g", z), batch, population)
    cells, times = drawn_of(float(1 / z), batch, population, size), rng.choice((1, 2, 10))
    return Group(Repeat(sampled, times), size), cells**times


def _allocated(rng: Draws, adjacency: str, depth: int) -> Tree:
    node, cells = draw(rng, adjacency, 0)
    slots = rng.choice((1, 2, 3, 10))
    return RandomAllocation(node, slots), one_of(cells, slots)


def _batches(rng: Draws, adjacency: str, depth: int) -> Tree:
    """One pass over batches in an order that is public, or secret; neighbours in place."""
    if adjacency == "add_remove":
        return _cut(rng, adjacency, depth)
    node, cells = draw(rng, adjacency, 0)
    batches, batch = rng.choice((1, 2, 3, 10)), rng.randint(1, 50)
    if rng.random() < 0.3:
        return CyclicBatches(node, batches * batch, batch), cells
    return ShuffledBatches(node, batches * batch, batch), one_of(cells, batches)


def _cut(rng: Draws, adjacency: str, depth: int) -> Tree:
    """A Poisson batch that is cut where it is too large."""
    node, cells = draw(rng, adjacency, 0)
    rate, population = Fraction(rng.randint(1, 100), 100), rng.randint(1, 40)
    batch = rng.randint(1, population)
    cut = TruncatedPoisson(node, rate, population, batch)
    return cut, cells.mixed(stays(float(rate), population, batch))


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
    kinds = [_compose, _repeat, _select, _tuned]
    if adjacency != "replace_one":
        kinds += [_parallel, _sampled, _allocated, _cut]
    return rng.choice(kinds)(rng, adjacency, 0)


def _tuned(rng: Draws, adjacency: str, depth: int) -> Tree:
    """The best of a geometric or logarithmic number of runs; outcomes are ranked as listed."""
    node, cells = rng.choice((_gaussian, _laplace, _pure, _response, _discrete_laplace))(rng)
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
)
COMBINED: tuple[Callable[[Draws, str, int], Tree], ...] = (
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
    if bound.lower <= bound.upper and known * (1 - TOLERANCE) <= bound.upper:
        return ""
    ends = f"[{float(bound.lower):.6g}, {float(bound.upper):.6g}]"
    return f"{ends} at delta={float(delta):.3g}, but at least {known:.6g}:\n{node!r}"
