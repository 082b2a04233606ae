"""Mixtures of normal noise that are seen: the checker's masses, compositions and closed forms.

Independent sources: Arb cell by cell, every outcome of a composition in 50 digits, quadrature in
30 digits.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import flint
import mpmath
import numpy as np
import pytest

from dpaudit.accountant.account import Account
from dpaudit.check.profile import noise as profile_noise
from dpaudit.check.profile.cells import BITS, Grid, NotConfirmed, ball
from dpaudit.check.profile.closed import delta_by, has_cases
from dpaudit.check.profile.conversions import confirm_conversion, confirm_upper
from dpaudit.check.profile.fourier import delta_bound
from dpaudit.check.profile.nodes import Nodes, lower_nodes, upper_nodes
from dpaudit.check.profile.onestep import cells, is_known
from dpaudit.check.profile.values import has_values
from dpaudit.exact import decimal_upper
from dpaudit.families.additive import Laplace
from dpaudit.families.composition import Compose, Repeat
from dpaudit.families.opaque import ZCDP
from dpaudit.families.stability import CoupledGaussian
from dpaudit.families.stability.rules import binomial
from dpaudit.families.stability.theorem import _rounded_tails
from dpaudit.measures.calculus import Step
from dpaudit.nodes import Node
from dpaudit.pairs import Atoms, Branched, LaplaceShift, Normal, Pair, largest, product
from dpaudit.profiles import delta_interval, epsilon_interval
from mechanisms.papers.user_level import catalogue
from mechanisms.papers.user_level.problem import USERS

F = Fraction
TOLD = Atoms(((F(1), F(0)), (F(0), F(1))))
COIN = Atoms(((F(3, 4), F(1, 4)), (F(1, 4), F(3, 4))))
SEEN = Branched(
    (
        (F(1, 2), F(1, 2), Normal(F(1, 3))),
        (F(1, 3), F(1, 3), Normal(F(4, 5))),
        (F(999, 6000), F(999, 6000), Normal(F(3, 2))),
        (F(1, 6000), F(1, 6000), TOLD),
    )
)


# --- masses --------------------------------------------------------------------------------------


def remainder(points: int, width: float, z: float, mu: float) -> float:
    """The stated bound of a rule's remainder, at the best of 200 radii."""
    n = points
    logs = 4 * math.lgamma(n + 1) - math.log(2 * n + 1) - 2 * math.lgamma(2 * n + 1)
    radii = np.geomspace(1e-3, 20, 200)
    found = np.log(2 * (width + radii)) + (2 * n - 1) * math.log(width) - 2 * n * np.log(radii)
    found += (radii + width) * z + radii**2 / 2 + width**2 + mu * (radii + width)
    return math.exp(logs + float(found.min()) + 2 * profile_noise.LARGEST_WIDTH)


@pytest.mark.parametrize(("points", "widest"), profile_noise.RULES)
def test_remainders_are_far_below_the_roundings_that_are_counted(
    points: int, widest: float
) -> None:
    for mu in (1e-4, 0.1, 1.0, 10.0, 100.0, 900.0):
        width = min(widest, min(widest, profile_noise.LARGEST_WIDTH) / mu)
        for z in (0.0, 1.0, 3.0, 8.0, 15.0, 25.0, profile_noise.FARTHEST):
            counted = 2.0**-53 * (128 + 16 * z * z)
            assert remainder(points, width, z, mu) < counted / 8, (mu, z)


