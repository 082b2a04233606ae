"""Conversions to (epsilon, delta) against 50-digit arithmetic; edges of every domain."""

from __future__ import annotations

import time
from fractions import Fraction
from typing import Any

import mpmath
import pytest
import sympy
from scipy.optimize import minimize_scalar

from dpaudit.accountant.account import Account
from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.exact import decimal_lower, decimal_upper, enclose, is_infinite
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Compose, Repeat
from dpaudit.families.events import EventSlack
from dpaudit.families.opaque import GDP, ZCDP, ApproxDP, NonPrivate, PureDP
from dpaudit.families.sampling import PoissonSampled, SampledWithoutReplacement
from dpaudit.measures.approx import APPROX
from dpaudit.measures.calculus import CALCULI, Source, Step
from dpaudit.measures.convert import (
    _best_order,
    _best_whole_order,
    gaussian_mu,
    least_of_renyi,
    renyi_epsilon,
    to_approx,
)
from dpaudit.measures.gdp import GAUSSIAN
from dpaudit.measures.pure import PURE
from dpaudit.measures.renyi import RENYI, order
from dpaudit.measures.sides import delta_sides, tradeoff_sides
from dpaudit.measures.zcdp import CONCENTRATED
from dpaudit.nodes import Node
from dpaudit.scope import Scope

SCOPE = Scope("replace_one", "record", "central", "transcript")
MUS = ["0.001", "0.01", "0.1", "0.57735", "1", "3.7", "10", "100"]
DELTAS = ["0.3", "1e-3", "1e-5", "1e-12", "1e-30", "1e-100"]


def at(step: Step, delta: Fraction | str) -> Any:
    return to_approx(step, Fraction(delta))


def delta_of(epsilon: Fraction, mu: Fraction) -> Any:
    """delta(epsilon) of mu-GDP at the ambient precision of mpmath."""
    e = mpmath.mpf(epsilon.numerator) / epsilon.denominator
    m = mpmath.mpf(mu.numerator) / mu.denominator
    root = mpmath.sqrt(2)

    def upper_tail(t: Any) -> Any:
        return mpmath.erfc(t / root) / 2

    return upper_tail(e / m - m / 2) - mpmath.exp(e) * upper_tail(e / m + m / 2)


def decimal(text: str) -> Any:
    return mpmath.mpf(text)


# --- gdp -> approx: exact ------------------------------------------------------------------------


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("mu", MUS)
def test_gaussian_epsilon_brackets_the_truth(mu: str, delta: str) -> None:
    """delta(upper) <= delta <= delta(lower) in 80-digit arithmetic; relative gap of 2e-11."""
    step = at(GAUSSIAN.fold(Gaussian("a", 1 / Fraction(mu)), SCOPE), delta)
    upper, lower = step.value[0], step.lower
    assert step.attained
    assert step.reached == lower
    assert step.witness["epsilon"]
    assert Fraction(step.witness["epsilon"]) == upper
    with mpmath.workdps(80):
        assert delta_of(upper, Fraction(mu)) <= decimal(delta)
        assert lower == 0 or delta_of(lower, Fraction(mu)) >= decimal(delta)
    assert 0 <= upper - lower <= upper * 2 * Fraction(1, 10**11)


def test_an_opaque_gdp_leaf_converts_without_being_attained() -> None:
    step = at(GAUSSIAN.fold(GDP(1), SCOPE), "1e-5")
    assert step.attained is False
    assert step.lower is None
    assert step.reached is None
    assert step.value == at(GAUSSIAN.fold(Gaussian("a", 1), SCOPE), "1e-5").value


@pytest.mark.parametrize(
    ("node", "delta", "epsilon"),
    [
        (GDP(0), "0", 0),
        (GDP(0), "1e-5", 0),
        (GDP(Fraction(1, 10)), "0.5", 0),
        (Repeat(Gaussian("a", 1), 0), "0", 0),
        (Repeat(Gaussian("a", 1), 0), "1e-9", 0),
    ],
)
def test_gaussian_epsilon_is_zero_where_it_is(node: Node, delta: str, epsilon: int) -> None:
    assert at(GAUSSIAN.fold(node, SCOPE), delta).value[0] == epsilon


