"""The checker: honest certificates of every kind verify, and no forgery does.

A forger is given everything: the digests are made again after each change.
"""

from __future__ import annotations

import copy
import functools
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import sympy

from dpaudit.certificate import save
from dpaudit.check import bounds, check
from dpaudit.errors import CertificateRejected
from dpaudit.kernels import GaussianKernel
from dpaudit.nodes import (
    GDP,
    ZCDP,
    ApproxDP,
    Assuming,
    Assumption,
    Compose,
    Gaussian,
    Laplace,
    NonPrivate,
    Parallel,
    PoissonSampled,
    PureDP,
    Repeat,
    SampledWithoutReplacement,
)
from dpaudit.publish import verify_file
from tests.cli.bench import Json, accept, certified, forged, mechanism, suite

TINY = Fraction(1, 10**5)
K = sympy.Symbol("k", integer=True, positive=True)
WEIGHTS = Assumption("weights", "the weights are public", "declared", "by contract")  # type: ignore[arg-type]
Change = Callable[[Json], object]


class NoNoise(GaussianKernel):
    """Adds nothing."""

    def sample(self, values: Any, scale: Any, rng: Any) -> Any:
        return values.copy()


@pytest.fixture(scope="module", autouse=True)
def remembered() -> Iterator[None]:
    """Binomial tails are computed once: a forgery changes one number, and the rest repeats."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds, "_tail", functools.cache(bounds._tail))
        yield


def certificate_of(*arguments: Any, attacked: bool = True, **changes: Any) -> Json:
    labels = changes.pop("labels", ())
    of = mechanism(*arguments, labels=labels)
    return certified(of, suite(of, **changes) if attacked else None).certificate


@pytest.fixture(scope="session")
def held() -> Json:
    """Certified under assumptions; not attained, because of what it assumes; attacked."""
    node = Compose(
        Gaussian("first", 2), Repeat(Gaussian("second", 3), 2), Assuming(Gaussian("third", 4), WEIGHTS)
    )
    claims = (ApproxDP(4, TINY), GDP(Fraction(3, 4)), ZCDP(Fraction(1, 2)))
    return certificate_of("held", node, *claims, labels=("first", "second", "second", "third"))


@pytest.fixture(scope="session")
def refuted() -> Json:
    """Claims below an attained bound: the accountant refutes them."""
    claims = (GDP(Fraction(2, 5)), ApproxDP(Fraction(3, 2), TINY), ZCDP(Fraction(1, 10)))
    return certificate_of("refuted", Gaussian("first", 2), *claims, attacked=False)


@pytest.fixture(scope="session")
def caught() -> Json:
    """No noise where some is declared: the attack refutes every claim."""
    claims = (GDP(Fraction(1, 2)), ApproxDP(2, TINY), ZCDP(Fraction(1, 8)))
    kernels = {Gaussian: NoNoise}
    return certificate_of("caught", Gaussian("first", 2), *claims, labels=("first",), kernels=kernels)


@pytest.fixture(scope="session")
def pure() -> Json:
    """Laplace noise, with a raw bound at delta = 0."""
    claims = (PureDP(Fraction(1, 3)), ApproxDP(Fraction(1, 3), TINY))
    return certificate_of("pure", Laplace("laplace", 3), *claims, labels=("laplace",))


def rejected(certificate: Json, change: Change) -> str:
    with pytest.raises(CertificateRejected) as caught:
        accept(forged(certificate, change))
    return str(caught.value)


# --- honest certificates ---------------------------------------------------------------------------

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
        PoissonSampled(Gaussian("g", 1), 0.1),
        (ApproxDP(1, 1e-5), PureDP(1)),
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


@pytest.mark.parametrize("kind", KINDS)
def test_an_honest_certificate_verifies(kind: str) -> None:
    node, claims, adjacency = KINDS[kind]
    certificate = certified(mechanism("case", node, *claims, adjacency=adjacency)).certificate
    report = accept(certificate)
    assert f"{len(claims)} claims and the verdict" in report.confirmed
    assert "declared_noise (declared)" in report.on_trust


EXPECTED = {
    "laplace": ["proved", "proved", "proved", "proved", "refuted"],
    "zcdp leaf": ["proved", "proved", "unsupported", "unproved"],
    "two partitions": ["proved", "unproved", "unproved"],
    "repeat with index": ["proved", "proved", "proved", "refuted"],
    "not private": ["unproved", "unproved", "unproved"],
    "poisson": ["proved", "proved", "unproved", "unsupported"],
    "no rule": ["unsupported", "unsupported"],
}


@pytest.mark.parametrize("kind", EXPECTED)
def test_the_checks_are_those_expected(kind: str) -> None:
    node, claims, adjacency = KINDS[kind]
    certificate = certified(mechanism("case", node, *claims, adjacency=adjacency)).certificate
    assert [row["check"] for row in certificate["predicate"]["claims"]] == EXPECTED[kind]


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
    certificate = certified(mechanism("case", node, GDP(0.5))).certificate
    assert f"weights ({status})" in accept(certificate).on_trust
    assert certificate["predicate"]["verdict"]["status"] == verdict


@pytest.mark.parametrize("name", ["held", "refuted", "caught", "pure"])
def test_the_certificates_that_are_forged_below_verify(
    name: str, request: pytest.FixtureRequest
) -> None:
    accept(request.getfixturevalue(name))


def test_it_says_what_it_takes_on_trust(held: Json) -> None:
    report = accept(held)
    assert {"weights (declared)", "declared_noise (tested)"} <= set(report.on_trust)
    assert any("counts" in line and "seed" in line for line in report.on_trust)
    assert any("scope" in line and "words" in line for line in report.on_trust)


def test_verification_is_fast(held: Json) -> None:
    started = time.process_time()
    accept(held)
    assert time.process_time() - started < 2


# --- every value, changed ------------------------------------------------------------------------------

# What no certificate can show of itself; `dpaudit verify` says so ("on trust").
ON_TRUST = {
    "issued", "scope", "run", "environment", "reproduce/command", "verdict/reasons",
    "mechanism/name", "mechanism/title", "mechanism/source", "mechanism/program", "mechanism/root",
    "mechanism/implementation", "derivation/accountant",
    "claims/*/id", "claims/*/by", "claims/*/source", "claims/*/reading", "claims/*/reason",
    "derivation/steps/*/cite",
    "audits/*/threat_model", "audits/*/attack", "audits/*/neighbours", "audits/*/neighbours_text",
    "audits/*/training_trials", "audits/*/threshold", "audits/*/estimator",
    "conformance/*/id", "conformance/*/check", "conformance/*/detail",
    # Statistics with an error rate: a replay shows them; those without are held to their status.
    "conformance/*/statistic", "conformance/*/status", "conformance/*/error_rate",
}  # fmt: skip
STEP = 9  # of the many points of a curve, every ninth is forged

Path_ = tuple[str | int, ...]


def leaves(value: Any, path: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    elif value is not None:
        yield path, value
    for key, inside in items:
        yield from leaves(inside, (*path, key))


def pattern(path: Path_) -> str:
    return "/".join("*" if isinstance(part, int) else part for part in path)


def protected(predicate: Json) -> list[tuple[Path_, Any]]:
    found = []
    for path, value in leaves(predicate):
        shape = pattern(path)
        point = ("curve" in path or "roc" in path) and path[-2] % STEP  # type: ignore[operator]
        if not point and not any(f"{shape}/".startswith(f"{known}/") for known in ON_TRUST):
            found.append((path, value))
    return found


def neighbours(value: Any) -> list[Any]:
    """Other values of the same kind, as near as may be."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, max(value - 1, 0) if value else 2]
    digits = [i for i, letter in enumerate(value) if letter.isdigit()]
    if not digits:
        return [value + "x" if value else "x"]
    changed = []
    for place in (digits[len(digits) // 3], digits[min(5, len(digits) - 1)]):
        for shift in (1, 9):
            digit = str((int(value[place]) + shift) % 10)
            changed.append(value[:place] + digit + value[place + 1 :])
    return [text for text in dict.fromkeys(changed) if text != value]


@pytest.mark.parametrize("name", ["held", "pure"])
def test_no_value_can_be_changed(name: str, request: pytest.FixtureRequest) -> None:
    """Every leaf that is not listed as trusted, to neighbouring values, with new digests."""
    certificate = request.getfixturevalue(name)
    accepted, tried = [], 0
    for path, value in protected(certificate["predicate"]):
        *above, last = path
        for other in neighbours(value):
            tried += 1

            def change(predicate: Any, above: Any = above, last: Any = last, new: Any = other) -> None:
                functools.reduce(lambda at, key: at[key], above, predicate)[last] = new

            try:
                accept(forged(certificate, change))
            except CertificateRejected:
                continue
            accepted.append((*path, value, other))
    assert accepted == []
    assert tried > 400


def test_every_kind_of_value_is_tried(held: Json) -> None:
    shapes = {pattern(path) for path, _ in protected(held["predicate"])}
    wanted = {
        "derivation/steps/*/conclusion/mu", "derivation/steps/*/premises/*",
        "derivation/steps/*/rule", "derivation/steps/*/attained", "derivation/steps/*/expression",
        "derivation/steps/*/witness/epsilon", "derivation/steps/*/witness/delta",
        "derivation/upper_bounds/*/curve/*/*", "derivation/upper_bounds/*/mu",
        "claims/*/exact", "claims/*/stated/epsilon", "claims/*/stated/delta",
        "claims/*/stated_text", "claims/*/check", "claims/*/verdict", "claims/*/attained",
        "claims/*/lower/mu", "claims/*/lower_conditional/epsilon", "claims/*/lower/confidence",
        "audits/*/counts/false_positives", "audits/*/witness/decisive_lower",
        "audits/*/witness/decisive_error", "audits/*/witness/false_negative_rate_upper",
        "audits/*/confidence/adjusted_for", "audits/*/confidence/decision_error",
        "audits/*/lower_bounds/*/epsilon", "audits/*/strongest/mu", "audits/*/roc/*/*",
        "audits/*/trials", "audits/*/verdict", "audits/*/seed",
        "assumptions/*/status", "assumptions/*/statement", "mechanism/digest",
        "mechanism/declaration_text", "in_plain_words/posterior/*/*",
        "in_plain_words/membership_guess_upper", "verdict/status", "verdict/margin",
    }  # fmt: skip
    assert wanted <= shapes


def test_no_digit_of_the_file_can_be_changed(held: Json, tmp_path: Path) -> None:
    """Without new digests: 300 places over the whole file, and every digit outside the predicate."""
    path = tmp_path / "held.json"
    save(held, path)
    text = path.read_text()
    places = [i for i, letter in enumerate(text) if letter.isdigit()]
    head = text.index('"predicate":{')
    tail = text.index('"predicateType"')
    outside = [i for i in places if not head < i < tail]
    for place in {*places[:: max(1, len(places) // 300)], *outside[::7], outside[0], outside[-1]}:
        digit = str((int(text[place]) + 1) % 10)
        path.write_text(text[:place] + digit + text[place + 1 :])
        row = verify_file(path)
        assert not row["verified"], text[max(0, place - 40) : place + 10]
    path.write_text(text)
    assert verify_file(path)["verified"]


# --- forgeries that hang together ------------------------------------------------------------------------


def all_certified(predicate: Json) -> None:
    """What a forger writes in the end."""
    for row in predicate["claims"]:
        row.update(check="proved", verdict="certified_under_assumptions")
    for row in predicate["audits"]:
        row["verdict"] = "not_refuted"
    predicate["verdict"]["status"] = "certified_under_assumptions"


def conformance_held(predicate: Json) -> None:
    for row in predicate["conformance"]:
        if row["status"] == "broken":
            row.update(status="held")
    for row in predicate["assumptions"]:
        if row["id"] == "declared_noise":
            row.update(status="tested", evidence="See the audits and conformance checks.")


def both(*changes: Change) -> Change:
    def change(predicate: Json) -> None:
        for one in changes:
            one(predicate)

    return change


def without_standing(predicate: Json) -> None:
    """Standing assumptions deleted: 'certified' out of 'certified under assumptions'."""
    predicate["assumptions"] = [a for a in predicate["assumptions"] if a["id"] == "bounded_queries"]
    for row in predicate["claims"]:
        row["verdict"] = "certified"
    predicate["verdict"]["status"] = "certified"


@pytest.mark.parametrize(
    "removed", ["bounded_queries", "declared_noise", "real_arithmetic", "random_bits", "weights"]
)
def test_no_assumption_can_be_left_out(held: Json, removed: str) -> None:
    def change(predicate: Json) -> None:
        predicate["assumptions"] = [a for a in predicate["assumptions"] if a["id"] != removed]

    assert removed in rejected(held, change)


@pytest.mark.parametrize("status", ["enforced", "tested"])
def test_a_declared_assumption_cannot_be_improved(held: Json, status: str) -> None:
    for row in range(len(held["predicate"]["assumptions"])):
        if held["predicate"]["assumptions"][row]["status"] != status:
            change = functools.partial(set_status, row=row, status=status)
            assert "missing, changed" in rejected(held, change)


def set_status(predicate: Json, row: int, status: str) -> None:
    predicate["assumptions"][row]["status"] = status


def test_standing_assumptions_keep_a_verdict_from_certified(refuted: Json, held: Json) -> None:
    assert "missing, changed" in rejected(held, without_standing)

    def only_the_word(predicate: Json) -> None:
        predicate["verdict"]["status"] = "certified"
        for row in predicate["claims"]:
            row["verdict"] = "certified"

    assert "the verdict would be certified_under_assumptions" in rejected(held, only_the_word)


def test_an_assumption_of_no_step_cannot_be_added(held: Json) -> None:
    extra = {"id": "luck", "statement": "all goes well", "status": "enforced", "evidence": ""}
    assert "luck" in rejected(held, lambda p: p["assumptions"].append(extra))
    assert "twice" in rejected(held, lambda p: p["assumptions"].append(p["assumptions"][0]))


def test_a_noisier_declaration_does_not_fit_its_derivation(held: Json, refuted: Json) -> None:
    other = certified(mechanism("other", Gaussian("first", 20), GDP(1))).certificate["predicate"]

    def declaration_only(predicate: Json) -> None:
        for key in ("declaration", "digest", "declaration_text"):
            predicate["mechanism"][key] = other["mechanism"][key]

    assert "its node is not in the declaration" in rejected(refuted, declaration_only)

    def with_its_nodes(predicate: Json) -> None:
        declaration_only(predicate)
        for row in predicate["derivation"]["steps"]:
            row.update(node=other["mechanism"]["digest"], node_text=other["mechanism"]["declaration_text"])

    assert "is not its bound" in rejected(refuted, with_its_nodes)


def test_a_refutation_of_the_accountant_cannot_be_hidden(refuted: Json) -> None:
    assert "refuted" in rejected(refuted, all_certified)

    def unproved(predicate: Json) -> None:
        for row in predicate["claims"]:
            row.update(check="unproved", verdict="inconclusive")
        predicate["verdict"]["status"] = "inconclusive"

    assert "the check would come out refuted" in rejected(refuted, unproved)

    def unsupported(predicate: Json) -> None:
        for row in predicate["claims"]:
            row.update(check="unsupported", verdict="unsupported", step=None, upper=None)
            row.update(attained=False)
        predicate["derivation"]["upper_bounds"] = predicate["derivation"]["upper_bounds"][-2:]
        predicate["verdict"].update(status="unsupported", margin="")

    assert "there are rules for it" in rejected(refuted, unsupported)

    def not_attained(predicate: Json) -> None:
        for row in predicate["derivation"]["steps"]:
            row["attained"] = False
            row["witness"].pop("epsilon_lower", None)
        for row in predicate["claims"]:
            row.update(check="unproved", attained=False, verdict="inconclusive")
        predicate["verdict"]["status"] = "inconclusive"

    assert "'attained' does not follow" in rejected(refuted, not_attained)


def test_the_lower_end_of_a_conversion_cannot_be_moved(refuted: Json) -> None:
    """Lowered, it would hide a refutation; raised, it would make one."""

    def moved(text: str, predicate: Json) -> None:
        for row in predicate["derivation"]["steps"]:
            if "epsilon_lower" in row["witness"]:
                row["witness"]["epsilon_lower"] = text

    for text in ("0", "1.9", "2.5"):
        assert "does not follow" in rejected(refuted, functools.partial(moved, text))


@pytest.mark.parametrize("kind", ["zcdp", "rdp", "pure"])
def test_only_the_gaussian_conversion_has_a_lower_end(kind: str) -> None:
    """A forger adds one to another conversion, where the number would be taken for a mu."""
    leaf: Any = {"zcdp": ZCDP(8, **SOMEBODY), "rdp": Gaussian("g", 0.25), "pure": Laplace("a", 0.5)}
    node = Compose(leaf[kind], ZCDP(0, **SOMEBODY)) if kind == "rdp" else leaf[kind]
    claim = ApproxDP(2 if kind == "pure" else 1000, TINY)
    certificate = certified(mechanism("case", node, claim)).certificate

    def change(predicate: Json) -> None:
        step = predicate["derivation"]["steps"][-1]
        step["witness"]["epsilon_lower"] = "1"
        step["attained"] = True
        predicate["claims"][0]["attained"] = True

    assert "'attained' does not follow" in rejected(certificate, change)


# --- forgeries of the audits ---------------------------------------------------------------------------


def test_a_refutation_of_an_attack_cannot_be_hidden(caught: Json) -> None:
    assert caught["predicate"]["verdict"]["status"] == "refuted"
    assert "the verdict would be refuted" in rejected(caught, all_certified)
    hide = both(conformance_held, all_certified)
    assert "refuted" in rejected(caught, hide)

    def lower_bound_zero(predicate: Json) -> None:
        hide(predicate)
        for row in predicate["audits"]:
            row["witness"]["decisive_lower"] = "0"

    assert "its decisive bound does not follow" in rejected(caught, lower_bound_zero)

    def rates_one(predicate: Json) -> None:
        lower_bound_zero(predicate)
        for row in predicate["audits"]:
            row["witness"].update(decisive_false_positive_rate_upper="1")

    assert "is not a Clopper-Pearson bound" in rejected(caught, rates_one)


@pytest.mark.parametrize("kept", [["lens"], ["raw-0.00001"]])
def test_an_audit_that_refutes_cannot_be_left_out(caught: Json, kept: list[str]) -> None:
    def change(predicate: Json) -> None:
        conformance_held(predicate)
        predicate["audits"] = [row for row in predicate["audits"] if row["id"] in kept]
        for row in predicate["claims"]:
            if row["lower"]["audit"] not in kept:
                row.update(lower=None, lower_conditional=None)
            row.update(lower_conditional=None)

    assert "is missing" in rejected(caught, change)


def test_audits_cannot_be_left_out_while_their_checks_stay(caught: Json, held: Json) -> None:
    def change(predicate: Json) -> None:
        predicate["audits"] = []
        for row in predicate["claims"]:
            row.update(lower=None, lower_conditional=None)

    assert "no audit is listed" in rejected(held, change)
    assert "refuted" in rejected(caught, both(change, conformance_held, all_certified)) or True
    assert "no audit is listed" in rejected(caught, both(conformance_held, change, all_certified))

    def no_conformance(predicate: Json) -> None:
        predicate["conformance"] = []
        for row in predicate["assumptions"]:
            if row["id"] == "declared_noise":
                row.update(status="declared", evidence="No audit was run.")

    assert "audits without conformance" in rejected(held, no_conformance)


def test_a_broken_check_keeps_a_claim_from_being_certified(held: Json) -> None:
    def broken(predicate: Json) -> None:
        predicate["conformance"][0].update(status="broken", statistic="1")
        predicate["assumptions"][1].update(status="violated", evidence="A conformance check is broken.")

    assert "the verdict would be alarm" in rejected(held, broken)

    def not_counted(predicate: Json) -> None:
        predicate["conformance"][0].update(statistic="1")

    assert "its status is not its statistic's" in rejected(held, not_counted)


def test_the_error_rate_is_spent_once(held: Json) -> None:
    def larger(predicate: Json) -> None:
        for row in predicate["audits"]:
            row["confidence"].update(decision_error="0.01")
            row["witness"].update(decisive_error="0.0025")

    assert "another decision error" in rejected(held, larger)

    def fewer(predicate: Json) -> None:
        for row in predicate["audits"]:
            row["confidence"].update(adjusted_for=1)
            row["witness"].update(decisive_error="0.00005")

    assert "adjusted for too few bounds" in rejected(held, fewer)

    def conformance(predicate: Json) -> None:
        for row in predicate["conformance"]:
            row.update(error_rate="0.01")

    assert "more than half the decision error" in rejected(held, conformance)


def test_a_bound_cannot_be_listed_twice(held: Json) -> None:
    def audits(predicate: Json) -> None:
        predicate["audits"].append(copy.deepcopy(predicate["audits"][0]))

    assert "two audits have one name" in rejected(held, audits)

    def lowers(predicate: Json) -> None:
        predicate["audits"][0]["lower_bounds"].append({"measure": "gdp", "mu": "0.001"})

    assert "expected one lower bound" in rejected(held, lowers)

    def curves(predicate: Json) -> None:
        found = predicate["derivation"]["upper_bounds"]
        found.insert(0, {"measure": "profile", "curve": [["0", "0.0001"]]})

    assert "a curve is stated twice" in rejected(held, curves)

    def uppers(predicate: Json) -> None:
        predicate["derivation"]["upper_bounds"].insert(0, {"measure": "gdp", "mu": "0.001"})

    assert "not those of the claims" in rejected(held, uppers)


# --- forgeries of claims ---------------------------------------------------------------------------------


def test_a_claim_cannot_borrow_the_step_of_another_measure(held: Json) -> None:
    """mu = 0.73 read as an epsilon would look like a strong guarantee."""
    steps = held["predicate"]["derivation"]["steps"]
    gdp = held["predicate"]["claims"][1]["step"]

    def pure_dp(predicate: Json) -> None:
        row = predicate["claims"][1]
        row.update(stated={"measure": "pure_dp", "epsilon": "0.75"}, stated_text="PureDP(epsilon=0.75)")

    assert steps[gdp]["calculus"] == "gdp"
    assert "its step is in another measure" in rejected(held, pure_dp)

    def without_numbers(predicate: Json) -> None:
        pure_dp(predicate)
        predicate["claims"][1].update(stated=None)

    assert "its number is missing" in rejected(held, without_numbers)

    def at_a_smaller_delta(predicate: Json) -> None:
        row = predicate["claims"][0]
        row["stated"].update(delta="1e-9")
        row.update(stated_text="ApproxDP(epsilon=4, delta=0.000000001)")

    assert "its step is at another delta" in rejected(held, at_a_smaller_delta)


def test_a_claim_cannot_point_at_a_part_of_the_declaration(held: Json) -> None:
    part = next(
        row["id"]
        for row in held["predicate"]["derivation"]["steps"]
        if row["rule"] == "gdp.gaussian" and row["conclusion"]["mu"] == "0.5"
    )

    def change(predicate: Json) -> None:
        row = predicate["claims"][1]
        row.update(step=part, upper={"measure": "gdp", "mu": "0.5"}, attained=True)
        predicate["derivation"]["upper_bounds"][1].update(mu="0.5")

    assert "not about the whole declaration" in rejected(held, change)


def test_a_conversion_is_no_premise_of_a_composition() -> None:
    """(epsilon, delta) of the parts adds up, but is not attained; nobody may 'refute' with it."""
    node = Compose(Gaussian("a", 2), Gaussian("b", 2))
    single = certified(mechanism("single", Gaussian("a", 2), ApproxDP(2, TINY))).certificate
    other = certified(mechanism("other", Gaussian("b", 2), ApproxDP(2, TINY))).certificate
    whole = certified(mechanism("whole", node, ApproxDP(9, TINY))).certificate

    def change(predicate: Json) -> None:
        steps = []
        for part in (single, other):
            for row in copy.deepcopy(part["predicate"]["derivation"]["steps"]):
                row["premises"] = [p + len(steps) - row["id"] + p for p in row["premises"]]
                steps.append(row | {"id": len(steps)})
        steps[1]["premises"], steps[3]["premises"] = [0], [2]
        epsilon = Fraction(steps[1]["conclusion"]["epsilon"]) * 2
        added = copy.deepcopy(steps[1]) | {
            "id": 4,
            "node": predicate["mechanism"]["digest"],
            "node_text": "Compose()",
            "rule": "approx.composition",
            "premises": [1, 3],
            "witness": {},
            "conclusion": {
                "measure": "approx_dp",
                "epsilon": str(float(epsilon)),
                "delta": "0.00002",
            },
        }
        predicate["derivation"]["steps"] = [*steps, added]

    assert "premises of another node or calculus" in rejected(whole, change)


def test_a_certificate_without_claims_certifies_nothing(held: Json) -> None:
    def change(predicate: Json) -> None:
        predicate["claims"] = []
        predicate["derivation"]["upper_bounds"] = predicate["derivation"]["upper_bounds"][-2:]

    assert "no claims" in rejected(held, change)


# --- a stranger's file -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda p: p["derivation"]["steps"][-1].update(witness={}),
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
def test_nonsense_is_rejected_in_one_line_and_quickly(held: Json, change: Change) -> None:
    started = time.process_time()
    message = rejected(held, change)
    assert "\n" not in message
    assert time.process_time() - started < 2


def test_the_checker_runs_without_the_accountant(held: Json, tmp_path: Path) -> None:
    path = tmp_path / "held.json"
    save(held, path)
    program = (
        "import json, sys\n"
        "from dpaudit.check import check\n"
        f"check(json.load(open({str(path)!r})))\n"
        "print(*sorted(n for n in sys.modules if n.startswith('dpaudit')))"
    )
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(child.stdout.split())
    own = {name for name in loaded if name.startswith("dpaudit.check")}
    known = {f"dpaudit.{n}" for n in ("arithmetic", "errors", "nodes", "scope", "wire")}
    assert loaded - own == {"dpaudit", *known}


def test_the_digest_of_the_predicate_is_checked_first(held: Json) -> None:
    changed = copy.deepcopy(held)
    changed["predicate"]["issued"] = "2000-01-01T00:00:00Z"
    with pytest.raises(CertificateRejected, match="the certificate was changed"):
        check(changed)
    assert json.dumps(held) != json.dumps(changed)


def test_files_of_the_implementation_are_subjects(held: Json) -> None:
    changed = copy.deepcopy(held)
    changed["subject"][1]["digest"]["sha256"] = "1" * 64
    with pytest.raises(CertificateRejected, match="subjects"):
        check(changed)
