"""Noise for tables: rules against enumeration, kernels against their law, exact choices."""

from __future__ import annotations

import itertools
import math
import tomllib
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from dpaudit.accountant.account import Account
from dpaudit.check.theorem import bound as own_theorem
from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.exact import enclose
from dpaudit.families.composition import Repeat
from dpaudit.families.discrete import DiscreteGaussian
from dpaudit.families.opaque import GDP, ApproxDP
from dpaudit.families.selection import ExponentialMechanism, IntegerExponentialMechanism
from dpaudit.families.tabular import (
    DiscreteGaussianVector,
    ThresholdedDiscreteGaussian,
    ThresholdedDiscreteLaplace,
)
from dpaudit.families.tabular.kernel import (
    DiscreteGaussianVectorKernel,
    ExactChoiceKernel,
    ExactRunsKernel,
    ThresholdedDiscreteGaussianKernel,
    ThresholdedDiscreteLaplaceKernel,
)
from dpaudit.kernels import random_bits
from dpaudit.kernels.random_bits import bits_of
from dpaudit.kernels.samplers import chosen_places
from dpaudit.ledger import terms_of
from dpaudit.releases.items.keys import Groups
from dpaudit.releases.plan import Release, release_of
from dpaudit.scope import central
from dpaudit.tabular import Schema, Text
from tests.support.coarse import gaussian_tail

SCOPE = central("replace_one")
ALTERNATIVES = (((3, 1),), ((2, 1), (1, 1)), ((1, 3),))


def delta_of(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def masses(variance: float, reach: int) -> np.ndarray:
    k = np.arange(-reach, reach + 1)
    weights = np.exp(-(k**2) / (2 * variance))
    return weights / weights.sum()


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0])
def test_a_vector_is_bounded_at_every_move_its_alternatives_allow(epsilon: float) -> None:
    """Every move below one of the alternatives, enumerated; the worst one is nearly reached."""
    variance, reach = 4.0, 16
    node = DiscreteGaussianVector("a", 4, 9, ALTERNATIVES)
    bound = Account(node, SCOPE).delta(Fraction(epsilon))
    noise = masses(variance, reach)
    padded = np.pad(noise, 3)
    worst = 0.0
    for move in itertools.product(range(4), repeat=3):
        if sum(move) > 3:
            continue
        moved = [np.roll(padded, m) for m in move]
        p = np.einsum("i,j,k->ijk", *moved)
        q = np.einsum("i,j,k->ijk", padded, padded, padded)
        found = delta_of(p, q, epsilon)
        assert found <= float(bound.upper) * (1 + 1e-9)
        worst = max(worst, found)
    assert worst > float(bound.upper) * 0.99
    smaller = Account(DiscreteGaussianVector("a", 4, 4, (((2, 1),), ((1, 2),))), SCOPE)
    assert float(smaller.delta(Fraction(epsilon)).upper) < worst, "a bound one smaller is caught"


def test_a_vector_of_equal_moves_is_that_many_single_ones() -> None:
    for variance, room in ((20, 1), (50, 1.002)):
        vector = Account(DiscreteGaussianVector("a", variance, 12, (((2, 3),),)), SCOPE)
        single = Account(Repeat(DiscreteGaussian("a", variance, 2), 3), SCOPE)
        bounds = [float(account.epsilon("1e-6").upper) for account in (vector, single)]
        # Wide noise is bounded by normal noise, a little above.
        assert bounds[1] <= bounds[0] <= bounds[1] * room
        assert vector.step("zcdp").value == single.step("zcdp").value


@pytest.mark.parametrize("variance", [20, 50])
def test_the_checker_is_told_where_normal_noise_stands_for_the_moves(variance: int) -> None:
    step = Account(DiscreteGaussianVector("a", variance, 12, (((2, 3),),)), SCOPE).step("profile")
    assert own_theorem("profile", step.node, [], step.witness) == step.value


def test_where_only_the_squares_are_known_normal_noise_bounds_them() -> None:
    known = Account(DiscreteGaussianVector("a", 20, 9, ALTERNATIVES), SCOPE).epsilon("1e-6")
    unknown = Account(DiscreteGaussianVector("a", 20, 9, ()), SCOPE).epsilon("1e-6")
    assert known.upper < unknown.upper < known.upper * Fraction(101, 100)
    # Below a variance of one half there is the divergence alone.
    narrow = Account(DiscreteGaussianVector("a", "0.4", 1, ()), SCOPE)
    assert "Concentrated" in narrow.step("profile").value.text
    with pytest.raises(Unsupported, match="infinite"):
        terms_of("person", SCOPE, GDP(9)).cost(narrow.node)


