"""Random settings of DP-SGD: our interval, and dp-accounting's bound on its default grid.

:func:`compared` asks both about one setting; ``python -m benchmarks.evidence settings`` asks about
all of :func:`settings`.
"""

from __future__ import annotations

import random
import resource
import signal
import statistics
import time
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from benchmarks.account import sgd
from dpaudit.accountant.account import Account
from dpaudit.scope import central

RATES = ("1e-7", "1e-6", "1e-5", "1e-4", "1e-3", "0.01", "0.1", "0.5", "1")
NOISES = ("0.3", "0.5", "0.7", "1", "2", "5", "10", "100", "10000")
STEPS = tuple(10**k for k in range(9))
DELTAS = ("1e-5", "1e-8", "1e-10")
COUNT, SEED = 80, 7
PATIENCE = 5  # processor seconds for dp-accounting
MEMORY = 4 * 2**30  # bytes of address space for dp-accounting: some grids would need more than all
EQUAL = 1e-9  # relative: answers this close count as the same number

Setting = tuple[str, str, int, str]


def settings() -> dict[str, Setting]:
    """Noise, rate, steps and delta by name; the same ones in every run."""
    every = [(s, q, t, d) for s in NOISES for q in RATES for t in STEPS for d in DELTAS]
    drawn = random.Random(SEED).sample(every, COUNT)  # noqa: S311
    return {f"noise {s}, rate {q}, {t:,} steps, delta {d}": (s, q, t, d) for s, q, t, d in drawn}


def theirs(setting: Setting) -> float:
    """dp-accounting's upper bound."""
    from dp_accounting import dp_event
    from dp_accounting.pld import PLDAccountant

    noise, rate, steps, delta = setting
    step = dp_event.PoissonSampledDpEvent(float(rate), dp_event.GaussianDpEvent(float(noise)))
    return float(PLDAccountant().compose(step, steps).get_epsilon(float(delta)))


def patient(run: Callable[[], float]) -> float | None:
    """The answer; None where it needs more than ``PATIENCE`` or ``MEMORY``, or is refused."""

    def stop(*_: Any) -> None:
        raise TimeoutError

    signal.signal(signal.SIGPROF, stop)
    limits = resource.getrlimit(resource.RLIMIT_AS)
    try:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, limits[1]))
        signal.setitimer(signal.ITIMER_PROF, PATIENCE)
        answer = run()
        # Otherwise the time could be up between here and `finally`.
        signal.setitimer(signal.ITIMER_PROF, 0)
    except (TimeoutError, MemoryError, ValueError, OverflowError):
        return None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, limits)
    return answer


def compared(setting: Setting) -> dict[str, Any]:
    """Both answers, and the processor seconds of each."""
    noise, rate, steps, delta = setting
    start = time.process_time()
    bound = Account(sgd(noise, rate, steps), central("add_remove")).epsilon(Fraction(delta))
    middle = time.process_time()
    other = patient(lambda: theirs(setting))
    return {
        "ours": [float(bound.lower), float(bound.upper)],
        # Answers are compared by fewer digits.
        "theirs": other if other is None else float(f"{other:.10g}"),
        "seconds": [round(middle - start, 3), round(time.process_time() - middle, 3)],
    }


def lines(parts: Mapping[str, dict[str, Any]]) -> list[str]:
    """The comparison in a paragraph."""
    rows = list(parts.values())
    both = [row for row in rows if row["theirs"] is not None]
    width = max((high - low) / high for low, high in (row["ours"] for row in rows) if high)
    unsound = [row for row in both if row["theirs"] < row["ours"][0]]
    valid = [row for row in both if row not in unsound]
    above = [row for row in valid if row["ours"][1] > row["theirs"] * (1 + EQUAL)]
    most = max((row["ours"][1] - row["theirs"] for row in above), default=0.0)
    ours, other = (statistics.median(row["seconds"][side] for row in both) for side in (0, 1))
    quicker = sum(row["seconds"][0] <= row["seconds"][1] for row in both)
    more = f", by at most {most:.1e}" if above else ""
    return [
        f"{len(rows)} settings of DP-SGD were drawn at random: noise {NOISES[0]} to "
        f"{NOISES[-1]}, rate {RATES[0]} to {RATES[-1]}, 1 to {STEPS[-1]:,} steps, delta "
        f"{DELTAS[-1]} to {DELTAS[0]}. dpaudit's widest interval is {width:.1e} of epsilon. "
        f"dp-accounting answered {len(both)} settings within {PATIENCE} processor seconds and "
        f"{MEMORY >> 30} GB. Of these, its upper bound is below dpaudit's certified lower bound in "
        f"{len(unsound)}, and dpaudit's upper bound is above dp-accounting's in "
        f"{len(above)}{more}. The median answer took {ours:.3f} s, and {other:.3f} s by "
        f"dp-accounting; dpaudit was the quicker one in {quicker}.",
    ]
