"""Audits as tests: a marker, a fixture, and one error budget for all audits of a session.

A session's error (``--dp-error``) is split over the tests that audit, and a test's part over its
calls, 1/(1*2), 1/(2*3), ... of it, which add up to no more than all of it: if every claim holds, a
session is red with at most that probability, whatever runs and on however many workers.

Loaded in every pytest run of an environment that has dpaudit: only the standard library and pytest
are imported here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from dpaudit.audit.blackbox.result import FunctionAudit

__all__ = ["ErrorBudget", "PrivacyViolation", "assert_private", "dp_audit"]

ERROR = 1e-4
TRIALS = 100_000
MARKER = "dp_audit"
CALLS = "dp_audits"
NOT_MARKED = (
    "an audit needs a part of the session's error: mark the test with @pytest.mark.dp_audit, or "
    "use the fixture dp_audit"
)


class PrivacyViolation(AssertionError):
    """A claim that an audit refuted, with what repeats it."""


@dataclass
class ErrorBudget:
    """The error of a session of ``tests`` tests that audit, and the calls each has made."""

    error: float
    tests: int
    calls: dict[str, int] = field(default_factory=dict)

    def spend(self, test: str) -> tuple[float, int]:
        """The error of a test's next call, and the call's number from 1."""
        number = self.calls[test] = self.calls.get(test, 0) + 1
        return self.error / max(self.tests, 1) / (number * (number + 1)), number


@dataclass
class _State:
    """This process's session: its budget, its seed, and the test that runs."""

    seed: int = 0
    trials: int | None = None
    budget: ErrorBudget | None = None
    running: pytest.Item | None = None


_state = _State()


def audit(
    mechanism: Callable[..., Any],
    d0: Any,
    d1: Any,
    *,
    claim: Any = None,
    trials: int | None = None,
    **options: Any,
) -> FunctionAudit:
    """Audit a function that draws within the running test, at its part of the session's error.

    Arguments as :func:`dpaudit.audit_function`; ``claim`` and ``trials`` are the marker's if none
    are given.  Errors: PrivacyViolation where the claim is refuted or the mechanism is broken,
    InvalidParameter outside a test that audits.
    """
    __tracebackhide__ = True
    from dpaudit.audit import audit_function
    from dpaudit.errors import InvalidParameter

    item, budget = _state.running, _state.budget
    if item is None or budget is None or not _audits(item):
        raise InvalidParameter(NOT_MARKED)
    marked = _marked(item)
    claim = marked.get("claim") if claim is None else claim
    if claim is None:
        raise InvalidParameter("dp_audit: state the claim, here or in the marker")
    error, number = budget.spend(item.nodeid)
    found = audit_function(
        mechanism,
        d0,
        d1,
        claim=claim,
        trials=_state.trials or trials or marked.get("trials") or TRIALS,
        confidence=options.pop("confidence", marked.get("confidence", 0.95)),
        refute_at=error,
        seed=_seed(item.nodeid, number),
        **options,
    )
    _record(item, found, number)
    if str(found.verdict) in ("refuted", "alarm"):
        raise PrivacyViolation(f"{found}\n\nTo see it again:\n\n{found.reproducer}")
    if not found.smallest_showable < float("inf"):
        raise InvalidParameter(
            f"dp_audit: {found.trials} trials could refute {found.claim} for no mechanism; "
            "give more"
        )
    return found


assert_private = audit


def _record(item: pytest.Item, found: FunctionAudit, number: int) -> None:
    """The audit's numbers as properties of the test, which JUnit XML carries."""
    suffix = "" if number == 1 else f"_{number}"
    rows: dict[str, Any] = {
        "dp_claim": found.claim,
        "dp_verdict": found.verdict,
        f"dp_{found.measure}_lower": f"{found.lower:.6g}",
        f"dp_{found.measure}_showable": f"{found.smallest_showable:.6g}",
        "dp_error": f"{found.refute_at:.6g}",
        "dp_trials": found.trials,
        "dp_seed": found.seed,
    }
    kept = [(name, value) for name, value in item.user_properties if name != CALLS]
    kept += [(name + suffix, str(value)) for name, value in rows.items()]
    item.user_properties[:] = [*kept, (CALLS, str(number))]


def _seed(test: str, number: int) -> int:
    """A seed of its own for every call of every test, from the session's."""
    text = f"{_state.seed}\0{test}\0{number}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:15], "big")


def _audits(item: pytest.Item) -> bool:
    return item.get_closest_marker(MARKER) is not None or MARKER in getattr(
        item, "fixturenames", ()
    )


def _marked(item: pytest.Item) -> dict[str, Any]:
    """What the markers of a test state, the nearest first."""
    found: dict[str, Any] = {}
    for marker in item.iter_markers(MARKER):
        unknown = set(marker.kwargs) - {"claim", "trials", "confidence"}
        if marker.args or unknown:
            raise pytest.UsageError(
                f"{item.nodeid}: dp_audit takes claim=, trials= and confidence=, no other"
            )
        found = {**marker.kwargs, **found}
    return found


# --- what pytest calls ---------------------------------------------------------------------------


@pytest.fixture(name="dp_audit")
def dp_audit() -> Callable[..., FunctionAudit]:
    """``dp_audit(mechanism, d0, d1, claim=..., trials=...)``: see :func:`audit`."""
    return audit


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of a session's audits."""
    group = parser.getgroup("dpaudit", "differential privacy audits")
    group.addoption(
        "--dp-error",
        type=float,
        default=ERROR,
        help="How often a session may be red though all claims hold (default: %(default)s).",
    )
    group.addoption("--dp-trials", type=int, help="Draws a side of every audit.")
    group.addoption("--dp-seed", type=int, default=0, help="The session's seed (default: 0).")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker and check the options."""
    config.addinivalue_line(
        "markers", "dp_audit(claim, trials, confidence): a test that audits a mechanism"
    )
    error, trials = config.getoption("--dp-error"), config.getoption("--dp-trials")
    if not 0 < error < 1:
        raise pytest.UsageError(f"--dp-error {error}: expected a number between 0 and 1")
    if trials is not None and trials < 1:
        raise pytest.UsageError(f"--dp-trials {trials}: expected at least 1")
    _state.seed, _state.trials = config.getoption("--dp-seed"), trials


def pytest_collection_finish(session: pytest.Session) -> None:
    """Split the error over the tests that are left; every worker of xdist collects all of them."""
    tests = sum(map(_audits, session.items))
    _state.budget = ErrorBudget(session.config.getoption("--dp-error"), tests)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Know the test that runs."""
    before, _state.running = _state.running, item
    try:
        return (yield)
    finally:
        _state.running = before


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """How many audits ran, and how often a session like this is red for nothing."""
    calls = [
        int(value)
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", "") == "call"
        for name, value in report.user_properties
        if name == CALLS
    ]
    if calls:
        error = config.getoption("--dp-error")
        terminalreporter.write_line(
            f"dp_audit: {sum(calls)} audits in {len(calls)} tests; if every claim holds, a session "
            f"is red with probability at most {error:g}"
        )
