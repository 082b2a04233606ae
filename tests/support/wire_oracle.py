"""What a declaration means, read from its wire form by itself: every round is written out.

Shares no code with the accountant and the checker: expressions are evaluated by fractions and
mpmath, a repetition is expanded round by round, and each leaf is a textbook pair of output laws
(:mod:`tests.support.coarse`).  All losses are from below; only :attr:`Truth.most` is from above.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import mpmath
import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from tests.support import coarse
from tests.support.coarse import ALL, NOTHING, Cells, Floats, seen

Json = dict[str, Any]
Symbol = tuple[str, frozenset[str]]
Values = Mapping[Symbol, Any]
MP = mpmath.MPContext()
MP.dps = 40
ORDERS = np.array([1.01, 1.5, 2.0, 4.0, 16.0, 48.0])
INFINITE = MP.mpf("inf")
# A number that is no fraction, and closer to 0 than this, may be 0.
UNCLEAR = MP.mpf(10) ** -30
# Rounding of float sums, at most; taken off every lower bound that is made of such.
ROUNDING = 1e-11
TINY, FAR, STEEP = 1e-290, 30.0, 50.0
ROUNDS, SHOWN_ROUNDS, MOST_TIMES = 80, 40, 10**4
LARGEST_POWER = 10_000
ALPHA = ("alpha", frozenset({"positive", "nonnegative", "real", "nonzero"}))
PARTS = 160


class Meaningless(Exception):
    """An expression without a real, finite value."""


class Unknown(Exception):
    """Something of which this oracle says nothing."""


# --- expressions ----------------------------------------------------------------------------------


def symbol(table: Sequence[Any]) -> Symbol:
    """A symbol on the wire: its name and what is assumed of it."""
    return str(table[1]), frozenset(k for k, v in table[2].items() if v)


def evaluate(table: Any, values: Values) -> Any:
    """A number on the wire as a fraction, or as a number of 40 digits.

    Errors: Meaningless for what has no real, finite value; Unknown for an unbound symbol.
    """
    if isinstance(table, str):
        return Fraction(table)
    head, *inside = table
    if head in SPECIAL:
        return SPECIAL[head](inside, values)
    try:
        found = HEADS[head](*(evaluate(a, values) for a in inside))
    except (ZeroDivisionError, OverflowError, ValueError) as error:
        raise Meaningless(str(error)) from None
    if not isinstance(found, Fraction):
        if isinstance(found, MP.mpc) or not MP.isfinite(found):
            raise Meaningless(f"{head}: {found}")
        found = MP.mpf(found)
    return found


def _bound(inside: Sequence[Any], values: Values) -> Any:
    key = symbol(["Symbol", *inside])
    if key not in values:
        raise Unknown(f"symbol {inside[0]}")
    return values[key]


def _function(inside: Sequence[Any], values: Values) -> Any:
    raise Unknown(f"function {inside[0]}")


def _infinity(inside: Sequence[Any], values: Values) -> Any:
    raise Meaningless("infinite")


def _sum(term: Any, limits: Sequence[Any], values: Values) -> Any:
    if not limits:
        return evaluate(term, values)
    _, index, first, last = limits[-1]
    ends = [evaluate(end, values) for end in (first, last)]
    if any(not isinstance(end, Fraction) or end.denominator != 1 for end in ends):
        raise Meaningless("a sum up to no whole number")
    if ends[1] - ends[0] > MOST_TIMES or ends[1] < ends[0] - 1:
        raise Unknown("a long sum")
    rounds = range(int(ends[0]), int(ends[1]) + 1)
    terms = [_sum(term, limits[:-1], {**values, symbol(index): Fraction(k)}) for k in rounds]
    return sum(terms[1:], terms[0]) if terms else Fraction(0)


def _mixed(operation: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def folded(*numbers: Any) -> Any:
        result = numbers[0]
        for number in numbers[1:]:
            both = isinstance(result, Fraction) and isinstance(number, Fraction)
            pair = (result, number) if both else (_real(result), _real(number))
            result = operation(*pair)
        return result

    return folded


def _real(number: Any) -> Any:
    if isinstance(number, Fraction):
        return MP.mpf(number.numerator) / number.denominator
    return number


def _power(base: Any, exponent: Any) -> Any:
    if isinstance(exponent, Fraction) and exponent.denominator == 1:
        size = abs(int(exponent))
        if isinstance(base, Fraction) and size <= LARGEST_POWER:
            return base ** int(exponent)
        return _real(base) ** int(exponent)
    if base < 0:
        raise Meaningless("a root of a negative number")
    if base == 0 and exponent < 0:
        raise Meaningless("1/0")
    return _real(base) ** _real(exponent)


def _whole(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def rounded(number: Any) -> Any:
        if isinstance(number, Fraction):
            return Fraction(function(number))
        near = MP.nint(number)
        if abs(near - number) < UNCLEAR:
            raise Unknown("a floor next to a jump")
        return Fraction(int(MP.floor(number)) + (function is math.ceil))

    return rounded


def _logarithm(number: Any) -> Any:
    if number <= 0:
        raise Meaningless("a logarithm of no positive number")
    return MP.log(_real(number))


def _binomial(n: Any, k: Any) -> Any:
    whole = all(isinstance(x, Fraction) and x.denominator == 1 for x in (n, k))
    if not whole or n < 0:
        raise Unknown("a binomial of no natural numbers")
    return Fraction(math.comb(int(n), int(k)) if k >= 0 else 0)


def _inverse_error(number: Any) -> Any:
    if abs(number) >= 1:
        raise Meaningless("erfinv beyond 1")
    return MP.erfinv(_real(number))


SPECIAL: dict[str, Callable[[Sequence[Any], Values], Any]] = {
    "Symbol": _bound,
    "Function": _function,
    "Sum": lambda inside, values: _sum(inside[0], inside[1:], values),
    "Infinity": _infinity,
    "Pi": lambda inside, values: +MP.pi,
    "Exp1": lambda inside, values: +MP.e,
}
HEADS: dict[str, Callable[..., Any]] = {
    "Add": _mixed(lambda a, b: a + b),
    "Mul": _mixed(lambda a, b: a * b),
    "Max": _mixed(max),
    "Min": _mixed(min),
    "Pow": _power,
    "exp": lambda x: MP.exp(_real(x)),
    "log": _logarithm,
    "tanh": lambda x: MP.tanh(_real(x)),
    "erf": lambda x: MP.erf(_real(x)),
    "erfinv": _inverse_error,
    "Abs": abs,
    "floor": _whole(math.floor),
    "ceiling": _whole(math.ceil),
    "binomial": _binomial,
}


# --- what a parameter may be ----------------------------------------------------------------------


def _above(value: Fraction, least: int = 0, *, strict: bool = True) -> bool:
    return value > least if strict else value >= least


def _natural(value: Fraction) -> bool:
    return value >= 0 and value.denominator == 1


DOMAINS: dict[str, Callable[[Any], bool]] = {
    "positive": _above,
    "not negative": lambda v: _above(v, strict=False),
    "above 1": lambda v: _above(v, 1),
    "above -1": lambda v: _above(v, -1),
    "in [0, 1)": lambda v: _above(v, strict=False) and _above(1 - v),
    "in (0, 1)": lambda v: _above(v) and _above(1 - v),
    "in (0, 1]": lambda v: _above(v) and _above(1 - v, strict=False),
    "in [0, 1]": lambda v: _above(v, strict=False) and _above(1 - v, strict=False),
    "natural": _natural,
    "natural from 1": lambda v: _natural(v) and _above(v),
    "natural from 2": lambda v: _natural(v) and _above(v, 1),
}
WORDS = {
    "+": "positive",
    "0+": "not negative",
    ">1": "above 1",
    ">-1": "above -1",
    "[0,1)": "in [0, 1)",
    "(0,1)": "in (0, 1)",
    "(0,1]": "in (0, 1]",
    "[0,1]": "in [0, 1]",
    "n": "natural",
    "n1": "natural from 1",
    "n2": "natural from 2",
}
_SUMS = "variance + clients n1 dropouts n"
FIELDS: dict[str, dict[str, str]] = {
    name: {key: WORDS[word] for key, word in zip(*[iter(text.split())] * 2, strict=True)}
    for name, text in {
        "Gaussian": "noise_multiplier +",
        "Laplace": "noise_multiplier +",
        "DiscreteGaussian": "variance + sensitivity n1",
        "DiscreteLaplace": "scale + sensitivity n1",
        "TruncatedDiscreteLaplace": "scale + bound n1 sensitivity n1",
        "RandomizedResponse": "epsilon + choices n2",
        "Staircase": "epsilon + share (0,1]",
        "Tulap": "epsilon + delta [0,1)",
        "StudentT": "noise_multiplier + degrees +",
        "TruncatedLaplace": "noise_multiplier + bound >1",
        "ExponentialMechanism": "epsilon +",
        "IntegerExponentialMechanism": "epsilon +",
        "ReportNoisyMax": "epsilon +",
        "AboveThreshold": "epsilon_threshold + epsilon_query + answers n1",
        "NoisyComparisons": "threshold_scale + query_scale + margin + answers n1",
        "PureDP": "epsilon 0+",
        "ApproxDP": "epsilon 0+ delta [0,1)",
        "ZCDP": "rho 0+",
        "GDP": "mu 0+",
        "RenyiDP": "order >1 epsilon 0+",
        "RenyiCurve": "",
        "ProfilePoints": "",
        "Laws": "",
        "MixtureOfGaussians": "noise_multiplier +",
        "NonPrivate": "",
        "CorrelatedGaussian": "noise_multiplier + rounds n1",
        "CyclicPoisson": "groups n1 rate (0,1]",
        "DistributedGaussian": f"{_SUMS} sensitivity n1",
        "DistributedSkellam": f"{_SUMS} sensitivity n1",
        "DistributedGaussianVector": f"{_SUMS} squared n1 modulus n",
        "DistributedSkellamVector": f"{_SUMS} squared n1 modulus n",
        "DiscreteGaussianVector": "variance + squared n1",
        "ThresholdedDiscreteLaplace": "scale + threshold n1 sensitivity n1 own n1 largest n1",
        "ThresholdedDiscreteGaussian": "variance + threshold n1 squared n1 own n1 largest n1",
        "IndividualGaussian": "noise_multiplier + mu + rounds n1",
        "LastIterate": "noise_multiplier + steps n1 contraction (0,1] diameter 0+ batches n1",
        "SampledLastIterate": "noise_multiplier + steps n1 rate (0,1] contraction (0,1] "
        "diameter 0+",
        "SubsetResponse": "epsilon + share (0,1) overlap [0,1] free [0,1]",
        "StableRelease": "epsilon + kappa n1 noise_multiplier +",
        "CoupledGaussian": "noise_multiplier + always n flips n rate (0,1]",
        "Compose": "",
        "Parallel": "",
        "Select": "",
        "Assuming": "",
        "Repeat": "times n",
        "PoissonSampled": "rate (0,1]",
        "SampledWithoutReplacement": "batch_size n1 population n1",
        "SampledWithReplacement": "draws n1 population n1",
        "RandomAllocation": "slots n1",
        "CyclicBatches": "population n1 batch_size n1",
        "ShuffledBatches": "population n1 batch_size n1",
        "TruncatedPoisson": "rate (0,1] population n1 batch_size n1",
        "EventSlack": "probability [0,1)",
        "ProposeTestRelease": "false_pass (0,1)",
        "Group": "size n1",
        "Filter": "cap 0+ delta [0,1)",
        "Tuned": "gamma (0,1) shape >-1",
        "TunedPoisson": "mean +",
        "Shuffled": "population n1",
    }.items()
}
# What two parameters have to be to one another.
TOGETHER: dict[str, Callable[[Any], bool]] = {
    "SampledWithoutReplacement": lambda p: p["batch_size"] <= p["population"],
    "CyclicBatches": lambda p: p["population"] % p["batch_size"] == 0,
    "ShuffledBatches": lambda p: p["population"] % p["batch_size"] == 0,
    "TruncatedPoisson": lambda p: p["batch_size"] <= p["population"],
    "TruncatedDiscreteLaplace": lambda p: p["bound"] >= p["sensitivity"],
    "ThresholdedDiscreteLaplace": lambda p: p["threshold"] > p["largest"],
    "ThresholdedDiscreteGaussian": lambda p: p["threshold"] > p["largest"],
    "NoisyComparisons": lambda p: p["margin"] >= 1,
    "LastIterate": lambda p: p["steps"] % p["batches"] == 0,
    "CoupledGaussian": lambda p: p["always"] + p["flips"] > 0,
    **dict.fromkeys(
        (
            "DistributedGaussian",
            "DistributedSkellam",
            "DistributedGaussianVector",
            "DistributedSkellamVector",
        ),
        lambda p: p["dropouts"] < p["clients"],
    ),
    "IndividualGaussian": lambda p: p["rounds"] > (p["noise_multiplier"] * p["mu"]) ** 2,
    "SubsetResponse": lambda p: max(Fraction(0), 2 * p["share"] - 1) <= p["overlap"] < p["share"],
}


# --- losses ---------------------------------------------------------------------------------------


def _capped(values: Any) -> Floats:
    found: Floats = np.clip(np.asarray(values, dtype=np.float64), 0.0, 1e300)
    return found


def renyi_of(cells: Cells) -> Floats:
    """Renyi divergences at ``ORDERS`` in both directions, from below."""
    kept = (cells.p > TINY) & (cells.q > TINY)
    if not kept.any():
        return np.zeros((2, len(ORDERS)))
    loss = np.log(cells.p[kept]) - np.log(cells.q[kept])
    rows = []
    for own, sign in ((cells.p[kept], 1), (cells.q[kept], -1)):
        powers = np.multiply.outer(ORDERS - 1, sign * loss)
        top = powers.max(axis=1, keepdims=True)
        logs = top[:, 0] + np.log((own * np.exp(powers - top)).sum(axis=1))
        rows.append((logs - ROUNDING) / (ORDERS - 1) * (1 - ROUNDING))
    return _capped(rows)


def losses_of(cells: Cells) -> tuple[Any, Any]:
    """The largest privacy loss in either direction, from below."""
    kept = (cells.p > TINY) & (cells.q > TINY)
    if not kept.any():
        return MP.mpf(0), MP.mpf(0)
    loss = np.log(cells.p[kept]) - np.log(cells.q[kept])
    return tuple(MP.mpf(max(float(x) - ROUNDING, 0)) for x in (loss.max(), -loss.min()))  # type: ignore[return-value]


@dataclass(frozen=True)
class Truth:
    """What a declaration's worst mechanism that is known here loses, at least.

    ``square``: mu^2 of its Gaussian part, ``cells`` the rest, and ``renyi`` and ``pure`` both
    together; of ``pure`` a value a direction.  ``most``: a pure epsilon from above, infinite where
    unknown.
    """

    cells: Cells = NOTHING
    square: Any = MP.mpf(0)
    renyi: Floats = field(default_factory=lambda: np.zeros((2, len(ORDERS))))
    pure: tuple[Any, Any] = (MP.mpf(0), MP.mpf(0))
    most: Any = MP.mpf(0)

    def __mul__(self, other: Truth) -> Truth:
        return Truth(
            self.cells if other.cells is NOTHING else self.cells * other.cells,
            self.square + other.square,
            _capped(self.renyi + other.renyi),
            (self.pure[0] + other.pure[0], self.pure[1] + other.pure[1]),
            self.most + other.most,
        )

    def __pow__(self, times: int) -> Truth:
        if times == 0:
            return Truth()
        few = min(times, MOST_TIMES)
        return Truth(
            self.cells if self.cells is NOTHING else self.cells**few,
            self.square * times,
            _capped(self.renyi * min(float(times), 1e300) if times < 10**300 else self.renyi),
            (self.pure[0] * times, self.pure[1] * times),
            self.most * times,
        )

    @cached_property
    def whole(self) -> Cells:
        """All of it in cells."""
        mu = min(float(MP.sqrt(self.square)), FAR)
        if mu == 0:
            return self.cells
        return coarse.normal(mu) if self.cells is NOTHING else self.cells * coarse.normal(mu)

    @cached_property
    def advantage(self) -> float:
        """The total variation, to choose the worst of several by."""
        return float(np.abs(self.whole.p - self.whole.q).sum())

    @property
    def mu(self) -> Any:
        """A Gaussian's mu that no larger one would allow: of its tests, or of its Gaussian part."""
        if self.cells is NOTHING:
            return MP.sqrt(self.square)
        order = np.argsort(-self.whole.loss)
        told, false = (np.cumsum(own[order])[:-1] for own in (self.whole.p, self.whole.q))
        kept = (told > TINY) & (told < 1 - 1e-6) & (false > TINY) & (false < 1 - 1e-6)
        if not kept.any():
            return MP.sqrt(self.square)
        most = (ndtri(told[kept]) - ndtri(false[kept])).max()
        return max(MP.sqrt(self.square), MP.mpf(max(most - 1e-9, 0)))


