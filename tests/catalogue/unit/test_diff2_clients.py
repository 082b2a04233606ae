"""DIFF2 with a whole client as the unit of privacy: sensitivities, local steps, worst case."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy
from scipy import stats

from audits.diff2 import client_neighbours, suite, worst_case
from dpaudit.accountant.account import account
from dpaudit.audit.attack import attack
from dpaudit.audit.graybox import inspect_program
from dpaudit.curator.curator import Tracer
from dpaudit.errors import InvalidParameter
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Compose, Parallel, Repeat
from dpaudit.kernels.query import Records
from dpaudit.scope import Adjacency, Scope, central
from mechanisms.papers.common.losses import LeastSquares, SoftplusNetwork
from mechanisms.papers.diff2.catalogue import diff2_gd_client
from mechanisms.papers.diff2.framework import Diff2, LocalDescent
from mechanisms.papers.diff2.noise import Noise
from tests.support.kernels import NoNoise, replayer, sampled

CLIENT = Scope("replace_one", "client", "central", "transcript")  # type: ignore[arg-type]
RECORD = central("replace_one")


def program(clients: tuple[int, ...] = (4, 4, 4), **changes: Any) -> Diff2:
    given: dict[str, Any] = {
        "loss": LeastSquares(),
        "features": 2,
        "client_sizes": clients,
        "rounds": 7,
        "restart_every": 3,
        "gradient_radius": 1.0,
        "difference_radius": 2.0,
        "step_size": 0.05,
        "noise": Noise(Fraction(1, 2), Fraction(3, 2)),
    }
    return Diff2(**{**given, **changes})


def local(sigma: Any = Fraction(2), steps: int = 3, batch_size: int = 2) -> LocalDescent:
    return LocalDescent(steps, batch_size, sigma, 2.0)


def rows(clients: int = 3, size: int = 4) -> Records:
    values = np.random.default_rng(0).uniform(-1, 1, (clients, size, 3))
    return Records(values)


# --- the declaration -----------------------------------------------------------------------------


def test_mu_of_a_client_in_symbols() -> None:
    """mu = 2/P sqrt(N1/sigma_1^2 + N2/sigma_2^2): n times that of a record."""
    a, b = sympy.symbols("sigma_1 sigma_2", positive=True)
    made = program(noise=Noise(a, b))
    mu = account(made.declaration(CLIENT), CLIENT).step("gdp").value
    assert sympy.simplify(mu - sympy.Rational(2, 3) * sympy.sqrt(3 / a**2 + 4 / b**2)) == 0
    own = account(made.declaration(RECORD), RECORD).step("gdp").value
    assert sympy.simplify(mu / own) == 4
    zeroed = CLIENT.under("zero_out")
    half = account(made.declaration(zeroed), zeroed).step("gdp").value
    assert sympy.simplify(mu / half) == 2


def test_local_steps_are_not_amplified() -> None:
    """mu = 2/sigma_3 a step, (K - 1) c_p of them: the batch may be all of another client's."""
    declared = program(routine=local()).declaration(CLIENT)
    assert declared.children[-1] == Parallel(
        *(Repeat(Gaussian(f"local {p}", 1), 2 * c) for p, c in ((0, 2), (1, 3), (2, 2)))
    )
    mu = account(declared, CLIENT).step("gdp").value
    server = Fraction(4, 9) * (3 * 4 + 4 * Fraction(4, 9))
    assert float(mu) ** 2 == pytest.approx(float(server + 6 * Fraction(4, 4)), rel=1e-12)
    made = program(routine=local())
    own = [account(made.client_declaration(CLIENT, p), CLIENT).step("gdp").value for p in range(3)]
    assert max(map(float, own)) == pytest.approx(float(mu))
    assert float(own[0]) < float(own[1])


@pytest.mark.parametrize(
    "change", [{"unit": "user"}, {"trust": "local"}, {"adjacency": "add_remove"}]
)
def test_other_scopes_are_refused(change: dict[str, str]) -> None:
    given = {"adjacency": "replace_one", "unit": "client", "trust": "central"}
    scope = Scope(**{**given, **change}, released="transcript")  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="DIFF2"):
        program().declaration(scope)


# --- runs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [4, 8])
def test_noise_is_sigma_times_the_radius_whatever_the_unit(size: int) -> None:
    """What is drawn is the same; only what it guarantees differs.  12 kinds of records, and 24."""
    made = program((size,) * 3)
    values = rows(size=size)
    by_client = Tracer(made.declaration(CLIENT), CLIENT, values)
    by_record = Tracer(made.declaration(RECORD), RECORD, Records(values.values.reshape(-1, 3)))
    ends = [made.run(curator).last for curator in (by_client, by_record)]
    np.testing.assert_allclose(*ends, atol=1e-14)
    for one, other in zip(by_client.trace, by_record.trace, strict=True):
        assert (one[0], one[2]) == (other[0], pytest.approx(other[2], rel=1e-12))
        assert one[1] == pytest.approx(size * other[1], rel=1e-12)


@pytest.mark.parametrize("made", [program(), program(routine=local())])
def test_a_run_uses_its_declaration_up(made: Diff2) -> None:
    counts = sampled(made, rows(), CLIENT, seed=1, trials=3).entitlements.counts()
    assert all(low == high == total for total, low, high in counts.values())


