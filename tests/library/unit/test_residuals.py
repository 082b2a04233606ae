"""Residual checks: quiet on what was declared, loud on each way noise goes wrong."""

from __future__ import annotations

import math
from typing import Any

import flint
import mpmath
import numpy as np
import pytest

from dpaudit.audit import residuals as module
from dpaudit.audit.residuals import DEFAULT_ERROR, Finding, check_residuals
from dpaudit.check.laws import log_p
from dpaudit.errors import InvalidParameter

TRIALS = 2_000
PER_LABEL = ("range", "mean", "variance", "shape", "successive", "coordinates")
JOINT = ("releases", "duplicates")


def declared(seed: int, trials: int = TRIALS) -> dict[str, Any]:
    """The noise of a run as declared: 4 gradients and 16 differences in 3 dimensions."""
    rng = np.random.default_rng(seed)
    return {
        "gradient": rng.standard_normal((trials, 4, 3)),
        "difference": rng.standard_normal((trials, 16, 3)),
    }


def stopped(rng: np.random.Generator, shape: tuple[int, int, int]) -> Any:
    """Trials that switch off after their first large release: who is on depends on the noise."""
    noise, on = rng.standard_normal(shape), np.ones(shape[0], dtype=bool)
    for use in range(shape[1]):
        noise[~on, use] = math.nan
        on &= (np.nan_to_num(noise[:, use]) ** 2).mean(axis=1) < 1.5
    return noise


def of(test: Any) -> float:
    """The logarithm of a statistic's p-value."""
    return log_p(test.law, test.statistic, test.size, test.among, test.parameter)


def by_name(findings: tuple[Finding, ...]) -> dict[str, Finding]:
    return {finding.check: finding for finding in findings}


def broken(residuals: Any, error: float = DEFAULT_ERROR) -> set[str]:
    return {f.check for f in check_residuals(residuals, error) if f.status == "broken"}


def test_declared_noise_is_held_and_every_check_is_named() -> None:
    """False-alarm rate 1e-6."""
    findings = check_residuals(declared(0))
    labels = ("gradient", "difference")
    expected = [*(f"{check} of {label}" for label in labels for check in PER_LABEL), *JOINT]
    assert [finding.check for finding in findings] == expected
    assert {finding.status for finding in findings} == {"held"}
    assert sum(finding.error_rate for finding in findings) == pytest.approx(DEFAULT_ERROR)
    assert all("\n" not in finding.detail and finding.detail for finding in findings)


@pytest.mark.quality
def test_false_alarms_stay_below_the_error() -> None:
    """400 declared runs at error 0.2, half with trials off: at most 107 alarms (nominal 80).

    The chance of more is below 1e-3 if the rate is exactly 0.2.
    """
    rng, alarms = np.random.default_rng(1), 0
    for run in range(400):
        first = rng.standard_normal((60, 5, 2)) if run % 2 else stopped(rng, (60, 5, 2))
        second = rng.standard_normal((60, 3, 5))
        alarms += bool(broken({"first": first, "second": second}, 0.2))
    assert alarms <= 107


@pytest.mark.first_case
@pytest.mark.parametrize("check", ["mean", "variance", "shape", "successive", "coordinates"])
def test_each_check_alarms_at_most_at_its_share(check: str) -> None:
    """1,000 runs with trials off, one check at p <= 0.1: at most 135 (nominal 100, chance 2e-4)."""
    rng = np.random.default_rng(2)
    test = module._LABEL_CHECKS[check]
    hits = sum(of(test(stopped(rng, (40, 6, 3)))) <= math.log(0.1) for _ in range(1_000))
    assert hits <= 135


@pytest.mark.parametrize("check", ["mean", "variance"])
def test_bands_are_exact_when_all_are_on(check: str) -> None:
    """2,000 runs at p <= 0.1, half of it for the other way: 62 to 142 (nominal 100; 1e-4)."""
    rng = np.random.default_rng(3)
    test = module._LABEL_CHECKS[check]
    hits = sum(of(test(rng.standard_normal((10, 3, 2)))) <= math.log(0.1) for _ in range(2_000))
    assert 62 <= hits <= 142


# Power.


@pytest.mark.quality
def test_a_scale_wrong_by_half_a_percent_is_seen() -> None:
    """20,000 x 20 x 3 residuals: the variance is 1% off, 7.7 standard errors."""
    residuals = declared(4, 20_000)
    for factor in (1.005, 1 / 1.005):
        found = broken({label: array * factor for label, array in residuals.items()}, 1e-4)
        assert "variance of difference" in found
        assert found <= {"variance of difference", "variance of gradient"}


