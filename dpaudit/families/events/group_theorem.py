"""Group privacy, stated a second time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from dpaudit.check.theorem import RENYI_SYMBOL, Premise, Table, Theorem, bound, register
from dpaudit.errors import Unsupported
from dpaudit.exact import (
    canonical,
    exp,
    infinity,
    is_infinite,
    is_symbolic,
    log,
    maximum,
    sqrt,
    sympify,
)
from dpaudit.nodes import Node, postorder
from dpaudit.pairs import (
    Atoms,
    Branched,
    Concentrated,
    Drawn,
    Losses,
    Mixed,
    Normal,
    Pair,
    product,
)
from dpaudit.pairs.core import Sample

# A partition of Gaussian releases is safe: squares of a split group add up to less than its own.
SHIFTS = frozenset(
    {"Gaussian", "Laplace", "Compose", "Repeat", "Assuming", "Group"}
    # Members that take part in the same rounds, or have the same norms, move all of them alike.
    | {"CorrelatedGaussian", "IndividualGaussian"}
)
ROTUND = frozenset({"Gaussian", "Compose", "Repeat", "Assuming", "Group", "Parallel"})
MOST_MEMBERS = 64  # records of a group whose number in a batch is gone through
WHOLE = frozenset(
    {"DiscreteGaussian", "DiscreteLaplace", "DistributedGaussian", "DistributedSkellam"}
)
KEPT = frozenset({"Assuming", "Compose", "Repeat"})
BATCHES = frozenset(
    {"CyclicBatches", "RandomAllocation", "SampledWithoutReplacement", "ShuffledBatches"}
)
Curve = Callable[[Any], Any]


def _all_shift(node: Node) -> bool:
    """Every query of the tree moves by at most ``size`` sensitivities, and may move by so many."""
    return all(
        {type(below).__name__ for below in postorder(part)} <= ROTUND
        if type(part).__name__ == "Parallel"
        else type(part).__name__ in SHIFTS
        for part in postorder(node)
    )


def _saturated(node: Any, premises: Sequence[Premise]) -> bool:
    return premises[0].attained and _all_shift(node.child)


def _saturated_curve(node: Any, premises: Sequence[Any]) -> bool:
    """The bound loses nothing where the curve is a line, or noise is one Laplace release."""
    lossless = type(node.child).__name__ == "Laplace" or _line(premises[0].upper) is not None
    return _saturated(node, premises) and lossless


def _approximate(node: Any, base: tuple[Any, Any]) -> tuple[Any, Any]:
    """The geometric sum of e^epsilon over the steps, where it has one; an upper bound else."""
    (epsilon, delta), k = base, node.size
    if is_infinite(epsilon):
        return infinity(), Fraction(1)
    if k == 1 or epsilon == 0:
        return k * epsilon, k * delta
    if is_symbolic(epsilon) and not epsilon.is_positive:
        return k * epsilon, k * delta * exp((k - 1) * epsilon)
    return k * epsilon, delta * (exp(k * epsilon) - 1) / (exp(epsilon) - 1)


def _line(curve: Curve) -> Any:
    """The slope of a curve that is a line through 0; None for another curve."""
    import sympy

    alpha = sympy.Symbol(RENYI_SYMBOL, positive=True)
    value = sympify(curve(alpha))
    if not value.is_polynomial(alpha):
        return None
    value = sympy.expand(value)
    if sympy.degree(value, alpha) > 1 or value.subs(alpha, 0):
        return None
    return canonical(value.subs(alpha, 1))


def _renyi(node: Any, curve: Curve) -> Curve:
    """Sources as the accountant's: lines (Bun, Steinke 2016), else Mironov 2017, Proposition 2."""
    k = node.size
    if k == 1 or is_infinite(curve(Fraction(2))):
        return curve
    if type(node.child).__name__ == "Laplace":
        return _laplace(k / node.child.noise_multiplier)
    slope = _line(curve)
    if slope is not None:
        return lambda a: k**2 * slope * a
    c = _binary_digits(k)
    return lambda a: 3**c * curve(2**c * maximum((a, Fraction(2))))


def _binary_digits(size: Any) -> Any:
    if not is_symbolic(size):
        return int(size - 1).bit_length()
    import sympy

    return sympy.ceiling(log(size) / log(2))


