"""Properties of privacy profiles over random pairs."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from dpaudit.grids.discrete import Grid, NoLower, Side
from dpaudit.pairs import Atoms, LaplaceShift, Mixed, Normal, Pair, product
from dpaudit.profiles import delta_interval, epsilon_interval

F = Fraction
FEW = settings(max_examples=15, deadline=None, derandomize=True)
SMALL = st.fractions(min_value=F(1, 20), max_value=F(2), max_denominator=40)
RATES = st.fractions(min_value=F(1, 200), max_value=F(9, 10), max_denominator=400)


@st.composite
def atoms(draw: st.DrawFn) -> Atoms:
    size = draw(st.integers(2, 4))
    weights = st.lists(st.integers(0, 9), min_size=size, max_size=size).filter(any)
    p, q = draw(weights), draw(weights)
    return Atoms(tuple((F(a, sum(p)), F(b, sum(q))) for a, b in zip(p, q, strict=True) if a or b))


def pairs() -> st.SearchStrategy[Pair]:
    base = st.one_of(SMALL.map(Normal), SMALL.map(LaplaceShift), atoms())
    return st.one_of(base, st.builds(Mixed, base, RATES))


def delta_of(outcomes: list[tuple[Fraction, Fraction]], epsilon: Fraction) -> float:
    x = math.exp(epsilon)
    return math.fsum(max(0.0, float(p) - x * float(q)) for p, q in outcomes)


@FEW
@given(atoms(), atoms(), st.integers(1, 2), st.fractions(F(0), F(4), max_denominator=8))
def test_products_of_atoms(a: Atoms, b: Atoms, count: int, epsilon: Fraction) -> None:
    factors = [a] * count + [b]
    outcomes = [
        (math.prod((p for p, _ in rows), start=F(1)), math.prod((q for _, q in rows), start=F(1)))
        for rows in itertools.product(*(f.outcomes for f in factors))
    ]
    truth = delta_of(outcomes, epsilon)
    found = delta_interval(product([(a, F(count)), (b, F(1))]), epsilon, 0.1)
    assert float(found.lower) <= truth + 1e-12
    assert truth <= float(found.upper) + 1e-12


@FEW
@given(pairs(), st.integers(2, 50), st.integers(1, 12))
def test_ends_are_in_order_and_swapping_twice_is_nothing(
    pair: Pair, count: int, digits: int
) -> None:
    delta = F(1, 10**digits)
    found = epsilon_interval(product([(pair, F(count))]), delta, 1e-2)
    assert found.lower >= 0
    assert found.lower <= found.upper
    twice = epsilon_interval(product([(pair.swapped.swapped, F(count))]), delta, 1e-2)
    assert (twice.lower, twice.upper) == (found.lower, found.upper)


@FEW
@given(pairs(), st.integers(1, 20))
def test_more_rounds_never_cost_less(pair: Pair, count: int) -> None:
    fewer, more = (
        epsilon_interval(product([(pair, F(n))]), F(1, 10**4), 1e-2) for n in (count, count + 1)
    )
    assert fewer.lower <= more.upper


@FEW
@given(pairs(), st.sampled_from([F(1, 16), F(1, 128)]))
def test_lower_side_is_below_upper_side(pair: Pair, step: Fraction) -> None:
    grid = Grid(step, 1e-12)
    upper = pair.on_grid(grid, Side.UPPER)
    try:
        lower = pair.on_grid(grid, Side.LOWER)
    except NoLower:
        return
    for epsilon in (-2.0, -0.3, 0.0, 0.1, 0.7, 2.0, 5.0):
        x = math.exp(epsilon)
        values = [
            side.infinite
            + math.fsum(
                m * max(0.0, 1 - x * math.exp(-loss))
                for m, loss in zip(side.masses, side.losses, strict=True)
            )
            for side in (lower, upper)
        ]
        assert values[0] <= values[1] * (1 + 1e-12) + 1e-15


@FEW
@given(SMALL, SMALL)
def test_a_larger_mu_costs_more(a: Fraction, b: Fraction) -> None:
    low, high = sorted((a, b))
    pairs_of = [product([(Mixed(Normal(mu), F(1, 10)), F(20))]) for mu in (low, high)]
    cheap, dear = (epsilon_interval(pair, F(1, 10**5), 1e-3) for pair in pairs_of)
    assert cheap.lower <= dear.upper
