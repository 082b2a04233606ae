"""Kernels: how a noise leaf is sampled, and the density of what it releases.

A kernel is opened as a session per run; a session may keep state between releases.  ``scale`` is
the noise multiplier times the query's sensitivity, shape (trials,).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from scipy.special import ndtr, ndtri

from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.exact import enclose
from dpaudit.kernels.query import Array, Norm, Query
from dpaudit.nodes import Node, postorder
from dpaudit.nodes.registry import load
from dpaudit.scope import Adjacency

Generator = np.random.Generator
SCALE_ROUNDING = 1 + 1e-9  # a comparison of scales allows for their rounding as floats


class Session(Protocol):
    """One run of one kernel, for all trials at once; arrays are (trials, d).

    ``sample``, ``log_density`` and ``advance`` advance a session that keeps state; ``centre`` and
    ``residual`` do not, and are asked for before the ``log_density`` of the same release.
    """

    norm: ClassVar[Norm]
    continuous: ClassVar[bool]
    rounds: ClassVar[bool]
    spread: Generator | None

    def admit(self, scale: Array, dimension: int) -> None:
        """Errors: InvalidParameter for what it cannot release; asked before data is touched."""

    def sample(self, values: Array, scale: Array, rng: Generator) -> Array:
        """Draw what is released around the noise-free values."""

    def log_density(self, released: Array, values: Array, scale: Array) -> Array:
        """Log density of the release given the session's past, shape (trials,), normalised."""

    def residual(self, released: Array, values: Array, scale: Array) -> Array:
        """The noise mapped to i.i.d. N(0, 1) if it was drawn as declared, shape (trials, d)."""

    def centre(self, values: Array) -> Array:
        """The release without noise."""

    def advance(self, values: Array, scale: Array) -> None:
        """Take a release without noise for made."""

    def sample_away(
        self, values: Array, others: Array, shift: Array, scale: Array, rng: Generator
    ) -> Array:
        """Draw a proposal's release, from a distribution shifted away from that at other values."""

    def log_density_away(
        self, released: Array, values: Array, others: Array, shift: Array, scale: Array
    ) -> Array:
        """Log density of what a proposal releases, shape (trials,), normalised."""

    def compared(
        self, other: Session, released: Array, values: Array, others: Array, scale: Array
    ) -> tuple[Array, Array]:
        """Log density of the release, and its difference to that in another session."""

    def apart(self, values: Array, others: Array, stated: Array) -> Array:
        """How far apart two values are, (trials,), to be held against a stated sensitivity."""

    def prepared(
        self, query: Query, adjacency: Adjacency, size: int, rng: Generator | None
    ) -> Query:
        """The query as it is asked, with whatever noise it hides; asked before all else."""


class Search(Protocol):
    """How many runs a search makes, and what its best one's rank says; arrays are (trials,)."""

    may_find_none: ClassVar[bool]
    leaf: Any

    def numbers(self, rng: Generator) -> Array:
        """How many runs are made."""

    def log_weight(self, share: Array) -> Array:
        """Log density of the best at a rank, over that of one run; 0 to a constant."""

    def number_residual(self, numbers: Array) -> Array:
        """The numbers mapped to N(0, 1) if they were drawn as declared."""


