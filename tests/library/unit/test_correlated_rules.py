"""Correlated Gaussian noise: the largest move, exhaustively; what is refused; both readings."""

from __future__ import annotations

import itertools
import json
import math
import time
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy

from dpaudit.accountant.account import Account
from dpaudit.check.theorem import attained, bound, rule_name
from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.exact import enclose
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Compose, Repeat
from dpaudit.families.correlated import (
    BandedToeplitz,
    CorrelatedGaussian,
    Factorisation,
    LowerTriangular,
    Participation,
)
from dpaudit.families.correlated.moves import largest_move, most_in_blocks, spread
from dpaudit.families.correlated.strategies import prefix_matrix
from dpaudit.measures.calculus import CALCULI
from dpaudit.measures.renyi import order
from dpaudit.nodes import Node
from dpaudit.nodes.tables import from_table, to_table
from dpaudit.pairs import Losses, Normal
from dpaudit.scope import Adjacency, Scope

SCOPE = Scope("zero_out", "record", "central", "transcript")  # type: ignore[arg-type]
T, k = sympy.symbols("T k", positive=True, integer=True)
z, x = sympy.symbols("z x", positive=True)
NAMES = [f.value for f in Factorisation]
HALF = Fraction(1, 2)


def noise(rounds: Any, strategy: Any = "tree", *who: int, multiplier: Any = 1) -> Any:
    return CorrelatedGaussian("sum", multiplier, rounds, strategy, Participation(*who))


def values(node: Node, calculus: str) -> Any:
    return Account(node, SCOPE).step(calculus).value


# --- every pattern, from the matrix itself -------------------------------------------------------


def matrix(strategy: Any, rounds: int) -> list[list[Fraction]]:
    """C written out, one list a row."""
    entries: dict[str, Any] = {
        "identity": lambda i, t: i == t,
        "independent_prefix": lambda i, t: t <= i,
        "tree": lambda i, t: i + 1 - ((i + 1) & -(i + 1)) < t + 1 <= i + 1,
        "sqrt_toeplitz": lambda i, t: (
            Fraction(math.comb(2 * (i - t), i - t), 4 ** (i - t)) if t <= i else 0
        ),
    }
    if isinstance(strategy, LowerTriangular):
        return [[*row, *[Fraction(0)] * (rounds - len(row))] for row in strategy.entries]
    if isinstance(strategy, BandedToeplitz):
        c = strategy.entries
        return [[c[i - t] if 0 <= i - t < len(c) else Fraction(0) for t in range(rounds)]
                for i in range(rounds)]  # fmt: skip
    return [[Fraction(entries[strategy](i, t)) for t in range(rounds)] for i in range(rounds)]


def exhaustive(rows: Any, times: int, apart: int) -> tuple[Fraction, Fraction]:
    """The largest sum of |G_st| over all patterns, and over those without a negative G_st."""
    rounds = range(len(rows))
    gram = {(s, t): sum(r[s] * r[t] for r in rows) for s in rounds for t in rounds}
    upper = reached = Fraction(0)
    for size in range(1, times + 1):
        for chosen in itertools.combinations(rounds, size):
            if all(b - a >= apart for a, b in itertools.pairwise(chosen)):
                entries = [gram[s, t] for s in chosen for t in chosen]
                upper = max(upper, sum(map(abs, entries)))
                reached = max(reached, sum(entries) if min(entries) >= 0 else Fraction(0))
    return upper, reached


def explicit(rounds: int) -> LowerTriangular:
    draw = np.random.default_rng(rounds)
    rows = [[int(draw.integers(-3, 4)) for _ in range(t)] + [1] for t in range(rounds)]
    return LowerTriangular(rows)  # type: ignore[arg-type]


STRATEGIES: dict[str, Any] = {
    "identity": "identity",
    "independent_prefix": "independent_prefix",
    "tree": "tree",
    "sqrt_toeplitz": "sqrt_toeplitz",
    "falling": BandedToeplitz("1 1/2 1/3"),
    "signed": BandedToeplitz("1 -1/2 1/3"),
    "rising": BandedToeplitz("1 2"),
}


