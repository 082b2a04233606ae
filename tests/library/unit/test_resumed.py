"""One runner of tasks that resume: audits, mutants and experiments go through it."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dpaudit.audit.workers import finished, in_threads, resumed
from dpaudit.storage.batches import RowStore

Results = Generator[tuple[int, dict[str, Any]], None, None]
TASKS = {str(n): n for n in range(4)}


def squared(n: int) -> dict[str, Any]:
    return {"square": n * n}


def failing(calls: list[int], missing: list[int]) -> Results:
    """The third call is the one that fails, once."""
    for n in missing:
        calls.append(n)
        if len(calls) == 3:
            raise ValueError("this one fails")
        yield n, squared(n)


def test_what_is_kept_is_not_run_again(tmp_path: Path) -> None:
    calls: list[int] = []
    kept, seen = RowStore(tmp_path / "kept"), []
    with pytest.raises(ValueError, match="this one fails"):
        resumed(TASKS, partial(failing, calls), kept=kept)
    assert calls == [0, 1, 2]
    found = resumed(
        TASKS, partial(failing, calls), kept=kept, report=lambda done: seen.append(len(done))
    )
    assert calls == [0, 1, 2, 2, 3]
    assert seen == [2, 3, 4]
    assert list(found.items()) == [(name, squared(n)) for name, n in TASKS.items()]
    kept.remove()
    assert not (tmp_path / "kept").exists()


def test_a_result_that_is_refused_is_not_kept(tmp_path: Path) -> None:
    def refuse(key: str, result: dict[str, Any]) -> None:
        if result["square"] == 4:
            raise ValueError("a copy")

    kept = RowStore(tmp_path)
    with pytest.raises(ValueError, match="a copy"):
        resumed(TASKS, lambda missing: finished(squared, missing, 1), kept=kept, take=refuse)
    assert kept.get("1") == {"square": 1}
    assert kept.get("2") is None


def test_the_order_is_that_of_the_tasks_whoever_runs_them() -> None:
    found = resumed(TASKS, lambda missing: in_threads(squared, missing[::-1], 3))
    assert list(found) == list(TASKS)


@pytest.mark.parametrize("text", ["", "[1]", '{"task": "1"}', '{"task": "2", "values": {}}', "{"])
def test_a_row_that_does_not_read_is_none(text: str, tmp_path: Path) -> None:
    kept = RowStore(tmp_path)
    kept.put("1", {"square": 1})
    kept._path("1").write_text(text)
    assert kept.get("1") is None