@pytest.mark.parametrize(
    ("node", "delta"),
    [
        (GDP(1), "0"),
        (Gaussian("a", 10**6), "0"),
        (NonPrivate("raw"), "0.1"),
        (NonPrivate("raw"), "0"),
        (GDP(10**30), "1e-5"),
        (GDP(sympy.sqrt(2) + sympy.sqrt(3) - sympy.sqrt(5 + 2 * sympy.sqrt(6))), "1e-5"),
        (PureDP(10**4), "1e-5"),
    ],
)
def test_what_cannot_be_bounded_is_infinite_at_once(node: Node, delta: str) -> None:
    """Delta 0, no noise, an absurd mu, a mu that cannot be told from 0, a lost corner."""
    start = time.perf_counter()
    step = at(GAUSSIAN.fold(node, SCOPE), delta)
    assert is_infinite(step.value[0])
    assert step.attained is False
    assert time.perf_counter() - start < 2


def test_epsilon_decreases_in_delta_and_increases_in_mu() -> None:
    for mu in MUS[2:]:
        step = GAUSSIAN.fold(GDP(Fraction(mu)), SCOPE)
        values = [at(step, delta).value[0] for delta in DELTAS]
        assert values == sorted(values)
    for delta in DELTAS:
        found = [at(GAUSSIAN.fold(GDP(Fraction(mu)), SCOPE), delta).value[0] for mu in MUS]
        assert found == sorted(found)


# --- rdp and zcdp -> approx ----------------------------------------------------------------------


def cks(rho: float, delta: float) -> float:
    """An independent minimisation over log(order - 1), in floats."""

    def bound(t: float) -> float:
        a = 1 + float(mpmath.exp(t))
        log_delta = float(mpmath.log(delta))
        return float(rho * a + mpmath.log1p(-1 / a) - (log_delta + mpmath.log(a)) / (a - 1))

    grid = [bound(t / 4) for t in range(-50, 80)]
    best = grid.index(min(grid)) / 4 - 12.5
    return max(
        0.0, float(minimize_scalar(bound, bounds=(best - 0.5, best + 0.5), method="bounded").fun)
    )


@pytest.mark.parametrize("delta", ["1e-3", "1e-5", "1e-12", "1e-100"])
@pytest.mark.parametrize("rho", ["0.0001", "0.02", "0.5", "17/8", "40"])
def test_the_renyi_conversion_is_the_best_order_and_above_the_exact_value(
    rho: str, delta: str
) -> None:
    step = at(CONCENTRATED.fold(ZCDP(Fraction(rho)), SCOPE), delta)
    value = step.value[0]
    assert float(value) == pytest.approx(
        cks(float(Fraction(rho)), float(Fraction(delta))), rel=1e-6
    )
    exact = at(GAUSSIAN.fold(GDP(sympy.sqrt(2 * sympy.Rational(rho))), SCOPE), delta)
    assert value >= exact.value[0]
    assert step.attained is False
    again = at(RENYI.fold(ZCDP(Fraction(rho)), SCOPE), delta)
    assert again.value == step.value


def test_the_witness_order_gives_the_bound() -> None:
    """A checker needs one evaluation, in 50 digits: bound(order) <= epsilon, and hardly below."""
    node = Compose(Laplace("a", 2), Gaussian("b", 3))
    step = at(RENYI.fold(node, SCOPE), "1e-5")
    alpha = Fraction(step.witness["order"])
    assert alpha > 1
    curve = RENYI.fold(node, SCOPE).value.subs(order(), sympy.Rational(str(alpha)))
    with mpmath.workdps(50):
        a = mpmath.mpf(alpha.numerator) / alpha.denominator
        d = mpmath.mpf(sympy.N(curve, 50)._mpf_)
        bound = d + mpmath.log(1 - 1 / a) - (mpmath.log("1e-5") + mpmath.log(a)) / (a - 1)
        epsilon = mpmath.mpf(step.value[0].numerator) / step.value[0].denominator
        assert bound <= epsilon <= bound * (1 + mpmath.mpf("1e-10"))
    ball = renyi_epsilon(enclose(curve), enclose(alpha), enclose(Fraction("1e-5")))
    assert ball <= enclose(step.value[0])


