"""Operators of mutation: what each changes in a source, and that it breaks what is declared."""

from __future__ import annotations

import ast
import json
import os
import signal
import sys
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dpaudit.audit.examine.shapes import shape_of
from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array, ClippedMean, Records
from dpaudit.mutate import plant, wrong
from dpaudit.mutate.operators import (
    CODE,
    OPERATORS,
    RELEASES,
    RIGHT,
    Planted,
    Reached,
    Site,
    edited,
    planted_in,
)
from dpaudit.mutate.report import as_json, by_operator, exit_code, lines, rate, twins
from dpaudit.mutate.run import (
    CAUGHT,
    CERTIFIED,
    LEFT_ALONE,
    STILLBORN,
    UNTOLD,
    Judgement,
    Order,
    Ran,
    Result,
    _Judge,
    _Results,
    chosen,
)
from dpaudit.mutate.survey import Survey, home_of, survey
from mechanisms.papers.srgd import catalogue

SOURCE = '''"""A page."""
from __future__ import annotations
import math

class Program:
    def run(self, curator):
        x, previous = 0, 0
        for k in range(self.rounds):
            rows = curator.part(k, self.sizes)
            released = curator.release(
                "mean", self.query(x, previous), rows=rows
            )
            if released > 3:
                previous, x = x, released
        return x

def score(values):
    best = 0
    for k in range(len(values)):
        best = max(best, values[k])
    return best, math.ceil(math.log2(len(values)))
'''
SITE = Site(
    module="m",
    line=10,
    kind="ClippedMean",
    clips=True,
    exact=False,
    weighted=False,
    summed=False,
    private_count=True,
    parts=True,
    uses=3,
    dimension=4,
)
RUN = Reached("m", 6, "run", asked=False, free=False)
SCORE = Reached("m", 17, "score", asked=True, free=False)


LINES = {"m": range(1, 40)}


def made(*sites: Site) -> list[Planted]:
    return list(planted_in({"m": ast.parse(SOURCE)}, list(sites), [RUN, SCORE], LINES))


def changed(operator: str, *, twin: bool = False) -> str:
    planted = next(
        p for p in made(replace(SITE, exact=True, bounded=True), SITE) if p.operator == operator
    )
    return ast.unparse(edited(ast.parse(SOURCE), planted, twin=twin))


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_operator_changes_one_place_of_a_source_that_still_compiles(operator: str) -> None:
    right, text = ast.unparse(ast.parse(SOURCE)), changed(operator)
    compile(text, "m", "exec")
    assert text.startswith('"""A page."""\nfrom __future__ import annotations\n')
    kept = [line for line in right.splitlines() if line in text.splitlines()]
    most = 2 if operator == "private_threshold" else 1
    assert 0 < len(right.splitlines()) - len(kept) <= most or operator == "half_the_search"


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_right_twin_is_right(operator: str) -> None:
    text = changed(operator, twin=True)
    if operator in RIGHT:
        compile(text, "m", "exec")
        assert text not in (ast.unparse(ast.parse(SOURCE)), changed(operator))
    else:
        assert text == ast.unparse(ast.parse(SOURCE))


def test_what_is_written() -> None:
    query = "self.query(x, previous)"
    clip = f"_mutant.wrong({query}, 'delete_the_clip', curator)"
    assert f"curator.release('mean', {clip}, rows=rows)" in changed("delete_the_clip")
    assert f"_mutant.wrong({query}, 'right', curator)" in changed("delete_the_clip", twin=True)
    assert "curator.part(_mutant.before(k), self.sizes)" in changed("one_record_in_two_parts")
    assert "self.query(x, _mutant.older(x, previous))" in changed("stale_point")
    assert "_mutant.less(math.ceil(math.log2(len(values))))" in changed("one_level_short")
    assert "range((len(values) + 1) // 2)" in changed("half_the_search")
    assert "range(self.rounds)" in changed("half_the_search")
    assert "released > 3 + _mutant.kept(curator)" in changed("private_threshold")
    assert "_mutant.Reseeding(curator).release(" in changed("seed_fixed_per_round")


