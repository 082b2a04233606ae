"""Membership audits: coins, attacks, bounds that hold, findings, bad input."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binomtest

from dpaudit.audit.bounds.guessing import Sealed
from dpaudit.audit.canaries.commitment import CommitmentMismatch
from dpaudit.audit.canaries.terms import CanaryTerms
from dpaudit.audit.verdict import Verdict
from dpaudit.errors import InvalidParameter, UnknownTarget
from dpaudit.families.opaque import GDP, ZCDP, ApproxDP, PureDP
from dpaudit.membership import (
    Data,
    FunctionTarget,
    SklearnTarget,
    Study,
    audit_training,
    blind_baseline,
)
from dpaudit.membership import study as study_module
from dpaudit.membership.attacks import ATTACKS, View, chosen_attacks
from dpaudit.membership.bounds import (
    Known,
    bound_of,
    choose_guessing,
    coins_needed,
    count_guesses,
    refused_after,
    run_log_e_value,
    strongest,
)
from dpaudit.membership.coins import coins_lower
from dpaudit.membership.data import duplicates, without_duplicates
from dpaudit.membership.exposure import exposure, rank_sums
from dpaudit.membership.results import attack_result
from dpaudit.membership.signals import signals
from dpaudit.membership.study import error_shares
from dpaudit.membership.targets import Released, as_target, named_target, numbers_of
from tests.support.membership import (
    Linear,
    Null,
    background,
    copied,
    laplace,
    logits,
    looked_up,
    loss_gradients,
    numbered,
    remembering,
    responding,
    response,
)

ERROR = 0.05


def asked(claim: Any) -> Any:
    return CanaryTerms.of(claim, 0.95, 1e-4, 0).target


def audited(null: Null, models: int, units: int, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    included = rng.random((models, units)) < 0.5
    scores = null.scores(included, rng)
    half = models // 2
    known = Known(scores[:half], included[:half])
    target = asked(ApproxDP(0, null.delta))
    return bound_of(known, scores[half:], included[half:], target, ERROR, seed)


# --- bounds ---------------------------------------------------------------------------------------


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("null", [response(1.0), laplace(1.0), response(0.0)], ids=str)
def test_a_bound_exceeds_the_truth_no_more_often_than_stated(null: Null) -> None:
    """300 audits at 5%: more than 29 have probability below 1e-3 where the error is exactly 5%."""
    wrong = sum(audited(null, 8, 40, seed).value > null.epsilon for seed in range(300))
    assert wrong <= 29


def test_records_that_fall_together_are_not_taken_for_independent() -> None:
    """One draw a model decides all its records: pooled counts of binomials would be far too sure.

    Each record alone is at epsilon 1; jointly the whole model is one response.  The bound of one
    run holds for mechanisms that are private in every coin; this one is not ("not x" of the others
    tells), and a bound of a single unit must hold for it: trials of one record are independent.
    """
    null = copied(1.0)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        included = rng.random((400, 6)) < 0.5
        scores = null.scores(included, rng)
        found = bound_of(
            Known(scores[:200, :1], included[:200, :1]),
            scores[200:, :1],
            included[200:, :1],
            asked(PureDP(0)),
            1e-4,
            seed,
        )
        assert found.value <= 1.0


def test_guesses_are_counted_once_and_never_on_references() -> None:
    rng = np.random.default_rng(0)
    included = rng.random((8, 30)) < 0.5
    scores = included + rng.normal(0, 0.1, included.shape)
    chosen = choose_guessing(Known(scores[:4], included[:4]), 4, asked(PureDP(0)), ERROR)
    sealed = Sealed(included[4:].ravel())
    correct, guesses, canaries = count_guesses(chosen, scores[4:], sealed, 0)
    assert canaries == 4 * chosen.units.size == 120
    assert correct == guesses > 60
    with pytest.raises(InvalidParameter, match="counted already"):
        count_guesses(chosen, scores[4:], sealed, 0)


def test_choices_do_not_depend_on_the_coins_that_are_counted() -> None:
    rng = np.random.default_rng(1)
    included = rng.random((8, 30)) < 0.5
    scores = included + rng.normal(0, 0.7, included.shape)
    known = Known(scores[:4], included[:4])
    target = asked(ApproxDP(0, 1e-3))
    first = choose_guessing(known, 4, target, ERROR)
    again = choose_guessing(known, 4, target, ERROR)
    assert (first.units == again.units).all()
    assert first.guesses == again.guesses


def test_delta_takes_units_out_of_play() -> None:
    """With delta 1e-3 and 4,000 coins the budget is 4: fewer units promise more."""
    rng = np.random.default_rng(2)
    included = rng.random((20, 400)) < 0.5
    strength = np.where(np.arange(400) < 40, 6.0, 0.0)
    scores = strength * included + rng.normal(0, 1, included.shape)
    known = Known(scores[:10], included[:10])
    chosen = choose_guessing(known, 10, asked(ApproxDP(0, 1e-3)), ERROR)
    assert chosen.units.size < 100
    assert np.mean(chosen.units < 40) > 0.3
    assert choose_guessing(known, 10, asked(PureDP(0)), ERROR).units.size == 400


def test_one_record_in_many_runs_is_counted_by_its_own_trials() -> None:
    rng = np.random.default_rng(3)
    included = rng.random((2_000, 1)) < 0.5
    scores = 2.0 * included + rng.normal(0, 1, included.shape)
    known = Known(scores[:500], included[:500])
    found = bound_of(known, scores[500:], included[500:], asked(GDP(0)), ERROR, 0)
    assert found.method == "independent_runs"
    assert 1.6 < found.value <= 2.0
    assert "models with the record above the threshold" in found.words


def test_coins_of_one_unit_bound_epsilon_in_closed_form_without_delta() -> None:
    """Without delta the p-value is that of a binomial test (Clopper and Pearson, one-sided)."""
    for right, guesses in ((50, 50), (90, 100), (180, 200)):
        bound = float(coins_lower(right, guesses, 500, 0.0, 1e-3)[0])
        test = binomtest(right, guesses, float(expit(bound)), alternative="greater")
        assert test.pvalue == pytest.approx(1e-3, rel=1e-6)
    assert coins_lower(5, 10, 10, 0.0, 0.05)[0] == 0.0
    assert coins_lower(0, 0, 10, 0.0, 0.05)[0] == 0.0
    assert coins_lower(10, 10, 10, 1.0, 0.05)[0] == 0.0  # delta 1 tells all coins


@pytest.mark.parametrize(
    ("epsilon", "delta", "coins", "guesses"), [(1.0, 0.02, 200, 60), (2.0, 1e-3, 400, 100)]
)
def test_coins_of_the_leakiest_training_are_not_bounded_too_high(
    epsilon: float, delta: float, coins: int, guesses: int
) -> None:
    """Randomised response that tells the coin with probability delta, guessed as well as it can be.

    At an error of 5%, 5.7% of 20,000 audits is five standard errors; a bound that forgets the told
    coins is wrong more often.
    """
    rng = np.random.default_rng(5)
    told = np.minimum(rng.binomial(coins, delta, 20_000), guesses)
    right = told + rng.binomial(guesses - told, expit(epsilon))
    counts, times = np.unique(right, return_counts=True)

    def wrong(of: float) -> float:
        bounds = coins_lower(counts, np.full(counts.size, guesses), coins, of, 0.05)
        return float(times[bounds > epsilon].sum() / right.size)

    assert 0.01 < wrong(delta) <= 0.057
    assert delta < 0.01 or wrong(0.0) > 0.07


def test_errors_of_all_attacks_are_one_error() -> None:
    for count in range(1, 9):
        shares = error_shares({f"attack {place}": float(place) for place in range(count)})
        assert sum(shares.values()) == 1.0
        assert shares[f"attack {count - 1}"] == max(shares.values())
    assert error_shares({}) == {}


@pytest.mark.quality
def test_a_forest_and_probes_see_what_a_score_alone_hides() -> None:
    """Noise cut at one deviation, whose ends are exact; a move along a probe."""
    rng = np.random.default_rng(6)
    included = rng.random((800, 1)) < 0.5
    noise = rng.normal(0, 1, (800, 1))
    cut = np.clip(noise, -1, 1) + 0.05 * included
    moved = np.column_stack([noise, noise + 3 * included])
    areas = []
    for shown in ({"fit": cut}, {"fit": noise, "probes": moved}):
        seen, _ = view()
        seen = replace(
            seen,
            references={name: values[:400] for name, values in shown.items()},
            included=included[:400],
            targets={name: values[400:] for name, values in shown.items()},
        )
        areas.append({
            name: attack_result(ATTACKS[name], ATTACKS[name].score(seen), included[400:]).auc.value
            for name in ("lira", "lira_queries", "forest")
        })  # fmt: skip
    assert areas[0]["lira"] + 0.05 < areas[0]["forest"]
    assert areas[1]["lira"] < 0.56 < 0.9 < min(areas[1]["forest"], areas[1]["lira_queries"])


@pytest.mark.quality
def test_runs_multiply_and_are_valid_against_true_claims() -> None:
    """200 sequences of 5 runs at epsilon 1, error 5%: 21 or more have probability below 1e-3."""
    rng = np.random.default_rng(4)
    refuted = {0.25: 0, 1.0: 0}
    for _ in range(200):
        correct = [int(rng.binomial(20, expit(1.0))) for _ in range(5)]
        for epsilon in refuted:
            log = sum(run_log_e_value(right, 20, 50, epsilon, 0.0, 0.75) for right in correct)
            refuted[epsilon] += log >= -math.log(ERROR)
    assert refuted[1.0] <= 20
    assert refuted[0.25] > 100
    with pytest.raises(InvalidParameter):
        run_log_e_value(1, 2, 3, 1.0, 0.0, 1.0)


@pytest.mark.quality
@pytest.mark.parametrize("audits", [200, pytest.param(4_000, marks=pytest.mark.quality)])
def test_a_test_that_may_stop_at_any_model_refuses_true_claims_no_more_often_than_stated(
    audits: int,
) -> None:
    """Randomised response, of which the claim is exactly true; at error 5% and three deviations."""
    null, target = response(1.0), CanaryTerms.of(PureDP(1), 0.95, 1e-4, 0).target
    rng, refused = np.random.default_rng(23), 0
    for _ in range(audits):
        included = rng.random((16, 20)) < 0.5
        scores = null.scores(included, rng)
        known = Known(scores[:8], included[:8])
        refused += refused_after(known, scores[8:], included[8:], target, 0.05) is not None
    assert refused / audits <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / audits)


def test_a_false_claim_is_refused_before_all_models_are_seen() -> None:
    """Coins told at epsilon 3, against a claim of 1, at error 1e-4; a third of 40 models do."""
    null, target = response(3.0), CanaryTerms.of(PureDP(1), 0.95, 1e-4, 0).target
    rng = np.random.default_rng(24)
    included = rng.random((48, 20)) < 0.5
    scores = null.scores(included, rng)
    known = Known(scores[:8], included[:8])
    stopped = refused_after(known, scores[8:], included[8:], target, 1e-4)
    assert stopped is not None
    assert stopped <= 13
    # Guesses that knew the coins of the models they are counted on would refuse a true claim.
    blind = rng.random((40, 20)) < 0.5
    told = Known(blind[:8] + 0.0, blind[:8])
    assert refused_after(told, blind + 0.0, blind, target, 1e-4) is not None
    assert refused_after(known, null.scores(~blind, rng), blind, target, 1e-4) is None


def test_long_trainings_are_announced_with_what_they_could_show(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(study_module, "LONG", 0.0)
    study = Study((responding, looked_up), numbered(40), 4, seed=1)
    with pytest.warns(study_module.LongTraining, match=r"5 trainings of 0 s .*; at best little"):
        study.train(could_show="; at best little")


def test_what_no_outcome_could_show_is_known_beforehand() -> None:
    assert strongest(asked(PureDP(3)), 4, 5, 1e-4) < 3
    needed = coins_needed(asked(PureDP(3)), 1e-4)
    q = float(expit(3.0))
    assert needed is not None
    assert math.log(1e-4) / math.log(q) <= needed <= math.log(1e-4) / math.log(q) + 2


# --- studies --------------------------------------------------------------------------------------


def study(fit: Any = responding, **given: Any) -> Study:
    asked = {"models": 8, "seed": 3} | given
    return Study((fit, looked_up), numbered(60), **asked)


@pytest.mark.quality
@pytest.mark.long("the models of two studies")
def test_a_study_refutes_a_false_claim_and_not_a_true_one() -> None:
    found = study(remembering).run(claim=PureDP(2), attacks="loss,lira")
    assert found.verdict is Verdict.REFUTED
    assert found.decisive is not None
    assert found.decisive.value > 2
    assert found.bound is not None
    assert found.bound.value > found.decisive.value
    assert found.exposure.exposed.sum() == 0 or found.exposure.exposed.sum() <= 60
    true = study(models=12).run(claim=PureDP(1), attacks="loss")
    assert true.verdict is Verdict.INCONCLUSIVE
    assert "pass" not in str(true)


@pytest.mark.parametrize(("fit", "models"), [(remembering, 8), (responding, 16)])
def test_a_study_stops_at_a_look_where_it_refutes_and_looks_share_the_error(
    fit: Any, models: int
) -> None:
    asked: dict[str, Any] = {"models": 16, "references": 0.25, "look": 8}
    target = (lambda records, rng: fit(records, rng), looked_up)  # starts no process
    looked_at = Study(target, numbered(60), seed=3, **asked)
    found = looked_at.run(claim=PureDP(2), attacks="loss,lira")
    assert (found.verdict is Verdict.REFUTED) == (models == 8)
    assert (found.models, found.references) == (models, 4)
    assert len(looked_at._done) == models + 2
    assert max(bound.counts["canaries"] for bound in found.bounds.values()) <= 60 * (models - 4)
    assert found.decisive is not None
    assert found.decisive.error == 1e-4 / 4
    assert found.bounds["loss"].error == pytest.approx(0.05 / 4)
    assert "after 8 of 16 models" in found.findings[-1].words


@pytest.mark.quality
def test_without_a_claim_there_is_a_bound_and_no_verdict() -> None:
    found = study(remembering).run(attacks=["loss"])
    assert found.verdict is None
    assert found.reason == "no claim was given"
    assert found.bound is not None
    assert found.bound.value > 2
    assert "epsilon >= " in str(found)


@pytest.mark.quality
def test_results_depend_on_seed_alone_and_a_killed_study_resumes(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"claim": PureDP(1), "attacks": "loss"}
    first = study(folder=tmp_path / "a").run(**asked)
    files = sorted((tmp_path / "a" / "runs").glob("*/*.npz"))
    assert len(files) == 8 + 2
    for path in files[:5]:
        path.unlink()
    kept = {path: path.stat().st_mtime_ns for path in files[5:]}
    again = study(folder=tmp_path / "a").run(**asked)
    assert all(path.stat().st_mtime_ns == time for path, time in kept.items())
    other = study(folder=tmp_path / "b").run(**asked)
    assert first.bounds == again.bounds == other.bounds
    assert first.commitment == again.commitment != other.commitment  # another salt


def test_coins_that_were_changed_are_refused(tmp_path: Path) -> None:
    study(folder=tmp_path).coins()
    with pytest.raises(InvalidParameter, match=r"another study"):
        Study((responding, looked_up), numbered(61), 8, folder=tmp_path, seed=3).coins()
    labels = json.loads((tmp_path / "labels.json").read_text())
    labels["labels"] = ("00" if labels["labels"][:2] != "00" else "01") + labels["labels"][2:]
    (tmp_path / "labels.json").write_text(json.dumps(labels))
    with pytest.raises(CommitmentMismatch):
        study(folder=tmp_path).run()


def test_coins_do_not_follow_from_what_else_a_seed_draws(tmp_path: Path) -> None:
    """Data shuffled by the study's own seed must say nothing of who is in."""
    included = study(folder=tmp_path, seed=5).coins().included
    bits = np.unpackbits(np.frombuffer(np.random.default_rng(5).bytes(60), dtype=np.uint8))
    assert 0.3 < np.mean(bits[: included.size] == included) < 0.7


