"""Noise events, propose-test-release, and groups of records.

Pure, zCDP, RDP and GDP speak of every outcome, so that an event of positive probability in which
all may be told makes their values infinite; approximate differential privacy and profiles do not.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from dpaudit.arithmetic import (
    Number,
    canonical,
    exp,
    infinity,
    is_infinite,
    is_symbolic,
    maximum,
    sympify,
    total,
)
from dpaudit.calculus import Source, Step, always
from dpaudit.nodes import (
    Assuming,
    Compose,
    EventSlack,
    Gaussian,
    Group,
    Laplace,
    Leaf,
    Node,
    Parallel,
    ProposeTestRelease,
    Repeat,
    postorder,
)
from dpaudit.pairs import Losses, Pair, largest, product, told
from dpaudit.rules import rdp
from dpaudit.rules.approx import APPROX
from dpaudit.rules.events_pairs import enlarged
from dpaudit.rules.gdp import GAUSSIAN
from dpaudit.rules.profile import PROFILE
from dpaudit.rules.pure import PURE
from dpaudit.rules.rdp import RENYI, order
from dpaudit.rules.zcdp import CONCENTRATED

EVENT = Source("Dwork, Roth", 2014, "Lemma 3.17, part 2")
TEST = Source(
    "Dwork, Lei", 2009, "Section 3.2 (propose-test-release); Vadhan 2017, Proposition 3.3"
)
GROUP = Source("Vadhan", 2017, "Lemma 2.2 (group privacy)")
GROUP_ZCDP = Source("Bun, Steinke", 2016, "Proposition 1.9 (group privacy)")
GROUP_RENYI = Source("Mironov", 2017, "Proposition 2 (group privacy)")
GROUP_GDP = Source("Dong, Roth, Su", 2022, "Theorem 2.14 (group privacy)")

for calculus in (PURE, CONCENTRATED, RENYI, GAUSSIAN):
    calculus.absent(
        EventSlack,
        reason="inside the event all may be told, which this measure counts in full: use approx "
        "or profile",
    )


# --- noise events --------------------------------------------------------------------------------


@APPROX.rule(EventSlack, cite=EVENT)
def outside_event(node: EventSlack, base: tuple[Number, Number]) -> tuple[Number, Number]:
    """(epsilon, delta + (1 + e^epsilon) p).

    Proof: M(S) <= M'(S) + p <= e^epsilon M'_2(S) + delta + p, and M'_2(S) <= M_2(S) + p.
    """
    epsilon, delta = base
    if is_infinite(epsilon):
        return infinity(), Fraction(1)
    return epsilon, total((delta, (1 + exp(epsilon)) * node.probability))


@PROFILE.rule(EventSlack, cite=EVENT)
def event_slack(node: EventSlack, base: Losses) -> Losses:
    """The child's pairs, at a further distance p; what the run itself reaches is not known."""
    return Losses(base.remove, base.add, slack=total((base.slack, node.probability)))


# --- propose, test, release ----------------------------------------------------------------------


def no_finite_bound(node: ProposeTestRelease, test: Any, release: Any) -> Number:
    """What passes by chance may tell all."""
    return infinity()


for calculus in (PURE, CONCENTRATED, RENYI, GAUSSIAN):
    calculus.rule(ProposeTestRelease, cite=TEST)(no_finite_bound)


@APPROX.rule(ProposeTestRelease, cite=TEST)
def tested(
    node: ProposeTestRelease, test: tuple[Number, Number], release: tuple[Number, Number]
) -> tuple[Number, Number]:
    """(e1 + e2, max(d1 + d2, p)): which branch holds is fixed by the neighbours and the past.

    Proof: if one of the two is stable, the decision and the release compose.  If neither is, both
    runs end in bottom but for a probability of at most p, and differ by at most p.
    """
    passed = total((test[1], release[1]))
    return total((test[0], release[0])), maximum((passed, node.false_pass))


@PROFILE.rule(ProposeTestRelease, cite=TEST)
def tested_profile(node: ProposeTestRelease, test: Losses, release: Losses) -> Losses:
    """The larger of the two branches; in the second, a run that passes tells all.

    One pair, not two alternatives: the past decides which branch the next run is in.
    """

    def either(first: tuple[Pair, ...], second: tuple[Pair, ...]) -> tuple[Pair, ...]:
        one = Fraction(1)
        both = (product(((a, one), (b, one))) for a in first for b in second)
        return (largest((*both, told(node.false_pass))),)

    return Losses(
        either(test.remove, release.remove),
        either(test.add, release.add),
        slack=total((test.slack, release.slack)),
    )


# --- groups --------------------------------------------------------------------------------------

STRUCTURE = (Assuming, Compose, Group, Repeat)


