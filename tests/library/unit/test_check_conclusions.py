"""Every step states its conclusion, pairs of distributions too, and a larger one stands.

Of every shipped type of node, in every calculus that has a rule for it, each number of the
conclusion is lowered by its last digit (exact numbers by 10^-12), with words and pairs alike.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
import sympy

from dpaudit.certificate.certificate import step_rows, steps_of
from dpaudit.check.derivation import Value, rederive
from dpaudit.check.measures import MEASURES
from dpaudit.check.pairs import concluded
from dpaudit.errors import CertificateRejected, InvalidParameter
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Compose, Repeat
from dpaudit.families.sampling import (
    PoissonSampled,
)
from dpaudit.measures.calculus import CALCULI
from dpaudit.nodes import Leaf, Node, postorder
from dpaudit.nodes.registry import load
from dpaudit.pairs import (
    Atoms,
    Branched,
    Concentrated,
    LaplaceShift,
    Largest,
    Losses,
    Mixed,
    Normal,
    Product,
    Renyi,
    Spliced,
    Swapped,
    from_wire,
)
from dpaudit.pairs.core import dominating as dominates
from dpaudit.profiles import delta_interval
from tests.library.cli.bench import Json, scope
from tests.support.every_node import IN_NUMBERS, G


def rows_of(node: Node, adjacency: str) -> Iterator[list[Json]]:
    asked = scope(adjacency=adjacency)
    for calculus in CALCULI.values():
        if calculus.name in MEASURES and calculus.supports(node, asked):
            yield step_rows(steps_of([calculus.fold(node, asked)]))


def confirmed(rows: list[Json], node: Node, adjacency: str) -> list[Value]:
    return rederive({"derivation": {"steps": rows}, "scope": {"adjacency": adjacency}}, node)


def lowered(text: str) -> str:
    """The last digit of a decimal lowered by one."""
    digits, exponent, power = text.partition("e")
    size = len(digits.partition(".")[2])
    shown = f"{int(Fraction(digits) * 10**size) - 1:0{size + 1}d}"
    return (f"{shown[:-size]}.{shown[-size:]}" if size else shown) + exponent + power


def numbers_in(conclusion: Json) -> Iterator[Json]:
    """The conclusion with one of its decimals lowered, each in its turn."""
    for key in ("epsilon", "delta", "rho", "mu", "value"):
        if conclusion.get(key, "0") not in ("0", "inf"):
            yield conclusion | {key: lowered(conclusion[key])}
    for place, (order, text) in enumerate(conclusion.get("curve", [])):
        if text not in ("0", "inf"):
            changed = copy.deepcopy(conclusion)
            changed["curve"][place] = [order, lowered(text)]
            yield changed


def parameters(table: Any) -> Iterator[tuple[Any, Any]]:
    """Where the numbers of a wire form are: (what holds it, its key)."""
    inside = table.items() if isinstance(table, dict) else enumerate(table)
    for key, value in inside:
        if key == "pair":
            continue
        if isinstance(value, dict) or key in ("list", "remove", "add"):
            yield from parameters(value)
        else:
            yield table, key


def smaller_pairs(conclusion: Json) -> Iterator[Json]:
    """The conclusion with one parameter of its pairs a little smaller, each in its turn."""
    for place in range(len(list(parameters(conclusion.get("pairs", {}))))):
        changed = copy.deepcopy(conclusion)
        held, key = list(parameters(changed["pairs"]))[place]
        held[key] = ["Add", held[key], "-1/1000000000000"]
        if isinstance(held[key][1], str):
            smaller = Fraction(held[key][1]) - Fraction(1, 10**12)
            held[key] = f"{smaller.numerator}/{smaller.denominator}"
        yield changed


def text_of(pairs: Json, own: Losses) -> str:
    remove, add, slack = from_wire(pairs)
    return replace(own, remove=remove, add=add, slack=slack).text


def test_every_shipped_type_of_node_is_here() -> None:
    load("node")
    tested = {type(inner) for node, _ in IN_NUMBERS for inner in postorder(node)}
    kinds, pending = set(), [Node]
    while pending:
        kind = pending.pop()
        pending += kind.__subclasses__()
        if kind.__module__.startswith("dpaudit.families.") and kind is not Leaf:
            kinds.add(kind)
    assert kinds - tested == set()


@pytest.mark.parametrize(
    ("node", "adjacency"), IN_NUMBERS, ids=[type(n).__name__ for n, _ in IN_NUMBERS]
)
def test_a_conclusion_lowered_by_its_last_digit_is_refused(node: Node, adjacency: str) -> None:
    folds = list(rows_of(node, adjacency))
    assert folds
    tried = 0
    for rows in folds:
        values = confirmed(rows, node, adjacency)
        for place, row in enumerate(rows):
            changes = [(c, row["expression"]) for c in numbers_in(row["conclusion"])]
            for changed in smaller_pairs(row["conclusion"]):
                text = row["expression"]
                if isinstance(values[place].upper, Losses):
                    text = text_of(changed["pairs"], values[place].upper)
                changes.append((changed, text))
            if not changes and row["expression"].endswith(
                ")"
            ):  # pairs too long to write: their digest
                changes.append((row["conclusion"], f"{row['expression'][:-2]}g)"))
            for changed, text in changes:
                forged = [*rows[:place], row | {"conclusion": changed, "expression": text}]
                tried += 1
                with pytest.raises(CertificateRejected, match=f"step {place} "):
                    confirmed(forged, node, adjacency)
    assert tried


# --- larger pairs stand ---------------------------------------------------------------------------


def stated(pair: Any) -> Json:
    found = Losses((pair,), (pair.swapped,)).to_wire()
    assert found is not None
    return json.loads(json.dumps(found))


def test_a_larger_pair_stands_for_itself_and_steps_after_it_rest_on_it() -> None:
    node = Compose(Gaussian("a", 2), Gaussian("b", 2))
    (rows,) = (rows for rows in rows_of(node, "replace_one") if rows[0]["calculus"] == "profile")
    leaf = Losses((Normal(Fraction(3, 5)),), (Normal(Fraction(3, 5)),))

    def with_pairs(place: int, mu: Any) -> Json:
        return rows[place] | {
            "conclusion": {"measure": "pairs", "pairs": stated(Normal(mu))},
            "expression": replace(leaf, remove=(Normal(mu),), add=(Normal(mu),)).text,
        }

    # Of the leaf 1/2 is reached; it is said to be 3/5, so that two are sqrt(0.72) and no less.
    loose = with_pairs(0, Fraction(3, 5))
    loose["expression"] = "Normal(mu=0.6); reached: Normal(mu=0.5)"
    second = loose | {key: rows[1][key] for key in ("id", "node", "node_text")}
    for mu, held in (("0.85", True), ("0.848528137424", True), ("0.848528137423", False)):
        last = with_pairs(2, Fraction(mu))
        last["expression"] = f"Normal(mu={mu}); reached: Normal(mu=sqrt(2)/2)"
        if held:
            value = confirmed([loose, second, last], node, "replace_one")[-1]
            assert value.upper.remove == (Normal(Fraction(mu)),)
            assert value.upper.reached_remove == (Normal(sympy.sqrt(2) / 2),)
        else:
            with pytest.raises(CertificateRejected, match="do not dominate"):
                confirmed([loose, second, last], node, "replace_one")


N1, N2 = Normal(Fraction(1)), Normal(Fraction(3, 2))
L1, L2 = LaplaceShift(Fraction(1, 2)), LaplaceShift(Fraction(1))
COIN = Atoms(((Fraction(3, 4), Fraction(1, 4)), (Fraction(1, 4), Fraction(3, 4))))
HALF, ONE = Fraction(1, 2), Fraction(1)
ORDERED = [
    (N2, N1),
    (L2, L1),
    (Concentrated(HALF), Concentrated(Fraction(1, 8))),
    (Renyi(Fraction(4), HALF), Renyi(Fraction(4), Fraction(1, 4))),
    (Mixed(N2, HALF), Mixed(N1, Fraction(1, 3))),
    (Swapped(Mixed(N1, HALF)), Swapped(Mixed(N1, Fraction(1, 3)))),
    (Largest((L2, N2)), Largest((L1, N1))),
    (Largest((Normal(Fraction(2)), N2)), N1),
    (Spliced(N2, N2), Spliced(N1, N1)),
    (
        Product(((L2, Fraction(3)), (N1, Fraction(1)))),
        Product(((L1, Fraction(2)), (N1, Fraction(1)))),
    ),
    (
        Branched(((HALF, HALF, N2), (HALF, HALF, L1))),
        Branched(((HALF, HALF, N1), (HALF, HALF, L1))),
    ),
]


@pytest.mark.long_cases("Concentrated")
@pytest.mark.parametrize(("more", "less"), ORDERED, ids=[type(m).__name__ for m, _ in ORDERED])
def test_what_dominates_has_the_larger_profile(more: Any, less: Any) -> None:
    """The accountant's numerics, of which the checker knows nothing, agree in both directions."""
    assert dominates(more, less)
    assert not dominates(less, more)
    for one, other in ((more, less), (more.swapped, less.swapped)):
        assert dominates(one, other)
        for epsilon in (0, HALF, 1, 2):
            below, above = delta_interval(other, epsilon), delta_interval(one, epsilon)
            assert below.lower <= above.upper, epsilon


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (N1, L1),
        (Mixed(N1, Fraction(3, 2)), Mixed(N1, HALF)),
        (Renyi(Fraction(5), HALF), Renyi(Fraction(4), HALF)),
        (Product(((L2, Fraction(9)),)), Product(((L1, Fraction(2)), (COIN, Fraction(1))))),
        (Normal(sympy.oo), N1),
        (Normal((Fraction(9),)), N1),
        (Normal(N2), N1),
        (Branched(((HALF, Fraction(1), N2),)), Branched(((HALF, HALF, N1),))),
    ],
)
def test_what_is_not_seen_to_dominate_is_refused(one: Any, other: Any) -> None:
    assert not dominates(one, other)


