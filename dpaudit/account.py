"""Opening an account: plain, or cross-checked by every independent route; and as a table."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Any

from dpaudit import consensus
from dpaudit.accounting import CALCULUS_OF, Account, Bound
from dpaudit.arithmetic import decimal_lower, decimal_upper
from dpaudit.calculus import Step
from dpaudit.curves import WIDTH
from dpaudit.errors import InvalidParameter
from dpaudit.nodes import Node
from dpaudit.scope import Scope

__all__ = ["CALCULUS_OF", "Account", "Bound", "CrossChecked", "account", "account_table"]

DELTAS = ("1e-3", "1e-5", "1e-6", "1e-9")


class CrossChecked(Account):
    """An account whose every epsilon is first asked of all independent routes.

    Errors: as :class:`Account`; Disagreement where one route's upper bound is below another's
    lower bound.
    """

    def approximate(self, delta: object) -> Step:
        consensus.cross_check(self.node, self.scope, delta)
        return super().approximate(delta)


def account(
    node: Node, scope: Scope, width: float = WIDTH, *, cross_check: bool = False
) -> Account:
    """The account of a declaration under a scope.

    ``width``: how far apart the ends of an epsilon may be.  ``cross_check``: ask every independent
    route, dp-accounting's among them, and fail where two contradict each other.
    Errors: InvalidParameter for a width that is not a positive number.
    """
    if not 0 < width < float("inf"):
        raise InvalidParameter(f"width = {width}: expected a positive number")
    return (CrossChecked if cross_check else Account)(node, scope, width)


def account_table(node: Node, scope: Scope, delta: str | None = None) -> dict[str, Any]:
    """The account as JSON: every calculus that applies, and epsilon at some deltas.

    Errors: InvalidParameter for a delta that is no number in [0, 1); Unsupported as
    :meth:`Account.epsilon`.
    """
    from dpaudit.rules.show import value_text

    opened = Account(node, scope)
    asked = [delta] if delta is not None else list(DELTAS)
    rows = [(text, opened.epsilon(_decimal(text))) for text in asked]
    return {
        "scope": str(scope),
        "calculi": {name: value_text(opened.step(name).value) for name in opened.routes()},
        "epsilon": [
            {
                "delta": text,
                "epsilon_lower": decimal_lower(bound.lower),
                "epsilon_upper": decimal_upper(bound.upper),
                "rule": bound.upper_method,
            }
            for text, bound in rows
        ],
    }


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise InvalidParameter(f"delta = {text!r}: expected a number in [0, 1)") from None
