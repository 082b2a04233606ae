"""The check of one optimiser step: planted bugs by name and line, right twins, what it measures."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.membership import EstimatorStep, StateStep
from dpaudit.membership.data import Data
from dpaudit.membership.step import check as checks
from dpaudit.membership.step import drawn as draws
from dpaudit.membership.step.lines import Line, named
from dpaudit.membership.step.noise import Noise
from dpaudit.membership.step.result import StepAudit
from tests.support.steps import (
    BUGS,
    NOISE,
    RATE,
    RIGHT,
    Planted,
    data_of,
    library,
    records,
    written,
)


def audited(make: Callable[..., Any], planted: Planted, seed: int = 0) -> StepAudit:
    return dp.audit_step(
        make, data_of(planted), noise_multiplier=NOISE, sampling_rate=RATE, seed=seed
    )


def needs_library(planted: Planted) -> None:
    needed = library(planted)
    if needed is not None and find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed")


@pytest.mark.first_case("name", by=lambda name: BUGS[name].kinds[0])
@pytest.mark.long_cases(
    "NumPy: no clipping",
    "NumPy: clip of the mean",
    "NumPy: noise over the batch twice",
    "NumPy: bias not clipped",
    "NumPy: divided by the drawn batch",
    "NumPy: shuffled batches",
    "NumPy: private mean and deviation",
    "NumPy: noise that grows as the root of the batch",
    "scikit-learn: a fixed random_state",
    "scikit-learn: rows are not normalised",
    "scikit-learn: noise of the variance",
)
@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_named_with_its_line_and_its_right_twin_is_not(
    name: str, tmp_path: Path
) -> None:
    """Right twins are called wrong with probability 1e-4 each."""
    planted = BUGS[name]
    needs_library(planted)
    wrong, lines = written(planted, tmp_path, right=False)
    found = audited(wrong, planted)
    hits = [fault for fault in found.faults if fault.kind in planted.kinds]
    assert hits, str(found)
    assert len(hits) == len(found.faults), f"a fault that is not its own: {found}"
    places = [fault.line for fault in hits if fault.line]
    assert any(line.start <= lines[-1] and line.end >= lines[0] for line in places), str(found)
    right, _ = written(planted, tmp_path, right=True)
    twin = audited(right, planted)
    assert not twin.faults, str(twin)
    assert twin.verdict is dp.Verdict.INCONCLUSIVE
    assert found.verdict is dp.Verdict.ALARM


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("name", RIGHT)
def test_right_steps_of_noise_that_moves_and_of_batches_that_are_cut_are_left_alone(
    name: str, tmp_path: Path
) -> None:
    """Each is called wrong with probability 1e-4."""
    right, _ = written(RIGHT[name], tmp_path, right=False)
    assert not audited(right, RIGHT[name]).faults


def test_rows_that_are_new_in_every_draw_are_told_from_prepared_ones_by_a_second_draw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen to fail: without a second draw a mean that is noisy is a record's effect."""
    right, _ = written(RIGHT["batches less a noisy mean"], tmp_path, right=False)
    loaded = checks.Check._loaded
    monkeypatch.setattr(
        checks.Check, "_loaded", lambda check, seed, records=None: loaded(check, 1, records)
    )
    found = audited(right, RIGHT["batches less a noisy mean"])
    assert "outside_the_batch" in {fault.kind for fault in found.faults}


