"""Secret batches: their law, their scope, and scores averaged over coins of the replayer's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpaudit.curator.coins import draw_batch
from dpaudit.curator.curator import Curator, Sampler
from dpaudit.errors import InvalidParameter, Undeclared
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Compose, Parallel, Repeat
from dpaudit.families.sampling import PoissonSampled, SampledWithoutReplacement
from dpaudit.kernels.query import Array, ClippedMean, Records
from dpaudit.nodes import Node
from dpaudit.scope import Scope
from tests.support.kernels import (
    ADD_REMOVE,
    ZERO_OUT,
    NoNoise,
)

DATA = Records(np.array([[0.5], [-0.25], [8.0], [0.125]]))


def clipped(radius: float = 1.0, **options: Any) -> ClippedMean:
    return ClippedMean(lambda z: z[None], radius, **{"divisor": 1.0, **options})


def sampler(
    node: Node, scope: Scope = ZERO_OUT, records: Records = DATA, **options: Any
) -> Sampler:
    return Sampler(node, scope, records, rng=np.random.default_rng(0), **options)


# --- secret batches ------------------------------------------------------------------------------


@pytest.mark.parametrize(("few", "size"), [(3, 7), (600, 2_000)])
def test_a_batch_is_the_records_with_the_smallest_of_its_numbers(few: int, size: int) -> None:
    sampling = SampledWithoutReplacement(Gaussian("a", 1), few, size)
    found = draw_batch(sampling, 20, size, np.random.default_rng(4))
    numbers = np.random.default_rng(4).random((size, 20)).T
    assert (found == (numbers.argsort(axis=1).argsort(axis=1) < few)).all()


def test_poisson_batches_hold_each_record_at_its_rate_independently() -> None:
    """Counts of 4 records and 6 pairs at 20,000 trials, within 5 deviations: 6e-6."""
    rng = np.random.default_rng(3)
    chosen = draw_batch(PoissonSampled(Gaussian("a", 1), 0.3), 20_000, 4, rng)
    deviation = (0.21 / 20_000) ** 0.5
    assert np.abs(chosen.mean(axis=0) - 0.3).max() < 5 * deviation
    assert np.abs(np.corrcoef(chosen.T) - np.eye(4)).max() < 5 / 20_000**0.5
    sizes = np.bincount(chosen.sum(axis=1), minlength=5)
    expected = 20_000 * np.asarray(stats.binom.pmf(range(5), 4, 0.3))
    assert stats.chisquare(sizes, expected).pvalue > 1e-4


def test_batches_without_replacement_are_uniform_and_exact() -> None:
    """The 10 subsets of 2 of 5 are equally frequent: chi-square at level 1e-4."""
    node = SampledWithoutReplacement(Gaussian("a", 1), 2, 5)
    chosen = draw_batch(node, 20_000, 5, np.random.default_rng(4))
    assert (chosen.sum(axis=1) == 2).all()
    subsets = np.unique(chosen @ (1 << np.arange(5)), return_counts=True)[1]
    assert len(subsets) == 10
    assert stats.chisquare(subsets).pvalue > 1e-4
    small = SampledWithoutReplacement(Gaussian("a", 1), 2, 8)
    chosen = draw_batch(small, 20_000, 8, np.random.default_rng(4))
    assert (chosen.sum(axis=1) == 2).all()
    subsets = np.unique(chosen @ (1 << np.arange(8)), return_counts=True)[1]
    assert len(subsets) == 28
    assert stats.chisquare(subsets).pvalue > 1e-4
    whole = SampledWithoutReplacement(Gaussian("a", 1), 5, 5)
    assert draw_batch(whole, 3, 5, np.random.default_rng(5)).all()


@pytest.mark.parametrize("size", [1, 2, 3, 4, 6, 7])
def test_a_batch_that_is_most_of_all_is_where_the_uniforms_are_smallest(size: int) -> None:
    node = SampledWithoutReplacement(Gaussian("a", 1), size, 7)
    chosen = draw_batch(node, 300, 7, np.random.default_rng(6))
    if 4 * size > 7:
        uniform = np.random.default_rng(6).random((7, 300)).T
        assert (chosen == (uniform.argsort(axis=1).argsort(axis=1) < size)).all()
    assert (chosen.sum(axis=1) == size).all()


def batch_sums(node: Node, scope: Scope = ZERO_OUT, trials: int = 2000) -> Array:
    query = clipped(100.0, divisor=1.0)

    def body(curator: Curator) -> Array:
        found = []
        for _ in range(3):
            with curator.batch("a") as batch:
                found += [curator.release(label, query, rows=batch) for label in ("a", "b")]
        return np.concatenate(found, axis=1)

    records = Records(np.array([[2.0**i] for i in range(6)]))
    curator = sampler(node, scope, records, trials=trials, kernels={Gaussian: NoNoise})
    return body(curator)


def test_releases_of_one_step_share_a_batch_and_steps_do_not() -> None:
    both = Compose(Gaussian("a", 1), Gaussian("b", 1))
    sums = batch_sums(Repeat(SampledWithoutReplacement(both, 2, 6), 3))
    np.testing.assert_array_equal(sums[:, ::2], sums[:, 1::2])
    steps = sums[:, ::2]
    assert set(np.unique(steps)) == {2.0**i + 2.0**j for i in range(6) for j in range(i)}
    same = (steps[:, 0] == steps[:, 1]).mean()
    assert same == pytest.approx(1 / 15, abs=0.03)


def test_a_batch_is_valid_inside_its_step_and_for_its_labels() -> None:
    node = Compose(Repeat(PoissonSampled(Gaussian("a", 1), 0.5), 2), Gaussian("b", 1))
    curator, query = sampler(node, ZERO_OUT), clipped(divisor=2)
    with curator.batch("a") as batch:
        with pytest.raises(InvalidParameter, match="a batch is open already"), curator.batch("a"):
            pass
        with pytest.raises(Undeclared, match=r"'b'.*asked on a secret batch"):
            curator.release("b", query, rows=batch)
        curator.release("a", query, rows=batch)
        with pytest.raises(Undeclared, match="next batch"):
            curator.release("a", query, rows=batch)
    with pytest.raises(Undeclared, match="inside the step"):
        curator.release("a", query, rows=batch)
    with pytest.raises(Undeclared, match="not declared under a sampling"), curator.batch("b"):
        pass
    assert curator.entitlements.counts() == {"a": (2, 1, 1), "b": (1, 0, 0)}


def test_a_batch_of_a_part_is_drawn_from_it_alone() -> None:
    """Two clients of 3 and 4 records, each with batches of its own."""
    declared = Parallel(
        Repeat(SampledWithoutReplacement(Gaussian("a", 1), 2, 3), 2),
        Repeat(SampledWithoutReplacement(Gaussian("b", 1), 1, 4), 1),
    )
    records, query = Records(np.array([[2.0**i] for i in range(7)])), clipped(1e3, divisor=1.0)
    curator = sampler(declared, ZERO_OUT, records, trials=500, kernels={Gaussian: NoNoise})
    first, second = (curator.part(i, (3, 4)) for i in range(2))
    with pytest.raises(Undeclared, match="on all records: it was"), curator.batch("a"):
        pass
    with pytest.raises(Undeclared, match="on part 1"), curator.batch("a", second):
        pass
    with curator.batch("a", first) as batch:
        with pytest.raises(Undeclared, match="declared on part 1"):
            curator.release("b", query, rows=batch)
        sums = curator.release("a", query, rows=batch)[:, 0]
    assert set(sums) == {3.0, 5.0, 6.0}
    with curator.batch("b", second) as batch:
        assert set(curator.release("b", query, rows=batch)[:, 0]) == {8.0, 16.0, 32.0, 64.0}
    with pytest.raises(Undeclared, match="all 1 declared batches"), curator.batch("b", second):
        pass
    assert curator.entitlements.counts() == {"a": (2, 1, 1), "b": (1, 1, 1)}


def test_a_batch_of_a_part_of_another_size_is_refused_and_not_spent() -> None:
    declared = Parallel(*(SampledWithoutReplacement(Gaussian(k, 1), 2, 3) for k in "ab"))
    curator = sampler(declared, ZERO_OUT, Records(np.zeros((7, 1))))
    parts = [curator.part(i, (3, 4)) for i in range(2)]
    with pytest.raises(InvalidParameter, match="another number"), curator.batch("b", parts[1]):
        pass
    with curator.batch("a", parts[0]):
        pass


def test_a_step_that_fails_closes_its_batch() -> None:
    curator = sampler(Repeat(PoissonSampled(Gaussian("a", 1), 0.5), 2), ZERO_OUT)
    with pytest.raises(RuntimeError), curator.batch("a"):
        raise RuntimeError
    with curator.batch("a") as batch:
        curator.release("a", clipped(), rows=batch)
    assert len(curator.transcript) == 1


def test_a_fixed_population_is_that_of_the_records() -> None:
    node = SampledWithoutReplacement(Gaussian("a", 1), 2, 5)
    with pytest.raises(InvalidParameter, match="another number of records"):
        sampler(node)
    with pytest.raises(InvalidParameter, match="add_remove"):
        sampler(SampledWithoutReplacement(Gaussian("a", 1), 2, 4), ADD_REMOVE)
