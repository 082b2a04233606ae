"""The terms of a data set's budget: in which sums it is kept, how far, and what a release costs.

Releases are composed adaptively, each charged its own tight guarantee, by theorems that allow a
charge to depend on what was published before (see :mod:`dpaudit.accountant.filters`): sums of
epsilon and delta, of rho, of mu^2, or of Renyi divergences at some orders fixed in advance.  Items
planned together in one release are composed tightly inside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any

from dpaudit.accountant.account import Account
from dpaudit.accountant.filters import Method, open_filter
from dpaudit.accountant.filters.caps import added_in, chosen_method, power_of
from dpaudit.accountant.filters.charges import (
    Amounts,
    Charge,
    declared,
    raised,
    read_amounts,
    read_scope,
    refuse_refunds,
    scope_row,
    shown,
)
from dpaudit.errors import BudgetExceeded, InvalidParameter, Unsupported
from dpaudit.exact import decimal_lower, decimal_upper, exact, is_infinite, readable
from dpaudit.exact.domains import rational
from dpaudit.exact.wire import encode_number
from dpaudit.nodes import Node
from dpaudit.nodes.tables import from_table, to_table
from dpaudit.scope import Scope, refuse_disguise

# How an account is opened whose sums are of a calculus' values.
BUDGETS = {"pure": "epsilon= alone", "zcdp": "rho=", "gdp": "mu=", "rdp": "renyi="}


@dataclass(frozen=True)
class Terms:
    """How one data set's budget is kept.

    ``entity``: what one unit is, in words; releases and ledger must name the same.  ``guarantee``:
    what the budget promises, None where it is only its caps (Renyi divergences at some orders).
    ``method``, ``orders``, ``caps``, ``units``: the sums, and the most that each may come to.
    ``schema``: the digest of the public schema of the plan that opened the account, if one did;
    releases of other schemas of the data set are charged here too.  ``populations``: accounts whose
    caps hold for all data sets of the same persons together; they are charged with this one.
    Errors: InvalidParameter for caps that are no privacy losses, or fewer or more than the sums.
    """

    entity: str
    scope: Scope
    guarantee: Node | None
    method: str
    orders: Amounts
    caps: Amounts
    units: tuple[str, ...]
    schema: str | None = None
    populations: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "populations", tuple(self.populations))
        object.__setattr__(self, "orders", Amounts(self.orders))
        object.__setattr__(self, "caps", Amounts(self.caps))
        sums = len(self.caps)
        if not sums or len(self.units) != sums or (self.orders and len(self.orders) != sums):
            raise InvalidParameter("terms of a ledger: expected a cap and a unit for each sum")

    @property
    def adds_deltas(self) -> bool:
        """Whether a charge is an epsilon at a delta, and both add up."""
        return self.method in (Method.BASIC, Method.ADVANCED) and len(self.caps) == 2

    def cost(self, declaration: Node, delta: object = None) -> Amounts:
        """The charge of a declaration, one number for each cap, rounded up.

        Where epsilons and deltas add up, it is the tight epsilon at ``delta``; else there is none.
        Errors: Unsupported where the sums' measure bounds no loss of it, or only an infinite one,
        with what to do; InvalidParameter for a cost below 0, or a delta that nothing would add.
        """
        if delta is not None and not self.adds_deltas:
            raise InvalidParameter(
                f"delta = {delta}: this account adds {' and '.join(self.units)}, and no delta; "
                "leave it out"
            )
        try:
            charge = raised(self._charge(declaration, delta), power_of(self.method, len(self.caps)))
            cost, why = charge.rounded, "its loss is infinite there"
        except Unsupported as error:
            cost, why = None, str(error).partition("; use one of")[0]
        if cost is None:
            raise Unsupported(
                f"{declaration.head[:120]}: this account adds {' and '.join(self.units)}, and "
                f"cannot charge it ({why[:300]}); {self._way_out(declaration, delta)}"
            )
        refuse_refunds(f"cost of {declaration.head[:120]}", cost)
        return cost

    def _charge(self, declaration: Node, delta: object) -> Charge:
        """A declaration's loss in the measure that is added, before any power."""
        if not self.adds_deltas:
            name = added_in(self.method, len(self.caps)).name
            return declared(declaration, self.scope, name, self.orders)
        at = Fraction(0) if delta is None else exact(delta, "delta")
        return Charge(Account(declaration, self.scope).approximate(at).value)

    def _way_out(self, declaration: Node, delta: object) -> str:
        """Advice for a declaration that this account cannot charge."""
        if self.adds_deltas and not delta:
            return (
                "charge it at a delta: give a plan's budget as epsilon and delta, or charge_delta= "
                "to a session (dp.open), `dpaudit ledger charge` and `dpaudit run`"
            )
        account = Account(declaration, self.scope)
        ways = [
            option
            for name, option in BUDGETS.items()
            if name in account.routes() and not is_infinite(account.step(name).value)
        ]
        if not self.adds_deltas:
            ways.append("epsilon= with delta=")
        if not ways:
            return "no account can: give it noise"
        return (
            f"an account that is opened with --budget {' or '.join(ways)} can; or give the release "
            "noise whose loss is bounded here"
        )

    def after(self, spent: Sequence[Fraction], cost: Sequence[Fraction], what: str) -> Amounts:
        """The sums after a charge.

        Errors: BudgetExceeded naming the sum that would pass its cap; InvalidParameter for amounts
        that are no privacy losses, or another count of them.
        """
        refuse_refunds(what, spent, cost)
        if not len(spent) == len(cost) == len(self.caps):
            raise InvalidParameter(f"{what}: {len(cost)} amounts, expected {len(self.caps)}")
        sums = Amounts(spent).plus(Amounts(cost))
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
            # An older version, which knows no populations, then refuses the account.
            **({"populations": list(self.populations)} if self.populations else {}),
        }

    def shown(self, amounts: Sequence[Fraction], *, left: bool = False) -> list[str]:
        """Amounts in words, rounded up; what is ``left`` is rounded down."""
        rounded = decimal_lower if left else decimal_upper
        return [
            f"{rounded(value, 6)} {unit}" for value, unit in zip(amounts, self.units, strict=True)
        ]


def terms_of(
    entity: str,
    scope: Scope,
    guarantee: Node | None,
    *,
    method: Method | str | None = None,
    renyi: Mapping[object, object] | None = None,
    schema: str | None = None,
    populations: Sequence[str] = (),
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
    refuse_disguise(entity, "entity of a ledger")
    if renyi is not None:
        rows = sorted((rational(a, "order"), rational(e, "cap")) for a, e in renyi.items())
        if not rows or any(a <= 1 or e <= 0 for a, e in rows):
            raise InvalidParameter("renyi: expected orders above 1, each with a positive cap")
        orders, caps = Amounts(a for a, _ in rows), Amounts(e for _, e in rows)
        units = tuple(f"divergence of order {readable(a)}" for a in orders)
        rdp = Method.RDP
        return Terms(entity, scope, None, rdp, orders, caps, units, schema, tuple(populations))
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
        tuple(populations),
    )


def read_terms(table: Any) -> Terms:
    """The terms that :meth:`Terms.to_json` wrote.

    Errors: InvalidParameter for anything else.
    """
    newer = sorted(set(table) - {field.name for field in fields(Terms)})
    if newer:
        raise InvalidParameter(
            f"terms of a ledger: {newer[0]!r} is not known; use the version of dpaudit that wrote "
            "it"
        )
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
            tuple(map(str, table.get("populations", ()))),
        )
    except (KeyError, TypeError, ValueError):
        raise InvalidParameter("malformed terms of a ledger") from None
