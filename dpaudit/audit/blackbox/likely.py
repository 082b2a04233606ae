"""The likelihood audit of a function whose noise is recorded, and what its bound rests on.

Trials are drawn by importance sampling, their noise tilted to where privacy losses are large
(:mod:`dpaudit.audit.likelihood`); the loss of each is that of :mod:`dpaudit.audit.blackbox.solved`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import log_ndtr, ndtr

from dpaudit.accountant.claim import Claim
from dpaudit.audit.blackbox.draws import Array
from dpaudit.audit.blackbox.recorded import Layout, layout_of
from dpaudit.audit.blackbox.result import FunctionAudit, Recorded
from dpaudit.audit.blackbox.sampler import Mechanism
from dpaudit.audit.blackbox.solved import NotAffine, Run, Solver, solver_of
from dpaudit.audit.blackbox.terms import Terms
from dpaudit.audit.bounds.weighted import CountedLosses
from dpaudit.audit.engine import generator
from dpaudit.audit.likelihood import FEWEST_PILOT_RUNS, NOTHING, LikelyLower, Search, Wanted
from dpaudit.audit.verdict import Ruling, Verdict, judge
from dpaudit.curator.proposal import LOG_ROUNDING, MAX_LOG, NoLikelihood, Proposal

LIKELIHOOD_STREAM = 3  # Number of the random stream: 0 to 2 belong to plain audits and to searches.
PILOT_TRIALS = 2_000  # Trials of a pilot, from which a proposal is judged.
DIRECTION_TRIALS = 2_000  # Plain trials from which the direction of the tilt is estimated.
MOST_CELLS = 2_000_000  # numbers and outputs of one call
MAX_TILT_MEAN = 30.0  # Largest mean, in standard deviations, of tilted noise.
TILT_PRECISIONS = (1 / 16, 4.0)  # Smallest and largest inverse variance of tilted noise.
SIGNIFICANT_ERRORS = 4.0  # Standard errors that a mean must exceed; smaller ones count as 0.
MAX_LOSS_WEIGHED = 50.0  # Nats at which a loss is clipped when a direction is chosen.


def recorded_audit(mechanism: Mechanism, data: tuple[Any, Any], terms: Terms) -> Recorded:
    """A bound of ``terms.trials`` trials with recorded noise, at the errors of ``terms``.

    An error of the mechanism is not raised: it becomes the reason why there is no bound.
    """
    wanted = Wanted.of([Claim(terms.target.guarantee, by="the caller")])
    if not wanted:
        return Recorded(why_not="no likelihood bound is made of a claim in this measure")
    try:
        layout = layout_of(mechanism, data, generator(terms.seed, (LIKELIHOOD_STREAM,)))

        columns: set[int] = set()

        def run(side: int, noise: Array) -> Array:
            outputs = layout.outputs(mechanism, data[side], noise)
            columns.add(outputs.shape[1])
            if len(columns) > 1:
                raise NoLikelihood("the number of outputs of a trial changes")
            return outputs

        try:
            return _Trials(layout, run, wanted, terms, affine=True).made(terms)
        except NotAffine:
            return _Trials(layout, run, wanted, terms, affine=False).made(terms)
    except NoLikelihood as error:
        return Recorded(why_not=str(error))


def with_recorded(audit: FunctionAudit, recorded: Recorded, terms: Terms) -> FunctionAudit:
    """The plain audit joined with the bound from recorded noise, each at its share of the error."""
    if not recorded.trials:
        return replace(audit, recorded=recorded)
    p_value = min(1.0, 2 * min(audit.p_value, recorded.p_value))
    rulings = [Ruling(audit.verdict, audit.reason)]
    if 2 * recorded.p_value <= terms.refute_at:
        reason = (
            f"the likelihoods of {recorded.trials:,} trials with recorded noise are beyond those "
            f"that {audit.claim} allows (p-value {2 * recorded.p_value:.2g}, at most "
            f"{terms.refute_at:g}), if outputs are one-to-one in the noise"
        )
        rulings.append(Ruling(Verdict.REFUTED, reason))
    verdict, reason = judge(rulings)
    of_epsilon = recorded.lower if audit.measure == "epsilon" else 0.0
    return replace(
        audit,
        verdict=verdict,
        reason=reason,
        lower=max(audit.lower, recorded.lower),
        epsilon_lower=max(audit.epsilon_lower, of_epsilon),
        confidence=terms.confidence,
        refute_at=terms.refute_at,
        p_value=p_value,
        recorded=recorded,
    )


class _Trials(Search):
    """Trials whose noise is tilted towards large losses; the direction is found on plain trials."""

    def __init__(
        self, layout: Layout, run: Run, wanted: list[Wanted], terms: Terms, *, affine: bool
    ) -> None:
        errors = 1 - terms.confidence, terms.refute_at
        pilot = min(PILOT_TRIALS, max(FEWEST_PILOT_RUNS, terms.trials // 4))
        super().__init__(wanted, errors, runs=terms.trials, pilot=pilot)
        self.layout, self.key, self.stage = layout, (terms.seed, int(affine)), 0
        self.unconfirmed = 0
        self.solver: Solver = solver_of(layout, run, self.fresh(0), affine=affine)
        self.leans = [self.direction(side) for side in (0, 1)]

    def fresh(self, side: int) -> np.random.Generator:
        """A generator of its own for every pilot and for the counted trials."""
        seed, affine = self.key
        self.stage += 1
        return generator(seed, (LIKELIHOOD_STREAM, affine, side, self.stage))

    def made(self, terms: Terms) -> Recorded:
        """The bound.  A failure after trials were counted names them: their error is spent."""
        best = self.search()
        try:
            counted, (bound,) = self.bounds(best)
        except NoLikelihood as error:
            return Recorded(trials=terms.trials, why_not=f"in the counted trials, {error}")
        return Recorded(
            lower=bound.shown,
            p_value=_p_value(bound, counted, terms.target.claimed),
            trials=len(counted),
            pilots=self.pilots,
            unconfirmed=self.unconfirmed,
            numbers=len(self.layout.laws),
            solved=self.solver.words,
            side=best.side,
            why_not="" if bound.shown > 0 else NOTHING,
        )

    def direction(self, side: int) -> tuple[Array, Array]:
        """Gradient and half the curvature of each number's part of the loss, by its scores.

        By Stein's identity E[l t] = E[l'] and E[l (t^2 - 1)] = E[l''] for a standard normal t.
        Noise that leans by the s-th power of e^loss has mean s l' and precision 1 - s l''.
        """
        scores = self.fresh(side).standard_normal((DIRECTION_TRIALS, len(self.layout.laws)))
        solved = self.solver.solve(side, scores)
        parts = np.where(solved.sure[:, None], np.nan_to_num(solved.ratios), 0.0)
        parts = parts.clip(-MAX_LOSS_WEIGHED, MAX_LOSS_WEIGHED)
        return _certain(parts * scores), _certain(parts * (scores**2 - 1))

    def draw(self, side: int, proposal: Proposal, runs: int) -> tuple[Array, Array]:
        """Losses and log weights of fresh trials."""
        rng, numbers = self.fresh(side), len(self.layout.laws)
        size = max(1, MOST_CELLS // max(numbers * min(numbers, 32), 8))
        parts = [
            self._part(side, proposal, min(size, runs - start), rng)
            for start in range(0, runs, size)
        ]
        losses, weights, sure = (np.concatenate(p) for p in zip(*parts, strict=True))
        self.unconfirmed = int(np.sum(~sure))
        return losses, weights

    def _part(
        self, side: int, proposal: Proposal, runs: int, rng: np.random.Generator
    ) -> tuple[Array, Array, Array]:
        """Losses, log weights and whether each loss is sure, of trials drawn from a proposal.

        A trial's scores are normal: plain with probability ``proposal.plain``, and otherwise of the
        mean and precision of :meth:`direction`.  A weight is the plain density over the mixture's,
        rounded downward.
        """
        slope, curvature = self.leans[side]
        precision = np.clip(1 - proposal.shift * curvature, *TILT_PRECISIONS)
        mean = np.clip(proposal.shift * slope / precision, -MAX_TILT_MEAN, MAX_TILT_MEAN)
        scores = rng.standard_normal((runs, len(mean)))
        leaning = rng.random(runs) >= proposal.plain
        scores[leaning] = mean + scores[leaning] / np.sqrt(precision)
        terms = np.log(precision) / 2 - precision * (scores - mean) ** 2 / 2 + scores**2 / 2
        lean = np.log1p(-proposal.plain) + terms.sum(axis=1)
        weights = -np.logaddexp(math.log(proposal.plain), lean)
        weights -= LOG_ROUNDING * (1 + np.abs(terms).sum(axis=1))
        solved = self.solver.solve(side, scores)
        return np.clip(solved.losses, -MAX_LOG, MAX_LOG), weights, solved.sure


def _certain(products: Array) -> Array:
    """Means of columns; 0 where a mean is not significant."""
    means, errors = products.mean(axis=0), products.std(axis=0) / math.sqrt(len(products))
    return np.where(np.abs(means) > SIGNIFICANT_ERRORS * errors, means, 0.0)


def _p_value(bound: LikelyLower, counted: CountedLosses, claimed: float) -> float:
    """One over the wealth of the deciding bet against the claim (Ville), rounded up."""
    bet = bound.bets[1]
    at, number = bet.sought.at, max(claimed, 1e-12) * (1 + 1e-9)
    if bound.wanted.number == "rho":
        number *= at
    elif bound.wanted.number == "mu":  # the profile of Gaussian noise of this mu
        number = float(
            ndtr(number / 2 - at / number) - np.exp(at + log_ndtr(-number / 2 - at / number))
        )
    ratios = bet.sought.ratios(counted, max(number, 1e-300))
    wealth = float(np.log1p(bet.fraction * (ratios - 1)).sum())
    return math.exp(-max(wealth, 0.0))
