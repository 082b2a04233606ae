"""Sums in which every record has its own budget: accounted, run, attacked, certified."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.audit.attack import attack
from dpaudit.certificate.certify import certify
from dpaudit.certificate.order import Options, Order
from dpaudit.check.theorem import bound
from dpaudit.curator.curator import Tracer
from dpaudit.errors import InvalidParameter, Undeclared
from dpaudit.families.individual import IndividualGaussian
from dpaudit.families.individual.kernel import Budgeted, IndividualGaussianKernel
from dpaudit.kernels.query import Array, ClippedMean
from tests.library.cli.bench import DIGESTS, accept

SCOPE = dp.central("add_remove")
ERROR = 1e-4
# A record of full length pays for 4 of 8 rounds; of half length for all.
NODE = IndividualGaussian("sum", 2, 1, 8)


@dataclass(frozen=True)
class Sums:
    """Clipped sums of rows, turned by the sign of the answer before."""

    node: dp.Node = NODE
    rounds: int = 8
    fixed: bool = False

    def declaration(self, scope: dp.Scope) -> dp.Node:
        return self.node

    def run(self, curator: dp.Curator) -> Array:
        turn, answers = np.ones((curator.trials, 1)), []
        for _ in range(self.rounds):
            query = ClippedMean(self.rows(turn), radius=1, divisor=1)
            answers.append(curator.release("sum", query))
            if not self.fixed:
                turn = np.where(answers[-1] > 0, 1.0, -1.0)
        return np.stack(answers, axis=1)

    def rows(self, turn: Array) -> Any:
        return lambda values: turn[:, None] * values


def neighbours(length: float = 1.0) -> dp.Neighbours:
    rows = np.array([[0.3], [-0.2], [length]])
    one = dp.Records(rows)
    return dp.Neighbours(one, one.rows(0, 2), SCOPE.adjacency, f"a record of {length}")


def suite_of(run: Any = None, **options: Any) -> tuple[dp.Mechanism, dp.Suite]:
    run = run or Sums()
    claims = [dp.Claim(dp.GDP(1), by="a test"), dp.Claim(dp.ZCDP("0.5"), by="a test")]
    of = dp.Mechanism("sums", "own budgets", "a test", run, SCOPE, claims)
    return of, dp.Suite("sums", run, neighbours(), trials=2_000, **options)


def test_the_checker_states_the_same() -> None:
    account = dp.account(NODE, SCOPE)
    for calculus in ("gdp", "zcdp", "profile"):
        assert bound(calculus, NODE, []) == account.step(calculus).value
    alone = dp.account(dp.Gaussian("g", 1), SCOPE).epsilon("1e-5")
    assert account.epsilon("1e-5").upper == alone.upper
    replaced = dp.account(NODE, dp.central("replace_one")).epsilon("1e-5")
    assert (replaced.lower, replaced.upper) == (alone.lower, alone.upper)


def test_every_record_pays_for_its_own_length_and_no_more() -> None:
    """Noise-free sums: 1 for four rounds, then 0; .5 for all eight;

    A length of .9 comes four times, and then what is left.
    """
    run = Sums(fixed=True)
    for length, expected in ((1.0, [1.0] * 4 + [0.0] * 4), (0.5, [0.5] * 8)):
        tracer = Tracer(NODE, SCOPE, dp.Records(np.array([[length]])))
        found = run.run(tracer)[0, :, 0]
        np.testing.assert_allclose(found, expected, atol=1e-4)
    found = run.run(Tracer(NODE, SCOPE, dp.Records(np.array([[0.9]]))))[0, :, 0]
    assert np.square(found).sum() == pytest.approx(4, rel=1e-6)
    assert found[:4] == pytest.approx(0.9)
    assert found[4] == pytest.approx(np.sqrt(4 - 4 * 0.81), rel=1e-6)


@pytest.mark.parametrize("fixed", [True, False])
def test_squares_of_moves_add_up_to_the_budget_along_every_path(fixed: bool) -> None:
    """The log-likelihood ratio of a full record is N(1/2, 1): 4,000 runs, false alarm 1e-6."""
    from dpaudit.curator.replayer import Replayer

    run, pair = Sums(fixed=fixed), neighbours()
    sampler = dp.Sampler(NODE, SCOPE, pair.first, rng=np.random.default_rng(1), trials=4_000)
    run.run(sampler)
    found = Replayer(run, NODE, SCOPE, pair.pair).inspect(sampler.transcript, own=0)
    assert found.attack == "exact"
    assert found.violations == ()
    assert found.scores.mean() == pytest.approx(0.5, abs=5 / np.sqrt(4_000))
    assert found.scores.var() == pytest.approx(1.0, rel=5 * np.sqrt(2 / 4_000))


@pytest.mark.parametrize("other", [-1.0, -0.5, 0.5])
def test_two_records_budgets_add_up_where_one_replaces_the_other(other: float) -> None:
    """Noise of twice a Gaussian's: mu is 1 where both fill the radius, less elsewhere.

    4,000 runs, false alarm 1e-6.  A record of .5 pays for all eight rounds: the squares of the
    moves of 1 against -.5 are 4 times (3/2)^2 and 4 times 1/4, over (2 * 2)^2.
    """
    from dpaudit.curator.replayer import Replayer

    scope, run = dp.central("replace_one"), Sums(fixed=True)
    rows = np.array([[0.3], [-0.2], [1.0]])
    changed = rows.copy()
    changed[2] = other
    pair = dp.Records(rows), dp.Records(changed)
    sampler = dp.Sampler(NODE, scope, pair[0], rng=np.random.default_rng(1), trials=4_000)
    run.run(sampler)
    found = Replayer(run, NODE, scope, pair).inspect(sampler.transcript, own=0)
    assert found.violations == ()
    squares = {-1.0: 16.0, -0.5: 4 * 2.25 + 4 * 0.25, 0.5: 8 * 0.25}[other] / 16
    assert squares <= 1
    assert found.scores.mean() == pytest.approx(squares / 2, abs=5 * np.sqrt(squares / 4_000))
    assert found.scores.var() == pytest.approx(squares, rel=5 * np.sqrt(2 / 4_000))


def test_a_budget_of_its_own_for_each_would_be_too_much_under_replace_one() -> None:
    """The guarded thing deleted: with mu^2, not a quarter, for each of two, claims are broken."""
    node = IndividualGaussian("sum", 1, 1, 8)
    scope, run = dp.central("replace_one"), Sums(node, fixed=True)
    rows = np.array([[0.3], [-0.2], [1.0]])
    pair = dp.Neighbours(
        dp.Records(rows), dp.Records(rows * [[1], [1], [-1]]), scope.adjacency, "opposite"
    )
    claims = [dp.Claim(dp.GDP(1), by="a test")]
    of = dp.Mechanism("sums", "own budgets", "a test", run, scope, claims)
    wrong_kernels: dict[Any, Any] = {IndividualGaussian: FourTimes}
    right, wrong = (
        attack(
            of,
            dp.Suite("sums", run, pair, trials=2_000, kernels=kernels),
            seed=2,
            error=ERROR,
            trials=2_000,
        )
        for kernels in ({}, wrong_kernels)
    )
    assert {f.status for f in right.findings} <= {"held", "not_run"}
    assert any(f.status == "broken" for f in wrong.findings)


class FourTimes(IndividualGaussianKernel):
    """Every record has the whole of mu^2 s^2."""

    def budgeted(self, query: ClippedMean, budget: float) -> Budgeted:
        return super().budgeted(query, 4 * budget)


def test_a_right_run_is_not_flagged() -> None:
    of, suite = suite_of()
    found = attack(of, suite, seed=2, error=ERROR, trials=1_000)
    assert {f.status for f in found.findings} <= {"held", "not_run"}


class Forgetful(IndividualGaussianKernel):
    """Nobody's budget is ever spent."""

    def budgeted(self, query: ClippedMean, budget: float) -> Budgeted:
        return Budgeted(query, budget)


