"""The run of random declarations goes on where it was stopped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dpaudit.accountant.account import Account
from dpaudit.errors import Unsupported
from dpaudit.nodes import postorder
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


NEAR = {
    "_sets": ("replace_one", 0.9),
    "_iterates": ("replace_one", 0.9),
    "_correlated": ("zero_out", 0.9),
    "_individual": ("replace_one", 0.9),
    "_secure": ("add_remove", 0.9),
    "_tuned": ("replace_one", 0.3),
    "_shuffled": ("replace_one", 0.9),
    "_users": ("add_remove", 0.9),
    "_allocated": ("add_remove", 0.9),
    "_batches": ("zero_out", 0.9),
    "_cut": ("add_remove", 0.4),  # what a cut leaves out is told of by other records, not here
}


@pytest.mark.parametrize("kind", NEAR)
def test_the_mechanisms_of_new_nodes_come_close_to_their_bounds(kind: str) -> None:
    """So that an upper end a tenth too low would be seen in some tree of every kind."""
    rng, best = trees.Draws(3), 0.0
    adjacency, near = NEAR[kind]
    drawn = getattr(trees, kind)
    for _ in range(12):
        node, cells = drawn(rng) if drawn in trees.LEAVES else drawn(rng, adjacency, 1)
        try:
            bound = Account(node, central(adjacency), trees.WIDTH).epsilon("1e-4")
        except Unsupported:  # a child whose two records have no pair, in batches that are cut
            assert kind == "_cut"
            continue
        known = max(epsilon_lower(c, 1e-4) for c in (cells, cells.swapped))
        assert known * (1 - trees.TOLERANCE) <= float(bound.upper)
        best = max(best, known / float(bound.upper))
    assert best > near


def test_every_new_node_is_drawn() -> None:
    """In a few hundred trees; none of them would be seen if it stood in no tree."""
    rng = trees.Draws(1)
    drawn = [trees.draw(rng, a)[0] for _ in range(300) for a in ("add_remove", "zero_out")]
    names = {type(part).__name__ for node in drawn for part in postorder(node)}
    new = "CorrelatedGaussian CyclicBatches LastIterate RandomAllocation Shuffled ShuffledBatches"
    more = "SubsetResponse TruncatedPoisson Tuned Group PoissonSampled IndividualGaussian "
    more += "DistributedGaussian DistributedSkellam DistributedGaussianVector "
    more += "DistributedSkellamVector"
    drawn = [trees.draw(rng, "replace_one")[0] for _ in range(99)]
    names |= {type(part).__name__ for node in drawn for part in postorder(node)}
    assert set(f"{new} {more}".split()) <= names