def test_users_are_in_or_out_with_all_their_records() -> None:
    data = numbered(60)
    units = np.repeat(np.arange(12), 5)
    seen: list[Any] = []

    def watched(records: Data, rng: Any) -> Any:
        seen.append(records.features[:, 0].astype(int))
        return remembering(records, rng)

    found = Study((watched, looked_up), Data(data.features, data.labels, units), 8, seed=1).run(
        attacks="loss"
    )
    assert all(set(np.bincount(units[rows])) <= {0, 5} for rows in seen)
    assert found.units == 12
    assert found.bound is not None
    assert found.bound.counts["canaries"] <= 4 * 12


def test_numbers_of_64_bits_reach_the_training_as_they_are() -> None:
    """Records that differ in the last bits of float64, and are equal in float32."""
    table = 1.0 + np.arange(40)[:, None] * 2.0**-50
    seen: list[Any] = []

    def fit(records: Data, rng: Any) -> Any:
        assert records.features.dtype == np.float64
        seen.extend(records.features[:, 0])
        return records.features[:, 0], rng.normal(0, 0.1, 40)

    def score(model: Any, records: Data) -> Any:
        present, noise = model
        return np.isin(records.features[:, 0], present) + noise[: len(records)]

    found = Study((fit, score), table, 8, seed=0).run(claim=PureDP(0.5), attacks="loss")
    assert set(seen) == set(table[:, 0])
    assert found.verdict is Verdict.REFUTED