class PaidTogether(IndividualGaussianKernel):
    """Every record has twice the budget."""

    def budgeted(self, query: ClippedMean, budget: float) -> Budgeted:
        return super().budgeted(query, 2 * budget)


@pytest.mark.parametrize("bug", [Forgetful, PaidTogether])
def test_budgets_that_are_not_kept_are_found(bug: type[IndividualGaussianKernel]) -> None:
    of, suite = suite_of(Sums(fixed=True), kernels={IndividualGaussian: bug})
    found = attack(of, suite, seed=2, error=ERROR, trials=1_000)
    assert any(f.status == "broken" for f in found.findings)


@pytest.mark.quality
@pytest.mark.parametrize(
    "run",
    [
        Sums(IndividualGaussian("sum", 1, 1, 2), 2),
        pytest.param(Sums(), marks=pytest.mark.quality),
    ],
)
def test_it_is_certified_and_its_certificate_confirmed(run: Sums) -> None:
    of, suite = suite_of(run)
    found = certify([Order(of, suite, "project", DIGESTS)], Options(seed=5, trials=1_000))[0]
    predicate = found.certificate["predicate"]
    assert predicate["verdict"]["status"] == "certified_under_assumptions", predicate["verdict"]
    assert accept(found.certificate).unconfirmed == ()


@pytest.mark.quality
def test_forgotten_budgets_are_no_certificate() -> None:
    of, suite = suite_of(Sums(fixed=True), kernels={IndividualGaussian: Forgetful})
    found = certify([Order(of, suite, "project", DIGESTS)], Options(seed=5, trials=1_000))[0]
    assert found.certificate["predicate"]["verdict"]["status"] == "alarm"


def test_what_is_refused_by_name() -> None:
    with pytest.raises(InvalidParameter, match="rounds = 4: expected more rounds than a record"):
        IndividualGaussian("sum", 2, 1, 4)
    sampler = dp.Sampler(NODE, SCOPE, neighbours().first, rng=np.random.default_rng(0))
    weighed = ClippedMean(lambda v: v[None], 1, weights=np.ones(3))
    with pytest.raises(InvalidParameter, match="a ClippedMean of equal weights"):
        sampler.release("sum", weighed)
    with pytest.raises(Undeclared, match="all 8 declared uses are spent"):
        Sums(rounds=9).run(sampler)
    query, rng = ClippedMean(lambda v: v[None], 1, divisor=1), np.random.default_rng(0)
    one = dp.Sampler(dp.PoissonSampled(NODE, "0.5"), SCOPE, neighbours().first, rng=rng)
    with one.batch("sum") as batch, pytest.raises(InvalidParameter, match="no secret batch"):
        one.release("sum", query, rows=batch)
