"""DP-SGD and DP-SRM: declaration, calibration, what they compute without noise, exact scores."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from audits.diff2 import opposed
from audits.diff2_baselines import worst_case
from dpaudit.accountant.claim import Claim, Outcome
from dpaudit.curator.curator import Sampler
from dpaudit.errors import InvalidParameter
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Repeat
from dpaudit.families.opaque import ApproxDP
from dpaudit.families.sampling import SampledWithoutReplacement
from dpaudit.kernels.query import Records
from dpaudit.scope import central
from mechanisms.papers.common.losses import LeastSquares
from mechanisms.papers.diff2.baselines import NOISE_MULTIPLIER, SGD, SRM, DpSrm, dp_sgd
from tests.support.kernels import NoNoise, replayer, sampled

SCOPE = central("replace_one")


def program(**changes: Any) -> DpSrm:
    given: dict[str, Any] = {
        "loss": LeastSquares(),
        "features": 2,
        "size": 12,
        "batch_size": 12,
        "rounds": 6,
        "gradient_radius": 1e6,
        "difference_radius": 1e6,
        "step_size": 0.05,
        "noise_multiplier": 1,
    }
    return DpSrm(**{**given, **changes})


def regression() -> Records:
    return Records(np.random.default_rng(0).uniform(-1, 1, size=(12, 3)))


def test_every_round_is_a_fresh_batch_with_constant_noise() -> None:
    expected = Repeat(SampledWithoutReplacement(Gaussian("gradient", 2), 3, 12), 6)
    assert program(batch_size=3, noise_multiplier=2).declaration(SCOPE) == expected
    assert program(momentum=0.3).declaration(SCOPE) == program().declaration(SCOPE)
    with pytest.raises(InvalidParameter, match="replace_one"):
        program().declaration(central("zero_out"))


@pytest.mark.quality
def test_the_catalogue_s_noise_is_the_least_that_is_proved() -> None:
    claim = Claim(ApproxDP(3, 1e-5), by="here")
    assert claim.check(dp_sgd.declaration, SCOPE).outcome is Outcome.PROVED
    less = replace(SGD, noise_multiplier=NOISE_MULTIPLIER * Fraction("0.999"))
    assert claim.check(less.declaration(SCOPE), SCOPE).outcome is not Outcome.PROVED
    assert SRM.declaration(SCOPE) == SGD.declaration(SCOPE)


@pytest.mark.parametrize("momentum", [1.0, 0.3])
def test_with_full_batches_and_no_noise_it_is_gradient_descent(momentum: float) -> None:
    """The recursive estimate telescopes to the exact gradient."""
    made, data = program(momentum=momentum), regression()
    curator = Sampler(
        made.declaration(SCOPE), SCOPE, data, rng=np.random.default_rng(0),
        kernels={Gaussian: NoNoise},
    )  # fmt: skip
    x = np.zeros((1, 2))
    for _ in range(6):
        x = x - 0.05 * LeastSquares().gradients(x, data.values).mean(axis=1)
    np.testing.assert_allclose(made.run(curator).last, x, atol=1e-12)


@pytest.mark.parametrize("momentum", [1.0, 0.5])
def test_scores_of_the_worst_case_are_exact_log_likelihood_ratios(momentum: float) -> None:
    """E_D[exp(-score)] = 1 within 5 standard errors (false alarms 1e-6); nothing moves too far."""
    made = worst_case(program(size=20, batch_size=5, momentum=momentum, gradient_radius=1.0,
                              difference_radius=1.0))  # fmt: skip
    pair = opposed((20,)).pair
    sampler = sampled(made, pair[0], SCOPE, seed=1, trials=2000)
    replay = replayer(made, pair, SCOPE).inspect(sampler.transcript, own=0)
    assert (replay.attack, replay.violations) == ("exact", ())
    ratios = np.exp(-replay.scores)
    assert abs(ratios.mean() - 1) < 5 * ratios.std() / 2000**0.5 < 0.2
    assert replay.scores.mean() > 0.1


@pytest.mark.parametrize(
    "change",
    [{"batch_size": 13}, {"batch_size": 0}, {"rounds": 0}, {"step_size": float("nan")},
     {"gradient_radius": 0.0}, {"momentum": 0.0}, {"momentum": 1.5}, {"noise_multiplier": 0}],
)  # fmt: skip
def test_bad_parameters_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        program(**change)
