"""The exact joint test: enumeration, SciPy's exact tests, order, inversion, power, bad input."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import barnard_exact, binom, boschloo_exact

from dpaudit.audit.bounds.estimators import Counts, epsilon_lower, mu_lower
from dpaudit.audit.bounds.extremes import (
    PSEUDO_COUNTS,
    Extreme,
    Trials,
    _curved,
    _first,
    _kl_upper,
    _line,
    _peak,
    at_least,
    half_deviance,
    kl,
    reach,
    supremum_estimate,
    supremum_upper,
    tail_upper,
)
from dpaudit.audit.bounds.joint import (
    _Ends,
    joint_epsilon_lower,
    joint_mu_lower,
    joint_rho_lower,
    region_p_value,
)
from dpaudit.errors import InvalidParameter
from dpaudit.measures.region import ApproxRegion, GaussianRegion, Region, zcdp_region

ERROR = 0.05
DELTA = 1e-5
MU = 0.2680511232112941  # the Gaussian that is exactly (1, 1e-5)-DP


def counted(hits: int, trials: int, other_hits: int, other_trials: int) -> Counts:
    return Counts(other_hits, other_trials, trials - hits, trials)


def law(trials: int, other: int, p: float, q: float) -> Any:
    """Probabilities of all pairs of counts."""
    first = binom.pmf(np.arange(trials + 1), trials, p)
    return np.multiply.outer(first, binom.pmf(np.arange(other + 1), other, q))


def p_values(trials: int, other: int, region: Region) -> Any:
    pairs = itertools.product(range(trials + 1), range(other + 1))
    values = [region_p_value(x, trials, y, other, region) for x, y in pairs]
    return np.array(values).reshape(trials + 1, other + 1)


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize(
    ("trials", "other", "region"),
    [
        (12, 12, ApproxRegion(0.0)),
        (9, 14, ApproxRegion(1.0)),
        (14, 9, ApproxRegion(0.5, 0.1)),
        (10, 10, GaussianRegion(0.7)),
        (3, 4, zcdp_region(0.3)),
    ],
    ids=["equal", "pure", "approximate", "gaussian", "zcdp"],
)
def test_errors_by_enumeration(trials: int, other: int, region: Region) -> None:
    """Not sampled: P(p-value <= u) summed over all outcomes, at 300 pairs of the region's edge."""
    values = p_values(trials, other, region)
    q = np.linspace(0.0, 1.0, 301)
    largest = 0.0
    for rate, edge in zip(q, region.largest(q), strict=True):
        probabilities = law(trials, other, float(edge), rate)
        for level in (0.3, 0.05, 0.01, 1e-4):
            error = probabilities[values <= level].sum()
            assert error <= level * (1 + 1e-9)
            largest = max(largest, error if level == 0.3 else 0.0)
    assert largest > 0.2  # not idle: no two counts of 12 make it exact


@pytest.mark.quality
def test_p_values_fall_with_the_hits_and_grow_with_the_other_hits() -> None:
    """Within 3%: the supremum over q is bounded, not found, to 1-2%."""
    for region in (ApproxRegion(0.0), ApproxRegion(1.0, 0.01), GaussianRegion(0.5)):
        values = p_values(9, 7, region)
        assert (values[1:] <= values[:-1] * 1.03).all()
        assert (values[:, :-1] <= values[:, 1:] * 1.03).all()


@pytest.mark.quality
def test_against_the_exact_tests_of_scipy() -> None:
    """At epsilon 0 the three order outcomes differently, and agree where all orders are alike."""
    ratios = []
    for trials, other in ((9, 9), (6, 10)):
        for x, y in itertools.product(range(trials + 1), range(other + 1)):
            if x * other <= y * trials:
                continue
            table = [[x, y], [trials - x, other - y]]
            best = min(
                boschloo_exact(table, "greater").pvalue, barnard_exact(table, "greater").pvalue
            )
            ratios.append(region_p_value(x, trials, y, other, ApproxRegion(0.0)) / best)
    assert np.median(ratios) < 1.15
    assert min(ratios) > 0.4
    extreme = [[7, 0], [0, 7]]
    assert region_p_value(7, 7, 0, 7, ApproxRegion(0.0)) == pytest.approx(
        barnard_exact(extreme, "greater").pvalue, rel=0.1
    )


