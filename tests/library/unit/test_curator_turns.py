"""A curator is asked by one thread of one process, outside of queries, and is never copied."""

from __future__ import annotations

import copy
import pickle
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.curator.curator import Curator
from dpaudit.errors import DpauditError, Undeclared


def sampler() -> dp.Sampler:
    declared = dp.Compose(dp.Gaussian("mean", 2), dp.Gaussian("other", 2))
    records = dp.Records(np.full((10, 1), 0.5))
    return dp.Sampler(declared, dp.central("replace_one"), records, rng=np.random.default_rng(1))


def first_row(rows: Any) -> Any:
    return rows[None]


def slowly(rows: Any) -> Any:
    time.sleep(0.02)
    return rows[None]


def ask(curator: Curator, label: str, function: Callable[[Any], Any] = first_row) -> Any:
    return curator.release(label, dp.ClippedMean(function, radius=1.0))


def released_by_threads(curator: Curator, threads: int = 8) -> tuple[int, set[type]]:
    """How many of these threads got a release under one label, and what the others got."""
    released, refused, together = [], set(), threading.Barrier(threads)

    def one() -> None:
        together.wait()
        try:
            released.append(ask(curator, "mean", slowly))
        except DpauditError as error:
            refused.add(type(error))

    started = [threading.Thread(target=one) for _ in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    return len(released), refused


def test_one_declared_release_is_made_once_by_many_threads() -> None:
    assert released_by_threads(sampler()) == (1, {Undeclared})


def test_without_turns_every_thread_gets_the_release(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Curator, "_require_turn", lambda curator: None)
    assert released_by_threads(sampler())[0] > 1


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_curator_is_neither_copied_nor_saved(again: Callable[[Any], Any]) -> None:
    with pytest.raises(Undeclared, match="neither copied nor saved"):
        again(sampler())


ASKED_INSIDE: dict[str, Callable[[dp.Sampler], Any]] = {
    "release": lambda curator: ask(curator, "other"),
    "coin": lambda curator: curator.coin(lambda rng: rng.random((1, 1))),
    "batch": lambda curator: curator.batch("other").__enter__(),
    "best_of": lambda curator: curator.best_of("other", lambda inner: (0, np.zeros(1))),
    "permute": lambda curator: curator.permute(),
}


@pytest.mark.parametrize("asked", ASKED_INSIDE)
def test_a_query_that_asks_its_curator_is_refused(asked: str) -> None:
    """Whether it asks could depend on the records, and which release is made would show it."""
    curator = sampler()

    def asking(rows: Any) -> Any:
        ASKED_INSIDE[asked](curator)
        return rows[None]

    with pytest.raises(Undeclared, match="a query uses the curator while it is evaluated"):
        ask(curator, "mean", asking)
    assert curator.transcript == []


def test_a_query_that_asks_on_some_records_alone_is_refused_too() -> None:
    curator = sampler()

    def asking(rows: Any) -> Any:
        if rows.any():
            ask(curator, "other")
        return rows[None]

    with pytest.raises(DpauditError):
        ask(curator, "mean", asking)
    assert curator.transcript == []
