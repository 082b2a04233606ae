"""Groups of whatever has an (epsilon, delta): k steps from neighbour to neighbour.

No pair is known to dominate k steps of most mechanisms, or only one without sampling.  Their
(epsilon, delta) for one record, at a delta that leaves room for the steps, is one of the group
(Vadhan 2017, Lemma 2.2).
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dpaudit.errors import Unsupported
from dpaudit.exact import (
    decimal_lower,
    decimal_upper,
    enclose,
    is_infinite,
    lower_fraction,
    upper_fraction,
    working_precision,
)
from dpaudit.families.events.group_rules import steps
from dpaudit.measures.approx import APPROX
from dpaudit.measures.calculus import Step
from dpaudit.measures.convert import to_approx

if TYPE_CHECKING:
    from dpaudit.accountant.account import Account

# Relative precision of one record's delta; epsilon depends on its logarithm only.
SHARE_OF_DELTA = Fraction(99, 100)
MAX_SHARES = 40  # Shares of delta that are tried before the route by steps gives no bound.
# Epsilons at which a group's delta may be smaller than at the epsilon asked for.
SMALLER_EPSILONS = (Fraction(1), Fraction(0))
LEAST_DELTA = Fraction(1, 10**280)  # A delta below this leaves no room for the steps.


def in_steps(node: Any, delta: Fraction, rough: Account, fine: Account) -> Step | None:
    """(k epsilon, delta) for a group of k, from one record's; None where no delta leaves room.

    ``rough``, ``fine``: one record's account, to look for its delta' and to answer at it.  With
    S(e) = sum_i exp(i e), i = 0..k-1, delta' S(epsilon(delta')) is to be at most delta.  As
    epsilon falls as delta' grows, delta / S(epsilon(delta')) is at least the largest valid delta'
    as long as delta' is not valid: the iteration descends to it from delta / k.
    """
    if delta == 0:
        return None
    share = delta / node.size
    try:
        for _ in range(MAX_SHARES):
            delta_left = _left(node, delta, rough.approximate(share))
            if delta_left is None or delta_left < LEAST_DELTA:
                return None
            if delta_left >= share * SHARE_OF_DELTA:
                share = min(share, delta_left) * SHARE_OF_DELTA
                step = APPROX.concluded(node, [fine.approximate(share)])
                if _is_most(step.value[1], delta):
                    return to_approx(step, delta)
            share = min(share, delta_left)
    except Unsupported:
        return None
    return None


def delta_in_steps(
    node: Any, epsilon: Fraction, single: Account
) -> tuple[Fraction, str, Step] | None:
    """delta(e / k) S(e / k) of a group of k, and its derivation; None above 1.

    e is epsilon or one of ``SMALLER_EPSILONS`` below it, whichever gives the least: S grows with e,
    and a delta that holds at e also holds at a larger epsilon.
    """
    epsilons = (epsilon, *(smaller for smaller in SMALLER_EPSILONS if smaller < epsilon))
    steps = [step for e in epsilons if (step := _delta_at(node, e, single)) is not None]
    return min(steps, key=lambda row: row[0], default=None)


def _delta_at(node: Any, epsilon: Fraction, single: Account) -> tuple[Fraction, str, Step] | None:
    each = epsilon / node.size
    try:
        own = single.delta(each)
    except Unsupported:
        return None
    with working_precision():
        largest = upper_fraction(enclose(own.upper) * enclose(steps(each, node.size)))
    if largest is None or largest >= 1 or own.step is None:
        return None
    rule = f"convert.{own.upper_method}_to_approx"
    below = (own.step,)
    given = Step("approx", rule, own.step.cite, node.child, (each, own.upper), premises=below)
    return Fraction(decimal_upper(largest)), APPROX.name, APPROX.concluded(node, [given])


def _left(node: Any, delta: Fraction, single: Step) -> Fraction | None:
    """delta over the steps' sum at a record's epsilon, rounded down."""
    epsilon = single.value[0]
    if is_infinite(epsilon):
        return None
    with working_precision():
        least = lower_fraction(enclose(delta) / enclose(steps(epsilon, node.size)))
    return None if least is None else Fraction(decimal_lower(least))


def _is_most(value: object, delta: Fraction) -> bool:
    with working_precision():
        return bool(enclose(value) <= enclose(delta))
