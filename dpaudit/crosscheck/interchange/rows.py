"""One row for each event of dp-accounting: the node it is, and how the fields of the two map.

A regular row lists (event's field, node's field, kind); what needs more has functions of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from dpaudit.crosscheck.interchange import readings
from dpaudit.crosscheck.interchange.kinds import NO_NOISE, NOISE, NOTHING, RATE, WHOLE, Kind
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.batches import TruncatedPoisson
from dpaudit.families.composition import Compose, Parallel, Repeat
from dpaudit.families.correlated import CorrelatedGaussian
from dpaudit.families.discrete import DiscreteLaplace, RandomizedResponse
from dpaudit.families.opaque import ZCDP, MixtureOfGaussians, NonPrivate, RenyiCurve
from dpaudit.families.sampling import (
    PoissonSampled,
    SampledWithoutReplacement,
    SampledWithReplacement,
)
from dpaudit.families.tuning import Tuned, TunedPoisson
from dpaudit.nodes import Leaf, Node

if TYPE_CHECKING:
    from dpaudit.crosscheck.interchange.events import Reader, Writer

MODULE = "dp_accounting.dp_event"
# Every node that no row writes, and what of it an event of dp-accounting cannot say.  A new node
# belongs here or in a row, and may read an event that OBSTACLES refuses.
WITHOUT_EVENT = {
    name: why
    for why, names in {
        "a guarantee of another kind than zCDP": "PureDP ApproxDP GDP RenyiDP ProfilePoints Laws",
        "discrete noise other than Laplace's": "DiscreteGaussian TruncatedDiscreteLaplace "
        "DiscreteGaussianVector DistributedGaussian DistributedSkellam DistributedGaussianVector "
        "DistributedSkellamVector",
        "continuous noise of another law": "Staircase StudentT TruncatedLaplace Tulap",
        "a choice or a test by noisy scores": "ExponentialMechanism IntegerExponentialMechanism "
        "ReportNoisyMax AboveThreshold NoisyComparisons ThresholdedDiscreteLaplace "
        "ThresholdedDiscreteGaussian",
        "a test of the data before the release": "EventSlack ProposeTestRelease StableRelease "
        "CoupledGaussian Assuming",
        "a choice between declarations": "Select Filter",
        "several records of one unit": "Group",
        "a sensitivity of each record": "IndividualGaussian",
        "the last output alone": "LastIterate SampledLastIterate",
        "batches that are not drawn anew each time": "CyclicBatches ShuffledBatches "
        "RandomAllocation CyclicPoisson",
        "reports of single records": "SubsetResponse Shuffled",
    }.items()
    for name in names.split()
}

Read: TypeAlias = Callable[[Any, "Reader"], Node]
Write: TypeAlias = Callable[[Any, list[Any], "Writer"], Any]
Fields: TypeAlias = tuple[tuple[str, str, Kind], ...]
# A node that stands for an event of certain numbers, instead of the row's own.
Special: TypeAlias = Callable[[dict[str, Any], list[Node]], Node | None]


@dataclass(frozen=True)
class Row:
    """How one event is read, and how each node that can stand for it is written.

    ``fields``: all that the event has, in its own order; ``preset``: those that it may lack.
    """

    event: str
    fields: tuple[str, ...]
    read: Read
    writes: tuple[tuple[type[Node], Write], ...] = ()
    preset: Mapping[str, Any] = field(default_factory=dict)


def regular(event: str, kind: type[Node], fields: Fields, special: Special) -> Row:
    """A row whose fields map one to one; a leaf is labelled after its type, a child is ``event``.

    The child is the event's last field.

    ``special`` answers the numbers that make it another node.
    """

    def read(event: Any, reader: Reader) -> Node:
        numbers = {ours: reader.number(event, theirs, how) for theirs, ours, how in fields}
        inner = [] if issubclass(kind, Leaf) else [reader.below(event.event, "")]
        other = special(numbers, inner)
        if other is not None:
            return other
        named = {"child": inner[0]} if inner else {"label": kind.__name__.lower()}
        return kind(**named, **numbers)

    def write(node: Node, children: list[Any], writer: Writer) -> Any:
        values = {theirs: writer.number(ours, how) for theirs, ours, how in fields}
        inner = {"event": children[0]} if children else {}
        return writer.make(event, **values, **inner)

    leaf = issubclass(kind, Leaf)
    names = (*(theirs for theirs, _, _ in fields), *(() if leaf else ("event",)))
    return Row(event, names, read, ((kind, write),))


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


# Dp-accounting's field of a noise multiplier, and ours.
MULTIPLIER: Fields = (("noise_multiplier", "noise_multiplier", NOISE),)
SHARE: Fields = (("sampling_probability", "rate", RATE),)  # its field of a sampling rate, and ours
# Its fields of a batch of one size, and ours.
BATCH: Fields = (
    ("source_dataset_size", "population", WHOLE),
    ("sample_size", "batch_size", WHOLE),
)
# Its fields of a sample with replacement, and ours.
DRAWS: Fields = (("source_dataset_size", "population", WHOLE), ("sample_size", "draws", WHOLE))

# One row an event of dp-accounting.
ROWS = (
    regular("GaussianDpEvent", Gaussian, MULTIPLIER, _noisy),
    regular("LaplaceDpEvent", Laplace, MULTIPLIER, _noisy),
    regular("PoissonSampledDpEvent", PoissonSampled, SHARE, _poisson),
    regular("SampledWithoutReplacementDpEvent", SampledWithoutReplacement, BATCH, _batch),
    regular("SampledWithReplacementDpEvent", SampledWithReplacement, DRAWS, _drawn),
    Row("NoOpDpEvent", (), lambda event, reader: NOTHING),
    Row(
        "NonPrivateDpEvent",
        (),
        lambda event, reader: NonPrivate("a NonPrivateDpEvent"),
        ((NonPrivate, lambda node, children, writer: writer.make("NonPrivateDpEvent")),),
    ),
    Row(
        "ComposedDpEvent",
        ("events",),
        readings.composed,
        ((Compose, readings.composed_event),),
    ),
    Row(
        "SelfComposedDpEvent",
        ("event", "count"),
        readings.self_composed,
        ((Repeat, readings.repeated_event),),
    ),
    Row(
        readings.SEARCH,
        ("event", "mean", "shape"),
        readings.searched,
        ((Tuned, readings.searched_event), (TunedPoisson, readings.searched_event)),
    ),
    Row(
        readings.TRUNCATED,
        ("dataset_size", "sampling_probability", "truncated_batch_size", "noise_multiplier"),
        readings.truncated,
        ((TruncatedPoisson, readings.truncated_event),),
    ),
    Row(
        "ZCDpEvent",
        ("rho", "xi"),
        readings.zcdp,
        ((ZCDP, readings.zcdp_event), (RenyiCurve, readings.curve_event)),
        {"xi": 0},
    ),
    Row(
        readings.TREE,
        ("noise_multiplier", "step_counts"),
        readings.tree,
        ((CorrelatedGaussian, readings.tree_event), (Parallel, readings.trees_event)),
    ),
    Row(
        "MixtureOfGaussiansDpEvent",
        ("standard_deviation", "sensitivities", "sampling_probs"),
        readings.mixture,
        ((MixtureOfGaussians, readings.mixture_event),),
    ),
    Row(
        "DiscreteLaplaceDpEvent",
        ("noise_parameter", "sensitivity"),
        readings.discrete_laplace,
        ((DiscreteLaplace, readings.discrete_laplace_event),),
    ),
    Row(
        "RandomizedResponseDpEvent",
        ("noise_parameter", "num_buckets"),
        readings.response,
        ((RandomizedResponse, readings.response_event),),
    ),
)
