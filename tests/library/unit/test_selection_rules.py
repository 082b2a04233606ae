"""The exponential mechanism, against all neighbouring score vectors on a grid."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
import sympy
from scipy.special import ndtr

from dpaudit.accountant.account import account
from dpaudit.check import theorem as theorems
from dpaudit.errors import InvalidParameter
from dpaudit.exact import enclose
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Compose
from dpaudit.families.opaque import ApproxDP, PureDP
from dpaudit.families.selection import (
    AboveThreshold,
    ExponentialMechanism,
    IntegerExponentialMechanism,
    NoisyComparisons,
    ReportNoisyMax,
    Scores,
    SelectionNoise,
)
from dpaudit.measures.calculus import CALCULI, Rule
from dpaudit.measures.gdp import GAUSSIAN
from dpaudit.measures.profile import PROFILE
from dpaudit.measures.pure import PURE
from dpaudit.measures.renyi import RENYI, order
from dpaudit.measures.zcdp import CONCENTRATED
from dpaudit.nodes import Node
from dpaudit.nodes.tables import from_table, to_table
from dpaudit.pairs import Losses
from dpaudit.scope import central
from tests.library.cli.bench import accept, certified, mechanism
from tests.support.enumeration import (
    ORDERS,
    SCOPE,
    Guarantee,
    Masses,
    atoms,
    curve_at,
    fold,
    largest_loss,
    least_mu,
    neighbours,
    number,
    renyi,
    softmax,
    stick,
)

x = sympy.Symbol("x", positive=True)


# --- the exponential mechanism -------------------------------------------------------------------


@pytest.mark.quality
@pytest.mark.parametrize("scores", Scores)
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_exponential_mechanism_on_all_neighbours(epsilon: float, scores: Scores) -> None:
    node = ExponentialMechanism("a", epsilon, scores)
    guarantee = Guarantee(node)
    for first, second in neighbours(scores):
        guarantee.holds(softmax(first, epsilon), softmax(second, epsilon))


def two_candidates(width: float, share: float) -> tuple[Masses, Masses]:
    """Scores (log-odds) of two candidates that make the losses share * width and below."""
    t = share * width
    likely = (math.exp(width - t) - 1) / math.expm1(width)
    base = math.log(likely / (1 - likely))
    q = softmax((base, 0.0), 2.0)
    return softmax((base + width / 2, -width / 2), 2.0), q


@pytest.mark.parametrize("width", [0.3, 1.0, 4.0])
def test_two_candidates_reach_the_range(width: float) -> None:
    """Every bound of the mechanism comes within a thousandth of a run of two candidates."""
    node = ExponentialMechanism("a", width)
    runs = [two_candidates(width, share / 2000) for share in range(1, 2000)]
    assert max(largest_loss(*run) for run in runs) >= width * 0.999
    assert max(least_mu(*run) for run in runs) == pytest.approx(
        number(fold(GAUSSIAN, node)), rel=1e-9
    )
    for alpha in ORDERS:
        worst = max(renyi(*run, alpha) for run in runs)
        assert worst == pytest.approx(curve_at(node, alpha), rel=1e-4)
    nearly_one = max(renyi(*run, 1.0001) / 1.0001 for run in runs)
    assert nearly_one == pytest.approx(number(fold(CONCENTRATED, node)), rel=1e-3)
    upper = atoms(fold(PROFILE, node).remove[0])
    for share in (0.05, 0.3, 0.6, 0.95):
        worst = max(stick(*run, share * width) for run in runs)
        closed = (math.exp(width / 2) - math.exp(share * width / 2)) ** 2 / math.expm1(width)
        assert worst == pytest.approx(closed, rel=1e-4)
        assert closed <= stick(*upper, share * width) * (1 + 1e-12)
        assert stick(*upper, share * width) <= closed + 1e-3 * width


@pytest.mark.parametrize("width", [0.3, 1.0, 4.0])
def test_the_reached_pairs_are_runs_of_two_candidates(width: float) -> None:
    losses = fold(PROFILE, ExponentialMechanism("a", 2 * width, "monotone"))
    for share, pair in zip((0.5, 0.75, 63 / 64), losses.reached_remove, strict=True):
        p, q = two_candidates(width, share)
        assert atoms(pair)[0] == pytest.approx(p, rel=1e-12)
        assert atoms(pair)[1] == pytest.approx(q, rel=1e-12)
    assert losses.reached_add == losses.reached_remove


def precise_moments(width: Any, s: Any) -> Any:
    """The largest moments over t of the pairs with two losses, on a fine grid of t."""
    whole = mpmath.expm1(width)

    def at(t: Any) -> Any:
        up = (mpmath.exp(width) - mpmath.exp(t)) / whole
        return up * mpmath.exp(s * t) + (1 - up) * mpmath.exp(s * (t - width))

    return max(at(width * i / 400) for i in range(401))


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("width", ["0.01", "0.5", "2", "8", "40"])
def test_order_one_is_the_worst_order_of_a_range(width: str) -> None:
    """zCDP of a range (Harrison, Manurangsi), on a grid of orders and t; below range^2 / 8."""
    with mpmath.workdps(30):
        r = mpmath.mpf(width)
        rho = mpmath.mpf(number(fold(CONCENTRATED, ExponentialMechanism("a", Fraction(width)))))
        assert rho <= r**2 / 8
        for i in range(-8, 9):
            s = mpmath.mpf(10) ** (mpmath.mpf(i) / 2)
            assert mpmath.log(precise_moments(r, s)) <= s * (1 + s) * rho * (
                1 + mpmath.mpf("1e-12")
            )


@pytest.mark.parametrize(("width", "worst"), [(0.4472, 0.0249), (2, 0.474), (4, 1.67)])
def test_zcdp_of_iterate_selection(width: float, worst: float) -> None:
    """The brute force of the stationary-iterate paper's audit: worst divergence over order."""
    rho = number(fold(CONCENTRATED, ExponentialMechanism("iterate", width)))
    assert rho == pytest.approx(worst, rel=3e-3)


