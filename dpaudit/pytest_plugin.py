"""Audits as tests: a marker, a fixture, and one error budget for all audits of a session or year.

A session's error (``--dp-error``) is split over the tests that audit, and a test's part over its
calls, 1/(1*2), 1/(2*3), ... of it, which add up to no more than all of it: if every claim holds, a
session is red with at most that probability, whatever runs and on however many workers.

Every session draws afresh, so that sessions that are repeated add up their errors.  With
``--dp-nights FILE`` they share one error a year instead: each session's evidence is kept as bets
that go on (:mod:`dpaudit.audit.blackbox.nights`), and a test is red once they refute its claim.

Loaded in every pytest run of an environment that has dpaudit: only the standard library and pytest
are imported here.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shlex
import subprocess
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from dpaudit.audit.blackbox.nights import Evidence, Nights
    from dpaudit.audit.blackbox.result import FunctionAudit

__all__ = ["ErrorBudget", "PrivacyViolation", "assert_private", "dp_audit"]

ERROR = 1e-4  # of a session
SEED_BITS = 64
TRIALS = 100_000
MARKER = "dp_audit"
CALLS = "dp_audits"
SEED = "dp_seed"
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
    """This process's session: its budget, its seed, its file of nights, and the test that runs."""

    seed: int = 0
    trials: int | None = None
    nights: Nights | None = None
    mended: bool = False
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
    night = None if _state.nights is None else _Kept.of(_state.nights, item.nodeid, number, claim)
    result = audit_function(
        mechanism,
        d0,
        d1,
        claim=claim,
        trials=_state.trials or trials or marked.get("trials") or TRIALS,
        confidence=options.pop("confidence", marked.get("confidence", 0.95)),
        refute_at=error if night is None else night.refute_at,
        seed=_seed(item.nodeid, number),
        **options,
    )
    evidence = None if night is None else night.add(result)
    red = str(result.verdict) == "refuted" if evidence is None else evidence.red
    _record(item, result, number, evidence)
    if red or str(result.verdict) == "alarm":
        raise PrivacyViolation(_violation(item, result, evidence))
    if not result.smallest_showable < float("inf"):
        raise InvalidParameter(
            f"dp_audit: {result.trials} trials could refute {result.claim} for no mechanism; "
            "give more"
        )
    return result


assert_private = audit


@dataclass(frozen=True)
class _Kept:
    """The evidence of earlier nights on one audit's claim."""

    nights: Nights
    name: str
    refute_at: float

    @classmethod
    def of(cls, nights: Nights, test: str, number: int, claim: Any) -> _Kept:
        from dpaudit.audit.blackbox.claims import EventTest

        call = "" if number == 1 else f", call {number}"
        name = f"{test}{call}: {EventTest.of(claim).words}"
        today = datetime.now(UTC).date()
        if _state.mended:
            nights.renew(name, today)
        year = nights.read(today)
        place = year.of(name).number
        return cls(nights, name, year.error / (place * (place + 1)))

    def add(self, audit: FunctionAudit) -> Evidence:
        """The evidence with that of tonight, which is written down before anybody is told."""
        from dpaudit.audit.blackbox.nights import Night

        night = Night(datetime.now(UTC).date().isoformat(), _commit())
        return self.nights.add(self.name, night, audit.log_e_value, audit.trials).of(self.name)


def _violation(item: pytest.Item, found: FunctionAudit, evidence: Evidence | None) -> str:
    """Why a test is red, how to see it again, and where the evidence began."""
    trials = found.trials if evidence is None else max(found.trials, 2 * evidence.trials)
    again = f"python -m pytest {shlex.quote(item.nodeid)} --dp-seed {_state.seed}"
    shown = [str(found), "To see it again:", found.reproducer]
    if evidence is None:
        return "\n\n".join([*shown, f"or: {again} --dp-trials {found.trials}"])
    nights = "1 night" if evidence.nights == 1 else f"{evidence.nights} nights"
    reason = f"the bets of {nights} against the claim reached their bar"
    bisect = f"{evidence.hint}\ngit bisect run {again} --dp-trials {trials}"
    mended = "Once it is mended: run this test once with --dp-mended."
    return "\n\n".join(
        [f"{reason}: {shown[0]}", *shown[1:], f"Where it began:\n\n{bisect}", mended]
    )


