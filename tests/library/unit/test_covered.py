"""A metric is covered if it is computed from what was released: by data flow the tool controls."""

from __future__ import annotations

import copy
import functools
import gc
import pickle
import string
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpaudit.certificate.certify import certify
from dpaudit.certificate.covered import Shut, shut
from dpaudit.certificate.on_data import run_once
from dpaudit.certificate.order import Options, Order
from dpaudit.curator.curator import Curator, Event
from dpaudit.curator.guarded import Guarded, Withheld
from dpaudit.curator.mechanism import Metric
from dpaudit.errors import Diverged, Undeclared
from dpaudit.families.additive import Gaussian
from dpaudit.families.opaque import GDP
from dpaudit.kernels.query import Array, ClippedMean, Records
from dpaudit.nodes import Node
from dpaudit.scope import Scope
from tests.library.cli.bench import mechanism, rows, scope

VALUES = np.linspace(-0.9, 0.7137, 12)[:, None]
RAW = float(VALUES.mean())
LEFT: list[Any] = []


def records() -> Records:
    return Records(VALUES.copy())


@functools.cache
def loaded() -> Array:
    return np.loadtxt(Path(__file__).with_name("values.csv"))


@dataclass
class Program:
    """Releases a noisy mean; the output also holds what a leak gives."""

    leak: Callable[[Curator], float] = lambda curator: 0.0
    seen: dict[str, float] = field(default_factory=dict)

    def declaration(self, scope: Scope) -> Node:
        return Gaussian("mean", 2)

    def query(self) -> Any:
        return ClippedMean(rows, radius=1.0)

    def run(self, curator: Curator) -> dict[str, float]:
        released = curator.release("mean", self.query())
        coin = curator.coin(lambda rng: rng.random(curator.trials))
        return {"released": float(released[0, 0] + 0 * coin[0]), "leak": self.leak(curator)}


class Keeps(Program):
    """Its query keeps the rows that it sees."""

    def query(self) -> Any:
        def kept(values: Array) -> Array:
            if len(values) == len(VALUES) and values.any():
                self.seen["mean"] = float(values.mean())
            return rows(values)

        return ClippedMean(kept, radius=1.0)

    def run(self, curator: Curator) -> dict[str, float]:
        found = super().run(curator)
        return {**found, "leak": self.seen.get("mean", 0.0)}


class KeepsAside(Keeps):
    """The same, in a list of its module."""

    def run(self, curator: Curator) -> dict[str, float]:
        found = super().run(curator)
        LEFT.append(found["leak"])
        return {**found, "leak": LEFT[-1]}


class KeepsInItsClass(Keeps):
    """The same, as an attribute of its class."""

    kept = 0.0

    def run(self, curator: Curator) -> dict[str, float]:
        found = super().run(curator)
        if found["leak"]:
            type(self).kept = found["leak"]
        return {**found, "leak": self.kept}


def by_a_frame(curator: Curator) -> float:
    """Records in a local variable of a caller, whatever its name."""
    frame: Any = sys._getframe()
    while frame is not None:
        for held in list(frame.f_locals.values()):
            if isinstance(held, Records):
                return float(held.values.mean())
        frame = frame.f_back
    return 0.0


def by_the_collector(curator: Curator, *young: int) -> float:
    known = [one for k in young for one in gc.get_objects(k)] if young else gc.get_objects()
    held = [one for one in known if isinstance(one, Records) and len(one) == 12]
    return max((float(abs(one.values).max()) for one in held), default=0.0)


def among_the_young(curator: Curator) -> float:
    """Where records are found that were just made, in a hundredth of the time."""
    return by_the_collector(curator, 0, 1)


def both(output: dict[str, float]) -> tuple[Metric, ...]:
    return (
        Metric("released", output["released"], True),
        Metric("the raw mean", output["leak"], True),
    )


def run(program: Program, evaluate: Any = both, **options: Any) -> tuple[dict[str, Any], list[str]]:
    """Metrics by name, and the notes, of a run on the data before which nothing was tried."""
    base = mechanism("case", Gaussian("mean", 2), GDP(1), records=records)
    case = replace(base, program=program, evaluate=evaluate)
    body = run_once(case, Options(seed=3, **options))
    return {row["name"]: row for row in body["metrics"]}, body["notes"]


@pytest.mark.quality
def test_the_raw_mean_is_not_printed_without_a_suite() -> None:
    """It was, as covered: now the examination stops it, and the run leaves it out."""
    base = mechanism("case", Gaussian("mean", 2), GDP(1), records=records)
    case = replace(base, program=Program(among_the_young), evaluate=both)
    (found,) = certify([Order(case, None, "project", {})], Options(seed=3, targets=("case",)))
    assert found.certificate["predicate"]["run"] is None
    assert f"{RAW:.6g}" not in str(found.certificate)
    case = replace(case, evaluate=of_an_array, program=Program())
    (found,) = certify([Order(case, None, "project", {})], Options(seed=3, targets=("case",)))
    assert found.certificate["predicate"]["run"]["metrics"] == []
    assert f"{RAW:.6g}" not in str(found.certificate)


def test_a_metric_of_the_releases_is_covered() -> None:
    shown, notes = run(Program())
    assert shown["released"]["covered"]
    assert shown["the raw mean"]["covered"]
    assert not any("not known" in note for note in notes)


class Silent(Program):
    """Gives nothing but its releases."""

    def run(self, curator: Any) -> Any:
        super().run(curator)


