"""The examiner: wrong programs are told from their right twins, with no suite of anybody's."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.audit.examine import Shape, examination, examine, made, study
from dpaudit.audit.examine.displacement import Asking
from dpaudit.audit.examine.examination import (
    ACCESS,
    APART,
    CLIPPED,
    CONTROL,
    GATHERED,
    KEPT,
    MOVED,
    TRIALS,
)
from dpaudit.audit.examine.lines import count_beyond
from dpaudit.audit.examine.shapes import ROWS, says_how_many
from dpaudit.audit.residuals import Finding
from dpaudit.certificate.certificate import statement
from dpaudit.certificate.evidence import ON_MORE, evidence_caveats
from dpaudit.check.assumptions import DRAWN
from dpaudit.curator.curator import Curator
from dpaudit.errors import CertificateRejected, InvalidParameter, Unsupported
from dpaudit.kernels.query import Array, ClippedMean, Norm, Records
from dpaudit.report.say import speaking, translated
from dpaudit.scope import Adjacency
from tests.support.examined import CASES, Descent, Sampled, Stepping, Windows, mechanism

MAKERS = {name: make for name, make, _, _ in CASES}


def found(program: Any, adjacency: str = "replace_one", **options: Any) -> dict[str, str]:
    """What is broken, by check: the first detail of each."""
    examination = examine(mechanism("case", program, adjacency), seed=3, **options)
    broken: dict[str, str] = {}
    for finding in examination.broken:
        broken.setdefault(finding.check, finding.detail)
    return broken


@pytest.mark.quality
@pytest.mark.long_cases("descent")
@pytest.mark.first_case
@pytest.mark.parametrize(("name", "make", "bugs", "adjacency"), CASES, ids=list(MAKERS))
def test_the_right_twin_is_left_alone(
    name: str, make: Any, bugs: tuple[str, ...], adjacency: str
) -> None:
    examination = examine(mechanism(name, make(""), adjacency), seed=3)
    assert not examination.broken
    assert not examination.not_examined
    assert all(f.tried for f in examination.findings if f.check in (MOVED, CONTROL, TRIALS, KEPT))
    certain = [f for f in examination.findings if f.check != DRAWN]
    assert all(f.error_rate == 0 for f in certain)


@pytest.mark.first_case("check")
@pytest.mark.parametrize(
    ("program", "check", "said"),
    [
        (Descent("no clip"), MOVED, "times its stated"),
        (Descent("rare round"), MOVED, "times its stated"),
        (Descent("clip to 1.001"), MOVED, "1.001"),
        (Descent("one trial"), TRIALS, "is not that of the same trial among others"),
        (Descent("many trials"), TRIALS, "is not that of the same trial among others"),
        (Descent("carry"), MOVED, "keeps what it saw of others"),
        (Stepping("private radius"), CONTROL, "its sensitivity depends on the private records"),
        (Stepping("private step"), CONTROL, "the output depends on the private records"),
        (Stepping("private threshold"), CONTROL, "the transcript"),
        (Stepping("carried to the next part"), APART, "which is not among its rows"),
        (Stepping("centred by the batch"), MOVED, "changes another record's vector"),
        (Windows("one record in two groups"), MOVED, "1.414214 times"),
    ],
    ids=lambda value: value.bug if hasattr(value, "bug") else None,
)
def test_a_bug_is_found_by_the_check_that_is_for_it(program: Any, check: str, said: str) -> None:
    first = check in (MOVED, CONTROL)  # others find these bugs too, and are asked before
    broken = [
        f.detail
        for f in examine(mechanism("case", program), seed=3, first=first).findings
        if f.status == "broken" and f.check == check
    ]
    assert any(said in detail for detail in broken), broken
    # Line, pair and factor: whoever reads the finding can go and see.
    assert all("tests/support/examined.py:" in d or "the output" in d for d in broken)


def test_a_query_that_draws_random_numbers_is_said_to_draw_them() -> None:
    program = Stepping()
    rows = program._rows(0)
    generator = np.random.default_rng(1)
    noisy = lambda values: rows(values) + generator.random() / 8  # noqa: E731
    object.__setattr__(program, "_rows", lambda part: noisy)
    details = [finding.detail for finding in examine(mechanism("case", program), seed=3).broken]
    assert any("draws random numbers" in detail for detail in details), details
    assert not any("another record's vector" in detail for detail in details)


@pytest.mark.quality
@pytest.mark.parametrize(
    ("make", "bug", "adjacency"),
    [(make, bug, adjacency) for _, make, bugs, adjacency in CASES for bug in bugs],
    ids=[f"{name}-{bug}" for name, _, bugs, _ in CASES for bug in bugs],
)
def test_every_planted_bug_is_found(make: Any, bug: str, adjacency: str) -> None:
    assert found(make(bug), adjacency)


@pytest.mark.quality
def test_absent_rows_hold_no_values() -> None:
    assert "absent" in found(Descent("absent"), "zero_out")[MOVED] or found(
        Descent("absent"), "zero_out"
    )
    assert not found(Descent("absent"), "replace_one")


# --- what a program may not do -------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Base(Descent):
    """A right program to be made wrong outside of its query."""

    seen: list[Any] = field(default_factory=list)


class Keeps(Base):
    """Keeps the records that its query saw."""

    def gradients(self, w: Array, values: Array) -> Array:
        self.seen[:] = [np.nan_to_num(values).sum()]
        return super().gradients(w, values)


class Raises(Base):
    """Fails on a record that is too large for it."""

    def gradients(self, w: Array, values: Array) -> Array:
        if np.nan_to_num(np.abs(values)).max() > 1e5:
            raise ValueError(f"record {values.max()} is too large")
        return super().gradients(w, values)


class Undeclared(Base):
    """Releases once more than it declares."""

    def run(self, curator: Curator) -> Array:
        super().run(curator)
        return curator.release("gradient", ClippedMean(lambda z: z[None, :, :4], 1.0))


class Peeks(Base):
    """Reads the records around its queries."""

    def run(self, curator: Curator) -> Array:
        return super().run(curator) + 0 * curator._records.values.sum()


@pytest.mark.quality
def test_a_program_that_keeps_what_it_saw() -> None:
    """The caveat names what the program keeps; no finding does, since no answer changes."""
    examination = examine(mechanism("case", Keeps()), seed=3)
    assert not examination.broken
    assert "Keeps.seen[0]" in examination.kept


@pytest.mark.quality
def test_a_program_that_holds_records() -> None:
    data = Records(np.random.default_rng(0).standard_normal((24, 5)))
    assert "Base.seen[0]" in found(Base(seen=[data]))[KEPT]
    rows = np.array(data.values[3:5])
    assert KEPT not in found(Base(seen=[rows]))
    assert "records of the data" in found(Base(seen=[rows]), data=data)[KEPT]


@pytest.mark.quality
@pytest.mark.parametrize("first", [True, pytest.param(False, marks=pytest.mark.quality)])
def test_a_program_that_fails_on_some_records_is_flagged_without_their_text(first: bool) -> None:
    broken = found(Raises(), first=first)
    assert "make the query fail (ValueError)" in broken[MOVED]
    assert first or "make the program fail (ValueError)" in broken[CONTROL]
    assert "too large" not in "".join(broken.values())


@pytest.mark.first_case
@pytest.mark.parametrize(("program", "said"), [(Undeclared(), "spent"), (Peeks(), "_records")])
def test_access_beside_the_declaration(program: Any, said: str) -> None:
    assert said in found(program, first=True)[ACCESS]


# --- shapes, and what cannot be examined ---------------------------------------------------------


@dataclass(frozen=True)
class Picky(Descent):
    """Runs on rows of seven groups of three only, and does not say so."""

    def run(self, curator: Curator) -> Array:
        def rows(values: Array) -> Array:
            if values.shape[1:] != (7, 3):
                raise InvalidParameter("rows of another shape")
            return np.asarray(values.reshape(1, len(values), 21)[:, :, :4])

        return curator.release("gradient", ClippedMean(rows, 1.0))


@dataclass(frozen=True)
class Refusing(Descent):
    """Refuses whatever it is given, or what it says it takes, or more than anybody makes up."""

    users: int = 30
    why: str = "always"

    def run(self, curator: Curator) -> Array:
        if self.why == "always":
            raise InvalidParameter("it cannot run")
        return curator.release("gradient", Counting(self.users))


@dataclass(frozen=True)
class Counting:
    """A query that asks for so many rows, and has too much to do with them."""

    users: int
    norm: str = "l2"

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        return np.ones(1)

    def value(self, records: Records, chosen: Any = None) -> Array:
        if len(records) == self.users:
            raise InvalidParameter("1e88 subsets of that many users")
        raise InvalidParameter(f"for {self.users} users was given {len(records)}")


def test_why_nothing_could_be_run_is_told_of_the_shape_that_the_program_asks_for() -> None:
    """The last refusal of many tries is of rows that nobody asked for, and says nothing."""
    alike = examine(mechanism("case", Refusing()), seed=1).not_examined
    assert "refused all" in alike
    assert "it cannot run" in alike
    subsets = examine(mechanism("case", Refusing(why="subsets")), seed=1).not_examined
    assert "1e88 subsets of that many users" in subsets
    many = examine(mechanism("case", Refusing(users=4_000_000, why="subsets")), seed=1).not_examined
    assert "it takes 4,000,000 rows" in many
    assert "at most 4,000,000 are made up" in many
    assert all("records_like" in text for text in (alike, subsets, many))


@pytest.mark.quality
def test_the_shape_is_found_out_or_asked_for() -> None:
    assert examine(mechanism("case", Stepping()), seed=1).shape == Shape(40, (5,))
    unknown = examine(mechanism("case", Picky()), seed=1)
    assert "records_like" in unknown.not_examined
    assert unknown.findings == ()
    hooked = replace(
        mechanism("case", Picky()),
        records_like=lambda rng: Records(rng.standard_normal((8, 7, 3))),
    )
    assert examine(hooked, seed=1).shape == Shape(8, (7, 3))
    likely = examine(mechanism("case", Picky()), seed=1, likely=Shape(9, (7, 3)))
    assert likely.shape == Shape(9, (7, 3))


def test_nothing_is_certified_plainly_without_an_examination() -> None:
    certificate = dp.certify(mechanism("case", Picky()), seed=1, trials=200)
    predicate = certificate.content["predicate"]
    assert predicate["verdict"]["reasons"][0].startswith("not examined: the program refused all")
    assert predicate["caveats"][0].startswith("not examined")
    statuses = {row["id"]: row["status"] for row in predicate["assumptions"]}
    assert set(statuses.values()) == {"declared"}
    assert certificate.verdict != "certified"
    # Nor can it be said of one that was not examined, nor that it was.
    for change in (
        lambda p: p["verdict"].update(status="certified"),
        lambda p: p["examination"].update(not_examined=""),
        lambda p: p["assumptions"][0].update(status="enforced"),
    ):
        forged = copy.deepcopy(predicate)
        change(forged)
        with pytest.raises(CertificateRejected) as rejected:
            dp.verify(statement(forged))
        assert "digest" not in str(rejected.value)


class Says(Picky):
    """Says what it takes only when it is given something else."""

    def run(self, curator: Curator) -> Array:
        def rows(values: Array) -> Array:
            if values.shape[1:] != (13, 2):
                raise InvalidParameter(f"rows of {values.shape[1:]}: expected (13, 2)")
            return np.asarray(values.reshape(1, len(values), 26)[:, :, :4])

        return curator.release("gradient", ClippedMean(rows, 1.0))


def test_a_refusal_that_says_what_it_takes_is_heard() -> None:
    assert examine(mechanism("case", Says()), seed=1).shape == Shape(ROWS, (13, 2))


@pytest.mark.quality
def test_the_same_seed_finds_the_same() -> None:
    one, two = (examine(mechanism("case", Windows()), seed=9) for _ in range(2))
    assert (one.findings, one.reached) == (two.findings, two.reached)


@pytest.mark.quality
def test_what_the_own_loss_reaches_of_its_clip() -> None:
    @dataclass(frozen=True)
    class Bounded(Descent):
        def run(self, curator: Curator) -> Array:
            def rows(values: Array) -> Array:
                x = np.nan_to_num(values)[None, :, :4]
                return np.asarray(
                    0.25 * x / np.maximum(1e-9, np.linalg.norm(x, axis=-1)[..., None])
                )

            return curator.release("gradient", ClippedMean(rows, 1.0))

    examination = examine(mechanism("case", Bounded()), seed=1)
    (reached,) = examination.reached
    assert reached.clip == pytest.approx(0.25)
    assert reached.displacement == pytest.approx(0.25)
    assert any(f.check == CLIPPED and f.status == "held" for f in examination.findings)
    # A clipped row is a row: whose it is, nobody knows.
    assert any(f.check == GATHERED and f.status == "not_run" for f in examination.findings)
    own = examine(mechanism("case", Sampled(), "add_remove"), seed=1)
    assert any(f.check == CLIPPED and f.status == "not_run" for f in own.findings)


def test_a_kernel_that_takes_one_law_at_a_time_is_asked_pair_by_pair() -> None:
    class OneLaw:
        def apart(self, one: Array, two: Array, stated: Array) -> Array:
            if len(one) > 1:
                raise Unsupported("one law for all trials")
            return np.abs(one - two).sum(axis=1)

    session: Any = OneLaw()
    asking = Asking("a", "", session, session, np.ones(1), np.ones(1, bool), Adjacency.ADD_REMOVE)
    values = [np.array([[0.0]]), np.array([[0.5]]), np.array([[3.0]])]
    assert asking.factors([values[0]] * 2, values[1:]).tolist() == [0.5, 3.0]


class GrowsWithItsPoint:
    """Two sums: the second is not clipped, and long only where the first answer is far away."""

    def __init__(self, clipped: bool) -> None:
        self.clipped = clipped

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Compose(dp.Gaussian("first", 2), dp.Gaussian("second", 2))

    def run(self, curator: dp.Curator) -> Array:
        at = curator.release("first", dp.clipped_sum(lambda v: np.tanh(v[None, :, :1]), 1.0))
        return curator.release("second", Grown(at, self.clipped))


@dataclass(frozen=True)
class Grown:
    at: Array
    clipped: bool
    norm: Any = "l2"

    def value(self, records: Records, chosen: Any = None) -> Array:
        x = np.tanh(np.nan_to_num(records.values[:, :1])) * records.present[:, None]
        rows = 0.004 * self.at[:, None] * x[None]
        return np.asarray((np.clip(rows, -1, 1) if self.clipped else rows).sum(axis=1))

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        return np.array(2.0)


class Widens:
    """Each sum's radius is the size of the last answer, and so is its noise."""

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Repeat(dp.Gaussian("sum", 2), 8)

    def run(self, curator: dp.Curator) -> Array:
        radius = np.ones(curator.trials)
        for _ in range(8):
            rows = dp.clipped_sum(lambda v: v[None, :, :1], radius)
            radius = np.abs(curator.release("sum", rows)[:, 0])
        return radius


