"""From counts to the verdict: p-values, bounds, words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np

from dpaudit.audit.blackbox.choice import Question
from dpaudit.audit.blackbox.claims import DECISIVE_RATIO, Tally
from dpaudit.audit.blackbox.divergence import Asked
from dpaudit.audit.blackbox.events import EventOnOutputs
from dpaudit.audit.blackbox.evidence import Edge
from dpaudit.audit.blackbox.findings import BROKEN, EXPLANATIONS, SINGLE, Finding
from dpaudit.audit.blackbox.mirror import mirrored_epsilon_lower, mirrored_p_value
from dpaudit.audit.blackbox.reproduce import reproducer
from dpaudit.audit.blackbox.result import FunctionAudit
from dpaudit.audit.blackbox.sampler import Sampler
from dpaudit.audit.blackbox.terms import Terms
from dpaudit.audit.bounds.betting import Tally as BetTally
from dpaudit.audit.bounds.betting import bets_against, log_averaged, log_wealth
from dpaudit.audit.verdict import Ruling, Verdict, judge
from dpaudit.exact import exact

BOUNDED_EVENTS = 4  # events whose exact bounds are computed
# Standard errors beyond the claim for which stakes are chosen.  Below the range, one night gains
# nothing; above it, the claim is refuted at once anyway.
LEAST_REACH, LARGEST_REACH = 1.0, 20.0
DELTA_TRIM = 0.05  # Share of an event's error spent on bounding how many trials delta may affect.


@dataclass(frozen=True, eq=False)
class Counted:
    """A question with its counts on draws that had no part in choosing it.

    ``trained``: its counts on the draws that it was chosen on; None where it was fixed beforehand.
    """

    question: Question
    tally: Tally
    mirror: Tally | None = None
    trained: Tally | None = None


@dataclass(frozen=True, eq=False)
class Examined:
    """All questions counted, and what was found about the calls."""

    counted: tuple[Counted, ...]
    findings: tuple[Finding, ...]
    trials: int
    training: int
    mean: Asked | None = None


def report(sampler: Sampler, terms: Terms, examined: Examined, seconds: float) -> FunctionAudit:
    """The result: p-values and bounds of the most telling questions, and the verdict."""
    target = terms.target
    best = _most_telling(examined.counted, target.edge)
    weighted = [_weighted_p(c, terms) for c in best]
    best = [best[i] for i in np.argsort(weighted, kind="stable")]
    of_mean = examined.mean.weighted_p(target.claimed) if examined.mean else 1.0
    p_value = min(1.0, of_mean, *weighted)
    refuting = [c for c, p in zip(best, sorted(weighted), strict=True) if p <= terms.refute_at]
    shown = (
        max(refuting, key=lambda c: target.boxed_lower(c.tally.counts, 1e-3))
        if refuting
        else best[0]
    )
    lower, epsilon_lower = _lowers(terms, examined)
    verdict, reason = judge(_rulings(terms, examined, p_value, by_mean=of_mean < min(weighted)))
    largest_share = max(c.question.share for c in examined.counted)
    return FunctionAudit(
        verdict=verdict,
        reason=reason,
        claim=target.words,
        measure=target.measure,
        claimed=target.claimed,
        delta=target.delta,
        lower=lower,
        epsilon_lower=epsilon_lower,
        confidence=terms.confidence,
        refute_at=terms.refute_at,
        p_value=p_value,
        event=EventOnOutputs(shown.question.event),
        favours=shown.question.favours,
        tally=shown.tally,
        smallest_showable=target.smallest_showable(
            examined.trials - examined.training, terms.refute_at * largest_share
        ),
        findings=examined.findings,
        trials=examined.trials,
        training_trials=examined.training,
        seed=terms.seed,
        reproducer=_reproducer(sampler, terms, shown, examined),
        seconds={"mechanism": sum(sampler.seconds), "total": seconds},
        log_e_value=_log_e_value(terms, examined),
        region=target.region,
    )


def _most_telling(counted: Sequence[Counted], edge: Edge) -> list[Counted]:
    """The few questions with the smallest approximate p-value divided by its share of the error.

    Only these get an exact p-value.  The choice is safe: the minimum over some events is at least
    the minimum over all, so leaving events out can only miss a refutation.
    """
    from scipy.special import log_ndtr

    z = [_evidence(c, edge) for c in counted]
    logs = log_ndtr(-np.array(z)) - np.log([c.question.share for c in counted])
    return [counted[i] for i in np.argsort(logs, kind="stable")[:BOUNDED_EVENTS]]


def _evidence(counted: Counted, edge: Edge) -> float:
    """Approximate standard errors beyond the claim; a pair of mirrored events counts as one."""
    own = edge.evidence_of(*astuple(counted.tally))
    if counted.mirror is None:
        return own
    return max(own, math.sqrt(2) * min(own, edge.evidence_of(*astuple(counted.mirror))), 1.0)


def _weighted_p(counted: Counted, terms: Terms) -> float:
    share, target = counted.question.share, terms.target
    if counted.mirror is None:
        return target.p_value(counted.tally, terms.refute_at * share / 10) / share
    trim = terms.refute_at * share * DELTA_TRIM
    p_value = mirrored_p_value(counted.tally, counted.mirror, target.claimed, target.delta, trim)
    return p_value / share


def _log_e_value(terms: Terms, examined: Examined) -> float:
    """Log of the wealth that bets against the claim end with, from 1, on the test draws alone.

    Each event that training chose has a part of the wealth, by its share of the error.  Its bets
    are fixed by training: the line near the rates seen there, and a stake for the evidence that
    they predict.  No bet is made where trials are not independent.
    """
    trained_counts = [(c, c.trained) for c in examined.counted if c.trained is not None]
    if not trained_counts or BROKEN & set(examined.findings):
        return 0.0
    shares = [c.question.share for c, _ in trained_counts]
    logs = [_wealth_of(terms, c, trained) for c, trained in trained_counts]
    parts = [math.log(share / math.fsum(shares)) for share in shares]
    return log_averaged([x + y + math.log(len(logs)) for x, y in zip(logs, parts, strict=True)])


def _wealth_of(terms: Terms, counted: Counted, trained: Tally) -> float:
    """Log wealth of the bets on one event, all of the test draws played."""
    reach = min(max(counted.question.evidence, LEAST_REACH), LARGEST_REACH)
    tally = counted.tally
    bets = bets_against(
        [terms.target.region],
        [terms.target.claimed],
        pairs=tally.trials,
        error=math.exp(-(reach**2) / 2),
        expected=(
            (trained.hits + 0.5) / (trained.trials + 1),
            (trained.other_hits + 0.5) / (trained.other_trials + 1),
        ),
    )
    played = BetTally(bets.digest, tally.trials, tally.hits, tally.other_hits, (0.0,))
    return float(log_wealth(bets, played)[0])


def _lowers(terms: Terms, examined: Examined) -> tuple[float, float]:
    """Lower bounds in the claim's measure and on epsilon; each question has its share of error."""
    target, total, counted = terms.target, 1 - terms.confidence, examined.counted
    plain = [c for c in counted if c.mirror is None]
    tallies, errors = [c.tally for c in plain], [total * c.question.share for c in plain]
    bound = target.lower(tallies, errors)
    if target.measure != "epsilon":
        if examined.mean is not None:
            bound = max(bound, examined.mean.lower(total))
        return bound, target.epsilon_lower(tallies, errors)
    if bound > DECISIVE_RATIO * target.claimed:
        return bound, bound
    mirrored = [
        mirrored_epsilon_lower(c.tally, c.mirror, target.delta, total * c.question.share)
        for c in counted
        if c.mirror is not None
    ]
    return max(bound, *mirrored, 0.0), max(bound, *mirrored, 0.0)


