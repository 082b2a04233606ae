"""A clock that stands still while other work has the processor.

Plans of an audit (how many models, how many repetitions of a step) follow from what a training
takes; on a busy machine they are to be the same as on an idle one.
"""

from __future__ import annotations

import time
from pathlib import Path

_QUEUED = Path("/proc/thread-self/schedstat")  # Linux: ns on a processor, ns queued for one, turns


def seconds() -> float:
    """Seconds of the clock, less those in which this thread was queued for a processor.

    Waiting for a device, a file or a process counts, so that training elsewhere is not taken for
    free.  The clock alone where the system does not say how long a thread was queued.
    """
    while True:
        before, now = queued(), time.perf_counter()
        if queued() == before:  # not put off between the two
            return now - before


def queued() -> float:
    """Seconds that this thread has been ready to run while others ran."""
    try:
        with open(_QUEUED, "rb", buffering=0) as file:  # noqa: PTH123 (four times faster)
            return int(file.read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0
