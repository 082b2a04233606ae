"""One call for a whole membership audit of training: records, or canaries made for them."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dpaudit.audit.canaries.terms import CanaryTerms
from dpaudit.audit.engine import Progress
from dpaudit.errors import InvalidParameter
from dpaudit.membership.certificate import MembershipAudit
from dpaudit.membership.controlled import controlled
from dpaudit.membership.crafted import kinds_of
from dpaudit.membership.data import Data, shared, without_duplicates
from dpaudit.membership.pilot import Pilot, kept
from dpaudit.membership.study import Study
from dpaudit.membership.targets import Released, as_target

MODELS = 64  # trained by default
POPULATION = 0.2  # share of the records kept out of all training where no canaries are made
_SPLIT_STREAM = 0x73706C69  # not that of the coins
NONE = "none"


def audit_training(
    target: Any,
    data: Any,
    *,
    claim: object = None,
    models: int | None = None,
    canaries: str | Sequence[str] | None = None,
    background: Any = None,
    population: Any = None,
    references: float = 0.5,
    released: Released | str | None = None,
    attacks: str | Sequence[str] | None = None,
    confidence: float | str = 0.95,
    refute_at: float | str = 1e-4,
    groups: npt.ArrayLike | None = None,
    folder: str | Path | None = None,
    seed: int | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
) -> MembershipAudit:
    """A whole membership audit of training, as ``dpaudit audit MODULE:FIT --data FILE`` runs it.

    ``data``: records, as :meth:`~dpaudit.membership.data.Data.of` reads them.  ``claim``: PureDP,
    ApproxDP or GDP of a unit, under add/remove.

    ``canaries``: "auto", or names of :data:`~dpaudit.membership.crafted.WORDS`: canaries are made
    for the data, and a pilot on models that are not counted chooses among them.  "none": the
    records themselves are audited.  Auto where there is a claim and no records as ``background``.

    ``background``: records that are always in training; beside canaries, the share of the data
    that trains (1 by default).  ``population``: records in no training, or the share of the data
    that is kept out.  ``models``: how many are trained, references included; by default 64, and
    beside canaries more where they decide and take seconds.

    Everything else as in :class:`Study` and :meth:`Study.run`.
    Errors: InvalidParameter, as :class:`Study`, :meth:`Study.run` and
    :class:`~dpaudit.membership.pilot.Pilot`.
    """
    records = Data.of(data)
    if isinstance(population, (int, float)):
        records, population = split(records, float(population), seed)
    is_share = background is None or isinstance(background, (int, float))
    if canaries is None:
        canaries = "auto" if claim is not None and is_share else NONE
    arguments: dict[str, Any] = {
        "claim": claim, "attacks": attacks, "confidence": confidence, "refute_at": refute_at,
        "groups": groups, "jobs": jobs, "progress": progress,
    }  # fmt: skip
    terms: dict[str, Any] = {
        "population": population,
        "folder": folder,
        "seed": seed,
    }
    if canaries == NONE:
        if background is not None and is_share:
            raise InvalidParameter(
                f"background = {background!r}: a share is of the data that train beside canaries; "
                "without canaries give records"
            )
        count = MODELS if models is None else models
        study = Study(
            target, records, count, background, released=released, references=references, **terms
        )
        found = study.run(**arguments)
        return found if claim is None else controlled(study, found, jobs)
    if claim is None or not is_share:
        raise InvalidParameter(
            "canaries: they are made to refute a claim, beside a share of the data; give a claim, "
            "and no records as background"
        )
    share = 1.0 if background is None else float(background)
    if not 0 < share <= 1:
        raise InvalidParameter(f"background = {background!r}: expected a share in (0, 1]")
    pilot = Pilot(
        as_target(target, released),
        records,
        kinds_of(canaries),
        share,
        MODELS if models is None else models,
        references,
        CanaryTerms.of(claim, confidence, refute_at, 0),
        models is None,
        attacks,
        jobs,
    )
    with tempfile.TemporaryDirectory(prefix="dpaudit-pilot-") as own:
        chosen = kept(Path(folder or own), pilot.run, seed)
    study = pilot.chosen(chosen, **terms)
    return controlled(study, study.run(**arguments), jobs)


def split(data: Data, share: float, seed: int | None) -> tuple[Data, Data | None]:
    """Records under audit, and a population of whole units kept out of all training.

    A record of the population that is also under audit may be in training, and is left out.
    """
    kept_out = int(data.unit_count * share)
    if kept_out == 0:
        return data, None
    stream = None if seed is None else [seed, _SPLIT_STREAM]
    order = np.random.default_rng(stream).permutation(data.unit_count)
    outside = np.isin(data.unit_of, order[:kept_out])
    audited, population = data.take(~outside), data.take(outside)
    if shared(population, audited) == len(population):
        return audited, None
    return audited, without_duplicates(population, audited)
