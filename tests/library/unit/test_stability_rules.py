"""Stable releases and coupled Gaussian noise: values, the pairs, refusals, the checker."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy

from dpaudit.accountant.claim import Claim
from dpaudit.check.derivation import own_bound
from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.exact import enclose, is_infinite
from dpaudit.families.composition import Compose, Repeat
from dpaudit.families.opaque import ApproxDP
from dpaudit.families.stability import CoupledGaussian, StableRelease, rules
from dpaudit.families.stability.rules import TAIL_GRAIN, binomial
from dpaudit.families.stability.theorem import MOST_PLACES, _rounded_tails
from dpaudit.measures.approx import APPROX
from dpaudit.measures.calculus import CALCULI
from dpaudit.measures.gdp import GAUSSIAN
from dpaudit.measures.profile import PROFILE
from dpaudit.measures.pure import PURE
from dpaudit.measures.renyi import RENYI, order
from dpaudit.measures.zcdp import CONCENTRATED
from dpaudit.nodes import Node
from dpaudit.pairs import Atoms, Branched, Losses, Normal, Scored, Thresholded
from dpaudit.pairs.scored import chances, family_of, gaussian
from dpaudit.profiles import delta_interval, epsilon_interval
from dpaudit.scope import Adjacency, Scope

SCOPE = Scope("replace_one", "user", "central", "output")
x = sympy.Symbol("x", positive=True)
k = sympy.Symbol("k", positive=True, integer=True)
STABLE = StableRelease("stable", 0.5, 3, 20)


def number(value: Any) -> float:
    return float(enclose(value).mid())


def pairs(node: Node) -> Losses:
    found = PROFILE.fold(node, SCOPE).value
    assert isinstance(found, Losses)
    return found


# --- stable releases -----------------------------------------------------------------------------


def thresholds(epsilon: float, kappa: int) -> list[float]:
    weights = [math.exp(-epsilon * abs(r - kappa)) for r in range(2 * kappa + 1)]
    return [w / sum(weights) for w in weights]


@pytest.mark.parametrize(
    ("trials", "rate"), [(300, Fraction(1)), (9, Fraction(0)), (7, Fraction(1, 3))]
)
def test_tails_of_a_binomial_are_rounded_up(trials: int, rate: Fraction) -> None:
    found = list(_rounded_tails(trials, rate, 1000))
    masses = [
        math.comb(trials, j) * rate**j * (1 - rate) ** (trials - j) for j in range(trials + 1)
    ]
    exact = [sum(masses[k + 1 :], Fraction(0)) for k in range(trials + 1)]
    assert found == [Fraction(math.ceil(1000 * tail), 1000) for tail in exact]


def test_the_threshold_has_the_printed_law() -> None:
    """The test vector of the paper's reading: epsilon 0.5, kappa 3."""
    law = [0.065722, 0.108357, 0.178650, 0.294544, 0.178650, 0.108357, 0.065722]
    assert thresholds(0.5, 3) == pytest.approx(law, abs=5e-7)
    for score in range(8):
        below, above = (number(v) for v in chances(Fraction(1, 2), 3, score))
        assert below == pytest.approx(sum(thresholds(0.5, 3)[:score]), abs=1e-14)
        assert above == pytest.approx(sum(thresholds(0.5, 3)[score:]), abs=1e-14)


def test_the_family_in_floats_is_the_members_exactly() -> None:
    pair = Thresholded(Fraction(1, 2), Fraction(5), Fraction(1, 10), Fraction(1, 20))
    family = family_of(pair)
    assert len(family.mu) == 2 * 11 - 1
    for index in range(len(family.mu)):
        own = pair.member(index)
        (below, above), (other_below, other_above) = (
            chances(own.epsilon, 5, int(s)) for s in (own.score, own.other)
        )
        exact = [number(v) for v in (above, other_above, below, other_below, own.mu)]
        found = (family.passes, family.other_passes, family.fails, family.other_fails, family.mu)
        assert [float(v[index]) for v in found] == pytest.approx(exact, rel=1e-13, abs=1e-300)


@pytest.mark.parametrize("mu", [1e-5, 0.01, 0.3, 4.0])
def test_the_gaussian_profile_in_floats(mu: float) -> None:
    """Against Arb at 200 bits, down to 1e-250, at both signs of epsilon."""
    from dpaudit.measures.convert import gaussian_delta

    for z in (-30.0, -3.0, -0.2, 0.0, 0.1, 1.0, 5.0, 20.0, 33.0):
        epsilon = mu * (z + mu / 2)
        found = float(gaussian(np.array([epsilon]), np.array([mu]))[0])
        truth = number_of(gaussian_delta(enclose(Fraction(epsilon)), enclose(Fraction(mu))))
        assert found == pytest.approx(truth, rel=1e-11 / mu)
    assert gaussian(np.array([-np.inf]), np.array([mu]))[0] == 1


def number_of(ball: Any) -> float:
    return float(ball.mid())


