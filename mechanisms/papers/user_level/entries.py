"""The problem of the catalogue's entries, and how an entry is made: RAND data, or declared only."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial, wraps
from typing import Any, TypeAlias

import numpy as np

from dpaudit.accountant.claim import Claim
from dpaudit.curator.curator import Program
from dpaudit.curator.mechanism import Mechanism, Metric, Setting
from dpaudit.errors import InvalidParameter
from dpaudit.families.opaque import ApproxDP
from dpaudit.nodes import Node
from mechanisms.papers.srgd.problem import BoundedLogistic
from mechanisms.papers.stable_erm.data import SIMULATED, records_of
from mechanisms.papers.user_level.phased_sgd import Solution
from mechanisms.papers.user_level.problem import USERS, Problem, UnequalProblem

PAPER = "Lowy, Liu and Asi 2024"
OURS = "dpaudit 2026"
USERS_OF_RAND, ITEMS, FEATURES = 3230, 5, 10
RADIUS = 2.0


def lipschitz_of(features: int) -> float:
    """sqrt(features), rounded down to seven decimals: the norm that every row is scaled to.

    Logistic loss is then Lipschitz in that norm, and features / 4 smooth.
    """
    return math.floor(math.sqrt(features) * 1e7) / 1e7


LIPSCHITZ, SMOOTHNESS = lipschitz_of(FEATURES), FEATURES / 4
LOSS = BoundedLogistic(norm=LIPSCHITZ)
PROBLEM = Problem(LOSS, USERS_OF_RAND, ITEMS, FEATURES, RADIUS, LIPSCHITZ)
DELTA = Fraction(1, 10**6)
# Program and claims for a problem, at keyword arguments.
Build: TypeAlias = Callable[..., tuple[Program, tuple[Claim, ...]]]
HALTING = "whether a run halts is released, and depends on the data; it then gives the start"
# Why no generated records reach some programs, whose claims then stay unconfirmed.
UNREACHED = (
    "a test's score moves only where points of users lie about tau apart, as those of no generated "
    "users do, and one of so many users moves a mean by far less than is stated"
)
HIDDEN_TEST = "secret batches across a threshold test cannot be run"
TOO_MANY = "it takes more users than are generated"
TIMING = "how long a run takes may depend on the data, and is not covered"


# What the theorems print; which numbers stand for their letters is chosen here.
STATES = {
    "Theorem 2.1": "(epsilon, delta) for every epsilon <= 10, n^(1 - o(1)) >~ log(n/delta)/epsilon "
    "and m <~ poly(n)",
    "Theorem 3.1": "(epsilon, delta) for every epsilon <= 10 and q > 0 with n^(1 - q) > "
    "100 log(20 n m d e^epsilon / delta) / (epsilon (1 - 2^-q))",
    "Theorem 4.1": "(epsilon, delta) for every epsilon <= 10 and delta < 1/(m n)",
    "proof of Theorem 3.1": "that the answers of all tests of a phase are epsilon/2-"
    "indistinguishable, for every epsilon and delta of the theorem",
    "footnote 2": "a risk that group privacy of an item-level algorithm gives, no constants of "
    "its noise",
}
CHOSEN = "; epsilon, delta and sizes of this claim were chosen here"


def stated(
    epsilon: object, delta: object, by: str, reading: str = "", source: str = PAPER
) -> Claim:
    """An (epsilon, delta) claim, by default of the paper."""
    return stated_of(ApproxDP(epsilon, delta), by, reading, source)


def stated_of(guarantee: Node, by: str, reading: str = "", source: str = PAPER) -> Claim:
    """A claim of any kind, by default of the paper, with what its theorem states."""
    states = f"{by} states {STATES[by]}{CHOSEN}" if by in STATES else ""
    return Claim(guarantee, by=f"{source}, {by}", reading=reading, states=states)


def ours(epsilon: object, delta: object = DELTA, reading: str = "") -> Claim:
    """What the calibrated constants are for."""
    return stated(epsilon, delta, "calibrated constants", reading, OURS)


def entry(
    name: str,
    title: str,
    source: str,
    program: Program,
    claims: tuple[Claim, ...],
    covered: str,
    *notes: str,
    columns: str = "",
    users: int = USERS_OF_RAND,
    items: int = ITEMS,
    expected: tuple[str, ...] = (),
    build: Build | None = None,
    **options: Any,
) -> Mechanism:
    """A mechanism under replace_one of a user; ``columns`` of the RAND rows, or declared only.

    ``build`` makes program and claims for other users; its annotated keyword arguments are the
    free parameters.
    """
    setting = Setting(
        controller="the person who runs this command" if columns else "nobody: declared only",
        unit_entity="user (all items of one)",
        unit_bound="one row of the records: a user with an equal, public number of items",
        covered=(covered,),
        uncovered=(TIMING,),
        invariants=("the number of users, of each user's items, and the order of the users",),
        notes=(HALTING, *((SIMULATED,) if columns else ()), *notes),
        data="RAND Health Insurance Experiment, simulated users" if columns else "none",
    )
    records = partial(records_of, users, items, columns) if columns else None
    evaluate = halted_share if columns and "evaluate" not in options else None
    made = {"records": records, "evaluate": evaluate, "scope": USERS, **options}
    if build is not None:
        made["for_shape"] = on_users(build, name, title, source, covered)
    return Mechanism(
        name, title, source, program, claims=claims, setting=setting, expected=expected, **made
    )


def on_users(
    build: Build, name: str, title: str, source: str, covered: str
) -> Callable[..., Mechanism]:
    """The ``for_shape`` of a program of users: items of features, then a target.

    Rows that are no number anywhere are items that a user does not have.
    Errors of what it returns: InvalidParameter for records of another shape, and for too few users.
    """

    @wraps(build)
    def made(count: int | None, row: tuple[int, ...], **values: Any) -> Mechanism:
        if count is None or len(row) != 2 or row[1] < 2:
            raise InvalidParameter(
                f"{name}: records of shape {row}; expected users of items, (items, features and a "
                "target): unit_column= names the column of the user, rows= how many items count"
            )
        items, features = row[0], row[1] - 1
        bound = lipschitz_of(features)
        loss = BoundedLogistic(norm=bound)
        problem = UnequalProblem(loss, count, items, features, RADIUS, bound, items)
        program, claims = build(problem, **values)
        setting = Setting(
            unit_entity="user (all items of one)",
            unit_bound="one row of the records, of one user",
            covered=(covered,),
            uncovered=(TIMING,),
            invariants=("the number and the order of the users, and the most items that one has",),
            notes=(HALTING, "radii, rounds and steps were chosen without the data"),
        )
        return Mechanism(name, title, source, program, USERS, claims, setting)

    return made


def halted_share(output: Solution) -> tuple[Metric, ...]:
    """How many runs halted, and how far from 0 the models are."""
    length = float(np.linalg.norm(output.output, axis=1).mean())
    return (
        Metric("share of runs that halted", float(output.halted.mean()), True),
        Metric("mean norm of the released models", length, True),
    )


def bottom_share(output: Any) -> tuple[Metric, ...]:
    """How many releases are bottom."""
    share = float(np.isnan(np.asarray(output)).any(axis=1).mean())
    return (Metric("share of releases that are bottom", share, True),)
