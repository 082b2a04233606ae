"""The README's Python session runs as it is printed, and its commands exist."""

from __future__ import annotations

import doctest
import re
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from dpaudit.cli.main import main
from mechanisms.papers import claims_page, regions
from mechanisms.papers.diff2.noise import Noise, diff2_noise_paper
from mechanisms.papers.kl.adaptive_printed import PrintedAdaptiveNoisyGD
from mechanisms.papers.regions import REGIONS, Region, corollary_5_7, section, shown
from mechanisms.papers.srgd.constants import Reading


def test_python_session(checkout: Path) -> None:
    result = doctest.testfile(str(checkout / "README.md"), module_relative=False)
    assert result.attempted >= 6
    assert result.failed == 0


def test_commands_exist(checkout: Path) -> None:
    text = (checkout / "README.md").read_text("utf-8")
    named = set(re.findall(r"dpaudit (\w+)", "\n".join(re.findall(r"```sh\n(.*?)```", text, re.S))))
    assert {"init", "list", "show", "account", "audit", "certify"} <= named
    assert named <= set(main.commands)


def test_what_is_said_of_the_papers_is_made_of_their_claims(checkout: Path) -> None:
    """Both README pages of the catalogue are current, and a sentence by hand would be noticed."""
    readme = (checkout / "mechanisms" / "README.md").read_text("utf-8")
    assert claims_page.inserted(readme) == readme
    page = (checkout / "mechanisms" / "papers" / "README.md").read_text("utf-8")
    made = "\n".join(claims_page.instances())
    assert page.startswith(f"{made}\n")
    by_hand = readme.replace("1 proved", "all proved", 1)
    assert claims_page.inserted(by_hand) != by_hand


def test_verdicts_over_a_range_are_those_of_certificates() -> None:
    """Corollary 5.7 at the numbers of its four entries, by the accountant."""
    seen = set()
    for row in claims_page.printed():
        of: Any = row.mechanism.program
        guarantee: Any = row.claim.guarantee
        if row.paper == "srgd" and "Corollary 5.7" in row.statement and "GDP" not in row.claim.text:
            letter = {"proved": "P", "refuted": "R"}[row.outcome]
            at = (of.gradient.rounds, guarantee.epsilon, guarantee.delta)
            if row.claim.reading == Reading.AS_PRINTED and "equation" not in (row.mechanism.name):
                assert corollary_5_7(at[2], at[0], at[1]) == letter, at
                seen.add(letter)
    assert seen == {"P", "R"}


@pytest.mark.first_case
@pytest.mark.long_cases("stable_theorem_4_1", "propositions_5_1_e_2")
@pytest.mark.parametrize("region", REGIONS, ids=lambda region: region.name)
def test_cells_of_the_page_are_what_the_accountant_says(checkout: Path, region: Region) -> None:
    """Three cells of every region, one of each letter that it has where there are so many."""
    page = (checkout / "mechanisms" / "papers" / "README.md").read_text("utf-8")
    head = section(replace(region, panels=(region.panels[0], ())))
    below = page.partition("\n".join(head))[2].splitlines()[1:]
    found: dict[str, tuple[Any, Any, Any]] = {}
    for panel, row in product(region.panels[1], region.rows[1]):
        cells = below.pop(0).strip("| ").split(" | ")
        assert cells[:2] == [shown(panel), shown(row)]
        for letter, column in zip(cells[2:], region.columns[1], strict=True):
            found.setdefault(letter, (panel, row, column))
    assert set(found) <= {"P", "R", "o", "-"}
    for letter, at in found.items():
        assert region.decide(*at) == letter, at


def test_a_region_whose_program_is_another_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """With half of the printed noise Proposition 4.1 is refuted in a cell where it is proved."""
    at = (Fraction(1, 10**6), "100, T = 10", Fraction(1))
    assert regions.proposition_4_1(*at) == "P"

    def halved(*given: Any) -> Noise:
        made = diff2_noise_paper(*given)
        return Noise(made.sigma_1 / 2, made.sigma_2 / 2)

    monkeypatch.setattr(regions, "diff2_noise_paper", halved)
    assert regions.proposition_4_1(*at) == "R"


