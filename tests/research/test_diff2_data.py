"""The paper's data from a user's files: layout, split by a seed, what is not private about it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dpaudit.curator.curator import Sampler
from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Records
from dpaudit.scope import central
from experiments.diff2.data import (
    CONNECTIONS,
    LAYOUTS,
    NOT_PRIVATE,
    WORDS,
    Layout,
    load,
    prepared,
)
from mechanisms.papers.common.losses import LeastSquares
from mechanisms.papers.common.softmax import Softmax
from mechanisms.papers.diff2.baselines import SrnSgd
from mechanisms.papers.diff2.framework import Diff2
from mechanisms.papers.diff2.noise import Noise
from mechanisms.papers.diff2.routines import HeavyBall

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


def lines_of(name: str, count: int) -> list[str]:
    """Rows as the public files have them: with names or none, classes from 1, words and a dot."""
    rng, layout = np.random.default_rng(7), LAYOUTS[name]
    if name == "cover_type":  # 10 numbers, 44 indicators, classes 1 to 7
        rows = np.column_stack(
            [rng.integers(0, 3000, (count, 10)), rng.integers(0, 2, (count, 44)),
             rng.integers(1, 8, count)]
        )  # fmt: skip
        return [",".join(map(str, row)) for row in rows]
    if name == "kdd_cup":
        found = []
        for _ in range(count):
            row = [f"{v:.2f}" for v in rng.exponential(size=41)]
            row[1:4] = rng.choice(["tcp", "udp", "icmp"]), rng.choice(["http", "smtp"]), "SF"
            found.append(",".join([*row, f"{rng.choice(CONNECTIONS)}."]))
        return found
    width = layout.features + 1 + len(layout.dropped)
    made = [",".join(f"{v:.4f}" for v in row) for row in rng.normal(2, 3, (count, width))]
    names = {
        "california": "longitude,latitude,housing_median_age,total_rooms,total_bedrooms,population,"
        "households,median_income,median_house_value",
        "gas_turbine": "AT,AP,AH,AFDP,GTEP,TIT,TAT,TEY,CDP,CO,NOX",
    }
    return [names[name], *made] if name in names else made


@pytest.mark.parametrize("name", list(LAYOUTS))
def test_every_data_set_of_the_paper_is_read_and_trained_on(tmp_path: Path, name: str) -> None:
    """Softmax or least squares, by DIFF2 with momentum and SRN-SGD by record: both move."""
    path = tmp_path / f"{name}.csv"
    path.write_text("\n".join(lines_of(name, 120)) + "\n")
    found = load(path, name, seed=3)
    layout = LAYOUTS[name]
    assert found.train.shape == (90, layout.features + 1)
    assert found.test.shape == (24, layout.features + 1)
    loss = Softmax(layout.classes) if layout.classes else LeastSquares()
    scope, records = central("replace_one"), Records(found.train)
    heavy = HeavyBall(0.5)
    shared = (loss, layout.features)
    programs = (
        Diff2(*shared, (90,), 4, 2, 1.0, 1.0, 0.01, noise=Noise(1.0, 1.0), routine=heavy),
        SrnSgd(*shared, 90, 90, 2, 1.0, 1.0, 0.01, 1),
    )
    for program in programs:
        sampler = Sampler(program.declaration(scope), scope, records, rng=np.random.default_rng(1))
        output = program.run(sampler).last
        assert output.shape == (1, loss.dimension(layout.features))
        assert np.isfinite(output).all()
        assert (output != 0).any()


def test_words_are_numbered_and_what_is_no_connection_is_refused(tmp_path: Path) -> None:
    path, lines = tmp_path / "kddcup.data.csv", lines_of("kdd_cup", 100)
    path.write_text("\n".join(lines))
    found = load(path, "kdd_cup", seed=1)
    assert found.non_private == (NOT_PRIVATE, WORDS)
    assert set(np.concatenate([found.train, found.test])[:, -1]) <= set(range(23))
    protocols = {line.split(",")[1] for line in lines}
    assert len(np.unique(np.concatenate([found.train, found.test])[:, 1])) == len(protocols) == 3
    # The same rows in another order have the same numbers.
    path.write_text("\n".join([lines[-1], *lines[:-1]]))
    other = load(path, "kdd_cup", seed=1)
    both = [np.concatenate([one.train, one.test])[:, -1] for one in (found, other)]
    np.testing.assert_array_equal(*map(np.sort, both))
    path.write_text("\n".join([*lines, lines[0].rsplit(",", 1)[0] + ",secret."]))
    with pytest.raises(InvalidParameter, match="table of numbers") as raised:
        load(path, "kdd_cup", seed=1)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("name", ["california", "blog_feedback", "cover_type"])
def test_files_with_a_word_a_gap_or_a_missing_column_are_refused(tmp_path: Path, name: str) -> None:
    lines = lines_of(name, 30)
    cells = lines[-1].split(",")
    for bad in ("secret", "", "nan"):
        path = tmp_path / "bad.csv"
        path.write_text("\n".join([*lines[:-1], ",".join([bad, *cells[1:]])]))
        with pytest.raises(InvalidParameter, match=r"table of numbers|of finite numbers"):
            load(path, name, 1)
    path.write_text("\n".join(line.rsplit(",", 1)[0] for line in lines))
    with pytest.raises(InvalidParameter, match="columns: expected"):
        load(path, name, 1)
    path.write_text("\n".join(lines[:8]))
    with pytest.raises(InvalidParameter, match="rows: too few"):
        load(path, name, 1)
