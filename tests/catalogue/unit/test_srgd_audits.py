"""Audits of Accelerated-DP-SRGD: the worst case, the last iterate, and the suites' strength."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from audits import srgd as audits
from audits.broken import srgd, srgd_programs
from dpaudit.audit.attack import attack
from dpaudit.audit.bounds.estimators import count_errors, mu_lower
from dpaudit.audit.suite import Suite
from dpaudit.curator.curator import Sampler
from dpaudit.curator.replayer import Replayer
from dpaudit.families.correlated import CorrelatedGaussian
from dpaudit.families.correlated.kernel import CorrelatedGaussianKernel
from dpaudit.families.correlated.node import Factorisation
from dpaudit.families.correlated.strategies import prefix_matrix, strategy_matrix
from dpaudit.kernels.query import Records
from mechanisms.papers.srgd import catalogue, printed
from mechanisms.papers.srgd.accelerated import output_weights
from mechanisms.papers.srgd.constants import as_float
from mechanisms.papers.srgd.prefix_noise import prefix_noise_bound

TRIALS = 4_000
# The worst cases of all entries: of some no audit is kept, as a search for a loss shows as much.
SUITES = [
    *map(
        audits.suite,
        (
            catalogue.accelerated_dp_srgd_unclipped,
            printed.accelerated_dp_srgd_theorem_5_12_unclipped,
            catalogue.accelerated_dp_srgd,
            catalogue.accelerated_dp_srgd_sqrt_toeplitz,
            catalogue.dp_srgd,
            printed.accelerated_dp_srgd_corollary_5_7,
            printed.accelerated_dp_srgd_theorem_5_12,
        ),
    ),
]


def test_one_record_moves_one_round_by_at_most_its_share() -> None:
    """Both data sets along one transcript, on a loss whose gradients follow the iterates."""
    program = srgd_programs.Rounds(replace(srgd.GRADIENT, loss=replace(srgd.LINEAR, curvature=3.0)))
    for canary in (0, 13, 47):
        values = np.random.default_rng(canary).choice([-1.0, 1.0], size=(48, 1))
        pair = (Records(values), Records(values, np.arange(48) != canary))
        node = program.declaration(srgd.ZERO_OUT)
        sampler = Sampler(node, srgd.ZERO_OUT, pair[0], rng=np.random.default_rng(2), trials=9)
        program.run(sampler)
        replayer = Replayer(program, node, srgd.ZERO_OUT, pair)
        walks = [replayer.walk(records, sampler.transcript)[0] for records in pair]
        moved = [
            float(np.linalg.norm(a.value - b.value, axis=1).max())
            for a, b in zip(walks[0].visits, walks[1].visits, strict=True)
        ]
        share = moved.pop(canary // srgd.BATCH)
        assert moved == [0.0] * 15
        assert 0.99 / 12 <= share <= (1 + 1e-12) / 12


@pytest.mark.parametrize(
    ("strategy", "rounds", "canary", "mu"),
    [
        ("tree", 4, 0, 0.8303),
        ("tree", 8, 0, 0.7680),
        ("tree", 16, 0, 0.7199),
        ("tree", 32, 0, 0.6750),
        ("tree", 100, 0, 0.6497),
        ("tree", 316, 0, 0.5586),
        ("tree", 1000, 0, 0.5405),
        ("sqrt_toeplitz", 16, 0, 0.9099),
        ("sqrt_toeplitz", 100, 0, 0.8124),
        ("sqrt_toeplitz", 1000, 0, 0.7177),
        ("identity", 16, 0, 0.4842),
        ("tree", 16, 15, 0.0043),
    ],
)
def test_what_the_last_iterate_tells(strategy: str, rounds: int, canary: int, mu: float) -> None:
    """|sum of w from the canary's round on| / (sens(C) ||B^T w||): the plan's numbers."""
    assert last(Factorisation(strategy), rounds, canary) == pytest.approx(mu, abs=6e-5)


def last(strategy: Factorisation, rounds: int, canary: int = 0) -> float:
    weights = output_weights(rounds)
    spread = np.linalg.norm(prefix_matrix(strategy, rounds).T @ weights)
    columns = np.linalg.norm(strategy_matrix(strategy, rounds), axis=0).max()
    return float(abs(weights[canary:].sum()) / (columns * spread))


def test_an_attacker_who_sees_the_last_iterate_finds_its_share() -> None:
    """mu = .7199 of 1; the bound at 1e-4 is below it, and not far below."""
    suite = replace(srgd.twin, trials=TRIALS)
    found = attack(srgd.srgd_bench, suite, seed=6, error=1e-4, observe=lambda s: s.output)
    assert found.test is not None
    bound = mu_lower(count_errors(found.test, 0.0), 1e-4).mu_lower
    assert 0.75 * 0.7199 < bound <= last(Factorisation.TREE, 16)


@pytest.mark.parametrize(
    ("strategy", "rounds", "expected"),
    [("tree_honaker", 16, 10), ("tree_honaker", 32, 20), ("smooth_binary", 32, 0), ("tree", 9, 0)],
)
def test_the_canary_sits_in_the_round_that_is_protected_least(
    strategy: str, rounds: int, expected: int
) -> None:
    chosen = Factorisation(strategy)
    assert audits.exposed_round(chosen, rounds) == expected
    gradient = replace(srgd.GRADIENT, strategy=chosen, rounds=rounds, size=3 * rounds)
    pair = audits.neighbours(gradient)
    assert np.flatnonzero(~pair.second.present).tolist() == [3 * expected]


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.mechanism)
def test_a_suite_of_the_catalogue_reaches_what_its_loss_moves(suite: Suite) -> None:
    """Scores N(+-mu^2/2, mu^2), mu that of the rows' own length; Kolmogorov-Smirnov at 1e-4."""
    made = getattr(catalogue, suite.mechanism, None) or getattr(printed, suite.mechanism)
    noise = made.program.gradient
    largest = max(np.linalg.norm(strategy_matrix(noise.strategy, noise.rounds), axis=0))
    slope = suite.program.gradient.loss.slope  # type: ignore[attr-defined]
    length = min(slope, as_float(noise.rows.largest))  # clipped, or shorter than what is stated
    mu = length * largest / (noise.batch * float(noise.beta) * float(noise.sigma))
    found = attack(made, suite, seed=7, error=1e-4, trials=300)
    assert [f for f in found.findings if f.status == "broken"] == []
    assert found.attack == "exact"
    assert found.test is not None
    for scores, sign in ((found.test.alternative, 1), (found.test.null, -1)):
        assert stats.kstest((scores - sign * mu**2 / 2) / mu, "norm").pvalue > 1e-4


