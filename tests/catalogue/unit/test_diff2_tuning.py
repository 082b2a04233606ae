"""The paper's grid search: its patience rule, what it reports, that it is marked non-private."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from dpaudit.accountant.account import account
from dpaudit.curator.curator import Sampler
from dpaudit.errors import InvalidParameter
from dpaudit.exact import is_infinite
from dpaudit.families.composition import Compose
from dpaudit.kernels.query import Array, Records
from dpaudit.scope import central
from mechanisms.papers.common.losses import LeastSquares, mean_value, squared_gradient_norm
from mechanisms.papers.diff2.framework import Diff2
from mechanisms.papers.diff2.noise import Noise
from mechanisms.papers.diff2.tuning import (
    PERIOD_SHARES,
    RADII,
    STEP_SIZES,
    Patience,
    Tried,
    paired_one_sided_ttest,
    paper_grid_search,
    path_of,
)

SCOPE = central("replace_one")


def replayed(losses: list[float], every: int = 1, **options: Any) -> Tried[str]:
    """A run whose losses are given, at every evaluation."""

    def start(_: str, step_size: float) -> Iterator[Array]:
        for loss in losses:
            yield from (np.full((1, 1), loss) for _ in range(every))

    found = paper_grid_search(
        ["only"],
        start,
        lambda x: (float(x[0, 0]), float(x[0, 0]) ** 2),
        step_sizes=[1.0],
        patience=Patience(every=every, **options),
    )
    (run,) = found.tried
    return run


def test_the_paper_s_grid() -> None:
    assert STEP_SIZES == (1, 0.5, 0.25, 0.125, 0.0625, 2**-5, 2**-6, 2**-7, 2**-8, 2**-9)
    assert RADII == (1, 3, 10, 30, 100)
    assert [round(share * 2000) for share in PERIOD_SHARES] == [6, 20, 60, 200]
    assert Patience() == Patience(every=20, most=5, tolerance=1.05)


@pytest.mark.parametrize(
    ("losses", "survived", "evaluated"),
    [
        ([1, 0.9, 0.8], True, 3),
        ([1, 1.06, 1.06, 1.06, 1.06], True, 5),  # four failures
        ([1, 1.06, 1.06, 1.06, 1.06, 1.06, 0], False, 6),  # five
        ([1, 1.05, 1.05, 1.05, 1.05, 1.05, 1.05], True, 7),  # not above 1.05 times the best
        ([1, 2, 2, 2, 2, 0.9, 2, 2, 2, 2], True, 10),  # a new best starts anew
        ([1, 2, 2, 2, 2, 1, 2, 2], False, 7),  # an equal loss is no new best
        ([1, 2, 2, 1.01, 2, 2, 1.01, 2], False, 8),  # in between, the count stays
        ([1, math.nan, 0.5], False, 2),
        ([math.nan], False, 1),
        ([1, math.inf, math.inf, math.inf, math.inf, math.inf], False, 6),
    ],
)
def test_the_patience_rule(losses: list[float], survived: bool, evaluated: int) -> None:
    run = replayed(losses)
    assert (run.survived, len(run.losses)) == (survived, evaluated)


def test_losses_are_evaluated_every_so_many_rounds() -> None:
    run = replayed([3, 2, 1], every=4)
    assert run.losses == (3, 2, 1)
    assert run.gradients == (9, 4, 1)
    assert (run.lowest_loss, run.smallest_gradient) == (1, 1)
    assert replayed([math.nan]).lowest_loss == math.inf


def test_the_first_step_size_that_lasts_is_taken() -> None:
    """Smaller ones are not tried, however much better."""
    asked: list[tuple[str, float]] = []

    def start(setting: str, step_size: float) -> Iterator[Array]:
        asked.append((setting, step_size))
        bad = step_size > (0.5 if setting == "a" else 0.1)
        yield from (np.full((1, 1), math.nan if bad and r else step_size) for r in range(3))

    found = paper_grid_search(
        ["a", "b"], start, lambda x: (x.item(), -x.item()), step_sizes=[1, 0.5, 0.25, 0.125],
        patience=Patience(every=1),
    )  # fmt: skip
    assert asked == [("a", 1), ("a", 0.5), ("b", 1), ("b", 0.5), ("b", 0.25), ("b", 0.125)]
    assert [(run.setting, run.step_size) for run in found.chosen] == [("a", 0.5)]
    best = found.best(lambda run: run.lowest_loss)
    assert best is not None
    assert best.setting == "a"
    none = paper_grid_search(["b"], start, lambda x: (x.item(), 0.0), step_sizes=[1.0])
    assert none.best(lambda run: run.lowest_loss) is not None
    lost = paper_grid_search(
        ["b"], start, lambda x: (x.item(), 0.0), step_sizes=[1.0], patience=Patience(every=1)
    )
    assert lost.best(lambda run: run.lowest_loss) is None


def test_a_search_is_marked_as_not_private() -> None:
    """Whatever is composed with it has no finite guarantee."""
    found = paper_grid_search(["a"], lambda *_: iter([np.ones((1, 1))]), lambda x: (1.0, 1.0))
    assert found.reason.startswith("tuning: non-private")
    made = program()
    assert is_infinite(account(found.declaration, SCOPE).step("gdp").value)
    both = Compose(found.declaration, made.declaration(SCOPE))
    assert is_infinite(account(both, SCOPE).step("gdp").value)


def program(step_size: float = 0.1) -> Diff2:
    return Diff2(
        LeastSquares(), 2, (10, 10), 60, 5, 5.0, 5.0, step_size, Noise(0.001, 0.001)
    )  # fmt: skip


def test_it_tunes_a_program() -> None:
    """Least squares: a step of 8 diverges, a smaller one lasts; the run is the program's own."""
    rows = np.random.default_rng(0).uniform(-1, 1, (20, 3))

    def curator(made: Diff2) -> Sampler:
        rng = np.random.default_rng(1)
        return Sampler(made.declaration(SCOPE), SCOPE, Records(rows), rng=rng)

    def start(_: None, step_size: float) -> Iterator[Array]:
        made = program(step_size)
        return path_of(made, curator(made))

    def evaluate(x: Array) -> tuple[float, float]:
        loss = LeastSquares()
        return float(mean_value(loss, x, rows)[0]), float(squared_gradient_norm(loss, x, rows)[0])

    found = paper_grid_search(
        [None], start, evaluate, step_sizes=[8.0, 0.5], patience=Patience(every=5, most=3)
    )
    assert [run.survived for run in found.tried] == [False, True]
    assert len(found.chosen[0].losses) == 13
    assert found.chosen[0].lowest_loss < found.chosen[0].losses[0]
    iterates = list(path_of(program(0.5), curator(program(0.5))))
    assert len(iterates) == 61
    assert evaluate(iterates[-1])[0] == found.chosen[0].losses[-1]


