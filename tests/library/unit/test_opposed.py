"""A record against its opposite in Poisson samples, beside quadrature and random records."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import flint
import numpy as np
import pytest

from dpaudit.pairs.opposed import Opposed

X = (0.2, 0.9, 1.0, 1.5, 3.0, 20.0)
GRID = np.linspace(-14, 14, 40_001)


def normal(mean: float) -> np.ndarray:
    return np.exp(-((GRID - mean) ** 2) / 2) / np.sqrt(2 * np.pi)


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
