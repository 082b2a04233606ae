"""One-run bounds on mu, rho and Renyi divergences: against programmes over laws and mechanisms."""

from __future__ import annotations

import itertools
import math
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy.optimize import linprog

import dpaudit as dp
from dpaudit.audit.bounds.estimators import epsilon_of_gaussian
from dpaudit.audit.bounds.one_run import one_run_p_value
from dpaudit.audit.bounds.one_run_curves import (
    Curve,
    _p_value,
    gaussian_inverse,
    one_run_curve_lower,
    one_run_curve_p_value,
    one_run_mu_lower,
    one_run_mu_p_value,
    one_run_renyi_lower,
    one_run_renyi_p_value,
    one_run_rho_lower,
    one_run_rho_p_value,
    planned_guesses,
    profile_inverse,
    renyi_inverse,
    zcdp_inverse,
)
from dpaudit.errors import InvalidParameter


def gaussian_delta(mu: float, epsilon: float) -> float:
    with mpmath.workdps(40):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        first = mpmath.ncdf(m / 2 - e / m)
        return float(first - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m))


def worst_law(correct: int, guesses: int, canaries: int, mu: float) -> float:
    """Largest P(at least ``correct`` right) over laws of the count within the budgets of mu-GDP.

    The budget of :mod:`dpaudit.audit.bounds.one_run` at fifteen epsilons at once; a linear
    programme.
    """
    epsilons = np.linspace(0, 3 * mu + mu**2, 15)
    size = guesses + 1
    width = size + guesses * epsilons.size
    rows, limits = [], []
    for i, epsilon in enumerate(epsilons):
        start = size + guesses * i
        for k in range(guesses):
            row = np.zeros(width)
            row[k + 1], row[k], row[start + k] = k + 1, -math.exp(epsilon) * (guesses - k), -1
            rows.append(row)
            limits.append(0.0)
        row = np.zeros(width)
        row[start : start + guesses] = 1
        rows.append(row)
        limits.append(canaries * gaussian_delta(mu, float(epsilon)))
    objective, total = np.zeros(width), np.zeros((1, width))
    objective[correct:size], total[0, :size] = -1, 1
    found: Any = linprog(objective, np.array(rows), limits, total, [1.0], method="highs")
    return float(-found.fun)


