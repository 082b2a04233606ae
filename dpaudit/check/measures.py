"""The measures as the checker knows them: wire form, laws, conversion and what error rates imply.

A measure of somebody else's is registered here as well, beside its theorems; a certificate in a
measure that is not registered is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Protocol

from dpaudit.check.normal import gaussian_delta
from dpaudit.check.reading import SLACK, TINY, Json, at_least, decimal
from dpaudit.errors import InvalidParameter
from dpaudit.exact import (
    enclose,
    infinity,
    is_infinite,
    is_symbolic,
    maximum,
    settled,
    sqrt,
    total,
    total_over,
    working_precision,
)
from dpaudit.exact.wire import decode_number

LARGEST_EPSILON = Fraction(2) ** 99  # an epsilon above counts as infinite


class Premise(Protocol):
    """The part of a premise that a conversion reads."""

    @property
    def calculus(self) -> str:
        """The name of its measure."""

    @property
    def upper(self) -> Any:
        """Its bound."""

    @property
    def attained(self) -> bool:
        """Whether some data and queries reach it."""


Result = tuple[Any, Fraction | None]
Conversion = Callable[[Premise, Any, str, Json], Result]
FromRates = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class CheckedMeasure:
    """``name`` of its calculus; ``wire``: of the measure; ``parameter``: of its claims' number, and
    ``wire_field``: where a certificate writes it.

    ``claim``: the node type that states it, "" where none does.  ``is_number``: whether a bound is
    one number.  Laws, on bounds: ``combine(values)``, ``repeat(value, index, times)``,
    ``largest(values)``, ``unbounded()``; pairs have rules of their own (None).  ``attained``:
    whether composed bounds are reached where the premises' are.  ``to_approx``
    confirms a stated epsilon: the value and what is reached, or :data:`REFUSED`.
    ``from_rates``: a ball that the number is at least, from balls above a test's error rates.
    """

    name: str
    wire: str
    parameter: str = ""
    claim: str = ""
    is_number: bool = True
    combine: Callable[[Sequence[Any]], Any] | None = total
    repeat: Callable[[Any, Any, Any], Any] = total_over
    largest: Callable[[Sequence[Any]], Any] = maximum
    unbounded: Callable[[], Any] = infinity
    attained: bool = True
    to_approx: Conversion | None = None
    from_rates: FromRates | None = None
    wire_field: str = "value"


MEASURES: dict[str, CheckedMeasure] = {}
_EVERYWHERE: list[Callable[[CheckedMeasure], None]] = []


def register_measure(measure: CheckedMeasure) -> CheckedMeasure:
    """Make a measure known to the checker.

    Errors: InvalidParameter for a name, wire form or kind of claim that is taken.
    """
    for other in MEASURES.values():
        same = [
            place
            for place in ("name", "wire", "claim")
            if getattr(measure, place) and getattr(measure, place) == getattr(other, place)
        ]
        if same:
            raise InvalidParameter(f"the checker has a measure of that {same[0]}: {measure.name!r}")
    MEASURES[measure.name] = measure
    for add in _EVERYWHERE:
        add(measure)
    return measure


def in_every_measure(add: Callable[[CheckedMeasure], None]) -> Callable[[CheckedMeasure], None]:
    """Decorator: theorems that follow from a measure's laws alone, whenever it is registered."""
    for measure in MEASURES.values():
        add(measure)
    _EVERYWHERE.append(add)
    return add


def claimed_as(kind: str) -> CheckedMeasure | None:
    """The measure whose claims a node type states."""
    return next((m for m in MEASURES.values() if kind and m.claim == kind), None)


# --- conversions to (epsilon, delta) -------------------------------------------------------------


REFUSED: Result = (None, None)  # the answer where a stated epsilon is not confirmed


def _infinite(text: str) -> Result:
    return (infinity(), None) if text == "inf" else REFUSED


def _from_gdp(premise: Premise, delta: Any, text: str, witness: Json) -> Result:
    """delta(epsilon) <= delta; the lower end reaches it, and a billionth above that does not."""
    mu = premise.upper
    if is_infinite(mu) or (delta == 0 and mu != 0):
        return _infinite(text)
    if mu == 0:
        return (Fraction(0), Fraction(0) if premise.attained else None) if text == "0" else REFUSED
    ball, allowed = enclose(mu), enclose(delta)
    if text == "inf":
        return REFUSED if gaussian_delta(LARGEST_EPSILON, ball) <= allowed else _infinite(text)
    epsilon = decimal(text)
    if witness["epsilon"] != text:
        return REFUSED
    if not gaussian_delta(epsilon, ball) <= allowed:
        return REFUSED
    if not premise.attained:
        return epsilon, None
    # A lower one would hide what is refuted: next to what is reached, nothing more is.
    reached = decimal(witness["epsilon_lower"])
    follows = reached == 0 or gaussian_delta(reached, ball) >= allowed
    beyond = reached * (1 + 2 * SLACK) + TINY
    return (epsilon, reached) if follows and gaussian_delta(beyond, ball) <= allowed else REFUSED


