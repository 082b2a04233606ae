"""Batches of shuffled reports, and of groups: what is reached is not above the truth."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, permutations, product
from typing import Any

import numpy as np
import pytest
import sympy
from scipy.stats import norm

import dpaudit as dp
from dpaudit.accountant.claim import Claim, Outcome
from dpaudit.check.theorem import bound
from dpaudit.errors import InvalidParameter
from dpaudit.families.iterates import LastIterate
from dpaudit.families.sampling import rules
from dpaudit.kernels.query import Array

F = Fraction
REPLACE = dp.central("replace_one")


def law(values: tuple[int, ...], epsilon: float, choices: int) -> Counter[tuple[int, ...]]:
    """Of the multiset of reports of a batch's values."""
    same = math.exp(epsilon) / (math.exp(epsilon) + choices - 1)
    other = (1 - same) / (choices - 1)
    found: Counter[tuple[int, ...]] = Counter()
    for reports in product(range(choices), repeat=len(values)):
        chance = math.prod(same if r == v else other for r, v in zip(reports, values, strict=True))
        found[tuple(sorted(reports))] += chance  # type: ignore[assignment]
    return found


def released(records: tuple[int, ...], batch: int, epsilon: float, choices: int) -> Any:
    drawn = list(combinations(records, batch))
    found: Counter[tuple[int, ...]] = Counter()
    for values in drawn:
        for reports, chance in law(tuple(sorted(values)), epsilon, choices).items():
            found[reports] += chance / len(drawn)  # type: ignore[assignment]
    return found


def truth(batch: int, population: int, epsilon: float, choices: int, loss: float) -> float:
    """The largest delta over every data set and every value of the record, by enumeration."""
    worst = 0.0
    for others in combinations_with_replacement(range(choices), population - 1):
        laws = [released((v, *others), batch, epsilon, choices) for v in range(choices)]
        for p, q in permutations(laws, 2):
            lost = sum(max(p[o] - math.exp(loss) * q[o], 0.0) for o in p.keys() | q.keys())
            worst = max(worst, lost)
    return worst


CASES = [(2, 3, 2, 3), (2, 4, 1, 3), (3, 4, 2, 2), (2, 3, 1, 4)]


@pytest.mark.first_case
@pytest.mark.parametrize(("batch", "population", "epsilon", "choices"), CASES)
@pytest.mark.parametrize("loss", ["0.2", "0.7", "1.328"])
def test_batches_of_shuffled_answers_hold_the_truth(
    batch: int, population: int, epsilon: int, choices: int, loss: str
) -> None:
    poll = dp.Shuffled(dp.RandomizedResponse("poll", epsilon, choices), batch)
    node = dp.SampledWithoutReplacement(poll, batch, population)
    found = dp.account(node, REPLACE).delta(F(loss))
    true = truth(batch, population, float(epsilon), choices, float(loss))
    assert float(found.lower) <= true * (1 + 1e-9) + 1e-12
    assert true <= float(found.upper) * (1 + 1e-9) + 1e-12
    if choices == 2:
        assert float(found.lower) > 0.2 * true


@pytest.mark.quality
def test_a_true_claim_of_three_answers_is_not_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others that hold a third answer are neither run where the record is not drawn."""
    poll = dp.Shuffled(dp.RandomizedResponse("poll", 2, 3), 2)
    node = dp.SampledWithoutReplacement(poll, 2, 3)
    claim = Claim(dp.ApproxDP("1.328", "0.06"), by="a test")
    assert truth(2, 3, 2.0, 3, 1.328) < 0.05
    assert claim.check(node, REPLACE).outcome is not Outcome.REFUTED
    monkeypatch.setattr(rules, "mixes", lambda child: True)
    again = dp.SampledWithoutReplacement(dp.Shuffled(dp.RandomizedResponse("other", 2, 3), 2), 2, 3)
    assert claim.check(again, REPLACE).outcome is Outcome.REFUTED


GROUP = dp.Group(dp.Gaussian("g", 1), 2)


@pytest.mark.parametrize(
    "made",
    [
        lambda: dp.PoissonSampled(GROUP, "1/10"),
        lambda: dp.TruncatedPoisson(GROUP, "1/10", 100, 20),
        lambda: dp.SampledWithoutReplacement(dp.Repeat(GROUP, 3), 5, 10),
        lambda: dp.SampledWithReplacement(GROUP, 5, 10),
        lambda: dp.RandomAllocation(GROUP, 4),
        lambda: dp.ShuffledBatches(GROUP, 10, 5),
        lambda: dp.CyclicBatches(GROUP, 10, 5),
        lambda: dp.Shuffled(dp.Group(dp.RandomizedResponse("poll", 1), 2), 10),
    ],
)
def test_a_group_is_declared_around_what_draws_its_members(made: Any) -> None:
    """Half of the records: some of two come with .75, where one coin has .5."""
    with pytest.raises(InvalidParameter, match="put Group around"):
        made()


def batches_in_order(record: float) -> Array:
    """The density of both releases: 1, 0 and the record, two of them, one a batch, noise 1."""
    y = np.linspace(-9, 10, 761)
    first, second = np.meshgrid(y, y, indexing="ij")
    means = [(1.0, 0.0), (1.0, record), (0.0, record)]
    found = sum(norm.pdf(first, a) * norm.pdf(second, b) for a, b in means)
    return np.asarray(found / 3)


def test_batches_in_a_public_order_are_not_hidden_by_a_sample(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A batch without the record moves the others to other places; by quadrature."""
    node = dp.SampledWithoutReplacement(dp.CyclicBatches(dp.Gaussian("g", 1), 2, 1), 2, 3)
    p, q = batches_in_order(1.0), batches_in_order(0.0)
    true = float(np.maximum(p - math.exp(3) * q, 0).sum()) * (19 / 760) ** 2
    assert true == pytest.approx(0.000342, abs=2e-6)
    assert true < float(dp.account(node, REPLACE).delta(3).upper)
    child = dp.account(node.child, REPLACE).step("profile").value
    assert bound("profile", node, [child]) == dp.account(node, REPLACE).step("profile").value
    monkeypatch.setattr(rules, "PUBLIC_PLACES", ())
    again = dp.SampledWithoutReplacement(dp.CyclicBatches(dp.Gaussian("h", 1), 2, 1), 2, 3)
    assert true > float(dp.account(again, REPLACE).delta(3).upper)


