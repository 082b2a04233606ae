"""Local reports and shuffled ones: enumeration, the papers' bounds, the checker, audits."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from collections.abc import Iterator
from fractions import Fraction
from time import process_time
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy.stats import binom, laplace, multinomial

import dpaudit as dp
from dpaudit.accountant.account import Account
from dpaudit.check.profile.cells import Grid, NotConfirmed
from dpaudit.check.profile.closed import closed_at_least, closed_at_most
from dpaudit.check.profile.conversions import _nodes, confirm_conversion
from dpaudit.check.profile.nodes import lower_nodes, upper_nodes
from dpaudit.check.profile.onestep import cells
from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.exact import decimal_upper, enclose, exp, log
from dpaudit.families.local import (
    Shuffled,
    SubsetResponse,
    cap_response,
    hadamard_response,
    subset_selection,
)
from dpaudit.families.local.kernel import (
    hadamard_columns,
    half_sphere_points,
    selected_sets,
    shuffled_counts,
)
from dpaudit.measures.calculus import Step
from dpaudit.measures.profile import PROFILE
from dpaudit.measures.renyi import RENYI
from dpaudit.measures.renyi import order as order_symbol
from dpaudit.pairs import (
    Blanket,
    Branched,
    Clones,
    Normal,
    Pair,
    Replaced,
    Tallied,
    product,
)

F = Fraction
SCOPE = dp.central("replace_one")
AUDIT = {"trials": 2_500, "seed": 5, "confidence": 0.99, "refute_at": 1e-5}


def delta_of(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def two_sided(node: dp.Node, epsilon: float) -> tuple[float, float]:
    found = dp.account(node, SCOPE).delta(F(str(epsilon)))
    return float(found.lower), float(found.upper)


# --- reports of sets -----------------------------------------------------------------------------


def laws_of_sets(choices: int, size: int, epsilon: float) -> np.ndarray:
    """Row v: the law of the reported set where v is held."""
    sets = list(itertools.combinations(range(choices), size))
    weights = np.array([[math.exp(epsilon * (v in s)) for s in sets] for v in range(choices)])
    return np.asarray(weights / weights.sum(1, keepdims=True))


def laws_of_columns(choices: int, epsilon: float) -> np.ndarray:
    """Row v - 1: the law of the reported column where v is held."""
    size = 2 ** choices.bit_length()
    rows = range(1, choices + 1)
    odd = np.array([[bin(v & y).count("1") % 2 for y in range(size)] for v in rows])
    weights = np.exp(epsilon * (1 - odd))
    return np.asarray(weights / weights.sum(1, keepdims=True))


SETS = {
    "three of six": (
        subset_selection("s", F(3, 2), 6, 3),
        laws_of_sets(6, 3, 1.5),
        selected_sets,
    ),
    "one of four": (subset_selection("s", 1, 4, 1), laws_of_sets(4, 1, 1.0), selected_sets),
    "columns": (hadamard_response("h", 2, 6), laws_of_columns(6, 2.0), hadamard_columns),
}


@pytest.mark.first_case
@pytest.mark.parametrize("name", SETS)
def test_reports_of_sets_have_the_profile_of_their_enumeration(name: str) -> None:
    """The worst pair of values, in every calculus."""
    node, laws, _ = SETS[name]
    for epsilon in (0.0, 0.4, 1.2):
        worst = max(delta_of(p, q, epsilon) for p, q in itertools.permutations(laws, 2))
        low, high = two_sided(node, epsilon)
        assert low <= worst * (1 + 1e-12) + 1e-15
        assert worst <= high * (1 + 1e-12) + 1e-15
        assert high - low < 1e-9
    account, p, q = Account(node, SCOPE), laws[0], laws[1]
    rho = float(enclose(account.step("zcdp").value).mid())
    assert rho >= (p * np.log(p / q)).sum() * (1 - 1e-12)
    for order in (1.5, 2.0, 9.0):
        curve = account.step("rdp").value
        alpha = next(iter(curve.free_symbols))
        stated = float(enclose(curve.subs(alpha, F(order))).mid())
        divergence = math.log((p**order * q ** (1 - order)).sum()) / (order - 1)
        assert stated == pytest.approx(divergence, rel=1e-9)
        assert divergence <= order * rho * (1 + 1e-12)


def test_reports_are_drawn_by_the_laws_that_are_enumerated() -> None:
    """Frequencies of all outcomes within six standard errors; false alarm below 1e-6."""
    rng, trials = np.random.default_rng(3), 40_000
    sets = list(itertools.combinations(range(7), 3))
    drawn = selected_sets(2, 7, 3, 1.5, rng, trials)
    found = np.array([(drawn[:, list(s)].sum(1) == 3).mean() for s in sets])
    columns = hadamard_columns(3, 6, 2.0, rng, trials)
    seen = np.bincount(columns.astype(int), minlength=8) / trials
    near = half_sphere_points(np.array([1.0, 0, 0]), 1.0, rng, trials)[:, 0] >= 0
    likely = 1 / (1 + math.exp(-1))
    for frequency, law in (
        (found, laws_of_sets(7, 3, 1.5)[2]),
        (seen, laws_of_columns(6, 2.0)[2]),
        (np.array([near.mean()]), np.array([likely])),
    ):
        assert np.all(np.abs(frequency - law) < 6 * np.sqrt(law * (1 - law) / trials))


def test_randomised_response_is_a_report_of_sets() -> None:
    ours = SubsetResponse("r", 1, F(1, 5), 0, 1)
    for calculus in ("pure", "zcdp", "gdp"):
        values = [
            float(enclose(Account(node, SCOPE).step(calculus).value).mid())
            for node in (ours, dp.RandomizedResponse("r", 1, 5))
        ]
        assert values[0] == pytest.approx(values[1], rel=1e-12)


# --- shuffled reports ----------------------------------------------------------------------------


def shuffled_law(held: tuple[int, ...], epsilon: float) -> np.ndarray:
    """The law of the counts of shuffled randomised responses among three values."""
    n, rest = sum(held), 1 / (math.exp(epsilon) + 2)
    found = np.zeros((n + 1, n + 1))
    found[0, 0] = 1.0
    for value, count in enumerate(held):
        told = np.full(3, rest)
        told[value] = 1 - 2 * rest
        one = np.zeros_like(found)
        for a in range(count + 1):
            for b in range(count + 1 - a):
                one[a, b] = multinomial.pmf((a, b, count - a - b), count, told)
        moved = np.zeros_like(found)
        for a, b in zip(*np.nonzero(one), strict=True):
            moved[a:, b:] += one[a, b] * found[: n + 1 - a, : n + 1 - b]
        found = moved
    return found


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("level", "epsilon"), [(1, 0.0), (1, 0.2), (1, 0.6), (1, 0.95), (3, 2.5), (3, 2.978), (6, 5.9)]
)
def test_the_pair_of_clones_bounds_all_others_and_what_is_reached(
    level: int, epsilon: float
) -> None:
    """All data sets of 9 records, enumerated: where the others hold all mixtures of the values."""
    low, high = two_sided(Shuffled(dp.RandomizedResponse("r", level, 3), 9), epsilon)
    reached = 0.0
    for others in ((a, b, 8 - a - b) for a in range(9) for b in range(9 - a)):
        p = shuffled_law((others[0] + 1, *others[1:]), float(level))
        q = shuffled_law((others[0], others[1] + 1, others[2]), float(level))
        for one, other in ((p, q), (q, p)):
            found = delta_of(one, other, epsilon)
            assert found <= high * (1 + 1e-9)
            reached = max(reached, found)
    assert low <= reached * (1 + 1e-9)
    assert reached > 0.75 * high


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("level", [1, 3, 6])
def test_four_answers_are_bounded_in_all_data_sets_of_six(level: int) -> None:
    """Every mixture of the four values among the five others; 1.5 times the truth at most."""
    laws = laws_of_sets(4, 1, float(level))
    levels = [round(level * part, 3) for part in (0, 0.4, 0.8, 0.97)]
    worst = dict.fromkeys(levels, 0.0)
    for held in itertools.combinations_with_replacement(range(4), 5):
        others = [laws[value] for value in held]
        one, two = (multisets([*others, laws[v]]) for v in (0, 1))
        p, q = np.array(list(one.values())), np.array([two[c] for c in one])
        worst = {e: max(w, delta_of(p, q, e), delta_of(q, p, e)) for e, w in worst.items()}
    for epsilon, truth in worst.items():
        high = two_sided(Shuffled(dp.RandomizedResponse("r", level, 4), 6), epsilon)[1]
        assert truth <= high * (1 + 1e-9) + 1e-12
        assert high <= 1.5 * truth


def test_nine_others_that_hold_the_value_hide_little_of_the_tenth() -> None:
    """All ten say 0: the counts of a report that may be of neither part do not bound this."""
    told = 1 / (math.exp(3) + 2)
    p, q = (1 - 2 * told) ** 10, (1 - 2 * told) ** 9 * told
    poll = Shuffled(dp.RandomizedResponse("r", 3, 3), 10)
    assert float(dp.account(poll, SCOPE).delta("2.978").upper) >= p - math.exp(2.978) * q > 0.008


def multisets(laws: list[np.ndarray]) -> dict[tuple[int, ...], float]:
    """The law of how many of some reports are each outcome."""
    found = {(0,) * len(laws[0]): 1.0}
    for law in laws:
        grown: dict[tuple[int, ...], float] = {}
        for counts, mass in found.items():
            for outcome, likely in enumerate(law):
                more = tuple(n + (k == outcome) for k, n in enumerate(counts))
                grown[more] = grown.get(more, 0.0) + mass * likely
        found = grown
    return found


HALVES = np.array([[1 + (math.exp(4) - 1) * ((j - v) % 8 < 4) for j in range(8)] for v in range(8)])
CIRCLE = HALVES / HALVES.sum(1, keepdims=True)
PARTS = np.array([[1 + (math.exp(4) - 1) * ((j - v) % 6 < 2) for j in range(6)] for v in range(6)])
THIRDS = PARTS / PARTS.sum(1, keepdims=True)


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize(
    ("child", "laws"),
    [
        (subset_selection("s", 3, 4, 2), laws_of_sets(4, 2, 3.0)),
        (subset_selection("s", 5, 3, 2), laws_of_sets(3, 2, 5.0)),
        (hadamard_response("h", 3, 3), laws_of_columns(3, 3.0)),
        (cap_response("c", 4), CIRCLE),
        (cap_response("c", 4, F(1, 3)), THIRDS),
        (SubsetResponse("s", 3, F(1, 2), F(1, 6)), laws_of_sets(4, 2, 3.0)),
    ],
    ids=["two of four", "two of three", "columns", "half circles", "thirds", "less overlap"],
)
def test_shuffled_reports_of_sets_are_bounded_whatever_the_others_hold(
    child: SubsetResponse, laws: np.ndarray
) -> None:
    """Five reports, enumerated: near values and far ones, others of all mixtures of three."""
    worst = dict.fromkeys((0.5, 2.0, 2.9, 4.7), 0.0)
    for a, b in ((0, 1), (0, len(laws) // 2)):
        for held in itertools.combinations_with_replacement((0, b, len(laws) - 1), 4):
            others = [laws[value] for value in held]
            one, two = (multisets([*others, laws[v]]) for v in (a, b))
            p, q = np.array(list(one.values())), np.array([two[c] for c in one])
            worst = {e: max(w, delta_of(p, q, e), delta_of(q, p, e)) for e, w in worst.items()}
    for epsilon, truth in worst.items():
        assert truth <= two_sided(Shuffled(child, 5), epsilon)[1] * (1 + 1e-9) + 1e-12


def clones_law(epsilon: float, told: float, rate: float, others: int) -> np.ndarray:
    """P masses by both counts, by conditioning; Q is the transpose."""
    found = np.zeros((others + 2, others + 2))
    high = told / (1 + math.exp(-epsilon))
    for c in range(others + 1):
        a = np.arange(c + 1)
        mass = binom.pmf(c, others, rate) * binom.pmf(a, c, 0.5)
        np.add.at(found, (a + 1, c - a), high * mass)
        np.add.at(found, (a, c - a + 1), (told - high) * mass)
        np.add.at(found, (a, c - a), (1 - told) * mass)
    return found


PAIRS = [
    Clones(F(1), F(1), F(37, 100), F(60)),
    Clones(F(3), F(1, 4), F(1, 50), F(150)),
    Clones(F(1, 2), F(9, 10), F(9, 10), F(0)),
    Clones(F(2), F(1, 2), F(1, 3), F(1)),
]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.text)
def test_both_grids_hold_the_masses_of_the_pair(pair: Clones) -> None:
    """The accountant's and the checker's, above and below, against conditioning on the clones."""
    from dpaudit.profiles import delta_interval

    law = clones_law(*(float(v) for v in (pair.epsilon, pair.told, pair.rate)), int(pair.others))
    step = F(1, 512)
    made = cells(pair, Grid(step, 1e-25))
    above, below = upper_nodes(made), lower_nodes(made, float(step))
    for epsilon in (0.0, 0.05, 0.3, 0.45):
        x = math.exp(epsilon)
        truth = delta_of(law, law.T, epsilon)
        ends = []
        for nodes in (below, above):
            losses = (nodes.first + np.arange(len(nodes.masses))) * float(step)
            above_x = np.maximum(1 - x * np.exp(-losses), 0)
            ends.append(nodes.infinite + (nodes.masses * above_x).sum())
        assert ends[0] <= truth * (1 + 1e-9) + 1e-15
        assert truth <= ends[1] * (1 + 1e-9) + 1e-15
        assert ends[1] - ends[0] < 0.05 * truth + 1e-6
        found = delta_interval(pair, F(str(epsilon)))
        assert float(found.lower) <= truth * (1 + 1e-9) + 1e-15
        assert truth <= float(found.upper) * (1 + 1e-9) + 1e-15


BLANKETS = [
    Blanket(F(1), F(3, 4), F(1, 3), F(1, 5), F(60)),
    Blanket(F(3), F(1, 4), F(1, 20), F(3, 5), F(60)),
    Blanket(F(2), F(9, 10), F(1, 3), F(1, 100), F(40)),
    Blanket(F(2), F(1, 2), F(1, 3), F(1, 3), F(1)),
]


def blanket_law(pair: Blanket) -> tuple[np.ndarray, np.ndarray]:
    """P and Q masses by both counts and the number of the rest, by conditioning on the report."""
    high, low = (float(pair.told) / (1 + math.exp(s * pair.epsilon)) for s in (-1, 1))
    n, rate, rest = int(pair.others), float(pair.rate), float(pair.rest)
    each = np.indices((n + 2,) * 3)
    known = n - each.sum(0)
    reports = np.zeros(known.shape)
    inside = known >= 0
    four = np.stack([*(k[inside] for k in each), known[inside]], axis=1)
    reports[inside] = multinomial.pmf(four, n, (rate / 2, rate / 2, rest, 1 - rate - rest))
    first, second, other = (np.roll(reports, 1, axis) for axis in range(3))
    hidden = (1 - float(pair.told)) * other
    return high * first + low * second + hidden, low * first + high * second + hidden


@pytest.mark.first_case("few")
@pytest.mark.parametrize("few", [None, 0], ids=["one by one", "nodes of the rest"])
@pytest.mark.parametrize("pair", BLANKETS, ids=lambda pair: pair.text)
def test_both_grids_bound_a_report_beside_the_rest(
    pair: Blanket, few: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Above, with the rest taken one by one, and at few nodes; below, without the rest."""
    from dpaudit.check.profile import clones as checked
    from dpaudit.pairs import clones
    from dpaudit.profiles import delta_interval

    if few is not None:
        monkeypatch.setattr(clones, "MOST_EXACT_OUTCOMES", few)
        monkeypatch.setattr(checked, "FEW", few)
    p, q = blanket_law(pair)
    assert p.sum() == pytest.approx(1, abs=1e-12)
    step = F(1, 512)
    above = upper_nodes(cells(pair, Grid(step, 1e-25)))
    losses = (above.first + np.arange(len(above.masses))) * float(step)
    for epsilon in (0.0, 0.05, 0.3, 0.45, 0.9):
        truth = delta_of(p, q, epsilon)
        kinks = np.maximum(1 - math.exp(epsilon) * np.exp(-losses), 0)
        found = delta_interval(pair, F(str(epsilon)))
        assert float(found.lower) <= truth * (1 + 1e-9) + 1e-15
        for high in (float(found.upper), above.infinite + (above.masses * kinks).sum()):
            assert truth <= high * (1 + 1e-9) + 1e-15
            assert high <= truth * (1.06 if few == 0 else 1.01) + 1e-6


