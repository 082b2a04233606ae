"""Claims: proved, refuted with valid values, unproved, unsupported; never the wrong one."""

from __future__ import annotations

import time
from fractions import Fraction
from typing import Any

import pytest
import sympy

from dpaudit.accountant.account import Account
from dpaudit.accountant.claim import Checked, Claim, Outcome
from dpaudit.errors import InvalidParameter
from dpaudit.exact import enclose
from dpaudit.families.additive import Gaussian, Laplace
from dpaudit.families.composition import Assuming, Compose, Parallel, Repeat
from dpaudit.families.opaque import GDP, ZCDP, ApproxDP, NonPrivate, PureDP, RenyiDP
from dpaudit.families.sampling import PoissonSampled
from dpaudit.families.selection import IntegerExponentialMechanism
from dpaudit.measures.calculus import Source
from dpaudit.measures.convert import to_approx
from dpaudit.measures.gdp import GAUSSIAN
from dpaudit.measures.pure import PURE
from dpaudit.measures.zcdp import CONCENTRATED
from dpaudit.nodes import Assumption, Node, Status
from dpaudit.scope import Scope

SCOPE = Scope("replace_one", "record", "central", "transcript")
x, y = sympy.symbols("x y", positive=True)
k, K = sympy.symbols("k K", positive=True, integer=True)
n = sympy.Symbol("n", integer=True, nonnegative=True)
T = sympy.Function("T", positive=True, integer=True)
A = Gaussian("a", 2)


def check(guarantee: Node, node: Node, **ranges: Any) -> Checked:
    named = {sympy.Symbol(s, positive=True): ends for s, ends in ranges.items()}
    return Claim(guarantee, by="a test", ranges=named).check(node, SCOPE)


# --- numbers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("guarantee", "node", "outcome"),
    [
        (ZCDP(0.125), A, "proved"),
        (ZCDP(0.1249999999999), A, "refuted"),
        (ZCDP(1), A, "proved"),
        (GDP(0.5), A, "proved"),
        (GDP(Fraction(1, 2) - Fraction(1, 10**30)), A, "refuted"),
        (GDP(sympy.sqrt(2)), Repeat(Gaussian("a", 1), 2), "proved"),
        (GDP(sympy.sqrt(2) - Fraction(1, 10**30)), Repeat(Gaussian("a", 1), 2), "refuted"),
        (GDP(sympy.sqrt(2) + sympy.sqrt(3)), GDP(sympy.sqrt(5 + 2 * sympy.sqrt(6))), "proved"),
        (PureDP(1), Repeat(Laplace("a", 10), 10), "proved"),
        (PureDP(0.999), Repeat(Laplace("a", 10), 10), "refuted"),
        (PureDP(1), A, "unsupported"),
        (GDP(1), ZCDP(0.5), "unsupported"),
        (PureDP(0.1), PoissonSampled(Laplace("a", 1), 0.1), "unsupported"),
        (ApproxDP(2.3415, 1e-5), Gaussian("a", 1 / Fraction("0.57735")), "proved"),
        (ApproxDP(2.3414, 1e-5), Gaussian("a", 1 / Fraction("0.57735")), "refuted"),
        (ApproxDP(1, 0), Laplace("a", 1), "proved"),
        (ApproxDP(0.999, 0), Laplace("a", 1), "refuted"),
        (ApproxDP(1, 0), A, "unproved"),
        (ApproxDP(1, 0.01), ApproxDP(1, 0.02), "unproved"),
        (ZCDP(0.49), ZCDP(0.5), "unproved"),
        (ZCDP(0.1), Laplace("a", 1), "unproved"),
        (ZCDP(0), Repeat(A, 0), "proved"),
        (ApproxDP(0, 0), Repeat(A, 0), "proved"),
    ],
)
def test_claims_about_numbers(guarantee: Node, node: Node, outcome: str) -> None:
    checked = check(guarantee, node)
    assert checked.outcome == outcome
    assert checked.values == {}
    assert checked.reason
    assert (checked.saturating != "") == (outcome == "refuted")


@pytest.mark.parametrize("guarantee", [PureDP(10**9), ZCDP(10**9), GDP(10**9), ApproxDP(99, 0.99)])
def test_a_non_private_access_is_never_proved(guarantee: Node) -> None:
    for node in (NonPrivate("raw"), Compose(Laplace("a", 9), NonPrivate("raw"))):
        checked = check(guarantee, node)
        assert checked.outcome is Outcome.UNPROVED
        assert "no finite guarantee" in checked.reason


