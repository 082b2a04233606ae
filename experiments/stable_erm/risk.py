"""Excess empirical risk of stable releases against items and users, beside output perturbation.

A release is the minimiser plus sigma Z, Z standard normal, so that its excess is (sigma Z)^2 / 2:
its slopes in m and n, and where it is ahead, are those of sigma^2, a public formula, and stand in
tables.  What can fail are the certificates at that sigma, the sampler, and who learns.

The loss is (theta - x)^2 / 2 in one dimension; user means are drawn directly, N(1/2, 1/m), so that
m can be as large as the break-even asks for, and not to learn, theta = 0, costs 1/8.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpaudit.curator.curator import Sampler
from dpaudit.exact import enclose
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
from experiments.stable_erm.never import Never
from mechanisms.papers.stable_erm.bounds import Size as Counts
from mechanisms.papers.stable_erm.bounds import break_even_items, gradient_radius
from mechanisms.papers.stable_erm.calibration import USERS, Constants
from mechanisms.papers.stable_erm.catalogue import (
    CALIBRATED,
    CALIBRATED_DIAMETER,
    DELTA,
    EPSILON,
    PRINTED,
)
from mechanisms.papers.stable_erm.certificate import (
    Certified,
    GradientCertificate,
    unit_of_radius,
)
from mechanisms.papers.stable_erm.polynomial import GridMean, WindowMeanScore
from mechanisms.papers.stable_erm.release import DeletionStableOutputPerturbation
from mechanisms.papers.stable_erm.solver import Minimiser, Quadratic
from mechanisms.papers.stable_erm.stable import Search, Statistic, count_subsets

USER_COUNT, BETA, MEAN = 2_000, 1e-3, 0.5
EXPONENTS = {Size.QUICK: (4, 7, 10), Size.FULL: (4, 5, 6, 7, 8, 9, 10)}
MANY_USERS, MANY_ITEMS = (4_000, 16_000, 64_000), 7
TRIALS = {Size.QUICK: 2_000, Size.FULL: 10_000}
NAMES = {
    "printed": "Algorithm 1, constants as printed (c1)",
    "quadratic": "least noise, quadratic certificate",
    "diameter": "diameter stability, its certificate",
    "window": "window score, polynomial time",
    "naive": "output perturbation",
}
GAIN = {"printed": PRINTED, "quadratic": CALIBRATED, "diameter": CALIBRATED_DIAMETER,
        "window": CALIBRATED}  # fmt: skip
ERRORS = 4.0  # standard errors of a mean of squared normal draws: a false alarm in 16,000
RULE = {"printed": "c1", "quadratic": "quadratic", "diameter": "diameter", "window": "quadratic"}


def cells(size: Size) -> list[Cell]:
    """Every method at every number of items; at one number of items, more users."""
    items = [(k, USER_COUNT) for k in EXPONENTS[size]]
    return [
        Cell.of(method=method, log10_items=k, users=n, trials=TRIALS[size])
        for method in NAMES
        for k, n in (*items, *((MANY_ITEMS, n) for n in MANY_USERS))
    ]


def naive_deviation(users: int = USER_COUNT) -> float:
    """sigma of output perturbation: 2 G / (mu n) over the analytic Gaussian's mu; G = mu = 1."""
    return 2 / users / float(enclose(gaussian_mu(EPSILON, DELTA)).mid())


def unit(method: str, items: float, users: int = USER_COUNT) -> float:
    """The unit at which a certificate passes for i.i.d. items, with probability 1 - beta."""
    radius = gradient_radius(1.0, Counts(users, 1, BETA)) / math.sqrt(items)
    kappa = GAIN[method].kappa
    return float(unit_of_radius(RULE[method], radius, 1.0, 1.0, users, kappa))


def deviation(method: str, items: float, users: int = USER_COUNT) -> float:
    """sigma of a method; a public number."""
    if method == "naive":
        return naive_deviation(users)
    return float(GAIN[method].noise_multiplier) * unit(method, items, users)


