"""Certificates of shuffled reports, last iterates and searches: the checker alone confirms them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from dpaudit.check.theorem import THEOREMS
from dpaudit.errors import CertificateRejected
from dpaudit.exact import exp
from dpaudit.families.additive import Gaussian
from dpaudit.families.discrete import RandomizedResponse
from dpaudit.families.iterates import LastIterate
from dpaudit.families.local import Shuffled
from dpaudit.families.opaque import ZCDP, ApproxDP
from dpaudit.families.tuning import Tuned
from dpaudit.nodes import Node
from dpaudit.pairs import Clones, Losses
from tests.library.cli.bench import accept, certified, mechanism

POINT = Fraction(1, 10**5)
OTHER = Clones(Fraction(2), (exp(2) + 1) / (exp(2) + 2), 2 / (exp(2) + 2), Fraction(998))


def fewer_reports(node: Any, base: Losses) -> Losses:
    """What the checker would say of one report less."""
    return Losses((OTHER,), (OTHER,), (OTHER,), (OTHER,))


CASES: dict[str, tuple[Node, tuple[str, str], Any]] = {
    "shuffled": (
        Shuffled(RandomizedResponse("poll", 2, 3), 1000),
        ("profile", "Shuffled"),
        fewer_reports,
    ),
    "last iterate": (
        LastIterate("model", 9, 1000, Fraction(99, 100), 4),
        ("gdp", "LastIterate"),
        lambda node: Fraction(5),
    ),
    "search": (
        Tuned(Gaussian("run", 5), Fraction(1, 10)),
        ("profile", "Tuned"),
        lambda node, base: base,
    ),
    "search by divergences": (
        Tuned(ZCDP(Fraction(1, 50), source="one run"), Fraction(1, 10)),
        ("profile", "Tuned"),
        lambda node, base: base,
    ),
}


@pytest.mark.long_cases("shuffled", "search by divergences")
@pytest.mark.parametrize("name", CASES)
def test_the_checker_accepts_the_certificate_and_no_other_theorem_s(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, key, other = CASES[name]
    found = certified(mechanism("case", node, ApproxDP(4, POINT))).certificate
    assert accept(found)
    monkeypatch.setitem(THEOREMS, key, replace(THEOREMS[key], bound=other))
    with pytest.raises(
        CertificateRejected, match=r"does not follow|is not its bound|do not dominate"
    ):
        accept(found)
