"""Algorithms 3 to 6 in d dimensions, on a loss that is not smooth: the noise terms of Table 1.

Constants of the noise and numbers of phases are those printed; lambda is ours (see ``program``).
The sampling terms 1 / sqrt(n m) and 1 / (n m) of Algorithms 4 and 6 are below the noise throughout.
Items are +-level in each coordinate, so that a user's m items are a share a coordinate, and m may
be as large as the printed noise asks for.  The loss is the distance to an item in every coordinate,
over sqrt(d), with a ridge for the strongly convex algorithms.  Every phase's certificate is that of
Appendix C; the excess shown is the largest over tilts of the items, since a rate is a worst case.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from dpaudit.curator.curator import Sampler
from dpaudit.kernels.query import Array, Records
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
from experiments.stable_erm.never import Never
from mechanisms.papers.stable_erm import build
from mechanisms.papers.stable_erm.bounds import Size as Counts
from mechanisms.papers.stable_erm.bounds import gaussian_norm_bound, gradient_radius
from mechanisms.papers.stable_erm.calibration import USERS
from mechanisms.papers.stable_erm.catalogue import DELTA, EPSILON
from mechanisms.papers.stable_erm.certificate import Certified, GradientCertificate, unit_of_radius
from mechanisms.papers.stable_erm.domains import Ball, Box
from mechanisms.papers.stable_erm.localised import Localised, ball_radius
from mechanisms.papers.stable_erm.phased import Phases
from mechanisms.papers.stable_erm.problem import DeltaRule, Problem, erm_phases
from mechanisms.papers.stable_erm.sharp import Shares

NAMES = {
    "erm": "Algorithm 3, convex ERM",
    "sco": "Algorithm 4, convex SCO",
    "strong_erm": "Algorithm 5, strongly convex ERM",
    "strong_sco": "Algorithm 6, strongly convex SCO",
}
STRONG = ("strong_erm", "strong_sco")
# Users, log10 of items and dimensions; the first of each is the usual one.
USER_COUNTS = {
    "erm": (32_768, 49_152, 65_536, 81_920),
    "sco": (32_768, 65_536, 131_072),
    "strong_erm": (65_536, 98_304, 131_072),
    "strong_sco": (32_768, 65_536, 131_072),
}
# Where n varies: all of these leave less than a tenth of a unit to rounding, which is public and
# was computed before the run.  At the usual m of 1e20 rounding took up to .45 of it.
OTHER_ITEMS = {"erm": 19}
EXPONENTS = {"erm": (20, 19, 21), "sco": (8, 7, 9), "strong_erm": (22, 23, 24),
             "strong_sco": (11, 10, 12)}  # fmt: skip
DIMENSIONS = (4, 2, 8)
LEVEL, SHARP_LEVEL, MODULUS = 0.5, 0.1, 1.0
TILTS = (0.5, 1.0, 2.0, 4.0)
TRIALS = 4
# Data sets, each with so many runs; what runs for milliseconds has more.
DRAWS = {"erm": 6, "sco": 30, "strong_erm": 3, "strong_sco": 30}
TABLE_1 = {
    False: "Table 1: R G sqrt(d) / (n sqrt(m)), its logarithms taken out; .2 ours",
    True: "Table 1: G^2 d / (mu n^2 m), its logarithms taken out; .2 ours",
}
PASSES = "Lemma C.1: passes with probability 1 - beta"
SLOPES = {  # users, items, dimension: R = 2 sqrt(d) where the loss is convex
    False: {"users": -1.0, "log10_items": -0.5, "dimension": 1.0},
    True: {"users": -2.0, "log10_items": -1.0, "dimension": 1.0},
}
# A rate is read where rounding is at most so much of a unit: printed noise asks for an m so large
# that shares of it are near the last bits of a float.
MOST_ROUNDING = 0.1
SAID = {"users": "n", "log10_items": "m", "dimension": "d"}
WIDTH = 0.2


def cells(size: Size) -> list[Cell]:
    """Every algorithm at the usual n, m and d, and with one of them changed."""
    found = []
    for kind in NAMES:
        usual = USER_COUNTS[kind][0], EXPONENTS[kind][0], DIMENSIONS[0]
        grid = [usual]
        if size is Size.FULL:
            items = OTHER_ITEMS.get(kind, usual[1])
            grid += [(n, items, usual[2]) for n in USER_COUNTS[kind][1:]]
            grid += [(usual[0], k, usual[2]) for k in EXPONENTS[kind][1:]]
            grid += [(*usual[:2], d) for d in DIMENSIONS[1:]]
        elif "strong" in kind:
            continue
        found += [
            Cell.of(n * d * erm_phases(n, 10**k), algorithm=kind, users=n, log10_items=k,
                    dimension=d, draws=1 if size is Size.QUICK else DRAWS[kind])
            for n, k, d in grid
        ]  # fmt: skip
    return found


def program(kind: str, users: int, items: int, d: int) -> Any:
    """The algorithm at (1, 1e-6), printed constants, T of the paper; lambda for its noise.

    The paper's lambda leaves out constants and logarithms; here it is (G / R) sqrt(d) s, s the
    noise of a phase in units of G / lambda_i, for which the first phase's noise is R / 4.
    """
    domain = Ball(math.sqrt(d)) if kind in STRONG else Box(1.0, d)
    loss = Shares(SHARP_LEVEL, MODULUS) if kind in STRONG else Shares(LEVEL)
    problem = Problem(loss, domain, users, items, d, 1.0)
    search = Certified(GradientCertificate("c1"), Never())
    makers: dict[str, Any] = {
        "erm": build.phased_erm,
        "sco": build.phased_sco,
        "strong_erm": build.strongly_convex_erm,
        "strong_sco": build.strongly_convex_sco,
    }
    made = makers[kind](problem, EPSILON, DELTA, constants="paper", search=search)
    beta = 1 / (users * items * erm_phases(users, items))
    rule = DeltaRule("c1", gamma=gradient_radius(1.0, Counts(users, items, beta)))
    if not isinstance(made, Localised):
        return _balanced(replace(made, rule=rule), domain.diameter)
    first = replace(made.first, rule=rule)
    made = replace(made, first=first)
    radius = ball_radius(first, made.beta, made.more)
    return replace(made, phases=_balanced(replace(made.phases, rule=rule), made.reach * radius))


def _balanced(phases: Phases, size: float) -> Any:
    return replace(phases, weight=math.sqrt(phases.problem.dimension) * spread(phases) / size)


def spread(phases: Phases) -> float:
    """s: the noise of the first phase in units of G / lambda_1, which lambda hardly moves."""
    users = getattr(phases, "sizes", (phases.problem.users,))[0]
    unit = phases.rule.unit(phases.problem, 2.0, 1.0, users, phases.constants.kappa)
    return float(phases.constants.noise_multiplier) * float(unit)


def run(cell: Cell, rng: np.random.Generator) -> Values:
    """Excess of each data set at the worst tilt and at the largest, and phases that passed.

    Who learns is asked at the largest tilt, where the start is furthest off.
    """
    kind, d = cell.text("algorithm"), cell.count("dimension")
    made = program(kind, cell.count("users"), 10 ** cell.count("log10_items"), d)
    phases: Phases = made.phases if isinstance(made, Localised) else made
    s = spread(phases)
    found = [
        [
            _tilted(kind, made, tilt * math.sqrt(d) * s, cell, rng)
            for _ in range(cell.count("draws"))
        ]
        for tilt in TILTS
    ]
    passed = min(one[2] for draws in found for one in draws)
    # One number a data set: its runs share the data.
    excess = [[float(one[0].mean()) for one in draws] for draws in found]
    worst = max(range(len(TILTS)), key=lambda k: float(np.mean(excess[k])))
    rate = s * math.sqrt(d) * 2 * math.sqrt(d)
    if isinstance(made, Localised):
        rate = s * math.sqrt(d) * made.reach * made.radius
    return {
        "excess": excess[worst], "tilt": TILTS[worst],
        "largest": excess[-1], "far": float(np.mean([one[1] for one in found[-1]])),
        "passed": passed, "rate": rate, "phases": phases.count, "kappa": phases.constants.kappa,
    }  # fmt: skip


def _tilted(
    kind: str, made: Any, tilt: float, cell: Cell, rng: np.random.Generator
) -> tuple[Array, float, float]:
    """Excess of every trial, that of the start, and the share of phases that were not bottom."""
    users, d = cell.count("users"), cell.count("dimension")
    level, modulus = (SHARP_LEVEL, MODULUS) if kind in STRONG else (LEVEL, 0.0)
    # With a ridge the minimiser is at the kink, and left of it hardly worse.
    mean = min(tilt + math.sqrt(d) * level * modulus, 1.0)
    chance = (1 + mean) / 2
    noise = math.sqrt(chance * (1 - chance) / 10.0 ** cell.count("log10_items"))
    shares = (chance + noise * rng.standard_normal((users, 1, d))).clip(0, 1)
    declared = made.declaration(USERS)
    curator = Sampler(declared, USERS, Records(shares), rng=rng, trials=TRIALS)
    output = made.run(curator)
    share = np.full(d, chance) if kind.endswith("sco") else shares[:, 0].mean(axis=0)
    domain = Ball(math.sqrt(d)) if kind in STRONG else Box(1.0, d)
    least = minimiser(share, level, modulus, domain)

    def excess(points: Array) -> Array:
        return objective(points, share, level, modulus) - objective(least, share, level, modulus)

    start = float(excess(np.zeros((1, d)))[0])
    return excess(output.output), start, 1 - float(output.failed.mean())


def objective(points: Array, share: Array, level: float, modulus: float) -> Array:
    """The mean loss at points (k, d), where ``share`` of items are +level."""
    away = share * np.abs(points - level) + (1 - share) * np.abs(points + level)
    whole = away.sum(axis=-1) / math.sqrt(points.shape[-1])
    return np.asarray(whole + modulus / 2 * np.square(points).sum(axis=-1))


def minimiser(share: Array, level: float, modulus: float, domain: Box | Ball) -> Array:
    """(1, d): between the levels, where the ridge balances the tilt, or at a level."""
    tilt = (2 * share - 1) / math.sqrt(len(share))
    free = tilt / modulus if modulus else np.sign(tilt) * np.inf
    return domain.project(np.clip(free, -level, level)[None])


def read(results: Results) -> Findings:
    """Slopes of the worst excess beside Table 1's, certificates that passed, and who learns."""
    checks: list[Check] = []
    rows: list[tuple[str | float, ...]] = []
    series: list[Series] = []
    learnt = []
    for kind, name in NAMES.items():
        own = results.where(algorithm=kind)
        if not own.rows:
            continue
        usual = own.rows[0]
        learnt.append(_learnt(name, usual))
        for result in own:
            mean, error = mean_and_error(result.numbers("excess"))
            rows.append(
                (name, result.cell.count("users"), f"1e{result.cell.count('log10_items')}",
                 result.cell.count("dimension"), result.number("phases"), result.number("kappa"),
                 mean, error, result.number("rate"), rounding(kind, *_sizes(result)))
            )  # fmt: skip
        passed = min(result.number("passed") for result in own)
        label = f"{name}: least share of phases whose certificate passed"
        checks.append(Check(label, passed, lower=1.0, source=f"{PASSES} on i.i.d. users"))
        checks += [c for axis in SAID for c in _slope(own, kind, axis)]
        ordered = sorted(own, key=lambda r: r.number("rate"))
        x = tuple(r.number("rate") for r in ordered)
        means = [mean_and_error(r.numbers("excess")) for r in ordered]
        series.append(Series(name, x, tuple(m for m, _ in means), "",
                             error=tuple(2 * e for _, e in means)))  # fmt: skip
    columns = ("algorithm", "n", "m", "d", "phases T", "kappa", "worst excess", "standard error",
               "R G sqrt(d) s", "rounding")  # fmt: skip
    tables = (
        Table("Largest mean excess over tilts", columns, tuple(rows)),
        learning_table(learnt, "excess at the largest tilt"),
    )
    notes = (
        "m is what the printed noise asks for: with fewer items a user the first phase's noise is "
        "beyond the domain",
        "lambda is (G / R) sqrt(d) s, s the actual noise in units of G / lambda_i; printed without "
        "constants and logarithms it is so much smaller that phases only stir",
        "slopes are those of the excess over s n sqrt(m) (strongly convex: over its square), s = "
        "noise multiplier times the unit of Lemma C.1, which holds the logarithms",
        f"slopes are read where at most {MOST_ROUNDING} of a unit is for rounding, by a rule made "
        "after Algorithm 3 had missed its slope in n at m = 1e20; its grid was then chosen so that "
        "every cell is read, before it was run anew. Floats are too short for Algorithm 5 at any "
        "m that its noise allows here: no rate of it is read",
        "the sampling term 1 / sqrt(n m) of Theorems 5.1 and 5.3 is below the noise at every size",
    )
    panel = Panel("Worst excess beside R G sqrt(d) s", "R G sqrt(d) s", "excess", tuple(series))
    return Findings(tables, (*checks, *learning_checks(learnt)), (panel,), notes)


