"""Groups whose records are drawn by coins: quadrature, moves in the plane, checker, audit."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom, norm

import dpaudit as dp
from dpaudit.accountant.account import Account
from dpaudit.check.profile.cells import NotConfirmed
from dpaudit.check.profile.closed import delta_by
from dpaudit.check.profile.conversions import confirm_lower, confirm_upper
from dpaudit.check.theorem import bound
from dpaudit.errors import Unsupported
from dpaudit.exact import decimal_upper, enclose
from dpaudit.pairs import Drawn, DrawnMoves, Normal, product
from dpaudit.pairs.core import dominating as dominates
from dpaudit.profiles import delta_interval, epsilon_interval
from tests.library.unit.test_local_family import confirmed

F = Fraction
SCOPE = dp.central("add_remove")
T = np.linspace(-12, 14, 26_001)
CELL = T[1] - T[0]


def law(mu: float, rate: float, size: int) -> np.ndarray:
    weights = binom.pmf(np.arange(size + 1), size, rate)
    return sum(w * norm.pdf(T - j * mu) for j, w in enumerate(weights))


@pytest.mark.parametrize(("mu", "rate", "size"), [(1.0, 0.1, 2), (0.25, 0.5, 8), (0.5, 0.01, 5)])
def test_both_engines_have_the_profile_of_its_densities(mu: float, rate: float, size: int) -> None:
    pair = Drawn(F(str(mu)), F(str(rate)), F(size))
    laws = law(mu, rate, size), norm.pdf(T)
    for used, (p, q) in ((pair, laws), (pair.swapped, laws[::-1])):
        for epsilon in (0.0, 0.2, 1.0):
            truth = float(np.maximum(p - math.exp(epsilon) * q, 0).sum() * CELL)
            found = delta_interval(used, F(str(epsilon)))
            assert float(found.lower) == pytest.approx(truth, rel=1e-4, abs=1e-9)
            assert found.upper - found.lower < F(1, 10**9)
            theirs = delta_by(used, enclose(F(str(epsilon))).exp())
            assert float(theirs.lower()) <= float(found.upper)
            assert float(found.lower) <= float(theirs.upper())


@pytest.mark.parametrize(
    ("moves", "rate", "size"),
    [((1.0, 1.25), 0.1, 2), ((0.25, 0.75, 0.75, 2.0), 0.5, 4), ((0.5, 1.5), 0.125, 6)],
)
def test_moves_of_any_length_have_the_profile_of_their_densities(
    moves: tuple[float, ...], rate: float, size: int
) -> None:
    """The last move is also that of any larger number; in products as well."""
    pair = DrawnMoves(tuple(F(str(move)) for move in moves), F(str(rate)), F(size))
    known = [0.0, *moves]
    weights = binom.pmf(np.arange(size + 1), size, rate)
    drawn = sum(w * norm.pdf(T - known[min(j, len(moves))]) for j, w in enumerate(weights))
    laws = drawn, norm.pdf(T)
    for used, (p, q) in ((pair, laws), (pair.swapped, laws[::-1])):
        for epsilon in (0.0, 0.2, 1.0):
            truth = float(np.maximum(p - math.exp(epsilon) * q, 0).sum() * CELL)
            found = delta_interval(used, F(str(epsilon)))
            assert float(found.lower) == pytest.approx(truth, rel=1e-4, abs=1e-9)
            assert found.upper - found.lower < F(1, 10**9)
            theirs = delta_by(used, enclose(F(str(epsilon))).exp())
            assert float(theirs.lower()) <= float(found.upper)
            assert float(found.lower) <= float(theirs.upper())


def test_moves_of_hundreds_of_deviations_are_answered() -> None:
    """At this delta the ratio at the threshold t is w_1 exp(m_1 t - m_1^2 / 2) but for e^-1000."""
    pair = DrawnMoves((F(265), F(412), F(520), F(616)), F(1, 10), F(4))
    found = epsilon_interval(pair, F(33, 100))
    assert found.upper - found.lower < F(1, 1000)

    def loss(t: float) -> float:
        return math.log(0.2916) + 265 * t - 265**2 / 2

    def excess(t: float) -> float:
        lost = 0.2916 * norm.cdf(t - 265) + math.exp(loss(t) + norm.logsf(t))
        return 0.3439 - lost - 0.33

    assert float(found.upper) == pytest.approx(loss(brentq(excess, 255, 265)), abs=1e-3)


def test_equal_steps_are_the_draws_of_a_group() -> None:
    group = Drawn(F(1, 4), F(1, 5), F(3))
    moves = DrawnMoves((F(1, 4), F(1, 2), F(3, 4)), F(1, 5), F(3))
    for one, other in ((group, moves), (group.swapped, moves.swapped)):
        for times in (1, 5):
            found = [delta_interval(product([(p, F(times))]), F(1, 10)) for p in (one, other)]
            assert float(found[0].upper) == pytest.approx(float(found[1].upper), rel=1e-6)


@pytest.mark.quality
def test_a_product_of_moves_is_confirmed_and_a_smaller_epsilon_is_not() -> None:
    pair = product([(DrawnMoves((F(1, 4), F(1)), F(1, 5), F(3)), F(4)), (Normal(F(1, 3)), F(1))])
    delta = F(1, 10**4)
    found = epsilon_interval(pair, delta)
    row = {"value": str(float(found.upper)), **found.upper_witness}
    assert confirm_upper(pair, F(row["value"]), delta, row)
    assert not confirm_upper(pair, F(row["value"]) * F(98, 100), delta, row)


def test_the_checker_takes_no_moves_that_fall_and_no_smaller_ones() -> None:
    moves = DrawnMoves((F(1, 2), F(1)), F(1, 5), F(3))
    with pytest.raises(NotConfirmed, match="DrawnMoves"):
        delta_by(DrawnMoves((F(1), F(1, 2)), F(1, 5), F(3)), enclose(F(2)))
    assert dominates(DrawnMoves((F(1, 2), F(2)), F(1, 4), F(3)), moves)
    assert not dominates(DrawnMoves((F(1, 3), F(2)), F(1, 4), F(3)), moves)
    assert not dominates(DrawnMoves((F(1),), F(1, 4), F(3)), moves)
    assert not dominates(DrawnMoves((F(1, 2), F(1)), F(1, 6), F(3)), moves)


@pytest.mark.quality
def test_no_moves_in_the_plane_are_further_apart() -> None:
    """Two records, four batches; a sum over the plane, for several angles and lengths."""
    axis = np.linspace(-8, 9, 341)
    x, y = np.meshgrid(axis, axis)
    cell, rate = (axis[1] - axis[0]) ** 2, 0.4
    node = dp.Group(dp.PoissonSampled(dp.Gaussian("g", 1), F(2, 5)), 2)
    q = norm.pdf(x) * norm.pdf(y)
    for first, second in (
        ((1, 0), (0, 1)),
        ((1, 0), (-1, 0)),
        ((0.6, 0.8), (0.5, 0)),
        ((1, 0), (1, 0)),
    ):
        p = np.zeros_like(q)
        for a, b in itertools.product((0, 1), repeat=2):
            chance = np.prod([rate if c else 1 - rate for c in (a, b)])
            at = [a * u + b * v for u, v in zip(first, second, strict=True)]
            p += chance * norm.pdf(x - at[0]) * norm.pdf(y - at[1])
        for epsilon in (0.0, 0.4, 1.0):
            known = dp.account(node, SCOPE).delta(F(str(epsilon)))
            for one, other in ((p, q), (q, p)):
                found = float(np.maximum(one - math.exp(epsilon) * other, 0).sum() * cell)
                assert found <= float(known.upper) * (1 + 1e-3)


def run(size: int, times: int = 1000) -> dp.Node:
    return dp.Group(dp.Repeat(dp.PoissonSampled(dp.Gaussian("g", 2), F(1, 100)), times), size)


@pytest.mark.quality
def test_groups_of_a_training_run_grow_with_their_size_and_are_tight() -> None:
    bounds = [dp.account(run(size), SCOPE).epsilon("1e-5") for size in (1, 2, 5)]
    assert [float(b.upper) for b in bounds] == sorted(float(b.upper) for b in bounds)
    assert all(0 < b.upper - b.lower < F(1, 5000) for b in bounds)
    # What steps from neighbour to neighbour give, by Renyi divergences.
    stepped = Account(run(5), SCOPE).converted("rdp", F(1, 10**5)).value[0]
    assert bounds[2].upper < F(1, 2) * stepped


@pytest.mark.quality
def test_the_checker_confirms_a_group_of_three_and_refuses_a_smaller_epsilon() -> None:
    node = run(3, 20)
    step = Account(node, SCOPE).step("profile")
    child = dp.account(node.children[0], SCOPE).step("profile").value
    assert bound("profile", node, [child]) == step.value
    delta = F(1, 10**5)
    converted = Account(node, SCOPE).converted("profile", delta)
    epsilon = F(converted.witness["upper"][0]["value"])
    assert confirmed(converted, delta, epsilon)
    assert not confirmed(converted, delta, epsilon * F(95, 100))


@pytest.mark.quality
def test_an_audit_refutes_the_guarantee_of_one_record_for_a_user_of_five() -> None:
    """Planted bug: users of five records, accounted as one.  False alarm 1e-5 each."""
    node, delta = dp.Repeat(dp.PoissonSampled(dp.Gaussian("g", 1), F(1, 5)), 10), F(1, 100)

    def training(records: int, rng: np.random.Generator, size: int) -> np.ndarray:
        drawn = rng.binomial(records, 0.2, (size, 10))
        return (drawn + rng.standard_normal((size, 10))).sum(axis=1)

    found = []
    for claimed in (node, dp.Group(node, 5)):
        epsilon = dp.account(claimed, SCOPE).epsilon(delta).upper
        claim = dp.ApproxDP(decimal_upper(epsilon), delta)
        audit = dp.audit_function(training, 5, 0, claim=claim, trials=20_000, seed=3)
        found.append(str(audit.verdict))
    assert found[0] == "refuted"
    assert found[1] != "refuted"


@lru_cache
def uppers(node: dp.Node) -> dict[float, float]:
    """Upper ends of delta at a few epsilons, of the larger direction."""
    pairs = Account(node, SCOPE).step("profile").value.pairs
    return {
        e: max(float(delta_interval(pair, F(str(e))).upper) for pair in pairs)
        for e in (0.0, 0.1, 0.4, 1.0)
    }


def excess(node: dp.Node, laws: tuple[np.ndarray, np.ndarray]) -> float:
    """The most that delta of two laws, masses, is above the account's, either way: of its part."""
    worst = -1.0
    for epsilon, known in uppers(node).items():
        for p, q in (laws, laws[::-1]):
            found = float(np.maximum(p - math.exp(epsilon) * q, 0).sum())
            worst = max(worst, found / known - 1 if known else math.inf) if found > 1e-9 else worst
    return worst


