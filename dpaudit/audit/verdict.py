"""Verdicts: what an audit's bounds and an account say together about each claim.

Bounds are shown at 95%.  *refuted* needs an error rate of 1e-4 over the whole run, of which half
goes to the bounds of all audits' plain runs and two fifths to those from likelihoods; statistical
conformance checks of all audits together raise a false alarm with probability below 1e-6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from typing import NamedTuple

from dpaudit.accountant.account import Account
from dpaudit.accountant.claim import Checked, Claim, Outcome
from dpaudit.audit.attacked import Attacked
from dpaudit.audit.bounds.estimators import (
    Counts,
    choose_test,
    count_errors,
    epsilon_lower,
    epsilon_of_gaussian,
    mu_lower,
    pools,
)
from dpaudit.audit.likelihood import Likely
from dpaudit.audit.residuals import Finding
from dpaudit.check.laws import CONFORMANCE_ERROR
from dpaudit.check.measures import MEASURES
from dpaudit.exact import (
    decimal_lower,
    decimal_upper,
    enclose,
    exact,
    is_infinite,
    unknowns,
)
from dpaudit.families.opaque import ApproxDP, PureDP
from dpaudit.measures.calculus import measure_of
from dpaudit.nodes import Assumption, Status

SHOWN_ERROR = 0.05  # error of a printed bound: 95% confidence
DECISION_ERROR = 1e-4  # error of a refutation, over all that a mechanism's verdict rests on
BOUND_SHARE = 0.5  # share of that error for bounds of plain runs
LIKELIHOOD_SHARE = 0.4  # the rest is the conformance checks'


class Verdict(StrEnum):
    """Verdicts on a claim, the weakest finding last.

    >>> import dpaudit as dp
    >>> dp.Verdict("certified_under_assumptions").value
    'certified_under_assumptions'
    """

    REFUTED = "refuted"
    ALARM = "alarm"
    UNSUPPORTED = "unsupported"
    INCONCLUSIVE = "inconclusive"
    UNCONFIRMED = "unconfirmed"
    CERTIFIED_UNDER_ASSUMPTIONS = "certified_under_assumptions"
    CERTIFIED = "certified"


EXIT_CODES = {
    Verdict.CERTIFIED: 0,
    Verdict.CERTIFIED_UNDER_ASSUMPTIONS: 0,
    Verdict.REFUTED: 1,
    Verdict.INCONCLUSIVE: 3,
    Verdict.UNSUPPORTED: 4,
    Verdict.ALARM: 5,
    Verdict.UNCONFIRMED: 6,
}
ON_TRUST = "the checker cannot confirm the bound, which is taken on trust"


def overall(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict of a whole: the gravest of its parts."""
    order = list(Verdict)
    return min(verdicts, key=order.index)


class Ruling(NamedTuple):
    """The verdict of one piece of evidence on a claim, and the reason."""

    verdict: Verdict
    reason: str


def judge(rulings: Iterable[Ruling]) -> Ruling:
    """The one judge of declared programs, functions, canaries and training: the gravest decides.

    The first of equally grave ones counts.
    """
    order = list(Verdict)
    return min(rulings, key=lambda ruling: order.index(ruling.verdict))


@dataclass(frozen=True)
class Lower:
    """A lower bound from one audit in a claim's measure.

    ``shown`` holds at 95%, ``decisive`` at the run's decision error.  ``family``: if not empty, the
    bound holds only for mechanisms of that family, and decides no verdict.  ``counts`` at
    ``threshold`` and the upper bounds of the two error rates are its witness.  ``pooled``: both
    kinds of errors are counted together; that is chosen on the training trials.
    """

    measure: str
    shown: float
    decisive: float
    threshold: float
    counts: Counts
    rates_upper: tuple[float, float]
    decisive_rates_upper: tuple[float, float]
    delta: str = ""
    family: str = ""
    pooled: bool = False


