"""The scale of a release: its noise multiplier times its query's sensitivity, checked."""

from __future__ import annotations

import numpy as np

from dpaudit.curator.entitlement import Grant, Mask
from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array, Query
from dpaudit.scope import Scope

SMALLEST_SCALE = 1e-280


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
            f"not {query.norm}"
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
