"""Noise in 64-bit floats of the operating system's random bits alone: no state to be recovered."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import ndtri

from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array
from dpaudit.kernels.random_bits import Words, bits_of, uniform_below

Size = int | tuple[int, ...] | None


class SystemGenerator:
    """Draws as a :class:`numpy.random.Generator` does, each number of fresh bits of the system's.

    It has the laws that kernels and secret batches need, each a transform of a uniform number.
    Errors: InvalidParameter for another distribution.
    """

    bytes = staticmethod(lambda count: bits_of(None)(-(-count // 8)).tobytes()[:count])

    def random(self, size: Size = None) -> Any:
        """Uniform on the multiples of 2^-53 in [0, 1)."""
        return _shaped((_words(size) >> np.uint64(11)) * 2.0**-53, size)

    def integers(self, low: int, high: int | None = None, size: Size = None) -> Any:
        """Exactly uniform on low, ..., high - 1, or on 0, ..., low - 1."""
        start, end = (0, low) if high is None else (low, high)
        bounds = np.full(_count(size), end - start, dtype=np.int64)
        return _shaped(start + uniform_below(bounds, bits_of(None)), size)

    def standard_normal(self, size: Size = None) -> Any:
        """N(0, 1), by its quantiles on either side of 0."""
        share, sign = _halves(_words(size))
        return _shaped(sign * ndtri(share / 2), size)

    def laplace(self, loc: float = 0.0, scale: float = 1.0, size: Size = None) -> Any:
        """Density exp(-|x - loc| / scale) / (2 scale)."""
        share, sign = _halves(_words(size))
        return _shaped(loc + scale * sign * np.log(share), size)

    def gumbel(self, loc: float = 0.0, scale: float = 1.0, size: Size = None) -> Any:
        """Distribution function exp(-exp(-(x - loc) / scale))."""
        share, _ = _halves(_words(size))
        return _shaped(loc - scale * np.log(-np.log(share)), size)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise InvalidParameter(
            f"a run on data draws bytes, random, integers, standard_normal, laplace and gumbel of "
            f"the operating system's entropy; not {name}: let the kernel transform one of these"
        )


def _count(size: Size) -> int:
    return math.prod(size) if isinstance(size, tuple) else 1 if size is None else int(size)


def _words(size: Size) -> Words:
    return bits_of(None)(_count(size))


def _halves(words: Words) -> tuple[Array, Array]:
    """A uniform number inside (0, 1), of 53 bits, and a sign of another."""
    share = ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    return share, np.where(words & np.uint64(1), 1.0, -1.0)


def _shaped(drawn: Any, size: Size) -> Any:
    return drawn[0] if size is None else drawn.reshape(size)
