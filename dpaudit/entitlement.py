"""Entitlements: which releases a declaration allows, by label, and what is left of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dpaudit.noise  # noqa: F401  (registers the kernels of discrete leaves)
from dpaudit.arithmetic import enclose, is_symbolic
from dpaudit.attendance import Attendance, Round
from dpaudit.errors import InvalidParameter, Undeclared, Unsupported
from dpaudit.kernels import Kernel, kernel_of
from dpaudit.nodes import (
    Assuming,
    Compose,
    CorrelatedGaussian,
    EventSlack,
    Leaf,
    Node,
    NonPrivate,
    Parallel,
    PoissonSampled,
    Repeat,
    SampledWithoutReplacement,
)

Mask = NDArray[np.bool_]
Counts = NDArray[np.int64]
MAXIMUM_RUNS = 1_000_000
MAXIMUM_USES = 2**62
PUBLIC_COIN = "public coin"
SAMPLINGS = (PoissonSampled, SampledWithoutReplacement)


@dataclass(frozen=True)
class Run:
    """``times`` consecutive uses of one leaf: on all records or a part, or in secret batches of it.

    ``each``: how many uses of the leaf's label one batch covers.
    """

    leaf: Node
    times: int
    part: int | None = None
    sampling: Node | None = None
    each: int = 0


def runs(node: Node, part: int | None = None) -> Iterator[Run]:
    """The declared uses of every leaf, in declared order.

    Errors: InvalidParameter where a count is still symbolic, or a structure cannot be run;
    Unsupported for a combinator of which not every child may run.
    """
    if isinstance(node, NonPrivate):
        return
    if isinstance(node, Leaf):
        yield Run(node, 1, part)
    elif isinstance(node, Repeat):
        yield from _repeated(node, part)
    elif isinstance(node, SAMPLINGS):
        yield from _sampled(node, part)
    elif isinstance(node, Parallel):
        if part is not None:
            raise InvalidParameter(f"{node.head} inside a Parallel: flatten the parts to run it")
        for i, child in enumerate(node.children):
            yield from runs(child, i)
    elif isinstance(node, (Compose, Assuming, EventSlack)):
        for child in node.children:
            yield from runs(child, part)
    else:
        raise Unsupported(f"{node.head} cannot be run: curators know no such combinator")


def _repeated(node: Repeat, part: int | None) -> Iterator[Run]:
    if is_symbolic(node.times):
        raise InvalidParameter(f"{node.head}: bind its symbols to numbers before a run")
    times = int(node.times)
    if node.index is not None:
        _countable(times)
        for k in range(1, times + 1):
            yield from runs(node.child.bind({node.index: k}), part)
        return
    body = _limited(runs(node.child, part))
    if len({_label(run.leaf) for run in body}) == len(body):
        yield from (replace(run, times=run.times * times) for run in body)
    else:
        _countable(times * len(body))
        for _ in range(times):
            yield from body


def _sampled(node: Node, part: int | None) -> Iterator[Run]:
    body = _limited(runs(node.children[0]))
    if any(run.part is not None or run.sampling for run in body):
        raise InvalidParameter(f"{node.head}: parts or batches inside a batch cannot be run")
    sampling_numbers(node)
    for run in body:
        each = sum(other.times for other in body if _label(other.leaf) == _label(run.leaf))
        yield replace(run, part=part, sampling=node, each=each)


def _limited(found: Iterable[Run]) -> list[Run]:
    body = list(islice(found, MAXIMUM_RUNS + 1))
    _countable(len(body))
    return body


def _countable(count: int) -> None:
    if count > MAXIMUM_RUNS:
        raise InvalidParameter(f"the declaration unrolls to over {MAXIMUM_RUNS} runs")


def sampling_numbers(sampling: Any) -> tuple[float, ...]:
    """The rate of a Poisson sampling, or the batch size and the population, as floats.

    Errors: InvalidParameter where they are still symbolic.
    """
    if isinstance(sampling, PoissonSampled):
        return (float(enclose(sampling.rate).mid()),)
    return tuple(float(enclose(n).mid()) for n in (sampling.batch_size, sampling.population))


@dataclass
class Entitlement:
    """The uses one label may make, in declared order, and how many each trial has made.

    ``position`` (trials,) is the next use; ``limit`` the end of the uses that are open: all of
    them, or those of the batch that was drawn last.  Uses that a batch left are forfeited.
    """

    label: str
    runs: list[Run]
    kernel: type[Kernel]
    starts: Counts
    ends: Counts
    multipliers: NDArray[np.float64]
    made: Counts
    position: Counts
    limit: int
    attendance: Attendance = field(default_factory=Attendance)

    @property
    def total(self) -> int:
        """Releases the declaration allows under this label."""
        return int(self.ends[-1])

    @property
    def each(self) -> int:
        """Releases one secret batch covers; 0 on all records or a part."""
        return self.runs[0].each * self.kernel.releases(self.runs[0].leaf)

    def open_batch(self, index: int) -> None:
        """Open the uses of batch number ``index``, and no others."""
        self.position[:] = index * self.each
        self.limit = (index + 1) * self.each


@dataclass(frozen=True)
class Grant:
    """What one release may do: kernel, noise multiplier per trial, and on which rows."""

    entitlement: Entitlement
    multipliers: NDArray[np.float64]
    leaf: Node
    sampling: Node | None
    first_use: bool
    round: Round


class Entitlements:
    """All labels of a declaration; refuses what was not declared or is used up."""

    def __init__(self, declaration: Node, trials: int) -> None:
        by_label: dict[str, list[Run]] = {}
        for run in _limited(runs(declaration)):
            by_label.setdefault(_label(run.leaf), []).append(run)
        self._labels = {k: _entitlement(k, v, trials) for k, v in by_label.items()}
        self._batches: dict[tuple[Node, int | None], int] = {}

    def __iter__(self) -> Iterator[Entitlement]:
        return iter(self._labels.values())

    def grant(self, label: str, on: Mask, part: int | None, sampling: Node | None) -> Grant:
        """Permission for one release; nothing is used up until :meth:`spend`.

        Errors: Undeclared for a label, part or batch that was not declared, or is used up; for
        rows that took part in more rounds than was declared, or in one too close.
        """
        entitlement = self._find(label)
        _same_rows(label, entitlement.runs[0], part, sampling)
        position = entitlement.position
        if (position >= entitlement.limit)[on].any():
            raise Undeclared(_spent(entitlement))
        index = np.searchsorted(entitlement.ends, position, side="right")
        first = int(np.argmax(on))
        run, start = entitlement.runs[index[first]], entitlement.starts[index[first]]
        into = int(position[first] - start) % entitlement.kernel.releases(run.leaf)
        asked = Round(label, into + 1, part)
        entitlement.attendance.check(run.leaf, asked)
        multipliers = entitlement.multipliers[index]
        return Grant(entitlement, multipliers, run.leaf, sampling, into == 0, asked)

    def spend(self, grant: Grant, on: Mask) -> None:
        """Count one use in the trials that are on."""
        grant.entitlement.position += on
        grant.entitlement.made += on
        grant.entitlement.attendance.add(grant.round)

    def forfeit(self, label: str) -> None:
        """Give up the uses left, where a kernel's memory has a hole: its query gave no value."""
        entitlement = self._find(label)
        if entitlement.kernel.memory:
            entitlement.position[:] = entitlement.limit

    def counts(self) -> Mapping[str, tuple[int, int, int]]:
        """Per label: declared uses, and the fewest and most made by a trial."""
        return {e.label: (e.total, int(e.made.min()), int(e.made.max())) for e in self}

    def samplings(self) -> set[Node]:
        """The samplings of all labels that are released on secret batches of all records."""
        found = (e.runs[0] for e in self)
        return {r.sampling for r in found if r.sampling is not None and r.part is None}

    def sampling_of(self, label: str, part: int | None = None) -> Node:
        """The sampling declared above a label on these rows.

        Errors: Undeclared where there is none.
        """
        run = self._find(label).runs[0]
        if run.sampling is None:
            raise Undeclared(f"{label!r} is not declared under a sampling: release it on all rows")
        _same_rows(label, run, part, run.sampling)
        return run.sampling

    def open_batch(self, label: str, part: int | None = None) -> Node:
        """Use up one batch of the sampling above a label, for every label below that sampling.

        ``part``: the part of the records that the batch is drawn from.
        Errors: Undeclared as :meth:`sampling_of`, or where all its batches were drawn.
        """
        sampling, asked = self.sampling_of(label, part), self._find(label)
        index = self._batches.get((sampling, part), 0)
        if index * asked.each >= asked.total:
            raise Undeclared(f"batch of {label!r}: all {index} declared batches were drawn")
        self._batches[sampling, part] = index + 1
        for entitlement in self:
            if (entitlement.runs[0].sampling, entitlement.runs[0].part) == (sampling, part):
                entitlement.open_batch(index)
        return sampling

    def _find(self, label: str) -> Entitlement:
        if label not in self._labels:
            known = ", ".join(sorted(self._labels)) or "none"
            raise Undeclared(f"release {label!r} was not declared; declared labels: {known}")
        return self._labels[label]


