"""The laws of random allocation step by step, the limits of their range, and bad input."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import flint
import numpy as np
import pytest
import sympy
from numpy.typing import NDArray

from dpaudit.errors import InvalidParameter
from dpaudit.grids import averages
from dpaudit.grids.averages import Law, Plan, law_of_mean
from dpaudit.grids.discrete import Discrete, Grid, Side, TooFine
from dpaudit.pairs import Allocated, Normal, Swapped, allocated

Floats = NDArray[np.float64]
WIDTH = Fraction(1, 8)
STRIKES = np.linspace(-1, 4, 173)
GRID = Grid(Fraction(1, 64), 1e-12)


def law_of(values: Floats, masses: Floats, first: int, summands: int) -> Law:
    return Law(WIDTH, first, masses, masses * values, summands)


def random_laws(side: Side, seed: int) -> tuple[Law, Law]:
    """Two laws with a few empty cells: on nodes (upper), anywhere in their cells (lower)."""
    rng = np.random.default_rng(seed)
    found = []
    for summands, first, size in ((2, -7, 14), (3, -4, 9)):
        masses = rng.random(size) * (rng.random(size) < 0.8)
        inside = np.zeros(size) if side is Side.UPPER else rng.random(size)
        values = np.exp((first + np.arange(size) + inside) * float(WIDTH))
        found.append(law_of(values, masses / masses.sum(), first, summands))
    return found[0], found[1]


def atoms(law: Law) -> tuple[Floats, Floats]:
    held = law.masses > 0
    return law.moments[held] / law.masses[held], law.masses[held]


def expected(values: Floats, masses: Floats) -> tuple[Floats, Floats]:
    """E(X - k)_+ and E(k - X)_+ at every strike k."""
    above = values - STRIKES[:, None]
    return np.maximum(above, 0) @ masses, np.maximum(-above, 0) @ masses


def exact_mean(a: Law, b: Law) -> tuple[Floats, Floats]:
    share = a.summands / (a.summands + b.summands)
    (x, p), (y, q) = atoms(a), atoms(b)
    return np.add.outer(share * x, (1 - share) * y).ravel(), np.multiply.outer(p, q).ravel()


def plan_of(side: Side, stage_tail: float = 1e-30) -> Plan:
    return Plan(5, WIDTH / 2, stage_tail, side)


@pytest.mark.parametrize("side", list(Side))
@pytest.mark.parametrize("fineness", [1, 2, 4])
@pytest.mark.parametrize("own", ["same", "other", "finer"])
def test_a_mean_of_two_laws_against_enumeration(
    side: Side, fineness: int, own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the convex order, at every strike, in both directions; mass and mean are kept."""
    monkeypatch.setattr(Plan, "width", lambda *_: WIDTH / fineness)
    sign = 1 if side is Side.UPPER else -1
    for seed in range(8):
        a, b = random_laws(side, seed)
        b = {"same": a, "other": b, "finer": averages._refined(b, WIDTH / 2, side)}[own]
        found = averages._mean(a, b, plan_of(side))
        assert found.summands == a.summands + b.summands
        assert found.relative > a.relative + b.relative
        assert math.isclose(found.masses.sum(), 1, rel_tol=1e-12)
        values, masses = exact_mean(a, b)
        assert math.isclose(found.moments.sum(), values @ masses, rel_tol=1e-12)
        for ours, true in zip(expected(*atoms(found)), expected(values, masses), strict=True):
            assert np.all(sign * (ours - true) >= -1e-13)
            assert np.max(np.abs(ours - true)) < 0.02 / fineness


def test_upper_laws_sit_on_their_nodes() -> None:
    law, _ = law_of_mean(Fraction(1), 6, Fraction(1, 100), 1e-12, Side.UPPER)
    held = np.flatnonzero(law.masses)
    losses = np.log(law.moments[held] / law.masses[held])
    assert np.allclose(losses, (law.first + held) * float(law.width), rtol=0, atol=1e-12)


def test_lower_indices_follow_the_means() -> None:
    law, _ = law_of_mean(Fraction(1), 1000, Fraction(1, 1000), 1e-12, Side.LOWER)
    held = np.flatnonzero(law.masses)
    losses = np.log(law.moments[held] / law.masses[held]) / float(law.width)
    weights = np.sqrt(law.moments[held] * law.masses[held])
    assert abs(np.average(losses - (law.first + held + 0.5), weights=weights)) < 0.6


