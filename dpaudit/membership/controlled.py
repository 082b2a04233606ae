"""A positive control: the bound of a study without noise, and of one with the clip off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dpaudit.membership.attacks import ATTACKS
from dpaudit.membership.bounds import promised
from dpaudit.membership.certificate import MembershipAudit
from dpaudit.membership.control import Without
from dpaudit.membership.data import FloatArray
from dpaudit.membership.results import Finding
from dpaudit.membership.study import IgnoredRecords, Study

MANY, MOST_ALONE = 24, 128  # models of a control, of several canaries and of a single one


def controlled(study: Study, found: MembershipAudit, jobs: int = 1) -> MembershipAudit:
    """The audit with a finding more: its bounds without noise, and with the clip off.

    A few models of each are trained, after those that are counted.
    """
    said = _sentences(study, found, jobs)
    return replace(found, findings=(*found.findings, Finding.control("; ".join(said))))


def _sentences(study: Study, found: MembershipAudit, jobs: int) -> list[str]:
    plain, again = _scores(study), _scores(study)
    if plain is None or again is None or not np.array_equal(plain, again, equal_nan=True):
        return [
            "the audit cannot turn its noise and its clip off, since its noise is not that of its "
            f"generator; at most {found.achievable:.4g} could have been shown"
        ]
    return [
        _without_noise(study, found, jobs),
        _without_clip(study, found, jobs, plain),
    ]


def _scores(study: Study, without: Without = Without.NOTHING) -> FloatArray | None:
    """Scores of a model that is trained on all canaries; None where training breaks."""
    everyone = np.ones((1, study.audited.unit_count), dtype=bool)
    try:
        return replace(study.task(everyone), without=without).raw(0)
    except Exception:  # noqa: BLE001 (of the user's own training)
        return None


def _without_noise(study: Study, found: MembershipAudit, jobs: int) -> str:
    try:
        promise, models = _promised(study, found, Without.NOISE, jobs)
    except IgnoredRecords:
        return (
            "without the noise of its generator all models of this study score the same: training "
            "drops these canaries, as a filter of outliers or a loader does that leaves out what "
            "is short of a batch, or score hides them; choose others by canaries="
        )
    except Exception as error:  # noqa: BLE001 (of the user's own training)
        return f"a training without noise would have shown nothing: it breaks ({_name(error)})"
    bound = 0.0 if found.bound is None else found.bound.value
    if promise < bound:  # its few models promise less than this study of many shows
        return (
            f"the control is too small: its {models} models without noise promise only "
            f"{found.terms.target.measure} >= {promise:.3g}, less than the study shows with noise, "
            "so that they do not tell what noise hides; give more models"
        )
    return (
        f"a training without noise would have shown about {found.terms.target.measure} >= "
        f"{promise:.3g} here, judged by {models} models"
    )


def _without_clip(study: Study, found: MembershipAudit, jobs: int, plain: FloatArray) -> str:
    off = _scores(study, Without.CLIP)
    if off is None:
        return "its clip cannot be turned off: training breaks where norms are 0"
    if np.array_equal(plain, off, equal_nan=True):
        return (
            "the audit found no clip to turn off: its models are the same where NumPy's and "
            "PyTorch's norms are 0, so that it clips by code of its own, or not at all, or nothing "
            "that is long; --step tries that"
        )
    try:
        promise, _ = _promised(study, found, Without.CLIP, jobs)
    except Exception as error:  # noqa: BLE001 (of the user's own training)
        return f"with its clip off training breaks ({_name(error)})"
    return f"one with its clip off, about {found.terms.target.measure} >= {promise:.3g}, by as many"


def _name(error: Exception) -> str:
    return type(error).__name__


def _promised(
    study: Study, found: MembershipAudit, without: Without, jobs: int
) -> tuple[float, int]:
    """The bound that so many models of such training promise of as many as the study has."""
    most = MOST_ALONE if study.audited.unit_count == 1 else MANY
    models = min(most, max(found.models // 4, 8))
    control = replace(
        study,
        models=models,
        without=without,
        folder=None,
        seed=None if study.seed is None else study.seed + 1,
        notes=(),
    )
    attacks: Sequence[str] = [
        name
        for name in found.attacks
        if ATTACKS[name].fewest <= models and not ATTACKS[name].population
    ]
    by_attack, _ = control.open(attacks or None, jobs=jobs)
    target = found.terms.target
    bounds = [
        promised(known, found.models - found.references, target, found.terms.refute_at)
        for known in by_attack.values()
    ]
    return max([0.0, *bounds]), models
