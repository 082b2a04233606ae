"""Declarations: validated, immutable, equal by content, readable, and safe to read back."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import os
import pickle
import subprocess
import sys
import time
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy

from dpaudit.errors import InvalidParameter
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Assuming, Compose, Parallel, Repeat
from dpaudit.families.opaque import (
    GDP,
    ZCDP,
    ApproxDP,
    NonPrivate,
    PureDP,
)
from dpaudit.families.sampling import (
    PoissonSampled,
    SampledWithoutReplacement,
)
from dpaudit.nodes import Assumption, Leaf, Node, Status, find_path, postorder
from dpaudit.nodes.registry import FAMILIES, load
from dpaudit.nodes.tables import from_table, to_table
from tests.support.every_node import EVERY_TYPE, LEAF, LIPSCHITZ, K, T, k, x


def test_every_type_is_listed_here() -> None:
    load("node")
    shipped = {t for t in Node.types.values() if t.__module__.startswith(f"{FAMILIES}.")}
    assert {type(node) for node in EVERY_TYPE} == shipped


# --- validation ----------------------------------------------------------------------------------

POSITIVE = {
    "Gaussian": lambda v: Gaussian("a", v),
    "Laplace": lambda v: Laplace("a", v),
    "PoissonSampled": lambda v: PoissonSampled(LEAF, v),
    "batch_size": lambda v: SampledWithoutReplacement(LEAF, v, 10**9),
}
NON_NEGATIVE = {
    "PureDP": PureDP,
    "ApproxDP.epsilon": lambda v: ApproxDP(v, 0.1),
    "ApproxDP.delta": lambda v: ApproxDP(1, v),
    "ZCDP": ZCDP,
    "GDP": GDP,
    "Repeat": lambda v: Repeat(LEAF, v),
}
NEVER = [
    -1,
    -1e-300,
    math.nan,
    math.inf,
    -math.inf,
    Decimal("NaN"),
    np.float32("inf"),
    True,
    None,
    "one",
    [1],
    np.array([1.0]),
    10**2000,
    -sympy.sqrt(2),
    1 - sympy.exp(sympy.Rational(1, 10)),
    -x,
    sympy.oo,
    sympy.nan,
    sympy.I,
    sympy.Symbol("unknown"),
    sympy.Symbol("c", complex=True) * x,
    sympy.Symbol("e", extended_positive=True),
    sympy.Function("f")(x),
    sympy.sin(x),
]


@pytest.mark.parametrize("build", [*POSITIVE.values(), *NON_NEGATIVE.values()])
def test_values_outside_every_domain_are_refused(build: Any) -> None:
    for value in NEVER:
        with pytest.raises(InvalidParameter, match="expected") as caught:
            build(value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", POSITIVE)
def test_zero_noise_rate_and_batch_are_refused(name: str) -> None:
    zeros = [0, 0.0, -0.0, sympy.Integer(0), sympy.sqrt(8) - 2 * sympy.sqrt(2)]
    hidden = sympy.sqrt(2) + sympy.sqrt(3) - sympy.sqrt(5 + 2 * sympy.sqrt(6))
    for zero in [*zeros, hidden]:
        with pytest.raises(InvalidParameter, match=r"positive, finite number|a whole number"):
            POSITIVE[name](zero)


def test_upper_ends_of_domains() -> None:
    """A probability is below 1, a rate at most 1; irrational numbers and symbols included."""
    assert ApproxDP(0, 0.999).delta == Fraction(999, 1000)
    assert PoissonSampled(LEAF, 1).rate == 1
    assert SampledWithoutReplacement(LEAF, 5, 5).batch_size == 5
    for value in (1, 1.5, sympy.sqrt(2), 1 + x):
        with pytest.raises(InvalidParameter, match="below 1"):
            ApproxDP(1, value)
    for value in (1.0001, sympy.sqrt(2), 1 + x):
        with pytest.raises(InvalidParameter, match=r"rate in \(0, 1\]"):
            PoissonSampled(LEAF, value)
    for pair in ((11, 10), (K + 1, K)):
        with pytest.raises(InvalidParameter, match="at most the population"):
            SampledWithoutReplacement(LEAF, *pair)


@pytest.mark.parametrize(
    "times", [0.5, Fraction(1, 3), x, sympy.sqrt(2), K / 2, sympy.Symbol("i", integer=True) / 3]
)
def test_counts_are_whole(times: Any) -> None:
    with pytest.raises(InvalidParameter, match="whole number"):
        Repeat(LEAF, times)
    assert Repeat(LEAF, 0).times == 0
    assert Repeat(LEAF, T(k)).times == T(k)


@pytest.mark.parametrize(
    "build",
    [
        lambda: Gaussian("", 1),
        lambda: Laplace("", 1),
        lambda: NonPrivate(""),
        lambda: Gaussian(None, 1),
        lambda: Gaussian(5, 1),
        lambda: PureDP(1, label=5),
        lambda: ZCDP(1, source=None),
        lambda: NonPrivate(["reason"]),
        lambda: Compose(),
        lambda: Parallel(),
        lambda: Compose(LEAF, None),
        lambda: Compose([LEAF]),
        lambda: Repeat("a", 2),
        lambda: PoissonSampled(None, 0.5),
        lambda: Assuming(LEAF, "lipschitz"),
        lambda: Assuming(LEAF, None),
        lambda: Assuming(None, LIPSCHITZ),
        lambda: Assumption("", "statement", "declared"),
        lambda: Assumption("id", "", "declared"),
        lambda: Assumption("id", "statement", "hoped"),
        lambda: Assumption("id", 5, "declared"),
    ],
)
def test_empty_and_wrong_parts_are_refused(build: Any) -> None:
    with pytest.raises(InvalidParameter):
        build()


@pytest.mark.parametrize(
    ("child", "times", "index"),
    [
        (LEAF, 3, "k"),
        (LEAF, 3, np.array([1, 2])),
        (LEAF, 3, Fraction(1)),
        (LEAF, 3, x),
        (LEAF, 3, T(k)),
        (LEAF, 3, sympy.Symbol("k", integer=True)),
        (LEAF, 3, sympy.Symbol("k", integer=True, negative=True)),
        (LEAF, 3, sympy.Symbol("k", positive=True, even=True)),
        (LEAF, 3, sympy.Dummy("k", integer=True, positive=True)),
        (LEAF, k + 1, k),
        (Gaussian("a", sympy.Symbol("k", positive=True)), 3, k),
        (Repeat(Gaussian("a", k), 3, k), 4, k),
        (Compose(Laplace("b", 1), Repeat(Gaussian("a", k), 2, k)), 4, k),
    ],
)
def test_an_index_is_a_round_number_of_its_own(child: Node, times: Any, index: Any) -> None:
    """No other assumptions than integer and positive, no namesake, no second use inside."""
    with pytest.raises(InvalidParameter, match=r"Repeat\.(index|times) = "):
        Repeat(child, times, index)


def test_a_status_is_taken_by_name() -> None:
    assert Assumption("a", "b", "tested").status is Status.TESTED


# --- content -------------------------------------------------------------------------------------


@pytest.mark.parametrize("node", EVERY_TYPE, ids=lambda n: type(n).__name__)
def test_equality_is_by_content(node: Node) -> None:
    twin = from_table(json.loads(json.dumps(to_table(node))))
    assert twin == node
    assert twin is not node
    assert hash(twin) == hash(node)
    assert twin.digest == node.digest
    assert repr(twin) == repr(node)
    assert copy.deepcopy(node) == node
    assert pickle.loads(pickle.dumps(node)) == node  # noqa: S301
    assert all(other == node or other.digest != node.digest for other in EVERY_TYPE)
    assert node != node.digest


def test_digests_see_every_difference() -> None:
    nodes = [
        Gaussian("a", 1),
        Gaussian("b", 1),
        Laplace("a", 1),
        Gaussian("a", 2),
        Gaussian("a", x),
        Gaussian("a", sympy.Symbol("x", positive=True, integer=True)),
        Compose(LEAF, LEAF),
        Compose(LEAF),
        Parallel(LEAF, LEAF),
        Compose(Compose(LEAF), LEAF),
        Repeat(LEAF, 2),
        Repeat(LEAF, 2, k),
        Assuming(LEAF, LIPSCHITZ),
        Assuming(LEAF, dataclasses.replace(LIPSCHITZ, status=Status.ENFORCED)),
    ]
    assert len({node.digest for node in nodes}) == len(nodes)
    assert Gaussian("a", 0.1) == Gaussian("a", Fraction(1, 10)) == Gaussian("a", np.float32(0.1))
    assert Gaussian("a", sympy.Rational(1, 2)) == Gaussian("a", 0.5)


DIGESTS = """
import sympy
from dpaudit import Compose, Gaussian, Repeat, ZCDP
x, y, z = sympy.symbols("x y z", positive=True)
k = sympy.Symbol("k", positive=True, integer=True)
T = sympy.Function("T", positive=True)
node = Repeat(Compose(Gaussian("a", sympy.Max(x, y, z * x) + x * y + T(k)), ZCDP(0.1)), 3, k)
print(node.digest, Gaussian("a", 1).digest)
"""


@pytest.mark.quality
def test_digests_do_not_depend_on_the_process() -> None:
    """Hash seeds and the order of earlier work change nothing; the second is pinned for ever."""
    command = [sys.executable, "-c", DIGESTS]
    found = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        run = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        found.add(run.stdout.strip())
    assert len(found) == 1
    assert found.pop().split()[1] == LEAF.digest
    assert LEAF.digest == "9efcb1cf45af9bdc95adb63d2f71ce7cc365a7ffc6b9e7666716c36718e67af6"


@pytest.mark.parametrize("node", EVERY_TYPE, ids=lambda n: type(n).__name__)
def test_nodes_are_immutable(node: Node) -> None:
    name = next(iter(dataclasses.fields(node))).name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(node, name, 1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        delattr(node, name)


def test_a_built_in_type_cannot_be_shadowed() -> None:
    with pytest.raises(InvalidParameter, match="Gaussian exists already"):
        type("Gaussian", (Leaf,), {})
    assert Node.types["Gaussian"] is Gaussian


# --- reading -------------------------------------------------------------------------------------


def test_repr_is_one_readable_line_a_node() -> None:
    node = Repeat(Compose(Gaussian("a", 0.1), Laplace("b", x / 3)), K, k)
    assert repr(node) == (
        "Repeat(times=K, index=k)\n"
        "  Compose()\n"
        "    Gaussian('a', noise_multiplier=0.1)\n"
        "    Laplace('b', noise_multiplier=x/3)"
    )
    assert repr(Assuming(LEAF, LIPSCHITZ)).startswith("Assuming(assumption=lipschitz (declared))")
    assert repr(PureDP(1, source="A & B")) == "PureDP(epsilon=1, source='A & B')"


def test_html_is_escaped() -> None:
    shown = Compose(Gaussian("<script>alert('&')</script>", 1), LEAF)._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown
    assert shown.count("<li>") == shown.count("</li>") == 2


def test_paths_name_a_node() -> None:
    wanted = Laplace("difference", 1)
    node = Compose(LEAF, Repeat(Compose(LEAF, wanted), 2))
    assert find_path(node, wanted) == "Compose[1].Repeat.Compose[1].Laplace('difference')"
    assert find_path(node, node) == "Compose"
    assert find_path(node, Gaussian("elsewhere", 1)) == "Gaussian('elsewhere')"
    assert find_path(node, LEAF) == "Compose[0].Gaussian('a')"


def test_a_tree_of_2_to_the_300_leaves_is_instant() -> None:
    start = time.perf_counter()
    node: Node = LEAF
    for _ in range(300):
        node = Compose(node, node)
    last = Laplace("z", 1)
    node = Compose(node, last)
    assert len(list(postorder(node))) == 303
    assert len(repr(node).splitlines()) == 201
    assert repr(node).endswith("...")
    assert node._repr_html_().count("<li>") < 500
    assert find_path(node, last) == "Compose[1].Laplace('z')"
    assert from_table(to_table(node)) == node
    assert node.bind({x: 1}) == node
    assert time.perf_counter() - start < 2


def test_a_chain_of_3000_nodes_is_quick() -> None:
    start = time.process_time()
    node: Node = Gaussian("a", x)
    for _ in range(3000):
        node = Compose(node)
    assert from_table(to_table(node)) == node
    assert find_path(node.bind({x: 2}), LEAF) == "Gaussian('a')"
    assert "..." in repr(node)
    assert "..." in node._repr_html_()
    assert time.process_time() - start < 4
