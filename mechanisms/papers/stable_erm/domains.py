"""Convex sets of parameters: projections, and how far a point is from an optimum over them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array

Flags = NDArray[np.bool_]
EDGE = 1e-12  # relative: how far from a boundary rounding may leave a projection
# Of sums and points: of a small ball far from 0 that is more; certificates add it to the error.
ULPS = 2.0**-51


class Domain(Protocol):
    """A closed convex set; points are (trials, d) or (trials, subsets, d)."""

    @property
    def diameter(self) -> float:
        """The largest distance of two of its points."""

    def project(self, points: Array) -> Array:
        """The nearest points."""

    def residual(self, points: Array, gradients: Array) -> Array:
        """At least dist(0, gradient + normal cone), (trials,), at points (trials, d)."""

    def margin(self, points: Array) -> Array:
        """At most the distance to the boundary, (trials,), negative outside."""

    def of(self, chosen: Flags) -> Domain:
        """The domains of some trials, where they differ."""


@dataclass(frozen=True)
class Everywhere:
    """All of R^d."""

    @property
    def diameter(self) -> float:
        return math.inf

    def project(self, points: Array) -> Array:
        return points

    def residual(self, points: Array, gradients: Array) -> Array:
        return np.asarray(np.linalg.norm(gradients, axis=-1))

    def margin(self, points: Array) -> Array:
        return np.full(len(points), np.inf)

    def of(self, chosen: Flags) -> Everywhere:
        return self


@dataclass(frozen=True)
class Box:
    """|x_j| <= ``half_width`` in ``dimension`` coordinates.

    Errors: InvalidParameter for a width that is not positive and finite.
    """

    half_width: float
    dimension: int

    def __post_init__(self) -> None:
        _positive(self.half_width, "Box.half_width")
        _positive(self.dimension, "Box.dimension")

    @property
    def diameter(self) -> float:
        return 2 * self.half_width * math.sqrt(self.dimension)

    def project(self, points: Array) -> Array:
        return np.clip(points, -self.half_width, self.half_width)

    def residual(self, points: Array, gradients: Array) -> Array:
        edge = self.half_width * (1 - EDGE)
        left = np.where(points >= edge, np.maximum(gradients, 0.0), gradients)
        return np.asarray(
            np.linalg.norm(np.where(points <= -edge, np.minimum(left, 0), left), axis=-1)
        )

    def margin(self, points: Array) -> Array:
        return np.asarray(self.half_width - np.abs(points).max(axis=-1))

    def of(self, chosen: Flags) -> Box:
        return self


@dataclass(frozen=True, eq=False)
class Ball:
    """||x - centre|| <= radius; ``radius`` a number or (trials,), ``centre`` 0 or (trials, d).

    Errors: InvalidParameter for a radius that is not positive and finite.
    """

    radius: Array | float
    centre: Array | float = 0.0

    def __post_init__(self) -> None:
        _positive(float(np.min(self.radius)), "Ball.radius")
        _positive(float(np.max(self.radius)), "Ball.radius")

    @property
    def diameter(self) -> float:
        return 2 * float(np.max(self.radius))

    def project(self, points: Array) -> Array:
        away, norm, radius = self._polar(points)
        shrunk = radius / np.where(norm > 0, norm, 1.0)
        return np.where(norm <= radius, points, points - away * (1 - shrunk))

    def residual(self, points: Array, gradients: Array) -> Array:
        away, norm, radius = self._polar(points)
        normal = away / np.where(norm > 0, norm, 1.0)
        push = np.maximum(-(gradients * normal).sum(axis=-1, keepdims=True), 0.0)
        left = gradients + np.where(norm >= radius - _off(points, radius), push, 0.0) * normal
        return np.asarray(np.linalg.norm(left, axis=-1))

    def margin(self, points: Array) -> Array:
        _, norm, radius = self._polar(points)
        return np.asarray((radius - norm)[..., 0])

    def of(self, chosen: Flags) -> Ball:
        radius, centre = np.asarray(self.radius), np.asarray(self.centre)
        return Ball(
            radius[chosen] if radius.ndim else self.radius,
            centre[chosen] if centre.ndim else self.centre,
        )

    def _polar(self, points: Array) -> tuple[Array, Array, Array]:
        """Offsets from the centre, their norms and the radius, shaped to fit the points."""
        centre, radius = np.asarray(self.centre), np.asarray(self.radius)[..., None]
        if points.ndim == 3:
            centre = centre[:, None] if centre.ndim else centre
            radius = radius[:, None] if radius.ndim > 1 else radius
        away = points - centre
        return away, np.linalg.norm(away, axis=-1, keepdims=True), radius


@dataclass(frozen=True, eq=False)
class Lens:
    """The intersection of two balls that meet: projections in closed form.

    A point outside both goes to the nearer of its two projections if that is in the other ball, and
    to the sphere in which the boundaries meet otherwise.
    """

    first: Ball
    second: Ball

    @property
    def diameter(self) -> float:
        return min(self.first.diameter, self.second.diameter)

    def project(self, points: Array) -> Array:
        one, two = self.first.project(points), self.second.project(points)
        in_second = _inside(self.second, one)
        in_first = _inside(self.first, two)
        return np.where(in_second, one, np.where(in_first, two, self._edge(points)))

    def residual(self, points: Array, gradients: Array) -> Array:
        return np.minimum(
            self.first.residual(points, gradients), self.second.residual(points, gradients)
        )

    def margin(self, points: Array) -> Array:
        return np.minimum(self.first.margin(points), self.second.margin(points))

    def of(self, chosen: Flags) -> Lens:
        return Lens(self.first.of(chosen), self.second.of(chosen))

    def _edge(self, points: Array) -> Array:
        away, _, radius = self.first._polar(points)
        other, _, second = self.second._polar(points)
        axis = away - other
        distance = np.linalg.norm(axis, axis=-1, keepdims=True)
        axis = axis / np.where(distance > 0, distance, 1.0)
        height = (distance**2 + radius**2 - second**2) / np.where(distance > 0, 2 * distance, 1.0)
        across = away - (away * axis).sum(axis=-1, keepdims=True) * axis
        norm = np.linalg.norm(across, axis=-1, keepdims=True)
        rim = np.sqrt(np.maximum(radius**2 - height**2, 0.0))
        meeting = points - away + height * axis + rim * across / np.where(norm > 0, norm, 1.0)
        return np.asarray(meeting)


def _inside(ball: Ball, points: Array) -> Array:
    _, norm, radius = ball._polar(points)
    return np.asarray(norm <= radius + _off(points, radius))


def _off(points: Array, radius: Array) -> Array:
    """How far from a boundary rounding may leave a point."""
    rounding = ULPS * np.linalg.norm(points, axis=-1, keepdims=True)
    return np.asarray(np.maximum(EDGE * radius, rounding))


def _positive(value: float, place: str) -> None:
    if not (math.isfinite(value) and value > 0):
        raise InvalidParameter(f"{place} = {value}: expected a positive number")