def test_suites_are_for_programs_of_the_paper() -> None:
    other: Any = srgd.GRADIENT
    with pytest.raises(TypeError, match="its program is no AcceleratedDPSRGD or DPSRGD"):
        audits.suite(replace(srgd.srgd_bench, program=other))


@pytest.mark.parametrize("name", ["tree", "sqrt_toeplitz", "identity"])
def test_prefix_noise_is_as_long_as_its_bound_says(name: str) -> None:
    """P[max ||b_t|| > b_max] <= 5%, and a union bound over 16 rounds loses less than 4 times.

    20,000 draws: false alarms at most 1e-6 each.
    """
    tail, dimension, trials = 0.05, 3, 20_000
    bound = prefix_noise_bound(16, dimension, tail, Factorisation(name))
    columns = np.linalg.norm(strategy_matrix(Factorisation(name), 16), axis=0).max()
    session = CorrelatedGaussianKernel(CorrelatedGaussian("sum", 1, 16, name), trials)
    zero, scale, rng = (
        np.zeros((trials, dimension)),
        np.full(trials, columns),
        np.random.default_rng(8),
    )
    longest = np.max(
        [np.linalg.norm(session.sample(zero, scale, rng), axis=1) for _ in range(16)], axis=0
    )
    beyond = int(np.count_nonzero(longest > bound))
    assert stats.binom.sf(beyond - 1, trials, tail) > 1e-6
    assert stats.binom.cdf(beyond, trials, tail / 4) > 1e-6
