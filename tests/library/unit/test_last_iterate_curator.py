"""The last iterate: run, replayed, attacked and certified; and what is refused."""

from __future__ import annotations

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
from dpaudit.families.iterates import LastIterate
from dpaudit.families.iterates.kernel import LastIterateKernel
from dpaudit.kernels.iterations import Iterations
from dpaudit.kernels.query import Array
from tests.library.cli.bench import DIGESTS, accept

F = Fraction
SCOPE = dp.central("zero_out")
ERROR = 1e-4


@dataclass(frozen=True)
class Ridge:
    """Mean estimation by noisy steps on a quadratic: rows are clipped to the unit ball."""

    node: dp.Node
    step: float = 0.2
    radius: float | None = None
    columns: int = 2

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return self.node

    def run(self, curator: dp.Curator) -> Array:
        def gradient(x: Array) -> dp.ClippedMean:
            def rows(values: Array) -> Array:
                return np.broadcast_to(-values, (len(x), *values.shape))

            return dp.ClippedMean(rows, radius=1)

        run = Iterations(
            gradient, np.zeros(self.columns), self.step, regulariser=1.0, radius=self.radius
        )
        return curator.release("model", run)


NODES: dict[str, Any] = {
    "all rows": LastIterate("model", 2, 10, F(4, 5)),
    "batches": LastIterate("model", 2, 6, F(4, 5), batches=3),
    "projected": LastIterate("model", 2, 10, F(4, 5), 60),
}
RADIUS = {"all rows": None, "batches": None, "projected": 1.0}


def program(name: str) -> Ridge:
    return Ridge(NODES[name], radius=RADIUS[name])


def neighbours() -> dp.Neighbours:
    rows = np.array([[0.1 * k, -0.05 * k] for k in range(6)])
    rows[-1] = 1.0, 0.0
    first = dp.Records(rows)
    return dp.Neighbours(first, dp.Records(rows, np.arange(6) < 5), SCOPE.adjacency, "a unit row")


def suite_of(
    name: str, run: Ridge | None = None, trials: int = 2_000, mu: Any = "1.35", **options: Any
) -> tuple[dp.Mechanism, dp.Suite]:
    run = run or program(name)
    claim = dp.Claim(dp.GDP(mu), by="a test")
    of = dp.Mechanism("model", name, "a test", run, SCOPE, [claim])
    return of, dp.Suite("model", run, neighbours(), trials=trials, **options)


