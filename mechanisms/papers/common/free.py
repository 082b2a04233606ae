"""Free parameters that programs of several papers have: quantity, unit, and the cost in privacy."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import wraps
from typing import Annotated, Any, TypeAlias

from dpaudit.accountant.claim import Claim
from dpaudit.curator.mechanism import Mechanism, Setting
from dpaudit.curator.parameters import Cost, Free, in_unit_interval
from dpaudit.errors import InvalidParameter
from dpaudit.exact import readable
from dpaudit.scope import Adjacency, Scope

Epsilon = Annotated[Fraction, Free("epsilon of the claim", Cost.CLAIM)]
Delta = Annotated[Fraction, Free("delta of the claim, a probability", Cost.CLAIM, in_unit_interval)]
Rounds = Annotated[int, Free("rounds, noisy releases", Cost.NOISE)]
StepSize = Annotated[
    float | None,
    Free(
        "step size of a gradient step",
        Cost.NOTHING,
        default="from the smoothness",
        start=lambda of: 4 / of["features"],
    ),
]
Phases = Annotated[int, Free("phases, each on half as many rows", Cost.NOISE)]
StepAt = Annotated[float, Free("step size of a gradient step", Cost.NOTHING)]
Radius = Annotated[float, Free("l2 radius of the set of models, around 0", Cost.NOTHING)]
Clip = Annotated[
    float | None,
    Free(
        "l2 norm to which the gradient of one record is clipped",
        Cost.SCALE,
        default="sqrt(features), the Lipschitz constant",
        start=lambda of: math.sqrt(of["features"]),
    ),
]
Smoothness = Annotated[
    float | None,
    Free(
        "smoothness of the loss, L1",
        Cost.NOTHING,
        default="features / 4",
        start=lambda of: of["features"] / 4,
    ),
]
ClipAt = Annotated[float, Free("l2 norm to which a term of one record is clipped", Cost.SCALE)]

# Program, claims and setting for so many records of so many features, at keyword arguments.
Build: TypeAlias = Callable[..., tuple[Any, Sequence[Claim], Setting]]


# Two neighbouring data sets have these in common, unless records may come and go.
IN_ORDER = ("the number and the order of the records",)


def on_rows(
    build: Build, name: str, title: str, source: str, scope: Scope
) -> Callable[..., Mechanism]:
    """The ``for_shape`` of a program that reads rows of features, then a target.

    ``build(features, count, **values)`` makes it for ``count`` rows; its annotated keyword
    arguments are the free parameters.  Under add_remove the number of rows is private, and
    ``build`` gets None.  Features are expected in [-1, 1] and targets of 0 or 1; the programs clip
    or scale what lies outside.
    Errors of what it returns: InvalidParameter for records that are no rows of two numbers or more.
    """

    @wraps(build)
    def made(count: int | None, row: tuple[int, ...], **values: object) -> Mechanism:
        hidden = scope.adjacency is Adjacency.ADD_REMOVE
        if (count is None) != hidden or len(row) != 1 or row[0] < 2:
            raise InvalidParameter(
                f"{name}: records of shape {row}; expected rows of features, then a target"
            )
        program, claims, setting = build(row[0] - 1, count, **values)
        if not (hidden or setting.invariants):
            setting = replace(setting, invariants=IN_ORDER)
        return Mechanism(name, title, source, program, scope, tuple(claims), setting)

    return made


def at(epsilon: Fraction, delta: Fraction) -> str:
    """``(1, 1e-6)``: the budget as claims name it."""
    return f"({readable(Fraction(epsilon))}, {short(delta)})"


def short(delta: Fraction) -> str:
    """A small probability for people: a power of ten as 1e-6."""
    inverse = 1 / Fraction(delta)
    digits = str(inverse.numerator)
    power = inverse.denominator == 1 and digits.strip("0") == "1"
    return f"1e-{len(digits) - 1}" if power and len(digits) > 3 else readable(Fraction(delta))
