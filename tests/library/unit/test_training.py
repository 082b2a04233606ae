"""A mechanism run once on a user's records: nothing is drawn twice, whatever interrupts it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.certificate import training
from dpaudit.certificate.order import Options, Order
from dpaudit.certificate.replay import command_of
from dpaudit.certificate.training import Account, read_shape, refuse_other_unit, train
from dpaudit.curator.files import read_records
from dpaudit.errors import Disagreement, InvalidParameter, ReleaseInterrupted, Undeclared
from dpaudit.ledger import LedgerRefused, open_ledger, terms_of

ROWS = dp.Records(np.linspace(-1, 1, 36).reshape(12, 3))
OPTIONS = Options(trials=200)


@dataclass(frozen=True)
class Mean:
    """A noisy mean over a declared number of rows."""

    rows: int = 5

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Gaussian("mean", noise_multiplier=2)

    def run(self, curator: dp.Curator) -> Any:
        weights = np.full(self.rows, 1 / self.rows)
        return curator.release("mean", dp.ClippedMean(lambda v: v[None], 1, weights))


def mean(count: int | None = None, row: tuple[int, ...] = ()) -> dp.Mechanism:
    claim = dp.Claim(dp.GDP("0.5"), by="this test")
    program, scope = Mean(count or 5), dp.central("replace_one")
    return dp.Mechanism("mean", "A mean", "this test", program, scope, [claim], for_shape=mean)


def order(mechanism: dp.Mechanism) -> Order:
    return Order(mechanism, None, "project", {})


@pytest.mark.quality
def test_a_run_is_made_for_the_data_saved_and_never_made_again(tmp_path: Path) -> None:
    out = tmp_path / "model.npz"
    written = train(order(mean()), ROWS, out, OPTIONS)
    predicate = written.certificate["predicate"]
    with np.load(out) as arrays:
        assert arrays["output"].shape == (1, 3)
    row = {"name": "model.npz", "digest": {"sha256": hashlib.sha256(out.read_bytes()).hexdigest()}}
    assert predicate["run"]["output"] == row
    assert predicate["run"]["records"] == 12
    assert predicate["run"]["entropy"] == "operating system"
    assert "Mean(rows=12)" in predicate["mechanism"]["program"]
    assert command_of(written.certificate).shape == "12,3"
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "model.html",
        "model.json",
        "model.npz",
    ]
    with pytest.raises(Undeclared, match="an earlier run wrote it"):
        train(order(mean()), ROWS, out, OPTIONS)


@pytest.mark.quality
def test_records_that_do_not_fit_are_refused_before_anything_is_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mechanism of 5 rows for every shape: its weights do not fit 12."""
    out, fixed = tmp_path / "model.npz", replace(mean(), for_shape=None)
    said = r"does not run on records of shape \(12, 3\): .* it runs on 5 records of shape \(5,\)"
    with pytest.raises(InvalidParameter, match=said):
        train(order(fixed), ROWS, out, OPTIONS)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(training, "rehearse", lambda *_: [])
    with pytest.raises(ReleaseInterrupted, match="budget as spent"):
        train(order(fixed), ROWS, out, OPTIONS)


@dataclass(frozen=True)
class Dividing(Mean):
    """Fails on zeros with an error of its own."""

    def run(self, curator: dp.Curator) -> Any:
        def query(values: Any) -> Any:
            return np.array([[[1 / number for number in row] for row in values.tolist()]])

        return curator.release("mean", dp.ClippedMean(query, 1, np.full(12, 1 / 12)))


def test_a_program_that_fails_on_zeros_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    fails = replace(mean(), for_shape=None, program=Dividing(12))
    with pytest.raises(InvalidParameter, match=r"ZeroDivisionError \(.*nothing was charged"):
        train(order(fails), ROWS, tmp_path / "model.npz", OPTIONS)
    assert list(tmp_path.iterdir()) == []


