"""What a declaration entitles a run to: labels, counts, schedules, parts, batches, masks."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy

from dpaudit.curator.entitlement import Entitlements, runs
from dpaudit.errors import InvalidParameter, Undeclared, Unsupported
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Assuming, Compose, Parallel, Repeat
from dpaudit.families.correlated import CorrelatedGaussian, Participation
from dpaudit.families.opaque import NonPrivate, PureDP
from dpaudit.families.sampling import PoissonSampled, SampledWithoutReplacement
from dpaudit.nodes import Assumption, Node, Several

K = sympy.Symbol("k", integer=True, positive=True)
N = sympy.Symbol("n", integer=True, nonnegative=True)
ALL = np.ones(1, dtype=bool)


def a(noise: Any = 1) -> Node:
    return Gaussian("a", noise)


def b(noise: Any = 1) -> Node:
    return Gaussian("b", noise)


def schedule(node: Node, label: str = "a", part: int | None = None) -> list[float]:
    """The noise multipliers one trial gets under a label until it is refused."""
    entitlements, found = Entitlements(node, 1), list[float]()
    while True:
        try:
            grant = entitlements.grant(label, ALL, part, None)
        except Undeclared:
            return found
        found.append(float(grant.multipliers[0]))
        entitlements.spend(grant, ALL)


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (a(2), [2]),
        (Compose(a(1), b(9), a(3)), [1, 3]),
        (Repeat(a(2), 3), [2, 2, 2]),
        (Repeat(a(2), 0), []),
        (Compose(Repeat(a(2), 0), a(5)), [5]),
        (Repeat(a(K), 4, K), [1, 2, 3, 4]),
        (Repeat(a(1 / K), 2, K), [1, 0.5]),
        (Repeat(Compose(a(1), a(2)), 2), [1, 2, 1, 2]),
        (Repeat(Compose(a(1), b(7)), 2), [1, 1]),
        (Repeat(Repeat(a(3), 2), 2), [3] * 4),
        (Repeat(Compose(Repeat(a(1), 2), a(5)), 2), [1, 1, 5, 1, 1, 5]),
        (Repeat(Repeat(a(10 * K), 2), 2, K), [10, 10, 20, 20]),
        (Repeat(Repeat(a(1), K), 3, K), [1] * 6),
        (Compose(NonPrivate("tuning"), a(4)), [4]),
        (Assuming(a(4), Assumption("x", "y", "declared")), [4]),  # type: ignore[arg-type]
    ],
)
def test_a_label_gets_its_noises_in_declared_order(node: Node, expected: list[float]) -> None:
    assert schedule(node) == expected


def test_a_declaration_of_no_uses_is_no_run_of_a_label_that_has_some() -> None:
    (found,) = Entitlements(Compose(Repeat(a(2), 0), a(5)), 1)
    assert [run.times for run in found.runs] == [1]
    (none,) = Entitlements(Repeat(a(2), 0), 1)
    assert [run.times for run in none.runs] == [0]


def test_every_part_is_entitled_to_its_own_child_only() -> None:
    node = Repeat(Parallel(a(2), Compose(b(3), b(4))), 2)
    assert schedule(node, "a", part=0) == [2, 2]
    assert schedule(node, "b", part=1) == [3, 4, 3, 4]
    entitlements = Entitlements(node, 1)
    for label, part in (("a", 1), ("a", None), ("b", 0)):
        with pytest.raises(Undeclared, match="part"):
            entitlements.grant(label, ALL, part, None)
    with pytest.raises(Undeclared, match="declared on all records"):
        Entitlements(a(), 1).grant("a", ALL, 0, None)


def test_masks_charge_only_the_trials_that_are_on() -> None:
    entitlements = Entitlements(Repeat(a(K), 2, K), 3)
    for on in ([True, True, False], [True, False, False]):
        mask = np.array(on)
        entitlements.spend(entitlements.grant("a", mask, None, None), mask)
    assert entitlements.counts() == {"a": (2, 0, 2)}
    rest = np.array([False, True, True])
    assert entitlements.grant("a", rest, None, None).multipliers[1:].tolist() == [2, 1]
    with pytest.raises(Undeclared, match="all 2 declared uses"):
        entitlements.grant("a", np.array([True, True, True]), None, None)
    assert entitlements.counts() == {"a": (2, 0, 2)}


def test_what_was_not_declared_is_refused_by_name() -> None:
    entitlements = Entitlements(Compose(a(), b()), 1)
    with pytest.raises(Undeclared, match="'c' was not declared; declared labels: a, b"):
        entitlements.grant("c", ALL, None, None)
    with pytest.raises(Undeclared, match="'a' is not declared under a sampling"):
        entitlements.open_batch("a")
    with pytest.raises(Undeclared, match="declared labels: none"):
        Entitlements(NonPrivate("nothing"), 1).grant("a", ALL, None, None)


def test_a_grant_spends_nothing() -> None:
    entitlements = Entitlements(a(), 1)
    for _ in range(3):
        entitlements.grant("a", ALL, None, None)
    assert entitlements.counts() == {"a": (1, 0, 0)}


# --- secret batches: each draw entitles to what is below the sampling, once ----------------------


def batch_uses(node: Node, batches: list[list[str]]) -> list[list[float]]:
    """The noise multipliers of the releases of each batch."""
    entitlements = Entitlements(node, 1)
    found = []
    for labels in batches:
        sampling = entitlements.open_batch("a")[0]
        grants = []
        for label in labels:
            grant = entitlements.grant(label, ALL, None, sampling)
            entitlements.spend(grant, ALL)
            grants.append(float(grant.multipliers[0]))
        found.append(grants)
    return found


def test_one_batch_covers_one_round_and_not_more() -> None:
    rounds = Repeat(PoissonSampled(a(2), 0.5), 3)
    assert batch_uses(rounds, [["a"], ["a"], ["a"]]) == [[2], [2], [2]]
    with pytest.raises(Undeclared, match=r"1 uses declared for one batch .* next batch"):
        batch_uses(rounds, [["a", "a"]])
    with pytest.raises(Undeclared, match="all 3 declared batches were drawn"):
        batch_uses(rounds, [[], [], [], ["a"]])
    with pytest.raises(Undeclared, match="on a secret batch, asked on all rows"):
        Entitlements(rounds, 1).grant("a", ALL, None, None)


def test_rounds_inside_one_batch_are_not_rounds_of_fresh_batches() -> None:
    inside = PoissonSampled(Repeat(a(2), 3), 0.5)
    assert batch_uses(inside, [["a", "a", "a"]]) == [[2, 2, 2]]
    with pytest.raises(Undeclared, match="all 1 declared batches"):
        batch_uses(inside, [["a"], ["a"]])


def test_labels_that_share_a_batch_share_its_draws() -> None:
    node = Repeat(PoissonSampled(Compose(a(1), b(5), a(3)), 0.5), 2)
    assert batch_uses(node, [["a", "b", "a"], ["b", "a"]]) == [[1, 5, 3], [5, 1]]
    skipped = [["b"], ["b", "a"]]
    assert batch_uses(node, skipped) == [[5], [5, 1]]
    with pytest.raises(Undeclared, match="all 2 declared batches"):
        batch_uses(node, [["a"], ["a"], ["b"]])


def test_no_release_before_a_batch_is_drawn() -> None:
    node = Repeat(PoissonSampled(a(), 0.5), 2)
    with pytest.raises(Undeclared, match="uses declared for one batch"):
        Entitlements(node, 1).grant("a", ALL, None, node.children[0])


def test_another_sampling_is_another_batch() -> None:
    node = Compose(PoissonSampled(a(), 0.5), PoissonSampled(b(), 0.25))
    entitlements = Entitlements(node, 1)
    sampling = entitlements.open_batch("a")[0]
    with pytest.raises(Undeclared, match="'b'"):
        entitlements.grant("b", ALL, None, sampling)


def test_skipped_uses_of_a_batch_are_forfeited() -> None:
    entitlements = Entitlements(Repeat(PoissonSampled(Repeat(a(K), 2, K), 0.5), 2), 2)
    sampling = entitlements.open_batch("a")[0]
    first = np.array([True, False])
    entitlements.spend(entitlements.grant("a", first, None, sampling), first)
    entitlements.open_batch("a")
    grant = entitlements.grant("a", np.array([True, True]), None, sampling)
    assert grant.multipliers.tolist() == [1, 1]
    assert entitlements.counts() == {"a": (4, 0, 1)}


# --- declarations that cannot be run -------------------------------------------------------------


class OneOf(Several):
    """A combinator that curators do not know: only one child may run."""


del Node.types["OneOf"]


@pytest.mark.parametrize(
    ("node", "error", "message"),
    [
        (Repeat(a(), N), InvalidParameter, "bind its symbols"),
        (Repeat(Repeat(a(), N), 2), InvalidParameter, "bind its symbols"),
        (a(sympy.Symbol("z", positive=True)), InvalidParameter, "bind its symbols"),
        (PoissonSampled(a(), sympy.Symbol("q", positive=True)), InvalidParameter, "bind"),
        (SampledWithoutReplacement(a(), N + 1, 9), InvalidParameter, "bind"),
        (Compose(a(), Laplace("a", 1)), InvalidParameter, "different kinds of noise"),
        (Compose(a(), PoissonSampled(a(), 0.5)), InvalidParameter, "different rows"),
        (Parallel(a(), a()), InvalidParameter, "different rows"),
        (Parallel(Parallel(a(), b())), InvalidParameter, "flatten"),
        (PoissonSampled(Parallel(a()), 0.5), InvalidParameter, "inside a batch"),
        (PoissonSampled(PoissonSampled(a(), 0.5), 0.5), InvalidParameter, "inside a batch"),
        (Compose(a(), PureDP(1)), InvalidParameter, "no label"),
        (Gaussian("public coin", 1), InvalidParameter, "kept for public coins"),
        (PureDP(1, "x"), Unsupported, "cannot be sampled"),
        (OneOf(a(), b()), Unsupported, "OneOf.* no such combinator"),
        (a(sympy.Integer(10) ** 400), InvalidParameter, "finite float64"),
        (a(Fraction(1, 10**400)), InvalidParameter, "finite float64"),
    ],
)
def test_a_declaration_that_cannot_be_run_is_refused(
    node: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        Entitlements(node, 1)


@pytest.mark.parametrize(
    "node",
    [
        Repeat(Compose(a(1), a(2)), 10**9),
        Repeat(Repeat(Compose(a(1), a(2)), 10**9), 10**9),
        Repeat(a(K), 10**12, K),
        Repeat(Repeat(a(K), 10**12, K), 2),
        Repeat(a(), 10**30),
    ],
)
def test_absurd_sizes_are_refused_at_once(node: Node) -> None:
    with pytest.raises(InvalidParameter, match=r"over \d+ (runs|uses)"):
        Entitlements(node, 1)


def test_large_counts_of_one_leaf_cost_nothing() -> None:
    node = Repeat(Repeat(a(), 10**9), 10**6)
    assert len(list(runs(node))) == 1
    assert Entitlements(node, 1).counts() == {"a": (10**15, 0, 0)}


def test_the_last_use_of_all_is_told_apart_from_the_last_of_a_batch() -> None:
    node = PoissonSampled(a(2), 0.5)
    with pytest.raises(Undeclared, match="all 1 declared uses are spent; declare more"):
        batch_uses(node, [["a", "a"]])
    with pytest.raises(Undeclared, match="draw the next batch"):
        batch_uses(Repeat(node, 2), [["a", "a"]])


def test_uses_are_forfeited_only_where_a_kernel_remembers() -> None:
    fresh = Entitlements(Repeat(a(2), 3), 1)
    fresh.forfeit("a")
    fresh.spend(fresh.grant("a", ALL, None, None), ALL)
    assert fresh.counts() == {"a": (3, 1, 1)}
    tree = Entitlements(CorrelatedGaussian("a", 2, 3), 1)
    tree.forfeit("a")
    with pytest.raises(Undeclared, match="are spent"):
        tree.grant("a", ALL, None, None)


def test_the_first_use_of_a_kernel_with_memory_is_every_first_release() -> None:
    entitlements, found = (
        Entitlements(Repeat(CorrelatedGaussian("a", 2, 3, participation=Participation(3)), 2), 1),
        [],
    )
    for _ in range(6):
        grant = entitlements.grant("a", ALL, None, None)
        entitlements.spend(grant, ALL)
        found.append(grant.first_use)
    assert found == [True, False, False] * 2


def test_a_multiplier_is_refused_where_noise_is_declared() -> None:
    with pytest.raises(InvalidParameter, match="the declaration fixes its noise"):
        Entitlements(a(2), 1).grant("a", ALL, None, None, np.array([2.0]))


@pytest.mark.parametrize(("times", "runs_to"), [(9_901, 1_000_001), (9_900, 999_900)])
def test_a_million_runs_are_the_most(times: int, runs_to: int) -> None:
    """101 leaves of one label, so that every repetition is unrolled: 101 x 9,901 = 1,000,001."""
    node = Repeat(Compose(*(a(k + 1) for k in range(101))), times)
    unrolled = runs(node)
    if runs_to > 1_000_000:
        with pytest.raises(InvalidParameter, match="over 1000000 runs"):
            next(unrolled)
    else:
        assert next(unrolled).times == 1
