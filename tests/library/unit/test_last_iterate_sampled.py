"""The last iterate of sampled batches: exact runs, other bounds, the checker, bad input."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy
from scipy.special import ndtr

import dpaudit as dp
from dpaudit.check.theorem import bound
from dpaudit.errors import CertificateRejected, InvalidParameter, Unsupported
from dpaudit.families.iterates import SampledLastIterate, rules
from dpaudit.families.iterates.rules import NOISE_PARTS, choice
from dpaudit.profiles.answers import delta_interval
from dpaudit.scope import Trust

F = Fraction
SCOPE = dp.central("add_remove")
EPSILONS = (0.0, 0.2, 0.5, 1.0, 2.0)


def ends(node: dp.Node, epsilon: float) -> tuple[float, float]:
    """delta at an epsilon: what is reached, and the bound."""
    found = dp.account(node, SCOPE).delta(F(epsilon))
    return float(found.lower), float(found.upper)


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    """The larger of both directions, of masses."""
    factor = math.exp(epsilon)
    return max(np.maximum(p - factor * q, 0).sum(), np.maximum(q - factor * p, 0).sum())


def linear_masses(z: float, steps: int, rate: float, c: float) -> tuple[np.ndarray, np.ndarray]:
    """x -> c x + coin + noise, by all sequences of coins: masses of cells with the record, and not.

    Masses of cells are a post-processing: their delta is below that of the run.
    """
    scale = z * math.sqrt(sum(c ** (2 * k) for k in range(steps)))
    edges = np.linspace(-9 * scale, steps + 9 * scale, 6_000)

    def cells(centre: float) -> np.ndarray:
        places = ndtr((edges - centre) / scale)
        return np.diff(np.concatenate([[0.0], places, [1.0]]))

    laws: dict[float, float] = {}
    for coins in itertools.product((0, 1), repeat=steps):
        weight = rate ** sum(coins) * (1 - rate) ** (steps - sum(coins))
        where = sum(c ** (steps - 1 - k) * coin for k, coin in enumerate(coins))
        laws[where] = laws.get(where, 0.0) + weight
    return sum(weight * cells(where) for where, weight in laws.items()), cells(0.0)


LINEAR = [
    (1.0, 6, 0.3, 1.0),
    (2.0, 8, 0.5, 0.8),
    (3.0, 10, 0.1, 0.95),
    (0.7, 5, 0.9, 0.5),
    (2.0, 10, 1.0, 0.9),
]


@pytest.mark.first_case
@pytest.mark.parametrize(("z", "steps", "rate", "c"), LINEAR)
def test_linear_updates_are_below_the_bound(z: float, steps: int, rate: float, c: float) -> None:
    node = SampledLastIterate("x", F(str(z)), steps, F(str(rate)), F(str(c)))
    p, q = linear_masses(z, steps, rate, c)
    for epsilon in EPSILONS:
        assert hockey_stick(p, q, epsilon) <= ends(node, epsilon)[1] * (1 + 1e-9) + 1e-13


def test_linear_updates_that_arrive_alike_are_what_is_said_to_be_reached() -> None:
    """x -> c x + b c^(i - 1) at step i: a sum over coins, where no set is projected to."""
    z, steps, rate, c = 2.0, 6, 0.4, 0.9
    node = SampledLastIterate("x", 2, steps, F(2, 5), F(9, 10))
    assert rules.linear_steps(node) == steps
    scale = z * math.sqrt(sum(c ** (2 * k) for k in range(steps)))
    grid = np.linspace(-9 * scale, steps + 9 * scale, 100_001)
    ways = [math.comb(steps, j) * rate**j * (1 - rate) ** (steps - j) for j in range(steps + 1)]

    def law(centre: float) -> np.ndarray:
        return np.exp(-(((grid - centre) / scale) ** 2) / 2)

    p = sum(way * law(j * c ** (steps - 1)) for j, way in enumerate(ways))
    norm = law(0.0).sum()
    alone = dp.PoissonSampled(dp.Gaussian("g", 2), F(2, 5))
    for epsilon in EPSILONS:
        exact = hockey_stick(p / norm, law(0.0) / norm, epsilon)
        assert ends(node, epsilon)[0] == pytest.approx(
            max(exact, ends(alone, epsilon)[0]), rel=1e-4, abs=1e-9
        )


def projected_masses(
    z: float, steps: int, rate: float, diameter: float
) -> tuple[np.ndarray, np.ndarray]:
    """x -> clip(x + coin + noise) on an interval, its last step shown as it is, by a fine chain.

    The chain lives on a lattice, noise rounded to it, which is a run of nearly the same noise; the
    second run lies at the lower end, where the first one's coins push it away.
    """
    width = diameter / 120
    lattice = np.arange(121) * width
    wide = np.arange(-int(9 * z / width), int((9 * z + diameter + 1) / width) + 1) * width

    def noise(to: np.ndarray, centre: np.ndarray) -> np.ndarray:
        at = (to[None] - centre[:, None]) / z
        return ndtr(at + width / z / 2) - ndtr(at - width / z / 2)

    def kernel(push: float) -> tuple[np.ndarray, np.ndarray]:
        shown = noise(wide, lattice + push)
        inside = noise(lattice, lattice + push)
        inside[:, 0] = ndtr((lattice[0] + width / 2 - lattice - push) / z)
        inside[:, -1] = 1 - ndtr((lattice[-1] - width / 2 - lattice - push) / z)
        return inside, shown

    (still, last_still), (moved, last_moved) = kernel(0.0), kernel(1.0)
    mixed = (1 - rate) * still + rate * moved
    laws = []
    for step, shown in ((mixed, (1 - rate) * last_still + rate * last_moved), (still, last_still)):
        law = np.zeros(121)
        law[0] = 1.0
        for _ in range(steps - 1):
            law = law @ step
        laws.append(law @ shown)
    return laws[0], laws[1]


PROJECTED = [(2.0, 400, 0.2, 2.0), (3.0, 2_000, 0.1, 4.0), (1.0, 100, 0.5, 1.0)]


@pytest.mark.first_case
@pytest.mark.parametrize(("z", "steps", "rate", "diameter"), PROJECTED)
def test_projected_runs_are_below_the_bound(
    z: float, steps: int, rate: float, diameter: float
) -> None:
    """Where the bound is that of a window: far below that of all steps shown."""
    node = SampledLastIterate("x", F(z), steps, F(str(rate)), 1, F(diameter))
    window, _ = choice(node)
    assert 0 < window < steps
    p, q = projected_masses(z, steps, rate, diameter)
    for epsilon in EPSILONS[1:]:
        upper = ends(node, epsilon)[1]
        assert hockey_stick(p, q, epsilon) <= upper * 1.001
        shown = dp.Repeat(dp.PoissonSampled(dp.Gaussian("g", F(z)), F(str(rate))), steps)
        assert upper < ends(shown, epsilon)[1]


def test_without_its_shifts_the_bound_would_be_exceeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the sampled pairs of a window of few steps alone."""
    z, steps, rate, diameter = 2.0, 400, 0.2, 2.0
    node = SampledLastIterate("x", 2, steps, F(1, 5), 1, 2)
    p, q = projected_masses(z, steps, rate, diameter)
    monkeypatch.setattr(rules, "choice", lambda node: (1, NOISE_PARTS - 1))
    monkeypatch.setattr(rules, "_start", lambda node, last: F(0))
    wrong = rules.sampled_last_iterate(node).remove[0]
    few = dp.PoissonSampled(dp.Gaussian("g", 2 * F(NOISE_PARTS - 1, NOISE_PARTS)), F(1, 5))
    assert wrong.text == dp.account(few, SCOPE).step("profile").value.remove[0].text
    assert hockey_stick(p, q, 0.5) > 1.2 * ends(few, 0.5)[1]


