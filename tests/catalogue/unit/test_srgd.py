"""Accelerated-DP-SRGD: runs, privacy, constants, and what is refused."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpaudit.accountant.account import Account
from dpaudit.curator.curator import Sampler
from dpaudit.curator.mechanism import Mechanism
from dpaudit.curator.replayer import Replayer
from dpaudit.errors import InvalidParameter, Undeclared
from dpaudit.families.correlated import CorrelatedGaussian
from dpaudit.families.correlated.node import Factorisation
from dpaudit.kernels.query import Array, Records
from dpaudit.measures.convert import gaussian_mu
from dpaudit.scope import Scope, central
from mechanisms.papers.common.losses import Logistic, SoftplusNetwork
from mechanisms.papers.common.losses import WorstCase as Canary
from mechanisms.papers.srgd import catalogue
from mechanisms.papers.srgd.accelerated import DPSRGD, AcceleratedDPSRGD
from mechanisms.papers.srgd.constants import (
    Constants,
    as_float,
    least_multiplier,
    noised,
    preset_constrained,
    preset_unconstrained,
    printed_multiplier,
    theorem_5_8,
    theorem_5_12,
)
from mechanisms.papers.srgd.gradient import of_constants, prefix_sums
from mechanisms.papers.srgd.prefix_noise import Method, prefix_noise_bound, prefix_noise_tail
from mechanisms.papers.srgd.problem import BoundedLogistic
from mechanisms.papers.srgd.rows import Clipped
from tests.support.optimisation import (
    ZERO_OUT,
    ToRecord,
    logistic,
    logistic_rows,
    program,
    sampler,
    without_noise,
)

REPLACE_ONE = central("replace_one")


# --- runs ----------------------------------------------------------------------------------------


def test_gradients_are_counted_and_every_row_is_read_in_one_round() -> None:
    """2 B T - B gradients of 38 of 41 rows; the last 3 are never read."""
    loss = ToRecord(size=2)
    of = program(loss, 19, 41, beta=40)
    rows = np.random.default_rng(1).standard_normal((41, 2)) + 5
    seen: list[set[float]] = []

    def gradients(parameters: Any, records: Any) -> Array:
        seen.append(set(records[np.abs(records).sum(-1) > 0, 0]))
        return ToRecord.gradients(loss, parameters, records)

    loss.gradients = gradients  # type: ignore[method-assign]
    of.run(sampler(of, rows))
    assert loss.asked == of.gradient.work.gradients == 2 * 2 * 19 - 2
    assert of.gradient.work.batch_steps == 19
    batches = [batch for batch in dict.fromkeys(map(frozenset, seen)) if batch]
    assert len(batches) == 19
    assert sum(map(len, batches)) == len(frozenset().union(*batches)) == 38
    assert not frozenset().union(*batches) & set(rows[38:, 0])


@pytest.mark.parametrize("kind", [AcceleratedDPSRGD, DPSRGD])
@pytest.mark.parametrize("strategy", ["tree", "sqrt_toeplitz", "identity", "tree_honaker"])
def test_a_run_is_decided_by_its_seed(kind: Any, strategy: str) -> None:
    base = logistic(7, 30, Clipped(1), strategy=Factorisation(strategy))
    of = kind(base.gradient, radius=0.05)
    rows = logistic_rows(30, 3)
    one, two, other = (of.run(sampler(of, rows, 4, seed)).output for seed in (1, 1, 2))
    assert one.shape == (4, 3)
    assert (one == two).all()
    assert (one != other).any()
    assert (np.linalg.norm(one, axis=1) <= 0.05 * (1 + 1e-12)).all()


def test_the_least_noise_leaves_what_descent_without_noise_finds() -> None:
    """Means of rows: y_T is near it, and x_T of the plain method."""
    rows = np.random.default_rng(2).standard_normal((200, 2)) + np.array([1.0, -2])
    fast = program(ToRecord(2), 20, 200, beta=4)
    slow = DPSRGD(replace(fast.gradient, rounds=40))
    for of in (fast, slow):
        found = of.run(without_noise(of, rows)).output[0]
        assert np.linalg.norm(found - rows.mean(axis=0)) < 0.3


@pytest.mark.first_case
@pytest.mark.parametrize(
    "mechanism",
    [v for v in vars(catalogue).values() if isinstance(v, Mechanism) and v.records],
    ids=lambda m: str(m.name),
)
def test_the_catalogue_runs_on_its_data(mechanism: Mechanism) -> None:
    """The loss on the hold-out rows falls, and the run is decided by its seed."""
    records, metrics = mechanism.records(), []  # type: ignore[misc]
    for _ in range(2):
        rng = np.random.default_rng(11)
        curator = Sampler(mechanism.declaration, mechanism.scope, records, rng=rng)
        metrics.append(mechanism.evaluate(mechanism.program.run(curator)))  # type: ignore[misc]
    assert metrics[0] == metrics[1]
    start, end = (metric.value for metric in metrics[0])
    assert end < start == pytest.approx(math.log(2))
    assert not any(metric.covered for metric in metrics[0])


def test_a_network_learns_with_the_same_noise() -> None:
    """No convexity: privacy is the clip's, and at mu = 1.5 (epsilon 8 at 1e-6) the loss falls."""
    rows = logistic_rows(2000, 3)
    network = SoftplusNetwork(hidden=5)
    shape = noised(10, 200, 4, 2, least_multiplier(8, 1e-6, 10))
    of = AcceleratedDPSRGD(of_constants(shape, network, 3, 2000))
    plain = AcceleratedDPSRGD(of_constants(shape, BoundedLogistic(), 3, 2000))
    assert of.declaration(ZERO_OUT) == plain.declaration(ZERO_OUT)
    found = of.run(sampler(of, rows, trials=10, seed=4)).output
    losses = [network.values(x, rows).mean() for x in (network.initial(3, 1, 0), found)]
    assert losses[1] < 0.8 * losses[0]


