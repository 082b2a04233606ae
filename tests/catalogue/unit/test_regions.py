"""Regions of printed guarantees: cells of every paper's theorems, and what refutes one."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import pytest

from mechanisms.papers import claims_page, regions
from mechanisms.papers.kl.proximal import RegularizedNoisyGD
from mechanisms.papers.kl.schedule import KLSpiderSchedule
from mechanisms.papers.kl.spider import PrintedNoise
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


KIND = r"(?:Theorems?|Propositions?|Corollary|Lemma)"
NUMBERED = re.compile(rf"{KIND} ([A-H\d.]*\d)(?: and ([A-H\d.]*\d))?")


def numbers(paper: str, statement: str) -> set[tuple[str, str]]:
    """The numbers of the theorems that a statement names, each with its paper's first author."""
    author = paper.split()[0].rstrip(",")
    return {(author, n) for pair in NUMBERED.findall(statement) for n in pair if n}


def test_every_printed_guarantee_has_a_region() -> None:
    """Whatever theorem the catalogue states a claim of stands over ranges, too."""
    covered = set[tuple[str, str]]().union(
        *(numbers(r.paper, r.statement) for r in regions.REGIONS)
    )
    asked = set[tuple[str, str]]().union(
        *(numbers(claims_page.NAMES[r.paper], r.statement) for r in claims_page.printed())
    )
    assert len(asked) > 15
    assert asked <= covered


def test_kl_spider_is_refuted_by_its_anchors_and_proved_where_a_record_is_emptied() -> None:
    at, rho = "1,000,000, d = 10, kappa = 1.5", Fraction(1, 2)
    found = {claim: regions.theorem_1(claim, at, rho) for claim in regions.SPIDER}
    assert found == {
        "Theorem 1, replace_one": "R",
        "Lemma 8, replace_one": "R",
        "Theorem 1, zero_out": "P",
        "Lemma 8, zero_out": "P",
    }
    assert regions.theorem_1("Theorem 1, zero_out", "2, d = 1,000,000, kappa = 2", rho) == "-"


def test_less_noise_of_an_anchor_is_not_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    printed = PrintedNoise.anchor

    def less(self: PrintedNoise, schedule: KLSpiderSchedule, differences: int) -> Any:
        return printed(self, schedule, differences) / 2

    monkeypatch.setattr(PrintedNoise, "anchor", less)
    at = "1,000,000, d = 10, kappa = 2"
    assert regions.theorem_1("Theorem 1, zero_out", at, Fraction(1)) == "R"


@pytest.mark.parametrize("neighbours", regions.NEIGHBOURS)
def test_less_than_the_printed_noise_of_a_solver_is_refuted(
    neighbours: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call of Theorem 9 costs half of rho at most, so that a third of its noise costs more."""
    assert regions.theorem_9(neighbours, "100, d = 10", Fraction(1)) == "P"
    assert regions.theorem_2(neighbours, "100, d = 10, kappa = 2", Fraction(1)) == "P"
    assert regions.theorem_9(neighbours, "2, d = 1,000,000", Fraction(1, 100)) == "-"
    assert regions.theorem_2(neighbours, "2, d = 1,000,000, kappa = 2", Fraction(1)) == "-"
    printed: Any = RegularizedNoisyGD.noise
    monkeypatch.setattr(RegularizedNoisyGD, "noise", property(lambda own: printed.fget(own) / 3))
    assert regions.theorem_9(neighbours, "100, d = 10", Fraction(1)) == "R"
    assert regions.theorem_2(neighbours, "100, d = 10, kappa = 2", Fraction(1)) == "R"


def test_theorem_5_holds_where_a_last_round_has_room_beside_the_selection() -> None:
    """2 rho + 2 sqrt(rho) / n with every gradient, 3 rho / 2 and as much for w_0..w_T."""
    assert regions.theorem_5("norms cut at 0", 100, Fraction(1, 10)) == "o"
    assert regions.theorem_5("norms cut at 0, w_0..w_T alone", 100, Fraction(1, 10)) == "P"
    assert regions.theorem_5("norms cut at 0, zero_out", 100, Fraction(1, 10)) == "P"
    assert regions.theorem_5("signed norms", 100, Fraction(1, 10)) == "o"


def test_theorems_of_every_size_keep_their_hypotheses() -> None:
    smooth, at, delta = 2.5, "198,325, d = 10", Fraction(1, 10**8)
    assert regions.every_size(smooth, delta, at, Fraction(1)) == "P"
    assert regions.every_size(smooth, delta, "198,324, d = 10", Fraction(1)) == "-"
    assert regions.every_size(smooth, delta, "18,259, d = 10", Fraction(10)) == "o"
    assert regions.every_size(None, Fraction(1, 100), at, Fraction(1)) == "-"
