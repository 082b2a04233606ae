"""Entitlements: which releases a declaration allows, by label, and what is left of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.accountant.filters.spending import Mask, Spending
from dpaudit.curator.participation import Participations, Round
from dpaudit.curator.uses import (
    MAXIMUM_USES,
    PUBLIC_COIN,
    Run,
    grouped,
    label_of,
    limited,
    runs,
)
from dpaudit.errors import InvalidParameter, Undeclared, Unsupported
from dpaudit.families.correlated import CorrelatedGaussian
from dpaudit.kernels.base import Kernel, kernel_of
from dpaudit.kernels.batches import batches_of
from dpaudit.nodes import Node

__all__ = [
    "PUBLIC_COIN",
    "Entitlements",
    "Grant",
    "Mask",
    "runs",
]

Counts = NDArray[np.int64]


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
    participations: Participations = field(default_factory=Participations)

    @property
    def total(self) -> int:
        """Releases the declaration allows under this label."""
        return int(self.ends[-1])

    @property
    def declared_uses(self) -> int | None:
        """Uses declared; None under a filter; those made, where answers cost nothing."""
        if self.runs[0].under:
            return None
        return int(self.made.max()) if getattr(self.kernel, "endless", False) else self.total

    @property
    def each(self) -> int:
        """Releases one secret batch covers; 0 on all records or a part."""
        if self.within_use:
            return 1
        return self.runs[0].each * self.kernel.releases(self.runs[0].leaf)

    @property
    def within_use(self) -> bool:
        """Whether a batch covers one release of a use that goes on."""
        sampling = self.runs[0].sampling
        return sampling is not None and batches_of(sampling).within_use

    def open_batch(self, index: int) -> None:
        """Open the uses of batch number ``index``, and no others."""
        self.position[:] = index * self.each
        self.limit = (index + 1) * self.each


@dataclass(frozen=True)
class Grant:
    """The permission for one release: kernel, noise multiplier per trial, and rows."""

    entitlement: Entitlement
    multipliers: NDArray[np.float64]
    leaf: Node
    sampling: Node | None
    first_use: bool
    round: Round
    spending: Spending | None = None


class Entitlements:
    """All labels of a declaration; refuses what was not declared or is used up."""

    def __init__(self, declaration: Node, trials: int) -> None:
        by_label: dict[str, list[Run]] = {}
        for run in limited(runs(grouped(declaration)[0])):
            by_label.setdefault(label_of(run.leaf), []).append(run)
        self._labels = {k: _entitlement(k, v, trials) for k, v in by_label.items()}
        self._batches: dict[tuple[Node, int | None], int] = {}
        filters = {run.under: None for e in self for run in e.runs if run.under is not None}
        self._spending = {node: Spending(node, trials) for node in filters}

    def __iter__(self) -> Iterator[Entitlement]:
        return iter(self._labels.values())

    def grant(
        self,
        label: str,
        on: Mask,
        part: int | None,
        sampling: Node | None,
        chosen: NDArray[np.float64] | None = None,
        *,
        search: bool = False,
    ) -> Grant:
        """Permission for one release; nothing is used up until :meth:`spend`.

        ``chosen``: the noise multiplier of each trial, under a filter and only there.
        ``search``: whether a search is asked for, which no release is.
        Errors: Undeclared for a label, part or batch that was not declared, or is used up; for
        rows that took part in more rounds than was declared, or in one too close; InvalidParameter
        for a noise that is chosen and must not be, or is not and must.
        """
        entitlement = self._find(label)
        _same_rows(label, entitlement.runs[0], part, sampling)
        _chosen_where_it_must_be(entitlement, chosen, on)
        if entitlement.kernel.searches and not search:
            raise Undeclared(
                f"release {label!r}: it is declared inside a search; ask for it in a run that "
                "best_of makes"
            )
        if search and not entitlement.kernel.searches:
            raise Undeclared(f"best_of({label!r}): no search is declared under this label")
        position = entitlement.position
        if (position >= entitlement.limit)[on].any():
            raise Undeclared(_spent(entitlement))
        index = np.searchsorted(entitlement.ends, position, side="right")
        first = int(np.argmax(on))
        run, start = entitlement.runs[index[first]], entitlement.starts[index[first]]
        into = int(position[first] - start) % entitlement.kernel.releases(run.leaf)
        round_asked = Round(label, into + 1, part)
        if not entitlement.within_use:
            entitlement.participations.check(run.leaf, round_asked)
        elif (entitlement.made != position)[on].any():
            raise Undeclared(
                f"release {label!r}: an earlier round was left out; its rounds share noise, so "
                "every batch needs its release"
            )
        multipliers = entitlement.multipliers[index] if chosen is None else chosen
        spending = None if run.under is None else self._spending[run.under]
        return Grant(entitlement, multipliers, run.leaf, sampling, into == 0, round_asked, spending)

    def admits(self, label: str, multipliers: NDArray[np.float64], on: Mask) -> Mask:
        """The trials in which a release under a filter would fit; nothing is spent.

        Errors: Undeclared for a label that is not declared; InvalidParameter for one that is under
        no filter.
        """
        run, spending = self._filtered(label)
        return spending.admits(run.leaf, multipliers, on)

    def spent(self, label: str, trial: int = 0) -> Fraction:
        """The charges to the filter of a label in one trial: an odometer, never a guarantee.

        In the filter's own sums: epsilon, rho, or mu^2.
        Errors: as :meth:`admits`; InvalidParameter for a trial that there is not.
        """
        _, spending = self._filtered(label)
        if not 0 <= trial < len(self._labels[label].made):
            raise InvalidParameter(f"trial = {trial}: there are {len(self._labels[label].made)}")
        return spending.spent(trial)

    def _filtered(self, label: str) -> tuple[Run, Spending]:
        run = self._find(label).runs[0]
        if run.under is None:
            raise InvalidParameter(f"{label!r} is declared under no Filter: it has no cap to ask")
        return run, self._spending[run.under]

    def spend(self, grant: Grant, on: Mask) -> None:
        """Count one use in the trials that are on, and charge it to its filter.

        Errors: Undeclared where a filter has not enough left in some trial; then nothing is spent.
        """
        if grant.spending is not None:
            grant.spending.spend(grant.round.label, grant.leaf, grant.multipliers, on)
        grant.entitlement.position += on
        grant.entitlement.made += on
        grant.entitlement.participations.add(grant.round)

    def forfeit(self, label: str) -> None:
        """Give up the uses left, where a kernel's memory has a hole: its query gave no value."""
        entitlement = self._find(label)
        if entitlement.kernel.memory:
            entitlement.position[:] = entitlement.limit

    def counts(self) -> Mapping[str, tuple[int | None, int, int]]:
        """Per label: declared uses (None under a filter), the fewest and most made by a trial."""
        return {e.label: (e.declared_uses, int(e.made.min()), int(e.made.max())) for e in self}

    def samplings(self) -> set[Node]:
        """The samplings of all labels that are released on secret batches of all records."""
        first_runs = (e.runs[0] for e in self)
        return {r.sampling for r in first_runs if r.sampling is not None and r.part is None}

    def sampling_of(self, label: str, part: int | None = None) -> Node:
        """The sampling declared above a label on these rows.

        Errors: Undeclared where there is none.
        """
        run = self._find(label).runs[0]
        if run.sampling is None:
            raise Undeclared(f"{label!r} is not declared under a sampling: release it on all rows")
        _same_rows(label, run, part, run.sampling)
        return run.sampling

    def open_batch(self, label: str, part: int | None = None) -> tuple[Node, int]:
        """Use up one batch of the sampling above a label, for every label below that sampling.

        ``part``: the part of the records that the batch is drawn from.  Returns the sampling, and
        which of its batches this is, from 0.
        Errors: Undeclared as :meth:`sampling_of`, or where all its batches were drawn.
        """
        sampling, granted = self.sampling_of(label, part), self._find(label)
        index = self._batches.get((sampling, part), 0)
        if index * granted.each >= granted.total:
            raise Undeclared(f"batch of {label!r}: all {index} declared batches were drawn")
        self._batches[sampling, part] = index + 1
        for entitlement in self:
            if (entitlement.runs[0].sampling, entitlement.runs[0].part) == (sampling, part):
                entitlement.open_batch(index)
        return sampling, index

    def _find(self, label: str) -> Entitlement:
        if label not in self._labels:
            labels = ", ".join(sorted(self._labels)) or "none"
            raise Undeclared(f"release {label!r} was not declared; declared labels: {labels}")
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