@pytest.mark.parametrize(
    ("operator", "site"),
    [
        ("delete_the_clip", {"clips": False}),
        ("norm_of_part", {"dimension": 1}),
        ("divide_by_the_realised_count", {"private_count": False}),
        ("divide_by_the_realised_count", {"summed": True}),
        ("carry_a_record_over", {"parts": False}),
        ("carry_a_record_over", {"uses": 1}),
        ("private_radius", {"exact": False}),
        ("private_radius", {"exact": True, "shared": True}),
        ("test_on_part", {"weighted": True}),
        ("test_on_part", {"rows": 1}),
        ("noise_of_one_node_in_two", {"uses": 1}),
    ],
)
def test_what_can_break_nothing_is_not_planted(operator: str, site: dict[str, Any]) -> None:
    without = made(replace(SITE, **site))
    assert operator not in {p.operator for p in without}
    assert operator in {p.operator for p in made(replace(SITE, exact=operator == "private_radius"))}


@pytest.mark.parametrize("field", ["searched", "on_its_path"])
def test_what_no_step_may_depend_on_is_no_right_twin(field: str) -> None:
    """What another run of a search released; what bounds a program's own steps alone released."""
    for alone in (False, True):
        found = {p.operator: p.twin for p in made(replace(SITE, exact=True, **{field: alone}))}
        assert found["private_radius"] is found["private_step"] is not alone
        assert found["delete_the_clip"]


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("name", "own"),
    [("accelerated_dp_srgd", False), ("accelerated_dp_srgd_unclipped", True)],
)
def test_bounds_of_a_program_s_own_steps_are_told(name: str, own: bool) -> None:
    """Without a clip a query is bounded by the steps before it: twice the step breaks its bound."""
    mechanism = getattr(catalogue, name)
    shape = shape_of(mechanism.program, mechanism.declaration, mechanism.scope)
    found = survey(mechanism, home_of(mechanism), shape, 1)
    assert [site.on_its_path for site in found.sites] == [own]


def test_points_and_searches_that_end_in_a_library_s_clip_are_left_out() -> None:
    found = {p.operator for p in made(replace(SITE, exact=True, bounded=True))}
    assert not found & {"stale_point", "half_the_search"}
    assert found >= {"one_record_in_two_parts", "one_level_short"}


def test_only_lines_that_run_are_changed() -> None:
    tree = {"m": ast.parse(SOURCE)}
    every = {p.operator for p in planted_in(tree, [SITE], [RUN, SCORE], LINES)}
    some = {p.operator for p in planted_in(tree, [SITE], [RUN, SCORE], {"m": range(1, 19)})}
    assert every - some == {"half_the_search", "one_level_short"}


def test_a_source_that_moved_is_refused() -> None:
    with pytest.raises(ValueError, match="finds nothing in line 99"):
        edited(ast.parse(SOURCE), Planted("delete_the_clip", "m", 99, ""))


# --- wrong queries -------------------------------------------------------------------------------


def mean(**options: Any) -> ClippedMean:
    return ClippedMean(lambda values: values[None], 1.0, **options)


def moved(bug: str, one: Array, two: Array, query: ClippedMean, **curator: Any) -> float:
    """How far two data sets move a query with a bug, in stated sensitivities."""
    owner = SimpleNamespace(trials=1, **curator)
    made = wrong.wrong(query, bug, owner)
    values = [made.value(Records(rows)) for rows in (one, two)]
    adjacency = "add_remove" if len(one) != len(two) else "replace_one"
    stated = float(made.sensitivity(adjacency, len(one)))
    return float(np.linalg.norm(values[0] - values[1])) / stated


FAR = np.array([[0.0, 9.0, 0.0], [0.3, 0.0, 0.0], [0.0, 0.0, 0.4], [0.1, 0.1, 0.1]])
OTHER = np.concatenate([-FAR[:1], FAR[1:]])


@pytest.mark.parametrize(
    ("bug", "least"),
    [
        ("delete_the_clip", 8.9),
        ("clip_after_averaging", 1.5),
        ("clip_twice_a_batch", 1.5),
        ("norm_of_part", 8.9),
        ("centre_by_the_batch", 1.5),
        ("skip_when_one_trial", 8.9),
    ],
)
def test_a_wrong_clip_moves_by_more_than_is_stated(bug: str, least: float) -> None:
    assert moved("right", FAR, OTHER, mean()) <= 1 + 1e-12
    assert moved(bug, FAR, OTHER, mean()) >= least