def gaussian(square: Any) -> Truth:
    """N(mu, 1) against N(0, 1)."""
    half = float(min(square, MP.mpf(10) ** 300)) / 2
    one = _capped(ORDERS * half * (1 - ROUNDING))
    pure = INFINITE if square > 0 else MP.mpf(0)
    return Truth(square=square, renyi=np.array([one, one]), pure=(pure, pure), most=pure)


def of_cells(cells: Cells, pure: Any = None, most: Any = INFINITE) -> Truth:
    """What is made of cells; ``pure``: its largest loss where that is known, in both directions."""
    losses = losses_of(cells) if pure is None else (_real(pure), _real(pure))
    return Truth(cells, MP.mpf(0), renyi_of(cells), losses, _real(most))


def alone(pure: Any) -> Truth:
    """A mechanism of which the largest loss alone is known, not even how likely it is."""
    return Truth(pure=(_real(pure), _real(pure)), most=_real(pure))


def gaussian_delta(epsilon: float, mu: float) -> float:
    """The privacy profile of N(mu, 1) against N(0, 1)."""
    first = ndtr(mu / 2 - epsilon / mu)
    return float(first - math.exp(min(epsilon + log_ndtr(-mu / 2 - epsilon / mu), 700)))


# --- leaves ---------------------------------------------------------------------------------------