def test_symbols_keep_the_polynomial_bound() -> None:
    """range^2 / 8, above the sharp number; it is not said to be reached."""
    step = CONCENTRATED.fold(ExponentialMechanism("a", 2 * sympy.sqrt(x)), SCOPE)
    assert step.value == x / 2
    assert not step.attained
    for width in (Fraction(1, 10), Fraction(1), Fraction(6)):
        sharp = CONCENTRATED.fold(ExponentialMechanism("a", width), SCOPE)
        assert sharp.attained
        assert number(sharp.value) <= width**2 / 8
    assert fold(CONCENTRATED, ExponentialMechanism("a", x, "monotone")) == x**2 / 32
    assert fold(CONCENTRATED, AboveThreshold("a", x, x)) == 2 * x**2


def test_scores_that_are_not_monotone_need_the_whole_epsilon() -> None:
    """One up, one down: the loss exceeds epsilon / 2, so the monotone bound is not for them."""
    p, q = softmax((-6.0, 0.0), 2.0), softmax((-7.0, 1.0), 2.0)
    assert largest_loss(p, q) > 1.9
    assert fold(PURE, ExponentialMechanism("a", 2, "monotone")) == 1


def test_the_curve_holds_its_limits() -> None:
    """As the order grows, the Renyi divergence tends to the largest loss; at 1 to zCDP's."""
    node = ExponentialMechanism("a", 2)
    assert curve_at(node, 100000.0) == pytest.approx(2, abs=1e-3)
    assert curve_at(node, 1.000001) == pytest.approx(number(fold(CONCENTRATED, node)), rel=1e-5)


# --- the checker, reached bounds, bad input ------------------------------------------------------

FAINT = Fraction(1, 10**100)

