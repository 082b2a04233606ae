"""Adaptive noisy gradient descent: published numbers, rounds, caps of readings, refusals."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from audits.kl import turned_round, zeroed_out
from audits.kl_adaptive import pulled
from dpaudit.curator.curator import Sampler
from dpaudit.curator.mechanism import Mechanism
from dpaudit.errors import InvalidParameter
from dpaudit.families.additive import Gaussian
from dpaudit.families.additive.kernel import GaussianKernel
from dpaudit.kernels.base import Generator
from dpaudit.kernels.query import Array, Records
from dpaudit.scope import central
from mechanisms.papers.common.losses import WorstCase
from mechanisms.papers.kl.adaptive import MODES, AdaptiveNoisyGD, GradientNormAtStart
from mechanisms.papers.kl.adaptive_catalogue import adaptive_noisy_gd
from mechanisms.papers.kl.adaptive_printed import READINGS, PrintedAdaptiveNoisyGD
from mechanisms.papers.kl.entries import LOGISTIC
from mechanisms.papers.kl.problem import KLProblem
from tests.support.claims import value

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


@pytest.mark.parametrize(
    ("size", "rho", "beta", "lipschitz", "d", "printed", "true", "rounds"),
    [(1_000, "1", 0.05, 1.0, 10, 1e-3, 2e-3, 501),
     (10_000, "0.1", 0.05, 1.0, 10, 3.16228e-5, 6.32456e-5, 1582),
     (10_000, "0.5", 0.01, 2.0, 100, 7.07107e-5, 1.41421e-4, 3536)],
)  # fmt: skip
def test_published_charges_of_a_norm_and_rounds(
    size: int, rho: str, beta: float, lipschitz: float, d: int, printed: float, true: float,
    rounds: int,
) -> None:  # fmt: skip
    """V11 to V13: a norm's charge, printed and true, where the gradient is next to free."""
    problem = KLProblem(WorstCase(size=d, curvature=0.0), 0, size, lipschitz)
    own = AdaptiveNoisyGD(problem, Fraction(rho), beta, 1.0)
    free, unit = np.array([1e9]), 2 * lipschitz / size
    sigma = own.gradient_noise(free)
    assert own.charge(free, sigma, unit) == pytest.approx([true], rel=4e-6)
    listing = PrintedAdaptiveNoisyGD(problem, Fraction(rho), beta, 1.0)
    assert listing.charge(free, sigma, unit) == pytest.approx([printed], rel=4e-6)
    assert own.rounds_upper == rounds
    at_start = GradientNormAtStart(problem, Fraction(rho)).declaration(REPLACE_ONE)
    assert float(value(at_start, "zcdp")) == pytest.approx(true, rel=4e-6)


def spending(
    reading: str, setting: tuple[int, int, str], trials: int, pull: float = 0.0, **options: Any
) -> Any:
    """What runs truly spend on gradients over rho, and in all; silent norms without a pull."""
    size, d, adjacency = setting
    problem = pulled(KLProblem(WorstCase(size=1, curvature=0.0), 0, size, 1.0), d, pull)
    own = PrintedAdaptiveNoisyGD(problem, Fraction(1), 0.05, 1.0, reading=reading, **options)
    pair, scope = PAIRS[adjacency](size), central(adjacency)
    node, rng = own.declaration(scope), np.random.default_rng(11)
    walked = own.run(Sampler(node, scope, pair.first, rng=rng, trials=trials))
    unit, total, whole = PAIRS_MOVE[adjacency] / size, np.zeros(trials), np.zeros(trials)
    for t, noisy in enumerate(walked.norms):
        released = t < len(walked.path) and np.isfinite(walked.path[t]).all(axis=-1)
        total += np.where(released, unit**2 / (2 * own.gradient_noise(noisy) ** 2), 0.0)
        whole += np.where(np.isfinite(noisy), unit**2 / (2 * own.norm_noise**2), 0.0)
    cap = own.declaration(scope).parameters["cap"]
    assert (total + whole).max() <= float(cap) * (1 + 1e-9)
    return total, total + whole


PAIRS = {"replace_one": turned_round, "zero_out": zeroed_out}
PAIRS_MOVE = {"replace_one": 2.0, "zero_out": 1.0}


@pytest.mark.parametrize(
    ("setting", "mean", "share"),
    [((1_000, 1, "replace_one"), 1.92, 0.74), ((10_000, 10, "replace_one"), 1.82, 0.71),
     ((10_000, 1, "zero_out"), 1.15, 0.50)],
)  # fmt: skip
def test_the_signed_norm_overspends_as_published(
    setting: tuple[int, int, str], mean: float, share: float
) -> None:
    """Mean of R / rho and P(R > rho), 4,000 runs; six standard errors (false alarm 1e-8)."""
    spent, _ = spending("signed", setting, 4_000)
    assert abs(spent.mean() - mean) <= 6 * spent.std() / math.sqrt(4_000) + 0.005
    assert abs((spent > 1 + 1e-9).mean() - share) <= 6 * 0.5 / math.sqrt(4_000) + 0.005


