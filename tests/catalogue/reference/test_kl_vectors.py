"""The published settings of the algorithms under the KL condition, recomputed from their programs.

V1 to V10 of the project's audit plan; V11 to V13 are in tests/catalogue/unit/test_kl_filter.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from audits.kl import canary, turned_round
from audits.kl_witness import MEANS, SIZE, program, step, witness
from dpaudit.curator.curator import Sampler
from dpaudit.curator.replayer import Replayer
from dpaudit.exact import enclose
from dpaudit.kernels.query import Records
from dpaudit.scope import central
from mechanisms.papers.common.losses import WorstCase
from mechanisms.papers.kl.condition import KLCondition
from mechanisms.papers.kl.problem import KLProblem
from mechanisms.papers.kl.proximal import ProximalPointMethod, RegularizedNoisyGD
from mechanisms.papers.kl.schedule import PRACTICAL, KLSpiderSchedule
from mechanisms.papers.kl.spider import KLSpider, PrintedKLSpider
from tests.support.claims import agrees, number, value

REPLACE_ONE = central("replace_one")
# (n, d, rho, kappa, gamma, L0, L1, F0); c, K, beta', floor, noise [P], updates, total / rho, fixed
SPIDER: dict[str, tuple[tuple[Any, ...], tuple[Any, ...]]] = {
    "V1": (
        (10**6, 10, "1", 2, 2**-0.5, 1, 1, 0.5),
        ("1.03125", 836, 5.98086e-5, 4.16234e-5, 2.89137e-5, 1672, "2.25", 4.57165e-5),
    ),
    "V2": (
        (10**6, 10, "0.1", 2, 1, 1, 1, 1),
        ("1.015625", 1497, 3.34001e-5, 1.57998e-3, 1.22352e-4, 2994, "2.25", 1.934554e-4),
    ),
    "V3": (
        (10**6, 10, "1", 1.5, 1, 1, 1, 1),
        ("1.015625", 1235, 4.26795e-7, 1.58939e-3, 3.51426e-5, 9066, "2.13927", 5.55653e-5),
    ),
    "V4": (
        (10**6, 10, "1", 1, 1, 1, 1, 1),
        ("1.015625", 824, 5.50816e-9, 1.26673e-2, 2.87054e-5, 48045, "2.13060", 4.53872e-5),
    ),
}
TIGHT = {"V1": 338, "V2": 495, "V3": 466, "V4": 314}


def schedule(setting: tuple[Any, ...], **options: Any) -> KLSpiderSchedule:
    n, d, rho, kappa, gamma, lipschitz, smooth, gap = setting
    condition = KLCondition(gamma, kappa)
    return KLSpiderSchedule(condition, d, n, Fraction(rho), 0.05, gap, lipschitz, smooth, **options)


def problem(size: int, d: int, lipschitz: float) -> KLProblem:
    return KLProblem(WorstCase(size=d, curvature=0.0), 0, size, lipschitz)


@pytest.mark.first_case
@pytest.mark.parametrize("name", SPIDER)
def test_kl_spider_s_published_settings(name: str) -> None:
    setting, (c, phases, failure, floor, noise, updates, total, fixed) = SPIDER[name]
    n, d, rho, _, _, lipschitz, *_ = setting
    public = schedule(setting)
    assert agrees(1 + public.contraction, c)
    assert public.count == phases
    assert public.failure == pytest.approx(failure, rel=2e-6)
    assert public.floor == pytest.approx(floor, rel=4e-6)
    own = problem(n, d, lipschitz)
    printed, corrected = PrintedKLSpider(own, public), KLSpider(own, public)
    anchor = number(printed.noise.anchor(public, 1)) * lipschitz / n
    assert anchor == pytest.approx(noise, rel=2e-6)
    assert sum(differences for _, differences, _ in printed.lengths()) == updates
    assert agrees(number(value(printed.declaration(REPLACE_ONE), "zcdp")) / float(rho), total)
    anchor = number(corrected.noise.anchor(public, 1)) * lipschitz / n
    assert anchor == pytest.approx(fixed, rel=2e-6)
    assert value(corrected.declaration(REPLACE_ONE), "zcdp") == Fraction(rho)
    assert schedule(setting, phases="tight").count == TIGHT[name]


def test_last_phases_noise_multipliers_and_regions() -> None:
    """T_K and sigma_K of V3 and V4; V1's multipliers, and both loops' radii."""
    for name, length, sigma in (("V3", 8.56886, 1.40103e-6), ("V4", 78.9433, 3.23078e-6)):
        setting = SPIDER[name][0]
        public = schedule(setting)
        last = public.levels[-1]
        assert last.length == pytest.approx(length, rel=1e-6)
        own = PrintedKLSpider(problem(10**6, 10, 1), public)
        multiple = number(own.noise.difference(public, Fraction(str(last.length))))
        assert multiple * own.gradient_change(last) / 10**6 == pytest.approx(sigma, rel=3e-6)
    public = schedule(SPIDER["V1"][0])
    anchor, difference = (
        number(plan.parameters["noise_multiplier"])
        for plan in PrintedKLSpider(problem(10**6, 10, 1), public).plans(2)[0][3:]
    )
    assert anchor == pytest.approx(14.456832, rel=1e-7)
    assert difference == pytest.approx(57.827329, rel=1e-7)
    # The floor stops the phases' shrinking a little before K: the sum is just above K F0 / 4.
    assert public.region_radius == pytest.approx(17.1875, rel=1e-4)
    printed = PrintedKLSpider(problem(10**6, 10, 1), public)
    walked = sum(plan.steps * printed.gradient_change(plan.phase) for plan in printed.plans(2))
    assert walked == pytest.approx(34.375, rel=1e-4)
    assert schedule(SPIDER["V1"][0], phases="tight").floor == pytest.approx(1.526e-5, rel=4e-4)


def test_at_ten_thousand_records_the_second_setting_is_vacuous() -> None:
    public = schedule((10**4, 10, "1", 2, 1, 1, 1, 1))
    assert public.floor == pytest.approx(1.0678, abs=5e-5)
    assert public.vacuous


def test_a_run_of_the_repaired_loop_on_its_canary_reaches_all_of_its_budget() -> None:
    """Every release moves by its whole sensitivity: sum of (move / sigma)^2 / 2 is rho."""
    public = KLSpiderSchedule(
        KLCondition(1.0, 1.5), 3, 2_000, Fraction(1), 0.05, 1.0, 1.0, 1.0, PRACTICAL, 6
    )
    program = KLSpider(KLProblem(canary(public), 0, 2_000, 1.0), public)
    pair = turned_round(2_000).pair
    node = program.declaration(REPLACE_ONE)
    sampler = Sampler(node, REPLACE_ONE, pair[0], rng=np.random.default_rng(0), trials=3)
    program.run(sampler)
    replayer = Replayer(program, node, REPLACE_ONE, pair)
    first, second = (replayer.walk(records, sampler.transcript)[0] for records in pair)
    spent = np.zeros(3)
    for a, b in zip(first.visits, second.visits, strict=True):
        spent += np.square(np.linalg.norm(a.value - b.value, axis=-1) / a.scale) / 2
    assert len(first.visits) == sum(public.steps)
    assert spent == pytest.approx(np.ones(3), rel=1e-6)


@pytest.mark.parametrize(
    ("size", "d", "rho", "beta", "lipschitz", "steps", "printed", "true", "fixed"),
    [(300, 10, "1", 0.05, 1, 122471, 2.333057, "0.499996", 1.649714),
     (1000, 10, "0.5", 0.01, 1, 1403609, 3.350951, "0.250000", 2.369479),
     (1000, 50, "0.1", 0.05, 2, 27216, 2.086758, "0.049998", 1.475534)],
)  # fmt: skip
def test_regularized_noisy_gd_s_published_settings(
    size: int, d: int, rho: str, beta: float, lipschitz: float, steps: int, printed: float,
    true: str, fixed: float,
) -> None:  # fmt: skip
    own = problem(size, d, lipschitz)
    for constants, sigma, total in (("paper", printed, true), ("corrected", fixed, rho)):
        solver = RegularizedNoisyGD(own, Fraction(rho), beta, 1.0, 10**7, constants)
        assert solver.steps == steps
        assert number(solver.noise) * lipschitz / size == pytest.approx(sigma, rel=4e-7)
        assert agrees(number(value(solver.declaration(REPLACE_ONE), "zcdp")), total)


@pytest.mark.parametrize(
    ("setting", "calls", "steps", "sigma", "radius", "share"),
    [((1000, 10, "1", 2, 2**-0.5, 1, 0.125), 173, 45194, 5.592338, 86.5, "0.499989"),
     ((10000, 10, "1", 3, 1, 1, 0.5), 620, 1651388, 6.399564, 310, "0.500000"),
     ((1000, 1, "0.5", 4, 1, 0.5, 0.25), 224, 184866, 18.201095, 224, "0.499997")],
)  # fmt: skip
def test_the_proximal_point_method_s_published_settings(
    setting: tuple[Any, ...], calls: int, steps: int, sigma: float, radius: float, share: str
) -> None:
    size, d, rho, kappa, gamma, weak, gap = setting
    method = ProximalPointMethod(
        problem(size, d, 1),
        KLCondition(gamma, kappa),
        Fraction(rho),
        0.05,
        gap,
        weak,
        10**7,
        "paper",
    )
    assert (method.calls, method.solver.steps) == (calls, steps)
    assert method.solver.beta == pytest.approx(0.05 / calls)
    assert number(method.solver.noise) / size == pytest.approx(sigma, rel=2e-7)
    assert method.region_radius == pytest.approx(radius)
    total = value(method.declaration(REPLACE_ONE), "zcdp") / Fraction(rho)
    assert agrees(number(total), share)


def quadratic_excess(program: KLSpider, seed: int, trials: int) -> np.ndarray:
    """||w||^2 / 2 of the outputs, for equal records."""
    records = Records(np.zeros((program.problem.size, 1)))
    node = program.declaration(REPLACE_ONE)
    rng = np.random.default_rng(seed)
    found = program.run(Sampler(node, REPLACE_ONE, records, rng=rng, trials=trials))
    return np.asarray(np.square(found.output).sum(axis=-1) / 2)


@pytest.mark.quality
def test_the_printed_loop_breaks_its_own_bound_and_the_repaired_one_keeps_it() -> None:
    """Phi_K on F = ||w||^2 / 2, n = 10^6: 20 of 20 printed runs above it, 0 of 20 repaired.

    Published: 1.055e-4 and 4.9e-5 against 9.045e-5; noise as printed resp. corrected.
    """
    # Only n sqrt(rho) enters: a thousand records at rho = 10^6 stand for a million at 1.
    public = schedule((1_000, 10, "1000000", 2, 2**-0.5, 1.5, 1, 0.5))
    start = (1.0,) + (0.0,) * 9
    own = KLProblem(Bowl(10), 0, 1_000, 1.5, start)
    printed = quadratic_excess(PrintedKLSpider(own, public), 1, 20)
    repaired = quadratic_excess(KLSpider(own, public), 1, 20)
    assert public.excess_upper == pytest.approx(9.045e-5, rel=1e-4)
    assert printed.mean() == pytest.approx(1.055e-4, rel=0.02)
    assert repaired.mean() == pytest.approx(4.9e-5, rel=0.06)
    assert (printed > public.excess_upper).all()
    assert (repaired <= public.excess_upper).all()


class Bowl:
    """||w||^tau / tau for every record."""

    def __init__(self, size: int, tau: float = 2.0) -> None:
        self.size, self.tau = size, tau

    def dimension(self, features: int) -> int:
        return self.size

    def initial(self, features: int, trials: int, seed: int) -> Any:
        return np.zeros((trials, self.size))

    def values(self, parameters: Any, records: Any) -> Any:
        norms = np.linalg.norm(parameters, axis=-1, keepdims=True)
        return norms**self.tau * np.ones(len(records)) / self.tau

    def gradients(self, parameters: Any, records: Any) -> Any:
        norms = np.linalg.norm(parameters, axis=-1, keepdims=True)
        slopes = np.asarray(parameters) * norms ** (self.tau - 2)
        return np.repeat(slopes[:, None], len(records), axis=1)


def test_the_repaired_loop_with_differences_keeps_its_bound() -> None:
    """F = ||w||^3 / 3 is KL of kappa 1.5: K = 1007, excess 2.61e-4 below Phi_K = 3.38e-4.

    Ten runs; each is above Phi_K with a chance below 0.05.
    """
    setting = (1_000, 3, "1000000", 1.5, 3 ** (-1 / 1.5), 1.5, 2.4, 1 / 3)
    public = schedule(setting)
    assert public.count == 1007
    assert public.excess_upper == pytest.approx(3.38e-4, abs=5e-7)
    program = KLSpider(KLProblem(Bowl(3, 3.0), 0, 1_000, 1.5, (1.0, 0.0, 0.0)), public)
    node, records = program.declaration(REPLACE_ONE), Records(np.zeros((1_000, 1)))
    rng = np.random.default_rng(8)
    found = program.run(Sampler(node, REPLACE_ONE, records, rng=rng, trials=10))
    excess = np.linalg.norm(found.output, axis=-1) ** 3 / 3
    assert excess.mean() == pytest.approx(2.61e-4, rel=0.05)
    differences = np.minimum(found.updates, np.array(public.steps) - 1).sum(axis=1)
    assert (differences == 81).all()
    assert (excess <= public.excess_upper).all()


def test_beta_of_one_estimate_is_at_most_one_half() -> None:
    public = schedule((40, 2, "1", 1, 1, 1, 1, 1), phases=1)
    assert public.failure <= 0.5
    assert math.isfinite(public.floor)
    assert enclose(public.rho) == 1


# sigma = L0 sqrt(K) / (n sqrt(rho)), (7/8) Phi^(1/2) / gamma, Phi^(1/2) / (gamma n sqrt(rho)).
WITNESS_NUMBERS = (0.01, 7 / 8 * math.exp(0.49) / 100, math.exp(0.49) / 100 / 100)


def in_many_digits(mean: float) -> float:
    """P(first estimate below -stop, second not short) in 30 digits, from the printed numbers."""
    with mpmath.workdps(30):
        anchor, stop, noise = (mpmath.mpf(x) for x in WITNESS_NUMBERS)

        def density(estimate: Any) -> Any:
            short = mpmath.ncdf((stop - estimate) / noise) - mpmath.ncdf((-stop - estimate) / noise)
            return mpmath.npdf(estimate, mean, anchor) * (1 - short)

        ends = [-stop - k * noise for k in (900, 60, 12, 4, 1, 0)]
        return float(mpmath.quad(density, ends))


@pytest.mark.quality
def test_the_witness_against_the_output_alone() -> None:
    """Theorem 1 under replace_one: P(output = w0 + step) on linear losses.

    Published: 1.624e-4 against 1.106e-8, which no 1-zCDP mechanism can have.  The program itself:
    200,000 runs a side, six standard errors (false alarm 1e-8).
    """
    found = witness()
    assert agrees(1e4 * found.first, "1.624")
    assert agrees(1e8 * found.second, "1.106")
    assert found.divergence_lower(3) >= 1.74 * 3
    assert found.delta_lower(7.0772) >= 1.49e-4
    chances = [in_many_digits(mean) for mean in MEANS]
    assert [found.first, found.second] == pytest.approx(chances, rel=1e-6)
    own, trials, hits = program(), 200_000, []
    node, pair = own.declaration(REPLACE_ONE), turned_round(SIZE)
    for side in (pair.second, pair.first):
        rng = np.random.default_rng(5)
        output = own.run(Sampler(node, REPLACE_ONE, side, rng=rng, trials=trials)).output
        hits.append(int((np.abs(output[:, 0] - step()) < 1e-9).sum()))
    expected = trials * found.first
    assert abs(hits[0] - expected) <= 6 * math.sqrt(expected)
    assert hits[1] == 0
