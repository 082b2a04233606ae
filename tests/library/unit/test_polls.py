"""One poll of answers of two values: every number of others, by exact sums and by a checker."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import mpmath
import numpy as np
import pytest

import dpaudit as dp
from dpaudit.check.profile import polls as checked
from dpaudit.check.profile.conversions import confirm_conversion
from dpaudit.exact import decimal_upper, exp
from dpaudit.measures.profile import PROFILE
from dpaudit.pairs import Clones, Polled, Tallied
from dpaudit.profiles import delta_interval, epsilon_interval
from dpaudit.profiles.closed import polls
from tests.support.sampling import REPLACE_ONE, rederived

F = Fraction
REPLACE = dp.central("replace_one")


def pair_of(epsilon: str, others: int) -> Polled:
    level = F(epsilon)
    return Polled(level, F(1), 2 / (exp(level) + 1), F(others))


def law(reports: int, holding: int, p: mpmath.mpf) -> list[mpmath.mpf]:
    """The ones among reports, of which so many hold 1, in 50 digits."""

    def binomial(n: int, chance: mpmath.mpf) -> list[mpmath.mpf]:
        return [comb(n, k) * chance**k * (1 - chance) ** (n - k) for k in range(n + 1)]

    ones, zeros = binomial(holding, p), binomial(reports - holding, 1 - p)
    found = [mpmath.mpf(0)] * (reports + 1)
    for j, a in enumerate(ones):
        for k, b in enumerate(zeros):
            found[j + k] += a * b
    return found


def deltas(epsilon: str, others: int, at: str) -> list[mpmath.mpf]:
    """delta of one poll, for every number of the others that hold 1."""
    with mpmath.workdps(50):
        p = 1 / (1 + mpmath.exp(-mpmath.mpf(F(epsilon).numerator) / F(epsilon).denominator))
        x = mpmath.exp(mpmath.mpf(F(at).numerator) / F(at).denominator)
        found = []
        for holding in range(others + 1):
            one, zero = (law(others + 1, holding + k, p) for k in (1, 0))
            found.append(sum(max(a - x * b, mpmath.mpf(0)) for a, b in zip(one, zero, strict=True)))
        return found


CASES = [("1/2", 40, "1/5"), ("3", 25, "1"), ("1", 1, "1/2"), ("2", 30, "0")]


@pytest.mark.parametrize(("epsilon", "others", "at"), CASES)
def test_the_largest_over_all_numbers_is_that_of_exact_sums(
    epsilon: str, others: int, at: str
) -> None:
    truth = max(deltas(epsilon, others, at))
    found = delta_interval(pair_of(epsilon, others), F(at))
    assert found.method == "one poll"
    assert mpmath.mpf(float(found.lower)) <= truth <= mpmath.mpf(float(found.upper))
    assert float(found.upper - found.lower) <= 1e-5 * float(truth)
    wide = F(mpmath.nstr(truth, 20))
    pair = pair_of(epsilon, others)
    assert checked.polled_at_most(pair, F(at), wide * (1 + F(1, 10**9)))
    assert not checked.polled_at_most(pair, F(at), wide * (1 - F(1, 10**12)))


def test_the_worst_number_is_no_end_and_leaving_numbers_out_is_too_little(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of 30 others at epsilon 1/2, .09: all holding 1 is less than the most."""
    found = deltas("1/2", 30, "9/100")
    assert max(found) > max(found[0], found[-1]) * (1 + 1e-5)
    pair, at = pair_of("1/2", 30), F(9, 100)
    short = F(mpmath.nstr(max(found[0], found[-1]), 20)) * (1 + F(1, 10**9))
    assert not checked.polled_at_most(pair, at, short)
    assert delta_interval(pair, at).lower > short
    theirs = checked._laws

    def ends(poll: polls.Poll, x: float) -> object:
        ks = np.array([0, poll.others])
        below, above = poll.bounds(x, ks)
        return float(below.max()), float(above.max()), ks

    monkeypatch.setattr(polls.Poll, "largest", ends)
    assert float(delta_interval(pair, at).upper) < float(max(found))
    monkeypatch.setattr(
        checked, "_laws", lambda *given: (theirs(*given)[0], theirs(*given)[1] + 1e-3)
    )
    assert not checked.polled_at_most(pair, at, F(mpmath.nstr(max(found), 20)) * F(1001, 1000))


