"""Certification: account, run, attack, judge, and write down what was shown."""

from __future__ import annotations

import os
import platform
import secrets
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from dpaudit.accountant.account import Account
from dpaudit.accountant.claim import Checked, Claim, Outcome
from dpaudit.accountant.interpretation import Point, in_plain_words
from dpaudit.audit.attack import attack, program_text
from dpaudit.audit.attacked import Attacked
from dpaudit.audit.examine import (
    Examination,
    Shape,
    examine,
    held_by,
    mixing,
    read_by_others,
    shape_like,
)
from dpaudit.audit.likelihood import FEWEST_RUNS, Likely, Wanted, likelihood_audit
from dpaudit.audit.residuals import Finding
from dpaudit.audit.suite import Suite
from dpaudit.audit.verdict import (
    SHOWN_ERROR,
    Bounds,
    DecisionBudget,
    Judged,
    Ruling,
    Verdict,
    bounds_of,
    by_likelihoods,
    deltas,
    judge_program,
    lens,
    overall,
    printed_delta,
    raw,
)
from dpaudit.certificate.certificate import (
    Json,
    claim_row,
    conclusion,
    curve_rows,
    points_of,
    profile_steps,
    statement,
    step_rows,
    steps_of,
)
from dpaudit.certificate.covered import ANOTHER, BY_AUTHOR, Again, Before
from dpaudit.certificate.evidence import (
    BOTH,
    LIKELIHOOD,
    METHODS,
    PLAIN,
    Attempt,
    audit_rows,
    conformance_rows,
    differences,
    evidence_caveats,
    examination_row,
    likelihood_rows,
    likelihood_runs,
    roc_rows,
    trials_of,
    unexamined,
    written,
)
from dpaudit.certificate.own_check import check_own
from dpaudit.check import (
    curve_exceeds,
    declared_digest,
    is_computed,
    is_taken_on_trust,
    standing,
)
from dpaudit.check.assumptions import SYSTEM
from dpaudit.check.conformance import labels_of
from dpaudit.check.file import fits, validate
from dpaudit.check.measures import MEASURES
from dpaudit.check.reach import FEWEST_RECORDS
from dpaudit.curator.curator import Event, Sampler
from dpaudit.curator.guarded import Guarded
from dpaudit.curator.locations import at, line_of_error
from dpaudit.curator.mechanism import Mechanism
from dpaudit.curator.uses import grouped
from dpaudit.errors import TRACEBACK, DpauditError, InvalidParameter, Unsupported
from dpaudit.exact import decimal_lower, is_infinite, unknowns
from dpaudit.families.opaque import RenyiDP
from dpaudit.kernels.base import require_kernels
from dpaudit.kernels.system import SystemGenerator
from dpaudit.measures.calculus import Step
from dpaudit.nodes import Assumption, free_unknowns, postorder
from dpaudit.nodes.tables import to_table
from dpaudit.pairs import Losses
from dpaudit.scope import Adjacency, Unit
from dpaudit.storage.opened import opened
from dpaudit.storage.roots import served
from dpaudit.version import __version__

PACKAGES = ("numpy", "scipy", "sympy", "python-flint", "joblib", "matplotlib")
# Names of the rows of audits whose bounds are not printed as attacked.
STAND_IN, FOUND = "stand_in:", "found:"
NAMES = {STAND_IN: " on a stand-in", FOUND: " on made-up records"}
FOUND_PAIRS = 10**6  # keeps the draws of audits on found pairs apart from those of suites
SUITES = 10**7  # and those of a mechanism's suites from one another
OTHERS = " on other records of a suite"
DISCARDED = (
    "its run on the data opened a file that records() reads: what it gave was discarded, and "
    "neither looked at nor written"
)
BROKEN = "a conformance check of the program is broken"