def test_an_upper_bound_that_is_not_attained_refutes_nothing() -> None:
    """The same numbers by a loose rule: unproved, and said why."""
    loose = CONCENTRATED.extended("loose", Gaussian)
    loose.rule(Gaussian, "loose", cite=Source("Somebody", 2020, "Lemma 1"))(
        lambda node: 1 / (2 * node.noise_multiplier**2)
    )
    claim = Claim(ZCDP(0.1), by="a test")
    assert claim.check(A, SCOPE).outcome is Outcome.REFUTED
    checked = claim.check_step(loose.fold(A, SCOPE))
    assert checked.outcome is Outcome.UNPROVED
    assert "not attained: an upper bound above a claim refutes nothing" in checked.reason
    assert str(checked).startswith("ZCDP(rho=0.1): unproved (")


def test_a_claim_is_proved_by_a_route_that_an_account_skips() -> None:
    """The profile's pair is attained up to 1%, which ends the search; Renyi orders do better."""
    choice = IntegerExponentialMechanism("b", "0.3")
    node, claim = Compose(choice, Laplace("s", 1)), Claim(ApproxDP("1.299", "1e-6"), by="a test")
    account = Account(node, SCOPE)
    assert account.approximate("1e-6").value[0] > claim.value
    checked = claim.check_account(account)
    assert checked.outcome is Outcome.PROVED
    assert checked.step is not None
    assert checked.step.value[0] < claim.value


PARTED = Parallel(Gaussian("a", 2), Gaussian("b", 3))


@pytest.mark.parametrize(
    ("node", "of_mu", "of_epsilon"),
    [
        (PARTED, "refuted", "refuted"),
        (Compose(PARTED, A), "refuted", "refuted"),
        (Compose(PARTED, PARTED), "unproved", "refuted"),
        (Repeat(Parallel(Gaussian("a", 2 * k), Gaussian("b", 2)), 3, k), "unproved", "refuted"),
        (Assuming(A, Assumption("i", "s", Status.DECLARED)), "unproved", "unproved"),
        (Compose(A, GDP(0.5)), "unproved", "refuted"),
    ],
)
def test_only_what_one_record_reaches_is_refuted(node: Node, of_mu: str, of_epsilon: str) -> None:
    """A bound of mu that is not reached refutes nothing; a profile knows what is reached below."""
    assert check(GDP(0.1), node).outcome == of_mu
    assert check(ApproxDP(0.001, 1e-9), node).outcome == of_epsilon


def test_a_violated_assumption_proves_nothing() -> None:
    for status, outcome in ((Status.VIOLATED, "unproved"), (Status.DECLARED, "proved")):
        node = Compose(A, Assuming(A, Assumption("i", "s", status)))
        checked = check(ZCDP(1), node)
        assert checked.outcome == outcome
        assert ("violated assumption: i" in checked.reason) == (outcome == "unproved")


