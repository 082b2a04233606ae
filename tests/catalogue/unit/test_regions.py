"""Regions of printed guarantees: cells of the stable-subset theorems, and what refutes one."""

from __future__ import annotations

from fractions import Fraction

import pytest

from mechanisms.papers import regions
from mechanisms.papers.stable_erm import calibration

MILLIONTH = Fraction(1, 10**6)


@pytest.mark.parametrize(
    ("theorem", "epsilon"),
    # Where the account of a theorem's phases is quick.
    list(zip(regions.STABLE, ("1", "0.1", "1", "1", "1"), strict=True)),
)
def test_a_theorem_of_stable_subsets_is_proved_where_users_are_enough(
    theorem: str, epsilon: str
) -> None:
    assert regions.stable(theorem, MILLIONTH, 10**6, Fraction(epsilon)) == "P"
    assert regions.stable(theorem, MILLIONTH, 100, Fraction(1, 100)) == "-"
    assert regions.stable(theorem, MILLIONTH, 10**9, Fraction(1000)) == "-"


def test_a_phased_run_without_a_phase_is_no_program() -> None:
    """Algorithm 4 has floor(log2(n / (8 kappa + 2))) phases, none for 200 users at kappa 32."""
    assert regions.stable("Theorem 5.1", MILLIONTH, 200, Fraction(1)) == "-"
    assert regions.stable("Theorem 5.1", MILLIONTH, 1000, Fraction(1)) == "P"


def test_less_than_the_printed_noise_is_not_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = calibration.printed_constants

    def less(epsilon: Fraction, delta: Fraction) -> calibration.Constants:
        made = whole(epsilon, delta)
        return calibration.Constants(made.epsilon_bar, made.kappa, made.noise_multiplier / 10)

    monkeypatch.setattr(regions, "del_output_pert_paper", less)
    cell = regions.stable("Theorems 3.1 and 3.3", MILLIONTH, 10**6, Fraction(1))
    assert cell in ("R", "o")


def test_every_region_has_its_corners_and_a_plot_of_its_own() -> None:
    """Ends of the ranges are cells; a printed epsilon of 1 is one where it is the theorem's."""
    assert len({one.name for one in regions.REGIONS}) == len(regions.REGIONS)
    for one in regions.REGIONS:
        assert all(len(axis[1]) > 1 for axis in (one.panels, one.rows, one.columns))
    own = [one for one in regions.REGIONS if one.name.startswith("stable_")]
    assert [one.statement for one in own] == list(regions.STABLE)
    assert all(1 in one.columns[1] for one in own)
