"""Baselines of stable releases: output perturbation, localisation, noisy gradients."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpaudit.errors import InvalidParameter
from dpaudit.families.additive import Gaussian
from dpaudit.kernels.query import Records
from dpaudit.nodes import postorder
from dpaudit.scope import central
from mechanisms.papers.stable_erm.baselines import (
    ItemPhasedERM,
    MinimiserQuery,
    NoisyGradientDescent,
    OutputPerturbation,
)
from mechanisms.papers.stable_erm.calibration import (
    USERS,
)
from mechanisms.papers.stable_erm.domains import Ball
from mechanisms.papers.stable_erm.problem import (
    Problem,
)
from mechanisms.papers.stable_erm.solver import Minimiser, RidgeLogistic
from tests.support.stable import ABSOLUTE, run, users

# --- baselines ------------------------------------------------------------------------------------

LOGISTIC = Problem(RidgeLogistic(0.5, 1.0, 1e-9), Ball(1.0), 40, 5, 3, 1.0)


def test_output_perturbation_is_the_minimiser_and_noise() -> None:
    program = OutputPerturbation(LOGISTIC, Fraction(1, 10**6))
    data = users(40, 5, 3)
    released = run(program, data, 3)
    best = Minimiser(LOGISTIC.loss, LOGISTIC.domain).at(data, np.ones((1, 40), dtype=bool))[:, 0]
    assert released == pytest.approx(np.repeat(best, 3, axis=0), abs=1e-6)


def test_a_minimiser_moves_by_no_more_than_it_states() -> None:
    query = MinimiserQuery(Minimiser(LOGISTIC.loss, LOGISTIC.domain))
    bound = float(query.sensitivity(USERS.adjacency, 40))
    assert bound == pytest.approx(2 / (0.5 * 40) + 2e-9)
    data, largest = users(40, 5, 3), 0.0
    for seed in range(5):
        other = data.copy()
        other[seed] = 1e3 * users(1, 5, 3, seed + 1)[0]
        moved = query.value(Records(data)) - query.value(Records(other))
        largest = max(largest, float(np.linalg.norm(moved)))
    assert 0 < largest <= bound


def test_localisation_and_gradients_run_at_either_level() -> None:
    item = central("replace_one")
    data = users(40, 5, 3)
    for program, rows, scope in (
        (ItemPhasedERM(LOGISTIC, 1, 3, 0.1), data, USERS),
        (NoisyGradientDescent(LOGISTIC, 5, 4, 0.5, 1.0), data, USERS),
        (
            NoisyGradientDescent(replace(LOGISTIC, users=200, items=1), 5, 4, 0.5, 1.0),
            data.reshape(200, 1, 3),
            item,
        ),
    ):
        output = run(program, rows, 6, scope)
        assert output.shape == (6, 2)
        assert np.linalg.norm(output, axis=1).max() <= 1 + 1e-9
        leaves = [n for n in postorder(program.declaration(scope)) if isinstance(n, Gaussian)]
        assert leaves


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: OutputPerturbation(ABSOLUTE, 1), "use RidgeLogistic"),
        (lambda: OutputPerturbation(LOGISTIC, 0), "noise_multiplier"),
        (lambda: ItemPhasedERM(LOGISTIC, 1, 9, 1.0), "count = 9"),
        (lambda: NoisyGradientDescent(LOGISTIC, 1, 0, 1.0, 1.0), "rounds = 0"),
        (lambda: NoisyGradientDescent(LOGISTIC, 1, 2, math.nan, 1.0), "step_size = nan"),
        (lambda: OutputPerturbation(LOGISTIC, 1).declaration(USERS.under("zero_out")), "zero_out"),
    ],
)
def test_baselines_refuse(make: Any, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        make()
