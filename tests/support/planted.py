"""What the tests of planted bugs share: a suite judged, what caught it, a row, the table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from unittest.mock import patch

from dpaudit.audit.examine import Examination, examine
from dpaudit.audit.suite import Suite
from dpaudit.certificate import certify as certification
from dpaudit.certificate.certify import Certified, certify
from dpaudit.certificate.order import Options, Order
from dpaudit.curator.mechanism import Mechanism

CATCHES = ("refuted", "conformance", "accountant")
UNSTATED = "not stated"
# Verdicts of a claim that a suite does not contradict; in two seconds a search may not reach the
# program, which leaves the claim unconfirmed.
UNCONTRADICTED = ("certified_under_assumptions", "unconfirmed")


# By identity: a mechanism that is kept here is no other's.
EXAMINED: dict[int, tuple[Mechanism, Examination]] = {}


def judged_by_its_suite(order: Order, *, seed: int) -> Certified:
    """A certificate for what the suite alone says, without the curve of a figure.

    The mechanism is examined once, however many suites are judged beside it, and is not attacked
    on the pair that was found: other tests and `certify --all` do that.  A suite that something
    must catch is judged without an examination, which could be what says alarm.
    """
    mechanism = order.mechanism
    examination = Examination(not_examined="a test of what the suite says")
    if order.suite is None or not order.suite.caught_by:
        if id(mechanism) not in EXAMINED:
            found = replace(examine(mechanism, seed=seed, seconds=2), pair=None)
            EXAMINED[id(mechanism)] = mechanism, found
        examination = EXAMINED[id(mechanism)][1]
    with (
        patch.object(certification, "examined", lambda run, order: examination),
        patch.object(certification, "profile_steps", lambda account: []),
    ):
        return certify([order], Options(seed=seed))[0]


@dataclass(frozen=True)
class Planted:
    """Suites by name, and what they attack; a suite that nothing must catch is a correct twin.

    Without ``trials``, each suite's own number a side.
    """

    suites: Mapping[str, Suite]
    mechanisms: Mapping[str, Mechanism]
    seed: int
    trials: int | None = None
    catches: tuple[str, ...] = CATCHES

    @property
    def bugs(self) -> list[str]:
        return [name for name, suite in self.suites.items() if suite.caught_by]

    @property
    def twins(self) -> list[str]:
        return [name for name, suite in self.suites.items() if not suite.caught_by]

    def suite(self, name: str) -> Suite:
        """With the number of trials of these tests."""
        found = self.suites[name]
        return replace(found, trials=self.trials or found.trials)

    def mechanism(self, name: str) -> Mechanism:
        """What the suite of this name attacks."""
        return self.mechanisms[self.suites[name].mechanism]

    def attacked(self, name: str) -> Certified:
        order = Order(self.mechanism(name), self.suite(name), "project", {"a.py": "0" * 64})
        return judged_by_its_suite(order, seed=self.seed)

    def caught_by(self, result: Certified) -> list[str]:
        """What flags this implementation, each on its own."""
        assert result.attacked is not None
        # A planted bug is a stand-in for the mechanism, and its bound stands apart.
        audits = result.certificate["predicate"]["audits"]
        found = {
            "refuted": any(row["verdict"] == "refuted" for row in audits),
            "conformance": any(f.status == "broken" for f in result.attacked.findings),
            "accountant": any(j.checked.outcome == "refuted" for j in result.judged),
            "unproved": any(j.checked.outcome == "unproved" for j in result.judged),
        }
        return [name for name in self.catches if found[name]]

    def missed(self, name: str, result: Certified) -> set[str]:
        """What must catch this implementation and does not."""
        return set(self.suites[name].caught_by) - set(self.caught_by(result))

    def named(self) -> set[str]:
        """Every catch that a suite names."""
        return {catch for suite in self.suites.values() for catch in suite.caught_by}

    def judged(self, name: str, table: list[str], true: str = UNSTATED) -> Certified:
        """The judgement of a suite, with its row in the table."""
        result = self.attacked(name)
        table.append(self.row(name, result, true))
        return result

    def row(self, name: str, result: Certified, true: str, more: Sequence[str] = ()) -> str:
        """A row of the table: bug, caught by (and by what ``more``), lower bounds found, truth."""
        lowers = (j.lower and f"{j.lower.shown:.3f}" for j in result.judged)
        return row(
            self.suites[name].bug,
            ", ".join((*self.caught_by(result), *more)) or "nothing",
            ", ".join(lower or "none" for lower in lowers),
            true,
        )


def planted_in(
    *modules: ModuleType, seed: int, trials: int | None = None, catches: tuple[str, ...] = CATCHES
) -> Planted:
    """The suites and mechanisms of these modules."""
    found = {name: value for module in modules for name, value in vars(module).items()}
    return Planted(
        {name: value for name, value in found.items() if isinstance(value, Suite)},
        {value.name: value for value in found.values() if isinstance(value, Mechanism)},
        seed,
        trials,
        catches,
    )


def row(bug: str, caught: str, lower: str, true: str) -> str:
    """One row of the printed table."""
    return f"{bug} | {caught} | {lower} | {true}"


def printed_table(bounds: str) -> Iterator[list[str]]:
    """Rows of the table, printed when a module is done (run with -s); ``bounds``: what is bounded.

    For a fixture of module scope: ``yield from`` it.
    """
    rows: list[str] = []
    yield rows
    head = row("bug", "caught by", f"lower bounds ({bounds})", "true guarantee")
    print("", head, *rows, sep="\n")  # noqa: T201
