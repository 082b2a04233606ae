"""The best of a random number of runs: enumeration, papers' constants, checker, audit."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import dpaudit as dp
from dpaudit.check import check
from dpaudit.check.expressions import says_between
from dpaudit.check.theorem import bound
from dpaudit.errors import CertificateRejected, InvalidParameter, Unsupported
from dpaudit.exact import decimal_upper, enclose
from dpaudit.exact.wire import encode_number
from dpaudit.families.tuning import Tuned, TunedPoisson
from dpaudit.families.tuning.kernel import numbers_of_runs
from dpaudit.measures.convert import to_approx
from tests.library.cli.bench import certified, mechanism

F = Fraction
SCOPE = dp.central("replace_one")
LAWS = [(0.1, 1.0), (0.3, 0.0), (0.05, -0.5), (0.2, 2.0)]


def law_of_runs(gamma: float, shape: float) -> np.ndarray:
    """P(K = k), k = 1, 2, ..., by the products of the definition."""
    logs = [0.0]
    for k in range(1, 4000):
        logs.append(logs[-1] + math.log((1 - gamma) * (k + shape) / (k + 1)))
    found = np.exp(np.array(logs))
    return np.asarray(found / found.sum())


def best_of(run: np.ndarray, runs: np.ndarray) -> np.ndarray:
    """The law of the best outcome: outcomes in ascending order of their score."""
    below = np.concatenate(([0.0], np.cumsum(run)))
    powers = (runs[:, None] * below[None, :] ** np.arange(1, len(runs) + 1)[:, None]).sum(0)
    return np.diff(powers)


@pytest.mark.parametrize(("gamma", "shape"), LAWS)
def test_no_pair_of_runs_is_further_apart_than_the_bounds(gamma: float, shape: float) -> None:
    """Best outcomes of three, enumerated over random pairs of laws; orders 2, 5 and 30."""
    rng, runs = np.random.default_rng(7), law_of_runs(gamma, shape)
    node_of = lambda child: Tuned(child, F(str(gamma)), F(str(shape)))  # noqa: E731
    epsilon, largest = 0.7, 0.0
    pure = node_of(dp.PureDP(F(7, 10)))
    stated = float(dp.account(pure, SCOPE).step("pure").value)
    curve = dp.account(pure, SCOPE).step("rdp").value
    (alpha,) = curve.free_symbols
    for _ in range(60):
        p = 0.97 * rng.dirichlet(np.ones(3) * rng.choice([0.05, 0.5, 3])) + 0.01
        q = p * np.exp(rng.choice([-epsilon / 2, epsilon / 2], 3))
        q = q / q.sum()
        worst = np.abs(np.log(p / q)).max()
        if worst > epsilon:
            continue
        one, other = (best_of(law, runs) for law in (p, q))
        largest = max(largest, float(np.abs(np.log(one / other)).max()))
        for order in (2, 5, 30):
            divergence = np.log((one**order * other ** (1.0 - order)).sum()) / (order - 1)
            assert divergence <= float(enclose(curve.subs(alpha, order)).mid())
    assert epsilon / 2 < largest <= stated * (1 + 1e-9)


@pytest.mark.parametrize(("gamma", "shape"), LAWS)
def test_the_mean_and_the_draws_are_those_of_the_law(gamma: float, shape: float) -> None:
    """Within six standard errors; false alarm below 1e-8."""
    node = Tuned(dp.PureDP(1), F(str(gamma)), F(str(shape)))
    law = law_of_runs(gamma, shape)
    k = np.arange(1, len(law) + 1)
    mean = float((law * k).sum())
    assert float(enclose(node.mean).mid()) == pytest.approx(mean, rel=1e-6)
    drawn = numbers_of_runs(gamma, shape, np.random.default_rng(1), 40_000)
    spread = math.sqrt(((k - mean) ** 2 * law).sum() / 40_000)
    assert abs(drawn.mean() - mean) < 6 * spread
    assert drawn.min() == 1


def test_pure_searches_cost_what_the_papers_say() -> None:
    """Liu, Talwar 2019: three times (geometric); Papernot, Steinke 2022: twice (logarithmic)."""
    for shape, times in ((1, 3), (0, 2), (F(-1, 2), F(3, 2))):
        node = Tuned(dp.PureDP(F(1, 5)), F(1, 100), shape)
        assert dp.account(node, SCOPE).step("pure").value == F(1, 5) * times


def test_a_gaussian_search_costs_little_more_than_one_run_and_less_than_its_runs() -> None:
    """A hundred runs on average, of rho = 0.1 each: far below their composition."""
    run = dp.Gaussian("training", F("2.236"))
    search = dp.account(Tuned(run, F(1, 100)), SCOPE).epsilon("1e-6")
    once = dp.account(run, SCOPE).epsilon("1e-6")
    all_runs = dp.account(dp.Repeat(run, 100), SCOPE).epsilon("1e-6")
    assert float(once.upper) < float(search.upper) < float(all_runs.upper) / 3


def test_the_checker_states_the_same_at_any_order_and_takes_no_wrong_one() -> None:
    node = Tuned(dp.Gaussian("g", 3), F(1, 50), F(1, 2))
    step = dp.account(node, SCOPE).step("rdp")
    (alpha,) = step.value.free_symbols
    child = lambda a: a / 18  # noqa: E731
    theirs = bound("rdp", node, [child], step.witness)
    for order in (F(3, 2), F(7)):
        ours = step.value.subs(alpha, order)
        assert float(enclose(ours).mid()) == pytest.approx(float(enclose(theirs(order)).mid()))
    for wrong in (F(1), F(1, 2)):
        with pytest.raises(CertificateRejected, match="above 1"):
            bound("rdp", node, [child], {"order": encode_number(wrong)})


@pytest.mark.first_case
@pytest.mark.parametrize(("gamma", "shape"), [("3/7", 1), ("1/2", "1/2"), ("0.86", 3)])
def test_the_checker_takes_certificates_of_searches_over_sampled_noise(
    gamma: str, shape: object
) -> None:
    """Their sums are compared as texts."""
    noise = dp.PoissonSampled(dp.Gaussian("g", 3), "0.1")
    claim = dp.ApproxDP(300, "1e-6")
    case = mechanism("case", Tuned(noise, gamma, shape), claim, adjacency="add_remove")
    certificate = certified(case).certificate
    assert certificate["predicate"]["claims"][0]["check"] == "proved"
    assert not check(certificate).unconfirmed


def test_the_largest_of_several_is_read() -> None:
    """And not the smallest, nor two numbers for a function of one."""
    text = "Max(alpha/2, log(3), 1/7)"
    assert says_between(text, [F(3, 2)], ["1.5"], {"alpha": F(3)})
    assert says_between(text, [F(1)], ["1.09862"], {"alpha": F(2)})
    assert not says_between(text, [F(8, 5)], ["1.6"], {"alpha": F(3)})
    assert not says_between("Min(2, 3)", [F(2)], ["2"], {})
    assert not says_between("exp(0, 0)", [F(1)], ["1"], {})
    assert not says_between("Max()", [F(1)], ["1"], {})


def test_the_audit_refutes_a_search_of_a_fixed_number_of_runs_and_no_random_one() -> None:
    """Planted bug: always ten runs, which composition alone covers.  False alarm 1e-5."""
    truth = 1 / (1 + math.exp(-1))

    def search(fixed: bool) -> object:
        def mechanism(bit: int, rng: np.random.Generator, size: int) -> np.ndarray:
            runs = np.full(size, 10.0) if fixed else numbers_of_runs(0.1, 1.0, rng, size)
            return (rng.random(size) < 1 - (1 - truth if bit else truth) ** runs).astype(float)

        return mechanism

    claim = dp.PureDP(dp.account(Tuned(dp.PureDP(1), F(1, 10)), SCOPE).step("pure").value)
    found = [
        str(dp.audit_function(search(f), 0, 1, claim=claim, trials=20_000, seed=4).verdict)
        for f in (False, True)
    ]
    assert found[0] != "refuted"
    assert found[1] == "refuted"


def test_bad_input_is_refused_by_name() -> None:
    for gamma, shape, place in ((0, 1, "gamma"), (1, 1, "gamma"), (F(1, 2), -1, "shape")):
        with pytest.raises(InvalidParameter, match=place):
            Tuned(dp.PureDP(1), gamma, shape)
    with pytest.raises(InvalidParameter, match="shape"):
        numbers_of_runs(0.5, -1.0, np.random.default_rng(1), 2)
    with pytest.raises(Unsupported, match="multiplies delta"):
        dp.account(Tuned(dp.PureDP(1), F(1, 2)), SCOPE).step("approx")


# --- a Poisson number of runs --------------------------------------------------------------------


def poisson_best_of(run: np.ndarray, mean: float) -> np.ndarray:
    """The law of the best outcome, the default first."""
    below = np.concatenate(([0.0], np.cumsum(run)))
    return np.concatenate(([math.exp(-mean)], np.diff(np.exp(mean * (below - 1)))))


@pytest.mark.parametrize("mean", [0.2, 1.0, 10.0, 60.0])
def test_no_pair_of_poisson_searches_is_further_apart_than_the_bounds(mean: float) -> None:
    """Best outcomes of three and a default, over random pairs of laws; orders 2, 5 and 30."""
    rng, epsilon, largest = np.random.default_rng(9), 0.7, 0.0
    node = TunedPoisson(dp.PureDP(F(7, 10)), F(str(mean)))
    stated = float(enclose(dp.account(node, SCOPE).step("pure").value).mid())
    curve = dp.account(node, SCOPE).step("rdp").value
    (alpha,) = curve.free_symbols
    bounds = {a: float(enclose(curve.subs(alpha, a)).mid()) for a in (2, 5, 30)}
    for _ in range(200):
        p = 0.97 * rng.dirichlet(np.ones(3) * rng.choice([0.05, 0.5, 3])) + 0.01
        q = p * np.exp(rng.choice([-epsilon / 2, epsilon / 2], 3))
        q = q / q.sum()
        if np.abs(np.log(p / q)).max() > epsilon:
            continue
        one, other = (poisson_best_of(law, mean) for law in (p, q))
        largest = max(largest, float(np.abs(np.log(one / other)).max()))
        for order, most in bounds.items():
            divergence = np.log((one * (one / other) ** (order - 1.0)).sum()) / (order - 1)
            assert divergence <= most
    assert 0.3 * stated < largest <= stated * (1 + 1e-9)


@pytest.mark.quality
def test_poisson_searches_are_near_the_papers_theorem() -> None:
    """Papernot, Steinke 2022, Theorem 6, with delta by the same conversion, at every order b.

    The paper's bound has log m for log(m + exp(-m)), and any b at each order of its own.
    """
    rho, mean, delta = 0.01, 30.0, 1e-6
    best = math.inf
    for a in np.arange(1.5, 400, 0.5):
        near = math.log(a / (a - 1))
        logs = [
            (b - 1) * (rho * b - near + math.log(1 - 1 / b)) - math.log(b)
            for b in np.geomspace(1.01, 500, 400)
        ]
        divergence = a * rho + mean * math.exp(min(0.0, *logs)) + math.log(mean) / (a - 1)
        turned = math.log(1 - 1 / a) - math.log(delta * a) / (a - 1)
        best = min(best, divergence + turned)
    node = TunedPoisson(dp.ZCDP(F(1, 100), source="one run"), 30)
    account = dp.account(node, SCOPE)
    found = float(to_approx(account.step("rdp"), F(1, 10**6)).value[0])
    assert best - 1e-3 <= found <= 1.15 * best
    assert account.epsilon("1e-6").upper < found  # by the profile that the runs' curve implies


def test_the_checker_states_the_same_bound_of_poisson_searches_and_takes_no_wrong_order() -> None:
    node = TunedPoisson(dp.Gaussian("g", 3), 12)
    step = dp.account(node, SCOPE).step("rdp")
    (alpha,) = step.value.free_symbols
    child = lambda a: a / 18  # noqa: E731
    theirs = bound("rdp", node, [child], step.witness)
    for order in (F(3, 2), F(7), F(40)):
        ours = step.value.subs(alpha, order)
        assert float(enclose(ours).mid()) == pytest.approx(float(enclose(theirs(order)).mid()))
    for wrong in (F(1), F(1, 2)):
        with pytest.raises(CertificateRejected, match="above 1"):
            bound("rdp", node, [child], {"order": encode_number(wrong)})


def test_the_audit_refutes_a_fixed_number_of_runs_and_no_poisson_one() -> None:
    """Planted bug: always three runs, for a Poisson number of mean three.  False alarm 1e-5."""
    truth = 1 / (1 + math.exp(-1))

    def search(fixed: bool) -> object:
        def mechanism(bit: int, rng: np.random.Generator, size: int) -> np.ndarray:
            runs = np.full(size, 3) if fixed else rng.poisson(3.0, size)
            found = rng.random(size) < 1 - (1 - truth if bit else truth) ** runs
            return np.where(runs == 0, 2.0, found)

        return mechanism

    own = dp.account(TunedPoisson(dp.PureDP(1), 3), SCOPE).step("pure").value
    claim = dp.PureDP(decimal_upper(own))
    found = [
        str(dp.audit_function(search(f), 0, 1, claim=claim, trials=20_000, seed=4).verdict)
        for f in (False, True)
    ]
    assert found[0] != "refuted"
    assert found[1] == "refuted"


def test_means_of_poisson_searches_that_are_none_are_refused() -> None:
    for mean in (0, -2):
        with pytest.raises(InvalidParameter, match=r"TunedPoisson\.mean"):
            TunedPoisson(dp.PureDP(1), mean)
