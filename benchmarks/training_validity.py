"""How often audits of training are wrong about mechanisms that keep exactly what they claim.

``make evidence ARGS="training_validity"`` makes 4,000 audits of each path, in parts of 500, and
writes their table.  Errors are 5%, where they can be counted.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

from dpaudit.audit.bounds import one_run_curves
from dpaudit.audit.canaries import one_run
from dpaudit.audit.canaries.scores import audit_one_run
from dpaudit.audit.canaries.terms import CanaryTerms
from dpaudit.families.opaque import GDP, PureDP
from dpaudit.membership import Data, FunctionTarget, Released, Study, audit_training, pilot
from dpaudit.membership.bounds import Known, refused_after
from dpaudit.membership.crafted import OWN_GRADIENT, crafted
from dpaudit.membership.randomness import PAIRS, shared_p_value
from dpaudit.membership.reconstruction import allowed_rate, audit_reconstruction, with_values
from dpaudit.membership.step import check
from dpaudit.membership.step.entry import audit_step
from dpaudit.membership.text import TokenTraining, new_token_canaries
from tests.support import membership as nulls
from tests.support.steps import BUGS, NOISE, RATE, data_of, written

ERROR, AUDITS, PART = 0.05, 4_000, 500
_MEASURING = 0.02  # seconds of repeating a step, for .25 by default: fewer repeats, a harder test
# Models of a pilot's choices, for 8 to 1,024 by default: choices are worse, and audits cheaper.
_FEWER = {
    "FIRST_MODELS": 4, "ALONE_MODELS": 6, "ALONE": 2, "RARE": 1,
    "MOST_ALONE": 12, "SURE_MODELS": 12, "ROUNDS": 1, "CLIMBED": 1,
}  # fmt: skip


class Found(NamedTuple):
    """Whether an audit was wrong, and whether it showed more than half of what is true."""

    wrong: bool
    half: bool


def bounded(lower: float, truth: float) -> Found:
    """Whether a lower bound exceeds the truth, and whether it exceeds half of it."""
    return Found(lower > truth, lower > truth / 2)


@cache
def _table() -> Data:
    rng = np.random.default_rng(0)
    return Data(rng.normal(size=(24, 3)), rng.integers(0, 3, 24))


def kinds_of_canaries(seed: int) -> Found:
    """A pilot chooses among two kinds, several numbers of them and two backgrounds."""
    with mock.patch.multiple(pilot, **_FEWER):
        found = audit_training(
            nulls.responding_to_any(2.0), _table(), claim=PureDP(2), seed=seed, refute_at=1e-2,
            attacks="loss", models=12, canaries="spike,mislabelled",
        )  # fmt: skip
    return bounded(0.0 if found.bound is None else found.bound.value, 2.0)


_COLUMNS, _OF_OWN, _STEPS, _SEEN = 64, 60, 2, 2.0  # of records; canaries; steps; mu of all steps


def _directions(_: Any, records: Data) -> Any:
    lengths = np.linalg.norm(records.features, axis=1, keepdims=True)
    return records.features / np.maximum(lengths, 1e-12)


@cache
def _wide_table() -> Data:
    return Data(np.random.default_rng(0).normal(size=(2 * _COLUMNS, _COLUMNS)))


def own_gradients(seed: int) -> Found:
    """Canaries whose gradients are their own, in steps that are seen: mu-GDP in each record.

    A step is the sum of gradients of length 1 under noise, in closed form.
    """
    noise = math.sqrt(_STEPS) / _SEEN

    def seen_steps(records: Data, rng: np.random.Generator) -> Any:
        total = _directions(None, records).sum(axis=0)
        moves = total + rng.normal(0, noise, (_STEPS, total.size))
        path = np.cumsum(np.vstack([np.zeros(total.size), moves]), axis=0)
        return nulls.Global(path[-1], [nulls.Global(weights) for weights in path])

    target = FunctionTarget(
        seen_steps, lambda model, records: records.features @ model.weights, Released.ITERATES,
        "steps", _directions, lambda model: model.weights,
    )  # fmt: skip
    rng = np.random.default_rng([seed, 6])
    canaries = crafted(OWN_GRADIENT, _wide_table(), _OF_OWN, rng, partial(_directions, None))
    assert canaries is not None  # noqa: S101 (numbers can have such canaries)
    study = Study(target, canaries.data, 20, _wide_table(), seed=seed)
    found = study.run(claim=GDP(repr(_SEEN)), attacks="lira_steps", refute_at=0.05)
    return bounded(0.0 if found.bound is None else found.bound.value, _SEEN)


@cache
def _mu_lower(correct: int, guesses: int, canaries: int, error: float) -> float:
    return one_run_curves.one_run_mu_lower(correct, guesses, canaries, error)


def _one_run(canaries: int, mu: float, seed: int, scores: Callable[[Any], Any]) -> Found:
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(one_run, "one_run_mu_lower", _mu_lower),  # the same counts come again
    ):
        audit = audit_one_run(canaries, claim=GDP(repr(mu)), seed=seed)
        labels = audit.commit(Path(folder) / "commitment.json", seed=seed)
        return bounded(audit.bound(scores(labels.included)).lower, mu)


def one_run_by_mu(seed: int) -> Found:
    """500 coins of one run, each behind Gaussian noise: a claim of mu-GDP by its curve."""
    rng = np.random.default_rng([seed, 1])
    return _one_run(500, 1.0, seed, lambda included: included + rng.normal(size=500))


def text_canaries(seed: int) -> Found:
    """100 canaries that end in a token of their own, in one small private language model."""
    words, canaries, steps, mu = 20, 100, 3, 3.0
    rng = np.random.default_rng([seed, 2])
    records = Data(rng.integers(0, words, (60, 3)))
    own = new_token_canaries(Data(rng.integers(0, words, (canaries, 3))), canaries, words, rng)
    training = TokenTraining(words + canaries, 2, steps, 0.03, math.sqrt(steps) / mu)

    def scores(included: Any) -> Any:
        together = np.concatenate([records.features, own.features[included]])
        chances = training.log_chances(training.fit(Data(together), rng), own)[:, -1, words:]
        return np.diag(chances) - chances.mean(axis=1)

    return _one_run(canaries, mu, seed, scores)


def clients_in_or_out(seed: int) -> Found:
    """Clients of three records in four federated rounds whose sums are seen: 1-GDP.

    Training is by a function that no other process imports, so that none is started.
    """

    def rounds(records: Data, rng: np.random.Generator) -> Any:
        return nulls.rounds(records, rng, noise=math.sqrt(nulls.ROUNDS))

    target = FunctionTarget(rounds, nulls.fit_of_client, Released.ITERATES, "rounds")
    background = Data(np.zeros((2, nulls.CLIENTS)))
    study = Study(target, nulls.clients(), 16, background, seed=seed)
    found = study.run(claim=GDP(1), attacks="lira_path", refute_at=1e-2)
    return bounded(0.0 if found.bound is None else found.bound.value, 1.0)


_MU = 1.5


def _noisy_sum(records: Data, rng: Any) -> Any:
    return records.features.sum(axis=0) + rng.normal(0, 1 / _MU, records.features.shape[1])


def _along(model: Any, records: Data) -> Any:
    return records.features @ model


def attributes(seed: int) -> Found:
    """An attribute of two values that a sum of clipped records hides as badly as it may."""
    record = Data(np.zeros((1, 2)))
    candidates = with_values(record, 1, [1.0, -1.0])
    found = audit_reconstruction(
        (_noisy_sum, _along), Data(np.zeros((3, 2))), candidates, models=40, seed=seed
    )
    # More than half of the way from a blind guess to what is allowed.
    allowed = allowed_rate(GDP(repr(_MU)), 2)
    return Found(found.lower > allowed, found.lower > (0.5 + allowed) / 2)


def stopping(seed: int) -> Found:
    """A test that multiplies e-values and may stop after any of 8 models; "half" is not defined."""
    rng = np.random.default_rng([seed, 3])
    target = CanaryTerms.of(PureDP(1), 0.95, 1e-4, 0).target
    included = rng.random((16, 20)) < 0.5
    scores = nulls.response(1.0).scores(included, rng)
    known = Known(scores[:8], included[:8])
    refused = refused_after(known, scores[8:], included[8:], target, ERROR) is not None
    told = nulls.response(3.0).scores(included, rng)
    power = refused_after(Known(told[:8], included[:8]), told[8:], included[8:], target, ERROR)
    return Found(refused, power is not None)


def shared_noise(seed: int) -> Found:
    """Eight trainings in four processes: is noise that all draw alone taken for shared noise?"""
    rng = np.random.default_rng([seed, 4])
    rows = rng.standard_t(3, size=(PAIRS, 2, 5))
    common = rng.normal(size=(PAIRS, 1, 20)) + rng.normal(size=(PAIRS, 2, 20))
    wrong, right = (
        shared_p_value([(pair[0], pair[1]) for pair in each]) <= ERROR for each in (rows, common)
    )
    return Found(wrong, right)


@cache
def _loops() -> list[Any]:
    folder = Path(tempfile.mkdtemp(prefix="dpaudit-loops-"))
    chosen = [BUGS["NumPy: no clipping"], BUGS["NumPy: gradients are not zeroed"]]
    short = BUGS["NumPy: noise over the batch twice"]
    loops = [(written(planted, folder, right=True)[0], data_of(planted)) for planted in chosen]
    return [*loops, (written(short, folder, right=False)[0], data_of(short))]


def steps(seed: int) -> Found:
    """The check of one step, of right loops with and without momentum, at an error of 5%."""
    rng = np.random.default_rng([seed, 5])
    make, data = _loops()[seed % 2]
    wrong, records = _loops()[2]
    given: dict[str, Any] = {"noise_multiplier": NOISE, "sampling_rate": RATE, "error": ERROR}
    with mock.patch.object(check, "_SECONDS", _MEASURING):
        right = audit_step(make, data.take(rng.permutation(len(data))), seed=seed, **given)
        alarm = seed % 10 == 0 and audit_step(wrong, records, seed=seed, **given).faults
    return Found(bool(right.faults), bool(alarm))


class Path_(NamedTuple):
    """A path, what its second number counts, and the number of audits that this is a share of."""

    audit: Callable[[int], Found]
    words: str
    half: str
    every: int = 1


MORE = "the bound is above half of the truth"
PATHS = {
    "one run": Path_(one_run_by_mu, "500 canaries of one run, by the claim's curve", MORE),
    "text": Path_(text_canaries, "100 canaries of text in one language model", MORE),
    "stopping": Path_(
        stopping, "a test that may stop after any model", "a claim of a third is refused"
    ),
    "shared noise": Path_(
        shared_noise, "the test for noise that models share", "noise of which half is shared"
    ),
    "steps": Path_(
        steps, "the check of one step", "noise 20 times too small is named", 10
    ),
    "attributes": Path_(attributes, "an attribute that is inferred", MORE),
    "clients": Path_(clients_in_or_out, "clients in or out of federated rounds", MORE),
    "kinds": Path_(
        kinds_of_canaries,
        "canaries of two kinds, chosen by a pilot, in models that answer at random", MORE,
    ),
    "own gradients": Path_(
        own_gradients, "canaries with gradients of their own, in steps that are seen", MORE
    ),
}  # fmt: skip


def parts() -> list[str]:
    """The first part of each path, then the second of each, and so on."""
    return [f"{name}, {part}" for part in range(AUDITS // PART) for name in PATHS]


def measured(part: str) -> list[int]:
    """Audits, how many were wrong, and how many showed half of the truth."""
    name, _, number = part.rpartition(", ")
    found = [PATHS[name].audit(int(number) * PART + each) for each in range(PART)]
    return [PART, sum(each.wrong for each in found), sum(each.half for each in found)]


def lines(results: Mapping[str, list[int]]) -> list[str]:
    """The table of all paths."""
    table = [
        "Mechanisms that keep exactly what they claim, audited by each path of the library: how "
        f"many audits are wrong at a nominal error of {ERROR:.0%}, and in how many something is "
        "shown, since a bound of 0 is never wrong. A bound is wrong above the truth; a test, by "
        "an alarm. "
        f"{ERROR + 2 * math.sqrt(ERROR * (1 - ERROR) / AUDITS):.1%} is 5% and two standard errors "
        f"of {AUDITS:,} audits.",
        "",
        "| path | audits | wrong | shown | that is |",
        "|---|---|---|---|---|",
    ]
    worst = 0.0
    for name, path in PATHS.items():
        rows = [row for part, row in results.items() if part.rpartition(", ")[0] == name]
        if rows:
            audits, wrong, half = (sum(column) for column in zip(*rows, strict=True))
            worst = max(worst, wrong / audits)
            table.append(
                f"| {path.words} | {audits:,} | {wrong / audits:.1%} | "
                f"{half * path.every / audits:.1%} | {path.half} |"
            )
    return [*table, "", f"The largest share of wrong audits is {worst:.1%}."]
