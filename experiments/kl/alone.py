"""Theorem 3 read of w_0 to w_T alone, signed norms: what an attacker of the points is sure of.

The last noisy gradient stays hidden, and so do all noisy norms.  Near a stationary point half of
the norms are negative, their rounds cost rho / 2 each and are charged next to nothing, and the run
goes on.  Two data sets of linear losses differ in one record, whose gradient is +-L0: the attacker
sums, over the steps between points, the log likelihood ratio averaged over the hidden norm.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpaudit.accountant.account import account
from dpaudit.audit.bounds.estimators import Counts, epsilon_lower
from dpaudit.curator.curator import Sampler
from dpaudit.families.opaque import ZCDP
from dpaudit.kernels.query import Array, Records
from experiments.kl.problem import SCOPE
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
from mechanisms.papers.common.losses import WorstCase
from mechanisms.papers.kl.adaptive_printed import PrintedAdaptiveNoisyGD
from mechanisms.papers.kl.adaptive_readings import AT, CLIPPED, SIGNED

SIZES = {Size.QUICK: (10_000,), Size.FULL: (1_000, 5_000, 6_000, 7_000, 10_000, 100_000)}
DECIDES = 10_000
ROUNDS = 60  # an attacker who looks at no later point sees less
TRIALS = {Size.QUICK: 40_000, Size.FULL: 200_000}
BLOCK = 20_000
READINGS = {"signed": SIGNED, "clipped": CLIPPED}
ERROR = 0.05
NODES = 4_001
STATED = 6.10


def cells(size: Size) -> list[Cell]:
    """Both readings at every n: the signed one, and norms cut at 0, which nothing refutes."""
    return [
        Cell.of(reading=reading, n=n, trials=TRIALS[size])
        for reading in READINGS
        for n in (SIZES[size] if reading == "signed" else (DECIDES,))
    ]


def program(reading: str, size: int) -> PrintedAdaptiveNoisyGD:
    """The printed loop on linear losses in one dimension, for 60 rounds at most."""
    made, loss = READINGS[reading], WorstCase(size=1, curvature=0.0)
    problem = replace(made.problem, loss=loss, features=0, start=(), size=size)
    return replace(made, problem=problem, rounds_at_most=ROUNDS)


def data(size: int, sign: float) -> Records:
    """One record whose loss is L0 w or -L0 w, among others whose loss is 0."""
    values = np.zeros((size, 1))
    values[0] = sign
    return Records(values)


def points(
    made: PrintedAdaptiveNoisyGD, records: Records, rng: np.random.Generator, trials: int
) -> Array:
    """w_0, ..., w_T of every run, (rounds, trials); NaN after T.  Nothing else is kept."""
    curator = Sampler(made.declaration(SCOPE), SCOPE, records, rng=rng, trials=trials)
    return np.array([w[:, 0] for w in made.run(curator).path])


def ratio(made: PrintedAdaptiveNoisyGD) -> tuple[Array, Array]:
    """The log likelihood ratio of one step, on a grid of noisy gradients, the norm integrated out.

    Both data sets have mean gradients of norm L0 / n, so that N_t has one law.
    """
    unit = made.problem.lipschitz / made.problem.size
    nodes = np.linspace(-8.0, 8.0, NODES)
    weights = np.exp(-np.square(nodes) / 2)
    sigma = made.gradient_noise(unit + made.norm_noise * nodes)
    grid = np.linspace(-1.0, 1.0, NODES) * 10 * float(sigma.max())

    def density(mean: float) -> Array:
        z = (grid[:, None] - mean) / sigma
        return np.asarray((np.exp(-np.square(z) / 2) / sigma) @ weights)

    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.log(density(unit)) - np.log(density(-unit))
    return grid, np.nan_to_num(found, nan=0.0, posinf=0.0, neginf=0.0)


def scores(made: PrintedAdaptiveNoisyGD, seen: Array) -> Array:
    """The sum of a run's ratios over its visible steps, (trials,)."""
    gradients = -np.diff(seen, axis=0) * 2 * made.smoothness
    return np.asarray(np.nansum(np.interp(gradients, *ratio(made)), axis=0))


