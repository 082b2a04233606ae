"""Invariants of every derivation, for any rules, checked in each round by itself.

A loss is a number of at least 0.  A composition, repetition or choice of mechanisms loses at least
as much as each of them.  A sample loses at most as much as its base.  Parameters are at least 0,
and numbers of rounds, records or draws are natural ones.  A parameter that an earlier release may
choose is not fixed for the whole run.

These facts hold for every mechanism, so they need no rule and ask for none: they find what a wrong
rule, a domain or a closed form of a sum lets pass.  The checker has its own, in
:mod:`dpaudit.check.invariants`; neither imports the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from operator import attrgetter
from typing import Any

from dpaudit.errors import InternalError, InvalidParameter, Unsupported
from dpaudit.exact import canonical, enclose, is_infinite, is_symbolic, replaced, sympify, unknowns
from dpaudit.exact.arb import TooManyTerms, as_ball
from dpaudit.pairs import Losses, largest, numbers_in

# Steps that are evaluated for one derivation, each round of a schedule counted: some seconds.
MOST_STEPS = 200_000
# Renyi orders at which curves are compared; small, because some curves are sums up to the order.
TESTED_ORDERS = (Fraction(5, 4), Fraction(2), Fraction(8))
# Nodes that lose at least what each part loses.
AT_LEAST_EACH_CHILD = (
    "Compose",
    "Parallel",
    "Repeat",
    "Select",
    "Assuming",
    "EventSlack",
    "Group",
    "Tuned",
)
# Children run one after the other, on the same records.
COMPOSED = ("Compose", "ProposeTestRelease")
# Not with replacement: a record that is drawn twice counts as two.
AT_MOST_ITS_BASE = ("PoissonSampled", "SampledWithoutReplacement")
COUNTS = frozenset(
    "times size draws population batch_size slots rounds steps answers choices clients groups "
    "sensitivity".split()
)
# The one parameter of a shipped node that may be negative, and what makes it a number above 0.
MAY_BE_NEGATIVE = {"shape": Fraction(1)}

Values = Mapping[Any, int | Fraction]
Numbers = tuple[Any, ...] | None


def require_consistent(root: Any) -> None:
    """Look at every step of a derivation, in every round.

    Errors: InternalError naming the first step that no mechanism could have; Unsupported for more
    rounds than are looked at.
    """
    _Derivation().visit(root)


class _Derivation:
    """The steps that were looked at, each once for the values of the indices it depends on."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, tuple[tuple[Any, int | Fraction], ...]], Numbers] = {}
        self._depends: dict[int, frozenset[Any]] = {}

    def visit(self, root: Any) -> None:
        """Look at every step, premises first, so that no recursion follows the depth of a tree."""
        for step in root.walk():
            self._once(step, {})

    def _once(self, step: Any, values: Values) -> Numbers:
        """The numbers of a step at some values of the indices around it.

        None for a bound that other symbols decide.
        """
        own = self._free(step)
        key = id(step), tuple((s, k) for s, k in values.items() if s in own)
        if key not in self._numbers:
            if len(self._numbers) >= MOST_STEPS:
                raise _too_many(step)
            self._numbers[key] = self._looked_at(step, dict(key[1]))
        return self._numbers[key]

    def _free(self, step: Any) -> frozenset[Any]:
        """Symbols that a step's declaration holds and does not bind."""
        if id(step) not in self._depends:
            inside = frozenset[Any]().union(*map(self._free, step.premises))
            own = frozenset[Any]().union(*map(_unknowns, step.node.parameters.values()))
            self._depends[id(step)] = (own | inside) - {getattr(step.node, "index", None)}
        return self._depends[id(step)]

    def _looked_at(self, step: Any, values: Values) -> Numbers:
        numbers = _numbers(step.value, values)
        if not all(map(_is_loss, numbers or ())):
            raise _impossible(step, values, "is below 0, or not a number")
        if (wrong := _wrong_parameter(step.node, values)) is not None:
            raise _impossible(step, values, wrong)
        for inside in self._premises(step, values):
            self._compare(step, numbers, inside, values)
        if type(step.node).__name__ in COMPOSED and isinstance(step.value, Losses):
            self._composed(step, values)
        return numbers

    def _composed(self, step: Any, values: Values) -> None:
        """Alternatives of a release are composed as one factor, as its past may choose among them.

        A product for each choice, one for the whole run, has no such factor.
        """
        for side in (attrgetter("remove"), attrgetter("add")):
            joint = largest(side(step.value))
            held = {f for pair in (joint, *joint.alternatives) for f, _ in pair.factors}
            alone = set(joint.alternatives)  # each the whole of one choice, so that none is fixed
            for premise in step.premises:
                chosen = [f for f, _ in largest(side(premise.value)).factors]
                several = [f for f in chosen if len(f.alternatives) > 1 and f not in held]
                if not all(alone.issuperset(f.alternatives) for f in several):
                    raise _impossible(step, values, "fixes what an earlier release may choose")

    def _premises(self, step: Any, values: Values) -> list[Numbers]:
        """The numbers of each premise; of a schedule's, round by round."""
        index = getattr(step.node, "index", None)
        if index is None or not any(index in self._free(p) for p in step.premises):
            times = _at(getattr(step.node, "times", Fraction(1)), values)
            return [] if times == 0 else [self._once(p, values) for p in step.premises]
        times = _at(step.node.times, values)
        if is_symbolic(times):
            return []
        if times > MOST_STEPS:
            raise _too_many(step)
        rounds = range(1, int(times) + 1)
        return [self._once(p, {**values, index: k}) for k in rounds for p in step.premises]

    def _compare(self, step: Any, numbers: Numbers, inside: Numbers, values: Values) -> None:
        if numbers is None or inside is None or isinstance(step.value, Losses):
            return  # parameters of pairs of distributions have no order among each other
        kind = type(step.node).__name__
        # Below order 2 a group has the bound at 2, which a loose curve of its child may exceed.
        loose = kind == "Group" and step.calculus == "rdp"
        if kind in AT_LEAST_EACH_CHILD and not loose and any(map(_is_below, numbers, inside)):
            raise _impossible(step, values, "is below that of a part of it")
        amplified = kind in AT_MOST_ITS_BASE and step.calculus == "pure"
        if amplified and any(map(_is_below, inside, numbers)):
            raise _impossible(step, values, "is above that of the mechanism it samples for")


