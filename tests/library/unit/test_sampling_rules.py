"""Rules for secret batches, against enumeration and their restatement in the checker."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import pytest
import sympy

from dpaudit.errors import CertificateRejected, InvalidParameter, Unsupported
from dpaudit.exact import is_infinite
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Compose, Parallel, Repeat
from dpaudit.families.correlated import CorrelatedGaussian
from dpaudit.families.opaque import ApproxDP, NonPrivate, PureDP
from dpaudit.families.sampling import (
    PoissonSampled,
    RandomAllocation,
    SampledWithoutReplacement,
    SampledWithReplacement,
)
from dpaudit.families.sampling.profile_theorem import _allocated
from dpaudit.measures.approx import APPROX
from dpaudit.measures.calculus import CALCULI, Calculus
from dpaudit.measures.convert import to_approx
from dpaudit.measures.gdp import GAUSSIAN
from dpaudit.measures.profile import PROFILE
from dpaudit.measures.pure import PURE
from dpaudit.measures.renyi import RENYI, order
from dpaudit.measures.zcdp import CONCENTRATED
from dpaudit.nodes import Node
from dpaudit.nodes.tables import from_table, to_table
from dpaudit.pairs import Allocated, Normal
from dpaudit.scope import Scope
from tests.support.sampling import (
    ADD_REMOVE,
    REPLACE_ONE,
    ZERO_OUT,
    G,
    K,
    L,
    geometric,
    mean_law,
    number,
    of_moment,
    rederived,
    renyi,
)

BAD = [0, -1, 1.5, math.nan, math.inf, "three", None]


# --- nodes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", BAD)
def test_bad_counts_are_refused(bad: Any) -> None:
    for make, name in (
        (lambda: SampledWithReplacement(G, bad, 10), "SampledWithReplacement.draws"),
        (lambda: SampledWithReplacement(G, 5, bad), "SampledWithReplacement.population"),
        (lambda: RandomAllocation(G, bad), "RandomAllocation.slots"),
    ):
        with pytest.raises(InvalidParameter, match=name):
            make()


@pytest.mark.parametrize("kind", [SampledWithReplacement, RandomAllocation])
def test_a_child_is_a_node(kind: Any) -> None:
    with pytest.raises(InvalidParameter, match="not a node"):
        kind("g", *[3] * (2 if kind is SampledWithReplacement else 1))


@pytest.mark.parametrize("node", [SampledWithReplacement(L, 3, 9), RandomAllocation(G, 4)])
def test_nodes_travel(node: Node) -> None:
    assert from_table(to_table(node)) == node
    assert node != node.rebuild(dict.fromkeys(node.parameters, 7), [L])


def test_draws_may_exceed_the_population() -> None:
    assert SampledWithReplacement(L, 30, 9).draws == 30


# --- where a rule holds, and why it does not -----------------------------------------------------


@pytest.mark.parametrize(
    ("calculus", "node", "scope", "reason"),
    [
        (RENYI, PoissonSampled(G, 0.1), REPLACE_ONE, "PoissonSampled under replace_one"),
        (APPROX, SampledWithoutReplacement(L, 1, 9), ZERO_OUT, "under zero_out"),
        (PURE, SampledWithReplacement(L, 1, 9), ADD_REMOVE, "under add_remove"),
        (CONCENTRATED, PoissonSampled(G, 0.1), ADD_REMOVE, "Bun, Dwork, Rothblum, Steinke 2018"),
        (GAUSSIAN, SampledWithoutReplacement(G, 1, 9), REPLACE_ONE, "no Gaussian one"),
        (GAUSSIAN, RandomAllocation(G, 9), ADD_REMOVE, "no Gaussian one"),
        (RENYI, SampledWithReplacement(L, 1, 9), REPLACE_ONE, "no amplified bound is proved"),
        (PROFILE, SampledWithReplacement(L, 1, 9), REPLACE_ONE, "mixes profiles"),
    ],
)
def test_an_error_names_the_path_and_the_reason(
    calculus: Calculus, node: Node, scope: Scope, reason: str
) -> None:
    with pytest.raises(Unsupported) as caught:
        calculus.fold(Compose(L, Repeat(node, 3)), scope)
    assert str(caught.value).startswith(f"Compose[1].Repeat.{type(node).__name__}: ")
    assert reason in str(caught.value)


def test_every_cell_of_the_family_is_a_rule_or_has_a_reason() -> None:
    kinds = (PoissonSampled, SampledWithoutReplacement, SampledWithReplacement, RandomAllocation)
    for calculus in CALCULI.values():
        assert all(calculus.covers(kind) for kind in kinds), calculus.name


# --- pure and approximate ------------------------------------------------------------------------


def drawn(records: Sequence[int], draws: int, law: Callable[[int], list[float]]) -> list[float]:
    """The output's law where ``draws`` are made with replacement, by listing all of them."""
    sums = Counter(sum(batch) for batch in itertools.product(records, repeat=draws))
    return mean_law([(times / len(records) ** draws, law(s)) for s, times in sums.items()])