def normal_points(variance: float, reach: int) -> np.ndarray:
    """g(0), g(1), ...: what standard normal noise exceeds as often as P(noise >= k)."""
    k = np.arange(-reach, reach + 1)
    weights = np.exp(-(k.astype(np.longdouble) ** 2) / (2 * variance))
    tails = np.cumsum(weights[::-1])[::-1] / weights.sum()
    return -norm.ppf(tails[reach:].astype(float))


@pytest.mark.parametrize("variance", [0.5, 1, 2, 5, 25, 100])
def test_steps_of_the_noise_are_within_those_of_its_normal_noise(variance: float) -> None:
    """The inequality (1) of the rule, and that the variance itself would not do."""
    node = DiscreteGaussianVector("a", Fraction(str(variance)), 1)
    allowed = float(enclose(Account(node, SCOPE).step("gdp").value).mid())
    points = normal_points(variance, math.ceil(30 * variance**0.5))
    steps = np.diff(points[np.isfinite(points) & (points < 7)])
    widest = max(steps.max(), 2 * points[1])
    assert widest <= allowed < widest * (1 + 0.08 / variance + 0.2 / variance**2)
    assert widest > variance**-0.5 * (1 + 1e-6)


def test_a_vector_that_contradicts_itself_is_refused() -> None:
    for squared, moves in ((8, ALTERNATIVES), (1, ((("x", 1),),)), (1, (((1, 0),),)), (1, ((),))):
        with pytest.raises(InvalidParameter):
            DiscreteGaussianVector("a", 4, squared, moves)
    for kind in (ThresholdedDiscreteLaplace, ThresholdedDiscreteGaussian):
        with pytest.raises(InvalidParameter, match="above the largest own count"):
            kind("a", 4, 3, largest=3)


def test_the_kernel_tells_a_move_that_no_alternative_allows() -> None:
    kernel = DiscreteGaussianVectorKernel(DiscreteGaussianVector("a", 4, 9, ALTERNATIVES), 1)
    zero = np.zeros((1, 4))
    for move, allowed in (([3, 0, 0, 0], True), ([1, -1, 1, 0], True), ([0, 2, 0, -1], True)):
        assert np.isfinite(kernel.apart(zero, np.array([move], float), np.ones(1))[0]) == allowed
    for move in ([2, 2, 0, 0], [4, 0, 0, 0], [1, 1, 1, 1]):
        assert kernel.apart(zero, np.array([move], float), np.ones(1))[0] == np.inf


LEAF = ThresholdedDiscreteLaplace("towns", 2, 5, sensitivity=2, own=2, largest=1)


def log_masses(kernel: ThresholdedDiscreteLaplaceKernel, count: float) -> np.ndarray:
    shown = np.array([np.nan, *range(-60, 120)])
    values = np.full((len(shown), 1), count)
    return kernel.log_density(shown[:, None], values, np.full(len(shown), 2.0))


@pytest.mark.parametrize("count", [0, 1, 4, 5, 6, 20])
def test_the_law_of_a_thresholded_count_adds_up_to_one(count: int) -> None:
    kernel = ThresholdedDiscreteLaplaceKernel(LEAF, 1)
    assert np.exp(log_masses(kernel, count)).sum() == pytest.approx(1, abs=1e-9)
    if count == 0:
        assert log_masses(kernel, 0)[0] == 0


def test_thresholded_counts_stay_within_their_epsilon_and_delta() -> None:
    """Two keys of its own, and none, enumerated; a threshold one lower would pass delta."""
    account = Account(LEAF, SCOPE)
    epsilon, delta = account.step("approx").value
    kernel = ThresholdedDiscreteLaplaceKernel(LEAF, 1)
    one, none = (np.exp(log_masses(kernel, count)) for count in (1, 0))
    p, q = np.outer(one, one), np.outer(none, none)
    told = delta_of(p, q, float(epsilon))
    assert told <= float(delta) < told * 1.2
    lower = ThresholdedDiscreteLaplaceKernel(
        ThresholdedDiscreteLaplace("towns", 2, 4, sensitivity=2, own=2, largest=1), 1
    )
    one = np.exp(log_masses(lower, 1))
    assert delta_of(np.outer(one, one), q, float(epsilon)) > float(delta)
    # A common key, moved by the whole sensitivity.
    p, q = (np.exp(log_masses(kernel, count)) for count in (7, 5))
    for at in (0.0, 0.5, 1.0):
        assert delta_of(p, q, at) <= float(account.delta(Fraction(at)).upper) + 1e-9


