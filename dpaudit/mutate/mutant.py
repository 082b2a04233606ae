"""What a mutant is, and what is known of the program that it is planted in."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from dpaudit.audit.graybox import HOSTILE, Asked, Inspection, inspect_program
from dpaudit.audit.graybox.checks import RECORDS
from dpaudit.audit.graybox.hostile import Make
from dpaudit.audit.suite import Suite
from dpaudit.curator.entitlement import runs
from dpaudit.curator.mechanism import Mechanism
from dpaudit.nodes import Node

FAMILIES = (
    "sensitivity",
    "scale",
    "composition",
    "clipping",
    "sampling",
    "random_number",
    "off_by_one",
    "source",
)


class Planted(NamedTuple):
    """A mechanism and its suite with a bug in one of them."""

    mechanism: Mechanism
    suite: Suite


@dataclass(frozen=True, eq=False)
class Mutant:
    """One planted bug: ``name`` is unique in its target, ``where`` a line, ``what`` a sentence.

    ``plant`` opens the mutant; leaving the context takes the bug out again.
    ``private``: whether the bug sits where records are seen, noise is drawn or declared; a bug
    elsewhere changes public code only.
    """

    name: str
    family: str
    what: str
    where: str
    plant: Callable[[], AbstractContextManager[Planted]]
    private: bool = True


@dataclass(frozen=True, eq=False)
class Site:
    """The releases of one label: the leaf, a query as the program asked for it, and how many."""

    label: str
    place: str
    leaf: Node
    asked: Asked
    uses: int


@dataclass(frozen=True, eq=False)
class Survey:
    """The unchanged target: its releases, what gray-box checks say, and how long they took.

    ``hostile``: empty where the target's own queries keep their bound on some domain only.
    """

    mechanism: Mechanism
    suite: Suite
    sites: tuple[Site, ...]
    inspection: Inspection
    hostile: Mapping[str, Make]
    seconds: float

    @property
    def first_place(self) -> str:
        """The line of the first release; empty if there is none."""
        return self.sites[0].place if self.sites else ""

    def planted(self, **changes: Any) -> Planted:
        """The target with a changed suite."""
        return Planted(self.mechanism, replace(self.suite, **changes))


def survey(mechanism: Mechanism, suite: Suite, seed: int, error: float) -> Survey:
    """Run the unchanged target once, watched.

    Errors: as :func:`dpaudit.audit.graybox.inspect_program`.
    """
    started = time.perf_counter()
    hostile = HOSTILE
    inspection = inspect_program(mechanism, suite, seed=seed, error=error)
    if inspection.broken and all(f.check == RECORDS for f in inspection.broken):
        hostile = {}
        inspection = inspect_program(mechanism, suite, seed=seed, error=error, hostile=hostile)
    seconds = time.perf_counter() - started
    leaves: dict[str, Node] = {}
    uses: dict[str, int] = {}
    for run in runs(mechanism.declaration):
        label = str(run.leaf.parameters["label"])
        leaves.setdefault(label, run.leaf)
        uses[label] = uses.get(label, 0) + run.times
    first: dict[str, Asked] = {}
    for asked in inspection.asked:
        first.setdefault(asked.label, asked)
    sites = tuple(
        Site(label, asked.place, leaves[label], asked, uses[label])
        for label, asked in first.items()
        if label in leaves
    )
    return Survey(mechanism, suite, sites, inspection, hostile, seconds)


@contextmanager
def ready(planted: Planted) -> Iterator[Planted]:
    """A mutant that needs no cleaning up."""
    yield planted


def signature(value: Any) -> float:
    """One number of a noise-free value: what a peeking program would look at."""
    flat = np.nan_to_num(np.asarray(value, dtype=np.float64)).reshape(-1)
    return float(flat @ np.cos(1.0 + np.arange(flat.size)))
