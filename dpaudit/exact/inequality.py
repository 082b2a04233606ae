"""Inequalities between exact expressions: shown for all values of their symbols, or not shown.

The order is: branches of a maximum, signs under the symbols' assumptions, sums term by term,
floors replaced by their arguments, and Arb balls on every box of a subdivision of stated ranges.
An inequality that is not shown is False.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from reprlib import repr as short
from typing import Any, TypeAlias

from dpaudit.errors import InvalidParameter
from dpaudit.exact import (
    SYMPY_ERRORS,
    Number,
    canonical,
    enclose,
    exact,
    head,
    is_printable,
    is_symbolic,
    sympify,
    unknowns,
    working_precision,
)

Ends: TypeAlias = tuple[Fraction, Fraction]
Ranges: TypeAlias = Mapping[Any, Ends]
Values: TypeAlias = Mapping[Any, Fraction]
Balls: TypeAlias = Mapping[Any, Any]

MAX_BOXES = 4000  # Boxes of a proof by enclosures.
MAX_POINTS = 3000  # Points at which a counterexample is sought.
MAX_REWRITTEN = 500  # Operations of an expression that SymPy may rewrite.
MAX_CANCELLED = 100  # Operations of a quotient that SymPy may cancel.
MOST_SYMBOLS = 7  # Symbols of an inequality that is proved by cases.
MAX_CASE_DEPTH = 6  # Nested case splits on maxima, minima and absolute values.
PROBED_BOXES = 64  # Boxes whose corner is tried as a counterexample.
WIDE_RATIO = 4  # A positive range whose ends differ by a larger factor is halved on the log scale.
STEEP_RATIO = 1000  # A range of a symbol is steep if its ends differ by this factor,
STEEP_BELOW = Fraction(1, 2)  # and if its upper end is at most this.
SIGNS = ("positive", "negative", "nonnegative", "nonpositive")  # assumptions of SymPy about a sign


def ends_of(symbol: Any, ends: object, place: str) -> Ends:
    """(lower, upper) as exact rationals, values that the symbol may have.

    Errors: InvalidParameter for a key that is no symbol, for anything but two rational numbers in
    order, and for an end that the symbol's assumptions exclude.
    """
    if not is_symbolic(symbol) or unknowns(symbol) != {symbol}:
        raise InvalidParameter(f"{place}[{symbol!r}]: expected a symbol as the key")
    named = f"{place}[{symbol}] = {short(ends)}"
    if not isinstance(ends, (tuple, list)) or len(ends) != 2:
        raise InvalidParameter(f"{named}: expected two ends, (lower, upper)")
    lower, upper = (exact(end, f"{place}[{symbol}][{i}]") for i, end in enumerate(ends))
    if is_symbolic(lower) or is_symbolic(upper) or not lower <= upper:
        raise InvalidParameter(f"{named}: expected rational ends in order")
    for end in (lower, upper):
        for sign in SIGNS:
            number = sympify(end)
            if getattr(symbol, f"is_{sign}") is True and not getattr(number, f"is_{sign}"):
                raise InvalidParameter(
                    f"{named}: the symbol {symbol} is declared {sign}, which {end} is not: "
                    f"expected {sign} ends"
                )
    return lower, upper


def at_most(value: Number, claimed: Number, ranges: Ranges) -> bool:
    """Whether value <= claimed is shown for all values of the symbols, or all in the ranges."""
    if is_symbolic(value) and head(value) == "Max":
        return all(at_most(branch, claimed, ranges) for branch in value.args)
    if is_symbolic(claimed) and head(claimed) == "Max":
        return any(at_most(value, branch, ranges) for branch in claimed.args)
    if not (is_symbolic(value) or is_symbolic(claimed)):
        return bool(value <= claimed)
    difference = canonical(sympify(value) - sympify(claimed))
    if not unknowns(difference):
        return certainly(difference, _is_nonpositive) or (
            not certainly(difference, is_positive) and simple(difference) == 0
        )
    # SymPy's simplification takes a sum apart no further, and takes long.
    return (
        _by_terms(difference, ranges)
        or _nonpositive(simple(difference), ranges)
        or _by_ratio(value, claimed, ranges)
    )


def _by_ratio(value: Number, claimed: Number, ranges: Ranges) -> bool:
    """(value / claimed)^2 <= 1, where symbols may cancel that do not in the difference."""
    value, claimed = sympify(value), sympify(claimed)
    ours, theirs = unknowns(value), unknowns(claimed)
    if not ours & theirs or len(ours | theirs) > MOST_SYMBOLS or not claimed.is_positive:
        return False
    if not _is_small(value / claimed, MAX_CANCELLED):
        return False
    return _nonpositive(simple(simple((value / claimed) ** 2) - 1), ranges)


def _nonpositive(difference: Number, ranges: Ranges, cases: int = MAX_CASE_DEPTH) -> bool:
    """Whether an expression is proved <= 0 over the ranges: by signs, by cases, or over boxes."""
    if not unknowns(difference):
        return certainly(difference, _is_nonpositive) or difference == 0
    if _by_sign(difference) or _by_terms(difference, ranges):
        return True
    branches = _branches(difference) if cases else []
    if branches and all(
        any(_nonpositive(simple(form), ranges, cases - 1) for form in branch) for branch in branches
    ):
        return True
    without = _without_floors(difference)
    if without is not None and _by_sign(simple(without)):
        return True
    atoms = sorted(unknowns(difference), key=str)

    def holds(balls: Balls) -> bool:
        return certainly(difference, _is_nonpositive, balls)

    def fails(values: Values) -> bool:
        return certainly(difference, is_positive, balls_at(values, difference))

    return covered(atoms, ranges, holds, fails)


def _by_sign(difference: Any) -> bool:
    """By the signs of its terms; of a small expression, by SymPy's reasoning, whole or factored."""
    if not is_symbolic(difference):
        return bool(difference <= 0)
    if head(difference) == "Add" and all(term.is_nonpositive for term in difference.args):
        return True
    if not _is_small(difference):
        return False
    return bool(difference.is_nonpositive or _factored(difference).is_nonpositive)


