"""The checker's profiles: one-step masses, tampered witnesses, what is left on trust."""

from __future__ import annotations

import math
from fractions import Fraction
from types import SimpleNamespace

import flint
import numpy as np
import pytest

from dpaudit.check.profile import coarse, fourier
from dpaudit.check.profile import noise as profile_noise
from dpaudit.check.profile.cells import BITS, Grid, NotConfirmed, ball
from dpaudit.check.profile.closed import delta_by
from dpaudit.check.profile.conversions import is_computed_below
from dpaudit.check.profile.fourier import delta_bound
from dpaudit.check.profile.nodes import Nodes, convex, lower_nodes, upper_nodes
from dpaudit.check.profile.onestep import cells
from dpaudit.check.profile.transforms import is_smooth, smooth_bound
from dpaudit.check.profile.values import has_values, value_nodes
from dpaudit.pairs import (
    Atoms,
    Concentrated,
    DiscreteNormal,
    LaplaceShift,
    Mixed,
    Normal,
    Pair,
    Renyi,
    Spliced,
    Thresholded,
    largest,
    product,
)
from dpaudit.profiles import delta_interval

F = Fraction
SUBSAMPLED = Mixed(Normal(F(1)), F(1, 100))
COIN = Atoms(((F(3, 4), F(1, 4)), (F(1, 4), F(3, 4))))
TELLING = Atoms(((F(1, 1000), F(0)), (F(0), F(1, 1000)), (F(999, 1000), F(999, 1000))))
PAIRS: dict[str, Pair] = {
    "normal": Normal(F(1, 3)),
    "large normal": Normal(F(2)),
    "subsampled": SUBSAMPLED,
    "subsampled away": SUBSAMPLED.swapped,
    "rarely sampled": Mixed(Normal(F(5, 3)), F(1, 1000)),
    "often sampled": Mixed(Normal(F(1, 2)), F(9, 10)),
    "Laplace": LaplaceShift(F(1, 2)),
    "subsampled Laplace": Mixed(LaplaceShift(F(1)), F(1, 7)),
    "subsampled Laplace away": Mixed(LaplaceShift(F(1)), F(1, 7)).swapped,
    "coin": COIN,
    "subsampled coin": Mixed(COIN, F(1, 3)),
    "telling": TELLING,
    "a batch": Spliced(SUBSAMPLED, SUBSAMPLED.swapped),
}
STEP = F(1, 2048)


def value(nodes: Nodes, epsilon: float) -> float:
    losses = (nodes.first + np.arange(len(nodes.masses))) * float(STEP)
    return float(nodes.infinite + nodes.masses @ np.maximum(0, -np.expm1(epsilon - losses)))


def exact(pair: Pair, epsilon: float) -> float:
    with flint.ctx.workprec(200):
        return float(delta_by(pair, ball(epsilon).exp()).mid())


@pytest.mark.first_case
@pytest.mark.parametrize("name", PAIRS)
def test_one_step_lies_between_its_nodes(name: str) -> None:
    """Closed forms in Arb at 80 losses; what is left out at the ends is below 1e-20."""
    pair = PAIRS[name]
    found = cells(pair, Grid(STEP, 1e-20))
    above, below = upper_nodes(found), lower_nodes(found, float(STEP))
    low, high = found.first * float(STEP), (found.first + len(found.on)) * float(STEP)
    gaps = []
    for epsilon in np.linspace(max(low, -8) - 0.1, min(high, 8) + 0.1, 80):
        true = exact(pair, float(epsilon))
        slack = 1e-12 * true + 3e-16 + 2 * found.shift
        assert value(below, epsilon) <= true + slack, epsilon
        assert value(above, epsilon) >= true - slack, epsilon
        gaps.append(value(above, epsilon) - value(below, epsilon))
    assert max(gaps) < 2e-3