# 10,000 reports were answered by .1144.
@pytest.mark.long_cases("10000-2-1e-6-0.087019731")
@pytest.mark.first_case
@pytest.mark.parametrize(
    ("reports", "epsilon", "delta", "upper"),
    [(10_000, "2", "1e-6", 0.087019731), (300, "1/2", "1e-5", 0.091553271)],
)
def test_polls_are_answered_to_a_thousandth_and_confirmed(
    reports: int, epsilon: str, delta: str, upper: float
) -> None:
    node = dp.Shuffled(dp.RandomizedResponse("poll", F(epsilon)), reports)
    step = dp.account(node, REPLACE).converted("profile", F(delta))
    assert float(step.value[0]) == pytest.approx(upper, rel=1e-6)
    assert float(step.lower) >= upper * (1 - 1e-3)
    losses = step.premises[0].value
    assert isinstance(losses.remove[0], Polled)
    assert rederived(node, "replace_one", PROFILE.fold(node, REPLACE_ONE)).upper == losses
    shown = decimal_upper(step.value[0])
    found = confirm_conversion(losses, F(delta), shown, step.witness)
    assert found is not None
    assert found.trusted == ()
    (row,) = step.witness["upper"]
    assert row["form"] == "poll"
    value = step.value[0] * (1 - F(1, 10**4))
    forged = {**row, "value": decimal_upper(value), "epsilon": str(F(decimal_upper(value)))}
    changed = {**step.witness, "upper": [forged]}
    assert confirm_conversion(losses, F(delta), decimal_upper(value), changed) is None


@pytest.mark.quality
def test_several_polls_have_the_blanket_and_are_no_further_apart_than_it() -> None:
    pair = pair_of("1", 200)
    assert pair.clones == Clones(pair.epsilon, F(1), pair.rate, pair.others)
    assert pair.least == Tallied(pair.epsilon, pair.rate / 2, pair.others)
    node = dp.Shuffled(dp.RandomizedResponse("poll", 1), 201)
    twice = dp.account(dp.Repeat(node, 2), REPLACE).epsilon("1e-5")
    once = dp.account(node, REPLACE).epsilon("1e-5")
    assert once.upper < twice.lower * 2
    assert twice.lower < twice.upper
    blanket = epsilon_interval(pair.clones, F(1, 10**5))
    assert once.upper < blanket.lower
    mixed = dp.account(dp.SampledWithoutReplacement(node, 201, 2010), REPLACE).epsilon("1e-5")
    assert 0 < mixed.lower < mixed.upper < once.upper


def test_three_values_are_no_poll_and_large_ones_are_the_blankets() -> None:
    third = dp.Shuffled(dp.RandomizedResponse("poll", 1, 3), 201)
    assert not any(
        isinstance(pair, Polled) for pair in PROFILE.fold(third, REPLACE_ONE).value.pairs
    )
    large = pair_of("1", 50_000)
    assert polls.epsilon_polled(large, F(1, 10**6)) is None
    assert not checked.polled_at_most(large, F(1), F(1, 2))
    assert not checked.polled_at_most(large.clones, F(1), F(1, 2))


@pytest.mark.parametrize(
    ("epsilon", "others"), [("25", 1), ("15", 2), pytest.param("20", 99, marks=pytest.mark.quality)]
)
def test_answers_that_hardly_lie_are_answered_next_to_their_own_epsilon(
    epsilon: str, others: int
) -> None:
    """1 - p has few digits of q there, and delta is 0 from epsilon on, whatever floats say."""
    for delta in (F(1, 10**3), F(1, 10**9)):
        found = epsilon_interval(pair_of(epsilon, others), delta)
        assert F(epsilon) * F(99, 100) < found.lower <= found.upper
        assert float(found.upper) <= float(F(epsilon)) * (1 + 2e-7)
        for end, sign in ((found.lower, 1), (found.upper, -1)):
            truth = max(deltas(epsilon, others, str(end)))
            assert (truth - mpmath.mpf(delta.numerator) / delta.denominator) * sign >= 0
