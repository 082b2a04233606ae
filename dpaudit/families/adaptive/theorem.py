"""Adaptive choices and filters, stated a second time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import chain
from typing import Any

from dpaudit.check.theorem import (
    Row,
    Table,
    Theorem,
    alternatives,
    always,
    at_order,
    counted,
    lifted,
    pure_to_gdp,
    register,
)
from dpaudit.exact import canonical, exp, infinity, maximum, sqrt, sympify
from dpaudit.pairs import (
    Atoms,
    Concentrated,
    LaplaceShift,
    Losses,
    Normal,
    Pair,
    largest,
    product,
)

ONE, ZERO = Fraction(1), Fraction(0)
MOST_RELEASES = 10_000  # releases of a witness
NUMERIC = ("pure", "zcdp", "rdp", "gdp", "approx")  # measures whose value is a number, or a curve


# --- Select --------------------------------------------------------------------------------------


def _select(node: Any, witness: Row, *premises: Losses) -> Losses:
    """Given the past one child runs: the pointwise largest profile dominates it."""

    def every(sides: Sequence[tuple[Pair, ...]]) -> list[Pair]:
        return list(dict.fromkeys(chain.from_iterable(sides)))

    reached = [every([p.reached_remove for p in premises])]
    reached.append(every([p.reached_add for p in premises]))
    first, second = (tuple(side[: alternatives(witness)]) for side in reached)
    return Losses(
        (largest(every([p.remove for p in premises])),),
        (largest(every([p.add for p in premises])),),
        first,
        second,
        maximum([p.slack for p in premises]),
        any(p.in_one_part for p in premises),
    )


# --- Filter: the cap, by calculus and by the measure in which charges are added -------------------


def _gaussian_only(node: Any) -> bool:
    return {type(leaf).__name__ for leaf in node.child.children or (node.child,)} == {"Gaussian"}


def _zcdp_to_gdp(node: Any) -> Any:
    return sqrt(2 * node.cap) if _gaussian_only(node) else infinity()


CAPS: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("pure", "pure"): lambda n: n.cap,
    ("approx", "pure"): lambda n: (n.cap, ZERO),
    ("approx", "approx"): lambda n: (n.cap, n.delta),
    ("zcdp", "zcdp"): lambda n: n.cap,
    ("zcdp", "gdp"): lambda n: n.cap**2 / 2,
    ("zcdp", "pure"): lambda n: n.cap**2 / 2,
    ("rdp", "rdp"): lambda n: lambda a: at_order(n.cap, a),
    ("rdp", "zcdp"): lambda n: lambda a: a * n.cap,
    ("rdp", "gdp"): lambda n: lambda a: a * n.cap**2 / 2,
    ("rdp", "pure"): lambda n: lambda a: a * n.cap**2 / 2,
    ("gdp", "gdp"): lambda n: n.cap,
    ("gdp", "pure"): lambda n: pure_to_gdp(n.cap),
    ("gdp", "zcdp"): _zcdp_to_gdp,
}
NO_BOUND: dict[str, Callable[[], Any]] = {
    "approx": lambda: (infinity(), ONE),
    "rdp": lambda: lambda a: infinity(),
}


def _cap(calculus: str) -> Callable[..., Any]:
    def bound(node: Any, charge: Any) -> Any:
        cap_of = CAPS.get((calculus, str(node.measure)))
        return cap_of(node) if cap_of else NO_BOUND.get(calculus, infinity)()

    return bound


def _cap_pairs(node: Any, witness: Row, charge: Losses) -> Losses:
    """The pair of the guarantee that the cap is, and what spending all of it on noise reaches."""
    pair, spent = _pair(node), _spent(node, counted(witness, "releases", 1, MOST_RELEASES))
    return Losses((pair,), (pair.swapped,), spent, spent)


def _spent(node: Any, many: int) -> tuple[Pair, ...]:
    """One Gaussian release; one Laplace release, or many with epsilon^2 / 2 of rho between them."""
    measure, cap = str(node.measure), node.cap
    inside = node.child.children if type(node.child).__name__ == "Select" else (node.child,)
    kinds = [{type(leaf).__name__ for leaf in child.children or (child,)} for child in inside]
    if {"Gaussian"} in kinds and measure in ("gdp", "zcdp"):
        return (Normal(cap if measure == "gdp" else sqrt(2 * cap)),)
    if {"Laplace"} not in [
        kind for kind, child in zip(kinds, inside, strict=True) if not child.children
    ] or cap == 0:
        return ()
    if measure in ("pure", "approx"):
        return (LaplaceShift(cap),)
    each = LaplaceShift(sqrt(2 * cap / many))
    return (product([(each, Fraction(many))]),) if measure == "zcdp" else ()


def _pair(node: Any) -> Pair:
    measure = str(node.measure)
    if measure == "gdp":
        return Normal(node.cap)
    if measure == "zcdp":
        return Normal(sqrt(2 * node.cap)) if _gaussian_only(node) else Concentrated(node.cap)
    if measure == "rdp":
        return Atoms(((ONE, ZERO), (ZERO, ONE)))
    mass_left = 1 - node.delta
    high, low = (canonical(sympify(mass_left / (1 + exp(s * node.cap)))) for s in (-1, 1))
    revealing = ((node.delta, ZERO), (ZERO, node.delta)) if measure == "approx" else ()
    return Atoms((*revealing, (high, low), (low, high)))


_NAMES = {
    "pure": "filter_pure",
    "approx": "filter_approximate",
    "zcdp": "filter_concentrated",
    "rdp": "filter_renyi",
    "gdp": "filter_gaussian",
}

ADAPTIVE: Table = {
    **{(c, "Filter"): Theorem(name, _cap(c)) for c, name in _NAMES.items()},
    ("profile", "Filter"): Theorem("filter_profile", _cap_pairs, reads=True),
    **{(c, "Select"): Theorem("chosen", lifted(c, maximum), attained=always) for c in NUMERIC[:4]},
    ("approx", "Select"): Theorem("chosen", lifted("approx", maximum)),
    ("profile", "Select"): Theorem("chosen_profile", _select, reads=True),
}

register(ADAPTIVE)
