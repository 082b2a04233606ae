"""The interface of privacy profiles: closed forms, extremes, bad input, exact answers."""

from __future__ import annotations

import itertools
import math
import time
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy
from scipy.special import ndtr

from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.exact import is_infinite
from dpaudit.pairs import (
    Atoms,
    Concentrated,
    DiscreteNormal,
    LaplaceShift,
    Largest,
    Mixed,
    Normal,
    Pair,
    Product,
    Spliced,
    largest_loss,
    product,
)
from dpaudit.profiles import (
    Interval,
    advantage_interval,
    answers,
    delta_curve,
    delta_interval,
    epsilon_interval,
    tradeoff_curve,
)
from dpaudit.profiles.closed.tradeoff import tradeoff_from
from dpaudit.profiles.fourier.compose import compose
from dpaudit.profiles.fourier.steps import aligned

F = Fraction
DELTA = F(1, 10**5)
SAMPLED = Mixed(Normal(F(1)), F(1, 100))
RESPONSE = Atoms(((F(3, 4), F(1, 4)), (F(1, 4), F(3, 4))))


def times(pair: Pair, count: int) -> Pair:
    return product([(pair, F(count))])


def width(found: Interval) -> float:
    return float(found.upper - found.lower)


# --- closed forms --------------------------------------------------------------------------------


def test_gaussian_epsilon_and_back() -> None:
    found = epsilon_interval(Normal(F(1)), DELTA)
    assert found.method == "closed form"
    assert F("4.377178095") < found.lower <= found.upper < F("4.377178096")
    assert delta_interval(Normal(F(1)), found.upper).lower <= DELTA
    assert delta_interval(Normal(F(1)), found.lower).upper >= DELTA


def test_normals_collapse_before_any_grid() -> None:
    many = product((Normal(F(1, 100)), F(1)) for _ in range(10_000))
    assert epsilon_interval(many, DELTA) == epsilon_interval(Normal(F(1)), DELTA)


@pytest.mark.parametrize(
    ("pair", "truth"),
    [
        (LaplaceShift(F(1)), 1 + 2 * math.log1p(-1e-5)),
        (RESPONSE, math.log((0.75 - 1e-5) / 0.25)),
        (Normal(F(1, 10**8)), 0.0),
        (Normal(F(0)), 0.0),
        (LaplaceShift(F(1, 10**8)), 0.0),
    ],
)
def test_single_pairs(pair: Pair, truth: float) -> None:
    found = epsilon_interval(pair, DELTA)
    assert float(found.lower) <= truth + 1e-15
    assert truth <= float(found.upper) + 1e-15
    assert width(found) <= 2e-11


def test_a_very_large_mu_is_a_closed_form() -> None:
    found = epsilon_interval(Normal(F(1000)), DELTA)
    assert float(found.upper) == pytest.approx(504263.89292, rel=1e-10)


def test_largest_and_spliced_single() -> None:
    low, high = Normal(F(1, 2)), Normal(F(1))
    assert epsilon_interval(Largest((low, high)), DELTA) == epsilon_interval(high, DELTA)
    assert epsilon_interval(Spliced(high, low), DELTA) == epsilon_interval(high, DELTA)


def test_zero_noise_composed_is_free() -> None:
    free = Atoms(((F(1, 2), F(1, 2)), (F(1, 2), F(1, 2))))
    assert epsilon_interval(times(free, 100), DELTA).upper < F(1, 10**6)


# --- delta = 0 -----------------------------------------------------------------------------------


def test_hundred_laplace_at_delta_zero_is_exactly_ten() -> None:
    found = epsilon_interval(times(LaplaceShift(F(1, 10)), 100), 0)
    assert (found.lower, found.upper) == (10, 10)


@pytest.mark.parametrize(
    "pair",
    [
        Normal(F(1)),
        Concentrated(F(1)),
        DiscreteNormal(F(4), F(1)),
        SAMPLED,
        Atoms(((F(1, 2), F(0)), (F(1, 2), F(1)))),
    ],
)
def test_delta_zero_may_be_infinite(pair: Pair) -> None:
    assert is_infinite(epsilon_interval(pair, 0).upper)
    assert is_infinite(largest_loss(times(pair, 3)))


def test_delta_zero_of_mixtures() -> None:
    """log(1 + q (e^eps - 1)), and -log(1 - q) for sampled normal noise swapped."""
    found = epsilon_interval(times(Mixed(LaplaceShift(F(1)), F(1, 10)), 7), 0)
    truth = 7 * math.log1p(0.1 * math.expm1(1))
    assert float(found.lower) == pytest.approx(truth, rel=1e-11)
    assert width(found) < 1e-10
    swapped = epsilon_interval(times(SAMPLED.swapped, 5), 0)
    assert float(swapped.upper) == pytest.approx(-5 * math.log(0.99), rel=1e-11)


