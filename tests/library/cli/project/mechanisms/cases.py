"""One mechanism for each exit code, a slow one, and one whose code fails on its data."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpaudit.accountant.claim import Claim
from dpaudit.curator.curator import Curator
from dpaudit.curator.mechanism import Mechanism, Setting
from dpaudit.families.additive import Gaussian
from dpaudit.families.opaque import GDP, ZCDP, ApproxDP, PureDP
from dpaudit.kernels.query import Array, ClippedMean, Records
from dpaudit.nodes import Node
from dpaudit.scope import Scope

SCOPE = Scope("replace_one", "record", "central", "transcript")
SETTING = Setting("a test", "row", "one row", ("one noisy mean",))
SECRET = 0.31415926


@dataclass(frozen=True)
class Mean:
    """One noisy mean; a run waits, for each trial."""

    node: Node = Gaussian("mean", 2)
    seconds: float = 0.0

    def declaration(self, scope: Scope) -> Node:
        return self.node

    def run(self, curator: Curator) -> Array:
        time.sleep(self.seconds * curator.trials)
        return curator.release("mean", ClippedMean(rows, radius=1.0))


@dataclass(frozen=True)
class Failing(Mean):
    """Fails on its data, and quotes it."""

    def run(self, curator: Curator) -> Array:
        raise ValueError(f"a bad row: {SECRET}")


def rows(values: Array) -> Array:
    return np.asarray(values)[None]


def records() -> Records:
    return Records(np.array([[SECRET], [0.25]]))


def case(
    name: str, program: Any, *claims: Node, loads: Any = None, expected: Any = ()
) -> Mechanism:
    stated = tuple(Claim(claim, by="a test") for claim in claims)
    title = f"Case [{name}] of the tests"
    return Mechanism(
        name, title, "a test", program, SCOPE, stated, SETTING, records=loads, expected=expected
    )


OPAQUE = Mean(PureDP(1, source="somebody"))

held = case("held", Mean(), GDP(0.5), ApproxDP(2, 1e-5), loads=records)
refuted = case("refuted", Mean(), GDP(0.4), expected=["refuted"])
inconclusive = case("inconclusive", OPAQUE, ZCDP(0.1), expected=["unproved"])
unsupported = case("unsupported", Mean(), PureDP(50), expected=["unsupported"])
slack = case("slack", Mean(), ApproxDP(9, 1e-5))
slow = case("slow", Mean(seconds=4e-5), GDP(0.5))
failing = case("failing", Failing(), GDP(0.5), loads=records)
