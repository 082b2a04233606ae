"""Random answers by enumeration; integer noise and random answers against dp-accounting 0.6.0."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import mpmath
import pytest
import sympy
from dp_accounting.pld import privacy_loss_distribution as distributions

from dpaudit.accountant.account import Account
from dpaudit.exact import is_infinite
from dpaudit.families.composition import Repeat
from dpaudit.families.discrete import (
    DiscreteGaussian,
    DiscreteLaplace,
    RandomizedResponse,
    TruncatedDiscreteLaplace,
)
from dpaudit.families.discrete.rules import MAX_KINKS
from dpaudit.measures.approx import APPROX
from dpaudit.measures.gdp import GAUSSIAN
from dpaudit.measures.profile import PROFILE
from dpaudit.measures.pure import PURE
from dpaudit.measures.renyi import RENYI
from dpaudit.measures.zcdp import CONCENTRATED
from dpaudit.nodes import Node
from dpaudit.scope import central
from tests.support.enumeration import (
    SCOPE,
    Outcomes,
    atoms,
    big,
    close,
    curve,
    divergence,
    fold,
    gaussian_curve,
    hockey_stick,
    laplace,
    moved,
    number,
    outcomes,
    relative_entropy,
    stick,
)

ORDERS = ["1.001", "1.5", "2", "7", "60"]
LOSSES = [-6, -2, -1, "-0.3", 0, "0.01", "0.5", 1, "1.7", 3, 8]
x = sympy.Symbol("x", positive=True)
k = sympy.Symbol("k", positive=True, integer=True)


@pytest.fixture(autouse=True)
def forty_digits() -> Iterator[None]:
    with mpmath.workdps(40):
        yield


# --- truncated noise -----------------------------------------------------------------------------

TRUNCATED = [
    (Fraction(scale), bound, move)
    for scale, bound in (("2", 3), ("1/2", 4), ("4", 9))
    for move in (1, 2, 3)
]


@pytest.mark.parametrize(("scale", "bound", "move"), TRUNCATED)
def test_truncated_noise_by_enumeration(scale: Fraction, bound: int, move: int) -> None:
    node = TruncatedDiscreteLaplace("a", scale, bound, move)
    mass = laplace(scale, bound)
    exact = moved(mass, move, bound + move)
    losses = fold(PROFILE, node)
    pair = outcomes(losses.remove[0])
    assert losses.remove == losses.reached_remove
    assert close(mpmath.fsum(p for p, _ in pair), 1)
    assert close(mpmath.fsum(q for _, q in pair), 1)
    for loss in LOSSES:
        truth = hockey_stick(exact, loss)
        assert close(hockey_stick(pair, loss), truth)
        for smaller in range(1, move):
            assert hockey_stick(moved(mass, smaller, bound + move), loss) <= truth
    epsilon, delta = fold(APPROX, node)
    assert epsilon == Fraction(move) / scale
    assert close(big(delta), hockey_stick(exact, big(epsilon)))
    assert close(big(delta), mpmath.fsum(mass(j) for j in range(bound - move + 1, bound + 1)))


@pytest.mark.parametrize(
    ("epsilon", "bound", "told"),
    [
        ("0.5", 27, "3.3577e-7"),
        ("0.5", 32, "2.7562e-8"),
        ("0.25", 62, "2.3072e-8"),
        ("0.05", 300, "7.646e-9"),
        ("0.5", 13, "3.6864e-4"),
        ("0.5", 9, "0.0027438"),
        ("2", 4, "2.5551e-4"),
        ("0.5", 3, "0.065722"),
    ],
)
def test_thresholds_of_the_user_level_paper(epsilon: str, bound: int, told: str) -> None:
    """p(0) of the shifted truncated threshold around kappa, for the paper's epsilon and kappa."""
    node = TruncatedDiscreteLaplace("threshold", 1 / Fraction(epsilon), bound)
    value = fold(APPROX, node)
    assert value[0] == Fraction(epsilon)
    assert float(big(value[1])) == pytest.approx(float(told), rel=2e-4)


@pytest.mark.parametrize("calculus", [PURE, CONCENTRATED, RENYI, GAUSSIAN])
def test_an_outcome_of_one_side_is_infinite(calculus: Any) -> None:
    step = calculus.fold(TruncatedDiscreteLaplace("a", 2, 9), SCOPE)
    assert is_infinite(step.value)
    assert step.attained


@pytest.mark.quality
def test_truncated_noise_of_a_large_or_symbolic_move() -> None:
    node = TruncatedDiscreteLaplace("a", 60, 1200, MAX_KINKS + 22)
    losses = fold(PROFILE, node)
    upper, reached = outcomes(losses.remove[0]), outcomes(losses.reached_remove[0])
    exact = moved(laplace(Fraction(60), 1200), MAX_KINKS + 22, 1400)
    for loss in (0, "0.5", 2, "2.5", 4):
        truth = hockey_stick(exact, loss)
        assert hockey_stick(reached, loss) <= truth + mpmath.mpf(10) ** -25
        assert truth <= hockey_stick(upper, loss) + mpmath.mpf(10) ** -25
    symbolic = fold(PROFILE, TruncatedDiscreteLaplace("a", x, 2 * k, k))
    bound = [
        tuple(big(sympy.sympify(v).subs({x: 2, k: 3})) for v in pair)
        for pair in symbolic.remove[0].outcomes
    ]
    exact = moved(laplace(Fraction(2), 6), 3, 9)
    for loss in LOSSES:
        assert hockey_stick(exact, loss) <= hockey_stick(bound, loss) + mpmath.mpf(10) ** -30