def _between(value: Any, low: float, high: float) -> float:
    """A value as a float. Errors: Unknown for one so small or large that floats lose it."""
    if not low <= value <= high:
        raise Unknown(f"beyond {low:g} to {high:g}")
    return float(value)


def _pure_leaf(epsilon: Any, cells: Callable[[float], Cells]) -> Truth:
    """A mechanism of a largest loss that is reached: with the cells where they are not too far."""
    if epsilon == 0:
        return Truth()
    if not 1e-6 <= epsilon <= STEEP:
        return alone(epsilon)
    return of_cells(cells(float(epsilon)), epsilon, epsilon)


def _scores(p: Any, group: int) -> tuple[Any, float]:
    """The pure epsilon of a choice by scores, and by how much the other scores fall."""
    monotone = p["scores"] == "monotone"
    return p["epsilon"] / 2 if monotone else p["epsilon"], 0.0 if monotone else -1.0


def _exponential(p: Any, group: int) -> Truth:
    epsilon, least = _scores(p, group)
    unit = float(min(p["epsilon"], Fraction(10**9))) / 2

    def cells(_: float) -> Cells:
        return coarse.picked([0.0, 4 * unit], [unit, unit * least])

    found = _pure_leaf(epsilon, cells)
    return replace(found, most=_real(p["epsilon"]))


