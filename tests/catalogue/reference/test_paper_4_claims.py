"""DIFF2 (Murata, Suzuki 2023): its propositions, from declarations with symbols and with numbers.

Replace-one record, full transcript.  Client p averages n_p clipped records, P clients are averaged:
a restart moves by 2 C1 / (n_p P), a difference by 2 C2 / (n_p P), and the noise is sigma times the
radius, so that z = sigma n_p P / 2.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
import sympy

from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Compose, Parallel, Repeat
from dpaudit.families.opaque import GDP, ZCDP, ApproxDP, RenyiDP
from dpaudit.families.sampling import SampledWithoutReplacement
from dpaudit.measures.renyi import order
from dpaudit.nodes import Node
from tests.support.claims import (
    account,
    agrees,
    check,
    epsilon,
    mu,
    number,
    outcome,
    two_sided,
    value,
)

eps, L, w, P = sympy.symbols("epsilon L w P", positive=True)
n1, n2, n3 = sympy.symbols("n1 n2 n3", positive=True)
s1, s2, C = sympy.symbols("sigma1 sigma2 C", positive=True)
N1, N2 = sympy.symbols("N1 N2", positive=True, integer=True)
DELTA = sympy.exp(-L)
ALPHA = 1 + sympy.ceiling(2 * L / eps)
CLAIM = 1 / Fraction("0.577350269")


def diff2(first: Any, second: Any, restarts: Any, differences: Any) -> Node:
    """DIFF2-GD of one client, from its noise multipliers."""
    return Compose(
        Repeat(Gaussian("gradient", first), restarts),
        Repeat(Gaussian("difference", second), differences),
    )


def proposition_4_1(size: Any = n1) -> Node:
    """sigma_1^2 = 4 u alpha N1 / (N^2 eps), sigma_2^2 = 4 u/(u-1) alpha N2 / (N^2 eps).

    Here u = 1 + w.
    """
    total = (n1 * P) ** 2 * eps
    first = sympy.sqrt(4 * (1 + w) * ALPHA * N1 / total)
    second = sympy.sqrt(4 * (1 + w) / w * ALPHA * N2 / total)
    return diff2(first * size * P / 2, second * size * P / 2, N1, N2)


# --- DIFF2-GD ------------------------------------------------------------------------------------


def test_the_closed_form_of_diff2_gd() -> None:
    """mu = 2/(n_min P) sqrt(N1/sigma1^2 + N2/sigma2^2)."""
    node = diff2(s1 * n1 * P / 2, s2 * n1 * P / 2, N1, N2)
    expected = 2 / (n1 * P) * sympy.sqrt(N1 / s1**2 + N2 / s2**2)
    assert sympy.simplify(value(node, "gdp") ** 2 - expected**2) == 0
    assert outcome(GDP(expected), node) == "proved"
    assert outcome(GDP(expected * Fraction(999, 1000)), node) == "refuted"
    assert outcome(ZCDP(expected**2 / 2), node) == "proved"
    assert outcome(ZCDP(expected**2 / 2 - Fraction(1, 10**9)), node) == "refuted"


@pytest.mark.quality
def test_the_smallest_client_decides() -> None:
    """A run is as private as it is for the client of the fewest records."""
    clients = [diff2(s1 * n * P / 2, s2 * n * P / 2, N1, N2) for n in (n1, n2, n3)]
    smallest = sympy.Min(n1, n2, n3)
    expected = 2 / (smallest * P) * sympy.sqrt(N1 / s1**2 + N2 / s2**2)
    assert outcome(GDP(expected), Parallel(*clients)) == "proved"
    other = 2 / (n1 * P) * sympy.sqrt(N1 / s1**2 + N2 / s2**2)
    assert outcome(GDP(other), Parallel(*clients)) == "refuted"
    sizes = {n1: (20, 50), n2: (50, 90), n3: (50, 90)}
    assert outcome(GDP(other * Fraction(1001, 1000)), Parallel(*clients), ranges=sizes) == "proved"


def test_proposition_4_1_in_symbols() -> None:
    """The claim holds for every u, T, R, n, P, epsilon and delta; the order's share is eps/2."""
    node = proposition_4_1()
    assert outcome(ApproxDP(eps, DELTA), node) == "proved"
    assert outcome(RenyiDP(ALPHA, eps / 2), node) == "proved"
    assert outcome(RenyiDP(ALPHA, eps / 2 * Fraction(999, 1000)), node) == "refuted"
    for guarantee in (GDP(sympy.sqrt(eps / ALPHA)), ZCDP(eps / (2 * ALPHA))):
        assert outcome(guarantee, node) == "proved"
    assert outcome(ZCDP(eps / (2 * ALPHA) * Fraction(999, 1000)), node) == "refuted"
    larger = check(ApproxDP(eps, DELTA), proposition_4_1(n2))
    assert larger.outcome == "refuted"
    assert Fraction(larger.values["n2"]) < Fraction(larger.values["n1"])