def releases_of_one_sample(moves: np.ndarray, rates: float, z: tuple[float, float]) -> np.ndarray:
    """P masses of two answers on a grid; moves[r, 0] in the first, moves[r, 1 + (y > 0)] then."""
    x, y = np.meshgrid(AXIS, AXIS, indexing="ij")
    p = np.zeros_like(x)
    for drawn in itertools.product((0, 1), repeat=len(moves)):
        chance = math.prod(rates if c else 1 - rates for c in drawn)
        total = np.array(drawn) @ moves
        later = np.where(x > 0, total[2], total[1]) / z[1]
        p += chance * norm.pdf(x - total[0] / z[0]) * norm.pdf(y - later)
    masses: np.ndarray = p * (AXIS[1] - AXIS[0]) ** 2
    return masses


AXIS = np.linspace(-9, 11, 401)


@pytest.mark.quality
def test_no_queries_on_one_sample_are_further_apart_whatever_the_second_takes_from_the_first() -> (
    None
):
    """Two releases, two or three records; 40 random moves, and the equal ones, which reach it."""
    rng, z = np.random.default_rng(21), (1.0, 1.5)
    child = dp.Compose(dp.Gaussian("a", 1), dp.Gaussian("b", F(3, 2)))
    q = releases_of_one_sample(np.zeros((1, 3)), 0.3, z)
    for size in (2, 3):
        node = dp.Group(dp.PoissonSampled(child, F(3, 10)), size)
        for k in range(20):
            moves = rng.uniform(-1, 1, (size, 3)) if k % 2 else rng.choice((-1.0, 1.0), (size, 3))
            assert excess(node, (releases_of_one_sample(moves, 0.3, z), q)) <= 1e-3
        equal = excess(node, (releases_of_one_sample(np.ones((size, 3)), 0.3, z), q))
        assert equal == pytest.approx(0, abs=1e-3)
    # One record's guarantee is exceeded: the check is not empty.
    one = dp.PoissonSampled(child, F(3, 10))
    assert excess(one, (releases_of_one_sample(np.ones((2, 3)), 0.3, z), q)) > 0.5


