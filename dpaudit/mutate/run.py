"""Plant bugs in mechanisms and judge each mutant by ``certify``; an interrupted run resumes.

:func:`dpaudit.certificate.certify.certify` judges a mutant without a suite: by the examination and
by the audit of the program itself.
"""

from __future__ import annotations

import ast
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from dpaudit.audit.examine.made import worlds_of
from dpaudit.audit.examine.shapes import Shape
from dpaudit.audit.verdict import Verdict
from dpaudit.audit.workers import in_threads, resumed
from dpaudit.certificate.certify import Certified, certify_one, examined
from dpaudit.certificate.order import Options, plan
from dpaudit.certificate.order import Order as ToCertify
from dpaudit.curator.curator import Sampler
from dpaudit.curator.mechanism import Mechanism
from dpaudit.errors import DpauditError, InvalidParameter
from dpaudit.mutate.operators import OPERATORS, RIGHT, Planted, planted_in
from dpaudit.mutate.plant import file_of, import_planted, separately
from dpaudit.mutate.same import same, trace
from dpaudit.mutate.survey import Survey, home_of, read, survey
from dpaudit.project.project import resolve
from dpaudit.storage.batches import RowStore
from dpaudit.storage.roots import code_digest
from dpaudit.version import __version__

Progress = Callable[[str, int, int], None]
# Statuses of mutants.  Stillborn: fails on ordinary records.  Untold: could not be judged.
CAUGHT, CERTIFIED, STILLBORN, UNTOLD = "not_certified", "certified", "stillborn", "untold"
SAME = "same"
STATUSES = (CAUGHT, CERTIFIED, STILLBORN, UNTOLD, SAME)  # what became of a mutant
LEFT_ALONE = "left alone"
MUTANT_SECONDS = 60.0  # Processor seconds that one mutant may take.
AUDIT_TRIALS = 400  # Trials of an audit of a mutant; `certify` itself uses up to 2,000.
# Verdicts that a mutant should not get.
GOOD = (Verdict.CERTIFIED, Verdict.CERTIFIED_UNDER_ASSUMPTIONS)


@dataclass(frozen=True)
class Order:
    """The settings of a run: ``target`` as on the command line, relative to ``folder``.

    ``limit``: the largest number of mutants, taken from all operators in turn.  ``store``: the
    folder that keeps finished mutants; None keeps none.  ``twins``: whether the right twins are run
    too.
    Errors: InvalidParameter for a limit below 1 or an unknown operator.
    """

    target: str
    folder: Path
    seed: int = 1
    limit: int | None = None
    operators: tuple[str, ...] = OPERATORS
    store: Path | None = None
    twins: bool = True

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise InvalidParameter(f"limit = {self.limit}: expected at least 1 mutant")
        unknown = sorted(set(self.operators) - set(OPERATORS))
        if unknown:
            names = ", ".join(OPERATORS)
            raise InvalidParameter(f"operator {unknown[0]!r}: expected one of {names}")


@dataclass(frozen=True)
class Judgement:
    """The judgement of ``certify`` on a program: verdicts of its claims, and the first finding.

    ``failed``: the reason if there is no judgement; otherwise empty.  ``seconds``: processor time.
    """

    verdicts: tuple[str, ...] = ()
    outcomes: tuple[str, ...] = ()
    check: str = ""
    detail: str = ""
    not_examined: str = ""
    failed: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Result:
    """The result of one mutant.

    ``status``: one of STATUSES; "same" if it is certified and acted like the right program in every
    run.  ``check`` and ``detail``: the first finding.  ``twin``: the result of the right twin;
    empty if none was run.  ``seconds``: processor time without the twin, which runs once for each
    place.
    """

    name: str
    operator: str
    what: str
    where: str
    status: str
    check: str
    detail: str
    twin: str
    seconds: float


@dataclass(frozen=True)
class Ran:
    """The results of all mutants of a target.

    ``right``: the verdict on the unchanged target; ``faults``: what ``certify`` finds in it.
    ``planted``: the number of mutants before ``limit``.
    """

    target: str
    mechanism: str
    seed: int
    planted: int
    results: tuple[Result, ...]
    right: str
    faults: str


