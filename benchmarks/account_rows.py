"""What was wide, slow, wrong or unanswered, then and now, beside dp-accounting in the same run.

Every row is asked once, each accountant in a process of its own (so that its memory is its own);
rows that a log holds are not asked again.  ``--write`` puts the table, with a summary of the grid
(:mod:`benchmarks.account_grid`) and of the random trees (:mod:`tests.support.tree_blocks`) where
their logs are named, into docs/accountant.md.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.account import (
    batches,
    laplaces,
    mixed,
    pld_equal_laplaces,
    pld_laplaces,
    pld_mixed,
    pld_sgd,
    sgd,
)
from dpaudit.accountant.account import Account, Bound
from dpaudit.families.adaptive import Filter
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.banded import CyclicPoisson
from dpaudit.families.batches import ShuffledBatches, TruncatedPoisson
from dpaudit.families.composition import Compose, Repeat
from dpaudit.families.correlated import BandedToeplitz, CorrelatedGaussian, Participation
from dpaudit.families.discrete import DiscreteGaussian, DiscreteLaplace, RandomizedResponse
from dpaudit.families.distributed import DistributedGaussianVector, DistributedSkellamVector
from dpaudit.families.events import Group, ProposeTestRelease
from dpaudit.families.iterates import LastIterate, SampledLastIterate
from dpaudit.families.local import Shuffled
from dpaudit.families.opaque import GDP, ZCDP, PureDP
from dpaudit.families.sampling import PoissonSampled, RandomAllocation, SampledWithoutReplacement
from dpaudit.families.tuning import Tuned
from dpaudit.nodes import Node
from dpaudit.scope import central

ROOT = Path(__file__).resolve().parent.parent
PAGE, LOG = ROOT / "docs" / "accountant.md", ROOT / "build" / "account_rows.jsonl"
PATIENCE = 240


@dataclass(frozen=True)
class Row:
    """A question, what was answered when the list was made, and the two accountants asked.

    ``why``: of an answer that is still wide.
    """

    name: str
    then: str
    ours: Callable[[], Bound]
    theirs: Callable[[], str] | None = None
    why: str = ""


def epsilon(
    node: Node, delta: str, adjacency: str = "add_remove", width: float = 1e-4
) -> Callable[[], Bound]:
    """The interval of epsilon."""
    return lambda: Account(node, central(adjacency), width).epsilon(Fraction(delta))


def delta(node: Node, at: str, adjacency: str = "add_remove") -> Callable[[], Bound]:
    """The interval of delta."""
    return lambda: Account(node, central(adjacency)).delta(Fraction(at))


def trained(noise: str, rate: str, steps: int, at: str, then: str) -> Row:
    """DP-SGD with Poisson batches."""
    name = f"DP-SGD, noise {noise}, rate {rate}, {steps:,} steps, delta {at}"
    theirs = pld_sgd(float(noise), float(rate), steps, float(at))
    return Row(name, then, epsilon(sgd(noise, rate, steps), at), theirs)


def sampled(count: int) -> Node:
    """As many different rounds of sampled noise."""
    noises = [1 + Fraction(i, 500) for i in range(count)]
    return Compose(
        *(
            PoissonSampled(Gaussian(f"g{i}", noise), Fraction(1, 100))
            for i, noise in enumerate(noises)
        )
    )


def pld_sampled(count: int) -> Callable[[], str]:
    """dp-accounting's PLD bound of the same."""

    def run() -> str:
        from dp_accounting import dp_event
        from dp_accounting.pld import PLDAccountant

        accountant = PLDAccountant()
        for i in range(count):
            noise = dp_event.GaussianDpEvent(1 + i / 500)
            accountant.compose(dp_event.PoissonSampledDpEvent(0.01, noise))
        return f"{accountant.get_epsilon(1e-5):.6f}"

    return run


def prefix(rounds: int, strategy: Any, *who: int) -> Node:
    """Correlated noise of multiplier 20."""
    return CorrelatedGaussian("sums", 20, rounds, strategy, Participation(*map(Fraction, who)))


