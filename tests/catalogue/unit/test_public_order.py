"""The public order of records: a recorded coin that parts refer to, and independent trials."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from audits.user_level_options import user_level_phased_sgd_public_order as suite
from dpaudit.accountant.claim import Claim
from dpaudit.audit.attack import attack
from dpaudit.audit.attacked import run_independently
from dpaudit.audit.engine import Batch, run_batches
from dpaudit.audit.examine import examine
from dpaudit.audit.examine.examination import APART, _Examiner
from dpaudit.audit.examine.shapes import Shape
from dpaudit.audit.neighbours import Neighbours
from dpaudit.audit.suite import Suite
from dpaudit.curator.curator import Curator, Event, Sampler
from dpaudit.curator.entitlement import PUBLIC_COIN
from dpaudit.curator.mechanism import Mechanism
from dpaudit.curator.replayer import Replayer, Walk
from dpaudit.errors import Dependent, InvalidParameter
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Parallel
from dpaudit.families.opaque import GDP
from dpaudit.kernels.query import Array, ClippedMean, Records
from dpaudit.nodes import Node
from dpaudit.scope import Adjacency, Scope, central
from mechanisms.papers.user_level.options_catalogue import user_level_phased_sgd_public_order

SCOPE = central("replace_one")
SIZES = (2, 4)
ROWS = np.arange(6.0)[:, None]


@dataclass(frozen=True)
class TwoParts:
    """A sum of each part; with noise so small that sums can be read off."""

    noise: float = 1e-9
    permuted: bool = True

    def declaration(self, scope: Scope) -> Node:
        return Parallel(Gaussian("a", self.noise), Gaussian("b", self.noise))

    def run(self, curator: Curator) -> Array:
        if self.permuted:
            curator.permute()
        sums = ClippedMean(lambda rows: rows[None], 100.0, divisor=1.0)
        found = [
            curator.release(label, sums, rows=curator.part(k, SIZES))
            for k, label in enumerate("ab")
        ]
        return np.concatenate(found, axis=1)


def sampler(trials: int = 1, seed: int = 0, rows: Array = ROWS, scope: Scope = SCOPE) -> Sampler:
    declared = TwoParts().declaration(scope)
    rng = np.random.default_rng(seed)
    return Sampler(declared, scope, Records(rows), rng=rng, trials=trials)


def walk(transcript: Any, rows: Array, kind: Any = Walk, **options: Any) -> Any:
    declared = TwoParts().declaration(SCOPE)
    return kind(declared, SCOPE, Records(rows), transcript, coins=0, **options)


def test_parts_are_blocks_of_the_order_that_was_drawn_and_recorded() -> None:
    orders = set()
    for seed in range(5):
        curator = sampler(trials=3, seed=seed)
        found = TwoParts().run(curator)
        coin = curator.transcript[0]
        order = coin.released[0]
        assert coin.label == PUBLIC_COIN
        assert sorted(order) == list(range(6))
        sums = ROWS[order, 0]
        np.testing.assert_allclose(found, [[sums[:2].sum(), sums[2:].sum()]] * 3, atol=1e-4)
        assert [curator.place_of(int(row)) for row in order] == list(range(6))
        orders.add(tuple(order))
    assert len(orders) == 5


@pytest.mark.quality
def test_every_row_is_as_likely_in_every_part() -> None:
    """1,500 orders: each row's count in part 1 is within 5 standard deviations (1e-5 in all)."""
    draws = 1_500
    counts = np.zeros(6)
    for seed in range(draws):
        counts[sampler(seed=seed).permute()[0, :2].astype(int)] += 1
    assert np.abs(counts - draws / 3).max() < 5 * np.sqrt(draws * 2 / 9)


def test_a_walk_takes_the_recorded_order_on_either_data_set() -> None:
    curator = sampler()
    TwoParts().run(curator)
    order = curator.transcript[0].released[0]
    other = ROWS.copy()
    other[3] = 50.0
    replayed = walk(curator.transcript, other)
    TwoParts().run(replayed)
    sums = other[order, 0]
    assert [v.value.item() for v in replayed.visits] == [sums[:2].sum(), sums[2:].sum()]
    replayer = Replayer(
        TwoParts(), TwoParts().declaration(SCOPE), SCOPE, (Records(ROWS), Records(other)), coins=0
    )
    assert replayer.inspect(curator.transcript, own=0).violations == ()


@pytest.mark.parametrize("order", [[0, 0, 1, 2, 3, 4], [0, 1, 2, 3, 4, 6], [0, 1, 2]])
def test_a_transcript_without_an_order_is_refused(order: list[int]) -> None:
    recorded = [Event(PUBLIC_COIN, np.array([order]), np.ones(1, dtype=bool))]
    with pytest.raises(InvalidParameter, match="no order of 6"):
        walk(recorded, ROWS).permute()


def test_the_order_is_drawn_once_and_first() -> None:
    twice = sampler()
    twice.permute()
    with pytest.raises(InvalidParameter, match="once"):
        twice.permute()
    late = sampler()
    late.part(0, SIZES)
    with pytest.raises(InvalidParameter, match="before the first"):
        late.permute()
    declared = Gaussian("a", 1)
    scope = central("add_remove")
    added = Sampler(declared, scope, Records(ROWS), rng=np.random.default_rng(0))
    with pytest.raises(InvalidParameter, match="add_remove"):
        added.permute()