def run(order: Order, *, jobs: int = 1, progress: Progress | None = None) -> Ran:
    """Plant and judge the mutants of a target, one process each, ``jobs`` at a time.

    Equal orders give equal results except for ``seconds``, for any ``jobs``.
    Errors: UnknownTarget as for `dpaudit audit`.
    """
    opened = _opened(order)
    if isinstance(opened, Ran):
        return opened
    surveyed, right, root, name = opened
    every = mutants(surveyed, root, order.operators)
    picked = chosen(every, order.limit, order.seed, name)
    stored = (
        None if order.store is None else _Results(order.store / _identity(order, surveyed, root))
    )
    report, judge = progress or _silent, _Judge(order, surveyed, right, root)
    done = resumed(
        {_name(p): p for p in picked},
        lambda missing: in_threads(judge, missing, jobs),
        kept=stored,
        report=lambda done: report(name, len(done), len(picked)),
    )
    results = tuple(done[_name(p)] for p in picked)
    verdict = _worst(right)
    return Ran(order.target, name, order.seed, len(every), results, verdict, right.check)


def mutants(survey: Survey, root: Path, operators: Sequence[str] = OPERATORS) -> list[Planted]:
    """Every mutant of a target, in order of place and operator."""
    modules = _modules(survey)
    trees = {m: ast.parse(file_of(root, m).read_bytes()) for m in modules}
    made = planted_in(trees, list(survey.sites), list(survey.reached), survey.lines)
    unique = {_name(p): p for p in made if p.operator in operators}
    return list(unique.values())


def _modules(survey: Survey) -> set[str]:
    """The modules that a run executes."""
    return {site.module for site in survey.sites} | {reached.module for reached in survey.reached}


def chosen(made: Sequence[Planted], limit: int | None, seed: int, name: str = "") -> list[Planted]:
    """At most ``limit`` mutants, drawn by the seed from all operators in turn; in fixed order."""
    if limit is None or limit >= len(made):
        return list(made)
    words = [seed, *sha256(name.encode()).digest()[:8]]
    rng = np.random.default_rng(words)
    order = [int(i) for i in rng.permutation(len(made))]
    queues = {o: [i for i in order if made[i].operator == o] for o in rng.permutation(OPERATORS)}
    picked: list[int] = []
    while len(picked) < limit:
        for queue in queues.values():
            if queue and len(picked) < limit:
                picked.append(queue.pop(0))
    return [made[i] for i in sorted(picked)]


def _silent(name: str, done: int, total: int) -> None:
    """Report nothing."""


def _name(planted: Planted) -> str:
    return f"{planted.operator}@{planted.module}:{planted.line}.{planted.number}"


# --- the right program ------------------------------------------------------------------------


def _opened(order: Order) -> tuple[Survey, Judgement, Path, str] | Ran:
    """Survey and judge the unchanged target, in a process of its own.

    Returns survey, judgement, root and name; a finished :class:`Ran` if it cannot be mutated.
    """
    surveyed = separately(_surveyed, order, seconds=2 * MUTANT_SECONDS)
    if "root" not in surveyed:
        # Resolve it here too: this raises the error of a target that is missing or not importable.
        resolve(order.target, order.folder)
        return Ran(order.target, order.target, order.seed, 0, (), UNTOLD, surveyed["failed"])
    right = _judgement(surveyed)
    if "survey" not in surveyed:
        why = right.not_examined or right.failed
        return Ran(order.target, surveyed["name"], order.seed, 0, (), _worst(right), why)
    return read(surveyed["survey"]), right, Path(surveyed["root"]), surveyed["name"]


def _surveyed(order: Order) -> dict[str, Any]:
    """Judgement and survey of the unchanged target, as JSON."""
    target = resolve(order.target, order.folder)
    mechanism = replace(target.mechanism, records=None, evaluate=None)
    home, root = home_of(target.mechanism), target.project.root
    judgement = _judged(mechanism, order.seed)
    shape = judgement.pop("shape")
    judgement["root"], judgement["name"] = str(root), mechanism.name
    if shape is not None:
        judgement["survey"] = survey(
            mechanism, home, Shape(shape[0], tuple(shape[1])), order.seed
        ).as_json()
    return judgement


