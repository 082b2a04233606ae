"""How much noise Accelerated-DP-SRGD gets: the constants as printed, each reading, and the least.

``multiplier`` is sigma B beta / C_clip: the noise of a node over what one record, zeroed out, can
move a round's sum by.  All formulas take numbers and SymPy symbols alike.
Source: Choquette-Choo, Ganesh, Thakurta 2024, Equation 19, Corollaries 5.7, 5.11, Theorem 5.12.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any

from dpaudit.errors import InvalidParameter
from dpaudit.exact import (
    Number,
    canonical,
    enclose,
    exact,
    is_symbolic,
    lower_fraction,
    maximum,
    sqrt,
    sympify,
    upper_fraction,
)
from dpaudit.exact.domains import positive, probability
from dpaudit.families.correlated.moves import largest_move
from dpaudit.families.correlated.node import SINGLE, Factorisation, Strategy
from dpaudit.measures.convert import gaussian_mu
from mechanisms.papers.srgd.problem import whole


class Reading(StrEnum):
    """How the noise of Corollary 5.7, sigma = C sqrt(log(T) log(2.5/delta)) / (epsilon B beta),
    may be meant; LEMMA_5_6 is what its own proof needs, COROLLARY_5_11 what the other regime has.
    """

    AS_PRINTED = "as printed, with the binary logarithm of T"
    NATURAL_LOGARITHM = "as printed, with the natural logarithm of T"
    LEVEL_RESTORED = "log(T) stands for the 1 + ceil(log2 T) levels of Lemma 5.6"
    ROOT_RESTORED = "the factor sqrt 2 of the Gaussian target was lost in print"
    FACTOR_TWO_RESTORED = "a factor 2 was lost in print"
    LEMMA_5_6 = "sqrt 2 and the 1 + ceil(log2 T) levels of Lemma 5.6 were lost in print"
    COROLLARY_5_11 = "a factor 2 sqrt 2, as Corollary 5.11 has it, was lost in print"

    def multiplier(self, rounds: Any, epsilon: Any, delta: Any) -> Number:
        """sigma B beta / C_clip under this reading; T >= 2."""
        return canonical(sqrt(_SQUARED[self](_binary_log(rounds)) * target_loss(delta)) / epsilon)

    def stated_epsilon(self, rounds: Any, epsilon: Any) -> Number:
        """The epsilon this reading states of the noise that, as printed, is for ``epsilon``."""
        levels = _binary_log(rounds)
        share = canonical(_SQUARED[self](levels) / _SQUARED[Reading.AS_PRINTED](levels))
        return canonical(sqrt(share) * epsilon)


_SQUARED: dict[Reading, Any] = {
    Reading.AS_PRINTED: lambda levels: levels,
    Reading.NATURAL_LOGARITHM: lambda levels: levels * sympify(_log(2)),
    Reading.LEVEL_RESTORED: lambda levels: 1 + _ceiling(levels),
    Reading.ROOT_RESTORED: lambda levels: 2 * levels,
    Reading.FACTOR_TWO_RESTORED: lambda levels: 4 * levels,
    Reading.LEMMA_5_6: lambda levels: 2 * (1 + _ceiling(levels)),
    Reading.COROLLARY_5_11: lambda levels: 8 * levels,
}


def target_loss(delta: Any) -> Number:
    """log(2.5 / delta), of mu = epsilon / sqrt(2 log(2.5 / delta))."""
    return canonical(_log(sympify(Fraction(5, 2)) / sympify(delta)))


def gaussian_target(epsilon: Any, delta: Any) -> Number:
    """mu = epsilon / sqrt(2 log(2.5 / delta)), the target of Corollary 5.7's proof."""
    return canonical(sympify(epsilon) / sqrt(2 * target_loss(delta)))


def _log(value: Any) -> Any:
    import sympy

    return sympy.log(sympify(value))


def _ceiling(value: Any) -> Any:
    import sympy

    return sympy.ceiling(value)


def _binary_log(value: Any) -> Any:
    if isinstance(value, Fraction) and value == 2 ** (int(value).bit_length() - 1):
        return sympify(Fraction(int(value).bit_length() - 1))
    return sympify(canonical(_log(value) / _log(2)))


# --- what a run needs ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Constants:
    """Rounds T, batch size B, scale beta, norm C that bounds a row, and noise sigma of a node.

    ``sigma`` and what it is added to are in units of the model: the prefix sum over beta.
    Errors: InvalidParameter where T or B is no whole number from 1 on, beta, C or sigma is not
    positive: B < 1 where the literal constants ask for more rounds than there are records.
    """

    rounds: int
    batch: int
    beta: Number
    clip: Number
    sigma: Number

    def __post_init__(self) -> None:
        for name in ("rounds", "batch"):
            whole(getattr(self, name), name)
        for name in ("beta", "clip", "sigma"):
            value = exact(getattr(self, name), f"Constants.{name}")
            positive(value, f"Constants.{name}")
            object.__setattr__(self, name, value)


