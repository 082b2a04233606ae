"""What an adversary with the source at hand tries: each was accepted once, and is refused now.

A forger is given everything: the digests are made again after each change.
"""

from __future__ import annotations

import copy
import math
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
import sympy
from scipy.stats import beta, norm

from dpaudit.audit.residuals import check_residuals
from dpaudit.certificate.evidence import written
from dpaudit.check import curve_exceeds, declared_digest, standing
from dpaudit.check.conformance import _row as check_row
from dpaudit.check.measures import MEASURES
from dpaudit.check.profile.coarse import coarser, is_computed
from dpaudit.errors import CertificateRejected, InvalidParameter
from dpaudit.exact import decimal_upper
from dpaudit.exact.wire import decode_number, encode_number
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Assuming
from dpaudit.families.events import EventSlack, ProposeTestRelease
from dpaudit.families.opaque import GDP, ApproxDP
from dpaudit.families.sampling import RandomAllocation
from dpaudit.families.stability import CoupledGaussian
from dpaudit.nodes import Assumption, Node, Status
from dpaudit.nodes.tables import to_table
from dpaudit.pairs import (
    Allocated,
    LaplaceShift,
    Largest,
    Mixed,
    Pair,
    Thresholded,
    product,
)
from dpaudit.profiles import delta_interval
from tests.library.cli.bench import (
    TINY,
    Json,
    accept,
    caught,
    certified,
    forged,
    held,
    mechanism,
    rejected,
    renumber,
    unattacked,
)

LAPLACE = LaplaceShift(Fraction(1, 3))


# --- symbols -------------------------------------------------------------------------------------


def test_a_symbol_is_no_number_that_a_claim_can_state() -> None:
    """A symbol named 0.01 was printed, and 'proved', as mu = 0.01."""

    def named(name: str, predicate: Json) -> None:
        predicate["claims"][1].update(
            exact=["Symbol", name, {"positive": True}], stated_text=f"GDP(mu={name})"
        )

    assert "expected a name of letters" in rejected(held(), lambda p: named("0.01", p))
    assert "claims a symbol" in rejected(held(), lambda p: named("e", p))


@pytest.mark.parametrize("name", ["0.01", "1", "", "a b", "2*x", "\u0660", "a-1", "x\n"])
def test_a_symbol_is_named_by_an_identifier(name: str) -> None:
    with pytest.raises(InvalidParameter, match="expected a name"):
        decode_number(["Symbol", name, {}])
    with pytest.raises(InvalidParameter, match="expected a name"):
        encode_number(sympy.Symbol(name))


def test_a_declaration_of_symbols_certifies_nothing() -> None:
    """A number on a bound that still holds a symbol was certified at 'accounted <= infinity'."""
    symbol = sympy.Symbol("z", positive=True)
    node = Gaussian("first", symbol)

    def change(predicate: Json) -> None:
        predicate["mechanism"].update(
            declaration=to_table(node),
            digest=declared_digest(node, predicate["scope"]),
            declaration_text=repr(node),
        )

    assert "holds symbols: z" in rejected(held(), change)


def test_certify_refuses_claims_of_symbols_before_data() -> None:
    def never() -> Any:
        raise AssertionError("the records were touched")

    claim = GDP(sympy.Symbol("e", positive=True))
    with pytest.raises(InvalidParameter, match="claims symbols"):
        certified(mechanism("case", Gaussian("a", 2), claim, records=never))


# --- numbers that only the accountant computed ---------------------------------------------------


