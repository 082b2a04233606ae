"""Correlated noise as it is drawn: its covariance, its density, its memory; who may take part."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpaudit.accountant.account import account
from dpaudit.audit.arithmetic.floating import audit_arithmetic
from dpaudit.curator.curator import Curator, Tracer
from dpaudit.errors import InvalidParameter, Undeclared
from dpaudit.families.composition import Repeat
from dpaudit.families.correlated import (
    BandedToeplitz,
    CorrelatedGaussian,
    Factorisation,
    LowerTriangular,
    Participation,
)
from dpaudit.families.correlated.kernel import CorrelatedGaussianKernel, past_of
from dpaudit.families.correlated.optimised import optimised_bands, optimised_buffers
from dpaudit.families.correlated.strategies import (
    LARGEST_DENSE,
    fenwick,
    prefix_column,
    prefix_matrix,
    prefix_root,
    prefix_squares,
    strategy_matrix,
)
from dpaudit.kernels.query import Array, ClippedMean, Records
from dpaudit.nodes import Node
from tests.support.kernels import (
    REPLACE_ONE,
    ZERO_OUT,
    Written,
    mean_exponential,
    replayer,
    sampled,
    zeroed,
)

EXPLICIT = LowerTriangular(
    "2; 1 -1; 0 1/2 3; 1 1 1 1; -1 0 2 1 1/2; 0 0 0 1 0 1; 1 0 0 0 0 1 2; 0 0 1 0 0 0 0 1"
)
STRATEGIES: dict[str, Any] = {
    **{name.value: name for name in Factorisation},
    "falling": BandedToeplitz("1 1/2 1/3"),
    "signed": BandedToeplitz("-1 1/2 1/3"),
    "explicit": EXPLICIT,
}
ROUNDS = 8


def noise(
    strategy: Any = "tree", rounds: int = ROUNDS, who: Any = (1, 1), multiplier: Any = 1
) -> CorrelatedGaussian:
    return CorrelatedGaussian("sum", multiplier, rounds, strategy, Participation(*who))


def identity(radius: Any = 1.0) -> ClippedMean:
    return ClippedMean(lambda z: z[None], radius=radius, divisor=1.0)


def in_turn(node: Node, rounds: int = ROUNDS) -> Written:
    """One record a round, in order; gives the releases."""

    def body(curator: Curator) -> list[Array]:
        sizes = [1] * rounds
        return [
            curator.release("sum", identity(), rows=curator.part(t, sizes)) for t in range(rounds)
        ]

    return Written(node, body)


def stream(which: int = 0, rounds: int = ROUNDS, d: int = 2) -> tuple[Records, Records]:
    values = np.random.default_rng(rounds).normal(size=(rounds, d))
    return zeroed(values / np.linalg.norm(values, axis=1)[:, None], which)


# --- the matrices --------------------------------------------------------------------------------


@pytest.mark.parametrize("rounds", [1, 2, 3, 7, 16, 33])
@pytest.mark.parametrize("name", STRATEGIES)
def test_a_strategy_and_its_matrix_give_prefix_sums(name: str, rounds: int) -> None:
    rounds = ROUNDS if name == "explicit" else rounds
    c, b = (f(STRATEGIES[name], rounds) for f in (strategy_matrix, prefix_matrix))
    np.testing.assert_allclose(b @ c, np.tril(np.ones((rounds, rounds))), atol=1e-9)
    root = prefix_root(STRATEGIES[name], rounds)
    assert (np.triu(root, 1) == 0).all()
    np.testing.assert_allclose(root @ root.T, b @ b.T, atol=1e-9)
    squares = prefix_squares(STRATEGIES[name], rounds)
    np.testing.assert_allclose(squares, np.square(b).sum(axis=1), rtol=1e-9)
    if name in ("sqrt_toeplitz", "falling", "signed"):
        np.testing.assert_allclose(prefix_column(STRATEGIES[name], rounds), b[:, 0], rtol=1e-9)


@pytest.mark.parametrize(
    ("name", "rounds", "error"),
    [
        ("identity", 16, 4.0),
        ("independent_prefix", 32, 5.657),
        ("tree", 16, 4.472),
        ("tree", 100, 6.481),
        ("tree", 256, 8.485),
        ("tree_honaker", 16, 3.723),
        ("tree_honaker", 100, 5.154),
        ("tree_honaker", 256, 6.574),
        ("smooth_binary", 16, 3.0),
        ("smooth_binary", 32, 12**0.5),
        ("sqrt_toeplitz", 16, 1.944),
        ("sqrt_toeplitz", 1000, 3.265),
    ],
)
def test_the_largest_error_is_that_of_the_literature(name: str, rounds: int, error: float) -> None:
    """sens(C) max ||B_t||, computed elsewhere."""
    strategy = STRATEGIES[name]
    sensitivity = np.linalg.norm(strategy_matrix(strategy, rounds), axis=0).max()
    largest = np.sqrt(prefix_squares(strategy, rounds).max())
    assert sensitivity * largest == pytest.approx(error, abs=6e-4)


@pytest.mark.parametrize(
    ("name", "rounds", "share", "column"),
    [
        ("tree_honaker", 16, 0.938, 10),
        ("tree_honaker", 32, 0.929, 20),
        ("tree_honaker", 100, 0.933, 42),
        ("smooth_binary", 16, 1.0, 0),
        ("smooth_binary", 32, 1.0, 0),
        ("smooth_binary", 100, 1.0, 0),
    ],
)
def test_what_combined_blocks_reveal(name: str, rounds: int, share: float, column: int) -> None:
    """The largest column of K^-1 A, what is released, against the accounted sensitivity."""
    mu = float(account(noise(name, rounds), ZERO_OUT).step("gdp").value)
    released = np.linalg.solve(prefix_root(STRATEGIES[name], rounds), np.tri(rounds))
    norms = np.linalg.norm(released, axis=0)
    assert norms.max() / mu == pytest.approx(share, abs=6e-4)
    assert norms[column] == pytest.approx(norms.max())


def test_what_is_too_large_or_too_wild_is_refused_with_the_reason() -> None:
    with pytest.raises(InvalidParameter, match="dense matrix, which is made for at most"):
        prefix_root(Factorisation.TREE_HONAKER, LARGEST_DENSE + 1)
    with pytest.raises(InvalidParameter, match="float64 cannot carry"):
        prefix_column(BandedToeplitz("1 2"), 60)
    with pytest.raises(InvalidParameter, match="float64 cannot carry"):
        prefix_column(BandedToeplitz("1 2"), 5_000)
    with pytest.raises(InvalidParameter, match="no float64"):
        strategy_matrix(LowerTriangular([[10**400]]), 1)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="8 explicit rows"):
        prefix_root(EXPLICIT, 3)
    with pytest.raises(InvalidParameter, match="at most 1000000"):
        prefix_column(Factorisation.SQRT_TOEPLITZ, 10**7)
    with pytest.raises(InvalidParameter, match="not a Toeplitz"):
        prefix_column(Factorisation.TREE, 4)
    large = noise("smooth_binary", LARGEST_DENSE + 1)
    sampler = sampled(Written(large, lambda c: None), stream()[0], ZERO_OUT, seed=1)
    with pytest.raises(InvalidParameter, match="dense matrix"):
        sampler.release("sum", identity())
    assert sampler.entitlements.counts() == {"sum": (LARGEST_DENSE + 1, 0, 0)}


# --- the noise -----------------------------------------------------------------------------------


class Counting:
    """A generator whose k-th draw is k."""

    def __init__(self) -> None:
        self.k = 0

    def standard_normal(self, shape: Any) -> Array:
        self.k += 1
        return np.full(shape, float(self.k))


def test_the_noise_of_a_tree_is_the_sum_of_the_nodes_that_tile_the_prefix() -> None:
    session = CorrelatedGaussianKernel(noise("tree", 8), 1)
    counting: Any = Counting()
    zero, one = np.zeros((1, 1)), np.ones(1)
    found = [float(session.sample(zero, one, counting)[0, 0]) for _ in range(8)]
    assert found == [1, 2, 5, 4, 9, 10, 17, 8]


def test_a_tree_remembers_a_logarithm_of_its_rounds() -> None:
    past: Any = past_of(Factorisation.TREE, 10**6)
    for t in range(1, 2_000):
        past.push(t, np.ones((1, 1)), np.ones((1, 1)))
        assert len(past._noise) == len(fenwick(t)) <= 11
    chain: Any = past_of(Factorisation.IDENTITY, 10**6)
    for t in range(1, 10):
        chain.push(t, np.ones((1, 1)), np.ones((1, 1)))
        assert len(chain._noise) == 1


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_noise_has_the_covariance_of_the_matrix_mechanism(name: str) -> None:
    """s^2 B B^T, whitened: sums of squares and cross products of 20,000 draws.

    Each of 36 entries within 5.5 standard errors: false-alarm rate 1e-6 a strategy.
    """
    program, trials = in_turn(noise(STRATEGIES[name], multiplier=3)), 20_000
    records = stream(d=1)[0]
    sampler = sampled(program, records, ZERO_OUT, seed=2, trials=trials)
    sums = np.cumsum(records.values[:, 0])
    drawn = np.stack([e.released[:, 0] for e in sampler.transcript], axis=1) - sums
    b = prefix_matrix(STRATEGIES[name], ROUNDS)
    whitener = np.linalg.inv(np.linalg.cholesky(9 * b @ b.T))
    white = drawn @ whitener.T
    found = white.T @ white / trials - np.eye(ROUNDS)
    errors = np.where(np.eye(ROUNDS) > 0, 2**0.5, 1.0) / trials**0.5
    assert np.abs(found / errors).max() < 5.5
    assert np.abs(white.mean(axis=0)).max() < 5.5 / trials**0.5


@pytest.mark.first_case
@pytest.mark.parametrize("name", STRATEGIES)
def test_the_likelihood_ratio_of_prefix_sums_has_mean_one(name: str) -> None:
    """Both ways, within 5 standard errors: false-alarm rate 1.2e-6."""
    program = in_turn(noise(STRATEGIES[name], multiplier=4))
    for pair in (stream(1), stream(1)[::-1]):
        mean, error = mean_exponential(program, pair, ZERO_OUT, seed=3, trials=20_000)
        assert error < 0.03
        assert mean == pytest.approx(1, abs=5 * error)


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_density_is_that_of_a_multivariate_normal(name: str) -> None:
    leaf, rng = noise(STRATEGIES[name]), np.random.default_rng(4)
    released, rows = rng.normal(size=(2, 5, ROUNDS))
    scale = rng.uniform(0.5, 3, 5)
    session = CorrelatedGaussianKernel(leaf, 5)
    total = sum(
        session.log_density(released[:, t, None], rows[:, t, None], scale) for t in range(ROUNDS)
    )
    b = prefix_matrix(STRATEGIES[name], ROUNDS)
    expected = [
        stats.multivariate_normal(np.cumsum(x), s**2 * b @ b.T).logpdf(r)
        for r, x, s in zip(released, rows, scale, strict=True)
    ]
    np.testing.assert_allclose(total, expected, rtol=1e-8)


@pytest.mark.first_case
@pytest.mark.parametrize("name", STRATEGIES)
def test_scores_are_those_of_the_largest_column(name: str) -> None:
    """A unit move of the worst record: N(+-mu^2/2, mu^2), Kolmogorov-Smirnov at 1e-4 a side."""
    strategy = STRATEGIES[name]
    moves = np.linalg.solve(prefix_root(strategy, ROUNDS), np.tri(ROUNDS))
    norms = np.linalg.norm(moves, axis=0)
    pair, mu = stream(int(norms.argmax())), norms.max() / 2
    program = in_turn(noise(strategy, multiplier=2))
    accounted = account(program.node, ZERO_OUT).step("gdp")
    assert mu <= float(accounted.value) * (1 + 1e-12)
    if accounted.attained:
        assert mu == pytest.approx(float(accounted.value))
    for own, sign in ((0, 1), (1, -1)):
        made = sampled(program, pair[own], ZERO_OUT, seed=5 + own, trials=4_000)
        scores = replayer(program, pair, ZERO_OUT).scores(made.transcript)
        assert stats.kstest((scores - sign * mu**2 / 2) / mu, "norm").pvalue > 1e-4


@pytest.mark.first_case
@pytest.mark.parametrize("name", STRATEGIES)
def test_residuals_are_fresh_in_every_round(name: str) -> None:
    """Kolmogorov-Smirnov at 1e-4; rounds are uncorrelated within 5 deviations."""
    program = in_turn(noise(STRATEGIES[name], multiplier=2))
    pair = stream()
    made = sampled(program, pair[1], ZERO_OUT, seed=7, trials=3_000)
    found = replayer(program, pair, ZERO_OUT).inspect(made.transcript, own=1)
    white = found.residuals["sum"].reshape(3_000, -1)
    assert found.violations == ()
    assert stats.kstest(white.ravel(), "norm").pvalue > 1e-4
    assert np.abs(np.corrcoef(white.T) - np.eye(2 * ROUNDS)).max() < 5 / 3_000**0.5


# --- zero scale, other scales, lost rounds -------------------------------------------------------


def test_without_sensitivity_the_prefix_sums_are_exact() -> None:
    """Where no record moves the rows there is no noise, and other values have no density."""
    session, drawn = (CorrelatedGaussianKernel(noise("sqrt_toeplitz"), 2) for _ in range(2))
    scale, rows = np.array([0.0, 2.0]), np.random.default_rng(8).normal(size=(ROUNDS, 2, 3))
    for t in range(ROUNDS):
        released = drawn.sample(rows[t], scale, np.random.default_rng(t))
        assert (released[0] == np.cumsum(rows[:, 0], axis=0)[t]).all()
        assert (session.centre(rows[t])[0] == released[0]).all()
        residual = session.residual(released, rows[t], scale)
        assert np.isnan(residual).tolist() == [[True] * 3, [False] * 3]
        moved = released + np.array([[1e-9 if t == 3 else 0.0], [0.0]])
        density = session.log_density(moved, rows[t], scale)
        assert density[0] == (-np.inf if t == 3 else 0.0)
        assert np.isfinite(density[1])


def test_rounds_of_another_sensitivity_are_refused_before_data_is_touched() -> None:
    sampler = sampled(Written(noise(), lambda c: None), stream()[0], ZERO_OUT, seed=1, trials=2)
    parts = [sampler.part(t, [1] * ROUNDS) for t in range(ROUNDS)]
    sampler.release("sum", identity(np.array([1.0, 2.0])), rows=parts[0])
    for radius in (1.0, np.array([2.0, 1.0]), np.array([1.0, 0.0])):
        with pytest.raises(InvalidParameter, match="'sum', round 2: its rounds share noise"):
            sampler.release("sum", identity(radius), rows=parts[1])
    assert sampler.entitlements.counts() == {"sum": (ROUNDS, 1, 1)}
    sampler.release("sum", identity(np.array([1.0, 2.0])), rows=parts[1])
    tracer = Tracer(noise(), ZERO_OUT, stream()[0])
    tracer.release("sum", identity(2.0), rows=tracer.part(0, [1] * ROUNDS))
    with pytest.raises(InvalidParameter, match="share noise"):
        tracer.release("sum", identity(1.0), rows=tracer.part(1, [1] * ROUNDS))


def test_a_round_whose_query_fails_ends_the_use() -> None:
    """The noise of later rounds builds on it: they are not released."""
    sampler = sampled(Written(noise(), lambda c: None), stream()[0], ZERO_OUT, seed=1)

    def failing(values: Array) -> Array:
        if values.any():
            raise ValueError("a record")
        return values[None]

    with pytest.raises(InvalidParameter, match="its query failed"):
        sampler.release(
            "sum", ClippedMean(failing, 1.0, divisor=1.0), rows=sampler.part(0, [1] * ROUNDS)
        )
    with pytest.raises(Undeclared, match="spent"):
        sampler.release("sum", identity(), rows=sampler.part(1, [1] * ROUNDS))


def test_trials_share_the_rounds_and_no_secret_batch_takes_part() -> None:
    sampler = sampled(Written(noise(), lambda c: None), stream()[0], ZERO_OUT, seed=1, trials=2)
    with pytest.raises(InvalidParameter, match="memory needs every trial on"):
        sampler.release("sum", identity(), on=np.array([True, False]))
    one_round = Repeat(noise(rounds=1), 2)
    for node in (noise(), one_round):
        sampler = sampled(Written(node, lambda c: None), stream()[0], ZERO_OUT, seed=1, trials=2)
        with pytest.raises(InvalidParameter, match="memory needs every trial on"):
            sampler.release("sum", identity(), on=np.array([False, True]))


def test_every_use_is_a_new_stream() -> None:
    """Sums begin anew, and so does the noise: uncorrelated within 5 deviations."""
    for rounds, expected in ((1, [1, 1, 1, 1]), (2, [1, 2, 1, 2])):
        node = Repeat(noise("identity", rounds, (rounds, 1), Fraction(1, 10)), 4 // rounds)
        program = Written(node, lambda c: [c.release("sum", identity()) for _ in range(4)])
        made = sampled(program, Records(np.array([[1.0]])), ZERO_OUT, seed=9, trials=2_000)
        drawn = np.stack([e.released[:, 0] for e in made.transcript])
        np.testing.assert_allclose(drawn.mean(axis=1), expected, atol=0.02)
        related = np.abs(np.corrcoef(drawn)) > 5 / 2_000**0.5
        shared = np.kron(np.eye(4 // rounds), np.ones((rounds, rounds)))
        assert (related == shared).all()


def test_a_symbolic_number_of_rounds_is_bound_first() -> None:
    import sympy

    node = noise(rounds=sympy.Symbol("T", positive=True, integer=True))
    with pytest.raises(InvalidParameter, match="bind its rounds to a number before a run"):
        sampled(Written(node, lambda c: None), stream()[0], ZERO_OUT, seed=1)


# --- audits --------------------------------------------------------------------------------------


def test_a_tracer_gives_prefix_sums_without_noise() -> None:
    tracer = Tracer(noise(who=(ROUNDS, 1)), REPLACE_ONE, Records(np.ones((1, 1))))
    found = [float(tracer.release("sum", identity())[0, 0]) for _ in range(ROUNDS)]
    assert found == list(range(1, ROUNDS + 1))
    assert tracer.trace == [("sum", 2.0, 2.0)] * ROUNDS


class NoiseFreeSums(CorrelatedGaussianKernel):
    """Wrong on purpose: the running sum itself."""

    def sample(self, values: Array, scale: Array, rng: np.random.Generator) -> Array:
        released = self.centre(values)
        self.advance(values, scale)
        return released


def test_sums_without_noise_give_the_data_set_away() -> None:
    program, pair = in_turn(noise()), stream(2)
    for own, sign in ((0, 1), (1, -1)):
        wrong: Any = {CorrelatedGaussian: NoiseFreeSums}
        made = sampled(program, pair[own], ZERO_OUT, seed=1, trials=3, kernels=wrong)
        scores = replayer(program, pair, ZERO_OUT).scores(made.transcript)
        assert (scores == sign * np.inf).all()


class Forgetful(CorrelatedGaussianKernel):
    """Wrong on purpose: noise of a strategy's first two coefficients alone."""

    def __init__(self, leaf: Any, trials: int) -> None:
        super().__init__(leaf, trials)
        self._past = past_of(
            BandedToeplitz(" ".join(leaf.strategy.coefficients.split()[:2])), ROUNDS
        )


