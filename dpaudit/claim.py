"""Claims and their check: proved, refuted with values, or unproved.

An upper bound above a claim refutes nothing unless it is attained; an attained one refutes the
claim for the declaration, that is, for some data and queries with the declared sensitivities.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from typing import Any, TypeAlias

from dpaudit.account import CALCULUS_OF, Account
from dpaudit.arithmetic import (
    Number,
    canonical,
    decimal_upper,
    enclose,
    exact,
    head,
    is_infinite,
    is_printable,
    is_symbolic,
    readable,
    sympify,
    unknowns,
    working_precision,
)
from dpaudit.calculus import CALCULI, Step
from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.nodes import ApproxDP, Node, Status, postorder
from dpaudit.scope import Scope

Ranges: TypeAlias = Mapping[Any, tuple[Any, Any]]
BOXES = 2000
POINTS = 3000
OPERATIONS = 500
SATURATING = (
    "queries of the declared sensitivities that move by all of it at every release, "
    "along one direction"
)


class Outcome(StrEnum):
    """What a check showed."""

    PROVED = "proved"
    REFUTED = "refuted"
    UNPROVED = "unproved"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True)
class Claim:
    """A guarantee somebody states of a mechanism.

    ``guarantee`` is a PureDP, ApproxDP, ZCDP or GDP node; ``by`` names who states it and where;
    ``reading`` says how an ambiguous phrase is read (each reading is a claim of its own);
    ``ranges`` gives (lower, upper) ends for symbols, inclusive, over which it is stated.
    """

    guarantee: Node
    by: str
    reading: str = ""
    ranges: Ranges = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.guarantee, (ApproxDP, *CALCULUS_OF)):
            raise InvalidParameter(
                f"Claim.guarantee = {self.guarantee!r}: expected PureDP, ApproxDP, ZCDP or GDP"
            )
        if not self.by:
            raise InvalidParameter("Claim.by is empty: say who states the claim, and where")
        object.__setattr__(self, "ranges", {s: _ends(s, r) for s, r in self.ranges.items()})

    @property
    def value(self) -> Number:
        """The number that is claimed: epsilon, rho or mu."""
        return next(
            v for k, v in self.guarantee.parameters.items() if k in ("epsilon", "rho", "mu")
        )

    @property
    def text(self) -> str:
        """The claim in a few words."""
        shown = {k: v for k, v in self.guarantee.parameters.items() if k not in ("label", "source")}
        inside = ", ".join(f"{k}={readable(v)}" for k, v in shown.items())
        return f"{type(self.guarantee).__name__}({inside})"

    def check(self, node: Node, scope: Scope) -> Checked:
        """Compare the claim with what the declaration guarantees under the scope."""
        return self.check_account(Account(node, scope))

    def check_account(self, account: Account) -> Checked:
        """As :meth:`check`, on an account that is already open."""
        try:
            step = account.upper(self.guarantee)
        except Unsupported as error:
            return Checked(self, Outcome.UNSUPPORTED, None, str(error))
        upper = step.value[0] if isinstance(step.value, tuple) else step.value
        return _compare(self, step, upper)

    def check_step(self, step: Step) -> Checked:
        """Compare the claim with a derivation somebody already has.

        Errors: InvalidParameter for a derivation in another measure, or at another delta.
        """
        measure = CALCULUS_OF.get(type(self.guarantee), "approx")
        if step.calculus in CALCULI and step.calculus != measure:
            raise InvalidParameter(f"{self.text}: expected a {measure} step, not {step.calculus}")
        if not isinstance(step.value, tuple):
            return _compare(self, step, step.value)
        upper, delta = step.value
        if delta != self.guarantee.parameters.get("delta"):
            raise InvalidParameter(f"{self.text}: the step is at delta = {readable(delta)}")
        return _compare(self, step, upper)


def _ends(symbol: Any, ends: tuple[Any, Any]) -> tuple[Fraction, Fraction]:
    if not is_symbolic(symbol) or unknowns(symbol) != {symbol}:
        raise InvalidParameter(f"Claim.ranges[{symbol!r}]: expected a symbol as the key")
    lower, upper = (exact(end, f"Claim.ranges[{symbol}]") for end in ends)
    if is_symbolic(lower) or is_symbolic(upper) or not lower <= upper:
        raise InvalidParameter(
            f"Claim.ranges[{symbol}] = ({lower}, {upper}): expected rational ends in order"
        )
    return lower, upper


@dataclass(frozen=True)
class Checked:
    """The outcome of a check: the derivation it rests on, and values that refute, if any."""

    claim: Claim
    outcome: Outcome
    step: Step | None
    reason: str
    values: Mapping[str, str] = field(default_factory=dict)
    saturating: str = ""

    def __str__(self) -> str:
        return f"{self.claim.text}: {self.outcome} ({self.reason})"


def _compare(claim: Claim, step: Step, upper: Number) -> Checked:
    checked = Checked(claim, Outcome.UNPROVED, step, "")
    violated = [a.id for a in step.assumptions() if a.status is Status.VIOLATED]
    if violated:
        return replace(checked, reason=f"it rests on a violated assumption: {', '.join(violated)}")
    if is_infinite(upper):
        return replace(checked, reason="no finite guarantee was derived, which refutes nothing")
    if _at_most(upper, claim.value, claim.ranges):
        return replace(
            checked, outcome=Outcome.PROVED, reason=f"{_show(upper)} <= {_show(claim.value)}"
        )
    above = _where_above(step, upper, claim)
    if above is None:
        return replace(
            checked,
            reason=f"neither {_show(upper)} <= {_show(claim.value)} nor its "
            "opposite could be shown",
        )
    if step.reached is None:
        return replace(
            checked,
            reason=f"the derived bound {_show(upper)} exceeds the claim, but it "
            "is not attained: an upper bound above a claim refutes nothing",
        )
    return replace(
        checked,
        outcome=Outcome.REFUTED,
        reason=f"{_show(upper)} > {_show(claim.value)}, and the bound is attained",
        values=above,
        saturating=SATURATING,
    )


def _show(value: Number) -> str:
    if not is_symbolic(value) and value.denominator > 10**6:
        return decimal_upper(value, digits=6)
    return readable(value)


# --- upper <= claim: term by term, by sign, over boxes -------------------------------------------


def _at_most(upper: Number, claimed: Number, ranges: Ranges) -> bool:
    if is_symbolic(upper) and head(upper) == "Max":
        return all(_at_most(branch, claimed, ranges) for branch in upper.args)
    if is_symbolic(claimed) and head(claimed) == "Max":
        return any(_at_most(upper, branch, ranges) for branch in claimed.args)
    difference = _difference(upper, claimed)
    if not unknowns(difference):
        return _certainly(difference, _is_nonpositive) or (
            not _certainly(difference, _is_positive) and _simple(difference) == 0
        )
    difference = _simple(difference)
    if not unknowns(difference):
        return _certainly(difference, _is_nonpositive)
    return _nonpositive(difference) or _nonpositive_on_range(difference, ranges)


def _nonpositive(difference: Any) -> bool:
    """By the signs of its terms; of a small expression, also by SymPy's reasoning as a whole."""
    if head(difference) == "Add" and all(term.is_nonpositive for term in difference.args):
        return True
    return _is_small(difference) and bool(difference.is_nonpositive)


