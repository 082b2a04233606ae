"""No schedule has a round whose parameters mean nothing, and no loss is below zero.

A declaration whose noise, rate or count turns negative in some round would subtract from what was
spent.  Three guards stand one behind the other, and each is tried with those before it taken away:
the domain of each parameter, the accountant's invariants, and the checker's.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
import sympy

import dpaudit.check.derivation as derivation_module
import dpaudit.families.composition.node as composition
import dpaudit.measures.calculus as calculus_module
from dpaudit.accountant.account import Bound, account
from dpaudit.accountant.claim import Claim, Outcome
from dpaudit.certificate.certificate import step_rows, steps_of
from dpaudit.check.derivation import rederive
from dpaudit.errors import CertificateRejected, DpauditError, InternalError, InvalidParameter
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Compose, Parallel, Repeat
from dpaudit.families.discrete import (
    DiscreteGaussian,
    DiscreteLaplace,
    RandomizedResponse,
    TruncatedDiscreteLaplace,
)
from dpaudit.families.events import EventSlack, Group
from dpaudit.families.opaque import GDP, ZCDP, ApproxDP, PureDP, RenyiCurve
from dpaudit.families.sampling import PoissonSampled
from dpaudit.families.selection import AboveThreshold, ExponentialMechanism, ReportNoisyMax
from dpaudit.measures.calculus import CALCULI
from dpaudit.nodes import Node
from dpaudit.nodes.tables import from_table, to_table
from dpaudit.profiles import Interval
from dpaudit.scope import central

i, j = sympy.symbols("i j", integer=True, positive=True)
alpha = sympy.Symbol("alpha", positive=True)
SCOPE = central("add_remove")
SPENT = Laplace("answers", "0.1")  # a loss of 10
BELOW = sympy.Rational(1, 7) - i  # negative in every round


def once(*children: Node) -> Node:
    return Repeat(Compose(SPENT, *children), 1, i)


# Each declares a loss of 10, and beside it something that its calculus would count as less than 0.
REFUNDS: dict[str, tuple[str, Any]] = {
    "Laplace noise": ("pure", lambda: once(Laplace("refund", BELOW))),
    "pure DP": ("pure", lambda: once(PureDP(BELOW))),
    "approximate DP": ("approx", lambda: once(ApproxDP(BELOW, 0))),
    "zCDP": ("zcdp", lambda: once(ZCDP(BELOW))),
    "Gaussian DP": ("gdp", lambda: Repeat(GDP(BELOW), 1, i)),
    "a Renyi curve": ("rdp", lambda: once(RenyiCurve(BELOW * alpha / 100))),
    "a discrete Gaussian": ("zcdp", lambda: once(DiscreteGaussian("refund", BELOW))),
    "discrete Laplace noise": ("pure", lambda: once(DiscreteLaplace("refund", BELOW))),
    "truncated noise": ("approx", lambda: once(TruncatedDiscreteLaplace("refund", BELOW, 5))),
    "randomised response": ("pure", lambda: once(RandomizedResponse("refund", BELOW))),
    "the exponential mechanism": ("pure", lambda: once(ExponentialMechanism("refund", BELOW))),
    "a noisy maximum": ("pure", lambda: once(ReportNoisyMax("refund", BELOW))),
    "a threshold": ("pure", lambda: once(AboveThreshold("refund", BELOW, 1))),
    "a group": ("pure", lambda: once(Group(PureDP(1), 1 - 2 * i))),
    "rounds inside rounds": ("zcdp", lambda: once(Repeat(Gaussian("refund", 5), -i))),
    "a rate": ("pure", lambda: once(PoissonSampled(PureDP(1), sympy.Rational(1, 2) - i))),
    "a rare event": (
        "approx",
        lambda: once(ApproxDP(0, "0.5"), EventSlack(PureDP(1), BELOW / 1000, "an accident")),
    ),
    "a part": ("pure", lambda: once(Parallel(PureDP(BELOW)))),
    "a schedule that crosses zero": ("pure", lambda: Repeat(Laplace("x", 4 - 3 * i / 4), 10, i)),
    "counts that cross zero": ("zcdp", lambda: Repeat(Repeat(Gaussian("x", 5), 20 - 3 * i), 10, i)),
    "two indices": (
        "pure",
        lambda: Repeat(Repeat(PureDP(i - j + Fraction(1, 2)), i + 1, j), 3, i),
    ),
}
kinds = pytest.mark.parametrize("kind", REFUNDS)


@pytest.fixture
def no_domains(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody asks what a parameter is in each round."""
    monkeypatch.setattr(composition, "examine", lambda root: None)
    monkeypatch.setattr("dpaudit.exact.domains._symbolic_sign", lambda value, *, strict: None)
    return


def unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The accountant looks at no step."""
    monkeypatch.setattr(calculus_module, "require_consistent", lambda root: None)


def predicate_of(node: Node, calculus: str) -> dict[str, Any]:
    steps = step_rows(steps_of([CALCULI[calculus].fold(node, SCOPE)]))
    return {"derivation": {"steps": steps}, "scope": {"adjacency": "add_remove"}}


@kinds
def test_the_domain_refuses_it(kind: str) -> None:
    with pytest.raises(InvalidParameter):
        REFUNDS[kind][1]()


@kinds
@pytest.mark.usefixtures("no_domains")
def test_the_wire_refuses_it(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = to_table(REFUNDS[kind][1]())
    monkeypatch.undo()
    with pytest.raises(InvalidParameter):
        from_table(table)


@kinds
@pytest.mark.usefixtures("no_domains")
def test_the_accountant_refuses_it_without_domains(kind: str) -> None:
    calculus, declare = REFUNDS[kind]
    with pytest.raises(InternalError, match=r"bound of .*(below 0|natural number)"):
        account(declare(), SCOPE).step(calculus)


@kinds
@pytest.mark.usefixtures("no_domains")
def test_the_checker_refuses_it_without_domains(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calculus, declare = REFUNDS[kind]
    unseen(monkeypatch)
    node = declare()
    with pytest.raises(
        CertificateRejected, match=r"below 0|natural number|contradicts|finite decimal"
    ):
        rederive(predicate_of(node, calculus), node)


@pytest.mark.usefixtures("no_domains")
def test_without_any_guard_the_forgery_would_verify(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the guards are for: a loss of 10 that is accounted, and confirmed, as none."""
    unseen(monkeypatch)
    monkeypatch.setattr(derivation_module, "require_possible", lambda steps, values, root: None)
    node = Repeat(Compose(SPENT, Laplace("refund", i - Fraction(109, 99))), 1, i)
    proved = Claim(PureDP(Fraction(1, 10)), by="a forger").check(node, SCOPE)
    assert proved.outcome is Outcome.PROVED
    assert rederive(predicate_of(node, "pure"), node)[-1].upper <= Fraction(1, 10)


HONEST: dict[str, Any] = {
    "growing noise": lambda: Repeat(Laplace("x", i), 40, i),
    "falling noise that stays above 0": lambda: Repeat(Laplace("x", 4 - 3 * i / 8), 10, i),
    "an irrational schedule": lambda: Repeat(Gaussian("x", sympy.sqrt(i) + 1), 30, i),
    "rounds inside rounds": lambda: Repeat(Repeat(Gaussian("x", 5), 20 - 3 * i), 6, i),
    "no inner round at the end": lambda: Repeat(Repeat(Gaussian("x", 5), 6 - i), 6, i),
    "an inner index": lambda: Repeat(Repeat(Laplace("x", 1 + i - j), i, j), 5, i),
    "a loss that is 0 once": lambda: Repeat(PureDP((i - 3) ** 2), 5, i),
    "many rounds": lambda: Repeat(Gaussian("x", 2**i + sympy.log(i)), 5_000, i),
    "a rare event": lambda: Repeat(EventSlack(PureDP(1), 1 / (10 * i), "an accident"), 3, i),
    "steps of whole numbers": lambda: Repeat(
        Repeat(DiscreteLaplace("a", "0.47", sympy.ceiling(i / 3)), 1, j), 3, i
    ),
    "rounds that do not differ": lambda: Repeat(ZCDP(1), 10**300, i),
    "no round": lambda: Repeat(Laplace("x", i), 0, i),
    "no round without an index": lambda: Repeat(Laplace("x", 1), 0),
}


@pytest.mark.long_cases("many rounds")
@pytest.mark.parametrize("kind", HONEST)
def test_a_schedule_that_stays_in_its_domains_is_accounted_and_confirmed(kind: str) -> None:
    node = HONEST[kind]()
    assert from_table(to_table(node)) == node
    calculus = "approx" if kind == "a rare event" else "zcdp"
    values = rederive(predicate_of(node, calculus), node)
    assert values[-1].node == node


def test_an_infinite_conclusion_is_at_least_any_bound() -> None:
    """The accountant writes "inf" for a number that it cannot print: that is loose, not false."""
    node = Compose(PureDP(10**300), PureDP(1))
    predicate = predicate_of(node, "gdp")
    assert predicate["derivation"]["steps"][-1]["conclusion"]["mu"] == "inf"
    assert rederive(predicate, node)[-1].node == node


def test_the_refusal_names_the_parameter_the_value_and_the_rounds() -> None:
    with pytest.raises(InvalidParameter) as refused:
        Repeat(Laplace("x", 4 - 3 * i / 4), 10, i)
    assert str(refused.value) == (
        "Laplace('x').noise_multiplier = 4 - 3*i/4: expected a positive, finite number, "
        "which was not shown for every i in 1..10"
    )


