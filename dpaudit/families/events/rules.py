"""Noise events of small probability, and propose-test-release with its bottom outcome.

Pure, zCDP, RDP and GDP speak of every outcome, so that an event of positive probability in which
all may be told makes their values infinite; approximate differential privacy and profiles do not.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from dpaudit.exact import Number, exp, infinity, is_infinite, maximum, total
from dpaudit.families.events import EventSlack, ProposeTestRelease
from dpaudit.measures.approx import APPROX
from dpaudit.measures.calculus import Source
from dpaudit.measures.gdp import GAUSSIAN
from dpaudit.measures.profile import PROFILE
from dpaudit.measures.pure import PURE
from dpaudit.measures.renyi import RENYI
from dpaudit.measures.zcdp import CONCENTRATED
from dpaudit.pairs import Atoms, Losses, Pair, joined, largest

EVENT = Source("Dwork, Roth", 2014, "Lemma 3.17, part 2")
TEST = Source("Dwork, Lei", 2009, "Section 3 (propose-test-release); Vadhan 2017, Proposition 3.3")
# Measures that no failure probability goes with.
OF_ALL_OUTCOMES = (PURE, CONCENTRATED, RENYI, GAUSSIAN)

for _calculus in OF_ALL_OUTCOMES:
    _calculus.absent(
        EventSlack,
        reason="inside the event all may be told, which this measure counts in full: use approx "
        "or profile",
    )


# --- noise events --------------------------------------------------------------------------------


@APPROX.rule(EventSlack, "outside_event", cite=EVENT)
def outside_event(node: EventSlack, base: tuple[Number, Number]) -> tuple[Number, Number]:
    """(epsilon, delta + (1 + e^epsilon) p).

    Proof: M(S) <= M'(S) + p <= e^epsilon M'_2(S) + delta + p, and M'_2(S) <= M_2(S) + p.
    """
    epsilon, delta = base
    if is_infinite(epsilon):
        return infinity(), Fraction(1)
    return epsilon, total((delta, (1 + exp(epsilon)) * node.probability))


@PROFILE.rule(EventSlack, "event_slack", cite=EVENT)
def event_slack(node: EventSlack, base: Losses) -> Losses:
    """The child's pairs, at a further distance p; what the run itself reaches is not known."""
    return Losses(base.remove, base.add, slack=total((base.slack, node.probability)))


# --- propose, test, release ----------------------------------------------------------------------


def no_finite_bound(node: ProposeTestRelease, test: Any, release: Any) -> Number:
    """Infinite: a test that passes by chance may be followed by an unbounded loss."""
    return infinity()


for _calculus in OF_ALL_OUTCOMES:
    _calculus.rule(ProposeTestRelease, "no_finite_bound", cite=TEST)(no_finite_bound)


@APPROX.rule(ProposeTestRelease, "tested", cite=TEST)
def tested(
    node: ProposeTestRelease, test: tuple[Number, Number], release: tuple[Number, Number]
) -> tuple[Number, Number]:
    """(e1 + e2, max(d1 + d2, p)): which branch holds is fixed by the neighbours and the past.

    Proof: if one of the two is stable, the decision and the release compose.  If neither is, both
    runs end in bottom but for a probability of at most p, and differ by at most p.
    """
    passed = total((test[1], release[1]))
    return total((test[0], release[0])), maximum((passed, node.false_pass))


def told(probability: Number) -> Pair:
    """(0, probability)-DP: everything is revealed with this probability, and nothing otherwise."""
    nothing = Fraction(0)
    same = 1 - probability
    return Atoms(((probability, nothing), (nothing, probability), (same, same)))


@PROFILE.rule(ProposeTestRelease, "tested_profile", cite=TEST)
def tested_profile(node: ProposeTestRelease, test: Losses, release: Losses) -> Losses:
    """The larger of two branches: the test fails, or a false pass reveals everything.

    One pair, not two alternatives: the past decides which branch the next run is in.  The test's
    answer may choose among the release's alternatives, so each child's are joined first.
    """

    def either(first: tuple[Pair, ...], second: tuple[Pair, ...]) -> tuple[Pair, ...]:
        both = joined((largest(first), largest(second)))
        return (largest((both, told(node.false_pass))),)

    return Losses(
        either(test.remove, release.remove),
        either(test.add, release.add),
        slack=total((test.slack, release.slack)),
    )
