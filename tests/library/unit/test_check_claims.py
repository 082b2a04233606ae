"""Forged claims and missing parts are rejected by name; the digests are made again each time."""

from __future__ import annotations

import copy
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest
import sympy

from dpaudit.check import claims
from dpaudit.check.bounds import clopper_pearson
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Compose
from dpaudit.families.opaque import GDP, ZCDP, ApproxDP
from dpaudit.pairs import Losses, Normal
from tests.library.cli.bench import (
    TINY,
    Change,
    Json,
    certified,
    held,
    mechanism,
    rejected,
)

SOMEBODY = {"source": "Somebody 2020, Theorem 1"}


# --- what must be there, and say the same --------------------------------------------------------


def drop_shares(predicate: Json) -> None:
    """Shares of the accounted bound, which are compared first, may be left out."""
    for row in predicate["likelihoods"]:
        for bound in row["bounds"]:
            bound.pop("share", None)


LOOSE: dict[str, Change] = {
    "point 2 of the attack's curve": lambda p: [
        row["roc"][1].__setitem__(2, "0.6") for row in p["audits"]
    ],
    "its strongest bound is missing": lambda p: p["audits"][0].update(strongest=None),
    "two claims have one name": lambda p: p["claims"][1].update(id="claim-1"),
    "its text names no kind": lambda p: p["claims"][1].update(stated_text="RDP(mu=0.75)"),
    "its text is of another kind": lambda p: p["claims"][0].update(
        stated_text="ApproxDP(epsilon=4)"
    ),
    "its step is missing": lambda p: p["claims"][1].update(step=None),
    "its upper bound is not its step's": lambda p: [
        drop_shares(p),
        p["claims"][1].update(upper={"measure": "gdp", "mu": "0.5"}),
        p["derivation"]["upper_bounds"][1].update(mu="0.5"),
    ],
    "its lower bound is missing": lambda p: p["claims"][1].update(lower=None),
    "its conditional bound is missing": lambda p: p["claims"][0].update(lower_conditional=None),
    "its lower bound is mislabelled": lambda p: p["claims"][1]["lower"].update(
        conditional_on="the Gaussian family"
    ),
    "its number is not its exact value": lambda p: p["claims"][0]["stated"].update(delta="0.5"),
    "expected a finite decimal": lambda p: p["in_plain_words"].update(posterior=[["inf", "1"]]),
}  # fmt: skip


@pytest.mark.first_case
@pytest.mark.long_cases(
    "point 2 of the attack's curve", "its text names no kind", "its text is of another kind"
)
@pytest.mark.parametrize("message", LOOSE)
def test_each_part_is_asked_for(message: str) -> None:
    assert message in rejected(held(), LOOSE[message])


@pytest.mark.parametrize(
    ("text", "number"),
    [("0.001", Fraction(1, 1000)), ("1/3", Fraction(1, 3)), ("2", Fraction(2)), ("x", None),
     ("1/x", None), ("x/3", None)],
)  # fmt: skip
def test_a_stated_delta_is_read_exactly_where_it_is_a_number(
    text: str, number: Fraction | None
) -> None:
    assert claims._fraction(text) == number


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ({"own": "enforced", "other": "declared"}, "certified"),
        ({"own": "declared"}, "certified_under_assumptions"),
        ({"own": "violated"}, "inconclusive"),
        ({"own": "enforced", "standing": "tested"}, "certified_under_assumptions"),
    ],
)
def test_a_verdict_rests_on_the_assumptions_of_its_own_step(
    statuses: dict[str, str], expected: str
) -> None:
    """And on those of no step; another step's are not its own."""
    steps = [{"assumes": ["own"]}, {"assumes": ["other"]}]
    case: Any = SimpleNamespace(predicate={"derivation": {"steps": steps}}, statuses=statuses)
    value: Any = SimpleNamespace(assumes=frozenset({"own"}))
    assert claims._certified(value, case) == expected


def test_what_has_no_number_rests_on_none() -> None:
    assert not claims.is_unconfirmed(None, "refuted", Fraction(1))


def test_a_step_cannot_take_the_id_of_a_standing_assumption() -> None:
    def change(predicate: Json) -> None:
        for row in predicate["derivation"]["steps"]:
            row["assumes"] = ["random_bits" if i == "weights" else i for i in row["assumes"]]

    assert "assumptions are not those of its node" in rejected(held(), change)


