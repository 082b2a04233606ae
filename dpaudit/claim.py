"""Claims and their check: proved, refuted with values, or unproved.

An upper bound above a claim refutes nothing unless it is attained; an attained one refutes the
claim for the declaration, that is, for some data and queries with the declared sensitivities.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from typing import Any

from dpaudit.account import CALCULUS_OF, Account
from dpaudit.arithmetic import (
    Number,
    canonical,
    enclose,
    exact,
    is_infinite,
    is_symbolic,
    readable,
    sympify,
    working_precision,
)
from dpaudit.calculus import Step
from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.nodes import ApproxDP, Node
from dpaudit.scope import Scope

BOXES = 2000
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
    ranges: Mapping[Any, tuple[Any, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.guarantee, (ApproxDP, *CALCULUS_OF)):
            raise InvalidParameter(
                f"Claim.guarantee = {self.guarantee!r}: expected PureDP, ApproxDP, ZCDP or GDP"
            )
        if not self.by:
            raise InvalidParameter("Claim.by is empty: say who states the claim, and where")
        ends = {s: (exact(a, str(s)), exact(b, str(s))) for s, (a, b) in self.ranges.items()}
        if any(not a <= b for a, b in ends.values()):
            raise InvalidParameter("Claim.ranges: a lower end is above its upper end")
        object.__setattr__(self, "ranges", ends)

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
        """Compare the claim with a derivation somebody already has, in the claim's measure."""
        return _compare(self, step, step.value[0] if isinstance(step.value, tuple) else step.value)


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
    if is_infinite(upper):
        return replace(checked, reason="no finite guarantee was derived, which refutes nothing")
    if _at_most(upper, claim):
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
        return f"{float(value):.6g}"
    return readable(value)


# --- upper <= claim: term by term, by sign, over boxes ----------------------------------------------


def _at_most(upper: Number, claim: Claim) -> bool:
    if is_symbolic(upper) and upper.func.__name__ == "Max":
        return all(_at_most(branch, claim) for branch in upper.args)
    difference = _difference(upper, claim.value)
    if not is_symbolic(difference):
        return bool(difference <= 0)
    if difference.is_nonpositive:
        return True
    if not _atoms(difference):
        return bool(enclose(difference) <= 0)
    return _nonpositive_on_range(difference, claim.ranges)


def _difference(upper: Number, claimed: Number) -> Number:
    import sympy

    return canonical(sympy.simplify(sympify(upper) - sympify(claimed)))


def _atoms(expression: Any) -> list[Any]:
    """The free symbols and applied function symbols an expression depends on."""
    from sympy.core.function import AppliedUndef

    functions = expression.atoms(AppliedUndef)
    inside = set().union(*(f.free_symbols for f in functions)) if functions else set()
    return sorted((expression.free_symbols - inside) | functions, key=str)


def _nonpositive_on_range(difference: Any, ranges: Mapping[Any, tuple[Any, Any]]) -> bool:
    """Branch and bound: the ball of the difference is at most 0 on every box of a subdivision."""
    atoms = _atoms(difference)
    if any(atom not in ranges for atom in atoms):
        return False
    boxes = [tuple(ranges[a] for a in atoms)]
    for _ in range(BOXES):
        if not boxes:
            return True
        box = boxes.pop()
        if not _certainly_nonpositive(difference, atoms, box):
            boxes.extend(_halves(box))
    return False


def _certainly_nonpositive(difference: Any, atoms: list[Any], box: tuple[Any, ...]) -> bool:
    ball = enclose(difference, {a: _interval(*ends) for a, ends in zip(atoms, box, strict=True)})
    return bool(ball.is_finite() and ball <= 0)


def _interval(lower: Fraction, upper: Fraction) -> Any:
    with working_precision():
        return enclose(lower).union(enclose(upper))


def _halves(box: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    widest = max(range(len(box)), key=lambda i: box[i][1] - box[i][0])
    lower, upper = box[widest]
    middle = (lower + upper) / 2
    parts = ((lower, middle), (middle, upper))
    return [(*box[:widest], part, *box[widest + 1 :]) for part in parts]


# --- values at which the bound exceeds the claim -----------------------------------------------------


def _where_above(step: Step, upper: Number, claim: Claim) -> dict[str, str] | None:
    """Values of the free symbols at which the (reached) bound is certainly above the claim."""
    value = step.reached if step.reached is not None else upper
    value = value[0] if isinstance(value, tuple) else value
    difference = _difference(value, claim.value)
    if not is_symbolic(difference):
        return {} if difference > 0 else None
    atoms = _atoms(difference)
    for point in itertools.islice(itertools.product(*(_samples(a, claim) for a in atoms)), 3000):
        if _positive_at(difference, dict(zip(atoms, point, strict=True))):
            return {str(a): readable(p) for a, p in zip(atoms, point, strict=True)}
    return None


def _positive_at(difference: Any, values: Mapping[Any, Fraction]) -> bool:
    at = canonical(difference.subs({a: sympify(v) for a, v in values.items()}))
    if not is_symbolic(at):
        return bool(at > 0)
    try:
        return bool(enclose(at) > 0)
    except InvalidParameter:
        return False


def _samples(atom: Any, claim: Claim) -> list[Fraction]:
    """Rational points to try: the stated range and points inside it, or values of the right sign."""
    if atom in claim.ranges:
        lower, upper = claim.ranges[atom]
        points = [lower + (upper - lower) * Fraction(k, 8) for k in range(9)]
        whole = [Fraction(p.__floor__()) for p in points if p.__floor__() >= lower]
        return list(dict.fromkeys(whole if atom.is_integer else points))
    found = [Fraction(1), Fraction(2), Fraction(10), Fraction(1000)]
    if not atom.is_integer:
        found += [Fraction(1, 2), Fraction(1, 10), Fraction(1, 1000)]
    if not atom.is_nonnegative:
        found += [-v for v in found]
    return [v for v in found if _allowed(atom, v)]


def _allowed(atom: Any, value: Fraction) -> bool:
    number = sympify(value)
    checks = ("is_positive", "is_negative", "is_nonnegative", "is_nonpositive", "is_integer")
    return all(getattr(atom, c) is not True or getattr(number, c) for c in checks)
