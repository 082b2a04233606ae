"""The exact sum that the releases under a filter have spent of its cap, for each trial.

Every charge is made of the noise multiplier that the release is drawn with.  Sums are kept as
whole numbers of 2^-60 of the cap, once rounded up and once down; where these do not decide, the
exact fractions of all charges so far do.  So a trial is refused if and only if its exact sum would
pass the cap, whatever the other trials did.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.accountant.filters.caps import caps_of, own_method
from dpaudit.accountant.filters.charges import (
    Amounts,
    Charge,
    declared,
    raised,
    refuse_refunds,
    shown,
)
from dpaudit.errors import InvalidParameter, Undeclared, Unsupported
from dpaudit.exact import canonical, enclose, sympify
from dpaudit.exact.domains import positive
from dpaudit.families.adaptive import Filter, FilterMeasure
from dpaudit.measures.calculus import CALCULI
from dpaudit.nodes import Leaf, Node
from dpaudit.nodes.registry import load
from dpaudit.scope import Adjacency, central

Mask = NDArray[np.bool_]
Units = NDArray[np.int64]
Floats = NDArray[np.float64]
CAP_UNITS = 2**60  # A cap in integer units; the sum of two such numbers fits into 64 bits.
TOO_MUCH = 2**61  # units: above every cap, and a sum with one still fits 64 bits
# Relative error of a charge, far above that of its floating-point arithmetic.
CHARGE_ROUNDING = 2.0**-48


NEEDED = {"label", "noise_multiplier"}


@dataclass(frozen=True)
class Price:
    """A charge as ``factor`` / multiplier^``power``, in the measure's own sums.

    Errors: InvalidParameter for a factor that is not positive.
    """

    factor: Fraction
    power: int

    def __post_init__(self) -> None:
        positive(self.factor, "Price.factor")

    def exactly(self, multiplier: float) -> Fraction:
        """The charge of one multiplier, a float taken as the number it is."""
        return self.factor / Fraction(multiplier) ** self.power


@dataclass(frozen=True, eq=False)
class Paid:
    """One release: what it cost, by multiplier, in the trials that were on."""

    price: Price
    multipliers: Floats
    on: Mask


class Spending:
    """The sums of one Filter node during one run, for all trials.

    Errors: InvalidParameter for a cap with symbols; Unsupported for a kind of release that curators
    do not charge in the filter's measure.
    """

    def __init__(self, node: Filter, trials: int) -> None:
        self.node = node
        self._prices = {leaf: price_of(leaf, node) for leaf in leaves_of(node)}
        self._cap = caps_of(node.budget, own_method(node.budget), Amounts(), Fraction(1, 2))[0]
        refuse_refunds(node.head, [self._cap], [p.factor for p in self._prices.values()])
        self._roots = {
            p: float((enclose(self._cap / p.factor) ** Fraction(1, p.power)).mid())
            for p in self._prices.values()
        }
        self._paid: list[Paid] = []
        self._upper: Units = np.zeros(trials, dtype=np.int64)
        self._lower: Units = np.zeros(trials, dtype=np.int64)

    @property
    def cap(self) -> Fraction:
        """The largest sum: of epsilon, of rho, or of mu^2."""
        return self._cap

    def spent(self, trial: int) -> Fraction:
        """The exact sum of a trial: an odometer's reading, which is no guarantee."""
        paid = (p for p in self._paid if p.on[trial])
        return sum((p.price.exactly(float(p.multipliers[trial])) for p in paid), Fraction(0))

    def admits(self, leaf: Node, multipliers: Floats, on: Mask) -> Mask:
        """Where a release with these multipliers fits; nothing is spent.

        A multiplier that is no positive, finite number fits nowhere.
        """
        return self._judged(leaf, multipliers, on)[0]

    def _judged(self, leaf: Node, multipliers: Floats, on: Mask) -> tuple[Mask, Units, Units]:
        """Where a charge fits, and the charge in units, rounded up and down."""
        price = self._prices[leaf]
        valid = np.isfinite(multipliers) & (multipliers > 0) & on
        safe = np.where(valid, multipliers, 1.0)
        above, below = self._units(price, safe)
        fits = valid & (self._upper + above <= CAP_UNITS)
        doubtful = valid & ~fits & (self._lower + below <= CAP_UNITS)
        for trial in np.flatnonzero(doubtful):
            charge = price.exactly(float(safe[trial]))
            fits[trial] = self.spent(int(trial)) + charge <= self._cap
        return np.asarray(fits), above, below

    def spend(self, label: str, leaf: Node, multipliers: Floats, on: Mask) -> None:
        """Charge the trials that are on: before data is touched, all of them or none.

        Errors: Undeclared where a charge would pass the cap in some trial.
        """
        fits, above, below = self._judged(leaf, multipliers, on)
        refused = on & ~fits
        if refused.any():
            raise Undeclared(
                f"release {label!r}: its charge would pass the cap {shown(self._cap)} of its "
                f"{self.node.measure} filter in {int(refused.sum())} of {int(on.sum())} trials "
                "that are on; use more noise, or ask admits first and stop"
            )
        # Sums that the exact fractions admitted may have been rounded up past the cap.
        self._upper = np.where(on, self._upper + above, self._upper)
        self._lower = np.where(on, self._lower + below, self._lower)
        used = np.where(on, multipliers, np.nan)
        self._paid.append(Paid(self._prices[leaf], used, on))

    def _units(self, price: Price, multipliers: Floats) -> tuple[Units, Units]:
        """A charge in 2^-60 of the cap, rounded up (to at least 1) and down."""
        with np.errstate(all="ignore"):
            share = (1.0 / (multipliers * self._roots[price])) ** price.power * CAP_UNITS
        if not np.all(share >= 0):
            # A NaN would become the most negative integer, which gives everything back.
            raise InvalidParameter(f"{self.node.head}: a charge is negative or not a number")
        above = np.minimum(np.ceil(share * (1 + CHARGE_ROUNDING)), TOO_MUCH)
        below = np.minimum(np.floor(share * (1 - CHARGE_ROUNDING)), TOO_MUCH)
        return np.maximum(above, 1).astype(np.int64), below.astype(np.int64)


