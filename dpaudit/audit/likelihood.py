"""Likelihood audits: bounds from exact likelihoods of a program's own runs, drawn from a proposal.

The curator draws all noise and knows every declared density.  Rare events can therefore be bounded
by importance sampling: runs are drawn from a proposal under which the event is common, and weighted
(:mod:`dpaudit.curator.proposal`, :mod:`dpaudit.audit.bounds.weighted`).  The bound is on *the
program with the declared noise*: the program's queries, with noise as declared.  Plain runs and
residuals test that the program really draws that noise; if they find a fault, no likelihood bound
is made.
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain
from typing import Any

import numpy as np

from dpaudit.accountant.claim import Claim
from dpaudit.audit.attacked import FIRST, SECOND
from dpaudit.audit.bounds.weighted import Bet, CountedLosses, PilotLosses, Sought, mu_of_delta
from dpaudit.audit.engine import Batch, plan, run_batches
from dpaudit.audit.neighbours import Neighbours
from dpaudit.check.likelihoods import BAND_POINTS, PURE_DELTA
from dpaudit.curator.curator import Program
from dpaudit.curator.locations import at, line_of_error
from dpaudit.curator.proposal import MAX_LOG, NoLikelihood, Proposal, Weighted, proposed
from dpaudit.curator.replayer import Replayer, disclosures
from dpaudit.errors import Dependent, DpauditError
from dpaudit.exact import decimal_upper, unknowns
from dpaudit.families.opaque import GDP, ZCDP, ApproxDP, PureDP
from dpaudit.kernels.batches import draws_batches
from dpaudit.kernels.query import Array, Records
from dpaudit.nodes import Node, postorder
from dpaudit.scope import Scope

COUNTED_RUNS = 1_000  # Runs that are counted for the bounds, unless the caller asks for others.
FEWEST_RUNS = 50  # Counted runs below which no bound is made.
PILOT_RUNS = 60  # Runs of one pilot, at most.
FEWEST_PILOT_RUNS = 12  # Runs of one pilot, at least.
# A search makes about 12 pilots (29 with secret batches), so that it takes about as long as the
# counted runs.
PILOTS_PER_SEARCH = 12
# Runs, and pilot runs, of a program that draws a public order of the records in each run.
RUNS_WITH_PUBLIC_ORDER = 200, 20
RUNS_PER_CALL = 500  # Runs that are made at once.
COMPARED_RUNS = 12  # Runs that are replayed a second time, to compare the two replays.
MU_DELTA = 1e-6  # at which a proposal for mu is sought
# Further deltas at whose epsilons mu is tested: noise modulo a number has smaller rare losses than
# Gaussian noise with the same common losses.
MU_DELTAS = (MU_DELTA, 1e-4, 1e-2)
LARGEST_BAND_DELTA = 0.1  # of a confidence band, which ends at the smallest delta that is sought
FIRST_SHIFT = 1.0  # First shift of a proposal, in standard deviations of noise.
MOST_SHIFT = 500.0  # Largest shift of a proposal, in standard deviations of noise.
# Probabilities, tried in turn, that a secret batch holds the record that differs.
INCLUSION_PROBABILITIES = (0.3, 0.1, 0.03, 0.9)
FIRST_SHIFTS = (1.0, 2.5)  # First shifts of the proposal for each, in standard deviations of noise.
# Pilots that are continued with as many runs again, after the first and the second round.
SURVIVORS = (6, 3)
SHRINK_SHIFT = 0.6  # Factor by which a shift is reduced in the search.
GROW_SHIFT = 1.6  # Factor by which a shift is enlarged in the search.
# Renyi orders whose bounds are tried besides the one that the proposal suggests.
DIVERGENCE_ORDERS = (2.0, 4.0, 8.0, 16.0)
ROUND_DOWN = 1 - 1e-9  # Factor that lowers a bound by more than its floating-point error.
# Added to stage numbers in stream keys: pilots and plain audits draw from different streams.
STAGE_OFFSET = 100
NOTHING = "no proposed run met an event that the other data set makes rarer"


@dataclass(frozen=True)
class Wanted:
    """A number that claims ask for: "epsilon" at ``delta``, "mu", or "rho"."""

    number: str
    delta: Fraction = Fraction(0)

    @classmethod
    def of(cls, claims: Sequence[Claim]) -> list[Wanted]:
        """The bounds needed for claims of these measures, each once; small deltas first."""
        wanted: dict[Wanted, None] = {}
        for claim in claims:
            node = claim.guarantee
            if isinstance(node, (ApproxDP, PureDP)):
                delta = node.parameters.get("delta", Fraction(0))
                if not unknowns(delta):
                    wanted[cls("epsilon", Fraction(decimal_upper(delta)))] = None
            elif isinstance(node, (GDP, ZCDP)):
                wanted[cls("mu" if isinstance(node, GDP) else "rho")] = None
        return sorted(wanted, key=lambda bound: (bound.number != "epsilon", bound.delta))

    @property
    def printed(self) -> str:
        """Its delta as a decimal; empty where it has none."""
        return decimal_upper(self.delta) if self.number == "epsilon" else ""

    @property
    def aim(self) -> Sought:
        """The objective of the search for a proposal."""
        delta = (self.delta or PURE_DELTA) if self.number == "epsilon" else MU_DELTA
        return Sought("epsilon", float(delta))

    def sought(self, pilot: PilotLosses, shift: float) -> list[Sought]:
        """The tests for it, among which a pilot chooses; all runs of Gaussian noise that leans by
        ``shift`` show the same of the divergence of order shift + 1.
        """
        if self.number == "epsilon":
            return [self.aim]
        if self.number == "mu":
            estimates = [Sought("epsilon", delta).estimate(pilot) for delta in MU_DELTAS]
            return [Sought("delta", at) for at in dict.fromkeys(round(e, 6) for e in estimates)]
        return [
            Sought("divergence", order) for order in (*DIVERGENCE_ORDERS, round(shift + 1.001, 3))
        ]

    def value(self, sought: Sought, tested: float) -> float:
        """The wanted number that follows from the tested one, rounded down."""
        if self.number == "mu":
            return mu_of_delta(sought.at, tested) * ROUND_DOWN
        return tested / sought.at * ROUND_DOWN if self.number == "rho" else tested


@dataclass(frozen=True)
class LikelyLower:
    """A lower bound from likelihoods: ``shown`` at 95%, ``decisive`` at the run's decision error.

    ``tested``: what the two bets refuted, a delta or a divergence where ``wanted`` is mu or rho.
    """

    wanted: Wanted
    bets: tuple[Bet, Bet]
    tested: tuple[float, float]
    shown: float
    decisive: float


@dataclass(frozen=True)
class BandPoint:
    """The profile of the pair is at least ``delta`` at ``epsilon``, at 95% for all points of a
    band together; ``bet``: with which a larger epsilon was refuted.
    """

    epsilon: float
    delta: Fraction
    bet: Bet


@dataclass(frozen=True, eq=False)
class Likely:
    """The result of one likelihood audit; ``why_not`` says why there is none.

    ``side``: the data set that was run, 0 for the first.  ``pilots``: runs that were not counted.
    """

    neighbours: Neighbours
    program: Program
    seed: int
    side: int = FIRST
    proposal: Proposal = Proposal()
    counted: CountedLosses | None = None
    pilots: int = 0
    bounds: tuple[LikelyLower, ...] = ()
    band: tuple[BandPoint, ...] = ()
    why_not: str = ""

    def lower(self, claim: Claim) -> LikelyLower | None:
        """The bound that a claim's number is held against."""
        wanted = Wanted.of([claim])
        return next((b for b in self.bounds if b.wanted in wanted), None)


