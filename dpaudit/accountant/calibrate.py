"""Calibration: a value of one parameter at which a declaration satisfies a guarantee.

The value returned is checked like any claim.  The search is faster if the guarantee is monotone in
the parameter, but its answer does not depend on that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import cache, cached_property
from typing import Any

from dpaudit.accountant.account import Account
from dpaudit.accountant.claim import Checked, Claim, Outcome
from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.exact import Number, enclose, exact, is_infinite, is_symbolic, unknowns
from dpaudit.families.opaque import ApproxDP
from dpaudit.measures.calculus import Step
from dpaudit.nodes import Node, postorder
from dpaudit.scope import Scope

DEFAULT_DIGITS = 6  # Significant digits of a calibrated value, unless the caller asks for others.
# Exponents of 2 below this are tried one by one downward, and upward for whole numbers; real
# symbols are tried upward at ``UPWARD_EXPONENTS``.
LARGEST_POWER = 40
# Exponents of 2 tried upward from a value of 1; real symbols stay below 2^128.
UPWARD_EXPONENTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
SEARCH_DIGITS = 12  # significant digits of the values tried on the way: short fractions are cheap
STEPS_OUT = 20  # steps in the last digit before the search gives up
# Claimed or computed values up to this count as 0, because a search uses their logarithms.
LEAST_CLAIM = 1e-300
# Stands for the log of an infinite value in the search; exp(700) is near the largest float.
LOG_OF_INFINITY = 700.0
ROUGH_WIDTH = 0.01  # Width of the first intervals, relative to the epsilon asked for.
# Nats at which the search clips distances: larger ones would mislead its secant steps.
MAX_EXCESS_NATS = 5.0
# Nats: the midpoint of an interval up to this wide guides the search, else its upper end.
MIDPOINT_WIDTH = 0.1
# Nats of the symbol's log within which the guess must lie before exact steps begin.
GUESS_TOLERANCE = 2e-3
SECANT_STEPS = 6  # Secant steps before the search falls back to halving.


class NoValue(Unsupported):
    """``holds``: True if at every power of two tried, False if at none, None if undecided."""

    def __init__(self, message: str, *, holds: bool | None) -> None:
        super().__init__(message)
        self.holds = holds


@dataclass(frozen=True)
class Calibrated:
    """A value that satisfies the guarantee, and the proof.

    ``refused``: the nearest value tried at which it was not shown; None where every value holds.
    """

    symbol: Any
    value: Fraction
    node: Node
    checked: Checked
    refused: Fraction | None

    @property
    def step(self) -> Step:
        """The derivation of the guarantee at the value."""
        if self.checked.step is None:
            raise Unsupported("a calibrated guarantee without a derivation")
        return self.checked.step


def calibrate(
    declaration: Node,
    scope: Scope,
    guarantee: Node,
    *,
    bracket: tuple[object, object] | None = None,
    digits: int = DEFAULT_DIGITS,
) -> Calibrated:
    """The best value of the one free symbol of ``declaration``, to ``digits`` significant digits.

    Best: nearest to the value at which the guarantee ceases to hold.  A symbol declared integer
    takes whole numbers.  ``bracket``: ends of the search; by default powers of two are tried.
    Errors: InvalidParameter where not exactly one symbol is free, or for a bracket that is not two
    numbers in order; Unsupported where no value in the bracket satisfies the guarantee.

    >>> import dpaudit as dp
    >>> from sympy import Symbol
    >>> noise = dp.Gaussian("mean", Symbol("s", positive=True))
    >>> solved = dp.calibrate(noise, dp.central("add_remove"), dp.ApproxDP(1, "1e-6"))
    >>> float(solved.value)
    4.22468
    """
    problem = _Problem(declaration, scope, guarantee, _only_symbol(declaration))
    low, high = _ends(problem, bracket)
    valid_ends = [end for end in (low, high) if problem.holds(end)]
    if not valid_ends:
        raise Unsupported(
            f"calibrate: {problem.claim.text} holds neither at {problem.symbol} = {float(low):g} "
            f"nor at {float(high):g}; give dpaudit.calibrate another bracket="
        )
    if len(valid_ends) == 2:
        satisfying, refused = low, None
    elif problem.symbol.is_integer:
        satisfying, refused = _whole(problem, low, high)
    else:
        satisfying, refused = _real(problem, low, high, digits)
        if problem.whole(satisfying).outcome is not Outcome.PROVED:
            away = 1 if satisfying > refused else -1
            satisfying, refused = _stepped(
                lambda at: problem.whole(at).outcome is Outcome.PROVED,
                float(satisfying),
                digits,
                away,
            )
    return problem.answer(satisfying, refused)


def _only_symbol(declaration: Node) -> Any:
    indices = {getattr(node, "index", None) for node in postorder(declaration)}
    values = (v for node in postorder(declaration) for v in node.parameters.values())
    free = set[Any]().union(*map(unknowns, values)) - indices
    if len(free) != 1 or not next(iter(free)).is_Symbol:
        names = ", ".join(sorted(map(str, free))) or "none"
        raise InvalidParameter(f"calibrate: expected one free symbol, found {names}; bind the rest")
    return next(iter(free))


@dataclass(frozen=True)
class _Problem:
    declaration: Node
    scope: Scope
    guarantee: Node
    symbol: Any

    @property
    def claim(self) -> Claim:
        return Claim(self.guarantee, by="calibration")

    @cached_property
    def checked(self) -> Callable[[Fraction], Checked]:
        """The claim's check at a value, made once a value.

        If a value is not proved, no further routes are computed that might refute it.
        """

        def check(value: Fraction) -> Checked:
            node = self.declaration.bind({self.symbol: value})
            account = Account(node, self.scope, reached=False)
            if not isinstance(self.guarantee, ApproxDP):
                return self.claim.check_account(account)
            try:
                return self.claim.check_step(account.approximate(self.guarantee.delta))
            except Unsupported as error:
                return Checked(self.claim, Outcome.UNSUPPORTED, None, str(error))

        return cache(check)

    @cached_property
    def whole(self) -> Callable[[Fraction], Checked]:
        """Checks by an account with attained bounds, which may differ slightly from the search's.

        If the deciding derivation is the same in both accounts, so is the answer.
        """

        def check(value: Fraction) -> Checked:
            account = Account(self.declaration.bind({self.symbol: value}), self.scope)
            checked = self.checked(value)
            premises = checked.step.premises if checked.step is not None else ()
            converted = checked.outcome is Outcome.PROVED and isinstance(self.guarantee, ApproxDP)
            if converted and all(p == account.step(p.calculus) for p in premises):
                return checked
            return self.claim.check_account(account)

        return cache(check)

    def excess(self, value: Fraction) -> float:
        """log(derived / claimed): at most 0 where the guarantee holds (up to rounding)."""
        checked = self.checked(value)
        if checked.step is None:
            raise Unsupported(f"calibrate: {checked.reason}")
        return _log(_number(checked.step)) - _log(self._claimed)

    @cached_property
    def rough(self) -> Callable[[Fraction], tuple[float, float]]:
        """log(derived / claimed) from below and from above, at a coarse width; once a value."""

        def ends(value: Fraction) -> tuple[float, float]:
            claimed = self.guarantee
            if not isinstance(claimed, ApproxDP):
                excess = self.excess(value)
                return excess, excess
            width = ROUGH_WIDTH * max(self._claimed, 1.0)  # widths are relative below 1
            node = self.declaration.bind({self.symbol: value})
            account = Account(node, self.scope, width, reached=False)
            bound = account.epsilon(claimed.parameters["delta"])
            lower, upper = _finite(bound.lower), _finite(bound.upper)
            return _log(lower) - _log(self._claimed), _log(upper) - _log(self._claimed)

        return cache(ends)

    @property
    def is_zero(self) -> bool:
        """Whether the number that is claimed is 0, or has no logarithm."""
        return self._claimed <= LEAST_CLAIM

    @cached_property
    def _claimed(self) -> float:
        return float(enclose(self.claim.value).mid())

    def holds(self, value: Fraction) -> bool:
        """Whether the guarantee holds at a value, by a coarse interval if that decides."""
        lower, upper = self.rough(value)
        if upper <= 0 or lower > 0:
            return upper <= 0
        return self.excess(value) <= 0

    def guess(self, value: Fraction) -> float:
        """About the excess: the middle of the coarse ends, where they are close."""
        lower, upper = self.rough(value)
        return (lower + upper) / 2 if upper - lower <= MIDPOINT_WIDTH else upper

    def proved(self, value: Fraction) -> bool:
        """Whether the guarantee is shown at a value."""
        return self.checked(value).outcome is Outcome.PROVED

    def answer(self, value: Fraction, refused: Fraction | None) -> Calibrated:
        """The value with its proof.

        Errors: Unsupported where the guarantee is not shown there.
        """
        checked = self.whole(value)
        if checked.outcome is not Outcome.PROVED:
            message = f"calibrate: {self.claim.text} is not shown at {float(value):g}"
            raise NoValue(message, holds=None)
        node = self.declaration.bind({self.symbol: value})
        return Calibrated(self.symbol, value, node, checked, refused)


def _number(step: Step) -> float:
    return _finite(step.value[0] if isinstance(step.value, tuple) else step.value)


def _finite(value: Number) -> float:
    return math.inf if is_infinite(value) else float(enclose(value).mid())


def _log(value: float) -> float:
    return LOG_OF_INFINITY if value == math.inf else math.log(max(value, LEAST_CLAIM))


def _ends(problem: _Problem, bracket: tuple[object, object] | None) -> tuple[Fraction, Fraction]:
    if bracket is not None:
        low, high = (exact(end, f"bracket[{i}]") for i, end in enumerate(bracket))
        if is_symbolic(low) or is_symbolic(high) or not low < high:
            raise InvalidParameter(f"bracket = {bracket}: expected two numbers in order")
        return low, high
    return _powers(problem)


def _powers(problem: _Problem) -> tuple[Fraction, Fraction]:
    """Powers of two of which one satisfies the guarantee and one does not."""
    if problem.is_zero and (powers := _halved_powers(problem)) is not None:
        return powers
    unit = Fraction(1)
    ways = (Fraction(2), Fraction(1, 2))
    tried = [unit]
    for way in ways if _nearer(problem, Fraction(2)) else ways[::-1]:
        if problem.symbol.is_integer and way < 1:
            continue
        last, before = unit, _sign(problem, unit)
        for power in _exponents(problem, way):
            end = way**power
            sign = _sign(problem, end)
            if None not in (before, sign) and sign is not before:
                return min(end, last), max(end, last)
            last, before = end, sign
        tried.append(end)
        if _nearer(problem, end):
            break  # the other way leads away
    signs = {_sign(problem, end) for end in tried}
    holds = True if True in signs else False if False in signs else None
    raise _no_power(problem, "at every power of two", (min(tried), max(tried)), holds=holds)


def _exponents(problem: _Problem, way: Fraction) -> Sequence[int]:
    """Exponents to try.  Accounts with little noise are slow, so steps are short only there."""
    return range(1, LARGEST_POWER) if way < 1 or problem.symbol.is_integer else UPWARD_EXPONENTS


def _no_power(
    problem: _Problem, where: str, ends: tuple[Fraction, Fraction], *, holds: bool | None
) -> NoValue:
    low, high = ends
    verbs = {True: "holds", False: "fails", None: "has no valid parameter"}[holds]
    return NoValue(
        f"calibrate: {problem.claim.text[:80]} {verbs} {where} of {problem.symbol} from "
        f"{float(low):.3g} to {float(high):.3g}; give dpaudit.calibrate a bracket=",
        holds=holds,
    )


def _halved_powers(problem: _Problem) -> tuple[Fraction, Fraction] | None:
    """Neighbouring powers of two between which a claim of 0 begins to hold, by bisection.

    The distance to such a claim does not tell where it holds, so the outermost powers are tried
    first: if both fail, as for a tiny delta, the search ends at once.  Returns None if the
    outermost powers are not valid parameters.
    """
    two = Fraction(2)
    low, high = (
        (0, LARGEST_POWER - 1)
        if problem.symbol.is_integer
        else (1 - LARGEST_POWER, UPWARD_EXPONENTS[-1])
    )
    low_holds, high_holds = (_sign(problem, two**power) for power in (low, high))
    if low_holds is None or high_holds is None:
        return None
    if low_holds is high_holds:
        ends = two**low, two**high
        raise _no_power(problem, "at the outermost powers of two", ends, holds=low_holds)
    while high - low > 1:
        middle = (low + high) // 2
        if problem.holds(two**middle) is low_holds:
            low = middle
        else:
            high = middle
    return two**low, two**high


def _nearer(problem: _Problem, value: Fraction) -> bool:
    """Whether the bound at a value is nearer to the claim than the bound at 1.

    False for a value outside the parameter's domain, such as a sampling rate above 1.  If 1 is
    outside too, larger values are tried first.
    """
    try:
        at_one = problem.rough(Fraction(1))[1]
    except InvalidParameter:
        return value > 1
    try:
        other = problem.rough(value)[1]
    except InvalidParameter:
        return False
    return other < at_one if at_one > 0 else other > at_one


def _sign(problem: _Problem, value: Fraction) -> bool | None:
    """Whether the guarantee holds; None where the value is outside the parameter's domain."""
    try:
        return problem.holds(value)
    except InvalidParameter:
        return None


