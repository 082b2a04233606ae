"""Leaves whose release is one of countably many values: noise on the integers, random answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from dpaudit.exact import Number
from dpaudit.exact.domains import Domain, count, known_sign, number, positive, refuse
from dpaudit.nodes.core import LabelledLeaf


def whole(value: Number, place: str) -> None:
    """Domain 1, 2, 3, ...; a symbol must be declared integer and positive."""
    positive(value, place)
    count(value, place)


def several(value: Number, place: str) -> None:
    """Domain 2, 3, 4, ...; a symbol must be declared integer and positive."""
    whole(value, place)
    if known_sign(value - 2, strict=False) is False:
        refuse(value, place, "at least 2 choices")


def preset(domain: Domain, value: int) -> Any:
    """A dataclass field that holds an exact number of the given domain, with a default."""
    return field(default=Fraction(value), metadata={"kind": "number", "domain": domain})


@dataclass(frozen=True, eq=False, repr=False)
class DiscreteGaussian(LabelledLeaf):
    """Adds k with probability proportional to exp(-k^2 / (2 variance)) to one integer query.

    The query moves by at most the integer ``sensitivity``.  (An integer vector with that
    l2-sensitivity and independent noise has the same zCDP and Renyi bounds, not this profile:
    declare it as ZCDP.)

    >>> import dpaudit as dp
    >>> noise = dp.DiscreteGaussian("count", variance=4)
    >>> dp.account(noise, dp.central("add_remove")).step("zcdp").value
    Fraction(1, 8)
    """

    variance: Number = number(positive)
    sensitivity: Number = preset(whole, 1)


@dataclass(frozen=True, eq=False, repr=False)
class DiscreteLaplace(LabelledLeaf):
    """Adds i.i.d. k with probability proportional to exp(-|k| / scale) to an integer query.

    The query, a number or a vector, moves by at most the integer ``sensitivity`` in l1-norm.

    >>> import dpaudit as dp
    >>> noise = dp.DiscreteLaplace("count", scale=2)
    >>> dp.account(noise, dp.central("add_remove")).step("pure").value
    Fraction(1, 2)
    """

    scale: Number = number(positive)
    sensitivity: Number = preset(whole, 1)


@dataclass(frozen=True, eq=False, repr=False)
class TruncatedDiscreteLaplace(LabelledLeaf):
    """Adds k in [-bound, bound] with probability proportional to exp(-|k| / scale).

    One integer query that moves by at most the integer ``sensitivity`` <= ``bound``.  A public
    shift changes nothing: a threshold drawn from 0..2 bound around ``bound`` is this noise.
    """

    scale: Number = number(positive)
    bound: Number = number(whole)
    sensitivity: Number = preset(whole, 1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if known_sign(self.bound - self.sensitivity, strict=False) is False:
            refuse(self.bound, f"{self.name}.bound", "at least the sensitivity")


@dataclass(frozen=True, eq=False, repr=False)
class RandomizedResponse(LabelledLeaf):
    """Tells which of ``choices`` values holds, e^epsilon times as likely as each other value.

    P(truth) = e^epsilon / (e^epsilon + choices - 1); neighbours may hold any two of the values.

    >>> import dpaudit as dp
    >>> answer = dp.RandomizedResponse("smokes", epsilon=1)
    >>> dp.account(answer, dp.central("replace_one")).step("pure").value
    Fraction(1, 1)
    """

    epsilon: Number = number(positive)
    choices: Number = preset(several, 2)