# --- randomised response -------------------------------------------------------------------------

RESPONSES = [(e, c) for e in ("0.1", "1", "4") for c in (2, 3, 6, 7, 40)]
every_response = pytest.mark.parametrize(("epsilon", "choices"), RESPONSES)


def response(epsilon: str, choices: int) -> Outcomes:
    odds = mpmath.exp(mpmath.mpf(epsilon))
    rows = [[odds if i == j else mpmath.mpf(1) for i in range(choices)] for j in (0, 1)]
    return [
        (p / (odds + choices - 1), q / (odds + choices - 1)) for p, q in zip(*rows, strict=True)
    ]


@pytest.mark.first_case
@every_response
def test_randomized_response_by_enumeration(epsilon: str, choices: int) -> None:
    node = RandomizedResponse("a", Fraction(epsilon), choices)
    exact = response(epsilon, choices)
    found = outcomes(fold(PROFILE, node).remove[0])
    assert close(mpmath.fsum(p for p, _ in found), 1)
    for loss in LOSSES:
        assert close(hockey_stick(found, loss), hockey_stick(exact, loss))
    assert fold(PURE, node) == Fraction(epsilon) == fold(APPROX, node)[0]
    assert close(big(fold(PURE, node)), max(mpmath.log(p / q) for p, q in exact))
    for alpha in ORDERS:
        assert close(curve(node, alpha), divergence(exact, alpha))


@every_response
def test_zcdp_of_randomized_response(epsilon: str, choices: int) -> None:
    """At no order above; where it is called attained it is the divergence at order 1."""
    node = RandomizedResponse("a", Fraction(epsilon), choices)
    exact, step = response(epsilon, choices), CONCENTRATED.fold(node, SCOPE)
    rho = big(step.value)
    for i in range(-12, 13):
        alpha = 1 + mpmath.mpf(10) ** (mpmath.mpf(i) / 3)
        assert divergence(exact, str(alpha)) <= alpha * rho * (1 + mpmath.mpf(10) ** -25)
    assert step.attained is (choices <= 6 or (epsilon == "4" and choices == 7))
    if step.attained:
        assert close(rho, relative_entropy(exact))


def test_where_the_worst_order_is_not_one() -> None:
    """Forty choices at epsilon 0.1: some order has a higher quotient than order 1."""
    node = RandomizedResponse("a", Fraction(1, 10), 40)
    exact = response("0.1", 40)
    assert divergence(exact, "60") / 60 > relative_entropy(exact) * mpmath.mpf("1.1")
    assert not CONCENTRATED.fold(node, SCOPE).attained


@every_response
def test_the_trade_off_of_randomized_response_touches_its_curve(epsilon: str, choices: int) -> None:
    mu = big(fold(GAUSSIAN, RandomizedResponse("a", Fraction(epsilon), choices)))
    ordered = sorted(response(epsilon, choices), key=lambda pair: -pair[0] / pair[1])
    gaps = []
    for cut in range(1, choices):
        positive = mpmath.fsum(q for _, q in ordered[:cut])
        negative = mpmath.fsum(p for p, _ in ordered[cut:])
        gaps.append(negative - gaussian_curve(mu, positive))
    assert min(gaps) >= -(mpmath.mpf(10) ** -20)
    assert min(gaps) <= mpmath.mpf(10) ** -20


def test_symbolic_choices_use_what_holds_for_all() -> None:
    step = CONCENTRATED.fold(RandomizedResponse("a", x, k + 1), SCOPE)
    assert step.value == x * sympy.tanh(x / 2)
    assert not step.attained
    assert CONCENTRATED.fold(RandomizedResponse("a", x, 5), SCOPE).attained
    assert not CONCENTRATED.fold(RandomizedResponse("a", x, 7), SCOPE).attained


# --- dp-accounting -------------------------------------------------------------------------------
# Its losses are rounded up to a grid of 1e-4: its delta is above the exact one, by little.

EPSILONS = (0.0, 0.05, 0.3, 0.7, 1.1)
GRID = 3e-4


def compared(node: Node, theirs: Any, delta: float = 0.0) -> None:
    exact = atoms(fold(PROFILE, node).remove[0])
    for epsilon in EPSILONS:
        found, upper = stick(*exact, epsilon), theirs.get_delta_for_epsilon(epsilon)
        assert found <= upper + 1e-12
        assert upper <= found + GRID + delta


