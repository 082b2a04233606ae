"""SRN-SGD: its declaration, what it computes without noise, its worst case, bad input."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import sympy
from scipy import stats

from dpaudit.accountant.account import account
from dpaudit.curator.curator import Sampler
from dpaudit.errors import InvalidParameter, Undeclared
from dpaudit.families.composition import Compose
from dpaudit.families.correlated import CorrelatedGaussian
from dpaudit.kernels.query import Array, Records
from dpaudit.scope import Scope, central
from mechanisms.papers.common.losses import LeastSquares, Logistic, WorstCase
from mechanisms.papers.diff2.baselines import SRN, SrnSgd, srn_sgd
from tests.support.kernels import replayer, sampled

SCOPE = central("replace_one")


def program(**changes: Any) -> SrnSgd:
    given: dict[str, Any] = {
        "loss": Logistic(),
        "features": 2,
        "size": 12,
        "blocks": 6,
        "passes": 3,
        "gradient_radius": 10.0,
        "difference_radius": 10.0,
        "step_size": 0.1,
        "noise_multiplier": 1,
    }
    return SrnSgd(**{**given, **changes})


def data() -> Array:
    rows = np.random.default_rng(0).uniform(-1, 1, (12, 3))
    rows[:, 2] = rows[:, 2] > 0
    return rows


# --- the declaration -----------------------------------------------------------------------------


def test_a_record_is_in_one_round_of_a_tree_a_pass() -> None:
    """mu = sqrt(passes (floor(log2 blocks) + 1)) / z."""
    z = sympy.Symbol("z", positive=True)
    made = program(noise_multiplier=z)
    assert made.declaration(SCOPE) == Compose(
        *(CorrelatedGaussian(f"pass {q}", z, 6, "tree") for q in (1, 2, 3))
    )
    mu = account(made.declaration(SCOPE), SCOPE).step("gdp").value
    assert sympy.simplify(mu - 3 / z) == 0
    assert [program(size=64, blocks=b).levels for b in (1, 2, 4, 64)] == [1, 2, 3, 7]


@pytest.mark.parametrize("change", [{"unit": "client"}, {"trust": "local"}])
def test_other_scopes_are_refused(change: dict[str, str]) -> None:
    given = {"adjacency": "replace_one", "unit": "record", "trust": "central", **change}
    with pytest.raises(InvalidParameter, match="replace_one of a record"):
        program().declaration(Scope(**given, released="transcript"))  # type: ignore[arg-type]
    for adjacency in ("zero_out", "add_remove"):
        with pytest.raises(InvalidParameter, match="replace_one of a record"):
            program().declaration(SCOPE.under(adjacency))


def test_the_catalogue_declares_what_it_claims() -> None:
    outcomes = [str(c.check(srn_sgd.declaration, SCOPE).outcome) for c in srn_sgd.claims]
    assert outcomes == ["proved", "proved"]
    less = replace(SRN, noise_multiplier=SRN.noise_multiplier * sympy.Rational(999, 1000))
    refuted = [str(c.check(less.declaration(SCOPE), SCOPE).outcome) for c in srn_sgd.claims]
    assert refuted == ["refuted", "refuted"]


# --- what it computes ----------------------------------------------------------------------------


def expected_path(made: SrnSgd) -> Array:
    """Every record's gradient at its last visit, summed; a step of fixed length along it."""
    blocks = np.split(data(), made.blocks)
    latest = np.zeros((made.blocks, 2))
    x = np.zeros((1, 2))
    path = [x[0]]
    for t in range(made.passes * made.blocks):
        block = t % made.blocks
        latest[block] = made.loss.gradients(x, blocks[block])[0].sum(axis=0)
        direction = latest.sum(axis=0)
        x = x - made.step_size * direction / np.linalg.norm(direction)
        path.append(x[0])
    return np.array(path)


def test_with_little_noise_it_follows_the_gradients_of_last_visits() -> None:
    """Differences telescope; nothing is clipped where C2 is above the smoothness."""
    made = program(noise_multiplier=sympy.Rational(1, 10**9))
    path = expected_path(made)
    np.testing.assert_allclose(made.run(_curator(made)).last[0], path[-1], atol=1e-6)
    assert np.linalg.norm(path[-1]) > 0.3
    outputs = made.run(_curator(made, trials=40)).output
    distances = np.linalg.norm(outputs[:, None] - path[None, :-1], axis=-1).min(axis=1)
    assert distances.max() < 1e-6
    assert len(np.unique(outputs.round(5), axis=0)) > 8