def test_powers_against_arb() -> None:
    """Within four roundings, over the range of exponents in use."""
    for width, first, count in ((Fraction(1, 512), -3000, 9001), (Fraction(-1, 7), 0, 4000)):
        found = averages._powers(width, first, count)
        for i in range(0, count, 97):
            with flint.ctx.workprec(200):
                true = float((flint.arb(width.numerator) / width.denominator * (first + i)).exp())
            assert math.isclose(found[i], true, rel_tol=6 * 2.0**-53, abs_tol=1e-300)


def test_the_single_ratio_against_arb() -> None:
    """Masses and moments of cells, from a formula that is not the code's: the error function."""
    plan = Plan(1, Fraction(1, 4), 1e-20, Side.LOWER)
    law = averages._single(Fraction(2), plan)
    h = float(law.width)
    for i in range(1, len(law.masses) - 1, 37):
        with flint.ctx.workprec(300):
            edges = [2 * flint.arb(law.first + i + k) * flint.arb(h) + 0.25 for k in (0, 1)]
            for shift, array in ((0, law.masses), (0.5, law.moments)):
                low, high = (((x - shift) / flint.arb(2).sqrt()).erf() for x in edges)
                assert math.isclose(array[i], float((high - low) / 2), rel_tol=1e-15)


def test_what_is_cut_is_paid_for() -> None:
    """With a huge tail, the upper bound still dominates a nearly exact one, in both directions."""
    pair = Allocated(Fraction(1), Fraction(8))
    epsilons = np.linspace(-1, 3, 41)
    for direction in (pair, pair.swapped):
        exact = profile(direction.on_grid(Grid(Fraction(1, 500), 1e-15), Side.LOWER), epsilons)
        rough = direction.on_grid(Grid(Fraction(1, 500), 1e-2), Side.UPPER)
        assert 1e-4 < rough.infinite < 1e-2
        assert np.all(profile(rough, epsilons) >= exact)


def test_cut_masses_of_one_stage() -> None:
    """P and Q masses left out, counted once for each of the blocks."""
    masses = np.array([0.001, 0.5, 1e-200, 0.498, 0.001])
    law = law_of(np.array([0.5, 1.0, 1.0, 1.0, 2.0]), masses, 0, 2)
    found = averages._cut(law, Plan(10, WIDTH, 0.01, Side.UPPER))
    assert (found.first, found.masses.tolist()) == (1, [0.5, 0.0, 0.498])
    cut = found.cut
    assert math.isclose(cut[1], 5 * 0.002, rel_tol=0.002)
    assert math.isclose(cut[0], 5 * 0.002 + 0.0025, rel_tol=0.002)


def test_merging_keeps_mass_and_mean() -> None:
    masses = np.array([1e-200, 0.0, 1e-5, 0.5, 0.0, 1e-190, 0.5 - 1e-5, 1e-9, 1e-170])
    values = np.exp((np.arange(9) + 0.5) * float(WIDTH))
    law = law_of(values, masses, 0, 1)
    found = averages._merged(law, Plan(2, WIDTH, 1e-7, Side.LOWER))
    assert math.isclose(found.masses.sum(), masses.sum(), rel_tol=1e-15)
    assert math.isclose(found.moments.sum(), law.moments.sum(), rel_tol=1e-15)
    assert np.count_nonzero(found.masses) == 3
    assert found.masses[found.masses > 0].min() > 1e-140


def test_cells_hold_what_belongs_to_them() -> None:
    """The ratio of P to Q mass lies in each cell, and of Q mass 1 nothing is lost."""
    for side in Side:
        cells = allocated.allocated_cells(Allocated(Fraction(1), Fraction(9)), GRID, side)
        assert cells is not None
        held = np.flatnonzero(cells.q)
        position = np.log(cells.p[held] / cells.q[held]) / GRID.width - cells.first - held
        assert np.all(position >= -1e-9)
        assert np.all(position <= 1 + 1e-9)
        assert math.isclose(cells.q.sum() + cells.below[1], 1, rel_tol=1e-11)


def profile(found: Discrete, epsilons: Floats) -> Floats:
    ratios = np.exp(epsilons[:, None] - found.losses)
    return found.infinite + np.maximum(0, 1 - ratios) @ found.masses


@pytest.mark.parametrize("slots", [0, -3, Fraction(5, 2), sympy.Symbol("t"), sympy.pi])
def test_slots_must_be_a_whole_positive_number(slots: object) -> None:
    for pair in (Allocated(Fraction(1), slots), Swapped(Allocated(Fraction(1), slots))):
        with pytest.raises(InvalidParameter, match="slots"):
            pair.on_grid(GRID, Side.UPPER)


