"""Random declarations, each with the cells of a mechanism that it describes."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction

from dpaudit.accountant.account import Account
from dpaudit.families.adaptive import Select
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Compose, Parallel, Repeat
from dpaudit.families.discrete import DiscreteLaplace, RandomizedResponse
from dpaudit.families.events import Group
from dpaudit.families.opaque import GDP, ApproxDP, PureDP
from dpaudit.families.sampling import PoissonSampled, SampledWithoutReplacement
from dpaudit.nodes import Node
from dpaudit.scope import central
from tests.coarse import Cells, epsilon_lower, laplace, normal, response

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
    epsilon = rng.decimal(0.05, 3)
    return RandomizedResponse("r", epsilon), response(float(epsilon))


def _discrete_laplace(rng: Draws) -> Tree:
    """Sensitivity 1: the loss has two values, those of randomised response."""
    scale = rng.decimal(0.3, 5)
    return DiscreteLaplace("d", scale), response(float(1 / scale))


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


def _sampled(rng: Draws, adjacency: str, depth: int) -> Tree:
    """One child of the sampled kinds, whose batch the record joins."""
    node, cells = draw(rng, adjacency, 0)
    if adjacency == "replace_one":
        population = rng.randint(2, 100)
        batch = rng.randint(1, population)
        sampled = SampledWithoutReplacement(node, batch, population)
        return sampled, cells.mixed(batch / population)
    rate = Fraction(rng.randint(1, 100), 100)
    return PoissonSampled(node, rate), cells.mixed(float(rate))


LEAVES: tuple[Callable[[Draws], Tree], ...] = (
    _gaussian,
    _gdp,
    _laplace,
    _pure,
    _response,
    _discrete_laplace,
    _approximate,
)
COMBINED: tuple[Callable[[Draws, str, int], Tree], ...] = (
    _compose,
    _repeat,
    _parallel,
    _select,
    _group,
    _sampled,
)


def violations(seed: int, trees: int) -> list[str]:
    """Declarations whose upper bound is below a lower bound of a mechanism they describe."""
    rng = Draws(seed)
    return [found for _ in range(trees) if (found := _violation(rng))]


def _violation(rng: Draws) -> str:
    adjacency = rng.choice(("add_remove", "replace_one"))
    node, cells = draw(rng, adjacency)
    delta = Fraction(f"{10 ** -rng.uniform(2, 30):.3e}")
    bound = Account(node, central(adjacency), WIDTH).epsilon(delta)
    known = max(epsilon_lower(c, float(delta)) for c in (cells, cells.swapped))
    if bound.lower <= bound.upper and known * (1 - TOLERANCE) <= bound.upper:
        return ""
    ends = f"[{float(bound.lower):.6g}, {float(bound.upper):.6g}]"
    return f"{ends} at delta={float(delta):.3g}, but at least {known:.6g}:\n{node!r}"
