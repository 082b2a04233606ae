"""The fold: cited rules, derivations, missing rules, attained bounds, assumptions."""

from __future__ import annotations

import dataclasses
import time
from fractions import Fraction
from typing import Any

import pytest
import sympy

from dpaudit.accountant.account import Account
from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.exact import infinity, is_infinite
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Assuming, Compose, Parallel, Repeat
from dpaudit.families.opaque import GDP, ZCDP, ApproxDP, NonPrivate, PureDP
from dpaudit.families.sampling import PoissonSampled, SampledWithoutReplacement
from dpaudit.measures.approx import APPROX
from dpaudit.measures.calculus import CALCULI, Calculus, Measure, Source, Step, register
from dpaudit.measures.gdp import GAUSSIAN
from dpaudit.measures.pure import PURE
from dpaudit.measures.renyi import RENYI
from dpaudit.measures.zcdp import CONCENTRATED
from dpaudit.nodes import Assumption, Node, Status
from dpaudit.pairs import Atoms, Largest, Losses, Pair
from dpaudit.scope import Scope

REPLACE_ONE = Scope("replace_one", "record", "central", "transcript")
ADD_REMOVE, ZERO_OUT = REPLACE_ONE.under("add_remove"), REPLACE_ONE.under("zero_out")
SOURCE = Source("Somebody", 2020, "Theorem 1")
k, K = sympy.symbols("k K", positive=True, integer=True)
x, y, z = sympy.symbols("x y z", positive=True)
A, B = Gaussian("a", 2), Gaussian("b", 3)
LAPLACE = Laplace("l", 4)
DECLARED = Assumption("lipschitz", "Losses are Lipschitz.", Status.DECLARED)


# --- rules and sources ---------------------------------------------------------------------------


def bare(name: str) -> Calculus:
    """A calculus of nothing yet."""
    return Calculus(
        Measure(
            name, meaning="a test", symbol="m", latex="m", words="m", wire=f"{name}_wire", laws=None
        )
    )


@pytest.mark.parametrize(
    "parts", [("", 2020, "Theorem 1"), ("Somebody", 0, "Theorem 1"), ("Somebody", 2020, "")]
)
def test_a_source_is_complete(parts: Any) -> None:
    with pytest.raises(InvalidParameter, match="authors, year and theorem"):
        Source(*parts)


@pytest.mark.parametrize("cite", [None, "Dwork 2006", ("Dwork", 2006, "1")])
def test_a_rule_without_a_source_cannot_be_registered(cite: Any) -> None:
    calculus = bare("mine")
    with pytest.raises(InvalidParameter, match="mine rule for Gaussian: cite="):
        calculus.rule(Gaussian, "mine", cite=cite)
    with pytest.raises(TypeError):
        calculus.rule(Gaussian, "mine")
    assert not calculus.has(A, REPLACE_ONE)


def test_a_node_type_has_one_rule() -> None:
    with pytest.raises(InvalidParameter, match="zcdp already has a rule for Gaussian"):
        CONCENTRATED.rule(Gaussian, "mine", cite=SOURCE)


def test_every_rule_cites_a_theorem() -> None:
    rules = [rule for calculus in CALCULI.values() for rule in calculus._rules.values()]
    assert len(rules) > 40
    for rule in rules:
        assert str(rule.cite) == f"{rule.cite.authors} {rule.cite.year}, {rule.cite.theorem}"
        assert rule.function.__doc__
        assert rule.adjacencies


def test_a_registered_name_is_taken() -> None:
    with pytest.raises(InvalidParameter, match="'zcdp' is registered already"):
        register(bare("zcdp"))
    assert CALCULI["zcdp"] is CONCENTRATED


def test_extending_leaves_the_original_alone() -> None:
    loose = CONCENTRATED.extended("loose", Gaussian)
    assert not loose.has(A, REPLACE_ONE)
    assert CONCENTRATED.has(A, REPLACE_ONE)
    loose.rule(Gaussian, "loose", cite=SOURCE)(lambda node: Fraction(1))
    assert loose.fold(A, REPLACE_ONE).value == 1
    assert loose.fold(A, REPLACE_ONE).calculus == "loose"
    assert CONCENTRATED.fold(A, REPLACE_ONE).value == Fraction(1, 8)
    assert "loose" not in CALCULI


