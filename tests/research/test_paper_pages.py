"""Pages of papers are made of result files: what is missing or of another grid reads not run."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dpaudit.errors import InvalidParameter
from experiments.lab import pages
from experiments.lab.found import load
from experiments.lab.learning import Learnt, learning_checks, learning_table
from experiments.lab.model import (
    Cell,
    Check,
    Experiment,
    Findings,
    Panel,
    Result,
    Results,
    Size,
    Status,
)
from experiments.lab.papers import (
    ANCHOR,
    UNREAD,
    Agreement,
    Claims,
    Paper,
    Read,
    Statement,
    agreement,
    load_claims,
    load_papers,
    page,
    quoted,
    read_file,
    undecided,
)
from experiments.lab.running import Order, sources_of
from tests.support.learning import WITHOUT_OUTCOME, assert_beside_start

LEARNT = [Learnt("method", 0.6, 1.0)]


def findings(value: float, source: str = "Theorem 1") -> Findings:
    checks = (Check("slope", value, -1.1, -0.9, source=source), *learning_checks(LEARNT))
    return Findings((learning_table(LEARNT, "risk"),), checks)


def experiment(value: float, sizes: tuple[int, ...] = (1, 2)) -> Experiment:
    return Experiment(
        "one_slope",
        "Slope",
        "nobody",
        lambda size: [Cell.of(n=n) for n in sizes],
        lambda cell, rng: {},
        lambda results: findings(value),
        alone=("slope",),
    )


def written(folder: Path, size: Size = Size.FULL) -> None:
    made = experiment(-1.0)
    rows = tuple(Result(cell, {"y": [1.0, np.inf], "k": 3}) for cell in made.cells(Size.FULL))
    order = Order(folder, "one_slope", size)
    pages.write(order, made, Results(rows), findings(-1.0), folder, "abc")


STATEMENT = Statement("Theorem 1", "falls as 1/n", "one_slope", ("slope",))


def test_a_result_is_read_again_by_the_experiment_as_it_is(tmp_path: Path) -> None:
    written(tmp_path)
    for value, expected in ((-1.0, Agreement.AGREES), (-0.5, Agreement.DOES_NOT)):
        read = read_file(experiment(value), tmp_path)
        assert agreement(STATEMENT, read)[0] is expected
    assert read.results is not None
    assert read.results.rows[0].values == {"y": [1.0, np.inf], "k": 3}
    assert read.sources == "abc"


def test_what_is_missing_quick_or_of_another_grid_is_not_run(tmp_path: Path) -> None:
    assert read_file(experiment(-1.0), tmp_path).why == "no result"
    written(tmp_path, Size.QUICK)
    assert "quick grid only" in read_file(experiment(-1.0), tmp_path).why
    written(tmp_path)
    assert "another grid" in read_file(experiment(-1.0, (1, 2, 3)), tmp_path).why
    (tmp_path / "one_slope.json").write_text("{")
    read = read_file(experiment(-1.0), tmp_path)
    assert "cannot be read" in read.why
    assert agreement(STATEMENT, read) == (Agreement.NOT_RUN, [])


def test_a_refutations_bands_are_no_agreement() -> None:
    read = Read("one_slope", findings(-1.0))
    refuted = replace(STATEMENT, held=Agreement.DOES_NOT)
    assert agreement(refuted, read)[0] is Agreement.DOES_NOT
    assert agreement(refuted, Read("one_slope", findings(-2.0)))[0] is Agreement.INCONCLUSIVE
    inside = Check("slope", -0.8, -1.1, -0.9, margin=0.2)
    near = Read("one_slope", Findings((), (inside,)))
    assert agreement(STATEMENT, near)[0] is Agreement.INCONCLUSIVE


def test_a_page_says_what_was_found_and_how_far_from_not_learning() -> None:
    never = Statement("Theorem 2", "a rate", why="no experiment measures it")
    paper = Paper("one", "A paper", (STATEMENT, never))
    text = page(paper, {"one_slope": Read("one_slope", findings(-1.0))})
    assert "2 statements: 1 agrees, 1 not run." in text
    assert "| falls as 1/n | slope: -1, held | [-1.1, -0.9]: Theorem 1 | agrees |" in text
    assert "| method | 0.6 | 1 | 0.6 |" in text
    assert "not recorded" in text
    with pytest.raises(InvalidParameter, match="who set its band"):
        page(paper, {"one_slope": Read("one_slope", findings(-1.0, ""))})
    other = Paper("one", "A paper", (replace(STATEMENT, checks=("gap",)),))
    with pytest.raises(InvalidParameter, match="makes no check"):
        page(other, {"one_slope": Read("one_slope", findings(-1.0))})
    with pytest.raises(InvalidParameter, match="say why"):
        Statement("Theorem 3", "a rate")


OFF = "| slope | -0.5 | [-1.1, -0.9]: Theorem 1 | missed |"


def test_a_bands_name_is_said_in_words(tmp_path: Path) -> None:
    """Bands once read E4 and no more, which names a line of a specification that is not here."""
    bands = {"E4": '"Accept [-1.1,-.9]"', "Table 1": '"N^2"'}
    words = [
        quoted(Check("slope", -1.0, -1.1, -0.9, source=source), bands).source
        for source in ("E4", "E4: a slope", "Table 1", "Theorem 1")
    ]
    first, *rest = words
    assert first == 'E4: "Accept [-1.1,-.9]"'
    assert rest == ['E4: a slope (E4: "Accept [-1.1,-.9]")', 'Table 1: "N^2"', "Theorem 1"]
    for source in ("E5", "as far off as acceptance 2 has it"):
        with pytest.raises(InvalidParameter, match=r"(E5|acceptance 2): what does it accept"):
            quoted(Check("slope", -1.0, -1.1, -0.9, source=source), bands)


def test_no_band_of_a_committed_result_is_a_name_alone(checkout: Path) -> None:
    named = "(E|acceptance |Table |Figure |Proposition )"
    bare = re.compile(named + r"[\d.]+(, values|, counted in runs)?")
    for path in (checkout / "experiments" / "results").glob("*.json"):
        sources = {check["source"] for check in json.loads(path.read_text("utf-8"))["checks"]}
        assert not [s for s in sources if bare.fullmatch(s)], path.name


def test_a_paper_reads_its_experiments_with_its_bands() -> None:
    made = replace(experiment(-1.0), read=lambda results: findings(-1.0, "E4"))
    paper = Paper("one", "A paper", (), "", {"E4": "in words"})
    found = paper.reads(made).read(Results(()))
    assert found.checks[0].source == "E4: in words"


def test_a_missed_check_that_no_statement_reads_is_named() -> None:
    """Twelve statements that agree once stood over ten missed checks, which nothing named."""
    learns = Statement("Theorem 2", "it learns", "one_slope", ("method: share",))
    reads = {"one_slope": Read("one_slope", findings(-0.5))}
    hidden = page(Paper("one", "A paper", (learns,)), reads)
    assert (
        "1 statements: 1 agrees. Checks that none of them reads: 1 missed, [listed below]"
        f"({ANCHOR})." in hidden
    )
    assert f"## {UNREAD}\n" in hidden
    assert f"| [one_slope](one_slope.md) {OFF}" in hidden
    read = page(Paper("one", "A paper", (learns, STATEMENT)), reads)
    assert "1 does not agree. Every other check of its experiments that were run held." in read
    assert UNREAD not in read


def test_of_the_checks_that_no_statement_reads_those_that_held_are_not_named() -> None:
    paper = Paper("one", "A paper", (Statement("Theorem 2", "a rate", why="not measured"),))
    near = Check("slope", -0.8, -1.1, -0.9, margin=0.2, source="Theorem 1")
    off = replace(near, margin=0.0)
    held = replace(off, value=-1.0)
    found = Findings((), (near, off, held))
    # An experiment of another paper, whose name begins otherwise, is not this page's.
    reads = {"one_slope": Read("one_slope", found), "two_slope": Read("two_slope", found)}
    text = page(paper, reads)
    assert "1 missed, 1 inconclusive, [listed below]" in text
    named = [
        line for line in text.splitlines() if line.startswith("| [one_slope](one_slope.md) | slope")
    ]
    assert [line.split(" | ")[-1] for line in named] == ["inconclusive |", "missed |"]
    assert "two_slope" not in text


def test_a_page_shows_the_plot_of_each_experiment_that_a_statement_reads_once() -> None:
    drawn = replace(findings(-1.0), panels=(Panel("one", "x", "y", ()),))
    again = replace(STATEMENT, place="Theorem 2")
    other = Statement("Theorem 3", "a rate", "one_other", ("slope",))
    paper = Paper("one", "A paper", (STATEMENT, again, other))
    shown = "[![Slope](one_slope.svg)](one_slope.md)\n\n[one_slope](one_slope.md): Slope.\n"
    reads = {
        "one_slope": Read("one_slope", drawn, title="Slope"),
        "one_other": Read("one_other", why="no result"),
        "one_third": Read("one_third", drawn),
    }
    text = page(paper, reads)
    assert text.count(shown) == 1
    assert text.count(".svg") == 1  # no plot of what was not run, nor of what decides nothing
    without = page(paper, {"one_slope": Read("one_slope", findings(-1.0), title="Slope")})
    assert ".svg" not in without


def test_a_page_counts_what_certificates_say_of_its_paper(checkout: Path) -> None:
    """A paper's page counts the rows of mechanisms/papers/README.md and links to their section."""
    listed = (checkout / "mechanisms" / "papers" / "README.md").read_text("utf-8")
    claims = load_claims(checkout)
    counted = {}
    for part in listed.split("\n## ")[1:]:
        heading, _, rows = part.partition("\n")
        outcomes = re.findall(r"^\| .* `\w+` .*\| (\w+) \|$", rows, re.MULTILINE)
        proved, refuted = outcomes.count("proved"), outcomes.count("refuted")
        counted[heading] = (proved, refuted, len(outcomes) - proved - refuted)
    assert len(counted) == len(claims) == 5
    anchors = {
        re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-"): counts
        for heading, counts in counted.items()
    }
    for own in claims.values():
        proved, refuted, undecided = anchors[
            own.link.removeprefix("../../mechanisms/papers/README.md#")
        ]
        said = {"proved": proved, "refuted": refuted, "not decided": undecided}
        assert own.counted() == said
    text = page(Paper("one", "A paper", (STATEMENT,)), {}, Claims("one", "up.md", lambda: said))
    assert f"{proved} proved, {refuted} refuted, {undecided} not decided ([What" in text
    assert "(up.md)" in text