def laplace_sum(moves: np.ndarray, rate: float, scale: float) -> np.ndarray:
    """Masses of a sum in Laplace noise on a fine grid."""
    axis = np.linspace(-40, 40, 80_001)
    p = np.zeros_like(axis)
    for drawn in itertools.product((0, 1), repeat=len(moves)):
        chance = math.prod(rate if c else 1 - rate for c in drawn)
        p += chance * np.exp(-np.abs(axis - np.array(drawn) @ moves) / scale) / (2 * scale)
    masses: np.ndarray = p * (axis[1] - axis[0])
    return masses


@pytest.mark.parametrize(
    ("size", "rate", "scale"), [(2, "0.1", "2"), (4, "0.3", "1"), (3, ".01", "4")]
)
def test_no_sampled_group_in_laplace_noise_is_further_apart(
    size: int, rate: str, scale: str
) -> None:
    rng = np.random.default_rng(5)
    node = dp.Group(dp.PoissonSampled(dp.Laplace("l", F(scale)), F(rate)), size)
    q = laplace_sum(np.zeros(1), 0.0, float(scale))
    for k in range(12):
        moves = np.ones(size) if k == 0 else rng.uniform(-1, 1, size)
        assert excess(node, (laplace_sum(moves, float(rate), float(scale)), q)) <= 1e-3
    # What one of the group does alone is below, and is not all.
    alone = Account(node, SCOPE).step("profile").value.reached[0]
    assert 0 < delta_interval(alone, F(0)).lower < F(uppers(node)[0.0])
    one = dp.PoissonSampled(dp.Laplace("l", F(scale)), F(rate))
    assert excess(one, (laplace_sum(np.ones(size), float(rate), float(scale)), q)) > 0.1