def _noisy_max(p: Any, group: int) -> Truth:
    if p["noise"] == "gumbel":
        return _exponential(p, group)
    _, least = _scores(p, group)
    moved = _between(p["epsilon"], 1e-6, STEEP) / 2 * (1 - least)
    kind = p["noise"] == "laplace"
    cells = [
        coarse.answers(*(coarse.ahead(g, laplace_noise=kind) for g in (gap + moved, gap)))
        for gap in (-2.0, -40.0)
    ]
    losses = losses_of(cells[1])
    return Truth(cells[0], MP.mpf(0), renyi_of(cells[0]), losses, _real(p["epsilon"]))


def _thresholds(p: Any, group: int) -> Truth:
    ours, theirs = (_between(p[f"epsilon_{k}"], 1e-2, 20) for k in ("threshold", "query"))
    answers = int(_between(p["answers"], 1, 50))
    scale, query = 1 / ours, 2 * answers / theirs
    up = 0.0 if p["scores"] == "monotone" else 1.0
    levels = 0.5 * scale, -0.5 * query
    moved = levels[0] - 1, levels[1] + up
    cells = coarse.thresholded(scale, query, 10, answers, levels, moved)
    return of_cells(cells, most=p["epsilon_threshold"] + p["epsilon_query"])


def _comparisons(p: Any, group: int) -> Truth:
    one, other = (_between(p[k], 1e-2, 1e3) for k in ("threshold_scale", "query_scale"))
    if abs(one / other - 1) < 1e-2:
        raise Unknown("scales next to one another")
    margin, count = _between(p["margin"], 1, 1e3), int(_between(p["answers"], 1, 10**4))
    chances = (coarse.exceeds(m, one, other) for m in (margin - 1, margin))
    return of_cells(coarse.answers(*chances)) ** count


def _points(p: Any, group: int) -> Truth:
    return of_cells(coarse.response(0.0, float(p["points"][-1][1])))


def _summed(skellam: bool) -> Callable[[Any, int], Truth]:
    def found(p: Any, group: int) -> Truth:
        left = int(_between(p["clients"] - p["dropouts"], 1, 20))
        variance = _between(p["variance"], 1e-2, 200 / left)
        move = math.isqrt(int(p["squared"])) if "squared" in p else int(p["sensitivity"])
        modulus = int(_between(p.get("modulus", 0), 0, 10**4))
        return of_cells(coarse.summed(variance, left, skellam, min(move, 20), modulus))

    return found


def _vector(p: Any, group: int) -> Truth:
    variance, found = _between(p["variance"], 1e-2, 1e3), Truth()
    vector = p["moves"][0] if p["moves"] else ((math.isqrt(int(p["squared"])), 1),)
    for size, count in vector:
        one = of_cells(coarse.summed(variance, 1, False, min(int(size), 20)))
        found = found * one ** int(count)
    return found


def _keys(p: Any, group: int) -> Truth:
    scale = _between(p["scale"], 1e-2, 1e3)
    count = min(p["largest"], p["sensitivity"])
    fall = math.exp(-1 / scale)
    shown = fall ** int(p["threshold"] - count) / (1 + fall)
    gone = seen((shown, 0.0, NOTHING), (1 - shown, 1.0, NOTHING))
    common = coarse.whole_laplace(scale, int(_between(p["sensitivity"], 1, 40)))
    return max((of_cells(gone), of_cells(common)), key=lambda truth: truth.advantage)


def _gaussian_keys(p: Any, group: int) -> Truth:
    variance, move = _between(p["variance"], 1e-2, 1e3), math.isqrt(int(p["squared"]))
    shown = coarse.gaussian_tail(int(p["threshold"] - min(p["largest"], move)), variance)
    gone = seen((shown, 0.0, NOTHING), (1 - shown, 1.0, NOTHING))
    common = coarse.summed(variance, 1, False, min(move, 20))
    return max((of_cells(gone), of_cells(common)), key=lambda truth: truth.advantage)


def _coupled(p: Any, group: int) -> Truth:
    z, always, flips = p["noise_multiplier"], int(p["always"]), int(p["flips"])
    if flips > 30:
        return gaussian((always / _real(z)) ** 2)
    rate = float(p["rate"])
    z = _between(z, 1e-2, 1e4)
    chances = [math.comb(flips, k) * rate**k * (1 - rate) ** (flips - k) for k in range(flips + 1)]
    moves = [coarse.normal(min((always + k) / z, FAR)) for k in range(flips + 1)]
    cells = seen(*((c, c, own) for c, own in zip(chances, moves, strict=True)))
    return of_cells(cells, INFINITE)


def _iterates(p: Any, group: int) -> Truth:
    z, contraction = p["noise_multiplier"], float(p["contraction"])
    if p["diameter"] > 0:
        z, diameter = _between(z, 1e-2, 1e3), _between(p["diameter"], 1e-3, 1e3)
        return of_cells(coarse.clipped(z, diameter))
    steps = int(_between(p["steps"], 1, 10**5))
    shares = contraction ** np.arange(steps)
    moved = shares[:: int(p["batches"])].sum() ** 2 / (shares**2).sum()
    return gaussian(MP.mpf(float(moved) * (1 - ROUNDING)) / _real(z) ** 2)


def _hidden_batches(p: Any, group: int) -> Truth:
    z, rate = _between(p["noise_multiplier"], 5e-2, 1e3), float(p["rate"])
    steps, free = p["steps"], p["diameter"] == 0
    if not free and p["diameter"] < 1:
        raise Unknown("a small set")
    if free and p["contraction"] == 1 and steps <= 30:
        n = int(steps)
        return of_cells(coarse.drawn(1 / z / math.sqrt(n), rate, n))
    return of_cells(coarse.drawn(1 / z, rate, 1))


def _subsets(p: Any, group: int) -> Truth:
    share, overlap = float(p["share"]), float(p["overlap"])
    return _pure_leaf(p["epsilon"], lambda e: coarse.sets(e, share, overlap))