def least_multiplier(
    epsilon: object, delta: object, rounds: Any, strategy: Strategy = Factorisation.TREE
) -> Number:
    """sens(C) / mu*: the least sigma B beta / C_clip that is (epsilon, delta)-DP under zero_out.

    mu* is the largest mu that is (epsilon, delta)-DP; sens(C) the largest column norm,
    sqrt(floor(log2 T) + 1) for the tree.
    Source: Balle and Wang 2018, Theorem 8; Denisov et al. 2022, Theorem 2.1.
    """
    columns = largest_move(strategy, exact(rounds, "rounds"), SINGLE).upper
    return sqrt(columns / gaussian_mu(epsilon, delta) ** 2)


def printed_multiplier(
    epsilon: object, delta: object, rounds: Any, strategy: Strategy = Factorisation.TREE
) -> Number:
    """Corollary 5.7's sigma B beta / C_clip as printed, which is for the tree alone.

    Errors: InvalidParameter for another strategy, or one round, where it is no noise at all.
    """
    if strategy is not Factorisation.TREE or rounds == 1:
        raise InvalidParameter(f"Corollary 5.7 in {rounds} rounds of {strategy}: use a tree, T > 1")
    return Reading.AS_PRINTED.multiplier(
        exact(rounds, "rounds"), exact(epsilon, "epsilon"), exact(delta, "delta")
    )


CALIBRATIONS = {"corrected": least_multiplier, "paper": printed_multiplier}


def noised(rounds: int, batch: int, beta: Any, clip: Any, multiplier: Any) -> Constants:
    """The constants with sigma = multiplier C_clip / (B beta).

    Errors: those of :class:`Constants`.
    """
    scale, norm = exact(beta, "beta"), exact(clip, "clip")
    whole(batch, "batch")
    positive(scale, "beta")
    return Constants(rounds, batch, scale, norm, canonical(multiplier * norm / (batch * scale)))


# --- presets, ours -------------------------------------------------------------------------------


