"""Arb balls that hold the exact value of an expression, and their precision."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from dpaudit.errors import InternalError, InvalidParameter
from dpaudit.exact import search
from dpaudit.exact.effort import spend
from dpaudit.exact.forms import Number, head, is_arb, is_rational, size
from dpaudit.exact.operations import CONSTANTS, ENCLOSURES, ball

PRECISION_BITS = 160  # precision of balls: three times a float's
COMPARING_BITS = (160, 2_000, 40_000)  # precisions at which a comparison is tried in turn
SUM_BITS = 10_240  # precision at which a cancelling sum is no longer repeated
MAXIMUM_TERMS = 100_000  # of a sum without a closed form: more take minutes


class TooManyTerms(InvalidParameter):
    """A sum that would take too long."""


def enclose(value: Number, symbols: Mapping[Any, Any] | None = None) -> Any:
    """An Arb ball that holds the exact value; ``symbols`` gives balls for its free symbols.

    Errors: InvalidParameter for a symbol without a value, or a function without an enclosure.
    """
    with working_precision():
        if not symbols:
            return _constant(value)
        symbol, *others = symbols
        if others or not symbol.is_Symbol or is_rational(value):
            return _enclose(value, symbols)
        return _function_of(value, symbol)(symbols[symbol])


@lru_cache(maxsize=4096)
def _constant(value: Number) -> Any:
    """A number's ball at the working precision."""
    return _enclose(value, {})


@lru_cache(maxsize=256)
def _function_of(value: Any, symbol: Any) -> Callable[[Any], Any]:
    """An expression as a function of the ball of its one symbol, at the working precision."""
    return _as_function(value, symbol, {})


def working_precision() -> Any:
    """Context in which balls are computed with ``PRECISION_BITS`` bits."""
    import flint

    return flint.ctx.workprec(PRECISION_BITS)


def require_order(lower: Any, upper: Any, what: str) -> None:
    """Refuse an interval whose lower end is certainly above its upper end.

    Errors: InternalError, since no number lies in such an interval.
    """
    rational = is_rational(lower) and is_rational(upper)
    if lower is upper or (lower <= upper if rational else not as_ball(lower) > as_ball(upper)):
        return
    raise InternalError(
        f"{what}: its lower end {float(as_ball(lower))} is above its upper end "
        f"{float(as_ball(upper))}. This is an error of dpaudit: use neither, and report what was "
        "asked for"
    )


def as_ball(value: Any) -> Any:
    """The ball itself, or one that holds a float, fraction or expression."""
    if isinstance(value, float):
        return ball("0") + value
    return value if is_arb(value) else enclose(value)


def largest(items: list[Any]) -> list[Any]:
    """The numbers of which none is certainly below another; SymPy would factor to compare them."""
    import flint

    for bits in COMPARING_BITS:
        if len(items) == 1:
            break
        with flint.ctx.workprec(bits):
            balls = {v: _enclose(v, {}) for v in items}
        items = [v for v in items if not any(ball > balls[v] for ball in balls.values())]
    return items


def sign(value: Number) -> int | None:
    """1 for a number above 0, -1 for one below, None where its enclosure holds 0 or takes too long.

    Errors: InvalidParameter for a function without an enclosure.
    """
    try:
        enclosure = enclose(value)
    except TooManyTerms:
        return None
    return 1 if enclosure > 0 else -1 if enclosure < 0 else None


search.signs_from(sign)


def _enclose(value: Number, symbols: Mapping[Any, Any]) -> Any:
    import flint

    if is_rational(value):
        return flint.arb(value.numerator) / flint.arb(value.denominator)
    if value in symbols:
        return symbols[value]
    if value.is_Rational:
        return flint.arb(int(value.p)) / flint.arb(int(value.q))
    name = head(value)
    if name in CONSTANTS:
        return CONSTANTS[name]()
    if name == "Sum":
        return _enclose_sum(value.args[0], value.args[1:], symbols)
    if name not in ENCLOSURES:
        raise InvalidParameter(f"{str(value)[:200]}: no number for it; bind its symbols first")
    spend(_digits_cost(), "an expression")
    return ENCLOSURES[name]([_enclose(a, symbols) for a in value.args])


def _enclose_sum(summand: Any, limits: Any, symbols: Mapping[Any, Any]) -> Any:
    """The last limit is the outermost; an index hides a symbol of the same name outside."""
    if not limits:
        return _enclose(summand, symbols)
    _, first, last = limits[-1]
    rounds = _rounds(_enclose(first, symbols), _enclose(last, symbols), summand)
    whole_values = _whole_values(summand, limits, symbols)
    if whole_values is None:
        return _sum_over(summand, limits, rounds, symbols)
    import flint

    return _accurate_sum(summand, limits, rounds, whole_values, int(flint.ctx.prec))


