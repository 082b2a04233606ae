"""The region of a claim: the pairs (P[E], Q[E]) that events may have if the claim is true.

A *region* is given by its upper edge: ``largest(q)`` is the supremum of P[E] over all events E with
Q[E] = q and all pairs (P, Q) that the claim permits, in other words 1 - f(q) for the trade-off
function f.  The edge is concave and does not decrease.  Claims under a symmetric adjacency have the
same region for (P, Q) and for (Q, P), and both are tested.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.exact import enclose, replaced, unknowns, upper_fraction
from dpaudit.measures.calculus import measure_of, order
from dpaudit.nodes import Node

FloatArray = npt.NDArray[np.float64]

MAXIMUM_EPSILON = 700.0  # exp(700) is near the largest float
MAXIMUM_MU = 1e6  # far above any mu that counts can show
CONCAVITY_ROUNDING = 1e-10  # Relative rounding error in the concavity of a region's edge.
_ROUND_UP = 1 + 1e-15  # Factor above the relative rounding error of one float operation.
# Renyi orders from 1.02 to about 14,000 at which a curve's region is cut.
_RENYI_ORDERS = tuple(1 + 0.02 * 1.4**k for k in range(41))
_BISECTIONS = 50  # Halvings of a search, to 2^-50 of its range.
# Small rates of Q at which the edge of a region is tabulated.
_TAIL_RATES = np.geomspace(1e-9, 5e-3, 40)
# All rates of Q at which the edge of a region is tabulated.
_EDGE_RATES = np.concatenate(
    [[0.0], _TAIL_RATES, np.linspace(0.01, 0.99, 99), 1 - _TAIL_RATES[::-1], [1.0]]
)


class Region:
    """Upper edge of the pairs (p, q) = (P[E], Q[E]) that a claim allows."""

    def largest(self, q: FloatArray) -> FloatArray:
        """The largest P[E] where Q[E] = ``q``: never below the exact value, at most 1.

        ``q``: any shape, values in [0, 1].  The result is concave in q up to a rounding error of
        ``CONCAVITY_ROUNDING`` p + 1e-15.
        """
        raise NotImplementedError

    @property
    def reference(self) -> Region:
        """The region whose likelihood ratio orders outcomes when this one is tested."""
        return self

    @property
    def corners(self) -> tuple[float, ...]:
        """Values of q near which the slope of the edge is known to jump."""
        return ()


@dataclass(frozen=True)
class ApproxRegion(Region):
    """(epsilon, delta)-DP: p <= e^epsilon q + delta and 1 - q <= e^epsilon (1 - p) + delta.

    Errors: InvalidParameter unless 0 <= epsilon <= 700 and 0 <= delta < 1.
    Source: Kairouz, Oh and Viswanath (2015), Theorem 2.1 and Figure 1.
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        _inside(self.epsilon, MAXIMUM_EPSILON, "epsilon")
        if not 0 <= self.delta < 1:
            raise InvalidParameter(f"delta = {self.delta!r}: expected in [0, 1)")

    def largest(self, q: FloatArray) -> FloatArray:
        delta = math.nextafter(self.delta, 1.0) if self.delta else 0.0
        low = (math.exp(self.epsilon) * _ROUND_UP * q + delta) * _ROUND_UP
        missed = np.maximum((1 - delta - q) * (1 - 1e-15) - 2.0**-53, 0.0)
        high = 1 - math.exp(-self.epsilon) / _ROUND_UP * missed * (1 - 1e-15) + 2.0**-52
        return np.minimum(np.minimum(low, high), 1.0)

    @property
    def corners(self) -> tuple[float, ...]:
        return ((1 - self.delta) / (1 + math.exp(self.epsilon)),)


@dataclass(frozen=True)
class GaussianRegion(Region):
    """mu-GDP: p <= Phi(Phi^-1(q) + mu).

    Errors: InvalidParameter unless 0 <= mu <= 1e6.
    Source: Dong, Roth and Su (2022), Definition 2.6.
    """

    mu: float

    def __post_init__(self) -> None:
        _inside(self.mu, MAXIMUM_MU, "mu")

    def largest(self, q: FloatArray) -> FloatArray:
        quantile = ndtri(q)
        # ndtri and ndtr err by a few units in the last place; 1e-14 of the argument covers them.
        shifted = quantile + self.mu + 1e-14 * (1 + np.abs(np.nan_to_num(quantile, posinf=0.0)))
        edge = np.where(np.isneginf(quantile), 0.0, ndtr(shifted) * (1 + 1e-14))
        return np.minimum(np.maximum(edge, q), 1.0)


