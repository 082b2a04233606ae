"""Correlated noise against closed forms, linear algebra and another library."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy
from numpy.typing import NDArray

from dpaudit.accountant.account import Account
from dpaudit.exact import enclose
from dpaudit.families.correlated import CorrelatedGaussian, LowerTriangular
from dpaudit.scope import Scope

ZERO_OUT = Scope("zero_out", "record", "central", "transcript")  # type: ignore[arg-type]
Matrix = NDArray[np.float64]


def mu(rounds: Any, strategy: Any = "tree", multiplier: Any = 1) -> float:
    node = CorrelatedGaussian("sum", multiplier, rounds, strategy)
    return float(enclose(Account(node, ZERO_OUT).step("gdp").value).mid())


def epsilon(node: CorrelatedGaussian, delta: str) -> float:
    return float(Account(node, ZERO_OUT).epsilon(sympy.Rational(delta)).upper)


def test_the_tree_in_the_symbols_of_accelerated_dp_srgd() -> None:
    """mu = C_clip sqrt(floor(log2 T) + 1) / (B beta sigma), and twice that under replace_one."""
    clip, batch, beta, sigma = sympy.symbols("C_clip B beta sigma", positive=True)
    rounds = sympy.Symbol("T", positive=True, integer=True)
    levels = sympy.floor(sympy.log(rounds, 2)) + 1
    for adjacency, moves in (("zero_out", 1), ("replace_one", 2)):
        node = CorrelatedGaussian("prefix", sigma * batch * beta / (moves * clip), rounds)
        step = Account(node, ZERO_OUT.under(adjacency)).step("gdp")
        assert step.value == moves * clip * sympy.sqrt(levels) / (batch * beta * sigma)
        assert step.attained


# (T, C_clip, B, beta, sigma) -> mu, epsilon at 1e-5 and at 1e-6, and at 1e-6 under replace_one.
VECTORS = [
    ((1, 1, 1, 1, "1"), "1", "4.3772", "4.8866", "10.9972"),
    ((10, 1, 1, 1, "2"), "1", "4.3772", "4.8866", "10.9972"),
    ((100, 4, 50, 8, ".1"), ".264575", ".9858", "1.1276", "2.3990"),
    ((1024, 12, 1024, 2048, "1e-4"), ".189779", ".6851", ".7884", "1.6675"),
]


@pytest.mark.parametrize(("setting", "total", "loose", "tight", "replaced"), VECTORS)
def test_published_vectors(setting: Any, total: str, loose: str, tight: str, replaced: str) -> None:
    rounds, clip, batch, beta, sigma = setting
    multiplier = sympy.Rational(sigma) * batch * beta / clip
    node = CorrelatedGaussian("prefix", multiplier, rounds)
    assert mu(rounds, "tree", multiplier) == pytest.approx(float(total), abs=6e-7)
    assert epsilon(node, "1e-5") == pytest.approx(float(loose), abs=6e-5)
    assert epsilon(node, "1e-6") == pytest.approx(float(tight), abs=6e-5)
    twice = CorrelatedGaussian("prefix", multiplier / 2, rounds)
    assert epsilon(twice, "1e-6") == pytest.approx(float(replaced), abs=6e-5)


@pytest.mark.parametrize(("rounds", "multiplier", "renyi", "exact"), [
    (100, 10, 1.2149, 1.1276), (1000, 4, 4.0104, 3.7472), (16, 2, 5.9268, 5.5509),
])  # fmt: skip
def test_another_library_s_tree_is_an_upper_bound(
    rounds: int, multiplier: int, renyi: float, exact: float
) -> None:
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant

    special = dp_accounting.NeighboringRelation.REPLACE_SPECIAL
    accountant = RdpAccountant(neighboring_relation=special)
    accountant.compose(dp_accounting.SingleEpochTreeAggregationDpEvent(multiplier, rounds))
    theirs = accountant.get_epsilon(1e-6)
    ours = epsilon(CorrelatedGaussian("sum", multiplier, rounds), "1e-6")
    assert ours == pytest.approx(exact, abs=6e-5)
    assert theirs == pytest.approx(renyi, abs=6e-5)
    assert ours <= theirs


# --- strategies, by linear algebra ---------------------------------------------------------------


def prefix(rounds: int) -> Matrix:
    return np.tril(np.ones((rounds, rounds)))


def root(rounds: int) -> Matrix:
    """A^(1/2), from its defining equation."""
    square: Matrix = np.zeros((rounds, rounds))
    column = np.ones(rounds)
    for lag in range(1, rounds):
        column[lag] = (1 - column[1:lag] @ column[lag - 1 : 0 : -1]) / 2
    for t in range(rounds):
        square[t:, t] = column[: rounds - t]
    return square


def blocks(rounds: int, both_children: bool) -> Matrix:
    """Dyadic blocks that end by ``rounds``, in the order in which they end."""
    found = []
    for end in range(1, rounds + 1):
        length = 1
        while end % length == 0:
            last = end % (2 * length) != 0
            if both_children or last:
                found.append([float(end - length < t <= end) for t in range(1, rounds + 1)])
            length *= 2
    return np.array(found)


def optimal(rounds: int, iterations: int = 300) -> Matrix:
    """Lower-triangular factor of the least mean square error with unit columns."""
    gram = prefix(rounds).T @ prefix(rounds)
    v = np.ones(rounds)
    for _ in range(iterations):
        values, vectors = np.linalg.eigh(np.sqrt(v)[:, None] * gram * np.sqrt(v))
        middle = (vectors * np.sqrt(values)) @ vectors.T
        v = np.diag(middle).copy()
    square = middle / np.sqrt(v)[:, None] / np.sqrt(v)
    flipped = np.linalg.cholesky(square[::-1, ::-1])
    strategy: Matrix = flipped[::-1, ::-1].T
    return strategy


def largest_error(strategy: Matrix) -> float:
    """max ||C column|| times max ||B row||, B = A C^+."""
    rounds = strategy.shape[1]
    reader = np.linalg.lstsq(strategy.T, prefix(rounds).T, rcond=None)[0].T
    return float(np.linalg.norm(strategy, axis=0).max() * np.linalg.norm(reader, axis=1).max())


ERRORS = {
    "identity": (4.000, 5.657, 10.00),
    "independent_prefix": (4.000, 5.657, 10.00),
    "tree": (4.472, 5.477, 6.481),
    "sqrt_toeplitz": (1.944, 2.167, 2.531),
}
MATRICES: dict[str, Any] = {
    "identity": np.eye,
    "independent_prefix": prefix,
    "tree": lambda rounds: blocks(rounds, both_children=False),
    "sqrt_toeplitz": root,
}


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("at", range(3))
def test_columns_and_published_errors(name: str, at: int) -> None:
    """mu is the largest column norm; times the largest row of B it is the published error."""
    rounds = (16, 32, 100)[at]
    strategy = MATRICES[name](rounds)
    columns = np.linalg.norm(strategy, axis=0)
    assert mu(rounds, name) == pytest.approx(columns.max(), rel=1e-12)
    assert largest_error(strategy) == pytest.approx(ERRORS[name][at], rel=3e-4)


@pytest.mark.parametrize(("rounds", "ratio"), [(16, 0.938), (32, 0.929), (100, 0.933)])
def test_prefix_sums_of_all_dyadic_blocks_reveal_less_than_the_blocks(
    rounds: int, ratio: float
) -> None:
    """B B^T = K K^T: the square strategy K^-1 A has the noise that comes out."""
    strategy = blocks(rounds, both_children=True)
    kept = [int(np.flatnonzero(row)[-1]) + 1 for row in strategy]
    reader = np.zeros((rounds, len(strategy)))
    for t in range(1, rounds + 1):
        known = [i for i, end in enumerate(kept) if end <= t]
        solution = np.linalg.lstsq(strategy[known, :t].T, np.ones(t), rcond=None)[0]
        reader[t - 1, known] = solution
    causal = np.linalg.solve(np.linalg.cholesky(reader @ reader.T), prefix(rounds))
    true = float(np.linalg.norm(causal, axis=0).max())
    upper = mu(rounds, "tree_honaker")
    assert upper == pytest.approx(np.linalg.norm(strategy, axis=0).max(), rel=1e-12)
    assert true / upper == pytest.approx(ratio, abs=6e-4)


@pytest.mark.parametrize(
    ("rounds", "half_height", "most"), [(16, 3, 3), (64, 4, 4), (100, 5, 4), (1000, 7, 7)]
)
def test_the_smooth_binary_mechanism(rounds: int, half_height: int, most: int) -> None:
    """Half the height bounds it; of the first 100 of 252 leaves none is below so many nodes."""
    assert mu(rounds, "smooth_binary") ** 2 == pytest.approx(most, rel=1e-12)
    assert most <= half_height


@pytest.mark.parametrize(("rounds", "error"), [(16, 1.857), (32, 2.079)])
def test_an_optimised_matrix_is_declared_by_its_rounded_entries(rounds: int, error: float) -> None:
    strategy = optimal(rounds)
    rows = [[round(float(entry), 9) for entry in row[: t + 1]] for t, row in enumerate(strategy)]
    declared = LowerTriangular(rows)  # type: ignore[arg-type]
    assert largest_error(strategy) == pytest.approx(error, rel=4e-4)
    exact = max(sum(float(row[t]) ** 2 for row in declared.entries[t:]) for t in range(rounds))
    assert mu(rounds, declared) == pytest.approx(exact**0.5, rel=1e-12)


def test_the_square_root_in_many_rounds() -> None:
    """The published error at T = 1000, where B = C; and the logarithm that bounds it."""
    assert mu(1000, "sqrt_toeplitz") ** 2 == pytest.approx(3.265, abs=6e-4)
    rounds = sympy.Symbol("T", positive=True, integer=True)
    node = CorrelatedGaussian("sum", 1, rounds, "sqrt_toeplitz")
    square = Account(node, ZERO_OUT).step("gdp").value ** 2
    for number in (1, 2, 3, 10, 600, 100_000):
        assert 0 <= float(square.subs(rounds, number)) - mu(number, "sqrt_toeplitz") ** 2 < 0.03


def test_the_first_column_of_a_tree_is_the_only_largest() -> None:
    """Norms by round, and the next largest is one level less: T = 8, 7 and 10."""
    for rounds, norms in ((8, "43323221"), (7, "3221211"), (10, "4332322121")):
        columns = (blocks(rounds, both_children=False) ** 2).sum(axis=0)
        assert "".join(str(int(c)) for c in columns) == norms
    for rounds in range(2, 130):
        columns = np.sort((blocks(rounds, both_children=False) ** 2).sum(axis=0))[::-1]
        assert mu(rounds) ** 2 == pytest.approx(columns[0], rel=1e-12)
        assert columns[1] == columns[0] - 1