# --- missing rules -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("calculus", "node", "scope", "message"),
    [
        (PURE, Compose(LAPLACE, Repeat(A, 3)), REPLACE_ONE, "Compose[1].Repeat.Gaussian('a'): pure "
         "has no rule for Gaussian under replace_one; an unbounded loss: no epsilon holds at delta "
         "0; use one of: zcdp, rdp, gdp, profile"),
        (CONCENTRATED, Repeat(PoissonSampled(LAPLACE, 0.1), 2), ADD_REMOVE,
         "Repeat.PoissonSampled: zcdp has no rule for PoissonSampled under add_remove; sampling "),
        (PURE, PoissonSampled(LAPLACE, 0.1), REPLACE_ONE,
         "PoissonSampled: pure has no rule for PoissonSampled under replace_one; "
         "use one of: profile"),
        (PURE, SampledWithoutReplacement(LAPLACE, 1, 10), ADD_REMOVE, "SampledWithoutReplacement"),
        (PURE, SampledWithoutReplacement(LAPLACE, 1, 10), ZERO_OUT, "SampledWithoutReplacement"),
        (GAUSSIAN, ZCDP(1, "z"), REPLACE_ONE, "use one of: zcdp, rdp, profile"),
        (CONCENTRATED, Parallel(A, ApproxDP(1, 0.1, "p")), REPLACE_ONE,
         "Parallel[1].ApproxDP('p'): zcdp has no rule for ApproxDP under replace_one; "
         "an outcome that tells all has infinite Renyi divergence; use one of: approx, profile"),
        (RENYI, Gaussian("a", sympy.Symbol("alpha", positive=True)), REPLACE_ONE,
         "it keeps the symbol alpha for itself"),
    ],
)  # fmt: skip
def test_a_missing_rule_names_the_path_and_a_way_out(
    calculus: Calculus, node: Node, scope: Scope, message: str
) -> None:
    assert not calculus.supports(node, scope)
    with pytest.raises(Unsupported) as caught:
        calculus.fold(node, scope)
    assert message in str(caught.value)
    assert caught.value.exit_code == 4


def test_a_missing_rule_is_found_before_any_number_is_made() -> None:
    calls: list[Node] = []
    counting = bare("counting")
    for kind in (Gaussian, Compose, Repeat):
        counting.rule(kind, "counted", cite=SOURCE)(
            lambda node, *premises: calls.append(node) or Fraction(0)
        )
    with pytest.raises(Unsupported):
        counting.fold(Compose(A, Repeat(B, 2), LAPLACE), REPLACE_ONE)
    assert calls == []
    counting.fold(Compose(A, Repeat(B, 2)), REPLACE_ONE)
    assert len(calls) == 4


def test_sampling_rules_hold_under_their_own_adjacencies_only() -> None:
    poisson = PoissonSampled(LAPLACE, 0.1)
    batch = SampledWithoutReplacement(LAPLACE, 1, 10)
    held = {
        (scope.adjacency.value, type(node).__name__)
        for scope in (REPLACE_ONE, ADD_REMOVE, ZERO_OUT)
        for node in (poisson, batch)
        if any(c.has(node, scope) for c in CALCULI.values())
    }
    assert held == {
        ("add_remove", "PoissonSampled"),
        ("zero_out", "PoissonSampled"),
        ("replace_one", "PoissonSampled"),
        ("replace_one", "SampledWithoutReplacement"),
    }


@pytest.mark.parametrize("calculus", ["zcdp", "rdp", "gdp"])
def test_the_symbol_of_the_order_is_no_users_symbol(calculus: str) -> None:
    """A user's alpha would be read as the order, and optimised away."""
    node = Compose(Gaussian("a", sympy.Symbol("alpha", positive=True)), A)
    account = Account(node, REPLACE_ONE)
    assert ("rdp" in account.routes()) is False
    if calculus != "rdp":
        assert account.step(calculus).value.free_symbols == {sympy.Symbol("alpha", positive=True)}
    with pytest.raises(Unsupported, match="alpha have no value"):
        account.approximate(1e-5)


# --- derivations ---------------------------------------------------------------------------------


