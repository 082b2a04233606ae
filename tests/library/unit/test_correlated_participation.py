"""Who may take part in which rounds of correlated noise, for every curator."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from dpaudit.curator.curator import Curator, Sampler, Tracer
from dpaudit.errors import InvalidParameter, Undeclared
from dpaudit.families.composition import Compose, Parallel, Repeat
from dpaudit.families.correlated import CorrelatedGaussian, Participation
from dpaudit.kernels.query import ClippedMean, Records
from dpaudit.nodes import Node
from tests.support.kernels import ADD_REMOVE, ZERO_OUT, Written, replayer, sampled


def noise(rounds: int = 7, who: Any = (1, 1)) -> CorrelatedGaussian:
    return CorrelatedGaussian("sum", 1, rounds, "tree", Participation(*who))


def identity() -> ClippedMean:
    return ClippedMean(lambda z: z[None], radius=1.0, divisor=1.0)


def rounds_of(curator: Curator, parts: Any) -> None:
    """One round for each entry: a part of SIX, or None for all records."""
    for part in parts:
        rows = None if part is None else curator.part(part, SIZES)
        curator.release("sum", identity(), rows=rows)


SIX, SIZES = Records(np.zeros((6, 1))), (2, 1, 3)
REFUSED: list[tuple[tuple[int, int], list[int | None], str]] = [
    (
        (1, 1),
        [0, 1, 0],
        "'sum' on part 0 in round 3: a record of it took part in 1 round, the last is round 1; "
        "the declared participation is one round",
    ),
    ((1, 1), [None, 2], "part 2 in round 2: a record of it took part in 1 round, the last is"),
    ((1, 1), [1, None], "all records in round 2: a record of it took part in 1 round, the last"),
    ((2, 1), [0, 0, 0], "part 0 in round 3: a record of it took part in 2 rounds, the last is"),
    ((2, 1), [0, None, 1, 0], "part 0 in round 4: a record of it took part in 2 rounds"),
    ((2, 3), [0, 1, 0], "the declared participation is 2 rounds, 3 apart"),
    ((2, 3), [0, 1, None], "all records in round 3: a record of it took part in 1 round, the last"),
]


def curators(node: Node) -> list[Curator]:
    rng = np.random.default_rng(1)
    return [Sampler(node, ZERO_OUT, SIX, rng=rng, trials=2), Tracer(node, ZERO_OUT, SIX)]


@pytest.mark.parametrize(("who", "parts", "message"), REFUSED)
def test_a_round_too_many_or_too_close_is_refused_by_name(
    who: tuple[int, int], parts: list[int | None], message: str
) -> None:
    for curator in curators(noise(who=who)):
        rounds_of(curator, parts[:-1])
        with pytest.raises(Undeclared, match=message):
            rounds_of(curator, parts[-1:])
        assert curator.entitlements.counts()["sum"][1] == len(parts) - 1


@pytest.mark.first_case
@pytest.mark.parametrize("who", [(1, 1), (1, 2), (2, 1), (2, 2), (2, 3), (3, 1), (3, 2)])
def test_exactly_the_declared_participations_are_allowed(who: tuple[int, int]) -> None:
    """Every sequence of four rounds, against the rounds of each record."""

    def fits(parts: tuple[int | None, ...]) -> bool:
        each = [[t for t, p in enumerate(parts) if p in (None, part)] for part in range(3)]
        apart = (b - a for rounds in each for a, b in itertools.pairwise(rounds))
        return max(map(len, each)) <= who[0] and all(gap >= who[1] for gap in apart)

    for parts in itertools.product((None, 0, 1, 2), repeat=4):
        curator = Tracer(noise(who=who), ZERO_OUT, SIX)
        first = next((t for t in range(1, 5) if not fits(parts[:t])), None)
        rounds_of(curator, parts[: 4 if first is None else first - 1])
        if first is not None:
            with pytest.raises(Undeclared, match=f"in round {first}: a record of it took part"):
                rounds_of(curator, parts[first - 1 : first])


def test_a_use_of_the_noise_counts_its_own_rounds() -> None:
    for curator in curators(Repeat(noise(rounds=2), 2)):
        rounds_of(curator, [0, 1, 1, 0])
    for curator in curators(Compose(noise(rounds=1), noise(rounds=1))):
        rounds_of(curator, [None, None])


def test_a_walk_refuses_what_a_sampler_refuses() -> None:
    twice = Written(noise(), lambda c: rounds_of(c, [0, 1, 0]))
    allowed = Written(noise(who=(2, 1)), twice.body)
    transcript = sampled(allowed, SIX, ZERO_OUT, seed=1).transcript
    with pytest.raises(Undeclared, match="part 0 in round 3"):
        replayer(twice, (SIX, SIX), ZERO_OUT).scores(transcript)
    assert replayer(allowed, (SIX, SIX), ZERO_OUT).scores(transcript).tolist() == [0.0]


def test_a_part_that_was_declared_is_the_only_one() -> None:
    node = Parallel(noise(rounds=2), CorrelatedGaussian("other", 1, 2, "tree", Participation(2)))
    for curator in curators(node):
        parts = [curator.part(i, (2, 4)) for i in range(2)]
        with pytest.raises(Undeclared, match="on part 1: it was declared on part 0"):
            curator.release("sum", identity(), rows=parts[1])
        with pytest.raises(Undeclared, match="on all records: it was declared on part 0"):
            curator.release("sum", identity())
        for label, times in (("sum", 1), ("other", 2)):
            for _ in range(times):
                curator.release(label, identity(), rows=parts[label == "other"])
        with pytest.raises(Undeclared, match="'sum' on part 0 in round 2"):
            curator.release("sum", identity(), rows=parts[0])


def test_parts_by_position_are_refused_where_a_record_may_be_added() -> None:
    sampler = sampled(Written(noise(), lambda c: None), SIX, ADD_REMOVE, seed=1)
    with pytest.raises(InvalidParameter, match="under add_remove a record that comes or goes"):
        sampler.part(0, SIZES)
    sampler.release("sum", identity())
    with pytest.raises(Undeclared, match="all records in round 2"):
        sampler.release("sum", identity())
