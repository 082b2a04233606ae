"""The checker's fold against the accountant's on random declarations, and a wrong accountant."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
import sympy

from dpaudit.accountant.account import Account
from dpaudit.certificate.certificate import step_rows, steps_of
from dpaudit.check import check
from dpaudit.check.derivation import Value, own_bound, rederive
from dpaudit.check.measures import MEASURES
from dpaudit.errors import CertificateRejected, Unsupported
from dpaudit.families.adaptive import Select
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Assuming, Compose, Parallel, Repeat
from dpaudit.families.discrete import DiscreteGaussian, RandomizedResponse
from dpaudit.families.events import EventSlack
from dpaudit.families.opaque import (
    GDP,
    ZCDP,
    ApproxDP,
    NonPrivate,
    ProfilePoints,
    PureDP,
    RenyiDP,
)
from dpaudit.families.sampling import PoissonSampled, SampledWithoutReplacement
from dpaudit.measures.calculus import CALCULI, Calculus, Converted, Step
from dpaudit.nodes import Assumption, Node
from dpaudit.pairs import Normal, one
from dpaudit.scope import Adjacency
from tests.library.cli.bench import certified, mechanism, scope

TREES = 200
ALWAYS = 60
ROUND = sympy.Symbol("k", integer=True, positive=True)
COMBINED = "compose compose parallel repeat index assuming sampled select slack".split()
ORDERS = (Fraction(3, 2), Fraction(2), Fraction(17, 3))


def number(draw: random.Random, largest: int = 40) -> Any:
    """A positive fraction, or a root of one."""
    value = Fraction(draw.randint(1, 8 * largest), 8)
    return (
        sympy.sqrt(sympy.Rational(value.numerator, value.denominator))
        if not draw.randrange(4)
        else value
    )


def leaf(draw: random.Random, index: Any = None) -> Node:
    name = f"r{draw.randrange(10**6)}"
    makers: list[Any] = [
        lambda: Gaussian(name, number(draw) if index is None else number(draw) + index),
        lambda: Laplace(name, number(draw)),
        lambda: PureDP(number(draw, 2), source="somebody"),
        lambda: ApproxDP(
            number(draw, 2), Fraction(1, draw.randint(10**3, 10**6)), source="somebody"
        ),
        lambda: ZCDP(number(draw, 2), source="somebody"),
        lambda: GDP(number(draw, 2), source="somebody"),
        lambda: NonPrivate("looked"),
        lambda: RenyiDP(1 + number(draw, 9), number(draw, 2), source="somebody"),
        lambda: ProfilePoints(points(draw), source="somebody"),
        lambda: DiscreteGaussian(name, number(draw)),
        lambda: RandomizedResponse(name, number(draw, 4), draw.randint(2, 5)),
    ]
    weights = [9, 6, 4, 2, 3, 3, 0.5, 1, 1, 2, 2]
    return draw.choices(makers, weights)[0]()  # type: ignore[no-any-return]


def points(draw: random.Random) -> tuple[tuple[Fraction, Fraction], ...]:
    """One to four points of growing epsilon and falling delta."""
    epsilons = sorted(draw.sample(range(40), draw.randint(1, 4)))
    return tuple((Fraction(e, 9), Fraction(1, 3 * 5**k)) for k, e in enumerate(epsilons))


def tree(draw: random.Random, depth: int) -> Node:
    if depth == 0:
        return leaf(draw)

    def below() -> Node:
        return tree(draw, draw.randrange(depth))

    kind = draw.choice(
        [
            "compose",
            "compose",
            "parallel",
            "repeat",
            "index",
            "assuming",
            "sampled",
            "select",
            "slack",
        ]
    )
    if kind == "select":
        return Select(*(below() for _ in range(draw.randint(1, 3))))
    if kind == "slack":
        return EventSlack(below(), Fraction(1, draw.randint(10**6, 10**9)), "an event")
    if kind in ("compose", "parallel"):
        several = Compose if kind == "compose" else Parallel
        return several(*(below() for _ in range(draw.randint(1, 4))))
    if kind == "repeat":
        return Repeat(below(), draw.randint(0, 60))
    if kind == "index":
        return Repeat(leaf(draw, ROUND), draw.randint(1, 12), ROUND)
    if kind == "assuming":
        status = draw.choice(["enforced", "tested", "declared", "violated"])
        name = f"a{draw.randrange(10**9)}"
        return Assuming(below(), Assumption(name, "it holds", status))  # type: ignore[arg-type]
    if draw.random() < 0.5:
        return PoissonSampled(below(), Fraction(1, draw.randint(2, 50)))
    return SampledWithoutReplacement(below(), draw.randint(1, 20), draw.randint(20, 90))


def random_case(seed: int) -> tuple[Node, str]:
    draw = random.Random(seed)
    return tree(draw, draw.randint(0, 3)), draw.choice(list(Adjacency)).value


def rederived(root: Node, adjacency: str, step: Step) -> Value:
    """The checker's value of a step, from the rows a certificate would hold."""
    rows = step_rows(steps_of([step]))
    predicate = {"derivation": {"steps": rows}, "scope": {"adjacency": adjacency}}
    return rederive(predicate, root)[-1]


