"""Outputs as typed draws, features with their printed code, and events."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dpaudit.audit.blackbox import bits
from dpaudit.audit.blackbox.canonical import canonical_events, data_values, revealed_pair
from dpaudit.audit.blackbox.draws import (
    Draws,
    TrainingDraws,
    alike,
    fitted,
    joined,
    raised,
    read_output,
    row_codes,
    text_code,
)
from dpaudit.audit.blackbox.events import (
    Cells,
    EventOnOutputs,
    Member,
    Missing,
    OwnScore,
    Relation,
    Threshold,
)
from dpaudit.audit.blackbox.features import KINDS, Depth, Feature, features_of
from dpaudit.errors import InvalidParameter

RNG = np.random.default_rng(5)
TABLE = np.round(RNG.normal(size=(200, 3)), 2)
TABLE[RNG.random((200, 3)) < 0.1] = np.nan
TABLE[::7, 1] = TABLE[::7, 0]
TABLE[3, 2], TABLE[4, 0], TABLE[5, 1] = np.inf, -0.0, 0.0


def draws(values: Any) -> Draws:
    return read_output(values, len(values), "test")


@pytest.mark.parametrize("kind", [k for k, v in KINDS.items() if v.code])
def test_the_printed_code_computes_the_feature(kind: str) -> None:
    columns = {"difference": (0, 2), "lowest_bit_of_difference": (0, 2, -2000)}
    columns |= {"lowest_bit": (1, -40), "significant_bits": (1, 53), "decimals": (1, 17)}
    columns |= {"column": (2,), "fraction": (0,)}
    feature = Feature(kind, columns.get(kind, ()))
    clean = TABLE[np.isfinite(TABLE).all(axis=1)] if "bit" in kind else TABLE
    if "bit" in kind:  # zero has no lowest bit: the printed code may differ there
        clean = clean[(clean[:, 1] != 0) & (clean[:, 0] != clean[:, 2])]
    with np.errstate(all="ignore"):
        printed = eval(feature.code, {"np": np, "x": clean})  # noqa: S307 (our own text)
    assert np.array_equal(np.asarray(printed, float), feature(draws(clean)), equal_nan=True)


def test_lowest_bit_and_significant_bits_are_exact() -> None:
    values = np.array([12.0, 0.75, 1.0, -6.0, 2.0**-1074, 1 + 2.0**-52, 0.0, np.nan, np.inf])
    expected = [2, -2, 0, 1, -1074, -52, 2000, 2000, 2000]
    assert bits.lowest_bit(values).tolist() == expected
    assert bits.lowest_bit(np.array([12, 0, -8])).tolist() == [2, 2000, 3]
    assert bits.significant_bits(values, 53).tolist() == [2, 2, 1, 2, 1, 53, 0, 0, 0]
    assert bits.lowest_bit(values, -1).tolist()[1] == -1


def test_decimals_and_fraction() -> None:
    values = np.array([3.0, 0.25, 1 / 3, np.nan, -1.5])
    assert bits.decimals(values).tolist() == [0, 2, 16, 17, 1]
    assert bits.fraction(np.array([1.25, -0.25, 2.0])).tolist() == [0.25, 0.75, 0.0]


def test_integers_stay_integers() -> None:
    big = np.array([2**62, 2**62 + 1])
    found = draws(big)
    assert found.values.dtype == np.int64
    assert (found.values[:, 0] == big).all()
    event = Member(Feature("column", (0,)), Relation.AMONG, np.array([2**62 + 1]))
    assert event(found).tolist() == [False, True]


def test_other_types_are_read() -> None:
    assert draws(np.array([True, False])).values[:, 0].tolist() == [1, 0]
    assert draws(["a", "b"]).values[:, 0].tolist() == [text_code("a"), text_code("b")]
    none = draws(np.array([1.5, None], dtype=object))
    assert none.values[0, 0] == 1.5
    assert math.isnan(none.values[1, 0])
    assert draws(np.array([1 + 2j])).values.tolist() == [[1.0, 2.0]]
    assert draws(np.array([1, 2], dtype=object)).values.dtype == np.int64


@pytest.mark.parametrize("wrong", [np.zeros((3, 2)), np.zeros((2, 0)), 1.0, np.zeros((2, 2, 2))])
def test_wrong_shapes_are_named(wrong: Any) -> None:
    with pytest.raises(
        InvalidParameter, match=r"call returned shape .*expected \(2,\) or \(2, k\)"
    ):
        read_output(wrong, 2, "call")


def test_a_dtype_without_numbers_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="expected numbers, bools or text"):
        read_output(np.array(["2020-01-01"], dtype="datetime64[D]"), 1, "call")


def test_narrower_rows_are_filled_and_types_made_alike() -> None:
    both = joined([draws(np.ones((2, 3))), raised("ValueError")], TrainingDraws)
    assert both.values.shape == (3, 3)
    assert np.isnan(both.values[2]).all()
    first, second = alike(
        TrainingDraws(*vars(draws(np.array([1, 2]))).values()),
        TrainingDraws(*vars(draws(np.array([0.5]))).values()),
    )
    assert first.is_float
    assert second.is_float
    assert fitted(draws(np.ones((2, 3))), first, TrainingDraws).columns == 1


def test_row_codes_tell_rows_apart_and_nan_alike() -> None:
    rows = np.array([[1.0, np.nan], [1.0, -np.nan], [np.nan, 1.0], [1.0, 2.0]])
    codes = row_codes(rows)
    assert codes[0] == codes[1]
    assert len(set(codes.tolist())) == 3
    assert len(set(row_codes(np.arange(100_000)[:, None]).tolist())) == 100_000


def test_events_answer_and_print() -> None:
    column = Feature("column", (0,))
    outputs = np.array([-1.0, 0.0, 2.0, np.nan])
    cells = Cells(column, np.array([-0.5, 1.0]), np.array([True, False, True]))
    cases = [
        (Threshold(column, Relation.AT_MOST, 0.0), [1, 1, 0, 0]),
        (Threshold(column, Relation.ABOVE, 0.0), [0, 0, 1, 0]),
        (Member(column, Relation.AMONG, np.array([0.0, 2.0])), [0, 1, 1, 0]),
        (Member(column, Relation.NOT_AMONG, np.array([0.0])), [1, 0, 1, 0]),
        (cells, [1, 0, 1, 0]),
        (Missing(column), [0, 0, 0, 1]),
    ]
    for event, expected in cases:
        public = EventOnOutputs(event)
        assert public(outputs).astype(int).tolist() == expected
        names = {"np": np, "inf": np.inf, "nan": np.nan, "x": outputs[:, None]}
        assert eval(public.code, names).astype(int).tolist() == expected  # noqa: S307
        assert "output 0" in public.text


def test_an_own_score_must_give_one_number_an_output() -> None:
    assert OwnScore(lambda x: -x)(draws(np.array([1.0, 2.0]))).tolist() == [-1, -2]
    with pytest.raises(InvalidParameter, match="attack returned shape"):
        OwnScore(lambda x: x[:1])(draws(np.array([1.0, 2.0])))


def test_canonical_events_depend_on_data_sets_and_type_only() -> None:
    probe = draws(np.zeros((4, 2)))
    other = draws(RNG.normal(size=(4, 2)))
    words = [event.words for event in canonical_events(probe, [0.0, 1.0], [0.0, 3.0])]
    assert words == [e.words for e in canonical_events(other, [0.0, 1.0], [0.0, 3.0])]
    names = {"np": np, "x": TABLE}
    for event in canonical_events(probe, 0, 0):
        if event.code:
            with np.errstate(all="ignore"):
                printed = eval(event.code, names)  # noqa: S307 (our own text)
            assert np.array_equal(printed, event(draws(TABLE)))


def test_values_of_data_sets() -> None:
    assert data_values([1.0, 3.0]).tolist() == [1.0, 2.0, 3.0, 4.0]
    assert data_values("text").size == 0
    assert data_values({"a": 1}).size == 0
    assert revealed_pair(0.0, 0.0) is None
    first, second = revealed_pair([0.0], [1.0]) or pytest.fail("two events expected")
    assert first(draws(np.array([0.0, 1.0]))).tolist() == [True, False]
    assert second(draws(np.array([0.0, 1.0]))).tolist() == [False, True]


def test_rounded_features_do_not_read_the_last_bits() -> None:
    plain = draws(np.random.default_rng(1).laplace(size=1_000))
    for feature in features_of(plain, Depth.ROUNDED):
        if feature.words.startswith("the exponent") or feature.words.startswith("the number of s"):
            assert np.unique(feature(plain)).size < 4