@pytest.mark.parametrize("name", ["all rows", "batches"])
def test_scores_are_the_ratio_of_the_last_iterates_densities(name: str) -> None:
    """Affine updates: the law is normal, its mean the noise-free path's end; to a scale."""
    node, run, pair = NODES[name], program(name), neighbours()
    sampler = dp.Sampler(node, SCOPE, pair.first, rng=np.random.default_rng(1), trials=3_000)
    shown = run.run(sampler)
    found = Replayer(run, node, SCOPE, pair.pair).inspect(sampler.transcript, own=0)
    assert found.violations == ()
    assert found.attack == "averaged(32)"
    steps, batches = int(node.steps), int(node.batches)
    ends = []
    for records in pair.pair:
        values = records.values * records.present[:, None]
        x = np.zeros(2)
        for t in range(steps):
            block = values.reshape(batches, -1, 2)[t % batches]
            x = 0.8 * x + 0.2 * block.mean(axis=0)
        ends.append(x)
    unit = 0.2 / (6 // batches)
    variance = (2 * unit) ** 2 * sum(0.8 ** (2 * k) for k in range(steps))
    assert shown.mean(axis=0) == pytest.approx(ends[0], abs=5 * np.sqrt(variance / 3_000))
    assert shown.var(axis=0) == pytest.approx(variance, rel=0.15)
    exact = ((shown - ends[1]) ** 2 - (shown - ends[0]) ** 2).sum(axis=1) / (2 * variance)
    assert np.corrcoef(found.scores, exact)[0, 1] > 0.999
    assert (np.sign(found.scores) == np.sign(exact)).mean() > 0.999


@pytest.mark.first_case
@pytest.mark.parametrize("name", NODES)
def test_a_right_run_is_not_flagged_and_its_bound_is_near(name: str) -> None:
    """False alarms 1e-4; the projected set is never left far, so that it shows as much."""
    of, suite = suite_of(name)
    found = attack(of, suite, seed=4, error=ERROR)
    assert {f.status for f in found.findings} <= {"held", "not_run"}
    assert any(f.check == "variance of model" and f.status == "held" for f in found.findings)


class Quiet(LastIterateKernel):
    """Half the noise in the steps that are not shown."""

    def tape(self, shape: tuple[int, int], rng: np.random.Generator) -> Array:
        return super().tape(shape, rng) / 2


class Silent(LastIterateKernel):
    """Half the noise in the last step."""

    def sample(self, values: Array, scale: Array, rng: np.random.Generator) -> Array:
        return super().sample(values, scale / 2, rng)


class Kept(LastIterateKernel):
    """One noise for all steps."""

    def tape(self, shape: tuple[int, int], rng: np.random.Generator) -> Array:
        found = super().tape(shape, rng)
        return np.repeat(found[:, :1], found.shape[1], axis=1)


@pytest.mark.parametrize("bug", [Quiet, Silent, Kept])
def test_noise_that_is_not_as_declared_is_found(bug: type[LastIterateKernel]) -> None:
    of, suite = suite_of("all rows", kernels={LastIterate: bug})
    found = attack(of, suite, seed=4, error=ERROR)
    assert any(f.status == "broken" for f in found.findings)


@dataclass(frozen=True)
class Unclipped(Ridge):
    """Its gradient says a tenth of what a record moves."""

    def run(self, curator: dp.Curator) -> Array:
        def gradient(x: Array) -> Any:
            def rows(values: Array) -> Array:
                return np.broadcast_to(-values, (len(x), *values.shape))

            return _Understated(rows, radius=1)

        return curator.release("model", Iterations(gradient, np.zeros(2), self.step, 1.0))


@dataclass(frozen=True, eq=False)
class _Understated(dp.ClippedMean):
    def sensitivity(self, adjacency: Any, size: int) -> Array:
        return super().sensitivity(adjacency, size) / 10


def test_updates_that_stretch_or_move_too_far_are_found() -> None:
    """A step of 1 on a quadratic of slope 2.5 takes a point to -1.5 of it; a tenth is stated."""
    wide = replace(program("all rows"), step=2.5)
    for run in (wide, Unclipped(NODES["all rows"])):
        of, suite = suite_of("all rows", run)
        found = attack(of, suite, seed=4, error=ERROR, trials=400)
        (row,) = [f for f in found.findings if f.assumption == "bounded_queries"]
        assert row.status == "broken"


@pytest.mark.parametrize("name", ["all rows", pytest.param("batches", marks=pytest.mark.quality)])
@pytest.mark.quality
def test_a_last_iterate_is_certified_and_its_certificate_confirmed(name: str) -> None:
    of, suite = suite_of(name)
    found = certify([Order(of, suite, "project", DIGESTS)], Options(seed=5))[0]
    predicate = found.certificate["predicate"]
    assert predicate["verdict"]["status"] == "certified_under_assumptions", predicate["verdict"]
    assert [row["check"] for row in predicate["conformance"] if row["status"] == "broken"] == []
    accept(found.certificate)


@pytest.mark.quality
def test_half_the_noise_is_no_certificate() -> None:
    of, suite = suite_of("all rows", kernels={LastIterate: Silent})
    found = certify([Order(of, suite, "project", DIGESTS)], Options(seed=5))[0]
    assert found.certificate["predicate"]["verdict"]["status"] == "alarm"
    accept(found.certificate)


def test_what_is_refused_by_name() -> None:
    rng, rows = np.random.default_rng(0), neighbours().first
    wide = replace(program("projected"), radius=5.0)
    with pytest.raises(InvalidParameter, match="diameter 60 units; its steps project to one of"):
        wide.run(dp.Sampler(wide.node, SCOPE, rows, rng=rng))
    open_set = replace(program("projected"), radius=None)
    with pytest.raises(InvalidParameter, match="its steps project to none"):
        open_set.run(dp.Sampler(open_set.node, SCOPE, rows, rng=rng))
    node = NODES["all rows"]
    with pytest.raises(InvalidParameter, match="a LastIterate releases Iterations"):
        dp.Sampler(node, SCOPE, rows, rng=rng).release("model", dp.ClippedMean(lambda v: v, 1))
    with pytest.raises(InvalidParameter, match="release it under the label of a LastIterate"):
        program("all rows").run(dp.Sampler(dp.Gaussian("model", 1), SCOPE, rows, rng=rng))
    few = dp.Records(np.zeros((5, 2)))
    with pytest.raises(InvalidParameter, match="5 records do not make 3 batches of one size"):
        program("batches").run(dp.Sampler(NODES["batches"], SCOPE, few, rng=rng))
    with pytest.raises(InvalidParameter, match="step = 0"):
        Iterations(lambda x: dp.ClippedMean(lambda v: v[None], 1), np.zeros(1), 0.0)
