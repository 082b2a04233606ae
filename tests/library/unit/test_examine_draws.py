"""Noise that comes from elsewhere, twice or not at all, and questions that follow the records.

Each check is deleted once, and then nothing is found: it is this check that finds it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.audit.examine import displacement, examination, examine, search, study, walks
from dpaudit.audit.examine.examination import ACCESS, CONTROL, MOVED
from dpaudit.kernels.query import Array, Records
from dpaudit.mutate.wrong import Reseeding, Silencing, _Silent
from dpaudit.scope import Adjacency
from tests.support.examined import Sampled, mechanism

ROUNDS = 6


class Rewinding(Reseeding):
    """The curator's own generator, set back to where it was before the first release."""

    first: Any = None

    def generator(self, right: Any) -> Any:
        self.first = self.first or right.bit_generator.state
        right.bit_generator.state = self.first
        return right


class Quiet(Reseeding):
    """The curator's own generator, of which one release's numbers are all zero."""

    def generator(self, right: Any) -> Any:
        return _Silent(right) if not self.curator.asked else right


class Means:
    """Noisy means, as many as are declared, asked of a curator that a test made wrong."""

    def __init__(self, wrong: Callable[[Any], Any] | None = None) -> None:
        self.wrong = wrong

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Repeat(dp.Gaussian("mean", 3), ROUNDS)

    def run(self, curator: dp.Curator) -> Array:
        # Only where the examination studies it: walks draw nothing.
        studied = self.wrong if isinstance(curator, study.Studied) else None
        asked: Any = curator if studied is None else studied(curator)
        query = dp.ClippedMean(lambda values: values[None, :, :4], 1.0, divisor=20)
        return np.asarray(sum(asked.release("mean", query) for _ in range(ROUNDS)))


def of(program: Any, check: str, adjacency: str = "zero_out") -> list[str]:
    """What one check of an examination found to be broken."""
    seen = examine(mechanism("draws", program, adjacency), seed=2)
    return [f.detail for f in seen.broken if f.check == check]