def _laplace(epsilon: Any) -> Curve:
    def curve(a: Any) -> Any:
        weight = a / (2 * a - 1)
        mean = weight * exp((a - 1) * epsilon) + (1 - weight) * exp(-a * epsilon)
        return log(mean) / (a - 1)

    return curve


def _pairs(node: Any, base: Losses) -> Losses:
    """Shifts of log-concave noise, k in a row, are one shift k times as long."""
    child, k = node.child, node.size
    if type(child).__name__ == "PureDP":
        odds = [canonical(sympify(1 / (1 + exp(s * k * child.epsilon)))) for s in (-1, 1)]
        answers = Atoms(((odds[0], odds[1]), (odds[1], odds[0])))
        return Losses((answers,), (answers.swapped,))
    if type(child).__name__ == "ZCDP":
        curve = (Concentrated(k**2 * child.rho),)
        return Losses(curve, curve)
    if k == 1:
        return base
    if _all_drawn(child) and not is_symbolic(k):
        forth, back = (tuple(_above(p, k) for p in side) for side in (base.remove, base.add))
        met = (base.reached_remove, base.reached_add)
        low, under = (tuple(_together(p, k, None) for p in side) for side in met)
        return Losses(forth, back, low, under, base.slack, base.in_one_part)
    squares = _squares(child) if _has_batches(child) else None
    if squares is not None:
        return _in_batches(node, base, squares)
    if type(child).__name__ in WHOLE and not is_symbolic(k):
        # Log-concave noise: the longest move of the group tells the most.
        far_moved: Losses = bound("profile", replace(child, sensitivity=k * child.sensitivity), ())
        return far_moved
    if max(len(base.remove), len(base.add)) > 1:
        raise Unsupported(f"{node.head}: no dominating pair for a group over several alternatives")
    shifts = _all_shift(child)

    def longer(pair: Pair) -> Pair:
        return _longer(pair, k, shifts)

    sides = [base.remove, base.add]
    moved = [tuple(map(longer, side)) for side in sides]
    # Where not all may move so far, one of the group moves alone.
    alone = [base.reached_remove, base.reached_add]
    if shifts:
        alone = [tuple(map(longer, side)) for side in alone]
    slack = base.slack * (1 if _seen_as_one(child) else k)
    return Losses(moved[0], moved[1], alone[0], alone[1], slack, base.in_one_part)


def _seen_as_one(node: Node) -> bool:
    """No record has a part, batch or report of its own, whose noise event is another."""
    kinds = KEPT | {"EventSlack", "Group", "PoissonSampled"}
    return all(type(part).__name__ in kinds or not part.children for part in postorder(node))


def _in_batches(node: Any, base: Losses, squares: Any) -> Losses:
    """Given everybody's batches, the worst case is the whole group in one batch of a pass."""
    k = node.size
    far = (Normal(k * sqrt(squares)),)
    alone = [base.reached_remove, base.reached_add]
    shifts = all(pair.gaussian_shift is not None for side in alone for pair in side)
    if shifts and _side_by_side(node.child, k):
        alone = [tuple(_longer(pair, k, False) for pair in side) for side in alone]
    return Losses(far, far, alone[0], alone[1], base.slack, base.in_one_part)


def _has_batches(node: Node) -> bool:
    return any(type(part).__name__ in BATCHES for part in postorder(node))


def _side_by_side(node: Any, k: Any) -> bool:
    """The order of batches is public, and each has room for the group."""
    if is_symbolic(k):
        return False
    parts = [part for part in postorder(node) if type(part).__name__ in BATCHES]
    sizes = [getattr(part, "batch_size", 0) for part in parts]
    if {type(part).__name__ for part in parts} != {"CyclicBatches"} or any(map(is_symbolic, sizes)):
        return False
    return all(size >= k for size in sizes)


def _squares(node: Any) -> Any:
    """The sum of 1 / z^2 over the releases that one record is in; None where noise is another."""
    name = type(node).__name__
    if name == "Gaussian":
        return 1 / node.noise_multiplier**2
    if name not in BATCHES | KEPT:
        return None
    square: Any = Fraction(0)
    for child in node.children:
        of_child = _squares(child)
        if of_child is None:
            return None
        square += of_child
    if name == "RandomAllocation" and node.draws is not None:
        return node.draws * square  # so many releases of a pass
    return node.times * square if name == "Repeat" else square


