"""Latent coins of secret batches: exact mixtures, averages, and what cheats."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpaudit.curator.curator import Curator, Sampler
from dpaudit.curator.entitlement import Mask
from dpaudit.curator.latent import Outcomes, enumerated
from dpaudit.curator.replayer import Walk
from dpaudit.errors import SensitivityExceeded
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Compose, Repeat
from dpaudit.families.sampling import PoissonSampled, SampledWithoutReplacement
from dpaudit.kernels.query import Array, ClippedMean, Records
from dpaudit.nodes import Node
from dpaudit.scope import Scope
from tests.support.kernels import (
    ADD_REMOVE,
    REPLACE_ONE,
    ZERO_OUT,
    NoNoise,
    Releases,
    Stated,
    Written,
    replayer,
    sampled,
    total,
    zeroed,
)

Pair = tuple[Records, Records]


DATA = Records(np.array([[0.5], [-0.25], [8.0], [0.125]]))


ANTIPODAL = (Records(np.array([[1.0], [0.0]])), Records(np.array([[-1.0], [0.0]])))


def clipped(radius: float = 1.0, **options: Any) -> ClippedMean:
    return ClippedMean(lambda z: z[None], radius, **{"divisor": 1.0, **options})


def sampler(
    node: Node, scope: Scope = ZERO_OUT, records: Records = DATA, **options: Any
) -> Sampler:
    return Sampler(node, scope, records, rng=np.random.default_rng(0), **options)


# --- latent coins --------------------------------------------------------------------------------

CANARY = (Records(np.array([[1.0], [0.0], [0.0]])), Records(np.zeros((3, 1))))


def in_batches(
    node: Node, rounds: int, norm: Any, labels: str = "a", weights: Any = None
) -> Written:
    """With weights, equal records do not stand for one another, and coins are drawn."""

    def body(curator: Curator) -> None:
        query = clipped(norm=norm)
        if weights is not None:
            query = clipped(norm=norm, weights=weights, divisor=None)
        for _ in range(rounds):
            with curator.batch(labels[0]) as batch:
                for label in labels:
                    curator.release(label, query, rows=batch)

    return Written(node, body)


def lower_bound_on_epsilon(scores: tuple[Array, Array], level: float, delta: float) -> float:
    """log((P0(S > level) - delta) / P1(S > level)) from Clopper-Pearson ends at 1 - 5e-5 each."""
    n0, n1 = (len(s) for s in scores)
    hits = [int((s > level).sum()) for s in scores]
    low = stats.beta.ppf(5e-5, hits[0], n0 - hits[0] + 1)
    high = stats.beta.ppf(1 - 5e-5, hits[1] + 1, n1 - hits[1])
    return float(np.log(max(low - delta, 1e-300) / high))


def scores_of(
    program: Written, scope: Scope, pair: Pair, trials: int, attack: str = "exact"
) -> tuple[Array, Array]:
    found = []
    for own in (0, 1):
        transcript = sampled(program, pair[own], scope, seed=own, trials=trials).transcript
        replay = replayer(program, pair, scope, coins=99).inspect(transcript, own=own)
        assert replay.attack == attack
        assert replay.violations == ()
        found.append(replay.scores)
    return found[0], found[1]


class Remembering(Sampler):
    """A sampler that tells its secret batches."""

    def _draw(self, sampling: Node, size: int) -> list[Mask]:
        self.drawn = super()._draw(sampling, size)
        return self.drawn


class Cheating(Walk):
    """A walk that replays the recorded batch."""

    recorded: list[Mask]

    def _outcomes(self, key: Any, held: Any) -> Outcomes:
        return Outcomes(self.recorded, np.zeros(1), exact=False)


def scores_with_recorded_coins(program: Written, pair: Pair, trials: int) -> tuple[Array, Array]:
    found = []
    node = program.node
    for own in (0, 1):
        rng = np.random.default_rng(own)
        sampler = Remembering(node, ZERO_OUT, pair[own], rng=rng, trials=trials)
        program.run(sampler)
        densities = []
        for records in pair:
            walk = Cheating(node, ZERO_OUT, records, sampler.transcript, coins=0, draws=1)
            walk.recorded = sampler.drawn
            program.run(walk)
            densities.append(walk.log_density)
        found.append(densities[0] - densities[1])
    return found[0], found[1]


@pytest.mark.quality
def test_averaged_coins_never_exceed_the_true_epsilon_and_recorded_coins_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Poisson-sampled Laplace, rate .3, eps 5.5: truly log(1 + .3 (e^5.5 - 1)) = 4.30 at most.

    Either bound is wrong with probability 1e-4; both levels are fixed.
    """
    node = PoissonSampled(Laplace("a", 1 / 5.5), 0.3)
    program = in_batches(node, 1, "l1", weights=np.ones(3))
    true = math.log(1 + 0.3 * math.expm1(5.5))
    pair = zeroed(CANARY[0].values, 0)
    with monkeypatch.context() as patched:
        patched.setattr("dpaudit.curator.replayer.enumerated", lambda *_: None)
        averaged = scores_of(program, ZERO_OUT, pair, 200_000, "averaged(32)")
    bound = lower_bound_on_epsilon(averaged, 3.5, 0.0)
    assert 0.8 * true < bound <= true == pytest.approx(4.30, abs=0.01)
    recorded = scores_with_recorded_coins(program, pair, 200_000)
    assert lower_bound_on_epsilon(recorded, 5.4, 0.0) > true