def _curator(made: SrnSgd, trials: int = 1, rows: Array | None = None) -> Sampler:
    records = Records(data() if rows is None else rows)
    rng = np.random.default_rng(1)
    return Sampler(made.declaration(SCOPE), SCOPE, records, rng=rng, trials=trials)


def test_steps_have_one_length_however_large_the_noise() -> None:
    made = program(passes=1, blocks=1, noise_multiplier=50)
    ends = made.run(_curator(made, trials=30)).last
    np.testing.assert_allclose(np.linalg.norm(ends, axis=1), 0.1, rtol=1e-12)
    many = program(noise_multiplier=50)
    ends = many.run(_curator(many, trials=30)).last
    assert (np.linalg.norm(ends, axis=1) <= 18 * 0.1 + 1e-12).all()


def test_noise_is_that_of_a_tree_over_the_sensitivity() -> None:
    """Prefix t of pass 1 has one node's variance for each one of t in binary: within 5%.

    Records that are not finite count as zero, so that noise is all there is.  8,000 numbers a
    round: the deviation of a ratio is 0.8%, so that 5% has a false-alarm rate of 1e-9.
    """
    made = program(passes=2, gradient_radius=0.001)
    curator = _curator(made, trials=4_000, rows=np.full((12, 3), np.nan))
    made.run(curator)
    transcript = curator.transcript
    first = [event.released for event in transcript if event.label == "pass 1"]
    node = 2 * 0.001 / 12
    for t, released in enumerate(first, 1):
        assert released.std() == pytest.approx(node * t.bit_count() ** 0.5, rel=0.05)
    second = [event.released for event in transcript if event.label == "pass 2"]
    radius = 10.0 * 0.1 * 6
    assert second[0].std() == pytest.approx(2 * radius / 12, rel=0.05)


def test_records_that_are_not_finite_leave_iterates_finite() -> None:
    rows = data()
    rows[3], rows[7] = np.nan, [np.inf, -np.inf, 1.0]
    end = program().run(_curator(program(), trials=3, rows=rows))
    assert np.isfinite(end.last).all()


# --- the worst case ------------------------------------------------------------------------------


def test_scores_of_a_record_of_the_first_block_are_normal_with_the_accounted_mu() -> None:
    """N(+-mu^2/2, mu^2): Kolmogorov-Smirnov at level 1e-4 on each of two sides."""
    made = program(
        loss=WorstCase(size=3, curvature=1e4), features=0, noise_multiplier=5, gradient_radius=1.0
    )
    first = np.zeros((12, 1))
    first[0] = 1.0
    pair = Records(first), Records(-first)
    mu = 3 / 5
    for own, sign in ((0, 1), (1, -1)):
        sampler = sampled(made, pair[own], SCOPE, seed=3 + own, trials=5_000)
        replay = replayer(made, pair, SCOPE).inspect(sampler.transcript, own=own)
        assert (replay.attack, replay.violations) == ("exact", ())
        assert stats.kstest((replay.scores - sign * mu**2 / 2) / mu, "norm").pvalue > 1e-4


# --- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [{"size": 0}, {"blocks": 0}, {"passes": 0}, {"blocks": 13}, {"passes": 1.5},
     {"gradient_radius": 0.0}, {"difference_radius": float("nan")}, {"step_size": -1.0},
     {"step_size": float("inf")}, {"noise_multiplier": 0}, {"noise_multiplier": float("nan")}],
)  # fmt: skip
def test_bad_parameters_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        program(**change)


def test_a_block_visited_twice_in_a_pass_is_refused() -> None:
    made = program()
    curator = _curator(made)
    query = made.query(np.zeros((1, 2)), None)
    curator.release("pass 1", query, rows=curator.part(0, made.sizes))
    with pytest.raises(Undeclared):
        curator.release("pass 1", query, rows=curator.part(0, made.sizes))
    with pytest.raises(InvalidParameter):
        sampled(program(loss=LeastSquares(), size=24), Records(data()), SCOPE, seed=1)
