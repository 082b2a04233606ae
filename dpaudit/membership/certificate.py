"""The result of a membership audit, and its empirical certificate: one canonical JSON statement.

The certificate is an in-toto Statement v1 with its own predicate type.  It holds lower bounds with
counts and witnesses, and no upper bound; ``dpaudit verify`` re-derives the lower bounds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from dpaudit.audit.canaries.results import judged
from dpaudit.audit.canaries.terms import CanaryTerms
from dpaudit.audit.verdict import Verdict
from dpaudit.check.file import EMPIRICAL
from dpaudit.exact import decimal_lower, decimal_upper, exact, plain
from dpaudit.exact.wire import canonical_bytes, digest
from dpaudit.membership.bounds import LowerBound
from dpaudit.membership.exposure import Exposure
from dpaudit.membership.results import AttackResult, Finding, Interval
from dpaudit.membership.targets import Released
from dpaudit.storage.files import write_atomically
from dpaudit.version import __version__

STATEMENT = "https://in-toto.io/Statement/v1"
DIGITS = 6  # significant digits of a printed number
LISTED = 50  # records that are listed, the most exposed first
_CURVE_ROWS = 120  # rows of a kept curve
_ADVICE = (
    "--step checks one step, and --set background=0.01 trains canaries beside few records, where a "
    "claim holds for any number of them"
)

Json = dict[str, Any]


@dataclass(frozen=True, eq=False)
class MembershipAudit:
    """The result of a study.

    ``bounds``: one for each attack, together valid at ``terms.confidence``: the more reference
    models promise of an attack, the larger its share of the error.  ``best``: the attack with the
    largest; ``bound`` and ``decisive`` (together at error ``terms.refute_at``) are of this attack.
    Without bounds, ``findings`` give the reason.
    ``verdict`` is None without a claim or without a bound.
    """

    target: str
    released: str
    terms: CanaryTerms
    claimed: bool
    attacks: Mapping[str, AttackResult]
    bounds: Mapping[str, LowerBound]
    best: str
    decisive: LowerBound | None
    achievable: float
    findings: tuple[Finding, ...]
    exposure: Exposure
    models: int
    references: int
    records: int
    units: int
    commitment: str
    seconds: float
    data_digest: str
    by_epoch: tuple[tuple[int, LowerBound, float], ...] = field(default=())

    @property
    def bound(self) -> LowerBound | None:
        """The best attack's lower bound at ``terms.confidence``; None if a finding voids it."""
        return self.bounds.get(self.best)

    @property
    def judged(self) -> Mapping[str, Any]:
        """verdict, reason and underpowered; verdict None where nothing is judged."""
        if self.decisive is None:
            voiding = [finding.name for finding in self.findings if finding.voids]
            reason = f"no bound: {', '.join(voiding)}" if voiding else "no claim was given"
            return {"verdict": None, "reason": reason, "underpowered": False}
        claimed = self.terms.target.claimed
        refuted = self.decisive.value > claimed * (1 + 1e-12)
        by_control = [each.words for each in self.findings if each.name == "positive control"]
        more = by_control[0] if by_control else f"at most {self.achievable:.4g} could have been"
        verdict = judged(
            claimed, self.decisive.value, self.achievable, f"; {more}", refuted=refuted
        )
        shown = 0.0 if self.bound is None else self.bound.value
        if refuted or verdict["underpowered"]:
            return verdict
        if not shown > claimed:
            return {**verdict, "reason": f"{verdict['reason']}; {_ADVICE}"}
        undecided = (
            f"{self.decisive.measure} >= {shown:.4g} is above the claim at "
            f"{self.terms.confidence:.0%} confidence, and not at the error of a refutation, "
            f"{self.terms.refute_at:g}; more models, fewer canaries or released parameters would "
            "decide"
        )
        return {**verdict, "reason": undecided}

    @property
    def verdict(self) -> Verdict | None:
        status = self.judged["verdict"]
        return None if status is None else Verdict(status)

    @property
    def reason(self) -> str:
        return str(self.judged["reason"])

    def to_json(self) -> dict[str, Any]:
        """The certificate's predicate, as plain values."""
        return predicate(self)

    def __str__(self) -> str:
        lines = [f"{self.verdict}: {self.reason}" if self.verdict else self.reason]
        if self.bound is not None:
            b = self.bound
            at = f" at delta {b.delta:g}" if b.measure == "epsilon" and b.delta else ""
            lines.append(
                f"{b.measure} >= {b.value:.4g}{at}, at {self.terms.confidence:.0%} confidence, by "
                f"{self.best} ({b.words})"
            )
        lines.append(
            f"{self.models} models of {self.records:,} records, {self.references} of them "
            f"references; attacker sees {self.released}"
        )
        for name, attack in self.attacks.items():
            rate = dict(attack.true_positive_rates)[0.01]
            lines.append(f"{name}: AUC {attack.auc}, true positive rate at 1% {rate}")
        exposed = int(self.exposure.exposed.sum())
        lines.append(
            f"{exposed:,} of {self.records:,} records are fitted differently by models with and "
            f"without them, by much or little (at most {self.exposure.false_discoveries:.0%} of "
            "them expected to be listed wrongly): a guarantee limits such differences, and the "
            "bound says how large they are at least"
        )
        lines += [f"{finding.name}: {finding.words}" for finding in self.findings]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from dpaudit.report.membership import summary_html

        return summary_html(str(self), self.to_json())


def statement(audit: MembershipAudit, *, issued: datetime | None = None) -> Json:
    """The in-toto statement of an audit; ``issued`` now by default."""
    content = predicate(audit, issued=issued)
    statement_row = {
        "_type": STATEMENT,
        "subject": [{"name": "predicate", "digest": {"sha256": digest(content)}}],
        "predicateType": EMPIRICAL,
        "predicate": content,
    }
    canonical: Json = json.loads(canonical_bytes(statement_row))
    return canonical