def preset_unconstrained(
    size: int,
    lipschitz: Any,
    smoothness: Any,
    epsilon: object,
    delta: object,
    *,
    rounds: int | None = None,
    beta: Any = None,
    clip: Any = None,
    strategy: Strategy = Factorisation.TREE,
    constants: str = "corrected",
) -> Constants:
    """T = 4 n^(1/4), beta = 4 M, C_clip = 4 L: for a minimiser that lies inside the ball.

    Each may be given instead.  Errors: InvalidParameter for more rounds than records.
    """
    if rounds is None:
        rounds = max(1, min(size, round(4 * whole(size, "size") ** 0.25)))
    elif rounds > size:
        raise InvalidParameter(f"rounds = {rounds} of {size} records: a batch would be empty")
    beta = 4 * exact(smoothness, "smoothness") if beta is None else beta
    norm = 4 * exact(lipschitz, "lipschitz") if clip is None else clip
    multiplier = _calibration(constants)(epsilon, delta, rounds, strategy)
    return noised(rounds, size // rounds, beta, norm, multiplier)


def preset_constrained(
    size: int,
    lipschitz: Any,
    smoothness: Any,
    epsilon: object,
    delta: object,
    *,
    clip: Any = None,
    strategy: Strategy = Factorisation.TREE,
    constants: str = "corrected",
) -> Constants:
    """T = sqrt(n), beta = 2 M T, C_clip = 4 L: whatever the minimiser."""
    rounds = max(1, round(math.sqrt(whole(size, "size"))))
    beta = 2 * exact(smoothness, "smoothness") * rounds
    norm = 4 * exact(lipschitz, "lipschitz") if clip is None else clip
    multiplier = _calibration(constants)(epsilon, delta, rounds, strategy)
    return noised(rounds, size // rounds, beta, norm, multiplier)


def _calibration(constants: str) -> Any:
    if constants not in CALIBRATIONS:
        raise InvalidParameter(f"constants = {constants!r}: expected corrected or paper")
    return CALIBRATIONS[constants]


# --- literal constants ---------------------------------------------------------------------------


def privacy_constant(size: Any, delta: Any) -> Number:
    """c_DP = 4 sqrt 2 log2(n)^(3/2) sqrt(ln(2n/delta)) ln(2.5/delta).

    The last factor may have stood under the root: no certificate is of that reading.
    Source: Choquette-Choo, Ganesh, Thakurta 2024, Equation 19.
    """
    import sympy

    n, d = sympify(exact(size, "size")), sympify(exact(delta, "delta"))
    power = sympy.Pow(_binary_log(n), sympy.Rational(3, 2))
    return canonical(4 * sympy.sqrt(2) * power * sympy.sqrt(_log(2 * n / d)) * target_loss(d))


def theorem_5_8(
    size: int,
    dimension: int,
    epsilon: Any,
    delta: Any,
    *,
    lipschitz: Any = 1,
    radius: Any = 1,
) -> Constants:
    """Equation 19 and Corollary 5.7, as printed, with T rounded up and B down.

    beta = c_DP^2 L max(1, sqrt(p) / (epsilon sqrt n)) / R, T = c_DP n^(1/4), C = c_DP L,
    sigma = C sqrt(log2(T) ln(2.5/delta)) / (epsilon B beta).
    Errors: InvalidParameter where B < 1: at delta = 1/n for every n below 10^6.2.
    Source: Choquette-Choo, Ganesh, Thakurta 2024, Theorem 5.8.
    """
    import sympy

    _budget(size, epsilon, delta)
    c = sympify(privacy_constant(size, delta))
    norm, ball = exact(lipschitz, "lipschitz"), exact(radius, "radius")
    p, e = exact(dimension, "dimension"), exact(epsilon, "epsilon")
    ratio = maximum((Fraction(1), sqrt(p / exact(size, "size")) / e))
    rounds = _up(c * sympy.Pow(sympify(exact(size, "size")), sympy.Rational(1, 4)))
    beta = canonical(c**2 * norm * ratio / ball)
    multiplier = Reading.AS_PRINTED.multiplier(Fraction(rounds), e, exact(delta, "delta"))
    if rounds > size:
        raise InvalidParameter(
            f"Equation 19 asks for {rounds} rounds of {size} records, so batch = 0: use a preset"
        )
    return noised(rounds, int(size) // rounds, beta, c * norm, multiplier)


def theorem_5_12(
    size: int,
    batch: int,
    epsilon: Any,
    delta: Any,
    *,
    lipschitz: Any = 1,
    smoothness: Any = 1,
    radius: Any = 1,
) -> Constants:
    """Theorem 5.12 as printed, T = n / B rounded down; C = (8 c_M + 4) L of Corollary 5.10.

    beta = (16 c_M + 8) L n^(3/2) / (R B^2), c_M = M R / L,
    sigma = (16 sqrt 2 c_M + 8 sqrt 2) L sqrt(log2(T) ln(2.5/delta)) / (epsilon B beta).
    Errors: InvalidParameter unless 1 <= B <= sqrt(n).
    Source: Choquette-Choo, Ganesh, Thakurta 2024, Theorem 5.12.
    """
    import sympy

    _budget(size, epsilon, delta)
    if not (hasattr(batch, "__index__") and 1 <= batch <= math.isqrt(int(size))):
        raise InvalidParameter(
            f"theorem_5_12: batch = {batch}, expected a whole number from 1 to sqrt({size})"
        )
    norm, smooth = exact(lipschitz, "lipschitz"), exact(smoothness, "smoothness")
    ball, rounds = exact(radius, "radius"), int(size) // batch
    clip = canonical(8 * smooth * ball + 4 * norm)
    power = sympy.Pow(sympify(Fraction(size)), sympy.Rational(3, 2))
    beta = canonical(2 * clip * power / (ball * batch**2))
    multiplier = Reading.COROLLARY_5_11.multiplier(
        Fraction(rounds), exact(epsilon, "epsilon"), exact(delta, "delta")
    )
    return noised(rounds, batch, beta, clip, multiplier)


def _budget(size: object, epsilon: object, delta: object) -> None:
    """Errors: InvalidParameter unless n >= 2 is a count, epsilon > 0 and delta in (0, 1)."""
    if whole(size, "size") < 2:
        raise InvalidParameter(f"size = {size}: the literal constants need at least 2 records")
    for name, value in (("epsilon", epsilon), ("delta", delta)):
        positive(exact(value, name), name)
    probability(exact(delta, "delta"), "delta")


def _up(value: Any) -> int:
    ceiling = upper_fraction(enclose(canonical(value)))
    floor = lower_fraction(enclose(canonical(value)))
    if ceiling is None or floor is None or math.ceil(ceiling) != math.ceil(floor):
        raise InvalidParameter(f"{value}: cannot be rounded up to a whole number")
    return math.ceil(ceiling)


def as_float(value: Number) -> float:
    """The float64 nearest to an exact number."""
    if not is_symbolic(value):
        return float(value)
    return float(enclose(value).mid())
