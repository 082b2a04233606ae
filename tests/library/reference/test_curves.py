"""Compositions against enumeration with fractions, closed forms, 50 digits, and dp-accounting."""

from __future__ import annotations

import itertools
import math
import warnings
from fractions import Fraction

import flint
import mpmath
import numpy as np
import pytest

from dpaudit.check.profile.conversions import confirm_lower, confirm_upper
from dpaudit.grids.discrete import Discrete, Grid, Side
from dpaudit.pairs import (
    Atoms,
    Concentrated,
    LaplaceShift,
    Mixed,
    Normal,
    Pair,
    Product,
    Replaced,
    Spliced,
    product,
)
from dpaudit.profiles import delta_interval, epsilon_interval
from dpaudit.profiles.closed.single import epsilon_single
from dpaudit.profiles.fourier.compose import compose, delta_at
from dpaudit.profiles.fourier.engine import delta_composed, epsilon_composed
from dpaudit.profiles.fourier.profile import errors
from dpaudit.profiles.fourier.smooth_interval import delta_smooth, epsilon_smooth
from dpaudit.profiles.fourier.transform import transform
from dpaudit.profiles.grid.stack import Stack, Tilted

F = Fraction
DELTA = F(1, 10**5)
SAMPLED = Mixed(Normal(F(1)), F(1, 100))
RESPONSE = Atoms(((F(3, 4), F(1, 4)), (F(1, 4), F(3, 4))))
THREE = Atoms(((F(1, 2), F(1, 6)), (F(1, 4), F(1, 3)), (F(1, 4), F(1, 2))))
SUPPORTS = Atoms(
    ((F(1, 1000), F(0)), (F(799, 1000), F(1, 2)), (F(1, 5), F(2, 5)), (F(0), F(1, 10)))
)


def enumerated(parts: list[tuple[Atoms, int]]) -> list[tuple[Fraction, Fraction]]:
    factors = [pair.outcomes for pair, times in parts for _ in range(times)]
    return [
        (math.prod((p for p, _ in rows), start=F(1)), math.prod((q for _, q in rows), start=F(1)))
        for rows in itertools.product(*factors)
    ]


@pytest.mark.parametrize(
    "parts",
    [
        [(RESPONSE, 6)],
        [(THREE, 5)],
        [(RESPONSE, 3), (THREE, 3)],
        [(SUPPORTS, 4)],
        [(SUPPORTS.swapped, 3), (THREE, 2)],
    ],
)
def test_atoms_against_enumeration(parts: list[tuple[Atoms, int]]) -> None:
    outcomes = enumerated(parts)
    pair = product((p, F(n)) for p, n in parts)
    for epsilon in (F(0), F(1, 2), F(1), F(2), F(7, 2)):
        ball = flint.arb(epsilon.numerator) / epsilon.denominator
        with flint.ctx.workprec(200):
            x = ball.exp()
            terms = (
                flint.arb(p.numerator) / p.denominator - x * q.numerator / q.denominator
                for p, q in outcomes
            )
            truth = float(sum((t for t in terms if t > 0), flint.arb(0)).mid())
        found = delta_interval(pair, epsilon)
        assert float(found.lower) <= truth * (1 + 1e-11) + 1e-15
        assert truth <= float(found.upper) * (1 + 1e-11) + 1e-15
        assert float(found.upper - found.lower) < 0.01


def generic(mu: Fraction, count: int) -> Pair:
    """Normal(mu) composed through the grid: a product that is not collapsed."""
    return Product(((Normal(mu), F(count)),))


@pytest.mark.parametrize("delta", [F(1, 10**3), F(1, 10**10), F(1, 10**14), F(1, 10**60)])
def test_ten_thousand_gaussians_through_the_grid(delta: Fraction) -> None:
    """sigma = 100, 10,000 times, is Normal(1); others' upper bound is below it at 1e-14."""
    exact = epsilon_single(Normal(F(1)), delta)
    found = epsilon_composed(generic(F(1, 100), 10_000), delta, 1e-3)
    assert found.lower <= exact.upper
    assert exact.lower <= found.upper
    assert float(found.upper - found.lower) <= 1e-3
    if delta == F(1, 10**14):
        assert exact.lower > F("7.508369")


