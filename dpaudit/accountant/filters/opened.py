"""A budget that adaptive charges may use up, and that refuses the first one that does not fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from dpaudit.accountant.filters.caps import (
    Method,
    added_in,
    caps_of,
    chosen_method,
    orders_of,
    own_method_or_none,
    power_of,
    units_of,
)
from dpaudit.accountant.filters.charges import (
    Amounts,
    Assumptions,
    Charge,
    declared,
    given,
    joined,
    raised,
    read_amounts,
    read_assumptions,
    read_count,
    read_scope,
    refuse_refunds,
    scope_row,
    shown,
)
from dpaudit.errors import BudgetExceeded, InvalidParameter, Unsupported
from dpaudit.exact import exact
from dpaudit.exact.domains import rate
from dpaudit.exact.wire import decode_number, encode_number
from dpaudit.families.adaptive import Filter
from dpaudit.families.opaque import ApproxDP, RenyiDP
from dpaudit.nodes import Node
from dpaudit.nodes.tables import from_table, to_table
from dpaudit.scope import Scope

# Share of delta that the conversion of a budget gets, unless the caller says otherwise.
DEFAULT_SHARE = Fraction(1, 2)


@dataclass(frozen=True)
class OpenFilter:
    """A budget and what is spent of it; made by :func:`open_filter`, never changed.

    ``orders``: those of method rdp.  ``share``: of delta, kept for advanced composition itself.
    ``spent``: the sums so far, one for each cap; ``count``: how many charges they hold;
    ``assumes``: what those of declarations rest on.  A number given as a charge was proved by
    whoever gives it.
    """

    budget: Node
    scope: Scope
    method: str
    orders: Amounts
    share: Fraction
    spent: Amounts
    count: int
    assumes: Assumptions = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "spent", Amounts(self.spent))

    @property
    def caps(self) -> Amounts:
        """The largest sums that keep the budget, each rounded down where it is irrational."""
        return caps_of(self.budget, self.method, self.orders, self.share)

    @property
    def guarantees(self) -> tuple[Node, ...]:
        """The guarantees that hold for any charges: the budget, or a curve's caps at its orders."""
        if not hasattr(self.budget, "curve"):
            return (self.budget,)
        return tuple(RenyiDP(a, cap) for a, cap in zip(self.orders, self.caps, strict=True))

    @property
    def remaining(self) -> tuple[Fraction, ...]:
        """The rest of each cap."""
        refuse_refunds(self.budget.head, self.spent)
        return tuple(cap - sum_ for cap, sum_ in zip(self.caps, self.spent, strict=True))

    @property
    def units(self) -> tuple[str, ...]:
        """The unit of each sum: epsilon, delta, rho, mu squared, or a divergence of some order."""
        return units_of(self.method, self.orders, len(self.caps))

    def charge(self, asked: object) -> Amounts | None:
        """The cost of a release, one number for each cap; None if a cost is infinite.

        ``asked``: a declaration, folded under the scope, or the number that somebody proved:
        epsilon, or (epsilon, delta); rho; mu; a divergence, or one for each order.
        Errors: InvalidParameter for a value that is no charge; Unsupported for a declaration
        without a rule.
        """
        return self._priced(asked)[0]

    def _priced(self, asked: object) -> tuple[Amounts | None, Charge]:
        charge = self._charge(asked)
        cost = charge.rounded
        refuse_refunds(self.budget.head, cost or ())
        return cost, charge

    def _charge(self, asked: object) -> Charge:
        if isinstance(asked, Node):
            name = added_in(self.method, len(self.caps)).name
            charge = declared(asked, self.scope, name, self.orders)
        else:
            charge = given(asked, len(self.caps))
        return raised(charge, power_of(self.method, len(self.caps)))

    def admits(self, asked: object) -> bool:
        """Whether a release fits; nothing is spent.

        Errors: as :meth:`charge`.
        """
        return self._missing(self.charge(asked)) is None

    def spend(self, asked: object) -> OpenFilter:
        """The filter after a release: call it before data is touched, and keep what it returns.

        Errors: BudgetExceeded where the charge does not fit; as :meth:`charge`.
        """
        cost, charge = self._priced(asked)
        missing = self._missing(cost)
        if missing is not None or cost is None:
            raise BudgetExceeded(self._refusal(cost, missing or 0))
        return replace(
            self,
            spent=Amounts(map(min, self.spent.plus(cost), self.caps)),
            count=self.count + 1,
            assumes=joined(self.assumes, charge.assumes),
        )

    def _missing(self, cost: Amounts | None) -> int | None:
        """The place of the first cap that a charge would pass; None where it fits."""
        if cost is None:
            return 0
        amounts = zip(cost, self.remaining, strict=True)
        return next((place for place, (amount, has) in enumerate(amounts) if amount > has), None)

    def _refusal(self, cost: Amounts | None, place: int) -> str:
        charge_text = "an infinite charge" if cost is None else shown(cost[place])
        return (
            f"{self.budget.head}: {charge_text} of {self.units[place]} does not fit: "
            f"{shown(self.spent[place])} of {shown(self.caps[place])} is spent after {self.count} "
            "releases; use more noise, or stop"
        )

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON; :func:`read_filter` takes it back."""
        return {
            "budget": to_table(self.budget),
            "scope": scope_row(self.scope),
            "method": str(self.method),
            "orders": [encode_number(a) for a in self.orders],
            "share": encode_number(self.share),
            "spent": [encode_number(sum_) for sum_ in self.spent],
            "count": self.count,
            "assumes": [a.row() for a in self.assumes],
        }


def open_filter(
    budget: Node,
    scope: Scope,
    method: Method | str | None = None,
    *,
    orders: Sequence[object] | None = None,
    share: object = DEFAULT_SHARE,
) -> OpenFilter:
    """A filter that has spent nothing.

    ``budget``: PureDP, ApproxDP, ZCDP, RenyiCurve or GDP, or the Filter node that declares it; or a
    whole privacy profile, as ProfilePoints: (epsilon, delta)-DP at each of its points.
    ``method``: the budget's own by default; an ApproxDP budget can be kept by any of them, a
    profile by gdp (its default), zcdp or rdp: the largest cap that keeps every point.
    ``orders``: for method rdp: the orders at which a curve is kept, or the one order for an
    ApproxDP budget.  A RenyiCurve is kept at these orders only (``OpenFilter.guarantees``): a
    release may be cheap at all of them and costly at a larger one, which a tiny delta would need.
    Errors: InvalidParameter for anything else, or a budget with symbols; Unsupported where a method
    cannot keep a budget, such as a Filter node's cap at every order.
    """
    guarantee = budget.budget if isinstance(budget, Filter) else budget
    own = own_method_or_none(guarantee)
    if isinstance(budget, Filter) and own == Method.RDP:
        raise Unsupported(
            f"{budget.head}: its cap is of every order, and sums are kept at some; open the "
            "RenyiCurve, whose guarantees are those at the orders, or cap rho (zcdp) or mu (gdp)"
        )
    chosen = chosen_method(method) if method is not None else own or Method.GDP
    if chosen != own and own is not None and not isinstance(guarantee, ApproxDP):
        raise Unsupported(f"{guarantee.head}: this budget needs method {own}")
    if own is None and chosen in (Method.BASIC, Method.ADVANCED):
        raise Unsupported(
            f"{guarantee.head}: method {chosen} keeps one point; use gdp, zcdp or rdp"
        )
    if not isinstance(scope, Scope):
        raise InvalidParameter(f"open_filter: scope is a {type(scope).__name__}, expected a Scope")
    part = exact(share, "share")
    rate(part, "share")
    fixed = orders_of(guarantee, chosen, orders)
    nothing = Amounts(Fraction(0) for _ in caps_of(guarantee, chosen, fixed, part))
    return OpenFilter(guarantee, scope, chosen, fixed, part, nothing, 0)


def read_filter(table: Any) -> OpenFilter:
    """The filter that :meth:`OpenFilter.to_json` wrote.

    Errors: InvalidParameter for anything else, or where more is spent than the budget has.
    """
    try:
        opened = open_filter(
            from_table(table["budget"]),
            read_scope(table["scope"]),
            str(table["method"]),
            orders=read_amounts(table["orders"]) or None,
            share=decode_number(table["share"]),
        )
        spent, count = read_amounts(table["spent"]), table["count"]
        assumes = read_assumptions(table["assumes"])
    except (KeyError, TypeError, AttributeError):
        raise InvalidParameter("malformed filter: expected what OpenFilter.to_json wrote") from None
    restored = replace(opened, spent=spent, count=read_count(count), assumes=assumes)
    if len(spent) != len(opened.spent) or min((*spent, *restored.remaining)) < 0:
        raise InvalidParameter("malformed filter: its sums are not between 0 and its caps")
    return restored
