"""A timing test: does drawing noise take longer where the noise is larger?"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable
from time import perf_counter_ns

import numpy as np
import numpy.typing as npt

from dpaudit.audit.residuals import Finding, Status

FloatArray = npt.NDArray[np.float64]
TIMED_CALLS = 4_000  # Timed calls on each data set.
# Timed calls of a slow function: fewer cannot show a shift of one standard deviation.
FEWEST_TIMED_CALLS = 1_200
MAX_SECONDS = 5.0  # Seconds spent timing one data set; a slow function gets fewer calls.
WARM_UP = 50  # calls before timing, for caches and the clock's frequency
# The eighth of calls with the largest noise is compared with that with the smallest.
SIZE_GROUPS = 8


def check_timing(
    draw: Callable[[int], float],
    error: float,
    calls: int = TIMED_CALLS,
    clock: Callable[[], int] = perf_counter_ns,
) -> Finding:
    """Whether the time of a draw depends on the size of its noise.

    ``draw(i)`` makes one draw and gives its noise; it is timed ``calls`` times, or fewer if that
    would take more than five seconds, which is found out on draws that do not count.  The order of
    sizes is uniform if time does not depend on them, whatever else the machine does.  Then
    the mean rank of time in the eighth of largest (smallest) noise is that of a sample without
    replacement, for which Hoeffding's inequality holds (1963, section 6): a false alarm has
    probability at most ``error``, in finite samples.
    Source: Jin, McMurtry, Rubinstein and Ohrimenko (2022); Haeberlen, Pierce and Narayan (2011).
    """
    before = clock()
    for i in range(WARM_UP):
        draw(i)
    each = (clock() - before) / WARM_UP / 1e9
    sizes, times = _measured(
        draw,
        calls
        if each * calls <= MAX_SECONDS
        else min(calls, max(FEWEST_TIMED_CALLS, int(MAX_SECONDS / each))),
        clock,
    )
    calls = sizes.size
    share = calls // SIZE_GROUPS
    if np.unique(sizes).size < 2:
        return Finding("timing", "not_run", math.nan, error, "all draws are of one size")
    # Mid-ranks over the number of draws: their mean is 1/2, each is in [0, 1].
    _, inverse, counts = np.unique(times, return_inverse=True, return_counts=True)
    upto = np.cumsum(counts)
    middle: FloatArray = (upto - counts / 2) / times.size
    ranks = middle[inverse]
    # By size; equal sizes in an order that no time has a part in.
    shuffled = np.random.default_rng(0).permutation(sizes.size)
    order = shuffled[np.argsort(sizes[shuffled], kind="stable")]
    shifts = [abs(float(ranks[part].mean()) - 0.5) for part in (order[:share], order[-share:])]
    limit = math.sqrt(math.log(4 / error) / (2 * share))
    status: Status = "broken" if max(shifts) > limit else "held"
    detail = (
        f"mean rank of time moves by {max(shifts):.3f} with the size of the noise over {calls} "
        f"draws, broken above {limit:.3f}"
    )
    return Finding("timing", status, max(shifts), error, detail)


def _measured(
    draw: Callable[[int], float], calls: int, clock: Callable[[], int]
) -> tuple[FloatArray, FloatArray]:
    sizes, times = np.empty(calls), np.empty(calls)
    collecting = gc.isenabled()
    gc.disable()
    try:
        for i in range(calls):
            before = clock()
            sizes[i] = abs(draw(i))
            times[i] = clock() - before
    finally:
        if collecting:
            gc.enable()
    return sizes, times
