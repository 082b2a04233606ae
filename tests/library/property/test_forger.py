"""The standing adversary: 50 forgeries always, 11,000 and more in `make quality`: none false."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import pytest

import dpaudit.check as check
from dpaudit.check import claims
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Compose, Repeat
from dpaudit.families.opaque import ApproxDP
from dpaudit.families.sampling import PoissonSampled
from tests.library.cli.bench import TINY, Json, caught, certified, held, mechanism, pure, refuted
from tests.library.unit.test_check_adversary import allocated
from tests.support.forger import Forger, Tried, all_of, attempt, kind_of, remembered
from tests.support.forgeries_page import LONG, MOST, PAGE, page, tried

FINE = {"refused", "true", "the signer's word"}


def sampled() -> Json:
    """A Fourier sum: rounds of sampled noise."""
    node = Repeat(PoissonSampled(Gaussian("g", 4), 0.1), 8)
    return certified(mechanism("case", node, ApproxDP(2, TINY), adjacency="add_remove")).certificate


def mixed() -> Json:
    """A sum by closed transforms: normal with Laplace noise."""
    node = Compose(Gaussian("g", 4), Repeat(Laplace("l", 8), 2))
    return certified(mechanism("case", node, ApproxDP(2, TINY))).certificate


@cache
def forger() -> Forger:
    return Forger([held(), refuted(), caught(), pure(), allocated(), sampled(), mixed()])


def judged(found: list[Tried]) -> Counter[str]:
    """Every accepted forgery is true, or changes nothing but what the signer answers for."""
    counted = Counter(map(kind_of, found))
    wrong = [one for one in found if kind_of(one) not in FINE]
    assert not wrong, (len(wrong), wrong[:3])
    return counted


@pytest.mark.long("makes seven certificates and alters fifty")
def test_no_forgery_of_50_states_a_falsehood() -> None:
    """Of the fields of two certificates and the ways to change them, spread evenly."""
    counted = judged([forgery for _, _, forgery in tried(shares=10)])
    assert counted["refused"] > 35


@pytest.mark.quality
def test_no_forgery_of_500_states_a_falsehood() -> None:
    """Every field, changed in every way, of two certificates; the page of them is as it was."""
    found = tried()
    assert len(found) == MOST
    counted = judged([one for _, _, one in found])
    assert counted["refused"] > 350
    assert PAGE.read_text("utf-8") == page(found), "run `python -m tests.support.forgeries_page`"


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("module", "name", "part", "made"),
    [(claims, "_verdict", "claims", refuted), (check, "check_conformance", "conformance", caught)],
)
def test_a_checker_that_does_not_check_is_caught(
    module: Any, name: str, part: str, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without what it guards, falsehoods get through, and the forger says so."""
    given = {"_verdict": lambda claim, value, case: claim.row["verdict"]}
    monkeypatch.setattr(module, name, given.get(name, lambda predicate, root: None))
    found = [one for _, _, one in all_of({"one": made()}, 60, only=part)]
    assert any(kind_of(one) not in FINE for one in found)


SHARES = 6  # so that workers can divide them


def every_field(part: int = 0, of: int = 1) -> list[tuple[str, str, Tried]]:
    """Every change of every field, of seven certificates; or a share of them, dealt in turn."""
    certificates = {str(n): c for n, c in enumerate(forger().honest)}
    return list(all_of(certificates, part=part, of=of))


def at_random(part: int = 0, of: int = 1) -> list[Tried]:
    """One to three changes at once."""
    found = []
    with remembered(sealed=True):
        for seed in range(50 + part, 10_550, of):
            honest, forged = forger().forge(seed)
            if honest != forged:
                found.append(attempt(honest, forged))
    return found


@pytest.mark.quality
@pytest.mark.parametrize("part", range(SHARES))
def test_no_forgery_of_every_field_states_a_falsehood(part: int) -> None:
    """Some 17,000."""
    found = [one for _, _, one in every_field(part, SHARES)]
    assert judged(found)["refused"] > 0.7 * len(found)
    assert len(found) > 12_000 / SHARES


@pytest.mark.quality
@pytest.mark.parametrize("part", range(SHARES))
def test_no_forgery_of_10_000_states_a_falsehood(part: int) -> None:
    found = at_random(part, SHARES)
    assert judged(found)["refused"] > 5_000 / SHARES


@pytest.mark.quality
def test_the_page_lists_the_long_run() -> None:
    """Its rows add up, and nothing but refusals, truths and the signer's word is there."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.read_text("utf-8").partition(LONG)[2].splitlines()
        if line.startswith("| ")
    ]
    tables = [k for k, row in enumerate(rows) if row[0] == "field"]
    assert len(tables) == 2
    for start, end in zip(tables, [*tables[1:], len(rows)], strict=True):
        *parts, whole = [[int(cell) for cell in row[1:]] for row in rows[start + 1 : end]]
        assert whole == [sum(column) for column in zip(*parts, strict=True)]
        assert whole[0] == sum(whole[1:])
    assert [int(rows[k - 1][1]) for k in (tables[1], 0)] >= [5_000, 10_000]