LAST = np.array([[0.0], [0.0], [1.0]])
NEIGHBOURS = {
    ZERO_OUT.adjacency: zeroed(LAST, 2),
    ADD_REMOVE.adjacency: (Records(LAST), Records(LAST[:2])),
}


@pytest.mark.quality
@pytest.mark.long_cases("add_remove")
@pytest.mark.parametrize("scope", [ZERO_OUT, ADD_REMOVE], ids=lambda s: s.adjacency)
def test_poisson_gaussian_bounds_stay_below_the_truth(scope: Scope) -> None:
    """One step at rate .2, z = .5: delta(eps) of the mixture is exact.

    Three fixed levels, each bound wrong with probability 1e-4.
    """
    program = in_batches(PoissonSampled(Gaussian("a", 0.5), 0.2), 1, "l2")
    scores = scores_of(program, scope, NEIGHBOURS[scope.adjacency], 40_000)
    delta = 0.01
    true = next(e for e in np.arange(0.0, 20.0, 0.001) if mixture_delta(e, 0.2, 0.5) <= delta)
    bounds = [lower_bound_on_epsilon(scores, level, delta) for level in (0.5, 1.0, 2.0)]
    assert 0.6 * true < max(bounds) <= true


def mixture_delta(epsilon: float, rate: float, z: float) -> float:
    """Hockey-stick divergence of (1-q) N(0, z^2) + q N(1, z^2) from N(0, z^2), in closed form."""
    if math.expm1(epsilon) + rate <= 0:
        return 1.0
    ratio = math.log((math.exp(epsilon) - 1 + rate) / rate)
    edge = z * z * ratio + 0.5
    above = rate * stats.norm.sf((edge - 1) / z) + (1 - rate) * stats.norm.sf(edge / z)
    return float(above - math.exp(epsilon) * stats.norm.sf(edge / z))


def test_a_step_of_two_releases_is_averaged_over_one_batch() -> None:
    """The average of products, not the product of averages: exact for a batch of all records."""
    both = Compose(Gaussian("a", 1), Gaussian("b", 1))
    node = Repeat(SampledWithoutReplacement(both, 3, 3), 2)
    program = in_batches(node, 2, "l2", "ab")
    transcript = sampled(program, CANARY[0], REPLACE_ONE, seed=1, trials=9).transcript
    averaged = replayer(program, CANARY, REPLACE_ONE, draws=2).scores(transcript)
    plain = Releases(Repeat(both, 2), tuple((label, clipped()) for label in "abab"))
    exact = replayer(plain, CANARY, REPLACE_ONE).scores(transcript)
    np.testing.assert_allclose(averaged, exact, rtol=1e-9)
    programs: list[Any] = [program, plain]
    walks = [Walk(p.node, REPLACE_ONE, CANARY[1], transcript, coins=0) for p in programs]
    for walk, asked in zip(walks, programs, strict=True):
        asked.run(walk)
    np.testing.assert_allclose(walks[0].log_density, walks[1].log_density, rtol=1e-9)


@pytest.mark.parametrize(("weights", "error"), [(None, 1e-9), (np.ones(3), 0.15)])
def test_the_average_is_the_mixture(weights: Any, error: float) -> None:
    """Exactly, where equal records stand for one another; with 4,000 draws within 15%."""
    node = PoissonSampled(Compose(Gaussian("a", 1), Gaussian("b", 1)), 0.4)
    program = in_batches(node, 1, "l2", "ab", weights)
    pair = zeroed(CANARY[0].values, 0)
    transcript = sampled(program, pair[0], ZERO_OUT, seed=2, trials=30).transcript
    scores = replayer(program, pair, ZERO_OUT, draws=4000).scores(transcript)
    a, b = (event.released[:, 0] for event in transcript)
    ratio = 0.6 + 0.4 * np.exp(a + b - 1)
    np.testing.assert_allclose(np.exp(scores), ratio, rtol=error)


@pytest.mark.parametrize(
    "sampling",
    [PoissonSampled(Gaussian("a", 1), 0.3), SampledWithoutReplacement(Gaussian("a", 1), 3, 7)],
    ids=lambda node: node.name,
)
def test_outcomes_are_all_batches_by_their_counts(sampling: Node) -> None:
    """Against all 2^7 batches one by one: how many of each of three kinds of records they hold."""
    values = np.array([5.0, 1.0, 1.0, 5.0, 5.0, 5.0, 2.0])
    found = enumerated(sampling, Records(values[:, None]))
    assert found is not None
    assert found.exact
    numbers = {"PoissonSampled": lambda k: 0.3**k * 0.7 ** (7 - k)}
    chance = numbers.get(sampling.name, lambda k: (k == 3) / math.comb(7, 3))
    expected: dict[float, float] = {}
    for members in itertools.product((False, True), repeat=7):
        total = float(values @ np.array(members))
        expected[total] = expected.get(total, 0.0) + chance(sum(members))
    given: dict[float, float] = {}
    for mask, log in zip(found.masks, found.logs, strict=True):
        total = float(values @ mask[0])
        given[total] = given.get(total, 0.0) + math.exp(log)
    assert given == pytest.approx({k: v for k, v in expected.items() if v > 0}, rel=1e-12)