@pytest.mark.first_case("name", "rounds")
@pytest.mark.parametrize("who", [(1, 1), (2, 1), (2, 3), (3, 2), (4, 1)])
@pytest.mark.parametrize("rounds", [1, 2, 3, 5, 8, 9, 10])
@pytest.mark.parametrize("name", [*STRATEGIES, "explicit"])
def test_the_largest_move_is_that_of_all_patterns(
    name: str, rounds: int, who: tuple[int, int]
) -> None:
    strategy = STRATEGIES.get(name) or explicit(rounds)
    upper, reached = exhaustive(matrix(strategy, rounds), *who)
    named = Factorisation(strategy) if isinstance(strategy, str) else strategy
    move = largest_move(named, Fraction(rounds), Participation(*who))
    assert (move.upper, move.reached) == (upper, reached)
    bands = len(strategy.entries) if isinstance(strategy, BandedToeplitz) else 1
    if bands > rounds or who[0] > -(-rounds // who[1]):
        with pytest.raises(InvalidParameter, match=f"rounds = {rounds}"):
            noise(rounds, strategy, *who)
    else:
        node = noise(rounds, strategy, *who)
        assert Account(node, SCOPE).step("gdp").attained == (upper == reached)


LARGE: list[Any] = [
    (150, "tree", 6, 9),
    (1000, "tree", 20, 50),
    (100, BandedToeplitz("1 -1/2 1/3"), 100, 1),
    (60, explicit(60), 8, 3),
    (2000, "sqrt_toeplitz", 20, 50),
    (5000, "sqrt_toeplitz", 1, 1),
    (1024, BandedToeplitz("1 -1/2 1/3"), 300, 3),
    (40, "smooth_binary", 1, 1),
    (40, "tree_honaker", 1, 1),
]


@pytest.mark.first_case
@pytest.mark.parametrize(("rounds", "strategy", "times", "apart"), LARGE)
def test_beyond_exhaustion_the_bound_is_two_sided(
    rounds: int, strategy: Any, times: int, apart: int
) -> None:
    """The bound is above random patterns and the regular one, and the stated one is below it."""
    node = noise(rounds, strategy, times, apart)
    move = largest_move(node.strategy, node.rounds, node.participation)
    assert move.reached is None or move.reached <= move.upper
    if rounds > 200 or strategy in ("smooth_binary", "tree_honaker"):
        return
    rows = matrix(strategy, rounds)
    draw = np.random.default_rng(7)
    for _ in range(30):
        chosen = sorted(draw.choice(rounds, min(times, rounds), replace=False).tolist())
        kept = [t for i, t in enumerate(chosen) if i == 0 or t - chosen[i - 1] >= apart]
        signs = draw.choice([-1, 1], len(kept)).tolist()
        moved = (sum(s * r[t] for s, t in zip(signs, kept, strict=True)) for r in rows)
        assert sum(m**2 for m in moved) <= move.upper


@pytest.mark.parametrize(("rounds", "strategy", "times", "apart"), LARGE)
@pytest.mark.parametrize("calculus", ["gdp", "zcdp", "profile", "rdp"])
def test_the_checker_restates_every_rule(
    calculus: str, rounds: int, strategy: Any, times: int, apart: int
) -> None:
    for node in (
        noise(rounds, strategy, times, apart, multiplier=3),
        noise(7, explicit(7), 2, 2, multiplier=x),
    ):
        step = CALCULI[calculus].fold(node, SCOPE)
        assert rule_name(calculus, node, "zero_out") == step.rule
        restated = bound(calculus, node, [])
        assert (restated(order()) if calculus == "rdp" else restated) == step.value
        assert attained(calculus, node, []) == step.attained


@pytest.mark.parametrize("strategy", [*NAMES, BandedToeplitz("1 1/2")])
def test_symbolic_rounds_bound_every_number_of_rounds(strategy: Any) -> None:
    if strategy == "smooth_binary":
        with pytest.raises(Unsupported, match="bind the rounds"):
            values(noise(T, strategy), "gdp")
        return
    step = Account(noise(T, strategy, multiplier=z), SCOPE).step("gdp")
    assert bound("gdp", step.node, []) == step.value
    # Two bands take two rounds.
    for rounds in (1, 2, 3, 4, 7, 8, 9, 100, 1000)[isinstance(strategy, BandedToeplitz) :]:
        at = enclose(step.value.subs({T: rounds, z: 1}))
        own = enclose(values(noise(rounds, strategy), "gdp"))
        assert at >= own or at.overlaps(own)
        assert at.overlaps(own) or not step.attained


def test_several_rounds_in_symbols() -> None:
    assert values(noise(T, "identity", 3, 2), "gdp") == sympy.sqrt(
        sympy.Min(3, sympy.ceiling(T / 2))
    )
    prefix = values(noise(T, "independent_prefix", 3, 2), "zcdp")
    for rounds in range(1, 12):
        for who in ((3, 2),):
            expected = exhaustive(matrix("independent_prefix", rounds), *who)[0] / 2
            assert prefix.subs(T, rounds) == sympy.Rational(*expected.as_integer_ratio())
    for strategy in ("tree", "sqrt_toeplitz", BandedToeplitz("1 1/2")):
        with pytest.raises(Unsupported, match="bind the rounds to a number"):
            values(noise(T, strategy, 2, 5), "gdp")


def test_strategies_without_a_proof_for_several_rounds_are_refused() -> None:
    for strategy in ("smooth_binary", "tree_honaker"):
        with pytest.raises(Unsupported, match="no bound is proved"):
            values(noise(64, strategy, 2, 5), "gdp")
        assert values(noise(64, strategy, 1, 64), "gdp") > 0
    many = LowerTriangular([[1] * (t + 1) for t in range(300)])  # type: ignore[arg-type]
    with pytest.raises(Unsupported, match="too many patterns"):
        values(noise(300, many, 20, 2), "gdp")
    with pytest.raises(Unsupported, match="too many"):
        values(noise(10**8, "sqrt_toeplitz", 2, 2), "gdp")
    with pytest.raises(Unsupported, match="expected at most 512"):
        values(noise(10**8, "tree", 600, 2), "gdp")


@pytest.mark.first_case("strategy")
@pytest.mark.parametrize("strategy", [*NAMES, BandedToeplitz("1 1/2"), BandedToeplitz("1 2")])
@pytest.mark.parametrize("who", [(1, 1), (10**9, 1), (10**9, 10**6), (3, 10**20)])
@pytest.mark.parametrize("rounds", [10**5, 10**7, 10**30, T])
def test_absurd_sizes_are_bounded_or_refused_at_once(strategy: Any, who: Any, rounds: Any) -> None:
    start = time.perf_counter()
    if rounds != T and who[0] > (fit := -(-rounds // who[1])):
        with pytest.raises(InvalidParameter, match=f"hold at most {fit} of them"):
            noise(rounds, strategy, *who)
        who = (fit, who[1])
    node = noise(rounds, strategy, *who)
    try:
        assert values(node, "zcdp") > 0
        assert bound("zcdp", node, []) == values(node, "zcdp")
    except Unsupported as error:
        assert "\n" not in str(error)  # noqa: PT017
    assert time.perf_counter() - start < 5


# --- calculi -------------------------------------------------------------------------------------


def test_every_calculus_or_its_reason() -> None:
    node = noise(8, multiplier=3)
    assert values(node, "gdp") == sympy.Rational(2, 3)
    assert values(node, "zcdp") == Fraction(4, 18)
    assert values(node, "rdp") == order() * Fraction(4, 18)
    pair = (Normal(Fraction(2, 3)),)
    assert values(node, "profile") == Losses(pair, pair, pair, pair)
    honaker = values(noise(2, "tree_honaker", multiplier=3), "profile")
    two, below = (Normal(sympy.sqrt(n) / 3) for n in (2, sympy.Rational(9, 5)))
    assert honaker == Losses((two,), (two,), (below,), (below,))
    for calculus in ("pure", "approx"):
        with pytest.raises(Unsupported, match="use one of: "):
            values(node, calculus)
        assert isinstance(CALCULI[calculus].covers(CorrelatedGaussian), str)


@pytest.mark.parametrize("rounds", [1, 2, 3, 5, 6, 16, 19, 20, 31, 64])
@pytest.mark.parametrize("strategy", ["tree_honaker", "smooth_binary"])
def test_what_prefixes_of_trees_tell_is_reached(strategy: str, rounds: int) -> None:
    """mu^2 = max_t e_t^T A^T (B B^T)^-1 A e_t of the released prefixes, by linear algebra."""
    noises = prefix_matrix(Factorisation(strategy), rounds)
    sums = np.tril(np.ones((rounds, rounds)))
    truth = np.diag(sums.T @ np.linalg.solve(noises @ noises.T, sums)).max()
    losses = values(noise(rounds, strategy), "profile")
    upper, reached = (float(pairs[0].mu) ** 2 for pairs in (losses.remove, losses.reached_remove))
    assert 0.7 * truth < reached <= truth * (1 + 1e-9)
    assert truth <= upper * (1 + 1e-9)
    if strategy == "smooth_binary":
        assert upper == pytest.approx(truth, rel=1e-9)


@pytest.mark.parametrize("who", [(2, 3), (3, 1), (3, 5), (4, 2)])
def test_trees_of_several_rounds_are_between_what_search_finds(who: tuple[int, int]) -> None:
    """The bounds that serve where patterns are too many, held against all of them."""
    for rounds in (7, 12, 16, 21):
        truth, _ = exhaustive(matrix("tree", rounds), *who)
        times = min(who[0], -(-rounds // who[1]))
        patterns = spread(rounds, times, who[1])
        found = max(exhaustive_of(matrix("tree", rounds), pattern) for pattern in patterns)
        assert found <= truth <= most_in_blocks(rounds, times, who[1])


def exhaustive_of(rows: Any, pattern: Any) -> Fraction:
    """||C u||^2 of one pattern."""
    return sum((sum(row[t] for t in pattern) ** 2 for row in rows), Fraction(0))


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_noise_is_normalised_so_every_adjacency_has_the_rule(adjacency: Adjacency) -> None:
    node, scope = noise(T, multiplier=z), SCOPE.under(adjacency)
    levels = sympy.floor(sympy.log(T) / sympy.log(2)) + 1
    assert Account(node, scope).step("gdp").value == sympy.sqrt(levels) / z


def test_it_composes_with_other_noise() -> None:
    node = Compose(Repeat(noise(4, multiplier=2), 3), Gaussian("a", 1))
    assert values(node, "zcdp") == 3 * Fraction(3, 8) + HALF
    epochs = Repeat(noise(k, "independent_prefix", multiplier=z), 10, k)
    assert values(epochs, "zcdp") == 55 / (2 * z**2)
    many = Repeat(noise(k, "tree", multiplier=z), T, k)
    assert values(many, "zcdp").has(sympy.Sum)


# --- declarations --------------------------------------------------------------------------------


def test_the_rows_of_a_matrix_are_exact_and_written_once() -> None:
    same: list[Any] = ["1; 0.5 1", "1/1;1/2 1", [[1], [0.5, 1]], ((1,), (HALF, 1))]
    found = {LowerTriangular(rows) for rows in same}
    assert found == {LowerTriangular("1; 1/2 1")}
    assert found.pop().entries == ((Fraction(1),), (HALF, Fraction(1)))
    assert BandedToeplitz([1, 0.5]) == BandedToeplitz("1 1/2")  # type: ignore[arg-type]
    assert len({noise(2, LowerTriangular(rows)).digest for rows in same}) == 1


@pytest.mark.parametrize(
    "node",
    [
        noise(T, multiplier=z),
        noise(3, LowerTriangular("1; 1/3 1; 0 -2 1"), 2, 1),
        noise(9, BandedToeplitz("1 1/2"), 3, 2),
        noise(9, Factorisation.SQRT_TOEPLITZ, 3, 2),
    ],
)
def test_declarations_are_written_and_read_back(node: CorrelatedGaussian) -> None:
    table = json.loads(json.dumps(to_table(node)))
    assert from_table(table) == node
    bound_node = node.bind({T: 5, z: 2} if node.rounds == T else {})
    assert bound_node.parameters["rounds"] in (3, 5, 9)
    assert "\n" not in repr(node)


@pytest.mark.parametrize("who", [(3, 4), (2, 10), (5, 1)])
def test_more_participations_than_the_rounds_hold_are_refused(who: tuple[int, int]) -> None:
    """The most of them are counted over all patterns."""
    fit = max(
        size
        for size in range(1, 5)
        for chosen in itertools.combinations(range(4), size)
        if all(b - a >= who[1] for a, b in itertools.pairwise(chosen))
    )
    with pytest.raises(InvalidParameter, match=rf"rounds = 4 hold at most {fit} of them; declare"):
        noise(4, "tree", *who)
    assert noise(4, "tree", fit, who[1]).participation.at_most == fit
    later = noise(T, "identity", *who)
    with pytest.raises(InvalidParameter, match="participation"):
        later.bind({T: 4})
    assert later.bind({T: 31}).rounds == 31


def test_bands_longer_than_the_run_are_refused() -> None:
    with pytest.raises(InvalidParameter, match=r"8 bands, longer than .*rounds = 4: expected at m"):
        noise(4, BandedToeplitz([1] * 8))  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="8 bands, longer than"):
        noise(T, BandedToeplitz([1] * 8)).bind({T: 7})  # type: ignore[arg-type]
    assert noise(8, BandedToeplitz([1] * 8)).rounds == 8  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (
            "1; 1 0",
            r"rows\[1\] = '1 0': expected the last entry of row 2, on the diagonal, not zero",
        ),
        ("1; 1 2 3", r"rows\[1\] = '1 2 3': 3 entries in row 2 of a lower triangle: expected 2"),
    ],
)
def test_a_row_that_is_refused_is_named(rows: str, said: str) -> None:
    with pytest.raises(InvalidParameter, match=said):
        LowerTriangular(rows)


def test_too_many_participations_to_add_up_name_a_way_out() -> None:
    with pytest.raises(Unsupported, match="fewer rounds, or a BandedToeplitz of at most 512 bands"):
        values(noise(10**6, "sqrt_toeplitz", 10, 10**5), "gdp")
    found = values(noise(10**6, BandedToeplitz("1 1/2"), 10, 10**5), "gdp")
    assert float(found) == pytest.approx(math.sqrt(10 * 1.25), rel=1e-12)


@pytest.mark.parametrize(
    "make",
    [
        lambda: noise(0),
        lambda: noise(-1),
        lambda: noise(2.5),
        lambda: noise(math.nan),
        lambda: noise(math.inf),
        lambda: noise(sympy.Symbol("T", positive=True)),
        lambda: noise(3, multiplier=0),
        lambda: noise(3, multiplier=math.nan),
        lambda: noise(3, "no such tree"),
        lambda: noise(3, 7),
        lambda: noise(3, [[1]]),
        lambda: noise(3, LowerTriangular("1; 1 1")),
        lambda: noise(T, LowerTriangular("1; 1 1")),
        lambda: noise(3, "tree", 0),
        lambda: noise(3, "tree", 1, 0),
        lambda: noise(3, "tree", -2, 1),
        lambda: CorrelatedGaussian("", 1, 3),
        lambda: CorrelatedGaussian("a", 1, 3, "tree", 2),  # type: ignore[arg-type]
        lambda: Participation(1.5),
        lambda: Participation(math.inf),
        lambda: Participation(T),
        lambda: LowerTriangular(""),
        lambda: LowerTriangular("1; 1"),
        lambda: LowerTriangular("1; 1 0"),
        lambda: LowerTriangular("1; x 1"),
        lambda: LowerTriangular("1; 1/0 1"),
        lambda: LowerTriangular("nan"),
        lambda: LowerTriangular([[1], [math.inf, 1]]),  # type: ignore[arg-type]
        lambda: LowerTriangular([[z]]),  # type: ignore[arg-type]
        lambda: LowerTriangular(5),  # type: ignore[arg-type]
        lambda: LowerTriangular([1, 2]),  # type: ignore[arg-type]
        lambda: LowerTriangular(["1", "1 1"]),  # type: ignore[arg-type]
        lambda: LowerTriangular(";".join(["1"] * 600)),
        lambda: LowerTriangular("9" * 5_000_000),
        lambda: LowerTriangular("9" * 2_000),
        lambda: BandedToeplitz(""),
        lambda: BandedToeplitz("0 1"),
        lambda: BandedToeplitz("1; 1 1"),
        lambda: BandedToeplitz("1 " * 600),
        lambda: BandedToeplitz([True]),  # type: ignore[arg-type]
    ],
)
def test_bad_declarations_are_refused(make: Any) -> None:
    with pytest.raises(InvalidParameter) as refused:
        make()
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 500
