"""Entitlements: which releases a declaration allows, by label, and what is left of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.arithmetic import is_symbolic
from dpaudit.errors import InvalidParameter, Undeclared
from dpaudit.kernels import Kernel, kernel_of
from dpaudit.nodes import (
    Leaf,
    Node,
    NonPrivate,
    Parallel,
    PoissonSampled,
    Repeat,
    SampledWithoutReplacement,
)

Mask = NDArray[np.bool_]
MAXIMUM_RUNS = 1_000_000


@dataclass(frozen=True)
class Run:
    """``times`` consecutive uses of one leaf, on one part of the records or one secret batch."""

    leaf: Node
    times: int
    part: int | None = None
    sampling: Node | None = None


def runs(node: Node, part: int | None = None, sampling: Node | None = None) -> Iterator[Run]:
    """The declared uses of every leaf, in declared order.

    Errors: InvalidParameter where a count is still symbolic, or a structure cannot be run.
    """
    if isinstance(node, NonPrivate):
        return
    if isinstance(node, Leaf):
        yield Run(node, 1, part, sampling)
    elif isinstance(node, Repeat):
        yield from _repeated(node, part, sampling)
    elif isinstance(node, Parallel):
        if part is not None:
            raise InvalidParameter(f"{node.head} inside a Parallel: flatten the parts to run it")
        for i, child in enumerate(node.children):
            yield from runs(child, i, sampling)
    elif isinstance(node, (PoissonSampled, SampledWithoutReplacement)):
        if sampling is not None:
            raise InvalidParameter(f"{node.head} inside another sampling: cannot be run")
        yield from runs(node.child, part, node)
    else:
        for child in node.children:
            yield from runs(child, part, sampling)


def _repeated(node: Repeat, part: int | None, sampling: Node | None) -> Iterator[Run]:
    if is_symbolic(node.times):
        raise InvalidParameter(f"{node.head}: bind its symbols to numbers before a run")
    times = int(node.times)
    if node.index is not None:
        for k in range(1, times + 1):
            yield from runs(node.child.bind({node.index: k}), part, sampling)
        return
    body = list(runs(node.child, part, sampling))
    if len({run.leaf.parameters["label"] for run in body if "label" in run.leaf.parameters}) == len(
        body
    ):
        yield from (Run(r.leaf, r.times * times, r.part, r.sampling) for r in body)
    else:
        for _ in range(times):
            yield from body


@dataclass
class Entitlement:
    """The uses one label may make, in declared order, and how many each trial has made."""

    label: str
    runs: list[Run]
    kernel: type[Kernel]
    used: NDArray[np.int64]
    ends: NDArray[np.int64]
    multipliers: NDArray[np.float64]

    @property
    def total(self) -> int:
        """Releases the declaration allows under this label."""
        return int(self.ends[-1])


@dataclass(frozen=True)
class Grant:
    """What one release may do: kernel, noise multiplier per trial, and on which rows."""

    entitlement: Entitlement
    multipliers: NDArray[np.float64]
    leaf: Node
    part: int | None
    sampling: Node | None
    first_use: bool = field(default=True)


class Entitlements:
    """All labels of a declaration; refuses what was not declared or is used up."""

    def __init__(self, declaration: Node, trials: int) -> None:
        by_label: dict[str, list[Run]] = {}
        for count, run in enumerate(runs(declaration)):
            if count > MAXIMUM_RUNS:
                raise InvalidParameter(f"the declaration unrolls to over {MAXIMUM_RUNS} runs")
            by_label.setdefault(_label(run.leaf), []).append(run)
        self._labels = {k: _entitlement(k, v, trials) for k, v in by_label.items()}

    def __iter__(self) -> Iterator[Entitlement]:
        return iter(self._labels.values())

    def grant(self, label: str, on: Mask, part: int | None, sampling: Node | None) -> Grant:
        """Permission for one release; nothing is used up until :meth:`spend`.

        Errors: Undeclared for a label, part or batch that was not declared, or is used up.
        """
        entitlement = self._find(label)
        used = np.where(on, entitlement.used, 0)
        if (used >= entitlement.total).any():
            raise Undeclared(
                f"release {label!r}: all {entitlement.total} declared uses are spent; declare more"
            )
        index = np.searchsorted(entitlement.ends, used, side="right")
        run = entitlement.runs[int(index[int(np.argmax(on))])]
        _same_rows(label, run, part, sampling)
        start = int(used[int(np.argmax(on))]) % entitlement.kernel.releases(run.leaf) == 0
        return Grant(entitlement, entitlement.multipliers[index], run.leaf, part, sampling, start)

    def spend(self, grant: Grant, on: Mask) -> None:
        """Count one use in the trials that are on."""
        grant.entitlement.used += on

    def counts(self) -> Mapping[str, tuple[int, int, int]]:
        """Per label: declared uses, and the fewest and most made by a trial."""
        return {e.label: (e.total, int(e.used.min()), int(e.used.max())) for e in self}

    def sampling_of(self, label: str) -> Node:
        """The sampling node above a label.

        Errors: Undeclared where the label is not declared under a secret batch.
        """
        sampling = self._find(label).runs[0].sampling
        if sampling is None:
            raise Undeclared(f"{label!r} is not declared under a sampling: release it on all rows")
        return sampling

    def _find(self, label: str) -> Entitlement:
        if label not in self._labels:
            known = ", ".join(sorted(self._labels)) or "none"
            raise Undeclared(f"release {label!r} was not declared; declared labels: {known}")
        return self._labels[label]


def _label(leaf: Node) -> str:
    label: Any = leaf.parameters.get("label")
    if not label:
        raise InvalidParameter(f"{leaf.head} has no label: a run needs one to release it by")
    return str(label)


def _entitlement(label: str, found: list[Run], trials: int) -> Entitlement:
    kernel = kernel_of(found[0].leaf)
    if any(type(run.leaf) is not type(found[0].leaf) for run in found):
        raise InvalidParameter(f"label {label!r} is declared with different kinds of noise")
    if any((run.part, run.sampling) != (found[0].part, found[0].sampling) for run in found):
        raise InvalidParameter(f"label {label!r} is declared on different rows: rename one")
    sizes = [run.times * kernel.releases(run.leaf) for run in found]
    kept = [(r, s) for r, s in zip(found, sizes, strict=True) if s > 0] or [(found[0], 0)]
    return Entitlement(
        label=label,
        runs=[r for r, _ in kept],
        kernel=kernel,
        used=np.zeros(trials, dtype=np.int64),
        ends=np.cumsum([s for _, s in kept]),
        multipliers=np.array([kernel.multiplier(r.leaf) for r, _ in kept] + [np.nan]),
    )


def _same_rows(label: str, run: Run, part: int | None, sampling: Node | None) -> None:
    if run.part != part:
        declared = "all records" if run.part is None else f"part {run.part}"
        asked = "all records" if part is None else f"part {part}"
        raise Undeclared(f"release {label!r} on {asked}: it was declared on {declared}")
    if run.sampling != sampling:
        raise Undeclared(
            f"release {label!r}: declared {'on a secret batch' if run.sampling else 'on all rows'},"
            f" asked {'on a secret batch' if sampling else 'on all rows'}"
        )
