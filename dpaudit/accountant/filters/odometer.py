"""Odometers: the privacy loss so far, bounded at every time at once, without a budget.

With probability at least 1 - delta over the run on either of two neighbouring data sets, at every
time n the loss log(p / q) of everything released so far is at most ``epsilon_upper``.  So it may be
read at any stopping time; but a bound that is read is no guarantee fixed in advance, as a filter's
is.  How a measure's sums bound the loss, and who proved it, is the measure's own
(``Measure.running``): pure, approx and zcdp have it, and somebody else's may.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from dpaudit.accountant.filters.charges import (
    Amounts,
    Assumptions,
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
)
from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.exact import Number, decimal_upper, exact, is_infinite, is_symbolic
from dpaudit.exact.domains import probability
from dpaudit.exact.wire import decode_number, encode_number
from dpaudit.measures.calculus import CALCULI, Running, Sums
from dpaudit.nodes import Node
from dpaudit.scope import Scope


@dataclass(frozen=True)
class Odometer:
    """The loss spent so far in one measure; made by :func:`open_odometer`, never changed.

    ``delta``: the probability, fixed in advance, with which the bound may fail.
    ``spent``: the sums so far; ``count``: how many charges they hold; ``assumes``: what those of
    declarations rest on.
    """

    measure: str
    scope: Scope
    delta: Fraction
    spent: Amounts
    count: int
    assumes: Assumptions = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "spent", Amounts(self.spent))

    def spend(self, asked: object) -> Odometer:
        """The odometer after a release: a declaration, or the number that somebody proved.

        Errors: InvalidParameter for a value that is no charge; Unsupported for a declaration
        without a rule, or a charge that is infinite.
        """
        if isinstance(asked, Node):
            charge = declared(asked, self.scope, self.measure)
        else:
            charge = given(asked, len(self.spent))
        cost = raised(charge, _law(self.measure)[1].power).rounded
        if cost is None:
            raise Unsupported(f"odometer of {self.measure}: an infinite charge has no bound")
        refuse_refunds(f"odometer of {self.measure}", self.spent, cost)
        assumes = joined(self.assumes, charge.assumes)
        return replace(self, spent=self.spent.plus(cost), count=self.count + 1, assumes=assumes)

    @property
    def epsilon_upper(self) -> Number:
        """The bound on the loss so far, rounded up; infinite where none holds.

        Errors: InvalidParameter for sums that are no losses.
        """
        running, _ = _law(self.measure)
        refuse_refunds(f"odometer of {self.measure}", self.spent)
        if self.count == 0:
            return Fraction(0)
        bound = running.upper(self.spent, self.delta)
        refuse_refunds(f"odometer of {self.measure}", [] if is_infinite(bound) else [bound])
        return bound

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON; :func:`read_odometer` takes it back."""
        return {
            "measure": self.measure,
            "scope": scope_row(self.scope),
            "delta": encode_number(self.delta),
            "spent": [encode_number(sum_) for sum_ in self.spent],
            "count": self.count,
            "assumes": [a.row() for a in self.assumes],
        }


def open_odometer(measure: str, scope: Scope, delta: object = 0) -> Odometer:
    """An odometer that has seen nothing; ``measure``: pure (delta 0), approx, zcdp, or another's.

    Errors: InvalidParameter for a delta outside [0, 1), or one that does not suit the measure;
    Unsupported for a measure without an odometer.
    """
    running, sums = _law(measure)
    if not isinstance(scope, Scope):
        raise InvalidParameter(f"odometer: scope is a {type(scope).__name__}, expected a Scope")
    may_fail = exact(delta, "delta")
    probability(may_fail, "delta")
    if is_symbolic(may_fail):
        raise InvalidParameter(f"delta = {may_fail}: expected a rational number")
    if (may_fail > 0) is running.surely:
        wanted = f"0 for {measure}" if running.surely else f"a positive one for {measure}"
        raise InvalidParameter(f"odometer: delta = {decimal_upper(may_fail)}: expected {wanted}")
    return Odometer(str(measure), scope, may_fail, Amounts([0] * len(sums.units)), 0)


def _law(measure: str) -> tuple[Running, Sums]:
    """How a measure's charges add up, and how the sums bound the loss so far."""
    if str(measure) not in CALCULI:
        raise InvalidParameter(f"measure = {measure!r}: expected one of {', '.join(CALCULI)}")
    chosen = CALCULI[str(measure)].measure
    if chosen.running is None or chosen.sums is None:
        names = [name for name, calculus in CALCULI.items() if calculus.measure.running is not None]
        raise Unsupported(f"odometer of {measure}: none is known; there is {', '.join(names)}")
    return chosen.running, chosen.sums


def read_odometer(table: Any) -> Odometer:
    """The odometer that :meth:`Odometer.to_json` wrote.

    Errors: InvalidParameter for anything else.
    """
    try:
        opened = open_odometer(
            table["measure"], read_scope(table["scope"]), decode_number(table["delta"])
        )
        spent, count = read_amounts(table["spent"]), read_count(table["count"])
        assumes = read_assumptions(table["assumes"])
    except (KeyError, TypeError):
        raise InvalidParameter("malformed odometer: expected what to_json wrote") from None
    if len(spent) != len(opened.spent):
        raise InvalidParameter(f"malformed odometer: expected {len(opened.spent)} sums")
    return replace(opened, spent=spent, count=count, assumes=assumes)
