"""The standing adversary: 50 forgeries always, 10,500 in `make quality`; none is false."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Compose, Repeat
from dpaudit.families.opaque import ApproxDP
from dpaudit.families.sampling import PoissonSampled
from tests.cli.bench import TINY, Json, caught, certified, held, mechanism, pure, refuted
from tests.forger import Forger, Tried, attempt, is_signers_word
from tests.unit.test_check_adversary import allocated


def sampled() -> Json:
    """A Fourier sum: rounds of sampled noise."""
    node = Repeat(PoissonSampled(Gaussian("g", 4), 0.1), 8)
    return certified(mechanism("case", node, ApproxDP(2, TINY), adjacency="add_remove")).certificate


def mixed() -> Json:
    """A sum by closed transforms: normal with Laplace noise."""
    node = Compose(Gaussian("g", 4), Repeat(Laplace("l", 8), 2))
    return certified(mechanism("case", node, ApproxDP(2, TINY))).certificate


@cache
def forger(*, quick: bool) -> Forger:
    few = [held(), refuted()]
    return Forger(few if quick else [*few, caught(), pure(), allocated(), sampled(), mixed()])


def tried(seeds: range, *, quick: bool = False) -> list[Tried]:
    found = []
    for seed in seeds:
        honest, forged = forger(quick=quick).forge(seed)
        if honest != forged:
            found.append(attempt(honest, forged))
    return found


def judged(found: list[Tried]) -> Counter[str]:
    """Every accepted forgery is true, and changes nothing but what the signer answers for."""
    counted: Counter[str] = Counter()
    for one in found:
        if not one.accepted:
            counted["refused"] += 1
            continue
        assert one.claims_hold, one
        others = [name for name in one.fields if not is_signers_word(name)]
        counted["the signer's word" if not others else "true: " + ", ".join(others)] += 1
    return counted


# Changes besides the signer's word that leave a certificate true: every point of a curve, and every
# prior's posterior, is confirmed by itself, so that one may be left out, or stand there twice.
TRUE = {"true: derivation upper_bounds curve", "true: in_plain_words posterior"}


def test_no_forgery_of_50_states_a_falsehood() -> None:
    found = judged(tried(range(50), quick=True))
    assert found["refused"] > 25
    assert not [kind for kind in found if kind.startswith("true: ") and kind not in TRUE], found


@pytest.mark.quality
def test_no_forgery_of_10_000_states_a_falsehood() -> None:
    found = judged(tried(range(50, 10_550)))
    assert found["refused"] > 5_000
    assert not [kind for kind in found if kind.startswith("true: ") and kind not in TRUE], found
