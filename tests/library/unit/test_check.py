"""Honest certificates of every kind verify, without the accountant; nonsense is refused."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import time
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import sympy

from dpaudit.certificate.certificate import save
from dpaudit.check import check
from dpaudit.errors import CertificateRejected
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Assuming, Compose, Parallel, Repeat
from dpaudit.families.opaque import GDP, ZCDP, ApproxDP, NonPrivate, PureDP
from dpaudit.families.sampling import PoissonSampled, SampledWithoutReplacement
from dpaudit.nodes import Assumption
from tests.library.cli import bench
from tests.library.cli.bench import TINY, Change, accept, certified, held, mechanism, rejected

K = sympy.Symbol("k", integer=True, positive=True)


# --- honest certificates -------------------------------------------------------------------------

SOMEBODY = {"source": "Somebody 2020, Theorem 1"}
KINDS: dict[str, tuple[Any, tuple[Any, ...], str]] = {
    "laplace": (
        Laplace("a", 3),
        (PureDP(Fraction(1, 3)), ApproxDP(Fraction(1, 3), TINY), ZCDP(1), GDP(1), PureDP(0.25)),
        "replace_one",
    ),
    "pure leaf": (
        PureDP(1, **SOMEBODY),
        (PureDP(1), ApproxDP(1, Fraction(1, 20190)), ZCDP(0.5), GDP(2), ZCDP(0.1)),
        "zero_out",
    ),
    "nothing released": (PureDP(0, **SOMEBODY), (PureDP(0), ApproxDP(0, 0), GDP(0)), "zero_out"),
    "zcdp leaf": (
        ZCDP(0.5, **SOMEBODY),
        (ZCDP(0.5), ApproxDP(5, Fraction(1, 3)), GDP(1), ApproxDP(3, 0)),
        "replace_one",
    ),
    "gdp leaf": (
        GDP(sympy.sqrt(2), **SOMEBODY),
        (GDP(sympy.sqrt(2)), GDP(1.4143), GDP(1.4142), ApproxDP(9, Fraction(1, 20190)), ZCDP(1)),
        "add_remove",
    ),
    "approx leaf": (
        ApproxDP(1, 1e-6, **SOMEBODY),
        (ApproxDP(1, 1e-6), ApproxDP(1, 1e-5), ApproxDP(1, 1e-7), GDP(1)),
        "replace_one",
    ),
    "parallel": (
        Parallel(Gaussian("a", 1), Gaussian("b", 2), Laplace("c", 1)),
        (GDP(1), GDP(2), ZCDP(0.5), ApproxDP(9, 1e-5)),
        "replace_one",
    ),
    "two partitions": (
        Compose(*(Parallel(Gaussian(f"{i}a", 1), Gaussian(f"{i}b", 2)) for i in (1, 2))),
        (GDP(2), GDP(1), ApproxDP(1, 1e-5)),
        "replace_one",
    ),
    "repeat with index": (
        Repeat(Gaussian("a", K + 1), 10, K),
        (GDP(1), ApproxDP(3, Fraction(1, 20190)), ZCDP(0.5), GDP(0.5)),
        "replace_one",
    ),
    "repeat never": (Repeat(Gaussian("a", 1), 0), (GDP(0), ApproxDP(0, 0.1), ZCDP(0)), "zero_out"),
    "renyi route": (
        Compose(Laplace("a", 5), ZCDP(0.1, **SOMEBODY), Gaussian("g", 4)),
        (ZCDP(1), ApproxDP(3, 1e-6), ApproxDP(0.1, 1e-6)),
        "replace_one",
    ),
    "not private": (
        Compose(Gaussian("g", 1), NonPrivate("scaled by the largest row")),
        (GDP(1), ApproxDP(1, 1e-5), ZCDP(1)),
        "replace_one",
    ),
    "poisson": (
        PoissonSampled(Laplace("a", 1), 0.1),
        (PureDP(0.17), ApproxDP(0.17, 1e-6), PureDP(0.1), GDP(1)),
        "add_remove",
    ),
    "without replacement": (
        SampledWithoutReplacement(Laplace("a", 1), 5, 50),
        (PureDP(0.17),),
        "replace_one",
    ),
    "no rule": (
        SampledWithoutReplacement(Gaussian("g", 1), 5, 50),
        (ApproxDP(1, 1e-5), PureDP(1)),
        "add_remove",
    ),
    "poisson, normal": (
        PoissonSampled(Gaussian("g", 1), 0.1),
        (ApproxDP(3, 1e-5), ApproxDP(1, 1e-5), PureDP(1)),
        "add_remove",
    ),
    "tiny delta": (
        Gaussian("g", 2),
        (ApproxDP(30, Fraction(1, 10**200)), ApproxDP(0.01, 0.9), GDP(0.5)),
        "replace_one",
    ),
    "weak": (Gaussian("g", 10**6), (GDP(0.001),), "replace_one"),
    "strong": (Gaussian("g", 0.05), (GDP(20), ApproxDP(10**3, 1e-5)), "replace_one"),
    "irrational": (
        Gaussian("g", sympy.sqrt(3)),
        (GDP(1 / sympy.sqrt(3)), ApproxDP(3, sympy.sqrt(2) / 10**5), ZCDP(Fraction(1, 6))),
        "replace_one",
    ),
}


@cache
def made(kind: str) -> dict[str, Any]:
    node, claims, adjacency = KINDS[kind]
    return certified(mechanism("case", node, *claims, adjacency=adjacency)).certificate


LONG = pytest.param("renyi route", marks=pytest.mark.quality)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "renyi route"] + [LONG])
def test_an_honest_certificate_verifies(kind: str) -> None:
    report = accept(made(kind))
    assert f"{len(KINDS[kind][1])} claims and the verdict" in report.confirmed
    assert "declared_noise (declared)" in report.on_trust


@pytest.mark.quality
def test_claims_at_every_kind_of_delta_verify_with_audits() -> None:
    """1/n, a third and a root are printed rounded up."""
    deltas = (1e-5, Fraction(1, 20190), Fraction(1, 3), sympy.sqrt(2) / 10**5)
    claims = [ApproxDP(number, delta) for number in (3, 4) for delta in deltas]
    case = mechanism("case", Gaussian("a", 2), *claims, GDP(2), ZCDP(2), labels=("a",))
    certificate = certified(case, bench.suite(case)).certificate
    assert "10 lower bounds, from their counts" in accept(certificate).confirmed
    audits = [row["lower"]["audit"] for row in certificate["predicate"]["claims"]]
    assert audits[:4] == audits[4:8]
    assert len(set(audits[:4])) == 4


EXPECTED = {
    "laplace": ["proved", "proved", "proved", "proved", "refuted"],
    "zcdp leaf": ["proved", "proved", "unsupported", "unproved"],
    "two partitions": ["proved", "unproved", "refuted"],
    "repeat with index": ["proved", "proved", "proved", "refuted"],
    "not private": ["unproved", "refuted", "unproved"],  # by its Gaussian alone
    "poisson": ["proved", "proved", "unproved", "unsupported"],
    "no rule": ["unsupported", "unsupported"],
    "poisson, normal": ["proved", "refuted", "unsupported"],
}


@pytest.mark.parametrize("kind", EXPECTED)
def test_the_checks_are_those_expected(kind: str) -> None:
    assert [row["check"] for row in made(kind)["predicate"]["claims"]] == EXPECTED[kind]


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        ("enforced", "certified_under_assumptions"),
        ("tested", "certified_under_assumptions"),
        ("declared", "certified_under_assumptions"),
        ("violated", "inconclusive"),
    ],
)
def test_an_assumption_of_each_status_verifies(status: str, verdict: str) -> None:
    node = Assuming(Gaussian("g", 2), Assumption("weights", "the weights are public", status))  # type: ignore[arg-type]
    certificate = certified(mechanism("case", node, GDP(0.5), labels=("g",))).certificate
    listed = status if status == "violated" else "declared"
    assert f"weights ({listed})" in accept(certificate).on_trust
    assert certificate["predicate"]["verdict"]["status"] == verdict


@pytest.mark.parametrize("name", ["held", "refuted", "caught", "pure"])
def test_the_certificates_that_are_forged_below_verify(name: str) -> None:
    accept(getattr(bench, name)())


def test_it_says_what_it_takes_on_trust() -> None:
    report = accept(held())
    assert {"weights (declared)", "declared_noise (tested)"} <= set(report.on_trust)
    assert any("counts" in line and "seed" in line for line in report.on_trust)
    signers_word = {
        field for row in report.unchecked if "signer" in row.why for field in row.fields
    }
    assert {"scope", "mechanism title", "claims reading", "caveats"} <= signers_word


def test_verification_is_fast() -> None:
    started = time.process_time()
    accept(held())
    assert time.process_time() - started < 2


# --- a stranger's file ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda p: [row["witness"].clear() for row in p["derivation"]["steps"]],
        lambda p: p["derivation"]["steps"][0].update(rule="nonsense", calculus="nonsense"),
        lambda p: p["derivation"]["steps"][0]["conclusion"].update(mu="1e999999999999"),
        lambda p: p["derivation"]["steps"][0]["conclusion"].update(mu="9" * 5000),
        lambda p: p["mechanism"].update(declaration={"root": "x", "nodes": {"x": {}}}),
        lambda p: p["mechanism"].update(declaration={}),
        lambda p: p["claims"][0].update(exact=["Pow", "10/1", "99999999/1"]),
        lambda p: p["claims"][0].update(exact=[["Symbol"]]),
        lambda p: p["claims"][0].update(step=99),
        lambda p: p["audits"][0]["witness"].clear(),
        lambda p: p["audits"][0].update(lower_bounds=[]),
        lambda p: p["audits"][0].update(lower_bounds=[{"measure": "pure_dp", "epsilon": "1"}]),
        lambda p: p["audits"][0]["counts"].update(trials_null=0),
        lambda p: p["in_plain_words"].update(posterior=[["1", "1"]]),
        lambda p: p["derivation"]["upper_bounds"][-1].update(curve=[["0", "0"], ["2", "0"]]),
    ],
)
def test_nonsense_is_rejected_in_one_line_and_quickly(change: Change) -> None:
    started = time.process_time()
    message = rejected(held(), change)
    assert "\n" not in message
    assert time.process_time() - started < 2


@pytest.mark.quality
def test_the_checker_runs_without_the_accountant(tmp_path: Path) -> None:
    path = tmp_path / "held.json"
    save(held(), path)
    program = (
        "import json, sys\n"
        "from dpaudit.check import check\n"
        f"check(json.load(open({str(path)!r})))\n"
        "print(*sorted(n for n in sys.modules if n.startswith('dpaudit')))"
    )
    child = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = set(child.stdout.split())
    rooms = {".".join(name.split(".")[:2]) for name in loaded}
    names = "check errors exact families nodes pairs scope storage version".split()
    assert rooms == {"dpaudit", *(f"dpaudit.{name}" for name in names)}
    assert not [name for name in loaded if name.endswith(("rules", "kernel"))]


def test_the_digest_of_the_predicate_is_checked_first() -> None:
    changed = copy.deepcopy(held())
    changed["predicate"]["issued"] = "2000-01-01T00:00:00Z"
    with pytest.raises(CertificateRejected, match="the certificate was changed"):
        check(changed)
    assert json.dumps(held()) != json.dumps(changed)


def test_files_of_the_implementation_are_subjects() -> None:
    changed = json.loads(json.dumps(held()))
    changed["subject"][1]["digest"]["sha256"] = "1" * 64
    with pytest.raises(CertificateRejected, match="subjects"):
        check(changed)
