"""DP-SGD over rates, noises and steps: our interval beside dp-accounting's upper bound, row by row.

A row is *wide* above a relative width of 1e-4, *looser* where our upper end is above theirs and
theirs is no lower than our certified lower end, *theirs unsound* where it is below that, *slower*
by process time.  dp-accounting has ``PATIENCE`` seconds a row.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from benchmarks.account import sgd
from dpaudit.accountant.account import Account
from dpaudit.scope import central

RATES = ("1e-7", "1e-6", "1e-5", "1e-4", "1e-3", "0.01", "0.1", "0.5", "1")
NOISES = ("0.3", "0.5", "0.7", "1", "2", "5", "10", "100", "10000")
STEPS = tuple(10**k for k in range(9))
DELTAS = ("1e-5", "1e-8", "1e-10")
ROWS, SEED, PATIENCE, WIDE = 179, 7, 5, 1.1e-4

Setting = tuple[str, str, int, str]


def settings() -> list[Setting]:
    """The rows, the same on every run."""
    every = [(s, q, t, d) for s in NOISES for q in RATES for t in STEPS for d in DELTAS]
    return random.Random(SEED).sample(every, ROWS)  # noqa: S311


def theirs(setting: Setting) -> float:
    """dp-accounting's PLD bound."""
    from dp_accounting import dp_event
    from dp_accounting.pld import PLDAccountant

    noise, rate, steps, delta = setting
    step = dp_event.PoissonSampledDpEvent(float(rate), dp_event.GaussianDpEvent(float(noise)))
    return float(PLDAccountant().compose(step, steps).get_epsilon(float(delta)))


def patient(run: Callable[[], float]) -> float | None:
    """The answer, or None after ``PATIENCE`` seconds, without memory, or where it is refused."""

    def stop(*_: Any) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(PATIENCE)
    try:
        return run()
    except (TimeoutError, MemoryError, ValueError, OverflowError):
        return None
    finally:
        signal.alarm(0)


def compared(setting: Setting) -> tuple[str, list[str]]:
    """A line, and what is to be said about it."""
    noise, rate, steps, delta = setting
    start = time.process_time()
    bound = Account(sgd(noise, rate, steps), central("add_remove")).epsilon(Fraction(delta))
    own = time.process_time() - start
    low, high = float(bound.lower), float(bound.upper)
    start = time.process_time()
    other = patient(lambda: theirs(setting))
    taken = time.process_time() - start
    said = ["wide"] if high and (high - low) / high > WIDE else []
    if other is not None and other < low:
        said.append("theirs unsound")
    elif other is not None and high > other * (1 + 1e-9):
        said.append("looser")
    if other is not None and own > taken:
        said.append("slower")
    line = f"{noise:>6} {rate:>6} {steps:>10} {delta:>6}  [{low:.8g}, {high:.8g}] {own:.3f} s"
    return f"{line} | {other} {taken:.3f} s  {', '.join(said)}", said


def main() -> int:
    """Measure and print rows, then how many are what."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    counts: Counter[str] = Counter()
    for setting in settings()[: parser.parse_args().rows]:
        line, said = compared(setting)
        counts.update(said or ["met"])
        print(line, flush=True)
    print(dict(counts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
