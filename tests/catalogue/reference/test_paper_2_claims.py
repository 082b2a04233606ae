"""User-level private convex optimisation by deletions (Ghazi et al. 2023): its claims of privacy.

Replace-one user.  Algorithm 1 with eps_bar = eps/2, delta_bar = delta / (e^eps_bar + 2),
kappa = 1 + ceil(log(1/delta_bar) / eps_bar) and sigma = 8 kappa Delta sqrt(2 log(2/delta_bar)) /
eps_bar; a score that moves by 1, a threshold from the shifted truncated discrete Laplace law.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
import sympy

from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Compose, Parallel, Repeat
from dpaudit.families.discrete import TruncatedDiscreteLaplace
from dpaudit.families.opaque import ApproxDP, NonPrivate, PureDP
from dpaudit.families.stability import StableRelease
from dpaudit.nodes import Node
from tests.support.claims import account, agrees, check, epsilon, mu, number, outcome, value


def constants(claimed: Any, delta: Any) -> tuple[Fraction, float, int, Fraction]:
    """eps_bar, delta_bar, kappa and sigma / Delta as printed."""
    half = float(Fraction(claimed)) / 2
    share = float(Fraction(delta)) / (math.exp(half) + 2)
    kappa = 1 + math.ceil(math.log(1 / share) / half)
    noise = math.sqrt(2 * math.log(2 / share)) * 8 * kappa / half
    return Fraction(claimed) / 2, share, kappa, Fraction(str(round(noise, 9)))


def algorithm_1(claimed: Any, delta: Any) -> Node:
    half, _, kappa, noise = constants(claimed, delta)
    return StableRelease("release", half, kappa, noise)


def slow(*row: Any) -> Any:
    """A row that only the quality run takes."""
    return pytest.param(*row, marks=pytest.mark.quality)


# claim, eps_bar, delta_bar, kappa, sigma / Delta, p(0), exact eps, least sigma / Delta.
TABLE = [
    ("1 1e-5", ".5 2.74069e-6 27 2244.775 3.3577e-7 .57276 388.04"),
    ("1 1e-6", ".5 2.74069e-7 32 2878.427 2.7562e-8 .58073 526.86"),
    (".5 1e-6", ".25 3.04504e-7 62 11116.679 2.3072e-8 .28715 1892.7"),
    (".1 1e-6", ".05 3.27732e-7 300 268321.4 7.646e-9 .05621 39836.7"),
    ("1 .01", ".5 .00274069 13 755.283 3.6864e-4 .49910 81.96"),
    ("1 .1", ".5 .0274069 9 421.805 .0027438 .32960 26.25"),
    ("4 .05", "2 .00532535 4 55.0940 2.5551e-4 2.05477 9.161"),
]


@pytest.mark.first_case
@pytest.mark.parametrize(("claim", "row"), TABLE)
def test_theorem_3_3_holds_with_room(claim: str, row: str) -> None:
    """(eps, delta) is proved; the exact epsilon is about .57 of it; less than that is refuted."""
    claimed, delta = claim.split()
    half, share, kappa, noise, lowest, exact, least = row.split()
    found = constants(claimed, delta)
    assert (found[0], found[2]) == (Fraction(half), int(kappa))
    assert agrees(found[1], share)
    assert agrees(float(found[3]), noise)
    node, at = algorithm_1(claimed, delta), Fraction(delta)
    assert outcome(ApproxDP(Fraction(claimed), at), node, by="Theorem 3.3") == "proved"
    assert agrees(epsilon(node, at), exact, units=1.01)
    assert outcome(ApproxDP(Fraction(exact) * Fraction(99, 100), at), node) == "refuted"
    test = TruncatedDiscreteLaplace("threshold", 1 / Fraction(half), int(kappa))
    weight = number(value(test, "approx")[1])
    assert agrees(weight, lowest)
    assert 7 <= float(share) / weight <= 43
    tight = StableRelease("release", Fraction(half), int(kappa), Fraction(least))
    assert epsilon(tight, at) == pytest.approx(float(Fraction(claimed)), rel=3e-4)


def test_the_threshold_alone_in_symbols() -> None:
    """(eps_bar, p(0)), p(0) = e^(-eps_bar kappa) / Z <= e^(-eps_bar kappa)."""
    bar = sympy.Symbol("eps_bar", positive=True)
    kappa = sympy.Symbol("kappa", positive=True, integer=True)
    test = TruncatedDiscreteLaplace("threshold", 1 / bar, kappa)
    own, weight = value(test, "approx")
    assert own == bar
    for e, k in ((1, 2), (Fraction(1, 2), 27), (2, 4)):
        law = [math.exp(-float(e) * abs(j)) for j in range(-k, k + 1)]
        at = weight.subs({bar: sympy.sympify(e), kappa: k})
        assert number(at) == pytest.approx(law[0] / sum(law), rel=1e-12)
    numbers = TruncatedDiscreteLaplace("threshold", 2, 27)
    assert outcome(ApproxDP(Fraction(1, 2), 3.3578e-7), numbers) == "proved"
    for calculus in ("pure", "zcdp"):
        assert outcome(PureDP(10), numbers) == "unproved", calculus


def test_bottom_makes_moments_infinite() -> None:
    """A score of 2 kappa may pass where its neighbour never does: no pure, Renyi or zCDP bound."""
    from dpaudit.exact import is_infinite

    node = algorithm_1(1, "1e-6")
    assert all(is_infinite(value(node, calculus)) for calculus in ("pure", "zcdp", "rdp", "gdp"))
    assert outcome(PureDP(100), node) == "unproved"


def test_the_simple_symbolic_bound() -> None:
    """(eps_bar + eps_G, p(0) + delta_G), with the Gaussian curve at (4 kappa + 2) Delta / sigma."""
    for claim, printed in (("1 1e-5", ".6570"), ("1 1e-6", ".6700"), (".5 1e-6", ".3306")):
        claimed, delta = claim.split()
        half, _, kappa, noise = constants(claimed, delta)
        lowest = number(value(TruncatedDiscreteLaplace("t", 1 / half, kappa), "approx")[1])
        rest = Fraction(delta) - Fraction(f"{lowest:.9e}")
        gaussian = epsilon(Gaussian("vector", noise / (4 * kappa + 2)), rest)
        assert agrees(float(half) + gaussian, printed, units=1.01)
        assert epsilon(algorithm_1(claimed, delta), delta) < float(half) + gaussian


def test_the_printed_move_is_loose_by_two() -> None:
    """8 kappa Delta is a valid bound of (4 kappa + 2) Delta."""
    kappa = sympy.Symbol("kappa", positive=True, integer=True)
    from dpaudit.exact.inequality import at_most

    assert at_most(4 * kappa + 2, 8 * kappa, {})
    assert not at_most(4 * kappa + 2, 4 * kappa, {})


@pytest.mark.parametrize(
    ("claimed", "delta", "kappa", "noise"),
    [("1", "1e-6", 32, "15.709"), ("1", "1e-6", 25, "15.709"), (".5", "1e-6", 62, "29.80"),
     (".1", "1e-6", 300, "132.1"), ("4", ".05", 4, "1.666")],
)  # fmt: skip
def test_diameter_stability(claimed: str, delta: str, kappa: int, noise: str) -> None:
    """Moves of 2 D for every pair of scores."""
    node = StableRelease("release", Fraction(claimed) / 2, kappa, Fraction(noise), "diameter")
    assert epsilon(node, delta) == pytest.approx(float(Fraction(claimed)), rel=2e-3)


# --- composition ---------------------------------------------------------------------------------


@pytest.mark.quality
@pytest.mark.parametrize(
    ("rounds", "kappa", "noise", "composed"),
    [(10, 346, "3.315e5", .505), slow(20, 718, "1.4018e6", .412), slow(24, 870, "2.0481e6", .378)],
)  # fmt: skip
def test_phased_erm(rounds: int, kappa: int, noise: str, composed: float) -> None:
    """T phases of (eps/T, delta/T) by basic composition: (1, 1e-6) holds, at about half."""
    share = Fraction(1, rounds), Fraction("1e-6") / rounds
    phase = algorithm_1(*share)
    assert constants(*share)[2] == kappa
    assert agrees(float(constants(*share)[3]), noise)
    node = Repeat(phase, rounds)
    assert outcome(ApproxDP(1, 1e-6), node, by="Theorem 4.1") == "proved"
    assert epsilon(node, "1e-6") == pytest.approx(composed, abs=2e-3)


@pytest.mark.quality
@pytest.mark.parametrize(("calls", "printed"), [(2, 1.107), slow(10, 5.133), slow(20, 9.706)])
def test_repeated_calls_compose_better_than_their_sum(calls: int, printed: float) -> None:
    """2, 10, 20 calls of (1, 1e-6): 1.107, 5.133, 9.706 at as many millionths."""
    node, delta = Repeat(algorithm_1(1, "1e-6"), calls), Fraction(calls, 10**6)
    assert epsilon(node, delta) == pytest.approx(printed, abs=5e-3)
    assert outcome(ApproxDP(calls, delta), node) == "proved"


def test_phased_sco_is_a_maximum() -> None:
    """Disjoint batches: one phase's guarantee, not their sum."""
    phase = algorithm_1(1, "1e-6")
    node = Parallel(phase, Compose(phase), Compose(Compose(phase)))
    assert outcome(ApproxDP(1, 1e-6), node, by="Theorem 5.1") == "proved"
    assert epsilon(node, "1e-6") == pytest.approx(epsilon(phase, "1e-6"), abs=1e-9)