@pytest.mark.quality
def test_a_bound_above_the_claim_that_refutes_nothing_is_said_with_what_would_decide() -> None:
    found = study(responding, models=24).run(claim=PureDP(0.55), attacks="loss", refute_at=1e-9)
    assert found.bound is not None
    assert found.bound.value > 0.55
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "is above the claim at 95% confidence, and not at the error" in found.reason
    assert "more models, fewer canaries or released parameters would decide" in found.reason
    low = replace(found, bounds={}, decisive=replace(found.decisive, value=0.0))  # type: ignore[type-var]
    assert low.reason.startswith("nothing above the claim was shown; at most")


# --- findings and bad input -----------------------------------------------------------------------


def test_too_few_coins_are_said_before_any_training() -> None:
    def never(records: Data, rng: Any) -> Any:
        raise AssertionError("trained")

    with pytest.raises(InvalidParameter, match=r"coins in 4 target models .* are needed"):
        Study((never, looked_up), numbered(5), 8).run(claim=PureDP(6))


def test_too_few_coins_for_any_bound_are_said_without_a_claim_too() -> None:
    def never(records: Data, rng: Any) -> Any:
        raise AssertionError("trained")

    with pytest.raises(InvalidParameter, match=r"4 coins in 2 target models .* 5 are needed"):
        Study((never, looked_up), numbered(2), 4).run(attacks="loss")
    assert coins_needed(asked(PureDP(0)), ERROR) == 5  # 2^-5 < 5% < 2^-4