EVERY: list[Node] = [
    ExponentialMechanism("a", FAINT),
    ExponentialMechanism("a", Fraction(1, 2**29), "monotone"),
    *(ReportNoisyMax("a", FAINT, n) for n in SelectionNoise),
    AboveThreshold("a", FAINT, FAINT),
    *(ExponentialMechanism("a", e, s) for e in (Fraction(1, 2), x) for s in Scores),
    *(
        ReportNoisyMax("a", e, n, s)
        for e in (Fraction(1, 2), x)
        for n in SelectionNoise
        for s in Scores
    ),
    *(AboveThreshold("a", e, Fraction(1, 2), 3, s) for e in (Fraction(1, 2), x) for s in Scores),
]


@pytest.mark.parametrize("node", EVERY, ids=repr)
def test_the_checker_states_the_same_theorems(node: Node) -> None:
    """Same rule, same expression to the letter at its witness, same word on being reached."""
    for name, calculus in CALCULI.items():
        assert isinstance(calculus.covers(type(node)), Rule)
        step = calculus.fold(node, SCOPE)
        stated = theorems.bound(name, node, [], step.witness)
        stated = stated(order()) if name == "rdp" else stated
        assert theorems.rule_name(name, node, "add_remove") == step.rule
        assert stated == step.value
        assert theorems.attained(name, node, [], step.witness) == step.attained
        if isinstance(stated, Losses):
            assert stated.text == step.value.text


@pytest.mark.parametrize("share", [8, 2])
def test_the_faintest_selection_has_finite_bounds(share: int) -> None:
    """At epsilon 1e-100 no bound is lost to the digits of a ball."""
    node = (
        ExponentialMechanism("a", FAINT)
        if share == 8
        else AboveThreshold("a", FAINT / 2, FAINT / 2)
    )
    value = fold(CONCENTRATED, node)
    assert float(enclose(value * share / FAINT**2).mid()) == pytest.approx(1, rel=1e-9)
    curve = fold(RENYI, node).subs(order(), 3)
    assert float(enclose(curve * share / (3 * FAINT**2)).mid()) == pytest.approx(1, rel=1e-9)
    p, q = atoms(fold(PROFILE, node).remove[0])
    assert math.fsum(p) == pytest.approx(1, rel=1e-14)
    assert math.fsum(q) == pytest.approx(1, rel=1e-14)


def test_what_is_reached_adds_up() -> None:
    """zCDP: all are reached at order 1, together.  GDP: corners of different curves are not."""
    both = Compose(ExponentialMechanism("a", 1), Gaussian("b", 2), ReportNoisyMax("c", 1, "gumbel"))
    assert CONCENTRATED.fold(both, SCOPE).attained
    assert RENYI.fold(both, SCOPE).attained
    assert not GAUSSIAN.fold(both, SCOPE).attained
    assert not CONCENTRATED.fold(ReportNoisyMax("c", 1), SCOPE).attained
    assert not RENYI.fold(ReportNoisyMax("c", 1), SCOPE).attained


def test_the_corner_of_a_range_is_that_of_half_the_loss() -> None:
    """mu = 2 Phi^{-1}(e^(r/4)... ): the two candidates at even odds, in floating point."""
    p, q = two_candidates(2.0, 0.5)
    assert least_mu(p, q) == pytest.approx(number(fold(GAUSSIAN, ExponentialMechanism("a", 2))))
    assert float(ndtr(least_mu(p, q) / 2)) == pytest.approx(max(p), rel=1e-12)


BUILDERS: dict[str, Callable[[Any], Node]] = {
    "ExponentialMechanism": lambda v: ExponentialMechanism("a", v),
    "IntegerExponentialMechanism": lambda v: IntegerExponentialMechanism("a", v),
    "ReportNoisyMax": lambda v: ReportNoisyMax("a", v),
    "epsilon_threshold": lambda v: AboveThreshold("a", v, 1),
    "epsilon_query": lambda v: AboveThreshold("a", 1, v),
    "answers": lambda v: AboveThreshold("a", 1, 1, v),
}


@pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)
def test_values_outside_the_domain_are_refused(build: Callable[[Any], Node]) -> None:
    for value in (0, -1, math.nan, math.inf, None, "one", True, [1], -x, sympy.oo, 10**2000):
        with pytest.raises(InvalidParameter, match="expected") as caught:
            build(value)
        assert "\n" not in str(caught.value)


