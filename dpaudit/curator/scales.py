"""The scale of a release: its noise multiplier times its query's sensitivity, checked."""

from __future__ import annotations

import numpy as np

from dpaudit.curator.entitlement import Grant, Mask
from dpaudit.errors import DpauditError, InvalidParameter
from dpaudit.kernels.query import Array, Query
from dpaudit.nodes import Node
from dpaudit.scope import Adjacency, Scope

SMALLEST_SCALE = 1e-280  # squares of smaller scales are no floats


def scaled(
    label: str, query: Query, grant: Grant, among: tuple[Scope, int], mask: Mask
) -> tuple[Array, Array]:
    """Scale and sensitivity of each trial, (trials,); ``among``: the scope and how many rows.

    Under a filter the scale is rounded up, so that a charge made of the multiplier is one of the
    noise that is drawn.
    Errors: InvalidParameter for a norm, a shape or a sensitivity that does not fit.
    """
    kernel, trials = grant.entitlement.kernel, len(mask)
    if query.norm != kernel.norm:
        raise InvalidParameter(
            f"release {label!r}: {kernel.__name__} needs a query bounded in {kernel.norm}, "
            f"not {query.norm}; state norm={kernel.norm!r} if its sensitivity holds in that norm "
            "(for one number all norms agree)"
        )
    bound = np.asarray(query.sensitivity(among[0].adjacency, among[1]), dtype=np.float64)
    if bound.shape not in ((), (1,), (trials,)):
        raise InvalidParameter(
            f"release {label!r}: its sensitivity has shape {bound.shape}, not ({trials},)"
        )
    sensitivity = np.broadcast_to(bound, (trials,))
    with np.errstate(all="ignore"):
        product = grant.multipliers * sensitivity
        if grant.spending is not None:
            product = np.where(product > 0, np.nextafter(product, np.inf), product)
        scale = np.where(mask, product, 1.0)
    if not (np.isfinite(scale).all() and (sensitivity[mask] >= 0).all()):
        raise InvalidParameter(
            f"release {label!r}: its sensitivity is not a finite number in a trial that is on"
        )
    if ((scale < SMALLEST_SCALE) & (sensitivity > 0)).any():
        raise InvalidParameter(f"release {label!r}: its noise is too small for float64")
    return scale, sensitivity


def require_neutral(
    label: str, query: Query, sampling: Node | None, scope: Scope, size: int
) -> None:
    """Whether a query on a batch is what its sampling declares of records that are not drawn.

    Accounting under replace_one alone rests on it.
    Errors: InvalidParameter for a query that does not state it, or of which one record moves more
    than half of its sensitivity under replace_one.
    """
    declared = getattr(sampling, "undrawn", None)
    if declared is None or scope.adjacency is not Adjacency.REPLACE_ONE:
        return
    declares = f"release {label!r}: it is declared in a sample with undrawn={declared!r}"
    way_out = "release a clipped sum (clipped_sum, ClippedMean), or declare the sample without it"
    if getattr(query, "neutral", False) is not True:
        raise InvalidParameter(
            f"{declares}, and its query, {type(query).__name__}, does not state that a record that "
            f"is not drawn adds zero; give a query of your own neutral = True if so, or {way_out}"
        )
    try:
        alone, replaced = (
            np.asarray(query.sensitivity(adjacency, size), dtype=np.float64)
            for adjacency in (Adjacency.ZERO_OUT, Adjacency.REPLACE_ONE)
        )
    except DpauditError as error:
        raise InvalidParameter(
            f"{declares}, and its query has no sensitivity under zero_out ({error}), which is what "
            f"one record adds; state it, or {way_out}"
        ) from None
    if not (2 * alone <= replaced).all():
        raise InvalidParameter(
            f"{declares}, and one record adds more than half of its query's sensitivity under "
            f"replace_one; let the sensitivity be twice that under zero_out, or {way_out}"
        )
