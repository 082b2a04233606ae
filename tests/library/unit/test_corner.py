"""Delta just below the largest loss of several kinds of noise, from both sides."""

from __future__ import annotations

import math
import random
from fractions import Fraction as F
from typing import Any

import mpmath
import pytest

from dpaudit.accountant.account import account
from dpaudit.check.profile import conversions
from dpaudit.check.profile.cells import NotConfirmed
from dpaudit.check.profile.conversions import confirm_lower, confirm_upper
from dpaudit.check.profile.corner import corner_bound
from dpaudit.exact import exp
from dpaudit.families.additive import Laplace
from dpaudit.families.composition import Compose
from dpaudit.families.discrete import RandomizedResponse
from dpaudit.pairs import Atoms, LaplaceShift, Mixed, Normal, Pair, Swapped, product
from dpaudit.profiles import delta_interval
from dpaudit.profiles.grid import corner
from dpaudit.profiles.grid.corner import delta_at_corner
from dpaudit.scope import central

GAPS = [F(1, 2), F(1, 10), F(1, 10**3), F(1, 10**5), F(1, 10**9), F(1, 10**14)]
# Losses of which none is a multiple of another.
KINDS = [F(1), F(2, 3), F(3, 7), F(5, 4)]


def answers(epsilon: F) -> Pair:
    """Randomized response."""
    likely, unlikely = 1 / (1 + exp(-epsilon)), 1 / (1 + exp(epsilon))
    return Atoms(((likely, unlikely), (unlikely, likely)))


def laplaces(count: int, gap: F) -> Any:
    """delta at ``gap`` below the sum of the losses of Laplace noise, each above the gap.

    Half of P has the largest loss; the rest falls short of it by d with density exp(-d / 2) / 4:
    k of them together by a gamma law.
    """
    g, whole = mpmath.mpf(gap.numerator) / gap.denominator, mpmath.mpf(0)
    for k in range(count + 1):
        ways = mpmath.binomial(count, k) / mpmath.mpf(2) ** count
        if k == 0:
            whole += ways * -mpmath.expm1(-g)
            continue

        def density(d: Any, k: int = k) -> Any:
            shape = d ** (k - 1) * mpmath.exp(-d / 2) / (mpmath.mpf(2) ** k * mpmath.gamma(k))
            return shape * -mpmath.expm1(d - g)

        whole += ways * mpmath.quad(density, [0, g])
    return whole


def counted(losses: tuple[F, ...], times: tuple[int, ...], epsilon: Any) -> Any:
    """delta of answers given so often, over all counts of the less likely ones."""
    states = [(mpmath.mpf(1), mpmath.mpf(0))]
    for loss, often in zip(losses, times, strict=True):
        e = mpmath.mpf(loss.numerator) / loss.denominator
        p = 1 / (1 + mpmath.exp(-e))
        states = [
            (
                mass * mpmath.binomial(often, k) * p ** (often - k) * (1 - p) ** k,
                at + (often - 2 * k) * e,
            )
            for mass, at in states
            for k in range(often + 1)
        ]
    return mpmath.fsum(m * -mpmath.expm1(epsilon - at) for m, at in states if at > epsilon)


def holds(found: Any, truth: Any) -> bool:
    """Whether the truth is within the ends."""
    low, high = (mpmath.mpf(end.numerator) / end.denominator for end in (found.lower, found.upper))
    return bool(low <= truth <= high)