def _stable(p: Any, group: int) -> Truth:
    epsilon, kappa = _between(p["epsilon"], 1e-3, 20), int(_between(p["kappa"], 1, 200))
    z = _between(p["noise_multiplier"], 1e-2, 1e5)
    score = kappa + 1
    mu = (2 * score + 1 if p["distance"] == "path" else 2) / z
    return of_cells(coarse.scored(epsilon, kappa, score, coarse.normal(min(mu, FAR))))


def _discrete_laplace(p: Any, group: int) -> Truth:
    epsilon, move = p["sensitivity"] * group / p["scale"], int(p["sensitivity"] * group)
    if not (1e-2 <= p["scale"] <= 1e4 and move <= 40):
        return alone(epsilon)
    return _pure_leaf(epsilon, lambda e: coarse.whole_laplace(float(p["scale"]), move))


def _truncated(p: Any, group: int) -> Truth:
    scale, move = _between(p["scale"], 1e-2, 1e3), int(_between(p["sensitivity"], 1, 40))
    return of_cells(coarse.whole_laplace(scale, move, int(_between(p["bound"], 1, 300))))


def _cut_laplace(p: Any, group: int) -> Truth:
    scale, bound = _between(p["noise_multiplier"], 1e-2, 1e3), _between(p["bound"], 1 + 1e-9, 300)
    if (scale, bound) != (float(p["noise_multiplier"]), float(p["bound"])):
        raise Unknown("noise far from all that is tried")
    return of_cells(coarse.truncated_laplace(scale, bound))


def _student(p: Any, group: int) -> Truth:
    scale, degrees = _real(p["noise_multiplier"]), _real(p["degrees"])
    largest = (degrees + 1) * MP.asinh(1 / (2 * scale * MP.sqrt(degrees)))
    if not (1e-2 <= scale <= 1e3 and 1e-1 <= degrees <= 1e3):
        return alone(largest)
    return of_cells(coarse.student(float(scale), float(degrees)), largest, largest)


def _laws(p: Any, group: int) -> Truth:
    masses = np.array([[float(mass) for mass in row] for row in p["outcomes"]])
    return of_cells(Cells(masses[:, 0], masses[:, 1]), INFINITE)


def _mixture(p: Any, group: int) -> Truth:
    """Of one record of the group, at least."""
    noise = _between(p["noise_multiplier"], 1e-2, 1e3)
    moves = [(float(move) / noise, float(chance)) for move, chance in p["moves"]]
    return of_cells(coarse.mixture(moves), INFINITE)


def _discrete_gaussian(p: Any, group: int) -> Truth:
    move = int(min(p["sensitivity"] * group, 20))
    return of_cells(coarse.summed(_between(p["variance"], 1e-2, 1e3), 1, False, move), INFINITE)


def _response(p: Any, group: int) -> Truth:
    choices = int(p["choices"])
    if choices > 10**6:
        return alone(p["epsilon"])
    if choices == 2:
        return _pure_leaf(p["epsilon"], coarse.response)
    return _pure_leaf(p["epsilon"], lambda e: coarse.shuffled(e, choices, 1))


def _pure_dp(p: Any, group: int) -> Truth:
    if group == 1 or not p["epsilon"] > Fraction(1, 10**4):
        return _pure_leaf(p["epsilon"] * group, coarse.response)
    return _pure_leaf(
        p["epsilon"] * group, lambda e: coarse.whole_laplace(group / e, min(group, 40))
    )


def _approx_dp(p: Any, group: int) -> Truth:
    if p["delta"] == 0:
        return _pure_dp(p, 1)
    epsilon = float(min(p["epsilon"], Fraction(50)))
    return of_cells(coarse.response(epsilon, float(p["delta"])), INFINITE)


def _matrix(p: Any) -> Any:
    """A strategy's rows, for as many rounds as there are; few of them where it goes on alike."""
    strategy, rounds = p["strategy"], int(_between(p["rounds"], 1, 400))
    if isinstance(strategy, str):
        if strategy == "independent_prefix":
            return np.tri(rounds)
        if strategy == "tree":
            nodes = [(m - (m & -m), m) for m in range(1, rounds + 1)]
            return np.array([[first <= t < last for t in range(rounds)] for first, last in nodes])
        return np.eye(rounds)  # every named strategy but one has ones on its diagonal
    if "rows" in strategy:
        rows = [[float(Fraction(x)) for x in row.split()] for row in strategy["rows"].split(";")]
        return np.array([[*row, *[0.0] * (rounds - len(row))] for row in rows])
    bands = [float(Fraction(x)) for x in strategy["coefficients"].split()]
    matrix = np.zeros((rounds, rounds))
    for k, band in enumerate(bands):
        matrix += band * np.eye(rounds, k=-k)
    return matrix


def _correlated(p: Any, group: int) -> Truth:
    if p["strategy"] == "smooth_binary":
        raise Unknown("a strategy without a diagonal")
    matrix, who = _matrix(p), p["participation"]
    turns, apart = int(who["at_most"]), int(who["separation"])
    columns = [matrix[:, t] for t in range(0, matrix.shape[1], apart)][:turns]
    squared = max(
        float((np.sum(columns, axis=0) ** 2).sum()),
        *(float((matrix[:, t] ** 2).sum()) for t in range(matrix.shape[1])),
    )
    return gaussian(MP.mpf(squared * (1 - ROUNDING)) * group**2 / _real(p["noise_multiplier"]) ** 2)


def _curve(p: Any, group: int) -> Truth:
    """Gaussian noise, where the curve is a line through 0."""
    slopes = [_real(p["curve"](Fraction(a))) / a for a in (2, 3, 50)]
    if max(slopes) - min(slopes) > UNCLEAR * max(slopes):
        raise Unknown("no line")
    return gaussian(2 * slopes[0])


def _squared(value: Any) -> Any:
    return _real(value) ** 2