@pytest.mark.parametrize("count", [1, 2, 7, 50])
def test_few_gaussians_through_the_grid(count: int) -> None:
    exact = epsilon_single(product([(Normal(F(1, 2)), F(count))]), DELTA)
    found = epsilon_composed(generic(F(1, 2), count), DELTA, 1e-4)
    assert found.lower <= exact.upper
    assert exact.lower <= found.upper
    assert float(found.upper - found.lower) <= 1e-4


@pytest.mark.parametrize("epsilon", [F(0), F(1), F(4), F(9)])
def test_gaussian_delta_through_the_grid(epsilon: Fraction) -> None:
    found = delta_composed(generic(F(1, 10), 100), epsilon, 1e-3)
    with mpmath.workdps(50):
        e = mpmath.mpf(epsilon.numerator) / epsilon.denominator
        truth = mpmath.ncdf(mpmath.mpf(1) / 2 - e) - mpmath.exp(e) * mpmath.ncdf(-0.5 - e)
        assert found.lower <= F(str(truth)) <= found.upper
    assert found.upper - found.lower <= found.upper / 1000


def test_laplace_composed_against_mpmath() -> None:
    """Two Laplace releases: delta by integrating over the first one's loss, 30 digits."""
    scale = F(1)
    found = delta_interval(product([(LaplaceShift(scale), F(2))]), 1)
    with mpmath.workdps(30):

        def one(loss: mpmath.mpf) -> mpmath.mpf:
            if loss >= 1:
                return mpmath.mpf(0)
            return 1 - mpmath.exp((loss - 1) / 2) if loss > -1 else 1 - mpmath.exp(loss)

        smooth = mpmath.quad(
            lambda loss: one(1 - loss) * mpmath.exp(-(1 - loss) / 2) / 4, [-1, 0, 1]
        )
        truth = one(mpmath.mpf(0)) / 2 + one(mpmath.mpf(2)) * mpmath.exp(-1) / 2 + smooth
        assert found.lower <= F(str(truth)) <= found.upper
    assert float(found.upper - found.lower) < 3e-5


# --- routes agree --------------------------------------------------------------------------------

MIXES = {
    "laplace": product([(Normal(F(1, 2)), F(1)), (LaplaceShift(F(1, 10)), F(100))]),
    "response": product([(Normal(F(1, 2)), F(1)), (RESPONSE, F(10))]),
    "leaky": product([(Normal(F(1, 2)), F(1)), (SUPPORTS, F(2)), (LaplaceShift(F(1, 3)), F(3))]),
}


@pytest.mark.parametrize("delta", [F(1, 100), DELTA, F(1, 10**30)])
@pytest.mark.parametrize("name", MIXES)
def test_closed_transforms_lie_inside_the_grid(name: str, delta: Fraction) -> None:
    parts = tuple((pair, int(times)) for pair, times in MIXES[name].factors)
    smooth = epsilon_smooth(parts, delta)
    grid = epsilon_composed(MIXES[name], delta, 1e-3)
    if smooth is None:
        assert name == "leaky"
        assert delta <= F(2, 1000)
        return
    assert grid.lower <= smooth.lower <= smooth.upper <= grid.upper
    assert float(smooth.upper - smooth.lower) < 1e-8


def test_closed_transforms_against_the_normal_pair() -> None:
    """A response of epsilon 0 adds nothing."""
    free = Atoms(((F(1, 2), F(1, 2)), (F(1, 2), F(1, 2))))
    parts = ((Normal(F(1)), 1), (free, 5))
    for delta in (F(1, 10), DELTA, F(1, 10**50)):
        exact, found = epsilon_single(Normal(F(1)), delta), epsilon_smooth(parts, delta)
        assert found is not None
        assert found.lower <= exact.upper
        assert exact.lower <= found.upper
        assert float(found.upper - found.lower) < 1e-8
    at = delta_smooth(parts, F(2))
    truth = delta_interval(Normal(F(1)), 2)
    assert at is not None
    assert at.lower <= truth.upper
    assert truth.lower <= at.upper


def test_a_thousand_different_releases() -> None:
    """500 normal and 500 Laplace releases, all different: exact to ten digits, and in order."""
    big = product(
        [(Normal(F(1, 40 + k)), F(1)) for k in range(500)]
        + [(LaplaceShift(F(1, 40 + k)), F(1)) for k in range(500)]
    )
    found = epsilon_interval(big, DELTA, 1e-3)
    assert float(found.upper - found.lower) < 1e-9
    few = product([(Normal(F(1, 2)), F(1)), (LaplaceShift(F(1, 40)), F(20))])
    assert found.upper > 0
    assert epsilon_interval(few, DELTA).upper > 0