ONE, BANDS = Gaussian("g", 1), BandedToeplitz([Fraction(1, k + 1) for k in range(64)])  # type: ignore[arg-type]
NOISY = Compose(ONE, Laplace("l", 1))
TEST = ProposeTestRelease(Laplace("test", 1), ONE, Fraction(1, 10**5))
FAR = DiscreteGaussian("x", 1, 40)
TREE = CorrelatedGaussian("sums", 10, 256, "tree", Participation(Fraction(4), Fraction(64)))
ROWS = (
    Row("sampled discrete noise, sensitivity 40 sigma, delta 1e-5", "[0, 0], truth 873",
        epsilon(PoissonSampled(FAR, Fraction(1, 1000)), "1e-5")),
    Row("discrete Gaussian(.05, 9), delta at 1", "at most 8.1e-5, truth 1",
        delta(DiscreteGaussian("x", Fraction(1, 20), 9), "1", "replace_one")),
    Row("discrete Gaussian(100, 400), delta 1e-5", "at most 682, truth 970",
        epsilon(DiscreteGaussian("x", 100, 400), "1e-5")),
    Row("discrete Gaussian(100, 7), delta 1e-5", "[0, 3.153]",
        epsilon(DiscreteGaussian("x", 100, 7), "1e-5")),
    Row("discrete Gaussian(.0005), delta 1e-5", "ValueError",
        epsilon(DiscreteGaussian("x", Fraction(5, 10**4)), "1e-5")),
    Row("Gaussian and Laplace, delta at 40", "at most 0, truth 1.8e-326", delta(NOISY, "40")),
    Row("Gaussian and Laplace, delta at 300", "OverflowError", delta(NOISY, "300")),
    Row("Laplace(4), delta at .3", "refused: 1000 digits", delta(Laplace("l", 4), "0.3")),
    Row("1,000 randomised responses of epsilon 700", "OverflowError",
        epsilon(Repeat(RandomizedResponse("r", 700), 1000), "1e-5", "replace_one")),
    Row("propose-test-release, delta at 5", "1e-5", delta(TEST, "5")),
    Row("propose-test-release, delta at 20", "1", delta(TEST, "20"),
        why="above: the failing test's delta, at every epsilon"),
    trained("0.7", "1e-4", 100_000, "1e-8", "[.5475, .8313], 2.5 s"),
    trained("0.7", "1e-5", 100_000, "1e-5", "[0, .0285], 2.4 s"),
    trained("0.7", "1e-5", 1_000_000, "1e-7", "[0, .3879], 2.7 s"),
    trained("0.5", "1e-4", 100_000, "1e-9", "[5.2066, 5.2120], 2.8 s"),
    trained("1", "1e-4", 1_000_000, "1e-8", "[.6554, .6593], 2.6 s"),
    trained("0.7", "1e-5", 10_000, "1e-5", "[0, .1000]"),
    trained("100", "3e-4", 10_000, "1e-10", "lower end 0"),
    trained("1000", "3e-4", 10_000, "1e-20", "lower end 0"),
    trained("0.02", "1e-5", 1000, "1e-6", "[.01, 2626.5], 17 s"),
    trained("0.0118", "3.3e-4", 4_300_000, "1e-5", "[0, 3.1e10]"),
    Row("DP-SGD, noise 1, rate .01, 10,000 steps, delta 1e-5, width 1e-7", "width 7.7e-5",
        epsilon(sgd("1", "0.01", 10_000), "1e-5", width=1e-7), pld_sgd(1.0, 0.01, 10_000, 1e-5)),
    Row("groups of 5: DP-SGD, noise 4, rate .001, 1,000 steps, delta 1e-5", "fails in a binomial",
        epsilon(Group(sgd("4", "0.001", 1000), 5), "1e-5")),
    Row("100 different Laplaces", "7.7 s", epsilon(laplaces(100), "1e-5"), pld_laplaces(100)),
    Row("500 different Laplaces", "70.8 s", epsilon(laplaces(500), "1e-5"), pld_laplaces(500)),
    Row("500 Gaussians, 500 Laplaces", "width 1e-3", epsilon(mixed(), "1e-5"), pld_mixed),
    Row("1,000 different rounds of sampled noise", "1.95 GB", epsilon(sampled(1000), "1e-5"),
        pld_sampled(1000)),
    Row("tree of 2^16 leaves, 5 participations 100 apart", "wide", epsilon(
        prefix(2**16, "tree", 5, 100), "1e-5"),
        why="above: any rounds so far apart; below: rounds at equal distances"),
    Row("tree of 2^20 leaves, 100 participations 1,000 apart", "Unsupported",
        epsilon(prefix(2**20, "tree", 100, 1000), "1e-5")),
    Row("64 bands, 2^18 rounds, 20 participations 10^4 apart", "Unsupported",
        epsilon(prefix(2**18, BANDS, 20, 10**4), "1e-5")),
    Row("Honaker's tree, 256 rounds", "lower end 0", epsilon(prefix(256, "tree_honaker"), "1e-5"),
        why="below: prefixes of one record's rounds alone"),
    Row("smooth binary tree, 256 rounds", "lower end 0",
        epsilon(prefix(256, "smooth_binary"), "1e-5")),
    Row("filter of Gaussian noise, mu = .5", "lower end 0",
        epsilon(Filter.of(ONE, GDP("0.5")), "1e-5")),
    Row("filter of Laplace noise, epsilon = 2", "lower end 0",
        epsilon(Filter.of(Laplace("l", 1), PureDP(2)), "1e-5")),
    Row("filter of Laplace noise, rho = .5", "lower end 0",
        epsilon(Filter.of(Laplace("l", 1), ZCDP("0.5")), "1e-5"),
        why="above: any law of that concentrated privacy; below: releases that spend the cap"),
    Row("batches of 600 of 60,000, replaced, noise = clip, 1,000 steps", "[13.36, 14.82]",
        epsilon(batches(), "1e-5", "replace_one")),
    Row("batches of 600 of 60,000, replaced, noise = clip, 10,000 steps", "",
        epsilon(batches(10_000), "1e-5", "replace_one"),
        why="[rounds that choose](#batches-of-one-size-under-replace-one), on half the grid"),
    Row("random allocation, noise 1, 100 slots, 10 epochs, width 1e-3", "width .017", epsilon(
        Repeat(RandomAllocation(ONE, 100), 10), "1e-5", width=1e-3)),
    Row("shuffled batches, 600 of 60,000, noise 1, two passes", "",
        epsilon(Repeat(ShuffledBatches(ONE, 60_000, 600), 2), "1e-5", "zero_out"),
        why="above: [partners](#shuffled-batches-from-above) that the queries choose; below: an "
            "explicit pair"),
    Row("10,000 shuffled reports among two answers, epsilon 2, delta 1e-6", "",
        epsilon(Shuffled(RandomizedResponse("poll", 2), 10_000), "1e-6", "replace_one")),
    Row("10,000 shuffled reports among three answers, epsilon 2, delta 1e-6", "",
        epsilon(Shuffled(RandomizedResponse("poll", 2, 3), 10_000), "1e-6", "replace_one")),
    Row("90 clients' noise of variance 1 in vectors, squares of 7", "",
        epsilon(DistributedGaussianVector("sums", 1, 90, 0, 7), "1e-5", "replace_one"),
        why="above: cells of normal noise; below: four coordinates moved by 2, 1, 1 and 1"),
    Row("10,000 shuffled Laplace reports, epsilon 1, delta 1e-6", "",
        epsilon(Shuffled(Laplace("l", 1), 10_000), "1e-6", "replace_one"),
        why="above: any randomiser of that epsilon; below: counts of reports beyond a threshold"),
    Row("truncated batches: 100 of 10,000 on average and at most, noise 2, 200 steps", "",
        epsilon(Repeat(TruncatedPoisson(Gaussian("g", 2), Fraction(1, 100), 10_000, 100), 200),
                "1e-5"),
        why="above: whether a batch was cut is told; below: no batch is"),
    Row("users of 5 records, 200 batches of 100 of 10,000, replaced, noise = clip", "",
        epsilon(Group(Repeat(SampledWithoutReplacement(ONE, 100, 10_000), 200), 5), "1e-5",
                "replace_one"),
        why="above: one record's, in steps; below: one of the group alone"),
    Row("a search over runs of noise 10, geometric with mean 100", "",
        epsilon(Tuned(Gaussian("g", 10), Fraction(1, 100)), "1e-5"),
        why="above: Renyi bounds of the search; below: one run"),
    Row("100 rounds of discrete noise of variance 4, sampled at .01", "",
        epsilon(Repeat(PoissonSampled(DiscreteGaussian("x", 4), Fraction(1, 100)), 100), "1e-5")),
    Row("10,000 rounds of discrete noise of variance 4, sampled at .001, delta 1e-8",
        "[.251, .332], 1.4 s",
        epsilon(Repeat(PoissonSampled(DiscreteGaussian("x", 4), Fraction(1, 1000)), 10_000),
                "1e-8")),
    Row("10 slots of noise 2, a record replaced", "",
        epsilon(RandomAllocation(Gaussian("g", 2), 10), "1e-5", "replace_one"),
        why="above: the slot is told, as it may be where there is but one record; below: "
            "[a pair](#a-record-replaced-in-one-of-some-slots) of any number of others"),
    Row("10,000 shuffled values with noise 3", "",
        epsilon(Shuffled(Gaussian("g", 3), 10_000), "1e-5", "replace_one"),
        why="above: the values in order; below: one of equal values is moved"),
    Row("101 clients' noise of variance 100 in vectors, squares of 7", "",
        epsilon(DistributedGaussianVector("sums", 100, 101, 0, 7), "1e-5", "replace_one")),
    Row("last of 20 iterates in a ball of diameter 10^9, noise 1", "",
        epsilon(LastIterate("m", 1, 20, 1, 10**9), "1e-5", "replace_one"),
        why="above: shifts, as of steps that are not projected; below: the last step alone"),
    Row("last of 1,000,000 iterates, noise 4, sampled at .01, diameter 4", "no rule",
        epsilon(SampledLastIterate("m", 4, 10**6, Fraction(1, 100), 1, 4), "1e-5"),
        why="above: shifts beside coins; below: the last step alone"),
    Row("tree of 256 rounds, noise 10, 64 groups, batches at rate 1/4 of them", "no rule",
        epsilon(CyclicPoisson(TREE, 64, Fraction(1, 4)),
                "1e-5"),
        why="above: [the worst rounds](#rounds-that-are-sampled-each) of as many; below: one move, "
            "or all turns"),
    Row("1,000 rounds of discrete noise of variance 1, sensitivity 100, sampled at .01",
        "[10.05, 9990800]",
        epsilon(Repeat(PoissonSampled(DiscreteGaussian("x", 1, 100), Fraction(1, 100)), 1000),
                "1e-5")),
    Row("30 rounds of noise 2, sampled at 1/20, a record replaced", "no rule",
        epsilon(Repeat(PoissonSampled(Gaussian("g", 2), Fraction(1, 20)), 30), "1e-5",
                "replace_one"),
        why="above: [the coin is told](#a-record-replaced-in-poisson-samples), as it may be where "
            "there is but one record; below: a pair of any number of others"),
    Row("100 clients' Skellam noise of variance 10,000 in vectors, squares of 70,000",
        "lower end 0",
        epsilon(DistributedSkellamVector("sums", 10_000, 100, 0, 70_000), "1e-5", "replace_one")),
    Row("10,000 Laplaces of scale 1,000", "[0.33943, 0.34058], 1 s",
        epsilon(Repeat(Laplace("l", 1000), 10_000), "1e-5"), pld_equal_laplaces(1000, 10_000)),
    Row("10,000 randomised responses of epsilon .001", "[0.00098, 0.34064]",
        epsilon(Repeat(RandomizedResponse("r", Fraction(1, 1000)), 10_000), "1e-5")),
    Row("1,000 rounds of discrete Laplace noise of scale 10, sensitivity 3",
        "[78.612, 78.639], 1.3 s",
        epsilon(Repeat(DiscreteLaplace("d", 10, 3), 1000), "1e-5")),
)  # fmt: skip


