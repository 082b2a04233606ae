"""Short compositions of discrete noise whose outcomes lie far apart in loss: a lower end each."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpaudit.check.profile import conversions
from dpaudit.check.profile.conversions import confirm_lower, confirm_upper
from dpaudit.grids.discrete import Grid, Side
from dpaudit.pairs import DiscreteNormal, Pair, Product
from dpaudit.profiles import delta_interval, epsilon_interval

# Variances and shifts of five releases, found by tests.support.corners.
NOISES = (("41.6", 7), ("1.48", 7), ("7.76", 1), ("345", 7), ("1.14", 1))
FAR = DiscreteNormal(Fraction("1.48"), Fraction(7))
DELTA = Fraction("3.73e-11")


def product(*noises: tuple[str, int]) -> Pair:
    """Independent discrete normal pairs."""
    factors = [DiscreteNormal(Fraction(v), Fraction(shift)) for v, shift in noises]
    return Product(tuple((factor, Fraction(1)) for factor in factors))


@pytest.mark.quality
def test_short_composition_has_both_ends_and_the_checker_confirms_them() -> None:
    """[8.2, 55.8] while a factor without a lower chord was left out."""
    pair = product(*NOISES)
    found = epsilon_interval(pair, DELTA)
    assert 55.78 < found.lower <= found.upper < 55.792
    assert confirm_lower(pair, found.lower, DELTA, found.lower_witness)
    assert not confirm_lower(pair, found.upper + Fraction(1, 100), DELTA, found.lower_witness)
    assert confirm_upper(pair, found.upper, DELTA, found.upper_witness)


@pytest.mark.quality
def test_checker_needs_its_own_masses_below(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = product(*NOISES)
    found = epsilon_interval(pair, DELTA)

    def refused(cells: object) -> None:
        raise conversions.NotConfirmed("taken away")

    monkeypatch.setattr(conversions, "rounded_down", refused)
    assert not confirm_lower(pair, found.lower, DELTA, found.lower_witness)


@pytest.mark.parametrize("step", ["0.003", "0.05", "0.7"])
def test_masses_moved_down_lie_below_the_profile(step: str) -> None:
    """The upper end of the closed form, at losses between -30 and 40."""
    found = FAR.on_grid(Grid(Fraction(step), 1e-20), Side.LOWER)
    assert len(found.masses) > 1
    for epsilon in np.linspace(0, 40, 21):
        own = float(found.masses @ np.maximum(-np.expm1(epsilon - found.losses), 0.0))
        whole = delta_interval(FAR, Fraction(float(epsilon)))
        assert own <= float(whole.upper) * (1 + 1e-12)
        # Moved down by a step at most, and a relative error.
        further = delta_interval(FAR, Fraction(float(epsilon) + 2 * float(Fraction(step))))
        assert own >= 0.999 * float(further.lower) - 1e-18


@pytest.mark.quality
def test_delta_below_what_a_grid_holds_keeps_a_lower_end() -> None:
    pair = product(("450", 1), ("6.8", 1), ("115", 7))
    tiny = epsilon_interval(pair, Fraction(1, 10**290))
    small = epsilon_interval(pair, Fraction(1, 10**270))
    assert 0 < small.lower < tiny.lower <= tiny.upper
