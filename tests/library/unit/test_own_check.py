"""Bounds that audits write are the checker's own, and a certificate that fails keeps the work."""

from __future__ import annotations

import re
import subprocess
import sys
from fractions import Fraction
from math import comb
from pathlib import Path

import pytest

from dpaudit.audit.bounds.estimators import Counts, epsilon_lower, mu_lower, roc_points
from dpaudit.audit.bounds.estimators import TestScores as Scores
from dpaudit.check import rates
from dpaudit.check.rates import (
    HELD_BITS,
    MOST_SUMMED,
    TIGHT_BITS,
    clopper_pearson,
    implied,
    lower_bound,
    tail,
    upper_rate,
)
from dpaudit.check.reading import rounded_down
from dpaudit.exact import decimal_lower, enclose, exact
from dpaudit.project.scaffold import start

ERRORS = (0.05, 1.25e-5, 5e-5 / 3)
# Rates near where the two are equal to 1 - delta: the logarithm of their ratio is nearly 0.
COUNTS = [
    Counts(errors, 20_000, 20_000 - errors - extra, 20_000)
    for errors in (14, 200, 9_000)
    for extra in (55, 140, 700)
]


@pytest.mark.parametrize("error", ERRORS)
def test_what_is_written_is_what_the_checker_derives(error: float) -> None:
    for counts in COUNTS:
        found = epsilon_lower(counts, 1e-5, error, written=True)
        mu = mu_lower(counts, error, written=True)
        for bound, delta, value in (
            (found, Fraction(1, 10**5), found.epsilon_lower),
            (mu, None, mu.mu_lower),
        ):
            uppers = [Fraction(exact(rate, "rate")) for rate in bound.rates_upper]
            half = Fraction(exact(error, "error")) / 2
            sides = (
                (counts.false_positives, counts.trials_null),
                (counts.false_negatives, counts.trials_alternative),
            )
            for side, rate in zip(sides, uppers, strict=True):
                assert clopper_pearson(*side, rate, half)
            assert Fraction(exact(value, "bound")) == lower_bound((uppers[0], uppers[1]), delta)
            ball = implied((enclose(uppers[0]), enclose(uppers[1])), delta)
            assert rounded_down(decimal_lower(exact(value, "bound")), ball)


@pytest.mark.parametrize("bits", [TIGHT_BITS, HELD_BITS])
def test_a_tail_holds_the_exact_sum(bits: int) -> None:
    """Binomial tails below and above the mean, by sums of fractions."""
    for trials, rate in ((1, "1/2"), (7, "1/1000"), (40, "3/10"), (40, "0.999999999"), (90, "2/3")):
        p = Fraction(rate)
        total = Fraction(0)
        for count in range(trials):
            total += comb(trials, count) * p**count * (1 - p) ** (trials - count)
            ball = tail(count, trials, p, bits)
            assert ball.overlaps(enclose(total))
            assert total > Fraction(1, 2) or ball.rad() < ball.mid() * 2.0**-bits


@pytest.mark.parametrize("trials", [400, 20_000, MOST_SUMMED])
def test_a_sum_and_an_incomplete_beta_function_meet(
    trials: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No tail is summed where the most trials are set to none."""
    cases = [
        (count, Fraction(count + shift, trials))
        for count in (1, 14, trials // 50, trials // 2, trials - 2)
        for shift in (1, Fraction(1, 100), max(4, trials // 200))
        if count + shift < trials
    ]
    sums = [tail(count, trials, rate, HELD_BITS) for count, rate in cases]
    monkeypatch.setattr(rates, "MOST_SUMMED", 0)
    for (count, rate), summed in zip(cases, sums, strict=True):
        assert summed.overlaps(tail(count, trials, rate, HELD_BITS)), (count, rate)


@pytest.mark.parametrize("near", [float("nan"), 0.0, 0.3, 0.464, 0.46505, 0.5, 1.0])
def test_a_bound_holds_wherever_its_search_starts(near: float) -> None:
    error = Fraction(1, 10**5)
    upper = upper_rate(9_000, 20_000, error, near)
    assert clopper_pearson(9_000, 20_000, upper, error)


def test_boxes_of_a_curve_are_the_checkers() -> None:
    test = Scores([0.1 * k for k in range(100)], [0.1 * k - 2 for k in range(100)])
    for point in roc_points(test, [1.0, 3.0, 5.0], 0.05):
        count = round(point.false_positive_rate * 100)
        upper = Fraction(exact(point.false_positive_rate_upper, "rate"))
        assert clopper_pearson(count, 100, upper, Fraction(1, 20) / 6)


DISAGREEING = """
from dpaudit.check import bounds
bounds.clopper_pearson = lambda *_: False
"""


def certified(folder: Path, *options: str, before: str = "") -> subprocess.CompletedProcess[str]:
    """`dpaudit certify noisy_mean`, in a process of its own, after some code."""
    arguments = ["certify", "noisy_mean", "--trials", "500", *options]
    code = f"{before}\nfrom dpaudit.cli.main import main\nmain({arguments!r})"
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.mark.quality
def test_a_certificate_that_fails_its_own_check_keeps_the_work(tmp_path: Path) -> None:
    start(tmp_path, None)
    found = certified(tmp_path, "--seed", "1", before=DISAGREEING)
    assert found.returncode == 70, found.stderr
    said = " ".join(found.stderr.split())
    assert "fault of dpaudit, not of your program or data" in said
    assert "another --seed" in said
    kept = re.search(r"unpublished certificate in (\S+?\.json)", said)
    assert kept is not None
    assert Path(kept[1]).exists()
    assert list((tmp_path / "reports/.audits").rglob("*.npz"))
    assert not list((tmp_path / "reports").glob("*.json"))
    # Once nothing disagrees, the same seed goes on from the batches.
    again = certified(tmp_path, "--seed", "1")
    assert again.returncode in (0, 3), again.stderr
    assert list((tmp_path / "reports").glob("*.json"))


@pytest.mark.quality
def test_the_seed_that_once_gave_no_certificate(tmp_path: Path) -> None:
    """Its decisive bound is just above 0: 14 false positives and 19,931 misses of 20,000."""
    start(tmp_path, None)
    found = certified(tmp_path, "--seed", "1193", "--trials", "20000")
    assert found.returncode == 0, found.stderr
