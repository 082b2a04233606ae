"""Adaptive choices: which of several mechanisms runs, and how much noise each release carries."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import Any, ClassVar

from dpaudit.errors import InvalidParameter
from dpaudit.exact import Number
from dpaudit.exact.domains import non_negative, number, probability, refuse
from dpaudit.families.opaque.node import GDP, ZCDP, ApproxDP, PureDP, RenyiCurve
from dpaudit.nodes.core import Leaf, Node, Several, symbols_in
from dpaudit.scope import choose


class Select(Several):
    """One child runs: which one may depend on what was released before, or on public coins."""


class FilterMeasure(StrEnum):
    """The calculus in which a filter adds its charges."""

    PURE = "pure"
    APPROX = "approx"
    ZCDP = "zcdp"
    RDP = "rdp"
    GDP = "gdp"


BUDGETS: dict[FilterMeasure, type[Leaf]] = {
    FilterMeasure.PURE: PureDP,
    FilterMeasure.APPROX: ApproxDP,
    FilterMeasure.ZCDP: ZCDP,
    FilterMeasure.RDP: RenyiCurve,
    FilterMeasure.GDP: GDP,
}
SYMBOL = RenyiCurve.speaks_of


@dataclass(frozen=True, eq=False, repr=False)
class Filter(Node):
    """Releases of the kind of ``child``, as many as fit, each with noise chosen from the past.

    Charges, made of released values only, are added in ``measure`` (their squares, for gdp) before
    each release; one that would pass ``cap`` is refused before data is touched.  The guarantee is
    the cap, never the realised sum.

    ``child``: a leaf, or a Select or Compose of leaves; its noise multipliers are placeholders.
    ``cap``: epsilon, rho or mu, or a curve in Symbol("alpha", positive=True) for rdp; ``delta``:
    the cap on the sum of deltas, for approx only.  :meth:`of` takes the cap as a guarantee.

    >>> import dpaudit as dp
    >>> spent = dp.Filter.of(dp.Gaussian("query", 1), dp.ZCDP("0.5"))
    >>> dp.account(spent, dp.central("add_remove")).step("zcdp").value
    Fraction(1, 2)
    """

    speaks_of: ClassVar[str] = SYMBOL
    child: Node
    measure: str
    cap: Number = number(non_negative)
    delta: Number = field(default=Fraction(0), metadata={"kind": "number", "domain": probability})

    def __post_init__(self) -> None:
        super().__post_init__()
        measure = choose(FilterMeasure, self.measure, "Filter.measure")
        object.__setattr__(self, "measure", measure)
        if measure is not FilterMeasure.APPROX and self.delta != 0:
            refuse(self.delta, "Filter.delta", "0 in every measure but approx")
        speaks = {s.name for value in (self.cap, self.delta) for s in symbols_in(value)}
        if measure is not FilterMeasure.RDP and SYMBOL in speaks:
            refuse(self.cap, "Filter.cap", f"no symbol {SYMBOL} in every measure but rdp")
        inside = self.child.children if isinstance(self.child, Several) else (self.child,)
        if not all(isinstance(node, Leaf) for node in inside):
            raise InvalidParameter(
                f"Filter.child = {self.child.head}: expected a leaf, "
                "or a Select or Compose of leaves"
            )

    @classmethod
    def of(cls, child: Node, budget: Node) -> Filter:
        """The filter whose cap is a guarantee: PureDP, ApproxDP, ZCDP, RenyiCurve or GDP.

        Errors: InvalidParameter for any other node.
        """
        measure = measure_of(budget)
        delta = budget.delta if isinstance(budget, ApproxDP) else Fraction(0)
        return cls(child, measure, amount(budget), delta)

    @property
    def budget(self) -> Leaf:
        """The cap as a guarantee."""
        own: list[Any] = (
            [self.cap, self.delta] if self.measure == FilterMeasure.APPROX else [self.cap]
        )
        return BUDGETS[FilterMeasure(self.measure)](*own)


def measure_of(budget: object) -> FilterMeasure:
    """The measure in which a guarantee is a budget.

    Errors: InvalidParameter for anything that is not one of the five guarantees.
    """
    for measure, kind in BUDGETS.items():
        if type(budget) is kind:
            return measure
    names = ", ".join(kind.__name__ for kind in BUDGETS.values())
    shown = budget.head if isinstance(budget, Node) else type(budget).__name__
    raise InvalidParameter(f"budget {shown}: expected one of {names}")


def amount(budget: Any) -> Number:
    """The epsilon, rho, mu or curve of a guarantee."""
    names = ("epsilon", "rho", "mu", "curve")
    return next(getattr(budget, name) for name in names if hasattr(budget, name))
