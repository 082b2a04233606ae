"""Propose-test-release of a median of user means: what stable subsets are descended from.

A reconstruction: the test, a noisy distance to the nearest data set that is not stable, is of Dwork
and Lei; the distance is the one of Nissim, Raskhodnikova and Smith for a median.
Source: Dwork, Lei 2009, Section 3; Nissim, Raskhodnikova, Smith 2007, Section 3.1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpaudit.curator.curator import Curator
from dpaudit.errors import InvalidParameter
from dpaudit.exact import Number, exact
from dpaudit.exact.domains import positive
from dpaudit.families.additive import Laplace
from dpaudit.families.events import ProposeTestRelease
from dpaudit.kernels.query import Array, Norm, Records
from dpaudit.nodes import Node
from dpaudit.scope import Adjacency, Scope
from mechanisms.papers.stable_erm.release import check_scope, user_array
from mechanisms.papers.stable_erm.stable import user_means

MEDIAN = "median"


@dataclass(frozen=True, eq=False)
class MedianQuery:
    """(distance - bar, median of user means), shape (1, 2); means are cut to +-``bound``.

    With v sorted and r the middle, A_k = max over t <= k + 1 of v_(r+t) - v_(r+t-k-1) is the most
    that one more user can move the median after k were replaced, and the distance is the least k
    with A_k > ``unit``: it moves by at most 1, and where it is not 0 the median by at most a unit.
    Errors: InvalidParameter for a unit, a bound or a bar that is not positive and finite.
    Source: Nissim, Raskhodnikova, Smith 2007, Proposition 3.4.
    """

    unit: float
    bound: float
    bar: float
    norm: Norm = field(default="l2", init=False)

    def __post_init__(self) -> None:
        for name in ("unit", "bound", "bar"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise InvalidParameter(f"{name} = {value}: expected a positive number")

    def value(self, records: Records, chosen: NDArray[np.bool_] | None = None) -> Array:
        """Of the first feature of all users; a mean that is not a number counts as 0."""
        if chosen is not None:
            raise InvalidParameter("a tested median takes no secret batch")
        means = np.nan_to_num(user_means(user_array(records.values))[:, 0], nan=0.0)
        ordered = np.sort(np.clip(means, -self.bound, self.bound))
        median = ordered[(len(ordered) - 1) // 2]
        return np.array([[self.distance(ordered) - self.bar, median]])

    def distance(self, ordered: Array) -> float:
        """How many users must be replaced before the median of sorted values may move too far."""
        users = len(ordered)
        padded = np.concatenate([[-self.bound], ordered, [self.bound]])
        middle = (users - 1) // 2 + 1
        for k in range(users):
            above = middle + np.arange(k + 2)
            apart = padded[np.minimum(above, users + 1)] - padded[np.maximum(above - k - 1, 0)]
            if apart.max() > self.unit:
                return float(k)
        return float(users)

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        """One unit, where either data set passes more often than by chance.

        Errors: InvalidParameter under another adjacency than replace_one.
        """
        if adjacency is not Adjacency.REPLACE_ONE:
            raise InvalidParameter(f"a tested median under {adjacency}: expected replace_one")
        return np.array(self.unit)


@dataclass(frozen=True)
class ProposedMedian:
    """The median with Laplace noise where a noisy distance reaches a bar, else bottom: (trials, 1).

    Noise multipliers are those of the distance and of the median; below distance 1 the test is
    passed with probability at most ``false_pass``, which sets the bar: multiplier ln(1/(2 p)).
    (1 / test_multiplier + 1 / noise_multiplier, false_pass)-DP.
    Errors: InvalidParameter for numbers outside their domain, a false_pass of 1/2 or more.
    Source: Dwork, Lei 2009, Section 3 (propose-test-release), reconstructed.
    """

    unit: float
    bound: float
    test_multiplier: Number
    noise_multiplier: Number
    false_pass: Number

    def __post_init__(self) -> None:
        for name in ("test_multiplier", "noise_multiplier", "false_pass"):
            value = exact(getattr(self, name), f"{type(self).__name__}.{name}")
            positive(value, f"{type(self).__name__}.{name}")
            object.__setattr__(self, name, value)
        if not self.false_pass < Fraction(1, 2):
            raise InvalidParameter(f"false_pass = {self.false_pass}: expected below 1/2")
        self.query()

    @property
    def bar(self) -> float:
        """The distance that the test asks for, rounded up."""
        return float(self.test_multiplier) * math.log(0.5 / float(self.false_pass)) * (1 + 1e-12)

    def query(self) -> MedianQuery:
        """Distance and median."""
        return MedianQuery(self.unit, self.bound, self.bar)

    def declaration(self, scope: Scope) -> Node:
        check_scope(scope, type(self).__name__)
        test = Laplace("distance", self.test_multiplier)
        return ProposeTestRelease(test, Laplace(MEDIAN, self.noise_multiplier), self.false_pass)

    def run(self, curator: Curator) -> Array:
        return curator.release(MEDIAN, self.query())
