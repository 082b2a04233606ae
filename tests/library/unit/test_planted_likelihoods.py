"""Bugs in weights, losses, proposals and pairs of likelihood audits: each turns a check red.

The checks are identities of exact likelihoods: weights p/r have mean 1, and so have q/r where R is
nowhere without Q's mass.  At five standard errors a right proposer fails one in 900,000 times, and
draws are the same in every run of the tests.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.audit.bounds.weighted import Bet, CountedLosses, PilotLosses, Sought
from dpaudit.audit.examine import examine
from dpaudit.audit.examine.losses import Loss
from dpaudit.audit.likelihood import NOTHING, likelihood_audit
from dpaudit.curator import proposal
from dpaudit.curator.proposal import Proposal, Proposer, Weighted, proposed
from dpaudit.errors import InvalidParameter
from dpaudit.kernels.base import kernel_of
from dpaudit.kernels.query import Array, Records
from dpaudit.scope import Adjacency
from tests.support.kernels import Written
from tests.support.likelihood import PAIR, SCOPE, gaussian, mean

Patch = pytest.MonkeyPatch
TRIALS, ERRORS = 200_000, 5.0
ONCE = Written(dp.Gaussian("a", 1), lambda curator: curator.release("a", mean()))
LEANING = Proposal(1.0, 0.0, 0.3)


def _sampled(curator: Any) -> None:
    for _ in range(2):
        with curator.batch("a") as batch:
            curator.release("a", mean(), rows=batch)


SAMPLED = Written(dp.Repeat(dp.PoissonSampled(dp.Gaussian("a", 1), "0.2"), 2), _sampled)


def runs(program: Written = ONCE, law: Proposal = LEANING) -> Weighted:
    rng = np.random.default_rng(3)
    node = program.declaration(SCOPE)
    return proposed(program, node, SCOPE, PAIR, rng=rng, trials=TRIALS, proposal=law)[0]


def is_one(weights: Array) -> bool:
    return bool(abs(weights.mean() - 1) <= ERRORS * weights.std() / len(weights) ** 0.5)


def weights_hold(program: Written = ONCE, law: Proposal = LEANING) -> bool:
    """Whether p/r and q/r have mean 1, the latter also where runs lean by little."""
    found, near = runs(program, law), runs(program, replace(law, shift=0.1))
    others = [np.exp(one.log_weights - one.losses) for one in (found, near)]
    return all(map(is_one, [np.exp(found.log_weights), *others]))


@pytest.mark.first_case
@pytest.mark.parametrize("program", [ONCE, SAMPLED], ids=["all records", "secret batches"])
def test_right_weights_and_losses_pass(program: Written) -> None:
    assert weights_hold(program, Proposal(1.0, 0.6, 0.3) if program is SAMPLED else LEANING)


def changed(
    losses: float = 1.0, weights: float = 0.0, more: float = 0.0
) -> Callable[[Patch], None]:
    """Losses times a factor and more; weights times e^weights."""

    def plant(patch: Patch) -> None:
        right = Proposer.weighted

        def wrong(self: Proposer) -> Weighted:
            found = right(self)
            return Weighted(losses * found.losses + more, found.log_weights + weights)

        patch.setattr(Proposer, "weighted", wrong)

    return plant


def of_kernel(name: str, make: Callable[[Any], Any]) -> Callable[[Patch], None]:
    def plant(patch: Patch) -> None:
        kernel = kernel_of(dp.Gaussian("a", 1))
        patch.setattr(kernel, name, make(getattr(kernel, name)))

    return plant


def _another_share(patch: Patch) -> None:
    right = Proposer.__init__

    def wrong(self: Proposer, *given: Any, **options: Any) -> None:
        right(self, *given, **options)
        self._leans = self._rng.random(self.trials) >= 0.35

    patch.setattr(Proposer, "__init__", wrong)


def _lean_forgotten(patch: Patch) -> None:
    right = Proposer._finish

    def wrong(self: Proposer, mixture: Any) -> None:
        before = self._lean.copy()
        right(self, mixture)
        self._lean = 0.8 * self._lean + 0.2 * before

    patch.setattr(Proposer, "_finish", wrong)


BUGS: dict[str, Callable[[Patch], None]] = {
    "weights a hundredth too heavy": changed(weights=math.log(1.01)),
    "weights a hundredth too light": changed(weights=math.log(0.99)),
    "losses a twentieth too large": changed(losses=1.05),
    "losses a twentieth too small": changed(losses=0.95),
    "losses larger by a fiftieth": changed(more=0.02),
    "losses of the other direction": changed(losses=-1.0),
    "a share of plain runs that is off by a twentieth": _another_share,
    "a lean that is a fifth short": _lean_forgotten,
    "a density of a lean that is a fiftieth longer": of_kernel(
        "log_density_away",
        lambda right: lambda self, x, v, w, s, c: right(self, x, v, w, 1.02 * s, c),
    ),
    "draws that lean the other way": of_kernel(
        "sample_away", lambda right: lambda self, v, w, s, c, rng: right(self, v, w, -s, c, rng)
    ),
    "draws of noise a fiftieth too wide": of_kernel(
        "sample_away",
        lambda right: lambda self, v, w, s, c, rng: right(self, v, w, s, 1.02 * c, rng),
    ),
    "the density of another scale": of_kernel(
        "log_density_away",
        lambda right: lambda self, x, v, w, s, c: right(self, x, v, w, s, 1.05 * c),
    ),
}


@pytest.mark.first_case
@pytest.mark.parametrize("name", BUGS)
def test_a_wrong_weight_or_loss_is_noticed(name: str, monkeypatch: Patch) -> None:
    BUGS[name](monkeypatch)
    assert not weights_hold()


def test_batches_that_hold_the_record_more_often_than_weighted_are_noticed(
    monkeypatch: Patch,
) -> None:
    right = Proposer._pick

    def wrong(self: Proposer, mixture: Any, differs: Any) -> None:
        right(self, mixture, differs)
        mixture.log_proposed = mixture.first.logs[:, None] * np.ones(self.trials)

    monkeypatch.setattr(Proposer, "_pick", wrong)
    assert not weights_hold(SAMPLED, Proposal(1.0, 0.6, 0.3))


@pytest.mark.quality
def test_batches_whose_other_data_set_has_other_chances_are_noticed(monkeypatch: Patch) -> None:
    right = Proposer._pick

    def wrong(self: Proposer, mixture: Any, differs: Any) -> None:
        right(self, mixture, differs)
        mixture.log_second = mixture.log_second + 0.01

    monkeypatch.setattr(Proposer, "_pick", wrong)
    assert not weights_hold(SAMPLED, Proposal(1.0, 0.6, 0.3))


# --- zero densities -------------------------------------------------------------------------------


def _impossible(patch: Patch) -> None:
    """Transcripts that the first data set cannot give, in half of the trials."""
    kernel = kernel_of(dp.Gaussian("a", 1))
    right = kernel.compared

    def wrong(self: Any, other: Any, x: Array, v: Array, w: Array, scale: Array) -> Any:
        log, loss = right(self, other, x, v, w, scale)
        none = np.arange(len(log)) % 2 == 0
        return np.where(none, -np.inf, log), np.where(none, np.nan, loss)

    patch.setattr(kernel, "compared", wrong)


def test_a_transcript_of_density_zero_has_no_weight(monkeypatch: Patch) -> None:
    _impossible(monkeypatch)
    found = runs()
    assert (np.exp(found.log_weights[::2]) == 0).all()
    assert (np.exp(found.log_weights[1::2]) > 0).all()


def test_a_transcript_of_density_zero_that_counted_would_be_noticed(monkeypatch: Patch) -> None:
    _impossible(monkeypatch)
    monkeypatch.setattr(proposal, "_down", lambda values: np.nan_to_num(values, neginf=0.0))
    with pytest.raises(AssertionError):
        test_a_transcript_of_density_zero_has_no_weight(monkeypatch)


def test_runs_that_never_meet_an_event_show_nothing() -> None:
    same = dp.Neighbours(
        Records(np.array([[1.0], [3.0]])),
        Records(np.array([[2.0], [3.0]])),
        Adjacency.REPLACE_ONE,
        "clipped to the same",
    )
    claim = dp.Claim(dp.ApproxDP(1, "1e-5"), by="a test")
    found = likelihood_audit(
        ONCE, ONCE.declaration(SCOPE), dp.central("replace_one"), same, [claim],
        seed=1, runs=60, shown_error=0.05, decisive_error=1e-6,
    )  # fmt: skip
    assert found.why_not == NOTHING
    assert all(bound.shown == 0 for bound in found.bounds)


# --- runs that choose -----------------------------------------------------------------------------


def test_a_bet_chosen_on_counted_runs_is_refused() -> None:
    counted, sought = gaussian(CountedLosses, 1.0, 1.0, 50, 1), Sought("epsilon", 1e-2)
    with pytest.raises(InvalidParameter, match="never counted"):
        Bet.of(counted, sought, 50, 0.05)  # type: ignore[arg-type]


def test_pilot_runs_that_are_counted_are_refused() -> None:
    pilot, sought = gaussian(PilotLosses, 1.0, 1.0, 50, 1), Sought("epsilon", 1e-2)
    with pytest.raises(InvalidParameter, match="never counted"):
        Bet.of(pilot, sought, 50, 0.05).lower(pilot)  # type: ignore[arg-type]


def above(best_of: int, audits: int = 12) -> int:
    """How many of the audits exceed the truth if the best of so many sets of runs is counted."""
    sought = Sought("epsilon", 1e-2)
    truth = float(dp.account(dp.Gaussian("a", 1), SCOPE).epsilon("1e-2").upper)
    bet = Bet.of(gaussian(PilotLosses, 1.0, 1.0, 100, 9), sought, 100, 0.05)
    return sum(
        max(
            bet.lower(gaussian(CountedLosses, 1.0, 1.0, 100, 100 * audit + k))
            for k in range(best_of)
        )
        > truth
        for audit in range(audits)
    )


@pytest.mark.quality
def test_the_best_of_many_counted_sets_would_be_noticed() -> None:
    """Of right audits at most one in 20 exceeds the truth: three of 12 do in two of a hundred."""
    assert above(1) <= 2 < above(60)


# --- pairs ----------------------------------------------------------------------------------------

ROWS = np.arange(8.0).reshape(4, 2)


def replaced(*places: int) -> Records:
    values = ROWS.copy()
    values[list(places)] += 1
    return Records(values)


PAIRS: dict[str, tuple[Records, Records, str]] = {
    "nobody differs": (Records(ROWS), Records(ROWS), "replace_one"),
    "two records replaced": (Records(ROWS), replaced(0, 3), "replace_one"),
    "two records swapped": (Records(ROWS), Records(ROWS[[1, 0, 2, 3]]), "replace_one"),
    "one replaced under zero_out": (Records(ROWS), replaced(1), "zero_out"),
    "one zeroed out, another replaced": (
        Records(ROWS), Records(replaced(2).values, np.arange(4) > 0), "zero_out",
    ),
    "a record zeroed out under replace_one": (
        Records(ROWS), Records(ROWS, np.arange(4) > 0), "replace_one",
    ),
    "two records more": (Records(ROWS), Records(ROWS[:2]), "add_remove"),
    "a record more, another replaced": (
        Records(ROWS), Records(replaced(1).values[:3]), "add_remove",
    ),
    "values differ of a record that neither holds": (
        Records(ROWS, np.arange(4) > 0),
        Records(replaced(0).values, np.arange(4) > 0),
        "replace_one",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_a_pair_that_does_not_differ_in_one_record_is_refused(name: str) -> None:
    first, second, adjacency = PAIRS[name]
    with pytest.raises(InvalidParameter, match="Neighbours"):
        dp.Neighbours(first, second, Adjacency(adjacency), name)


@pytest.mark.quality
def test_a_search_whose_pair_differs_in_two_records_is_refused(monkeypatch: Patch) -> None:
    right = Loss.sets

    def wrong(self: Loss, point: Any) -> tuple[Records, Records]:
        first, second = right(self, point)
        values = second.values.copy()
        values[-2:] += 1.0
        return first, Records(values, second.present)

    monkeypatch.setattr(Loss, "sets", wrong)
    claim = dp.Claim(dp.GDP(1), by="a test")
    one = dp.Mechanism("tried", "A mean", "a test", ONCE, dp.central("replace_one"), [claim])
    with pytest.raises(InvalidParameter, match="records differ"):
        examine(one, seed=1)
