"""The README's Python session runs as it is printed, and its commands exist."""

from __future__ import annotations

import doctest
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from dpaudit.cli.main import main
from mechanisms.papers import claims_page


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
    """README's table and docs/papers.md are current, and a sentence by hand would be noticed."""
    readme = (checkout / "README.md").read_text("utf-8")
    assert claims_page.inserted(readme) == readme
    assert (checkout / "docs" / "papers.md").read_text("utf-8") == claims_page.page()
    by_hand = readme.replace("1 proved", "all proved", 1)
    assert claims_page.inserted(by_hand) != by_hand


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
