"""A pair's delta is refused where it is no privacy profile.

``delta(x) = sup_S P(S) - x Q(S)`` is at least the line ``1 - x`` and at least 0 (S everything or
nothing), at most 1, and convex and falling in x, as a supremum of falling lines.  An author's
formula that breaks one of these would certify too little.
Source: Zhu, Dong, Wang 2022, Lemma 9.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from itertools import pairwise
from typing import Any

from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.pairs.balls import Ball, fraction

# Powers of 2 at which a new pair's delta has to be convex: losses of up to 22 on either side.
PLACES = range(-32, 33, 2)
OWN = "dpaudit."  # pairs of this library, whose shape its tests hold

Asked = Callable[..., Ball]


def guarded(delta: Asked) -> Asked:
    """A ``delta`` whose answers are refused where no profile has them.

    Errors: InvalidParameter for what is no Arb ball, or lies surely outside of max(0, 1 - x) to 1.
    """

    @wraps(delta)
    def asked(pair: Any, x: Ball, of: Any = None) -> Ball:
        value = delta(pair, x, of)
        _require_value(pair, x, value)
        return value

    return asked


def _require_value(pair: Any, x: Ball, value: Any) -> None:
    import flint

    if not isinstance(value, flint.arb):
        raise InvalidParameter(
            f"{type(pair).__name__}.delta: a {type(value).__name__}; expected an Arb ball, made by "
            "dpaudit.pairs.balls.number"
        )
    # Comparisons of balls are true only where they are sure.
    if value < 0 or value > 1 or value < 1 - x:
        raise InvalidParameter(
            f"{type(pair).__name__}.delta({_shown(x)}) = {_shown(value)}: no pair has it; expected "
            "max(0, 1 - x) to 1"
        )


@lru_cache(maxsize=256)
def require_convex(pair: Any) -> None:
    """Look at the shape of a pair's delta, from (0, 1) on.

    Errors: InvalidParameter where delta surely rises, or bends downwards between three places.
    """
    places = [fraction(0), *(fraction(2) ** power for power in PLACES)]
    try:
        values = [fraction(1), *(pair.delta(x) for x in places[1:])]
    except Unsupported:
        return
    points = list(pairwise(zip(places, values, strict=True)))
    slopes = [(second - first) / (right - left) for (left, first), (right, second) in points]
    for place, (before, after) in zip(places[1:], pairwise([*slopes, fraction(0)]), strict=True):
        if after < before:
            raise InvalidParameter(
                f"{type(pair).__name__}.delta bends downwards, or rises, near x = {_shown(place)}: "
                "a profile is convex and falls"
            )


def _shown(ball: Ball) -> str:
    return str(ball.str(6, radius=False))
