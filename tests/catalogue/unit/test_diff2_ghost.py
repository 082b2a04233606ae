"""Ghost clipping against explicit per-record gradients, and the network's two starts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from dpaudit.audit.graybox import inspect_program
from dpaudit.audit.neighbours import Neighbours
from dpaudit.audit.suite import Suite
from dpaudit.curator.curator import Sampler
from dpaudit.kernels.linear import LinearClippedMean, SlopedRows
from dpaudit.kernels.query import Array, ClippedMean, Records, clip_rows
from dpaudit.scope import Adjacency, central
from mechanisms.papers.common.factors import Factors, clipped_sums, ghost_norms
from mechanisms.papers.common.losses import LeastSquares, Logistic, Loss, SoftplusNetwork
from mechanisms.papers.diff2 import ghost as ghost_module
from mechanisms.papers.diff2.catalogue import diff2_gd_network
from mechanisms.papers.diff2.framework import Diff2
from mechanisms.papers.diff2.ghost import (
    GhostClippedMean,
    is_ghost,
    is_linear,
)
from mechanisms.papers.diff2.noise import Noise

SCOPE = central("replace_one")
NETWORK = SoftplusNetwork(hidden=4)
FEATURES, TRIALS = 3, 5
SIZE = NETWORK.dimension(FEATURES)


def parameters(seed: int, scale: float = 1.0) -> Array:
    return scale * np.random.default_rng(seed).normal(size=(TRIALS, SIZE))


def rows(n: int = 30, seed: int = 0) -> Array:
    return np.random.default_rng(seed).uniform(-2, 2, (n, FEATURES + 1))


def norms(gradients: Array) -> Array:
    return np.asarray(np.linalg.norm(gradients, axis=-1))


# --- norms ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-6, 1.0, 30.0])
def test_ghost_norms_are_those_of_explicit_gradients(scale: float) -> None:
    """To 1e-10, of gradients and of differences of two."""
    x, y, data = parameters(1, scale), parameters(2, scale), rows()
    one, other = NETWORK.factors(x, data), NETWORK.factors(y, data)
    explicit = NETWORK.gradients(x, data)
    np.testing.assert_allclose(ghost_norms(one), norms(explicit), rtol=1e-10)
    difference = explicit - NETWORK.gradients(y, data)
    np.testing.assert_allclose(ghost_norms(one - other), norms(difference), rtol=1e-10)


def test_the_formula_of_the_norm() -> None:
    """||delta||^2 (||x||^2 + 1) + ||e h||^2 + e^2, from the network's own parts."""
    x, data = parameters(3), rows(6)
    factors = NETWORK.factors(x, data)
    squares = np.square(factors.left).sum(-1) * (np.square(data[:, :3]).sum(-1) + 1)
    squares += np.square(factors.rest).sum(-1)
    np.testing.assert_allclose(ghost_norms(factors) ** 2, squares, rtol=1e-12)
    assert factors.left.shape == (TRIALS, 6, 4)
    assert factors.rest.shape == (TRIALS, 6, 5)


def test_norms_neither_overflow_nor_underflow() -> None:
    for scale in (1e-180, 1e150):
        left, right, rest = (np.full((1, 2, k), scale) for k in (4, 9, 1))
        found = ghost_norms(Factors(left, np.ones((2, 9)), rest))
        assert found == pytest.approx(scale * 37**0.5)
        assert ghost_norms(Factors(rest, np.ones((2, 1)), right)) == pytest.approx(scale * 10**0.5)


# --- clipped means -------------------------------------------------------------------------------


def queries(radius: Any, weights: Any = None) -> tuple[ClippedMean, GhostClippedMean]:
    x, y = parameters(1), parameters(2)

    def per_record(values: Array) -> Array:
        return NETWORK.gradients(x, values) - NETWORK.gradients(y, values)

    ghost = GhostClippedMean(
        per_record,
        radius,
        weights,
        factors=lambda v: NETWORK.factors(x, v) - NETWORK.factors(y, v),
        pack=NETWORK.pack,
    )
    return ClippedMean(per_record, radius, weights), ghost


