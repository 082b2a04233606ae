"""Correlated noise over Poisson batches of groups in turns: bounds, checker, runs, refusals."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

import dpaudit as dp
from dpaudit.audit.attack import attack
from dpaudit.certificate.certify import certify
from dpaudit.certificate.order import Options, Order
from dpaudit.check.theorem import bound
from dpaudit.curator.replayer import Replayer
from dpaudit.errors import InvalidParameter, Undeclared, Unsupported
from dpaudit.families.banded import CyclicPoisson
from dpaudit.families.correlated import (
    BandedToeplitz,
    CorrelatedGaussian,
    LowerTriangular,
    Participation,
)
from dpaudit.families.correlated.kernel import CorrelatedGaussianKernel
from dpaudit.kernels.batches import batches_of
from dpaudit.kernels.query import Array
from dpaudit.profiles import delta_interval
from tests.library.cli.bench import DIGESTS, accept

F = Fraction
COMING = dp.central("add_remove")


def node_of(bands: Any, rounds: int, groups: int, rate: Any, z: Any = 1) -> CyclicPoisson:
    turns = -(-rounds // groups)
    rows = CorrelatedGaussian(
        "prefix", z, rounds, BandedToeplitz(bands), Participation(turns, groups)
    )
    return CyclicPoisson(rows, groups, rate)


TWO = node_of(("1", "0.5"), 4, 2, F(1, 4))


@pytest.mark.parametrize(
    ("node", "noise", "turns"),
    [
        (node_of(("1",), 100, 1, F(1, 100)), F(1), 100),
        (node_of((F(3, 5), F(4, 5)), 60, 3, F(1, 10)), F(1), 20),
        (node_of((F(3, 5), F(4, 5)), 59, 3, F(1, 10)), F(1), 20),
        (node_of((2, 0, -F(3, 2)), 30, 3, F(1, 5), F(5, 2)), F(1), 10),
    ],
)
def test_it_is_as_private_as_sampled_gaussian_rounds(node: Any, noise: F, turns: int) -> None:
    """Theorem 4 of Choquette-Choo and others 2023; one round and one group is DP-SGD itself."""
    found = dp.account(node, COMING).epsilon("1e-5")
    rounds = dp.Repeat(dp.PoissonSampled(dp.Gaussian("g", noise), node.rate), turns)
    expected = dp.account(rounds, COMING).epsilon("1e-5")
    assert found.upper == expected.upper
    assert found.lower == expected.lower  # every turn's block is whole


def test_the_column_of_least_error_costs_less_with_amplification() -> None:
    node = node_of(("1", "0.5", "0.375", "0.3125"), 400, 4, F(1, 25), 2)
    amplified = dp.account(node, COMING).epsilon("1e-5")
    plain = dp.account(node.child, COMING).epsilon("1e-5")
    assert amplified.upper < plain.lower / 4


def deltas(values: tuple[float, ...], epsilon: float) -> tuple[float, float]:
    """Two rounds, one group, column (1, 1/2) cut: by all coins of record and others, on a grid."""
    grid = np.linspace(-9, 9, 361)
    cell = (grid[1] - grid[0]) ** 2

    def law(kept: tuple[float, ...]) -> Array:
        total = np.zeros((len(grid), len(grid)))
        for coins in itertools.product((0, 1), repeat=len(kept)):
            chance = math.prod(0.25 if c else 0.75 for c in coins)
            row = sum(v for v, c in zip(kept, coins, strict=True) if c)
            total += chance * np.outer(norm.pdf(grid, row), norm.pdf(grid, row / 2))
        return total

    p, q = law(values), law(values[:-1])
    return tuple(
        float(np.maximum(a - math.exp(epsilon) * b, 0).sum() * cell) for a, b in ((p, q), (q, p))
    )  # type: ignore[return-value]


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
def test_brute_force_over_data_sets_and_coins_stays_below(epsilon: float) -> None:
    """Groups of two, rounds 1 and 2; the first group's records move rows 1 and 2 together."""
    node = node_of(("1", "0.5"), 2, 2, F(1, 4))
    known = dp.account(node, COMING).delta(F(str(epsilon)))
    largest = 0.0
    for others in itertools.product((-1.0, 0.0, 1.0), repeat=2):
        largest = max(largest, *deltas((*others, 1.0), epsilon))
    assert largest <= float(known.upper) * (1 + 1e-3)
    assert float(known.lower) <= largest * (1 + 1e-3)