def _whole(problem: _Problem, low: Fraction, high: Fraction) -> tuple[Fraction, Fraction]:
    """Neighbouring whole numbers, the first of which satisfies the guarantee."""
    low, high = Fraction(math.ceil(low)), Fraction(math.floor(high))
    low_holds = problem.holds(low)
    while high - low > 1:
        middle = (low + high) // 2
        if problem.holds(Fraction(middle)) == low_holds:
            low = Fraction(middle)
        else:
            high = Fraction(middle)
    return (low, high) if low_holds else (high, low)


def _real(
    problem: _Problem, low: Fraction, high: Fraction, digits: int
) -> tuple[Fraction, Fraction]:
    """The root of the excess in the logarithm of the value, stepped out until it is proved."""
    from scipy.optimize import toms748

    def guess(logarithm: float) -> float:
        return _clipped(problem.guess(_short(logarithm)))

    def excess(logarithm: float) -> float:
        return _clipped(problem.excess(_short(logarithm)))

    low_log, high_log = math.log(low), math.log(high)
    away = -1 if problem.holds(low) else 1
    tolerance = 10.0 ** (1 - digits)
    root = None
    if problem.is_zero:
        root = _bisected(problem.proved, (low_log, high_log), away, tolerance / 10)
    elif guess(low_log) * guess(high_log) < 0:
        near = toms748(guess, low_log, high_log, xtol=GUESS_TOLERANCE, rtol=GUESS_TOLERANCE)
        root = _secant(guess, excess, near, (low_log, high_log), tolerance / 10)
    if root is None:
        root = toms748(excess, low_log, high_log, xtol=tolerance, rtol=tolerance)
    return _stepped(problem.proved, math.exp(root), digits, away)


