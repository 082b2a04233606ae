"""The algebra of pairs, stated a second time: products, and pointwise largest profiles.

The forms are those that :mod:`dpaudit.nodes.pairs` describes: factors of a product are different,
each with its count, one of them normal at most; members of a largest are different; both are in the
order of their texts.
Sources: Dong, Roth, Su 2022, Corollary 3.3 (normal pairs); Zhu, Dong, Wang 2022, Theorem 10.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from fractions import Fraction
from operator import attrgetter
from typing import Any

from dpaudit.exact import maximum, sqrt, total
from dpaudit.nodes.pairs import Factor, LaplaceShift, Largest, Normal, Pair, Product

TEXT = attrgetter("text")


def independent(factors: Iterable[Factor]) -> Pair:
    """The product: counts of equal factors add up, and so do the squares of normal ones."""
    counted: dict[Pair, list[Any]] = {}
    for pair, times in factors:
        for factor, inner in pair.factors:
            counted.setdefault(factor, []).append(inner * times)
    normal = [pair for pair in counted if isinstance(pair, Normal)]
    mu = sqrt(total([pair.mu**2 * n for pair in normal for n in counted.pop(pair)]))
    parts = [(pair, count) for pair, ns in counted.items() if (count := total(ns)) != 0]
    if mu != 0 or not parts:
        parts.append((Normal(mu), Fraction(1)))
    (pair, count), *others = sorted(parts, key=lambda part: part[0].text)
    return pair if not others and count == 1 else Product(((pair, count), *others))


def together(*pairs: Pair) -> Pair:
    """The product of pairs, each once."""
    return independent((pair, Fraction(1)) for pair in pairs)


def worst_first(pairs: Iterable[Pair]) -> tuple[Pair, ...]:
    """Alternatives, each once: of normal pairs, and of Laplace ones, the farthest apart alone."""
    found = list(dict.fromkeys(pairs))
    for kind, parameter in ((Normal, "mu"), (LaplaceShift, "epsilon")):
        alike = [pair for pair in found if type(pair) is kind]
        if len(alike) > 1:
            farthest: Pair = kind(maximum([getattr(pair, parameter) for pair in alike]))
            found = [farthest, *(pair for pair in found if type(pair) is not kind)]
    return tuple(found)


def worst(pairs: Iterable[Pair]) -> Pair:
    """One pair whose profile is everywhere the largest of theirs."""
    found = worst_first(pairs)
    return found[0] if len(found) == 1 else Largest(tuple(sorted(found, key=TEXT)))


def changed(pair: Any, change: Callable[[Any], Any]) -> Any:
    """The same pair with every parameter, and every count, changed."""
    if isinstance(pair, Product):
        return independent((changed(p, change), change(n)) for p, n in pair.parts)
    if isinstance(pair, Largest):
        return worst(changed(p, change) for p in pair.pairs)
    if isinstance(pair, Pair):
        return type(pair)(*(changed(getattr(pair, f.name), change) for f in fields(pair)))
    if isinstance(pair, tuple):
        return tuple(changed(item, change) for item in pair)
    return change(pair)