def run(cell: Cell, rng: np.random.Generator) -> Values:
    """Mean of (theta - minimiser)^2 / 2 over trials that are not bottom, and their share."""
    method, items = cell.text("method"), 10.0 ** cell.count("log10_items")
    users = cell.count("users")
    data = (MEAN + rng.standard_normal((users, 1, 1)) / math.sqrt(items)).clip(-1, 1)
    best, trials = float(data.mean()), cell.count("trials")
    if method == "naive":
        found = best + naive_deviation(users) * rng.standard_normal(trials)
    else:
        found = _released(method, items, Records(data), trials, rng)
    passed = found[~np.isnan(found)]
    risks = (passed - best) ** 2 / 2
    mean, error = mean_and_error(risks.tolist()) if passed.size else (math.inf, 0.0)
    share = float(passed.size / trials)
    return {"risk": mean, "error": error, "passed": share, "start": best**2 / 2}


def _released(
    method: str, items: float, records: Records, trials: int, rng: np.random.Generator
) -> Array:
    constants: Constants = GAIN[method]
    search: Search
    statistic: Statistic
    if method == "window":
        search, statistic = WindowMeanScore(), GridMean(1.0)
    else:
        # Where the certificate passes, as it does here, the exact search has the same law.
        certificate = GradientCertificate(RULE[method])
        search = Certified(certificate, Never(constants.distance))
        statistic = Minimiser(Quadratic())
    users = len(records)
    size = unit(method, items, users)
    program = DeletionStableOutputPerturbation(users, size, constants, statistic, search)
    sampler = Sampler(program.declaration(USERS), USERS, records, rng=rng, trials=trials)
    return np.asarray(program.run(sampler)[:, 0])


def read(results: Results) -> Findings:
    """What is released, sampled and learnt; slopes and break-even points beside sigma's."""
    usual = results.where(users=USER_COUNT)
    exponents = [int(k) for k in usual.parameters("log10_items")]
    items = [10.0**k for k in exponents]
    checks, series = [], []
    rows: list[tuple[str | float, ...]] = []
    slopes: list[tuple[str | float, ...]] = []
    risks = {name: _column(results, name, exponents, "risk") for name in NAMES}
    for name, label in NAMES.items():
        fit = fit_power_law(items, risks[name], _column(results, name, exponents, "error"))
        series.append(Series(f"{label} ({fit.slope:.2f})", tuple(items), tuple(risks[name])))
        rows.append((label, *risks[name]))
        in_items = fit_power_law(items, [deviation(name, m) ** 2 for m in items]).slope
        slopes.append((label, "m", fit.slope, 2 * fit.error, in_items))
        slopes.append((label, "n", *_in_users(results, name)))
        if name != "naive":  # which has no bottom, and is drawn here by its own formula
            checks += _released_as_stated(results.where(method=name), label)
    crossings = [
        (NAMES[name], _crossing(items, risks[name], risks["naive"]),
         break_even_items(deviation(name, 1.0), naive_deviation()))
        for name in ("quadratic", "diameter")
    ]  # fmt: skip
    shown = tuple(f"m = 1e{k}" for k in exponents)
    subsets = count_subsets(USER_COUNT, 4 * CALIBRATED.kappa + 1)
    solves = Table(
        f"Minimisers solved a release, n = {USER_COUNT}",
        ("how stability is found", "solves"),
        (
            ("enumeration (Algorithm 1)", f"about 1e{len(str(subsets)) - 1}"),
            ("certificate that passes (Appendix C), or output perturbation", "1"),
            ("window score", "none: sorted sums"),
        ),
    )
    panel = Panel(
        f"Excess empirical risk, n = {USER_COUNT}", "items a user m", "risk", tuple(series)
    )
    notes = (
        "certificates pass on all data drawn here; where one does not, the exact search would "
        "have to enumerate, which no run at this size can",
        "slopes and break-even points hold by construction: (sigma Z)^2 / 2 has mean sigma^2 / 2",
    )
    tables = (
        Table("Excess empirical risk", ("method", *shown), tuple(rows)),
        Table("Slopes, by construction",
              ("method", "in", "of the runs", "two standard errors", "of sigma^2"), tuple(slopes)),
        Table("Break-even with output perturbation, by construction",
              ("method", "items a user, of the runs", "of the formula"), tuple(crossings)),
        learning_table([_learnt(result) for result in results], "excess empirical risk"),
        solves,
    )  # fmt: skip
    learnt = learning_checks([_learnt(result) for result in results])
    return Findings(tables, (*checks, *learnt), (panel,), notes)