def test_interrupted_while_it_draws_a_run_is_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "model.npz"

    def fails(_: Any) -> bytes:
        raise KeyboardInterrupt("secret 0.25")

    with monkeypatch.context() as patched:
        patched.setattr(training, "output_bytes", fails)
        with pytest.raises(ReleaseInterrupted) as raised:
            train(order(mean()), ROWS, out, OPTIONS)
    assert "secret" not in str(raised.value)
    assert not out.exists()
    with pytest.raises(Undeclared, match="interrupted while it drew"):
        train(order(mean()), ROWS, out, OPTIONS)


@pytest.mark.quality
def test_what_was_drawn_is_certified_and_not_drawn_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "model.npz"
    ledger = open_ledger(tmp_path / "ledger.sqlite")
    ledger.create("rows", terms_of("row", dp.central("replace_one"), dp.GDP("0.6")))
    account = Account(ledger, "rows", "row")

    def fails(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(training, "write_one", fails)
        with pytest.raises(KeyboardInterrupt):
            train(order(mean()), ROWS, out, OPTIONS, account)
    drawn = out.read_bytes()
    assert ledger.state("rows").unfinished == ("mean, model",)
    seed = (tmp_path / ".model.run").read_text()
    written = train(order(mean()), ROWS, out, OPTIONS, account)
    assert out.read_bytes() == drawn
    assert written.certificate["predicate"]["reproduce"]["root_seed"] in seed
    state = ledger.state("rows")
    assert (state.count, state.unfinished, state.head) == (1, (), written.head)
    # Another draw does not fit: what is left is .6^2 - .5^2.
    with pytest.raises(dp.DpauditError, match="does not fit"):
        train(order(mean()), ROWS, tmp_path / "second.npz", OPTIONS, account)
    assert not (tmp_path / "second.npz").exists()


def test_charged_and_not_drawn_is_spent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = open_ledger(tmp_path / "ledger.sqlite")
    ledger.create("rows", terms_of("row", dp.central("replace_one"), dp.GDP(2)))
    account = Account(ledger, "rows", "row")
    run = training._Run(mean(12), tmp_path / "model.npz", account, "12,3")
    run.begin()

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, "touch", killed)
        with pytest.raises(KeyboardInterrupt):
            run.keep("", lambda: np.zeros(1))
    with pytest.raises(LedgerRefused, match="charged"):
        training._Run(mean(12), tmp_path / "model.npz", account, "12,3").begin()


def test_a_run_resumes_with_the_seed_that_it_began_with(tmp_path: Path) -> None:
    run = training._Run(mean(12), tmp_path / "model.npz", None, "12,3")
    seed = run.begin()
    assert run.begin() == seed
    with pytest.raises(Undeclared, match="another mechanism, or data of another shape"):
        training._Run(mean(12), tmp_path / "model.npz", None, "13,3").begin()


def test_two_runs_into_one_file_cannot_both_draw(tmp_path: Path) -> None:
    runs = [training._Run(mean(12), tmp_path / "model.npz", None, "12,3") for _ in range(2)]
    for run in runs:
        run.begin()

    def draw() -> Any:
        with pytest.raises(Undeclared, match="count its budget as spent"):
            runs[1].keep("", lambda: np.zeros(1))
        return np.ones(1)

    output, _ = runs[0].keep("", draw)
    assert output == 1


@pytest.mark.quality
def test_a_claim_that_does_not_hold_stops_a_run_before_data(tmp_path: Path) -> None:
    mechanism = replace(
        mean(), claims=[dp.Claim(dp.GDP("0.4"), by="this test")], for_shape=None, program=Mean(12)
    )
    with pytest.raises(Disagreement, match="no data were touched"):
        train(order(mechanism), ROWS, tmp_path / "model.npz", OPTIONS)
    assert list(tmp_path.glob("*model.npz")) == []
    assert not (tmp_path / ".model.run").exists()


def test_shapes_as_text() -> None:
    assert read_shape("500,11") == (500, (11,))
    assert read_shape(",4,3") == (None, (4, 3))
    for wrong in ("", "500", "0,3", "a,3", "5,-1", ","):
        with pytest.raises(InvalidParameter, match="expected counts"):
            read_shape(wrong)


