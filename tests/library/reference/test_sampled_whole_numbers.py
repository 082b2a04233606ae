"""Rounds of sampled discrete noise, by closed transforms: beside sums over all outcomes."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction as F
from itertools import product as every

import mpmath
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

from dpaudit.check.profile import whole
from dpaudit.check.profile.conversions import confirm_lower, confirm_upper
from dpaudit.pairs import Atoms, DiscreteNormal, Mixed, Pair, Swapped, product
from dpaudit.profiles.answers import delta_interval, epsilon_interval
from dpaudit.profiles.fourier.smooth import smooth_product
from dpaudit.profiles.fourier.smooth_interval import delta_smooth, epsilon_smooth
from dpaudit.profiles.fourier.whole import SampledDiscrete

TENTH = Mixed(DiscreteNormal(F(2), F(1)), F(1, 10))
FAR = Mixed(DiscreteNormal(F(1), F(20)), F(1, 100))
LAPLACE = Mixed(Atoms(((F(2, 3), F(1, 6)), (F(1, 6), F(1, 6)), (F(1, 6), F(2, 3)))), F(1, 10))


def rounds(pair: Pair, times: int) -> Pair:
    return product([(pair, F(times))])


def masses(pair: Pair) -> list[tuple[mpmath.mpf, mpmath.mpf]]:
    """P and Q masses of a sampled pair's outcomes, some digits beyond floats."""
    base = pair.base if isinstance(pair, Swapped) else pair
    assert isinstance(base, Mixed)
    rate, inner = mpmath.mpf(base.rate.numerator) / base.rate.denominator, base.base
    if isinstance(inner, Atoms):
        plain = [[mpmath.mpf(m.numerator) / m.denominator for m in row] for row in inner.outcomes]
    else:
        assert isinstance(inner, DiscreteNormal)
        double, shift = 2 * mpmath.mpf(float(inner.variance)), int(inner.shift)
        span = range(-30, 31 + shift)
        theta = mpmath.nsum(lambda k: mpmath.exp(-k * k / double), [-mpmath.inf, mpmath.inf])
        plain = [[mpmath.exp(-((k - m) ** 2) / double) / theta for m in (shift, 0)] for k in span]
    mixed = [((1 - rate) * q + rate * p, q) for p, q in plain]
    return [(q, p) for p, q in mixed] if isinstance(pair, Swapped) else mixed


def enumerated(pair: Pair, times: int, epsilon: float) -> float:
    """Delta of the product, outcome by outcome."""
    rows = [row for row in masses(pair) if max(row) > 1e-18]
    x = mpmath.exp(epsilon)
    gained = mpmath.mpf(0)
    for drawn in every(rows, repeat=times):
        p, q = (mpmath.fprod(row[k] for row in drawn) for k in (0, 1))
        gained += max(p - x * q, 0)
    return float(gained)


@pytest.mark.parametrize("pair", [TENTH, TENTH.swapped, LAPLACE, LAPLACE.swapped], ids=repr)
@pytest.mark.parametrize("epsilon", [F(1, 20), F(1, 2)])
def test_two_rounds_hold_what_all_outcomes_add_up_to(pair: Pair, epsilon: F) -> None:
    found = delta_smooth(((pair, 2),), epsilon) or delta_interval(rounds(pair, 2), epsilon)
    exact = enumerated(pair, 2, float(epsilon))
    assert float(found.lower) * (1 - 1e-9) <= exact <= float(found.upper) * (1 + 1e-9) + 1e-16
    if exact > 1e-6:
        assert float(found.upper) <= 1.1 * exact


@pytest.mark.quality
@pytest.mark.long_cases("rate0-100")
@pytest.mark.first_case
@pytest.mark.parametrize(("rate", "times"), [(F(1, 100), 100), (F(1, 1000), 10_000)])
def test_ends_are_near_and_around_another_library_s(rate: F, times: int) -> None:
    """They were 26% and 24% apart, in 1 to 3 s: a grid rounds the loss of every whole number."""
    pair = Mixed(DiscreteNormal(F(2), F(1)), rate)
    found = epsilon_interval(rounds(pair, times), F(1, 10**5))
    theirs = pld.from_discrete_gaussian_mechanism(
        math.sqrt(2), 1, value_discretization_interval=1e-5, sampling_prob=float(rate)
    ).self_compose(times)
    least = theirs.get_epsilon_for_delta(1e-5)
    assert found.upper - found.lower < found.upper * F(4, 10**4)
    assert float(found.lower) <= least * (1 + 1e-9)
    # Theirs rounds up in every round too.
    assert float(found.upper) >= least - 1e-5 * times