def _entitlement(label: str, every_run: list[Run], trials: int) -> Entitlement:
    """The entitlement of all uses of one label.

    Errors: InvalidParameter or Unsupported where the uses differ in noise, rows or parameters.
    """
    kernel = kernel_of(every_run[0].leaf)
    if any(type(run.leaf) is not type(every_run[0].leaf) for run in every_run):
        raise InvalidParameter(f"label {label!r} is declared with different kinds of noise")
    if len(every_run) > 1 and any(run.under for run in every_run):
        raise InvalidParameter(f"label {label!r} is declared twice, once in a Filter: rename one")
    if every_run[0].under and kernel.memory:
        raise Unsupported(f"{every_run[0].leaf.head}: correlated noise has no charge of its own")
    if any(_rows(run) != _rows(every_run[0]) for run in every_run):
        raise InvalidParameter(f"label {label!r} is declared on different rows: rename one")
    if any(_kept(run.leaf) != _kept(every_run[0].leaf) for run in every_run) and any(
        kernel.releases(run.leaf) == 1 for run in every_run
    ):
        # Trials can be at different uses, and share the session of one leaf.
        raise InvalidParameter(f"label {label!r} is declared with different parameters: rename one")
    runs = [run for run in every_run if run.times > 0] or [replace(every_run[0], times=0)]
    sizes = [run.times * kernel.releases(run.leaf) for run in runs]
    if sum(sizes) > MAXIMUM_USES:
        raise InvalidParameter(f"label {label!r}: over {MAXIMUM_USES} uses are declared")
    ends = np.cumsum(np.array(sizes, dtype=np.int64))
    return Entitlement(
        label=label,
        runs=runs,
        kernel=kernel,
        starts=ends - np.array(sizes, dtype=np.int64),
        ends=ends,
        # One more, for trials that are off because their uses are spent.
        multipliers=np.array([_multiplier(kernel, run) for run in runs] + [np.nan]),
        made=np.zeros(trials, dtype=np.int64),
        position=np.zeros(trials, dtype=np.int64),
        limit=0 if every_run[0].sampling else int(ends[-1]),
    )


