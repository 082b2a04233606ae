"""Amplification by sampling, stated a second time; the profiles are in ``profile_sampling``."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from dpaudit.check.theorem import RENYI_SYMBOL, Table, Theorem, always, register
from dpaudit.exact import choose, exp, is_infinite, log, settled, smaller, sqrt, sum_over, sympify
from dpaudit.nodes import postorder

Curve = Callable[[Any], Any]
GAUSSIAN_ONLY = frozenset({"Gaussian", "GDP", "Compose", "Repeat", "Assuming"})
PLACED = frozenset({"Parallel", "CorrelatedGaussian", "CyclicBatches", "CyclicPoisson"})
# Whether the record is absent or contributes exactly zero: batches without it are the same.
REMOVED = frozenset({"add_remove", "zero_out"})
REPLACED = frozenset({"replace_one"})


def _amplified(epsilon: Any, chance: Any) -> Any:
    return settled(log(1 + chance * (exp(epsilon) - 1)))


def _batch_share(node: Any) -> Any:
    return node.batch_size / node.population


def interchangeable(child: Any) -> bool:
    """Whether the child's guarantee covers any record of a batch in place of any other.

    Where records have public parts or rounds it covers a replacement in the same place only, and a
    batch without the record has another in some other place.
    """
    for part in postorder(child):
        node: Any = part
        name = type(node).__name__
        if name in PLACED or (name == "LastIterate" and node.batches != 1):
            return False
    return True


def drawn_as_reached(child: Any) -> bool:
    """Whether a batch without the record has the second of the two laws of the attained pair.

    It has for shuffled answers of two values, or with noise on numbers: the others hold the value
    that replaces the record.  It has not where the others hold a third value, nor where an absent
    record adds zero.
    """
    for part in postorder(child):
        if getattr(part, "undrawn", None) is not None:
            return False
        if type(part).__name__ == "Shuffled":
            reports: Any = part.children[0]
            below = type(reports).__name__
            two = below == "RandomizedResponse" and reports.choices == 2
            kinds = {type(inner).__name__ for inner in postorder(reports)}
            normal = kinds <= {"Gaussian", "Compose", "Repeat"}
            if not (two or normal or below in {"Laplace", "DiscreteLaplace"}):
                return False
    return True


def _batch(node: Any, epsilon: Any) -> Any:
    if not interchangeable(node.child):
        return epsilon
    return _amplified(epsilon, _batch_share(node))


# --- draws with replacement: the record is drawn J times, J binomial(draws, 1 / population) -------


def _draws(node: Any, epsilon: Any) -> Any:
    """log E e^(J epsilon) = draws log(1 + (e^epsilon - 1) / population).

    The run with j copies is at most e^(j epsilon) times a run with i <= j copies of the other
    record; what the small j leave below E e^(J epsilon) is what the large j are above it.  Where
    records have places, j copies are compared with j copies: all draws may be the record.
    """
    if not interchangeable(node.child):
        return settled(node.draws * epsilon)
    return settled(node.draws * log(1 + (exp(epsilon) - 1) / node.population))


def _draws_pair(node: Any, pair: Any) -> Any:
    """A group of j adds delta (1 + e^epsilon + ... + e^((j-1) epsilon)): the mean over J."""
    epsilon, delta = pair
    if is_infinite(epsilon):
        return epsilon, Fraction(1)
    if epsilon == 0:
        return epsilon, delta * node.draws / node.population
    mean = sympify(1 + (exp(epsilon) - 1) / node.population) ** sympify(node.draws)
    return _draws(node, epsilon), settled(delta * ((mean - 1) / (exp(epsilon) - 1)))


# --- Renyi divergences at whole orders; one in between is at most that of the next whole order ----


def _index(*values: Any) -> Any:
    """j, or the first of j2, j3, ... whose name none of the values holds."""
    import sympy

    names_used = {s.name for v in values for s in sympify(v).atoms(sympy.Symbol)}
    names = ("j", *(f"j{k}" for k in range(2, 2 + len(names_used))))
    free = next(name for name in names if name not in names_used)
    return sympy.Symbol(free, integer=True, nonnegative=True)


def _over(term: Callable[[Any], Any], index: Any, first: int, last: Any) -> Any:
    return sum_over(term(index), index, first, last)


def _sampled_curve(base: Curve, chance: Any, terms: Callable[[Any, Any], Any]) -> Curve:
    """log(1 + terms(n, j)) / (n - 1) at n = ceil(a), with an index j for its sum.

    A base of 0 or infinity, and a record that is always chosen, leave the base as it is.
    """
    import sympy

    shown = base(sympy.Symbol(RENYI_SYMBOL, positive=True))
    if chance == 1 or shown == 0 or is_infinite(shown):
        return base
    index = _index(shown, chance)

    def curve(a: Any) -> Any:
        import sympy

        n = sympy.ceiling(sympify(a))
        return settled(log(1 + terms(n, index)) / (n - 1))

    return curve


def _moment(base: Curve, j: Any) -> Any:
    """E_Q (P/Q)^j."""
    return exp((j - 1) * base(j))


def _poisson(node: Any, base: Curve) -> Curve:
    """E_Q (1 - q + q P/Q)^n, expanded; it bounds the other direction as well.

    That is E_Q g(t), g(t) = (1-q+qt)^(1-n), t = P/Q.  Both f(t) = (1-q+qt)^n and t f(1/t) have this
    expansion.  A mean of them with g's second and third derivative at t = 1 is above g up to a
    multiple of t - 1: the difference is convex.
    """
    q = sympify(node.rate)

    def terms(n: Any, index: Any) -> Any:
        return _over(
            lambda j: choose(n, j) * (1 - q) ** (n - j) * q**j * (_moment(base, j) - 1), index, 2, n
        )

    return _sampled_curve(base, node.rate, terms)


def _without_replacement(node: Any, base: Curve) -> Curve:
    """Binomial expansion of E_B (A/B)^n with |P-Q|^j / R^(j-1) over batches that differ by one.

    In general at most twice a moment, at j = 2 also four times a variance; for normal noise also
    four times the geometric mean of the even central moments around j.
    """
    if not interchangeable(node.child):
        return base
    share = sympify(_batch_share(node))
    normal = all(type(n).__name__ in GAUSSIAN_ONLY for n in postorder(node.child))

    def least(j: Any, other: Any) -> Any:
        return share**j * smaller(other, 2 * _moment(base, j))

    def of_normal(n: Any, index: Any) -> Any:
        return _over(lambda j: choose(n, j) * least(j, _normal_ternary(base, j)), index, 2, n)

    def of_any(n: Any, index: Any) -> Any:
        two = Fraction(2)
        second = choose(n, 2) * least(two, 4 * (_moment(base, two) - 1))
        return second + _over(lambda j: choose(n, j) * share**j * 2 * _moment(base, j), index, 3, n)

    return _sampled_curve(base, _batch_share(node), of_normal if normal else of_any)


def _normal_ternary(base: Curve, j: Any) -> Any:
    import sympy

    below = _central(base, 2 * sympy.floor(j / 2), j)
    return 4 * sqrt(below * _central(base, 2 * sympy.ceiling(j / 2), j))


def _central(base: Curve, even: Any, outer: Any) -> Any:
    """E_Q (P/Q - 1)^l for even l, by the binomial formula."""
    import sympy

    shown = base(sympy.Symbol(RENYI_SYMBOL, positive=True))
    return _over(
        lambda i: (-1) ** i * choose(even, i) * _moment(base, i), _index(shown, outer), 0, even
    )


def _draws_of(node: Any) -> Any:
    """In how many slots each record is."""
    return 1 if node.draws is None else node.draws


SAMPLING: Table = {
    ("pure", "PoissonSampled"): Theorem(
        "poisson_sampled", lambda n, epsilon: _amplified(epsilon, n.rate), REMOVED
    ),
    ("pure", "SampledWithoutReplacement"): Theorem("sampled_without_replacement", _batch, REPLACED),
    ("pure", "SampledWithReplacement"): Theorem("sampled_with_replacement", _draws, REPLACED),
    # In far outputs the loss is epsilon in whichever slot the record is.
    ("pure", "RandomAllocation"): Theorem(
        "random_allocation", lambda n, epsilon: _draws_of(n) * epsilon, attained=always
    ),
    ("approx", "PoissonSampled"): Theorem(
        "poisson_sampled_approx",
        lambda n, pair: (_amplified(pair[0], n.rate), settled(n.rate * pair[1])),
        REMOVED,
    ),
    ("approx", "SampledWithoutReplacement"): Theorem(
        "sampled_without_replacement_approx",
        lambda n, pair: (_batch(n, pair[0]), settled(_batch_share(n) * pair[1])),
        REPLACED,
    ),
    ("approx", "SampledWithReplacement"): Theorem(
        "sampled_with_replacement_approx", _draws_pair, REPLACED
    ),
    ("approx", "RandomAllocation"): Theorem(
        "random_allocation_approx",
        lambda n, pair: (_draws_of(n) * pair[0], _draws_of(n) * pair[1]),
    ),
    ("rdp", "PoissonSampled"): Theorem("poisson_renyi", _poisson, REMOVED),
    ("rdp", "SampledWithoutReplacement"): Theorem("batch_renyi", _without_replacement, REPLACED),
    ("rdp", "RandomAllocation"): Theorem(
        "allocated_renyi", lambda n, curve: lambda a: _draws_of(n) * curve(a)
    ),
}

register(SAMPLING)