def test_one_pair_covers_all_scores() -> None:
    found = pairs(STABLE)
    twentieth = Fraction(1, 20)
    assert found.remove == (Thresholded(Fraction(1, 2), 3, 2 * twentieth, twentieth),)
    assert found.add == found.remove
    half = Fraction(1, 2)
    middle, last = Scored(half, 3, 3, 4, 9 * twentieth), Scored(half, 3, 6, 7, 15 * twentieth)
    assert found.reached_remove == (middle, last)
    assert found.reached_add == (middle.swapped,)
    flat = pairs(StableRelease("stable", 0.5, 3, 20, "diameter"))
    assert flat.remove == (Thresholded(half, 3, 2 * twentieth, 0),)
    assert [pair.mu for pair in flat.reached] == [2 * twentieth] * 3
    with pytest.raises(Unsupported, match="kappa of at most"):
        PROFILE.fold(StableRelease("stable", 0.5, k, 20), SCOPE)


@pytest.mark.parametrize("distance", ["path", "diameter"])
@pytest.mark.parametrize(("kappa", "noise"), [(2, 10), (15, 1920)])
def test_reached_pairs_meet_the_upper_profile(distance: str, kappa: int, noise: int) -> None:
    """delta at epsilon: lower ends never above the upper, and equal where one of them is worst."""
    losses, met = pairs(StableRelease("stable", 0.5, kappa, noise, distance)), 0
    for epsilon in (Fraction(0), Fraction(1, 2), Fraction(1), Fraction(3)):
        upper = delta_interval(losses.remove[0], epsilon).upper
        lowers = [delta_interval(pair, epsilon).lower for pair in losses.reached]
        assert max(lowers) <= upper
        met += max(lowers) >= upper * (1 - Fraction(1, 10**9))
    assert met >= 2


def test_where_the_last_score_tells_too_much_no_epsilon_is_left_and_that_is_reached() -> None:
    """kappa = 15 for (1, 1e-6): p(0) = 1.355e-4 is passed with, and never by the neighbour."""
    node, delta = StableRelease("stable", 0.5, 15, 1920), Fraction(1, 10**6)
    found = [epsilon_interval(pair, delta) for pair in pairs(node).reached]
    assert [is_infinite(interval.upper) for interval in found] == [False, True, False]
    assert found[1].lower == 60
    for claim, outcome in ((ApproxDP(1, delta), "refuted"), (ApproxDP(100, delta), "unproved")):
        assert Claim(claim, by="the tests").check(node, SCOPE).outcome == outcome
    enough = ApproxDP(1, Fraction(1, 1000))
    assert Claim(enough, by="the tests").check(node, SCOPE).outcome == "proved"


def test_the_symbolic_bound_is_the_test_and_the_farthest_release() -> None:
    """(2 e, p(0) + delta_G): at the paper's constants for (1, 1e-6), well inside delta."""
    node = StableRelease("stable", 0.5, 32, 2878.427)
    epsilon, delta = APPROX.fold(node, SCOPE).value
    mu, e = 130 / 2878.427, 0.5

    def tail(z: float) -> float:
        return math.erfc(z / math.sqrt(2)) / 2

    truth = thresholds(0.5, 32)[0] + tail(e / mu - mu / 2) - math.exp(e) * tail(e / mu + mu / 2)
    assert epsilon == 1
    assert number(delta) == pytest.approx(truth, rel=1e-12)
    assert number(delta) < 3e-8
    symbolic = APPROX.fold(StableRelease("stable", x, k, 100 * k), SCOPE).value
    assert symbolic[0] == 2 * x
    bound = symbolic[1].subs({x: sympy.Rational(1, 2), k: 32})
    assert number(bound) == pytest.approx(
        number(APPROX.fold(StableRelease("stable", 0.5, 32, 3200), SCOPE).value[1]), rel=1e-12
    )
    phases = APPROX.fold(Repeat(node, 10), SCOPE).value
    assert phases[0] == 10


@pytest.mark.parametrize("calculus", [PURE, CONCENTRATED, RENYI, GAUSSIAN])
def test_a_score_that_never_passes_has_infinite_loss(calculus: Any) -> None:
    assert calculus.fold(STABLE, SCOPE).value == sympy.oo


@pytest.mark.parametrize("adjacency", ["add_remove", "zero_out"])
def test_scores_are_stable_under_replacement_only(adjacency: str) -> None:
    with pytest.raises(Unsupported, match=f"no rule for StableRelease under {adjacency}"):
        PROFILE.fold(STABLE, SCOPE.under(adjacency))


# --- coupled noise -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trials", "rate"), [(0, Fraction(1, 2)), (3, Fraction(1, 2)), (40, Fraction(1, 7))]
)
def test_binomial_tails_are_moved_up_by_a_grain_at_most(trials: int, rate: Fraction) -> None:
    weights = binomial(trials, rate)
    assert sum(weights) == 1
    assert all(w >= 0 for w in weights)
    mass = [math.comb(trials, j) * rate**j * (1 - rate) ** (trials - j) for j in range(trials + 1)]
    for least in range(min(len(weights) - 1, trials) + 1):
        exact = sum(mass[least:], Fraction(0))
        assert exact <= sum(weights[least:], Fraction(0)) <= exact + TAIL_GRAIN


