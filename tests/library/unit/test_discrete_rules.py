"""Integer noise against enumeration of the outcomes at 40 digits."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import mpmath
import pytest
import sympy

from dpaudit.check import theorem as theorems
from dpaudit.errors import InvalidParameter
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Compose
from dpaudit.families.discrete import (
    DiscreteGaussian,
    DiscreteLaplace,
    RandomizedResponse,
    TruncatedDiscreteLaplace,
)
from dpaudit.families.discrete.rules import MAX_KINKS
from dpaudit.measures.approx import APPROX
from dpaudit.measures.calculus import CALCULI, Rule
from dpaudit.measures.gdp import GAUSSIAN
from dpaudit.measures.profile import PROFILE
from dpaudit.measures.pure import PURE
from dpaudit.measures.renyi import RENYI, order
from dpaudit.measures.zcdp import CONCENTRATED
from dpaudit.nodes import Node
from dpaudit.pairs import Atoms, DiscreteNormal, LaplaceShift, Losses
from tests.support.enumeration import (
    SCOPE,
    big,
    close,
    curve,
    divergence,
    fold,
    gaussian_curve,
    hockey_stick,
    laplace,
    moved,
    outcomes,
    reach,
    relative_entropy,
)

ORDERS = ["1.001", "1.5", "2", "7", "60"]
LOSSES = [-6, -2, -1, "-0.3", 0, "0.01", "0.5", 1, "1.7", 3, 8]
x = sympy.Symbol("x", positive=True)
k = sympy.Symbol("k", positive=True, integer=True)
FAINT = Fraction(1, 10**100)


@pytest.fixture(autouse=True)
def forty_digits() -> Iterator[None]:
    with mpmath.workdps(40):
        yield


# --- discrete Laplace noise ----------------------------------------------------------------------

LAPLACES = [
    (Fraction(scale), move) for scale, move in itertools.product(("1/4", "1", "7/2"), (1, 2, 3, 8))
]
every_laplace = pytest.mark.parametrize(("scale", "move"), LAPLACES)


@every_laplace
def test_the_pair_of_discrete_laplace_noise_has_its_outcomes(scale: Fraction, move: int) -> None:
    """One outcome a loss, with the mass of all integers that have this loss; sums are 1."""
    node = DiscreteLaplace("a", scale, move)
    losses = fold(PROFILE, node)
    assert losses.remove == losses.reached_remove == losses.add == losses.reached_add
    found = outcomes(losses.remove[0])
    assert len(found) == move + 1
    mass, far = laplace(scale), reach(scale)
    groups = [range(-far, 1), *([j] for j in range(1, move)), range(move, far + 1)]
    for (p, q), group in zip(found, groups, strict=True):
        assert close(p, mpmath.fsum(mass(j - move) for j in group))
        assert close(q, mpmath.fsum(mass(j) for j in group))
    assert all(close(p, q) for (p, _), (_, q) in zip(found, reversed(found), strict=True))


@every_laplace
def test_smaller_moves_and_splits_are_dominated(scale: Fraction, move: int) -> None:
    """Every move up to the sensitivity, and every split of it over two coordinates."""
    largest = outcomes(fold(PROFILE, DiscreteLaplace("a", scale, move)).remove[0])
    single = {
        d: outcomes(fold(PROFILE, DiscreteLaplace("a", scale, d)).remove[0])
        for d in range(1, move + 1)
    }
    splits = [
        [(p * r, q * s) for p, q in single[d] for r, s in single[move - d]] for d in range(1, move)
    ]
    for loss in LOSSES:
        bound = hockey_stick(largest, loss)
        for smaller in (*single.values(), *splits):
            assert hockey_stick(smaller, loss) <= bound + mpmath.mpf(10) ** -30


@pytest.mark.first_case
@every_laplace
def test_discrete_laplace_divergences(scale: Fraction, move: int) -> None:
    """Pure: the largest loss.  RDP: the divergence.  zCDP: order 1, and no order is worse."""
    node = DiscreteLaplace("a", scale, move)
    pair = moved(laplace(scale), move, reach(scale) * 2)
    largest = max(mpmath.log(p / q) for p, q in pair)
    assert close(big(fold(PURE, node)), largest)
    assert fold(APPROX, node) == (Fraction(move) / scale, 0)
    rho = big(fold(CONCENTRATED, node))
    assert close(rho, relative_entropy(pair))
    exact = outcomes(fold(PROFILE, node).remove[0])
    for alpha in ORDERS:
        truth = divergence(exact, alpha)
        assert close(curve(node, alpha), truth)
        assert truth <= mpmath.mpf(alpha) * rho
        if mpmath.mpf(alpha) <= 2:  # where the tails of the direct sum have died away
            assert close(divergence(pair, alpha), truth, 12)


@pytest.mark.quality
def test_zcdp_of_order_one_holds_at_every_order() -> None:
    """A grid of orders from 1 + 1e-4 to 1e4, many scales and moves: D_a <= a D_1, up to round-off.

    The proof is beside the rule; this looks for a counterexample.
    """
    for scale, move in itertools.product(("1/9", "1/2", "2", "30"), (1, 2, 4, 9, 33)):
        node = DiscreteLaplace("a", Fraction(scale), move)
        exact, rho = outcomes(fold(PROFILE, node).remove[0]), big(fold(CONCENTRATED, node))
        for i in range(-8, 9):
            alpha = 1 + mpmath.mpf(10) ** (mpmath.mpf(i) / 2)
            assert divergence(exact, str(alpha)) <= alpha * rho * (1 + mpmath.mpf(10) ** -25)


@every_laplace
def test_the_trade_off_of_discrete_laplace_noise_touches_its_curve(
    scale: Fraction, move: int
) -> None:
    """Corners of the polygon, from the tails by direct sums: all above G_mu, one of them on it."""
    mu = big(fold(GAUSSIAN, DiscreteLaplace("a", scale, move)))
    mass, far = laplace(scale), reach(scale)
    gaps = []
    for t in range(1, move + 1):
        positive = mpmath.fsum(mass(j) for j in range(t, far))
        negative = mpmath.fsum(mass(j - move) for j in range(-far, t))
        gaps.append(negative - gaussian_curve(mu, positive))
    assert min(gaps) >= -(mpmath.mpf(10) ** -25)
    assert min(gaps) <= mpmath.mpf(10) ** -25


@pytest.mark.quality
@pytest.mark.first_case
@pytest.mark.parametrize("move", [MAX_KINKS, MAX_KINKS + 1, 300])
def test_many_losses_are_drawn_from_above_and_from_below(move: int) -> None:
    scale = Fraction(move, 3)
    losses = fold(PROFILE, DiscreteLaplace("a", scale, move))
    upper = outcomes(losses.remove[0])
    assert len(upper) == MAX_KINKS + 1
    assert close(mpmath.fsum(p for p, _ in upper), 1, 30)
    assert close(mpmath.fsum(q for _, q in upper), 1, 30)
    if move > MAX_KINKS:
        assert losses.reached_remove == (LaplaceShift(Fraction(3)),)
    else:
        assert losses.reached_remove == losses.remove
    exact = moved(laplace(scale), move, int(45 * scale))
    for loss in (-2, "-0.7", 0, "0.33", "2.9"):
        truth = hockey_stick(exact, loss)
        continuous = max(0, 1 - mpmath.exp((mpmath.mpf(loss) - 3) / 2))
        assert continuous <= truth + mpmath.mpf(10) ** -17
        assert truth <= hockey_stick(upper, loss) + mpmath.mpf(10) ** -17
        assert hockey_stick(upper, loss) <= truth + mpmath.mpf("1e-3")


def test_a_symbolic_move_keeps_a_sound_pair() -> None:
    losses = fold(PROFILE, DiscreteLaplace("a", x, k))
    assert isinstance(losses.remove[0], Atoms)
    assert losses.reached_remove == (LaplaceShift(k / x),)
    bound = [
        (big(p.subs({k: 6, x: 2})), big(q.subs({k: 6, x: 2}))) for p, q in losses.remove[0].outcomes
    ]
    exact = outcomes(fold(PROFILE, DiscreteLaplace("a", 2, 6)).remove[0])
    for loss in LOSSES:
        assert hockey_stick(exact, loss) <= hockey_stick(bound, loss) + mpmath.mpf(10) ** -30
    for calculus in (PURE, CONCENTRATED, GAUSSIAN):
        symbolic = fold(calculus, DiscreteLaplace("a", x, k)).subs({k: 6, x: 2})
        assert close(big(symbolic), big(fold(calculus, DiscreteLaplace("a", 2, 6))), 30)
    symbolic = fold(RENYI, DiscreteLaplace("a", x, k)).subs({k: 6, x: 2, order(): 3})
    assert close(big(symbolic), curve(DiscreteLaplace("a", 2, 6), "3"), 30)


# --- discrete Gaussian noise ---------------------------------------------------------------------


@pytest.mark.parametrize("variance", ["1/4", "1", "10"])
@pytest.mark.parametrize("move", [1, 2, 5])
def test_discrete_gaussian_divergences(variance: str, move: int) -> None:
    """Direct sums: equal to the bound at whole orders, below it between them."""
    width = Fraction(variance)
    s2 = mpmath.mpf(width.numerator) / width.denominator

    def mass(j: int) -> Any:
        return mpmath.exp(-(j**2) / (2 * s2))

    whole = mpmath.nsum(lambda j: mass(int(j)), [-mpmath.inf, mpmath.inf])
    node = DiscreteGaussian("a", width, move)
    rho = big(fold(CONCENTRATED, node))
    assert fold(CONCENTRATED, node) == Fraction(move**2) / (2 * width)
    for alpha in ("1.3", "2", "2.5", "3", "6"):
        a = mpmath.mpf(alpha)
        centre = int(a * move)
        terms = range(centre - 120, centre + 121)
        moments = mpmath.fsum(mass(j - move) ** a * mass(j) ** (1 - a) for j in terms) / whole
        truth = mpmath.log(moments) / (a - 1)
        assert close(curve(node, alpha), rho * a)
        assert truth <= rho * a + mpmath.mpf(10) ** -25
        if (a * move) % 1 == 0:
            assert close(truth, rho * a)


def test_the_pair_of_discrete_gaussian_noise() -> None:
    losses = fold(PROFILE, DiscreteGaussian("a", 2, 3))
    assert losses == Losses(*[(DiscreteNormal(Fraction(2), Fraction(3)),)] * 4)


def test_larger_moves_of_gaussian_noise_dominate() -> None:
    """Moves 1..4, hockey sticks by direct sums."""
    mass = [mpmath.exp(-mpmath.mpf(j * j) / 6) for j in range(300)]
    whole = mass[0] + 2 * mpmath.fsum(mass[1:])
    for loss in LOSSES:
        sticks = [
            hockey_stick(
                [(mass[abs(j - d)] / whole, mass[abs(j)] / whole) for j in range(-100, 101)], loss
            )
            for d in range(1, 5)
        ]
        assert sticks == sorted(sticks)


def test_reached_bounds_add_up() -> None:
    """Discrete and continuous Gaussian noise reach their zCDP bounds at the same, whole orders."""
    both = Compose(DiscreteGaussian("a", 2), Gaussian("b", 1), DiscreteLaplace("c", 2))
    step = CONCENTRATED.fold(both, SCOPE)
    assert step.attained
    assert not RENYI.fold(both, SCOPE).attained


# --- the checker, and the table ------------------------------------------------------------------

EVERY: Sequence[Node] = [
    DiscreteGaussian("a", Fraction(5, 2), 3),
    DiscreteGaussian("a", x, k),
    DiscreteLaplace("a", Fraction(7, 10)),
    DiscreteLaplace("a", x, 5),
    DiscreteLaplace("a", 3, 1000),
    DiscreteLaplace("a", 3, k),
    TruncatedDiscreteLaplace("t", 2, 31),
    TruncatedDiscreteLaplace("t", x, k + 7, 3),
    TruncatedDiscreteLaplace("t", 50, 3000, 200),
    TruncatedDiscreteLaplace("t", x, 2 * k, k),
    RandomizedResponse("r", 1),
    RandomizedResponse("r", x, 4),
    RandomizedResponse("r", 0.1, 9),
    RandomizedResponse("r", 5, 9),
    RandomizedResponse("r", x, k + 1),
    *(
        kind("a", wide)
        for kind, wide in ((RandomizedResponse, FAINT), (DiscreteLaplace, 1 / FAINT))
    ),
    DiscreteLaplace("a", 1 / FAINT, 10**100),
    TruncatedDiscreteLaplace("a", 1 / FAINT, 100, 7),
]


@pytest.mark.parametrize("node", EVERY[-4:], ids=lambda n: type(n).__name__)
def test_the_widest_noise_has_finite_bounds(node: Node) -> None:
    """At epsilon 1e-100 (and at 1, by a huge move) no bound is lost to the digits of a ball."""
    for calculus in (CONCENTRATED, RENYI):
        value = fold(calculus, node)
        if not isinstance(node, TruncatedDiscreteLaplace):
            epsilon = big(fold(PURE, node))
            found = big(value.subs(order(), 2) / 2) if calculus is RENYI else big(value)
            assert epsilon**2 / 6 < found <= epsilon**2 / 2 * (1 + mpmath.mpf(10) ** -30)
            assert not calculus.fold(node, SCOPE).attained or isinstance(node, RandomizedResponse)
    pair = outcomes(fold(PROFILE, node).remove[0])
    assert close(mpmath.fsum(p for p, _ in pair), 1, 30)
    assert close(mpmath.fsum(q for _, q in pair), 1, 30)


@pytest.mark.parametrize("node", EVERY, ids=repr)
def test_the_checker_states_the_same_theorems(node: Node) -> None:
    """Same rule, same expression to the letter, same word on being reached; else a reason."""
    for name, calculus in CALCULI.items():
        rule = calculus.covers(type(node))
        expected = theorems.rule_name(name, node, "add_remove")
        if not isinstance(rule, Rule):
            assert rule, f"{name} has no reason"
            assert expected is None
            continue
        step = calculus.fold(node, SCOPE)
        stated = theorems.bound(name, node, [], step.witness)
        stated = stated(order()) if name == "rdp" else stated
        assert expected == step.rule
        assert stated == step.value
        assert theorems.attained(name, node, [], step.witness) == step.attained
        if isinstance(stated, Losses):
            assert stated.text == step.value.text


# --- bad input -----------------------------------------------------------------------------------

WHOLE: dict[str, Callable[[Any], Node]] = {
    "DiscreteGaussian.sensitivity": lambda v: DiscreteGaussian("a", 1, v),
    "DiscreteLaplace.sensitivity": lambda v: DiscreteLaplace("a", 1, v),
    "TruncatedDiscreteLaplace.bound": lambda v: TruncatedDiscreteLaplace("a", 1, v),
    "TruncatedDiscreteLaplace.sensitivity": lambda v: TruncatedDiscreteLaplace("a", 1, 10**6, v),
    "RandomizedResponse.choices": lambda v: RandomizedResponse("a", 1, v),
}
REAL: dict[str, Callable[[Any], Node]] = {
    "DiscreteGaussian.variance": lambda v: DiscreteGaussian("a", v),
    "DiscreteLaplace.scale": lambda v: DiscreteLaplace("a", v),
    "TruncatedDiscreteLaplace.scale": lambda v: TruncatedDiscreteLaplace("a", v, 3),
    "RandomizedResponse.epsilon": lambda v: RandomizedResponse("a", v),
}
NEVER = [0, -1, float("nan"), float("inf"), None, "one", True, [1], -x, sympy.oo, 10**2000]


@pytest.mark.parametrize("build", [*WHOLE.values(), *REAL.values()], ids=[*WHOLE, *REAL])
def test_values_outside_the_domain_are_refused(build: Callable[[Any], Node]) -> None:
    for value in NEVER:
        with pytest.raises(InvalidParameter, match="expected") as caught:
            build(value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("build", WHOLE.values(), ids=WHOLE)
def test_whole_numbers_are_whole(build: Callable[[Any], Node]) -> None:
    for value in (1.5, Fraction(7, 3), x, sympy.sqrt(3)):
        with pytest.raises(InvalidParameter, match=r"whole number|choices"):
            build(value)


@pytest.mark.parametrize(
    "kind", [DiscreteGaussian, DiscreteLaplace, RandomizedResponse], ids=lambda t: t.__name__
)
def test_a_label_is_needed(kind: Any) -> None:
    for label in ("", None, 5):
        with pytest.raises(InvalidParameter):
            kind(label, 1)
        with pytest.raises(InvalidParameter):
            TruncatedDiscreteLaplace(label, 1, 3)


def test_relations_between_parameters() -> None:
    with pytest.raises(InvalidParameter, match="at least the sensitivity"):
        TruncatedDiscreteLaplace("a", 1, 3, 4)
    with pytest.raises(InvalidParameter, match="at least the sensitivity"):
        TruncatedDiscreteLaplace("a", 1, k, k + 1)
    with pytest.raises(InvalidParameter, match="at least 2 choices"):
        RandomizedResponse("a", 1, 1)
    assert TruncatedDiscreteLaplace("a", 1, 4, 4).bound == 4
    assert RandomizedResponse("a", 1).choices == 2
