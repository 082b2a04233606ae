"""Sampled noise without its rare outcomes, and rare large losses that are summed apart.

References: two rounds by quadrature over one of them, of the other's closed form; transforms by
Arb's integrals; the checker, which has bounds of its own for all of it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import flint
import numpy as np
import pytest
from scipy import special

from dpaudit.accountant.account import Account
from dpaudit.check.profile import transforms
from dpaudit.check.profile.cells import ball
from dpaudit.check.profile.conversions import _composed, confirm_lower, confirm_upper
from dpaudit.check.profile.rule import moments
from dpaudit.check.profile.sampled import Capped, parameters_at
from dpaudit.check.profile.transforms import Choices, smooth_bound
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Repeat
from dpaudit.families.sampling import PoissonSampled
from dpaudit.pairs import Mixed, Normal, Pair, product
from dpaudit.profiles import Interval, epsilon_interval, narrowest
from dpaudit.profiles.fourier import rare, smooth, smooth_interval
from dpaudit.profiles.fourier.sampled import RULE_NATS, SampledNormal, rule
from dpaudit.profiles.fourier.search import Parts
from dpaudit.profiles.fourier.smooth_interval import Split, _rare, _split, _table
from dpaudit.scope import central

F = Fraction


def pair_of(noise: str, rate: str) -> Mixed:
    return Mixed(Normal(1 / F(noise)), F(rate))


def split_of(parts: Parts, goal: float) -> Split | None:
    """At a width of 1e-4."""
    whole = _table(parts, _rare(goal, 1e-4), 0)
    return None if whole is None else _split(parts, whole, goal, 1e-4)


def two_rounds(noise: str, rate: str, epsilon: str) -> float:
    """delta of two rounds: over the first by the trapezoid rule, of the second's closed form."""
    mu, q = 1 / float(noise), float(rate)
    x = np.linspace(-9, 13, 200_001)
    ratio = 1 + q * np.expm1(mu * x - mu * mu / 2)
    y = float(epsilon) - np.log(ratio)
    inner = 1 + np.expm1(y) / q
    at = np.log(np.maximum(inner, 1e-300))
    normal = special.ndtr(mu / 2 - at / mu) - inner * special.ndtr(-mu / 2 - at / mu)
    second = np.where(inner > 0, q * normal, -np.expm1(y))
    return float(
        np.sum(ratio * np.exp(-x * x / 2) * second) * (x[1] - x[0]) / math.sqrt(2 * math.pi)
    )


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize(
    ("noise", "rate", "epsilon"), [("0.5", "1e-4", "0.05"), ("0.7", "1e-5", "0.004")]
)
def test_two_rounds_by_quadrature_lie_between_all_ends(noise: str, rate: str, epsilon: str) -> None:
    truth = two_rounds(noise, rate, epsilon)
    pair = pair_of(noise, rate)
    split = split_of(((pair, 2),), math.log(truth))
    assert split is not None
    found = split.series(1e-4, split.first_guess, math.inf)
    assert found is not None
    assert found.rare is not None
    ends = found.at(float(epsilon))
    assert float(ends.end(-1)) <= truth <= float(ends.end(1))
    # What is guarded: more rounds than one beyond the cap, what is beyond the last cell.
    assert float(ends.end(1)) <= truth * (1 + 2e-2)
    other = found.rare.series
    (cap,) = (factor.cap for factor in found.product.sampled)
    choices = Choices((cap,), other.tilt, F(other.sigma))
    checked = [
        float(smooth_bound([(pair, 2)], found.tilt, F(epsilon), sign, F(found.sigma), choices))
        for sign in (-1, 1)
    ]
    assert checked[0] <= truth <= checked[1] <= truth * (1 + 2e-2)