def stack(pair: Pair, times: int, step: Fraction, side: Side) -> Stack:
    return Stack(((pair.on_grid(Grid(step, 1e-15), side), times),), side)


def test_a_transform_that_is_0_somewhere_has_powers_of_0_without_a_warning() -> None:
    """Of halves two steps apart at a quarter of the period; the error there is as everywhere."""
    made = Stack(((Discrete(F(1, 8), 0, np.array([0.5, 0.0, 0.5]), 0.0, 0.0), 3),), Side.UPPER)
    tilted = Tilted(0.0, np.array([0.5, 0.0, 0.5]), np.zeros(1), 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = transform(made, tilted, np.array([1]), 8)
    truth = np.cos(2 * math.pi * np.arange(5) / 8) ** 3
    assert np.abs(found.values - truth[: len(found.values)]).max() <= 1e-15
    assert found.values[2] == 0
    assert 0 < found.errors[2] < 1e-40


@pytest.mark.parametrize("times", [1, 100])
def test_a_transform_is_within_its_errors_of_sums_in_arb(times: int) -> None:
    made = stack(SAMPLED, times, F(1, 64), Side.UPPER)
    tilted = made.tilted(2.0)
    found = transform(made, tilted, np.array([3]), 1000)
    with flint.ctx.workprec(120):
        for j in (0, 1, 17):
            total = flint.acb(0)
            for index, mass in zip(made.indices, tilted.masses, strict=True):
                turn = flint.acb(0, -2) * flint.arb.pi() * (j * (int(index) - 3)) / 1000
                total += flint.arb(float(mass)) * turn.exp()
            error = abs(complex((total**times).mid()) - complex(found.values[j]))
            assert error <= found.errors[j] <= 1e-10


@pytest.mark.parametrize("tilt", [0.5, 1.0, 2.0])
def test_any_tilt_gives_the_same_composition(tilt: float) -> None:
    """Bounds at other tilts differ by their own errors only."""
    found = []
    for side in Side:
        made = stack(SAMPLED, 1000, F(1, 2**11), side)
        found.append(delta_at(compose(made, tilt), 1.0))
    upper, lower = found
    assert lower.value < upper.value
    own = [delta_at(compose(stack(SAMPLED, 1000, F(1, 2**11), side), 4.0), 1.0) for side in Side]
    for one, other in ((upper, own[0]), (lower, own[1])):
        stated = sum(errors(delta) + delta.masses for delta in (one, other))
        assert abs(one.value - other.value) <= 2 * stated <= 1e-6 * one.value


def test_convolution_is_what_the_fourier_sum_gives() -> None:
    """A small composition, by exact polynomial powers."""
    masses = np.array([0.1, 0.0, 0.35, 0.25, 0.3])
    one = Discrete(F(1, 4), -2, masses, 0.0)
    power = np.array([1.0])
    for _ in range(6):
        power = np.convolve(power, masses)
    losses = (np.arange(len(power)) - 12) / 4
    for side in Side:
        made = Stack(((one, 6),), side)
        for epsilon in (0.0, 0.3, 1.0, 2.1):
            truth = float(power @ np.maximum(0, 1 - np.exp(epsilon - losses)))
            assert delta_at(compose(made, 0.7), epsilon).value == pytest.approx(truth, rel=1e-12)


# --- dp-accounting -------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [10, 300])
def test_lower_is_below_dp_accounting_upper(count: int) -> None:
    from dp_accounting.pld import privacy_loss_distribution as pld

    options = {"value_discretization_interval": 1e-3, "sampling_prob": 0.02}
    theirs = pld.from_gaussian_mechanism(1.5, **options).self_compose(count)
    one = Mixed(Normal(F(2, 3)), F(1, 50))
    both = [product([(pair, F(count))]) for pair in (one, one.swapped)]
    own = max(epsilon_interval(pair, F(1, 10**6)).lower for pair in both)
    bound = theirs.get_epsilon_for_delta(1e-6)
    assert float(own) <= bound
    assert float(own) == pytest.approx(bound, abs=2e-2)


def test_mixed_events_below_dp_accounting() -> None:
    from dp_accounting.pld import privacy_loss_distribution as pld

    theirs = pld.from_laplace_mechanism(10.0, value_discretization_interval=1e-4).self_compose(20)
    theirs = theirs.compose(pld.from_gaussian_mechanism(4.0, value_discretization_interval=1e-4))
    pair = product([(LaplaceShift(F(1, 10)), F(20)), (Normal(F(1, 4)), F(1))])
    own = epsilon_interval(pair, DELTA)
    assert float(own.lower) <= theirs.get_epsilon_for_delta(1e-5)
    assert float(own.upper) == pytest.approx(theirs.get_epsilon_for_delta(1e-5), abs=1e-2)


def test_zcdp_profile_dominates_the_gaussian_composition() -> None:
    """Concentrated(rho) composed is not below the exact Gaussian with the same rho."""
    upper = epsilon_interval(product([(Concentrated(F(1, 200)), F(10))]), DELTA).upper
    exact = epsilon_interval(Normal(F(math.sqrt(0.1))), DELTA)
    assert upper >= exact.lower


def test_without_replacement_pair_is_above_the_one_sided_pair() -> None:
    one = Mixed(Normal(F(2)), F(1, 100))
    both = epsilon_interval(product([(Spliced(one, one.swapped), F(1000))]), DELTA)
    sided = epsilon_interval(product([(one, F(1000))]), DELTA)
    assert sided.upper < both.lower
    assert both.upper <= F("14.9")
    assert sided.lower >= F("13.3")


@pytest.mark.quality
def test_a_hundred_rounds_that_choose_their_triples_are_between_the_two_and_confirmed() -> None:
    """Above rounds of one pair for all, below those of a pair that dominates each."""
    one, chosen = Mixed(Normal(F(2)), F(1, 100)), Replaced(F(2), F(1, 100))
    sided, both, found = (
        epsilon_interval(product([(pair, F(100))]), DELTA)
        for pair in (one, Spliced(one, one.swapped), chosen)
    )
    assert sided.lower <= found.lower <= found.upper < both.lower
    assert F("6.507") < found.lower
    assert found.upper - found.lower < F("0.05")
    pair = product([(chosen, F(100))])
    assert confirm_upper(pair, F(found.upper), DELTA, found.upper_witness)
    assert confirm_lower(pair, found.lower, DELTA, found.lower_witness)


@pytest.mark.quality
def test_rounds_that_choose_their_triples_are_between_the_two_and_confirmed() -> None:
    """A game in floats, of three triangles or all without error bounds, has 13.586 (+- .005)."""
    pair = product([(Replaced(F(2), F(1, 100)), F(1000))])
    found = epsilon_interval(pair, DELTA)
    assert F("13.575") <= found.lower <= F("13.591")
    assert F("13.581") <= found.upper <= F("13.6")
    assert confirm_upper(pair, F(found.upper), DELTA, found.upper_witness)
    assert confirm_lower(pair, found.lower, DELTA, found.lower_witness)


def _normal_and_laplace(epsilon: int) -> mpmath.mpf:
    """delta of N(1, 1) and of Laplace noise with loss 1 together, at enough digits.

    The normal profile averaged over the Laplace loss, by parts: the loss is 1 with P mass 1/2, -1
    with exp(-1) / 2, of density exp((u - 1) / 2) / 4 between.
    """
    with mpmath.workdps(60 + epsilon):
        at, phi = mpmath.mpf(epsilon), mpmath.ncdf
        half, eighth = mpmath.mpf(1) / 2, mpmath.mpf(1) / 8
        ends = phi(half + 1 - at) - mpmath.exp(at) * phi(-half - 1 - at)
        between = phi(1 - at) - phi(-1 - at)
        return ends - mpmath.exp((at - 1) / 2 - eighth) * between


@pytest.mark.parametrize("epsilon", [1, 38, 39, 40, 45, 60])
def test_an_end_that_is_too_small_for_a_float(epsilon: int) -> None:
    pair = product(((Normal(F(1)), F(1)), (LaplaceShift(F(1)), F(1))))
    found = delta_interval(pair, F(epsilon))
    with mpmath.workdps(60):
        truth = _normal_and_laplace(epsilon)
        lower, upper = (
            mpmath.mpf(end.numerator) / end.denominator for end in (found.lower, found.upper)
        )
        assert lower <= truth <= upper
        assert 0 < upper < truth * (1 + mpmath.mpf("1e-8"))
    # And back: the delta that was found is reached at that epsilon.
    solved = epsilon_interval(pair, found.upper)
    assert solved.lower <= epsilon
    assert solved.upper >= epsilon - F(1, 10**6)
