"""One row for each event of dp-accounting: the node it is, and how the fields of the two map.

A regular row lists (event's field, node's field, kind); what needs more has functions of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from dpaudit.crosscheck.interchange import readings
from dpaudit.crosscheck.interchange.kinds import NO_NOISE, NOISE, NOTHING, RATE, WHOLE, Kind
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Compose, Parallel, Repeat
from dpaudit.families.correlated import CorrelatedGaussian
from dpaudit.families.discrete import DiscreteLaplace, RandomizedResponse
from dpaudit.families.opaque import ZCDP, NonPrivate, RenyiCurve
from dpaudit.families.sampling import (
    PoissonSampled,
    SampledWithoutReplacement,
    SampledWithReplacement,
)
from dpaudit.nodes import Node

if TYPE_CHECKING:
    from dpaudit.crosscheck.interchange.events import Reader, Writer

MODULE = "dp_accounting.dp_event"
UNKNOWN = {
    "UnsupportedDpEvent": "an operation that nobody described; declare it",
    "RepeatAndSelectDpEvent": "no node runs its child a random number of times; declare its "
    "guarantee as a RenyiCurve",
    "TruncatedSubsampledGaussianDpEvent": "no node truncates a Poisson sample; declare its "
    "guarantee as ProfilePoints",
}

Read: TypeAlias = Callable[[Any, "Reader"], Node]
Write: TypeAlias = Callable[[Any, list[Any], "Writer"], Any]
Fields: TypeAlias = tuple[tuple[str, str, Kind], ...]
# A node that stands for an event of certain numbers, instead of the row's own.
Special: TypeAlias = Callable[[dict[str, Any], list[Node]], Node | None]


@dataclass(frozen=True)
class Row:
    """How one event is read, and how each node that can stand for it is written."""

    event: str
    read: Read
    writes: tuple[tuple[type[Node], Write], ...] = ()


def regular(event: str, kind: type[Node], fields: Fields, special: Special) -> Row:
    """A row whose fields map one to one; a leaf is labelled after its type, a child is ``event``.

    ``special`` answers the numbers that make it another node.
    """

    def read(found: Any, reader: Reader) -> Node:
        numbers = {ours: reader.number(found, theirs, how) for theirs, ours, how in fields}
        inner = [reader.below(found.event, "")] if hasattr(found, "event") else []
        other = special(numbers, inner)
        if other is not None:
            return other
        named = {"child": inner[0]} if inner else {"label": kind.__name__.lower()}
        return kind(**named, **numbers)

    def write(node: Node, children: list[Any], writer: Writer) -> Any:
        values = {theirs: writer.number(ours, how) for theirs, ours, how in fields}
        inner = {"event": children[0]} if children else {}
        return writer.make(event, **values, **inner)

    return Row(event, read, ((kind, write),))


def _noisy(numbers: dict[str, Any], _: list[Node]) -> Node | None:
    return NO_NOISE if numbers["noise_multiplier"] == 0 else None


def _poisson(numbers: dict[str, Any], inner: list[Node]) -> Node | None:
    if numbers["rate"] == 0 or inner == [NOTHING]:
        return NOTHING
    return inner[0] if numbers["rate"] == 1 else None


def _batch(numbers: dict[str, Any], inner: list[Node]) -> Node | None:
    if numbers["batch_size"] == 0 or inner == [NOTHING]:
        return NOTHING
    return inner[0] if numbers["batch_size"] == numbers["population"] else None


def _drawn(numbers: dict[str, Any], inner: list[Node]) -> Node | None:
    return NOTHING if numbers["draws"] == 0 or inner == [NOTHING] else None


MULTIPLIER: Fields = (("noise_multiplier", "noise_multiplier", NOISE),)
SHARE: Fields = (("sampling_probability", "rate", RATE),)
BATCH: Fields = (
    ("sample_size", "batch_size", WHOLE),
    ("source_dataset_size", "population", WHOLE),
)
DRAWS: Fields = (("sample_size", "draws", WHOLE), ("source_dataset_size", "population", WHOLE))

ROWS = (
    regular("GaussianDpEvent", Gaussian, MULTIPLIER, _noisy),
    regular("LaplaceDpEvent", Laplace, MULTIPLIER, _noisy),
    regular("PoissonSampledDpEvent", PoissonSampled, SHARE, _poisson),
    regular("SampledWithoutReplacementDpEvent", SampledWithoutReplacement, BATCH, _batch),
    regular("SampledWithReplacementDpEvent", SampledWithReplacement, DRAWS, _drawn),
    Row("NoOpDpEvent", lambda event, reader: NOTHING),
    Row(
        "NonPrivateDpEvent",
        lambda event, reader: NonPrivate("a NonPrivateDpEvent"),
        ((NonPrivate, lambda node, children, writer: writer.make("NonPrivateDpEvent")),),
    ),
    Row("ComposedDpEvent", readings.composed, ((Compose, readings.composed_event),)),
    Row("SelfComposedDpEvent", readings.self_composed, ((Repeat, readings.repeated_event),)),
    Row(
        "ZCDpEvent",
        readings.zcdp,
        ((ZCDP, readings.zcdp_event), (RenyiCurve, readings.curve_event)),
    ),
    Row(
        readings.TREE,
        readings.tree,
        ((CorrelatedGaussian, readings.tree_event), (Parallel, readings.trees_event)),
    ),
    Row("MixtureOfGaussiansDpEvent", readings.mixture),
    Row(
        "DiscreteLaplaceDpEvent",
        readings.discrete_laplace,
        ((DiscreteLaplace, readings.discrete_laplace_event),),
    ),
    Row(
        "RandomizedResponseDpEvent",
        readings.response,
        ((RandomizedResponse, readings.response_event),),
    ),
)
