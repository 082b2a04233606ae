"""Correct cases of the black-box set: exact laws that satisfy the claim, and are the mechanism's.

Laws come from quadrature or enumeration and share no code with the mechanisms.  A case's draws are
compared with its law by chi-square at 1e-7 (false alarm below 1e-4 over the file).
"""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from audits.blackbox import Case, catalogue

CASES = {case.name: case for case in catalogue()}
Law = dict[Any, float]
DRAWS = 40_000
SLACK = 1e-6


def laplace_below(x: Any) -> Any:
    return np.where(x < 0, 0.5 * np.exp(-np.abs(x)), 1 - 0.5 * np.exp(-np.abs(x)))


def epsilon_of(case: Case) -> float:
    claim: Any = case.claim
    return float(claim.epsilon)


def delta_of(one: Law, two: Law, epsilon: float) -> float:
    """The least delta in both directions at this epsilon."""
    keys = set(one) | set(two)
    there = [(one.get(k, 0.0), two.get(k, 0.0)) for k in keys]
    forth = math.fsum(max(p - math.exp(epsilon) * q, 0.0) for p, q in there)
    back = math.fsum(max(q - math.exp(epsilon) * p, 0.0) for p, q in there)
    return max(forth, back)


def neighbours(case: Case, count: int) -> list[tuple[Any, Any]]:
    """The case's pair, and random pairs of vectors each entry of which moves by at most 1."""
    rng = np.random.default_rng(8)
    pairs = [(case.d0, case.d1)]
    for _ in range(count):
        data = rng.uniform(-3, 3, case.d0.shape)
        pairs.append((data, data + rng.choice([-1.0, 0.0, 1.0], case.d0.shape)))
    return pairs


def fits(case: Case, law: Callable[[Any], Law]) -> None:
    """The mechanism's draws on both data sets have the law."""
    for data in (case.d0, case.d1):
        drawn = case.mechanism(data, np.random.default_rng(9), DRAWS).reshape(DRAWS, -1)
        seen: dict[Any, int] = {}
        for row in map(tuple, np.where(np.isnan(drawn), -1.0, drawn).tolist()):
            seen[row] = seen.get(row, 0) + 1
        exact = law(data)
        assert math.isclose(math.fsum(exact.values()), 1, rel_tol=1e-6)
        assert set(seen) <= set(exact)
        wanted = {k: DRAWS * v for k, v in exact.items()}
        often = [k for k, v in wanted.items() if v >= 10]
        rare = [sum(f.get(k, 0) for k in exact if k not in often) for f in (seen, wanted)]
        columns = [[f.get(k, 0) for k in often] for f in (seen, wanted)]
        if rare[1] > 5:
            columns = [[*column, value] for column, value in zip(columns, rare, strict=True)]
        total = sum(columns[0]) / sum(columns[1])
        assert stats.chisquare(columns[0], [total * v for v in columns[1]]).pvalue > 1e-7


# --- sparse vector -------------------------------------------------------------------------------


def sparse_vector(data: Any, threshold: float, query: float, limit: int) -> Law:
    """Patterns by quadrature over the noisy threshold; -1 after the stop."""
    rho = np.linspace(-45, 45, 30_001) * threshold
    density = np.exp(-np.abs(rho) / threshold) / (2 * threshold)
    below = laplace_below((rho[None] - data[:, None]) / query)
    found: Law = {}

    def walk(prefix: tuple[float, ...], weight: Any, left: int) -> None:
        if len(prefix) == len(data) or left == 0:
            padded = prefix + (-1.0,) * (len(data) - len(prefix))
            found[padded] = float(np.trapezoid(weight, rho))
            return
        under = below[len(prefix)]
        walk((*prefix, 0.0), weight * under, left)
        walk((*prefix, 1.0), weight * (1 - under), left - 1)

    walk((), density, limit)
    return found


