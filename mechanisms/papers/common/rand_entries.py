"""What entries on rows of the RAND data share: the records, the hold-out loss and the setting."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np

from dpaudit.curator.mechanism import Metric, Setting
from dpaudit.kernels.query import Array, Records
from mechanisms.papers.common import randhie
from mechanisms.papers.common.losses import Loss, mean_value


def load() -> randhie.RandHie:
    """Public preprocessing, an intercept, and blocks that leave 16,150 training rows."""
    return randhie.load(target="any_visit", preprocessing="public", clients=10, intercept="ones")


def records() -> Records:
    """All 16,150 training rows."""
    return Records(load().train)


@cache
def _holdout() -> Array:
    return np.asarray(load().holdout)


def holdout_losses(loss: Loss, points: Mapping[str, Array]) -> tuple[Metric, ...]:
    """Mean loss of released points, (1, d), on the hold-out rows, which are treated as public."""
    note = "on hold-out rows, which the guarantee does not cover"
    return tuple(
        Metric(f"mean loss {name}", float(mean_value(loss, x, _holdout())[0]), False, note)
        for name, x in points.items()
    )


def rand_setting(covered: str, invariants: tuple[str, ...], *notes: str) -> Setting:
    """One row is protected; the caveats of the data come before the notes."""
    return Setting(
        controller="the person who runs this command",
        unit_entity="row of the data (a person-year)",
        data="RAND Health Insurance Experiment",
        unit_bound=f"one row; a person contributes up to {randhie.ROWS_PER_PERSON_AT_MOST} rows",
        covered=(covered,),
        uncovered=("evaluation on 4,038 hold-out rows, treated as public",),
        invariants=invariants,
        notes=(*randhie.CAVEATS, *notes),
    )
