"""DP-SGD over rates, noises and steps: our interval beside dp-accounting's upper bound, row by row.

A row is *wide* above a relative width of 1e-4, *looser* where our upper end is above theirs and
theirs is no lower than our certified lower end, *theirs unsound* where it is below that, *slower*
by process time, and *slower to as tight* where dp-accounting's answer on the first of ``INTERVALS``
that is within ``WIDE`` of ours takes less time too.  dp-accounting has ``PATIENCE`` of them a row
and interval, and ``MEMORY``.  Rows that the log holds are not asked again.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import signal
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

from benchmarks.account import sgd
from benchmarks.account_rows import lines, resumed
from dpaudit.accountant.account import Account
from dpaudit.scope import central

RATES = ("1e-7", "1e-6", "1e-5", "1e-4", "1e-3", "0.01", "0.1", "0.5", "1")
NOISES = ("0.3", "0.5", "0.7", "1", "2", "5", "10", "100", "10000")
STEPS = tuple(10**k for k in range(9))
DELTAS = ("1e-5", "1e-8", "1e-10")
ROWS, SEED, PATIENCE, WIDE = 179, 7, 5, 1.1e-4
# Of address space: a peer that asks for more is refused it, and has no answer.
MEMORY = 4 * 2**30

# Of losses; the first is its default.
INTERVALS = (1e-4, 1e-5, 1e-6, 1e-7)

# Seconds.
NEAR = 0.1
SAID = ("wide", "lower end 0", "looser", "slower", "slower to as tight", "theirs unsound")
LOG = Path(__file__).resolve().parent.parent / "build" / "account_grid.jsonl"

Setting = tuple[str, str, int, str]


def settings() -> list[Setting]:
    """The rows, the same on every run."""
    every = [(s, q, t, d) for s in NOISES for q in RATES for t in STEPS for d in DELTAS]
    return random.Random(SEED).sample(every, ROWS)  # noqa: S311


def theirs(setting: Setting, interval: float) -> float:
    """dp-accounting's PLD bound."""
    from dp_accounting import dp_event
    from dp_accounting.pld import PLDAccountant

    noise, rate, steps, delta = setting
    step = dp_event.PoissonSampledDpEvent(float(rate), dp_event.GaussianDpEvent(float(noise)))
    accountant = PLDAccountant(value_discretization_interval=interval)
    return float(accountant.compose(step, steps).get_epsilon(float(delta)))


def patient(run: Callable[[], float]) -> float | None:
    """The answer; None after ``PATIENCE`` processor seconds, without memory, or where refused."""

    def stop(*_: Any) -> None:
        raise TimeoutError

    signal.signal(signal.SIGPROF, stop)
    try:
        signal.setitimer(signal.ITIMER_PROF, PATIENCE)
        found = run()
        # Time may be up until the next line is through.
        signal.setitimer(signal.ITIMER_PROF, 0)
    except (TimeoutError, MemoryError, ValueError, OverflowError):
        signal.setitimer(signal.ITIMER_PROF, 0)
        return None
    return found


def timed(setting: Setting, interval: float) -> tuple[float | None, float]:
    """dp-accounting's answer, and its processor seconds."""
    start = time.process_time()
    found = patient(lambda: theirs(setting, interval))
    return found, time.process_time() - start


def as_tight(setting: Setting, enough: float) -> float | None:
    """Seconds of dp-accounting's first answer that is at most ``enough``; None without one."""
    for interval in INTERVALS:
        found, taken = timed(setting, interval)
        if found is None or found <= enough:
            return None if found is None else taken
    return None


def compared(setting: Setting) -> dict[str, Any]:
    """Both answers and their seconds, and what is to be said about them."""
    noise, rate, steps, delta = setting
    start = time.process_time()
    bound = Account(sgd(noise, rate, steps), central("add_remove")).epsilon(Fraction(delta))
    own = time.process_time() - start
    low, high = float(bound.lower), float(bound.upper)
    other, taken = timed(setting, INTERVALS[0])
    said = ["wide"] if high and (high - low) / high > WIDE else []
    if high and not low:
        said.append("lower end 0")
    if other is not None and other < low:
        said.append("theirs unsound")
    elif other is not None and high > other * (1 + 1e-9):
        said.append("looser")
    if other is not None and own > taken:
        said.append("slower")
        tight = as_tight(setting, high * (1 + WIDE))
        if tight is not None and own > tight:
            said.append("slower to as tight")
    return {
        "setting": list(setting),
        "ends": [low, high],
        "seconds": round(own, 3),
        "theirs": other,
        "their_seconds": round(taken, 3),
        "said": said,
    }


def falling(rows: list[dict[str, Any]]) -> list[str]:
    """Upper ends above that of a setting of as many steps or more and no larger a delta."""
    found = []
    for one in rows:
        for other in rows:
            (noise, rate, steps, delta), more = one["setting"], other["setting"]
            same = [noise, rate] == more[:2] and steps <= more[2] and float(delta) >= float(more[3])
            if same and one["ends"][1] > other["ends"][1] * (1 + 1e-9):
                found.append(f"{one['setting']} above {more}")
    return found


def summary(rows: list[dict[str, Any]]) -> str:
    """How many are what, and the seconds of those that both answered."""
    counts = Counter(said for row in rows for said in row["said"])
    both = [row for row in rows if row["theirs"] is not None]
    own, other = (sum(row[key] for row in both) for key in ("seconds", "their_seconds"))
    middle = [
        statistics.median([row[key] for row in both] or [0.0])
        for key in ("seconds", "their_seconds")
    ]
    slower = [r["seconds"] - r["their_seconds"] for r in both if "slower" in r["said"]]
    above = [r["ends"][1] / r["theirs"] - 1 for r in both if "looser" in r["said"]]
    widest = max((r["ends"][1] - r["ends"][0]) / r["ends"][1] for r in rows if r["ends"][1])
    said = ", ".join(f"{counts[name]} {name}" for name in SAID)
    return (
        f"Of {len(rows)} settings: {said}; the widest {widest:.1e} relative; {len(falling(rows))} "
        f"pairs of upper ends that fall where steps grow or delta shrinks. {len(both)} have an "
        f"answer of dp-accounting's within {PATIENCE} s: {own:.0f} s ours, {other:.0f} s theirs, "
        f"in the median {middle[0]:.3f} and {middle[1]:.3f} s. The looser ones are so by at most "
        f"{max(above, default=0.0):.1e} relative; {sum(by < NEAR for by in slower)} of the slower "
        f"ones by less than {NEAR} s."
    )


def main() -> int:
    """Measure and print rows, then how many are what."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--log", type=Path, default=LOG)
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    known = [tuple(row["setting"]) for row in resumed(options.log)]
    for setting in settings()[: options.rows]:
        if setting not in known:
            row = compared(setting)
            with options.log.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(json.dumps(row), flush=True)
    rows = lines(options.log)
    print(summary(rows), *falling(rows), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
