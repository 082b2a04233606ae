"""The run of random declarations goes on where it was stopped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dpaudit.accountant.account import Account
from dpaudit.scope import central
from tests import tree_blocks, trees
from tests.coarse import epsilon_lower


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


def test_the_digest_is_of_every_room_that_a_bound_comes_from() -> None:
    """A room that is not there any more made `make quality-trees` stop."""
    rooms = [tree_blocks.ROOT / "dpaudit" / room for room in tree_blocks.ROOMS]
    assert all(any(room.rglob("*.py")) for room in rooms)
    assert len(tree_blocks.code_digest()) == 12


@pytest.mark.parametrize("kind", ["_sets", "_iterates", "_tuned", "_shuffled"])
def test_the_mechanisms_of_new_nodes_come_close_to_their_bounds(kind: str) -> None:
    """So that an upper end a tenth too low would be seen in some tree of every kind."""
    rng, best = trees.Draws(3), 0.0
    for _ in range(12):
        drawn = getattr(trees, kind)
        node, cells = drawn(rng) if kind in ("_sets", "_iterates") else drawn(rng, "replace_one", 1)
        bound = Account(node, central("replace_one"), trees.WIDTH).epsilon("1e-4")
        known = max(epsilon_lower(c, 1e-4) for c in (cells, cells.swapped))
        assert known * (1 - trees.TOLERANCE) <= float(bound.upper)
        best = max(best, known / float(bound.upper))
    assert best > 0.9 if kind != "_tuned" else best > 0.3