@pytest.mark.quality
def test_closed_ranges_put_a_user_in_two_batches() -> None:
    """Read literally, the user on the border is in both: delta(1) = 5.09e-3 of a claimed 1e-6."""
    twice = Compose(algorithm_1(1, "1e-6"), algorithm_1(1, "1e-6"))
    reading = "batch ranges closed at both ends"
    refuted = check(ApproxDP(1, 1e-6), twice, by="Algorithm 4", reading=reading)
    assert refuted.outcome == "refuted"
    assert float(account(twice).delta(1).upper) == pytest.approx(5.09e-3, rel=2e-2)
    once = "half-open, as was meant"
    assert outcome(ApproxDP(1, 1e-6), algorithm_1(1, "1e-6"), reading=once) == "proved"


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize(("rounds", "expected"), [(10, 718), slow(20, 1490)])
def test_strongly_convex_calls(rounds: int, expected: int) -> None:
    """(eps/2, delta/2) for the first call and for the phases: .28828 of .5; together (1, 1e-6)."""
    first = algorithm_1(Fraction(1, 2), "5e-7")
    half, _, kappa, noise = constants(Fraction(1, 2), "5e-7")
    assert (half, kappa) == (Fraction(1, 4), 64)
    assert agrees(float(noise), "11725.9")
    assert agrees(epsilon(first, "5e-7"), ".28828", units=1.01)
    share = Fraction(1, 2 * rounds), Fraction("5e-7") / rounds
    assert constants(*share)[2] == expected
    phases = Repeat(algorithm_1(*share), rounds)
    assert outcome(ApproxDP(1, 1e-6), Compose(first, phases)) == "proved"


