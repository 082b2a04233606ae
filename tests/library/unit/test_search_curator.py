"""Searches for a setting: run, replayed, attacked and certified; and what is refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.audit.attack import attack
from dpaudit.certificate.certify import certify
from dpaudit.certificate.order import Options, Order
from dpaudit.curator.guarded import Withheld
from dpaudit.errors import InvalidParameter, Undeclared, Unsupported
from dpaudit.families.additive.kernel import GaussianKernel
from dpaudit.families.tuning import Tuned, TunedPoisson
from dpaudit.families.tuning.kernel import TunedKernel
from dpaudit.kernels.query import Array
from tests.library.cli.bench import DIGESTS, accept

F = Fraction
SCOPE = dp.central("add_remove")
ERROR = 1e-4
RUN = dp.Compose(dp.Gaussian("fit", 3), dp.Gaussian("score", 3))
SEARCH = Tuned(RUN, F(1, 4))
POISSON = TunedPoisson(RUN, 3)
BATCHED = Tuned(
    dp.Compose(
        dp.Repeat(dp.PoissonSampled(dp.Gaussian("fit", 3), F(1, 2)), 2), dp.Gaussian("score", 3)
    ),
    F(1, 4),
)
Output = tuple[Array, Array]


def rows(values: Array) -> Array:
    return np.asarray(values)[None]


@dataclass(frozen=True)
class Searched:
    """The mean of a run at a setting drawn from three, scored by a second release."""

    node: dp.Node = SEARCH

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return self.node

    def run(self, curator: dp.Curator) -> Any:
        output, found = curator.best_of("fit", self.once)
        return output, found

    def once(self, curator: dp.Curator) -> tuple[Any, Array]:
        setting = curator.coin(lambda rng: rng.integers(3, size=curator.trials))
        fit = self.fit(curator) * (1 + setting[:, None])
        score = curator.release("score", dp.clipped_sum(rows, 1))[:, 0]
        return (setting, fit, score), score

    def fit(self, curator: dp.Curator) -> Array:
        if self.node != BATCHED:
            return curator.release("fit", dp.clipped_sum(rows, 1))
        total = np.zeros((curator.trials, 1))
        for _ in range(2):
            with curator.batch("fit") as batch:
                total = total + curator.release("fit", dp.clipped_sum(rows, 1), rows=batch)
        return total


@dataclass(frozen=True)
class Leaking(Searched):
    """Shows how many runs there were, and the score of the last."""

    seen: list[Any] = field(default_factory=list)

    def run(self, curator: dp.Curator) -> Any:
        self.seen.clear()
        found = super().run(curator)
        return (*found, np.array([float(len(self.seen))]))

    def once(self, curator: dp.Curator) -> tuple[Any, Array]:
        found = super().once(curator)
        self.seen.append(found[1])
        return found


@dataclass(frozen=True)
class Understated(Searched):
    """Its score moves three times as far as is stated."""

    def once(self, curator: dp.Curator) -> tuple[Any, Array]:
        curator.coin(lambda rng: rng.integers(3, size=curator.trials))
        fit = curator.release("fit", dp.clipped_sum(rows, 1))
        score = curator.release("score", _Larger(rows, 1, divisor=1))[:, 0]
        return fit, score


@dataclass(frozen=True, eq=False)
class _Larger(dp.ClippedMean):
    def value(self, records: dp.Records, chosen: Any = None) -> Array:
        return 3 * super().value(records, chosen)


def neighbours() -> dp.Neighbours:
    values = np.zeros((4, 1))
    values[-1] = 1.0
    one = dp.Records(values)
    return dp.Neighbours(one, one.rows(0, 3), SCOPE.adjacency, "a record of 1 goes")


def suite_of(
    run: Searched, trials: int = 2_000, epsilon: Any = 8, **options: Any
) -> tuple[dp.Mechanism, dp.Suite]:
    claim = dp.Claim(dp.ApproxDP(epsilon, "1e-5"), by="a test")
    of = dp.Mechanism("search", "a search", "a test", run, SCOPE, [claim])
    return of, dp.Suite("search", run, neighbours(), trials=trials, **options)


def sampler(node: dp.Node, trials: int = 1, seed: int = 0) -> dp.Sampler:
    rng = np.random.default_rng(seed)
    return dp.Sampler(node, SCOPE, neighbours().first, rng=rng, trials=trials)


def test_the_best_score_has_the_law_of_the_best_of_geometrically_many() -> None:
    """P(best <= s) = g F / (1 - (1 - g) F), F the score's law; Kolmogorov, false alarm 1e-6."""
    from scipy.stats import norm

    one = sampler(SEARCH, 4_000)
    (setting, fit, score), found = Searched().run(one)
    assert found.all()
    share = norm.cdf(score, 1, 3)
    share = np.sort(share / 4 / (1 - 0.75 * share))
    places = np.arange(1, 4_001) / 4_000
    assert np.abs(share - places).max() < np.sqrt(np.log(2e6) / 8_000)
    shown = [event.label for event in one.transcript]
    assert shown == ["public coin", "fit", "score"]
    assert (one.transcript[1].released[:, 0] * (1 + setting) == fit[:, 0]).all()
    assert one.entitlements.counts() == {"fit": (1, 1, 1)}


def test_no_run_shows_nothing_as_often_as_declared() -> None:
    """exp(-3) of 4,000 trials: 199 expected; 5 standard deviations."""
    one = sampler(POISSON, 4_000)
    (_, fit, score), found = Searched(POISSON).run(one)
    assert (~found).sum() == pytest.approx(4_000 * np.exp(-3), abs=5 * np.sqrt(190))
    assert (np.isnan(fit[:, 0]) == ~found).all()
    assert (np.isnan(score) == ~found).all()