@dataclass(frozen=True, eq=False)
class ProposalTask:
    """One batch of runs drawn from a proposal, and what it says of the other data set."""

    program: Program
    declaration: Node
    scope: Scope
    pair: tuple[Records, Records]
    proposal: Proposal
    compare: bool = False

    def __call__(self, batch: Batch, generator: np.random.Generator) -> dict[str, Array]:
        """Losses and log weights.  Errors: NoLikelihood; what the program raises."""
        with contextlib.redirect_stdout(sys.stderr):
            weighted, curator = proposed(
                self.program, self.declaration, self.scope, self.pair, rng=generator,
                trials=batch.trials, proposal=self.proposal,
            )  # fmt: skip
            if self.compare:
                self._compare(curator.transcript, weighted, int(generator.integers(2**63)))
        return {"losses": weighted.losses, "log_weights": weighted.log_weights}

    def _compare(self, transcript: Any, weighted: Weighted, coins: int) -> None:
        """Errors: NoLikelihood where two walks of what was released say something else."""
        replayer = Replayer(
            self.program, self.declaration, self.scope, self.pair, coins=coins, draws=1
        )
        walks = [replayer.walk(records, transcript) for records in self.pair]
        for text in disclosures(walks[0], walks[1]):
            raise NoLikelihood(f"{text}, which no density tells")
        again = replayer.compared(walks[0], walks[1], FIRST).scores
        near = np.isclose(weighted.losses, np.clip(again, -MAX_LOG, MAX_LOG), rtol=1e-4, atol=1e-3)
        # A transcript of density zero has no weight, and no loss to be compared.
        if not near[weighted.log_weights > -MAX_LOG].all():
            raise NoLikelihood(
                "its queries give other values where one run asks them of both data sets than in "
                "a run of each"
            )


