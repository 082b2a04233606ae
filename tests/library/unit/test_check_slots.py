"""The checker's lower ends of noise in one of some slots: enumeration, quadrature, certificates."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

import dpaudit as dp
from dpaudit.check.profile import slots
from dpaudit.check.profile.cells import Cells, Grid, NotConfirmed, ball
from dpaudit.check.profile.conversions import confirm_conversion, confirm_lower
from dpaudit.check.profile.nodes import lower_nodes
from dpaudit.exact import decimal_upper
from dpaudit.pairs import Allocated, Normal, Reshuffled

F = Fraction
REPLACE, ADD_REMOVE = dp.central("replace_one"), dp.central("add_remove")
GRID = Grid(F(1, 1000), 1e-20)


def profile(cells: Cells, x: float) -> float:
    nodes = lower_nodes(cells, GRID.h)
    losses = (nodes.first + np.arange(len(nodes.masses))) * GRID.h
    return float(nodes.masses @ np.maximum(0, 1 - x * np.exp(-losses)))


def two_slots(m: float, x: float) -> float:
    """E (R - x)+, R the mean of two: over one by the trapezoid rule, over the other closed."""
    z = np.linspace(-12, 12 + m, 400_001)
    own = np.exp(m * z - m * m / 2)
    density = stats.norm.pdf(z) * (z[1] - z[0])
    strike = 2 * x - own
    with np.errstate(divide="ignore", invalid="ignore"):
        d = np.where(strike > 0, -np.log(np.maximum(strike, 1e-300)) / m + m / 2, np.inf)
    call = stats.norm.cdf(d) - np.maximum(strike, 0) * stats.norm.cdf(d - m)
    above = np.where(strike > 0, call, 1 - strike) / 2
    return float(density @ above)


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize(("noise", "epsilon"), [("1", 0.5), ("2", 0.3), ("1/2", 3.0), ("5", 0.05)])
def test_two_slots_are_next_to_their_quadrature_and_below(noise: str, epsilon: float) -> None:
    m, x = 1 / float(F(noise)), math.exp(epsilon)
    cells = slots.slots_below(Allocated(F(noise), F(2)), GRID)
    truth = two_slots(m, x)
    # Of much noise in multiples; of little by intervals of log X.
    near, other = (2e-3, 5e-3) if m <= 1 / 2 else (1e-4, 1e-4)
    assert truth * (1 - near) <= profile(cells, x) <= truth * (1 + 1e-9)
    # E (1 - x R)+ = x E (1 / x - R)+, and (y - R)+ = (R - y)+ + y - R.
    swapped = x * two_slots(m, 1 / x) + 1 - x
    assert swapped * (1 - other) <= profile(cells.swapped(GRID.h), x) <= swapped * (1 + 1e-9)


def test_sums_are_those_of_an_enumeration(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three slots of a few multiples each: every triple, and the moved slot's own masses."""
    monkeypatch.setattr(slots, "MOST_PARTS", 6)
    m, reach = 0.7, slots.REACH
    top = math.exp(m * (m + reach) - m * m / 2)
    ends = [(math.log(k * top / 6) + m * m / 2) / m for k in range(1, 6)]
    laws = [np.diff(np.r_[0.0, stats.norm.cdf(ends, loc=move), 1.0]) for move in (m, 0.0)]
    found = []
    for first in laws:
        law: Counter[int] = Counter()
        for ks in itertools.product(range(6), repeat=3):
            law[sum(ks)] += first[ks[0]] * laws[1][ks[1]] * laws[1][ks[2]]
        found.append([law[k] for k in sorted(law)])
    import flint

    with flint.ctx.workprec(slots.PRECISION):
        ours = slots._sum_of_all(ball(F(7, 10)), 3)
    for masses, truth in zip(ours, found, strict=True):
        made = [mass / 2**slots.BITS for mass in masses]
        assert made == pytest.approx(truth[: len(made)], rel=1e-9, abs=1e-14)
        assert sum(masses) < 2**slots.BITS


def three_slots(m: float, x: float) -> float:
    """The same of three, over two of them."""
    z, step = np.linspace(-9, 9 + m, 1801, retstep=True)
    own, density = np.exp(m * z - m * m / 2), stats.norm.pdf(z) * step
    found = 0.0
    for first, weight in zip(own, density, strict=True):
        strike = 3 * x - own - first
        d = -np.log(np.maximum(strike, 1e-300)) / m + m / 2
        call = special.ndtr(d) - strike * special.ndtr(d - m)
        found += weight * float(density @ np.where(strike > 0, call, 1 - strike)) / 3
    return found


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize(
    ("noise", "epsilon"),
    [pytest.param("1/2", 3.0, marks=pytest.mark.quality), ("1", 0.5)],
)
def test_three_slots_of_little_noise_are_next_to_their_quadrature_and_below(
    noise: str, epsilon: float
) -> None:
    m, x = 1 / float(F(noise)), math.exp(epsilon)
    cells = slots.slots_below(Allocated(F(noise), F(3)), GRID)
    truth = three_slots(m, x)
    assert truth * (1 - 1e-4) <= profile(cells, x) <= truth * (1 + 1e-7)
    swapped = x * three_slots(m, 1 / x) + 1 - x
    assert swapped * (1 - 1e-4) <= profile(cells.swapped(GRID.h), x) <= swapped * (1 + 1e-7)


