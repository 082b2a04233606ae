"""How far an examination has to reach before it supports a certificate."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.audit.examine import examine, search, shapes
from dpaudit.audit.examine.examination import MOVED
from dpaudit.check.reach import FEWEST_RECORDS, UNEXAMINED
from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array, Norm, Records
from dpaudit.report import words
from dpaudit.scope import Adjacency
from tests.support.examined import mechanism


@dataclass(frozen=True, eq=False)
class WeightedSum:
    """A sum of clipped residuals of a model with ``weights`` (trials, d), centred by the data."""

    weights: Array
    centred: bool

    @property
    def norm(self) -> Norm:
        return "l2"

    def value(self, records: Records, chosen: Any = None) -> Array:
        rows = np.nan_to_num(records.values, posinf=0.0, neginf=0.0).clip(-1e9, 1e9)
        rows = rows - rows.mean(axis=0) if self.centred else rows
        length = np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))
        kept = rows / length * records.present[:, None]
        total: Array = kept.sum(axis=0)[None] + 0 * self.weights
        return total

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        return np.array(2.0 if adjacency is Adjacency.REPLACE_ONE else 1.0)


@dataclass(frozen=True, eq=False)
class Fit:
    """One noisy step of a model of five weights."""

    centred: bool

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Gaussian("gradient", noise_multiplier=2)

    def run(self, curator: dp.Curator) -> Array:
        weights = np.zeros((curator.trials, 5))
        return curator.release("gradient", WeightedSum(weights, self.centred))


# --- the records that are made -------------------------------------------------------------------


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("adjacency", ["replace_one", "add_remove", "zero_out"])
def test_a_field_called_weights_says_nothing_of_the_number_of_records(adjacency: str) -> None:
    wrong = examine(mechanism("fit", Fit(centred=True), adjacency), seed=1)
    assert wrong.shape is not None
    assert wrong.shape.rows >= FEWEST_RECORDS
    assert MOVED in {finding.check for finding in wrong.broken}
    right = examine(mechanism("fit", Fit(centred=False), adjacency), seed=1)
    assert not right.not_examined
    assert not right.broken


@pytest.mark.quality
def test_taken_for_weights_of_records_it_hides_the_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "ClippedMean", WeightedSum)
    found = examine(mechanism("fit", Fit(centred=True)), seed=1)
    assert found.shape is not None
    assert found.shape.rows == 1


# --- hooks ---------------------------------------------------------------------------------------


def nothing(rng: np.random.Generator) -> Any:
    return np.zeros((8, 5))


def no_row(rng: np.random.Generator) -> Records:
    return Records(np.zeros((0, 5)))


@pytest.mark.parametrize(
    ("hook", "said"),
    [
        (nothing, "fit: its records_like hook returned ndarray; return dpaudit.Records(rows)"),
        (lambda rng: None, "returned NoneType"),
        (no_row, "raised InvalidParameter: Records: shape (0, 5)"),
        (lambda rng: rng.nothing(), "raised AttributeError (tests/library/unit/"),
    ],
)
def test_a_hook_that_makes_no_records_is_refused_before_anything_runs(hook: Any, said: str) -> None:
    made = replace(mechanism("fit", Fit(centred=False)), records_like=hook)
    with pytest.raises(InvalidParameter, match=re.escape(said)):
        examine(made, seed=1)


def test_data_of_another_type_are_refused_by_name() -> None:
    rows: Any = np.zeros((8, 5))
    made = replace(mechanism("fit", Fit(centred=False)), records=lambda: rows)
    with pytest.raises(InvalidParameter, match="fit: its records hook returned ndarray"):
        made.load()


# --- the verdict ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Joined:
    """A count of rows whose key is on a list; ``listed`` keys are met by chance, or by the hook."""

    listed: float = 123_456.25
    share: float = 1.0

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Gaussian("joined", noise_multiplier=2)

    def run(self, curator: dp.Curator) -> Array:
        def rows(values: Array) -> Array:
            # A copy to a plain array hides the comparison from the examiner.
            plain = np.asarray(values[:, 0])
            kept = np.abs(plain - np.floor(self.listed) - 0.25) < 1e-6
            return np.asarray(self.share * kept[None, :, None])

        return curator.release("joined", dp.clipped_sum(rows, radius=1))


def keyed(rng: np.random.Generator) -> Records:
    return Records(np.where(rng.random((30, 2)) < 0.5, 123_456.25, 7.0))


def verdict_of(program: Any, **changes: Any) -> dp.Certificate:
    made = replace(mechanism("joined", program, "zero_out"), **changes)
    return dp.certify(made, seed=1)


@pytest.mark.quality
def test_a_query_that_no_record_moved_is_unconfirmed_and_said_first() -> None:
    found = verdict_of(Joined())
    assert found.verdict == "unconfirmed"
    first = found.content["predicate"]["caveats"][0]
    assert first.startswith("not examined: release 'joined' (ClippedMean, ")
    assert "no record moved its query; a records_like hook" in first
    assert found.content["predicate"]["verdict"]["reasons"][0] == first
    assert "Not examined: release" in found.page()


LISTED = sha256(np.float64(123_456.25).tobytes()).hexdigest()[:12]


@dataclass(frozen=True, eq=False)
class Heavy:
    """A sum in which a row whose key has the listed digest counts 38 times: wrong."""

    norm: Norm = "l2"

    def value(self, records: Records, chosen: Any = None) -> Array:
        digests = [sha256(key.tobytes()).hexdigest() for key in records.values[records.present, 0]]
        return np.array([[38.0 * sum(digest.startswith(LISTED) for digest in digests)]])

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        return np.array(1.0)


@dataclass(frozen=True, eq=False)
class Wrong(Joined):
    """Releases it; only records of the hook show what is wrong."""

    listed: float = 0.0

    def run(self, curator: dp.Curator) -> Array:
        return curator.release("joined", Heavy())


@pytest.mark.quality
def test_without_the_rule_a_wrong_program_that_nothing_moved_is_certified(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert verdict_of(Wrong(), records_like=keyed).verdict == "alarm"
    assert verdict_of(Wrong()).verdict == "unconfirmed"
    for module in ("certificate.evidence", "check.claims", "check.conformance"):
        monkeypatch.setattr(f"dpaudit.{module}.gaps", lambda *_: [])
    assert verdict_of(Wrong()).verdict == "certified under assumptions"


@pytest.mark.quality
def test_a_hook_that_makes_such_records_confirms_it() -> None:
    found = verdict_of(Joined(), records_like=keyed)
    assert found.verdict == "certified under assumptions"


@pytest.mark.quality
def test_an_author_may_say_why_no_record_moves_it_further() -> None:
    short = verdict_of(Joined(share=0.1), records_like=keyed)
    assert short.verdict == "unconfirmed"
    assert "moved its query by 10% of what is stated" in short.content["predicate"]["caveats"][0]
    why = "at most a tenth: every row is a tenth long"
    said = verdict_of(Joined(share=0.1), records_like=keyed, reaches={"joined": why})
    assert said.verdict == "certified under assumptions"
    assert any(why in text for text in said.content["predicate"]["caveats"])
    # What was never moved was not examined, whatever is said of it.
    assert verdict_of(Joined(), reaches={"joined": why}).verdict == "unconfirmed"


def test_reaches_of_another_label_is_refused() -> None:
    with pytest.raises(InvalidParameter, match=r"reaches\['other'\]: the declaration releases"):
        verdict_of(Joined(), reaches={"other": "at most a tenth"})


def test_a_program_that_ran_on_nothing_is_unconfirmed() -> None:
    @dataclass(frozen=True)
    class Refusing(Joined):
        def run(self, curator: dp.Curator) -> Array:
            raise ValueError("subsets")

    found = verdict_of(Refusing())
    assert found.verdict == "unconfirmed"
    assert found.content["predicate"]["caveats"][0].startswith("not examined: the program refused")


@pytest.mark.first_case
@pytest.mark.parametrize("rows", [4, 5])
def test_fewer_than_five_records_confirm_nothing(rows: int) -> None:
    def hook(rng: np.random.Generator) -> Records:
        return Records(np.full((rows, 2), 123_456.25))

    found = verdict_of(Joined(), records_like=hook)
    assert (found.verdict == "unconfirmed") == (rows < FEWEST_RECORDS)


def test_the_page_and_the_checker_say_it_in_the_same_words() -> None:
    assert words.UNEXAMINED == UNEXAMINED


# --- data sets of the hook, drawn afresh ---------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Children:
    """How many rows have their parent in the data; one parent may have them all."""

    @property
    def norm(self) -> Norm:
        return "l2"

    def value(self, records: Records, chosen: Any = None) -> Array:
        rows = np.nan_to_num(records.values[records.present, 0], posinf=0.0, neginf=0.0)
        found = np.isin(rows[rows != 0], np.sin(1_000 * rows)).sum()
        return np.array([[float(found)]])

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        return np.array(1.0)


@dataclass(frozen=True)
class Families:
    """One noisy number of children."""

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Gaussian("children", noise_multiplier=2)

    def run(self, curator: dp.Curator) -> Array:
        return curator.release("children", Children())


def families(rng: np.random.Generator) -> Records:
    """One data set in thirty has a parent."""
    rows = rng.standard_normal((12, 2))
    if rng.random() < 1 / 30:
        rows[1:, 0] = np.sin(1_000 * rows[0, 0])
    return Records(rows)


@pytest.mark.quality
@pytest.mark.long("what is found at the end of an examination")
@pytest.mark.whole_work
@pytest.mark.first_case
@pytest.mark.parametrize("adjacency", ["add_remove", "zero_out"])
def test_records_that_belong_together_are_met_in_data_sets_drawn_afresh(
    adjacency: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without them, the steps of the search find such a data set later, or not at all."""
    made = replace(mechanism("children", Families(), adjacency), records_like=families)
    drawn = "of its records_like hook, moves the query by 11 times"
    assert any(drawn in finding.detail for finding in examine(made, seed=1).broken)
    monkeypatch.setattr(search, "DRAWN_SETS", 0)
    assert not any(drawn in finding.detail for finding in examine(made, seed=1).broken)
