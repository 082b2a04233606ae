"""Delta just below the largest loss of a product: how far each factor falls short of its own.

Write l_f for the largest loss of a factor, all finite, D for the sum over factors of l_f - L_f >= 0
(L_f its loss under P), and epsilon = sum of l_f - g.  Then, exactly,

    delta(epsilon) = E_P[(1 - exp(D - g))_+],

which shortfalls of g and more have no part in: each factor's are put on the nodes i g / N, i < N,
moved down to the node below (an upper bound) or up to the one above (a lower one; an outcome at the
largest loss stays at 0), and convolved up to g.  Nodes lie in the shortfall, not in the loss, so
that it does not matter how large losses of different kinds lie to each other.

Errors: all terms are positive, so that a convolution of N nodes errs by the factor 1 +- (N + 2) u,
u = 2^-53, and the T-th power of masses with the relative error r by T (r + (N + 2) u); the edges of
cells, and outcomes, are moved by what they may be off, outward.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.exact import enclose, is_infinite
from dpaudit.exact.arb import working_precision
from dpaudit.grids.cells import UNIT
from dpaudit.grids.discrete import Reals, TooFine
from dpaudit.grids.masses import Closed
from dpaudit.pairs import Pair, largest_loss
from dpaudit.profiles.interval import Interval, rounded_down, rounded_up

# Products of two masses that a bound may take, and how many nodes that are.
EFFORT, MOST_NODES, FEWEST_NODES = 2**27, 2048, 64
LARGEST_GAP = 600.0
# Of rounding: room for a checker on twice the nodes.
ROOM = 3
# Relative: of less use beyond it; and what products below the smallest float come to.
LARGEST_ERROR, UNDERFLOW = 1e-4, 1e-300

Parts = tuple[tuple[Pair, int], ...]


@dataclass(frozen=True)
class Factor:
    """A factor's masses, its largest loss, what an edge and that are off, and whether it is met.

    ``slack``: what the outcomes that count as those of the largest loss may fall short of it.
    """

    form: Closed
    times: int
    top: float
    off: float
    slack: float


def delta_at_corner(parts: Parts, epsilon: Fraction) -> Interval | None:
    """Delta at an epsilon below the largest loss; None where that is infinite, or too much work."""
    losses = [(largest_loss(pair), times) for pair, times in parts]
    if any(is_infinite(loss) for loss, _ in losses):
        return None
    nodes, factors = _nodes([times for _, times in parts]), _factors(parts)
    if factors is None or nodes is None:
        return None
    with working_precision():
        gap = sum((enclose(loss) * times for loss, times in losses), -enclose(epsilon))
    if not 0 < float(gap.lower()) <= float(gap.upper()) < LARGEST_GAP:
        return None
    slack = math.fsum(factor.times * factor.slack for factor in factors) * (1 + 2 * UNIT)
    upper = _bound(factors, float(gap.upper()) * (1 + 2 * UNIT), nodes, 1)
    lower = _bound(factors, (float(gap.lower()) - slack) * (1 - 4 * UNIT), nodes, -1)
    if upper is None or lower is None:
        return None
    shown = {"form": "corner", "nodes": str(nodes)}
    ends = rounded_down(lower), min(rounded_up(upper), Fraction(1))
    return Interval(*ends, shown, shown, "shortfalls of the largest loss")


def _factors(parts: Parts) -> list[Factor] | None:
    """The closed forms of all factors; None where one has none."""
    found = []
    for pair, times in parts:
        try:
            form = pair.loss_masses(UNDERFLOW)
        except (TooFine, Unsupported, InvalidParameter):
            return None
        if form is None:
            return None
        top = float(enclose(largest_loss(pair)).mid())
        off = 2 * form.edge_error + 4 * UNIT * abs(top)
        losses = form.outcomes.losses[form.outcomes.p > 0]
        met = np.count_nonzero(np.isfinite(losses) & (top - losses <= off)) == 1 and _is_met(pair)
        found.append(Factor(form, times, top, off, 0.0 if met else off))
    return found


def _is_met(pair: Pair) -> bool:
    """Whether an outcome has the largest loss, rather than losses that come near it."""
    base = pair.noise
    return base.laplace_epsilon is not None or base.listed is not None


def _nodes(counts: list[int]) -> int | None:
    """How many nodes are affordable; None for too few."""
    convolutions = sum(2 * times.bit_length() + 1 for times in counts)
    nodes = min(MOST_NODES, math.isqrt(EFFORT // convolutions))
    return nodes if nodes >= FEWEST_NODES else None


def _bound(factors: list[Factor], gap: float, nodes: int, sign: int) -> float | None:
    """Delta from above (sign 1) or from below (-1); None where rounding would be seen."""
    if gap <= 0:
        return 0.0
    step, single = gap / nodes, (nodes + 2) * UNIT
    error = sum(factor.times * (factor.form.relative + single) for factor in factors)
    error = ROOM * (error + (len(factors) + 8) * single)
    if error > LARGEST_ERROR:
        return None
    whole: Reals = np.zeros(nodes)
    whole[0] = 1.0
    for factor in factors:
        whole = _convolved(whole, _power(_shortfalls(factor, step, nodes, sign), factor.times))
    value = float(whole @ -np.expm1(-step * (nodes - np.arange(nodes))))
    return value * (1 + error) + UNDERFLOW if sign > 0 else value * (1 - error)


def _shortfalls(factor: Factor, step: float, nodes: int, sign: int) -> Reals:
    """P masses on nodes below all that they hold (sign 1), or above (-1); none at the gap."""
    outcomes, masses = factor.form.outcomes, np.zeros(nodes + 1)
    held = np.isfinite(outcomes.losses) & (outcomes.p > 0)
    short = factor.top - outcomes.losses[held]
    moved = np.maximum(short - sign * factor.off, 0.0) / step * (1 - sign * 4 * UNIT)
    moved = np.where(short <= factor.off, 0.0, moved)
    at = np.minimum(np.floor(moved) if sign > 0 else np.ceil(moved), nodes).astype(np.int64)
    np.add.at(masses, at, outcomes.p[held])
    # Cells from the largest loss down: what is above it, as edges may be off, falls short by 0.
    edges = np.append(factor.top - np.arange(nodes, -1, -1) * step, np.inf)
    above, *cells = factor.form.masses(edges - sign * factor.off)[0][::-1]
    masses[0] += above
    masses[sign < 0 :][:nodes] += cells
    return masses[:nodes]


def _power(masses: Reals, times: int) -> Reals:
    """The masses convolved with themselves, that many (at least one) of them."""
    found = masses
    for bit in bin(times)[3:]:
        found = _convolved(found, found)
        if bit == "1":
            found = _convolved(found, masses)
    return found


def _convolved(left: Reals, right: Reals) -> Reals:
    """The convolution up to the last node."""
    return np.convolve(left, right)[: len(left)]
