"""The last iterate of noisy contractions: simulation, papers' bounds, the checker, an audit."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import sympy
from scipy.optimize import minimize

import dpaudit as dp
from dpaudit.check.theorem import bound
from dpaudit.errors import InvalidParameter, Unsupported
from dpaudit.exact import enclose
from dpaudit.families.iterates import LastIterate

F = Fraction
SCOPE = dp.central("replace_one")


def mu_of(node: dp.Node) -> float:
    return float(enclose(dp.account(node, SCOPE).step("gdp").value).mid())


@pytest.mark.parametrize(("steps", "contraction"), [(1, 1.0), (7, 0.5), (40, 0.97), (9, 1.0)])
def test_linear_updates_reach_the_bound(steps: int, contraction: float) -> None:
    """Mean and variance of x -> c x + 1 + noise, step by step."""
    moved, variance = 0.0, 0.0
    for _ in range(steps):
        moved, variance = contraction * moved + 1, contraction**2 * variance + 9.0
    node = LastIterate("x", 3, steps, F(str(contraction)))
    assert mu_of(node) == pytest.approx(moved / math.sqrt(variance), rel=1e-12)
    assert dp.account(node, SCOPE).step("gdp").attained


def test_strongly_convex_runs_have_the_bound_of_the_paper() -> None:
    """Bok, Su, Altschuler 2024, Theorem 4.2, and its limit for endless runs."""
    c, z = 0.9, 5.0
    for steps in (1, 10, 100):
        paper = math.sqrt((1 - c**steps) / (1 + c**steps) * (1 + c) / (1 - c)) / z
        assert mu_of(LastIterate("x", 5, steps, F("0.9"))) == pytest.approx(paper, rel=1e-12)
    assert mu_of(LastIterate("x", 5, 10**9, F("0.9"))) == pytest.approx(math.sqrt(19) / 5)


@pytest.mark.parametrize("diameter", [3, 40, 1000])
def test_convex_projected_runs_stay_below_the_paper_whatever_their_length(diameter: int) -> None:
    """Theorem 4.3: mu z <= sqrt(3 D + ceil(D)) in units of one step's move, D its diameter."""
    found = mu_of(LastIterate("x", 2, 10**7, 1, diameter))
    assert found * 2 <= math.sqrt(3 * diameter + math.ceil(diameter)) * (1 + 1e-12)
    assert found * 2 >= math.sqrt(4 * diameter) * (1 - 1e-12)
    short = LastIterate("x", 2, 2, 1, diameter)
    assert mu_of(short) == pytest.approx(math.sqrt(2) / 2)


def test_the_best_window_is_found_among_all() -> None:
    """Every window of a run of 300 steps, by the formula in floats."""
    c, d = 0.99, 20.0
    windows = [
        (c**m * d + (1 - c**m) / (1 - c)) ** 2 * (1 - c * c) / (1 - c ** (2 * m))
        for m in range(1, 301)
    ]
    own = (1 + c) / (1 - c) * (1 - c**300) / (1 + c**300)
    node = LastIterate("x", 1, 300, F("0.99"), 20)
    assert mu_of(node) ** 2 == pytest.approx(min(*windows, own), rel=1e-12)


def test_shifts_of_every_window_are_feasible() -> None:
    """The proof's claim: what is left to close is never negative, at any step of any window."""
    for c in (0.3, 0.9, 0.999, 1.0):
        for m in (1, 2, 5, 50):
            for d in (0.0, 0.7, 30.0):
                powers = c ** np.arange(m - 1, -1, -1)
                total = c**m * d + powers.sum()
                shifts = total * powers / (powers**2).sum()
                left = d
                for shift in shifts:
                    left = c * left + 1 - shift
                    assert left >= -1e-9 * (1 + total)
                assert left == pytest.approx(0, abs=1e-9 * (1 + total))