@cache
def _commit() -> str:
    """The commit that is tested: the pipeline's word, else git's; "" without either."""
    for name in ("GITHUB_SHA", "CI_COMMIT_SHA"):
        if os.environ.get(name):
            return os.environ[name]
    try:
        command = ["git", "rev-parse", "HEAD"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def _record(
    item: pytest.Item, audit: FunctionAudit, number: int, evidence: Evidence | None
) -> None:
    """The audit's numbers as properties of the test, which JUnit XML carries."""
    suffix = "" if number == 1 else f"_{number}"
    rows: dict[str, Any] = {
        "dp_claim": audit.claim,
        "dp_verdict": audit.verdict,
        f"dp_{audit.measure}_lower": f"{audit.lower:.6g}",
        f"dp_{audit.measure}_showable": f"{audit.smallest_showable:.6g}",
        "dp_error": f"{audit.refute_at:.6g}",
        "dp_trials": audit.trials,
        "dp_seed": audit.seed,
        "dp_log_e_value": f"{audit.log_e_value:.6g}",
    }
    if evidence is not None:
        rows |= {
            "dp_verdict": "refuted" if evidence.red else audit.verdict,
            "dp_evidence": f"{evidence.log_wealth:.6g}",
            "dp_nights": evidence.nights,
        }
    properties = [(name, value) for name, value in item.user_properties if name != CALLS]
    properties += [(name + suffix, str(value)) for name, value in rows.items()]
    item.user_properties[:] = [*properties, (CALLS, str(number))]


def _seed(test: str, number: int) -> int:
    """A seed of its own for every call of every test, from the session's."""
    text = f"{_state.seed}\0{test}\0{number}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:15], "big")


def _audits(item: pytest.Item) -> bool:
    return item.get_closest_marker(MARKER) is not None or MARKER in getattr(
        item, "fixturenames", ()
    )


def _marked(item: pytest.Item) -> dict[str, Any]:
    """Values of a test's markers, the nearest first."""
    values: dict[str, Any] = {}
    for marker in item.iter_markers(MARKER):
        unknown = set(marker.kwargs) - {"claim", "trials", "confidence"}
        if marker.args or unknown:
            raise pytest.UsageError(
                f"{item.nodeid}: dp_audit takes claim=, trials= and confidence=, no other"
            )
        values = {**marker.kwargs, **values}
    return values


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
        help="How often a session may be red though all claims hold (default: 1e-4); with "
        "--dp-nights, a year of sessions (default: 0.01).",
    )
    group.addoption("--dp-trials", type=int, help="Draws a side of every audit.")
    group.addoption(
        "--dp-seed", type=int, help="Draw as a session did that printed this seed (default: fresh)."
    )
    group.addoption(
        "--dp-nights",
        type=Path,
        metavar="FILE",
        help="Keep the evidence of sessions in this file, under one error budget a year; a session "
        "with --dp-seed adds none.",
    )
    group.addoption(
        "--dp-mended",
        action="store_true",
        help="Begin the evidence on the audits of this session anew: their bug was mended.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker and check the options."""
    config.addinivalue_line(
        "markers", "dp_audit(claim, trials, confidence): a test that audits a mechanism"
    )
    error, trials = config.getoption("--dp-error"), config.getoption("--dp-trials")
    if error is not None and not 0 < error < 1:
        raise pytest.UsageError(f"--dp-error {error}: expected a number between 0 and 1")
    if trials is not None and trials < 1:
        raise pytest.UsageError(f"--dp-trials {trials}: expected at least 1")
    seed, path = config.getoption("--dp-seed"), config.getoption("--dp-nights")
    mended = config.getoption("--dp-mended")
    if seed is not None and seed < 0:
        raise pytest.UsageError(f"--dp-seed {seed}: expected at least 0")
    if mended and (path is None or seed is not None):
        raise pytest.UsageError("--dp-mended: needs --dp-nights, and no --dp-seed")
    _state.nights = None
    if path is not None and seed is None:
        from dpaudit.audit.blackbox.nights import Nights

        _state.nights = Nights(path.absolute(), error)
    given = getattr(config, "workerinput", {}).get(SEED)  # of a worker of xdist
    fresh = secrets.randbits(SEED_BITS) if given is None else given
    _state.seed = fresh if seed is None else seed
    _state.trials, _state.mended = trials, mended


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Workers of xdist draw by the seed that the session prints."""
    node.workerinput[SEED] = _state.seed


def pytest_collection_finish(session: pytest.Session) -> None:
    """Split the error over the tests that are left; every worker of xdist collects all of them."""
    tests = sum(map(_audits, session.items))
    _state.budget = ErrorBudget(session.config.getoption("--dp-error") or ERROR, tests)


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
        counted = f"dp_audit: {sum(calls)} audits in {len(calls)} tests, of seed {_state.seed}"
        terminalreporter.write_line(f"{counted} (--dp-seed {_state.seed} draws the same again)")
        terminalreporter.write_line(f"dp_audit: if every claim holds, {_promise(config)}")


def _promise(config: pytest.Config) -> str:
    """How often a session, or a year of sessions, is red for nothing."""
    if _state.nights is None:
        error = config.getoption("--dp-error") or ERROR
        return f"a session is red with probability at most {error:g}"
    year = _state.nights.read(datetime.now(UTC).date())
    near = max(
        (evidence.log_wealth / evidence.bar(year.error) for evidence in year.claims.values()),
        default=0.0,
    )
    return (
        f"the sessions of {year.year} are red with probability at most {year.error:g}; "
        f"{_state.nights.path.name} holds evidence on {len(year.claims)} claims, the strongest at "
        f"{max(near, 0):.0%} of its bar"
    )
