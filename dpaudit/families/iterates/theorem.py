"""The last iterate of a noisy contraction, stated a second time.

The proof stands beside the accountant's rule of the same name.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from dpaudit.check.reading import require
from dpaudit.check.theorem import (
    Premise,
    Row,
    Table,
    Theorem,
    counted,
    of_mu,
    reached,
    register,
)
from dpaudit.exact import enclose, log, sqrt, tanh, unknowns
from dpaudit.pairs import Drawn, Losses, Mixed, Normal, Pair, product


def _window(steps: Any, c: Any, d: Any) -> int:
    """The number of last steps of least sum; 0 for all.

    Where it is off, what follows is a bound none the less.
    """
    if d == 0 or unknowns(steps) or unknowns(c) or unknowns(d) or d * (1 - c) >= 1:
        return 0
    most, near, far = (float(enclose(n).mid()) for n in (steps, c, d))

    def size(m: float, start: float) -> float:
        if near == 1:
            return (start + m) / math.sqrt(m)
        contracted = math.exp(m * math.log(near))
        return (contracted * start + (1 - contracted) / (1 - near)) * math.sqrt(
            (1 - near**2) / (1 - contracted**2)
        )

    best = far if near == 1 else math.log(1 - far * (1 - near)) / math.log(near)
    candidates = [min(max(m, 1.0), most) for m in (math.floor(best), math.floor(best) + 1.0)]
    fewest = min(candidates, key=lambda m: size(m, far))
    return int(fewest) if size(fewest, far) < size(most, 0.0) else 0


def _fallen(c: Any, steps: Any) -> Any:
    """c^steps by a hyperbolic tangent, which SymPy leaves as it is."""
    half = tanh(log(1 / c) * steps / 2)
    return (1 - half) / (1 + half)


def _cyclic(node: Any) -> Any:
    """mu z of whole passes in one order: the last move, and the distance before it.

    It bounds any number of passes, from any two points of the set.
    """
    c, d, size = node.contraction, node.diameter, int(node.batches)
    before = int(node.steps) // size - 1
    tries = [(before, d * 0)]
    if d != 0 and not unknowns(c) and not unknowns(d):
        shrink, far = (float(enclose(n).mid()) for n in (c, d))
        best = far
        if shrink < 1:
            pull = math.exp(size * math.log(shrink))
            fraction = far * (1 - pull) * shrink / pull
            best = math.log(1 - fraction) / math.log(pull) if fraction < 1 else 0.0
        if best > 0:
            tries += [(m, d) for m in (math.floor(best), math.floor(best) + 1) if 1 <= m <= before]

    def squares(passes: int, start: Any) -> Any:
        if passes == 0:
            return Fraction(1)
        if c == 1:
            return (start + passes) ** 2 / (size * passes) + 1
        pull, contraction = _fallen(c, size), _fallen(c, size * passes)
        way = contraction * start + pull * (1 - contraction) / (1 - pull) / c
        return way**2 / (1 - contraction**2) * (1 - c**2) + 1

    squares_found = [squares(passes, start) for passes, start in tries]
    if len(squares_found) > 1:
        squares_found.sort(key=lambda value: float(enclose(value).mid()))
    return sqrt(squares_found[0])


def _linear(node: Any) -> Any:
    """A record of the last batch, x -> c x + 1 at its steps: mean over standard deviation."""
    c, steps, size = node.contraction, node.steps, node.batches
    if c == 1:
        return steps / size / sqrt(steps)
    contraction = _fallen(c, steps)
    return (1 - contraction) / (1 - _fallen(c, size)) * sqrt((1 - c**2) / (1 - contraction**2))


def _mu(node: Any) -> Any:
    """Any number of the last steps serves, from any two points of the set."""
    if node.batches != 1:
        return _cyclic(node) / node.noise_multiplier
    return _every_record(node) / node.noise_multiplier


def _every_record(node: Any) -> Any:
    """mu z of steps that read all records."""
    c, steps, apart = node.contraction, node.steps, node.diameter * 0
    window = _window(steps, c, node.diameter)
    if window:
        steps, apart = Fraction(window), node.diameter
    if c == 1:
        return (apart + steps) / sqrt(steps)
    half = tanh(log(1 / c) * steps / 2)
    pull = (1 - half) / (1 + half)
    if apart == 0:
        return sqrt((1 + c) * half / (1 - c))
    way = pull * apart + (1 - pull) / (1 - c)
    return way * sqrt((1 - c**2) / (1 - pull**2))


def _is_linear(node: Any, premises: Sequence[Premise]) -> bool:
    """Updates x -> c x + 1 against x -> c x, with no set."""
    return bool(node.diameter == 0) and bool(node.batches == 1)


def _pair(node: Any) -> Losses:
    """On a set, from below: the last step alone, which is shown before it is projected."""
    pair = Normal(_mu(node))
    if _is_linear(node, ()):
        return reached(pair)
    moved = _linear(node) if node.diameter == 0 else 1
    below = (Normal(moved / node.noise_multiplier),)
    return Losses((pair,), (pair,), below, below)


# A witness splits noise in so many parts; binomials of more coins are not computed with.
GRAINS, MOST_COINS = 64, 4_096


def _sampled(node: Any, witness: Row) -> Losses:
    """A bound by shifts and coins, for the steps and parts of the noise that a witness names.

    Without steps: all of them, and no shift.  Without parts: full batches, conditioned on the
    coins.
    """
    z, c = node.noise_multiplier, node.contraction
    top: Pair
    if node.rate == 1:
        top = Normal(_every_record(node) / z)
        if node.diameter == 0:
            return reached(top)
        step = (Normal(1 / z),)
        return Losses((top,), (top,), step, step)
    if "parts" not in witness:
        require("steps" not in witness, "the witness's steps: expected none where coins are told")
        top = Normal(_every_record(node) / z)
    elif "steps" not in witness:
        unshifted = counted(witness, "parts", GRAINS, GRAINS) == GRAINS
        require(unshifted, "the witness's parts: expected all where nothing is shifted")
        top = product([(Mixed(Normal(1 / z), node.rate), node.steps)])
    else:
        parts = counted(witness, "parts", 1, GRAINS - 1)
        window = counted(witness, "steps", 1, int(node.steps) - 1)
        inside = Fraction(parts, GRAINS)
        weight = Fraction(1, window) if c == 1 else None
        contraction = Fraction(1) if c == 1 else _fallen(c, Fraction(window))
        if weight is None:
            weight = (1 - c**2) / (1 - contraction**2)
        shift = contraction * _apart(node, window) * sqrt(weight / (1 - inside**2)) / z
        coins = Mixed(Normal(1 / (inside * z)), node.rate)
        top = product([(Normal(shift), Fraction(1)), (coins, Fraction(window))])
    under = _coins(node, counted(witness, "linear", 1, MOST_COINS))
    return Losses((top,), (top.swapped,), under, tuple(pair.swapped for pair in under))


def _apart(node: Any, window: int) -> Any:
    """Either of two distances bounds how far the runs are apart where the window starts."""
    c, before = node.contraction, node.steps - window
    own = before if c == 1 else (1 - _fallen(c, before)) / (1 - c)
    if node.diameter == 0:
        return own
    return node.diameter if float(enclose(node.diameter - own).mid()) < 0 else own


def _coins(node: Any, linear: int) -> tuple[Any, ...]:
    """The last step; a binomial number of moves that arrive with equal lengths."""
    z, c = node.noise_multiplier, node.contraction
    last_one = Mixed(Normal(1 / z), node.rate)
    if linear == 1:
        return (last_one,)
    require(node.diameter == 0, "the witness's linear: expected 1 where a set is projected to")
    require(linear <= node.steps, "the witness's linear: expected at most the number of steps")
    if c == 1:
        arrives = 1 / sqrt(Fraction(linear))
    else:
        contraction = _fallen(c, Fraction(linear))
        arrives = contraction * sqrt((1 - c**2) / (1 - contraction**2)) / c
    return last_one, Drawn(arrives / z, node.rate, Fraction(linear))


ITERATES: Table = {
    **of_mu(
        "LastIterate",
        ("last_iterate", "last_iterate_concentrated", "last_iterate_curve"),
        _mu,
        _is_linear,
    ),
    ("profile", "LastIterate"): Theorem("last_iterate_pair", _pair),
    ("profile", "SampledLastIterate"): Theorem(
        "sampled_last_iterate",
        _sampled,
        adjacencies=frozenset({"add_remove", "zero_out"}),
        reads=True,
    ),
}

register(ITERATES)
