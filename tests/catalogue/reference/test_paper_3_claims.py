"""Accelerated-DP-SRGD (2024): its corollaries, checked from tree declarations.

Zero-out record: one step's sum moves by C_clip / (B beta), so that ``multiplier`` below is
sigma B beta / C_clip; under replace_one it is half of that.  log2(T) as printed unless the reading
says otherwise; delta = exp(-L).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
import sympy

from dpaudit.exact.inequality import at_most
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Assuming
from dpaudit.families.correlated import CorrelatedGaussian, LowerTriangular
from dpaudit.families.events import EventSlack
from dpaudit.families.opaque import GDP, ApproxDP, NonPrivate
from dpaudit.measures.convert import gaussian_mu
from dpaudit.nodes import Assumption, Node, Status
from tests.support.claims import account, agrees, check, epsilon, mu, number, outcome, value

eps, L, B, beta, sigma = sympy.symbols("epsilon L B beta sigma", positive=True)
clip = sympy.Symbol("C_clip", positive=True)
T = sympy.Symbol("T", positive=True, integer=True)
more = sympy.Symbol("m", positive=True, integer=True)
LOG2 = sympy.log(T) / sympy.log(2)
DELTA = sympy.exp(-L)
CONSTANT = L + sympy.log(sympy.Rational(5, 2))  # log(2.5 / delta)
TARGET = eps / sympy.sqrt(2 * CONSTANT)
SMALLER = Fraction(999_999, 1_000_000)
ZERO_OUT = "zero_out"

# sigma B beta / C_clip, by reading.
MULTIPLIERS: dict[str, Any] = {
    "Cor. 5.7, as printed": sympy.sqrt(LOG2 * CONSTANT) / eps,
    "Cor. 5.7, natural logarithm": sympy.sqrt(sympy.log(T) * CONSTANT) / eps,
    "Cor. 5.7, a level restored": sympy.sqrt((1 + sympy.ceiling(LOG2)) * CONSTANT) / eps,
    "Cor. 5.7, sqrt 2 restored": sympy.sqrt(2 * LOG2 * CONSTANT) / eps,
    "Cor. 5.7, a factor 2 lost": 2 * sympy.sqrt(LOG2 * CONSTANT) / eps,
    "Lemma 5.6": sympy.sqrt(2 * (1 + sympy.ceiling(LOG2)) * CONSTANT) / eps,
    "Cor. 5.11": 2 * sympy.sqrt(2 * LOG2 * CONSTANT) / eps,
}


def tree(multiplier: Any, rounds: Any = T) -> Node:
    return CorrelatedGaussian("prefix sum", multiplier, rounds)


def at(reading: str, rounds: int, claimed: Any, delta: Any) -> Node:
    """The mechanism of a reading, in numbers."""
    values = {T: rounds, eps: Fraction(claimed), L: -sympy.log(sympy.Rational(delta))}
    return tree(MULTIPLIERS[reading].subs({k: sympy.sympify(v) for k, v in values.items()}), rounds)


# --- the theorem the code should claim -----------------------------------------------------------


@pytest.mark.first_case
@pytest.mark.parametrize(("adjacency", "moves"), [("zero_out", 1), ("replace_one", 2)])
def test_releasing_all_nodes_is_exactly_this_private(adjacency: str, moves: int) -> None:
    node = tree(sigma * B * beta / (moves * clip))
    exact = moves * clip * sympy.sqrt(sympy.floor(LOG2) + 1) / (B * beta * sigma)
    assert outcome(GDP(exact), node, adjacency) == "proved"
    assert outcome(GDP(exact * SMALLER), node, adjacency) == "refuted"
    levels = moves * clip * sympy.sqrt(sympy.ceiling(LOG2) + 1) / (B * beta * sigma)
    assert outcome(GDP(levels), node, adjacency, by="Lemma 5.6", reading="1 + ceil") == "proved"
    assert outcome(GDP(exact * 2), node, adjacency) == "proved"


def test_prefix_sums_of_a_tree_of_all_blocks_are_not_known_to_reach_it() -> None:
    """C is not square: the bound holds, and refutes nothing."""
    node = CorrelatedGaussian("prefix sum", 1, 16, "tree_honaker")
    assert outcome(GDP(sympy.sqrt(5)), node, ZERO_OUT) == "proved"
    assert outcome(GDP(2), node, ZERO_OUT) == "unproved"
    assert outcome(GDP(2), tree(1, 16), ZERO_OUT) == "refuted"


def fenwick(rounds: int) -> list[list[int]]:
    return [[int(m - (m & -m) < t <= m) for t in range(1, m + 1)] for m in range(1, rounds + 1)]


def test_clip_schedules() -> None:
    """A schedule scales the columns: C_0 = L costs nothing; C_t over the column norm keeps mu."""
    rows = fenwick(16)
    norms = [sum(row[t] for row in rows[t:]) for t in range(16)]
    assert (norms[0], max(norms[1:])) == (5, 4)

    def scheduled(clips: list[Any]) -> float:
        scaled = [[c * e for c, e in zip(clips, row, strict=False)] for row in rows]
        strategy = LowerTriangular(scaled)  # type: ignore[arg-type]
        return mu(CorrelatedGaussian("prefix sum", 1, 16, strategy), ZERO_OUT)

    assert scheduled([1] * 16) == pytest.approx(math.sqrt(5))
    for first, later in ((1, 1.1), (1, 1.2), (1, 3)):
        expected = math.sqrt(max(5 * first**2, 4 * later**2))
        assert scheduled([first] + [later] * 15) == pytest.approx(expected)
    even = [round((5 / n) ** 0.5, 12) for n in norms]
    assert scheduled(even) == pytest.approx(math.sqrt(5), rel=1e-9)
    ratios = [round((n / 5) ** 0.5, 3) for n in norms[:4]]
    assert ratios == [1, 0.894, 0.894, 0.775]


# --- the printed noise scales --------------------------------------------------------------------

TABLE = [
    ".5 1e-6 32   17.17 .581 1.05e-5   26.59 .364   48.55 .191   19.74",
    "1 1e-5 32    7.883 1.176 8.77e-5  12.21 .728   22.30 .377   9.138",
    "1 1e-6 32    8.582 1.224 2.69e-5  13.30 .764   24.28 .401   10.35",
    "1 1e-6 100   9.893 1.141 9.62e-6  15.35 .711   27.98 .374   11.18",
    "1 1e-6 1024  12.14 1.168 1.37e-5  18.00 .764   34.33 .383   14.01",
    "4 1e-6 100   2.473 5.277 1.53e-4  3.838 3.215  6.996 1.661  3.158",
    "8 1e-6 100   1.237 11.93 1.54e-3  1.919 7.073  3.498 3.566  1.728",
    "10 1e-6 32   .858 17.05 9.9e-3    1.330 9.962  2.427 4.937  1.325",
]


@pytest.mark.first_case
@pytest.mark.parametrize("row", TABLE)
def test_the_table_of_printed_noise(row: str) -> None:
    """Multiplier and exact epsilon: Corollary 5.7 fails its claim, the other two keep it."""
    claimed, delta, text, *printed, tight = row.split()
    rounds, (first, exact, loss, *others) = int(text), printed
    claim = ApproxDP(Fraction(claimed), Fraction(delta))
    for reading, multiplier, reached, verdict in (
        ("Cor. 5.7, as printed", first, exact, "refuted"),
        ("Lemma 5.6", *others[:2], "proved"),
        ("Cor. 5.11", *others[2:], "proved"),
    ):
        node = at(reading, rounds, claimed, delta)
        assert agrees(number(node.parameters["noise_multiplier"]), multiplier, units=1.01)
        assert agrees(epsilon(node, delta, ZERO_OUT), reached, units=1.01)
        assert outcome(claim, node, ZERO_OUT, reading=reading) == verdict
    broken = account(at("Cor. 5.7, as printed", rounds, claimed, delta), ZERO_OUT)
    assert agrees(float(broken.delta(Fraction(claimed)).upper), loss)
    levels = math.sqrt(rounds.bit_length())
    assert agrees(levels / float(gaussian_mu(Fraction(claimed), Fraction(delta))), tight)


@pytest.mark.quality
def test_corollary_5_7_misses_its_own_gaussian_target_at_every_t() -> None:
    """mu of the proof is eps / sqrt(2 log(2.5/delta)); the noise is short by sqrt 2 or more."""
    reading = "Cor. 5.7, as printed"
    refuted = check(GDP(TARGET), tree(MULTIPLIERS[reading]), ZERO_OUT, reading=reading)
    assert refuted.outcome == "refuted"
    assert int(refuted.values["T"]) >= 2
    derived = value(tree(MULTIPLIERS[reading]), "gdp", ZERO_OUT).subs(T, 1 + more)
    assert at_most(sympy.sqrt(2) * TARGET, derived, {})
    assert not at_most(sympy.Rational(3, 2) * TARGET, derived, {})
    for rounds, short in ((16, 1.58), (32, 1.55), (100, 1.55)):
        node = at(reading, rounds, 1, "1e-6")
        assert mu(node, ZERO_OUT) >= number(TARGET.subs({eps: 1, L: sympy.log(10**6)})) * 1.41
        lemma = at("Lemma 5.6", rounds, 1, "1e-6")
        ratio = lemma.parameters["noise_multiplier"] / node.parameters["noise_multiplier"]
        assert number(ratio) == pytest.approx(short, abs=0.006)


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("reading", ["Lemma 5.6", "Cor. 5.11"])
def test_the_other_two_meet_it_at_every_t(reading: str) -> None:
    """Cor. 5.11: mu is at most .7072 of the target; T up to 2^60."""
    node, ranges = tree(MULTIPLIERS[reading]), {T: (2, 2**60)}
    assert outcome(GDP(TARGET), node, ZERO_OUT, ranges=ranges) == "proved"
    share = Fraction(7072, 10_000)
    verdict = "proved" if reading == "Cor. 5.11" else "refuted"
    assert outcome(GDP(share * TARGET), node, ZERO_OUT, ranges=ranges) == verdict


@pytest.mark.quality
def test_corollary_5_11_with_a_natural_logarithm() -> None:
    """needed/printed <= .85."""
    node = tree(2 * sympy.sqrt(2 * sympy.log(T) * CONSTANT) / eps)
    share = Fraction(85, 100)
    assert outcome(GDP(share * TARGET), node, ZERO_OUT, ranges={T: (2, 2**60)}) == "proved"


FAILS = "refuted"
READINGS = [
    ("Cor. 5.7, as printed", "1e-6", 32, "0.05", "proved"),
    ("Cor. 5.7, as printed", "1e-6", 32, "0.06", FAILS),
    ("Cor. 5.7, as printed", "1e-6", 100, "0.15", "proved"),
    ("Cor. 5.7, as printed", "1e-6", 100, "0.16", FAILS),
    ("Cor. 5.7, as printed", "1e-6", 56_065_000, "0.21", "proved"),
    ("Cor. 5.7, as printed", "1e-6", 56_065_000, "0.22", FAILS),
    ("Cor. 5.7, as printed", "1e-6", 100, "20", FAILS),
    ("Cor. 5.7, natural logarithm", "1e-6", 32, "1", FAILS),
    ("Cor. 5.7, a level restored", "1e-6", 32, "1", FAILS),
    ("Cor. 5.7, a level restored", "1e-6", 1024, "1", FAILS),
    ("Cor. 5.7, sqrt 2 restored", "1e-6", 2, "1", FAILS),
    ("Cor. 5.7, sqrt 2 restored", "1e-6", 4, "1", "proved"),
    ("Cor. 5.7, sqrt 2 restored", "1e-6", 8, "4", FAILS),
    ("Cor. 5.7, sqrt 2 restored", "1e-6", 7, "4", "proved"),
    ("Cor. 5.7, sqrt 2 restored", "1e-6", 16, "4", "proved"),
    ("Cor. 5.7, sqrt 2 restored", "1e-6", 1024, "8", FAILS),
    ("Cor. 5.7, sqrt 2 restored", "1e-6", 4096, "8", FAILS),
    ("Cor. 5.7, sqrt 2 restored", "1e-6", 8192, "8", "proved"),
    ("Cor. 5.7, a factor 2 lost", "1e-6", 2, "8", "proved"),
    ("Cor. 5.7, a factor 2 lost", "1e-6", 1024, "8", "proved"),
]


@pytest.mark.parametrize(("reading", "delta", "rounds", "claimed", "verdict"), READINGS)
def test_where_each_reading_fails(
    reading: str, delta: str, rounds: int, claimed: str, verdict: str
) -> None:
    node = at(reading, rounds, claimed, delta)
    claim = ApproxDP(Fraction(claimed), Fraction(delta))
    assert outcome(claim, node, ZERO_OUT, reading=reading) == verdict


def test_a_level_restored_still_fails_at_almost_every_t() -> None:
    """(1, 1e-6): exact epsilon between 1.03 and 1.11."""
    for rounds in (2, 4, 8, 16, 31, 32, 64, 127, 1024, 2**20):
        found = epsilon(at("Cor. 5.7, a level restored", rounds, 1, "1e-6"), "1e-6", ZERO_OUT)
        assert 1.0 < found < 1.115


@pytest.mark.quality
def test_symbols_give_the_values_that_refute() -> None:
    """(eps, delta) with T and eps free in a range: values where it fails, or a proof."""
    ranges = {T: (2, 2**6), eps: (Fraction(1, 2), 8)}
    fixed = {L: sympy.log(10**6)}

    def verdict(reading: str) -> Any:
        node = tree(MULTIPLIERS[reading].subs(fixed))
        return check(ApproxDP(eps, Fraction("1e-6")), node, ZERO_OUT, ranges, reading=reading)

    broken = verdict("Cor. 5.7, as printed")
    assert broken.outcome == "refuted"
    values = {name: Fraction(text) for name, text in broken.values.items()}
    assert 2 <= values["T"] <= 2**6
    again = at("Cor. 5.7, as printed", int(values["T"]), values["epsilon"], "1e-6")
    assert epsilon(again, "1e-6", ZERO_OUT) > values["epsilon"]
    assert verdict("Cor. 5.7, natural logarithm").outcome == "refuted"
    assert verdict("Cor. 5.11").outcome == "proved"


@pytest.mark.parametrize(
    ("delta", "last", "first"),
    [("1e-5", "8.52", "8.54"), ("1e-6", "8.87", "8.89"), ("1e-9", "9.68", "9.70")],
)
def test_the_classical_calibration_has_an_end(delta: str, last: str, first: str) -> None:
    """mu = eps / sqrt(2 log(2.5/delta)) is (eps, delta/2)-DP up to about 8.53, 8.88, 9.69."""
    for claimed, verdict in ((last, "proved"), (first, "refuted")):
        loss = -sympy.log(sympy.Rational(delta)) + sympy.log(sympy.Rational(5, 2))
        node = Gaussian("a", sympy.sqrt(2 * loss) / sympy.Rational(claimed))
        claim = ApproxDP(Fraction(claimed), Fraction(delta) / 2)
        assert outcome(claim, node, ZERO_OUT) == verdict


MU_STAR = [
    ("0.1", "1e-6", "0.0275447"), ("0.5", "1e-5", "0.142211"), ("1", "1e-5", "0.268051"),
    ("1", "1e-6", "0.236704"), ("2", "1e-6", "0.448335"), ("4", "1e-6", "0.837859"),
    ("8", "1e-6", "1.531545"), ("1", "1e-9", "0.181975"),
]  # fmt: skip


@pytest.mark.parametrize(("claimed", "delta", "printed"), MU_STAR)
def test_calibrated_noise_delivers_its_claim(claimed: str, delta: str, printed: str) -> None:
    """sigma = C_clip sqrt(levels) / (B beta mu*): proved, and refuted a millionth tighter."""
    star = gaussian_mu(Fraction(claimed), Fraction(delta))
    assert agrees(float(star), printed)
    node = tree(sympy.sqrt(7) / star, 100)
    assert outcome(ApproxDP(Fraction(claimed), Fraction(delta)), node, ZERO_OUT) == "proved"
    tighter = ApproxDP(Fraction(claimed) * SMALLER, Fraction(delta))
    assert outcome(tighter, node, ZERO_OUT) == "refuted"


# --- without clipping ----------------------------------------------------------------------------


@pytest.mark.quality
def test_regime_a_rests_on_an_assumption_or_proves_nothing() -> None:
    """Lemma 5.5 holds with high probability over i.i.d. data: an assumption, and never silent."""
    multiplier = MULTIPLIERS["Cor. 5.11"]
    bare = NonPrivate("differences are not clipped: no bound on what one record moves")
    claim, ranges = GDP(TARGET), {T: (2, 2**60)}
    assert outcome(claim, bare, ZERO_OUT, by="Theorem 5.8") == "unproved"
    statement = "records are i.i.d. and differences stay below c_DP L (Lemma 5.5)"
    for status, verdict in ((Status.DECLARED, "proved"), (Status.VIOLATED, "unproved")):
        node = Assuming(tree(multiplier), Assumption("iid", statement, status))
        found = check(claim, node, ZERO_OUT, ranges, by="Theorem 5.8")
        assert found.outcome == verdict
        assert found.step is not None
        assert [a.id for a in found.step.assumptions()] == ["iid"]
    lower = Assuming(tree(multiplier), Assumption("iid", statement, Status.DECLARED))
    assert outcome(GDP(TARGET / 100), lower, ZERO_OUT) == "unproved"


def test_closeness_in_total_variation_costs_a_factor() -> None:
    """(eps, delta/2) within delta/2 is (eps, delta/2 + (1 + e^eps) delta/2), not (eps, delta)."""
    close = EventSlack(ApproxDP(eps, DELTA / 2), DELTA / 2, event="the noise is large")
    assert outcome(ApproxDP(eps, DELTA), close, ZERO_OUT, by="Cor. 5.7, proof") == "unproved"
    paid = DELTA / 2 + (1 + sympy.exp(eps)) * DELTA / 2
    assert outcome(ApproxDP(eps, paid), close, ZERO_OUT) == "proved"
    for claimed, factor in ((1, "2.36"), (4, "28"), (8, "1491")):
        assert agrees(number(sympy.simplify(paid / DELTA).subs(eps, claimed)), factor)
    rare = DELTA / (2 * (1 + sympy.exp(eps)))
    enough = EventSlack(ApproxDP(eps, DELTA / 2), rare, event="the noise is large")
    assert outcome(ApproxDP(eps, DELTA), enough, ZERO_OUT) == "proved"


SENSITIVITY = [
    ((10**4, 100, 1, ".25", 4, 50, "47.3407"), "0.490099", "0.010332", "6.00518", "0.013871"),
    ((65536, 256, 1, ".25", 4, 128, "61.3583"), "0.496109", "0.002043", "5.97791", "0.002389"),
    ((10**6, 1000, 1, "1", 2, 2000, "133.098"), "0.499001", "0.000290", "9.98585", "6.9e-5"),
]


@pytest.mark.parametrize(("setting", "a", "loss", "bound", "deviation"), SENSITIVITY)
def test_a_worst_case_sensitivity_proves_the_claim_without_clipping(
    setting: Any, a: str, loss: str, bound: str, deviation: str
) -> None:
    """C* = (L + 2 M D) / (1 - a - M kappa); (1, 1e-6) holds with the noise event paid for."""
    size, rounds, lipschitz, smooth_text, diameter, weight, spread_text = setting
    smooth, spread, batch = Fraction(smooth_text), Fraction(spread_text), size // rounds
    star = gaussian_mu(1, Fraction("5e-7"))
    assert agrees(float(star), "0.229087")
    growth = smooth * rounds * (rounds - 1) / ((rounds + 1) * weight)
    noisy = smooth * spread / (batch * weight * star)
    found = (lipschitz + 2 * smooth * diameter) / (1 - growth - noisy)
    for exact, printed in ((growth, a), (noisy, loss), (found, bound)):
        assert agrees(float(exact), printed)
    noise = found * sympy.sqrt(rounds.bit_length()) / (batch * weight * star)
    assert agrees(number(noise), deviation, units=0.6)
    node = EventSlack(
        tree(noise * batch * weight / found, rounds),
        Fraction("1e-6") / (2 * Fraction("3.7182818285")),
        event="some prefix noise is above b_max",
    )
    # Noise and event are calibrated to (1, 1e-6) to the last digit; the profile is 1e-4 wide.
    assert outcome(ApproxDP(Fraction("1.0001"), 1e-6), node, ZERO_OUT) == "proved"
    assert outcome(ApproxDP(1, 9e-7), node, ZERO_OUT) == "unproved"


# --- the literal constants, end to end -----------------------------------------------------------


def test_the_literal_constants_of_theorem_5_12() -> None:
    """n = 10^6, B = T = 1000, L = R = M = 1: mu = .092272, epsilon .36416 at 1e-6."""
    weight, deviation, radius = 24_000, Fraction("1.71356e-5"), 12
    node = tree(deviation * 1000 * weight / radius, 1000)
    assert agrees(mu(node, ZERO_OUT), "0.092272")
    assert agrees(epsilon(node, "1e-6", ZERO_OUT), "0.36416", units=1.1)
    slack = EventSlack(node, Fraction("1e-12") / 4000, event="some prefix noise is above b_max")
    assert outcome(ApproxDP(1, 1e-6), slack, ZERO_OUT, by="Theorem 5.12") == "proved"


def test_the_literal_constants_of_equation_19() -> None:
    """n = 10^10, delta = 1/n: the clipped run fails (1, 1e-10) on losses that saturate the clip.

    For Lipschitz smooth losses the same run moves by far less: mu below 6.5e-6.
    """
    deviation, weight, batch = Fraction("7.8504e-7"), Fraction("3.1433e10"), Fraction("178.4")
    rounds, clipped = 56_065_000, 177_292
    node = tree(deviation * batch * weight / clipped, rounds)
    assert agrees(mu(node, ZERO_OUT), "0.205398", units=60)
    assert abs(epsilon(node, "1e-10", ZERO_OUT) - 1.2149) < 4e-4
    reading = "clipped at c_DP L, arbitrary losses"
    assert outcome(ApproxDP(1, 1e-10), node, ZERO_OUT, by="Cor. 5.7", reading=reading) == "refuted"
    smooth = tree(deviation * batch * weight / Fraction("5.6"), rounds)
    assert mu(smooth, ZERO_OUT) <= 6.6e-6
    reading = "L-Lipschitz M-smooth losses, worst-case sensitivity, outside the noise event"
    claim = ApproxDP(1, Fraction(99, 10**12))
    assert outcome(claim, smooth, ZERO_OUT, by="Theorem 5.8", reading=reading) == "proved"