@pytest.mark.first_case("region", by=type)
@pytest.mark.parametrize(
    ("seen", "region"),
    [
        (Trials(9, 10, 2, 12), ApproxRegion(0.7, 0.05)),
        (Trials(30, 40, 11, 55), ApproxRegion(0.3)),
        (Trials(30, 30, 0, 30), GaussianRegion(1.0)),
        (Trials(6, 200, 0, 150), ApproxRegion(0.1, 1e-3)),
    ],
    ids=repr,
)
def test_extreme_sets_hold_every_outcome_of_larger_likelihood_ratio(
    seen: Trials, region: Region
) -> None:
    cost = half_deviance(seen, region)
    extreme = at_least(seen, region, cost, 0.0, 1.0)
    assert extreme.lowest == 0
    assert extreme.first.size == seen.other + 1
    assert (np.diff(extreme.first) >= 0).all()
    assert extreme.first[seen.other_hits] == seen.hits
    for y, first in enumerate(extreme.first):
        for x in range(max(0, first - 2), min(first + 2, seen.total) + 1):
            deviance = half_deviance(Trials(x, seen.total, y, seen.other), region)
            assert (deviance >= cost * (1 - 1e-6)) == (x >= first)


def test_what_was_seen_is_in_its_extreme_set_whatever_its_deviance_comes_out_as() -> None:
    seen = Trials(9, 10, 2, 12)
    cost = half_deviance(seen, ApproxRegion(0.7, 0.05))
    for more in (1 + 1e-12, 1.01, 1.5):
        extreme = at_least(seen, ApproxRegion(0.7, 0.05), more * cost, 0.0, 1.0)
        assert extreme.first[seen.other_hits - extreme.lowest] <= seen.hits


def test_deviance_against_a_fine_grid() -> None:
    for seen, region in itertools.product(
        (Trials(9, 10, 2, 12), Trials(500, 1_000, 100, 900), Trials(3, 10, 0, 10)),
        (ApproxRegion(0.4, 0.01), GaussianRegion(0.5)),
    ):
        misses, others = seen.total - seen.hits + PSEUDO_COUNTS, seen.other_hits + PSEUDO_COUNTS
        rate, other_rate = (
            1 - misses / (seen.total + PSEUDO_COUNTS),
            others / (seen.other + PSEUDO_COUNTS),
        )
        q = np.linspace(1e-9, 1 - 1e-9, 40_001)
        p = np.minimum(region.largest(q), rate)

        def log_likelihood(p: Any, q: Any, seen: Any = seen, counts: Any = (misses, others)) -> Any:
            first = seen.hits * np.log(p) + counts[0] * np.log1p(-p)
            missed = seen.other - seen.other_hits
            return first + counts[1] * np.log(q) + missed * np.log1p(-q)

        gap = log_likelihood(rate, other_rate) - log_likelihood(p, q).max()
        assert half_deviance(seen, region) == pytest.approx(gap, rel=1e-4)


@pytest.mark.parametrize(
    ("x", "y", "trials"), [(379, 165, 10**5), (30, 8, 40), (9, 1, 300), (700, 300, 1_000)]
)
def test_the_complement_with_the_sides_exchanged_is_the_same_test(
    x: int, y: int, trials: int
) -> None:
    """Within the 1-2% to which a supremum is bounded."""
    for region in (ApproxRegion(0.4, 1e-3), GaussianRegion(0.2)):
        value = region_p_value(x, trials, y, trials, region)
        mirrored = region_p_value(trials - y, trials, trials - x, trials, region)
        assert value == pytest.approx(mirrored, rel=0.04)


