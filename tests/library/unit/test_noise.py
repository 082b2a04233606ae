"""Exact noise: coins against their chances, kernels under a curator, bad input."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from mpmath import mp, nsum
from scipy import stats

import dpaudit.kernels.random_bits as coins
from dpaudit.audit.residuals import check_residuals
from dpaudit.curator.curator import Sampler
from dpaudit.errors import InvalidParameter
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.additive.kernel import (
    DiscreteGaussianKernel,
    DiscreteLaplaceKernel,
    GridGaussianKernel,
    GridLaplaceKernel,
    LaplaceKernel,
    arithmetic_of,
    rounded_up,
)
from dpaudit.families.composition import Repeat
from dpaudit.families.discrete import DiscreteGaussian, DiscreteLaplace
from dpaudit.kernels import samplers
from dpaudit.kernels.base import KERNELS, exact_kernels, kernel_of
from dpaudit.kernels.query import Query, Records
from dpaudit.kernels.samplers import (
    discrete_gaussian,
    discrete_laplace,
    gaussian_log_mass,
    gaussian_log_total,
    gaussian_tail,
    laplace_log_mass,
    laplace_tail,
)
from dpaudit.nodes import Node
from dpaudit.scope import Scope
from tests.support.kernels import Releases, Stated, mean_exponential, replayer, sampled, zeroed

SCOPE = Scope("replace_one", "record", "central", "transcript")  # type: ignore[arg-type]


def generator(seed: int = 7) -> np.random.Generator:
    return np.random.default_rng(seed)


def _close_to(hits: int, trials: int, chance: float) -> bool:
    """Two-sided binomial test at 1e-6."""
    return bool(
        min(stats.binom.cdf(hits, trials, chance), stats.binom.sf(hits - 1, trials, chance)) > 5e-7
    )


# --- coins ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("bound", [1, 2, 3, 7, 1000, 2**40 + 1])
def test_uniform_below_a_bound(bound: int) -> None:
    """Mean and largest of 20,000 draws; Chebyshev-free normal band at five deviations."""
    drawn = coins.uniform_below(np.full(20_000, bound), coins.bits_of(generator()))
    assert drawn.min() >= 0
    assert drawn.max() < bound
    deviation = math.sqrt((bound**2 - 1) / 12 / 20_000)
    assert abs(drawn.mean() - (bound - 1) / 2) <= 5 * deviation
    if bound <= 7:
        assert set(drawn.tolist()) == set(range(bound))


@pytest.mark.parametrize("exponent", [Fraction(0), Fraction(1, 3), Fraction(1), Fraction(7, 2)])
def test_coins_of_exponentials(exponent: Fraction) -> None:
    """False alarm 1e-6 each."""
    floats = np.full(50_000, float(exponent))
    up = coins.happens_exp(floats, lambda _: exponent, coins.bits_of(generator()))
    assert _close_to(int(up.sum()), 50_000, math.exp(-exponent))


def _given(words: list[int]) -> coins.Bits:
    """Bits that are given, one word a call."""
    rest = iter(words)
    return lambda count: np.array([next(rest)] * count, dtype=np.uint64)


def test_an_open_comparison_is_settled_by_the_exact_chance() -> None:
    """53 bits that leave exp(-1/3) open: the next 64 decide, and those after, if they must."""
    mp.dps = 80
    scaled = mp.exp(-mp.mpf(1) / 3) * 2**53
    word, rest = int(scaled), scaled - int(scaled)
    second = int(rest * 2**64)
    third = int((rest * 2**64 - second) * 2**64)
    third_of = Fraction(1, 3)
    for words, expected in (
        ([word << 11, second - 1], True),
        ([word << 11, second + 1], False),
        ([word << 11, second, third - 1], True),
        ([word << 11, second, third + 1], False),
    ):
        found = coins.happens_exp(np.array([1 / 3]), lambda _: third_of, _given(words))
        assert found[0] == expected


def test_a_geometric_draw_at_a_step_is_settled_by_further_bits() -> None:
    """53 bits that hold exp(-1); none at all; and the largest uniform variable."""
    mp.dps = 60
    scaled = mp.exp(-1) * 2**53
    word, second = int(scaled), int((scaled - int(scaled)) * 2**64)
    assert coins.geometric_unit(1, _given([word << 11, second + 1]))[0] == 0
    assert coins.geometric_unit(1, _given([word << 11, second - 1]))[0] == 1
    assert coins.geometric_unit(1, _given([0, 1 << 63]))[0] == math.floor(54 * math.log(2))
    assert coins.geometric_unit(1, _given([2**64 - 1]))[0] == 0


def test_every_comparison_may_be_open() -> None:
    """With the window of floats widened to everything, fractions alone give the same law."""
    before = coins.FLOAT_WINDOW
    try:
        coins.FLOAT_WINDOW = 2.0
        drawn = discrete_laplace(Fraction(3, 2), 3_000, generator())
    finally:
        coins.FLOAT_WINDOW = before
    assert _close_to(int((drawn == 0).sum()), 3_000, math.tanh(1 / 3))


# --- samplers ------------------------------------------------------------------------------------


def test_samplers_repeat_with_their_generator() -> None:
    for draw in (discrete_laplace, discrete_gaussian):
        one, two = draw(2.5, 100, generator(1)), draw(2.5, 100, generator(1))
        np.testing.assert_array_equal(one, two)
        assert (one != draw(2.5, 100, generator(2))).any()
        assert one.dtype == np.int64


def test_samplers_take_the_operating_systems_entropy() -> None:
    """Equal by chance with probability below 1e-60."""
    one, two = discrete_gaussian(10**6, 50), discrete_gaussian(10**6, 50)
    assert (one != two).any()


def test_small_and_large_scales() -> None:
    """Exp(-1000) of a chance to fail; a band of six deviations."""
    assert not discrete_laplace(Fraction(1, 1000), 100, generator()).any()
    assert not discrete_gaussian(Fraction(1, 10_000), 100, generator()).any()
    large = discrete_laplace(2**50, 2_000, generator())
    assert abs(np.abs(large).mean() / 2**50 - 1) < 6 / math.sqrt(2_000)
    assert abs(discrete_gaussian(2**100, 2_000, generator()).std() / 2**50 - 1) < 0.1
    assert discrete_laplace(1, 0, generator()).shape == (0,)


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, "one", True, None, Fraction(-1, 2)])
def test_bad_scales_are_refused(value: Any) -> None:
    for draw in (discrete_laplace, discrete_gaussian):
        with pytest.raises(InvalidParameter):
            draw(value, 10, generator())


@pytest.mark.parametrize("size", [-1, 1.5, True, "3", None])
def test_bad_sizes_are_refused(size: Any) -> None:
    with pytest.raises(InvalidParameter):
        discrete_laplace(1, size, generator())


def test_scales_of_too_many_digits_are_refused_with_a_way_out() -> None:
    with pytest.raises(InvalidParameter, match="round it up"):
        discrete_laplace(Fraction(1, 2**53 + 1), 10, generator())
    with pytest.raises(InvalidParameter, match="2\\^102"):
        discrete_gaussian(2**103, 10, generator())


@pytest.mark.parametrize("scale", [0.2, 1.0, 3.7, 200.0])
def test_laplace_masses_and_tails(scale: float) -> None:
    """Against 30-digit sums."""
    mp.dps = 30
    total = 1 + 2 * nsum(lambda k: mp.exp(-k / mp.mpf(scale)), [1, mp.inf])
    for k in (0, 1, 2, 9):
        assert math.isclose(laplace_log_mass(k, scale), float(-k / mp.mpf(scale) - mp.log(total)))
    tail = nsum(lambda k: mp.exp(-k / mp.mpf(scale)), [3, mp.inf]) / total
    assert math.isclose(laplace_tail(3, scale), float(tail), rel_tol=1e-12)


@pytest.mark.parametrize("variance", [0.04, 0.5, 1.0, 2.25, 400.0])
def test_gaussian_masses_and_tails(variance: float) -> None:
    """Against 30-digit sums."""
    mp.dps = 30
    terms = range(-1_000, 1_001)
    weights = {k: mp.exp(-(mp.mpf(k) ** 2) / (2 * mp.mpf(variance))) for k in terms}
    total = mp.fsum(weights.values())
    assert math.isclose(
        gaussian_log_total(variance), float(mp.log(total)), rel_tol=1e-13, abs_tol=1e-15
    )
    assert math.isclose(
        gaussian_log_mass(2, variance), float(mp.log(weights[2] / total)), rel_tol=1e-12
    )
    tail = mp.fsum(weights[k] for k in range(2, 1_001)) / total
    assert math.isclose(gaussian_tail(2, variance), float(tail), rel_tol=1e-10)


def test_the_tail_of_a_wide_gaussian_is_the_normals() -> None:
    places = np.array([1.0, 1e6, 3e6])
    np.testing.assert_allclose(gaussian_tail(places, 1e12), stats.norm.sf((places - 0.5) / 1e6))


@pytest.mark.parametrize("away", [0, 1, 3, 6, 10])
def test_a_tail_beyond_the_table_is_that_of_the_sum(
    away: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the second term it is off by 2e-8 to 4e-6, where 1e-10 is said."""
    deviation = samplers.MAX_SUMMED_DEVIATION + 1
    place = np.array([max(away * deviation, 1)])
    by_formula = gaussian_tail(place, deviation**2)
    monkeypatch.setattr(samplers, "MAX_SUMMED_DEVIATION", 10 * deviation)
    np.testing.assert_allclose(by_formula, gaussian_tail(place, deviation**2), rtol=1e-10)


