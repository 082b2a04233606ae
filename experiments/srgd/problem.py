"""Synthetic logistic regression with a known population risk: p = 10, ||w*|| = 1.5, R = 2.

Features are uniform on the unit sphere and labels logistic in w*, so that L = 1, M = 1/4 and w* is
the minimiser of the population risk, inside the ball.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np
from scipy.special import expit

from dpaudit.curator.curator import Event, Sampler
from dpaudit.errors import InvalidParameter
from dpaudit.families.correlated.node import Factorisation
from dpaudit.kernels.query import Array, Records
from dpaudit.scope import central
from mechanisms.papers.common.losses import Logistic, Loss
from mechanisms.papers.srgd.accelerated import AcceleratedDPSRGD
from mechanisms.papers.srgd.baselines import AcceleratedDPSGD
from mechanisms.papers.srgd.constants import (
    Constants,
    as_float,
    least_multiplier,
    noised,
    preset_constrained,
    preset_unconstrained,
    theorem_5_12,
)
from mechanisms.papers.srgd.gradient import of_constants
from mechanisms.papers.srgd.problem import Problem, Solution, Work

FEATURES, STRENGTH, RADIUS = 10, 1.5, 2.0
LIPSCHITZ, SMOOTHNESS = 1, Fraction(1, 4)
# L, as every baseline has it.  The paper prints 4 L and more for its weighted differences, a bound
# for proofs: privacy holds at any clip, and four times the clip is four times the noise.
CLIP = LIPSCHITZ
EPSILON, DELTA = 1, Fraction(1, 10**6)
SCOPE = central("zero_out")
POINTS, POINTS_SEED, DIRECTION_SEED = 200_000, 1, 2
NEXT_TO_NONE = Fraction(1, 10**12)  # a declared Gaussian has a positive scale
PRESETS = ("constrained", "unconstrained", "theorem_5_12")
LOSS = Logistic()

Program = AcceleratedDPSRGD | AcceleratedDPSGD


@dataclass(frozen=True, eq=False)
class Run:
    """What a run on one data set gives: the model, the transcript, and its cost."""

    solution: Solution
    transcript: list[Event]
    work: Work


@lru_cache(maxsize=1)
def optimum() -> Array:
    """w*, of norm 1.5."""
    direction = np.random.default_rng(DIRECTION_SEED).normal(size=FEATURES)
    return np.asarray(STRENGTH * direction / np.linalg.norm(direction))


@lru_cache(maxsize=1)
def population() -> tuple[Array, Array]:
    """Fixed points of the population, and the exact chance of label 1 at each."""
    x = sphere(POINTS, np.random.default_rng(POINTS_SEED))
    return x, np.asarray(expit(x @ optimum()))


def sample(size: int, rng: np.random.Generator) -> Records:
    """A fresh data set."""
    x = sphere(size, rng)
    return Records(np.column_stack([x, rng.random(size) < expit(x @ optimum())]))


def risk(w: Array) -> float:
    """Population risk, the exact conditional mean of the loss on the fixed points."""
    x, chance = population()
    margin = x @ w
    return float(np.mean(np.logaddexp(0.0, margin) - chance * margin))


def excess(w: Array) -> float:
    """F(w) - F(w*): w* minimises the risk of the fixed points too, so that this is at least 0."""
    return risk(w) - _least()


@lru_cache(maxsize=1)
def _least() -> float:
    return risk(optimum())


def population_gradients(points: Array) -> Array:
    """The gradient of the population risk at each of a few points (k, d)."""
    x, chance = population()
    return np.stack([x.T @ (expit(x @ w) - chance) / len(x) for w in points])


def constants(preset: str, size: int, strategy: Factorisation) -> Constants:
    """T, B, beta, C and the least noise for (1, 1e-6)-DP; "theorem_5_12" has its literal beta.

    Errors: InvalidParameter for another preset.
    """
    if preset == "constrained":
        make = preset_constrained
    elif preset == "unconstrained":
        make = preset_unconstrained
    elif preset == "theorem_5_12":
        return _literal(size, strategy)
    else:
        raise InvalidParameter(f"preset {preset!r}: expected one of {', '.join(PRESETS)}")
    return make(size, LIPSCHITZ, SMOOTHNESS, EPSILON, DELTA, clip=CLIP, strategy=strategy)


def _literal(size: int, strategy: Factorisation) -> Constants:
    """The printed beta and batch size of Theorem 5.12, at the same guarantee as the presets.

    c_M = M D / L = 1 has the diameter, which its proof needs, and the rest of beta the radius.
    """
    spread = SMOOTHNESS * 2  # times the radius: M D
    printed = theorem_5_12(
        size, math.isqrt(size), EPSILON, DELTA,
        lipschitz=LIPSCHITZ, smoothness=spread, radius=Fraction(RADIUS),
    )  # fmt: skip
    rounds = printed.rounds
    multiplier = least_multiplier(EPSILON, DELTA, rounds, strategy)
    return noised(rounds, size // rounds, printed.beta, CLIP, multiplier)


def accelerated(preset: str, size: int, strategy: Factorisation) -> AcceleratedDPSRGD:
    """Accelerated-DP-SRGD at (1, 1e-6)-DP under zero_out."""
    made = constants(preset, size, strategy)
    gradient = of_constants(made, LOSS, FEATURES, size, strategy=strategy)
    return AcceleratedDPSRGD(gradient, radius=RADIUS)


def noiseless(program: AcceleratedDPSRGD) -> AcceleratedDPSRGD:
    """The same with noise next to none: a reference, of no use as a guarantee."""
    return replace(program, gradient=replace(program.gradient, sigma=NEXT_TO_NONE))


def fresh_gradients(size: int) -> AcceleratedDPSGD:
    """AcceleratedDPSGD with the unconstrained preset's rounds and beta, gradients clipped at L."""
    shape = constants("unconstrained", size, Factorisation.TREE)
    one = least_multiplier(EPSILON, DELTA, 1, Factorisation.IDENTITY)
    on = Problem(LOSS, FEATURES, size, RADIUS, float(LIPSCHITZ))
    return AcceleratedDPSGD(on, shape.rounds, as_float(shape.beta), one)


def run(program: Program, data: Records, rng: np.random.Generator) -> Run:
    """One run on one data set."""
    curator = Sampler(program.declaration(SCOPE), SCOPE, data, rng=rng)
    solution = program.run(curator)
    work = program.gradient.work if isinstance(program, AcceleratedDPSRGD) else program.work
    return Run(solution, list(curator.transcript), work)


def on_loss(program: AcceleratedDPSRGD, loss: Loss) -> AcceleratedDPSRGD:
    """The same program and noise on another loss of as many features."""
    return program.on_loss(loss, FEATURES)


def sphere(size: int, rng: np.random.Generator) -> Array:
    """So many points, uniform on the unit sphere."""
    x = rng.normal(size=(size, FEATURES))
    return np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True))
