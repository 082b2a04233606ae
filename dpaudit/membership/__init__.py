"""Membership-inference audits of real training: privacy loss, exposed records.

The modules, from the bottom up: data (records, units, duplicates), targets (training with a score),
torch_target, program_target, synthetic, signals (one model's loss and other values for each
record), canaries (records that are easy to remember), attacks (published ones), bounds (lower
bounds that allow dependent records), exposure (which records leak), results, study (coins,
training, resumption), certificate; step (one optimiser step, without training).

:func:`audit_training` runs a whole audit.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpaudit.membership.attacks import ATTACKS
    from dpaudit.membership.canaries import (
        adversarial,
        blank,
        gradients_of,
        mislabelled,
        users_of_mislabelled,
    )
    from dpaudit.membership.certificate import MembershipAudit
    from dpaudit.membership.data import Data, blind_baseline
    from dpaudit.membership.entry import audit_training
    from dpaudit.membership.reconstruction import (
        allowed_rate,
        audit_reconstruction,
        with_values,
    )
    from dpaudit.membership.step.adapters import EstimatorStep, StateStep, TorchStep, opacus_step
    from dpaudit.membership.study import Study
    from dpaudit.membership.synthetic import SyntheticTarget
    from dpaudit.membership.targets import FunctionTarget, Released, SklearnTarget
    from dpaudit.membership.text import (
        TokenTraining,
        new_token_canaries,
        secret_exposure,
        token_windows,
    )
    from dpaudit.membership.torch_target import DPSGD, TorchTarget

_HOMES = {
    "ATTACKS": "attacks",
    "adversarial": "canaries",
    "blank": "canaries",
    "gradients_of": "canaries",
    "mislabelled": "canaries",
    "users_of_mislabelled": "canaries",
    "Data": "data",
    "blind_baseline": "data",
    "MembershipAudit": "certificate",
    "allowed_rate": "reconstruction",
    "audit_reconstruction": "reconstruction",
    "with_values": "reconstruction",
    "EstimatorStep": "step.adapters",
    "StateStep": "step.adapters",
    "TorchStep": "step.adapters",
    "opacus_step": "step.adapters",
    "Study": "study",
    "audit_training": "entry",
    "SyntheticTarget": "synthetic",
    "FunctionTarget": "targets",
    "Released": "targets",
    "SklearnTarget": "targets",
    "TokenTraining": "text",
    "new_token_canaries": "text",
    "secret_exposure": "text",
    "token_windows": "text",
    "DPSGD": "torch_target",
    "TorchTarget": "torch_target",
}
__all__ = [
    "ATTACKS",
    "DPSGD",
    "Data",
    "EstimatorStep",
    "FunctionTarget",
    "MembershipAudit",
    "Released",
    "SklearnTarget",
    "StateStep",
    "Study",
    "SyntheticTarget",
    "TokenTraining",
    "TorchStep",
    "TorchTarget",
    "adversarial",
    "allowed_rate",
    "audit_reconstruction",
    "audit_training",
    "blank",
    "blind_baseline",
    "gradients_of",
    "mislabelled",
    "new_token_canaries",
    "opacus_step",
    "secret_exposure",
    "token_windows",
    "users_of_mislabelled",
    "with_values",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"dpaudit.membership.{_HOMES[name]}"), name)