# --- kernels -------------------------------------------------------------------------------------

PAIR = zeroed(np.ones((5, 1)), 0)
LAPLACE = DiscreteLaplace("count", 3)
GAUSSIAN = DiscreteGaussian("count", 4)


def test_kernels_are_known_and_named_as_what_they_are() -> None:
    assert kernel_of(LAPLACE) is DiscreteLaplaceKernel
    assert kernel_of(GAUSSIAN) is DiscreteGaussianKernel
    assert {arithmetic_of(kernel) for kernel in exact_kernels().values()} == {"exact"}
    assert arithmetic_of(KERNELS[Laplace]) == "float64"
    assert arithmetic_of(KERNELS[Gaussian]) == "float64"


def count(records: Records) -> Any:
    return np.full((1, 1), float(records.values.sum()))


def _released(leaf: Node, norm: Any, trials: int, kernels: Any = None, bound: float = 1.0) -> Any:
    query: Query = Stated(count, bound=bound, norm=norm)
    sampler = Sampler(
        leaf, SCOPE, Records(np.ones((5, 1))), rng=generator(3), trials=trials, kernels=kernels
    )
    return sampler.release("count", query)


@pytest.mark.parametrize(("leaf", "norm"), [(LAPLACE, "l1"), (GAUSSIAN, "l2")])
def test_a_curator_releases_whole_numbers(leaf: Node, norm: str) -> None:
    released = _released(leaf, norm, 2_000)
    assert released.shape == (2_000, 1)
    assert (released == np.floor(released)).all()
    assert abs(released.mean() - 5) < 0.6