@dataclass(frozen=True)
class Order:
    """One mechanism to certify, where it comes from, and the suite that attacks it.

    ``fields``: what its project's ``dpaudit.toml`` states of it; ``place``: the file and line that
    define it, where known.  ``draw``: runs it on data of its own, from the operating system's
    entropy, and gives the run's row: a release, whose records no program is handed.
    ``suite_file``: the file of the implementation that defines the suite; empty where none does.
    """

    mechanism: Mechanism
    suite: Suite | None
    root: str
    implementation: Mapping[str, str]
    fields: Mapping[str, list[str]] = field(default_factory=dict)
    place: tuple[str, int] | None = None
    draw: Callable[[], Json] | None = None
    suite_file: str = ""

    def source_of(self, suite: Suite) -> Json:
        """The file of a suite of this order, with its digest, and the trials it asks for."""
        digest = self.implementation.get(self.suite_file, "")
        return {"file": self.suite_file, "sha256": digest, "trials": suite.trials}


@dataclass(frozen=True)
class Options:
    """How a certification runs; ``seed`` None draws audits' seed and a run's noise afresh.

    ``audit_seed``: of the audits alone; a run then still has the operating system's entropy.
    ``targets``: what the command line was given, to say how to run it again.  ``run_unproved``: run
    on the data although a claim is refuted or unproved.  ``uncovered``: print metrics that the
    guarantee does not cover.  ``keep(name, draw)`` has the output of an unseeded run drawn and
    writes it at once, for its privacy is spent, whatever fails later; it gives the output (None
    where it was drawn before) and says where it is.  ``method``: whether audits are counted plain
    runs, likelihoods, or both.
    """

    seed: int | None = None
    trials: int | None = None
    jobs: int = 1
    store: Path | None = None
    targets: tuple[str, ...] = ()
    progress: Callable[[str, int, int], None] | None = None
    run_unproved: bool = False
    uncovered: bool = False
    keep: Callable[[str, Callable[[], Any]], tuple[Any, Json]] | None = None
    audit_seed: int | None = None
    method: str = BOTH


@dataclass(frozen=True)
class Certified:
    """The judged claims of one mechanism, and its certificate."""

    mechanism: Mechanism
    judged: tuple[Judged, ...]
    attacked: Attacked | None
    verdict: Verdict
    certificate: Json
    attacks: tuple[Attacked, ...] = ()


def certify(orders: Sequence[Order], options: Options) -> list[Certified]:
    """Certify several mechanisms in one run, which shares one decision error."""
    run = plan(orders, options)
    return [run.certify(index) for index in range(len(run.orders))]


@dataclass(frozen=True)
class Run:
    """Mechanisms certified together: one seed, one command, one decision error.

    Certificate by certificate, in any order: what one says does not depend on which others were
    made, now or before.
    """

    orders: tuple[Order, ...]
    options: Options
    budget: DecisionBudget
    seed: int
    command: str

    def certify(self, index: int, known: Examination | None = None) -> Certified:
        """Account, attack, run and judge the mechanism at a place of the run.

        ``known``: what :func:`examined` gave, where it was asked before.
        """
        return _certify(self, index, known)


def plan(orders: Sequence[Order], options: Options) -> Run:
    """A run over all orders; its decision error is shared by every audit of all of them.

    Each has the audit of the program itself, and one of its suite's if it has one.
    Errors: InvalidParameter for a method that does not exist.
    """
    if options.method not in METHODS:
        raise InvalidParameter(f"method = {options.method!r}: expected one of {', '.join(METHODS)}")
    audits = [1 + (0 if o.suite is None else len(o.suite.all)) for o in orders]
    bounds = sum(
        count * bounds_of(o.mechanism.claims) for o, count in zip(orders, audits, strict=True)
    )
    likelihoods = (
        0
        if options.method == PLAIN
        else sum(
            count * len(Wanted.of(o.mechanism.claims))
            for o, count in zip(orders, audits, strict=True)
        )
    )
    budget = DecisionBudget(bounds, sum(audits), likelihoods)
    given = [seed for seed in (options.seed, options.audit_seed) if seed is not None]
    seed = given[0] if given else secrets.randbits(128)
    command = _command(options.targets or [o.mechanism.name for o in orders], options, seed)
    return Run(tuple(orders), options, budget, seed, command)


