"""Certificates whose epsilon comes from a composed profile, and what a forger may try on them."""

from __future__ import annotations

import copy
from fractions import Fraction
from typing import Any

import pytest

from dpaudit.certificate import certificate as certificates
from dpaudit.check import Confirmed, check
from dpaudit.check.profile import conversions
from dpaudit.check.profile.conversions import OWN_PARAMETERS
from dpaudit.exact.wire import digest
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Compose, Repeat
from dpaudit.families.events import EventSlack
from dpaudit.families.opaque import ApproxDP
from dpaudit.families.sampling import PoissonSampled, RandomAllocation, SampledWithoutReplacement
from tests.library.cli.bench import Json, certified, forged, mechanism, rejected

DELTA = Fraction(1, 10**5)
SGD = Repeat(PoissonSampled(Laplace("gradient", 1), Fraction(1, 100)), 100)
BATCHES = Repeat(SampledWithoutReplacement(Gaussian("gradient", 1), 10, 1000), 50)
MIXED = Compose(SGD, Repeat(PoissonSampled(Gaussian("other", 2), Fraction(1, 20)), 10))
CASES = {
    "sgd": (SGD, "add_remove"),
    "batches": (BATCHES, "replace_one"),
    "mixed": (MIXED, "add_remove"),
    "with slack": (EventSlack(SGD, Fraction(1, 10**8), "an overflow"), "add_remove"),
}


def certificate(name: str) -> Json:
    node, adjacency = CASES[name]
    claims = ApproxDP(9, DELTA), ApproxDP(Fraction(1, 100), DELTA)
    return certified(mechanism("case", node, *claims, adjacency=adjacency)).certificate


def conversion(predicate: Json) -> Any:
    step = predicate["derivation"]["steps"][predicate["claims"][0]["step"]]
    assert step["rule"] == "convert.profile_to_approx"
    return step


def without_curves(predicate: Any) -> None:
    """Takes out what serves no claim, so that a forgery is checked quickly."""
    body = predicate["derivation"]
    body["upper_bounds"] = [b for b in body["upper_bounds"] if "curve" not in b]
    body["steps"] = body["steps"][: 1 + max(claim["step"] for claim in predicate["claims"])]
    predicate["in_plain_words"] = None


@pytest.mark.quality
@pytest.mark.long_cases("mixed", "with slack")
@pytest.mark.parametrize("name", [name for name in CASES if name != "batches"])
def test_an_honest_certificate_verifies(name: str) -> None:
    assert OWN_PARAMETERS in verified(name).on_trust


@pytest.mark.quality
@pytest.mark.parametrize("points", [2, pytest.param(None, marks=pytest.mark.quality)])
def test_an_honest_certificate_of_batches_verifies(
    points: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All points of its curve are of games; here, those at the largest deltas alone."""
    deltas = certificates.PROFILE_DELTAS
    monkeypatch.setattr(certificates, "PROFILE_DELTAS", deltas[-(points or len(deltas)) :])
    # Of a game the checker takes all that is recorded: no Fourier sum is among them.
    assert OWN_PARAMETERS not in verified("batches").on_trust


def verified(name: str) -> Confirmed:
    found = certificate(name)
    report = check(found)
    assert not any("only the accountant" in line for line in report.on_trust)
    checks = [row["check"] for row in found["predicate"]["claims"]]
    assert checks == ["proved", "unproved" if name == "with slack" else "refuted"]
    return report


@pytest.mark.quality
def test_batches_beside_a_gaussian_are_confirmed_from_above(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Half of the accountant's step is finer than the checker computes with: the next serves."""
    monkeypatch.setattr(certificates, "PROFILE_DELTAS", ())
    node = Compose(BATCHES, Gaussian("other", 5))
    claims = ApproxDP(1, DELTA), ApproxDP(Fraction(4, 5), DELTA)
    found = certified(mechanism("case", node, *claims)).certificate
    assert not check(found).unconfirmed
    assert [row["check"] for row in found["predicate"]["claims"]] == ["proved", "refuted"]

    def lowered(predicate: Json) -> None:
        shifted(conversion(predicate), "-1e-4")

    assert "epsilon does not follow" in rejected(found, lowered)
    monkeypatch.setattr(conversions, "DOUBLED", ())
    assert "epsilon does not follow" in rejected(found, lambda predicate: None)


@pytest.fixture(scope="module")
def honest() -> Json:
    """Of subsampled Laplace noise."""
    return forged(certificate("sgd"), without_curves)


def shifted(step: Any, by: str) -> str:
    """The same conclusion at another epsilon, rows included."""
    old = step["conclusion"]["epsilon"]
    text = f"{float(Fraction(old) + Fraction(by)):.11f}"
    for row in step["witness"]["upper"]:
        row.update(value=text, epsilon=text)
    step["conclusion"]["epsilon"] = text
    return text


@pytest.mark.quality
def test_an_epsilon_that_is_too_small_by_1e_4_is_refused(honest: Json) -> None:
    def change(predicate: Json) -> None:
        shifted(conversion(predicate), "-1e-4")

    assert "epsilon does not follow" in rejected(honest, change)


def test_a_lower_epsilon_that_is_too_large_is_refused(honest: Json) -> None:
    def change(predicate: Json) -> None:
        witness = conversion(predicate)["witness"]
        text = f"{float(Fraction(witness['epsilon_lower']) + Fraction('1e-4')):.11f}"
        witness["lower"][0].update(value=text, epsilon=text)
        witness["epsilon_lower"] = text

    assert "epsilon does not follow" in rejected(honest, change)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("step", "1/3"),
        ("step", "0"),
        ("tilt", "0"),
        ("tilt", "1e-5"),
        ("side", "lower"),
        ("form", "closed"),
        ("form", "largest loss"),
        ("pair", "1"),
        ("value", "0.5"),
        ("epsilon", "100"),
    ],
)
def test_a_changed_field_of_a_row_is_refused(honest: Json, field: str, value: str) -> None:
    def change(predicate: Json) -> None:
        conversion(predicate)["witness"]["upper"][0][field] = value

    assert "does not follow" in rejected(honest, change)


