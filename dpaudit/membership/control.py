"""Training without noise, or with its clip off, for a positive control."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from typing import Any
from unittest.mock import patch

import numpy as np

# PyTorch's functions of norms by which gradients are clipped, by their names in its dispatcher.
_TORCH_NORMS = {"norm", "vector_norm", "linalg_norm", "linalg_vector_norm", "_foreach_norm"}


class Without(StrEnum):
    """The part of a training that is left out."""

    NOTHING = ""
    NOISE = "noise"
    CLIP = "clip"


class Silent(np.random.Generator):
    """A generator whose normal and Laplace draws are their location; all other draws are drawn.

    Batches, orders and seeds are as random as ever; noise that training draws elsewhere stays.
    """

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        return _located(loc, scale, size)

    def laplace(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        return _located(loc, scale, size)

    def standard_normal(self, size: Any = None, *_: Any, **__: Any) -> Any:
        return _located(0.0, 1.0, size)

    def multivariate_normal(  # type: ignore[override]
        self, mean: Any, cov: Any, size: Any = None, **_: Any
    ) -> Any:
        shape = () if size is None else tuple(np.atleast_1d(size))
        return np.broadcast_to(np.asarray(mean, dtype=np.float64), (*shape, len(mean))).copy()


def _located(loc: Any, scale: Any, size: Any) -> Any:
    shape = np.broadcast_shapes(np.shape(loc), np.shape(scale)) if size is None else size
    return (
        np.broadcast_to(np.asarray(loc, dtype=np.float64), shape).copy()
        if shape != ()
        else float(loc)
    )


def generator_of(without: Without, rng: np.random.Generator) -> np.random.Generator:
    """The generator that a training is given: silent where it is to be without noise."""
    return Silent(rng.bit_generator) if without is Without.NOISE else rng


@contextmanager
def clip_off(target: Any) -> Iterator[Any]:
    """The target whose clip is off: by itself where it can, as ``TorchTarget`` of Opacus does.

    In code of a user's own norms are 0 meanwhile, so that a clip by ``numpy.linalg.norm``, or by
    PyTorch's norms and what calls them (``clip_grad_norm_``, Opacus), leaves gradients as they are.
    """
    if hasattr(target, "unclipped"):
        yield target.unclipped()
        return
    numpy_norm = np.linalg.norm

    def no_norm(*args: Any, **kwargs: Any) -> Any:
        return np.zeros_like(numpy_norm(*args, **kwargs))[()]

    with ExitStack() as stack:
        stack.enter_context(patch.object(np.linalg, "norm", no_norm))
        if "torch" in sys.modules:
            stack.enter_context(_torch_norms_off())
        yield target


def _torch_norms_off() -> Any:
    import torch
    from torch.overrides import TorchFunctionMode

    def called(_: Any, func: Any, __: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") not in _TORCH_NORMS:
            return found
        several = isinstance(found, (list, tuple))
        return [torch.zeros_like(x) for x in found] if several else torch.zeros_like(found)

    return type("NoNorms", (TorchFunctionMode,), {"__torch_function__": called})()
