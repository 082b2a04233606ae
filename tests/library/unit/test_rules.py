"""Each rule against an independent source: numerical integrals, exact trade-offs, enumeration."""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath
import pytest
import sympy

import dpaudit.measures
from dpaudit.check.theorem import bound as own_theorem
from dpaudit.exact import enclose, lower_fraction, upper_fraction
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Compose, Parallel, Repeat
from dpaudit.families.opaque import GDP, ZCDP, ApproxDP, ProfilePoints, PureDP
from dpaudit.families.sampling import PoissonSampled, SampledWithoutReplacement
from dpaudit.measures.approx import APPROX
from dpaudit.measures.calculus import CALCULI
from dpaudit.measures.convert import gaussian_delta
from dpaudit.measures.gdp import GAUSSIAN
from dpaudit.measures.profile import PROFILE
from dpaudit.measures.pure import PURE
from dpaudit.measures.renyi import RENYI, order
from dpaudit.measures.zcdp import CONCENTRATED
from dpaudit.nodes import Node
from dpaudit.nodes.registry import load
from dpaudit.profiles import delta_interval
from dpaudit.scope import Scope

ADD_REMOVE = Scope("add_remove", "record", "central", "transcript")
REPLACE_ONE = ADD_REMOVE.under("replace_one")
ORDERS = [1.01, 1.5, 2, 5, 32]
NOISE = [0.5, 1, 3]
Density = Callable[[Any], Any]


def number(value: Any) -> float:
    return float(enclose(value).mid())


def at_order(node: Node, alpha: float) -> float:
    return number(RENYI.fold(node, ADD_REMOVE).value.subs(order(), sympy.Rational(str(alpha))))


def renyi(p: Density, q: Density, alpha: float, breaks: Sequence[Any]) -> float:
    """Renyi divergence by quadrature at 30 digits; the densities are given as their logarithms."""
    with mpmath.workdps(30):
        a = mpmath.mpf(str(alpha))
        moment = mpmath.quad(lambda t: mpmath.exp(a * p(t) + (1 - a) * q(t)), breaks)
        return float(mpmath.log(moment) / (a - 1))


def normal(mean: float, scale: float) -> Density:
    return lambda t: mpmath.log(mpmath.npdf(t, mean, scale))


def laplace(mean: float, scale: float) -> Density:
    return lambda t: (
        -abs(t - mean) / mpmath.mpf(str(scale)) - mpmath.log(2 * mpmath.mpf(str(scale)))
    )


# --- leaves --------------------------------------------------------------------------------------


@pytest.mark.first_case
@pytest.mark.parametrize("scale", NOISE)
@pytest.mark.parametrize("alpha", ORDERS)
def test_gaussian_renyi_divergence(scale: float, alpha: float) -> None:
    """zCDP and RDP: D_alpha(N(1, z^2) || N(0, z^2)), by numerical integration, is attained."""
    centre = alpha
    breaks = [centre - 14 * scale, centre, centre + 14 * scale]
    truth = renyi(normal(1, scale), normal(0, scale), alpha, breaks)
    leaf = Gaussian("a", scale)
    assert at_order(leaf, alpha) == pytest.approx(truth, rel=1e-9)
    rho = CONCENTRATED.fold(leaf, ADD_REMOVE).value
    assert number(rho) * alpha == pytest.approx(truth, rel=1e-9)


@pytest.mark.first_case
@pytest.mark.parametrize("scale", NOISE)
@pytest.mark.parametrize("alpha", ORDERS)
def test_laplace_renyi_divergence(scale: float, alpha: float) -> None:
    """The RDP rule is the divergence; the zCDP rule (epsilon^2 / 2) is above it."""
    breaks = [-80 * scale, 0, 1, 1 + 80 * scale * max(1, alpha)]
    truth = renyi(laplace(1, scale), laplace(0, scale), alpha, breaks)
    leaf = Laplace("a", scale)
    assert at_order(leaf, alpha) == pytest.approx(truth, rel=1e-9)
    assert number(CONCENTRATED.fold(leaf, ADD_REMOVE).value) * alpha >= truth
    assert number(PURE.fold(leaf, ADD_REMOVE).value) >= truth


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1, 4, 20])
def test_pure_dp_is_concentrated(epsilon: float) -> None:
    """Randomised response has the largest divergences of epsilon-DP; zCDP and RDP are above."""
    leaf = PureDP(epsilon)
    rho = CONCENTRATED.fold(leaf, ADD_REMOVE).value
    assert rho == Fraction(str(epsilon)) ** 2 / 2
    with mpmath.workdps(30):
        p = 1 / (1 + mpmath.exp(-mpmath.mpf(str(epsilon))))
        for alpha in (1.0001, 1.5, 2, 10, 1000):
            a = mpmath.mpf(str(alpha))
            moment = p**a * (1 - p) ** (1 - a) + (1 - p) ** a * p ** (1 - a)
            truth = mpmath.log(moment) / (a - 1)
            assert number(rho) * alpha >= truth * (1 - 1e-12)
            assert at_order(leaf, alpha) >= truth * (1 - 1e-12)


