"""Rotated vectors under secure aggregation: rounded to whole numbers that stay in a ball."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array, Norm, Records, clip_rows
from dpaudit.scope import Adjacency, choose


def rounded_squares(radius: float, grain: float, dimension: int, beta: float) -> int:
    """How large the squares of a rounded vector may be before its rounding is drawn again.

    With r = radius / grain, the smaller one of (r + sqrt(d))^2, which no rounding exceeds, and
    r^2 + d / 4 + sqrt(2 log(1 / beta)) (r + sqrt(d) / 2), which a rounding up or down at random,
    with the vector for its mean, exceeds with probability at most beta.
    Errors: InvalidParameter for values outside of their domains.
    Source: Kairouz, Liu, Steinke 2021, Algorithm 1 (rotation, conditional rounding).

    >>> from dpaudit.families.distributed.rotated import rounded_squares
    >>> rounded_squares(radius=1, grain=0.125, dimension=4, beta=0.6065)
    74
    """
    if not (0 < radius < math.inf and 0 < grain < math.inf and dimension >= 1 and 0 < beta < 1):
        raise InvalidParameter(
            f"rounded_squares: radius = {radius}, grain = {grain}, dimension = {dimension}, "
            f"beta = {beta}: expected positive ones, and beta below 1"
        )
    r, root = radius / grain, math.sqrt(dimension)
    likely = r**2 + dimension / 4 + math.sqrt(2 * math.log(1 / beta)) * (r + root / 2)
    return math.floor(min((r + root) ** 2, likely))


def rotated(rows: Array, signs: Array) -> Array:
    """H diag(signs) row / sqrt(d) for every row, (..., d): a Walsh-Hadamard matrix H, d = 2^k.

    Lengths stay; :func:`unrotated` takes it back.
    """
    return _hadamard(rows * signs)


def unrotated(rows: Array, signs: Array) -> Array:
    """The vectors that :func:`rotated` gives rows for; signs are 1 or -1."""
    return _hadamard(rows) * signs


def _hadamard(rows: Array) -> Array:
    """Sums and differences of halves, over again, over the root of d."""
    d = rows.shape[-1]
    transformed = np.asarray(rows, dtype=np.float64)
    width = 1
    while width < d:
        halves = transformed.reshape(*rows.shape[:-1], d // (2 * width), 2, width)
        first, second = halves[..., 0, :], halves[..., 1, :]
        transformed = np.stack([first + second, first - second], axis=-2).reshape(rows.shape)
        width *= 2
    return transformed / math.sqrt(d)


@dataclass(frozen=True, eq=False)
class RotatedTotals:
    """sum_i round(rotate(clip(f(record_i), radius)) / grain): whole numbers, a client a record.

    ``signs``, (trials, d), 1 or -1, and ``dither``, (trials, tries, n, d), from 0 up to 1, are
    public coins; d is a power of two of at least f's dimension (zeros are appended).  A coordinate
    is rounded to floor(x + dither), whose mean is x.  The first of the tries whose squares add up
    to at most ``squares`` counts, and where none does x is rounded towards 0; so that whatever the
    coins are, one record adds squares of at most ``squares``, and an absent one adds 0.  Replaced,
    it moves the sum by at most twice the root.
    Errors: InvalidParameter for coins of other shapes, or squares that rounding towards 0 exceeds.
    Source: Kairouz, Liu, Steinke 2021, Algorithm 1, with coins that everybody may see.
    """

    per_record: Callable[[Array], Array]
    radius: float
    grain: float
    signs: Array
    dither: Array
    squares: int
    norm: ClassVar[Norm] = "l2"

    def __post_init__(self) -> None:
        d = self.signs.shape[-1]
        if self.signs.ndim != 2 or d & (d - 1) or not np.all(np.abs(self.signs) == 1):
            raise InvalidParameter("RotatedTotals.signs: expected 1 or -1, 2^k of them a trial")
        inside = np.all((self.dither >= 0) & (self.dither < 1))
        if self.dither.ndim != 4 or self.dither.shape[-1] != d or not inside:
            raise InvalidParameter(
                "RotatedTotals.dither: expected (trials, tries, records, d) from 0 up to 1"
            )
        if not (self.radius > 0 and self.grain > 0 and math.isfinite(self.radius / self.grain)):
            raise InvalidParameter("RotatedTotals: expected a positive radius and grain")
        if self.squares < math.floor((self.radius / self.grain) ** 2):
            raise InvalidParameter(
                f"RotatedTotals.squares = {self.squares}: rounding towards 0 may exceed that"
            )

    @property
    def exchangeable(self) -> bool:
        """Each record has coins of its own."""
        return False

    def value(self, records: Records, chosen: NDArray[np.bool_] | None = None) -> Array:
        """Whole numbers, shape (trials, d)."""
        if chosen is not None:
            raise InvalidParameter("RotatedTotals: a client a record: no batches")
        if len(records) != self.dither.shape[2]:
            raise InvalidParameter(
                f"RotatedTotals: {len(records)} records, coins for {self.dither.shape[2]}"
            )
        d = self.signs.shape[-1]
        rows = np.asarray(self.per_record(records.values), dtype=np.float64)
        if rows.ndim != 3 or rows.shape[-1] > d:
            raise InvalidParameter(f"RotatedTotals: rows of shape {rows.shape}, signs for {d}")
        rows = clip_rows(rows, np.full(rows.shape[0], float(self.radius)))
        rows = np.pad(rows * records.present[:, None], ((0, 0), (0, 0), (0, d - rows.shape[-1])))
        scaled = rotated(rows, self.signs[:, None, :]) / self.grain
        return np.asarray(self.rounded(scaled).sum(axis=1))

    def rounded(self, scaled: Array) -> Array:
        """Each record's first rounding of squared norm at most ``squares``; otherwise truncated.

        ``scaled`` and the result: (trials, n, d).
        """
        tries = np.floor(scaled[:, None] + self.dither)
        short_enough = (tries**2).sum(axis=-1) <= self.squares
        first = np.argmax(short_enough, axis=1)[:, None, :, None]
        drawn = np.take_along_axis(tries, first, axis=1)[:, 0]
        down = np.trunc(scaled)
        # A float that rounding has above the radius counts for nothing.
        down = np.where((down**2).sum(axis=-1, keepdims=True) <= self.squares, down, 0.0)
        return np.where(short_enough.any(axis=1)[..., None], drawn, down)

    def sensitivity(self, adjacency: Adjacency, size: int) -> Array:
        """The root of ``squares``, twice that where a record is replaced."""
        adjacency = choose(Adjacency, adjacency, "RotatedTotals.sensitivity: adjacency")
        if adjacency is Adjacency.ADD_REMOVE:
            raise InvalidParameter("RotatedTotals: so many clients: use zero_out or replace_one")
        factor = 2.0 if adjacency is Adjacency.REPLACE_ONE else 1.0
        return np.asarray(factor * math.sqrt(self.squares))
