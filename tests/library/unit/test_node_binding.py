"""Binding symbols of declarations."""

from __future__ import annotations

import math
from typing import Any

import pytest
import sympy

from dpaudit.errors import InvalidParameter
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Compose, Repeat

x, y = sympy.symbols("x y", positive=True)


k, K = sympy.symbols("k K", positive=True, integer=True)


T = sympy.Function("T", positive=True, integer=True)


# --- binding -------------------------------------------------------------------------------------


def test_bind_replaces_at_once_and_validates() -> None:
    node = Compose(Gaussian("a", x), Repeat(Gaussian("b", x + y), K))
    assert node.bind({x: 0.5, K: 3}) == Compose(
        Gaussian("a", 0.5), Repeat(Gaussian("b", y + sympy.Rational(1, 2)), 3)
    )
    assert node.bind({x: y, y: x}) == Compose(Gaussian("a", y), Repeat(Gaussian("b", x + y), K))
    assert node.bind({}) == node
    for values in ({x: 0}, {x: -1}, {K: 0.5}, {K: -1}, {x: math.nan}, {x: "one"}):
        with pytest.raises(InvalidParameter):
            node.bind(values)


def test_bind_takes_functions_of_the_round() -> None:
    schedule = Repeat(Gaussian("a", x * T(k)), K, k)
    assert schedule.bind({T(k): k + 1, x: 2}) == Repeat(Gaussian("a", 2 * k + 2), K, k)
    assert schedule.bind({T(k): 5}) == Repeat(Gaussian("a", 5 * x), K, k)
    assert schedule.child.bind({k: 2}) == Gaussian("a", x * T(2))


@pytest.mark.parametrize("values", [{k: 2}, {x: k}, {x: k + 1}, {T(k): 3, k: 2}])
def test_bind_never_captures_an_index(values: dict[Any, Any]) -> None:
    node = Compose(Gaussian("free", k), Repeat(Gaussian("a", x * T(k)), 3, k))
    with pytest.raises(InvalidParameter, match="index of a Repeat"):
        node.bind(values)


@pytest.mark.parametrize("key", ["x", "__import__('os').getcwd()", 1, x + 1, 2 * x, None])
def test_keys_are_symbols_and_never_text(key: Any) -> None:
    with pytest.raises(InvalidParameter, match="expected symbols as keys"):
        Gaussian("a", x).bind({key: 1})