def _learnt(name: str, usual: Result) -> Learnt:
    mean, error = mean_and_error(usual.numbers("largest"))
    return Learnt(f"{name}, largest tilt", mean, usual.number("far"), error)


def _slope(own: Results, kind: str, axis: str) -> list[Check]:
    """The slope along one axis, the logarithms taken out; none where too few cells are exact."""
    usual = own.rows[0].cell
    others = {name: usual.count(name) for name in SAID if name != axis}
    if axis == "users":
        others["log10_items"] = OTHER_ITEMS.get(kind, others["log10_items"])
    exact = [r for r in own.where(**others) if rounding(kind, *_sizes(r)) <= MOST_ROUNDING]
    along = sorted(exact, key=lambda r: r.cell.count(axis))
    if len(along) < 2:
        return []
    values = [10.0 ** r.cell.count(axis) if axis == "log10_items" else float(r.cell.count(axis))
              for r in along]  # fmt: skip
    means, errors = zip(*(mean_and_error(r.numbers("excess")) for r in along), strict=True)
    logs = [logarithms(kind, *_sizes(r)) for r in along]
    fit = fit_power_law(values, _over(means, logs), _over(errors, logs))
    wanted = SLOPES[kind in STRONG][axis]
    name, low, high = f"{NAMES[kind]}: slope in {SAID[axis]}", wanted - WIDTH, wanted + WIDTH
    return [Check(name, fit.slope, low, high, margin=2 * fit.error, source=TABLE_1[kind in STRONG])]