@pytest.mark.parametrize("scale", NOISE)
def test_gaussian_trade_off(scale: float) -> None:
    """The errors of the likelihood-ratio tests of N(0, z^2) against N(1, z^2) lie on G_mu."""
    mu = mpmath.mpf(number(GAUSSIAN.fold(Gaussian("a", scale), ADD_REMOVE).value))
    for threshold in (-2, 0, 0.3, 1, 4):
        positive = 1 - mpmath.ncdf(threshold, 0, scale)
        negative = mpmath.ncdf(threshold, 1, scale)
        curve = mpmath.ncdf(mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * positive) - mu)
        assert float(curve) == pytest.approx(float(negative), rel=1e-9)


def tradeoff_of_mu(mu: float, alpha: float) -> float:
    return float(mpmath.ncdf(mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * mpmath.mpf(alpha)) - mu))


@pytest.mark.first_case
@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1, 3, 10])
def test_the_corner_rule_is_below_every_pure_curve_and_touches_it(epsilon: float) -> None:
    """G_mu lies below the trade-off of epsilon-DP, and below that of Laplace noise 1/epsilon."""
    mu = number(GAUSSIAN.fold(PureDP(epsilon), ADD_REMOVE).value)
    assert mu == number(GAUSSIAN.fold(Laplace("a", 1 / Fraction(str(epsilon))), ADD_REMOVE).value)
    for alpha in [10.0**-k for k in range(1, 15)] + [k / 200 for k in range(1, 200)]:
        pure = max(1 - math.exp(epsilon) * alpha, math.exp(-epsilon) * (1 - alpha))
        assert tradeoff_of_mu(mu, alpha) <= pure + 1e-14
    corner = 1 / (1 + math.exp(epsilon))
    assert tradeoff_of_mu(mu, corner) == pytest.approx(corner, rel=1e-10)
    assert tradeoff_of_mu(mu * 0.999, corner) > corner
    for step in range(-100, 201):
        threshold = step / 100  # tests {release > threshold}, Laplace around 0 against around 1
        positive, negative = _laplace_errors(threshold, epsilon)
        assert tradeoff_of_mu(mu, positive) <= negative + 1e-13


def _laplace_errors(threshold: float, epsilon: float) -> tuple[float, float]:
    def below(t: float) -> float:
        return math.exp(epsilon * t) / 2 if t < 0 else 1 - math.exp(-epsilon * t) / 2

    return below(-threshold), below(threshold - 1)


def test_a_corner_too_sharp_for_the_precision_is_infinite_not_wrong() -> None:
    ball = enclose(GAUSSIAN.fold(PureDP(500), ADD_REMOVE).value)
    assert upper_fraction(ball) is None


def test_conversions_between_leaves() -> None:
    assert CONCENTRATED.fold(GDP(3), ADD_REMOVE).value == Fraction(9, 2)
    assert RENYI.fold(GDP(3), ADD_REMOVE).value == order() * sympy.Rational(9, 2)
    assert CONCENTRATED.fold(ZCDP(0.3), ADD_REMOVE).value == Fraction(3, 10)
    assert RENYI.fold(ZCDP(0.3), ADD_REMOVE).value == order() * sympy.Rational(3, 10)
    assert GAUSSIAN.fold(GDP(3), ADD_REMOVE).value == 3
    assert APPROX.fold(ApproxDP(1, 0.1), ADD_REMOVE).value == (1, Fraction(1, 10))
    assert APPROX.fold(PureDP(2), ADD_REMOVE).value == (2, 0)
    assert APPROX.fold(Laplace("a", 4), ADD_REMOVE).value == (Fraction(1, 4), 0)
    assert PURE.fold(Laplace("a", 4), ADD_REMOVE).value == Fraction(1, 4)
    assert PURE.fold(PureDP(2), ADD_REMOVE).value == 2