@pytest.mark.parametrize("noise", [Fraction(0), Fraction(-1), sympy.Symbol("z"), -sympy.sqrt(2)])
def test_noise_must_be_a_positive_number(noise: object) -> None:
    for side in Side:
        with pytest.raises(InvalidParameter, match=r"z|noise_multiplier"):
            Allocated(noise, Fraction(3)).on_grid(GRID, side)


def test_noise_may_be_an_expression() -> None:
    pair = Allocated(sympy.sqrt(2), Fraction(4))
    near = Allocated(Fraction("1.41421356237"), Fraction(4))
    for side in Side:
        ours, theirs = (profile(p.on_grid(GRID, side), np.array([0.5])) for p in (pair, near))
        assert ours == pytest.approx(theirs, rel=1e-6)


@pytest.mark.parametrize("slots", [2**20 + 1, 10**30])
def test_astronomically_many_slots(slots: int) -> None:
    """Fewer slots dominate; 1 - x (and less) lies below."""
    pair = Allocated(Fraction(2), Fraction(slots))
    most = Allocated(Fraction(2), Fraction(allocated.LARGEST_SLOTS))
    epsilons = np.array([-1.0, -0.1, 0.0, 0.01])
    upper = profile(pair.on_grid(GRID, Side.UPPER), epsilons)
    assert np.array_equal(upper, profile(most.on_grid(GRID, Side.UPPER), epsilons))
    assert upper[2] < 0.01
    fine = Grid(Fraction(1, 2**14), 1e-12)
    lower = profile(pair.on_grid(fine, Side.LOWER), epsilons)
    assert np.all(lower <= np.maximum(0, 1 - np.exp(epsilons)) + 1e-15)


def test_little_noise_is_bounded_by_one_slot() -> None:
    """delta_1(t x) <= delta_t(x) <= delta_1(x)."""
    noise, slots = Fraction(1, 20), Fraction(50)
    pair, single = Allocated(noise, slots), Normal(1 / noise)
    grid, epsilons = Grid(Fraction(1, 16), 1e-12), np.array([100.0, 150.0, 180.0, 200.0])
    upper = profile(pair.on_grid(grid, Side.UPPER), epsilons)
    lower = profile(pair.on_grid(grid, Side.LOWER), epsilons)
    assert np.array_equal(upper, profile(single.on_grid(grid, Side.UPPER), epsilons))
    moved = epsilons + math.log(50)
    assert np.all(lower <= profile(single.on_grid(grid, Side.UPPER), moved))
    nearly = profile(single.on_grid(grid, Side.LOWER), moved + 1 / 16)
    assert np.all(lower >= nearly * (1 - 1e-9))
    swapped = profile(pair.swapped.on_grid(grid, Side.LOWER), epsilons)
    assert np.all(swapped <= lower)


def test_tails_that_floats_cannot_hold() -> None:
    """More than a few tails would be cut: the bound of one slot, and never a silent 0."""
    pair, grid = Allocated(Fraction(1), Fraction(10)), Grid(Fraction(1, 64), 1e-250)
    assert allocated.allocated_cells(pair, grid, Side.UPPER) is None
    upper = profile(pair.on_grid(grid, Side.UPPER), np.array([1.0, 5.0]))
    one = profile(Normal(Fraction(1)).on_grid(grid, Side.UPPER), np.array([1.0, 5.0]))
    assert np.array_equal(upper, one)


def test_a_step_too_fine() -> None:
    with pytest.raises(TooFine, match="larger"):
        Allocated(Fraction(1), Fraction(3)).on_grid(Grid(Fraction(1, 2**30), 1e-9), Side.UPPER)


def test_laws_are_kept() -> None:
    """Both directions use one law: it is made once."""
    law_of_mean.cache_clear()
    pair = Allocated(Fraction(3), Fraction(7))
    for direction in (pair, pair.swapped):
        direction.on_grid(GRID, Side.UPPER)
    assert law_of_mean.cache_info().misses == 1


def test_stated_error_grows_with_the_slots_only() -> None:
    few, _ = law_of_mean(Fraction(1), 2, Fraction(1, 100), 1e-12, Side.UPPER)
    many, _ = law_of_mean(Fraction(1), 4096, Fraction(1, 100), 1e-12, Side.UPPER)
    assert 0 < few.relative < 1e-12
    assert few.relative < many.relative < 1e-8


def test_a_law_without_room_for_its_error_is_refused() -> None:
    cells = allocated.allocated_cells(Allocated(Fraction(1), Fraction(2)), GRID, Side.UPPER)
    assert cells is not None
    with pytest.raises(TooFine):
        replace(cells, relative=0.01).discrete(Side.UPPER)
