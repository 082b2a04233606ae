"""The one place in which a program is run while it is examined: it ends, and leaves nothing behind.

A program may run for ever, sleep, exit, fork, or change its folder, its environment or the global
random generators.  An examination goes on all the same, on the world as it was before.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from dpaudit.curator.curator import Program
from dpaudit.curator.generators import seeds_kept

EVERY = 0.1  # seconds between two looks at the time
# A program waits that has run for so many times its seconds of a clock, with less than this share
# of a processor: a busy machine gives it more.
IDLE, SHARE = 5.0, 0.02


class TooLong(BaseException):
    """A step takes longer than an examination may; a program must not catch this."""


class Exited(Exception):
    """A program ended its process."""


_inside = False


@contextlib.contextmanager
def ending_after(seconds: float) -> Iterator[None]:
    """Programs that run in this block end with :class:`TooLong` once so many seconds are over.

    The seconds are those of a processor; a program that waits is ended by a clock.  Only the main
    thread hears signals: elsewhere, and where there are none, queries alone look at the time.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or not hasattr(signal, "setitimer") or not np.isfinite(seconds):
        yield
        return
    began, clock = time.process_time(), time.monotonic()

    def look(number: int, frame: Any) -> None:
        used, passed = time.process_time() - began, time.monotonic() - clock
        waits = passed > IDLE * seconds and used < SHARE * passed
        if _inside and (used > seconds or waits):
            raise TooLong

    handler = signal.signal(signal.SIGALRM, look)
    before = signal.setitimer(signal.ITIMER_REAL, EVERY, EVERY)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *before)
        signal.signal(signal.SIGALRM, handler)


def run(program: Program, curator: Any) -> Any:
    """The value that a program returns, run with a curator, in a world that is put back.

    Errors: Exited; TooLong; whatever it raises.
    """
    with contained():
        return program.run(curator)


@contextlib.contextmanager
def contained() -> Iterator[None]:
    """In this block code of a program runs, and the world is put back after it.

    Its folder, environment and global random generators are put back, and a process that it forked
    ends here.  Errors: Exited where the code ends its process.
    """
    global _inside
    process, folder, around, leave = os.getpid(), Path.cwd(), dict(os.environ), os._exit
    before = _inside
    _inside = True

    def stays(status: int) -> NoReturn:
        if os.getpid() != process:
            leave(status)
        raise Exited

    os._exit = stays
    try:
        with seeds_kept():
            yield
    except SystemExit:
        raise Exited from None
    finally:
        _inside, os._exit = before, leave
        if os.getpid() != process:
            leave(0)
        os.chdir(folder)
        if dict(os.environ) != around:
            os.environ.clear()
            os.environ.update(around)