@pytest.mark.parametrize(("draws", "population"), [(1, 3), (2, 2), (3, 2), (4, 3), (2, 4)])
@pytest.mark.parametrize("epsilon", [0.1, 0.7, 2.0])
def test_draws_with_replacement_by_enumeration(draws: int, population: int, epsilon: float) -> None:
    """Noisy counts of all data sets of zeros and ones: the largest loss is the bound."""
    node = SampledWithReplacement(PureDP(epsilon), draws, population)
    bound = number(PURE.fold(node, REPLACE_ONE).value)
    losses = []
    for others in itertools.product((0, 1), repeat=population - 1):
        laws = [drawn([x, *others], draws, lambda c: geometric(c, epsilon)) for x in (0, 1)]
        losses += [abs(math.log(p / q)) for p, q in zip(*laws, strict=True)]
    assert max(losses) == pytest.approx(bound, rel=1e-9)


@pytest.mark.parametrize(("draws", "population"), [(1, 3), (2, 2), (3, 2), (3, 3)])
@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_approximate_draws_with_replacement_by_enumeration(
    draws: int, population: int, epsilon: float
) -> None:
    """A noisy count that tells the exact one with a tenth of probability a record."""
    leak = 0.1

    def law(count: int) -> list[float]:
        told = [leak * (k == count) for k in range(draws + 1)]
        return [*told, *((1 - leak) * p for p in geometric(count, epsilon))]

    node = SampledWithReplacement(ApproxDP(epsilon, leak), draws, population)
    above, delta = map(number, APPROX.fold(node, REPLACE_ONE).value)
    for others in itertools.product((0, 1), repeat=population - 1):
        laws = [drawn([x, *others], draws, law) for x in (0, 1)]
        for p, q in (laws, laws[::-1]):
            excess = math.fsum(max(0, a - math.exp(above) * b) for a, b in zip(p, q, strict=True))
            assert excess <= delta * (1 + 1e-12)


def test_closed_forms_of_amplification() -> None:
    pair = ApproxDP(1, Fraction(1, 1000))
    epsilon, delta = APPROX.fold(PoissonSampled(pair, 0.1), ZERO_OUT).value
    assert number(epsilon) == pytest.approx(math.log(1 + 0.1 * (math.e - 1)), rel=1e-14)
    assert delta == Fraction(1, 10_000)
    assert APPROX.fold(SampledWithoutReplacement(pair, 2, 20), REPLACE_ONE).value == (
        epsilon,
        delta,
    )
    same = ApproxDP(0, Fraction(1, 1000))
    assert APPROX.fold(SampledWithReplacement(same, 3, 30), REPLACE_ONE).value == (0, delta)
    assert APPROX.fold(RandomAllocation(pair, 9), ADD_REMOVE).value == (1, Fraction(1, 1000))
    assert PURE.fold(RandomAllocation(L, 9), REPLACE_ONE).reached == Fraction(1, 2)


def test_one_draw_is_a_batch_of_one() -> None:
    one = PURE.fold(SampledWithReplacement(L, 1, 7), REPLACE_ONE).value
    assert (
        sympy.simplify(one - PURE.fold(SampledWithoutReplacement(L, 1, 7), REPLACE_ONE).value) == 0
    )


def test_what_is_not_private_stays_so() -> None:
    bad = NonPrivate("the mean")
    for node, scope in (
        (PoissonSampled(bad, 0.1), ADD_REMOVE),
        (SampledWithoutReplacement(bad, 1, 9), REPLACE_ONE),
        (SampledWithReplacement(bad, 1, 9), REPLACE_ONE),
        (RandomAllocation(bad, 9), ADD_REMOVE),
    ):
        assert is_infinite(PURE.fold(node, scope).value)
        assert is_infinite(APPROX.fold(node, scope).value[0])
        if RENYI.supports(node, scope):
            assert is_infinite(RENYI.fold(node, scope).value)


# --- records with public places -----------------------------------------------------------------