def test_a_fold_is_a_derivation() -> None:
    node = Compose(A, Repeat(B, 4))
    step = CONCENTRATED.fold(node, REPLACE_ONE)
    assert step.value == Fraction(1, 8) + 4 * Fraction(1, 18)
    assert [s.node for s in step.walk()] == [A, B, node.children[1], node]
    assert [s.rule for s in step.walk()] == [
        "zcdp.gaussian",
        "zcdp.gaussian",
        "zcdp.repetition",
        "zcdp.composition",
    ]
    assert all(isinstance(s.cite, Source) and s.calculus == "zcdp" for s in step.walk())
    with pytest.raises(dataclasses.FrozenInstanceError):
        step.value = Fraction(0)


def test_shared_and_equal_subtrees_are_folded_once() -> None:
    calls: list[Node] = []
    counting = CONCENTRATED.extended("counting", Gaussian)
    counting.rule(Gaussian, "counted", cite=SOURCE)(lambda node: calls.append(node) or Fraction(1))
    node: Node = A
    for _ in range(300):
        node = Compose(node, Compose(Gaussian("a", 2)))
    start = time.process_time()
    assert counting.fold(node, REPLACE_ONE).value == 301
    node = A
    for _ in range(300):
        node = Compose(node, node)
    step = counting.fold(node, REPLACE_ONE)
    assert step.value == 2**300
    assert len(step.walk()) == 301
    assert len(calls) == 1  # a leaf is kept between folds
    assert time.process_time() - start < 2


# --- attained bounds -----------------------------------------------------------------------------

PARALLEL = Parallel(A, B)
ATTAINED: list[tuple[Node, bool]] = [
    (A, True),
    (Compose(A, B), True),
    (Repeat(A, 5), True),
    (Repeat(A, 0), True),
    (Repeat(A, K), True),
    (Repeat(Gaussian("a", k), 5, k), True),
    (Repeat(Gaussian("a", x * k), K, k), True),
    (PARALLEL, True),
    (Parallel(A, A), True),
    (Parallel(Gaussian("a", x), Gaussian("b", y)), True),
    (Repeat(PARALLEL, 5), True),
    (Compose(PARALLEL, A), True),
    (Compose(Repeat(PARALLEL, 2), A, B), True),
    (Parallel(PARALLEL, A), True),
    (Compose(PARALLEL, PARALLEL), False),
    (Compose(PARALLEL, Parallel(B, A)), False),
    (Compose(Compose(A, PARALLEL), Repeat(PARALLEL, 2)), False),
    (Compose(Compose(PARALLEL), Compose(Compose(PARALLEL))), False),
    (Repeat(Parallel(A, Gaussian("b", k)), 5, k), False),
    (Repeat(Repeat(Parallel(A, Gaussian("b", k)), 2), 5, k), False),
    (Repeat(Compose(B, Parallel(A, Gaussian("b", k))), K, k), False),
    (Parallel(Compose(PARALLEL, PARALLEL), A), False),
    (GDP(1), False),
    (Compose(A, GDP(1)), False),
    (Parallel(A, GDP(1)), False),
    (Repeat(GDP(1), 2), False),
    (Assuming(A, DECLARED), False),
    (Compose(Assuming(A, DECLARED), B), False),
    (LAPLACE, False),
    (PureDP(1), False),
    (NonPrivate("mean"), False),
    (Compose(A, NonPrivate("mean")), False),
]


@pytest.mark.parametrize("calculus", [CONCENTRATED, GAUSSIAN], ids=["zcdp", "gdp"])
@pytest.mark.parametrize(("node", "attained"), ATTAINED, ids=range(len(ATTAINED)))
def test_when_a_bound_is_attained(calculus: Calculus, node: Node, attained: bool) -> None:
    step = calculus.fold(node, REPLACE_ONE)
    assert step.attained is attained
    assert step.reached == (step.value if attained else None)


@pytest.mark.parametrize(
    ("node", "attained"),
    [
        (LAPLACE, True),
        (Compose(LAPLACE, Laplace("m", 1)), True),
        (Parallel(LAPLACE, Laplace("m", 1)), True),
        (PureDP(1), False),
        (PoissonSampled(LAPLACE, 0.1), False),
        (Compose(LAPLACE, PoissonSampled(LAPLACE, 1)), False),
        (PoissonSampled(Parallel(LAPLACE, LAPLACE), 0.5), False),
    ],
)
def test_when_a_pure_bound_is_attained(node: Node, attained: bool) -> None:
    assert PURE.fold(node, ADD_REMOVE).attained is attained
    assert not APPROX.fold(Compose(LAPLACE, PureDP(1)), ADD_REMOVE).attained


# --- assumptions and infinite bounds -------------------------------------------------------------