@dataclass(frozen=True)
class RenyiRegion(Region):
    """Renyi divergences of both directions at most ``bounds`` at finitely many ``orders`` > 1.

    Data processing: the two-point divergence D_a((p, 1 - p) || (q, 1 - q)) is at most the bound at
    order a, and so is D_a((q, 1 - q) || (p, 1 - p)).  Both are jointly quasi-convex, so the region
    is convex; its edge is found by bisection, for bounds taken larger by 1e-10.
    Shapes: ``orders`` and ``bounds`` have one entry an order; nats.
    Errors: InvalidParameter for no orders, an order outside (1, 1e6], a bound that is not finite.
    Source: Mironov (2017), Definition 4; van Erven and Harremoes (2014), Theorems 9 and 13.
    """

    orders: tuple[float, ...]
    bounds: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.orders or len(self.orders) != len(self.bounds):
            raise InvalidParameter("Renyi region: expected one bound for each order, and an order")
        for at, bound in zip(self.orders, self.bounds, strict=True):
            if not 1 < at <= 1e6:
                raise InvalidParameter(f"order = {at!r}: expected in (1, 1e6]")
            _inside(bound, math.inf, f"Renyi bound at order {at:g}")

    def largest(self, q: FloatArray) -> FloatArray:
        flat = np.ravel(np.asarray(q, dtype=np.float64))
        low, high = flat.copy(), np.ones_like(flat)
        for _ in range(_BISECTIONS):
            middle = low + (high - low) / 2
            outside = self._outside(middle, flat)
            low, high = np.where(outside, low, middle), np.where(outside, middle, high)
        edge = np.where(self._outside(np.ones_like(flat), flat), high, 1.0)
        return np.asarray(np.where(flat == 0, 0.0, edge).reshape(np.shape(q)))

    def _outside(self, p: FloatArray, q: FloatArray) -> FloatArray:
        """Whether some order forbids (p, q), with room for rounding."""
        orders = np.array(self.orders)[:, None]
        bound = (orders - 1) * np.array(self.bounds)[:, None]
        room = 1e-10 + 1e-13 * orders
        with np.errstate(divide="ignore", invalid="ignore"):
            hit, missed = (np.log(p), np.log(q)), (np.log1p(-p), np.log1p(-q))
            forward = _power(hit, orders, bound) + _power(missed, orders, bound)
            backward = _power(hit[::-1], orders, bound) + _power(missed[::-1], orders, bound)
        return np.asarray((np.maximum(forward, backward) > 1 + room).any(axis=0))

    @cached_property
    def _chords(self) -> ChordRegion:
        return ChordRegion(_EDGE_RATES, self.largest(_EDGE_RATES))

    @property
    def reference(self) -> Region:
        """Chords of the edge, which take less time than the edge."""
        return self._chords


@dataclass(frozen=True, eq=False)
class ChordRegion(Region):
    """A concave edge given at some q, and by chords between them; to order outcomes, not to claim.

    Shapes: ``q`` increasing from 0 to 1 and ``p``, (nodes,) each.
    """

    q: FloatArray
    p: FloatArray

    def largest(self, q: FloatArray) -> FloatArray:
        return np.asarray(np.interp(q, self.q, self.p))


@dataclass(frozen=True)
class CommonRegion(Region):
    """The region that several claims about the same mechanism allow together.

    Errors: InvalidParameter for no regions.
    """

    regions: tuple[Region, ...]

    def __post_init__(self) -> None:
        if not self.regions:
            raise InvalidParameter("common region: expected at least one region")

    def largest(self, q: FloatArray) -> FloatArray:
        return np.asarray(np.min([region.largest(q) for region in self.regions], axis=0))

    @property
    def corners(self) -> tuple[float, ...]:
        return tuple(corner for region in self.regions for corner in region.corners)