def test_probabilities_against_sums_over_all_outcomes() -> None:
    seen, region = Trials(40, 60, 12, 50), ApproxRegion(0.3, 0.01)
    for low, high in ((0.0, 1.0), (0.1, 0.45)):
        extreme = at_least(seen, region, half_deviance(seen, region), low, high)
        whole = at_least(seen, region, half_deviance(seen, region), 0.0, 1.0)
        for q in (0.1, 0.24, 0.45):
            p = float(region.largest(np.array([q]))[0])
            table = law(seen.total, seen.other, p, q)
            exact = sum(table[first:, y].sum() for y, first in enumerate(whole.first))
            found = float(extreme.probability_upper(np.array([p]), np.array([q]))[0])
            assert exact <= found <= exact * 1.001
    ends = whole.probability_upper(np.array([0.0, 1.0, 1.0]), np.array([0.0, 0.0, 1.0]))
    np.testing.assert_allclose(ends, [0.0, 1.0, 0.0], atol=1e-12)


@pytest.mark.first_case
@pytest.mark.parametrize("region", [ApproxRegion(0.5), ApproxRegion(1.0, 1e-3), GaussianRegion(1)])
@pytest.mark.parametrize("seen", [Trials(30, 40, 8, 50), Trials(900, 2_000, 200, 2_000)])
def test_supremum_is_above_a_fine_grid_and_near_it(seen: Trials, region: Region) -> None:
    extreme = at_least(seen, region, max(half_deviance(seen, region), 0.5), 0.05, 0.4)
    q = np.linspace(0.05, 0.4, 1_001)
    fine = float(extreme.probability_upper(region.largest(q), q).max())
    upper = supremum_upper(extreme, region, 0.05, 0.4)
    assert fine <= upper <= fine * 1.4
    assert supremum_estimate(extreme, region, 0.05, 0.4) <= upper


def test_a_supremum_between_grid_points_is_not_missed() -> None:
    """An edge that jumps up on a sliver: the bound holds, whatever the grid."""
    extreme = Extreme(Trials(20, 40, 10, 40), 0, np.full(41, 30))
    kink = ApproxRegion(2.0, 0.0)
    q = np.linspace(0.05, 0.2, 4_001)
    fine = float(extreme.probability_upper(kink.largest(q), q).max())
    assert fine <= supremum_upper(extreme, kink, 0.05, 0.2) <= fine * 1.1


@pytest.mark.first_case
@pytest.mark.parametrize(
    "region", [ApproxRegion(0.5), ApproxRegion(1.0, 1e-3), GaussianRegion(1), zcdp_region(0.3)]
)
def test_lines_lie_above_the_edge_and_on_it_where_it_is_straight(region: Region) -> None:
    left = np.linspace(1e-3, 0.9, 60)
    right = np.minimum(left * 1.2, 1.0)
    start, stop = _line(region, left, right)
    edge = [region.largest(left), region.largest(right)]
    for share in np.linspace(0, 1, 21):
        between = region.largest(left + share * (right - left))
        assert (start + share * (stop - start) >= between).all()
    chord = region.largest((left + right) / 2) <= (edge[0] + edge[1]) / 2 * (1 + 1e-12)
    assert (start[chord] <= edge[0][chord] * (1 + 1e-8)).all()
    assert chord.any() == isinstance(region, ApproxRegion)


def test_a_bound_along_a_short_line_is_above_it_and_near_it() -> None:
    extreme = Extreme(Trials(900, 2_000, 200, 2_000), 0, np.full(2_001, 900))
    start, stop, left, right = (np.array([v]) for v in (0.44, 0.443, 0.2, 0.201))
    value, upper = _curved(extreme, start, stop, left, right)
    shares = np.linspace(0, 1, 101)
    along = extreme.probability_upper(start + shares * 0.003, left + shares * 0.001)
    assert value[0] == along[[0, -1]].max()
    assert along.max() <= upper[0] <= along.max() * 1.05