@pytest.mark.quality
def test_no_choice_of_window_and_split_is_refuted_by_a_projected_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every m and r give a bound, good or not."""
    node = SampledLastIterate("x", 1, 100, F(1, 2), 1, 1)
    p, q = projected_masses(1.0, 100, 0.5, 1.0)
    for made in ((1, 5), (1, 60), (3, 32), (20, 40), (99, 63), (0, 0), (0, NOISE_PARTS)):
        monkeypatch.setattr(rules, "choice", lambda node, made=made: made)
        losses = rules.sampled_last_iterate(node)
        for epsilon in (0.5, 1.0):
            assert hockey_stick(p, q, epsilon) <= delta_of(losses, epsilon) * 1.001


def delta_of(losses: Any, epsilon: float) -> float:
    return max(float(delta_interval(pair, F(epsilon)).upper) for pair in losses.pairs)


def order_two(node: SampledLastIterate, window: int, part: float) -> float:
    """Altschuler and Talwar's bound at order 2, of noise in two parts."""
    z, q = float(node.noise_multiplier), float(node.rate)
    coins = math.log1p(q * q * math.expm1(1 / (z * part) ** 2))
    return window * coins + float(node.diameter) ** 2 / window / (z * z * (1 - part * part))


def test_the_choice_is_no_worse_than_that_of_altschuler_and_talwar() -> None:
    """Theorem 3.1's proof, where half of the variance is for the shifts, at its best window."""
    for z, q, diameter in ((4, F(1, 100), 4), (3, F(1, 10), 30), (1, F(1, 50), 1)):
        node = SampledLastIterate("x", z, 10**6, q, 1, diameter)
        theirs = min(order_two(node, m, math.sqrt(0.5)) for m in range(1, 5_000))
        window, parts = choice(node)
        assert order_two(node, window, parts / NOISE_PARTS) <= theirs * 1.001