def test_a_false_pure_claim_of_batches_in_a_public_order_is_not_proved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Records x, 1 and 0, of which two are drawn: far left in the first batch, far right after it.

    A pair of batches of means a, b has a density in exp(b - a) there.
    """
    one, zero = (sum(math.exp(b - a) for a, b in ((x, 1), (x, 0), (1, 0))) for x in (1, 0))
    true = math.log(zero / one)
    assert true == pytest.approx(0.856, abs=1e-3)
    claim = Claim(dp.PureDP("0.8"), by="a test")
    for name in ("with", "without"):
        batches = dp.CyclicBatches(dp.Laplace(name, 1), 2, 1)
        node = dp.SampledWithoutReplacement(batches, 2, 3)
        outcome = claim.check(node, REPLACE).outcome
        assert (outcome is Outcome.PROVED) is (name == "without")
        monkeypatch.setattr(rules, "PUBLIC_PLACES", ())


def test_last_iterates_of_batches_are_not_hidden_by_a_sample_either() -> None:
    for batches in (1, 2):
        inner = LastIterate("m", 1, 2, "0.1", 0, batches)
        node = dp.SampledWithoutReplacement(inner, 2, 3)
        own = dp.account(inner, REPLACE).delta(1).upper
        assert (dp.account(node, REPLACE).delta(1).upper < own) is (batches == 1)


NOISE, POLL = dp.Gaussian("g", 1), dp.RandomizedResponse("poll", 1)


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (lambda: dp.SampledWithoutReplacement(dp.Shuffled(POLL, 1000), 10, 1000), "1000 .* 10"),
        (lambda: dp.SampledWithoutReplacement(dp.CyclicBatches(NOISE, 2, 1), 3, 3), "2 .* 3"),
        (lambda: dp.CyclicBatches(dp.Repeat(dp.Shuffled(POLL, 20), 3), 20, 10), "20 .* 10"),
        (
            lambda: dp.ShuffledBatches(dp.SampledWithoutReplacement(NOISE, 5, 20), 20, 10),
            "20 .* 10",
        ),
        (lambda: dp.SampledWithReplacement(dp.Shuffled(POLL, 6), 5, 10), "6 .* 5"),
        (
            lambda: dp.CyclicBatches(dp.TruncatedPoisson(NOISE, "0.5", 10, 3), 20, 20),
            "at most 10 .* 20",
        ),
        (lambda: dp.PoissonSampled(dp.Shuffled(POLL, 1000), "0.01"), "1000 .* random"),
        (lambda: dp.PoissonSampled(dp.ShuffledBatches(NOISE, 2, 1), "0.5"), "2 .* random"),
        (lambda: dp.TruncatedPoisson(dp.Shuffled(POLL, 9), "0.5", 20, 10), "9 .* random"),
        (lambda: dp.RandomAllocation(dp.Shuffled(POLL, 5), 4), "5 .* random"),
        (lambda: dp.PoissonSampled(dp.Parallel(POLL, dp.Shuffled(POLL, 5)), "0.5"), "5 .* random"),
        (lambda: dp.Shuffled(dp.SampledWithoutReplacement(POLL, 1, 2), 9), "2 .* 1"),
    ],
)
def test_what_is_declared_for_a_population_runs_on_as_many(made: Any, told: str) -> None:
    """Ten shuffled answers are not hidden among the thousand of whom they were drawn."""
    with pytest.raises(InvalidParameter, match=f"declared for {told}"):
        made()


def test_populations_that_fit_are_sampled() -> None:
    """The same number, a larger bound of it, a number that a symbol leaves open, parts."""
    n = sympy.Symbol("n", positive=True, integer=True)
    dp.SampledWithoutReplacement(dp.Repeat(dp.Shuffled(POLL, 10), 3), 10, 1000)
    dp.PoissonSampled(dp.TruncatedPoisson(NOISE, "0.5", 10, 3), "0.5")
    dp.CyclicBatches(dp.TruncatedPoisson(NOISE, "0.5", 30, 3), 20, 20)
    dp.SampledWithoutReplacement(dp.Shuffled(POLL, n), 10, 1000)
    dp.SampledWithoutReplacement(dp.Parallel(dp.Shuffled(POLL, 4), dp.Shuffled(POLL, 6)), 10, 100)


@pytest.mark.parametrize("kind", [dp.RandomizedResponse("a", 1, 3), dp.Laplace("a", 1)])
def test_the_checker_states_the_same_of_sampled_reports(kind: Any) -> None:
    node = dp.SampledWithoutReplacement(dp.Shuffled(kind, 4), 4, 8)
    child = dp.account(node.child, REPLACE).step("profile").value
    losses = dp.account(node, REPLACE).step("profile").value
    assert bound("profile", node, [child]) == losses
    assert bool(losses.reached) == isinstance(kind, dp.Laplace)