# --- symbols -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("guarantee", "node", "outcome"),
    [
        (ZCDP(x**2 / 2), Gaussian("a", 1 / x), "proved"),
        (ZCDP(x**2), Gaussian("a", 1 / x), "proved"),
        (ZCDP(x**2 / 3), Gaussian("a", 1 / x), "refuted"),
        (GDP(sympy.sqrt(x**2 + y**2)), Compose(Gaussian("a", 1 / x), Gaussian("b", 1 / y)),
         "proved"),
        (GDP(x + y), Compose(Gaussian("a", 1 / x), Gaussian("b", 1 / y)), "proved"),
        (ZCDP(x**2 + y**2), Parallel(Gaussian("a", 1 / x), Gaussian("b", 1 / y)), "proved"),
        (ZCDP(x**2), Parallel(Gaussian("a", 1 / x), Gaussian("b", 1 / y)), "refuted"),
        (ZCDP(sympy.Max(x, y)), Parallel(ZCDP(x), ZCDP(y)), "proved"),
        (ZCDP(x), Parallel(ZCDP(x), ZCDP(y)), "unproved"),
        (ZCDP(K / 8), Repeat(A, K), "proved"),
        (ZCDP(K / 9), Repeat(A, K), "refuted"),
        (ZCDP(n / 9), Repeat(A, n), "refuted"),
        (ZCDP(T(k) / 8), Repeat(A, T(k)), "proved"),
        (ZCDP(T(k) / 9), Repeat(A, T(k)), "refuted"),
        (ZCDP(sympy.Rational(1, 8) * K * (K + 1) / 2), Repeat(ZCDP(k / 8), K, k), "proved"),
        (ZCDP(1), Repeat(Gaussian("a", 2 ** (k / 2)), K, k), "proved"),
        (ZCDP(0.4), Repeat(Gaussian("a", sympy.sqrt(2) ** k), K, k), "refuted"),
        (ZCDP(1), Gaussian("a", x), "refuted"),
        (PureDP(x), Laplace("a", 1 / x), "proved"),
        (PureDP(sympy.log(1 + x)), Laplace("a", 1 / x), "refuted"),
        (ApproxDP(1, 0.1), Gaussian("a", x), "refuted"),
        (ApproxDP(1, x), ApproxDP(1, 0.1), "unproved"),
        (ApproxDP(x, 0.1), PureDP(1), "unproved"),
        (ApproxDP(x, 0.1), PureDP(x), "proved"),
        (ApproxDP(x, 0), PureDP(x / 2), "proved"),
        (ApproxDP(1 + 2 * x, 0.1), Compose(ApproxDP(1, 0.05), ApproxDP(x, 0.05)), "proved"),
        (ApproxDP(1 + x, 0.09), Compose(ApproxDP(1, 0.05), ApproxDP(x, 0.05)), "unproved"),
        (ApproxDP(x, 0.1), NonPrivate("raw"), "unproved"),
    ],
)  # fmt: skip
def test_claims_about_symbols(guarantee: Node, node: Node, outcome: str) -> None:
    """Refuting values are real: there both sides are numbers, and the bound is above the claim."""
    checked = check(guarantee, node)
    assert checked.outcome == outcome
    if outcome == "refuted":
        assert checked.values
        symbols = {str(s): s for s in (x, y, k, K, n, T(k))}
        values = {symbols[s]: Fraction(v) for s, v in checked.values.items()}
        again = check(guarantee.bind(values), node.bind(values))
        assert again.outcome is Outcome.REFUTED


@pytest.mark.parametrize(
    ("guarantee", "node", "outcome"),
    [
        (RenyiDP(8, 1), A, "proved"),
        (RenyiDP(8, 0.999), A, "refuted"),
        (RenyiDP(1 + x, (1 + x) / 8), A, "proved"),
        (RenyiDP(1 + x, (1 + x) / 9), A, "refuted"),
        (RenyiDP(1 + x, (2 + x) * y**2 / 2), Gaussian("a", 1 / y), "proved"),
        (RenyiDP(1 + x, y**2 / 2), Gaussian("a", 1 / y), "refuted"),
        (RenyiDP(4, 1), Laplace("a", 1), "proved"),
        (RenyiDP(4, 0.1), Laplace("a", 1), "refuted"),
        (RenyiDP(4, 1), ZCDP(0.5), "unproved"),
        (RenyiDP(4, 2), ZCDP(0.5), "proved"),
        (RenyiDP(2, 1), ApproxDP(1, 0.1), "unsupported"),
        (RenyiDP(4, 9), NonPrivate("raw"), "unproved"),
    ],
)
def test_claims_of_renyi_privacy(guarantee: Node, node: Node, outcome: str) -> None:
    """Compared at the claimed order, a number or an expression."""
    checked = check(guarantee, node)
    assert checked.outcome == outcome
    assert (checked.saturating != "") == (outcome == "refuted")


