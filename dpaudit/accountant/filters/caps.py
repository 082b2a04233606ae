"""How charges add up by each method, and the largest sums that keep a budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from typing import Any

from dpaudit.accountant.filters.charges import Amounts, at_orders, floor
from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.exact import Number, enclose, exact, is_symbolic, unknowns, working_precision
from dpaudit.exact.domains import above_one
from dpaudit.families.adaptive import FilterMeasure
from dpaudit.families.opaque import ProfilePoints
from dpaudit.measures.convert import gaussian_mu
from dpaudit.measures.renyi import order

ORDERS = tuple(Fraction(n) for n in (2, 3, 4, 6, 8, 12, 16, 24, 32, 64))


class Method(StrEnum):
    """How charges add up; the package's text states each theorem."""

    BASIC = "basic"
    ADVANCED = "advanced"
    ZCDP = "zcdp"
    RDP = "rdp"
    GDP = "gdp"


OWN = {
    FilterMeasure.PURE: Method.BASIC,
    FilterMeasure.APPROX: Method.BASIC,
    FilterMeasure.ZCDP: Method.ZCDP,
    FilterMeasure.RDP: Method.RDP,
    FilterMeasure.GDP: Method.GDP,
}
UNITS = {
    Method.BASIC: ("epsilon", "delta"),
    Method.ADVANCED: ("squared epsilon", "delta"),
    Method.ZCDP: ("rho",),
    Method.GDP: ("squared mu",),
}


def orders_of(
    budget: Any, measure: FilterMeasure, method: Method, asked: Sequence[object] | None
) -> Amounts:
    """The orders at which method rdp adds curves; none for any other method.

    Errors: InvalidParameter for orders that are not rational numbers above 1, for more than one
    where the budget is an ApproxDP or a profile, or for any where the method is another.
    """
    if method is not Method.RDP:
        if asked is not None:
            raise InvalidParameter(f"orders: expected none for method {method}")
        return ()
    if asked is None:
        return ORDERS if measure is FilterMeasure.RDP else (_best_order(budget),)
    found = tuple(exact(a, "orders") for a in asked)
    for value in found:
        above_one(value, "orders")
    if not found or any(is_symbolic(a) for a in found):
        raise InvalidParameter("orders: expected one or more rational numbers above 1")
    if measure is FilterMeasure.APPROX and len(found) > 1:
        raise InvalidParameter("orders: expected one order, chosen in advance, for an ApproxDP")
    return found


@lru_cache(maxsize=256)
def caps_of(budget: Any, method: Method, orders: Amounts, share: Fraction) -> Amounts:
    """The largest sum of each kind that keeps the budget, rounded down where it is irrational.

    Errors: InvalidParameter while the budget holds symbols; Unsupported where nothing is left.
    """
    own = {order()} if hasattr(budget, "curve") else set()
    if any(unknowns(v) - own for v in budget.parameters.values() if is_symbolic(v)):
        raise InvalidParameter(f"{budget.head}: bind its symbols to numbers before spending")
    with working_precision():
        caps = tuple(map(floor, _CAPS[method](budget, orders, share)))
    if min(caps) < 0:
        raise Unsupported(f"{budget.head}: method {method} leaves nothing to spend")
    return caps


def _basic_caps(budget: Any, orders: Amounts, share: Fraction) -> Sequence[Number]:
    delta = getattr(budget, "delta", None)
    return (budget.epsilon,) if delta is None else (budget.epsilon, delta)


def _advanced_caps(budget: Any, orders: Amounts, share: Fraction) -> Sequence[Any]:
    """S <= (sqrt(2 L + 2 epsilon) - sqrt(2 L))^2 with L = log(1/d'), d' = share * delta."""
    _needs_delta(budget, Method.ADVANCED)
    twice = -2 * enclose(share * budget.delta).log()
    root = (twice + 2 * enclose(budget.epsilon)).sqrt() - twice.sqrt()
    return root**2, (1 - share) * budget.delta


def _zcdp_caps(budget: Any, orders: Amounts, share: Fraction) -> Sequence[Any]:
    if hasattr(budget, "rho"):
        return (budget.rho,)
    alpha = _best_order(budget)
    return (_renyi_cap(budget, alpha) / alpha,)


def _renyi_caps(budget: Any, orders: Amounts, share: Fraction) -> Sequence[Any]:
    if hasattr(budget, "curve"):
        return at_orders(budget.curve, orders)
    return [_renyi_cap(budget, alpha) for alpha in orders]


def _gdp_caps(budget: Any, orders: Amounts, share: Fraction) -> Sequence[Number]:
    if hasattr(budget, "mu"):
        return (budget.mu**2,)
    _needs_delta(budget, Method.GDP)
    return (min(floor(gaussian_mu(*point) ** 2) for point in _points(budget)),)


def _renyi_cap(budget: Any, alpha: Fraction) -> Fraction:
    """The divergence of order alpha, rounded down, that still gives every (epsilon, delta).

    epsilon - log(1 - 1/alpha) + (log delta + log alpha) / (alpha - 1).
    Source: Canonne, Kamath, Steinke 2020, Proposition 12.
    """
    _needs_delta(budget, Method.RDP)
    a = enclose(alpha)
    kept = []
    for epsilon, delta in _points(budget):
        cost = (1 - 1 / a).log() - (enclose(delta).log() + a.log()) / (a - 1)
        kept.append(floor(enclose(epsilon) - cost))
    return min(kept)


def _points(budget: Any) -> Sequence[tuple[Number, Number]]:
    """What a budget promises: (epsilon, delta), at one point or at several."""
    if isinstance(budget, ProfilePoints):
        return budget.points
    return ((budget.epsilon, budget.delta),)


def _best_order(budget: Any) -> Fraction:
    """The order of a fixed list that lets a charge rho * order be largest."""
    with working_precision():
        return max(_GRID, key=lambda a: _renyi_cap(budget, a) / a)


_GRID = tuple(1 + Fraction(round(2 ** (k / 16 + 20)), 2**20) for k in range(-80, 241))


def _needs_delta(budget: Any, method: Method) -> None:
    if any(delta == 0 for _, delta in _points(budget)):
        raise Unsupported(f"{budget.head}: method {method} needs a positive delta; use basic")


_CAPS: dict[Method, Callable[[Any, Amounts, Fraction], Sequence[Any]]] = {
    Method.BASIC: _basic_caps,
    Method.ADVANCED: _advanced_caps,
    Method.ZCDP: _zcdp_caps,
    Method.RDP: _renyi_caps,
    Method.GDP: _gdp_caps,
}