@pytest.mark.quality
def test_doubles_void_the_bound_and_are_named() -> None:
    data = numbered(60)
    features = data.features.copy()
    features[7], features[9] = features[3], features[3]
    labels = data.labels
    assert labels is not None
    labels = labels.copy()
    labels[[7, 9]] = labels[3]
    doubled = Data(features, labels)
    assert duplicates(doubled) == [(3, 7, 9)]
    found = Study((remembering, looked_up), doubled, 8, seed=1).run(claim=PureDP(1))
    assert found.bound is None
    assert found.verdict is None
    assert "record 3, record 7, record 9" in found.findings[0].words
    assert found.reason == "no bound: duplicates"
    kept = without_duplicates(doubled)
    assert len(kept) == 58
    assert duplicates(kept) == []
    background = doubled.take(np.array([3]))
    assert duplicates(kept, background) == [(3, -1)]
    units = np.arange(60)
    units[[7, 9]] = 3
    assert duplicates(Data(features, labels, units)) == []


def test_noise_of_one_seed_is_a_finding_and_the_coins_alone_refute() -> None:
    def seeded(records: Data, rng: Any) -> Any:
        return remembering(records, np.random.default_rng(0))

    found = study(seeded).run(claim=PureDP(1), attacks="loss")
    assert found.verdict is Verdict.REFUTED
    assert [f.name for f in found.findings] == [
        "the same noise in every model",
        "models to refusal",
    ]
    assert "no claim about noise is true of it" in found.findings[0].words


def test_a_fit_without_a_generator_is_audited() -> None:
    def without(records: Data) -> Any:
        return remembering(records, np.random.default_rng())

    found = study(without).run(claim=PureDP(1), attacks="loss")
    assert found.verdict is Verdict.REFUTED


def test_a_score_without_noise_is_no_generator_ignored() -> None:
    """One record is told as it is, the others behind noise: the claim is refuted."""

    def leaking(records: Data, rng: Any) -> Any:
        told = responding(records, rng)
        told[0] = float((records.features[:, 0] == 0).any())
        return told

    whole = numbered(20)
    parts = {"audited": whole.take(np.arange(1)), "background": whole.take(np.arange(1, 20))}
    found = Study((leaking, looked_up), models=80, seed=1, **parts).run(
        claim=PureDP(1), attacks="loss"
    )
    assert [finding.name for finding in found.findings] == ["models to refusal"]
    assert found.verdict is Verdict.REFUTED


def test_equal_contents_are_doubles_however_they_are_stored() -> None:
    table = np.array([["a", 1.5], ["b", 2.0], ["".join(["a"]), float("1.5")]], dtype=object)
    table[0, 0], table[2, 0] = "long text " * 3, "".join(["long text "] * 3)
    assert duplicates(Data(table)) == [(0, 2)]
    assert duplicates(Data(np.array([[0.0], [1.0], [-0.0]]))) == [(0, 2)]


