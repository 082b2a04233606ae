"""audit_function on mechanisms that are broken: each a named verdict or a clear error."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from dpaudit.audit import FunctionAudit, Verdict, audit_function
from dpaudit.audit.blackbox.findings import Finding
from dpaudit.errors import InvalidParameter
from dpaudit.families.opaque import PureDP

Generator = np.random.Generator


GRID = 2.0**-30


def on_grid(values: Any) -> Any:
    """Released values without the last bits, which a plain sampler of doubles leaks."""
    return np.round(np.asarray(values) / GRID) * GRID


def audit(mechanism: Any, claim: Any = PureDP(1), **others: Any) -> FunctionAudit:  # noqa: B008
    given = {"trials": 4_000, "seed": 3, "refute_at": 0.01} | others
    d0, d1 = given.pop("data", (0.0, 1.0))
    return audit_function(mechanism, d0, d1, claim=claim, **given)


# --- mechanisms that are broken -------------------------------------------------------------------


@pytest.mark.quality
def test_a_fixed_seed_is_refuted_by_calls_of_size_one() -> None:
    def fixed(data: float, rng: Generator, size: int) -> Any:
        return data + np.random.default_rng(7).laplace(0, 1, size)

    result = audit(fixed)
    assert Finding.IGNORES_GENERATOR in result.findings
    assert result.verdict is Verdict.REFUTED


@pytest.mark.quality
def test_a_fixed_seed_that_hides_the_data_is_an_alarm() -> None:
    def fixed(data: float, rng: Generator, size: int) -> Any:
        return np.random.default_rng(7).laplace(0, 1, size)

    assert audit(fixed).verdict is Verdict.ALARM


@pytest.mark.quality
def test_one_draw_for_a_whole_call_is_no_trial() -> None:
    """The noise is right: only the independence of the draws is missing."""

    def shared(data: float, rng: Generator, size: int) -> Any:
        return np.full(size, on_grid(data + rng.laplace(0, 1)))

    result = audit(shared)
    assert Finding.SHARED_DRAW in result.findings
    assert result.verdict is Verdict.ALARM


@pytest.mark.quality
def test_noise_shared_by_the_draws_of_a_call_is_seen_by_their_counts() -> None:
    def shared(data: float, rng: Generator, size: int) -> Any:
        return on_grid(data + rng.laplace(0, 1) + rng.laplace(0, 0.1, size))

    result = audit(shared)
    assert Finding.DEPENDENT in result.findings
    assert result.verdict is not Verdict.INCONCLUSIVE


@pytest.mark.quality
def test_a_repeated_stream_is_named() -> None:
    def tiled(data: float, rng: Generator, size: int) -> Any:
        block = on_grid(data + rng.laplace(0, 1, max(size // 4, 1)))
        return np.tile(block, 5)[:size]

    result = audit(tiled)
    assert Finding.REPEATED_STREAM in result.findings


def test_constants() -> None:
    same = audit(lambda data, rng, size: np.zeros(size))
    assert same.verdict is Verdict.INCONCLUSIVE
    assert same.findings == (Finding.CONSTANT,)
    leak = audit(lambda data, rng, size: np.full(size, data))
    assert leak.verdict is Verdict.REFUTED


def test_nan_infinity_and_text_are_outcomes() -> None:
    flip = lambda data, rng, size: rng.random(size) < (0.9 if data else 0.1)  # noqa: E731
    for yes, no in ((np.nan, 0.0), (np.inf, 0.0), (-0.0, 0.0), ("yes", "no"), (None, 1.0)):
        kind = object if yes is None else None

        def mechanism(
            data: Any, rng: Generator, size: int, y: Any = yes, n: Any = no, k: Any = kind
        ) -> Any:
            return np.array([y if f else n for f in flip(data, rng, size)], dtype=k)

        assert audit(mechanism).verdict is Verdict.REFUTED, yes


@pytest.mark.quality
def test_exceptions_that_depend_on_the_data_are_outcomes() -> None:
    def raises(data: float, rng: Generator, size: int) -> Any:
        if data and rng.random() < 0.9:
            raise ValueError("secret")
        return np.zeros(size)

    result = audit(raises)
    assert Finding.RAISES in result.findings
    assert result.verdict is Verdict.REFUTED
    assert "secret" not in json.dumps(result.to_json())


def test_a_mechanism_that_always_raises_is_an_error_naming_the_call() -> None:
    def broken(data: float, rng: Generator, size: int) -> Any:
        raise KeyError("secret")

    with pytest.raises(InvalidParameter, match=r"mechanism\(d0, rng, 64\) raised KeyError") as e:
        audit(broken)
    assert "secret" not in str(e.value)


@pytest.mark.parametrize("wrong", [0.0, np.zeros(3), np.zeros((64, 2, 2)), None])
def test_wrong_shapes_are_an_error_naming_the_call(wrong: Any) -> None:
    with pytest.raises(InvalidParameter, match=r"mechanism\(d0, rng, 64\) returned shape"):
        audit(lambda data, rng, size: wrong)


def test_shapes_and_types_that_depend_on_the_data_are_refuted() -> None:
    wider = audit(lambda data, rng, size: rng.random((size, 2 if data else 1)))
    assert Finding.SHAPE_CHANGES in wider.findings
    assert wider.verdict is Verdict.REFUTED
    typed = audit(lambda data, rng, size: rng.integers(0, 2, size).astype(int if data else float))
    assert typed.verdict is Verdict.REFUTED


def test_a_mechanism_that_changes_its_data_is_an_error() -> None:
    def changes(data: Any, rng: Generator, size: int) -> Any:
        data += 1
        return rng.random(size)

    with pytest.raises(InvalidParameter, match="changes the data set"):
        audit(changes, data=(np.zeros(1), np.ones(1)))


def test_other_randomness_is_named() -> None:
    own = np.random.default_rng(1)
    result = audit(lambda data, rng, size: on_grid(data + own.laplace(0, 1, size)))
    assert Finding.IRREPRODUCIBLE in result.findings
