"""Losses: convexity, smoothness, gradient norms and row isolation on random inputs."""

from __future__ import annotations

import warnings

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mechanisms.papers.common.losses import (
    Array,
    LeastSquares,
    Logistic,
    Loss,
    SoftplusNetwork,
    WorstCase,
)

FEATURES, ROWS = 3, 4
quick = settings(max_examples=40, deadline=None, derandomize=True)
moderate = st.floats(-30, 30, allow_subnormal=False)
anything = st.floats(allow_nan=True, allow_infinity=True)
points = arrays(np.float64, (1, FEATURES), elements=moderate)
inputs = arrays(np.float64, (ROWS, FEATURES), elements=moderate)
labels = arrays(np.float64, (ROWS, 1), elements=st.sampled_from([0.0, 1.0]))
convex = st.one_of(st.builds(Logistic, l2=st.floats(0, 2)), st.just(LeastSquares()))
linear = st.one_of(convex, st.just(Logistic()))


def smoothness(loss: Loss, x: Array) -> Array:
    square = np.square(x).sum(axis=1)
    upper = square / 4 + loss.l2 if isinstance(loss, Logistic) else 2 * square
    return np.asarray(upper, dtype=np.float64)


@quick
@given(loss=convex, theta=points, other=points, x=inputs, y=labels)
def test_convex_losses_lie_between_tangent_and_stated_smoothness(
    loss: Loss, theta: Array, other: Array, x: Array, y: Array
) -> None:
    records = np.hstack([x, y])
    step = other - theta
    linear_part = loss.values(theta, records) + loss.gradients(theta, records) @ step[0]
    excess = loss.values(other, records) - linear_part
    slack = 1e-9 * (1 + np.abs(loss.values(other, records)) + np.abs(linear_part))
    upper = smoothness(loss, x) / 2 * np.square(step).sum()
    assert (excess >= -slack).all()
    assert (excess <= upper + slack).all()


@quick
@given(theta=points, x=inputs, y=labels)
def test_a_logistic_gradient_is_no_longer_than_its_record(theta: Array, x: Array, y: Array) -> None:
    norms = np.linalg.norm(Logistic().gradients(theta, np.hstack([x, y]))[0], axis=-1)
    assert (norms <= np.linalg.norm(x, axis=1) * (1 + 1e-12)).all()


@quick
@given(
    loss=st.one_of(linear, st.just(SoftplusNetwork(hidden=2))),
    records=arrays(np.float64, (ROWS, FEATURES + 1), elements=anything),
    seed=st.integers(0, 2**32),
)
def test_rows_are_isolated_silent_and_finite_only_if_their_record_is(
    loss: Loss, records: Array, seed: int
) -> None:
    theta = np.random.default_rng(seed).normal(size=(2, loss.dimension(FEATURES)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        together = loss.gradients(theta, records)
        alone = [loss.gradients(theta, row[None])[:, 0] for row in records]
        loss.values(theta, records)
    spoiled = ~np.isfinite(records).all(axis=1)
    assert not np.isfinite(together[:, spoiled]).all(axis=-1).any()
    sane = ~spoiled & (np.abs(records).max(axis=1) < 1e50)
    assert np.isfinite(together[:, sane]).all()
    for i in np.flatnonzero(sane):
        scale = 1e-11 * (1 + np.abs(records[i]).max()) ** 2
        np.testing.assert_allclose(together[:, i], alone[i], rtol=1e-10, atol=scale)


@quick
@given(
    signs=arrays(np.float64, (ROWS, 1), elements=st.sampled_from([-1.0, 0.0, 1.0])),
    curvature=st.floats(0, 100),
    theta=points,
    other=points,
)
def test_worst_case_differences_are_the_curvature_times_the_step(
    signs: Array, curvature: float, theta: Array, other: Array
) -> None:
    loss = WorstCase(size=FEATURES, curvature=curvature)
    difference = loss.gradients(theta, signs) - loss.gradients(other, signs)
    expected = signs[None] * curvature * (theta - other)[:, None, :]
    np.testing.assert_allclose(difference, expected, rtol=1e-12, atol=1e-10)


@quick
@given(order=st.permutations(range(ROWS)), seed=st.integers(0, 2**32))
def test_the_order_of_records_is_the_order_of_gradients(order: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    network = SoftplusNetwork(hidden=2)
    theta, records = rng.normal(size=(2, 11)), rng.normal(size=(ROWS, FEATURES + 1))
    permuted = network.gradients(theta, records[order])
    expected = network.gradients(theta, records)[:, order]
    np.testing.assert_allclose(permuted, expected, rtol=1e-12, atol=1e-13)
