"""Records of several keys, of which one that is alone makes several own cells."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.audit.examine import examination, examine, search
from dpaudit.families.tabular import ThresholdedDiscreteLaplace
from dpaudit.kernels.query import Array, Norm, Records
from tests.support.examined import mechanism

TOWNS = np.array([2_120.0, 4_350.0, 7_077.0])
Hook = Callable[[np.random.Generator], Records]


@dataclass(frozen=True)
class Keys:
    """How many entries of all records each of some keys has; a record moves two counts by 1."""

    own: int
    keys: str
    norm: Norm = "l1"

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return ThresholdedDiscreteLaplace("keys", 4, 40, sensitivity=2, own=self.own, largest=2)

    def run(self, curator: dp.Curator) -> Array:
        return curator.release("keys", self)

    def sensitivity(self, adjacency: dp.Adjacency, size: int) -> Array:
        return np.array(2.0)

    def value(self, records: Records, chosen: Any = None) -> Array:
        rows = records.values[records.present].reshape(-1, 2)
        names = {"whole": np.arange(1, 10.0), "named": TOWNS, "secret": np.array(secret())}
        cells = rows[:, :, None] == names[self.keys]
        return np.asarray(cells.sum(axis=(0, 1)), dtype=float)[None]


def secret() -> list[float]:
    """Keys that no code names."""
    return [float(10 * ord(letter)) for letter in "QRSTUVWX"]


def drawn(keys: Any, *shape: int) -> Hook:
    return lambda rng: Records(rng.choice(keys, (8, *shape)))


KINDS = (("whole", np.arange(1, 10.0)), ("named", TOWNS), ("secret", np.array(secret())))


def broken(own: int, kind: str, keys: Any, *shape: int) -> bool:
    made = mechanism("keys", Keys(own, kind), "add_remove")
    found = examine(replace(made, records_like=drawn(keys, *shape or (2,))), seed=1, seconds=20)
    assert not found.not_examined
    return bool(found.broken)


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize(("kind", "keys"), KINDS)
def test_a_record_with_two_keys_of_its_own_is_met(
    kind: str, keys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert broken(1, kind, keys)
    # Of a user's items too.
    assert broken(1, kind, keys, 2, 1)
    # A record has at most two entries, so that two own keys, as declared, are right.
    assert not broken(2, kind, keys)
    kept = examination.rows_of

    def without(*given: Any) -> Any:
        names = ("from one", "in turn", "another row's")
        return {k: row for k, row in kept(*given).items() if not k.endswith(names)}

    monkeypatch.setattr(examination, "rows_of", without)
    # Rows that meet what keys are compared with do too, and data sets that the hook draws afresh.
    monkeypatch.setattr(examination, "aimed", lambda *given: {})
    monkeypatch.setattr(search, "DRAWN_SETS", 0)
    monkeypatch.setattr(search.Search, "run", lambda *given: None)
    assert not broken(1, kind, keys)


def test_a_finding_names_the_programs_own_function() -> None:
    made = mechanism("keys", Keys(1, "whole"), "add_remove")
    hook = drawn(np.arange(1, 10.0), 2)
    (told,) = (
        f.detail for f in examine(replace(made, records_like=hook), seed=1, first=True).broken
    )
    assert re.search(
        r"; computed by Keys\.value, tests/library/unit/test_examine_keys\.py:\d+ \(", told
    )
