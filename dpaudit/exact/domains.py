"""Domains of parameters: what a number in a declaration may be, refused by name otherwise.

A parameter may hold symbols.  A free symbol leaves a sign open until it is bound, when the node is
made anew.  A symbol that the declaration itself binds, as the index of a ``Repeat`` or the order of
a Renyi curve, is never bound later: the sign must be shown for each of its values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from fractions import Fraction
from reprlib import repr as short
from types import MappingProxyType
from typing import Any

from dpaudit.errors import InvalidParameter
from dpaudit.exact import (
    Number,
    enclose,
    exact,
    is_symbolic,
    readable,
    replaced,
    sympify,
    unknowns,
    working_precision,
)

Domain = Callable[[Number, str], None]
SHOWN_CHARACTERS = 200  # Characters of a value in a message.
MANY_TERMS = 50  # Terms of a sum above which its sign is judged by enclosures first.
# How many boxes of a subdivision are looked at for one sign: a second of work at most, and enough
# for each of 2,000 rounds by itself.
MOST_BOXES = 4_000


@dataclass(frozen=True)
class Span:
    """The values of a bound symbol: ``first`` to ``last``, whole numbers only if ``whole``.

    ``last`` may hold symbols that are bound further out; None where the values have no end.
    """

    first: Fraction
    last: Number | None
    whole: bool = True

    def __str__(self) -> str:
        if self.last is None:
            return f"above {readable(self.first)}"
        return f"in {readable(self.first)}..{readable(self.last)}"


Spans = Mapping[Any, Span]
_BOUND: ContextVar[Spans] = ContextVar(
    "bound symbols, outermost first", default=MappingProxyType({})
)


@contextmanager
def for_each(spans: Spans) -> Iterator[None]:
    """While this is open, a sign is known only if it holds for every value of these symbols."""
    before = _BOUND.get()
    token = _BOUND.set(MappingProxyType({**before, **spans}))
    try:
        yield
    finally:
        _BOUND.reset(token)


def is_bound(value: Number) -> bool:
    """Whether a number depends on a symbol that the declaration itself binds."""
    return bool(unknowns(value) & _BOUND.get().keys())


def refuse(value: Number, place: str, expected: str) -> None:
    """Raise InvalidParameter with the value, the place and what was expected."""
    bound = [f"{s} {span}" for s, span in _BOUND.get().items() if s in unknowns(value)]
    shown = f", which was not shown for every {' and '.join(bound)}" if bound else ""
    raise InvalidParameter(
        f"{place} = {readable(value)[:SHOWN_CHARACTERS]}: expected {expected}{shown}"
    )


def _sign(value: Number, place: str, *, strict: bool) -> None:
    if known_sign(value, strict=strict) is False:
        word = "a positive, finite number" if strict else "a finite number that is not negative"
        hint = "" if is_bound(value) else " (give symbols assumptions, e.g. positive=True)"
        refuse(value, place, f"{word}{hint}")


def known_sign(value: Number, *, strict: bool) -> bool | None:
    """Whether a number is > 0 (or >= 0); None where the values of free symbols decide.

    False for a number of bound symbols that was not shown to be so for every value of theirs.
    """
    if not is_symbolic(value):
        return bool(value > 0 if strict else value >= 0)
    symbols, spans = unknowns(value), _BOUND.get()
    if not symbols:
        ball = enclose(value)
        undecided = not strict and ball.contains(0)
        return bool(ball > 0 if strict else ball >= 0 or (undecided and value.is_nonnegative))
    if not all(s.is_real for s in symbols):
        return False
    reaching = _spans_of(symbols, spans)
    if reaching is not None and all(span.last is not None for span in reaching.values()):
        return _holds_everywhere(value, reaching, strict=strict)
    sign = _symbolic_sign(_above_first(value, spans), strict=strict)
    return False if sign is None and reaching is not None else sign


def _spans_of(symbols: set[Any], spans: Spans) -> Spans | None:
    """The spans of some symbols and of those that their ends depend on, outermost first.

    None where one of them is free.
    """
    needed = set(symbols)
    for symbol, span in reversed(list(spans.items())):
        if symbol in needed and span.last is not None:
            needed |= unknowns(span.last)
    return {s: span for s, span in spans.items() if s in needed} if needed <= spans.keys() else None


def _above_first(value: Any, spans: Spans) -> Any:
    """The value with each unending symbol written as its least value plus a positive number."""
    import sympy

    unending = {s: span for s, span in spans.items() if span.last is None and value.has(s)}
    moved = {s: sympify(a.first) + sympy.Dummy(positive=True) for s, a in unending.items()}
    return value.subs(moved).expand() if moved else value


Ends = tuple[Fraction, Fraction]


def _holds_everywhere(value: Any, spans: Spans, *, strict: bool) -> bool:
    """Whether a number is > 0 (or >= 0) on every box of a subdivision of the spans.

    A box of one point is decided exactly; a box that certainly fails ends the search, and so do
    more boxes than ``MOST_BOXES``.
    """
    boxes: list[dict[Any, Ends]] = [{}]
    for _ in range(MOST_BOXES):
        if not boxes:
            return True
        box = _narrowed(boxes.pop(), spans)
        if box is None:
            continue
        ball = _ball(value, box)
        if ball is not None and (ball > 0 if strict else ball >= 0):
            continue
        widest = max(box, key=lambda symbol: _width(*box[symbol]))
        if box[widest][0] == box[widest][1]:
            at = replaced(value, {s: ends[0] for s, ends in box.items()})
            if not _is_of_sign(at, strict=strict):
                return False
        elif ball is not None and ball < 0:
            return False
        else:
            boxes += [{**box, widest: ends} for ends in _halves(*box[widest], spans[widest])]
    return False


def _is_of_sign(value: Number, *, strict: bool) -> bool:
    """Whether a number without symbols has the sign; False for infinities and undefined values."""
    if is_symbolic(value) and not (value.is_real and value.is_finite):
        return False
    return known_sign(value, strict=strict) is True


def _narrowed(box: Mapping[Any, Ends], spans: Spans) -> dict[Any, Ends] | None:
    """A box within the spans, whose ends may depend on the symbols before; None if it is empty."""
    narrow: dict[Any, Ends] = {}
    for symbol, span in spans.items():
        first, last = box.get(symbol, (span.first, None))
        end = _largest(span.last, narrow)
        last = end if last is None else min(last, end)
        if span.whole:
            first, last = Fraction(first.__ceil__()), Fraction(last.__floor__())
        if first > last:
            return None
        narrow[symbol] = (first, last)
    return narrow


def _largest(value: Number, box: Mapping[Any, Ends]) -> Fraction:
    """An upper bound of a number over a box; exact at a point."""
    at = replaced(value, {s: a for s, (a, b) in box.items() if a == b})
    if not is_symbolic(at):
        return Fraction(at)
    ball = _ball(at, box)
    if ball is None:
        raise InvalidParameter(
            f"{readable(value)[:SHOWN_CHARACTERS]}: expected a finite number of rounds"
        )
    return Fraction(int(ball.upper().ceil().unique_fmpz()))


def _ball(value: Any, box: Mapping[Any, Ends]) -> Any:
    """A finite ball around every value over a box; None where none was found."""
    try:
        enclosure = enclose(value, {symbol: _interval(*ends) for symbol, ends in box.items()})
    except InvalidParameter:  # a sum whose limits depend on the symbols
        return None
    return enclosure if enclosure.is_finite() else None


def _interval(lower: Fraction, upper: Fraction) -> Any:
    with working_precision():
        return enclose(lower) if lower == upper else enclose(lower).union(enclose(upper))


def _width(lower: Fraction, upper: Fraction) -> Fraction:
    return (upper - lower) / lower if lower > 0 else upper - lower


def _halves(lower: Fraction, upper: Fraction, span: Span) -> list[Ends]:
    middle = (lower + upper) / 2
    if not span.whole:
        return [(middle, upper), (lower, middle)]
    middle = Fraction(middle.__floor__())
    return [(middle + 1, upper), (lower, middle)]


def _symbolic_sign(value: Any, *, strict: bool) -> bool | None:
    """SymPy's answer, which takes it minutes for a long sum whose terms do not decide."""
    if value.is_Add and all(term.is_nonnegative for term in value.args):
        return not strict or any(term.is_positive for term in value.args) or None
    if value.is_Add and len(value.args) > MANY_TERMS:
        return None
    sign: bool | None = value.is_positive if strict else value.is_nonnegative
    return sign


