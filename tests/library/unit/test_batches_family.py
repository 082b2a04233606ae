"""Batches of one size: enumeration, quadrature, the checker, audits and bad input."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import sympy
from scipy.stats import binom, norm

import dpaudit as dp
from dpaudit.check.theorem import bound
from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.exact import decimal_upper
from dpaudit.families.batches import CyclicBatches, ShuffledBatches, TruncatedPoisson
from dpaudit.families.batches.rules import chance_of_cut
from dpaudit.pairs import Reshuffled
from dpaudit.profiles import delta_interval

F = Fraction

ZEROED, COMING = dp.central("zero_out"), dp.central("add_remove")
NOISE = dp.Gaussian("gradient", 1)
GRID = np.linspace(-9, 12, 1051)
AUDIT = {"trials": 20_000, "seed": 5, "confidence": 0.99, "refute_at": 1e-5}


def above(p: np.ndarray, q: np.ndarray, epsilon: float, cell: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum() * cell)


# --- shuffled batches ----------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [F(1), F(1, 2)])
def test_the_lower_profile_of_two_shuffled_batches_is_below_the_pair_and_near(noise: F) -> None:
    """Densities in the plane, summed; either direction."""
    m, cell = float(1 / noise), (GRID[1] - GRID[0]) ** 2
    one = [norm.pdf(GRID - shift) for shift in (0, m, 2 * m)]
    laws = [(np.outer(one[k], one[0]) + np.outer(one[0], one[k])) / 2 for k in (2, 1)]
    for pair, (p, q) in (
        (Reshuffled(noise, F(2)), laws),
        (Reshuffled(noise, F(2)).swapped, laws[::-1]),
    ):
        for epsilon in (0.0, 0.5, 1.5):
            found = delta_interval(pair, F(str(epsilon)))
            truth = above(p, q, epsilon, cell)
            assert 0.7 * truth < float(found.lower) <= truth * (1 + 1e-6)
            assert truth <= float(found.upper) * (1 + 1e-6)


@pytest.mark.quality
def test_one_pass_of_shuffled_batches_leaks_far_more_than_poisson_accounting_says() -> None:
    """Chua and others 2024, by how much: certified lower ends above certified upper ends."""
    for noise, apart in (("0.5", 1.5), ("1", 5)):
        passed = ShuffledBatches(dp.Gaussian("gradient", noise), 60_000, 600)
        shuffled = dp.account(passed, ZEROED).epsilon("1e-5")
        poisson = dp.dp_sgd(n=60_000, batch=600, epochs=1, sigma=noise)
        assumed = dp.account(poisson, ZEROED).epsilon("1e-5")
        assert float(shuffled.lower) > apart * float(assumed.upper)
        public = dp.account(CyclicBatches(dp.Gaussian("g", noise), 60_000, 600), ZEROED)
        assert shuffled.upper == public.epsilon("1e-5").upper


@pytest.mark.quality
def test_orders_that_are_kept_leak_more_than_orders_drawn_anew() -> None:
    anew = dp.Repeat(ShuffledBatches(NOISE, 1000, 100), 4)
    kept = ShuffledBatches(dp.Repeat(NOISE, 4), 1000, 100)
    lower = [dp.account(node, ZEROED).epsilon("1e-5").lower for node in (anew, kept)]
    assert 0 < lower[0] < lower[1]


@pytest.mark.quality
def test_an_audit_of_shuffled_batches_refutes_what_poisson_accounting_claims() -> None:
    """Planted bug: a loader that shuffles, accounted as Poisson.  False alarm 1e-5 each."""
    rate, sigma, delta = F(1, 10), 0.6, F(1, 10)
    rounds = dp.Repeat(dp.PoissonSampled(dp.Gaussian("g", "0.6"), rate), 10)
    assumed = dp.account(rounds, ZEROED).epsilon(delta).upper
    true = dp.account(ShuffledBatches(dp.Gaussian("g", "0.6"), 100, 10), ZEROED)

    def largest_batch(move: float, rng: np.random.Generator, size: int) -> np.ndarray:
        sums = sigma * rng.standard_normal((size, 10))
        sums[np.arange(size), rng.integers(0, 10, size)] += move
        return sums.max(axis=1)

    claims = [dp.ApproxDP(e, delta) for e in (assumed, true.epsilon(delta).upper)]
    verdicts = [
        str(dp.audit_function(largest_batch, 2.0, 1.0, claim=claim, **AUDIT).verdict)
        for claim in claims
    ]
    assert verdicts[0] == "refuted"
    assert verdicts[1] != "refuted"


def test_cyclic_batches_are_as_private_as_the_child_in_every_calculus() -> None:
    node = CyclicBatches(dp.Repeat(NOISE, 3), 100, 10)
    for calculus in ("zcdp", "gdp", "rdp"):
        ours, child = (dp.account(n, ZEROED).step(calculus) for n in (node, node.child))
        assert (ours.value, ours.attained) == (child.value, True)
    with pytest.raises(Unsupported, match="add_remove"):
        dp.account(node, COMING).step("gdp")


# --- truncated Poisson batches -------------------------------------------------------------------


def law_of_cut(values: list[float], rate: float, most: int, noise: float) -> np.ndarray:
    """The density of a truncated Poisson batch's noisy sum, by all batches."""
    found = np.zeros(len(GRID))
    for coins in itertools.product((0, 1), repeat=len(values)):
        came = [v for v, c in zip(values, coins, strict=True) if c]
        chance = rate ** len(came) * (1 - rate) ** (len(values) - len(came))
        kept = list(itertools.combinations(came, min(most, len(came))))
        for batch in kept:
            found += chance / len(kept) * norm.pdf(GRID, sum(batch), noise)
    return found