def _spent(entitlement: Entitlement) -> str:
    if entitlement.each and entitlement.limit < entitlement.total:
        return (
            f"release {entitlement.label!r}: the {entitlement.each} uses declared for one batch "
            "are spent; draw the next batch"
        )
    return (
        f"release {entitlement.label!r}: all {entitlement.total} declared uses are spent; "
        "declare more"
    )


def _label(leaf: Node) -> str:
    label: Any = leaf.parameters.get("label")
    if not label:
        raise InvalidParameter(f"{leaf.head} has no label: a run needs one to release it by")
    if label == PUBLIC_COIN:
        raise InvalidParameter(f"label {label!r} is kept for public coins: rename the release")
    return str(label)


def _entitlement(label: str, found: list[Run], trials: int) -> Entitlement:
    kernel = kernel_of(found[0].leaf)
    if any(type(run.leaf) is not type(found[0].leaf) for run in found):
        raise InvalidParameter(f"label {label!r} is declared with different kinds of noise")
    if any(_rows(run) != _rows(found[0]) for run in found):
        raise InvalidParameter(f"label {label!r} is declared on different rows: rename one")
    if any(_kept(run.leaf) != _kept(found[0].leaf) for run in found) and any(
        kernel.releases(run.leaf) == 1 for run in found
    ):
        # Trials can be at different uses, and share the session of one leaf.
        raise InvalidParameter(f"label {label!r} is declared with different parameters: rename one")
    kept = [run for run in found if run.times > 0] or [replace(found[0], times=0)]
    sizes = [run.times * kernel.releases(run.leaf) for run in kept]
    if sum(sizes) > MAXIMUM_USES:
        raise InvalidParameter(f"label {label!r}: over {MAXIMUM_USES} uses are declared")
    ends = np.cumsum(np.array(sizes, dtype=np.int64))
    return Entitlement(
        label=label,
        runs=kept,
        kernel=kernel,
        starts=ends - np.array(sizes, dtype=np.int64),
        ends=ends,
        # One more, for trials that are off because their uses are spent.
        multipliers=np.array([_multiplier(kernel, run.leaf) for run in kept] + [np.nan]),
        made=np.zeros(trials, dtype=np.int64),
        position=np.zeros(trials, dtype=np.int64),
        limit=0 if found[0].sampling else int(ends[-1]),
    )