def _sizes(result: Result) -> tuple[int, int, int]:
    cell = result.cell
    return cell.count("users"), cell.count("log10_items"), cell.count("dimension")


@lru_cache(maxsize=64)
def rounding(kind: str, users: int, exponent: int, d: int) -> float:
    """How much of the first phase's unit is for rounding; a public number."""
    made = program(kind, users, 10**exponent, d)
    phases: Phases = made.phases if isinstance(made, Localised) else made
    first = getattr(phases, "sizes", (users,))[0]
    return 1 - _stated(phases, first) / spread(phases)


def _over(values: Sequence[float], by: Sequence[float]) -> list[float]:
    return [value / one for value, one in zip(values, by, strict=True)]


@lru_cache(maxsize=32)
def logarithms(kind: str, users: int, exponent: int, d: int) -> float:
    """What Table 1 hides, times constants: the rate that the noise gives, without n, m and d.

    From the unit of Lemma C.1 alone: what a unit holds for rounding is no logarithm.
    """
    made = program(kind, users, 10**exponent, d)
    counted = users * math.sqrt(10.0**exponent)
    if not isinstance(made, Localised):
        return _stated(made, getattr(made, "sizes", (users,))[0]) * counted
    phases = made.phases
    inner = _stated(phases, getattr(phases, "sizes", (users,))[0])
    first = _stated(made.first, users)
    norm = gaussian_norm_bound(d, made.beta) / math.sqrt(d)
    return inner * first * norm * counted**2


def _stated(part: Any, users: int) -> float:
    """The noise multiplier times Lemma C.1's unit at modulus 1."""
    kappa = part.constants.kappa
    unit = unit_of_radius("c1", part.rule.gamma, 1.0, math.inf, users, kappa)
    return float(part.constants.noise_multiplier) * float(unit)


stable_rates = Experiment(
    name="stable_rates",
    title="Algorithms 3 to 6 in d dimensions on a loss that is not smooth: rates of Table 1",
    source="Ghazi et al. 2023, Theorems 4.1, 4.3, 5.1 and 5.3, Table 1 and Appendix C",
    cells=cells,
    run=run,
    read=read,
    alone=("",),
)
