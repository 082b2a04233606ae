"""A project's own pair, in one file: accounted, attacked, certified, and derived again.

In processes of their own, since a registered node type stays registered.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import mpmath
import pytest

ROUNDS, SCALE = 2, 2
PROGRAM = f"""
import json
from fractions import Fraction
from pathlib import Path
from tests.support import own_pair
import dpaudit as dp
from dpaudit.check import check
from dpaudit.check.profile import conversions
from dpaudit.errors import CertificateRejected

scope = dp.central("add_remove")
single = dp.account(own_pair.CauchyNoise("count", {SCALE}), scope).epsilon("1/100")
sampled = dp.PoissonSampled(own_pair.CauchyNoise("count", {SCALE}), "1/10")
rounds = dp.account(dp.Repeat(sampled, 20), scope).epsilon("1/1000")
claim = dp.Claim(dp.ApproxDP(1, "1/1000"), by="this test")
program = own_pair.program({SCALE}, {ROUNDS})
mechanism = dp.Mechanism("own", "A count", "nobody", program, scope, [claim])
made = dp.certify(mechanism, seed=1, trials=500)
made.save(Path("FOLDER"))
certificate = json.loads(next(Path("FOLDER").glob("*.json")).read_text())
confirmed = check(certificate)
right = own_pair.CauchyShift.delta
own_pair.CauchyShift.delta = lambda pair, x, of=None: right(pair, x) * 2
conversions._values.cache_clear(), conversions._below.cache_clear()
try:
    twice = check(certificate).unconfirmed
except CertificateRejected as refused:
    twice = str(refused)
print(json.dumps({{
    "single": [float(single.lower), float(single.upper)],
    "rounds": [float(rounds.lower), float(rounds.upper)],
    "verdict": made.verdict,
    "unconfirmed": confirmed.unconfirmed,
    "attacked": any(audit["trials"] for audit in certificate["predicate"]["audits"]),
    "epsilon": [float(row[1]) for row in confirmed.epsilons],
    "twice": twice,
}}))
"""


@pytest.fixture(scope="module")
def outcome(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    program = PROGRAM.replace("FOLDER", str(tmp_path_factory.mktemp("made")))
    command = [sys.executable, "-c", program]
    found = subprocess.run(command, capture_output=True, text=True, check=False, cwd=checkout)
    assert found.returncode == 0, found.stderr
    document: dict[str, Any] = json.loads(found.stdout.splitlines()[-1])
    return document


def excess(epsilon: float) -> Any:
    """delta of one round, by an integral over what is released."""

    def gained(y: Any) -> Any:
        p, q = (SCALE / mpmath.pi / (SCALE**2 + (y - m) ** 2) for m in (1, 0))
        return max(p - mpmath.exp(epsilon) * q, 0)

    return mpmath.quad(gained, [-mpmath.inf, 0, 0.5, 2, 5, 20, 100, mpmath.inf])


@pytest.mark.quality
def test_it_is_accounted_as_an_integral_says(outcome: dict[str, Any]) -> None:
    low, high = outcome["single"]
    assert excess(low * 0.999) >= 0.01 >= excess(high * 1.001)
    assert high - low < 1e-5


@pytest.mark.quality
def test_its_sampled_rounds_compose(outcome: dict[str, Any]) -> None:
    """No more than 20 rounds of the largest loss, ln(1 + (e^0.495 - 1) / 10), reach."""
    low, high = outcome["rounds"]
    assert 0 < low <= high < 20 * 0.063
    assert high - low < 1e-4


@pytest.mark.quality
def test_it_is_attacked_and_certified(outcome: dict[str, Any]) -> None:
    assert outcome["verdict"] == "certified under assumptions"
    assert outcome["attacked"]


@pytest.mark.quality
def test_the_checker_derives_both_ends_from_its_delta_alone(outcome: dict[str, Any]) -> None:
    assert outcome["unconfirmed"] == []
    assert outcome["epsilon"][0] < 1


@pytest.mark.quality
def test_with_twice_that_delta_its_epsilon_does_not_follow(outcome: dict[str, Any]) -> None:
    assert "epsilon does not follow" in outcome["twice"]
