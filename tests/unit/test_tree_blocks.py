"""The run of random declarations goes on where it was stopped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import tree_blocks


def test_finished_blocks_are_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[int] = []

    def run(seed: int) -> dict[str, object]:
        ran.append(seed)
        return {"seed": seed, "trees": tree_blocks.BLOCK, "violations": [], "seconds": 1.0}

    monkeypatch.setattr(tree_blocks, "run", run)
    log = tmp_path / "log.jsonl"
    first, second, third = (tree_blocks.FIRST_SEED + k for k in range(3))
    bad = {"seed": first, "trees": tree_blocks.BLOCK, "violations": ["one"], "seconds": 2.0}
    log.write_text(json.dumps(bad) + "\n" + '{"seed": ' + str(second))
    asked = ["--trees", str(3 * tree_blocks.BLOCK), "--log", str(log)]
    assert tree_blocks.main(asked) == 1
    assert ran == [second, third]
    assert [row["seed"] for row in tree_blocks.finished(log)] == [first, second, third]
    shown = capsys.readouterr()
    assert f"seed {first}: one" in shown.out
    assert "1500 of 1500 trees, 1 violations" in shown.err
    assert tree_blocks.main(asked) == 1
    assert ran == [second, third]
