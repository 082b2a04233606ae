"""Questions to accountants that may take hours or all memory: asked in a child, with limits."""

from __future__ import annotations

import logging
import multiprocessing
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.pool import Pool
from typing import TypeVar

from dpaudit.errors import DpauditError

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")
SECONDS = 20.0
MEMORY = 4 * 2**30


class GaveUp(DpauditError):
    """An answer did not come within the time or the memory allowed."""


@contextmanager
def patient(
    ask: Callable[[Asked], Answer], seconds: float = SECONDS, memory: int = MEMORY
) -> Iterator[Callable[[Asked], Answer]]:
    """``ask``, a function of a module, asked in a child that is killed after ``seconds``.

    ``memory``: bytes of address space of the child.  The child serves many questions; a new one
    is started after one that was killed.  Errors: GaveUp past a limit; what ``ask`` raises.
    """
    pools: list[Pool] = []

    def asked(question: Asked) -> Answer:
        if not pools:
            context = multiprocessing.get_context("spawn")
            pools.append(context.Pool(1, initializer=_limited, initargs=(memory,)))
        try:
            return pools[0].apply_async(ask, (question,)).get(seconds)
        except multiprocessing.TimeoutError:
            pools.pop().terminate()
            raise GaveUp(f"no answer in {seconds:g} s") from None
        except MemoryError:
            pools.pop().terminate()
            raise GaveUp(f"no answer within {memory / 2**30:g} GiB") from None

    try:
        yield asked
    finally:
        for pool in pools:
            pool.terminate()


def _limited(memory: int) -> None:
    logging.disable(logging.WARNING)  # thousands of lines from some accountants
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