@pytest.mark.parametrize(
    ("claimed", "alpha", "exact", "renyi"),
    [("0.5", 48, "0.34833", "0.38362"), ("1", 25, "0.72552", "0.79431"),
     ("3", 9, "2.34143", "2.54122"), ("5", 6, "3.94002", "4.25961"),
     ("10", 4, "7.51128", "8.07836")],
)  # fmt: skip
def test_totals_of_proposition_4_1(claimed: str, alpha: int, exact: str, renyi: str) -> None:
    """One number per (epsilon, delta); the claim (3, 1e-5) holds, and is exactly 2.34143."""
    values = {eps: Fraction(claimed), L: sympy.log(10**5), w: Fraction(1, 4), N1: 4, N2: 16}
    node = proposition_4_1().bind({**values, n1: 20, P: 2})
    assert sympy.simplify(value(node, "gdp") ** 2 - sympy.Rational(claimed) / alpha) == 0
    assert agrees(epsilon(node, "1e-5"), exact)
    opened = account(node)
    assert agrees(float(opened.converted("zcdp", Fraction("1e-5")).value[0]), renyi)
    assert outcome(ApproxDP(Fraction(claimed), 1e-5), node) == "proved"
    last = Fraction(1, 10 ** len(exact.partition(".")[2]))
    assert outcome(ApproxDP(Fraction(exact) + last, 1e-5), node) == "proved"
    assert outcome(ApproxDP(Fraction(exact) - last, 1e-5), node) == "refuted"


def test_the_prose_of_section_3_reads_otherwise() -> None:
    """Noise variance sigma_2^2 C (C not squared): the claim fails where C > 1, and only there."""
    squared = Gaussian("difference", s2 * n1 * P / 2)
    printed = Gaussian("difference", s2 * sympy.sqrt(C) / C * n1 * P / 2)
    claim = GDP(2 / (n1 * P * s2))
    assert outcome(claim, squared, reading="variance sigma_2^2 C^2 (Algorithm 1)") == "proved"
    prose = "variance sigma_2^2 C (prose)"
    refuted = check(claim, printed, reading=prose)
    assert refuted.outcome == "refuted"
    assert Fraction(refuted.values["C"]) > 1
    small = {C: (Fraction(1, 1000), Fraction(999, 1000))}
    assert outcome(claim, printed, reading=prose, ranges=small) == "proved"


def test_tuning_if_every_run_were_charged() -> None:
    """50 and 1,000 runs at the constants of (3, 1e-5)."""
    for runs, printed in ((50, "25.1"), (1000, "243.6")):
        node = Repeat(Gaussian("run", sympy.sqrt(3)), runs)
        assert agrees(epsilon(node, "1e-5"), printed)
        assert value(node, "zcdp") == Fraction(runs, 6)


def test_a_client_is_not_a_record() -> None:
    """Record noise seen as client noise: mu grows by n_p; California's smallest client: 953."""
    client = diff2(s1 * P / 2, s2 * P / 2, N1, N2)
    record = diff2(s1 * n1 * P / 2, s2 * n1 * P / 2, N1, N2)
    assert sympy.simplify(value(client, "gdp") / value(record, "gdp")) == n1
    assert round(1651 * (3 / 9) ** 0.5) == 953


# --- implementations that are wrong: the true guarantee of each ----------------------------------

Z1, Z2 = CLAIM * sympy.sqrt(5), CLAIM * sympy.sqrt(80)  # four restarts: 80%, sixteen differences


@pytest.mark.parametrize(
    ("bug", "node", "total", "exact"),
    [
        ("sound", diff2(Z1, Z2, 4, 16), "0.57735", "2.341"),
        ("missing factor 2", diff2(Z1 / 2, Z2 / 2, 4, 16), "1.1547", "5.175"),
        ("std / sqrt 2", diff2(Z1 / sympy.sqrt(2), Z2 / sympy.sqrt(2), 4, 16), "0.8165", "3.467"),
        ("std / 1.2", diff2(Z1 / Fraction("1.2"), Z2 / Fraction("1.2"), 4, 16), "0.693", "2.876"),
        ("clients' mean clipped", diff2(Z1 / 20, Z2 / 20, 4, 16), "11.55", "115"),
        ("server's mean clipped", diff2(Z1 / 40, Z2 / 40, 4, 16), "23.1", "364"),
        ("differences not clipped, 3 times rougher", diff2(Z1, Z2 / 3, 4, 16), "0.931", "4.03"),
        ("differences not clipped, 10 times rougher", diff2(Z1, Z2 / 10, 4, 16), "2.633", "14.1"),
        ("sigmas swapped", diff2(Z2, Z1, 4, 16), "1.0408", "4.585"),
        ("sigma_1 in every round", diff2(Z1, Z1, 4, 16), "1.1547", "5.175"),
        ("the largest client's size", diff2(Z1 / 3, Z2 / 3, 4, 16), "1.732", "8.39"),
    ],
)
def test_planted_bugs(bug: str, node: Node, total: str, exact: str) -> None:
    """Every bug refutes the exact mu; one of them hides below the claim (3, 1e-5)."""
    assert agrees(mu(node), total)
    assert agrees(epsilon(node, "1e-5"), exact)
    claimed = outcome(ApproxDP(3, 1e-5), node)
    hidden = float(exact) < 3
    assert claimed == ("proved" if hidden else "refuted")
    assert outcome(GDP(Fraction("0.57736")), node) == ("proved" if bug == "sound" else "refuted")