def test_answers_are_whole() -> None:
    for value in (1.5, x):
        with pytest.raises(InvalidParameter, match="whole number"):
            AboveThreshold("a", 1, 1, value)


@pytest.mark.parametrize("name", ["", "up", "Gumbel", None, 3, True])
def test_unknown_kinds_are_refused(name: Any) -> None:
    with pytest.raises(InvalidParameter, match="expected one of any, monotone"):
        ExponentialMechanism("a", 1, name)
    with pytest.raises(InvalidParameter, match="expected one of laplace, exponential, gumbel"):
        ReportNoisyMax("a", 1, name)
    with pytest.raises(InvalidParameter, match="expected one of any, monotone"):
        ReportNoisyMax("a", 1, "laplace", name)
    with pytest.raises(InvalidParameter, match="expected one of any, monotone"):
        AboveThreshold("a", 1, 1, 1, name)


@pytest.mark.parametrize("kind", [ExponentialMechanism, ReportNoisyMax], ids=lambda t: t.__name__)
def test_a_label_is_needed(kind: Any) -> None:
    for label in ("", None, 5):
        with pytest.raises(InvalidParameter):
            kind(label, 1)
        with pytest.raises(InvalidParameter):
            AboveThreshold(label, 1, 1)  # type: ignore[arg-type]


def test_kinds_are_read_back() -> None:
    node = ReportNoisyMax("a", 1, SelectionNoise.GUMBEL, "monotone")
    twin = from_table(to_table(node))
    assert twin == node
    assert isinstance(twin, ReportNoisyMax)
    assert twin.noise is SelectionNoise.GUMBEL
    assert twin.scores is Scores.MONOTONE
    assert ReportNoisyMax("a", x, "gumbel").bind({x: 1}) == ReportNoisyMax("a", 1, "gumbel")
    assert ReportNoisyMax("a", 1, "gumbel") != ReportNoisyMax("a", 1)


def test_noisy_comparisons_reach_what_quadrature_gives() -> None:
    """All 24 answers no at margins 5.769 and 4.769 of scales 4 and 8: by the sum of both noises."""
    node = NoisyComparisons("a", 4, 8, Fraction("5.769"), 24)
    noise = np.linspace(-400, 400, 400_001)
    chances = []
    for margin in (5.769, 4.769):
        above = np.exp(-np.abs(margin - noise) / 8) / 2
        no = np.where(margin > noise, 1 - above, above)
        whole = np.trapezoid(np.exp(-np.abs(noise) / 4) / 8 * no, noise)
        chances.append(float(whole) ** 24)
    found = account(node, central("replace_one"))
    exact = chances[0] - math.e * chances[1]
    assert float(found.delta(1).lower) == pytest.approx(exact, rel=1e-4)
    assert found.step("pure").value == 3
    assert float(found.delta(1).upper) > exact


@pytest.mark.parametrize("changed", [{"margin": 0.5}, {"query_scale": 4}, {"threshold_scale": x}])
def test_noisy_comparisons_that_say_nothing_are_refused(changed: Any) -> None:
    given = {"threshold_scale": 4, "query_scale": 8, "margin": 5} | changed
    with pytest.raises(InvalidParameter, match="NoisyComparisons"):
        NoisyComparisons("a", **given)


def test_the_checker_confirms_noisy_comparisons_on_its_own() -> None:
    """A certificate that claims less than is reached is refuted, and follows from its witnesses."""
    node = NoisyComparisons("a", 4, 8, Fraction("5.769"), 24)
    claims = PureDP(3), PureDP(Fraction(1, 2)), ApproxDP(1, Fraction(1, 10**10))
    found = certified(mechanism("case", node, *claims)).certificate
    accept(found)
    assert [row["check"] for row in found["predicate"]["claims"]] == [
        "proved",
        "refuted",
        "refuted",
    ]
