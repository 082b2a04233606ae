"""Rules of several calculi that follow from one guarantee, registered for a kind of node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from dpaudit.exact import Number, is_infinite
from dpaudit.measures.approx import APPROX
from dpaudit.measures.calculus import Attained, Source, always, never
from dpaudit.measures.gdp import GAUSSIAN
from dpaudit.measures.pure import PURE
from dpaudit.measures.renyi import RENYI, order
from dpaudit.measures.zcdp import CONCENTRATED
from dpaudit.nodes import Node

UNBOUNDED = "an unbounded loss: no epsilon holds at delta 0"
WHOLE_CURVE = "a whole curve of (epsilon, delta), no one point of it: convert another calculus"


def unbounded(*kinds: type[Node]) -> None:
    """State that no point of these kinds' curves of (epsilon, delta) is theirs, nor one at 0."""
    PURE.absent(*kinds, reason=UNBOUNDED)
    APPROX.absent(*kinds, reason=WHOLE_CURVE)


def gaussian(
    kind: type[Node],
    names: Sequence[str],
    mu: Callable[[Any], Number],
    *cites: Source,
    attained: Attained = never,
) -> None:
    """Register mu-GDP in three calculi: mu, the zCDP mu^2 / 2, and alpha mu^2 / 2 at each order.

    ``names``: of the rules in gdp, zcdp and rdp; ``cites``: their sources, one for all or three.
    """

    def half_square(node: Any) -> Number:
        """Half the square of mu."""
        value = mu(node)
        return value if is_infinite(value) else value**2 / 2

    def curve(node: Any) -> Number:
        """Half the square of mu, times the order."""
        value = half_square(node)
        return value if is_infinite(value) else order() * value

    mu.__doc__ = mu.__doc__ or "The mu of the Gaussian pair that no pair of neighbours exceeds."
    functions = {GAUSSIAN: mu, CONCENTRATED: half_square, RENYI: curve}
    sources = cites * 3 if len(cites) == 1 else cites
    for (calculus, function), name, cite in zip(functions.items(), names, sources, strict=True):
        calculus.rule(kind, name, cite=cite, attained=attained)(function)


def largest_loss(
    name: str, epsilon: Callable[[Any], Number], cite: Source, *kinds: type[Node]
) -> None:
    """Register a largest loss, reached in the limit, and (that loss, 0) as ``NAME_at_zero``."""

    def at_zero(node: Any) -> tuple[Number, Fraction]:
        """The largest loss, at delta 0."""
        return epsilon(node), Fraction(0)

    epsilon.__doc__ = epsilon.__doc__ or "The largest loss of an outcome."
    for kind in kinds:
        PURE.rule(kind, name, cite=cite, attained=always)(epsilon)
        APPROX.rule(kind, f"{name}_at_zero", cite=cite)(at_zero)