@pytest.mark.parametrize(("leaf", "norm"), [(LAPLACE, "l1"), (GAUSSIAN, "l2")])
def test_a_query_of_larger_sensitivity_is_refused(leaf: Node, norm: str) -> None:
    with pytest.raises(InvalidParameter, match="above the leaf's"):
        _released(leaf, norm, 3, bound=2.0)
    assert _released(leaf, norm, 3, bound=0.5).shape == (3, 1)


@pytest.mark.parametrize(
    ("leaf", "norm", "length", "bound"),
    [(GAUSSIAN, "l2", 2, 1.0), (GAUSSIAN, "l2", 1, 4.0), (LAPLACE, "l1", 1, 4.0)],
)
def test_what_a_kernel_cannot_release_is_refused_before_data_is_touched(
    leaf: Node, norm: Any, length: int, bound: float
) -> None:
    """The query sees rows of zeros alone, and the release stays to be made."""
    seen: list[float] = []

    def asked(records: Records) -> Any:
        seen.append(float(records.values.sum()))
        return np.zeros((1, length))

    curator = Sampler(leaf, SCOPE, Records(np.ones((5, 1))), rng=generator(3))
    with pytest.raises(InvalidParameter, match=r"one by one|above the leaf's"):
        curator.release("count", Stated(asked, bound=bound, norm=norm))
    assert seen == [0.0]
    assert curator.entitlements.counts() == {"count": (1, 0, 0)}