def test_the_committed_pages_are_those_of_the_committed_results(checkout: Path) -> None:
    folder = checkout / "experiments" / "results"
    found, papers, claims = load(checkout), load_papers(checkout), load_claims(checkout)
    assert set(claims) == set(papers)
    assert undecided(list(papers.values()), found) == []
    for paper in papers.values():
        own = [one for name, one in found.items() if name.startswith(f"{paper.name}_")]
        named = {s.experiment for s in paper.statements if s.experiment}
        assert named <= {one.name for one in own}
        reads = {one.name: read_file(one, folder) for one in own}
        text = (folder / f"paper_{paper.name}.md").read_text("utf-8")
        assert page(paper, reads, claims[paper.name]) == text, "run: python -m experiments pages"
        for read in reads.values():
            made = (
                json.loads((folder / f"{read.experiment}.json").read_text()) if read.results else {}
            )
            assert bool(made) == bool(read.results)


def test_the_committed_count_of_bands_is_that_of_the_committed_results(checkout: Path) -> None:
    folder = checkout / "experiments" / "results"
    found = load(checkout)
    reads = {name: read_file(one, folder) for name, one in found.items()}
    made = [
        pages.entry(found[name], read.findings)
        for name, read in reads.items()
        if read.findings is not None
    ]
    sentence = pages.seen(made)
    text = (checkout / "experiments" / "README.md").read_text("utf-8")
    assert sentence in text, "run: python -m experiments pages"
    assert pages.counted(text, sentence) == text
    assert pages.counted(text, "nothing") != text
    # Whatever a source says of order in time is counted, and nothing else is.
    sources = {check["source"] for one in made for check in one["checks"]}
    ordered = {source for source in sources if re.search(r"\b(after|seen|look(ed)?)\b", source)}
    assert {source for source in sources if pages.SEEN.search(source)} == ordered


