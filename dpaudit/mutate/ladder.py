"""One mutant through the audits of its target: cheap checks first, then more trials."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpaudit.accountant.account import Account
from dpaudit.accountant.claim import Checked, Outcome
from dpaudit.audit.attack import Attacked, attack
from dpaudit.audit.engine import generator
from dpaudit.audit.graybox import Inspection, first_problem, inspect_program
from dpaudit.audit.graybox.checks import EXECUTED
from dpaudit.audit.verdict import (
    DECISION_ERROR,
    DecisionBudget,
    Judged,
    Verdict,
    bounds_of,
    deltas,
    judge,
    lens,
    overall,
    printed_delta,
    raw,
)
from dpaudit.curator.curator import Event, Sampler
from dpaudit.errors import DpauditError
from dpaudit.kernels.query import Array, ClippedMean
from dpaudit.mutate.mutant import Mutant, Planted, Survey
from dpaudit.nodes import Node

FEW_TRIALS = 400
MOST_TRIALS = 5_000
MOST_NUMBERS = 100_000_000
SHARE = DECISION_ERROR / 8  # four inspections and two attacks in all, a quarter each for these
SECONDS = 20.0  # and twenty times what the right program takes: a mutant may not end
STREAM = 0x6D75
KILLED, SURVIVED, EQUIVALENT, HARMLESS = "killed", "survived", "equivalent", "harmless"
GRAVE = (Verdict.REFUTED, Verdict.ALARM)


@dataclass(frozen=True)
class Result:
    """What became of a mutant: ``check`` says who killed it, or why it does not count.

    ``trials``: test trials a side of the last audit it went through, 0 if none was needed.
    """

    name: str
    family: str
    what: str
    where: str
    status: str
    check: str
    detail: str
    trials: int
    seconds: float


@dataclass(frozen=True, eq=False)
class Baseline:
    """What the unchanged target says: its claims, and what it releases on fixed coins."""

    survey: Survey
    declaration: Node
    checks: tuple[Checked, ...]
    account: Account
    transcripts: tuple[tuple[Event, ...], ...]
    seed: int
    trials: int


class _Overtime(BaseException):
    """A mutant that does not end; no handler of what a query raises may swallow this."""


@dataclass(frozen=True)
class _Found:
    status: str
    check: str
    detail: str
    trials: int = 0


def baseline(survey: Survey, seed: int, trials: int) -> Baseline:
    """Account for the unchanged target, and record what it releases on fixed coins."""
    mechanism = survey.mechanism
    planted = Planted(mechanism, survey.suite)
    account, checks = _accounted(planted)
    transcripts = _transcripts(planted, seed)
    return Baseline(survey, account.node, checks, account, transcripts, seed, trials)


def faults(base: Baseline, trials: int = 0) -> str:
    """What the audits find wrong with the unchanged target; empty if nothing.

    ``trials``: those of the audits it goes through; 0 for the checks of the survey alone.
    """
    broken = base.survey.inspection.broken
    if broken:
        return f"{broken[0].check}: {broken[0].detail}"
    planted = Planted(base.survey.mechanism, base.survey.suite)
    for stage, few in _stages(base):
        if few <= trials:
            found = _tried(base, planted, base.account, base.checks, few, stage)
            if found is not None:
                return f"{found.check}: {found.detail}"
    return ""


def _stages(base: Baseline) -> list[tuple[int, int]]:
    """Audits with more and more trials: their number and trials."""
    few = min(FEW_TRIALS, base.trials)
    return list(enumerate(dict.fromkeys((few, base.trials)), start=1))


def run_mutant(base: Baseline, mutant: Mutant) -> Result:
    """Plant one bug, run the audits until one finds it, and take it out again.

    False alarms: a mutant that keeps to its declaration is killed with probability at most 1e-4.
    """
    started = time.perf_counter()
    try:
        with mutant.plant() as planted:
            found = _judged(base, mutant, planted)
    except _Overtime:
        found = _Found(
            KILLED, "time", "does not end; the right program does, in a twentieth of the time"
        )
    except DpauditError as error:
        found = _Found(KILLED, "refused", " ".join(str(error).split()))
    except Exception as error:  # noqa: BLE001  (a mutant may fail in any way; its text may quote data)
        found = _Found(KILLED, "crash", type(error).__name__)
    seconds = round(time.perf_counter() - started, 3)
    named = (mutant.name, mutant.family, mutant.what, mutant.where)
    return Result(*named, found.status, found.check, found.detail, found.trials, seconds)


def _judged(base: Baseline, mutant: Mutant, planted: Planted) -> _Found:
    same = planted.mechanism.declaration == base.declaration
    account, checks = (base.account, base.checks) if same else _accounted(planted)
    for checked, before in zip(checks, base.checks, strict=True):
        if checked.outcome is Outcome.REFUTED and before.outcome is not Outcome.REFUTED:
            return _Found(KILLED, "accountant", f"{checked.claim.text}: {checked.reason}")
    with _limited(SECONDS + 20 * base.survey.seconds):
        hostile = base.survey.hostile
        inspection = first_problem(*planted, seed=base.seed, error=SHARE, hostile=hostile)
    if inspection.broken:
        first = inspection.broken[0]
        return _Found(KILLED, first.check, first.detail)
    if inspection.short != base.survey.inspection.short:
        detail = "; ".join(inspection.short) or "more releases are made than before"
        return _Found(KILLED, EXECUTED, detail)
    # Without hostile records nothing is known of queries beyond the audited pair.
    known = bool(base.survey.hostile) or mutant.family not in ("sensitivity", "clipping")
    if same and known and _unchanged(base, planted, inspection):
        why = "the same releases on fixed coins, and the same values on hostile records"
        return _Found(EQUIVALENT, "fixed coins", why)
    excused = _excused(mutant, inspection, checks, same=same)
    if excused is not None:
        return excused
    for stage, trials in _stages(base):
        killed = _tried(base, planted, account, checks, trials, stage)
        if killed is not None:
            return killed
    return _Found(SURVIVED, "none", "no check tells it from the right one", base.trials)


def _tried(
    base: Baseline,
    planted: Planted,
    account: Account,
    checks: tuple[Checked, ...],
    trials: int,
    stage: int,
) -> _Found | None:
    """Gray-box checks with more trials, as many as memory allows, then the attack."""
    asked = base.survey.inspection.asked
    numbers = sum(len(a.records) if a.batched else 1 for a in asked)
    fewer = max(2, min(trials, MOST_TRIALS, MOST_NUMBERS // max(1, numbers)))
    inspection = inspect_program(
        *planted, seed=base.seed + stage, trials=fewer, error=SHARE, hostile={}
    )
    if inspection.broken:
        first = inspection.broken[0]
        return _Found(KILLED, first.check, first.detail, trials)
    return _attacked(base, planted, account, checks, trials, stage)


def _excused(
    mutant: Mutant, inspection: Inspection, checks: tuple[Checked, ...], *, same: bool
) -> _Found | None:
    """Why a mutant that nothing has killed costs no privacy, if that can be said for certain.

    What the run releases is declared, label by label, and carries the declared noise; a query of
    type ClippedMean keeps its bound whatever its radius, weights and rows are.
    """
    if any(type(asked.query) is not ClippedMean for asked in inspection.asked):
        return None
    if not same and all(c.outcome is Outcome.PROVED for c in checks):
        why = "every claim is proved of the changed declaration, which the run keeps to"
        return _Found(HARMLESS, "accountant", why)
    if same and not mutant.private:
        why = "public code alone changed: all is declared, and clipped by the library's own query"
        return _Found(HARMLESS, "post-processing", why)
    return None


def _accounted(planted: Planted) -> tuple[Account, tuple[Checked, ...]]:
    mechanism = planted.mechanism
    account = Account(mechanism.declaration, mechanism.scope)
    return account, tuple(claim.check_account(account) for claim in mechanism.claims)


def _attacked(
    base: Baseline,
    planted: Planted,
    account: Account,
    checks: tuple[Checked, ...],
    trials: int,
    stage: int,
) -> _Found | None:
    """Who finds something with so many trials; stages share the error rate of a run."""
    mechanism, suite = planted
    budget = DecisionBudget(4 * bounds_of(mechanism.claims), 4)
    found = attack(
        mechanism,
        suite,
        seed=base.seed,
        index=stage,
        trials=trials,
        error=budget.conformance,
    )
    broken = [f for f in found.findings if f.status == "broken"]
    if broken:
        return _Found(KILLED, broken[0].check, broken[0].detail, trials)
    judged = _verdicts(found, account, checks, budget)
    grave = [j for j in judged if j.verdict in GRAVE]
    if not grave:
        return None
    # A claim that is refuted without any bug kills no mutant.
    refuted = [c.outcome is Outcome.REFUTED for c in base.checks]
    if all(was for j, was in zip(judged, refuted, strict=True) if j.verdict in GRAVE):
        return None
    worst = overall([j.verdict for j in grave])
    first = next(j for j in grave if j.verdict is worst)
    return _Found(KILLED, "lower bound", f"{first.claim.text}: {first.reason}", trials)


def _verdicts(
    found: Attacked, account: Account, checks: tuple[Checked, ...], budget: DecisionBudget
) -> list[Judged]:
    bound = lens(found, budget)
    raws = {d: raw(found, budget, d) for d in deltas([c.claim for c in checks])}
    return [judge(c, account, bound, _at(raws, printed_delta(c.claim)), (), ()) for c in checks]


def _at(found: dict[Any, Any], key: Any) -> Any:
    return found.get(key)


# --- what a program releases on fixed coins -------------------------------------------------------


def _transcripts(planted: Planted, seed: int, trials: int = 4) -> tuple[tuple[Event, ...], ...]:
    mechanism, suite = planted
    found = []
    for side, records in enumerate(suite.neighbours.pair):
        sampler = Sampler(
            mechanism.declaration,
            mechanism.scope,
            records,
            rng=generator(seed, (STREAM, side)),
            trials=trials,
            kernels=suite.kernels,
        )
        suite.program.run(sampler)
        found.append(tuple(sampler.transcript))
    return tuple(found)


def _unchanged(base: Baseline, planted: Planted, inspection: Inspection) -> bool:
    """Equal up to rounding: releases on both data sets, and queries on hostile records."""
    before = base.survey.inspection
    if len(before.probes) != len(inspection.probes):
        return False
    if not all(_alike(a.values, b.values) for a, b in _zipped(before.probes, inspection.probes)):
        return False
    pairs = _zipped(before.asked, inspection.asked)
    if not all(_alike(a.sensitivity, b.sensitivity) for a, b in pairs):
        return False
    transcripts = _transcripts(planted, base.seed)
    return all(
        len(right) == len(wrong) and all(_same_event(a, b) for a, b in _zipped(right, wrong))
        for right, wrong in _zipped(base.transcripts, transcripts)
    )


def _same_event(a: Event, b: Event) -> bool:
    return a.label == b.label and _alike(a.released, b.released)


def _zipped(before: Any, after: Any) -> Iterator[tuple[Any, Any]]:
    return zip(before, after, strict=False)


def _alike(a: Array, b: Array) -> bool:
    return a.shape == b.shape and bool(np.allclose(a, b, rtol=1e-9, atol=0.0, equal_nan=True))


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Stop what takes too long; only the main thread of a process can."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: Any) -> None:
        raise _Overtime

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