def present(records: Records) -> Any:
    return np.full((1, 1), float(records.present.sum()))


@pytest.mark.parametrize(("leaf", "norm"), [(LAPLACE, "l1"), (GAUSSIAN, "l2")])
def test_the_likelihood_ratio_has_mean_one(leaf: Node, norm: Any) -> None:
    """E_D1[p0/p1] = 1 within 5 standard errors over a run of two releases: false alarm 6e-7."""
    program = Releases(Repeat(leaf, 2), (("count", Stated(present, norm=norm)),) * 2)
    for pair in (PAIR, PAIR[::-1]):
        mean, error = mean_exponential(
            program, pair, SCOPE.under("zero_out"), seed=4, trials=30_000
        )
        assert error < 0.01
        assert mean == pytest.approx(1, abs=5 * error)


@pytest.mark.parametrize(("leaf", "norm"), [(LAPLACE, "l1"), (GAUSSIAN, "l2")])
def test_conformance_holds_for_exact_noise(leaf: Node, norm: Any) -> None:
    """All residual checks at 1e-6 together."""
    program = Releases(Repeat(leaf, 2), (("count", Stated(present, norm=norm)),) * 2)
    scope = SCOPE.under("zero_out")
    transcript = sampled(program, PAIR[0], scope, seed=5, trials=5_000).transcript
    residuals = replayer(program, PAIR, scope).inspect(transcript, 0).residuals
    assert {f.status for f in check_residuals(residuals, 1e-6)} <= {"held", "not_run"}
    shrunk = {label: 0.9 * values for label, values in residuals.items()}
    assert "broken" in {f.status for f in check_residuals(shrunk, 1e-6)}


def test_a_vector_gets_laplace_noise_of_its_own_on_each_number_and_one_gaussian_none() -> None:
    kernel = DiscreteLaplaceKernel(LAPLACE, 2000)
    scale = np.full(2000, 3.0)
    drawn = kernel.sample(np.zeros((2000, 3)), scale, generator())
    assert abs(np.corrcoef(drawn.T) - np.eye(3)).max() < 0.12  # five deviations
    zeros = np.zeros((2000, 1))
    single = [kernel.log_density(drawn[:, [i]], zeros, scale) for i in range(3)]
    together = kernel.log_density(drawn, np.zeros((2000, 3)), scale)
    assert np.allclose(together, sum(single))
    with pytest.raises(InvalidParameter, match="vector of 3"):
        DiscreteGaussianKernel(GAUSSIAN, 2).sample(np.zeros((2, 3)), np.full(2, 3.0), generator())


@pytest.mark.parametrize("make", [DiscreteLaplaceKernel, DiscreteGaussianKernel])
def test_densities_are_normalised_and_residuals_normal(make: Any) -> None:
    """Kolmogorov and Smirnov at 1e-6."""
    leaf = LAPLACE if make is DiscreteLaplaceKernel else GAUSSIAN
    kernel = make(leaf, 20_000)
    scale = np.full(20_000, kernel.multiplier(leaf))
    values = np.full((20_000, 1), 41.0)
    support = np.arange(41.0 - 400, 41.0 + 401)[:, None]
    ones = np.ones(len(support)) * scale[0]
    total = np.exp(kernel.log_density(support, np.full_like(support, 41.0), ones)).sum()
    assert math.isclose(total, 1, rel_tol=1e-12)
    released = kernel.sample(values, scale, generator())
    residuals = kernel.residual(released, values, scale)
    assert residuals.shape == (20_000, 1)
    assert stats.kstest(residuals[:, 0], "norm").pvalue > 1e-6
    assert kernel.log_density(released + 0.5, values, scale)[0] == -math.inf
    assert kernel.log_density(np.full_like(values, math.nan), values, scale)[0] == -math.inf


