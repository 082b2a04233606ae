"""The algebra of pairs, stated a second time: products, and pointwise largest profiles.

The forms are those that :mod:`dpaudit.nodes.pairs` describes: factors of a product are different,
each with its count, one of them normal at most; members of a largest are different; both are in the
order of their texts.
Sources: Dong, Roth, Su 2022, Corollary 3.3 (normal pairs); Zhu, Dong, Wang 2022, Theorem 10.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from fractions import Fraction
from operator import attrgetter
from typing import Any

from dpaudit.check.reading import Json
from dpaudit.errors import InvalidParameter
from dpaudit.exact import enclose, is_infinite, maximum, sqrt, total, unknowns
from dpaudit.nodes.pairs import (
    Branched,
    Concentrated,
    Drawn,
    DrawnMoves,
    Factor,
    LaplaceShift,
    Largest,
    Losses,
    Mixed,
    Normal,
    Pair,
    Product,
    Renyi,
    Replaced,
    Spliced,
    Swapped,
    from_wire,
)

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


# --- conclusions that are pairs -------------------------------------------------------------------


def concluded(stated: Json, own: Losses) -> Losses | None:
    """The pairs that a step states, where they dominate the theorem's own; None where not.

    As many, and each with the form of one of the theorem's: nothing else says that masses sum to 1.
    What is reached stays the theorem's.
    """
    if stated == own.to_wire():
        return own
    try:
        remove, add, slack = from_wire(stated)
    except InvalidParameter:
        return None
    sides = ((remove, own.remove), (add, own.add))
    held = all(len(there) == len(ours) and _all_dominated(there, ours) for there, ours in sides)
    if not held or not _at_least(slack, own.slack):
        return None
    return replace(own, remove=remove, add=add, slack=slack)


def _all_dominated(stated: Sequence[Pair], own: Sequence[Pair]) -> bool:
    """Whether each of ``own`` has one that dominates it, and none of ``stated`` is of another."""
    return all(any(dominates(s, o) for s in stated) for o in own) and all(
        any(dominates(s, o) for o in own) for s in stated
    )


def dominates(stated: Any, own: Any) -> bool:
    """Whether a pair's profile is nowhere below another's, as far as their forms show.

    More noise, a lower rate of sampling, fewer rounds: what is less informative is less in any
    composition (Blackwell 1951; Dong, Roth, Su 2022, Theorem 2.10).
    """
    if stated == own:
        return True
    if isinstance(own, Largest) or isinstance(stated, Largest):
        alternatives = [one.pairs if isinstance(one, Largest) else (one,) for one in (stated, own)]
        return _all_dominated(*alternatives)
    if type(stated) is not type(own):
        return False
    if isinstance(own, Product):
        return _covers(list(stated.parts), list(own.parts))
    if isinstance(own, Branched):
        mass = [branch[:2] for branch in stated.branches] == [b[:2] for b in own.branches]
        bases = zip(stated.branches, own.branches, strict=False)
        return mass and all(dominates(s[2], o[2]) for s, o in bases)
    grows = GROWS.get(type(own), {})
    return bool(grows) and all(
        grows.get(f.name, _same)(getattr(stated, f.name), getattr(own, f.name)) for f in fields(own)
    )


def _covers(stated: list[Factor], own: list[Factor]) -> bool:
    """Whether every factor has one of its own that dominates it, as often at least; no others."""
    if len(stated) != len(own):
        return False
    for pair, times in own:
        fit = [f for f in stated if _at_least(f[1], times) and dominates(f[0], pair)]
        if not fit:
            return False
        stated.remove(fit[0])
    return True


def _at_least(stated: Any, own: Any) -> bool:
    if isinstance(stated, (Pair, tuple)):
        return False
    if stated == own:
        return True
    if any(is_infinite(value) or unknowns(value) for value in (stated, own)):
        return False
    return bool(enclose(stated) >= enclose(own))


def _rate(stated: Any, own: Any) -> bool:
    return _at_least(stated, own) and _at_least(Fraction(1), stated)


def _each_at_least(stated: Any, own: Any) -> bool:
    return len(stated) == len(own) and all(map(_at_least, stated, own))


def _same(stated: Any, own: Any) -> bool:
    return bool(stated == own)


# What may be larger; a parameter that is not named has to be the same, and so has any other pair.
GROWS: dict[type[Pair], dict[str, Callable[[Any, Any], bool]]] = {
    Normal: {"mu": _at_least},
    LaplaceShift: {"epsilon": _at_least},
    Concentrated: {"rho": _at_least},
    Renyi: {"epsilon": _at_least},
    Mixed: {"base": dominates, "rate": _rate},
    Drawn: {"mu": _at_least, "rate": _rate, "size": _at_least},
    DrawnMoves: {"moves": _each_at_least, "rate": _rate},
    Spliced: {"above": dominates, "below": dominates},
    Swapped: {"base": dominates},
    Replaced: {"mu": _at_least},
}
