"""A pair of distributions, and the questions that it answers.

A pair (P, Q) stands for the privacy profile ``delta(x) = sup_S P(S) - x Q(S)`` at
``x = exp(epsilon)``; its privacy loss is ``L = log dP/dQ`` under P.  Parameters are exact numbers
or expressions.  A new pair is a subclass in a file of its own; every method here has an answer for
a pair of which only ``delta`` is known.
Source: Zhu, Dong, Wang 2022, Definition 7 (dominating pairs); composition: Theorem 10.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from dpaudit.errors import Unsupported
from dpaudit.exact import Number, enclose, infinity, is_infinite, readable, unknowns
from dpaudit.exact.later import Later
from dpaudit.pairs.balls import Ball, Delta
from dpaudit.pairs.cases import Case
from dpaudit.pairs.shape import guarded

if TYPE_CHECKING:
    from dpaudit import grids
else:
    grids = Later("dpaudit.grids")

Factor = tuple["Pair", Number]
Branch = tuple[Number, Number, "Pair"]
Extremes = tuple[Number, Number]
# Masses under P and Q of each outcome.
Outcomes = tuple[tuple[Number, Number], ...]
Change = Callable[[Number], Number]
Comparisons = Mapping[str, Callable[[Any, Any], bool]]


class Sample(NamedTuple):
    """A base pair whose record is present at a rate."""

    base: Pair
    rate: Number


class Replacement(NamedTuple):
    """How far a replaced record moves normal noise, and at which rate it is in a batch."""

    mu: Number
    rate: Number


class Opposition(NamedTuple):
    """How far a record, and its opposite, move normal noise, and at which rate either is drawn."""

    mu: Number
    rate: Number


class Lattice(NamedTuple):
    """Discrete normal noise: its variance, and how many whole numbers it moves by."""

    variance: Number
    shift: Number


class Report(NamedTuple):
    """A report among those of others, as :class:`Clones`; ``rest`` as :class:`Blanket`.

    ``is_polled``: any number of the others may hold either value, as :class:`Polled`.
    """

    epsilon: Number
    told: Number
    rate: Number
    others: Number
    rest: Number | None = None
    is_polled: bool = False


class Tally(NamedTuple):
    """Ones among binary reports, as :class:`Tallied`."""

    epsilon: Number
    rare: Number
    others: Number


class Slots(NamedTuple):
    """One record in one of several slots; ``others_move``: all others contribute the opposite."""

    noise_multiplier: Number
    slots: Number
    others_move: bool


class Threshold(NamedTuple):
    """A score against a secret threshold, as :class:`Thresholded`."""

    epsilon: Number
    kappa: Number
    offset: Number
    slope: Number


class Divergence(NamedTuple):
    """A bound of Renyi divergence: at an order, or at every order times that order."""

    order: Number | None
    value: Number


@dataclass(frozen=True)
class Pair:
    """A pair (P, Q) of distributions."""

    # Whether the profile of one such pair is nowhere below that of another with a smaller number.
    is_ordered: ClassVar[bool] = False
    # Whether its profile is that of the pair swapped.
    is_symmetric: ClassVar[bool] = False
    # Whether this is (Q, P) of another pair.
    is_swapped: ClassVar[bool] = False
    # Whether this is several independent pairs together.
    is_product: ClassVar[bool] = False
    # Whether all mass is on single outcomes.
    is_discrete: ClassVar[bool] = False
    # Whether upper bounds of the inner pairs' deltas give one of its own, by :meth:`delta`.
    grows_with_inner: ClassVar[bool] = False
    # Parameters that may be larger in a pair that dominates; all others have to be equal.
    grows: ClassVar[Comparisons] = {}

    def __init_subclass__(cls) -> None:
        # Set here, a hash is kept by ``dataclass``; large fractions are slow to hash.
        cls.__hash__ = Pair.__hash__  # type: ignore[method-assign]
        if "delta" in cls.__dict__:
            cls.delta = guarded(cls.delta)  # type: ignore[method-assign]

    def __hash__(self) -> int:
        stored: int | None = self.__dict__.get("_hash")
        if stored is None:
            stored = hash((type(self), *(value for value in self.__dict__.values())))
            self.__dict__["_hash"] = stored
        return stored

    def __getstate__(self) -> dict[str, Any]:
        # Hashes of texts differ from process to process.
        return {name: value for name, value in self.__dict__.items() if name != "_hash"}

    # --- names and forms -------------------------------------------------------------------------

    @property
    def text(self) -> str:
        """The pair in a few words: ``Mixed(Normal(mu=1), rate=0.01)``."""
        return "".join(self.pieces())

    def pieces(self) -> Iterator[str]:
        """The text in pieces, none of them empty."""
        yield f"{type(self).__name__}("
        yield from _separated(_named(f.name, getattr(self, f.name)) for f in fields(self))
        yield ")"

    @property
    def swapped(self) -> Pair:
        """The pair (Q, P)."""
        return Swapped(self)

    @property
    def unswapped(self) -> Pair:
        """The pair itself, or the one that it is the swap of."""
        return self

    @property
    def factors(self) -> tuple[Factor, ...]:
        """The independent factors of a product, each with its count."""
        return ((self, Fraction(1)),)

    @property
    def inner(self) -> tuple[Pair, ...]:
        """The pairs that this one is made of; a product has factors instead."""
        return ()

    @property
    def alternatives(self) -> tuple[Pair, ...]:
        """Pairs whose pointwise largest profile this is."""
        return (self,)

    @property
    def sample(self) -> Sample | None:
        """The base and the rate of a sampled pair; None for any other."""
        return None

    @property
    def noise(self) -> Pair:
        """The pair that this one samples or swaps, in turn; itself where it does neither."""
        return self

    @property
    def seen(self) -> tuple[Branch, ...]:
        """Branches (p, q, base) that an observer sees; empty where there are none."""
        return ()

    @property
    def gaussian_shift(self) -> Number | None:
        """mu where this is N(mu, 1) against N(0, 1); None for any other pair."""
        return None

    @property
    def laplace_epsilon(self) -> Number | None:
        """The largest loss where this is Laplace noise; None for any other pair."""
        return None

    @property
    def lattice(self) -> Lattice | None:
        """Variance and shift where this is discrete normal noise; None for any other pair."""
        return None

    @property
    def replacement(self) -> Replacement | None:
        """A record replaced in sampled batches, whose rounds may be chosen by earlier ones."""
        return None

    @property
    def opposition(self) -> Opposition | None:
        """A drawn record and its opposite, as :class:`Opposed`; None for any other pair."""
        return None

    @property
    def report(self) -> Report | None:
        """One report hidden among those of others; None for any other pair."""
        return None

    @property
    def tally(self) -> Tally | None:
        """Ones among binary reports; None for any other pair."""
        return None

    @property
    def slotted(self) -> Slots | None:
        """A record in one of several slots; None for any other pair."""
        return None

    @property
    def threshold(self) -> Threshold | None:
        """A score against a secret threshold; None for any other pair."""
        return None

    @property
    def divergence(self) -> Divergence | None:
        """The Renyi divergence, where nothing else is known of the pair."""
        return None

    @property
    def splice(self) -> tuple[Pair, Pair] | None:
        """The pairs whose profiles hold at x >= 1 and below; None for any other pair."""
        return None

    @property
    def lower(self) -> Pair:
        """A pair that is no further apart, where profiles of this one are known from above only."""
        return self

    @property
    def finite_outcomes(self) -> Outcomes | None:
        """All outcomes where they are finitely many, sampled or not; None for any other pair."""
        return self.listed

    @property
    def listed(self) -> Outcomes | None:
        """All outcomes, (P mass, Q mass), where the pair lists them; None for any other pair."""
        return None

    @property
    def case_count(self) -> int:
        """How many :attr:`cases` there are; 0 where noise is left that they do not know."""
        return 0

    @property
    def cases(self) -> Iterator[Case]:
        """Choices of branches and outcomes, each of which leaves normal or Laplace noise."""
        yield from ()

    def among(self, others: Number) -> Pair:
        """The pair of this report among another number of others; itself, if it is no report."""
        return self

    def scaled(self, size: Number) -> Pair | None:
        """The pair of a move that is ``size`` times as long; None where none is known."""
        return None

    def with_numbers(self, change: Change) -> Pair:
        """A copy with every parameter changed by a function."""
        return type(self)(*(_changed(getattr(self, f.name), change) for f in fields(self)))

    # --- losses ----------------------------------------------------------------------------------

    @property
    def extremes(self) -> Extremes:
        """(minus the smallest loss where Q has mass, the largest where P has mass).

        Either may be infinite, and is where nothing else is known.
        """
        return infinity(), infinity()

    # --- the profile -----------------------------------------------------------------------------

    def delta(self, x: Ball, of: Delta | None = None) -> Ball:
        """A ball around delta at x > 0, at the working precision.

        ``of`` gives delta of the pairs that this one is made of; by default they do so themselves.
        Errors: Unsupported where no closed form is known.
        """
        raise Unsupported(f"{type(self).__name__}: no closed form of its profile is known")

    @property
    def has_delta(self) -> bool:
        """Whether :meth:`delta` is known, of all pairs that this one is made of, too."""
        own = type(self).delta is not Pair.delta
        return own and all(part.has_delta for part in self.inner)

    @property
    def is_over_compositions(self) -> bool:
        """Whether an engine has to give the inner pairs' deltas."""
        return self.grows_with_inner and not self.has_delta

    @property
    def delta_cost(self) -> int:
        """About how many deltas of simple pairs one delta takes."""
        return max((part.delta_cost for part in self.inner), default=1)

    # --- on a grid of losses ---------------------------------------------------------------------

    def loss_masses(self, tail: float) -> grids.Closed | None:
        """P and Q masses between any two losses, beyond a span that holds all but ``tail``.

        None where they have no closed form.
        """
        return None

    def cells(self, grid: grids.Grid, lean: int = 1) -> grids.Cells | None:
        """The masses of a grid's cells; edges lie below their nodes (lean 1) or above (lean -1)."""
        masses = self.loss_masses(grid.tail)
        return None if masses is None else grids.cells_from(masses, grid, lean)

    def on_grid(self, grid: grids.Grid, side: grids.Side) -> grids.Discrete:
        """The pair's profile on a grid, from above or from below.

        Errors: Unsupported for a pair or a side of which no profile is known; TooFine for a grid
        with too many nodes; InvalidParameter for symbols without a value.
        """
        return grids.checked(self._on_grid(grid, side), side, type(self).__name__)

    def _on_grid(self, grid: grids.Grid, side: grids.Side) -> grids.Discrete:
        cells = self.cells(grid)
        if cells is not None:
            return cells.discrete(side)
        if self.has_delta:
            return grids.by_chords(self.delta, grid, side, self.delta_cost)
        raise Unsupported(f"{type(self).__name__}: no privacy profile is known for this pair")

    def _swapped_on_grid(self, grid: grids.Grid, side: grids.Side) -> grids.Discrete:
        """The profile of (Q, P), where masses have no closed form."""
        if self.has_delta and type(self)._on_grid is Pair._on_grid:
            return grids.by_chords(Swapped(self).delta, grid, side, self.delta_cost)
        if side is grids.Side.LOWER:
            name = type(self).__name__
            raise grids.NoLower(f"{name} swapped: only an upper profile is known")
        return grids.turned(self.on_grid(grid, side), grid)

    @property
    def near_largest_loss(self) -> Fraction | None:
        """About the largest loss, where it is known at once."""
        return None

    @property
    def anchors(self) -> list[float] | None:
        """Absolute losses that have a probability of their own; of a lattice, half its unit.

        None where nothing is known of them.
        """
        return None

    # --- comparison ------------------------------------------------------------------------------

    def dominates(self, other: Pair) -> bool:
        """Whether no value of this pair's profile is below the other's, as far as forms show.

        More noise, a lower rate of sampling, fewer rounds: a pair that is less informative is less
        so in any composition (Blackwell 1951; Dong, Roth, Su 2022, Theorem 2.10).
        """
        if self == other:
            return True
        if len(self.alternatives) != 1 or len(other.alternatives) != 1:
            return all_dominated(self.alternatives, other.alternatives)
        return type(self) is type(other) and self._dominates_alike(other)

    def _dominates_alike(self, other: Any) -> bool:
        """Whether this pair dominates another of its type, by the parameters in which it grows."""
        return bool(self.grows) and all(
            self.grows.get(f.name, equal)(getattr(self, f.name), getattr(other, f.name))
            for f in fields(self)
        )