@pytest.mark.parametrize("node", [TWO, node_of(("1", "-0.5", "0.25"), 10, 4, F(1, 3), 2)])
def test_the_checker_states_the_same_pairs(node: Any) -> None:
    step = dp.account(node, COMING).step("profile")
    child = dp.account(node.child, COMING).step("profile").value
    assert bound("profile", node, [child]) == step.value


TREE = CyclicPoisson(CorrelatedGaussian("prefix", 2, 4, "tree"), 4, F(1, 3))


@pytest.mark.parametrize("strategy", ["tree", "tree_honaker", "sqrt_toeplitz", "smooth_binary"])
def test_any_strategy_of_one_turn_is_one_sampled_release(strategy: str) -> None:
    """A tree of 8 rounds: columns of at most 4 nodes, noise 2 over sqrt(4)."""
    node = CyclicPoisson(CorrelatedGaussian("prefix", 2, 8, strategy), 8, F(1, 10))
    step = dp.account(node, COMING).step("profile")
    child = dp.account(node.child, COMING).step("profile").value
    assert bound("profile", node, [child]) == step.value
    found = dp.account(node, COMING).epsilon("1e-5")
    whole = dp.account(node.child, COMING).epsilon("1e-5")
    assert found.lower < found.upper < whole.lower
    if strategy == "tree":
        alone = dp.account(dp.PoissonSampled(dp.Gaussian("g", 1), F(1, 10)), COMING)
        assert found.upper == pytest.approx(float(alone.epsilon("1e-5").upper), rel=1e-4)


def test_a_tree_that_is_begun_anew_composes() -> None:
    """Of four rounds one round is in three nodes: six sampled releases of noise 2 over sqrt(3)."""
    import sympy

    found = dp.account(dp.Repeat(TREE, 6), COMING).epsilon("1e-5")
    sampled = dp.Repeat(dp.PoissonSampled(dp.Gaussian("g", 2 / sympy.sqrt(3)), F(1, 3)), 6)
    assert found.upper == pytest.approx(float(dp.account(sampled, COMING).epsilon("1e-5").upper))
    assert found.upper - found.lower < 2e-3


# --- turns whose rows meet ------------------------------------------------------------------------