def _difference(upper: Number, claimed: Number) -> Number:
    return canonical(sympify(upper) - sympify(claimed))


def _simple(difference: Number) -> Number:
    """The difference simplified, unless it is so large that this would take minutes."""
    if not _is_small(difference):
        return difference
    import sympy

    return canonical(sympy.simplify(difference))


def _is_small(expression: Number) -> bool:
    import sympy

    large = not is_symbolic(expression) or not is_printable(expression)
    return not large and bool(sympy.count_ops(expression) <= OPERATIONS)


def _is_nonpositive(ball: Any) -> bool:
    return bool(ball <= 0)


def _is_positive(ball: Any) -> bool:
    return bool(ball > 0)


def _certainly(value: Number, holds: Callable[[Any], bool], symbols: Any = None) -> bool:
    """Whether the ball around a value is finite and satisfies a predicate."""
    try:
        ball = enclose(value, symbols)
    except InvalidParameter:
        return False
    return bool(ball.is_finite()) and holds(ball)


def _nonpositive_on_range(difference: Any, ranges: Ranges) -> bool:
    """Branch and bound: the ball of the difference is at most 0 on every box of a subdivision."""
    atoms = sorted(unknowns(difference), key=str)
    if any(atom not in ranges for atom in atoms):
        return False
    boxes = [tuple(ranges[a] for a in atoms)]
    for _ in range(BOXES):
        if not boxes:
            return True
        box = boxes.pop()
        balls = {a: _interval(*ends) for a, ends in zip(atoms, box, strict=True)}
        if not _certainly(difference, _is_nonpositive, balls):
            boxes.extend(_halves(box))
    return False


