"""The replayer: scores, what it refuses by name, and bounds from averaged latent coins."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpaudit.curator import Curator, Event, Sampler
from dpaudit.entitlement import Mask
from dpaudit.errors import Diverged, InvalidParameter, SensitivityExceeded, Undeclared
from dpaudit.nodes import (
    Compose,
    Gaussian,
    Laplace,
    Node,
    Parallel,
    PoissonSampled,
    Repeat,
    SampledWithoutReplacement,
)
from dpaudit.query import Array, ClippedMean, Records
from dpaudit.replayer import Replayer, Walk
from dpaudit.scope import Scope
from tests.kernels_for_tests import (
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
PAIR = zeroed([[0.4, -0.8], [0.1, 0.3]], 0)
ANTIPODAL = (Records(np.array([[1.0], [0.0]])), Records(np.array([[-1.0], [0.0]])))


def clipped(radius: Any = 1.0, **options: Any) -> ClippedMean:
    return ClippedMean(lambda z: z[None], radius, divisor=1.0, **options)


def once(node: Node, query: Any) -> Releases:
    return Releases(node, (("a", query),))


# --- scores -----------------------------------------------------------------------------------------


def test_the_score_is_the_log_likelihood_ratio() -> None:
    """log p0 - log p1 by scipy, for two uses of one label and a public coin."""
    query = clipped()

    def body(curator: Curator) -> None:
        first = curator.release("a", query)
        radius = np.abs(first[:, 0]) + curator.coin(lambda rng: rng.random(curator.trials))
        curator.release("b", clipped(radius))

    program = Written(Compose(Gaussian("a", 2), Gaussian("b", 3)), body)
    sampler = sampled(program, PAIR[0], ZERO_OUT, seed=1, trials=50)
    scores = replayer(program, PAIR, ZERO_OUT).scores(sampler.transcript)
    (a, coin, b) = (event.released for event in sampler.transcript)
    radius = np.abs(a[:, 0]) + coin
    means = [[clipped(r).value(x) for x in PAIR] for r in (1.0, radius)]
    scales = np.stack([np.full(50, 2.0), 3 * radius])
    expected = sum(
        stats.norm.logpdf(x, m[0], s[:, None]).sum(1)
        - stats.norm.logpdf(x, m[1], s[:, None]).sum(1)
        for x, m, s in zip((a, b), means, scales, strict=True)
    )
    np.testing.assert_allclose(scores, expected, rtol=1e-9, atol=1e-12)


def test_equal_data_sets_score_zero() -> None:
    program = once(Laplace("a", 1), clipped(norm="l1"))
    transcript = sampled(program, PAIR[0], ZERO_OUT, seed=2, trials=20).transcript
    assert not replayer(program, (PAIR[0], PAIR[0]), ZERO_OUT).scores(transcript).any()


@pytest.mark.parametrize("own", [0, 1])
def test_a_release_without_noise_scores_infinity(own: int) -> None:
    program = once(Gaussian("a", 1), clipped())
    sampler = sampled(program, PAIR[own], ZERO_OUT, seed=3, trials=4, kernels={Gaussian: NoNoise})
    scores = replayer(program, PAIR, ZERO_OUT).scores(sampler.transcript)
    assert scores.tolist() == [math.inf if own == 0 else -math.inf] * 4


class FirstCoordinateOnly(NoNoise):
    """Wrong on purpose: noise on the first coordinate alone."""

    def sample(self, values: Array, scale: Array, rng: Any) -> Array:
        released = values.copy()
        released[:, 0] += scale * rng.standard_normal(len(values))
        return released


def test_one_coordinate_without_noise_scores_infinity() -> None:
    program = once(Gaussian("a", 1), clipped())
    kernels = {Gaussian: FirstCoordinateOnly}
    sampler = sampled(program, PAIR[0], ZERO_OUT, seed=4, trials=4, kernels=kernels)
    assert np.isposinf(replayer(program, PAIR, ZERO_OUT).scores(sampler.transcript)).all()


def test_a_release_without_noise_of_equal_values_tells_nothing() -> None:
    program = once(Gaussian("a", 1), clipped())
    kernels = {Gaussian: NoNoise}
    sampler = sampled(program, PAIR[0], ZERO_OUT, seed=5, trials=4, kernels=kernels)
    assert not replayer(program, (PAIR[0], PAIR[0]), ZERO_OUT).scores(sampler.transcript).any()


def test_zero_sensitivity_scores_zero_and_draws_no_noise() -> None:
    program = once(Gaussian("a", 1), clipped(np.array([0.0, 1.0])))
    sampler = sampled(program, PAIR[0], ZERO_OUT, seed=6, trials=2)
    assert not sampler.transcript[0].released[0].any()
    scores = replayer(program, PAIR, ZERO_OUT).scores(sampler.transcript)
    assert scores[0] == 0
    assert scores[1] not in (0, math.inf)


def test_a_sensitivity_stated_as_zero_is_infinite_evidence_and_a_violation() -> None:
    program = once(Gaussian("a", 1), Stated(total, 0.0))
    transcript = sampled(program, PAIR[0], ZERO_OUT, seed=7, trials=2).transcript
    replay = replayer(program, PAIR, ZERO_OUT).inspect(transcript, own=0)
    assert np.isposinf(replay.scores).all()
    assert len(replay.violations) == 1


def test_trials_that_are_off_have_density_one() -> None:
    def body(curator: Curator) -> None:
        first = curator.release("a", clipped())
        on = first[:, 0] > 0.2
        radius = np.where(on, 1.0, np.nan)
        curator.release("a", clipped(radius), on=on)

    program = Written(Repeat(Gaussian("a", 1), 2), body)
    transcript = sampled(program, PAIR[0], ZERO_OUT, seed=8, trials=200).transcript
    whole = replayer(program, PAIR, ZERO_OUT).inspect(transcript, own=0)
    one = once(Gaussian("a", 1), clipped())
    alone = replayer(one, PAIR, ZERO_OUT).scores(transcript[:1])
    on = transcript[1].on
    assert 20 < on.sum() < 180
    np.testing.assert_array_equal(whole.scores[~on], alone[~on])
    assert (whole.scores[on] != alone[on]).all()
    assert whole.residuals["a"].shape == (200, 2, 2)
    assert (np.isnan(whole.residuals["a"][:, 1]).all(axis=1) == ~on).all()
    assert whole.violations == ()


def test_parts_are_replayed_on_their_own_rows() -> None:
    def body(curator: Curator) -> None:
        for i, label in enumerate("ab"):
            curator.release(label, clipped(), rows=curator.part(i, (1, 1)))

    program = Written(Parallel(Gaussian("a", 1), Gaussian("b", 1)), body)
    transcript = sampled(program, PAIR[0], ZERO_OUT, seed=9, trials=5).transcript
    scores = replayer(program, PAIR, ZERO_OUT).scores(transcript)
    one = once(Gaussian("a", 1), clipped())
    first = tuple(records.rows(0, 1) for records in PAIR)
    alone = replayer(one, first, ZERO_OUT).scores(transcript[:1])  # type: ignore[arg-type]
    np.testing.assert_allclose(scores, alone)


# --- what is refused by name ------------------------------------------------------------------------


def leaking(curator: Curator) -> Any:
    """Control flow that depends on what a closure saw."""
    seen: list[float] = []

    def watched(values: Array) -> Array:
        seen.append(float(values.sum()))
        return values[None]

    curator.release("a", ClippedMean(watched, 1.0, divisor=1.0))
    return seen


def test_control_flow_on_private_data_diverges_by_name() -> None:
    def body(curator: Curator) -> None:
        positive = leaking(curator)[-1] > 0
        curator.release("b" if positive else "a", clipped())

    program = Written(Compose(Repeat(Gaussian("a", 1), 2), Gaussian("b", 1)), body)
    transcript = sampled(program, ANTIPODAL[0], REPLACE_ONE, seed=1).transcript
    with pytest.raises(Diverged, match="release 1: the program asks for 'a', recorded 'b'"):
        replayer(program, ANTIPODAL, REPLACE_ONE).scores(transcript)


def test_a_count_that_depends_on_private_data_diverges_by_name() -> None:
    def body(curator: Curator) -> None:
        if leaking(curator)[-1] > 0:
            curator.release("a", clipped())

    program = Written(Repeat(Gaussian("a", 1), 2), body)
    for own, message in ((0, "the transcript goes on"), (1, "the transcript has ended")):
        transcript = sampled(program, ANTIPODAL[own], REPLACE_ONE, seed=1).transcript
        with pytest.raises(Diverged, match=message):
            replayer(program, ANTIPODAL, REPLACE_ONE).scores(transcript)


def test_a_mask_that_depends_on_private_data_diverges_by_name() -> None:
    def body(curator: Curator) -> None:
        positive = leaking(curator)[-1] > 0
        curator.release("a", clipped(), on=np.array([True, positive]))

    program = Written(Repeat(Gaussian("a", 1), 2), body)
    transcript = sampled(program, ANTIPODAL[0], REPLACE_ONE, seed=1, trials=2).transcript
    with pytest.raises(Diverged, match=r"release 1 \('a'\): other trials are on"):
        replayer(program, ANTIPODAL, REPLACE_ONE).scores(transcript)


def two(curator: Curator) -> None:
    curator.coin(lambda rng: rng.random(curator.trials))
    curator.release("a", clipped())
    curator.release("a", clipped(), on=np.array([True, False]))


ALTERED: dict[str, tuple[Callable[[Sequence[Event]], Sequence[Event]], str]] = {
    "missing": (lambda t: t[:-1], "the transcript has ended"),
    "extra": (lambda t: [*t, t[-1]], "the transcript goes on"),
    "swapped": (lambda t: [t[1], t[0], t[2]], "asks for 'public coin', recorded 'a'"),
    "renamed": (lambda t: [t[0], Event("b", t[1].released, t[1].on), t[2]], "recorded 'b'"),
    "mask": (lambda t: [*t[:2], Event("a", t[2].released, ~t[2].on)], "other trials are on"),
    "shape": (lambda t: [t[0], Event("a", np.zeros((2, 3)), t[1].on), t[2]], "shape"),
}


@pytest.mark.parametrize("name", ALTERED)
def test_an_altered_transcript_diverges_by_name(name: str) -> None:
    alter, message = ALTERED[name]
    program = Written(Repeat(Gaussian("a", 1), 2), two)
    transcript = sampled(program, PAIR[0], ZERO_OUT, seed=1, trials=2).transcript
    walked = replayer(program, PAIR, ZERO_OUT)
    assert walked.inspect(transcript, own=0).violations == ()
    with pytest.raises(Diverged, match=message):
        walked.inspect(alter(transcript), own=0)


def test_an_undeclared_release_is_refused_in_a_replay_too() -> None:
    program = once(Gaussian("a", 1), clipped())
    transcript = sampled(program, PAIR[0], ZERO_OUT, seed=1).transcript
    with pytest.raises(Undeclared, match="'a' was not declared"):
        Replayer(program, Gaussian("b", 1), ZERO_OUT, PAIR).scores(transcript)


def first_entry(values: Array) -> Array:
    return np.asarray(values[:1, :1])


VIOLATIONS: dict[str, tuple[Node, Any, str]] = {
    "understated": (Gaussian("a", 1), Stated(total, 1.9), "more than its stated l2 sensitivity"),
    "understated in l1": (
        Laplace("a", 1),
        Stated(total, 1.9, "l1"),
        "more than its stated l1 sensitivity",
    ),
    "zero_out stated under replace_one": (
        Gaussian("a", 1),
        Stated(lambda r: clipped().value(r), 1.0),
        "more than its stated l2 sensitivity",
    ),
    "sensitivity of the data": (
        Gaussian("a", 1),
        None,
        "its sensitivity depends on the private records",
    ),
    "batch normalisation": (
        Gaussian("a", 1),
        ClippedMean(lambda z: (z / np.abs(z).sum())[None], 1.0, divisor=1.0),
        "a record changes another record's vector",
    ),
    "not a number": (
        Gaussian("a", 1),
        Stated(lambda r: np.log(first_entry(r.values)), 5.0),
        "more than its stated l2 sensitivity",
    ),
}


def violating(name: str) -> tuple[Any, str]:
    node, query, message = VIOLATIONS[name]
    if query is not None:
        return once(node, query), message

    def body(curator: Curator) -> None:
        radius = 2.0 + leaking(curator)[-1]
        curator.release("a", clipped(radius))

    return Written(Repeat(node, 2), body), message


@pytest.mark.parametrize("name", VIOLATIONS)
def test_a_violation_is_raised_by_scores_and_collected_by_inspect(name: str) -> None:
    program, message = violating(name)
    pair = (Records(np.array([[1.0], [0.5]])), Records(np.array([[-1.0], [0.5]])))
    transcript = sampled(program, pair[0], REPLACE_ONE, seed=2, trials=3).transcript
    walked = replayer(program, pair, REPLACE_ONE)
    with pytest.raises(SensitivityExceeded, match=f"'a': .*{message}"):
        walked.scores(transcript)
    replay = walked.inspect(transcript, own=0)
    assert any(message in violation for violation in replay.violations)
    assert replay.scores.shape == (3,)


def test_a_value_that_is_not_a_number_is_infinite_evidence() -> None:
    program = once(Gaussian("a", 1), Stated(lambda r: np.log(first_entry(r.values)), 5.0))
    transcript = sampled(program, ANTIPODAL[1], REPLACE_ONE, seed=3).transcript
    assert np.isnan(transcript[0].released).all()
    for own, expected in ((0, -math.inf), (1, math.inf)):
        pair = ANTIPODAL if own == 0 else ANTIPODAL[::-1]
        replay = replayer(program, pair, REPLACE_ONE).inspect(transcript, own=1 - own)
        assert replay.scores.tolist() == [expected]


def test_the_exact_sensitivity_is_no_violation() -> None:
    for query in (clipped(), Stated(total, 2.0)):
        program = once(Gaussian("a", 1), query)
        transcript = sampled(program, ANTIPODAL[0], REPLACE_ONE, seed=4, trials=3).transcript
        replay = replayer(program, ANTIPODAL, REPLACE_ONE).inspect(transcript, own=0)
        assert replay.violations == ()
        assert replay.attack == "exact"


def test_an_output_that_is_not_made_of_released_values_is_found() -> None:
    sound = Written(Gaussian("a", 1), lambda c: {"a": [c.release("a", clipped())], "b": (1, "x")})
    leaky = Written(Gaussian("a", 1), leaking)
    for program, expected in ((sound, 0), (leaky, 1)):
        transcript = sampled(program, ANTIPODAL[0], REPLACE_ONE, seed=5).transcript
        replay = replayer(program, ANTIPODAL, REPLACE_ONE).inspect(transcript, own=0)
        found = [v for v in replay.violations if "output depends on the private records" in v]
        assert len(found) == expected == len(replay.violations)


def test_a_public_coin_that_is_drawn_from_the_data_is_found() -> None:
    def body(curator: Curator) -> None:
        seen = leaking(curator)[-1]
        curator.coin(lambda rng: rng.random() + seen)

    program = Written(Gaussian("a", 1), body)
    transcript = sampled(program, ANTIPODAL[0], REPLACE_ONE, seed=6).transcript
    replay = replayer(program, ANTIPODAL, REPLACE_ONE).inspect(transcript, own=0)
    assert any("public coin" in violation for violation in replay.violations)


# --- latent coins -----------------------------------------------------------------------------------

CANARY = (Records(np.array([[1.0], [0.0], [0.0]])), Records(np.zeros((3, 1))))


def in_batches(node: Node, rounds: int, norm: Any, labels: str = "a") -> Written:
    def body(curator: Curator) -> None:
        for _ in range(rounds):
            with curator.batch(labels[0]) as batch:
                for label in labels:
                    curator.release(label, clipped(norm=norm), rows=batch)

    return Written(node, body)


def lower_bound_on_epsilon(scores: tuple[Array, Array], level: float, delta: float) -> float:
    """log((P0(S > level) - delta) / P1(S > level)) from Clopper-Pearson ends at 1 - 5e-5 each."""
    n0, n1 = (len(s) for s in scores)
    hits = [int((s > level).sum()) for s in scores]
    low = stats.beta.ppf(5e-5, hits[0], n0 - hits[0] + 1)
    high = stats.beta.ppf(1 - 5e-5, hits[1] + 1, n1 - hits[1])
    return float(np.log(max(low - delta, 1e-300) / high))


def scores_of(program: Written, scope: Scope, pair: Pair, trials: int) -> tuple[Array, Array]:
    found = []
    for own in (0, 1):
        transcript = sampled(program, pair[own], scope, seed=own, trials=trials).transcript
        replay = replayer(program, pair, scope, coins=99).inspect(transcript, own=own)
        assert replay.attack == "averaged(32)"
        assert replay.violations == ()
        found.append(replay.scores)
    return found[0], found[1]


class Remembering(Sampler):
    """A sampler that tells its secret batches."""

    def _draw(self, sampling: Node) -> list[Mask]:
        self.drawn = super()._draw(sampling)
        return self.drawn


class Cheating(Walk):
    """A walk that replays the recorded batch."""

    recorded: list[Mask]

    def _draw(self, sampling: Node) -> list[Mask]:
        super()._draw(sampling)
        return self.recorded * self._draws


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


def test_averaged_coins_never_exceed_the_true_epsilon_and_recorded_coins_do() -> None:
    """Poisson-sampled Laplace, rate .3, eps 5.5: truly log(1 + .3 (e^5.5 - 1)) = 4.30 at most.

    Either bound is wrong with probability 1e-4; both levels are fixed.
    """
    node = PoissonSampled(Laplace("a", 1 / 5.5), 0.3)
    program = in_batches(node, 1, "l1")
    true = math.log(1 + 0.3 * math.expm1(5.5))
    pair = zeroed(CANARY[0].values, 0)
    averaged = scores_of(program, ZERO_OUT, pair, 200_000)
    bound = lower_bound_on_epsilon(averaged, 3.5, 0.0)
    assert 0.8 * true < bound <= true == pytest.approx(4.30, abs=0.01)
    recorded = scores_with_recorded_coins(program, pair, 200_000)
    assert lower_bound_on_epsilon(recorded, 5.4, 0.0) > true


LAST = np.array([[0.0], [0.0], [1.0]])
NEIGHBOURS = {
    ZERO_OUT.adjacency: zeroed(LAST, 2),
    ADD_REMOVE.adjacency: (Records(LAST), Records(LAST[:2])),
}


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


def test_the_average_is_the_mixture_in_the_limit() -> None:
    """With 4,000 draws the averaged ratio is that of the exact mixture within 15%."""
    node = PoissonSampled(Compose(Gaussian("a", 1), Gaussian("b", 1)), 0.4)
    program = in_batches(node, 1, "l2", "ab")
    pair = zeroed(CANARY[0].values, 0)
    transcript = sampled(program, pair[0], ZERO_OUT, seed=2, trials=30).transcript
    scores = replayer(program, pair, ZERO_OUT, draws=4000).scores(transcript)
    a, b = (event.released[:, 0] for event in transcript)
    ratio = 0.6 + 0.4 * np.exp(a + b - 1)
    np.testing.assert_allclose(np.exp(scores), ratio, rtol=0.15)


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


def test_violations_inside_a_batch_are_found() -> None:
    def body(curator: Curator) -> None:
        with curator.batch("a") as batch:
            curator.release("a", Stated(total, 0.5), rows=batch)

    program = Written(PoissonSampled(Gaussian("a", 1), 0.5), body)
    transcript = sampled(program, ANTIPODAL[0], REPLACE_ONE, seed=1, trials=3).transcript
    with pytest.raises(SensitivityExceeded, match="'a'.*stated l2 sensitivity"):
        replayer(program, ANTIPODAL, REPLACE_ONE).scores(transcript)


def test_without_noise_in_a_batch_the_score_is_infinite_where_the_record_was_in() -> None:
    program = in_batches(PoissonSampled(Gaussian("a", 1), 0.5), 1, "l2")
    pair = zeroed(CANARY[0].values, 0)
    kernels = {Gaussian: NoNoise}
    sampler = sampled(program, pair[0], ZERO_OUT, seed=1, trials=400, kernels=kernels)
    scores = replayer(program, pair, ZERO_OUT).scores(sampler.transcript)
    assert 50 < np.isposinf(scores).sum() < 150


def test_an_empty_transcript_is_one_trial_of_nothing() -> None:
    program = Written(Gaussian("a", 1), lambda curator: None)
    assert replayer(program, PAIR, ZERO_OUT).scores([]).tolist() == [0.0]
    with pytest.raises(InvalidParameter, match="trials"):
        replayer(program, PAIR, ZERO_OUT).scores([Event("a", np.zeros((0, 1)), np.zeros(0, bool))])