@pytest.mark.first_case
@pytest.mark.parametrize(
    "child",
    [
        dp.PoissonSampled(dp.Compose(dp.Gaussian("a", 4), dp.Gaussian("b", 3)), F(1, 100)),
        dp.Repeat(dp.PoissonSampled(dp.Repeat(dp.Gaussian("a", 6), 3), F(1, 50)), 30),
        dp.PoissonSampled(dp.Laplace("l", 4), F(1, 100)),
        dp.Repeat(dp.PoissonSampled(dp.Laplace("l", 4), F(1, 100)), 10),
        dp.Compose(dp.PoissonSampled(dp.Laplace("l", 4), F(1, 100)), dp.Gaussian("g", 8)),
    ],
    ids=["two releases", "rounds of three", "laplace", "laplace rounds", "and unsampled"],
)
def test_the_checker_states_groups_over_composed_samples_and_confirms_both_ends(
    child: dp.Node,
) -> None:
    node, delta = dp.Group(child, 4), F(1, 10**5)
    step = Account(node, SCOPE).step("profile")
    premise = dp.account(child, SCOPE).step("profile").value
    assert bound("profile", node, [premise]) == step.value
    converted = Account(node, SCOPE).converted("profile", delta)
    assert converted.lower is not None
    assert converted.lower > 0
    rows = converted.witness["upper"]
    for pair, row in zip(step.value.pairs, rows, strict=True):
        assert confirm_upper(pair, F(row["value"]), delta, row)
        assert not confirm_upper(pair, F(row["value"]) * F(95, 100), delta, row)
    (low,) = converted.witness["lower"]
    reached = step.value.reached[int(low["pair"])]
    if any(isinstance(factor, Drawn) for factor, _ in reached.factors):
        return
    assert confirm_lower(reached, F(low["value"]), delta, low)


