"""The checker's profiles against 25-digit integrals, and the accountant's rows against the checker.

Each row's numbers are confirmed as they are, and refused where they are moved inward by the width
of their interval (by 1e-4 at least).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import mpmath
import pytest

from dpaudit.accountant.account import Account
from dpaudit.check.profile import conversions as profile
from dpaudit.check.profile.cells import Grid
from dpaudit.check.profile.conversions import confirm_conversion, confirm_lower, confirm_upper
from dpaudit.check.profile.fourier import delta_bound
from dpaudit.check.profile.nodes import lower_nodes, upper_nodes
from dpaudit.check.profile.onestep import cells
from dpaudit.exact import decimal_upper
from dpaudit.families.additive import Laplace
from dpaudit.families.composition import Repeat
from dpaudit.pairs import LaplaceShift, Mixed, Normal, Pair, Spliced, product
from dpaudit.profiles import epsilon_interval
from dpaudit.scope import central

F = Fraction
STEP_OF_SGD = Mixed(Normal(F(1)), F(1, 100))
BATCH = Mixed(Normal(F(2)), F(1, 100))
DELTA = F(1, 10**5)


def composed(pair: Pair, times: int) -> Pair:
    return product([(pair, F(times))])


ROWS: dict[str, tuple[Pair, Fraction, float, tuple[float, float]]] = {
    "sgd": (composed(STEP_OF_SGD, 10**4), DELTA, 1e-4, (6.18764, 6.18775)),
    "sgd, added": (composed(STEP_OF_SGD.swapped, 10**4), DELTA, 1e-4, (5.6114, 5.6116)),
    "sgd, delta 1e-20": (composed(STEP_OF_SGD, 10**4), F(1, 10**20), 1e-4, (13.8796, 13.87985)),
    "long sgd": (composed(STEP_OF_SGD, 10**5), DELTA, 1e-3, (25.5726, 25.5734)),
    "a batch": (
        composed(Spliced(BATCH, BATCH.swapped), 1000),
        DELTA,
        1e-3,
        (14.8196, 14.8211),
    ),
    "a batch, one-sided": (composed(BATCH, 1000), DELTA, 1e-3, (13.3600, 13.3612)),
    "Laplace": (composed(LaplaceShift(F(1, 10)), 100), DELTA, 1e-4, (4.2203, 4.2204)),
    "all different": (
        product(
            [
                *((Normal(F(1, 40 + k)), F(1)) for k in range(60)),
                *((LaplaceShift(F(1, 30 + k)), F(1)) for k in range(60)),
            ]
        ),
        DELTA,
        1e-3,
        (0.6970, 0.6971),
    ),
}


@pytest.mark.long_cases(
    "sgd, delta 1e-20", "long sgd", "sgd", "sgd, added", "a batch", "a batch, one-sided"
)
@pytest.mark.parametrize("name", ROWS)
def test_the_rows_of_the_accountant_are_confirmed(name: str) -> None:
    pair, delta, width, (low, high) = ROWS[name]
    found = epsilon_interval(pair, delta, width)
    assert low < found.lower <= found.upper < high
    assert found.upper - found.lower <= width
    assert confirm_upper(pair, found.upper, delta, found.upper_witness)
    assert confirm_lower(pair, found.lower, delta, found.lower_witness)
    moved = F(width)
    assert not confirm_upper(pair, found.upper - moved, delta, found.upper_witness)
    assert not confirm_lower(pair, found.lower + moved, delta, found.lower_witness)


def delta_once(x: Any, mu: Any, rate: Any) -> Any:
    """delta of Mixed(Normal(mu), rate), in mpmath."""
    inner = 1 + (x - 1) / rate
    if inner <= 0:
        return 1 - x
    e = mpmath.log(inner)
    return rate * (mpmath.ncdf(mu / 2 - e / mu) - inner * mpmath.ncdf(-mu / 2 - e / mu))


def delta_twice(epsilon: Any, mu: Any, rate: Any) -> Any:
    """The mean under P of delta_once at exp(epsilon - loss), by 25-digit quadrature."""

    def weighted(z: Any) -> Any:
        ratio = 1 - rate + rate * mpmath.exp(mu * z - mu * mu / 2)
        return mpmath.npdf(z) * ratio * delta_once(mpmath.exp(epsilon) / ratio, mu, rate)

    # The integrand has no derivative where exp(epsilon) / ratio is 1 - rate.
    edge = (mpmath.log(1 + (mpmath.exp(epsilon) / (1 - rate) - 1) / rate) + mu * mu / 2) / mu
    points = sorted([-14, -6, -2, 0, 2, 4, 6, 9, 14, edge])
    return mpmath.quad(weighted, points)


MIXED = [(F(1), F(1, 10)), (F(1, 2), F(1, 2)), (F(2), F(1, 50))]
EPSILONS = [F(1, 10), F(1), F(2)]


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize(
    ("mu", "rate", "epsilon"),
    [
        pytest.param(*pair, epsilon, marks=[pytest.mark.quality] * ((n + k) % 3 == 1))
        for n, pair in enumerate(MIXED)
        for k, epsilon in enumerate(EPSILONS)
    ],
)
def test_two_rounds_lie_between_the_bounds(mu: Fraction, rate: Fraction, epsilon: Fraction) -> None:
    pair, grid = Mixed(Normal(mu), rate), Grid(F(1, 8192), 1e-25)
    found = cells(pair, grid)
    with mpmath.workdps(25):
        numbers = [mpmath.mpf(n.numerator) / n.denominator for n in (epsilon, mu, rate)]
        true = float(delta_twice(*numbers))
    above = float(delta_bound([(upper_nodes(found), 2)], grid.step, 3.0, epsilon, 1))
    below = float(delta_bound([(lower_nodes(found, grid.h), 2)], grid.step, 3.0, epsilon, -1))
    assert below <= true <= above
    assert above - below < 1e-6 + 3e-3 * true


def test_the_checker_does_not_take_the_accountants_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own grid is finer, so that the margin of an honest row covers its own errors."""
    pair, delta, width, _ = ROWS["Laplace"]
    found = epsilon_interval(pair, delta, width)
    used: list[Grid] = []

    def spied(own: Any) -> Any:
        def spy(factor: Pair, grid: Grid) -> Any:
            used.append(grid)
            return own(factor, grid)

        return spy

    for name in ("_cells", "_values"):
        monkeypatch.setattr(profile, name, spied(getattr(profile, name)))
    assert confirm_upper(pair, found.upper, delta, found.upper_witness)
    assert [grid.step * 2 for grid in used] == [F(found.upper_witness["step"])]


@pytest.mark.quality
def test_many_losses_are_confirmed_with_room_for_the_checker_s_own_round_off() -> None:
    """1,000 Laplace(1) at 1e-3: the last place of either end must hold up to another round-off."""
    opened = Account(Repeat(Laplace("noise", 1), 1000), central("add_remove"))
    step = opened.converted("profile", Fraction(1, 1000))
    losses, text = opened.step("profile").value, decimal_upper(step.value[0])
    assert confirm_conversion(losses, Fraction(1, 1000), text, step.witness) is not None
