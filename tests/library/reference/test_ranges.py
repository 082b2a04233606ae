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
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.opaque import GDP, ApproxDP, PureDP
from dpaudit.nodes import Node
from tests.support.claims import account, check

F = Fraction
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


def test_paper_1s_test_costs_a_tenth_for_every_number_of_groups() -> None:
    """Theorem 2.1: threshold noise 20 / epsilon on a score that moves by 2 (C - 1) / C.

    Every n, m and delta at once: they decide C = 2, 3, ... alone; .099 is refuted by some C.
    """
    more = sympy.Symbol("C_less_1", positive=True, integer=True)
    groups = more + 1
    score = Laplace("score", 20 / eps * groups / (2 * more))
    assert check(PureDP(eps / 10), score, by="Theorem 2.1").outcome == "proved"
    ranges: dict[Any, Any] = {eps: ("0.01", "10"), more: (1, 10**6)}
    short = check(PureDP(eps * F(99, 1000)), score, ranges=ranges, by="a hundredth less")
    assert short.outcome == "refuted"
    few: dict[Any, Any] = {eps: ("0.01", "10"), more: (1, 98)}
    assert check(PureDP(eps * F(99, 1000)), score, ranges=few, by="C to 99").outcome == "proved"


@pytest.mark.quality
def test_shares_under_secure_aggregation_hold_for_every_number_of_clients() -> None:
    """Paper 4, Section 2.1: P shares of variance P sigma^2 C^2, t told: sigma^2 (P - t) / P.

    With t at most P / 5 the run is sqrt(5 / 4) times the mu of all, for every P, n and sigma; with
    a sixth more of mu^2 it would not be: P = 5, t = 1 refutes it.
    """
    told, others = sympy.symbols("t others", positive=True, integer=True)
    clients = 5 * told + others - 1
    mu = sympy.Symbol("mu", positive=True)
    left = Gaussian("sum", sympy.sqrt((clients - told) / clients) / mu)
    ranges: dict[Any, Any] = {told: (1, 1000), others: (1, 1000), mu: ("0.001", "10")}
    claim = GDP(mu * sympy.sqrt(sympy.Rational(5, 4)))
    assert check(claim, left, ranges=ranges, by="all P").outcome == "proved"
    less = GDP(mu * sympy.sqrt(sympy.Rational(7, 6)))
    assert check(less, left, ranges=ranges, by="too little").outcome == "refuted"


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.long_cases(
    "paper 2, Theorem 3.3's vector, every kappa, epsilon <= 1",
    "paper 3, the classical calibration up to 8.4",
)
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