@dataclass(frozen=True)
class DecisionBudget:
    """The errors of one certified run, in equal shares over all bounds and over all audits' checks.

    ``bounds``: number of lower bounds the run makes of plain runs; ``audits``: number of audits it
    runs; ``likelihoods``: number of lower bounds that it makes from likelihoods.
    """

    bounds: int
    audits: int
    likelihoods: int = 1

    @property
    def likelihood(self) -> float:
        """Error of one decisive bound from likelihoods."""
        return DECISION_ERROR * LIKELIHOOD_SHARE / max(self.likelihoods, 1)

    @property
    def bound(self) -> float:
        """Error of one decisive bound."""
        return DECISION_ERROR * BOUND_SHARE / max(self.bounds, 1)

    @property
    def conformance(self) -> float:
        """Error of one audit's statistical conformance checks together."""
        return float(CONFORMANCE_ERROR / max(self.audits, 1))


def printed_delta(claim: Claim) -> Fraction | None:
    """The delta of an epsilon claim as printed, rounded up; None in other measures, or a symbol."""
    if not isinstance(claim.guarantee, (ApproxDP, PureDP)):
        return None
    delta = claim.guarantee.parameters.get("delta", Fraction(0))
    return None if unknowns(delta) else Fraction(decimal_upper(delta))


def deltas(claims: Sequence[Claim]) -> list[Fraction]:
    """The printed deltas at which claims ask for a raw bound, each once."""
    printed = dict.fromkeys(map(printed_delta, claims))
    return [delta for delta in printed if delta is not None]


def bounds_of(claims: Sequence[Claim]) -> int:
    """How many lower bounds an audit of these claims makes: the lens, and one a delta."""
    return 1 + len(deltas(claims))


def lens(attacked: Attacked, budget: DecisionBudget) -> Lower | None:
    """The GDP lens at the suite's fixed threshold; None if the implementation stopped.

    Errors are pooled if the training trials predict a larger bound that way.
    """
    if attacked.test is None:
        return None
    threshold, training = attacked.suite.threshold, attacked.training
    pooled = training is not None and pools(training, threshold, attacked.trials, budget.bound)
    counts = count_errors(attacked.test, threshold)
    shown = mu_lower(counts, SHOWN_ERROR, pooled=pooled, written=True)
    decisive = mu_lower(counts, budget.bound, pooled=pooled, written=True)
    return Lower(
        measure="gdp",
        shown=shown.mu_lower,
        decisive=decisive.mu_lower,
        threshold=threshold,
        counts=counts,
        rates_upper=shown.rates_upper,
        decisive_rates_upper=decisive.rates_upper,
        pooled=pooled,
    )


def raw(attacked: Attacked, budget: DecisionBudget, delta: Fraction) -> Lower | None:
    """The (epsilon, delta) bound at a threshold, of an estimator, chosen on the training trials."""
    if attacked.test is None or attacked.training is None:
        return None
    # At the printed delta, which is rounded up: the bound then holds at the exact one too.
    printed = decimal_upper(delta)
    at = float(printed)
    threshold, pooled = choose_test(attacked.training, at, attacked.trials, SHOWN_ERROR)
    counts = count_errors(attacked.test, threshold)
    shown = epsilon_lower(counts, at, SHOWN_ERROR, pooled=pooled, written=True)
    decisive = epsilon_lower(counts, at, budget.bound, pooled=pooled, written=True)
    return Lower(
        measure="approx_dp",
        shown=shown.epsilon_lower,
        decisive=decisive.epsilon_lower,
        threshold=threshold,
        counts=counts,
        rates_upper=shown.rates_upper,
        decisive_rates_upper=decisive.rates_upper,
        delta=printed,
        pooled=pooled,
    )


def lower_for(claim: Claim, lens_bound: Lower | None, raw_bound: Lower | None) -> Lower | None:
    """The audit's bound in the claim's own measure, free of any family assumption.

    If two error rates bound the claimed number, those at the lens' threshold are used: it was
    chosen without the test trials.
    """
    measure = measure_of(claim.guarantee)
    if measure is None or measure.from_rates is None or lens_bound is None:
        return raw_bound
    if measure.wire == lens_bound.measure:
        return lens_bound
    rates = lens_bound.rates_upper, lens_bound.decisive_rates_upper
    shown, decisive = (_in_measure(measure.name, measure.from_rates, *pair) for pair in rates)
    return replace(lens_bound, measure=measure.wire, shown=shown, decisive=decisive)