def with_epsilon(text: str, claim: str, predicate: Json) -> None:
    """The conversion's epsilon made smaller, and everything that follows from it."""
    step = next(s for s in predicate["derivation"]["steps"] if s["rule"].startswith("convert."))
    for row in step["witness"]["upper"]:
        row.update(value=text, epsilon=text)
    step["witness"]["lower"] = [{"pair": "0", "value": "0"}] if step["witness"]["lower"] else []
    step["witness"].pop("epsilon_lower", None)
    if step["attained"]:
        step["witness"]["epsilon_lower"] = "0"
    step["conclusion"]["epsilon"] = text
    step["expression"] = f"({text}, {step['expression'].partition(', ')[2]}"
    row = predicate["claims"][0]
    row.update(exact=f"{claim}/1000", stated_text=f"ApproxDP(epsilon={text}, delta=0.00001)")
    row["stated"]["epsilon"] = text
    row["upper"] = dict(step["conclusion"])
    predicate["derivation"]["upper_bounds"] = [dict(step["conclusion"])]
    predicate["in_plain_words"] = None
    predicate["verdict"]["margin"] = "0"


@cache
def allocated() -> Json:
    node = RandomAllocation(Gaussian("g", Fraction(1, 2)), 4)
    claim, labels = ApproxDP(10, TINY), ("g",) * 4
    case = mechanism("case", node, claim, labels=labels, batches=True, adjacency="add_remove")
    return unattacked(case).certificate


@pytest.mark.quality
def test_an_allocation_is_at_most_its_base() -> None:
    assert allocated()["predicate"]["verdict"]["status"] == "certified_under_assumptions"


@pytest.mark.quality
def test_what_only_the_accountant_computed_has_a_verdict_of_its_own() -> None:
    """.001 was certified where the truth is 8.6."""

    def small(predicate: Json) -> None:
        with_epsilon("0.001", "1", predicate)

    assert "the verdict would be unconfirmed" in rejected(allocated(), small)

    def honest_about_it(predicate: Json) -> None:
        small(predicate)
        predicate["claims"][0]["verdict"] = "unconfirmed"
        predicate["verdict"]["status"] = "unconfirmed"

    found = accept(forged(allocated(), honest_about_it))
    assert any("only the accountant computed it" in line for line in found.on_trust)


@pytest.mark.quality
def test_a_propose_test_release_is_the_checkers_own_number() -> None:
    """.2 was certified where the truth is .97."""
    node = ProposeTestRelease(Laplace("test", 4), Gaussian("mean", 5), Fraction(6, 10**6))
    found = certified(mechanism("case", node, ApproxDP(2, TINY))).certificate
    assert found["predicate"]["claims"][0]["check"] == "proved"
    assert not accept(found).unconfirmed
    assert "epsilon does not follow" in rejected(found, lambda p: with_epsilon("0.2", "200", p))


@pytest.mark.parametrize(
    "pair",
    [
        Allocated(Fraction(1, 2), Fraction(4)),
        Thresholded(Fraction(1, 4), Fraction(20), Fraction(1, 100), Fraction(1, 200)),
        Mixed(Allocated(Fraction(1), Fraction(9)), Fraction(1, 3)),
        Largest((LaplaceShift(Fraction(1)), Thresholded(*[Fraction(1, 4)] * 4))),
    ],
    ids=lambda pair: type(pair).__name__,
)
@pytest.mark.quality
@pytest.mark.parametrize("swapped", [False, True])
def test_a_crude_pair_dominates(pair: Pair, swapped: bool) -> None:
    """At two epsilons, by the accountant's intervals of both."""
    pair = product([(pair.swapped if swapped else pair, Fraction(1)), (LAPLACE, Fraction(1))])
    assert not is_computed(pair)
    crude = coarser(pair)
    assert is_computed(crude)
    for k in (0, 1):
        epsilon = Fraction(k, 2)
        assert delta_interval(crude, epsilon).upper >= delta_interval(pair, epsilon).lower


# --- a refuted certificate, washed ---------------------------------------------------------------


def washed(predicate: Json) -> None:
    """Counts of a harmless audit, every check held, and what follows from them."""
    harmless = {row["id"]: row for row in held()["predicate"]["audits"]}
    same = ("id", "about", "program", "differs", "roc", "neighbours", "seed", "trials")
    for row in predicate["audits"]:
        if row["id"].startswith("stand_in:"):
            kept = {name: row[name] for name in same}
            row.update(copy.deepcopy(harmless[row["id"].removeprefix("stand_in:")]) | kept)
    for row in predicate["conformance"]:
        row.update(status="held")
        if row["error_rate"] == "0":
            row.update(statistic="0")
    fixed = {row["id"]: row for row in map(Assumption.row, standing(predicate["conformance"]))}
    predicate["assumptions"] = [fixed.get(row["id"], row) for row in predicate["assumptions"]]


