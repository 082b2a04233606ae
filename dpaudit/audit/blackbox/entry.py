"""`audit_function`: a claim about any function that draws, tested on two data sets."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from dpaudit.audit.blackbox.canonical import canonical_events, revealed_pair
from dpaudit.audit.blackbox.choice import (
    CANONICAL_SHARE,
    DECISIVE_EVIDENCE,
    NOVEL_SHARE,
    REVEALED_SHARE,
    Question,
    chosen,
    low_bits_evidence,
    mirrored,
    novel,
)
from dpaudit.audit.blackbox.claims import Tally
from dpaudit.audit.blackbox.divergence import (
    DIVERGENCE_SHARE,
    MOST_SCORES,
    Asked,
    Divergence,
    scores_of,
)
from dpaudit.audit.blackbox.draws import Draws, TestDraws, TrainingDraws, alike, fitted, joined
from dpaudit.audit.blackbox.events import Event, Measurement
from dpaudit.audit.blackbox.findings import (
    SINGLE,
    Finding,
    is_dependent,
    probe,
    shared_in_single_calls,
    stream_findings,
)
from dpaudit.audit.blackbox.foreign import TIME_LIMIT, Command, Foreign
from dpaudit.audit.blackbox.judge import Counted, Examined, report
from dpaudit.audit.blackbox.likely import recorded_audit, with_recorded
from dpaudit.audit.blackbox.result import FunctionAudit
from dpaudit.audit.blackbox.sampler import (
    CallFailed,
    Calls,
    Mechanism,
    Part,
    Sampler,
    checked_mechanism,
    pieces_for,
)
from dpaudit.audit.blackbox.terms import Attack, Terms, checked_terms
from dpaudit.audit.bounds.budget import ErrorBudget
from dpaudit.audit.bounds.estimators import TestScores
from dpaudit.errors import InvalidParameter

Array = npt.NDArray[Any]


SINGLE_TRIALS = 4_000  # calls of a function that draws one output a call
FIRST_TRAINING_SHARE = 0.10  # Share of the trials drawn first, to choose events.
MORE_TRAINING_SHARE = 0.10  # Share of the trials drawn for that in addition, if the choice is open.
LEAST_TRAINING = 200  # draws on which events are chosen
TRAINING_CALLS = 4  # Calls of a mechanism that share the training draws of one side.
TEST_CALLS = 8  # Calls of a mechanism that share the test draws of one side, at the least.
BOUNDED_EVENTS = 3  # events on which the reported bounds rest


def audit_function(
    mechanism: Mechanism,
    d0: Any,
    d1: Any,
    *,
    claim: Any,
    trials: int,
    confidence: float | str = 0.95,
    refute_at: float | str = 1e-4,
    seed: int,
    attack: Attack = None,
    generator: str | None = None,
) -> FunctionAudit:
    """Test a claim about a mechanism on the neighbouring data sets ``d0`` and ``d1``.

    ``mechanism(data, rng, size)`` returns independent outputs of shape (size,) or (size, k), NaN
    for no output.  ``claim``: PureDP, ApproxDP, ZCDP, RenyiDP or GDP.  ``trials``: draws a side in
    all.  Events are chosen on training draws and counted on test draws; those fixed beforehand on
    all.  One error budget is split over all events and both directions (Bonferroni, with weights
    that no test draw has influenced), each tested exactly against the claim's region.  Claims of
    ZCDP and RenyiDP are tested on means of an estimated log density ratio as well.

    ``attack``: None for events that do not depend on digits below 36 bits, so that a plain sampler
    of doubles is judged as the real-valued noise it approximates (the finding ``low_bits`` says
    that the ignored digits would refute the claim on the training draws); "bits" for all digits,
    which refutes the pure claims of nearly every plain sampler, rightly; or a function of the
    outputs that returns one score each, large where an output looks like ``d0``: then its
    thresholds are the only events chosen on training draws.

    ``generator``: "recorded" adds a bound from exact likelihoods, which also sees events too rare
    to be counted.  The mechanism gets a NumPy generator that hands out recorded noise; the audit
    solves for the noise that gives the same output on the other data set, runs it there, and
    samples trials whose privacy loss is large.  The bound holds if outputs are one-to-one in the
    noise, which is tested.  If they are not, or if the mechanism draws noise in another way,
    ``recorded.why_not`` says so and the plain audit gets the whole error; else each gets half.

    Errors: InvalidParameter for bad arguments, and for a mechanism that always raises or returns
    wrong shapes; the message names the call.
    Source: Ding, Wang, Wang, Zhang and Kifer (2018); Berger and Boos (1994) for the test.

    >>> import dpaudit as dp
    >>> def noisy_count(data, rng, size):
    ...     return rng.laplace(sum(data), 0.5, size)
    >>> audit = dp.audit_function(
    ...     noisy_count, [1, 1], [1, 0], claim=dp.PureDP(1), trials=20_000, seed=1
    ... )
    >>> str(audit.verdict), audit.epsilon_lower > 1.5
    ('refuted', True)
    """
    terms_asked = terms = checked_terms(
        claim, trials, confidence, refute_at, seed, attack, generator
    )
    sampler = Sampler(checked_mechanism(mechanism), (d0, d1), terms.seed)
    started, before = perf_counter(), _fingerprint(d0, d1)
    recorded = recorded_audit(mechanism, (d0, d1), terms.halved) if generator else None
    if recorded is not None and recorded.trials:
        terms = terms.halved
    examined = _examine(sampler, terms)
    if _fingerprint(d0) == _fingerprint(d1) is not None:
        examined = replace(examined, findings=(*examined.findings, Finding.EQUAL_DATA))
    if _fingerprint(d0, d1) != before:
        raise InvalidParameter(
            "mechanism: it changes the data set that it is given; let it change a copy"
        )
    if isinstance(mechanism, Foreign) and mechanism.restarts:
        examined = replace(examined, findings=(*examined.findings, Finding.RESTARTED))
    audit = report(sampler, terms, examined, perf_counter() - started)
    return audit if recorded is None else with_recorded(audit, recorded, terms_asked)


def audit_command(
    command: Sequence[str] | str,
    d0: Any,
    d1: Any,
    *,
    claim: Any,
    trials: int,
    time_limit: float = TIME_LIMIT,
    **options: Any,
) -> FunctionAudit:
    """Test a claim about a program in any language: :func:`audit_function` of a ``Command``.

    ``command``: the program and its arguments, started anew for every call.  It reads the data set
    as JSON from standard input, and prints as many independent outputs as ``DPAUDIT_SIZE`` says,
    one a line; ``DPAUDIT_SEED`` is a whole number below 2^53.  ``time_limit``: seconds a call.

    Errors: as :func:`audit_function`; Unanswered for a call that is late, cut short or unreadable.

    >>> import sys
    >>> import dpaudit as dp
    >>> flip = (
    ...     "import os, random, sys; honest = float(sys.stdin.read());"
    ...     "random.seed(os.environ['DPAUDIT_SEED']); size = int(os.environ['DPAUDIT_SIZE']);"
    ...     "[print(honest if random.random() < 0.9 else 1 - honest) for _ in range(size)]"
    ... )
    >>> audit = dp.audit_command(
    ...     [sys.executable, "-c", flip], 0, 1, claim=dp.PureDP(1), trials=4_000, seed=1
    ... )
    >>> str(audit.verdict)
    'refuted'
    """
    mechanism = Command(command, time_limit=time_limit)
    return audit_function(mechanism, d0, d1, claim=claim, trials=trials, **options)


def _examine(sampler: Sampler, terms: Terms) -> Examined:
    """Probe, then train and test; again with calls of size 1 if large calls prove unusable."""
    probed = probe(sampler)
    findings = list(probed.findings)
    if probed.calls is Calls.MANY:
        try:
            examined = _train_and_test(sampler, terms, terms.trials)
            findings += examined.findings
        except CallFailed:
            findings.append(Finding.RAISES)
        if not SINGLE & set(findings):
            return replace(examined, findings=tuple(findings))
    single = replace(sampler, run=1, calls=Calls.SINGLE)
    again = _train_and_test(single, terms, min(terms.trials, SINGLE_TRIALS))
    return replace(again, findings=tuple(dict.fromkeys([*findings, *again.findings])))


def _train_and_test(sampler: Sampler, terms: Terms, trials: int) -> Examined:
    """Choose events on training draws, and count them on test draws.

    More training draws are taken where the first leave the choice open.
    """
    edge = terms.target.edge
    calls = [_training_calls(sampler, side, Part.TRAINING, _first_part(trials)) for side in (0, 1)]
    findings = _stream_findings(sampler, calls)
    if SINGLE & set(findings) and sampler.calls is Calls.MANY:
        return Examined((), tuple(findings), 0, 0)
    first, second = alike(*(joined(parts, TrainingDraws) for parts in calls))
    events = terms.candidates(first, second, edge, trials - first.trials)
    if events and events[0].evidence < DECISIVE_EVIDENCE and trials >= 10 * LEAST_TRAINING:
        more = int(trials * MORE_TRAINING_SHARE)
        extra = [_training_calls(sampler, side, Part.MORE_TRAINING, more) for side in (0, 1)]
        parts = [joined([*a, *b], TrainingDraws) for a, b in zip(calls, extra, strict=True)]
        first, second = alike(*parts)
        events = terms.candidates(first, second, edge, trials - first.trials)
    settled = bool(events) and events[0].evidence >= DECISIVE_EVIDENCE
    if (
        terms.attack is None
        and not settled
        and low_bits_evidence(first, second, edge) >= DECISIVE_EVIDENCE
    ):
        findings.append(Finding.LOW_BITS)
    fixed = _fixed(first, sampler.data, terms)
    if terms.target.measure == "epsilon":
        events = sorted([*events, *mirrored(events)], key=lambda c: -c.evidence)
    mean = terms.divergence(first, second, trials - first.trials)
    share = (
        1
        - NOVEL_SHARE
        - sum(question.share for question in fixed)
        - (DIVERGENCE_SHARE if mean else 0)
    )
    questions = chosen(events, share) + novel(first, second)
    _spend(terms, [*questions, *fixed], mean)
    counted, dependent, asked_mean = _test(
        sampler, questions, fixed, mean, (first, second), trials - first.trials
    )
    findings += [Finding.DEPENDENT] if dependent else []
    return Examined(tuple(counted), tuple(findings), trials, first.trials, asked_mean)


def _spend(terms: Terms, questions: Sequence[Question], mean: Divergence | None) -> None:
    """Each question's share, out of one budget; errors: BudgetExceeded before any test draw."""
    budget = ErrorBudget(terms.refute_at, "audit_function")
    for question in questions:
        budget.spend(question.share, f"{question.event.words}, favouring d{question.favours}")
    if mean is not None:
        budget.spend(DIVERGENCE_SHARE, f"means of {mean.score.words}")


