"""Numbers and curves of a report: rounded outward, read naturally, drawn as defined."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dpaudit.exact.wire import encode_number
from dpaudit.families.tabular import DiscreteGaussianVector
from dpaudit.releases.plan import PlannedMargins
from dpaudit.report import accuracy, coverage, front, numbers, plots, words
from dpaudit.report.say import speaking
from dpaudit.scope import Adjacency


def test_shown_bounds_never_round_inward() -> None:
    generator = np.random.default_rng(7)
    for size in generator.integers(-30, 12, 500):
        text = f"{generator.random() * 10.0**size:.17e}".replace("e+", "e")
        exact = Decimal(text)
        assert Decimal(numbers.lower(text)) <= exact <= Decimal(numbers.upper(text))
        assert Decimal(numbers.upper(text)) <= exact * Decimal("1.00001")
        assert Decimal(numbers.exact(text)) == exact


@pytest.mark.parametrize(
    ("text", "shown_upper", "shown_lower"),
    [
        ("2.3414270664", "2.34143", "2.34142"),
        ("0.00001", "1e-5", "1e-5"),
        ("0.000100", "0.0001", "0.0001"),
        ("0", "0", "0"),
        ("inf", "∞", "∞"),
        ("1234567.89", "1234570", "1234560"),
        ("1e999999", "1e999999", "1e999999"),
        ("9.9999999e-1", "1", "0.999999"),
    ],
)
def test_numbers_read_naturally(text: str, shown_upper: str, shown_lower: str) -> None:
    assert numbers.upper(text) == shown_upper
    assert numbers.lower(text) == shown_lower


def test_rounding_never_moves_a_bound_past_its_claim() -> None:
    assert numbers.upper("0.57735026919") == "0.577351"
    assert numbers.upper_beside("0.57735026919", "0.5773502692") == "0.5773502692"
    assert numbers.upper_beside("0.5773502693", "0.5773502692") == "0.577351"
    assert numbers.percent_upper("0.5385941") == "53.9\u00a0%"
    assert numbers.percent_upper("1.7") == "100\u00a0%"


def test_drawn_curves_are_those_of_the_definitions() -> None:
    for mu in (0.1, 0.57735, 3.0):
        for epsilon in (0.0, 0.5, 2.0, 6.0):
            first = mpmath.ncdf(mu / 2 - epsilon / mu)
            second = mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)
            drawn = plots.gaussian_delta(epsilon, mu)
            assert drawn == pytest.approx(float(first - second), rel=1e-6, abs=1e-15)
    assert plots.claimed_beta(0.0, 1.0, 0.1) == pytest.approx(0.9)
    assert plots.gaussian_delta(1e4, 0.5) == plots.claimed_beta(0.9, 1e9, 0.1) == 0.0


@pytest.mark.parametrize(
    ("upper", "lower", "share"),
    [
        ({"measure": "gdp", "mu": "0.5"}, {"measure": "gdp", "mu": "0.49999"}, "99.9\u00a0%"),
        ({"measure": "pure_dp", "epsilon": "1"}, "0", "25\u00a0%"),
        ({"measure": "approx_dp", "epsilon": "1", "delta": "0.1"}, "0.1", "25\u00a0%"),
        ({"measure": "approx_dp", "epsilon": "1", "delta": "0.1"}, "0.2", ""),
        ({"measure": "approx_dp", "epsilon": "inf", "delta": "0.1"}, "0.1", ""),
        ({"measure": "gdp", "mu": "0"}, {"measure": "gdp", "mu": "0"}, ""),
        (None, "0.1", ""),
    ],
)
def test_an_attack_reaches_a_share_of_the_accounted_bound(
    upper: words.Json | None, lower: words.Json | str, share: str
) -> None:
    """A text stands for an epsilon of 1/4 at that delta; the share is rounded down."""
    if isinstance(lower, str):
        lower = {"measure": "approx_dp", "epsilon": "0.25", "delta": lower}
    assert words.reached(upper, lower) == share


def test_a_bound_from_likelihoods_says_which_share_it_reaches() -> None:
    lower = {"measure": "gdp", "mu": "0.49"}
    claim = {"stated": {"measure": "gdp", "mu": "1"}, "upper": {"measure": "gdp", "mu": "0.5"}}
    predicate = {"likelihoods": [{"runs": 500, "bounds": [{"lower": lower}]}]}
    text = words.likely(predicate, claim)
    assert text.endswith("from likelihoods of 500 runs, 98\u00a0% of the accounted bound")
    assert words.likely(predicate, {**claim, "upper": None}).endswith("of 500 runs")


def test_numbers_of_a_table_are_drawn_with_their_margins() -> None:
    """A figure for each item of which several numbers have margins, and its numbers in words."""
    names = ("item", "keys", "value", "error_95", "statistic", "error_covers")
    rows = [
        dict(zip(names, row, strict=True))
        for row in [
            ("sex", "sex=f", "120", "7", "count", ""),
            ("sex", "sex=m", "-3", "7", "count", ""),
            ("all", "", "117", "9", "count", ""),
            ("mean", "sex=f", "", "", "mean", ""),
            ("mean", "sex=m", "31.5", "0.25", "mean", ""),
            ("mean", "sex=x", "2.5", "0.5", "mean", ""),
        ]
    ]
    first, second = coverage._drawn(rows)
    assert "sex=f: 120 ± 7; sex=m: −3 ± 7" in first.svg
    assert "sex=m: 31.5 ± 0.25; sex=x: 2.5 ± 0.5" in second.svg
    assert first.caption.startswith("Published numbers of sex")


@pytest.mark.parametrize("variance", [Fraction(9), Fraction(10) ** 12])
def test_noise_of_a_table_has_an_error_that_a_twentieth_exceeds(variance: Fraction) -> None:
    """Beside the margin that the plan states, which is computed by other code."""
    moves = (((Fraction(2), Fraction(1)),),)
    leaf = DiscreteGaussianVector("n", variance, Fraction(4), moves)
    parameters = {
        "variance": {"number": encode_number(leaf.variance)},
        "squared": {"number": encode_number(leaf.squared)},
    }
    scale, error, _ = accuracy._measured("DiscreteGaussianVector", parameters)
    half = PlannedMargins({"n": leaf}, {}, Adjacency.ADD_REMOVE).half("n")
    assert scale == pytest.approx(float(variance) ** 0.5 / 2)
    assert half / 2 <= error <= half / 2 + 1


def test_an_audit_at_delta_zero_may_refute_a_claim_of_pure_dp() -> None:
    """The page calls an attack too small only where a comparable bound says so."""

    def refutable(epsilon: str, delta: str, claimed: str = "pure_dp") -> bool:
        best = {"measure": "approx_dp", "epsilon": epsilon, "delta": delta}
        stated = {"measure": claimed, "epsilon": "1"}
        return front.could_refute({"claims": [{"stated": stated}], "audits": [{"strongest": best}]})

    assert refutable("6", "0")
    assert not refutable("0.5", "0")
    assert refutable("0.5", "0.1")  # at another delta: the certificate does not say
    assert refutable("0.5", "0", "renyi_dp")


@pytest.mark.parametrize(
    ("language", "shown"),
    [
        ("en", ("11,506,669.32", "−20,000", "12,345,678,901")),
        ("de", ("11.506.669,32", "−20.000", "12.345.678.901")),
        ("fr", ("11 506 669,32", "−20 000", "12 345 678 901")),
    ],
)
def test_published_values_have_thousands_as_the_language_writes_them(
    language: str, shown: tuple[str, ...]
) -> None:
    """All digits, as counts on the same page; a year, a date and small numbers stay."""
    values = ("11506669.32", "-20000", "12345678901")
    with speaking(language):
        grouped = [numbers.published(value).replace("\u202f", " ") for value in values]
        assert tuple(grouped) == shown
        assert numbers.published("1987") == "1987"
        assert numbers.published("2026-11-30") == "2026-11-30"
        assert numbers.published("inf") == "∞"
        assert numbers.published("0.25") == numbers.exact("0.25")