# --- what is no privacy ---------------------------------------------------------------------------


def test_a_failed_certificate_must_not_show() -> None:
    """Bottom, an exception or a timeout where the certificate fails is an access without noise."""
    leak = Compose(algorithm_1(1, "1e-6"), NonPrivate("whether the certificate failed"))
    assert outcome(ApproxDP(1, 1e-6), leak) == "unproved"


def test_smaller_noise_is_hidden_by_the_slack_up_to_a_fifth() -> None:
    """sigma / 5 still meets (1, 1e-6), sigma / 5.5 does not: audit the exact profile."""
    half, _, kappa, noise = constants(1, "1e-6")
    for divisor, verdict in ((2, "proved"), (5, "proved"), ("11/2", "refuted"), (8, "refuted")):
        node = StableRelease("release", half, kappa, noise / Fraction(divisor))
        assert outcome(ApproxDP(1, 1e-6), node) == verdict
        assert outcome(ApproxDP(Fraction(".5808"), 1e-6), node) == "refuted"


def test_plain_output_perturbation_is_gaussian() -> None:
    """The user-level baseline: 2 G/(mu n) over sigma, by the analytic Gaussian."""
    node = Gaussian("minimiser", Fraction("8.449e-4") / Fraction(2, 10**4))
    assert mu(node) == pytest.approx(0.236704, rel=1e-3)
    assert epsilon(node, "1e-6") == pytest.approx(1, rel=2e-3)
