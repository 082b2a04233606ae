"""Theorem 5: a point with a small gradient, without any KL condition, by two selections.

Runs start at radius 30, where the gradient is as small as it is within radius 1/30: up to some n no
run gets inside, and none learns.  The rate in n is that of the sizes at which they do, a cut that
was made after runs had shown who gets inside.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dpaudit.curator.curator import Event
from dpaudit.kernels.query import Array
from experiments.kl.problem import logarithm, replicas, sampler
from experiments.kl.reading import columns, fitted, line, sizes
from experiments.lab.learning import Learnt, learning_checks, learning_table
from experiments.lab.model import (
    Cell,
    Check,
    Experiment,
    Findings,
    Panel,
    Results,
    Series,
    Size,
    Table,
    Values,
)
from mechanisms.papers.kl.adaptive import NORM, AdaptiveNoisyGD
from mechanisms.papers.kl.select import METHODS, SelectStationaryIterate

RHO, BETA, DIMENSION = Fraction(1), 0.05, 3_000
TRIALS = {Size.QUICK: 10, Size.FULL: 40}
NAMES = {"exponential": "exponential mechanism", "noisy_argmin": "least noisy norm"}
SIZES = {
    Size.QUICK: (300_000, 3_000_000),
    Size.FULL: (100_000, 300_000, 1_000_000, 3_000_000, 10_000_000),
}
LARGEST_RATIO = 2.0
TWICE = "ours: the free selection at most twice the private one, after earlier ratios of 1 to 1.4"
# Between n^-1/2, which the theorem has, and n^-1, its best case; at the sizes at which runs get
# inside.  Both came with this result, after an earlier grid (3,000 to 300,000) had shown that runs
# get inside at its last size and no sooner.
RATE, INSIDE = (-1.1, -0.5), 300_000
LOOKED = "band and cut set after a look at who gets inside"
PROVED = (
    "D.6: min(sqrt(8 F0 L1 / T), sqrt(6 L0 sqrt(F0 L1 d ell) / (n sqrt(rho)))) "
    "+ 3 L0 ell / (sqrt(n) rho^(1/4))"
)


def cells(size: Size) -> list[Cell]:
    """Both selections at every n."""
    return [
        Cell.of(float(n), method=method, n=n, d=DIMENSION, trials=TRIALS[size])
        for method in METHODS
        for n in SIZES[size]
    ]


def run(cell: Cell, rng: np.random.Generator) -> Values:
    """Every run's gradient norm at the point it chose, at its last point, and its bound."""
    on = logarithm()
    descent = AdaptiveNoisyGD(on.problem(DIMENSION, cell.count("n")), RHO, BETA, on.smoothness)
    made = SelectStationaryIterate(descent, cell.text("method"))
    curator = sampler(made, replicas(DIMENSION), cell.count("trials"), rng)
    found = made.run(curator)
    rounds = _rounds(curator.transcript, cell.count("trials"))
    return {
        "norm": on.gradient_norms(found.output).tolist(),
        "last": on.gradient_norms(found.last).tolist(),
        "bound": bound(descent, rounds).tolist(),
        "rounds": rounds.tolist(),
    }  # fmt: skip


def _rounds(transcript: Sequence[Event], trials: int) -> Array:
    """Noisy norms that each run released."""
    found = np.zeros(trials)
    for event in transcript:
        found += event.on if event.label == NORM else 0
    return found


def bound(descent: AdaptiveNoisyGD, rounds: Array) -> Array:
    """min(sqrt(8 F0 L1 / T), sqrt(6 L0 sqrt(F0 L1 d ell) / (n sqrt(rho)))) + 3 L0 ell / (sqrt(n)
    rho^(1/4)), T one less than the norms released.
    """
    own, ell = descent.problem, descent.ell
    drop = logarithm().starting_gap * descent.smoothness
    second = math.sqrt(6 * own.lipschitz * math.sqrt(drop * own.dimension * ell) / descent.scale)
    first = np.sqrt(8 * drop / np.maximum(rounds - 1, 1))
    last = 3 * own.lipschitz * ell / (math.sqrt(own.size) * float(descent.rho) ** 0.25)
    return np.asarray(np.minimum(first, second) + last)