def _from_number(exact: Any, text: str) -> Result:
    if not at_least(text, exact):
        return REFUSED
    if text == "inf":
        return infinity(), None
    # A fraction stays exact, another number is what it is rounded to.
    return (decimal(text) if is_symbolic(exact) else exact), None


def _from_pure(premise: Premise, delta: Any, text: str, witness: Json) -> Result:
    return _from_number(premise.upper, text)


def _from_approx(premise: Premise, delta: Any, text: str, witness: Json) -> Result:
    epsilon, own = premise.upper
    if is_infinite(epsilon) or not (own == delta or enclose(own) <= enclose(delta)):
        return _infinite(text)
    return _from_number(epsilon, text)


def _from_curve(premise: Premise, delta: Any, text: str, witness: Json) -> Result:
    """The Renyi conversion at the witness's order."""
    curve = premise.upper if premise.calculus == "rdp" else lambda a: premise.upper * a
    if delta == 0 or is_infinite(curve(Fraction(2))):
        return _infinite(text)
    order = decode_number(witness["order"])
    if text == "inf" or is_symbolic(order) or order <= 1:
        return REFUSED
    with working_precision():
        a, d = enclose(order), enclose(delta)
        exact = enclose(curve(order)) + (1 - 1 / a).log() - (d.log() + a.log()) / (a - 1)
        exact = exact.max(0)
        follows = at_least(text, exact)
    return (decimal(text), None) if follows else REFUSED


# --- the five that are numbers, and pairs ---------------------------------------------------------


def _squares(values: Sequence[Any]) -> Any:
    return sqrt(total(mu**2 for mu in values))


def _squares_over(mu: Any, index: Any, times: Any) -> Any:
    return sqrt(total_over(mu**2, index, times))


def _at_every_order(combine: Callable[[Sequence[Any]], Any]) -> Callable[[Sequence[Any]], Any]:
    return lambda curves: lambda a: settled(combine([curve(a) for curve in curves]))


def _of_both(combine: Callable[[Sequence[Any]], Any]) -> Callable[[Sequence[Any]], Any]:
    return lambda pairs: tuple(settled(combine([pair[i] for pair in pairs])) for i in (0, 1))


STEP, GRID = Fraction(1122, 1000), range(-60, 61)


@lru_cache(maxsize=1)
def _orders() -> tuple[Any, ...]:
    """The fixed grid of orders, above 1."""
    with working_precision():
        return tuple(1 + enclose(Fraction(10) ** (k // 20) * STEP ** (k % 20)) for k in GRID)


def _rho(positive: Any, negative: Any) -> Any:
    """The largest D_a(p || q) / a over a fixed grid of orders, p = 1 - FNR and q = FPR."""
    with working_precision():
        best = enclose(Fraction(0))
        for a in _orders():
            for p, q in ((1 - negative, positive), (1 - positive, negative)):
                if p > q:
                    moment = p**a * q ** (1 - a) + (1 - p) ** a * (1 - q) ** (1 - a)
                    best = best.max(moment.log() / (a - 1) / a)
        return best


for _measure in (
    CheckedMeasure(
        "pure", "pure_dp", "epsilon", "PureDP", to_approx=_from_pure, wire_field="epsilon"
    ),
    CheckedMeasure(
        "approx",
        "approx_dp",
        "epsilon",
        "ApproxDP",
        combine=_of_both(total),
        repeat=lambda pair, index, times: tuple(total_over(v, index, times) for v in pair),
        largest=_of_both(maximum),
        unbounded=lambda: (infinity(), Fraction(1)),
        to_approx=_from_approx,
        wire_field="epsilon",
    ),
    CheckedMeasure(
        "zcdp", "zcdp", "rho", "ZCDP", to_approx=_from_curve, from_rates=_rho, wire_field="rho"
    ),
    CheckedMeasure(
        "gdp",
        "gdp",
        "mu",
        "GDP",
        combine=_squares,
        repeat=_squares_over,
        to_approx=_from_gdp,
        wire_field="mu",
    ),
    CheckedMeasure(
        "rdp",
        "rdp",
        is_number=False,
        combine=_at_every_order(total),
        repeat=lambda curve, index, times: lambda a: settled(total_over(curve(a), index, times)),
        largest=_at_every_order(maximum),
        unbounded=lambda: lambda a: infinity(),
        to_approx=_from_curve,
    ),
    CheckedMeasure("profile", "pairs", is_number=False, combine=None),
):
    register_measure(_measure)
