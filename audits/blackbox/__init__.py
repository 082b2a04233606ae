"""Black-box mechanisms from the literature, right and wrong, as data: the audits' proving ground.

Every case has a claim, a worst-case pair of neighbours, the domain and relation the pair is from,
and for the wrong ones an event that shows it; right ones share their code with wrong twins.
"""

from __future__ import annotations

from audits.blackbox import (
    clipping,
    composition,
    control_flow,
    floating,
    local,
    noisy_max,
    randomness,
    rare,
    recorded,
    sampling,
    scale,
    selection,
    sensitivity,
    sparse_vector,
    support,
    training,
)
from audits.blackbox.case import Case, Domain, Pair, Relation

__all__ = ["Case", "Domain", "Pair", "Relation", "catalogue"]

FAMILIES = (
    sparse_vector.FAMILY,
    noisy_max.FAMILY,
    sensitivity.FAMILY,
    clipping.FAMILY,
    scale.FAMILY,
    composition.FAMILY,
    sampling.FAMILY,
    randomness.FAMILY,
    control_flow.FAMILY,
    support.FAMILY,
    floating.FAMILY,
    rare.FAMILY,
    local.FAMILY,
    selection.FAMILY,
    training.FAMILY,
    recorded.FAMILY,
)


def catalogue() -> tuple[Case, ...]:
    """All cases, family by family."""
    return tuple(case for family in FAMILIES for case in family.cases)
