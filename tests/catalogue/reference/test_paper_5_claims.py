"""Private ERM under the Kurdyka-Lojasiewicz condition: its theorems, checked from declarations.

One record of n; replace_one unless said otherwise (moves of 2 L0 / n), zero_out at half of them.
KL-Spider's schedule in symbols is in test_kl_spider.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import Any

import pytest
import sympy

from dpaudit.families.adaptive import Filter, Select
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Compose, Repeat
from dpaudit.families.opaque import GDP, ZCDP, ApproxDP, PureDP
from dpaudit.families.selection import ExponentialMechanism
from dpaudit.nodes import Node
from dpaudit.scope import central
from mechanisms.papers.kl.symbols import (
    SpiderSymbols,
    every_difference,
    influential_differences,
    printed_spider,
)
from tests.support.claims import account, agrees, check, epsilon, number, outcome, value

rho, L0, n, L, t = sympy.symbols("rho L0 n L t", positive=True)
K, T, k = sympy.symbols("K T k", positive=True, integer=True)
SMALLER = Fraction(999_999, 1_000_000)


# --- KL-Spider: every released difference is charged ---------------------------------------------


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("adjacency", "proofs_count", "printed_count"),
    [("replace_one", Fraction(17, 8), Fraction(9, 4)),
     ("zero_out", Fraction(17, 32), Fraction(9, 16))],
)  # fmt: skip
def test_floor_of_t_plus_one_differences(
    adjacency: str, proofs_count: Fraction, printed_count: Fraction
) -> None:
    """The printed loop draws floor(T_k) + 1: between 17 rho/8 and 9 rho/4, for real T_k >= 1."""
    symbols, scope = SpiderSymbols.with_real_lengths(), central(adjacency)
    node = printed_spider(scope, symbols, every_difference(symbols))
    assert outcome(ZCDP(printed_count * rho), node, adjacency) == "proved"
    assert outcome(ZCDP(proofs_count * rho), node, adjacency) == "refuted"
    verdict = "refuted" if adjacency == "replace_one" else "proved"
    assert outcome(ZCDP(rho), node, adjacency, by="Theorem 1") == verdict
    assert outcome(ZCDP(2 * rho), node, adjacency, by="Lemma 8") == verdict
    floors = printed_spider(scope, symbols, influential_differences(symbols))
    reading = "the iterates: the last difference of a full phase influences none"
    assert outcome(ZCDP(proofs_count * rho), floors, adjacency, reading=reading) == "proved"


def test_the_anchors_alone_refute_theorem_1() -> None:
    """All K anchors are queried: exactly 2 rho."""
    anchors = Repeat(Gaussian("anchor", sympy.sqrt(K / rho) / 2), K)
    assert outcome(ZCDP(2 * rho), anchors) == "proved"
    assert outcome(ZCDP(2 * rho * SMALLER), anchors) == "refuted"
    assert outcome(ZCDP(rho), anchors, by="Theorem 1") == "refuted"


def test_corrected_shares() -> None:
    """Shares rho_a + rho_d = rho: exactly rho, for every schedule m(k)."""
    share = sympy.Rational(4, 5)
    steps = sympy.Function("m", positive=True, integer=True)(k)
    anchor = sympy.sqrt(2 * K / (share * rho)) / 2
    difference = 2 * sympy.sqrt(steps * K / (8 * (1 - share) * rho))
    body = Compose(Gaussian("anchor", anchor), Repeat(Gaussian("difference", difference), steps))
    node = Repeat(body, K, k)
    assert outcome(ZCDP(rho), node) == "proved"
    assert outcome(ZCDP(rho * SMALLER), node) == "refuted"
    assert outcome(GDP(sympy.sqrt(2 * rho)), node) == "proved"


def schedule(setting: tuple[Any, ...]) -> tuple[int, list[float]]:
    """K and every T_k of a published setting (n, d, rho, kappa, gamma, L0, L1, F0)."""
    size, d, budget, kappa, gamma, lipschitz, smooth, start = setting
    a = start ** ((2 - kappa) / kappa) / (64 * gamma**2 * smooth)
    low = (gamma * lipschitz * math.sqrt(d) / (size * math.sqrt(budget))) ** kappa
    rounds = math.ceil((1 + 1 / a) * math.log(start / low))
    scaled = gamma * lipschitz * math.sqrt(rounds * d) / (size * math.sqrt(budget))
    beta = 0.05 / rounds * (scaled / start ** (1 / kappa)) ** (2 - kappa)
    floor = (32 * scaled * math.sqrt(math.log(1 / beta))) ** kappa
    level, found = start, []
    for _ in range(rounds):
        level = max(level / (1 + a), min(floor, start))
        found.append((start / level) ** ((2 - kappa) / kappa))
    return rounds, found


SETTINGS = [
    ((10**6, 10, 1, 2, 2**-0.5, 1, 1, 0.5), 836, 1672, "2.25", "2.125", "10.7520"),
    ((10**6, 10, 0.1, 2, 1, 1, 1, 1), 1497, 2994, "2.25", "2.125", "2.7728"),
    ((10**6, 10, 1, 1.5, 1, 1, 1, 1), 1235, 9066, "2.13927", "2.1123", "10.4213"),
    ((10**6, 10, 1, 1, 1, 1, 1, 1), 824, 48045, "2.13060", "2.1200", "10.3951"),
]


@pytest.mark.parametrize(
    ("setting", "rounds", "updates", "released", "iterates", "printed"), SETTINGS
)
def test_published_settings(
    setting: Any, rounds: int, updates: int, released: str, iterates: str, printed: str
) -> None:
    """Totals as multiples of rho, from the counts of each phase, and the exact epsilon."""
    budget = Fraction(str(setting[2]))
    number_of_rounds, lengths = schedule(setting)
    assert number_of_rounds == rounds
    assert sum(math.floor(length) + 1 for length in lengths) == updates

    def phases(extra: int) -> Node:
        anchor = Gaussian("anchor", math.sqrt(rounds / budget) / 2)
        parts = [
            Repeat(
                Gaussian("difference", 2 * math.sqrt(length * rounds / budget)),
                times * (math.floor(length) + extra),
            )
            for length, times in Counter(lengths).items()
        ]
        return Compose(Repeat(anchor, rounds), *parts)

    total = number(value(phases(1), "zcdp")) / float(budget)
    assert agrees(total, released)
    assert agrees(number(value(phases(0), "zcdp")) / float(budget), iterates)
    # Gaussian releases compose to one whose mu is sqrt(2 rho).
    assert agrees(epsilon(Gaussian("all", 1 / math.sqrt(2 * total * budget)), "1e-5"), printed)
    assert outcome(ZCDP(budget), phases(1), by="Theorem 1") == "refuted"


def test_the_witness_against_the_output_alone() -> None:
    """P(w = w0 + step) = 1.624e-4 against 1.106e-8: no rho = 1 mechanism does that."""
    step, other = 1.624e-4, 1.106e-8
    renyi = math.log(step**3 / other**2) / 2
    assert renyi / 3 >= 1.74
    assert step - math.exp(7.0772) * other >= 1.49e-4
    assert agrees(float(account(ZCDP(1)).converted("zcdp", 1e-5).value[0]), "7.0772")


# --- the proximal point method and regularised noisy GD ------------------------------------------


def noisy_gd(budget: Any, steps: Any, variance_over: Any) -> Node:
    """Steps of sensitivity 2 L0 / n; sigma^2 = ``variance_over`` L0^2 steps / (n^2 rho)."""
    deviation = sympy.sqrt(variance_over * L0**2 * steps / (n**2 * budget))
    return Repeat(Gaussian("gradient", deviation * n / (2 * L0)), T - 1)


def test_regularised_noisy_gd_is_half_as_loud_as_it_could_be() -> None:
    """rho (T-1) / (2 T) exactly; the corrected variance gives rho."""
    node = noisy_gd(rho, T, 4)
    exact = rho * (T - 1) / (2 * T)
    for claimed in (rho, rho / 2, exact):
        assert outcome(ZCDP(claimed), node) == "proved"
    assert outcome(ZCDP(exact * SMALLER), node) == "refuted"
    assert outcome(ZCDP(rho), noisy_gd(rho, T - 1, 2)) == "proved"
    assert outcome(ZCDP(rho * SMALLER), noisy_gd(rho, T - 1, 2)) == "refuted"
    assert outcome(ZCDP(rho / 8), node, "zero_out") == "refuted"


def test_the_proximal_point_method_splits_its_budget() -> None:
    calls = sympy.Symbol("calls", positive=True, integer=True)
    assert outcome(ZCDP(rho), Repeat(ZCDP(rho / calls), calls)) == "proved"
    node = Repeat(noisy_gd(rho / calls, T, 4), calls)
    assert outcome(ZCDP(rho), node, by="Theorem 2") == "proved"
    assert outcome(ZCDP(rho * (T - 1) / (2 * T)), node) == "proved"
    assert outcome(ZCDP(rho * (T - 1) / (2 * T) * SMALLER), node) == "refuted"


@pytest.mark.parametrize(
    ("size", "d", "budget", "beta", "lipschitz", "steps", "sigma", "true", "fixed"),
    [(300, 10, 1, "0.05", 1, 122471, "2.333057", "0.499996", "1.649714"),
     (1000, 10, 0.5, "0.01", 1, 1403609, "3.350951", "0.250000", "2.369479"),
     (1000, 50, 0.1, "0.05", 2, 27216, "2.086758", "0.049998", "1.475534")],
)  # fmt: skip
def test_published_runs_of_regularised_noisy_gd(
    size: int, d: int, budget: float, beta: str, lipschitz: int, steps: int, sigma: str,
    true: str, fixed: str,
) -> None:  # fmt: skip
    assert math.ceil(size**2 * budget * math.log(2 / float(beta)) ** 2 / d) == steps
    values = {rho: Fraction(str(budget)), T: steps, n: size, L0: lipschitz}
    node = noisy_gd(rho, T, 4).bind(values)
    assert agrees(number(value(node, "zcdp")), true)
    scale = 2 * lipschitz / size
    assert agrees(number(node.children[0].parameters["noise_multiplier"]) * scale, sigma)
    better = noisy_gd(rho, T - 1, 2).bind(values)
    assert agrees(number(better.children[0].parameters["noise_multiplier"]) * scale, fixed)


@pytest.mark.parametrize(("steps", "calls", "printed"), [(45194, 173, "0.499989")])
def test_a_published_run_of_the_proximal_point_method(steps: int, calls: int, printed: str) -> None:
    node = Repeat(noisy_gd(rho / calls, T, 4).bind({T: steps}), calls)
    assert agrees(number(value(node, "zcdp").subs(rho, 1)), printed)


# --- adaptive noisy GD ---------------------------------------------------------------------------

NORM = Gaussian("norm", sympy.sqrt(n / (4 * sympy.sqrt(rho))))
LAST = Gaussian("gradient", 1 / sympy.sqrt(rho))


def rounds_under(cap: Any) -> Node:
    """All rounds but the last: norm and gradient at noise made of the past, under a cap."""
    return Filter.of(Select(Gaussian("norm", 1), Gaussian("gradient", 1)), ZCDP(cap))


def test_the_cost_of_a_round() -> None:
    """Sensitivity 2 L0/n: the norm costs 2 sqrt(rho)/n, the noise floor rho/2."""
    sigma_norm = L0 / (sympy.sqrt(n) * rho ** sympy.Rational(1, 4))
    norm = Gaussian("norm", sigma_norm * n / (2 * L0))
    assert sympy.simplify(value(norm, "zcdp") - 2 * sympy.sqrt(rho) / n) == 0
    assert sympy.simplify(value(norm, "zcdp") - value(NORM, "zcdp")) == 0
    floor = Gaussian("gradient", 2 * L0 / (n * sympy.sqrt(rho)) * n / (2 * L0))
    assert value(floor, "zcdp") == value(LAST, "zcdp") == rho / 2
    assert outcome(ZCDP(sympy.sqrt(rho) / n), norm, by="printed charge of the norm") == "refuted"


def test_with_the_noisy_norm_kept_positive_theorem_3_is_not_proved() -> None:
    """Charged at half their cost, the rounds before the last spend up to rho."""
    printed = Compose(rounds_under(rho), NORM, LAST)
    exact = 3 * rho / 2 + 2 * sympy.sqrt(rho) / n
    assert outcome(ZCDP(exact), printed) == "proved"
    seen = check(ZCDP(rho), printed, by="Theorem 3", reading="the last gradient is visible")
    assert seen.outcome == "unproved"
    assert "not attained" in seen.reason
    hidden = Compose(rounds_under(rho), NORM)
    reading = "only w_0..w_T: the last norm is still queried"
    assert outcome(ZCDP(rho + 2 * sympy.sqrt(rho) / n), hidden, reading=reading) == "proved"
    assert outcome(ZCDP(rho), hidden, by="Theorem 3", reading=reading) == "unproved"


def test_under_zero_out_the_same_argument_suffices() -> None:
    """3 rho/8 + sqrt(rho)/(2 n) <= rho for n sqrt(rho) >= 0.8: half the move, a quarter of it."""
    size = (Fraction(4, 5) + t) / sympy.sqrt(rho)
    norm = Gaussian("norm", sympy.sqrt(size / sympy.sqrt(rho)))
    last = Gaussian("gradient", 2 / sympy.sqrt(rho))
    node = Compose(rounds_under(rho / 4), norm, last)
    assert outcome(ZCDP(rho), node, "zero_out", by="Theorem 3") == "proved"
    assert outcome(ZCDP(3 * rho / 8), node, "zero_out") == "unproved"


@pytest.mark.parametrize(
    ("adjacency", "share", "least"), [("replace_one", 2, 4), ("zero_out", 8, 16)]
)
def test_a_signed_norm_is_charged_next_to_nothing(adjacency: str, share: int, least: int) -> None:
    """Printed listing, scalar noise, charges from the signed norm: refuted.

    While the noisy norm is far below 0, rounds at the noise floor go on and cost rho/2 (zero-out:
    rho/8) each.  Runs of ceil(n sqrt(rho)/2) such rounds have positive probability, and zCDP's
    constant is at least what they spend, as the order grows.  ``least``: where that passes rho.
    """
    floor = Gaussian("gradient", sympy.sqrt(Fraction(share, 2) / rho))
    reading = "scalar noise on the norm, charge from the signed norm"
    for roots in (least, least + 1):
        path = Repeat(floor, sympy.ceiling(sympy.Rational(roots, 2)))
        expected = "refuted" if roots > least else "proved"
        assert outcome(ZCDP(rho), path, adjacency, by="Theorem 3", reading=reading) == expected
    of_absolute = Filter.of(Gaussian("gradient", 1), ZCDP(rho))
    assert outcome(ZCDP(rho), of_absolute, adjacency, reading="charge from |N|, capped") == "proved"


def test_the_corrected_loop_is_certified() -> None:
    """A filter that charges the noise drawn: its cap, and exactly sqrt(2 cap)-GDP."""
    corrected = rounds_under(rho)
    assert outcome(ZCDP(rho), corrected, by="Theorem 3") == "proved"
    assert outcome(GDP(sympy.sqrt(2 * rho)), corrected) == "proved"
    assert outcome(ZCDP(rho / 2), corrected) == "unproved"
    norm = Gaussian("norm", 1 / sympy.sqrt(4 * t * rho))
    bound = Compose(rounds_under(rho / 2 - 2 * t * rho), norm, LAST).bind({t: Fraction(1, 100)})
    assert outcome(ZCDP(rho), bound, reading="prefix rho/2 - rho_norm, then one round") == "proved"


def test_no_rho_mechanism_reaches_what_the_audit_saw() -> None:
    """At delta = 1e-3 the largest epsilon of rho-zCDP: 5.420 for rho = 1, 1.356 for rho = 0.1."""
    for budget, printed in ((1, "5.420"), (Fraction(1, 10), "1.356")):
        assert agrees(float(account(ZCDP(budget)).converted("zcdp", 1e-3).value[0]), printed)


# --- selection, and conversions ------------------------------------------------------------------


def test_selection_is_certified_at_half_rho() -> None:
    """Weights exp(-n sqrt(rho) / (2 L0) * norm), a norm that moves by 2 L0/n: range 2 sqrt(rho)."""
    select = ExponentialMechanism("iterate", 2 * sympy.sqrt(rho))
    assert outcome(ZCDP(rho / 2), select, by="Theorem 5") == "proved"
    assert outcome(PureDP(2 * sympy.sqrt(rho)), select) == "proved"
    assert outcome(PureDP(sympy.sqrt(rho)), select, by="Theorem 5, proof") == "refuted"
    halved = ExponentialMechanism("iterate", sympy.sqrt(rho))
    assert outcome(PureDP(sympy.sqrt(rho)), halved, "zero_out", by="Theorem 5, proof") == "proved"
    by_pure_dp_alone = value(PureDP(2 * sympy.sqrt(rho)), "zcdp")
    assert by_pure_dp_alone == 2 * rho


def test_totals_with_the_selection() -> None:
    select = ExponentialMechanism("iterate", 2 * sympy.sqrt(rho))
    assert outcome(ZCDP(2 * rho), Compose(rounds_under(rho), select), by="Theorem 5") == "proved"
    assert outcome(ZCDP(3 * rho / 2), Compose(rounds_under(rho), select)) == "proved"
    visible = Compose(rounds_under(rho), NORM, LAST, select)
    assert outcome(ZCDP(2 * rho + 2 * sympy.sqrt(rho) / n), visible) == "proved"
    assert outcome(ZCDP(2 * rho), visible, by="Theorem 5", reading="last gradient") == "unproved"
    large = Gaussian("norm", sympy.sqrt((4 + t) / (4 * rho)))
    hidden = Compose(rounds_under(rho), large, select)
    reading = "w_0..w_T, n sqrt(rho) >= 4"
    assert outcome(ZCDP(2 * rho), hidden, by="Theorem 5", reading=reading) == "proved"


def test_the_conversion_in_symbols() -> None:
    """epsilon = rho + 2 sqrt(rho log(1/delta)), and its inverse in rho."""
    bound = rho + 2 * sympy.sqrt(rho * L)
    assert outcome(ApproxDP(bound, sympy.exp(-L)), ZCDP(rho)) == "proved"
    assert outcome(ApproxDP(bound * SMALLER, sympy.exp(-L)), ZCDP(rho)) == "unproved"
    inverse = (sympy.sqrt(L + t) - sympy.sqrt(L)) ** 2
    for at in ((1, 2), (10, 3), (Fraction(7, 2), 9)):
        budget = inverse.subs({L: at[0], t: at[1]})
        assert number(bound.subs({rho: budget, L: at[0]})) == pytest.approx(at[1], rel=1e-12)


CONVERSIONS = {
    "0.05": "1.2254/.9045/.7829 1.5674/1.3081/1.1994 1.7123/1.4716/1.3676",
    "0.1": "1.7623/1.3562/1.1833 2.2460/1.9142/1.7601 2.4508/2.1419/1.9945",
    "0.5": "4.2169/3.5366/3.1387 5.2985/4.7284/4.3772 5.7565/5.2215/4.8866",
    "1": "6.2565/5.4199/4.8453 7.7861/7.0772/6.5730 8.4338/7.7662/7.2861",
    "1.5": "7.9379/6.9984/6.2839 9.8113/9.0099/8.3854 10.6046/9.8482/9.2543",
    "2": "9.4338/8.4161/7.5813 11.5971/10.7248/9.9973 12.5130/11.6886/10.9972",
    "2.25": "10.1348/9.0837/8.1937 12.4292/11.5267/10.7520 13.4008/12.5472/11.8112",
}


@pytest.mark.parametrize("budget", CONVERSIONS)
def test_the_table_of_conversions(budget: str) -> None:
    """Bun-Steinke, the best order, and exact for Gaussian noise, at delta 1e-3, 1e-5, 1e-6."""
    amount = Fraction(budget)
    for delta, row in zip(("1e-3", "1e-5", "1e-6"), CONVERSIONS[budget].split(), strict=True):
        simple, best, exact = row.split("/")
        at = Fraction(delta)
        assert agrees(float(amount) + 2 * math.sqrt(float(amount) * -math.log(float(at))), simple)
        opened = account(ZCDP(amount))
        assert agrees(float(opened.converted("zcdp", at).value[0]), best)
        assert agrees(epsilon(Gaussian("a", 1 / sympy.sqrt(2 * amount)), at), exact)
