"""Faster user-level stochastic convex optimisation (Lowy, Liu, Asi 2024): its claims of privacy.

Replace-one user.  A phase tests a concentration score (Laplace noise), then releases a mean over
random inliers; each user is in one phase.  Numbers of Algorithm 1 use an even C, rho = 2/3 and
theta = 4 C / 5; the two runs' inner coins are coupled.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
import sympy

from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Compose, Parallel, Repeat
from dpaudit.families.events import Group, ProposeTestRelease
from dpaudit.families.opaque import GDP, ApproxDP, NonPrivate, PureDP
from dpaudit.families.sampling import SampledWithoutReplacement
from dpaudit.families.selection import AboveThreshold
from dpaudit.families.stability import CoupledGaussian
from dpaudit.measures.convert import gaussian_mu
from dpaudit.nodes import Node
from tests.support.claims import account, agrees, check, epsilon, outcome, two_sided, value

eps, theta, K, C = sympy.symbols("epsilon theta K C", positive=True)
T = sympy.Symbol("T", positive=True, integer=True)
SMALLER = Fraction(999_999, 1_000_000)


# --- Algorithm 1: one phase ----------------------------------------------------------------------


def even(real: float) -> int:
    return 2 * math.ceil(real / 2)


def phase_constants(n: float, m: int, claimed: float, delta: float) -> tuple[float, int, float]:
    """C as printed (natural logarithm), rounded up, and sigma / tau of the rounded one."""
    real = 100 * math.log(20 * n * m * math.exp(claimed) / delta) / claimed
    groups = even(real)
    return real, groups, 100 * math.log(n / delta) ** 2 / (claimed * groups)


def phase(n: float, m: int, claimed: float, delta: str, flips: str) -> Node:
    """Test, then release; both score below rho C + 1 pass with probability delta_t at most."""
    _, groups, sigma = phase_constants(n, m, claimed, float(delta))
    test = Laplace("score", Fraction(20) / Fraction(claimed) * groups / (2 * (groups - 1)))
    trials = groups - 1 if flips == "gen" else groups // 3
    release = CoupledGaussian(
        "mean", Fraction(str(round(sigma, 9))) * groups / 6, 2, trials, Fraction(6, groups)
    )
    false_pass = math.exp(-(0.8 * groups - 2 * groups / 3 - 1) * claimed / 20) / 2
    return ProposeTestRelease(test, release, Fraction(f"{false_pass * 1.000001:.12e}"))


TABLE = [
    ((1e4, 10, 1, "1e-6"), "2932.4", "18.07", ".1000", ".0035", ".0017"),
    ((1e5, 10, 1, "1e-6"), "3162.7", "20.28", ".1000", ".0028", ".0014"),
    ((1e6, 10, 1, "1e-6"), "3392.93", "22.49", ".1000", ".0023", ".0011"),
    ((1e6, 10, 1, "1e-12"), "4774.5", "35.97", ".1000", ".0029", ".0017"),
    ((1e7, 10, 1, "1e-9"), "4313.97", "31.46", ".1000", ".0025", ".0013"),
    ((1e6, 10, 10, "1e-6"), "429.29", "17.76", ".9977", ".0308", ".0157"),
    ((1e4, 10, 10, "1e-6"), "383.2", "13.81", ".9974", ".0460", ".0237"),
]


@pytest.mark.first_case
@pytest.mark.parametrize(("setting", "groups", "sigma", "test", "gen", "core"), TABLE)
def test_theorem_2_1_holds_with_room(
    setting: Any, groups: str, sigma: str, test: str, gen: str, core: str
) -> None:
    """The claim (eps, delta) is met at about a tenth of eps."""
    n, m, claimed, delta = setting
    real, _, noise = phase_constants(n, m, claimed, float(delta))
    assert agrees(real, groups, units=1)
    assert agrees(noise, sigma, units=1.01)
    for flips, printed in (("gen", gen), ("core", core)):
        score, release = phase(n, m, claimed, delta, flips).children
        assert agrees(float(value(score, "pure")), test)
        assert agrees(epsilon(release, Fraction(delta) / 2), printed, units=1.01)
    node = phase(n, m, claimed, delta, "gen")
    assert outcome(ApproxDP(claimed, Fraction(delta)), node, by="Theorem 2.1") == "proved"
    assert epsilon(node, delta) <= float(Fraction(test) + Fraction(gen) + Fraction(3, 1000))


def test_phases_are_a_maximum() -> None:
    """Each user is in one phase: the claim of one is the claim of all."""
    node = phase(1e6, 10, 1, "1e-6", "gen")
    phases = Parallel(node, Compose(node), Compose(Compose(node)))
    assert outcome(ApproxDP(1, 1e-6), phases, by="Theorem 2.1") == "proved"
    assert epsilon(phases, "1e-6") == pytest.approx(epsilon(node, "1e-6"), abs=2e-4)


CALIBRATED = [
    ("1", "1e-6", ".25", "4/5", 8, 800, "749.979", "5.51994", ".11040", ".18914"),
    ("1", "1e-6", ".5", "4/5", 4, 412, "387.089", "8.05762", ".31292", ".52361"),
    ("1", "1e-6", ".25", "2/3", 8, 480, "429.979", "5.51994", ".27600", ".46676"),
    ("1", "1e-8", ".25", "4/5", 8, 984, "934.020", "6.70294", ".10899", ".21466"),
    ("2", "1e-6", ".25", "4/5", 4, 412, "387.089", "2.90406", ".11278", ".19864"),
    (".5", "1e-6", ".25", "4/5", 16, 1572, "1472.558", "10.54417", ".10732", ".17873"),
    ("8", "1e-6", ".25", "4/5", 1, 122, "115.722", ".83591", ".10963", ".20558"),
]


@pytest.mark.first_case
@pytest.mark.parametrize("row", CALIBRATED)
def test_calibrated_phases_keep_their_claim(row: Any) -> None:
    """Weighted inclusion moves by 16 or 24 tau / C; random inclusion by a binomial's worth."""
    claimed, delta, share, core, scale, groups, bar, kappa, weighted, coupled = row
    release = Fraction(claimed) * (1 - Fraction(share))
    assert agrees(1 / float(gaussian_mu(release, Fraction(delta))), kappa)
    test = Laplace("score", Fraction(scale) * groups / (2 * (groups - 1)))
    margin = Fraction(bar) - Fraction(core) * groups - 1
    false_pass = Fraction(f"{math.exp(-float(margin) / scale) / 2:.9e}")
    assert false_pass <= Fraction(delta)
    moves = (16 if core == "4/5" else 24) / Fraction(groups)
    weights = Gaussian("mean", Fraction(weighted) * (1 + Fraction(1, 10_000)) / moves)
    unit = 4 / (Fraction(core) * groups)
    flips = int((1 - Fraction(core)) * groups)
    coins = CoupledGaussian(
        "mean", Fraction(coupled) * (1 + Fraction(1, 10_000)) / unit, 2, flips, Fraction(6, groups)
    )
    for mean in (weights, coins):
        assert epsilon(mean, delta) == pytest.approx(float(release), rel=4e-4)
        assert outcome(ApproxDP(release * Fraction(1001, 1000), Fraction(delta)), mean) == "proved"
    # The theorem: (eps1 + eps2, max(delta2, delta_t)), whichever branch the neighbours are in.
    node = ProposeTestRelease(test, ApproxDP(release, Fraction(delta), source="above"), false_pass)
    assert outcome(ApproxDP(Fraction(claimed), Fraction(delta)), node) == "proved"
    assert (
        outcome(ApproxDP(Fraction(claimed) * Fraction(9, 10), Fraction(delta)), node) != "refuted"
    )


