"""RAND data: public preprocessing is local to a row, the split ignores values, units are honest."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dpaudit.errors import DpauditError, InvalidParameter
from mechanisms.papers.common import randhie
from mechanisms.papers.common.losses import Logistic
from mechanisms.papers.common.randhie import RandHie, load

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def load_with(monkeypatch: pytest.MonkeyPatch) -> Callable[..., RandHie]:
    """Loads from other raw numbers than the file's, past the cache."""

    def load_other(raw: Any, *options: Any) -> RandHie:
        monkeypatch.setattr(randhie, "_raw", lambda: raw)
        return randhie._load.__wrapped__(*options)

    return load_other


def changed(before: RandHie, after: RandHie) -> int:
    """The number of rows that differ."""
    parts = ((before.train, after.train), (before.holdout, after.holdout))
    return sum(int((a != b).any(axis=1).sum()) for a, b in parts)


def test_shapes_blocks_and_split_are_the_documented_ones() -> None:
    data = load()
    assert data.train.shape == (16_150, 11)
    assert data.holdout.shape == (4_038, 11)
    assert data.blocks().shape == (10, 1_615, 11)
    assert np.shares_memory(data.blocks(), data.train)
    assert data.features == len(data.columns) == 10
    holdout, train = randhie._split(10)
    assert np.unique(np.concatenate([holdout, train])).size == 20_188


