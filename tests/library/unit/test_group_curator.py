"""Groups: run, replayed on data sets that differ in so many records, attacked and certified."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.audit.attack import attack
from dpaudit.certificate.certify import certify
from dpaudit.certificate.order import Options, Order
from dpaudit.curator.uses import grouped
from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.families.additive.kernel import LaplaceKernel
from dpaudit.kernels.query import Array
from tests.library.cli.bench import DIGESTS, accept

F = Fraction
SCOPE = dp.central("add_remove")
ERROR = 1e-4
HOUSEHOLD = dp.Group(dp.Laplace("count", 4), 4)
SAMPLED = dp.Group(dp.Repeat(dp.PoissonSampled(dp.Gaussian("count", 4), F(1, 2)), 3), 4)


@dataclass(frozen=True)
class Counts:
    """The sum of all rows, or of those of a batch, each clipped to 1; ``times`` as large."""

    node: dp.Node
    norm: Any = "l1"
    times: float = 1.0

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return self.node

    def run(self, curator: dp.Curator) -> Array:
        query: Any = dp.clipped_sum(lambda values: values[None], 1, self.norm)
        if self.times != 1:
            query = _Larger(lambda values: self.times * values[None], 1, norm=self.norm, divisor=1)
        if self.node != SAMPLED:
            return curator.release("count", query)
        total = np.zeros((curator.trials, 1))
        for _ in range(3):
            with curator.batch("count") as batch:
                total = total + curator.release("count", query, rows=batch)
        return total


@dataclass(frozen=True, eq=False)
class _Larger(dp.ClippedMean):
    """Clips to three times what it states."""

    def value(self, records: dp.Records, chosen: Any = None) -> Array:
        return 3 * super().value(records, chosen)


def neighbours(gone: int, size: int = 4) -> dp.Neighbours:
    rows = np.ones((6, 1))
    rows[:2] = 0.0
    one = dp.Records(rows)
    return dp.Neighbours(one, one.rows(0, 6 - gone), SCOPE.adjacency, f"{gone} rows go", size)


def suite_of(
    run: Counts, claim: dp.Node, gone: int = 4, trials: int = 4_000, **options: Any
) -> tuple[dp.Mechanism, dp.Suite]:
    of = dp.Mechanism("count", "a count", "a test", run, SCOPE, [dp.Claim(claim, by="a test")])
    return of, dp.Suite("count", run, neighbours(gone), trials=trials, **options)


def test_a_group_that_comes_or_goes_shows_its_whole_epsilon() -> None:
    """Laplace noise of 4 and a household of 4: epsilon 1 is reached, a single record's 1/4."""
    for gone, low, high in ((4, 0.8, 1.0), (1, 0.1, 0.25)):
        of, suite = suite_of(Counts(HOUSEHOLD), dp.PureDP(1), gone, trials=20_000)
        found = attack(of, suite, seed=1, error=ERROR)
        assert {f.status for f in found.findings} <= {"held", "not_run"}
        scores = found.test
        assert scores is not None
        assert np.abs(scores.alternative).max() == pytest.approx(gone / 4)
        shown = np.log((scores.alternative > 0).mean() / (scores.null > 0).mean())
        assert low < shown < high + 0.02


def test_a_member_that_moves_more_than_is_stated_is_found() -> None:
    """Each of four records moves the sum by 3: 12 where 4 is allowed."""
    of, suite = suite_of(Counts(HOUSEHOLD, times=3), dp.PureDP(1))
    found = attack(of, suite, seed=1, error=ERROR)
    broken = [f for f in found.findings if f.status == "broken"]
    assert [f.assumption for f in broken] == ["bounded_queries"]


def test_noise_for_one_record_is_found() -> None:
    class ForOne(LaplaceKernel):
        def sample(self, values: Array, scale: Array, rng: np.random.Generator) -> Array:
            return super().sample(values, scale / 4, rng)

    of, suite = suite_of(Counts(HOUSEHOLD), dp.PureDP(1), kernels={dp.Laplace: ForOne})
    found = attack(of, suite, seed=1, error=ERROR)
    assert any(f.status == "broken" for f in found.findings)