def test_a_missing_test_is_no_guarantee() -> None:
    """Given the test, a move of 4 tau would do; without it the set of inliers may change."""
    bare = Compose(NonPrivate("the mean over inliers without a test of concentration"))
    assert outcome(ApproxDP(10, 0.1), bare) == "unproved"
    for setting, printed in (((1e7, 10, 1, "1e-9"), ".69"), ((1e4, 10, 10, "1e-6"), "1.24")):
        _, _, sigma = phase_constants(*setting[:3], float(setting[3]))
        mean = Gaussian("mean", Fraction(str(round(sigma, 9))) / 4)
        assert 0.6 < epsilon(mean, Fraction(setting[3]) / 2) < 1.3, printed


@pytest.mark.parametrize(
    ("claimed", "delta", "true"), [(10, "1e-6", "1.149e-6"), (10, "1e-3", "2.015e-3")]
)
def test_the_textbook_gaussian_fails_at_large_epsilon(claimed: int, delta: str, true: str) -> None:
    """Lemma A.5, sigma = Delta sqrt(2 log(2/delta)) / eps, for all eps > 0."""
    node = Gaussian("a", sympy.sqrt(2 * sympy.log(2 / sympy.Rational(delta))) / claimed)
    assert agrees(float(account(node).delta(claimed).upper), true)
    assert outcome(ApproxDP(claimed, Fraction(delta)), node, by="Lemma A.5") == "refuted"