@pytest.mark.quality
def test_what_training_writes_into_records_or_prints_stays_there(capsys: Any) -> None:
    """Scores of a later model, or the same one asked again, must not move by it."""

    def printing(records: Data, rng: Any) -> Any:
        sys.stdout.write("epoch 1\n")
        model = remembering(records, rng)
        records.features[:] = -1.0
        return model

    def spoiling(model: Any, records: Data) -> Any:
        found = looked_up(model, records)
        records.features[:, 0] = 0.0
        return found

    data = numbered(40)
    clean = Study((remembering, looked_up), data, 6, seed=0).run(attacks="loss")
    found = Study((printing, spoiling), data, 6, seed=0).run(attacks="loss")
    assert found.bounds == clean.bounds
    assert data.features[:, 0].tolist() == list(range(40))
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("epoch 1")) == ("", 8)


@pytest.mark.quality
def test_trainings_keep_to_one_thread_and_give_the_others_back() -> None:
    from threadpoolctl import threadpool_info, threadpool_limits

    seen: list[int] = []

    def counting(records: Data, rng: Any) -> Any:
        seen.extend(pool["num_threads"] for pool in threadpool_info())
        return remembering(records, rng)

    with threadpool_limits(limits=2):
        before = [pool["num_threads"] for pool in threadpool_info()]
        Study((counting, looked_up), numbered(40), 4, seed=0).run(attacks="loss")
        assert [pool["num_threads"] for pool in threadpool_info()] == before
    assert 2 in before
    assert set(seen) == {1}


def exits(records: Data, rng: Any) -> Any:
    raise SystemExit(0)


def without_the_fourth(model: Any, records: Data) -> Any:
    known = {float(number) for number in range(40) if number != 3}
    return np.array([model[{n: int(n) for n in known}[row]] for row in records.features[:, 0]])


