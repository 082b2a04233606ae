"""Running an audit: what it refuses, what it stores, what it makes of scores and stops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpaudit.audit.attack import attack, padded, program_text
from dpaudit.audit.attacked import LARGEST_SCORE, Attacked
from dpaudit.audit.neighbours import Neighbours
from dpaudit.curator.curator import Curator
from dpaudit.curator.mechanism import Mechanism
from dpaudit.errors import InvalidParameter
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Compose, Repeat
from dpaudit.families.opaque import GDP
from dpaudit.kernels.query import ClippedMean, Records
from tests.library.cli.bench import NoNoise, Releases, mechanism, rows, suite

ERROR = 5e-5
CASE = mechanism("case", Repeat(Gaussian("a", 2), 2), GDP(1), labels=("a", "a"))


def run(of: Mechanism = CASE, seed: int = 3, **changes: Any) -> Attacked:
    names = ("store", "jobs", "progress", "implementation", "index")
    options = {k: changes.pop(k) for k in list(changes) if k in names}
    return attack(of, suite(of, **changes), seed=seed, error=ERROR, **options)


def program(runs: Callable[[Curator], Any], of: Mechanism = CASE) -> Any:
    """An implementation of the declared noise that does something else."""

    @dataclass(frozen=True)
    class Other(Releases):
        def run(self, curator: Curator) -> Any:
            return runs(curator)

    return Other(of.declaration)


def mean(radius: Any = 1.0) -> ClippedMean:
    return ClippedMean(rows, radius=radius)


# --- an honest implementation --------------------------------------------------------------------


def test_an_audit_keeps_training_and_test_apart() -> None:
    found = run(trials=2_400)
    assert found.training is not None
    assert found.test is not None
    assert found.test.null.size == found.test.alternative.size == 2_400
    assert found.training.null.size == found.training_trials == 480
    assert not set(found.training.null) & set(found.test.null)
    assert found.attack == "exact"
    assert {finding.status for finding in found.findings} <= {"held", "not_run"}
    assert found.stored is None


def test_the_score_is_the_log_likelihood_ratio() -> None:
    """Two releases of 1/z = 1/2 a piece: the score is N(+-mu^2/2, mu^2), mu^2 = 1/2.

    20,000 trials a side; five standard errors.
    """
    found = run(trials=20_000)
    assert found.test is not None
    for scores, mean_ in ((found.test.alternative, 0.25), (found.test.null, -0.25)):
        assert abs(scores.mean() - mean_) < 5 * np.sqrt(0.5 / 20_000)
        assert abs(scores.var() - 0.5) < 5 * 0.5 * np.sqrt(2 / 20_000)


def test_the_seed_decides_everything_and_workers_nothing() -> None:
    one, again, other = run(), run(), run(seed=4)
    assert one.test is not None
    assert again.test is not None
    assert other.test is not None
    assert (one.test.null == again.test.null).all()
    assert (one.test.null != other.test.null).any()
    assert one.findings == again.findings


def test_audits_of_one_run_are_independent() -> None:
    first, second = run(index=0), run(index=1)
    assert first.test is not None
    assert second.test is not None
    assert not set(first.test.null) & set(second.test.null)


def test_noise_that_was_forgotten_scores_beyond_every_threshold() -> None:
    """Finite scores, so that thresholds between the two sides exist."""
    found = run(kernels={Gaussian: NoNoise})
    assert found.test is not None
    assert (found.test.alternative == LARGEST_SCORE).all()
    assert (found.test.null == -LARGEST_SCORE).all()
    assert found.attack == "declared"
    assert "broken" in {finding.status for finding in found.findings}


# --- what an audit refuses -----------------------------------------------------------------------


def test_another_declaration_is_refused() -> None:
    other = mechanism("case", Gaussian("a", 3), GDP(1), labels=("a",))
    with pytest.raises(InvalidParameter, match="declares other noise"):
        attack(CASE, suite(other), seed=1, error=ERROR)


def test_neighbours_of_another_adjacency_are_refused() -> None:
    """A pair that is not neighbouring under the claim's scope bounds nothing that is claimed."""
    values = np.zeros((4, 1))
    present = np.array([True, True, True, False])
    pair = Neighbours(Records(values), Records(values, present), "zero_out", "one is zeroed")  # type: ignore[arg-type]
    wrong = replace(suite(CASE), neighbours=pair)
    with pytest.raises(InvalidParameter, match=r"neighbours under zero_out.*says replace_one"):
        attack(CASE, wrong, seed=1, error=ERROR)


@pytest.mark.parametrize("trials", [2_000 * 10**6 + 1])
def test_absurd_sizes_are_refused_before_any_trial(trials: int) -> None:
    with pytest.raises(InvalidParameter, match="batches"):
        run(trials=trials)


# --- an implementation that goes astray ----------------------------------------------------------


