"""Poisson samples under replace_one: the coin is told, and the child's pair is what is left."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import comb, exp, prod
from typing import Any

import mpmath
import pytest

import dpaudit as dp
from dpaudit.check.profile.conversions import confirm_conversion
from dpaudit.errors import CertificateRejected, Unsupported
from dpaudit.exact import decimal_upper
from dpaudit.families.sampling import rules
from dpaudit.measures.profile import PROFILE
from dpaudit.pairs import Atoms, Branched, Drawn, LaplaceShift, Losses, Mixed, Normal
from dpaudit.scope import central
from tests.support.sampling import rederived

F = Fraction
REPLACE = central("replace_one")
NOTHING = Atoms(((F(1), F(1)),))
NOISE, RATE, ROUNDS = dp.Gaussian("g", 2), F(1, 20), 30
RUN = dp.Repeat(dp.PoissonSampled(NOISE, RATE), ROUNDS)


def told(epsilon: Any, size: int = 1) -> mpmath.mpf:
    """delta where the coins of a group are told: moves of |J_t| in rounds t, J_t binomial."""
    chances = {0: mpmath.mpf(1)}
    coins = {j: comb(size, j) * mpmath.mpf("0.05") ** j * mpmath.mpf("0.95") ** (size - j)
             for j in range(size + 1)}  # fmt: skip
    for _ in range(ROUNDS):
        more: dict[int, mpmath.mpf] = {}
        for squares, chance in chances.items():
            for j, coin in coins.items():
                more[squares + j * j] = more.get(squares + j * j, mpmath.mpf(0)) + chance * coin
        chances = more
    found = mpmath.mpf(0)
    for squares, chance in chances.items():
        if squares > 0:
            mu = mpmath.sqrt(squares) / 2
            below = mpmath.ncdf(-mu / 2 - epsilon / mu)
            found += chance * (mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * below)
    return found


def test_the_upper_end_is_what_one_record_that_tells_its_coins_comes_to() -> None:
    bound = dp.account(RUN, REPLACE).epsilon("1e-5")
    upper = float(bound.upper)
    assert told(upper) <= mpmath.mpf("1e-5") < told(upper * (1 - 1e-4))
    # A mixture in every round, at whatever number of others.
    mixed = dp.account(RUN, central("add_remove")).epsilon("1e-5")
    assert bound.lower == mixed.lower < bound.upper
    step = dp.account(RUN, REPLACE).converted("profile", F(1, 10**5))
    found = confirm_conversion(
        step.premises[0].value, F(1, 10**5), decimal_upper(step.value[0]), step.witness
    )
    assert found is not None
    assert (found.epsilon, found.reached) == (step.value[0], step.lower)
    assert found.doubt is None
    assert not found.reached_doubted


@pytest.mark.quality
def test_a_group_tells_how_many_of_it_came() -> None:
    bound = dp.account(dp.Group(RUN, 3), REPLACE).epsilon("1e-4")
    upper = float(bound.upper)
    assert told(upper, 3) <= mpmath.mpf("1e-4") < told(upper * (1 - 1e-3), 3)
    losses = PROFILE.fold(dp.Group(dp.PoissonSampled(NOISE, RATE), 3), REPLACE).value
    assert losses.reached_remove == (Drawn(F(1, 2), RATE, F(3)),)
    two = (F(1, 2), F(1, 2), NOTHING), (F(1, 2), F(1, 2), LaplaceShift(F(1)))
    half = dp.Group(dp.PoissonSampled(dp.Laplace("l", 1), F(1, 2)), 2)
    (pair,) = PROFILE.fold(half, REPLACE).value.remove
    quarter = F(1, 4)
    assert pair == Branched((
        (quarter, quarter, NOTHING),
        (F(1, 2), F(1, 2), LaplaceShift(F(1))),
        (quarter, quarter, LaplaceShift(F(2))),
    ))  # fmt: skip
    assert PROFILE.fold(half.child, REPLACE).value.remove == (Branched(two),)
    for node in (half, dp.Group(RUN, 3)):
        assert (
            rederived(node, "replace_one", PROFILE.fold(node, REPLACE)).upper
            == PROFILE.fold(node, REPLACE).value
        )
    with pytest.raises(Unsupported, match="up to 64"):
        PROFILE.fold(dp.Group(half.child, 65), REPLACE)


def excess(first: dict[Any, float], second: dict[Any, float], epsilon: float) -> float:
    return sum(max(p - exp(epsilon) * second[k], 0.0) for k, p in first.items())


def test_no_query_on_batches_shows_more() -> None:
    """Every query on the batches of up to two records that hold 0, 1 or 2, three values each."""
    q, chances = 0.3, (exp(1) / (exp(1) + 2), 1 / (exp(1) + 2))
    run = dp.PoissonSampled(dp.RandomizedResponse("r", 1, 3), F(3, 10))
    upper = {e: float(dp.account(run, REPLACE).delta(F(str(e))).upper) for e in (0.0, 0.2, 0.6)}

    def law(query: dict[Any, int], data: tuple[int, ...]) -> dict[int, float]:
        found = dict.fromkeys(range(3), 0.0)
        for coins in product((0, 1), repeat=len(data)):
            batch = tuple(sorted(x for x, c in zip(data, coins, strict=True) if c))
            weight = prod(q if c else 1 - q for c in coins)
            for answer in range(3):
                found[answer] += weight * chances[int(query[batch] != answer)]
        return found

    batches = [(), (0,), (1,), (0, 1), (0, 2), (1, 2), (2,), (0, 0), (1, 1), (2, 2)]
    worst = dict.fromkeys(upper, 0.0)
    for answers in product((0, 1, 2), repeat=5):
        query = dict.fromkeys(batches, 0)
        query.update(zip(batches[:5], answers, strict=True))
        query[1, 2] = 2
        for others in ((), (0,), (2,)):
            first, second = law(query, (0, *others)), law(query, (1, *others))
            for e, bound in upper.items():
                assert excess(first, second, e) <= bound * (1 + 1e-9)
                worst[e] = max(worst[e], excess(first, second, e))
    # Were the coin told, one record alone would show this.
    for e, bound in upper.items():
        assert bound == pytest.approx(q * (chances[0] - exp(e) * chances[1]), rel=1e-9)
    assert worst[0.0] > 0.99 * upper[0.0]


def test_what_is_reached_needs_batches_that_are_the_second_run() -> None:
    response = dp.PoissonSampled(dp.Parallel(NOISE, dp.Gaussian("h", 3)), RATE)
    placed: Losses = PROFILE.fold(response, REPLACE).value
    assert placed.reached == ()
    plain: Losses = PROFILE.fold(dp.PoissonSampled(NOISE, RATE), REPLACE).value
    sampled = Mixed(Normal(F(1, 2)), RATE)
    assert plain.reached_remove == (sampled,)
    assert plain.reached_add == (sampled.swapped,)
    every = PROFILE.fold(dp.PoissonSampled(NOISE, 1), REPLACE).value
    assert every == PROFILE.fold(NOISE, REPLACE).value


def test_amplification_that_is_proved_for_a_missing_record_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = dp.PoissonSampled(NOISE, RATE)
    step = PROFILE.fold(node, REPLACE)
    assert rederived(node, "replace_one", step).upper == step.value
    monkeypatch.setattr(rules, "seen", Mixed)
    cheaper = PROFILE.fold(node, REPLACE)
    with pytest.raises(CertificateRejected, match="do not dominate"):
        rederived(node, "replace_one", cheaper)
