"""Who took part in which rounds of a correlated release, held against what was declared."""

from __future__ import annotations

from dataclasses import dataclass, field

from dpaudit.errors import Undeclared
from dpaudit.families.correlated import CorrelatedGaussian
from dpaudit.nodes import Node


@dataclass(frozen=True)
class Round:
    """One round of a label, from 1, and the part that takes part in it; None for all records."""

    label: str
    number: int
    part: int | None

    def __str__(self) -> str:
        rows = "all records" if self.part is None else f"part {self.part}"
        return f"release {self.label!r} on {rows} in round {self.number}"


@dataclass
class Participations:
    """In how many rounds of a leaf's current use each part took part, and in which one last.

    ``rounds``: (how many, the last) by part; under None those on all records, in which every part
    took part.  Parts are disjoint, and each record is in one.
    """

    rounds: dict[int | None, tuple[int, int]] = field(default_factory=dict)

    def check(self, leaf: Node, asked: Round) -> None:
        """Errors: Undeclared for a round beyond the participation that ``leaf`` declares."""
        if asked.number == 1 or not isinstance(leaf, CorrelatedGaussian):
            return
        who = leaf.participation
        # The most rounds a record of these rows took part in, and the latest of them.
        common, latest = self.rounds.get(None, (0, 0))
        parts = (
            [asked.part] if asked.part is not None else [p for p in self.rounds if p is not None]
        )
        rounds = [self.rounds.get(p, (0, 0)) for p in parts]
        most = max((times for times, _ in rounds), default=0)
        times, last = common + most, max(latest, *(last for _, last in rounds), 0)
        if times >= who.at_most or (times and asked.number - last < who.separation):
            raise Undeclared(
                f"{asked}: a record of it took part in {times} round{'s'[: times > 1]}, the last "
                f"is round {last}; the declared participation is {who}"
            )

    def add(self, asked: Round) -> None:
        """The rows of a release took part in its round; round 1 begins a new use."""
        if asked.number == 1:
            self.rounds = {}
        times, _ = self.rounds.get(asked.part, (0, 0))
        self.rounds[asked.part] = (times + 1, asked.number)
