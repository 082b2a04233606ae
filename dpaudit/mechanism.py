"""A mechanism: a program with its scope, the claims made of it, and the data it runs on."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dpaudit.claim import Claim
from dpaudit.curator import Program
from dpaudit.errors import InvalidParameter
from dpaudit.nodes import Node
from dpaudit.query import Records
from dpaudit.scope import Scope


@dataclass(frozen=True)
class Metric:
    """A number about a run; ``covered`` says whether the guarantee covers its publication."""

    name: str
    value: float
    covered: bool
    note: str = ""


@dataclass(frozen=True)
class Setting:
    """What a compliance officer has to know that the program cannot tell.

    ``unit_bound``: how much one unit may contribute.  ``covered`` and ``uncovered``: accesses to
    the data inside and outside the guarantee.  ``data``: what it runs on.
    """

    controller: str
    unit_entity: str
    unit_bound: str
    covered: tuple[str, ...]
    uncovered: tuple[str, ...] = ()
    invariants: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    data: str = ""


@dataclass(frozen=True)
class Mechanism:
    """One entry of a catalogue.

    ``program`` declares and runs; ``claims`` are checked against its declaration under ``scope``;
    ``records`` loads the private data; ``evaluate(output)`` gives metrics of a run's output.
    Errors: InvalidParameter for a name that is not snake_case, or no claim.
    """

    name: str
    title: str
    source: str
    program: Program
    scope: Scope
    claims: tuple[Claim, ...]
    setting: Setting
    records: Callable[[], Records] | None = None
    evaluate: Callable[[Any], tuple[Metric, ...]] | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z][a-z0-9_]*", self.name):
            raise InvalidParameter(f"Mechanism.name = {self.name!r}: expected snake_case")
        object.__setattr__(self, "claims", tuple(self.claims))
        if not self.claims:
            raise InvalidParameter(f"Mechanism {self.name!r}: state at least one claim")

    @property
    def declaration(self) -> Node:
        """The program's declaration under the mechanism's scope."""
        return self.program.declaration(self.scope)
