"""Threshold queries that are declared monotone: between neighbours all of a use move one way.

Their answers share one noisy threshold, and only where no query goes up while another goes down is
half of what each answer costs saved; each by itself may move as it states and show nothing.
Source: Lyu, Su, Li 2017, Theorem 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpaudit.audit.examine.displacement import Asking, Pairing, neighbours_at, without_row
from dpaudit.audit.examine.meter import EVALUATION
from dpaudit.audit.examine.study import Louder, asking_of
from dpaudit.curator.curator import Request
from dpaudit.curator.replayer import ROUNDING
from dpaudit.families.selection import AboveThreshold
from dpaudit.families.selection.node import Scores
from dpaudit.kernels.base import Session
from dpaudit.kernels.query import Array, Query, Records
from dpaudit.nodes import Node, postorder
from dpaudit.scope import Adjacency

TOGETHER = 60  # queries of one use that are compared
PLACES, FEWEST = (-1, 0), 8  # rows that change, and kinds of each that are tried at least
MOVES = 1e-6  # of what is stated, from which on a query moves


def one_way(declaration: Node) -> list[AboveThreshold]:
    """The threshold tests of a declaration whose queries are declared monotone."""
    tests = [node for node in postorder(declaration) if isinstance(node, AboveThreshold)]
    return [node for node in tests if node.scores is Scores.MONOTONE]


@dataclass(frozen=True, eq=False)
class Use:
    """The queries of one use of a test on the same rows, in order."""

    records: Records
    queries: list[Asking]


class Declining(Louder):
    """A run whose threshold tests say no, but for the first few times: so no use is ever over.

    Answers have some probability whatever they are.  ``yes``: how many of each label are yes;
    ``uses``: of monotone tests, by session and rows.
    """

    def __init__(self, *arguments: Any, yes: Mapping[str, int], **options: Any) -> None:
        self._yes = dict(yes)
        self._left: dict[Session, int] = {}
        self._rows_of_use: tuple[int, int] | None = None
        self.uses: dict[tuple[Session, tuple[int, int] | None], Use] = {}
        super().__init__(*arguments, **options)

    def release(self, label: str, query: Query, **options: Any) -> Array:
        rows = options.get("rows")
        block = getattr(rows, "part", rows)
        self._rows_of_use = None if block is None else (block.start, block.stop)
        return super().release(label, query, **options)

    def _answer(self, request: Request) -> Array:
        released, session = super()._answer(request), request.session
        leaf: Any = getattr(session, "leaf", None)
        if not isinstance(leaf, AboveThreshold):
            return released
        answer = np.where(request.mask[:, None], 0.0 if self.declines(request) else 1.0, np.nan)
        answer.flags.writeable = False
        self.transcript[-1] = replace(self.transcript[-1], released=answer)
        use = self.uses.setdefault((session, self._rows_of_use), Use(request.records, []))
        if leaf.scores is Scores.MONOTONE and len(use.queries) < TOGETHER:
            use.queries.append(asking_of(self.asked[-1], self.scope.adjacency, self.meter))
        return answer

    def declines(self, request: Request) -> bool:
        """Whether this answer is no."""
        answers_left = self._left.setdefault(request.session, self._yes.get(request.label, 0))
        self._left[request.session] = max(0, answers_left - 1)
        return answers_left == 0


def parted(
    use: Use, rows: Mapping[str, Array], adjacency: Adjacency, most: float
) -> tuple[str, str]:
    """The place, and what neighbours do, of two queries that they move in opposite ways; or empty.

    Neighbours differ in the last row, or the first, by rows like others and by ``rows``, in turn,
    as many as ``most`` of the work allows to try on every query.
    """
    size = len(use.records)
    if len(use.queries) < 2:
        return "", ""
    values = use.records.values
    others = {f"row {k}, again": values[k] for k in range(min(size, TOGETHER))}
    in_turn = [pair for pairs in zip(others.items(), rows.items(), strict=False) for pair in pairs]
    kinds = {**dict(in_turn), **others, **rows}
    each = len(use.queries) * (EVALUATION + values.size) * len(PLACES)
    kinds = dict(list(kinds.items())[: max(FEWEST, int(most / each))])
    for row in dict.fromkeys(place % size for place in PLACES):
        place_and_text = _apart(use.queries, neighbours_at(use.records, row, kinds, adjacency))
        if place_and_text[1]:
            return place_and_text
    return "", ""


def _apart(queries: list[Asking], pairing: Pairing) -> tuple[str, str]:
    """Place and words of a pair that moves one query of a monotone test up and another down.

    Empty texts where there is none.
    """
    first, second = np.array(pairing.pairs).T
    highest, up = np.zeros(len(first)), np.zeros(len(first), dtype=int)
    lowest, down = highest.copy(), up.copy()
    for number, asking in enumerate(queries):
        values = np.array([_value(asking, records, pairing) for records in pairing.records])
        with np.errstate(all="ignore"):
            moved = (values[first] - values[second]) / float(asking.sensitivity[0])
            sure = MOVES + ROUNDING * (np.abs(values[first]) + np.abs(values[second]))
        higher, lower = moved > np.maximum(sure, highest), moved < np.minimum(-sure, lowest)
        highest, up = np.where(higher, moved, highest), np.where(higher, number, up)
        lowest, down = np.where(lower, moved, lowest), np.where(lower, number, down)
    both = np.flatnonzero((highest > 0) & (lowest < 0))
    if not both.size:
        return "", ""
    k = int(both[0])
    name, two = (pairing.names[i] for i in pairing.pairs[k])
    text = (
        f"row {pairing.row} {name!r} against {two!r} moves query {up[k] + 1} of a monotone test up "
        f"by {highest[k]:.4g} and query {down[k] + 1} down by {-lowest[k]:.4g} times what is stated"
    )
    return queries[int(down[k])].place, text


def _value(asking: Asking, records: Records, pairing: Pairing) -> float:
    """The one number of the first trial; without its row, a batch holds all others."""
    gone = len(records) < len(pairing.records[0])
    value = without_row(asking, records) if gone else asking.value(records, pairing.row)
    return float(value[0, 0])
