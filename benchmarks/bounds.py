"""Bounds side by side: ours, jax-privacy's and privacy-estimates', on the same draws in one run.

The others live in an environment of their own, made here when it is missing, and answer through a
child process (benchmarks/bounds_others.py).  Bounds are printed with the share of runs in which
they exceed the truth; a ratio compares ours with the best of theirs that never did so too often.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import beta

from benchmarks.detection import ENTRIES, KEPT, Audited, detection
from benchmarks.side_by_side import (
    ENVIRONMENT,
    ERROR,
    Bench,
    Bounds,
    Others,
    Row,
    Sides,
    environment,
    timed,
)
from dpaudit.accountant.claim import Claim
from dpaudit.audit.bounds.bands import score_band
from dpaudit.audit.bounds.betting import bets_against, parameter_lower, play
from dpaudit.audit.bounds.estimators import Counts, TestScores, count_errors
from dpaudit.audit.bounds.joint import joint_epsilon_lower
from dpaudit.audit.bounds.power import information_limit, trials_needed
from dpaudit.audit.bounds.selection import (
    Sizes,
    Tails,
    choose_declared,
    epsilon_needed,
    gaussian_tails,
)
from dpaudit.audit.canaries.scores import audit_one_run, audit_scores
from dpaudit.audit.likelihood import PILOT_RUNS, likelihood_audit
from dpaudit.audit.neighbours import Neighbours
from dpaudit.families.additive import Gaussian
from dpaudit.families.opaque import ApproxDP
from dpaudit.kernels.query import ClippedMean, Records
from dpaudit.measures.region import ApproxRegion
from dpaudit.nodes import Node
from dpaudit.scope import Scope, central

SPLIT = (
    "jax Clopper-Pearson, all thresholds", "jax Clopper-Pearson, split",
    "privacy-estimates beta, split",
)  # fmt: skip
Draw = Callable[[np.random.Generator, int], Sides]
# Not bounds: above the truth far more often than they say.
ESTIMATES = ("jax epsilon_from_gdp", "privacy-estimates jeffreys, split")
FIXED = ("jax Clopper-Pearson, fixed event", "privacy-estimates beta, fixed event")
ONE_RUN = ("jax one run, all thresholds", "jax one run, split")
# Measured at 4, 25 and 250 times the others' time: asked where that is bearable.
SLOW = {"jax Clopper-Pearson, 100 splits": 10_000, "jax one run f-DP, split": 1_000}
FULL = {1_000: 101, 10_000: 101, 100_000: 41, 1_000_000: 21}
LIKELIHOODS = "dpaudit, likelihoods of as many runs"
# dp_auditorium is not on PyPI, and DP-Sniper is no package.
SNIPER, RAREST = "DP-Sniper, rebuilt", 0.01
MOST_PILOTS = 16  # of one audit by likelihoods
MOST_PROPOSED = 20_000  # runs of an audit by likelihoods, which more would hardly better
KEPT_RUNS = 21  # audits of each tool whose median is kept
CANARIES = {1_000: 21, 10_000: 11, 100_000: 5}


def affordable(tools: Iterable[str], size: int) -> list[str]:
    """The tools, and those slow ones that a sample of this size can bear."""
    return [
        *tools,
        *(tool for tool, most in SLOW.items() if size <= most and "one run" not in tool),
    ]


# --- two samples ---------------------------------------------------------------------------------


def gaussian_mu(epsilon: float, delta: float) -> float:
    """mu of the Gaussian mechanism that is (epsilon, delta)-DP with equality."""

    def excess(mu: float) -> float:
        hits, alarms = ndtr(mu / 2 - epsilon / mu), ndtr(-mu / 2 - epsilon / mu)
        return float(hits - math.exp(epsilon) * alarms - delta)

    return float(brentq(excess, 1e-3, 50))


def gaussian_bounds(bench: Bench, repeated: Mapping[int, int]) -> list[dict[str, Any]]:
    """The Gaussian (1, 1e-5): scores only, and with its densities declared.

    ``repeated``: how often, by the runs of each data set.
    """
    epsilon, delta = 1.0, 1e-5
    mu, limits = gaussian_mu(epsilon, delta), []
    for size, full in repeated.items():
        sizes, tails = Sizes(size, size), gaussian_tails(mu)
        limit = information_limit(tails, sizes, delta, ERROR).limit
        limits.append({"setting": f"Gaussian (1, 1e-5), {size:,} a side", "limit": limit})
        for rng in bench.repeat(full, f"Gaussian, {size:,} draws a side"):
            sides = gaussian_sides(rng, mu, size)
            event = choose_declared(tails, sizes, ERROR, epsilon_needed(delta))
            ours = score_bounds(sides, delta)
            ours["dpaudit, declared densities"] = declared(sides, tails, delta)
            ours[LIKELIHOODS] = likelihoods(rng, mu, delta, 2 * size)
            tools = affordable([*SPLIT, *ESTIMATES, *FIXED], size)
            theirs = bench.others.ask(sides, delta, tools, event.threshold)
            bound, seconds = timed(lambda sides=sides: sniper(sides, delta))
            theirs[SNIPER] = {"bound": bound, "seconds": seconds}
            bench.add(f"Gaussian (1, 1e-5), {size:,} a side", epsilon, ours, theirs)
    return limits


def sniper(sides: Sides, delta: float) -> float:
    """The event that is rarest at a hundredth on one half of the draws, counted on the other half.

    The scores are those of the best classifier there is.  Both shares are bounded at half of the
    error.  Source: Bichsel, Steffen, Bogunovic and Vechev 2021, Algorithms 1 and 2, at their c.
    """
    half = len(sides[1]) // 2
    level = np.quantile(sides[1][:half], 1 - RAREST)
    (hits, size), (alarms, others) = (
        (int(np.count_nonzero(side[half:] >= level)), len(side) - half) for side in sides
    )
    low = beta.ppf(ERROR / 2, hits, size - hits + 1) if hits else 0.0
    high = beta.ppf(1 - ERROR / 2, alarms + 1, others - alarms) if alarms < others else 1.0
    return math.log(max(1.0, (low - delta) / high))


def declared(sides: Sides, tails: Tails, delta: float) -> tuple[float, float]:
    """The joint bound at the event that the declared densities say is best, with its seconds."""
    sizes = Sizes(sides[0].size, sides[1].size)

    def bound() -> float:
        event = choose_declared(tails, sizes, ERROR, epsilon_needed(delta))
        return joint_epsilon_lower(count_errors(TestScores(*sides), event.threshold), delta, ERROR)

    return timed(bound)


def likelihoods(
    rng: np.random.Generator, mu: float, delta: float, runs: int
) -> tuple[float, float]:
    """The bound from likelihoods of at most so many runs, pilots among them, and its seconds.

    The program adds the same noise to a query that one record moves by 1.
    """
    scope = central("zero_out")
    program = Mean(repr(1 / mu))
    there = np.array([True, False])
    values = np.array([[1.0], [0.0]])
    pair = Neighbours(Records(values), Records(values, ~there), scope.adjacency, "a record of 1")
    claim = Claim(ApproxDP(1, delta), by="this benchmark")
    counted = min(runs, MOST_PROPOSED) - MOST_PILOTS * PILOT_RUNS

    def bound() -> float:
        found = likelihood_audit(
            program, program.declaration(scope), scope, pair, [claim],
            seed=int(rng.integers(2**31)), runs=counted, shown_error=ERROR, decisive_error=ERROR,
        )  # fmt: skip
        if found.pilots + counted > runs:
            raise RuntimeError(f"{found.pilots} pilots and {counted} counted runs; {runs} allowed")
        return max((one.shown for one in found.bounds), default=0.0)

    return timed(bound)


@dataclass(frozen=True)
class Mean:
    """The sum of clipped numbers, released once with Gaussian noise."""

    noise_multiplier: str

    def declaration(self, scope: Scope) -> Node:
        return Gaussian("value", self.noise_multiplier)

    def run(self, curator: Any) -> Any:
        rows = ClippedMean(lambda values: values[None], 1.0, divisor=1.0)
        return curator.release("value", rows)


def gaussian_sides(rng: np.random.Generator, mu: float, size: int) -> Sides:
    """Log-likelihood ratios of N(mu, 1) against N(0, 1)."""
    return rng.normal(mu**2 / 2, mu, size), rng.normal(-(mu**2) / 2, mu, size)


def score_bounds(sides: Sides, delta: float) -> Bounds:
    """What our entry point and our band make of two samples of scores."""
    claim = ApproxDP(1, delta)
    return {
        "dpaudit audit_scores": timed(
            lambda: audit_scores(*sides, origin="independent_runs", claim=claim).epsilon_lower
        ),
        "dpaudit band": timed(lambda: score_band(TestScores(*sides), ERROR).epsilon_lower(delta)),
    }


def laplace_sides(rng: np.random.Generator, size: int) -> Sides:
    """Scores of Laplace(1) on counts one apart."""
    first, second = (np.clip(1 - 2 * rng.laplace(side, 1, size), -1, 1) for side in (0, 1))
    return first, second


def response_sides(rng: np.random.Generator, size: int) -> Sides:
    """Scores of randomised response at epsilon 3."""
    truth = 1 / (1 + math.exp(-3))
    first, second = (np.where(rng.random(size) < rate, 3.0, -3.0) for rate in (truth, 1 - truth))
    return first, second


def no_sides(rng: np.random.Generator, size: int) -> Sides:
    """Scores that say nothing."""
    return rng.normal(size=size), rng.normal(size=size)


def validity(bench: Bench) -> None:
    """Share of runs above the truth, where the truth is known."""
    delta = 1e-5
    response = math.log(math.exp(3) - delta * (1 + math.exp(3)))
    nulls = (
        ("epsilon 0", no_sides, 0.0),
        ("Laplace(1)", laplace_sides, 1 + 2 * math.log1p(-delta)),
        ("randomised response, epsilon 3", response_sides, response),
    )
    for name, draw, truth in nulls:
        for size in (200, 2_000):
            setting = f"{name}, {size:,} a side"
            for rng in bench.repeat(200, setting):
                sides = draw(rng, size)
                ours = score_bounds(sides, delta)
                theirs = bench.others.ask(sides, delta, [*SPLIT, *ESTIMATES])
                bench.add(setting, truth, ours, theirs)


# --- draws needed --------------------------------------------------------------------------------


def laplace_tails() -> Tails:
    """Events of Laplace(1) at distance 1: score 1 - 2 x between its two atoms."""
    at = np.linspace(0, 1, 401)[::-1]
    hits, alarms = 1 - np.exp(-at) / 2, np.exp(at - 1) / 2
    return Tails(1 - 2 * at - 1e-9, hits, alarms)


def laplace_draws(bench: Bench) -> dict[str, Any]:
    """Draws a side to show 0.8 of Laplace(1) in three of four runs."""
    wanted, power = 0.8, 0.75
    tails, needed = laplace_tails(), epsilon_needed(0.0)
    predicted = trials_needed(tails, wanted, ERROR, needed, power) or 1
    event = choose_declared(tails, Sizes(predicted, predicted), ERROR, needed)
    rates, runs = (event.rate, event.other_rate), max(40, round(200 * bench.share))
    rng = np.random.default_rng([bench.seed, 800])

    def shown(size: int) -> float:
        counts = np.stack([rng.binomial(size, rate, runs) for rate in rates], axis=1)
        pairs, times = np.unique(counts, axis=0, return_counts=True)
        found = [
            joint_epsilon_lower(Counts(alarms, size, size - hits, size), 0.0, ERROR) >= wanted
            for hits, alarms in pairs.tolist()
        ]
        return float(np.sum(times * found) / runs)

    sizes = sorted({round(predicted * factor) for factor in (0.97, 1.0, 1.03, 1.06)})
    powers = {size: shown(size) for size in sizes}
    fixed = next((size for size, share in powers.items() if share >= power), None)
    stops = [stopping(rates, wanted, rng) for _ in range(runs)]
    return {
        "wanted": wanted,
        "predicted": predicted,
        "fixed": fixed,
        "power_at": powers,
        "anytime": float(np.quantile(stops, power)),
        "theirs": theirs_at_laplace(bench, wanted),
    }


def stopping(rates: tuple[float, float], wanted: float, rng: np.random.Generator) -> int:
    """Pairs until the bet against ``wanted`` has won; looked at every 20."""
    placed = bets_against(
        [ApproxRegion(wanted, 0.0)], [wanted], pairs=1_000, error=ERROR, expected=rates
    )
    tally = placed.start()
    while parameter_lower(placed, tally, ERROR) < wanted and tally.pairs < 20_000:
        tally = play(placed, tally, *(rng.random(20) < rate for rate in rates))
    return tally.pairs


def theirs_at_laplace(bench: Bench, wanted: float) -> dict[str, dict[int, float]]:
    """Share of runs in which each of the other tools shows ``wanted``, by draws a side."""
    found: dict[str, dict[int, float]] = {}
    for size in (900, 1_400, 2_000, 2_868, 4_000):
        shown: dict[str, list[bool]] = {}
        for rng in bench.repeat(60, f"Laplace, {size:,} draws a side"):
            answers = bench.others.ask(laplace_sides(rng, size), 0.0, [*SPLIT, *FIXED], 1 - 1e-9)
            for tool, answer in answers.items():
                shown.setdefault(tool, []).append(answer.get("bound", 0.0) >= wanted)
        for tool, hits in shown.items():
            found.setdefault(tool, {})[size] = float(np.mean(hits))
    return found


# --- one run -------------------------------------------------------------------------------------


def one_run_bound(
    bench: Bench, rng: np.random.Generator, size: int, draw: Draw, delta: float
) -> tuple[Bounds, dict[str, Any]]:
    """Labels drawn and committed to, scores of one run, and everybody's bound."""
    audit = audit_one_run(size, claim=ApproxDP(4, delta))
    with tempfile.TemporaryDirectory() as folder:
        labels = audit.commit(Path(folder) / "labels.json", seed=int(rng.integers(2**63)))
        sides = draw(rng, size)
        scores = np.where(labels.included, *sides)
        ours = {"dpaudit audit_one_run": timed(lambda: audit.bound(scores).epsilon_lower)}
    tools = [*ONE_RUN, *(t for t, most in SLOW.items() if "one run" in t and size <= most)]
    split = scores[labels.included], scores[~labels.included]
    return ours, bench.others.ask(split, delta, tools)