def _certify(run: Run, index: int, known: Examination | None = None) -> Certified:
    order, options, budget = run.orders[index], run.options, run.budget
    mechanism = order.mechanism
    _check_claims(mechanism)
    _check_reaches(mechanism)
    require_kernels(mechanism.declaration)
    account, unit = Account(mechanism.declaration, mechanism.scope), mechanism.scope.unit
    checks = [claim.check_account(account) for claim in mechanism.claims]
    _check_steps([check.step for check in checks if check.step is not None])
    # Asked before anything is run: a theorem of the project's own may raise.
    trusted = [_on_trust(one, mechanism) for one in checks]
    examination = examined(run, order) if known is None else known
    attempts = _attempts(run, index, examination)
    likely = _likelihoods(run, index, examination, attempts)
    shown = next((a for a in attempts if not a.prefix), None)

    def judged_by(
        examination: Examination, entropy: str
    ) -> tuple[tuple[Judged, ...], list[Json], str]:
        rows = conformance_rows(mechanism.declaration, examination, attempts)
        findings = [*examination.findings, *(f for a in attempts for f in a.attacked.findings)]
        found = tuple(
            judge_program(
                one,
                account,
                None if shown is None else shown.lens,
                None if shown is None else shown.raws.get(printed_delta(one.claim)),
                findings,
                standing(rows, account.node, entropy, unit),
                on_trust=on_trust,
                unexamined=unexamined(mechanism.declaration, examination),
                others=[
                    Bounds(_named(a.prefix), a.lens, a.raws.get(printed_delta(one.claim)))
                    for a in attempts
                    if a.prefix
                ],
                more=(
                    *_by_curves(one.claim, attempts),
                    *by_likelihoods(one, _resting(likely, examination)),
                ),
            )
            for one, on_trust in zip(checks, trusted, strict=True)
        )
        return found, rows, _not_run(order, _overall(found), findings, options)

    profile = profile_steps(account)
    points = points_of(profile)
    in_words = in_plain_words(account, points)

    def form(examination: Examination, entropy: str = "") -> tuple[tuple[Judged, ...], str, Json]:
        judged, conformance, refused = judged_by(examination, entropy)
        concluded = _claims_and_derivation(account, judged, profile, points)
        rests = _resting(likely, examination)
        missing = unexamined(mechanism.declaration, examination)
        return (
            judged,
            refused,
            {
                "issued": _issued(),
                "scope": _scope(order),
                "fields": dict(order.fields),
                "mechanism": _mechanism(order),
                **concluded,
                "assumptions": _assumptions(
                    standing(conformance, account.node, entropy, unit), judged, profile
                ),
                "audits": audit_rows(attempts, judged, budget),
                "likelihoods": likelihood_rows(rests, concluded["claims"], budget),
                "examination": examination_row(examination),
                "conformance": conformance,
                "run": None,
                "caveats": [
                    *missing,
                    *evidence_caveats(examination, attempts, options.method),
                    *mechanism.setting.notes,
                    *([refused] if refused else []),
                ],
                "in_plain_words": in_words,
                "verdict": _verdict(_overall(judged), judged, missing),
                "environment": {**environment(), "git": revision(order)},
                "reproduce": {"command": run.command, "root_seed": f"{run.seed:032x}"},
            },
        )

    judged, refused, predicate = form(examination)
    certificate = _validated(predicate)
    if mechanism.records is not None and not refused:
        # Every possible refusal comes before the draw, so that no output is drawn in vain.
        check_own(certificate, options.store)
        examination = _shaped_as_data(run, mechanism, examination)
        judged, refused, predicate = form(examination)
        certificate = _validated(predicate)
    if order.draw is not None and not refused:
        check_own(certificate, options.store)
        judged, _, predicate = form(examination, SYSTEM)
        certificate = _validated({**predicate, "run": order.draw()})
    elif mechanism.records is not None and not refused:
        # The run also rests on the source of its random bits.
        judged, _, predicate = form(examination, _entropy(options))
        try:
            certificate = _validated({**predicate, "run": _run_once(mechanism, options)})
        except _ReadAgain as read:
            examination = replace(examination, findings=(*examination.findings, *read.findings))
            judged, _, predicate = form(examination)
            predicate["caveats"][-1] = DISCARDED
            certificate = _validated(predicate)
    attacks = tuple(attempt.attacked for attempt in attempts)
    attacked = next((one for one in attacks if one.suite is order.suite), None)
    return Certified(mechanism, judged, attacked, _overall(judged), certificate, attacks)