def _in_measure(
    name: str, search: Callable[[float, float], float], positive: float, negative: float
) -> float:
    """The value that two rates imply: by the checker's rule, where the measure has one."""
    checked = MEASURES.get(name)
    if checked is None or checked.from_rates is None:
        return search(positive, negative)
    balls = (enclose(exact(rate, "rate")) for rate in (positive, negative))
    return float(Fraction(decimal_lower(checked.from_rates(*balls))))


def conditional(claim: Claim, lens_bound: Lower | None) -> Lower | None:
    """For an (epsilon, delta) claim: the lens as epsilon, valid within the Gaussian family only."""
    if lens_bound is None or not isinstance(claim.guarantee, ApproxDP):
        return None
    at = printed_delta(claim)
    if not at:
        return None
    delta, printed = float(at), decimal_upper(at)
    return Lower(
        measure="approx_dp",
        # Below the mu a certificate prints, so that the epsilon follows from the printed one.
        shown=epsilon_of_gaussian(lens_bound.shown * (1 - 1e-11), delta),
        decisive=epsilon_of_gaussian(lens_bound.decisive * (1 - 1e-11), delta),
        threshold=lens_bound.threshold,
        counts=lens_bound.counts,
        rates_upper=lens_bound.rates_upper,
        decisive_rates_upper=lens_bound.decisive_rates_upper,
        delta=printed,
        family="the Gaussian family",
        pooled=lens_bound.pooled,
    )


class Bounds(NamedTuple):
    """The bounds of one audit: the lens, and the raw one at a claim's delta.

    ``name``: as the end of "the attack", such as " on a stand-in".
    """

    name: str
    lens: Lower | None
    raw: Lower | None


@dataclass(frozen=True)
class Judged:
    """One claim: its check, what the audit showed against it, and the verdict with its reason."""

    claim: Claim
    checked: Checked
    lower: Lower | None
    conditional: Lower | None
    verdict: Verdict
    reason: str


def judge_program(
    checked: Checked,
    account: Account,
    lens_bound: Lower | None,
    raw_bound: Lower | None,
    findings: Sequence[Finding],
    extra: Sequence[Assumption],
    *,
    on_trust: bool = False,
    unexamined: Sequence[str] = (),
    others: Sequence[Bounds] = (),
    more: Iterable[Ruling] = (),
) -> Judged:
    """The verdict on one claim; the gravest finding decides, and its reason is given.

    ``others``: bounds from other data sets, or from a stand-in with the same declaration; they
    count for the verdict but are not shown as the program's.  ``findings``: of the conformance
    checks of the program and of its audit.  ``more``: further rulings from the runs.
    ``on_trust``: the outcome rests on a number that the checker cannot confirm.  ``unexamined``:
    parts of the program that its examination did not reach.
    """
    claim = checked.claim
    lower = lower_for(claim, lens_bound, raw_bound)
    shown = [("", lower, lens_bound)]
    shown += [(b.name, lower_for(claim, b.lens, b.raw), b.lens) for b in others]
    verdict, reason = judge(
        (
            *_by_findings(findings),
            *_by_bounds(checked, account, shown),
            *more,
            _by_account(checked, extra),
        )
    )
    by_account = checked.reason == reason
    certified = verdict in (Verdict.CERTIFIED, Verdict.CERTIFIED_UNDER_ASSUMPTIONS)
    if on_trust and (certified or (verdict is Verdict.REFUTED and by_account)):
        verdict, reason = Verdict.UNCONFIRMED, f"{reason}; {ON_TRUST}"
    elif unexamined and certified:
        verdict, reason = Verdict.UNCONFIRMED, f"{reason}; {unexamined[0]}"
    return Judged(claim, checked, lower, conditional(claim, lens_bound), verdict, reason)


