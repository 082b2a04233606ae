"""Random allocation against quadrature, exact moments, the Gaussian and simulation."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr

from dpaudit.grids.averages import law_of_mean
from dpaudit.grids.discrete import Discrete, Grid, Side
from dpaudit.pairs import Allocated, Normal, Pair, allocated, product
from dpaudit.profiles import epsilon_interval

Floats = NDArray[np.float64]
EPSILONS = np.array([-3.0, -1.0, -0.4, -0.1, 0.0, 0.05, 0.2, 0.5, 0.9, 1.5, 2.5, 4.0])
FALSE_ALARM = 1e-9


def profile(found: Discrete, epsilons: Floats) -> Floats:
    with np.errstate(over="ignore", under="ignore"):
        ratios = np.exp(epsilons[:, None] - found.losses)
    return found.infinite + np.maximum(0, 1 - ratios) @ found.masses


def both(pair: Pair, epsilons: Floats, step: Fraction, tail: float) -> tuple[Floats, Floats]:
    sides = (pair.on_grid(Grid(step, tail), side) for side in (Side.LOWER, Side.UPPER))
    lower, upper = (profile(found, epsilons) for found in sides)
    return lower, upper


def call(strike: Floats, z: float) -> Floats:
    """E(X - k)_+ of the lognormal X with mean 1 and log deviation 1 / z (Black, Scholes 1973)."""
    near = np.log(np.maximum(strike, 1e-300)) * z
    value = ndtr(0.5 / z - near) - strike * ndtr(-0.5 / z - near)
    return np.where(strike > 0, value, 1 - strike)


def put(strike: Floats, z: float) -> Floats:
    """E(k - X)_+ of the same X."""
    near = np.log(np.maximum(strike, 1e-300)) * z
    value = strike * ndtr(near + 0.5 / z) - ndtr(near - 0.5 / z)
    return np.where(strike > 0, value, 0.0)


def quadrature(z: float, slots: int, epsilon: float, step: float) -> tuple[float, float]:
    """delta in both directions: the trapezoidal rule over all slots but one, that one exact."""
    reach = 9.5
    a = np.arange(-reach, 1 / z + reach, step)
    weight = np.exp(-a * a / 2) * step / math.sqrt(2 * math.pi)
    ratio = np.exp(a / z - 0.5 / z**2)
    weights, sums = weight, ratio
    for _ in range(slots - 2):
        weights = np.multiply.outer(weights, weight).ravel()
        sums = np.add.outer(sums, ratio).ravel()
    x = math.exp(epsilon)
    remove = float(weights @ call(slots * x - sums, z)) / slots
    add = x * float(weights @ put(slots / x - sums, z)) / slots
    return remove, add


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("z", "slots", "step", "largest", "accuracy"),
    [
        ("0.5", 2, 0.0005, 4, 1e-7),
        ("1", 2, 0.001, 4, 1e-7),
        ("3", 2, 0.0005, 2, 1e-7),
        ("1", 3, 0.02, 2, 1e-6),
        ("3", 3, 0.04, 1, 1e-9),
    ],
)
def test_two_and_three_slots_against_quadrature(
    z: str, slots: int, step: float, largest: float, accuracy: float
) -> None:
    """``accuracy``: of the quadrature, found by halving its step."""
    pair = Allocated(Fraction(z), Fraction(slots))
    epsilons = EPSILONS[largest + 0.1 > EPSILONS][:: slots - 1]
    exact = np.array([quadrature(float(z), slots, e, step) for e in epsilons])
    for direction, expected in ((pair, exact[:, 0]), (pair.swapped, exact[:, 1])):
        lower, upper = both(direction, epsilons, Fraction(1, 1000), 1e-18)
        shown = expected > 1e-12
        assert np.all(lower <= expected * (1 + accuracy) + 1e-16)
        assert np.all(upper >= expected * (1 - accuracy) - 1e-16)
        assert np.all((upper - lower)[shown] <= 2e-3 * expected[shown])


@pytest.mark.first_case
@pytest.mark.parametrize("z", ["0.2", "1", "10"])
def test_one_slot_is_the_gaussian(z: str) -> None:
    mu = 1 / float(z)
    scaled = EPSILONS * min(mu, 2.0)
    below, above = ndtr(mu / 2 - scaled / mu), ndtr(-mu / 2 - scaled / mu)
    expected = below - np.exp(scaled) * above
    pair = Allocated(Fraction(z), Fraction(1))
    for direction in (pair, pair.swapped):
        lower, upper = both(direction, scaled, Fraction(1, 2000), 1e-18)
        assert np.all(lower <= expected * (1 + 1e-9) + 1e-15)
        assert np.all(upper >= expected * (1 - 1e-9) - 1e-15)
        assert np.all(upper - lower <= 1e-4 * mu)
    found = epsilon_interval(pair, Fraction(1, 10**5), 1e-3)
    gaussian = epsilon_interval(Normal(1 / Fraction(z)), Fraction(1, 10**5))
    assert found.lower <= gaussian.upper
    assert found.upper >= gaussian.lower
    assert found.upper - found.lower <= Fraction(1, 100)


def power_mean(z: float, slots: int, power: int) -> float:
    """E R^2 or E R^3, exactly: E X^k = exp(k (k - 1) / (2 z^2))."""
    second, third, t = math.exp(1 / z**2), math.exp(3 / z**2), slots
    if power == 2:
        return 1 + (second - 1) / t
    return (t * third + 3 * t * (t - 1) * second + t * (t - 1) * (t - 2)) / t**3


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("z", "slots"), [(1.0, 2), (0.5, 5), (2.0, 31), (1.0, 100), (1.0, 999), (1.5, 10_000)]
)
def test_laws_enclose_the_exact_second_and_third_moments(z: float, slots: int) -> None:
    for power in (2, 3):
        exact = power_mean(z, slots, power)
        found = {}
        for side in Side:
            law, _ = law_of_mean(Fraction(z), slots, Fraction(1, 1000), 1e-40, side)
            held = law.masses > 0
            values = law.moments[held] / law.masses[held]
            found[side] = float(law.masses[held] @ values**power)
            assert math.isclose(float(law.masses.sum()), 1, rel_tol=1e-7)
            assert math.isclose(float(law.moments.sum()), 1, rel_tol=1e-7)
        slack = 1e-8
        assert found[Side.LOWER] <= exact * (1 + slack)
        assert found[Side.UPPER] >= exact * (1 - slack)
        assert found[Side.UPPER] - found[Side.LOWER] <= 0.01 * (exact - 1)


def simulated_losses(z: float, slots: int, epochs: int, runs: int, seed: int) -> Floats:
    """Losses log R of ``epochs`` epochs together, each drawn from P."""
    rng = np.random.default_rng(seed)
    total = np.zeros(runs)
    for _ in range(epochs):
        for part in np.array_split(np.arange(runs), max(runs * slots // 2_000_000, 1)):
            x = rng.standard_normal((len(part), slots))
            x[:, 0] += 1 / z
            total[part] += np.log(np.mean(np.exp(x / z - 0.5 / z**2), axis=1))
    return total


def empirical(values: Floats) -> tuple[float, float]:
    """Bounds of a mean of numbers in [0, 1], wrong with probability FALSE_ALARM at most.

    Source: Maurer, Pontil 2009, Theorem 4, on either side.
    """
    n, level = len(values), math.log(4 / FALSE_ALARM)
    radius = math.sqrt(2 * float(np.var(values, ddof=1)) * level / n) + 7 * level / (3 * (n - 1))
    return float(np.mean(values)) - radius, float(np.mean(values)) + radius


@pytest.mark.quality
def test_hundred_slots_against_simulation() -> None:
    """False-alarm rate 3e-9: three bounds of rate 1e-9 each; the seed is fixed."""
    lower, upper = both(
        Allocated(Fraction(1), Fraction(100)), np.array([0.0, 0.1, 0.2]), Fraction(1, 500), 1e-15
    )
    losses = simulated_losses(1.0, 100, 1, 200_000, seed=20_261)
    for epsilon, low, high in zip((0.0, 0.1, 0.2), lower, upper, strict=True):
        at_least, at_most = empirical(np.maximum(0, 1 - np.exp(epsilon - losses)))
        assert low <= at_most
        assert high >= at_least
        assert at_most - at_least < 0.3 * high


@pytest.mark.quality
def test_ten_epochs_against_simulation() -> None:
    """False-alarm rate 1e-9; the seed is fixed.  Checks composition by epsilon at two deltas."""
    epsilon = 0.3
    losses = simulated_losses(1.0, 100, 10, 20_000, seed=20_262)
    at_least, at_most = empirical(np.maximum(0, 1 - np.exp(epsilon - losses)))
    pair = product([(Allocated(Fraction(1), Fraction(100)), Fraction(10))])
    above = epsilon_interval(pair, Fraction(f"{at_most:.6f}"), 0.01)
    below = epsilon_interval(pair, Fraction(f"{at_least:.6f}"), 0.01)
    assert above.lower <= epsilon + 1e-4
    assert below.upper >= epsilon - 1e-4
    assert below.lower - above.upper < 0.2


@pytest.mark.quality
def test_ten_epochs_of_a_hundred_slots() -> None:
    """Inside the interval [1.664, 1.740] that another accountant gives, and much narrower."""
    pair = Allocated(Fraction(1), Fraction(100))
    found = [
        epsilon_interval(product([(direction, Fraction(10))]), Fraction(1, 10**5), 2e-3)
        for direction in (pair, pair.swapped)
    ]
    assert Fraction("1.664") <= found[0].lower <= Fraction("1.70155")
    assert Fraction("1.70146") <= found[0].upper <= Fraction("1.740")
    assert found[0].upper - found[0].lower <= Fraction(2, 1000)
    assert found[1].upper <= found[0].lower


def test_cells_hold_all_the_mass() -> None:
    """P and Q masses of the cells of either side, ends included, sum to 1."""
    pair, grid = Allocated(Fraction(1), Fraction(12)), Grid(Fraction(1, 256), 1e-12)
    for side in Side:
        cells = allocated.allocated_cells(pair, grid, side)
        assert cells is not None
        assert math.isclose(cells.p.sum() + cells.above[0], 1, abs_tol=1e-11)
        assert math.isclose(cells.q.sum() + cells.below[1], 1, abs_tol=1e-11)
        assert cells.above[0] <= 1e-12
        assert cells.below[1] <= 1e-12