@pytest.mark.parametrize(
    ("delta", "last", "first"),
    [("1e-2", "7.8", "8.0"), ("1e-5", "9.3", "9.5"), ("1e-6", "9.72", "9.74"),
     ("1e-8", "10.2", "10.4"), ("1e-12", "11.0", "11.2")],
)  # fmt: skip
def test_up_to_which_epsilon_lemma_a_5_holds(delta: str, last: str, first: str) -> None:
    for claimed, verdict in ((last, "proved"), (first, "refuted")):
        loss = sympy.log(2 / sympy.Rational(delta))
        node = Gaussian("a", sympy.sqrt(2 * loss) / sympy.Rational(claimed))
        assert outcome(ApproxDP(Fraction(claimed), Fraction(delta)), node) == verdict


# --- Algorithms 2 and 3 --------------------------------------------------------------------------


def threshold_test(multiplicity: Any = 1) -> Node:
    """Noise 8/eps on the threshold, once, and 16/eps on scores that move by 2 a slot."""
    return AboveThreshold("score", multiplicity * eps / 4, multiplicity * eps / 4)


def test_the_threshold_test_costs_half_epsilon() -> None:
    assert outcome(PureDP(eps / 2), threshold_test(), by="Algorithm 4") == "proved"
    assert outcome(PureDP(eps / 2 * SMALLER), threshold_test()) == "refuted"
    assert outcome(PureDP(eps), Compose(threshold_test(), PureDP(eps / 2))) == "proved"


def test_slots_drawn_with_replacement_break_it() -> None:
    """A user who fills c slots moves the score by about 2 c: c eps / 2."""
    c = sympy.Symbol("c", positive=True, integer=True)
    reading = "i.i.d. slots, K as printed"
    refuted = check(PureDP(eps / 2), threshold_test(c), by="Theorem 3.1", reading=reading)
    assert refuted.outcome == "refuted"
    assert int(refuted.values["c"]) > 1
    capped = check(PureDP(eps / 2), threshold_test(1), by="Theorem 3.1", reading="no user twice")
    assert capped.outcome == "proved"


def test_a_threshold_drawn_anew_breaks_it() -> None:
    """Each round is a bit of its own, eps/8 of pure privacy: T eps / 8 in all."""
    bits = Repeat(Laplace("bit", 8 / eps), T)
    reading = "xi drawn inside the loop"
    assert outcome(PureDP(T * eps / 8), bits, reading=reading) == "proved"
    refuted = check(PureDP(eps / 2), bits, by="Theorem 3.1", reading=reading)
    assert refuted.outcome == "refuted"
    assert int(refuted.values["T"]) > 4


def test_subsampling_a_threshold_test_that_spans_rounds_has_no_rule() -> None:
    """The answers and the releases share one secret batch: the claim is unproved."""
    shared = Compose(threshold_test(), NonPrivate("batches conditioned on earlier answers"))
    assert outcome(PureDP(eps), shared, by="Theorem 3.1") == "unproved"


G6 = [
    # n, claimed eps, T, q, sigma / Delta, tight eps of the Gaussian part at delta / 2 = 5e-9
    (60000, 1, 400, 1, "1278", ".0730"),
    pytest.param(60000, 1, 400, "1/20", "63.9", ".1702", marks=pytest.mark.quality),
    pytest.param(60000, 1, 10000, "1/5", "1203", ".2216", marks=pytest.mark.quality),
    (20000, 1, 19, 1, "287", ".0707"),
    (60000, 10, 400, 1, "141", ".7298"),
]