def _interval(lower: Fraction, upper: Fraction) -> Any:
    with working_precision():
        return enclose(lower).union(enclose(upper))


def _halves(box: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    widest = max(range(len(box)), key=lambda i: box[i][1] - box[i][0])
    lower, upper = box[widest]
    middle = (lower + upper) / 2
    parts = ((lower, middle), (middle, upper))
    return [(*box[:widest], part, *box[widest + 1 :]) for part in parts]


# --- values at which the bound exceeds the claim -------------------------------------------------


def _where_above(step: Step, upper: Number, claim: Claim) -> dict[str, str] | None:
    """Values of the free symbols at which the (reached) bound is certainly above the claim.

    At these values the declaration and the claim are valid: every parameter is in its domain.
    """
    value = step.reached if step.reached is not None else upper
    value = value[0] if isinstance(value, tuple) else value
    difference = _difference(value, claim.value)
    atoms = sorted(unknowns(difference), key=str)
    for point in _points([_samples(a, claim) for a in atoms]):
        values = dict(zip(atoms, point, strict=True))
        balls = {a: enclose(p) for a, p in values.items()}
        above = _certainly(difference, _is_positive, balls)
        if above and _is_valid(step.node, claim, values):
            return {str(a): readable(p) for a, p in values.items()}
    return None


def _points(samples: list[list[Fraction]]) -> Iterator[tuple[Fraction, ...]]:
    """Points to try: first each sample for all symbols at once, then combinations."""
    if not all(samples):
        return iter(())
    together = (
        tuple(s[i % len(s)] for s in samples) for i in range(max(map(len, samples), default=0))
    )
    tried = itertools.chain(together, itertools.product(*samples))
    return itertools.islice(tried, max(20, POINTS // max(1, len(samples))))


def _is_valid(node: Node, claim: Claim, values: Mapping[Any, Fraction]) -> bool:
    """Whether all parameters are in their domains, whatever the symbols that are left stand for."""
    try:
        bound = [*postorder(node.bind(values)), claim.guarantee.bind(values)]
    except InvalidParameter:
        return False
    left = (v for n in bound for v in n.parameters.values() if unknowns(v))
    return all(v.is_nonnegative for v in left)


def _samples(atom: Any, claim: Claim) -> list[Fraction]:
    """Rational points to try: inside the stated range, or values of the right sign."""
    if atom in claim.ranges:
        lower, upper = claim.ranges[atom]
        found = [lower + (upper - lower) * Fraction(k, 8) for k in range(9)]
        found += [Fraction(p.__floor__()) for p in found if p.__floor__() >= lower]
    else:
        found = [Fraction(1), Fraction(2), Fraction(10), Fraction(1000)]
        found += [Fraction(1, 2), Fraction(1, 10), Fraction(1, 1000)]
        found += [-v for v in found]
    return [v for v in dict.fromkeys(found) if _allowed(atom, v)]


def _allowed(atom: Any, value: Fraction) -> bool:
    number = sympify(value)
    checks = ("positive", "negative", "nonnegative", "nonpositive", "integer", "nonzero")
    return all(getattr(atom, f"is_{c}") is not True or getattr(number, f"is_{c}") for c in checks)
