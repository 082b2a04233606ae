"""Leaves and a combinator of somebody else's, without a theorem: certified as taken on trust.

In a process of its own, since a registered node type stays registered.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dpaudit.cli import terminal

PROGRAM = """
import json, sys
from fractions import Fraction
from pathlib import Path
import numpy as np
from tests.support.own_leaves import Cauchy, OwnStaircase, Twice
import dpaudit as dp
from dpaudit.kernels.base import kernel_of

class Release:
    def __init__(self, declared, uses):
        self.declared, self.uses = declared, uses
    def declaration(self, scope):
        return self.declared
    def run(self, curator):
        rows = dp.ClippedMean(lambda values: values[None, :, :1], radius=1, divisor=1, norm="l1")
        return [curator.release("count", rows) for _ in range(self.uses)]

scope = dp.central("add_remove")
found = {}
for name, declared, claim in (
    ("staircase", OwnStaircase("count", 1), dp.PureDP(1)),
    ("cauchy", Cauchy("count", 2), dp.ApproxDP(Fraction(1, 2), Fraction(1, 10**6))),
    ("repeated", dp.Compose(OwnStaircase("count", 1), dp.Laplace("other", 1)), dp.PureDP(2)),
):
    program = Release(declared, 1)
    if name == "repeated":
        class Both(Release):
            def run(self, curator):
                rows = dp.ClippedMean(lambda v: v[None, :, :1], radius=1, divisor=1, norm="l1")
                return curator.release("count", rows), curator.release("other", rows)
        program = Both(declared, 1)
    claims = [dp.Claim(claim, by="this test")]
    made = dp.certify(dp.Mechanism(name, "A count", "nobody", program, scope, claims), seed=1)
    made.save(Path(sys.argv[1]))
    found[name] = [made.verdict, "taken on trust" in made.page()]
rng, zero, one = np.random.default_rng(5), np.zeros((100_000, 1)), np.ones(100_000)
means = {}
for leaf in (OwnStaircase("count", 1), Cauchy("count", 2)):
    session = kernel_of(leaf)(leaf, len(one))
    drawn = session.sample(zero, one, rng)
    score = session.log_density(drawn, zero + 1, one) - session.log_density(drawn, zero, one)
    means[type(leaf).__name__] = [float(np.exp(score).mean()), float(np.abs(score).max())]
twice = Twice(OwnStaircase("count", 1))
print(json.dumps({
    "found": found,
    "means": means,
    "twice": [str(dp.account(twice, scope).step("pure").value), len(twice.children)],
}))
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("made")


@pytest.fixture(scope="module")
def outcome(checkout: Path, made: Path) -> dict[str, Any]:
    command = [sys.executable, "-c", PROGRAM, str(made)]
    found = subprocess.run(command, capture_output=True, text=True, check=False, cwd=checkout)
    assert found.returncode == 0, found.stderr
    document: dict[str, Any] = json.loads(found.stdout)
    return document


def verified(path: Path, checkout: Path) -> tuple[int, dict[str, Any]]:
    command = [sys.executable, "-m", "dpaudit", "verify", str(path), "--json"]
    found = subprocess.run(command, capture_output=True, text=True, check=False, cwd=checkout)
    (row,) = json.loads(found.stdout)
    return found.returncode, row


@pytest.mark.quality
@pytest.mark.parametrize(
    "name",
    ["cauchy", *(pytest.param(n, marks=pytest.mark.quality) for n in ("staircase", "repeated"))],
)
def test_its_step_is_taken_on_trust_in_those_words(
    name: str,
    outcome: dict[str, Any],
    made: Path,
    checkout: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """By the certificate, its page, the terminal, and a verifier that never saw the leaf's file."""
    assert outcome["found"][name] == ["unconfirmed", True]
    code, row = verified(made / f"{name}.json", checkout)
    assert (code, row["verified"], row["verdict"]) == (6, True, "unconfirmed")
    assert any("taken on trust, no theorem for" in line for line in row["on_trust"])
    terminal._caveats(json.loads((made / f"{name}.json").read_text("utf-8"))["predicate"])
    said = capsys.readouterr().out
    assert "is unconfirmed: the checker cannot confirm the bound, which is taken on trust" in said


@pytest.mark.quality
def test_a_shipped_node_cannot_be_taken_on_trust(
    outcome: dict[str, Any], made: Path, checkout: Path, tmp_path: Path
) -> None:
    """The bound of the Laplace noise beside it is derived, and a smaller one refused."""
    from dpaudit.exact.wire import digest

    certificate = json.loads((made / "repeated.json").read_text())
    rows = certificate["predicate"]["derivation"]["steps"]
    laplace = next(row for row in rows if row["node_text"].startswith("Laplace"))
    laplace["conclusion"]["epsilon"] = "0.5"
    laplace["witness"] = {"value": "1/2"}
    certificate["subject"][0]["digest"]["sha256"] = digest(certificate["predicate"])
    (tmp_path / "forged.json").write_text(json.dumps(certificate))
    code, row = verified(tmp_path / "forged.json", checkout)
    assert (code, row["verified"]) == (12, False)


def test_kernels_have_the_densities_they_sample(outcome: dict[str, Any]) -> None:
    """E[exp(score)] = 1, to five standard errors (6e-7), and no loss above epsilon at scale 1."""
    for name, epsilon in (("OwnStaircase", 1.0), ("Cauchy", 0.9625)):
        mean, largest = outcome["means"][name]
        assert abs(mean - 1) < 0.02
        assert largest <= epsilon + 1e-9


def test_a_child_annotated_by_its_module_is_a_child(outcome: dict[str, Any]) -> None:
    assert outcome["twice"] == ["2", 1]
