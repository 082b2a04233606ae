"""Independent routes to one number: each an interval, and all of them must meet.

Routes: every calculus of dpaudit that covers the declaration, with its conversion; dp-accounting's
two accountants, each fed as it reads sensitivity; and what the caller adds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from dpaudit.accountant.account import Account
from dpaudit.crosscheck.oracle import pld_epsilon_lower, pld_epsilon_upper, rdp_epsilon_upper
from dpaudit.errors import Disagreement, InvalidParameter, Unsupported
from dpaudit.exact import Number, decimal_lower, decimal_upper, exact, infinity, is_infinite
from dpaudit.exact.domains import probability
from dpaudit.measures.calculus import CALCULI, Step
from dpaudit.nodes import Node
from dpaudit.scope import Scope


@dataclass(frozen=True)
class Route:
    """One route's interval of epsilon: 0 below and infinity above where it knows nothing."""

    name: str
    lower: Fraction
    upper: Number


@dataclass(frozen=True)
class Consensus:
    """Routes whose intervals all meet; ``skipped`` holds (name, reason) of those without answer."""

    node: Node
    scope: Scope
    delta: Fraction
    routes: tuple[Route, ...]
    skipped: tuple[tuple[str, str], ...]

    @property
    def lowest_upper(self) -> Route:
        """The route with the smallest upper bound."""
        return min(self.routes, key=_upper_key)

    @property
    def highest_lower(self) -> Route:
        """The route with the largest lower bound."""
        return max(self.routes, key=lambda route: route.lower)

    def against(self, *routes: Route) -> Consensus:
        """This consensus with further routes.

        Errors: Disagreement where a lower bound is above another route's upper bound.
        """
        joined = replace(self, routes=(*self.routes, *routes))
        above, below = joined.highest_lower, joined.lowest_upper
        if not is_infinite(below.upper) and below.upper < above.lower:
            raise Disagreement(
                f"{joined.node.name} at delta {decimal_upper(joined.delta)}, "
                f"{joined.scope.adjacency}: {below.name} says epsilon <= "
                f"{decimal_upper(below.upper)}, {above.name} says epsilon >= "
                f"{decimal_lower(above.lower)}; one of them is wrong"
            )
        return joined

    def table(self) -> dict[str, Any]:
        """The routes as JSON, bounds rounded outward."""
        return {
            "scope": str(self.scope),
            "delta": decimal_upper(self.delta),
            "routes": [
                {
                    "route": route.name,
                    "epsilon_lower": decimal_lower(route.lower),
                    "epsilon_upper": decimal_upper(route.upper),
                }
                for route in self.routes
            ],
            "skipped": [{"route": name, "reason": reason} for name, reason in self.skipped],
        }


def claimed(name: str, upper: float, lower: float = 0.0) -> Route:
    """Another accountant's answer as a route.

    Errors: InvalidParameter for NaN, a negative or infinite ``lower``, a negative ``upper``.
    """
    if math.isnan(upper) or upper < 0 or not 0 <= lower < math.inf:
        raise InvalidParameter(f"{name}: [{lower}, {upper}] is no interval of epsilon")
    return Route(name, Fraction(lower), infinity() if math.isinf(upper) else Fraction(upper))


def cross_check(node: Node, scope: Scope, delta: object, also: Iterable[Route] = ()) -> Consensus:
    """Ask every independent route for epsilon at ``delta``.

    Errors: Disagreement where one route's upper bound is below another's lower bound;
    InvalidParameter for delta outside [0, 1); Unsupported where no route answers.
    """
    at = exact(delta, "delta")
    probability(at, "delta")
    routes_asked = [*_ours(node, scope, at), *_theirs(node, scope, at)]
    routes, skipped = list[Route](), list[tuple[str, str]]()
    for name, ask in routes_asked:
        try:
            routes.append(ask(name))
        except Unsupported as reason:
            skipped.append((name, str(reason)))
    if not routes:
        raise Unsupported(f"cross-check of {node.name}: no route answers; {skipped[0][1]}")
    return Consensus(node, scope, at, tuple(routes), tuple(skipped)).against(*also)


Asked = tuple[str, Callable[[str], Route]]


def _ours(node: Node, scope: Scope, delta: Fraction) -> Iterator[Asked]:
    account = Account(node, scope)

    def ask(name: str) -> Route:
        step = account.converted(name, delta)
        return Route(name, step.lower or Fraction(0), step.value[0])

    return ((name, ask) for name in CALCULI)


def _theirs(node: Node, scope: Scope, delta: Fraction) -> Iterator[Asked]:
    def upper(ask: Callable[[Node, Scope, Fraction], float]) -> Callable[[str], Route]:
        return lambda name: claimed(name, ask(node, scope, delta))

    def optimistic(name: str) -> Route:
        return claimed(name, math.inf, pld_epsilon_lower(node, scope, delta))

    yield "dp-accounting rdp", upper(rdp_epsilon_upper)
    yield "dp-accounting pld", upper(pld_epsilon_upper)
    yield "dp-accounting pld, optimistic", optimistic


def _upper_key(route: Route) -> tuple[bool, Fraction]:
    unbounded = is_infinite(route.upper)
    return unbounded, Fraction(0) if unbounded else route.upper


class CrossChecked(Account):
    """An account whose every epsilon is first asked of all independent routes.

    Errors: as :class:`Account`; Disagreement where one route's upper bound is below another's
    lower bound.
    """

    def approximate(self, delta: object) -> Step:
        cross_check(self.node, self.scope, delta)
        return super().approximate(delta)