def test_a_scale_wrong_by_a_fifth_is_seen_in_few_trials() -> None:
    residuals = declared(5, 100)
    residuals["difference"] /= 1.2
    assert "variance of difference" in broken(residuals)


def test_noise_reused_in_a_block_is_seen() -> None:
    residuals = declared(6)
    for start in range(0, 16, 4):
        residuals["difference"][:, start + 1 : start + 4] = residuals["difference"][:, [start]]
    findings = by_name(check_residuals(residuals))
    assert findings["releases"].status == "broken"
    assert findings["releases"].statistic == pytest.approx(1)
    assert findings["successive of difference"].status == "broken"
    assert findings["successive of gradient"].status == "held"


def test_noise_shared_between_labels_is_seen() -> None:
    residuals = declared(7)
    residuals["difference"][:, 9] = -residuals["gradient"][:, 2]
    findings = by_name(check_residuals(residuals))
    assert findings["releases"].status == "broken"
    assert findings["releases"].statistic == pytest.approx(-1)
    assert "gradient[2] and difference[9]" in findings["releases"].detail


def test_noise_shared_between_labels_of_other_widths_is_seen() -> None:
    rng = np.random.default_rng(8)
    wide = rng.standard_normal((TRIALS, 3, 5))
    narrow = rng.standard_normal((TRIALS, 2, 2))
    narrow[:, 1] = wide[:, 2, :2]
    assert "releases" in broken({"wide": wide, "narrow": narrow})


def test_a_weak_correlation_of_neighbours_is_pooled() -> None:
    """Correlation 0.03 between neighbours, too weak for a pair, is seen over 16 uses."""
    residuals = declared(9)
    noise = residuals["difference"]
    for use in range(1, 16):
        noise[:, use] = 0.03 * noise[:, use - 1] + math.sqrt(1 - 0.03**2) * noise[:, use]
    assert broken(residuals) == {"successive of difference"}


def test_correlated_coordinates_are_seen() -> None:
    residuals = declared(10)
    noise = residuals["gradient"]
    noise[:, :, 2] = 0.2 * noise[:, :, 0] + math.sqrt(1 - 0.2**2) * noise[:, :, 2]
    findings = by_name(check_residuals(residuals))
    assert findings["coordinates of gradient"].status == "broken"
    assert "0 and 2" in findings["coordinates of gradient"].detail
    assert findings["coordinates of difference"].status == "held"


def test_a_shift_is_seen() -> None:
    residuals = declared(11)
    residuals["gradient"] += 0.05
    assert "mean of gradient" in broken(residuals)


def test_another_distribution_of_the_same_scale_is_seen() -> None:
    residuals = declared(12)
    rng = np.random.default_rng(12)
    residuals["gradient"] = rng.laplace(0, math.sqrt(0.5), residuals["gradient"].shape)
    assert "shape of gradient" in broken(residuals)


@pytest.mark.parametrize("value", [9.0, -math.inf, math.inf, 1e300])
def test_one_outlier_is_seen(value: float) -> None:
    residuals = declared(13)
    residuals["gradient"][7, 1, 2] = value
    assert "range of gradient" in broken(residuals)


def test_no_noise_at_all_is_seen() -> None:
    residuals = declared(14)
    residuals["gradient"][:] = 0
    found = broken(residuals)
    assert {"variance of gradient", "shape of gradient", "duplicates"} <= found


@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_a_stream_reused_in_another_trial_is_seen(dimension: int) -> None:
    rng = np.random.default_rng(15)
    noise = rng.standard_normal((500, 6, dimension))
    assert broken({"step": noise}) == set()
    noise[321] = noise[12] * (1 + 1e-14)
    assert broken({"step": noise}) == {"duplicates"}


def test_a_batch_with_the_seed_of_another_is_seen() -> None:
    rng = np.random.default_rng(16)
    batch = rng.standard_normal((300, 1, 1))
    found = check_residuals({"step": np.concatenate([batch, batch])})
    assert by_name(found)["duplicates"].status == "broken"


# Trials that are off.


def test_scale_and_mean_are_seen_when_trials_are_off() -> None:
    rng = np.random.default_rng(17)
    noise = stopped(rng, (TRIALS, 20, 3))
    assert broken({"step": noise}) == set()
    assert "variance of step" in broken({"step": noise / 1.05})
    assert "mean of step" in broken({"step": noise + 0.1})
    assert "shape of step" in broken({"step": np.sign(noise) * np.abs(noise) ** 2})


def test_reuse_is_seen_when_trials_are_off() -> None:
    rng = np.random.default_rng(18)
    noise = stopped(rng, (TRIALS, 20, 3))
    noise[:, 1] = np.where(np.isnan(noise[:, 1]), math.nan, noise[:, 0])
    assert {"releases", "successive of step"} <= broken({"step": noise})


