"""`dpaudit compare`: every method of a paper on a user's rows, searched alike."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from dpaudit.certificate.evidence import BOTH
from dpaudit.certificate.order import Options
from dpaudit.check import check
from dpaudit.check.file import load
from dpaudit.cli.main import main
from dpaudit.compare import (
    Axis,
    Comparison,
    Method,
    Outcome,
    Protocol,
    Row,
    compare,
    search,
    written,
)
from dpaudit.compare import comparison as comparison_module
from dpaudit.compare.comparison import NOTHING, OPTIMUM
from dpaudit.compare.find import find
from dpaudit.compare.written import cells, markdown, notes
from dpaudit.curator.mechanism import Mechanism
from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Records
from mechanisms.papers.diff2 import compare as diff2
from mechanisms.papers.srgd import compare as srgd
from mechanisms.papers.stable_erm import compare as stable_erm
from mechanisms.papers.user_level import compare as user_level

QUICK = Protocol(budget=4, choosing=1, judging=3)
BUDGET = ("epsilon=2", "delta=1e-6")


def people(count: int, seed: int = 0) -> Records:
    """Rows of three features in [-1, 1], the first of which decides most labels."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (count, 3))
    return Records(np.column_stack([x, rng.random(count) < 1 / (1 + np.exp(-6 * x[:, 0]))]))


def few(comparison: Comparison, *names: str) -> Comparison:
    """The comparison of these methods, and of the two that every table has."""
    kept = {*names, comparison.one_pass, comparison.full_batch}
    return replace(comparison, methods=tuple(m for m in comparison.methods if m.name in kept))


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    """A quick comparison of three methods of one paper."""
    comparison = few(srgd.COMPARISON, "Accelerated-DP-SRGD, tree")
    return compare(comparison, people(400), BUDGET, protocol=QUICK)


@pytest.mark.quality
def test_every_method_has_the_same_budget_and_other_seeds_judge(outcome: Outcome) -> None:
    methods = [row for row in outcome.rows if row.method is not None]
    assert len(methods) == 3
    for row in methods:
        assert not row.refused
        assert row.tried == QUICK.budget
        assert len(row.judged) == QUICK.judging
        assert row.chosen["epsilon"] == 2
        assert row.chosen["delta"] == Fraction(1, 10**6)


def test_doing_nothing_and_the_optimum_stand_in_every_table(outcome: Outcome) -> None:
    names = [row[0] for row in cells(outcome)]
    assert names[:2] == [NOTHING, OPTIMUM]
    assert {srgd.ONE_PASS, srgd.FULL_BATCH} <= set(names)
    assert outcome.row(NOTHING).mean == pytest.approx(np.log(2))
    assert outcome.row(OPTIMUM).mean < outcome.row(NOTHING).mean


def test_a_parameter_at_the_end_of_its_grid_does_not_count(outcome: Outcome) -> None:
    row, other = outcome.rows[2], outcome.row(srgd.ONE_PASS)
    fair, marked = replace(row, ends=()), replace(row, ends=("clip",))
    assert outcome.verdict(fair, replace(other, ends=())) in ("better", "worse", "no difference")
    assert outcome.verdict(marked, other).startswith("does not count")


def test_no_row_of_a_table_with_a_parameter_at_its_end_is_better_or_worse(
    outcome: Outcome,
) -> None:
    """Of a search of four settings, as the page, the terminal and the JSON have it."""
    ended = {row.name for row in outcome.rows if row.ends}
    assert ended
    for name, *row in cells(outcome):
        if name in ended:
            assert row[6] != "none"
            assert all(not said or said.startswith("does not count (") for said in row[7:])
    inside = replace(outcome, rows=tuple(replace(row, ends=()) for row in outcome.rows))
    assert not any("does not count" in text for row in cells(inside) for text in row)


