"""Claims and their check: proved, refuted with values, or unproved.

An upper bound above a claim refutes nothing unless it is attained; an attained one refutes the
claim for the declaration, that is, for some data and queries with the declared sensitivities.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from typing import Any

from dpaudit.accountant.account import Account
from dpaudit.accountant.gaps import Curve, Difference, atoms_of
from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.exact import (
    Number,
    decimal_lower,
    decimal_upper,
    is_infinite,
    is_symbolic,
    log,
    readable,
    replaced,
    sqrt,
    sympify,
    unknowns,
)
from dpaudit.exact.inequality import MAX_POINTS, at_most, balls_at, covered, ends_of, points, simple
from dpaudit.families.opaque import ApproxDP, RenyiDP
from dpaudit.measures.calculus import CALCULI, TIGHT_RATIO, Step, measure_of, measures
from dpaudit.measures.renyi import order
from dpaudit.nodes import Node, Status, postorder
from dpaudit.nodes.registry import load
from dpaudit.scope import Scope

SATURATING = (
    "queries of the declared sensitivities that move by all of it at every release, "
    "along one direction"
)
FIRST_POINTS = 64  # pieces of the ranges of free symbols, at first; doubtful ones are halved


class Outcome(StrEnum):
    """The outcome of a check."""

    PROVED = "proved"
    REFUTED = "refuted"
    UNPROVED = "unproved"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, repr=False)
class Claim:
    """A guarantee somebody states of a mechanism.

    ``guarantee`` is a PureDP, ApproxDP, ZCDP, RenyiDP or GDP node; ``by`` names who states it;
    ``reading`` says how an ambiguous phrase is read (each reading is a claim of its own);
    ``ranges`` gives inclusive (lower, upper) ends for symbols; a symbol without a range stands for
    every value that its assumptions allow, and a range for a function of the round, T(k), holds for
    every round.  ``states``: a note on the original statement, its parameters, and which of them
    were chosen here; no check reads it.

    >>> import dpaudit as dp
    >>> claim = dp.Claim(dp.ApproxDP("0.9", "1e-6"), by="the paper")
    >>> print(claim.check(dp.Gaussian("mean", 5), dp.central("add_remove")))
    ApproxDP(epsilon=0.9, delta=0.000001): proved (0.834118 <= 0.9)
    """

    guarantee: Node
    by: str
    reading: str = ""
    ranges: Mapping[Any, tuple[Any, Any]] = field(default_factory=dict)
    states: str = ""

    def __post_init__(self) -> None:
        stated(self.guarantee, "Claim.guarantee")
        if not self.by:
            raise InvalidParameter("Claim.by is empty: say who states the claim, and where")
        ranges = {s: ends_of(s, ends, "Claim.ranges") for s, ends in self.ranges.items()}
        object.__setattr__(self, "ranges", ranges)

    def __str__(self) -> str:
        return f"{self.text}, by {self.by}" + (f" ({self.reading})" if self.reading else "")

    def __repr__(self) -> str:
        return f"Claim({self.text}, by={self.by!r})"

    def _repr_html_(self) -> str:
        from dpaudit.report.notebook import card

        ranges = [
            (f"{s} in", f"[{readable(a)}, {readable(b)}]") for s, (a, b) in self.ranges.items()
        ]
        read = [("reading", self.reading)] if self.reading else []
        return card("Claim", [("guarantee", self.text), ("by", self.by), *read, *ranges])

    @property
    def value(self) -> Number:
        """The number that is claimed, in the parameter of its measure."""
        node, parameter = stated(self.guarantee)
        number: Number = node.parameters[parameter]
        return number

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
            if isinstance(self.guarantee, ApproxDP):
                return _check_approximate(self, account)
            return self.check_step(account.step(self.guarantee.states_in))
        except Unsupported as error:
            return Checked(self, Outcome.UNSUPPORTED, None, str(error))

    def check_step(self, step: Step) -> Checked:
        """Compare the claim with a derivation somebody already has.

        Errors: InvalidParameter for a derivation in another measure, or at another delta.
        """
        measure = self.guarantee.states_in
        if step.calculus in CALCULI and step.calculus != measure:
            raise InvalidParameter(f"{self.text}: expected a {measure} step, not {step.calculus}")
        if isinstance(self.guarantee, RenyiDP):
            return _compare(self, step, _at_order(step.value, self.guarantee.order))
        if not isinstance(step.value, tuple):
            return _compare(self, step, step.value)
        upper, delta = step.value
        if delta != self.guarantee.parameters.get("delta"):
            raise InvalidParameter(f"{self.text}: the step is at delta = {readable(delta)}")
        return _compare(self, step, upper)


def stated(guarantee: object, place: str = "claim") -> tuple[Node, str]:
    """A node that states a guarantee, and in which parameter: epsilon, rho, mu or another's.

    Errors: InvalidParameter for what states no number in a registered measure.
    """
    if isinstance(guarantee, Node):
        measure = measure_of(guarantee)
        if measure is not None and measure.parameter in guarantee.parameters:
            return guarantee, measure.parameter
    kinds = ", ".join(_claimable())
    raise InvalidParameter(f"{place} = {guarantee!r}: expected one of {kinds}")


def _claimable() -> list[str]:
    load("rules")
    return [
        name
        for name, kind in Node.types.items()
        if kind.states_in in CALCULI
        and CALCULI[kind.states_in].measure.parameter in getattr(kind, "__dataclass_fields__", ())
    ]


def _at_order(curve: Number, alpha: Number) -> Number:
    return replaced(curve, {order(): alpha})


@dataclass(frozen=True, repr=False)
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

    def __repr__(self) -> str:
        return f"Checked({self.claim.text}, {self.outcome})"

    def _repr_html_(self) -> str:
        from dpaudit.report.notebook import card

        rows = [("claim", str(self.claim)), ("outcome", str(self.outcome)), ("why", self.reason)]
        return card("Check", [*rows, *((f"at {k}", v) for k, v in self.values.items())])


def _compare(claim: Claim, step: Step, upper: Number) -> Checked:
    """Proved if the upper bound is at most the claim, refuted if an attained value is above it."""
    refused = _unusable(claim, step, upper)
    if refused is not None:
        return refused
    reached = _reached(claim, step)
    gap = Difference(upper if reached is None else reached, claim.value)
    shown = f"{_show(upper)} <= {_show(claim.value)}"
    values = _where(gap, claim, step, FIRST_POINTS)
    if values is None and at_most(upper, claim.value, claim.ranges):
        return Checked(claim, Outcome.PROVED, step, shown)
    values = _where(gap, claim, step) if values is None else values
    if values is None:
        return Checked(
            claim, Outcome.UNPROVED, step, f"neither {shown} nor its opposite could be shown"
        )
    if reached is None:
        return Checked(claim, Outcome.UNPROVED, step, _not_attained(upper))
    reason = f"{_exceeding(upper, reached)} > {_show(claim.value)}, and the bound is attained"
    return Checked(claim, Outcome.REFUTED, step, reason, values, SATURATING)


def _exceeding(upper: Number, reached: Number) -> str:
    """The upper bound if it is attained up to a millionth, else the attained value."""
    if is_symbolic(reached) or is_symbolic(upper) or upper <= reached * (1 + TIGHT_RATIO):
        return _show(upper)
    return f"at least {decimal_lower(reached, digits=6)}"


def _unusable(claim: Claim, step: Step, upper: Number) -> Checked | None:
    violated = [a.id for a in step.assumptions() if a.status is Status.VIOLATED]
    checked = Checked(claim, Outcome.UNPROVED, step, "")
    if violated:
        return replace(checked, reason=f"it rests on a violated assumption: {', '.join(violated)}")
    if is_infinite(upper):
        refused = replace(checked, reason="no finite guarantee was derived, which refutes nothing")
        return _beyond(claim, step) or refused
    return None


def _beyond(claim: Claim, step: Step) -> Checked | None:
    """Refuted without a finite guarantee, if some attained number is above the claim."""
    if step.lower is None or is_infinite(step.lower):
        return None
    values = _where(Difference(step.lower, claim.value), claim, step, FIRST_POINTS)
    if values is None:
        return None
    reached = decimal_lower(step.lower, digits=6)
    reason = f"no finite guarantee was derived, and {reached} > {_show(claim.value)} is reached"
    return Checked(claim, Outcome.REFUTED, step, reason, values, SATURATING)


def _reached(claim: Claim, step: Step) -> Number | None:
    value = step.reached
    if value is not None and isinstance(claim.guarantee, RenyiDP):
        return _at_order(value, claim.guarantee.order)
    return value[0] if isinstance(value, tuple) else value


def _not_attained(upper: Number) -> str:
    return (
        f"the derived bound {_show(upper)} exceeds the claim, but it is not attained: an upper "
        "bound above a claim refutes nothing"
    )


def _show(value: Number) -> str:
    if not is_symbolic(value) and value.denominator > 10**6:
        return decimal_upper(value, digits=6)
    return readable(value)


# --- (epsilon, delta), with symbols or without ---------------------------------------------------


def _check_approximate(claim: Claim, account: Account) -> Checked:
    """By epsilon at this delta; if symbols leave no number, by the closed forms of each calculus.

    Errors: Unsupported where no calculus covers the declaration.
    """
    delta = claim.guarantee.parameters["delta"]
    try:
        step = account.approximate(delta)
    except Unsupported:
        folded = _symbolic_folds(account)
        if not folded:
            raise
        return _of_symbols(claim, folded)
    checked = _compare(claim, step, step.value[0])
    if checked.outcome is not Outcome.UNPROVED or unknowns(claim.value):
        return checked
    return _decided_elsewhere(claim, account) or checked


def _decided_elsewhere(claim: Claim, account: Account) -> Checked | None:
    """Prove by a route that the account skipped, or refute by a looser bound that is attained.

    An account ends its search at an interval that is narrow, which may still hold the claim.
    """
    for name in account.routes():
        try:
            step = account.converted(name, claim.guarantee.parameters["delta"])
        except Unsupported:
            continue
        checked = _compare(claim, step, step.value[0])
        if checked.outcome is not Outcome.UNPROVED:
            return checked
    return None


def _symbolic_folds(account: Account) -> list[Step]:
    steps = []
    names = sorted(
        (m for m in measures() if m.with_symbols), key=lambda m: _LAST.index(m.with_symbols)
    )
    for measure in names:
        if measure.name in account.routes():
            step = account.step(measure.name)
            values = step.value if isinstance(step.value, tuple) else (step.value,)
            if not any(map(is_infinite, values)):
                steps.append(step)
    return steps


def _of_symbols(claim: Claim, folded: list[Step]) -> Checked:
    """Proved or refuted by the first fold that decides it; unproved where none does.

    Only the last fold can refute (the exact curve, if there is one); a claim that it refutes is
    proved by no other fold, so those are not computed.
    """
    last = _DECIDE[CALCULI[folded[-1].calculus].measure.with_symbols](claim, folded[-1])
    if last.outcome is Outcome.REFUTED:
        return last
    tried = (
        _DECIDE[CALCULI[step.calculus].measure.with_symbols](claim, step) for step in folded[:-1]
    )
    return next((checked for checked in tried if checked.outcome is Outcome.PROVED), last)


def _by_pairs(claim: Claim, step: Step) -> Checked:
    """epsilon and delta of basic composition, each at most what is claimed."""
    epsilon, delta = step.value if isinstance(step.value, tuple) else (step.value, Fraction(0))
    return _if_at_most(claim, step, (epsilon, delta))


def _by_moments(claim: Claim, step: Step) -> Checked:
    """rho a + log(1/delta) / (a - 1), at the best order a and at that where the last term is half.

    Source: Bun, Steinke 2016, Proposition 1.3; Mironov 2017, Proposition 3.
    """
    rho, delta = step.value, claim.guarantee.parameters["delta"]
    if rho == 0:
        return _if_at_most(claim, step, (rho, delta))
    if not sympify(delta).is_positive:
        return Checked(claim, Outcome.UNPROVED, step, f"delta = {_show(delta)} may be 0")
    loss = log(1 / delta)
    half = 2 * rho * (1 + 2 * loss / claim.value) if sympify(claim.value).is_positive else None
    for epsilon in (half, rho + 2 * sqrt(rho * loss)):
        if epsilon is not None:
            checked = _if_at_most(claim, step, (epsilon, delta))
            if checked.outcome is Outcome.PROVED:
                break
    return checked


def _if_at_most(claim: Claim, step: Step, derived: tuple[Number, Number]) -> Checked:
    stated = (claim.value, claim.guarantee.parameters["delta"])
    shown = ", ".join(f"{_show(d)} <= {_show(s)}" for d, s in zip(derived, stated, strict=True))
    refused = _unusable(claim, step, derived[0])
    if refused is not None:
        return refused
    if all(at_most(d, s, claim.ranges) for d, s in zip(derived, stated, strict=True)):
        return Checked(claim, Outcome.PROVED, step, shown)
    return Checked(claim, Outcome.UNPROVED, step, f"it could not be shown that {shown}")


def _by_curve(claim: Claim, step: Step) -> Checked:
    """The exact curve of mu-GDP, in balls: over the stated ranges, or at values that refute."""
    refused = _unusable(claim, step, step.value)
    if refused is not None:
        return refused
    delta = claim.guarantee.parameters["delta"]
    gap = Curve(*map(simple, (step.value, claim.value, delta)))
    shown = f"delta({_show(claim.value)}) of mu = {_show(step.value)}"
    values = _where(gap, claim, step, FIRST_POINTS)
    if values is None and covered(gap.atoms, claim.ranges, gap.holds, gap.fails):
        return Checked(claim, Outcome.PROVED, step, f"{shown} <= {_show(delta)}")
    values = _where(gap, claim, step) if values is None else values
    if values is None:
        reason = f"neither {shown} <= {_show(delta)} nor its opposite could be shown"
        return Checked(claim, Outcome.UNPROVED, step, reason)
    if not step.attained:
        return Checked(claim, Outcome.UNPROVED, step, _not_attained(step.value))
    reason = f"{shown} > {_show(delta)}, and the bound is attained"
    return Checked(claim, Outcome.REFUTED, step, reason, values, SATURATING)


_DECIDE: dict[str, Callable[[Claim, Step], Checked]] = {
    "pairs": _by_pairs,
    "moments": _by_moments,
    "curve": _by_curve,
}
_LAST = list(_DECIDE)  # cheapest first; the exact curve decides last


# --- values at which the bound exceeds the claim -------------------------------------------------


def _where(
    gap: Difference | Curve, claim: Claim, step: Step, most: int = MAX_POINTS
) -> dict[str, str] | None:
    """Values of the free symbols at which what is reached is certainly above the claim.

    At these values the declaration and the claim are valid: every parameter is in its domain.
    """
    expressions = gap.expressions
    for values in points(atoms_of(expressions), claim.ranges, most):
        if gap.exceeds(balls_at(values, *expressions)) and _is_valid(step.node, claim, values):
            return {str(atom): readable(value) for atom, value in values.items()}
    return None


def _is_valid(node: Node, claim: Claim, values: Mapping[Any, Fraction]) -> bool:
    """Whether all parameters are in their domains for every value of the remaining symbols."""
    try:
        bound = [*postorder(node.bind(values)), claim.guarantee.bind(values)]
    except InvalidParameter:
        return False
    unbound = (v for n in bound for v in n.parameters.values() if unknowns(v))
    return all(v.is_nonnegative for v in unbound)
