"""A mechanism: a program with its scope, the claims made of it, and the data it runs on."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dpaudit.accountant.claim import Claim, Outcome
from dpaudit.curator.curator import Program
from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Records
from dpaudit.nodes import Node
from dpaudit.scope import Scope, choose


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
    the data inside and outside the guarantee.  ``data``: what it runs on.  ``unit_period``: the
    time that one unit's contributions span, where they span one.  ``notes``: caveats and limits,
    which stand on every page of the mechanism, whether or not it has data.
    """

    controller: str
    unit_entity: str
    unit_bound: str
    covered: tuple[str, ...]
    uncovered: tuple[str, ...] = ()
    invariants: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    data: str = ""
    unit_period: str = ""


@dataclass(frozen=True)
class Mechanism:
    """One entry of a catalogue.

    ``program`` declares and runs; ``claims`` are checked against its declaration under ``scope``;
    ``records`` loads the private data; ``evaluate(output)`` gives metrics of a run's output.
    ``expected`` says what a catalogue expects of each claim in turn (``"proved"``, ``"refuted"``,
    ``"unproved"`` or ``"unsupported"``), all proved if empty: a printed claim that is known to fail
    is then no failure of `dpaudit certify --all`.  It changes no check and no verdict.
    Errors: InvalidParameter for a name that is not snake_case, no claim, or expectations that are
    unknown or not as many as the claims.
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
    expected: tuple[Outcome | str, ...] = ()

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z][a-z0-9_]*", self.name):
            raise InvalidParameter(f"Mechanism.name = {self.name!r}: expected snake_case")
        object.__setattr__(self, "claims", tuple(self.claims))
        if not self.claims:
            raise InvalidParameter(f"Mechanism {self.name!r}: state at least one claim")
        expected = tuple(choose(Outcome, e, f"{self.name}: expected") for e in self.expected)
        object.__setattr__(self, "expected", expected)
        if expected and len(expected) != len(self.claims):
            raise InvalidParameter(
                f"Mechanism {self.name!r}: {len(expected)} expected of {len(self.claims)} claims; "
                "give one outcome for each claim, or none where all are to be proved"
            )

    @property
    def expectations(self) -> tuple[Outcome, ...]:
        """What is expected of each claim; proved unless ``expected`` says otherwise."""
        return tuple(map(Outcome, self.expected)) or (Outcome.PROVED,) * len(self.claims)

    @property
    def declaration(self) -> Node:
        """The program's declaration under the mechanism's scope."""
        return self.program.declaration(self.scope)