@pytest.mark.first_case
@pytest.mark.parametrize("name", ["normal", "subsampled", "rarely sampled", "often sampled"])
def test_masses_in_floats_are_those_in_arb(name: str) -> None:
    """Every 97th cell, within the error that the cells state; that is below 1e-11."""
    pair = PAIRS[name]
    base, rate = (pair.base, pair.rate) if isinstance(pair, Mixed) else (pair, F(1))
    grid = Grid(F(1, 8192), 1e-40)
    assert isinstance(base, Normal)
    with flint.ctx.workprec(BITS):
        noise = profile_noise.base_of(base, grid.tail)
        first, last = profile_noise._nodes(noise, float(rate), grid)
        a, b, error = profile_noise._in_floats(noise, rate, first, last, grid)
        usable = np.flatnonzero(np.isfinite(error))
        assert len(usable) > 500
        assert error[usable].max() < 1e-11
        for k in usable[:: max(97, len(usable) // 300)]:
            known_a, known_b, spill = profile_noise._in_arb(noise, ball(rate), first + int(k), grid)
            assert spill == 0
            assert abs(a[k] / known_a - 1) <= error[k]
            assert abs(b[k] / known_b - 1) <= error[k]


def test_masses_of_discrete_noise_are_those_of_its_integers() -> None:
    pair = DiscreteNormal(F(4), F(1))
    found = cells(pair, Grid(F(1, 8), 1e-20))
    weights = {k: math.exp(-k * k / 8) for k in range(-60, 61)}
    whole = sum(weights.values())
    for k in range(-5, 6):
        # The outcome k has loss (2 k - 1) / 8.
        expected = weights[k - 1] / whole
        assert found.on[2 * k - 1 - found.first] == pytest.approx(expected, rel=1e-12)


def test_swapped_twice_is_the_same() -> None:
    found = cells(SUBSAMPLED, Grid(STEP, 1e-20))
    again = found.swapped(float(STEP)).swapped(float(STEP))
    np.testing.assert_allclose(again.a, found.a, rtol=1e-13)
    np.testing.assert_allclose(again.b, found.b, rtol=1e-13)
    assert again.first == found.first


def test_concave_kinks_are_cut_off_from_above() -> None:
    """The hull of 200 random signed kinks lies nowhere above them, and is convex."""
    draw = np.random.default_rng(1)
    h = 0.01
    for _ in range(20):
        kinks = draw.normal(0.5, 1, 200)
        kinks[-1] = 5.0
        hull = convex(kinks, h)
        assert (hull >= 0).all()
        for at in range(-5, 206):
            tent = np.maximum(0, -np.expm1((at - np.arange(200)) * h))
            assert hull @ tent <= kinks @ tent + 1e-12


def test_a_profile_that_cannot_be_made_convex_is_not_confirmed() -> None:
    with pytest.raises(NotConfirmed):
        convex(np.array([1.0, -2.0]), 0.1)


# --- compositions --------------------------------------------------------------------------------


def enumerated(pair: Atoms, times: int, epsilon: Fraction) -> float:
    """delta of a product of atoms by enumeration, in 60 digits."""
    outcomes = [(F(1), F(1))]
    for _ in range(times):
        outcomes = [(p * u, q * v) for p, q in outcomes for u, v in pair.outcomes]
    with flint.ctx.workprec(200):
        x = ball(epsilon).exp()
        total = sum(((ball(p) - x * ball(q)).max(ball(0)) for p, q in outcomes), ball(0))
        return float(total.mid())


@pytest.mark.first_case("pair")
@pytest.mark.parametrize("times", [1, 2, 5, 8])
@pytest.mark.parametrize("pair", [COIN, Mixed(COIN, F(1, 3)), TELLING], ids=str)
def test_few_atoms_are_bounded_as_enumerated(times: int, pair: Pair) -> None:
    listed = pair
    if isinstance(pair, Mixed):
        assert isinstance(pair.base, Atoms)
        listed = Atoms(tuple((F(2, 3) * q + F(1, 3) * p, q) for p, q in pair.base.outcomes))
    assert isinstance(listed, Atoms)
    grid = Grid(F(1, 4096), 1e-30)
    found = cells(pair, grid)
    for epsilon in (F(0), F(1, 7), F(4, 5)):
        true = enumerated(listed, times, epsilon)
        above = delta_bound([(upper_nodes(found), times)], grid.step, 2.0, epsilon, 1)
        below = delta_bound([(lower_nodes(found, grid.h), times)], grid.step, 2.0, epsilon, -1)
        assert float(below) <= true * (1 + 1e-9) + 1e-13
        assert true <= float(above) * (1 + 1e-9) + 1e-13
        assert float(above - below) < 0.002 * times


@pytest.mark.parametrize("tilt", [0.3, 1.0, 3.0, 9.0])
def test_any_tilt_gives_true_bounds(tilt: float) -> None:
    """50 normal steps of 1/5 are one of sqrt(2)."""
    grid = Grid(F(1, 1024), 1e-25)
    found = cells(Normal(F(1, 5)), grid)
    mu = math.sqrt(2)
    for epsilon in (F(1), F(3), F(6)):
        e = float(epsilon)
        tails = (e / mu - mu / 2) / math.sqrt(2), (e / mu + mu / 2) / math.sqrt(2)
        true = math.erfc(tails[0]) / 2 - math.exp(e) * math.erfc(tails[1]) / 2
        above = delta_bound([(upper_nodes(found), 50)], grid.step, tilt, epsilon, 1)
        below = delta_bound([(lower_nodes(found, grid.h), 50)], grid.step, tilt, epsilon, -1)
        assert float(below) <= true <= float(above)
        if tilt < 5:
            assert float(above) <= true * (1 + 1e-3) + 1e-9


def test_a_normal_with_laplace_noise_and_atoms_lies_between_grids() -> None:
    """The series in Arb against sums on a grid of the same product, from both sides."""
    factors = [(Normal(F(1, 2)), 1), (LaplaceShift(F(1, 4)), 6), (COIN, 2)]
    grid = Grid(F(1, 4096), 1e-25)
    made = [(cells(pair, grid), times) for pair, times in factors]
    for epsilon in (F(1, 2), F(2), F(5)):
        above, below = (smooth_bound(factors, 3.0, epsilon, sign) for sign in (1, -1))
        assert below <= above <= below * (1 + F(1, 10**9))
        uppers = [(upper_nodes(c), times) for c, times in made]
        lowers = [(lower_nodes(c, grid.h), times) for c, times in made]
        assert below <= delta_bound(uppers, grid.step, 3.0, epsilon, 1)
        assert delta_bound(lowers, grid.step, 3.0, epsilon, -1) <= above


@pytest.mark.parametrize(
    ("factors", "expected"),
    [
        ([(Normal(F(1)), 1)], True),
        ([(Normal(F(1)), 1), (LaplaceShift(F(1)), 3)], True),
        ([(SUBSAMPLED, 4)], True),
        ([(LaplaceShift(F(1)), 3)], False),  # atoms remain in every product
        ([(COIN, 3)], False),
        ([(Normal(F(1)), 1), (DiscreteNormal(F(4), F(1)), 1)], False),
    ],
)
def test_a_transform_falls_with_normal_noise_in_the_product(
    factors: list[tuple[Pair, int]], expected: bool
) -> None:
    assert is_smooth(product(factors)) == expected


def test_a_period_that_no_transform_may_have_is_summed_directly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Sums over few frequencies have no use for a transform's limit; those by FFT keep to it."""
    nodes = upper_nodes(cells(Normal(F(1, 3)), Grid(F(1, 64), 1e-20)))
    factors, step = [(nodes, 1)], F(1, 64)
    bound = delta_bound(factors, step, 1.0, F(1), 1)
    monkeypatch.setattr(fourier, "LARGEST_PERIOD", 16)
    assert delta_bound(factors, step, 1.0, F(1), 1) == bound
    monkeypatch.setattr(fourier, "DIRECT_KEPT", 0)
    with pytest.raises(NotConfirmed, match="the period is too long"):
        delta_bound(factors, step, 1.0, F(1), 1)
    monkeypatch.setattr(fourier, "LONGEST_PERIOD", 16)
    with pytest.raises(NotConfirmed, match="the period is too long"):
        fourier._half_period([fourier._tilted(nodes, 1, 1 / 64, 1.0)], 1 / 64, 0)


def test_more_masses_than_a_period_are_folded() -> None:
    w = np.random.default_rng(1).random(11)
    found, error = fourier._by_fft(SimpleNamespace(w=w), 4)  # type: ignore[arg-type]
    exact = [(w * np.exp(-2j * np.pi * j * np.arange(11) / 4)).sum() for j in range(3)]
    np.testing.assert_allclose(found, exact, atol=1e-12)
    assert (np.abs(found - exact) <= error).all()


def test_errors_of_laplace_cells_hold_how_far_their_ends_may_have_moved() -> None:
    base = profile_noise._laplace(F(1))
    relative = base.inside(np.array([0.1]), np.array([1e-3]), np.array([1e-9]))[2]
    assert 2e-9 <= float(relative[0]) <= 2.1e-9


@pytest.mark.parametrize("sign", [1, -1])
def test_infinite_losses_are_known_to_their_rounding(sign: int) -> None:
    """1 - (1 - s)^T of s = 1/1000, four factors."""
    nodes = (upper_nodes if sign > 0 else lower_nodes)(
        cells(TELLING, Grid(F(1, 4096), 1e-30)), *([] if sign > 0 else [1 / 4096])
    )
    tilted = [fourier._tilted(nodes, 4, 1 / 4096, 1.0)]
    found = float(fourier._infinite(tilted, sign).mid())
    assert found == pytest.approx(1 - 0.999**4, rel=1e-9)
    assert (found - (1 - 0.999**4)) * sign > 0


def test_integers_of_narrow_noise_may_move_either_way() -> None:
    up, down = (cells(DiscreteNormal(F(4), F(s)), Grid(F(1, 64), 1e-20)) for s in (1, -1))
    np.testing.assert_allclose(np.sort(up.on), np.sort(down.on), atol=1e-12)


def test_integers_of_wide_noise_are_added_up_by_cell_with_little_left_out() -> None:
    grid = Grid(F(1, 4096), 1e-25)
    found = cells(DiscreteNormal(F(1_100_000), F(50)), grid)
    assert max(*found.below, *found.above) < 1e-20
    k = np.arange(-20_000, 20_000)
    p, q = (np.exp(-((k - shift) ** 2) / 2.2e6) for shift in (50, 0))
    true = float(np.maximum(p - math.exp(0.03) * q, 0).sum() / q.sum())
    above = delta_bound([(upper_nodes(found), 1)], grid.step, 2.0, F(3, 100), 1)
    assert true <= float(above) <= true * (1 + 5e-5)


RHO = F(1, 8)


@pytest.mark.first_case("pair")
@pytest.mark.parametrize("times", [1, 6])
@pytest.mark.parametrize(
    "pair",
    [
        Concentrated(RHO),
        Renyi(F(8), 8 * RHO),
        Mixed(Concentrated(RHO), F(1)),
        largest([Concentrated(RHO), LaplaceShift(F(1, 10))]),
    ],
    ids=str,
)
def test_opaque_pairs_dominate_what_has_their_divergences(pair: Pair, times: int) -> None:
    """Normal(1/2) has Renyi divergences a / 8; its compositions are normal again."""
    grid = Grid(F(1, 256), 1e-20)
    whole = product([(Normal(F(1, 2)), F(times))])
    for epsilon in (F(1, 2), F(2), F(4)):
        above = delta_bound([(value_nodes(pair, grid), times)], grid.step, 2.0, epsilon, 1)
        assert exact(whole, float(epsilon)) <= float(above)
        assert float(above) <= 1
    assert has_values(pair)
    assert not is_computed_below(product([(pair, F(2))]))


@pytest.mark.quality
def test_a_bound_at_points_is_that_of_the_best_order() -> None:
    """exp((a - 1)(a rho - e)) (1 - 1/a)^a / (a - 1) at the best of 1600 orders, to 1e-3."""
    nodes = value_nodes(Concentrated(RHO), Grid(STEP, 1e-20))
    for epsilon in (0.7, 1.9, 4.0):
        bounds = [
            math.exp((a - 1) * (a * float(RHO) - epsilon)) * (1 - 1 / a) ** a / (a - 1)
            for a in (1 + 1.005**k * 1e-2 for k in range(1600))
        ]
        assert value(nodes, epsilon) == pytest.approx(min(bounds), rel=1e-3)


def test_a_threshold_s_coarser_pair_tells_at_most_the_mass_at_zero() -> None:
    """P(R = 0) = exp(-epsilon k) / (1 + 2 (r + ... + r^k)), r = exp(-epsilon), term by term."""
    epsilon, kappa = Fraction(1, 2), 3
    found = coarse._thresholded(Thresholded(epsilon, Fraction(kappa), Fraction(1), Fraction(0)))
    atoms = next(pair for pair, _ in found.factors if isinstance(pair, Atoms))
    told = next(float(p) for p, q in atoms.outcomes if q == 0)
    r = math.exp(-0.5)
    exact = r**kappa / (1 + 2 * sum(r**k for k in range(1, kappa + 1)))
    assert exact <= told <= exact * (1 + 1e-8)


@pytest.mark.parametrize("period", [2**10, 2**16, 2**20])
def test_the_bound_of_a_transform_s_error_grows_with_its_logarithm(period: int) -> None:
    """Higham 2002, Theorem 24.2: log2 of the length times the norm; here for one unit weight."""
    factor = SimpleNamespace(w=np.array([1.0]))
    values, error = fourier._by_fft(factor, period)
    assert np.allclose(values, 1.0)
    steps = math.log2(period)
    assert error == pytest.approx(
        (fourier.FFT_FACTOR * steps + 1) * fourier.UNIT * math.sqrt(period), rel=1e-12
    )
    assert error > steps * fourier.UNIT * math.sqrt(period)


def test_what_tells_all_ends_a_profile_known_by_points() -> None:
    """Its delta never falls below that mass: red where the end is looked for below any tail."""
    lost, likely, unlikely = F(1, 10**6), F(2, 3), F(1, 3)
    some = [(lost, F(0)), (F(0), lost)]
    some += [(p * (1 - lost), q * (1 - lost)) for p, q in ((likely, unlikely), (unlikely, likely))]
    alike = largest((Atoms(tuple(some)), Normal(F(1, 2))))
    pair, grid = Mixed(alike, F(1, 10)), Grid(F(1, 256), 1e-14)
    with flint.ctx.workprec(BITS):
        bound = delta_bound([(value_nodes(pair, grid), 3)], grid.step, 20.0, F(1, 5), 1)
    known = delta_interval(product([(pair, F(3))]), F(1, 5))
    assert 3e-7 < known.lower <= bound <= known.upper * F(101, 100)