@pytest.mark.parametrize(
    "change",
    [
        {"remove": []},
        {"remove": "Normal"},
        {"remove": ["1/2"]},
        {"add": [{"pair": "Normal"}]},
        {"add": [{"pair": "Pair"}]},
        {"add": [{"pair": "Symmetric"}]},
        {"add": [{"pair": "Normal", "mu": "1/2", "more": "1/2"}]},
        {"add": [{"pair": ["Normal"], "mu": "1/2"}]},
        {"add": [{"pair": "Normal", "mu": "__import__('os')"}]},
        {"add": [{"pair": "Normal", "mu": {"list": []}}]},
        {"slack": "-1/2"},
        {"slack": None},
        {"else": 1},
    ],
)
def test_pairs_of_another_form_are_refused(change: Json) -> None:
    node = Gaussian("a", 2)
    (rows,) = (rows for rows in rows_of(node, "replace_one") if rows[0]["calculus"] == "profile")
    rows[0]["conclusion"]["pairs"] |= change
    with pytest.raises((CertificateRejected, InvalidParameter)):
        confirmed(rows, node, "replace_one")


# Masses that sum to a thousandth: as a factor, they would divide every delta by a thousand.
NO_LAW = Atoms(((Fraction(1, 1000), Fraction(1, 1000)),))


