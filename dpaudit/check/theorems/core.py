"""What a restated theorem is: its name, its bound, where it holds and when it is reached."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dpaudit.arithmetic import settled

RENYI_SYMBOL = "alpha"
EVERYWHERE = frozenset({"add_remove", "replace_one", "zero_out"})


class Premise(Protocol):
    """What is known of a premise besides its bound."""

    @property
    def attained(self) -> bool:
        """Whether some data and queries reach it."""

    @property
    def in_one_part(self) -> bool:
        """Whether one record saturates it in one part of a partition only."""


Attained = Callable[[Any, Sequence[Premise]], bool]


def never(node: Any, premises: Sequence[Premise]) -> bool:
    """Nothing is known about reaching the bound."""
    return False


def always(node: Any, premises: Sequence[Premise]) -> bool:
    """Reached where all premises are."""
    return all(p.attained for p in premises)


@dataclass(frozen=True)
class Theorem:
    """``bound(node, *premises)``: exact, a function of the order (rdp), or a pair (approx).

    ``name`` and source are those of the accountant's rule.
    """

    name: str
    bound: Callable[..., Any]
    adjacencies: frozenset[str] = EVERYWHERE
    attained: Attained = never


Table = dict[tuple[str, str], Theorem]


def lifted(calculus: str, combine: Callable[[list[Any]], Any]) -> Callable[..., Any]:
    """One formula on numbers, on both numbers of a pair, or at every order of a curve."""
    if calculus == "approx":
        return lambda node, *ps: tuple(settled(combine([p[i] for p in ps])) for i in (0, 1))
    if calculus == "rdp":
        return lambda node, *ps: lambda a: settled(combine([p(a) for p in ps]))
    return lambda node, *ps: settled(combine(list(ps)))
