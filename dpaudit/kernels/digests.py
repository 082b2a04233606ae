"""Residuals of releases with a bottom outcome, with numbers made of what was released.

A residual has no generator; where it needs a uniform number it hashes the batch, and what tells
this release from others of the same outcome where its session was given that.
"""

from __future__ import annotations

from hashlib import sha256

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpaudit.kernels.query import Array

TINY = 1e-300
UNLIKELY = -20.0  # log chance of nothing but bottom, below which a batch of it is a finding


def hashed(released: Array, columns: int, apart: bytes = b"") -> Array:
    """Numbers in (0, 1), (trials, columns), from a SHA-256 of ``apart`` and the whole batch."""
    digest = sha256(apart + np.ascontiguousarray(released).tobytes()).digest()
    seed = int.from_bytes(digest, "big")
    drawn = np.random.default_rng(seed).random((len(released), columns))
    return np.clip(drawn, TINY, 1 - 2.0**-53)


def is_bottom(released: Array) -> NDArray[np.bool_]:
    """Rows with no number in them, (trials,)."""
    return np.asarray(np.isnan(released).all(axis=-1))


def tested_residual(released: Array, log_failing: Array, noise: Array, apart: bytes) -> Array:
    """A column for the outcome of a test, then the ``noise`` of what passed; (trials, 1 + d).

    The outcome is a uniform number of its share of [0, 1], mapped to normal; ``log_failing``: log
    P(bottom).  Below bottom nothing else was drawn: the noise is made of a hash.  Rows whose noise
    is not known (NaN, whatever was released) are NaN.  So are all rows, whatever came, where
    ``apart`` (a kernel's ``told_apart``) is empty and a batch of nothing but bottom
    has a chance above e^-20: two of them have the same hashes, and to leave out just those would
    tell on the rest, which are then too often no bottom.
    """
    if not apart and log_failing.sum() > UNLIKELY:
        return np.full((len(noise), 1 + noise.shape[1]), np.nan)
    bottom, drawn = is_bottom(released), hashed(released, 1 + noise.shape[1], apart)
    share, unknown = np.exp(log_failing), np.isnan(noise.sum(axis=1))
    outcome = np.where(bottom, share * drawn[:, 0], share + (1 - share) * drawn[:, 0])
    shown = np.where(bottom[:, None], ndtri(drawn[:, 1:]), noise)
    found = np.hstack([ndtri(np.clip(outcome, TINY, 1 - 2.0**-53))[:, None], shown])
    return np.where(unknown[:, None], np.nan, found)