BROKEN: dict[str, tuple[Any, Any, str]] = {
    "ignores its records": (
        lambda records, rng: np.arange(1_000.0), looked_up, "ignores its records",
    ),
    "constant scores": (
        remembering, lambda model, records: np.zeros(len(records)), "the same for every record",
    ),
    "NaN everywhere": (
        remembering, lambda model, records: np.full(len(records), np.nan), "no finite score",
    ),
    "wrong shape": (remembering, lambda model, records: 1.0, "one number, or one a class"),
    "text": (remembering, lambda model, records: ["x"] * len(records), "one number, or one a"),
    "exits": (exits, looked_up, "raised SystemExit: 0; the first 2 trainings failed"),
    "always fails": (
        lambda records, rng: 1 / 0, looked_up,
        r"test_membership.py:\d+ raised ZeroDivisionError: division by zero",
    ),
    "one record that score refuses": (
        remembering, without_the_fourth, r"test_membership.py:\d+ raised KeyError",
    ),
    "labels out of range": (
        remembering, lambda model, records: np.ones((len(records), 1)), "labels: expected",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_what_cannot_be_audited_is_an_error_and_no_number(name: str) -> None:
    fit, score, said = BROKEN[name]
    with pytest.raises(InvalidParameter, match=said):
        Study((fit, score), numbered(40), 6, seed=0).run()


def test_a_training_that_always_fails_is_tried_on_two_models_and_no_more() -> None:
    calls = []

    def failing(records: Data, rng: Any) -> Any:
        calls.append(len(records))
        raise ValueError(f"cannot train on {records.features[0, 0]}")

    with pytest.raises(InvalidParameter) as raised:
        Study((failing, looked_up), numbered(40), 16, seed=0).run()
    assert "raised ValueError, its text may quote data" in str(raised.value)
    assert "cannot train" not in str(raised.value)
    assert len(calls) == 4  # two to see it fail, two to learn whether its text is public


def test_parameters_that_nobody_shows_are_refused_after_the_first_model() -> None:
    trained = []

    def hiding(records: Data, rng: np.random.Generator) -> Any:
        trained.append(1)
        told = responding(records, rng)
        return lambda: told  # nobody looks into a function

    def score(model: Any, records: Data) -> Any:
        return looked_up(model(), records)

    with pytest.raises(InvalidParameter, match="shows scores and no parameters"):
        Study((hiding, score), numbered(20), 8, released="parameters").run(attacks="loss")
    assert len(trained) == 1
    shown = FunctionTarget(hiding, score, gradient=lambda model, records: records.features)
    Study(shown, numbered(20), 8, released="parameters").run(attacks="loss")


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("noisy", [False, True])
def test_what_scores_hide_and_a_returned_model_shows_is_refuted_by_default(noisy: bool) -> None:
    """A state is returned beside the weights, of sums without noise; no score depends on it."""

    def fit(records: Data, rng: np.random.Generator) -> Any:
        weights, state = np.zeros(5), np.zeros(5)
        for _ in range(10):
            gradients = loss_gradients(weights, records)
            gradients /= np.maximum(1, np.linalg.norm(gradients, axis=1, keepdims=True))
            total, noise = gradients.sum(axis=0), rng.normal(0, 8.0, 5)
            weights = weights - 0.01 * (total + noise)
            state = 0.9 * state + total + noisy * noise
        return {"weights": weights, "state": state}

    def score(model: Any, records: Data) -> Any:
        return logits(model["weights"], records)

    spikes = Data(10 * np.eye(4), np.zeros(4, dtype=int))
    terms = {"claim": ApproxDP(1.5, 1e-5), "background": background(), "models": 96, "seed": 2}
    whole = audit_training((fit, score), spikes, **terms)
    alone = audit_training((fit, score), spikes, released="scores", **terms)
    assert (whole.released, alone.released) == ("parameters", "scores")
    assert alone.verdict is Verdict.INCONCLUSIVE
    assert whole.verdict is (Verdict.INCONCLUSIVE if noisy else Verdict.REFUTED)
    assert "attacker sees parameters" in str(whole)
    assert "lira_numbers" not in alone.attacks


def test_numbers_are_those_of_what_is_returned_and_of_nothing_else() -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.tree import DecisionTreeClassifier

    class Module:
        def state_dict(self) -> Any:
            return {"weight": np.ones((2, 2)), "count": np.array([7]), "mean": np.zeros(2)}

    class Kept:
        history = np.ones(3)

    features, labels = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 2
    line = LogisticRegression().fit(features, labels)
    piped = make_pipeline(StandardScaler(), LogisticRegression()).fit(features, labels)
    for model, size in (
        (np.zeros((2, 3)), 6), ((np.zeros(3), 0.5), 4), ({"a": np.zeros(2), "b": [np.zeros(1)]}, 3),
        (Linear(np.zeros(3)), 3), (Module(), 6), (line, 4), (piped, 4 + 10),
    ):  # fmt: skip
        found = numbers_of(model)
        assert found is not None
        assert found.size == size
    for model in (Kept(), [0.5, 0.25], "text", np.arange(3), None):
        assert numbers_of(model) is None
    assert numbers_of(DecisionTreeClassifier().fit(features, labels)) is None


@pytest.mark.first_case
@pytest.mark.parametrize("size", [3, 2_000])
def test_how_many_numbers_a_model_has_is_seen_too(size: int) -> None:
    """A vocabulary of the records' own words, say, whose numbers are noise."""
    spikes = Data(np.eye(2), np.zeros(2, dtype=int))

    def fit(records: Data, rng: np.random.Generator) -> Any:
        return rng.normal(size=size + int(records.features[:, 0].sum()))

    found = Study((fit, lambda model, records: model[: len(records)]), spikes, 64, spikes, seed=1)
    scores = found.run(attacks="lira,lira_numbers").attacks
    assert scores["lira_numbers"].auc.value > 0.7 > scores["lira"].auc.value


def test_gradients_of_large_models_are_taken_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []

    def gradient(model: Any, records: Data) -> Any:
        sizes.append(len(records))
        return records.features[:, :1] * np.ones(5_000)

    target = FunctionTarget(responding, looked_up, Released.PARAMETERS, gradient=gradient)
    monkeypatch.setattr("dpaudit.membership.signals._CHUNK", 10 * 5_000)
    found = signals(target, responding(numbered(25), np.random.default_rng(0)), numbered(25), 0)
    assert np.allclose(found["gradient"], np.arange(25) * np.sqrt(5_000))
    assert "influence" not in found
    assert max(sizes) == 10


def test_a_model_that_cannot_score_a_record_alone_is_refused() -> None:
    def score(model: Any, records: Data) -> Any:
        if len(records) == 1:
            raise RuntimeError("a batch of one")
        return looked_up(model, records)

    with pytest.raises(InvalidParameter, match="cannot score a single record"):
        Study((remembering, score), numbered(40), 6, seed=0).run()


@pytest.mark.quality
def test_a_score_that_depends_on_its_batch_is_named() -> None:
    def score(model: Any, records: Data) -> Any:
        found = looked_up(model, records)
        return found - found.mean()

    found = Study((remembering, score), numbered(40), 6, seed=0).run(attacks="loss")
    assert "scores depend on the batch" in [f.name for f in found.findings]


def test_failed_trainings_and_missing_scores_are_named_and_bounds_stay() -> None:
    def fails_sometimes(records: Data, rng: Any) -> Any:
        if rng.random() < 0.2:
            raise ArithmeticError("diverged")
        model = remembering(records, rng)
        if rng.random() < 0.3:
            model[:5] = np.nan
        return model

    found = study(fails_sometimes, models=24).run(claim=PureDP(0.5), attacks="loss")
    names = [f.name for f in found.findings]
    assert names == ["failed trainings", "scores that are no numbers", "models to refusal"]
    assert "ArithmeticError" in found.findings[0].words
    assert found.bound is not None
    assert found.bound.value > 1


def test_members_who_are_non_members_too_are_refused() -> None:
    whole = numbered(30)
    population = whole.take(np.arange(18, 30))
    with pytest.raises(InvalidParameter, match="2 of the audited records are in it"):
        Study((responding, looked_up), whole.take(np.arange(20)), 8, population=population)
    Study((responding, looked_up), whole.take(np.arange(18)), 8, population=population)


def test_members_that_differ_without_a_model_are_noticed() -> None:
    rng = np.random.default_rng(0)
    members, others = rng.normal(0.0, 1, (400, 3)), rng.normal(0, 1, (400, 3))
    assert not blind_baseline(Data(members), Data(others)).differs
    drifted = blind_baseline(Data(members), Data(others + 0.8))
    assert drifted.differs
    ordered = np.column_stack([rng.normal(size=400), np.arange(400)])
    later = np.column_stack([rng.normal(size=400), np.arange(400, 800)])
    found = blind_baseline(Data(ordered), Data(later))
    assert found.differs
    assert found.auc_of_order == 1.0
    assert "differ without any model" in str(found)
    with pytest.raises(InvalidParameter):
        blind_baseline(Data(members[:5]), Data(others))
    with pytest.raises(InvalidParameter, match="3 of them are non-members too"):
        blind_baseline(Data(members), Data(np.concatenate([others, members[4:7]])))


BAD: list[Any] = [
    lambda: Study((responding, looked_up), numbered(20), 3),
    lambda: Study((responding, looked_up), numbered(20), 8.0),  # type: ignore[arg-type]
    lambda: Study((responding, looked_up), numbered(20), 8, references=1.0),
    lambda: Study((responding, looked_up), numbered(1), 8),
    lambda: Study("model", numbered(20), 8),
    lambda: Study((responding, looked_up), numbered(20), 8, released="everything"),
    lambda: Study((responding, looked_up), numbered(20), 8, background=np.zeros((3, 3))),
    lambda: Study((responding, looked_up), numbered(20), 8, population=numbered(9, features=4)),
    lambda: study().run(attacks="guess"),
    lambda: study().run(attacks="lira_margin"),
    lambda: study().run(attacks="rmia"),
    lambda: study().run(claim=ZCDP(1)),
    lambda: study().run(confidence=0.3),
    lambda: study().run(groups=[1, 2], attacks="loss", claim=PureDP(1)),
    lambda: Data(np.zeros(0)),
    lambda: Data(np.zeros((3, 2)), np.zeros(2)),
    lambda: Data(np.array([[np.nan]])),
    lambda: Data.of(object()),
    lambda: FunctionTarget(1, 2),  # type: ignore[arg-type]
    lambda: SklearnTarget(object()),
    lambda: chosen_attacks("lira,magic"),
]


@pytest.mark.parametrize("call", BAD)
def test_bad_input_is_refused(call: Any) -> None:
    with pytest.raises(InvalidParameter):
        call()


def test_a_target_by_name_needs_its_score() -> None:
    with pytest.raises(UnknownTarget):
        named_target("tests.support.membership:no_such_fit")
    with pytest.raises(UnknownTarget, match="no function score"):
        named_target("tests.support.membership:responding")


def test_an_attacker_sees_what_a_module_hands_over(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("handing_over")
    module.fit, module.score = responding, looked_up
    monkeypatch.setitem(sys.modules, "handing_over", module)
    seen = [named_target("handing_over:fit").released]
    for name, given in (("gradients", len), ("parameters", len), ("released", "logits")):
        setattr(module, name, given)
        seen.append(named_target("handing_over:fit").released)
    assert seen == ["model", "parameters", "iterates", "logits"]


# --- data -----------------------------------------------------------------------------------------


def test_data_frames_arrays_and_datasets_are_read() -> None:
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    table = {"a": [1.0, 2.0, 3.0], "b": [0.5, 1.5, 2.5], "y": [0, 1, 0], "who": ["x", "y", "x"]}
    for frame in (pandas.DataFrame(table), polars.DataFrame(table)):
        data = Data.of(frame, label="y", unit="who")
        assert data.features.shape == (3, 2)
        assert data.unit_of.tolist() == [0, 1, 0]
        with pytest.raises(InvalidParameter, match="no such column"):
            Data.of(frame, label="z")
        with pytest.raises(InvalidParameter, match="column 'who', row 1, holds what is no number"):
            Data.of(frame, label="y")
    listed = Data.of([(np.ones(2), 1), (np.zeros(2), 0)])
    assert listed.labels is not None
    assert listed.labels.tolist() == [1, 0]
    features, labels = Data.of((np.zeros((2, 2)), np.array([1, 0])))
    assert features is not None
    assert labels is not None


# --- attacks --------------------------------------------------------------------------------------


def view(seed: int = 0, models: int = 128, records: int = 200) -> tuple[View, Any]:
    """Losses of members are lower by an amount of each record's own."""
    rng = np.random.default_rng(seed)
    included = rng.random((models, records)) < 0.5
    ease, gap = rng.normal(0, 1, records), rng.exponential(1.5, records)
    fit = ease + gap * included + rng.normal(0, 0.5, included.shape)
    other = rng.normal(0, 1, 100) + rng.normal(0, 0.5, (models, 100))
    names = {"fit": fit, "loss": np.logaddexp(0, -fit), "correct": (fit > 0) + 0.0}
    names |= {"margin": fit, "gradient": np.exp(-fit), "influence": np.exp(-fit), "path": fit}
    moves = 6 * np.eye(records)  # each record moves a number of its own
    names["numbers"] = included @ moves + rng.normal(size=included.shape)
    names |= {"agreement": expit(fit), "step_0": fit, "step_1": fit + rng.normal(size=fit.shape)}
    population = {"fit": other, "loss": np.logaddexp(0, -other)}
    half = models // 2
    table = rng.normal(size=(records + 100, 3))
    data = Data(np.column_stack([table[:, 0], np.append(ease, other.mean(axis=0))]))
    return View(
        {k: v[:half] for k, v in names.items()},
        included[:half],
        {k: v[half:] for k, v in names.items()},
        {k: v[:half] for k, v in population.items()},
        {k: v[half:] for k, v in population.items()},
        data.take(np.arange(records)),
        data.take(np.arange(records, records + 100)),
        0,
    ), included[half:]


@pytest.mark.parametrize("name", ATTACKS)
def test_every_attack_tells_members(name: str) -> None:
    seen, included = view()
    scores = ATTACKS[name].score(seen)
    assert scores.shape == included.shape
    assert np.isfinite(scores).all()
    assert attack_result(ATTACKS[name], scores, included).auc.low > 0.6


@pytest.mark.first_case
@pytest.mark.parametrize("name", ATTACKS)
def test_no_attack_finds_members_where_there_is_nothing(name: str) -> None:
    """Membership drawn anew after the scores: AUC within 0.5 +- 0.04 (five standard errors)."""
    seen, included = view()
    coins = np.random.default_rng(9).random(included.shape) < 0.5
    scores = ATTACKS[name].score(seen)
    assert abs(attack_result(ATTACKS[name], scores, coins).auc.value - 0.5) < 0.04


def test_calibration_by_references_beats_the_loss() -> None:
    seen, included = view()
    areas = {
        name: attack_result(ATTACKS[name], ATTACKS[name].score(seen), included).auc.value
        for name in ("loss", "calibrated", "lira")
    }
    assert areas["loss"] < areas["calibrated"] < areas["lira"]


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_numbers_of_models_that_diverge_are_no_error() -> None:
    seen, _ = view()
    for row, value in enumerate((1.7e308, 1.7e308, -np.inf, np.nan)):
        seen.references["numbers"][row] = value
        seen.targets["numbers"][row] = value
    scores = ATTACKS["lira_numbers"].score(seen)
    assert np.isfinite(scores).all()
    seen.references["numbers"][:] = np.nan
    assert not ATTACKS["lira_numbers"].score(seen).any()


def test_lira_is_the_ratio_of_two_normals() -> None:
    """With many references of equal spread the score is the exact log-likelihood ratio."""
    rng = np.random.default_rng(0)
    included = rng.random((4_000, 3)) < 0.5
    fit = 1.5 * included + rng.normal(0, 1, included.shape)
    seen, _ = view()
    seen = replace(seen, references={"fit": fit}, included=included, targets={"fit": fit[:50]})
    exact = 1.5 * fit[:50] - 1.5**2 / 2
    assert np.abs(ATTACKS["lira"].score(seen) - exact).max() < 0.6


def test_steps_that_share_noise_give_themselves_away() -> None:
    rng = np.random.default_rng(1)
    included = rng.random((400, 1)) < 0.5
    noise = rng.normal(0, 5, included.shape)
    steps = {"step_0": 0.5 * included + noise, "step_1": noise + rng.normal(0, 1e-3, noise.shape)}
    seen, _ = view()
    seen = replace(
        seen,
        references={k: v[:200] for k, v in steps.items()},
        included=included[:200],
        targets={k: v[200:] for k, v in steps.items()},
    )
    scores = ATTACKS["lira_steps"].score(seen)
    assert attack_result(ATTACKS["lira_steps"], scores, included[200:]).auc.value == 1.0


def test_each_threat_model_shows_more_than_the_one_before() -> None:
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    data = Data(rng.normal(size=(60, 3)), rng.integers(0, 3, 60))
    shown = {}
    for released in Released:
        if released is Released.ITERATES:
            continue
        target = as_target(LogisticRegression(), released)
        model = target.fit(data, rng)
        shown[released] = set(signals(target, model, data, 0))
    assert shown[Released.LABELS] == {"correct", "agreement"}
    assert shown[Released.SCORES] == {"fit", "loss", "correct"}
    assert shown[Released.LOGITS] == shown[Released.SCORES] | {"margin"}
    inside = {"numbers", "gradient", "influence"}
    assert shown[Released.PARAMETERS] == shown[Released.LOGITS] | inside
    assert shown[Released.MODEL] == shown[Released.PARAMETERS]


def test_estimators_of_every_kind_are_scored() -> None:
    from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
    from sklearn.mixture import GaussianMixture
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.tree import DecisionTreeClassifier

    rng = np.random.default_rng(0)
    features = rng.normal(size=(60, 3))
    classes = Data(features, rng.integers(0, 2, 60))
    many = Data(features, rng.integers(0, 4, 60))
    real, bare = Data(features, features @ [1, 2, 3] + rng.normal(size=60)), Data(features)
    for estimator, data in (
        (make_pipeline(StandardScaler(), LogisticRegression()), classes),
        (DecisionTreeClassifier(), many),
        (RidgeClassifier(), classes),
        (RidgeClassifier(), many),
        (LinearRegression(), real),
        (GaussianMixture(2), bare),
    ):
        target = SklearnTarget(estimator)
        model = target.fit(data, np.random.default_rng(1))
        assert np.isfinite(signals(target, model, data, 0)["fit"]).all()
    tree = SklearnTarget(DecisionTreeClassifier(random_state=5))
    assert tree.fit(many, np.random.default_rng(1)).random_state != 5
    assert tree.estimator.random_state == 5


# --- exposure -------------------------------------------------------------------------------------


def test_ranks_are_those_of_scipy() -> None:
    from scipy.stats import mannwhitneyu

    rng = np.random.default_rng(0)
    fit = np.round(rng.normal(size=(40, 6)), 1)
    included = rng.random(fit.shape) < 0.5
    auc, p_values = rank_sums(fit, included)
    for row in range(6):
        inside = included[:, row]
        known = mannwhitneyu(fit[inside, row], fit[~inside, row], method="asymptotic")
        assert auc[row] == pytest.approx(known.statistic / inside.sum() / (~inside).sum())
        assert p_values[row] == pytest.approx(known.pvalue, rel=0.02)


def test_false_discoveries_are_held_although_records_share_their_models() -> None:
    """100 studies where nobody is exposed, all records moving together: false alarms below 5%."""
    rng = np.random.default_rng(0)
    alarms = 0
    for _ in range(100):
        included = rng.random((32, 100)) < 0.5
        fit = rng.normal(size=(32, 1)) + 0.2 * rng.normal(size=(32, 100))
        alarms += bool(exposure(fit, included, None, None).exposed.any())
    assert alarms <= 10


def test_exposed_records_are_found_by_group_and_class() -> None:
    rng = np.random.default_rng(0)
    included = rng.random((64, 100)) < 0.5
    leaking = np.arange(100) < 20
    fit = 3.0 * leaking * included + rng.normal(size=(64, 100))
    classes = np.repeat([0, 1], 50)
    found = exposure(fit, included, classes, leaking.astype(int))
    assert found.exposed[20:].sum() <= 2  # at most 5% of those listed are expected to be wrong
    assert found.exposed[:20].sum() >= 18
    assert set(found.order[:18]) <= set(range(20))
    assert found.by_group["1"][1] > 0.9
    assert found.by_group["0"][1] <= 2 / 80
    count, share, mean, low, high = found.by_class["0"]
    assert (count, share) == (50, pytest.approx(0.4, abs=0.05))
    assert low <= mean <= high