def test_a_count_that_is_realised_moves_by_more_than_is_stated() -> None:
    query = mean(divisor=50.0)
    assert moved("right", FAR[:1], np.concatenate([FAR[:1], -FAR[:1]]), query) <= 1
    two = np.concatenate([FAR[:1], -FAR[:1]])
    assert moved("divide_by_the_realised_count", FAR[:1], two, query) > 10


def test_half_the_records_move_a_mean_twice_as_far() -> None:
    assert moved("test_on_part", FAR, OTHER, mean()) == pytest.approx(2)


@pytest.mark.parametrize("weights", [None, np.array([0.1, 0.2, 0.3, 0.4])])
@pytest.mark.parametrize("batch", [None, np.array([[True, False, True, True]])])
def test_the_right_twin_is_the_library_s_query(weights: Any, batch: Any) -> None:
    query = mean(weights=weights)
    owner = SimpleNamespace(trials=1)
    records = Records(np.concatenate([FAR[:3], FAR[:1]]))
    twin = wrong.wrong(query, "right", owner).value(records, batch)
    np.testing.assert_allclose(twin, query.value(records, batch), atol=1e-15)


def test_a_record_is_carried_into_the_next_release_only() -> None:
    owner = SimpleNamespace(trials=2)
    first = wrong.wrong(mean(), "carry_a_record_over", owner)
    np.testing.assert_allclose(first.value(Records(FAR)), mean().value(Records(FAR)))
    second = wrong.wrong(mean(), "carry_a_record_over", owner)
    carried = second.value(Records(OTHER[1:])) - mean().value(Records(OTHER[1:]))
    np.testing.assert_allclose(carried, [[0, 0.25, 0]])


def test_what_is_kept_of_records_moves_a_radius_and_a_step() -> None:
    owner = SimpleNamespace(trials=1)
    assert wrong.kept(owner) == 0
    noted = wrong.wrong(mean(), "noting", owner)
    assert type(noted) is ClippedMean
    noted.value(Records(FAR))
    assert 0 < wrong.kept(owner) <= 1
    radius = wrong.wrong(mean(), "private_radius", owner).radius
    assert float(radius) == pytest.approx(1 + wrong.kept(owner))


def test_noise_is_silenced_every_second_time_and_seeded_alike() -> None:
    class Owner:
        def __init__(self) -> None:
            self._rng = np.random.default_rng(1)

        def release(self) -> Array:
            return self._rng.standard_normal(3)

    owner = Owner()
    drawn = [wrong.Silencing(owner).release() for _ in range(4)]
    assert [bool(d.any()) for d in drawn] == [True, False, True, False]
    again = [wrong.Reseeding(owner).release() for _ in range(2)]
    np.testing.assert_array_equal(*again)
    assert wrong.Silencing(owner).release().any()


# --- what counts ---------------------------------------------------------------------------------


def judge(*before: str, check: str = "") -> _Judge:
    survey = Survey("m", "a", 4, (3,), (), ())
    return _Judge(Order("a", Path()), survey, Judgement(verdicts=before, check=check), Path())


GOOD, BAD = "certified_under_assumptions", "alarm"


@pytest.mark.parametrize(
    ("before", "found", "status"),
    [
        ((GOOD,), Judgement(verdicts=(GOOD,)), CERTIFIED),
        (("certified",), Judgement(verdicts=(GOOD,)), CERTIFIED),
        ((GOOD,), Judgement(verdicts=(BAD,), check="displacement"), CAUGHT),
        ((GOOD, GOOD), Judgement(verdicts=(GOOD, "inconclusive"), check="claims"), CAUGHT),
        (("inconclusive",), Judgement(verdicts=("inconclusive",), check="claims"), CERTIFIED),
        (("inconclusive",), Judgement(verdicts=("refuted",), check="claims"), CAUGHT),
        (("refuted",), Judgement(verdicts=("refuted",), check="parts kept apart"), CAUGHT),
        ((GOOD,), Judgement(check="refused", detail="by the curator"), CAUGHT),
        ((GOOD,), Judgement(failed="ValueError"), STILLBORN),
        ((GOOD,), Judgement(failed="overtime"), UNTOLD),
    ],
)
def test_a_mutant_counts_by_what_certify_says_of_the_right_program(
    before: tuple[str, ...], found: Judgement, status: str
) -> None:
    assert judge(*before, check="claims")._status(found) == status


