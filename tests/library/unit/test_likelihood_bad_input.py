"""Likelihood audits of programs and densities that are odd: no bound, or a true one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from dpaudit import nodes
from dpaudit.audit.likelihood import NOTHING, Likely, likelihood_audit
from dpaudit.exact import Number
from dpaudit.exact.domains import number, positive
from dpaudit.kernels.base import KERNELS, Kernel
from dpaudit.kernels.query import Array, ClippedMean
from tests.support.kernels import Written
from tests.support.likelihood import PAIR, SCOPE, mean

NEIGHBOURS = dp.Neighbours(*PAIR, dp.Adjacency("zero_out"), "a record of 1, or none")


@dataclass(frozen=True, eq=False, repr=False)
class Box(nodes.Leaf):
    """Uniform noise on an interval of ``noise_multiplier`` times the sensitivity to either side."""

    label: str
    noise_multiplier: Number = number(positive)


class Boxed(Kernel):
    """At multiplier 2 two data sets at distance 1 overlap in three quarters of their releases."""

    norm = "l2"

    def sample(self, values: Array, scale: Array, rng: np.random.Generator) -> Array:
        return values + scale[:, None] * rng.uniform(-1, 1, values.shape)

    def log_density(self, released: Array, values: Array, scale: Array) -> Array:
        inside = (np.abs(released - values) <= scale[:, None]).all(-1)
        return np.where(inside, -np.log(2 * scale), -np.inf)

    def residual(self, released: Array, values: Array, scale: Array) -> Array:
        return (released - values) / scale[:, None]


class NotANumber(Boxed):
    """A density that is NaN on a third of what is released."""

    def log_density(self, released: Array, values: Array, scale: Array) -> Array:
        found = super().log_density(released, values, scale)
        return np.where(released[:, 0] > 0.5, np.nan, found)


class Endless(Boxed):
    """A density that is infinite on a third of what is released."""

    def log_density(self, released: Array, values: Array, scale: Array) -> Array:
        found = super().log_density(released, values, scale)
        return np.where(released[:, 0] > 0.5, np.inf, found)


class Silent(Kernel):
    """Noise that can be drawn, and of which no density is known."""

    norm = "l2"
    sample, residual = Boxed.sample, Boxed.residual


def audited(program: Any, guarantee: Any, **options: Any) -> Likely:
    settings: dict[str, Any] = {"seed": 1, "runs": 600, "shown_error": 0.05, "decisive_error": 1e-6}
    claims = [dp.Claim(guarantee, by="its author")]
    return likelihood_audit(
        program, program.node, SCOPE, NEIGHBOURS, claims, **{**settings, **options}
    )


def boxed(monkeypatch: pytest.MonkeyPatch, kernel: Any) -> Written:
    monkeypatch.setitem(KERNELS, Box, kernel)
    return Written(Box("a", 2), lambda curator: curator.release("a", mean()))


def test_transcripts_of_density_zero_bound_what_is_true(monkeypatch: pytest.MonkeyPatch) -> None:
    """delta(epsilon) is a quarter at every epsilon: none holds at a tenth, each at three tenths."""
    program = boxed(monkeypatch, Boxed)
    assert audited(program, dp.ApproxDP(1, "0.1")).bounds[0].decisive > 100
    assert audited(program, dp.ApproxDP(1, "0.3")).bounds[0].shown == 0


@pytest.mark.parametrize("kernel", [NotANumber, Endless])
def test_densities_that_are_no_numbers_show_nothing_false(
    monkeypatch: pytest.MonkeyPatch, kernel: Any
) -> None:
    """Runs with such a density count for nothing, and others as before."""
    found = audited(boxed(monkeypatch, kernel), dp.ApproxDP(1, "0.3"))
    assert all(bound.shown == 0 for bound in found.bounds)
    assert found.why_not != ""


def test_noise_without_a_density_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = audited(boxed(monkeypatch, Silent), dp.ApproxDP(1, "0.2"))
    assert found.bounds == ()
    assert found.why_not == "release 'a': Silent states no density of its noise"


def test_a_branch_that_no_proposed_run_takes_shows_nothing() -> None:
    """The data sets differ after a release that is six deviations out."""

    def body(curator: Any) -> None:
        same = ClippedMean(lambda z: 0 * z[None], 1.0, divisor=1.0)
        rare = curator.release("a", same)[:, 0] > 6
        if rare.any():
            curator.release("b", mean(), on=rare)

    program = Written(dp.Compose(dp.Gaussian("a", 1), dp.Gaussian("b", 1)), body)
    found = audited(program, dp.ApproxDP(1, "1e-5"))
    assert found.bounds[0].shown == 0
    assert found.band == ()
    assert found.why_not == NOTHING


def test_programs_that_stop_by_the_transcript_are_bounded() -> None:
    """A trial goes on while its sum is low: at most what all releases are accounted for."""

    def body(curator: Any) -> None:
        going, total = np.ones(curator.trials, dtype=bool), np.zeros(curator.trials)
        for _ in range(4):
            if going.any():
                total += np.nan_to_num(curator.release("a", mean(), on=going)[:, 0])
                going = going & (total < 2)

    program = Written(dp.Repeat(dp.Gaussian("a", 2), 4), body)
    exact = float(dp.account(program.node, SCOPE).epsilon("1e-5").upper)
    found = audited(program, dp.ApproxDP(9, "1e-5"))
    assert 0.3 * exact < found.bounds[0].decisive <= exact


def test_a_proposal_without_weight_is_no_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where every weight vanishes, nothing is won; with the weights of the runs, a bound is."""
    program = Written(dp.Gaussian("a", 1), lambda curator: curator.release("a", mean()))
    assert audited(program, dp.GDP(1)).bounds[0].shown > 0.9
    from dpaudit.curator.proposal import Proposer, Weighted

    weighted = Proposer.weighted

    def vanishing(self: Any) -> Weighted:
        found = weighted(self)
        return Weighted(found.losses, np.full_like(found.log_weights, -1e6))

    monkeypatch.setattr(Proposer, "weighted", vanishing)
    found = audited(program, dp.GDP(1))
    assert all(bound.shown == 0 for bound in found.bounds)
    assert found.why_not == NOTHING
