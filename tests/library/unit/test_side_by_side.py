"""The comparison of bounds: shares above the truth, ratios, and a child process that answers."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import bounds, side_by_side
from benchmarks.side_by_side import Bench, Others, Row

SIDES = (np.array([1.0, 2.0]), np.array([0.0]))

CHILD = """
import json, sys
import numpy as np

for line in sys.stdin:
    question = json.loads(line)
    with np.load(question["scores"]) as scores:
        total = float(scores["alternative"].sum() - scores["null"].sum())
    answers = {"good": {"bound": total * question["delta"], "seconds": 0.5}}
    print(json.dumps(answers | {"bad": {"failed": "ValueError: no"}}), flush=True)
"""


def rows() -> list[Row]:
    return [
        Row("s", "dpaudit", 1.0, [0.6, 0.8, 0.7], [0.1] * 3),
        Row("s", "valid", 1.0, [0.5] * 3, [0.1] * 3),
        Row("s", "estimate", 1.0, [1.5] * 3, [0.1] * 3),
        Row("null", "dpaudit", 0.0, [0.0] * 3, [0.1] * 3),
        Row("null", "valid", 0.0, [0.0] * 3, [0.1] * 3),
    ]


def test_a_row_counts_what_is_above_the_truth() -> None:
    row = Row("s", "x", 1.0, [0.5, 1.5, 1.0, 2.0])
    assert row.above == 0.5
    assert row.median == 1.25
    assert row.to_json()["runs"] == 4
    assert math.isnan(Row("s", "x", 1.0).median)


def test_an_event_of_a_hundredth_bounds_epsilon_from_below() -> None:
    """One seed; a bound is above the truth with probability 5%, and on equal sides it is 0."""
    rng = np.random.default_rng(1)
    response = bounds.response_sides(rng, 20_000)
    assert 2.5 < bounds.sniper(response, 1e-5) < 3.0
    assert bounds.sniper(bounds.no_sides(rng, 2_000), 1e-5) == 0.0


def test_tools_that_are_not_run_are_named_beside_those_that_are() -> None:
    text = "\n".join(bounds.side_by_side_lines({"10 runs": [["dpaudit", 0.5, 0.01, 0.2]]}))
    assert "| dpaudit | 0.500 | 1.0% | 0.2 |" in text
    assert "dp_auditorium is not on PyPI" in text


def test_ratios_are_to_the_best_that_keeps_its_rate() -> None:
    assert bounds.invalid(rows()) == {"estimate"}
    (ratio,) = bounds.ratios(rows())
    assert (ratio["best_of_theirs"], ratio["setting"]) == ("valid", "s")
    assert ratio["ratio"] == pytest.approx(1.4)


def test_the_child_answers_and_fails_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "child.py"
    script.write_text(CHILD)
    monkeypatch.setattr(side_by_side, "SCRIPT", script)
    with Others(Path(sys.executable)) as others:
        answers = others.ask(SIDES, 0.5, ["good", "bad"])
        assert others.ask(SIDES, 0.5, []) == {}
    bench = Bench(others, 1, 1.0)
    bench.add("s", 2.0, {"dpaudit": (1.0, 0.1)}, answers)
    found = {tool: row for (_, tool), row in bench.rows.items()}
    assert found["good"].bounds == [1.5]
    assert (found["bad"].bounds, found["bad"].failed) == ([], "ValueError: no")
    assert "ValueError: no" in bounds.text(
        {"bounds": [row.to_json() for row in bench.rows.values()], "ratios": []}
    )


def test_alone_there_are_no_answers() -> None:
    with Others(None) as others:
        assert others.ask(SIDES, 0.5, ["good"]) == {}


def test_an_environment_that_is_ready_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".ready").touch()
    assert side_by_side.environment(tmp_path) == tmp_path / "bin" / "python"
    assert [path.name for path in tmp_path.iterdir()] == [".ready"]


def test_repetitions_have_streams_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    bench = Bench(Others(None), 1, 1.0)
    draws = [rng.random() for name in ("a", "b") for rng in bench.repeat(5, name)]
    assert len(set(draws)) == 10
    assert "a: 4 of 5 runs" in capsys.readouterr().err


def test_the_settings_are_what_they_say() -> None:
    """Scores of the sides of each null against closed forms; 40,000 draws, five standard errors."""
    rng, size = np.random.default_rng(0), 40_000
    mu = bounds.gaussian_mu(1.0, 1e-5)
    assert mu == pytest.approx(0.26805, abs=1e-5)
    for sides, rates in (
        (bounds.laplace_sides(rng, size), (0.5, math.exp(-1) / 2)),
        (bounds.response_sides(rng, size), (1 / (1 + math.exp(-3)), 1 / (1 + math.exp(3)))),
    ):
        for scores, rate in zip(sides, rates, strict=True):
            found = np.mean(scores >= scores.max() - 1e-12)
            assert abs(found - rate) < 5 * math.sqrt(rate * (1 - rate) / size)
    tails = bounds.laplace_tails()
    assert np.max(np.log(tails.rates / tails.other_rates)) == pytest.approx(1.0, abs=1e-9)


def test_likelihoods_of_a_thousand_runs_a_side_bound_a_gaussian_and_never_above_the_truth() -> None:
    """Five audits at 5%: all are below, or the bound errs far more often than it says."""
    mu, delta = bounds.gaussian_mu(1.0, 1e-5), 1e-5
    rng = np.random.default_rng(4)
    found = [bounds.likelihoods(rng, mu, delta, 2_000)[0] for _ in range(5)]
    assert sum(bound > 1 for bound in found) <= 1
    assert np.median(found) > 0.95
