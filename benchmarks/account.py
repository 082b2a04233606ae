"""The accountant beside dp-accounting, prv_accountant, jax-privacy, autodp and PLD_accounting.

Intervals, processor seconds and their ratios.  Every answer comes from a process of its own, in
which nothing is cached; loading libraries is not timed.  prv_accountant needs another NumPy, so
that it runs in another interpreter (``--prv PYTHON``), and so do the last three (``--peers``).
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any

import sympy

from dpaudit.accountant.account import Account
from dpaudit.accountant.calibrate import calibrate
from dpaudit.exact import decimal_lower, decimal_upper
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.banded import CyclicPoisson
from dpaudit.families.batches import TruncatedPoisson
from dpaudit.families.composition import Compose, Repeat
from dpaudit.families.correlated import CorrelatedGaussian, Factorisation, Participation
from dpaudit.families.events import Group
from dpaudit.families.opaque import ApproxDP
from dpaudit.families.sampling import PoissonSampled, RandomAllocation, SampledWithoutReplacement
from dpaudit.measures.calculus import CALCULI
from dpaudit.nodes import Node
from dpaudit.scope import central

ROUNDS = 3
PRV_SCRIPT = Path(__file__).with_name("prv.py")
PEERS_SCRIPT = Path(__file__).with_name("peers.py")
ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 600  # seconds by the clock


@dataclass(frozen=True)
class Task:
    """One line of the table: our question, and the same one for the others (None: refused)."""

    name: str
    ours: Callable[[], str]
    dp_accounting: Callable[[], str] | None = None
    prv: dict[str, Any] | None = None
    peers: tuple[dict[str, Any], ...] = ()


def interval(
    node: Node, delta: str, adjacency: str = "add_remove", width: float = 1e-4
) -> Callable[[], str]:
    """Our two-sided epsilon, as text."""

    def run() -> str:
        bound = Account(node, central(adjacency), width).epsilon(Fraction(delta))
        ends = decimal_lower(bound.lower, 8), decimal_upper(bound.upper, 8)
        return f"[{', '.join(ends)}] width {bound.width:.1e}"

    return run


def sgd(sigma: str, rate: str, times: int) -> Node:
    """DP-SGD with Poisson batches."""
    inner = PoissonSampled(Gaussian("gradient", Fraction(sigma)), Fraction(rate))
    return Repeat(inner, times)


def pld_sgd(sigma: float, rate: float, times: int, delta: float) -> Callable[[], str]:
    """dp-accounting's PLD bound of the same."""

    def run() -> str:
        from dp_accounting import dp_event
        from dp_accounting.pld import PLDAccountant

        step = dp_event.PoissonSampledDpEvent(rate, dp_event.GaussianDpEvent(sigma))
        return f"upper {PLDAccountant().compose(step, times).get_epsilon(delta):.6f}"

    return run


def pld_mixed() -> str:
    """dp-accounting's PLD bound of 500 Gaussians and 500 Laplaces."""
    from dp_accounting import dp_event
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant()
    for i in range(500):
        accountant.compose(dp_event.GaussianDpEvent(40 + i / 50))
        accountant.compose(dp_event.LaplaceDpEvent(40 + i / 50))
    return f"upper {accountant.get_epsilon(1e-5):.6f}"


def mixed() -> Node:
    """500 Gaussians and 500 Laplaces, all different."""
    scales = [40 + Fraction(i, 50) for i in range(500)]
    gaussians = [Gaussian(f"g{i}", scale) for i, scale in enumerate(scales)]
    return Compose(*gaussians, *(Laplace(f"l{i}", scale) for i, scale in enumerate(scales)))


def calibrated() -> str:
    """The noise multiplier of DP-SGD for (1, 1e-6)."""
    z = sympy.Symbol("z", positive=True)
    node = Repeat(PoissonSampled(Gaussian("gradient", z), Fraction(4, 1000)), 10_000)
    return (
        f"{float(calibrate(node, central('add_remove'), ApproxDP(1, Fraction(1, 10**6))).value):g}"
    )


