"""Published and independently confirmed numbers of Gaussian mechanisms, to their printed digits."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
import sympy

from dpaudit.accountant.account import Account
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Compose, Repeat
from dpaudit.families.opaque import GDP, ZCDP
from dpaudit.measures.convert import gaussian_mu, to_approx
from dpaudit.measures.zcdp import CONCENTRATED
from dpaudit.nodes import Node
from dpaudit.scope import Scope

SCOPE = Scope("replace_one", "record", "central", "transcript")
DELTA = Fraction(1, 10**5)


def epsilon(node: Node, delta: Any = DELTA) -> float:
    return float(Account(node, SCOPE).approximate(delta).value[0])


def shown(text: str) -> Any:
    """A printed number, with half a unit of its last digit as the tolerance."""
    places = len(text.partition(".")[2])
    return pytest.approx(float(text), abs=0.5000001 * 10**-places)


# eps, alpha, rho, mu_tot, Mironov, CKS, exact, mu*, noise waste
TABLE_A = """
.5 48 .0052083 .102062 .49496 .38362 .34833 .142211 1.393
1 25 .02 .2 .97971 .79431 .72552 .268051 1.340
3 9 .1666667 .577350 2.93710 2.54122 2.34143 .719117 1.2455
5 6 .4166667 .912871 4.79710 4.25961 3.94002 1.121242 1.2283
10 4 1.25 1.581139 8.83714 8.07836 7.51128 2.000446 1.2652
"""


@pytest.mark.parametrize("row", TABLE_A.strip().splitlines())
def test_table_a(row: str) -> None:
    """rho = eps / (2 alpha): the optimal Mironov bound, CKS, the exact epsilon, the tight mu."""
    target, alpha, rho, mu, mironov, cks, exact, tight, waste = row.split()
    value = Fraction(target) / (2 * int(alpha))
    assert float(value) == shown(rho)
    root = sympy.sqrt(2 * sympy.Rational(value.numerator, value.denominator))
    assert float(root) == shown(mu)
    assert float(value + 2 * math.sqrt(value * math.log(10**5))) == shown(mironov)
    renyi = to_approx(CONCENTRATED.fold(ZCDP(value), SCOPE), DELTA).value[0]
    assert float(renyi) == shown(cks)
    assert epsilon(GDP(root)) == shown(exact)
    found = gaussian_mu(Fraction(target), DELTA)
    assert float(found) == shown(tight)
    assert float(found) / float(root) == shown(waste)
    assert epsilon(GDP(found)) <= float(target)


MULTIPLIERS = [
    (3, 2000, 0, "77.4597", "1"),
    (3, 334, 1666, "35.3907", "158.0823"),
    (3, 100, 1900, "19.3649", "168.8194"),
    (3, 34, 1966, "11.2916", "171.7265"),
    (3, 10, 1990, "6.1237", "172.7715"),
    (5, 2000, 0, "48.9898", "1"),
    (5, 100, 1900, "12.2474", "106.7708"),
    (5, 10, 1990, "3.8730", "109.2703"),
]


@pytest.mark.parametrize(("target", "restarts", "differences", "first", "second"), MULTIPLIERS)
def test_noise_multipliers_of_the_experiments(
    target: int, restarts: int, differences: int, first: str, second: str
) -> None:
    """Every row spends the same: 2.34143 for a claim of 3, 3.94002 for a claim of 5."""
    node = Compose(
        Repeat(Gaussian("gradient", Fraction(first)), restarts),
        Repeat(Gaussian("difference", Fraction(second)), differences),
    )
    assert epsilon(node) == pytest.approx({3: 2.34143, 5: 3.94002}[target], rel=2e-5)
    assert Account(node, SCOPE).approximate(DELTA).attained


# smallest client, clients, delta, N1, N2, sigma_1, sigma_2, mu, exact epsilon
SMALL = """
1000 1 1e-6 10 90 .04816638 .14449913 .185695 .77018
20 2 1e-5 4 16 .19364917 .77459667 .577350 2.34143
500 4 1e-5 1 36 .012 .10182338 .102062 .34833
1000 10 1e-5 8 42 .00109545 .00501996 .577350 2.34143
100 5 1e-5 10 0 .03224903 1 .392232 1.52156
"""


@pytest.mark.parametrize("row", SMALL.strip().splitlines())
def test_small_settings(row: str) -> None:
    """Noise sigma C of a mean over n P records moved by 2 C / (n P): multiplier sigma n P / 2."""
    size, clients, delta, restarts, differences, *rest = row.split()
    first, second, mu, exact = rest
    half = Fraction(int(size) * int(clients), 2)
    node = Compose(
        Repeat(Gaussian("gradient", Fraction(first) * half), int(restarts)),
        Repeat(Gaussian("difference", Fraction(second) * half), int(differences)),
    )
    found = float(sympy.N(Account(node, SCOPE).step("gdp").value))
    assert found == pytest.approx(float(mu), rel=1e-5)
    assert epsilon(node, Fraction(delta)) == pytest.approx(float(exact), rel=1e-5)


def test_clients_and_tuning() -> None:
    """Client level: record-level noise gives mu n_p; 50 and 1,000 tuning runs at rho = 1/6."""
    mu = sympy.sqrt(sympy.Rational(1, 3))
    assert float(sympy.N(1651 * mu)) == shown("953")  # sensitivity of a whole client
    assert epsilon(Repeat(GDP(mu), 50)) == shown("25.1")
    assert epsilon(Repeat(GDP(mu), 1000)) == shown("243.6")
    whole_client = Gaussian("gradient", Fraction(1, 1651) * Fraction("77.4597"))
    node = Repeat(whole_client, 2000)
    assert float(sympy.N(Account(node, SCOPE).step("gdp").value)) == pytest.approx(953.2, rel=1e-4)
