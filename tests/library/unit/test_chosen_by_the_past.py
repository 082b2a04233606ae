"""What an earlier release may choose is the worst given each of its outcomes, not one choice.

The truth is found by enumeration: given the outcomes so far, whose masses have the ratio q / p, a
run picks the alternative that tells the most of all that follows.  ``value(x)`` is then the largest
of sum over outcomes of p ``after``(x q / p), and ``after`` is max(1 - x, 0) once all is released.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction as F
from itertools import product as combinations
from typing import Any

import pytest

import dpaudit.check.derivation as derivation_module
import dpaudit.families.composition.profile_theorem as composed_theorem
import dpaudit.families.events.rules as event_rules
import dpaudit.families.events.theorem as event_theorem
import dpaudit.measures.calculus as calculus_module
import dpaudit.measures.profile as profile_module
from dpaudit import profiles
from dpaudit.accountant.account import account
from dpaudit.certificate.certificate import step_rows, steps_of
from dpaudit.check.derivation import own_bound, rederive
from dpaudit.errors import CertificateRejected, InternalError
from dpaudit.families.adaptive import Select
from dpaudit.families.composition import Assuming, Compose, Parallel, Repeat
from dpaudit.families.discrete import RandomizedResponse
from dpaudit.families.events import ProposeTestRelease
from dpaudit.families.opaque import ApproxDP, PureDP
from dpaudit.families.sampling import PoissonSampled
from dpaudit.families.tabular import DiscreteGaussianVector
from dpaudit.measures.calculus import CALCULI
from dpaudit.nodes import Assumption, Node, Status
from dpaudit.pairs import LaplaceShift, Largest, Losses, Normal, Pair, joined, largest
from dpaudit.scope import Scope, central

Outcomes = list[tuple[float, float]]
Value = Callable[[float], float]
SCOPE = central("replace_one")
WIDTH = 1e-3
EPSILONS = ("0", "0.4", "1.3", "1.9", "2.6")


# --- the truth -----------------------------------------------------------------------------------


def response(epsilon: float, choices: int = 2, told: float = 0.0) -> Outcomes:
    """Two answers that a record decides and others that it does not, or all with chance told."""
    high, low = math.exp(epsilon), 1.0
    whole = (high + low + choices - 2) / (1 - told)
    rest = (choices - 2) / whole
    return [(high / whole, low / whole), (low / whole, high / whole), (rest, rest), (told, 0.0)]


def counts(variance: float, moves: Iterable[tuple[int, int]], most: int = 9) -> Outcomes:
    """Discrete normal noise on each of some counts, that moved by so much; cut off, from below."""
    weights = {k: math.exp(-k * k / (2 * variance)) for k in range(-60, 61)}
    whole = sum(weights.values())
    found = [(1.0, 1.0)]
    for move in (move for move, times in moves for _ in range(times)):
        noise = [(weights[k], weights[k - move]) for k in range(-most, most + 1)]
        merged: dict[float, tuple[float, float]] = {}
        for (p, q), (a, b) in combinations(found, noise):
            ratio = round(math.log(p * a / (q * b)), 9)
            before = merged.get(ratio, (0.0, 0.0))
            merged[ratio] = before[0] + p * a / whole, before[1] + q * b / whole
        found = list(merged.values())
    return found


def outcomes(leaf: Any) -> list[Outcomes]:
    """The alternatives of a leaf."""
    if isinstance(leaf, PureDP):
        return [response(float(leaf.epsilon))]
    if isinstance(leaf, ApproxDP):
        return [response(float(leaf.epsilon), told=float(leaf.delta))]
    if isinstance(leaf, RandomizedResponse):
        return [response(float(leaf.epsilon), int(leaf.choices))]
    assert isinstance(leaf, DiscreteGaussianVector)
    moves = [[(int(a), int(n)) for a, n in vector] for vector in leaf.moves]
    return [counts(float(leaf.variance), vector) for vector in moves]


def played(node: Node, after: Value) -> Value:
    """What a node and all that follows tell, at their worst."""
    if isinstance(node, Compose):
        for child in reversed(node.children):
            after = played(child, after)
        return after
    if isinstance(node, Repeat):
        for _ in range(int(node.times)):
            after = played(node.child, after)
        return after
    if isinstance(node, (Parallel, Select)):
        each = [played(child, after) for child in node.children]
        return lambda x: max(one(x) for one in each)
    if isinstance(node, Assuming):
        return played(node.base, after)
    if isinstance(node, ProposeTestRelease):
        passed = played(node.test, played(node.release, after))
        failed = met([response(0.0, told=float(node.false_pass))], after)
        return lambda x: max(passed(x), failed(x))
    if isinstance(node, PoissonSampled):
        rate = float(node.rate)
        mixed = [[((1 - rate) * q + rate * p, q) for p, q in o] for o in outcomes(node.child)]
        return met(mixed, after)
    return met(outcomes(node), after)


def met(alternatives: list[Outcomes], after: Value) -> Value:
    def value(x: float) -> float:
        return max(sum(p * after(x * q / p) for p, q in o if p > 0) for o in alternatives)

    return value


def truth(node: Node, epsilon: str) -> float:
    return played(node, lambda x: max(1 - x, 0.0))(math.exp(float(epsilon)))


def fixed(node: Node, epsilon: str) -> float:
    """The same, of runs that choose one alternative of each child of a composition in advance."""
    assert isinstance(node, Compose)
    each = [child.children if isinstance(child, Parallel) else (child,) for child in node.children]
    return max(truth(Compose(*chosen), epsilon) for chosen in combinations(*each))


# --- declarations --------------------------------------------------------------------------------

# Two profiles that cross: much is told seldom, or little always.
OFTEN, SELDOM = PureDP("0.6"), RandomizedResponse("b", 3, 200)
PARTS = Parallel(OFTEN, SELDOM)
FIRST = RandomizedResponse("first", 1, 2)
VECTORS = DiscreteGaussianVector("cells", 1, 4, (((F(1), F(4)),), ((F(2), F(1)),)))
ONE_COUNT = DiscreteGaussianVector("count", 1, 1, (((F(1), F(1)),),))
PLACES = Assumption("places", "parts are blocks", Status.DECLARED)
NODES = {
    "a partition chosen by a count": Compose(FIRST, PARTS),
    "a partition, then a count": Compose(PARTS, FIRST),
    "two partitions": Compose(PARTS, Parallel(PureDP(1), RandomizedResponse("c", 4, 500))),
    "one partition three times": Compose(PARTS, PARTS, PARTS),
    "partitions that are repeated": Compose(Repeat(PARTS, 2), FIRST),
    "compositions as parts": Compose(FIRST, Parallel(Repeat(PureDP("0.4"), 3), SELDOM)),
    "a partition inside a part": Compose(FIRST, Parallel(PARTS, ApproxDP("0.2", "0.02"))),
    "a partition under an assumption": Compose(FIRST, Assuming(PARTS, PLACES)),
    "a selection": Compose(FIRST, Select(OFTEN, SELDOM), FIRST),
    "vectors of moves": Compose(ONE_COUNT, VECTORS),
    "a test and a partition": ProposeTestRelease(FIRST, PARTS, "0.01"),
    "two tests": Compose(*2 * (ProposeTestRelease(FIRST, PARTS, "0.03"),)),
    "two partitions of a test": ProposeTestRelease(PARTS, PARTS, "0.01"),
}
SAMPLED = Compose(
    PoissonSampled(FIRST, "0.5"),
    Parallel(PoissonSampled(OFTEN, "0.7"), PoissonSampled(SELDOM, "0.3")),
)


def theorems(node: Node, scope: Scope = SCOPE) -> Losses:
    """The checker's own pairs of a declaration."""
    found = own_bound(node, "profile", scope.adjacency)
    assert isinstance(found, Losses)
    return found