def save(certificate: Json, path: Path) -> None:
    """Write the certificate's canonical bytes, all or nothing.  Errors: OutputNotWritable."""
    write_atomically(path, canonical_bytes(certificate) + b"\n")


def predicate(audit: MembershipAudit, *, issued: datetime | None = None) -> Json:
    """The certificate's predicate as JSON values; bounds and estimates are decimal strings."""
    terms = audit.terms
    refute_at = _exact(terms.refute_at)
    content: Json = {
        "kind": "empirical",
        "issued": (issued or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "tool": {"name": "dpaudit", "version": __version__},
        "target": {
            "training": audit.target,
            "released": audit.released,
            "threat_model": Released(audit.released).words,
        },
        "data": {"records": audit.records, "sha256": audit.data_digest},
        "scope": {
            "adjacency": "add_remove",
            "unit": "a record" if audit.units == audit.records else "a unit of several records",
        },
        "study": {
            "models": audit.models,
            "references": audit.references,
            "units": audit.units,
            "commitment": audit.commitment,
        },
        "confidence": {"level": _exact(terms.confidence), "refute_at": refute_at},
        "claim": _claim(audit),
        "lower_bounds": _bounds(audit, refute_at),
        "best": audit.best,
        "estimates": [_attack(content) for content in audit.attacks.values()],
        "exposure": _exposure(audit.exposure),
        "epochs": [
            {"epoch": epoch, "bound": _bound(bound, "", "shown", ""), "accounted": number(upper)}
            for epoch, bound, upper in audit.by_epoch
        ],
        "findings": [
            {"name": each.name, "words": each.words, "voids": each.voids} for each in audit.findings
        ],
        "verdict": {
            "status": str(audit.verdict) if audit.verdict else "empirical",
            "reason": audit.reason,
            "underpowered": bool(audit.judged["underpowered"]),
        },
    }
    return content


def number(value: float) -> str:
    """An estimate as a decimal string of six digits, "inf", "-inf" or "nan"."""
    if not np.isfinite(value):
        return str(float(value))
    return plain(Decimal(f"{value:.{DIGITS}g}")) if value >= 0 else "-" + number(-value)


def _exact(value: float) -> str:
    return plain(Decimal(repr(value)))


def _claim(audit: MembershipAudit) -> Json | None:
    if not audit.claimed:
        return None
    target = audit.terms.target
    return {
        "words": target.words,
        "measure": target.measure,
        "value": decimal_upper(Fraction(repr(target.claimed))),
        "delta": decimal_upper(Fraction(repr(target.delta))),
    }


def _bounds(audit: MembershipAudit, refute_at: str) -> list[Json]:
    shown_error = 1 - Decimal(repr(audit.terms.confidence))
    rows = [
        _bound(bound, name, "shown", _share(bound.error, audit.terms.shown, shown_error))
        for name, bound in audit.bounds.items()
    ]
    if audit.decisive is not None:
        error = _share(audit.decisive.error, audit.terms.refute_at, Decimal(refute_at))
        rows.append(_bound(audit.decisive, audit.best, "decisive", error))
    return rows


def _share(error: float, total: float, written: Decimal) -> str:
    """A power of 1/2 of a whole error, as the same share of how the whole is written."""
    return plain(written * Decimal(error / total))


def _bound(bound: LowerBound, attack: str, role: str, error: str) -> Json:
    witness = {
        name: decimal_upper(exact(value, name), 17) if "rate" in name else _signed(value)
        for name, value in bound.witness.items()
    }
    return {
        "attack": attack,
        "role": role,
        "method": bound.method,
        "measure": bound.measure,
        "value": decimal_lower(bound.value, DIGITS),
        "delta": decimal_upper(Fraction(repr(bound.delta))),
        "error": error or _exact(bound.error),
        "counts": dict(bound.counts),
        "witness": witness,
        "words": bound.words,
    }


def _signed(value: float) -> str:
    text = plain(Decimal(repr(abs(value)))) if np.isfinite(value) else "inf"
    return text if value >= 0 else f"-{text}"


def _interval(interval: Interval) -> list[str]:
    return [number(interval.value), number(interval.low), number(interval.high)]


def _attack(attack: AttackResult) -> Json:
    size = len(attack.roc)
    curve_rows = np.unique(np.linspace(0, size - 1, min(size, _CURVE_ROWS)).round().astype(int))
    return {
        "attack": attack.name,
        "words": attack.words,
        "source": attack.source,
        "auc": _interval(attack.auc),
        "advantage": _interval(attack.advantage),
        "true_positive_rates": [
            [number(rate), *_interval(interval)] for rate, interval in attack.true_positive_rates
        ],
        "roc": [[number(value) for value in row] for row in attack.roc[curve_rows]],
        "histogram": [[number(value) for value in row] for row in attack.histogram],
    }


def _exposure(exposure: Exposure) -> Json:
    def rows(groups: Any) -> list[list[str]]:
        return [
            [name, str(values[0]), *(number(value) for value in values[1:])]
            for name, values in groups.items()
        ]

    return {
        "records": int(exposure.exposed.size),
        "exposed": int(exposure.exposed.sum()),
        "false_discoveries": number(exposure.false_discoveries),
        "most_exposed": [
            [int(row), number(float(exposure.auc[row])), number(float(exposure.p_values[row]))]
            for row in exposure.order[:LISTED]
            if exposure.exposed[row]
        ],
        "by_class": rows(exposure.by_class),
        "by_group": rows(exposure.by_group),
    }