def test_places_are_those_of_an_enumeration(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three slots of 40 intervals each: every triple, by the places of its sums, rare ones out."""
    monkeypatch.setattr(slots, "PLACES", 40)
    monkeypatch.setattr(slots, "ROWS", 7)
    monkeypatch.setattr(slots, "RARE", 1e-7)
    m = 1.5
    width, low = slots._width(ball(F(3, 2)), 3), -m * (m / 2 + slots.REACH)
    ends = [(low + k * width + m * m / 2) / m for k in range(1, 40)]
    p, q = (np.diff(np.r_[0.0, stats.norm.cdf(ends, loc=move), 1.0]) for move in (m, 0.0))
    kept = [k for k in range(40) if min(p[k], q[k]) > 1e-7]

    def place(one: int, other: int) -> int:
        reached = sum(math.exp(low + (k + 0.5) * width) for k in (one, other))
        return min(max(round((math.log(reached) - low) / width - 0.5), 0), 39)

    two_p, two_q, all_p, all_q = (Counter[int]() for _ in range(4))
    for i, j in itertools.product(kept, repeat=2):
        two_p[place(i, j)] += (p[i] * q[j] + q[i] * p[j]) / 2
        two_q[place(i, j)] += q[i] * q[j]
    for i, j in itertools.product(two_q, kept):
        if min(two_p[i], two_q[i]) > 1e-7:
            all_p[place(i, j)] += (2 * two_p[i] * q[j] + two_q[i] * p[j]) / 3
            all_q[place(i, j)] += two_q[i] * q[j]
    held = [k for k in sorted(all_p) if min(all_p[k], all_q[k]) > 1e-7]
    import flint

    with flint.ctx.workprec(slots.PRECISION):
        losses, masses, outside, error = slots._placed(ball(F(3, 2)), 3)
    assert masses == pytest.approx([all_p[k] for k in held], rel=1e-9)
    assert losses == pytest.approx([math.log(all_p[k] / all_q[k]) for k in held], abs=1e-9)
    assert outside[0] == pytest.approx(1 - sum(all_p[k] for k in held), abs=1e-9)
    assert outside[1] == pytest.approx(1 - sum(all_q[k] for k in held), abs=1e-9)
    assert 1e-14 < error < 1e-9


def test_the_largest_of_two_slots_has_the_law_of_their_maximum() -> None:
    """200,000 draws of both; Hoeffding's inequality at 1e-9."""
    rng = np.random.default_rng(3)
    drawn = rng.standard_normal((200_000, 2))
    pair = Reshuffled(F(1), F(2))
    cells = slots.slots_below(pair, GRID)
    grid = np.linspace(-8, 12, 200_001)

    def density(move: float) -> Any:
        pdf, cdf = stats.norm.pdf, stats.norm.cdf
        return pdf(grid - move) * cdf(grid) + cdf(grid - move) * pdf(grid)

    p, q = density(2.0), density(1.0)
    for epsilon in (0.5, 1.5):
        x = math.exp(epsilon)
        truth = float(np.maximum(p - x * q, 0).sum() * (grid[1] - grid[0]))
        assert truth * (1 - 2e-3) <= profile(cells, x) <= truth * (1 + 1e-6)
        # And is no more than what both slots show.
        shown = drawn + np.array([2.0, 0.0])
        over = np.exp(2 * shown - 2).sum(axis=1) / np.exp(shown - 0.5).sum(axis=1)
        mean = float(np.maximum(0, 1 - x / over).mean())
        assert profile(cells, x) <= mean + math.sqrt(math.log(2e9) / 400_000)


CONFIRMED = [
    (dp.RandomAllocation(dp.Gaussian("g", F(1, 2)), 2), REPLACE),
    (dp.RandomAllocation(dp.Gaussian("g", F(1, 2)), 8), ADD_REMOVE),
    (dp.RandomAllocation(dp.Gaussian("g", 2), 10), REPLACE),
    (dp.Repeat(dp.RandomAllocation(dp.Gaussian("g", 2), 10), 5), REPLACE),
    pytest.param(dp.Shuffled(dp.Gaussian("g", 1), 100), REPLACE, marks=pytest.mark.quality),
    pytest.param(
        dp.Repeat(dp.RandomAllocation(dp.Gaussian("g", 1), 100), 10),
        ADD_REMOVE,
        marks=pytest.mark.quality,
    ),
    pytest.param(
        dp.Shuffled(dp.Gaussian("g", 3), 10_000), REPLACE, marks=pytest.mark.quality
    ),
    pytest.param(
        dp.Repeat(dp.ShuffledBatches(dp.Gaussian("g", 1), 6000, 600), 2),
        dp.central("zero_out"),
        marks=pytest.mark.quality,
    ),
]  # fmt: skip


@pytest.mark.first_case
@pytest.mark.parametrize(("node", "scope"), CONFIRMED, ids=range(len(CONFIRMED)))
def test_lower_ends_are_confirmed_and_larger_ones_are_not(node: Any, scope: Any) -> None:
    delta = F(1, 10**5)
    step = dp.account(node, scope).converted("profile", delta)
    losses = step.premises[0].value
    found = confirm_conversion(losses, delta, decimal_upper(step.value[0]), step.witness)
    assert found is not None
    assert found.reached == step.lower > 0
    assert not found.reached_doubted
    (row,) = step.witness["lower"]
    pair = losses.reached[int(row["pair"])]
    assert not confirm_lower(pair, F(row["value"]) * F(101, 100), delta, row)


def test_what_is_not_computed_is_refused() -> None:
    for pair in (
        Allocated(F(1), F(1)),
        Allocated(F(1), F(5, 2)),
        Allocated(F(1), F(2**21)),
        Allocated(F(1, 5), F(10)),
        Normal(F(1)),
    ):
        with pytest.raises(NotConfirmed):
            slots.slots_below(pair, GRID)
