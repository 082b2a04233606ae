"""Renyi divergences under secret batches, against enumeration, quadrature and their own proofs."""

from __future__ import annotations

import itertools
import math
import random
import time
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import mpmath
import pytest
import sympy

from dpaudit.errors import InvalidParameter
from dpaudit.exact import choose, enclose, is_infinite, smaller, sum_over, total_over, wire
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Assuming, Compose, Parallel, Repeat
from dpaudit.families.opaque import GDP, PureDP, RenyiCurve
from dpaudit.families.sampling import PoissonSampled, SampledWithoutReplacement
from dpaudit.families.sampling.renyi_rules import central_moment
from dpaudit.measures.calculus import CALCULI
from dpaudit.measures.convert import renyi_epsilon, to_approx
from dpaudit.measures.gdp import GAUSSIAN
from dpaudit.measures.renyi import RENYI, order
from dpaudit.nodes import Assumption, Node, Status
from dpaudit.scope import Scope
from tests.support.sampling import (
    ADD_REMOVE,
    REPLACE_ONE,
    ZERO_OUT,
    G,
    J,
    K,
    L,
    curve_of,
    geometric,
    mean_law,
    number,
    of_moment,
    renyi,
)

# --- Poisson batches: Renyi divergences ----------------------------------------------------------


def mixture_moments(q: float, z: float, alpha: Any) -> tuple[float, float]:
    """Both divergences of (1-q) N(0, z^2) + q N(1, z^2) and N(0, z^2), at 30 digits."""
    with mpmath.workdps(30):
        a, q, z = (mpmath.mpf(str(v)) for v in (alpha, q, z))

        def ratio(x: Any) -> Any:
            return 1 - q + q * mpmath.exp((2 * x - 1) / (2 * z**2))

        breaks = [-16 * z, -4 * z, 0, 1, 4 * z, a / 2, a, a + 4 * z, a + 16 * z]
        points = sorted({mpmath.mpf(b) for b in breaks})
        forward = mpmath.quad(lambda x: mpmath.npdf(x, 0, z) * ratio(x) ** a, points)
        backward = mpmath.quad(lambda x: mpmath.npdf(x, 0, z) * ratio(x) ** (1 - a), points)
        return of_moment(forward, a), of_moment(backward, a)


@pytest.mark.first_case
@pytest.mark.parametrize("alpha", [2, 3, 8])
@pytest.mark.parametrize(("q", "z"), [(0.01, 1), (0.2, 2), (0.5, 0.7), (0.9, 4)])
def test_poisson_gaussian_is_the_larger_divergence(alpha: int, q: float, z: float) -> None:
    node = PoissonSampled(Gaussian("g", z), q)
    forward, backward = mixture_moments(q, z, alpha)
    assert renyi(node, alpha) == pytest.approx(forward, rel=1e-9)
    assert backward <= forward
    assert renyi(node, alpha, ZERO_OUT) == renyi(node, alpha)


@pytest.mark.quality
@pytest.mark.parametrize("alpha", ["1.01", "1.5", "2.5", "6.3"])
def test_between_whole_orders_the_next_one_holds(alpha: str) -> None:
    node = PoissonSampled(Gaussian("g", 1.5), 0.1)
    assert renyi(node, alpha) == renyi(node, math.ceil(float(alpha)))
    assert max(mixture_moments(0.1, 1.5, float(alpha))) <= renyi(node, alpha)


@pytest.mark.quality
def test_the_proof_of_the_poisson_rule() -> None:
    """k(t) = a f + (1 - a) h - g is at least k'(1) (t - 1), on a grid of t, q and n."""
    with mpmath.workdps(60):
        for n, q in itertools.product(
            (2, 3, 4, 7, 20, 100), map(mpmath.mpf, ("1e-3", "0.1", "0.5", "0.9", "1"))
        ):
            share = 3 * (1 - q) / (3 + 2 * (n - 2) * q)
            slope = share * n * q + (1 - share) * (1 - n * q) - (1 - n) * q
            for t in (mpmath.exp(mpmath.mpf(x) / 8) for x in range(-80, 81)):
                f, h = (1 - q + q * t) ** n, t * (1 - q + q / t) ** n
                g = (1 - q + q * t) ** (1 - n)
                excess = share * f + (1 - share) * h - g - slope * (t - 1)
                assert excess >= -(mpmath.mpf(10) ** -50) * (1 + f + g + h)


def through(values: Sequence[float], last: int) -> Any:
    """An expression in the order that takes given values at the orders 2..last (Lagrange)."""
    points = [(j, sympy.Rational(repr(values[j]))) for j in range(2, last + 1)]
    return sympy.interpolate(points, order()) if len(points) > 1 else points[0][1]