def broken(found: Attacked) -> dict[str, str]:
    return {f.check: f.detail for f in found.findings if f.status == "broken"}


CONTROL, SENSITIVITY = "releases, control flow and radii", "stated sensitivities"


def test_an_undeclared_release_stops_the_audit_and_is_named() -> None:
    def thrice(curator: Curator) -> Any:
        return [curator.release("a", mean()) for _ in range(3)][-1]

    found = run(program=program(thrice))
    assert found.test is found.training is None
    assert "'a'" in broken(found)[CONTROL]


def test_a_label_nobody_declared_is_named() -> None:
    found = run(program=program(lambda curator: curator.release("b", mean())))
    assert "'b'" in broken(found)[CONTROL]


def test_a_release_left_out_is_reported_but_breaks_nothing() -> None:
    """Fewer releases than declared cost less privacy, not more."""
    found = run(program=program(lambda curator: curator.release("a", mean())))
    control = next(f for f in found.findings if f.check == CONTROL)
    assert control.status == "held"
    assert "a: 1 of 2 made" in control.detail


def test_a_sensitivity_that_is_too_small_is_found_without_statistics() -> None:
    class Half(ClippedMean):
        def sensitivity(self, adjacency: Any, size: int) -> Any:
            return super().sensitivity(adjacency, size) / 2

    found = run(program=program(lambda curator: curator.release("a", Half(rows, radius=1.0))))
    assert "more than its stated l2 sensitivity" in broken(found)[SENSITIVITY]
    assert all(f.error_rate == 0 for f in found.findings if f.check in (CONTROL, SENSITIVITY))


def test_a_program_that_releases_nothing_is_judged_by_its_control_flow() -> None:
    found = run(program=program(lambda curator: np.zeros((curator.trials, 1))))
    assert [f.check for f in found.findings] == [CONTROL, SENSITIVITY]
    assert found.test is not None
    assert not found.test.null.any()


def test_what_a_program_prints_does_not_reach_standard_output(capsys: Any) -> None:
    def talking(curator: Curator) -> Any:
        print("hello from the program")  # noqa: T201
        return curator.release("a", mean())

    run(program=program(talking))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "hello from the program" in captured.err


# --- stored batches ------------------------------------------------------------------------------


def stored_first(store: Path, **changes: Any) -> int:
    """How many batches the first report says are done: those taken from the store."""
    reports: list[int] = []
    run(store=store, progress=lambda done, total: reports.append(done), **changes)
    return reports[0]


SOURCES = {"mechanisms/case.py": "0" * 64}


def test_stored_batches_are_taken_up(tmp_path: Path) -> None:
    first = run(store=tmp_path, implementation=SOURCES)
    assert first.stored is not None
    assert first.stored.is_relative_to(tmp_path)
    assert stored_first(tmp_path, implementation=SOURCES) == 4
    again = run(store=tmp_path, implementation=SOURCES)
    assert first.test is not None
    assert again.test is not None
    assert (first.test.null == again.test.null).all()
    assert first.findings == again.findings


@pytest.mark.parametrize(
    "changes",
    [
        {"implementation": {"mechanisms/case.py": "1" * 64}},
        {"implementation": SOURCES, "seed": 4},
        {"implementation": SOURCES, "kernels": {Gaussian: NoNoise}},
        {
            "implementation": SOURCES,
            "of": mechanism("case", Repeat(Gaussian("a", 3), 2), GDP(1), labels=("a", "a")),
        },
        {
            "implementation": SOURCES,
            "of": mechanism("case", Compose(Gaussian("a", 2)), GDP(1), labels=("a",)),
        },
    ],
    ids=["other sources", "other seed", "other kernel", "other noise", "other structure"],
)
def test_batches_of_anything_else_are_not_taken_up(changes: Any, tmp_path: Path) -> None:
    """A certificate must never mix counts of two implementations."""
    run(store=tmp_path, implementation=SOURCES)
    assert stored_first(tmp_path, **changes) == 1


def test_a_program_reads_the_same_in_every_process() -> None:
    class Plain:
        """Without a repr of its own."""

    assert " at 0x" in repr(Plain())
    assert " at 0x" not in program_text(Plain())  # type: ignore[arg-type]
    assert program_text(CASE.program) == repr(CASE.program)


def test_batches_of_other_uses_and_widths_are_filled_up() -> None:
    """A selection among fewer candidates, and a batch that never released a label."""
    first, second = np.ones((2, 1, 3)), np.full((3, 2, 2), 2.0)
    whole = padded([first, None, second], [2, 4, 3])
    assert whole.shape == (9, 2, 3)
    assert np.array_equal(whole[:2, :1], first)
    assert np.array_equal(whole[6:, :, :2], second)
    assert np.isnan(whole).sum() == whole.size - first.size - second.size
