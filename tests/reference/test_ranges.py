"""What section 4 of the papers' notes states over a range of (epsilon, delta): all of it at once.

Claims of papers 3 (T up to 2^60), 4 (every u, T, R, n, epsilon, delta) and 5 (every schedule) that
hold over ranges are beside their papers' other claims; here are those that end somewhere.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
import sympy

from dpaudit.exact import enclose
from dpaudit.families.additive import Gaussian
from dpaudit.families.opaque import ApproxDP
from dpaudit.nodes import Node
from tests.claims_for_tests import account, check

eps = sympy.Symbol("epsilon", positive=True)
loss = sympy.Symbol("L", positive=True)  # log(1 / delta)
kappa = sympy.Symbol("kappa", positive=True, integer=True)
LOG_2, LOG_5_2 = sympy.log(2), sympy.log(sympy.Rational(5, 2))


def textbook(constant: Any) -> Node:
    """sigma = Delta sqrt(2 log(constant / delta)) / epsilon."""
    return Gaussian("a", sympy.sqrt(2 * (constant + loss)) / eps)


def stable(scale: Any) -> Node:
    """Paper 2's vector: moves of (4 kappa + 2) Delta under noise for 8 kappa Delta."""
    return Gaussian("vector", scale * 8 * kappa / (4 * kappa + 2))


# 4.6 < log(1 / delta) for delta = 1e-2, 27.64 > log(1 / delta) for 1e-12.
ROWS = {
    "paper 1, Lemma A.5, up to 7.8": (
        textbook(LOG_2), ApproxDP(eps, sympy.exp(-loss)), ("0.1", "7.8"), ("4.6", "27.64"), "proved"
    ),
    "paper 1, Lemma A.5, for all epsilon": (
        textbook(LOG_2), ApproxDP(eps, sympy.exp(-loss)), ("0.1", "20"), ("4.6", "27.64"), "refuted"
    ),
    "paper 2, Theorem 3.3's vector, every kappa, epsilon <= 1": (
        stable(sympy.sqrt(2 * (LOG_2 + loss)) / eps),
        ApproxDP(eps, sympy.exp(-loss)), ("0.025", "0.5"), ("2", "27.64"), "proved"
    ),
    "paper 3, the classical calibration up to 8.4": (
        textbook(LOG_5_2), ApproxDP(eps, sympy.exp(-loss) / 2), ("0.1", "8.4"),
        ("11.5", "20.8"), "proved"
    ),
    "paper 3, the classical calibration, for all epsilon": (
        textbook(LOG_5_2), ApproxDP(eps, sympy.exp(-loss) / 2), ("0.1", "20"),
        ("11.5", "20.8"), "refuted"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_a_claim_over_a_range(name: str) -> None:
    node, claim, epsilons, losses, expected = ROWS[name]
    ranges: dict[Any, Any] = {eps: epsilons, loss: losses}
    if kappa in node.parameters["noise_multiplier"].free_symbols:
        ranges[kappa] = (1, 10**4)
    found = check(claim, node, ranges=ranges, by=name)
    assert found.outcome == expected, found.reason
    if expected == "refuted":
        at = {s: Fraction(found.values[str(s)]) for s in (eps, loss)}
        assert all(Fraction(a) <= at[s] <= Fraction(b) for s, (a, b) in ranges.items())
        claimed = enclose(claim.parameters["delta"].subs(loss, sympy.sympify(at[loss])))
        assert account(node.bind(at)).delta(at[eps]).lower > float(claimed.mid())