LEAVES: dict[str, Callable[[Any, int], Truth]] = {
    "Gaussian": lambda p, k: gaussian(k * k / _squared(p["noise_multiplier"])),
    "GDP": lambda p, k: gaussian(k * k * _squared(p["mu"])),
    "ZCDP": lambda p, k: gaussian(k * k * 2 * _real(p["rho"])),
    "RenyiDP": lambda p, k: gaussian(2 * _real(p["epsilon"]) / _real(p["order"])),
    "IndividualGaussian": lambda p, k: gaussian(_squared(p["mu"])),
    "RenyiCurve": _curve,
    "Laplace": lambda p, k: _pure_leaf(k / p["noise_multiplier"], coarse.laplace),
    "PureDP": _pure_dp,
    "ApproxDP": _approx_dp,
    "ProfilePoints": _points,
    "Laws": _laws,
    "MixtureOfGaussians": _mixture,
    "NonPrivate": lambda p, k: of_cells(ALL, INFINITE),
    "DiscreteGaussian": _discrete_gaussian,
    "DiscreteLaplace": _discrete_laplace,
    "TruncatedDiscreteLaplace": _truncated,
    "RandomizedResponse": _response,
    "Staircase": lambda p, k: _pure_leaf(
        p["epsilon"], lambda e: coarse.staircase(e, _between(p["share"], 1e-9, 1))
    ),
    "Tulap": _approx_dp,
    "StudentT": _student,
    "TruncatedLaplace": _cut_laplace,
    "ExponentialMechanism": _exponential,
    "IntegerExponentialMechanism": _exponential,
    "ReportNoisyMax": _noisy_max,
    "AboveThreshold": _thresholds,
    "NoisyComparisons": _comparisons,
    "CorrelatedGaussian": _correlated,
    "DistributedGaussian": _summed(skellam=False),
    "DistributedSkellam": _summed(skellam=True),
    "DistributedGaussianVector": _summed(skellam=False),
    "DistributedSkellamVector": _summed(skellam=True),
    "DiscreteGaussianVector": _vector,
    "ThresholdedDiscreteLaplace": _keys,
    "ThresholdedDiscreteGaussian": _gaussian_keys,
    "LastIterate": _iterates,
    "SampledLastIterate": _hidden_batches,
    "SubsetResponse": _subsets,
    "StableRelease": _stable,
    "CoupledGaussian": _coupled,
}


# --- combinators ----------------------------------------------------------------------------------


def _kept(cells: Cells, child: Truth) -> Truth:
    """A mechanism whose largest loss is at most the child's."""
    return of_cells(cells, most=child.most)


def _filtered(p: Any, leaves: set[str]) -> Truth:
    """All of the cap in one release."""
    cap, kind = p["cap"], p["measure"]
    if kind == "rdp":
        if "Gaussian" not in leaves:
            raise Unknown("no Gaussian noise in it")
        return _curve({"curve": cap}, 1)
    if kind in ("pure", "approx") and "Laplace" in leaves:
        return _pure_leaf(cap, coarse.laplace)
    if kind == "approx" and "ApproxDP" in leaves:
        return _approx_dp({"epsilon": cap, "delta": p["delta"]}, 1)
    if kind in ("zcdp", "gdp") and "Gaussian" in leaves:
        return gaussian(2 * _real(cap) if kind == "zcdp" else _squared(cap))
    raise Unknown("other leaves")


def _truncated_batch(p: Any, child: Truth) -> Truth:
    population, batch = int(_between(p["population"], 1, 400)), int(p["batch_size"])
    kept = coarse.stays(float(p["rate"]), population, batch)
    return _kept(child.whole.mixed(kept), child)


def _tuned(p: Any, child: Truth) -> Truth:
    if p["shape"] not in (0, 1):
        raise Unknown("another law")
    gamma = _between(p["gamma"], 1e-9, 1 - 1e-9)
    return of_cells(coarse.best_of_runs(child.whole, gamma, int(p["shape"])))


def _redrawn(p: Any, child: Truth) -> Truth:
    rate = -math.expm1(float(p["draws"]) * math.log1p(-1 / max(float(p["population"]), 1 + 1e-15)))
    return _kept(child.whole.mixed(min(rate, 1.0)), child)


def _opposed(p: Any, child: Truth) -> Truth:
    """Half of a Gaussian's move either way; of other noise half a move is not known."""
    half = min(float(MP.sqrt(child.square)), FAR) / 2
    gaussian_only = child.cells is NOTHING and half > 0
    return _kept(coarse.opposed(half, float(p["rate"])) if gaussian_only else NOTHING, child)


def _event(p: Any, child: Truth) -> Truth:
    rare = float(p["probability"])
    return of_cells(seen((rare, rare, ALL), (1 - rare, 1 - rare, child.whole)))


COMBINED: dict[str, Callable[[Any, Truth], Truth]] = {
    "Assuming": lambda p, child: child,
    "PoissonSampled": lambda p, child: _kept(child.whole.mixed(float(p["rate"])), child),
    "SampledWithoutReplacement": lambda p, child: _kept(
        child.whole.mixed(float(p["batch_size"] / p["population"])), child
    ),
    "SampledWithReplacement": _redrawn,
    "RandomAllocation": lambda p, child: of_cells(
        coarse.one_of(child.whole, int(min(p["slots"], 10**9)))
    ),
    "CyclicBatches": lambda p, child: child,
    "ShuffledBatches": lambda p, child: of_cells(
        coarse.one_of(child.whole, int(min(p["population"] / p["batch_size"], 10**9)))
    ),
    "TruncatedPoisson": _truncated_batch,
    "EventSlack": _event,
    "Tuned": _tuned,
    "TunedPoisson": lambda p, child: of_cells(
        coarse.best_of_poisson(child.whole, _between(p["mean"], 1e-3, 100))
    ),
    "Shuffled": lambda p, child: _kept(
        coarse.one_of(child.whole, int(min(p["population"], 10**9))), child
    ),
}


# Samples, whose truth under replace_one is of batches of other records as well.
OF_OTHERS = {*COMBINED} - {"Assuming", "EventSlack", "Tuned", "TunedPoisson"}

# --- numbers of records ---------------------------------------------------------------------------

# The number of all records, and of those whom a child sees; one where no parameter says it.
SIZES = {
    "SampledWithoutReplacement": ("population", "batch_size"),
    "SampledWithReplacement": ("population", "draws"),
    "CyclicBatches": ("population", "batch_size"),
    "ShuffledBatches": ("population", "batch_size"),
    "Shuffled": ("population", ""),
}
MOST_STEPS = 3_000