def test_lower_nodes_of_pairs_that_are_bounded_are_those_of_what_is_reached() -> None:
    """The cells hold what is further apart: no lower bound comes of them, nor in branches."""
    grid, half = Grid(F(1, 512), 1e-20), F(1, 2)
    for pair, reached in (
        (BLANKETS[0], BLANKETS[0].clones),
        (Replaced(F(1), F(1, 3)), Replaced(F(1), F(1, 3)).sampled),
    ):
        branches = [
            Branched(((half, half, Normal(F(1))), (half, half, base))) for base in (pair, reached)
        ]
        for known, other in ((pair, reached), tuple(branches)):
            below, wanted = (_nodes(each, grid, -1, 3.0) for each in (known, other))
            assert np.array_equal(below.masses, wanted.masses)
            made = lower_nodes(cells(known, grid), grid.h)
            assert not np.array_equal(below.masses, made.masses)


@pytest.mark.parametrize(
    ("noise", "loss"),
    [(dp.Laplace("r", 3), F(1, 3)), (dp.DiscreteLaplace("r", 4, sensitivity=3), F(3, 4))],
)
def test_noise_on_a_number_is_shuffled_as_any_randomiser_of_its_largest_loss(
    noise: dp.Node, loss: Fraction
) -> None:
    found, other = (
        PROFILE.fold(Shuffled(node, 50), SCOPE).value for node in (noise, dp.PureDP(loss))
    )
    assert found.remove == found.add == other.remove == other.add
    assert not other.reached


