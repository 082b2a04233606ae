"""How often a bound from recorded noise is above the truth."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dpaudit.audit.blackbox.likely import recorded_audit
from dpaudit.audit.blackbox.terms import checked_terms
from dpaudit.audit.bounds.estimators import epsilon_of_gaussian
from dpaudit.families.opaque import GDP, ZCDP, ApproxDP, PureDP

Generator = np.random.Generator
SIGMA = 3.7306318
EPSILON = epsilon_of_gaussian(1 / SIGMA, 1e-5)
SCALED = math.log(1 / 3e-5) / 2 - math.log(1.5)  # of Laplace noise of scale 1.5 beside 1


def gaussian(d: float, rng: Generator, size: int) -> Any:
    return d + rng.normal(0, SIGMA, size)


def vector(d: float, rng: Generator, size: int) -> Any:
    return d / math.sqrt(5) + rng.normal(0, SIGMA, (size, 5))


def cubic(d: float, rng: Generator, size: int) -> Any:
    y = d + rng.normal(0, SIGMA, size)
    return y + 0.1 * y**3


def adaptive(d: float, rng: Generator, size: int) -> Any:
    first = d / math.sqrt(2) + rng.normal(0, SIGMA, size)
    return np.stack([first, np.sinh(d / math.sqrt(2) + rng.normal(first, SIGMA, size))], axis=1)


def laplace(d: float, rng: Generator, size: int) -> Any:
    return d + rng.laplace(0, 1, size)


def inverse(d: float, rng: Generator, size: int) -> Any:
    u = rng.random(size) - 0.5
    return d - np.sign(u) * np.log1p(-2 * np.abs(u))


def scaled(d: float, rng: Generator, size: int) -> Any:
    return (1 + 0.5 * d) * rng.laplace(0, 1, size)


@pytest.mark.parametrize(
    ("mechanism", "claim", "truth"),
    [
        (gaussian, ApproxDP(1, "1e-5"), EPSILON),
        (gaussian, GDP(1), 1 / SIGMA),
        (gaussian, ZCDP(1), 0.5 / SIGMA**2),
        (vector, ApproxDP(1, "1e-5"), EPSILON),
        (cubic, ApproxDP(1, "1e-5"), EPSILON),
        (adaptive, ApproxDP(1, "1e-5"), EPSILON),
        (laplace, PureDP(1), 1.0),
        (laplace, ApproxDP(1, "1e-2"), 1 + 2 * math.log1p(-1e-2)),
        (inverse, PureDP(1), 1.0),
        (scaled, ApproxDP(1, "1e-5"), SCALED),
    ],
)
def test_few_bounds_are_above_the_truth_and_most_are_near(
    mechanism: Any, claim: Any, truth: float
) -> None:
    """200 audits at 5%: more than 22 above the truth is a false alarm of 4e-4 a case."""
    found = [
        recorded_audit(mechanism, (0.0, 1.0), checked_terms(claim, 1_000, 0.95, 1e-4, seed))
        for seed in range(200)
    ]
    assert {one.why_not for one in found} == {""}
    lowers = np.array([one.lower for one in found])
    assert np.sum(lowers > truth * (1 + 1e-9)) <= 22
    assert np.median(lowers) > 0.9 * truth
