"""Noise events, propose-test-release and groups, stated a second time."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from dpaudit.check.theorem import Table, Theorem, register
from dpaudit.exact import exp, infinity, is_infinite, maximum, total
from dpaudit.pairs import Atoms, Losses, Pair, joined, largest

ONE, ZERO = Fraction(1), Fraction(0)


def _slack(node: Any, base: tuple[Any, Any]) -> tuple[Any, Any]:
    """Two runs, each p away from one with the guarantee: p on this side, e^epsilon p on that."""
    epsilon, delta = base
    if is_infinite(epsilon):
        return infinity(), ONE
    return epsilon, delta + node.probability + exp(epsilon) * node.probability


def _slack_of_pairs(node: Any, base: Losses) -> Losses:
    return Losses(base.remove, base.add, slack=base.slack + node.probability)


def _infinite(node: Any, test: Any, release: Any) -> Any:
    """Outcomes of one run alone are possible, by a false pass."""
    return infinity()


def _either_branch(node: Any, test: Any, release: Any) -> tuple[Any, Any]:
    """A stable neighbour: both compose.  None: the runs differ by a false pass at most."""
    return total((test[0], release[0])), maximum((total((test[1], release[1])), node.false_pass))


def _either_pair(node: Any, test: Losses, release: Losses) -> Losses:
    """The past decides the branch of a later run, so that the larger of the two dominates.

    The test's answer may choose among the release's alternatives, so that their largest bounds it.
    """
    p = node.false_pass
    false_pass = Atoms(((p, ZERO), (ZERO, p), (1 - p, 1 - p)))

    def side(tests: Sequence[Pair], releases: Sequence[Pair]) -> tuple[Pair, ...]:
        passed = joined((largest(tests), largest(releases)))
        return (largest([passed, false_pass]),)

    return Losses(
        side(test.remove, release.remove),
        side(test.add, release.add),
        slack=test.slack + release.slack,
    )


EVENTS: Table = {
    ("approx", "EventSlack"): Theorem("outside_event", _slack),
    ("profile", "EventSlack"): Theorem("event_slack", _slack_of_pairs),
    ("approx", "ProposeTestRelease"): Theorem("tested", _either_branch),
    ("profile", "ProposeTestRelease"): Theorem("tested_profile", _either_pair),
    ("pure", "ProposeTestRelease"): Theorem("no_finite_bound", _infinite),
    ("zcdp", "ProposeTestRelease"): Theorem("no_finite_bound", _infinite),
    ("gdp", "ProposeTestRelease"): Theorem("no_finite_bound", _infinite),
    ("rdp", "ProposeTestRelease"): Theorem(
        "no_finite_bound", lambda node, *premises: lambda a: infinity()
    ),
}

register(EVENTS)