@pytest.mark.parametrize(
    ("calculus", "leaf"),
    [
        (PURE, PureDP(1, "v", "Somebody 2020")),
        (APPROX, ApproxDP(1, 0.1, "v", "Somebody 2020")),
        (CONCENTRATED, ZCDP(1, "v", "Somebody 2020")),
        (GAUSSIAN, GDP(1, "v", "Somebody 2020")),
        (RENYI, ZCDP(1, "v", "Somebody 2020")),
    ],
)
def test_an_opaque_leaf_is_declared_and_never_attained(calculus: Calculus, leaf: Node) -> None:
    for node in (leaf, Compose(leaf, leaf), Repeat(leaf, 3), Parallel(leaf, leaf)):
        step = calculus.fold(node, REPLACE_ONE)
        assert step.attained is False
        (assumption,) = step.assumptions()
        assert assumption.status is Status.DECLARED
        assert "Somebody 2020" in assumption.statement
        assert assumption.id == f"opaque:{leaf.digest[:12]}"


def test_assumptions_are_never_dropped() -> None:
    other = Assumption("iid", "Records are independent.", Status.TESTED)
    node = Compose(Assuming(Repeat(Assuming(A, DECLARED), 2), other), Parallel(B, GDP(1)))
    found = GAUSSIAN.fold(node, REPLACE_ONE).assumptions()
    assert {a.id for a in found} >= {"lipschitz", "iid"}
    assert len(found) == 3
    assert GAUSSIAN.fold(A, REPLACE_ONE).assumptions() == ()


def test_two_assumptions_cannot_share_an_id() -> None:
    """The second would hide the first, and could turn a declared one into an enforced one."""
    enforced = dataclasses.replace(DECLARED, evidence="another")
    step = GAUSSIAN.fold(Compose(Assuming(A, DECLARED), Assuming(B, enforced)), REPLACE_ONE)
    with pytest.raises(InvalidParameter, match="share the id 'lipschitz'"):
        step.assumptions()
    same = GAUSSIAN.fold(Compose(Assuming(A, DECLARED), Assuming(B, DECLARED)), REPLACE_ONE)
    assert same.assumptions() == (DECLARED,)


def _tells_all(pair: Pair) -> bool:
    """Whether a factor of the pair, or one of several, has all P mass where Q has 0."""
    if isinstance(pair, Largest):
        return any(map(_tells_all, pair.pairs))
    tells = Atoms(((Fraction(1), Fraction(0)), (Fraction(0), Fraction(1))))
    return any(
        factor in (tells, tells.swapped) or (factor is not pair and _tells_all(factor))
        for factor, _ in pair.factors
    )


@pytest.mark.parametrize("calculus", CALCULI.values(), ids=CALCULI)
def test_a_non_private_access_is_infinite_whatever_surrounds_it(calculus: Calculus) -> None:
    def upper(node: Node, scope: Scope = REPLACE_ONE) -> Any:
        value = calculus.fold(node, scope).value
        if isinstance(value, Losses):
            return infinity() if any(map(_tells_all, value.pairs)) else Fraction(0)
        return value[0] if isinstance(value, tuple) else value

    bad = NonPrivate("the mean")
    maybe = sympy.Symbol("n", nonnegative=True, integer=True)
    for node in (
        bad,
        Compose(LAPLACE, bad),
        Parallel(LAPLACE, bad),
        Repeat(bad, 3),
        Repeat(bad, maybe),
        Repeat(Compose(bad, LAPLACE), K, k),
        Assuming(bad, DECLARED),
    ):
        assert is_infinite(upper(node))
        assert calculus.fold(node, REPLACE_ONE).attained is False
    assert upper(Repeat(bad, 0)) == 0


def test_a_sampled_non_private_access_is_infinite() -> None:
    maybe = sympy.Symbol("q", nonnegative=True)
    for rate in (Fraction(1, 1000), x, maybe):
        node = PoissonSampled(NonPrivate("the mean"), rate)
        assert is_infinite(PURE.fold(node, ADD_REMOVE).value)


def test_steps_know_what_they_reach() -> None:
    step = Step("zcdp", "r", SOURCE, A, Fraction(2), attained=True, lower=Fraction(1))
    assert step.reached == 1
    assert dataclasses.replace(step, lower=None).reached == 2
    assert dataclasses.replace(step, attained=False).reached is None