def test_counts_and_curve_are_of_the_same_scores() -> None:
    """The counts were retyped, and the curve still showed no error at all."""
    assert "cannot be of the same scores" in rejected(caught(), washed)


def test_a_curve_that_refutes_refutes() -> None:
    def curve(predicate: Json) -> None:
        for audit in predicate["audits"][:2]:
            audit["roc"] = copy.deepcopy(refuting)

    *_, stand_in = caught()["predicate"]["audits"]
    refuting = stand_in["roc"]

    assert "cannot be of the same scores" in rejected(held(), curve)
    row = {**held()["predicate"]["audits"][0], "roc": refuting}
    assert curve_exceeds(row, None, Fraction(1, 2))
    assert not curve_exceeds(row, None, Fraction(5))
    assert curve_exceeds(row, TINY, Fraction(2))
    assert curve_exceeds(row, None, Fraction(1, 8), MEASURES["zcdp"].from_rates)


@pytest.mark.parametrize(("positives", "negatives"), [(0, 0), (0, 400), (37, 211), (180, 180)])
@pytest.mark.parametrize("trials", [1_000, 20_000])
def test_a_curve_refutes_up_to_its_clopper_pearson_bounds(
    positives: int, negatives: int, trials: int
) -> None:
    """SciPy's bounds at half of 10^-9 a side: refuted a hair below what they show, not above it."""
    counts = (positives, negatives)
    shown = [beta.ppf(1 - 5e-10, count + 1, trials - count) for count in counts]
    mu = -norm.ppf(shown[0]) - norm.ppf(shown[1])
    epsilon = max(math.log((1 - 1e-6 - a) / b) for a, b in (shown, shown[::-1]))
    assert min(mu, epsilon) > 0
    row = {"roc": [[str(count / trials) for count in counts]], "trials": trials}
    for delta, value in ((None, mu), (Fraction("1e-6"), epsilon)):
        assert curve_exceeds(row, delta, Fraction(value * (1 - 1e-6)))
        assert not curve_exceeds(row, delta, Fraction(value * (1 + 1e-6)))


def test_an_audit_of_one_data_set_is_none() -> None:
    def equal(predicate: Json) -> None:
        for row in predicate["audits"]:
            row["neighbours"] = [row["neighbours"][0]] * 2

    assert "one data set" in rejected(held(), equal)


def test_an_audit_of_a_few_trials_is_none() -> None:
    found = rejected(held(), lambda p: p["audits"][0].update(trials=1))
    assert "trials" in found


# --- the scope, and the author's word ------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda scope: scope.update(adjacency="zero_out"),
        lambda scope: scope["unit"].update(entity="household"),
        lambda scope: scope.update(model="local"),
        lambda scope: scope["data_accesses"].update(uncovered=["some"]),
        lambda scope: scope["data_accesses"].update(covered=["all"], uncovered=["nothing"]),
        lambda scope: scope.update(outputs=["final"]),
    ],
)
def test_the_declaration_s_digest_covers_the_scope(change: Any) -> None:
    def edited(predicate: Json) -> None:
        before = copy.deepcopy(predicate["scope"])
        change(predicate["scope"])
        predicate["scope"].update(title="another", controller="another")
        assert before != predicate["scope"]

    assert "digest of declaration and scope" in rejected(held(), edited)