def _validated(predicate: Json) -> Json:
    certificate = statement(predicate)
    validate(certificate)
    return certificate


def _by_curves(claim: Claim, attempts: Sequence[Attempt]) -> Iterator[Ruling]:
    """Refuted where an attack's curve refutes by far what its bounds leave open."""
    if is_infinite(claim.value):
        return
    known = MEASURES.get(claim.guarantee.states_in)
    from_rates = known.from_rates if known else None
    for attacked in (attempt.attacked for attempt in attempts):
        row = {"roc": roc_rows(attacked), "trials": attacked.trials}
        if curve_exceeds(row, printed_delta(claim), claim.value, from_rates):
            reason = "a point of the attack's curve refutes it, but for one run in 10^9"
            yield Ruling(Verdict.REFUTED, reason)


def _on_trust(checked: Checked, mechanism: Mechanism) -> bool:
    """Whether the checker cannot confirm what the outcome rests on."""
    step = checked.step
    if step is None or checked.outcome not in (Outcome.PROVED, Outcome.REFUTED):
        return False
    if all(node.is_shipped for node in postorder(mechanism.declaration)):
        if not any(isinstance(p.value, Losses) for p in step.premises):
            return False
        losses = step.premises[0].value
        if all(map(is_computed, losses.pairs)) and checked.outcome is Outcome.PROVED:
            return False
    adjacency, rows = str(mechanism.scope.adjacency), step_rows(steps_of([step]))
    outcome, claimed = str(checked.outcome), checked.claim.value
    return is_taken_on_trust(rows, mechanism.declaration, adjacency, outcome, claimed)


def _check_claims(mechanism: Mechanism) -> None:
    """Errors: InvalidParameter for symbols, Unsupported for measures certificates do not hold."""
    free = free_unknowns(mechanism.declaration)
    if free:
        names = ", ".join(sorted(map(str, free)))
        raise InvalidParameter(f"{mechanism.name}: a certificate holds numbers; bind {names} first")
    for claim in mechanism.claims:
        if any(unknowns(value) for value in claim.guarantee.parameters.values()):
            raise InvalidParameter(
                f"{mechanism.name}: {claim.text} claims symbols; a certificate holds numbers: bind "
                "them first, or check the claim with `dpaudit show`"
            )
        if isinstance(claim.guarantee, RenyiDP):
            raise Unsupported(
                f"{mechanism.name}: {claim.text} is checked by `dpaudit show`; a certificate holds "
                "claims of PureDP, ApproxDP, ZCDP or GDP"
            )


def _check_reaches(mechanism: Mechanism) -> None:
    """Errors: InvalidParameter for a label that the declaration does not release."""
    labels = labels_of(mechanism.declaration)
    for label in mechanism.reaches:
        if label not in labels:
            raise InvalidParameter(
                f"{mechanism.name}: reaches[{label!r}]: the declaration releases "
                f"{', '.join(map(repr, labels)) or 'nothing by a label'}"
            )


def _check_steps(steps: Sequence[Step]) -> None:
    """Before anything is run.

    Errors: InvalidParameter for an assumption under the id of a standing one.
    """
    taken = {assumption.id for assumption in standing(unit=Unit.USER)}
    for step in steps:
        for assumption in step.assumptions():
            if assumption.id in taken:
                raise InvalidParameter(
                    f"assumption {assumption.id!r}: every certificate has one of that id; rename it"
                )


