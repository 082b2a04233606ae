"""Correct cases with real outputs: densities by quadrature satisfy the claim.

Densities share no code with the mechanisms; where draws are compared, a test is at 1e-7.
"""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from audits.blackbox import Case, catalogue

CASES = {case.name: case for case in catalogue()}
DRAWS = 40_000
SLACK = 1e-6
E = math.e


def laplace_below(x: Any) -> Any:
    return np.where(x < 0, 0.5 * np.exp(-np.abs(x)), 1 - 0.5 * np.exp(-np.abs(x)))


def epsilon_of(case: Case) -> float:
    claim: Any = case.claim
    return float(claim.epsilon)


GRID = np.linspace(-30, 30, 240_001)


def laplace_density(x: Any, scale: float = 1.0) -> Any:
    return np.exp(-np.abs(x) / scale) / (2 * scale)


def density_delta(one: Any, two: Any, epsilon: float) -> float:
    """By the trapezoidal rule over GRID, in both directions."""
    rows = [np.maximum(p - math.exp(epsilon) * q, 0.0) for p, q in ((one, two), (two, one))]
    return max(float(np.trapezoid(row, GRID)) for row in rows)


def sums_density(values: Any, chances: Any) -> Any:
    return sum(c * laplace_density(GRID - v) for v, c in zip(values, chances, strict=True))


def test_poisson_sampling() -> None:
    """Densities of mixtures over all batches of three records and one more."""
    for rest in ((), (1.0,), (0.3, 1.0, 0.8)):
        laws = []
        for data in (rest, (*rest, 1.0)):
            batches = list(itertools.product((0, 1), repeat=len(data)))
            sums = [math.fsum(b * v for b, v in zip(batch, data, strict=True)) for batch in batches]
            chances = [0.1 ** sum(b) * 0.9 ** (len(b) - sum(b)) for b in batches]
            laws.append(sums_density(sums, chances))
        assert density_delta(*laws, epsilon_of(CASES["poisson_sampled"])) < SLACK


def test_sampling_without_replacement() -> None:
    one = sums_density([0.0], [1.0])
    for value in (0.2, 1.0):
        two = sums_density([0.0, value], [0.9, 0.1])
        assert density_delta(one, two, epsilon_of(CASES["one_of_ten_sampled"])) < SLACK
    for rest in ((0.0, 0.0, 0.0), (1.0, 0.5, 0.0)):
        laws = []
        for data in ((0.0, *rest), (1.0, *rest)):
            sums = [a + b for a, b in itertools.combinations(data, 2)]
            laws.append(sums_density(sums, [1 / 6] * 6))
        assert density_delta(*laws, epsilon_of(CASES["drawn_without_replacement"])) < SLACK


def test_best_of_a_geometric_number() -> None:
    """The largest of K runs, K geometric: F/(4 - 3 F)."""
    laws = []
    for shift in (0.0, 1.0):
        below = laplace_below(GRID - shift)
        laws.append(laplace_density(GRID - shift) * 4 / (4 - 3 * below) ** 2)
    assert math.isclose(float(np.trapezoid(laws[0], GRID)), 1, rel_tol=1e-4)
    assert density_delta(*laws, epsilon_of(CASES["best_of_random_number"])) < SLACK
    assert density_delta(*laws, 1.5) > 1e-3


def test_truncated_noise() -> None:
    case: Any = CASES["truncated_noise_with_delta"]
    for shift in (0.1, 0.5, 0.9, 1.0):
        laws = [
            np.where(np.abs(GRID - s) <= 5, laplace_density(GRID - s), 0) / -math.expm1(-5)
            for s in (0.0, shift)
        ]
        assert density_delta(*laws, 1.0) <= float(case.claim.delta)


DEVIATIONS = {
    "gaussian_right_analytic": 1.0,
    "gaussian_with_its_delta": 2.0,
    "gaussian_of_many_bits": 3.0,
    "gaussian_classic": math.sqrt(2 * math.log(25)) / 0.9,
}


