"""Random small compositions in the corners of their parameters.

Run: ``python -m tests.support.corners``.

Two to six different leaves, sampled or not, parameters over many decades, delta from 1e-300 to 1/2.
What is looked for: a lower end of 0 below an upper one that is not, ends far apart, much time,
exceptions, bounds of epsilon that fall as delta does, and delta at an end of epsilon apart from
the delta that the end is of.  Each declaration comes from a seed of its own.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from dpaudit.accountant.account import Account
from dpaudit.errors import DpauditError
from dpaudit.exact import is_infinite
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Compose, Repeat
from dpaudit.families.discrete import DiscreteGaussian, DiscreteLaplace, RandomizedResponse
from dpaudit.families.sampling import PoissonSampled, SampledWithoutReplacement
from dpaudit.nodes import Node
from dpaudit.scope import central

WIDE, SLOW, TINY = 1e-3, 5.0, 1e-9
# Ends may differ by what moves an end outward.
OUTWARD = Fraction(1, 10**6)


@dataclass(frozen=True)
class Corner:
    """A declaration under an adjacency, and the deltas it is asked at, falling."""

    node: Node
    adjacency: str
    deltas: tuple[Fraction, Fraction]


def decade(rng: random.Random, low: float, high: float) -> Fraction:
    """A number of three digits, its log uniform."""
    return Fraction(f"{10 ** rng.uniform(low, high):.2e}")


LEAVES: tuple[Callable[[random.Random], Node], ...] = (
    lambda rng: Gaussian("g", decade(rng, -1, 3)),
    lambda rng: Laplace("l", decade(rng, -1, 3)),
    lambda rng: DiscreteGaussian("x", decade(rng, -0.5, 3), rng.choice((1, 1, 2, 7))),
    lambda rng: DiscreteLaplace("d", decade(rng, -1, 2), rng.choice((1, 1, 3))),
    lambda rng: RandomizedResponse("r", decade(rng, -3, 1), rng.choice((2, 2, 5))),
)


def corner(seed: int) -> Corner:
    """The declaration of a seed."""
    rng = random.Random(seed)
    adjacency = rng.choice(("add_remove", "replace_one", "zero_out"))
    kinds = rng.sample(LEAVES, rng.choice((1, 1, 2, 3)))
    sampled = rng.random() < 0.4
    leaves: list[Node] = []
    for _ in range(rng.randint(2, 6)):
        leaf = rng.choice(kinds)(rng)
        if sampled and rng.random() < 0.7:
            leaf = _drawn(rng, leaf, adjacency)
        leaves.append(Repeat(leaf, rng.choice((2, 5, 40))) if rng.random() < 0.2 else leaf)
    first = 10 ** -(rng.uniform(0.31, 12) if rng.random() < 0.7 else rng.uniform(12, 295))
    deltas = Fraction(f"{first:.3e}"), Fraction(f"{first * 10 ** -rng.uniform(0.01, 3):.3e}")
    return Corner(Compose(*leaves), adjacency, deltas)


def _drawn(rng: random.Random, leaf: Node, adjacency: str) -> Node:
    if adjacency == "replace_one":
        population = rng.choice((10, 1000, 10**6))
        return SampledWithoutReplacement(leaf, rng.randint(1, population - 1), population)
    return PoissonSampled(leaf, decade(rng, -5, -0.01))


def findings(asked: Corner) -> list[str]:
    """What is wrong, wide or slow, a line each."""
    found: list[str] = []
    account = Account(asked.node, central(asked.adjacency))
    start = time.process_time()
    try:
        bounds = [account.epsilon(delta) for delta in asked.deltas]
    except DpauditError as error:
        return [f"{type(error).__name__}: {error}"]
    seconds = (time.process_time() - start) / len(bounds)
    if seconds > SLOW:
        found.append(f"slow: {seconds:.1f} s")
    for delta, bound in zip(asked.deltas, bounds, strict=True):
        lower, upper = bound.lower, bound.upper
        ends = f"[{float(lower):.6g}, {float(upper):.6g}] at {float(delta):.3g}"
        if lower > upper:
            found.append(f"ends crossed: {ends}")
        elif is_infinite(upper):
            found.append(f"no upper end: {ends}")
        elif upper > TINY and lower == 0:
            found.append(f"lower end 0: {ends}")
        elif upper > TINY and upper - lower > WIDE * upper:
            found.append(f"wide: {ends}")
    if bounds[1].upper < bounds[0].upper * (1 - OUTWARD) and bounds[1].upper < bounds[0].lower:
        found.append("epsilon falls as delta does")
    if not is_infinite(bounds[0].upper) and bounds[0].lower > 0:
        found += _turned_back(account, bounds[0].lower, bounds[0].upper, asked.deltas[0])
    return found


def _turned_back(account: Account, lower: Fraction, upper: Fraction, delta: Fraction) -> list[str]:
    """Delta at the upper end is at most the one asked for, and at the lower end at least."""
    found: list[str] = []
    start = time.process_time()
    try:
        beyond, before = account.delta(upper), account.delta(lower)
    except DpauditError as error:
        return [f"delta: {type(error).__name__}: {error}"]
    if beyond.lower > delta:
        found.append(f"delta({float(upper):.8g}) >= {float(beyond.lower):.8g} > {float(delta):.8g}")
    if before.upper < delta:
        found.append(f"delta({float(lower):.8g}) <= {float(before.upper):.8g} < {float(delta):.8g}")
    for bound in (beyond, before):
        if bound.upper - bound.lower > Fraction(1, 10) * bound.upper and bound.upper > 0:
            ends = f"[{float(bound.lower):.4g}, {float(bound.upper):.4g}]"
            found.append(f"delta is wide: {ends} of {float(delta):.4g}")
            break
    seconds = (time.process_time() - start) / 2
    if seconds > SLOW:
        found.append(f"delta is slow: {seconds:.1f} s")
    return found


def main() -> None:
    """Ask many and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    options = parser.parse_args()
    bad = 0
    for seed in range(options.first, options.first + options.count):
        asked = corner(seed)
        found = findings(asked)
        bad += bool(found)
        for line in found:
            sys.stdout.write(f"{seed}: {line}\n    {asked.node!r} {asked.adjacency}\n")
            sys.stdout.flush()
    sys.stderr.write(f"{options.count} declarations, {bad} with findings\n")


if __name__ == "__main__":
    main()