def _factored(difference: Any) -> Any:
    import sympy

    try:
        return sympy.factor(sympy.together(difference))
    except SYMPY_ERRORS:
        return difference


def simple(difference: Number) -> Number:
    """The difference simplified, unless it is so large that this would take minutes."""
    if not _is_small(difference):
        return difference
    import sympy

    try:
        return canonical(sympy.simplify(difference))
    except (*SYMPY_ERRORS, StopIteration):
        return difference


def _is_small(expression: Number, operations: int = MAX_REWRITTEN) -> bool:
    import sympy

    large = not is_symbolic(expression) or not is_printable(expression)
    return not large and bool(sympy.count_ops(expression) <= operations)


# --- sums, maxima, floors ------------------------------------------------------------------------


def _by_terms(difference: Any, ranges: Ranges) -> bool:
    """f(1) + ... + f(n) + r = sum of (f(k) + r/n), which is at most 0 if every term is."""
    import sympy

    sums = [term for term in sympy.Add.make_args(difference) if term.has(sympy.Sum)]
    if not sums:
        return False
    parts = [_as_sum(term) for term in sums]
    limits = {part[1] for part in parts if part}
    if None in parts or len(limits) != 1:
        return False
    index, first, last = limits.pop()
    remainder = difference - sympy.Add(*sums)
    # A free namesake of the index is another symbol, and its range is not the index's.
    if first != 1 or not last.is_positive or remainder.has(index):
        return False
    own = {atom: ends for atom, ends in ranges.items() if atom != index}
    term = sympy.Add(*(part[0] for part in parts if part)) + remainder / last
    return _nonpositive(simple(term), own, 0)


def _as_sum(term: Any) -> tuple[Any, Any] | None:
    """c * Sum(f, (k, a, b)) as (c f, (k, a, b)), where c does not hold k."""
    import sympy

    factors = sympy.Mul.make_args(term)
    sums = [f for f in factors if isinstance(f, sympy.Sum)]
    others = sympy.Mul(*(f for f in factors if not isinstance(f, sympy.Sum)))
    if len(sums) != 1 or others.has(sympy.Sum) or len(sums[0].limits) != 1:
        return None
    limits = sums[0].limits[0]
    return None if others.has(limits[0]) else (others * sums[0].function, limits)


def _branches(difference: Any) -> list[list[Any]]:
    """For each value that one Max, Min or Abs inside may take: the expression, in several forms.

    First as it is; then with what that value says of the others, where they are plain symbols.
    """
    import sympy

    choices = [m for m in difference.atoms(sympy.Max, sympy.Min, sympy.Abs) if not _bound_in(m)]
    if not choices:
        return []
    choice = min(choices, key=lambda m: (sympy.count_ops(m), str(m)))
    values = (choice.args[0], -choice.args[0]) if isinstance(choice, sympy.Abs) else choice.args
    plain = all(value.is_Symbol for value in values)
    branches = _ordered(choice, values) if plain else dict.fromkeys(values, ())
    return [
        [form, *(form.xreplace(order) for order in branches[value])]
        for value, form in ((v, difference.xreplace({choice: v})) for v in values)
    ]


