"""The other algorithms of the Accelerated-DP-SRGD paper: its ablations and baselines."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import sympy

from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Parallel
from dpaudit.families.correlated import CorrelatedGaussian
from dpaudit.families.opaque import GDP, ApproxDP
from tests.support.claims import agrees, epsilon, number, outcome, value

eps, L, B, beta, sigma = sympy.symbols("epsilon L B beta sigma", positive=True)
DELTA = sympy.exp(-L)
SMALLER = Fraction(999_999, 1_000_000)
ZERO_OUT = "zero_out"


def test_fresh_noise_on_disjoint_batches_needs_no_tree() -> None:
    """AcceleratedDPSGD: sigma_t = eta_t C_g / (B beta mu); the largest of the batches, no sum."""
    target = sympy.Symbol("mu", positive=True)
    steps = [Gaussian(f"step {t}", 1 / target) for t in range(3)]
    assert outcome(GDP(target), Parallel(*steps), ZERO_OUT) == "proved"
    assert outcome(GDP(target * SMALLER), Parallel(*steps), ZERO_OUT) == "refuted"
    c, weights = sympy.Symbol("C_g", positive=True), sympy.symbols("s0:3", positive=True)
    uneven = [Gaussian(f"step {t}", s * B * beta / ((t + 1) * c)) for t, s in enumerate(weights)]
    largest = sympy.Max(*((t + 1) * c / (B * beta * s) for t, s in enumerate(weights)))
    assert outcome(GDP(largest), Parallel(*uneven), ZERO_OUT) == "proved"


@pytest.mark.parametrize(
    ("adjacency", "moves", "exact"), [("replace_one", 2, "0.545"), ("zero_out", 1, "0.260")]
)
def test_phased_sgd(adjacency: str, moves: int, exact: str) -> None:
    """sigma_i = 4 L h_i sqrt(log(1/delta)) / eps, moves of L h_i: mu = moves eps / (4 sqrt(L))."""
    steps = sympy.symbols("h1:4", positive=True)
    phases = [
        Gaussian(f"phase {i}", 4 * h * sympy.sqrt(L) / eps / (moves * h))
        for i, h in enumerate(steps)
    ]
    expected = moves * eps / (4 * sympy.sqrt(L))
    assert outcome(GDP(expected), Parallel(*phases), adjacency) == "proved"
    node = Gaussian("phase", 4 * sympy.sqrt(sympy.log(10**6)) / moves)
    assert agrees(epsilon(node, "1e-6", adjacency), exact)
    usual = {eps: (Fraction(1, 10), 9), L: (5, 40)}
    assert outcome(ApproxDP(eps, DELTA), Parallel(*phases), adjacency, usual) == "proved"


def test_phased_erm_pays_for_its_solver() -> None:
    """A solver within alpha moves the release by L/(lambda n) + 2 alpha (replace-one: 2 L)."""
    a, lam, n = sympy.symbols("alpha_i lambda_i n_i", positive=True)
    exactly = Gaussian("phase", sigma / (2 * B / (lam * n)))
    nearly = Gaussian("phase", sigma / (2 * B / (lam * n) + 2 * a))
    claim = GDP(2 * B / (lam * n * sigma))
    assert outcome(claim, exactly) == "proved"
    assert outcome(claim, nearly) == "refuted"


def test_the_mean_of_matrix_factorisations() -> None:
    """DP-FTRL: mu = L sens(C) / (B sigma), every strategy in the inventory."""
    multiplier = sigma * B / L
    square = sum(
        np.prod([(2 * j - 1) / (2 * j) for j in range(1, lag + 1)]) ** 2 for lag in range(16)
    )
    expected = {"tree": 5**0.5, "tree_honaker": 5**0.5, "smooth_binary": 3**0.5, "identity": 1,
                "independent_prefix": 4, "sqrt_toeplitz": square**0.5}  # fmt: skip
    for name, norm in expected.items():
        node = CorrelatedGaussian("gradient", multiplier, 16, name)
        derived = value(node, "gdp", ZERO_OUT) * multiplier
        assert number(sympy.simplify(derived)) == pytest.approx(norm, rel=1e-12)