@pytest.mark.long_cases("guarantee8-node8-ranges8-unproved")
@pytest.mark.parametrize(
    ("guarantee", "node", "ranges", "outcome"),
    [
        (ApproxDP(x, 1e-5), Gaussian("a", 6 / x), {"x": (0.1, 4)}, "proved"),
        (ApproxDP(x, 1e-5), Gaussian("a", 2 / x), {"x": (0.1, 4)}, "refuted"),
        (ApproxDP(x, 1e-5), GDP(x / 2), {"x": (0.1, 4)}, "unproved"),
        (ApproxDP(x, 1e-5), Gaussian("a", 6 / x), {}, "refuted"),
        (ApproxDP(x + 2 * sympy.sqrt(x * y), sympy.exp(-y)), ZCDP(x), {}, "proved"),
        (ApproxDP(x + sympy.sqrt(x * y), sympy.exp(-y)), ZCDP(x), {}, "unproved"),
        (ApproxDP(x, sympy.exp(-y)), ZCDP(x**2 / (2 * x + 4 * y)), {}, "proved"),
        (ApproxDP(x, 0), ZCDP(x), {}, "unproved"),
        (ApproxDP(x, 0.1), Compose(Gaussian("a", x), Laplace("b", x)), {}, "unproved"),
    ],
)
def test_claims_of_epsilon_with_symbols(
    guarantee: Node, node: Node, ranges: Any, outcome: str
) -> None:
    """By closed conversions for all values, by the exact curve over ranges."""
    checked = check(guarantee, node, **ranges)
    assert checked.outcome == outcome
    assert (checked.saturating != "") == (outcome == "refuted")


def test_terms_are_compared_one_by_one() -> None:
    """A maximum is below a claim if each of its branches is, each for its own reason."""
    node = Parallel(Gaussian("a", 1 / x), Gaussian("b", 1 / sympy.sqrt(2 * y)), A)
    assert check(ZCDP(x**2 / 2 + y + Fraction(1, 8)), node).outcome is Outcome.PROVED
    assert check(ZCDP(x**2 / 2 + y), node).outcome is Outcome.REFUTED


@pytest.mark.parametrize(
    ("guarantee", "node", "ranges", "outcome"),
    [
        (ZCDP(3), ZCDP(x**2 - x / 2), {"x": (0.6, 1.9)}, "proved"),
        (ZCDP(2.1), Gaussian("a", 1 / x), {"x": (0.1, 2)}, "proved"),
        (ZCDP(2), Gaussian("a", 1 / x), {"x": (0.1, 2)}, "unproved"),
        (ZCDP(1), Gaussian("a", 1 / x), {"x": (0.1, 2)}, "refuted"),
        (ZCDP(1), Gaussian("a", 1 / x), {"x": (0.1, 1.4)}, "proved"),
        (ZCDP(1), Gaussian("a", 1 / x), {}, "refuted"),
        (ZCDP(1), ZCDP(x * y), {"x": (0.1, 2), "y": (0.1, 0.49)}, "proved"),
        (ZCDP(1), ZCDP(x * y), {"x": (0.1, 2)}, "unproved"),
        (ZCDP(0.26), ZCDP(x - x**2), {"x": (0.001, 0.999)}, "proved"),
        (ZCDP(0.25), ZCDP(x - x**2), {"x": (0.001, 0.999)}, "proved"),
        (PureDP(1.73), Laplace("a", 1 / sympy.log(1 + x)), {"x": (0.1, 4.6)}, "proved"),
        (ZCDP(3), Gaussian("a", 1 / x), {"x": (2, 2)}, "proved"),
        (ZCDP(1), Gaussian("a", 1 / x), {"x": (2, 2)}, "refuted"),
    ],
)
def test_claims_over_a_range(guarantee: Node, node: Node, ranges: Any, outcome: str) -> None:
    """Subdivision proves where there is room; a touch at a corner stays unproved."""
    checked = check(guarantee, node, **ranges)
    assert checked.outcome == outcome
    if checked.outcome is Outcome.REFUTED and ranges:
        low, high = (Fraction(str(end)) for end in ranges["x"])
        assert low <= Fraction(checked.values["x"]) <= high


def test_ranges_of_counts_and_functions() -> None:
    node = Repeat(Gaussian("a", T(k)), K, k)
    bounded = {T(k): (2, 5), K: (1, 4)}
    assert Claim(ZCDP(1), by="t", ranges=bounded).check(node, SCOPE).outcome is Outcome.PROVED
    claim = Claim(ZCDP(Fraction(49, 100)), by="t", ranges=bounded)
    assert claim.check(node, SCOPE).outcome is not Outcome.PROVED
    checked = Claim(ZCDP(Fraction(1, 100)), by="t", ranges=bounded).check(node, SCOPE)
    assert checked.outcome is Outcome.REFUTED
    assert Fraction(checked.values["T(k)"]).denominator == 1
    assert 1 <= int(checked.values["K"]) <= 4
    fixed = node.bind({K: 4})
    claim = Claim(ZCDP(Fraction(1, 2)), by="t", ranges={T(i): (2, 5) for i in range(1, 5)})
    assert claim.check(fixed, SCOPE).outcome is Outcome.PROVED
    claim = Claim(ZCDP(Fraction(49, 100)), by="t", ranges={T(i): (2, 5) for i in range(1, 5)})
    checked = claim.check(fixed, SCOPE)
    assert checked.outcome is Outcome.REFUTED
    assert set(checked.values.values()) == {"2"}


