"""Secret batches: inclusion counts against the declared law."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpaudit.accountant.claim import Claim
from dpaudit.audit.graybox import Inspection, check_frequencies, inspect_program
from dpaudit.audit.neighbours import Neighbours
from dpaudit.audit.suite import Suite
from dpaudit.curator.coins import draw_batch
from dpaudit.curator.curator import Curator
from dpaudit.curator.mechanism import Mechanism, Setting
from dpaudit.errors import InvalidParameter
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Repeat
from dpaudit.families.opaque import GDP
from dpaudit.families.sampling import PoissonSampled, SampledWithoutReplacement
from dpaudit.kernels.query import Array, ClippedMean, Records
from dpaudit.nodes import Node
from dpaudit.scope import Scope
from tests.support.kernels import Written

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


# --- secret batches ------------------------------------------------------------------------------

POISSON = Repeat(PoissonSampled(Gaussian("a", 1), 0.3), 6)
FIXED = Repeat(SampledWithoutReplacement(Gaussian("a", 1), 2, 4), 6)


def steps(curator: Curator) -> Array:
    released = np.zeros((curator.trials, 1))
    for _ in range(6):
        with curator.batch("a") as batch:
            released = curator.release("a", clipped(), rows=batch)
    return released


CHECK = "sampling frequencies"


@pytest.mark.parametrize("node", [POISSON, FIXED], ids=["poisson", "fixed"])
def test_batches_drawn_as_declared_hold(node: Node) -> None:
    found = inspected(node, steps, "zero_out", trials=64)
    assert found.broken == ()
    assert {f.status for f in found.findings if f.check == CHECK} == {"held"}


def drawn(node: Any, change: Callable[[list[Array]], list[Array]], seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    masks: list[Any] = [draw_batch(node, 50, 4, rng) for _ in range(6)]
    return [(node, mask) for mask in change(masks)]


SAMPLINGS: tuple[Any, ...] = (POISSON.child, FIXED.child)  # type: ignore[attr-defined]
WRONG: dict[str, Callable[[list[Any]], list[Any]]] = {
    "one batch in all steps": lambda masks: [masks[0]] * 6,
    "one batch in all trials": lambda masks: [np.repeat(m[:1], 50, axis=0) for m in masks],
    "one record always": lambda masks: [m | (np.arange(4) == 0) for m in masks],
    "one record never": lambda masks: [m & (np.arange(4) != 0) for m in masks],
}


@pytest.mark.parametrize("node", SAMPLINGS, ids=["poisson", "fixed"])
@pytest.mark.parametrize("name", WRONG)
def test_batches_drawn_otherwise_are_found(node: Any, name: str) -> None:
    assert check_frequencies(drawn(node, WRONG[name]), ERROR).status == "broken"


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("node", SAMPLINGS, ids=["poisson", "fixed"])
def test_the_rate_of_false_alarms_of_frequencies(node: Any) -> None:
    """500 nulls at 5%: 25 expected at most; 47 or more happen with probability below 3e-5."""
    flagged = [check_frequencies(drawn(node, list, seed), 0.05) for seed in range(500)]
    assert sum(f.status == "broken" for f in flagged) < 47


def test_frequencies_need_batches_and_an_error_rate() -> None:
    assert check_frequencies([], ERROR).status == "not_run"
    with pytest.raises(InvalidParameter, match="error"):
        check_frequencies([], 0.0)