@pytest.mark.parametrize("calculus", ["gdp", "zcdp"])
def test_the_checker_states_the_same(calculus: str) -> None:
    for node in (
        LastIterate("x", 2, 100, F(4, 5), 0),
        LastIterate("x", 2, 10**6, 1, 30),
        LastIterate("x", 2, 10**6, F(9_999, 10_000), 30),
    ):
        ours = dp.account(node, SCOPE).step(calculus).value
        theirs = bound(calculus, node, [])
        assert float(enclose(ours / theirs).mid()) == pytest.approx(1, abs=1e-14)


def test_an_audit_refutes_an_expanding_update_and_no_contracting_one() -> None:
    """Planted bug: the losses are hardly convex, so that updates contract by 0.98, not 0.5."""
    claim = dp.GDP(mu_of(LastIterate("x", 1, 30, F(1, 2))))

    def run(contraction: float) -> object:
        def mechanism(move: float, rng: np.random.Generator, size: int) -> np.ndarray:
            x = np.zeros(size)
            for _ in range(30):
                x = contraction * x + move + rng.standard_normal(size)
            return x

        return mechanism

    verdicts = [
        str(dp.audit_function(run(c), 1.0, 0.0, claim=claim, trials=3_000, seed=2).verdict)
        for c in (0.5, 0.98)
    ]
    assert verdicts[0] != "refuted"
    assert verdicts[1] == "refuted"


def test_assumptions_are_carried_and_bad_input_is_refused() -> None:
    node = LastIterate("model", 2, 5, F(1, 2), 3)
    assert "0.5-Lipschitz" in node.assumption.statement
    assert "diameter 3 units" in node.assumption.statement
    with pytest.raises(InvalidParameter, match="contraction"):
        LastIterate("x", 2, 5, F(3, 2))
    with pytest.raises(InvalidParameter, match="steps"):
        LastIterate("x", 2, F(5, 2))
    with pytest.raises(InvalidParameter, match="diameter"):
        LastIterate("x", 2, 5, 1, -1)
    with pytest.raises(Unsupported, match="unbounded loss"):
        dp.account(node, SCOPE).step("pure")


# --- batches in one order ------------------------------------------------------------------------


def least_squares(c: float, batches: int, passes: int, start: float, window: int) -> float:
    """The least sum of squares of feasible shifts over the last ``window`` steps, by SLSQP."""
    steps = batches * passes
    first = steps - window + 1
    moves = np.array([1.0 if k % batches == 0 else 0.0 for k in range(first, steps + 1)])

    def left(shifts: np.ndarray) -> np.ndarray:
        distance, found = start, []
        for move, shift in zip(moves, shifts, strict=True):
            distance = c * distance + move - shift
            found.append(distance)
        return np.array(found)

    rules = [
        {"type": "ineq", "fun": lambda a: left(a)[:-1]},
        {"type": "eq", "fun": lambda a: left(a)[-1]},
    ]
    guess, distance = [], start
    for move in moves:
        guess.append(c * distance + move)
        distance = 0.0
    solved = minimize(lambda a: float(a @ a), guess, constraints=rules, method="SLSQP",
                      options={"maxiter": 500, "ftol": 1e-14})  # fmt: skip
    return float(solved.fun)


@pytest.mark.parametrize(("c", "batches", "passes"), [(1.0, 3, 3), (0.8, 2, 4), (0.95, 4, 2)])
def test_shifts_over_cyclic_batches_are_the_least_feasible_ones(
    c: float, batches: int, passes: int
) -> None:
    node = LastIterate("x", 1, batches * passes, F(str(c)), 0, batches)
    assert mu_of(node) ** 2 == pytest.approx(
        least_squares(c, batches, passes, 0.0, batches * passes), rel=1e-6
    )
    bound_ = dp.account(node, SCOPE).epsilon("1e-5")
    assert 0 < bound_.lower < bound_.upper


