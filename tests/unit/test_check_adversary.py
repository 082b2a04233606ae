"""What an adversary with the source at hand tries: each was accepted once, and is refused now.

A forger is given everything: the digests are made again after each change.
"""

from __future__ import annotations

from typing import Any

import pytest
import sympy

from dpaudit.errors import InvalidParameter
from dpaudit.nodes import GDP, Gaussian
from dpaudit.tables import to_table
from dpaudit.wire import decode_number, encode_number
from tests.cli.bench import Json, certified, held, mechanism, rejected

POINT = ["Symbol", "0.01", {"positive": True}]


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
