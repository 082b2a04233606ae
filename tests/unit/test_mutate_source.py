"""Mutants of source text: what is changed, what is left alone."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from dpaudit.accountant.claim import Claim
from dpaudit.audit.neighbours import Neighbours
from dpaudit.audit.suite import Suite
from dpaudit.curator.curator import Curator
from dpaudit.curator.mechanism import Mechanism, Setting
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Compose, Repeat
from dpaudit.families.opaque import GDP, ApproxDP, PureDP
from dpaudit.families.sampling import PoissonSampled
from dpaudit.kernels.query import Array, ClippedMean, Records
from dpaudit.mutate.changes import CONTROL, EVERY, changes_of
from dpaudit.mutate.mutant import Planted, survey
from dpaudit.mutate.source import source_mutants
from dpaudit.nodes import Node
from dpaudit.scope import Scope

SETTING = Setting("a test", "row", "one row", ("the releases",))


SEED = 11


def rows(values: Array) -> Array:
    return np.asarray(values)[None]


@dataclass(frozen=True)
class Walk:
    """Moves a point by noisy means, every second of them with a smaller radius."""

    steps: int = 8

    def declaration(self, scope: Scope) -> Node:
        wide = self.steps // 2
        return Compose(Repeat(Gaussian("wide", 4), wide), Repeat(Gaussian("narrow", 4), wide))

    def run(self, curator: Curator) -> Array:
        x = np.zeros((curator.trials, 2))
        for t in range(self.steps):
            if t % 2 == 0:
                x = x + curator.release("wide", ClippedMean(rows, 1.0))
            else:
                x = x + curator.release("narrow", ClippedMean(rows, 0.5))
        return x


@dataclass(frozen=True)
class Batches:
    """Noisy sums over secret batches."""

    steps: int = 6

    def declaration(self, scope: Scope) -> Node:
        return Repeat(PoissonSampled(Gaussian("sum", 1), 0.25), self.steps)

    def run(self, curator: Curator) -> Array:
        released = np.zeros((curator.trials, 2))
        for _ in range(self.steps):
            with curator.batch("sum") as batch:
                query = ClippedMean(rows, 1.0, divisor=1.0)
                released = curator.release("sum", query, rows=batch)
        return released


@dataclass(frozen=True)
class Once:
    """One number, with Laplace noise."""

    def declaration(self, scope: Scope) -> Node:
        return Laplace("count", 1)

    def run(self, curator: Curator) -> Array:
        return curator.release("count", ClippedMean(lambda z: z[None, :, :1], 1.0, norm="l1"))


def target(program: Any, claim: Node, adjacency: str, trials: int = 400) -> Planted:
    scope = Scope(adjacency, "record", "central", "transcript")  # type: ignore[arg-type]
    claims = (Claim(claim, by="a test"),)
    mechanism = Mechanism("case", "Case", "a test", program, scope, claims, SETTING)
    first = np.zeros((5, 2))
    first[2] = (2.0, 0.0)
    zeroed = Records(first, np.arange(5) != 2)
    other = Records(-first) if adjacency == "replace_one" else zeroed
    pair = Neighbours(Records(first), other, adjacency, "a row")  # type: ignore[arg-type]
    return Planted(mechanism, Suite("case", program, pair, trials=trials))


TARGETS = {
    "walk": target(Walk(), GDP(1), "replace_one"),
    "batches": target(Batches(), ApproxDP(6, 1e-5), "zero_out"),
    "once": target(Once(), PureDP(1), "zero_out", trials=6_000),
}


# --- source text ---------------------------------------------------------------------------------


def test_a_source_mutant_leaves_no_trace() -> None:
    right = Walk.declaration.__code__
    node = Walk().declaration(TARGETS["walk"].mechanism.scope)
    found = survey(*TARGETS["walk"], SEED, 2.5e-5)
    for mutant in source_mutants(found):
        with pytest.raises(KeyError, match="inside"), mutant.plant():
            raise KeyError("inside")
        assert Walk.declaration.__code__ is right
    assert Walk().declaration(TARGETS["walk"].mechanism.scope) == node


def test_a_source_mutant_changes_what_runs() -> None:
    scope = TARGETS["walk"].mechanism.scope
    found = survey(*TARGETS["walk"], SEED, 2.5e-5)
    changed = set()
    for mutant in source_mutants(found):
        if "Walk.declaration" in mutant.what:
            with mutant.plant():
                changed.add(Walk().declaration(scope))
    assert len(changed) >= 3
    assert Walk().declaration(scope) not in changed


CHANGES: dict[str, set[str]] = {
    "a < b": {"a <= b", "a >= b"},
    "a == b": {"a != b"},
    "a + b": {"a - b"},
    "a - b - c": {"a + b - c", "a - b + c"},
    "a // b": {"a * b"},
    "a ** 2": {"a * 2", "a ** 3", "a ** 1"},
    "0.5": {"1.0", "0.25"},
    "min(a, b)": {"max(a, b)", "a"},
    "np.clip(a, 0.0, b)": {"a"},
    "x if c else y": {"x if not c else y"},
    "'text'": set(),
    "True": set(),
    "f(a)": set(),
}


@pytest.mark.parametrize("text", CHANGES)
def test_the_changes_of_an_expression(text: str) -> None:
    made = set()
    for change in changes_of(ast.parse(text), EVERY):
        tree = ast.parse(text)
        change.apply(tree)
        made.add(ast.unparse(ast.fix_missing_locations(tree)))
    assert made == CHANGES[text]


def test_public_code_keeps_its_arithmetic() -> None:
    text = "if a < 1:\n    b = a * 0.5 + min(a, b)\n"
    names = {c.name for c in changes_of(ast.parse(text), CONTROL)}
    assert names == {"Lt_to_LtE", "Lt_to_GtE", "negated", "one_more", "one_less"}


def test_checks_annotations_and_messages_are_left_alone() -> None:
    text = "def f(a: int = 3) -> int:\n    if a < 1:\n        raise ValueError(7)\n    return a\n"
    assert list(changes_of(ast.parse(text), EVERY)) == []
