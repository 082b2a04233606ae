"""The replayer: scores, what it refuses by name, and bounds from averaged latent coins."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpaudit.curator.curator import Curator, Event
from dpaudit.curator.replayer import PRIVATE_OUTPUT, Replayer, disclosures
from dpaudit.errors import Diverged, InvalidParameter, SensitivityExceeded, Undeclared
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Compose, Parallel, Repeat
from dpaudit.kernels.query import Array, ClippedMean, Norm, Records
from dpaudit.nodes import Node
from tests.support.kernels import (
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


# --- scores --------------------------------------------------------------------------------------


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
        np.sum(stats.norm.logpdf(x, m[0], s[:, None]), axis=1)
        - np.sum(stats.norm.logpdf(x, m[1], s[:, None]), axis=1)
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


# --- what is refused by name ---------------------------------------------------------------------


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


def test_movement_is_measured_in_the_norm_of_the_query() -> None:
    """(1, 1) has l1-norm 2 and l2-norm 1.41."""
    pair = (Records(np.ones((1, 2))), Records(np.zeros((1, 2))))
    for node, query, expected in (
        (Laplace("a", 1), Stated(total, 1.9, "l1"), 1),
        (Laplace("a", 1), Stated(total, 2.0, "l1"), 0),
        (Gaussian("a", 1), Stated(total, 1.9), 0),
        (Gaussian("a", 1), Stated(total, 1.4), 1),
    ):
        program = once(node, query)
        transcript = sampled(program, pair[0], REPLACE_ONE, seed=2).transcript
        replay = replayer(program, pair, REPLACE_ONE).inspect(transcript, own=0)
        assert len(replay.violations) == expected


def test_a_value_that_is_not_a_number_is_infinite_evidence() -> None:
    program = once(Gaussian("a", 1), Stated(lambda r: np.log(first_entry(r.values)), 5.0))
    transcript = sampled(program, ANTIPODAL[1], REPLACE_ONE, seed=3).transcript
    assert np.isnan(transcript[0].released).all()
    for own, expected in ((0, -math.inf), (1, math.inf)):
        pair = ANTIPODAL if own == 0 else ANTIPODAL[::-1]
        replay = replayer(program, pair, REPLACE_ONE).inspect(transcript, own=1 - own)
        assert replay.scores.tolist() == [expected]


def test_what_is_no_number_on_both_data_sets_tells_nothing() -> None:
    program = once(Gaussian("a", 1), Stated(lambda r: np.full((1, 1), np.nan), 5.0))
    transcript = sampled(program, ANTIPODAL[1], REPLACE_ONE, seed=3).transcript
    replay = replayer(program, ANTIPODAL, REPLACE_ONE).inspect(transcript, own=0)
    assert replay.scores.tolist() == [0]


def test_the_exact_sensitivity_is_no_violation() -> None:
    for query in (clipped(), Stated(total, 2.0)):
        program = once(Gaussian("a", 1), query)
        transcript = sampled(program, ANTIPODAL[0], REPLACE_ONE, seed=4, trials=3).transcript
        replay = replayer(program, ANTIPODAL, REPLACE_ONE).inspect(transcript, own=0)
        assert replay.violations == ()
        assert replay.attack == "exact"


def test_residuals_are_of_the_data_set_that_the_transcript_came_from() -> None:
    """And ``opposite`` of the other one: they differ by how far the query moved."""
    program = once(Gaussian("a", 2), clipped())
    transcript = sampled(program, PAIR[0], ZERO_OUT, seed=9, trials=5).transcript
    own, other = (replayer(program, PAIR, ZERO_OUT).inspect(transcript, own=k) for k in (0, 1))
    noise = (transcript[0].released - clipped().value(PAIR[0])) / 2
    np.testing.assert_allclose(own.residuals["a"][:, 0], noise)
    np.testing.assert_array_equal(own.residuals["a"], other.opposite["a"])
    np.testing.assert_array_equal(own.opposite["a"], other.residuals["a"])
    assert not np.isclose(own.residuals["a"], own.opposite["a"]).any()


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


def test_an_empty_transcript_is_one_trial_of_nothing() -> None:
    program = Written(Gaussian("a", 1), lambda curator: None)
    assert replayer(program, PAIR, ZERO_OUT).scores([]).tolist() == [0.0]
    with pytest.raises(InvalidParameter, match="trials"):
        replayer(program, PAIR, ZERO_OUT).scores([Event("a", np.zeros((0, 1)), np.zeros(0, bool))])


@dataclass(frozen=True, eq=False)
class MixingAlone:
    """A sum of clipped rows that says it mixes records where the first one is positive."""

    norm: Norm = "l2"

    def value(self, records: Records, chosen: Any = None) -> Array:
        return clipped().value(records, chosen)

    def sensitivity(self, adjacency: Any, size: int) -> Array:
        return clipped().sensitivity(adjacency, size)

    def mixes_records(self, records: Records) -> bool:
        return bool(records.values[0, 0] > 0)


@pytest.mark.parametrize("swapped", [False, True])
def test_rows_that_mix_on_one_side_alone_are_a_violation(swapped: bool) -> None:
    pair = ANTIPODAL[::-1] if swapped else ANTIPODAL
    program = once(Gaussian("a", 1), MixingAlone())
    transcript = sampled(program, pair[0], REPLACE_ONE, seed=2).transcript
    replay = replayer(program, pair, REPLACE_ONE).inspect(transcript, own=0)
    assert [v.partition(" (")[0] for v in replay.violations] == [
        "release 'a': a record changes another record's vector"
    ]


def test_a_mixing_query_is_found_after_one_of_another_label() -> None:
    program = Releases(
        Compose(Gaussian("a", 1), Gaussian("b", 1)), (("a", clipped()), ("b", MixingAlone()))
    )
    transcript = sampled(program, ANTIPODAL[0], REPLACE_ONE, seed=2).transcript
    found = replayer(program, ANTIPODAL, REPLACE_ONE).inspect(transcript, own=0).violations
    assert [v.partition(" (")[0] for v in found] == [
        "release 'b': a record changes another record's vector"
    ]


def test_a_query_in_small_units_may_not_move_further_either() -> None:
    """Rounding is of the size of the values, not of 1."""
    pair = zeroed([[1e-13]], 0)
    for stated, expected in ((1e-13, 0), (5e-14, 1)):
        program = once(Gaussian("a", 1), Stated(total, stated))
        transcript = sampled(program, pair[0], ZERO_OUT, seed=2).transcript
        replay = replayer(program, pair, ZERO_OUT).inspect(transcript, own=0)
        assert len(replay.violations) == expected


class Told:
    def __init__(self, value: Any) -> None:
        self.value = value


NAN, EYE = math.nan, np.eye(2)
OUTPUTS: list[tuple[Any, Any, bool]] = [
    (np.array([0.0, NAN]), np.array([-0.0, NAN]), True),
    (EYE, EYE.copy(), True),
    (EYE, 2 * EYE, False),
    (EYE, EYE.astype(int), False),
    (EYE.astype(int), EYE, False),
    (np.array(["a", "b"]), np.array(["a", "c"]), False),
    ({"a": NAN, "b": EYE}, {"a": NAN, "b": EYE}, True),
    ({"a": 1, "b": 2}, {"a": 1, "b": 3}, False),
    ({"a": 1}, {"b": 1}, False),
    ({"a": 1}, {"a": 1, "b": 1}, False),
    ([1, 2], [1, 2], True),
    ([1, 2], [1, 3], False),
    ([1, 2], [1], False),
    ([1], (1,), False),
    (1, True, False),
    (True, 1, False),
    (1.0, NAN, False),
    (NAN, 1.0, False),
    (2.0, 1.0, False),
    (1.0, 2.0, False),
    (NAN, NAN, True),
    (None, None, True),
    (Event("a", EYE, EYE[0] > 0), Event("a", EYE, EYE[0] > 0), True),
    (Event("a", EYE, EYE[0] > 0), Event("a", 2 * EYE, EYE[0] > 0), False),
    (Told([1]), Told([1]), True),
    (Told([1]), Told([2]), False),
]


@pytest.mark.parametrize("case", range(len(OUTPUTS)))
def test_outputs_are_compared_with_all_that_is_in_them(case: int) -> None:
    """On two walks of an empty transcript."""
    one, other, same = OUTPUTS[case]
    program = Written(Gaussian("a", 1), lambda curator: None)
    walk, _ = replayer(program, PAIR, ZERO_OUT).walk(PAIR[0], [])
    assert (disclosures((walk, one), (walk, other)) == ()) == same


@pytest.mark.parametrize(("share", "leaks"), [(0, ()), (1, (PRIVATE_OUTPUT,))])
def test_what_libraries_draw_is_the_same_on_both_data_sets(
    share: int, leaks: tuple[str, ...]
) -> None:
    """So that of an output only what depends on the records is a leak."""

    def run(curator: Any) -> Any:
        drawn = np.random.normal() + random.random()  # noqa: NPY002
        return drawn + share * curator._records.present.sum()

    replayed = replayer(Written(Gaussian("a", 1), run), PAIR, ZERO_OUT)
    before = random.getstate(), np.random.random()  # noqa: NPY002
    random.setstate(before[0])
    first, second = (replayed.walk(records, []) for records in PAIR)
    assert disclosures(first, second) == leaks
    assert random.getstate() == before[0]


@pytest.mark.parametrize("recorded", [[True, False], [False, True]])
def test_trials_may_be_neither_more_nor_fewer_than_were_recorded(recorded: list[bool]) -> None:
    first, both = np.array(recorded), np.array([True, True])
    for asked, told in ((both, first), (first, both)):
        program = Written(
            Gaussian("a", 1), lambda curator, on=asked: curator.release("a", clipped(), on=on)
        )
        made = Written(
            Gaussian("a", 1), lambda curator, on=told: curator.release("a", clipped(), on=on)
        )
        transcript = sampled(made, PAIR[0], ZERO_OUT, seed=1, trials=2).transcript
        with pytest.raises(Diverged, match="other trials are on than were recorded"):
            replayer(program, PAIR, ZERO_OUT).scores(transcript)


def test_a_release_of_another_shape_is_named_by_its_place() -> None:
    program = once(Gaussian("a", 1), clipped())
    (event,) = sampled(program, PAIR[0], ZERO_OUT, seed=1).transcript
    wider = [Event("a", np.zeros((1, 3)), event.on)]
    with pytest.raises(Diverged, match=r"^release 0 \('a'\): the program releases shape \(1, 2\)"):
        replayer(program, PAIR, ZERO_OUT).scores(wider)
