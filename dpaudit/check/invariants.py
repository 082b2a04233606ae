"""Invariants of every derivation, whatever its theorems say, at each round of a schedule.

Losses are numbers of at least 0; a whole loses at least what each part loses; a sample loses at
most what its base loses; parameters are at least 0; rounds, records and draws are counted by
natural numbers.  No theorem is asked: a theorem, a domain or a sum in closed form that is wrong is
found here.  The accountant has its own, in :mod:`dpaudit.measures.invariants`; neither imports the
other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from dpaudit.check.reading import Json, require
from dpaudit.check.theorem import at_order
from dpaudit.errors import CertificateRejected, InvalidParameter
from dpaudit.exact import (
    enclose,
    infinity,
    is_infinite,
    is_symbolic,
    replaced,
    sympify,
    unknowns,
)
from dpaudit.exact.arb import TooManyTerms
from dpaudit.nodes import Node, free_in_each, postorder
from dpaudit.pairs import Losses, Pair, numbers_in

# Bounds that one verification evaluates, each round of a schedule counted: seconds of work.
MOST_BOUNDS = 100_000
# Different nestings of schedules around one node: each is looked at round by round.
MOST_WAYS = 1_000
WHOLES = {"Compose", "Parallel", "Repeat", "Select", "Assuming", "EventSlack", "Group", "Tuned"}
ONE_AFTER_THE_OTHER = {"Compose", "ProposeTestRelease"}
# Not with replacement: a record that is drawn twice counts as two.
SAMPLES = {"PoissonSampled", "SampledWithoutReplacement"}
NATURAL = {"times", "size", "draws", "population", "batch_size", "slots", "rounds", "steps"}
NATURAL |= {"answers", "choices", "clients", "groups", "sensitivity"}
ORDERS = tuple(Fraction(order) for order in ("1.01", "3", "12"))

Round = Mapping[Any, int]
Free = Mapping[str, set[Any]]


def require_possible(steps: Sequence[Json], values: Sequence[Any], root: Node) -> None:
    """Errors: CertificateRejected naming the first step whose bound no mechanism has."""
    free = free_in_each(root)
    around = _schedules_around(root, free)
    bounds = [_Bound(value) for value in values]
    rounds_left = MOST_BOUNDS
    for number, (row, bound) in enumerate(zip(steps, bounds, strict=True)):
        place = f"step {number} ({row['rule'][:40]})"
        node = bound.value.node
        for schedules in around[node.digest]:
            for at in _rounds(schedules, {}):
                rounds_left -= 1
                require(rounds_left >= 0, f"{place}: more than {MOST_BOUNDS} rounds to look at")
                _require_parameters(node, at, place)
                own = bound.losses(at)
                require(all(map(_may_be_a_loss, own)), f"{place}: below 0, or no number{_in(at)}")
                premises = [bounds[p] for p in row["premises"]]
                require(_leaves_open(bound, premises), f"{place}: fixes what its past may choose")
                for premise in premises:
                    for inner in _rounds_of(node, free[premise.value.node.digest], at):
                        in_order = _is_in_order(bound, own, premise, premise.losses(inner))
                        require(in_order, f"{place}: its bound contradicts a premise's{_in(inner)}")


def _schedules_around(root: Node, free: Free) -> dict[str, tuple[tuple[Node, ...], ...]]:
    """For each node, by digest, the schedules on whose rounds it depends, each way once.

    Outermost first.
    """
    nodes = {node.digest: node for node in postorder(root)}  # children before their parents
    ways: dict[str, dict[tuple[Node, ...], None]] = {digest: {} for digest in nodes}
    ways[root.digest][()] = None
    for node in reversed(nodes.values()):
        inside = (node,) if _is_schedule(node) else ()
        for child in node.children:
            ways[child.digest].update(dict.fromkeys((*way, *inside) for way in ways[node.digest]))
            require(len(ways[child.digest]) <= MOST_WAYS, "too many schedules around one node")
    return {
        digest: tuple(dict.fromkeys(_needed(way, free[digest]) for way in schedules))
        for digest, schedules in ways.items()
    }


def _needed(schedules: Sequence[Any], symbols: set[Any]) -> tuple[Any, ...]:
    """The schedules whose rounds decide what some symbols are."""
    needed: list[Any] = []
    for schedule in reversed(schedules):
        if schedule.index in symbols:
            needed.append(schedule)
            symbols = symbols | unknowns(schedule.times)
    return tuple(reversed(needed))


def _is_schedule(node: Any) -> bool:
    return getattr(node, "index", None) is not None


def _rounds_of(node: Any, inside: set[Any], at: Round) -> Iterator[Round]:
    """The different rounds in which a node runs a child that depends on some symbols."""
    if _is_schedule(node) and node.index in inside:
        yield from _rounds([node], at)
    elif _exactly(getattr(node, "times", Fraction(1)), at) != 0:
        yield at


def _rounds(schedules: Sequence[Any], indices: Round) -> Iterator[Round]:
    """Every round of nested schedules, as values of their indices."""
    if not schedules:
        yield indices
        return
    times = _exactly(schedules[0].times, indices)
    is_natural = isinstance(times, Fraction) and times.denominator == 1 and times >= 0
    require(is_natural, f"{schedules[0].head[:80]}: its rounds are no natural number{_in(indices)}")
    require(times <= MOST_BOUNDS, f"{schedules[0].head[:80]}: more than {MOST_BOUNDS} rounds")
    for k in range(1, int(times) + 1):
        yield from _rounds(schedules[1:], {**indices, schedules[0].index: k})


def _require_parameters(node: Node, at: Round, place: str) -> None:
    """A shipped node's numbers are at least 0 (the shape of a law of runs: -1), counts natural."""
    for name, value in node.parameters.items():
        if not node.is_shipped or not (isinstance(value, Fraction) or is_symbolic(value)):
            continue
        if name in NATURAL:
            count = _exactly(value, at)
            valid = isinstance(count, Fraction) and count.denominator == 1 and count >= 0
            require(valid, f"{place}: {name} is no natural number{_in(at)}")
        elif name != "index":
            least = value + 1 if name == "shape" else value
            numbers = [_exactly(least, at)]
            if node.speaks_of:
                numbers = [_exactly(at_order(least, order), at) for order in ORDERS]
            valid = all(_may_be_a_loss(_number(number, {})) for number in numbers)
            require(valid, f"{place}: {name} is below 0{_in(at)}")