@dataclass(frozen=True)
class Symmetric(Pair):
    """A pair whose profile is that of the pair swapped."""

    is_symmetric = True

    @property
    def swapped(self) -> Pair:
        return self


def gaussian_shifts(pairs: Iterable[Pair]) -> list[Number]:
    """mu of every pair that is Gaussian noise with a shift other than 0."""
    shifts = (pair.gaussian_shift for pair in pairs)
    return [mu for mu in shifts if mu is not None and mu != 0]


def at_least(stated: Any, own: Any) -> bool:
    """Whether one number is at least another, for certain."""
    if isinstance(stated, (Pair, tuple)):
        return False
    if stated == own:
        return True
    if any(is_infinite(value) or unknowns(value) for value in (stated, own)):
        return False
    return bool(enclose(stated) >= enclose(own))


def rate_at_least(stated: Any, own: Any) -> bool:
    """Whether a probability is at least another, for certain; it must be at most 1."""
    return at_least(stated, own) and at_least(Fraction(1), stated)


def each_at_least(stated: Any, own: Any) -> bool:
    """Whether each of as many numbers is at least the other's, for certain."""
    return len(stated) == len(own) and all(map(at_least, stated, own))


def dominating(stated: Any, own: Any) -> bool:
    """Whether a stated pair dominates another, for certain."""
    return isinstance(stated, Pair) and stated.dominates(own)