@dataclass
class Place:
    """A set of records, and what a declaration says of their number."""

    sizes: set[Fraction] = field(default_factory=set)
    limits: set[Fraction] = field(default_factory=set)
    clients: set[Fraction] = field(default_factory=set)
    parts: list[list[Place]] = field(default_factory=list)
    draws: list[Place] = field(default_factory=list)
    is_random: bool = False
    reaches: Fraction | None = None

    def draw(self, size: Fraction | None, limit: Fraction | None = None) -> Place:
        """Records that are drawn of these, so many or a random number."""
        made = Place({size} if size is not None else set(), is_random=size is None, reaches=limit)
        self.draws.append(made)
        return made

    def least(self) -> Fraction:
        """Records that must be here."""
        parts = [sum((part.least() for part in each), Fraction(0)) for each in self.parts]
        return max([Fraction(0), *self.sizes, *self.clients, *parts])

    def contradiction(self) -> str:
        """Why no data set is so; empty where one may be."""
        several = [inner.contradiction() for each in self.parts for inner in each]
        several += [inner.contradiction() for inner in self.draws]
        if inside := next(filter(None, several), ""):
            return inside
        if len(self.sizes) > 1:
            return f"{len(self.sizes)} sizes of one data set"
        if self.is_random and self.least() > 0:
            return "a size of a random number of records"
        most = min([*self.sizes, *self.limits], default=None)
        reached = max(self.least(), self.reaches or Fraction(0))
        return "" if most is None or reached <= most else f"{reached} among {most} records"


# --- declarations ---------------------------------------------------------------------------------


class Reader:
    """Reads a table: what it loses at least (:meth:`truth`), and what is wrong in it."""

    def __init__(self, table: Json, adjacency: str, values: Values | None = None) -> None:
        self.rows: Json = table["nodes"]
        self.is_replaced = adjacency == "replace_one"
        self.values: Values = values or {}
        self.wrong: list[str] = []
        self.unknown: list[str] = []
        self._done: dict[Any, Truth] = {}
        self._free: dict[str, frozenset[Symbol]] = {}
        self.root = str(table["root"])

    @cached_property
    def truth(self) -> Truth:
        """Of all parts that make sense."""
        found = self._read(self.root, dict(self.values), 1)
        if not self.wrong and not self.unknown:
            self._count_records()
        return found

    def _count_records(self) -> None:
        """Note sizes that no one data set has, where all of them can be read."""
        everybody = Place()
        try:
            self._walk(self.root, dict(self.values), everybody, [0])
        except Unknown:
            return
        if why := everybody.contradiction():
            self._note("sizes", "together", why)

    def _walk(self, digest: str, values: dict[Symbol, Any], at: Place, steps: list[int]) -> None:
        """State what a node and those below say of the records at a place.

        Errors: Unknown for more steps than are walked.
        """
        steps[0] += 1
        if steps[0] > MOST_STEPS:
            raise Unknown("a large tree")
        row = self.rows[digest]
        kind, children, p = row["type"], row["children"], self._parameters(row, values)
        if p is None:
            raise Unknown("no sizes")
        inside = [at] * len(children)
        if kind in SIZES:
            of_all, drawn = SIZES[kind]
            at.sizes.add(p[of_all])
            inside = [at.draw(p[drawn] if drawn else Fraction(1)) for _ in children]
        elif kind in ("PoissonSampled", "RandomAllocation", "TruncatedPoisson", "CyclicPoisson"):
            inside = [at.draw(None, p.get("batch_size")) for _ in children]
            at.limits.update({p["population"]} if kind == "TruncatedPoisson" else ())
        elif kind == "Parallel":
            inside = [Place() for _ in children]
            at.parts.append(inside)
        elif "clients" in FIELDS[kind]:
            at.clients.add(p["clients"])
        index = row["parameters"].get("index", {}).get("number") if kind == "Repeat" else None
        key = symbol(index) if isinstance(index, list) else None
        again = key is not None and key in self.free(children[0])
        rounds = int(p.get("times", 1))
        for k in _rounds(rounds) if again else range(min(rounds, 1)):
            bound = {**values, key: Fraction(k)} if key is not None and again else values
            for child, place in zip(children, inside, strict=True):
                self._walk(child, bound, place, steps)

    def free(self, digest: str) -> frozenset[Symbol]:
        """Symbols that a node depends on from outside."""
        if digest not in self._free:
            row = self.rows[digest]
            own = set(_symbols(row.get("parameters", {})))
            for child in row["children"]:
                own |= self.free(child)
            if row["type"] == "Repeat" and "index" in row["parameters"]:
                index = row["parameters"]["index"].get("number")
                if isinstance(index, list) and index[0] == "Symbol":
                    own -= {symbol(index)}
                own |= set(_symbols(row["parameters"]["times"]))
            if row["type"] in ("RenyiCurve", "Filter"):
                own -= {s for s in own if s[0] == "alpha"}
            self._free[digest] = frozenset(own)
        return self._free[digest]

    def _read(self, digest: str, values: dict[Symbol, Any], group: int) -> Truth:
        key = digest, group, tuple(sorted((s, str(values.get(s))) for s in self.free(digest)))
        if key not in self._done:
            self._done[key] = self._node(self.rows[digest], values, group)
        return self._done[key]

    def _node(self, row: Json, values: dict[Symbol, Any], group: int) -> Truth:
        kind, children = row["type"], row["children"]
        try:
            parameters = self._parameters(row, values)
        except Unknown as reason:
            self.unknown.append(f"{kind}: {reason}")
            parameters = None
        if kind == "Repeat":
            return self._repeat(row, parameters, values, group)
        spreads = kind in ("Compose", "Parallel", "Select", "Assuming", "CyclicBatches")
        inner = group if spreads else 1
        if kind == "Group" and parameters:
            inner = group * int(min(parameters["size"], 10**6))
        below = [self._read(child, values, inner) for child in children]
        if parameters is None:
            return _nothing_known()
        try:
            return self._made(row, parameters, below, group)
        except Unknown as reason:
            self.unknown.append(f"{kind}: {reason}")
            return _nothing_known()

    def _made(self, row: Json, p: Any, below: list[Truth], group: int) -> Truth:
        kind = row["type"]
        if kind == "Compose":
            found = Truth()
            for part in below:
                found = found * part
            return found
        if kind in ("Parallel", "Select"):
            worst = max(below, key=lambda part: part.advantage)
            return replace(worst, most=max(part.most for part in below))
        if kind == "Group":
            # Below samples and choices, one of the group alone is what is known.
            return replace(below[0], most=INFINITE)
        if kind == "Filter":
            return replace(_filtered(p, self._leaves(row["children"][0])), most=INFINITE)
        if kind == "ProposeTestRelease":
            rare = float(p["false_pass"])
            told = seen((rare, rare, ALL), (1 - rare, 1 - rare, NOTHING))
            passed = below[0].whole.halves.then(below[1].whole, NOTHING)
            return max((of_cells(told), of_cells(passed)), key=lambda truth: truth.advantage)
        if kind == "CyclicPoisson":
            one = min(float(MP.sqrt(below[0].square)), FAR)
            if not p["one_turn"]:
                raise Unknown("several turns")
            return of_cells(coarse.drawn(one, float(p["rate"]), 1))
        if kind in LEAVES:
            return LEAVES[kind](p, group)
        return self._sample_of_neutral(row, p, below) or COMBINED[kind](p, below[0])

    def _sample_of_neutral(self, row: Json, p: Any, below: list[Truth]) -> Truth | None:
        """A sample where absent records add zero, here or below; None for any other."""
        if not self.is_replaced or row["type"] not in OF_OTHERS:
            return None
        if any(map(self._has_neutral, row["children"])):
            # All others add zero, so that a batch without the record is neither of the two runs.
            return _kept(NOTHING, below[0])
        return None if p.get("undrawn") is None else _opposed(p, below[0])

    def _has_neutral(self, digest: str) -> bool:
        row = self.rows[digest]
        return "undrawn" in row["parameters"] or any(map(self._has_neutral, row["children"]))

    def _leaves(self, digest: str) -> set[str]:
        row = self.rows[digest]
        return {row["type"]}.union(*(self._leaves(child) for child in row["children"]))

    def _parameters(self, row: Json, values: dict[Symbol, Any]) -> Any:
        """Every parameter, evaluated; None where one is out of its domain, which is noted.

        Errors: Unknown where one cannot be evaluated here.
        """
        kind, found = row["type"], {}
        domains = FIELDS[kind]
        if kind == "Repeat":
            domains = {"times": "natural"}
        wrong = False
        for name, table in row.get("parameters", {}).items():
            if name == "index":
                continue
            if name in ("curve", "cap") and "number" in table:
                found[name] = self._curve(kind, row, table["number"], values)
                wrong |= found[name] is None
                continue
            try:
                found[name] = _decoded(table, values)
            except Meaningless as reason:
                self._note(kind, name, str(reason))
                wrong = True
                continue
            if name in domains and not DOMAINS[domains[name]](found[name]):
                self._note(kind, name, f"{_short(found[name])} is not {domains[name]}")
                wrong = True
        if found.get("undrawn", "zero") != "zero":
            self._note(kind, "undrawn", "no such declaration")
            wrong = True
        if not wrong and kind in TOGETHER and not TOGETHER[kind](found):
            self._note(kind, "together", "")
            wrong = True
        if kind == "CyclicPoisson" and not wrong:
            rounds = self.rows[row["children"][0]]["parameters"]["rounds"]["number"]
            found["one_turn"] = rounds == row["parameters"]["groups"]["number"]
        return None if wrong else found

    def _curve(self, kind: str, row: Json, table: Any, values: dict[Symbol, Any]) -> Any:
        """A curve in the order; of a filter in another measure, a number."""
        measure = row["parameters"].get("measure", {}).get("text")
        speaks = kind == "RenyiCurve" or measure == "rdp"
        alphas = {s for s in _symbols(table) if s[0] == "alpha"} or {ALPHA}

        def at(order: Any) -> Any:
            return _rational(evaluate(table, {**values, **dict.fromkeys(alphas, order)}))

        try:
            tried = [Fraction(101, 100), Fraction(2), Fraction(50)] if speaks else [None]
            for order in tried:
                value = at(order) if speaks else _rational(evaluate(table, values))
                if not _above(value, strict=False):
                    self._note(kind, "cap" if measure else "curve", f"{_short(value)} < 0")
                    return None
        except Meaningless as reason:
            self._note(kind, "cap" if measure else "curve", str(reason))
            return None
        return at if speaks else value

    def _note(self, kind: str, name: str, reason: str) -> None:
        text = f"{kind}.{name}: {reason}"
        if text not in self.wrong:
            self.wrong.append(text)

    def _repeat(self, row: Json, parameters: Any, values: dict[Symbol, Any], group: int) -> Truth:
        child, index = row["children"][0], row["parameters"].get("index", {}).get("number")
        key = symbol(index) if isinstance(index, list) and index[0] == "Symbol" else None
        if index is not None and key is None:
            self._note("Repeat", "index", "no symbol")
        if parameters is None:
            # What one round is, is judged nevertheless: its loss is not counted.
            self.unknown.append("Repeat: no number of rounds")
            return _nothing_known()
        times = int(parameters["times"])
        if key is None or key not in self.free(child):
            return self._read(child, values, group) ** times if times else Truth()
        found = Truth()
        for k in _rounds(times):
            found = found * self._read(child, {**values, key: Fraction(k)}, group)
        return found if times <= ROUNDS else replace(found, most=INFINITE)


