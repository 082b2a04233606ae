"""The kernel of stable releases: law of the threshold, densities, residuals, refusals."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy
from scipy.integrate import quad
from scipy.stats import chisquare

from dpaudit.accountant.account import Account
from dpaudit.audit.attack import ReplayTask
from dpaudit.audit.engine import Batch, run_batches
from dpaudit.audit.residuals import check_residuals
from dpaudit.curator.curator import Curator, Sampler, Tracer
from dpaudit.curator.replayer import Replayer
from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.families.composition import Repeat
from dpaudit.families.stability import StableRelease
from dpaudit.families.stability.kernel import (
    GridStableReleaseKernel,
    StableReleaseKernel,
    TruncatedDiscreteLaplaceLaw,
)
from dpaudit.kernels.base import exact_kernels
from dpaudit.kernels.query import Array, Records
from dpaudit.nodes import Node
from dpaudit.scope import Adjacency, Scope
from mechanisms.papers.stable_erm.calibration import USERS

LEAF = StableRelease("r", 1, 2, 3)
BOX = StableRelease("r", 1, 2, 3, "diameter")


def session(trials: int = 1, leaf: Node = LEAF) -> StableReleaseKernel:
    return StableReleaseKernel(leaf, trials)


def values(score: float, *vector: float, trials: int = 1) -> Array:
    return np.tile([score, *vector], (trials, 1))


def density(released: Any, value: Array, scale: float = 3.0) -> float:
    row = np.atleast_2d(np.asarray(released, dtype=np.float64))
    return float(session().log_density(row, value, np.array([scale]))[0])


# --- the law of the threshold ---------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "kappa"), [(0.5, 3), (1.4, 2), (0.1, 40)])
@pytest.mark.parametrize("kernel", [StableReleaseKernel, GridStableReleaseKernel])
def test_thresholds_have_the_declared_law(epsilon: float, kappa: int, kernel: Any) -> None:
    """Chi-square of 20,000 draws; false-alarm rate 1e-6."""
    law = TruncatedDiscreteLaplaceLaw(epsilon, kappa)
    made = kernel(StableRelease("r", epsilon, kappa, 1), 20_000)
    drawn = np.bincount(made.thresholds(np.random.default_rng(7)), minlength=2 * kappa + 1)
    expected = 20_000 * np.exp(law.log_masses)
    common = expected >= 10
    assert (
        chisquare(drawn[common], expected[common] * drawn[common].sum() / expected[common].sum())[1]
        > 1e-6
    )
    assert len(drawn) == 2 * kappa + 1


def test_the_tables_are_complementary() -> None:
    law = TruncatedDiscreteLaplaceLaw(0.5, 32)
    assert np.exp(law.log_masses).sum() == pytest.approx(1, abs=1e-12)
    assert np.exp(law.log_passes) + np.exp(law.log_bottoms) == pytest.approx(np.ones(66), abs=1e-12)
    assert (law.log_bottoms[0], law.log_passes[-1]) == (-math.inf, -math.inf)
    assert (law.log_bottoms[-1], law.log_passes[0]) == (0.0, pytest.approx(0.0, abs=1e-12))


def test_a_score_that_is_no_score_never_passes() -> None:
    law = TruncatedDiscreteLaplaceLaw(1.0, 2)
    odd = np.array([0.0, 4.0, 5.0, 9.0, 0.5, -1.0, np.nan, np.inf])
    assert law.levels(odd).tolist() == [0, 4, 5, 5, 5, 5, 5, 5]


# --- densities ------------------------------------------------------------------------------------


@pytest.mark.parametrize("score", [0, 1, 2, 4, 5])
def test_the_density_integrates_to_one(score: int) -> None:
    def passing(x: float) -> float:
        return math.exp(density([x], values(score, 7.0)))

    passed = quad(passing, 7 - 40, 7 + 40)[0]
    bottom = math.exp(density([np.nan], values(score, 7.0)))
    assert passed + bottom == pytest.approx(1, abs=1e-9)
    law = TruncatedDiscreteLaplaceLaw(1.0, 2)
    assert passed == pytest.approx(math.exp(law.log_passes[score]), abs=1e-9)


def test_the_likelihood_ratio_has_mean_one() -> None:
    """E_D[exp(l' - l)] = 1 where D' is dominated; 4.9 standard errors: false-alarm rate 1e-6."""
    one, two = values(2, 0.0, 0.0, trials=40_000), values(3, 1.0, -1.0, trials=40_000)
    kernel, scale = session(40_000), np.full(40_000, 3.0)
    released = kernel.sample(one, scale, np.random.default_rng(3))
    logs = kernel.log_density(released, two, scale) - kernel.log_density(released, one, scale)
    ratio = np.exp(logs)
    assert ratio.mean() == pytest.approx(1, abs=4.9 * ratio.std() / 200)
    assert ratio.std() > 0.1


def test_what_cannot_happen_has_density_zero() -> None:
    assert density([np.nan], values(0, 1.0)) == -math.inf
    assert density([1.0], values(5, 1.0)) == -math.inf
    assert density([np.nan], values(5, 1.0)) == 0.0


def test_without_noise_the_vector_is_a_point() -> None:
    kernel, nothing = session(), np.zeros(1)
    law = TruncatedDiscreteLaplaceLaw(1.0, 2)
    released = kernel.sample(values(0, 1.5), nothing, np.random.default_rng(0))
    assert released.tolist() == [[1.5]]
    assert density([1.5], values(2, 1.5), 0.0) == pytest.approx(law.log_passes[2])
    assert density([1.6], values(2, 1.5), 0.0) == -math.inf


# --- residuals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("score", [0, 2, 4])
def test_residuals_are_normal_where_the_noise_is_as_declared(score: int) -> None:
    """Six checks a score; false-alarm rate 1e-6 each score."""
    kernel, scale = session(4_000), np.full(4_000, 3.0)
    value = values(score, 5.0, -5.0, trials=4_000)
    released = kernel.sample(value, scale, np.random.default_rng(score))
    residual = kernel.residual(released, value, scale)
    assert residual.shape == (4_000, 3)
    assert np.isfinite(residual).all()
    found = check_residuals({"r": residual[:, None]}, 1e-6)
    assert [f for f in found if f.status == "broken"] == []


def test_residuals_show_a_threshold_that_is_not_the_declared_one() -> None:
    kernel, scale = session(2_000), np.full(2_000, 3.0)
    value = values(2, 5.0, trials=2_000)
    always = value[:, 1:] + 3 * np.random.default_rng(1).standard_normal((2_000, 1))
    found = check_residuals({"r": kernel.residual(always, value, scale)[:, None]}, 1e-6)
    assert any(f.status == "broken" for f in found)
    impossible = kernel.residual(np.full((2_000, 1), np.nan), values(0, 5.0, trials=2_000), scale)
    assert impossible[:, 0].max() < -30


def test_batches_of_nothing_but_bottom_are_no_duplicates() -> None:
    value, scale = values(5, 5.0, trials=50), np.full(50, 3.0)
    batches = [session(50).sample(value, scale, np.random.default_rng(seed)) for seed in (1, 2)]
    shown = np.stack([session(50).residual(released, value, scale) for released in batches], axis=1)
    found = check_residuals({"r": shown}, 1e-6)
    assert [f for f in found if f.status == "broken"] == []


# --- how far two values are apart -----------------------------------------------------------------


def test_a_score_moves_by_one_and_a_vector_by_the_path() -> None:
    unit = np.array([0.5])
    apart = session().apart
    assert apart(values(1, 0.0), values(2, 2.5), unit).tolist() == [0.5]
    assert apart(values(1, 0.0), values(2, 2.6), unit)[0] > 0.5
    assert apart(values(1, 0.0), values(3, 0.0), unit)[0] == 1.0
    assert apart(values(4, 0.0), values(5, 1e9), unit).tolist() == [0.5]
    assert apart(values(0, 0.0, 0.0), values(0, 0.6, 0.8), unit).tolist() == [0.5]


def test_under_diameter_the_scores_do_not_matter() -> None:
    unit, apart = np.array([0.5]), session(leaf=BOX).apart
    assert apart(values(3, 0.0), values(4, 1.0), unit).tolist() == [0.5]
    assert apart(values(3, 0.0), values(4, 1.1), unit)[0] > 0.5


# --- in a curator ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Fixed:
    """Score and vector are the first record's."""

    norm: Any = field(default="l2", init=False)

    def value(self, records: Records, chosen: Any = None) -> Array:
        return records.values[:1]

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        return np.array(1.0)


@dataclass(frozen=True)
class Once:
    """One release."""

    leaf: Node = LEAF

    def declaration(self, scope: Scope) -> Node:
        return Repeat(self.leaf, 2)

    def run(self, curator: Curator) -> Array:
        curator.release("r", Fixed())
        return curator.release("r", Fixed())


def sampled(score: float, trials: int = 500, kernels: Any = None) -> Sampler:
    records = Records(np.array([[score, 3.0, -4.0]]))
    sampler = Sampler(
        Once().declaration(USERS),
        USERS,
        records,
        rng=np.random.default_rng(4),
        trials=trials,
        kernels=kernels,
    )
    Once().run(sampler)
    return sampler


@pytest.mark.parametrize("kernels", [None, exact_kernels()])
def test_a_run_releases_vectors_and_bottoms(kernels: Any) -> None:
    """The share of bottoms at a score of kappa is P(R < kappa), within 4.9 standard errors."""
    released = sampled(2, kernels=kernels).transcript[0].released
    assert released.shape == (500, 2)
    bottom = np.isnan(released)
    assert (bottom.all(axis=1) == bottom.any(axis=1)).all()
    share = math.exp(TruncatedDiscreteLaplaceLaw(1.0, 2).log_bottoms[2])
    assert bottom[:, 0].mean() == pytest.approx(share, abs=4.9 * math.sqrt(share / 500))
    assert np.nanmean(released, axis=0) == pytest.approx([3, -4], abs=1.0)


def test_a_replay_scores_vectors_and_bottoms() -> None:
    pair = tuple(Records(np.array([[s, v, -4.0]])) for s, v in ((2.0, 3.0), (3.0, 5.0)))
    replayer = Replayer(Once(), Once().declaration(USERS), USERS, pair)  # type: ignore[arg-type]
    transcript = sampled(2).transcript
    replay = replayer.inspect(transcript, own=0)
    assert replay.violations == ()
    assert (replay.attack, replay.residuals["r"].shape) == ("exact", (500, 2, 3))
    law = TruncatedDiscreteLaplaceLaw(1.0, 2)
    bottoms = np.isnan(np.stack([event.released[:, 0] for event in transcript])).all(axis=0)
    expected = 2 * (law.log_bottoms[2] - law.log_bottoms[3])
    assert replay.scores[bottoms] == pytest.approx(np.full(bottoms.sum(), expected))


def test_a_replay_reports_a_score_that_jumps() -> None:
    pair = tuple(Records(np.array([[s, 3.0, -4.0]])) for s in (1.0, 3.0))
    replayer = Replayer(Once(), Once().declaration(USERS), USERS, pair)  # type: ignore[arg-type]
    found = replayer.inspect(sampled(1).transcript, own=0).violations
    assert all("more than its stated l2 sensitivity" in line for line in found)
    assert len(found) == 2


class AlwaysPasses(StableReleaseKernel):
    """A wrong kernel: no score is too low."""

    def thresholds(self, rng: np.random.Generator) -> Array:
        return super().thresholds(rng) + 10**6


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize(("kernel", "broken"), [(StableReleaseKernel, 0), (AlwaysPasses, 1)])
def test_batches_of_one_trial_have_residuals_of_their_own(kernel: Any, broken: int) -> None:
    """Bottom in most of 400 runs, equal hashes in none: residuals exist, and judge the threshold.

    False-alarm rate 1e-4.
    """
    pair = tuple(Records(np.array([[s, 3.0, -4.0]])) for s in (2.0, 3.0))
    task = ReplayTask(Once(), Once().declaration(USERS), USERS, pair, {StableRelease: kernel})
    batches = [Batch((0, 0, 0, number), 1) for number in range(400)]
    found = run_batches(task, batches, root_seed=3).values()
    residuals = np.concatenate([row["residuals_0"] for row in found])
    assert np.isfinite(residuals).all()
    assert len(np.unique(residuals[:, :, 0])) == 800
    bad = [f for f in check_residuals({"r": residuals}) if f.status == "broken"]
    assert bool(bad) == broken


def test_a_trace_gives_the_vector() -> None:
    tracer = Tracer(Once().declaration(USERS), USERS, Records(np.array([[1.0, 3.0, -4.0]])))
    assert Once().run(tracer).tolist() == [[3.0, -4.0]]
    assert tracer.trace == [("r", 1.0, 3.0)] * 2


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "kappa"),
    [(0.0, 2), (math.nan, 2), (math.inf, 2), (1.0, 0), (1.0, 1.5), (1.0, 10**7)],
)
def test_laws_outside_their_domain(epsilon: float, kappa: Any) -> None:
    with pytest.raises(InvalidParameter, match="threshold"):
        TruncatedDiscreteLaplaceLaw(epsilon, kappa)


def test_symbols_are_bound_before_a_run() -> None:
    kappa = sympy.Symbol("kappa", positive=True, integer=True)
    with pytest.raises(InvalidParameter, match="bind its symbols"):
        StableReleaseKernel(StableRelease("r", 1, kappa, 3), 1)


def test_an_exact_kernel_needs_a_fraction() -> None:
    with pytest.raises(InvalidParameter, match="fewer digits"):
        GridStableReleaseKernel(StableRelease("r", sympy.sqrt(2), 2, 3), 1)
    with pytest.raises(InvalidParameter, match="fewer digits"):
        GridStableReleaseKernel(StableRelease("r", Fraction(1, 2**60 + 1), 2, 3), 1)


def test_a_value_needs_a_score_and_a_vector() -> None:
    with pytest.raises(InvalidParameter, match="one score and at least one coordinate"):
        session().admit(np.ones(1), 1)


def test_other_adjacencies_have_no_account() -> None:
    with pytest.raises(Unsupported):
        Account(LEAF, USERS.under("zero_out")).epsilon(1e-6)
