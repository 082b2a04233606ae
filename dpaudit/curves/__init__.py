"""Privacy profiles of pairs, two-sided and certified."""

from __future__ import annotations

from fractions import Fraction

from dpaudit.arithmetic import exact, is_infinite, unknowns
from dpaudit.curves import onestep
from dpaudit.curves.engine import epsilon_composed
from dpaudit.curves.interval import Interval, rounded_down, rounded_up
from dpaudit.curves.pure import largest_loss
from dpaudit.curves.single import epsilon_single, has_form
from dpaudit.domains import probability
from dpaudit.errors import InvalidParameter
from dpaudit.pairs import Pair, numbers_in

WIDTH = 1e-4


def epsilon_interval(pair: Pair, delta: object, width: float = WIDTH) -> Interval:
    d = exact(delta, "delta")
    probability(d, "delta")
    if d == 0:
        loss = largest_loss(pair)
        return Interval(Fraction(0) if is_infinite(loss) else rounded_down(loss), rounded_up(loss), {}, {}, "largest loss")
    if has_form(pair):
        return epsilon_single(pair, d)
    return epsilon_composed(pair, d, width)
