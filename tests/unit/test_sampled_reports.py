"""Batches of shuffled reports, and of groups: what is reached is not above the truth."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, permutations, product
from typing import Any

import pytest

import dpaudit as dp
from dpaudit.accountant.claim import Claim, Outcome
from dpaudit.check.theorem import bound
from dpaudit.families.sampling import rules

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


GROUPED: list[tuple[Any, str]] = [
    (dp.PoissonSampled(dp.Group(dp.Gaussian("g", 1), 2), "1/10"), "add_remove"),
    (dp.TruncatedPoisson(dp.Group(dp.Gaussian("g", 1), 2), "1/10", 100, 20), "add_remove"),
    (dp.ShuffledBatches(dp.Group(dp.Gaussian("g", 1), 2), 10, 5), "zero_out"),
    (dp.SampledWithoutReplacement(dp.Group(dp.Gaussian("g", 1), 2), 5, 10), "replace_one"),
]


@pytest.mark.parametrize(("node", "adjacency"), GROUPED, ids=lambda x: type(x).__name__)
def test_a_group_is_not_drawn_by_one_coin(node: Any, adjacency: Any) -> None:
    """Its members have coins of their own, so that what it moves together is not reached."""
    losses = dp.account(node, dp.central(adjacency)).step("profile").value
    assert losses.reached == ()
    child = dp.account(node.child, dp.central(adjacency)).step("profile").value
    assert bound("profile", node, [child]) == losses


@pytest.mark.parametrize("kind", [dp.RandomizedResponse("a", 1, 3), dp.Laplace("a", 1)])
def test_the_checker_states_the_same_of_sampled_reports(kind: Any) -> None:
    node = dp.SampledWithoutReplacement(dp.Shuffled(kind, 4), 4, 8)
    child = dp.account(node.child, REPLACE).step("profile").value
    losses = dp.account(node, REPLACE).step("profile").value
    assert bound("profile", node, [child]) == losses
    assert bool(losses.reached) == isinstance(kind, dp.Laplace)