def test_a_round_too_few_is_invisible_in_many() -> None:
    """floor(R/T) restarts charged, ceil(R/T) made: R=20, T=19 and R=2000, T=6."""
    share = Fraction(4, 5)
    for made, rounds, charged, total in ((2, 20, 1, "0.7723"), (334, 2000, 333, "0.578009")):
        first = sympy.sqrt(3 * charged / share)
        second = sympy.sqrt(3 * (rounds - charged) / (1 - share))
        assert agrees(mu(diff2(first, second, made, rounds - made)), total)


# --- DIFF2-BVR: local steps on secret batches ----------------------------------------------------


def local(multiplier: Any, batch: Any, size: Any, steps: Any) -> Node:
    """Local steps of one client: a fresh batch without replacement in each."""
    step = SampledWithoutReplacement(Gaussian("local", multiplier), batch, size)
    return Repeat(step, steps)


@pytest.mark.quality
def test_the_two_sided_local_profile() -> None:
    """Setting 5.2: [1.5575, 1.5751], where the Renyi route says 2.456."""
    node = Compose(Gaussian("full batch", 3), local(Fraction("5.8467"), 8, 40, 40))
    lower, upper = two_sided(node, "1e-5")
    assert 1.5575 <= lower <= upper <= 1.5751
    opened = account(node)
    assert agrees(float(opened.converted("rdp", Fraction("1e-5")).value[0]), "2.456")
    assert outcome(ApproxDP(Fraction("1.5751"), 1e-5), node) == "proved"
    assert outcome(ApproxDP(Fraction("1.5575"), 1e-5), node) == "refuted"
    assert outcome(ApproxDP(Fraction("1.566"), 1e-5), node) == "unproved"


TABLE_B = [
    ((1651, 10, 2000, 20, 10, 3, 13, "3.634161e-3", "1.584094e-2", ".5652669"),
     "2.2027", "1.9060", "1.9146"),
    ((10000, 10, 500, 10, 10, 3, 80, "4.242641e-4", "1.272792e-3", ".09185587"),
     "2.0739", "1.8766", "1.8790"),
    ((10000, 10, 500, 10, 10, 1, 10, "1.224745e-3", "3.674235e-3", "1.224745"),
     "0.6383", "0.5814", "0.5816"),
    ((100000, 4, 400, 10, 20, 3, 800, "9.486833e-5", "2.846050e-4", "9.185587e-3"),
     "2.2167", "1.9095", "1.9189"),
]  # fmt: skip


@pytest.mark.quality
@pytest.mark.long_cases("setting0-2.2027-1.9060-1.9146", "setting1-2.0739-1.8766-1.8790")
@pytest.mark.first_case
@pytest.mark.parametrize(("setting", "renyi", "lower", "upper"), TABLE_B)
def test_proposition_e_2(setting: Any, renyi: str, lower: str, upper: str) -> None:
    """The closed form delivers its claim; what is reached is within .01 of the upper bound."""
    size, clients, rounds, every, steps, claimed, batch, *sigmas = setting
    restarts, turns = -(-rounds // every), -(-rounds // clients)
    first, second, third = map(Fraction, sigmas)
    server = diff2(first * size * clients / 2, second * size * clients / 2,
                   restarts, rounds - restarts)  # fmt: skip
    node = Compose(server, local(third * batch / 2, batch, size, (steps - 1) * turns))
    assert outcome(ApproxDP(claimed, 1e-5), node) == "proved"
    below, above = two_sided(node, "1e-5")
    assert float(lower) - 6e-5 <= below <= above <= float(upper) + 6e-5
    opened = account(node)
    assert agrees(float(opened.converted("rdp", Fraction("1e-5")).value[0]), renyi)


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("alpha", "share", "multiplier", "lemma_7", "lemma_8", "sharper"),
    [(9, "0.005", 30, "3.153922e-6", "2.139195e-5", "5.006151e-7"),
     (9, "0.01", 6, "7.388039e-5", "2.401356e-4", "5.106169e-5"),
     (6, "0.01", 10, "2.036678e-5", "9.748652e-5", "1.208854e-5"),
     (48, "0.001", 15, "1.182043e-6", "4.845110e-6", "4.283799e-7")],
)  # fmt: skip
def test_renyi_claims_of_one_local_step(
    alpha: int, share: str, multiplier: int, lemma_7: str, lemma_8: str, sharper: str
) -> None:
    """Lemmas B.7 and B.8 (with its own c) hold; the sharper theorem gives the printed number."""
    node = SampledWithoutReplacement(Gaussian("local", multiplier), Fraction(share) * 10**6, 10**6)
    derived = value(node, "rdp").subs(order(), alpha)
    assert agrees(number(derived), sharper)
    for claimed in (lemma_7, lemma_8):
        assert outcome(RenyiDP(alpha, Fraction(claimed)), node) == "proved"
    assert outcome(RenyiDP(alpha, Fraction(sharper) / 2), node) == "unproved"
