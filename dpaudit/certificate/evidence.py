"""Evidence: what an audit showed, as rows of a certificate."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePath
from typing import Any

import numpy as np

from dpaudit.audit.attack import program_text
from dpaudit.audit.attacked import Attacked
from dpaudit.audit.bounds.estimators import roc_points, strongest_epsilon, strongest_mu
from dpaudit.audit.examine import Examination, Reached
from dpaudit.audit.examine.examination import CONTROL
from dpaudit.audit.likelihood import COUNTED_RUNS, FEWEST_RUNS, Likely, LikelyLower
from dpaudit.audit.residuals import Finding
from dpaudit.audit.verdict import (
    DECISION_ERROR,
    SHOWN_ERROR,
    DecisionBudget,
    Judged,
    Lower,
    exceeds,
    lower_for,
    printed_delta,
)
from dpaudit.certificate.certificate import Json, audit_id, guarantee
from dpaudit.check.bounds import POOLED
from dpaudit.check.conformance import EXECUTED, LABEL_CHECKS, labels_of
from dpaudit.check.likelihoods import DECLARED_NOISE, share_of
from dpaudit.check.reach import UNEXAMINED, gaps
from dpaudit.exact import decimal_lower, decimal_upper, exact, plain
from dpaudit.nodes import Node
from dpaudit.report.words import (
    CUT_SHORT,
    STAND_IN,
    TOGETHER,
    UNATTACKED,
    UNCOMPARED,
    UNHEARD,
)
from dpaudit.storage.opened import OUTSIDE, of_users

# How audits bound the loss: by counting plain runs, by likelihoods, or by both.
METHODS = PLAIN, LIKELIHOOD, BOTH = "plain", "likelihood", "both"
LEFT_OUT = {
    PLAIN: "no bound was made from likelihoods: the method that was asked for is plain",
    LIKELIHOOD: (
        "no plain runs were counted: the method that was asked for is likelihood, whose bounds "
        "hold for the program with the declared noise"
    ),
}
ROC_POINTS = 9  # points of a kept curve of error rates
FULL_SHARE = 0.999  # Share of a clipping bound from which on it counts as reached.
REACHED_SHARE = 0.95  # Share of the declared total from which on nothing is remarked.
FEWEST_TRIALS = 100  # Trials of the audit of the program itself, at least.
MOST_TRIALS = 2_000  # Trials of it, at most.
MAX_NUMBERS_READ = 60_000_000  # Numbers that all its trials may read together.
# An audit may read at most this many times the numbers of the fewest likelihood runs.
SLOWEST_RATIO = 7
KEEPS = (
    "the program keeps what depends on the records of a run, which changed no answer of the next"
)
READS = "the program reads sources of which nobody established that they hold nothing private"
WARNS = "a library warns of some data sets and not of others, by a text that holds no value"
ON_MORE = "nothing says for how many records the program is written, and"
SHOWN_STRETCHES = 5  # Stretches of lines that a sentence names; a certificate lists all.


@dataclass(frozen=True, eq=False)
class Attempt:
    """One audit with its bounds: of the named program, or of a stand-in that differs in something.

    ``prefix`` of its rows' names: empty for the audit whose bounds are printed as attacked.
    ``raws``: by delta.  ``differs``: the type, fields and kernels in which a stand-in is another.
    ``source``: the suite's file and the trials it asks for; None for a pair that dpaudit found.
    """

    attacked: Attacked
    lens: Lower | None
    raws: Mapping[Fraction | None, Lower | None]
    prefix: str = ""
    differs: tuple[str, ...] = ()
    source: Json | None = None

    @property
    def about(self) -> str:
        """The subject of its checks and bounds."""
        return "stand_in" if self.differs else "program"


def audit_rows(
    attempts: Sequence[Attempt], judged: Sequence[Judged], budget: DecisionBudget
) -> list[Json]:
    """One row a lower bound: what was attacked, how often it erred, and what follows."""
    return [
        _audit(attempt, bound, judged, budget)
        for attempt in attempts
        for bound in (attempt.lens, *attempt.raws.values())
        if bound is not None
    ]


def likelihood_rows(
    likely: Sequence[Likely], claims: Sequence[Json], budget: DecisionBudget
) -> list[Json]:
    """One row a likelihood audit: its runs' losses and weights, and the bounds that follow.

    ``claims``: the certificate's rows, of whose accounted bounds each bound has a share.
    """
    return [
        _likelihood(number, audit, claims, budget) for number, audit in enumerate(likely, start=1)
    ]


def _likelihood(number: int, audit: Likely, claims: Sequence[Json], budget: DecisionBudget) -> Json:
    """One audit by likelihoods as JSON: proposal, losses, weights and bounds."""
    counted = audit.counted
    scores = [] if counted is None else [*zip(counted.losses, counted.log_weights, strict=True)]
    chosen = audit.proposal.shift, audit.proposal.include, audit.proposal.plain
    return {
        "id": f"likelihood-{number}",
        "program": program_text(audit.program),
        "conditional_on": DECLARED_NOISE,
        "neighbours": list(audit.neighbours.digests),
        "neighbours_text": audit.neighbours.text,
        "run_on": ("first", "second")[audit.side],
        "seed": f"{audit.seed:032x}",
        "runs": len(scores),
        "pilot_runs": audit.pilots,
        "proposal": dict(zip(("shift", "include", "plain"), map(_short, chosen), strict=True)),
        # A run whose loss is not positive shows nothing, and is none of these.
        "scores": [[_short(loss), _short(weight)] for loss, weight in scores if loss > 0],
        "confidence": {
            "level": "0.95",
            "decision_error": plain(Decimal(repr(DECISION_ERROR))),
            "adjusted_for": budget.likelihoods,
        },
        "decisive_error": decimal_lower(exact(budget.likelihood, "error"), 17),
        "bounds": [_likely_bound(bound, claims) for bound in audit.bounds],
        "band": [
            {
                "epsilon": decimal_lower(exact(point.epsilon, "epsilon")),
                "delta": plain(Decimal(repr(float(point.delta)))),
                "fraction": _short(point.bet.fraction),
            }
            for point in audit.band
        ],
        "why_not": audit.why_not,
    }


def _likely_bound(bound: LikelyLower, claims: Sequence[Json]) -> Json:
    wire = {"epsilon": "approx_dp", "mu": "gdp", "rho": "zcdp"}[bound.wanted.number]
    delta = bound.wanted.printed
    lower = guarantee(wire, bound.shown, delta)
    return {
        "lower": lower,
        "share": share_of(claims, lower),
        "decisive": guarantee(wire, bound.decisive, delta),
        "tested": bound.bets[0].sought.number,
        "at": _short(bound.bets[0].sought.at),
        "refuted": [decimal_lower(exact(number, "bound")) for number in bound.tested],
        "fractions": [_short(bet.fraction) for bet in bound.bets],
    }


def _short(number: float) -> str:
    """A float as the decimal that reads back the same, without a sign of its exponent."""
    return written(number + 0.0)


def evidence_caveats(
    examination: Examination, attempts: Sequence[Attempt], method: str
) -> list[str]:
    """Caveats on the evidence of an examination: a stand-in's audit, a clip never reached."""
    why = examination.not_examined
    caveats = _files_read(examination)
    if examination.on_more:
        caveats.append(f"{ON_MORE} {examination.on_more}")
    if examination.ran is not None and examination.ran.asks:
        caveats.append(f"{UNHEARD}, and a run on the data may: {_first(examination.ran.asks)}")
    if not why and any(f.check == CONTROL and f.status == "not_run" for f in examination.findings):
        caveats.append(UNCOMPARED)
    caveats += _not_made(examination, attempts, method)
    for attempt in attempts:
        if attempt.differs:
            caveats.append(f"{STAND_IN}{'; '.join(attempt.differs)}; its bound stands apart")
    return [*caveats, *_left_open(examination), *_reached(examination)]


