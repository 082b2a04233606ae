"""Text: a causal model of tokens, canaries of tokens, and the exposure of a secret."""

from __future__ import annotations

import pydoc_data.topics
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpaudit.audit.verdict import Verdict
from dpaudit.errors import InvalidParameter
from dpaudit.families.opaque import ApproxDP
from dpaudit.membership import Data, audit_training
from dpaudit.membership.text import (
    TokenTraining,
    new_token_canaries,
    secret_exposure,
    token_windows,
)

TEXT = " ".join(pydoc_data.topics.topics[name] for name in sorted(pydoc_data.topics.topics))
WORDS = 60
LINES = token_windows(TEXT, 6, WORDS).take(np.arange(120))
ZERO = np.zeros((2, WORDS, WORDS))
DIGITS = 10  # tokens beyond the words that secrets are made of


def secrets(count: int) -> Data:
    """Records "word word d d d d" of all different digits d, (count, 6)."""
    rng = np.random.default_rng(4)
    drawn = rng.choice(DIGITS**4, count, replace=False)
    digits = drawn[:, None] // DIGITS ** np.arange(4) % DIGITS
    return Data(np.column_stack([np.full((count, 2), 7), WORDS + digits]))


def test_a_gradient_is_that_of_the_log_likelihood_and_clipped_to_one() -> None:
    training, rng = TokenTraining(WORDS), np.random.default_rng(0)
    weights = 0.3 * rng.normal(size=(2, WORDS, WORDS))
    direction, step = rng.normal(size=weights.shape), 1e-6
    record = LINES.take(np.array([3]))
    slope = [training.score(weights + sign * step * direction, record)[0] for sign in (1, -1)]
    gradient = training._gradient(weights, record.features)
    expected = float((gradient * direction).sum())
    assert (slope[1] - slope[0]) / (2 * step) == pytest.approx(expected, rel=1e-5)
    clipped = TokenTraining(WORDS, noise_multiplier=1.0)._gradient(weights, record.features)
    assert np.linalg.norm(gradient) > 1
    assert np.linalg.norm(clipped) == pytest.approx(1)


def exposure_after(noise_multiplier: float | None) -> float:
    """Bits of a secret that is in the text once, among 1,024 candidates."""
    candidates = secrets(1_024)
    records = Data(np.concatenate([LINES.features, candidates.features[:1]]))
    training = TokenTraining(WORDS + DIGITS, steps=10, noise_multiplier=noise_multiplier)
    model = training.fit(records, np.random.default_rng(1))
    return secret_exposure(training.score(model, candidates))


def test_a_secret_is_exposed_by_plain_training_and_hardly_by_a_private_one() -> None:
    """Exposure of a secret that training has not seen is above 7 bits in 1 of 128 seeds."""
    assert exposure_after(None) == 10
    assert exposure_after(5.0) < 7


def test_exposure_counts_ties_against_the_secret() -> None:
    assert secret_exposure([3.0, 1.0, 2.0, 0.0]) == 2
    assert secret_exposure([1.0, 1.0, 1.0, 1.0]) == 0
    assert secret_exposure([0.0, 1.0, 2.0, 3.0], 3) == 2


def test_canaries_end_in_a_token_of_their_own() -> None:
    made = new_token_canaries(LINES, 5, WORDS, np.random.default_rng(2))
    assert made.features[:, -1].tolist() == [60, 61, 62, 63, 64]


def unclipped(records: Data, rng: np.random.Generator) -> Any:
    return TokenTraining(WORDS, steps=5).fit(records, rng)


def likelihood(model: Any, records: Data) -> Any:
    return TokenTraining(WORDS).score(model, records)


@pytest.mark.quality
def test_a_plain_token_model_is_refuted_by_default() -> None:
    """Canaries of mixed tokens stay in the vocabulary; others break this training, and are left."""
    found = audit_training((unclipped, likelihood), LINES, claim=ApproxDP(4, "1e-5"), seed=1)
    assert found.verdict is Verdict.REFUTED, str(found)
    assert "mixed" in found.findings[0].words


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: token_windows("two words", 3, 9), "2 words"),
        (lambda: TokenTraining(5).fit(LINES, np.random.default_rng(0)), "outside 0 to 4"),
        (
            lambda: TokenTraining(WORDS).score(ZERO, Data(np.zeros((3, 4)))),
            "expected token numbers",
        ),
        (lambda: TokenTraining(WORDS, context=6).score(ZERO, LINES), "more than 6"),
        (lambda: secret_exposure([1.0, np.nan]), "finite"),
        (lambda: secret_exposure([1.0], 1), "place = 1"),
        (lambda: new_token_canaries(LINES, 0, 9, np.random.default_rng(0)), "count = 0"),
    ],
    ids=["short", "vocabulary", "floats", "context", "nan", "place", "count"],
)
def test_bad_input_is_refused(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(InvalidParameter, match=said):
        call()
