"""What an adversary with the source at hand tries: each was accepted once, and is refused now.

A forger is given everything: the digests are made again after each change.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any

import pytest
import sympy

from dpaudit.check.profile.coarse import coarser, is_computed
from dpaudit.errors import InvalidParameter
from dpaudit.exact.wire import decode_number, encode_number
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.events import ProposeTestRelease
from dpaudit.families.opaque import GDP, ApproxDP
from dpaudit.families.sampling import RandomAllocation
from dpaudit.nodes.pairs import (
    Allocated,
    LaplaceShift,
    Largest,
    Mixed,
    Pair,
    Thresholded,
    product,
)
from dpaudit.nodes.tables import to_table
from dpaudit.profiles import delta_interval
from tests.cli.bench import TINY, Json, accept, certified, forged, held, mechanism, rejected

LAPLACE = LaplaceShift(Fraction(1, 3))


# --- symbols -------------------------------------------------------------------------------------


def test_a_symbol_is_no_number_that_a_claim_can_state() -> None:
    """A symbol named 0.01 was printed, and 'proved', as mu = 0.01."""

    def named(name: str, predicate: Json) -> None:
        predicate["claims"][1].update(
            exact=["Symbol", name, {"positive": True}], stated_text=f"GDP(mu={name})"
        )

    assert "expected a name of letters" in rejected(held(), lambda p: named("0.01", p))
    assert "claims a symbol" in rejected(held(), lambda p: named("e", p))


@pytest.mark.parametrize("name", ["0.01", "1", "", "a b", "2*x", "\u0660", "a-1", "x\n"])
def test_a_symbol_is_named_by_an_identifier(name: str) -> None:
    with pytest.raises(InvalidParameter, match="expected a name"):
        decode_number(["Symbol", name, {}])
    with pytest.raises(InvalidParameter, match="expected a name"):
        encode_number(sympy.Symbol(name))


def test_a_declaration_of_symbols_certifies_nothing() -> None:
    """A number on a bound that still holds a symbol was certified at 'accounted <= infinity'."""
    symbol = sympy.Symbol("z", positive=True)
    node = Gaussian("first", symbol)

    def change(predicate: Json) -> None:
        predicate["mechanism"].update(
            declaration=to_table(node), digest=node.digest, declaration_text=repr(node)
        )

    assert "holds symbols: z" in rejected(held(), change)


def test_certify_refuses_claims_of_symbols_before_data() -> None:
    def never() -> Any:
        raise AssertionError("the records were touched")

    claim = GDP(sympy.Symbol("e", positive=True))
    with pytest.raises(InvalidParameter, match="claims symbols"):
        certified(mechanism("case", Gaussian("a", 2), claim, records=never))


# --- numbers that only the accountant computed ---------------------------------------------------


def with_epsilon(text: str, claim: str, predicate: Json) -> None:
    """The conversion's epsilon made smaller, and everything that follows from it."""
    step = next(s for s in predicate["derivation"]["steps"] if s["rule"].startswith("convert."))
    for row in step["witness"]["upper"]:
        row.update(value=text, epsilon=text)
    step["witness"]["lower"] = [{"pair": "0", "value": "0"}] if step["witness"]["lower"] else []
    step["witness"].pop("epsilon_lower", None)
    if step["attained"]:
        step["witness"]["epsilon_lower"] = "0"
    step["conclusion"]["epsilon"] = text
    step["expression"] = f"({text}, {step['expression'].partition(', ')[2]}"
    row = predicate["claims"][0]
    row.update(exact=f"{claim}/1000", stated_text=f"ApproxDP(epsilon={text}, delta=0.00001)")
    row["stated"]["epsilon"] = text
    row["upper"] = dict(step["conclusion"])
    predicate["derivation"]["upper_bounds"] = [dict(step["conclusion"])]
    predicate["verdict"]["margin"] = "0"


@cache
def allocated() -> Json:
    node = RandomAllocation(Gaussian("g", Fraction(1, 2)), 4)
    case = mechanism("case", node, ApproxDP(10, TINY), adjacency="add_remove")
    return certified(case).certificate


def test_an_allocation_is_at_most_its_base() -> None:
    assert allocated()["predicate"]["verdict"]["status"] == "certified_under_assumptions"


def test_what_only_the_accountant_computed_has_a_verdict_of_its_own() -> None:
    """.001 was certified where the truth is 8.6."""

    def small(predicate: Json) -> None:
        with_epsilon("0.001", "1", predicate)

    assert "the verdict would be unconfirmed" in rejected(allocated(), small)

    def honest_about_it(predicate: Json) -> None:
        small(predicate)
        predicate["claims"][0]["verdict"] = "unconfirmed"
        predicate["verdict"]["status"] = "unconfirmed"

    found = accept(forged(allocated(), honest_about_it))
    assert any("only the accountant computed it" in line for line in found.on_trust)


def test_a_propose_test_release_is_the_checkers_own_number() -> None:
    """.2 was certified where the truth is .97."""
    node = ProposeTestRelease(Laplace("test", 4), Gaussian("mean", 5), Fraction(6, 10**6))
    found = certified(mechanism("case", node, ApproxDP(2, TINY))).certificate
    assert found["predicate"]["verdict"]["status"] == "certified_under_assumptions"
    assert "epsilon does not follow" in rejected(found, lambda p: with_epsilon("0.2", "200", p))


@pytest.mark.parametrize(
    "pair",
    [
        Allocated(Fraction(1, 2), Fraction(4)),
        Thresholded(Fraction(1, 4), Fraction(20), Fraction(1, 100), Fraction(1, 200)),
        Mixed(Allocated(Fraction(1), Fraction(9)), Fraction(1, 3)),
        Largest((LaplaceShift(Fraction(1)), Thresholded(*[Fraction(1, 4)] * 4))),
    ],
    ids=lambda pair: type(pair).__name__,
)
@pytest.mark.parametrize("swapped", [False, True])
def test_a_crude_pair_dominates(pair: Pair, swapped: bool) -> None:
    """At two epsilons, by the accountant's intervals of both."""
    pair = product([(pair.swapped if swapped else pair, Fraction(1)), (LAPLACE, Fraction(1))])
    assert not is_computed(pair)
    crude = coarser(pair)
    assert is_computed(crude)
    for k in (0, 1):
        epsilon = Fraction(k, 2)
        assert delta_interval(crude, epsilon).upper >= delta_interval(pair, epsilon).lower