def test_rates_of_one_and_long_lists() -> None:
    assert binomial(3, Fraction(1)) == [0, 0, 0, 1, 0]
    long = binomial(20_000, Fraction(6, 20_000))
    assert len(long) < 100
    assert 0 <= long[-1] <= TAIL_GRAIN


def test_a_coupling_is_a_pair_of_seen_branches() -> None:
    (pair,) = pairs(CoupledGaussian("mean", 10, 2, 3, 0.5)).remove
    assert isinstance(pair, Branched)
    eighth = Fraction(1, 8)
    shares = [eighth, 3 * eighth, 3 * eighth, eighth]
    wanted = [(w, w, Normal(Fraction(2 + j, 10))) for j, w in enumerate(shares)]
    assert list(pair.branches) == wanted
    (cut,) = pairs(CoupledGaussian("mean", 10, 2, 160, Fraction(3, 400))).remove
    assert isinstance(cut, Branched)
    assert cut.branches[-1][2] == Atoms(((1, 0), (0, 1)))
    assert cut.branches[-1][0] <= TAIL_GRAIN
    certain = pairs(CoupledGaussian("mean", 10, 2, 3, 1)).remove[0]
    assert certain == Branched(((1, 1, Normal(Fraction(1, 2))),))


def test_other_calculi_take_the_largest_move() -> None:
    node = CoupledGaussian("mean", x, 2, k, 0.5)
    assert GAUSSIAN.fold(node, SCOPE).value == (2 + k) / x
    assert CONCENTRATED.fold(node, SCOPE).value == (2 + k) ** 2 / (2 * x**2)
    assert RENYI.fold(node, SCOPE).value == order() * (2 + k) ** 2 / (2 * x**2)
    with pytest.raises(Unsupported, match="a profile needs numbers"):
        PROFILE.fold(node, SCOPE)


# --- refusals, and the checker -------------------------------------------------------------------


@pytest.mark.parametrize(
    "build",
    [
        lambda: StableRelease("", 0.5, 3, 20),
        lambda: StableRelease("a", 0, 3, 20),
        lambda: StableRelease("a", 0.5, 0, 20),
        lambda: StableRelease("a", 0.5, 2.5, 20),
        lambda: StableRelease("a", 0.5, 3, 0),
        lambda: StableRelease("a", 0.5, 3, math.nan),
        lambda: StableRelease("a", 0.5, 3, 20, "radius"),
        lambda: CoupledGaussian("", 1, 2, 3, 0.5),
        lambda: CoupledGaussian("a", 0, 2, 3, 0.5),
        lambda: CoupledGaussian("a", 1, 0, 0, 0.5),
        lambda: CoupledGaussian("a", 1, 2, -1, 0.5),
        lambda: CoupledGaussian("a", 1, 2, 3, 0),
        lambda: CoupledGaussian("a", 1, 2, 3, 1.5),
    ],
)
def test_values_outside_their_domain_are_refused(build: Any) -> None:
    with pytest.raises(InvalidParameter):
        build()


RESTATED = [
    STABLE,
    StableRelease("stable", x, 3, 20, "diameter"),
    StableRelease("stable", x, k, 20 * k),
    Compose(STABLE, CoupledGaussian("mean", 10, 2, 7, 0.5)),
    CoupledGaussian("mean", 30, 2, 160, Fraction(3, 400)),
    CoupledGaussian("mean", 30, 2, 5, 1),
    CoupledGaussian("mean", x, 0, k, 0.5),
]


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("node", RESTATED, ids=lambda n: n.head[:60])
def test_the_checker_restates_every_rule(
    node: Node, adjacency: Adjacency, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Tails to as many places as the checker takes where a certificate names none.
    monkeypatch.setattr(rules, "TAIL_GRAIN", Fraction(1, 10**MOST_PLACES))
    for name in CALCULI:
        theirs = own_bound(node, name, adjacency)
        try:
            ours = CALCULI[name].fold(node, SCOPE.under(adjacency)).value
        except Unsupported:
            assert theirs is None, name
            continue
        if name == "rdp":
            ours, theirs = sympy.sympify(ours), sympy.sympify(theirs(order()))
        both = zip(ours, theirs, strict=True) if name == "approx" else [(ours, theirs)]
        assert all(a == b or _same(a, b) for a, b in both), (name, ours, theirs)


def _same(ours: Any, theirs: Any) -> bool:
    values = {x: sympy.Rational(7, 10), k: sympy.Integer(5)}
    at = [sympy.sympify(v).subs(values) for v in (ours, theirs)]
    return number(at[0]) == pytest.approx(number(at[1]), rel=1e-14)