def test_the_curve_of_a_faint_report_is_that_of_two_answers() -> None:
    faint = F(1, 10**40)
    found = RENYI.fold(hadamard_response("h", faint, 8), SCOPE).value.subs(order_symbol(), 3)
    assert float(enclose(found / faint**2).mid()) == pytest.approx(3 / 2)


@pytest.mark.parametrize(("choices", "kind"), [(2, Tallied), (3, Clones), (5, Clones)])
def test_a_third_answer_tells_what_is_reached(choices: int, kind: type[Pair]) -> None:
    """With two answers no other report hides between two reports that differ: they are counted."""
    found = PROFILE.fold(Shuffled(dp.RandomizedResponse("r", 1, choices), 50), SCOPE).value
    assert [type(pair) for pair in found.reached_remove] == [kind]
    assert found.reached_add == (found.reached_remove[0].swapped,)


# --- counts of two answers -----------------------------------------------------------------------


def tallied_law(likely: Any, rare: Any, others: int) -> tuple[list[Any], list[Any]]:
    """P and Q masses of the number of ones, one report after another, in exact numbers."""

    def with_one(masses: list[Any], chance: Any) -> list[Any]:
        more, fewer = [0 * chance, *masses], [*masses, 0 * chance]
        return [m * chance + f * (1 - chance) for m, f in zip(more, fewer, strict=True)]

    hidden = [rare * 0 + 1]
    for _ in range(others):
        hidden = with_one(hidden, rare)
    return with_one(hidden, likely), with_one(hidden, rare)