def leaves_of(node: Filter) -> tuple[Node, ...]:
    """The kinds of releases that a filter charges."""
    return (node.child,) if isinstance(node.child, Leaf) else node.child.children


def has_fixed_noise(leaf: Node) -> bool:
    """Whether the leaf's parameters alone fix its charge, without a multiplier per release."""
    return "noise_multiplier" not in leaf.parameters


def refuse_excess(node: Filter) -> None:
    """Refuse a filter of leaves with fixed noise that cost more than its cap, each once.

    The noise of each may depend on earlier releases: a filter's theorem only requires that each
    cost is fixed by the past and that the costs sum to at most the cap.
    Errors: InvalidParameter where the sum passes the cap; Unsupported for a leaf or measure without
    a charge.
    """
    load("rules")
    cap = caps_of(node.budget, own_method(node.budget), Amounts(), Fraction(1, 2))[0]
    costs = [_cost_of(leaf, FilterMeasure(node.measure)) for leaf in leaves_of(node)]
    refuse_refunds(node.head, [cap], costs)
    if sum(costs, Fraction(0)) > cap:
        raise InvalidParameter(
            f"{node.head}: its releases cost {shown(sum(costs, Fraction(0)))} together, above the "
            f"cap {shown(cap)} of its {node.measure} filter"
        )


def _cost_of(leaf: Node, measure: FilterMeasure) -> Fraction:
    """The charge of a leaf of fixed noise, under every adjacency that has a rule; rounded up."""
    sums, costs = CALCULI[str(measure)].measure.sums, list[Charge]()
    for adjacency in Adjacency:
        with suppress(Unsupported):
            costs.append(declared(leaf, central(adjacency), str(measure)))
    added = [raised(cost, 1 if sums is None else sums.power).rounded for cost in costs]
    charges = [cost[0] for cost in added if cost is not None and len(cost) == 1]
    if not charges or len(charges) < len(costs) or sums is None:
        raise Unsupported(f"{leaf.head} has no charge under a {measure} filter")
    return max(charges)


_known: dict[tuple[type[Any], FilterMeasure], Price] = {}


def price_of(leaf: Node, node: Filter) -> Price:
    """How a leaf is charged under a filter: as its rule says, where that is a power of its noise.

    Errors: Unsupported for a leaf and a measure that curators do not charge.
    """
    key = type(leaf), FilterMeasure(node.measure)
    price = _known.get(key) or _price(*key)
    if price is None:
        raise Unsupported(
            f"{leaf.head} under a {node.measure} filter cannot be run; curators charge what costs "
            "a power of its noise_multiplier alone"
        )
    _known[key] = price
    return price


def _price(kind: type[Any], measure: FilterMeasure) -> Price | None:
    """The rule's value for a symbol as the multiplier, where it holds under every adjacency."""
    import sympy

    sums = CALCULI[str(measure)].measure.sums
    needed = {field.name for field in fields(kind) if field.default is not None}
    if needed != NEEDED or sums is None or len(sums.units) != 1:
        return None
    load("rules")
    symbol = sympy.Symbol("noise_multiplier", positive=True)
    try:
        # A rule's value does not depend on the adjacency, only whether it holds does.
        values = [
            CALCULI[str(measure)].fold(kind("release", symbol), central(adjacency)).value
            for adjacency in Adjacency
        ]
    except Unsupported:
        return None
    cost = sympify(values[0]) ** sums.power
    for power in (1, 2):
        factor = canonical(sympy.simplify(cost * symbol**power))
        if isinstance(factor, Fraction):
            return Price(factor, power)
    return None


def chosen_multipliers(asked: Any, trials: int, label: str) -> Floats:
    """Public noise multipliers, one a trial, shape (trials,); a number stands for all trials.

    Errors: InvalidParameter for another shape, or what is no array of numbers.
    """
    try:
        given = np.array(asked, dtype=np.float64)
    except (TypeError, ValueError):
        given = np.empty((0, 0))
    if given.shape not in ((), (1,), (trials,)):
        raise InvalidParameter(
            f"release {label!r}: noise_multiplier has shape {given.shape}; expected ({trials},)"
        )
    return np.array(np.broadcast_to(given, (trials,)))