@pytest.mark.parametrize("furthest", [1e6, np.inf])
def test_far_answers_stay_where_floats_tell_records_apart(
    furthest: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Differences of a network's gradients at points of 1e24 were found to depend on all rows."""
    monkeypatch.setattr(study, "FURTHEST", furthest)
    records, scope = Records(np.ones((3, 1))), dp.central("zero_out")
    declared = Widens().declaration(scope)
    rng = np.random.default_rng(1)
    far = study.Louder(declared, scope, records, rng=rng, far=1e3)
    assert bool(Widens().run(far).max() < 1e12) is (furthest < np.inf)


class Present:
    """A clipped sum that keeps how many records are not zero."""

    norm: Norm = "l2"

    def __init__(self, program: Crowded) -> None:
        self.program = program

    def value(self, records: Records, chosen: Any = None) -> Array:
        rows = np.nan_to_num(records.values) * records.present[:, None]
        self.program.count = int(rows.any(axis=1).sum())
        return np.asarray(np.clip(rows, -1, 1).sum(axis=0)[None, :1])

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        return np.array(2.0 if adjacency is Adjacency.REPLACE_ONE else 1.0)


class Crowded:
    """Five sums; it stops after more than ``most`` records that are not zero, or never."""

    def __init__(self, most: int | None) -> None:
        self.most = most
        self.count = 0

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Repeat(dp.Gaussian("sum", 4), 5)

    def run(self, curator: Curator) -> Array:
        total = np.zeros((curator.trials, 1))
        for _ in range(5):
            self.count = 0
            asked = Present(self if self.most else Crowded(None))
            total = total + curator.release("sum", asked)
            if self.most and self.count > self.most:
                break
        return total


@pytest.mark.parametrize(
    "adjacency",
    [
        "zero_out",
        *(pytest.param(a, marks=pytest.mark.quality) for a in ("add_remove", "replace_one")),
    ],
)
@pytest.mark.quality
def test_a_count_that_few_records_never_reach(
    adjacency: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stops above 162 of them, where 40 are made up unless its numbers say more."""
    assert CONTROL in found(Crowded(162), adjacency)
    assert not found(Crowded(None), adjacency)
    monkeypatch.setattr(examination, "count_beyond", lambda program, rows: 0)
    stopped = found(Crowded(162), adjacency)
    assert not any("stop" in text or "diverge" in text for text in stopped.values())
    assert CONTROL not in stopped


@pytest.mark.first_case
@pytest.mark.parametrize(("adjacency", "tried"), [("add_remove", True), ("zero_out", False)])
def test_a_known_shape_says_no_private_number_of_records(
    adjacency: str, tried: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The data's rows are known; how many there are is private where records come and go."""
    monkeypatch.setattr(
        examination,
        "_of_more_rows",
        lambda *_: ((Finding(CONTROL, "broken", 1.0, 0.0, "it stops"),), ""),
    )
    broken = found(Crowded(162), adjacency, shape=Shape(40, (1,)), seconds=2)
    assert (CONTROL in broken) == tried


CROWD = 162  # records of which a query looks at no more


class Fixed:
    """Concordant pairs of the records that are made up; a number of its code is 162."""

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Laplace("pairs", 4)

    def run(self, curator: Curator) -> Array:
        return curator.release("pairs", Concordance())


class Sized(Fixed):
    """The same, which says for how many records it is."""

    def __init__(self) -> None:
        self.size = ROWS


class Concordance:
    norm: Norm = "l1"

    def value(self, records: Records, chosen: Any = None) -> Array:
        x = np.nan_to_num(records.values[:CROWD, 0])
        return np.asarray(np.triu(np.sign(x[:, None] - x), 1).sum().reshape(1, 1))

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        return np.array(2.0 * (ROWS - 1))


@pytest.mark.quality
def test_a_program_for_one_public_number_of_records_is_tried_on_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two right programs of other tests were flagged on 200 rows, where they were for 24.

    Of a program that says for how many it is, not even its control flow is looked at on more.
    """
    assert not found(Fixed(), "replace_one")
    assert count_beyond(Fixed(), ROWS) >= 162
    examiner = examination._of_more_rows
    seen: list[Any] = []
    moved = Finding(MOVED, "broken", 1.0, 0.0, "too far")
    fails = Finding(CONTROL, "broken", 1.0, 0.0, f"{examination.FAIL} (IndexError)")
    stops = Finding(CONTROL, "broken", 1.0, 0.0, "it stops")

    listed = (moved, fails, stops)
    far: Any = SimpleNamespace(label="pairs", factor=3.0, place="")
    tried: Any = SimpleNamespace(
        moved={0: far}, examination=lambda _: SimpleNamespace(broken=listed)
    )

    def on_others(*given: Any) -> Any:
        seen.append(given)
        return tried

    monkeypatch.setattr(examination, "_on", on_others)

    def told(program: Any, adjacency: str) -> tuple[tuple[Finding, ...], str]:
        made = mechanism("fixed", program, adjacency)
        sized = says_how_many(program, made.declaration, made.scope)
        first: Any = SimpleNamespace(shape=Shape(ROWS, (3,)), sized=sized)
        return examiner(made, 1, first)

    assert told(Fixed(), "replace_one") == told(Fixed(), "zero_out") == ((stops,), "")
    assert told(Fixed(), "add_remove") == (listed, "")
    assert told(Sized(), "replace_one") == ((), "")
    assert len(seen) == 3
    listed = (moved, fails)
    faults, remark = told(Fixed(), "replace_one")
    assert faults == ()
    assert remark.startswith(f"on {2 * CROWD} records release 'pairs' moves its query by 3 times")


HEAD = 60  # records that are counted once; the others count four times


class FewCountedOnce:
    """A sum that is right on as few records as are made up."""

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Gaussian("sum", 2)

    def run(self, curator: Curator) -> Array:
        def total(rows: Array) -> float:
            ages = np.clip(rows[:, 0], 0, 1)
            return float(ages[:HEAD].sum() + 4 * ages[HEAD:].sum())

        return curator.release("sum", dp.Statistic(total, sensitivity=1))


def test_what_more_records_break_is_said_where_nothing_says_how_many_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without the larger number of records nothing is seen."""
    public = mechanism("head", FewCountedOnce(), "replace_one")
    examined = examine(public, seed=3)
    assert not examined.broken
    (caveat,) = (c for c in evidence_caveats(examined, [], "auto") if c.startswith(ON_MORE))
    assert f"on {2 * HEAD} records release 'sum' moves its query by 4 times" in caveat
    assert "test_examine.py:" in caveat
    for language, start in (("de", "nichts sagt, für wie viele"), ("fr", "rien ne dit pour")):
        with speaking(language):
            assert translated(caveat).startswith(start)
    monkeypatch.setattr(examination, "count_beyond", lambda *_: 0)
    assert not examine(public, seed=3).on_more


def test_far_rows_are_tried_where_one_record_in_a_hundred_thousand_is_little() -> None:
    """Rows along what the others add up to, of either sign; random ones that are not parallel."""
    rng = np.random.default_rng(1)
    world = made.worlds_of(Shape(60, (4,)), rng)[0].values
    along = [row for name, row in made.across(world).items() if "along the others" in name]
    total = world[:, :-1].T @ world[:, -1]
    assert [row[-1] for row in along] == [1, -1]
    assert all(row[:-1] @ total == pytest.approx(1e3 * np.linalg.norm(total)) for row in along)
    rows = made.rows_of(Shape(60, (4,)), rng)
    other = [row[:-1] for name, row in rows.items() if "another random row" in name]
    units = np.array([row / np.linalg.norm(row) for row in other])
    assert np.abs(np.tril(units @ units.T, -1)).max() < 0.99


def test_a_row_changed_is_sought_in_the_kinds_that_were_known() -> None:
    """As if they had been sought anew: of a new row, a known one, the last of its kind, NaN."""
    values = np.array([[1.0, 2], [1, 2], [3, 4], [np.nan, 0]])
    for row, new in [(0, [5.0, 5]), (2, [1.0, 2]), (2, [7.0, 7]), (1, [-0.0, 0]), (0, [np.nan, 0])]:
        changed = Records(values).with_row(row, np.array(new))
        anew = Records(changed.values)
        assert np.array_equal(changed.values, anew.values, equal_nan=True)
        kinds, origin = changed.distinct()
        assert np.array_equal(kinds[origin], anew.values, equal_nan=True)
        assert len(kinds) == len(anew.distinct()[0])


@pytest.mark.quality
def test_other_records_are_walked_however_much_was_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """A private radius shows on other records alone, and a hundred thousand use up the work."""
    monkeypatch.setattr(examination, "OTHERS", 0.0)
    assert CONTROL in found(Stepping("private step"))


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("clipped", [True, False])
def test_a_clip_that_ordinary_answers_never_reach(
    clipped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = mechanism("far", GrowsWithItsPoint(clipped), "zero_out")
    assert bool(examine(made, seed=1).broken) is not clipped
    monkeypatch.setattr(examination, "FAR", ())
    assert not examine(made, seed=1).broken
