"""A record against its opposite in Poisson samples, beside quadrature and random records."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import flint
import numpy as np
import pytest

from dpaudit.check.profile import closed, noise
from dpaudit.check.profile import opposed as opposed_module
from dpaudit.check.profile.cells import Grid
from dpaudit.check.profile.opposed import opposed
from dpaudit.pairs.core import Opposition
from dpaudit.pairs.opposed import Opposed

X = (0.2, 0.9, 1.0, 1.5, 3.0, 20.0)
GRID = np.linspace(-14, 14, 40_001)


def normal(mean: float) -> np.ndarray:
    density: np.ndarray = np.exp(-((GRID - mean) ** 2) / 2) / np.sqrt(2 * np.pi)
    return density


@pytest.mark.parametrize(("mu", "rate"), [(1, "0.01"), ("0.5", "0.1"), (2, "0.5"), (1, 1)])
def test_its_profile_is_that_of_quadrature(mu: Any, rate: Any) -> None:
    pair = Opposed(Fraction(mu), Fraction(rate))
    m, q = float(pair.mu), float(pair.rate)
    p_density, q_density = ((1 - q) * normal(0) + q * normal(way * m) for way in (1, -1))
    for x in X:
        expected = np.trapezoid(np.maximum(p_density - x * q_density, 0), GRID)
        with flint.ctx.workprec(80):
            assert float(pair.delta(flint.arb(x)).mid()) == pytest.approx(expected, abs=1e-7)


def test_no_two_records_of_a_ball_are_further_apart() -> None:
    """On the line: 40 random pairs of records, at each x, with 1e-7 for the quadrature."""
    rng = np.random.default_rng(1)
    pair, q = Opposed(Fraction(3, 2), Fraction(1, 5)), 0.2
    with flint.ctx.workprec(80):
        bounds = [float(pair.delta(flint.arb(x)).upper()) for x in X]
    for one, other in rng.uniform(-1.5, 1.5, (40, 2)):
        p_density, q_density = ((1 - q) * normal(0) + q * normal(at) for at in (one, other))
        for x, bound in zip(X, bounds, strict=True):
            delta = np.trapezoid(np.maximum(p_density - x * q_density, 0), GRID)
            assert delta <= bound + 1e-7


def _tail(z: flint.arb, mu: flint.arb, rate: flint.arb, way: int) -> flint.arb:
    """The mass beyond z: P for way 1, Q for way -1."""
    root = flint.arb(2).sqrt()
    beyond = [((z - mean) / root).erfc() / 2 for mean in (flint.arb(0), way * mu)]
    return (1 - rate) * beyond[0] + rate * beyond[1]


@pytest.mark.parametrize("mu", ["0.001", "0.3", "1.25", "6", "40"])
@pytest.mark.parametrize("rate", ["0.000000001", "0.001", "0.3", "0.999999"])
def test_masses_between_losses_are_within_their_stated_errors(mu: str, rate: str) -> None:
    """Tails beyond 60 losses, against 300 digits, at the place of the loss moved by its error."""
    pair = Opposed(Fraction(mu), Fraction(rate))
    form = pair.loss_masses(1e-20)
    assert form is not None
    edges = np.linspace(*form.span, 60)
    p, q = form.masses(np.concatenate((edges, [np.inf])))
    with flint.ctx.workprec(1000):
        m, r = (flint.arb(f"{Fraction(v).numerator}") / Fraction(v).denominator for v in (mu, rate))

        def place(loss: flint.arb) -> flint.arb:
            half = loss / 2
            return (half + ((1 - r) / r * (m * m / 2).exp() * half.sinh()).asinh()) / m

        for k in (0, 7, 29, 30, 31, 52, 59):
            for way, masses in ((1, p), (-1, q)):
                found = flint.arb(float(masses[k:].sum()))
                ends = [
                    _tail(place(flint.arb(float(edges[k])) + side * form.edge_error), m, r, way)
                    for side in (1, -1)
                ]
                room = form.relative + 1e-13
                # Less than the smallest of floats is none of them.
                assert ends[0] * (1 - room) - 1e-290 <= found <= ends[1] * (1 + room)


def test_the_place_of_a_loss_has_that_likelihood_ratio() -> None:
    mu, rate = flint.arb("1.25"), flint.arb("0.01")
    for loss in (-3, -0.01, 0.2, 5):
        half = flint.arb(loss) / 2
        z = (half + ((1 - rate) / rate * (mu * mu / 2).exp() * half.sinh()).asinh()) / mu
        stays, moved = 1 - rate, rate * (-mu * mu / 2).exp()
        ratio = (stays + moved * (mu * z).exp()) / (stays + moved * (-mu * z).exp())
        assert ratio.overlaps(flint.arb(loss).exp())


def test_a_larger_rate_or_move_dominates() -> None:
    small = Opposed(Fraction(1), Fraction(1, 10))
    for larger in (Opposed(Fraction(1), Fraction(1, 5)), Opposed(Fraction(3, 2), Fraction(1, 10))):
        assert larger.dominates(small)
        assert not small.dominates(larger)
        with flint.ctx.workprec(80):
            for x in X:
                assert float(larger.delta(flint.arb(x))) >= float(small.delta(flint.arb(x)))


# --- the checker's cells --------------------------------------------------------------------------


def _wrong_cells(mu: str, rate: str, step: Fraction) -> int:
    """Cells whose masses err by more than they state, against balls; and how they were found."""
    record = Opposition(Fraction(mu), Fraction(rate))
    grid = Grid(step, 2.0**-80)
    with flint.ctx.workprec(512):
        base = opposed(record, grid.tail)
        first, last = (side * min(math.floor(base.span[1] / grid.h) + 1, 4000) for side in (-1, 1))
        a, b, error = noise._in_floats(base, Fraction(1), first, last, grid)
        # Of a step that is wide for the losses there are a few cells, all in balls.
        assert np.isfinite(error).any() or step > STEPS[0]
        wrong = 0
        for k in (*range(0, last - first, max((last - first) // 24, 1)), -first - 1, -first):
            if not np.isfinite(error[k]):
                continue
            own, other, spill = noise._in_arb(base, flint.arb(1), first + int(k), grid)
            assert error[k] < 1e-7
            if spill == 0:
                wrong += abs(a[k] - own) > error[k] * own or abs(b[k] - other) > error[k] * other
    return wrong


MOVES_AND_RATES = [("0.01", "0.3"), ("1", "0.01"), ("1.25", "0.000000001"), ("6", "0.5")]
STEPS = (Fraction(1, 2**16), Fraction(1, 300), Fraction(1, 12))


@pytest.mark.parametrize(("mu", "rate"), MOVES_AND_RATES)
@pytest.mark.parametrize("step", STEPS, ids=str)
def test_cells_in_floats_are_those_in_balls(mu: str, rate: str, step: Fraction) -> None:
    assert _wrong_cells(mu, rate, step) == 0


def test_cells_that_are_a_millionth_off_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = opposed_module._Cells._quadrature
    monkeypatch.setattr(
        opposed_module._Cells,
        "_quadrature",
        lambda *given: tuple((1 + 1e-6) * sums for sums in right(*given)),
    )
    assert _wrong_cells("1", "0.01", STEPS[1]) > 0


@pytest.mark.parametrize(("mu", "rate"), MOVES_AND_RATES)
def test_masses_between_losses_give_the_delta_of_a_searched_place(mu: str, rate: str) -> None:
    record = Opposition(Fraction(mu), Fraction(rate))
    with flint.ctx.workprec(256):
        base = opposed(record, 1e-30)
        for loss in (-2.0, -0.001, 0.0, 0.01, 1.0, 5.0):
            x = flint.arb(loss).exp()
            p, q = base.between(flint.arb(loss), None)
            own = closed.delta_by(Opposed(record.mu, record.rate), x)
            assert float(abs(p - x * q - own).upper()) < 1e-30 + 1e-15 * float(own.upper())