@pytest.mark.parametrize(
    ("settings", "step_sizes"),
    [([], [1.0]), (["a"], []), (["a"], [0.0]), (["a"], [math.nan]), (["a"], [math.inf])],
)
def test_senseless_searches_are_refused(settings: list[str], step_sizes: list[float]) -> None:
    with pytest.raises(InvalidParameter):
        paper_grid_search(
            settings, lambda *_: iter([np.ones((1, 1))]), lambda x: (1.0, 1.0),
            step_sizes=step_sizes,
        )  # fmt: skip


def test_a_run_without_iterates_and_bad_patience_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="no iterate"):
        paper_grid_search(["a"], lambda *_: iter([]), lambda x: (1.0, 1.0))
    for change in ({"every": 0}, {"most": 0}, {"every": 2.5}, {"tolerance": 0.5},
                   {"tolerance": math.nan}, {"tolerance": math.inf}, {"most": True}):  # fmt: skip
        with pytest.raises(InvalidParameter, match=next(iter(change))):
            Patience(**change)  # type: ignore[arg-type]


# --- the test ------------------------------------------------------------------------------------


def test_a_paired_one_sided_test_over_five_seeds() -> None:
    """By hand: d = -1, -2, -3, -2, -2, t = -2 / sqrt(1/10); the law of T_4 has a closed form."""
    found = paired_one_sided_ttest([1, 1, 1, 2, 3], [2, 3, 4, 4, 5])
    t = -2 / (math.sqrt(0.5) / math.sqrt(5))
    assert found.degrees == 4
    assert found.statistic == pytest.approx(t, rel=1e-12)
    x = t / math.sqrt(4 + t**2)
    assert found.p_value == pytest.approx(0.5 + 0.75 * (x - x**3 / 3), rel=1e-9)
    other = paired_one_sided_ttest([2, 3, 4, 4, 5], [1, 1, 1, 2, 3])
    assert other.p_value == pytest.approx(1 - found.p_value)


@pytest.mark.parametrize(
    ("lower", "higher"),
    [([1.0], [2.0]), ([1, 2], [1]), ([1, math.nan], [1, 2]), ([1, math.inf], [1, 2]),
     ([1, 2], [2, 3]), ([], [])],
)  # fmt: skip
def test_pairs_that_make_no_test_are_refused(lower: list[float], higher: list[float]) -> None:
    with pytest.raises(InvalidParameter):
        paired_one_sided_ttest(lower, higher)
