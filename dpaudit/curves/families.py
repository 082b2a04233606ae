"""Closed forms of the pairs: normal, Laplace, atoms, discrete normal, their mixtures and swaps."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import special

from dpaudit.arithmetic import Number, enclose
from dpaudit.curves.cells import UNIT, Cells
from dpaudit.curves.closed import Closed, as_float, cells_of, closed, closed_form
from dpaudit.curves.discrete import (
    MAXIMUM_NODES,
    Discrete,
    Floats,
    Grid,
    Side,
    TooFine,
    discretiser,
)
from dpaudit.errors import Unsupported
from dpaudit.pairs import (
    Atoms,
    DiscreteNormal,
    LaplaceShift,
    Mixed,
    Normal,
    Spliced,
    Swapped,
)

NORMAL_FACTOR = 32 * UNIT
SMALLEST_TAIL = 1e-300


# --- the normal distribution ---------------------------------------------------------------------


def lower_normal(z: Floats) -> Floats:
    """Phi(z) for z <= 0 with relative error at most ``NORMAL_FACTOR`` (a test pins it to Arb).

    Phi(z) = exp(-z^2 / 2) erfcx(-z / sqrt 2) / 2, with z^2 as a sum of two floats (Dekker 1971):
    one float would lose z^2 ulps.
    """
    z = np.maximum(z, -1e6)
    split = z * 134217729.0
    head = split - (split - z)
    rest = z - head
    square = z * z
    error = ((head * head - square) + 2 * head * rest) + rest * rest
    value: Floats = 0.5 * special.erfcx(-z / math.sqrt(2)) * np.exp(-square / 2) * (1 - error / 2)
    return value


def normal_between(z: Floats) -> Floats:
    """Standard normal masses between successive edges, taken on the smaller tail."""
    tail = lower_normal(-np.abs(z))
    left = z < 0
    masses = np.diff(np.where(left, tail, -tail))
    masses[left[:-1] & ~left[1:]] += 1
    return masses


def quantile(tail: float) -> float:
    """z with Phi(-z) close to, and not above, the tail."""
    return float(-special.ndtri(min(max(tail, SMALLEST_TAIL), 0.4))) * (1 + 1e-9)


@closed_form(Normal)
def _normal(pair: Normal, tail: float) -> Closed:
    mu = as_float(pair.mu, "mu")
    if mu == 0:
        return point()
    z = quantile(tail)

    def masses(edges: Floats) -> tuple[Floats, Floats]:
        return normal_between(edges / mu - mu / 2), normal_between(edges / mu + mu / 2)

    half = mu * mu / 2
    farthest = z + mu
    return Closed(
        masses,
        (-half - mu * z, half + mu * z),
        edge_error=4 * UNIT * (mu * farthest + half),
        relative=NORMAL_FACTOR + 4 * UNIT * farthest * farthest,
    )


def point() -> Closed:
    """Two equal distributions: all mass at loss 0."""
    return _finite(np.array([0.0]), np.array([1.0]), np.array([1.0]), 0.0)


# --- Laplace -------------------------------------------------------------------------------------


@closed_form(LaplaceShift)
def _laplace(pair: LaplaceShift, tail: float) -> Closed:
    epsilon = as_float(pair.epsilon, "epsilon")

    def masses(edges: Floats) -> tuple[Floats, Floats]:
        inner = np.clip(edges, -epsilon, epsilon)
        low, high = inner[:-1], inner[1:]
        part = -np.expm1((low - high) / 2) / 2
        p, q = part * np.exp((high - epsilon) / 2), part * np.exp(-(epsilon + low) / 2)
        small = math.exp(-epsilon) / 2
        for loss, at_p, at_q in ((epsilon, 0.5, small), (-epsilon, small, 0.5)):
            k = _cell(edges, np.array([loss]))
            p[k] += at_p
            q[k] += at_q
        return p, q

    return Closed(masses, (-epsilon, epsilon), 8 * UNIT * epsilon, 16 * UNIT * (1 + epsilon))


# --- finitely many outcomes ----------------------------------------------------------------------


def _cell(edges: Floats, losses: Floats) -> Any:
    """Index of the cell (e_i, e_{i+1}] of every loss; -infinity is in the first."""
    return np.maximum(np.searchsorted(edges, losses, side="left") - 1, 0)


def _finite(losses: Floats, p: Floats, q: Floats, relative: float) -> Closed:
    """Outcomes with their losses (within 8 roundings), P masses and Q masses."""
    finite = losses[np.isfinite(losses)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)

    def masses(edges: Floats) -> tuple[Floats, Floats]:
        cells, size = _cell(edges, losses), len(edges) - 1
        return np.bincount(cells, p, size), np.bincount(cells, q, size)

    error = 8 * UNIT * (1 + max(abs(low), abs(high)))
    return Closed(masses, (low, high), error, relative + 4 * UNIT * len(losses))


@closed_form(Atoms)
def _atoms(pair: Atoms, tail: float) -> Closed:
    p = np.array([as_float(p, "P mass") for p, _ in pair.outcomes])
    q = np.array([as_float(q, "Q mass") for _, q in pair.outcomes])
    losses = np.array([atom_loss(*outcome) for outcome in pair.outcomes])
    return _finite(losses, p, q, 4 * UNIT)


def atom_loss(p: Number, q: Number) -> float:
    """log(p / q) within one rounding; plus or minus infinity where one mass is 0."""
    p_ball, q_ball = enclose(p), enclose(q)
    if p_ball == 0 or q_ball == 0:
        return -math.inf if p_ball == 0 else math.inf
    return float((p_ball / q_ball).log().mid())


@closed_form(DiscreteNormal)
def _discrete_normal(pair: DiscreteNormal, tail: float) -> Closed:
    variance, shift = as_float(pair.variance, "variance"), as_float(pair.shift, "shift")
    if shift != round(shift):
        raise Unsupported(f"discrete normal noise moved by {shift:g}: expected a whole number")
    if shift == 0:
        return point()
    z = quantile(tail) + 1
    reach = math.ceil(z * math.sqrt(variance)) + 2
    if 2 * reach + abs(shift) > MAXIMUM_NODES:
        raise TooFine(f"discrete normal noise of variance {variance:g}: too many outcomes")
    k = np.arange(-reach + min(0.0, shift), reach + max(0.0, shift) + 1)
    total = _theta(variance)
    p, q = (np.exp(-((k - m) ** 2) / (2 * variance)) / total for m in (shift, 0.0))
    losses = shift * (2 * k - shift) / (2 * variance)
    farthest = float(np.max(k * k)) / variance + shift * shift / variance
    return _finite(losses, p, q, 16 * UNIT * (8 + farthest))


def _theta(variance: float) -> float:
    """Sum of exp(-k^2 / (2 variance)) over the integers, within 8 roundings."""
    if variance > 100:
        return math.sqrt(2 * math.pi * variance)
    reach = math.ceil(40 * math.sqrt(variance)) + 2
    return math.fsum(math.exp(-k * k / (2 * variance)) for k in range(-reach, reach + 1))


# --- mixtures, swaps, splices --------------------------------------------------------------------


@closed_form(Mixed)
def _mixed(pair: Mixed, tail: float) -> Closed:
    base = closed(pair.base, tail)
    if base is None:
        raise Unsupported(f"mixture over {type(pair.base).__name__}: no closed form")
    rate = as_float(pair.rate, "rate")
    return base if pair.rate == 1 else _mixture(base, rate)


def _mixture(base: Closed, rate: float) -> Closed:
    """Losses log(1 - rate + rate exp(l)) for the losses l of the base."""
    low, high = (mixed_loss(end, rate) for end in base.span)

    def masses(edges: Floats) -> tuple[Floats, Floats]:
        p, q = base.masses(unmixed_loss(edges, rate))
        return (1 - rate) * q + rate * p, q

    farthest = abs(low) + abs(high) + abs(math.log(rate))
    error = base.edge_error + 8 * UNIT * (2 + farthest + math.exp(-low))
    return Closed(masses, (low, high), error, base.relative + 8 * UNIT)


def mixed_loss(loss: float, rate: float) -> float:
    """log(1 - rate + rate exp(loss))."""
    if loss > 30:
        return loss + math.log(rate) + math.log1p((1 - rate) / rate * math.exp(-loss))
    return math.log1p(rate * math.expm1(loss))


def unmixed_loss(edges: Floats, rate: float) -> Floats:
    """The loss that :func:`mixed_loss` takes to each edge; -infinity below its range."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        near = np.log1p(np.maximum(np.expm1(np.minimum(edges, 30)) / rate, -1))
        far = edges - math.log(rate) + np.log1p(-(1 - rate) * np.exp(-np.maximum(edges, 30)))
    return np.where(edges > 30, far, near)


@closed_form(Swapped)
def _swapped(pair: Swapped, tail: float) -> Closed:
    base = closed(pair.base, tail)
    if base is None:
        raise Unsupported(f"{type(pair.base).__name__} swapped: no closed form")

    def masses(edges: Floats) -> tuple[Floats, Floats]:
        p, q = base.masses(-edges[::-1])
        return q[::-1], p[::-1]

    return Closed(masses, (-base.span[1], -base.span[0]), base.edge_error, base.relative)


@discretiser(Spliced)
def _spliced(pair: Spliced, grid: Grid, side: Side) -> Discrete:
    """Cells above loss 0 from one pair, below from the other; an atom at 0 takes the rest.

    Source: Zhu, Dong, Wang 2022, Proposition 30 (sampling without replacement, replace-one).
    """
    above, below = cells_of(pair.above, grid, 1), cells_of(pair.below, grid, 1)
    if above is None or below is None:
        raise Unsupported("a splice of pairs without closed forms")
    return spliced(above, below).discrete(side)


def spliced(above: Cells, below: Cells) -> Cells:
    """Cells from 0 on of ``above``, cells below 0 of ``below``, and the rest as loss 0."""
    high, low = _from_zero(above), _from_zero(below.swapped()).swapped()
    p = np.concatenate((low.p, high.p))
    q = np.concatenate((low.q, high.q))
    rest_p = max(1 - math.fsum(p) - low.below[0] - high.above[0], 0.0)
    rest_q = max(1 - math.fsum(q) - low.below[1] - high.above[1], 0.0)
    p[len(low.p) - 1] += rest_p
    q[len(low.q) - 1] += rest_q
    right = rest_p + float(np.sum(high.p)) + high.above[0], rest_q + float(np.sum(high.q))
    relative = max(above.relative, below.relative) + 8 * UNIT / max(min(right), 1e-6)
    return Cells(above.step, low.first, p, q, low.below, high.above, relative)


def _from_zero(cells: Cells) -> Cells:
    """The cells from loss 0 on (one empty cell at least); what lies below is left out."""
    lead = max(cells.first, 0)
    p, q = (np.append(np.zeros(lead), m[max(-cells.first, 0) :]) for m in (cells.p, cells.q))
    if len(p) == 0:
        p = q = np.zeros(1)
    return Cells(cells.step, 0, p, q, (0.0, 0.0), cells.above, cells.relative)