@pytest.mark.quality
def test_refuting_values_keep_every_parameter_valid() -> None:
    """A noise multiplier 2 - x is no counterexample at x = 10, nor rho - 5 a claim at rho = 1."""
    checked = check(ZCDP(100), Gaussian("a", 2 - x))
    assert checked.outcome is Outcome.UNPROVED
    checked = check(ZCDP(Fraction(1, 10)), Gaussian("a", 2 - x))
    assert checked.outcome is Outcome.REFUTED
    assert Fraction(checked.values["x"]) < 2
    assert check(ZCDP(x - 5), Gaussian("a", x)).outcome is Outcome.UNPROVED
    real = sympy.Symbol("y", real=True)
    positive = Claim(ZCDP(1), by="t", ranges={real: (0, 1)}).check(Gaussian("a", real), SCOPE)
    assert Fraction(positive.values["y"]) > 0
    shifted = Repeat(Gaussian("a", 5 - T(k)), 3, k)
    assert check(ZCDP(1), shifted).outcome is Outcome.UNPROVED
    assert check(ZCDP(1), Repeat(Gaussian("a", T(k) / 5), 3, k)).outcome is Outcome.REFUTED
    free = sympy.Symbol("x", real=True)
    assert check(ZCDP(1), Gaussian("a", free)).values.get("x") != "-1"


def test_values_are_never_taken_from_a_namesake() -> None:
    """A free k beside a Repeat over k: no value is bound by mistake."""
    node = Compose(Gaussian("a", k), Repeat(Gaussian("b", k), 3, k))
    checked = check(ZCDP(Fraction(1, 2)), node)
    assert checked.outcome is Outcome.UNPROVED
    truth = Fraction(1, 2) + Fraction(1, 8) + Fraction(1, 18)
    ball = enclose(CONCENTRATED.fold(node, SCOPE).value, {k: enclose(Fraction(2))})
    assert ball.overlaps(enclose(Fraction(1, 8) + truth))


def test_a_function_called_exp_is_not_the_exponential() -> None:
    fake = sympy.Function("exp", positive=True)(x)
    assert check(ZCDP(fake), ZCDP(1 + x)).outcome is Outcome.UNPROVED
    assert check(ZCDP(sympy.exp(x)), ZCDP(x), x=(1, 2)).outcome is Outcome.PROVED


# --- derivations at hand, arguments --------------------------------------------------------------


def test_a_step_of_another_measure_or_delta_is_refused() -> None:
    gdp, pure = GAUSSIAN.fold(A, SCOPE), PURE.fold(Laplace("a", 2), SCOPE)
    strict, lax = (to_approx(gdp, Fraction(1, 10**d)) for d in (9, 2))
    with pytest.raises(InvalidParameter, match="expected a zcdp step, not gdp"):
        Claim(ZCDP(1), by="t").check_step(gdp)
    with pytest.raises(InvalidParameter, match="expected a gdp step, not pure"):
        Claim(GDP(1), by="t").check_step(pure)
    with pytest.raises(InvalidParameter, match=r"the step is at delta = 0\.01"):
        Claim(ApproxDP(9, 1e-9), by="t").check_step(lax)
    with pytest.raises(InvalidParameter, match="expected a zcdp step, not approx"):
        Claim(ZCDP(1), by="t").check_step(lax)
    claim = Claim(ApproxDP(1, 1e-9), by="t")
    assert claim.check_step(strict).outcome is claim.check(A, SCOPE).outcome is Outcome.REFUTED
    assert claim.check_account(Account(A, SCOPE)).step == claim.check(A, SCOPE).step