# --- files ----------------------------------------------------------------------------------------


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_a_table_by_record_and_by_unit(tmp_path: Path) -> None:
    path = written(tmp_path / "d.csv", "y,who,a\n1,x,10\n0,z,20\n2,x,30\n3,x,40\n\n")
    plain = read_records(written(tmp_path / "p.csv", "y,a\n1,10\n0,20\n"), label="y")
    assert plain.values.tolist() == [[10, 1], [20, 0]]
    by_unit = read_records(path, label="y", unit="who", rows=2)
    assert by_unit.values.tolist() == [[[10, 1], [30, 2]], [[20, 0], [20, 0]]]
    np.savez(tmp_path / "d.npz", features=np.eye(2), labels=np.arange(2))
    assert read_records(tmp_path / "d.npz").values.tolist() == [[1, 0, 0], [0, 1, 1]]


def test_one_unit_more_rows_changes_its_own_record_alone(tmp_path: Path) -> None:
    text = "who,a\nx,10\nz,20\nv,25\n"
    before = read_records(written(tmp_path / "a.csv", text), unit="who", rows=3).values
    after = read_records(written(tmp_path / "b.csv", text + "z,90\n"), unit="who", rows=3).values
    assert (before != after).any(axis=(1, 2)).tolist() == [False, True, False]


def test_a_record_has_rows_and_columns_of_a_unit_go_with_how_many(tmp_path: Path) -> None:
    table = written(tmp_path / "a.csv", "who,a\nx,10\nz,20\n")
    for options, said in (
        ({"unit": "who", "rows": 0}, "rows = 0"),
        ({"unit": "who"}, "give both"),
        ({"rows": 2}, "give both"),
    ):
        with pytest.raises(InvalidParameter, match=said):
            read_records(table, **options)  # type: ignore[arg-type]
    np.save(tmp_path / "a.npy", np.eye(2))
    for name in ("label", "unit", "rows"):
        with pytest.raises(InvalidParameter, match=r"give both|there are column 0, column 1"):
            read_records(tmp_path / "a.npy", **{name: "1"})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n1,2\n\n1,secret\n", "column 'b', line 4, holds what is no number; encode"),
        (
            "a,b\n1,2\n1,\n",
            "column 'b', line 3, is blank or NaN; fill it in, or leave",
        ),
        ("a,b\n1,2\n nan ,2\n", "column 'a', line 3, is blank or NaN; fill it in"),
        ("a,b\n1,2\n1,-inf\n", "column 'b', line 3, holds what is no finite number"),
        ('a,b\n1,"2\n"\nsecret,2\n', "column 'a', line 4, holds what is no number"),
        ("a,a\n1,2\n", "columns 1 and 2 have the same name; names must be different, rename"),
        ("a, a\n1,2\n", "columns 1 and 2 have the same name"),
        ("a,\n1,2\n", "column 2 has no name; give it one"),
        ("1.25,7\n1,2\n", "line 1 is numbers alone; put a line of names above it"),
        ("a,b\n1,2\n1\n", "line 3 has 1 cells, and there are 2 names"),
        ("a,b\n1,2\n1,2,3\n", "line 3 has 3 cells, and there are 2 names"),
        ("a,b\n", "there are no records below the line of names"),
        ("", "it is empty; expected a line of names, and records below"),
    ],
)
def test_a_file_that_is_no_table_is_named_and_not_quoted(
    tmp_path: Path, text: str, said: str
) -> None:
    with pytest.raises(InvalidParameter, match=said) as raised:
        read_records(written(tmp_path / "d.csv", text))
    assert "secret" not in str(raised.value)
    assert "1.25" not in str(raised.value)


def test_a_row_of_nobody_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "d.csv", "who,a\nx,1\n ,2\n")
    with pytest.raises(InvalidParameter, match="column 1, line 3, is blank or NaN"):
        read_records(path, unit="who", rows=1)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("shape", [(4, 3), (4, 2, 3)])