@dataclass(frozen=True)
class Tried:
    """One pilot of a proposal."""

    side: int
    proposal: Proposal
    pilot: PilotLosses
    sure: float  # what the pilot's own runs would bound
    estimate: float

    @property
    def rank(self) -> tuple[float, float]:
        return self.sure, self.estimate

    def farther(self) -> Proposal:
        """Four times the shift."""
        return replace(self.proposal, shift=min(4 * self.proposal.shift, MOST_SHIFT))

    def centred(self) -> Proposal:
        """The shift at which losses are about as large as the epsilon that the pilot estimates.

        Gaussian noise at distance m has a loss of mean (shift + 1/2) m^2 and variance m^2.  The
        mean estimates m better if it exceeds its standard error; else the variance is used.
        """
        losses, lean = self.pilot.losses, (1 - self.proposal.plain) * self.proposal.shift + 0.5
        spread = float(losses.std())
        square = float(losses.mean()) / lean
        if lean * spread * math.sqrt(len(losses) / 2) < 1:
            square = spread**2
        if not (square > 0 and self.estimate > 0):
            return self.farther()
        shift = min(max(self.estimate / square - 0.5, 0.05), MOST_SHIFT)
        return replace(self.proposal, shift=float(f"{shift:.4g}"))


def likelihood_audit(
    program: Program,
    declaration: Node,
    scope: Scope,
    neighbours: Neighbours,
    claims: Sequence[Claim],
    *,
    seed: int,
    index: int = 0,
    runs: int = COUNTED_RUNS,
    shown_error: float,
    decisive_error: float,
    jobs: int = 1,
) -> Likely:
    """Bounds of a program's runs on a pair of data sets in the measures of its claims.

    A pilot of at most a dozen short runs chooses the data set to run, the proposal and the bets;
    ``runs`` fresh ones are counted.  ``index`` separates its random streams from other audits'.
    Errors of the program are not raised: if likelihoods are not known exactly, ``why_not`` says so.
    """
    nothing = Likely(neighbours, program, seed)
    wanted = Wanted.of(claims)
    if not wanted:
        return replace(nothing, why_not="no claim is of a measure that likelihoods bound")
    audit = _Programs(
        (program, declaration, scope, neighbours.pair), wanted, (shown_error, decisive_error),
        seed=seed, index=index, runs=runs, jobs=jobs,
    )  # fmt: skip
    try:
        return audit.made(nothing)
    except Exception as error:  # noqa: BLE001  (what a program raises on runs like no other)
        error_text = str(error) if isinstance(error, DpauditError) else type(error).__name__
        where = "" if isinstance(error, NoLikelihood) else at(line_of_error(error))
        return replace(nothing, why_not=f"{error_text}{where}")


def _ranked(tried: Sequence[Tried]) -> list[Tried]:
    """Pilots, the best last."""
    return sorted(tried, key=lambda pilot: pilot.rank)


def _best(tried: Sequence[Tried]) -> Tried:
    return max(tried, key=lambda pilot: pilot.rank)