def test_rows_that_are_not_finite_count_as_zero() -> None:
    """No error, no warning, and B stays: the run is that of the data without them."""
    of = logistic(4, 20, Clipped(1))
    rows = logistic_rows(20, 3)
    poisoned, absent = rows.copy(), np.ones(20, dtype=bool)
    poisoned[[2, 11]] = np.nan
    poisoned[7, 0] = np.inf
    absent[[2, 7, 11]] = False
    runs = []
    for records in (Records(poisoned), Records(rows, absent)):
        curator = Sampler(of.declaration(ZERO_OUT), ZERO_OUT, records, rng=np.random.default_rng(3))
        runs.append(of.run(curator).output)
    assert runs[0] == pytest.approx(runs[1], abs=1e-14)
    assert np.isfinite(runs[0]).all()


def test_only_the_declared_rounds_on_fresh_batches_are_released() -> None:
    of = logistic(4, 20, Clipped(1))
    curator = sampler(of, logistic_rows(20, 3))
    of.run(curator)
    assert [event.label for event in curator.transcript] == ["prefix"] * 4
    with pytest.raises(Undeclared, match="spent"):
        of.run(curator)


def test_one_round_is_one_gaussian_release() -> None:
    of = logistic(1, 20, Clipped(1))
    node = of.declaration(ZERO_OUT)
    assert Account(node, ZERO_OUT).step("gdp").value == Fraction(100, 40)
    assert len(of.run(sampler(of, logistic_rows(20, 3))).output) == 1


# --- privacy -------------------------------------------------------------------------------------


def test_what_one_record_moves_is_what_is_declared() -> None:
    """A canary of norm C in round 0: scores of N(mu^2 / 2, mu^2), mean within 5 standard errors
    (false alarms: 6e-7), and no release moves by more than it states.
    """
    base = logistic(6, 12, Clipped(2), beta=3, sigma=2)
    of = base.on_loss(Canary(size=2, curvature=0.0, slope=2.0), 0)
    records = np.zeros((12, 1))
    records[0] = 1.0
    pair = Records(records), Records(records, np.arange(12) > 0)
    curator = Sampler(
        of.declaration(ZERO_OUT), ZERO_OUT, pair[0], rng=np.random.default_rng(4), trials=4000
    )
    of.run(curator)
    scores = Replayer(of, of.declaration(ZERO_OUT), ZERO_OUT, pair).scores(curator.transcript)
    mu = as_float(Account(of.declaration(ZERO_OUT), ZERO_OUT).step("gdp").value)
    assert mu == pytest.approx(2 * math.sqrt(3) / (2 * 3 * 2))
    assert abs(scores.mean() - mu**2 / 2) < 5 * mu / math.sqrt(4000)