def test_noise_that_grows_with_the_batch_takes_a_second_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen to fail: 400 runs of 6 numbers leave noise half as large again to chance."""
    wrong, _ = written(
        BUGS["NumPy: noise that grows as the root of the batch"], tmp_path, right=False
    )
    monkeypatch.setattr(checks, "_MORE", 1)
    assert not audited(wrong, BUGS["NumPy: noise that grows as the root of the batch"]).faults


@pytest.mark.first_case
@pytest.mark.parametrize("name", ["dropout", "dropout, of a generator of its own"])
def test_noise_that_is_taken_for_the_same_calls_right_steps_wrong(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen to fail: without the comparison with the noise, other noise is a record's effect."""
    right, _ = written(RIGHT[name], tmp_path, right=False)
    monkeypatch.setattr(checks.Check, "_aligned", lambda *_: True)
    assert audited(right, RIGHT[name]).faults


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize(
    "name",
    [
        "NumPy: clip of a quantile, of at most CLIP, from 8 records on",
        "NumPy: weights of the batch's classes",
        "NumPy: at most 64 records of a batch",
    ],
)
def test_a_record_alone_does_not_show_that_batches_matter(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen to fail: without batches that grow record by record these bugs are missed."""
    wrong, _ = written(BUGS[name], tmp_path, right=False)
    monkeypatch.setattr(checks.Check, "_neighbours", lambda *_: [])
    assert not audited(wrong, BUGS[name]).faults


# --- the number behind the check -----------------------------------------------------------------


def noise_of(steps: int, mix: Any, repeats: int = 400, size: int = 6) -> Noise:
    draws = np.random.default_rng(3).normal(size=(repeats, steps, size))
    return Noise.of(np.einsum("ts,ksi->kti", mix, draws), [slice(0, size)])


def test_momentum_hides_nothing_and_shows_nothing() -> None:
    """mu of u_t = v_t, v_t = .9 v_(t-1) + n_t is that of the first step alone; error 1e-3."""
    mix = np.array([[1, 0, 0], [0.9, 1, 0], [0.81, 0.9, 1]])
    effect = mix[:, :1] * np.eye(6)[0]
    mu = noise_of(3, mix).mu(effect, 1e-3)
    assert 0.9 < mu <= 1.0


def test_a_record_that_comes_back_and_noise_that_is_used_twice_raise_mu() -> None:
    effect = np.ones((2, 1)) * np.eye(6)[0]
    assert noise_of(2, np.eye(2)).mu(effect, 1e-3) > 1.25
    first = np.array([[1.0], [0.0]]) * np.eye(6)[0]
    assert noise_of(2, np.array([[1.0, 0.0], [1.0, 0.0]])).mu(first, 1e-3) == np.inf


def test_the_bound_on_mu_holds_at_its_confidence() -> None:
    """Of 400 bounds at error .05, 20 are above the truth; more than 37 have probability 1e-4."""
    rng, above = np.random.default_rng(1), 0
    effect = np.array([[1.0, 0.0, 0.0], [0.5, 0.0, 0.0]])
    for _ in range(400):
        samples = rng.normal(size=(20, 2, 3))
        above += Noise.of(samples, [slice(0, 3)]).mu(effect, 0.05) > np.sqrt(1.25)
    assert 5 <= above <= 37


@pytest.mark.quality
def test_a_check_without_its_probability_calls_right_steps_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen to fail: without the quantile, half of the right twins have too little noise."""
    planted = BUGS["NumPy: no clipping"]
    right, _ = written(planted, tmp_path, right=True)
    monkeypatch.setattr(checks, "_ROUNDING", 0.0)
    monkeypatch.setattr("dpaudit.membership.step.noise.chi2.ppf", lambda q, n: n)
    assert any(audited(right, planted, seed).faults for seed in range(12))


def test_the_draws_of_a_loader_are_tested() -> None:
    rng = np.random.default_rng(0)
    data = Data(np.arange(200.0)[:, None])

    def of(batches: Any) -> list[str]:
        return draws.faults(draws.drawn(batches, data), 0.1, 1e-6)

    coins = [np.flatnonzero(rng.random(200) < 0.1) for _ in range(100)]
    assert of(coins) == []
    assert "all batches have 20" in of([rng.permutation(200)[:20] for _ in range(100)])[0]
    orders = [part for _ in range(10) for part in np.array_split(rng.permutation(200), 10)]
    assert "shuffled" in of(orders)[0]
    assert "twice in one batch" in of([rng.integers(0, 200, 20) for _ in range(100)])[0]
    assert "used twice" in of([batch for batch in coins for _ in range(2)])[0]
    often = [np.flatnonzero(rng.random(200) < 0.2) for _ in range(100)]
    assert "0.1 is declared" in of(often)[0]


# --- what is asked of a training -----------------------------------------------------------------


class Plain:
    """A right step: clipped sum and noise, over a public number."""

    def __init__(self, given: Data, rng: np.random.Generator) -> None:
        self.rng, self.weights = rng, np.zeros(given.features.shape[1])

    def parameters(self) -> Any:
        return self.weights

    def gradient(self, features: Any) -> Any:
        rows = self.weights - features
        norms = np.maximum(np.linalg.norm(rows, axis=1), 1e-12)
        total = (np.minimum(1, 1 / norms)[:, None] * rows).sum(0)
        return (total + self.rng.normal(0, NOISE, self.weights.size)) / 10

    def step(self, features: Any, labels: Any) -> None:
        self.weights = self.weights - 0.1 * self.gradient(features)


class Adam(Plain):
    """The first step of Adam has one size whatever the gradient."""

    def step(self, features: Any, labels: Any) -> None:
        self.last = self.gradient(features)
        self.weights = self.weights - 0.1 * np.sign(self.last)


class Shown(Adam):
    def released(self) -> Any:
        return self.last


class Secure(Plain):
    """Noise that follows no seed."""

    def __init__(self, given: Data, rng: np.random.Generator) -> None:
        super().__init__(given, np.random.default_rng())


class SecureAndSmall(Secure):
    def step(self, features: Any, labels: Any) -> None:
        self.weights = self.weights - 0.1 * (features.sum(0) + self.rng.normal(0, 0.1, 5))


class RefusesEmpty(Plain):
    def step(self, features: Any, labels: Any) -> None:
        if not len(features):
            raise ValueError("no records")
        super().step(features, labels)


def test_a_normalised_update_is_refused_and_its_gradient_is_taken() -> None:
    with pytest.raises(dp.InvalidParameter, match="released"):
        dp.audit_step(Adam, records(), noise_multiplier=NOISE)
    assert not dp.audit_step(Shown, records(), noise_multiplier=NOISE).faults


@pytest.mark.quality
def test_noise_without_a_seed_is_audited_by_means() -> None:
    """The right one is called wrong with probability 1e-4."""
    found = dp.audit_step(Secure, records(), noise_multiplier=NOISE)
    assert not found.faults
    assert "means of runs" in found.notes[0]
    assert dp.audit_step(SecureAndSmall, records(), noise_multiplier=NOISE).faults


@pytest.mark.quality
def test_a_step_that_refuses_no_records_is_checked_on_one_and_it_is_said() -> None:
    found = dp.audit_step(RefusesEmpty, records(), noise_multiplier=NOISE)
    assert not found.faults
    assert found.notes[0].startswith("a step on no records")
    assert dp.audit_step(RefusesEmpty, records(), noise_multiplier=2.0).faults


def test_a_function_of_a_state_and_an_estimator_are_trainings() -> None:
    def make(given: Data, rng: np.random.Generator) -> StateStep:
        def update(state: Any, features: Any, labels: Any) -> Any:
            weights, count = state
            rows = features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1)
            return weights - 0.1 * (rows.sum(0) + rng.normal(0, NOISE, 5)), count + 1

        return StateStep((np.zeros(5), 0), update, shown=lambda state: state[0])

    assert not dp.audit_step(make, records(), noise_multiplier=NOISE).faults
    assert dp.audit_step(make, records(), noise_multiplier=1.5).faults[0].kind == "small_noise"

    from sklearn.linear_model import SGDClassifier

    def estimator(given: Data, rng: np.random.Generator) -> EstimatorStep:
        model = SGDClassifier(random_state=int(rng.integers(2**31)))
        return EstimatorStep(model, classes=[0, 1])

    found = dp.audit_step(estimator, records(), noise_multiplier=NOISE)
    assert [fault.kind for fault in found.faults] == ["no_noise"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"noise_multiplier": 0}, "noise_multiplier = 0"),
        ({"noise_multiplier": "nan"}, "noise_multiplier = 'nan'"),
        ({"noise_multiplier": 1, "sampling_rate": 2}, "sampling_rate = 2"),
        ({"noise_multiplier": 1, "sampling": "coins"}, "sampling = 'coins'"),
    ],
)
def test_numbers_outside_their_domain_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(dp.InvalidParameter, match=said):
        dp.audit_step(Plain, records(), **given)