@pytest.mark.parametrize("place", [0.0, 0.3, 1.0])
def test_peaks_are_found_inside_and_at_either_end(place: float) -> None:
    found = _peak(lambda q: -((q - place) ** 2), np.zeros(2), np.ones(2), 7)
    np.testing.assert_allclose(found, place, atol=1e-4)


def test_no_count_is_extreme_where_the_claim_allows_all_hits() -> None:
    seen = Trials(10**9, 10**9, 0, 100)
    assert _first(seen, ApproxRegion(0.5), 10.0, np.array([100])).tolist() == [10**9 + 1]


def test_the_largest_rate_of_a_divergence_is_one_where_all_hits_are_within_it() -> None:
    rates, room = np.array([0.5, 0.5, 0.0]), np.array([0.7, 0.3, 0.3])  # log 2 is 0.69
    found = _kl_upper(rates, room)
    assert found[[0, 2]].tolist() == [1, 0]
    assert kl(found[1], 0.5) == pytest.approx(0.3, rel=1e-9)


def test_a_deviance_within_its_rounding_is_none() -> None:
    """5.92e-7 in 40 digits, 6.11e-7 in floats; and one that is far smaller than its rounding."""
    seen = Trials(608_738_068, 10**9, 608_738_044, 10**9)
    assert half_deviance(seen, ApproxRegion(0.0)) <= 5.92e-7
    seen = Trials(5 * 10**8 + 1, 10**9, 5 * 10**8, 10**9)
    assert half_deviance(seen, ApproxRegion(0.0)) == 0


def test_far_outcomes_are_quick_and_bounded_by_chernoff() -> None:
    for region in (ApproxRegion(0.3), zcdp_region(0.01)):
        assert 1e-9 < region_p_value(600_000, 10**6, 300_000, 10**6, region) < 1.1e-9
    for seen in (Trials(20, 30, 5, 30), Trials(30, 30, 0, 30), Trials(12, 40, 0, 30)):
        region = ApproxRegion(0.2)
        cost = half_deviance(seen, region)
        extreme = at_least(seen, region, cost, 0.0, 1.0)
        assert supremum_upper(extreme, region, 0.0, 1.0) < tail_upper(cost) < 1
    assert tail_upper(0.0) == 1


# Bounds.


@pytest.mark.parametrize(("guess", "point"), [(0.5, 1.01), (1.1, 1.1), (1.6, 1.6), (5.0, 2.0)])
def test_a_search_goes_up_by_a_hundredth_to_twice_while_nothing_is_refused(
    guess: float, point: float
) -> None:
    assert _Ends(2.01, 1.0, below=0.1).between(guess) == pytest.approx(point, rel=0.02)
    near = _Ends(1.2, 1.0, below=0.1).between(guess)
    assert near == pytest.approx(min(point, 1.196), rel=1e-9)


def test_bounds_invert_the_test() -> None:
    """The claim of the bound is refused at the error rate, one a little larger is not."""
    for counts in (counted(80, 100, 20, 90), counted(600, 1_000, 230, 1_000)):
        x = counts.trials_alternative - counts.false_negatives
        seen = x, counts.trials_alternative, counts.false_positives, counts.trials_null
        for bound, family in (
            (joint_epsilon_lower(counts, 0.01, ERROR), lambda e: ApproxRegion(e, 0.01)),
            (joint_mu_lower(counts, ERROR), GaussianRegion),
        ):
            assert region_p_value(*seen, family(bound), trim=5e-4) < ERROR * 1.1
            assert region_p_value(*seen, family(bound * 1.05), trim=5e-4) > ERROR