def _ordered(choice: Any, values: Sequence[Any]) -> dict[Any, list[dict[Any, Any]]]:
    """The least one: all others are above it; the largest one: it is above any other."""
    import sympy

    def above(low: Any, high: Any) -> Any:
        return low + sympy.Dummy(str(high), nonnegative=True)

    others = {value: [other for other in values if other != value] for value in values}
    if isinstance(choice, sympy.Min):
        return {v: [{other: above(v, other) for other in others[v]}] for v in values}
    return {v: [{v: above(other, v)} for other in others[v]] for v in values}


def _bound_in(part: Any) -> bool:
    import sympy

    return bool(part.has(sympy.Sum))


def _without_floors(difference: Any) -> Any:
    """An expression that is never smaller, with floors and ceilings replaced; None if unknown.

    x - 1 < floor(x) <= x <= ceiling(x) < x + 1, used at the end that the slope asks for.
    """
    import sympy

    floors = sorted(difference.atoms(sympy.floor, sympy.ceiling), key=str)
    if not floors or difference.has(sympy.Sum) or not _is_small(difference):
        return None
    for part in floors:
        inside = part.args[0]
        low, high = (inside - 1, inside) if isinstance(part, sympy.floor) else (inside, inside + 1)
        mark = sympy.Dummy(real=True, nonnegative=part.is_nonnegative, positive=part.is_positive)
        over = sympy.Dummy(nonnegative=True)
        if _by_sign(-_slope(difference, part, mark, mark)):
            difference = difference.xreplace({part: high})
        elif _by_sign(_slope(difference, part, low + over, over)):
            difference = difference.xreplace({part: low})
        else:
            return None
    return difference


def _slope(difference: Any, part: Any, value: Any, mark: Any) -> Any:
    """The derivative in ``mark`` where a part of the expression is replaced by ``value``."""
    import sympy

    return sympy.factor(sympy.together(difference.xreplace({part: value}).diff(mark)))


# --- balls ---------------------------------------------------------------------------------------


def _is_nonpositive(ball: Any) -> bool:
    return bool(ball <= 0)


def is_positive(ball: Any) -> bool:
    """Whether a ball is certainly above 0."""
    return bool(ball > 0)


def certainly(value: Number, holds: Callable[[Any], bool], symbols: Balls | None = None) -> bool:
    """Whether the ball around a value is finite and satisfies a predicate."""
    try:
        ball = enclose(value, symbols)
    except InvalidParameter:
        return False
    return bool(ball.is_finite()) and holds(ball)


def balls_at(values: Values, *expressions: Number) -> dict[Any, Any]:
    """Balls of the values, and of the floors inside the expressions: exact where these are whole.

    Arb cannot tell that log(8)/log(2) is 3.
    """
    import sympy

    balls = {atom: enclose(value) for atom, value in values.items()}
    numbers = {atom: sympify(value) for atom, value in values.items()}
    for expression in filter(is_symbolic, expressions):
        for part in expression.atoms(sympy.floor, sympy.ceiling):
            if unknowns(part) <= values.keys() and not part.has(sympy.Sum):
                rounded = part.subs(numbers)
                if rounded.is_Integer:
                    balls[part] = enclose(Fraction(int(rounded)))
    return balls


def covered(
    atoms: Sequence[Any],
    ranges: Ranges,
    holds: Callable[[Balls], bool],
    fails: Callable[[Values], bool],
) -> bool:
    """Whether a predicate holds on every box of a subdivision of the ranges of all atoms.

    ``fails`` at the lower corner of one of the first boxes ends the search.  Where that shows
    nothing, symbols of many powers of ten below 1 (deltas) are halved as seldom as their logarithm
    would be: as if each were written exp(-L).
    """
    if any(atom not in ranges for atom in atoms):
        return False
    steep = frozenset(a for a in atoms if _is_steep(*ranges[a]))
    return _covered(atoms, ranges, holds, fails, frozenset()) or (
        bool(steep) and _covered(atoms, ranges, holds, fails, steep)
    )


def _is_steep(lower: Fraction, upper: Fraction) -> bool:
    return lower > 0 and STEEP_RATIO * lower < upper <= STEEP_BELOW