def test_bounds_without_a_step_are_refused() -> None:
    certificate = certified(mechanism("case", ZCDP(1, **SOMEBODY), GDP(9))).certificate
    assert certificate["predicate"]["verdict"]["status"] == "unsupported"

    def bound(predicate: Json) -> None:
        predicate["claims"][0].update(upper={"measure": "gdp", "mu": "1"})
        predicate["derivation"]["upper_bounds"] = [{"measure": "gdp", "mu": "1"}]
        predicate["in_plain_words"] = None

    assert "a bound without a step" in rejected(certificate, bound)

    def words(predicate: Json) -> None:
        predicate["in_plain_words"] = copy.deepcopy(held()["predicate"]["in_plain_words"])

    assert "membership guess" in rejected(certificate, words)

    def audited(predicate: Json) -> None:
        lower = copy.deepcopy(held()["predicate"]["claims"][1]["lower"])
        predicate["claims"][0].update(lower=lower)

    assert "its lower bound is missing" in rejected(certificate, audited)


# --- forgeries of claims -------------------------------------------------------------------------


@pytest.mark.quality
def test_a_claim_cannot_borrow_the_step_of_another_measure() -> None:
    """mu = 0.73 read as an epsilon would look like a strong guarantee."""
    steps = held()["predicate"]["derivation"]["steps"]
    gdp = held()["predicate"]["claims"][1]["step"]

    def pure_dp(predicate: Json) -> None:
        row = predicate["claims"][1]
        row.update(
            stated={"measure": "pure_dp", "epsilon": "0.75"}, stated_text="PureDP(epsilon=0.75)"
        )

    assert steps[gdp]["calculus"] == "gdp"
    assert "its step is in another measure" in rejected(held(), pure_dp)

    def without_numbers(predicate: Json) -> None:
        pure_dp(predicate)
        predicate["claims"][1].update(stated=None)

    assert "not of type" in rejected(held(), without_numbers)

    def at_a_smaller_delta(predicate: Json) -> None:
        row = predicate["claims"][0]
        row["stated"].update(delta="1e-9")
        row.update(stated_text="ApproxDP(epsilon=4, delta=0.000000001)")

    assert "its step is at another delta" in rejected(held(), at_a_smaller_delta)


def test_a_delta_without_a_decimal_is_that_of_the_step() -> None:
    claim = ApproxDP(3, sympy.sqrt(2) / 10**5)
    certificate = certified(mechanism("case", Gaussian("a", 2), claim)).certificate

    def change(predicate: Json) -> None:
        predicate["claims"][0].update(stated_text="ApproxDP(epsilon=3, delta=sqrt(2)/10000000)")

    assert "its step is at another delta" in rejected(certificate, change)


def test_a_claim_cannot_point_at_a_part_of_the_declaration() -> None:
    part = next(
        row["id"]
        for row in held()["predicate"]["derivation"]["steps"]
        if row["rule"] == "gdp.gaussian" and row["conclusion"]["mu"] == "0.5"
    )

    def change(predicate: Json) -> None:
        drop_shares(predicate)
        row = predicate["claims"][1]
        row.update(step=part, upper={"measure": "gdp", "mu": "0.5"}, attained=True)
        predicate["derivation"]["upper_bounds"][1].update(mu="0.5")

    assert "not about the whole declaration" in rejected(held(), change)


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
            "node": predicate["mechanism"]["declaration"]["root"],
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


def test_a_certificate_without_claims_certifies_nothing() -> None:
    def change(predicate: Json) -> None:
        drop_shares(predicate)
        predicate["claims"] = []
        predicate["derivation"]["upper_bounds"] = predicate["derivation"]["upper_bounds"][-2:]

    assert "no claims" in rejected(held(), change)


def test_symbols_are_found_in_numbers_pairs_of_numbers_and_curves() -> None:
    k = sympy.Symbol("k", positive=True)
    assert claims._unknowns(Fraction(1, 2)) == set()
    assert claims._unknowns((k, Fraction(1))) == {k}
    half = (Normal(Fraction(1, 2)),)
    assert claims._unknowns(Losses(half, half)) == set()
    assert claims._unknowns(Losses((Normal(k),), half)) == {k}


@pytest.mark.parametrize(("count", "trials"), [(0, 50), (5, 100), (400, 1_000)])
def test_a_clopper_pearson_bound_is_the_least_that_holds(count: int, trials: int) -> None:
    from scipy.stats import beta

    exact = Fraction(float(beta.ppf(0.99, count + 1, trials - count)))
    error = Fraction(1, 100)
    for factor, expected in (("1.0000001", True), ("0.999", False), ("1.001", False)):
        assert clopper_pearson(count, trials, exact * Fraction(factor), error) == expected
    assert not clopper_pearson(count, trials, Fraction(1), error)
    assert clopper_pearson(trials, trials, Fraction(1), error)