@pytest.mark.parametrize(("n", "claimed", "rounds", "share", "noise", "printed"), G6)
def test_the_gaussian_part_of_algorithm_2(
    n: int, claimed: int, rounds: int, share: Any, noise: str, printed: str
) -> None:
    """Far below eps/2.

    With batches the printed numbers are those of few Renyi orders; at all of them it is less, and
    the profile says less than half.
    """
    step: Node = Gaussian("gradient", Fraction(noise))
    if share != 1:
        step = SampledWithoutReplacement(step, Fraction(share) * n, n)
    node, delta = Repeat(step, rounds), Fraction(1, 2 * 10**8)
    assert outcome(ApproxDP(Fraction(claimed, 2), delta), node) == "proved"
    if share == 1:
        assert agrees(epsilon(node, delta), printed, units=3)
        whole = Compose(threshold_test().bind({eps: claimed}), node)
        assert outcome(ApproxDP(claimed, 2 * delta), whole, by="Theorem 3.1") == "proved"
        return
    lower, upper = two_sided(node, delta)
    renyi = float(account(node).converted("rdp", delta).value[0])
    assert lower <= upper <= renyi <= float(printed)


def test_the_bits_alone_by_advanced_composition() -> None:
    """T = 400 joint tests, q of the users each: log(1 + q (e^(2/b) - 1)) a bit."""
    for share, scale in (("1/20", 16), ("1/5", 64)):
        bit = SampledWithoutReplacement(
            Laplace("bit", Fraction(scale, 2)), Fraction(share) * 1000, 1000
        )
        amplified = math.log(1 + float(Fraction(share)) * (math.exp(2 / scale) - 1))
        assert outcome(PureDP(Fraction(str(round(amplified + 1e-9, 12)))), bit) == "proved"
        assert outcome(PureDP(Fraction(str(round(amplified * 0.9, 9)))), bit) != "proved"


@pytest.mark.parametrize(
    ("n", "rounds", "literal", "core"),
    [(4000, 50, "1.18063", ".70838"), (20000, 100, ".33393", ".20036")],
)
def test_calibrated_full_batches(n: int, rounds: int, literal: str, core: str) -> None:
    """sigma = sqrt(T) (80 or 48) tau / n * kappa(eps/2, delta/2), with the test: (1, 1e-6)."""
    star = gaussian_mu(Fraction(1, 2), Fraction("5e-7"))
    assert agrees(1 / float(star), "8.34832")
    for moves, printed in ((80, literal), (48, core)):
        sigma = math.sqrt(rounds) * moves / n / float(star)
        assert agrees(sigma, printed, units=1.01)
        steps = Repeat(Gaussian("mean", sympy.sqrt(rounds) / star), rounds)
        assert outcome(ApproxDP(Fraction(1, 2), 5e-7), steps) == "proved"
        assert outcome(ApproxDP(Fraction(1, 2) * SMALLER, 5e-7), steps) == "refuted"
        whole = Compose(threshold_test().bind({eps: 1}), steps)
        assert outcome(ApproxDP(1, 1e-6), whole) == "proved"


# --- baselines -----------------------------------------------------------------------------------


@pytest.mark.quality
def test_group_privacy_of_phased_sgd() -> None:
    """Item-level noise seen by users of m items: mu grows by m; phases are parallel."""
    m = sympy.Symbol("m", positive=True, integer=True)
    z = sympy.symbols("z1:4", positive=True)
    node = Group(Parallel(*(Gaussian(f"phase {i}", s) for i, s in enumerate(z))), m)
    assert outcome(GDP(m / sympy.Min(*z)), node) == "proved"
    assert outcome(GDP(m / z[0]), node) == "refuted"
    assert outcome(PureDP(m * eps), Group(Laplace("a", 1 / eps), m)) == "proved"


def test_local_randomisers_are_parallel() -> None:
    users = Parallel(*(Laplace(f"user {i}", 1 / eps) for i in range(3)))
    assert outcome(PureDP(eps), users) == "proved"
    assert outcome(PureDP(eps * SMALLER), users) == "refuted"