@pytest.mark.parametrize("name", DEVIATIONS)
def test_analytic_gaussians(name: str) -> None:
    """Deltas of N(0, s^2) and N(1, s^2) by quadrature; the draws have deviation s to 1%."""
    case: Any = CASES[name]
    deviation = DEVIATIONS[name]
    drawn = case.mechanism(case.d0, np.random.default_rng(3), 200_000)
    assert abs(drawn.std() / deviation - 1) < 0.01
    laws = [stats.norm.pdf(GRID, shift, deviation) for shift in (0.0, 1.0)]
    assert density_delta(*laws, epsilon_of(case)) <= float(case.claim.delta)


def _smooth(data: Any, beta: float) -> float:
    """Smooth sensitivity of the median by its definition: over all sizes of change."""
    padded = [0.0] * 20 + sorted(data.tolist()) + [1.0] * 20
    middle = 20 + len(data) // 2
    return max(
        math.exp(-beta * k)
        * max(padded[middle + t] - padded[middle + t - k - 1] for t in range(k + 2))
        for k in range(len(data) + 1)
    )


def test_smooth_sensitivity_of_the_median() -> None:
    case: Any = CASES["smooth_median_right"]
    beta = 1 / (2 * math.log(2 / float(case.claim.delta)))
    rng = np.random.default_rng(6)
    pairs = [(case.d0, case.d1)]
    for _ in range(25):
        one = rng.choice([0.0, 0.2, 0.7, 1.0], 9)
        two = one.copy()
        two[rng.integers(9)] = rng.choice([0.0, 0.4, 1.0])
        pairs.append((one, two))
    for one, two in pairs:
        laws = [
            laplace_density(GRID - np.median(data), 2 * _smooth(data, beta)) for data in (one, two)
        ]
        assert density_delta(*laws, 1.0) <= float(case.claim.delta)


def _median_density(data: Any, at: Any) -> Any:
    """Piecewise constant: e^(-|rank - n/2|/2) over its integral."""
    points = np.concatenate([[0.0], np.sort(data), [1.0]])
    weights = np.exp(-0.5 * np.abs(np.arange(len(data) + 1) - len(data) / 2))
    index = np.searchsorted(np.sort(data), at)
    return weights[index] / float((weights * np.diff(points)).sum())


def test_quantile() -> None:
    case = CASES["quantile_right"]
    rng = np.random.default_rng(7)
    at = np.linspace(0.0005, 0.9995, 1_000)
    for _ in range(50):
        one = rng.random(5)
        two = one.copy()
        two[0] = rng.random()
        ratio = np.log(_median_density(one, at) / _median_density(two, at))
        assert np.abs(ratio).max() <= epsilon_of(case) + 1e-12
    drawn = case.mechanism(case.d0, np.random.default_rng(1), DRAWS)
    share = float(_median_density(case.d0, np.array([0.7]))[0]) * 0.4
    hits = int(np.count_nonzero((drawn > 0.5) & (drawn < 0.9)))
    assert stats.binomtest(hits, DRAWS, share).pvalue > 1e-7


def test_stable_histogram() -> None:
    """One bin: counts 0 and 1, then counts above."""
    delta = float(CASES["stable_histogram"].claim.delta)  # type: ignore[attr-defined]
    threshold = 1 + math.log(500)
    above = threshold < GRID
    for count in range(5):
        laws = []
        for c in (count, count + 1):
            density = np.where(above & (c > 0), laplace_density(GRID - c), 0.0)
            laws.append((density, 1 - float(np.trapezoid(density, GRID))))
        (one, none_one), (two, none_two) = laws
        missing = max(none_one - E * none_two, none_two - E * none_one, 0.0)
        assert density_delta(one, two, 1.0) + missing <= delta * (1 + 1e-3)
