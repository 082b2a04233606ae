"""Discretised profiles: lower <= profile <= upper at many points, against Arb."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import flint
import mpmath
import numpy as np
import pytest

from dpaudit.check.profile.closed import closed_at_least, closed_at_most, has_closed
from dpaudit.errors import Unsupported
from dpaudit.grids import hull as hull_rounding
from dpaudit.grids.convolved import convolved
from dpaudit.grids.discrete import Discrete, Grid, NoLower, Side, TooFine
from dpaudit.grids.hull import convexified
from dpaudit.grids.noise import NORMAL_FACTOR, lower_normal, normal_between
from dpaudit.grids.values import from_values, node_values
from dpaudit.pairs import (
    Atoms,
    Concentrated,
    DiscreteNormal,
    LaplaceShift,
    Largest,
    Mixed,
    Normal,
    Pair,
    Product,
    Spliced,
)
from dpaudit.pairs.renyi import concentrated_delta
from dpaudit.profiles import delta_interval, epsilon_interval

F = Fraction
GAUSS, LAPLACE = Normal(F(1)), LaplaceShift(F(3, 10))
SAMPLED = Mixed(GAUSS, F(1, 100))
RESPONSE = Atoms(((F(3, 4), F(1, 4)), (F(1, 4), F(3, 4))))
SUPPORTS = Atoms(((F(1, 100), F(0)), (F(79, 100), F(1, 2)), (F(1, 5), F(2, 5)), (F(0), F(1, 10))))
PAIRS: dict[str, Pair] = {
    "normal": GAUSS,
    "normal wide": Normal(F(3)),
    "laplace": LAPLACE,
    "sampled": SAMPLED,
    "sampled swapped": SAMPLED.swapped,
    "sampled laplace": Mixed(LAPLACE, F(1, 10)),
    "sampled laplace swapped": Mixed(LAPLACE, F(1, 10)).swapped,
    "response": RESPONSE,
    "supports": SUPPORTS,
    "supports swapped": SUPPORTS.swapped,
    "sampled supports": Mixed(SUPPORTS, F(1, 3)),
    "sampled supports swapped": Mixed(SUPPORTS, F(1, 3)).swapped,
    "without replacement": Spliced(SAMPLED, SAMPLED.swapped),
    "sampled without replacement": Mixed(Spliced(SAMPLED, SAMPLED.swapped), F(1, 2)),
    "largest": Largest((SAMPLED, SAMPLED.swapped)),
    "largest of two kinds": Largest((LAPLACE, RESPONSE)),
    "sampled largest swapped": Mixed(Largest((LAPLACE, RESPONSE)), F(1, 2)).swapped,
}


def value(discrete: Discrete, x: float) -> float:
    terms = discrete.masses * np.maximum(0.0, 1 - x * np.exp(-discrete.losses))
    return float(discrete.infinite + terms.sum())


def epsilons() -> np.ndarray:
    return np.concatenate((np.linspace(-1, 1, 41), np.linspace(-7, 9, 41)))


def exact(pair: Pair, epsilon: float) -> tuple[flint.arb, float]:
    x = flint.arb(float(np.exp(epsilon)))
    return pair.delta(x), float(x)


@pytest.mark.first_case("name")
@pytest.mark.parametrize("step", [F(1, 8), F(1, 200), F(1, 3000)])
@pytest.mark.parametrize("name", PAIRS)
def test_sides_hold_the_profile(name: str, step: Fraction) -> None:
    pair, rounding = PAIRS[name], 3e-15
    with flint.ctx.workprec(200):
        for side in Side:
            try:
                found = pair.on_grid(Grid(step, 1e-18), side)
            except NoLower:
                continue
            for epsilon in epsilons():
                ball, x = exact(pair, epsilon)
                truth, bound = float(ball.mid()), value(found, x)
                if side is Side.UPPER:
                    assert bound >= truth * (1 - rounding) - 1e-17, (epsilon, bound, truth)
                else:
                    assert bound <= truth * (1 + rounding) + 1e-17, (epsilon, bound, truth)


@pytest.mark.parametrize("name", ["normal", "sampled", "sampled swapped", "without replacement"])
def test_error_is_of_second_order(name: str) -> None:
    gaps = []
    with flint.ctx.workprec(200):
        for step in (F(1, 500), F(1, 2000)):
            sides = [PAIRS[name].on_grid(Grid(step, 1e-18), side) for side in Side]
            at = [float(np.exp(e)) for e in np.linspace(-0.05, 1, 50)]
            gaps.append(max(value(sides[0], x) - value(sides[1], x) for x in at))
    assert gaps[1] < gaps[0] / 8


def test_tails_keep_relative_accuracy() -> None:
    """Bounds at 1e-100 are as tight as elsewhere: nothing is computed as 1 minus something."""
    with flint.ctx.workprec(500):
        for side in Side:
            found = GAUSS.on_grid(Grid(F(1, 1000), 1e-150), side)
            ball, x = exact(GAUSS, 20.5)
            truth = float(ball.mid())
            assert truth < 1e-85
            assert value(found, x) == pytest.approx(truth, rel=1e-3)


def test_lower_normal_against_arb() -> None:
    rng = np.random.default_rng(5)
    z = -np.concatenate((rng.uniform(0, 1, 300), rng.uniform(1, 8, 400), rng.uniform(8, 37, 300)))
    with flint.ctx.workprec(200):
        for point, found in zip(z, lower_normal(z), strict=True):
            exact_value = (-flint.arb(float(point)) / flint.arb(2).sqrt()).erfc() / 2
            assert abs(flint.arb(float(found)) / exact_value - 1) < NORMAL_FACTOR


def test_normal_between_adds_up() -> None:
    masses = normal_between(np.array([-np.inf, -3, -1e-9, 0.0, 1e-9, 2, np.inf]))
    assert math.fsum(masses) == pytest.approx(1, abs=1e-15)
    assert np.all(masses > 0)


def test_too_many_nodes() -> None:
    with pytest.raises(TooFine):
        Normal(F(1000)).on_grid(Grid(F(1, 10**6), 1e-10), Side.UPPER)


def test_rounding_may_not_swamp_the_cells() -> None:
    with pytest.raises(TooFine):
        LAPLACE.on_grid(Grid(F(1, 10**14), 1e-10), Side.UPPER)


def test_masses_must_be_finite_and_positive() -> None:
    for masses in ([math.nan], [-1.0], [math.inf]):
        with pytest.raises(Unsupported):
            Discrete(F(1), 0, np.array(masses))


def test_unknown_pair() -> None:
    with pytest.raises(Unsupported, match="no privacy profile"):
        Pair().on_grid(Grid(F(1), 1e-9), Side.UPPER)


# --- discrete normal noise -----------------------------------------------------------------------


def discrete_normal_delta(variance: int, shift: int, epsilon: float) -> float:
    reach = int(40 * math.sqrt(variance)) + abs(shift)
    weight = [flint.arb(-k * k) / (2 * variance) for k in range(-reach, reach + 1)]
    total = sum((w.exp() for w in weight), flint.arb(0))
    x, delta = flint.arb(epsilon).exp(), flint.arb(0)
    for k in range(-reach, reach + 1):
        p = (flint.arb(-((k - shift) ** 2)) / (2 * variance)).exp()
        q = (flint.arb(-k * k) / (2 * variance)).exp()
        delta += max(p - x * q, flint.arb(0), key=lambda ball: float(ball.mid()))
    return float((delta / total).mid())


@pytest.mark.parametrize("step", [F(1, 8), F(1, 50)])
def test_discrete_normal(step: Fraction) -> None:
    pair = DiscreteNormal(F(4), F(1))
    upper, lower = (pair.on_grid(Grid(step, 1e-18), side) for side in Side)
    with flint.ctx.workprec(200):
        for epsilon in np.linspace(-0.7, 3, 40):
            truth, x = discrete_normal_delta(4, 1, float(epsilon)), math.exp(epsilon)
            assert value(lower, x) <= truth * (1 + 1e-13)
            assert truth <= value(upper, x) * (1 + 1e-13)
    assert value(upper, 1.0) - value(lower, 1.0) < (1e-9 if step == F(1, 8) else 2e-3)


def test_dense_discrete_normal_is_close_to_normal() -> None:
    """At variance 10^12 and shift 10^5 the profile is that of Normal(1/10) to many digits."""
    pair = DiscreteNormal(F(10**12), F(10**5))
    upper, lower = (pair.on_grid(Grid(F(1, 2000), 1e-18), side) for side in Side)
    with flint.ctx.workprec(200):
        for epsilon in (0.0, 0.1, 0.4):
            ball, x = exact(Normal(F(1, 10)), epsilon)
            assert value(lower, x) <= float(ball.mid()) * (1 + 1e-5)
            assert value(upper, x) >= float(ball.mid()) * (1 - 1e-5)
            assert value(upper, x) - value(lower, x) < 1e-5


def test_discrete_normal_shift_must_be_whole() -> None:
    with pytest.raises(Unsupported, match="whole"):
        DiscreteNormal(F(4), F(1, 2)).on_grid(Grid(F(1, 8), 1e-9), Side.UPPER)


# --- products, maxima, concentrated --------------------------------------------------------------


def test_product_by_convolution() -> None:
    """Three responses mixed at rate 1/5, against enumeration with fractions."""
    pair = Mixed(Product(((RESPONSE, F(3)),)), F(1, 5))
    outcomes = [(F(1), F(1))]
    for _ in range(3):
        outcomes = [(p * a, q * b) for p, q in outcomes for a, b in RESPONSE.outcomes]
    for side in Side:
        found = pair.on_grid(Grid(F(1, 2000), 1e-18), side)
        for epsilon in np.linspace(-0.2, 2, 45):
            x = F(float(np.exp(epsilon)))
            mixed = [(F(4, 5) * q + p / 5, q) for p, q in outcomes]
            truth = float(sum(max(F(0), p - x * q) for p, q in mixed))
            slack = 1e-12 * (1 if side is Side.UPPER else -1)
            difference = value(found, float(x)) - truth + slack
            assert difference >= 0 if side is Side.UPPER else difference <= 0
            assert abs(difference) < 2e-3


def test_convolution_keeps_infinite_mass() -> None:
    one = Discrete(F(1), 0, np.array([0.9]), 0.1)
    both = convolved(one, one, 0.0, Side.UPPER)
    assert both.infinite == pytest.approx(0.19)
    assert both.masses.sum() == pytest.approx(0.81)


@pytest.mark.parametrize("rho", [F(1, 1000), F(1, 10), F(3)])
def test_concentrated_dominates_the_normal_pair(rho: Fraction) -> None:
    """Normal(sqrt(2 rho)) is rho-zCDP, so its profile lies below."""
    found = Concentrated(rho).on_grid(Grid(F(1, 500), 1e-18), Side.UPPER)
    mu = math.sqrt(2 * float(rho))
    with flint.ctx.workprec(200):
        for epsilon in epsilons():
            ball, x = exact(Normal(F(mu)), epsilon)
            assert value(found, x) >= float(ball.mid()) * (1 - 1e-12) - 1e-17


def test_concentrated_has_no_lower_profile() -> None:
    with pytest.raises(NoLower):
        Concentrated(F(1)).on_grid(Grid(F(1, 100), 1e-9), Side.LOWER)


def test_concentrated_bound_is_the_best_order() -> None:
    """Canonne-Kamath-Steinke at a fine grid of orders is never below, and meets it closely."""
    rho, epsilons_at = 0.1, np.array([0.5, 1.0, 2.0, 4.0])
    alpha = 1 + np.geomspace(1e-3, 1e3, 200_001)
    for epsilon, found in zip(epsilons_at, concentrated_delta(epsilons_at, rho), strict=True):
        log_delta = (alpha - 1) * (alpha * rho - epsilon) - np.log(alpha - 1)
        best = float(np.exp(np.min(log_delta + alpha * np.log1p(-1 / alpha))))
        assert float(found) == pytest.approx(best, rel=1e-7)


def test_node_values_and_back() -> None:
    start = Discrete(F(1, 10), -3, np.array([0.1, 0.2, 0.0, 0.3, 0.25]), 0.05)
    values = node_values(start, -5, 4)
    back = from_values(values, -5, 0.9, F(1, 10), Side.UPPER)
    for x in (0.1, 0.8, 1.0, 1.3, 2.0):
        assert value(back, x) == pytest.approx(value(start, x), rel=1e-11)


def test_hull_lowers_and_is_convex() -> None:
    rng = np.random.default_rng(1)
    h = 0.05
    for _ in range(20):
        signed = rng.uniform(-0.4, 1.0, 40)
        signed[0] = signed[-1] = 8.0
        hull = convexified(signed, h)
        assert hull is not None
        assert np.all(hull >= 0)
        nodes = np.exp(np.arange(40) * h)
        for x in np.linspace(0.0, 8.0, 60):
            own = float(signed @ np.maximum(0, 1 - x / nodes))
            assert float(hull @ np.maximum(0, 1 - x / nodes)) <= own + 1e-12


@pytest.mark.quality
def test_long_chains_of_kinks_are_rounded_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tiny rate on a grid of a million nodes: rounded to nearest, the masses exceed 1."""
    pair = Mixed(Normal(1 / F("0.273")), F("1.45e-7")).swapped
    grid = Grid(F("2.5e-5"), 1e-28)
    assert float(pair.on_grid(grid, Side.LOWER).masses.sum()) <= 1
    monkeypatch.setattr(hull_rounding, "_down", lambda mass: mass)
    monkeypatch.setattr(hull_rounding, "SPLITTING", 0.0)
    with pytest.raises(Unsupported, match="a lower profile of mass 1"):
        pair.on_grid(grid, Side.LOWER)


