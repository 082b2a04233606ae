"""Audits of one mechanism of a run: of the pair that was found, of its suites, by likelihoods."""

from __future__ import annotations

from collections.abc import Sequence

from dpaudit.audit.attack import attack
from dpaudit.audit.examine import Examination
from dpaudit.audit.examine.steep import steeper
from dpaudit.audit.likelihood import FEWEST_RUNS, Likely, likelihood_audit
from dpaudit.audit.neighbours import Neighbours
from dpaudit.audit.suite import Suite
from dpaudit.audit.verdict import SHOWN_ERROR, deltas, lens, raw
from dpaudit.certificate.evidence import (
    LIKELIHOOD,
    Attempt,
    differences,
    likelihood_runs,
    trials_of,
)
from dpaudit.certificate.order import Run
from dpaudit.curator.mechanism import Mechanism

# Names of the rows of audits whose bounds are not printed as attacked.
STAND_IN, FOUND = "stand_in:", "found:"
NAMES = {STAND_IN: " on a stand-in", FOUND: " on made-up records"}
# Added to the audit index of audits on found pairs, which draw from other streams.
FOUND_PAIRS = 10**6
# Added to the audit index of audits on a steeper loss, which draw from other streams.
STEEPER_INDEX = 2 * 10**6
SUITE_INDEX = 10**7  # Difference of the audit indices of two suites of a mechanism.
OTHERS = " on other records of a suite"
BROKEN = "a conformance check of the program is broken"


def attempts_of(run: Run, index: int, examination: Examination) -> list[Attempt]:
    """The audits: of the program on the pair that was found, of its suites, on a steeper loss.

    The first without a prefix is the one whose bounds are printed as attacked: the suite's if it
    attacks the named program, else that on the pair found.  A stand-in's never are: one that a
    suite names, or else the program on a loss as steep as its clips.  A program whose runs are too
    long for enough trials is examined, and not attacked.
    """
    order = run.orders[index]
    if run.options.method == LIKELIHOOD:
        return []
    attempts: list[Attempt] = []
    for number, suite in enumerate(() if order.suite is None else order.suite.all):
        differs = stand_in(order.mechanism, suite)
        kinds = [bool(a.differs) for a in attempts]
        if differs:
            prefix = STAND_IN + (f"{kinds.count(True) + 1}:" if True in kinds else "")
        else:
            # "found:" alone is the audit on made-up records.
            prefix = f"{FOUND}{kinds.count(False) + 1}:" if False in kinds else ""
        attempts.append(_attempt(run, index, suite, prefix, differs, number=number))
    trials, attacked = trials_of(examination), [a.attacked for a in attempts if not a.differs]
    known = [a.suite.neighbours.digests for a in attacked]
    if examination.pair is not None and trials and examination.pair.digests not in known:
        own = Suite(
            order.mechanism.name,
            order.mechanism.program,
            examination.pair,
            trials=trials,
        )
        prefix = FOUND if any(not a.prefix for a in attempts) else ""
        attempts.append(_attempt(run, index, own, prefix, (), apart=FOUND_PAIRS))
    needed = order.suite is None and trials
    made = steeper(order.mechanism, examination, run.seed) if needed else None
    if made is not None:
        other = Suite(order.mechanism.name, made.program, made.neighbours, trials=trials)
        differs = stand_in(order.mechanism, other)
        attempts.append(_attempt(run, index, other, STAND_IN, differs, apart=STEEPER_INDEX))
    return sorted(attempts, key=lambda attempt: bool(attempt.prefix))


def _attempt(
    run: Run,
    index: int,
    suite: Suite,
    prefix: str,
    differs: tuple[str, ...],
    number: int | None = None,
    apart: int = 0,
) -> Attempt:
    """One audit; ``number``: of the order's suite, None for a pair that a search found.

    ``apart``: keeps the draws of one that was found apart.
    """
    order, options = run.orders[index], run.options
    name, report, trials = order.mechanism.name, options.progress, options.trials
    if number is None and trials is not None:
        trials = min(trials, suite.trials)
    attacked = attack(
        order.mechanism,
        suite,
        seed=run.seed,
        index=index + (apart if number is None else number * SUITE_INDEX),
        trials=trials,
        error=run.budget.conformance,
        implementation=order.implementation,
        jobs=options.jobs,
        store=options.store,
        progress=None if report is None else lambda done, total: report(name, done, total),
    )
    return Attempt(
        attacked,
        lens(attacked, run.budget),
        {d: raw(attacked, run.budget, d) for d in deltas(order.mechanism.claims)},
        prefix,
        differs,
        None if number is None else order.source_of(suite),
    )


def likelihoods_of(
    run: Run, index: int, examination: Examination, attempts: Sequence[Attempt]
) -> list[Likely]:
    """Bounds from likelihoods of the named program, on each pair that it is attacked on.

    None where a check of the program is broken: they rest on what the checks test.  A stand-in has
    none, and neither has a program whose runs are long beyond the fewest that are counted.  The
    largest bound over all pairs is printed, so that the pairs share the error of the printed level.
    """
    order, options = run.orders[index], run.options
    mechanism, declaration = order.mechanism, order.mechanism.declaration
    if not run.budget.likelihoods:
        return []  # no claim of any mechanism is in a measure that likelihoods bound
    own = [a.attacked for a in attempts if not a.differs]
    pairs = own_pairs(mechanism, order.suite, examination)
    broken = [*examination.broken, *(f for a in own for f in a.findings if f.status == "broken")]
    runs = likelihood_runs(examination)
    why_not = BROKEN if broken else ""
    if not runs:
        why_not = f"one of its runs reads {examination.work:,} numbers"
    if options.trials is not None:
        runs = max(FEWEST_RUNS, min(runs, options.trials))
    return [
        Likely(neighbours, mechanism.program, run.seed, why_not=why_not)
        if why_not
        else likelihood_audit(
            mechanism.program,
            declaration,
            mechanism.scope,
            neighbours,
            mechanism.claims,
            seed=run.seed,
            index=number * SUITE_INDEX + index,
            runs=runs,
            shown_error=SHOWN_ERROR / len(pairs),
            decisive_error=run.budget.likelihood,
            jobs=options.jobs,
        )
        for number, neighbours in enumerate(pairs)
    ]


def own_pairs(
    mechanism: Mechanism, suite: Suite | None, examination: Examination
) -> list[Neighbours]:
    """Different pairs on which the program itself is attacked: its suites', then the one found."""
    suites = () if suite is None else suite.all
    of_suites = (one.neighbours for one in suites if not stand_in(mechanism, one))
    pairs = {pair.digests: pair for pair in of_suites}
    if examination.pair is not None:
        pairs.setdefault(examination.pair.digests, examination.pair)
    return [*pairs.values()]


def resting(likely: Sequence[Likely], examination: Examination) -> list[Likely]:
    """Likelihood audits without their bounds where an examination of later found something."""
    if not examination.broken:
        return list(likely)
    return [Likely(audit.neighbours, audit.program, audit.seed, why_not=BROKEN) for audit in likely]


def named(prefix: str) -> str:
    """The target of an audit that is not the program's own, as the end of "the attack"."""
    return NAMES.get(prefix) or (NAMES[STAND_IN] if prefix.startswith(STAND_IN) else OTHERS)


def stand_in(mechanism: Mechanism, suite: Suite) -> tuple[str, ...]:
    """In what a suite's program is another than the mechanism's; nothing if it is the same."""
    differing = differences(mechanism.program, suite.program)
    kernels = [f"{k.__name__} is drawn by {v.__name__}" for k, v in suite.kernels.items()]
    return (*differing, *kernels)