@pytest.mark.parametrize("values", [(1.0, 2.0), (2.0, 1.0), (0.0, 0.0), (-1.0, 0.0)])
def test_a_record_that_is_absent_is_of_no_kind_of_one_that_is_there(
    values: tuple[float, float],
) -> None:
    records = Records(np.array(values)[:, None], present=np.array([True, False]))
    found = enumerated(PoissonSampled(Gaussian("a", 1), 0.5), records)
    assert found is not None
    assert len(found.masks) == 4


def test_every_record_is_in_the_batch_at_rate_one() -> None:
    found = enumerated(
        PoissonSampled(Gaussian("a", 1), 1), Records(np.array([[1.0], [1.0], [2.0]]))
    )
    assert found is not None
    assert [mask.tolist() for mask in found.masks] == [[[True] * 3]]
    assert found.logs.tolist() == [0.0]


@pytest.mark.quality
def test_too_many_kinds_of_records_are_drawn_instead() -> None:
    node = SampledWithoutReplacement(Gaussian("a", 1), 10, 20)
    assert enumerated(node, Records(np.arange(20.0)[:, None])) is None
    one = enumerated(node, Records(np.ones((20, 1))))
    assert one is not None
    assert (len(one.masks), float(one.logs[0])) == (1, 0.0)


def test_an_equal_seed_does_not_bring_back_the_recorded_batch() -> None:
    """A replayer seeded like the sampler would otherwise replay the very batches of the run."""
    node = Repeat(PoissonSampled(Gaussian("a", 1), 0.5), 1)
    rng = np.random.default_rng(7)
    sampler = Remembering(node, ZERO_OUT, CANARY[0], rng=rng, trials=500)
    program = in_batches(node, 1, "l2")
    program.run(sampler)
    walk = Walk(node, ZERO_OUT, CANARY[0], sampler.transcript, coins=7, draws=1)
    with walk.batch("a"):
        agreement = (walk._latent[0] == sampler.drawn[0]).mean()
    assert agreement == pytest.approx(0.5, abs=0.1)


def test_a_trial_that_is_off_in_a_batch_has_density_one() -> None:
    def body(curator: Curator) -> None:
        with curator.batch("a") as batch:
            curator.release("a", clipped(), rows=batch, on=np.array([True, False]))

    program = Written(PoissonSampled(Gaussian("a", 1), 0.5), body)
    transcript = sampled(program, CANARY[0], ZERO_OUT, seed=1, trials=2).transcript
    walk, _ = replayer(program, CANARY, ZERO_OUT).walk(CANARY[0], transcript)
    assert abs(walk.log_density[0]) > 1e-3
    assert walk.log_density[1] == pytest.approx(0, abs=1e-12)


def test_equal_records_stand_for_one_another_only_where_a_query_says_so() -> None:
    def body(curator: Curator) -> None:
        with curator.batch("a") as batch:
            curator.release("a", Stated(total, 1.0), rows=batch)

    program = Written(PoissonSampled(Gaussian("a", 1), 0.5), body)
    transcript = sampled(program, CANARY[0], ZERO_OUT, seed=1).transcript
    assert replayer(program, CANARY, ZERO_OUT).inspect(transcript, 0).attack == "averaged(32)"


def test_violations_inside_a_batch_are_found() -> None:
    def body(curator: Curator) -> None:
        with curator.batch("a") as batch:
            curator.release("a", Stated(total, 0.5), rows=batch)

    program = Written(PoissonSampled(Gaussian("a", 1), 0.5), body)
    transcript = sampled(program, ANTIPODAL[0], REPLACE_ONE, seed=1, trials=3).transcript
    with pytest.raises(SensitivityExceeded, match=r"'a'.*stated l2 sensitivity"):
        replayer(program, ANTIPODAL, REPLACE_ONE).scores(transcript)


def test_without_noise_in_a_batch_the_score_is_infinite_where_the_record_was_in() -> None:
    program = in_batches(PoissonSampled(Gaussian("a", 1), 0.5), 1, "l2")
    pair = zeroed(CANARY[0].values, 0)
    kernels = {Gaussian: NoNoise}
    sampler = sampled(program, pair[0], ZERO_OUT, seed=1, trials=400, kernels=kernels)
    scores = replayer(program, pair, ZERO_OUT).scores(sampler.transcript)
    assert 50 < np.isposinf(scores).sum() < 150
