"""Streams: copies among batches are refused, and chance is not taken for a copy."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from dpaudit.audit import streams
from dpaudit.audit.engine import Batch, generator, plan, run_batches
from dpaudit.audit.streams import Streams
from dpaudit.errors import InvalidParameter
from dpaudit.storage.batches import Arrays, AuditStore

RNG = np.random.default_rng(5)
CONTINUOUS = RNG.normal(size=5_000)


def collide(*batches: Any) -> None:
    """Take batches of one array each, under keys (0,), (1,), ..."""
    seen = Streams(len(batches))
    for index, array in enumerate(batches):
        seen.add((index,), {"draws": np.asarray(array)})


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (CONTINUOUS, CONTINUOUS.copy()),
        (CONTINUOUS, CONTINUOUS[:100]),
        (CONTINUOUS[:20], CONTINUOUS[:20]),
        (CONTINUOUS.reshape(-1, 5), CONTINUOUS.reshape(-1, 5)),
        (CONTINUOUS > 0, CONTINUOUS > 0),
        (CONTINUOUS > 2, (CONTINUOUS > 2)[:4100]),
        (np.round(CONTINUOUS).astype(int), np.round(CONTINUOUS).astype(int)),
        (np.where(CONTINUOUS > 0, CONTINUOUS, np.nan),) * 2,
        (np.arange(50), np.arange(50)),
    ],
)
def test_copies_are_refused(first: Any, second: Any) -> None:
    with pytest.raises(InvalidParameter, match=r"^batches \(0,\) and \(1,\): the same draws"):
        collide(first, second)


@pytest.mark.parametrize(
    "batches",
    [
        [np.zeros(10_000)] * 5,
        [np.full(10_000, np.nan)] * 5,
        [np.full((10_000, 3), "declared")] * 5,
        [np.empty((10_000, 0))] * 5,
        [CONTINUOUS[:5]] * 2,
        [np.eye(1, 10_000, 5_000)[0]] * 2,
        [np.eye(1, 10_000, 3)[0]] * 2,
        [CONTINUOUS[:1]] * 3,
        [CONTINUOUS[:2_500], CONTINUOUS[2_500:]],
    ],
)
def test_what_may_coincide_by_chance_is_not(batches: list[Any]) -> None:
    collide(*batches)


def test_only_arrays_of_the_same_name_are_compared() -> None:
    seen = Streams(2)
    seen.add((0,), {"a": CONTINUOUS})
    seen.add((1,), {"b": CONTINUOUS})
    seen.add((0,), {"a": CONTINUOUS})


@pytest.mark.parametrize("p", [0.03, 0.2, 0.5, 0.9])
@pytest.mark.parametrize("trials", [4, 7])
def test_false_alarms_by_enumeration(
    p: float, trials: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not sampled: all pairs of batches of bits; the chance of an alarm is within its limit."""
    limit = 0.05
    monkeypatch.setattr(streams, "FALSE_ALARM", limit)
    alarms, flagged = 0.0, 0
    for bits in itertools.product((0, 1), repeat=trials):
        law = math.prod(p if bit else 1 - p for bit in bits)
        try:
            collide(bits, bits)
        except InvalidParameter:
            alarms += law**2
            flagged += 1
    assert alarms <= limit
    assert flagged > 0 or trials < 7, "an alarm can occur"


def test_independent_streams_of_the_engine_pass() -> None:
    seen = Streams(200)
    for index in range(200):
        rng = generator(1, (index,))
        seen.add((index,), {"x": rng.random(100) < 0.5, "y": rng.normal(size=100)})


def test_a_mechanism_with_a_seed_of_its_own_is_refused(tmp_path: Any) -> None:
    """At the second batch, whichever side it is of; a resumed run refuses as well."""
    store = AuditStore(tmp_path, "audit")

    def seeded(batch: Batch, rng: np.random.Generator) -> Arrays:
        return {"scores": np.random.default_rng(0).laplace(size=batch.trials)}

    batches = [*plan(0, 0, 0, 100, 100), *plan(0, 1, 0, 100, 100)]
    for _ in range(2):
        with pytest.raises(InvalidParameter, match=r"\(0, 0, 0, 0\) and \(0, 1, 0, 0\)"):
            run_batches(seeded, batches, root_seed=1, store=store)
    assert store.keys() == ((0, 0, 0, 0),)


def test_fingerprints_are_quick() -> None:
    """A batch of a million trials: only prefixes are read."""
    import time

    draws, seen = {"x": RNG.normal(size=10**6)}, Streams(2)
    start = time.process_time()
    seen.add((0,), draws)
    assert time.process_time() - start < 0.1