OPTIMISED = {
    "bands": optimised_bands(ROUNDS, 4).strategy,
    "buffers": optimised_buffers(ROUNDS, 2).strategy,
}


@pytest.mark.parametrize("name", OPTIMISED)
def test_an_optimised_strategy_that_is_drawn_by_fewer_coefficients_is_found(name: str) -> None:
    """Residuals are white within 5 deviations (false alarms 1e-4) of the right noise alone."""
    program, pair = in_turn(noise(OPTIMISED[name], multiplier=2)), stream()
    largest = {}
    for kernel in (CorrelatedGaussianKernel, Forgetful):
        drawn: Any = {CorrelatedGaussian: kernel}
        made = sampled(program, pair[1], ZERO_OUT, seed=7, trials=3_000, kernels=drawn)
        found = replayer(program, pair, ZERO_OUT).inspect(made.transcript, own=1)
        white = found.residuals["sum"].reshape(3_000, -1)
        largest[kernel] = np.abs(np.corrcoef(white.T) - np.eye(2 * ROUNDS)).max() * 3_000**0.5
    assert largest[CorrelatedGaussianKernel] < 5 < 8 < largest[Forgetful]


def test_the_floating_point_probe_takes_no_kernel_with_a_memory() -> None:
    with pytest.raises(InvalidParameter, match="CorrelatedGaussianKernel: its rounds share noise"):
        audit_arithmetic(noise())
