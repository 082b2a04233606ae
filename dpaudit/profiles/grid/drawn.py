"""Some of a group's records drawn by coins: N(J mu, 1) against N(0, 1), J binomial and not seen.

With w_j the masses of J, the likelihood ratio at t is R(t) = w_0 + G(t), G(t) = sum over j >= 1 of
w_j exp(j mu t - j^2 mu^2 / 2), which grows with t from w_0 on; log G is convex and grows by mu at
least, so that a loss l has its place t where log G(t) = log(e^l - w_0), by Newton's method.

    delta(x) = sum_j w_j Phi(j mu - t) - x Phi(-t),    R(t) = x > w_0;    1 - x at x <= w_0.

At a place s next to t it is off by the integral of (R - x) times the normal density between them.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from dpaudit.exact import Number, enclose, infinity, log
from dpaudit.nodes.pairs import Drawn
from dpaudit.profiles.closed.pure import Extremes
from dpaudit.profiles.closed.pure import _extremes as register_extremes
from dpaudit.profiles.closed.single import Ball
from dpaudit.profiles.closed.single import _form as register_form
from dpaudit.profiles.grid.cells import UNIT
from dpaudit.profiles.grid.discrete import Discrete, Floats, Grid, Reals, Side, TooFine, discretiser
from dpaudit.profiles.grid.families import normal_between, quantile
from dpaudit.profiles.grid.masses import NO_OUTCOMES, NORMAL_FACTOR, Closed, as_float, cells_of
from dpaudit.profiles.grid.masses import closed_form as register_closed

LARGEST_SIZE, TABLE, NEWTONS, BLOCK = 4096, 20_000, 12, 2**16
NEAR = 2.0**-42


@register_extremes(Drawn)
def _extremes(pair: Drawn) -> Extremes:
    """The loss is log w_0 at least."""
    return -pair.size * log(1 - pair.rate), infinity()


# --- at one point, in balls ----------------------------------------------------------------------


@lru_cache(maxsize=256)
def _balls(mu: Number, rate: Number, size: Number, bits: int) -> tuple[list[Ball], Ball]:
    """The masses of J, and mu."""
    q, k = enclose(rate), int(size)
    return [math.comb(k, j) * q**j * (1 - q) ** (k - j) for j in range(k + 1)], enclose(mu)


@register_form(Drawn)
def form_of(pair: Drawn, x: Ball) -> Ball:
    """delta at x, at the precision of the context."""
    import flint

    weights, mu = _balls(pair.mu, pair.rate, pair.size, flint.ctx.prec)
    if x <= weights[0]:
        return 1 - x
    if not x > weights[0]:
        return (1 - x).union(1 - weights[0])
    root = flint.arb(2).sqrt()
    place = flint.arb(_start(pair, float((x - weights[0]).log().mid())))
    sought = x - weights[0]
    for _ in range(max(flint.ctx.prec // 40, 3).bit_length() + 2):
        terms = _terms(weights, mu, place)
        slope = sum((j * mu * term for j, term in enumerate(terms, 1)), flint.arb(0))
        place = (place - (sum(terms, flint.arb(0)) - sought) / slope).mid()
    off = (1 + abs(place)) * flint.arb(2) ** (-flint.ctx.prec // 3)
    around = place + flint.arb(0, off.upper())
    low, high = (sum(_terms(weights, mu, at), flint.arb(0)) for at in (place - off, place + off))
    if not (low < sought < high):
        return flint.arb(0).union(flint.arb(1))
    value = -x * (place / root).erfc() / 2
    for j, weight in enumerate(weights):
        value += weight * ((place - j * mu) / root).erfc() / 2
    density = (-(around * around) / 2).exp() / (2 * flint.arb.pi()).sqrt()
    return value + (off * (high - low) * density).upper() * flint.arb(0.5, 0.5)


def _terms(weights: list[Ball], mu: Ball, t: Ball) -> list[Ball]:
    return [
        weight * (j * mu * t - (j * mu) ** 2 / 2).exp() for j, weight in enumerate(weights) if j
    ]


# --- on a grid -----------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _floats(mu: Number, rate: Number, size: Number) -> tuple[float, Floats, float]:
    """mu, the logarithms of w_1, w_2, ..., and that of w_0."""
    k = int(size)
    if k > LARGEST_SIZE:
        raise TooFine(f"a group of {k}: expected at most {LARGEST_SIZE} records")
    q = enclose(rate)
    logs = [
        float((math.comb(k, j) * q**j * (1 - q) ** (k - j)).log().mid()) for j in range(1, k + 1)
    ]
    return as_float(mu, "mu"), np.array(logs), float((k * (1 - q).log()).mid())


def _log_g(parameters: tuple[float, Floats, float], t: Reals) -> tuple[Reals, Reals]:
    """log G and its slope."""
    mu, logs, _ = parameters
    j = np.arange(1, len(logs) + 1)
    value, slope = np.empty(len(t)), np.empty(len(t))
    size = max(BLOCK // len(logs), 1)
    for first in range(0, len(t), size):
        part = slice(first, first + size)
        exponents = logs + j * mu * (t[part, None] - j * mu / 2)
        top = exponents.max(axis=1)
        terms = np.exp(exponents - top[:, None])
        whole = terms.sum(axis=1)
        value[part] = top + np.log(whole)
        slope[part] = terms @ j * mu / whole
    return value, slope


def _places(parameters: tuple[float, Floats, float], y: Reals) -> Reals:
    """t with log G(t) = y, by a table and Newton's method."""
    mu, logs, _ = parameters
    if not len(y):
        return y
    low = (float(y.min()) - logs[0]) / mu + mu / 2
    high = max((float(y.max()) - logs[-1]) / (len(logs) * mu) + len(logs) * mu / 2, low) + 1
    low = (float(y.min()) - float(np.logaddexp.reduce(logs))) / mu - len(logs) * mu
    table = np.linspace(low, high, TABLE if len(y) > TABLE else 500)
    t: Reals = np.interp(y, _log_g(parameters, table)[0], table)
    allowed = NEAR * (1 + np.max(np.abs(y)))
    for _ in range(NEWTONS):
        value, slope = _log_g(parameters, t)
        if np.max(np.abs(value - y)) <= allowed:
            return t
        t = t - (value - y) / slope
    raise TooFine("a group's losses are not told apart in floats")


