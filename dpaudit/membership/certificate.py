"""Empirical certificates: what a membership audit showed, as one canonical JSON statement.

The form is an in-toto Statement v1 as that of other certificates, of a kind of its own: it holds
lower bounds, with counts and witnesses, and no upper bound; ``dpaudit verify`` derives them again.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from dpaudit.check.file import EMPIRICAL
from dpaudit.exact import decimal_lower, decimal_upper, plain
from dpaudit.exact.wire import canonical_bytes, digest
from dpaudit.membership.bounds import LowerBound
from dpaudit.membership.exposure import Exposure
from dpaudit.membership.results import AttackResult, Interval, MembershipAudit
from dpaudit.membership.targets import Released
from dpaudit.storage.files import write_atomically
from dpaudit.version import __version__

STATEMENT = "https://in-toto.io/Statement/v1"
DIGITS = 6
LISTED = 50
_CURVE_ROWS = 120

Json = dict[str, Any]


def statement(audit: MembershipAudit, *, issued: datetime | None = None) -> Json:
    """The in-toto statement of an audit; ``issued`` now by default."""
    content = predicate(audit, issued=issued)
    made = {
        "_type": STATEMENT,
        "subject": [{"name": "predicate", "digest": {"sha256": digest(content)}}],
        "predicateType": EMPIRICAL,
        "predicate": content,
    }
    canonical: Json = json.loads(canonical_bytes(made))
    return canonical


def save(certificate: Json, path: Path) -> None:
    """Write the certificate's canonical bytes, all or nothing.  Errors: OutputNotWritable."""
    write_atomically(path, canonical_bytes(certificate) + b"\n")


def predicate(audit: MembershipAudit, *, issued: datetime | None = None) -> Json:
    """What is certified: plain values, numbers that are bounds or estimates as decimal strings."""
    terms = audit.terms
    refute_at = _exact(terms.refute_at)
    found: Json = {
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
        "estimates": [_attack(found) for found in audit.attacks.values()],
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
    return found


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
    shown_error = plain(1 - Decimal(repr(audit.terms.confidence)))
    rows = [_bound(bound, name, "shown", shown_error) for name, bound in audit.bounds.items()]
    if audit.decisive is not None:
        rows.append(_bound(audit.decisive, audit.best, "decisive", refute_at))
    return rows


def _bound(bound: LowerBound, attack: str, role: str, error: str) -> Json:
    witness = {
        name: (decimal_upper(value, 17) if "rate" in name else _signed(value))
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


def _interval(found: Interval) -> list[str]:
    return [number(found.value), number(found.low), number(found.high)]


def _attack(found: AttackResult) -> Json:
    size = len(found.roc)
    kept = np.unique(np.linspace(0, size - 1, min(size, _CURVE_ROWS)).round().astype(int))
    return {
        "attack": found.name,
        "words": found.words,
        "source": found.source,
        "auc": _interval(found.auc),
        "advantage": _interval(found.advantage),
        "true_positive_rates": [
            [number(rate), *_interval(interval)] for rate, interval in found.true_positive_rates
        ],
        "roc": [[number(value) for value in row] for row in found.roc[kept]],
        "histogram": [[number(value) for value in row] for row in found.histogram],
    }


def _exposure(found: Exposure) -> Json:
    def rows(groups: Any) -> list[list[str]]:
        return [
            [name, str(values[0]), *(number(value) for value in values[1:])]
            for name, values in groups.items()
        ]

    return {
        "records": int(found.exposed.size),
        "exposed": int(found.exposed.sum()),
        "false_discoveries": number(found.false_discoveries),
        "most_exposed": [
            [int(row), number(float(found.auc[row])), number(float(found.p_values[row]))]
            for row in found.order[:LISTED]
            if found.exposed[row]
        ],
        "by_class": rows(found.by_class),
        "by_group": rows(found.by_group),
    }
