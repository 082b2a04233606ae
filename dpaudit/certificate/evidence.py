"""Evidence: what an audit showed, as rows of a certificate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from dpaudit.audit.attack import Attacked
from dpaudit.audit.bounds.estimators import roc_points, strongest_epsilon, strongest_mu
from dpaudit.audit.examine import Examination
from dpaudit.audit.verdict import (
    DECISION_ERROR,
    SHOWN_ERROR,
    DecisionBudget,
    Judged,
    Lower,
    exceeds,
)
from dpaudit.certificate.certificate import Json, audit_id, guarantee
from dpaudit.exact import decimal_lower, decimal_upper, plain

ROC_POINTS = 9


def audit_rows(
    attacked: Attacked | None,
    lens_bound: Lower | None,
    raws: Mapping[Fraction | None, Lower | None],
    judged: Sequence[Judged],
    budget: DecisionBudget,
) -> list[Json]:
    """One row a lower bound: what was attacked, how often it erred, and what follows."""
    if attacked is None:
        return []
    found = [b for b in (lens_bound, *raws.values()) if b is not None]
    return [_audit(attacked, bound, judged, budget) for bound in found]


def _audit(
    attacked: Attacked, bound: Lower, judged: Sequence[Judged], budget: DecisionBudget
) -> Json:
    suite, identity = attacked.suite, audit_id(bound)
    kind = attacked.attack.partition("(")[0]
    is_lens = identity == "lens"
    shown = [guarantee(bound.measure, bound.shown, bound.delta)]
    refuted = any(
        j.lower is not None and audit_id(j.lower) == identity and exceeds(j.lower, j.claim.value)
        for j in judged
    )
    return {
        "id": identity,
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
        "estimator": "Clopper-Pearson, GDP lens" if is_lens else "Clopper-Pearson",
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
    shown, decisive = bound.rates_upper, bound.decisive_rates_upper
    return {
        "false_positive_rate_upper": decimal_upper(shown[0], 17),
        "false_negative_rate_upper": decimal_upper(shown[1], 17),
        "decisive_false_positive_rate_upper": decimal_upper(decisive[0], 17),
        "decisive_false_negative_rate_upper": decimal_upper(decisive[1], 17),
        "decisive_error": decimal_lower(Fraction(budget.bound), 17),
        "decisive_lower": decimal_lower(bound.decisive),
    }


def _strongest(attacked: Attacked, bound: Lower) -> Json:
    if bound.measure == "gdp":
        return guarantee("gdp", strongest_mu(attacked.trials, SHOWN_ERROR))
    strongest = strongest_epsilon(attacked.trials, float(Fraction(bound.delta)), SHOWN_ERROR)
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
            decimal_upper(p.false_positive_rate_upper),
            decimal_upper(p.false_negative_rate_upper),
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
    examination: Examination, attacked: Attacked | None, *, stand_in: bool
) -> list[Json]:
    """One row a check of the implementation against its declaration: of the program, of an audit's.

    ``stand_in``: whether the audit attacks another program than the one that is named.
    """
    own = [("program", finding) for finding in examination.findings]
    audited = "stand_in" if stand_in else "program"
    rows = [*own, *((audited, f) for f in (attacked.findings if attacked else ()))]
    return [
        {
            "id": f"conformance-{i + 1}",
            "about": about,
            "assumption": finding.assumption,
            "check": finding.check,
            "status": finding.status,
            "statistic": written(finding.statistic),
            "error_rate": decimal_upper(finding.error_rate, 6),
            "tried": finding.tried,
            "detail": finding.detail,
        }
        for i, (about, finding) in enumerate(rows)
    ]


def examination_row(examination: Examination) -> Json:
    """Whether the program itself was run on made-up records, and what it reached on them."""
    shape = examination.shape
    return {
        "not_examined": examination.not_examined,
        "records": [] if shape is None else [shape.rows, *shape.row],
        "reached": [
            {
                "label": one.label,
                "place": one.place,
                "query": one.kind,
                "clip_share": "" if one.clip is None else f"{one.clip:.4g}",
                "displacement_share": f"{one.displacement:.6g}",
            }
            for one in examination.reached
        ],
    }