@pytest.mark.parametrize("rho", [0, Fraction(1, 10**300), 10**6, 10**400])
def test_extreme_rho(rho: Any) -> None:
    """Of next to nothing the total variation is below delta, so that epsilon is 0."""
    value = at(CONCENTRATED.fold(ZCDP(rho), SCOPE), "1e-5").value[0]
    if rho < 1:
        assert value == 0
    else:
        assert rho <= value <= rho * Fraction(101, 100)
    assert is_infinite(at(CONCENTRATED.fold(ZCDP(rho), SCOPE), "0").value[0])


# --- pure and approx -----------------------------------------------------------------------------


def test_pure_and_approx_are_monotone_in_delta() -> None:
    """One Laplace release is purely private, also at delta = 0."""
    laplace = PURE.fold(Laplace("a", 10), SCOPE)
    for delta in ("0", "1e-300", "1e-5"):
        assert at(laplace, delta).value == (Fraction(1, 10), Fraction(delta))
    pair = APPROX.fold(ApproxDP(1, 0.01), SCOPE)
    assert at(pair, "0.01").value == (1, Fraction(1, 100))
    assert at(pair, "0.02").value == (1, Fraction(1, 50))
    assert is_infinite(at(pair, "0.00999").value[0])
    assert is_infinite(at(pair, "0").value[0])
    rooted = APPROX.fold(ApproxDP(sympy.sqrt(2), sympy.sqrt(2) / 100), SCOPE)
    assert is_infinite(at(rooted, "0.014142135").value[0])
    value = at(rooted, "0.0141421357").value[0]
    assert 0 < value**2 - 2 < Fraction(1, 10**10)


def test_a_number_beyond_the_precision_is_infinite() -> None:
    node = PoissonSampled(PureDP(10**400), 0.5)
    step = at(PURE.fold(node, SCOPE.under("add_remove")), "0")
    assert is_infinite(step.value[0])


# --- arguments -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CALCULI)
@pytest.mark.parametrize("delta", [-1, -1e-30, 1, 2, float("nan"), "one", None, True])
def test_delta_is_a_probability(name: str, delta: Any) -> None:
    step = Step(name, "r", Source("a", 1, "b"), GDP(1), Fraction(1))
    with pytest.raises(InvalidParameter, match="delta"):
        to_approx(step, delta)


def test_symbols_and_foreign_calculi_have_no_number() -> None:
    x = sympy.Symbol("x", positive=True)
    alpha = sympy.Symbol("alpha", positive=True)
    for node in (
        Gaussian("a", x),
        Repeat(Gaussian("a", 1), sympy.Symbol("T", integer=True, nonnegative=True)),
    ):
        for calculus in (GAUSSIAN, CONCENTRATED, RENYI):
            with pytest.raises(Unsupported, match="have no value"):
                at(calculus.fold(node, SCOPE), "1e-5")
    with pytest.raises(Unsupported, match="alpha have no value"):
        at(CONCENTRATED.fold(ZCDP(alpha), SCOPE), "1e-5")
    with pytest.raises(Unsupported, match="have no value"):
        to_approx(GAUSSIAN.fold(GDP(1), SCOPE), x)
    loose = CONCENTRATED.extended("loose")
    with pytest.raises(Unsupported, match="loose: no conversion"):
        at(loose.fold(Gaussian("a", 1), SCOPE), "1e-5")


