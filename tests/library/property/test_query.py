"""Any two neighbouring data sets move a clipped mean by at most its stated sensitivity."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dpaudit.kernels.query import Array, ClippedMean, Records, client_weights, clip_rows
from dpaudit.scope import Adjacency

# Rounding: 20 units in the last place of the largest sum that can occur, per record.
UNIT = 20 * np.finfo(float).eps
ORDERS = {"l1": 1, "l2": 2, "linf": np.inf}
NORMS = st.sampled_from(list(ORDERS))
FINITE_RADII = st.sampled_from([0.0, 1e-249, 1e-12, 0.3, 1.0, 7.0, 1e200])
hard = st.floats() | st.sampled_from([0.0, 5e-324, -1e308, 1e308, np.nan, np.inf, 1e-160])


@st.composite
def data(draw: Callable[..., Any]) -> Array:
    n, width = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    return draw(hnp.arrays(np.float64, (n, width), elements=hard))  # type: ignore[no-any-return]


def two_trials(values: Array) -> Array:
    """Two functions of a record, one of which overflows and mixes signs."""
    return np.stack([values, -3.0 * values])


def distance(a: Array, b: Array, norm: str) -> Array:
    largest = np.maximum(np.abs(a - b).max(-1, keepdims=True), 1e-300)
    scaled = np.linalg.norm((a - b) / largest, ord=ORDERS[norm], axis=-1)
    return np.asarray(scaled * largest[:, 0])


def assert_within(
    query: ClippedMean, adjacency: str, first: Records, second: Records, weight: float
) -> None:
    """Distance <= sensitivity + rounding, and nothing but finite numbers, without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        a, b = query.value(first), query.value(second)
        stated = query.sensitivity(Adjacency(adjacency), len(first))
    assert np.isfinite(a).all()
    assert np.isfinite(b).all()
    rounding = UNIT * np.max(query.radius) * weight
    assert (distance(a, b, query.norm) <= stated + rounding).all()


@given(data(), st.data(), FINITE_RADII, FINITE_RADII, NORMS)
def test_replace_one(values: Array, more: st.DataObject, r: float, s: float, norm: Any) -> None:
    n, width = values.shape
    which = more.draw(st.integers(0, n - 1))
    other = values.copy()
    other[which] = more.draw(hnp.arrays(np.float64, width, elements=hard))
    weights = more.draw(
        st.none() | hnp.arrays(np.float64, n, elements=st.floats(-4, 4, allow_subnormal=False))
    )
    query = ClippedMean(two_trials, np.array([r, s]), weights, norm=norm)
    total = 1.0 if weights is None else float(np.abs(weights).sum())
    assert_within(query, "replace_one", Records(values), Records(other), total)


@given(data(), st.data(), FINITE_RADII, NORMS)
def test_zero_out_with_clients(values: Array, more: st.DataObject, r: float, norm: Any) -> None:
    n = len(values)
    first_client = more.draw(st.integers(1, n))
    sizes = (first_client, n - first_client) if first_client < n else (n,)
    which = more.draw(st.integers(0, n - 1))
    query = ClippedMean(two_trials, r, client_weights(sizes), norm=norm)
    assert_within(query, "zero_out", Records(values), Records(values, np.arange(n) != which), 1.0)


@given(data(), st.data(), FINITE_RADII, st.floats(0.1, 100.0), NORMS)
def test_add_remove_with_a_divisor(
    values: Array, more: st.DataObject, r: float, divisor: float, norm: Any
) -> None:
    longer = np.vstack([values, more.draw(hnp.arrays(np.float64, values.shape[1], elements=hard))])
    order = more.draw(st.permutations(range(len(longer))))
    query = ClippedMean(two_trials, r, divisor=divisor, norm=norm)
    assert_within(
        query, "add_remove", Records(longer[order]), Records(values), len(longer) / divisor
    )


@given(data(), st.data(), FINITE_RADII, NORMS)
def test_replace_one_under_the_same_batch(
    values: Array, more: st.DataObject, r: float, norm: Any
) -> None:
    n, width = values.shape
    other = values.copy()
    other[-1] = more.draw(hnp.arrays(np.float64, width, elements=hard))
    chosen = more.draw(hnp.arrays(np.bool_, (2, n)))
    query = ClippedMean(two_trials, r, divisor=2.0, norm=norm)
    a, b = (query.value(Records(v), chosen) for v in (values, other))
    stated = query.sensitivity(Adjacency("replace_one"), n)
    assert (distance(a, b, norm) <= stated + UNIT * r * n).all()
    np.testing.assert_array_equal(a[~chosen[:, -1]], b[~chosen[:, -1]])


@given(data(), FINITE_RADII, NORMS)
def test_clipping_shrinks_onto_the_ball_and_keeps_the_direction(
    values: Array, r: float, norm: Any
) -> None:
    clipped = clip_rows(values[None], np.array([r]), norm)[0]
    zero = np.zeros_like(clipped)
    assert (distance(clipped, zero, norm) <= r * (1 + UNIT)).all()
    finite: Any = np.isfinite(values).all(axis=1)
    assert not clipped[~finite].any()
    assert np.all(clipped[finite] * np.sign(values[finite]) >= 0)
    quarter = distance(np.where(finite[:, None], values, 0.0) / 4, zero, norm)
    inside: Any = finite & np.less(quarter, r / 4.001)
    np.testing.assert_array_equal(clipped[inside], values[inside])


@given(data(), st.data())
def test_repeated_rows_change_nothing(values: Array, more: st.DataObject) -> None:
    n = len(values)
    picked = more.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=12))
    present = np.array(
        more.draw(st.lists(st.booleans(), min_size=len(picked), max_size=len(picked)))
    )
    query = ClippedMean(two_trials, 1.0)
    records = Records(values[picked], present)
    everyone = np.ones((2, len(picked)), dtype=bool)
    np.testing.assert_allclose(query.value(records), query.value(records, everyone), atol=1e-14)
