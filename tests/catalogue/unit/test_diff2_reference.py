"""Identities between DIFF2 without noise and the non-private references, and other routines."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from dpaudit.accountant.account import account
from dpaudit.curator.curator import Curator, Sampler
from dpaudit.errors import InvalidParameter, Undeclared
from dpaudit.exact import is_infinite
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Compose
from dpaudit.kernels.query import Array, Records
from dpaudit.nodes import Node
from dpaudit.scope import Scope, central
from mechanisms.papers.common.losses import LeastSquares, Logistic, SoftplusNetwork
from mechanisms.papers.diff2.framework import (
    Diff2,
    GradientDescent,
    HeavyBall,
    LocalDescent,
    NormalizedDescent,
)
from mechanisms.papers.diff2.noise import Noise
from mechanisms.papers.diff2.reference import NOT_PRIVATE, bvr_local_sgd, gradient_descent
from tests.support.kernels import NoNoise

SCOPE = central("replace_one")
SIZES = (5, 8, 3)


def program(**changes: Any) -> Diff2:
    given: dict[str, Any] = {
        "loss": LeastSquares(),
        "features": 2,
        "client_sizes": SIZES,
        "rounds": 12,
        "restart_every": 3,
        "gradient_radius": 1e9,
        "difference_radius": 1e9,
        "step_size": 0.05,
        "noise": Noise(0.1, 0.2),
    }
    return Diff2(**{**given, **changes})


def data() -> Array:
    rows = np.random.default_rng(0).uniform(-1, 1, (16, 3))
    rows[:, 2] = rows[:, 2] > 0
    return rows


def sampler(made: Diff2, *, seed: int = 0, quiet: bool = True, trials: int = 1) -> Sampler:
    kernels: Any = {Gaussian: NoNoise} if quiet else None
    return Sampler(
        made.declaration(SCOPE),
        SCOPE,
        Records(data()),
        rng=np.random.default_rng(seed),
        trials=trials,
        kernels=kernels,
    )


def path(made: Diff2, **options: Any) -> Array:
    return np.array([after[0] for _, after in made.iterates(sampler(made, **options))])


# --- identities ----------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [LeastSquares(), Logistic(), SoftplusNetwork(hidden=3)])
@pytest.mark.parametrize("restart_every", [1, 2, 3, 5, 12, 40])
def test_without_noise_diff2_gd_is_gradient_descent(loss: Any, restart_every: int) -> None:
    """To 1e-10 for every T: differences telescope."""
    made = program(loss=loss, restart_every=restart_every)
    expected = gradient_descent(loss, data(), SIZES, 12, 0.05)
    np.testing.assert_allclose(path(made), expected[1:], atol=1e-10)
    assert np.abs(expected[-1] - expected[0]).max() > 0.01


def test_a_restart_every_round_is_dp_gd_bit_for_bit() -> None:
    """x <- x - eta (clipped mean + noise), written out on the same curator's stream."""
    made = program(restart_every=1, gradient_radius=0.3)
    found = path(made, quiet=False)
    curator = sampler(made, quiet=False)
    x = np.zeros((1, 2))
    for row in found:
        x = x - 0.05 * curator.release("gradient", made.gradient_query(x))
        assert (x[0] == row).all()
    other = replace(made, difference_radius=0.1, noise=replace(made.noise, sigma_2=7))
    assert (path(other, quiet=False) == found).all()


def test_one_local_step_is_gradient_descent_bit_for_bit() -> None:
    made = program(routine=LocalDescent(1, 2, 1, 1e9))
    plain = program(routine=GradientDescent())
    assert (path(made, quiet=False) == path(plain, quiet=False)).all()
    assert made.declaration(SCOPE) == plain.declaration(SCOPE)


@pytest.mark.parametrize(("steps", "batch_size"), [(2, 1), (4, 2), (5, 3)])
def test_without_noise_and_period_one_the_local_variant_is_bvr_l_sgd(
    steps: int, batch_size: int
) -> None:
    """The same batches: the curator's stream after the 32 bytes that seed its public coins."""
    made = program(restart_every=1, routine=LocalDescent(steps, batch_size, 1, 1e9))
    rng = np.random.default_rng(3)
    rng.bytes(32)
    expected = bvr_local_sgd(
        LeastSquares(), data(), SIZES, 12, 0.05, steps=steps, batch_size=batch_size, rng=rng
    )
    np.testing.assert_allclose(path(made, seed=3), expected[1:], atol=1e-12)
    plain = gradient_descent(LeastSquares(), data(), SIZES, 12, 0.05)
    assert np.abs(expected - plain).max() > 1e-3


