"""The paper's own preparation of data: by the data's statistics, declared, read like the other."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from dpaudit.accountant.account import account
from experiments.diff2 import (
    clients,
    network,
    preprocessed,
    preprocessed_five,
    problem,
    statements,
)
from experiments.diff2.runs import SCOPE
from experiments.lab.model import Cell, Check, Findings, Result, Results, Size, Status

MEASURED = {"gradient": 1e-5, "test": 0.01, "step_size": 0.5, "gradient_radius": 3.0,
            "difference_radius": 3.0, "restart_every": 2, "epsilon": 2.3, "whole": math.inf,
            "survived": 1, "runs": 3, "start": 0.5}  # fmt: skip


def measured(cell: Cell, loss: float) -> Result:
    """A search that ended at a loss, DIFF2-GD's a tenth lower in all measures, seeds apart."""
    lower = 0.9 if cell.text("method") == "diff2" else 1.0
    lower *= 1 + 0.001 * cell.count("seed") * (1 + (lower < 1))
    values = {"loss": lower * loss, "gradient": lower * 1e-5, "test": lower * 0.01}
    return Result(cell, {**MEASURED, **values, "curve": [0.5, loss]})


def of_the_grid() -> Results:
    return Results(tuple(measured(cell, 0.1) for cell in preprocessed.cells(Size.FULL)))


@pytest.mark.parametrize(("name", "numeric"), [("randhie", 4), ("friedman1", 8)])
def test_rows_are_prepared_as_section_6_says(name: str, numeric: int) -> None:
    """Training rows have mean 0 and deviation 1; indicators stay; the largest target is 1."""
    made = preprocessed.split(name, 0)
    features = made.train[:, :-1]
    np.testing.assert_allclose(features[:, :numeric].mean(axis=0), 0.0, atol=1e-9)
    np.testing.assert_allclose(features[:, :numeric].std(axis=0), 1.0, rtol=1e-9)
    assert ((features[:, numeric:] >= 0) & (features[:, numeric:] <= 1)).all()
    targets = np.concatenate([made.train[:, -1], made.test[:, -1]])
    assert 0.9 < np.abs(targets).max() <= 1
    assert len(made.train) % network.CLIENTS == 0
    other = preprocessed.split(name, 1)
    assert not np.array_equal(other.train[:, -1], made.train[:, -1])  # every seed splits anew


def test_the_preparation_is_declared_and_leaves_no_guarantee() -> None:
    """One record moves every prepared row; without what is declared epsilon would be 3."""
    search = preprocessed.Search("randhie", "diff2", 0, 40, 2)
    made = search.program(search.settings()[0], 1.0)
    silent = replace(made, non_private=())
    epsilons = [
        float(account(one.declaration(SCOPE), SCOPE).epsilon(problem.DELTA).upper)
        for one in (made, silent)
    ]
    assert math.isinf(epsilons[0])
    assert epsilons[1] <= preprocessed.EPSILON
    assert search.spent() == (epsilons[1], epsilons[0])


def test_at_epsilon_5_only_the_noise_is_another() -> None:
    """The two searches' programs differ in their noise, which is that of epsilon 5."""
    for method in ("dp_gd", "diff2"):
        three, five = (
            preprocessed.Search("randhie", method, 0, 40, 2, one.EPSILON)
            for one in (preprocessed, preprocessed_five)
        )
        made, other = (one.program(one.settings()[0], 1.0) for one in (three, five))
        assert replace(made, noise=other.noise) == other
        assert made.noise != other.noise
        assert 3 < five.spent()[0] <= preprocessed_five.EPSILON
        assert math.isinf(five.spent()[1])
    grids = [
        [replace_epsilon(cell) for cell in one.cells(Size.FULL)]
        for one in (preprocessed, preprocessed_five)
    ]
    assert set(grids[1]) < set(grids[0])


def replace_epsilon(cell: Cell) -> tuple[object, ...]:
    return tuple(pair for pair in cell.parameters if pair[0] != "epsilon")


