"""Many different rounds of sampled noise by one series, each round with a rule of its own."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpaudit.check.profile.conversions import confirm_lower, confirm_upper
from dpaudit.pairs import Mixed, Normal, Product
from dpaudit.profiles import epsilon_interval
from dpaudit.profiles.fourier import sampled
from dpaudit.profiles.fourier.engine import epsilon_composed
from dpaudit.profiles.fourier.sampled import SampledNormal, decay_of, rule

DELTA = Fraction(1, 10**5)


def rounds(count: int) -> Product:
    """Rounds of noise 1, 1.002, ... at a rate of 1%."""
    noises = [1 + Fraction(i, 500) for i in range(count)]
    return Product(tuple((Mixed(Normal(1 / s), Fraction(1, 100)), Fraction(1)) for s in noises))


@pytest.mark.quality
def test_series_of_many_kinds_lies_in_the_grids_interval_and_is_confirmed() -> None:
    pair = rounds(30)
    found = epsilon_interval(pair, DELTA)
    assert found.method == "closed transforms"
    assert 0 < found.upper - found.lower < 2e-6
    grid = epsilon_composed(pair, DELTA, 1e-4)
    assert grid.lower <= found.upper
    assert found.lower <= grid.upper
    assert confirm_upper(pair, found.upper, DELTA, found.upper_witness)
    assert not confirm_upper(pair, found.lower - Fraction(1, 10**5), DELTA, found.upper_witness)
    assert confirm_lower(pair, found.lower, DELTA, found.lower_witness)


@pytest.mark.parametrize("ratio", [1.15, 1.4])
@pytest.mark.parametrize("added", [False, True])
def test_decay_bounds_every_value_of_the_transform(added: bool, ratio: float) -> None:
    """At 400 frequencies, the values from the rule, which errs by less than 1e-12 of them."""
    factor, tilt = SampledNormal(1.0, 0.01, added, 1.0), 5.0
    decay = decay_of(factor, tilt, ratio)
    w = np.geomspace(1.0, 400.0, 400)
    known = rule(factor, tilt, 400.0, sampled.RULE_NATS)
    size = np.abs(np.exp(-1j * np.outer(w, known.losses)) @ known.weights)
    assert np.all(size[:-1] <= np.exp(decay.bounds(w)[:-1]) + 1e-9)
    # Without pairs nothing is left that falls before the variation does.
    assert np.exp(decay.bounds(w)).min() < 0.9


def test_distances_are_each_a_ratio_of_the_one_before() -> None:
    found = decay_of(SampledNormal(0.7, 0.1, False, 1.0), 2.0, 1.4).distances
    assert np.allclose(found[:-1] / found[1:], 1.4)
    assert len(found) > 5
