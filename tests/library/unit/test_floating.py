"""Attacks on arithmetic: what they catch, what they leave alone, and bad input."""

import math
from typing import Any

import numpy as np
import pytest

from dpaudit.audit.arithmetic import summation
from dpaudit.audit.arithmetic.floating import Noisy, audit_arithmetic, describe
from dpaudit.audit.arithmetic.summation import check_total
from dpaudit.audit.arithmetic.timing import check_timing
from dpaudit.audit.residuals import Finding
from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.additive.kernel import GridGaussianKernel, GridLaplaceKernel
from dpaudit.families.discrete import DiscreteGaussian, DiscreteLaplace
from dpaudit.families.opaque import PureDP

Array = Any
ODD = {"value: not a number", "value: infinity", "value: minus infinity"}


def broken(findings: tuple[Finding, ...]) -> set[str]:
    return {finding.check for finding in findings if finding.status == "broken"}


def textbook(values: Array, rng: np.random.Generator) -> Array:
    uniform = rng.random(values.shape) - 0.5
    with np.errstate(divide="ignore"):
        return values - np.sign(uniform) * np.log(1 - 2 * np.abs(uniform))


def guarded(add: Any) -> Any:
    """The same sampler on values that are cut first, so that odd ones do no harm."""

    def sampler(values: Array, rng: np.random.Generator) -> Array:
        known = np.clip(np.nan_to_num(values, nan=0.0), -1e9, 1e9)
        return add(known, rng)

    return sampler


# --- samplers ------------------------------------------------------------------------------------


def test_the_textbook_laplace_is_caught() -> None:
    """Mironov's attack: 0 + noise has bits that 1 + noise cannot have."""
    found = broken(audit_arithmetic(guarded(textbook)))
    assert {"low bits of 0 and 1", "low bits of 3 and 4"} <= found
    assert not found & ODD


@pytest.mark.parametrize("leaf", [Laplace("a", 1), Gaussian("a", 2)])
def test_the_float_kernels_are_caught(leaf: Any) -> None:
    found = broken(audit_arithmetic(leaf))
    assert "low bits of 0 and 1" in found
    assert found >= ODD


def test_normal_samplers_of_other_kinds_are_caught() -> None:
    def box_muller(values: Array, rng: np.random.Generator) -> Array:
        radius = np.sqrt(-2 * np.log1p(-rng.random(values.shape)))
        return values + radius * np.cos(2 * math.pi * rng.random(values.shape))

    def single(values: Array, rng: np.random.Generator) -> Array:
        noise = rng.standard_normal(values.shape, dtype=np.float32)
        return values.astype(np.float32) + noise

    for sampler in (box_muller, single):
        assert "low bits of 0 and 1" in broken(audit_arithmetic(guarded(sampler)))


def test_few_seeds_are_caught() -> None:
    """256 seeds: the outputs of 0 come again and those of 1 are others, on any grid of bits."""
    table = np.random.default_rng(1).laplace(size=256)
    table = np.round(table * 2**20) / 2**20

    def seeded(values: Array, rng: np.random.Generator) -> Array:
        return values + table[rng.integers(256, size=values.shape)]

    assert "few values of 0 and 1" in broken(audit_arithmetic(guarded(seeded)))


EXACT = [
    GridLaplaceKernel(Laplace("a", 1), 1),
    GridGaussianKernel(Gaussian("a", 2), 1),
    DiscreteLaplace("a", 3),
    DiscreteGaussian("a", 9, 2),
]


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize(
    "noise",
    [pytest.param(n, marks=[pytest.mark.quality] * (n in (EXACT[1], EXACT[3]))) for n in EXACT],
    ids=["grid_laplace", "grid_gaussian", "laplace", "gaussian"],
)
def test_exact_noise_is_left_alone(noise: Any) -> None:
    """False alarm below 1e-4 each, by the audit's own error budget."""
    findings = audit_arithmetic(noise, total=exact_total)
    assert broken(findings) == set()
    assert sum(finding.error_rate for finding in findings) <= 1e-4 + 1e-12
    assert len({finding.check for finding in findings}) == len(findings) > 25


def test_a_difference_of_neighbours_zeros_shows() -> None:
    def signed(values: Array, rng: np.random.Generator) -> Array:
        return np.where(
            rng.random(values.shape) < 0.5, 0.0 * values, rng.laplace(size=values.shape)
        )

    assert "value: negative zero" in broken(audit_arithmetic(signed))


def test_the_draws_of_an_empty_array_are_asked_for() -> None:
    def never_empty(values: Array, rng: np.random.Generator) -> Array:
        return values + rng.laplace(size=values.shape) if values.size else np.zeros(1)

    assert "no value" in broken(audit_arithmetic(guarded(never_empty)))


def test_samplers_that_raise_on_odd_values_are_caught() -> None:
    def strict(values: Array, rng: np.random.Generator) -> Array:
        if values.size == 0 or not np.isfinite(values).all():
            raise ValueError
        return values + rng.laplace(size=values.shape)

    assert broken(audit_arithmetic(strict)) >= {*ODD, "no value"}


def test_infinities_that_cancel_are_caught() -> None:
    def doubled(values: Array, rng: np.random.Generator) -> Array:
        large = values * 2
        return large - (large - values) + rng.laplace(size=values.shape)

    assert "value: the largest floats" in broken(audit_arithmetic(doubled))


@pytest.mark.parametrize(
    "wrong", [{"scale": 0}, {"scale": math.nan}, {"scale": math.inf}, {"error": 0}, {"error": 1}]
)
def test_bad_arguments_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidParameter):
        audit_arithmetic(textbook, **wrong)  # type: ignore[arg-type]