def _attempts(run: Run, index: int, examination: Examination) -> list[Attempt]:
    """The audits: of the program on the pair that was found, and the suite's.

    The first without a prefix is the one whose bounds are printed as attacked: the suite's if it
    attacks the named program, else that on the pair found.  A stand-in's never are.  A program
    whose runs are too long for enough trials is examined, and not attacked.
    """
    order = run.orders[index]
    if run.options.method == LIKELIHOOD:
        return []
    found: list[Attempt] = []
    for number, suite in enumerate(() if order.suite is None else order.suite.all):
        differs = stand_in(order.mechanism, suite)
        kinds = [bool(a.differs) for a in found]
        if differs:
            prefix = STAND_IN + (f"{kinds.count(True) + 1}:" if True in kinds else "")
        else:
            # "found:" alone is the audit on made-up records.
            prefix = f"{FOUND}{kinds.count(False) + 1}:" if False in kinds else ""
        found.append(_attempt(run, number * SUITES + index, suite, prefix, differs))
    trials = trials_of(examination)
    if examination.pair is not None and trials:
        own = Suite(
            order.mechanism.name,
            order.mechanism.program,
            examination.pair,
            trials=trials,
        )
        prefix = FOUND if any(not a.prefix for a in found) else ""
        found.append(_attempt(run, FOUND_PAIRS + index, own, prefix, ()))
    return sorted(found, key=lambda attempt: bool(attempt.prefix))


def _likelihoods(
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
    suites = () if order.suite is None else order.suite.all
    own_suites = [suite for suite in suites if not stand_in(mechanism, suite)]
    pairs = {suite.neighbours.digests: suite.neighbours for suite in own_suites}
    if examination.pair is not None:
        pairs.setdefault(examination.pair.digests, examination.pair)
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
            index=number * SUITES + index,
            runs=runs,
            shown_error=SHOWN_ERROR / len(pairs),
            decisive_error=run.budget.likelihood,
            jobs=options.jobs,
        )
        for number, neighbours in enumerate(pairs.values())
    ]


def _resting(likely: Sequence[Likely], examination: Examination) -> list[Likely]:
    """Likelihood audits without their bounds where an examination of later found something."""
    if not examination.broken:
        return list(likely)
    return [Likely(one.neighbours, one.program, one.seed, why_not=BROKEN) for one in likely]


def _named(prefix: str) -> str:
    """The target of an audit that is not the program's own, as the end of "the attack"."""
    return NAMES.get(prefix) or (NAMES[STAND_IN] if prefix.startswith(STAND_IN) else OTHERS)


def stand_in(mechanism: Mechanism, suite: Suite) -> tuple[str, ...]:
    """In what a suite's program is another than the mechanism's; nothing if it is the same."""
    found = differences(mechanism.program, suite.program)
    kernels = [f"{k.__name__} is drawn by {v.__name__}" for k, v in suite.kernels.items()]
    return (*found, *kernels)


def _attempt(run: Run, index: int, suite: Suite, prefix: str, differs: tuple[str, ...]) -> Attempt:
    order, options = run.orders[index % FOUND_PAIRS], run.options
    name, report = order.mechanism.name, options.progress
    attacked = attack(
        order.mechanism,
        suite,
        seed=run.seed,
        index=index,
        trials=options.trials if index % SUITES < FOUND_PAIRS or options.trials is None
        else min(options.trials, suite.trials),
        error=run.budget.conformance,
        implementation=order.implementation,
        jobs=options.jobs,
        store=options.store,
        progress=None if report is None else lambda done, total: report(name, done, total),
    )  # fmt: skip
    return Attempt(
        attacked,
        lens(attacked, run.budget),
        {d: raw(attacked, run.budget, d) for d in deltas(order.mechanism.claims)},
        prefix,
        differs,
        None if index % SUITES >= FOUND_PAIRS else order.source_of(suite),
    )


def examined(run: Run, order: Order, *, first: bool = False) -> Examination:
    """The program's own run on made-up records; the suite's may say what shape these have.

    A program of which something is found here gets an alarm at best, whatever its audits show.
    ``first``: stop where something is found.
    """
    likely = None if order.suite is None else shape_like(order.suite.neighbours.first)
    return examine(order.mechanism, seed=run.seed, likely=likely, first=first)