@pytest.mark.parametrize("most", [1, 2, 3])
def test_every_data_set_of_three_records_is_below_the_pair_of_truncated_batches(most: int) -> None:
    node = TruncatedPoisson(NOISE, F(2, 5), 3, most)
    cell, largest = GRID[1] - GRID[0], 0.0
    for epsilon in (0.0, 0.3, 1.0):
        known = dp.account(node, COMING).delta(F(str(epsilon)))
        for others in itertools.product((-1.0, 0.0, 1.0), repeat=2):
            with_it = law_of_cut([*others, 1.0], 0.4, most, 1.0)
            without = law_of_cut(list(others), 0.4, most, 1.0)
            for p, q in ((with_it, without), (without, with_it)):
                found = above(p, q, epsilon, cell)
                assert found <= float(known.upper) * (1 + 1e-3)
                largest = max(largest, found)
        assert float(known.lower) <= largest * (1 + 1e-3)


def test_the_chance_of_a_cut_is_that_of_the_binomial_law() -> None:
    for rate, population, most in ((F(1, 100), 10_000, 120), (F(1, 3), 9, 4)):
        node = TruncatedPoisson(NOISE, rate, population, most)
        truth = binom.sf(most - 1, population - 1, float(rate))
        assert float(chance_of_cut(node)) == pytest.approx(truth, rel=1e-9)
    assert chance_of_cut(TruncatedPoisson(NOISE, F(1, 3), 9, 9)) == 0


def test_batches_that_are_hardly_ever_cut_are_as_private_as_poisson_ones() -> None:
    cut, whole = (
        dp.account(dp.Repeat(step, 100), COMING).epsilon("1e-5")
        for step in (
            TruncatedPoisson(NOISE, F(1, 100), 10_000, 160),
            dp.PoissonSampled(NOISE, F(1, 100)),
        )
    )
    assert whole.lower <= cut.upper < whole.upper + F(1, 1000)


def test_the_audit_refutes_batches_that_are_filled_up_and_none_that_are_cut() -> None:
    """Planted bug: a batch that is short is filled with copies of a record.  False alarm 1e-5."""
    node = TruncatedPoisson(dp.Laplace("sum", 1), F(1, 5), 9, 6)
    claim = dp.PureDP(decimal_upper(dp.account(node, COMING).step("pure").value))

    def batches(filled: bool) -> object:
        def run(there: bool, rng: np.random.Generator, size: int) -> np.ndarray:
            others = rng.binomial(8, 0.2, size)
            kept = there & (rng.random(size) < 0.2 * np.minimum(1, 6 / (others + 1)))
            copies = np.maximum(6 - others, 1) if filled else 1
            return kept * copies + rng.laplace(size=size)

        return run

    verdicts = [
        str(dp.audit_function(batches(f), True, False, claim=claim, **AUDIT).verdict)
        for f in (False, True)
    ]
    assert verdicts[0] != "refuted"
    assert verdicts[1] == "refuted"


# --- the checker, and bad input ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("node", "scope"),
    [
        (ShuffledBatches(NOISE, 100, 10), ZEROED),
        (ShuffledBatches(NOISE, 10, 10), ZEROED),
        (TruncatedPoisson(NOISE, F(1, 10), 100, 12), COMING),
        (TruncatedPoisson(dp.Laplace("s", 2), F(1, 10), 100, 100), COMING),
    ],
)
def test_the_checker_states_the_same_pairs(node: dp.Node, scope: dp.Scope) -> None:
    step = dp.account(node, scope).step("profile")
    child = dp.account(node.children[0], scope).step("profile").value
    assert bound("profile", node, [child]) == step.value


def test_partial_passes_and_batches_larger_than_the_data_are_refused_by_name() -> None:
    for kind in (CyclicBatches, ShuffledBatches):
        with pytest.raises(InvalidParameter, match="partial batch of 1; drop"):
            kind(NOISE, 100, 9)
        with pytest.raises(InvalidParameter, match="batch_size = 101: expected at most the 100"):
            kind(NOISE, 100, 101)
    with pytest.raises(InvalidParameter, match="batch_size = 11"):
        TruncatedPoisson(NOISE, F(1, 2), 10, 11)
    with pytest.raises(InvalidParameter, match=r"rate.*not a symbol"):
        TruncatedPoisson(NOISE, sympy.Symbol("q", positive=True), 10, 5)
    with pytest.raises(Unsupported, match="two records"):
        dp.account(TruncatedPoisson(dp.PureDP(1), F(1, 2), 10, 5), COMING).step("profile")
