"""The global random generators of libraries, which a program may draw from."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np


@contextmanager
def seeds_kept() -> Iterator[None]:
    """Leave the global generators of Python, NumPy and PyTorch as they were.

    Two runs, each in such a block, draw the same from them.
    """
    python, legacy = random.getstate(), np.random.get_state()  # noqa: NPY002
    torch = sys.modules.get("torch")
    state = None if torch is None else torch.random.get_rng_state()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(legacy)  # noqa: NPY002
        if torch is not None:
            torch.random.set_rng_state(state)