class Search:
    """A proposal chosen on pilots, and bounds from fresh runs; a subclass draws the runs.

    ``wanted``: numbers to bound.  ``errors``: those of the bound that is shown and of the one that
    decides.  ``sampled``: secret batches are drawn, whose chances a proposal may raise.
    """

    def __init__(
        self,
        wanted: Sequence[Wanted],
        errors: tuple[float, float],
        *,
        runs: int,
        pilot: int,
        sampled: bool = False,
    ) -> None:
        self.wanted, self.errors, self.sampled = wanted, errors, sampled
        self.runs, self.pilot, self.pilots = runs, pilot, 0

    def draw(self, side: int, proposal: Proposal, runs: int) -> tuple[Array, Array]:
        """Losses and log weights of fresh runs on one data set, (runs,) each."""
        raise NotImplementedError

    def bounds(self, best: Tried) -> tuple[CountedLosses, tuple[LikelyLower, ...]]:
        """The bounds on each wanted number from fresh runs of the best proposal."""
        counted = CountedLosses(*self.draw(best.side, best.proposal, self.runs))
        return counted, tuple(self.bound(wanted, best, counted) for wanted in self.wanted)

    def _try(self, side: int, proposal: Proposal) -> Tried:
        pilot = PilotLosses(*self.draw(side, proposal, self.pilot))
        self.pilots += self.pilot
        return self._tried(side, proposal, pilot)

    def _tried(self, side: int, proposal: Proposal, pilot: PilotLosses) -> Tried:
        aim, runs = self.wanted[0].aim, len(pilot)
        sure = Bet.of(pilot, aim, runs, self.errors[0]).promise(pilot, runs)
        return Tried(side, proposal, pilot, sure, aim.estimate(pilot))

    def _again(self, tried: Tried) -> Tried:
        """The pilot with as many runs again: the best of several pilots is partly lucky."""
        more = self._try(tried.side, tried.proposal).pilot
        both = (
            np.concatenate(pair)
            for pair in (
                (tried.pilot.losses, more.losses),
                (tried.pilot.log_weights, more.log_weights),
            )
        )
        return self._tried(tried.side, tried.proposal, PilotLosses(*both))

    def search(self) -> Tried:
        """The best of a few pilots on either data set.

        Pilots are ranked by the bound that their own runs give, which is low if the estimate rests
        on one heavy run or if no rare event was met.  The best are continued with more runs.
        """
        starts = [Proposal(FIRST_SHIFT)]
        if self.sampled:
            shifts = FIRST_SHIFTS if self.pilot >= PILOT_RUNS else FIRST_SHIFTS[:1]
            starts = [
                Proposal(shift, share) for share in INCLUSION_PROBABILITIES for shift in shifts
            ]
        either: list[list[Tried]] = []
        for side in (FIRST, SECOND):
            tried = [self._try(side, start) for start in starts]
            while not _best(tried).estimate > 0 and tried[-1].proposal.shift < MOST_SHIFT:
                # No rare event was met: a branch of low probability may need a larger shift.
                tried.append(self._try(side, tried[-1].farther()))
            for _ in range(0 if self.sampled else 2):
                tried.append(self._try(side, _best(tried).centred()))
            either.append(tried)
        if self.sampled:
            tried = [*chain.from_iterable(either)]
            for count in SURVIVORS:
                tried = [*map(self._again, _ranked(tried)[-count:])]
            leading = _best(tried)
            tried.append(self._again(self._try(leading.side, leading.centred())))
        else:
            tried = max(either, key=lambda tried: _best(tried).rank)
            side = _best(tried).side
            for factor in (GROW_SHIFT, SHRINK_SHIFT):
                best_proposal = _best(tried).proposal
                moved = float(f"{factor * best_proposal.shift:.4g}")
                tried.append(self._try(side, replace(best_proposal, shift=moved)))
        return _best([*map(self._again, _ranked(tried)[-2:])])

    def bound(self, wanted: Wanted, best: Tried, counted: CountedLosses) -> LikelyLower:
        """A bound on one number, of whose tests the pilot chooses the one that promises most."""
        pilot = best.pilot

        def promise(sought: Sought) -> tuple[float, ...]:
            # Bounds from the pilot's own runs are ranked first: a divergence that rests on one
            # heavy run is overestimated.  A delta is not.
            numbers = (self.runs,) if sought.number == "delta" else (len(pilot), self.runs)
            return tuple(
                wanted.value(sought, Bet.of(pilot, sought, runs, error).promise(pilot, runs))
                for runs in numbers
            )

        error = self.errors[0]
        sought = max(wanted.sought(pilot, best.proposal.shift), key=promise)
        shown, decisive = (Bet.of(pilot, sought, self.runs, error) for error in self.errors)
        tested = shown.lower(counted) * ROUND_DOWN, decisive.lower(counted) * ROUND_DOWN
        values = [wanted.value(sought, tests_made) for tests_made in tested]
        return LikelyLower(wanted, (shown, decisive), tested, values[0], values[1])

    def band(self, best: Tried, counted: CountedLosses) -> tuple[BandPoint, ...]:
        """Points of the profile that hold together: each has an equal part of the shown error.

        The largest epsilons at deltas from a tenth down to the smallest that is sought.
        """
        smallest = min(wanted.aim.at for wanted in self.wanted)
        points: list[BandPoint] = []
        for number in np.geomspace(max(LARGEST_BAND_DELTA, smallest), smallest, BAND_POINTS):
            delta = Fraction(f"{number:.2e}")
            sought = Sought("epsilon", float(delta))
            bet = Bet.of(best.pilot, sought, self.runs, self.errors[0] / BAND_POINTS)
            epsilon = bet.lower(counted) * ROUND_DOWN
            # A point is redundant if a larger delta has at least its epsilon.
            if epsilon > (points[-1].epsilon if points else 0.0):
                points.append(BandPoint(epsilon, delta, bet))
        return tuple(points)