def _multiplier(kernel: type[Kernel], leaf: Node) -> float:
    multiplier = kernel.multiplier(leaf)
    if not 0 < multiplier < np.inf:
        raise InvalidParameter(f"{leaf.head}: its noise is no positive, finite float64")
    return multiplier


def _kept(leaf: Node) -> dict[str, Any]:
    """What a session keeps from its leaf: all but the noise multiplier, which is asked each use."""
    return {k: v for k, v in leaf.parameters.items() if k != "noise_multiplier"}


def _rows(run: Run) -> tuple[int | None, Node | None, int]:
    return run.part, run.sampling, run.each


def _same_rows(label: str, run: Run, part: int | None, sampling: Node | None) -> None:
    # Rounds of correlated noise may be on rows of their own: Attendance counts them.
    anywhere = isinstance(run.leaf, CorrelatedGaussian) and run.part is None
    if run.part != part and not anywhere:
        declared = "all records" if run.part is None else f"part {run.part}"
        asked = "all records" if part is None else f"part {part}"
        raise Undeclared(f"release {label!r} on {asked}: it was declared on {declared}")
    if run.sampling != sampling:
        raise Undeclared(
            f"release {label!r}: declared {'on a secret batch' if run.sampling else 'on all rows'},"
            f" asked {'on a secret batch' if sampling else 'on all rows'}"
        )