@pytest.mark.parametrize("seed", range(12))
def test_poisson_holds_for_every_pair(seed: int) -> None:
    """Random pairs on a few points: neither direction of the mixture exceeds the rule."""
    draw = random.Random(seed)
    size, n = draw.randint(2, 4), draw.randint(2, 6)
    masses = [[draw.random() ** 4 + 1e-3 for _ in range(size)] for _ in range(2)]
    p, q = ([m / sum(row) for m in row] for row in masses)
    rate = draw.choice([0.01, 0.2, 0.7])
    rule = CALCULI["rdp"].covers(PoissonSampled)
    assert rule is not None
    assert not isinstance(rule, str)
    curve = through(curve_of(p, q, n), n)
    value = rule.function(PoissonSampled(PureDP(1), rate), curve)
    bound = float(enclose(value, {order(): enclose(Fraction(n))}).mid())
    mix = [(1 - rate) * b + rate * a for a, b in zip(p, q, strict=True)]
    truth = curve_of(mix, q, n)[n]
    assert truth <= bound * (1 + 1e-9) + 1e-12


def test_a_whole_rate_and_no_loss_change_nothing() -> None:
    assert RENYI.fold(PoissonSampled(G, 1), ADD_REMOVE).value == order() / 2
    assert RENYI.fold(SampledWithoutReplacement(G, 9, 9), REPLACE_ONE).value == order() / 2
    assert RENYI.fold(PoissonSampled(Repeat(G, 0), 0.1), ADD_REMOVE).value == 0
    assert RENYI.fold(SampledWithoutReplacement(GDP(0), 1, 9), REPLACE_ONE).value == 0


# --- batches without replacement: Renyi divergences ----------------------------------------------


@pytest.mark.parametrize("alpha", [2, 3, 6])
@pytest.mark.parametrize(("batch", "population"), [(1, 4), (2, 5), (3, 4)])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_batches_without_replacement_by_enumeration(
    alpha: int, batch: int, population: int, epsilon: float
) -> None:
    """Noisy counts of all data sets of zeros and ones are below the general rule."""
    node = SampledWithoutReplacement(PureDP(epsilon), batch, population)
    bound = renyi(node, alpha, REPLACE_ONE)
    for others in itertools.product((0, 1), repeat=population - 1):
        laws = []
        for x in (0, 1):
            batches = list(itertools.combinations([x, *others], batch))
            laws.append(mean_law([(1 / len(batches), geometric(sum(b), epsilon)) for b in batches]))
        assert curve_of(laws[0], laws[1], alpha)[alpha] <= bound * (1 + 1e-9)


@pytest.mark.first_case
@pytest.mark.parametrize("alpha", [2, 5, 16])
@pytest.mark.parametrize(("share", "z"), [(Fraction(1, 100), 1), (Fraction(1, 5), 3)])
def test_gaussian_batches_are_above_the_case_of_equal_others(
    alpha: int, share: Fraction, z: float
) -> None:
    """All other records where the replaced one goes: the two laws are a mixture and its base."""
    node = SampledWithoutReplacement(Gaussian("g", z), share.numerator, share.denominator)
    truth = max(mixture_moments(float(share), z, alpha))
    general = SampledWithoutReplacement(
        RenyiCurve(order() / (2 * Fraction(z) ** 2)), share.numerator, share.denominator
    )
    assert truth <= renyi(node, alpha, REPLACE_ONE) <= renyi(general, alpha, REPLACE_ONE)


@pytest.mark.quality
@pytest.mark.parametrize("alpha", [2, 4])
def test_gaussian_batches_of_three_points(alpha: int) -> None:
    """One batch of one from two records at the corners of a triangle: quadrature in the plane."""
    z, corners = 1.3, [(0.0, 0.0), (1.0, 0.0), (0.5, math.sqrt(3) / 2)]
    node = SampledWithoutReplacement(Gaussian("g", z), 1, 2)
    step = 0.05
    grid = [(i * step, k * step) for i in range(-200, 220) for k in range(-200, 220)]

    def law(point: tuple[float, float], centre: tuple[float, float]) -> float:
        return math.exp(-(math.dist(point, centre) ** 2) / (2 * z**2)) / (2 * math.pi * z**2)

    other, first, second = corners
    moment = 0.0
    for point in grid:
        p, q, r = law(point, first), law(point, second), law(point, other)
        moment += ((p + r) / 2) ** alpha * ((q + r) / 2) ** (1 - alpha) if q + r else 0
    assert of_moment(moment * step**2, alpha) <= renyi(node, alpha, REPLACE_ONE)


