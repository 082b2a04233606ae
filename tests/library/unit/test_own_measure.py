"""A calculus of somebody else's, in one file: accounted, claimed, audited, certified, verified,
shown.

In a process of its own, since a registered measure stays registered.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = """
import json
from fractions import Fraction
from tests.support.total_variation import TotalVariation
import dpaudit as dp
from tests.support.work import SHARE, set_share
set_share(SHARE)
from dpaudit.accountant.filters import open_filter, read_filter

class Count:
    def declaration(self, scope):
        return dp.Repeat(dp.Laplace("count", noise_multiplier=4), 2)
    def run(self, curator):
        rows = dp.ClippedMean(lambda values: values[None], radius=1, divisor=1, norm="l1")
        return [curator.release("count", rows) for _ in range(2)]

scope = dp.central("add_remove")
declared = Count().declaration(scope)
account = dp.account(declared, scope)
claims = [dp.Claim(TotalVariation(Fraction(tau)), by="this test") for tau in ("1/4", "1/10")]
noisy = lambda data, rng, size: rng.laplace(sum(data), 1.0, size)
asked = [TotalVariation(Fraction(tau)) for tau in ("2/5", "1/4")]
audits = [
    dp.audit_function(noisy, [1, 1], [1, 0], claim=claim, trials=20_000, seed=1) for claim in asked
]
counted = dp.Mechanism("noisy_count", "A count", "nobody", Count(), scope, claims[:1])
made = dp.certify(counted, seed=1)
forged = json.loads(json.dumps(made.content))
step = forged["predicate"]["derivation"]["steps"][-1]["conclusion"]
step["value"] = "0.2"
from dpaudit.exact.wire import digest
forged["subject"][0]["digest"]["sha256"] = digest(forged["predicate"])
try:
    dp.verify(dp.Certificate(forged))
    refused = ""
except dp.DpauditError as error:
    refused = str(error)
spent = open_filter(TotalVariation(Fraction(1, 4)), scope)
for _ in range(2):
    spent = spent.spend(dp.Laplace("count", noise_multiplier=4))
spent = read_filter(json.loads(json.dumps(spent.to_json())))
print(json.dumps({
    "filter": [str(spent.method), spent.units, spent.admits("0.01"), spent.admits("0.02")],
    "shown": account.show("total_variation"),
    "routes": account.routes(),
    "checks": [str(claim.check(declared, scope).outcome) for claim in claims],
    "audits": [[str(audit.verdict), str(audit)] for audit in audits],
    "verdict": made.verdict,
    "conclusion": made.content["predicate"]["derivation"]["steps"][-1]["conclusion"],
    "verified": str(dp.verify(made)),
    "refused": refused,
    "page": "total variation" in made.page(),
}))
"""


@pytest.fixture(scope="module")
def outcome(checkout: Path) -> dict[str, Any]:
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, cwd=checkout
    )
    assert found.returncode == 0, found.stderr
    document: dict[str, Any] = json.loads(found.stdout)
    return document


@pytest.mark.quality
def test_it_is_shown_accounted_and_claimed(outcome: dict[str, Any]) -> None:
    assert "tau = 2 - 2*exp(-1/8) <= 0.235007" in outcome["shown"]
    assert outcome["routes"][-1] == "total_variation"
    assert outcome["checks"] == ["proved", "unproved"]


@pytest.mark.quality
def test_it_is_audited(outcome: dict[str, Any]) -> None:
    """The true distance is 1 - exp(-1/2) = .3935; each verdict errs at 1e-4 at most."""
    (held, _), (refuted, words) = outcome["audits"]
    assert (held, refuted) == ("inconclusive", "refuted")
    assert "tau >= 0.3" in words


def test_it_is_certified_verified_and_reported(outcome: dict[str, Any]) -> None:
    assert outcome["verdict"] == "certified under assumptions"
    assert outcome["conclusion"]["measure"] == "total_variation"
    assert outcome["conclusion"]["value"].startswith("0.23500")
    assert outcome["verified"].startswith("noisy_count: certified under assumptions; ")
    assert outcome["page"]


def test_budgets_are_kept_in_it(outcome: dict[str, Any]) -> None:
    """Two releases of 1 - exp(-1/8) = .1175 each leave .015 of 1/4."""
    assert outcome["filter"] == ["total_variation", ["tau"], True, False]


def test_a_conclusion_below_its_theorem_is_refused(outcome: dict[str, Any]) -> None:
    assert "0.2 is not its bound" in outcome["refused"]