def positive(value: Number, place: str) -> None:
    """Domain (0, infinity)."""
    _sign(value, place, strict=True)


def non_negative(value: Number, place: str) -> None:
    """Domain [0, infinity)."""
    _sign(value, place, strict=False)


def above_one(value: Number, place: str) -> None:
    """Domain (1, infinity)."""
    if known_sign(value - 1, strict=True) is False:
        refuse(value, place, "an order above 1")


def probability(value: Number, place: str) -> None:
    """Domain [0, 1)."""
    _sign(value, place, strict=False)
    if known_sign(1 - value, strict=True) is False:
        refuse(value, place, "a probability below 1")


def rate(value: Number, place: str) -> None:
    """Domain (0, 1]."""
    _sign(value, place, strict=True)
    if known_sign(1 - value, strict=False) is False:
        refuse(value, place, "a rate in (0, 1]")


def count(value: Number, place: str) -> None:
    """Domain 0, 1, 2, ...; a symbol must be declared integer and not negative."""
    _sign(value, place, strict=False)
    if known_whole(value) is not True:
        refuse(value, place, "a whole number (for a symbol, Symbol(..., integer=True))")


def known_whole(value: Number) -> bool | None:
    """Whether a number is whole, for every value of bound symbols; None where free ones decide."""
    if not is_symbolic(value):
        return bool(value.denominator == 1)
    if value.is_integer and unknowns(value):
        return True
    return None if unknowns(value) - _BOUND.get().keys() else False