def _whole_values(
    summand: Any, limits: Any, symbols: Mapping[Any, Any]
) -> tuple[tuple[Any, int], ...] | None:
    """Values of the summand's symbols if all are whole numbers; None otherwise."""
    needed = _needed(summand, limits)
    if needed is None or not all(symbol in symbols for symbol in needed):
        return None
    balls = [(symbol, symbols[symbol]) for symbol in needed]
    all_whole = all(ball.is_exact() and ball.is_integer() for _, ball in balls)
    return tuple((s, int(ball.unique_fmpz())) for s, ball in balls) if all_whole else None


@lru_cache(maxsize=20_000)
def _needed(summand: Any, limits: Any) -> tuple[Any, ...] | None:
    """The symbols that a sum depends on; None where it depends on a function symbol."""
    from sympy.core.function import AppliedUndef

    parts = [summand, *(end for limit in limits for end in limit[1:])]
    if any(part.has(AppliedUndef) for part in parts):
        return None
    free = set[Any]().union(*map(_free_in, parts)) - {limit[0] for limit in limits}
    return tuple(sorted(free, key=str))


@lru_cache(maxsize=20_000)
def _free_in(part: Any) -> frozenset[Any]:
    return frozenset(part.free_symbols)


@lru_cache(maxsize=20_000)
def _accurate_sum(
    summand: Any, limits: Any, rounds: range, known: tuple[tuple[Any, int], ...], asked: int
) -> Any:
    """A sum of exact numbers: where its terms cancel, it is computed again with more bits."""
    import flint

    bits = asked
    while True:
        with flint.ctx.workprec(bits):
            balls = {s: flint.arb(n) for s, n in known}
            result = _sum_over(summand, limits, rounds, balls)
        if result.rel_accuracy_bits() > asked // 2 or bits >= SUM_BITS:
            return result
        bits *= 4


def _sum_over(summand: Any, limits: Any, rounds: range, symbols: Mapping[Any, Any]) -> Any:
    index, inner = limits[-1][0], limits[:-1]
    result = zero = ball("0")
    if not rounds:
        return result
    each, part = size(summand) * _digits_cost(), f"a sum of {len(rounds)} terms"
    if inner:
        term = _inner_sum(summand, inner, index, symbols)
    else:
        term = _as_function(summand, index, symbols)
    for k in rounds:
        spend(each, part)
        result = result + term(zero + k)
    return result


def _digits_cost() -> float:
    """Units of work of one operation on balls at the working precision."""
    import flint

    return 1 + flint.ctx.prec / PRECISION_BITS


def _inner_sum(
    summand: Any, limits: Any, index: Any, symbols: Mapping[Any, Any]
) -> Callable[[Any], Any]:
    return lambda k: _enclose_sum(summand, limits, {**symbols, index: k})


def _as_function(part: Any, index: Any, symbols: Mapping[Any, Any]) -> Callable[[Any], Any]:
    """An expression as a function of its index; what does not depend on it is computed once."""
    if part == index:
        return lambda k: k
    if part in symbols or index not in _free_in(part):
        fixed = _enclose(part, symbols)
        return lambda k: fixed
    name = head(part)
    if name == "Sum":
        return _inner_sum(part.args[0], part.args[1:], index, symbols)
    if name not in ENCLOSURES:
        return lambda k: _enclose(part, {**symbols, index: k})
    operation = ENCLOSURES[name]
    inside = [_as_function(argument, index, symbols) for argument in part.args]
    if len(inside) == 1:
        only = inside[0]
        return lambda k: operation([only(k)])
    if len(inside) == 2:
        first, second = inside
        return lambda k: operation([first(k), second(k)])
    return lambda k: operation([f(k) for f in inside])


def _rounds(first: Any, last: Any, summand: Any) -> range:
    if not all(end.is_exact() and end.is_integer() for end in (first, last)):
        raise InvalidParameter(f"sum of {str(summand)[:200]}: bind its limits to integers first")
    rounds = range(int(first.unique_fmpz()), int(last.unique_fmpz()) + 1)
    if rounds.stop < rounds.start or rounds.stop - rounds.start > MAXIMUM_TERMS:
        raise TooManyTerms(
            f"sum of {str(summand)[:200]} over {rounds.start}..{rounds.stop - 1}: expected at most "
            f"{MAXIMUM_TERMS} terms where it has no closed form"
        )
    return rounds