def _start(pair: Drawn, y: float) -> float:
    parameters = _floats(pair.mu, pair.rate, pair.size)
    return float(_places(parameters, np.array([y]))[0])


@register_closed(Drawn)
def closed_of(pair: Drawn, tail: float) -> Closed:
    """Masses by loss."""
    parameters = _floats(pair.mu, pair.rate, pair.size)
    mu, logs, log_none = parameters
    z = quantile(tail)
    farthest = z + len(logs) * mu
    ends = _log_g(parameters, np.array([-z, farthest]))[0]
    span = tuple(float(np.logaddexp(log_none, end)) for end in ends)

    def masses(edges: Reals) -> tuple[Reals, Reals]:
        # log(e^l - w_0), where a difference of logarithms is all that is rounded.
        with np.errstate(divide="ignore"):
            y = edges + np.log(-np.expm1(np.minimum(log_none - edges, 0.0)))
        t = np.where(y > 0, np.inf, -np.inf)
        known = np.isfinite(y)
        t[known] = _places(parameters, y[known])
        q = normal_between(t)
        p = math.exp(log_none) * q
        for j, weight in enumerate(np.exp(logs), 1):
            p = p + weight * normal_between(t - j * mu)
        return p, q

    largest = float(np.max(np.abs(logs))) + len(logs) * mu * farthest
    error = 2 * NEAR * (1 + abs(span[0]) + abs(span[1])) + 16 * UNIT * (largest - log_none)
    relative = NORMAL_FACTOR + 4 * UNIT * (farthest * farthest + largest + len(logs))
    return Closed(masses, NO_OUTCOMES, (span[0], span[1]), error, relative)


@discretiser(Drawn)
def _drawn(pair: Drawn, grid: Grid, side: Side) -> Discrete:
    cells = cells_of(pair, grid, 1)
    if cells is None:
        raise TooFine("Drawn: no closed form")
    return cells.discrete(side)