def _all_drawn(node: Node) -> bool:
    """Releases of Gaussian and Laplace noise, and Poisson samples of such, none sampled twice."""
    noise = {"Gaussian", "Laplace", "Compose", "Repeat", "Assuming"}
    for part in postorder(node):
        name = type(part).__name__
        if name not in noise | {"PoissonSampled"}:
            return False
        below = postorder(part) if name == "PoissonSampled" else ()
        if sum(type(inner).__name__ == "PoissonSampled" for inner in below) > 1:
            return False
    return True


def _together(pair: Pair, k: Any, told: Callable[[Sample], Pair] | None) -> Pair:
    """J of the group are in the batch, J binomial; the rest of the proof is the accountant's.

    ``told``: gives a pair that dominates a sample of noise that is not normal; None for lower
    bounds, in which one record alone moves.
    """
    if pair.is_swapped:
        return _together(pair.unswapped, k, told).swapped
    if pair.sample is not None:
        base, rate = pair.sample
        if rate == 1:
            return _together(base, k, told)
        if (mu := base.gaussian_shift) is not None:
            return Drawn(mu, rate, k)
        return pair if told is None else told(pair.sample)
    if pair.scaled(k) is not None:
        return _longer(pair, k, False)
    if (opposed := pair.opposition) is not None:
        # An absent record adds zero: where coins are told, it is replaced as any other.
        far = Normal(2 * opposed.mu)
        return pair if told is None else _tossed(opposed.rate, far, k)
    if pair.seen:
        return _all_coins(pair, k)
    return product([(_together(factor, k, told), n) for factor, n in pair.factors])


def _all_coins(pair: Pair, k: Any) -> Pair:
    """Replaced records in samples, given the group's coins, which are the same on either side."""
    q, _, base = pair.seen[-1]
    return _tossed(q, base, k)


def _tossed(q: Any, base: Pair, k: Any) -> Pair:
    nothing = Atoms(((Fraction(1), Fraction(1)),))
    branches: list[tuple[Any, Any, Pair]] = []
    for j, chance in enumerate(_chances(q, k)):
        branches.append((chance, chance, _longer(base, Fraction(j), True) if j else nothing))
    return Branched(tuple(branches))


def _chances(q: Any, k: Any) -> list[Any]:
    """The binomial chances that J = 0, .., k members are drawn."""
    if k > MOST_MEMBERS:
        raise Unsupported(f"a group of {k} in samples, how many of whom came is told")
    chances = [(1 - q) ** int(k)]
    for j in range(int(k)):
        # C(k, j + 1) / C(k, j) = (k - j) / (j + 1).
        chances.append(chances[-1] * q / (1 - q) * Fraction(int(k) - j, j + 1))
    return chances


def _above(pair: Pair, k: Any) -> Pair:
    """An upper bound by joint convexity: the attacker sees J if it is not 0."""

    def told(sampled: Sample) -> Pair:
        chances = _chances(sampled.rate, k)
        any_drawn = canonical(sympify(1 - chances[0]))
        weights = [canonical(sympify(chance / (1 - chances[0]))) for chance in chances[1:]]
        bases = [_longer(sampled.base, Fraction(j + 1), True) for j in range(int(k))]
        return Branched(
            tuple((w, w, Mixed(base, any_drawn)) for w, base in zip(weights, bases, strict=True))
        )

    return _together(pair, k, told)


def _longer(pair: Pair, k: Any, several: bool) -> Pair:  # noqa: FBT001
    if (far := pair.scaled(k)) is not None:
        return far
    if several and all(factor.scaled(k) is not None for factor, _ in pair.factors):
        return product([(_longer(factor, k, False), n) for factor, n in pair.factors])
    raise Unsupported("no dominating pair is known for a group over this child")


GROUPS: Table = {
    ("pure", "Group"): Theorem("group_pure", lambda n, e: n.size * e, attained=_saturated),
    ("approx", "Group"): Theorem("group_approximate", _approximate),
    ("zcdp", "Group"): Theorem(
        "group_concentrated", lambda n, rho: n.size**2 * rho, attained=_saturated
    ),
    ("gdp", "Group"): Theorem("group_gaussian", lambda n, mu: n.size * mu, attained=_saturated),
    ("rdp", "Group"): Theorem("group_renyi", _renyi, attained=_saturated_curve),
    ("profile", "Group"): Theorem("group_profile", _pairs),
}

register(GROUPS)
