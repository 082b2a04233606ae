"""Attackers who see some releases, or the output alone: what they find, and never more than true.

Bounds at 1e-5 on fixed seeds: each test of a bound fails by accident with at most that rate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpaudit.accountant.claim import Claim
from dpaudit.audit.attack import attack
from dpaudit.audit.attacked import Attacked
from dpaudit.audit.bounds.estimators import count_errors, mu_lower
from dpaudit.audit.learned import GaussianScore
from dpaudit.audit.neighbours import Neighbours
from dpaudit.audit.observed import attack_observed
from dpaudit.audit.suite import Suite
from dpaudit.curator.curator import Curator
from dpaudit.curator.mechanism import Mechanism, Setting
from dpaudit.errors import Diverged, InvalidParameter
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Compose, Repeat
from dpaudit.families.opaque import GDP
from dpaudit.families.sampling import PoissonSampled
from dpaudit.kernels.query import Array, ClippedMean, Records
from dpaudit.nodes import Node
from dpaudit.scope import Scope
from tests.support.kernels import Written

ERROR = 1e-5
SCOPE = Scope("replace_one", "record", "central", "transcript")  # type: ignore[arg-type]
VALUES = np.array([[0.0], [1.0], [0.0]])
PAIR = Neighbours(Records(VALUES), Records(-VALUES), SCOPE.adjacency, "a row is +1 or -1")
SETTING = Setting("a test", "row", "one row", ("the releases",))


def rows(values: Array) -> Array:
    return np.asarray(values)[None]


def clipped(radius: Any = 1.0) -> ClippedMean:
    return ClippedMean(rows, radius)


def case(node: Node, body: Callable[[Curator], Any]) -> tuple[Mechanism, Suite]:
    program = Written(node, body)
    claims = (Claim(GDP(9), by="a test"),)
    return Mechanism("case", "Case", "a test", program, SCOPE, claims, SETTING), Suite(
        "case", program, PAIR, trials=8_000
    )


def bound(found: Attacked, error: float = ERROR) -> float:
    assert found.test is not None
    return mu_lower(count_errors(found.test, 0.0), error).mu_lower


TWO = Compose(Gaussian("a", 1), Gaussian("b", 2))


def apart(curator: Curator) -> Array:
    return curator.release("a", clipped()) + curator.release("b", clipped())


def chained(curator: Curator) -> Array:
    """The second release tells of the first alone: its rows are one public number."""
    first = curator.release("a", clipped())
    value = np.broadcast_to(np.tanh(first)[:, None, :], (curator.trials, 3, 1))
    return curator.release("b", ClippedMean(lambda z: value[:, : len(z)], 1.0))


# --- releases ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("label", "mu"), [("a", 1.0), ("b", 0.5)])
def test_a_release_seen_alone_scores_its_own_likelihood_ratio(label: str, mu: float) -> None:
    """N(+-mu^2 / 2, mu^2); five standard errors of 8,000 trials."""
    found = attack_observed(*case(TWO, apart), [label], seed=2, draws=1)
    assert found.test is not None
    assert found.attack == f"releases of {label}"
    for scores, mean in ((found.test.alternative, mu**2 / 2), (found.test.null, -(mu**2) / 2)):
        assert abs(scores.mean() - mean) < 5 * mu / 8_000**0.5
        assert abs(scores.var() - mu**2) < 5 * mu**2 * (2 / 8_000) ** 0.5


@pytest.mark.quality
def test_what_is_seen_of_a_chain_is_less_than_what_was_released() -> None:
    """The first release is 1-GDP, so whatever is made of it is too; and some of it shows."""
    found = attack_observed(*case(TWO, chained), "b", seed=3, draws=16)
    assert 0.02 < bound(found) < 1.0
    whole = attack(*case(TWO, chained), seed=3, error=ERROR)
    assert bound(found) < bound(whole)


def test_seeing_every_release_is_the_replay_attack() -> None:
    seen = attack_observed(*case(TWO, apart), ["a", "b"], seed=4, draws=1, trials=2_000)
    assert bound(seen) < 1.25**0.5
    assert bound(seen) > 0.6


def test_releases_on_secret_batches_can_be_seen_alone() -> None:
    node = Repeat(PoissonSampled(Gaussian("a", 1), 0.5), 2)

    def body(curator: Curator) -> Any:
        for _ in range(2):
            with curator.batch("a") as batch:
                curator.release("a", clipped(), rows=batch)

    found = attack_observed(*case(node, body), "a", seed=5, draws=1, trials=2_000)
    assert 0 < bound(found) < 2**0.5


def test_the_attack_takes_what_is_observed() -> None:
    by_name = attack(*case(TWO, apart), seed=6, error=ERROR, observe=["b"], trials=500)
    same = attack_observed(*case(TWO, apart), ["b"], seed=6, trials=500)
    assert by_name.test is not None
    assert same.test is not None
    assert (by_name.test.null == same.test.null).all()


def test_a_run_that_hangs_on_the_unseen_is_refused() -> None:
    def body(curator: Curator) -> Any:
        on = curator.release("a", clipped())[:, 0] > 0
        return curator.release("b", clipped(), on=on)

    with pytest.raises(Diverged, match="other trials are on"):
        attack_observed(*case(TWO, body), "b", seed=1, trials=400)


# --- outputs -------------------------------------------------------------------------------------

STEPS = 16
REPEATED = Repeat(Gaussian("a", 4), STEPS)


def summed(curator: Curator) -> Array:
    total = np.zeros((curator.trials, 1))
    for _ in range(STEPS):
        total = total + curator.release("a", clipped())
    return total


def test_the_last_iterate_of_a_linear_run_shows_all_of_it() -> None:
    """The sum of 16 releases of 1/4-GDP is exactly 1-GDP, and the law of the sum is normal."""
    found = attack_observed(*case(REPEATED, summed), lambda output: output, seed=7)
    assert 0.85 < bound(found) < 1.0
    assert found.attack == "learned from the output"


def test_an_output_that_says_nothing_shows_nothing() -> None:
    body = lambda curator: summed(curator) * 0  # noqa: E731
    found = attack_observed(*case(REPEATED, body), lambda output: output, seed=8, trials=2_000)
    assert bound(found, 0.05) == 0.0


@pytest.mark.quality
def test_a_learned_score_never_shows_more_than_is_true() -> None:
    """Bounds at 5% of an output that is 1/4-GDP, 60 seeds: at most 10 above (P[more] < 5e-4)."""

    def first(curator: Curator) -> Array:
        return curator.release("a", clipped())

    node = Gaussian("a", 4)
    above = 0
    for seed in range(60):
        found = attack_observed(*case(node, first), lambda o: o, seed=seed, trials=300)
        above += bound(found, 0.05) > 0.25
    assert above <= 10


def test_workers_change_nothing() -> None:
    of, suite = case(TWO, apart)
    one = attack_observed(of, suite, lambda output: output, seed=9, trials=4_200)
    two = attack_observed(of, suite, lambda output: output, seed=9, trials=4_200, jobs=2)
    assert one.test is not None
    assert two.test is not None
    assert (one.test.null == two.test.null).all()


@pytest.mark.parametrize(
    ("observe", "options", "said"),
    [
        ([], {}, "at least one label"),
        (["c"], {}, "'c'"),
        ("a", {"draws": 0}, "draws"),
        (lambda output: 1.0, {}, "one row a trial"),
        (lambda output: output[:3], {}, "one row a trial"),
    ],
)
def test_what_makes_no_sense_is_refused(observe: Any, options: Any, said: str) -> None:
    with pytest.raises(InvalidParameter, match=said):
        attack_observed(*case(TWO, apart), observe, seed=1, trials=100, **options)


# --- the learned score ---------------------------------------------------------------------------


def test_a_gaussian_score_is_the_likelihood_ratio_of_normal_laws() -> None:
    """Fitted on 200,000 draws of N(0, 1) and N(1, 4); exact to the error of the fit."""
    rng = np.random.default_rng(1)
    first, second = rng.normal(size=(200_000, 1)), rng.normal(1, 2, size=(200_000, 1))
    score = GaussianScore.fit(first, second)
    x = np.linspace(-3, 3, 7)[:, None]
    exact = -0.5 * x**2 + 0.5 * ((x - 1) / 2) ** 2 + np.log(2)
    np.testing.assert_allclose(score(x), exact[:, 0], atol=0.05)


@pytest.mark.parametrize("features", [np.zeros((50, 3)), np.full((50, 2), np.nan), np.ones((1, 4))])
def test_degenerate_features_give_finite_scores(features: Array) -> None:
    score = GaussianScore.fit(features, features)
    assert np.isfinite(score(features)).all()