@pytest.mark.parametrize("node", [SEARCH, POISSON, BATCHED])
def test_what_was_released_gives_the_output_again(node: dp.Node) -> None:
    """No records, no queries: for one trial, as metrics of a run on data are made."""
    run = Searched(node)
    for seed in range(8):
        one = sampler(node, seed=seed)
        output = run.run(one)
        again = run.run(Withheld(node, SCOPE, (4, 1), one.transcript))
        for a, b in zip((*output[0], output[1]), (*again[0], again[1]), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("node", [SEARCH, POISSON, BATCHED])
def test_a_right_search_is_not_flagged(node: dp.Node) -> None:
    """False alarms: 1e-4."""
    of, suite = suite_of(Searched(node), trials=1_000)
    found = attack(of, suite, seed=4, error=ERROR)
    assert {f.status for f in found.findings} <= {"held", "not_run"}
    held = {f.check for f in found.findings if f.status == "held"}
    assert {"variance of score", "shape of runs of fit"} <= held


class Twice(TunedKernel):
    """Twice as many runs as are drawn."""

    def numbers(self, rng: np.random.Generator) -> Array:
        return 2 * super().numbers(rng)


class Always(TunedKernel):
    """Four runs or five, each time."""

    def numbers(self, rng: np.random.Generator) -> Array:
        return np.where(rng.random(self.trials) < 0.5, 4.0, 5.0)


class Quiet(GaussianKernel):
    """Half the noise in every run."""

    def sample(self, values: Array, scale: Array, rng: np.random.Generator) -> Array:
        return super().sample(values, scale / 2, rng)


@pytest.mark.long_cases("Tuned-Twice-runs of fit", "Gaussian-Quiet-score")
@pytest.mark.parametrize(
    ("kind", "bug", "check"),
    [
        (Tuned, Twice, "runs of fit"),
        (Tuned, Always, "runs of fit"),
        (dp.Gaussian, Quiet, "score"),
    ],
)
def test_runs_that_are_not_as_declared_are_found(kind: Any, bug: Any, check: str) -> None:
    of, suite = suite_of(Searched(), trials=1_000, kernels={kind: bug})
    found = attack(of, suite, seed=4, error=ERROR)
    assert any(f.status == "broken" and f.check.endswith(f" of {check}") for f in found.findings)


@pytest.mark.parametrize("run", [Leaking(), Understated()])
def test_what_a_search_shows_or_moves_beyond_its_declaration_is_found(run: Searched) -> None:
    of, suite = suite_of(run, trials=400)
    found = attack(of, suite, seed=4, error=ERROR)
    broken = [f for f in found.findings if f.status == "broken"]
    assert [f.assumption for f in broken] == ["bounded_queries"]
    said = "more of a search than its best run" if isinstance(run, Leaking) else "more than its"
    assert said in broken[0].detail


@pytest.mark.quality
@pytest.mark.parametrize("node", [SEARCH, pytest.param(POISSON, marks=pytest.mark.quality)])
def test_a_search_is_certified_and_its_certificate_confirmed(node: dp.Node) -> None:
    of, suite = suite_of(Searched(node), trials=1_000)
    found = certify([Order(of, suite, "project", DIGESTS)], Options(seed=5))[0]
    predicate = found.certificate["predicate"]
    assert predicate["verdict"]["status"] == "certified_under_assumptions", predicate["verdict"]
    assert [row["check"] for row in predicate["conformance"] if row["status"] == "broken"] == []
    accept(found.certificate)


@pytest.mark.quality
def test_twice_as_many_runs_are_no_certificate() -> None:
    of, suite = suite_of(Searched(), trials=1_000, kernels={Tuned: Twice})
    found = certify([Order(of, suite, "project", DIGESTS)], Options(seed=5))[0]
    assert found.certificate["predicate"]["verdict"]["status"] == "alarm"
    accept(found.certificate)


def test_what_is_refused_by_name() -> None:
    query = dp.clipped_sum(rows, 1)
    with pytest.raises(Undeclared, match="declared inside a search"):
        sampler(SEARCH).release("fit", query)
    with pytest.raises(Undeclared, match="no search is declared under this label"):
        sampler(dp.Gaussian("fit", 1)).best_of("fit", Searched().once)
    one = sampler(SEARCH)
    Searched().run(one)
    with pytest.raises(Undeclared, match="all 1 declared uses are spent"):
        Searched().run(one)

    def more(curator: dp.Curator) -> tuple[Any, Array]:
        fit = curator.release("fit", query)
        return fit, curator.release("fit", query)[:, 0]

    with pytest.raises(Undeclared, match="all 1 declared uses are spent"):
        sampler(SEARCH).best_of("fit", more)
    with pytest.raises(InvalidParameter, match=r"scores of shape \(1, 1\)"):
        sampler(SEARCH).best_of("fit", lambda c: (None, c.release("fit", query)))
    with pytest.raises(Unsupported, match="a search reads all records"):
        sampler(dp.Parallel(SEARCH, SEARCH))
    with pytest.raises(InvalidParameter, match="searches inside a batch"):
        sampler(dp.PoissonSampled(SEARCH, F(1, 2)))
    asked = iter([True, *[False] * 99])

    def sometimes(curator: dp.Curator) -> tuple[Any, Array]:
        score = curator.release("score", query)[:, 0]
        return score, curator.release("fit", query)[:, 0] if next(asked) else score

    with pytest.raises(InvalidParameter, match="two runs make different releases"):
        sampler(SEARCH, 100).best_of("fit", sometimes)
