"""What bounds a row of Accelerated-DP-SRGD: clip schedules, worst cases, what is refused."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from dpaudit.accountant.account import Account
from dpaudit.curator.curator import Sampler
from dpaudit.curator.replayer import Replayer
from dpaudit.errors import InvalidParameter, SensitivityExceeded, Unsupported
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Assuming
from dpaudit.families.correlated.node import Factorisation
from dpaudit.families.events import EventSlack
from dpaudit.kernels.query import Array, Records
from dpaudit.measures.convert import gaussian_mu
from dpaudit.nodes import Status
from dpaudit.scope import central
from mechanisms.papers.common.losses import WorstCase as Canary
from mechanisms.papers.srgd.accelerated import DPSRGD, AcceleratedDPSRGD
from mechanisms.papers.srgd.constants import (
    as_float,
)
from mechanisms.papers.srgd.geometry import EtaSchedule
from mechanisms.papers.srgd.prefix_noise import prefix_noise_bound
from mechanisms.papers.srgd.rows import Clipped, OfIidData, StatedMean, WorstCase
from mechanisms.papers.srgd.schedule import ClipSchedule
from mechanisms.papers.srgd.sensitivity import (
    Conditions,
    DataEvent,
    NoiseEvent,
    outside,
    srg_sensitivity_bound,
    srg_sensitivity_iid_claim,
    srg_sensitivity_of,
)
from mechanisms.papers.srgd.strategies import column_norm
from tests.support.optimisation import (
    ZERO_OUT,
    logistic,
    logistic_rows,
    sampler,
    states,
    without_noise,
)

REPLACE_ONE = central("replace_one")


# --- clip schedules ------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["tree", "sqrt_toeplitz", "independent_prefix", "identity"])
def test_a_clip_schedule_is_accounted_by_its_columns(strategy: str) -> None:
    """mu = max C_t ||C[:, t]|| / (B beta sigma)."""
    norms = [Fraction(1), *[Fraction(3, 2)] * 6, Fraction(1, 4)]
    of = logistic(8, 16, ClipSchedule(tuple(norms)), strategy=Factorisation(strategy))
    plain = [[float(entry) for entry in row] for row in _matrix(Factorisation(strategy), 8)]
    columns = np.linalg.norm(np.array(plain), axis=0)
    expected = max(float(c) * n for c, n in zip(norms, columns, strict=True)) / (2 * 16 / 100)
    mu = Account(of.declaration(ZERO_OUT), ZERO_OUT).step("gdp").value
    assert as_float(mu) == pytest.approx(expected, rel=1e-12)


def _matrix(strategy: Factorisation, rounds: int) -> Array:
    from dpaudit.families.correlated.strategies import strategy_matrix

    return strategy_matrix(strategy, rounds)


def test_a_first_norm_of_l_lets_later_ones_grow_at_no_cost() -> None:
    """The tree's first column is its only longest: C_t = sqrt(5/4) L from round 1 on is free."""
    same = logistic(16, 32, Clipped(1))
    more = logistic(16, 32, ClipSchedule.first(Fraction(1), Fraction(11, 10), 16))
    found = [Account(of.declaration(ZERO_OUT), ZERO_OUT).step("gdp").value for of in (same, more)]
    assert found[0] == found[1]


@pytest.mark.parametrize("seed", [1, 2])
def test_a_clip_schedule_releases_the_same_prefix_sums(seed: int) -> None:
    """With norms that never bind, values and noise agree with those of one norm."""
    norms = ClipSchedule(tuple(Fraction(200 + 7 * t, 10) for t in range(9)))
    scheduled = logistic(9, 27, norms)
    plain = logistic(9, 27, Clipped(norms.largest))
    rows = logistic_rows(27, 3)
    runs = [of.run(without_noise(of, rows)).output for of in (scheduled, plain)]
    assert runs[0] == pytest.approx(runs[1], abs=1e-12)
    noisy = [of.run(sampler(of, rows, 3, seed)).output for of in (scheduled, plain)]
    assert noisy[0] == pytest.approx(noisy[1], abs=1e-9)


def test_a_clip_schedule_clips_every_round_to_its_norm() -> None:
    norms = tuple(Fraction(1, t + 2) for t in range(4))
    of = logistic(4, 4, ClipSchedule(norms))
    long = np.array([[1.0, 0, 0, 1.0]])
    for t, norm in enumerate(norms):
        query = of.gradient.clip_weighted_differences(t, np.full((1, 3), 1e6), np.zeros((1, 3)))
        moved = np.linalg.norm(query.value(Records(long))) * of.gradient.rows.share(t)
        assert moved <= float(norm) / 8 * (1 + 1e-12)
        assert query.sensitivity(ZERO_OUT.adjacency, 1) == pytest.approx(float(norms[0]) / 8)


