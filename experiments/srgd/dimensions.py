"""Theorems 5.8 and 5.12 in p, epsilon and delta: excess risk at n = 4,096, every method searched.

The label of a record depends on one coordinate, whose share of the record's length stays while p
grows; the others are noise on a sphere.  So the excess risk of w = 0 is the same at every p, and a
run with no signal is seen at once.  The noise is the least for (epsilon, delta) at every setting.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from dpaudit.compare.search import Axis, Protocol
from dpaudit.curator.curator import Sampler
from dpaudit.exact import Number
from dpaudit.families.correlated.node import Factorisation
from dpaudit.kernels.query import Array, Records
from dpaudit.measures.convert import gaussian_mu
from experiments.lab.fits import fit_power_law, mean_and_error
from experiments.lab.learning import Learnt, learning_checks, learning_table
from experiments.lab.model import (
    Cell,
    Check,
    Experiment,
    Findings,
    Panel,
    Result,
    Results,
    Series,
    Size,
    Table,
    Values,
)
from experiments.lab.protocol import (
    FULL_BATCH,
    NOTHING,
    ONE_PASS,
    OPTIMUM,
    at_ends,
    beside,
    contest_table,
    protocol_note,
    tuned,
)
from experiments.srgd import problem
from mechanisms.papers.srgd.accelerated import AcceleratedDPSRGD
from mechanisms.papers.srgd.baselines import DPSGDOnePass, DPSGDPoisson
from mechanisms.papers.srgd.constants import least_multiplier, noised
from mechanisms.papers.srgd.gradient import of_constants
from mechanisms.papers.srgd.problem import Problem

PROTOCOL = Protocol(budget=24, choosing=4, judging=24)
OURS = "accelerated, tree"
REFERENCES = (NOTHING, OPTIMUM)
METHODS = (*REFERENCES, ONE_PASS, FULL_BATCH, OURS)
RECORDS = {Size.QUICK: 2**9, Size.FULL: 2**12}
STRENGTH, RADIUS = 1.5, problem.RADIUS
LIPSCHITZ, SMOOTHNESS = float(problem.LIPSCHITZ), float(problem.SMOOTHNESS)
FACTOR = 2.0  # of the rate without constants, as srgd_risk has it
WITHIN = (
    "excess <= 2 L R (1/sqrt n + sqrt(p ln(1/delta)) / (eps n)), the paper's O(.) with a factor "
    "ours, set before the run"
)
SLOPES = (
    "Theorems 5.8 and 5.12: at most 1/sqrt n + sqrt(p ln(1/delta)) / (eps n), so that no slope is "
    "steeper than that of the second term; .1 ours, set before the run"
)
NO_WORSE = "ours, no worse; set before the run"


@dataclass(frozen=True)
class At:
    """Dimension, epsilon, and delta = 10^-digits."""

    p: int = 10
    epsilon: float = 1.0
    digits: int = 6

    @property
    def delta(self) -> Fraction:
        """delta."""
        return Fraction(1, 10**self.digits)

    @property
    def mu(self) -> float:
        """Of the Gaussian curve through (epsilon, delta)."""
        return float(gaussian_mu(Fraction(self.epsilon), self.delta))

    @property
    def name(self) -> str:
        """For tables and checks."""
        return f"p = {self.p}, epsilon = {self.epsilon:g}, delta = 1e-{self.digits}"


# By what varies: the instances, of which one is in all, and the steepest slope of the rate's
# second term against the number that is drawn.
VARIED: dict[str, tuple[tuple[At, ...], float]] = {
    "p": (tuple(At(p=p) for p in (5, 10, 40, 160)), 1 / 2),
    "1 / epsilon": (tuple(At(epsilon=e) for e in (4.0, 1.0, 0.25)), 1.0),
    "ln(1 / delta)": (tuple(At(digits=d) for d in (3, 6, 12)), 1 / 2),
}

EVERY = tuple(dict.fromkeys(at for instances, _ in VARIED.values() for at in instances))


def number(over: str, at: At) -> float:
    """The value of what varies."""
    by = {"p": at.p, "1 / epsilon": 1 / at.epsilon, "ln(1 / delta)": at.digits * math.log(10)}
    return float(by[over])


def cells(size: Size) -> list[Cell]:
    """Every method of every instance; a corner has two dimensions."""
    asked = EVERY if size is Size.FULL else (At(), At(p=40))
    n = RECORDS[size]
    return [Cell.of(float(n), method=m, n=n, **asdict(at)) for at in asked for m in METHODS]


def free(method: str, n: int) -> tuple[Axis, ...]:
    """A method's free parameters: steps in units of 1 / M, clips in units of L."""
    if method in REFERENCES:
        return ()
    start = 8 if method == FULL_BATCH else math.isqrt(n) // 2
    return (Axis("step size", 1.0), Axis("clip", 1.0), Axis("steps", start, 1, n, whole=True))