SPARSE = {"svt_algorithm_1": (2.0, 4.0, 1), "svt_algorithm_1_three": (2.0, 12.0, 3)}


@pytest.mark.first_case
@pytest.mark.parametrize("name", SPARSE)
def test_sparse_vector(name: str) -> None:
    case = CASES[name]
    fits(case, lambda data: sparse_vector(data, *SPARSE[name]))
    for one, two in neighbours(case, 6):
        laws = sparse_vector(one, *SPARSE[name]), sparse_vector(two, *SPARSE[name])
        assert delta_of(*laws, epsilon_of(case)) < SLACK


# --- noisy max -----------------------------------------------------------------------------------

Noise = tuple[Callable[[Any], Any], Callable[[Any], Any]]
LAPLACE: Noise = (lambda x: 0.5 * np.exp(-np.abs(x)), laplace_below)
EXPONENTIAL: Noise = (
    lambda x: np.where(x >= 0, np.exp(-np.maximum(x, 0)), 0.0),
    lambda x: np.where(x >= 0, -np.expm1(-np.maximum(x, 0)), 0.0),
)


def argmax_law(scores: Any, scale: float, noise: Noise) -> Law:
    """P[i is largest] by the midpoint rule, whose cells end where scores are."""
    density, below = noise
    step = scale * 1e-3
    x = np.arange(scores.min() - 45 * scale, scores.max() + 45 * scale, step) + step / 2
    under = below((x[None] - scores[:, None]) / scale)
    found: Law = {}
    for i, score in enumerate(scores):
        others = np.prod(np.delete(under, i, axis=0), axis=0)
        mass = below((x + step / 2 - score) / scale) - below((x - step / 2 - score) / scale)
        found[(float(i),)] = float((mass * others).sum())
    assert density is noise[0]
    return found


def softmax_law(scores: Any, rate: float) -> Law:
    weights = np.exp(rate * (scores - scores.max()))
    return {(float(i),): float(w) for i, w in enumerate(weights / weights.sum())}


def flip_law(scores: Any, rate: float) -> Law:
    """Permute and flip by all orders of few scores."""
    chances = np.exp(rate * (scores - scores.max()))
    found = {(float(i),): 0.0 for i in range(len(scores))}
    orders = list(itertools.permutations(range(len(scores))))
    for order in orders:
        left = 1.0
        for i in order:
            found[(float(i),)] += left * chances[i] / len(orders)
            left *= 1 - chances[i]
    return found


MAXIMA: dict[str, Callable[[Any], Law]] = {
    "noisy_max_laplace": lambda data: argmax_law(data, 2.0, LAPLACE),
    "noisy_max_exponential": lambda data: argmax_law(data, 2.0, EXPONENTIAL),
    "noisy_max_gumbel": lambda data: softmax_law(data, 0.5),
    "exponential_right": lambda data: softmax_law(data, 0.5),
}


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("name", MAXIMA)
def test_noisy_max(name: str) -> None:
    case = CASES[name]
    fits(case, MAXIMA[name])
    for one, two in neighbours(case, 10):
        assert delta_of(MAXIMA[name](one), MAXIMA[name](two), epsilon_of(case)) < SLACK


def test_permute_and_flip_is_noisy_max_with_exponential_noise() -> None:
    """Its law, on few scores, is that of one-sided noise; on the pair its draws have that law."""
    rng = np.random.default_rng(4)
    for _ in range(3):
        scores = rng.uniform(-2, 2, 5)
        flip, noisy = flip_law(scores, 0.5), argmax_law(scores, 2.0, EXPONENTIAL)
        assert all(math.isclose(flip[k], noisy[k], abs_tol=1e-6) for k in flip)
    fits(CASES["permute_and_flip"], lambda data: argmax_law(data, 2.0, EXPONENTIAL))


