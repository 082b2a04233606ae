"""The proposing curator: laws that lean away are normalised, likelihoods exact, the rest refused.

Means over drawn runs are compared at five standard errors: each comparison raises a false alarm
with probability below 1e-6; seeds are fixed.
"""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from dpaudit.curator.curator import Sampler
from dpaudit.curator.latent import enumerated
from dpaudit.curator.proposal import NoLikelihood, Proposal, Proposer, proposed
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.banded import CyclicPoisson
from dpaudit.families.batches import ShuffledBatches, TruncatedPoisson
from dpaudit.families.bounded import Staircase, StudentT, TruncatedLaplace, Tulap
from dpaudit.families.composition import Compose, Parallel, Repeat
from dpaudit.families.correlated import BandedToeplitz, CorrelatedGaussian, Participation
from dpaudit.families.discrete import (
    DiscreteGaussian,
    DiscreteLaplace,
    TruncatedDiscreteLaplace,
)
from dpaudit.families.distributed import (
    DistributedGaussian,
    DistributedGaussianVector,
    DistributedSkellam,
    DistributedSkellamVector,
)
from dpaudit.families.events import ProposeTestRelease
from dpaudit.families.individual import IndividualGaussian
from dpaudit.families.iterates import LastIterate, SampledLastIterate
from dpaudit.families.sampling import (
    PoissonSampled,
    RandomAllocation,
    SampledWithoutReplacement,
)
from dpaudit.families.selection import (
    AboveThreshold,
    ExponentialMechanism,
    IntegerExponentialMechanism,
    NoisyComparisons,
)
from dpaudit.families.stability import CoupledGaussian, StableRelease
from dpaudit.families.stability.coupled_kernel import packed
from dpaudit.families.tabular import (
    DiscreteGaussianVector,
    ThresholdedDiscreteGaussian,
    ThresholdedDiscreteLaplace,
)
from dpaudit.families.tuning import Tuned, TunedPoisson
from dpaudit.kernels.base import KERNELS, kernel_of
from dpaudit.kernels.query import Array, ClippedMean, Records
from tests.support.kernels import REPLACE_ONE, ZERO_OUT, Written, replayer

TRIALS = 20_000
POINTS = packed(np.array([[1.0, 1.0, 0.0]]), np.array([[[0.0], [1.0], [9.0]]]))
MOVED = packed(np.array([[1.0, 1.0, 0.0]]), np.array([[[0.5], [1.0], [9.0]]]))

ONES = Fraction(1), Fraction(2)

