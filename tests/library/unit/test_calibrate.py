"""Calibration: the value satisfies the guarantee, its neighbour does not; refusals."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
import sympy

from dpaudit.accountant import calibrate as calibration
from dpaudit.accountant.account import Account
from dpaudit.accountant.calibrate import calibrate
from dpaudit.accountant.claim import Outcome
from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.batches import ShuffledBatches
from dpaudit.families.composition import Compose, Repeat
from dpaudit.families.opaque import GDP, ZCDP, ApproxDP, NonPrivate, PureDP
from dpaudit.families.sampling import PoissonSampled
from dpaudit.nodes import Node
from dpaudit.scope import Scope

SCOPE = Scope("add_remove", "record", "central", "transcript")
ZEROED = Scope("zero_out", "record", "central", "transcript")
z = sympy.Symbol("z", positive=True)
T = sympy.Symbol("T", positive=True, integer=True)


@pytest.mark.parametrize(
    ("node", "guarantee", "value"),
    [
        (Repeat(Laplace("a", z), 10), PureDP(1), Fraction(10)),
        (Gaussian("a", z), ZCDP(0.125), Fraction(2)),
        (Repeat(Gaussian("a", z), 16), GDP(0.5), Fraction(8)),
        (Repeat(Laplace("a", 10), T), PureDP(1), Fraction(10)),
        (Repeat(Gaussian("a", 10), T), ZCDP(0.05), Fraction(10)),
        (Repeat(Gaussian("a", 10), T), GDP(Fraction(1, 10)), Fraction(1)),
    ],
)
def test_closed_forms_are_met_exactly(node: Node, guarantee: Node, value: Fraction) -> None:
    found = calibrate(node, SCOPE, guarantee)
    assert found.value == value
    assert found.checked.outcome is Outcome.PROVED
    assert found.step.node == found.node


def test_the_gaussian_is_calibrated_to_six_digits() -> None:
    """Balle and Wang 2018, Algorithm 1, in 30 digits: sigma of (1, 1e-6) is 4.224679..."""
    import mpmath

    mpmath.mp.dps = 30

    def delta(s: Any) -> Any:
        mu = 1 / s
        normal = mpmath.ncdf
        return normal(mu / 2 - 1 / mu) - mpmath.e * normal(-mu / 2 - 1 / mu)

    exact = mpmath.findroot(lambda s: delta(s) - mpmath.mpf("1e-6"), 4.2)
    found = calibrate(Gaussian("a", z), SCOPE, ApproxDP(1, 1e-6))
    assert 0 <= float(found.value) - float(exact) <= 1.1e-5
    assert found.refused is not None
    assert float(found.refused) < float(exact)


def test_the_largest_sampling_rate_needs_no_bracket() -> None:
    """No power of two above 1 is a rate; the smaller ones are tried."""
    rounds = Repeat(PoissonSampled(Gaussian("g", 1), z), 100)
    found = calibrate(rounds, SCOPE, ApproxDP(1, "1e-5"))
    assert found.refused is not None
    assert found.value < found.refused < found.value * (1 + Fraction(1, 10**4))
    for rate, holds in ((found.value, True), (found.refused, False)):
        epsilon = Account(rounds.bind({z: rate}), SCOPE).epsilon("1e-5")
        assert (epsilon.upper <= 1) is holds


def test_a_bracket_of_values_that_all_hold_gives_its_lower_end() -> None:
    found = calibrate(Gaussian("a", z), SCOPE, ZCDP(1), bracket=(1, 2))
    assert (found.value, found.refused) == (1, None)


@pytest.mark.parametrize(
    ("node", "bracket", "error", "words"),
    [
        (Gaussian("a", 1), None, InvalidParameter, "found none"),
        (Repeat(Gaussian("a", z), T), None, InvalidParameter, "found T, z"),
        (Gaussian("a", z), (2, 1), InvalidParameter, "in order"),
        (Gaussian("a", z), (1, float("nan")), InvalidParameter, "bracket"),
        (Gaussian("a", z), (1, T), InvalidParameter, "two numbers"),
        (Gaussian("a", z), (Fraction(1, 100), Fraction(1, 10)), Unsupported, "neither"),
        (Compose(Gaussian("a", z), NonPrivate("raw")), None, Unsupported, "fails at every power"),
    ],
)
def test_what_cannot_be_calibrated_is_refused(
    node: Node, bracket: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        calibrate(node, SCOPE, ZCDP(1), bracket=bracket)


@pytest.mark.parametrize(
    ("delta", "found", "asked"),
    [
        ("1e-300", None, 4),
        ("1e-9", Fraction(398942000), 60),
        ("1e-30", Fraction(398942 * 10**24), 60),
    ],
)
def test_noise_at_epsilon_zero_is_found_by_halves_or_refused_at_once(
    delta: str, found: Fraction | None, asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """delta(0) = 2 Phi(1 / (2 z)) - 1; all 40 powers were asked, a second each in training."""
    made: list[Node] = []

    def counted(node: Node, *arguments: Any, **reached: bool) -> Account:
        made.append(node)
        return Account(node, *arguments, **reached)

    monkeypatch.setattr(calibration, "Account", counted)
    claim = ApproxDP(0, Fraction(delta))
    if found is None:
        with pytest.raises(Unsupported, match="fails at the outermost powers of two of z from"):
            calibrate(Gaussian("a", z), SCOPE, claim)
    else:
        value = calibrate(Gaussian("a", z), SCOPE, claim).value
        assert abs(value / found - 1) < Fraction(1, 10**5)
        assert math.erf(1 / float(value) / 2**1.5) <= float(claim.delta)
    assert 0 < len(made) <= asked


def test_much_noise_is_found_in_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Upward powers of two were asked one by one, and those of a small epsilon at a fine width."""
    widths: list[float] = []

    def counted(node: Node, *arguments: Any, **reached: bool) -> Account:
        made = Account(node, *arguments, **reached)
        widths.append(made.width)
        return made

    monkeypatch.setattr(calibration, "Account", counted)
    run = Repeat(PoissonSampled(Gaussian("a", z), Fraction(1, 100)), 200)
    found = calibrate(run, SCOPE, ApproxDP(Fraction(1, 10**6), Fraction(1, 10**5)))
    # About q sqrt(T) / z-GDP: 2 Phi(mu / 2) - 1 = 1e-5 at epsilon 0, which is a little more noise.
    assert 5000 < found.value < 5642
    assert sum(width < 1e-3 for width in widths) <= 12
    assert len(widths) <= 40


def test_what_is_reached_is_not_asked_for_while_a_value_is_searched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The pairs below a shuffled pass have grids that take seconds; those above are normal."""
    known = Account(Gaussian("a", 2), ZEROED).epsilon("1e-5")
    made = ShuffledBatches(Gaussian("a", 2), 1000, 10)
    bound = Account(made, ZEROED, reached=False).epsilon("1e-5")
    assert (bound.lower, bound.upper) == (known.lower, known.upper)
    both: list[bool] = []

    def counted(node: Node, *arguments: Any, reached: bool = True) -> Account:
        both.append(reached)
        return Account(node, *arguments, reached=reached)

    monkeypatch.setattr(calibration, "Account", counted)
    found = calibrate(ShuffledBatches(Gaussian("a", z), 1000, 10), ZEROED, ApproxDP(1, "1e-5"))
    assert float(found.value) == pytest.approx(3.7306, rel=1e-4)
    assert both.count(True) == 1 < both.count(False)
    assert found.step.lower is None or found.step.lower < 0.5