@pytest.mark.quality
def test_voting_teachers() -> None:
    case = CASES["teachers_right"]

    def law(data: Any) -> Law:
        return argmax_law(np.bincount(data.astype(int), minlength=3).astype(float), 2.0, LAPLACE)

    fits(case, law)
    for votes in itertools.combinations_with_replacement(range(3), 7):
        data = np.array(votes, dtype=float)
        changed = np.array([(data[0] + 1) % 3, *data[1:]])
        assert delta_of(law(data), law(changed), epsilon_of(case)) < SLACK


# --- local ---------------------------------------------------------------------------------------

E = math.e


def bits_law(chances: Any) -> Law:
    found: Law = {}
    for bits in itertools.product((0.0, 1.0), repeat=len(chances)):
        found[bits] = math.prod(p if b else 1 - p for b, p in zip(bits, chances, strict=True))
    return found


def one_hot(data: Any, one: float, zero: float) -> Law:
    return bits_law([one if i == data[0] else zero for i in range(8)])


def choices_law(data: Any) -> Law:
    return {(float(i),): E / (E + 7) if i == data[0] else 1 / (E + 7) for i in range(8)}


def hashing_law(data: Any) -> Law:
    found: Law = {}
    value = int(data[0])
    for row in itertools.product(range(4), repeat=3):
        first, second, third = row
        bucket = (first, second, third)[min(value, 2)]
        for told in range(4):
            key = (float(first), float(second), float(told))
            chance = (E if told == bucket else 1.0) / (E + 3) / 64
            found[key] = found.get(key, 0.0) + chance
    return found


KEPT = 1 / (1 + math.exp(-0.5))
LOCAL: dict[str, Callable[[Any], Law]] = {
    "response_right": lambda data: {
        (float(b),): (E if b == data[0] else 1) / (1 + E) for b in (0, 1)
    },
    "choices_right": choices_law,
    "unary_right": lambda data: one_hot(data, KEPT, 1 - KEPT),
    "unary_optimized": lambda data: one_hot(data, 0.5, 1 / (1 + E)),
    "hashing_right": hashing_law,
}


@pytest.mark.first_case
@pytest.mark.parametrize("name", LOCAL)
def test_local(name: str) -> None:
    case = CASES[name]
    fits(case, LOCAL[name])
    values = (0, 1) if name == "response_right" else range(8)
    for a, b in itertools.permutations(values, 2):
        laws = LOCAL[name](np.array([float(a)])), LOCAL[name](np.array([float(b)]))
        assert delta_of(*laws, epsilon_of(case)) < SLACK


def test_rappor() -> None:
    """Any number of reports of one permanent bit: 2 ln 3 by enumeration of two bits' reports."""

    def reports(hot: bool) -> list[float]:
        chances = []
        for seen in itertools.product((0, 1), repeat=6):
            ones = sum(seen)
            kept = 0.75 if hot else 0.25
            chances.append(kept * 0.75**ones * 0.25 ** (6 - ones) + (1 - kept) * 0.5**6)
        return chances

    worst = max(math.log(p / q) for p, q in zip(reports(True), reports(False), strict=True))
    other = max(math.log(q / p) for p, q in zip(reports(True), reports(False), strict=True))
    assert worst + other <= epsilon_of(CASES["rappor_right"]) + 1e-9


# --- rare events ---------------------------------------------------------------------------------


def majority_law(data: Any) -> Law:
    ones = int(data.sum())
    distance = abs(2 * ones - 5) // 2
    passed = float(1 - laplace_below(math.log(500) - distance))
    return {(float(2 * ones > 5),): passed, (-1.0,): 1 - passed}


def test_propose_test_release() -> None:
    case: Any = CASES["propose_test_release"]
    fits(case, majority_law)
    for ones in range(5):
        laws = [majority_law(np.array([1.0] * k + [0.0] * (5 - k))) for k in (ones, ones + 1)]
        assert delta_of(*laws, 1.0) <= float(case.claim.delta) + 1e-15