@pytest.mark.parametrize("gap", GAPS)
@pytest.mark.parametrize("count", [2, 4])
def test_both_ends_hold_the_closed_form_of_laplace_noise(count: int, gap: F) -> None:
    kinds = KINDS[:count] if gap < F(1, 2) else KINDS[:2] * (count // 2)
    pair = product([(LaplaceShift(epsilon), F(1)) for epsilon in kinds])
    with mpmath.workdps(40):
        found = delta_interval(pair, sum(kinds) - gap)
        assert holds(found, laplaces(count, gap))
        assert found.upper - found.lower <= found.upper / 1000


def test_ends_of_counted_answers() -> None:
    """Powers, and outcomes that fall short by less than the gap; 40 cases, seeded."""
    rng = random.Random(21)
    with mpmath.workdps(60):
        for _ in range(40):
            losses = tuple(F(rng.randint(50, 3000), 1000) for _ in range(rng.choice((2, 3))))
            times = tuple(rng.choice((1, 2, 7, 20)) for _ in losses)
            gap = F(repr(10 ** rng.uniform(-10, 0.5)))
            epsilon = sum(e * n for e, n in zip(losses, times, strict=True)) - gap
            if epsilon <= 0:
                continue
            parts = tuple((answers(e), n) for e, n in zip(losses, times, strict=True))
            found = delta_at_corner(parts, epsilon)
            truth = counted(losses, times, mpmath.mpf(epsilon.numerator) / epsilon.denominator)
            assert found is not None
            assert holds(found, truth), (losses, times, gap)


def test_account_answers_next_to_the_largest_loss() -> None:
    """[0, 8.2e-7] while nodes lay in the loss, where no grid holds both largest losses."""
    noise = Compose(Laplace("a", 1), Laplace("b", F(3, 2)))
    found = account(noise, central("replace_one")).delta(F(5, 3) - F(1, 10**6))
    assert F("2.4999999e-7") < found.lower <= found.upper < F("2.5000001e-7")
    mixed = Compose(Laplace("a", 3), RandomizedResponse("r", F(7, 10)))
    near = account(mixed, central("replace_one")).delta(F(1, 3) + F(7, 10) - F(1, 10**7))
    share = 1 / (1 + math.exp(-0.7)) / 2
    assert near.lower <= F(share * 1e-7 * (1 + 1e-7))
    assert near.upper >= F(share * 1e-7 * (1 - 1e-7))
    assert near.upper - near.lower < near.upper / 1000


PAIRS: dict[str, tuple[Pair, F]] = {
    "laplaces": (product([(LaplaceShift(F(1)), F(1)), (LaplaceShift(F(2, 3)), F(3))]), F(3)),
    "answers": (product([(answers(F(1)), F(4)), (LaplaceShift(F(2, 3)), F(1))]), F(14, 3)),
    "sampled": (
        product([(Swapped(Mixed(LaplaceShift(F(1)), F(1, 10))), F(2)), (answers(F(1)), F(1))]),
        # Of losses -log(1 - q + q exp(-1)), q = 1 / 10.
        F(repr(-2 * math.log1p(0.1 * math.expm1(-1)) + 1)),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("gap", [F(1, 10**2), F(1, 10**6), F(1, 10**11)])
def test_checker_agrees_and_refuses_what_is_beyond(name: str, gap: F) -> None:
    pair, top = PAIRS[name]
    parts = tuple((factor, int(times)) for factor, times in pair.factors)
    found = delta_at_corner(parts, top - gap)
    assert found is not None
    epsilon, shown = top - gap, found.upper_witness
    assert shown["form"] == "corner"
    assert confirm_lower(pair, epsilon, found.lower, shown)
    assert confirm_upper(pair, epsilon, found.upper, shown)
    assert not confirm_lower(pair, epsilon, found.upper * (1 + F(1, 10**6)), shown)
    assert not confirm_upper(pair, epsilon, found.lower * (1 - F(1, 10**6)), shown)


def test_checker_needs_its_own_corner(monkeypatch: pytest.MonkeyPatch) -> None:
    pair, top = PAIRS["laplaces"]
    found = delta_interval(pair, top - F(1, 10**6))

    def refused(*given: Any) -> None:
        raise NotConfirmed("taken away")

    monkeypatch.setattr(conversions, "corner_bound", refused)
    assert not confirm_lower(pair, top - F(1, 10**6), found.lower, found.lower_witness)
    assert not confirm_upper(pair, top - F(1, 10**6), found.upper, found.upper_witness)


def test_shortfalls_on_the_wrong_node_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is moved the other way lies on the other side of the truth."""
    right = corner._shortfalls
    monkeypatch.setattr(corner, "_shortfalls", lambda f, h, n, sign: right(f, h, n, -sign))
    monkeypatch.setattr("dpaudit.profiles.interval.require_order", lambda *ends: None)
    found = delta_at_corner(
        ((LaplaceShift(F(1)), 1), (LaplaceShift(F(2, 3)), 1)), F(5, 3) - F(1, 10)
    )
    assert found is not None
    with mpmath.workdps(40):
        assert not holds(found, laplaces(2, F(1, 10)))


def test_no_corner_where_losses_are_unbounded_or_roundings_too_many() -> None:
    normal, noise = (Normal(F(1)), 1), LaplaceShift(F(1, 10**6))
    assert delta_at_corner((normal, (noise, 1)), F(1)) is None
    assert delta_at_corner(((noise, 10**9),), F(999)) is None
    refused: list[tuple[list[tuple[Pair, int]], int]] = [
        ([(Normal(F(1)), 1), (noise, 1)], 64),
        ([(noise, 10**9), (answers(F(1)), 1)], 64),
        ([(noise, 10**9 - 1)], 64),
        ([(noise, 2)], 10**5),
    ]
    for factors, nodes in refused:
        with pytest.raises(NotConfirmed):
            corner_bound(factors, F(1, 10**7), nodes, 1)