def test_cyclic_batches_have_the_bound_of_the_paper() -> None:
    """Bok, Su, Altschuler 2024, cyclic batches: convex, 1 + (E - 1) / l; strongly convex."""
    assert mu_of(LastIterate("x", 5, 400, 1, 0, 10)) * 5 == pytest.approx(math.sqrt(1 + 39 / 10))
    c, size, passes = 0.99, 10, 40
    grown = (1 - c ** (size * (passes - 1))) / (1 + c ** (size * (passes - 1)))
    paper = 1 + c ** (2 * size - 2) * (1 - c**2) / (1 - c**size) ** 2 * grown
    node = LastIterate("x", 5, size * passes, F("0.99"), 0, size)
    assert mu_of(node) * 5 == pytest.approx(math.sqrt(paper), rel=1e-12)
    # Far below a run of which every iterate is shown: sqrt(E) / z.
    assert mu_of(node) < math.sqrt(passes) / 5 / 2


def test_a_small_set_caps_cyclic_runs_whatever_their_length() -> None:
    for c in (1, F("0.999")):
        found = [mu_of(LastIterate("x", 1, 10 * e, c, 3, 10)) for e in (4, 40, 4000)]
        assert found[1] == pytest.approx(found[2])
        assert found[2] <= math.sqrt(1 + 4 * 3 / 10) * (1 + 1e-9)


@pytest.mark.parametrize("diameter", [0, 3])
def test_the_checker_states_the_same_of_cyclic_batches(diameter: int) -> None:
    for c in (1, F(99, 100)):
        node = LastIterate("x", 2, 4000, c, diameter, 20)
        ours = dp.account(node, SCOPE).step("gdp").value
        assert float(enclose(ours / bound("gdp", node, [])).mid()) == pytest.approx(1, abs=1e-14)
        pairs = dp.account(node, SCOPE).step("profile").value
        theirs = bound("profile", node, [])
        assert len(theirs.reached) == len(pairs.reached) == 1
        assert float(enclose(theirs.reached[0].mu / pairs.reached[0].mu).mid()) == pytest.approx(1)


def test_an_audit_refutes_full_noise_of_the_last_batch_claimed_as_hidden() -> None:
    """Planted bug: the claim of a record in the first batch, for one in the last.  Error 1e-4."""
    steps, size = 30, 10
    hidden = 1 / math.sqrt(size) * math.sqrt(3)
    true = mu_of(LastIterate("x", 1, steps, 1, 0, size))

    def run(move: float, rng: np.random.Generator, trials: int) -> np.ndarray:
        """Linear until the last step, which sets x apart: an update that contracts."""
        x = np.zeros(trials)
        for step in range(1, steps + 1):
            x = (0.0 if step == steps else 1.0) * x + move * (step % size == 0)
            x = x + rng.standard_normal(trials)
        return x

    verdicts = [
        str(dp.audit_function(run, 1.0, 0.0, claim=dp.GDP(mu), trials=8_000, seed=2).verdict)
        for mu in (hidden, true)
    ]
    assert verdicts[0] == "refuted"
    assert verdicts[1] != "refuted"


def test_partial_passes_and_symbols_are_refused_by_name() -> None:
    with pytest.raises(InvalidParameter, match="steps = 35: expected whole passes over the 10"):
        LastIterate("x", 2, 35, 1, 0, 10)
    with pytest.raises(InvalidParameter, match="not symbols"):
        LastIterate("x", 2, sympy.Symbol("T", positive=True, integer=True), 1, 0, 10)


@pytest.mark.parametrize(("contraction", "diameter"), [("1", 0), ("0.9", 0), ("1", 3)])
def test_one_pass_over_batches_is_hidden_by_its_last_step_alone(
    contraction: str, diameter: int
) -> None:
    """A record of the last batch meets no later noise: what one-pass programs claim already."""
    run = LastIterate("x", 3, 64, F(contraction), diameter, batches=64)
    one = LastIterate("x", 3, 1, F(contraction), diameter)
    assert mu_of(run) == pytest.approx(mu_of(one), rel=1e-9)
    assert mu_of(run) == pytest.approx(1 / 3, rel=1e-9)
    twice = LastIterate("x", 3, 128, F(contraction), diameter, batches=64)
    assert mu_of(run) < mu_of(twice) < math.sqrt(2) / 3