@pytest.mark.parametrize("last", [2, 8, 40])
@pytest.mark.parametrize("mu", ["0.02", "0.5", "2"])
def test_central_moments_keep_their_digits(last: int, mu: str) -> None:
    """Sums that cancel hundreds of digits, against the trapezoidal rule for E (P/Q - 1)^l."""
    curve = order() * sympy.Rational(mu) ** 2 / 2
    found = enclose(central_moment(curve, last, Fraction(0)))
    with mpmath.workdps(40):
        shift, step = mpmath.mpf(mu), mpmath.mpf(1) / 8
        inside = (k * step for k in range(-8 * 25, 8 * (25 + int(last * shift))))
        values = (mpmath.npdf(x) * mpmath.expm1(shift * x - shift**2 / 2) ** last for x in inside)
        truth = step * mpmath.fsum(values)
    assert found.rel_accuracy_bits() > 60
    assert float(found.mid().log()) == pytest.approx(float(mpmath.log(truth)), rel=1e-9)


GAUSSIAN_ONLY = [
    Compose(G, Repeat(Gaussian("h", 3), 4)),
    Assuming(GDP(1), Assumption("a", "it holds", Status.DECLARED)),
    Repeat(Gaussian("h", K + 1), 5, K),
]


@pytest.mark.parametrize("child", GAUSSIAN_ONLY)
def test_gaussian_children_of_any_shape_are_known(child: Node) -> None:
    """The same as one leaf of their mu, and below what any child of that curve gets."""
    mu = GAUSSIAN.fold(child, REPLACE_ONE).value
    node = SampledWithoutReplacement(child, 1, 10)
    leaf = SampledWithoutReplacement(Gaussian("m", 1 / mu), 1, 10)
    any_child = SampledWithoutReplacement(RenyiCurve(order() * mu**2 / 2), 1, 10)
    for alpha in (3, 4, 9):
        found = renyi(node, alpha, REPLACE_ONE)
        assert found == pytest.approx(renyi(leaf, alpha, REPLACE_ONE), rel=1e-12)
        assert found <= renyi(any_child, alpha, REPLACE_ONE)


# --- symbols, names and time ---------------------------------------------------------------------


def test_indices_of_sums_hide_nothing() -> None:
    """A rate and a round that are themselves called j."""
    rate = sympy.Symbol("j", positive=True)
    symbolic = RENYI.fold(PoissonSampled(G, rate), ADD_REMOVE).value
    tenth = {order(): enclose(Fraction(5)), rate: enclose(Fraction(1, 10))}
    expected = renyi(PoissonSampled(G, 0.1), 5)
    assert float(enclose(symbolic, tenth).mid()) == pytest.approx(expected, rel=1e-14)
    rounds = Repeat(PoissonSampled(Gaussian("g", J), 0.1), 12, J)
    by_hand = math.fsum(renyi(PoissonSampled(Gaussian("g", k), 0.1), 5) for k in range(1, 13))
    assert renyi(rounds, 5) == pytest.approx(by_hand, rel=1e-12)
    nested = renyi(PoissonSampled(PoissonSampled(G, 0.2), 0.5), 5)
    assert nested == pytest.approx(expected, rel=1e-12)


def test_a_symbolic_number_of_rounds() -> None:
    times = sympy.Symbol("T", integer=True, positive=True)
    step = RENYI.fold(Repeat(PoissonSampled(Gaussian("g", K), 0.1), times, K), ADD_REMOVE)
    value = step.value.subs(times, 7)
    rounds = Repeat(PoissonSampled(Gaussian("g", K), 0.1), 7, K)
    found = float(enclose(value, {order(): enclose(Fraction(3))}).mid())
    assert found == pytest.approx(renyi(rounds, 3), rel=1e-13)


SLOW = [
    (Repeat(PoissonSampled(Gaussian("g", 20), 0.001), 10_000), ADD_REMOVE),
    (Repeat(PoissonSampled(Gaussian("g", 1 + K / 100), 0.01), 200, K), ADD_REMOVE),
    (PoissonSampled(PoissonSampled(PoissonSampled(Compose(G, L), 0.1), 0.2), 0.3), ADD_REMOVE),
    (
        SampledWithoutReplacement(
            SampledWithoutReplacement(SampledWithoutReplacement(G, 7, 8), 8, 9), 9, 10
        ),
        REPLACE_ONE,
    ),
    (Parallel(*(PoissonSampled(Gaussian("g", z), 0.1) for z in range(1, 9))), ADD_REMOVE),
    (Compose(*(PoissonSampled(Laplace("l", z), 0.1) for z in range(1, 12))), ADD_REMOVE),
]


