"""Canaries of audits exceed the clips of the programs that they attack, so that none is unseen.

Every suite of the catalogue is run on either data set, and every clip that it makes is seen:
those of a :class:`ClippedMean`, and those that a program makes of its own.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from audits import (
    diff2,
    diff2_baselines,
    kl_adaptive,
    noisy_mean,
    srgd,
    stable_erm_baselines,
    user_level,
)
from audits import user_level_baselines as user_baselines
from audits.training import last_iterate
from dpaudit.audit.attack import attack
from dpaudit.audit.suite import Suite
from dpaudit.curator.curator import Sampler
from dpaudit.kernels import query
from dpaudit.kernels.query import Array, Norm, Records
from dpaudit.project.project import catalogue_root, load

CLIP = query.clip_rows
THOUSAND = 999
RUNS = 8  # side by side, so that what is asked after a test that halts is asked in some
MEAN, OWN = "mean", "own"
PROJECT = load(catalogue_root())
SUITES = dict(sorted(PROJECT.suites.items()))
# Taken now: a test that serves another root takes the catalogue's modules out of ``sys.modules``.
CLIPPING = [m for m in list(sys.modules.values()) if getattr(m, "clip_rows", None) is CLIP]

# Suites whose runs clip nothing by a norm, and why.
LIPSCHITZ = "the bound is for Lipschitz losses, or for their iterates, which nothing clips"
MINIMISED = "what is released is a minimiser, or a score: no vector of a record is clipped"
SCALED = "a minimiser is released; features are scaled to a norm, which a test below exceeds"
COUNTED = "users are counted who are near, or reach a level: no vector of theirs is clipped"
UNCLIPPED = {
    "accelerated_dp_srgd_theorem_5_12_unclipped": LIPSCHITZ,
    "phased_sgd": LIPSCHITZ,
    "kl_spider_vacuous": "nothing is asked",
    "deletion_stable_output_perturbation": MINIMISED,
    "deletion_stable_output_perturbation_calibrated": MINIMISED,
    "deletion_stable_output_perturbation_laplace": MINIMISED,
    "ladder_stable_output_perturbation": MINIMISED,
    "window_mean_score": MINIMISED,
    "stable_phased_erm": MINIMISED,
    "stable_phased_erm_rows": MINIMISED,
    "stable_phased_sco": MINIMISED,
    "stable_phased_sco_rows": MINIMISED,
    "strongly_convex_erm": MINIMISED,
    "strongly_convex_erm_rows": MINIMISED,
    "strongly_convex_sco": MINIMISED,
    "strongly_convex_sco_rows": MINIMISED,
    "strongly_convex_output_perturbation": MINIMISED,
    "strongly_convex_output_perturbation_printed": MINIMISED,
    "item_phased_erm": SCALED,
    "propose_test_release": "a median and a distance are released, of numbers that are counted",
    "user_level_accelerated_sgd_independent_slots": COUNTED,
    "user_level_accelerated_sgd_redrawn_threshold": COUNTED,
    "above_threshold": COUNTED,
}

# Clips that no record exceeds by a thousand: the most that any can, in radii, and why.
ONE_HOT = "a record's row is a 1 among zeros, whatever the record is"
BEFORE = "the program clips what the row is made of before, which the canary exceeds"
BOUNDED: dict[tuple[str, str, str], tuple[float, str]] = {
    ("most_frequent", "category", MEAN): (1, ONE_HOT),
    ("histogram", "bins", MEAN): (1, ONE_HOT),
    ("adaptively_clipped_sgd", "within", MEAN): (1, "a record's row is plus or minus a half"),
    ("tuned_step_size", "right", MEAN): (1, "a record's row is 1 or 0: it is right, or not"),
    ("last_iterate", "weights", MEAN): (1, BEFORE),
    ("sampled_last_iterate", "weights", MEAN): (1, BEFORE),
    ("layered_sgd", "gradient", MEAN): (1, BEFORE),
    ("dp_sgd", "gradient", MEAN): (1, BEFORE),
    ("dp_srm", "gradient", MEAN): (1, BEFORE),
    # |coordinate| <= L = 1, and a centre within L - tau: (2 L - tau) / (2 tau), tau = 1/2 and 1/8.
    ("winsorized_mean_dpsgd", "mean", MEAN): (1.5, BEFORE),
}
# Differences of two gradients that the program clips before, a thousand times too long as they are:
# at most twice that clip, which is few times the difference's radius, and four times here.
TURNED = {(name, "difference", MEAN) for name in ("kl_spider", "private_spider")}

ONES = {name for (name, *_), (_, reason) in BOUNDED.items() if reason == ONE_HOT}


def clips(monkeypatch: pytest.MonkeyPatch, made: Callable[[str], Any]) -> None:
    """Has every module clip by ``made(MEAN)``, where a query does, or by ``made(OWN)``."""
    for module in CLIPPING:
        monkeypatch.setattr(module, "clip_rows", made(MEAN if module is query else OWN))


class Labelled(Sampler):
    """Knows which release is asked for."""

    label = ""

    def release(self, label: str, *arguments: Any, **options: Any) -> Array:
        self.label = re.sub(r"\W*\d+", "", label)
        return super().release(label, *arguments, **options)


def excesses(
    suite: Suite, monkeypatch: pytest.MonkeyPatch, *data: Records
) -> dict[tuple[str, str], float]:
    """How many times its radius the longest row is, by release and clip, on any of the data sets.

    ``data``: the suite's own pair where none is given.
    """
    found: dict[tuple[str, str], float] = {}
    mechanism = PROJECT.mechanisms[suite.mechanism]
    for records in data or suite.neighbours.pair:
        rng = np.random.default_rng(1)
        sampler = Labelled(mechanism.declaration, mechanism.scope, records, rng=rng, trials=RUNS)
        with monkeypatch.context() as patched:
            clips(patched, partial(watching, found, sampler))
            suite.program.run(sampler)
    return found


def watching(found: dict[tuple[str, str], float], sampler: Labelled, clip: str) -> Any:
    """The true clip, which notes how long its rows were."""

    def watched(rows: Array, radius: Array, norm: Norm = "l2") -> Array:
        limit = np.asarray(radius)[..., None]
        with np.errstate(all="ignore"):
            lengths = np.nan_to_num(query._NORMS[norm](np.asarray(rows)), nan=math.inf)
            excess = lengths / np.where(limit > 0, limit, np.inf)
        at = sampler.label, clip
        found[at] = max(found.get(at, 0.0), float(excess.max(initial=0.0)))
        return CLIP(rows, radius, norm)

    return watched


def short(name: str, found: dict[tuple[str, str], float]) -> set[tuple[str, str]]:
    """Clips that are exceeded by less than a thousand, and are not in the lists."""
    listed = BOUNDED.keys() | TURNED
    return {at for at, excess in found.items() if excess < THOUSAND and (name, *at) not in listed}


@pytest.mark.first_case("name", by=lambda name: name.split("_")[:2])
@pytest.mark.long_cases("phased_erm_in_batches")
@pytest.mark.parametrize("name", SUITES)
def test_a_canary_exceeds_every_clip_by_a_thousand(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for suite in SUITES[name].all:
        found = excesses(suite, monkeypatch)
        assert (found == {}) == (name in UNCLIPPED)
        assert short(name, found) == set()
        # Of a suite without a clip that is exceeded all rows are 0 or 1.
        assert not found or name in ONES or max(found.values()) >= THOUSAND


@pytest.mark.parametrize("name", [n for n, reason in UNCLIPPED.items() if reason == SCALED])
def test_a_canary_exceeds_the_norm_that_features_are_scaled_to(name: str) -> None:
    program: Any = SUITES[name].program
    rows = SUITES[name].neighbours.first.values[..., :-1]
    assert np.linalg.norm(rows, axis=-1).max() >= THOUSAND * program.problem.loss.feature_norm


def extremes(records: Records) -> Iterator[Records]:
    """Records of the same shape: huge ones of ten kinds, and as they are but for their size."""
    kinds = np.random.default_rng(5).normal(size=(10, *records.values.shape[1:]))
    yield Records(1e9 * kinds[np.arange(len(records)) % 10], records.present)
    yield Records(1e9 * records.values, records.present)


@pytest.mark.long_cases(
    "dp_sgd gradient mean", "dp_srm gradient mean", "winsorized_mean_dpsgd mean mean"
)
@pytest.mark.parametrize("at", BOUNDED, ids=" ".join)
def test_no_record_exceeds_a_bounded_clip_by_more(
    at: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that the list holds no clip that a longer canary would exceed."""
    name, *place = at
    suite, (largest, reason) = SUITES[name], BOUNDED[at]
    data = (*suite.neighbours.pair, *extremes(suite.neighbours.first))
    found = excesses(suite, monkeypatch, *data)[place[0], place[1]]
    assert 0 < found <= largest * (1 + 1e-9)
    # Where the program clips before, that clip is exceeded: nothing is left unseen.
    if reason == BEFORE:
        assert excesses(suite, monkeypatch)[place[0], OWN] >= THOUSAND