@pytest.mark.quality
def test_a_setting_that_takes_too_long_is_the_end_of_a_grid(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """More rounds than a comparison makes were not tried, however well they would have done."""
    monkeypatch.setattr(comparison_module, "MOST_RELEASES", 100)
    fixed = ("epsilon=50", "delta=1e-6", "clip=1.5", "radius=3", "step_size=0.05")
    protocol = Protocol(budget=12, choosing=1, judging=2)
    row = compare(few(srgd.COMPARISON), people(500), fixed, protocol=protocol).row(srgd.FULL_BATCH)
    assert row.ends == ("rounds",)
    assert 50 < row.chosen["rounds"] <= 100


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize(("budget", "runs"), [(1, 2), (3, 4)])
def test_each_setting_runs_once_and_the_chosen_one_is_judged(
    budget: int, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two rehearsals apart: no setting runs twice on the choosing rows, the first one neither."""
    made: list[Mapping[str, Any]] = []
    before = comparison_module._models

    def counted(method: Method, *rest: Any) -> Any:
        made.append(rest[0])
        return before(method, *rest)

    monkeypatch.setattr(comparison_module, "_models", counted)
    quick = Protocol(budget=budget, choosing=1, judging=2)
    one = replace(few(srgd.COMPARISON), methods=srgd.COMPARISON.methods[3:5])
    compare(one, people(60), BUDGET, protocol=quick)
    assert len(made) == 2 * runs


def test_a_run_that_declares_too_many_releases_does_not_begin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(comparison_module, "MOST_RELEASES", 50)
    monkeypatch.setattr(comparison_module._Limited, "_answer", lambda *_: pytest.fail("it began"))
    one = replace(few(srgd.COMPARISON), methods=srgd.COMPARISON.methods[3:5])
    made = compare(one, people(200), (*BUDGET, "rounds=51"), protocol=QUICK)
    assert all("more than 50 releases" in row.refused for row in made.rows[2:])


def test_guarantees_for_other_neighbours_do_not_count(outcome: Outcome) -> None:
    row, other = (replace(one, ends=()) for one in outcome.rows[2:4])
    scope = diff2.COMPARISON.methods[0].mechanism.scope
    assert "replace_one" in outcome.verdict(replace(row, scope=scope), other)


def test_an_optimum_that_gains_nothing_turns_no_loss_into_a_gain(outcome: Outcome) -> None:
    """Fitted to few rows, it loses on others: shares of its gain would have the wrong sign."""
    nothing, optimum, *methods = outcome.rows
    fitted = replace(outcome, rows=(nothing, replace(optimum, judged=(5.0,)), *methods))
    assert {row[3] for row in cells(fitted)} == {""}
    assert {row[3] for row in cells(outcome)} > {"0%", "100%"}


@pytest.mark.quality
def test_a_setting_that_is_the_private_number_of_records_is_said() -> None:
    """Under add_remove; a public guess by --set is none."""
    comparison = few(srgd.COMPARISON, "DP-SGD, Poisson batches")
    by_count, by_guess = (
        compare(comparison, people(100), (*BUDGET, *more), protocol=QUICK)
        for more in ((), ("expected_records=50",))
    )
    for row in by_count.rows:
        said = "expected_records is the exact number of records" in by_count.said(row)
        assert said is (row.name == "DP-SGD, Poisson batches")
    assert {by_guess.said(row) for row in by_guess.rows} == {by_guess.choice}


def test_noise_above_the_signal_is_said_of_each_method_below_the_table() -> None:
    """At epsilon 1/100 on 24 rows: of every method but of doing nothing and of the optimum."""
    quick = Protocol(budget=1, choosing=1, judging=2)
    made = compare(few(srgd.COMPARISON), people(40), ("epsilon=0.01", *BUDGET[1:]), protocol=quick)
    for row in made.rows:
        own = [text for text in made.warnings if text.startswith(f"{row.name}: noise exceeds")]
        assert bool(own) == (row.method is not None)
        assert set(own) <= set(notes(made))


def test_two_means_within_two_standard_errors_do_not_differ(outcome: Outcome) -> None:
    one = Row("one", (1.0, 1.2, 0.8))
    assert outcome.verdict(one, Row("other", (1.05, 1.25, 0.85))) == "no difference"
    assert outcome.verdict(one, Row("other", (3.0, 3.2, 2.8))) == "better"


def test_the_choice_of_settings_is_said_to_be_outside_the_guarantee(outcome: Outcome) -> None:
    assert any("not private" in note for note in notes(outcome))
    public = replace(outcome, public="survey.csv")
    assert not any("not private" in note for note in notes(public))
    assert "survey.csv, which whoever ran it declares public" in markdown(public)


def test_a_certificate_says_that_its_command_makes_more(outcome: Outcome) -> None:
    """The command is that of ``certify`` without options: all audits, and a longer examination."""
    assert Options().method == BOTH
    assert f"for {Options().seconds:g} seconds" in written.MORE
    assert f"not {written.EXAMINED:g}" in written.MORE
    orders = find("srgd", Path.cwd())
    for row in outcome.rows:
        if row.method is not None:
            order = written.certified(outcome, row, orders.order(row.method.mechanism))
            assert written.MORE in order.mechanism.setting.notes


@pytest.mark.quality
def test_public_records_are_the_only_ones_that_settings_are_chosen_on() -> None:
    comparison, public = few(srgd.COMPARISON), ("public", people(100, seed=1))
    one, other = (
        compare(comparison, people(200, seed), BUDGET, public=public, protocol=QUICK)
        for seed in (2, 3)
    )
    assert [row.chosen for row in one.rows] == [row.chosen for row in other.rows]
    assert [row.judged for row in one.rows] != [row.judged for row in other.rows]


@pytest.mark.quality
def test_settings_of_a_search_are_judged_on_other_rows_than_they_are_chosen_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[Records] = []
    objective = srgd.COMPARISON.objective(3, {})

    class Watched:
        start, optimum, warnings = objective.start, objective.optimum, objective.warnings

        def losses(self, models: np.ndarray, records: Records) -> np.ndarray:
            seen.append(records)
            return objective.losses(models, records)

    watched = replace(few(srgd.COMPARISON), objective=lambda _features, _values: Watched())
    compare(watched, people(100), BUDGET, protocol=QUICK)
    judging, choosing = seen[0], seen[2]
    rows = {tuple(row) for row in judging.values}
    assert not rows & {tuple(row) for row in choosing.values}
    assert {len(one) for one in seen} == {20}


@pytest.mark.quality
@pytest.mark.parametrize(
    "comparison",
    [srgd.COMPARISON, pytest.param(diff2.COMPARISON, marks=pytest.mark.quality)],
)
def test_a_search_starts_at_the_default_of_every_parameter(comparison: Comparison) -> None:
    """Made at the value that None stands for, a program is the one that None makes."""
    for method in comparison.methods:
        hook: Any = method.mechanism.for_shape
        count = None if str(method.mechanism.scope.adjacency) == "add_remove" else 500
        of = {one.name: one.default for one in method.free} | {"count": 500, "features": 3}
        starts = {
            one.name: one.read(
                str(one.free.start(of)) if one.kind is float else str(round(one.free.start(of))),
                one.name,
            )
            for one in method.free
            if one.default is None and one.free.start is not None
        }
        assert {one.name for one in method.free if one.default is None} == set(starts), method.name
        plain, given = hook(count, (4,)), hook(count, (4,), **starts)
        assert plain.declaration.digest == given.declaration.digest, method.name


def test_a_method_that_refuses_the_records_says_so_in_its_row() -> None:
    def refusing(_count: int | None, _row: tuple[int, ...]) -> Mechanism:
        raise InvalidParameter("needs more records")

    first = srgd.COMPARISON.methods[0]
    broken = Method("broken", replace(first.mechanism, for_shape=refusing))
    comparison = few(srgd.COMPARISON)
    comparison = replace(comparison, methods=(*comparison.methods, broken))
    found = compare(comparison, people(100), protocol=QUICK)
    assert found.row("broken").refused == "needs more records"
    assert "broken did not run: needs more records" in markdown(found)


def test_a_comparison_without_its_baselines_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="one-pass DP-SGD"):
        replace(srgd.COMPARISON, methods=srgd.COMPARISON.methods[:2])


def test_a_search_that_ends_at_the_edge_marks_the_parameter() -> None:
    found = search([Axis("x", 1.0)], lambda point: -point[0], budget=3)
    assert found.at_end(0)
    assert not search([Axis("x", 1.0)], lambda point: (point[0] - 1) ** 2, budget=5).at_end(0)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A user's CSV file."""
    file = tmp_path / "mine.csv"
    rows = people(120).values
    lines = ["a,b,c,y", *(",".join(f"{value:g}" for value in row) for row in rows)]
    file.write_text("\n".join(lines) + "\n")
    return file


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--paper", "srdg"), "there are diff2"),
        (("--paper", "srgd", "--set", "epsilom=2"), "no method of srgd has it"),
        (("--paper", "srgd", "--set", "delta=2"), "above 0 and below 1"),
        (("--paper", "srgd", "--set", "label_column=z"), "z"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_run(
    table: Path, words: tuple[str, ...], said: str
) -> None:
    label = () if "label_column=z" in words else ("--set", "label_column=y")
    result = CliRunner().invoke(main, ["compare", *words, "--data", str(table), *label])
    assert result.exit_code == 2
    assert said in result.output


def users(count: int, items: int = 2) -> Records:
    """Users of so many rows of three features each; one user in three has a row less."""
    rows = people(count * items).values.reshape(count, items, -1).copy()
    rows[::3, -1] = np.nan
    return Records(rows)


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize(
    ("paper", "method"),
    [
        (user_level.COMPARISON, "Algorithm 1, weighted inliers"),
        (stable_erm.COMPARISON, "output perturbation (CMS11)"),
    ],
    ids=["paper 1", "paper 2"],
)
def test_users_of_unequal_numbers_of_rows_are_compared(paper: Comparison, method: str) -> None:
    """A user is split, trained and judged as a whole, and noise is for all of its rows."""
    comparison = few(paper, method)
    found = compare(comparison, users(3_000), ("epsilon=8",), protocol=QUICK)
    assert found.shape == (1_800, 2, 4)
    for row in found.rows[2:]:
        assert not row.refused
        assert len(row.judged) == QUICK.judging
        assert all(np.isfinite(row.judged))
    best = found.row(user_level.FULL_BATCH).mean
    assert found.row(OPTIMUM).mean < best < found.row(NOTHING).mean


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize(
    "name",
    [
        "Algorithm 2",
        pytest.param("Algorithm 3, phases on all users", marks=pytest.mark.quality),
        "Algorithm 4, phases on disjoint users",
        pytest.param("Algorithm 5, localised", marks=pytest.mark.quality),
        pytest.param("Algorithm 6, localised", marks=pytest.mark.quality),
    ],
)
def test_algorithms_2_to_6_run_on_users_and_their_noise_is_accounted_for(name: str) -> None:
    """The claim of each at the setting that was chosen is proved, and its search is the ladder."""
    found = compare(few(stable_erm.COMPARISON, name), users(3_000), ("epsilon=8",), protocol=QUICK)
    row = found.row(name)
    assert not row.refused
    assert np.isfinite(row.judged).all()
    assert row.method is not None
    hook: Any = row.method.mechanism.for_shape
    made = hook(1_800, (2, 4), **dict(row.chosen))
    assert [str(c.check(made.declaration, made.scope).outcome) for c in made.claims] == ["proved"]
    assert made.claims[0].guarantee.epsilon == 8
    assert "ladder of gradient norms" in made.title


@pytest.mark.quality
def test_a_table_a_plot_and_a_certificate_of_each_method(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpaudit.compare.comparison.PROTOCOL", QUICK)
    out = tmp_path / "out"
    words = ["compare", "--paper", "srgd", "--data", str(table), "--set", "label_column=y"]
    result = CliRunner().invoke(main, [*words, *BUDGET, "--out", str(out), "--json"])
    assert result.exit_code == 0, result.output
    shown = json.loads(result.stdout)
    assert shown["protocol"] == QUICK.stamp
    ran = list(shown["chosen"])
    certificates = [name for name in shown["files"] if name.endswith(".json")]
    assert len(certificates) == len(ran) > 8
    assert (out / "srgd.svg").read_text().startswith("<?xml")
    for path in map(Path, certificates):
        certificate = load(path)
        check(certificate)
        text = json.dumps(certificate)
        assert "That choice is not private" in text
        assert "chosen without the data" not in text
        assert "epsilon = 2" in text
        # Likelihoods alone attack; the command that is named certifies with all audits, as said.
        predicate = certificate["predicate"]
        assert written.MORE in predicate["caveats"]
        assert not predicate["audits"]
        assert predicate["examination"]["tried"]["seconds"] == f"{written.EXAMINED:g}"
        assert predicate["reproduce"]["command"].startswith("dpaudit certify catalogue:")
        assert "--method" not in predicate["reproduce"]["command"]
    assert any(load(Path(path))["predicate"]["likelihoods"] for path in certificates)


@pytest.mark.quality
@pytest.mark.parametrize("paper", ["srgd", "diff2", "kl", "user_level", "stable_erm"])
def test_twenty_thousand_rows_take_less_than_five_minutes(paper: str, tmp_path: Path) -> None:
    """Of a processor, in an interpreter of its own: searches, plot and certificates together."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (20_000, 10))
    y = rng.random(20_000) < 1 / (1 + np.exp(-3 * x[:, 0] + 2 * x[:, 1]))
    columns = [*(f"x{i}" for i in range(10)), "y"]
    table, words = np.column_stack([x, y]), ["--set", "label_column=y"]
    if paper in ("user_level", "stable_erm"):
        table, columns = np.column_stack([table, np.arange(20_000) // 5]), [*columns, "person"]
        words += ["unit_column=person", "rows=5"]
    file = tmp_path / "mine.csv"
    np.savetxt(file, table, "%g", ",", header=",".join(columns), comments="")
    words += ["--paper", paper, "--data", str(file), "--set", *BUDGET]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "dpaudit", "compare", *words]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 300