def _shaped_as_data(run: Run, mechanism: Mechanism, examination: Examination) -> Examination:
    """The examination of a program that is about to be run on its data: as these are shaped.

    Records of another shape than were made up are made up anew in theirs, before any is run on;
    and the program may hold nothing of them.
    """
    with opened() as files:
        data = mechanism.load()
    shape = shape_like(data)
    if mechanism.scope.adjacency is Adjacency.ADD_REMOVE and examination.shape is not None:
        # How many records there are is private: as many as were made up before.
        shape = Shape(examination.shape.rows, shape.row)
    if shape != examination.shape:
        again = examine(mechanism, seed=run.seed, shape=shape, data=data)
        if shape.rows < FEWEST_RECORDS and not examination.not_examined:
            # So few records show what is wrong; that nothing is, more of them showed before.
            again = replace(examination, findings=(*examination.findings, *again.broken))
        examination = again
    # Findings of the examination are not repeated; an examination that was refused has none.
    told = {finding.detail for finding in examination.findings}
    held = [finding for finding in held_by(mechanism, data) if finding.detail not in told]
    loader = mechanism.records
    together = grouped(mechanism.declaration)[1]
    mixed = () if loader is None else mixing(loader, data, files, together)
    more = (*held, *mixed, *read_by_others(files, examination))
    return replace(examination, findings=(*examination.findings, *more))


def _overall(judged: Sequence[Judged]) -> Verdict:
    return overall([one.verdict for one in judged])


# --- sections of the predicate -------------------------------------------------------------------


def _issued() -> str:
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    try:
        at = datetime.fromtimestamp(int(epoch), UTC) if epoch else datetime.now(UTC)
    except (OSError, OverflowError, ValueError):
        raise InvalidParameter(
            f"SOURCE_DATE_EPOCH = {epoch[:40]!r}: expected seconds since 1970, or unset it"
        ) from None
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _scope(order: Order) -> Json:
    mechanism = order.mechanism
    scope, setting = mechanism.scope, mechanism.setting
    return {
        "title": f"{mechanism.title}: {setting.data}" if setting.data else mechanism.title,
        "controller": "; ".join(order.fields.get("controller", [])) or setting.controller,
        "model": str(scope.trust),
        "unit": {
            "kind": str(scope.unit),
            "entity": setting.unit_entity,
            "period": setting.unit_period or None,
            "bound": setting.unit_bound,
        },
        "adjacency": str(scope.adjacency),
        "outputs": [str(scope.released)],
        "data_accesses": {"covered": list(setting.covered), "uncovered": list(setting.uncovered)},
        "invariants": list(setting.invariants),
    }


def _mechanism(order: Order) -> Json:
    declaration = order.mechanism.declaration
    place = dict(zip(("file", "line"), order.place or (), strict=False))
    return {
        **({"place": place} if place else {}),
        "name": order.mechanism.name,
        "title": order.mechanism.title,
        "source": order.mechanism.source,
        "program": program_text(order.mechanism.program),
        "root": order.root,
        "declaration": to_table(declaration),
        "declaration_text": repr(declaration),
        "digest": declared_digest(declaration, _scope(order)),
        "implementation": [
            {"name": name, "digest": {"sha256": value}}
            for name, value in sorted(order.implementation.items())
        ],
    }


def _claims_and_derivation(
    account: Account, judged: Sequence[Judged], profile: Sequence[Step], points: Sequence[Point]
) -> Json:
    roots = [j.checked.step for j in judged if j.checked.step is not None]
    steps = steps_of([*roots, *profile])
    number = {id(step): i for i, step in enumerate(steps)}
    rows = []
    for i, one in enumerate(judged):
        step = one.checked.step
        rows.append(claim_row(i, one, None if step is None else number[id(step)]))
    concluded = [conclusion(s) for s in roots]
    derivation = {
        "upper_bounds": [
            *(row for i, row in enumerate(concluded) if row not in concluded[:i]),
            *curve_rows(account, roots, points),
        ],
        "steps": step_rows(steps),
        "arithmetic": "interval",
        "accountant": f"dpaudit {__version__}",
    }
    return {"claims": rows, "derivation": derivation}