@pytest.mark.parametrize("mu", [0.3, 1.0, 2.0])
@pytest.mark.parametrize(("guesses", "canaries"), [(4, 4), (10, 10), (8, 30)])
def test_p_value_is_not_below_the_worst_law(guesses: int, canaries: int, mu: float) -> None:
    """Fifteen budgets are fewer than all: allow what a finer grid would take off, 2%."""
    for correct in (guesses // 2, guesses - 1, guesses):
        most = worst_law(correct, guesses, canaries, mu)
        p_value = one_run_mu_p_value(correct, guesses, canaries, mu)
        assert p_value >= most * 0.98 - 1e-9


@pytest.mark.parametrize("mu", [0.2, 0.8, 1.5])
@pytest.mark.parametrize("canaries", [2, 3, 6])
def test_shared_luck_stays_below_the_p_value(canaries: int, mu: float) -> None:
    """A mechanism built to fool the audit: all canaries' noise has one absolute value.

    Each score x_i = s_i mu / 2 + noise_i has the law N(s_i mu / 2, 1) of the Gaussian mechanism;
    |x_i| is shared (one comonotone draw), so all guesses are good, or all are bad, together.
    P(all m guesses correct) = E[sigmoid(mu |x|)^m] over the law of |x|.
    """
    x = np.linspace(0, 12, 200_001)
    both = np.exp(-((x - mu / 2) ** 2) / 2) + np.exp(-((x + mu / 2) ** 2) / 2)
    density = both / math.sqrt(2 * math.pi)
    correct = 1 / (1 + np.exp(-mu * x))
    for hits in range(canaries // 2, canaries + 1):
        tail = sum(
            math.comb(canaries, k) * correct**k * (1 - correct) ** (canaries - k)
            for k in range(hits, canaries + 1)
        )
        most = float(np.trapezoid(density * tail, x))
        assert one_run_mu_p_value(hits, canaries, canaries, mu) >= most - 1e-8


def test_one_guess_is_the_advantage_of_the_best_test() -> None:
    """P(correct) <= Phi(mu / 2) for one canary guessed always: reached by the Gaussian itself."""
    for mu in (0.1, 1.0, 3.0):
        exact = float(mpmath.ncdf(mu / 2))
        assert exact <= one_run_mu_p_value(1, 1, 1, mu) <= exact * (1 + 1e-5)


def test_close_to_the_exact_test_of_one_point_and_never_below_it() -> None:
    for guesses, canaries, epsilon, delta in ((5, 5, 0.5, 1e-3), (20, 60, 1.0, 1e-4)):
        inverse = profile_inverse(np.array([epsilon]), np.array([delta]))
        assert inverse(0.0) == 0
        for correct in (guesses - 2, guesses):
            exact = one_run_p_value(correct, guesses, canaries, epsilon, delta)
            found = _p_value(correct, guesses, canaries, inverse)
            assert exact * (1 - 1e-5) <= found <= 1.5 * exact


def test_gaussian_inverse_against_forty_digits() -> None:
    with mpmath.workdps(40):
        for mu, y in itertools.product((0.0, 0.5, 3.0), (1e-9, 0.01, 0.5, 0.999)):
            quantile = mpmath.sqrt(2) * mpmath.erfinv(2 * mpmath.mpf(y) - 1)
            exact = float(mpmath.ncdf(quantile - mu))
            assert exact * (1 - 1e-9) <= gaussian_inverse(mu)(y) <= exact * (1 + 1e-15)


@pytest.mark.parametrize("rho", [0.01, 0.5, 4.0])
def test_zcdp_allows_what_the_gaussian_of_the_same_rho_does(rho: float) -> None:
    """sqrt(2 rho)-GDP is rho-zCDP: its pairs of event probabilities must all be allowed."""
    gaussian, zcdp = gaussian_inverse(math.sqrt(2 * rho)), zcdp_inverse(rho)
    for y in (1e-6, 0.01, 0.3, 0.5, 0.9, 0.999):
        assert zcdp(y) <= gaussian(y) * (1 + 1e-12)
    assert one_run_rho_p_value(50, 50, 100, rho) >= one_run_mu_p_value(
        50, 50, 100, math.sqrt(2 * rho)
    ) * (1 - 1e-9)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_renyi_allows_what_randomised_response_does(epsilon: float) -> None:
    """Its Renyi divergence of order a, computed in closed form, claims it; y = the true rate."""
    p = 1 / (1 + math.exp(-epsilon))
    for order in (1.5, 2.0, 8.0):
        value = math.log(p**order * (1 - p) ** (1 - order) + (1 - p) ** order * p ** (1 - order))
        inverse = renyi_inverse(order, value / (order - 1))
        assert inverse(p) <= (1 - p) * (1 + 1e-12)
        assert one_run_renyi_p_value(1, 1, 1, order, value / (order - 1)) >= p


@pytest.mark.parametrize(
    "bound",
    [
        one_run_mu_lower,
        one_run_rho_lower,
        lambda v, r, m, error: one_run_renyi_lower(v, r, m, 4.0, error),
    ],
)
def test_bounds_grow_with_correct_guesses_and_shrink_with_confidence(bound: Any) -> None:
    values = [bound(correct, 40, 100, 0.05) for correct in (20, 30, 36, 39, 40)]
    assert values == sorted(values)
    assert values[0] == 0 < values[-1]
    assert bound(39, 40, 100, 1e-6) < bound(39, 40, 100, 0.05)


def test_bound_is_where_the_p_value_reaches_the_error() -> None:
    bound = one_run_mu_lower(38, 40, 100, 0.05)
    assert one_run_mu_p_value(38, 40, 100, bound) <= 0.05 * (1 + 1e-5)
    assert one_run_mu_p_value(38, 40, 100, bound * 1.001) > 0.05
    bound = one_run_rho_lower(38, 40, 100, 0.05)
    assert one_run_rho_p_value(38, 40, 100, bound * 1.001) > 0.05


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf, 1e9])
def test_bad_parameters_are_refused(bad: float) -> None:
    for call in (one_run_mu_p_value, one_run_rho_p_value):
        with pytest.raises(InvalidParameter):
            call(5, 10, 10, bad)
    with pytest.raises(InvalidParameter):
        one_run_renyi_p_value(5, 10, 10, 2.0, bad)
    with pytest.raises(InvalidParameter):
        one_run_renyi_p_value(5, 10, 10, bad, 1.0)


def test_the_largest_mu_is_fifty() -> None:
    assert one_run_mu_p_value(5, 10, 10, 50.0) == 1
    with pytest.raises(InvalidParameter):
        one_run_mu_p_value(5, 10, 10, 50.5)