def meeting(strategy: Any, rounds: int, groups: int, rate: Any, z: Any = 1) -> CyclicPoisson:
    who = Participation(-(-rounds // groups), groups)
    return CyclicPoisson(CorrelatedGaussian("prefix", z, rounds, strategy, who), groups, rate)


# Round 3's node is its own, the root's of four rounds holds all: moves of 3 and of 7 at most.
MEET = meeting("tree", 4, 2, F(1, 3))


@pytest.mark.long_cases("tree0", "tree2")
@pytest.mark.parametrize(
    "node",
    [
        meeting("tree", 64, 16, F(1, 10), 5),
        meeting("tree", 12, 5, 1, 10),
        meeting("tree", 80, 1, F(1, 80), 10),
        meeting("tree", 5, 4, F(1, 3)),
        meeting("sqrt_toeplitz", 40, 10, F(1, 10), 5),
        meeting("sqrt_toeplitz", 600, 100, F(1, 10), 5),
        meeting("independent_prefix", 10, 3, F(1, 4), 20),
        meeting(BandedToeplitz((1, "-1/2", "1/4")), 10, 2, F(1, 4), 2),
        meeting(LowerTriangular("1; 1/2 1; 0 1/3 2"), 3, 1, F(1, 4), 2),
    ],
    ids=lambda node: str(node.child.strategy)[:20],
)
def test_the_checker_states_the_same_moves(node: Any) -> None:
    step = dp.account(node, COMING).step("profile")
    child = dp.account(node.child, COMING).step("profile").value
    assert bound("profile", node, [child]) == step.value
    found = dp.account(node, COMING).epsilon("1e-5")
    assert found.upper <= dp.account(node.child, COMING).epsilon("1e-5").upper * F(1001, 1000)


def test_every_count_of_turns_has_its_own_move() -> None:
    """Rounds 1 and 3 of four: 3 nodes each; or together 1 + 1 + 1 + 4 of the nodes 1, 2, 3, 4."""
    import sympy

    losses: Any = dp.account(MEET, COMING).step("profile").value
    assert losses.remove[0].moves == (sympy.sqrt(3), sympy.sqrt(7))
    assert (losses.remove[0].rate, losses.remove[0].size) == (F(1, 3), 2)
    # Below: along (1, 1, 1, 2) they move by 4 and 3 of sqrt(7).
    assert losses.reached_remove[1].moves == (3 / sympy.sqrt(7), sympy.sqrt(7))


def test_turns_that_move_little_are_left_out_below() -> None:
    """Of 5 rounds the fifth is not in the root of four: along it four coins move, not five."""
    losses: Any = dp.account(meeting("tree", 5, 1, F(1, 3)), COMING).step("profile").value
    assert losses.remove[0].size == 5
    assert losses.reached_remove[1].size == 4


Move = Callable[[list[Array]], Array]  # of the rows before, in -1..1


def ratio_of(matrix: Array, rate: float, moves: list[Move], z: float, axis: Array) -> tuple:
    """Densities on a grid of rows, of the run with the record, by all coins, and without it."""
    rows = list(np.meshgrid(*[axis] * len(matrix), indexing="ij", sparse=True))
    without = math.prod(norm.pdf(row, scale=z) for row in rows)
    with_it = np.zeros(())
    for coins in itertools.product((0, 1), repeat=len(moves)):
        chance, density = 1.0, np.ones(())
        for coin in coins:
            chance *= rate if coin else 1 - rate
        for i, row in enumerate(rows):
            mean = sum(matrix[i, t] * coins[t] * moves[t](rows[:t]) for t in range(i + 1))
            density = density * norm.pdf(row, loc=mean, scale=z)
        with_it = with_it + chance * density
    return with_it, without


def constant(value: float) -> Move:
    return lambda past: np.array(value)


def turning(past: list[Array]) -> Array:
    """Towards what was released last."""
    return np.where(past[-1] > 0.4, 1.0, -1.0)


ALWAYS = [constant(1), constant(1), constant(1)]
SIGNED = "1; -1/2 1; 1/4 -1 1"


@pytest.mark.first_case("strategy")
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
@pytest.mark.parametrize(
    "strategy", ["tree", "sqrt_toeplitz", SIGNED], ids=["tree", "root", "signs"]
)
def test_all_coins_of_three_rounds_stay_below(strategy: str, epsilon: float) -> None:
    """By quadrature of all rows; moves that what was released decides, and others."""
    matrix = {
        "tree": [[1, 0, 0], [1, 1, 0], [0, 0, 1]],
        "sqrt_toeplitz": [[1, 0, 0], [1 / 2, 1, 0], [3 / 8, 1 / 2, 1]],
    }.get(strategy, [[1, 0, 0], [-1 / 2, 1, 0], [1 / 4, -1, 1]])
    named = LowerTriangular(strategy) if strategy is SIGNED else strategy
    known = dp.account(meeting(named, 3, 1, F(2, 5), 2), COMING).delta(F(str(epsilon)))
    axis = np.linspace(-11, 13, 97)
    cell, largest = (axis[1] - axis[0]) ** 3, 0.0
    for moves in (
        ALWAYS,
        [constant(1), turning, turning],
        [constant(1), constant(-1), turning],
        [constant(1), constant(-1), constant(1)],
        [constant(1), constant(0), constant(0)],
    ):
        laws = ratio_of(np.array(matrix), 0.4, moves, 2, axis)
        for one, other in (laws, laws[::-1]):
            found = np.maximum(one - math.exp(epsilon) * other, 0).sum() * cell
            largest = max(largest, float(found))
    assert 0 < largest <= float(known.upper) * (1 + 1e-3)
    assert float(known.lower) <= largest * (1 + 1e-3)


def test_a_move_too_small_is_seen_by_the_coins() -> None:
    """Planted: both turns moved by no more than one.  The quadrature is above that pair's delta."""
    matrix, axis = np.array([[1.0, 0], [1, 1]]), np.linspace(-9, 11, 401)
    with_it, without = ratio_of(matrix, 0.5, ALWAYS[:2], 1, axis)
    truth = float(np.maximum(with_it - math.e * without, 0).sum() * (axis[1] - axis[0]) ** 2)
    right = dp.account(meeting("tree", 2, 1, F(1, 2)), COMING).step("profile").value.remove[0]
    wrong = dataclasses.replace(right, moves=(right.moves[0], right.moves[0]))
    assert (
        float(delta_interval(wrong, F(1)).upper) < truth < float(delta_interval(right, F(1)).upper)
    )


@pytest.mark.quality
def test_a_tree_of_many_rounds_by_draws_of_its_rows() -> None:
    """8 rounds sampled each, ratios by all 2^8 coins.  False alarm: 4e-5 each, four deviations."""
    node = meeting("tree", 8, 1, F(1, 8), 2)
    rng, size = np.random.default_rng(7), 40_000
    m = np.arange(1, 9)
    matrix = ((m[:, None] - (m & -m)[:, None] < m) & (m <= m[:, None])).astype(float)
    coins = np.array(list(itertools.product((0, 1), repeat=8)))
    log_chance = coins.sum(1) * math.log(1 / 8) + (8 - coins.sum(1)) * math.log(7 / 8)
    means = coins @ matrix.T
    drawn = rng.choice(len(coins), size, p=np.exp(log_chance))
    for present in (True, False):
        rows = 2 * rng.standard_normal((size, 8)) + (means[drawn] if present else 0)
        exponent = log_chance + rows @ means.T / 4 - np.square(means).sum(1) / 8
        losses = np.logaddexp.reduce(exponent, axis=1) * (1 if present else -1)
        for epsilon in (0.1, 0.5, 1.0):
            found = -np.expm1(np.minimum(epsilon - losses, 0))
            error = 4 * found.std() / math.sqrt(size)
            known = dp.account(node, COMING).delta(F(str(epsilon)))
            assert found.mean() - error <= float(known.upper)


def test_all_turns_at_rate_1_are_as_all_turns_declared() -> None:
    node = meeting("tree", 4, 2, 1)
    found, whole = (dp.account(n, COMING).epsilon("1e-5") for n in (node, node.child))
    assert (found.lower, found.upper) == (whole.lower, whole.upper)


def test_few_turns_of_a_tree_cost_less_than_without_coins() -> None:
    node = meeting("tree", 256, 64, F(1, 10), 10)
    amplified, plain = (dp.account(n, COMING).epsilon("1e-5") for n in (node, node.child))
    assert amplified.upper < plain.lower / 4
    assert amplified.lower > amplified.upper / 3


# --- runs and audits -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Sums:
    """Prefix sums of clipped records of each round's batch."""

    node: Any
    rounds: int

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return self.node

    def run(self, curator: dp.Curator) -> Array:
        released = np.zeros((curator.trials, 1))
        query = dp.ClippedMean(lambda values: values[None], radius=1, divisor=1)
        for _ in range(self.rounds):
            with curator.batch("prefix") as batch:
                released = curator.release("prefix", query, rows=batch)
        return released


# Two records: the last one, of the second group, fills the ball.
PAIR = dp.Neighbours(
    dp.Records(np.array([[0.0], [1.0]])),
    dp.Records(np.array([[0.0]])),
    dp.Adjacency.ADD_REMOVE,
    "a record of 1",
)


def test_scores_are_the_ratio_over_all_coins() -> None:
    """Rows of C X + Z, from the released prefix sums, against every pair of coins."""
    program = Sums(TWO, 4)
    sampler = dp.Sampler(TWO, COMING, PAIR.first, rng=np.random.default_rng(1), trials=50)
    program.run(sampler)
    replay = Replayer(program, TWO, COMING, (PAIR.first, PAIR.second), coins=3)
    found = replay.inspect(sampler.transcript, own=0)
    assert found.attack == "exact"
    assert found.violations == ()
    sums = np.stack([event.released[:, 0] for event in sampler.transcript])
    column = np.array([[1, 0, 0, 0], [0.5, 1, 0, 0], [0, 0.5, 1, 0], [0, 0, 0.5, 1]])
    rows = column @ np.diff(sums, axis=0, prepend=0.0)
    ratio = np.zeros(50)
    for coins in itertools.product((0, 1), repeat=2):
        chance = math.prod(0.25 if c else 0.75 for c in coins)
        means = column @ np.array([0, coins[0], 0, coins[1]])
        exponent = (rows * means[:, None]).sum(0) - (means**2).sum() / 2
        ratio += chance * np.exp(exponent)
    np.testing.assert_allclose(found.scores, np.log(ratio), rtol=1e-9, atol=1e-11)


class Drawer:
    """A wrong way to draw the batches of a round."""

    def __init__(self, sampling: Any, trials: int) -> None:
        self.drawn, self.trials, self.used = batches_of(sampling), trials, -1
        self.kept: Any = None


class AllGroups(Drawer):
    """Everybody by a coin in every round: no turns."""

    def draw(self, size: int, rng: np.random.Generator) -> Any:
        return rng.random((self.trials, size)) < 0.25


class SameCoins(Drawer):
    """Coins are drawn once for all turns."""

    def draw(self, size: int, rng: np.random.Generator) -> Any:
        self.used += 1
        if self.kept is None:
            self.kept = rng.random((self.trials, size)) < 0.25
        return self.kept & self.drawn.eligible(self.drawn.slot(self.used), size)


class WholeGroups(Drawer):
    """No coins."""

    def draw(self, size: int, rng: np.random.Generator) -> Any:
        self.used += 1
        turn = self.drawn.eligible(self.drawn.slot(self.used), size)
        return np.broadcast_to(turn, (self.trials, size))


def suite_of(node: Any = TWO, **options: Any) -> tuple[dp.Mechanism, dp.Suite]:
    claim = dp.Claim(dp.ApproxDP(12, "1e-3"), by="a test")
    of = dp.Mechanism("bands", "Bands", "a test", Sums(node, 4), COMING, [claim])
    return of, dp.Suite("bands", of.program, PAIR, trials=400, **options)


EVERY = meeting("tree", 4, 1, F(1, 4), 2)


class TwiceTheRate(Drawer):
    """Coins of twice the rate."""

    def draw(self, size: int, rng: np.random.Generator) -> Any:
        self.used += 1
        turn = self.drawn.eligible(self.drawn.slot(self.used), size)
        return (rng.random((self.trials, size)) < 2 * self.drawn.rate) & turn


class LittleNoiseAboveLeaves(CorrelatedGaussianKernel):
    """Nodes above the leaves, those of even rounds, have half their noise."""

    def sample(self, values: Array, scale: Array, rng: np.random.Generator) -> Array:
        fresh = scale[:, None] * rng.standard_normal(values.shape) / (2 - self._round % 2)
        noise = self._past.known(self._round) + fresh
        released = self.centre(values) + noise
        self._remember(values, scale, noise, fresh)
        return released


@pytest.mark.parametrize("node", [MEET, EVERY], ids=["turns", "every round"])
@pytest.mark.parametrize("bug", [SameCoins, TwiceTheRate])
def test_wrong_coins_of_turns_that_meet_are_found(bug: type, node: Any) -> None:
    found = attack(*suite_of(node, kernels={CyclicPoisson: bug}), seed=3, trials=400, error=1e-4)
    (row,) = [f for f in found.findings if f.check == "sampling frequencies"]
    assert row.status == "broken"


def test_too_little_noise_of_a_level_is_found() -> None:
    options = {"kernels": {CorrelatedGaussian: LittleNoiseAboveLeaves}}
    found = attack(*suite_of(MEET, **options), seed=3, trials=400, error=1e-4)
    (row,) = [f for f in found.findings if f.check == "variance of prefix"]
    assert row.status == "broken"


@pytest.mark.parametrize("node", [TWO, TREE, MEET, EVERY], ids=["bands", "tree", "meet", "every"])
def test_right_batches_and_noise_are_not_flagged(node: Any) -> None:
    """False alarm: 1e-4."""
    found = attack(*suite_of(node), seed=3, trials=400, error=1e-4)
    assert {f.status for f in found.findings} <= {"held", "not_run"}
    assert found.attack == "exact"  # of 2^8 coins those of silent records are left out
    assert {"sampling frequencies", "variance of prefix"} <= {f.check for f in found.findings}


@pytest.mark.parametrize("bug", [AllGroups, SameCoins, WholeGroups])
@pytest.mark.parametrize("node", [TWO, TREE], ids=["bands", "tree"])
def test_wrong_batches_are_found(bug: type, node: Any) -> None:
    if node is TREE and bug is SameCoins:
        return  # each record has one turn
    found = attack(*suite_of(node, kernels={CyclicPoisson: bug}), seed=3, trials=400, error=1e-4)
    (row,) = [f for f in found.findings if f.check == "sampling frequencies"]
    assert row.status == "broken"


@pytest.mark.parametrize("node", [TWO, TREE, MEET, EVERY], ids=["bands", "tree", "meet", "every"])
@pytest.mark.quality
def test_it_is_certified_and_its_certificate_confirmed(node: Any) -> None:
    found = certify([Order(*suite_of(node), "project", DIGESTS)], Options(seed=5, trials=400))[0]
    predicate = found.certificate["predicate"]
    assert [r["check"] for r in predicate["conformance"] if r["status"] == "broken"] == []
    assert predicate["verdict"]["status"].startswith("certified")
    assert accept(found.certificate).unconfirmed == ()


# --- what is refused -----------------------------------------------------------------------------


def test_a_round_without_its_release_is_refused() -> None:
    sampler = dp.Sampler(TWO, COMING, PAIR.first, rng=np.random.default_rng(1))
    with sampler.batch("prefix"):
        pass
    with pytest.raises(Undeclared, match="an earlier round was left out"):
        Sums(TWO, 1).run(sampler)


def test_more_rounds_than_declared_are_refused() -> None:
    sampler = dp.Sampler(TWO, COMING, PAIR.first, rng=np.random.default_rng(1))
    with pytest.raises(Undeclared, match="all 4 declared batches"):
        Sums(TWO, 5).run(sampler)


def test_bad_settings_are_refused_by_name() -> None:
    with pytest.raises(InvalidParameter, match="groups = 11: expected at most 10 rounds"):
        node_of(("1",), 10, 11, F(1, 4))
    with pytest.raises(InvalidParameter, match=r"declare Participation\(5, 2\)"):
        CyclicPoisson(CorrelatedGaussian("p", 1, 10, BandedToeplitz(("1",))), 2, F(1, 4))
    with pytest.raises(InvalidParameter, match=r"declare Participation\(5, 2\)"):
        CyclicPoisson(CorrelatedGaussian("p", 1, 10, "tree"), 2, F(1, 4))
    with pytest.raises(Unsupported, match="tree_honaker with 5 participations"):
        dp.account(meeting("tree_honaker", 10, 2, F(1, 4)), COMING).epsilon("1e-5")
    with pytest.raises(InvalidParameter, match="expected a CorrelatedGaussian"):
        CyclicPoisson(dp.Gaussian("g", 1), 2, F(1, 4))
    with pytest.raises(InvalidParameter, match="rate"):
        node_of(("1",), 10, 2, 2)
