"""Forgeries that hang together are rejected for the reason that makes them forgeries.

A forger is given everything: the digests are made again after each change.
"""

from __future__ import annotations

import copy
import functools
from typing import Any

import pytest

from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Compose
from dpaudit.families.opaque import GDP, ZCDP, ApproxDP
from tests.library.cli.bench import (
    TINY,
    Change,
    Json,
    caught,
    certified,
    follow,
    held,
    mechanism,
    refuted,
    rejected,
)

SOMEBODY = {"source": "Somebody 2020, Theorem 1"}


# --- forgeries that hang together ----------------------------------------------------------------


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
    follow(predicate)


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
def test_no_assumption_can_be_left_out(removed: str) -> None:
    def change(predicate: Json) -> None:
        predicate["assumptions"] = [a for a in predicate["assumptions"] if a["id"] != removed]

    assert removed in rejected(held(), change)


@pytest.mark.parametrize("status", ["enforced", "tested"])
def test_a_declared_assumption_cannot_be_improved(status: str) -> None:
    for row in range(len(held()["predicate"]["assumptions"])):
        if held()["predicate"]["assumptions"][row]["status"] != status:
            change = functools.partial(set_status, row=row, status=status)
            assert "missing, changed" in rejected(held(), change)


def set_status(predicate: Json, row: int, status: str) -> None:
    predicate["assumptions"][row]["status"] = status


def test_standing_assumptions_keep_a_verdict_from_certified() -> None:
    assert "missing, changed" in rejected(held(), without_standing)

    def only_the_word(predicate: Json) -> None:
        predicate["verdict"]["status"] = "certified"
        for row in predicate["claims"]:
            row["verdict"] = "certified"

    assert "the verdict would be certified_under_assumptions" in rejected(held(), only_the_word)


def test_an_assumption_of_no_step_cannot_be_added() -> None:
    extra = {"id": "luck", "statement": "all goes well", "status": "enforced", "evidence": ""}
    assert "luck" in rejected(held(), lambda p: p["assumptions"].append(extra))
    assert "twice" in rejected(held(), lambda p: p["assumptions"].append(p["assumptions"][0]))


def test_a_noisier_declaration_does_not_fit_its_derivation() -> None:
    other = certified(mechanism("other", Gaussian("first", 20), GDP(1))).certificate["predicate"]

    def declaration_only(predicate: Json) -> None:
        for key in ("declaration", "digest", "declaration_text"):
            predicate["mechanism"][key] = other["mechanism"][key]

    assert "its node is not in the declaration" in rejected(refuted(), declaration_only)

    def with_its_nodes(predicate: Json) -> None:
        declaration_only(predicate)
        for row in predicate["derivation"]["steps"]:
            row.update(
                node=other["mechanism"]["declaration"]["root"],
                node_text=other["mechanism"]["declaration_text"],
            )

    assert "is not its bound" in rejected(refuted(), with_its_nodes)


def test_a_refutation_of_the_accountant_cannot_be_hidden() -> None:
    assert "refuted" in rejected(refuted(), all_certified)

    def unproved(predicate: Json) -> None:
        for row in predicate["claims"]:
            row.update(check="unproved", verdict="inconclusive")
        predicate["verdict"]["status"] = "inconclusive"

    assert "the check would come out refuted" in rejected(refuted(), unproved)

    def unsupported(predicate: Json) -> None:
        for row in predicate["claims"]:
            row.update(check="unsupported", verdict="unsupported", step=None, upper=None)
            row.update(attained=False)
        predicate["derivation"]["upper_bounds"] = predicate["derivation"]["upper_bounds"][-2:]
        predicate["verdict"].update(status="unsupported", margin="")

    assert "there are rules for it" in rejected(refuted(), unsupported)

    def not_attained(predicate: Json) -> None:
        for row in predicate["derivation"]["steps"]:
            row["attained"] = False
            row["witness"].pop("epsilon_lower", None)
        for row in predicate["claims"]:
            row.update(check="unproved", attained=False, verdict="inconclusive")
        predicate["verdict"]["status"] = "inconclusive"

    assert "'attained' does not follow" in rejected(refuted(), not_attained)


def test_the_lower_end_of_a_conversion_cannot_be_moved() -> None:
    """Lowered, it would hide a refutation; raised, it would make one."""

    def moved(text: str, predicate: Json) -> None:
        for row in predicate["derivation"]["steps"]:
            if "epsilon_lower" in row["witness"]:
                row["witness"]["epsilon_lower"] = text

    for text in ("0", "1.9", "2.5"):
        assert "does not follow" in rejected(refuted(), functools.partial(moved, text))


@pytest.mark.first_case
@pytest.mark.parametrize("kind", ["zcdp", "rdp", "pure"])
def test_a_conversion_has_no_lower_end_but_its_own(kind: str) -> None:
    """A forger adds one, or another, where the number would be taken for what is reached."""
    leaf: Any = {"zcdp": ZCDP(8, **SOMEBODY), "rdp": Gaussian("g", 0.25), "pure": Laplace("a", 0.5)}
    node = Compose(leaf[kind], ZCDP(0, **SOMEBODY)) if kind == "rdp" else leaf[kind]
    claim = ApproxDP(2 if kind == "pure" else 1000, TINY)
    certificate = certified(mechanism("case", node, claim)).certificate

    def change(predicate: Json) -> None:
        step = predicate["derivation"]["steps"][-1]
        step["witness"]["epsilon_lower"] = "1"
        step["attained"] = True
        predicate["claims"][0]["attained"] = True

    message = rejected(certificate, change)
    assert "'attained' does not follow" in message or "its lower epsilon does not" in message


# --- forgeries of the audits ---------------------------------------------------------------------


