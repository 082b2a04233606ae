"""Excess empirical risk of stable releases against items and users, beside output perturbation.

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
from lab.fits import fit_power_law, mean_and_error
from lab.learning import Learnt, learning_checks, learning_table
from lab.model import (
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
    Void,
    unit_of_radius,
)
from mechanisms.papers.stable_erm.polynomial import GridMean, WindowMeanScore
from mechanisms.papers.stable_erm.release import DeletionStableOutputPerturbation
from mechanisms.papers.stable_erm.solver import Minimiser, Quadratic
from mechanisms.papers.stable_erm.stable import Found, Search, Statistic, count_subsets

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


def deviation(method: str, items: float) -> float:
    """sigma of a method, on the usual number of users."""
    if method == "naive":
        return naive_deviation()
    return float(GAIN[method].noise_multiplier) * unit(method, items)


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


class Never(Void):
    """Bottom where no certificate passes, to show that it does not happen; no guarantee."""

    def find(self, statistic: Statistic, users: Array, unit: Array | float, kappa: int) -> Found:
        """A score that never passes."""
        found = super().find(statistic, users, unit, kappa)
        return Found(found.scores + 2 * kappa + 1, found.vectors)


def read(results: Results) -> Findings:
    """Slopes in m and n, break-even points against the formula, shares that are not bottom."""
    usual = results.where(users=USER_COUNT)
    exponents = [int(k) for k in usual.parameters("log10_items")]
    items = [10.0**k for k in exponents]
    checks, series = [], []
    rows: list[tuple[str | float, ...]] = []
    risks = {name: _column(results, name, exponents, "risk") for name in NAMES}
    for name, label in NAMES.items():
        errors = _column(results, name, exponents, "error")
        fit = fit_power_law(items, risks[name], errors)
        series.append(Series(f"{label} ({fit.slope:.2f})", tuple(items), tuple(risks[name])))
        rows.append((label, *risks[name], fit.slope))
        band = (-0.05, 0.05) if name == "naive" else (-1.05, -0.95)
        checks.append(Check(f"{label}: slope in m", fit.slope, *band, margin=2 * fit.error,
                            source="acceptance 4"))  # fmt: skip
        if name != "naive":  # which has no bottom
            least = min(_column(results, name, exponents, "passed"))
            checks.append(Check(f"{label}: least share not bottom", least, 1 - 1e-3, 1.0,
                                source="acceptance 3"))  # fmt: skip
    for name, label in NAMES.items():
        by_users = [_at(results, name, MANY_ITEMS, n) for n in MANY_USERS]
        fit = fit_power_law([float(n) for n in MANY_USERS], [r.number("risk") for r in by_users],
                            [r.number("error") for r in by_users])  # fmt: skip
        checks.append(Check(f"{label}: slope in n", fit.slope, -2.15, -1.9, margin=2 * fit.error,
                            source="Theorem 3.1: sigma falls as 1/n"))  # fmt: skip
    for name in ("quadratic", "diameter"):
        measured = _crossing(items, risks[name], risks["naive"])
        stated = break_even_items(deviation(name, 1.0), naive_deviation())
        checks.append(Check(f"{NAMES[name]}: break-even over the formula's", measured / stated,
                            0.5, 2.0, source="acceptance 4"))  # fmt: skip
    shown = tuple(f"m = 1e{k}" for k in exponents)
    table = Table("Excess empirical risk", ("method", *shown, "slope"), tuple(rows))
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
        without_draws(),
    )
    learnt = [_learnt(result) for result in results]
    tables = (table, learning_table(learnt, "excess empirical risk"), solves)
    return Findings(tables, (*checks, *learning_checks(learnt)), (panel,), notes)


def without_draws() -> str:
    """The slopes in n that sigma^2 alone has: the unit of a certificate holds a logarithm of n."""
    users = [float(n) for n in MANY_USERS]
    slopes = {
        name: fit_power_law(users, [unit(name, 1.0, n) ** 2 for n in MANY_USERS]).slope
        for name in NAMES
        if name != "naive"
    }
    said = ", ".join(f"{slope:.3f} ({NAMES[name]})" for name, slope in slopes.items())
    return f"slopes in n of sigma^2, which no draws are in: {said}; measured ones vary around them"


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
)
