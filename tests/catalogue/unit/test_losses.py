"""Losses: values and gradients against 40-digit arithmetic, finite differences and plain loops."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import mpmath
import numpy as np
import pytest

from dpaudit.errors import InvalidParameter
from mechanisms.papers.common import losses as losses_module
from mechanisms.papers.common.losses import (
    Array,
    LeastSquares,
    Logistic,
    Loss,
    SoftplusNetwork,
    WorstCase,
    mean_value,
    squared_gradient_norm,
)

FEATURES = 3
LOSSES: dict[str, Loss] = {
    "logistic": Logistic(),
    "ridge": Logistic(l2=0.3),
    "least_squares": LeastSquares(),
    "network": SoftplusNetwork(hidden=4),
    "worst_case": WorstCase(size=5, curvature=0.7, slope=50.0),
}
every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())


def features_of(loss: Loss) -> int:
    return 0 if isinstance(loss, WorstCase) else FEATURES


def sample(loss: Loss, trials: int = 3, n: int = 6, seed: int = 1) -> tuple[Array, Array]:
    """Parameters (trials, d) and records (n, k) with targets that suit every loss."""
    rng = np.random.default_rng(seed)
    k = features_of(loss)
    targets = np.array([1.0, 0.0, -1.0])[np.arange(n) % (3 if k == 0 else 2)]
    parameters = rng.normal(size=(trials, loss.dimension(k)))
    return parameters, np.column_stack([rng.uniform(-2, 2, (n, k)), targets])


def precise_value(loss: Loss, theta: list[Any], record: list[float]) -> Any:
    """The loss in 40 digits, written from its definition."""
    x, target = [mpmath.mpf(v) for v in record[:-1]], mpmath.mpf(record[-1])
    if isinstance(loss, Logistic):
        score = mpmath.fdot(x, theta) * (2 * target - 1)
        ridge = mpmath.mpf(loss.l2) / 2 * mpmath.fsum(t * t for t in theta)
        return mpmath.log(1 + mpmath.exp(-score)) + ridge
    if isinstance(loss, LeastSquares):
        return (mpmath.fdot(x, theta) - target) ** 2
    if isinstance(loss, WorstCase):
        square = mpmath.fsum(t * t for t in theta)
        return target * (loss.slope * theta[0] + mpmath.mpf(loss.curvature) / 2 * square)
    assert isinstance(loss, SoftplusNetwork)
    units, k = loss.hidden, len(x)
    prediction = theta[-1]
    for j in range(units):
        score = mpmath.fdot(theta[j * k : (j + 1) * k], x) + theta[units * k + j]
        prediction += theta[units * (k + 1) + j] * mpmath.log(1 + mpmath.exp(score))
    return (prediction - target) ** 2


def precise_gradient(loss: Loss, theta: Array, record: Array) -> list[float]:
    """Derivatives of the definition at 40 digits; no formula is shared with the code."""

    def along(i: int) -> float:
        point = [mpmath.mpf(float(t)) for t in theta]

        def value(t: Any) -> Any:
            return precise_value(loss, [*point[:i], t, *point[i + 1 :]], record.tolist())

        return float(mpmath.diff(value, point[i]))

    with mpmath.workdps(40):
        return [along(i) for i in range(theta.size)]


@every_loss
@pytest.mark.parametrize("scale", [1.0, 20.0])
def test_values_and_gradients_equal_forty_digit_arithmetic(loss: Loss, scale: float) -> None:
    parameters, records = sample(loss, trials=2, n=3)
    parameters *= scale
    values, gradients = loss.values(parameters, records), loss.gradients(parameters, records)
    for t, i in np.ndindex(2, 3):
        with mpmath.workdps(40):
            point = [mpmath.mpf(float(v)) for v in parameters[t]]
            expected = float(precise_value(loss, point, records[i].tolist()))
        assert values[t, i] == pytest.approx(expected, rel=1e-12, abs=1e-300)
        row = precise_gradient(loss, parameters[t], records[i])
        np.testing.assert_allclose(gradients[t, i], row, rtol=1e-12, atol=1e-13 * np.abs(row).max())


@every_loss
def test_gradients_equal_central_differences(loss: Loss) -> None:
    parameters, records = sample(loss)
    gradients, step = loss.gradients(parameters, records), 1e-5
    for i in range(parameters.shape[1]):
        shift = step * (np.arange(parameters.shape[1]) == i)
        rise = loss.values(parameters + shift, records) - loss.values(parameters - shift, records)
        np.testing.assert_allclose(gradients[:, :, i], rise / (2 * step), rtol=1e-6, atol=1e-6)


@every_loss
def test_trials_are_a_loop_over_trials(loss: Loss) -> None:
    parameters, records = sample(loss, trials=4)
    for function in (loss.values, loss.gradients):
        together = function(parameters, records)
        alone = [function(row[None], records)[0] for row in parameters]
        np.testing.assert_allclose(together, alone, rtol=1e-13, atol=1e-14)


@every_loss
def test_every_trial_may_have_a_batch_of_its_own(loss: Loss) -> None:
    parameters, records = sample(loss, trials=3)
    batches = np.stack([records, records[::-1], 0.5 * records])
    for function in (loss.values, loss.gradients):
        together = function(parameters, batches)
        alone = [
            function(row[None], batch)[0] for row, batch in zip(parameters, batches, strict=True)
        ]
        np.testing.assert_allclose(together, alone, rtol=1e-13, atol=1e-14)


@every_loss
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_record_that_is_not_finite_spoils_its_own_row_only(loss: Loss, bad: float) -> None:
    parameters, records = sample(loss, trials=3, n=7)
    clean = loss.gradients(parameters, records)
    for column in range(records.shape[1]):
        spoiled = records.copy()
        spoiled[2, column] = bad
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            gradients = loss.gradients(parameters, spoiled)
            loss.values(parameters, spoiled)
        assert not np.isfinite(gradients[:, 2]).all(axis=-1).any()
        np.testing.assert_array_equal(np.delete(gradients, 2, 1), np.delete(clean, 2, 1))


@every_loss
def test_a_trial_that_is_off_holds_nan_and_touches_no_other_trial(loss: Loss) -> None:
    parameters, records = sample(loss, trials=3)
    clean = loss.gradients(parameters, records)
    parameters[1] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gradients = loss.gradients(parameters, records)
    np.testing.assert_array_equal(gradients[[0, 2]], clean[[0, 2]])


@every_loss
def test_huge_finite_records_stay_finite_and_silent(loss: Loss) -> None:
    parameters, records = sample(loss)
    huge = records.copy()
    huge[:, :-1] *= 1e100
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(loss.gradients(parameters, huge)).all()
        assert np.isfinite(loss.values(parameters, huge)).all()
        loss.gradients(parameters, huge * 1e200)
        loss.values(1e200 * parameters, huge)


def test_a_well_fitted_logistic_record_keeps_its_digits() -> None:
    """At margin 700 the gradient is -exp(-700), which sigmoid minus target rounds to zero."""
    gradient = Logistic().gradients([[700.0]], [[1.0, 1.0]])
    assert gradient[0, 0, 0] == pytest.approx(-np.exp(-700.0), rel=1e-12)


def test_the_worst_case_saturates_any_radius_and_any_difference() -> None:
    loss = WorstCase(size=4, curvature=2.5)
    points = np.random.default_rng(3).normal(size=(2, 4))
    plus, minus, bystander = loss.gradients(points, [[1.0], [-1.0], [0.0]]).swapaxes(0, 1)
    np.testing.assert_array_equal(plus, -minus)
    np.testing.assert_array_equal(bystander, 0.0)
    lower = loss.slope - loss.curvature * np.linalg.norm(points, axis=1)
    assert (np.linalg.norm(plus, axis=1) >= lower).all()
    np.testing.assert_allclose(plus[0] - plus[1], 2.5 * (points[0] - points[1]), atol=1e-12)


def test_the_network_packs_its_parameters_as_documented() -> None:
    network = SoftplusNetwork(hidden=2)
    weights, bias, outer, shift = network.unpack(np.arange(11.0)[None])
    np.testing.assert_array_equal(weights[0], [[0, 1, 2], [3, 4, 5]])
    assert (bias.tolist(), outer.tolist(), shift.tolist()) == ([[6, 7]], [[8, 9]], [10])
    assert SoftplusNetwork().dimension(9) == 111


@every_loss
def test_a_start_depends_on_the_seed_alone_and_is_equal_in_all_trials(loss: Loss) -> None:
    k = features_of(loss)
    start = loss.initial(k, 3, seed=5)
    assert start.shape == (3, loss.dimension(k))
    np.testing.assert_array_equal(start, np.repeat(loss.initial(k, 1, seed=5), 3, axis=0))
    assert start.flags.writeable


def test_the_network_start_fills_the_interval_of_its_layer() -> None:
    """Half-widths 1/sqrt(fan in), or sqrt(fan in) as printed; 300 draws reach 95% of each."""
    for network, power in (
        (SoftplusNetwork(hidden=300), -0.5),
        (SoftplusNetwork(hidden=300, start="sqrt_fan_in"), 0.5),
    ):
        weights, bias, outer, shift = network.unpack(network.initial(4, 1, seed=2))
        for layer, fan_in in ((weights, 4), (bias, 4), (outer, 300)):
            width = float(fan_in) ** power
            assert 0.95 * width < np.abs(layer).max() <= width
        assert np.abs(shift).max() <= 300.0**power
    assert not np.array_equal(network.initial(4, 1, seed=2), network.initial(4, 1, seed=3))


@every_loss
def test_convex_losses_start_at_zero(loss: Loss) -> None:
    is_zero = not loss.initial(features_of(loss), 2, seed=1).any()
    assert is_zero is not isinstance(loss, SoftplusNetwork)


@every_loss
def test_means_over_blocks_equal_means_over_all_records(
    loss: Loss, monkeypatch: pytest.MonkeyPatch
) -> None:
    parameters, records = sample(loss, trials=2, n=11)
    monkeypatch.setattr(losses_module, "LARGEST_BLOCK", 3 * parameters.size)
    norms = squared_gradient_norm(loss, parameters, records)
    mean = loss.gradients(parameters, records).mean(axis=1)
    np.testing.assert_allclose(norms, np.linalg.norm(mean, axis=1) ** 2, rtol=1e-12, atol=1e-15)
    expected = loss.values(parameters, records).mean(axis=1)
    np.testing.assert_allclose(mean_value(loss, parameters, records), expected, rtol=1e-12)


@every_loss
def test_no_record_gives_an_empty_array_but_no_mean(loss: Loss) -> None:
    parameters, records = sample(loss, trials=2)
    assert loss.gradients(parameters, records[:0]).shape == (2, 0, parameters.shape[1])
    for mean in (mean_value, squared_gradient_norm):
        with pytest.raises(InvalidParameter, match="empty"):
            mean(loss, parameters, records[:0])


@pytest.mark.parametrize(
    ("parameters", "records", "message"),
    [
        (np.zeros(3), np.zeros((2, 4)), r"shape \(3,\)"),
        (np.zeros((0, 3)), np.zeros((2, 4)), r"shape \(0, 3\)"),
        (np.zeros((1, 3)), np.zeros(4), r"shape \(4,\)"),
        (np.zeros((1, 3)), np.zeros((2, 0)), r"shape \(2, 0\)"),
        (np.zeros((1, 3)), np.zeros((2, 1)), "features is 0"),
        (np.zeros((1, 3)), np.zeros((2, 5)), "3 columns, Logistic needs 4 for 4 features"),
        (np.zeros((2, 3)), np.zeros((3, 2, 4)), "3 trials meet parameters of 2"),
        (np.zeros((1, 3)), np.zeros((2, 4), dtype=complex), "complex128"),
        (np.zeros((1, 3)), [[1.0, 2.0], [3.0]], "no rectangular array"),
        (np.broadcast_to(0.0, (2**15, 2**10)), np.zeros((2**6, 2**10 + 1)), "fewer trials"),
    ],
)
def test_wrong_shapes_and_types_are_named(parameters: Any, records: Any, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        Logistic().gradients(parameters, records)


def test_an_error_never_quotes_an_entry_of_a_record() -> None:
    with pytest.raises(InvalidParameter) as caught:
        Logistic().gradients([[1.0]], [["secret", "0"]])
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf"), "1", None, True])
def test_settings_that_are_no_sensible_number_are_refused(bad: Any) -> None:
    for make in (
        lambda: Logistic(l2=bad),
        lambda: WorstCase(size=2, curvature=bad),
        lambda: WorstCase(size=2, curvature=1.0, slope=bad),
    ):
        with pytest.raises(InvalidParameter, match=r"l2|curvature|slope"):
            make()


@pytest.mark.parametrize("bad", [0, -1, 1.5, "2", None, True, 2**40])
def test_counts_that_are_no_count_are_refused(bad: Any) -> None:
    for make in (
        lambda: SoftplusNetwork(hidden=bad),
        lambda: WorstCase(size=bad, curvature=1.0),
        lambda: Logistic().dimension(bad),
        lambda: LeastSquares().initial(3, bad, seed=0),
    ):
        with pytest.raises(InvalidParameter, match=r"whole number|at most"):
            make()


def test_other_bad_arguments_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="slope is 0"):
        WorstCase(size=2, curvature=1.0, slope=0.0)
    with pytest.raises(InvalidParameter, match="not 2 features"):
        WorstCase(size=2, curvature=1.0).dimension(2)
    with pytest.raises(InvalidParameter, match="seed"):
        SoftplusNetwork().initial(3, 1, seed=-1)
    with pytest.raises(InvalidParameter, match="fewer trials"):
        SoftplusNetwork(hidden=2**16).initial(2**10, 2**10, seed=0)
    with pytest.raises(InvalidParameter, match="'inverse_sqrt_fan_in' or 'sqrt_fan_in'"):
        SoftplusNetwork(start="xavier")  # type: ignore[arg-type]


@every_loss
def test_losses_are_values(loss: Any) -> None:
    twin = dataclasses.replace(loss)
    assert (twin, hash(twin)) == (loss, hash(loss))
    for field in dataclasses.fields(loss):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(loss, field.name, 1)