def test_a_free_number_of_rounds_is_decided_where_it_is_bound() -> None:
    n = sympy.Symbol("n", integer=True, positive=True)
    open_schedule = Repeat(Laplace("x", 4 - 3 * i / 4), n, i)
    assert open_schedule.bind({n: 5}).parameters["times"] == 5
    with pytest.raises(InvalidParameter, match=r"every i in 1\.\.6"):
        open_schedule.bind({n: 6})


def test_a_renyi_curve_is_at_least_0_at_every_order() -> None:
    RenyiCurve(alpha - 1)
    RenyiCurve(sympy.Max(0, alpha - 5))
    with pytest.raises(InvalidParameter, match="every alpha above 1"):
        RenyiCurve(alpha - 2)


def test_a_million_rounds_are_enclosed_and_not_counted() -> None:
    Repeat(Laplace("x", (i - 5) ** 2 + Fraction(1, 100)), 10**6, i)
    with pytest.raises(InvalidParameter):
        Repeat(Laplace("x", (i - 777_777) ** 2), 10**6, i)


@pytest.mark.parametrize(
    "upside_down",
    [
        lambda: Bound(Fraction(3), Fraction(2), "a", "b"),
        lambda: Interval(Fraction(3), Fraction(2)),
        lambda: Bound(Fraction(3), sympy.sqrt(8), "a", "b"),
    ],
)
def test_no_interval_is_made_upside_down(upside_down: Any) -> None:
    with pytest.raises(InternalError, match="its lower end"):
        upside_down()


def test_a_composition_below_its_part_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A law of composition that forgets a part is found by the accountant and by the checker."""
    forgetful = lambda values: list(values)[-1]  # noqa: E731
    rule = CALCULI["pure"]._rules[Compose]
    from dataclasses import replace

    wrong = replace(rule, function=lambda node, *values: forgetful(values))
    monkeypatch.setitem(CALCULI["pure"]._rules, Compose, wrong)
    node = Compose(Laplace("large", 1), Laplace("small", 10))
    with pytest.raises(InternalError, match="below that of a part"):
        account(node, SCOPE).step("pure")
    from dpaudit.check import theorem

    unseen(monkeypatch)
    monkeypatch.setitem(
        theorem.THEOREMS,
        ("pure", "Compose"),
        replace(theorem.THEOREMS["pure", "Compose"], bound=lambda node, *values: forgetful(values)),
    )
    with pytest.raises(CertificateRejected, match="contradicts a premise"):
        rederive(predicate_of(node, "pure"), node)


def test_a_sample_above_its_base_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    rule = CALCULI["pure"]._rules[PoissonSampled]
    wrong = replace(rule, function=lambda node, epsilon: epsilon / node.rate)
    monkeypatch.setitem(CALCULI["pure"]._rules, PoissonSampled, wrong)
    with pytest.raises(InternalError, match="above that of the mechanism it samples for"):
        account(PoissonSampled(Laplace("x", 1), "0.1"), SCOPE).step("pure")


def test_every_refusal_is_one_of_ours() -> None:
    for _, declare in REFUNDS.values():
        with pytest.raises(DpauditError):
            declare()


@pytest.mark.parametrize("first", [-5, 0])
def test_a_sums_index_has_only_values_that_its_assumptions_allow(first: int) -> None:
    """SymPy calls the sum of a positive symbol positive, whatever its limits."""
    positive_only = sympy.Sum(j, (j, first, -1))
    with pytest.raises(InvalidParameter, match="expected a real, finite expression"):
        PureDP(positive_only)
    whole = sympy.Symbol("k", integer=True)
    with pytest.raises(InvalidParameter, match="not negative"):
        PureDP(sympy.Sum(whole, (whole, -5, -1)))


def test_a_loss_next_to_infinity_is_no_contradiction() -> None:
    """Arb knows erfinv(tanh(5e299)) at no precision: the account is infinite, and says so."""
    opened = account(Group(Repeat(Laplace("a", "1e-300"), 2), 4), central("replace_one"))
    assert opened.epsilon("1e-5").upper > 10**300


def test_a_loss_beyond_floats_is_answered_by_the_other_calculi() -> None:
    opened = account(Compose(GDP(10**300), Laplace("x", 1)), SCOPE)
    assert opened.epsilon("1e-5").upper > 10**300


def test_a_sum_does_not_run_to_a_namesake_of_its_own_index() -> None:
    with pytest.raises(InvalidParameter, match="expected a real, finite expression"):
        Laplace("x", sympy.Sum(j, (j, 1, j)))
    Repeat(Laplace("x", sympy.Sum(j, (j, 1, i))), 3, i)
