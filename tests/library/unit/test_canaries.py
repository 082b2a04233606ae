"""Audits by canaries: commitments, sealed labels, guesses, verdicts, bad input."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpaudit.audit.bounds.guessing import Sealed, _features, fixed_guesses, learned_guesses
from dpaudit.audit.bounds.one_run import chosen_epsilon_lower, one_run_epsilon_lower
from dpaudit.audit.canaries.commitment import CommitmentMismatch, Labels, commit, load_labels
from dpaudit.audit.canaries.scores import audit_one_run, audit_scores
from dpaudit.audit.verdict import Verdict
from dpaudit.errors import InvalidParameter, OutputNotWritable
from dpaudit.families.additive import Laplace
from dpaudit.families.opaque import GDP, ZCDP, ApproxDP, PureDP, RenyiDP

CLAIMS = [PureDP(1), ApproxDP(1, 1e-5), GDP(0.5), ZCDP(0.1), RenyiDP(2, 0.5)]

independent_runs = partial(audit_scores, origin="independent_runs")


def samples(shift: float, trials: int, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return rng.normal(shift, 1, trials), rng.normal(0, 1, trials)


# --- scores ---------------------------------------------------------------------------------------


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("claim", CLAIMS, ids=lambda c: c.name)
def test_scores_far_apart_refute_every_kind_of_claim(claim: Any) -> None:
    found = independent_runs(*samples(3.0, 1_500, 1), claim=claim, seed=2)
    assert found.verdict is Verdict.REFUTED
    assert found.p_value <= 1e-4
    assert found.lower > found.claimed
    assert found.favours == "in"
    assert found.hits / found.trials > found.other_hits / found.other_trials
    assert json.loads(json.dumps(found.to_json()))["verdict"] == "refuted"
    assert str(found).startswith("refuted: ")


@pytest.mark.first_case
@pytest.mark.parametrize("claim", CLAIMS, ids=lambda c: c.name)
def test_equal_scores_refute_nothing_and_nothing_is_said_to_have_passed(claim: Any) -> None:
    """False alarms: one in 10,000 of each of the five."""
    found = independent_runs(*samples(0.0, 1_500, 3), claim=claim)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.p_value > 1e-4
    assert not found.underpowered
    assert "pass" not in str(found)
    assert found.smallest_epsilon > 0.1


def test_scores_that_point_the_wrong_way_are_turned_round() -> None:
    scores_in, scores_out = samples(3.0, 2_000, 4)
    found = independent_runs(scores_out, scores_in, claim=PureDP(1))
    assert found.verdict is Verdict.REFUTED
    assert found.favours == "out"


@pytest.mark.quality
def test_same_seed_same_result_and_another_seed_another_split() -> None:
    pair = samples(1.0, 500, 5)
    first, again, other = (independent_runs(*pair, claim=GDP(1), seed=s) for s in (7, 7, 8))
    assert first == again
    assert first.threshold != other.threshold


def test_too_few_scores_are_called_underpowered() -> None:
    found = independent_runs([1.0] * 10, [0.0] * 10, claim=PureDP(3))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.underpowered
    assert "underpowered" in found.reason
    assert found.achievable < 3


def test_one_canary_a_side_gives_a_named_verdict() -> None:
    found = independent_runs([1.0], [0.0], claim=PureDP(1))
    assert (found.verdict, found.lower, found.underpowered) == (Verdict.INCONCLUSIVE, 0.0, True)
    assert found.training == (0, 0)


def test_ties_and_infinities_are_scores_like_others() -> None:
    found = independent_runs([math.inf] * 500, [-math.inf] * 500, claim=PureDP(1))
    assert found.verdict is Verdict.REFUTED
    found = independent_runs([2] * 499 + [1], [2] * 499 + [1], claim=PureDP(1))
    assert (found.verdict, found.lower) == (Verdict.INCONCLUSIVE, 0.0)
    with pytest.raises(InvalidParameter, match="all 2; the same for every trial"):
        independent_runs([2] * 500, [2] * 500, claim=PureDP(1))


@pytest.mark.quality
def test_unequal_samples_are_allowed() -> None:
    scores_in, scores_out = samples(3.0, 4_000, 6)
    found = independent_runs(scores_in[:400], scores_out, claim=PureDP(1))
    assert found.trials != found.other_trials
    assert found.verdict is Verdict.REFUTED


BAD_SCORES = [[], [math.nan, 1.0], [[1.0, 2.0]], 3.0, ["a"], [None], [True, False], [1j]]


@pytest.mark.parametrize("bad", BAD_SCORES, ids=str)
def test_bad_scores_are_refused(bad: Any) -> None:
    for pair in ((bad, [1.0, 2.0]), ([1.0, 2.0], bad)):
        with pytest.raises(InvalidParameter):
            independent_runs(*pair, claim=PureDP(1))


BAD_TERMS: list[dict[str, Any]] = [
    {"claim": Laplace("noise", 1)},
    {"claim": "epsilon = 1"},
    {"claim": None},
    {"confidence": 0.5},
    {"confidence": 1.0},
    {"confidence": math.nan},
    {"refute_at": 0.0},
    {"refute_at": 0.6},
    {"refute_at": math.nan},
    {"seed": -1},
    {"seed": 1.5},
    {"seed": True},
]


@pytest.mark.parametrize("bad", BAD_TERMS, ids=str)
def test_bad_terms_are_refused(bad: dict[str, Any]) -> None:
    terms: dict[str, Any] = {"claim": PureDP(1), **bad}
    with pytest.raises(InvalidParameter):
        independent_runs([1.0, 2.0], [1.0, 2.0], **terms)
    with pytest.raises(InvalidParameter):
        audit_one_run(10, **terms)


# --- origins --------------------------------------------------------------------------------------


def test_where_scores_come_from_is_asked() -> None:
    with pytest.raises(TypeError, match="origin"):
        audit_scores([1.0, 2.0], [1.0, 2.0], claim=PureDP(1))  # type: ignore[call-overload]
    with pytest.raises(
        InvalidParameter, match="expected one of independent_runs, one_run, neither"
    ):
        audit_scores([1.0, 2.0], [1.0, 2.0], origin="shadow models", claim=PureDP(1))


@pytest.mark.quality
def test_a_scorer_that_never_saw_the_data_refutes_nothing() -> None:
    """Members from one distribution, non-members from another: true epsilon 0."""
    members, drifted = samples(1.5, 2_000, 11)
    assert independent_runs(members, drifted, claim=ApproxDP(1, 1e-5)).epsilon_lower > 1.2
    found = audit_scores(members, drifted, origin="neither", claim=ApproxDP(1, 1e-5))
    assert not hasattr(found, "verdict")
    assert not hasattr(found, "lower")
    assert "drawn by coins" in found.reason
    assert found.auc == pytest.approx(0.855, abs=0.02)  # Phi(1.5 / sqrt 2)
    assert found.advantage == pytest.approx(0.547, abs=0.04)
    assert dict(found.true_positive_rates)[0.1] == pytest.approx(0.586, abs=0.05)
    assert json.loads(json.dumps(found.to_json()))["kind"] == "estimate"
    assert str(found).startswith("an estimate, no bound: ")


def test_one_run_needs_the_labels_that_the_library_drew(tmp_path: Path) -> None:
    labels = commit(tmp_path / "c.json", 1_000, seed=2)
    scores = labels.included + np.random.default_rng(3).normal(0, 0.3, 1_000)
    sides = scores[labels.included], scores[~labels.included]
    found = audit_scores(*sides, origin="one_run", claim=PureDP(1), labels=labels)
    audit = audit_one_run(1_000, claim=PureDP(1))
    audit.labels = labels
    assert found == audit.bound(scores)
    assert found.verdict is Verdict.REFUTED
    with pytest.raises(InvalidParameter, match="before the run"):
        audit_scores(*sides, origin="one_run", claim=PureDP(1), labels=None)
    with pytest.raises(InvalidParameter, match="the labels include"):
        audit_scores(sides[0][1:], sides[1], origin="one_run", claim=PureDP(1), labels=labels)
    with pytest.raises(InvalidParameter, match="belong to one_run"):
        audit_scores(*sides, origin="neither", labels=labels)
    with pytest.raises(CommitmentMismatch):
        audit_scores(*sides, origin="one_run", claim=PureDP(1), labels=replace(labels, salt=b""))


# --- labels ---------------------------------------------------------------------------------------


def test_commitment_binds_the_labels_and_shows_none(tmp_path: Path) -> None:
    labels = commit(tmp_path / "c.json", 1_000)
    content = json.loads((tmp_path / "c.json").read_text())
    packed = np.packbits(labels.included).tobytes()
    digest = hashlib.sha256(labels.salt + (1_000).to_bytes(8, "big") + packed).hexdigest()
    assert content["sha256"] == labels.commitment == digest
    assert set(content) == {"format", "canaries", "sha256"}
    assert [p.name for p in tmp_path.iterdir()] == ["c.json"]
    assert "included" not in repr(labels)
    assert "salt" not in repr(labels)
    assert not labels.included.flags.writeable
    labels.check()


def test_labels_are_fair_coins_and_never_the_same_twice(tmp_path: Path) -> None:
    """200,000 coins within five standard errors of half: false alarm below 1 in a million."""
    first, second = (commit(tmp_path / name, 200_000) for name in "ab")
    assert abs(int(first.included.sum()) - 100_000) < 5 * math.sqrt(50_000)
    assert (first.included != second.included).any()
    assert first.salt != second.salt
    again = [commit(tmp_path / name, 100, seed=3).included for name in "cd"]
    assert (again[0] == again[1]).all()


def test_labels_survive_the_run_in_a_file(tmp_path: Path) -> None:
    labels = commit(tmp_path / "c.json", 77)
    labels.save(tmp_path / "labels.json")
    found = load_labels(tmp_path / "labels.json", tmp_path / "c.json")
    assert (found.included == labels.included).all()
    assert found.commitment == labels.commitment


def flipped(labels: Labels) -> Labels:
    included = labels.included.copy()
    included[0] = ~included[0]
    return replace(labels, included=included)


TAMPERED: list[Callable[[Labels], Labels]] = [
    flipped,
    lambda labels: replace(labels, included=labels.included[:-1]),
    lambda labels: replace(labels, included=np.append(labels.included, False)),
    lambda labels: replace(labels, salt=bytes(32)),
    lambda labels: replace(labels, commitment="0" * 64),
]


@pytest.mark.parametrize("tamper", TAMPERED)
def test_other_labels_are_refused(tamper: Callable[[Labels], Labels], tmp_path: Path) -> None:
    labels = commit(tmp_path / "c.json", 64)
    with pytest.raises(CommitmentMismatch):
        tamper(labels).check()


def test_a_changed_file_of_labels_is_refused(tmp_path: Path) -> None:
    labels = commit(tmp_path / "c.json", 64)
    flipped(labels).save(tmp_path / "labels.json")
    with pytest.raises(CommitmentMismatch):
        load_labels(tmp_path / "labels.json", tmp_path / "c.json")


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "{}", '{"format": "x"}', "[" * 100_000, b"\xff\xfe",
     '{"format": "dpaudit one-run labels, version 1", "canaries": "9"}'],
    ids=lambda c: str(c)[:12],
)  # fmt: skip
def test_files_that_are_no_commitment_are_refused(content: Any, tmp_path: Path) -> None:
    labels = commit(tmp_path / "c.json", 8)
    labels.save(tmp_path / "labels.json")
    raw = content if isinstance(content, bytes) else content.encode()
    (tmp_path / "labels.json").write_bytes(raw)
    with pytest.raises(InvalidParameter):
        load_labels(tmp_path / "labels.json", tmp_path / "c.json")
    (tmp_path / "c.json").write_bytes(raw)
    with pytest.raises((InvalidParameter, CommitmentMismatch)):
        labels.check()
    (tmp_path / "c.json").unlink()
    with pytest.raises(InvalidParameter):
        labels.check()


def test_a_commitment_is_never_replaced(tmp_path: Path) -> None:
    commit(tmp_path / "c.json", 8)
    before = (tmp_path / "c.json").read_bytes()
    with pytest.raises(OutputNotWritable):
        commit(tmp_path / "c.json", 8)
    assert (tmp_path / "c.json").read_bytes() == before


@pytest.mark.parametrize("canaries", [0, -1, 1.5, True, 10**8, math.nan, None])
def test_bad_numbers_of_canaries_are_refused(canaries: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter):
        commit(tmp_path / "c.json", canaries)
    with pytest.raises(InvalidParameter):
        audit_one_run(canaries, claim=PureDP(1))
    assert not list(tmp_path.iterdir())


def test_bad_seeds_of_labels_are_refused(tmp_path: Path) -> None:
    for seed in (-1, 0.5, "1"):
        with pytest.raises(InvalidParameter):
            commit(tmp_path / "c.json", 4, seed=seed)  # type: ignore[arg-type]


# --- guesses --------------------------------------------------------------------------------------


def test_an_open_label_cannot_be_counted_nor_a_counted_one_opened() -> None:
    sealed = Sealed(np.array([True, False, True, False]))
    sealed.open(np.array([0]))
    guess = np.array([True])
    with pytest.raises(InvalidParameter):
        sealed.count(np.array([0]), guess)
    with pytest.raises(InvalidParameter):
        sealed.count(np.array([1, 1]), np.array([False, False]))
    assert sealed.count(np.array([1, 2]), np.array([False, False])) == 1
    with pytest.raises(InvalidParameter):
        sealed.count(np.array([3]), guess)
    with pytest.raises(InvalidParameter):
        sealed.open(np.array([3]))


def test_guesses_do_not_depend_on_labels_still_sealed() -> None:
    rng = np.random.default_rng(0)
    included = rng.random(1_000) < 0.5
    scores = included + rng.normal(0, 0.7, 1_000)
    sealed = Sealed(included)
    guesses = learned_guesses(scores, sealed, 1e-5, 0.05, 1)
    assert not sealed.opened[guesses.places].any()
    other = included.copy()
    other[~sealed.opened] = rng.random(int((~sealed.opened).sum())) < 0.5
    again = learned_guesses(scores, Sealed(other), 1e-5, 0.05, 1)
    assert (again.places == guesses.places).all()
    assert (again.guessed_in == guesses.guessed_in).all()


def test_fixed_guesses_are_the_highest_and_the_lowest_scores() -> None:
    scores = np.array([5.0, -3.0, 0.0, 9.0, -8.0, 1.0])
    guesses = fixed_guesses(scores, 3, 0)
    assert dict(zip(guesses.places.tolist(), guesses.guessed_in.tolist(), strict=True)) == {
        4: False, 3: True, 0: True,
    }  # fmt: skip
    assert fixed_guesses(scores, 6, 0).places.size == 6
    assert fixed_guesses(np.zeros(5), 5, 0).guessed_in.sum() == 3


@pytest.mark.parametrize("size", [1, 2, 3, 10])
def test_learning_from_almost_nothing_still_guesses(size: int) -> None:
    guesses = learned_guesses(np.zeros(size), Sealed(np.ones(size, dtype=bool)), 0.0, 0.05, 0)
    assert 1 <= guesses.places.size <= size


# --- one run --------------------------------------------------------------------------------------


def one_run(tmp_path: Path, claim: Any, canaries: int, noise: float, **terms: Any) -> Any:
    audit = audit_one_run(canaries, claim=claim, **terms)
    labels = audit.commit(tmp_path / "commitment.json", seed=5)
    rng = np.random.default_rng(6)
    return audit.bound(labels.included + rng.normal(0, noise, canaries))


@pytest.mark.first_case
@pytest.mark.parametrize("claim", CLAIMS[:4], ids=lambda c: c.name)
def test_clear_scores_refute(claim: Any, tmp_path: Path) -> None:
    found = one_run(tmp_path, claim, 2_000, 0.2)
    assert found.verdict is Verdict.REFUTED
    assert found.lower > found.decisive > found.claimed
    assert json.loads(json.dumps(found.to_json()))["commitment"] == found.commitment
    assert "refuted" in str(found)


@pytest.mark.first_case
@pytest.mark.parametrize("claim", CLAIMS, ids=lambda c: c.name)
def test_noise_refutes_nothing(claim: Any, tmp_path: Path) -> None:
    """False alarms: one in 10,000 of each of the five."""
    found = one_run(tmp_path, claim, 2_000, 1e6)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.decisive <= found.claimed


def test_guesses_fixed_beforehand_use_the_tighter_bound(tmp_path: Path) -> None:
    found = one_run(tmp_path, ApproxDP(1, 1e-5), 1_000, 0.5, guesses=100)
    assert (found.guesses, found.opened) == (100, 0)
    assert found.lower == one_run_epsilon_lower(found.correct, 100, 1_000, 1e-5, 0.05)
    assert found.lower >= chosen_epsilon_lower(found.correct, 100, 1_000, 1e-5, 0.05)


def test_learned_guesses_open_labels_and_say_so(tmp_path: Path) -> None:
    found = one_run(tmp_path, PureDP(1), 1_000, 0.5)
    assert found.opened > 0
    assert found.guesses + found.opened <= 1_000


@pytest.mark.parametrize("canaries", [1, 2, 20])
def test_few_canaries_are_underpowered(canaries: int, tmp_path: Path) -> None:
    found = one_run(tmp_path, PureDP(3), canaries, 0.01)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.underpowered
    assert "underpowered" in found.reason


def test_an_audit_is_spent_by_its_bound_and_has_one_set_of_labels(tmp_path: Path) -> None:
    audit = audit_one_run(20, claim=PureDP(1))
    with pytest.raises(InvalidParameter, match="commit"):
        audit.bound(np.zeros(20))
    audit.commit(tmp_path / "c.json")
    with pytest.raises(InvalidParameter, match="one set"):
        audit.commit(tmp_path / "d.json")
    bad: list[Any] = [np.zeros(19), np.zeros((20, 1)), np.full(20, math.nan), [], "scores"]
    for scores in bad:
        with pytest.raises(InvalidParameter):
            audit.bound(scores)
    audit.bound(np.zeros(20))
    with pytest.raises(InvalidParameter, match="spent"):
        audit.bound(np.zeros(20))


def test_tampered_labels_give_no_bound(tmp_path: Path) -> None:
    audit = audit_one_run(20, claim=PureDP(1))
    labels = audit.commit(tmp_path / "c.json")
    with pytest.raises(CommitmentMismatch):
        audit.bound(np.zeros(20), flipped(labels))
    with pytest.raises(InvalidParameter):
        audit.bound(np.zeros(20), commit(tmp_path / "d.json", 21))
    (tmp_path / "c.json").write_text("{}")
    with pytest.raises(InvalidParameter):
        audit.bound(np.zeros(20))


def test_labels_read_back_in_another_process_serve_as_well(tmp_path: Path) -> None:
    first = audit_one_run(50, claim=PureDP(1))
    labels = first.commit(tmp_path / "c.json")
    labels.save(tmp_path / "labels.json")
    scores = labels.included + 0.0
    later = audit_one_run(50, claim=PureDP(1))
    found = later.bound(scores, load_labels(tmp_path / "labels.json", tmp_path / "c.json"))
    assert found == first.bound(scores)


@pytest.mark.parametrize("guesses", [0, 11, -1, 1.5, True])
def test_bad_numbers_of_guesses_are_refused(guesses: Any) -> None:
    with pytest.raises(InvalidParameter):
        audit_one_run(10, claim=PureDP(1), guesses=guesses)


def test_infinite_scores_and_ties_are_guessed_like_others(tmp_path: Path) -> None:
    audit = audit_one_run(600, claim=PureDP(1))
    labels = audit.commit(tmp_path / "c.json", seed=1)
    found = audit.bound(np.where(labels.included, math.inf, -math.inf))
    assert found.correct == found.guesses
    assert found.verdict is Verdict.REFUTED


def test_a_result_says_that_its_runs_are_taken_to_be_independent() -> None:
    found = audit_scores(*samples(1.0, 200, 1), origin="independent_runs", claim=GDP(1))
    assert "a run of its own" in found.details
    assert "audit_one_run" in found.to_json()["assumes"]


def test_coins_do_not_follow_from_what_else_a_seed_draws(tmp_path: Path) -> None:
    """A canary that reads the run's own generator knows nothing of its coin, at any seed."""
    for seed in (0, 1, 5, 2**100):
        path = tmp_path / f"{seed}.json"
        labels = audit_one_run(4_000, claim=PureDP(1)).commit(path, seed=seed)
        rng = np.random.default_rng(seed)
        read = np.unpackbits(np.frombuffer(rng.bytes(500), dtype=np.uint8)).astype(bool)
        drawn = np.random.default_rng(seed).random(4_000) < 0.5
        for other in (read, drawn):
            # False alarms: 8 * 2 exp(-2 * 4000 * 0.04^2) < 5e-5; the seeds are fixed.
            assert abs((labels.included == other).mean() - 0.5) < 0.04


def test_hinges_are_flat_up_to_their_knots() -> None:
    """A constant, the rank, and for each of three knots how far the rank is beyond it."""
    found = _features(np.array([0.5, 1.0, -2.0])).tolist()
    assert found[0] == [1, 0.5, 0, 0, 0, 0, 0, 0]
    assert found[1] == pytest.approx([1, 1.0, 0.2, 0, 0, 0, 0, 0])
    assert found[2] == pytest.approx([1, -2.0, 0, -1.2, 0, -0.5, 0, 0])
