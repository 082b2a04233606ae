"""Sensitivities of DIFF2, and Lemmas B.7 and B.8 against mpmath and independently found tables."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
import sympy

from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import ClippedMean, Records
from dpaudit.scope import Adjacency
from mechanisms.papers.diff2.lemmas import (
    LemmaDoesNotApply,
    bvr_step_sensitivity,
    diff2_round_sensitivity,
    rdp_subsampled_wor,
    rdp_subsampled_wor_simple,
)

# order, rate, base multiplier; Lemma B.7; Lemma B.8 with c = 1; with the largest c.
TABLE_C = [
    (9, "0.005", 30, 3.153922e-6, 1.259678e-6, 2.139195e-5),
    (9, "0.01", 6, 7.388039e-5, 1.259678e-4, 2.401356e-4),
    (6, "0.01", 10, 2.036678e-5, 3.224775e-5, 9.748652e-5),
    (48, "0.001", 15, 1.182043e-6, 9.758185e-7, 4.845110e-6),
]


def gaussian(z: int) -> Any:
    return lambda j: Fraction(j, 2 * z**2)


@pytest.mark.parametrize(("order", "rate", "z", "first", "one", "largest"), TABLE_C)
def test_table_c(order: int, rate: str, z: int, first: float, one: float, largest: float) -> None:
    """c = 1 is not admissible in any row; in two, the value it gives is below Lemma B.7's."""
    base, share = gaussian(z), Fraction(rate)
    found = rdp_subsampled_wor(order, share, base)
    assert float(found) == pytest.approx(first, rel=3e-7)
    simple = rdp_subsampled_wor_simple(order, share, base)
    assert float(simple) == pytest.approx(largest, rel=2e-7)
    assert simple > found
    unproved = 2 / 3 * (4 + np.e) * float(share) ** 2 * order**2 / z**2 / (order - 1)
    assert unproved == pytest.approx(one, rel=2e-7)
    with pytest.raises(LemmaDoesNotApply, match="0 < c <= eps"):
        rdp_subsampled_wor_simple(order, share, base, c=1)


@pytest.mark.parametrize(("order", "rate", "z"), [(2, "0.3", 1), (9, "0.2", 6), (300, "0.001", 40)])
def test_lemma_b_7_in_fifty_digits(order: int, rate: str, z: int) -> None:
    with mpmath.workdps(50):
        g = mpmath.mpf(rate)
        e2 = mpmath.exp(mpmath.mpf(1) / z**2)
        total = 1 + g**2 * mpmath.binomial(order, 2) * min(4 * (e2 - 1), 2 * e2)
        for j in range(3, order + 1):
            power = mpmath.exp(mpmath.mpf((j - 1) * j) / (2 * z**2))
            total += 2 * g**j * mpmath.binomial(order, j) * power
        expected = mpmath.log(total) / (order - 1)
        found = rdp_subsampled_wor(order, Fraction(rate), gaussian(z))
        assert 0 <= mpmath.mpf(found.numerator) / found.denominator - expected < expected * 1e-30


def test_lemma_b_7_has_a_floor_that_noise_does_not_lower() -> None:
    """Rate .2, order 9: .1305 a step (printed), however large the noise."""
    floor = float(rdp_subsampled_wor(9, Fraction(1, 5), gaussian(10**9)))
    assert floor == pytest.approx(0.1305, abs=5e-5)
    assert float(rdp_subsampled_wor(9, Fraction(1, 5), lambda _: 0)) == pytest.approx(floor)


def test_the_simple_bound_is_above_the_lemma_wherever_it_applies() -> None:
    """300 random settings; those that the conditions refuse are counted."""
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(300):
        order = int(rng.integers(3, 40))
        z = float(np.exp(rng.uniform(0, 5)))
        rate = Fraction(float(np.exp(rng.uniform(-9, -1)))).limit_denominator(10**6)
        share = float(rng.uniform(0.05, 1.5))

        def base(j: int, z: float = z) -> Fraction:
            return Fraction(j) / Fraction(2 * z * z)

        c = Fraction(share) * base(2) / (rate * order)
        try:
            simple = rdp_subsampled_wor_simple(order, rate, base, c)
        except LemmaDoesNotApply:
            refused += 1
            assert share > 1 or base(order) > Fraction(1, 3) or 2 * rate * order > Fraction(1, 2)
        else:
            assert share <= 1
            assert simple >= rdp_subsampled_wor(order, rate, base)
    assert 100 < refused < 290