def _multiplier(kernel: type[Kernel], run: Run) -> float:
    if run.under is not None:
        return np.nan
    multiplier = kernel.multiplier(run.leaf)
    if not 0 < multiplier < np.inf:
        raise InvalidParameter(f"{run.leaf.head}: its noise is no positive, finite float64")
    return multiplier


def _chosen_where_it_must_be(
    entitlement: Entitlement, chosen: NDArray[np.float64] | None, on: Mask
) -> None:
    label, filtered = entitlement.label, entitlement.runs[0].under is not None
    if chosen is None:
        if filtered:
            raise InvalidParameter(f"release {label!r}: under a Filter, give noise_multiplier=")
        return
    if not filtered:
        raise InvalidParameter(
            f"release {label!r}: the declaration fixes its noise; leave noise_multiplier out"
        )
    if not (np.isfinite(chosen) & (chosen > 0))[on].all():
        raise InvalidParameter(
            f"release {label!r}: noise_multiplier is not a positive, finite number in a trial that "
            "is on"
        )


def _kept(leaf: Node) -> dict[str, Any]:
    """A leaf's parameters that stay fixed in a session: each use has its own noise multiplier."""
    return {k: v for k, v in leaf.parameters.items() if k != "noise_multiplier"}


def _rows(run: Run) -> tuple[int | None, Node | None, int]:
    return run.part, run.sampling, run.each


def _same_rows(label: str, run: Run, part: int | None, sampling: Node | None) -> None:
    # Rounds of correlated noise may be on rows of their own: Participations counts them.
    anywhere = isinstance(run.leaf, CorrelatedGaussian) and run.part is None
    if run.part != part and not anywhere:
        declared = "all records" if run.part is None else f"part {run.part}"
        rows_asked = "all records" if part is None else f"part {part}"
        raise Undeclared(f"release {label!r} on {rows_asked}: it was declared on {declared}")
    if run.sampling != sampling:
        raise Undeclared(
            f"release {label!r}: declared {'on a secret batch' if run.sampling else 'on all rows'},"
            f" asked {'on a secret batch' if sampling else 'on all rows'}"
        )
