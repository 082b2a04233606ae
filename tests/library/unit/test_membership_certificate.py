"""Empirical certificates: confirmed from counts, refused when forged; pages that say no more."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from dpaudit.check import check
from dpaudit.check.file import empirical_schema, validate
from dpaudit.errors import CertificateRejected
from dpaudit.exact.wire import digest
from dpaudit.families.opaque import GDP, ApproxDP, PureDP
from dpaudit.membership import Study
from dpaudit.membership.certificate import MembershipAudit, statement
from dpaudit.report.membership import render
from tests.support.membership import looked_up, numbered, remembering

CLAIMS = [PureDP(1), ApproxDP(1, 1e-4), GDP(0.5)]


@cache
def audit(claim: int | None, units: int = 60, models: int = 8) -> MembershipAudit:
    background = numbered(5) if units == 1 else None
    data = numbered(units) if units > 1 else numbered(300).take(np.array([299]))
    study = Study((remembering, looked_up), data, models, background=background, seed=2)
    asked = None if claim is None else CLAIMS[claim]
    return study.run(claim=asked, attacks="loss,lira", refute_at=0.01)


@cache
def made(claim: int | None, units: int = 60, models: int = 8) -> dict[str, Any]:
    return statement(audit(claim, units, models))


def remade(certificate: dict[str, Any]) -> dict[str, Any]:
    """With the digest that a careful forger would put in."""
    certificate["subject"][0]["digest"]["sha256"] = digest(certificate["predicate"])
    return certificate


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("claim", "units", "models"),
    [(None, 60, 8), (0, 60, 8), (1, 60, 8), (2, 60, 8), (0, 1, 240), (1, 1, 240), (2, 1, 240)],
)
def test_a_certificate_is_confirmed_from_its_counts(
    claim: int | None, units: int, models: int
) -> None:
    certificate = made(claim, units, models)
    validate(certificate)
    confirmed = check(certificate)
    assert "lower bounds, from their counts" in confirmed.confirmed[1]
    predicate = certificate["predicate"]
    methods = {row["method"] for row in predicate["lower_bounds"]}
    of_one = "independent_runs" if claim == 2 else "independent_coins"
    assert ("one_run" if units == 60 else of_one) in methods
    if units == 60:
        assert all(float(row["value"]) > 0.3 for row in predicate["lower_bounds"])
        assert predicate["verdict"]["status"] == ("empirical" if claim is None else "refuted")


@pytest.mark.quality
def test_nothing_in_it_bounds_a_leak_from_above() -> None:
    assert "upper" not in re.sub(r"false_(positive|negative)_rate_upper", "", str(made(0)))
    assert "certified" not in str(empirical_schema())


def raised(row: dict[str, Any]) -> None:
    row["value"] = str(float(row["value"]) * 1.001)


FORGERIES: dict[str, Callable[[dict[str, Any]], None]] = {
    "a bound raised": lambda p: raised(p["lower_bounds"][0]),
    "a decisive bound raised": lambda p: raised(p["lower_bounds"][-1]),
    "a smaller error": lambda p: p["lower_bounds"][0].update(error="0.02"),
    "a refutation at a larger error": lambda p: p["lower_bounds"][-1].update(error="0.02"),
    "guesses said to be right": lambda p: p["lower_bounds"][0].update(value="9"),
    "another delta": lambda p: p["lower_bounds"][-1].update(delta="0.5"),
    "more coins than there are": lambda p: p["lower_bounds"][0]["counts"].update(canaries=10**6),
    "an unknown price": lambda p: p["lower_bounds"][1]["witness"].update(price="100000"),
    "no price": lambda p: p["lower_bounds"][1]["witness"].update(price="0"),
    "all are targets": lambda p: p["study"].update(references=8),
    "a verdict turned": lambda p: p["verdict"].update(status="inconclusive"),
    "a verdict withheld": lambda p: p["verdict"].update(status="empirical"),
    "a claim lowered": lambda p: p["claim"].update(value="100"),
    "a finding hidden": lambda p: p["findings"].append(
        {"name": "duplicates", "words": "some", "voids": True}
    ),
    "two decide": lambda p: p["lower_bounds"].append(p["lower_bounds"][-1]),
}


@pytest.mark.first_case
@pytest.mark.parametrize("name", FORGERIES)
def test_forgeries_are_refused(name: str) -> None:
    certificate = copy.deepcopy(made(1))
    FORGERIES[name](certificate["predicate"])
    with pytest.raises(CertificateRejected):
        check(certificate)  # the digest tells
    with pytest.raises(CertificateRejected):
        check(remade(certificate))


@pytest.mark.first_case
@pytest.mark.parametrize("name", ["false_positive_rate_upper", "false_negative_rate_upper"])
def test_rates_that_do_not_follow_from_counts_are_refused(name: str) -> None:
    certificate = copy.deepcopy(made(2, 1, 240))
    certificate["predicate"]["lower_bounds"][0]["witness"][name] = "0.0001"
    with pytest.raises(CertificateRejected, match="not bounded by its count"):
        check(remade(certificate))


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("claim", [0, 1])
def test_a_bound_by_the_coins_of_one_unit_is_not_taken_further(claim: int) -> None:
    alone = made(claim, 1, 240)
    place = next(
        place
        for place, row in enumerate(alone["predicate"]["lower_bounds"])
        if row["method"] == "independent_coins" and float(row["value"]) > 0
    )
    for change in (
        raised,
        lambda row: row["counts"].update(canaries=121),
        lambda row: row["counts"].update(correct=row["counts"]["correct"] - 1),
        lambda row: row.update(error="0.001"),
    ):
        certificate = copy.deepcopy(alone)
        change(certificate["predicate"]["lower_bounds"][place])
        with pytest.raises(CertificateRejected):
            check(remade(certificate))


@pytest.mark.quality
def test_a_bound_on_mu_is_not_taken_further_than_its_recursion() -> None:
    certificate = copy.deepcopy(made(2))
    raised(certificate["predicate"]["lower_bounds"][0])
    with pytest.raises(CertificateRejected, match="does not follow from its counts"):
        check(remade(certificate))


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.update(upper="1"),
        lambda c: c["predicate"].update(upper_bounds=[]),
        lambda c: c["predicate"]["verdict"].update(status="certified"),
        lambda c: c["predicate"]["lower_bounds"][0].update(value="inf"),
        lambda c: c["predicate"]["lower_bounds"][0].update(value=1.5),
        lambda c: c["predicate"].pop("study"),
    ],
)
def test_another_form_is_refused(change: Callable[[Any], None]) -> None:
    certificate = copy.deepcopy(made(0))
    change(certificate)
    with pytest.raises(CertificateRejected):
        validate(certificate)


def test_the_page_says_what_the_certificate_says_and_loads_nothing() -> None:
    certificate = made(1)
    page = render(certificate)
    assert "<script" not in page
    assert not re.search(r'(?:src|href)="(?!#)', page)
    for row in certificate["predicate"]["lower_bounds"]:
        assert row["value"] in page
        assert row["words"] in page
    assert "Refuted" in page
    assert certificate["predicate"]["study"]["commitment"] in page
    assert page.count("<svg") == 2
    assert "private" in page  # and only where it says that nothing is shown to be
    assert page == render(copy.deepcopy(certificate))


@pytest.mark.quality
def test_several_models_share_one_page() -> None:
    page = render({"first": made(1), "second": made(0, 1, 240)})
    assert "2 models compared" in page
    assert page.count('class="banner') == 2
    assert 'id="together"' in page
    identities = re.findall(r'\bid="([^"]+)"', page)
    assert len(identities) == len(set(identities))


@pytest.mark.quality
def test_a_notebook_shows_the_lines_and_the_curves() -> None:
    shown = audit(1)._repr_html_()
    assert shown.count("<svg") == 1
    assert "refuted: the trials contradict it" in shown
    assert "<script" not in shown


@cache
def along_training() -> MembershipAudit:
    found = audit(1)
    bound = found.bound
    assert bound is not None
    return replace(found, by_epoch=((1, bound, 2.5), (2, bound, 4.0)))


@pytest.mark.quality
def test_bounds_along_training_stand_beside_what_was_accounted_and_are_confirmed() -> None:
    certificate = statement(along_training())
    assert "the verdict" in check(certificate).confirmed
    assert 'id="epochs-0"' in (page := render(certificate))
    assert page.count("<svg") == 3
    for change in (raised, lambda row: row["counts"].update(canaries=10**6)):
        forged = copy.deepcopy(certificate)
        change(forged["predicate"]["epochs"][1]["bound"])
        with pytest.raises(CertificateRejected, match="epoch 2"):
            check(remade(forged))


@pytest.mark.long("trains the models that other tests share")
def test_words_of_others_are_escaped() -> None:
    certificate = copy.deepcopy(made(1))
    certificate["predicate"]["target"]["training"] = "<script>alert(1)</script>"
    assert "<script" not in render(certificate)
    assert "<svg" in audit(1)._repr_html_()