def equal(stated: Any, own: Any) -> bool:
    """Whether both parameters are equal."""
    return bool(stated == own)


def all_dominated(stated: tuple[Pair, ...], own: tuple[Pair, ...]) -> bool:
    """Whether each of ``own`` has one that dominates it, and none of ``stated`` is of another."""
    return all(any(dominating(s, o) for s in stated) for o in own) and all(
        any(dominating(s, o) for o in own) for s in stated
    )


@dataclass(frozen=True)
class Swapped(Pair):
    """(Q, P) for the base (P, Q); made by :attr:`Pair.swapped` only."""

    base: Pair

    is_swapped = True
    grows: ClassVar[Comparisons] = {"base": dominating}

    @property
    def swapped(self) -> Pair:
        return self.base

    @property
    def unswapped(self) -> Pair:
        return self.base

    @property
    def inner(self) -> tuple[Pair, ...]:
        return (self.base,)

    @property
    def noise(self) -> Pair:
        return self.base.noise

    @property
    def finite_outcomes(self) -> Outcomes | None:
        outcomes = self.base.finite_outcomes
        return None if outcomes is None else tuple((q, p) for p, q in outcomes)

    @property
    def extremes(self) -> Extremes:
        low, high = self.base.extremes
        return high, low

    def delta(self, x: Ball, of: Delta | None = None) -> Ball:
        """1 - x + x delta_base(1 / x)."""
        return 1 - x + x * (of or delta_of)(self.base, 1 / x)

    def loss_masses(self, tail: float) -> grids.Closed | None:
        base = self.base.loss_masses(tail)
        return None if base is None else grids.turned_form(base)

    def _on_grid(self, grid: grids.Grid, side: grids.Side) -> grids.Discrete:
        cells = self.cells(grid)
        return self.base._swapped_on_grid(grid, side) if cells is None else cells.discrete(side)