@dataclass(frozen=True)
class Carrying(TwoParts):
    """The sum of the second part moves with records of the first, which its query remembers."""

    noise: float = 1.0
    carried: bool = True

    def run(self, curator: Curator) -> Array:
        if self.permuted:
            curator.permute()
        seen: list[float] = []

        def first(rows: Array) -> Array:
            seen.append(rows.sum())
            return rows[None]

        def second(rows: Array) -> Array:
            return rows[None] + (seen[0] if self.carried else 0.0)

        released = [
            curator.release(
                label, ClippedMean(vectors, 1.0, divisor=1.0), rows=curator.part(k, SIZES)
            )
            for k, (label, vectors) in enumerate((("a", first), ("b", second)))
        ]
        return np.concatenate(released, axis=1)


@pytest.mark.parametrize("permuted", [False, True])
def test_a_part_that_moves_with_records_of_another_is_found(
    permuted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a public order decides which part the changed row is in."""

    def found(carried: bool) -> list[str]:
        made, _ = mechanism(Carrying(permuted=permuted, carried=carried))
        told = examine(made, seed=1, shape=Shape(6, (1,)))
        return [f.detail for f in told.findings if f.status == "broken" and f.check == APART]

    assert not found(carried=False)
    assert any("which is not among its rows" in text for text in found(carried=True))
    monkeypatch.setattr(_Examiner, "_neighbours", lambda *given: iter(()))
    assert not any("which is not among its rows" in text for text in found(carried=True))


# --- trials of an audit are independent -----------------------------------------------------------


def test_an_audit_runs_one_trial_at_a_time() -> None:
    """Trials that shared an order would be one draw of it, counted many times."""
    asked: list[list[int]] = []

    def run(batches: list[Batch]) -> Any:
        asked.append([batch.trials for batch in batches])
        return run_batches(task, batches, root_seed=0)

    def task(batch: Batch, generator: np.random.Generator) -> dict[str, Array]:
        declared = TwoParts().declaration(SCOPE)
        curator = Sampler(declared, SCOPE, Records(ROWS), rng=generator, trials=batch.trials)
        curator.independent = True
        return {"sums": TwoParts().run(curator)}

    results = run_independently(run, 0, 4, 20)
    assert asked[0] == [4, 4, 20, 20]
    assert asked[1] == [1] * 48
    first = {float(np.round(row["sums"][0, 0])) for row in results.values()}
    assert len(first) > 5  # of nine sums of two of six rows
    with pytest.raises(Dependent):
        task(Batch((0, 0, 0, 0), 2), np.random.default_rng(0))


def test_trials_that_would_share_a_coin_are_run_one_at_a_time() -> None:
    """One coin for all trials of a side tells the sides apart, however private they are."""

    def drawn(rows: int, trials: int) -> Array:
        curator = sampler(trials=trials)
        curator.independent = True
        return curator.coin(lambda rng: rng.random((rows, 6)))

    with pytest.raises(Dependent, match=r"coin: 50 trials would share one of shape \(1, 6\)"):
        drawn(1, 50)
    assert drawn(1, 1).shape == (1, 6)
    assert drawn(50, 50).shape == (50, 6)


def mechanism(program: Any) -> tuple[Mechanism, Suite]:
    made = Mechanism(
        "two_parts",
        "Two parts",
        "nobody",
        program,
        claims=(Claim(GDP(1), by="nobody"),),
        scope=SCOPE,
    )
    other = ROWS.copy()
    other[0] = 100.0
    pair = Neighbours(Records(ROWS), Records(other), Adjacency.REPLACE_ONE, "row 0 is 100")
    return made, Suite("two_parts", program, pair, trials=400)


@pytest.mark.quality
def test_a_leak_in_one_part_shows_as_often_as_the_order_puts_the_row_there() -> None:
    """Noise of .05 on part 1 shows its row; in a public order that is a third of the trials."""
    seen = {}
    for permuted in (True, False):
        program = Uneven(permuted=permuted)
        made, tried = mechanism(program)
        attacked = attack(made, tried, seed=1, trials=150, error=1e-3)
        assert attacked.test is not None
        seen[permuted] = float((np.abs(attacked.test.alternative) > 5).mean())
    assert seen[False] == 1.0
    assert 0.14 < seen[True] < 0.53  # 1/3, within five standard deviations of 150 trials


@dataclass(frozen=True)
class Uneven(TwoParts):
    """Part 1 with hardly any noise, part 2 with so much that nothing is seen."""

    def declaration(self, scope: Scope) -> Node:
        return Parallel(Gaussian("a", 0.05), Gaussian("b", 1e3))


# --- the catalogue -------------------------------------------------------------------------------


def test_the_catalogues_program_has_its_order_in_its_output() -> None:
    program = suite.program
    pair = suite.neighbours.pair
    declared = program.declaration(user_level_phased_sgd_public_order.scope)
    runs = []
    for seed in (0, 1):
        curator = Sampler(
            declared,
            user_level_phased_sgd_public_order.scope,
            pair[0],
            rng=np.random.default_rng(seed),
        )
        found = program.run(curator)
        assert (curator.transcript[0].released == found.order).all()
        runs.append(found.order[0])
    assert (runs[0] != runs[1]).any()
    assert sorted(runs[0]) == list(range(len(pair[0])))
    plain = replace(program.program)
    assert plain.declaration(user_level_phased_sgd_public_order.scope) == declared