def thresholded_gaussian(count: int, variance: float, threshold: int) -> np.ndarray:
    """The law of what is shown of one count, hidden first; of weights added up here."""
    k = np.arange(-120, 200)
    weights = np.exp(-((k - count) ** 2) / (2 * variance))
    shown = np.where(k >= threshold, weights / weights.sum(), 0.0)
    return np.array([1 - shown.sum(), *shown])


@pytest.mark.long_cases("0.4-4", "60-30")
@pytest.mark.parametrize(("variance", "threshold"), [(4, 8), (9, 12), (0.4, 4), (60, 30)])
def test_thresholded_gaussian_counts_stay_within_their_profile(
    variance: float, threshold: int
) -> None:
    """Every neighbour of up to two own keys and a common one, enumerated; and the bound is near."""
    v = Fraction(str(variance))
    leaf = ThresholdedDiscreteGaussian("t", v, threshold, 3, own=2, largest=1)
    account, kernel = Account(leaf, SCOPE), ThresholdedDiscreteGaussianKernel(leaf, 1)
    one = thresholded_gaussian(1, variance, threshold)
    shown = np.array([np.nan, *range(-120, 200)])[:, None]
    law = np.exp(kernel.log_density(shown, np.ones(shown.shape), np.full(len(shown), 0.5)))
    assert law == pytest.approx(one, abs=1e-12)
    absent = np.eye(len(one))[0]
    for size, epsilon in itertools.product((threshold, 20), (0.0, 0.5, 1.0, 3.0)):
        above = float(account.delta(Fraction(epsilon)).upper)
        more, fewer = (thresholded_gaussian(n, variance, threshold) for n in (size + 1, size))
        likely = np.maximum(more, fewer) > 1e-9
        p = np.multiply.outer(np.outer(one, one), more[likely])
        q = np.multiply.outer(np.outer(absent, absent), fewer[likely])
        assert max(delta_of(p, q, epsilon), delta_of(q, p, epsilon)) <= above + 1e-9
    far, tail = float(account.delta(Fraction(40)).upper), 2 * gaussian_tail(threshold - 1, variance)
    assert tail <= far <= 1.35 * tail


def test_the_planner_shows_87_of_200_keys_where_laplace_noise_shows_36() -> None:
    """Units are in 11 groups.  The threshold keeps its part of delta; two less would not."""
    schema = Schema("t", {"town": Text()}, unit="p", entity="p", rows=11)
    limits: dict[str, Any] = {"groups": 11, "per_group": 1, "delta": "1e-7"}

    def planned(noise: str) -> Any:
        item = Groups(name="g", column="town", noise=noise, **limits)
        return Release("t", schema, "add_remove", ApproxDP(1, "1e-6"), (item,)).plan().leaves["g"]

    leaf, laplace = planned(""), planned("laplace")
    assert isinstance(leaf, ThresholdedDiscreteGaussian)
    shown = [11 * gaussian_tail(int(leaf.threshold) - 1 - k, float(leaf.variance)) for k in (0, 2)]
    assert shown[0] <= 1e-7 < shown[1]
    # Towns of sizes as of Zipf's law: 36 of 200 with Laplace noise, 87 with what is chosen.
    sizes = [36 * int(laplace.threshold) / rank for rank in range(1, 201)]
    assert sum(size >= laplace.threshold for size in sizes) == 36
    assert sum(size >= leaf.threshold for size in sizes) >= 87


def shown_from(delta: str = "", others: str = "") -> tuple[int, dict[str, float]]:
    """The threshold of a plan's groups, and the deviation of each part's noise."""
    own = f', delta = "{delta}"' if delta else ""
    plan = tomllib.loads(f"""
title = "t"
adjacency = "add_remove"
budget = {{ epsilon = 1, delta = 1e-6 }}
items = [
  {{ name = "g", query = "groups", column = "town", groups = 11, per_group = 1{own} }}{others}
]
[table]
name = "t"
unit = "p"
entity = "p"
rows = 11
[table.columns]
town = {{ kind = "text" }}
""")
    leaves = release_of(plan).plan().leaves
    variances = {
        label: float(getattr(leaf, "variance", 0)) or 2 * float(leaf.scale) ** 2
        for label, leaf in leaves.items()
    }
    return int(leaves["g"].threshold), {label: v**0.5 for label, v in variances.items()}


@pytest.mark.quality
def test_a_plan_takes_the_part_of_delta_that_shows_the_smallest_groups() -> None:
    """89 of 200 towns of Zipf's sizes, where a tenth of delta shows 87 and most of it fewer."""
    chosen, (deviation,) = shown_from()[0], shown_from()[1].values()
    assert chosen == 80
    for delta in ("1e-8", "1e-7", "9.5e-7"):
        other, (wider,) = shown_from(delta)[0], shown_from(delta)[1].values()
        assert chosen + 1.645 * deviation < other + 1.645 * wider