def test_even_norms_keep_mu_and_later_rounds_get_more() -> None:
    """C_t = C max ||C[:, i]|| / ||C[:, t]||: 5, 4, 4, 3, ... sums hold a round of sixteen."""
    for strategy in (Factorisation.TREE, Factorisation.SQRT_TOEPLITZ):
        norms = ClipSchedule.even(strategy, Fraction(1), 16)
        assert norms.norms[0] == 1
        assert all(norm >= 1 for norm in norms.norms)
        mus = [
            as_float(Account(of.declaration(ZERO_OUT), ZERO_OUT).step("gdp").value)
            for of in (logistic(16, 32, rows, strategy=strategy) for rows in (norms, Clipped(1)))
        ]
        assert mus[0] == pytest.approx(mus[1], rel=1e-11)
    tree = ClipSchedule.even(Factorisation.TREE, Fraction(1), 16)
    assert [float(n) for n in tree.norms[:4]] == pytest.approx([1, 1.118, 1.118, 1.291], abs=1e-3)


@pytest.mark.parametrize("norms", [(), (1, 0), (1, -1), (1, float("nan")), (1,) * 3, (1,) * 600])
def test_bad_clip_schedules_are_refused(norms: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidParameter, match="ClipSchedule"):
        logistic(2, 4, ClipSchedule(norms)).declaration(ZERO_OUT)


# --- without clipping ----------------------------------------------------------------------------


def bounded(rounds: int = 20, size: int = 2000, **options: Any) -> tuple[AcceleratedDPSRGD, Any]:
    """L = 1, M = 1/4, beta = 2 M T, a ball of radius 2, in three dimensions."""
    settings = {"mu": gaussian_mu(1, 1e-6), "tail": 1e-9} | options
    schedule = settings.pop("schedule", EtaSchedule.LINEAR)
    diameter = settings.pop("diameter", 4)
    smooth, beta = Fraction(1, 4), Fraction(rounds, 2)
    conditions = Conditions(1, smooth, diameter, beta, rounds, 3, schedule=schedule)
    bound = srg_sensitivity_bound(conditions, batch=size // rounds, **settings)
    noise = {"beta": beta, "sigma": bound.sigma, "schedule": schedule}
    return logistic(rounds, size, WorstCase.of(bound), **noise), bound


@pytest.mark.parametrize("schedule", EtaSchedule)
def test_rows_stay_below_the_worst_case(schedule: EtaSchedule) -> None:
    """max ||D_t(d)|| <= C* for adversarial orders: all of one label first, then the other."""
    of, bound = bounded(schedule=schedule)
    rows = logistic_rows(2000, 3)
    rows = rows[np.argsort(rows[:, -1])]
    lengths = []
    curator = sampler(of, rows, trials=5, seed=6)
    before = of.start(5)
    for t, state in enumerate(states(of, curator)):
        weights = schedule.eta(t), schedule.eta(t - 1)
        batch = rows[100 * t : 100 * (t + 1)]
        loss = of.gradient.loss
        moved = weights[0] * loss.gradients(before.x, batch)
        moved -= weights[1] * loss.gradients(before.previous, batch)
        lengths.append(np.linalg.norm(moved, axis=-1).max())
        before = state
    assert 0.05 * float(bound.norm) < max(lengths) <= float(bound.norm)


def test_an_unclipped_run_is_the_clipped_one_where_nothing_is_clipped() -> None:
    of, bound = bounded()
    clipped = replace(of, gradient=replace(of.gradient, rows=Clipped(bound.norm)))
    rows = logistic_rows(2000, 3)
    one, two = (p.run(sampler(p, rows, 2, 7)).output for p in (of, clipped))
    assert one == pytest.approx(two, abs=1e-12)


def test_what_an_unclipped_run_rests_on_is_declared() -> None:
    of, _ = bounded()
    node = of.declaration(ZERO_OUT)
    assert isinstance(node, Assuming)
    assert isinstance(node.children[0], EventSlack)
    assert node.children[0].probability == Fraction("1e-9")
    assert "b_max" in node.children[0].event
    rests_on = Account(node, ZERO_OUT).step("profile").assumptions()
    assert [a.id.partition(":")[0] for a in rests_on] == [
        "slack",
        "lipschitz_smooth",
    ]


def test_the_replayer_sees_an_unclipped_row_that_is_longer_than_stated() -> None:
    of, _ = bounded(rounds=4, size=400)
    huge = of.on_loss(Canary(size=3, curvature=0.0, slope=1e4), 0)
    records = np.zeros((400, 1))
    records[0] = 1.0
    pair = Records(records), Records(records, np.arange(400) > 0)
    curator = Sampler(huge.declaration(ZERO_OUT), ZERO_OUT, pair[0], rng=np.random.default_rng(1))
    huge.run(curator)
    with pytest.raises(SensitivityExceeded, match="sensitivity"):
        Replayer(huge, huge.declaration(ZERO_OUT), ZERO_OUT, pair).scores(curator.transcript)


def test_an_event_of_the_data_is_no_slack() -> None:
    """i.i.d. data: refused as slack; as an assumption it is violated, and proves nothing."""
    noise, claim = Gaussian("sum", 1), srg_sensitivity_iid_claim(10**10, Fraction(1, 10**10))
    assert isinstance(outside(noise, NoiseEvent(1e-9, "the noise is long")), EventSlack)
    with pytest.raises(InvalidParameter, match=r"i\.i\.d\. records.*every pair"):
        outside(noise, claim.event)
    with pytest.raises(InvalidParameter, match="every pair"):
        outside(noise, DataEvent(Fraction(1, 100), "a long row was drawn"))
    rows = OfIidData.of(claim)
    declared = rows.declared(noise)
    (assumption,) = Account(declared, ZERO_OUT).step("gdp").assumptions()
    assert assumption.status is Status.VIOLATED
    assert as_float(rows.largest) == pytest.approx(177_292.4, abs=0.1)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"mu": Fraction(1, 10**6)}, "at least 1"),
        ({"diameter": -1}, "diameter"),
        ({"mu": 0}, "mu"),
        ({"tail": 0}, "tail"),
        ({"tail": 1}, "tail"),
        ({"mu": float("nan")}, "mu"),
    ],
)
def test_what_has_no_worst_case_bound_is_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        bounded(**changed)