def test_bvr_l_sgd_with_full_batches_of_one_client_is_gradient_descent() -> None:
    rng = np.random.default_rng(0)
    found = bvr_local_sgd(LeastSquares(), data(), (16,), 3, 0.05, steps=4, batch_size=16, rng=rng)
    plain = gradient_descent(LeastSquares(), data(), (16,), 12, 0.05)
    np.testing.assert_allclose(found, plain[::4], atol=1e-12)


def test_references_have_no_guarantee() -> None:
    assert is_infinite(account(NOT_PRIVATE, SCOPE).step("gdp").value)
    with_it = Compose(NOT_PRIVATE, Gaussian("a", 1))
    assert is_infinite(account(with_it, SCOPE).step("gdp").value)


@pytest.mark.parametrize(
    "change",
    [
        {"rounds": 0}, {"rounds": 2.5}, {"rounds": True}, {"step_size": 0.0},
        {"step_size": float("nan")}, {"step_size": float("inf")}, {"client_sizes": (5, 8)},
        {"client_sizes": ()}, {"client_sizes": (16, 0)},
    ],
)  # fmt: skip
def test_bad_input_is_refused(change: dict[str, Any]) -> None:
    given = {"client_sizes": SIZES, "rounds": 2, "step_size": 0.1, **change}
    with pytest.raises(InvalidParameter):
        gradient_descent(LeastSquares(), data(), **given)
    rng = np.random.default_rng(0)
    with pytest.raises(InvalidParameter):
        bvr_local_sgd(LeastSquares(), data(), **given, steps=2, batch_size=2, rng=rng)


@pytest.mark.parametrize("change", [{"steps": 0}, {"batch_size": 0}, {"batch_size": 4}])
def test_bad_local_input_is_refused(change: dict[str, int]) -> None:
    given = {"steps": 2, "batch_size": 2, **change}
    with pytest.raises(InvalidParameter):
        bvr_local_sgd(LeastSquares(), data(), SIZES, 2, 0.1, rng=np.random.default_rng(0), **given)


# --- other routines ------------------------------------------------------------------------------


def test_any_post_processing_has_the_guarantee_of_gradient_descent() -> None:
    made = program(routine=NormalizedDescent())
    assert made.declaration(SCOPE) == program().declaration(SCOPE)
    steps = np.diff(np.vstack([np.zeros((1, 2)), path(made, quiet=False)]), axis=0)
    np.testing.assert_allclose(np.linalg.norm(steps, axis=1), 0.05, rtol=1e-12)


@dataclass(frozen=True)
class Reading(GradientDescent):
    """Reads the data without a declaration."""

    def step(
        self,
        curator: Curator,
        program: Diff2,
        x: Array,
        previous: Array,
        estimate: Array,
        turn: int,
    ) -> tuple[Array, Array]:
        more = curator.release("local", program.gradient_query(x))
        return x - more, x


@dataclass(frozen=True)
class Declaring(Reading):
    """The same, declared."""

    def declaration(self, program: Diff2, scope: Scope) -> list[Node]:
        return [Gaussian("local", 1)] * program.rounds


def test_a_routine_that_reads_data_must_declare_it() -> None:
    with pytest.raises(Undeclared, match="'local' was not declared"):
        path(program(routine=Reading()))
    made = program(routine=Declaring())
    assert len(path(made)) == 12
    assert made.declaration(SCOPE) != program().declaration(SCOPE)


def test_momentum_carries_the_last_step_and_costs_nothing() -> None:
    made = program(routine=HeavyBall(0.5))
    assert made.declaration(SCOPE) == program().declaration(SCOPE)
    x, previous, estimate = np.ones((1, 2)), np.zeros((1, 2)), np.array([[2.0, -1.0]])
    after, visited = HeavyBall(0.5).step(None, made, x, previous, estimate, 3)  # type: ignore[arg-type]
    np.testing.assert_allclose(after, 1.5 - made.step_size * estimate)
    assert visited is x
    plain, without = path(program()), path(replace(made, routine=HeavyBall(0.0)))
    np.testing.assert_array_equal(np.stack(plain), np.stack(without))
    assert not np.allclose(np.stack(path(made)), np.stack(plain))
    with pytest.raises(InvalidParameter, match="momentum"):
        HeavyBall(1.0)