def run(cell: Cell, rng: np.random.Generator) -> Values:
    """The search of a method, and its excess risk on the judging seeds."""
    method, n = cell.text("method"), cell.count("n")
    at = At(cell.count("p"), cell.number("epsilon"), cell.count("digits"))

    def loss(setting: Mapping[str, float], draws: np.random.Generator) -> float:
        data = sample(n, at.p, draws)
        if method in REFERENCES:
            w = np.zeros(at.p) if method == NOTHING else minimiser(data)
        else:
            made = program(method, n, at, setting)
            curator = Sampler(made.declaration(problem.SCOPE), problem.SCOPE, data, rng=draws)
            w = made.run(curator).output[0]
        return risk(w) - risk(optimum(at.p))

    return tuned(PROTOCOL, free(method, n), loss, rng)


def program(
    method: str, n: int, at: At, setting: Mapping[str, float]
) -> AcceleratedDPSRGD | DPSGDOnePass | DPSGDPoisson:
    """A run with the least noise for the instance's guarantee."""
    steps, step = int(setting["steps"]), setting["step size"] / SMOOTHNESS
    clip = LIPSCHITZ * setting["clip"]
    if method == OURS:
        strategy = Factorisation.TREE
        beta, radius = (Fraction(v).limit_denominator(10**6) for v in (1 / step, clip))
        made = noised(steps, n // steps, beta, radius, _multiplier(at, steps))
        gradient = of_constants(made, problem.LOSS, at.p, n, strategy=strategy)
        return AcceleratedDPSRGD(gradient, radius=RADIUS)
    where, one = Problem(problem.LOSS, at.p, n, RADIUS, clip), Fraction(1 / at.mu)
    if method == ONE_PASS:
        return DPSGDOnePass(where, steps, step, one)
    # mu adds up to sqrt(rounds) mu: exact for full batches.
    noise = Fraction(float(one) * math.sqrt(steps))
    return DPSGDPoisson(where, steps, Fraction(1), step, noise)


@lru_cache(maxsize=64)
def _multiplier(at: At, steps: int) -> Number:
    return least_multiplier(Fraction(at.epsilon), at.delta, steps, Factorisation.TREE)


# --- the population -------------------------------------------------------------------------------


def optimum(p: int) -> Array:
    """w*: along the first coordinate alone."""
    return np.asarray(STRENGTH * np.eye(p)[0])


def sample(n: int, p: int, rng: np.random.Generator) -> Records:
    """A fresh data set: rows (u, v) / sqrt 2 of norm 1, u a sign and v on the unit sphere."""
    v = rng.normal(size=(n, p - 1))
    v /= np.linalg.norm(v, axis=1, keepdims=True)
    x = np.column_stack([rng.choice([-1.0, 1.0], size=n), v]) / math.sqrt(2)
    return Records(np.column_stack([x, rng.random(n) < expit(x @ optimum(p))]))


@lru_cache(maxsize=8)
def _points(p: int) -> tuple[Array, Array]:
    """Fixed points of the population, and the chance of label 1 at each."""
    x = sample(problem.POINTS // 10, p, np.random.default_rng(problem.POINTS_SEED)).values[:, :-1]
    return x, np.asarray(expit(x @ optimum(p)))


def risk(w: Array) -> float:
    """Population risk, the exact conditional mean of the loss on the fixed points."""
    x, chance = _points(len(w))
    margin = x @ w
    return float(np.mean(np.logaddexp(0.0, margin) - chance * margin))


def minimiser(data: Records) -> Array:
    """The minimiser of the empirical risk, scaled into the ball: not private."""
    x, labels = data.values[:, :-1], data.values[:, -1]

    def value_and_slope(w: Array) -> tuple[float, Array]:
        margin = x @ w
        value = float(np.mean(np.logaddexp(0.0, margin) - labels * margin))
        return value, np.asarray(x.T @ (expit(margin) - labels) / len(x))

    found = np.asarray(minimize(value_and_slope, np.zeros(x.shape[1]), jac=True, method="BFGS").x)
    return np.asarray(found * min(1.0, RADIUS / float(np.linalg.norm(found))))


def rate(n: int, at: At) -> float:
    """The paper's rate without constants."""
    spread = math.sqrt(at.p * math.log(float(1 / at.delta)))
    return RADIUS * LIPSCHITZ * (1 / math.sqrt(n) + spread / (at.epsilon * n))


# --- what the grid says ---------------------------------------------------------------------------


def read(results: Results) -> Findings:
    """The rate with its factor, slopes, the baselines at every instance, and who learns."""
    tables: list[Table] = []
    checks: list[Check] = []
    learnt: list[Learnt] = []
    for at, instance in _instances(results).items():
        n = instance.rows[0].cell.count("n")
        ours = instance.one(method=OURS)
        mean, error = mean_and_error(ours.numbers("judged"))
        bound, nothing = rate(n, at), instance.one(method=NOTHING).numbers("judged")[0]
        shown = f"{at.name}: excess risk, {OURS}"
        checks.append(
            Check(
                f"{shown} over the rate", mean / bound, upper=FACTOR, margin=2 * error / bound,
                source=WITHIN, by=PROTOCOL, withheld="; ".join(at_ends(ours)),
            )
        )  # fmt: skip
        checks += [
            beside(f"{shown} over {other}", PROTOCOL, instance, (OURS, other), NO_WORSE)
            for other in (ONE_PASS, FULL_BATCH)
        ]
        tables.append(contest_table(f"{at.name}: excess risk on the judging seeds", instance))
        learnt += [
            Learnt(f"{r.cell.text('method')}, {at.name}", value, nothing, spread)
            for r in instance
            if r.cell.text("method") not in REFERENCES
            for value, spread in [mean_and_error(r.numbers("judged"))]
        ]
    panels = []
    for over, (instances, most) in VARIED.items():
        found = [(at, _instances(results)[at]) for at in instances if at in _instances(results)]
        if len(found) > 1:
            checks.append(_slope(over, found, most))
            panels.append(_panel(over, found))
    tables.append(learning_table(learnt, "excess risk, searched"))
    notes = (
        protocol_note(PROTOCOL),
        f"twice the rate is above the excess risk of w = 0 at every instance whose rate is above "
        f"{risk(np.zeros(10)) - risk(optimum(10)):.3g} / 2: there the bound says nothing",
    )
    return Findings(tuple(tables), (*checks, *learning_checks(learnt)), tuple(panels), notes)


def _instances(results: Results) -> dict[At, Results]:
    found = {}
    for r in results:
        at = At(r.cell.count("p"), r.cell.number("epsilon"), r.cell.count("digits"))
        found[at] = results.where(**asdict(at))
    return found


def _slope(over: str, found: list[tuple[At, Results]], most: float) -> Check:
    """The log-log slope of the judged means in what varies."""
    rows = [instance.one(method=OURS) for _, instance in found]
    means, errors = zip(*(mean_and_error(r.numbers("judged")) for r in rows), strict=True)
    fit = fit_power_law([number(over, at) for at, _ in found], means, errors)
    why = [
        f"{at.name}: {end} at the end"
        for (at, _), r in zip(found, rows, strict=True)
        for end in at_ends(r)
    ]
    return Check(
        f"{OURS}: log-log slope of the excess risk in {over}", fit.slope, upper=most + 0.1,
        margin=2 * fit.error, source=SLOPES, by=PROTOCOL, withheld="; ".join(why),
    )  # fmt: skip


def _panel(over: str, found: list[tuple[At, Results]]) -> Panel:
    series = []
    for method in METHODS:
        rows: list[Result] = [instance.one(method=method) for _, instance in found]
        means, errors = zip(*(mean_and_error(r.numbers("judged")) for r in rows), strict=True)
        x = tuple(number(over, at) for at, _ in found)
        series.append(Series(method, x, means, error=tuple(2 * e for e in errors)))
    return Panel(f"Over {over}", over, "excess risk", tuple(series))


srgd_dimensions = Experiment(
    name="srgd_dimensions",
    title="Accelerated-DP-SRGD over p, epsilon and delta, every method searched alike",
    source="Choquette-Choo, Ganesh and Thakurta 2024, Theorems 5.8 and 5.12",
    cells=cells,
    run=run,
    read=read,
    protocol=PROTOCOL,
)