@pytest.mark.quality
def test_bounded_losses_cap_epsilon() -> None:
    found = epsilon_interval(times(LaplaceShift(F(1, 10)), 5), F(1, 10**30))
    assert found.upper <= F(1, 2)
    huge = epsilon_interval(times(LaplaceShift(F(1, 10)), 10**30), DELTA)
    assert (huge.lower, huge.upper) == (0, 10**29)
    wild = epsilon_interval(times(LaplaceShift(F(1000)), 10), DELTA)
    assert wild.upper == 10_000
    assert delta_interval(times(LaplaceShift(F(1, 10)), 100), 10).upper == 0


# --- compositions --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pair", "count", "delta", "inside", "most"),
    [
        (SAMPLED, 10_000, DELTA, "6.18771", 1e-4),
        (SAMPLED, 10_000, F(1, 10**20), "13.87977", 1e-4),
        (SAMPLED, 100_000, DELTA, "25.5731", 1e-3),
        (Mixed(Normal(F(2)), F(1, 100)), 1000, DELTA, "13.36082", 1e-4),
        (
            Spliced(Mixed(Normal(F(2)), F(1, 100)), Mixed(Normal(F(2)), F(1, 100)).swapped),
            1000,
            DELTA,
            "14.820668",
            1e-4,
        ),
        (LaplaceShift(F(1, 10)), 100, DELTA, "4.220347", 1e-4),
    ],
)
def test_recorded_compositions(
    pair: Pair, count: int, delta: Fraction, inside: str, most: float
) -> None:
    found = epsilon_interval(times(pair, count), delta, most)
    digit = F(1, 10 ** len(inside.partition(".")[2]))
    assert found.lower - digit <= F(inside) <= found.upper + digit
    assert width(found) <= most


def test_witness_names_what_a_checker_needs() -> None:
    found = epsilon_interval(times(LaplaceShift(F(1, 10)), 100), DELTA)
    for side, end, shown in (
        ("upper", found.upper, found.upper_witness),
        ("lower", found.lower, found.lower_witness),
    ):
        assert shown["form"] == "fourier"
        assert shown["side"] == side
        assert float(shown["epsilon"]) == pytest.approx(float(end), rel=1e-11)
        named = ("step", "nodes", "tilt", "period", "frequencies", "round_off", "aliasing")
        assert all(shown[key] for key in (*named, "truncation", "masses", "infinite"))


def test_epsilon_falls_with_delta_and_grows_with_rounds() -> None:
    by_delta = [epsilon_interval(times(SAMPLED, 500), F(1, 10**k)) for k in (3, 6, 9, 60)]
    assert all(a.upper < b.lower for a, b in itertools.pairwise(by_delta))
    by_rounds = [epsilon_interval(times(SAMPLED, n), DELTA) for n in (100, 200, 400)]
    assert all(a.upper < b.lower for a, b in itertools.pairwise(by_rounds))


def test_delta_above_the_advantage_costs_nothing() -> None:
    assert epsilon_interval(times(SAMPLED, 100), F(9, 10)).upper == 0
    near = epsilon_interval(times(SAMPLED, 100), F(48, 1000))
    assert F(6, 1000) < near.lower <= near.upper < F(63, 10000)


@pytest.mark.quality
def test_infinite_mass_above_delta_is_infinite_epsilon() -> None:
    leaky = Atoms(((F(1, 100), F(0)), (F(99, 100), F(1))))
    found = epsilon_interval(product([(leaky, F(3)), (SAMPLED, F(5))]), F(1, 1000))
    assert is_infinite(found.upper)
    below = delta_interval(product([(leaky, F(3)), (SAMPLED, F(5))]), 50)
    exact = 1 - F(99, 100) ** 3
    assert below.lower <= exact <= below.upper
    assert float(below.upper - below.lower) < 1e-9


@pytest.mark.quality
def test_only_upper_profiles_leave_lower_at_what_is_known() -> None:
    alone = epsilon_interval(times(Concentrated(F(1, 100)), 10), DELTA)
    assert alone.lower == 0
    assert float(alone.upper) > 1
    mixed = epsilon_interval(product([(Concentrated(F(1, 100)), F(1)), (SAMPLED, F(500))]), DELTA)
    own = epsilon_interval(times(SAMPLED, 500), DELTA)
    assert mixed.lower == pytest.approx(own.lower, abs=2e-4)
    assert mixed.upper > own.upper