@pytest.mark.long_cases("8")
@pytest.mark.parametrize("trials", [1, 2, 8])
def test_errors_of_bounds_by_enumeration(trials: int) -> None:
    """Not sampled: P(bound > truth) over all outcomes, at four true claims on their edges."""
    bounds = {
        (x, y): joint_epsilon_lower(counted(x, trials, y, trials), 0.01, ERROR)
        for x, y in itertools.combinations(range(trials, -1, -1), 2)
    }
    for truth, q in itertools.product((0.0, 0.5, 1.5), (0.05, 0.2, 0.3)):
        p = float(ApproxRegion(truth, 0.01).largest(np.array([q]))[0])
        table = law(trials, trials, p, q)
        wrong = sum(table[pair] for pair, bound in bounds.items() if bound > truth)
        assert wrong <= ERROR * (1 + 1e-9)


def test_bounds_beat_the_split() -> None:
    for counts in (counted(300, 10_000, 108, 10_000), counted(800, 1_000, 200, 1_000)):
        split = epsilon_lower(counts, DELTA, ERROR).epsilon_lower
        assert joint_epsilon_lower(counts, DELTA, ERROR) > split * 1.02
        assert joint_mu_lower(counts, ERROR) > mu_lower(counts, ERROR).mu_lower * 1.01


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("counts", "error"),
    [
        (Counts(5, 900, 50, 900), 0.05),
        (Counts(16, 900, 39, 900), 1e-4),
        (Counts(18, 2_000, 1_493, 2_000), 1e-4),
        (Counts(9, 500, 271, 500), 0.05),
    ],
)
def test_bounds_of_large_epsilons_do_not_collapse(counts: Counts, error: float) -> None:
    """The probability jumps between few values there; the search goes on inside its bracket."""
    bound = joint_epsilon_lower(counts, 0.0, error)
    assert bound > 0.98 * epsilon_lower(counts, 0.0, error).epsilon_lower > 2
    hits = counts.trials_alternative - counts.false_negatives
    seen = hits, counts.trials_alternative, counts.false_positives, counts.trials_null
    assert region_p_value(*seen, ApproxRegion(bound, 0.0), error * 5e-3) < 1.2 * error


def test_bounds_of_perfect_and_of_idle_counts() -> None:
    """Perfect: (1 - q)^n q^n at the corner p = 1 - q of the region, so 2 n q = log(1 / error)."""
    perfect = joint_epsilon_lower(Counts(0, 1_000, 0, 1_000), 0.0, ERROR)
    corner = math.log(2_000 / -math.log(ERROR))
    assert corner - 0.05 < perfect < corner
    for idle in (Counts(50, 100, 50, 100), Counts(100, 100, 100, 100), Counts(0, 100, 100, 100)):
        assert joint_epsilon_lower(idle, DELTA, ERROR) == 0
        assert joint_mu_lower(idle, ERROR) == 0
        assert joint_rho_lower(idle, ERROR) == 0
    assert joint_epsilon_lower(Counts(0, 1, 0, 1), DELTA, ERROR) == 0
    assert region_p_value(3, 10, 4, 10, ApproxRegion(0.0)) == 1


@pytest.mark.quality
def test_one_true_claim_in_all_measures() -> None:
    """Expected counts of N(MU, 1) and N(0, 1) above 2: every bound below its truth, none idle."""
    n = 10**6
    hits, other_hits = round(n * 0.041626), round(n * 0.0227501)
    counts = counted(hits, n, other_hits, n)
    assert 0.5 < joint_epsilon_lower(counts, DELTA, ERROR) < 1
    assert 0.25 < joint_mu_lower(counts, ERROR) < MU
    assert 0.5 * MU**2 / 2 < joint_rho_lower(counts, ERROR) < MU**2 / 2


@pytest.mark.parametrize(
    ("trials", "event", "aim"), [(10**4, 2.3, 0.46), (10**5, 2.96, 0.67), (10**6, 3.45, 0.825)]
)
def test_power_on_the_gaussian(trials: int, event: float, aim: float) -> None:
    """At the expected counts of the best event: the median bound, beyond the aims set for it."""
    hits = round(trials * math.erfc((event - MU) / math.sqrt(2)) / 2)
    other_hits = round(trials * math.erfc(event / math.sqrt(2)) / 2)
    bound = joint_epsilon_lower(counted(hits, trials, other_hits, trials), DELTA, ERROR)
    assert aim <= bound < 1