def test_few_cells_are_wide_and_still_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chords from above: what is at means is below the truth."""
    noise, rate, epsilon = "0.5", "1e-4", "0.05"
    truth = two_rounds(noise, rate, epsilon)
    split = split_of(((pair_of(noise, rate), 2),), math.log(truth))
    assert split is not None
    for count, most in ((6, 1.0), (800, 1e-3)):
        monkeypatch.setattr(rare, "LARGE_LOSS_CELLS", count)
        found = split.series(1e-4, float(epsilon), math.inf)
        assert found is not None
        assert found.rare is not None
        ends = [float(found.at(float(epsilon)).end(sign)) for sign in (-1, 1)]
        assert ends[0] < truth < ends[1] < truth * (1 + most)
    # Where the epsilon is a loss beyond the cap, means alone are below the truth.
    few: list[rare.Rare] = []
    many: list[rare.Rare] = []
    for count, kept in ((6, few), (800, many)):
        monkeypatch.setattr(rare, "LARGE_LOSS_CELLS", count)
        found = split.series(1e-4, 0.3, math.inf)
        assert found is not None
        assert found.rare is not None
        kept.append(found.rare)
    wrong = replace(few[0], ends=few[0].means, weights=few[0].masses, last=0.0, twice=0.0)
    assert few[0].at(0.3)[0] < many[0].at(0.3)[0] < many[0].at(0.3)[1] < few[0].at(0.3)[1]
    assert wrong.at(0.3)[1] < many[0].at(0.3)[0]


def test_what_is_beyond_a_cap_counts_from_above() -> None:
    """A cap that keeps out a tenth: without what it keeps out the upper end is false."""
    parts = ((pair_of("1", "0.1"), 400),)
    truth = smooth_interval.delta_smooth(parts, F(2))
    assert truth is not None
    known = _table(parts, math.log(0.1), 0)
    assert known is not None
    plan = known[1].for_epsilon(2.0, 1e-4)
    assert plan is not None
    found = smooth.series(known[0], plan)
    assert found is not None
    ends = found.at(2.0)
    assert ends.end(-1) < truth.lower <= truth.upper < ends.end(1)
    assert replace(ends, apart=(0.0, 0.0)).end(1) < truth.lower


def by_arb(factor: SampledNormal, tilt: float, w: float) -> complex:
    """E exp(-i w log R) R^power up to the cap, over its value at w = 0."""
    power = factor.power(tilt)

    def moment(p: flint.acb) -> flint.acb:
        def at(x: flint.acb, analytic: bool) -> flint.acb:
            ratio = 1 + factor.rate * (factor.mu * x - factor.mu**2 / 2).expm1()
            return (p * ratio.log(analytic=analytic) - x * x / 2).exp()

        return flint.acb.integral(at, -14, factor.cap)

    with flint.ctx.workprec(160):
        found = moment(flint.acb(power, w if factor.added else -w)) / moment(flint.acb(power))
    return complex(float(found.real.mid()), float(found.imag.mid()))


@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize(
    ("noise", "rate", "cap", "tilt", "fastest"),
    [(1.0, 0.01, 3.0, 6.0, 60.0), (0.5, 1e-6, 6.0, 30.0, 3e4), (100.0, 1e-7, 9.0, 8e7, 4e8)],
)
def test_rules_up_to_a_cap_are_as_near_as_they_say(
    noise: float, rate: float, cap: float, tilt: float, fastest: float, added: bool
) -> None:
    """The accountant's and the checker's."""
    factor = SampledNormal(1 / noise, rate, added, 1000.0, cap)
    w = np.linspace(0, fastest, 7)
    known = rule(factor, tilt, fastest, RULE_NATS)
    found = (1 + known.values(float(w[1]), len(w))) * np.exp(-1j * w * known.centre)
    truth = np.array([by_arb(factor, tilt, float(at)) for at in w])
    assert (np.abs(found - truth) <= known.errors(w) + 1e-15).all()
    pair = pair_of(str(noise), str(rate))
    own = Capped(pair.swapped if added else pair, cap)
    with flint.ctx.workprec(128):
        change, errors, mean = moments(parameters_at(own, ball(tilt)), 1.0, float(w[1]), 6)
    turned = (1 + change) * np.exp(1j * w * mean)
    assert (np.abs(turned - np.conj(truth)) <= errors + 1e-15).all()
    assert max(errors.max(), known.errors(w).max()) < 1e-8


# Noise, rate, rounds, delta: relative widths were .99, 1, 1, .2, .4, .99 before.
WIDE = [
    pytest.param("0.5", "1e-6", 10**5, "1e-8", marks=pytest.mark.quality),
    pytest.param("0.7", "1e-5", 10, "1e-10", marks=pytest.mark.quality),
    ("100", "1e-5", 100, "1e-10"),
    ("1000", "3e-4", 10**4, "1e-20"),
    pytest.param("0.7", "1e-6", 10**5, "1e-8", marks=pytest.mark.quality),
    pytest.param("0.5", "1e-7", 1000, "1e-8", marks=pytest.mark.quality),
    # Rows of the grid that were 1.13e-4 wide, or above a peer's by 2e-5.
    pytest.param("0.3", "1e-7", 10**5, "1e-8", marks=pytest.mark.quality),
    pytest.param("0.5", "1e-4", 100, "1e-5", marks=pytest.mark.quality),
]


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize(("noise", "rate", "rounds", "delta"), WIDE)
def test_rare_and_tiny_losses_are_narrow_and_confirmed(
    noise: str, rate: str, rounds: int, delta: str
) -> None:
    pair: Pair = product([(pair_of(noise, rate), F(rounds))])
    found, at = epsilon_interval(pair, F(delta)), F(delta)
    assert isinstance(found.upper, Fraction)
    assert 0 < found.upper - found.lower <= found.upper * F(11, 10**5)
    upper, lower = ({"pair": "0", **row} for row in (found.upper_witness, found.lower_witness))
    assert confirm_upper(pair, found.upper, at, upper)
    assert confirm_lower(pair, found.lower, at, lower)
    small = 2 * (found.upper - found.lower) + found.upper / 10**4
    assert not confirm_upper(pair, found.upper - small, at, upper)
    assert not confirm_lower(pair, found.lower + small, at, lower)


def test_the_checker_does_not_take_a_witness_cap_for_granted() -> None:
    """Any cap gives a bound: one that leaves out much only gives a worse one."""
    pair = product([(pair_of("1", "0.01"), F(1000))])
    found, at = epsilon_interval(pair, F(1, 10**5)), F(1, 10**5)
    row = found.upper_witness
    bounds = [
        _composed(pair, F(found.upper), at, {**row, "caps": cap}, 1) for cap in ("6", "5", "3")
    ]
    assert found.upper is not None
    assert at * F(9, 10) < bounds[0] < bounds[1] < bounds[2]
    assert not confirm_upper(pair, F(found.upper), at, {**row, "caps": "3"})
    for cap in ("-5", "0"):
        assert not confirm_upper(pair, F(found.upper), at, {**row, "caps": cap})


@pytest.mark.quality
def test_the_checker_needs_what_is_beyond(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = pair_of("1", "0.1")
    truth = smooth_interval.delta_smooth(((pair, 400),), F(2))
    assert truth is not None
    choices = Choices((4.0,))
    honest = smooth_bound([(pair, 400)], 1.0, F(2), 1, F(0), choices)
    monkeypatch.setattr(transforms, "mass_beyond", lambda factor: ball(0))
    assert smooth_bound([(pair, 400)], 1.0, F(2), 1, F(0), choices) < truth.lower < honest


def test_an_epsilon_of_0_is_said_where_the_advantage_is_below_delta() -> None:
    """Total variation is .4 q mu sqrt(T), about 1e-9."""
    node = Repeat(PoissonSampled(Gaussian("g", 10**4), F(1, 10**6)), 1000)
    assert Account(node, central("add_remove")).epsilon(F(1, 10**8)).upper == 0
    assert Account(node, central("add_remove")).epsilon(F(1, 10**10)).lower > 0


def test_of_two_intervals_the_nearer_ends_are_kept() -> None:
    one = Interval(F(1), F(4), {"a": "1"}, {"a": "2"}, "one")
    other = Interval(F(2), F(5), {"b": "1"}, {"b": "2"}, "other")
    found = narrowest(one, other)
    assert (found.lower, found.upper, found.method) == (F(2), F(4), "one")
    assert (found.lower_witness, found.upper_witness) == ({"b": "1"}, {"a": "2"})


@pytest.mark.long_cases("4081")
@pytest.mark.parametrize("count", [1, 2, 3, 7, 400, 4081])
def test_turns_by_products_are_off_by_what_the_errors_of_sums_allow(count: int) -> None:
    """exp(-i w l), in 80 bits: 128 units at w = 0 and 8 w l more are allowed for."""
    w = 2 * math.pi * np.arange(count) / 3.7
    losses = np.random.default_rng(count).exponential(2, 50)
    angles = np.outer(losses.astype(np.longdouble), w.astype(np.longdouble))
    turns = rare.Turns.of(losses, w)
    found = np.transpose([turns.sums(own) for own in np.eye(count, dtype=np.complex128)])
    off = np.hypot(found.real - np.cos(angles), found.imag + np.sin(angles))
    assert found.shape == (50, count)
    assert (off <= 2.0**-53 * (8 + 4 * angles)).all()
