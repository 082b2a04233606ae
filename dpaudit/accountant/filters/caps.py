"""How charges add up by each method, and the largest sums that keep a budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from typing import Any

from dpaudit.accountant.filters.charges import Amounts, at_orders, floor
from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.exact import (
    Number,
    enclose,
    exact,
    is_symbolic,
    readable,
    unknowns,
    working_precision,
)
from dpaudit.exact.domains import above_one
from dpaudit.families.adaptive.node import measure_of
from dpaudit.families.opaque import ProfilePoints
from dpaudit.measures.calculus import CALCULI, Calculus
from dpaudit.measures.convert import gaussian_mu
from dpaudit.measures.renyi import order
from dpaudit.nodes import Node
from dpaudit.scope import choose

# Renyi orders at which the sums of a curve are kept, unless the caller gives others.
ORDERS = Amounts((2, 3, 4, 6, 8, 12, 16, 24, 32, 64))


class Method(StrEnum):
    """How charges add up; the package's text states each theorem.

    Besides these, the name of any registered measure that says how its charges add up.
    """

    BASIC = "basic"
    ADVANCED = "advanced"
    ZCDP = "zcdp"
    RDP = "rdp"
    GDP = "gdp"


# The ways that are no measure's own name, and the measure whose values each adds.
_NAMED = {Method.BASIC: ("pure", "approx"), Method.ADVANCED: ("approx", "approx")}
_BASIC = {"pure", "approx"}
SHARED_LOSS = "squared epsilon"


def added_in(method: str, sums: int) -> Calculus:
    """The calculus whose values a method adds, with one sum or two."""
    return CALCULI[_NAMED[Method(method)][sums - 1] if method in _NAMED else method]


def power_of(method: str, sums: int) -> int:
    """The power to which a value is raised before it is added; deltas are added as they are."""
    sums_of = added_in(method, sums).measure.sums
    return 2 if method == Method.ADVANCED else 1 if sums_of is None else sums_of.power


def units_of(method: str, orders: Amounts, sums: int) -> tuple[str, ...]:
    """The unit of each sum: epsilon, delta, rho, or a divergence of some order."""
    sums_of = added_in(method, sums).measure.sums
    assert sums_of is not None  # noqa: S101  (methods are made of measures that have them)
    if orders:
        return tuple(f"divergence of order {readable(a)}" for a in orders)
    return (SHARED_LOSS, "delta") if method == Method.ADVANCED else sums_of.units


def own_method(budget: Any) -> str:
    """The method in which a budget is stated: basic, or the measure's name.

    Errors: InvalidParameter for a node that states no budget in a measure with sums.
    """
    foreign = isinstance(budget, Node) and not budget.is_shipped
    measure = budget.states_in if foreign else measure_of(budget)
    if measure not in CALCULI or CALCULI[measure].measure.sums is None:
        raise InvalidParameter(
            f"budget {budget.head}: its measure does not say how a filter adds charges"
        )
    return Method.BASIC if measure in _BASIC else str(measure)


def chosen_method(asked: Method | str) -> str:
    """A method by name.

    Errors: InvalidParameter for what is neither one nor a measure with sums.
    """
    if asked in CALCULI and asked not in _BASIC and CALCULI[asked].measure.sums is not None:
        return str(asked)
    return choose(Method, asked, "method")


def orders_of(budget: Any, method: str, asked: Sequence[object] | None) -> Amounts:
    """The orders at which method rdp adds curves; none for any other method.

    Errors: InvalidParameter for orders that are not rational numbers above 1, for more than one
    where the budget is an ApproxDP or a profile, or for any where the method is another.
    """
    if method != Method.RDP:
        if asked is not None:
            raise InvalidParameter(f"orders: expected none for method {method}")
        return Amounts()
    if asked is None:
        return ORDERS if hasattr(budget, "curve") else Amounts([_best_order(budget)])
    orders = tuple(exact(a, "orders") for a in asked)
    for value in orders:
        above_one(value, "orders")
    if not orders or any(is_symbolic(a) for a in orders):
        raise InvalidParameter("orders: expected one or more rational numbers above 1")
    if not hasattr(budget, "curve") and len(orders) > 1:
        raise InvalidParameter("orders: expected one order, chosen in advance, for an ApproxDP")
    return Amounts(orders)


@lru_cache(maxsize=256)
def caps_of(budget: Any, method: str, orders: Amounts, share: Fraction) -> Amounts:
    """The largest sum of each kind that keeps the budget, rounded down where it is irrational.

    Errors: InvalidParameter while the budget holds symbols; Unsupported where nothing is left.
    """
    own = {order()} if hasattr(budget, "curve") else set()
    if any(unknowns(v) - own for v in budget.parameters.values() if is_symbolic(v)):
        raise InvalidParameter(f"{budget.head}: bind its symbols to numbers before spending")
    with working_precision():
        caps = tuple(map(floor, _caps(budget, method, orders, share)))
    if min(caps) < 0:
        raise Unsupported(
            f"{budget.head}: method {method} leaves nothing to spend; use another method"
        )
    return Amounts(caps)


def _caps(budget: Any, method: str, orders: Amounts, share: Fraction) -> Sequence[Any]:
    if method != own_method_or_none(budget):
        return _FROM_POINTS[Method(method)](budget, orders, share)
    if orders:
        return at_orders(budget.curve, orders)
    others = [budget.delta] if hasattr(budget, "delta") else []
    stated = getattr(budget, added_in(method, 1 + len(others)).measure.parameter)
    return (stated ** power_of(method, 1 + len(others)), *others)


def own_method_or_none(budget: Any) -> str | None:
    """The budget's own method; None for a whole profile, which is kept by others' only."""
    return None if isinstance(budget, ProfilePoints) else own_method(budget)


def _advanced_caps(budget: Any, orders: Amounts, share: Fraction) -> Sequence[Any]:
    """S <= (sqrt(2 L + 2 epsilon) - sqrt(2 L))^2 with L = log(1/d'), d' = share * delta."""
    _needs_delta(budget, Method.ADVANCED)
    twice = -2 * enclose(share * budget.delta).log()
    root = (twice + 2 * enclose(budget.epsilon)).sqrt() - twice.sqrt()
    return root**2, (1 - share) * budget.delta


def _zcdp_caps(budget: Any, orders: Amounts, share: Fraction) -> Sequence[Any]:
    alpha = _best_order(budget)
    return (_renyi_cap(budget, alpha) / alpha,)


def _renyi_caps(budget: Any, orders: Amounts, share: Fraction) -> Sequence[Any]:
    return [_renyi_cap(budget, alpha) for alpha in orders]


def _gdp_caps(budget: Any, orders: Amounts, share: Fraction) -> Sequence[Number]:
    _needs_delta(budget, Method.GDP)
    return (min(floor(gaussian_mu(*point) ** 2) for point in _points(budget)),)


def _renyi_cap(budget: Any, alpha: Fraction) -> Fraction:
    """The divergence of order alpha, rounded down, that still gives every (epsilon, delta).

    epsilon - log(1 - 1/alpha) + (log delta + log alpha) / (alpha - 1).
    Source: Canonne, Kamath, Steinke 2020, Proposition 12.
    """
    _needs_delta(budget, Method.RDP)
    a = enclose(alpha)
    caps = []
    for epsilon, delta in _points(budget):
        cost = (1 - 1 / a).log() - (enclose(delta).log() + a.log()) / (a - 1)
        caps.append(floor(enclose(epsilon) - cost))
    return min(caps)


def _points(budget: Any) -> Sequence[tuple[Number, Number]]:
    """The points (epsilon, delta) that a budget promises."""
    if isinstance(budget, ProfilePoints):
        return budget.points
    return ((budget.epsilon, budget.delta),)


def _best_order(budget: Any) -> Fraction:
    """The order of a fixed list that lets a charge rho * order be largest."""
    with working_precision():
        return max(_BUDGET_ORDERS, key=lambda a: _renyi_cap(budget, a) / a)


# Renyi orders, from 1 + 2^-5 to 1 + 2^15, among which a budget's best is sought.
_BUDGET_ORDERS = tuple(1 + Fraction(round(2 ** (k / 16 + 20)), 2**20) for k in range(-80, 241))


def _needs_delta(budget: Any, method: Method) -> None:
    if any(delta == 0 for _, delta in _points(budget)):
        raise Unsupported(f"{budget.head}: method {method} needs a positive delta; use basic")


# Budgets of (epsilon, delta), kept in another measure by its largest value that gives them.
_FROM_POINTS: dict[Method, Callable[[Any, Amounts, Fraction], Sequence[Any]]] = {
    Method.ADVANCED: _advanced_caps,
    Method.ZCDP: _zcdp_caps,
    Method.RDP: _renyi_caps,
    Method.GDP: _gdp_caps,
}
