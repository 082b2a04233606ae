"""Algorithms 3 to 6 as printed on real rows: a hinge loss, m > 1, d > 1, T = ceil(log2 nm).

The RAND rows, dealt to users at random, say who saw a doctor.  With every phase's certificate, that
of Appendix C, a run ends in polynomial time and no subset is enumerated.  The printed noise is far
beyond the domain at so few rows: what is left of it, and the same runs with it taken away (which is
not private), stand beside each other.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from dpaudit.curator.curator import Sampler
from dpaudit.kernels.query import Array, Records
from experiments.lab.fits import mean_and_error
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
from experiments.stable_erm.never import Never
from experiments.stable_erm.rates import NAMES, PASSES, STRONG
from mechanisms.papers.stable_erm import build
from mechanisms.papers.stable_erm.bounds import Size as Counts
from mechanisms.papers.stable_erm.bounds import gradient_radius
from mechanisms.papers.stable_erm.calibration import USERS
from mechanisms.papers.stable_erm.catalogue import EPSILON
from mechanisms.papers.stable_erm.certificate import Certified, GradientCertificate
from mechanisms.papers.stable_erm.data import users_of
from mechanisms.papers.stable_erm.domains import Ball
from mechanisms.papers.stable_erm.localised import Localised
from mechanisms.papers.stable_erm.phased import Phases
from mechanisms.papers.stable_erm.problem import DeltaRule, Problem, erm_phases
from mechanisms.papers.stable_erm.sharp import Hinge
from mechanisms.papers.stable_erm.solver import Minimiser, Pull

ROWS, FEATURES = 16_150, 11  # ten features, and the label
NORM, MODULUS = math.sqrt(10), 0.5
DOMAIN = Ball(1.0)
# Algorithm 5 needs 8,194 users at delta = 1e-6, which two rows each leave no room for.
DELTA = Fraction(1, 10**5)
ITEMS = {"erm": (2,), "sco": (2, 8), "strong_erm": (2,), "strong_sco": (2, 8)}
SEEDS = {Size.QUICK: 2, Size.FULL: 5}
NOISES = {"printed": "constants as printed", "none": "noise taken away, not private"}
QUIET = Fraction(1, 10**30)  # of the printed noise multiplier: it is 10^4 to 10^10 domains wide


def cells(size: Size) -> list[Cell]:
    """Every algorithm with its noise and without, on users dealt anew by every seed."""
    kinds = ("sco",) if size is Size.QUICK else tuple(NAMES)
    return [
        Cell.of(15.0 if "erm" in kind else 4.0, algorithm=kind, items=m, noise=noise, seed=s)
        for kind in kinds
        for m in (ITEMS[kind] if size is Size.FULL else ITEMS[kind][:1])
        for noise in NOISES
        for s in range(SEEDS[size])
    ]


def program(kind: str, items: int, noise: str) -> Any:
    """The algorithm at (1, 1e-5), constants and lambda as printed, T of the paper."""
    loss = Hinge(MODULUS if kind in STRONG else 0.0, NORM)
    users = ROWS // items
    problem = Problem(loss, DOMAIN, users, items, FEATURES, NORM)
    makers: dict[str, Any] = {
        "erm": build.phased_erm,
        "sco": build.phased_sco,
        "strong_erm": build.strongly_convex_erm,
        "strong_sco": build.strongly_convex_sco,
    }
    search = Certified(GradientCertificate("c1"), Never())
    made = makers[kind](problem, EPSILON, DELTA, constants="paper", search=search)
    beta = 1 / (users * items * erm_phases(users, items))
    rule = DeltaRule("c1", gamma=gradient_radius(NORM, Counts(users, items, beta)))
    if not isinstance(made, Localised):
        return _changed(made, rule, noise)
    # Without noise the ball keeps its printed radius: one of its own noise is below any float's.
    more = made.radius if noise == "none" else made.more
    first, phases = (_changed(part, rule, noise) for part in (made.first, made.phases))
    return replace(made, first=first, phases=phases, more=more)


def _changed(part: Any, rule: DeltaRule, noise: str) -> Any:
    constants = part.constants
    if noise == "none":
        least = constants.noise_multiplier * QUIET
        constants = replace(constants, noise_multiplier=least)
    return replace(part, rule=rule, constants=constants)


def run(cell: Cell, rng: np.random.Generator) -> Values:
    """The mean loss of the output, at the start and at least; phases that passed, and the noise."""
    kind, items = cell.text("algorithm"), cell.count("items")
    made = program(kind, items, cell.text("noise"))
    rows = users_of(ROWS, 1, "logistic")[rng.permutation(ROWS)]
    users = rows[: ROWS // items * items].reshape(-1, items, FEATURES)
    curator = Sampler(made.declaration(USERS), USERS, Records(users), rng=rng, trials=1)
    found = made.run(curator)
    phases: Phases = made.phases if isinstance(made, Localised) else made
    loss = Hinge(MODULUS if kind in STRONG else 0.0, NORM)
    everyone = np.ones((1, len(users)), dtype=bool)
    nearly_none = Pull(1e-6, np.zeros((1, FEATURES - 1)))
    least = Minimiser(loss, DOMAIN, nearly_none).at(users, everyone)[0]
    first = made.first.deviation if isinstance(made, Localised) else _deviation(phases)
    return {
        "loss": _mean_loss(loss, found.output, users),
        "start": _mean_loss(loss, np.zeros((1, FEATURES - 1)), users),
        "least": _mean_loss(loss, least, users),
        "passed": 1 - float(found.failed.mean()),
        "phases": found.failed.shape[1],
        "kappa": phases.constants.kappa,
        "noise": first * math.sqrt(FEATURES - 1) / DOMAIN.diameter,
    }


def _deviation(phases: Phases) -> float:
    return phases.deviation(1, getattr(phases, "sizes", (phases.problem.users,))[0])


def _mean_loss(loss: Hinge, point: Array, users: Array) -> float:
    """The mean hinge loss of all items at one point (1, d), with the ridge."""
    margins = 1 - loss.items(users).reshape(-1, FEATURES - 1) @ point[0]
    ridge = loss.modulus / 2 * float(np.square(point).sum())
    return float(np.maximum(margins, 0.0).mean()) + ridge


def read(results: Results) -> Findings:
    """Certificates that passed; who learns, with the noise and without."""
    checks: list[Check] = []
    rows: list[tuple[str | float, ...]] = []
    learnt = []
    for kind, name in NAMES.items():
        own = results.where(algorithm=kind)
        if not own.rows:
            continue
        passed = min(result.number("passed") for result in own)
        label = f"{name}: least share of phases whose certificate passed"
        checks.append(
            Check(label, passed, lower=1.0, source=f"{PASSES} over users dealt at random")
        )
        for items in own.parameters("items"):
            for noise, said in NOISES.items():
                found = own.where(items=items, noise=noise)
                above = [r.number("loss") - r.number("least") for r in found]
                mean, error = mean_and_error(above)
                at_start = [r.number("start") - r.number("least") for r in found]
                method = f"{name}, m = {items}, {said}"
                learnt.append(Learnt(method, mean, mean_and_error(at_start)[0], error))
                one = found.rows[0]
                rows.append(
                    (name, ROWS // int(items), items, said, one.number("phases"),
                     one.number("kappa"), one.number("noise"), mean, error)
                )  # fmt: skip
    columns = ("algorithm", "n", "m", "noise", "releases", "kappa",
               "first noise over the diameter", "excess", "standard error")  # fmt: skip
    table = Table("Hinge loss on the RAND rows, d = 10, domain of radius 1", columns, tuple(rows))
    notes = (
        "users are dealt from the rows at random, as the bounds of utility ask for; the file names "
        "no person",
        "(1, 1e-5) in all; a phase whose certificate fails would be bottom, and is not enumerated",
        "where noise is taken away, Algorithms 5 and 6 keep the ball of the printed noise",
        "noise beyond the domain leaves a random point of it, whatever the data: m is then too "
        "small for the printed constants, which no theorem's O(.) excludes",
    )
    axes = ("first noise over the diameter", "excess over its start's")
    points = tuple(_series(results, noise) for noise in NOISES)
    panel = Panel("A point a run", *axes, points, "linear")
    return Findings(
        (table, learning_table(learnt, "mean excess")),
        (*checks, *learning_checks(learnt)),
        (panel,),
        notes,
    )


def _series(results: Results, noise: str) -> Series:
    found = results.where(noise=noise)
    share = [
        (r.number("loss") - r.number("least")) / (r.number("start") - r.number("least"))
        for r in found
    ]
    return Series(NOISES[noise], tuple(r.number("noise") for r in found), tuple(share), "")


stable_data = Experiment(
    name="stable_data",
    title="Algorithms 3 to 6 as printed on the RAND rows: a hinge loss, m > 1, d = 10",
    source="Ghazi et al. 2023, Theorems 4.1, 4.3, 5.1 and 5.3 and Appendix C",
    cells=cells,
    run=run,
    read=read,
    alone=("",),
)