def exact_delta(p: list[Any], q: list[Any], epsilon: Fraction) -> Any:
    x = mpmath.exp(mpmath.mpf(epsilon.numerator) / epsilon.denominator)
    masses = [[mpmath.mpf(m.numerator) / m.denominator for m in side] for side in (p, q)]
    return mpmath.fsum(max(a - x * b, 0) for a, b in zip(*masses, strict=True))


TALLIES = [(3, F(1, 4), 29), (3, F(1, 4), 0), (5, F(1, 20), 12), (F(11, 10), F(2, 5), 20)]


@pytest.mark.first_case
@pytest.mark.parametrize(("ratio", "rare", "others"), TALLIES)
def test_counts_have_the_profile_of_their_enumeration(
    ratio: Fraction, rare: Fraction, others: int
) -> None:
    """In fractions, both directions: one round in closed form, two on both grids."""
    from dpaudit.profiles import delta_interval

    pair = Tallied(log(F(ratio)), rare, F(others))
    laws = tallied_law(ratio * rare, rare, others)
    with mpmath.workdps(40):
        for own, (p, q) in zip((pair, pair.swapped), (laws, laws[::-1]), strict=True):
            for epsilon in (F(0), F(1, 20), F(1, 3), F(9, 10), F(3, 2)):
                truth = exact_delta(p, q, epsilon)
                found = delta_interval(own, epsilon)
                assert mpq(found.lower) <= truth * (1 + mpmath.mpf(10) ** -30)
                assert truth <= mpq(found.upper) * (1 + mpmath.mpf(10) ** -30)
                assert found.upper - found.lower <= found.upper / 10**11 + F(1, 10**300)
                known = found.lower * F(999, 1000), found.upper * F(1001, 1000) + F(1, 10**30)
                assert known[0] == 0 or closed_at_least(own, epsilon, known[0])
                assert closed_at_most(own, epsilon, known[1])
                assert known[0] == 0 or not closed_at_most(own, epsilon, known[0])
                assert not closed_at_least(own, epsilon, known[1])
            twice = [[a * b for a in side for b in side] for side in (p, q)]
            for epsilon in (F(1, 20), F(1, 3), F(9, 10)):
                truth = exact_delta(*twice, epsilon)
                found = delta_interval(product([(own, F(2))]), epsilon)
                assert mpq(found.lower) <= truth <= mpq(found.upper)
                assert mpq(found.lower) >= 0.97 * truth