@pytest.mark.first_case
@pytest.mark.parametrize(("node", "scope"), SLOW, ids=range(len(SLOW)))
def test_folds_and_conversions_end(node: Node, scope: Scope) -> None:
    """Ten seconds of processor time are ten times what any of them takes, or more."""
    start = time.process_time()
    step = to_approx(RENYI.fold(node, scope), Fraction(1, 10**5))
    assert not is_infinite(step.value[0])
    assert time.process_time() - start < 10


# --- conversions ---------------------------------------------------------------------------------


@pytest.mark.quality
@pytest.mark.parametrize(
    ("node", "scope"),
    [
        (Repeat(PoissonSampled(G, 0.01), 1000), ADD_REMOVE),
        (Repeat(PoissonSampled(Compose(L, Gaussian("h", 4)), 0.02), 30), ADD_REMOVE),
        (Repeat(SampledWithoutReplacement(Gaussian("g", 3), 1, 30), 50), REPLACE_ONE),
    ],
)
@pytest.mark.parametrize("delta", [Fraction(1, 100), Fraction(1, 10**6)])
def test_the_best_whole_order_is_found(node: Node, scope: Scope, delta: Fraction) -> None:
    step = RENYI.fold(node, scope)
    found = to_approx(step, delta)
    at = {a: enclose(step.value, {order(): enclose(Fraction(a))}) for a in range(2, 90)}
    every = [renyi_epsilon(v, enclose(Fraction(a)), enclose(delta)) for a, v in at.items()]
    assert Fraction(found.witness["order"]).denominator == 1
    assert float(found.value[0]) == pytest.approx(min(float(e.mid()) for e in every), rel=1e-9)


# --- the arithmetic of finite sums ---------------------------------------------------------------


def test_binomials_on_the_wire_and_in_balls() -> None:
    n = sympy.Symbol("n", integer=True, positive=True)
    coefficient = choose(n, 3)
    assert wire.decode_number(wire.encode_number(coefficient)) == coefficient
    assert enclose(sympy.binomial(n, K), {n: enclose(Fraction(50)), K: enclose(Fraction(20))}) == (
        math.comb(50, 20)
    )
    assert choose(Fraction(7), Fraction(2)) == 21
    with pytest.raises(InvalidParameter, match="too large"):
        wire.decode_number(["binomial", "1000000000/1", "500000000/1"])
    for bad in (Fraction(5, 2), Fraction(-1), Fraction(10**9)):
        with pytest.raises(InvalidParameter, match="whole numbers"):
            enclose(sympy.binomial(n, K), {n: enclose(bad), K: enclose(Fraction(2))})


def test_the_smaller_of_two() -> None:
    assert smaller(Fraction(1, 3), Fraction(1, 4)) == Fraction(1, 4)
    x = sympy.Symbol("x", positive=True)
    least = smaller(x, 1 / x)
    assert enclose(least, {x: enclose(Fraction(3))}).overlaps(enclose(Fraction(1, 3)))
    assert float(least.subs(x, 3)) == pytest.approx(1 / 3)
    assert str(least) == "Min(x, 1/x)"
    assert sympy.latex(least) == r"\min\left(x, \frac{1}{x}\right)"
    assert number(smaller(sympy.sqrt(2), Fraction(3, 2))) == pytest.approx(math.sqrt(2))


def test_sums_are_left_alone_and_have_values() -> None:
    inert = sum_over(1 / K**2, K, 1, Fraction(5))
    truth = math.fsum(1 / k**2 for k in range(1, 6))
    assert not inert.is_number
    assert float(inert) == pytest.approx(truth)
    assert number(inert) == pytest.approx(truth)
    assert number(total_over(inert * J, J, Fraction(3))) == pytest.approx(6 * truth)
    assert enclose(sum_over(K, K, 3, Fraction(2))) == 0
    n = sympy.Symbol("n", integer=True, positive=True)
    assert sum_over(K, K, 1, n).evalf() == sum_over(K, K, 1, n)


def test_a_sum_that_cancels_is_computed_with_more_bits() -> None:
    """sum (-1)^i C(200, i) / (i + 1) = 1 / 201, of terms near 10^58."""
    i = sympy.Symbol("i", integer=True, nonnegative=True)
    ball = enclose(sum_over((-1) ** i * sympy.binomial(200, i) / (i + 1), i, 0, Fraction(200)))
    assert ball.rel_accuracy_bits() > 60
    assert ball.overlaps(enclose(Fraction(1, 201)))