@pytest.mark.parametrize("width", [0.05, 0.3, 1.1, 4.0])
@pytest.mark.parametrize("mu", [F(3, 8616), F(1, 50)])
def test_wide_cells_in_floats_are_those_in_arb(mu: Fraction, width: float) -> None:
    """Cells of up to four standard deviations, every one within the error that it states."""
    step = F(round(width * float(mu) * 2**40), 2**40)
    grid = Grid(step, 1e-40)
    with flint.ctx.workprec(BITS):
        noise = profile_noise.base_of(Normal(mu), grid.tail)
        first, last = profile_noise._nodes(noise, 1.0, grid)
        a, b, error = profile_noise._in_floats(noise, F(1), first, last, grid)
        usable = np.flatnonzero(np.isfinite(error))
        assert len(usable) > 0.9 * len(a) - 4
        assert error[usable].max() < 1e-10
        for k in usable[:: max(1, len(usable) // 40)]:
            known_a, known_b, spill = profile_noise._in_arb(noise, ball(1), first + int(k), grid)
            assert spill == 0
            assert abs(a[k] / known_a - 1) <= error[k]
            assert abs(b[k] / known_b - 1) <= error[k]


def value(nodes: Nodes, h: float, epsilon: float) -> float:
    losses = (nodes.first + np.arange(len(nodes.masses))) * h
    return float(nodes.infinite + nodes.masses @ np.maximum(0, -np.expm1(epsilon - losses)))


def exact(pair: Pair, epsilon: float) -> float:
    with flint.ctx.workprec(200):
        return float(delta_by(pair, ball(epsilon).exp()).mid())


@pytest.mark.first_case("pair", by=str)
@pytest.mark.parametrize("step", [F(1, 2048), F(1, 12)])
@pytest.mark.parametrize("pair", [SEEN, SEEN.swapped], ids=["away", "back"])
def test_one_step_lies_between_its_nodes(pair: Pair, step: Fraction) -> None:
    grid = Grid(step, 1e-20)
    found = cells(pair, grid)
    above, below = upper_nodes(found), lower_nodes(found, grid.h)
    for epsilon in np.linspace(-6, 9, 90):
        true = exact(pair, float(epsilon))
        slack = 1e-12 * true + 3e-16
        assert value(below, grid.h, epsilon) <= true + slack, epsilon
        assert value(above, grid.h, epsilon) >= true - slack, epsilon
        assert value(above, grid.h, epsilon) <= true + grid.h


def test_branches_too_light_for_cells_count_as_outside() -> None:
    light = F(1, 10**25)
    pair = Branched(((1 - light, 1 - light, Normal(F(1, 2))), (light, light, TOLD)))
    found = cells(pair, Grid(F(1, 100), 1e-20))
    assert found.infinite == (0.0, 0.0)
    above, below = upper_nodes(found), lower_nodes(found, 0.01)
    assert above.infinite >= 1e-25
    assert below.infinite == 0
    only = Branched(((F(1), F(1), Normal(F(1, 2))),))
    with pytest.raises(NotConfirmed, match="small masses"):
        cells(only, Grid(F(1, 100), 2.0))


# --- compositions --------------------------------------------------------------------------------


def gaussian(mu: Any, epsilon: Any) -> Any:
    cdf = mpmath.ncdf
    return cdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * cdf(-mu / 2 - epsilon / mu)


def test_branches_that_are_equally_likely_have_the_mean_of_their_profiles() -> None:
    pair = Branched(tuple((F(1, 2), F(1, 2), Normal(F(mu))) for mu in (1, 2)))
    grid = Grid(F(1, 512), 1e-25)
    found = cells(pair, grid)
    assert max(*found.below, *found.above) < 1e-20
    above = delta_bound([(upper_nodes(found), 1)], grid.step, 2.0, F(1), 1)
    true = sum(
        math.erfc((1 / mu - mu / 2) / math.sqrt(2)) / 4
        - math.e * math.erfc((1 / mu + mu / 2) / math.sqrt(2)) / 4
        for mu in (1, 2)
    )
    assert true <= float(above) <= true * 1.001


def test_cases_of_a_product_in_a_branch_share_its_masses() -> None:
    inside = product([(TOLD, 1), (Normal(F(3)), 1), (LaplaceShift(F(1, 2)), 1)])
    pair = Branched(((F(1, 4), F(1, 2), inside), (F(3, 4), F(1, 2), Normal(F(1)))))
    found = [(case.p, case.q, case.square, case.epsilon) for case in pair.cases]
    assert [sum(case[side] for case in found) for side in (0, 1)] == [1, 1]
    assert found[-1] == (F(3, 4), F(1, 2), 1, 0)
    assert {case[2:] for case in found[:-1]} == {(9, F(1, 2))}


def enumerated(pair: Branched, times: int, epsilon: Fraction) -> float:
    """delta of a composition by every sequence of branches, in 50 digits."""
    with mpmath.workdps(50):
        at, total = mpmath.mpf(epsilon.numerator) / epsilon.denominator, mpmath.mpf(0)
        for chosen in itertools.product(pair.branches, repeat=times):
            mass = mpmath.mpf(1)
            for p, _, _ in chosen:
                mass *= mpmath.mpf(p.numerator) / p.denominator
            if any(base == TOLD for *_, base in chosen):
                total += mass
                continue
            square = sum(base.mu**2 for *_, base in chosen if isinstance(base, Normal))
            total += mass * gaussian(
                mpmath.sqrt(mpmath.mpf(square.numerator) / square.denominator), at
            )
        return float(total)


@pytest.mark.first_case
@pytest.mark.parametrize("times", [1, 2, 4])
def test_compositions_are_bounded_as_enumerated(times: int) -> None:
    grid = Grid(F(1, 1024), 1e-30)
    found = cells(SEEN, grid)
    for epsilon in (F(0), F(1, 2), F(2), F(5)):
        true = enumerated(SEEN, times, epsilon)
        above = delta_bound([(upper_nodes(found), times)], grid.step, 1.0, epsilon, 1)
        below = delta_bound([(lower_nodes(found, grid.h), times)], grid.step, 1.0, epsilon, -1)
        assert float(below) <= true * (1 + 1e-12)
        assert true <= float(above) * (1 + 1e-12)
        assert float(above - below) < 1e-6


def test_branches_that_move_the_loss_have_no_cells() -> None:
    pair = Branched(((F(1, 3), F(1, 2), Normal(F(1))), (F(2, 3), F(1, 2), Normal(F(2)))))
    assert not is_known(pair)
    with pytest.raises(NotConfirmed):
        cells(pair, Grid(F(1, 100), 1e-20))
    assert has_values(pair)


# --- closed forms --------------------------------------------------------------------------------

MIXED = product([(SEEN, F(1)), (LaplaceShift(F(3, 2)), F(1)), (COIN, F(1))])
PRODUCTS: dict[str, Pair] = {
    "mixture": MIXED,
    "with more noise": product([(MIXED, F(1)), (Normal(F(1, 4)), F(1))]),
    "little noise": product(
        [(Branched(((F(1), F(1), Normal(F(1, 50))),)), F(1)), (LaplaceShift(F(1, 2)), F(1))]
    ),
    "without Laplace": product([(SEEN, F(1)), (COIN, F(1))]),
    "losses move": product(
        [
            (Branched(((F(1, 4), F(1, 2), Normal(F(1))), (F(3, 4), F(1, 2), TOLD))), F(1)),
            (LaplaceShift(F(1)), F(1)),
        ]
    ),
    "no normal noise": product(
        [(Branched(((F(1), F(1), Normal(F(0))),)), F(1)), (LaplaceShift(F(1)), F(1))]
    ),
}


def number(value: Fraction) -> Any:
    return mpmath.mpf(value.numerator) / value.denominator


def noise_by_quadrature(square: Fraction, e: Fraction, epsilon: Any) -> Any:
    """Laplace noise's own atoms and density of losses, against the normal pair's profile."""
    if square == 0:
        e_value = number(e)
        return max(mpmath.mpf(0), 1 - mpmath.exp(epsilon), 1 - mpmath.exp((epsilon - e_value) / 2))
    mu = mpmath.sqrt(number(square))
    if e == 0:
        return gaussian(mu, epsilon)
    largest_loss = number(e)
    ends = gaussian(mu, epsilon - largest_loss) / 2
    ends += mpmath.exp(-largest_loss) * gaussian(mu, epsilon + largest_loss) / 2
    cuts = [-largest_loss, *(epsilon + k * mu for k in range(-6, 7, 3)), largest_loss]
    inside = sorted(min(max(cut, -largest_loss), largest_loss) for cut in cuts)

    def density(u: Any) -> Any:
        return mpmath.exp((u - largest_loss) / 2) / 4 * gaussian(mu, epsilon - u)

    parts = [mpmath.quad(density, [a, b]) for a, b in itertools.pairwise(inside) if b > a]
    return ends + mpmath.fsum(parts)


def choices(pair: Pair) -> Iterator[tuple[Fraction, Fraction, Fraction, Fraction]]:
    """Masses under P and Q, mu^2, and Laplace's epsilon, of every choice of branches and atoms."""
    lists = []
    for factor, _ in pair.factors:
        if isinstance(factor, Branched):
            lists.append(
                [(p * a, q * b, s, e) for p, q, m in factor.branches for a, b, s, e in choices(m)]
            )
        elif isinstance(factor, Atoms):
            lists.append([(p, q, F(0), F(0)) for p, q in factor.outcomes])
        elif isinstance(factor, Normal):
            lists.append([(F(1), F(1), factor.mu**2, F(0))])
        else:
            assert isinstance(factor, LaplaceShift)
            lists.append([(F(1), F(1), F(0), factor.epsilon)])
    for chosen in itertools.product(*lists):
        p, q = (math.prod((c[k] for c in chosen), start=F(1)) for k in (0, 1))
        yield p, q, sum((c[2] for c in chosen), F(0)), sum((c[3] for c in chosen), F(0))


def by_quadrature(pair: Pair, epsilon: Fraction) -> Any:
    total = mpmath.mpf(0)
    for p, q, square, e in choices(pair):
        if p and not q:
            total += number(p)
        elif p:
            at = number(epsilon) + mpmath.log(number(q) / number(p))
            total += number(p) * noise_by_quadrature(square, e, at)
    return total


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_with_branches_are_sums_of_integrals(name: str) -> None:
    """Quadrature in 30 digits at two epsilons, of the form that accountant and checker share."""
    pair = PRODUCTS[name]
    assert has_cases(pair)
    for epsilon in (F(0), F(9, 10)):
        with mpmath.workdps(30):
            true = by_quadrature(pair, epsilon)
            with flint.ctx.workprec(300):
                found = mpmath.mpf(delta_by(pair, ball(epsilon).exp()).mid().str(40, radius=False))
            assert abs(found - true) <= mpmath.mpf(10) ** -25
            held = delta_interval(pair, epsilon)
            slack = mpmath.mpf(10) ** -25
            assert number(held.lower) - slack <= true <= number(F(held.upper)) + slack
        assert held.upper - held.lower <= F(1, 10**11) * held.upper
        assert held.method == "closed form"


def test_an_epsilon_of_a_tested_mean_is_exact_and_confirmed() -> None:
    false_pass = Atoms(((F(1, 10**9), F(0)), (F(0), F(1, 10**9)), (1 - F(1, 10**9),) * 2))
    pair = largest([MIXED, false_pass])
    found = epsilon_interval(pair, F(1, 100))
    assert found.upper - found.lower < F(1, 10**9)
    assert confirm_upper(pair, F(found.upper), F(1, 100), found.upper_witness)
    assert not confirm_upper(
        pair, F(found.lower) * (1 - F(1, 10**8)), F(1, 100), {"form": "closed"}
    )


def test_many_cases_are_left_to_sums_on_a_grid() -> None:
    many = Branched(tuple((F(1, 40), F(1, 40), Normal(F(k + 1, 9))) for k in range(40)))
    other = Branched(tuple((F(1, 30), F(1, 30), Normal(F(k + 1, 7))) for k in range(30)))
    assert not has_cases(product([(many, F(1)), (other, F(1))]))
    assert not has_cases(product([(many, F(2)), (LaplaceShift(F(1)), F(1))]))
    two = product([(many, F(1)), (LaplaceShift(F(1)), F(1)), (LaplaceShift(F(2)), F(1))])
    assert not has_cases(two)
    assert not has_values(product([(many, F(1)), (LaplaceShift(F(1)), F(1))]))


# --- certificates --------------------------------------------------------------------------------


def converted(node: Node, delta: Fraction) -> Step:
    return Account(node, USERS).converted("profile", delta)


def confirmed(step: Step, delta: Fraction, epsilon: Fraction) -> bool:
    """Whether the checker confirms this epsilon by the step's witness."""
    shown = decimal_upper(epsilon)
    rows = [dict(row, value=shown) for row in step.witness["upper"]]
    witness = {"upper": rows, "lower": []}
    return confirm_conversion(step.premises[0].value, delta, shown, witness) is not None


NODES: dict[str, tuple[Node, Fraction]] = {
    "test and 19 rounds": (catalogue.user_level_accelerated_sgd_paper.declaration, F(1, 10**8)),
    "rounds alone": (Repeat(CoupledGaussian("a", 300, 2, 5_000, F(6, 5_000)), 30), F(1, 10**6)),
    "coarse coins": (Repeat(CoupledGaussian("a", 9, 2, 12, F(1, 3)), 4), F(1, 10**5)),
    "certain coins": (Repeat(CoupledGaussian("a", 9, 2, 3, 1), 4), F(1, 10**5)),
}


@pytest.mark.first_case
@pytest.mark.parametrize("name", NODES)
def test_binomial_mixtures_are_confirmed_and_smaller_epsilons_refused(name: str) -> None:
    node, delta = NODES[name]
    step = converted(node, delta)
    epsilon = F(step.value[0])
    assert confirmed(step, delta, epsilon)
    assert not confirmed(step, delta, epsilon * F(995, 1000))


def test_small_losses_of_opaque_steps_are_confirmed() -> None:
    """Twenty rho-zCDP steps of 1e-7 after Laplace noise: bounds at points, over 0.01 of loss."""
    node = Compose(Laplace("a", 2), Repeat(ZCDP(F(1, 10**7)), 20))
    step = converted(node, F(1, 10**9))
    assert confirmed(step, F(1, 10**9), F(step.value[0]))
    assert not confirmed(step, F(1, 10**9), F(1, 2))


@pytest.mark.parametrize(
    ("trials", "rate"),
    [
        (0, F(1, 2)),
        (3, F(1, 2)),
        (40, F(1, 7)),
        (3, F(1)),
        (20_000, F(3, 10_000)),
        (5, F(1, 10**9)),
    ],
)
def test_the_checkers_tails_are_the_accountants(trials: int, rate: Fraction) -> None:
    weights = binomial(trials, rate)
    tails = itertools.islice(_rounded_tails(trials, rate, 10**40), len(weights) - 1)
    assert (
        list(tails) == [sum(weights[k + 1 :], F(0)) for k in range(len(weights) - 1)][: trials + 1]
    )
