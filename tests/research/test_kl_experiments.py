"""The losses, data sets and readings of the KL experiments, each against an independent value."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Records
from dpaudit.scope import Adjacency
from experiments.kl import adaptive, loop, proximal, spider, stationary
from experiments.kl.problem import Landscape, decay, logarithm, power, replicas, sampler
from experiments.kl.reading import fitted, median_and_error
from experiments.lab.model import Cell, Result, Results, Size
from mechanisms.papers.kl.adaptive import NORM, Walked
from mechanisms.papers.kl.adaptive_printed import PrintedAdaptiveNoisyGD
from mechanisms.papers.kl.condition import check_kl
from mechanisms.papers.kl.problem import KLProblem

LANDSCAPES = {
    "decay": decay(),
    "power 1.2": power(1.2, 1.0, 1.0),
    "power 1.5": power(1.5, 1.2, 1.5),
    "power 2": power(2.0, 1.5, 1.5),
    "power 4": power(4.0, 1.0, 1.0),
    "logarithm": logarithm(),
}
ORIGIN = np.zeros((1, 3))


def points(name: str, count: int = 200) -> np.ndarray:
    """Where the constants of a loss hold: w_1 >= 0 for the decay, else the unit ball."""
    rng = np.random.default_rng(3)
    found = rng.uniform(-0.57, 0.57, size=(count, 3))
    return np.abs(found) if name == "decay" else found


@pytest.mark.parametrize("name", LANDSCAPES)
def test_gradients_are_the_losses_differences(name: str) -> None:
    loss, at, step = LANDSCAPES[name].loss, points(name), 1e-6
    for axis in range(3):
        shift = step * np.eye(3)[axis]
        up, down = (loss.values(at + s, ORIGIN)[:, 0] for s in (shift, -shift))
        expected = (up - down) / (2 * step)
        assert loss.gradients(at, ORIGIN)[:, 0, axis] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("name", LANDSCAPES)
def test_slopes_stay_below_the_lipschitz_constant(name: str) -> None:
    on = LANDSCAPES[name]
    assert on.gradient_norms(points(name)).max() <= on.lipschitz


@pytest.mark.parametrize("name", [n for n in LANDSCAPES if n != "power 4"])
def test_gradients_move_no_faster_than_the_smoothness(name: str) -> None:
    on, at = LANDSCAPES[name], points(name)
    near = at + 1e-3 * np.sign(at)
    apart = on.loss.gradients(at, ORIGIN) - on.loss.gradients(near, ORIGIN)
    rate = np.linalg.norm(apart[:, 0], axis=1) / np.linalg.norm(at - near, axis=1)
    assert rate.max() <= on.smoothness * (1 + 1e-9)


@pytest.mark.parametrize("name", [n for n in LANDSCAPES if n != "logarithm"])
def test_the_kl_condition_holds_with_equality(name: str) -> None:
    on = LANDSCAPES[name]
    checked = check_kl(
        on.kl,
        on.excess,
        lambda w: np.asarray(on.loss.gradients(w, ORIGIN))[:, 0],
        0.0,
        points(name),
    )
    assert checked.held
    assert checked.worst == pytest.approx(1.0, abs=1e-9)


def test_no_condition_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="no KL condition"):
        _ = logarithm().kl


def test_a_lipschitz_constant_below_the_slope_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="below the slope"):
        power(1.5, 1.2, 1.0)


def test_starting_gaps() -> None:
    assert power(2.0, 1.5, 1.5).starting_gap == 0.5
    assert decay().starting_gap == 1.0
    assert logarithm().starting_gap == pytest.approx(math.log(901))


@pytest.mark.parametrize("adjacency", [Adjacency.REPLACE_ONE, Adjacency.ZERO_OUT])
def test_one_record_stands_for_as_many_equal_ones(adjacency: Adjacency) -> None:
    on, at, size = power(1.5, 1.2, 1.5), points("power 1.5", 4), 7
    ours = on.problem(3, size)
    plain = KLProblem(on.loss, 3, size, on.lipschitz, ours.start)
    rows = Records(np.zeros((size, 3)))
    for make in ("gradient", "difference"):
        short, full = (
            p.mean_gradient(at) if make == "gradient" else p.mean_difference(at, -at, 0.1)
            for p in (ours, plain)
        )
        assert short.norm == full.norm
        assert short.value(replicas(3)) == pytest.approx(full.value(rows), rel=1e-12)
        assert short.sensitivity(adjacency, 1) == full.sensitivity(adjacency, size)
    assert ours.initial(2).tolist() == [[1.0, 0.0, 0.0]] * 2


def test_median_and_its_error() -> None:
    values = list(np.random.default_rng(1).normal(size=10_000))
    median, error = median_and_error(values)
    assert median == pytest.approx(np.median(values))
    assert error == pytest.approx(math.sqrt(math.pi / 2) / 100, rel=0.2)  # of normal values
    with pytest.raises(InvalidParameter, match="at least 4"):
        median_and_error([1.0, 2.0, 3.0])


def test_slopes_are_those_of_the_medians() -> None:
    rows = [
        Result(Cell.of(n=n), {"excess": [f * n**-1.5 for f in (0.5, 1.0, 1.0, 1.0, 9.0)]})
        for n in (10, 100, 1000)
    ]
    fit = fitted(Results(tuple(rows)))
    assert (fit.slope, fit.intercept) == pytest.approx((-1.5, 0.0))


@pytest.mark.parametrize("method", list(adaptive.NAMES))
def test_what_is_spent_is_what_the_curator_charged(method: str) -> None:
    made = adaptive.program(method, 2.0, 10, 1_000)
    curator = sampler(made, replicas(10), 50, np.random.default_rng(5))
    walked = made.run(curator)
    own, total = made.problem, np.zeros(50)
    noisy = np.zeros(50)
    proof = 8 * 10 * math.log(2 * made.scale / made.beta)
    divisor = math.sqrt(proof if method == "proof" else 10 * made.ell)
    for event in curator.transcript:
        if event.label == NORM:
            noisy = event.released[:, 0]
            scale = np.full(50, made.norm_noise)
        else:
            scale = np.maximum(noisy / divisor, made.floor)
        cost = (2 * own.lipschitz / own.size) ** 2 / (2 * scale**2)
        total += np.where(event.on, cost, 0.0)
    assert adaptive.spent(made, walked) == pytest.approx(total, rel=1e-12)
    assert walked.rounds.sum() > 0


def test_the_signed_norm_is_charged_next_to_nothing() -> None:
    made = adaptive.program("signed", 2.0, 10, 1_000)
    assert isinstance(made, PrintedAdaptiveNoisyGD)
    x, below = np.zeros((1, 10)), np.full(1, -1.0)
    spent = adaptive.spent(made, Walked(x, np.ones(1), (x, x), (below, below)))
    assert spent == pytest.approx(2 * (0.5 + 2 / 1_000), rel=1e-12)


@pytest.mark.parametrize(
    ("kappa", "dimension", "expected"),
    [(1.5, 10, (-0.9, -0.6)), (2.0, 3_000, (-2.1, -1.5)), (1.5, 3_000, (-1.4, -1.0))],
)
def test_bands_are_the_stated_ones(
    kappa: float, dimension: int, expected: tuple[float, float]
) -> None:
    assert adaptive.band(kappa, dimension) == pytest.approx(expected)


def test_the_bound_of_theorem_5() -> None:
    on = logarithm()
    descent = stationary.AdaptiveNoisyGD(on.problem(3_000, 3_000), Fraction(1), 0.05, 2.0)
    ell, drop = math.log(60_000), 2 * math.log(901)
    last = 3 * ell / math.sqrt(3_000)
    second = math.sqrt(6 * math.sqrt(drop * 3_000 * ell) / 3_000)
    few, many = stationary.bound(descent, np.array([2.0, 1e6]))
    assert few == pytest.approx(min(math.sqrt(8 * drop), second) + last)
    assert many == pytest.approx(math.sqrt(8 * drop / (1e6 - 1)) + last)


def test_the_lower_bound_is_that_of_the_worst_pair() -> None:
    kappa, size = 2.0, 31
    best = 0.0
    for m in range(1, size, 2):
        distance = math.erf(m * math.sqrt(2) / 2 / math.sqrt(2))  # 2 Phi(m mu / 2) - 1
        best = max(best, (m / size) ** kappa * (1 - distance) / 2)
    assert proximal.lower(size, kappa) == pytest.approx(best, rel=1e-12)


def test_the_hard_pair_is_a_table_and_no_check() -> None:
    """A valid run cannot be below its bound: nothing that it does decides a statement."""
    rows = []
    for cell in proximal.cells(Size.FULL):
        hard = cell.text("kind") == "two_point"
        excess = 3e-4 if hard else cell.number("n") ** -cell.number("kappa")
        values = {"excess": [0.9 * excess, excess, excess, 1.1 * excess], "calls": 1, "steps": 2}
        rows.append(Result(cell, values))
    found = proximal.read(Results(tuple(rows)))
    assert not [check for check in found.checks if "hard pair" in check.name.lower()]
    (table,) = [table for table in found.tables if table.title.startswith("Hard pair")]
    ((n, mean, _, least, ratio),) = table.rows
    assert (n, least) == (60, proximal.average_excess_lower(proximal.pair(), proximal.CLAIMED))
    assert mean == pytest.approx(3e-4)
    assert float(ratio) == pytest.approx(float(mean) / float(least))


def test_the_page_says_that_the_band_was_set_after_a_look() -> None:
    """Of the slope of Theorem 5, in the band's source and beside the plot."""
    rows = [
        Result(cell, {"norm": [1.0 / cell.number("n")] * 4, "last": [1.0] * 4, "bound": [1.0] * 4,
                      "rounds": [2.0] * 4})
        for cell in stationary.cells(Size.FULL)
    ]  # fmt: skip
    found = stationary.read(Results(tuple(rows)))
    slopes = [check for check in found.checks if "log-log slope" in check.name]
    assert len(slopes) == 2
    assert all("set after a look" in check.source for check in slopes)
    assert any("set after a look" in note for note in found.notes)


def test_schedules_promise_something() -> None:
    for kappa in spider.KAPPAS:
        for size in spider.SIZES[Size.FULL]:
            assert not spider.schedule(kappa, size).vacuous


def test_the_spec_instance_of_the_printed_loop() -> None:
    """n = 1e6, d = 10, rho = 1, kappa = 2, L0 = 1.5, F0 = .5: Phi_K = 9.045e-5."""
    on: Landscape = spider.landscape(2.0)
    public = spider.schedule(2.0, 1_000_000)
    assert (on.lipschitz, on.smoothness, public.gap) == (1.5, 1.0, 0.5)
    assert public.excess_upper == pytest.approx(9.045e-5, rel=1e-3)
    assert loop.STATED_AT == 1_000_000
