"""One row for each event of dp-accounting: the node it is, and how the fields of the two map.

A regular row lists (event's field, node's field, kind); what needs more has functions of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.interchange.numbers import (
    Rounding,
    foreign,
    foreign_count,
    foreign_rate,
    to_float,
    to_int,
)
from dpaudit.nodes import (
    SINGLE,
    ZCDP,
    Compose,
    CorrelatedGaussian,
    Factorisation,
    Gaussian,
    Laplace,
    Node,
    NonPrivate,
    Parallel,
    PoissonSampled,
    RenyiCurve,
    Repeat,
    SampledWithoutReplacement,
)
from dpaudit.scope import Adjacency

if TYPE_CHECKING:
    from dpaudit.interchange.events import Reader, Writer

MODULE = "dp_accounting.dp_event"
TREE_EVENT = "SingleEpochTreeAggregationDpEvent"
TREES = (Factorisation.TREE, Factorisation.TREE_HONAKER)
ROUND_OFF = Fraction(1, 10**9)
# Sensitivity, in clipping norms, of a sum of records of at most that norm.
NORMS = {Adjacency.ADD_REMOVE: 1, Adjacency.ZERO_OUT: 1, Adjacency.REPLACE_ONE: 2}
# What reads no record: every calculus has its rules, and none of them an assumption.
NOTHING: Node = Repeat(Laplace("no_op", 1), 0)
UNKNOWN = {
    "UnsupportedDpEvent": "an operation that nobody described; declare it",
    "RepeatAndSelectDpEvent": "no node runs its child a random number of times; declare its "
    "guarantee as a RenyiCurve",
    "TruncatedSubsampledGaussianDpEvent": "no node truncates a Poisson sample; declare its "
    "guarantee as ProfilePoints",
}

Read: TypeAlias = Callable[[Any, "Reader"], Node]
Write: TypeAlias = Callable[[Any, list[Any], "Writer"], Any]


@dataclass(frozen=True)
class Row:
    """How one event is read, and how the nodes that it can stand for are written."""

    event: str
    nodes: tuple[type[Node], ...]
    read: Read
    write: Write | None


@dataclass(frozen=True)
class Kind:
    """One kind of field: its number in from an event, and out into one."""

    read: Callable[[Any, str, int], Any]
    write: Callable[[Any, str, int], Any]


def _noise_in(value: Any, place: str, norms: int) -> Fraction:
    return foreign(value, place) / norms


def _noise_out(value: Any, place: str, norms: int) -> float:
    return to_float(value * norms, place, Rounding.DOWN)


NOISE = Kind(_noise_in, _noise_out)
RATE = Kind(lambda v, at, _: foreign_rate(v, at), lambda v, at, _: to_float(v, at, Rounding.UP))
WHOLE = Kind(lambda v, at, _: foreign_count(v, at), lambda v, at, _: to_int(v, at))
LOSS = Kind(lambda v, at, _: foreign(v, at), lambda v, at, _: to_float(v, at, Rounding.UP))
Fields: TypeAlias = tuple[tuple[str, str, Kind], ...]
# A node that stands for an event of certain numbers, instead of the row's own.
Special: TypeAlias = Callable[[dict[str, Any], list[Node]], Node | None]


def regular(event: str, node: type[Node], fields: Fields, special: Special) -> Row:
    """A row whose fields map one to one; a leaf is labelled after its type, a child is ``event``.

    ``special`` answers the numbers that make it another node.
    """

    def read(found: Any, reader: Reader) -> Node:
        numbers = {
            ours: kind.read(getattr(found, theirs), f"{reader.path}.{theirs}", reader.norms)
            for theirs, ours, kind in fields
        }
        inner = [reader.below(found.event, "")] if hasattr(found, "event") else []
        other = special(numbers, inner)
        if other is not None:
            return other
        named = {"child": inner[0]} if inner else {"label": node.__name__.lower()}
        return node(**named, **numbers)

    def write(declared: Node, children: list[Any], writer: Writer) -> Any:
        values = {
            theirs: kind.write(getattr(declared, ours), f"{writer.path}.{ours}", writer.norms)
            for theirs, ours, kind in fields
        }
        inner = {"event": children[0]} if children else {}
        return writer.make(event, **values, **inner)

    return Row(event, (node,), read, write)


def _no_noise(numbers: dict[str, Any], _: list[Node]) -> Node | None:
    return NonPrivate("noise of multiplier 0") if numbers["noise_multiplier"] == 0 else None


def _poisson(numbers: dict[str, Any], inner: list[Node]) -> Node | None:
    return {0: NOTHING, 1: inner[0]}.get(numbers["rate"]) if NOTHING not in inner else NOTHING


def _batch(numbers: dict[str, Any], inner: list[Node]) -> Node | None:
    if numbers["batch_size"] == 0 or inner == [NOTHING]:
        return NOTHING
    return inner[0] if numbers["batch_size"] == numbers["population"] else None


def _self_composed(event: Any, reader: Reader) -> Node:
    times = foreign_count(event.count, f"{reader.path}.count")
    child = reader.below(event.event, "")
    if times == 0 or child == NOTHING:
        return NOTHING
    return child if times == 1 else Repeat(child, times)


def together(nodes: Sequence[Node]) -> Node:
    """Several declarations on the same records, without those that read none."""
    found = [node for node in nodes if node != NOTHING]
    return Compose(*found) if len(found) > 1 else (found or [NOTHING])[0]


def _composed(event: Any, reader: Reader) -> Node:
    if not isinstance(event.events, (list, tuple)):
        raise Unsupported(f"{reader.path}.events: expected a list of events")
    return together([reader.below(e, f"[{i}]") for i, e in enumerate(event.events)])


def _composed_event(node: Compose, children: list[Any], writer: Writer) -> Any:
    return writer.make("ComposedDpEvent", events=children)


def _repeated_event(node: Repeat, children: list[Any], writer: Writer) -> Any:
    if node.index is not None:
        return writer.make("ComposedDpEvent", events=writer.rounds(node))
    times = to_int(node.times, f"{writer.path}.times")
    if times == 0:
        return writer.make("NoOpDpEvent")
    return writer.make("SelfComposedDpEvent", event=children[0], count=times)


def _zcdp(event: Any, reader: Reader) -> Node:
    import sympy

    rho, xi = (foreign(getattr(event, n), f"{reader.path}.{n}") for n in ("rho", "xi"))
    if xi == 0:
        return ZCDP(rho, source="a ZCDpEvent")
    alpha = sympy.Symbol(RenyiCurve.speaks_of, positive=True)
    slope, start = (sympy.Rational(n.numerator, n.denominator) for n in (rho, xi))
    return RenyiCurve(start + slope * alpha, source="a ZCDpEvent")


def _zcdp_event(node: ZCDP, children: list[Any], writer: Writer) -> Any:
    return writer.make("ZCDpEvent", rho=to_float(node.rho, f"{writer.path}.rho", Rounding.UP))


def _tree(event: Any, reader: Reader) -> Node:
    """Trees over disjoint records; a noise of a node over the sensitivity of that node."""
    noise = NOISE.read(event.noise_multiplier, f"{reader.path}.noise_multiplier", reader.norms)
    given = event.step_counts
    listed = given if isinstance(given, (list, tuple)) else [given]
    counts = [foreign_count(c, f"{reader.path}.step_counts[{i}]") for i, c in enumerate(listed)]
    steps = sorted({c for c in counts if c > 0})
    if not steps:
        return NOTHING
    if noise == 0:
        return NonPrivate("noise of multiplier 0")
    trees = [CorrelatedGaussian("tree", noise, count) for count in steps]
    return Parallel(*trees) if len(trees) > 1 else trees[0]


def _tree_event(node: CorrelatedGaussian, children: list[Any], writer: Writer) -> Any:
    if node.strategy not in TREES or node.participation != SINGLE:
        raise Unsupported(
            f"{writer.path}: the tree event is of binary trees in which a record occurs once"
        )
    noise = NOISE.write(node.noise_multiplier, f"{writer.path}.noise_multiplier", writer.norms)
    steps = to_int(node.rounds, f"{writer.path}.rounds")
    return writer.make(TREE_EVENT, noise_multiplier=noise, step_counts=steps)


def _trees_event(node: Parallel, children: list[Any], writer: Writer) -> Any:
    noises = {getattr(each, "noise_multiplier", None) for each in children}
    if {type(each).__name__ for each in children} != {TREE_EVENT} or len(noises) > 1:
        raise Unsupported(
            f"{writer.path}: no event takes a maximum over disjoint records, but for trees of one "
            "noise"
        )
    steps = [each.step_counts for each in children]
    return writer.make(TREE_EVENT, noise_multiplier=noises.pop(), step_counts=steps)


def _mixture(event: Any, reader: Reader) -> Node:
    """N(0, s^2) against a mixture of N(c_i, s^2): a node where the c_i are 0 and one other."""
    if reader.adjacency is Adjacency.REPLACE_ONE:
        raise Unsupported(f"{reader.path}: a mixture of Gaussians is not defined under replace_one")
    noise = foreign(event.standard_deviation, f"{reader.path}.standard_deviation")
    shares = _shares(event, reader)
    moved = [c for c in shares if c != 0]
    if not moved:
        return NOTHING
    if noise == 0:
        return NonPrivate("noise of standard deviation 0")
    if len(moved) > 1:
        raise Unsupported(
            f"{reader.path}.sensitivities: {len(moved)} different ones; no node is a mixture of "
            "more than one and 0"
        )
    rate = max(shares[moved[0]], 1 - shares.get(Fraction(0), Fraction(0)))
    child = Gaussian("gaussian", noise / moved[0])
    return child if rate >= 1 else PoissonSampled(child, rate)


def _shares(event: Any, reader: Reader) -> dict[Fraction, Fraction]:
    """The probability of every sensitivity that has one."""
    names = ("sensitivities", "sampling_probs")
    given = [getattr(event, name) for name in names]
    if not all(isinstance(g, (list, tuple)) for g in given) or len(given[0]) != len(given[1]):
        raise InvalidParameter(f"{reader.path}: expected as many sampling_probs as sensitivities")
    shares: dict[Fraction, Fraction] = {}
    for i, (moved, share) in enumerate(zip(*given, strict=True)):
        key = foreign(moved, f"{reader.path}.sensitivities[{i}]")
        found = foreign_rate(share, f"{reader.path}.sampling_probs[{i}]")
        if found != 0:
            shares[key] = shares.get(key, Fraction(0)) + found
    if abs(sum(shares.values(), Fraction(-1))) > ROUND_OFF:
        raise InvalidParameter(f"{reader.path}.sampling_probs: expected a sum of 1")
    return shares


SAMPLE = (("source_dataset_size", "population", WHOLE), ("sample_size", "batch_size", WHOLE))

ROWS = (
    regular("GaussianDpEvent", Gaussian, (("noise_multiplier",) * 2 + (NOISE,),), _no_noise),
    regular("LaplaceDpEvent", Laplace, (("noise_multiplier",) * 2 + (NOISE,),), _no_noise),
    regular(
        "PoissonSampledDpEvent", PoissonSampled, (("sampling_probability", "rate", RATE),), _poisson
    ),
    regular("SampledWithoutReplacementDpEvent", SampledWithoutReplacement, SAMPLE, _batch),
    Row("SelfComposedDpEvent", (Repeat,), _self_composed, _repeated_event),
    Row("ComposedDpEvent", (Compose,), _composed, _composed_event),
    Row("NoOpDpEvent", (), lambda event, reader: NOTHING, None),
    Row(
        "NonPrivateDpEvent",
        (NonPrivate,),
        lambda event, reader: NonPrivate("a NonPrivateDpEvent"),
        lambda node, children, writer: writer.make("NonPrivateDpEvent"),
    ),
    Row("ZCDpEvent", (ZCDP,), _zcdp, _zcdp_event),
    Row(TREE_EVENT, (CorrelatedGaussian,), _tree, _tree_event),
    Row("MixtureOfGaussiansDpEvent", (), _mixture, None),
)
WRITERS: dict[type[Node], Write] = {Parallel: _trees_event}
