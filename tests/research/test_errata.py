"""Errata: numbers are computed, and mended statements hold where printed ones fail."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import pytest

from experiments.diff2 import errata as diff2
from experiments.kl import errata as kl
from experiments.lab.errata import Errata, page
from experiments.lab.papers import load_errata, load_papers
from experiments.srgd import errata as srgd
from experiments.user_level import errata as user_level
from mechanisms.papers.srgd.geometry import EtaSchedule

EVERY = (
    diff2.DIFF2_ERRATA,
    kl.KL_ERRATA,
    srgd.SRGD_ERRATA,
    user_level.USER_LEVEL_ERRATA,
)


def test_every_paper_has_a_committed_page_of_errata(checkout: Path) -> None:
    found = load_errata(checkout)
    assert {one.paper for one in found} == set(load_papers(checkout))
    for one in found:
        path = checkout / "experiments" / "results" / f"errata_{one.paper}.md"
        assert path.read_text("utf-8") == page(one), "run: python -m experiments pages"


def test_the_potential_grows_under_the_printed_weight_alone() -> None:
    assert srgd.growth(EtaSchedule.LINEAR, 1)[0] > 1
    assert srgd.growth(EtaSchedule.LINEAR, 2)[0] > 0  # the weight alone does not mend it
    assert srgd.growth(EtaSchedule.HALVED, 2)[0] <= 1e-12


def test_theorem_3_names_what_of_a_run_is_seen() -> None:
    """w_0..w_T alone, with the gradient at w_T, zero_out, and signed norms have numbers each."""
    (one,) = (e for e in kl.KL_ERRATA.errata if e.place == "Theorem 3")
    numbers = one.numbers()
    for words in ("w_0..w_T alone 1.000020", "at w_T 1.500020", "zero_out 0.375005", "signed"):
        assert words in numbers
    assert "w_0..w_T alone" in one.right


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 8.0])
def test_lemma_a_5_holds_where_the_paper_speaks_of_it(epsilon: float) -> None:
    assert user_level.reached(epsilon, 1e-6) <= 1e-6
    assert user_level.reached(user_level.EPSILON, 1e-6) == pytest.approx(1.149e-6, rel=1e-3)


def test_a_page_without_errata_says_so() -> None:
    assert "No statement of this paper that was examined here failed." in page(
        Errata("one", "A paper", ())
    )


def test_a_place_has_all_of_its_parts() -> None:
    for one in chain(*(of.errata for of in EVERY)):
        parts = (one.printed, one.fails, one.numbers(), one.mended, one.right, one.shown)
        assert all(parts)
        assert any(character.isdigit() for character in one.numbers())
