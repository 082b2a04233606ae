"""Candidate thresholds of a score: between neighbouring scores, ties respected, tails kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

# Relative distance below which two scores are ties: rounding makes larger ones.
TIE_TOLERANCE = 1e-9
_MAX_ALL_TRIED = 2_048  # Thresholds up to which every one is tried.
_TAIL_RANKS = 600  # Number of geometrically spaced ranks that are tried in each tail otherwise.


def candidates(alternative: FloatArray, null: FloatArray) -> FloatArray:
    """Thresholds worth trying, between neighbouring sorted scores; never empty.

    Scores closer than 1e-9 count as tied: rounding inside an atom is no signal.  Beyond 2,048
    candidates, ranks are thinned geometrically from both tails.
    Shapes: ``alternative`` and ``null`` are sorted, (trials,), finite or infinite.
    """
    scores = np.unique(np.concatenate([alternative, null]))
    below, above = scores[:-1], scores[1:]
    size = np.minimum(np.abs(below), np.abs(above))
    distinct = above / 2 - below / 2 > TIE_TOLERANCE / 2 * np.maximum(1.0, size)
    below, above = below[distinct], above[distinct]
    if below.size == 0:
        return scores[-1:]
    if below.size > _MAX_ALL_TRIED:
        useful = _tail_ranks(alternative, null, above)
        below, above = below[useful], above[useful]
    middle = below / 2 + above / 2
    return np.asarray(np.where((below <= middle) & (middle < above), middle, below))


def at_most(ordered: FloatArray, thresholds: FloatArray) -> FloatArray:
    """How many of the sorted scores are at most each threshold."""
    return np.searchsorted(ordered, thresholds, "right").astype(np.float64)


def _tail_ranks(alternative: FloatArray, null: FloatArray, above: FloatArray) -> Any:
    """Indices of gaps: those that leave k null scores above or k alternative ones below."""
    ranks = (
        np.unique(np.geomspace(1, max(alternative.size, null.size), _TAIL_RANKS).astype(int)) - 1
    )
    highest_null = null[::-1][ranks[ranks < null.size]]
    lowest_alternative = alternative[ranks[ranks < alternative.size]]
    after_null = np.searchsorted(above, highest_null, "right")
    before_alternative = np.searchsorted(above, lowest_alternative, "left")
    edges = np.concatenate([after_null, before_alternative])
    return np.unique(np.clip(edges, 0, above.size - 1))