def at_orders(value: Any) -> Any:
    return tuple(value(a) for a in ORDERS)


def accounted_at_orders(step: Step) -> Any:
    alpha = sympy.Symbol("alpha", positive=True)
    value = sympy.sympify(step.value)
    return tuple(value.subs(alpha, sympy.Rational(a.numerator, a.denominator)) for a in ORDERS)


def same(ours: Any, theirs: Any) -> bool:
    pairs = zip(ours, theirs, strict=True) if isinstance(theirs, tuple) else [(ours, theirs)]
    return all(a == b or abs(float(a) - float(b)) <= 1e-12 * abs(float(b)) for a, b in pairs)


@pytest.mark.parametrize(
    "seeds",
    [range(ALWAYS), pytest.param(range(ALWAYS, TREES), marks=pytest.mark.quality)],
    ids=["always", "the rest"],
)
def test_the_checker_agrees_with_the_accountant_on_random_trees(seeds: range) -> None:
    folded, refused = 0, 0
    for seed in seeds:
        root, adjacency = random_case(seed)
        account = Account(root, scope(adjacency))
        for calculus in CALCULI:
            if calculus not in account.routes():
                assert own_bound(root, calculus, adjacency) is None, (seed, calculus)
                refused += 1
                continue
            step = account.step(calculus)
            value = rederived(root, adjacency, step)
            assert value.attained == step.attained, (seed, calculus)
            assert value.in_one_part == step.in_one_part, (seed, calculus)
            assert value.assumes == {a.id for a in step.assumptions()}, (seed, calculus)
            renyi = calculus == "rdp"
            ours = at_orders(value.upper) if renyi else value.upper
            assert same(ours, accounted_at_orders(step) if renyi else step.value), (seed, calculus)
            folded += 1
    assert folded > len(seeds)
    assert refused > len(seeds)


@pytest.mark.quality
def test_conversions_of_random_trees_are_confirmed() -> None:
    converted = finite = 0
    for seed in range(0, 120, 4):
        root, adjacency = random_case(seed)
        account = Account(root, scope(adjacency))
        delta = Fraction(1, 3 + seed * 7919)
        try:
            step = account.approximate(delta)
        except Unsupported:
            continue
        value = rederived(root, adjacency, step)
        assert value.upper == step.value, seed
        assert value.reached == step.lower, seed
        converted += 1
        finite += step.value[0] != sympy.oo
    assert converted > 20
    assert finite > 15


@pytest.mark.first_case
@pytest.mark.parametrize("seed", range(0, 40, 4))
def test_whole_certificates_of_random_trees_verify(seed: int) -> None:
    root, adjacency = random_case(seed)
    claims = (ApproxDP(3, Fraction(1, 20190)), GDP(1), ZCDP(Fraction(1, 2)), PureDP(2))
    certificate = certified(mechanism("case", root, *claims, adjacency=adjacency)).certificate
    report = check(certificate)
    assert "4 claims and the verdict" in report.confirmed


# --- a wrong accountant --------------------------------------------------------------------------

OPAQUE = ApproxDP(1, 0.1, source="somebody")
WRONG: list[tuple[str, type[Node], Any, Node, Node]] = [
    ("gdp", Gaussian, lambda n: 1 / (2 * n.noise_multiplier), Gaussian("a", 2), GDP(0.5)),
    ("zcdp", Gaussian, lambda n: 1 / (4 * n.noise_multiplier**2), Gaussian("a", 2), ZCDP(0.125)),
    ("pure", Laplace, lambda n: 1 / (2 * n.noise_multiplier), Laplace("a", 2), PureDP(0.5)),
    ("gdp", Compose, lambda n, *p: max(p), Compose(Gaussian("a", 2), Gaussian("b", 2)), GDP(1)),
    ("gdp", Repeat, lambda n, p: p, Repeat(Gaussian("a", 2), 4), GDP(1)),
    ("pure", PoissonSampled, lambda n, p: p / 2, PoissonSampled(Laplace("a", 1), 0.5), PureDP(1)),
    ("zcdp", PureDP, lambda n: n.epsilon**2 / 4, PureDP(1, source="somebody"), ZCDP(1)),
    ("approx", ApproxDP, lambda n: (n.epsilon / 2, n.delta), OPAQUE, ApproxDP(1, 0.1)),
]  # fmt: skip