def test_the_pure_loss_of_laplace_noise_is_reached() -> None:
    """|log density ratio| of Laplace(0, b) and Laplace(1, b) is at most 1/b, and is 1/b at 0."""
    p, q = laplace(0, 2), laplace(1, 2)
    losses = [abs(float(p(t) - q(t))) for t in (-9, -1, 0, 0.25, 0.5, 1, 7)]
    assert max(losses) == pytest.approx(0.5, rel=1e-14)
    assert PURE.fold(Laplace("a", 2), ADD_REMOVE).value == Fraction(1, 2)


# --- sampling, by enumeration of all batches -----------------------------------------------------


def randomised_response(epsilon: Fraction, bit: int) -> list[float]:
    """P(release = 0), P(release = 1) of one bit."""
    high = 1 / (1 + math.exp(-float(epsilon)))
    return [high, 1 - high] if bit == 0 else [1 - high, high]


def largest_loss(p: Sequence[float], q: Sequence[float]) -> float:
    return max(abs(math.log(a / b)) for a, b in zip(p, q, strict=True))


def mixture(parts: Sequence[tuple[float, Sequence[float]]]) -> list[float]:
    return [math.fsum(w * p[i] for w, p in parts) for i in range(len(parts[0][1]))]


@pytest.mark.parametrize("rate", [Fraction(1, 100), Fraction(1, 2), Fraction(1)])
@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(2), Fraction(8)])
def test_poisson_sampling_of_a_pure_mechanism(rate: Fraction, epsilon: Fraction) -> None:
    """ "Is there a 1 in the batch" by randomised response: the rule is its exact loss."""
    node = PoissonSampled(PureDP(epsilon), rate)
    without = randomised_response(epsilon, 0)
    batches = [(float(1 - rate), without), (float(rate), randomised_response(epsilon, 1))]
    truth = largest_loss(mixture(batches), without)
    assert number(PURE.fold(node, ADD_REMOVE).value) == pytest.approx(truth, rel=1e-12)


@pytest.mark.parametrize(("batch", "population"), [(1, 4), (2, 5), (5, 5)])
@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(3)])
def test_sampling_without_replacement(batch: int, population: int, epsilon: Fraction) -> None:
    """All subsets of a data set with a single 1, and of its neighbour with none."""
    node = SampledWithoutReplacement(PureDP(epsilon), batch, population)
    subsets = list(itertools.combinations(range(population), batch))
    weight = 1 / len(subsets)
    one = mixture([(weight, randomised_response(epsilon, int(0 in s))) for s in subsets])
    truth = largest_loss(one, randomised_response(epsilon, 0))
    assert number(PURE.fold(node, REPLACE_ONE).value) == pytest.approx(truth, rel=1e-12)


# --- composition, by exact products --------------------------------------------------------------


def product(*parts: Sequence[float]) -> list[float]:
    return [math.prod(values) for values in itertools.product(*parts)]


def test_pure_composition_is_the_loss_of_the_product() -> None:
    epsilons = [Fraction(1, 10), Fraction(1), Fraction(5, 2)]
    p = product(*(randomised_response(e, 0) for e in epsilons))
    q = product(*(randomised_response(e, 1) for e in epsilons))
    value = PURE.fold(Compose(*map(PureDP, epsilons)), ADD_REMOVE).value
    assert value == Fraction(18, 5)
    assert number(value) == pytest.approx(largest_loss(p, q), rel=1e-12)


def hockey_stick(p: Sequence[float], q: Sequence[float], epsilon: float) -> float:
    return sum(max(0.0, a - math.exp(epsilon) * b) for a, b in zip(p, q, strict=True))