def pld_calibrated() -> str:
    """The same by dp-accounting."""
    import dp_accounting
    from dp_accounting import dp_event
    from dp_accounting.pld import PLDAccountant

    def event(sigma: float) -> Any:
        step = dp_event.PoissonSampledDpEvent(0.004, dp_event.GaussianDpEvent(sigma))
        return dp_event.SelfComposedDpEvent(step, 10_000)

    found = dp_accounting.calibrate_dp_mechanism(
        PLDAccountant, event, 1.0, 1e-6, dp_accounting.ExplicitBracketInterval(0.5, 10.0)
    )
    return f"{found:g}"


def batches(rounds: int = 1000) -> Node:
    """Fixed-size batches under replace-one; sigma = clip is half the sensitivity."""
    inner = Gaussian("gradient", Fraction(1, 2))
    return Repeat(SampledWithoutReplacement(inner, 600, 60_000), rounds)


def rdp_batches() -> str:
    """dp-accounting's RDP bound, with the sensitivity doubled by hand."""
    from dp_accounting import dp_event
    from dp_accounting.privacy_accountant import NeighboringRelation
    from dp_accounting.rdp import RdpAccountant

    step = dp_event.SampledWithoutReplacementDpEvent(60_000, 600, dp_event.GaussianDpEvent(0.5))
    accountant = RdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE)
    return f"upper {accountant.compose(step, 1000).get_epsilon(1e-5):.6f}"


def shared() -> str:
    """The fold of a tree of 2^300 leaves, every level shared."""
    node: Node = Laplace("leaf", 10)
    for _ in range(300):
        node = Compose(node, node)
    CALCULI["profile"].fold(node, central("add_remove"))
    return "folded"


def distinct() -> str:
    """The fold of a million rounds of 100 different nodes."""
    inner = Compose(*(Laplace(f"l{i}", i + 1) for i in range(100)))
    CALCULI["profile"].fold(Repeat(inner, 10**6), central("add_remove"))
    return "folded"


def laplaces(count: int) -> Node:
    """Laplace noise of as many different scales."""
    return Compose(*(Laplace(f"l{i}", 100 + i) for i in range(count)))


def pld_laplaces(count: int) -> Callable[[], str]:
    """dp-accounting's PLD bound of the same."""

    def run() -> str:
        from dp_accounting import dp_event
        from dp_accounting.pld import PLDAccountant

        accountant = PLDAccountant()
        for i in range(count):
            accountant.compose(dp_event.LaplaceDpEvent(100 + i))
        return f"upper {accountant.get_epsilon(1e-5):.6f}"

    return run


def rare(sigma: str, rate: str, times: int, delta: str) -> Task:
    """Large models: few records a batch, many steps."""
    return Task(
        f"DP-SGD sigma={sigma} q={rate} T={times:.0e} delta={delta}",
        interval(sgd(sigma, rate, times), delta),
        pld_sgd(float(sigma), float(rate), times, float(delta)),
    )


def prv_sgd(sigma: float, rate: float, times: int, delta: float, error: float) -> dict[str, Any]:
    """A question for benchmarks/prv.py."""
    return {"sigma": sigma, "rate": rate, "times": times, "delta": delta, "error": error}


def training(
    sigma: float, batch: int, times: int, delta: float, *, peer: str = "jax-privacy", **more: int
) -> dict[str, Any]:
    """A question for benchmarks/peers.py, of 60,000 records."""
    numbers = {"sigma": sigma, "batch": batch, "times": times, "delta": delta}
    return {"peer": peer, "records": 60_000, **numbers, **more}


def allocated(sigma: str, slots: int, epochs: int, delta: str, width: float) -> Task:
    """Random allocation, beside the convolution of 2026 at the accuracy that it takes by itself."""
    node = Repeat(RandomAllocation(Gaussian("gradient", Fraction(sigma)), slots), epochs)
    numbers = {"sigma": float(sigma), "slots": slots, "epochs": epochs, "delta": float(delta)}
    return Task(
        f"random allocation sigma={sigma}, {slots:,} slots, {epochs} epochs, delta={delta}",
        interval(node, delta, width=width),
        peers=({"peer": "PLD_accounting", "accuracy": -1.0, **numbers},),
    )


