"""One protocol compares methods: equal searches, other seeds that judge, ends of grids marked."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dpaudit.compare.search import Axis, Protocol, search
from dpaudit.errors import InvalidParameter
from experiments.lab import pages, turned
from experiments.lab.learning import BAND
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
    Table,
    Values,
)
from experiments.lab.papers import Agreement, Paper, Read, Statement, agreement, page, read_file
from experiments.lab.protocol import (
    END,
    PREDATES,
    REQUIRED,
    at_ends,
    beside,
    contest_table,
    judged,
    tuned,
)
from experiments.lab.running import Order

PROTOCOL = Protocol(budget=20, choosing=3, judging=5)
OURS = "our method"


def bowl(setting: tuple[float, ...]) -> float:
    """Least at 30 and 0.02."""
    return sum(math.log(v / at) ** 2 for v, at in zip(setting, (30.0, 0.02), strict=True))


def test_a_search_finds_the_least_inside_its_budget() -> None:
    free = (Axis("steps", 1, 1, 1000, whole=True), Axis("step size", 1.0))
    found = search(free, bowl, 40)
    assert len(found.tried) <= 40
    assert bowl(found.best) < 0.2
    assert not any(found.at_end(index) for index in range(2))


def test_a_best_value_with_nothing_tried_beyond_it_is_at_the_end() -> None:
    far = search((Axis("clip", 1.0),), lambda setting: -setting[0], 5)
    assert far.at_end(0)
    # A limit of the method itself is no end of a grid: no value lies beyond it.
    limited = search((Axis("clip", 1.0, most=4.0),), lambda setting: -setting[0], 8)
    assert limited.best == (4.0,)
    assert not limited.at_end(0)


def run(cell: Cell, rng: np.random.Generator) -> Values:
    """Every method has the same loss; the required rows have nothing to choose."""
    method = cell.text("method")
    free = () if method in REQUIRED[:2] else (Axis("step size", 0.3),)

    def loss(setting: Mapping[str, float], draws: np.random.Generator) -> float:
        gap = math.log(setting.get("step size", 1.0)) ** 2
        return cell.number("level") * (1 + gap) * (1 + 0.01 * draws.normal())

    return tuned(PROTOCOL, free, loss, rng)


def results(level: float, without: str = "") -> Results:
    levels = dict.fromkeys(REQUIRED, 1.0) | {OURS: level}
    cells = [Cell.of(method=m, level=v) for m, v in levels.items() if m != without]
    return Results(tuple(Result(c, run(c, np.random.default_rng(k))) for k, c in enumerate(cells)))


def ratio(found: Results) -> Check:
    return beside("ours over DP-SGD", PROTOCOL, found, (OURS, REQUIRED[2]), "ours")


def test_settings_are_chosen_on_some_seeds_and_judged_on_others() -> None:
    seen: list[float] = []

    def loss(setting: Mapping[str, float], draws: np.random.Generator) -> float:
        seen.append(draws.random())
        return abs(math.log(setting["clip"]))

    values = tuned(PROTOCOL, (Axis("clip", 2.0),), loss, np.random.default_rng(0))
    assert len(values["judged"]) == PROTOCOL.judging  # type: ignore[arg-type]
    choosing, judging = seen[: -PROTOCOL.judging], seen[-PROTOCOL.judging :]
    assert len(set(choosing)) == PROTOCOL.choosing  # the same for every setting
    assert not set(choosing) & set(judging)


def test_a_setting_that_a_method_refuses_is_not_chosen() -> None:
    def loss(setting: Mapping[str, float], draws: np.random.Generator) -> float:
        if setting["clip"] > 1:
            raise InvalidParameter("too large")
        return 1.0 - 0.1 * setting["clip"]

    values = tuned(PROTOCOL, (Axis("clip", 2.0),), loss, np.random.default_rng(0))
    assert values["setting of clip"] <= 1  # type: ignore[operator]


def test_a_fair_comparison_is_judged() -> None:
    assert ratio(results(0.5)).status is Status.HELD
    assert ratio(results(2.0)).status is Status.MISSED


@pytest.mark.parametrize("row", REQUIRED)
def test_a_comparison_without_a_required_row_decides_nothing(row: str) -> None:
    if row == REQUIRED[2]:
        return  # the comparison itself is with this row
    check = ratio(results(0.5, without=row))
    assert check.status is Status.WITHHELD
    assert row in check.withheld


def test_a_comparison_with_a_parameter_at_its_end_is_marked_and_decides_nothing() -> None:
    found = results(0.5)
    last = found.rows[-1]
    ended = Result(last.cell, {**last.values, END + "step size": 1})
    assert at_ends(ended) == ["step size"]
    rows = Results((*found.rows[:-1], ended))
    assert ratio(rows).status is Status.WITHHELD
    assert "step size at the end" in ratio(rows).withheld
    assert contest_table("all", rows).rows[-1][-1] == "step size"


def test_a_search_that_misses_a_setting_of_its_own_decides_nothing() -> None:
    """A method with eight steps is among those with any number: the wider search must find it."""
    found = results(0.5)
    narrower = Result(Cell.of(method="in 8 steps", level=0.1), {**found.rows[-1].values})
    for level, status in ((0.5, Status.HELD), (0.1, Status.WITHHELD)):
        values = {**narrower.values, "judged": [level] * PROTOCOL.judging}
        rows = Results((*found.rows, Result(narrower.cell, values)))
        check = beside(
            "ours over DP-SGD", PROTOCOL, rows, (OURS, REQUIRED[2]), "ours",
            within={"in 8 steps": OURS},
        )  # fmt: skip
        assert check.status is status
        assert ("its search missed what in 8 steps found" in check.withheld) == (level == 0.1)


def test_a_search_above_the_budget_decides_nothing() -> None:
    found = results(0.5)
    last = found.rows[-1]
    more = Results((*found.rows[:-1], Result(last.cell, {**last.values, "tried": 21})))
    assert ratio(more).status is Status.WITHHELD


FAIR = replace(ratio(results(0.5)), source="ours")
RAW = Check("ratio of two methods", 5.0, upper=1.0, source="ours")
SLOPE = Check("slope", -1.0, upper=-0.5, source="Theorem 1")
START = Check("share of its start", 0.5, upper=0.9, source=BAND)


def test_a_comparison_outside_the_protocol_is_withheld_unless_it_speaks_of_one_method() -> None:
    checks = (FAIR, RAW, SLOPE, START)
    found = judged(Findings((), checks), ("slope",), PROTOCOL)
    held = [check.status for check in found.checks]
    assert held == [Status.HELD, Status.WITHHELD, Status.HELD, Status.HELD]
    # A result without the stamp, or with that of another protocol, has no fair comparison.
    for stamp in (None, replace(PROTOCOL, budget=21)):
        assert judged(Findings((), checks), ("slope",), stamp).checks[0].withheld == PREDATES
    # An experiment that says nothing of its checks has none that is judged but those of starts.
    assert [c.status for c in judged(Findings((), checks), (), None).checks].count(
        Status.WITHHELD
    ) == 3


def experiment(protocol: Protocol | None) -> Experiment:
    panels = (Panel("a plot", "x", "y", ()),)
    notes = ("ours is 5 times behind",)
    made = Findings((Table("Means", ("method",), (("ours",),)),), (FAIR, RAW), panels, notes)
    cells = [Cell.of(n=1)]
    return Experiment(
        "one_contest", "A contest", "nobody", lambda _: cells, lambda *_: {"y": 1.0},
        lambda _: made, protocol=protocol,
    )  # fmt: skip


STATEMENT = Statement("Section 1", "ours is no worse", "one_contest", ("ours over",))


@pytest.mark.parametrize("stamped", [True, False])
def test_only_a_stamped_result_is_printed_as_a_conclusion(tmp_path: Path, stamped: bool) -> None:
    """Taking the stamp away from the file alone turns the conclusion into no conclusion."""
    made = experiment(PROTOCOL)
    rows = Results((Result(made.cells(Size.FULL)[0], {"y": 1.0}),))
    order = Order(tmp_path, "one_contest")
    written = made if stamped else replace(made, protocol=None)
    pages.write(order, written, rows, made.read(rows), tmp_path, "abc")
    read = read_file(made, tmp_path)
    kind = agreement(STATEMENT, read)[0]
    assert kind is (Agreement.AGREES if stamped else Agreement.UNFAIR)
    text = page(Paper("one", "A paper", (STATEMENT,)), {"one_contest": read})
    first, _, rest = text.partition(pages.UNFAIR)
    assert ("| agrees |" in first) == stamped
    assert ("ours is no worse" in rest) != stamped
    assert RAW.name not in text  # an unfair value is on no page of a paper
    assert read.findings is not None
    own = pages.markdown(made, "`run`", read.findings)
    above, _, below = own.partition(pages.UNFAIR)
    assert ("| held |" in above) == stamped
    for word in (RAW.name, "5 times behind", "a contest.svg".replace("a ", "one_"), "Means"):
        assert word not in above
        assert word in below


def test_a_bound_above_doing_nothing_is_vacuous_and_no_disagreement() -> None:
    bound = Check("bound over doing nothing", 24.0, upper=1.0, source="ours")
    checks = (replace(SLOPE, value=0.0), bound)
    read = Read("one", Findings((), checks))
    statement = Statement("Theorem 1", "a rate", "one", ("slope",))
    assert agreement(statement, read)[0] is Agreement.DOES_NOT
    vacuous = replace(statement, vacuous=("bound over",))
    kind, listed = agreement(vacuous, read)
    assert kind is Agreement.VACUOUS
    assert listed[0] is bound
    below = Read("one", Findings((), (checks[0], replace(bound, value=0.5))))
    assert agreement(vacuous, below)[0] is Agreement.DOES_NOT


def test_a_fair_defeat_is_not_hidden_by_a_check_that_is_not_judged() -> None:
    """The row says how many are not judged, and why; a check that is near leaves it open."""
    marked = replace(SLOPE, name="slope in d", withheld="A: steps at the end")
    statement = Statement("Theorem 1", "a rate", "one_slope", ("slope",))

    def read(value: float, other: Check = marked, margin: float = 0.0) -> Read:
        own = replace(SLOPE, value=value, margin=margin)
        return Read("one_slope", Findings((), (own, other)))

    for other in (marked, replace(marked, withheld=PREDATES)):
        defeated = read(0.0, other)
        assert agreement(statement, defeated)[0] is Agreement.DOES_NOT
        table, _, _ = page(
            Paper("one", "A paper", (statement,)), {"one_slope": defeated}
        ).partition(pages.UNFAIR)
        assert "does not agree<br>1 missed, 1 not judged |" in table
        assert pages.verdict(other) in table
    assert agreement(statement, read(SLOPE.value))[0] is Agreement.UNFAIR
    assert agreement(statement, read(SLOPE.value, margin=9.0))[0] is Agreement.UNFAIR
    refuted = replace(statement, held=Agreement.DOES_NOT)  # a band of a refutation, missed
    assert agreement(refuted, read(0.0))[0] is Agreement.UNFAIR
    ours = replace(statement, ours="the solver is ours")
    assert agreement(ours, read(0.0))[0] is Agreement.NOT_ABOUT


def test_a_reconstruction_of_ours_says_nothing_of_the_paper() -> None:
    read = Read("one", Findings((), (replace(SLOPE, value=0.0),)))
    statement = Statement("Table 1", "n gradients", "one", ("slope",), ours="the solver is ours")
    assert agreement(statement, read)[0] is Agreement.NOT_ABOUT


def test_a_statement_lists_all_of_its_checks() -> None:
    near = replace(SLOPE, name="slope in d", value=-0.5, margin=0.1)
    read = Read("one_slope", Findings((), (SLOPE, near)))
    text = page(
        Paper("one", "A paper", (Statement("Theorem 1", "a rate", "one_slope", ("slope",)),)),
        {"one_slope": read},
    )
    assert "slope: -1, held<br>slope in d: -0.5, inconclusive" in text
    assert "inconclusive<br>1 held, 1 inconclusive" in text


@pytest.mark.parametrize("wrong", [(0, 1, 2), (1, 0, 2), (1, 1, 1)])
def test_a_protocol_that_compares_nothing_is_refused(wrong: tuple[int, int, int]) -> None:
    with pytest.raises(InvalidParameter, match="expected at least"):
        Protocol(*wrong)


def test_a_conclusion_that_turned_is_listed_with_its_reason(tmp_path: Path) -> None:
    then: dict[str, object] = {
        "place": "Section 1",
        "says": "ours is no worse",
        "found": "does not agree",
    }
    then |= {"worst": "ours over theirs", "value": 5.0}
    earlier = tmp_path / turned.FILE
    earlier.write_text(json.dumps({"one": [then]}))
    paper = {"one": Paper("one", "A paper", (STATEMENT,))}
    found = judged(Findings((), (FAIR,)), (), PROTOCOL)
    fair = turned.page(paper, {"one_contest": Read("one_contest", found)}, earlier)
    assert "1 of 1 earlier statements read otherwise now" in fair
    assert "does not agree<br>ours over theirs: 5 | agrees<br>ours over DP-SGD: 0." in fair
    unfair = judged(Findings((), (FAIR,)), (), None)
    text = turned.page(paper, {"one_contest": Read("one_contest", unfair)}, earlier)
    assert f"not judged: {PREDATES}" in text
    asked = Statement("Section 1", "ours is no worse", why="no search has an end")
    gone = turned.page({"one": replace(paper["one"], statements=(asked,))}, {}, earlier)
    assert "not run: no search has an end" in gone
    earlier.write_text(json.dumps({"one": [then | {"found": "agrees"}]}))
    same = turned.page(paper, {"one_contest": Read("one_contest", found)}, earlier)
    assert "0 of 1 earlier statements read otherwise now" in same