def _left_open(examination: Examination) -> list[str]:
    """Caveats on all that an examination left out, or saw beside faults."""
    caveats = []
    if examination.stopped:
        caveats.append(f"{CUT_SHORT}: how much was tried depends on the machine")
    if examination.walked:
        caveats.append(
            f"runs on other records were compared over the first {examination.walked} releases"
        )
    if examination.kept and not examination.broken:
        caveats.append(f"{KEEPS}: {', '.join(examination.kept)}")
    if examination.warned:
        caveats.append(f"{WARNS}: {'; '.join(examination.warned)}")
    ran = examination.ran
    if ran is not None and ran.missed:
        caveats.append(
            f"{ran.lines - ran.run} of {ran.lines} lines of the program's code never ran while it "
            f"was examined: {_first(ran.missed)}"
        )
    return caveats


def _first(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    more = f" and {len(names) - SHOWN_STRETCHES} more" if len(names) > SHOWN_STRETCHES else ""
    return f"{', '.join(names[:SHOWN_STRETCHES])}{more}"


def _files_read(examination: Examination) -> list[str]:
    """Sources that the program reads beside its records; made-up records change nothing there."""
    files = sorted(
        name if name.startswith(OUTSIDE) else PurePath(name).name
        for name in of_users(examination.opened)
    )
    return [f"{READS}: {_first(files)}"] if files else []


def _reached(examination: Examination) -> list[str]:
    """How far records moved the releases, where that is less than is stated."""
    caveats = [
        f"release {part.label!r}: one record moved its query by {100 * part.displacement:.3g}% of "
        f"what is stated; its author says that it reaches {part.reaches}"
        for part in examination.reached
        if part.reaches
    ]
    short = [
        part for part in examination.reached if part.clip is not None and part.clip < FULL_SHARE
    ]
    if short:
        worst = min(short, key=lambda part: part.clip or 0.0)
        caveats.append(
            f"the program's own loss reached at most {100 * (worst.clip or 0.0):.3g}% of its clip "
            f"at release {worst.label!r}, on made-up records"
        )
    reach, pairs = examination.reach
    if reach < REACHED_SHARE:
        caveats.append(
            f"the program's own loss reached at most {100 * reach:.3g}% {TOGETHER}, on the best of "
            f"{pairs:,} pairs of data sets that were tried"
        )
    return caveats


def trials_of(examination: Examination) -> int:
    """How many trials attack the named program on the pair that was found; 0 where none do."""
    if examination.pair is None or examination.broken:
        return 0
    trials = min(MOST_TRIALS, MAX_NUMBERS_READ // max(1, examination.work))
    return trials if trials >= FEWEST_TRIALS else 0


def likelihood_runs(examination: Examination) -> int:
    """How many runs of a likelihood audit are counted; 0 where runs are long beyond the fewest.

    The fewest where the examination ended before a run did: what one reads is not known.
    """
    if examination.stopped and not examination.work:
        return FEWEST_RUNS
    runs = MAX_NUMBERS_READ // max(1, examination.work)
    return 0 if runs * SLOWEST_RATIO < FEWEST_RUNS else max(FEWEST_RUNS, min(COUNTED_RUNS, runs))


def _not_made(examination: Examination, attempts: Sequence[Attempt], method: str) -> list[str]:
    """Which audits of the named program there are none of, and why."""
    caveats = [LEFT_OUT[method]] if method in LEFT_OUT else []
    examined = not examination.not_examined and not examination.broken
    if examined and method != LIKELIHOOD and all(attempt.differs for attempt in attempts):
        caveats.append(f"{UNATTACKED}: {_unattacked(examination)}")
    return caveats


def _unattacked(examination: Examination) -> str:
    """Why no trial attacks a program that was examined, and in which nothing was found."""
    if examination.pair is None:
        return "its examination found no pair of data sets to attack it on"
    return (
        f"one trial reads {examination.work:,} numbers, and {FEWEST_TRIALS} trials may read "
        f"{MAX_NUMBERS_READ:,}; a suite attacks it with any number of trials"
    )


LISTED_NUMBERS = 4_000  # Numbers of two data sets that a certificate lists, at most.
HEAP_TYPE = 1 << 9  # of a class that was made by a class statement


def differences(own: Any, other: Any, place: str = "") -> list[str]:
    """In what a program differs from the named one: its type, and every field, as a sentence.

    Fields that are programs or losses of one type are compared inside, and so are the attributes of
    plain objects.
    """
    if type(own) is not type(other):
        subject = place or "the program"
        return [f"{subject} is {type(other).__name__}, not {type(own).__name__}"]
    if _same(own, other):
        return []
    if is_dataclass(own) and not isinstance(own, type):
        pairs = {f.name: (getattr(own, f.name), getattr(other, f.name)) for f in fields(own)}
    elif _is_plain(own) and vars(own).keys() == vars(other).keys():
        pairs = {name: (value, vars(other)[name]) for name, value in vars(own).items()}
    else:
        return [f"{place or 'the program'} is another"]
    texts = []
    for key, (a, b) in pairs.items():
        if not _same(a, b):
            name = f"{place}.{key}" if place else key
            texts += differences(a, b, name)
    return texts


def _is_plain(value: Any) -> bool:
    """Whether all that an object holds is in its attributes: an instance of a class in Python."""
    python = all(kind.__flags__ & HEAP_TYPE for kind in type(value).__mro__[:-1])
    return python and hasattr(value, "__dict__") and not isinstance(value, type)


def _same(a: Any, b: Any) -> bool:
    try:
        return bool(a is b or np.all(np.asarray(a == b)))
    except (TypeError, ValueError):
        return False


def _audit(
    attempt: Attempt, bound: Lower, judged: Sequence[Judged], budget: DecisionBudget
) -> Json:
    """One audit as JSON: program, data sets, attack, counts and bounds."""
    attacked, identity = attempt.attacked, attempt.prefix + audit_id(bound)
    suite, kind = attacked.suite, attacked.attack.partition("(")[0]
    is_lens = audit_id(bound) == "lens"
    shown = [guarantee(bound.measure, bound.shown, bound.delta)]
    refuted = any(
        exceeding is not None
        and audit_id(exceeding) == audit_id(bound)
        and exceeds(exceeding, row.claim.value)
        for row in judged
        for exceeding in [
            lower_for(row.claim, attempt.lens, attempt.raws.get(printed_delta(row.claim)))
        ]
    )
    return {
        "id": identity,
        "about": attempt.about,
        "program": program_text(suite.program),
        "differs": list(attempt.differs),
        "suite": attempt.source,
        "threat_model": suite.threat_model,
        "attack": {"type": kind, "text": f"replayed log-likelihood ratio, {attacked.attack}"},
        "neighbours": list(suite.neighbours.digests),
        "neighbours_text": suite.neighbours.text,
        "trials": attacked.trials,
        "training_trials": attacked.training_trials,
        "seed": f"{attacked.seed:032x}",
        "confidence": {
            "level": "0.95",
            "decision_error": plain(Decimal(repr(DECISION_ERROR))),
            "adjusted_for": budget.bounds,
        },
        "estimator": f"{POOLED * bound.pooled}Clopper-Pearson{', GDP lens' * is_lens}",
        "threshold": repr(bound.threshold),
        "counts": {
            "false_positives": bound.counts.false_positives,
            "false_negatives": bound.counts.false_negatives,
            "trials_null": bound.counts.trials_null,
            "trials_alternative": bound.counts.trials_alternative,
        },
        "witness": _witness(bound, budget),
        "lower_bounds": shown,
        "conditional_on": "",
        "strongest": _strongest(attacked, bound),
        "roc": roc_rows(attacked),
        "verdict": "refuted" if refuted else "not_refuted",
    }


def _witness(bound: Lower, budget: DecisionBudget) -> dict[str, str]:
    rates = (*bound.rates_upper, *bound.decisive_rates_upper)
    positive, negative, decisive_positive, decisive_negative = (
        decimal_upper(exact(rate, "rate"), 17) for rate in rates
    )
    return {
        "false_positive_rate_upper": positive,
        "false_negative_rate_upper": negative,
        "decisive_false_positive_rate_upper": decisive_positive,
        "decisive_false_negative_rate_upper": decisive_negative,
        "decisive_error": decimal_lower(exact(budget.bound, "error"), 17),
        "decisive_lower": decimal_lower(exact(bound.decisive, "bound")),
    }


def _strongest(attacked: Attacked, bound: Lower) -> Json:
    if bound.measure == "gdp":
        most = strongest_mu(attacked.trials, SHOWN_ERROR, pooled=bound.pooled)
        return guarantee("gdp", most)
    strongest = strongest_epsilon(
        attacked.trials, float(Fraction(bound.delta)), SHOWN_ERROR, pooled=bound.pooled
    )
    return guarantee("approx_dp", strongest, bound.delta)


def roc_rows(attacked: Attacked) -> list[list[str]]:
    """Error rates at thresholds chosen on the training trials, with boxes at 95% together."""
    if attacked.test is None or attacked.training is None:
        return []
    pooled = np.concatenate([attacked.training.alternative, attacked.training.null])
    finite = pooled[np.isfinite(pooled)]
    if finite.size == 0:
        return []
    levels = np.linspace(0, 1, ROC_POINTS + 2)[1:-1]
    thresholds = sorted({float(t) for t in np.quantile(finite, levels)})
    trials = attacked.trials
    return [
        [
            decimal_lower(Fraction(round(p.false_positive_rate * trials), trials)),
            decimal_lower(Fraction(round(p.false_negative_rate * trials), trials)),
            decimal_upper(exact(p.false_positive_rate_upper, "rate")),
            decimal_upper(exact(p.false_negative_rate_upper, "rate")),
        ]
        for p in roc_points(attacked.test, thresholds, SHOWN_ERROR)
    ]


def written(value: Any) -> str:
    """A number exactly as it is: a whole number in full, another so that it is read back the same.

    Errors: TypeError for what is no real number.
    """
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return str(int(value))
    if not isinstance(value, (float, np.floating)):
        raise TypeError(f"{type(value).__name__} where a number was expected")
    return repr(float(value)).removesuffix(".0").replace("e+", "e")


def conformance_rows(
    declaration: Node, examination: Examination, attempts: Sequence[Attempt]
) -> list[Json]:
    """One row a check of the implementation against its declaration: of the program, of audits."""
    # A program that was not examined is not shown to hold in anything.
    findings = examination.broken if examination.not_examined else examination.findings
    rows = [("program", finding) for finding in findings]
    rows += [(a.about, f) for a in attempts for f in _complete(a.attacked, declaration)]
    return [
        {
            "id": f"conformance-{i + 1}",
            "about": about,
            "assumption": finding.assumption,
            "check": finding.check,
            "status": finding.status,
            "statistic": written(finding.statistic),
            "error_rate": decimal_upper(finding.error_rate, 6),
            "p_value": (
                None if math.isnan(finding.p_value) else decimal_upper(Fraction(finding.p_value))
            ),
            "law": finding.law,
            "size": finding.size,
            "among": finding.among,
            "parameter": "" if math.isnan(finding.parameter) else written(finding.parameter),
            "tried": finding.tried,
            "detail": finding.detail,
        }
        for i, (about, finding) in enumerate(rows)
    ]


def _complete(attacked: Attacked, declaration: Node) -> list[Finding]:
    """The findings, and what was not run: labels of the declaration that were never released."""
    findings = list(attacked.findings)
    listed = {finding.check for finding in findings}
    if EXECUTED not in {f.check for f in findings if f.status == "held"}:
        return findings
    missing = [f"{name} of {label}" for label in labels_of(declaration) for name in LABEL_CHECKS]
    return [
        *findings,
        *(
            Finding(check, "not_run", 0.0, 0.0, "never released in the audit")
            for check in missing
            if check not in listed
        ),
    ]


def unexamined(declaration: Node, examination: Examination) -> list[str]:
    """The gaps of an examination, as they are said first."""
    return [f"{UNEXAMINED}{text}" for text in gaps(examination_row(examination), declaration)]


def examination_row(examination: Examination) -> Json:
    """Whether the program itself was run on made-up records, and what it reached on them."""
    shape = examination.shape
    return {
        "not_examined": examination.not_examined,
        "records": [] if shape is None else [shape.rows, *shape.row],
        "code": None
        if examination.ran is None
        else {
            "lines": examination.ran.lines,
            "run": examination.ran.run,
            "missed": list(examination.ran.missed),
        },
        **_tried(examination),
        **({"unmet": [asdict(one) for one in examination.unmet]} if examination.unmet else {}),
        "reached": [
            {
                "label": release.label,
                "place": release.place,
                "query": release.kind,
                "clip_share": "" if release.clip is None else f"{release.clip:.4g}",
                "displacement_share": f"{release.displacement:.6g}",
                "tried": release.tried,
                "reaches": release.reaches,
                **_pair(release),
            }
            for release in examination.reached
        ],
    }


def _pair(reached: Reached) -> Json:
    """Two data sets, row by row, that move a query too far; an absent record is an empty row."""
    if reached.pair is None or sum(one.values.size for one in reached.pair[:2]) > LISTED_NUMBERS:
        return {}
    first, second = (
        [
            [written(float(number)) for number in row.reshape(-1)] if there else []
            for row, there in zip(one.values, one.present, strict=True)
        ]
        for one in reached.pair[:2]
    )
    return {"pair": {"first": first, "second": second, "share": f"{reached.pair[2]:.6g}"}}


def _tried(examination: Examination) -> Json:
    """How much was tried; the seconds are those it had, so that a seed gives the same bytes."""
    tried = examination.tried
    return {} if tried is None else {"tried": {**asdict(tried), "seconds": f"{tried.seconds:.6g}"}}