def _too_many(step: Any) -> Unsupported:
    return Unsupported(
        f"{step.node.head}: {step.calculus} was asked for more than {MOST_STEPS} different rounds, "
        "each of which would have to be looked at"
    )


def _impossible(step: Any, values: Values, why: str) -> InternalError:
    at = "".join(f", {symbol} = {k}" for symbol, k in values.items())
    return InternalError(
        f"{step.calculus} bound of {step.node.head}{at}: it {why}. "
        "This is an error of dpaudit: use no number of this account, and report the declaration"
    )


def _unknowns(value: Any) -> set[Any]:
    if isinstance(value, tuple):
        return set[Any]().union(*map(_unknowns, value))
    return unknowns(value)


def _numbers(value: Any, values: Values) -> Numbers:
    """The losses that a bound consists of, as fractions, balls or infinity."""
    parts = list(value) if isinstance(value, tuple) else [value]
    if isinstance(value, Losses):
        pairs = (*value.pairs, *value.reached)
        parts = [number for pair in pairs for number in numbers_in(pair)] + [value.slack]
    numbers: list[Any] = []
    for part in parts:
        each = _evaluated(part, values)
        if each is None:
            return None
        numbers += each
    return tuple(numbers)


def _evaluated(value: Any, values: Values) -> list[Any] | None:
    """A number; a curve at :data:`TESTED_ORDERS`; None if another symbol has no value."""
    if not is_symbolic(value) or is_infinite(value):
        return [value]
    others = unknowns(value) - values.keys()
    if not others:
        return [_enclosed(value, values)]
    if {symbol.name for symbol in others} != {"alpha"}:
        return None
    (order,) = others
    return [_enclosed(value, {**values, order: at}) for at in TESTED_ORDERS]


def _enclosed(value: Any, values: Values) -> Any:
    """A ball; None where it is undecided; NaN for what is no real number.

    Arb answers NaN for the root of -1, and for what is next to infinity at its precision: SymPy
    tells which it is.
    """
    if not is_symbolic(value):
        return canonical(value)
    import sympy

    balls = {symbol: enclose(Fraction(k)) for symbol, k in values.items()}
    # Arb does not know that 3 * (1 / 3) is whole.  Where SymPy puts numbers into a whole curve, it
    # may expand powers of hundreds of rounds to decide a sign.
    roundings = value.atoms(sympy.floor, sympy.ceiling)
    chosen = [part for choice in value.atoms(sympy.binomial) for part in choice.args]
    if all(part.free_symbols <= values.keys() for part in roundings) and all(
        part.is_integer for part in chosen
    ):
        balls |= {part: enclose(_at(part, values)) for part in roundings}
    else:
        value, values, balls = _at(value, values), {}, {}
    try:
        ball = enclose(value, balls)
    except TooManyTerms:
        return None
    except InvalidParameter:
        return enclose(Fraction(0)) / 0
    if not ball.is_nan():
        return ball
    strange = sympify(_at(value, values)).has(sympy.nan, sympy.zoo, sympy.I)
    return ball if strange else None


def _is_loss(number: Any) -> bool:
    """Whether a number may be at least 0; NaN may not."""
    if number is None:
        return True
    if isinstance(number, Fraction) or is_infinite(number):
        return bool(number >= 0)
    return not (number.is_nan() or number < 0)


def _is_below(number: Any, other: Any) -> bool:
    """Whether a loss is certainly below another one."""
    if number is None or other is None:
        return False
    if is_infinite(number) or is_infinite(other):
        return is_infinite(other) and not is_infinite(number)
    if isinstance(number, Fraction) and isinstance(other, Fraction):
        return number < other
    return bool(as_ball(number) < as_ball(other))


def _at(value: Any, values: Values) -> Any:
    return replaced(value, {symbol: Fraction(k) for symbol, k in values.items()})


def _wrong_parameter(node: Any, values: Values) -> str | None:
    """Why a parameter of a shipped node means nothing; None where all mean something."""
    for name, value in node.parameters.items():
        if not (node.is_shipped and (isinstance(value, Fraction) or is_symbolic(value))):
            continue
        if name in COUNTS:
            count = _at(value, values)
            if not (is_symbolic(count) or (count.denominator == 1 and count >= 0)):
                return f"has {name} = {count}, not a natural number"
        elif not all(map(_is_loss, _evaluated(value + MAY_BE_NEGATIVE.get(name, 0), values) or ())):
            return f"has {name} = {_at(value, values)}, which is below 0"
    return None