def _by_bounds(
    checked: Checked, account: Account, shown: Sequence[tuple[str, Lower | None, Lower | None]]
) -> Iterator[Ruling]:
    """A bound above the claim refutes it; one above the accounted value raises an alarm."""
    for name, lower, lens_bound in shown:
        if lower is not None and exceeds(lower, checked.claim.value):
            yield Ruling(
                Verdict.REFUTED,
                f"the attack{name} shows at least {_down(lower.decisive)} at error rate "
                f"{DECISION_ERROR:g}, above the claim",
            )
        if lower is not None and checked.step is not None:
            value = checked.step.value
            upper = value[0] if isinstance(value, tuple) else value
            if exceeds(lower, upper):
                yield Ruling(
                    Verdict.ALARM,
                    f"attacked{name} {_down(lower.decisive)} above accounted {_up(upper)}",
                )
        if lens_bound is not None and "gdp" in account.routes():
            upper = account.step("gdp").value
            if exceeds(lens_bound, upper):
                yield Ruling(
                    Verdict.ALARM,
                    f"attacked{name} mu {_down(lens_bound.decisive)} above accounted {_up(upper)}",
                )


def by_likelihoods(checked: Checked, likely: Sequence[Likely]) -> Iterator[Ruling]:
    """As by plain runs: bounds on the program with the declared noise, for which a claim is made.

    Such bounds are made only if all conformance checks of the program held.  A bound above the
    accounted value then shows that program, account or likelihood is wrong.
    """
    for audit in likely:
        lower = audit.lower(checked.claim)
        if lower is None:
            continue
        shown = f"likelihoods of {0 if audit.counted is None else len(audit.counted):,} runs"
        condition = "if its noise is the declared one"
        if above(lower.decisive, checked.claim.value):
            yield Ruling(
                Verdict.REFUTED,
                f"{shown} show that the program leaks at least {_down(lower.decisive)} "
                f"{condition}, at error rate {DECISION_ERROR:g}, above the claim",
            )
        if checked.step is not None:
            value = checked.step.value
            upper = value[0] if isinstance(value, tuple) else value
            if above(lower.decisive, upper):
                yield Ruling(
                    Verdict.ALARM,
                    f"{shown} show {_down(lower.decisive)} {condition}, above accounted "
                    f"{_up(upper)}",
                )


def _by_findings(findings: Sequence[Finding]) -> Iterator[Ruling]:
    for finding in findings:
        if finding.status == "broken":
            yield Ruling(Verdict.ALARM, f"conformance broken: {finding.check}: {finding.detail}")


def _by_account(checked: Checked, extra: Sequence[Assumption]) -> Ruling:
    """The ruling of the account, where no run contradicts it."""
    if checked.outcome is Outcome.REFUTED:
        return Ruling(Verdict.REFUTED, checked.reason)
    if checked.outcome is Outcome.UNSUPPORTED:
        return Ruling(Verdict.UNSUPPORTED, checked.reason)
    if checked.outcome is Outcome.UNPROVED:
        return Ruling(Verdict.INCONCLUSIVE, checked.reason)
    assumptions = [*extra, *(checked.step.assumptions() if checked.step else ())]
    violated = [a.id for a in assumptions if a.status is Status.VIOLATED]
    if violated:
        return Ruling(Verdict.INCONCLUSIVE, f"rests on violated assumptions: {', '.join(violated)}")
    open_ones = [a.id for a in assumptions if a.status is not Status.ENFORCED]
    if open_ones:
        return Ruling(
            Verdict.CERTIFIED_UNDER_ASSUMPTIONS,
            f"{checked.reason}, under: {', '.join(open_ones)}",
        )
    return Ruling(Verdict.CERTIFIED, checked.reason)


def _down(lower: float) -> str:
    return decimal_lower(lower, digits=4)


def _up(upper: object) -> str:
    return decimal_upper(upper, digits=4)


def exceeds(lower: Lower, value: object) -> bool:
    """Whether a bound, as printed, is certainly above an exact value; never for symbols."""
    return above(lower.decisive, value)


def above(bound: float, value: object) -> bool:
    """As :func:`exceeds`, of a number."""
    if is_infinite(value) or unknowns(value):
        return False
    shown = Fraction(decimal_lower(exact(bound, "bound")))
    return bool(enclose(shown) > enclose(value))