def asked(row: Row, of: str) -> dict[str, Any]:
    """The answer of one accountant, its processor seconds and the process's largest memory."""
    # Loading libraries is not timed.
    import_module("dpaudit.profiles.answers" if of == "ours" else "dp_accounting.pld")
    start = time.process_time()
    try:
        if of == "theirs":
            text = row.theirs() if row.theirs else ""
        else:
            bound = row.ours()
            text = f"[{float(bound.lower):.8g}, {float(bound.upper):.8g}]"
            if float(bound.upper) < 1e-300:
                text = str(bound).split(" (", maxsplit=1)[0]
    except Exception as error:  # noqa: BLE001 - whatever it says is the answer
        text = type(error).__name__
    seconds = time.process_time() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"answer": text, "seconds": round(seconds, 2), "megabytes": round(memory)}


def alone(place: int, of: str) -> dict[str, Any]:
    """The same in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.account_rows", "--one", str(place), of]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=PATIENCE, cwd=ROOT
        )
    except subprocess.TimeoutExpired:
        return {"answer": f"none in {PATIENCE} s", "seconds": None, "megabytes": None}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def lines(log: Path) -> list[dict[str, Any]]:
    """What a log holds; a last line that was cut off does not count."""
    text = log.read_text() if log.exists() else ""
    return [json.loads(line) for line in text.split("\n")[:-1]]


def resumed(log: Path) -> list[dict[str, Any]]:
    """The same, with what was cut off taken away, so that more can be written behind it."""
    log.parent.mkdir(parents=True, exist_ok=True)
    found = lines(log)
    log.write_text("".join(json.dumps(row) + "\n" for row in found))
    return found


def measure(log: Path, only: str) -> None:
    """Ask what the log does not hold."""
    known = {row["name"] for row in resumed(log)}
    for place, row in enumerate(ROWS):
        if only in row.name and row.name not in known:
            found = {"name": row.name, "ours": alone(place, "ours")}
            if row.theirs:
                found["theirs"] = alone(place, "theirs")
            with log.open("a") as file:
                file.write(json.dumps(found) + "\n")
            print(json.dumps(found), flush=True)


def table(log: Path) -> str:
    """The rows as a table."""
    known = {row["name"]: row for row in lines(log)}
    titles = ("question", "then", "now", "s", "MB", "dp-accounting", "s", "MB")
    rows = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    for row in ROWS:
        if row.name in known:
            cells = [row.name, row.then]
            for of in ("ours", "theirs"):
                found = known[row.name].get(of, {})
                shown = (found.get(key) for key in ("answer", "seconds", "megabytes"))
                cells += ["" if value is None else str(value) for value in shown]
            rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def wide(log: Path) -> str:
    """Answers that are wide still, and why."""
    known = {row["name"]: row["ours"]["answer"] for row in lines(log)}
    rows = ["| question | interval | why |", "|---|---|---|"]
    rows += [
        f"| {row.name} | {known[row.name]} | {row.why} |"
        for row in ROWS
        if row.why and row.name in known
    ]
    return "\n".join(rows)


def written(page: str, name: str, text: str) -> str:
    """The page with what stands between a section's two marks replaced."""
    start, end = (
        f"<!-- {name}: written by python -m benchmarks.account_rows -->",
        f"<!-- end of {name} -->",
    )
    before, rest = page.split(start)
    return f"{before}{start}\n{text}\n{end}{rest.split(end)[1]}"


