"""Curators: what is refused before data is touched, what is released, what is recorded."""

from __future__ import annotations

import traceback
import warnings
from typing import Any

import numpy as np
import pytest

from dpaudit.curator.curator import Batch, Curator, Part, Sampler, Tracer
from dpaudit.errors import InvalidParameter, Undeclared
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Compose, Parallel, Repeat
from dpaudit.families.sampling import PoissonSampled
from dpaudit.kernels.query import Array, ClippedMean, Records
from dpaudit.nodes import Node
from dpaudit.scope import Scope
from tests.support.kernels import (
    ADD_REMOVE,
    REPLACE_ONE,
    ZERO_OUT,
    NoNoise,
    Ruler,
    Stated,
)

DATA = Records(np.array([[0.5], [-0.25], [8.0], [0.125]]))
BLOCKS = (1, 3)


def sampler(
    node: Node, scope: Scope = REPLACE_ONE, records: Records = DATA, seed: int = 0, **options: Any
) -> Sampler:
    return Sampler(node, scope, records, rng=np.random.default_rng(seed), **options)


def clipped(radius: Any = 1.0, **options: Any) -> ClippedMean:
    return ClippedMean(lambda z: z[None], radius, **options)


def never(records: Records) -> Array:
    raise AssertionError("the data were touched")


# --- refused before data is touched --------------------------------------------------------------

