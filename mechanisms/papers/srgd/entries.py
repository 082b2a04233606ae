"""The problem of the catalogue's entries, and how an entry is made: RAND data, or declared only."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from dpaudit.accountant.claim import Claim
from dpaudit.curator.curator import Program
from dpaudit.curator.mechanism import Mechanism, Metric, Setting
from dpaudit.exact import sqrt
from dpaudit.families.opaque import ApproxDP
from dpaudit.scope import central
from mechanisms.papers.common.free import Build, on_rows
from mechanisms.papers.common.rand_entries import holdout_losses, rand_setting, records
from mechanisms.papers.srgd.accelerated import DPSRGD, AcceleratedDPSRGD
from mechanisms.papers.srgd.constants import Constants
from mechanisms.papers.srgd.gradient import StochasticRecursiveGradient, of_constants
from mechanisms.papers.srgd.problem import BoundedLogistic, Solution

PAPER = "Choquette-Choo, Ganesh and Thakurta 2024"
EPSILON, DELTA = Fraction(1), Fraction(1, 10**6)
SIZE = 16_150
FEATURES = 10
RADIUS = 2
# Ten features in [-1, 1]: logistic loss is sqrt(10)-Lipschitz and 10/4 smooth.
LIPSCHITZ, SMOOTHNESS = sqrt(Fraction(FEATURES)), Fraction(FEATURES, 4)
ZERO_OUT = central("zero_out")
# Below sqrt(10), so that no rounding leads above it.
LOSS = BoundedLogistic(norm=3.1622776)  # as bounded_loss(10) makes it
REGULAR = "the loss scales every row to norm sqrt(10) at most and cuts targets to [0, 1]"


def bounded_loss(features: int) -> BoundedLogistic:
    """Logistic loss of features in [-1, 1]: sqrt(features)-Lipschitz, features / 4 smooth."""
    return BoundedLogistic(norm=math.floor(math.sqrt(features) * 10**7) / 10**7)


def gradient(
    constants: Constants, size: int = SIZE, features: int = FEATURES, **options: Any
) -> StochasticRecursiveGradient:
    """The estimator on the training rows, or on ``size`` others."""
    return of_constants(constants, bounded_loss(features), features, size, **options)


def accelerated(constants: Constants, **options: Any) -> AcceleratedDPSRGD:
    """Algorithm 1 on the training rows, over the ball of radius 2."""
    return AcceleratedDPSRGD(gradient(constants, **options), radius=float(RADIUS))


OURS = "dpaudit 2026"
STATES = {
    "Theorem 5.8": "(epsilon, delta) for 2^(-o(n^(1/6))) <= delta <= 1/n and p <= epsilon^2 n^2",
    "Theorem 5.12": "(epsilon, delta) for batches of at most sqrt(n), without a range of epsilon "
    "or delta, of an algorithm that clips nothing",
    "Corollary 5.7": "(epsilon, delta) for the parameters of Claim 5.5, without a range of epsilon "
    "or delta, of an algorithm that clips nothing; its proof clips",
}


def states(by: str) -> str:
    """What the theorem that a claim names states, for which parameters; empty for no theorem."""
    theorem = next((name for name in STATES if name in by), "")
    return f"{theorem} states {STATES[theorem]}; the numbers here are ours" if theorem else ""


def stated(
    by: str, reading: str = "", epsilon: Any = EPSILON, delta: Any = DELTA, source: str = PAPER
) -> Claim:
    """An (epsilon, delta) claim, by default of the paper and at (1, 1e-6)."""
    return Claim(ApproxDP(epsilon, delta), f"{source}, {by}", reading, states=states(by))


def entry(
    name: str,
    title: str,
    program: AcceleratedDPSRGD | DPSRGD,
    claims: tuple[Claim, ...],
    source: str = "Algorithm 1",
    expected: tuple[str, ...] = (),
    notes: tuple[str, ...] = (),
    unexamined: str = "",
) -> Mechanism:
    """One entry that runs on the RAND data."""
    return Mechanism(
        name=name,
        title=title,
        source=f"{PAPER}, {source}",
        program=program,
        scope=ZERO_OUT,
        claims=claims,
        setting=_setting(program.gradient, *notes),
        records=records,
        evaluate=_evaluate,
        expected=expected,
        unexamined=unexamined,
    )


def entry_of(name: str, title: str, build: Build, source: str = "Algorithm 1") -> Mechanism:
    """The program of ``build`` on the RAND data, at the default of every free parameter."""
    program, claims, _ = build(FEATURES, SIZE)

    made_for = on_rows(build, name, title, f"{PAPER}, {source}", ZERO_OUT)
    return replace(entry(name, title, program, tuple(claims), source), for_shape=made_for)


def rows_setting(estimator: StochasticRecursiveGradient) -> Setting:
    """The setting of somebody's rows."""
    return Setting(
        unit_entity="row of the data",
        unit_bound="one row",
        covered=(_covered(estimator),),
        invariants=("the number of records and the order of the batches",),
        notes=_chosen(estimator),
    )


def declared_only(
    name: str,
    title: str,
    program: Program,
    claims: tuple[Claim, ...],
    source: str,
    expected: tuple[str, ...] = (),
    notes: tuple[str, ...] = (),
    unexamined: str = "",
) -> Mechanism:
    """One entry that is accounted for and not run: of constants for data that nobody has."""
    setting = Setting(
        controller="nobody: accounted for, not run",
        unit_entity="record",
        unit_bound="one record in one batch",
        covered=("all noisy prefix sums",),
        invariants=("the number of records and the order of the batches",),
        notes=notes,
    )
    return Mechanism(
        name,
        title,
        f"{PAPER}, {source}",
        program,
        ZERO_OUT,
        claims,
        setting,
        expected=expected,
        unexamined=unexamined,
    )


def _evaluate(found: Solution) -> tuple[Metric, ...]:
    """Loss of the released model on the hold-out rows, which are treated as public."""
    start = np.zeros((1, FEATURES))
    return holdout_losses(LOSS, {"at the start": start, "of the output": found.output})


def _setting(estimator: StochasticRecursiveGradient, *notes: str) -> Setting:
    invariants = ("the number of records and the order of the batches",)
    return rand_setting(_covered(estimator), invariants, *_chosen(estimator), *notes)


def _covered(estimator: StochasticRecursiveGradient) -> str:
    batch, rounds = estimator.batch, estimator.rounds
    return f"{rounds} noisy prefix sums over batches of {batch} rows, each row in one"


def _chosen(estimator: StochasticRecursiveGradient) -> tuple[str, ...]:
    unread = estimator.size - estimator.batch * estimator.rounds
    return (
        f"{unread} of {estimator.size} rows are never read",
        "radius, rounds, batches, norms and beta were chosen without the data",
    )