def test_a_beta_below_m_t_has_no_worst_case_bound() -> None:
    conditions = Conditions(1, 1, 1, 10, 20, 1)
    with pytest.raises(InvalidParameter, match="raise beta above M T"):
        srg_sensitivity_bound(conditions, batch=100, mu=1, tail=1e-6)
    with pytest.raises(InvalidParameter, match="raise beta above M T"):
        srg_sensitivity_of(conditions, sigma=1, noise_bound=1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"beta": 9}, "beta = 9"),
        ({"sigma": 1}, "sigma = 1"),
        ({"schedule": EtaSchedule.HALVED}, "schedule = bg19"),
        ({"strategy": Factorisation.IDENTITY}, "strategy = identity"),
        ({"rounds": 21}, "rounds = 21"),
        ({"features": 4}, "dimension = 4"),
    ],
)
def test_a_bound_for_another_program_is_refused(change: dict[str, Any], message: str) -> None:
    of, _ = bounded()
    with pytest.raises(InvalidParameter, match=message):
        replace(of, gradient=replace(of.gradient, **change))


def test_a_bound_for_another_ball_or_algorithm_is_refused() -> None:
    of, _ = bounded()
    with pytest.raises(InvalidParameter, match="radius = inf"):
        AcceleratedDPSRGD(of.gradient)
    with pytest.raises(InvalidParameter, match="method = DPSRGD"):
        DPSRGD(of.gradient, radius=2.0)


def test_less_than_the_bound_cannot_be_stated() -> None:
    _, bound = bounded()
    assert WorstCase.of(bound, norm=bound.norm * 2).largest == bound.norm * 2
    with pytest.raises(InvalidParameter, match="longer than stated"):
        WorstCase.of(bound, norm=bound.norm / 2)


def test_a_stated_mean_covers_no_secret_batch() -> None:
    query = StatedMean(lambda z: z[None], 1.0, 2.0)
    records = Records(np.array([[1.0], [np.nan], [3.0]]))
    assert query.value(records) == pytest.approx(2.0)
    with pytest.raises(InvalidParameter, match="secret batches"):
        query.value(records, np.ones((1, 3), dtype=bool))


@pytest.mark.quality
def test_how_often_prefix_noise_is_longer_than_its_bound() -> None:
    """20,000 runs of 16 rounds in 3 dimensions at a tail of .05: false alarm 1e-6 either way.

    The union bound is over 16 rounds that share noise: at least a fifth of it is used up.
    """
    tail, trials = Fraction(1, 20), 20_000
    for strategy in (Factorisation.TREE, Factorisation.SQRT_TOEPLITZ, Factorisation.TREE_HONAKER):
        of = logistic(16, 16, Clipped(1), strategy=strategy, sigma=1, beta=1)
        curator = Sampler(
            of.declaration(ZERO_OUT), ZERO_OUT, Records(np.zeros((16, 4))),
            rng=np.random.default_rng(9), trials=trials,
        )  # fmt: skip
        of.run(curator)
        longest = np.max([np.linalg.norm(e.released, axis=1) for e in curator.transcript], axis=0)
        columns = column_norm(strategy, 16)
        found = int((longest > prefix_noise_bound(16, 3, tail, strategy) / columns).sum())
        assert binom.sf(found - 1, trials, 0.05) > 1e-6
        assert binom.cdf(found, trials, 0.01) > 1 - 1e-6


def test_prefix_noise_that_is_not_bounded_is_said_so() -> None:
    with pytest.raises(Unsupported, match="no bound found at tail 1e-400"):
        prefix_noise_bound(16, 1, Fraction(1, 10**400))
    with pytest.raises(Unsupported, match="bounded up to"):
        prefix_noise_bound(20_000, 1, 1e-6, Factorisation.IDENTITY)
    assert prefix_noise_bound(2**70, 10, 1e-6) > prefix_noise_bound(2**60, 10, 1e-6)