def test_a_step_that_fails_is_named_by_its_line_and_without_its_text() -> None:
    class Wrong(Plain):
        def step(self, features: Any, labels: Any) -> None:
            raise ValueError(f"secret {features[0, 0]}")

    with pytest.raises(dp.InvalidParameter, match=r"ValueError at .*test_step.py:\d+") as error:
        dp.audit_step(Wrong, records(), noise_multiplier=1)
    assert "secret" not in str(error.value)
    with pytest.raises(dp.InvalidParameter, match="no method parameters"):
        dp.audit_step(lambda given, rng: 3, records(), noise_multiplier=1)
    with pytest.raises(dp.InvalidParameter, match="5 records"):
        dp.audit_step(Plain, np.zeros((5, 5)), noise_multiplier=1)


@pytest.mark.quality
def test_a_check_leaves_the_global_generators_alone() -> None:
    before = np.random.get_state()  # noqa: NPY002
    dp.audit_step(Plain, records(), noise_multiplier=NOISE)
    assert np.array_equal(before[1], np.random.get_state()[1])  # noqa: NPY002


def test_the_page_shows_every_planted_bug(checkout: Path) -> None:
    kept = json.loads((checkout / "docs" / "evidence.json").read_text("utf-8"))["steps"]
    assert set(kept) == set(BUGS)
    for name, (_, found) in kept.items():
        assert set(found["kinds"]) & set(BUGS[name].kinds), name
        assert (found["line"], found["alarms"], found["twins"]) == (True, 0, 5), name