REFUSED: dict[str, tuple[Node, str, dict[str, Any], Any, Any]] = {
    "undeclared": (Gaussian("a", 1), "b", {}, Undeclared, "not declared"),
    "wrong norm": (Laplace("a", 1), "a", {}, InvalidParameter, "bounded in l1, not l2"),
    "nobody on": (Gaussian("a", 1), "a", {"on": np.zeros(2, dtype=bool)}, Undeclared, "no trial"),
    "mask of another length": (Gaussian("a", 1), "a", {"on": [True]}, InvalidParameter, "2 truth"),
    "mask of numbers": (Gaussian("a", 1), "a", {"on": [1, 0]}, InvalidParameter, "2 truth"),
    "a part where none was declared": (Gaussian("a", 1), "a", {"rows": 0}, Undeclared, "part 0"),
    "all rows where a part was": (Parallel(Gaussian("a", 1)), "a", {}, Undeclared, "on part 0"),
    "another part": (Parallel(Gaussian("a", 1)), "a", {"rows": 1}, Undeclared, "part 1"),
    "all rows where a batch was": (
        PoissonSampled(Gaussian("a", 1), 0.5),
        "a",
        {},
        Undeclared,
        "on a secret batch",
    ),
    "a part made by hand": (
        Parallel(Gaussian("a", 1)),
        "a",
        {"rows": Part(0, 0, 4)},
        Undeclared,
        "this curator gave",
    ),
    "a batch made by hand": (
        PoissonSampled(Gaussian("a", 1), 0.5),
        "a",
        {"rows": Batch(PoissonSampled(Gaussian("a", 1), 0.5))},
        Undeclared,
        "inside the step",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_touch_no_data_and_spend_nothing(name: str) -> None:
    node, label, options, error, message = REFUSED[name]
    curator = sampler(node, trials=2)
    if isinstance(rows := options.get("rows"), int):
        options = {**options, "rows": curator.part(rows, BLOCKS)}
    with pytest.raises(error, match=message):
        curator.release(label, Stated(never), **options)
    assert curator.transcript == []
    assert curator.entitlements.counts() == {"a": (1, 0, 0)}


@pytest.mark.parametrize(
    ("bound", "message"),
    [
        (np.nan, "not a finite number"),
        (np.inf, "not a finite number"),
        (-1.0, "not a finite number"),
        (1e308, "not a finite number"),
        (np.array([1.0, np.nan]), "not a finite number"),
        (1e-300, "too small"),
        (np.ones(3), r"shape \(3,\)"),
        (np.ones((2, 1)), r"shape \(2, 1\)"),
    ],
)
def test_a_sensitivity_that_is_no_bound_is_refused(bound: Any, message: str) -> None:
    curator = sampler(Gaussian("a", 100), trials=2)
    with pytest.raises(InvalidParameter, match=message):
        curator.release("a", Stated(never, bound))
    assert curator.entitlements.counts() == {"a": (1, 0, 0)}


def test_a_used_up_label_is_refused() -> None:
    curator = sampler(Repeat(Gaussian("a", 1), 2))
    for _ in range(2):
        curator.release("a", clipped())
    with pytest.raises(Undeclared, match="all 2 declared uses are spent"):
        curator.release("a", Stated(never))
    assert len(curator.transcript) == 2


def test_weights_and_add_remove_are_checked_before_data_is_touched() -> None:
    def touched(values: Array) -> Array:
        raise AssertionError

    curator = sampler(Gaussian("a", 1), ADD_REMOVE)
    with pytest.raises(InvalidParameter, match="divisor"):
        curator.release("a", ClippedMean(touched, 1.0))
    curator = sampler(Gaussian("a", 1))
    with pytest.raises(InvalidParameter, match="weights"):
        curator.release("a", ClippedMean(touched, 1.0, np.ones(3)))
    assert curator.entitlements.counts() == {"a": (1, 0, 0)}


@pytest.mark.parametrize("trials", [0, -1, 2.5])
def test_trials_are_a_positive_whole_number(trials: Any) -> None:
    with pytest.raises(InvalidParameter, match="trials"):
        sampler(Gaussian("a", 1), trials=trials)


# --- errors of the query itself ------------------------------------------------------------------


@pytest.mark.parametrize(
    "function",
    [
        lambda z: np.zeros((3, len(z), 1)),
        lambda z: np.zeros((2, len(z))),
        lambda z: np.zeros((2, len(z) + 1, 1)),
        lambda z: z["name"],
    ],
)
def test_an_error_of_the_program_shows_on_rows_of_zeros(function: Any) -> None:
    seen = []

    def watched(values: Array) -> Any:
        seen.append(np.asarray(values))
        return function(values)

    curator = sampler(Gaussian("a", 1), trials=2)
    with pytest.raises((InvalidParameter, IndexError)):
        curator.release("a", ClippedMean(watched, 1.0))
    assert not np.concatenate(seen).any()
    assert curator.entitlements.counts() == {"a": (1, 0, 0)}


def fails_on_a_record(values: Array) -> Array:
    if (values > 5).any():
        raise ValueError(f"secret {values.max()}")
    return values[None]


def another_shape_on_a_record(values: Array) -> Array:
    return np.zeros((1, len(values), 2 if (values > 5).any() else 1))


@pytest.mark.parametrize("function", [fails_on_a_record, another_shape_on_a_record])
def test_a_query_that_fails_on_the_data_says_nothing_of_them_and_is_charged(function: Any) -> None:
    curator = sampler(Repeat(Gaussian("a", 1), 2))
    with pytest.raises(InvalidParameter) as caught:
        curator.release("a", ClippedMean(function, 1.0))
    error = caught.value
    assert "query failed" in str(error)
    assert error.__cause__ is error.__context__ is None
    assert "8.0" not in "".join(traceback.format_exception(error))
    assert curator.entitlements.counts() == {"a": (2, 1, 1)}
    assert curator.transcript == []


def test_no_record_causes_a_warning() -> None:
    def harsh(values: Array) -> Array:
        return (np.log(values - 5) / values)[None]

    records = Records(np.array([[0.0], [5.0], [np.nan], [1e308]]))
    curator = sampler(Gaussian("a", 1), records=records)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(curator.release("a", ClippedMean(harsh, 1.0))).all()


# --- releases and transcripts --------------------------------------------------------------------


def test_noise_is_the_multiplier_times_the_sensitivity_of_each_trial() -> None:
    node = Compose(Gaussian("a", 3), Gaussian("a", 5))
    radii = np.array([1.0, 0.0, 2.0])
    curator = sampler(node, trials=3, kernels={Gaussian: Ruler})
    for multiplier in (3, 5):
        released = curator.release("a", clipped(radii)) - clipped(radii).value(DATA)
        np.testing.assert_allclose(released[:, 0], multiplier * 2 * radii / 4)


def test_the_same_program_has_half_the_noise_under_zero_out() -> None:
    noise = [
        sampler(Gaussian("a", 3), scope, kernels={Gaussian: Ruler}).release("a", clipped(0.01))
        - clipped(0.01).value(DATA)
        for scope in (REPLACE_ONE, ZERO_OUT)
    ]
    assert noise[0] == pytest.approx(3 * 0.02 / 4)
    assert noise[1] == pytest.approx(3 * 0.01 / 4)


def test_a_query_is_told_the_number_of_its_rows() -> None:
    def zero(records: Records) -> Array:
        return np.zeros((1, 1))

    curator = sampler(
        Compose(Gaussian("a", 3), Parallel(Gaussian("b", 3))), kernels={Gaussian: Ruler}
    )
    query = Stated(zero, lambda size: size)
    assert curator.release("a", query) == 12.0
    assert curator.release("b", query, rows=curator.part(0, BLOCKS)) == 3.0


def test_trials_that_are_off_hold_nan_and_are_not_charged() -> None:
    curator = sampler(Repeat(Gaussian("a", 1), 2), trials=3)
    on = np.array([True, False, True])
    released = curator.release("a", clipped(), on=on)
    assert np.isnan(released[:, 0]).tolist() == [False, True, False]
    assert curator.entitlements.counts() == {"a": (2, 0, 1)}
    on[:] = False
    assert curator.transcript[0].on.tolist() == [True, False, True]


def test_an_adaptive_radius_may_be_nan_where_a_trial_is_off() -> None:
    curator = sampler(Repeat(Gaussian("a", 1), 2), trials=2)
    on = np.array([True, False])
    first = curator.release("a", clipped(), on=on)
    radius = np.abs(first[:, 0])
    assert np.isfinite(curator.release("a", clipped(radius), on=on)[0]).all()
    with pytest.raises(InvalidParameter, match="in a trial that is on"):
        sampler(Gaussian("a", 1), trials=2).release("a", clipped(radius))


def test_seeds_reproduce_and_differ() -> None:
    node = Repeat(Gaussian("a", 1), 3)
    runs = [sampler(node, seed=seed).release("a", clipped()) for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


def test_a_transcript_holds_released_values_only_and_is_read_only() -> None:
    curator = sampler(Gaussian("a", 1), trials=2)
    coin = curator.coin(lambda rng: rng.integers(0, 9, size=2))
    released = curator.release("a", clipped())
    events = curator.transcript
    assert [event.label for event in events] == ["public coin", "a"]
    assert events[0].released is coin
    assert events[1].released is released
    assert set(vars(events[1])) == {"label", "released", "on"}
    assert (released != clipped().value(DATA)).all()
    for array in (coin, released, events[1].on):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_coins_are_numbers_of_their_own() -> None:
    curator, kept = sampler(Gaussian("a", 1)), np.zeros(2)
    assert curator.coin(lambda rng: kept) is not kept
    for bad in (None, "text", object()):
        with pytest.raises(InvalidParameter, match="coin"):
            curator.coin(lambda rng, bad=bad: bad)  # type: ignore[misc]
    assert len(curator.transcript) == 1


def test_whoever_draws_the_coins_cannot_predict_the_noise() -> None:
    """The generator of coins is another one: correlation within 5 deviations, 6e-7."""
    given: list[Any] = []

    def draw(rng: np.random.Generator) -> int:
        given.append(rng)
        return 0

    curator = sampler(Gaussian("a", 1), trials=1000)
    curator.coin(draw)
    guess = given[0].standard_normal(1000)
    released = curator.release("a", clipped())[:, 0]
    assert abs(np.corrcoef(released, guess)[0, 1]) < 5 / 1000**0.5
    seed = given[0].bit_generator.seed_seq.entropy
    assert seed != np.random.default_rng(0).bit_generator.seed_seq.entropy  # type: ignore[attr-defined]


def test_nothing_shown_of_a_curator_holds_a_record() -> None:
    records = Records(np.array([[12345.0]]))
    curator = sampler(PoissonSampled(Gaussian("a", 1), 0.5), records=records)
    with curator.batch("a") as batch:
        curator.release("a", clipped(), rows=batch)
        shown = [records, curator, batch, *curator.transcript, *curator.entitlements]
        assert "12345" not in "".join(map(repr, shown))
        assert set(vars(batch)) == {"sampling", "part", "index"}


# --- parts ---------------------------------------------------------------------------------------


def test_parts_are_disjoint_blocks_with_means_of_their_own() -> None:
    node = Parallel(Gaussian("a", 1), Gaussian("b", 1))
    curator = sampler(node, kernels={Gaussian: NoNoise})
    query = clipped(10.0)
    first = curator.release("a", query, rows=curator.part(0, BLOCKS))
    second = curator.release("b", query, rows=curator.part(1, BLOCKS))
    assert first == 0.5
    assert second == pytest.approx((-0.25 + 8.0 + 0.125) / 3)
    ruled = sampler(node, kernels={Gaussian: Ruler})
    assert ruled.release("b", clipped(0.0), rows=ruled.part(1, BLOCKS)) == 0.0
    shift = ruled.release("a", query, rows=ruled.part(0, BLOCKS)) - first
    assert shift == 20.0


@pytest.mark.parametrize(
    ("index", "sizes", "message"),
    [
        (0, (2, 3), "sum to the 4 records"),
        (0, (4, 0), "empty"),
        (0, (5, -1), "empty"),
        (2, (2, 2), "no such part"),
        (-1, (2, 2), "no such part"),
        (0, (), "sum"),
        (0, (1,) * 9, r"sizes \((1, ){7}1\) must sum"),
    ],
)
def test_parts_that_are_no_partition_are_refused(
    index: int, sizes: tuple[int, ...], message: str
) -> None:
    with pytest.raises(InvalidParameter, match=message):
        sampler(Parallel(Gaussian("a", 1))).part(index, sizes)


def test_the_partition_stays_the_same_and_needs_a_fixed_size() -> None:
    curator = sampler(Parallel(Gaussian("a", 1)))
    part = curator.part(0, (1, 3))
    with pytest.raises(InvalidParameter, match="stay the same"):
        curator.part(0, (2, 2))
    with pytest.raises(Undeclared, match="this curator gave"):
        sampler(Parallel(Gaussian("a", 1))).release("a", clipped(), rows=part)
    with pytest.raises(InvalidParameter, match="add_remove"):
        sampler(Parallel(Gaussian("a", 1)), ADD_REMOVE).part(0, (1, 3))


# --- the tracer ----------------------------------------------------------------------------------


def test_the_tracer_shows_a_run_on_public_rows() -> None:
    placeholder = Records(np.zeros((4, 1)))

    def body(curator: Curator) -> Array:
        curator.coin(lambda rng: rng.integers(0, 3))
        with curator.batch("b") as batch:
            curator.release("b", clipped(divisor=2), rows=batch)
        return curator.release("a", clipped(0.5))

    node = Compose(Gaussian("a", 3), PoissonSampled(Gaussian("b", 5), 0.5))
    tracer = Tracer(node, REPLACE_ONE, placeholder)
    assert body(tracer) == 0.0
    assert tracer.trace == [("b", 1.0, 5.0), ("a", 0.25, 0.75)]
    with pytest.raises(Undeclared):
        tracer.release("a", clipped())


def test_a_local_report_is_of_one_record_alone() -> None:
    """In the local model nobody holds two records; in the central one the curator holds all."""
    node = Parallel(*(Gaussian(f"{i}", 1) for i in range(4)))
    local = Scope("replace_one", "record", "local", "transcript")  # type: ignore[arg-type]
    for scope, sizes in ((REPLACE_ONE, (2, 2)), (local, (1, 1, 1, 1))):
        curator = sampler(node, scope)
        assert curator.release("0", clipped(), rows=curator.part(0, sizes)).shape == (1, 1)
    curator = sampler(node, local)
    with pytest.raises(InvalidParameter, match="of one record's records alone"):
        curator.release("0", clipped(), rows=curator.part(0, (2, 2)))
    with pytest.raises(InvalidParameter, match="not of 4"):
        sampler(Gaussian("a", 1), local).release("a", clipped())