def test_epsilon_and_delta_agree() -> None:
    pair = times(SAMPLED, 2000)
    epsilon = epsilon_interval(pair, DELTA)
    at = delta_interval(pair, epsilon.upper)
    assert at.lower <= DELTA
    assert at.lower / DELTA > F(99, 100)
    assert delta_interval(pair, epsilon.lower).upper >= DELTA


def test_delta_curve_is_that_of_single_points() -> None:
    pair = times(SAMPLED, 300)
    points = [0, F(1, 2), 1, 2]
    curve = delta_curve(pair, points)
    for point, found in zip(points, curve, strict=True):
        alone = delta_interval(pair, point)
        assert found.lower <= alone.upper
        assert alone.lower <= found.upper
    assert all(a.lower > b.upper for a, b in itertools.pairwise(curve))
    assert delta_curve(pair, []) == []


def test_advantage_is_total_variation() -> None:
    assert advantage_interval(Normal(F(1))).lower == pytest.approx(0.3829249225, abs=1e-9)
    found = advantage_interval(times(RESPONSE, 3))
    outcomes = [(F(1), F(1))]
    for _ in range(3):
        outcomes = [(p * a, q * b) for p, q in outcomes for a, b in RESPONSE.outcomes]
    truth = sum(max(F(0), p - q) for p, q in outcomes)
    assert found.lower <= truth <= found.upper


# --- the trade-off function ----------------------------------------------------------------------


def test_tradeoff_of_the_normal_pair() -> None:
    (found,) = tradeoff_curve(Normal(F(1)), [F(1, 10)])
    truth = 0.6108563083546390
    assert float(found.lower) <= truth <= float(found.upper)
    assert width(found) < 1e-5


def test_tradeoff_of_responses() -> None:
    """Two responses: the Neyman-Pearson test, by enumeration."""
    outcomes = [(p * a, q * b) for p, q in RESPONSE.outcomes for a, b in RESPONSE.outcomes]
    alpha = F(1, 10)
    (found,) = tradeoff_curve(times(RESPONSE, 2), [alpha])
    assert found.lower <= missed(outcomes, alpha) <= found.upper
    assert width(found) < 2e-3


def missed(outcomes: list[tuple[Any, Any]], alpha: F) -> F:
    """By the Neyman-Pearson test of (P, Q) masses."""
    power, left = F(0), alpha
    for p, q in sorted(outcomes, key=lambda o: -o[0] / o[1]):
        taken = min(q, left)
        power, left = power + p * taken / q, left - taken
    return 1 - power


