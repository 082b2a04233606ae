"""Every rule of the checker, replaced by one that gives a tenth less: what would notice?

A theorem's bound is multiplied by 9/10, an infinite one becomes a million; of pairs of
distributions, one run in ten releases nothing, so that every delta is a tenth less.  A conversion
accepts a tenth less than it did.  Ordinary and forged declarations that use the rule are then
checked, until one of these sees it:
``oracle``: the bound is below what :mod:`tests.support.wire_oracle` knows to be lost;
``accountant``: the bound is below the accountant's own;
``checker``: an honest derivation is refused, or the checker's own invariants are broken.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import islice
from typing import Any

import pytest

import dpaudit.check.derivation as derivation
from dpaudit.accountant.account import Account
from dpaudit.certificate.certificate import step_rows, steps_of
from dpaudit.check.derivation import own_bound, rederive
from dpaudit.check.measures import MEASURES
from dpaudit.check.profile.conversions import confirm_conversion
from dpaudit.check.reading import value_text
from dpaudit.check.theorem import THEOREMS, Theorem, rule_name
from dpaudit.errors import DpauditError
from dpaudit.exact import decimal_upper, is_infinite
from dpaudit.families.adaptive import Select
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Assuming, Compose, Repeat
from dpaudit.families.opaque import ZCDP, ApproxDP, RenyiCurve
from dpaudit.measures.calculus import CALCULI
from dpaudit.nodes import Node, free_unknowns, postorder
from dpaudit.nodes.registry import load
from dpaudit.nodes.tables import from_table
from dpaudit.pairs import Branched, Losses, Normal, largest
from dpaudit.profiles import delta_interval
from dpaudit.scope import central
from tests.support.coarse import delta_lower
from tests.support.every_node import ALPHA, IN_NUMBERS, LIPSCHITZ, G, L
from tests.support.wire_draws import ADJACENCIES, Draws, Json, table_of, tree_of
from tests.support.wire_fuzz import TooLong, at_order, ends, limited, too_small
from tests.support.wire_oracle import Reader, Truth

LESS = Fraction(9, 10)
# How many declarations are tried for one rule: ordinary ones first.
TRIED, SEEDS = 12, range(20_000, 20_200)
MOST_SECONDS = 2.0
EPSILONS = (Fraction(0), Fraction(1, 10), Fraction(1, 2), Fraction(1), Fraction(2))
DELTA = Fraction(1, 10**5)


@dataclass(frozen=True)
class Rule:
    """A theorem for a type in a calculus, of those that hold under other adjacencies another."""

    calculus: str
    kind: str
    theorem: Theorem

    @property
    def text(self) -> str:
        """Calculus, type and name."""
        return f"{self.calculus}: {self.kind} ({self.theorem.name})"


def rules() -> list[Rule]:
    """Every theorem that is registered with the checker, also those for other adjacencies."""
    load("theorem")
    found: list[Rule] = []
    for (calculus, kind), first in THEOREMS.items():
        theorem: Theorem | None = first
        while theorem is not None:
            found.append(Rule(calculus, kind, theorem))
            theorem = theorem.also
    return found


def less(value: Any) -> Any:
    """A bound with a tenth taken off."""
    if isinstance(value, Losses):
        return replace(value, remove=_rarer(value.remove), add=_rarer(value.add))
    if callable(value):
        return lambda order: less(value(order))
    if isinstance(value, tuple):
        return tuple(map(less, value))
    return Fraction(10**6) if is_infinite(value) else value * LESS


def _rarer(pairs: Any) -> Any:
    nothing = Normal(Fraction(0))
    return tuple(Branched(((LESS, LESS, p), (1 - LESS, 1 - LESS, nothing))) for p in pairs)


def weakened(theorem: Theorem, wanted: Theorem) -> Theorem:
    """A theorem of which that part gives a tenth less."""
    if theorem is wanted:
        bound = theorem.bound
        return replace(theorem, bound=lambda *given: less(bound(*given)))
    assert theorem.also is not None
    return replace(theorem, also=weakened(theorem.also, wanted))


@dataclass(frozen=True)
class Case:
    """A declaration under an adjacency, and what is known of it."""

    tree: Json
    root: Node
    adjacency: str

    @cached_property
    def truth(self) -> Truth | None:
        """What it loses at least; None where this oracle knows nothing of a part."""
        reader = Reader(table_of(self.tree), self.adjacency)
        return None if reader.wrong else reader.truth

    @cached_property
    def account(self) -> Account:
        """The accountant's."""
        return Account(self.root, central(self.adjacency))

    def uses(self, rule: Rule) -> bool:
        """Whether the checker asks this rule about it, and all it needs beside."""
        names = [rule_name(rule.calculus, node, self.adjacency) for node in postorder(self.root)]
        kinds = {type(node).__name__ for node in postorder(self.root)}
        held = THEOREMS[rule.calculus, rule.kind].under(self.adjacency) is rule.theorem
        return rule.kind in kinds and None not in names and held

    def noticed(self, calculus: str) -> str:
        """Who sees that the checker's bound is too small; empty where nobody does."""
        try:
            value = own_bound(self.root, calculus, self.adjacency)
        except DpauditError:
            return "checker"
        if self.truth is not None and _contradicts(calculus, value, self.truth):
            return "oracle"
        try:
            step = self.account.step(calculus)
        except DpauditError:
            return ""
        # Pairs may depend on what the step's witness chose.
        if not isinstance(value, Losses) and _is_less(value, step.value):
            return "accountant"
        rows = step_rows(steps_of([step]))
        predicate = {"derivation": {"steps": rows}, "scope": {"adjacency": self.adjacency}}
        try:
            upper = rederive(predicate, self.root)[-1].upper
        except DpauditError:
            return "checker"
        return "accountant" if _is_less(upper, step.value) else ""