class _Programs(Search):
    """Runs of a program, drawn by a proposing curator."""

    def __init__(
        self,
        what: tuple[Program, Node, Scope, tuple[Records, Records]],
        wanted: Sequence[Wanted],
        errors: tuple[float, float],
        *,
        seed: int,
        index: int,
        runs: int,
        jobs: int,
    ) -> None:
        sampled = any(draws_batches(node) for node in postorder(what[1]))
        pilot = min(PILOT_RUNS, max(FEWEST_PILOT_RUNS, runs // PILOTS_PER_SEARCH))
        super().__init__(wanted, errors, runs=runs, pilot=pilot, sampled=sampled)
        self.what, self.seed, self.index, self.jobs = what, seed, index, jobs
        self.together, self.stage = RUNS_PER_CALL, 0

    def made(self, nothing: Likely) -> Likely:
        try:
            best = self.search()
        except Dependent:
            # A public order of the records is drawn once a run.
            self.runs, self.pilot, self.together = (
                min(self.runs, RUNS_WITH_PUBLIC_ORDER[0]),
                RUNS_WITH_PUBLIC_ORDER[1],
                1,
            )
            best = self.search()
        self.draw(best.side, best.proposal, min(COMPARED_RUNS, self.pilot), compare=True)
        counted, bounds = self.bounds(best)
        return replace(
            nothing,
            side=best.side,
            proposal=best.proposal,
            counted=counted,
            pilots=self.pilots,
            bounds=bounds,
            band=self.band(best, counted),
            why_not="" if any(b.shown > 0 for b in bounds) else NOTHING,
        )

    def draw(
        self, side: int, proposal: Proposal, runs: int, *, compare: bool = False
    ) -> tuple[Array, Array]:
        program, declaration, scope, pair = self.what
        ordered = pair if side == FIRST else pair[::-1]
        task = ProposalTask(program, declaration, scope, ordered, proposal, compare)
        batches = plan(self.index, side, STAGE_OFFSET + self.stage, runs, self.together)
        self.stage += 1
        jobs = self.jobs if len(batches) > 1 and self.together > 1 else 1
        results = run_batches(task, batches, root_seed=self.seed, jobs=jobs)
        rows: list[Mapping[str, Array]] = [results[b.key] for b in batches]
        losses, weights = (np.concatenate([r[k] for r in rows]) for k in ("losses", "log_weights"))
        return losses, weights
