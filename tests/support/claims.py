"""Checking a paper's claims: scopes, outcomes, and numbers as a paper prints them."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any

from dpaudit.accountant.account import Account
from dpaudit.accountant.claim import Checked, Claim
from dpaudit.exact import enclose
from dpaudit.nodes import Node
from dpaudit.scope import Scope


def scope(adjacency: str, unit: str = "record") -> Scope:
    """A transcript in the central model."""
    return Scope(adjacency, unit, "central", "transcript")  # type: ignore[arg-type]


@lru_cache(maxsize=64)
def account(node: Node, adjacency: str = "replace_one") -> Account:
    """One account a declaration, so that it is folded once."""
    return Account(node, scope(adjacency))


def check(
    guarantee: Node,
    node: Node,
    adjacency: str = "replace_one",
    ranges: dict[Any, Any] | None = None,
    by: str = "the paper",
    reading: str = "",
) -> Checked:
    """A claim about a declaration, checked."""
    claim = Claim(guarantee, by=by, reading=reading, ranges=ranges or {})
    return claim.check_account(account(node, adjacency))


def outcome(*arguments: Any, **options: Any) -> str:
    """The word for how a claim came out."""
    return str(check(*arguments, **options).outcome)


def value(node: Node, calculus: str, adjacency: str = "replace_one") -> Any:
    """What a calculus derives."""
    return account(node, adjacency).step(calculus).value


def number(exact: Any) -> float:
    """A number for comparisons with printed ones."""
    return float(enclose(exact).mid())


def mu(node: Node, adjacency: str = "replace_one") -> float:
    """The derived mu."""
    return number(value(node, "gdp", adjacency))


def epsilon(node: Node, delta: Any, adjacency: str = "replace_one") -> float:
    """The derived epsilon."""
    return float(account(node, adjacency).epsilon(Fraction(delta)).upper)


def two_sided(node: Node, delta: Any, adjacency: str = "replace_one") -> tuple[float, float]:
    """The profile's epsilon, from below and from above."""
    step = account(node, adjacency).converted("profile", Fraction(delta))
    return float(step.lower), float(step.value[0])


def agrees(found: float, printed: str, units: float = 0.5001) -> bool:
    """Equal to the printed digits, within some units of the last place."""
    mantissa, _, exponent = printed.partition("e")
    places = len(mantissa.partition(".")[2])
    return abs(found - float(printed)) <= units * 10.0 ** (int(exponent or 0) - places)