def delta_of(pair: Pair, x: Ball) -> Ball:
    """The pair's own delta."""
    return pair.delta(x)


@lru_cache(maxsize=256)
def largest_loss(pair: Pair) -> Number:
    """The essential supremum of the loss under P: the epsilon at delta = 0; may be infinite."""
    return pair.extremes[1]


def _named(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, Pair):
        yield from value.pieces()
    elif isinstance(value, tuple):
        yield "["
        yield from _separated(_named("", item) for item in value)
        yield "]"
    else:
        yield f"{name}={readable(value)}" if name else readable(value)


def _separated(texts: Iterable[Iterator[str]]) -> Iterator[str]:
    for place, text in enumerate(texts):
        if place:
            yield ", "
        yield from text


class ByText:
    """A pair in the order of texts, of which no more is made than a comparison needs.

    An atom's numbers are expressions, whose texts take longer than all else of a composition.
    """

    def __init__(self, pair: Pair) -> None:
        self._start, self._pieces = "", pair.pieces()

    def __lt__(self, other: ByText) -> bool:
        while self._start.startswith(other._start) or other._start.startswith(self._start):
            more, others = next(self._pieces, ""), next(other._pieces, "")
            if not more + others:
                break
            self._start, other._start = self._start + more, other._start + others
        return self._start < other._start


def _changed(value: Any, change: Change) -> Any:
    if isinstance(value, Pair):
        return value.with_numbers(change)
    if isinstance(value, tuple):
        return tuple(_changed(item, change) for item in value)
    return change(value)


def numbers_in(value: Any) -> list[Number]:
    """Every parameter inside a pair, in order."""
    if is_dataclass(value):
        return [n for f in fields(value) for n in numbers_in(getattr(value, f.name))]
    if isinstance(value, tuple):
        return [n for item in value for n in numbers_in(item)]
    return [value]
