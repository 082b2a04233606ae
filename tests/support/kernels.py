"""Mechanisms that only the tests know, each a node, its rules and its kernel; and programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

import dpaudit.accountant.account  # noqa: F401  (registers the calculi)
from dpaudit.curator.curator import Curator, Sampler
from dpaudit.curator.replayer import Replayer
from dpaudit.exact import Number, sqrt
from dpaudit.exact.domains import count, number, positive, rate
from dpaudit.families.additive.kernel import GaussianKernel
from dpaudit.kernels.base import KERNELS, Generator, Kernel
from dpaudit.kernels.query import Array, Norm, Records
from dpaudit.measures.calculus import CALCULI, Source, always
from dpaudit.nodes import Leaf, Node
from dpaudit.scope import Adjacency, Scope

REPLACE_ONE = Scope("replace_one", "record", "central", "transcript")  # type: ignore[arg-type]
ZERO_OUT = REPLACE_ONE.under("zero_out")
ADD_REMOVE = REPLACE_ONE.under("add_remove")


# --- binary-tree noise: a session with a memory --------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class TreeGaussian(Leaf):
    """Release t of ``steps`` carries the nodes that tile 1..t (Fenwick), each N(0, s^2).

    ``noise_multiplier`` = s over the l2-sensitivity of every release.
    """

    label: str
    noise_multiplier: Number = number(positive)
    steps: Number = number(count)


class TreeKernel(Kernel):
    """The tree; the noise of prefix t is that of prefix t - lowbit(t) plus a fresh node."""

    memory = True

    def __init__(self, leaf: Any, trials: int) -> None:
        super().__init__(leaf, trials)
        self._nodes: dict[int, Array] = {}
        self._prefixes: dict[int, Array | float] = {0: 0.0}

    @staticmethod
    def releases(leaf: Any) -> int:
        return int(leaf.steps)

    def sample(self, values: Array, scale: Array, rng: Generator) -> Array:
        t = len(self._nodes) + 1
        self._nodes[t] = scale[:, None] * rng.standard_normal(values.shape)
        noise: Array = np.sum([self._nodes[k] for k in tiles(t)], axis=0)
        return values + noise

    def residual(self, released: Array, values: Array, scale: Array) -> Array:
        t = len(self._prefixes)
        return (released - values - self._prefixes[t - (t & -t)]) / scale[:, None]

    def log_density(self, released: Array, values: Array, scale: Array) -> Array:
        fresh = self.residual(released, values, scale)
        self._prefixes[len(self._prefixes)] = released - values
        return total_density(-0.5 * fresh**2, scale[:, None])


class IndependentTreeKernel(TreeKernel):
    """Wrong on purpose: the right variance of every release, and no memory."""

    def log_density(self, released: Array, values: Array, scale: Array) -> Array:
        nodes = len(tiles(len(self._prefixes)))
        self._prefixes[len(self._prefixes)] = 0.0
        deviation = np.sqrt(nodes) * scale[:, None]
        return total_density(-0.5 * ((released - values) / deviation) ** 2, deviation)


def total_density(exponents: Array, deviation: Array) -> Array:
    """Log densities summed over coordinates, with the normalising constant of a Gaussian."""
    density: Array = (exponents - np.log(deviation * np.sqrt(2 * np.pi))).sum(axis=-1)
    return density


def tiles(t: int) -> list[int]:
    """Ends of the dyadic blocks that tile 1..t."""
    return [t, *tiles(t - (t & -t))] if t else []


# --- a mixture of two Gaussians ------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class MixedGaussian(Leaf):
    """Each coordinate is released with probability ``weight``, 0 instead else; both with noise."""

    label: str
    noise_multiplier: Number = number(positive)
    weight: Number = number(rate)


class MixedKernel(Kernel):
    """The exact density of the mixture, coordinate by coordinate."""

    def sample(self, values: Array, scale: Array, rng: Generator) -> Array:
        shown = rng.random(values.shape) < float(self.leaf.weight)
        return np.where(shown, values, 0.0) + scale[:, None] * rng.standard_normal(values.shape)

    def log_density(self, released: Array, values: Array, scale: Array) -> Array:
        weight, deviation = float(self.leaf.weight), scale[:, None]
        shown = np.log(weight) - 0.5 * ((released - values) / deviation) ** 2
        hidden = np.log1p(-weight) - 0.5 * (released / deviation) ** 2
        return total_density(np.logaddexp(shown, hidden), deviation)

    def residual(self, released: Array, values: Array, scale: Array) -> Array:
        weight, deviation = float(self.leaf.weight), scale[:, None]
        below = weight * ndtr((released - values) / deviation)
        return ndtri(below + (1 - weight) * ndtr(released / deviation))


# --- registering them ----------------------------------------------------------------------------


def tree_mu(node: TreeGaussian) -> Number:
    """sqrt(floor(log2 steps) + 1) / z: one record sits in so many nodes."""
    return sqrt(int(node.steps).bit_length()) / node.noise_multiplier


def mixture_mu(node: MixedGaussian) -> Number:
    """1 / z: hiding the value some of the time does not reveal more of it."""
    return 1 / node.noise_multiplier


NEW: dict[type[Node], type[Kernel]] = {TreeGaussian: TreeKernel, MixedGaussian: MixedKernel}
for node_type in NEW:
    del Node.types[node_type.__name__]


@contextmanager
def registered() -> Iterator[None]:
    """The two mechanisms are known inside, and leave no trace."""
    calculus = CALCULI["gdp"]
    source = Source("Dwork, Naor, Pitassi, Rothblum", 2010, "Theorem 4.1")
    KERNELS.update(NEW)
    Node.types.update({kind.__name__: kind for kind in NEW})
    calculus.rule(TreeGaussian, "tree_mu", cite=source, attained=always)(tree_mu)
    calculus.rule(
        MixedGaussian, "mixture_mu", cite=Source("Dong, Roth, Su", 2022, "Proposition A.1")
    )(mixture_mu)
    try:
        yield
    finally:
        for kind in NEW:
            del KERNELS[kind], Node.types[kind.__name__], calculus._rules[kind]


# --- kernels that are wrong on purpose, for samplers ---------------------------------------------


class NoNoise(GaussianKernel):
    """Releases the value itself."""

    def sample(self, values: Array, scale: Array, rng: Generator) -> Array:
        return values.copy()


class Ruler(GaussianKernel):
    """Releases value plus scale: shows which noise a release would have carried."""

    def sample(self, values: Array, scale: Array, rng: Generator) -> Array:
        return values + scale[:, None]


# --- queries and programs ------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Stated:
    """A query of any function of the records, with whatever sensitivity it states."""

    function: Callable[[Records], Any]
    bound: Any = 1.0
    norm: Norm = "l2"

    def value(self, records: Records, chosen: NDArray[np.bool_] | None = None) -> Array:
        return np.asarray(self.function(records), dtype=np.float64)

    def sensitivity(self, adjacency: Adjacency, size: int) -> Any:
        return self.bound(size) if callable(self.bound) else self.bound


def total(records: Records) -> Array:
    """Sum of the rows that are present, as one trial."""
    summed: Array = (records.values * records.present[:, None]).sum(axis=0, keepdims=True)
    return summed


@dataclass(frozen=True, eq=False)
class Releases:
    """A program that makes some releases in order, and gives them back."""

    node: Node
    steps: tuple[tuple[str, Any], ...]

    def declaration(self, scope: Scope) -> Node:
        return self.node

    def run(self, curator: Curator) -> list[Array]:
        return [curator.release(label, query) for label, query in self.steps]


@dataclass(frozen=True, eq=False)
class Written:
    """A program whose run is a function of the curator."""

    node: Node
    body: Callable[[Curator], Any]

    def declaration(self, scope: Scope) -> Node:
        return self.node

    def run(self, curator: Curator) -> Any:
        return self.body(curator)


def sampled(
    program: Any, records: Records, scope: Scope, *, seed: int, trials: int = 1, **options: Any
) -> Sampler:
    """A sampler that has run a program."""
    rng = np.random.default_rng(seed)
    declaration = program.declaration(scope)
    sampler = Sampler(declaration, scope, records, rng=rng, trials=trials, **options)
    program.run(sampler)
    return sampler


def replayer(program: Any, pair: tuple[Records, Records], scope: Scope, **options: Any) -> Replayer:
    """The replayer of a program under its own declaration."""
    return Replayer(program, program.declaration(scope), scope, pair, **options)


def mean_exponential(
    program: Any, pair: tuple[Records, Records], scope: Scope, *, seed: int, trials: int
) -> tuple[float, float]:
    """E_D1[exp(score)], which is 1 for exact densities, and its standard error."""
    transcript = sampled(program, pair[1], scope, seed=seed, trials=trials).transcript
    ratios = np.exp(replayer(program, pair, scope).scores(transcript))
    return float(ratios.mean()), float(ratios.std() / np.sqrt(trials))


def zeroed(values: Any, which: int) -> tuple[Records, Records]:
    """Data, and the same with one record zeroed out."""
    rows = np.asarray(values, dtype=np.float64)
    return Records(rows), Records(rows, np.arange(len(rows)) != which)
