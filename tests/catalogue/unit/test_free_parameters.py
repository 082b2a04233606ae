"""Free parameters of the catalogue: each changes of privacy what it says it does, and no more."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dpaudit.accountant.claim import Outcome
from dpaudit.curator.mechanism import Mechanism
from dpaudit.curator.parameters import Cost, Parameter, parameters, read_values
from dpaudit.errors import InvalidParameter
from dpaudit.project.project import load
from dpaudit.scope import Adjacency
from mechanisms.papers.diff2 import baselines as diff2_baselines
from mechanisms.papers.diff2 import catalogue as diff2
from mechanisms.papers.kl import adaptive_catalogue as kl_adaptive
from mechanisms.papers.kl import baselines_catalogue as kl_baselines
from mechanisms.papers.kl import catalogue as kl
from mechanisms.papers.srgd import baselines_catalogue as baselines
from mechanisms.papers.srgd import batches_catalogue as batches
from mechanisms.papers.srgd import catalogue as srgd
from mechanisms.papers.stable_erm import baselines_catalogue as stable_baselines
from mechanisms.papers.stable_erm import catalogue as stable
from mechanisms.papers.user_level import baselines_catalogue as user_baselines
from mechanisms.papers.user_level import catalogue as user_level
from mechanisms.papers.user_level import options_catalogue as user_options

ROOT = Path(__file__).parents[3]
MECHANISMS: tuple[tuple[Mechanism, tuple[int, ...]], ...] = tuple(
    (mechanism, (200, 6))
    for mechanism in (
        diff2.diff2_gd, diff2.diff2_gd_tight, diff2.dp_gd, diff2.dp_gd_tight,
        diff2.diff2_gd_network, srgd.accelerated_dp_srgd,
        srgd.accelerated_dp_srgd_sqrt_toeplitz, srgd.dp_srgd,
        baselines.accelerated_dp_sgd, baselines.dp_sgd_one_pass, baselines.dp_sgd_poisson,
        baselines.dp_ftrl, baselines.dp_online_to_batch, baselines.phased_sgd,
        baselines.phased_erm, baselines.localized_accelerated_dp_sgd,
        batches.phased_erm_in_batches, baselines.dp_gd_projected,
        baselines.dp_sgd_one_pass_replace_one, diff2_baselines.srn_sgd,
        kl.kl_spider, kl.regularized_noisy_gd, kl.proximal_point_method,
        kl_adaptive.adaptive_noisy_gd, kl_adaptive.adaptive_noisy_gd_filter,
        kl_adaptive.adaptive_noisy_gd_proof, kl_adaptive.select_noisy_argmin,
        kl_baselines.noisy_gd_pl, kl_baselines.noisy_gd_stationary, kl_baselines.convex_noisy_gd,
        kl_baselines.private_spider, kl_baselines.epoch_localized_erm,
    )
) + tuple(
    (mechanism, (3_000, 3, 5))
    for mechanism in (
        user_level.user_level_accelerated_sgd, user_level.user_level_phased_erm,
        user_level.user_level_phased_sgd, user_options.user_level_phased_sgd_public_order,
        user_baselines.user_level_phased_sgd_baseline,
        user_baselines.user_level_dp_sgd_one_pass, user_baselines.user_level_dp_gd_full_batch,
        stable.ladder_stable_output_perturbation,
        stable_baselines.output_perturbation_user,
    )
) + (
    (diff2.diff2_gd_client, (300, 4, 6)),
    # Its second phase has one user of four, and needs 1166 of them at epsilon = 2.
    (user_baselines.full_batch_outlier_removed_dpsgd, (5_000, 3, 5)),
) + tuple(
    # The noise of local steps is proved for many records alone.
    (mechanism, (20_000, 6))
    for mechanism in (diff2.diff2_bvr_local_sgd, diff2.diff2_bvr_local_sgd_tight)
) + ((diff2_baselines.dp_sgd, (200, 6)), (diff2_baselines.dp_srm, (200, 6)))  # fmt: skip
# Accounts of secret batches at other settings take seconds each.
LONG = {"diff2_bvr_local_sgd_tight", "dp_sgd", "dp_srm"}
WHOLE = [
    pytest.param(
        mechanism, shape, id=mechanism.name, marks=[pytest.mark.quality] * (mechanism.name in LONG)
    )
    for mechanism, shape in MECHANISMS
]
# Another value of each parameter, by its name.
OTHER = {
    "epsilon": "2", "delta": "1e-7", "rounds": "12", "beta": "9", "clip": "1.5", "radius": "2.5",
    "restart_every": "4", "share": "1.5", "clients": "7", "difference_clip": "1.75",
    "step_size": "0.1", "hidden": "3", "expected_records": "300", "rate": "0.1", "phases": "1",
    "ridge": "0.1", "passes": "3", "blocks": "40", "rho": "1", "kappa": "1.25", "gamma": "2",
    "contraction": "3", "floor": "2", "smoothness": "3", "pull": "0.001", "calls": "3",
    "step_length": "0.1", "epochs": "2", "batch_rows": "3", "momentum": "0.5",
    "local_steps": "4", "step_factor": "2", "tau_factor": "0.5", "tau": "0.7", "step": "0.25",
}  # fmt: skip

# Equal blocks need the same noise; so do calls beyond a cap.
SAME: set[object] = {
    "clients",
    ("proximal_point_method", "clip"),
    # Disjoint batches cost one release's noise, and a phase's own rounds may be fewer than most.
    ("user_level_dp_sgd_one_pass", "rounds"),
    # A release is declared in its own units, which a ridge makes smaller.
    ("ladder_stable_output_perturbation", "ridge"),
    ("output_perturbation_user", "ridge"),
}


def made_for(mechanism: Mechanism, shape: tuple[int, ...], **values: Any) -> Mechanism:
    assert mechanism.for_shape is not None
    count, *row = shape
    hidden = mechanism.scope.adjacency is Adjacency.ADD_REMOVE
    return mechanism.for_shape(None if hidden else count, tuple(row), **values)


def cases() -> Iterator[Any]:
    for mechanism, shape in MECHANISMS:
        for parameter in parameters(mechanism.for_shape):
            name = f"{mechanism.name}-{parameter.name}"
            marks = [pytest.mark.quality] * (mechanism.name in LONG)
            yield pytest.param(mechanism, shape, parameter, id=name, marks=marks)


@pytest.mark.long_cases("localized_accelerated_dp_sgd-ridge", "diff2_bvr_local_sgd-local_steps")
@pytest.mark.first_case("parameter", by=lambda parameter: parameter.name)
@pytest.mark.parametrize(("mechanism", "shape", "parameter"), list(cases()))
def test_a_parameter_costs_what_it_states(
    mechanism: Mechanism, shape: tuple[int, ...], parameter: Parameter
) -> None:
    """Claims move with CLAIM alone, the declaration also with NOISE; claims are proved."""
    texts = [f"{parameter.name}={OTHER[parameter.name]}"]
    # Some claims are of rho where no epsilon is given.
    beside = ["epsilon=1"] * (parameter.name == "delta" and parameter.default is None)
    before = read_values(mechanism.name, mechanism.for_shape, beside)
    after = read_values(mechanism.name, mechanism.for_shape, [*beside, *texts])
    _compared(
        parameter,
        mechanism,
        made_for(mechanism, shape, **before),
        made_for(mechanism, shape, **after),
    )


def _compared(
    parameter: Parameter, mechanism: Mechanism, before: Mechanism, after: Mechanism
) -> None:
    assert repr(before.program) != repr(after.program)
    claims = [claim.text for claim in before.claims] == [claim.text for claim in after.claims]
    declared = before.declaration.digest == after.declaration.digest
    assert claims is (parameter.free.cost is not Cost.CLAIM)
    if parameter.free.cost in (Cost.SCALE, Cost.NOTHING):
        assert declared
    else:
        assert (
            not declared or (mechanism.name, parameter.name) in SAME or parameter.name == "clients"
        )
    for claim in after.claims:
        assert claim.check(after.declaration, after.scope).outcome is Outcome.PROVED


@pytest.mark.first_case
@pytest.mark.parametrize(("mechanism", "shape"), WHOLE)
def test_the_defaults_are_the_shipped_program(mechanism: Mechanism, shape: tuple[int, ...]) -> None:
    made = made_for(mechanism, shape)
    assert [claim.text for claim in made.claims] == [claim.text for claim in mechanism.claims]
    assert [claim.by for claim in made.claims] == [claim.by for claim in mechanism.claims]


@pytest.mark.first_case
@pytest.mark.parametrize(("mechanism", "shape"), WHOLE)
def test_a_visible_number_of_rows_is_an_invariant(
    mechanism: Mechanism, shape: tuple[int, ...]
) -> None:
    hidden = mechanism.scope.adjacency is Adjacency.ADD_REMOVE
    assert bool(made_for(mechanism, shape).setting.invariants) is not hidden


def test_every_mechanism_with_free_parameters_is_tried() -> None:
    """All of the catalogue that take another shape; a new one is added above."""
    there = {name for name, one in load(ROOT).mechanisms.items() if one.for_shape is not None}
    assert {mechanism.name for mechanism, _ in MECHANISMS} == there


def test_more_clients_than_rows_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="a client would have none"):
        made_for(diff2.diff2_gd, (5, 6), clients=6)
    with pytest.raises(InvalidParameter, match="a batch would be empty"):
        made_for(srgd.dp_srgd, (5, 6), rounds=6)


def test_a_delta_without_an_epsilon_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="give epsilon too"):
        made_for(kl.kl_spider, (200, 6), delta=Fraction(1, 10**6))