@pytest.mark.quality
def test_smaller_errors_give_smaller_bounds() -> None:
    counts = counted(300, 1_000, 100, 1_000)
    errors = (0.2, 0.05, 1e-3, 1e-6, 1e-12, 1e-40)
    bounds = [joint_epsilon_lower(counts, DELTA, error) for error in errors]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[0] > bounds[-2] > 0
    deltas = [joint_epsilon_lower(counts, delta, ERROR) for delta in (0.0, 0.01, 0.1, 0.9)]
    assert deltas == sorted(deltas, reverse=True)
    assert deltas[-1] == 0


def test_large_numbers_of_trials() -> None:
    n = 10**8
    bound = joint_epsilon_lower(counted(30_000, n, 10_000, n), 0.0, ERROR)
    assert 1.06 < bound < math.log(3)


@pytest.mark.parametrize(
    "bad",
    [(-1, 5, 0, 5), (6, 5, 0, 5), (0, 0, 0, 5), (0, 5, 6, 5), (0.5, 5, 0, 5), (0, 10**10, 0, 5)],
)
def test_p_values_refuse(bad: Any) -> None:
    with pytest.raises(InvalidParameter):
        region_p_value(*bad, ApproxRegion(1.0))


@pytest.mark.parametrize("error", [0.0, 1.0, -0.1, math.nan, math.inf, 1e-99])
def test_bounds_refuse_an_error_rate(error: float) -> None:
    counts = counted(8, 10, 1, 10)
    for call in (
        lambda: joint_epsilon_lower(counts, DELTA, error),
        lambda: joint_mu_lower(counts, error),
        lambda: joint_rho_lower(counts, error),
    ):
        with pytest.raises(InvalidParameter, match="error"):
            call()


def test_the_smallest_trim_is_allowed() -> None:
    """Half of it is the least error that a Clopper-Pearson bound has."""
    assert 0 < region_p_value(8, 10, 1, 10, ApproxRegion(0.0), trim=2e-100) < 0.01
    with pytest.raises(InvalidParameter, match=r"trim = 1\.9e-100: expected in \[2e-100, 1\)"):
        region_p_value(8, 10, 1, 10, ApproxRegion(0.0), trim=1.9e-100)


def test_reach_is_no_less_than_what_a_divergence_allows_and_near_it_where_that_is_small() -> None:
    """Both ways round, on grids of 20,000 points above each rate."""
    rates = np.array([1e-9, 1e-4, 0.1, 0.4, 0.5, 0.9, 0.999])
    for room in (1e-9, 1e-5, 1e-2, 0.3, 2.0):
        bound = reach(rates, np.full(rates.size, room))
        above = np.minimum(rates + np.linspace(0, 2, 20_001)[:, None] * bound, 1.0)
        inside = (kl(above, rates) <= room) | (kl(rates, above) <= room)
        assert inside[1].all()
        farthest = np.where(inside, above, 0.0).max(axis=0) - rates
        assert (farthest <= bound * (1 + 1e-9)).all()
        if room == 1e-9:
            assert (farthest[2:-1] >= 0.94 * bound[2:-1]).all()


def test_bounds_refuse_other_input() -> None:
    for delta in (-1e-9, 1.0, math.nan):
        with pytest.raises(InvalidParameter, match="delta"):
            joint_epsilon_lower(counted(8, 10, 1, 10), delta, ERROR)
    with pytest.raises(InvalidParameter, match="Counts"):
        joint_mu_lower((8, 10, 1, 10), ERROR)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="trim"):
        region_p_value(8, 10, 1, 10, ApproxRegion(0.0), trim=0.0)