@pytest.mark.first_case
@pytest.mark.long_cases("pure-PoissonSampled")
@pytest.mark.parametrize(
    ("calculus", "kind", "formula", "node", "claim"),
    WRONG,
    ids=[f"{w[0]}-{w[1].__name__}" for w in WRONG],
)
def test_a_wrong_accountant_is_found_out(
    calculus: str, kind: type[Node], formula: Any, node: Node, claim: Node, monkeypatch: Any
) -> None:
    adjacency = "add_remove" if kind is PoissonSampled else "replace_one"
    case = mechanism("case", node, claim, adjacency=adjacency)
    check(certified(case).certificate)
    rules = CALCULI[calculus]._rules
    monkeypatch.setitem(rules, kind, replace(rules[kind], function=formula))
    with pytest.raises(CertificateRejected, match="is not its bound"):
        check(certified(case).certificate)


def test_a_wrong_pair_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Compose(Gaussian("a", 2), Laplace("b", 3))
    case = mechanism("case", node, ApproxDP(3, Fraction(1, 10**5)))
    check(certified(case).certificate)
    rules = CALCULI["profile"]._rules
    half = replace(rules[Gaussian], function=lambda n: one(Normal(1 / (2 * n.noise_multiplier))))
    monkeypatch.setitem(rules, Gaussian, half)
    with pytest.raises(CertificateRejected, match="its pairs do not dominate those of its theorem"):
        check(certified(case).certificate)


def test_a_wrong_profile_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that answers 1e-4 too little is not believed."""
    from dpaudit.profiles import epsilon_interval as honest

    def shaved(*arguments: Any, **options: Any) -> Any:
        found = honest(*arguments, **options)
        low = max(found.lower - Fraction(1, 10**4), Fraction(0))
        return replace(found, lower=low, upper=found.upper - Fraction(1, 10**4))

    node = Compose(Gaussian("a", 2), Laplace("b", 3))
    case = mechanism("case", node, ApproxDP(3, Fraction(1, 10**5)))
    check(certified(case).certificate)
    monkeypatch.setattr("dpaudit.profiles.epsilon_interval", shaved)
    with pytest.raises(CertificateRejected, match="epsilon does not follow"):
        check(certified(case).certificate)


def test_a_wrong_conversion_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    case = mechanism("case", Gaussian("a", 2), ApproxDP(2, Fraction(1, 10**5)))
    check(certified(case).certificate)
    cheap = Converted(Fraction(1), Fraction(1), {"epsilon": "1"})
    wrong = replace(CALCULI["gdp"].measure, to_approx=lambda step, delta, width: cheap)
    monkeypatch.setattr(CALCULI["gdp"], "measure", wrong)
    with pytest.raises(CertificateRejected, match="epsilon does not follow"):
        check(certified(case).certificate)


def test_a_rule_under_the_wrong_adjacency_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Amplification by Poisson sampling is proved for add_remove, not for replace_one."""
    rules = CALCULI["pure"]._rules
    everywhere = replace(rules[PoissonSampled], adjacencies=frozenset(Adjacency))
    monkeypatch.setitem(rules, PoissonSampled, everywhere)
    case = mechanism("case", PoissonSampled(Laplace("a", 1), 0.5), PureDP(1))
    with pytest.raises(CertificateRejected, match="under replace_one is None"):
        check(certified(case).certificate)


def test_attained_is_the_checkers_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """An accountant that calls a loose bound attained could refute a true claim."""
    rules = CALCULI["zcdp"]._rules
    monkeypatch.setitem(rules, PureDP, replace(rules[PureDP], attained=lambda node, premises: True))
    case = mechanism("case", PureDP(1, source="somebody"), ZCDP(Fraction(1, 4)))
    found = certified(case)
    assert found.verdict == "refuted"
    with pytest.raises(CertificateRejected, match="'attained' does not follow"):
        check(found.certificate)


def test_calculi_are_the_same() -> None:
    assert set(MEASURES) == set(CALCULI)
    for name, measure in MEASURES.items():
        other = CALCULI[name].measure
        assert (measure.wire, measure.wire_field) == (other.wire, other.wire_field)
    assert all(isinstance(calculus, Calculus) for calculus in CALCULI.values())