def test_a_batch_over_parts_may_tell_who_was_drawn() -> None:
    """Two parts of a record each, a batch of one: the first part releases its size and a bit.

    The size is the same on both data sets and so free; it tells whether the bit was read.
    """
    epsilon = 1.0
    kept = 1 / (1 + math.exp(-epsilon))
    laws = [[0.5 * p, 0.5 * (1 - p), 0.5] for p in (kept, 1 - kept)]
    truth = max(abs(math.log(p / q)) for p, q in zip(*laws, strict=True))
    parts = Parallel(PureDP(epsilon), PureDP(epsilon))
    node = SampledWithoutReplacement(parts, 1, 2)
    assert truth == pytest.approx(epsilon)
    assert number(PURE.fold(node, REPLACE_ONE).value) >= truth * (1 - 1e-12)
    draws = SampledWithReplacement(parts, 1, 2)
    assert number(PURE.fold(draws, REPLACE_ONE).value) >= truth * (1 - 1e-12)


PLACED = [
    Parallel(G, Gaussian("h", 3)),
    Compose(L, Repeat(Parallel(G, L), 2)),
    CorrelatedGaussian("c", 1, 8),
]


@pytest.mark.parametrize("child", PLACED)
def test_places_are_not_amplified_under_replacement(child: Node) -> None:
    node = SampledWithoutReplacement(child, 1, 10)
    own, found = (RENYI.fold(n, REPLACE_ONE) for n in (child, node))
    assert found.value == own.value
    base, losses = (PROFILE.fold(n, REPLACE_ONE).value for n in (child, node))
    assert (losses.remove, losses.add, losses.reached) == (base.remove, base.add, ())
    for calculus in ("rdp", "profile"):
        step = CALCULI[calculus].fold(node, REPLACE_ONE)
        value = rederived(node, "replace_one", step)
        assert (value.upper(order()) if calculus == "rdp" else value.upper) == step.value


def test_approximate_places() -> None:
    parts = Parallel(ApproxDP(1, 1e-5, source="s"), PureDP(1, source="s"))
    batch, draws = SampledWithoutReplacement(parts, 1, 10), SampledWithReplacement(parts, 2, 10)
    assert APPROX.fold(batch, REPLACE_ONE).value == (1, Fraction(1, 10**6))
    epsilon, delta = APPROX.fold(draws, REPLACE_ONE).value
    assert epsilon == 2
    assert number(delta) == pytest.approx(1e-5 * (0.18 + 0.01 * (1 + math.e)), rel=1e-12)
    for node in (batch, draws):
        step = APPROX.fold(node, REPLACE_ONE)
        assert rederived(node, "replace_one", step).upper == step.value


# --- profiles ------------------------------------------------------------------------------------


def test_profiles_of_random_allocation() -> None:
    losses = PROFILE.fold(RandomAllocation(Gaussian("g", 2), 7), ZERO_OUT).value
    pair = Allocated(Fraction(2), Fraction(7))
    assert (losses.remove, losses.add) == ((pair,), (pair.swapped,))
    assert losses.reached == losses.pairs
    one = PROFILE.fold(RandomAllocation(Gaussian("g", 2), 1), ADD_REMOVE).value
    assert one.pairs == (Normal(Fraction(1, 2)),)
    child = PROFILE.fold(L, ADD_REMOVE).value
    other = PROFILE.fold(RandomAllocation(L, 7), ADD_REMOVE).value
    assert (other.remove, other.add, other.reached) == (child.remove, child.add, ())


@pytest.mark.parametrize("alpha", [2, 4])
def test_allocation_is_no_further_apart_than_its_child(alpha: int) -> None:
    """Two slots in the plane, by quadrature, in both directions."""
    z, step = 1.0, 0.1
    grid = [i * step for i in range(-120, 160)]
    row = [(math.exp(-(x**2) / 2) / math.sqrt(2 * math.pi), math.exp(x - 0.5)) for x in grid]
    forward = backward = 0.0
    for (density, ratio), (other_density, other_ratio) in itertools.product(row, row):
        mean = (ratio + other_ratio) / 2
        forward += density * other_density * mean**alpha
        backward += density * other_density * mean ** (1 - alpha)
    bound = renyi(RandomAllocation(Gaussian("g", z), 2), alpha)
    assert of_moment(max(forward, backward) * step**2, alpha) <= bound


# --- the checker ---------------------------------------------------------------------------------

