"""audit_function: verdicts, bounds, broken mechanisms, bad input, and its rate of false alarms."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dpaudit.audit
from dpaudit.accountant.claim import Claim
from dpaudit.audit import FunctionAudit, Verdict, audit_function
from dpaudit.audit.blackbox import entry, learned
from dpaudit.audit.blackbox.choice import chosen
from dpaudit.audit.blackbox.claims import EventTest, Tally
from dpaudit.audit.blackbox.draws import read_output
from dpaudit.audit.blackbox.findings import Finding, is_dependent, stream_findings
from dpaudit.audit.bounds.budget import ErrorBudget
from dpaudit.errors import BudgetExceeded, InvalidParameter
from dpaudit.families.opaque import GDP, RDP, ZCDP, ApproxDP, PureDP, RenyiDP

Generator = np.random.Generator
GRID = 2.0**-30


def on_grid(values: Any) -> Any:
    """Released values without the last bits, which a plain sampler of doubles leaks."""
    return np.round(np.asarray(values) / GRID) * GRID


def laplace(scale: float) -> Callable[..., Any]:
    return lambda data, rng, size: on_grid(data + rng.laplace(0, scale, size))


def gaussian(sigma: float) -> Callable[..., Any]:
    return lambda data, rng, size: on_grid(data + rng.normal(0, sigma, size))


def release(data: float, rng: Generator, size: int) -> Any:
    return on_grid(data + rng.laplace(0, 0.5, size))


def audit(mechanism: Any, claim: Any = PureDP(1), **others: Any) -> FunctionAudit:  # noqa: B008
    given = {"trials": 4_000, "seed": 3, "refute_at": 0.01} | others
    d0, d1 = given.pop("data", (0.0, 1.0))
    return audit_function(mechanism, d0, d1, claim=claim, **given)


@pytest.mark.long_cases("<lambda>-claim3", "<lambda>-claim4", "<lambda>-claim5")
@pytest.mark.parametrize(
    ("mechanism", "claim"),
    [
        (laplace(0.5), PureDP(1)),
        (laplace(0.5), ApproxDP(1, 1e-6)),
        (gaussian(0.5), GDP(1)),
        (gaussian(0.5), ZCDP(0.5)),
        (gaussian(0.4), RenyiDP(2, 1)),
        (gaussian(0.4), RDP(2, 1)),
        (laplace(0.5), Claim(PureDP(1), by="a paper")),
    ],
)
def test_too_little_noise_is_refuted_under_every_claim(mechanism: Any, claim: Any) -> None:
    result = audit(mechanism, claim)
    assert result.verdict is Verdict.REFUTED
    assert result.p_value <= result.refute_at
    assert result.lower > result.claimed
    assert result.epsilon_lower > 0
    assert result.findings == ()


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("mechanism", "claim"),
    [
        (laplace(1.0), PureDP(1)),
        (gaussian(1.0), GDP(1)),
        (gaussian(1.0), ZCDP(0.5)),
        (gaussian(1.0), RenyiDP(2, 1)),
    ],
)
def test_enough_noise_is_inconclusive_never_passed(mechanism: Any, claim: Any) -> None:
    """Each errs with probability 0.01."""
    result = audit(mechanism, claim)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert result.lower <= result.claimed
    assert result.smallest_showable > result.claimed
    assert "passed" not in str(result)


def test_the_result_says_what_was_found_and_how_to_see_it_again() -> None:
    result = audit_function(release, 0.0, 1.0, claim=PureDP(1), trials=20_000, seed=1)
    assert result.verdict is Verdict.REFUTED
    assert 1.5 < result.epsilon_lower <= 2.0
    assert 1.0 < result.smallest_showable < 1.2
    assert result.event(np.array([-5.0, 7.0])).tolist() in ([True, False], [False, True])
    assert result.event.text in result.event_text
    fields = json.loads(json.dumps(result.to_json()))
    assert fields["verdict"] == "refuted"
    assert fields["trials"] == 20_000
    assert result.seconds["mechanism"] <= result.seconds["total"]


def test_the_reproducer_runs_as_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    result = audit_function(release, 0.0, 1.0, claim=PureDP(1), trials=5_000, seed=1)
    assert f"from {__name__} import release as mechanism" in result.reproducer
    assert len(result.reproducer.splitlines()) <= 10
    exec(result.reproducer, {})  # noqa: S102 (our own text)
    lines = capsys.readouterr().out.splitlines()
    counts = {line.split()[0]: int(line.split()[1]) for line in lines}
    likely, other = f"d{result.favours}", f"d{1 - result.favours}"
    assert counts[likely] > math.e * counts[other] or 5_000 - counts[other] > math.e * (
        5_000 - counts[likely]
    )


def answer(data: float, rng: Generator, size: int) -> Any:
    return np.where(rng.random(size) < (0.9 if data else 0.3), "yes", "no")


def answer_or_none(data: float, rng: Generator, size: int) -> Any:
    return np.array([u if u == "yes" else None for u in answer(data, rng, size)], dtype=object)


def phase(data: float, rng: Generator, size: int) -> Any:
    return rng.normal(size=size) + 1j * rng.normal(4 * data, 1, size)


@pytest.mark.first_case
@pytest.mark.parametrize("mechanism", [answer, answer_or_none, phase])
def test_outputs_that_are_not_real_numbers_are_reproduced(
    mechanism: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """The counts differ by far more than the claim allows, and outputs of the event are shown."""
    result = audit_function(mechanism, 0.0, 1.0, claim=PureDP(0.5), trials=4_000, seed=1)
    assert result.verdict is Verdict.REFUTED
    assert len(result.reproducer.splitlines()) <= 10
    exec(result.reproducer, {})  # noqa: S102 (our own text)
    rows = [row for row in capsys.readouterr().out.splitlines() if row.startswith("d")]
    low, high = sorted(int(row.split()[1]) for row in rows)
    assert high > 1.5 * low
    assert all("of 4000 [" in row for row in rows)


def sometimes(data: float, rng: Generator, size: int) -> Any:
    if rng.random() < (0.6 if data else 0.05):
        raise ValueError
    return rng.normal(size=size)


def test_exceptions_are_reproduced_call_by_call() -> None:
    result = audit_function(sometimes, 0.0, 1.0, claim=PureDP(0.5), trials=2_000, seed=1)
    assert result.verdict is Verdict.REFUTED
    assert "audit_function(mechanism, d0, d1" in result.reproducer


def test_equal_data_sets_are_said_to_show_nothing() -> None:
    result = audit_function(release, 1.0, 1.0, claim=PureDP(1), trials=1_000, seed=1)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "d0 and d1 are equal" in result.reason
    assert Finding.EQUAL_DATA in result.findings
    assert not audit(release).findings


def test_a_learned_event_is_reproduced_by_the_audit_itself() -> None:
    def rotated(data: float, rng: Generator, size: int) -> Any:
        angle = rng.random(size) * 2 * np.pi
        radius = (1.0 + data) * (1 + 0.01 * rng.random(size))
        return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])

    result = audit(rotated)
    assert result.verdict is Verdict.REFUTED
    if not result.event.code:
        assert "audit_function(mechanism, d0, d1, claim=PureDP(epsilon=1.0)" in result.reproducer
    assert "bind first: mechanism" in result.reproducer


@pytest.mark.quality
def test_the_same_seed_gives_the_same_result() -> None:
    first, second = audit(laplace(0.9)), audit(laplace(0.9))
    keys = set(first.to_json()) - {"seconds"}
    assert {k: first.to_json()[k] for k in keys} == {k: second.to_json()[k] for k in keys}
    assert audit(laplace(0.9), seed=4).tally != first.tally


def test_without_scikit_learn_built_in_scores_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learned, "has_trees", lambda: False)

    def vector(data: float, rng: Generator, size: int) -> Any:
        return on_grid(data * 0.5 + rng.laplace(0, 1, (size, 4)))

    assert audit(vector, PureDP(1), trials=20_000).verdict is Verdict.REFUTED


def test_low_bits_of_plain_samplers_are_seen_where_bits_are_asked_for() -> None:
    def plain(data: float, rng: Generator, size: int) -> Any:
        return data + rng.laplace(0, 1, size)

    result = audit(plain, attack="bits")
    assert result.verdict is Verdict.REFUTED
    assert "bit" in result.event.text
    assert Finding.LOW_BITS not in result.findings
    assert audit(plain).verdict is Verdict.INCONCLUSIVE


@pytest.mark.quality
def test_what_low_bits_would_refute_is_a_note_without_a_verdict() -> None:
    def plain(data: float, rng: Generator, size: int) -> Any:
        return data + rng.laplace(0, 1, size)

    many: dict[str, Any] = {"claim": PureDP(1.05), "trials": 40_000}
    noted, rounded = audit(plain, **many), audit(laplace(1.0), **many)
    assert noted.findings == (Finding.LOW_BITS,)
    assert noted.verdict is rounded.verdict is Verdict.INCONCLUSIVE
    assert "this verdict does not read them, attack='bits'" in noted.details
    assert noted.to_json()["findings"].keys() == {"low_bits"}
    assert noted.p_value == 1
    assert rounded.findings == ()
    assert audit(plain, **many, attack=lambda x: -x).findings == ()


@pytest.mark.quality
def test_low_bits_are_not_noted_where_they_show_nothing() -> None:
    """Twenty samplers on one grid; a note needs six standard errors beyond the claim: < 1e-6."""
    noted = [audit(laplace(1.0), PureDP(1.0), trials=10_000, seed=s).findings for s in range(20)]
    assert noted == [()] * 20


def test_an_own_attack_is_used() -> None:
    result = audit(laplace(0.5), attack=lambda x: -x)
    assert result.verdict is Verdict.REFUTED
    assert "the score" in result.event.text or "output" in result.event.text
    with pytest.raises(InvalidParameter, match="attack"):
        audit(laplace(0.5), attack=lambda x: 1.0)


@pytest.mark.quality
def test_rare_outputs_of_the_data_itself() -> None:
    """Found with probability 0.9 or more: 60 of 200,000 draws a side are the secret."""

    def leaks(data: float, rng: Generator, size: int) -> Any:
        noisy = on_grid(data + rng.laplace(0, 1, size))
        return np.where(rng.random(size) < 3e-4, data, noisy)

    found = audit(leaks, ApproxDP(1, 1e-7), trials=100_000, refute_at=0.05)
    assert found.verdict is Verdict.REFUTED


def test_large_epsilon() -> None:
    found = audit(laplace(0.1), PureDP(8), trials=100_000, refute_at=0.05)
    assert found.verdict is Verdict.REFUTED
    assert audit(laplace(0.125), PureDP(8), trials=50_000).verdict is Verdict.INCONCLUSIVE


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"trials": 0},
        {"trials": 1},
        {"trials": 1e4},
        {"trials": True},
        {"confidence": 0.5},
        {"confidence": 1.0},
        {"confidence": math.nan},
        {"refute_at": 0.0},
        {"refute_at": 0.9},
        {"refute_at": math.nan},
        {"seed": -1},
        {"seed": 0.5},
        {"claim": 1.0},
        {"claim": "PureDP(1)"},
        {"attack": "everything"},
    ],
)
def test_bad_arguments_are_errors_before_anything_is_drawn(wrong: dict[str, Any]) -> None:
    def never(data: Any, rng: Generator, size: int) -> Any:
        raise AssertionError

    with pytest.raises(InvalidParameter, match=next(iter(wrong))):
        audit(never, **wrong)


def test_a_mechanism_that_cannot_be_called() -> None:
    with pytest.raises(InvalidParameter, match="mechanism"):
        audit(3)


def test_eight_trials_show_nothing_and_say_so() -> None:
    result = audit(laplace(0.1), trials=8)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert result.smallest_showable > 1.5


def test_unknown_names_of_the_package() -> None:
    with pytest.raises(AttributeError, match="nothing"):
        _ = dpaudit.audit.nothing
    assert "audit_function" in dir(dpaudit.audit)


# --- parts ----------------------------------------------------------------------------------------


def test_streams_that_repeat_and_streams_that_do_not() -> None:
    rng = np.random.default_rng(0)
    coins = [read_output(rng.integers(0, 2, 500), 500, "x") for _ in range(4)]
    assert stream_findings(coins) == []
    same = [read_output(np.arange(500) % 7, 500, "x")] * 2
    assert stream_findings(same) == [Finding.IGNORES_GENERATOR]
    rare = [read_output(np.r_[np.zeros(499), i], 500, "x") for i in range(4)]
    assert stream_findings(rare) == []


def test_counts_of_calls_are_compared() -> None:
    rng = np.random.default_rng(0)
    sizes = np.full(8, 1_000)
    assert not any(is_dependent(rng.binomial(1_000, 0.3, 8), sizes) for _ in range(500))
    assert is_dependent(rng.binomial(1_000, rng.random(8)), sizes)
    assert not is_dependent(np.zeros(8), sizes)


def renyi(tally: Tally, order: float) -> float:
    return EventTest.of(RenyiDP(order, 1)).boxed_lower(tally.counts, 0.05)


def test_renyi_bound_is_below_the_divergence_of_the_true_rates() -> None:
    p, q, order = 0.6, 0.2, 2.0
    exact = math.log(p**2 / q + (1 - p) ** 2 / (1 - q))
    bound = renyi(Tally(60_000, 100_000, 20_000, 100_000), order)
    assert 0.9 * exact < bound < exact
    assert renyi(Tally(10, 100, 20, 100), order) == 0.0
    assert renyi(Tally(100, 100, 0, 100), 1.5) > 2


def test_p_values_agree_with_the_joint_test_up_to_their_shares() -> None:
    from dpaudit.audit.bounds.joint import region_p_value

    target = EventTest.of(PureDP(1))
    for hits in (5_000, 5_100, 5_200):
        tally = Tally(hits, 10_000, 1_800, 10_000)
        joint = region_p_value(hits, 10_000, 1_800, 10_000, target.region)
        found = target.p_value(tally, 1e-12)
        assert min(1.0, joint) <= found * (1 + 1e-6)
        assert found <= max(joint / 0.94, 1e-9) or found == 1.0


# --- false alarms ---------------------------------------------------------------------------------


def tight_response(data: int, rng: Generator, size: int) -> Any:
    return rng.random(size) < (1 / (1 + math.exp(-1)) if data else 1 / (1 + math.e))


def tight_pair(data: float, rng: Generator, size: int) -> Any:
    return on_grid(data * np.array([0.5, 0.5]) + rng.laplace(0, 1, (size, 2)))


@pytest.mark.quality
@pytest.mark.parametrize(
    ("mechanism", "claim"),
    [
        (tight_response, PureDP(1)),
        pytest.param(laplace(1.0), PureDP(1), marks=pytest.mark.quality),
        pytest.param(tight_pair, PureDP(1), marks=pytest.mark.quality),
        pytest.param(gaussian(1.0), GDP(1), marks=pytest.mark.quality),
    ],
)
def test_claims_that_hold_with_nothing_to_spare_are_seldom_refuted(
    mechanism: Any, claim: Any
) -> None:
    """20 audits each at 5%: 6 false alarms or more have probability below 4e-4 in each case."""
    results = [
        audit(mechanism, claim, trials=1_000, refute_at=0.05, seed=seed) for seed in range(20)
    ]
    assert sum(r.verdict is Verdict.REFUTED for r in results) < 6
    assert sum(r.lower > r.claimed for r in results) < 6


def test_the_error_budget_is_never_overspent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every event of an audit takes its share of one budget; a share too many stops the audit."""
    spent: list[float] = []
    spend = ErrorBudget.spend

    def noted(budget: ErrorBudget, share: float, what: str) -> float:
        spent.append(share)
        return spend(budget, share, what)

    monkeypatch.setattr(ErrorBudget, "spend", noted)
    audit(laplace(0.5))
    assert 0.99 < sum(spent) <= 1
    monkeypatch.setattr(entry, "chosen", lambda found, total: chosen(found, 1.2 * total))
    with pytest.raises(BudgetExceeded, match="audit_function"):
        audit(laplace(0.5))