class Kernel:
    """Base of kernels: local facts about a leaf type.

    ``memory``: whether a session keeps state from one release of a use to the next; it then needs
    every trial on, and every use opens a session of its own.
    ``searches``: whether it is no release but the best of several runs (:class:`Search`).
    ``rounds``: whether values are rounded to whole numbers before noise is added.
    ``hides``: whether noise inside a release never shows, so that an audit has to note it.
    ``spread``: the generator of the uniform numbers that spread an outcome of positive probability
    over its share of [0, 1] in ``residual``.  It is independent of all noise, so that residuals are
    exactly N(0, 1) for every law, also one of few values; of the system where nobody gave one.
    """

    norm: ClassVar[Norm] = "l2"
    continuous: ClassVar[bool] = True
    rounds: ClassVar[bool] = False
    memory: ClassVar[bool] = False
    hides: ClassVar[bool] = False
    searches: ClassVar[bool] = False
    spread: Generator | None = None

    def __init__(self, leaf: Any, trials: int) -> None:
        self.leaf = leaf
        self.trials = trials

    def admit(self, scale: Array, dimension: int) -> None:
        """Any scale and dimension, unless a kernel says otherwise."""

    def uniforms(self, *shape: int) -> Array:
        """Numbers inside (0, 1), of ``spread``: whole multiples of 2^-53, moved by half of one."""
        if self.spread is None:
            self.spread = np.random.default_rng()
        return np.asarray((self.spread.integers(2**53, size=shape) + 0.5) * 2.0**-53)

    def prepared(
        self, query: Query, adjacency: Adjacency, size: int, rng: Generator | None
    ) -> Query:
        """The query, unless a kernel hides noise inside it: of ``rng``, or fixed without one."""
        return query

    def centre(self, values: Array) -> Array:
        """The values, unless a kernel keeps a sum of them."""
        return values

    def advance(self, values: Array, scale: Array) -> None:
        """Nothing, unless a kernel keeps state."""

    def follow(self, released: Array, values: Array, scale: Array) -> None:
        """Record a release whose density nobody needs, now or later in this session.

        As ``log_density`` does, unless a kernel keeps what only densities need.
        """
        session: Any = self
        session.log_density(released, values, scale)

    def away(self, values: Array, others: Array, shift: Array) -> Array:
        """Values at which a release leans away from ``others``: v - shift (w - v), where finite.

        A proposal draws there (:mod:`dpaudit.curator.proposal`); ``shift``: (trials,), 0 for none.
        """
        with np.errstate(all="ignore"):
            moved = values - shift[:, None] * (others - values)
        return np.where(np.isfinite(moved), moved, values)

    def sample_away(
        self, values: Array, others: Array, shift: Array, scale: Array, rng: Generator
    ) -> Array:
        """Draw shifted away from the distribution at ``others``; as declared where shift is 0."""
        session: Any = self
        return np.asarray(session.sample(self.away(values, others, shift), scale, rng))

    def log_density_away(
        self, released: Array, values: Array, others: Array, shift: Array, scale: Array
    ) -> Array:
        """Log density of :meth:`sample_away`, (trials,), normalised."""
        session: Any = self
        return np.asarray(session.log_density(released, self.away(values, others, shift), scale))

    def compared(
        self, other: Any, released: Array, values: Array, others: Array, scale: Array
    ) -> tuple[Array, Array]:
        """Log density of a release here, and how far it is above that in another session.

        Each (trials,).  A kernel may add up the difference with less rounding than this.
        """
        session: Any = self
        first = session.log_density(released, values, scale)
        return first, np.asarray(first - other.log_density(released, others, scale))

    def apart(self, values: Array, others: Array, stated: Array) -> Array:
        """Their distance in the kernel's norm, unless a release has parts of several kinds."""
        difference = values - others
        return np.asarray(np.linalg.norm(difference, ord=1 if self.norm == "l1" else 2, axis=-1))

    @staticmethod
    def multiplier(leaf: Any) -> float:
        """Noise scale over sensitivity, as a float."""
        return float(enclose(leaf.noise_multiplier).mid())

    @staticmethod
    def releases(leaf: Any) -> int:
        """How many releases one use of the leaf covers."""
        return 1


KERNELS: dict[type[Node], type[Any]] = {}
_EXACT: dict[type[Node], type[Any]] = {}
KernelType = TypeVar("KernelType", bound=type)


def kernel(node_type: type[Node]) -> Callable[[KernelType], KernelType]:
    """Class decorator: the kernel of a leaf type.

    Errors: InvalidParameter where another module registered one for it.
    """
    return _registering(KERNELS, node_type)


def exact_kernel(node_type: type[Node]) -> Callable[[KernelType], KernelType]:
    """Class decorator: the kernel of a leaf type whose draws are exact, for a release.

    Errors: as :func:`kernel`.
    """
    return _registering(_EXACT, node_type)