def moves_together(node: Node) -> bool:
    """Whether a group of k moves every query by up to k sensitivities, and the guarantee is that.

    So it is for Gaussian and Laplace noise, composed and repeated; and over the parts of a
    partition for Gaussian noise alone, where a group spread over parts does no worse in one.
    """
    for part in postorder(node):
        if isinstance(part, Parallel):
            if any(isinstance(x, Leaf) and not isinstance(x, Gaussian) for x in postorder(part)):
                return False
        elif not isinstance(part, (Gaussian, Laplace, *STRUCTURE)):
            return False
    return True


def together(node: Node, premises: tuple[Step, ...]) -> bool:
    """Attained where the child is, by a query that the whole group moves to one side."""
    return always(node, premises) and moves_together(node)


def linear_or_laplace(node: Node, premises: tuple[Step, ...]) -> bool:
    """As above, where the rule loses nothing."""
    exact = slope(premises[0].value) is not None or isinstance(node.children[0], Laplace)
    return together(node, premises) and exact


@PURE.rule(Group, cite=GROUP, attained=together)
def group_pure(node: Group, epsilon: Number) -> Number:
    """k epsilon."""
    return node.size * epsilon


@APPROX.rule(Group, cite=GROUP)
def group_approximate(node: Group, base: tuple[Number, Number]) -> tuple[Number, Number]:
    """(k epsilon, delta (e^(k epsilon) - 1) / (e^epsilon - 1)).

    Proof: k steps from neighbour to neighbour add delta e^(i epsilon), i = 0..k-1.
    """
    epsilon, delta = base
    if is_infinite(epsilon):
        return infinity(), Fraction(1)
    return node.size * epsilon, delta * steps(epsilon, node.size)


def steps(epsilon: Number, size: Number) -> Number:
    """Sum of e^(i epsilon), i = 0..size-1; above it where epsilon may be zero, and size is open."""
    if epsilon == 0 or size == 1:
        return size
    if is_symbolic(epsilon) and not sympify(epsilon).is_positive:
        return size * exp((size - 1) * epsilon)
    return (exp(size * epsilon) - 1) / (exp(epsilon) - 1)


@CONCENTRATED.rule(Group, cite=GROUP_ZCDP, attained=together)
def group_concentrated(node: Group, rho: Number) -> Number:
    """k^2 rho."""
    return node.size**2 * rho


@GAUSSIAN.rule(Group, cite=GROUP_GDP, attained=together)
def group_gaussian(node: Group, mu: Number) -> Number:
    """k mu: shifts of one normal distribution add."""
    return node.size * mu


@RENYI.rule(Group, cite=GROUP_RENYI, attained=linear_or_laplace)
def group_renyi(node: Group, curve: Number) -> Number:
    """k^2 times a curve that is linear in the order; for others 3^c times that at 2^c orders.

    c = ceil(log2 k), at orders >= 2; below 2 the bound at 2 holds, as divergences do not decrease.
    Laplace noise: that of the group's shift.  Linear curves: Bun, Steinke 2016, Proposition 1.9.
    """
    if node.size == 1 or is_infinite(curve):
        return curve
    if isinstance(node.child, Laplace):
        moved = node.child.noise_multiplier / node.size
        return rdp.laplace(Laplace(node.child.label, moved))
    rho = slope(curve)
    if rho is not None:
        return node.size**2 * rho * order()
    doublings = halvings(node.size)
    return canonical(
        3**doublings * curve.subs(order(), sympify(2**doublings * maximum((order(), Fraction(2)))))
    )


def slope(curve: Number) -> Number | None:
    """The rho of a curve rho * alpha; None for another curve."""
    import sympy

    value, alpha = sympy.expand(sympify(curve)), order()
    line = value.is_polynomial(alpha) and value.diff(alpha, 2) == 0 and value.subs(alpha, 0) == 0
    return canonical(value.subs(alpha, 1)) if line else None


def halvings(size: Number) -> Number:
    """ceil(log2 size)."""
    if not is_symbolic(size):
        return (int(size) - 1).bit_length()
    import sympy

    return sympy.ceiling(sympy.log(size) / sympy.log(2))


@PROFILE.rule(Group, cite=GROUP_GDP)
def group_profile(node: Group, base: Losses) -> Losses:
    """Normal and Laplace pairs moved k times as far; rho of zCDP k^2 times, pure epsilon k times.

    Proof: the best tests between shifts of a log-concave noise are thresholds, so that the
    trade-off curves of k steps, one after the other, are that of the whole shift.
    Errors: Unsupported for a child whose pairs are of another kind.
    """
    moved = moves_together(node.child)

    def far(pairs: tuple[Pair, ...]) -> tuple[Pair, ...]:
        return tuple(enlarged(pair, node, composes=moved) for pair in pairs)

    return Losses(
        far(base.remove),
        far(base.add),
        far(base.reached_remove) if moved else (),
        far(base.reached_add) if moved else (),
        base.slack,
        base.in_one_part,
    )
