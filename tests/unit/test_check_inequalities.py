"""The checker asks for conclusions that hold, whatever grids and searches the accountant used."""

from __future__ import annotations

import copy
from fractions import Fraction
from functools import partial
from typing import Any

import pytest

from dpaudit.certificate import certificate as writer
from dpaudit.certificate.certificate import step_rows
from dpaudit.check.derivation import rederive
from dpaudit.errors import CertificateRejected
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Compose, Repeat
from dpaudit.families.opaque import GDP, ZCDP, ApproxDP, PureDP
from dpaudit.families.sampling import PoissonSampled, SampledWithoutReplacement
from dpaudit.measures import convert
from dpaudit.measures.calculus import CALCULI
from dpaudit.nodes import Node
from dpaudit.profiles.fourier import search
from tests.cli.bench import TINY, Json, accept, certified, mechanism, rejected, scope

CASES: dict[str, tuple[Node, tuple[Node, ...], str]] = {
    "normal": (
        Compose(Gaussian("a", 2), Gaussian("b", 3)),
        (GDP(1), ApproxDP(4, TINY)),
        "replace_one",
    ),
    "mixed": (
        Compose(Gaussian("a", 4), Repeat(Laplace("l", 8), 2)),
        (ApproxDP(3, TINY),),
        "replace_one",
    ),
    "sampled": (
        Repeat(PoissonSampled(Gaussian("g", 4), 0.1), 8),
        (ApproxDP(3, TINY),),
        "add_remove",
    ),
    "batches": (
        Repeat(SampledWithoutReplacement(Laplace("l", 2), 5, 50), 3),
        (ApproxDP(3, TINY), PureDP(9)),
        "replace_one",
    ),
    "concentrated": (
        ZCDP(Fraction(1, 8), source="Somebody 2020"),
        (ApproxDP(4, TINY),),
        "replace_one",
    ),
}
GRIDS: dict[str, dict[tuple[Any, str], Any]] = {
    "as they are": {},
    "coarser": {
        (writer, "PROFILE_POINTS"): 9,
        (writer, "TRADEOFF_POINTS"): 7,
        (writer, "RENYI_ORDERS"): (3, 50),
        (search, "CUT"): 1e-5,
        (search, "CHECKER_ROOM"): 40,
        (convert, "_best_order"): lambda objective: Fraction(5),
    },
    "finer": {
        (writer, "PROFILE_POINTS"): 121,
        (writer, "TRADEOFF_POINTS"): 100,
        (writer, "RENYI_ORDERS"): tuple(range(2, 40)),
        (search, "CUT"): 1e-9,
        (convert, "_best_order"): lambda objective: Fraction(61, 7),
    },
}


def made(name: str) -> Json:
    node, claims, adjacency = CASES[name]
    return certified(mechanism("case", node, *claims, adjacency=adjacency)).certificate


@pytest.mark.quality
@pytest.mark.parametrize("grids", GRIDS)
@pytest.mark.parametrize("name", CASES)
def test_other_grids_verify(name: str, grids: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for (module, constant), value in GRIDS[grids].items():
        monkeypatch.setattr(module, constant, value)
    accept(made(name))


def lowered(text: str) -> str:
    """The last digit of a decimal lowered by one."""
    digits, exponent, power = text.partition("e")
    whole, point, decimals = digits.partition(".")
    size = len(decimals)
    number = int(whole + decimals) - 1
    shown = f"{number:0{size + 1}d}"
    return (f"{shown[:-size]}.{shown[-size:]}" if point else shown) + exponent + power


def lower(predicate: Json, number: int, key: str) -> None:
    """A step's number, where its claim and its witness repeat it too.

    A sum leaves room: a little less may still be true, and is then confirmed.
    """
    row = predicate["derivation"]["steps"][number]
    old, sides = row["conclusion"][key], row["witness"].get("upper", [])
    sums = any("tilt" in side for side in sides)
    new = f"{float(old) * 0.99:.9g}" if sums else lowered(old)
    for side in sides:
        side.update({name: new for name in ("value", "epsilon") if side.get(name) == old})
    if row["witness"].get("epsilon") == old:
        row["witness"]["epsilon"] = new
    row["conclusion"][key] = new
    row["expression"] = row["expression"].replace(old, new)
    for claim in predicate["claims"]:
        if claim["step"] == number:
            claim["upper"] = copy.deepcopy(row["conclusion"])
    for bound in predicate["derivation"]["upper_bounds"]:
        bound.update({key: new} if bound.get(key) == old else {})


@pytest.mark.parametrize("name", CASES)
def test_a_conclusion_lowered_by_its_last_digit_does_not(name: str) -> None:
    certificate = made(name)
    numbers = [
        (number, key)
        for number, step in enumerate(certificate["predicate"]["derivation"]["steps"])
        for key, text in step["conclusion"].items()
        if key in ("epsilon", "rho", "mu") and text not in ("0", "inf")
    ]
    assert numbers
    for number, key in numbers:
        assert rejected(certificate, partial(lower, number=number, key=key))


@pytest.mark.parametrize("orders", [(1, 2), (2, 2), (4, 2), (2, 5000)])
def test_orders_of_a_curve_are_above_one_and_rise(
    orders: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "RENYI_ORDERS", orders)
    steps = step_rows([CALCULI["rdp"].fold(Gaussian("a", 2), scope())])
    predicate = {"derivation": {"steps": steps}, "scope": {"adjacency": "replace_one"}}
    with pytest.raises(CertificateRejected, match="rising orders"):
        rederive(predicate, Gaussian("a", 2))
