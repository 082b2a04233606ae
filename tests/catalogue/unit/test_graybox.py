"""Gray-box checks: every planted bug is found, with its line; correct twins are not flagged.

The deterministic checks have no false alarms.  Statistical ones run at 1e-5 here unless a test
says otherwise.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audits.broken import diff2 as bench
from dpaudit.accountant.claim import Claim
from dpaudit.audit.attack import attack
from dpaudit.audit.graybox import HOSTILE, Asked, Inspection, inspect_program, probe
from dpaudit.audit.graybox.checks import ACCESS, CONTROL, EXECUTED, PAIR, RECORDS
from dpaudit.audit.neighbours import Neighbours
from dpaudit.audit.suite import Suite
from dpaudit.curator.curator import Curator
from dpaudit.curator.mechanism import Mechanism, Setting
from dpaudit.errors import InvalidParameter
from dpaudit.families.additive import Gaussian
from dpaudit.families.additive.kernel import GaussianKernel, LaplaceKernel
from dpaudit.families.composition import Compose, Repeat
from dpaudit.families.opaque import GDP
from dpaudit.kernels.query import Array, ClippedMean, Records
from dpaudit.nodes import Node
from dpaudit.scope import Adjacency, Scope
from tests.support.kernels import Stated, Written, total

ERROR = 1e-5
SETTING = Setting("a test", "row", "one row", ("the releases",))
PAIRS: dict[str, tuple[Records, Records]] = {
    "replace_one": (
        Records(np.array([[0.0], [1.0], [0.0], [0.5]])),
        Records(np.array([[0.0], [-1.0], [0.0], [0.5]])),
    ),
    "zero_out": (
        Records(np.array([[0.0], [1.0], [0.0], [0.5]])),
        Records(np.array([[0.0], [1.0], [0.0], [0.5]]), np.array([True, False, True, True])),
    ),
    "add_remove": (
        Records(np.array([[0.0], [0.5], [1.0]])),
        Records(np.array([[0.0], [0.5]])),
    ),
}


def rows(values: Array) -> Array:
    return np.asarray(values)[None]


def clipped(radius: Any = 1.0, **options: Any) -> ClippedMean:
    return ClippedMean(rows, radius, **{"divisor": 4.0, **options})


def inspected(
    node: Node,
    body: Callable[[Curator], Any],
    adjacency: str = "replace_one",
    kernels: Any = None,
    **options: Any,
) -> Inspection:
    scope = Scope(adjacency, "record", "central", "transcript")  # type: ignore[arg-type]
    program = Written(node, body)
    claims = (Claim(GDP(9), by="a test"),)
    of = Mechanism("case", "Case", "a test", program, scope, claims, SETTING)
    pair = Neighbours(*PAIRS[adjacency], adjacency, "one row")  # type: ignore[arg-type]
    suite = Suite("case", program, pair, kernels=kernels or {})
    return inspect_program(of, suite, seed=5, error=ERROR, **options)


def broken(found: Inspection) -> dict[str, tuple[str, str]]:
    return {f.check: (f.detail, f.place) for f in found.broken}


def line(function: Callable[..., Any], text: str) -> str:
    """The place of the one line of a function that holds a text."""
    source, first = inspect.getsourcelines(function)
    found = [first + i for i, row in enumerate(source) if text in row]
    assert len(found) == 1
    return f"tests/catalogue/unit/test_graybox.py:{found[0]}"


# --- a correct twin ------------------------------------------------------------------------------


def honest(curator: Curator) -> Array:
    released = curator.release("a", clipped())
    curator.coin(lambda rng: rng.random(3))
    return released + curator.release("b", clipped(np.abs(released[:, 0])))


BOTH = Compose(Gaussian("a", 1), Gaussian("b", 2))


@pytest.mark.parametrize("adjacency", PAIRS)
def test_the_correct_twin_holds_everywhere(adjacency: str) -> None:
    found = inspected(BOTH, honest, adjacency)
    assert found.broken == ()
    assert found.short == ()
    assert {f.check for f in found.findings} >= {ACCESS, CONTROL, PAIR, RECORDS, EXECUTED}
    first = {label: lines[0] for label, lines in found.places.items()}
    assert first == {
        "a": line(honest, 'curator.release("a"'),
        "b": line(honest, 'curator.release("b"'),
    }


def test_deterministic_checks_state_no_error_rate() -> None:
    rates = {f.check: f.error_rate for f in inspected(BOTH, honest).findings}
    assert rates[ACCESS] == rates[CONTROL] == rates[PAIR] == rates[RECORDS] == 0
    statistical = [rate for rate in rates.values() if rate > 0]
    assert sum(statistical) == pytest.approx(ERROR)


@pytest.mark.quality
def test_the_planted_bugs_of_the_project_are_found_and_their_twin_is_not() -> None:
    """All but the wrong declarations, which the accountant refutes; at most 1e-5 by accident."""
    flagged = {}
    for name, suite in vars(bench).items():
        if isinstance(suite, Suite) and suite.mechanism == "diff2_gd_bench":
            found = inspect_program(bench.diff2_gd_bench, suite, seed=3, error=ERROR)
            flagged[name] = {f.check for f in found.broken}
            assert all(f.place or f.error_rate for f in found.broken if "output" not in f.detail)
    assert flagged.pop("twin") == set()
    assert all(flagged.values())
    assert PAIR in flagged["b1_half_sensitivity"]
    assert RECORDS in flagged["b7_unclipped_differences"]
    assert ACCESS in flagged["b12_swapped_labels"]
    assert CONTROL in flagged["peeking"]


# --- undeclared access ---------------------------------------------------------------------------


def reaches_in(curator: Curator) -> Any:
    curator.release("a", clipped())
    return len(curator._records)


def asks_twice(curator: Curator) -> Any:
    curator.release("a", clipped())
    return curator.release("a", clipped())


def asks_for_more(curator: Curator) -> Any:
    curator.release("a", clipped())
    return curator.release("c", clipped())


@pytest.mark.parametrize(
    ("body", "text", "said"),
    [
        (reaches_in, "_records", "private '_records'"),
        (asks_twice, "return curator.release", "all 1 declared uses are spent"),
        (asks_for_more, 'release("c"', "'c' was not declared"),
    ],
)
def test_undeclared_access_is_named_with_its_line(body: Any, text: str, said: str) -> None:
    detail, place = broken(inspected(Gaussian("a", 1), body))[ACCESS]
    assert said in detail
    assert place == line(body, text)


def test_a_release_left_out_is_told_but_breaks_nothing() -> None:
    found = inspected(BOTH, lambda curator: curator.release("a", clipped()))
    assert found.broken == ()
    assert found.short == ("b: 0 of 1 made",)


# --- control flow --------------------------------------------------------------------------------


def seen_by(curator: Curator) -> list[float]:
    seen: list[float] = []

    def watching(values: Array) -> Array:
        seen.append(float(values.sum()))
        return rows(values)

    curator.release("a", ClippedMean(watching, 1.0, divisor=4.0))
    return seen


def branches(curator: Curator) -> Any:
    positive = max(seen_by(curator)) > 1
    if positive:
        curator.release("b", clipped())
    return None


def scales(curator: Curator) -> Any:
    radius = 2 + max(seen_by(curator))
    return curator.release("b", clipped(radius))


def tells(curator: Curator) -> Any:
    return max(seen_by(curator))


@pytest.mark.parametrize(
    ("body", "text", "said"),
    [
        (branches, "", "the transcript goes on ('b') (after tests/catalogue/unit/test_graybox.py:"),
        (scales, 'release("b"', "its sensitivity depends on the private records"),
        (tells, "", "the output depends on the private records"),
    ],
)
def test_what_depends_on_records_is_named(body: Any, text: str, said: str) -> None:
    found = inspected(BOTH, body)
    details = [(f.detail, f.place) for f in found.broken if f.check == CONTROL]
    assert any(said in detail for detail, _ in details)
    if body is scales:
        assert all(place == line(body, text) for _, place in details)


# --- sensitivities -------------------------------------------------------------------------------


def unclipped(records: Records) -> Array:
    return total(records) / 4


def counts(records: Records) -> Array:
    """1 for a present row that is positive: moves by at most 1."""
    return ((records.values[:, 0] > 0) & records.present).sum(keepdims=True)[None] / 1.0


def fails(records: Records) -> Array:
    if not np.isfinite(records.values).all():
        raise ValueError("a row is not finite: 17.5")
    return counts(records)


@pytest.mark.parametrize("adjacency", PAIRS)
@pytest.mark.parametrize(
    ("query", "check"),
    [
        (Stated(total, 0.9), PAIR),
        (Stated(unclipped, 0.5), RECORDS),
        (Stated(fails, 1.0), RECORDS),
        (Stated(counts, 1.0), None),
    ],
)
def test_sensitivities_on_the_pair_and_beyond(query: Stated, check: Any, adjacency: str) -> None:
    body = lambda curator: curator.release("a", query)  # noqa: E731
    found = broken(inspected(Gaussian("a", 1), body, adjacency))
    assert (check in found) if check else (found == {})
    assert not any("17.5" in detail for detail, _ in found.values())


@pytest.mark.first_case
@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_a_clipped_mean_withstands_every_hostile_record(adjacency: Adjacency, norm: Any) -> None:
    records = Records(np.random.default_rng(1).normal(size=(7, 3)))
    for radius in (0.0, 1e-3, 1.0, 1e6):
        query = clipped(radius, divisor=2.0, norm=norm)
        bound = np.broadcast_to(query.sensitivity(adjacency, 7), (2,))
        on = np.ones(2, dtype=bool)
        for batched in (False, True):
            session = (GaussianKernel if norm == "l2" else LaplaceKernel)(None, 2)
            asked = Asked("a", "x.py:1", query, records, batched, bound, on, session)
            assert probe(asked, adjacency, 6).problem == ""


def test_hostile_records_can_be_left_out() -> None:
    query = Stated(unclipped, 0.5)
    found = inspected(Gaussian("a", 1), lambda c: c.release("a", query), hostile={})
    assert RECORDS not in broken(found)
    assert found.probes == ()
    assert len(HOSTILE) > 10


# --- noise ---------------------------------------------------------------------------------------


class Half(GaussianKernel):
    def sample(self, values: Array, scale: Array, rng: Any) -> Array:
        return super().sample(values, scale / 2, rng)


def test_wrong_noise_is_named_with_the_line_of_its_label() -> None:
    found = inspected(BOTH, honest, kernels={Gaussian: Half}, trials=400)
    assert broken(found)["variance of a"][1] == line(honest, 'curator.release("a"')


# --- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"trials": 1}, {"trials": 0}])
def test_too_few_trials_are_refused(options: Any) -> None:
    with pytest.raises(InvalidParameter, match="trials"):
        inspected(BOTH, honest, **options)


def test_places_show_no_folder_of_the_user() -> None:
    found = inspected(BOTH, honest)
    shown = [place for lines in found.places.values() for place in lines]
    assert not any(Path(place).is_absolute() for place in shown)


@pytest.mark.quality
def test_broken_findings_of_an_audit_name_the_line_too() -> None:
    """A statistical finding names its label's line, a stop the line that asked."""
    scope = Scope("replace_one", "record", "central", "transcript")  # type: ignore[arg-type]
    pair = Neighbours(*PAIRS["replace_one"], scope.adjacency, "one row")
    claims = (Claim(GDP(9), by="a test"),)
    for body, kernels, where in (
        (honest, {Gaussian: Half}, line(honest, 'curator.release("a"')),
        (asks_for_more, {}, line(asks_for_more, 'release("c"')),
    ):
        program = Written(BOTH, body)
        of = Mechanism("case", "Case", "a test", program, scope, claims, SETTING)
        suite = Suite("case", program, pair, kernels=kernels)  # type: ignore[arg-type]
        found = attack(of, suite, seed=1, trials=400, error=ERROR)
        details = [f.detail for f in found.findings if f.status == "broken"]
        assert any(detail.endswith(f"({where})") for detail in details)