def _exactly(value: Any, at: Round) -> Any:
    return replaced(value, {symbol: Fraction(k) for symbol, k in at.items()})


def _in(at: Round) -> str:
    return "".join(f", in round {symbol} = {k}" for symbol, k in at.items())


class _Bound:
    """The numbers of one step's bound, at any round."""

    def __init__(self, value: Any) -> None:
        self.value = value
        upper = value.upper
        if upper is None:
            self._parts: list[Any] = []
        elif isinstance(upper, Losses):
            pairs = (*upper.pairs, *upper.reached)
            self._parts = [n for pair in pairs for n in numbers_in(pair)] + [upper.slack]
        elif callable(upper):
            self._parts = [upper(order) for order in ORDERS]
        else:
            self._parts = list(upper) if isinstance(upper, tuple) else [upper]

    def losses(self, at: Round) -> list[Any]:
        """Fractions, balls or infinity."""
        return [_number(part, at) for part in self._parts]


def _number(value: Any, at: Round) -> Any:
    """A fraction, a ball or infinity; NaN for what is no real number.

    Arb answers NaN for the root of -1, and for what is next to infinity at its precision: that is
    taken for infinity.
    """
    if not is_symbolic(value) or is_infinite(value):
        return value
    if unknowns(value) - at.keys():  # of a theorem with symbols; no certificate has one
        return infinity()
    if value.has(*_steps()):  # Arb does not know that 3 * (1 / 3) is whole
        value, at = _exactly(value, at), {}
    try:
        ball = enclose(value, {symbol: enclose(Fraction(k)) for symbol, k in at.items()})
    except TooManyTerms as error:
        raise CertificateRejected(f"not looked at: {error}") from None
    except InvalidParameter:
        return enclose(Fraction(0)) / 0
    return infinity() if ball.is_nan() and _is_real(_exactly(value, at)) else ball


def _steps() -> tuple[Any, ...]:
    import sympy

    return sympy.floor, sympy.ceiling, sympy.binomial


def _is_real(number: Any) -> bool:
    import sympy

    return not sympify(number).has(sympy.nan, sympy.zoo, sympy.I)


def _may_be_a_loss(number: Any) -> bool:
    if isinstance(number, Fraction) or is_infinite(number):
        return bool(number >= 0)
    return not (number.is_nan() or number < 0)


def _is_in_order(whole: _Bound, losses: Sequence[Any], part: _Bound, inside: Sequence[Any]) -> bool:
    """Whether nothing shows that a whole loses less than a part, or a sample more than its base."""
    value, kind = whole.value, type(whole.value.node).__name__
    comparable = value.calculus == part.value.calculus and not isinstance(value.upper, Losses)
    if value.converted or not comparable or None in (value.upper, part.value.upper):
        return True
    # Below order 2 a group has the bound at 2, which a loose curve of its child may exceed.
    if kind in WHOLES and not (kind == "Group" and value.calculus == "rdp"):
        return not any(map(_is_below, losses, inside))
    if kind in SAMPLES and value.calculus == "pure":
        return not any(map(_is_below, inside, losses))
    return True


def _leaves_open(whole: _Bound, parts: Sequence[_Bound]) -> bool:
    """Whether pairs that an earlier release may choose among stay together in a composition.

    One product for each of them is a choice that is made once, before anything is released.
    """
    value = whole.value
    if type(value.node).__name__ not in ONE_AFTER_THE_OTHER or not isinstance(value.upper, Losses):
        return True

    def open_choices(side: tuple[Pair, ...]) -> list[Pair]:
        return [f for pair in side for f, _ in pair.factors if len(f.alternatives) > 1]

    def is_open(choice: Pair, side: tuple[Pair, ...]) -> bool:
        candidates = [p for pair in side for p in (pair, *pair.alternatives)]
        return any(factor.dominates(choice) for pair in candidates for factor, _ in pair.factors)

    for part in (part.value.upper for part in parts):
        if not isinstance(part, Losses):
            continue
        sides = ((part.remove, value.upper.remove), (part.add, value.upper.add))
        if not all(is_open(c, others) for own, others in sides for c in open_choices(own)):
            return False
    return True


def _is_below(number: Any, other: Any) -> bool:
    if is_infinite(number) or is_infinite(other):
        return is_infinite(other) and not is_infinite(number)
    if isinstance(number, Fraction) and isinstance(other, Fraction):
        return number < other
    balls = [enclose(n) if isinstance(n, Fraction) else n for n in (number, other)]
    return bool(balls[0] < balls[1])
