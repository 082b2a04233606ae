"""Reports of sets and shuffled reports, stated a second time.

Proofs stand beside the accountant's rules of the same names.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from dpaudit.check.theorem import Premise, Row, Table, Theorem, always, register
from dpaudit.exact import canonical, enclose, erfinv, exp, is_symbolic, log, sqrt, tanh, unknowns
from dpaudit.nodes import postorder
from dpaudit.pairs import (
    Allocated,
    Atoms,
    Blanket,
    Clones,
    Losses,
    Pair,
    Polled,
    Tallied,
)
from dpaudit.pairs.core import gaussian_shifts

ZERO, ONE = Fraction(0), Fraction(1)
SHUFFLED = frozenset({"replace_one"})


def _parts(epsilon: Any, share: Any, overlap: Any) -> tuple[Any, Any]:
    """Mass of what one of two sets has alone, under the other value; and of both such parts.

    Two complements are everything.
    """
    if 2 * share == 1 and overlap == 0:
        return 1 / (1 + exp(epsilon)), ONE
    rare = (share - overlap) / (1 + share * (exp(epsilon) - 1))
    return rare, rare * (1 + exp(epsilon))


def _of(node: Any) -> tuple[Any, Any]:
    return _parts(node.epsilon, node.share, node.overlap)


def _pair(node: Any) -> Losses:
    rare, revealing = _of(node)
    likely = exp(node.epsilon) * rare
    outcomes = [(likely, rare), (rare, likely)]
    own = Atoms((*outcomes, *([] if revealing == 1 else [(1 - revealing, 1 - revealing)])))
    return Losses((own,), (own,), (own,), (own,))


def _is_plain(witness: Row) -> bool:
    return witness.get("plain") is True


def _curve(node: Any, witness: Row) -> Any:
    rare, revealing = _of(node)
    if _is_plain(witness):
        return lambda a: a * node.epsilon * tanh(node.epsilon / 2)
    return lambda a: (
        log(1 - revealing + rare * (exp(a * node.epsilon) + exp(node.epsilon - a * node.epsilon)))
        / (a - 1)
    )


def _sharp(node: Any, premises: Sequence[Premise], witness: Row) -> bool:
    return not _is_plain(witness)


def _order_one(node: Any, premises: Sequence[Premise], witness: Row) -> bool:
    """The moments have imaginary zeros only: the rest is at most twice the geometric mean."""
    rare, revealing = _of(node)
    if unknowns(revealing) or _is_plain(witness):
        return False
    return bool(enclose(1 - revealing) <= enclose(2 * rare * exp(node.epsilon / 2)))


def _divergence(node: Any, witness: Row) -> Any:
    rare, _ = _of(node)
    if _order_one(node, (), witness):
        return rare * node.epsilon * tanh(node.epsilon / 2) * (exp(node.epsilon) + 1)
    return node.epsilon * tanh(node.epsilon / 2)


def _corner(node: Any) -> Any:
    rare, _ = _of(node)
    return sqrt(2) * (erfinv(2 * exp(node.epsilon) * rare - 1) - erfinv(2 * rare - 1))


def _blanket(level: Any, share: Any, overlap: Any, others: Any) -> Pair:
    """Uniform parts of the others, weighed against the report where it is of neither set alone."""
    rare, revealing = _parts(level, share, overlap)
    if revealing == 1:
        return Clones(level, ONE, 2 * rare, others)
    neither = overlap + 1 - 2 * share
    # The report has e^level of what both sets have to 1 of what none has: so much is kept of that.
    like = neither if overlap == 0 else overlap + neither / exp(level)
    return Blanket(level, revealing, 2 * rare, like / (1 + share * (exp(level) - 1)), others)


def _shuffled(node: Any, base: Losses) -> Losses:
    """The pair of the counts of the two parts, among the other reports."""
    child, others = node.child, node.population - 1
    kind = type(child).__name__
    sets = None
    if kind == "SubsetResponse":
        sets = child.share, child.overlap, child.free
    elif kind == "RandomizedResponse" and not is_symbolic(child.choices):
        sets = 1 / child.choices, ZERO, ONE if child.choices > 2 else ZERO
    if sets is not None:
        upper = _blanket(child.epsilon, *sets[:2], others)
        rare, revealing = _parts(child.epsilon, sets[0], sets[1])
        if sets[2] == 0:
            tallied = Tallied(child.epsilon, rare, others)
            if kind == "RandomizedResponse":
                # No user holds a third value; only the number who hold the first is unknown.
                upper = Polled(child.epsilon, ONE, 2 * rare, others)
            return Losses((upper,), (upper,), (tallied,), (tallied.swapped,))
        below = Clones(child.epsilon, revealing * sets[2], 2 * rare * sets[2], others)
        return Losses((upper,), (upper,), (below,), (below,))
    counts: list[tuple[Any, Any]] = []
    if kind == "PureDP":
        loss = child.epsilon
    elif kind == "Laplace":
        loss = 1 / child.noise_multiplier
        counts = [_exceeding_density(loss, Fraction(3, 4)), (loss, exp(-loss) / 2)]
    elif kind == "DiscreteLaplace":
        loss = child.sensitivity / child.scale
        counts = _exceeding_masses(child.scale, child.sensitivity)
    elif node.population == 1:
        return base
    else:
        shown = _moved_among_equals(child, base, node.population)
        return Losses(base.remove, base.add, *shown, base.slack, base.in_one_part)
    upper = Clones(loss, ONE, exp(-loss), others)
    forth = tuple(Tallied(epsilon, rare, others) for epsilon, rare in counts)
    return Losses((upper,), (upper,), forth, tuple(pair.swapped for pair in forth))


def _moved_among_equals(
    child: Any, base: Losses, population: Any
) -> tuple[tuple[Pair, ...], tuple[Pair, ...]]:
    """Normal noise: all reports around 0, against all but one, whose place is uniform."""
    if {type(part).__name__ for part in postorder(child)} - {"Gaussian", "Compose", "Repeat"}:
        return (), ()
    pairs = tuple(Allocated(canonical(1 / mu), population) for mu in gaussian_shifts(base.remove))
    return pairs, tuple(pair.swapped for pair in pairs)


def _exceeding_density(loss: Any, part: Fraction) -> tuple[Any, Any]:
    """Ratio's logarithm, and the smaller chance, of Laplace noise above that part of the way."""
    rare = exp(-part * loss) / 2
    return log((1 - exp((part - 1) * loss) / 2) / rare), rare