CHECKED = [
    (PoissonSampled(G, 0.01), "add_remove"),
    (PoissonSampled(Compose(G, L), 0.5), "zero_out"),
    (Repeat(PoissonSampled(PoissonSampled(L, 0.1), 0.1), 40), "add_remove"),
    (Compose(G, Repeat(PoissonSampled(Gaussian("h", K + 1), 0.1), 6, K)), "add_remove"),
    (Repeat(PoissonSampled(Compose(G, L), 0.5), 3), "replace_one"),
    (PoissonSampled(Parallel(G, L), K), "replace_one"),
    (PoissonSampled(L, 1), "replace_one"),
    (SampledWithoutReplacement(G, 3, 10), "replace_one"),
    (SampledWithoutReplacement(L, 3, 10), "replace_one"),
    (SampledWithoutReplacement(L, 10, 10), "replace_one"),
    (SampledWithReplacement(L, 3, 10), "replace_one"),
    (SampledWithReplacement(ApproxDP(1, 1e-5, source="s"), 3, 10), "replace_one"),
    (SampledWithReplacement(ApproxDP(0, 1e-5, source="s"), 3, 10), "replace_one"),
    (SampledWithReplacement(NonPrivate("x"), 3, 10), "replace_one"),
    (RandomAllocation(G, 10), "add_remove"),
    (RandomAllocation(L, 10), "replace_one"),
    (RandomAllocation(G, 10), "replace_one"),
    (RandomAllocation(ApproxDP(1, 1e-5, source="s"), 10), "zero_out"),
]  # fmt: skip


@pytest.mark.parametrize("calculus", ["pure", "approx", "rdp", "profile"])
@pytest.mark.parametrize(("node", "adjacency"), CHECKED, ids=range(len(CHECKED)))
def test_the_checker_restates_every_rule(node: Node, adjacency: str, calculus: str) -> None:
    scope = ADD_REMOVE.under(adjacency)
    if not CALCULI[calculus].supports(node, scope):
        with pytest.raises(Unsupported):
            CALCULI[calculus].fold(node, scope)
        return
    step = CALCULI[calculus].fold(node, scope)
    value = rederived(node, adjacency, step)
    assert value.attained == step.attained
    assert (value.upper(order()) if calculus == "rdp" else value.upper) == step.value
    if calculus == "rdp" and not is_infinite(step.value):
        converted = to_approx(step, Fraction(1, 10**5))
        assert rederived(node, adjacency, converted).upper == converted.value


WRONG = [
    ("rdp", PoissonSampled, lambda n, c: c * n.rate**2, PoissonSampled(G, 0.1), "add_remove"),
    ("approx", PoissonSampled, lambda n, p: (p[0] * n.rate, p[1] * n.rate),
     PoissonSampled(L, 0.1), "add_remove"),
    ("rdp", SampledWithoutReplacement, lambda n, c: c * (n.batch_size / n.population) ** 2,
     SampledWithoutReplacement(G, 1, 10), "replace_one"),
    ("pure", SampledWithReplacement, lambda n, e: e * n.draws / n.population,
     SampledWithReplacement(L, 2, 10), "replace_one"),
    ("pure", RandomAllocation, lambda n, e: e / n.slots, RandomAllocation(L, 10), "add_remove"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("calculus", "kind", "formula", "node", "adjacency"),
    WRONG,
    ids=[f"{w[0]}-{w[1].__name__}" for w in WRONG],
)
def test_a_cheaper_formula_is_found_out(
    calculus: str, kind: Any, formula: Any, node: Node, adjacency: str, monkeypatch: Any
) -> None:
    from dataclasses import replace

    rules = CALCULI[calculus]._rules
    monkeypatch.setitem(rules, kind, replace(rules[kind], function=formula))
    step = CALCULI[calculus].fold(node, ADD_REMOVE.under(adjacency))
    with pytest.raises(CertificateRejected, match="is not its bound"):
        rederived(node, adjacency, step)


# --- random allocation of several releases --------------------------------------------------------


def test_gaussian_releases_of_one_slot_are_one() -> None:
    """Squares of moves over noise add: four of noise 4 are one of noise 2; 3 and 4 one of 2.4."""
    one = PROFILE.fold(RandomAllocation(Gaussian("g", 2), 7), ADD_REMOVE).value
    four = RandomAllocation(Repeat(Gaussian("g", 4), 4), 7)
    layers = RandomAllocation(Compose(Gaussian("g", 3), Repeat(Gaussian("h", 4), 1)), 7)
    assert PROFILE.fold(four, ADD_REMOVE).value == one
    other = PROFILE.fold(layers, ADD_REMOVE).value
    assert other == PROFILE.fold(RandomAllocation(Gaussian("g", "2.4"), 7), ADD_REMOVE).value
    mixed = PROFILE.fold(RandomAllocation(Compose(Gaussian("g", 3), L), 7), ADD_REMOVE).value
    assert not any(isinstance(pair, Allocated) for pair in mixed.pairs)
    for node in (four, layers):
        base = PROFILE.fold(node.child, ADD_REMOVE).value
        assert _allocated(node, base) == PROFILE.fold(node, ADD_REMOVE).value