def banded(groups: int, rounds: int) -> Node:
    """Noise of as many bands as groups, over Poisson batches of groups that take turns."""
    turns = Participation(rounds // groups, groups)
    rows = CorrelatedGaussian("rows", 1, rounds, Factorisation.IDENTITY, turns)
    return CyclicPoisson(rows, groups, Fraction(1, 100))


def truncated() -> Node:
    """Poisson batches of 600 on average, cut to 700."""
    batch = TruncatedPoisson(Gaussian("gradient", 1), Fraction(1, 100), 60_000, 700)
    return Repeat(batch, 1_000)


TASKS = (
    Task(
        "DP-SGD sigma=1 q=.01 T=1e4 delta=1e-5",
        interval(sgd("1", "0.01", 10_000), "1e-5"),
        pld_sgd(1.0, 0.01, 10_000, 1e-5),
        prv_sgd(1.0, 0.01, 10_000, 1e-5, 0.01),
        (training(1.0, 600, 10_000, 1e-5), training(1.0, 600, 10_000, 1e-5, peer="autodp")),
    ),
    Task(
        "BandMF sigma=1, 10 groups of 6,000, q=.01 T=1e4 delta=1e-5",
        interval(banded(10, 10_000), "1e-5"),
        peers=(training(1.0, 60, 10_000, 1e-5, cycle=10),),
    ),
    Task(
        "truncated batches n=6e4 q=.01 B=700 sigma=1 T=1e3 delta=1e-5",
        interval(truncated(), "1e-5"),
        peers=(training(1.0, 600, 1_000, 1e-5, truncated=700),),
    ),
    Task(
        "users of 5 records, sigma=4 q=.01 T=1e3 delta=1e-5",
        interval(Group(sgd("4", "0.01", 1_000), 5), "1e-5"),
        peers=(training(4.0, 600, 1_000, 1e-5, per_user=5),),
    ),
    Task(
        "DP-SGD sigma=1 q=.01 T=1e5 delta=1e-5",
        interval(sgd("1", "0.01", 100_000), "1e-5", width=1e-3),
        pld_sgd(1.0, 0.01, 100_000, 1e-5),
        prv_sgd(1.0, 0.01, 100_000, 1e-5, 0.01),
    ),
    Task("DP-SGD sigma=1 q=.01 T=1e4 delta=1e-20", interval(sgd("1", "0.01", 10_000), "1e-20")),
    Task("DP-SGD sigma=1 q=.01 T=1e4 delta=1e-100", interval(sgd("1", "0.01", 10_000), "1e-100")),
    Task(
        "500 Gaussians, 500 Laplaces, delta=1e-5", interval(mixed(), "1e-5", width=1e-3), pld_mixed
    ),
    Task(
        "DP-SGD sigma=.6 q=.001 T=1e6 delta=1e-6",
        interval(sgd("0.6", "0.001", 1_000_000), "1e-6", width=1e-3),
        pld_sgd(0.6, 0.001, 1_000_000, 1e-6),
    ),
    rare("0.7", "1e-4", 100_000, "1e-8"),
    rare("0.7", "1e-5", 100_000, "1e-5"),
    rare("0.7", "1e-5", 1_000_000, "1e-7"),
    rare("0.5", "1e-4", 100_000, "1e-9"),
    rare("1", "1e-4", 1_000_000, "1e-8"),
    Task(
        "100 different Laplaces",
        interval(laplaces(100), "1e-5"),
        pld_laplaces(100),
        peers=({"peer": "autodp", "laplaces": 100, "delta": 1e-5},),
    ),
    Task("1,000 different Laplaces", interval(laplaces(1000), "1e-5"), pld_laplaces(1000)),
    Task("calibrate sigma: eps=1 delta=1e-6 q=.004 T=1e4", calibrated, pld_calibrated),
    Task(
        "batches n=6e4 b=600 sigma=clip T=1e3 delta=1e-5",
        interval(batches(), "1e-5", "replace_one"),
        rdp_batches,
    ),
    Task("100 Laplace(10), delta=0", interval(Repeat(Laplace("l", 10), 100), "0")),
    allocated("1", 100, 10, "1e-5", 1e-3),
    allocated("1", 1_000, 1, "1e-5", 1e-4),
    allocated("0.5", 1_000, 10, "1e-6", 1e-3),
    Task("fold of a shared tree of 2^300 leaves", shared),
    Task("fold of a million rounds of 100 nodes", distinct),
)


def once(place: int, tool: str) -> None:
    """Print one tool's answer to a task, and its processor seconds, as JSON."""
    # Loading libraries is not timed.
    import_module("dpaudit.profiles.answers" if tool == "dpaudit" else "dp_accounting.pld")
    run = TASKS[place].ours if tool == "dpaudit" else TASKS[place].dp_accounting
    assert run is not None  # noqa: S101  (asked only where there is one)
    start = time.process_time()
    text = run()
    print(json.dumps({"text": text, "seconds": time.process_time() - start}))


def ask(command: Sequence[str]) -> tuple[str, float]:
    """The answer of a process that answers nothing else, and the processor seconds it measured."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=PATIENCE, cwd=ROOT
        )
    except subprocess.TimeoutExpired:
        return f"no answer in {PATIENCE} s", float("nan")
    except subprocess.CalledProcessError as error:
        return f"no answer: {error.stderr.strip().splitlines()[-1][:80]}", float("nan")
    found = json.loads(done.stdout)
    return found["text"], found["seconds"]


def measure(task: Task, prv: str | None, peers: str | None, rounds: int = ROUNDS) -> dict[str, Any]:
    """Answers and median processor seconds of every accountant, asked in turn."""
    here = (sys.executable, "-m", "benchmarks.account", "--one", str(TASKS.index(task)))
    asked: dict[str, Sequence[str]] = {"dpaudit": (*here, "dpaudit")}
    if task.dp_accounting is not None:
        asked["dp-accounting"] = (*here, "dp-accounting")
    if prv is not None and task.prv is not None:
        asked["prv_accountant"] = (prv, str(PRV_SCRIPT), json.dumps(task.prv))
    for one in task.peers if peers is not None else ():
        asked[one["peer"]] = (str(peers), str(PEERS_SCRIPT), json.dumps(one))
    runs = [{name: ask(command) for name, command in asked.items()} for _ in range(rounds)]
    return {
        "task": task.name,
        **{
            name: {
                "answer": runs[0][name][0],
                "seconds": statistics.median(run[name][1] for run in runs),
            }
            for name in asked
        },
    }


def show(row: dict[str, Any]) -> None:
    """One task: a line an accountant, with its time as a multiple of ours."""
    print(row["task"])
    own = row["dpaudit"]["seconds"]
    for name, found in row.items():
        if name != "task":
            ratio = f"{found['seconds'] / own:8.2f}x" if name != "dpaudit" else " " * 9
            print(f"  {name:15} {found['seconds']:8.3f} s {ratio}  {found['answer']}")


def main() -> int:
    """Measure, and print a table (or JSON with ``--json``)."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--prv", help="an interpreter that has prv_accountant 0.2.0")
    parser.add_argument("--peers", help="an interpreter that has jax-privacy, autodp and more")
    parser.add_argument("--only", default="", help="tasks whose name holds this text")
    parser.add_argument("--one", nargs=2, metavar=("TASK", "TOOL"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        once(int(arguments.one[0]), arguments.one[1])
        return 0
    rows = []
    for task in TASKS:
        if arguments.only in task.name:
            rows.append(measure(task, arguments.prv, arguments.peers))
            if not arguments.json:
                show(rows[-1])
    if arguments.json:
        print(json.dumps(rows, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
