"""Regions: closed forms in 40 digits, geometry, claims as nodes, bad input."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.families.additive import Gaussian
from dpaudit.families.opaque import (
    GDP,
    ZCDP,
    ApproxDP,
    ProfilePoints,
    PureDP,
    RenyiCurve,
    RenyiDP,
)
from dpaudit.measures.region import (
    CONCAVITY_ROUNDING,
    ApproxRegion,
    CommonRegion,
    GaussianRegion,
    Region,
    RenyiRegion,
    region_of,
    zcdp_region,
)

RATES = [0.0, 1e-200, 1e-12, 1e-6, 0.003, 0.1, 0.2689, 0.3, 0.5, 0.8, 0.99, 1 - 1e-9, 1.0]
REGIONS: list[Region] = [
    ApproxRegion(0.0),
    ApproxRegion(1.0, 1e-5),
    ApproxRegion(20.0, 0.3),
    GaussianRegion(0.0),
    GaussianRegion(0.3),
    GaussianRegion(8.0),
    zcdp_region(0.0),
    zcdp_region(0.04),
    zcdp_region(3.0),
    RenyiRegion((2.0,), (0.5,)),
    CommonRegion((ApproxRegion(0.5, 0.1), ApproxRegion(2.0))),
]


def edge(region: Region, q: float) -> float:
    return float(region.largest(np.array([q]))[0])


def approx(epsilon: float, delta: float, q: float) -> Any:
    growth, slack, rate = mpmath.exp(epsilon), mpmath.mpf(delta), mpmath.mpf(q)
    return min(growth * rate + slack, 1 - max(0, 1 - slack - rate) / growth, 1)


def quantile(q: float) -> Any:
    """Phi^-1(q) in 40 digits, by bisection of mpmath's own distribution function."""
    low, high = mpmath.mpf(-40), mpmath.mpf(40)
    for _ in range(150):
        middle = (low + high) / 2
        low, high = (middle, high) if mpmath.ncdf(middle) < q else (low, middle)
    return low


@pytest.mark.parametrize("delta", [0.0, 1e-5, 0.4])
@pytest.mark.parametrize("epsilon", [0.0, 1e-3, 1.0, 12.0, 600.0])
def test_approx_region_is_the_two_inequalities_rounded_up(epsilon: float, delta: float) -> None:
    with mpmath.workdps(320):
        for q in RATES:
            found, true = edge(ApproxRegion(epsilon, delta), q), approx(epsilon, delta, q)
            assert true <= found <= 1
            assert found - true <= CONCAVITY_ROUNDING * true


@pytest.mark.first_case
@pytest.mark.parametrize("mu", [0.0, 0.01, 0.5, 3.0, 12.0])
def test_gaussian_region_is_the_gaussian_curve_rounded_up(mu: float) -> None:
    with mpmath.workdps(40):
        for q in RATES[1:-1]:
            found, true = edge(GaussianRegion(mu), q), mpmath.ncdf(quantile(q) + mpmath.mpf(mu))
            assert true <= found <= 1
            assert found - true <= CONCAVITY_ROUNDING * true


def divergence(p: float, q: float, order: float) -> Any:
    """Renyi divergence of Bernoulli(p) from Bernoulli(q)."""
    p, q, order = map(mpmath.mpf, (p, q, order))
    inside = p**order * q ** (1 - order) + (1 - p) ** order * (1 - q) ** (1 - order)
    return mpmath.log(inside) / (order - 1)


@pytest.mark.parametrize("bound", [1e-3, 0.2, 4.0])
@pytest.mark.parametrize("order", [1.02, 2.0, 64.0])
def test_renyi_region_meets_its_bound_in_one_direction(order: float, bound: float) -> None:
    region = RenyiRegion((order,), (bound,))
    with mpmath.workdps(40):
        for q in (1e-6, 0.003, 0.1, 0.5, 0.8, 0.99):
            found = edge(region, q)
            assert found > q
            if found > 1 - 1e-12:
                continue
            largest = max(divergence(found, q, order), divergence(q, found, order))
            assert bound * (1 - 1e-15) <= largest <= bound + 1e-6


def test_zcdp_region_holds_every_gaussian_event_of_its_rho() -> None:
    q = np.linspace(0, 1, 501)
    for rho in (1e-4, 0.03, 2.0):
        gaussian = GaussianRegion(math.sqrt(2 * rho))
        assert (zcdp_region(rho).largest(q) >= gaussian.largest(q) - 1e-12).all()


