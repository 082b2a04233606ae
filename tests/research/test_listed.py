"""Every numbered statement of the five papers has a row, or the reason why it has none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dpaudit.errors import InvalidParameter
from experiments.lab.listed import Listed, named, page, rows
from experiments.lab.papers import load_errata, load_listed, load_papers, measured


def test_the_committed_page_is_that_of_certificates_experiments_and_errata(checkout: Path) -> None:
    errata = {one.paper: [each.place for each in one.errata] for one in load_errata(checkout)}
    papers, made = load_papers(checkout), load_listed(checkout)
    assert {one.paper for one in made} == set(papers)
    text = page(made, measured(papers.values()), errata)
    assert (checkout / "experiments" / "results" / "statements.md").read_text("utf-8") == text


def test_a_place_may_name_several_statements() -> None:
    assert named("Lemmas A.5 and A.6, Theorem 2.1") == {"Lemma A.5", "Lemma A.6", "Theorem 2.1"}
    assert named("Propositions 5.1 and E.2 (simplified)") == {"Proposition 5.1", "Proposition E.2"}
    assert named("proof of Corollary 5.7: clipped") == {"Corollary 5.7"}
    assert named("Table 1 and Section 4.3") == frozenset()


def test_a_statement_has_a_row_or_a_reason_and_not_both() -> None:
    one = Listed("one", "One", {"Theorem 1": "", "Lemma 2": "a step"}, lambda: ["Theorem 1"])
    assert [found[1:] for found in rows(one, [], [])] == [
        (1, (), False, ""),
        (0, (), False, "a step"),
    ]
    with pytest.raises(InvalidParameter, match="no row, and no reason"):
        rows(replace(one, claimed=list), [], [])
    with pytest.raises(InvalidParameter, match="drop its reason"):
        rows(one, [("proof of Lemma 2", "one_run")], [])
    with pytest.raises(InvalidParameter, match="drop its reason"):
        rows(one, [], ["Lemma 2"])
