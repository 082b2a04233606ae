"""Rotated vectors in a ball of whole numbers, and a modulus that wraps."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.linalg import hadamard

import dpaudit as dp
from audits.training.secure_mean import PAIR
from dpaudit.accountant.claim import Outcome
from dpaudit.audit import likelihood
from dpaudit.families.distributed.rotated import (
    RotatedTotals,
    rotated,
    rounded_squares,
    unrotated,
)
from mechanisms.training.secure_mean import (
    CLIENTS,
    DIMENSION,
    GRAIN,
    MODULUS,
    SQUARES,
    SecureMean,
    secure_mean,
)

RNG = np.random.default_rng(6)


def totals(trials: int = 1, tries: int = 3, **changes: Any) -> RotatedTotals:
    given = {
        "per_record": lambda values: values[None],
        "radius": 1.0,
        "grain": GRAIN,
        "signs": RNG.choice([-1.0, 1.0], (trials, DIMENSION)),
        "dither": RNG.random((trials, tries, CLIENTS, DIMENSION)),
        "squares": SQUARES,
    }
    return RotatedTotals(**{**given, **changes})


@pytest.mark.parametrize("d", [1, 2, 8, 64])
def test_the_rotation_is_that_of_the_matrix_and_is_taken_back(d: int) -> None:
    rows, signs = RNG.normal(size=(5, d)), RNG.choice([-1.0, 1.0], d)
    wanted = rows @ np.diag(signs) @ hadamard(d) / math.sqrt(d)
    np.testing.assert_allclose(rotated(rows, signs), wanted, atol=1e-12)
    np.testing.assert_allclose(unrotated(wanted, signs), rows, atol=1e-12)


@pytest.mark.quality
def test_a_rounding_is_in_its_ball_has_the_vector_for_mean_and_is_rarely_drawn_again() -> None:
    """The bound on a first try holds for all of 40 directions; 6 standard errors: below 1e-6."""
    query, trials = totals(), 20_000
    for _ in range(40):
        x = RNG.normal(size=DIMENSION)
        x *= 8 / np.linalg.norm(x)
        first = np.floor(x + RNG.random((trials, DIMENSION)))
        missed = ((first**2).sum(axis=1) > SQUARES).mean()
        assert missed <= 0.6065 + 6 / math.sqrt(trials)
        dither = RNG.random((trials, 3, 1, DIMENSION))
        kept = totals(trials, dither=dither).rounded(np.broadcast_to(x, (trials, 1, DIMENSION)))
        assert ((kept**2).sum(axis=-1) <= SQUARES).all()
        assert np.abs(first.mean(axis=0) - x).max() < 6 * 0.5 / math.sqrt(trials)
    assert query.rounded(np.zeros((1, CLIENTS, DIMENSION))).max() == 0
    # Where every try is outside, towards 0: 7.9 four times, tried as 8 and more, is 7.
    outside = totals(squares=4 * 49, dither=np.full((1, 3, CLIENTS, DIMENSION), 0.5), radius=0.1)
    assert outside.rounded(np.full((1, CLIENTS, DIMENSION), 7.9)).tolist() == [
        [[7.0] * DIMENSION] * CLIENTS
    ]


@pytest.mark.parametrize("adjacency", ["zero_out", "replace_one"])
def test_a_client_moves_the_sum_by_no_more_than_is_said_whatever_the_coins(adjacency: str) -> None:
    """4,000 pairs of data sets, coins of their own; and that more than the plain norm is needed."""
    trials, largest = 4_000, 0.0
    query = totals(trials)
    said = float(query.sensitivity(dp.Adjacency(adjacency), CLIENTS))
    rows = RNG.normal(size=(CLIENTS, 3))
    for _ in range(8):
        one, other = rows.copy(), rows.copy()
        one[3] = RNG.normal(size=3) * 10
        other[3] = -one[3]
        present = np.arange(CLIENTS) != 3
        away = dp.Records(other) if adjacency == "replace_one" else dp.Records(one, present)
        moved = query.value(dp.Records(one)) - query.value(away)
        largest = max(largest, float(np.linalg.norm(moved, axis=1).max()))
    assert largest <= said * (1 + 1e-12)
    plain = 8.0 if adjacency == "zero_out" else 16.0
    assert largest > plain


def released(modulus: int, trials: int = 2_000) -> np.ndarray:
    program = SecureMean(modulus)
    sampler = dp.Sampler(
        program.declaration(secure_mean.scope),
        secure_mean.scope,
        PAIR.first,
        rng=np.random.default_rng(4),
        trials=trials,
    )
    return np.asarray(program.run(sampler))


def test_sums_wrap_and_are_right_where_they_do_not() -> None:
    """The same coins and noise without a modulus: most trials agree, and many do not."""
    wrapped, whole = released(MODULUS), released(0)
    same = np.abs(wrapped - whole).max(axis=1) < 1e-9
    assert 0.05 < same.mean() < 0.9
    mean = np.asarray(PAIR.first.values)
    mean = (mean / np.maximum(np.linalg.norm(mean, axis=1, keepdims=True), 1)).mean(axis=0)
    error = 6 * np.sqrt(720) * GRAIN / CLIENTS / math.sqrt(len(whole))
    assert np.abs(whole.mean(axis=0) - mean).max() < error + 0.01
    assert np.abs(wrapped.mean(axis=0) - mean).max() > 10 * error


def test_the_claim_needs_the_clip_after_rounding() -> None:
    """With the squares that no rounding exceeds, 100, the noise is too little for the claim."""
    (claim,) = secure_mean.claims
    for squares, outcome in ((SQUARES, Outcome.PROVED), (100, Outcome.UNPROVED)):
        node = dp.DistributedGaussianVector("total", 70, CLIENTS, 2, squares, MODULUS)
        assert claim.check_account(dp.account(node, secure_mean.scope)).outcome is outcome
    assert rounded_squares(1, GRAIN, DIMENSION, 0.6065) == SQUARES
    assert rounded_squares(1, GRAIN, DIMENSION, 1e-9) == 100


def test_what_is_refused() -> None:
    for changes, words in (
        ({"signs": np.ones((1, 3))}, "2^k of them"),
        ({"signs": np.full((1, 4), 0.5)}, "1 or -1"),
        ({"dither": np.ones((1, 3, CLIENTS, 4))}, "from 0 up to 1"),
        ({"grain": 0.0}, "positive radius and grain"),
        ({"squares": 63}, "rounding towards 0 may exceed"),
    ):
        with pytest.raises(dp.InvalidParameter, match=words.replace("^", r"\^")):
            totals(**changes)
    with pytest.raises(dp.InvalidParameter, match="12"):
        totals().value(dp.Records(np.zeros((5, 3))))
    with pytest.raises(dp.InvalidParameter, match="signs for 4"):
        totals().value(dp.Records(np.zeros((CLIENTS, 5))))
    with pytest.raises(dp.InvalidParameter, match="no batches"):
        totals().value(dp.Records(np.zeros((CLIENTS, 3))), np.ones((1, CLIENTS), dtype=bool))
    with pytest.raises(dp.InvalidParameter, match="zero_out or replace_one"):
        totals().sensitivity(dp.Adjacency.ADD_REMOVE, CLIENTS)
    with pytest.raises(dp.InvalidParameter, match="beta below 1"):
        rounded_squares(1, GRAIN, 4, 1)


def test_mu_of_noise_modulo_a_number_is_sought_where_losses_are_common(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its losses are bounded: no run is as loud as Gaussian noise is at delta = 1e-6."""

    def shown() -> float:
        found = likelihood.likelihood_audit(
            secure_mean.program, secure_mean.declaration, secure_mean.scope, PAIR,
            secure_mean.claims, seed=2, runs=1_000, shown_error=0.05, decisive_error=4e-5,
        )  # fmt: skip
        (bound,) = found.bounds
        return bound.shown

    assert 0.21 < shown() < 0.3253
    monkeypatch.setattr(likelihood, "MU_DELTAS", likelihood.MU_DELTAS[:1])
    assert shown() < 0.21