@pytest.mark.parametrize("side", ["upper", "lower"])
@pytest.mark.parametrize("field", ["step", "tilt", "side", "epsilon", "value", "pair"])
def test_a_row_without_a_field_is_refused(honest: Json, side: str, field: str) -> None:
    def change(predicate: Json) -> None:
        del conversion(predicate)["witness"][side][0][field]

    assert rejected(honest, change)


def test_a_row_of_another_direction_is_refused(honest: Json) -> None:
    """The record's removal needs the larger epsilon; a forger leaves it out."""

    def change(predicate: Json) -> None:
        step = conversion(predicate)
        values = [Fraction(row["value"]) for row in step["witness"]["upper"]]
        assert len(values) == 2
        smaller = step["witness"]["upper"][values.index(min(values))]
        step["witness"]["upper"] = [{**smaller, "pair": "0"}, {**smaller, "pair": "1"}]
        step["conclusion"]["epsilon"] = smaller["value"]

    assert "epsilon does not follow" in rejected(honest, change)


@pytest.mark.quality
def test_what_the_checker_cannot_confirm_is_said() -> None:
    """At most twice Gaussian(1), 6.6; only the accountant knows that it is 3.8."""

    node = Repeat(RandomAllocation(Gaussian("gradient", 1), 5), 2)
    claims = ApproxDP(7, DELTA), ApproxDP(4, DELTA)
    labels = ("gradient",) * 10
    case = mechanism("case", node, *claims, labels=labels, batches=True, adjacency="add_remove")
    found = certified(case).certificate
    if conversion_rule(found) != "convert.profile_to_approx":
        pytest.fail("expected the profile route")
    report = check(found)
    lines = [row for row in report.on_trust if "only the accountant computed it" in row]
    for shown in (line.partition("epsilon ")[2].partition(" ")[0] for line in lines):
        assert len(shown.replace(".", "")) <= 6
    assert any("the upper epsilon 3.8" in line for line in lines)
    verdicts = [row["verdict"] for row in found["predicate"]["claims"]]
    assert verdicts == ["certified_under_assumptions", "unconfirmed"]
    assert found["predicate"]["verdict"]["status"] == "unconfirmed"
    assert "taken on trust" in found["predicate"]["claims"][1]["reason"]


def conversion_rule(found: Json) -> str:
    steps = found["predicate"]["derivation"]["steps"]
    return next(str(s["rule"]) for s in steps if s["rule"].startswith("convert."))


def test_the_digest_covers_the_rows(honest: Json) -> None:
    forged = copy.deepcopy(honest)
    conversion(forged["predicate"])["witness"]["upper"][0]["round_off"] = "0"
    assert digest(forged["predicate"]) != digest(honest["predicate"])