@pytest.mark.quality
def test_more_steps_cost_no_more_on_a_set_and_where_updates_contract() -> None:
    for c, diameter in ((F(1), 2), (F(9, 10), 0)):
        found = [
            ends(SampledLastIterate("x", 3, steps, F(1, 10), c, diameter), 0.5)[1]
            for steps in (10_000, 1_000_000)
        ]
        assert found[1] == pytest.approx(found[0], rel=1e-3)


def test_a_rate_of_one_is_a_run_on_all_records() -> None:
    for c, diameter in ((F(1), F(0)), (F(9, 10), F(0)), (F(9, 10), F(3)), (F(1), F(3))):
        sampled = SampledLastIterate("x", 3, 50, 1, c, diameter)
        full = dp.LastIterate("x", 3, 50, c, diameter)
        own, other = (dp.account(n, SCOPE).step("profile").value for n in (sampled, full))
        assert own == other
        assert bound("profile", sampled, []) == bound("profile", full, [])


def test_coins_told_are_better_at_rates_next_to_one() -> None:
    node = SampledLastIterate("x", 1, 50, F(99, 100), F(1, 2))
    assert choice(node) == (0, 0)
    full = dp.account(dp.LastIterate("x", 1, 50, F(1, 2)), SCOPE).step("gdp").value
    assert dp.account(node, SCOPE).step("profile").value.remove[0].mu == full


def test_the_checker_states_the_same_and_reads_the_choice_only() -> None:
    node = SampledLastIterate("x", 4, 10**6, F(1, 100), 1, 4)
    step = dp.account(node, SCOPE).step("profile")
    assert bound("profile", node, [], step.witness).text == step.value.text
    for wrong in (
        {"linear": 2, "parts": 3, "steps": 7},
        {"linear": 1, "parts": NOISE_PARTS, "steps": 7},
        {"linear": 1, "parts": 3},
        {"linear": 1, "steps": 7},
        {"linear": 1, "parts": 3, "steps": 10**6},
        {"linear": 1, "parts": 0, "steps": 7},
    ):
        with pytest.raises(CertificateRejected, match="the witness's"):
            bound("profile", node, [], wrong)
    free = SampledLastIterate("x", 4, 10, F(1, 100))
    with pytest.raises(CertificateRejected, match="at most the number of steps"):
        bound("profile", free, [], {"linear": 11, "parts": NOISE_PARTS})


def test_what_has_no_rule_says_so_and_bad_input_is_refused() -> None:
    node = SampledLastIterate("model", 2, 5, F(1, 10), F(1, 2), 3)
    assert "draws each record anew at rate 0.1" in node.assumption.statement
    assert "diameter 3 units" in node.assumption.statement
    with pytest.raises(Unsupported, match="under replace_one"):
        dp.account(node, dp.central("replace_one")).epsilon("1e-5")
    for calculus, why in (("gdp", "no Gaussian one"), ("zcdp", "high orders"), ("rdp", "profile")):
        with pytest.raises(Unsupported, match=why):
            dp.account(node, SCOPE).step(calculus)
    with pytest.raises(InvalidParameter, match="whoever draws the batches"):
        dp.account(node, replace(SCOPE, trust=Trust.LOCAL))
    for place, bad in (("rate", (2, 5, 0)), ("rate", (2, 5, F(3, 2))), ("steps", (2, F(5, 2), 1))):
        with pytest.raises(InvalidParameter, match=place):
            SampledLastIterate("x", *bad)
    with pytest.raises(InvalidParameter, match="contraction"):
        SampledLastIterate("x", 2, 5, F(1, 2), F(3, 2))
    with pytest.raises(InvalidParameter, match="diameter"):
        SampledLastIterate("x", 2, 5, F(1, 2), 1, -1)
    steps = sympy.Symbol("T", positive=True, integer=True)
    assert choice(SampledLastIterate("x", 2, steps, F(1, 2))) == (0, NOISE_PARTS)


# --- what is reached of projected runs on all records ---------------------------------------------


def test_the_last_step_of_a_projected_run_is_reached() -> None:
    """It was 0.  A constant update before, and one record's move, shown before it is projected."""
    node = dp.LastIterate("x", 2, 20, 1, 10**9)
    gaussian = dp.account(dp.Gaussian("g", 2), SCOPE).epsilon("1e-5")
    assert dp.account(node, SCOPE).epsilon("1e-5").lower == gaussian.lower > 1
