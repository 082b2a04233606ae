"""What the catalogue's entries of this paper share: the RAND data, and how an entry is made."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from dpaudit.accountant.claim import Claim
from dpaudit.curator.curator import Program
from dpaudit.curator.mechanism import Mechanism, Metric
from dpaudit.exact import Number
from dpaudit.families.opaque import ZCDP
from dpaudit.kernels.query import Array
from dpaudit.scope import Scope, central
from mechanisms.papers.common.free import Build, on_rows
from mechanisms.papers.common.losses import Logistic
from mechanisms.papers.common.rand_entries import holdout_losses, rand_setting, records
from mechanisms.papers.kl.problem import KLProblem

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


def losses_of(points: dict[str, Array]) -> tuple[Metric, ...]:
    """Mean logistic loss of released points on the hold-out rows, which are treated as public."""
    return holdout_losses(Logistic(), {"at the start": LOGISTIC.initial(1), **points})


def evaluate(found: Any) -> tuple[Metric, ...]:
    """Of the released model: an array, or what has one as ``output``."""
    return losses_of({"of the output": getattr(found, "output", found)})


def stated(rho: Number, by: str, reading: str = "") -> Claim:
    """rho-zCDP."""
    printed = by.startswith(f"{PAPER}, ")
    states = "it states its multiple of rho for every rho > 0; this rho was chosen here"
    return Claim(ZCDP(rho), by=by, reading=reading, states=states if printed else "")


def corrected(theorem: str) -> str:
    """Who states what a theorem prints of an algorithm that was changed so that it holds."""
    return f"dpaudit 2026, of the corrected algorithm; printed is {theorem}"


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
    unexamined: str = "",
    build: Build | None = None,
) -> Mechanism:
    """One algorithm on the RAND data, logistic regression; ``build`` makes it for other rows."""
    title = f"{title}, logistic regression"
    return Mechanism(
        name=name,
        title=title,
        source=source,
        program=program,
        scope=scope,
        claims=claims,
        setting=rand_setting(covered, ("the number of records",), CHOSEN, *notes),
        records=records,
        evaluate=evaluated,
        expected=expected,
        unexamined=unexamined,
        for_shape=None if build is None else on_rows(build, name, title, source, scope),
    )