@pytest.mark.quality
def test_the_page_and_its_plots_are_what_their_code_makes(checkout: Path) -> None:
    folder = checkout / "mechanisms" / "papers"
    assert (folder / "README.md").read_text("utf-8") == claims_page.page()
    for region in REGIONS:
        assert (folder / f"{region.name}.svg").read_text("utf-8") == regions.drawn(region)


def test_every_statement_of_a_paper_is_on_the_page() -> None:
    """Whoever names a paper as a claim's source is listed under it, whatever module holds it."""
    from dpaudit.project.project import catalogue_root, load

    listed = {
        (row.mechanism.name, row.claim.text, row.claim.reading) for row in claims_page.printed()
    }
    names = tuple(f"{name}, " for name in claims_page.NAMES.values())
    for mechanism in load(catalogue_root()).mechanisms.values():
        for claim in mechanism.claims:
            if claim.by.startswith(names):
                assert (mechanism.name, claim.text, claim.reading) in listed


SEEN = re.compile(r"w_0|w_T|noisy|releases?\b|answers?\b|whether each|bottom|norm\b", re.I)


def unsaid(rows: Iterable[Any]) -> list[str]:
    """Certificates that do not say what of a run they speak of: iterates, bits, noisy values."""
    return [
        row.mechanism.name
        for row in rows
        if not row.mechanism.setting.covered
        or not all(SEEN.search(text) for text in row.mechanism.setting.covered)
    ]


def test_every_row_says_what_is_released(checkout: Path) -> None:
    """In a column made of the certificate's own words; one that says nothing is found."""
    rows = list(claims_page.printed())
    assert unsaid(rows) == []
    silent = replace(rows[0].mechanism.setting, covered=("a run",))
    assert unsaid([replace(rows[0], mechanism=replace(rows[0].mechanism, setting=silent))])
    page = (checkout / "mechanisms" / "papers" / "README.md").read_text("utf-8").splitlines()
    for row in rows:
        (line,) = {
            one
            for one in page
            if one.startswith(f"| {row.statement} | `{row.mechanism.name}` | {row.claim.text} |")
        }
        assert f"| {'; '.join(row.mechanism.setting.covered)} |" in line


def test_a_reading_whose_rounds_end_in_a_gradient_says_so() -> None:
    """Theorem 3: every reading's certificate names the noisy gradient at w_T, seen or not."""
    readings = {
        row.mechanism.name: row
        for row in claims_page.printed()
        if isinstance(row.mechanism.program, PrintedAdaptiveNoisyGD)
    }
    assert len(readings) == 8
    for row in readings.values():
        (seen,) = row.mechanism.setting.covered
        program: Any = row.mechanism.program
        visible = program.last == "released"
        assert ("the noisy gradient at w_T" in seen) == visible
        assert ("the last gradient is visible" in row.claim.reading) == visible
        assert ("of which the norm is taken" in seen) == (program.reading == "vector")


ALTERED = re.compile(r"correct|repair|calibrat|\bours\b|reconstruct|in place of", re.I)
SHORTENED = re.compile(r"\bcapped\b|made for them")


def faults(rows: Iterable[Any]) -> list[str]:
    """Claims under a paper's name that it does not state so, or that do not say what it states.

    An algorithm that was changed so that a theorem holds is not the theorem's; a number of steps
    that was capped is told in the reading.
    """
    found = []
    for row in rows:
        name, claim, source = row.mechanism.name, row.claim, row.mechanism.source
        if not claim.states:
            found.append(f"{name}: {claim.by} states what, for which parameters?")
        if ALTERED.search(source):
            found.append(f"{name}: {claim.by} of another algorithm: {source}")
        if SHORTENED.search(source) and not SHORTENED.search(claim.reading):
            found.append(f"{name}: {claim.by} does not tell of {source}")
    return found


def test_a_theorem_s_name_is_on_what_it_states_and_on_nothing_else() -> None:
    rows = list(claims_page.printed())
    assert faults(rows) == []
    one = next(row for row in rows if row.mechanism.name == "regularized_noisy_gd_paper")
    silent = replace(one, claim=replace(one.claim, states="", reading=""))
    changed = replace(one, mechanism=replace(one.mechanism, source="Algorithm 4; noise corrected"))
    assert [len(faults([row])) for row in (one, silent, changed)] == [0, 2, 1]