def checked(node: Node, epsilon: str, scope: Scope = SCOPE) -> float:
    found = [profiles.delta_interval(pair, epsilon, WIDTH) for pair in theorems(node, scope).pairs]
    return float(max(interval.upper for interval in found))


def accounted(node: Node, epsilon: str, scope: Scope = SCOPE) -> float:
    return float(account(node, scope, WIDTH).delta(epsilon).upper)


SIDES = {accounted: (profile_module, event_rules), checked: (composed_theorem, event_theorem)}


@pytest.mark.quality
@pytest.mark.long_cases("a partition chosen by a count-accounted")
@pytest.mark.first_case
@pytest.mark.parametrize("upper", SIDES)
@pytest.mark.parametrize("name", NODES)
def test_no_bound_is_below_the_worst_choice(name: str, upper: Any) -> None:
    for epsilon in EPSILONS:
        assert upper(NODES[name], epsilon) >= truth(NODES[name], epsilon) * (1 - 1e-9)


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("upper", SIDES)
def test_no_bound_of_samples_is_below_the_worst_choice(upper: Any) -> None:
    for epsilon in ("0.4", "1.9"):
        found = upper(SAMPLED, epsilon, central("add_remove"))
        assert found >= truth(SAMPLED, epsilon) * (1 - 1e-9)


