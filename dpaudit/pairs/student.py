"""Student's t noise, moved by one."""

from __future__ import annotations

from dataclasses import dataclass

from dpaudit.exact import Number, log, sqrt
from dpaudit.pairs.balls import Ball, Delta, number, positive
from dpaudit.pairs.core import Extremes, Symmetric


@dataclass(frozen=True)
class StudentShift(Symmetric):
    """Student's t noise of ``scale`` and ``degrees`` degrees of freedom around 1 against around 0.

    With v degrees, scale s and r = x^(2 / (v + 1)) >= 1, the noise around 0 is x times as likely as
    that around 1 where (r - 1) y^2 + 2 y - 1 + (r - 1) v s^2 < 0: between two places.
    """

    scale: Number
    degrees: Number

    def delta(self, x: Ball, of: Delta | None = None) -> Ball:
        """P(S) - x Q(S) between the two places; by symmetry for x < 1."""
        if x < 1:
            return 1 - x + x * self.delta(1 / x)
        scale, degrees = number(self.scale), number(self.degrees)
        if not x > 1:
            # delta falls by at most as much as x rises.
            middle = 1 / (2 * scale)
            return self._between(-middle, middle) + number(0).union(x - 1).union(1 - x)
        more = x ** (2 / (degrees + 1)) - 1
        square = 1 + more - degrees * (more * scale) ** 2
        if square <= 0:
            return number(0)
        root = positive(square).sqrt()
        low, high = -(1 + root) / more, (1 - more * degrees * scale**2) / (1 + root)
        near, far = (self._between((low - m) / scale, (high - m) / scale) for m in (0, 1))
        return positive(near - x * far)

    def _between(self, low: Ball, high: Ball) -> Ball:
        """Mass between two places of the noise of scale 1, from the tails on their side of 0."""
        if high < 0:
            low, high = -high, -low
        return self._above(low) - self._above(high)

    def _above(self, y: Ball) -> Ball:
        """Mass above ``y`` of the noise of scale 1: an incomplete beta function, small far out."""
        if y < 0:
            return 1 - self._above(-y)
        half, degrees = number(1) / 2, number(self.degrees)
        if not y > 0:
            # The density is below 1/2 everywhere.
            return half + (y / 2).union(-y / 2)
        return (degrees / (degrees + y**2)).beta_lower(degrees / 2, half, True) / 2

    @property
    def extremes(self) -> Extremes:
        """(v + 1) asinh(1 / (2 s sqrt(v))), where the two places meet."""
        half = 1 / (2 * self.scale * sqrt(self.degrees))
        largest = (self.degrees + 1) * log(half + sqrt(half**2 + 1))
        return largest, largest