def test_a_group_in_secret_batches_is_scored_exactly() -> None:
    """Binomially many of the four come: the ratio of mixtures, at one transcript."""
    from scipy.stats import binom, norm

    from dpaudit.curator.replayer import Replayer

    run, pair = Counts(SAMPLED, norm="l2"), neighbours(4)
    sampler = dp.Sampler(SAMPLED, SCOPE, pair.first, rng=np.random.default_rng(2), trials=50)
    run.run(sampler)
    found = Replayer(run, SAMPLED, SCOPE, pair.pair).inspect(sampler.transcript, own=0)
    assert found.attack == "exact"
    assert found.violations == ()
    expected = np.zeros(50)
    for event in sampler.transcript:
        shown = event.released[:, 0]
        mixed = sum(binom.pmf(k, 4, 0.5) * norm.pdf(shown, k, 4) for k in range(5))
        expected += np.log(mixed / norm.pdf(shown, 0, 4))
    np.testing.assert_allclose(found.scores, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.quality
@pytest.mark.parametrize(
    ("run", "claim"),
    [
        (Counts(HOUSEHOLD), dp.PureDP(1)),
        pytest.param(Counts(SAMPLED, norm="l2"), dp.ApproxDP(5, "1e-3"), marks=pytest.mark.quality),
    ],
)
def test_a_group_is_certified_and_its_certificate_confirmed(run: Counts, claim: dp.Node) -> None:
    of, suite = suite_of(run, claim)
    found = certify([Order(of, suite, "project", DIGESTS)], Options(seed=5))[0]
    predicate = found.certificate["predicate"]
    assert predicate["verdict"]["status"] == "certified_under_assumptions", predicate["verdict"]
    # No claim rests on what the checker has no method for: how far the group's own draws lie apart.
    told = accept(found.certificate).unconfirmed
    assert all(re.match(r"the lower epsilon .* of Drawn\(", one) for one in told), told


@pytest.mark.quality
def test_a_member_that_moves_more_is_no_certificate() -> None:
    of, suite = suite_of(Counts(HOUSEHOLD, times=3), dp.PureDP(1))
    found = certify([Order(of, suite, "project", DIGESTS)], Options(seed=5))[0]
    assert found.certificate["predicate"]["verdict"]["status"] in ("alarm", "refuted")
    accept(found.certificate)


def test_what_is_refused_by_name() -> None:
    import sympy

    with pytest.raises(InvalidParameter, match="sizes 6 and 2 under add_remove"):
        neighbours(4, 3)
    rows, other = np.zeros((6, 1)), np.zeros((6, 1))
    other[:4] = 1.0
    pair = dp.Records(rows), dp.Records(other)
    for size, expected in ((3, "1 to 3"), (1, "exactly 1")):
        with pytest.raises(InvalidParameter, match=f"4 records differ .*; expected {expected}"):
            dp.Neighbours(*pair, dp.Adjacency.REPLACE_ONE, "four rows", size)
    with pytest.raises(InvalidParameter, match="differ in 4 records; the declaration is for 1"):
        attack(*suite_of(Counts(dp.Laplace("count", 4)), dp.PureDP(1)), seed=1, error=ERROR)
    inside = dp.Compose(HOUSEHOLD, dp.Laplace("other", 1))
    with pytest.raises(Unsupported, match="make the Group the outermost node"):
        dp.Sampler(inside, SCOPE, neighbours(4).first, rng=np.random.default_rng(0))
    k = sympy.Symbol("k", positive=True, integer=True)
    with pytest.raises(InvalidParameter, match="bind its symbols"):
        grouped(dp.Group(dp.Laplace("count", 4), k))
    assert grouped(dp.Group(HOUSEHOLD, 2)) == (HOUSEHOLD.child, 8)
