"""Ends by smoothed transforms are ends that the checker confirms: they fit its errors and work.

A claim at the advantage, whose epsilon is 0, was sharpened until the checker's rule took 79,367
points at 33,358 frequencies; one at delta 1e-8 left no room for errors like its own.
"""

from __future__ import annotations

from fractions import Fraction

import pytest

from dpaudit.check.profile.cells import NotConfirmed
from dpaudit.check.profile.transforms import Choices, smooth_bound
from dpaudit.pairs import Mixed, Normal, Pair
from dpaudit.profiles.fourier import smooth, smooth_interval
from dpaudit.profiles.fourier.sampled import OutOfReach
from dpaudit.profiles.fourier.smooth_interval import epsilon_smooth
from dpaudit.profiles.interval import Interval

F = Fraction
SGD = Mixed(Normal(F(1)), F(1, 20))
RARE = Mixed(Normal(F(10, 7)), F(1, 10_000))


def are_confirmed(pair: Pair, times: int, delta: Fraction, found: Interval) -> bool:
    """Whether the checker's own bounds say both ends of epsilon at delta."""
    try:
        for sign, end, row in (
            (1, found.upper, found.upper_witness),
            (-1, found.lower, found.lower_witness),
        ):
            assert isinstance(end, Fraction)
            if sign < 0 and end == 0:
                continue
            tilt, sigma = float(row["tilt"]), F(row["smoothing"])
            caps = tuple(map(float, row.get("caps", "").split()))
            choices = Choices(caps, float(row["apart_tilt"]), F(row["apart_smoothing"]))
            if sign * (delta - smooth_bound([(pair, times)], tilt, end, sign, sigma, choices)) < 0:
                return False
    except NotConfirmed:
        return False
    return True


def out_of_reach(*_: object) -> None:
    raise OutOfReach


@pytest.fixture(autouse=True)
def fresh() -> None:
    smooth_interval._series_at.cache_clear()


def asked(pair: Pair, times: int, delta: Fraction, width: float) -> bool:
    found = epsilon_smooth(((pair, times),), delta, width)
    return found is None or are_confirmed(pair, times, delta, found)


def test_an_epsilon_of_0_is_not_sharpened() -> None:
    """The advantage of 20 rounds is .1058036; the claim is at a larger delta."""
    found = epsilon_smooth(((SGD, 20),), F("0.105829"), 0.01)
    assert found is not None
    assert found.upper == 0
    assert are_confirmed(SGD, 20, F("0.105829"), found)
    smaller = epsilon_smooth(((SGD, 20),), F("0.1058"), 0.01)
    assert smaller is not None
    assert smaller.upper > 0


def test_what_is_too_much_work_is_left_to_the_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of smoothed series: those that fall by themselves are short."""
    monkeypatch.setattr(smooth, "_by_pairs", out_of_reach)
    found = epsilon_smooth(((SGD.swapped, 20),), F(1, 10))
    assert found is not None
    assert float(found.upper_witness["smoothing"]) > 0
    smooth_interval._series_at.cache_clear()
    monkeypatch.setattr(smooth, "MOST_CHECKED", 10**3)
    assert epsilon_smooth(((SGD.swapped, 20),), F(1, 10)) is None


@pytest.mark.quality
def test_ends_leave_room_for_the_checkers_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """100,000 rounds at delta 1e-8: both have errors of 1e-5 of it."""
    case = (RARE, 100_000, F(1, 10**8), 1e-4)
    found = epsilon_smooth(((RARE, 100_000),), F(1, 10**8), 1e-4)
    assert found is not None
    assert found.upper - found.lower < F(1, 10**5)
    assert asked(*case)
    monkeypatch.setattr(smooth_interval, "CHECKER_ERRORS", 1)
    assert not asked(*case)