def _in_users(results: Results, name: str) -> tuple[float, float, float]:
    """The slope in n, two standard errors, and that of sigma^2, whose unit has a logarithm of n."""
    found = [_at(results, name, MANY_ITEMS, n) for n in MANY_USERS]
    users = [float(n) for n in MANY_USERS]
    fit = fit_power_law(
        users, [r.number("risk") for r in found], [r.number("error") for r in found]
    )
    own = fit_power_law(users, [deviation(name, 10.0**MANY_ITEMS, n) ** 2 for n in MANY_USERS])
    return fit.slope, 2 * fit.error, own.slope


def _released_as_stated(found: Results, label: str) -> list[Check]:
    """At every m and n: almost never bottom, and with the noise that is stated."""
    released = [r for r in found if r.number("passed") > 0]
    draws = [r.cell.count("trials") * r.number("passed") for r in released]
    total = math.fsum(draws)
    ratios = [
        2 * r.number("risk")
        / deviation(r.cell.text("method"), 10.0 ** r.cell.count("log10_items"),
                    r.cell.count("users")) ** 2
        for r in released
    ]  # fmt: skip
    mean, room = math.nan, ERRORS  # what no run releases has no mean, and is missed
    if total:
        mean = math.fsum(a * n for a, n in zip(ratios, draws, strict=True)) / total
        room = ERRORS * math.sqrt(2 / total)
    least = min(r.number("passed") for r in found)
    source = f"(sigma Z)^2 / 2 has mean sigma^2 / 2: {ERRORS:g} standard errors of the draws"
    return [
        Check(f"{label}: least share not bottom", least, 1 - BETA, 1.0,
              source=f"Theorem 3.1: released but for beta = {BETA:g}"),
        Check(f"{label}: mean excess over sigma^2 / 2", mean, 1 - room, 1 + room, source=source),
    ]  # fmt: skip


def _learnt(result: Result) -> Learnt:
    of = result.cell
    sizes = f"n = {of.count('users'):,}, m = 1e{of.count('log10_items')}"
    method = f"{NAMES[of.text('method')]}, {sizes}"
    return Learnt(method, *(result.number(name) for name in ("risk", "start", "error")))


def _at(results: Results, name: str, exponent: int, users: int = USER_COUNT) -> Result:
    return results.one(method=name, log10_items=exponent, users=users)


def _column(results: Results, name: str, exponents: Sequence[int], value: str) -> list[float]:
    return [_at(results, name, k).number(value) for k in exponents]


def _crossing(items: Sequence[float], ours: Sequence[float], naive: Sequence[float]) -> float:
    """Where the fitted risk falls to the mean of the flat one."""
    fit = fit_power_law(items, ours)
    return float(math.exp((math.log(float(np.mean(naive))) - fit.intercept) / fit.slope))


stable_risk = Experiment(
    name="stable_risk",
    title="Excess risk of stable releases against items and users, and the break-even",
    source="Ghazi et al. 2023, Theorem 3.1, with the certificates and constants of the catalogue",
    cells=cells,
    run=run,
    read=read,
    alone=(
        "Algorithm 1, constants as printed (c1):",
        "least noise",
        "diameter stability",
        "window score",
    ),
)
