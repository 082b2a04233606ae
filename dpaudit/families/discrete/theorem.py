"""Noise on the integers, and random answers.

Proofs that are not in the papers stand beside the accountant's rules of the same names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

from dpaudit.check.theorem import (
    MOST_POINTS,
    NOTHING,
    Premise,
    Row,
    Table,
    Theorem,
    always,
    counted,
    register,
)
from dpaudit.errors import Unsupported
from dpaudit.exact import enclose, erfinv, exp, infinity, is_symbolic, log, sqrt, tanh, unknowns
from dpaudit.pairs import Atoms, DiscreteNormal, LaplaceShift, Losses, Pair

ONE, ZERO = Fraction(1), Fraction(0)

Outcome = tuple[Any, Any]


def plain(witness: Row) -> bool:
    """Whether a step states the plainer of two bounds, which holds at every epsilon.

    It has to for a very small one, where second differences are lost in a ball's digits.
    """
    return witness.get("plain") is True


def grown(epsilon: Any) -> Any:
    """e^epsilon - 1 = tanh(epsilon / 2) (e^epsilon + 1)."""
    return tanh(epsilon / 2) * (exp(epsilon) + 1)


def _fall(epsilon: Any) -> Any:
    """1 - e^-epsilon = tanh(epsilon / 2) (e^-epsilon + 1)."""
    return tanh(epsilon / 2) * (exp(-epsilon) + 1)


def _both_ways(upper: Pair, reached: Pair | None = None) -> Losses:
    """Each of these mechanisms can run either way round on some data."""
    below = upper if reached is None else reached
    return Losses(remove=(upper,), add=(upper,), reached_remove=(below,), reached_add=(below,))


def _decay(distance: Any, scale: Any) -> Any:
    return exp(-distance / scale)


# --- discrete Gaussian and discrete Laplace noise ------------------------------------------------


def _sharp(node: Any, premises: Sequence[Premise], witness: Row) -> bool:
    return not plain(witness)


def _laplace_divergence(node: Any, witness: Row) -> Any:
    """E[loss] * scale = D - 2 a (1 - a^D) / (1 - a^2); plainer: that of randomised response."""
    epsilon = node.sensitivity / node.scale
    if plain(witness):
        return epsilon * tanh(epsilon / 2)
    a = _decay(1, node.scale)
    both_tails = 2 * a * (1 - _decay(node.sensitivity, node.scale)) / (1 - a**2)
    return (node.sensitivity - both_tails) / node.scale


def _laplace_curve(node: Any, witness: Row) -> Callable[[Any], Any]:
    if plain(witness):
        return lambda order: order * _laplace_divergence(node, witness)

    def curve(order: Any) -> Any:
        scale, move = node.scale, node.sensitivity
        a, growth = _decay(1, scale), exp((2 * order - 1) / scale)
        ends = exp(-order * move / scale), exp((order - 1) * move / scale)
        geometric = (1 - a) * (ends[1] - ends[0] * growth) / (growth - 1)
        return log((ends[0] + ends[1] + geometric) / (1 + a)) / (order - 1)

    return curve


def _laplace_corner(node: Any) -> Any:
    """The middle corner of the polygon."""
    half = (node.sensitivity + 1) / 2
    if is_symbolic(half):
        import sympy

        lower = sympy.floor(half)
    else:
        lower = Fraction(half.numerator // half.denominator)
    thresholds = lower, node.sensitivity + 1 - lower
    tails = [2 * _decay(t, node.scale) / (1 + _decay(1, node.scale)) for t in thresholds]
    return sqrt(2) * (erfinv(1 - tails[0]) + erfinv(1 - tails[1]))


def laplace_losses(node: Any, witness: Row = NOTHING) -> Losses:
    """One coordinate moved by the whole sensitivity; lines between some losses are above."""
    scale, move = node.scale, node.sensitivity
    if is_symbolic(move):
        return _both_ways(Atoms(_response(move / scale, ONE)), LaplaceShift(move / scale))
    if "kinks" in witness:
        lines = _lines(scale, int(move), counted(witness, "kinks", 1, MOST_POINTS))
        return _both_ways(Atoms(tuple(lines)), LaplaceShift(move / scale))
    total = 1 + _decay(1, scale)
    return _both_ways(Atoms(tuple(_outcomes(scale, _few(move), 1 / total, total))))


def _few(move: Any) -> int:
    if move > MOST_POINTS:
        raise Unsupported(f"{move} losses: no list of them without kinks")
    return int(move)


def _outcomes(scale: Any, move: int, tail: Any, whole: Any) -> Iterator[Outcome]:
    """Masses by loss: everything up to 0, then 1..move-1, then everything from ``move`` on."""
    beyond = tail * _decay(Fraction(move), scale)
    yield beyond, tail
    nearest = _fall(1 / scale) / whole
    masses = [nearest * _decay(Fraction(distance), scale) for distance in range(1, move)]
    yield from zip(reversed(masses), masses, strict=True)
    yield tail, beyond


def _lines(scale: Any, move: int, count: int) -> Iterator[Outcome]:
    """The continuous profile, linear in x between some of the losses (2 k - move) / scale.

    Convex, it is below any such line.
    """
    kinks = [Fraction(k) for k in sorted({move * i // count for i in range(count + 1)})]
    slope = ONE
    for i, kink in enumerate(kinks):
        following = ZERO
        if i < len(kinks) - 1:
            after = kinks[i + 1]
            following = _decay(after, scale) / (1 + _decay(after - kink, scale))
        yield (slope - following) * exp((2 * kink - move) / scale), slope - following
        slope = following


# --- truncated noise -----------------------------------------------------------------------------


def _weight(node: Any) -> Any:
    return _fall(1 / node.scale) + 2 * _decay(1, node.scale) * _fall(node.bound / node.scale)


def _told(node: Any, move: Any) -> Any:
    """Mass of the last ``move`` values."""
    first = node.bound - move + 1
    return _decay(first, node.scale) * _fall(move / node.scale) / _weight(node)


def _truncated_outcomes(node: Any, move: Fraction) -> Atoms:
    revealing, weight = _told(node, move), _weight(node)
    tail = _fall((node.bound - move + 1) / node.scale) / weight
    shared = _outcomes(node.scale, int(move), tail, weight)
    return Atoms(((revealing, ZERO), (ZERO, revealing), *shared))


def _truncated_losses(node: Any, witness: Row) -> Losses:
    """The exact outcomes, or a coarser bound where the witness or a symbol asks for it.

    Coarser: the ends have infinite loss, and randomised response dominates the rest.
    """
    move = node.sensitivity
    if not is_symbolic(move) and witness.get("coarse") is not True:
        return _both_ways(_truncated_outcomes(node, Fraction(_few(move))))
    revealing = _told(node, move)
    answers = _response(move / node.scale, 1 - revealing)
    return _both_ways(
        Atoms(((revealing, ZERO), (ZERO, revealing), *answers)), _truncated_outcomes(node, ONE)
    )


def _response(epsilon: Any, mass: Any) -> tuple[Outcome, ...]:
    pair = mass / (1 + exp(-epsilon)), mass / (1 + exp(epsilon))
    return pair, pair[::-1]


# --- randomised response -------------------------------------------------------------------------


def _total(node: Any) -> Any:
    return exp(node.epsilon) + node.choices - 1


def _response_losses(node: Any) -> Losses:
    truth, other = exp(node.epsilon) / _total(node), 1 / _total(node)
    revealing: tuple[Outcome, ...] = ((truth, other), (other, truth))
    if node.choices != 2:
        neither = (node.choices - 2) / _total(node)
        revealing = (*revealing, (neither, neither))
    return _both_ways(Atoms(revealing))


def _response_curve(node: Any, witness: Row) -> Callable[[Any], Any]:
    if plain(witness):
        return lambda order: order * _response_divergence(node)

    def curve(order: Any) -> Any:
        moments = exp(order * node.epsilon) + exp((1 - order) * node.epsilon) + node.choices - 2
        return log(moments / _total(node)) / (order - 1)

    return curve


def _at_order_one(node: Any, premises: Sequence[Premise] = ()) -> bool:
    """Up to six choices, or as long as choices - 2 <= 2 e^(epsilon/2)."""
    if is_symbolic(node.choices):
        return False
    if node.choices <= 6 or unknowns(node.epsilon):
        return bool(node.choices <= 6)
    return bool(enclose(node.epsilon / 2).exp() * 2 >= enclose(node.choices - 2))


def _response_divergence(node: Any) -> Any:
    if node.choices == 2 or not _at_order_one(node):
        return node.epsilon * tanh(node.epsilon / 2)
    return node.epsilon * grown(node.epsilon) / _total(node)


def _response_corner(node: Any) -> Any:
    if node.choices == 2:
        return sqrt(8) * erfinv(tanh(node.epsilon / 2))
    rates = 1 / _total(node), (node.choices - 1) / _total(node)
    return sqrt(2) * (erfinv(1 - 2 * rates[0]) + erfinv(1 - 2 * rates[1]))


def _endless(calculus: str) -> Theorem:
    bound = (lambda n: lambda a: infinity()) if calculus == "rdp" else (lambda n: infinity())
    return Theorem("truncated", bound, attained=always)


DISCRETE: Table = {
    ("zcdp", "DiscreteGaussian"): Theorem(
        "discrete_gaussian", lambda n: n.sensitivity**2 / (2 * n.variance), attained=always
    ),
    ("rdp", "DiscreteGaussian"): Theorem(
        "discrete_gaussian_curve", lambda n: lambda a: a * n.sensitivity**2 / (2 * n.variance)
    ),
    ("profile", "DiscreteGaussian"): Theorem(
        "discrete_gaussian_pair", lambda n: _both_ways(DiscreteNormal(n.variance, n.sensitivity))
    ),
    ("pure", "DiscreteLaplace"): Theorem(
        "discrete_laplace", lambda n: n.sensitivity / n.scale, attained=always
    ),
    ("approx", "DiscreteLaplace"): Theorem(
        "discrete_laplace_at_zero", lambda n: (n.sensitivity / n.scale, ZERO)
    ),
    ("zcdp", "DiscreteLaplace"): Theorem(
        "discrete_laplace_divergence", _laplace_divergence, attained=_sharp, reads=True
    ),
    ("rdp", "DiscreteLaplace"): Theorem(
        "discrete_laplace_curve", _laplace_curve, attained=_sharp, reads=True
    ),
    ("gdp", "DiscreteLaplace"): Theorem("discrete_laplace_corner", _laplace_corner),
    ("profile", "DiscreteLaplace"): Theorem("discrete_laplace_pair", laplace_losses, reads=True),
    **{
        (name, "TruncatedDiscreteLaplace"): _endless(name)
        for name in ("pure", "zcdp", "rdp", "gdp")
    },
    ("approx", "TruncatedDiscreteLaplace"): Theorem(
        "truncated_discrete_laplace", lambda n: (n.sensitivity / n.scale, _told(n, n.sensitivity))
    ),
    ("profile", "TruncatedDiscreteLaplace"): Theorem(
        "truncated_pair", _truncated_losses, reads=True
    ),
    ("pure", "RandomizedResponse"): Theorem(
        "randomized_response", lambda n: n.epsilon, attained=always
    ),
    ("approx", "RandomizedResponse"): Theorem(
        "randomized_response_at_zero", lambda n: (n.epsilon, ZERO)
    ),
    ("zcdp", "RandomizedResponse"): Theorem(
        "randomized_response_divergence", _response_divergence, attained=_at_order_one
    ),
    ("rdp", "RandomizedResponse"): Theorem(
        "randomized_response_curve", _response_curve, attained=_sharp, reads=True
    ),
    ("gdp", "RandomizedResponse"): Theorem("randomized_response_corner", _response_corner),
    ("profile", "RandomizedResponse"): Theorem("randomized_response_pair", _response_losses),
}

register(DISCRETE)