CASES = [
    (rounds(Mixed(DiscreteNormal(F(4), F(1)), F(1, 100)), 10_000), F(1, 10**5)),
    (rounds(Mixed(DiscreteNormal(F(4), F(1)), F(1, 100)).swapped, 10_000), F(1, 10**5)),
    (rounds(Mixed(DiscreteNormal(F(4), F(1)), F(1, 10)), 300), F(1, 10**30)),
    (rounds(LAPLACE, 100), F(1, 10**5)),
    (rounds(LAPLACE.swapped, 100), F(1, 10**5)),
]


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("pair", "delta"), CASES, ids=["told", "added", "rare", "laplace", "swapped"]
)
def test_a_checker_confirms_both_ends_and_none_that_is_better(pair: Pair, delta: F) -> None:
    found = epsilon_smooth(tuple((f, int(n)) for f, n in pair.factors), delta)
    assert found is not None
    assert found.upper - found.lower < found.upper * F(1, 10**4)
    assert confirm_upper(pair, found.upper, delta, found.upper_witness)
    assert confirm_lower(pair, found.lower, delta, found.lower_witness)
    assert not confirm_upper(pair, found.upper * F(999, 1000), delta, found.upper_witness)
    assert not confirm_lower(pair, found.lower * F(1001, 1000), delta, found.lower_witness)


@pytest.mark.quality
def test_a_checker_trusts_no_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies beyond is added; a witness that cuts off what counts confirms nothing."""
    pair, delta = CASES[0]
    found = epsilon_smooth(tuple((f, int(n)) for f, n in pair.factors), delta)
    assert found is not None
    near = {**found.upper_witness, "caps": "3"}
    assert not confirm_upper(pair, found.upper, delta, near)
    assert not confirm_upper(pair, found.upper * F(1, 2), delta, near)
    # Without the mass beyond it a falsehood would be confirmed.
    monkeypatch.setattr(whole, "mass_beyond", lambda factor: 0)
    assert confirm_upper(pair, found.upper * F(9, 10), delta, near)


@pytest.mark.parametrize("added", [False, True])
def test_outcomes_that_are_left_out_are_counted(added: bool) -> None:
    factor = SampledDiscrete(2.0, 1, 0.1, added, 5.0)
    kept = factor.kept(math.log(1e-4))
    whole_mass, left = (float(each.outcomes[0].sum()) for each in (factor, kept))
    assert whole_mass == pytest.approx(1, abs=1e-12)
    assert 1e-9 < 5 * (1 - left) <= kept.beyond <= 1e-4
    assert replace(kept, cap=math.inf, floor=-math.inf).beyond < 1e-300
    # No float holds so small a share: nothing is left out.
    assert factor.kept(-700.0) == factor


def test_losses_far_beyond_the_noise_are_narrow_too() -> None:
    """[5379.5, 5520.5] were said, by a grid."""
    found = epsilon_smooth(((FAR, 1000),), F(1, 10**6), 1e-2)
    assert found is not None
    assert 5520.1 < found.lower <= found.upper < 5520.2


def test_what_moves_by_no_whole_number_or_has_too_many_outcomes_is_left_to_others() -> None:
    assert smooth_product(((Mixed(DiscreteNormal(F(2), F(1, 2)), F(1, 10)), 3),)) is None
    assert smooth_product(((Mixed(DiscreteNormal(F(10**6), F(1)), F(1, 10)), 3),)) is None
    assert delta_interval(rounds(Mixed(DiscreteNormal(F(10**6), F(1)), F(1, 10)), 3), 1).upper < 1


@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize("rate", [1e-7, 0.3, 1 - 1e-9])
def test_masses_and_losses_are_as_near_as_they_say(rate: float, added: bool) -> None:
    """Next to a rate of 1 losses below 0 were further off than was said: 1 - q has few digits."""
    factor = SampledDiscrete(2.0, 3, rate, added, 1.0)
    masses, losses = factor.outcomes
    of_sum, of_loss = factor.roundings
    every_k, every_mass, _ = factor._every
    k = every_k[every_mass > 0]
    exact_losses, exact_masses = [], []
    with mpmath.workdps(60):
        theta = mpmath.fsum(mpmath.exp(-(mpmath.mpf(j) ** 2) / 4) for j in range(-80, 81))
        q = mpmath.mpf(rate)
        for j in map(int, k):
            plain, moved = (mpmath.exp(-(mpmath.mpf(j - m) ** 2) / 4) / theta for m in (0, 3))
            mixed = (1 - q) * plain + q * moved
            exact_masses.append(plain if added else mixed)
            exact_losses.append((-1 if added else 1) * mpmath.log(mixed / plain))
        gap = max(abs(mpmath.mpf(float(a)) - b) for a, b in zip(losses, exact_losses, strict=True))
        relative = max(
            abs(mpmath.mpf(float(a)) / b - 1)
            for a, b in zip(masses, exact_masses, strict=True)
            if b > 1e-290
        )
    allowed = 2.0**-53 * of_loss * float(np.abs(losses).max())
    assert float(gap) <= allowed
    assert float(relative) <= 2.0**-53 * of_sum