# A leaf with two values of its query, a shift and, where the leaf does not fix it, a scale.
CASES: dict[str, tuple[Any, Any, Any, float, float]] = {
    "gaussian": (Gaussian("a", 1), [0.5, 0.0], [0.0, 1.0], 1.5, 2.0),
    "laplace": (Laplace("a", 1), [0.5, 0.0], [0.0, 1.0], 3.0, 1.0),
    "discrete laplace": (DiscreteLaplace("a", 2), [5.0, 2.0], [3.0, 2.0], 1.0, 2.0),
    "discrete gaussian": (DiscreteGaussian("a", 4), [5.0], [4.0], 2.0, 2.0),
    "gaussian cells": (
        DiscreteGaussianVector("a", 4, 2, ((ONES,),)), [5.0, 1.0], [4.0, 2.0], 1.0, 2.0,
    ),
    "thresholded": (
        ThresholdedDiscreteLaplace("a", 2, 3, 3, 2, 1), [5.0, 1.0, 0.0], [5.0, 0.0, 0.0], 2.0, 2.0,
    ),
    "thresholded gaussian": (
        ThresholdedDiscreteGaussian("a", 4, 3, 5, 2, 1), [5.0, 1.0, 0.0], [5.0, 0.0, 0.0], 2.0, 2.0,
    ),
    "sum of gaussians": (DistributedGaussian("a", 2, 10, 3), [5.0], [4.0], 1.0, 1.0),
    "sum of skellams": (DistributedSkellam("a", 2, 10, 3), [5.0], [4.0], 1.0, 1.0),
    "vector of gaussians": (
        DistributedGaussianVector("a", 2, 10, 3, 2, 64), [5.0, 31.0], [4.0, 31.0], 2.0, 1.0,
    ),
    "vector of skellams": (
        DistributedSkellamVector("a", 2, 10, 3, 2), [5.0, 1.0], [4.0, 1.0], 2.0, 1.0,
    ),
    "staircase": (Staircase("a", 1, Fraction(1, 3)), [0.5], [-0.5], 1.0, 1.0),
    "tulap": (Tulap("a", 1, Fraction(1, 100)), [0.5], [-0.5], 1.0, 1.0),
    "student": (StudentT("a", 2, 3), [0.5], [-0.5], 1.0, 2.0),
    "truncated laplace": (TruncatedLaplace("a", 2, 5), [0.5], [-0.5], 1.0, 2.0),
    "exponential": (ExponentialMechanism("a", 1), [3.0, 0.0, -np.inf], [2.0, 1.0, -np.inf], 2.0, 1),
    "runs": (
        IntegerExponentialMechanism("a", 1), [3.0, 0, 1, 4, 0, 2], [2.0, 0, 2, 4, 0, 2], 2.0, 2.0,
    ),
    "comparisons": (NoisyComparisons("a", 4, 8, 1.5, 2), [0.5], [-0.5], 2.0, 4.0),
    "above threshold": (AboveThreshold("a", 1, 1, 1), [0.5], [-0.5], 2.0, 2.0),
    "correlated": (CorrelatedGaussian("a", 1, 4), [0.5], [-0.5], 1.0, 2.0),
    "individual": (IndividualGaussian("a", 1, 2, 100), [0.5], [-0.5], 1.0, 2.0),
    "stable": (StableRelease("a", 1, 4, 1), [3.0, 0.5], [2.0, 0.0], 1.5, 1.0),
    "tested": (
        ProposeTestRelease(Laplace("s", 2), Gaussian("a", 1), Fraction(1, 10**6)),
        [1.0, 0.5], [0.0, 0.0], 1.5, 1.0,
    ),
    "tested in whole numbers": (
        ProposeTestRelease(TruncatedDiscreteLaplace("s", 2, 9), Gaussian("a", 1), Fraction(1, 9)),
        [1.0, 0.5], [0.0, 0.0], 1.5, 1.0,
    ),
    "coupled": (CoupledGaussian("a", 1, 2, 2, Fraction(1, 10)), POINTS[0], MOVED[0], 2.0, 1.0),
}  # fmt: skip
REFUSED = {Tuned, TunedPoisson, LastIterate, SampledLastIterate}


def test_every_kernel_is_a_case_or_has_no_likelihood() -> None:
    kernel_of(Gaussian("a", 1))  # loads all
    shipped = {kind for kind in KERNELS if kind.__module__.startswith("dpaudit.")}
    assert shipped == {type(leaf) for leaf, *_ in CASES.values()} | REFUSED


def means(leaf: Any, first: Any, second: Any, shift: float, scale: float) -> list[Any]:
    """Weights p/r and q/r of releases drawn from the mixture with a law that leans away."""

    def make() -> Any:
        return kernel_of(leaf)(leaf, TRIALS)

    rng, sizes = np.random.default_rng(5), np.full(TRIALS, float(scale))
    values, others = (np.tile(np.asarray(v, dtype=float), (TRIALS, 1)) for v in (first, second))
    plain, shifts = rng.random(TRIALS) < 0.2, np.full(TRIALS, shift)
    with np.errstate(all="ignore"):
        drawn = make().sample_away(values, others, np.where(plain, 0.0, shift), sizes, rng)
        leaning = make().log_density_away(drawn, values, others, shifts, sizes)
        log_p, loss = make().compared(make(), drawn, values, others, sizes)
        log_q = make().log_density(drawn, others, sizes)
        log_r = np.logaddexp(np.log(0.2) + log_p, np.log(0.8) + leaning)
        known = np.isfinite(log_p) & np.isfinite(log_q)
        np.testing.assert_allclose(loss[known], (log_p - log_q)[known], atol=1e-9)
    return [np.exp(log_p - log_r), np.exp(log_q - log_r)]