def test_without_noise_densities_compare() -> None:
    kernel = DiscreteGaussianKernel(GAUSSIAN, 2)
    released = np.array([[3.0], [4.0]])
    density = kernel.log_density(released, np.full((2, 1), 3.0), np.zeros(2))
    assert density.tolist() == [0.0, -math.inf]
    np.testing.assert_array_equal(kernel.sample(released, np.zeros(2), generator()), released)
    assert np.isnan(kernel.residual(released, released, np.zeros(2))).all()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (2.5, 3),
        (-2.5, -2),
        (0.49999999999999994, 0),
        (math.nan, 0),
        (math.inf, 2**52),
        (-1e300, -(2**52)),
    ],
)
def test_odd_values_are_rounded_half_up_and_cut(value: float, expected: int) -> None:
    kernel = DiscreteLaplaceKernel(DiscreteLaplace("count", Fraction(1, 1000)), 1)
    released = kernel.sample(np.array([[value]]), np.array([0.001]), generator())
    assert released[0, 0] == expected


def test_scales_that_are_no_short_fraction_are_rounded_up() -> None:
    from dpaudit.exact import sqrt

    found = rounded_up(sqrt(Fraction(2)))
    assert found**2 >= 2
    assert float(found) == pytest.approx(math.sqrt(2), rel=1e-12)
    assert rounded_up(Fraction(7, 3)) == Fraction(7, 3)
    long = Fraction(10**30 + 1, 10**30)
    assert long <= rounded_up(long) <= long + Fraction(1, 10**11)
    for outside in (Fraction(2**53), Fraction(1, 2**60)):
        with pytest.raises(InvalidParameter):
            rounded_up(outside)


@pytest.mark.parametrize(
    ("leaf", "make", "norm", "law"),
    [
        (Laplace("count", 2), GridLaplaceKernel, "l1", stats.laplace(5, 2)),
        (Gaussian("count", 2), GridGaussianKernel, "l2", stats.norm(5, 2)),
    ],
)
def test_noise_on_a_grid(leaf: Node, make: Any, norm: str, law: Any) -> None:
    """Kolmogorov and Smirnov at 1e-6; every output is on the grid, whatever the value."""
    released = _released(leaf, norm, 5_000, kernels=exact_kernels())[:, 0]
    assert stats.kstest(released, law.cdf).pvalue > 1e-6
    step = 2.0 ** (1 - 32)
    assert (released / step == np.floor(released / step)).all()
    kernel = make(leaf, 3)
    odd = np.array([[0.1], [math.nan], [1e300]])
    for row in kernel.sample(odd, np.full(3, 2.0), generator())[:, 0]:
        assert row / step == math.floor(row / step)


def test_the_grid_raises_the_scale_for_what_rounding_adds() -> None:
    """b' >= multiplier (sensitivity + d g): the loss is never above sensitivity / scale."""
    from dpaudit.families.additive.kernel import _raised, _steps

    for multiplier, sensitivity, width in ((0.7, 1.3, 1), (30.0, 1e-6, 1_000), (5.0, 1e9, 7)):
        scale = np.array([multiplier * sensitivity])
        step = _steps(scale)
        raised = Fraction(int(_raised(scale, step, multiplier * width)[0])) * Fraction(step[0])
        wanted = Fraction(multiplier) * (Fraction(sensitivity) + width * Fraction(step[0]))
        assert raised >= wanted * (1 - Fraction(1, 2**52))
        assert float(raised) <= scale[0] * (1 + width * multiplier * 2.0**-30 + 2.0**-30)
    with pytest.raises(InvalidParameter, match="too large"):
        _raised(np.array([1.0]), np.array([2.0**-32]), 2.0**51)


def test_without_noise_the_grid_leaves_values_alone() -> None:
    kernel = GridLaplaceKernel(Laplace("count", 2), 2)
    values = np.array([[0.1], [0.2]])
    released = kernel.sample(values, np.array([0.0, 1.0]), generator())
    assert released[0, 0] == 0.1
    assert released[1, 0] != 0.2
    assert issubclass(GridLaplaceKernel, LaplaceKernel)