@pytest.mark.parametrize("radius", [0.0, 1e-6, 0.5, 1e9, np.array([0.0, 0.1, 1.0, 5.0, 1e9])])
def test_the_clipped_mean_is_the_explicit_one(radius: Any) -> None:
    weights = np.random.default_rng(4).uniform(0, 1, 30)
    present = np.arange(30) % 7 != 0
    for records in (Records(rows()), Records(rows(), present)):
        for stated in (None, weights):
            plain, ghost = queries(radius, stated)
            expected, found = plain.value(records), ghost.value(records)
            np.testing.assert_allclose(found, expected, atol=1e-12 * (1 + np.abs(expected).max()))
            for adjacency in (Adjacency.REPLACE_ONE, Adjacency.ZERO_OUT):
                one, two = (q.sensitivity(adjacency, 30) for q in (plain, ghost))
                assert (one == two).all()


@pytest.mark.parametrize("size", [1, 7, 30])
def test_blocks_of_rows_add_up(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ghost_module, "ROWS", size)
    weights = np.random.default_rng(4).uniform(0, 1, 30)
    plain, ghost = queries(0.5, weights)
    records = Records(np.concatenate([rows(29), [HOSTILE["not a number"]]]))
    np.testing.assert_allclose(ghost.value(records), plain.value(records), atol=1e-13)


def test_repeated_records_and_secret_batches() -> None:
    data = np.repeat(rows(3), 10, axis=0)
    plain, ghost = queries(0.5)
    np.testing.assert_allclose(ghost.value(Records(data)), plain.value(Records(data)), atol=1e-13)
    chosen = np.random.default_rng(0).random((TRIALS, 30)) < 0.3
    records = Records(rows())
    assert (ghost.value(records, chosen) == plain.value(records, chosen)).all()


HOSTILE = {
    "not a number": [np.nan] * 4,
    "a feature not a number": [np.nan, 0.0, 0.0, 0.0],
    "a target not a number": [0.0, 0.0, 0.0, np.nan],
    "infinite": [np.inf, -np.inf, np.inf, 1.0],
    "an infinite target": [0.0, 1.0, 0.0, np.inf],
    "huge": [1e300, -1e300, 1e300, 1.0],
    "a huge target": [1.0, 1.0, 1.0, 1e300],
    "large": [1e6, -1e6, 1e6, -1e6],
    "tiny": [1e-300, 1e-300, 1e-300, 1e-300],
}


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=list(HOSTILE))
def test_hostile_records_move_the_mean_by_no_more_than_its_sensitivity(hostile: Any) -> None:
    """And touch no other record: the rest of the mean is what it is with a row of zeros there."""
    data = rows()
    others = data.copy()
    others[4] = hostile
    for radius in (1e-3, 1.0):
        plain, ghost = queries(radius)
        moved = ghost.value(Records(others)) - ghost.value(Records(data))
        assert np.isfinite(moved).all()
        stated = ghost.sensitivity(Adjacency.REPLACE_ONE, 30)
        assert (norms(moved) <= stated * (1 + 1e-9)).all()
        expected = plain.value(Records(others))
        if np.isfinite(NETWORK.gradients(parameters(1), others)).all() and max(hostile) < 1e100:
            np.testing.assert_allclose(ghost.value(Records(others)), expected, atol=1e-9 * radius)
        elif not np.isfinite(hostile).all():
            np.testing.assert_allclose(ghost.value(Records(others)), expected, atol=1e-12)