def test_no_output_is_none_without_the_records_as_well() -> None:
    _, notes = run(Silent(), lambda _: ())
    assert not any("not known" in note for note in notes)


def test_no_frame_around_a_program_holds_the_records() -> None:
    shown, _ = run(Program(by_a_frame))
    assert float(shown["the raw mean"]["value"]) == 0


@pytest.mark.parametrize("leak", [by_the_collector])
def test_a_leak_into_the_output_is_not_covered(leak: Any) -> None:
    shown, notes = run(Program(leak))
    assert set(shown) <= {"released"}
    assert any("the output is not known to be computed" in note for note in notes)
    printed, _ = run(Program(leak), uncovered=True)
    assert not printed["the raw mean"]["covered"]
    assert "not covered" in printed["the raw mean"]["note"]


@pytest.mark.parametrize("kind", [Keeps, KeepsAside, KeepsInItsClass])
def test_what_a_query_keeps_is_not_covered(kind: Any) -> None:
    """As the run on the data has it, examined or not: its own code sees the rows."""
    shown, notes = run(kind())
    assert "the raw mean" not in shown
    assert any("is left out" in note for note in notes)


def of_an_array(output: Any) -> tuple[Metric, ...]:
    return (Metric("m", float(VALUES.mean()), True),)


def of_a_file(output: Any) -> tuple[Metric, ...]:
    return (Metric("m", float(loaded().mean()), True),)


def in_its_note(output: dict[str, float]) -> tuple[Metric, ...]:
    return (Metric("m", 0.0, True, f"the raw mean is {output['leak']}"),)


def closing_over() -> Any:
    mean = VALUES.copy()
    return lambda output: (Metric("m", float(mean.mean()), True),)


@pytest.mark.parametrize(
    ("evaluate", "why"),
    [
        (of_an_array, "reaches an array"),
        (closing_over(), "reaches an array"),
        (functools.partial(lambda data, output: of_an_array(output), VALUES), "reaches an array"),
        (of_a_file, "is opened"),
        (in_its_note, "without the records"),
    ],
)
def test_a_metric_of_anything_else_is_not_covered(
    evaluate: Any, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "values.csv"
    np.savetxt(file, VALUES)
    monkeypatch.setattr(sys.modules[__name__], "__file__", str(tmp_path / "module.py"))
    loaded.cache_clear()
    loaded()  # what was read once would be had again without opening the file
    program = Program(by_the_collector) if evaluate is in_its_note else Program()
    shown, notes = run(program, evaluate)
    assert not shown
    assert any(why in note for note in notes), notes


def test_an_author_can_only_make_it_uncovered() -> None:
    shown, notes = run(Program(), lambda output: (Metric("m", output["released"], False),))
    assert not shown
    assert any("its author says so" in note for note in notes)


def test_nothing_but_code_is_opened_while_shut(tmp_path: Path) -> None:
    file = tmp_path / "data.csv"
    file.write_text("1")
    with shut():
        for opened in (file.read_text, lambda: np.loadtxt(file), lambda: gc.get_objects()):
            with pytest.raises(Shut):
                opened()
        import colorsys  # noqa: F401  (a module may be imported)
    assert file.read_text() == "1"


# --- the curator of the run -----------------------------------------------------------------------


def guarded() -> Guarded:
    rng = np.random.default_rng(0)
    return Guarded(Gaussian("mean", 2), scope(), records(), rng=rng)


READS = {
    "by its name": lambda curator: curator._records,
    "by getattr": lambda curator: getattr(curator, "_rng"),  # noqa: B009
    "by vars": vars,
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_program_that_reads_a_private_attribute_is_stopped(read: Any) -> None:
    curator = guarded()
    with pytest.raises(Undeclared, match="reads the curator's private"):
        read(curator)
    curator.release("mean", ClippedMean(rows, radius=1.0))


@pytest.mark.parametrize("keep", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_curator_is_neither_copied_nor_saved(keep: Any) -> None:
    with pytest.raises(Undeclared, match="keep what was released"):
        keep(guarded())


def found_by_a_library(curator: Guarded) -> Any:
    return string.Formatter().get_field("0._records", [curator], {})[0]


AROUND = {
    "a library's formatter": found_by_a_library,
    "a library's getattr": lambda curator: np.vectorize(getattr, otypes=[object])(
        np.array([curator], dtype=object), "_records"
    ).item(),
    "an object's own getter": lambda curator: object.__getattribute__(curator, "_records"),
    "code under another name": lambda curator: eval(  # noqa: S307
        "curator._records", {"__name__": "json", "curator": curator}
    ),
}


@pytest.mark.parametrize("read", AROUND.values(), ids=AROUND)
def test_the_guard_is_no_boundary_as_the_threat_model_says(read: Any) -> None:
    """Red once one of these ends: then SECURITY.md says too little of what is fenced."""
    assert np.array_equal(read(guarded()).values, VALUES)


def test_a_withheld_curator_answers_from_the_transcript_alone() -> None:
    event = Event("mean", np.array([[0.25]]), np.array([True]))
    curator = Withheld(Gaussian("mean", 2), scope(), (12, 1), [event])
    assert curator.release("mean", ClippedMean(rows, radius=1.0)) == 0.25
    other, off = replace(event, label="sum"), replace(event, on=~event.on)
    for recorded in ([], [other], [off]):
        curator = Withheld(Gaussian("mean", 2), scope(), (12, 1), recorded)
        with pytest.raises(Diverged, match="a different release was recorded on the data"):
            curator.release("mean", ClippedMean(rows, radius=1.0))
