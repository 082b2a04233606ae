"""Small settings in which bugs under the KL condition are planted, and their correct twins.

KL-Spider with 3 phases of up to 3 steps on 500 records, the strongly convex solver with 10 steps on
50, adaptive descent on 1,000, a selection among 4 public points; rho = 1 everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any

import numpy as np

from audits.kl import spider, turned_round
from audits.kl_adaptive import Pulled, pulled
from dpaudit.accountant.claim import Claim
from dpaudit.audit.suite import Suite
from dpaudit.curator.curator import Curator, Program
from dpaudit.curator.mechanism import Mechanism, Setting
from dpaudit.exact import Number, sqrt
from dpaudit.families.opaque import GDP, ZCDP
from dpaudit.families.selection import ExponentialMechanism
from dpaudit.kernels.query import Array
from dpaudit.nodes import Node
from dpaudit.scope import Scope, central
from mechanisms.papers.kl.adaptive import AdaptiveNoisyGD
from mechanisms.papers.kl.condition import KLCondition
from mechanisms.papers.kl.problem import KLProblem
from mechanisms.papers.kl.proximal import RegularizedNoisyGD
from mechanisms.papers.kl.schedule import Constants, KLSpiderSchedule
from mechanisms.papers.kl.select import SELECT, exponential_choice, selection_epsilon
from mechanisms.papers.kl.spider import KLSpider

RHO = Fraction(1)
REPLACE_ONE = central("replace_one")
SETTING = Setting(
    controller="the test bench",
    unit_entity="record",
    unit_bound="one row",
    covered=("noisy releases",),
)
CLAIMS = (
    Claim(ZCDP(RHO), by="the theorem"),
    Claim(GDP(sqrt(2 * RHO)), by="the same noise, exactly composed"),
)


def mechanism(name: str, program: Program, claims: tuple[Claim, ...] = CLAIMS) -> Mechanism:
    """A mechanism in the setting above."""
    source = "Menart et al. 2023, Algorithms 1 to 4; wrong on purpose unless it says correct"
    return Mechanism(name, name.replace("_", " "), source, program, REPLACE_ONE, claims, SETTING)


def planted(bug: str, of: Mechanism, *caught_by: str, **parts: Any) -> Suite:
    """An audit of a declaration with one wrong part; the mechanism's own program by default."""
    program: Any = parts.pop("program", of.program)
    size = getattr(program, "problem", SPIDER_BENCH.problem).size
    options = {"trials": 2_000} | parts
    return Suite(of.name, program, turned_round(size), caught_by=caught_by, bug=bug, **options)


def parts_of(program: Any) -> dict[str, Any]:
    """The fields of a dataclass, for a class of the same fields."""
    return {f.name: getattr(program, f.name) for f in fields(program)}


# --- the benches ---------------------------------------------------------------------------------

SCHEDULE = KLSpiderSchedule(
    KLCondition(gamma=1.0, kappa=1.5),
    dimension=3,
    size=500,
    rho=RHO,
    beta=0.05,
    starting_gap=1.0,
    lipschitz=1.0,
    smoothness=1.0,
    constants=Constants(contraction=1.0, floor=0.5, steps_at_most=3),
    phases=3,
)
LINEAR = KLProblem(Pulled(2, 1.0), 0, 50, 1.0)
SPIDER_BENCH = spider(KLSpider(replace(LINEAR, size=500), SCHEDULE))
SOLVER_BENCH = RegularizedNoisyGD(LINEAR, RHO, 0.05, weak_convexity=1.0, max_steps=10)
ADAPTIVE_BENCH = AdaptiveNoisyGD(pulled(replace(LINEAR, size=1_000), 20, 0.03), RHO, 0.05, 1.0)


@dataclass(frozen=True)
class Chooser:
    """Chooses one of four public points by the gradient norms there."""

    problem: KLProblem
    factor: Number = Fraction(1)

    def declaration(self, scope: Scope) -> Node:
        return ExponentialMechanism(SELECT, self.factor * selection_epsilon(RHO, 2))

    def run(self, curator: Curator) -> Array:
        points = [np.full((curator.trials, 1), float(k)) for k in range(4)]
        return exponential_choice(curator, self.problem, points)


@dataclass(frozen=True)
class Opposed:
    """On the line: a canary has slope s at even points and -s at odd ones, bystanders 1/2."""

    def dimension(self, features: int) -> int:
        return 1

    def initial(self, features: int, trials: int, seed: int) -> Array:
        return np.zeros((trials, 1))

    def values(self, parameters: Any, records: Any) -> Array:
        return np.zeros((len(parameters), len(records)))

    def gradients(self, parameters: Any, records: Any) -> Array:
        signs = np.asarray(records)[:, 0]
        turned = np.where(np.asarray(parameters)[:, :1] % 2 == 0, signs, -signs)
        return np.asarray(np.where(signs == 0, 0.5, turned)[..., None])


CHOOSER_BENCH = Chooser(KLProblem(Opposed(), 0, 50, 1.0))
SELECTION = (Claim(ZCDP(RHO / 2), by="Theorem 5, by bounded range"),)

kl_spider_bench = mechanism("kl_spider_bench", SPIDER_BENCH)
solver_bench = mechanism("solver_bench", SOLVER_BENCH)
adaptive_bench = mechanism("adaptive_bench", ADAPTIVE_BENCH)
selection_bench = mechanism("selection_bench", CHOOSER_BENCH, SELECTION)
spider_twin = planted("none: KL-Spider, correct", kl_spider_bench)
solver_twin = planted("none: the solver, correct", solver_bench)
adaptive_twin = planted("none: adaptive descent, correct", adaptive_bench)
selection_twin = planted("none: the selection, correct", selection_bench)