def test_a_refutation_of_an_attack_cannot_be_hidden() -> None:
    assert caught()["predicate"]["verdict"]["status"] == "refuted"
    assert "the verdict would be refuted" in rejected(caught(), all_certified)
    hide = both(conformance_held, all_certified)
    assert "refuted" in rejected(caught(), hide)

    def lower_bound_zero(predicate: Json) -> None:
        hide(predicate)
        for row in predicate["audits"]:
            row["witness"]["decisive_lower"] = "0"

    assert "its decisive bound does not follow" in rejected(caught(), lower_bound_zero)

    def rates_one(predicate: Json) -> None:
        lower_bound_zero(predicate)
        for row in predicate["audits"]:
            row["witness"].update(decisive_false_positive_rate_upper="1")

    assert "is not a Clopper-Pearson bound" in rejected(caught(), rates_one)


@pytest.mark.parametrize("lens", ["lens", "stand_in:lens"])
def test_pooled_errors_are_what_they_are_said_to_be(lens: str) -> None:
    """Neither the other estimator's name, nor another share, nor errors of a raw bound."""
    honest = caught()
    row = next(row for row in honest["predicate"]["audits"] if row["id"] == lens)
    assert row["estimator"] == "pooled Clopper-Pearson, GDP lens"

    def renamed(predicate: Json, name: str, estimator: str) -> None:
        for row in predicate["audits"]:
            if row["id"] == name:
                row["estimator"] = estimator

    split = functools.partial(renamed, name=lens, estimator="Clopper-Pearson, GDP lens")
    assert "is not a Clopper-Pearson bound of its count" in rejected(honest, split)
    other = {
        "Clopper-Pearson": "pooled Clopper-Pearson",
        "pooled Clopper-Pearson": "Clopper-Pearson",
    }
    own = next(r["estimator"] for r in honest["predicate"]["audits"] if r["id"] == "raw-0.00001")
    raw = functools.partial(renamed, name="raw-0.00001", estimator=other[own])
    assert "is not a Clopper-Pearson bound of its" in rejected(honest, raw)

    def one_more(predicate: Json) -> None:
        for row in predicate["audits"]:
            if row["id"] == lens:
                row["counts"]["false_positives"] += 1

    assert "of its pooled errors" in rejected(honest, one_more)


@pytest.mark.parametrize(
    "kept",
    [
        ["lens", "stand_in:lens", "stand_in:raw-0.00001"],
        ["lens", "raw-0.00001", "stand_in:raw-0.00001"],
        ["lens", "raw-0.00001"],
    ],
)
def test_an_audit_that_refutes_cannot_be_left_out(kept: list[str]) -> None:
    def change(predicate: Json) -> None:
        conformance_held(predicate)
        predicate["audits"] = [row for row in predicate["audits"] if row["id"] in kept]
        for row in predicate["claims"]:
            if row["lower"]["audit"] not in kept:
                row.update(lower=None, lower_conditional=None)
            row.update(lower_conditional=None)

    assert "is missing" in rejected(caught(), change)


def test_audits_cannot_be_left_out_while_their_checks_stay() -> None:
    def change(predicate: Json) -> None:
        predicate["audits"] = []
        for row in predicate["claims"]:
            row.update(lower=None, lower_conditional=None)

    assert "no audit is listed" in rejected(held(), change)
    assert "no audit is listed" in rejected(caught(), both(conformance_held, change, all_certified))

    def no_conformance(predicate: Json) -> None:
        predicate["conformance"] = []
        follow(predicate)

    assert "audits without conformance" in rejected(held(), no_conformance)


def test_a_broken_check_keeps_a_claim_from_being_certified() -> None:
    def broken(predicate: Json) -> None:
        predicate["conformance"][0].update(status="broken", statistic="1")
        follow(predicate)

    assert "the verdict would be alarm" in rejected(held(), broken)

    def not_counted(predicate: Json) -> None:
        predicate["conformance"][0].update(statistic="1")

    assert "its status is not its statistic's" in rejected(held(), not_counted)


def test_the_error_rate_is_spent_once() -> None:
    def larger(predicate: Json) -> None:
        for row in predicate["audits"]:
            row["confidence"].update(decision_error="0.01")
            row["witness"].update(decisive_error="0.0025")

    assert "another decision error" in rejected(held(), larger)

    def fewer(predicate: Json) -> None:
        for row in predicate["audits"]:
            row["confidence"].update(adjusted_for=1)
            row["witness"].update(decisive_error="0.00005")

    assert "adjusted for too few bounds" in rejected(held(), fewer)

    def conformance(predicate: Json) -> None:
        for row in predicate["conformance"]:
            row.update(error_rate="0.01")

    assert "over a tenth of the decision error" in rejected(held(), conformance)


def test_a_bound_cannot_be_listed_twice() -> None:
    def audits(predicate: Json) -> None:
        predicate["audits"][1] = copy.deepcopy(predicate["audits"][0])

    assert "two audits have one name" in rejected(held(), audits)

    def lowers(predicate: Json) -> None:
        predicate["audits"][0]["lower_bounds"].append({"measure": "gdp", "mu": "0.001"})

    assert "lower_bounds" in rejected(held(), lowers)

    def curves(predicate: Json) -> None:
        found = predicate["derivation"]["upper_bounds"]
        found.insert(0, {"measure": "profile", "curve": [["0", "0.0001"]]})

    assert "a curve is stated twice" in rejected(held(), curves)

    def uppers(predicate: Json) -> None:
        predicate["derivation"]["upper_bounds"].insert(0, {"measure": "gdp", "mu": "0.001"})

    assert "not those of the claims" in rejected(held(), uppers)