@pytest.mark.quality
def test_an_order_whose_sum_is_too_long_is_not_the_best_one() -> None:
    """The whole account failed: "expected at most 100000 terms"."""
    node = dp.Group(dp.PoissonSampled(dp.Laplace("l", 4), F(1, 100)), 5)
    assert Account(node, SCOPE).converted("rdp", F(1, 10**5)).value[0] < 10
    assert 0 < dp.account(node, SCOPE).epsilon("1e-5").upper < F(4, 100)


def test_groups_over_what_is_not_known_are_refused_by_name() -> None:
    twice = dp.PoissonSampled(dp.PoissonSampled(dp.Gaussian("a", 1), F(1, 2)), F(1, 9))
    both = dp.Compose(dp.PureDP(1), dp.PoissonSampled(dp.Gaussian("b", 1), F(1, 9)))
    for unknown in (twice, both):
        with pytest.raises(Unsupported, match="no dominating pair is proved for a group"):
            dp.account(dp.Group(unknown, 3), SCOPE).step("profile")
    with pytest.raises(Unsupported, match="up to 64 members are counted"):
        dp.account(dp.Group(dp.PoissonSampled(dp.Laplace("a", 1), F(1, 2)), 65), SCOPE).step(
            "profile"
        )


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("times", [1, 3])
def test_a_group_whose_records_all_come_is_one_of_gaussian_noise(times: int) -> None:
    """Rate 1, with and without the sampling; the checker says the same."""
    node = dp.Group(dp.Repeat(dp.PoissonSampled(dp.Gaussian("g", 2), 1), times), 5)
    plain = dp.Repeat(dp.Gaussian("g", F(2, 5)), times)
    step = Account(node, SCOPE).step("profile")
    child = dp.account(node.children[0], SCOPE).step("profile").value
    assert bound("profile", node, [child]) == step.value
    known = dp.account(plain, SCOPE).epsilon("1e-5")
    found = dp.account(node, SCOPE).epsilon("1e-5")
    assert (found.lower, found.upper) == (known.lower, known.upper)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("rate", "size"), [("0.999999999", 5), ("0.99", 6), ("1e-9", 4)])
def test_rates_next_to_1_and_to_0_are_composed(rate: str, size: int) -> None:
    """With normal noise beside it, whose closed form is integrated over the group's loss."""
    drawn, mu, epsilon = Drawn(F(1, 2), F(rate), F(size)), 0.75, 1.0
    laws = law(0.5, float(F(rate)), size), norm.pdf(T)
    for used, (p, q) in ((drawn, laws), (drawn.swapped, laws[::-1])):
        at = (epsilon - np.log(p / q)) / mu
        inner = norm.sf(at - mu / 2) - np.exp(at * mu) * norm.sf(at + mu / 2)
        truth = float((p * inner).sum() * CELL)
        found = delta_interval(product([(used, F(1)), (Normal(F(3, 4)), F(1))]), F(1))
        assert float(found.lower) * (1 - 1e-9) <= truth <= float(found.upper) * (1 + 1e-9)
        assert 0 < found.upper - found.lower <= found.upper / 500
