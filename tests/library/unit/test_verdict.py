"""Verdicts: priorities, assumptions, alarms, and one decision error for a whole run."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy

from dpaudit.accountant.account import Account
from dpaudit.accountant.claim import Claim
from dpaudit.audit.attacked import Attacked
from dpaudit.audit.blackbox.claims import EventTest
from dpaudit.audit.bounds.estimators import Counts, TestScores, TrainingScores
from dpaudit.audit.canaries.terms import ScoreTest
from dpaudit.audit.residuals import Finding, check_residuals
from dpaudit.audit.target import Target
from dpaudit.audit.verdict import (
    DECISION_ERROR,
    EXIT_CODES,
    DecisionBudget,
    Judged,
    Lower,
    Ruling,
    Verdict,
    bounds_of,
    conditional,
    deltas,
    exceeds,
    judge,
    judge_program,
    lens,
    lower_for,
    overall,
    raw,
)
from dpaudit.check import standing
from dpaudit.check.assumptions import CLIPPED, DRAWN, GATHERED, SYSTEM
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Assuming
from dpaudit.families.discrete import DiscreteLaplace
from dpaudit.families.opaque import GDP, ZCDP, ApproxDP, NonPrivate, PureDP
from dpaudit.families.sampling import PoissonSampled
from dpaudit.measures.region import region_of
from dpaudit.nodes import Assumption, Node, Status
from tests.library.cli.bench import mechanism, scope, suite

TINY = Fraction(1, 10**5)
OPEN = "real_arithmetic"


def lower(measure: str, decisive: float, **changes: Any) -> Lower:
    found = Lower(
        measure=measure,
        shown=decisive,
        decisive=decisive,
        threshold=0.0,
        counts=Counts(0, 1, 0, 1),
        rates_upper=(1.0, 1.0),
        decisive_rates_upper=(1.0, 1.0),
    )
    return replace(found, **changes)


def attacked(*findings: Finding, scores: tuple[Any, Any] | None = None) -> Attacked:
    case = mechanism("case", Gaussian("a", 2), GDP(1), labels=("a",))
    alternative, null = scores or (np.zeros(2), np.zeros(2))
    return Attacked(
        suite=suite(case),
        trials=len(alternative),
        training_trials=200,
        seed=1,
        attack="exact",
        training=TrainingScores(alternative, null),
        test=TestScores(alternative, null),
        findings=findings,
    )


BROKEN = Finding("variance of a", "broken", 0.5, 1e-6, "variance 0.5")
HELD = Finding("variance of a", "held", 1.0, 1e-6, "variance 1")


def judged(
    claim: Node,
    node: Node | None = None,
    *,
    lens_mu: float | None = None,
    raw_epsilon: float | None = None,
    finding: Finding | None = None,
    extra: tuple[Assumption, ...] = (),
) -> Judged:
    account = Account(node or Gaussian("a", 2), scope())
    lens_bound = None if lens_mu is None else lower("gdp", lens_mu)
    raw_bound = None if raw_epsilon is None else lower("approx_dp", raw_epsilon, delta="0.00001")
    seen = () if finding is None else (finding,)
    checked = Claim(claim, by="a test").check_account(account)
    return judge_program(checked, account, lens_bound, raw_bound, seen, extra)


# --- a single claim ------------------------------------------------------------------------------

# mu = 0.5 and epsilon = 1.993 at 1e-5 are accounted.
TABLE: list[tuple[str, Any, Verdict]] = [
    ("proved, nothing open", {"claim": GDP(0.5)}, Verdict.CERTIFIED),
    ("proved with room", {"claim": ApproxDP(2, TINY)}, Verdict.CERTIFIED),
    ("accountant refutes", {"claim": GDP(0.4)}, Verdict.REFUTED),
    ("accountant refutes epsilon", {"claim": ApproxDP(1.99, TINY)}, Verdict.REFUTED),
    ("no rule", {"claim": PureDP(1)}, Verdict.UNSUPPORTED),
    (
        "not attained",
        {"claim": ZCDP(0.1), "node": PureDP(1, source="x")},
        Verdict.INCONCLUSIVE,
    ),
    ("no guarantee", {"claim": GDP(1), "node": NonPrivate("looked")}, Verdict.INCONCLUSIVE),
    ("lower below claim", {"claim": GDP(0.5), "lens_mu": 0.49}, Verdict.CERTIFIED),
    ("lower above claim", {"claim": GDP(0.5), "lens_mu": 0.51}, Verdict.REFUTED),
    ("lower equals claim", {"claim": GDP(0.5), "lens_mu": 0.5}, Verdict.CERTIFIED),
    (
        "raw above claim",
        {"claim": ApproxDP(2, TINY), "raw_epsilon": 2.01},
        Verdict.REFUTED,
    ),
    (
        "raw above accounted, below the claim",
        {"claim": ApproxDP(3, TINY), "raw_epsilon": 2.5},
        Verdict.ALARM,
    ),
    (
        "lens above accounted, epsilon claimed",
        {"claim": ApproxDP(3, TINY), "lens_mu": 0.6},
        Verdict.ALARM,
    ),
    (
        "lens above accounted, mu claimed with room",
        {"claim": GDP(1), "lens_mu": 0.6},
        Verdict.ALARM,
    ),
    ("conformance broken", {"claim": GDP(0.5), "finding": BROKEN}, Verdict.ALARM),
    ("conformance held", {"claim": GDP(0.5), "finding": HELD}, Verdict.CERTIFIED),
    (
        "refuted comes before alarm",
        {"claim": GDP(0.5), "lens_mu": 0.9, "finding": BROKEN},
        Verdict.REFUTED,
    ),
    (
        "refuted by the accountant comes before alarm",
        {"claim": GDP(0.4), "finding": BROKEN},
        Verdict.REFUTED,
    ),
    (
        "alarm comes before unsupported",
        {"claim": PureDP(1), "finding": BROKEN},
        Verdict.ALARM,
    ),
    (
        "alarm comes before inconclusive",
        {"claim": GDP(1), "node": NonPrivate("looked"), "finding": BROKEN},
        Verdict.ALARM,
    ),
    (
        "no rule, but an attack above the claim",
        {"claim": PureDP(1), "raw_epsilon": 1.5},
        Verdict.REFUTED,
    ),
    (
        "no alarm against an infinite account",
        {"claim": GDP(9), "node": NonPrivate("looked"), "lens_mu": 3.0},
        Verdict.INCONCLUSIVE,
    ),
]


@pytest.mark.parametrize(("case", "verdict"), [row[1:] for row in TABLE], ids=[r[0] for r in TABLE])
def test_the_gravest_finding_decides(case: Any, verdict: Verdict) -> None:
    found = judged(**case)
    assert found.verdict is verdict
    assert found.reason


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        ("enforced", Verdict.CERTIFIED_UNDER_ASSUMPTIONS),
        ("tested", Verdict.CERTIFIED_UNDER_ASSUMPTIONS),
        ("declared", Verdict.CERTIFIED_UNDER_ASSUMPTIONS),
        ("violated", Verdict.INCONCLUSIVE),
    ],
)
def test_assumptions_are_never_dropped(status: str, verdict: Verdict) -> None:
    one = Assumption("weights", "the weights are public", status)  # type: ignore[arg-type]
    inside = judged(GDP(0.5), Assuming(Gaussian("a", 2), one))
    beside = judged(GDP(0.5), extra=(one,))
    # What its author calls enforced is declared; the software's own word stands.
    standing = Verdict.CERTIFIED if status == "enforced" else verdict
    assert (inside.verdict, beside.verdict) == (verdict, standing)
    if standing is not Verdict.CERTIFIED:
        assert "weights" in inside.reason
        assert "weights" in beside.reason


def test_a_claim_that_rests_on_a_violated_assumption_is_not_refuted_either() -> None:
    one = Assumption("weights", "the weights are public", Status.VIOLATED)
    assert judged(GDP(0.1), Assuming(Gaussian("a", 2), one)).verdict is Verdict.INCONCLUSIVE


def row(**changes: Any) -> dict[str, Any]:
    """A conformance row of the program itself."""
    found = {"about": "program", "assumption": "declared_noise", "check": "noise", "status": "held"}
    found["error_rate"] = "0.00001"
    return found | changes


BOUND = {"assumption": "bounded_queries"}


@pytest.mark.parametrize(
    ("rows", "bounded", "noise"),
    [
        ([], "declared", "declared"),
        ([row()], "declared", "tested"),
        ([row(status="broken")], "declared", "violated"),
        ([row(error_rate="0")], "declared", "declared"),
        ([row(status="not_run"), row(**BOUND, status="not_run")], "declared", "declared"),
        ([row(**BOUND)], "tested", "declared"),
        ([row(**BOUND), row(**BOUND, check=CLIPPED)], "enforced", "declared"),
        ([row(**BOUND), row(**BOUND, check=CLIPPED, status="not_run")], "tested", "declared"),
        ([row(**BOUND, check=CLIPPED), row(**BOUND, status="broken")], "violated", "declared"),
        # What held of a stand-in says nothing of the program; what is broken of it does.
        ([row(about="stand_in"), row(**BOUND, about="stand_in")], "declared", "declared"),
        ([row(**BOUND, about="stand_in", check=CLIPPED)], "declared", "declared"),
        ([row(), row(about="stand_in", status="broken")], "declared", "violated"),
    ],
)
def test_what_every_guarantee_rests_on(rows: list[Any], bounded: str, noise: str) -> None:
    assert {a.id: a.status for a in standing(rows)} == {
        "bounded_queries": bounded,
        "declared_noise": noise,
        "real_arithmetic": "declared",
        "random_bits": "declared",
    }


@pytest.mark.parametrize(
    ("rows", "status"),
    [
        ([], "declared"),
        ([row(**BOUND, check=CLIPPED)], "declared"),
        ([row(**BOUND, check=GATHERED)], "enforced"),
        ([row(**BOUND, check=GATHERED, status="not_run")], "declared"),
        ([row(**BOUND, about="stand_in", check=GATHERED)], "declared"),
    ],
)
def test_a_row_has_to_hold_all_of_a_unit_that_is_more_than_a_record(
    rows: list[Any], status: str
) -> None:
    """Rows of items, clipped one by one, protect no user: nothing in a run can tell."""
    assert "whole_units" not in {a.id for a in standing(rows)}
    for unit in ("user", "client"):
        assert {a.id: a.status for a in standing(rows, unit=unit)}["whole_units"] == status


@pytest.mark.parametrize(("held", "status"), [("held", "declared"), ("broken", "violated")])
def test_nothing_is_enforced_of_rows_that_came_ready_made(held: str, status: str) -> None:
    """Rows that a query made are declared; a query that was found violated stays so."""
    rows = [row(**BOUND, check=check, status=held) for check in (CLIPPED, GATHERED)]
    found = {a.id: a for a in standing(rows, unit="user", ready_made="DataFrame")}
    assert found["bounded_queries"].status == status
    assert found["whole_units"].status == "declared"
    assert "each row depends on one unit and public tables" in found["whole_units"].evidence


@pytest.mark.parametrize(
    ("node", "entropy", "arithmetic", "bits"),
    [
        (DiscreteLaplace("a", 2), "", "enforced", "declared"),
        (DiscreteLaplace("a", 2), SYSTEM, "enforced", "enforced"),
        (DiscreteLaplace("a", 2), "seed 7", "enforced", "declared"),
        (Gaussian("a", 2), SYSTEM, "declared", "enforced"),
        (
            PoissonSampled(DiscreteLaplace("a", 2), "0.5"),
            "operating system",
            "enforced",
            "enforced",
        ),
    ],
)
def test_arithmetic_and_bits_follow_from_what_ran(
    node: Any, entropy: str, arithmetic: str, bits: str
) -> None:
    drew = [row(check=DRAWN)]
    found = {a.id: a for a in standing(drew, node, entropy)}
    assert found["real_arithmetic"].status == arithmetic
    assert found["random_bits"].status == bits
    assert ("whoever knows it" in found["random_bits"].evidence) == entropy.startswith("seed")
    sampled = hasattr(node, "rate")  # a batch is drawn by floats
    tested = [*drew, row()]
    noise = {a.id: a.status for a in standing(tested, node, entropy)}["declared_noise"]
    whole = {arithmetic, bits} == {"enforced"} and not sampled
    assert noise == ("enforced" if whole else "tested")
    if arithmetic == "enforced":
        # Nobody drew it, or it was drawn wrong: then it is not enforced.
        undrawn, wrong = standing([], node), standing([row(check=DRAWN, status="broken")], node)
        assert {a.id: a.status for a in undrawn}["real_arithmetic"] == "declared"
        assert {a.id: a.status for a in wrong}["real_arithmetic"] == "violated"


def test_a_bound_that_assumes_a_family_never_refutes_an_epsilon() -> None:
    """mu = 0.49 from the lens reads as epsilon 1.95 at 1e-5; a claim of 1 is not refuted by it."""
    account = Account(PureDP(1, source="x"), scope())
    checked = Claim(ApproxDP(1, TINY), by="a test").check_account(account)
    lens_bound = lower("gdp", 0.49)
    found = judge_program(checked, account, lens_bound, lower("approx_dp", 0.5), (), ())
    assert found.conditional is not None
    assert found.conditional.decisive > 1.9
    assert found.conditional.family == "the Gaussian family"
    assert found.verdict is Verdict.CERTIFIED_UNDER_ASSUMPTIONS


def test_the_bound_of_a_claim_is_in_its_own_measure() -> None:
    lens_bound, raw_bound = lower("gdp", 0.4), lower("approx_dp", 0.3)
    bounds = {
        type(g).__name__: lower_for(Claim(g, by="a test"), lens_bound, raw_bound)
        for g in (GDP(1), ZCDP(1), PureDP(1), ApproxDP(1, TINY))
    }
    assert bounds["GDP"] is lens_bound
    assert bounds["PureDP"] is bounds["ApproxDP"] is raw_bound
    assert bounds["ZCDP"] is not None
    assert bounds["ZCDP"].measure == "zcdp"
    assert all(bound is not None and not bound.family for bound in bounds.values())
    assert conditional(Claim(GDP(1), by="a test"), lens_bound) is None
    assert conditional(Claim(ApproxDP(1, 0), by="a test"), lens_bound) is None
    symbol = ApproxDP(1, sympy.Symbol("d", positive=True))
    assert conditional(Claim(symbol, by="a test"), lens_bound) is None


def test_a_bound_exceeds_numbers_only() -> None:
    bound = lower("gdp", 0.5)
    assert exceeds(bound, Fraction(499, 1000))
    assert exceeds(bound, sympy.sqrt(sympy.Rational(24, 100)))
    assert not exceeds(bound, Fraction(1, 2))
    assert not exceeds(bound, sympy.oo)
    assert not exceeds(bound, sympy.Symbol("mu", positive=True))


def test_reasons_round_outward() -> None:
    """ "At least" never above the bound, "accounted" never below it."""
    refuted = judged(GDP(0.5), lens_mu=0.59999)
    assert "at least 0.5999 " in refuted.reason
    alarm = judged(GDP(1), Gaussian("a", sympy.sqrt(3)), lens_mu=0.69999)
    assert "attacked 0.6999 above accounted 0.5774" in alarm.reason


# --- a whole run ---------------------------------------------------------------------------------


@pytest.mark.parametrize("gravest", list(Verdict))
def test_the_gravest_claim_decides_the_whole(gravest: Verdict) -> None:
    order = list(Verdict)
    lighter = order[order.index(gravest) :]
    assert overall(lighter) is gravest
    assert overall(lighter[::-1]) is gravest


def test_exit_codes() -> None:
    assert {str(verdict): code for verdict, code in EXIT_CODES.items()} == {
        "certified": 0,
        "certified_under_assumptions": 0,
        "refuted": 1,
        "inconclusive": 3,
        "unsupported": 4,
        "alarm": 5,
        "unconfirmed": 6,
    }


@pytest.mark.parametrize("audits", [1, 2, 7])
@pytest.mark.parametrize(
    "claims",
    [
        (GDP(1),),
        (ApproxDP(1, TINY), GDP(1)),
        (ApproxDP(1, TINY), ApproxDP(2, TINY), ApproxDP(1, 0.1), PureDP(1), ZCDP(1)),
    ],
)
def test_the_decision_error_is_spent_once(audits: int, claims: tuple[Node, ...]) -> None:
    stated = [Claim(claim, by="a test") for claim in claims]
    budget = DecisionBudget(audits * bounds_of(stated), audits)
    findings = check_residuals(
        {"a": np.random.default_rng(1).normal(size=(50, 2, 3))}, budget.conformance
    )
    checks = audits * sum(Fraction(finding.error_rate) for finding in findings)
    assert Fraction(99, 100) < checks * 10**6 < 1
    bounds = Fraction(budget.bound) * audits * bounds_of(stated)
    assert Fraction(99, 100) < bounds / (Fraction(DECISION_ERROR) / 2) < 1 + Fraction(1, 10**12)
    assert len(deltas(stated)) == len(set(deltas(stated)))


def test_deltas_of_claims_are_counted_once() -> None:
    symbol = sympy.Symbol("d", positive=True)
    guarantees = (ApproxDP(1, TINY), ApproxDP(3, TINY), PureDP(1), ApproxDP(1, symbol), GDP(1))
    claims = [Claim(g, by="a test") for g in guarantees]
    assert deltas(claims) == [TINY, 0]
    assert bounds_of(claims) == 3
    assert bounds_of([]) == 1


def test_bounds_are_made_at_both_error_rates_from_the_same_counts() -> None:
    rng = np.random.default_rng(5)
    seen = attacked(scores=(rng.normal(0.5, 1, 4000), rng.normal(-0.5, 1, 4000)))
    budget = DecisionBudget(2, 1)
    for bound in (lens(seen, budget), raw(seen, budget, TINY)):
        assert bound is not None
        assert 0 < bound.decisive < bound.shown
        assert bound.counts.trials_null == 4000
        shown, decisive = bound.rates_upper, bound.decisive_rates_upper
        assert decisive[0] > shown[0]
        assert decisive[1] > shown[1]


def test_a_raw_bound_is_made_at_the_printed_delta() -> None:
    """1/3 is printed as 0.333333333334, which is larger: the bound holds at both."""
    rng = np.random.default_rng(5)
    seen = attacked(scores=(rng.normal(2, 1, 4000), rng.normal(-2, 1, 4000)))
    bound = raw(seen, DecisionBudget(1, 1), Fraction(1, 3))
    assert bound is not None
    assert bound.delta == "0.333333333334"


def test_no_bound_where_the_implementation_stopped() -> None:
    stopped = replace(attacked(), training=None, test=None)
    budget = DecisionBudget(2, 1)
    assert lens(stopped, budget) is None
    assert raw(stopped, budget, TINY) is None


# --- one judge -----------------------------------------------------------------------------------


def test_every_audit_asks_the_one_judge(checkout: Path) -> None:
    """Programs, functions, canaries and training: no other place weighs rulings."""
    asking = {
        str(file.relative_to(checkout / "dpaudit"))
        for file in checkout.glob("dpaudit/**/*.py")
        if re.search(r"(?<!def )\bjudge\(", file.read_text())
    }
    judged = {"judge.py", "likely.py"}
    others = {"audit/verdict.py", "audit/canaries/results.py"}
    assert asking == others | {f"audit/blackbox/{name}" for name in judged}
    text = (checkout / "dpaudit/membership/certificate.py").read_text()
    assert "from dpaudit.audit.canaries.results import judged" in text


def test_the_judge_takes_the_gravest_and_the_first_of_equals() -> None:
    rulings = [Ruling(verdict, f"{verdict} {i}") for i in range(2) for verdict in Verdict]
    for start in range(len(Verdict)):
        gravest = list(Verdict)[start]
        left = [ruling for ruling in rulings if ruling.verdict in list(Verdict)[start:]]
        assert judge(left[::-1]) == Ruling(gravest, f"{gravest} 1")
        assert judge(left) == Ruling(gravest, f"{gravest} 0")


@pytest.mark.parametrize("claim", [GDP(1), PureDP(1), ApproxDP(1, TINY), ZCDP(1)])
def test_outputs_and_scores_are_tested_with_one_set_of_bounds(claim: Node) -> None:
    """And with the region of the claim's measure, whoever asks."""
    counts = Counts(70, 1_000, 80, 1_000)
    events, scores = EventTest.of(claim), ScoreTest.of(claim)
    assert events.region == scores.region == region_of(claim)
    assert events.boxed_lower(counts, 0.05) == scores.boxed_lower(counts, 0.05) > 1
    assert EventTest.boxed_lower is ScoreTest.boxed_lower is Target.boxed_lower
    assert EventTest.joint_lower is ScoreTest.joint_lower is Target.joint_lower