@pytest.mark.quality
def test_one_choice_that_follows_all_others_is_the_bound() -> None:
    """Where each profile has few corners the bound is the truth, and more than any fixed choice."""
    node = NODES["a partition chosen by a count"]
    for epsilon in ("1.3", "1.4"):
        exact = truth(node, epsilon)
        assert accounted(node, epsilon) == pytest.approx(exact, rel=1e-3)
        assert fixed(node, epsilon) < 0.99 * exact


def chosen_in_advance(pairs: Iterable[Pair]) -> Pair:
    """The product for each choice of alternatives: what the fold must not do."""
    each = combinations(*(pair.alternatives for pair in pairs))
    return largest(joined(chosen) for chosen in each)


# Of each kind one whose fixed choices tell visibly less.
CROSSING = (
    "a partition chosen by a count",
    "two partitions",
    "vectors of moves",
    "a test and a partition",
)


@pytest.mark.first_case
@pytest.mark.parametrize("upper", SIDES)
@pytest.mark.parametrize("name", CROSSING)
def test_choices_in_advance_would_be_below_the_truth(
    name: str, upper: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = NODES[name]
    for module in SIDES[upper]:
        monkeypatch.setattr(module, "joined", chosen_in_advance)
    monkeypatch.setattr(calculus_module, "require_consistent", lambda root: None)
    assert any(upper(node, epsilon) < 0.99 * truth(node, epsilon) for epsilon in EPSILONS)


@pytest.mark.parametrize("name", CROSSING)
def test_what_every_derivation_satisfies_finds_choices_in_advance(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The accountant's invariants, and the checker's where both have the same mistake."""
    node, said = NODES[name], "fixes what"
    rederive(predicate_of(node), node)
    for module in (module for modules in SIDES.values() for module in modules):
        monkeypatch.setattr(module, "joined", chosen_in_advance)
    with pytest.raises(InternalError, match=said):
        account(node, SCOPE).step("profile")
    monkeypatch.setattr(calculus_module, "require_consistent", lambda root: None)
    forged = predicate_of(node)
    with pytest.raises(CertificateRejected, match=said):
        rederive(forged, node)
    monkeypatch.setattr(derivation_module, "require_possible", lambda *values: None)
    assert rederive(forged, node)[-1].node == node


def predicate_of(node: Node) -> dict[str, Any]:
    """What the checker reads of a certificate, by the accountant's own steps."""
    roots = [CALCULI["profile"].fold(node, SCOPE)]
    steps = step_rows(steps_of(roots))
    return {
        "scope": {"adjacency": SCOPE.adjacency},
        "derivation": {"steps": steps},
    }


def test_a_certificate_of_choices_in_advance_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    node = NODES["vectors of moves"]
    with monkeypatch.context() as patched:
        patched.setattr(profile_module, "joined", chosen_in_advance)
        patched.setattr(calculus_module, "require_consistent", lambda root: None)
        forged = predicate_of(node)
    with pytest.raises(CertificateRejected, match="pairs do not dominate"):
        rederive(forged, node)


def test_a_composition_is_the_repetition_of_equal_releases() -> None:
    for child in (VECTORS, PARTS, FIRST):
        composed, repeated = Compose(child, child, child), Repeat(child, 3)
        for sides in (lambda node: account(node, SCOPE).step("profile").value, theorems):
            whole, rounds = sides(composed), sides(repeated)
            assert (whole.remove, whole.add) == (rounds.remove, rounds.add)


def test_the_lower_end_is_one_choice_for_the_whole_run() -> None:
    """A program may always ask in the part, or by the vector, that tells the most in the end."""
    for name in ("vectors of moves", "a partition chosen by a count"):
        node = NODES[name]
        found = account(node, SCOPE, WIDTH).delta("1.9")
        exact = truth(node, "1.9")
        assert 0 < float(found.lower) <= exact * (1 + 1e-9)
    assert float(account(VECTORS, SCOPE, WIDTH).delta("1.9").lower) > 0


def test_a_direction_has_one_pair() -> None:
    """No fold meets a list of pairs, of which it could compose one choice for the whole run."""
    first, second = LaplaceShift(F(1)), Normal(F(2))
    found = Losses((first, second), (first, second))
    assert found.remove == found.add == (Largest((first, second)),)
    assert set(found.pairs) == {first, second}  # each is evaluated by itself
    for node in (PARTS, VECTORS, Select(OFTEN, SELDOM), *NODES.values()):
        for losses in (account(node, SCOPE).step("profile").value, theorems(node)):
            assert len(losses.remove) == len(losses.add) == 1
