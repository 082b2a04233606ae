"""Releases of a ridge logistic minimiser on somebody's users: what ``for_shape`` makes."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import wraps
from typing import Annotated, Any, TypeAlias

from dpaudit.accountant.claim import Claim
from dpaudit.curator.curator import Program
from dpaudit.curator.mechanism import Mechanism, Setting
from dpaudit.curator.parameters import Cost, Free
from dpaudit.errors import InvalidParameter
from dpaudit.families.stability import Distance
from dpaudit.measures.convert import gaussian_mu
from mechanisms.papers.common.free import Delta, Epsilon
from mechanisms.papers.stable_erm.baselines import OutputPerturbation
from mechanisms.papers.stable_erm.bounds import Size, gradient_radius
from mechanisms.papers.stable_erm.calibration import USERS, calibrate_del_output_pert
from mechanisms.papers.stable_erm.domains import Ball
from mechanisms.papers.stable_erm.polynomial import Ladder
from mechanisms.papers.stable_erm.problem import Problem
from mechanisms.papers.stable_erm.release import DeletionStableOutputPerturbation
from mechanisms.papers.stable_erm.solver import Minimiser, RidgeLogistic

RADIUS, BETA = 2.0, 1e-3
MOST_STEPS = 2_000  # of a solve, about a second for 10,000 rows of ten features
ONE = Fraction(1)
Ridge = Annotated[float, Free("weight of the ridge, its modulus", Cost.NOISE)]
Stages = Annotated[
    int | None,
    Free(
        "phases on all users, which share the budget",
        Cost.NOISE,
        default="ceil(log2(n m))",
        start=lambda _: 4,
    ),
]
Claims: TypeAlias = Callable[[Fraction, Fraction], tuple[Claim, ...]]


def problem_of(users: int, items: int, columns: int, ridge: float) -> Problem:
    """Ridge logistic loss of items scaled to norm sqrt(features), over the ball of radius 2.

    Errors: InvalidParameter for a ridge with which a solve takes more than 2,000 steps.
    """
    loss = RidgeLogistic(modulus=ridge, feature_norm=math.sqrt(columns - 1))
    if loss.steps(0.0, 2 * RADIUS) > MOST_STEPS:
        raise InvalidParameter(
            f"ridge = {ridge:g}: a solve takes more than {MOST_STEPS:,} steps; use a larger one"
        )
    return Problem(loss, Ball(RADIUS), users, items, columns, loss.lipschitz)


def perturbed(
    problem: Callable[[float], Problem],
    *,
    epsilon: Epsilon = ONE,
    delta: Delta = Fraction(1, 10**6),
    ridge: Ridge = 0.5,
) -> Program:
    """The minimiser with Gaussian noise for any user."""
    return OutputPerturbation(problem(ridge), 1 / gaussian_mu(epsilon, delta))


def staged(
    make: Callable[..., Program],
    problem: Callable[[float], Problem],
    *,
    epsilon: Epsilon = ONE,
    delta: Delta = Fraction(1, 10**6),
    ridge: Ridge = 0.5,
) -> Program:
    """Releases at a ladder of gradient norms; ``make``: Algorithm 4 or 6."""
    made = problem(ridge)
    return make(made, epsilon, delta, search=_ladder(made))


def phased(
    make: Callable[..., Program],
    problem: Callable[[float], Problem],
    *,
    epsilon: Epsilon = ONE,
    delta: Delta = Fraction(1, 10**6),
    ridge: Ridge = 0.5,
    phases: Stages = None,
) -> Program:
    """The same of Algorithms 3 and 5, whose phases share the budget."""
    made = problem(ridge)
    return make(made, epsilon, delta, search=_ladder(made), count=phases)


def _ladder(made: Problem) -> Ladder:
    return Ladder(gradient_radius(made.lipschitz, Size(made.users, made.items, BETA)))


def laddered(
    problem: Callable[[float], Problem],
    *,
    epsilon: Epsilon = ONE,
    delta: Delta = Fraction(1, 10**6),
    ridge: Ridge = 0.5,
) -> Program:
    """The minimiser at a ladder of gradient norms."""
    made = problem(ridge)
    constants = calibrate_del_output_pert(epsilon, delta, distance=Distance.DIAMETER)
    ladder, minimiser = _ladder(made), Minimiser(made.loss, made.domain)
    unit = float(ladder.unit(minimiser, made.users, constants.kappa)[0])
    return DeletionStableOutputPerturbation(made.users, unit, constants, minimiser, ladder)


def on_users(
    make: Callable[..., Program],
    name: str,
    title: str,
    source: str,
    claims: Claims,
    covered: str = "one noisy minimiser, or bottom where the algorithm has one",
) -> Callable[..., Mechanism]:
    """The ``for_shape`` of a release on users of items: features, then a target.

    An item that is no number counts as one without features.
    Errors of what it returns: InvalidParameter for records of another shape.
    """

    @wraps(make)
    def made(count: int | None, row: tuple[int, ...], **values: Any) -> Mechanism:
        if count is None or len(row) != 2 or row[1] < 2:
            raise InvalidParameter(
                f"{name}: records of shape {row}; expected users of items, (items, features and a "
                "target): unit_column= names the column of the user, rows= how many items count"
            )

        def problem(ridge: float) -> Problem:
            return problem_of(count, row[0], row[1], ridge)

        program = make(problem, **values)
        defaults = getattr(make, "func", make).__kwdefaults__ or {}
        chosen = {**defaults, **values}
        setting = Setting(
            unit_entity="user (all items of one)",
            unit_bound="one row of the records, of one user",
            covered=(covered,),
            uncovered=("how long a run takes may depend on the data, and is not covered",),
            invariants=("the number and the order of the users, and the most items that one has",),
        )
        stated = claims(Fraction(chosen["epsilon"]), Fraction(chosen["delta"]))
        return Mechanism(name, title, source, program, USERS, stated, setting)

    return made
