"""rho of zCDP from two error rates: below the truth, near it, and decreasing in both rates."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest

from dpaudit.measures.region import rho_of_rates


def gaussian_rates(mu: float, threshold: float) -> tuple[float, float]:
    """(FPR, FNR) of the test x > threshold between N(0, 1) and N(mu, 1), rounded up."""
    positive = float(mpmath.ncdf(-threshold))
    negative = float(mpmath.ncdf(threshold - mu))
    return math.nextafter(positive, 1), math.nextafter(negative, 1)


@pytest.mark.parametrize("mu", [0.05, 0.3, 1.0, 3.0, 6.0])
def test_rho_of_the_gaussian_is_below_the_truth(mu: float) -> None:
    """rho = mu^2 / 2 exactly; a single test shows most of it, and never more."""
    found = [rho_of_rates(*gaussian_rates(mu, mu * share)) for share in np.linspace(-1, 2, 31)]
    assert max(found) <= mu**2 / 2
    assert max(found) > 0.3 * mu**2 / 2


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_rho_of_randomized_response_is_below_the_truth(epsilon: float) -> None:
    """D_a of two coins, closed form; rho = sup_a D_a / a, found on a fine grid of orders."""
    q = 1 / (1 + math.exp(epsilon))
    with mpmath.workdps(40):
        p, r = 1 - mpmath.mpf(q), mpmath.mpf(q)

        def over_order(a: Any) -> Any:
            moment = p**a * r ** (1 - a) + r**a * p ** (1 - a)
            return mpmath.log(moment) / (a - 1) / a

        orders = (1 + mpmath.mpf(10) ** (mpmath.mpf(k) / 100) for k in range(-400, 300))
        truth = max(over_order(a) for a in orders)
    found = rho_of_rates(q, q)
    assert found <= float(truth)
    assert found > 0.999 * float(truth)


@pytest.mark.parametrize("rates", [(1.0, 1.0), (0.5, 0.5), (0.9, 0.4), (1.0, 0.0), (0.0, 1.0)])
def test_rates_that_show_nothing_give_no_rho(rates: tuple[float, float]) -> None:
    assert rho_of_rates(*rates) == 0


def test_rho_decreases_in_both_rates() -> None:
    rates = np.linspace(0.01, 0.45, 12)
    for other in (0.05, 0.3):
        one = [rho_of_rates(float(rate), other) for rate in rates]
        two = [rho_of_rates(other, float(rate)) for rate in rates]
        assert one == sorted(one, reverse=True)
        assert two == sorted(two, reverse=True)
