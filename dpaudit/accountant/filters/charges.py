"""The cost of a release: a declaration's value in a calculus, or a number that somebody proved.

Everything here is a fraction: exact where it is rational, else rounded up at 30 digits.  A privacy
loss is never below 0: a smaller one would give back what earlier releases spent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from typing import Any

from dpaudit.errors import InvalidParameter
from dpaudit.exact import (
    Number,
    canonical,
    decimal_lower,
    decimal_upper,
    enclose,
    exact,
    is_infinite,
    is_symbolic,
    readable,
    replaced,
    unknowns,
    working_precision,
)
from dpaudit.exact.domains import non_negative
from dpaudit.exact.wire import decode_number
from dpaudit.measures.calculus import CALCULI
from dpaudit.measures.renyi import order
from dpaudit.nodes import Assumption, Node
from dpaudit.nodes.registry import load
from dpaudit.scope import Scope

load("rules")

Assumptions = tuple[Assumption, ...]
CHARGE_DIGITS = 30  # Significant digits to which an irrational charge is rounded up.
# A sum of fractions is rounded up beyond this, lest its digits grow without end.
LARGEST_DENOMINATOR = 10**60


class Amounts(tuple[Fraction, ...]):
    """Amounts of privacy loss, one for each sum that is kept: fractions of at least 0.

    Errors: InvalidParameter for anything else: a negative number, NaN, a float, a text.
    """

    __slots__ = ()

    def __new__(cls, values: Iterable[object] = ()) -> Amounts:
        if type(values) is cls:
            return values  # they were checked when they were made
        numbers = tuple(values)
        for value in numbers:
            if type(value) is Fraction and value.numerator >= 0:
                continue  # a ledger asks this of every entry
            is_integer = isinstance(value, int) and not isinstance(value, bool)
            if not (is_integer or isinstance(value, Fraction)) or value < 0:  # type: ignore[operator]
                raise InvalidParameter(
                    f"privacy loss {str(value)[:60]}: expected a fraction that is not negative"
                )
        checked: Any = numbers
        return super().__new__(cls, (v if type(v) is Fraction else Fraction(v) for v in checked))

    def plus(self, more: Sequence[Fraction]) -> Amounts:
        """The sums after a charge, rounded up where their denominators are very long."""
        return Amounts(shortened(a + b) for a, b in zip(self, more, strict=True))


def refuse_refunds(place: str, *amounts: Iterable[object]) -> None:
    """Refuse amounts that would lower a sum; every addition checks this, whatever its source.

    Errors: InvalidParameter for a number below 0, NaN, and what is not a number.
    """
    for value in chain(*amounts):
        if type(value) is Fraction and value.numerator >= 0:
            continue  # a ledger asks this of every entry
        try:
            adds = value >= 0 and value - value == 0  # type: ignore[operator]
        except TypeError:
            adds = False
        if isinstance(value, bool) or not adds:
            raise InvalidParameter(
                f"{place}: {str(value)[:60]} is no privacy loss: expected a finite number of at "
                "least 0, since a smaller one would give back what was spent. Nothing was charged"
            )


@dataclass(frozen=True)
class Charge:
    """The exact cost of a release, and the assumptions on which it rests.

    Errors: InvalidParameter for a value below 0, or one that is no number.
    """

    values: Sequence[Any]
    assumes: Assumptions = ()

    def __post_init__(self) -> None:
        # Before a power is taken, which would hide the sign.
        for value in self.values:
            ceiling(value)

    @property
    def rounded(self) -> Amounts | None:
        """The values as fractions, rounded up where they are irrational; None for infinity."""
        amounts = [ceiling(value) for value in self.values]
        return None if None in amounts else Amounts(amounts)


def declared(node: Node, scope: Scope, calculus: str, orders: Sequence[Fraction] = ()) -> Charge:
    """The value of a declaration: one number, epsilon and delta, or a curve at some orders.

    Errors: Unsupported without a rule; InvalidParameter while symbols have no value.
    """
    step = CALCULI[calculus].fold(node, scope)
    value, assumes = step.value, step.assumptions()
    values = value if isinstance(value, tuple) else (value,)
    free = set[Any]().union(*map(unknowns, values)) - ({order()} if calculus == "rdp" else set())
    if free:
        names = ", ".join(sorted(map(str, free)))
        raise InvalidParameter(f"charge {node.head[:80]}: bind {names} to numbers before spending")
    if calculus != "rdp" or is_infinite(value):
        return Charge(values * max(1, len(orders)), assumes)
    return Charge(at_orders(value, orders), assumes)


def at_orders(curve: Number, orders: Sequence[Fraction]) -> list[Number]:
    """A Renyi curve at each of some orders."""
    return [replaced(curve, {order(): a}) for a in orders]


def given(asked: object, size: int) -> Charge:
    """The numbers of a charge; a delta that is left out is 0.

    Errors: InvalidParameter for another count of numbers, or a value that is not finite, negative,
    or a symbol.
    """
    values = list(asked) if isinstance(asked, (tuple, list)) else [asked]
    values += [Fraction(0)] * (len(values) == 1 and size == 2)
    if len(values) != size:
        raise InvalidParameter(f"charge of {len(values)} numbers: expected {size}")
    numbers = [exact(value, "charge") for value in values]
    for value in numbers:
        non_negative(value, "charge")
        if unknowns(value):
            raise InvalidParameter(f"charge {str(value)[:80]}: expected a number, not a symbol")
    return Charge(numbers)


def raised(charge: Charge, power: int) -> Charge:
    """A charge as it is added: its value to the power of the measure's sums; a delta never is."""
    if power == 1:
        return charge
    first, *others = charge.values
    return Charge((canonical(first**power), *others), charge.assumes)


