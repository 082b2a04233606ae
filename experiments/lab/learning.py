"""The distance to not learning at all: what a method ends with beside what it began with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from experiments.lab.model import Check, Table

TITLE = "Distance to not learning at all"
BAND = "what is not below its start has learnt nothing"
BELOW = math.nextafter(1.0, 0.0)


@dataclass(frozen=True)
class Learnt:
    """A method on an instance: its ``value`` (less is better), and that of its data-free start.

    ``error``: a standard error of the value.
    """

    method: str
    value: float
    start: float
    error: float = 0.0

    @property
    def share(self) -> float:
        """The share of the start's value that is left: 1 is no learning, above it harm."""
        return self.value / self.start


def learning_table(rows: Sequence[Learnt], what: str) -> Table:
    """One row a method: its value, the start's, and what is left of it."""
    columns = ("method", what, "of its start", "share left", "standard error")
    found = [(r.method, r.value, r.start, r.share, r.error) for r in rows]
    return Table(TITLE, columns, tuple(found))


def learning_checks(rows: Sequence[Learnt]) -> list[Check]:
    """One check a method, which fails where it does not end below its start."""
    return [
        Check(
            f"{row.method}: share of its start's value that is left",
            row.share,
            upper=BELOW,
            margin=2 * row.error / row.start,
            source=BAND,
        )
        for row in rows
    ]
