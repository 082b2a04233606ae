"""Adaptive noisy gradient descent: published numbers, rounds, caps of readings, refusals."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from audits.kl_adaptive import pulled
from dpaudit.curator import Sampler
from dpaudit.errors import InvalidParameter
from dpaudit.mechanism import Mechanism
from dpaudit.query import Records
from dpaudit.scope import central
from mechanisms.kl.adaptive import (
    MODES,
    READINGS,
    AdaptiveNoisyGD,
    PrintedAdaptiveNoisyGD,
)
from mechanisms.kl.adaptive_catalogue import adaptive_noisy_gd
from mechanisms.kl.entries import LOGISTIC
from mechanisms.kl.problem import KLProblem
from mechanisms.losses import WorstCase

REPLACE_ONE, ZERO_OUT = central("replace_one"), central("zero_out")


def program(**changes: Any) -> AdaptiveNoisyGD:
    problem = pulled(KLProblem(WorstCase(size=1, curvature=0.0), 0, 1_000, 1.0), 10, 0.1)
    options: dict[str, Any] = {"rho": 1, "beta": 0.05, "smoothness": 1.0} | changes
    return AdaptiveNoisyGD(problem, **options)


def test_the_published_numbers_of_a_round() -> None:
    """V11: ell, sigma_norm, floor; N = 1 and N = -.3 as printed and as they cost."""
    own = program()
    assert own.ell == pytest.approx(9.903488, abs=1e-6)
    assert own.norm_noise == pytest.approx(0.031623, abs=1e-6)
    assert own.floor == pytest.approx(0.002, rel=1e-12)
    assert own.floor * math.sqrt(10 * own.ell) == pytest.approx(0.019903, abs=1e-6)
    noisy = np.array([1.0, 0.1, -0.3, 0.0])
    sigma, unit = own.gradient_noise(noisy), 2 / 1_000
    assert sigma[:2] == pytest.approx([0.100486, 0.0100486], abs=5e-7)
    assert sigma[2:] == pytest.approx([0.002, 0.002], rel=1e-12)
    costs = own.charge(noisy, sigma, unit)
    assert costs == pytest.approx([2.19807e-3, 0.021807, 0.502, 0.502], rel=1e-4)
    printed = PrintedAdaptiveNoisyGD(own.problem, Fraction(1), 0.05, 1.0)
    charges = printed.charge(noisy, sigma, unit)
    assert charges == pytest.approx([1.09903e-3, 0.0109035, 2.10039e-3, 0.501], rel=1e-4)


@pytest.mark.parametrize(
    ("size", "rho", "beta", "lipschitz", "d", "ell", "sigma", "floor", "start"),
    [(10_000, 0.1, 0.05, 1.0, 10, 11.054780, 0.017783, 6.32456e-4, 0.006650),
     (10_000, 0.5, 0.01, 2.0, 100, 13.468937, 0.023784, 5.65685e-4, 0.020761)],
)  # fmt: skip
def test_the_other_published_settings(
    size: int, rho: float, beta: float, lipschitz: float, d: int, ell: float, sigma: float,
    floor: float, start: float,
) -> None:  # fmt: skip
    problem = KLProblem(WorstCase(size=d, curvature=0.0), 0, size, lipschitz)
    own = AdaptiveNoisyGD(problem, Fraction(str(rho)), beta, 1.0)
    assert own.ell == pytest.approx(ell, abs=1e-6)
    assert own.norm_noise == pytest.approx(sigma, abs=1e-6)
    assert own.floor == pytest.approx(floor, rel=1e-5)
    assert own.floor * math.sqrt(d * own.ell) == pytest.approx(start, abs=2e-6)


@pytest.mark.parametrize("mode", MODES)
def test_a_run_stops_by_its_budget_and_gives_the_last_point(mode: str) -> None:
    own = program(mode=mode)
    records = Records(np.zeros((1_000, 1)))
    curator = Sampler(
        own.declaration(ZERO_OUT), ZERO_OUT, records, rng=np.random.default_rng(2), trials=5
    )
    walked = own.run(curator)
    assert (walked.rounds >= 2).all()
    assert np.isfinite(walked.output).all()
    last = [max(t for t, p in enumerate(walked.path) if np.isfinite(p[i]).all()) for i in range(5)]
    reached = np.stack([walked.path[t][i] for i, t in enumerate(last)])
    assert (walked.output == reached).all() == (mode != "filter")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rho": 0}, "rho"),
        ({"rho": -1}, "rho"),
        ({"rho": math.nan}, "rho"),
        ({"rho": 1e-6}, "expected above 4"),
        ({"beta": 0.0}, "beta"),
        ({"beta": 1.0}, "beta"),
        ({"smoothness": 0.0}, "smoothness"),
        ({"smoothness": math.inf}, "smoothness"),
        ({"mode": "other"}, "paper_corrected, filter, proof"),
    ],
)
def test_bad_parameters_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        program(**changes)


def test_caps_of_the_printed_readings() -> None:
    """Signed: 500 rounds at the floor; others 3 rho/2 + 2 sqrt(rho)/n, a quarter under zero_out."""
    problem = program().problem
    made = {r: PrintedAdaptiveNoisyGD(problem, Fraction(1), 0.05, 1.0, reading=r) for r in READINGS}

    def cap(reading: str, scope: Any) -> Any:
        return made[reading].declaration(scope).parameters["cap"]

    assert cap("signed", REPLACE_ONE) == 500 * (Fraction(2, 1000) + Fraction(1, 2))
    for reading in READINGS[1:]:
        assert cap(reading, REPLACE_ONE) == Fraction(3, 2) + Fraction(2, 1000)
        assert cap(reading, ZERO_OUT) == Fraction(3, 8) + Fraction(1, 2000)
    with pytest.raises(InvalidParameter, match="reading"):
        PrintedAdaptiveNoisyGD(problem, Fraction(1), 0.05, 1.0, reading="other")


@pytest.mark.parametrize("mode", ["paper_corrected", "proof"])
def test_the_corrected_rule_never_asks_for_more_than_its_cap(mode: str) -> None:
    """It stops by itself: every norm is followed by its gradient, and none passes rho."""
    own = AdaptiveNoisyGD(
        pulled(KLProblem(WorstCase(size=1, curvature=0.0), 0, 400, 1.0), 3, 0.05),
        Fraction(1),
        0.05,
        1.0,
        mode,
    )
    node = own.declaration(REPLACE_ONE)
    records, rng = Records(np.zeros((400, 1))), np.random.default_rng(4)
    curator = Sampler(node, REPLACE_ONE, records, rng=rng, trials=300)
    walked = own.run(curator)
    made = curator.entitlements.counts()
    assert made["norm"][1:] == made["gradient"][1:]
    assert len(walked.norms) == len(walked.path)
    assert len({int(r) for r in walked.rounds}) > 1, "trials stop apart"


@pytest.mark.parametrize("reading", READINGS)
def test_printed_readings_keep_to_the_cap_they_declare(reading: str) -> None:
    """No admission is ever refused: the printed rule stops by itself, below the declared cap."""
    problem = pulled(KLProblem(WorstCase(size=1, curvature=0.0), 0, 400, 1.0), 3, 0.05)
    own = PrintedAdaptiveNoisyGD(problem, Fraction(1), 0.05, 1.0, reading=reading)
    records = Records(np.zeros((400, 1)))
    node = own.declaration(REPLACE_ONE)
    curator = Sampler(node, REPLACE_ONE, records, rng=np.random.default_rng(4), trials=300)
    walked = own.run(curator)
    made = curator.entitlements.counts()
    assert made["norm"][1:] == made["gradient"][1:]
    assert walked.rounds.max() <= 200


def test_the_catalogue_s_problem_is_public() -> None:
    assert isinstance(adaptive_noisy_gd, Mechanism)
    assert LOGISTIC.initial(2).tolist() == [[0.0] * 10] * 2