def _judgement(row: Mapping[str, Any]) -> Judgement:
    names = {f.name for f in fields(Judgement)}
    given: dict[str, Any] = {
        k: tuple(v) if isinstance(v, list) else v for k, v in row.items() if k in names
    }
    return Judgement(**given)


def _worst(judged: Judgement) -> str:
    order = [str(v) for v in Verdict]
    return min(judged.verdicts, key=order.index, default="")


def _judged(mechanism: Mechanism, seed: int) -> dict[str, Any]:
    """The judgement of ``certify`` on a mechanism without a suite, as JSON.

    ``certify`` starts with the examination.  If that finds a broken check, the verdict is an alarm
    whatever the audit shows, so that the audit is skipped.
    """
    order = ToCertify(mechanism, None, "project", {})
    run = plan([order], Options(seed=seed, trials=AUDIT_TRIALS))
    examination = examined(run, order, first=True)
    shape = examination.shape
    judgement: dict[str, Any] = {
        "not_examined": examination.not_examined,
        "shape": None if shape is None else (shape.rows, shape.row),
    }
    if examination.broken:
        first = examination.broken[0]
        alarms = [str(Verdict.ALARM)] * len(mechanism.claims)
        judgement |= {"verdicts": alarms, "check": first.check, "detail": first.detail}
    else:
        judgement |= _certified(certify_one(run, 0, examination))
    return judgement | {"seconds": time.process_time()}


def _certified(certified: Certified) -> dict[str, Any]:
    broken = [f for a in certified.attacks for f in a.findings if f.status == "broken"]
    not_good = [j for j in certified.judged if j.verdict not in GOOD]
    check = broken[0].check if broken else ("claims" if not_good else "")
    detail = broken[0].detail if broken else (not_good[0].reason if not_good else "")
    return {
        "verdicts": [str(j.verdict) for j in certified.judged],
        "outcomes": [str(j.checked.outcome) for j in certified.judged],
        "check": check,
        "detail": detail,
    }


# --- a mutant ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Judge:
    order: Order
    survey: Survey
    right: Judgement
    root: Path
    twins: dict[tuple[str, int, int, str], str] = field(default_factory=dict)
    traces: list[Any] = field(default_factory=list)
    lock: Any = field(default_factory=threading.Lock)

    def __call__(self, planted: Planted) -> Result:
        judgement = self._judged(planted, twin=False)
        status = self._status(judgement)
        if status == CERTIFIED and self._same(planted):
            status = SAME
        twin = ""
        judged = status in (CAUGHT, CERTIFIED, SAME)
        if judged and self.order.twins and planted.twin and planted.operator in RIGHT:
            twin = self._twin(planted)
        return Result(
            name=_name(planted),
            operator=planted.operator,
            what=planted.what,
            where=f"{planted.module}:{planted.line}",
            status=status,
            check=judgement.check or judgement.failed,
            detail=judgement.detail,
            twin=twin,
            seconds=round(judgement.seconds, 1),
        )

    def _twin(self, planted: Planted) -> str:
        """The result of the right twin at a mutant's place; judged once for each place."""
        key = (planted.module, planted.line, planted.number, RIGHT[planted.operator])
        with self.lock:
            if key not in self.twins:
                judgement = self._judged(planted, twin=True)
                quiet_results = {CERTIFIED: LEFT_ALONE, UNTOLD: f"{UNTOLD}: {judgement.failed}"}
                flagged = f"flagged: {judgement.check or judgement.failed}: {judgement.detail}"
                self.twins[key] = quiet_results.get(self._status(judgement), flagged)
            return self.twins[key]

    def _same(self, planted: Planted) -> bool:
        """Whether the mutant acts like the right program in all runs."""
        with self.lock:
            if not self.traces:
                self.traces.append(self._trace(None))
        right, mutated = self.traces[0], self._trace(planted)
        return isinstance(right, list) and isinstance(mutated, list) and same(right, mutated)

    def _trace(self, planted: Planted | None) -> Any:
        place = (self.root, self.survey, planted)
        return separately(_trace_of, *place, self.order.seed, seconds=MUTANT_SECONDS)

    def _judged(self, planted: Planted, *, twin: bool) -> Judgement:
        work = partial(_judge_planted, twin=twin)
        place = (self.root, self.survey, planted)
        return _judgement(separately(work, *place, self.order.seed, seconds=MUTANT_SECONDS))

    def _status(self, judgement: Judgement) -> str:
        """The status of a mutant: caught if ``certify`` says less of it than of the right program.

        "Less" is a weaker verdict on some claim, or a broken check that the right program passes.
        """
        if judgement.failed:
            return STILLBORN if judgement.failed not in ("overtime", "died") else UNTOLD
        if not judgement.verdicts:
            return CAUGHT if judgement.check else UNTOLD
        weaker = [
            _rank(now) < _rank(before)
            for now, before in zip(judgement.verdicts, self.right.verdicts, strict=False)
        ]
        new = bool(judgement.check) and judgement.check not in (self.right.check, "claims")
        return CAUGHT if any(weaker) or new else CERTIFIED


