"""Every measure of a release beside every one of a ledger: charged soundly, or refused in words.

What is charged is compared with formulas of mpmath that share nothing with the accountant: each
cell is at least the least loss that such a release may have in the account's measure, and at most
a stated factor above what the literature proves.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import pytest
import sympy

from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.opaque import (
    GDP,
    ZCDP,
    ApproxDP,
    NonPrivate,
    ProfilePoints,
    PureDP,
    RenyiCurve,
    RenyiDP,
)
from dpaudit.families.tabular import ThresholdedDiscreteLaplace
from dpaudit.ledger import Terms, terms_of
from tests.support.ledger import SCOPE

mpmath.mp.dps = 40
ALPHA = sympy.Symbol("alpha", positive=True)
DELTA = Fraction(1, 10**6)
ORDERS = (2, 4, 16)
EPSILON, RHO, MU = Fraction(1, 2), Fraction(1, 10), Fraction(1, 3)
PROMISED = ApproxDP(3, Fraction(1, 10**5))

RELEASES: dict[str, Any] = {
    "pure": PureDP(EPSILON),
    "approx": ApproxDP(EPSILON, DELTA / 10),
    "zcdp": ZCDP(RHO),
    "gdp": GDP(MU),
    "rdp at one order": RenyiDP(8, EPSILON),
    "rdp": RenyiCurve(RHO * ALPHA),
    "profile": ProfilePoints(((EPSILON, DELTA / 10), (Fraction(1), DELTA / 1000))),
    "Gaussian noise": Gaussian("noise", 1 / MU),
    "Laplace noise": Laplace("noise", 1 / EPSILON),
    "unknown keys": ThresholdedDiscreteLaplace("keys", 2, 40, 1, 1, 1),
    "no noise": NonPrivate("a count"),
}
ACCOUNTS: dict[str, Terms] = {
    "pure": terms_of("person", SCOPE, PureDP(9)),
    "basic": terms_of("person", SCOPE, PROMISED),
    "advanced": terms_of("person", SCOPE, PROMISED, method="advanced"),
    "zcdp for approx": terms_of("person", SCOPE, PROMISED, method="zcdp"),
    "rdp for approx": terms_of("person", SCOPE, PROMISED, method="rdp"),
    "gdp for approx": terms_of("person", SCOPE, PROMISED, method="gdp"),
    "zcdp": terms_of("person", SCOPE, ZCDP(2)),
    "gdp": terms_of("person", SCOPE, GDP(2)),
    "renyi": terms_of("person", SCOPE, None, renyi=dict.fromkeys(ORDERS, 50)),
}
CELLS = list(itertools.product(RELEASES, ACCOUNTS))


# --- formulas -------------------------------------------------------------------------------------


def real(value: Fraction | int) -> Any:
    return mpmath.mpf(Fraction(value).numerator) / Fraction(value).denominator


def phi(x: Any) -> Any:
    return mpmath.ncdf(x)


def gaussian_delta(epsilon: Any, mu: Any) -> Any:
    """Balle and Wang 2018, Theorem 8."""
    return phi(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * phi(-mu / 2 - epsilon / mu)


def laplace_delta(epsilon: Any, shift: Any) -> Any:
    """Of Laplace noise whose shift is ``shift`` scales: 1 - exp((epsilon - shift) / 2)."""
    return max(mpmath.mpf(0), 1 - mpmath.exp((epsilon - shift) / 2))


def response_delta(epsilon: Any, own: Any) -> Any:
    """Of randomised response, the worst that is ``own``-DP."""
    gap = mpmath.exp(own) - mpmath.exp(epsilon)
    return max(mpmath.mpf(0), gap / (1 + mpmath.exp(own)))


def least(delta_at: Callable[[Any], Any], at: Fraction) -> Any:
    """The smallest epsilon of a falling profile, by bisection."""
    low, high = mpmath.mpf(0), mpmath.mpf(50)
    for _ in range(120):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_at(middle) > real(at) else (low, middle)
    return low


def renyi_response(order: Any, own: Any) -> Any:
    """The divergence of randomised response, which no own-DP mechanism exceeds."""
    a, p = real(order), mpmath.exp(real(own)) / (1 + mpmath.exp(real(own)))
    return mpmath.log(p**a * (1 - p) ** (1 - a) + (1 - p) ** a * p ** (1 - a)) / (a - 1)


def renyi_laplace(order: Any, shift: Any) -> Any:
    """Mironov 2017, Table II."""
    a, s = real(order), real(shift)
    up = a / (2 * a - 1) * mpmath.exp((a - 1) * s)
    return mpmath.log(up + (a - 1) / (2 * a - 1) * mpmath.exp(-a * s)) / (a - 1)


def renyi_epsilon(divergence: Callable[[Any], Any]) -> Any:
    """Canonne, Kamath and Steinke 2020, Proposition 12, at the best of many orders."""

    def at(order: Any) -> Any:
        logs = (mpmath.log(real(DELTA)) + mpmath.log(order)) / (order - 1)
        return divergence(order) + mpmath.log(1 - 1 / order) - logs

    return min(at(1 + mpmath.mpf(k) / 50) for k in range(1, 3000))


def least_mu(epsilon: Fraction) -> Any:
    """Dong, Roth and Su 2022: G_mu passes below the corner of epsilon-DP."""
    return -2 * mpmath.sqrt(2) * mpmath.erfinv(2 / (1 + mpmath.exp(real(epsilon))) - 1)


def orders(account: str) -> list[Fraction]:
    return list(ACCOUNTS[account].orders)


def approximate(epsilon: Any, power: int = 1) -> Callable[[str], list[Any]]:
    return lambda account: [epsilon**power, real(DELTA)]


def at_orders(divergence: Callable[[Any], Any]) -> Callable[[str], list[Any]]:
    return lambda account: [divergence(order) for order in orders(account)]


def number(value: Any) -> Callable[[str], list[Any]]:
    return lambda account: [value]


EPSILONS = {  # of each release, at DELTA
    "pure": least(lambda e: response_delta(e, real(EPSILON)), DELTA),
    # Randomised response of epsilon, which tells all with probability delta / 10.
    "approx": least(
        lambda e: real(DELTA / 10) + (1 - real(DELTA / 10)) * response_delta(e, real(EPSILON)),
        DELTA,
    ),
    "gdp": least(lambda e: gaussian_delta(e, real(MU)), DELTA),
    "Gaussian noise": least(lambda e: gaussian_delta(e, real(MU)), DELTA),
    "Laplace noise": least(lambda e: laplace_delta(e, real(EPSILON)), DELTA),
}
CURVE = renyi_epsilon(lambda order: real(RHO) * order)

# What is charged, where a formula is known to be attained: equal, rounded up.
TIGHT: dict[tuple[str, str], Callable[[str], list[Any]]] = {
    ("pure", "pure"): number(real(EPSILON)),
    ("Laplace noise", "pure"): number(real(EPSILON)),
    **{(name, "basic"): approximate(value) for name, value in EPSILONS.items()},
    **{(name, "advanced"): approximate(value, 2) for name, value in EPSILONS.items()},
}
for _account in ("zcdp", "zcdp for approx"):
    TIGHT[("zcdp", _account)] = number(real(RHO))
    for _release in ("gdp", "Gaussian noise"):
        TIGHT[(_release, _account)] = number(real(MU) ** 2 / 2)
    for _release in ("pure", "Laplace noise"):
        # Bun and Steinke 2016, Proposition 1.4, beside the least rho of the mechanism.
        TIGHT[(_release, _account)] = number(real(EPSILON) ** 2 / 2)
for _account in ("renyi", "rdp for approx"):
    for _release in ("zcdp", "rdp"):
        TIGHT[(_release, _account)] = at_orders(lambda a: real(RHO) * real(a))
    for _release in ("gdp", "Gaussian noise"):
        TIGHT[(_release, _account)] = at_orders(lambda a: real(a) * real(MU) ** 2 / 2)
    TIGHT[("Laplace noise", _account)] = at_orders(lambda a: renyi_laplace(a, EPSILON))
for _account in ("gdp", "gdp for approx"):
    for _release in ("gdp", "Gaussian noise"):
        TIGHT[(_release, _account)] = number(real(MU) ** 2)
    for _release in ("pure", "Laplace noise"):
        TIGHT[(_release, _account)] = number(least_mu(EPSILON) ** 2)

# What is charged, where the charge is a sound bound: the truth, and what the charge is at most.
SOUND: dict[tuple[str, str], tuple[Callable[[str], list[Any]], Any]] = {
    **{
        # By rho = epsilon^2 / 2, which is far above the truth at large orders.
        ("pure", account): (at_orders(lambda a: renyi_response(a, EPSILON)), 2.1)
        for account in ("renyi", "rdp for approx")
    },
    **{
        (release, account): (approximate(least_, power), most)
        for account, power in (("basic", 1), ("advanced", 2))
        for release, least_, most in (
            # A Gaussian of this rho is such a release.
            *(
                (name, least(lambda e: gaussian_delta(e, mpmath.sqrt(2 * real(RHO))), DELTA), 1.2)
                for name in ("zcdp", "rdp")
            ),
            ("profile", mpmath.mpf(0.49), 1.1),
            ("rdp at one order", mpmath.mpf(0.5), 20),
            ("unknown keys", least(lambda e: laplace_delta(e, real(EPSILON)), DELTA) * 0.9, 1.3),
        )
    },
}

# What cannot be charged, and what the refusal names as the way out.
NO_WAY = ("no account can: give it noise",)
SUMS = "an account that is opened with"
REFUSED: dict[tuple[str, str], tuple[str, ...]] = {
    **{("no noise", account): NO_WAY for account in ("basic", "advanced")},
    **{("no noise", account): () for account in ACCOUNTS if account not in ("basic", "advanced")},
    **{
        (release, account): (SUMS, "epsilon= with delta=")
        for release in ("approx", "profile", "rdp at one order", "unknown keys")
        for account in ACCOUNTS
        if account not in ("basic", "advanced")
    },
    **{
        (release, "pure"): (SUMS, way, "epsilon= with delta=")
        for release, way in (("zcdp", "rho="), ("gdp", "mu="), ("rdp", "renyi="))
    },
    ("Gaussian noise", "pure"): (SUMS, "rho=", "mu=", "renyi=", "epsilon= with delta="),
    **{
        (release, account): (SUMS, way, "epsilon= with delta=")
        for account in ("gdp", "gdp for approx")
        for release, way in (("zcdp", "rho="), ("rdp", "renyi="))
    },
    **{
        ("rdp", account): (SUMS, "renyi=", "epsilon= with delta=")
        for account in ("zcdp", "zcdp for approx")
    },
}


def asked(release: str, account: str) -> Any:
    terms = ACCOUNTS[account]
    return terms.cost(RELEASES[release], DELTA if terms.adds_deltas else None)


def test_every_pair_is_in_one_of_the_tables() -> None:
    told = [*TIGHT, *SOUND, *REFUSED]
    assert sorted(told) == sorted(CELLS)


@pytest.mark.parametrize(("release", "account"), sorted(TIGHT))
def test_what_is_charged_is_the_formulas_value(release: str, account: str) -> None:
    charged, wanted = asked(release, account), TIGHT[release, account](account)
    assert len(charged) == len(wanted)
    for value, exact in zip(charged, wanted, strict=True):
        assert real(value) >= exact * (1 - mpmath.mpf(10) ** -30), "below the truth"
        assert real(value) <= exact * (1 + mpmath.mpf(10) ** -4)


@pytest.mark.parametrize(("release", "account"), sorted(SOUND))
def test_what_is_charged_is_not_below_what_such_a_release_loses(release: str, account: str) -> None:
    (truth, most), charged = SOUND[release, account], asked(release, account)
    for value, exact in zip(charged, truth(account), strict=True):
        assert exact <= real(value) <= most**2 * exact


@pytest.mark.parametrize(("release", "account"), sorted(REFUSED))
def test_what_is_not_charged_is_refused_with_what_to_do(release: str, account: str) -> None:
    with pytest.raises(Unsupported, match="cannot charge it") as refused:
        asked(release, account)
    for words in REFUSED[release, account]:
        assert words in str(refused.value)


@pytest.mark.parametrize("release", [name for name in RELEASES if name != "no noise"])
def test_the_way_out_is_one(release: str) -> None:
    """Every account that a refusal names takes the release."""
    opened = {
        "epsilon= alone": "pure",
        "rho=": "zcdp",
        "mu=": "gdp",
        "renyi=": "renyi",
        "epsilon= with delta=": "basic",
    }
    for account in ACCOUNTS:
        try:
            asked(release, account)
        except Unsupported as error:
            named = [way for way in opened if way in str(error).rpartition("; ")[0]]
            assert named
            for way in named:
                assert asked(release, opened[way])


@pytest.mark.parametrize("account", ["basic", "advanced"])
@pytest.mark.parametrize("release", ["zcdp", "gdp", "rdp", "approx", "Gaussian noise"])
def test_where_deltas_add_up_a_delta_is_asked_for(release: str, account: str) -> None:
    with pytest.raises(Unsupported, match="charge it at a delta: give a plan's budget as epsilon"):
        ACCOUNTS[account].cost(RELEASES[release])


@pytest.mark.parametrize("account", [a for a, terms in ACCOUNTS.items() if not terms.adds_deltas])
def test_a_delta_that_nothing_would_add_is_refused(account: str) -> None:
    with pytest.raises(InvalidParameter, match="and no delta; leave it out"):
        ACCOUNTS[account].cost(RELEASES["pure"], DELTA)


def test_a_charge_a_tenth_too_small_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison with the formulas is one that fails."""
    cost = Terms.cost
    monkeypatch.setattr(
        Terms, "cost", lambda *given: [value * Fraction(9, 10) for value in cost(*given)]
    )
    for cell in TIGHT:
        with pytest.raises(AssertionError, match="below the truth"):
            test_what_is_charged_is_the_formulas_value(*cell)