def test_basic_composition_bounds_the_product() -> None:
    """Mechanisms that give the bit away with probability delta, else answer at random."""
    pairs = [(Fraction(1, 2), Fraction(1, 100)), (Fraction(2), Fraction(1, 20))]

    def release(epsilon: Fraction, delta: Fraction, bit: int) -> list[float]:
        hidden = [float(1 - delta) * v for v in randomised_response(epsilon, bit)]
        return [*hidden, float(delta) * (bit == 0), float(delta) * (bit == 1)]

    value = APPROX.fold(Compose(*(ApproxDP(*pair) for pair in pairs)), ADD_REMOVE).value
    p = product(*(release(*pair, 0) for pair in pairs))
    q = product(*(release(*pair, 1) for pair in pairs))
    assert value == (Fraction(5, 2), Fraction(3, 50))
    assert hockey_stick(p, q, float(value[0])) <= float(value[1])
    assert hockey_stick(p, q, float(value[0])) >= float(value[1]) * 0.9


@pytest.mark.parametrize("alpha", [1.5, 4])
def test_renyi_composition_is_the_divergence_of_the_product(alpha: float) -> None:
    """Products of randomised responses: divergences add up exactly."""
    epsilons = [0.3, 1.2]
    with mpmath.workdps(30):
        a = mpmath.mpf(alpha)
        p = [product(*(randomised_response(Fraction(str(e)), b) for e in epsilons)) for b in (0, 1)]
        moment = mpmath.fsum(u**a * v ** (1 - a) for u, v in zip(*p, strict=True))
        truth = float(mpmath.log(moment) / (a - 1))
    bound = at_order(Compose(*map(PureDP, epsilons)), alpha)
    assert truth <= bound
    node = Compose(Laplace("a", 2), Repeat(Gaussian("b", 3), 4))
    parts = at_order(Laplace("a", 2), alpha) + 4 * at_order(Gaussian("b", 3), alpha)
    assert at_order(node, alpha) == pytest.approx(parts, rel=1e-12)
    assert CONCENTRATED.fold(node, ADD_REMOVE).value == Fraction(1, 8) + Fraction(4, 18)


def test_gaussian_composition_is_exact() -> None:
    """delta of two releases, as an integral over the first one's loss, is that of the composition.

    Given loss l of the first, the second must exceed epsilon - l.
    """
    first, second, epsilon = 0.7, 1.1, 0.9
    mu = GAUSSIAN.fold(Compose(Gaussian("a", Fraction(10, 7)), GDP(1.1)), ADD_REMOVE).value
    assert mu**2 == Fraction(49, 100) + Fraction(121, 100)

    def delta(eps: Any, m: Any) -> Any:
        return mpmath.ncdf(m / 2 - eps / m) - mpmath.exp(eps) * mpmath.ncdf(-m / 2 - eps / m)

    def given(t: Any) -> Any:
        loss = first * t + first**2 / 2
        return mpmath.npdf(t) * delta(epsilon - loss, second)

    truth = mpmath.quad(given, [-12, -4, 0, 4, 12])
    ball = gaussian_delta(enclose(Fraction(9, 10)), enclose(mu))
    assert float(ball.mid()) == pytest.approx(float(truth), rel=1e-9)


def test_parallel_is_the_largest_part() -> None:
    """One record is in one part: the other parts' releases do not change."""
    epsilons = [Fraction(1), Fraction(3), Fraction(1, 2)]
    value = PURE.fold(Parallel(*map(PureDP, epsilons)), ADD_REMOVE).value
    zeros = [randomised_response(e, 0) for e in epsilons]
    truth = max(
        largest_loss(
            product(*zeros), product(*zeros[:i], randomised_response(e, 1), *zeros[i + 1 :])
        )
        for i, e in enumerate(epsilons)
    )
    assert value == 3
    assert truth == pytest.approx(3, rel=1e-12)
    assert CONCENTRATED.fold(Parallel(Gaussian("a", 2), Gaussian("b", 1)), REPLACE_ONE).value == (
        Fraction(1, 2)
    )
    assert GAUSSIAN.fold(Parallel(GDP(2), GDP(5), GDP(1)), REPLACE_ONE).value == 5
    pair = APPROX.fold(Parallel(ApproxDP(1, 0.1), ApproxDP(2, 0.01)), REPLACE_ONE).value
    assert pair == (2, Fraction(1, 10))


