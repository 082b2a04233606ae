"""Combinators: composition, repetition, disjoint parts, and a guarantee under an assumption."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from reprlib import repr as short
from typing import Any, ClassVar

from dpaudit.errors import InvalidParameter
from dpaudit.exact import Number, is_symbolic
from dpaudit.exact.domains import SHOWN_CHARACTERS, Span, count, for_each, number
from dpaudit.nodes.core import (
    Assumption,
    Node,
    Several,
    examine,
    free_unknowns,
    postorder,
    symbols_in,
)
from dpaudit.nodes.records import Counts, Sees


class Compose(Several):
    """All children run on the same records, each free to depend on what was released before.

    So are the partition of a :class:`Parallel` child, the vector by which a replaced record moves
    the answers, and the child that is selected: profiles take the largest before they compose.

    >>> import dpaudit as dp
    >>> both = dp.Compose(dp.Laplace("count", 2), dp.Laplace("mean", 4))
    >>> dp.account(both, dp.central("add_remove")).step("pure").value
    Fraction(3, 4)
    """


class Parallel(Several):
    """Child i runs on part i of a partition of the records that does not depend on their values.

    Under replace_one and zero_out the changed record stays in its part; parts are public blocks.
    Beside other releases, the partition may be chosen by what they released.

    >>> import dpaudit as dp
    >>> parts = dp.Parallel(dp.Laplace("north", 2), dp.Laplace("south", 4))
    >>> dp.account(parts, dp.central("add_remove")).step("pure").value
    Fraction(1, 2)
    """

    counts: ClassVar[Counts] = Counts(sees=Sees.PARTS)


@dataclass(frozen=True, eq=False, repr=False)
class Repeat(Node):
    """``child`` runs ``times`` times in sequence, adaptively.

    With ``index`` (an integer symbol) the child's parameters may depend on the round 1..times; they
    must be in their domains in every round.

    >>> import dpaudit as dp
    >>> rounds = dp.Repeat(dp.Gaussian("gradient", 5), times=100)
    >>> dp.account(rounds, dp.central("add_remove")).step("gdp").value
    Fraction(2, 1)
    """

    child: Node
    times: Number = number(count)
    index: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.index is not None:
            self._check_index()

    def _check_index(self) -> None:
        """Errors: InvalidParameter for an index of another kind, or used otherwise."""
        import sympy

        name = str(self.index)[:SHOWN_CHARACTERS]
        wanted = sympy.Symbol(name, integer=True, positive=True)
        if not (is_symbolic(self.index) and self.index == wanted):
            raise InvalidParameter(
                f"Repeat.index = {name}: expected Symbol({name!r}, integer=True, positive=True)"
            )
        if self.index in symbols_in(self.times):
            raise InvalidParameter(f"Repeat.times = {self.times}: holds the index {name} itself")
        for node in postorder(self.child):
            symbols = set[Any]().union(*map(symbols_in, node.parameters.values()))
            namesakes = {s for s in symbols if s.name == name} - {self.index}
            if namesakes or getattr(node, "index", None) == self.index:
                raise InvalidParameter(
                    f"Repeat.index = {name}: {node.head[:SHOWN_CHARACTERS]} has another symbol or "
                    "index of that name; rename one"
                )
        if self.index in free_unknowns(self.child):
            with for_each({self.index: Span(Fraction(1), self.times)}):
                examine(self.child)


@dataclass(frozen=True, eq=False, repr=False)
class Assuming(Node):
    """``base``, whose guarantee holds under ``assumption``.

    >>> import dpaudit as dp
    >>> whose = dp.Assumption("public_bound", "the bound is public", "declared")
    >>> dp.Assuming(dp.Laplace("count", 2), whose).children
    (Laplace('count', noise_multiplier=2),)
    """

    base: Node
    assumption: Assumption

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.assumption, Assumption):
            raise InvalidParameter(
                f"Assuming.assumption = {short(self.assumption)}: expected an Assumption"
            )
