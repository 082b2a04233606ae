"""Certification: account, run, attack, judge, and write down what was shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from dpaudit.accountant.account import Account
from dpaudit.accountant.claim import Checked, Claim, Outcome
from dpaudit.accountant.interpretation import Point, in_plain_words
from dpaudit.audit.attacked import Attacked
from dpaudit.audit.examine import Examination, examine, shape_like
from dpaudit.audit.likelihood import Likely
from dpaudit.audit.residuals import Finding
from dpaudit.audit.verdict import (
    Bounds,
    Judged,
    Ruling,
    Verdict,
    by_likelihoods,
    judge_program,
    overall,
    printed_delta,
)
from dpaudit.certificate.attempts import attempts_of, likelihoods_of, named, resting
from dpaudit.certificate.certificate import (
    Json,
    points_of,
    profile_steps,
    statement,
    step_rows,
    steps_of,
)
from dpaudit.certificate.evidence import (
    Attempt,
    audit_rows,
    conformance_rows,
    evidence_caveats,
    examination_row,
    likelihood_rows,
    roc_rows,
    unexamined,
)
from dpaudit.certificate.on_data import (
    DISCARDED,
    ReadAgain,
    not_run,
    run_once,
    shaped_as_data,
    without_guessed_shape,
)
from dpaudit.certificate.order import Options, Order, Run, plan
from dpaudit.certificate.own_check import check_own
from dpaudit.certificate.predicate import (
    assumption_rows,
    claims_and_derivation,
    environment,
    issued,
    mechanism_row,
    revision,
    scope_row,
    verdict_row,
)
from dpaudit.check import curve_exceeds, is_computed, is_taken_on_trust, standing
from dpaudit.check.assumptions import SYSTEM
from dpaudit.check.conformance import labels_of
from dpaudit.check.file import validate
from dpaudit.check.measures import MEASURES
from dpaudit.curator.mechanism import Mechanism
from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.exact import is_infinite, unknowns
from dpaudit.families.opaque import RenyiDP
from dpaudit.kernels.base import require_kernels
from dpaudit.measures.calculus import Step
from dpaudit.nodes import Assumption, free_unknowns, postorder
from dpaudit.pairs import Losses
from dpaudit.scope import Unit


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
    return [certify_one(run, index) for index in range(len(run.orders))]


def certify_one(run: Run, index: int, known: Examination | None = None) -> Certified:
    """Account, attack, run and judge the mechanism at a place of a run.

    ``known``: what :func:`examined` gave, where it was asked before.
    """
    order = run.orders[index]
    account = Account(order.mechanism.declaration, order.mechanism.scope)
    checks = _checked(order.mechanism, account)
    # Asked before anything is run: a theorem of the project's own may raise.
    trusted = tuple(_on_trust(item, order.mechanism) for item in checks)
    examination = examined(run, order) if known is None else known
    attempts = attempts_of(run, index, examination)
    likely = likelihoods_of(run, index, examination, attempts)
    profile = profile_steps(account)
    points = points_of(profile)
    words = in_plain_words(account, points)
    case = _Case(run, order, account, checks, trusted, attempts, likely, profile, points, words)
    stated, certificate = _with_run(case, examination)
    attacks = tuple(attempt.attacked for attempt in attempts)
    attacked = next((item for item in attacks if item.suite is order.suite), None)
    verdict = _overall(stated.judged)
    return Certified(order.mechanism, stated.judged, attacked, verdict, certificate, attacks)


def examined(run: Run, order: Order, *, first: bool = False) -> Examination:
    """The program's own run on made-up records; the suite's may say what shape these have.

    A program of which something is found here gets an alarm at best, whatever its audits show.
    ``first``: stop where something is found.
    """
    ask = partial(examine, order.mechanism, seed=run.seed, seconds=run.options.seconds, first=first)
    if order.suite is not None:
        known = order.suite.neighbours
        return ask(likely=shape_like(known.first), known=known)
    examination = ask()
    return without_guessed_shape(order.mechanism, examination, run.seed)


@dataclass(frozen=True)
class _Stated:
    """A predicate, its judged claims, and why the program gets no data ("" where it does)."""

    judged: tuple[Judged, ...]
    refused: str
    predicate: Json


@dataclass(frozen=True)
class _Case:
    """The evidence on one mechanism, which later examinations and the run on data leave as it is.

    ``trusted``: by claim, whether the checker cannot confirm it.  ``points``: of the profile.
    """

    run: Run
    order: Order
    account: Account
    checks: tuple[Checked, ...]
    trusted: tuple[bool, ...]
    attempts: Sequence[Attempt]
    likely: Sequence[Likely]
    profile: Sequence[Step]
    points: Sequence[Point]
    words: Json | None

    def stated(self, examination: Examination, entropy: str = "", ready_made: str = "") -> _Stated:
        """The predicate without a run; ``entropy``: the source of the bits of a run to come.

        ``ready_made``: what the rows of that run come in, as :class:`Order` has it.
        """
        mechanism, account, budget = self.order.mechanism, self.account, self.run.budget
        conformance = conformance_rows(mechanism.declaration, examination, self.attempts)
        unit = mechanism.scope.unit
        stands = standing(conformance, account.node, entropy, unit, ready_made)
        likely = resting(self.likely, examination)
        missing = unexamined(mechanism.declaration, examination)
        findings = [
            *examination.findings,
            *(finding for attempt in self.attempts for finding in attempt.attacked.findings),
        ]
        judged = tuple(
            self._judged(place, findings, stands, missing, likely)
            for place in range(len(self.checks))
        )
        refused = not_run(self.order, _overall(judged), findings, self.run.options)
        concluded = claims_and_derivation(account, judged, self.profile, self.points)
        predicate = {
            "issued": issued(),
            "scope": scope_row(self.order),
            "fields": dict(self.order.fields),
            "mechanism": mechanism_row(self.order),
            **concluded,
            "assumptions": assumption_rows(stands, judged, self.profile),
            "audits": audit_rows(self.attempts, judged, budget),
            "likelihoods": likelihood_rows(likely, concluded["claims"], budget),
            "examination": examination_row(examination),
            "conformance": conformance,
            "run": None,
            "caveats": [
                *missing,
                *evidence_caveats(examination, self.attempts, self.run.options.method),
                *mechanism.setting.notes,
                *([refused] if refused else []),
            ],
            "in_plain_words": self.words,
            "verdict": verdict_row(_overall(judged), judged, missing),
            "environment": {**environment(), "git": revision(self.order)},
            "reproduce": {"command": self.run.command, "root_seed": f"{self.run.seed:032x}"},
        }
        return _Stated(judged, refused, predicate)

    def _judged(
        self,
        place: int,
        findings: Sequence[Finding],
        stands: Sequence[Assumption],
        missing: Sequence[str],
        likely: Sequence[Likely],
    ) -> Judged:
        """The claim at a place, judged by all evidence."""
        check = self.checks[place]
        delta = printed_delta(check.claim)
        shown = next((attempt for attempt in self.attempts if not attempt.prefix), None)
        return judge_program(
            check,
            self.account,
            None if shown is None else shown.lens,
            None if shown is None else shown.raws.get(delta),
            findings,
            stands,
            on_trust=self.trusted[place],
            unexamined=missing,
            others=[
                Bounds(named(attempt.prefix), attempt.lens, attempt.raws.get(delta))
                for attempt in self.attempts
                if attempt.prefix
            ],
            more=(*_by_curves(check.claim, self.attempts), *by_likelihoods(check, likely)),
        )


def _with_run(case: _Case, examination: Examination) -> tuple[_Stated, Json]:
    """The certificate, with the run on the data where there are some and nothing forbids it.

    Every possible refusal comes before the draw, so that no output is drawn in vain.
    """
    order, options = case.order, case.run.options
    mechanism = order.mechanism
    stated = case.stated(examination)
    certificate = _validated(stated.predicate)
    if mechanism.records is not None and not stated.refused:
        check_own(certificate, options.store)
        examination = shaped_as_data(mechanism, examination, case.run.seed)
        stated = case.stated(examination)
        certificate = _validated(stated.predicate)
    if stated.refused or (order.draw is None and mechanism.records is None):
        return stated, certificate
    if order.draw is not None:
        check_own(certificate, options.store)
        stated = case.stated(examination, SYSTEM, order.ready_made)
        return stated, _validated({**stated.predicate, "run": order.draw()})
    stated = case.stated(examination, options.entropy)
    try:
        row = run_once(mechanism, options)
    except ReadAgain as read:
        more = (*examination.findings, *read.findings)
        stated = case.stated(replace(examination, findings=more))
        caveats = [*stated.predicate["caveats"][:-1], DISCARDED]
        return stated, _validated({**stated.predicate, "caveats": caveats})
    return stated, _validated({**stated.predicate, "run": row})


def _overall(judged: Sequence[Judged]) -> Verdict:
    return overall([claim.verdict for claim in judged])


def _checked(mechanism: Mechanism, account: Account) -> tuple[Checked, ...]:
    """The claims, checked by the account, before anything is run.

    Errors: InvalidParameter and Unsupported for what a certificate cannot hold.
    """
    _check_claims(mechanism)
    _check_reaches(mechanism)
    require_kernels(mechanism.declaration)
    checks = tuple(claim.check_account(account) for claim in mechanism.claims)
    _check_steps([check.step for check in checks if check.step is not None])
    return checks


def _validated(predicate: Json) -> Json:
    certificate = statement(predicate)
    validate(certificate)
    return certificate


def _by_curves(claim: Claim, attempts: Sequence[Attempt]) -> Iterator[Ruling]:
    """Refuted where an attack's curve refutes by far what its bounds leave open."""
    if is_infinite(claim.value):
        return
    measure = MEASURES.get(claim.guarantee.states_in)
    from_rates = measure.from_rates if measure else None
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
    ids_taken = {assumption.id for assumption in standing(unit=Unit.USER)}
    for step in steps:
        for assumption in step.assumptions():
            if assumption.id in ids_taken:
                raise InvalidParameter(
                    f"assumption {assumption.id!r}: every certificate has one of that id; rename it"
                )
