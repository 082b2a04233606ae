"""Odometers: the privacy loss so far, bounded at every time at once, without a budget.

With probability at least 1 - delta over the run on either of two neighbouring data sets, at every
time n the loss log(p / q) of everything released so far is at most ``epsilon_upper``.  So it may be
read at any stopping time; but a bound that is read is no guarantee fixed in advance, as a filter's
is.

* pure: the sum of epsilon; it holds surely.
* approx: the sum of epsilon, while the deltas add up to at most delta; infinite after that.
  Source: Rogers, Roth, Ullman, Vadhan 2016 (odometer by basic composition).
* zcdp: the smallest over j of (1 + l_j) R + log(1 / d_j) / l_j, R the sum of rho so far.
  Proof: exp(l L_n - l (1 + l) R_n) is a supermartingale of mean at most 1, because the divergence
  of order 1 + l of a release, given the past, is at most (1 + l) rho_n, and rho_n is fixed by the
  past.  Ville's inequality bounds L_n at all times for one l; the d_j of the l_j add up to delta.
  Source: Whitehouse, Ramdas, Rogers, Wu 2023 (filter and stitched odometers, by such lines).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

from dpaudit.accountant.filters.charges import (
    DIGITS,
    Amounts,
    Assumptions,
    assumption_rows,
    ceiling,
    declared,
    given,
    joined,
    read_amounts,
    read_assumptions,
    read_count,
    read_scope,
    scope_row,
    shortened,
)
from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.exact import (
    Number,
    decimal_upper,
    enclose,
    exact,
    infinity,
    is_symbolic,
    working_precision,
)
from dpaudit.exact.domains import probability
from dpaudit.exact.wire import decode_number, encode_number
from dpaudit.families.adaptive import FilterMeasure
from dpaudit.nodes import Node
from dpaudit.scope import Scope, choose

SIZES = {FilterMeasure.PURE: 1, FilterMeasure.APPROX: 2, FilterMeasure.ZCDP: 1}
# The sums of rho at which one line each is best: 2^-20 to 2^20.
LEVELS = tuple(Fraction(2) ** k for k in range(-20, 21))


@dataclass(frozen=True)
class Odometer:
    """What was spent so far in one measure; made by :func:`open_odometer`, never changed.

    ``delta``: the probability, fixed in advance, with which the bound may fail.
    ``spent``: the sums so far; ``count``: how many charges they hold; ``assumes``: what those of
    declarations rest on.
    """

    measure: FilterMeasure
    scope: Scope
    delta: Fraction
    spent: Amounts
    count: int
    assumes: Assumptions = ()

    def spend(self, asked: object) -> Odometer:
        """The odometer after a release: a declaration, or the number that somebody proved.

        Errors: InvalidParameter for a value that is no charge; Unsupported for a declaration
        without a rule, or a charge that is infinite.
        """
        size = SIZES[self.measure]
        if isinstance(asked, Node):
            charge = declared(asked, self.scope, str(self.measure))
        else:
            charge = given(asked, size)
        cost = charge.rounded
        if cost is None:
            raise Unsupported(f"odometer of {self.measure}: an infinite charge has no bound")
        sums = tuple(shortened(a + b) for a, b in zip(self.spent, cost, strict=True))
        assumes = joined(self.assumes, charge.assumes)
        return replace(self, spent=sums, count=self.count + 1, assumes=assumes)

    @property
    def epsilon_upper(self) -> Number:
        """The bound on the loss so far, rounded up; infinite where none holds."""
        if self.count == 0 or self.measure is FilterMeasure.PURE:
            return self.spent[0]
        if self.measure is FilterMeasure.APPROX:
            return self.spent[0] if self.spent[1] <= self.delta else infinity()
        return min(_line(self.spent[0], *line) for line in _lines(self.delta))

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON; :func:`read_odometer` takes it back."""
        return {
            "measure": str(self.measure),
            "scope": scope_row(self.scope),
            "delta": encode_number(self.delta),
            "spent": [encode_number(sum_) for sum_ in self.spent],
            "count": self.count,
            "assumes": assumption_rows(self.assumes),
        }


def open_odometer(measure: FilterMeasure | str, scope: Scope, delta: object = 0) -> Odometer:
    """An odometer that has seen nothing; measure pure (delta 0), approx, or zcdp.

    Errors: InvalidParameter for a delta outside [0, 1), or one that does not suit the measure;
    Unsupported for a measure without an odometer.
    """
    chosen = choose(FilterMeasure, measure, "measure")
    if chosen not in SIZES:
        raise Unsupported(f"odometer of {chosen}: none is known here; use pure, approx or zcdp")
    if not isinstance(scope, Scope):
        raise InvalidParameter(f"odometer: scope is a {type(scope).__name__}, expected a Scope")
    may_fail = exact(delta, "delta")
    probability(may_fail, "delta")
    if is_symbolic(may_fail):
        raise InvalidParameter(f"delta = {may_fail}: expected a rational number")
    if (may_fail > 0) is (chosen is FilterMeasure.PURE):
        wanted = "0 for pure" if chosen is FilterMeasure.PURE else f"a positive one for {chosen}"
        raise InvalidParameter(f"odometer: delta = {decimal_upper(may_fail)}: expected {wanted}")
    return Odometer(chosen, scope, may_fail, (Fraction(0),) * SIZES[chosen], 0)


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


@lru_cache(maxsize=64)
def _lines(delta: Fraction) -> tuple[tuple[Fraction, Fraction], ...]:
    """(l_j, an upper bound of log(1 / d_j)) with d_j = delta / number of lines."""
    with working_precision():
        cost = ceiling(enclose(len(LEVELS) / delta).log()) or Fraction(0)
        slopes = (float((enclose(cost) / enclose(level)).sqrt().mid()) for level in LEVELS)
        return tuple((Fraction(slope).limit_denominator(10**9), cost) for slope in slopes)


def _line(spent: Fraction, slope: Fraction, cost: Fraction) -> Fraction:
    return Fraction(decimal_upper((1 + slope) * spent + cost / slope, DIGITS))