def test_bad_samplers_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="shape"):
        audit_arithmetic(lambda values, rng: 0.0)
    with pytest.raises(Unsupported):
        audit_arithmetic(PureDP(1))


def test_samplers_are_named_as_what_they_are() -> None:
    assert describe(Laplace("a", 1)) == "LaplaceKernel: draws in float64: low bits tell the value"
    assert describe(DiscreteLaplace("a", 3)) == "DiscreteLaplaceKernel: draws are exact"
    assert describe(EXACT[0]) == "GridLaplaceKernel: draws are exact"
    assert "not known" in describe(textbook)


def test_a_target_draws_for_one_value() -> None:
    target = Noisy(textbook, 1.0, 1.0)
    assert target.draw(3.0, 5, np.random.default_rng(0)).shape == (5,)


# --- time ----------------------------------------------------------------------------------------


class _Clock:
    """A clock that stands still but for what is added to it."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


def _timed(slope: float, drift: float, seed: int) -> Finding:
    """Draws whose time is noise, plus a part that follows size, plus one that follows the hour."""
    rng, clock = np.random.default_rng(seed), _Clock()

    def draw(i: int) -> float:
        size = float(rng.exponential())
        clock.now += int(1_000 + 300 * rng.random() + slope * 100 * size + drift * i)
        return size

    return check_timing(draw, 1e-4, calls=4_000, clock=clock)


def test_time_that_follows_the_noise_is_found() -> None:
    """Error rates far below 1e-6 at this slope."""
    assert _timed(1.0, 0.0, 1).status == "broken"


def test_time_that_follows_the_hour_is_no_finding() -> None:
    """False alarm 1e-4 each, over ten runs 1e-3."""
    assert all(_timed(0.0, 5.0, seed).status == "held" for seed in range(10))


def test_draws_of_one_size_are_not_run() -> None:
    assert check_timing(lambda _: 1.0, 1e-4, calls=80).status == "not_run"


def test_a_loop_as_long_as_its_noise_is_found() -> None:
    """A geometric draw by counting, timed by the machine: its size is its number of steps."""
    rng = np.random.default_rng(5)

    def counting(_: int) -> float:
        steps = 0
        while rng.random() > 0.01:
            steps += 1
        return float(steps)

    assert check_timing(counting, 1e-4, calls=1_600).status == "broken"


# --- sums ----------------------------------------------------------------------------------------


def cut(records: Array) -> Array:
    return np.clip(np.nan_to_num(records, nan=0.0), -1.0, 1.0) + 0.0


def exact_total(records: Array) -> float:
    return math.fsum(cut(records))


def added_as(kind: Any) -> Any:
    def total(records: Array) -> Any:
        added = np.cumsum(cut(records), dtype=kind)
        return added[-1] if added.size else 0.0

    return total


def test_an_exact_sum_is_left_alone() -> None:
    findings = check_total(exact_total)
    assert broken(findings) == set()
    assert {finding.error_rate for finding in findings} == {0.0}
    assert broken(check_total(lambda records: 40 * exact_total(records / 40), 40.0)) == set()


def test_doubles_hold_a_bounded_sum() -> None:
    assert broken(check_total(added_as(np.float64))) == set()


def test_half_and_single_precision_are_caught() -> None:
    """Repeated rounding: one record moves the sum by thousands of bounds, or by several."""
    half = check_total(added_as(np.float16))
    assert {"sum: order", "sum: repeated rounding", "sum: overflow"} <= broken(half)
    single = check_total(added_as(np.float32))
    assert {"sum: order", "sum: repeated rounding"} <= broken(single)
    moved = next(f.statistic for f in single if f.check == "sum: repeated rounding")
    assert 4 < moved < 20


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16, np.uint16])
def test_integers_that_wrap_are_caught(kind: Any) -> None:
    def total(records: Array) -> Any:
        whole = np.rint(cut(records)).astype(np.int64).astype(kind)
        return whole.sum(dtype=kind)

    assert "sum: overflow" in broken(check_total(total))


def test_records_that_are_no_numbers_are_caught() -> None:
    found = broken(check_total(lambda records: float(np.sum(records))))
    assert {"sum: not a number", "sum: infinity", "sum: minus infinity"} <= found
    assert "sum: the largest float" in found
    clipped = broken(check_total(lambda records: float(np.clip(records, -1, 1).sum())))
    assert clipped == {"sum: not a number"}


def test_the_sign_of_zero_is_caught() -> None:
    def signed(records: Array) -> float:
        return math.copysign(0.0, records[0]) if records.size else 0.0

    assert "sum: negative zero" in broken(check_total(signed))


def test_sums_that_fail_are_caught() -> None:
    def failing(records: Array) -> float:
        if records.size == 0:
            raise ValueError
        return exact_total(records)

    def mean(records: Array) -> float:
        return float(cut(records).sum()) / records.size if records.size else math.nan

    assert broken(check_total(failing)) == {"sum: no record"}
    assert "sum: no record" in broken(check_total(mean))


def test_neighbours_of_the_attack_differ_in_one_record() -> None:
    for digits in summation.MANTISSA_BITS:
        above, below = summation._straddling(digits, 1.0)
        assert np.count_nonzero(above != below) == 1
        assert np.abs(above).max() <= 1


def test_the_sums_findings_come_with_the_samplers() -> None:
    findings = audit_arithmetic(guarded(textbook), total=added_as(np.float16))
    assert {"low bits of 0 and 1", "sum: repeated rounding"} <= broken(findings)