def largest_seen(curator: Curator) -> Any:
    """The radius is made of the largest entry, which is 1 on both data sets of the pair."""
    seen: list[float] = []

    def watching(values: Array) -> Array:
        seen.append(float(np.abs(values).max()))
        return rows(values)

    curator.release("a", ClippedMean(watching, 1.0, divisor=4.0))
    return curator.release("b", clipped(1 + max(seen)))


def test_records_outside_the_audited_pair_may_decide_nothing_either() -> None:
    found = inspected(BOTH, largest_seen)
    ((detail, place),) = [(f.detail, f.place) for f in found.broken if f.check == CONTROL]
    assert "its sensitivity depends on the private records" in detail
    assert place == line(largest_seen, 'release("b"')


@pytest.mark.quality
def test_the_rate_of_false_alarms_of_an_inspection() -> None:
    """60 nulls at 5%: 3 expected at most; 13 or more have probability below 3e-5."""
    scope = Scope("replace_one", "record", "central", "transcript")  # type: ignore[arg-type]
    program = Written(BOTH, honest)
    claims = (Claim(GDP(9), by="a test"),)
    of = Mechanism("case", "Case", "a test", program, scope, claims, SETTING)
    suite = Suite("case", program, Neighbours(*PAIRS["replace_one"], scope.adjacency, "one row"))
    found = [
        inspect_program(of, suite, seed=seed, trials=8, error=0.05, hostile={})
        for seed in range(60)
    ]
    assert sum(bool(one.broken) for one in found) < 13


def test_a_program_that_other_records_break_is_flagged_without_their_text() -> None:
    """A query that no row in place of the audited one breaks, but another row does."""

    def later(records: Records) -> Array:
        if records.values[0, 0] < -0.1:
            raise KeyError("row 17.5")
        return counts(records)

    def body(curator: Curator) -> Any:
        for _ in range(2):
            curator.release("a", Stated(later, 1.0))

    found = inspected(Repeat(Gaussian("a", 1), 2), body)
    details = [f.detail for f in found.broken if f.check == RECORDS]
    assert any("other records make the program fail (KeyError)" in detail for detail in details)
    assert not any("17.5" in detail for detail in details)