def summed(variance: Fraction, shift: int, x: Any) -> Any:
    """delta at x by going through all integers, to 60 digits."""
    with mpmath.workdps(60):
        v = mpmath.mpf(variance.numerator) / variance.denominator
        reach = int(60 * mpmath.sqrt(v)) + shift + 60

        def weight(k: int) -> Any:
            return mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * v))

        gained = (weight(k) - x * weight(k - shift) for k in range(-reach, reach + shift + 1))
        whole = mpmath.fsum(weight(k) for k in range(-reach, reach + 1))
        return mpmath.fsum(max(one, 0) for one in gained) / whole


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("variance", "shift"),
    [(F(1), 40), (F(100), 400), (F(100), 7), (F(1, 2000), 1), (F(1, 20), 9), (F(7, 3), 3)],
)
def test_one_release_of_discrete_noise_is_a_sum(variance: Fraction, shift: int) -> None:
    """Both ends, whatever the sensitivity; the checker's own sum confirms them."""
    pair = DiscreteNormal(variance, F(shift))
    for epsilon in (F(0), F(1, 2), F(30)):
        found = delta_interval(pair, epsilon)
        with mpmath.workdps(60):
            truth = summed(variance, shift, mpmath.exp(mpmath.mpf(float(epsilon))))
            low, high = (
                mpmath.mpf(e.numerator) / e.denominator for e in (found.lower, found.upper)
            )
            assert low <= truth <= high
            assert high - low <= high * mpmath.mpf("1e-10")
    for released in (pair, Mixed(pair, F(1, 1000)), Mixed(pair, F(1, 1000)).swapped):
        known = epsilon_interval(released, F(1, 10**5))
        assert 0 < known.upper - known.lower <= F(1, 10**9) * max(known.upper, F(1))
        assert closed_at_most(released, known.upper, F(1, 10**5))
        assert closed_at_least(released, known.lower, F(1, 10**5))
        near = known.upper * (1 - F(1, 10**9))
        assert not closed_at_most(released, near, F(1, 10**5))


def test_noise_of_very_many_values_is_the_lattice_s() -> None:
    assert not DiscreteNormal(F(10**9), F(1)).has_delta
    assert not has_closed(DiscreteNormal(F(10**9), F(1)))
    assert not DiscreteNormal(F(4), F(1, 2)).has_delta