def _nothing_known() -> Truth:
    return Truth(most=INFINITE)


def _rounds(times: int) -> list[int]:
    """All rounds, or the first, the last and some in between where there are many."""
    if times <= ROUNDS:
        return list(range(1, times + 1))
    first, last = range(1, SHOWN_ROUNDS + 1), range(times - SHOWN_ROUNDS + 1, times + 1)
    return sorted({*first, *last, *(times * k // 16 for k in range(1, 16))} - {0})


def _symbols(table: Any) -> list[Symbol]:
    """Symbols that a wire form depends on: not those that a sum inside of it binds."""
    if isinstance(table, dict):
        return [s for inside in table.values() for s in _symbols(inside)]
    if not isinstance(table, list):
        return []
    if table and table[0] == "Symbol" and len(table) == 3:
        return [symbol(table)]
    found = [s for inside in table for s in _symbols(inside)]
    if table and table[0] == "Sum":
        bound = {symbol(limit[1]) for limit in table[2:]}
        found = [s for s in found if s not in bound]
    return found


def _decoded(table: Any, values: Values) -> Any:
    if "number" in table:
        return _rational(evaluate(table["number"], values))
    if "list" in table:
        return [_decoded(item, values) for item in table["list"]]
    if "text" in table:
        return table["text"]
    return {name: _decoded(value, values) for name, value in table["fields"].items()}


def _rational(value: Any) -> Fraction:
    """The fraction of 40 digits that stands for a value.

    Errors: Unknown where a next digit could make it a whole number, 0 among them.
    """
    if isinstance(value, Fraction):
        return value
    if abs(value - MP.nint(value)) < UNCLEAR:
        raise Unknown("next to a whole number")
    sign, digits, exponent, _ = value._mpf_
    return Fraction((-1) ** sign * int(digits)) * Fraction(2) ** int(exponent)


def _short(value: Any) -> str:
    return f"{float(value):.4g}" if abs(value) < 10**300 else "huge"


@lru_cache(maxsize=1)
def known_types() -> frozenset[str]:
    """Types of which the meaning is stated here."""
    return frozenset(FIELDS)