def one_run(bench: Bench) -> None:
    """Gaussian (4, 1e-5), no family assumed; and randomised response, where nothing may exceed."""
    epsilon, delta = 4.0, 1e-5
    mu = gaussian_mu(epsilon, delta)

    def gaussians(rng: np.random.Generator, size: int) -> Sides:
        return rng.normal(mu, 1, size), rng.normal(0, 1, size)

    for size, full in CANARIES.items():
        setting = f"one run, Gaussian (4, 1e-5), {size:,} canaries"
        for rng in bench.repeat(full, setting):
            bench.add(setting, epsilon, *one_run_bound(bench, rng, size, gaussians, delta))
    setting = "one run, randomised response, epsilon 3, 1,000 canaries"
    for rng in bench.repeat(100, setting):
        bench.add(setting, 3.0, *one_run_bound(bench, rng, 1_000, response_sides, delta))


# --- what is kept, and printed --------------------------------------------------------------------


def side_by_side(size: int) -> list[list[Any]]:
    """Tool, median bound on a Gaussian (1, 1e-5), share above the truth, and seconds of each."""
    with Others(environment(ENVIRONMENT)) as others:
        bench = Bench(others, seed=1, share=1.0)
        gaussian_bounds(bench, {size: KEPT_RUNS})
    rows = [row for row in bench.rows.values() if row.tool not in ESTIMATES]
    return [
        [row.tool, round(row.median, 3), round(row.above, 3), round(row.to_json()["seconds"], 3)]
        for row in sorted(rows, key=lambda row: -row.median)
        if row.bounds
    ]