FRESH, REPEATED = "_fresh", "repeated"


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("wrong", "deleted", "said"),
    [
        (Reseeding, (FRESH, REPEATED), "not drawn from the generator that the curator was given"),
        (Reseeding, (FRESH, REPEATED), "noise of an earlier release again"),
        (Rewinding, (REPEATED,), "noise of an earlier release again"),
        (Silencing, (FRESH,), "one of its rounds has no noise"),
        (Quiet, (FRESH,), "one of its rounds has no noise"),
    ],
)
def test_noise_of_another_generator_again_or_none(
    wrong: Any, deleted: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert any(said in text for text in of(Means(wrong), ACCESS))
    for name in deleted:
        monkeypatch.setattr(study.Studied, name, lambda *given: None)
    assert not of(Means(wrong), ACCESS)


@pytest.mark.quality
def test_noise_as_it_is_declared_is_left_alone() -> None:
    """False alarm of equal noise: below 1e-11."""
    assert not examine(mechanism("draws", Means(), "zero_out"), seed=2).broken


@pytest.mark.quality
def test_the_curator_s_own_dictionary_is_private() -> None:
    class Looks(Means):
        def run(self, curator: dp.Curator) -> Array:
            return super().run(curator) + 0.0 * vars(curator)["_records"].values.sum()

    assert "'__dict__'" in of(Looks(), ACCESS)[0]


# --- questions ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Sums:
    """A sum in a direction that the last answer gives, or that the records do.

    Every single question keeps to its sensitivity; only what is asked tells of the records.
    """

    private: bool

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Repeat(dp.Gaussian("sum", 3), 2)

    def run(self, curator: dp.Curator) -> Array:
        seen: list[float] = []
        first = curator.release("sum", dp.clipped_sum(self.noting(seen), 1.0))
        turn = np.sign(seen[-1]) if self.private else np.sign(first[:, 0])
        side = np.broadcast_to(turn, (curator.trials,))[:, None, None]
        curator.release("sum", dp.clipped_sum(lambda v: side * np.tanh(v[None, :, :1]), 1.0))
        return np.zeros(curator.trials)

    @staticmethod
    def noting(seen: list[float]) -> Callable[[Array], Array]:
        def rows(values: Array) -> Array:
            seen.append(float(np.nan_to_num(values[:, 1]).sum()))
            return np.asarray(np.tanh(values[None, :, :1]))

        return rows


@pytest.mark.quality
def test_what_is_asked_follows_answers_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "what it asks depends on the private records beyond what was released"
    assert not of(Sums(private=False), CONTROL)
    assert any(said in text for text in of(Sums(private=True), CONTROL))
    monkeypatch.setattr(walks, "otherwise_asked", lambda *walked: ())
    assert not of(Sums(private=True), CONTROL)


@dataclass(frozen=True, eq=False)
class Kinds:
    """How many different records there are, which one record moves by one; it keeps their sum."""

    seen: list[float]
    norm: Any = "l2"

    def value(self, records: Records, chosen: Any = None) -> Array:
        self.seen.append(float(np.nan_to_num(records.values).sum()))
        return np.array([[len(np.unique(np.nan_to_num(records.values), axis=0))]], dtype=float)

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        return np.array(1.0)


@dataclass(frozen=True)
class Agreeing:
    """Gives something out only where nearly all records are the same."""

    private: bool

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Gaussian("kinds", "0.2")

    def run(self, curator: dp.Curator) -> Array:
        seen: list[float] = []
        found = curator.release("kinds", Kinds(seen))[:, 0]
        given = np.tanh(seen[-1]) if self.private else found
        return np.where(found < 3, given, 0.0)


@pytest.mark.quality
def test_what_is_given_out_only_where_records_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "the output depends on the private records"
    monkeypatch.setattr(examination._Examiner, "_tied", lambda *given: None)
    monkeypatch.setattr(examination._Examiner, "_loud", lambda *given: None)
    assert not of(Agreeing(private=False), CONTROL, "replace_one")
    assert any(said in text for text in of(Agreeing(private=True), CONTROL, "replace_one"))
    monkeypatch.setattr(examination, "ALONG", examination.ALONG[:2])
    assert not of(Agreeing(private=True), CONTROL, "replace_one")


# --- records that pull a minimiser apart ----------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Ridge:
    """The minimiser of a ridge logistic loss; ``share``: of its sensitivity that is stated."""

    share: float
    modulus: float = 0.5
    norm: Any = "l2"

    def value(self, records: Records, chosen: Any = None) -> Array:
        values = np.nan_to_num(records.values, posinf=1e6, neginf=-1e6)
        x = values[:, :-1] * np.where(values[:, -1:] > 0, -1.0, 1.0)
        x = np.sqrt(10) * x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), np.sqrt(10))
        w = np.zeros(x.shape[1])
        for _ in range(120):
            pull = 1 / (1 + np.exp(-(x @ w)))
            w = w - (pull @ x / len(x) + self.modulus * w) / (self.modulus + 2.5)
        return np.asarray(w[None])

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        return np.array(self.share * 2 * np.sqrt(10) / (self.modulus * size))


@dataclass(frozen=True)
class Fitted:
    """One noisy minimiser."""

    share: float
    features: int = 11

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return dp.Gaussian("fit", 3)

    def run(self, curator: dp.Curator) -> Array:
        return curator.release("fit", Ridge(self.share))


@pytest.mark.quality
def test_rows_that_pull_a_minimiser_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of what is stated is too little: no other rows say so of a query too slow to search."""
    monkeypatch.setattr(search.Search, "run", lambda *given: None)
    assert not of(Fitted(1.0), examination.MOVED, "replace_one")
    assert of(Fitted(0.5), examination.MOVED, "replace_one")
    monkeypatch.setattr(study, "across", lambda world: {})
    assert not of(Fitted(0.5), examination.MOVED, "replace_one")


@pytest.mark.quality
def test_an_examination_that_stops_at_the_first_finding() -> None:
    made = mechanism("draws", Means(Silencing), "zero_out")
    first, whole = (examine(made, seed=2, first=first) for first in (True, False))
    assert {f.detail for f in first.broken} <= {f.detail for f in whole.broken}
    assert first.broken
    assert first.pair is None is not whole.pair
    right = mechanism("draws", Means(), "zero_out")
    one, two = (examine(right, seed=2, first=first) for first in (True, False))
    assert one.findings == two.findings


# --- batches -------------------------------------------------------------------------------------


@pytest.mark.quality
def test_a_query_of_other_records_than_its_secret_batch_s_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each row moves it by what is stated, in the batch or not: nothing is hidden by sampling."""
    asked = mechanism("case", Sampled("not on the batch"), "add_remove")

    def said() -> list[str]:
        found = examine(asked, seed=1).findings
        return [f.detail for f in found if f.check == MOVED and f.status == "broken"]

    found = said()
    assert found
    assert all("a record outside the secret batch moves the query" in detail for detail in found)
    monkeypatch.setattr(displacement, "OUTSIDE", 0)
    assert not said()