@pytest.mark.parametrize(
    ("stated_", "own"),
    [
        (Product(((L1, Fraction(2)), (NO_LAW, ONE))), Product(((L1, Fraction(2)),))),
        (Product(((L1, Fraction(2)), (N1, Fraction(-1)))), Product(((L1, Fraction(2)),))),
        (Largest((L1, NO_LAW)), L1),
        (Largest((L1, N1, NO_LAW)), Largest((L1, N1))),
    ],
)
def test_nothing_is_added_to_what_dominates(stated_: Any, own: Any) -> None:
    """Nobody looks whether it is a pair of laws: with it no number would follow."""
    assert dominates(own, own)
    assert not dominates(stated_, own)
    losses = Losses((own,), (own.swapped,))
    table = json.loads(json.dumps(Losses((stated_,), (stated_,)).to_wire()))
    assert concluded(table, losses) is None
    alone = json.loads(json.dumps(losses.to_wire()))
    assert concluded(alone, losses) is not None
    for side in ("remove", "add"):
        more = copy.deepcopy(alone)
        more[side] += table[side]
        assert concluded(more, losses) is None
        more[side][-1] = more[side][0]
        assert concluded(more, losses) is None


def test_a_factor_that_is_no_law_brings_no_false_claim() -> None:
    """Rounds of sampled noise, with the factor in what they conclude: a thousandth of its delta."""
    node = Repeat(PoissonSampled(G, Fraction(1, 10)), 8)
    (rows,) = (rows for rows in rows_of(node, "add_remove") if rows[0]["calculus"] == "profile")
    last, own = rows[-1], confirmed(rows, node, "add_remove")[-1].upper
    forged = copy.deepcopy(last)
    for side in ("remove", "add"):
        for pair in forged["conclusion"]["pairs"][side]:
            extra = stated(NO_LAW)["remove"][0]
            pair["parts"]["list"].append({"list": [extra, "1/1"]})
    forged["expression"] = text_of(forged["conclusion"]["pairs"], own)
    with pytest.raises(CertificateRejected, match="do not dominate"):
        confirmed([*rows[:-1], forged], node, "add_remove")


def test_pairs_nested_deeper_than_any_are_refused() -> None:
    table: Any = {"pair": "Normal", "mu": "1/2"}
    for _ in range(100):
        table = {"pair": "Swapped", "base": table}
    with pytest.raises(InvalidParameter, match="nested deeper"):
        from_wire({"remove": [table], "add": [table], "slack": "0/1"})
