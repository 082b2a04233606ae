"""Products of atoms of which one outcome is nearly certain: binomial sums by mpmath are true."""

from __future__ import annotations

from fractions import Fraction

import flint
import mpmath
import pytest

from dpaudit.accountant.account import Account
from dpaudit.check.profile.closed import delta_by
from dpaudit.check.profile.conversions import confirm_lower, confirm_upper
from dpaudit.exact import enclose, exp
from dpaudit.families.composition import Repeat
from dpaudit.families.discrete import RandomizedResponse
from dpaudit.pairs import Atoms, Product, enumerated, product
from dpaudit.profiles import epsilon_interval
from dpaudit.scope import central

F = Fraction


def response(epsilon: int, choices: int) -> Atoms:
    odds = exp(F(epsilon))
    whole = odds + choices - 1
    rest = ((choices - 2) / whole,) * 2
    answers = ((odds / whole, 1 / whole), (1 / whole, odds / whole))
    return Atoms((*answers, rest) if choices > 2 else answers)


def binomial_delta(size: int, choices: int, times: int, at: mpmath.mpf, most: int) -> mpmath.mpf:
    """Sum of (p - e^at q)+ over how often the second answer and the others were met."""
    odds = mpmath.exp(size)
    whole = odds + choices - 1
    found = mpmath.mpf(0)
    for told in range(most):
        for others in range(most if choices > 2 else 1):
            left = times - told - others
            if left < 0:
                continue
            ways = mpmath.binomial(times, told) * mpmath.binomial(times - told, others)
            ways *= mpmath.mpf(choices - 2) ** others / whole**times
            gained = odds**left - mpmath.exp(at) * odds**told
            found += max(ways * gained, 0)
    return found


# Epsilon, choices, how often, and how many rare outcomes the reference goes through.
RESPONSES = [(700, 2, 1000, 4), (30, 5, 1000, 6), (8, 2, 20_000, 80), (20, 4, 1000, 6)]


@pytest.mark.parametrize(("size", "choices", "times", "most"), RESPONSES)
def test_many_responses_are_narrow_hold_the_truth_and_are_confirmed(
    size: int, choices: int, times: int, most: int
) -> None:
    pair, delta = product([(response(size, choices), F(times))]), F(1, 10**5)
    found = epsilon_interval(pair, delta)
    assert found.upper - found.lower <= found.upper / 10**11
    with mpmath.workdps(60):
        above, below = (
            binomial_delta(size, choices, times, mpmath.mpf(end.numerator) / end.denominator, most)
            for end in (found.lower, F(found.upper))
        )
        assert below <= mpmath.mpf("1e-5") <= above
    rows = [{"pair": "0", **row} for row in (found.upper_witness, found.lower_witness)]
    assert confirm_upper(pair, F(found.upper), delta, rows[0])
    assert confirm_lower(pair, found.lower, delta, rows[1])
    small = found.upper / 10**10
    assert not confirm_upper(pair, F(found.upper) - small, delta, rows[0])
    assert not confirm_lower(pair, found.lower + small, delta, rows[1])


def test_a_thousand_responses_of_700_are_accounted_for() -> None:
    node = Repeat(RandomizedResponse("r", 700), 1000)
    bound = Account(node, central("replace_one")).epsilon("1e-5")
    # All answers are true but with probability 1e-301: 700000 + log(1 - 1e-5).
    truth = F("699999.99998999995")
    assert F("699999.99998") <= bound.lower <= truth <= bound.upper <= F("699999.999992")
    assert bound.upper - bound.lower < F(1, 10**4)


@pytest.mark.first_case
@pytest.mark.parametrize("epsilon", [30, 60, 90])
def test_what_is_left_out_counts(monkeypatch: pytest.MonkeyPatch, epsilon: int) -> None:
    """A coarse cut is wide, and a bound; without what is left out it is none."""
    atoms, times = response(3, 3), 60
    pair = product([(atoms, F(times))])
    assert isinstance(pair, Product)
    with mpmath.workdps(40):
        truth = F(str(binomial_delta(3, 3, times, mpmath.mpf(epsilon), times + 1)))
    enumerated._others.cache_clear()
    monkeypatch.setattr(enumerated, "LEFT_OUT", 1.0)
    with flint.ctx.workprec(128):
        outcomes = enumerated.outcomes_of(pair.factors)
        x = enclose(F(epsilon)).exp()
        gains = [(p - x * q).max(0) for p, q in outcomes]
        whole = sum(gains, flint.arb(0))
        assert sum(gains[:-1], flint.arb(0)) < enclose(truth)
        assert whole.lower() < enclose(truth) < whole.upper()
        own = delta_by(pair, x)
        assert own.lower() < enclose(truth) < own.upper()
    enumerated._others.cache_clear()
