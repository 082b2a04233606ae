"""The run of random declarations goes on where it was stopped."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from dpaudit.accountant.account import Account
from dpaudit.errors import Unsupported
from dpaudit.exact import exp
from dpaudit.families.discrete import RandomizedResponse
from dpaudit.families.local import Shuffled
from dpaudit.measures.profile import PROFILE
from dpaudit.nodes import postorder
from dpaudit.pairs import Clones, Losses, one
from dpaudit.scope import central
from tests.support import tree_blocks, trees
from tests.support.coarse import epsilon_lower


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
    assert "1500 of 1500 declarations, 1 violations" in shown.err
    assert tree_blocks.main(asked) == 1
    assert ran == [second, third]


def test_the_digest_is_of_every_room_that_a_bound_comes_from() -> None:
    """A room that is not there any more made `make quality-trees` stop."""
    rooms = [tree_blocks.ROOT / "dpaudit" / room for room in tree_blocks.ROOMS]
    assert all(any(room.rglob("*.py")) for room in rooms)
    assert (tree_blocks.ROOT / "dpaudit" / "check").is_dir()
    assert tree_blocks.code_digest("trees") != tree_blocks.code_digest("forged")


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
    "_truncated_laplace": ("zero_out", 0.9),
    "_bounded": ("replace_one", 0.9),
    "_stated": ("replace_one", 0.8),
    "_points": ("replace_one", 0.5),
    "_filter": ("add_remove", 0.9),
    "_choice": ("add_remove", 0.9),
    "_above_threshold": ("add_remove", 0.9),
    "_comparisons": ("add_remove", 0.9),
    "_coupled": ("add_remove", 0.9),
    "_vector": ("add_remove", 0.9),
    "_table": ("add_remove", 0.9),
    "_event": ("add_remove", 0.9),
    "_turns": ("add_remove", 0.9),
    "_polls": ("replace_one", 0.9),
    "_reports": ("replace_one", 0.9),
    "_replaced": ("replace_one", 0.9),
    "_redrawn": ("replace_one", 0.9),
    "_stable": ("replace_one", 0.9),
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
        except Unsupported:  # a child without a pair, in batches that are cut or replaced
            assert kind in ("_cut", "_event", "_replaced")
            continue
        known = max(epsilon_lower(c, 1e-4) for c in (cells, cells.swapped))
        assert known * (1 - trees.TOLERANCE) <= float(bound.upper)
        best = max(best, known / float(bound.upper))
        if best > near:
            return
    pytest.fail(f"the nearest of 12 trees reaches {best} of its bound, not {near}")


def unsound(node: Shuffled, base: Losses) -> Losses:
    """The mixture that was believed once: it bounds others that hold a third value, and no more."""
    child = node.child
    assert isinstance(child, RandomizedResponse)
    whole = exp(child.epsilon) + child.choices - 1
    told = (exp(child.epsilon) + 1) / whole if child.choices != 2 else Fraction(1)
    return one(Clones(child.epsilon, told, 2 / whole, node.population - 1))


def shuffled_violations() -> list[str | None]:
    """Of forty shuffled polls, as they are drawn among all trees."""
    rng, found = trees.Draws(5), []
    for _ in range(40):
        node, cells = trees._shuffled(rng, "replace_one", 1)
        delta = Fraction(f"{10 ** -rng.uniform(2, 30):.3e}")
        found.append(trees.judge(node, cells, "replace_one", delta))
    return found


@pytest.mark.quality
def test_an_unsound_mixture_of_shuffled_reports_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was not, while all others held a third value in every data set."""
    assert set(shuffled_violations()) == {""}
    rules = PROFILE._rules
    monkeypatch.setitem(rules, Shuffled, replace(rules[Shuffled], function=unsound))
    assert sum(bool(text) for text in shuffled_violations()) > 4
    thirds = dict.fromkeys((0, 1, 2), 2)
    own = trees.shuffled
    monkeypatch.setattr(trees, "shuffled", lambda e, k, n, held=2: own(e, k, n, thirds[held]))
    assert not any(shuffled_violations())


def test_every_new_node_is_drawn() -> None:
    """In a few hundred trees; none of them would be seen if it stood in no tree."""
    rng = trees.Draws(1)
    drawn = [trees.draw(rng, a)[0] for _ in range(300) for a in ("add_remove", "zero_out")]
    names = {type(part).__name__ for node in drawn for part in postorder(node)}
    new = "CorrelatedGaussian CyclicBatches LastIterate RandomAllocation Shuffled ShuffledBatches"
    more = "SubsetResponse TruncatedPoisson Tuned Group PoissonSampled IndividualGaussian "
    more += "DistributedGaussian DistributedSkellam DistributedGaussianVector "
    more += "DistributedSkellamVector SampledLastIterate"
    more += " Assuming CyclicPoisson EventSlack ProposeTestRelease Filter AboveThreshold Select "
    more += "ExponentialMechanism IntegerExponentialMechanism ReportNoisyMax NoisyComparisons "
    more += "CoupledGaussian StableRelease DiscreteGaussianVector ThresholdedDiscreteLaplace "
    more += "ThresholdedDiscreteGaussian "
    more += "TruncatedDiscreteLaplace TunedPoisson SampledWithReplacement ProfilePoints RenyiDP "
    more += "RenyiCurve ZCDP Staircase Tulap StudentT TruncatedLaplace Laws MixtureOfGaussians"
    drawn = [trees.draw(rng, "replace_one")[0] for _ in range(200)]
    names |= {type(part).__name__ for node in drawn for part in postorder(node)}
    assert set(f"{new} {more}".split()) <= names