def test_an_array_holds_finite_numbers(
    value: float, shape: tuple[int, ...], tmp_path: Path
) -> None:
    """Only of a unit's items may one be missing: it is no number in all of its columns."""
    values = np.arange(float(np.prod(shape))).reshape(shape)
    np.save(tmp_path / "a.npy", values)
    assert read_records(tmp_path / "a.npy").values.tolist() == values.tolist()
    values[2, ..., 0] = value
    np.save(tmp_path / "a.npy", values)
    with pytest.raises(InvalidParameter, match=r"a\.npy: record 3 holds what is no finite number"):
        read_records(tmp_path / "a.npy")
    if len(shape) == 3:
        values[2, 1] = np.nan
        values[2, 0] = 1
        np.save(tmp_path / "a.npy", values)
        assert np.isnan(read_records(tmp_path / "a.npy").values[2, 1]).all()


@pytest.mark.parametrize("empty", [np.zeros((0, 3)), np.zeros((3, 0)), np.zeros(3), np.float64(1)])
def test_an_array_has_records(empty: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", empty)
    with pytest.raises(InvalidParameter, match=r"a\.npy: shape .*; expected \(records, columns\)"):
        read_records(tmp_path / "a.npy")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gone.npy", "No such file"),
        ("empty.npy", "it cannot be read as arrays"),
        ("text.npy", "the records are no numbers"),
        ("two.npz", "holds 'first', 'second'; expected one array"),
    ],
)
def test_what_is_no_array_of_numbers_is_named_and_not_quoted(
    tmp_path: Path, name: str, said: str
) -> None:
    (tmp_path / "empty.npy").write_bytes(b"")
    np.save(tmp_path / "text.npy", np.array(["secret"]))
    np.savez(tmp_path / "two.npz", first=np.eye(2), second=np.eye(2))
    with pytest.raises(InvalidParameter, match=f"{name}: {said}") as raised:
        read_records(tmp_path / name)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("content", "said"), [(None, "No such file"), (b"a,b\n1,\xff\n", "line 2 holds a byte")]
)
def test_a_table_that_cannot_be_read_is_named(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    path = tmp_path / "d.csv"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidParameter, match=rf"d\.csv: {said}"):
        read_records(path)


def test_columns_that_are_not_there(tmp_path: Path) -> None:
    path = written(tmp_path / "d.csv", "a,b\n1,2\n")
    with pytest.raises(InvalidParameter, match="no such column; there are a, b"):
        read_records(path, label="c")
    with pytest.raises(InvalidParameter, match="give both"):
        read_records(path, unit="a")


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        (dp.Setting(unit_entity="visit"), "for one visit, and the account is kept for one person"),
        (
            dp.Setting(unit_entity="person", unit_period="one day"),
            "one person, period one day, and",
        ),
    ],
)
def test_a_guarantee_for_another_unit_is_not_charged(setting: dp.Setting, said: str) -> None:
    found = replace(mean(), setting=setting)
    with pytest.raises(InvalidParameter, match=said):
        refuse_other_unit(found, "person")
    refuse_other_unit(replace(found, setting=dp.Setting(unit_entity=" Person")), "person")
    refuse_other_unit(replace(found, setting=dp.Setting()), "person")


def test_rows_of_a_unit_that_do_not_count_are_said(tmp_path: Path) -> None:
    text = "who,a\n" + "".join(f"x,{k}\n" for k in range(7)) + "z,90\n"
    said: list[str] = []
    path = written(tmp_path / "a.csv", text)
    read_records(path, unit="who", rows=5, warn=said.append)
    assert len(said) == 1
    assert "2 of 8 rows are left out: 1 of 2 units have more than 5" in said[0]
    read_records(path, unit="who", rows=7, warn=said.append)
    assert len(said) == 1


def test_noise_above_the_signal_is_said_before_anything_is_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One row of 3 numbers moves the mean by 2 at most, and noise of norm 4 sqrt(3) is added."""
    said: list[str] = []

    def stopped(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "plan", stopped)
    one = dp.Records(ROWS.values[:1])
    for records in (one, ROWS):
        out = tmp_path / f"{len(records)}.npz"
        with pytest.raises(KeyboardInterrupt):
            train(order(mean()), records, out, OPTIONS, warn=said.append)
    assert len(said) == 1
    assert "noise exceeds the signal" in said[0]
    assert "3.46 times the most that 1 record can contribute" in said[0]