@pytest.mark.parametrize("scale", [0.7, 2.0, 20.0])
@pytest.mark.parametrize("move", [1, 3])
def test_discrete_laplace_noise(scale: float, move: int) -> None:
    theirs = distributions.from_discrete_laplace_mechanism(1 / scale, move)
    compared(DiscreteLaplace("a", scale, move), theirs)


@pytest.mark.parametrize(("epsilon", "choices"), [(0.4, 2), (1.0, 5), (2.5, 30)])
def test_randomized_response(epsilon: float, choices: int) -> None:
    """Its parameter is the probability of a uniformly random answer."""
    random = choices / (math.exp(epsilon) + choices - 1)
    theirs = distributions.from_randomized_response(random, choices)
    compared(RandomizedResponse("a", epsilon, choices), theirs)


@pytest.mark.parametrize(("scale", "bound", "move"), [(2, 5, 1), (2, 5, 3), (1, 30, 2)])
def test_truncated_noise(scale: int, bound: int, move: int) -> None:
    """From its two probability mass functions; outcomes of one side go to infinite loss."""
    weights = {j: math.exp(-abs(j) / scale) for j in range(-bound, bound + 1)}
    whole = math.fsum(weights.values())
    support = range(-bound, bound + move + 1)
    lower = {j: math.log(weights[j] / whole) for j in support if j in weights}
    upper = {j: math.log(weights[j - move] / whole) for j in support if j - move in weights}
    theirs = distributions.from_two_probability_mass_functions(lower, upper)
    node = TruncatedDiscreteLaplace("a", scale, bound, move)
    compared(node, theirs)
    epsilon, delta = (number(v) for v in fold(APPROX, node))
    assert theirs.get_delta_for_epsilon(epsilon + 1e-3) == pytest.approx(delta, rel=1e-6)


@pytest.mark.parametrize("sigma", [0.5, 2.0, 10.0])
@pytest.mark.parametrize("move", [1, 3])
def test_discrete_gaussian_noise(sigma: float, move: int) -> None:
    """Its upper bound is above the hockey stick of the named pair, by direct sums, and near it."""
    theirs = distributions.from_discrete_gaussian_mechanism(sigma, move)
    node = DiscreteGaussian("a", Fraction(str(sigma)) ** 2, move)
    pair = fold(PROFILE, node).remove[0]
    variance, shift = number(pair.variance), number(pair.shift)
    support = range(-int(40 * sigma) - 5, int(40 * sigma) + 9)
    weights = [math.exp(-(j**2) / (2 * variance)) for j in support]
    shifted = [math.exp(-((j - shift) ** 2) / (2 * variance)) for j in support]
    whole = math.fsum(weights)
    p, q = [w / whole for w in shifted], [w / whole for w in weights]
    for epsilon in EPSILONS:
        found, upper = stick(p, q, epsilon), theirs.get_delta_for_epsilon(epsilon)
        assert found <= upper + 1e-12
        assert upper <= found + GRID
    for alpha in (2, 3):
        assert math.log(
            math.fsum(
                a * math.exp((alpha - 1) * ((j**2) - (j - shift) ** 2) / (2 * variance))
                for j, a in zip(support, p, strict=True)
            )
        ) / (alpha - 1) == pytest.approx(number(fold(CONCENTRATED, node)) * alpha, rel=1e-9)


def answers_by_a_polynomial(epsilon: Fraction, choices: int, times: int, delta: float) -> float:
    """Epsilon of many random answers: losses are epsilon times the exponents of a power."""
    import flint

    with flint.ctx.workprec(300):
        size = flint.arb(epsilon.numerator) / epsilon.denominator
        odds = size.exp()
        whole = odds + choices - 1
        power = flint.arb_poly([1 / whole, (choices - 2) / whole, odds / whole]) ** times
        masses = [power[i] for i in range(2 * times + 1)]

        def left(at: float) -> float:
            told = flint.arb(0)
            for i, (p, q) in enumerate(zip(masses, masses[::-1], strict=True)):
                if float(epsilon) * (i - times) > at:
                    told += p - q * flint.arb(at).exp()
            return float(told)

        low, high = 0.0, float(epsilon) * times
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if left(middle) > delta else (low, middle)
        return low


@pytest.mark.parametrize(
    ("epsilon", "choices", "times"),
    [(Fraction(1), 5, 1000), (Fraction(1, 2), 10, 100), (Fraction(7, 10), 3, 37)],
)
def test_many_answers_of_several_choices_are_on_the_lattice_of_their_losses(
    epsilon: Fraction, choices: int, times: int
) -> None:
    """Equally likely outcomes have loss 0, whose ball need not be 0: it aligned no grid."""
    node = Repeat(RandomizedResponse("r", epsilon, choices), times)
    found = Account(node, central("replace_one")).epsilon("1e-5")
    truth = answers_by_a_polynomial(epsilon, choices, times, 1e-5)
    assert float(found.lower) <= truth * (1 + 1e-12)
    assert truth * (1 - 1e-12) <= float(found.upper)
    assert float(found.upper - found.lower) < 1e-5
