"""A positive control: the same training by a generator that draws no noise."""

from __future__ import annotations

from typing import Any

import numpy as np


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