@pytest.mark.parametrize("left", [5e-324, 3e-300, 1e-20, 1e100])
@pytest.mark.parametrize("right", [1e-300, 1e-3, 1e300])
@pytest.mark.parametrize("radius", [3e-240, 3e-24, 1.0])
def test_no_row_is_longer_than_the_radius(left: float, right: float, radius: float) -> None:
    """However far apart the sizes of its factors are: to 1e-12, where no result is denormal."""
    factors = Factors(
        np.full((1, 1, 10), left), np.full((1, 3), right), np.full((1, 1, 2), left * 1e-3)
    )
    outer, rest = clipped_sums(factors, np.ones(1), radius)
    largest = max(np.abs(outer).max(), np.abs(rest).max())
    if largest > 1e-290:
        length = largest * np.hypot(np.linalg.norm(outer / largest), np.linalg.norm(rest / largest))
        assert length <= radius * (1 + 1e-12)
        true = min(radius, 1e300 if left * right > 1e300 else ghost_norms(factors).item())
        assert length == pytest.approx(true, rel=0.06 if left < 1e-320 else 1e-12) or length == 0


def test_rows_that_are_not_finite_count_as_zero() -> None:
    factors = NETWORK.factors(parameters(1), np.full((2, 4), np.nan))
    outer, rest = clipped_sums(factors, np.ones(2), 1.0)
    assert not outer.any()
    assert not rest.any()


# --- in DIFF2 ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Explicit:
    """The same network without factors: DIFF2 then makes a gradient per record."""

    network: SoftplusNetwork = NETWORK

    def dimension(self, features: int) -> int:
        return self.network.dimension(features)

    def initial(self, features: int, trials: int, seed: int) -> Array:
        return self.network.initial(features, trials, seed)

    def values(self, parameters: Any, records: Any) -> Array:
        return self.network.values(parameters, records)

    def gradients(self, parameters: Any, records: Any) -> Array:
        return self.network.gradients(parameters, records)


def last(loss: Any, data: Array) -> Array:
    made = Diff2(loss, FEATURES, (15, 15), 20, 4, 0.5, 1.0, 0.05, Noise(0.05, 0.1), start_seed=2)
    curator = Sampler(
        made.declaration(SCOPE), SCOPE, Records(data), rng=np.random.default_rng(1), trials=TRIALS
    )
    return np.asarray(made.run(curator).last)


def test_a_run_of_diff2_is_the_same_with_either() -> None:
    assert is_ghost(NETWORK)
    assert not is_ghost(Explicit())
    assert not is_ghost(Logistic())
    data = rows()
    data[3] = np.nan
    found = last(NETWORK, data)
    np.testing.assert_allclose(found, last(Explicit(), data), atol=1e-10)
    assert np.abs(found - NETWORK.initial(FEATURES, TRIALS, 2)).max() > 0.01


def test_no_gradient_per_record_is_made() -> None:
    """A run on all records asks for factors only."""

    @dataclass(frozen=True)
    class Refusing(SoftplusNetwork):
        def gradients(self, parameters: Any, records: Any) -> Array:
            raise AssertionError("a gradient per record")

    assert np.isfinite(last(Refusing(hidden=4), rows())).all()


def test_the_network_s_own_queries_keep_their_bound_on_hostile_records() -> None:
    """Gray-box checks of the ghost queries themselves, at a false-alarm rate of 1e-5."""
    made = Diff2(NETWORK, FEATURES, (15, 15), 6, 3, 0.5, 1.0, 0.05, Noise(0.2, 0.4), start_seed=2)
    others = rows()
    others[4] = [1.0, -1.0, 1.0, 50.0]
    pair = Neighbours(Records(rows()), Records(others), Adjacency.REPLACE_ONE, "one row")
    mechanism = replace(diff2_gd_network, program=made)
    found = inspect_program(mechanism, Suite("diff2_gd_network", made, pair), seed=2, error=1e-5)
    assert found.broken == ()
    assert {probe.label for probe in found.probes} == {"gradient", "difference"}
    assert all(isinstance(asked.query, GhostClippedMean) for asked in found.asked)