def _contradicts(calculus: str, value: Any, truth: Truth) -> bool:
    if not isinstance(value, Losses):
        return any(too_small(calculus, value, truth, place) for place in range(3))
    try:
        with limited(MOST_SECONDS):
            return any(
                delta_lower(cells, float(epsilon)) > _delta(pairs, epsilon) + float(value.slack)
                for pairs, cells in (
                    (value.remove, truth.whole),
                    (value.add, truth.whole.swapped),
                )
                for epsilon in EPSILONS
            )
    except (DpauditError, TooLong):
        return False  # the pairs have no numbers


def _delta(pairs: Any, epsilon: Fraction) -> float:
    return float(delta_interval(largest(pairs), epsilon).upper) * (1 + 1e-9)


def _is_less(value: Any, theirs: Any) -> bool:
    """Whether the checker's bound is below the accountant's; of pairs, whether it is another."""
    if isinstance(value, Losses):
        return value.text != theirs.text
    if isinstance(value, tuple):
        return any(_is_less(one, other) for one, other in zip(value, theirs, strict=True))
    if callable(value):
        return _is_less(value(Fraction(2)), at_order(theirs, Fraction(2)))
    return bool(ends(value)[1] < ends(theirs)[0] * (1 - 1e-6))


def with_laplace(tree: Json) -> Json:
    """The same with Laplace noise, of which more is known in pure privacy."""
    if tree["type"] in ("CyclicPoisson", "Filter"):
        return tree
    kind = "Laplace" if tree["type"] == "Gaussian" else tree["type"]
    return {**tree, "type": kind, "children": [with_laplace(child) for child in tree["children"]]}


def cases() -> list[Case]:
    """Ordinary declarations of every type, alone and repeated, and forged ones that make sense."""
    found = []
    for adjacency in ADJACENCIES:
        for known in (*(node for node, _ in IN_NUMBERS), Select(G, L)):
            for tree in (tree_of(known), with_laplace(tree_of(known))):
                node = from_table(table_of(tree))
                for one in (node, Repeat(node, 3), Assuming(node, LIPSCHITZ)):
                    found.append(Case(tree_of(one), one, adjacency))
    for seed in SEEDS:
        tree, adjacency = Draws(seed).declaration()
        try:
            root = from_table(table_of(tree))
        except DpauditError:
            continue
        if not free_unknowns(root):
            found.append(Case(tree, root, adjacency))
    return found