@pytest.mark.parametrize("calculus", [PURE, APPROX, CONCENTRATED, GAUSSIAN, RENYI])
def test_a_repetition_is_the_composition_of_its_rounds(calculus: Any) -> None:
    k = sympy.Symbol("k", positive=True, integer=True)
    n = sympy.Symbol("n", positive=True, integer=True)
    leaf = Laplace("a", 2)
    assert calculus.fold(Repeat(leaf, 4), ADD_REMOVE).value == (
        calculus.fold(Compose(*[leaf] * 4), ADD_REMOVE).value
    )
    schedule = Laplace("a", sympy.sqrt(k) + 1)
    rounds = [Laplace("a", sympy.sqrt(i) + 1) for i in range(1, 6)]
    repeated = calculus.fold(Repeat(schedule, 5, k), ADD_REMOVE).value
    symbolic = calculus.fold(Repeat(schedule, n, k), ADD_REMOVE).value
    written = calculus.fold(Compose(*rounds), ADD_REMOVE).value

    def first(value: Any) -> Any:
        value = value[0] if isinstance(value, tuple) else value
        return value.subs(order(), 3) if hasattr(value, "subs") else value

    truth = number(first(written))
    assert number(first(repeated)) == pytest.approx(truth, rel=1e-14)
    assert number(first(symbolic).subs(n, 5)) == pytest.approx(truth, rel=1e-14)


def test_nothing_is_lost_in_rounding() -> None:
    """Ten Laplace releases of 0.1 are 1 exactly, and a float is a tenth."""
    assert PURE.fold(Repeat(Laplace("a", 10), 10), ADD_REMOVE).value == 1
    assert PURE.fold(Compose(*[PureDP(0.1)] * 10), ADD_REMOVE).value == 1
    assert GAUSSIAN.fold(Repeat(Gaussian("a", 100), 10_000), ADD_REMOVE).value == 1
    low = lower_fraction(enclose(GAUSSIAN.fold(Repeat(GDP(0.1), 2), ADD_REMOVE).value))
    assert low is not None
    assert abs(low**2 - Fraction(2, 100)) < Fraction(1, 10**40)


# --- the rules are exact -------------------------------------------------------------------------

# Searches for a good order and a good window: each of them gives a valid bound, so floats are
# harmless.
SEARCHES = {"_best_order", "window"}


def test_no_rule_holds_a_float() -> None:
    package = Path(dpaudit.measures.__file__).parent.parent
    measures = (p for p in package.glob("measures/*.py") if p.stem != "region")  # of counts
    files = [*measures, *package.glob("families/*/*rules.py")]
    assert len(files) >= 16
    found = {
        (path.name, getattr(function, "name", "module"))
        for path in files
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, (ast.FunctionDef, ast.Lambda, ast.Module))
        for constant in _own_constants(function)
        if isinstance(constant.value, (float, complex))
    }
    assert {name for _, name in found} == SEARCHES


def _own_constants(function: ast.AST) -> list[ast.Constant]:
    """Constants in a function or module, outside the functions defined inside it."""
    found, stack = [], list(ast.iter_child_nodes(function))
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Constant):
            found.append(node)
        if not isinstance(node, ast.FunctionDef):
            stack += ast.iter_child_nodes(node)
    return found


@pytest.mark.parametrize("node", [Laplace("a", 2), Gaussian("a", 2), PureDP(2), GDP(2), ZCDP(2)])
def test_the_checker_states_the_renyi_divergence_of_a_leaf(node: Node) -> None:
    found = own_theorem("rdp", node, [])(Fraction(3))
    assert found == RENYI.fold(node, ADD_REMOVE).value.subs(order(), 3)


def test_a_profile_through_points_is_of_two_laws_and_reaches_each_point() -> None:
    node = ProfilePoints(((Fraction(1, 2), Fraction(1, 8)), (2, Fraction(1, 100))), source="s")
    losses = PROFILE.fold(node, ADD_REMOVE).value
    assert own_theorem("profile", node, []) == losses
    (pair,) = losses.remove
    for side in (0, 1):
        assert float(enclose(sum(o[side] for o in pair.outcomes)).mid()) == pytest.approx(1)
    for epsilon, delta in node.points:
        assert float(delta_interval(pair, epsilon).upper) == pytest.approx(float(delta))


def test_what_is_proved_here_is_of_the_year_that_it_was_proved_in() -> None:
    load("rules")
    sources = {rule.cite for found in CALCULI.values() for rule in found._rules.values()}
    assert {source.year for source in sources if source.authors == "dpaudit"} == {2026}
    assert max(source.year for source in sources) == 2026