@pytest.mark.parametrize(("ratio", "rare", "others"), TALLIES)
def test_the_checkers_cells_hold_the_masses_of_counts(
    ratio: Fraction, rare: Fraction, others: int
) -> None:
    pair, step = Tallied(log(F(ratio)), rare, F(others)), F(1, 1024)
    laws = [np.array(side, dtype=float) for side in tallied_law(ratio * rare, rare, others)]
    grid = Grid(step, 1e-25)
    for own, (p, q) in zip((pair, pair.swapped), (laws, laws[::-1]), strict=True):
        ends = _nodes(own, grid, -1, 3.0), upper_nodes(cells(own, grid))
        for epsilon in (0.0, 0.05, 0.3, 0.9):
            truth = delta_of(p, q, epsilon)
            below, above = (
                nodes.infinite
                + (nodes.masses * np.maximum(1 - math.exp(epsilon) * np.exp(-losses), 0)).sum()
                for nodes in ends
                for losses in [(nodes.first + np.arange(len(nodes.masses))) * grid.h]
            )
            assert 0.98 * truth - 1e-4 <= below <= truth * (1 + 1e-9) + 1e-15
            assert truth <= above * (1 + 1e-9) + 1e-15
            assert above <= truth * 1.001 + 1e-9


def mpq(value: Fraction) -> Any:
    return mpmath.mpf(value.numerator) / value.denominator


