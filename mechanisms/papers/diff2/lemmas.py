"""The lemmas that DIFF2's privacy rests on: sensitivities, and subsampling of Renyi bounds."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

from dpaudit.errors import DpauditError, InvalidParameter
from dpaudit.exact import Number, enclose, exact, upper_fraction, working_precision
from dpaudit.exact.domains import non_negative

LARGEST_ORDER = 2**16
Curve = Callable[[int], object]


class LemmaDoesNotApply(DpauditError):
    """The conditions under which a bound is proved do not hold."""


def diff2_round_sensitivity(radius: object, client_size: int, clients: int) -> Number:
    """2 C / (n_p P): how far one replaced record of client p moves a round's mean, in l2.

    ``radius`` C is C1 in a restart round and C2 ||x_{r-1} - x_{r-2}|| in a difference round; the
    bound is attained by opposite clipped vectors.
    Errors: InvalidParameter for a radius that is negative or no number, a count below 1.
    Source: Murata and Suzuki 2023, Lemma C.1 (its prose in Sections 3 and 4.1 is looser).
    """
    size, number = _count(client_size, "client_size"), _count(clients, "clients")
    return 2 * _radius(radius) / (size * number)


def bvr_step_sensitivity(radius: object, batch_size: int) -> Number:
    """2 C / b: how far one replaced record moves a local step's batch mean, in l2, batch fixed.

    ``radius`` C is C3 ||x_{k-1} - x_{k-2}||.  A record of another client moves it not at all.
    Errors: InvalidParameter for a radius that is negative or no number, a count below 1.
    Source: Murata and Suzuki 2023, Lemma E.1.
    """
    return 2 * _radius(radius) / _count(batch_size, "batch_size")


def rdp_subsampled_wor(order: int, rate: object, base: Curve) -> Fraction:
    """A Renyi bound on a base mechanism that runs on a secret batch without replacement.

    log(1 + g^2 C(a,2) min(4 (e^(eps(2)) - 1), 2 e^(eps(2))) + sum_(j=3..a) 2 g^j C(a,j)
    e^((j-1) eps(j))) / (a - 1), rounded up; a the ``order``, g the ``rate`` (batch size over
    population), ``base(j)`` = eps(j) the base's bound at order j, in nats.  eps(infinity) counts as
    infinite.  Adjacency: replace_one.
    However large the noise, it stays above log(1 + 2 sum_(j>=3) g^j C(a,j)) / (a - 1).
    Errors: InvalidParameter unless the order is whole and at least 2, the rate in (0, 1], and every
    eps(j) a number, not negative; LemmaDoesNotApply where the bound has no finite value.
    Source: Wang, Balle, Kasiviswanathan 2019, Theorem 9 (Murata and Suzuki 2023, Lemma B.7).
    """
    alpha, gamma = _order(order), _rate(rate)
    values = _values(base, alpha)
    with working_precision():
        share = enclose(gamma)
        grown = enclose(values[0]).exp()
        total = 1 + share**2 * math.comb(alpha, 2) * _smaller(4 * (grown - 1), 2 * grown)
        for j in range(3, alpha + 1):
            moment = ((j - 1) * enclose(values[j - 2])).exp()
            total += 2 * share**j * math.comb(alpha, j) * moment
        return _upper(total.log() / (alpha - 1))


def rdp_subsampled_wor_simple(
    order: int, rate: object, base: Curve, c: object | None = None
) -> Fraction:
    """2/3 (4 + e/c) g^2 a^2 eps(2) / (a - 1), rounded up: a closed bound on the one above.

    Proved where eps(.) does not decrease on 2..a, eps(a) <= min(1/3, log(1/(2 g a))) and g <=
    eps(2) / (c a).  ``c`` defaults to the largest that the last condition allows.
    Errors: LemmaDoesNotApply where a condition fails, naming it (with a larger c the value can fall
    below :func:`rdp_subsampled_wor`, and nothing is proved); otherwise as there.
    Source: Murata and Suzuki 2023, Lemma B.8.
    """
    alpha, gamma = _order(order), _rate(rate)
    values = _values(base, alpha)
    largest = values[0] / (gamma * alpha)
    slack = largest if c is None else exact(c, "c")
    with working_precision():
        _check_simple(alpha, gamma, values, slack)
        factor = 4 + enclose(Fraction(1)).exp() / enclose(slack)
        unit = enclose(gamma * gamma * alpha**2 * values[0] / (alpha - 1))
        return _upper(2 * factor * unit / 3)


def _check_simple(alpha: int, gamma: Number, values: Sequence[Number], c: Number) -> None:
    limit = -((2 * enclose(gamma) * alpha).log())
    conditions = {
        "eps(.) does not decrease": all(_at_most(a, b) for a, b in pairwise(values)),
        "eps(order) <= 1/3": _at_most(values[-1], Fraction(1, 3)),
        "eps(order) <= log(1 / (2 rate order))": bool(enclose(values[-1]) <= limit),
        "0 < c <= eps(2) / (rate order)": bool(enclose(c) > 0)
        and _at_most(c, values[0] / (gamma * alpha)),
    }
    for text, holds in conditions.items():
        if not holds:
            raise LemmaDoesNotApply(
                f"order {alpha}, rate {gamma}, c = {c}: Lemma B.8 needs {text}; "
                "use rdp_subsampled_wor"
            )


def _at_most(first: Number, second: Number) -> bool:
    """Whether the first is certainly no larger than the second."""
    return first == second or bool(enclose(first) <= enclose(second))


def _smaller(first: Any, second: Any) -> Any:
    """Whichever is certainly the smaller; either is a bound."""
    return first if first < second else second


def _upper(ball: Any) -> Fraction:
    found = upper_fraction(ball)
    if found is None:
        raise LemmaDoesNotApply("Lemma B.7: no finite bound at this order; use a smaller one")
    return found


def _values(base: Curve, alpha: int) -> list[Number]:
    values = [exact(base(j), f"base({j})") for j in range(2, alpha + 1)]
    for j, value in enumerate(values, start=2):
        non_negative(value, f"base({j})")
    return values


def _order(order: int) -> int:
    alpha = _count(order, "order")
    if not 2 <= alpha <= LARGEST_ORDER:
        raise InvalidParameter(
            f"order = {order}: expected a whole number from 2 to {LARGEST_ORDER}"
        )
    return alpha


def _rate(rate: object) -> Number:
    gamma = exact(rate, "rate")
    if not (isinstance(gamma, Fraction) and 0 < gamma <= 1):
        raise InvalidParameter(f"rate = {rate}: expected in (0, 1]")
    return gamma


def _radius(radius: object) -> Number:
    value = exact(radius, "radius")
    non_negative(value, "radius")
    return value


def _count(value: int, name: str) -> int:
    try:
        count = operator.index(value)
    except TypeError:
        raise InvalidParameter(f"{name} = {value!r}: expected a whole number") from None
    if isinstance(value, bool) or count < 1:
        raise InvalidParameter(f"{name} = {value!r}: expected a positive whole number")
    return count