def _clipped(excess: float) -> float:
    return min(max(excess, -MAX_EXCESS_NATS), MAX_EXCESS_NATS)


def _bisected(
    proved_at: Callable[[Fraction], bool], ends: tuple[float, float], away: int, tolerance: float
) -> float:
    """The border of what is proved, by bisection between ``ends``."""
    refused, proved = ends if away > 0 else ends[::-1]
    while abs(proved - refused) > tolerance:
        middle = (proved + refused) / 2
        if proved_at(_short(middle)):
            proved = middle
        else:
            refused = middle
    return proved


def _secant(
    guess: Callable[[float], float],
    excess: Callable[[float], float],
    near: float,
    ends: tuple[float, float],
    tolerance: float,
) -> float | None:
    """The root of the excess from a start near it and the slope of the guess; None where lost."""
    aside = near + GUESS_TOLERANCE * 4
    slope = (guess(aside) - guess(near)) / (aside - near)
    point, value = near, excess(near)
    for _ in range(SECANT_STEPS):
        following = point - value / slope if slope else math.inf
        if not ends[0] <= following <= ends[1]:
            return None
        if abs(following - point) <= tolerance:
            return following
        before, last = point, value
        point, value = following, excess(following)
        slope = (value - last) / (point - before)
    return None


def _short(logarithm: float) -> Fraction:
    return Fraction(f"{math.exp(logarithm):.{SEARCH_DIGITS}g}")


def _stepped(
    proved_at: Callable[[Fraction], bool], root: float, digits: int, away: int
) -> tuple[Fraction, Fraction]:
    """Neighbouring decimals near the root: the guarantee is proved at the first, not at the second.

    ``away``: the direction, 1 or -1, in which the guarantee gets easier.
    """
    rounded = Context(prec=digits).create_decimal(Decimal(root))
    unit = away * Fraction(10) ** (rounded.adjusted() - digits + 1)
    value = Fraction(rounded)
    proved = proved_at(value)
    for _ in range(STEPS_OUT):
        following = value - unit if proved else value + unit
        if proved_at(following) != proved:
            return (value, following) if proved else (following, value)
        value = following
    raise NoValue(
        f"calibrate: no value near {root:g} could be proved; give dpaudit.calibrate fewer digits=",
        holds=None,
    )