@pytest.mark.parametrize(
    ("base", "match"),
    [
        (lambda j: Fraction(1, j), "does not decrease"),
        (lambda j: Fraction(j, 2), "<= 1/3"),
    ],
)
def test_each_condition_of_lemma_b_8_is_checked(base: Any, match: str) -> None:
    with pytest.raises(LemmaDoesNotApply, match=match):
        rdp_subsampled_wor_simple(4, Fraction(1, 100), base)
    with pytest.raises(LemmaDoesNotApply, match="log"):
        rdp_subsampled_wor_simple(4, Fraction(1, 9), gaussian(4))


@pytest.mark.parametrize(
    ("order", "rate", "base"),
    [
        (1, "0.1", gaussian(1)),
        (2.5, "0.1", gaussian(1)),
        (True, "0.1", gaussian(1)),
        (10**6, "0.1", gaussian(1)),
        (3, 0, gaussian(1)),
        (3, -1, gaussian(1)),
        (3, 1.5, gaussian(1)),
        (3, float("nan"), gaussian(1)),
        (3, "0.1", lambda _: -1),
        (3, "0.1", lambda _: float("nan")),
        (3, "0.1", lambda _: float("inf")),
        (3, "0.1", lambda _: "no"),
    ],
)
def test_bad_input_is_refused(order: Any, rate: Any, base: Any) -> None:
    share = Fraction(rate) if isinstance(rate, str) else rate
    for bound in (rdp_subsampled_wor, rdp_subsampled_wor_simple):
        with pytest.raises(InvalidParameter):
            bound(order, share, base)


# --- sensitivities -------------------------------------------------------------------------------


def test_sensitivities_in_symbols() -> None:
    radius = sympy.Symbol("C", positive=True)
    assert sympy.simplify(diff2_round_sensitivity(radius, 20, 2) - radius / 20) == 0
    assert sympy.simplify(bvr_step_sensitivity(radius, 8) - radius / 4) == 0
    assert diff2_round_sensitivity(1, 1, 1) == 2
    assert bvr_step_sensitivity(0, 3) == 0


def test_opposite_records_attain_both() -> None:
    """What the curator's query states, and what two saturated records do."""
    first = np.ones((6, 1))
    second = first.copy()
    second[2] = -1.0

    def value(rows: Any) -> Any:
        return 7.0 * rows[None]

    round_query = ClippedMean(value, 0.5, np.full(6, 1 / 6))
    batch_query = ClippedMean(value, 0.5, divisor=4.0)
    batch = np.array([[True, True, True, False, False, True]])
    for query, chosen, stated in (
        (round_query, None, diff2_round_sensitivity(Fraction(1, 2), 3, 2)),
        (batch_query, batch, bvr_step_sensitivity(Fraction(1, 2), 4)),
    ):
        values = [query.value(Records(rows), chosen) for rows in (first, second)]
        assert np.abs(values[0] - values[1]).item() == pytest.approx(float(stated), rel=1e-12)
        assert query.sensitivity(Adjacency.REPLACE_ONE, 6) == pytest.approx(float(stated))


@pytest.mark.parametrize("radius", [-1, float("nan"), float("inf"), "one"])
def test_a_radius_is_a_number_that_is_not_negative(radius: Any) -> None:
    for call in (
        lambda: diff2_round_sensitivity(radius, 2, 2),
        lambda: bvr_step_sensitivity(radius, 2),
    ):
        with pytest.raises(InvalidParameter):
            call()


@pytest.mark.parametrize("count", [0, -2, 1.5, True, None])
def test_counts_are_positive_whole_numbers(count: Any) -> None:
    for call in (
        lambda: diff2_round_sensitivity(1, count, 2),
        lambda: diff2_round_sensitivity(1, 2, count),
        lambda: bvr_step_sensitivity(1, count),
    ):
        with pytest.raises(InvalidParameter):
            call()