def of_grid(log: Path) -> str:
    """How the settings of the grid came out."""
    from benchmarks.account_grid import summary

    return summary(lines(log))


def of_trees(log: Path) -> str:
    """How the random trees came out."""
    rows = lines(log)
    trees, none = (sum(row[key] for row in rows) for key in ("trees", "unanswered"))
    bad = sum(len(row["violations"]) for row in rows)
    return (
        f"{trees:,} random trees (`make quality-trees`): {bad} upper ends below what a mechanism\n"
        f"of the tree reaches; {none:,} trees that no one calculus covers."
    )


def main() -> None:
    """Ask, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", nargs=2, metavar=("ROW", "OF"), help=argparse.SUPPRESS)
    parser.add_argument("--only", default="", help="rows whose name holds this text")
    parser.add_argument("--log", type=Path, default=LOG)
    parser.add_argument("--grid", type=Path, help="a log of benchmarks.account_grid")
    parser.add_argument("--trees", type=Path, help="a log of tests.support.tree_blocks")
    parser.add_argument("--write", action="store_true", help="into docs/accountant.md")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(asked(ROWS[int(options.one[0])], options.one[1])))
        return
    for log in (options.grid, options.trees):
        if log and not log.exists():
            parser.error(f"{log}: there is no such log; run what writes it first")
    measure(options.log, options.only)
    if options.write:
        page = written(PAGE.read_text(), "rows", table(options.log))
        page = written(page, "wide", wide(options.log))
        if options.grid:
            page = written(page, "grid", of_grid(options.grid))
        if options.trees:
            page = written(page, "trees", of_trees(options.trees))
        PAGE.write_text(page)


if __name__ == "__main__":
    main()