def test_words_of_comments_do_not_mislead_the_search_for_a_line(tmp_path: Path) -> None:
    path = tmp_path / "commented.py"
    path.write_text("a = 1  # noise of norm 1\nb = '# no'; c = 2  # clip\n")
    first, second = (Line(str(path), number) for number in (1, 2))
    assert (first.code, second.code) == ("a = 1", "b = '# no'; c = 2")
    assert named([first, second], "noise|clip") is None
    assert "noise" in first.text


class Decays(RefusesEmpty):
    """Noise that falls with every step."""

    count = 0

    def gradient(self, features: Any) -> Any:
        self.count += 1
        rows = self.weights - features
        norms = np.maximum(np.linalg.norm(rows, axis=1), 1e-12)
        total = (np.minimum(1, 1 / norms)[:, None] * rows).sum(0)
        return (total + self.rng.normal(0, NOISE / self.count, self.weights.size)) / 10


class Cached(RefusesEmpty):
    """One draw of noise for all steps, beside random initial parameters."""

    def __init__(self, given: Data, rng: np.random.Generator) -> None:
        super().__init__(given, rng)
        self.weights = rng.normal(0, 0.1, 5)
        self.noise = rng.normal(0, NOISE, 5)

    def gradient(self, features: Any) -> Any:
        rows = self.weights - features
        norms = np.maximum(np.linalg.norm(rows, axis=1), 1e-12)
        return ((np.minimum(1, 1 / norms)[:, None] * rows).sum(0) + self.noise) / 10


class OfOneSeed(Cached):
    def __init__(self, given: Data, rng: np.random.Generator) -> None:
        super().__init__(given, rng)
        self.noise = np.random.default_rng(4).normal(0, NOISE, 5)


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("make", "kind"),
    [(Decays, "later_noise"), (Cached, "repeated_noise"), (OfOneSeed, "fixed_noise")],
)
def test_later_steps_and_hidden_noise_are_checked_without_a_step_on_no_records(
    make: Any, kind: str
) -> None:
    found = dp.audit_step(make, records(), noise_multiplier=NOISE)
    assert [fault.kind for fault in found.faults] == [kind], str(found)
