"""DIFF2-GD: its declaration, its noise, what it computes without noise, and its worst case."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import sympy
from scipy import stats

from audits.diff2 import neighbours, worst_case
from dpaudit.accountant.account import account
from dpaudit.curator.curator import Sampler, Tracer
from dpaudit.errors import InvalidParameter
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Compose, Repeat
from dpaudit.families.opaque import NonPrivate
from dpaudit.kernels.query import Array, Records
from dpaudit.scope import Adjacency, Scope
from mechanisms.papers.common.losses import LeastSquares, Logistic, WorstCase
from mechanisms.papers.diff2.catalogue import Diff2, diff2_gd, diff2_gd_program
from mechanisms.papers.diff2.noise import Noise, diff2_noise_paper, diff2_noise_tight
from tests.support.kernels import ADD_REMOVE, REPLACE_ONE, ZERO_OUT, NoNoise, replayer, sampled

CLIENTS = (20, 20)
MU = 3**-0.5


def spec_setting(**changes: Any) -> Diff2:
    """n_p = 20, P = 2, R = 20, T = 5, u = 1.25, (3, 1e-5): mu = .57735."""
    given = {
        "rounds": 20,
        "restart_every": 5,
        "epsilon": 3,
        "delta": 1e-5,
        "calibration": "paper",
        "gradient_radius": 1.0,
        "difference_radius": 1.0,
        "step_size": 0.1,
    }
    return diff2_gd_program(Logistic(), 3, CLIENTS, **{**given, **changes})


def plain(features: int = 2, clients: tuple[int, ...] = (3, 4), **changes: Any) -> Diff2:
    """A least-squares program with huge radii and some noise."""
    given: dict[str, Any] = {
        "loss": LeastSquares(),
        "features": features,
        "client_sizes": clients,
        "rounds": 12,
        "restart_every": 3,
        "gradient_radius": 1e6,
        "difference_radius": 1e6,
        "step_size": 0.05,
        "noise": Noise(0.1, 0.2),
    }
    return Diff2(**{**given, **changes})


def regression(n: int = 7, features: int = 2, seed: int = 0) -> Records:
    return Records(np.random.default_rng(seed).uniform(-1, 1, size=(n, features + 1)))


# --- the declaration -----------------------------------------------------------------------------


def test_mu_is_symbolic_where_the_noise_is() -> None:
    """mu = 2 / (n_min P) sqrt(N1 / sigma_1^2 + N2 / sigma_2^2); half of it under zero_out."""
    a, b = sympy.symbols("sigma_1 sigma_2", positive=True)
    program = plain(clients=(3, 4, 9), rounds=11, restart_every=4, noise=Noise(a, b))
    expected = sympy.Rational(2, 9) * sympy.sqrt(3 / a**2 + 8 / b**2)
    for scope, factor in ((REPLACE_ONE, 1), (ZERO_OUT, 2)):
        mu = account(program.declaration(scope), scope).step("gdp").value
        assert sympy.simplify(factor * mu - expected) == 0


def test_the_declaration_counts_restarts_and_names_what_is_not_private() -> None:
    program = plain(clients=(10,), rounds=7, restart_every=3, noise=Noise(1, 2))
    assert program.declaration(REPLACE_ONE) == Compose(
        Repeat(Gaussian("gradient", 5), 3), Repeat(Gaussian("difference", 10), 4)
    )
    every = replace(program, restart_every=1, non_private=("tuning",))
    assert every.declaration(ZERO_OUT) == Compose(
        NonPrivate("tuning"), Repeat(Gaussian("gradient", 10), 7)
    )
    assert replace(program, restart_every=50).restarts == 1


@pytest.mark.parametrize("restart_every", [1, 3, 5, 20, 50])
def test_a_run_uses_its_declaration_up(restart_every: int) -> None:
    program = plain(rounds=10, restart_every=restart_every)
    sampler = sampled(program, regression(), REPLACE_ONE, seed=1, trials=2)
    counts = sampler.entitlements.counts()
    assert all(low == high == total for total, low, high in counts.values())
    assert sum(total for total, *_ in counts.values()) == 10


def test_zero_out_declares_half_the_mu_of_the_same_noise() -> None:
    program = spec_setting()
    mus = [
        float(account(program.declaration(scope), scope).step("gdp").value)
        for scope in (REPLACE_ONE, ZERO_OUT)
    ]
    assert mus == pytest.approx([MU, MU / 2], rel=1e-12)


def test_noise_is_sigma_times_the_radius_under_either_adjacency() -> None:
    program = plain(rounds=3, gradient_radius=0.5, difference_radius=2.0)
    data = regression()
    for scope in (REPLACE_ONE, ZERO_OUT):
        tracer = Tracer(program.declaration(scope), scope, data)
        end = program.run(tracer).last
        assert [row[0] for row in tracer.trace] == ["gradient", "difference", "difference"]
        scales = [row[2] for row in tracer.trace]
        assert scales[0] == pytest.approx(0.1 * 0.5)
        assert scales[1] == pytest.approx(0.2 * 2.0 * np.linalg.norm(first_step(program, data)))
        assert 0 < scales[2] < 0.2 * 2.0 * np.linalg.norm(end)


@pytest.mark.parametrize(
    "scope",
    [
        ADD_REMOVE,
        Scope("replace_one", "client", "local", "transcript"),  # type: ignore[arg-type]
        Scope("replace_one", "user", "central", "transcript"),  # type: ignore[arg-type]
        Scope("replace_one", "record", "local", "transcript"),  # type: ignore[arg-type]
    ],
)
def test_a_scope_the_noise_was_not_made_for_is_refused(scope: Scope) -> None:
    with pytest.raises(InvalidParameter, match="DIFF2"):
        plain().declaration(scope)


def first_step(program: Diff2, records: Records) -> Array:
    """x_1 - x_0 without noise."""
    return program.step_size * program.gradient_query(np.zeros((1, 2))).value(records)


# --- what it computes ----------------------------------------------------------------------------


def gradient_descent(records: Records, program: Diff2) -> Array:
    """Iterates x_0 .. x_R of plain gradient descent on the mean over clients."""
    sizes = program.client_sizes
    clients = np.split(records.values, np.cumsum(sizes)[:-1])
    x = program.loss.initial(program.features, 1, 0)
    found = [x]
    for _ in range(program.rounds):
        gradients = [program.loss.gradients(x, rows)[0].mean(axis=0) for rows in clients]
        x = x - program.step_size * np.mean(gradients, axis=0)
        found.append(x)
    return np.concatenate(found)


@pytest.mark.parametrize("restart_every", [1, 3, 7])
def test_without_noise_and_clipping_it_is_gradient_descent(restart_every: int) -> None:
    program = plain(restart_every=restart_every)
    records = regression()
    iterates = gradient_descent(records, program)
    rng = np.random.default_rng(1)
    declared = program.declaration(REPLACE_ONE)
    sampler = Sampler(
        declared, REPLACE_ONE, records, rng=rng, trials=50, kernels={Gaussian: NoNoise}
    )
    trained = program.run(sampler)
    np.testing.assert_allclose(trained.last, np.tile(iterates[-1], (50, 1)), atol=1e-10)
    chosen = sampler.transcript[0].released
    assert set(chosen) <= set(range(12))
    assert len(set(chosen)) > 6
    np.testing.assert_allclose(trained.output, iterates[chosen], atol=1e-10)
    assert np.abs(iterates[-1] - iterates[0]).max() > 0.05
    traced = program.run(Tracer(declared, REPLACE_ONE, records))
    np.testing.assert_allclose(traced.last[0], iterates[-1], atol=1e-10)


def test_a_restart_every_round_is_dp_gd() -> None:
    """Written out: x <- x - eta (clipped mean + sigma_1 C1 z), z from an equal generator."""
    program = plain(restart_every=1, gradient_radius=0.3, clients=(7,))
    records = regression()
    sampler = sampled(program, records, REPLACE_ONE, seed=3, trials=4)
    released = [event.released for event in sampler.transcript[1:]]
    rng = np.random.default_rng(3)
    rng.bytes(32)  # what seeds the generator of public coins
    x = np.zeros((4, 2))
    for step in released:
        rows = LeastSquares().gradients(x, records.values)
        norms = np.linalg.norm(rows, axis=-1, keepdims=True)
        mean = (rows * np.minimum(1, 0.3 / norms)).mean(axis=1)
        noise = 0.1 * 0.3 * rng.standard_normal((4, 2))
        np.testing.assert_allclose(step, mean + noise, atol=1e-14)
        x = x - 0.05 * step


def test_the_error_of_the_estimate_is_the_accumulated_noise() -> None:
    """E||v_r - grad f(x_{r-1})||^2 = sigma_1^2 C1^2 d + sigma_2^2 d sum_block E C_r^2, within 2%.

    The deviation of the ratio is below .5% at 40,000 trials of 3 coordinates: 4 deviations or
    more, a false-alarm rate of 6e-5 a round.
    """
    program = plain(3, (3, 4), noise=Noise(0.1, 0.2), gradient_radius=20.0, difference_radius=10.0)
    records, dimension, trials = regression(features=3), 3, 40_000
    sampler = sampled(program, records, REPLACE_ONE, seed=4, trials=trials)
    releases = [event.released for event in sampler.transcript if event.label != "public coin"]
    clients = np.split(records.values, [3])
    x = previous = np.zeros((trials, dimension))
    estimate, expected = np.zeros_like(x), 0.0
    for r, released in enumerate(releases):
        if r % 3 == 0:
            estimate, expected = released, (0.1 * 20.0) ** 2 * dimension
        else:
            estimate = estimate + released
            radius = 10.0 * np.linalg.norm(x - previous, axis=1)
            expected += 0.2**2 * dimension * float(np.mean(radius**2))
        true = np.mean([program.loss.gradients(x, c).mean(axis=1) for c in clients], axis=0)
        error = np.square(estimate - true).sum(axis=1).mean()
        assert error == pytest.approx(expected, rel=0.02)
        previous, x = x, x - program.step_size * estimate


def test_records_that_are_not_finite_leave_outputs_finite() -> None:
    rows = regression().values.copy()
    rows[2], rows[5] = np.nan, [np.inf, -np.inf, 1e308]
    for loss in (LeastSquares(), Logistic()):
        program = plain(loss=loss, gradient_radius=1.0, difference_radius=1.0)
        trained = program.run(
            sampler := Sampler(
                program.declaration(REPLACE_ONE),
                REPLACE_ONE,
                Records(rows),
                rng=np.random.default_rng(5),
                trials=20,
            )
        )
        assert np.isfinite(trained.last).all()
        assert np.isfinite(trained.output).all()
        pair = (Records(rows), Records(np.where(np.arange(7)[:, None] == 2, 0.5, rows)))
        replay = replayer(program, pair, REPLACE_ONE).inspect(sampler.transcript, own=0)
        assert replay.violations == ()
        assert np.isfinite(replay.scores).all()


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_iterates_that_blow_up_stop_the_run_without_a_word_on_the_data() -> None:
    program = plain(step_size=1e200)
    with pytest.raises(InvalidParameter, match=r"release 'difference': its sensitivity is not a"):
        sampled(program, regression(), REPLACE_ONE, seed=6)


# --- the worst case ------------------------------------------------------------------------------


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("clients", [CLIENTS, (35, 20, 40)])
def test_scores_on_the_worst_case_are_normal_with_the_accounted_mu(clients: Any) -> None:
    """N(+-mu^2/2, mu^2): Kolmogorov-Smirnov at level 1e-4 on each of two sides."""
    program = diff2_gd_program(
        Logistic(),
        3,
        clients,
        rounds=20,
        restart_every=5,
        epsilon=3,
        delta=1e-5,
        calibration="paper",
        gradient_radius=1.0,
        difference_radius=1.0,
        step_size=0.1,
    )
    attacked, pair = worst_case(program), neighbours(clients).pair
    assert attacked.declaration(REPLACE_ONE) == program.declaration(REPLACE_ONE)
    for own, sign in ((0, 1), (1, -1)):
        sampler = sampled(attacked, pair[own], REPLACE_ONE, seed=7 + own, trials=10_000)
        replay = replayer(attacked, pair, REPLACE_ONE).inspect(sampler.transcript, own=own)
        assert replay.violations == ()
        assert replay.attack == "exact"
        assert stats.kstest((replay.scores - sign * MU**2 / 2) / MU, "norm").pvalue > 1e-4
        assert replay.scores.std() == pytest.approx(MU, rel=0.03)
        for residual in replay.residuals.values():
            assert residual.std() == pytest.approx(1, abs=0.01)


def test_the_worst_case_moves_every_release_by_its_sensitivity() -> None:
    clients = (5, 3)
    program = worst_case(plain(clients=clients, gradient_radius=1.0, difference_radius=2.0))
    pair = neighbours(clients)
    assert pair.adjacency is Adjacency.REPLACE_ONE
    assert np.flatnonzero(pair.first.values).tolist() == [5]
    rng = np.random.default_rng(8)
    x, previous = rng.normal(size=(2, 6, 5))
    for query in (program.gradient_query(x), program.difference_query(x, previous)):
        moved = np.linalg.norm(query.value(pair.first) - query.value(pair.second), axis=-1)
        stated = query.sensitivity(Adjacency.REPLACE_ONE, 8)
        np.testing.assert_allclose(moved, np.broadcast_to(stated, 6), rtol=1e-9)


def test_the_largest_client_moves_it_less() -> None:
    clients = (20, 60)
    attacked = worst_case(diff2_gd_program(
        WorstCase(size=5, curvature=1.0), 0, clients, rounds=4, restart_every=2, epsilon=3,
        delta=1e-5, calibration="paper", gradient_radius=1.0, difference_radius=1.0, step_size=0.1,
    ))  # fmt: skip
    rows = np.zeros((80, 1))
    rows[79] = 1.0
    pair = (Records(rows), Records(-rows))
    transcript = sampled(attacked, pair[0], REPLACE_ONE, seed=9, trials=4000).transcript
    scores = replayer(attacked, pair, REPLACE_ONE).scores(transcript)
    assert scores.std() == pytest.approx(MU / 3, rel=0.05)


# --- parameters ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rounds": 0}, "rounds"),
        ({"rounds": -3}, "rounds"),
        ({"rounds": 2.5}, "rounds"),
        ({"restart_every": 0}, "restart_every"),
        ({"restart_every": np.inf}, "restart_every"),
        ({"gradient_radius": 0.0}, "gradient_radius"),
        ({"gradient_radius": np.nan}, "gradient_radius"),
        ({"gradient_radius": np.inf}, "gradient_radius"),
        ({"difference_radius": -1.0}, "difference_radius"),
        ({"difference_radius": np.nan}, "difference_radius"),
        ({"step_size": 0.0}, "step_size"),
        ({"step_size": np.nan}, "step_size"),
        ({"client_sizes": ()}, "client_sizes"),
        ({"client_sizes": (3, 0)}, "client_sizes"),
    ],
)
def test_parameters_outside_their_domain_are_refused(changes: Any, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        plain(**changes)
    if "client_sizes" not in changes:
        with pytest.raises(InvalidParameter, match=message):
            spec_setting(**changes)


@pytest.mark.parametrize("sigma", [-1.0, np.nan, np.inf, "one", None, sympy.Symbol("s")])
def test_noise_is_a_finite_number_that_is_not_negative(sigma: Any) -> None:
    for pair in ((sigma, 1), (1, sigma)):
        with pytest.raises(InvalidParameter, match=r"Noise\.sigma_"):
            Noise(*pair)


def test_zero_noise_is_refused_by_the_declaration() -> None:
    with pytest.raises(InvalidParameter, match="noise_multiplier"):
        plain(noise=Noise(0, 1)).declaration(REPLACE_ONE)


@pytest.mark.parametrize("calibrate", [diff2_noise_paper, diff2_noise_tight])
@pytest.mark.parametrize(
    ("epsilon", "delta", "u"),
    [
        (0, 1e-5, 2),
        (-1, 1e-5, 2),
        (np.nan, 1e-5, 2),
        (np.inf, 1e-5, 2),
        (3, 0, 2),
        (3, 1, 2),
        (3, np.nan, 2),
        (3, 1e-5, 1),
        (3, 1e-5, 0.5),
        (3, 1e-5, np.nan),
        (sympy.Symbol("e", positive=True), 1e-5, 2),
    ],
)
def test_a_budget_outside_its_domain_is_refused(
    calibrate: Any, epsilon: Any, delta: Any, u: Any
) -> None:
    with pytest.raises(InvalidParameter):
        calibrate(epsilon, delta, 100, 2, 8, u)


def test_an_unknown_calibration_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="calibration"):
        spec_setting(calibration="loose")


def test_records_that_do_not_fit_the_clients_are_refused_before_they_are_touched() -> None:
    program = plain(clients=(3, 4))
    with pytest.raises(InvalidParameter, match="weights"):
        sampled(program, regression(8), REPLACE_ONE, seed=1)
    with pytest.raises(InvalidParameter, match="parameters have"):
        sampled(program, regression(7, features=4), REPLACE_ONE, seed=1)


def test_the_catalogue_declares_what_it_claims() -> None:
    outcomes = [
        str(claim.check(diff2_gd.declaration, diff2_gd.scope).outcome) for claim in diff2_gd.claims
    ]
    assert outcomes == ["proved", "proved"]