def _rulings(
    terms: Terms, examined: Examined, p_value: float, *, by_mean: bool
) -> Iterator[Ruling]:
    if Finding.EQUAL_DATA in examined.findings:
        yield Ruling(Verdict.INCONCLUSIVE, EXPLANATIONS[Finding.EQUAL_DATA])
        return
    if p_value <= terms.refute_at:
        shown = examined.mean.words if by_mean and examined.mean else "an event is likelier than"
        yield Ruling(
            Verdict.REFUTED,
            f"{shown} {terms.target.words} allows "
            f"(p-value {p_value:.2g}, at most {terms.refute_at:g})",
        )
    for finding in examined.findings:
        if finding in BROKEN:
            yield Ruling(Verdict.ALARM, EXPLANATIONS[finding])
    yield Ruling(
        Verdict.INCONCLUSIVE,
        f"no event found that {terms.target.words} forbids (p-value {p_value:.2g})",
    )


def _reproducer(sampler: Sampler, terms: Terms, shown: Counted, examined: Examined) -> str:
    node = type(terms.target.guarantee).__name__
    inside = ", ".join(
        f"{name}={_number(value)}"
        for name, value in terms.target.guarantee.parameters.items()
        if name not in ("label", "source")
    )
    given = terms.asked or terms
    more = "" if given.generator is None else f", generator={given.generator!r}"
    again = (
        f"from dpaudit import {node}, audit_function\n"
        f"print(audit_function(mechanism, d0, d1, claim={node}({inside}), trials={terms.trials}, "
        f"confidence={given.confidence!r}, refute_at={given.refute_at!r}, seed={given.seed}{more}))"
    )
    single = bool(SINGLE & set(examined.findings))
    return reproducer(sampler, shown.question.event, again, terms.trials, single=single)


def _number(value: Any) -> str:
    """A number as code: a float where it means the same, else a fraction."""
    if exact(float(value), "claim") == value:
        return repr(float(value))
    return f"__import__('fractions').Fraction({str(value)!r})"