def _assumptions(
    standing: Sequence[Assumption], judged: Sequence[Judged], profile: Sequence[Step]
) -> list[Json]:
    found = {a.id: a for a in standing}
    claimed = [one.checked.step for one in judged if one.checked.step is not None]
    for step in (*claimed, *profile):
        found.update((a.id, a) for a in step.assumptions())
    return [a.row() for a in found.values()]


def _not_run(order: Order, verdict: Verdict, findings: Sequence[Finding], options: Options) -> str:
    """Why the program does not get to see its data; empty where it does, or has none."""
    if order.mechanism.records is None and order.draw is None:
        return ""
    if any(finding.status == "broken" for finding in findings):
        return "it was not run on the data: a check of its implementation is broken"
    if options.run_unproved or verdict in (
        Verdict.CERTIFIED,
        Verdict.CERTIFIED_UNDER_ASSUMPTIONS,
    ):
        return ""
    return (
        f"it was not run on the data: its claims, taken together, are {verdict}; "
        "`dpaudit certify --run-unproved` runs it nevertheless"
    )


def _entropy(options: Options) -> str:
    """Where the noise of the run on the data comes from."""
    return SYSTEM if options.seed is None else f"seed {options.seed}"


def _run_once(mechanism: Mechanism, options: Options) -> Json:
    """Run the program once on its own data; only released values and covered metrics leave."""
    before, run = Before(mechanism), _OnData(mechanism, options)
    if options.keep is not None and options.seed is None:
        output, kept = options.keep(mechanism.name, run.draw)
    else:
        output, kept = run.draw(), None
    again = None if run.transcript is None else Again(mechanism, before, run.shape, run.transcript)
    metrics, notes = _metrics(mechanism, output, again, options)
    notes += [] if again is None else again.of_output(output)
    if options.seed is not None:
        notes.append(
            "a seeded demonstration: who knows the seed can subtract its noise; do not release it"
        )
    return {
        # Under add_remove the number of records is itself private.
        "records": None if mechanism.scope.adjacency is Adjacency.ADD_REMOVE else run.shape[0],
        "entropy": _entropy(options),
        "metrics": metrics,
        "notes": notes,
        "output": kept,
    }


class _ReadAgain(Exception):
    """The run on the data read a file of the data beside its queries."""

    def __init__(self, findings: tuple[Finding, ...]) -> None:
        super().__init__()
        self.findings = findings


class _OnData:
    """A run on the data: its transcript once it is drawn, and the records' shape.

    No frame that outlives :meth:`draw`, and no field, holds the records.
    """

    def __init__(self, mechanism: Mechanism, options: Options) -> None:
        self._mechanism, self._seed = mechanism, options.seed
        self.transcript: Sequence[Event] | None = None
        self.shape: tuple[int, ...] = mechanism.load().values.shape

    def draw(self) -> Any:
        declaration, scope = self._mechanism.declaration, self._mechanism.scope
        rng: Any = SystemGenerator()
        if self._seed is not None:
            rng = np.random.default_rng([self._seed, 1])
        with opened() as data:
            sampler = Guarded(declaration, scope, self._mechanism.load(), rng=rng)
        with opened() as read:
            output = self._run(sampler)
        # It did so on no made-up records: it may tell made-up records from real ones.
        findings = read_by_others(data, Examination(opened=frozenset(read)))
        if findings:
            raise _ReadAgain(findings)
        self.transcript = sampler.transcript
        return output

    def _run(self, sampler: Sampler) -> Any:
        """The program's output; what it raises beside its queries is told by kind and line."""
        try:
            return self._mechanism.program.run(sampler)
        except DpauditError:
            raise
        except Exception as error:
            if os.environ.get(TRACEBACK):
                raise
            said = f"{type(error).__name__}{at(line_of_error(error))}"
            raise InvalidParameter(
                f"{self._mechanism.name}: its program fails in its run on the data ({said}), of "
                "which nothing was written; let it run on any records of the data's shape, or "
                "certify the mechanism without its records"
            ) from None