def test_one_record_moves_one_round_and_no_more_than_it_states() -> None:
    """Scripted releases: both walks see the same iterates, and differ in the record's own round."""
    of = logistic(6, 18, Clipped(Fraction(1, 2)), beta=3, sigma=Fraction(1, 5))
    rows = logistic_rows(18, 3)
    other = rows.copy()
    other[7] = [0, 0, 1e3, 1]
    curator = Sampler(
        of.declaration(REPLACE_ONE), REPLACE_ONE, Records(rows),
        rng=np.random.default_rng(5), trials=3,
    )  # fmt: skip
    of.run(curator)
    replayer = Replayer(
        of, of.declaration(REPLACE_ONE), REPLACE_ONE, (Records(rows), Records(other))
    )
    (one, output), (two, same) = (
        replayer.walk(Records(r), curator.transcript) for r in (rows, other)
    )
    moved = [np.linalg.norm(a.value - b.value, axis=1).max()
             for a, b in zip(one.visits, two.visits, strict=True)]  # fmt: skip
    assert [m > 0 for m in moved] == [t == 2 for t in range(6)]
    assert moved[2] <= 2 * 0.5 / (3 * 3)
    assert (output.output == same.output).all()


def test_records_of_late_batches_are_told_less_of() -> None:
    """mu_t over mu: 1, .894, .894, .775, ... of sixteen rounds; the largest is what is declared."""
    of = logistic(16, 32, Clipped(1))
    mus = [
        as_float(Account(of.gradient.batch_declaration(ZERO_OUT, t), ZERO_OUT).step("gdp").value)
        for t in range(16)
    ]
    whole = as_float(Account(of.declaration(ZERO_OUT), ZERO_OUT).step("gdp").value)
    assert mus[0] == max(mus) == pytest.approx(whole, rel=1e-12)
    assert [m / whole for m in mus[1:4]] == pytest.approx([0.894, 0.894, 0.775], abs=6e-4)
    with pytest.raises(InvalidParameter, match="no such round"):
        of.gradient.batch_declaration(ZERO_OUT, 16)


def test_the_difference_is_clipped_and_not_its_gradients() -> None:
    """Gradients C apart between rounds: the weighted difference is (2t + 1) C long before the clip.

    A query that clips each gradient would move by eta_t + eta_(t-1) times C.
    """
    of = logistic(5, 10, Clipped(1))
    x, previous = np.ones((1, 3)), -np.ones((1, 3))
    query = of.gradient.clip_weighted_differences(4, x, previous)
    rows = np.array([[900.0, 0, 0, 1.0], [900.0, 0, 0, 0.0]])
    value = query.value(Records(rows[:1]))
    assert np.linalg.norm(value) <= 1 / (2 * 10) * (1 + 1e-12)
    assert query.sensitivity(ZERO_OUT.adjacency, 2) == pytest.approx(1 / 20)
    assert query.sensitivity(REPLACE_ONE.adjacency, 2) == pytest.approx(2 / 20)


def test_scopes_that_have_no_bound_are_refused() -> None:
    of = logistic(4, 20, Clipped(1))
    with pytest.raises(InvalidParameter, match="zero_out"):
        of.declaration(central("add_remove"))
    with pytest.raises(InvalidParameter, match="record"):
        of.declaration(Scope("zero_out", "user", "central", "transcript"))  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="trusted curator"):
        of.declaration(Scope("zero_out", "record", "local", "transcript"))  # type: ignore[arg-type]


# --- constants -----------------------------------------------------------------------------------


def test_presets() -> None:
    """T = 4 n^(1/4), beta = 4 M; T = sqrt(n), beta = 2 M T; C_clip = 4 L; exactly (1, 1e-6)."""
    few = preset_unconstrained(16_150, 1, Fraction(1, 4), 1, 1e-6)
    many = preset_constrained(16_150, 1, Fraction(1, 4), 1, 1e-6)
    assert (few.rounds, few.batch, few.beta, few.clip) == (45, 358, 1, 4)
    assert (many.rounds, many.batch, many.beta, many.clip) == (127, 127, Fraction(127, 2), 4)
    for found in (few, many):
        of = of_constants(found, Logistic(), 3, 16_150)
        mu = Account(of.declaration(ZERO_OUT), ZERO_OUT).step("gdp").value
        assert mu == gaussian_mu(1, 1e-6)


def test_the_paper_s_constants_are_less_noise() -> None:
    """Corollary 5.7 as printed, sqrt(log2(T) ln(2.5/delta)) / epsilon; short by a fifth here."""
    for preset in (preset_constrained, preset_unconstrained):
        printed, enough = (
            preset(4096, 1, 1, 1, 1e-6, constants=kind) for kind in ("paper", "corrected")
        )
        assert 0.7 < as_float(printed.sigma) / as_float(enough.sigma) < 0.9
    with pytest.raises(InvalidParameter, match="corrected or paper"):
        preset_constrained(4096, 1, 1, 1, 1e-6, constants="tight")