@pytest.mark.parametrize("clients", [1, 7, 16_152])
def test_training_rows_are_cut_to_equal_blocks(clients: int) -> None:
    data = load(clients=clients)
    assert data.train.shape[0] == 16_152 // clients * clients
    assert data.blocks().shape[:2] == (clients, 16_152 // clients)
    np.testing.assert_array_equal(data.holdout, load().holdout)


def test_public_features_lie_in_the_unit_cube_and_the_intercept_is_one() -> None:
    data = load()
    for rows in (data.train, data.holdout):
        assert np.abs(rows[:, :-1]).max() <= 1.0
        np.testing.assert_array_equal(rows[:, -2], 1.0)
        assert np.linalg.norm(rows[:, :-1], axis=1).max() <= data.feature_norm_upper
    assert data.feature_norm_upper == math.sqrt(10)
    norms = np.linalg.norm(Logistic().gradients(np.ones((1, 10)), data.holdout)[0], axis=-1)
    assert norms.max() <= data.feature_norm_upper


def test_without_intercept_there_are_nine_features() -> None:
    bare, full = load(intercept="none"), load()
    assert (bare.features, bare.feature_norm_upper) == (9, 3.0)
    np.testing.assert_array_equal(bare.train, np.delete(full.train, 9, axis=1))


def test_targets_follow_their_definitions() -> None:
    visits = randhie._raw()[randhie._split(10)[1], 0]
    np.testing.assert_array_equal(load().train[:, -1], visits > 0)
    np.testing.assert_array_equal(load("two_visits").train[:, -1], visits > 1)
    scaled = load("visits").train[:, -1]
    assert (scaled.min(), scaled.max()) == (0.0, 1.0)
    uncapped = visits <= 52
    np.testing.assert_allclose(np.expm1(scaled[uncapped] * math.log(53)), visits[uncapped])
    np.testing.assert_array_equal(scaled[~uncapped], 1.0)


@pytest.mark.parametrize("value", [1e9, -1e9])
def test_public_preprocessing_lets_one_row_move_one_row_only(
    load_with: Callable[..., RandHie], value: float
) -> None:
    options = ("visits", "public", 10, "ones")
    other = randhie._raw().copy()
    other[randhie._split(10)[1][0]] = value
    before, after = load("visits"), load_with(other, *options)
    assert changed(before, after) == 1
    assert np.abs(after.train).max() <= 1.0


def test_standardising_lets_one_row_move_all_rows_and_says_so(
    load_with: Callable[..., RandHie],
) -> None:
    before = load(preprocessing="standardised")
    other = randhie._raw().copy()
    other[randhie._split(10)[1][0], 1:] = 1e3
    after = load_with(other, "any_visit", "standardised", 10, "ones")
    assert changed(before, after) == 20_188
    assert before.non_private == (
        "features standardised by the data's own mean and standard deviation",
    )
    assert before.feature_norm_upper == math.inf
    np.testing.assert_allclose(before.train[:, :9].mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(before.train[:, :9].std(axis=0), 1.0, atol=1e-12)


def test_a_constant_column_is_standardised_to_zero(load_with: Callable[..., RandHie]) -> None:
    raw = randhie._raw().copy()
    raw[:, 3] = 4.0
    data = load_with(raw, "any_visit", "standardised", 10, "ones")
    np.testing.assert_array_equal(data.train[:, 2], 0.0)


def test_the_split_ignores_values(load_with: Callable[..., RandHie]) -> None:
    """Row numbers written into the visits come back where the fixed permutation puts them."""
    raw = np.zeros((randhie.ROWS, 10))
    raw[:, 1] = np.linspace(0.0, math.log(101), randhie.ROWS)
    data = load_with(raw, "any_visit", "public", 10, "ones")
    holdout, train = randhie._split(10)
    for rows, indices in ((data.train, train), (data.holdout, holdout)):
        np.testing.assert_allclose((rows[:, 0] + 1) / 2 * (randhie.ROWS - 1), indices, atol=1e-6)


def test_public_data_report_no_private_step_and_name_their_unit() -> None:
    data = load()
    assert data.non_private == ()
    assert data.unit == "row (person-year)"
    assert any("up to 5 rows" in caveat for caveat in data.caveats)


def test_a_person_has_at_most_five_rows() -> None:
    """The wider file beside statsmodels' copy names persons; its rows are in the same order."""
    from statsmodels.datasets import randhie as source

    wide = Path(source.__file__).parent / "src" / "randhie.csv"
    names = wide.read_text().splitlines()[0].split(",")
    columns = [names.index(name) for name in ("zper", "year", "mdvis")]
    person, year, visits = np.loadtxt(wide, delimiter=",", skiprows=1, usecols=columns).T
    np.testing.assert_array_equal(visits, randhie._raw()[:, 0])
    _, rows = np.unique(person, return_counts=True)
    assert (rows.size, rows.max()) == (5_912, randhie.ROWS_PER_PERSON_AT_MOST)
    assert np.unique(np.column_stack([person, year]), axis=0).shape[0] == randhie.ROWS


def test_loading_is_cached_read_only_and_deterministic() -> None:
    data = load()
    assert load("any_visit", "public", 10, "ones") is data
    fresh = randhie._load.__wrapped__("any_visit", "public", 10, "ones")
    np.testing.assert_array_equal(fresh.train, data.train)
    for array in (data.train, data.holdout, data.blocks(), randhie._raw()):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0.0


@pytest.mark.parametrize("name", ["target", "preprocessing", "intercept"])
@pytest.mark.parametrize("bad", ["", "Public", None, 1, ["public"]])
def test_unknown_options_are_refused_before_loading(
    name: str, bad: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(randhie, "_load", lambda *options: pytest.fail("data were loaded"))
    with pytest.raises(InvalidParameter, match=f"{name} is .*: use one of"):
        load(**{name: bad})


@pytest.mark.parametrize("bad", [0, -1, 16_153, 2.0, "10", None, True, math.nan])
def test_bad_numbers_of_clients_are_refused(bad: Any) -> None:
    with pytest.raises(
        InvalidParameter, match=r"clients is .*: use a whole number from 1 to 16152"
    ):
        load(clients=bad)


def test_a_missing_statsmodels_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "statsmodels.datasets", None)
    with pytest.raises(DpauditError, match=r"does not load \(ModuleNotFoundError\): reinstall"):
        randhie._raw.__wrapped__()


@pytest.mark.parametrize("error", [OSError, ValueError, KeyError, AttributeError])
def test_a_file_that_does_not_parse_is_named(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise error("secret")

    monkeypatch.setattr("statsmodels.datasets.randhie.load_pandas", fail)
    with pytest.raises(randhie.DataUnavailable, match=error.__name__) as caught:
        randhie._raw.__wrapped__()
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("fault", ["column", "text", "rows", "nan"])
def test_a_damaged_file_is_named_without_its_values(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = randhie._raw()
    names = ["mdvis", *(column.name for column in randhie.COLUMNS)]
    frame: dict[str, Any] = dict(zip(names, raw.T.copy(), strict=True))
    if fault == "column":
        del frame["disea"]
    elif fault == "text":
        frame["disea"] = np.full(randhie.ROWS, "secret")
    elif fault == "rows":
        frame = {name: column[:12] for name, column in frame.items()}
    else:
        frame["disea"][77] = np.nan
    module = SimpleNamespace(load_pandas=lambda: SimpleNamespace(data=frame))
    monkeypatch.setattr("statsmodels.datasets.randhie", module)
    monkeypatch.setitem(sys.modules, "statsmodels.datasets.randhie", module)
    with pytest.raises(randhie.DataUnavailable, match="reinstall statsmodels") as caught:
        randhie._raw.__wrapped__()
    assert "secret" not in str(caught.value)


def test_importing_the_loader_imports_neither_statsmodels_nor_pandas() -> None:
    code = (
        "import sys, mechanisms.papers.common.randhie; "
        "print({'statsmodels', 'pandas', 'scipy.stats'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == "set()"