@pytest.mark.first_case
@pytest.mark.long_cases("ProposeTestRelease-false_pass:")
@pytest.mark.parametrize(
    ("node", "name"),
    [
        (EventSlack(Gaussian("a", 2), Fraction(1, 10**6), "a tail of the noise"), "slack:"),
        (ProposeTestRelease(Laplace("t", 4), Gaussian("m", 5), Fraction(6, 10**6)), "false_pass:"),
        (CoupledGaussian("m", 5, 1, 3, Fraction(1, 100)), "coupling:"),
        (GDP(1), "opaque:"),
        (Assuming(Gaussian("a", 2), Assumption("own", "it holds", Status.ENFORCED)), "own"),
        (Assuming(Gaussian("a", 2), Assumption("own", "it holds", Status.TESTED)), "own"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_rests_on_the_author_s_word_is_declared_and_listed(node: Node, name: str) -> None:
    """Nobody but the software says 'enforced'."""
    found = certified(mechanism("case", node, ApproxDP(50, Fraction(1, 100)))).certificate
    rows = [r for r in found["predicate"]["assumptions"] if r["id"].startswith(name)]
    assert [row["status"] for row in rows] == ["declared"]
    assert any(line.startswith(name) for line in accept(found).on_trust)

    def without(predicate: Json) -> None:
        predicate["assumptions"] = [a for a in predicate["assumptions"] if a != rows[0]]

    assert "missing, changed, or of no step" in rejected(found, without)

    def enforced(predicate: Json) -> None:
        next(a for a in predicate["assumptions"] if a == rows[0]).update(status="enforced")

    assert "missing, changed, or of no step" in rejected(found, enforced)


# --- conformance rows -----------------------------------------------------------------------------


def rows_with_laws(predicate: Json) -> list[Json]:
    return [row for row in predicate["conformance"] if row["law"]]


def test_a_broken_check_cannot_read_held() -> None:
    """The status was retyped: its p-value, and the statistic, still said broken."""
    for row in rows_with_laws(held()["predicate"]):
        assert float(row["p_value"]) > float(row["error_rate"])

    def retyped(predicate: Json) -> None:
        rows_with_laws(predicate)[0].update(p_value="0.000000000001")

    assert "its status is not its p-value's" in rejected(held(), retyped)

    def statistic(predicate: Json) -> None:
        row = next(r for r in rows_with_laws(predicate) if r["law"] == "mean")
        row.update(statistic="0.5")

    assert "its p-value is not its statistic's" in rejected(held(), statistic)

    def no_value(predicate: Json) -> None:
        rows_with_laws(predicate)[0].update(p_value=None)

    assert "its p-value is missing" in rejected(held(), no_value)


@pytest.mark.first_case
@pytest.mark.parametrize("name", ["range", "mean", "variance", "shape", "successive"])
def test_the_rows_that_the_releases_call_for_are_all_there(name: str) -> None:
    def change(predicate: Json) -> None:
        predicate["conformance"] = [
            row for row in predicate["conformance"] if row["check"] != f"{name} of second"
        ]
        renumber(predicate)

    assert f"no row of the {name} of second" in rejected(held(), change)


NOISE = Gaussian("a", 1)


@pytest.mark.parametrize("off", [0.0, 0.2])
@pytest.mark.parametrize("scale", [1.0, 1.02, 2.0])
def test_p_values_follow_from_their_statistics(scale: float, off: float) -> None:
    """As the audit computes them: fresh noise, noise that is off, and trials that were."""
    draw = np.random.default_rng(3)
    noise = draw.normal(0.01, scale, (3_000, 4, 3))
    noise[draw.random((3_000, 4)) < off] = np.nan
    for finding in check_residuals({"a": noise}):
        if finding.law:
            shown = {
                "id": "c",
                "check": finding.check,
                "status": finding.status,
                "statistic": written(finding.statistic),
                "error_rate": f"{finding.error_rate:.6g}".replace("e-0", "e-"),
                "p_value": decimal_upper(Fraction(finding.p_value)),
                "assumption": finding.assumption,
                "law": finding.law,
                "size": finding.size,
                "among": finding.among,
                "parameter": "" if math.isnan(finding.parameter) else written(finding.parameter),
            }
            check_row(shown, NOISE)
            with pytest.raises(CertificateRejected):
                check_row(shown | {"statistic": "9", "p_value": "0.9"}, NOISE)
