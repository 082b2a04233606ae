"""The paper's data from a user's files: layout, split by a seed, what is not private about it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dpaudit.errors import InvalidParameter
from experiments.diff2.data import LAYOUTS, NOT_PRIVATE, Layout, load, prepared

RNG = np.random.default_rng(4)


def test_a_regression_is_split_standardised_and_says_what_is_not_private(tmp_path: Path) -> None:
    table = np.column_stack([RNG.normal(3, 5, (103, 8)), RNG.uniform(1, 4, 103)])
    path = tmp_path / "housing.csv"
    np.savetxt(path, table, delimiter=",", header="a,b,c,d,e,f,g,h,value", comments="")
    found = load(path, "california", seed=1)
    assert found.train.shape == (80, 9)
    assert found.test.shape == (21, 9)
    np.testing.assert_allclose(found.train[:, :-1].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(found.train[:, :-1].std(axis=0), 1, rtol=1e-12)
    assert np.abs(np.concatenate([found.train, found.test])[:, -1]).max() <= 1
    assert found.non_private == (NOT_PRIVATE,)
    np.save(tmp_path / "housing.npy", table)
    again, other = (load(tmp_path / "housing.npy", "california", seed) for seed in (1, 2))
    np.testing.assert_allclose(again.train, found.train, rtol=1e-12)
    assert not np.allclose(other.train, found.train)


def test_classes_count_from_nothing_and_columns_are_dropped() -> None:
    layout = Layout(100, 2, 2, dropped=(3,), classes=3, first=1)
    table = np.column_stack([RNG.normal(size=(50, 2)), RNG.integers(1, 4, 50), np.full(50, 1e9)])
    found = prepared(table, layout, 1)
    assert found.train.shape == (40, 3)
    assert set(found.train[:, -1]) == {0.0, 1.0, 2.0}
    np.testing.assert_allclose(found.train[:, :2].std(axis=0), 1)
    indicators = prepared(table, Layout(100, 2, 2, (3,), 3, 1, numeric=1), 1)
    assert set(indicators.train[:, 1]) <= set(table[:, 1])
    assert indicators.train[:, 0].std() == pytest.approx(1)
    table[3, 2] = 4
    with pytest.raises(InvalidParameter, match="expected 3 classes"):
        prepared(table, layout, 1)


def test_what_is_no_such_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="expected one of california"):
        load(tmp_path / "x.csv", "iris", 1)
    (tmp_path / "x.csv").write_text("1,2\n3,secret\n")
    with pytest.raises(InvalidParameter, match="table of numbers") as raised:
        load(tmp_path / "x.csv", "california", 1)
    assert "secret" not in str(raised.value)
    with pytest.raises(InvalidParameter, match="expected 9 of finite numbers"):
        prepared(np.zeros((20, 5)), LAYOUTS["california"], 1)