@pytest.mark.first_case
@pytest.mark.parametrize("region", REGIONS, ids=lambda region: type(region).__name__)
def test_edges_grow_are_concave_and_above_the_diagonal(region: Region) -> None:
    q = np.concatenate([np.geomspace(1e-12, 1e-3, 40), np.linspace(2e-3, 1, 400)])
    p = region.largest(q)
    assert (p >= q).all()
    assert (p <= 1).all()
    assert (np.diff(p) >= -1e-12).all()
    middle = region.largest((q[:-1] + q[1:]) / 2)
    assert (middle >= (p[:-1] + p[1:]) / 2 * (1 - 2 * CONCAVITY_ROUNDING) - 2e-15).all()
    assert p.shape == q.shape
    assert region.largest(q.reshape(-1, 2)).shape == (220, 2)


@pytest.mark.parametrize("region", REGIONS, ids=lambda region: type(region).__name__)
def test_edges_are_symmetric_in_the_two_directions(region: Region) -> None:
    """(p, q) is allowed exactly if (1 - q, 1 - p) is: the complement, data sets exchanged."""
    q = np.linspace(0.01, 0.99, 50)
    p = region.largest(q)
    inside = p < 1 - 1e-6
    back = region.largest(1 - p)
    np.testing.assert_allclose(back[inside], 1 - q[inside], rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    "family", [ApproxRegion, lambda e: ApproxRegion(e, 0.1), GaussianRegion, zcdp_region]
)
def test_families_are_nested(family: Any) -> None:
    q = np.linspace(0, 1, 101)
    edges = [family(value).largest(q) for value in (0.0, 1e-6, 0.1, 1.0, 1.001, 5.0, 40.0)]
    for smaller, larger in itertools.pairwise(edges):
        assert (smaller <= larger * (1 + CONCAVITY_ROUNDING)).all()


def test_claims_have_regions() -> None:
    from sympy import Rational, Symbol, sqrt

    alpha = Symbol("alpha", positive=True)
    assert region_of(PureDP(1)) == ApproxRegion(1.0, 0.0)
    assert region_of(ApproxDP(1, 0.25)) == ApproxRegion(1, 0.25)
    assert region_of(GDP(0.5)) == GaussianRegion(0.5)
    assert region_of(ZCDP(0.5)) == zcdp_region(0.5)
    assert region_of(RenyiDP(4, 0.5)) == RenyiRegion((4.0,), (0.5,))
    points = region_of(ProfilePoints(((0.5, 0.125), (2, 0))))
    assert points == CommonRegion((ApproxRegion(0.5, 0.125), ApproxRegion(2.0)))
    epsilon = region_of(PureDP(sqrt(Rational(2))))
    assert isinstance(epsilon, ApproxRegion)
    assert Fraction(epsilon.epsilon) ** 2 >= 2
    assert epsilon.epsilon == pytest.approx(math.sqrt(2), rel=1e-15)
    curve = region_of(RenyiCurve(alpha / 2))
    q = np.linspace(0.01, 0.99, 50)
    np.testing.assert_allclose(curve.largest(q), zcdp_region(0.5).largest(q), rtol=1e-6)
    assert isinstance(region_of(RenyiCurve(0.25)), RenyiRegion)


def test_claims_round_up() -> None:
    region = region_of(PureDP(Fraction(1, 10)))
    assert isinstance(region, ApproxRegion)
    assert Fraction(region.epsilon) >= Fraction(1, 10)
    assert region.epsilon - 0.1 < 1e-16


def test_claims_without_a_region_are_refused() -> None:
    from sympy import Symbol

    with pytest.raises(Unsupported, match="region"):
        region_of(Gaussian("sum", noise_multiplier=1))
    with pytest.raises(InvalidParameter, match="symbol"):
        region_of(PureDP(Symbol("epsilon", positive=True)))


@pytest.mark.parametrize(
    "make",
    [
        lambda: ApproxRegion(-1.0), lambda: ApproxRegion(math.nan), lambda: ApproxRegion(701.0),
        lambda: ApproxRegion(1.0, 1.0), lambda: ApproxRegion(1.0, -1e-9),
        lambda: ApproxRegion(1.0, math.nan), lambda: GaussianRegion(math.inf),
        lambda: GaussianRegion(-0.1), lambda: RenyiRegion((), ()),
        lambda: RenyiRegion((1.0,), (1.0,)), lambda: RenyiRegion((2.0,), (math.inf,)),
        lambda: RenyiRegion((2.0, 3.0), (1.0,)), lambda: RenyiRegion((2.0,), (math.nan,)),
        lambda: zcdp_region(-1.0), lambda: zcdp_region(math.inf), lambda: CommonRegion(()),
    ],
)  # fmt: skip
def test_bad_regions_are_refused(make: Any) -> None:
    with pytest.raises(InvalidParameter):
        make()