# --- starts --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("start", "power"), [("inverse_sqrt_fan_in", -0.5), ("sqrt_fan_in", 0.5)])
def test_the_two_starts(start: Any, power: float) -> None:
    """Uniform in plus or minus w^(-1/2), or as printed w^(1/2), w the inputs of the layer."""
    network = SoftplusNetwork(hidden=50, start=start)
    weights, bias, outer, shift = network.unpack(network.initial(9, 2, seed=3))
    for values, width in ((weights, 9), (bias, 9), (outer, 50), (shift, 50)):
        assert np.abs(values).max() <= width**power
    assert np.abs(weights).max() > 0.97 * 9**power
    assert np.abs(outer).max() > 0.9 * 50**power
    assert clip_rows(weights, np.ones(2)).shape == weights.shape


# --- linear models --------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [Logistic(), LeastSquares()])
def test_a_linear_models_clipped_mean_is_that_of_written_out_gradients(loss: Loss) -> None:
    """Gradients and differences, radii by trial, broken and extreme rows, absent and equal ones."""
    data = rows(40)
    data[:, -1] = np.round(np.abs(data[:, -1]) / 2)
    data[3], data[5, 0], data[7] = np.nan, np.inf, data[8]
    data[9, :-1] *= 1e150
    data[11, :-1] = 0.0
    records = Records(data, np.arange(40) != 13)
    x, y = parameters(1)[:, :FEATURES], parameters(2)[:, :FEATURES]
    program = Diff2(loss, FEATURES, (10, 30), 4, 2, 0.7, 0.5, 0.1, Noise(1.0, 1.0))
    explicit = (
        lambda v: loss.gradients(x, v),
        lambda v: loss.gradients(x, v) - loss.gradients(y, v),
    )
    queries = program.gradient_query(x), program.difference_query(x, y)
    for query, written_out in zip(queries, explicit, strict=True):
        assert isinstance(query, LinearClippedMean)
        written = ClippedMean(written_out, query.radius, query.weights)
        np.testing.assert_allclose(query.value(records), written.value(records), 1e-11, 1e-15)
        chosen = np.arange(40) % 3 == np.zeros((TRIALS, 1))
        batch, same = query.value(records, chosen), written.value(records, chosen)
        np.testing.assert_allclose(batch, same, 1e-11, 1e-15)
        assert (
            query.sensitivity("replace_one", 40) == written.sensitivity("replace_one", 40)
        ).all()


def test_no_row_of_a_linear_model_is_longer_than_the_radius() -> None:
    far = Records(np.column_stack([10.0 ** np.arange(-160, 160, 10), np.zeros(32)]))
    for row in range(32):
        weights = np.zeros(32)
        weights[row] = 1.0
        query = Diff2(
            LeastSquares(), 1, (32,), 2, 1, 0.7, 0.5, 0.1, Noise(1.0, 1.0)
        ).gradient_query(np.ones((1, 1)))
        one = replace(query, weights=weights)
        assert np.abs(one.value(far)).max() <= 0.7 * (1 + 1e-12)


def test_ridge_terms_and_subclasses_are_not_taken_for_linear_models() -> None:
    class Scaled(Logistic):
        def gradients(self, parameters: Any, records: Any) -> Array:
            return 2 * super().gradients(parameters, records)

    assert is_linear(Logistic())
    assert not any(map(is_linear, (Logistic(l2=0.1), Scaled(), NETWORK)))


def test_slopes_that_look_at_other_rows_are_seen_and_other_rows_are_heeded() -> None:
    records = Records(rows(6))
    honest = LinearClippedMean(SlopedRows(lambda v: np.ones((1, len(v)))), 1.0)
    assert not honest.mixes_records(records)
    mixing = SlopedRows(lambda v: np.full((1, len(v)), v[:, 0].mean()))
    assert replace(honest, per_record=mixing).mixes_records(records)
    # A wrapped or planted per_record is what is summed.
    other = replace(honest, per_record=lambda v: np.zeros((1, len(v), 2)))
    assert (other.value(records) == 0).all()