# --- calibration ---------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", ["0.1", "1e-5", "1e-12", "1e-100"])
@pytest.mark.parametrize("epsilon", ["0", "0.01", "1", "3", "50"])
def test_gaussian_mu_is_the_largest_that_fits(epsilon: str, delta: str) -> None:
    """delta(epsilon; mu) <= delta < delta(epsilon; mu (1 + 1e-11)), in 150-digit arithmetic."""
    if (epsilon, delta) == ("0", "1e-100"):
        with pytest.raises(Unsupported, match="no mu was found"):
            gaussian_mu(Fraction(epsilon), Fraction(delta))
        return
    mu = gaussian_mu(Fraction(epsilon), Fraction(delta))
    with mpmath.workdps(150):
        assert delta_of(Fraction(epsilon), mu) <= decimal(delta)
        assert delta_of(Fraction(epsilon), mu * (1 + Fraction(1, 10**11))) > decimal(delta)


def test_gaussian_mu_takes_any_exact_number() -> None:
    assert gaussian_mu(1.0, 1e-5) == gaussian_mu(Fraction(1), Fraction(1, 10**5))
    assert gaussian_mu(sympy.log(3), sympy.Rational(1, 10**5)) > gaussian_mu(1, 1e-5)
    assert is_infinite(gaussian_mu(1, 0.1)) is False


@pytest.mark.parametrize("pair", [(-1, 0.1), (1, -0.1), (1, 1), (1, 2), (float("inf"), 0.1)])
def test_gaussian_mu_refuses_bad_targets(pair: Any) -> None:
    with pytest.raises(InvalidParameter):
        gaussian_mu(*pair)
    with pytest.raises(InvalidParameter, match="not symbols"):
        gaussian_mu(sympy.Symbol("e", positive=True), 0.1)
    with pytest.raises(Unsupported, match="delta = 0"):
        gaussian_mu(1, 0)


# --- curves --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mu", ["0.1", "1", "5"])
def test_profile_and_trade_off_are_on_the_safe_side(mu: str) -> None:
    step = GAUSSIAN.fold(GDP(Fraction(mu)), SCOPE)
    with mpmath.workdps(60):
        for epsilon in (Fraction(0), Fraction(1, 3), Fraction(2), Fraction(9)):
            upper = decimal(decimal_upper(delta_sides(step, epsilon)[1]))
            truth = delta_of(epsilon, Fraction(mu))
            assert truth <= upper <= truth * (1 + mpmath.mpf("1e-11"))
        for alpha in (Fraction(1, 10**12), Fraction(1, 100), Fraction(1, 2), Fraction(9, 10)):
            quantile = mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * decimal(str(float(alpha))))
            truth = mpmath.ncdf(quantile - decimal(mu))
            lower = decimal(decimal_lower(tradeoff_sides(step, [alpha])[0][0]))
            assert truth * (1 - mpmath.mpf("1e-11")) <= lower <= truth


def test_curves_at_the_ends() -> None:
    step = GAUSSIAN.fold(GDP(0), SCOPE)
    assert delta_sides(step, Fraction(0))[1] == 0
    assert delta_sides(GAUSSIAN.fold(GDP(10**6), SCOPE), Fraction(0))[1] == 1
    assert delta_sides(GAUSSIAN.fold(NonPrivate("raw"), SCOPE), Fraction(1))[1] == 1
    one = GAUSSIAN.fold(GDP(1), SCOPE)
    assert tradeoff_sides(one, [Fraction(0)]) == [(1, 1)]
    assert tradeoff_sides(GAUSSIAN.fold(NonPrivate("raw"), SCOPE), [Fraction(1, 2)])[0][0] == 0
    assert tradeoff_sides(step, [Fraction(1, 4)])[0][0] == Fraction("0.749999999999")


def test_slack_moves_the_trade_off_along_the_steep_part() -> None:
    """At alpha = s/2 the bound is f(3 s/2) - s; f(alpha) - 2 s would be above it."""
    slack, alpha = Fraction(1, 100), Fraction(1, 200)
    step = CALCULI["profile"].fold(EventSlack(PureDP(3), slack, event="the noise overflows"), SCOPE)
    ((lower, upper),) = tradeoff_sides(step, [alpha])
    with mpmath.workdps(30):
        steep = mpmath.exp(3)
        exact = 1 - steep * decimal("0.015") - decimal("0.01")
        assert decimal(str(float(lower))) <= exact + mpmath.mpf("1e-4")
        assert decimal(str(float(lower))) >= exact - mpmath.mpf("1e-3")
    assert upper == 1 - alpha


