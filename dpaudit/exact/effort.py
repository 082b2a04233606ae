"""One budget of work and memory for whatever runs inside it: numbers of strangers may ask for any.

Long computations poll it; who has spent it is stopped at the next poll.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from dpaudit.errors import DpauditError

EVERY, RARELY = 4, 256  # polls to one look at the clock, and at the memory
_UNIT = 1 if sys.platform == "darwin" else 1024


class TooMuch(DpauditError):
    """More work or memory than the budget allows."""


@dataclass
class _Budget:
    seconds: float
    until: float
    most: float
    polls: int = 0


_budget: ContextVar[_Budget | None] = ContextVar("budget", default=None)


@contextmanager
def limited(seconds: float, memory: float) -> Iterator[None]:
    """At most so many seconds of this process, and bytes beyond its peak so far.

    Errors, at a later :func:`poll`: TooMuch.
    """
    budget = _Budget(seconds, time.process_time() + seconds, _peak() + memory)
    token = _budget.set(budget)
    try:
        yield
    finally:
        _budget.reset(token)


def poll() -> None:
    """Stop here if the budget is spent.  Errors: TooMuch."""
    budget = _budget.get()
    if budget is None:
        return
    budget.polls += 1
    if budget.polls % EVERY:
        return
    if time.process_time() > budget.until:
        raise TooMuch(f"it takes more than {budget.seconds:g} s")
    if budget.polls % RARELY == 0 and _peak() > budget.most:
        raise TooMuch("it takes more memory than a verification may")


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT
