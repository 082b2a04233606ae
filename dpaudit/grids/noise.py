"""Masses by loss: of normal laws, of single outcomes, of mixtures, swaps and splices."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy import special

from dpaudit.errors import Unsupported
from dpaudit.exact import Number, enclose
from dpaudit.grids.cells import UNIT, Cells, Masses
from dpaudit.grids.discrete import Reals
from dpaudit.grids.masses import Closed, Outcomes

NORMAL_FACTOR = 32 * UNIT  # relative error of a normal mass
SMALLEST_TAIL = 1e-300  # tails below are no floats
NOT_CONVEX = 1e-6  # by which a mixture's parts may miss each other through rounding


# --- the normal distribution ---------------------------------------------------------------------


def lower_normal(z: Reals) -> Reals:
    """Phi(z) for z <= 0 with relative error at most ``NORMAL_FACTOR`` (a test pins it to Arb).

    Phi(z) = exp(-z^2 / 2) erfcx(-z / sqrt 2) / 2, with z^2 as a sum of two floats (Dekker 1971):
    one float would lose z^2 ulps.
    """
    z = np.maximum(z, -1e6)
    split = z * 134217729.0
    head = split - (split - z)
    tail = z - head
    square = z * z
    error = ((head * head - square) + 2 * head * tail) + tail * tail
    value: Reals = 0.5 * special.erfcx(-z / math.sqrt(2)) * np.exp(-square / 2) * (1 - error / 2)
    return value


def normal_between(z: Reals) -> Reals:
    """Standard normal masses between successive edges, taken on the smaller tail."""
    tail = lower_normal(-np.abs(z))
    negative = z < 0
    masses = np.diff(np.where(negative, tail, -tail))
    masses[negative[:-1] & ~negative[1:]] += 1
    return masses


def quantile(tail: float) -> float:
    """z with Phi(-z) close to, and not above, the tail."""
    return float(-special.ndtri(min(max(tail, SMALLEST_TAIL), 0.4))) * (1 + 1e-9)


# --- finitely many outcomes ----------------------------------------------------------------------


def point() -> Closed:
    """Two equal distributions: all mass at loss 0."""
    return finite(Outcomes(np.array([0.0]), np.array([1.0]), np.array([1.0])), 0.0)


def finite(outcomes: Outcomes, relative: float, loss_error: float = 0.0) -> Closed:
    """The closed form of finitely many outcomes, with the given relative error of masses.

    Losses err by 8 roundings and ``loss_error``.
    """
    finite = outcomes.losses[np.isfinite(outcomes.losses)]
    span = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)

    def masses(edges: Reals) -> tuple[Reals, Reals]:
        return np.zeros(len(edges) - 1), np.zeros(len(edges) - 1)

    error = 8 * UNIT * max(abs(span[0]), abs(span[1])) + loss_error
    return Closed(masses, outcomes, span, error, relative + 4 * UNIT * len(finite))


@lru_cache(maxsize=4096)
def atom_loss(p: Number, q: Number) -> float:
    """log(p / q) within one rounding; plus or minus infinity where one mass is 0."""
    p_ball, q_ball = enclose(p), enclose(q)
    if p_ball == 0 or q_ball == 0:
        return -math.inf if p_ball == 0 else math.inf
    return float((p_ball / q_ball).log().mid())


# --- mixtures, swaps, splices --------------------------------------------------------------------


def mixture(base: Closed, rate: float) -> Closed:
    """Losses log(1 - rate + rate exp(l)) for the losses l of the base."""
    low, high = map(float, mixed_losses(np.array(base.span), rate))

    def masses(edges: Reals) -> tuple[Reals, Reals]:
        p, q = base.masses(unmixed_loss(edges, rate))
        return (1 - rate) * q + rate * p, q

    farthest = abs(low) + abs(high) + abs(math.log(rate))
    error = base.edge_error + 8 * UNIT * (2 + farthest + math.exp(-low))
    inner = base.outcomes
    losses = mixed_losses(inner.losses, rate)
    outcomes = Outcomes(losses, (1 - rate) * inner.q + rate * inner.p, inner.q)
    low = min(low, float(np.min(losses, initial=np.inf)))
    relative = base.relative + 8 * UNIT + rounded_rest(rate)
    return Closed(masses, outcomes, (low, high), error, relative)


def rounded_rest(rate: float) -> float:
    """How far the rounding of a rate takes 1 - rate, relative to it."""
    return UNIT * rate / (1 - rate)


def mixed_losses(losses: Reals, rate: float) -> Reals:
    """log(1 - rate + rate exp(loss))."""
    with np.errstate(over="ignore", invalid="ignore"):
        near = np.log1p(rate * np.expm1(np.minimum(losses, 30)))
        correction = np.log1p((1 - rate) / rate * np.exp(-np.maximum(losses, 30)))
    return np.where(losses > 30, losses + math.log(rate) + correction, near)


def unmixed_loss(edges: Reals, rate: float) -> Reals:
    """The loss that :func:`mixed_losses` takes to each edge; -infinity below its range."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        near = np.log1p(np.maximum(np.expm1(np.minimum(edges, 30)) / rate, -1))
        far = edges - math.log(rate) + np.log1p(-(1 - rate) * np.exp(-np.maximum(edges, 30)))
    return np.where(edges > 30, far, near)


def turned_form(base: Closed) -> Closed:
    """The masses of (Q, P)."""

    def masses(edges: Reals) -> tuple[Reals, Reals]:
        p, q = base.masses(-edges[::-1])
        return q[::-1], p[::-1]

    outcomes = Outcomes(-base.outcomes.losses, base.outcomes.q, base.outcomes.p)
    span = (-base.span[1], -base.span[0])
    return Closed(masses, outcomes, span, base.edge_error, base.relative)


def spliced(above: Cells, below: Cells) -> Cells:
    """Cells from 0 on of ``above``, cells below 0 of ``below``, and the rest as loss 0."""
    high, low = _from_zero(above), _from_zero(below.swapped()).swapped()
    rest_p = 1 - _sum(low, high, 0) - above.infinite[0]
    rest_q = 1 - _sum(low, high, 1) - below.infinite[1]
    if min(rest_p, rest_q) < -NOT_CONVEX or abs(rest_p - rest_q) > NOT_CONVEX:
        raise Unsupported("a splice of two profiles that is not convex where they meet")
    rest_p, rest_q = max(rest_p, 0.0), max(rest_q, 0.0)
    atoms = Masses(
        np.concatenate((low.atoms.index, [-1], high.atoms.index)),
        np.concatenate((low.atoms.p, [rest_p], high.atoms.p)),
        np.concatenate((low.atoms.q, [rest_q], high.atoms.q)),
    )
    right = min(1 - _sum(low, None, 0), 1 - _sum(low, None, 1))
    return Cells(
        above.step,
        low.first,
        np.concatenate((low.p, high.p)),
        np.concatenate((low.q, high.q)),
        low.below,
        high.above,
        max(above.relative, below.relative) + 16 * UNIT / max(right, 1e-6),
        atoms,
        (above.infinite[0], below.infinite[1]),
    )


def _sum(low: Cells, high: Cells | None, which: int) -> float:
    """P mass (0) or Q mass (1) of one or two sets of cells."""
    parts = [low.below[which], *(float(m.sum()) for m in ((low.p, low.q)[which],))]
    parts.append(float((low.atoms.p, low.atoms.q)[which].sum()))
    if high is not None:
        parts.append(float((high.p, high.q)[which].sum()) + high.above[which])
        parts.append(float((high.atoms.p, high.atoms.q)[which].sum()))
    return math.fsum(parts)


def _from_zero(cells: Cells) -> Cells:
    """The cells from loss 0 on (one empty cell at least); what lies below is left out."""
    lead = max(cells.first, 0)
    p, q = (np.append(np.zeros(lead), m[max(-cells.first, 0) :]) for m in (cells.p, cells.q))
    if len(p) == 0:
        p = q = np.zeros(1)
    nonnegative = cells.atoms.index >= 0
    atoms = Masses(
        cells.atoms.index[nonnegative], cells.atoms.p[nonnegative], cells.atoms.q[nonnegative]
    )
    return Cells(cells.step, 0, p, q, (0.0, 0.0), cells.above, cells.relative, atoms)


def theta(variance: float) -> float:
    """Sum of exp(-k^2 / (2 variance)) over the integers, within 8 roundings."""
    if variance > 100:
        return math.sqrt(2 * math.pi * variance)
    reach = math.ceil(40 * math.sqrt(variance)) + 2
    return math.fsum(math.exp(-k * k / (2 * variance)) for k in range(-reach, reach + 1))