def result(status: str, name: str = "a", twin: str = "") -> Result:
    return Result(name, "delete_the_clip", "what", "m:1", status, "check", "detail", twin, 0.5)


def ran(*statuses: str, twin: str = "") -> Ran:
    results = tuple(result(s, str(i), twin) for i, s in enumerate(statuses))
    return Ran("case", "case", 1, len(results), results, GOOD, "")


def test_rates_leave_out_what_cannot_be_told() -> None:
    found = ran(CAUGHT, CAUGHT, CAUGHT, CERTIFIED, STILLBORN, UNTOLD, twin=LEFT_ALONE)
    assert rate(found.results) == 0.75
    assert rate(ran(STILLBORN, UNTOLD).results) is None
    assert twins(found.results) == {"left_alone": 6, "flagged": 0}
    document = json.loads(json.dumps(as_json(found)))
    assert document["operators"] == by_operator(found.results)
    assert document["operators"]["delete_the_clip"]["rate"] == 0.75
    assert lines(found)[0] == "CERTIFIED 3: what"
    assert "no mutant was run: nothing fits" in lines(replace(ran(), faults="nothing fits"))[0]


@pytest.mark.parametrize(
    ("of", "code"),
    [
        (ran(CAUGHT), 0),
        (ran(*[CAUGHT] * 19, CERTIFIED), 0),
        (ran(*[CAUGHT] * 18, CERTIFIED), 1),
        (ran(STILLBORN), 3),
        (ran(CAUGHT, twin=LEFT_ALONE), 0),
        (ran(CAUGHT, twin="flagged: displacement"), 5),
        (ran(CAUGHT, twin=f"{UNTOLD}: overtime"), 0),
    ],
)
def test_exit_codes(of: Ran, code: int) -> None:
    assert exit_code(of) == code


def test_a_limit_takes_from_every_operator_in_turn() -> None:
    every = made(replace(SITE, exact=True, bounded=True))
    operators = {p.operator for p in every}
    assert {p.operator for p in chosen(every, len(operators), 1)} == operators
    assert chosen(every, 5, 1) == chosen(every, 5, 1) != chosen(every, 5, 2)
    assert chosen(every, None, 1) == chosen(every, 10**6, 1) == every


@pytest.mark.parametrize("wrong", [{"limit": 0}, {"operators": ("typos",)}])
def test_an_order_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        Order("a", Path(), **wrong)


def test_finished_mutants_are_read_back_and_torn_ones_are_not(tmp_path: Path) -> None:
    store = _Results(tmp_path / "kept")
    store.put("a", result(CAUGHT, "a"))
    store.put("c", result(CAUGHT, "c"))
    store.rows._path("c").write_text('{"task": "c", "values": {"operator"')
    store.rows.put("d", {"name": "d"})
    assert [store.get(name) for name in "abcd"] == [result(CAUGHT, "a"), None, None, None]


def test_every_operator_is_of_one_kind() -> None:
    assert not set(RELEASES) & set(CODE)
    assert set(RIGHT) <= set(RELEASES)
    assert len(OPERATORS) >= 16


def test_a_mutant_runs_in_a_fork_of_a_process_without_threads_or_modules_of_the_caller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A fork of the caller died where another library's threads held a lock at that moment."""
    monkeypatch.setitem(sys.modules, "of_the_caller", ModuleType("of_the_caller"))
    loaded = plant.separately(_loaded, seconds=20.0)
    assert loaded["threads"] == 1
    assert "of_the_caller" not in loaded["modules"]
    assert "dpaudit.mutate.run" in loaded["modules"]


def _loaded() -> Any:
    return {"threads": threading.active_count(), "modules": sorted(sys.modules)}


@pytest.mark.parametrize(
    ("work", "result"),
    [
        (partial(os._exit, 7), {"failed": "died", "detail": "exit status 7"}),
        (os.abort, {"failed": "died", "detail": "exit status -6"}),
        (partial(os.closerange, 3, 99), {"failed": "died", "detail": "exit status 1"}),
        (partial(signal.raise_signal, signal.SIGKILL), {"failed": "overtime"}),
    ],
)
def test_the_result_says_how_a_process_ended(work: Any, result: Any) -> None:
    assert plant.separately(work, seconds=5.0) == result
