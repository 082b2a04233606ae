"""Shuffled, cyclic, allocated and truncated batches: drawn, replayed, attacked and certified."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

import dpaudit as dp
from dpaudit.audit.attack import attack
from dpaudit.audit.graybox import check_frequencies
from dpaudit.certificate.certify import certify
from dpaudit.certificate.order import Options, Order
from dpaudit.check.conformance import _is_declared, _shares
from dpaudit.curator.entitlement import Mask
from dpaudit.curator.latent import enumerated
from dpaudit.curator.replayer import Replayer
from dpaudit.errors import InvalidParameter, Undeclared
from dpaudit.families.batches import CyclicBatches, ShuffledBatches, TruncatedPoisson
from dpaudit.families.sampling import RandomAllocation
from dpaudit.kernels.batches import batches_of, in_slot, summing
from dpaudit.kernels.query import Array
from tests.library.cli.bench import DIGESTS, accept

F = Fraction
NOISE = dp.Gaussian("gradient", 1)
ZEROED, COMING = dp.central("zero_out"), dp.central("add_remove")
ERROR = 1e-4
CHECK = "sampling frequencies"

NODES: dict[str, Any] = {
    "shuffled": ShuffledBatches(NOISE, 6, 2),
    "kept": ShuffledBatches(dp.Repeat(NOISE, 2), 6, 2),
    "cyclic": CyclicBatches(dp.Repeat(NOISE, 2), 6, 2),
    "allocated": RandomAllocation(NOISE, 3),
    "drawn_twice": RandomAllocation(NOISE, 3, 2),
    "truncated": TruncatedPoisson(NOISE, F(2, 5), 6, 3),
}
GROWING = ("allocated", "drawn_twice", "truncated")
SCOPES = {n: COMING if n in GROWING else ZEROED for n in NODES}


@dataclass(frozen=True)
class Steps:
    """The sum of clipped records on each batch in turn."""

    node: dp.Node
    batches: int

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return self.node

    def run(self, curator: dp.Curator) -> Array:
        total = np.zeros((curator.trials, 1))
        query = dp.ClippedMean(lambda values: values[None], radius=1, divisor=1)
        for _ in range(self.batches):
            with curator.batch("gradient") as batch:
                total = total + curator.release("gradient", query, rows=batch)
        return total


def length(node: Any) -> int:
    return batches_of(node).length


def neighbours(name: str) -> dp.Neighbours:
    """One record that fills the ball, among zeros."""
    scope = SCOPES[name].adjacency
    if name in ("allocated", "drawn_twice"):
        first = np.array([[0.0], [1.0]])
        return dp.Neighbours(dp.Records(first), dp.Records(first[:1]), scope, "a record of 1")
    first = np.zeros((6, 1))
    first[-1] = 1.0
    if name == "truncated":
        return dp.Neighbours(dp.Records(first), dp.Records(first[:-1]), scope, "a record of 1")
    absent = dp.Records(first, np.arange(6) < 5)
    return dp.Neighbours(dp.Records(first), absent, scope, "a record of 1")


def repeated(name: str, passes: int) -> Steps:
    node = NODES[name]
    return Steps(dp.Repeat(node, passes), passes * length(node))


def suite_of(name: str, passes: int, **options: Any) -> tuple[dp.Mechanism, dp.Suite]:
    program = repeated(name, passes)
    claim = dp.Claim(dp.ApproxDP(20, "1e-3"), by="a test")
    of = dp.Mechanism(name, name, "a test", program, SCOPES[name], [claim])
    return of, dp.Suite(name, program, neighbours(name), trials=400, **options)


# --- the law of what is drawn --------------------------------------------------------------------


def laws(name: str) -> Iterator[tuple[float, tuple[tuple[int, ...], ...]]]:
    """Chances and batches of one pass over six records, one by one."""
    everyone = range(6)
    if name in ("shuffled", "kept"):
        for order in itertools.permutations(everyone):
            blocks = tuple(tuple(sorted(order[k : k + 2])) for k in (0, 2, 4))
            yield 1 / math.factorial(6), blocks
    elif name == "cyclic":
        yield 1.0, ((0, 1), (2, 3), (4, 5))
    elif name == "allocated":
        for slots in itertools.product(range(3), repeat=6):
            yield 3.0**-6, tuple(tuple(i for i in everyone if slots[i] == s) for s in range(3))
    elif name == "drawn_twice":
        for pairs in itertools.product(itertools.combinations(range(3), 2), repeat=6):
            yield 3.0**-6, tuple(tuple(i for i in everyone if s in pairs[i]) for s in range(3))
    else:
        for coins in itertools.product((0, 1), repeat=6):
            came = [i for i in everyone if coins[i]]
            kept = list(itertools.combinations(came, min(3, len(came))))
            for one in kept:
                yield 0.4 ** len(came) * 0.6 ** (6 - len(came)) / len(kept), (one,)


@pytest.mark.parametrize("name", NODES)
def test_outcomes_are_all_assignments_by_their_counts(name: str) -> None:
    """Against every assignment one by one: the batches' sums over two kinds of records."""
    values = np.array([5.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    found = enumerated(NODES[name], dp.Records(values[:, None]))
    assert found is not None
    expected: dict[tuple[float, ...], float] = defaultdict(float)
    for chance, blocks in laws(name):
        expected[tuple(float(values[list(b)].sum()) for b in blocks)] += chance
    given: dict[tuple[float, ...], float] = defaultdict(float)
    for places, log in zip(found.masks, found.logs, strict=True):
        slots = [in_slot(places, s)[0] for s in range(batches_of(NODES[name]).slots)]
        given[tuple(float(values[m].sum()) for m in slots)] += math.exp(log)
    assert given == pytest.approx(dict(expected), rel=1e-12)


@pytest.mark.first_case
@pytest.mark.parametrize("name", NODES)
def test_batches_are_drawn_by_their_law(name: str) -> None:
    """Chi-square over all outcomes of 20,000 draws; z below 5 (false alarm 1e-6)."""
    expected: dict[tuple[tuple[int, ...], ...], float] = defaultdict(float)
    for chance, blocks in laws(name):
        expected[blocks] += chance
    drawn, trials = batches_of(NODES[name]), 20_000
    places = drawn.assign(trials, 6, np.random.default_rng(1))
    seen: dict[tuple[tuple[int, ...], ...], int] = defaultdict(int)
    for masks in zip(*(in_slot(places, s) for s in range(drawn.slots)), strict=True):
        seen[tuple(tuple(np.flatnonzero(m).tolist()) for m in masks)] += 1
    assert set(seen) <= set(expected)
    squares = sum((seen[k] - trials * p) ** 2 / (trials * p) for k, p in expected.items())
    degrees = len(expected) - 1
    assert abs(squares - degrees) <= 5 * math.sqrt(2 * max(degrees, 1))
    assert drawn.share(6) == pytest.approx(
        sum(p for blocks, p in expected.items() if 3 in blocks[0]) if name != "cyclic" else 1 / 3
    )


def test_the_checker_has_the_same_shares() -> None:
    assert [float(share) for share in _shares(NODES["drawn_twice"])] == [2 / 3, 1 / 3]
    for name in ("shuffled", "kept", "allocated", "drawn_twice"):
        share, *_ = _shares(NODES[name])
        assert float(share) == batches_of(NODES[name]).share(6)
    assert _shares(NODES["cyclic"]) == []
    for rate, population, most in ((F(2, 5), 6, 3), (F(1, 100), 5000, 60)):
        node = TruncatedPoisson(NOISE, rate, population, most)
        for size in (1, most, most + 1, population - 1, population):
            share = batches_of(node).share(size)
            for seen in (share, share**2):
                assert _is_declared(seen, node)
                assert not _is_declared(seen * (1 + 1e-9), node)


@pytest.mark.quality
@pytest.mark.parametrize("name", NODES)
def test_scores_are_the_ratio_of_mixtures_over_whole_passes(name: str) -> None:
    """Densities of every assignment, summed, at transcripts of one pass."""
    node, pair = NODES[name], neighbours(name)
    program, scope = Steps(node, length(node)), SCOPES[name]
    sampler = dp.Sampler(node, scope, pair.first, rng=np.random.default_rng(2), trials=40)
    program.run(sampler)
    replayed = Replayer(program, node, scope, (pair.first, pair.second), coins=5)
    found = replayed.inspect(sampler.transcript, own=0)
    assert found.attack == "exact"
    assert found.violations == ()
    released = np.stack([e.released[:, 0] for e in sampler.transcript])

    def density(records: dp.Records) -> Array:
        values = np.where(records.present, records.values[:, 0], 0.0)
        total = np.zeros(40)
        for chance, blocks in laws(name):
            one = np.full(40, chance)
            for visit, row in enumerate(released):
                inside = [i for i in blocks[visit % len(blocks)] if i < len(values)]
                one = one * norm.pdf(row, values[inside].sum())
            total += one
        return total

    # Zeros alone, whoever comes, where a record is missing.
    other = norm.pdf(released[0]) if name == "truncated" else density(pair.second)
    both = density(pair.first), other
    np.testing.assert_allclose(found.scores, np.log(both[0] / both[1]), rtol=1e-9, atol=1e-12)


def test_a_program_that_stops_within_a_pass_is_scored_by_what_it_released() -> None:
    node, pair = NODES["shuffled"], neighbours("shuffled")
    program = Steps(node, 1)
    sampler = dp.Sampler(node, ZEROED, pair.first, rng=np.random.default_rng(3), trials=9)
    program.run(sampler)
    scores = Replayer(program, node, ZEROED, (pair.first, pair.second)).scores(sampler.transcript)
    (event,) = sampler.transcript
    shown = event.released[:, 0]
    expected = np.log((2 + np.exp(shown - 0.5)) / 3)
    np.testing.assert_allclose(scores, expected, rtol=1e-12)


# --- audits: right batches hold, planted bugs are found ------------------------------------------


class Drawer:
    """A wrong way to draw batches."""

    def __init__(self, sampling: Any, trials: int) -> None:
        self.drawn, self.trials, self.used = batches_of(sampling), trials, -1
        self.kept: Any = None

    def draw(self, size: int, rng: np.random.Generator) -> Mask:
        self.used += 1
        return self.batch(self.used, size, rng)

    def batch(self, index: int, size: int, rng: np.random.Generator) -> Mask:
        raise NotImplementedError

    def fresh(self, size: int, rng: np.random.Generator) -> Any:
        return self.drawn.assign(self.trials, size, rng)


class SameBatch(Drawer):
    """The first batch again and again."""

    def batch(self, index: int, size: int, rng: np.random.Generator) -> Mask:
        if self.kept is None:
            self.kept = in_slot(self.fresh(size, rng), 0)
        return np.asarray(self.kept)


class KeptOrder(Drawer):
    """One assignment for all passes."""

    def batch(self, index: int, size: int, rng: np.random.Generator) -> Mask:
        if self.kept is None:
            self.kept = self.fresh(size, rng)
        return in_slot(self.kept, self.drawn.slot(index))


class NewEachVisit(Drawer):
    """A new assignment for every batch: records are in several, or in none."""

    def batch(self, index: int, size: int, rng: np.random.Generator) -> Mask:
        return in_slot(self.fresh(size, rng), self.drawn.slot(index))


class HalfTheBatches(Drawer):
    """Twice as large, half as many, and then again."""

    def batch(self, index: int, size: int, rng: np.random.Generator) -> Mask:
        if self.kept is None or index % self.drawn.length == 0:
            self.kept = self.fresh(size, rng)
        first = self.drawn.slot(index) // 2 * 2
        return in_slot(self.kept, first) | in_slot(self.kept, first + 1)


class LastFirst(Drawer):
    """The last record is in the first batch, in place of another."""

    def batch(self, index: int, size: int, rng: np.random.Generator) -> Mask:
        if self.drawn.slot(index) == 0:
            self.kept = np.array(self.fresh(size, rng))
            other = np.argmax(self.kept == 0, axis=1)
            rows = np.arange(len(self.kept))
            self.kept[rows, other] = self.kept[:, -1]
            self.kept[:, -1] = 0
        return in_slot(self.kept, self.drawn.slot(index))


class NeverCut(Drawer):
    """Poisson batches of any size."""

    def batch(self, index: int, size: int, rng: np.random.Generator) -> Mask:
        return np.asarray(rng.random((self.trials, size)) < 0.4)


class CutFromTheEnd(Drawer):
    """The last records that came stay: a record of the end is never cut."""

    def batch(self, index: int, size: int, rng: np.random.Generator) -> Mask:
        came = rng.random((self.trials, size)) < 0.4
        return np.asarray(came & (np.cumsum(came[:, ::-1], axis=1)[:, ::-1] <= 3))


class OtherBlocks(Drawer):
    """Every third record, not a block."""

    def batch(self, index: int, size: int, rng: np.random.Generator) -> Mask:
        return np.broadcast_to(np.arange(size) % 3 == index % 3, (self.trials, size))


class NextSlots(Drawer):
    """Two slots of four, one after the other: each as often as declared."""

    def batch(self, index: int, size: int, rng: np.random.Generator) -> Mask:
        slot = self.drawn.slot(index)
        if slot == 0:
            self.kept = rng.integers(0, 4, (self.trials, size))
        return np.asarray((slot - self.kept) % 4 < 2)


BUGS = [
    ("shuffled", SameBatch),
    ("shuffled", KeptOrder),
    ("shuffled", NewEachVisit),
    ("shuffled", HalfTheBatches),
    ("shuffled", LastFirst),
    ("kept", SameBatch),
    ("kept", NewEachVisit),
    ("cyclic", SameBatch),
    ("cyclic", OtherBlocks),
    ("allocated", SameBatch),
    ("allocated", KeptOrder),
    ("allocated", NewEachVisit),
    ("allocated", LastFirst),
    ("drawn_twice", SameBatch),
    ("drawn_twice", KeptOrder),
    ("drawn_twice", NewEachVisit),
    ("truncated", SameBatch),
    ("truncated", NeverCut),
    ("truncated", CutFromTheEnd),
]


@pytest.mark.first_case
@pytest.mark.parametrize("name", NODES)
def test_batches_as_declared_are_not_flagged(name: str) -> None:
    """False alarms: 1e-4 each."""
    of, suite = suite_of(name, 6)
    found = attack(of, suite, seed=4, trials=400, error=ERROR)
    assert {f.status for f in found.findings} <= {"held", "not_run"}
    assert found.attack == "exact"
    assert any(f.check == CHECK for f in found.findings) == (name != "cyclic")


@pytest.mark.first_case("bug")
@pytest.mark.long_cases("kept-SameBatch", "kept-NewEachVisit")
@pytest.mark.parametrize(("name", "bug"), BUGS)
def test_batches_drawn_otherwise_are_found(name: str, bug: type[Drawer]) -> None:
    of, suite = suite_of(name, 6, kernels={type(NODES[name]): bug})
    found = attack(of, suite, seed=4, trials=400, error=ERROR)
    (row,) = [f for f in found.findings if f.check == CHECK]
    assert row.status == "broken", row.detail


@pytest.mark.parametrize("other", [None, NextSlots])
def test_slots_that_come_together_are_found(other: type[Drawer] | None) -> None:
    """False alarms: 1e-4."""
    node, rng = RandomAllocation(NOISE, 4, 2), np.random.default_rng(3)
    drawer = (other or KeptOrder)(node, 400)
    masks = []
    for index in range(24):
        if other is None and index % 4 == 0:
            drawer.kept = None
        masks.append((node, drawer.batch(index, 6, rng)))
    found = check_frequencies(masks, ERROR)
    assert (found.status == "broken") == (other is not None)


@pytest.mark.quality
def test_the_rate_of_false_alarms_of_passes() -> None:
    """400 nulls at 5%: 20 expected at most; 41 or more happen with probability below 1e-5."""
    flagged = 0
    for seed in range(400):
        names = ("shuffled", "allocated", "drawn_twice")
        rng, node = np.random.default_rng(seed), NODES[names[seed % 3]]
        masks = []
        for _ in range(6):
            places = batches_of(node).assign(30, 6, rng)
            masks += [(node, in_slot(places, slot)) for slot in range(3)]
        flagged += check_frequencies(masks, 0.05).status == "broken"
    assert flagged < 41


# --- certificates --------------------------------------------------------------------------------


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize(
    "name",
    [
        "shuffled",
        "truncated",
        pytest.param("cyclic", marks=pytest.mark.quality),
        pytest.param("allocated", marks=pytest.mark.quality),
        "drawn_twice",
    ],
)
def test_a_mechanism_on_such_batches_is_certified_and_its_certificate_confirmed(name: str) -> None:
    """A population of at most six leaves four records to the examination: too few for a verdict."""
    of, suite = suite_of(name, 2)
    found = certify([Order(of, suite, "project", DIGESTS)], Options(seed=5, trials=400))[0]
    predicate = found.certificate["predicate"]
    status = "unconfirmed" if name == "truncated" else "certified_under_assumptions"
    assert predicate["verdict"]["status"] == status
    assert [row["check"] for row in predicate["conformance"] if row["status"] == "broken"] == []
    accept(found.certificate)


@pytest.mark.quality
def test_a_bug_in_the_batches_is_no_certificate() -> None:
    of, suite = suite_of("shuffled", 2, kernels={ShuffledBatches: SameBatch})
    found = certify([Order(of, suite, "project", DIGESTS)], Options(seed=5, trials=400))[0]
    assert found.certificate["predicate"]["verdict"]["status"] == "alarm"
    accept(found.certificate)


# --- what is refused -----------------------------------------------------------------------------


def test_batches_beyond_the_declared_ones_are_refused() -> None:
    for name in NODES:
        node, pair = NODES[name], neighbours(name)
        sampler = dp.Sampler(node, SCOPES[name], pair.first, rng=np.random.default_rng(0))
        with pytest.raises(Undeclared, match="declared batches were drawn"):
            Steps(node, length(node) + 1).run(sampler)


def test_two_uses_in_one_batch_are_refused() -> None:
    node = NODES["kept"]
    sampler = dp.Sampler(node, ZEROED, neighbours("kept").first, rng=np.random.default_rng(0))
    query = dp.ClippedMean(lambda values: values[None], radius=1, divisor=1)
    with sampler.batch("gradient") as batch:
        sampler.release("gradient", query, rows=batch)
        with pytest.raises(Undeclared, match="draw the next batch"):
            sampler.release("gradient", query, rows=batch)


def test_other_numbers_of_records_are_refused_by_name() -> None:
    data, rng = dp.Records(np.zeros((7, 1))), np.random.default_rng(0)
    for name in ("shuffled", "cyclic"):
        with pytest.raises(InvalidParameter, match="another number of records"):
            dp.Sampler(NODES[name], ZEROED, data, rng=rng)
        with pytest.raises(InvalidParameter, match="no fixed population under add_remove"):
            dp.Sampler(NODES[name], COMING, dp.Records(np.zeros((6, 1))), rng=rng)
    with pytest.raises(InvalidParameter, match="declared for at most 6 records"):
        dp.Sampler(NODES["truncated"], COMING, data, rng=rng)


def test_a_schedule_of_rounds_gives_each_round_its_noise() -> None:
    import sympy

    k = sympy.Symbol("k", positive=True, integer=True)
    node = CyclicBatches(dp.Repeat(dp.Gaussian("gradient", k), 2, k), 4, 2)
    sampler = dp.Sampler(
        node, ZEROED, dp.Records(np.zeros((4, 1))), rng=np.random.default_rng(0), trials=4000
    )
    Steps(node, 4).run(sampler)
    spread = [float(event.released.std()) for event in sampler.transcript]
    assert spread == pytest.approx([1, 1, 2, 2], rel=0.1)


def test_the_checker_knows_the_largest_loss_of_branches() -> None:
    """Both directions, against the branches one by one; one without an end has none."""
    from dpaudit.check.profile.closed import largest_loss_at_least, largest_loss_at_most
    from dpaudit.pairs import Atoms, Branched, Normal

    coin = Atoms(((F(3, 4), F(1, 4)), (F(1, 4), F(3, 4))))
    pair = Branched(((F(1, 2), F(1, 4), coin), (F(1, 2), F(3, 4), coin)))
    ends = {pair: math.log(6), pair.swapped: math.log(4.5)}
    for one, largest in ends.items():
        assert largest_loss_at_most(one, F(largest + 1e-9))
        assert not largest_loss_at_most(one, F(largest - 1e-9))
        assert largest_loss_at_least(one, F(largest - 1e-9))
        assert not largest_loss_at_least(one, F(largest + 1e-9))
    endless = Branched(((F(1, 2), F(1, 2), coin), (F(1, 2), F(1, 2), Normal(F(1)))))
    assert not largest_loss_at_most(endless, F(10**6))


def test_ways_to_fill_a_batch_are_counted_in_order_and_of_thousands_of_kinds() -> None:
    """A function that called itself for each kind was too deep for a thousand distinct records."""
    sizes = (2, 0, 3, 1)
    every = [c for c in itertools.product(*(range(s + 1) for s in sizes)) if sum(c) == 3]
    assert list(summing(3, sizes)) == every
    assert list(summing(7, sizes)) == []
    first = next(summing(100, [1] * 3000))
    assert first == (0,) * 2900 + (1,) * 100
