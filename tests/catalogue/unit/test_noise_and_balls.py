"""Noise beside the ball, found by runs on zeros, for programs of the catalogue."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dpaudit.compare import Method
from dpaudit.curator.mechanism import Mechanism
from dpaudit.curator.rehearsal import _moved, rehearse
from dpaudit.kernels.query import Records
from dpaudit.scope import Adjacency
from mechanisms.papers.kl.baselines_catalogue import private_spider
from mechanisms.papers.srgd.compare import COMPARISON

RADIUS = 0.5
ZEROS = Records(np.zeros((400, 6)))
PROJECTING = [m for m in COMPARISON.methods if "radius" in {p.name for p in m.free}]


def made(mechanism: Mechanism, **values: Any) -> Mechanism:
    hook: Any = mechanism.for_shape
    private = mechanism.scope.adjacency is Adjacency.ADD_REMOVE
    return hook(None if private else len(ZEROS), (6,), **values)


@pytest.mark.first_case
@pytest.mark.long_cases("dp_sgd_poisson", "phased_sgd", "localized_accelerated_dp_sgd")
@pytest.mark.parametrize("method", PROJECTING, ids=lambda m: m.mechanism.name)
def test_the_set_that_models_stay_in_is_as_far_across_as_its_radius_says(method: Method) -> None:
    values = {**method.fixed(len(ZEROS), 5), "radius": RADIUS}
    length, across = _moved(made(method.mechanism, **values), ZEROS, method.model)
    assert across == pytest.approx(2 * RADIUS, rel=0.02)
    assert 0 < length < math.inf


def test_the_length_of_a_sum_of_gaussian_steps_is_the_root_of_the_sum_of_their_variances() -> None:
    """Full batches: T steps of size h add h s sqrt(d T) of noise, s the scale of a release."""
    (method,) = (m for m in PROJECTING if m.name == COMPARISON.full_batch)
    mechanism = made(method.mechanism, rounds=100, step_size=0.25, radius=RADIUS)
    program: Any = mechanism.program
    scale = float(program.noise_multiplier) * program.problem.clip / len(ZEROS)
    expected = 0.25 * scale * math.sqrt(5 * 100)
    assert _moved(mechanism, ZEROS, method.model)[0] == pytest.approx(expected, rel=0.5)
    for radius, number in ((expected / 10, 1), (10 * expected, 0)):
        other = made(method.mechanism, rounds=100, step_size=0.25, radius=radius)
        assert len([s for s in rehearse(other, ZEROS) if "exceeds the ball" in s]) == number


def test_steps_of_one_length_say_nothing_of_their_noise() -> None:
    assert not [s for s in rehearse(made(private_spider), ZEROS) if "ball" in s]
