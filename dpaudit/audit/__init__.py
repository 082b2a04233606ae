"""Audits: neighbours, attacks, estimators, conformance checks, the engine and the verdict.

The entry points for a user's own code are loaded when first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpaudit.audit.arithmetic.floating import audit_arithmetic
    from dpaudit.audit.blackbox.entry import audit_command, audit_function
    from dpaudit.audit.blackbox.foreign import Command, Endpoint
    from dpaudit.audit.blackbox.result import FunctionAudit
    from dpaudit.audit.blackbox.search import DomainAudit, audit_domain
    from dpaudit.audit.blackbox.sql import Database
    from dpaudit.audit.bounds.bands import Band, rates_upper, score_band
    from dpaudit.audit.bounds.betting import Bets, bets_against, parameter_lower, play
    from dpaudit.audit.canaries.commitment import commit, load_labels
    from dpaudit.audit.canaries.gradients import (
        CanaryLoss,
        adversarial,
        attack_from_starts,
        blank,
        dirac,
        saturating,
    )
    from dpaudit.audit.canaries.scores import audit_one_run, audit_scores
    from dpaudit.audit.graybox import inspect_program
    from dpaudit.audit.graybox.cancelling import cancelling_attack
    from dpaudit.audit.graybox.correlation import check_dependence
    from dpaudit.audit.observed import attack_observed
    from dpaudit.audit.verdict import Verdict

__all__ = [
    "Band",
    "Bets",
    "CanaryLoss",
    "Command",
    "Database",
    "DomainAudit",
    "Endpoint",
    "FunctionAudit",
    "Verdict",
    "adversarial",
    "attack_from_starts",
    "attack_observed",
    "audit_arithmetic",
    "audit_command",
    "audit_domain",
    "audit_function",
    "audit_one_run",
    "audit_scores",
    "bets_against",
    "blank",
    "cancelling_attack",
    "check_dependence",
    "commit",
    "dirac",
    "inspect_program",
    "load_labels",
    "parameter_lower",
    "play",
    "rates_upper",
    "saturating",
    "score_band",
]

_NAMES = {
    "arithmetic.floating": "audit_arithmetic",
    "blackbox.entry": "audit_command audit_function",
    "blackbox.foreign": "Command Endpoint",
    "blackbox.result": "FunctionAudit",
    "blackbox.search": "DomainAudit audit_domain",
    "blackbox.sql": "Database",
    "bounds.bands": "Band rates_upper score_band",
    "bounds.betting": "Bets bets_against parameter_lower play",
    "canaries.commitment": "commit load_labels",
    "canaries.gradients": "CanaryLoss adversarial attack_from_starts blank dirac saturating",
    "canaries.scores": "audit_one_run audit_scores",
    "graybox": "inspect_program",
    "graybox.cancelling": "cancelling_attack",
    "graybox.correlation": "check_dependence",
    "observed": "attack_observed",
    "verdict": "Verdict",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
