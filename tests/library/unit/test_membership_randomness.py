"""Noise that models share voids a bound; noise from anywhere else than the generator does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpaudit.families.opaque import PureDP
from dpaudit.membership import FunctionTarget, Study
from dpaudit.membership.randomness import PAIRS, power, shared_p_value
from tests.support import shared_noise
from tests.support.membership import looked_up, numbered, remembering


def names(fit: Any, jobs: int = 1) -> list[str]:
    target = FunctionTarget(fit, looked_up)
    found = Study(target, numbered(40), 6, seed=1).run(claim=PureDP(0.1), attacks="loss", jobs=jobs)
    assert (found.bound is None) == any(each.voids for each in found.findings)
    return [each.name for each in found.findings if each.name != "models to refusal"]


SHARED, SAME = "noise that models share", "the same noise in every model"
ELSEWHERE = "randomness from elsewhere than the generator"


@pytest.mark.quality
@pytest.mark.parametrize(
    ("fit", "said"),
    [
        (remembering, []),
        (shared_noise.of_the_import, [SHARED]),
    ],
)
def test_noise_of_an_import_voids_the_bound(fit: Any, said: list[str]) -> None:
    assert names(fit) == said


@pytest.mark.quality  # up to four processes each
@pytest.mark.parametrize(
    ("fit", "said"),
    [
        (shared_noise.secure, [ELSEWHERE]),
        (shared_noise.jittered, []),
        (shared_noise.of_the_import_alone, [SHARED]),
        (shared_noise.half_of_the_import, [SHARED]),
        (shared_noise.of_a_seeded_module, ["the same noise in every run"]),
        (shared_noise.of_one_seed, [SAME]),
    ],
)
def test_only_noise_that_models_share_voids_the_bound(fit: Any, said: list[str]) -> None:
    assert names(fit) == said


@pytest.mark.quality
def test_copies_of_a_generator_in_workers_are_shared_noise() -> None:
    elsewhere = np.random.default_rng()
    assert names(lambda records: remembering(records, elsewhere), jobs=2) == [SHARED]
    assert names(lambda records: remembering(records, elsewhere)) == []


def test_models_without_shared_noise_are_rarely_taken_to_share_it() -> None:
    """400 tests at 1 in 105: 14 or more have probability below 1e-4."""
    rng = np.random.default_rng(0)
    alarms = 0
    for _ in range(400):
        rows = rng.standard_t(3, size=(PAIRS, 2, 5))
        alarms += shared_p_value([(pair[0], pair[1]) for pair in rows]) <= 1 / 105 + 1e-9
    assert alarms <= 13


def test_power_grows_with_the_share_and_the_dimensions() -> None:
    assert power(5, 0.0) < 0.05
    assert power(50, 0.5) > 0.95
    assert power(2, 0.99) > 0.5


def test_a_training_that_no_other_process_can_repeat_is_named_as_untested(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: Any) -> Any:
        raise ImportError("not here")

    monkeypatch.setattr("dpaudit.membership.randomness.fresh_pair", broken)
    assert names(remembering) == ["shared noise is not tested"]


def test_without_fresh_processes_noise_of_an_import_goes_unnoticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The check is what finds it: with the training repeated in this process nothing is said."""
    monkeypatch.setattr(
        "dpaudit.membership.randomness.fresh_pair",
        lambda train, streams: (train(streams[0]), train(streams[1])),
    )
    assert names(shared_noise.of_the_import) == []