def zcdp_region(rho: float) -> RenyiRegion:
    """rho-zCDP: divergences at most rho times the order, at 41 orders from 1.02 to 14,000.

    Errors: InvalidParameter unless 0 <= rho is finite.
    Source: Bun and Steinke (2016), Definition 1.1.
    """
    _inside(rho, math.inf, "rho")
    return RenyiRegion(_RENYI_ORDERS, tuple(rho * at * _ROUND_UP for at in _RENYI_ORDERS))


def region_of(guarantee: Node) -> Region:
    """The region of a claim in any registered measure that has one.

    Exact parameters are rounded up to floats, so the region is never smaller than the claim's.
    Errors: Unsupported for another node; InvalidParameter for symbols without a value.
    """
    measure = measure_of(guarantee)
    if measure is None or measure.region is None:
        raise Unsupported(f"{guarantee.name}: no region of event probabilities is known for it")
    region: Region = measure.region(guarantee)
    return region


def rho_of_rates(false_positive_upper: float, false_negative_upper: float) -> float:
    """A rho that any zCDP mechanism with these error rates must reach, rounded down by 1e-9.

    With p = 1 - FNR_upper >= q = FPR_upper, data processing gives rho >= D_a(p || q) / a for every
    order a; the largest over a grid of orders, for (p, q) and (1 - q, 1 - p).
    Source: Bun and Steinke 2016, Lemma 2.2 (post-processing).
    """
    best = 0.0
    orders = 1 + np.array([10.0 ** (k // 20) * 1.122 ** (k % 20) for k in range(-60, 61)])
    for p, q in (
        (1 - false_negative_upper, false_positive_upper),
        (1 - false_positive_upper, false_negative_upper),
    ):
        if 0 < q < p < 1:
            logs = np.logaddexp(
                orders * math.log(p) + (1 - orders) * math.log(q),
                orders * math.log1p(-p) + (1 - orders) * math.log1p(-q),
            )
            best = max(best, float(np.max(logs / (orders - 1) / orders)))
    return max(0.0, best * (1 - 1e-9))


def mu_of_rates(false_positive_upper: float, false_negative_upper: float) -> float:
    """Phi^-1(1 - FPR) - Phi^-1(FNR), which no mu-GDP mechanism exceeds; at least 0.

    Source: Dong, Roth and Su 2022, definition of mu-GDP.
    """
    if not (0 < false_positive_upper < 1 and 0 < false_negative_upper < 1):
        return 0.0
    mu = -float(ndtri(false_positive_upper)) - float(ndtri(false_negative_upper))
    return max(0.0, mu * (1 - 1e-12) - 1e-14)


def approx_region(epsilon: Any, delta: Any) -> Region:
    """The region of (epsilon, delta), each rounded up."""
    return ApproxRegion(float_upper(epsilon, "epsilon"), float_upper(delta, "delta"))


def renyi_region(curve: Any, place: str) -> RenyiRegion:
    """The region of a curve over ``alpha``, at 41 orders."""
    if unknowns(curve) - {order()}:
        raise InvalidParameter(f"{place}: give every symbol but alpha a value first")
    orders = [Fraction(at).limit_denominator(10**6) for at in _RENYI_ORDERS]
    values = [replaced(curve, {order(): at}) for at in orders]
    return RenyiRegion(
        tuple(map(float, orders)), tuple(float_upper(value, place) for value in values)
    )


def float_upper(value: Any, place: str) -> float:
    """The exact number as a float that is not below it."""
    if unknowns(value):
        raise InvalidParameter(f"{place} = {value}: give every symbol a value first")
    fraction = value if isinstance(value, Fraction) else upper_fraction(enclose(value))
    if fraction is None or fraction > 1e300:
        raise InvalidParameter(f"{place}: too large for a test of event probabilities")
    nearest = float(fraction)
    return nearest if Fraction(nearest) >= fraction else math.nextafter(nearest, math.inf)


def _inside(value: float, top: float, place: str) -> None:
    if not 0 <= value <= top or math.isinf(value):
        raise InvalidParameter(f"{place} = {value!r}: expected a number in [0, {top:g}]")


def _power(
    logs: tuple[FloatArray, FloatArray], orders: FloatArray, bound: FloatArray
) -> FloatArray:
    """exp(a log u + (1 - a) log v - bound), 0 where u = 0 and v may be anything."""
    first, second = logs
    exponent = np.where(np.isneginf(first), -np.inf, orders * first + (1 - orders) * second - bound)
    return np.exp(np.minimum(exponent, 700.0))
