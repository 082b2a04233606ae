"""The last iterate of sampled batches: run, attacked and certified; planted bugs; refusals."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.audit.attack import attack
from dpaudit.certificate.certify import certify
from dpaudit.certificate.order import Options, Order
from dpaudit.curator.replayer import Replayer
from dpaudit.errors import InvalidParameter
from dpaudit.families.iterates import SampledLastIterate
from dpaudit.families.iterates.kernel import SampledLastIterateKernel
from dpaudit.kernels.iterations import Iterations
from dpaudit.kernels.query import Array
from tests.library.cli.bench import DIGESTS, accept
from tests.library.unit.test_last_iterate_curator import Ridge, neighbours

F = Fraction
SCOPE = dp.central("zero_out")
NODE = SampledLastIterate("model", 1, 10, F(1, 10), F(4, 5))
CLAIM = dp.ApproxDP("0.9", F(1, 100))
ERROR = 1e-4


def suite_of(run: Ridge | None = None, **options: Any) -> tuple[dp.Mechanism, dp.Suite]:
    run = run or Ridge(NODE)
    of = dp.Mechanism("model", "sampled", "a test", run, SCOPE, [dp.Claim(CLAIM, by="a test")])
    return of, dp.Suite("model", run, neighbours(), trials=4_000, **options)


@pytest.mark.parametrize("rate", [F(1, 10), F(1, 2), F(1)])
def test_runs_have_the_moments_of_their_coins(rate: Fraction) -> None:
    """x -> .8 x + .2 mean over n of those drawn: each record's share has a mean and variance.

    False alarms: 1e-6 each, by five deviations; a variance within a tenth, six of them.
    """
    node, pair, trials = SampledLastIterate("model", F(1, 4), 5, rate, F(4, 5)), neighbours(), 8_000
    sampler = dp.Sampler(node, SCOPE, pair.first, rng=np.random.default_rng(1), trials=trials)
    shown = Ridge(node).run(sampler)
    unit, q = 0.2 / 6, float(rate)
    rows = pair.first.values * unit
    weights = 0.8 ** np.arange(5)
    mean = q * rows.sum(axis=0) * weights.sum()
    coins = q * (1 - q) * np.square(rows).sum(axis=0)
    variance = (coins + (unit / 4) ** 2) * np.square(weights).sum()
    assert shown.mean(axis=0) == pytest.approx(mean, abs=5 * np.sqrt(variance.max() / trials))
    assert shown.var(axis=0) == pytest.approx(variance, rel=0.1)


@pytest.mark.quality
def test_scores_are_larger_with_the_record() -> None:
    """By five deviations of the difference of means."""
    pair = neighbours()
    found = []
    for own, records in enumerate(pair.pair):
        sampler = dp.Sampler(NODE, SCOPE, records, rng=np.random.default_rng(own), trials=20_000)
        Ridge(NODE).run(sampler)
        replay = Replayer(Ridge(NODE), NODE, SCOPE, pair.pair).inspect(sampler.transcript, own=own)
        assert replay.violations == ()
        found.append(np.asarray(replay.scores))
    with_record, without = found
    apart = with_record.mean() - without.mean()
    assert apart > 5 * math.hypot(with_record.std(), without.std()) / math.sqrt(20_000)


@pytest.mark.quality
def test_a_right_run_is_not_flagged() -> None:
    """False alarms 1e-4."""
    found = attack(*suite_of(), seed=4, error=ERROR)
    assert {f.status for f in found.findings} <= {"held", "not_run"}, found.findings
    assert any(f.check == "variance of model" and f.status == "held" for f in found.findings)


class Everybody(SampledLastIterateKernel):
    """Batches are not drawn: every step reads all records."""

    def below(self) -> float:
        return float("inf")


class Often(SampledLastIterateKernel):
    """Marks are drawn from a law that takes records far more often."""

    def marks(self, trials: int, size: int, rng: np.random.Generator) -> Array | None:
        found = super().marks(trials, size, rng)
        return None if found is None else found - 1


class OneBatch(SampledLastIterateKernel):
    """One batch for all steps."""

    def marks(self, trials: int, size: int, rng: np.random.Generator) -> Array | None:
        found = super().marks(trials, size, rng)
        return None if found is None else np.repeat(found[:, :1], found.shape[1], axis=1)


class Quiet(SampledLastIterateKernel):
    """Half the noise in the steps that are not shown."""

    def tape(self, shape: tuple[int, int], rng: np.random.Generator) -> Array:
        return super().tape(shape, rng) / 2


class Silent(SampledLastIterateKernel):
    """Half the noise in the last step."""

    def sample(self, values: Array, scale: Array, rng: np.random.Generator) -> Array:
        return super().sample(values, scale / 2, rng)


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("bug", [Everybody, Often, OneBatch, Quiet, Silent])
def test_coins_and_noise_that_are_not_as_declared_are_found(
    bug: type[SampledLastIterateKernel],
) -> None:
    found = attack(*suite_of(kernels={SampledLastIterate: bug}), seed=4, error=ERROR)
    assert any(f.status == "broken" for f in found.findings), found.findings


def test_an_update_that_stretches_is_found() -> None:
    """A step of 1 on a quadratic of slope 2.5 takes a point to -1.5 of it, on every batch."""
    of, suite = suite_of(replace(Ridge(NODE), step=2.5))
    found = attack(of, suite, seed=4, error=ERROR, trials=400)
    (row,) = [f for f in found.findings if f.assumption == "bounded_queries"]
    assert row.status == "broken"


@dataclass(frozen=True)
class Pulled(Ridge):
    """Only the records pull together: on a batch of none, points stay as far apart as they are."""

    def run(self, curator: dp.Curator) -> Array:
        def gradient(x: Array) -> dp.ClippedMean:
            def rows(values: Array) -> Array:
                return np.asarray(np.clip(x, -1, 1)[:, None] - 0 * values[None])

            return dp.ClippedMean(rows, radius=2)

        return curator.release("model", Iterations(gradient, np.zeros(2), 0.2))


def test_an_update_that_contracts_on_full_batches_alone_is_found() -> None:
    found = attack(*suite_of(Pulled(NODE)), seed=4, error=ERROR, trials=400)
    (row,) = [f for f in found.findings if f.assumption == "bounded_queries"]
    assert row.status == "broken"


@pytest.mark.quality
def test_it_is_certified_and_its_certificate_confirmed() -> None:
    of, suite = suite_of()
    found = certify([Order(of, suite, "project", DIGESTS)], Options(seed=5))[0]
    predicate = found.certificate["predicate"]
    assert predicate["verdict"]["status"] == "certified_under_assumptions", predicate["verdict"]
    accept(found.certificate)


def test_what_is_refused_by_name() -> None:
    rng, rows = np.random.default_rng(0), neighbours().first
    projected = replace(NODE, diameter=F(60))
    wide = Ridge(projected, radius=5.0)
    with pytest.raises(InvalidParameter, match="diameter 60 units; its steps project to one of"):
        wide.run(dp.Sampler(projected, SCOPE, rows, rng=rng))
    node = dp.PoissonSampled(NODE, F(1, 2))
    sampler = dp.Sampler(node, SCOPE, rows, rng=rng)
    told = pytest.raises(InvalidParameter, match="Iterations: its batches are")
    still = Iterations(lambda x: dp.ClippedMean(lambda v: v[None], 1), np.zeros(2), 0.2)
    with told, sampler.batch("model") as batch:
        sampler.release("model", still, rows=batch)