def test_checks_without_residuals_are_not_run() -> None:
    findings = by_name(check_residuals({"off": np.full((5, 2, 3), math.nan)}))
    assert {finding.status for finding in findings.values()} == {"not_run"}
    one = by_name(check_residuals({"step": np.zeros((1, 1, 1))}))
    assert {name for name, finding in one.items() if finding.status == "not_run"} == {
        "successive of step", "coordinates of step", "releases", "duplicates",
    }  # fmt: skip


# Limits of size.


def test_wide_and_long_runs_are_cut_and_still_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (
        ("MAXIMUM_COLUMNS", 8), ("MAXIMUM_ENTRIES", 4_000), ("MAXIMUM_RANKED", 600),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, value)
    residuals = declared(19)
    residuals["wide"] = np.random.default_rng(20).standard_normal((TRIALS, 2, 12))
    assert broken(residuals) == set()
    residuals["difference"][:, 1] = residuals["difference"][:, 0]
    assert {"releases", "successive of difference"} <= broken(residuals)


# Tails against balls, and the two mixtures against integrals in 30 digits.


@pytest.mark.parametrize("count", [30, 1_000, 200_000, 200_001, 10**6, 10**8])
@pytest.mark.parametrize("deviation", [-6.0, -4.5, -1.0, 1.0, 4.5, 6.0])
def test_chi_square_tails(count: int, deviation: float) -> None:
    squares = count + deviation * math.sqrt(2 * count)
    if squares <= 0:
        return
    with flint.ctx.workprec(400):
        half = flint.arb(squares) / 2
        upper = half.gamma_upper(flint.arb(count) / 2, regularized=True)
        exact = float((2 * min(upper, 1 - upper)).log())
    # Two tests of a variance share its error.
    found = log_p("variance", squares / count, count, 1) - math.log(2)
    assert exact - 1e-6 <= found <= exact + 1e-3
    bound = log_p("variance bound", squares / count, count, 1) - math.log(2)
    assert bound >= exact


@pytest.mark.parametrize(("product", "squares"), [(3.0, 4.0), (-40.0, 100.0), (0.0, 7.0)])
def test_slope_mixture_is_the_integral(product: float, squares: float) -> None:
    with mpmath.workdps(30):

        def integrand(slope: Any) -> Any:
            prior = mpmath.npdf(slope, 0, mpmath.sqrt(module.SLOPE_VARIANCE))
            return prior * mpmath.exp(slope * product - slope**2 * squares / 2)

        evidence = mpmath.quad(integrand, [-2, -1, 0, 1, 2])
        found = float(module._slope_log_p(product, squares))
        assert found == pytest.approx(float(-mpmath.log(evidence)), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(("squares", "count"), [(9.0, 10), (30.0, 10), (2.0, 25)])
def test_scale_mixture_is_the_integral(squares: float, count: int) -> None:
    with mpmath.workdps(30):

        def integrand(precision: Any) -> Any:
            prior = mpmath.exp(-precision / 2) / mpmath.sqrt(2 * mpmath.pi * precision)
            power = precision ** (mpmath.mpf(count) / 2)
            return prior * power * mpmath.exp((1 - precision) * squares / 2)

        evidence = mpmath.quad(integrand, [0, 1, 5, 20, 100, mpmath.inf])
        found = log_p("variance of some", squares / count, count, 1) - math.log(2)
        assert found == pytest.approx(float(-mpmath.log(evidence)), rel=1e-9)


# Bad input.


@pytest.mark.parametrize(
    "bad",
    [
        {}, {"a": np.zeros((2, 3))}, {"a": np.zeros((0, 1, 1))}, {"a": np.zeros((1, 0, 1))},
        {"a": np.full((1, 1, 1), None)}, {"a": np.zeros((2, 1, 1)), "b": np.zeros((3, 1, 1))},
        {"a": np.array([[[1.0, math.nan]]])}, {"a": np.zeros((1, 1, 1), dtype=complex)},
        {"a": "residuals"},
    ],
)  # fmt: skip
def test_bad_residuals_are_refused(bad: Any) -> None:
    with pytest.raises(InvalidParameter):
        check_residuals(bad)


@pytest.mark.parametrize("error", [0.0, 1.0, -1.0, math.nan, math.inf])
def test_bad_errors_are_refused(error: float) -> None:
    with pytest.raises(InvalidParameter):
        check_residuals(declared(0, 10), error)


def test_the_input_is_left_as_it_was() -> None:
    residuals = declared(21, 50)
    residuals["gradient"][0] = math.inf
    before = {label: array.copy() for label, array in residuals.items()}
    check_residuals(residuals)
    for label, array in before.items():
        np.testing.assert_array_equal(residuals[label], array)
