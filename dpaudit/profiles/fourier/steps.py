"""The first step of a grid: from the width asked for, on losses with positive probability."""

from __future__ import annotations

import math

from dpaudit.profiles.fourier.search import Parts

LARGEST_STEP = 0.125  # nats of a cell
STEP_SAFETY = 0.75  # Factor on the grid step that the predicted error would allow.
# Relative distance by which a loss with an atom lies beyond its node.  It exceeds the outward
# rounding of masses, so that the atom's chord ends on the node.
ALIGNMENT = 2.0**-40
LEAST_BEYOND = 2.0**-44  # The same as a distance in nats, for small losses.
MOST_BEYOND = 2.0**-10  # The same, relative, at most.
LARGEST_ALIGNED = 8.0  # nats of a step that is aligned with a loss
MULTIPLE_TOLERANCE = 1e-12  # Relative error within which one loss counts as a multiple of another.


def first_step(parts: Parts, width: float) -> float:
    """Widths grow like the number of factors times step^2."""
    total = max(sum(times for _, times in parts), 1)
    return aligned(parts, min(STEP_SAFETY * math.sqrt(width / total), LARGEST_STEP))


def aligned(parts: Parts, step: float) -> float:
    """A step near the one given that divides all losses with atoms, where the least one does."""
    anchors = {anchor for pair, _ in parts for anchor in pair.anchors or ()}
    anchor = min(anchors, default=0.0)
    if anchor <= 0 or step > anchor:
        return _short(step)
    multiples = [other / anchor for other in anchors]
    if any(abs(times - round(times)) > MULTIPLE_TOLERANCE * times for times in multiples):
        return _short(step)
    less = 1 - min(max(ALIGNMENT, LEAST_BEYOND / anchor), MOST_BEYOND)
    if all(pair.is_discrete and pair.anchors is not None for pair, _ in parts):
        return anchor / math.ceil(anchor / max(step, LARGEST_ALIGNED)) * less
    return anchor / max(math.ceil(anchor / step), 1) * less


def _short(step: float) -> float:
    """A float of 12 bits, so that its multiples are exact."""
    mantissa, exponent = math.frexp(step)
    return math.ldexp(math.floor(mantissa * 4096), exponent - 12)