def test_a_local_step_takes_the_mean_over_a_public_batch() -> None:
    """Full batches, no noise: the same iterates as with records as units."""
    made = program(routine=local(batch_size=4), gradient_radius=1e6, difference_radius=1e6)
    made = replace(made, routine=replace(made.routine, radius=1e6))
    quiet = {Gaussian: NoNoise}
    values = rows()
    first = sampled(made, values, CLIENT, seed=1, trials=2, kernels=quiet)
    second = sampled(made, Records(values.values.reshape(12, 3)), RECORD, seed=2, kernels=quiet)
    ends = [[e.released for e in s.transcript if e.label != "public coin"] for s in (first, second)]
    for one, other in zip(*ends, strict=True):
        np.testing.assert_allclose(one, np.tile(other, (2, 1)), atol=1e-13)
    batches = [e.released for e in first.transcript if e.released.shape == (2, 4)]
    assert len(batches) == 14
    assert all(sorted(row) == [0, 1, 2, 3] for batch in batches for row in batch)


def test_clients_that_do_not_fit_are_refused_before_they_are_touched() -> None:
    with pytest.raises(InvalidParameter, match="clients of one size"):
        sampled(program((4, 5, 4)), rows(), CLIENT, seed=1)
    with pytest.raises(InvalidParameter, match="a row is one client"):
        sampled(program(), rows(size=5), CLIENT, seed=1)
    with pytest.raises(InvalidParameter, match="a row is one client"):
        sampled(program(), Records(np.zeros((3, 3))), CLIENT, seed=1)
    with pytest.raises(InvalidParameter, match="weights"):
        sampled(program(), rows(clients=2), CLIENT, seed=1)


def test_a_client_of_records_that_are_not_finite_leaves_outputs_finite() -> None:
    values = rows().values.copy()
    values[1] = np.nan
    values[2, 0] = [np.inf, -1e308, 1e308]
    for loss in (LeastSquares(), SoftplusNetwork(hidden=2)):
        made = program(loss=loss, routine=local())
        end = made.run(Tracer(made.declaration(CLIENT), CLIENT, Records(values)))
        assert np.isfinite(end.last).all()


# --- the worst case ------------------------------------------------------------------------------


@pytest.mark.first_case
@pytest.mark.parametrize("routine", [Diff2.routine, local(sigma=Fraction(9))], ids=["gd", "local"])
def test_scores_of_an_opposite_client_are_normal_with_the_accounted_mu(routine: Any) -> None:
    """N(+-mu^2/2, mu^2) of client 0: Kolmogorov-Smirnov at level 1e-4 on each of two sides."""
    made = worst_case(program(noise=Noise(5, 9), routine=routine))
    if isinstance(routine, LocalDescent):
        made = replace(made, difference_radius=2.0)
    mu = float(account(made.client_declaration(CLIENT, 0), CLIENT).step("gdp").value)
    pair = client_neighbours(made.client_sizes).pair
    for own, sign in ((0, 1), (1, -1)):
        sampler = sampled(made, pair[own], CLIENT, seed=5 + own, trials=5_000)
        replay = replayer(made, pair, CLIENT).inspect(sampler.transcript, own=own)
        assert (replay.attack, replay.violations) == ("exact", ())
        assert stats.kstest((replay.scores - sign * mu**2 / 2) / mu, "norm").pvalue > 1e-4


def test_the_pair_is_one_client_and_moves_every_release_by_its_sensitivity() -> None:
    pair = client_neighbours((4, 4))
    assert pair.adjacency is Adjacency.REPLACE_ONE
    assert np.flatnonzero(pair.first.values[:, :, 0].any(axis=1)).tolist() == [0]


def test_hostile_clients_break_nothing() -> None:
    """Rows that are huge, opposite or not finite: gray-box checks at a false-alarm rate of 1e-5."""
    small = program((4, 4, 4), routine=local())
    mechanism = replace(diff2_gd_client, program=small)
    audit = replace(
        suite(diff2_gd_client), program=worst_case(small), neighbours=client_neighbours((4, 4, 4))
    )
    found = inspect_program(mechanism, audit, seed=3, error=1e-5)
    assert found.broken == ()
    assert len(found.probes) >= 4


@pytest.mark.quality
def test_the_catalogue_s_audit_stays_below_its_account() -> None:
    """500 trials a side; the mean score is mu^2/2 = 1/6 up to 5 standard errors (1e-6)."""
    attacked = attack(diff2_gd_client, suite(diff2_gd_client), seed=5, trials=500, error=1e-4)
    assert attacked.attack == "exact"
    assert {finding.status for finding in attacked.findings} <= {"held", "not_run"}
    assert attacked.test is not None
    gap = np.mean(attacked.test.alternative) - np.mean(attacked.test.null)
    assert gap == pytest.approx(1 / 3, abs=5 * 0.5774 * (2 / 500) ** 0.5)
    outcomes = [
        str(c.check(diff2_gd_client.declaration, diff2_gd_client.scope).outcome)
        for c in diff2_gd_client.claims
    ]
    assert outcomes == ["proved", "proved"]
    assert diff2_gd_client.declaration == Compose(
        Repeat(Gaussian("gradient", diff2_gd_client.program.noise.sigma_1 * 500), 10),
        Repeat(Gaussian("difference", diff2_gd_client.program.noise.sigma_2 * 500), 90),
    )
