"""One budget of work for whatever runs inside it: the numbers of a declaration may ask for any.

Work is counted, not timed, so that the same question has the same answer on every machine.  A unit
is about a microsecond of one core.  Long computations :func:`spend` before they work: a step that
does not fit into the budget is refused before it begins.  Values from a cache cost nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from math import inf
from typing import Any

from dpaudit.errors import Unsupported

CLOCK_INTERVAL = 4  # Charges between two looks at the clock.
MEMORY_INTERVAL = 256  # Charges between two looks at the memory in use.
PER_SECOND = 1_000_000  # units of work
# Units of work that one calculus may spend on one question without a budget: about two minutes.
ROUTE_WORK = 120 * PER_SECOND
ADVICE = (
    ": ask another calculus, declare fewer different rounds or numbers of fewer digits, or allow "
    "more with dpaudit.exact.effort.limited(work=...)"
)
# A browser has no such module, and limits the memory of a page itself.
_resource: Any = import_module("resource") if find_spec("resource") else None
_UNIT = 1 if sys.platform == "darwin" else 1024


class TooMuch(Unsupported):
    """More work, time or memory than the budget allows."""


@dataclass
class Budget:
    """An allowance, and how much of it is spent.

    ``work``: in units; ``seconds``: of this process; ``most``: bytes; ``advice``: the way out that
    a refusal for want of work or time names.
    """

    work: float
    seconds: float
    until: float
    most: float
    advice: str = ""
    spent: float = 0.0
    charges: int = 0

    @property
    def left(self) -> float:
        """Units that may still be spent."""
        return self.work - self.spent

    def charge(self, units: float, part: str) -> None:
        """Take units off.  Errors: TooMuch, and nothing is taken off."""
        if units > self.left:
            allowed = f"{self.work / PER_SECOND:.3g} s of work allowed here"
            raise TooMuch(f"{part} takes more than the {allowed}{self.advice}")
        self.spent += units
        self.charges += 1
        if self.charges % CLOCK_INTERVAL:
            return
        if self.until < inf and time.process_time() > self.until:
            raise TooMuch(f"{part} takes more than {self.seconds:g} s{self.advice}")
        if self.most < inf and self.charges % MEMORY_INTERVAL == 0 and _peak() > self.most:
            raise TooMuch(f"{part} takes more memory than a verification may")


_budget: ContextVar[Budget | None] = ContextVar("budget", default=None)


@contextmanager
def limited(
    *, work: float = inf, seconds: float = inf, memory: float = inf, advice: str = ""
) -> Iterator[Budget]:
    """At most so many units of work, seconds of this process, and bytes beyond its peak so far.

    ``advice``: the words that end a refusal for want of work or time, and say what to do.
    A budget inside another is at most what is left of that one, and is spent from it.
    Errors, at a later :func:`spend`: TooMuch.
    """
    outer = _budget.get()
    # A 32-bit clock of processor time fails after 36 minutes of work: it is not asked in vain.
    until = time.process_time() + seconds if seconds < inf else inf
    most = _peak() + memory if memory < inf else inf
    if outer is not None:
        work, most = min(work, outer.left), min(most, outer.most)
        if outer.until < until:
            seconds, until = outer.seconds, outer.until
    budget = Budget(work, seconds, until, most, advice)
    token = _budget.set(budget)
    try:
        yield budget
    finally:
        _budget.reset(token)
        if outer is not None:
            outer.spent += budget.spent


@contextmanager
def route() -> Iterator[None]:
    """The budget of one of several routes to an answer.

    ``ROUTE_WORK``, or half of what is left of an outer budget: an expensive route leaves some work
    for the others.
    """
    outer = _budget.get()
    work = ROUTE_WORK if outer is None or outer.left == inf else outer.left / 2
    with limited(work=work, advice=ADVICE):
        yield


def is_limited() -> bool:
    """Whether a budget holds here."""
    return _budget.get() is not None


def spend(units: float = 1, part: str = "this declaration") -> None:
    """Take units of work off the budget, before they are worked.

    Where nobody set a budget, one step may take :data:`ROUTE_WORK`.  Errors: TooMuch.
    """
    budget = _budget.get()
    if budget is None and units > ROUTE_WORK:
        budget = Budget(ROUTE_WORK, inf, inf, inf, ADVICE)
    if budget is not None:
        budget.charge(units, part)


def _peak() -> int:
    """The most memory that this process has held, in bytes; 0 where the system does not tell."""
    if _resource is None:
        return 0
    return int(_resource.getrusage(_resource.RUSAGE_SELF).ru_maxrss * _UNIT)