def read(results: Results) -> Findings:
    """The rate where runs get inside, measured against bound, one selection against the other."""
    checks: list[Check] = []
    series: list[Series] = []
    for method in METHODS:
        found = results.where(method=method)
        fit = fitted(Results(tuple(r for r in found if r.cell.count("n") >= INSIDE)), "norm")
        name = NAMES[method]
        worst = max(
            norm / most
            for r in found
            for norm, most in zip(r.numbers("norm"), r.numbers("bound"), strict=True)
        )
        checks.append(Check(f"{name}: largest norm over its bound", worst, upper=1.0,
                            source=PROVED))  # fmt: skip
        checks.append(
            Check(
                f"{name}: log-log slope of the median norm in n, from n = {INSIDE:,} on",
                fit.slope, *RATE, margin=2 * fit.error,
                source=f"Theorem 5: n^-1/2, at best n^-1; {LOOKED}",
            )
        )  # fmt: skip
        series.append(line(f"{name} ({fit.slope:.2f})", found, "norm"))
    found = results.where(method="exponential")
    bounds, _ = columns(found, "bound")
    series.append(Series("median of the explicit bounds", tuple(sizes(found)), tuple(bounds),
                         "--", ""))  # fmt: skip
    learnt = _learnt(results)
    checks += [*_ratios(results), *learning_checks(learnt)]
    panel = Panel("log(1 + ||w||^2), d = 3000", "records n", "gradient norm", tuple(series))
    notes = (
        "the exponential mechanism costs rho / 2 more, the least noisy norm nothing",
        f"the slope's {LOOKED}: an earlier grid, n = 3,000 to 300,000, had runs inside at 300,000 "
        "alone; what was not seen before are n of a million and more",
        f"the norm is {learnt[0].start:.4f} at the start, at radius 30, and larger all the way to "
        f"radius 1/30: {_outside(learnt)}",
    )
    tables = (_table(results), learning_table(learnt, "median gradient norm"))
    return Findings(tables, tuple(checks), (panel,), notes)


def _learnt(results: Results) -> list[Learnt]:
    """Every selection at every n, beside the gradient norm of the start, at radius 30."""
    on = logarithm()
    start = float(on.gradient_norms(on.problem(DIMENSION, 1).initial(1))[0])
    medians, errors = columns(results, "norm")
    return [
        Learnt(f"{NAMES[r.cell.text('method')]}, n = {r.cell.count('n'):,}", median, start, error)
        for r, median, error in zip(results, medians, errors, strict=True)
    ]


def _outside(learnt: Sequence[Learnt]) -> str:
    """Which runs, if any, stay outside, where the norm is no smaller than at the start."""
    found = [one.method for one in learnt if one.share >= 1]
    return f"who does not get inside: {'; '.join(found) if found else 'nobody at these sizes'}"


def _ratios(results: Results) -> list[Check]:
    medians = {m: columns(results.where(method=m), "norm") for m in METHODS}
    found = []
    for index, n in enumerate(sizes(results.where(method="exponential"))):
        (ours, error), (theirs, spread) = (
            (medians[m][0][index], medians[m][1][index]) for m in ("noisy_argmin", "exponential")
        )
        margin = 2 * ours / theirs * math.hypot(error / ours, spread / theirs)
        name = f"least noisy norm over exponential mechanism, n = {int(n):,}"
        found.append(Check(name, ours / theirs, upper=LARGEST_RATIO, margin=margin, source=TWICE))
    return found


def _table(results: Results) -> Table:
    norms, errors = columns(results, "norm")
    last, _ = columns(results, "last")
    bounds, _ = columns(results, "bound")
    rows = tuple(
        (NAMES[r.cell.text("method")], r.cell.count("n"), float(np.mean(r.numbers("rounds"))),
         norm, error, final, most)
        for r, norm, error, final, most in zip(results, norms, errors, last, bounds, strict=True)
    )  # fmt: skip
    names = ("selection", "n", "mean rounds", "median norm", "its error", "last point's", "bound")
    return Table("Gradient norm, rho = 1 for the descent", names, rows)


kl_stationary = Experiment(
    name="kl_stationary",
    title="Theorem 5: gradient norm of the point selected, its rate and its bound",
    source="Menart et al. 2023, Theorem 5 and the constants of its proof (D.6)",
    cells=cells,
    run=run,
    read=read,
    alone=("",),
)
