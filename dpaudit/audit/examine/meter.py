"""How much an examination may do, counted in work, so that it is the same on every machine."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from dpaudit.kernels.query import FEW_KINDS, ClippedMean, Records

LIMIT = 200_000_000  # numbers read: a second or two of NumPy
EVALUATION = 20_000  # numbers that as long is spent on as on asking a query at all


@dataclass
class Meter:
    """Numbers read by the queries that an examination asked.

    ``until``: the last resort, in seconds of ``time.process_time``: queries can be slow in ways
    that no count tells.  ``timed``: whether it came to that, and what was tried depends on the
    machine.
    """

    until: float
    limit: float = LIMIT
    spent: float = 0.0
    timed: bool = False

    def add(self, query: Any, records: Records, trials: int = 1) -> None:
        """One query evaluated."""
        numbers = records.values.size
        if isinstance(query, ClippedMean):
            # Equal records are looked at once.
            numbers = min(len(records), FEW_KINDS) * records.values[0].size
        self.spent += EVALUATION + trials * numbers

    def beyond(self, most: float) -> bool:
        """Whether so much work is done, or the time is over."""
        if time.process_time() > self.until:
            self.timed = True
        return self.timed or self.spent > most

    def after(self, share: float) -> bool:
        """Whether a share of the work is done, or the time is over."""
        return self.beyond(share * self.limit)