# --- known wrong answers of other accountants ----------------------------------------------------


@pytest.mark.parametrize(
    ("node", "delta", "low", "high"),
    [
        (Repeat(Gaussian("a", 100), 10_000), "1e-10", "6.547923", "6.547925"),
        (Repeat(Gaussian("a", 100), 10_000), "1e-12", "7.238493", "7.238495"),
        (Repeat(Gaussian("a", 100), 10_000), "1e-14", "7.868735", "7.868737"),
        (Repeat(Gaussian("a", 100), 10_000), "1e-15", "8.16", "8.18"),
        (Gaussian("a", 1), "1e-5", "4.3771", "4.3773"),
        (Gaussian("a", 0.01), "1e-5", "5423", "5427"),
        (Laplace("a", 10), "0", "0.1", "0.1"),
        (Repeat(Laplace("a", 10), 10), "0", "1", "1"),
    ],
)
def test_where_other_accountants_err(node: Node, delta: str, low: str, high: str) -> None:
    """Truth below delta 1e-9, at delta 0, and without an absolute grid."""
    start = time.perf_counter()
    value = Account(node, SCOPE).approximate(Fraction(delta)).value[0]
    assert Fraction(low) <= value <= Fraction(high)
    assert time.perf_counter() - start < 1


# --- searches for an order ------------------------------------------------------------------------


@pytest.mark.parametrize("best", [2, 3, 5, 7, 9, 16, 17, 20, 26, 37, 100, 333, 1000])
def test_the_best_whole_order_is_found(best: int) -> None:
    """Any order gives a valid bound; of a curve with one valley it is the lowest one's."""
    assert _best_whole_order(lambda n: abs(float(n - best)), 4096) == best
    assert _best_whole_order(lambda n: max(float(best - n), float(n - best) / 100), 4096) == best


@pytest.mark.parametrize("best", [2.5, 37.3, 1e4])
def test_orders_above_two_are_written_with_short_denominators(best: float) -> None:
    order = _best_order(lambda a: (float(a) / best - 1) ** 2)
    assert float(order) == pytest.approx(best, rel=1e-3)
    assert order.denominator <= 10**6


def test_orders_next_to_one_are_told_apart() -> None:
    order = _best_order(lambda a: (float(a - 1) / 3.14159e-6 - 1) ** 2)
    assert float(order - 1) == pytest.approx(3.14159e-6, rel=1e-3)


@pytest.mark.quality
def test_sums_of_orders_that_cannot_win_are_not_made() -> None:
    """No curve is below 0, which bounds what whole orders give; that took 16 s for nothing."""
    for noise, delta in (("1", "1e-5"), ("30", "1e-5"), ("30", "1e-2")):
        step = RENYI.fold(_drawn_batches(noise), SCOPE)
        least = least_of_renyi(step, Fraction(delta))
        assert (least > 0) is (delta == "1e-5")
        assert least <= to_approx(step, Fraction(delta)).value[0]
    assert least_of_renyi(RENYI.fold(Gaussian("a", 1), SCOPE), Fraction(1, 100)) == 0
    small = Account(_drawn_batches("6000"), SCOPE)
    assert small.epsilon("1e-5").upper < Fraction(1, 10**5)
    assert ("rdp", Fraction(1, 10**5)) not in small._converted


def _drawn_batches(noise: str) -> Node:
    return Repeat(SampledWithoutReplacement(Gaussian("a", Fraction(noise)), 10, 1000), 200)


def test_a_small_epsilon_is_asked_for_from_where_a_grid_ended() -> None:
    """Alone its pair had 1.6e-5, and 0 where pairs below it were asked about too."""
    for reached in (True, False):
        small = Account(_drawn_batches("7278.5"), SCOPE, reached=reached)
        assert small.epsilon("1e-5").upper < Fraction(1, 10**6)