def test_a_band_that_was_set_after_a_look_is_counted() -> None:
    sources = {
        "Theorem 1; asked after the means had been seen": 1,
        "ours, after earlier runs": 1,
        "ours, no worse; set after an outside run had it worse": 1,
        "band and cut set after a look": 1,
        "Theorem 1": 0,
        "ours, set before the run": 0,
    }
    for source, number in sources.items():
        made = [pages.entry(experiment(-1.0), findings(-1.0, source))]
        said = f"{number} of 2 checks say"
        assert pages.seen(made).startswith(said), source
        assert ("1 in `one_slope`" in pages.seen(made)) == bool(number)
    unmarked = "a page without the marks"
    assert pages.counted(unmarked, "sentence") == unmarked


def test_every_methods_outcome_stands_beside_its_start_with_a_check(checkout: Path) -> None:
    found = load(checkout)
    assert set(found) > WITHOUT_OUTCOME
    for name, one in found.items():
        read = read_file(one, checkout / "experiments" / "results")
        if read.findings is not None:
            assert_beside_start(name, read.findings)


def test_an_outcome_without_its_start_or_its_check_is_seen() -> None:
    made = findings(-1.0)
    assert_beside_start("one_slope", made)
    for without in (replace(made, tables=()), replace(made, checks=made.checks[:1])):
        with pytest.raises(AssertionError, match=r"rows of|does not learn"):
            assert_beside_start("one_slope", without)
    with pytest.raises(AssertionError, match="rows of"):
        assert_beside_start("diff2_bounds", made)


def test_who_ends_where_it_began_has_not_learnt() -> None:
    at_start, beside, below = learning_checks(
        [Learnt("a", 1.0, 1.0), Learnt("b", 1.01, 1.0, 0.02), Learnt("c", 0.99, 1.0)]
    )
    assert at_start.status is Status.MISSED
    assert beside.status is Status.INCONCLUSIVE
    assert below.status is Status.HELD


def test_a_result_names_the_sources_that_made_it(tmp_path: Path, checkout: Path) -> None:
    written(tmp_path)
    assert json.loads((tmp_path / "one_slope.json").read_text())["sources"] == "abc"
    first, second = (sources_of(checkout, load(checkout)[n]) for n in ("srgd_risk", "kl_spider"))
    assert first != second