def number(domain: Domain, *, optional: bool = False) -> Any:
    """A dataclass field that holds an exact number of the given domain; None too if optional."""
    metadata = {"kind": "number", "domain": domain}
    return field(default=None, metadata=metadata) if optional else field(metadata=metadata)


def text(value: object, place: str) -> None:
    """Refuse what is not a string."""
    if not isinstance(value, str):
        raise InvalidParameter(f"{place} = {short(value)}: expected a text")


def real(value: object, place: str) -> float:
    """The number behind a value, as a float: for rates and widths, which no bound rests on.

    Errors: InvalidParameter for what is no number, or depends on symbols.
    """
    number = exact(value, place)
    if unknowns(number):
        raise InvalidParameter(
            f"{place} = {readable(number)[:SHOWN_CHARACTERS]}: expected a number"
        )
    return float(number)


def rational(value: object, place: str) -> Fraction:
    """The fraction behind a number, or behind a text of a bounded length and exponent.

    Errors: InvalidParameter for what is no number, or depends on symbols.
    """
    number = exact(value, place)
    if is_symbolic(number):
        raise InvalidParameter(
            f"{place} = {readable(number)[:SHOWN_CHARACTERS]}: expected a number"
        )
    return Fraction(number)


def integer(value: object, place: str, least: int = 1, most: int | None = None) -> int:
    """The whole number behind a value.

    Errors: InvalidParameter for a symbol, a number that is not whole, one out of the ends.
    """
    number = exact(value, place)
    is_whole = not is_symbolic(number) and number.denominator == 1
    if not is_whole or number < least or (most is not None and number > most):
        ends = f"a whole number of at least {least}" if most is None else f"{least} to {most}"
        ends += ", not a symbol" if unknowns(number) else "" if is_whole else ", and whole"
        raise InvalidParameter(f"{place} = {readable(number)[:SHOWN_CHARACTERS]}: expected {ends}")
    return int(number)


def checked(value: object, place: str, domain: Domain) -> Number:
    """The exact number behind a value, in its domain."""
    result = exact(value, place)
    domain(result, place)
    return result