def test_noise_scales_with_mu() -> None:
    """At fixed T, B, beta and C, sigma is inversely proportional to mu*."""
    one, half = (least_multiplier(epsilon, 1e-6, 32) for epsilon in (1, Fraction(1, 2)))
    ratio = gaussian_mu(1, 1e-6) / gaussian_mu(Fraction(1, 2), 1e-6)
    assert as_float(half) / as_float(one) == pytest.approx(float(ratio), rel=1e-12)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Constants(0, 1, 1, 1, 1),
        lambda: Constants(1, 0, 1, 1, 1),
        lambda: Constants(1, 1, 0, 1, 1),
        lambda: Constants(1, 1, 1, -1, 1),
        lambda: Constants(1, 1, 1, 1, float("nan")),
        lambda: noised(4, 4, 1, 1, 0),
        lambda: preset_constrained(0, 1, 1, 1, 1e-6),
        lambda: preset_unconstrained(100, 1, 0, 1, 1e-6),
        lambda: theorem_5_12(100, 11, 1, 1e-6),
        lambda: theorem_5_12(100, 0, 1, 1e-6),
        lambda: theorem_5_12(1, 1, 1, 1e-6),
        lambda: theorem_5_12(100, 10, 0, 1e-6),
        lambda: theorem_5_12(100, 10, 1, 1),
        lambda: theorem_5_8(10**8, 10, 1, 2),
        lambda: theorem_5_8(1, 10, 1, 1e-6),
        lambda: theorem_5_8(0, 10, 1, 1e-6),
        lambda: preset_constrained(2.5, 1, 1, 1, 1e-6),  # type: ignore[arg-type]
        lambda: logistic(4, 20, Clipped(1), schedule="t+2"),
        lambda: logistic(4, 20, Clipped(1), strategy="forest"),
        lambda: prefix_noise_bound(4, 1, 1e-6, "forest"),  # type: ignore[arg-type]
        lambda: prefix_noise_bound(4, 1, 1e-6, method="guess"),  # type: ignore[arg-type]
        lambda: printed_multiplier(1, 1e-6, 1),
        lambda: printed_multiplier(1, 1e-6, 32, Factorisation.IDENTITY),
        lambda: prefix_noise_bound(0, 1, 1e-6),
        lambda: prefix_noise_bound(4, 0, 1e-6),
        lambda: prefix_noise_bound(1, 1, 1e-6, method=Method.PAPER),
        lambda: prefix_noise_bound(4, 1, 1e-6, Factorisation.IDENTITY, Method.PAPER),
        lambda: prefix_noise_tail(10, 1, Fraction(1, 10)),
        lambda: of_constants(noised(4, 9, 1, 1, 1), Logistic(), 3, 40),
        lambda: logistic(4, 3, Clipped(1)),
        lambda: logistic(0, 3, Clipped(1)),
        lambda: logistic(4, 20, Clipped(0)),
        lambda: logistic(4, 20, Clipped(1), beta=0),
        lambda: logistic(4, 20, Clipped(1), sigma=float("inf")),
        lambda: AcceleratedDPSRGD(logistic(4, 20, Clipped(1)).gradient, radius=0.0),
        lambda: DPSRGD(logistic(4, 20, Clipped(1)).gradient, radius=float("nan")),
    ],
)
def test_bad_input_is_refused(make: Any) -> None:
    with pytest.raises(InvalidParameter):
        make()


def test_more_rounds_than_can_be_run_are_accounted_for_all_the_same() -> None:
    of = logistic(10**7, 10**8, Clipped(1))
    node = of.declaration(ZERO_OUT)
    assert isinstance(node, CorrelatedGaussian)
    assert Account(node, ZERO_OUT).routes()
    with pytest.raises(InvalidParameter, match="can be run"):
        of.run(sampler(of, logistic_rows(20, 3)))


def test_records_of_another_number_are_refused_before_they_are_read() -> None:
    of = logistic(4, 20, Clipped(1))
    with pytest.raises(InvalidParameter, match="sizes"):
        of.run(sampler(of, logistic_rows(21, 3)))


def test_a_declaration_takes_names_of_strategies() -> None:
    node = prefix_sums(ZERO_OUT, clip=1, batch=2, beta=3, sigma=4, rounds=5, strategy="identity")
    assert Account(node, ZERO_OUT).step("gdp").value == Fraction(1, 24)