@pytest.mark.parametrize("at", sorted(TURNED), ids=" ".join)
def test_a_difference_of_clipped_gradients_exceeds_its_clip_by_four(
    at: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name, label, clip = at
    found = excesses(SUITES[name], monkeypatch)
    assert found[label, clip] >= 3.9
    assert found[label, OWN] >= THOUSAND


# --- canaries put back, and clips deleted ---------------------------------------------------------


def shorter(suite: Suite) -> Suite:
    """The suite with its records a thousand times as small."""
    first, second = (Records(rows.values / 1e3, rows.present) for rows in suite.neighbours.pair)
    return replace(suite, neighbours=replace(suite.neighbours, first=first, second=second))


def with_loss(suite: Suite, **changes: Any) -> Suite:
    """The suite with another loss, or with other constants of its own."""
    program: Any = suite.program
    if hasattr(program, "problem"):
        loss = replace(program.problem.loss, **changes)
        return replace(suite, program=replace(program, problem=replace(program.problem, loss=loss)))
    return replace(suite, program=replace(program, loss=replace(program.loss, **changes)))


def radius_of(suite: Suite) -> float:
    """The radius of its program's clip of gradients."""
    program: Any = suite.program
    return float(program.radius)


def of_slope_one(suite: Suite) -> Any:
    """The suite's program of paper 3 on the loss that its clip just takes."""
    program: Any = suite.program
    return srgd.linear(program)


DP_GD = PROJECT.mechanisms["dp_gd"]
DIFF2_GD = diff2.suite(PROJECT.mechanisms["diff2_gd"])
CLIENTS = diff2.suite(PROJECT.mechanisms["diff2_gd_client"])
SRGD = srgd.suite(PROJECT.mechanisms["accelerated_dp_srgd"])
NOISY = stable_erm_baselines.user_level_dp_gd
PULLED = kl_adaptive.adaptive_noisy_gd_proof
PUT_BACK: dict[str, Suite] = {
    "paper 1": shorter(user_baselines.user_level_phased_sgd_baseline),
    "paper 1, the hub": shorter(user_level.user_level_accelerated_sgd),
    "paper 2": with_loss(NOISY, feature_norm=4 * radius_of(NOISY)),
    "paper 3": replace(SRGD, program=of_slope_one(SRGD)),
    "paper 4, gradients": with_loss(diff2.suite(DP_GD), slope=1e3),
    "paper 4, differences": with_loss(DIFF2_GD, curvature=10.0),
    "paper 4, clients": with_loss(CLIENTS, curvature=10.0),
    "paper 4, batches": with_loss(diff2_baselines.dp_sgd, slope=1e3, curvature=1.0),
    "paper 5": with_loss(PULLED, length=1.0),
    "a mean": shorter(noisy_mean.noisy_mean),
    "a last iterate": shorter(last_iterate.last_iterate),
}


@pytest.mark.parametrize("name", PUT_BACK)
def test_a_canary_of_just_its_clip_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    suite = PUT_BACK[name]
    assert short(suite.mechanism, excesses(suite, monkeypatch)) != set()


def unclipped(rows: Array, radius: Array, norm: Norm = "l2") -> Array:
    """No clip at all."""
    return np.asarray(rows, dtype=np.float64)


def broken(suite: Suite) -> set[str]:
    """Checks that fail in an attack on few trials; false alarms: 5e-5."""
    mechanism, few = PROJECT.mechanisms[suite.mechanism], replace(suite, trials=20)
    found = attack(mechanism, few, seed=1, error=5e-5)
    return {finding.check for finding in found.findings if finding.status == "broken"}


DELETED: dict[str, tuple[Suite, Suite]] = {
    "paper 1": (user_baselines.user_level_phased_sgd_baseline, PUT_BACK["paper 1"]),
    "paper 4": (DIFF2_GD, with_loss(DIFF2_GD, slope=1e-3, curvature=1e-3)),
    "a mean": (noisy_mean.noisy_mean, PUT_BACK["a mean"]),
}


@pytest.mark.long_cases("paper 4")
@pytest.mark.parametrize("name", DELETED)
def test_a_deleted_clip_is_found_by_what_exceeds_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not by a canary of its length: its release moves by what is stated, clipped or not."""
    long, just = DELETED[name]
    assert broken(long) == broken(just) == set()
    clips(monkeypatch, lambda clip: unclipped)
    assert "stated sensitivities" in broken(long)
    assert broken(just) == set()