def test_a_curve_of_many_rates_holds_the_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve responses, by how many of them told the truth; too small a delta is noticed."""
    (p, q), (rest_p, rest_q) = RESPONSE.outcomes
    law = [
        (math.comb(12, k) * p**k * rest_p ** (12 - k), math.comb(12, k) * q**k * rest_q ** (12 - k))
        for k in range(13)
    ]
    alphas = [F(k, 30) for k in range(1, 30)]
    truth = [missed(law, alpha) for alpha in alphas]
    curve = tradeoff_curve(times(RESPONSE, 12), alphas)
    for found, exact in zip(curve, truth, strict=True):
        assert found.lower <= exact <= found.upper
        assert width(found) < 1e-3
    real = answers._single_bounds
    monkeypatch.setattr(answers, "_single_bounds", lambda *given: [0.999 * b for b in real(*given)])
    wrong = tradeoff_curve(times(RESPONSE, 12), alphas)
    assert any(found.lower > exact for found, exact in zip(wrong, truth, strict=True))


def test_bounds_of_delta_that_lie_apart_lose_nothing_between_nodes() -> None:
    """The guarantee is the conjugate of the upper bound, which a dense grid gives too."""

    def apart(epsilon: float) -> tuple[float, float]:
        delta = normal_delta(epsilon)
        return 0.9 * delta, min(1.1 * delta, 1.0)

    for alpha in (F(1, 100), F(1, 10), F(1, 2)):
        (found,) = tradeoff_from(apart, [alpha], 1e-6)
        dense = max(
            1 - apart(epsilon)[1] - math.exp(epsilon) * float(alpha)
            for epsilon in np.linspace(-8, 5, 20_001)
        )
        assert 0 <= dense - float(found.lower) <= 1e-5


def normal_delta(epsilon: float) -> float:
    """Delta of noise 1 at any epsilon, by the normal distribution function."""
    return float(ndtr(0.5 - epsilon) - math.exp(epsilon) * ndtr(-0.5 - epsilon))


@pytest.mark.quality
def test_rates_of_a_curve_share_one_composition(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    real = compose

    def counted(*given: Any) -> Any:
        made.append(given)
        return real(*given)

    monkeypatch.setattr("dpaudit.profiles.fourier.profile.compose", counted)
    tradeoff_curve(times(SAMPLED, 10), [F(1, 10)])
    of_one = len(made)
    tradeoff_curve(times(SAMPLED, 10), [F(k, 40) for k in range(4, 40)])
    assert len(made) - of_one < 1.2 * of_one  # 36 rates; alone they take 36 times as many


def test_tradeoff_ends() -> None:
    """At alpha = 0 only what Q never takes is detected."""
    (found,) = tradeoff_curve(times(RESPONSE, 2), [0])
    assert (found.lower, found.upper) == (1, 1)
    leaky = Atoms(((F(1, 100), F(0)), (F(99, 100), F(1))))
    (found,) = tradeoff_curve(times(leaky, 2), [0])
    assert found.lower <= F(99, 100) ** 2 <= found.upper


# --- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [-1, 1, 2, math.nan, math.inf, -math.inf, "a", None, True])
def test_bad_delta(delta: Any) -> None:
    with pytest.raises(InvalidParameter):
        epsilon_interval(times(SAMPLED, 10), delta)


@pytest.mark.parametrize("epsilon", [-1, math.nan, math.inf, "a"])
def test_bad_epsilon(epsilon: Any) -> None:
    with pytest.raises(InvalidParameter):
        delta_interval(times(SAMPLED, 10), epsilon)
    with pytest.raises(InvalidParameter):
        delta_curve(times(SAMPLED, 10), [1, epsilon])


@pytest.mark.parametrize("alpha", [-1, 1, math.nan])
def test_bad_alpha(alpha: Any) -> None:
    with pytest.raises(InvalidParameter):
        tradeoff_curve(Normal(F(1)), [alpha])


@pytest.mark.parametrize("wide", [0, -1e-3, math.nan, math.inf])
def test_bad_width(wide: float) -> None:
    with pytest.raises(InvalidParameter, match="width"):
        epsilon_interval(times(SAMPLED, 10), DELTA, wide)


def test_symbols_must_be_bound() -> None:
    sigma = sympy.Symbol("sigma", positive=True)
    count = sympy.Symbol("T", integer=True, positive=True)
    for pair in (times(Mixed(Normal(1 / sigma), F(1, 100)), 3), Product(((SAMPLED, count),))):
        with pytest.raises(InvalidParameter, match=r"bind (sigma|T) first"):
            epsilon_interval(pair, DELTA)
    with pytest.raises(InvalidParameter, match="bind sigma first"):
        epsilon_interval(SAMPLED, sigma / 10)


def test_symbolic_constants_are_numbers() -> None:
    exact_root = epsilon_interval(times(Mixed(Normal(sympy.sqrt(2)), F(1, 100)), 100), DELTA)
    near = epsilon_interval(times(Mixed(Normal(F(math.sqrt(2))), F(1, 100)), 100), DELTA)
    assert float(exact_root.upper) == pytest.approx(float(near.upper), abs=1e-9)


def test_counts_must_be_whole() -> None:
    with pytest.raises(InvalidParameter, match="whole number"):
        epsilon_interval(Product(((SAMPLED, F(1, 2)),)), DELTA)


def test_unknown_pairs_are_unsupported() -> None:
    with pytest.raises(Unsupported):
        epsilon_interval(Product(((Pair(), F(2)),)), DELTA)


def test_absurd_sizes_answer_soundly_and_soon() -> None:
    start = time.monotonic()
    found = epsilon_interval(times(SAMPLED, 10**30), DELTA)
    assert found.lower == 0
    assert is_infinite(found.upper)
    tiny = epsilon_interval(times(SAMPLED, 10), F(1, 10**320))
    # Chernoff's bound of a sum over the integers / 1000 is 76.4962, above by some log(t) / t.
    assert 75.5 < tiny.lower < tiny.upper < 76.4963
    small = epsilon_interval(times(Mixed(Normal(F(1, 10**8)), F(1, 100)), 1000), DELTA)
    assert small.upper < F(1, 10**3)
    assert time.monotonic() - start < 5


@pytest.mark.quality
def test_delta_far_out() -> None:
    found = delta_interval(times(SAMPLED, 100), 1000)
    assert found.lower == 0
    assert 0 <= found.upper < F(1, 10**200)
    assert delta_interval(times(SAMPLED, 100), 50).upper < F(1, 10**180)


def test_steps_divide_a_single_atom() -> None:
    step = aligned(((LaplaceShift(F(1, 10)), 100),), 1e-3)
    assert abs(0.1 / step - round(0.1 / step)) < 1e-8
    assert step <= 1e-3
    assert aligned(((RESPONSE, 3),), 1e-3) == pytest.approx(math.log(3))