def test_a_plan_with_other_items_leaves_them_more_of_delta() -> None:
    """Their noise grows by less than the groups shrink."""
    count = ', { name = "n", query = "count" }'
    (chosen, mine), (hundredth, _), (_, least) = (
        shown_from(others=count),
        shown_from("1e-8", count),
        shown_from("1e-9", count),
    )
    assert mine["n"] < 1.02 * least["n"]
    assert chosen < 0.95 * hundredth


def test_an_exact_choice_has_the_law_of_the_exponential_mechanism() -> None:
    """Chi-square of 20,000 draws at 1e-6, and their residuals; another epsilon's law fails both."""
    from scipy.stats import chisquare, kstest

    scores, epsilon, moved = [0, -1, -3, 2, 2], Fraction(3, 2), 2
    kernel = ExactRunsKernel(IntegerExponentialMechanism("q", epsilon), 20_000)
    values = np.broadcast_to(np.array([scores + [1] * 5], dtype=float), (20_000, 10))
    scale = np.full(20_000, float(2 * moved / epsilon))
    chosen = kernel.sample(values, scale, np.random.default_rng(5))
    drawn = np.bincount(chosen[:, 0].astype(int), minlength=5)

    def law(rate: float) -> np.ndarray:
        weights = np.exp(rate * np.array(scores))
        return 20_000 * weights / weights.sum()

    assert chisquare(drawn, law(float(epsilon) / (2 * moved))).pvalue > 1e-6
    assert chisquare(drawn, law(float(epsilon) / moved)).pvalue < 1e-6
    assert kstest(kernel.residual(chosen, values, scale)[:, 0], "norm").pvalue > 1e-6
    assert kstest(kernel.residual(chosen, values, scale / 2)[:, 0], "norm").pvalue < 1e-6


@pytest.mark.parametrize(
    "values",
    [
        [3.0, 2.0, 0.0],
        [3.0, 2.0, 0.0, -np.inf],
        [3.0, 2.0, 0.0, 0.0],
        [3.0, 2.0, 0.5, 1.0],
        [3.0, 2.0, -1.0, 2.0],
        [3.0, 2.0, 2.0**52, 1.0],
        [3.0, -np.inf, 1.0, 1.0],
    ],
)
def test_a_choice_among_runs_refuses_values_of_another_form(values: list[float]) -> None:
    """Scores alone, no candidate, halves of one, fewer than none, too many, and no score."""
    kernel = ExactRunsKernel(IntegerExponentialMechanism("q", Fraction(1)), 2)
    scale = np.full(2, 2.0)
    with pytest.raises(InvalidParameter, match="choice among runs"):
        kernel.sample(np.array([values] * 2), scale, np.random.default_rng(1))
    with pytest.raises(InvalidParameter, match="choice among runs"):
        kernel.centre(np.array([values]))


def test_what_a_float_leaves_open_about_a_choice_is_decided_exactly(monkeypatch) -> None:
    """With a window so wide that balls decide every coin, the same draws come out."""
    gaps, rate = np.array([0, 1, 3, 90, 10**7]), Fraction(1, 7)
    known = chosen_places(gaps, rate, 300, bits_of(np.random.default_rng(1)))
    asked: list[Fraction] = []
    real = random_bits._below_exp

    def seen(word: int, exponent: Fraction, factor: Fraction, bits: Any) -> bool:
        asked.append(factor)
        return real(word, exponent, factor, bits)

    monkeypatch.setattr(random_bits, "FLOAT_WINDOW", 0.01)
    monkeypatch.setattr(random_bits, "_below_exp", seen)
    again = chosen_places(gaps, rate, 300, bits_of(np.random.default_rng(1)))
    assert (known == again).all()
    assert len(set(asked)) > 1, "coins of several weights"
    assert set(known) <= {0, 1, 2}


def test_an_exact_choice_leaves_out_what_is_not_there_and_refuses_halves() -> None:
    kernel = ExactChoiceKernel(ExponentialMechanism("q", Fraction(1)), 3)
    values = np.array([[5.0, -np.inf, 4.0]] * 3)
    rng = np.random.default_rng(1)
    for _ in range(20):
        assert not kernel.sample(values, np.full(3, 2.0), rng)[:, 1].any()
    with pytest.raises(InvalidParameter, match="whole numbers"):
        kernel.admit(np.array([1.0]), 3)
    # A choice that is all but certain, among many.
    scores = np.array([-(10**6)] * 5000 + [0])
    assert kernel.choices(scores, np.ones_like(scores), 1, 1, bits_of(rng)) == [5000]