def side_by_side_lines(parts: Mapping[str, Sequence[Sequence[Any]]]) -> list[str]:
    """The bounds of each tool on one mechanism, at equal numbers of runs."""
    lines = [
        "Lower bounds at 95% on epsilon of Gaussian noise that is (1, 1e-5)-DP with equality: the "
        f"median of {KEPT_RUNS} audits, each of so many runs of either data set, the share of them "
        "above the truth, and seconds of one. Likelihoods and declared densities rest on the noise "
        "that is declared; the others are given the best score there is. "
        "DP-Sniper is no package: its way is rebuilt. dp_auditorium is not on PyPI, and not run.",
    ]
    for part, rows in parts.items():
        lines += ["", f"| {part} | median bound | above the truth | seconds |", "|---|---|---|---|"]
        lines += [f"| {tool} | {m:.3f} | {above:.1%} | {s:g} |" for tool, m, above, s in rows]
    return lines


def invalid(rows: Iterable[Row]) -> set[str]:
    """Tools above the truth, in some setting, more often than 5% plus two standard errors."""
    limits = ((row, 2 * math.sqrt(ERROR * (1 - ERROR) / max(len(row.bounds), 1))) for row in rows)
    return {row.tool for row, margin in limits if row.above > ERROR + margin}


def ratios(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Ours over the best valid one of theirs, setting by setting."""
    refused, found = invalid(rows), []
    for setting in dict.fromkeys(row.setting for row in rows):
        here = [row for row in rows if row.setting == setting and row.bounds]
        best = max(
            (row for row in here if not row.ours and row.tool not in refused),
            key=lambda row: row.median, default=None,
        )  # fmt: skip
        if best is None or best.truth == 0:
            continue
        found += [
            {"setting": setting, "tool": row.tool, "best_of_theirs": best.tool,
             "ratio": row.median / best.median if best.median > 0 else math.inf}
            for row in here if row.ours
        ]  # fmt: skip
    return found


def of_limit(rows: Iterable[Row], limits: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Our median bounds as shares of what an oracle would show that counts draws of either side."""
    known = {row["setting"]: row["limit"] for row in limits}
    return [
        {"setting": row.setting, "tool": row.tool, "limit": round(known[row.setting], 4),
         "share": round(row.median / known[row.setting], 3)}
        for row in rows
        if row.ours and known.get(row.setting) and not row.tool.startswith(LIKELIHOODS)
    ]  # fmt: skip


def text(results: dict[str, Any]) -> str:
    """The results as lines."""
    lines = [f"{'setting':52} {'tool':42} {'median':>7} {'above':>6} {'seconds':>8}"]
    for row in results["bounds"]:
        numbers = f"{row['median']:7.3f} {row['above_truth']:6.1%} {row['seconds']:8.3f}"
        failed = f"  {row['failed']}" if row["failed"] else ""
        lines.append(f"{row['setting']:52} {row['tool']:42} {numbers}{failed}")
    lines += ["", "ratios to the best of the others that keeps its error rate"]
    for row in results["ratios"]:
        lines.append(
            f"{row['setting']:52} {row['tool']:30} {row['ratio']:6.2f} x {row['best_of_theirs']}"
        )
    rest = ("of_limit", "above_too_often", "laplace_draws", "detection")
    lines += ["", *(f"{key}: {json.dumps(results[key])}" for key in rest if key in results)]
    return "\n".join(lines)


SECTIONS = ("gaussian", "validity", "laplace", "one_run", "detection")


def main() -> int:
    """Measure, print a table (or JSON with ``--json``)."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--share", type=float, default=1.0, help="share of the repetitions")
    parser.add_argument("--sections", nargs="+", choices=SECTIONS, default=SECTIONS)
    parser.add_argument("--trials", type=int, default=10_000, help="draws a side for detection")
    parser.add_argument("--entries", nargs="+", choices=sorted(ENTRIES), default=["pair"])
    parser.add_argument("--jobs", type=int, default=2, help="workers for detection")
    parser.add_argument("--others", type=Path, default=ENVIRONMENT, help="their environment")
    parser.add_argument("--alone", action="store_true", help="leave the others out")
    options = parser.parse_args()
    python = None if options.alone else environment(options.others)
    results: dict[str, Any] = {}
    with Others(python) as others:
        bench = Bench(others, options.seed, options.share)
        if "gaussian" in options.sections:
            results["limits"] = gaussian_bounds(bench, FULL)
        if "validity" in options.sections:
            validity(bench)
        if "laplace" in options.sections:
            results["laplace_draws"] = laplace_draws(bench)
        if "one_run" in options.sections:
            one_run(bench)
    if "detection" in options.sections:
        results["detection"] = [
            detection(Audited(entry, options.trials, options.seed), options.jobs, KEPT)
            for entry in options.entries
        ]
    rows = list(bench.rows.values())
    results["of_limit"] = of_limit(rows, results.get("limits", []))
    results["bounds"] = [row.to_json() for row in rows]
    results["ratios"], results["above_too_often"] = ratios(rows), sorted(invalid(rows))
    sys.stdout.write((json.dumps(results) if options.json else text(results)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
