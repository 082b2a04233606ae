"""Odometers: what was spent so far, at any stopping time."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy

from dpaudit.accountant.filters import Odometer, OpenFilter, open_odometer, read_odometer
from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.opaque import NonPrivate
from dpaudit.measures.calculus import CALCULI, Calculus, Running, Source, Sums
from dpaudit.scope import Scope

SCOPE = Scope("add_remove", "record", "central", "transcript")


x = sympy.Symbol("x", positive=True)


def spent(opened: OpenFilter, charge: object, times: int) -> OpenFilter:
    for _ in range(times):
        opened = opened.spend(charge)
    return opened


# --- odometers -----------------------------------------------------------------------------------


def test_a_pure_odometer_is_the_sum() -> None:
    meter = open_odometer("pure", SCOPE)
    assert meter.epsilon_upper == 0
    for _ in range(10):
        meter = meter.spend(0.1)
    assert meter.epsilon_upper == 1
    assert meter.spend(Laplace("a", 2)).epsilon_upper == Fraction(3, 2)


def test_an_approximate_odometer_is_infinite_once_its_delta_is_gone() -> None:
    meter = open_odometer("approx", SCOPE, 1e-6)
    for _ in range(10):
        meter = meter.spend((0.1, 1e-7))
    assert meter.epsilon_upper == 1
    assert meter.spend(0.1).epsilon_upper == Fraction(11, 10)
    assert meter.spend((0, 1e-30)).epsilon_upper == sympy.oo


def test_a_concentrated_odometer_is_near_the_line_that_is_best() -> None:
    """Within a few percent of R + 2 sqrt(R log(41/delta)), never below; and never decreasing."""
    meter, before = open_odometer("zcdp", SCOPE, 1e-6), Fraction(0)
    for n in range(60):
        meter = meter.spend(Fraction(1, 1000) * Fraction(11, 10) ** n)
        total = float(meter.spent[0])
        best = total + 2 * math.sqrt(total * math.log(41e6))
        assert best * (1 - 1e-12) <= meter.epsilon_upper <= 1.07 * best
        assert meter.epsilon_upper >= before
        before = meter.epsilon_upper


@pytest.mark.quality
def test_a_concentrated_odometer_holds_at_a_stopping_time_chosen_to_break_it() -> None:
    """Gaussian releases of rho 1/50, stopped as soon as the loss passes the bound, 300 at most.

    20,000 runs; the bound fails with probability at most 0.05 each.  False-alarm rate: by
    Hoeffding, a frequency above 0.05 + 0.03 has probability below exp(-2 * 20000 * 0.03^2) < 1e-15.
    """
    meter, bounds = open_odometer("zcdp", SCOPE, 0.05), []
    for _ in range(300):
        meter = meter.spend(Gaussian("a", 5))
        bounds.append(float(meter.epsilon_upper))
    mu = 0.2
    noise = np.random.default_rng(5).standard_normal((20_000, 300))
    losses = np.cumsum(mu * noise + mu * mu / 2, axis=1)
    failed = (losses > np.array(bounds)).any(axis=1).mean()
    assert failed <= 0.08
    assert (losses[:, -1] > 0).mean() > 0.9


def test_odometers_round_trip() -> None:
    for meter in (
        open_odometer("pure", SCOPE).spend(0.3),
        open_odometer("approx", SCOPE, 1e-6).spend((0.3, 1e-9)),
        open_odometer("zcdp", SCOPE, 1e-6).spend(Gaussian("a", 3)),
    ):
        found = read_odometer(json.loads(json.dumps(meter.to_json())))
        assert found == meter
        assert found.epsilon_upper == meter.epsilon_upper


@pytest.mark.parametrize(
    "build",
    [
        lambda: open_odometer("gdp", SCOPE, 1e-6),
        lambda: open_odometer("rdp", SCOPE, 1e-6),
        lambda: open_odometer("pure", SCOPE).spend(NonPrivate("all")),
    ],
)
def test_what_has_no_odometer_says_so(build: Any) -> None:
    with pytest.raises(Unsupported, match="odometer"):
        build()


@pytest.mark.parametrize(
    "build",
    [
        lambda: open_odometer("sum", SCOPE),
        lambda: open_odometer("pure", SCOPE, 1e-6),
        lambda: open_odometer("zcdp", SCOPE, 0),
        lambda: open_odometer("approx", SCOPE),
        lambda: open_odometer("zcdp", SCOPE, 1),
        lambda: open_odometer("zcdp", SCOPE, math.nan),
        lambda: open_odometer("zcdp", SCOPE, x / (1 + x)),
        lambda: open_odometer("pure", None),  # type: ignore[arg-type]
        lambda: open_odometer("pure", SCOPE).spend(-1),
        lambda: open_odometer("pure", SCOPE).spend(math.nan),
        lambda: open_odometer("pure", SCOPE).spend((1, 2)),
        lambda: read_odometer({}),
        lambda: read_odometer(None),
        lambda: read_odometer({**open_odometer("pure", SCOPE).to_json(), "spent": []}),
        lambda: read_odometer({**open_odometer("pure", SCOPE).to_json(), "count": None}),
    ],
)
def test_bad_odometers_are_refused(build: Any) -> None:
    with pytest.raises(InvalidParameter):
        build()


def test_odometers_are_values() -> None:
    meter = open_odometer("pure", SCOPE)
    assert meter.spend(1) == Odometer(meter.measure, SCOPE, Fraction(0), (Fraction(1),), 1)
    assert meter.count == 0


def test_a_measure_of_somebody_elses_brings_its_odometer(monkeypatch: pytest.MonkeyPatch) -> None:
    """No table of measures: what a measure says of its sums is all there is; squares are added."""
    law = Running(Source("nobody", 2026, "none"), lambda spent, delta: spent[0] + delta)
    measure = replace(
        CALCULI["gdp"].measure, name="own", sums=Sums(law.cite, ("squared mu",), 2), running=law
    )
    monkeypatch.setitem(CALCULI, "own", Calculus(measure))
    meter = open_odometer("own", SCOPE, Fraction(1, 8)).spend(3).spend(Fraction(1, 2))
    assert meter.epsilon_upper == 9 + Fraction(1, 4) + Fraction(1, 8)
    assert read_odometer(json.loads(json.dumps(meter.to_json()))) == meter
    with pytest.raises(InvalidParameter, match="say what they are"):
        replace(measure, sums=None)