def test_bad_counts_and_errors_are_refused() -> None:
    bad: list[Any] = [(11, 10, 20), (-1, 10, 20), (5, 21, 20), (5, 0, 20), (1.5, 10, 20)]
    for correct, guesses, canaries in bad:
        with pytest.raises(InvalidParameter):
            one_run_mu_p_value(correct, guesses, canaries, 1.0)
    for error in (0.0, 1.0, math.nan):
        for bound in (one_run_mu_lower, one_run_rho_lower):
            with pytest.raises(InvalidParameter):
                bound(5, 10, 20, error)


# --- an account's own curve, and guesses planned for a claim -------------------------------------


def gaussian_curve(mu: float, points: int = 60) -> Curve:
    epsilons = np.linspace(0, 3 * mu + mu**2, points)
    return Curve(epsilons, np.array([gaussian_delta(mu, float(e)) for e in epsilons]) * (1 + 1e-12))


def test_the_curve_of_a_gaussian_is_tested_nearly_as_sharply_as_mu() -> None:
    for correct, guesses, canaries in ((48, 50, 400), (95, 100, 1_000), (30, 40, 40)):
        exact = one_run_mu_p_value(correct, guesses, canaries, 1.0)
        by_points = one_run_curve_p_value(correct, guesses, canaries, gaussian_curve(1.0))
        assert exact <= by_points * (1 + 1e-6)
        assert by_points <= max(2 * exact, 1e-9)


def test_a_multiple_above_one_is_a_curve_refuted() -> None:
    curve = gaussian_curve(1.0)
    for correct in range(20, 51):
        refuted = one_run_curve_p_value(correct, 50, 400, curve) <= 0.05
        assert (one_run_curve_lower(correct, 50, 400, curve, 0.05) >= 1) == refuted


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("mu", "epsilon", "aim"), [(0.9249308976669365, 4, 2.45), (1.6660305978457184, 8, 5.2)]
)
def test_planned_guesses_show_most_of_a_gaussian(mu: float, epsilon: float, aim: float) -> None:
    """Mean bound at delta 1e-5 of 100 runs of 5,000 canaries: its standard error is below 0.06."""
    assert abs(float(epsilon_of_gaussian(mu, 1e-5)) - epsilon) < 1e-6
    rng, counts, guesses = np.random.default_rng(8), [], planned_guesses(5_000, mu, 0.05)
    for _ in range(100):
        included = rng.random(5_000) < 0.5
        scores = rng.normal(size=5_000) + mu * (included - 0.5)
        best = np.argsort(-np.abs(scores))[:guesses]
        counts.append(int(np.count_nonzero((scores[best] > 0) == included[best])))
    bounds = {c: one_run_mu_lower(c, guesses, 5_000, 0.05) for c in set(counts)}
    shown = [float(epsilon_of_gaussian(bounds[c], 1e-5)) for c in counts]
    assert aim <= np.mean(shown)
    assert np.mean(np.array(shown) > epsilon) <= 0.12  # 5% by right, and three standard errors


def test_an_account_is_tested_by_its_curve_and_must_show_the_claim(tmp_path: Any) -> None:
    account = dp.account(dp.Gaussian("q", 1), dp.central("zero_out"))
    epsilon = float(account.epsilon("1e-5").upper)
    audit = dp.audit_one_run(
        1_000, claim=dp.ApproxDP("4.4", "1e-5"), account=account, refute_at=0.01
    )
    labels = audit.commit(tmp_path / "commitment.json", seed=3)
    found = audit.bound(labels.included.astype(float))
    assert found.verdict is dp.Verdict.REFUTED
    assert found.lower > epsilon > found.epsilon_lower
    assert "an account whose curve is tested" in found.claim
    with pytest.raises(InvalidParameter, match=r"its epsilon is 4\.37"):
        dp.audit_one_run(400, claim=dp.ApproxDP(2, "1e-5"), account=account)
    replaced = dp.account(dp.Gaussian("q", 1), dp.central("replace_one"))
    with pytest.raises(InvalidParameter, match="to include a canary is no step"):
        dp.audit_one_run(400, claim=dp.ApproxDP(5, "1e-5"), account=replaced)
    with pytest.raises(InvalidParameter, match="for a claim of ApproxDP"):
        dp.audit_one_run(400, claim=dp.GDP(1), account=account)


def test_points_that_are_no_curve_are_refused() -> None:
    for epsilons, deltas in (([-1.0], [0.5]), ([1.0], [1.5]), ([1.0, 2.0], [0.5])):
        with pytest.raises(InvalidParameter):
            Curve(np.array(epsilons), np.array(deltas))