def test_cells_of_counts_that_are_moved_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The enumeration above goes red where a loss, or the law of the others, is another one."""
    from dpaudit import grids
    from dpaudit.check.profile import tallied as checked

    own = grids.binomial_masses
    monkeypatch.setattr(grids, "binomial_masses", lambda n, p, o: own(n - 1, p, o))
    law = checked._clones_law
    monkeypatch.setattr(checked, "_clones_law", lambda m, p, tail: law(m - 1, p, tail))
    for guarded in (
        test_counts_have_the_profile_of_their_enumeration,
        test_the_checkers_cells_hold_the_masses_of_counts,
    ):
        with pytest.raises(AssertionError):
            guarded(F(3), F(1, 4), 29)


@pytest.mark.first_case("level")
@pytest.mark.parametrize(
    ("population", "level", "reached"),
    [
        (1000, F(1, 2), ".05685"),
        (1000, F(1), ".12661"),
        (1000, F(2), ".32328"),
        (1000, F(4), "1.69101"),
        (200, F(1, 2), ".1378"),
        (200, F(1), ".31824"),
        (200, F(2), ".93149"),
        (200, F(4), "3.99996"),
    ],
)
def test_shuffled_answers_of_two_reach_these_epsilons(
    population: int, level: Fraction, reached: str
) -> None:
    """At delta 1e-6, found by summing all masses in floats, the swapped direction."""
    poll = Shuffled(dp.RandomizedResponse("r", level), population)
    found = dp.account(poll, SCOPE).epsilon(F(1, 10**6))
    assert float(found.lower) == pytest.approx(float(reached), abs=1e-5)
    assert found.lower <= found.upper


def two_answers(likely: float, others: int, ones: int) -> np.ndarray:
    """The law of the number of ones of others, of which some hold 1."""
    held = binom.pmf(np.arange(ones + 1), ones, likely)
    return np.convolve(held, binom.pmf(np.arange(others - ones + 1), others - ones, 1 - likely))


@pytest.mark.first_case
@pytest.mark.parametrize("level", [F(1, 2), F(2), F(4)])
@pytest.mark.parametrize("population", [3, 8, 25])
def test_two_answers_lie_between_their_ends_whatever_the_others_hold(
    level: Fraction, population: int
) -> None:
    """All data sets: the lower end is reached by some, the upper by none."""
    likely = 1 / (1 + math.exp(-level))
    for part in (0.0, 0.1, 0.5, 0.9):
        epsilon = round(part * float(level), 3)
        low, high = two_sided(Shuffled(dp.RandomizedResponse("r", level), population), epsilon)
        worst = 0.0
        for ones in range(population):
            hidden = two_answers(likely, population - 1, ones)
            more, fewer = np.append(0.0, hidden), np.append(hidden, 0.0)
            p, q = ((c * more + (1 - c) * fewer) for c in (likely, 1 - likely))
            worst = max(worst, delta_of(p, q, epsilon), delta_of(q, p, epsilon))
        assert low <= worst * (1 + 1e-9) + 1e-15
        assert worst <= high * (1 + 1e-9) + 1e-15
        assert low > 0.5 * worst


def test_others_that_hold_the_same_are_not_always_the_worst() -> None:
    """Three records, total variation: one of each value among the others is worse."""
    likely, found = 1 / (1 + math.exp(-2)), {}
    for ones in range(3):
        hidden = two_answers(likely, 2, ones)
        found[ones] = hidden.max() * (2 * likely - 1)
    low, high = two_sided(Shuffled(dp.RandomizedResponse("r", 2), 3), 0.0)
    assert low == pytest.approx(found[0], rel=1e-9)
    assert found[0] == pytest.approx(found[2], rel=1e-12)
    assert found[0] < found[1] <= high


@pytest.mark.quality
def test_more_answers_of_two_hide_better_from_below_too() -> None:
    ends = [
        dp.account(Shuffled(dp.RandomizedResponse("r", 2), n), SCOPE).epsilon(F(1, 10**6)).lower
        for n in (1, 2, 10, 50, 500, 5_000, 50_000)
    ]
    assert ends == sorted(ends, reverse=True)
    assert ends[-1] > 0


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("count", [15, pytest.param(100, marks=pytest.mark.quality)])
def test_random_questions_have_their_ends_in_order(count: int) -> None:
    rng = np.random.default_rng(11)
    for _ in range(count):
        level = F(int(rng.integers(5, 400)), 100)
        child = [
            dp.RandomizedResponse("r", level),
            dp.Laplace("r", 1 / level),
            dp.DiscreteLaplace("r", 3 / level, sensitivity=int(rng.integers(1, 9))),
            cap_response("c", level, F(int(rng.integers(1, 51)), 100)),
            subset_selection("s", level, 5, 4),
        ][int(rng.integers(5))]
        node: dp.Node = Shuffled(child, int(10 ** rng.uniform(0, 3)))
        if rng.random() < 0.2:
            node = dp.Repeat(node, int(rng.integers(2, 4)))
        found = dp.account(node, SCOPE).epsilon(F(1, 10 ** int(rng.integers(2, 12))))
        assert 0 <= found.lower <= found.upper


@pytest.mark.parametrize("sensitivity", [1, 2, 4, 7])
def test_noise_on_a_number_is_counted_above_a_line(sensitivity: int) -> None:
    """The chances of each pair are those of some line, by the noise's own masses."""
    node = dp.DiscreteLaplace("r", 2, sensitivity=sensitivity)
    found = PROFILE.fold(Shuffled(node, 50), SCOPE).value
    fall = math.exp(-0.5)
    noise = np.arange(-300, 301)
    masses = (1 - fall) / (1 + fall) * fall ** np.abs(noise)
    lines = [
        (masses[noise >= c - sensitivity].sum(), masses[noise >= c].sum())
        for c in (-(-3 * sensitivity // 4), sensitivity)
    ]
    for pair, (likely, rare) in zip(found.reached_remove, dict.fromkeys(lines), strict=True):
        assert float(enclose(pair.rare).mid()) == pytest.approx(rare, rel=1e-12)
        own = float(enclose(pair.rare * exp(pair.epsilon)).mid())
        assert own == pytest.approx(likely, rel=1e-12)
    between, at_all = PROFILE.fold(Shuffled(dp.Laplace("r", 1), 50), SCOPE).value.reached_remove
    for pair, line in ((between, 0.75), (at_all, 1.0)):
        likely, rare = (laplace.sf(line - held) for held in (1, 0))
        assert float(enclose(pair.rare).mid()) == pytest.approx(rare, rel=1e-12)
        own = float(enclose(pair.rare * exp(pair.epsilon)).mid())
        assert own == pytest.approx(likely, rel=1e-12)


@pytest.mark.quality
@pytest.mark.parametrize("population", [10**6, pytest.param(10**9, marks=pytest.mark.quality)])
def test_the_answers_of_a_country_are_counted_in_seconds(population: int) -> None:
    """Two rounds: a window of 3e5 counts of a thousand million."""
    poll = Shuffled(dp.RandomizedResponse("r", 2), population)
    for node, far in ((poll, 0.7), (dp.Repeat(poll, 2), 0.7)):
        tracemalloc.start()
        begun = process_time()
        found = dp.account(node, SCOPE).epsilon(F(1, 10**6))
        spent, (_, most) = process_time() - begun, tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert far * found.upper < found.lower < found.upper
        assert spent < 30
        assert most < 2**28


@pytest.mark.parametrize("rounds", [1, 4])
def test_the_checker_refuses_a_lower_end_of_counts_that_is_too_high(
    rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its own bounds it would confirm it."""
    from dpaudit.check.profile import conversions

    delta = F(1, 10**6)
    step = converted(dp.Repeat(Shuffled(dp.RandomizedResponse("r", 2), 500), rounds), delta)
    (row,) = step.witness["lower"]
    pair, own = step.premises[0].value.reached[int(row["pair"])], F(row["value"])
    assert conversions.confirm_lower(pair, own, delta, row)
    assert not conversions.confirm_lower(pair, own * F(1001, 1000), delta, row)
    monkeypatch.setattr(conversions, "closed_at_least", lambda *_: True)
    monkeypatch.setattr(conversions, "delta_bound", lambda *_: F(1))
    assert conversions.confirm_lower(pair, own * F(1001, 1000), delta, row)


def test_counts_that_floats_do_not_hold_are_refused_by_name() -> None:
    from dpaudit.grids.discrete import Grid as Cut
    from dpaudit.grids.discrete import Side

    grid = Cut(F(1, 100), 1e-20)
    for pair in (Tallied(F(1), F(1, 4), F(2**50)), Tallied(F(1), F(1, 10**14), F(9))):
        with pytest.raises(Unsupported, match=r"other reports|rarer"):
            pair.on_grid(grid, Side.LOWER)
        if pair.others > 9:
            with pytest.raises(NotConfirmed):
                cells(pair, Grid(F(1, 100), 1e-20))


@pytest.mark.parametrize(("epsilon", "population"), [(1, 2_000), (3, 20_000)])
def test_never_above_the_closed_form_of_the_paper(epsilon: int, population: int) -> None:
    """Feldman, McMillan, Talwar 2021, Theorem 3.1, for any randomiser."""
    found = dp.account(Shuffled(dp.PureDP(epsilon), population), SCOPE).epsilon(F(1, 10**6))
    odds, tail = math.exp(epsilon), math.log(4e6)
    first = 8 * math.sqrt(odds * tail / population) + 8 * odds / population
    paper = math.log1p((odds - 1) / (odds + 1) * first)
    assert 0 < float(found.upper) < paper / 2


@pytest.mark.quality
def test_more_reports_hide_better_and_grouped_counts_stay_near() -> None:
    """Above 2^13 counts neighbours are taken together; both ends of a pair stay within 1e-4."""
    from dpaudit.profiles import epsilon_interval

    ends = [
        dp.account(Shuffled(dp.RandomizedResponse("r", F(1, 2), 3), n), SCOPE).epsilon(F(1, 10**6))
        for n in (10, 20_000)
    ]
    assert [float(b.upper) for b in ends] == sorted((float(b.upper) for b in ends), reverse=True)
    for bound, n, near in zip(ends, (10, 20_000), (F(12, 10), F(1001, 1000)), strict=True):
        assert 0 < bound.lower < bound.upper < near * bound.lower
        found = PROFILE.fold(Shuffled(dp.RandomizedResponse("r", F(1, 2), 3), n), SCOPE).value
        sides = epsilon_interval(found.reached_remove[0], F(1, 10**6))
        assert 0 < float(sides.upper) - float(sides.lower) < 2e-4


def converted(node: dp.Node, delta: Fraction) -> Step:
    return Account(node, SCOPE).converted("profile", delta)


def confirmed(step: Step, delta: Fraction, epsilon: Fraction) -> bool:
    shown = decimal_upper(epsilon)
    rows = [dict(row, value=shown) for row in step.witness["upper"]]
    witness = {"upper": rows, "lower": step.witness["lower"]}
    return confirm_conversion(step.premises[0].value, delta, shown, witness) is not None


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize(
    "node",
    [
        Shuffled(dp.RandomizedResponse("r", 2, 3), 2_000),
        dp.Repeat(Shuffled(hadamard_response("h", 1, 8), 500), 10),
        dp.Repeat(Shuffled(dp.PureDP(1), 1_000), 3),
    ],
    ids=["responses", "ten rounds", "any randomiser"],
)
def test_the_checker_confirms_both_ends_and_refuses_a_smaller_epsilon(node: dp.Node) -> None:
    delta = F(1, 10**6)
    step = converted(node, delta)
    epsilon = F(step.witness["upper"][0]["value"])
    assert confirmed(step, delta, epsilon)
    assert not confirmed(step, delta, epsilon * F(98, 100))


@pytest.mark.quality
def test_claims_of_shuffled_polls_are_proved_and_refuted() -> None:
    poll = Shuffled(dp.RandomizedResponse("r", 2, 3), 10_000)
    claims = [dp.Claim(dp.ApproxDP(F(e), F(1, 10**6)), "this test") for e in ("0.10768", "0.10765")]
    verdicts = [str(claim.check_account(dp.account(poll, SCOPE)).outcome) for claim in claims]
    assert verdicts == ["proved", "refuted"]


# --- audits --------------------------------------------------------------------------------------

HELD = (np.array([1, 0, 99]), np.array([0, 1, 99]))
CLAIM = dp.ApproxDP(F(83, 100), F(1, 1000))


def poll(held: np.ndarray, rng: np.random.Generator, size: int) -> np.ndarray:
    return shuffled_counts(held, 2.0, rng, size)


def poll_of_few(held: np.ndarray, rng: np.random.Generator, size: int) -> np.ndarray:
    """Planted bug: the shuffler hands on the first ten reports by themselves."""
    alone = held.copy()
    alone[2] = 9
    return np.hstack([shuffled_counts(h, 2.0, rng, size) for h in (alone, held - alone)])


@pytest.mark.quality
def test_the_audit_refutes_a_shuffler_that_shuffles_few_and_no_right_one() -> None:
    """False alarm at most 1e-5 each."""
    bound = dp.account(Shuffled(dp.RandomizedResponse("r", 2, 3), 100), SCOPE)
    assert bound.epsilon(CLAIM.delta).upper <= CLAIM.epsilon
    verdicts = [
        str(dp.audit_function(run, *HELD, claim=CLAIM, **AUDIT).verdict)
        for run in (poll, poll_of_few)
    ]
    assert verdicts[0] != "refuted"
    assert verdicts[1] == "refuted"


@pytest.mark.quality
def test_the_audit_refutes_a_selection_of_a_wrong_size_and_no_right_one() -> None:
    """Planted bug: the chance of the own value is that of sets of three, the sets are of one."""

    def report(size: int, level: float) -> object:
        return lambda value, rng, trials: selected_sets(value, 7, size, level, rng, trials)

    claim = dp.PureDP(F(3, 2))
    right, wrong = report(3, 1.5), report(1, 1.5 + math.log(4.5))
    found = [dp.audit_function(run, 0, 1, claim=claim, **AUDIT).verdict for run in (right, wrong)]
    assert str(found[0]) != "refuted"
    assert str(found[1]) == "refuted"


def of_columns(value: int, rng: np.random.Generator, trials: int) -> np.ndarray:
    """Hadamard response among six values, told by whether the column is of the first one's set."""
    return hadamard_columns(value, 6, 1.5, rng, trials)[:, None]


def of_two_columns(value: int, rng: np.random.Generator, trials: int) -> np.ndarray:
    """Planted bug: the report is drawn twice, with one budget."""
    return np.hstack([of_columns(value, rng, trials) for _ in range(2)])


def of_points(side: int, rng: np.random.Generator, trials: int) -> np.ndarray:
    """PrivUnit in three dimensions."""
    return half_sphere_points(np.array([float(side), 0.0, 0.0]), 1.5, rng, trials)


def of_near_points(side: int, rng: np.random.Generator, trials: int) -> np.ndarray:
    """Planted bug: the better of two reports is sent."""
    first, other = (of_points(side, rng, trials) for _ in range(2))
    return np.where((first[:, 0] * side > other[:, 0] * side)[:, None], first, other)


@pytest.mark.quality
@pytest.mark.long_cases("columns")
@pytest.mark.parametrize(
    ("right", "wrong", "values"),
    [(of_columns, of_two_columns, (1, 2)), (of_points, of_near_points, (1, -1))],
    ids=["columns", "points"],
)
def test_the_audit_refutes_reports_that_tell_more_and_no_right_ones(
    right: Any, wrong: Any, values: tuple[int, int]
) -> None:
    """False alarm at most 1e-5 each."""
    claim = dp.PureDP(F(3, 2))
    found = [
        dp.audit_function(run, *values, claim=claim, **AUDIT).verdict for run in (right, wrong)
    ]
    assert str(found[0]) != "refuted"
    assert str(found[1]) == "refuted"


# --- bad input -----------------------------------------------------------------------------------


def test_bad_input_is_refused_by_name() -> None:
    with pytest.raises(InvalidParameter, match=r"SubsetResponse\('s'\)\.share"):
        SubsetResponse("s", 1, 1)
    with pytest.raises(InvalidParameter, match=r"overlap.*below the share"):
        SubsetResponse("s", 1, F(1, 4), F(1, 4))
    with pytest.raises(InvalidParameter, match=r"2 share - 1"):
        SubsetResponse("s", 1, F(3, 4), F(1, 4))
    with pytest.raises(InvalidParameter, match=r"free = 1\.5"):
        SubsetResponse("s", 1, F(1, 4), 0, F(3, 2))
    with pytest.raises(InvalidParameter, match="size = 4: expected below"):
        subset_selection("s", 1, 4, 4)
    with pytest.raises(InvalidParameter, match="choices = 1"):
        hadamard_response("s", 1, 1)
    with pytest.raises(InvalidParameter, match="at most a half"):
        cap_response("s", 1, F(2, 3))
    with pytest.raises(InvalidParameter, match="population"):
        Shuffled(dp.PureDP(1), 0)
    with pytest.raises(InvalidParameter, match=r"population = 2\.5"):
        Shuffled(dp.PureDP(1), F(5, 2))
    with pytest.raises(InvalidParameter, match="held"):
        shuffled_counts([3], 1.0, np.random.default_rng(1), 2)
    with pytest.raises(Unsupported, match="no rule for Shuffled under add_remove"):
        dp.account(Shuffled(dp.PureDP(1), 9), dp.central("add_remove")).step("pure")


def test_a_child_of_no_known_largest_loss_is_not_amplified() -> None:
    noise = dp.Gaussian("g", 1)
    for child in (noise, dp.Compose(noise, dp.Laplace("l", 1))):
        account = dp.account(Shuffled(child, 99), SCOPE)
        own = dp.account(child, SCOPE).epsilon(F(1, 10**5))
        assert account.epsilon(F(1, 10**5)).upper == own.upper
        # Of Gaussian noise alone what is reached is known: one of equal values moved.
        assert (account.epsilon(F(1, 10**5)).lower > 0) == (child is noise)


@pytest.mark.parametrize(
    "report",
    [
        dp.RandomizedResponse("p", 700, 3),
        dp.RandomizedResponse("p", 700, 2),
        dp.PureDP(700),
        dp.Laplace("l", F(1, 700)),
        dp.DiscreteLaplace("d", F(1, 700)),
        SubsetResponse("s", 700, F(1, 4), F(1, 20), F(1, 2)),
    ],
)
def test_reports_of_a_loss_beyond_floats_keep_their_own_epsilon(report: Any) -> None:
    """As at 50, where the counts of shuffled reports are not known either."""
    opened = dp.account(Shuffled(report, 10_000), SCOPE)
    assert dp.account(report, SCOPE).step("pure").value == 700
    assert 700 - F(1, 1000) < opened.epsilon("1e-6").upper <= 700
    with pytest.raises(Unsupported, match="reports at epsilon = 700: at most 30 is known here"):
        opened.converted("profile", "1e-6")
    found = opened.delta("0.5")
    assert 1 - F(1, 1000) < found.upper <= 1


def shuffled_halves() -> Iterator[float]:
    """Delta at 1/10 of three shuffled reports, over all sets of two of four outcomes.

    The pair's sets are complements, and the other two records hold any value.
    """
    likely = np.exp(1.0)
    sets = list(itertools.combinations(range(4), 2))
    laws = {held: np.array([likely if y in held else 1.0 for y in range(4)]) for held in sets}
    laws = {held: law / law.sum() for held, law in laws.items()}
    first, second = (0, 1), (2, 3)
    for others in itertools.product(sets, repeat=2):
        found: dict[tuple[int, ...], np.ndarray] = {}
        for answers in itertools.product(range(4), repeat=3):
            both = np.array([laws[held][answers[0]] for held in (first, second)])
            rest = laws[others[0]][answers[1]] * laws[others[1]][answers[2]]
            key = tuple(sorted(answers))
            found[key] = found.get(key, np.zeros(2)) + both * rest
        yield sum(max(p - np.exp(0.1) * q, 0.0) for p, q in found.values())


def test_no_third_set_is_free_of_two_that_are_all_there_is() -> None:
    """0.2555 was said to be reached, where free = 1 beside two complements."""
    report = SubsetResponse("half", 1, "0.5", 0, free="0.5")
    bound = dp.account(dp.Shuffled(report, 3), SCOPE).delta("0.1")
    truth = max(shuffled_halves())
    assert float(bound.lower) <= truth <= float(bound.upper)
    assert truth < 0.25
    with pytest.raises(InvalidParameter, match="third value's set"):
        SubsetResponse("half", 1, "0.5", 0, free=1)
    assert SubsetResponse("quarter", 1, "0.25", 0, free=1).free == Fraction(1)
