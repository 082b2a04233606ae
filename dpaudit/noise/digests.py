"""Uniform numbers made of what was released, where a residual needs some and has no generator."""

from __future__ import annotations

from hashlib import sha256

import numpy as np

from dpaudit.query import Array

TINY = 1e-300


def hashed(released: Array, columns: int) -> Array:
    """Numbers in (0, 1), (trials, columns), from a SHA-256 of the whole batch."""
    seed = int.from_bytes(sha256(np.ascontiguousarray(released).tobytes()).digest(), "big")
    drawn = np.random.default_rng(seed).random((len(released), columns))
    return np.clip(drawn, TINY, 1 - 2.0**-53)
