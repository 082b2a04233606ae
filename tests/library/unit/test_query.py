"""Clipping and clipped means: hard rows, attained sensitivities, refused parameters."""

from __future__ import annotations

import tracemalloc
import warnings
from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import (
    Array,
    ClippedMean,
    Records,
    client_weights,
    clip_rows,
    clipped_difference_mean,
    surely_within,
)
from dpaudit.scope import Adjacency

ADD_REMOVE, REPLACE_ONE, ZERO_OUT = Adjacency("add_remove"), "replace_one", "zero_out"
TINY, HUGE = 5e-324, 1e308


def rows(values: Array) -> Array:
    """Each record as it is, in one trial."""
    return np.asarray(values)[None]


def clip(row: list[float], radius: float, norm: Any = "l2") -> list[float]:
    clipped: list[float] = clip_rows(np.array([[row]]), np.array([radius]), norm)[0, 0].tolist()
    return clipped


@pytest.mark.parametrize(
    ("row", "radius", "expected"),
    [
        ([0.0, 0.0], 1.0, [0.0, 0.0]),
        ([0.0, 0.0], 0.0, [0.0, 0.0]),
        ([3.0, 4.0], 0.0, [0.0, 0.0]),
        ([3.0, 4.0], 5.0, [3.0, 4.0]),
        ([3.0, 4.0], 10.0, [3.0, 4.0]),
        ([3.0, 4.0], 1.0, [0.6, 0.8]),
        ([np.nan, 1.0], 1.0, [0.0, 0.0]),
        ([np.inf, 1.0], 1.0, [0.0, 0.0]),
        ([-np.inf, np.nan], 0.0, [0.0, 0.0]),
        ([HUGE, 0.0], 1.0, [1.0, 0.0]),
        ([HUGE, -HUGE], 1.0, [0.5**0.5, -(0.5**0.5)]),
        ([HUGE, 1.0], HUGE, [HUGE, 1.0]),
        ([HUGE, HUGE], 1e160, [0.5**0.5 * 1e160, 0.5**0.5 * 1e160]),
        ([np.inf, 0.0], 1e200, [0.0, 0.0]),
        ([TINY, 0.0], 1.0, [TINY, 0.0]),
        ([TINY, -TINY], HUGE, [TINY, -TINY]),
        ([1e-200, 1e-200], 1e-200, [0.5**0.5 * 1e-200, 0.5**0.5 * 1e-200]),
    ],
)
def test_clipped_rows(row: list[float], radius: float, expected: list[float]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert clip(row, radius) == pytest.approx(expected, rel=1e-15, abs=0)


def test_l1_clipping_scales_the_sum_of_absolute_values() -> None:
    assert clip([3.0, -1.0], 2.0, "l1") == [1.5, -0.5]
    assert clip([HUGE, -HUGE], 2.0, "l1") == [1.0, -1.0]


def test_each_trial_has_a_radius_of_its_own() -> None:
    values = np.broadcast_to([[[3.0, 4.0]]], (3, 1, 2))
    clipped = clip_rows(values, np.array([0.0, 1.0, np.nan]))
    np.testing.assert_allclose(clipped[:2, 0], [[0.0, 0.0], [0.6, 0.8]])
    assert np.isnan(clipped[2]).all()


@pytest.mark.parametrize(
    ("entry", "sure"), [(0.3, True), (0.9, True), (1.0, False), (np.nan, False), (np.inf, False)]
)
def test_a_close_call_or_what_is_no_number_is_not_surely_within(entry: float, sure: bool) -> None:
    assert surely_within(np.array([[[entry, 0.0], [0.1, 0.1]]]), np.ones(1)) is sure


def test_a_radius_may_be_a_whole_number_and_trials_none() -> None:
    rows = np.array([[3.0, 4.0], [0.3, 0.4]])
    assert np.allclose(clip_rows(rows, np.array(1)), [[0.6, 0.8], [0.3, 0.4]])
    assert clip_rows(np.empty((0, 2, 2)), np.empty(0)).shape == (0, 2, 2)


def test_each_trials_rows_are_within_their_own_radius() -> None:
    found = np.array([[[0.9, 0.0]], [[0.0, 1.9]]])
    assert surely_within(found, np.array([1.0, 2.0]))
    assert not surely_within(found, np.array([2.0, 1.0]))
    assert not surely_within(found, np.array([1.0, np.nan]))


def test_rows_of_zeros_take_no_memory() -> None:
    held = Records(np.ones((200_000, 5)))
    tracemalloc.start()
    zeros = held.placeholder()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < held.values.nbytes / 10
    assert zeros.values.shape == held.values.shape
    assert not zeros.values.any()
    assert not zeros.values.flags.writeable


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
@pytest.mark.parametrize("entry", [0.1, 10.0, np.nan])
def test_the_shape_of_clipped_rows_tells_nothing_of_them(entry: float, norm: Any) -> None:
    """One trial's rows and three radii: three trials, whether a row is clipped or not."""
    assert clip_rows(np.full((1, 4, 2), entry), np.ones(3), norm).shape == (3, 4, 2)


def test_rows_that_are_not_finite_count_as_zero_and_warn_of_nothing() -> None:
    query = ClippedMean(rows, radius=1.0)
    bad = [[np.nan, 1.0], [np.inf, -np.inf], [0.5, 0.0], [1e308, 1e308]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value = query.value(Records(np.array(bad)))
    np.testing.assert_allclose(value, [[(0.5 + 0.5**0.5) / 4, 0.5**0.5 / 4]])


@pytest.mark.parametrize("size", [1, 2, 7])
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_antipodal_records_attain_the_stated_sensitivity(size: int, norm: Any) -> None:
    query = ClippedMean(rows, radius=np.array([0.3]), norm=norm)
    first = np.zeros((size, 3))
    first[0] = [1.0, -2.0, 5.0]
    moved = query.value(Records(first)) - query.value(Records(-first))
    order = 1 if norm == "l1" else 2
    stated = query.sensitivity(Adjacency(REPLACE_ONE), size)
    assert stated == pytest.approx(0.6 / size)
    assert np.linalg.norm(moved, ord=order, axis=-1) == pytest.approx(stated, rel=1e-15)


def test_a_record_zeroed_out_or_added_attains_half_of_it() -> None:
    data = np.array([[5.0], [0.2]])
    mean = ClippedMean(rows, radius=0.3)
    zeroed = Records(data, np.array([False, True]))
    assert abs(mean.value(Records(data)) - mean.value(zeroed)) == pytest.approx(0.15)
    assert mean.sensitivity(Adjacency(ZERO_OUT), 2) == pytest.approx(0.15)
    summed = ClippedMean(rows, radius=0.3, divisor=4)
    assert abs(summed.value(Records(data)) - summed.value(Records(data[1:]))) == pytest.approx(
        0.075
    )
    for size in (1, 2, 1000):
        assert summed.sensitivity(ADD_REMOVE, size) == pytest.approx(0.075)


def test_a_zeroed_record_contributes_nothing_whatever_it_holds() -> None:
    query = ClippedMean(rows, radius=1.0)
    present = np.array([True, False])
    values = [
        query.value(Records(np.array([[0.5], [x]]), present)) for x in (0.0, 7.0, np.nan, np.inf)
    ]
    assert len({float(v[0, 0]) for v in values}) == 1


def test_a_difference_is_clipped_once_and_not_twice() -> None:
    query = clipped_difference_mean(lambda z: rows(z) + 100.0, rows, radius=1000.0)
    assert query.value(Records(np.array([[50.0], [7.0]]))) == pytest.approx(100.0)
    small = clipped_difference_mean(lambda z: 3 * rows(z), rows, 1.0, np.array([0.25, 0.75]))
    assert small.value(Records(np.array([[50.0], [0.25]]))) == pytest.approx(0.25 + 0.375)


def test_unequal_clients_weigh_the_same() -> None:
    weights = client_weights((1, 3))
    np.testing.assert_allclose(weights, [1 / 2, 1 / 6, 1 / 6, 1 / 6])
    query = ClippedMean(rows, radius=1.0, weights=weights)
    assert query.value(Records(np.array([[1.0], [0.0], [0.3], [0.6]]))) == pytest.approx(0.65)
    assert query.sensitivity(Adjacency(REPLACE_ONE), 4) == pytest.approx(1.0)


def test_weights_of_any_sign_count_by_their_size() -> None:
    query = ClippedMean(rows, radius=1.0, weights=np.array([0.0, -3.0, 1.0]))
    assert query.sensitivity(Adjacency(ZERO_OUT), 3) == 3.0
    nothing = ClippedMean(rows, radius=1.0, weights=np.zeros(3))
    assert nothing.sensitivity(Adjacency(REPLACE_ONE), 3) == 0.0
    assert nothing.value(Records(np.ones((3, 1)))) == 0.0


def test_repeated_rows_change_nothing() -> None:
    rng = np.random.default_rng(5)
    few = rng.normal(size=(4, 3))
    data = Records(few[rng.integers(0, 4, size=50)], rng.random(50) < 0.8)
    query = ClippedMean(rows, radius=1.0, weights=rng.normal(size=50))
    plain = query.value(data, chosen=np.ones((1, 50), dtype=bool))
    np.testing.assert_allclose(query.value(data), plain, atol=1e-14)
    assert len(data.distinct()[0]) == 4


@pytest.mark.parametrize("hashed", [True, False], ids=["hashed", "all of one hash"])
@pytest.mark.parametrize("kinds", [3, 900, 2_000])
def test_many_rows_have_the_kinds_that_sorting_finds(
    kinds: int, hashed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where every row has the hash of every other: rows are compared, not hashes."""
    if not hashed:
        monkeypatch.setattr(
            "dpaudit.kernels.query._hashes", lambda bits: np.zeros(len(bits), dtype=np.uint64)
        )
    rng = np.random.default_rng(kinds)
    drawn = np.arange(2_000) if kinds == 2_000 else rng.integers(kinds, size=2_000)
    values = rng.choice([0.0, 0.5, 1.0], (kinds, 8)) + np.arange(kinds)[:, None] * 2.0**-30
    records = Records(values[rng.permutation(drawn)])
    found, origin = records.distinct()
    np.testing.assert_array_equal(found[origin], records.values)
    assert len(found) == len(np.unique(records.values, axis=0))


def test_rows_that_differ_in_one_bit_are_distinct_but_for_the_sign_of_zero() -> None:
    values = np.array([[0.0], [-0.0], [np.nan], [np.nan], [1.0], [np.nextafter(1.0, 2.0)]])
    assert len(Records(values).distinct()[0]) == 4


def test_a_batch_restricts_the_sum_and_not_the_weights() -> None:
    query = ClippedMean(rows, radius=1.0, divisor=2)
    chosen = np.array([[True, False, True], [False, False, False]])
    value = query.value(Records(np.array([[1.0], [0.5], [0.25]])), chosen)
    np.testing.assert_allclose(value, [[0.625], [0.0]])


def test_a_mean_over_the_number_of_records_is_refused_under_add_remove() -> None:
    for query in (ClippedMean(rows, 1.0), ClippedMean(rows, 1.0, weights=np.ones(3))):
        with pytest.raises(InvalidParameter, match=r"add_remove.*divisor"):
            query.sensitivity(ADD_REMOVE, 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"radius": -1.0}, "radius"),
        ({"radius": np.nan}, "radius"),
        ({"radius": np.inf}, "radius"),
        ({"radius": np.array([1.0, -1e-300])}, "radius"),
        ({"radius": np.ones((2, 1))}, "radius"),
        ({"radius": 1.0, "divisor": 0.0}, "divisor"),
        ({"radius": 1.0, "divisor": -2.0}, "divisor"),
        ({"radius": 1.0, "divisor": np.nan}, "divisor"),
        ({"radius": 1.0, "divisor": 2.0, "weights": np.ones(2)}, "not both"),
        ({"radius": 1.0, "norm": "l3"}, "norm"),
        ({"radius": 1.0, "plus": np.inf}, "plus"),
    ],
)
def test_parameters_outside_their_domain_are_refused(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidParameter, match=message):
        ClippedMean(rows, **arguments)


@pytest.mark.parametrize("weights", [np.ones(2), np.ones((3, 1)), np.array([1.0, np.nan, 1.0])])
def test_weights_that_do_not_fit_are_refused_before_the_data(weights: Array) -> None:
    with pytest.raises(InvalidParameter, match="weights"):
        ClippedMean(rows, 1.0, weights).sensitivity(Adjacency(REPLACE_ONE), 3)


def test_a_sum_that_could_overflow_has_no_finite_sensitivity() -> None:
    for query in (ClippedMean(rows, HUGE, divisor=1.0), ClippedMean(rows, 1.0, divisor=1e-320)):
        assert np.isinf(query.sensitivity(ADD_REMOVE, 2))


def test_a_radius_too_small_for_its_bound_is_zero() -> None:
    query = ClippedMean(rows, radius=np.array([1e-300, 0.0]), divisor=1.0)
    np.testing.assert_array_equal(query.sensitivity(ADD_REMOVE, 1), [0.0, 0.0])
    np.testing.assert_array_equal(query.value(Records(np.ones((1, 1)))), [[0.0], [0.0]])


@pytest.mark.parametrize("shape", [(3,), (3, 1), (1, 2, 1), (1, 3, 1, 1)])
def test_a_per_record_function_of_the_wrong_shape_is_refused(shape: tuple[int, ...]) -> None:
    query = ClippedMean(lambda z: np.zeros(shape), radius=1.0)
    with pytest.raises(InvalidParameter, match=r"per_record returned shape .*trials, records, d"):
        query.value(Records(np.arange(3.0)[:, None]))


def test_records_are_copied_and_read_only() -> None:
    source = np.zeros((2, 1))
    data = Records(source)
    source[0] = 9.0
    assert data.values[0, 0] == 0.0
    for array in (data.values, data.present, data.distinct()[0]):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


@pytest.mark.parametrize("values", [[], [[]], [1.0, 2.0], 3.0, np.zeros((0, 4))])
def test_records_need_a_row(values: Any) -> None:
    with pytest.raises(InvalidParameter, match="Records"):
        Records(values)


def test_records_quote_no_record() -> None:
    for values in ([["secret"]], [[1.0, 2.0], [3.0]], [[object()]]):
        with pytest.raises(InvalidParameter) as caught:
            Records(values)  # type: ignore[arg-type]
        assert caught.value.__context__ is None
        assert "secret" not in str(caught.value)
    assert repr(Records(np.full((3, 2), 7.5))) == "Records(rows of shape (2,))"


def test_presence_has_one_entry_a_record() -> None:
    with pytest.raises(InvalidParameter, match="present"):
        Records(np.zeros((3, 1)), np.array([True]))


@pytest.mark.parametrize("sizes", [(), (0,), (3, 0, 2), (-1,)])
def test_every_client_needs_a_record(sizes: tuple[int, ...]) -> None:
    with pytest.raises(InvalidParameter, match="client_sizes"):
        client_weights(sizes)


def test_a_record_that_changes_another_records_vector_is_found() -> None:
    data = Records(np.array([[0.1], [0.4], [-0.9]]))
    assert not ClippedMean(lambda z: rows(np.tanh(z)), 1.0).mixes_records(data)
    assert ClippedMean(lambda z: rows(z - z.mean(axis=0)), 1.0).mixes_records(data)
    assert ClippedMean(lambda z: rows(z / np.abs(z).max()), 1.0).mixes_records(data)
    # Functions that count change at some number of rows, which halves of the rows may both exceed.
    many = Records(np.linspace(0.1, 0.9, 40)[:, None])
    for most in (1, 2, 12, 19):
        counting = ClippedMean(lambda z, most=most: rows(z * (len(z) > most)), 1.0)
        assert counting.mixes_records(many), most
    assert not ClippedMean(lambda z: rows(z - z.mean()), 1.0).mixes_records(
        Records(np.ones((4, 1)))
    )


@pytest.mark.parametrize("returned", [{"a": 1.0}, "a text", [1.0, [2.0]]])
def test_a_query_that_returns_no_numbers_is_refused_by_name_and_type(returned: Any) -> None:
    kind = type(returned).__name__
    with pytest.raises(
        InvalidParameter, match=f"per_record, .*<lambda>, returned {kind}: expected"
    ):
        ClippedMean(lambda values: returned, radius=1).value(Records(np.ones((2, 1))))


def test_so_is_a_query_of_another_class() -> None:
    class Text(ClippedMean):
        def value(self, records: Records, chosen: Any = None) -> Any:
            return {"a": 1.0}

    declared, scope = dp.Gaussian("mean", 1), dp.central(REPLACE_ONE)
    curator = dp.Sampler(declared, scope, Records(np.ones((2, 1))), rng=np.random.default_rng(1))
    with pytest.raises(InvalidParameter, match="release 'mean': its query, Text, returned dict"):
        curator.release("mean", Text(rows, radius=1))