def _exceeding_masses(scale: Any, way: Any) -> list[tuple[Any, Any]]:
    """As above, of discrete noise at three quarters of the way rounded up, and at all of it.

    From k on there is exp(-k / scale) / (1 + exp(-1 / scale)) of it; below k, as from 1 - k on.
    """
    total = 1 + exp(-1 / scale)
    masses = [(way / scale, exp(-way / scale) / total)]
    if not is_symbolic(way) and -(-3 * way // 4) < way:
        first = Fraction(-(-3 * way // 4))
        rare, lacking = exp(-first / scale) / total, exp(-(way - first + 1) / scale) / total
        masses.insert(0, (log((1 - lacking) / rare), rare))
    return masses


LOCAL: Table = {
    ("pure", "SubsetResponse"): Theorem("subset_response", lambda n: n.epsilon, attained=always),
    ("approx", "SubsetResponse"): Theorem("subset_response_at_zero", lambda n: (n.epsilon, ZERO)),
    ("profile", "SubsetResponse"): Theorem("subset_response_pair", _pair),
    ("rdp", "SubsetResponse"): Theorem(
        "subset_response_curve", _curve, attained=_sharp, reads=True
    ),
    ("zcdp", "SubsetResponse"): Theorem(
        "subset_response_divergence", _divergence, attained=_order_one, reads=True
    ),
    ("gdp", "SubsetResponse"): Theorem("subset_response_corner", _corner),
    ("pure", "Shuffled"): Theorem("shuffled", lambda n, e: e, SHUFFLED, attained=always),
    ("approx", "Shuffled"): Theorem("shuffled_approx", lambda n, base: base, SHUFFLED),
    ("zcdp", "Shuffled"): Theorem("shuffled_concentrated", lambda n, e: e, SHUFFLED),
    ("rdp", "Shuffled"): Theorem("shuffled_renyi", lambda n, e: e, SHUFFLED),
    ("gdp", "Shuffled"): Theorem("shuffled_gaussian", lambda n, e: e, SHUFFLED),
    ("profile", "Shuffled"): Theorem("shuffled_profile", _shuffled, SHUFFLED),
}

register(LOCAL)
