"""One-run bounds: against enumeration of all mechanisms, all laws of a count, exact fractions."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import coo_array

from dpaudit.audit.bounds.one_run import (
    chosen_epsilon_lower,
    one_run_epsilon_lower,
    one_run_p_value,
    one_run_price,
    price_share,
    strongest_one_run,
)
from dpaudit.errors import InvalidParameter


def worst_mechanism(correct: int, guesses: int, canaries: int, epsilon: float, delta: float) -> Any:
    """Largest P(at least ``correct`` right) over all (epsilon, delta)-DP maps of labels to guesses.

    A linear programme with one variable a label vector and a vector of guesses (0: no guess), and
    one a neighbouring pair and output, for the excess of one probability over e^epsilon x other.
    """
    labels = list(itertools.product((-1, 1), repeat=canaries))
    outputs = [
        t for t in itertools.product((-1, 0, 1), repeat=canaries) if sum(map(abs, t)) == guesses
    ]
    place = {s: k * len(outputs) for k, s in enumerate(labels)}
    pairs = [(s, t) for s in labels for t in labels if np.sum(np.array(s) != np.array(t)) == 1]
    size = len(labels) * len(outputs)
    excess = size + len(outputs) * np.arange(len(pairs))
    rows: list[tuple[int, int, float]] = []
    for p, (s, t) in enumerate(pairs):
        for y in range(len(outputs)):
            row = p * len(outputs) + y
            rows += [(row, place[s] + y, 1.0), (row, place[t] + y, -math.exp(epsilon))]
            rows += [(row, excess[p] + y, -1.0)]
    last = len(pairs) * len(outputs)
    rows += [(last + p, excess[p] + y, 1.0) for p in range(len(pairs)) for y in range(len(outputs))]
    i, j, values = zip(*rows, strict=True)
    width = size + len(pairs) * len(outputs)
    at_most = coo_array((values, (i, j)), shape=(last + len(pairs), width))
    sums = coo_array(
        (np.ones(size), (np.arange(size) // len(outputs), np.arange(size))),
        shape=(len(labels), width),
    )
    objective = np.zeros(width)
    for s in labels:
        for y, output in enumerate(outputs):
            right = sum(a == b for a, b in zip(s, output, strict=True))
            objective[place[s] + y] = -(right >= correct) / len(labels)
    limits = np.concatenate([np.zeros(last), np.full(len(pairs), delta)])
    programme: Any = linprog
    found = programme(objective, at_most, limits, sums, np.ones(len(labels)), method="highs")
    return -found.fun


def worst_law(correct: int, guesses: int, epsilon: float, slack: float) -> float:
    """Largest P(at least ``correct`` right) over laws of the count whose cost is at most slack."""
    size = guesses + 1
    at_most = np.zeros((guesses + 1, size + guesses))
    for k in range(guesses):
        at_most[k, k + 1], at_most[k, k] = k + 1, -math.exp(epsilon) * (guesses - k)
        at_most[k, size + k] = -1
    at_most[guesses, size:] = 1
    limits = np.concatenate([np.zeros(guesses), [slack]])
    total = np.concatenate([np.ones(size), np.zeros(guesses)])[None, :]
    objective = np.zeros(size + guesses)
    objective[correct:size] = -1
    found: Any = linprog(objective, at_most, limits, total, [1.0], method="highs")
    return float(-found.fun)


@pytest.mark.first_case
@pytest.mark.parametrize("delta", [0.0, 1e-3, 0.02, 0.2])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
@pytest.mark.parametrize(("guesses", "canaries"), [(1, 2), (2, 2), (1, 3), (2, 3), (3, 3)])
def test_no_mechanism_beats_the_p_value(
    guesses: int, canaries: int, epsilon: float, delta: float
) -> None:
    for correct in range(1, guesses + 1):
        most = worst_mechanism(correct, guesses, canaries, epsilon, delta)
        p_value = one_run_p_value(correct, guesses, canaries, epsilon, delta)
        assert p_value >= most - 1e-9
        if delta == 0 or (guesses == canaries and delta <= 1e-3):
            assert p_value == pytest.approx(most, rel=1e-5)


def test_p_value_is_the_worst_law_of_the_count() -> None:
    rng = np.random.default_rng(7)
    for _ in range(120):
        guesses = int(rng.integers(1, 40))
        correct = int(rng.integers(1, guesses + 1))
        canaries, epsilon = guesses + int(rng.integers(0, 50)), float(rng.uniform(0, 4))
        delta = 10 ** float(rng.uniform(-6, -1))
        most = worst_law(correct, guesses, epsilon, canaries * delta)
        p_value = one_run_p_value(correct, guesses, canaries, epsilon, delta)
        assert most * (1 - 1e-5) - 1e-9 <= p_value <= most * (1 + 1e-5) + 1e-8


def steinke(correct: int, guesses: int, canaries: int, epsilon: float, delta: float) -> float:
    """The published p-value (2023, Theorem 5.2), in fractions of the float e^epsilon."""
    q = Fraction(math.exp(epsilon)) / (1 + Fraction(math.exp(epsilon)))
    mass = [math.comb(guesses, k) * q**k * (1 - q) ** (guesses - k) for k in range(guesses + 1)]
    tail = sum(mass[correct:], Fraction(0))
    sums = itertools.accumulate(mass[correct - 1 :: -1] if correct else [])
    alpha = max((total / i for i, total in enumerate(sums, 1)), default=Fraction(0))
    return min(1.0, float(tail + 2 * canaries * Fraction(delta) * alpha))


@pytest.mark.first_case
@pytest.mark.parametrize("delta", [0.0, 1e-6, 1e-3])
def test_below_the_published_p_value_and_equal_to_it_at_delta_zero(delta: float) -> None:
    for guesses, epsilon in itertools.product((1, 7, 60), (0.0, 1.0, 4.0)):
        for correct in range(guesses + 1):
            published = steinke(correct, guesses, 100, epsilon, delta)
            p_value = one_run_p_value(correct, guesses, 100, epsilon, delta)
            assert p_value <= published * (1 + 1e-6) or published > 0.8
            assert delta > 0 or p_value >= published * (1 - 1e-12)


def test_a_mechanism_beats_the_published_p_value_where_most_guesses_are_wrong() -> None:
    most = worst_mechanism(1, 3, 3, 0.0, 0.01)
    assert most > steinke(1, 3, 3, 0.0, 0.01) + 1e-3
    assert most <= one_run_p_value(1, 3, 3, 0.0, 0.01) + 1e-9


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_bound_is_where_the_p_value_reaches_the_error(delta: float) -> None:
    for correct, guesses in ((90, 100), (100, 100), (700, 1000)):
        bound = one_run_epsilon_lower(correct, guesses, 1000, delta, 0.05)
        assert one_run_p_value(correct, guesses, 1000, bound, delta) <= 0.05
        assert one_run_p_value(correct, guesses, 1000, bound * (1 + 1e-5), delta) > 0.05


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("guesses", [20, 200, 1_000])
def test_exceeds_the_epsilon_of_randomised_response_in_just_under_five_percent(
    guesses: int, epsilon: float
) -> None:
    """Exact, no sampling: the probability of all counts whose bound exceeds the truth."""
    q = 1 / (1 + math.exp(-epsilon))
    mass = [math.comb(guesses, k) * q**k * (1 - q) ** (guesses - k) for k in range(guesses + 1)]
    counts = [k for k in range(guesses // 2, guesses + 1) if mass[k] > 1e-12]
    above = [k for k in counts if one_run_epsilon_lower(k, guesses, guesses, 0.0, 0.05) > epsilon]
    wrong = sum(mass[k] for k in above)
    assert wrong <= 0.05
    # The next count would bring it above 5%: nothing more can be had from a discrete count.
    assert not above or wrong + mass[min(above) - 1] > 0.05


def test_p_value_grows_with_epsilon_delta_and_canaries_and_falls_with_correct_guesses() -> None:
    values = [one_run_p_value(80, 100, 500, e, 1e-4) for e in np.linspace(0, 4, 30)]
    assert all(a <= b * (1 + 1e-9) for a, b in itertools.pairwise(values))
    values = [one_run_p_value(80, 100, 500, 1.0, d) for d in np.geomspace(1e-8, 0.5, 30)]
    assert all(a <= b * (1 + 1e-9) for a, b in itertools.pairwise(values))
    values = [one_run_p_value(80, 100, m, 1.0, 1e-4) for m in range(100, 10_000, 900)]
    assert all(a <= b * (1 + 1e-9) for a, b in itertools.pairwise(values))
    values = [one_run_p_value(v, 100, 500, 1.0, 1e-4) for v in range(101)]
    assert all(b <= a * (1 + 1e-9) for a, b in itertools.pairwise(values))


def test_bound_with_chosen_guesses_pays_a_little_for_the_choice() -> None:
    for correct, guesses, canaries in ((58, 63, 1_000), (180, 200, 10_000), (590, 632, 100_000)):
        fixed = one_run_epsilon_lower(correct, guesses, canaries, 1e-5, 0.05)
        chosen = chosen_epsilon_lower(correct, guesses, canaries, 1e-5, 0.05)
        assert 0.9 * fixed < chosen <= fixed
    assert chosen_epsilon_lower(58, 63, 1000, 0.0, 0.05) == one_run_epsilon_lower(
        58, 63, 1000, 0.0, 0.05
    )


def test_nothing_is_paid_for_a_delta_of_zero() -> None:
    assert price_share(1_000, 0.0, 0.05) == 0
    assert price_share(1_000, 1e-3, 0.05) == 0.5  # canaries x delta = 1 costs the most
    assert price_share(1_000, 1e-7, 0.05) == 0.01
    usual = math.sqrt(16 * math.sqrt(1_000))
    assert price_share(1_000, 3e-5, 0.05) == pytest.approx(0.03 / 0.05 / usual, rel=1e-12)


def test_error_of_a_chosen_bound_is_kept_by_the_worst_law_of_every_view() -> None:
    """The price is one for all choices: whatever r, P(refuted) - price x cost <= the rest."""
    canaries, delta, error, epsilon = 1_000, 1e-4, 0.05, 1.0
    share = price_share(canaries, delta, error)
    price = share * error / (canaries * delta)
    for guesses in (5, 20, 50):
        correct = next(
            v for v in range(guesses + 2)
            if v > guesses or chosen_epsilon_lower(v, guesses, canaries, delta, error) > epsilon
        )  # fmt: skip
        for slack in (0.0, 0.01, 0.1, 1.0):
            most = worst_law(correct, guesses, epsilon, slack) if correct <= guesses else 0.0
            assert most - price * slack <= (1 - share) * error + 1e-9


def test_all_correct_is_the_strongest_and_more_is_possible_with_more_guesses() -> None:
    assert strongest_one_run(100, 1000, 1e-5, 0.05) > one_run_epsilon_lower(
        99, 100, 1000, 1e-5, 0.05
    )
    assert strongest_one_run(200, 1000, 1e-5, 0.05) > strongest_one_run(100, 1000, 1e-5, 0.05)


@pytest.mark.parametrize("correct", [0, 1, 5_000, 9_999, 10_000])
@pytest.mark.parametrize("epsilon", [0.0, 1e-9, 1.0, 30.0, 700.0])
def test_extreme_counts_give_a_probability(correct: int, epsilon: float) -> None:
    for delta in (0.0, 1e-300, 1e-5, 0.999):
        assert 0 <= one_run_p_value(correct, 10_000, 10_000, epsilon, delta) <= 1


def test_millions_of_guesses() -> None:
    bound = one_run_epsilon_lower(1_800_000, 2_000_000, 2_000_000, 1e-8, 0.05)
    assert math.log(9) - 0.01 < bound < math.log(9)


BAD = [
    {"correct": -1},
    {"correct": 11},
    {"guesses": 0},
    {"guesses": 21},
    {"canaries": 0},
    {"canaries": 10**8},
    {"correct": 2.5},
    {"canaries": math.nan},
    {"delta": -1e-9},
    {"delta": 1.0},
    {"delta": math.nan},
    {"epsilon": -0.1},
    {"epsilon": math.nan},
    {"epsilon": math.inf},
]


@pytest.mark.parametrize("change", BAD, ids=str)
def test_bad_input_is_refused(change: dict[str, Any]) -> None:
    good: dict[str, Any] = {
        "correct": 5, "guesses": 10, "canaries": 20, "epsilon": 1.0, "delta": 0.0,
    }  # fmt: skip
    with pytest.raises(InvalidParameter):
        one_run_p_value(**{**good, **change})


@pytest.mark.parametrize("error", [0.0, 1.0, -1.0, math.nan])
def test_bad_error_rates_are_refused(error: float) -> None:
    for bound in (one_run_epsilon_lower, chosen_epsilon_lower, strongest):
        with pytest.raises(InvalidParameter):
            bound(5, 10, 20, 1e-5, error)


def strongest(correct: int, guesses: int, canaries: int, delta: float, error: float) -> float:
    return strongest_one_run(guesses, canaries, delta, error)


def test_a_price_is_paid_for_delta_alone() -> None:
    assert one_run_price(90, 100, 200, 1.0, 0.0) == 0.0
    assert one_run_price(90, 100, 200, 1.0, 1e-5) > 0