@pytest.mark.first_case
@pytest.mark.parametrize("name", CASES)
def test_weights_have_mean_one(name: str) -> None:
    weights, others = means(*CASES[name])
    assert abs(weights.mean() - 1) <= 5 * weights.std() / TRIALS**0.5 + 1e-9
    # Where R cannot be, Q may: its mass there is missing.
    assert others.mean() <= 1 + 5 * others.std() / TRIALS**0.5 + 1e-9
    assert weights.max() <= 1 / 0.2 + 1e-9
    assert others.std() > 0  # the laws differ


def test_a_weight_of_another_shift_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check goes red where the density is of another law than the draws."""
    kernel = kernel_of(Gaussian("a", 1))
    right = kernel.log_density_away
    monkeypatch.setattr(
        kernel, "log_density_away", lambda self, x, v, w, s, c: right(self, x, v, w, 1.2 * s, c)
    )
    with pytest.raises(AssertionError):
        test_weights_have_mean_one("gaussian")


# --- whole runs ----------------------------------------------------------------------------------


def rows(radius: float = 1.0, **options: Any) -> ClippedMean:
    return ClippedMean(lambda z: z[None], radius, **{"divisor": 1.0, **options})


def signed(sign: Array, **options: Any) -> ClippedMean:
    return ClippedMean(lambda z: z[None] * sign, 1.0, divisor=1.0, **options)


def steps(node: Any, labels: str, rounds: int, **options: Any) -> Written:
    """In each round one secret batch and a release of every label; later ones see earlier ones."""

    def body(curator: Any) -> None:
        seen = np.zeros((curator.trials, 1))
        for _ in range(rounds):
            with curator.batch(labels[0]) as batch:
                for label in labels:
                    sign = np.where(seen >= 0, 1.0, -1.0)[:, None, :]
                    released = curator.release(label, signed(sign, **options), rows=batch)
                    seen = seen + released

    return Written(node, body)


LOUD = (
    Records(np.array([[1.0], [0.0], [0.0], [0.0]])),
    Records(np.array([[-1.0], [0.0], [0.0], [0.0]])),
)
PUSHED = (
    Records(np.array([[1.0], [-0.5], [-0.5], [0.0]])),
    Records(np.array([[-1.0], [-0.5], [-0.5], [0.0]])),
)
ABSENT = Records(PUSHED[0].values), Records(PUSHED[0].values, np.array([False, True, True, True]))
BANDS: Any = (1, 0.5)
SAMPLED = {
    "poisson": steps(Repeat(PoissonSampled(Gaussian("a", 1), 0.3), 2), "a", 2),
    "two labels": steps(
        Repeat(PoissonSampled(Compose(Gaussian("a", 1), Gaussian("b", 1)), 0.3), 2), "ab", 2
    ),
    "fixed": steps(Repeat(SampledWithoutReplacement(Laplace("a", 1), 2, 4), 2), "a", 2, norm="l1"),
    "allocated": steps(RandomAllocation(Gaussian("a", 1), 3), "a", 3),
    "shuffled": steps(ShuffledBatches(Gaussian("a", 1), 4, 2), "a", 2),
    "truncated": steps(TruncatedPoisson(Gaussian("a", 1), Fraction(1, 2), 4, 2), "a", 1),
    "bands": steps(
        CyclicPoisson(
            CorrelatedGaussian("a", 1, 4, BandedToeplitz(BANDS), Participation(2, 2)), 2, 0.5
        ),
        "a",
        4,
    ),
}  # fmt: skip


@pytest.mark.first_case
@pytest.mark.parametrize("pair", [LOUD, PUSHED], ids=["loud", "pushed"])
@pytest.mark.parametrize("name", SAMPLED)
def test_losses_of_secret_batches_are_those_of_an_exact_replay(name: str, pair: Any) -> None:
    program = SAMPLED[name]
    found, curator = proposed(
        program, program.node, REPLACE_ONE, pair, rng=np.random.default_rng(2), trials=400,
        proposal=Proposal(shift=1.0, include=0.6),
    )  # fmt: skip
    replay = replayer(program, pair, REPLACE_ONE).inspect(curator.transcript, 0)
    assert replay.attack == "exact"
    np.testing.assert_allclose(found.losses, replay.scores, atol=1e-6)
    weights = np.exp(found.log_weights)
    assert abs(weights.mean() - 1) <= 5 * weights.std() / 20 + 1e-6
    others = weights * np.exp(-found.losses)
    assert abs(others.mean() - 1) <= 5 * others.std() / 20 + 1e-6


class TrialByTrial:
    """A query of somebody else, who takes (trials, n) at its word: a batch and a sign a trial."""

    norm, exchangeable = "l2", True

    def __init__(self, sign: Array) -> None:
        self.sign = sign

    def value(self, records: Records, chosen: Any = None) -> Array:
        held = records.values[:, 0] * records.present
        return np.array([[held[batch].sum() * sign] for batch, sign in zip(chosen, self.sign)])  # noqa: B905  (as programs are written)

    def sensitivity(self, adjacency: Any, size: int) -> Array:
        return np.array(6.0)


def test_a_query_is_handed_the_batch_of_every_trial() -> None:
    """Also where all trials are computed for one batch: its value would be that of the first."""

    def program(make: Any) -> Written:
        def body(curator: Any) -> None:
            seen = np.zeros((curator.trials, 1))
            for _ in range(2):
                with curator.batch("a") as batch:
                    seen = curator.release("a", make(np.sign(seen) + 2), rows=batch)

        return Written(Repeat(PoissonSampled(Gaussian("a", 1), 0.3), 2), body)

    theirs = program(lambda sign: TrialByTrial(sign[:, 0]))
    found, curator = proposed(
        theirs, theirs.node, REPLACE_ONE, PUSHED, rng=np.random.default_rng(2), trials=50,
        proposal=Proposal(1.0, 0.5),
    )  # fmt: skip
    ours = program(lambda sign: ClippedMean(lambda z: z[None] * sign[:, None], 3, divisor=1))
    for same in (ours, theirs):
        replay = replayer(same, PUSHED, REPLACE_ONE).inspect(curator.transcript, 0)
        assert replay.attack == "exact"
        np.testing.assert_allclose(found.losses, replay.scores, atol=1e-6)


def test_a_query_that_says_nothing_of_its_records_is_told_what_to_say(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def body(curator: Any) -> None:
        with curator.batch("a") as batch:
            curator.release("a", TrialByTrial(np.ones(curator.trials)), rows=batch)

    program = Written(PoissonSampled(Gaussian("a", 1), 0.3), body)

    def losses() -> Array:
        found, _ = proposed(
            program, program.node, REPLACE_ONE, LOUD, rng=np.random.default_rng(2), trials=5,
            proposal=Proposal(1.0, 0.5),
        )  # fmt: skip
        return found.losses

    monkeypatch.setattr(TrialByTrial, "exchangeable", False)
    with pytest.raises(NoLikelihood, match="says that such rows are `silent`"):
        losses()
    zero = lambda self, records, on: (records.values == 0).all(axis=1)  # noqa: E731
    monkeypatch.setattr(TrialByTrial, "silent", zero, raising=False)
    assert np.isfinite(losses()).all()


def test_a_release_on_a_secret_batch_has_the_density_of_all_batches() -> None:
    """Against the sum over all 2^4 batches, of records of which some move nothing."""
    program = steps(PoissonSampled(Gaussian("a", 1), 0.3), "a", 1)
    found, curator = proposed(
        program, program.node, ZERO_OUT, ABSENT, rng=np.random.default_rng(2), trials=50,
        proposal=Proposal(1.0, 0.5),
    )  # fmt: skip
    released = curator.transcript[0].released[:, 0]
    logs = []
    for records in ABSENT:
        every = []
        for chosen in itertools.product([0, 1], repeat=4):
            held = np.array(chosen)
            mean = float((held * records.values[:, 0] * records.present).sum())
            chance = stats.bernoulli.logpmf(held, 0.3).sum()
            every.append(chance + stats.norm.logpdf(released, mean, 1))
        logs.append(logsumexp(every, axis=0))
    np.testing.assert_allclose(found.losses, logs[0] - logs[1], atol=1e-7)


def test_a_thousand_silent_records_leave_two_outcomes() -> None:
    """Their law is that of one binomial coin, for a batch of any kind."""
    records = Records(np.r_[np.ones((1, 1)), np.zeros((999, 1))])
    asked = [(rows(), np.ones(1, dtype=bool))]
    for node, share in (
        (PoissonSampled(Gaussian("a", 1), 0.01), 0.01),
        (SampledWithoutReplacement(Gaussian("a", 1), 50, 1000), 0.05),
        (TruncatedPoisson(Gaussian("a", 1), Fraction(1, 100), 1000, 1000), 0.01),
    ):
        found = enumerated(node, records, asked)
        assert found is not None
        held = {bool(m[0, 0]): log for m, log in zip(found.masks, found.logs, strict=True)}
        assert len(found.masks) == 2
        np.testing.assert_allclose([held[True], held[False]], np.log([share, 1 - share]), atol=1e-9)


def test_records_of_other_weights_do_not_stand_for_one_another() -> None:
    asked = [(rows(divisor=None, weights=np.array([1.0, 0.5, 0.0])), np.ones(1, dtype=bool))]
    found = enumerated(PoissonSampled(Gaussian("a", 1), 0.5), Records(np.ones((3, 1))), asked)
    assert found is not None
    assert len(found.masks) == 4  # the third has weight zero


@pytest.mark.parametrize("sizes", [(3, 2), (2, 3)])
def test_add_remove_compares_batches_of_both_sizes(sizes: tuple[int, int]) -> None:
    from tests.support.kernels import ADD_REMOVE

    first, second = (Records(np.array([[0.0], [0.0], [1.0]])[:n]) for n in sizes)
    pair = first, second
    program = steps(Repeat(PoissonSampled(Gaussian("a", 1), 0.3), 3), "a", 3)
    found, curator = proposed(
        program, program.node, ADD_REMOVE, pair, rng=np.random.default_rng(2), trials=400,
        proposal=Proposal(1.0, 0.5),
    )  # fmt: skip
    replay = replayer(program, pair, ADD_REMOVE).inspect(curator.transcript, 0)
    np.testing.assert_allclose(found.losses, replay.scores, atol=1e-6)
    weights = np.exp(found.log_weights)
    assert abs(weights.mean() - 1) <= 5 * weights.std() / 20 + 1e-6


def test_plain_runs_are_those_of_a_sampler() -> None:
    """With a share of 1 every weight is 1, and the residuals are standard normal."""
    program = Written(Gaussian("a", 2), lambda curator: curator.release("a", rows()))
    found, curator = proposed(
        program, program.node, REPLACE_ONE, LOUD, rng=np.random.default_rng(3), trials=2000,
        proposal=Proposal(shift=5.0, plain=1.0),
    )  # fmt: skip
    np.testing.assert_allclose(found.log_weights, 0, atol=1e-6)
    replay = replayer(program, LOUD, REPLACE_ONE).inspect(curator.transcript, 0)
    assert stats.kstest(replay.residuals["a"].ravel(), "norm").pvalue > 1e-3


def test_a_part_and_a_public_order_are_those_of_both_data_sets() -> None:
    def body(curator: Any) -> None:
        curator.permute()
        curator.release("a", rows(), rows=curator.part(0, (2, 2)))
        curator.release("b", rows(), rows=curator.part(1, (2, 2)))

    program = Written(Parallel(Gaussian("a", 2), Gaussian("b", 2)), body)
    for seed in range(6):
        found, curator = proposed(
            program, program.node, REPLACE_ONE, LOUD, rng=np.random.default_rng(seed), trials=1,
            proposal=Proposal(1.0),
        )  # fmt: skip
        replay = replayer(program, LOUD, REPLACE_ONE).inspect(curator.transcript, 0)
        np.testing.assert_allclose(found.losses, replay.scores, atol=1e-6)


def test_trials_that_are_off_count_for_nothing() -> None:
    def body(curator: Any) -> None:
        first = curator.release("a", rows())[:, 0] > 0
        if first.any():
            curator.release("b", rows(), on=first)

    program = Written(Compose(Gaussian("a", 2), Gaussian("b", 2)), body)
    found, curator = proposed(
        program, program.node, REPLACE_ONE, LOUD, rng=np.random.default_rng(1), trials=500,
        proposal=Proposal(1.0),
    )  # fmt: skip
    replay = replayer(program, LOUD, REPLACE_ONE).inspect(curator.transcript, 0)
    np.testing.assert_allclose(found.losses, replay.scores, atol=1e-6)


def test_a_release_without_noise_that_differs_has_an_endless_loss() -> None:
    """Radius 0 draws nothing; the loss is cut to a finite number, and no weight is NaN."""

    def body(curator: Any) -> None:
        curator.release("a", ClippedMean(lambda z: z[None], 0.0, divisor=1.0, plus=1.0))

    program = Written(Gaussian("a", 2), body)
    found, _ = proposed(
        program, program.node, REPLACE_ONE, LOUD, rng=np.random.default_rng(1), trials=50,
        proposal=Proposal(1.0),
    )  # fmt: skip
    np.testing.assert_allclose(found.losses, 0, atol=1e-6)
    assert np.isfinite(found.log_weights).all()


# --- what has no likelihood ----------------------------------------------------------------------


def test_too_many_batches_are_refused_and_never_averaged() -> None:
    many = Records(np.linspace(-1, 1, 9)[:, None])
    other = Records(np.r_[[[1.0]], many.values[1:]])
    program = steps(PoissonSampled(Gaussian("a", 1), 0.3), "a", 1)
    with pytest.raises(NoLikelihood, match=r"'a'.*more ways"):
        proposed(
            program, program.node, REPLACE_ONE, (many, other), rng=np.random.default_rng(1),
            trials=5, proposal=Proposal(1.0),
        )  # fmt: skip


def test_coins_inside_a_release_are_refused() -> None:
    class Coins:
        norm: Any = "l2"

        def sensitivity(self, adjacency: Any, size: int) -> Array:
            return np.array(1.0)

        def value(self, records: Records, chosen: Any = None) -> Array:
            return packed(np.full((1, 2), 0.5), np.array([[[0.0], [1.0]]]))

    leaf = CoupledGaussian("a", 1, 2, 2, Fraction(1, 10))
    program = Written(leaf, lambda curator: curator.release("a", Coins()))
    with pytest.raises(NoLikelihood, match=r"'a'.*average"):
        proposed(
            program, leaf, REPLACE_ONE, LOUD, rng=np.random.default_rng(1), trials=5,
            proposal=Proposal(1.0),
        )  # fmt: skip


def test_a_search_is_refused_by_name() -> None:
    def body(curator: Any) -> None:
        curator.best_of("a", lambda c: (c.release("a", rows()), np.zeros(c.trials)))

    program = Written(Tuned(Gaussian("a", 2), Fraction(1, 2), 0), body)
    with pytest.raises(NoLikelihood, match="search 'a'"):
        proposed(
            program, program.node, REPLACE_ONE, LOUD, rng=np.random.default_rng(1), trials=5,
            proposal=Proposal(1.0),
        )  # fmt: skip


def test_a_proposer_draws_as_a_sampler_where_nothing_leans() -> None:
    assert issubclass(Proposer, Sampler)
