"""What the catalogue's entries of this paper share: the RAND data, and how an entry is made."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from dpaudit.arithmetic import Number
from dpaudit.claim import Claim
from dpaudit.curator import Program
from dpaudit.mechanism import Mechanism, Metric, Setting
from dpaudit.nodes import ZCDP
from dpaudit.query import Array, Records
from dpaudit.scope import Scope, central
from mechanisms import randhie
from mechanisms.kl.problem import KLProblem
from mechanisms.losses import Logistic, mean_value

PAPER = "Menart, Ullah, Arora, Bassily, Guzman 2023"
FEATURES, SIZE = 10, 16_150
LIPSCHITZ, SMOOTHNESS = math.sqrt(10), 2.5
RHO = Fraction(1, 2)
BETA = 0.05
# Losses are at least 0, and log 2 at the start: a bound that no record enters.
STARTING_GAP = math.log(2)
LOGISTIC = KLProblem(Logistic(), FEATURES, SIZE, LIPSCHITZ)
RIDGE = KLProblem(Logistic(l2=0.01), FEATURES, SIZE, LIPSCHITZ)
REPLACE_ONE, ZERO_OUT = central("replace_one"), central("zero_out")
CHOSEN = "every constant of the schedule was chosen without the data"


def load() -> randhie.RandHie:
    """The RAND data with public preprocessing, an intercept included."""
    return randhie.load(target="any_visit", preprocessing="public", clients=10, intercept="ones")


def records() -> Records:
    """All 16,150 training rows."""
    return Records(load().train)


@cache
def _holdout() -> Array:
    return np.asarray(load().holdout)


def losses_of(points: dict[str, Array]) -> tuple[Metric, ...]:
    """Mean logistic loss of released points on the hold-out rows, which are treated as public."""
    note = "on hold-out rows, which the guarantee does not cover"
    shown = {"at the start": LOGISTIC.initial(1), **points}
    return tuple(
        Metric(f"mean loss {name}", float(mean_value(Logistic(), x, _holdout())[0]), False, note)
        for name, x in shown.items()
    )


def evaluate(found: Any) -> tuple[Metric, ...]:
    """Of the released model: an array, or what has one as ``output``."""
    return losses_of({"of the output": getattr(found, "output", found)})


def stated(rho: Number, by: str, reading: str = "") -> Claim:
    """rho-zCDP."""
    return Claim(ZCDP(rho), by=by, reading=reading)


def entry(
    name: str,
    title: str,
    source: str,
    program: Program,
    claims: tuple[Claim, ...],
    covered: str,
    *notes: str,
    scope: Scope = REPLACE_ONE,
    expected: tuple[str, ...] = (),
    evaluated: Callable[[Any], tuple[Metric, ...]] = evaluate,
) -> Mechanism:
    """One algorithm on the RAND data, logistic regression."""
    setting = Setting(
        controller="the person who runs this command",
        unit_entity="row of the data (a person-year)",
        data="RAND Health Insurance Experiment",
        unit_bound=f"one row; a person contributes up to {randhie.ROWS_PER_PERSON_AT_MOST} rows",
        covered=(covered,),
        uncovered=("evaluation on 4,038 hold-out rows, treated as public",),
        invariants=("the number of records",),
        notes=(*randhie.CAVEATS, CHOSEN, *notes),
    )
    return Mechanism(
        name=name,
        title=f"{title}, logistic regression",
        source=source,
        program=program,
        scope=scope,
        claims=claims,
        setting=setting,
        records=records,
        evaluate=evaluated,
        expected=expected,
    )
