"""The terms of a data set's budget: in which sums it is kept, how far, and what a release costs.

Releases are composed adaptively, each charged its own tight guarantee, by theorems that allow a
charge to depend on what was published before (see :mod:`dpaudit.accountant.filters`): sums of
epsilon and delta, of rho, of mu^2, or of Renyi divergences at some orders fixed in advance.  Items
planned together in one release are composed tightly inside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpaudit.accountant.account import Account
from dpaudit.accountant.filters import Method, open_filter
from dpaudit.accountant.filters.caps import chosen_method, power_of
from dpaudit.accountant.filters.charges import (
    Amounts,
    ceiling,
    declared,
    read_amounts,
    read_scope,
    scope_row,
    shortened,
    shown,
)
from dpaudit.errors import BudgetExceeded, InvalidParameter, Unsupported
from dpaudit.exact import canonical, decimal_upper, exact, is_symbolic, readable
from dpaudit.exact.wire import encode_number
from dpaudit.nodes import Node
from dpaudit.nodes.tables import from_table, to_table
from dpaudit.scope import Scope


@dataclass(frozen=True)
class Terms:
    """How one data set's budget is kept.

    ``entity``: what one unit is, in words; releases and ledger must name the same.  ``guarantee``:
    what the budget promises, None where it is only its caps (Renyi divergences at some orders).
    ``method``, ``orders``, ``caps``, ``units``: the sums, and the most that each may come to.
    ``schema``: the digest of the public schema; None accepts any.
    """

    entity: str
    scope: Scope
    guarantee: Node | None
    method: str
    orders: Amounts
    caps: Amounts
    units: tuple[str, ...]
    schema: str | None = None

    def cost(self, declaration: Node, delta: object = None) -> Amounts:
        """What a declaration is charged, one number for each cap, rounded up.

        Where sums of epsilon and delta are kept, it is the tight epsilon at ``delta``.
        Errors: Unsupported where this measure has no rule for it, or its cost is infinite;
        InvalidParameter where a delta is needed and none is given.
        """
        if self.method in (Method.BASIC, Method.ADVANCED):
            values = self._tight(declaration, delta)
        else:
            power = power_of(self.method, len(self.caps))
            charge = declared(declaration, self.scope, self.method, self.orders)
            values = [canonical(value**power) for value in charge.values]
        found = [ceiling(value) for value in values]
        cost = tuple(value for value in found if value is not None)
        if len(cost) != len(found):
            raise Unsupported(f"{declaration.head[:120]}: its cost in {self.method} is infinite")
        return cost

    def _tight(self, declaration: Node, delta: object) -> Sequence[Any]:
        account = Account(declaration, self.scope)
        if len(self.caps) == 1:
            return (account.step("pure").value,)
        at = Fraction(0) if delta is None else exact(delta, "delta")
        epsilon = account.approximate(at).value[0]
        if self.method == Method.ADVANCED:
            epsilon = canonical(epsilon**2)
        return epsilon, at

    def after(self, spent: Amounts, cost: Amounts, what: str) -> Amounts:
        """The sums after a charge.

        Errors: BudgetExceeded naming the sum that would pass its cap.
        """
        sums = tuple(shortened(a + b) for a, b in zip(spent, cost, strict=True))
        for place, (total, cap) in enumerate(zip(sums, self.caps, strict=True)):
            if total > cap:
                raise BudgetExceeded(
                    f"{what}: {shown(cost[place])} of {self.units[place]} does not fit: "
                    f"{shown(spent[place])} of {shown(cap)} is spent; use more noise, or stop. "
                    "Nothing was charged"
                )
        return sums

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON."""
        return {
            "entity": self.entity,
            "scope": scope_row(self.scope),
            "guarantee": None if self.guarantee is None else to_table(self.guarantee),
            "method": str(self.method),
            "orders": [encode_number(a) for a in self.orders],
            "caps": [encode_number(a) for a in self.caps],
            "units": list(self.units),
            "schema": self.schema,
        }

    def shown(self, amounts: Amounts) -> list[str]:
        """Amounts in words, rounded up."""
        return [
            f"{decimal_upper(value, 6)} {unit}"
            for value, unit in zip(amounts, self.units, strict=True)
        ]


def terms_of(
    entity: str,
    scope: Scope,
    guarantee: Node | None,
    *,
    method: Method | str | None = None,
    renyi: Mapping[object, object] | None = None,
    schema: str | None = None,
) -> Terms:
    """The terms of a budget.

    ``guarantee``: PureDP, ApproxDP, ZCDP or GDP, kept by its own method or by ``method``; or
    ``renyi``: the cap at each of some orders, all of them kept at once.
    Errors: InvalidParameter for both, neither, or values outside their domain; Unsupported where a
    method cannot keep a budget.
    """
    if (guarantee is None) == (renyi is None):
        raise InvalidParameter("a budget: give a guarantee, or caps at Renyi orders")
    if not entity.strip():
        raise InvalidParameter("a ledger: expected what a unit is, in words: person, household ...")
    if renyi is not None:
        rows = sorted((_rational(a, "order"), _rational(e, "cap")) for a, e in renyi.items())
        if not rows or any(a <= 1 or e <= 0 for a, e in rows):
            raise InvalidParameter("renyi: expected orders above 1, each with a positive cap")
        orders, caps = tuple(a for a, _ in rows), tuple(e for _, e in rows)
        units = tuple(f"divergence of order {readable(a)}" for a in orders)
        return Terms(entity, scope, None, Method.RDP, orders, caps, units, schema)
    assert guarantee is not None  # noqa: S101  (one of them is given)
    opened = open_filter(guarantee, scope, method)
    if opened.guarantees != (guarantee,):
        raise InvalidParameter(
            f"{guarantee.head}: a curve is kept at some orders only; give its caps as renyi={{...}}"
        )
    return Terms(
        entity,
        scope,
        guarantee,
        opened.method,
        opened.orders,
        opened.caps,
        opened.units,
        schema,
    )


def read_terms(table: Any) -> Terms:
    """The terms that :meth:`Terms.to_json` wrote.

    Errors: InvalidParameter for anything else.
    """
    try:
        guarantee = table["guarantee"]
        return Terms(
            str(table["entity"]),
            read_scope(table["scope"]),
            None if guarantee is None else from_table(guarantee),
            chosen_method(table["method"]),
            read_amounts(table["orders"]),
            read_amounts(table["caps"]),
            tuple(map(str, table["units"])),
            table["schema"],
        )
    except (KeyError, TypeError, ValueError):
        raise InvalidParameter("malformed terms of a ledger") from None


def _rational(value: object, place: str) -> Fraction:
    found = exact(Fraction(value) if isinstance(value, str) else value, place)
    if is_symbolic(found):
        raise InvalidParameter(f"{place} = {found}: expected a rational number")
    return Fraction(found)
