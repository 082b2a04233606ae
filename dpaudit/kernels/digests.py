"""Numbers made of what was released, and residuals of releases with a bottom outcome."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpaudit.kernels.query import Array

LEAST_PROBABILITY = 1e-300  # Lower limit of a probability, so that its normal score stays finite.


def hashed(released: Array, columns: int) -> Array:
    """Numbers in (0, 1), (trials, columns), from a SHA-256 of the whole batch.

    For densities, which are the same for every data set; residuals need numbers that equal batches
    do not share.
    """
    digest = sha256(np.ascontiguousarray(released).tobytes()).digest()
    seed = int.from_bytes(digest, "big")
    drawn = np.random.default_rng(seed).random((len(released), columns))
    return np.clip(drawn, LEAST_PROBABILITY, 1 - 2.0**-53)


def is_bottom(released: Array) -> NDArray[np.bool_]:
    """Rows with no number in them, (trials,)."""
    return np.asarray(np.isnan(released).all(axis=-1))


def tested_residual(
    released: Array, log_failing: Array, noise: Array, uniforms: Callable[..., Array]
) -> Array:
    """A column for the outcome of a test, then the ``noise`` of what passed; (trials, 1 + d).

    The outcome is a uniform number of its share of [0, 1], mapped to normal; ``log_failing``: log
    P(bottom).  Below bottom nothing else was drawn: the noise is of ``uniforms``, independent of
    everything.  Rows whose noise is not known (NaN, whatever was released) are NaN.
    """
    bottom, drawn = is_bottom(released), uniforms(len(noise), 1 + noise.shape[1])
    share, unknown = np.exp(log_failing), np.isnan(noise.sum(axis=1))
    outcome = np.where(bottom, share * drawn[:, 0], share + (1 - share) * drawn[:, 0])
    shown = np.where(bottom[:, None], ndtri(drawn[:, 1:]), noise)
    columns = np.hstack([ndtri(np.clip(outcome, LEAST_PROBABILITY, 1 - 2.0**-53))[:, None], shown])
    return np.where(unknown[:, None], np.nan, columns)
