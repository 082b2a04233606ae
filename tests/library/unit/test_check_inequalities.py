"""The checker asks for conclusions that hold, whatever grids and searches the accountant used."""

from __future__ import annotations

import ast
import copy
import re
import time
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from dpaudit.certificate import certificate as writer
from dpaudit.certificate.certificate import step_rows, steps_of
from dpaudit.check.derivation import Value, rederive
from dpaudit.errors import CertificateRejected
from dpaudit.families.adaptive import Filter, Select
from dpaudit.families.adaptive import rules as adaptive
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Compose, Parallel, Repeat
from dpaudit.families.discrete import (
    DiscreteGaussian,
    DiscreteLaplace,
    RandomizedResponse,
    TruncatedDiscreteLaplace,
)
from dpaudit.families.discrete import rules as integers
from dpaudit.families.local import SubsetResponse
from dpaudit.families.opaque import GDP, ZCDP, ApproxDP, PureDP
from dpaudit.families.sampling import PoissonSampled, SampledWithoutReplacement
from dpaudit.families.selection import ExponentialMechanism, ReportNoisyMax
from dpaudit.families.selection import rules as selection
from dpaudit.families.stability import CoupledGaussian
from dpaudit.families.stability import rules as stability
from dpaudit.measures import calculus as calculus_module
from dpaudit.measures import convert, profile
from dpaudit.measures.calculus import CALCULI
from dpaudit.nodes import Node
from dpaudit.profiles.fourier import search
from tests.library.cli.bench import TINY, Json, accept, certified, mechanism, rejected, scope

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
        (search, "TAIL_SHARE"): 1e-5,
        (search, "CHECKER_ROOM"): 40,
        (convert, "_best_order"): lambda objective: Fraction(5),
    },
    "finer": {
        (writer, "PROFILE_POINTS"): 121,
        (writer, "TRADEOFF_POINTS"): 100,
        (writer, "RENYI_ORDERS"): tuple(range(2, 40)),
        (search, "TAIL_SHARE"): 1e-9,
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


# What the accountant keeps, draws and rounds, and another choice of each.
CHOICES: dict[str, dict[tuple[Any, str], Any]] = {
    "as they are": {},
    "coarser": {
        (profile, "MAX_ALTERNATIVES"): 3,
        (adaptive, "STAND_IN_RELEASES"): 16,
        (integers, "MAX_KINKS"): 16,
        (integers, "FAINT_EPSILON"): Fraction(1, 2**12),
        (selection, "MAX_KINKS"): 16,
        (selection, "TWO_CANDIDATES"): (Fraction(1, 3),),
        (stability, "TAIL_GRAIN"): Fraction(1, 10**12),
    },
    "finer": {
        (profile, "MAX_ALTERNATIVES"): 300,
        (adaptive, "STAND_IN_RELEASES"): 1_000,
        (integers, "MAX_KINKS"): 210,
        (integers, "FAINT_EPSILON"): Fraction(1, 2**34),
        (selection, "MAX_KINKS"): 160,
        (stability, "TAIL_GRAIN"): Fraction(1, 10**60),
    },
}
SEVERAL = [
    *(Laplace(f"l{i}", i + 2) for i in range(3)),
    *(RandomizedResponse(f"r{i}", Fraction(i + 1, 7), 3) for i in range(3)),
]
MANY = [DiscreteGaussian(f"g{i}", 40 + i) for i in range(70)]
CHOSEN: dict[str, Node] = {
    "wide noise on integers": DiscreteLaplace("d", 50, 300),
    "wide truncated noise": TruncatedDiscreteLaplace("t", 50, 5000, 200),
    "a faint answer": RandomizedResponse("r", Fraction(1, 10**9), 3),
    "a choice": ExponentialMechanism("e", 1),
    "a faint choice": ExponentialMechanism("e", Fraction(1, 10**9)),
    "a noisy maximum": ReportNoisyMax("m", 1, "gumbel"),
    "parts of parts": Compose(Parallel(*SEVERAL), Parallel(*MANY)),
    "one of many": Select(*SEVERAL, *MANY),
    "coupled noise": CoupledGaussian("c", 2, 1, 30, Fraction(1, 100)),
    "a spent budget": Filter(Laplace("l", 2), "zcdp", Fraction(1, 2)),
    "a small report": SubsetResponse("s", Fraction(1, 10**9), Fraction(1, 2), Fraction(1, 10)),
    "a faint report": SubsetResponse("f", Fraction(1, 10**10), Fraction(1, 2), Fraction(1, 10)),
}


# A finer choice changes nothing where an epsilon is faint anyway.
CHANGED = {
    "as they are": set(),
    "coarser": {*CHOSEN} - {"wide truncated noise", "a faint report"},
    "finer": {*CHOSEN} - {"a faint answer", "a small report"},
}


def rows_of(node: Node) -> list[tuple[str, list[Json]]]:
    """The steps of every calculus that has rules for a declaration."""
    found = []
    for name, calculus in CALCULI.items():
        if calculus.supports(node, scope()):
            found.append((name, step_rows(steps_of([calculus.fold(node, scope())]))))
    return found


@cache
def as_they_are() -> dict[str, dict[str, list[Json]]]:
    """Of every declaration, asked for before anything is changed."""
    return {name: dict(rows_of(node)) for name, node in CHOSEN.items()}


def confirmed(rows: list[Json], node: Node) -> list[Value]:
    predicate = {"derivation": {"steps": rows}, "scope": {"adjacency": "replace_one"}}
    return rederive(predicate, node)


@pytest.mark.quality
@pytest.mark.long_cases("as they are")
@pytest.mark.first_case
@pytest.mark.parametrize("choice", CHOICES)
def test_other_choices_of_the_accountant_are_confirmed(
    choice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the witness of the step; and the steps differ, so that there was something to confirm."""
    honest = as_they_are()
    calculus_module._of_leaf.cache_clear()
    for (module, constant), value in CHOICES[choice].items():
        monkeypatch.setattr(module, constant, value)
    for name, node in CHOSEN.items():
        other = dict(rows_of(node))
        for rows in other.values():
            confirmed(rows, node)
        assert (other != honest[name]) is (name in CHANGED[choice]), name
    calculus_module._of_leaf.cache_clear()


def test_what_a_witness_may_ask_for_is_limited() -> None:
    node = CHOSEN["a choice"]
    rows = dict(rows_of(node))["profile"]
    for wrong in (0, -1, 10**6, True, "128", 1.5):
        changed = copy.deepcopy(rows)
        changed[0]["witness"]["kinks"] = wrong
        with pytest.raises(CertificateRejected, match="expected a whole number from 1 to"):
            confirmed(changed, node)
    changed = copy.deepcopy(rows)
    changed[0]["witness"]["shares"] = ["3/2"]
    with pytest.raises(CertificateRejected, match="expected numbers below 1"):
        confirmed(changed, node)


@pytest.mark.parametrize(
    ("conclusion", "expression", "held"),
    [
        ("0.500000000000", "0.5", True),
        ("0.5", "1/2", True),
        ("0.5", "sqrt(4)/4", True),
        ("0.7", "0.7", True),  # larger, and true
        ("0.7", "0.5 <= 0.7", True),
        ("0.707106781187", "sqrt(2)/2 <= 0.707107", True),
        ("0.7", "<= 0.7", True),
        ("0.7", "E/4 <= 0.7", True),
        ("0.7", "pi/5 <= 0.7", True),
        ("0.5", "E/6", False),
        ("0.5", "pi/7", False),
        ("0.5", "0.4999999999999999999999999", False),
        ("0.5", "sqrt(2)/3", False),
        ("0.5", "0.5 <= 0.4", False),
        ("0.5", "0.51", False),  # another number than is concluded
        ("0.7", "0.7 <= 0.8", False),
        ("0.5", "os.system(1)", False),
        ("0.5", "0.5 if 1 else 2", False),
        ("0.5", "(0.5, 0.5)", False),
        ("0.5", "1/0", False),
        ("0.5", "x", False),
        ("0.499999999999", "0.5", False),
    ],
)
def test_a_conclusion_is_at_least_its_theorem(conclusion: str, expression: str, held: bool) -> None:
    """Words are read as arithmetic: any form of at least the bound will do."""
    node = GDP(Fraction(1, 2), source="Somebody 2020")
    rows = dict(rows_of(node))["gdp"]
    rows[0]["conclusion"]["mu"] = conclusion
    rows[0]["expression"] = expression
    if held:
        (value,) = confirmed(rows, node)
        own = Fraction(conclusion) == Fraction(1, 2)
        assert value.upper == (Fraction(1, 2) if own else Fraction(conclusion))
    else:
        with pytest.raises(CertificateRejected, match=r"not its (bound|value)"):
            confirmed(rows, node)


@pytest.mark.parametrize(
    "text",
    [
        "9**9**9**9",
        "2**-(9**9**9)",
        "exp(exp(exp(9999)))",
        "1e999999999",
        "(" * 400 + "1" + ")" * 400,
        "-" * 901 + "1",
        "0x10",
        "1_000",
        "1j",
        "sqrt(-1)",
        "log(0)",
        "sqrt(2, 3)",
        "alpha",
        "\ud800",
    ],
)
def test_a_text_that_asks_for_much_is_refused_at_once(text: str) -> None:
    started = time.process_time()
    node = GDP(Fraction(1, 2), source="Somebody 2020")
    rows = dict(rows_of(node))["gdp"]
    rows[0]["expression"] = text
    with pytest.raises(CertificateRejected):
        confirmed(rows, node)
    assert time.process_time() - started < 2


# Constants that a module of the checker and one of the accountant both name and set alike.
ALIKE = {
    "FALSE_POSITIVE_RATE": "the rate for which the certificate has a field",
    "MOST_FACTORS": "work that a stranger may ask for; a pair is never composed as often",
    "UNIT": "the round-off of a double",
}


@pytest.mark.quality
def test_the_checker_knows_no_choice_of_the_accountant(checkout: Path) -> None:
    """Numbers of the same name and value, one of which somebody copied, are none but these."""
    package = checkout / "dpaudit"
    names = ("accountant", "measures", "profiles", "grids", "pairs", "families")
    rooms = [package / name for name in names]
    checks = [*package.glob("check/**/*.py"), *package.glob("families/*/*theorem.py")]
    others = [file for room in rooms for file in room.rglob("*.py") if file not in checks]

    def constants(files: list[Path]) -> set[tuple[str, str]]:
        lines = [line for file in files for line in ast.parse(file.read_text()).body]
        named = [line for line in lines if isinstance(line, ast.Assign)]
        return {
            (target.id.strip("_"), ast.unparse(line.value).strip("'"))
            for line in named
            for target in line.targets
            if isinstance(target, ast.Name) and target.id.isupper()
        }

    numbers = {
        (name, value) for name, value in constants(checks) if re.search(r"[3-9]|[0-9]{2}", value)
    }
    shared = {name for name, value in numbers & constants(others)}
    assert shared | {"FALSE_POSITIVE_RATE"} == set(ALIKE)


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


@pytest.mark.long_cases("batches", "concentrated")
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.quality] * (n == "sampled")) for n in CASES]
)
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