def run(cell: Cell, rng: np.random.Generator) -> Values:
    """A threshold from one half of the runs, and the bound of the other."""
    made = program(cell.text("reading"), cell.count("n"))
    found, steps = [], []
    for sign in (1.0, -1.0):
        records = data(made.problem.size, sign)
        blocks = [points(made, records, rng, BLOCK) for _ in range(cell.count("trials") // BLOCK)]
        found.append(np.concatenate([scores(made, seen) for seen in blocks]))
        steps.append(np.mean([np.isfinite(seen).sum(axis=0).mean() - 1 for seen in blocks]))
    (first, held_first), (second, held_second) = (np.split(side, 2) for side in found)
    delta = float(AT)

    def bound(threshold: float, null: Array, alternative: Array) -> float:
        wrong = int((null > threshold).sum()), int((alternative <= threshold).sum())
        counts = Counts(wrong[0], null.size, wrong[1], alternative.size)
        return epsilon_lower(counts, delta, ERROR).epsilon_lower

    tried = np.unique(np.quantile(first, np.linspace(0.02, 0.98, 49)))
    chosen = max(tried, key=lambda at: bound(float(at), second, first))
    return {
        "epsilon": bound(float(chosen), held_second, held_first),
        "threshold": float(chosen),
        "steps": float(np.mean(steps)),
    }


def most() -> float:
    """No 1-zCDP mechanism has a larger epsilon at delta = 1e-3 (Canonne, Kamath, Steinke 2020)."""
    return float(account(ZCDP(SIGNED.rho), SCOPE).epsilon(AT).upper)


def _reached(signed: Results) -> str:
    """From which n on what an independent audit stated, which names no n, is shown here."""
    shown = {result.cell.count("n"): result.number("epsilon") for result in signed}
    below = [n for n, epsilon in shown.items() if epsilon < STATED]
    above = [n for n, epsilon in shown.items() if epsilon >= STATED]
    words = [f"not at n = {max(below):,}"] if below else []
    words += [f"from n = {min(above):,} on"] if above else []
    told = f"an independent audit had {STATED:.2f} or more, and names no n; it is shown here "
    return told + ", ".join(words)


def read(results: Results) -> Findings:
    """Lower bounds beside the largest epsilon of rho-zCDP."""
    signed = results.where(reading="signed")
    allowed, checks = most(), []
    rows: list[tuple[str | float, ...]] = []
    for result in results:
        reading, n = result.cell.text("reading"), result.cell.count("n")
        seen = result.number("epsilon")
        rows.append((reading, n, result.number("steps"), seen, allowed))
        if (reading, n) == ("signed", DECIDES):
            name = f"signed norms, n = {n:,}: epsilon shown of w_0 to w_T alone"
            source = "above what 1-zCDP allows at delta = 1e-3"
            checks.append(Check(name, seen, lower=allowed, source=source))
        elif reading == "clipped":
            name = f"norms cut at 0, n = {n:,}: epsilon shown of w_0 to w_T alone"
            source = "rho + 2 sqrt(rho) / n is proved of this reading"
            checks.append(Check(name, seen, upper=allowed, source=source))
    columns = ("norms", "n", "visible steps", "epsilon at least", "1-zCDP allows at most")
    table = Table("Epsilon at delta = 1e-3, 95% confidence", columns, tuple(rows))
    notes = (
        f"one number a run, thresholds from one half of the runs, Clopper-Pearson on the other; "
        f"the first {ROUNDS} rounds are looked at, which is less than all of w_0 to w_T",
        "the noisy norms stay hidden: each step's likelihood is averaged over them, by quadrature; "
        "that it leaves out what going on says of a norm costs power, not validity",
        _reached(signed),
    )
    x = tuple(r.cell.number("n") for r in signed)
    panel = Panel(
        "w_0 to w_T alone, signed norms, rho = 1", "records n", "epsilon at delta = 1e-3",
        (
            Series("shown, 95%", x, tuple(r.number("epsilon") for r in signed)),
            Series("1-zCDP allows", x, (allowed,) * len(x), "--", ""),
        ),
    )  # fmt: skip
    return Findings((table,), tuple(checks), (panel,), notes)


kl_reading = Experiment(
    name="kl_reading",
    title="Adaptive noisy gradient descent as printed: w_0 to w_T alone, attacked",
    source="Menart et al. 2023, Algorithm 3 and Theorem 3",
    cells=cells,
    run=run,
    read=read,
    alone=("",),
)
