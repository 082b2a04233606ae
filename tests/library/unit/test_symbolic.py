"""The profile of Gaussian compositions in symbols, against 40 digits and against derivatives."""

from __future__ import annotations

from fractions import Fraction

import pytest
import sympy

import dpaudit as dp
from dpaudit.accountant.symbolic import Trend
from dpaudit.errors import InvalidParameter, Unsupported

SCOPE = dp.central("add_remove")
z, w = sympy.symbols("z w", positive=True)
T = sympy.Symbol("T", positive=True, integer=True)
RUN = dp.Compose(dp.Repeat(dp.Gaussian("g", z), T), dp.Gaussian("h", w))
SINGLE = dp.account(dp.Gaussian("g", z), SCOPE).in_symbols()
POINTS = [(1, 1), (2, 3), (10, 1), (Fraction(1, 2), 9), (Fraction(1, 3), 5)]


@pytest.mark.parametrize(("noise", "loss"), POINTS)
def test_the_profile_and_its_elementary_ends(noise: object, loss: object) -> None:
    """The account's certified interval holds delta; the ends without erfc hold delta."""
    at = {z: sympy.sympify(noise), SINGLE.epsilon: sympy.sympify(loss)}
    delta = SINGLE.delta.subs(at).evalf(40)
    lower, upper = (end.subs(at).evalf(40) for end in SINGLE.elementary)
    assert lower < delta < upper
    bound = dp.account(dp.Gaussian("g", noise), SCOPE).delta(loss)
    assert float(bound.lower) <= float(delta) * (1 + 1e-15)
    assert float(delta) <= float(bound.upper) * (1 + 1e-15)
    above = SINGLE.epsilon_above(sympy.Rational(str(delta))).subs(z, at[z])
    assert above.evalf(40) >= at[SINGLE.epsilon]


def test_asymptotics_are_reached() -> None:
    """Every ratio to delta tends to 1, and epsilon_above's to epsilon."""
    noise = sympy.Rational(1, 2)
    for loss, slack in ((30, 2e-2), (100, 2e-3)):
        at = {z: noise, SINGLE.epsilon: loss}
        delta = SINGLE.delta.subs(at).evalf(60, maxn=10_000)
        for found in (*SINGLE.elementary, SINGLE.asymptotic):
            assert abs(found.subs(at).evalf(60) / delta - 1) < slack
        above = SINGLE.epsilon_above(sympy.Rational(str(delta))).subs(z, noise)
        assert 1 < above.evalf(30) / loss < 1.06


def test_how_delta_moves_with_each_symbol() -> None:
    profile = dp.account(RUN, SCOPE).in_symbols()
    assert profile.mu == sympy.sqrt(T / z**2 + 1 / w**2)
    trends = {symbol: profile.trend(symbol) for symbol in (z, w, T, profile.epsilon)}
    falls = {symbol for symbol, trend in trends.items() if trend is Trend.FALLS}
    assert falls == {z, w, profile.epsilon}
    assert trends[T] is Trend.RISES
    names = {name: profile.trend(name) for name in ("z", "w", "T", "epsilon")}
    assert names == {str(symbol): trend for symbol, trend in trends.items()}
    assert profile.trend(sympy.Symbol("z")) is Trend.FALLS  # the one of this name
    for other in ("other", sympy.Symbol("other"), 5, None):
        with pytest.raises(InvalidParameter, match="does not hold it: it has T, epsilon, w, z"):
            profile.trend(other)
    # Shown by the derivative of delta itself, at numbers.
    at = {z: 2, w: 3, T: 5, profile.epsilon: 1}
    for symbol, trend in trends.items():
        slope = sympy.diff(profile.delta, symbol).subs(at).evalf()
        assert (slope < 0) == (trend is Trend.FALLS)


def test_a_trend_that_holds_in_a_range_only() -> None:
    """mu = z (2 - z): rises up to z = 1, falls to 2."""
    profile = dp.account(dp.GDP(z * (2 - z)), SCOPE).in_symbols()
    assert profile.trend(z) is Trend.UNKNOWN
    assert profile.trend(z, {z: ("0.1", "0.9")}) is Trend.RISES
    assert profile.trend(z, {z: ("1.1", "1.9")}) is Trend.FALLS
    assert profile.trend("z", {"z": ("0.1", "0.9")}) is Trend.RISES
    with pytest.raises(InvalidParameter, match="a key of ranges = 'w'"):
        profile.trend(z, {"w": ("0.1", "0.9")})
    with pytest.raises(InvalidParameter, match="declared positive, which 0 is not"):
        profile.trend(z, {z: (0, 1)})
    floors = dp.account(dp.GDP(sympy.floor(T / 2) + 1), SCOPE).in_symbols()
    assert floors.trend(T) is Trend.UNKNOWN


def test_what_has_no_such_profile_is_refused() -> None:
    with pytest.raises(Unsupported, match="gdp"):
        dp.account(dp.ApproxDP(1, "0.1"), SCOPE).in_symbols()
    assert not dp.account(dp.Laplace("l", z), SCOPE).in_symbols().step.attained
    with pytest.raises(Unsupported, match="no Gaussian"):
        dp.account(dp.GDP(0), SCOPE).in_symbols()
    with pytest.raises(InvalidParameter, match="expected a symbol"):
        dp.account(RUN, SCOPE).in_symbols(3)
    with pytest.raises(InvalidParameter, match="has this symbol"):
        dp.account(RUN, SCOPE).in_symbols(z)
    for delta in (0, "0.6", 2):
        with pytest.raises(InvalidParameter, match="delta"):
            SINGLE.epsilon_above(delta)


def test_a_symbol_that_cancels_leaves_delta_as_it_is() -> None:
    """The declaration has w, the profile of its Gaussian route does not."""
    both = dp.Compose(dp.GDP(z), dp.GDP(sympy.sqrt(w**2)), dp.GDP(T / T))
    assert dp.account(both, SCOPE).in_symbols().trend(w) is Trend.RISES
    of_reports = dp.account(dp.Shuffled(dp.GDP(z), T), dp.central("replace_one")).in_symbols()
    assert of_reports.trend(T) is of_reports.trend("T") is Trend.CONSTANT
    twins = dp.Compose(dp.GDP(z), dp.GDP(sympy.Symbol("z", positive=True, integer=True)))
    with pytest.raises(InvalidParameter, match="2 symbols of this name"):
        dp.account(twins, SCOPE).in_symbols().trend("z")