def test_both_methods_have_the_grid_of_the_network() -> None:
    for method in network.NAMES:
        search = preprocessed.Search("randhie", method, 0, 120, 10)
        assert search.settings() == network._settings(method, 120)


def test_descent_without_noise_lowers_the_loss() -> None:
    cell = Cell.of(data="randhie", method="gd", epsilon=3, seed=0, rounds=20, clients=1)
    found = preprocessed.run(cell, np.random.default_rng(0))
    assert 0 < float(np.asarray(found["loss"])) < float(np.asarray(found["start"]))
    assert (found["epsilon"], found["whole"]) == (math.inf, math.inf)


def test_the_page_says_what_is_private_and_what_is_not() -> None:
    found = preprocessed.read(of_the_grid())
    assert not any("each run alone has the stated epsilon" in note for note in found.notes)
    assert any("not private" in note for note in found.notes)
    (table,) = (t for t in found.tables if "with the preparation" in t.columns)
    assert all(row[-1] == math.inf and row[-2] == 2.3 for row in table.rows)
    assert all('"' in c.source for c in found.checks if c.name.startswith(preprocessed.GAP))


def asked(results: Results) -> list[Check]:
    return list(statements.other_metrics(results))


def test_the_other_two_metrics_are_asked_where_they_are_the_papers() -> None:
    """Lower in every seed holds; above misses; a wide spread decides nothing."""
    checks = asked(of_the_grid())
    assert {check.status for check in checks} == {Status.HELD}
    assert len(checks) == len(statements.OTHERS) * 2
    swapped = Results(
        tuple(
            replace(r, values={**r.values, "test": 0.02})
            if r.cell.text("method") == "diff2" else r
            for r in of_the_grid()
        )
    )  # fmt: skip
    missed = [check for check in asked(swapped) if check.status is Status.MISSED]
    assert [check.name.startswith("test loss") for check in missed] == [True, True]
    wide = Results(
        tuple(
            replace(r, values={**r.values, "gradient": 1e-5 * (1 + r.cell.count("seed") ** 2)})
            if r.cell.text("method") == "diff2" else r
            for r in of_the_grid()
        )
    )  # fmt: skip
    assert Status.INCONCLUSIVE not in {check.status for check in checks}
    assert any(check.status is not Status.HELD for check in asked(wide))
    epsilons = [Cell.of(**{**dict(r.cell.parameters), "epsilon": 1}) for r in of_the_grid()]
    none = Results(tuple(measured(cell, 0.1) for cell in epsilons))
    assert asked(none) == []


def test_who_is_ahead_in_training_loss_is_a_check() -> None:
    found: Findings = preprocessed.read(of_the_grid())
    ahead = [c for c in found.checks if c.name.startswith("training loss")]
    assert {check.status for check in ahead} == {Status.HELD}
    assert len(ahead) == 2


def test_what_the_statements_say_of_sizes_is_so() -> None:
    says = {one.place + one.experiment: one.says + one.why for one in statements.DIFF2.statements}
    assert "eight seeds, R = 120, 24 settings against 2" in statements.PREPARED
    grid = [len(network._settings(method, 120)) for method in ("diff2", "dp_gd")]
    assert (preprocessed.SEEDS[Size.FULL], network.ROUNDS[Size.FULL], *grid) == (8, 120, 24, 2)
    assert {c.count("epsilon") for c in preprocessed.cells(Size.FULL)} == {3}
    assert "five of 100 to 1,600 records" in says["Proposition 4.1diff2_clients"]
    assert (len(clients.SIZES), clients.SIZES[0], clients.SIZES[-1]) == (5, 100, 1_600)
    # K = b = sqrt(N) <= 2 N / (3 P alpha^2), alpha = 1 + ceil(2 log(1 / delta) / epsilon).
    alpha = 1 + math.ceil(2 * math.log(1 / float(problem.DELTA)) / 3)
    least = (1.5 * 10 * alpha**2) ** 2
    (why,) = (text for text in says.values() if "K = b = sqrt(N) BVR" in text)
    assert f"N = {least / 1e6:.1f} million at 10 clients" in why