def _covered(
    atoms: Sequence[Any],
    ranges: Ranges,
    holds: Callable[[Balls], bool],
    fails: Callable[[Values], bool],
    steep: frozenset[Any],
) -> bool:
    """Whether boxes in which ``holds`` is certain cover the ranges; False once ``fails`` is."""
    boxes = [tuple(_whole(atom, ranges[atom]) for atom in atoms)]
    for number in range(MAX_BOXES):
        if not boxes:
            return True
        box = boxes.pop()
        if any(lower > upper for lower, upper in box):
            continue
        if holds({a: _interval(*ends) for a, ends in zip(atoms, box, strict=True)}):
            continue
        if all(lower == upper for lower, upper in box):
            return False
        if number < PROBED_BOXES and fails(
            dict(zip(atoms, (ends[0] for ends in box), strict=True))
        ):
            return False
        boxes.extend(_halves(atoms, box, steep))
    return False


def _whole(atom: Any, ends: Ends) -> Ends:
    """For an integer, the whole numbers inside."""
    if not atom.is_integer:
        return ends
    return Fraction(math.ceil(ends[0])), Fraction(math.floor(ends[1]))


def _interval(lower: Fraction, upper: Fraction) -> Any:
    if lower == upper:
        return enclose(lower)
    with working_precision():
        return enclose(lower).union(enclose(upper))


def _halves(
    atoms: Sequence[Any], box: tuple[Ends, ...], steep: frozenset[Any]
) -> list[tuple[Ends, ...]]:
    widest = max(range(len(box)), key=lambda i: _width(*box[i], steep=atoms[i] in steep))
    atom, (lower, upper) = atoms[widest], box[widest]
    middle = _middle(lower, upper)
    parts = [_whole(atom, (lower, middle)), _whole(atom, (middle, upper))]
    if atom.is_integer and parts[0][1] == parts[1][0]:
        parts[1] = (parts[1][0] + 1, parts[1][1])
    return [(*box[:widest], part, *box[widest + 1 :]) for part in parts]


def _width(lower: Fraction, upper: Fraction, *, steep: bool) -> float:
    """Relative where the range is positive; that of the logarithm where it is ``steep``."""
    if steep:
        return math.log(_logarithm(lower) / _logarithm(upper))
    return _logarithm(upper) - _logarithm(lower) if lower > 0 else float(upper - lower)


def _logarithm(value: Fraction) -> float:
    """The natural logarithm of a number that may overflow a float."""
    return math.log(value.numerator) - math.log(value.denominator)


def _middle(lower: Fraction, upper: Fraction) -> Fraction:
    """Geometric in a range of several times its lower end, so that small values are reached."""
    middle = (lower + upper) / 2
    if lower > 0 and upper > WIDE_RATIO * lower:
        root = Fraction(math.sqrt(float(lower * upper)))
        return root if lower < root < upper else middle
    return middle


# --- values to try -------------------------------------------------------------------------------


def points(
    atoms: Sequence[Any], ranges: Ranges, most: int = MAX_POINTS
) -> Iterator[dict[Any, Fraction]]:
    """Values to try: first each sample for all symbols at once, then combinations."""
    samples = [_samples(atom, ranges) for atom in atoms]
    if not all(samples):
        return
    together = (
        tuple(s[i % len(s)] for s in samples) for i in range(max(map(len, samples), default=0))
    )
    tried = itertools.chain(together, itertools.product(*samples))
    for point in itertools.islice(tried, max(20, most // max(1, len(samples)))):
        yield dict(zip(atoms, point, strict=True))


def _samples(atom: Any, ranges: Ranges) -> list[Fraction]:
    """Rational points to try: inside the stated range, or values of the right sign."""
    if atom in ranges:
        lower, upper = ranges[atom]
        points = [lower + (upper - lower) * Fraction(k, 8) for k in range(9)]
        points += [Fraction(p.__floor__()) for p in points if p.__floor__() >= lower]
        if lower > 0 and upper > WIDE_RATIO * lower:
            middle = _middle(lower, upper)
            roots = [_middle(lower, middle), middle, _middle(middle, upper)]
            points += [Fraction(math.floor(r)) if atom.is_integer else r for r in roots]
    else:
        points = [Fraction(1), Fraction(2), Fraction(10), Fraction(1000)]
        points += [Fraction(1, 2), Fraction(1, 10), Fraction(1, 1000)]
        points += [-v for v in points]
    return [v for v in dict.fromkeys(points) if _allowed(atom, v)]


def _allowed(atom: Any, value: Fraction) -> bool:
    number = sympify(value)
    checks = (*SIGNS, "integer", "nonzero")
    return all(getattr(atom, f"is_{c}") is not True or getattr(number, f"is_{c}") for c in checks)
