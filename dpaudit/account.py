"""The accountant: every calculus that has the rules, and the best sound bound among them."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

import dpaudit.rules  # noqa: F401  (registers the calculi)
from dpaudit.arithmetic import decimal_upper, enclose, exact, is_infinite
from dpaudit.calculus import CALCULI, Step
from dpaudit.domains import probability
from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.nodes import GDP, ZCDP, ApproxDP, Node, PureDP, find_path, postorder
from dpaudit.rules.convert import delta_upper, to_approx, tradeoff_lower
from dpaudit.scope import Scope

CALCULUS_OF: dict[type[Node], str] = {PureDP: "pure", ZCDP: "zcdp", GDP: "gdp"}


class Account:
    """What a declaration guarantees under a scope; every answer is a :class:`Step`."""

    def __init__(self, node: Node, scope: Scope) -> None:
        self.node = node
        self.scope = scope
        self._folded: dict[str, Step] = {}
        self._converted: dict[Fraction, Step] = {}

    def step(self, calculus: str) -> Step:
        """The fold under one calculus.

        Errors: InvalidParameter for a name that is no calculus; Unsupported naming the first node
        without a rule.
        """
        if calculus not in CALCULI:
            raise InvalidParameter(f"calculus {calculus!r}: expected one of {', '.join(CALCULI)}")
        if calculus not in self._folded:
            self._folded[calculus] = CALCULI[calculus].fold(self.node, self.scope)
        return self._folded[calculus]

    def routes(self) -> list[str]:
        """Calculi that have a rule for every node, exact ones first."""
        order = ("gdp", "pure", "approx", "rdp", "zcdp")
        return [name for name in order if CALCULI[name].supports(self.node, self.scope)]

    def epsilon(self, delta: object) -> Step:
        """The smallest certified epsilon at ``delta`` over all routes; value (epsilon, delta).

        Errors: InvalidParameter for delta outside [0, 1); Unsupported where no calculus covers the
        whole tree.
        """
        at = exact(delta, "delta")
        probability(at, "delta")
        if at not in self._converted:
            candidates = [to_approx(self.step(name), at) for name in self._routes()]
            self._converted[at] = min(candidates, key=_size)
        return self._converted[at]

    def _routes(self) -> list[str]:
        found = self.routes()
        if not found:
            raise Unsupported(self._why_none())
        return found

    def _why_none(self) -> str:
        table = []
        for node in postorder(self.node):
            has = [c.name for c in CALCULI.values() if c.has(node, self.scope)]
            table.append((len(has), node, has))
        _, node, has = min(table, key=lambda row: row[0])
        rules_for = ", ".join(has) or "no calculus"
        return (
            f"{find_path(self.node, node)}: no one calculus covers the whole declaration under "
            f"{self.scope.adjacency}; this node has rules in {rules_for}"
        )

    def upper(self, claim: Node) -> Step:
        """The bound that answers a claim, in the claim's own measure."""
        if isinstance(claim, ApproxDP):
            return self.epsilon(claim.delta)
        return self.step(CALCULUS_OF[type(claim)])

    def profile(self, epsilons: list[Fraction]) -> list[tuple[Fraction, str]]:
        """Upper bounds of delta at the given epsilons, where the Gaussian route covers the tree."""
        if "gdp" not in self.routes():
            return []
        rows = ((e, delta_upper(self.step("gdp"), e)) for e in epsilons)
        return [(e, d) for e, d in rows if d is not None]

    def tradeoff(self, alphas: list[Fraction]) -> list[tuple[Fraction, str]]:
        """Lower bounds of the false-negative rate at the given false-positive rates."""
        if "gdp" not in self.routes() or is_infinite(self.step("gdp").value):
            return []
        return [(a, tradeoff_lower(self.step("gdp").value, a)) for a in alphas]


def _size(step: Step) -> Any:
    epsilon = step.value[0]
    return (1, 0.0) if is_infinite(epsilon) else (0, float(enclose(epsilon).mid()))


def account(node: Node, scope: Scope) -> Account:
    """The account of a declaration under a scope."""
    return Account(node, scope)


DELTAS = ("1e-3", "1e-5", "1e-6", "1e-9")


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
            {"delta": text, "epsilon_upper": decimal_upper(step.value[0]), "rule": step.rule}
            for text, step in rows
        ],
    }


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise InvalidParameter(f"delta = {text!r}: expected a number in [0, 1)") from None