def joined(first: Assumptions, second: Assumptions) -> Assumptions:
    """All assumptions, each once.

    Errors: InvalidParameter for two different ones under one id.
    """
    by_id = {assumption.id: assumption for assumption in first}
    for assumption in second:
        if by_id.setdefault(assumption.id, assumption) != assumption:
            raise InvalidParameter(f"two different assumptions share the id {assumption.id!r}")
    return tuple(by_id.values())


def ceiling(value: Any) -> Fraction | None:
    """The value itself or, where it is irrational, a little more; None for infinity.

    Errors: InvalidParameter for a privacy loss below 0, or one that is no number.
    """
    number = canonical(value) if is_symbolic(value) else value
    if is_symbolic(number) and is_infinite(number):
        return None
    if is_symbolic(number):
        with working_precision():
            text = decimal_upper(enclose(number), CHARGE_DIGITS)
        if text == "inf":
            return None
        number = Fraction(text)
    (amount,) = Amounts([number])
    return shortened(amount)


def floor(value: Any) -> Fraction:
    """The value itself or, where it is irrational, a little less."""
    number = canonical(value) if is_symbolic(value) else value
    if isinstance(number, Fraction):
        return number
    with working_precision():
        return Fraction(
            decimal_lower(enclose(number) if is_symbolic(number) else number, CHARGE_DIGITS)
        )


def shortened(value: Fraction) -> Fraction:
    """The value itself or, where its denominator is very long, a little more."""
    if value.denominator <= LARGEST_DENOMINATOR:
        return value
    return Fraction(decimal_upper(value, 2 * CHARGE_DIGITS))


def shown(value: Fraction) -> str:
    """A sum in a message: exact where it is short."""
    text = readable(value)
    return text if len(text) <= CHARGE_DIGITS else f"about {decimal_upper(value, 6)}"


def read_amounts(rows: Any) -> Amounts:
    """Fractions from the wire.

    Errors: InvalidParameter for anything else, or a negative one.
    """
    if not isinstance(rows, list):
        raise InvalidParameter("malformed sums: expected a list of fractions")
    return Amounts(map(decode_number, rows))


def read_count(value: Any) -> int:
    """A count of releases from the wire.

    Errors: InvalidParameter for anything that is no whole number, or is negative.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidParameter("malformed count of releases: expected a whole number")
    return value


def read_assumptions(rows: Any) -> Assumptions:
    """The assumptions that :meth:`Assumption.row` wrote, one each.

    Errors: InvalidParameter for anything else.
    """
    names = {"id", "statement", "status", "evidence"}
    if not isinstance(rows, list) or not all(isinstance(r, dict) and set(r) == names for r in rows):
        raise InvalidParameter(f"malformed assumptions: expected {', '.join(sorted(names))}")
    return joined((), tuple(Assumption(**row) for row in rows))


def scope_row(scope: Scope) -> dict[str, str]:
    """A scope as JSON."""
    return {
        "adjacency": str(scope.adjacency),
        "unit": str(scope.unit),
        "trust": str(scope.trust),
        "released": str(scope.released),
    }


def read_scope(row: Any) -> Scope:
    """The scope that :func:`scope_row` wrote.

    Errors: InvalidParameter for anything else.
    """
    names = ("adjacency", "unit", "trust", "released")
    if not isinstance(row, dict) or set(row) != set(names):
        raise InvalidParameter(f"malformed scope: expected {', '.join(names)}")
    return Scope(*(row[name] for name in names))
