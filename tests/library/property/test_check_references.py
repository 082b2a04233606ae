"""The checker's profiles against 60-digit references, on random declarations and witnesses.

A prover chooses tilt, step, epsilon and delta; whatever the choice, a bound from above is at least
the reference, one from below at most, and what is confirmed is true.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from itertools import product as cartesian
from typing import Any

import mpmath
import pytest

from dpaudit.check.derivation import own_bound
from dpaudit.check.profile.cells import Grid, NotConfirmed
from dpaudit.check.profile.conversions import confirm_lower, confirm_upper
from dpaudit.check.profile.fourier import delta_bound
from dpaudit.check.profile.nodes import lower_nodes, upper_nodes
from dpaudit.check.profile.onestep import cells
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Repeat
from dpaudit.families.discrete import DiscreteLaplace, RandomizedResponse
from dpaudit.families.sampling import PoissonSampled
from dpaudit.nodes import Node
from dpaudit.pairs import Atoms, LaplaceShift, Mixed, Normal, Pair, Product, Swapped

# Of the reference; as many again are carried, for what cancels in it.
DIGITS = 60
TILTS = (1.1e-6, 1.8e-6, 4e-6, 1e-3, 1.0, 30.0, 1e3, 1e5, 9e6)


def number(value: Any) -> Any:
    """A fraction, or an expression, as an mpmath number."""
    if isinstance(value, Fraction | int):
        # Of a bound like exp(+-10^7): mpmath takes minutes over the zeros of such powers of 2.
        above, below = (
            max((n & -n).bit_length() - 1, 0) for n in (value.numerator, value.denominator)
        )
        whole = mpmath.mpf(value.numerator >> above) / (value.denominator >> below)
        return mpmath.ldexp(whole, above - below)
    return mpmath.mpmathify(value.evalf(2 * DIGITS))


def reference(pair: Pair, x: Any) -> Any:
    """delta(x) from the definitions, in mpmath."""
    if isinstance(pair, Normal):
        mu = number(pair.mu)
        above = [
            mpmath.erfc((mpmath.log(x) / mu + s * mu / 2) / mpmath.sqrt(2)) / 2 for s in (-1, 1)
        ]
        return above[0] - x * above[1]
    if isinstance(pair, LaplaceShift):
        e = number(pair.epsilon)
        inside = 1 - mpmath.exp((mpmath.log(x) - e) / 2)
        return max(inside if x > mpmath.exp(-e) else 1 - x, 1 - x, mpmath.mpf(0))
    if isinstance(pair, Mixed):
        r = number(pair.rate)
        return r * reference(pair.base, 1 + (x - 1) / r) if x > 1 - r else 1 - x
    if isinstance(pair, Swapped):
        return 1 - x + x * reference(pair.base, 1 / x)
    return sum((max(p - x * q, mpmath.mpf(0)) for p, q in outcomes(pair)), mpmath.mpf(0))


def outcomes(pair: Pair) -> Iterator[tuple[Any, Any]]:
    """Every outcome of atoms, or of a product of atoms."""
    if isinstance(pair, Product):
        lists = [list(outcomes(factor)) for factor, times in pair.parts for _ in range(int(times))]
        for drawn in cartesian(*lists):
            yield mpmath.fprod(p for p, _ in drawn), mpmath.fprod(q for _, q in drawn)
        return
    assert isinstance(pair, Atoms)
    for p, q in pair.outcomes:
        yield number(p), number(q)


def declaration(draw: random.Random) -> tuple[Node, int]:
    """A random declaration, and how often its pair is composed by Fourier sums."""
    size = Fraction(draw.randint(1, 400), draw.choice([1, 10, 40]))
    kind = draw.choice(["gaussian", "rounds", "laplace", "response", "discrete", "few", "sampled"])
    rate = Fraction(1, draw.choice([2, 10, 100, 3000]))
    if kind == "gaussian":
        return Gaussian("a", size), 1
    if kind == "rounds":
        return Gaussian("a", size), draw.choice([2, 7, 50])
    if kind == "laplace":
        return Laplace("a", max(size, Fraction(1, 20))), 1
    if kind == "response":
        return RandomizedResponse("a", min(size, Fraction(20)), draw.randint(2, 5)), 1
    if kind == "discrete":
        return DiscreteLaplace("a", size, draw.randint(1, 4)), 1
    if kind == "few":
        one = RandomizedResponse("a", min(size, Fraction(3)), draw.randint(2, 3))
        return Repeat(one, draw.randint(2, 5)), 1
    return PoissonSampled(draw.choice([Gaussian, Laplace])("a", size), rate), 1


def pair_of(node: Node, draw: random.Random) -> Pair:
    losses = own_bound(node, "profile", "add_remove")
    found: Pair = draw.choice(losses.pairs)
    return found


def tried(seed: int) -> Counter[str]:
    """One declaration with random choices of a prover; what came out, by kind."""
    draw, found = random.Random(seed), Counter[str]()
    node, rounds = declaration(draw)
    pair = pair_of(node, draw)
    whole = pair if rounds == 1 else Normal(pair.mu * mpmath_root(rounds))  # type: ignore[attr-defined]
    epsilon = Fraction(draw.choice([0, 1, 10, 50, 100, 300, draw.randint(0, 900)]), 100)
    with mpmath.workdps(2 * DIGITS):
        truth = reference(whole, mpmath.exp(number(epsilon)))
        delta = (
            Fraction(mpmath.nstr(truth, 30)) if truth > mpmath.mpf(10) ** -DIGITS else Fraction(0)
        )
        factor = Fraction(draw.choice(["0.5", "0.99", "0.999999999", "1.000000001", "1.01", "2"]))
    step = Fraction(draw.choice([1, 3, 5]), 2 ** draw.choice([8, 10, 12]))
    tilt = draw.choice(TILTS) if draw.random() < 0.5 else 10 ** draw.uniform(-5.9, 4)
    row = {"form": "fourier", "step": f"{2 * step}", "tilt": f"{tilt!r}"}
    claimed = delta * factor
    if rounds == 1 and delta > 0:
        if confirm_upper(pair, epsilon, claimed, row):
            found["confirmed"] += 1
            assert factor > 1, (seed, pair.text, epsilon, claimed)
        if epsilon > 0 and confirm_lower(pair, epsilon, claimed, row):
            found["confirmed"] += 1
            assert factor < 1, (seed, pair.text, epsilon, claimed)
    for sign in (1, -1):
        try:
            made = cells(pair, Grid(step, 2.0**-90))
            nodes = upper_nodes(made) if sign > 0 else lower_nodes(made, float(step))
            bound = delta_bound([(nodes, rounds)], step, tilt, epsilon, sign)
        except NotConfirmed:
            found["refused"] += 1
            continue
        found["bounded"] += 1
        with mpmath.workdps(2 * DIGITS):
            room = (abs(truth) + mpmath.mpf(10) ** -DIGITS) * mpmath.mpf(10) ** (10 - DIGITS)
            off = number(bound) - truth
            assert off >= -room if sign > 0 else off <= room, (seed, sign, pair.text, epsilon, tilt)
    return found


def mpmath_root(rounds: int) -> Any:
    """sqrt(rounds), exactly."""
    import sympy

    return sympy.sqrt(rounds)


def test_bounds_on_15_random_declarations() -> None:
    found = sum((tried(seed) for seed in range(15)), Counter[str]())
    assert found["bounded"] > 12
    assert found["confirmed"] > 2


@pytest.mark.quality
def test_20_000_bounds_of_random_declarations() -> None:
    """Four questions of each of 5,000: two bounds, and whether two claims are confirmed."""
    found = sum((tried(seed) for seed in range(1_000, 6_000)), Counter[str]())
    assert found["bounded"] > 6_000
    assert found["confirmed"] > 1_500


# --- two Laplace releases ------------------------------------------------------------------------


def of_two_laplaces(e: Any, epsilon: Any) -> Any:
    """1 - s (1 + (2 e - epsilon) / 4), s = exp((epsilon - 2 e) / 2), for 0 <= epsilon <= 2 e.

    E over the loss of the one, with atoms 1/2 at e and exp(-e) / 2 at -e, of the other's profile.
    """
    if epsilon >= 2 * e:
        return mpmath.mpf(0)
    left = 2 * e - epsilon
    return 1 - mpmath.exp(-left / 2) * (1 + left / 4)


def two_laplaces(seed: int) -> int:
    """How many of both bounds say something."""
    draw, said = random.Random(f"two {seed}"), 0
    size = Fraction(f"{10 ** draw.uniform(-2, 1):.3g}")
    epsilon = size * Fraction(draw.randint(0, 210), 100)
    step = Fraction(draw.choice([1, 3, 5]), 2 ** draw.choice([8, 10, 12]))
    tilt = draw.choice(TILTS) if draw.random() < 0.5 else 10 ** draw.uniform(-5.9, 4)
    with mpmath.workdps(DIGITS):
        truth = of_two_laplaces(number(size), number(epsilon))
        for sign in (1, -1):
            try:
                made = cells(LaplaceShift(size), Grid(step, 2.0**-90))
                nodes = upper_nodes(made) if sign > 0 else lower_nodes(made, float(step))
                bound = number(delta_bound([(nodes, 2)], step, tilt, epsilon, sign))
            except NotConfirmed:
                continue
            off = bound - truth
            room = (abs(truth) + mpmath.mpf(10) ** -40) * mpmath.mpf(10) ** -50
            assert sign * off >= -room, (seed, sign, size, epsilon, step, tilt)
            said += int(abs(off) <= 0.1 * abs(truth))
    return said


def test_the_reference_of_two_laplaces_is_an_integral() -> None:
    e, epsilon = mpmath.mpf(1), mpmath.mpf("0.3")
    other = LaplaceShift(Fraction(1))

    def inside(u: Any) -> Any:
        return mpmath.exp((u - e) / 2) / 4 * reference(other, mpmath.exp(epsilon - u))

    ends = reference(other, mpmath.exp(epsilon - e)) / 2
    ends += mpmath.exp(-e) / 2 * reference(other, mpmath.exp(epsilon + e))
    whole = ends + mpmath.quad(inside, [-e, epsilon - e, epsilon, e])
    assert abs(whole - of_two_laplaces(e, epsilon)) < 1e-14


@pytest.mark.parametrize(
    "seeds", [range(12), pytest.param(range(12, 500), marks=pytest.mark.quality)]
)
def test_bounds_of_two_laplaces_hold_the_reference(seeds: range) -> None:
    """In 60 digits; a third of the witnesses say something."""
    assert sum(map(two_laplaces, seeds)) > len(seeds) / 3