@pytest.mark.parametrize(
    ("guarantee", "arguments"),
    [
        (A, {}),
        (Laplace("a", 1), {}),
        (None, {}),
        (1.0, {}),
        (Compose(ZCDP(1)), {}),
        (ZCDP(1), {"by": ""}),
        (ZCDP(1), {"ranges": {x: (2, 1)}}),
        (ZCDP(1), {"ranges": {x: (0, float("inf"))}}),
        (ZCDP(1), {"ranges": {x: (0, sympy.oo)}}),
        (ZCDP(1), {"ranges": {x: (0, y)}}),
        (ZCDP(1), {"ranges": {x: (float("nan"), 1)}}),
        (ZCDP(1), {"ranges": {"x": (0, 1)}}),
        (ZCDP(1), {"ranges": {2 * x: (0, 1)}}),
    ],
)
def test_malformed_claims_are_refused(guarantee: Any, arguments: Any) -> None:
    with pytest.raises(InvalidParameter, match=r"^Claim\."):
        Claim(guarantee, **{"by": "a test", **arguments})


def test_claims_read_well() -> None:
    claim = Claim(ApproxDP(1, 1e-5, label="l", source="s"), by="Theorem 1", reading="of the output")
    assert claim.text == "ApproxDP(epsilon=1, delta=0.00001)"
    assert (claim.value, claim.by, claim.reading) == (1, "Theorem 1", "of the output")
    assert "2.99" not in str(check(ApproxDP(3, 1e-5), A))
    reason = check(
        ZCDP(Fraction(1, 3)), Compose(A, Gaussian("b", Fraction(10**7 + 1, 10**7)))
    ).reason
    assert reason == "0.625 > 1/3, and the bound is attained"


@pytest.mark.quality
def test_large_claims_end() -> None:
    """Thousands of terms, numeric or symbolic, are compared without being simplified."""
    start = time.process_time()
    sampled = Compose(*(PoissonSampled(Laplace("a", i), Fraction(1, i + 7)) for i in range(1, 100)))
    claim = Claim(PureDP(5), by="t")
    assert claim.check(sampled, SCOPE.under("add_remove")).outcome is Outcome.PROVED
    symbols = [sympy.Symbol(f"z{i}", positive=True) for i in range(150)]
    node = Compose(*(Gaussian("a", z) for z in symbols))
    assert check(ZCDP(1), node).outcome is Outcome.REFUTED
    loose = sympy.Add(*(1 / z**2 for z in symbols))
    assert check(ZCDP(loose), node).outcome is Outcome.PROVED
    some = Compose(*(Gaussian("a", z) for z in symbols[:14]))
    assert check(GDP(sympy.Add(*(1 / z for z in symbols[:14]))), some).outcome is Outcome.UNPROVED
    assert time.process_time() - start < 20


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ((-1, 1), r"Claim.ranges\[x\] = \(-1, 1\): the symbol x is declared positive, which -1 is"),
        (
            (0, 1),
            r"Claim.ranges\[x\] = \(0, 1\): the symbol x is declared positive, which 0 is not",
        ),
        (".1", r"Claim.ranges\[x\] = '.1': expected two ends"),
        (3, r"Claim.ranges\[x\] = 3: expected two ends"),
        ((1, 2, 3), "expected two ends"),
        ((2, 1), r"Claim.ranges\[x\] = \(2, 1\): expected rational ends in order"),
    ],
)
def test_ends_that_a_symbol_cannot_have_are_refused(ends: Any, said: str) -> None:
    with pytest.raises(InvalidParameter, match=said):
        Claim(ZCDP(1), by="t", ranges={x: ends})


@pytest.mark.quality
def test_a_range_over_delta_is_proved_where_delta_is_the_symbol() -> None:
    """sigma = sqrt(2 log(2 / delta)) / epsilon: as where delta is written exp(-L)."""
    epsilon, delta = sympy.symbols("epsilon delta", positive=True)
    node = Gaussian("a", sympy.sqrt(2 * sympy.log(2 / delta)) / epsilon)
    for top, outcome in (("7.8", Outcome.PROVED), ("20", Outcome.REFUTED)):
        ranges: dict[Any, Any] = {epsilon: ("0.1", top), delta: ("1e-12", "1e-2")}
        claim = Claim(ApproxDP(epsilon, delta), by="Lemma A.5", ranges=ranges)
        assert claim.check(node, SCOPE).outcome is outcome
