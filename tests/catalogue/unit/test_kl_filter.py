"""Filters inside programs: the cap holds whatever noise is asked for, refused before data is read.

Charges are recomputed here from the scales that the kernels were handed, in exact fractions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpaudit.accountant.claim import Claim
from dpaudit.curator.curator import Curator, Sampler, Tracer
from dpaudit.curator.replayer import Replayer
from dpaudit.errors import InvalidParameter, Undeclared, Unsupported
from dpaudit.families.adaptive import Filter, Select
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.additive.kernel import GaussianKernel, LaplaceKernel
from dpaudit.families.composition import Compose, Parallel, Repeat
from dpaudit.families.opaque import GDP, ZCDP, ApproxDP, PureDP
from dpaudit.families.sampling import PoissonSampled
from dpaudit.kernels.base import Generator
from dpaudit.kernels.query import Array, ClippedMean, Records
from dpaudit.nodes import Node
from dpaudit.scope import central
from mechanisms.papers.common.losses import WorstCase
from mechanisms.papers.kl.adaptive import (
    MODES,
    AdaptiveNoisyGD,
)
from mechanisms.papers.kl.adaptive_catalogue import adaptive_noisy_gd
from mechanisms.papers.kl.problem import KLProblem

REPLACE_ONE, ZERO_OUT = central("replace_one"), central("zero_out")
DATA = Records(np.array([[1.0], [0.0], [0.0], [0.0]]))
A = Filter.of(Gaussian("a", 1), ZCDP(Fraction(1, 2)))


def mean(radius: float = 1.0) -> ClippedMean:
    return ClippedMean(lambda z: z[None], radius)


def sampler(node: Node, trials: int = 1, **options: Any) -> Sampler:
    rng = np.random.default_rng(3)
    return Sampler(node, REPLACE_ONE, DATA, rng=rng, trials=trials, **options)


class Untouched(ClippedMean):
    """Fails where it meets records that are not zeros."""

    def value(self, records: Records, chosen: Any = None) -> Array:
        assert not records.values.any(), "the data were touched"
        return super().value(records, chosen)


# --- the cap -------------------------------------------------------------------------------------


def test_a_cap_of_zero_admits_nothing() -> None:
    curator = sampler(Filter.of(Gaussian("a", 1), ZCDP(0)), 2)
    assert not curator.admits("a", 1e300).any()
    query = Untouched(lambda z: z[None], 1.0)
    with pytest.raises(Undeclared, match="pass the cap 0 of its zcdp filter in 2 of 2"):
        curator.release("a", query, noise_multiplier=1e300)


def test_charges_add_up_to_the_cap_exactly_and_no_further() -> None:
    """Ten charges of a tenth of the cap fit, in one trial and in several; an eleventh does not."""
    node = Filter.of(Laplace("a", 1), PureDP(10 * Fraction(0.125)))
    for trials in (1, 3):
        curator = sampler(node, trials)
        for _ in range(10):
            assert curator.admits("a", 8.0).all()
            curator.release("a", ClippedMean(lambda z: z[None], 1.0, norm="l1"), noise_multiplier=8)
        assert not curator.admits("a", 1e300).any()
        with pytest.raises(
            Undeclared, match=r"pass the cap 1.25 of its pure filter in \d of \d tri"
        ):
            curator.release("a", ClippedMean(lambda z: z[None], 1.0, norm="l1"), noise_multiplier=8)


def test_a_charge_that_does_not_fit_is_refused_before_data_is_touched() -> None:
    curator = sampler(A, 2)
    query = Untouched(lambda z: z[None], 1.0)
    with pytest.raises(Undeclared, match=r"pass the cap 0\.5 of its zcdp filter in 1 of 2"):
        curator.release("a", query, noise_multiplier=np.array([9.0, 0.99]))
    assert curator.admits("a", 1.0).tolist() == [True, True], "nothing was spent"
    assert curator.transcript == []


def test_trials_that_are_off_are_not_charged() -> None:
    curator = sampler(A, 2)
    on = np.array([True, False])
    curator.release("a", mean(), on=on, noise_multiplier=np.array([1.0, math.nan]))
    assert [curator.entitlements.spent("a", trial) for trial in (0, 1)] == [Fraction(1, 2), 0]
    for trial in (-1, 2):
        with pytest.raises(InvalidParameter, match="there are 2"):
            curator.entitlements.spent("a", trial)
    assert curator.admits("a", 1.0).tolist() == [False, True]
    assert curator.entitlements.counts() == {"a": (None, 0, 1)}


@pytest.mark.parametrize("bad", [-1.0, 0.0, math.nan, math.inf, -math.inf])
def test_noise_that_is_no_positive_number_is_refused(bad: float) -> None:
    curator = sampler(A, 2)
    assert not curator.admits("a", bad).any()
    query = Untouched(lambda z: z[None], 1.0)
    with pytest.raises(InvalidParameter, match="not a positive, finite number"):
        curator.release("a", query, noise_multiplier=np.array([5.0, bad]))


@pytest.mark.parametrize("bad", ["much", [1.0, 2.0, 3.0], [[1.0]], None, {}])
def test_noise_of_another_shape_is_refused(bad: Any) -> None:
    with pytest.raises(InvalidParameter, match="noise_multiplier"):
        sampler(A, 2).release("a", Untouched(lambda z: z[None], 1.0), noise_multiplier=bad)


def test_a_query_that_cannot_move_has_no_noise_under_a_filter_either() -> None:
    assert not sampler(A, 100).release("a", mean(0.0), noise_multiplier=30.0).any()


def test_noise_is_chosen_under_a_filter_and_only_there() -> None:
    curator = sampler(Compose(A, Gaussian("b", 2)))
    with pytest.raises(InvalidParameter, match="the declaration fixes its noise"):
        curator.release("b", mean(), noise_multiplier=5.0)
    with pytest.raises(InvalidParameter, match="under no Filter"):
        curator.admits("b", 5.0)
    with pytest.raises(InvalidParameter, match="under no Filter"):
        curator.entitlements.spent("b")
    with pytest.raises(Undeclared, match="not declared"):
        curator.admits("c", 5.0)
    assert curator.release("b", mean()).shape == (1, 1)


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (Repeat(A, 2), "repeated Filter"),
        (Compose(A, Gaussian("a", 1)), "declared twice"),
        (Compose(A, A), "declared twice"),
        (PoissonSampled(A, 0.5), "inside a batch"),
        (Filter.of(Laplace("a", 1), GDP(1)), "cannot be run"),
        (Filter.of(Gaussian("a", 1), ApproxDP(1, 0.1)), "cannot be run"),
        (Filter.of(Laplace("a", 1), ApproxDP(1, 0.1)), "cannot be run"),
    ],
)
def test_filters_that_cannot_be_run_are_refused(node: Node, message: str) -> None:
    with pytest.raises((InvalidParameter, Unsupported), match=message):
        sampler(node)


def test_filters_of_parts_have_a_cap_each() -> None:
    other = Filter.of(Gaussian("b", 1), ZCDP(Fraction(1, 2)))
    curator = sampler(Parallel(A, other))
    for label, part in (("a", 0), ("b", 1)):
        rows = curator.part(part, (2, 2))
        curator.release(label, mean(), rows=rows, noise_multiplier=1.0)
        assert not curator.admits(label, 1e9).any()


def test_the_noise_drawn_is_never_less_than_what_was_charged() -> None:
    """The scale is rounded up: scale / sensitivity is at least the multiplier, exactly."""
    curator = sampler(A, 500)
    multipliers = np.random.default_rng(5).uniform(30, 90, 500)
    for radius in (0.1, 1 / 3, 1e-200, 7e100):
        spy = Spy()
        curator = sampler(A, 500, kernels={Gaussian: spy.kernel})
        curator.release("a", mean(radius), noise_multiplier=multipliers)
        moved = Fraction(float(mean(radius).sensitivity(REPLACE_ONE.adjacency, 4)))
        for asked, scale in zip(multipliers, spy.scales[0], strict=True):
            assert Fraction(float(scale)) >= Fraction(float(asked)) * moved


# --- any sequence of noises ----------------------------------------------------------------------


class Spy:
    """Kernels that note every scale they draw with, and answer ``norm`` as they are told."""

    def __init__(self, answers: list[float] | None = None) -> None:
        self.scales: list[Array] = []
        spy, told = self, iter(answers or [])

        class Noted(GaussianKernel):
            def sample(self, values: Array, scale: Array, rng: Generator) -> Array:
                spy.scales.append(np.array(scale))
                drawn = super().sample(values, scale, rng)
                told_now = next(told, None) if self.leaf.label == "norm" else None
                return drawn if told_now is None else np.full_like(values, told_now)

        self.kernel = Noted


noises = st.one_of(
    st.floats(min_value=0.3, max_value=30),
    st.floats(min_value=1e-300, max_value=1e300),
    st.sampled_from([-1.0, 0.0, math.nan, math.inf, 1.0, 2.0, 5e-324, 1.7e308]),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(noises, noises), max_size=25), st.sampled_from(["zcdp", "gdp"]))
def test_the_realised_sum_never_passes_the_cap(rows: list[Any], measure: str) -> None:
    """Recomputed from the drawn scales: sum of (sensitivity / scale)^2 / 2 <= rho, every trial."""
    budget = ZCDP(Fraction(1, 2)) if measure == "zcdp" else GDP(1)
    spy = Spy()
    curator = sampler(Filter.of(Gaussian("a", 1), budget), 2, kernels={Gaussian: spy.kernel})
    kept = []
    for row in rows:
        on = curator.admits("a", np.array(row))
        if on.any():
            curator.release("a", mean(), on=on, noise_multiplier=np.array(row))
            kept.append(on)
    moved = Fraction(float(mean().sensitivity(REPLACE_ONE.adjacency, 4)))
    for trial in range(2):
        drawn = [s[trial] for s, on in zip(spy.scales, kept, strict=True) if on[trial]]
        assert sum((moved / Fraction(float(s))) ** 2 / 2 for s in drawn) <= Fraction(1, 2)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.floats(0.05, 50.0), min_size=1, max_size=30),
    st.integers(min_value=1, max_value=40),
)
def test_trials_side_by_side_are_admitted_as_each_alone(row: list[float], parts: int) -> None:
    """The cap is a sum of some of the charges: whole numbers of units alone cannot decide it."""
    cap = sum((Fraction(1) / (2 * Fraction(m) ** 2) for m in row[:parts]), Fraction(0))
    node = Filter.of(Gaussian("a", 1), ZCDP(cap))
    alone, together = sampler(node), sampler(node, 3)
    for multiplier in row:
        fits = bool(alone.admits("a", multiplier)[0])
        assert together.admits("a", multiplier).tolist() == [fits] * 3
        if fits:
            alone.release("a", mean(), noise_multiplier=multiplier)
            together.release("a", mean(), noise_multiplier=multiplier)
    assert alone.entitlements.counts()["a"][1] >= min(parts, len(row))


HOSTILE = [-1e308, -3.0, -0.01, -0.0, 0.0, 5e-324, 0.01, 0.4, 1e9, 1.7e308, math.inf, math.nan]
SMALL = KLProblem(WorstCase(size=1, curvature=0.0), 0, 100, 1.0)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(HOSTILE), max_size=12), st.sampled_from(MODES))
def test_adaptive_descent_stays_below_its_cap_on_any_norms(told: list[float], mode: str) -> None:
    """Norms that are negative, zero, no numbers or huge, as if the noise had made them so."""
    program = AdaptiveNoisyGD(SMALL, Fraction(1), 0.05, 1.0, mode)
    records = Records(np.eye(100)[:, :1])
    spy = Spy(told)
    curator = Sampler(
        program.declaration(REPLACE_ONE),
        REPLACE_ONE,
        records,
        rng=np.random.default_rng(1),
        kernels={Gaussian: spy.kernel},
    )
    walked = program.run(curator)
    moved = Fraction(float(SMALL.mean_gradient(np.zeros((1, 1))).sensitivity("replace_one", 100)))  # type: ignore[arg-type]
    assert sum((moved / Fraction(float(s[0]))) ** 2 / 2 for s in spy.scales) <= 1
    assert np.isfinite(walked.output).all()
    assert len(walked.norms) <= 51


# --- programs ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Twice:
    """Two releases under a filter, the second with noise made of the first."""

    def declaration(self, scope: Any) -> Node:
        return Filter.of(Select(Gaussian("a", 1), Gaussian("b", 1)), ZCDP(1))

    def run(self, curator: Curator) -> Array:
        first = curator.release("a", mean(), noise_multiplier=2.0)[:, 0]
        chosen = 1.5 + np.abs(first)
        on = curator.admits("b", chosen) & (first > 0)
        if on.any():
            curator.release("b", mean(), on=on, noise_multiplier=chosen)
        return first[:, None]


def test_a_replay_chooses_the_same_noise_and_its_density_is_exact() -> None:
    """E_D'[exp(score)] = 1: 20,000 trials, six standard errors (false alarm 2e-9)."""
    first = np.zeros((4, 1))
    first[0] = 1.0
    pair = Records(first), Records(-first)
    node, trials = Twice().declaration(REPLACE_ONE), 20_000
    curator = Sampler(node, REPLACE_ONE, pair[1], rng=np.random.default_rng(0), trials=trials)
    Twice().run(curator)
    replay = Replayer(Twice(), node, REPLACE_ONE, pair).inspect(curator.transcript, own=1)
    assert replay.violations == ()
    ratio = np.exp(replay.scores)
    assert abs(ratio.mean() - 1) < 6 * ratio.std() / math.sqrt(trials)


def test_a_tracer_runs_a_filter() -> None:
    tracer = Tracer(Twice().declaration(REPLACE_ONE), REPLACE_ONE, DATA.placeholder())
    Twice().run(tracer)
    assert tracer.trace == [("a", 0.5, pytest.approx(1.0))]


def test_a_kernel_of_laplace_noise_is_charged_by_its_scale() -> None:
    curator = sampler(Filter.of(Laplace("a", 1), PureDP(1)), kernels={Laplace: LaplaceKernel})
    query = ClippedMean(lambda z: z[None], 1.0, norm="l1")
    curator.release("a", query, noise_multiplier=2.0)
    assert curator.admits("a", 2.0).all()
    assert not curator.admits("a", 1.999).any()


def test_the_realised_sum_is_no_guarantee() -> None:
    """B16: a claim of what runs happened to spend is not certified, the cap is."""
    realised = Claim(ZCDP(Fraction(2, 5)), by="the odometer")
    node = adaptive_noisy_gd.declaration
    assert realised.check(node, REPLACE_ONE).outcome == "unproved"
    assert [c.check(node, REPLACE_ONE).outcome for c in adaptive_noisy_gd.claims] == ["proved"] * 2
