"""How much an examination may do, counted in work, so that it is the same on every machine."""

from __future__ import annotations

import contextlib
import math
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpaudit.audit.examine.running import TooLong
from dpaudit.kernels.query import FEW_KINDS, Array, ClippedMean, Records

PATIENCE = 4.0  # seconds before the share of a stage is measured: the first calls compile and cache
PATIENT = 0.4  # the largest share of the seconds that this may be
LIMIT = 600_000_000  # numbers read: a few seconds of NumPy
EVALUATION = 20_000  # numbers that as long is spent on as on asking a query at all
OWN = 0.65  # of the seconds, after which nothing more is begun but the search for a pair


@dataclass
class Meter:
    """Numbers read by the queries that an examination asked.

    ``seconds``: of a processor, the last resort: queries can be slow in ways that no count tells.
    From ``PATIENCE`` of them on the share of a part ``own`` of the seconds counts where it is more
    than that of the work.  ``timed``: whether it came to that, and what was tried depends on the
    machine.  With the last of the seconds what is under way ends, too.
    ``sets``, ``rows``: on which queries were asked, and the rows of these data sets; ``mutations``:
    neighbours that a search made.
    """

    seconds: float
    limit: float = LIMIT
    own: float = 1.0
    spent: float = 0.0
    timed: bool = False
    sets: int = 0
    rows: int = 0
    mutations: int = 0
    started: float = field(default_factory=time.process_time)
    once: dict[type[Any], bool] = field(default_factory=dict)

    def add(self, query: Any, records: Records, trials: int = 1) -> None:
        """One query to be evaluated.  Errors: TooLong once the last of the time is over."""
        self.end()
        self.sets, self.rows = self.sets + 1, self.rows + len(records)
        self.spent += EVALUATION
        self.more(query, records, trials)

    def more(self, query: Any, records: Records, trials: int) -> None:
        """The work of so many trials of one query, without that of asking it."""
        self.spent += trials * self._rows(query, records) * _size(records)

    def made(self, query: Any, records: Records, value: Array) -> Array:
        """A query's value, (trials, d), counted as d numbers a record where records have fewer.

        A network's gradient is longer than its records, and its time goes with it.
        """
        trials, columns = value.shape
        more = max(0, columns - _size(records))
        self.spent += trials * self._rows(query, records) * more
        return value

    def looks_once(self, query: Any, records: Records) -> bool:
        """Whether queries of this kind look at each of equal records once; one is asked to see."""
        kind = type(query)
        if kind not in self.once:
            again = records.traced(records.values)
            with contextlib.suppress(Exception), np.errstate(all="ignore"):
                query.value(again)
            self.once[kind] = again.knows_kinds
        return self.once[kind]

    def _rows(self, query: Any, records: Records) -> int:
        once = isinstance(query, ClippedMean) or self.looks_once(query, records)
        return min(len(records), FEW_KINDS if once else len(records))

    def end(self) -> None:
        """Errors: TooLong once the last of the time is over."""
        if time.process_time() - self.started > self.seconds:
            self.timed = True
            raise TooLong

    @property
    def used(self) -> float:
        """The work done, or the share of it that the time says."""
        elapsed = time.process_time() - self.started
        patience = min(PATIENCE, PATIENT * self.own * self.seconds)
        if elapsed < patience or math.isinf(self.seconds):
            return self.spent
        allowed = max(self.own * self.seconds - patience, 1e-9)
        return max(self.spent, self.limit * (elapsed - patience) / allowed)

    def beyond(self, most: float) -> bool:
        """Whether so much work is done, or as much of the time is over."""
        if self.used > most:
            self.timed = self.timed or self.spent <= most
            return True
        return False

    @property
    def left(self) -> float:
        """The seconds that are left, 0 at least."""
        return max(0.0, self.seconds - (time.process_time() - self.started))

    def room(self, seconds: float, times: float = 1.0) -> bool:
        """Whether something that takes so long can still be begun, in so many times the time."""
        enough = time.process_time() - self.started + seconds <= times * self.own * self.seconds
        self.timed = self.timed or not enough
        return enough

    def after(self, share: float) -> bool:
        """Whether a share of the work is done, or the time is over."""
        return self.beyond(share * self.limit)


def _size(records: Records) -> int:
    return math.prod(records.values.shape[1:])