def _metrics(
    mechanism: Mechanism,
    output: Any,
    again: Again | None,
    options: Options,
) -> tuple[list[Json], list[str]]:
    """Rows of a run's metrics, and what went wrong with them: the output is drawn by now.

    Those that are not covered are left out, unless they are asked for.
    """
    if mechanism.evaluate is None or again is None:
        return [], []
    rows: list[Json] = []
    notes: list[str] = []
    try:
        for number, metric in enumerate(mechanism.evaluate(output)):
            why = again.uncovered(number, metric)
            if why and not options.uncovered:
                named = why in (BY_AUTHOR, ANOTHER)
                name = repr(metric.name) if named else f"number {number + 1}"
                notes.append(
                    f"metric {name} is left out, for the guarantee does not cover it: {why}; "
                    "`dpaudit certify --uncovered` prints it"
                )
                continue
            note = f"not covered: {why}" if why and metric.covered else ""
            row = {
                "name": metric.name,
                "value": written(metric.value),
                "covered": False if why else metric.covered,
                "note": "; ".join(filter(None, (metric.note, note))),
            }
            fits("run", {**_NO_METRICS, "metrics": [row]})
            rows.append(row)
    except Exception as error:  # noqa: BLE001  (its text may hold anything; the run has happened)
        what = f"{type(error).__name__} while metrics of the output were computed or written"
        return rows, [*notes, f"{what}: those from number {len(rows) + 1} on are missing"]
    return rows, notes


_NO_METRICS: Json = {
    "records": None,
    "entropy": "seed 0",
    "metrics": [],
    "notes": [],
    "output": None,
}


def _verdict(verdict: Verdict, judged: Sequence[Judged], missing: Sequence[str]) -> Json:
    reasons = [*missing, *map(_reason, judged)]
    return {"status": str(verdict), "reasons": reasons, "margin": _margin(judged)}


def _reason(one: Judged) -> str:
    reading = f" ({one.claim.reading})" if one.claim.reading else ""
    return f"{one.claim.text}{reading} is {one.verdict.replace('_', ' ')}: {one.reason}"


def _margin(judged: Sequence[Judged]) -> str:
    """Claimed minus accounted, rounded down, for the first claim that has both as fractions."""
    for one in judged:
        step = one.checked.step
        value = None if step is None else step.value
        value = value[0] if isinstance(value, tuple) else value
        if isinstance(value, Fraction) and isinstance(one.claim.value, Fraction):
            return decimal_lower(one.claim.value - value, 6)
    return ""


def environment() -> Json:
    """The versions that a certificate names."""
    return {
        "dpaudit": __version__,
        "python": platform.python_version(),
        "platform": f"{sys.platform} {platform.machine()}",
        "packages": {name: metadata.version(name) for name in PACKAGES},
    }


def revision(order: Order) -> Json | None:
    """The commit of the root that this process serves, and whether files of the order differ.

    None where git, a commit, or any of the order's files under its control was not found.
    """
    root, names = served(), [f":(literal){name}" for name in sorted(order.implementation)]
    if root is None or not names:
        return None
    commit = _git(root, "rev-parse", "--verify", "HEAD^{commit}")
    kept = _git(root, "ls-files", "-z", "--", *names)
    if not commit or not kept:
        return None
    changed = _git(root, "status", "--porcelain", "--untracked-files=no", "--", *names)
    untracked = len(kept.rstrip("\0").split("\0")) < len(names)
    return {"commit": commit.strip(), "dirty": untracked or changed != ""}


def _git(root: Path, *arguments: str) -> str | None:
    """The output of git; None where it fails or is missing."""
    command = ["git", "--no-optional-locks", "-C", str(root), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return None
    return done.stdout if done.returncode == 0 else None


def _command(targets: Sequence[str], options: Options, seed: int) -> str:
    """The command that gives these audits again; one run's targets share its seed and error."""
    trials = [] if options.trials is None else ["--trials", str(options.trials)]
    verb, how = (
        ("certify", []) if options.method == BOTH else ("audit", ["--method", options.method])
    )
    return shlex.join(["dpaudit", verb, *targets, "--seed", str(seed), *trials, *how])