@pytest.mark.first_case
@pytest.mark.parametrize("reading", READINGS[1:])
def test_other_readings_do_not_overspend_so(reading: str) -> None:
    """At most 3 rho/2 + 2 sqrt(rho)/n, and rho + 2 sqrt(rho)/n with the last gradient hidden."""
    setting = 1_000, 2 if reading == "vector" else 1, "replace_one"
    _, whole = spending(reading, setting, 4_000)
    assert 1 < whole.max() <= 1.5 + 0.002
    _, hidden = spending(reading, setting, 4_000, last="hidden")
    assert hidden.max() <= 1 + 0.002


def test_an_aligned_base_makes_half_charges_overshoot_as_published() -> None:
    """C5: n = 1000, d = 20,000, base .931 L0 along the canary: mean true spend 1.356 rho.

    Rounds charged rho/4 at most fit twice under rho/2, and a third one starts; 60 runs, six
    standard errors (false alarm 1e-8).
    """
    _, whole = spending("clipped", (1_000, 20_000, "replace_one"), 60, 0.931 * 1_000 / 999)
    assert abs(whole.mean() - 1.356) <= 6 * whole.std() / math.sqrt(60) + 0.005
    assert 1.3 < whole.max() <= 1.502


class Streams:
    """Kernels that draw each trial's noise from a generator of its own."""

    def __init__(self, seeds: Sequence[int]) -> None:
        own = [np.random.default_rng(seed) for seed in seeds]

        class Apart(GaussianKernel):
            def sample(self, values: Array, scale: Array, rng: Generator) -> Array:
                drawn = np.stack([one.standard_normal(values.shape[1]) for one in own])
                return np.asarray(values + scale[:, None] * drawn)

        self.kernels = {Gaussian: Apart}


@pytest.mark.first_case
@pytest.mark.parametrize("mode", MODES)
def test_masked_trials_are_what_each_is_alone(mode: str) -> None:
    """Twelve trials side by side and one after another, on the same noise: the same runs."""
    own, records = program(mode=mode), Records(np.eye(1_000)[:, :1])
    node = own.declaration(REPLACE_ONE)

    def walked(seeds: Sequence[int]) -> Any:
        rng, kernels = np.random.default_rng(0), Streams(seeds).kernels
        trials = len(seeds)
        return own.run(Sampler(node, REPLACE_ONE, records, rng=rng, trials=trials, kernels=kernels))

    together, alone = walked(range(12)), [walked([seed]) for seed in range(12)]
    assert len(set(together.rounds)) > 1, "trials stop apart"
    assert together.rounds.tolist() == [one.rounds[0] for one in alone]
    assert together.output == pytest.approx(np.concatenate([one.output for one in alone]))


@pytest.mark.quality
def test_masks_are_twenty_times_as_fast_as_a_loop_over_trials() -> None:
    """Trials a second in one process, the better of three; measured: over 100 times."""
    own, records = program(mode="filter"), Records(np.eye(1_000)[:, :1])
    node = own.declaration(REPLACE_ONE)

    def seconds(trials: int) -> float:
        start = time.perf_counter()
        rng = np.random.default_rng(1)
        own.run(Sampler(node, REPLACE_ONE, records, rng=rng, trials=trials))
        return time.perf_counter() - start

    seconds(1)
    ratios = [1_000 * seconds(1) / seconds(1_000) for _ in range(3)]
    assert max(ratios) >= 20


def test_a_vector_s_norm_is_released_with_noise_on_every_coordinate() -> None:
    problem = pulled(KLProblem(WorstCase(size=1, curvature=0.0), 0, 400, 1.0), 3, 0.05)
    own = PrintedAdaptiveNoisyGD(problem, Fraction(1), 0.05, 1.0, reading="vector")
    node, records = own.declaration(REPLACE_ONE), Records(np.zeros((400, 1)))
    curator = Sampler(node, REPLACE_ONE, records, rng=np.random.default_rng(1), trials=20)
    walked = own.run(curator)
    first = curator.transcript[0]
    assert (first.label, first.released.shape) == ("norm", (20, 3))
    assert walked.norms[0] == pytest.approx(np.linalg.norm(first.released, axis=1))


def test_a_hidden_last_gradient_is_not_released() -> None:
    """Every trial releases one gradient fewer than norms, and ends where it would have been."""
    problem = pulled(KLProblem(WorstCase(size=1, curvature=0.0), 0, 400, 1.0), 3, 0.05)
    own = PrintedAdaptiveNoisyGD(problem, Fraction(1), 0.05, 1.0, reading="clipped", last="hidden")
    node, records = own.declaration(REPLACE_ONE), Records(np.zeros((400, 1)))
    curator = Sampler(node, REPLACE_ONE, records, rng=np.random.default_rng(1), trials=50)
    walked = own.run(curator)
    steps = sum(np.isfinite(p).all(axis=-1).astype(int) for p in walked.path)
    assert (steps == walked.rounds - 1).all()
    assert steps.max() > 0
    with pytest.raises(InvalidParameter, match="hidden where norms are not negative"):
        PrintedAdaptiveNoisyGD(problem, Fraction(1), 0.05, 1.0, last="hidden")


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