def survivors(calculus: str, known: list[Case]) -> tuple[dict[str, str], list[str]]:
    """Of every rule of a calculus who noticed that it gives less; and those that nobody did."""
    seen: dict[str, str] = {}
    unseen: list[str] = []
    for rule in rules():
        if rule.calculus != calculus:
            continue
        asked = (case for case in known if case.uses(rule))
        tried = list(islice((case for case in asked if not case.noticed(calculus)), TRIED))
        with pytest.MonkeyPatch.context() as patch:
            key = calculus, rule.kind
            patch.setitem(THEOREMS, key, weakened(THEOREMS[key], rule.theorem))
            who = next(filter(None, (case.noticed(calculus) for case in tried)), "")
        if who:
            seen[rule.text] = who
        else:
            unseen.append(f"{rule.text}: {len(tried)} declarations")
    return seen, unseen


# --- conversions ----------------------------------------------------------------------------------

CONVERTED: dict[str, Node] = {
    "pure": Laplace("l", 2),
    "approx": ApproxDP(1, DELTA),
    "zcdp": ZCDP("0.1"),
    "rdp": RenyiCurve(ALPHA / 8),
    "gdp": Gaussian("g", 4),
    "profile": Compose(Laplace("l", 2), Gaussian("g", 4)),
}


def converted(calculus: str) -> list[Json]:
    """An honest derivation that ends in a conversion."""
    node = CONVERTED[calculus]
    step = Account(node, central("add_remove")).converted(calculus, DELTA)
    return step_rows(steps_of([step]))


def accepts_less(calculus: str) -> bool:
    """Whether the checker confirms an epsilon a tenth below what the accountant found."""
    node, rows = CONVERTED[calculus], converted(calculus)
    predicate = {"derivation": {"steps": rows}, "scope": {"adjacency": "add_remove"}}
    last = rows[-1]
    text = decimal_upper(Fraction(last["conclusion"]["epsilon"]) * LESS)
    last["conclusion"]["epsilon"] = text
    last["expression"] = value_text((Fraction(text), DELTA))
    last["witness"] = last["witness"] | ({"epsilon": text} if "epsilon" in last["witness"] else {})
    try:
        rederive(predicate, node)
    except DpauditError:
        return False
    return True


@contextmanager
def weaker_conversion(calculus: str) -> Iterator[None]:
    """A conversion that accepts a tenth less than it did."""

    honest = str(converted(calculus)[-1]["conclusion"]["epsilon"])

    def raised(text: str) -> str:
        return honest if Fraction(text) >= LESS * Fraction(honest) else text

    def number(premise: Any, delta: Any, text: str, witness: Any) -> Any:
        more = raised(text)
        own = witness | ({"epsilon": more} if "epsilon" in witness else {})
        held = own_conversion(premise, delta, more, own)
        return held if held[0] is None else (Fraction(text), held[1])

    def pairs(losses: Any, delta: Any, text: str, witness: Any) -> Any:
        found = confirm_conversion(losses, delta, raised(text), witness)
        return None if found is None else replace(found, epsilon=Fraction(text))

    own_conversion: Any = MEASURES[calculus].to_approx
    with pytest.MonkeyPatch.context() as patch:
        if own_conversion is None:
            patch.setattr(derivation, "confirm_conversion", pairs)
        else:
            patch.setitem(MEASURES, calculus, replace(MEASURES[calculus], to_approx=number))
        yield


def main() -> int:
    """Print who notices what."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("calculi", nargs="*", default=list(CALCULI))
    known = cases()
    for calculus in parser.parse_args().calculi:
        seen, unseen = survivors(calculus, known)
        whose = {who: sum(w == who for w in seen.values()) for who in sorted(set(seen.values()))}
        sys.stdout.write(f"{calculus}: {len(seen)} noticed {whose}, {len(unseen)} not\n")
        sys.stdout.writelines(f"    {text}\n" for text in unseen)
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