def _trace_of(root: Path, survey: Survey, planted: Planted | None, seed: int) -> Any:
    return trace(_imported(root, survey, planted), survey.shape, seed)


def _judge_planted(
    root: Path, survey: Survey, planted: Planted, seed: int, *, twin: bool
) -> dict[str, Any]:
    """The judgement of a mutant, or of the right twin at its place, as JSON."""
    mechanism = _imported(root, survey, planted, twin=twin)
    refused = _rehearsed(mechanism, survey.shape)
    return _judged(mechanism, seed) if refused is None else refused


def _imported(
    root: Path, survey: Survey, planted: Planted | None, *, twin: bool = False
) -> Mechanism:
    module = import_planted(root, survey.home, planted, twin=twin)
    mechanism: Mechanism = getattr(module, survey.attribute)
    return replace(mechanism, records=None, evaluate=None)


def _rank(verdict: str) -> int:
    """The rank of a verdict; both kinds of certified rank highest, as equals."""
    good = [str(v) for v in GOOD]
    return len(Verdict) if verdict in good else [str(v) for v in Verdict].index(verdict)


def _rehearsed(mechanism: Mechanism, shape: Shape) -> dict[str, Any] | None:
    """Run a mutant once on ordinary records; None if it runs.

    A refusal by the curator counts as caught.  After any other error the mutant is stillborn: its
    bug is not one of privacy.
    """
    records = worlds_of(shape, np.random.default_rng(0))[3].records()
    try:
        sampler = Sampler(
            mechanism.declaration, mechanism.scope, records, rng=np.random.default_rng(0)
        )
        with np.errstate(all="ignore"):
            mechanism.program.run(sampler)
    except DpauditError as error:
        return {"check": "refused", "detail": " ".join(str(error).split())[:300]}
    except Exception as error:  # noqa: BLE001  (a mutant may fail in any way)
        return {"failed": type(error).__name__}
    return None


# --- what is kept -----------------------------------------------------------------------------


def _identity(order: Order, survey: Survey, root: Path) -> str:
    """A digest of everything that results depend on: order, versions, code and sources."""
    modules = sorted(_modules(survey) | {survey.home})
    content = [
        order.target,
        str(order.seed),
        str(order.twins),
        __version__,
        np.__version__,
        code_digest(),
        *(sha256(file_of(root, m).read_bytes()).hexdigest() for m in modules),
    ]
    return sha256("\0".join(content).encode()).hexdigest()[:32]


class _Results:
    """A store of results, one row for each mutant."""

    def __init__(self, folder: Path) -> None:
        self.rows = RowStore(folder)

    def get(self, name: str) -> Result | None:
        row = self.rows.get(name) or {}
        names = {f.name for f in fields(Result)}
        return Result(**row) if names == row.keys() else None

    def put(self, name: str, result: Result) -> None:
        self.rows.put(name, asdict(result))
