"""A mechanism: a program with its scope, the claims made of it, and the data it runs on."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpaudit.accountant.claim import Claim, Outcome
from dpaudit.curator.curator import Program
from dpaudit.curator.locations import at, line_of_error
from dpaudit.errors import DpauditError, InvalidParameter
from dpaudit.kernels.query import Records
from dpaudit.nodes import Node
from dpaudit.scope import NOT_STATED, Scope, choose


@dataclass(frozen=True)
class Metric:
    """A number about a run; ``covered`` says whether the guarantee covers its publication."""

    name: str
    value: float
    covered: bool
    note: str = ""


@dataclass(frozen=True)
class Setting:
    """The facts that a compliance officer needs and the program cannot tell.

    ``unit_bound``: how much one unit may contribute.  ``covered`` and ``uncovered``: accesses to
    the data inside and outside the guarantee.  ``data``: what it runs on.  ``unit_period``: the
    time that one unit's contributions span, where they span one.  ``notes``: caveats and limits,
    which stand on every page of the mechanism, whether or not it has data.
    A fact that nobody states is shown as not stated.

    >>> import dpaudit as dp
    >>> dp.Setting(controller="the clinic", unit_entity="patient").unit_bound
    'not stated'
    """

    controller: str = NOT_STATED
    unit_entity: str = NOT_STATED
    unit_bound: str = NOT_STATED
    covered: tuple[str, ...] = ()
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
    ``records_like(generator)`` makes up records that the program can run on, for a program whose
    records the examiner cannot make up by itself, or whose declaration is ``Assuming`` something of
    the data: then only such records are tried, and any one row instead of one of theirs; it may
    not look at the data.
    ``expected`` says what a catalogue expects of each claim in turn (``"proved"``, ``"refuted"``,
    ``"unproved"`` or ``"unsupported"``), all proved if empty: a printed claim that is known to fail
    is then no failure of `dpaudit certify --all`.  It changes no check and no verdict.
    ``reaches``: by the label of a release, why no record moves its query by a fifth of what is
    stated: ``"at most a tenth: a half of every row is clipped away"``.  An examination that does
    not get that far then leaves the verdict as it is, and the page prints the sentence.
    ``unexamined``: why a catalogue expects that no examination reaches the program, such as that a
    run would take more rounds than can be made.  `dpaudit certify --all` then expects claims that
    are proved to be unconfirmed, and fails once they are not.  It changes no check and no verdict.
    Errors: InvalidParameter for a name that is not snake_case, no claim, or expectations that are
    unknown or not as many as the claims.

    >>> import dpaudit as dp
    >>> class Count:
    ...     def declaration(self, scope):
    ...         return dp.Laplace("count", noise_multiplier=1)
    ...     def run(self, curator):
    ...         rows = dp.ClippedMean(lambda values: values[None], radius=1, divisor=1, norm="l1")
    ...         return curator.release("count", rows)
    >>> count = dp.Mechanism(
    ...     name="noisy_count",
    ...     title="A count",
    ...     source="Dwork, McSherry, Nissim and Smith 2006, Proposition 1",
    ...     program=Count(),
    ...     scope=dp.central("add_remove"),
    ...     claims=[dp.Claim(dp.PureDP(1), by="its author")],
    ... )
    >>> count.declaration
    Laplace('count', noise_multiplier=1)
    """

    name: str
    title: str
    source: str
    program: Program
    scope: Scope
    claims: Sequence[Claim]
    setting: Setting = Setting()
    records: Callable[[], Records] | None = None
    evaluate: Callable[[Any], tuple[Metric, ...]] | None = None
    expected: tuple[Outcome | str, ...] = ()
    records_like: Callable[[np.random.Generator], Records] | None = None
    reaches: Mapping[str, str] = field(default_factory=dict)
    for_shape: Callable[[int | None, tuple[int, ...]], Mechanism] | None = None
    unexamined: str = ""

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

    def load(self) -> Records:
        """The private records.  Errors: InvalidParameter where there are none of that type."""
        if self.records is None:
            raise InvalidParameter(f"{self.name}: a mechanism without records")
        return self._checked("records", self.records())

    def records_alike(self, rng: np.random.Generator) -> Records:
        """Records as ``records_like`` makes them, which has to be given.

        Errors: InvalidParameter where the hook raises, or returns anything but Records.
        """
        assert self.records_like is not None  # noqa: S101  (the caller checked)
        try:
            records = self.records_like(rng)
        except Exception as error:
            cause = type(error).__name__ + (f": {error}" * isinstance(error, DpauditError))
            raise InvalidParameter(
                f"{self.name}: its records_like hook raised {cause}{at(line_of_error(error))}; it "
                "gets a numpy Generator and returns dpaudit.Records, one row a record"
            ) from error
        return self._checked("records_like", records)

    def _checked(self, hook: str, made: Any) -> Records:
        if not isinstance(made, Records):
            raise InvalidParameter(
                f"{self.name}: its {hook} hook returned {type(made).__name__}; return "
                "dpaudit.Records(rows), one row a record"
            )
        return made

    @property
    def expectations(self) -> tuple[Outcome, ...]:
        """The expected outcome of each claim: proved unless ``expected`` says otherwise."""
        return tuple(map(Outcome, self.expected)) or (Outcome.PROVED,) * len(self.claims)

    @property
    def declaration(self) -> Node:
        """The program's declaration under the mechanism's scope."""
        return self.program.declaration(self.scope)
