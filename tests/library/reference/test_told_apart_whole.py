"""Sampled rounds of little discrete noise: enumeration, the closed transforms, the checker."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations_with_replacement
from math import factorial, prod
from typing import Any

import flint
import mpmath
import pytest

import dpaudit as dp
from dpaudit.check.profile import told as checked
from dpaudit.check.profile.cells import ball
from dpaudit.check.profile.conversions import confirm_lower, confirm_upper
from dpaudit.pairs import DiscreteNormal, Mixed, Pair, product
from dpaudit.profiles import delta_interval, epsilon_interval
from dpaudit.profiles.closed import told
from dpaudit.profiles.closed.sums import Sums
from dpaudit.profiles.closed.told import WholeRounds, delta_told, epsilon_told
from dpaudit.scope import central

F = Fraction


def pair_of(variance: str, shift: int, rate: str, times: int) -> Pair:
    noise = DiscreteNormal(F(variance), F(shift))
    return product([(Mixed(noise, F(rate)), F(times))])


def enumerated(variance: str, shift: int, rate: str, times: int, epsilon: str) -> Fraction:
    """delta of a few rounds: every multiset of their whole numbers, in 60 digits."""
    with mpmath.workdps(60):
        v, q, x = (mpmath.mpf(F(n).numerator) / F(n).denominator for n in (variance, rate, epsilon))
        reach = int(13 * mpmath.sqrt(v)) + 1
        weights = {k: mpmath.exp(-mpmath.mpf(k * k) / (2 * v)) for k in range(-99, 100)}
        whole = sum(weights.values())
        masses = []
        for k in {at + k for at in (0, shift) for k in range(-reach, reach + 1)}:
            none, moved = (mpmath.exp(-mpmath.mpf(d * d) / (2 * v)) / whole for d in (k, k - shift))
            masses.append(((1 - q) * none + q * moved, none))
        found, factor = mpmath.mpf(0), mpmath.exp(x)
        for drawn in combinations_with_replacement(range(len(masses)), times):
            ways = factorial(times) // prod(factorial(drawn.count(k)) for k in set(drawn))
            more = prod(masses[k][0] for k in drawn) - factor * prod(masses[k][1] for k in drawn)
            found += ways * max(more, mpmath.mpf(0))
        return F(mpmath.nstr(found, 40))


# One, two or three rounds hold the record, of which each has a loss of about 112 or 196 + log q.
FEW = [
    ("1", 15, "1/8", 2, "40"),
    ("1", 15, "1/8", 2, "107"),
    ("1", 15, "1/8", 2, "212"),
    ("1/2", 14, "1/100", 3, "193"),
    pytest.param("1/2", 14, "1/100", 3, "385", marks=pytest.mark.quality),
    ("1", 15, "1/8", 2, "0"),
]


@pytest.mark.parametrize(("variance", "shift", "rate", "times", "epsilon"), FEW)
def test_few_rounds_by_enumeration_lie_between_the_ends_of_both(
    variance: str, shift: int, rate: str, times: int, epsilon: str
) -> None:
    truth = enumerated(variance, shift, rate, times, epsilon)
    pair = pair_of(variance, shift, rate, times)
    found = delta_told(pair, F(epsilon))
    assert found is not None
    assert found.lower * (1 - F(1, 10**15)) <= truth <= found.upper * (1 + F(1, 10**15))
    assert found.upper - found.lower <= found.upper / 10**4
    with flint.ctx.workprec(300):
        low, high = checked.told(pair, ball(F(epsilon)), ball(12))
        assert low * (1 - ball(F(1, 10**15))) <= ball(truth) <= high * (1 + ball(F(1, 10**15)))
        assert high - low < high / 10**3


def test_sums_of_discrete_noise_have_the_profile_of_an_enumeration() -> None:
    """D_2 at moves small and large; without what is missing, or one place aside, it is another."""
    with flint.ctx.workprec(200):
        for variance, shift, epsilon in (("4", 3, "5/2"), ("4", 3, "-1"), ("1/3", 2, "7")):
            noise = DiscreteNormal(F(variance), F(shift))
            truth = ball(enumerated(variance, shift, "1", 2, epsilon))
            ours = Sums(noise, 2, -60.0).delta(2, ball(F(epsilon)))
            theirs = checked._Whole(noise, 200, -60.0).told(2, ball(F(epsilon)))
            for low, high in (ours, theirs):
                assert low <= truth * (1 + ball(F(1, 10**20)))
                assert high >= truth * (1 - ball(F(1, 10**20)))
                assert high - low < ball(F(1, 10**20))
            cut = Sums(noise, 2, -8.0)
            low, high = cut.delta(2, ball(F(epsilon)))
            assert low < truth < high
            assert not truth < high - cut.tails(2).missing


# The first was answered by [9.5, 1e7].
MANY = [
    ("1", 100, "1/100", 1000, "1e-5"),
    ("1", 100, "1/100", 1000, "1e-30"),
    pytest.param("100", 1000, "1/1000", 3000, "1e-8", marks=pytest.mark.quality),
    ("1", 50, "1/10", 300, "1e-5"),
]


@pytest.mark.parametrize(("variance", "shift", "rate", "times", "delta"), MANY)
def test_many_rounds_are_narrow_and_confirmed(
    variance: str, shift: int, rate: str, times: int, delta: str
) -> None:
    pair, at = pair_of(variance, shift, rate, times), F(delta)
    for used in (pair.swapped, pair):
        found = epsilon_interval(used, at)
        assert found.method == "rounds told apart"
        assert 0 < found.upper - found.lower <= found.upper / 10**8
        rows: list[dict[str, Any]] = [
            {"pair": "0", **row} for row in (found.upper_witness, found.lower_witness)
        ]
        assert confirm_upper(used, F(found.upper), at, rows[0])
        assert confirm_lower(used, found.lower, at, rows[1])
    small = found.upper / 10**6
    assert not confirm_upper(used, F(found.upper) - small, at, rows[0])
    assert not confirm_lower(used, found.lower + small, at, rows[1])


LITTLE_MORE = [
    (53, "1/10", 3, "1e-5"),
    (53, "3/1000", 2, "1e-3"),
    (55, "1/10000", 2, "1e-8"),
]


@pytest.mark.parametrize(("shift", "rate", "times", "delta"), LITTLE_MORE)
def test_ends_at_little_more_than_ten_deviations_are_confirmed(
    shift: int, rate: str, times: int, delta: str
) -> None:
    """By whole numbers that are empty: a gap of another one, or of 12 and more, says less."""
    pair, at = pair_of("25", shift, rate, times).swapped, F(delta)
    found = epsilon_told(pair, at)
    assert found is not None
    assert 0 < found.upper - found.lower <= found.upper / 10**5
    assert checked.told_at_most(pair, F(found.upper), at)
    assert checked.told_at_least(pair, found.lower, at)
    assert not checked.told_at_most(pair, found.lower, at)
    assert not checked.told_at_least(pair, F(found.upper), at)


@pytest.mark.quality
def test_closed_transforms_have_the_same_epsilon() -> None:
    pair = pair_of("1", 12, "1/100", 200)
    other = epsilon_interval(pair, F(1, 10**4))
    assert other.method != "rounds told apart"
    below, above = delta_told(pair, F(other.upper)), delta_told(pair, other.lower)
    assert below is not None
    assert above is not None
    assert below.lower <= F(1, 10**4) <= above.upper


def test_a_declaration_of_discrete_noise_is_answered() -> None:
    run = dp.Repeat(dp.PoissonSampled(dp.DiscreteGaussian("x", 1, 100), F(1, 100)), 1000)
    bound = dp.account(run, central("add_remove")).epsilon("1e-5")
    assert bound.width < 1e-2 < 129969 < bound.lower
    delta = delta_interval(pair_of("100", 1000, "1/100", 1000), 20)
    # Some round holds the record.
    assert float(delta.upper) == pytest.approx(1 - 0.99**1000, rel=1e-4)


def test_regions_are_whole_numbers_and_their_masses_are_right() -> None:
    """Empty up to one number, hit from another on: by sums of the noise's own weights."""
    v, s, gap = 2, 20, 6
    weights = {k: mpmath.exp(-mpmath.mpf(k * k) / (2 * v)) for k in range(-80, 81)}

    def mass(held: Any) -> Fraction:
        return F(float(sum(w for k, w in weights.items() if held(k)) / sum(weights.values())))

    # u = s (k - s / 2) / v, so that u <= -6 up to k = 9, and u >= 6 - log(1 / 8) = 8.08 from 11 on.
    with flint.ctx.workprec(200):
        noise = DiscreteNormal(F(v), F(s))
        ours = WholeRounds(ball(20) / ball(2).sqrt(), ball(F(1, 8)), 5, 0, 5, Sums(noise, 5, -60.0))
        ours.__dict__["gap"] = ball(gap)
        theirs = checked._Whole(noise, 200, -60.0)
        last, first = ours._ends
        assert last <= 9 < 11 <= first
        truths = mass(lambda k: k <= last), mass(lambda k: k + s <= last), mass(lambda k: k > last)
        for found, truth in zip(ours.low, truths, strict=True):
            assert float(found.mid()) == pytest.approx(float(truth), rel=1e-12)
        assert float(ours.missed.mid()) == pytest.approx(float(mass(lambda k: k + s < first)))
        truths = mass(lambda k: k <= 9), mass(lambda k: k + s <= 9), mass(lambda k: k > 9)
        for found, truth in zip(theirs.low(ball(gap)), truths, strict=True):
            assert float(found.mid()) == pytest.approx(float(truth), rel=1e-12)
        high = theirs.not_high(gap + ball(8).log())
        assert float(high.mid()) == pytest.approx(float(mass(lambda k: k + s < 11)))


def test_a_delta_that_is_seen_needs_no_long_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """Masses down to exp(-300) were summed for every delta, which took five times as long."""
    asked: list[float] = []
    made = told._rounds

    def counted(pair: Mixed, times: int, log_least: float, bits: int) -> Any:
        asked.append(log_least)
        return made(pair, times, log_least, bits)

    monkeypatch.setattr(told, "_rounds", counted)
    rounds = pair_of("400", 300, "1/100", 100)
    found = delta_told(rounds, F(100))
    assert found is not None
    assert 0.505561 < found.lower <= found.upper < 0.505563
    assert asked == [-90]
    asked.clear()
    rare = delta_told(pair_of("1", 15, "1/8", 2), F(500))
    assert rare is not None
    assert 0 <= rare.lower < told.SEEN
    assert asked == [-90, -300]


def test_what_is_told_apart_narrows_a_wider_delta() -> None:
    """Alone it is not as narrow as asked; its lower end was dropped for a grid's of 0.095."""
    found = delta_interval(pair_of("400", 202, "1/100", 100), F(100))
    assert 0.1264 < found.lower <= found.upper < 0.12653
