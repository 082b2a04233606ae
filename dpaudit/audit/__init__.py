"""Audits: neighbours, attacks, estimators, conformance checks, the engine and the verdict.

The entry points for a user's own code are loaded when first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpaudit.audit.arithmetic.floating import audit_arithmetic
    from dpaudit.audit.blackbox.entry import audit_function
    from dpaudit.audit.blackbox.result import FunctionAudit
    from dpaudit.audit.blackbox.search import DomainAudit, audit_domain
    from dpaudit.audit.canaries.commitment import commit, load_labels
    from dpaudit.audit.canaries.scores import audit_one_run, audit_scores
    from dpaudit.audit.graybox import inspect_program
    from dpaudit.audit.graybox.cancelling import cancelling_attack
    from dpaudit.audit.graybox.correlation import check_dependence
    from dpaudit.audit.observed import attack_observed
    from dpaudit.audit.verdict import Verdict
    from dpaudit.families.opaque import RenyiDP as RDP

__all__ = [
    "RDP",
    "DomainAudit",
    "FunctionAudit",
    "Verdict",
    "attack_observed",
    "audit_arithmetic",
    "audit_domain",
    "audit_function",
    "audit_one_run",
    "audit_scores",
    "cancelling_attack",
    "check_dependence",
    "commit",
    "inspect_program",
    "load_labels",
]

_HOMES = {
    "RDP": ("dpaudit.families.opaque", "RenyiDP"),
    "DomainAudit": ("dpaudit.audit.blackbox.search", "DomainAudit"),
    "FunctionAudit": ("dpaudit.audit.blackbox.result", "FunctionAudit"),
    "Verdict": ("dpaudit.audit.verdict", "Verdict"),
    "attack_observed": ("dpaudit.audit.observed", "attack_observed"),
    "audit_arithmetic": ("dpaudit.audit.arithmetic.floating", "audit_arithmetic"),
    "audit_one_run": ("dpaudit.audit.canaries.scores", "audit_one_run"),
    "audit_scores": ("dpaudit.audit.canaries.scores", "audit_scores"),
    "cancelling_attack": ("dpaudit.audit.graybox.cancelling", "cancelling_attack"),
    "check_dependence": ("dpaudit.audit.graybox.correlation", "check_dependence"),
    "commit": ("dpaudit.audit.canaries.commitment", "commit"),
    "inspect_program": ("dpaudit.audit.graybox", "inspect_program"),
    "load_labels": ("dpaudit.audit.canaries.commitment", "load_labels"),
    "audit_domain": ("dpaudit.audit.blackbox.search", "audit_domain"),
    "audit_function": ("dpaudit.audit.blackbox.entry", "audit_function"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _HOMES[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
