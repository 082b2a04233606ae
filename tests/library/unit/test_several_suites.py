"""Several suites of one mechanism: each is an audit of its own, and decides."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array
from tests.support.examined import mechanism


class Mean:
    """A clipped mean with noise of four sensitivities; ``scale`` is of its rows."""

    def __init__(self, scale: float = 1.0) -> None:
        self.scale = scale

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Gaussian("mean", noise_multiplier=4)

    def run(self, curator: dp.Curator) -> Array:
        rows = dp.ClippedMean(lambda values: self.scale * values[None, :, :1], 1.0, divisor=20)
        return curator.release("mean", rows)


OWN = Mean()
CASE = replace(mechanism("several", OWN), claims=(dp.Claim(dp.GDP(1), by="a test"),))


def pair(row: float) -> dp.Neighbours:
    one, two = (np.zeros((20, 2)) for _ in range(2))
    one[0, 0], two[0, 0] = row, -row
    return dp.Neighbours(dp.Records(one), dp.Records(two), "replace_one", f"a row of {row} or less")


def suite(row: float, program: Any = OWN, **more: Any) -> dp.Suite:
    return dp.Suite("several", program, pair(row), trials=400, **more)


@pytest.mark.quality
def test_each_is_an_audit_of_its_own() -> None:
    further = (suite(1.0), suite(2.0, Mean(3.0)), suite(3.0, Mean(0.5)))
    certificate = dp.certify(CASE, suite(0.1, also=further), seed=1)
    rows = certificate.content["predicate"]["audits"]
    assert [row["id"] for row in rows if row["id"].endswith("lens")] == [
        "lens",
        "found:2:lens",
        "stand_in:lens",
        "stand_in:2:lens",
        "found:lens",
    ]
    assert [row["about"] for row in rows].count("stand_in") == 2
    bounds = {row["id"]: float(row["lower_bounds"][0]["mu"]) for row in rows}
    # The weak pair is printed as the program's; the further one shows more, and stands beside.
    assert bounds["lens"] < bounds["found:2:lens"] <= 0.25
    assert dp.verify(certificate).verdict == certificate.verdict == "certified under assumptions"
    caveats = certificate.content["predicate"]["caveats"]
    assert sum("stand-in" in text for text in caveats) == 2


@pytest.mark.quality
def test_a_further_one_decides_too() -> None:
    tight = replace(CASE, claims=(dp.Claim(dp.GDP("0.1"), by="a test"),))
    further = replace(suite(1.0), trials=60_000)
    certificate = dp.certify(tight, suite(1e-3, also=(further,)), seed=1)
    assert certificate.verdict == "refuted"
    assert dp.verify(certificate).verdict == "refuted"


def test_only_suites_of_the_same_mechanism_go_together() -> None:
    with pytest.raises(InvalidParameter, match="expected further suites of 'several'"):
        suite(1.0, also=(replace(suite(1.0), mechanism="another"),))