def _registering(
    table: dict[type[Node], type[Any]], node_type: type[Node]
) -> Callable[[KernelType], KernelType]:
    def register(cls: KernelType) -> KernelType:
        registered = table.get(node_type)
        if registered is not None and registered.__module__ != cls.__module__:
            raise InvalidParameter(
                f"{node_type.__name__} has a kernel already, {registered.__qualname__} of "
                f"{registered.__module__}: give your noise a node type of its own"
            )
        table[node_type] = cls
        return cls

    return register


def exact_kernels() -> Mapping[type[Node], type[Any]]:
    """Kernels for a sampler that releases: ``Sampler(..., rng=..., kernels=exact_kernels())``."""
    load("kernel")
    return _EXACT


def kernel_of(leaf: Node) -> type[Any]:
    """The kernel of a leaf.

    Errors: Unsupported for leaves that somebody else's code has to run.
    """
    load("kernel")
    try:
        return KERNELS[type(leaf)]
    except KeyError:
        names = ", ".join(sorted(t.__name__ for t in KERNELS))
        raise Unsupported(f"{leaf.head} cannot be sampled here; leaves that can: {names}") from None


def require_kernels(root: Node) -> None:
    """Before a program runs: whoever adds noise of their own adds its kernel too.

    A node that states a guarantee in a measure is opaque, and is drawn by somebody else's code.
    Errors: Unsupported for another leaf of somebody else's without a kernel.
    """
    load("kernel")
    for node in postorder(root):
        needs_none = node.is_shipped or node.states_in or node.children
        if not needs_none and type(node) not in KERNELS:
            raise Unsupported(
                f"{node.head}: no kernel draws it; register one beside the node, with "
                f"@kernel({type(node).__name__})"
            )


def exact_match(released: Array, values: Array) -> Array:
    """Log density of a point mass: 0 where the release equals the value, else -infinity."""
    return np.where((released == values).all(axis=-1), 0.0, -np.inf)


def standardised(released: Array, values: Array, scale: Array) -> Array:
    """(released - values) / scale; NaN where the scale is zero, since nothing was drawn there."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(scale[:, None] > 0, (released - values) / scale[:, None], np.nan)


# If a release is rounded more coarsely than this share of its scale, its score is spread over the
# cell.
COARSE_ROUNDING = 2.0**-30
LEAST_PROBABILITY = 1e-300  # Lower limit of a probability, so that its normal score stays finite.


def normal_scores(
    released: Array,
    values: Array,
    scale: Array,
    uniforms: Callable[..., Array],
    below: Callable[[Array], Array] | None = None,
) -> Array:
    """Added noise as N(0, 1) numbers, (trials, d), at every size of the values; NaN without noise.

    ``below``: the distribution function of the noise over its scale, symmetric around 0; the normal
    one where it is None.  A float that is released stands for all numbers that are rounded to it:
    where these are more than 2^-30 of the scale, a uniform number chooses a score among theirs.
    """
    noise, law = standardised(released, values, scale), below or ndtr
    side = np.where(noise > 0, -1.0, 1.0)  # to the lower tail, where few digits are lost
    scores = (
        noise if below is None else side * ndtri(np.maximum(law(side * noise), LEAST_PROBABILITY))
    )
    with np.errstate(all="ignore"):
        unit = 2 * np.where(scale > 0, scale, 1.0)[:, None]
        down = (released - np.nextafter(released, -np.inf)) / unit
        up = (np.nextafter(released, np.inf) - released) / unit
    coarse = (np.maximum(down, up) > COARSE_ROUNDING) & np.isfinite(noise)
    if coarse.any():
        ends = np.where(side > 0, down, up), np.where(side > 0, up, down)
        low, high = law(side * noise - ends[0]), law(side * noise + ends[1])
        share = low + (high - low) * uniforms(*noise.shape)
        spread = side * ndtri(np.clip(share, LEAST_PROBABILITY, 1 - 2.0**-53))
        scores = np.where(coarse, spread, scores)
    return np.asarray(scores)


def laplace_below(noise: Array) -> Array:
    """The distribution function of Laplace noise of scale 1."""
    tail = 0.5 * np.exp(-np.abs(noise))
    return np.asarray(np.where(noise < 0, tail, 1 - tail))