def _first_part(trials: int) -> int:
    return max(int(trials * FIRST_TRAINING_SHARE), min(trials // 2, LEAST_TRAINING))


def _training_calls(sampler: Sampler, side: int, part: Part, trials: int) -> list[Draws]:
    return list(sampler.chunks(side, part, trials, TRAINING_CALLS))


def _stream_findings(sampler: Sampler, calls: Sequence[Sequence[Draws]]) -> list[Finding]:
    if sampler.calls is Calls.SINGLE:
        return []
    findings: list[Finding] = []
    for side, draws in enumerate(calls):
        of_draws = stream_findings(draws)
        if Finding.CONSTANT in of_draws and shared_in_single_calls(sampler, side):
            of_draws.append(Finding.SHARED_DRAW)
        findings += of_draws
    return list(dict.fromkeys(findings))


def _fixed(example: Draws, data: tuple[Any, Any], terms: Terms) -> list[Question]:
    """Questions fixed before training; outputs that reveal a data set get a larger share."""
    events = canonical_events(example, *data)
    share = CANONICAL_SHARE / (2 * len(events))
    questions = [
        Question(event, side, share, "fixed beforehand") for event in events for side in (0, 1)
    ]
    both = revealed_pair(*data)
    rare = terms.target.measure == "epsilon" and terms.trials * terms.target.delta <= 1
    if both and rare:
        questions.append(Question(both[0], 0, REVEALED_SHARE, "fixed beforehand", both[1]))
    return questions


def _test(
    sampler: Sampler,
    asked: Sequence[Question],
    fixed: Sequence[Question],
    mean: Divergence | None,
    training: tuple[TrainingDraws, TrainingDraws],
    trials: int,
) -> tuple[list[Counted], bool, Asked | None]:
    """Counts of chosen events on test draws, of fixed ones on training and test draws together."""
    late, early = _events(asked), _events(fixed)
    score = None if mean is None else mean.score
    sides = [
        _side_counts(sampler, side, [*late, *early], score, training[side], trials)
        for side in (0, 1)
    ]
    totals = [counts.sum(axis=0) for counts, *_ in sides]
    for side, draws in enumerate(training):
        totals[side][len(late) :] += _counts(early, draws)
    learned = [dict(zip(map(id, late), _counts(late, draws), strict=True)) for draws in training]
    split = [{id(e): c for e, c in zip(late, t[: len(late)], strict=True)} for t in totals]
    counts_by_event = [
        {id(e): c for e, c in zip(early, t[len(late) :], strict=True)} for t in totals
    ]
    counted = [
        replace(_counted(q, split, trials), trained=_counted(q, learned, training[0].trials).tally)
        for q in asked
    ]
    counted += [_counted(q, counts_by_event, trials + training[0].trials) for q in fixed]
    dependent = sampler.calls is Calls.MANY and any(
        is_dependent(counts[:, i], sizes) for counts, sizes, _ in sides for i in range(len(late))
    )
    scored = None if mean is None else Asked(mean, TestScores(sides[0][2], sides[1][2]))
    return counted, dependent, scored


def _events(questions: Sequence[Question]) -> list[Event]:
    """Every event that is asked about, once."""
    events = [event for q in questions for event in (q.event, q.mirror) if event is not None]
    return list({id(event): event for event in events}.values())


def _counted(question: Question, counts: Sequence[dict[int, Any]], trials: int) -> Counted:
    def tally(event: Event, favours: int) -> Tally:
        hits, others = (int(counts[side][id(event)]) for side in (favours, 1 - favours))
        return Tally(hits, trials, others, trials)

    own = tally(question.event, question.favours)
    other = question.mirror
    mirror = None if other is None else tally(other, 1 - question.favours)
    return Counted(question, own, mirror)


def _side_counts(
    sampler: Sampler,
    side: int,
    events: Sequence[Event],
    score: Measurement | None,
    like: Draws,
    trials: int,
) -> tuple[Array, Array, Array]:
    """Counts (calls, questions), sizes (calls,) and scores; draws are dropped once counted."""
    rows, sizes, scores = [], [], [np.empty(0)]
    for draws in _test_draws(sampler, side, like, trials):
        chunk = fitted(draws, like, TestDraws)
        rows.append(_counts(events, chunk))
        sizes.append(chunk.trials)
        if score is not None:
            scores.append(scores_of(score, chunk, MOST_SCORES - sum(s.size for s in scores)))
    return np.array(rows), np.array(sizes), np.concatenate(scores)


def _test_draws(sampler: Sampler, side: int, like: Draws, trials: int) -> Iterator[Draws]:
    """Test draws of each call; single calls come joined."""
    pieces = pieces_for(trials, like.columns, TEST_CALLS)
    if sampler.calls is Calls.SINGLE:
        yield sampler.draw(side, Part.TEST, trials, TestDraws, pieces)
    else:
        yield from sampler.chunks(side, Part.TEST, trials, pieces)


def _counts(events: Sequence[Event], draws: Draws) -> Array:
    """How many draws each event holds for."""
    return np.array([np.count_nonzero(event(draws)) for event in events], dtype=np.int64)


def _fingerprint(*data: Any) -> bytes | None:
    try:
        return pickle.dumps(data)
    except Exception:  # noqa: BLE001 (what cannot be written down is not compared)
        return None
