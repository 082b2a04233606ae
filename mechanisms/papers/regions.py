"""Where printed guarantees are proved, refuted or open, over ranges of their numbers, drawn.

A cell is a program with its printed constants at the numbers of the cell, and what the accountant
says of the printed claim: *P* proved, *R* refuted by data and losses that attain more, *o* open,
*-* where the printed hypothesis or the constants admit no program.  Corners of the ranges are
cells.  ``mechanisms/papers/claims_page.py`` puts every region on a page.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, partial
from typing import Any, TypeAlias

from dpaudit.accountant.claim import Claim
from dpaudit.errors import InvalidParameter
from dpaudit.exact import enclose
from dpaudit.families.opaque import ZCDP, ApproxDP
from dpaudit.measures.convert import gaussian_mu
from dpaudit.nodes import Node
from dpaudit.report.svg import drawing
from dpaudit.scope import Scope, central
from mechanisms.papers.common.free import short
from mechanisms.papers.common.losses import Logistic
from mechanisms.papers.diff2.bvr_noise import Plan, diff2_bvr_noise_paper, largest_batch
from mechanisms.papers.diff2.catalogue import diff2_bvr_local_sgd
from mechanisms.papers.diff2.framework import Diff2
from mechanisms.papers.diff2.noise import diff2_noise_paper
from mechanisms.papers.kl import adaptive_readings
from mechanisms.papers.kl.adaptive_printed import PrintedAdaptiveNoisyGD
from mechanisms.papers.kl.condition import KLCondition
from mechanisms.papers.kl.entries import BETA
from mechanisms.papers.kl.problem import KLProblem
from mechanisms.papers.kl.proximal import LARGEST_STEPS, ProximalPointMethod, RegularizedNoisyGD
from mechanisms.papers.kl.schedule import KLSpiderSchedule
from mechanisms.papers.kl.select import SelectStationaryIterate
from mechanisms.papers.kl.spider import PrintedKLSpider
from mechanisms.papers.srgd.accelerated import AcceleratedDPSRGD
from mechanisms.papers.srgd.constants import Constants, Reading, theorem_5_8, theorem_5_12
from mechanisms.papers.srgd.gradient import of_constants
from mechanisms.papers.srgd.problem import BoundedLogistic
from mechanisms.papers.srgd.rows import WorstCase
from mechanisms.papers.srgd.sensitivity import Conditions, srg_sensitivity_of
from mechanisms.papers.stable_erm import build
from mechanisms.papers.stable_erm.calibration import del_output_pert_paper
from mechanisms.papers.stable_erm.domains import Ball, Box
from mechanisms.papers.stable_erm.problem import Problem as StableProblem
from mechanisms.papers.stable_erm.release import DeletionStableOutputPerturbation
from mechanisms.papers.stable_erm.solver import Absolute, Quadratic
from mechanisms.papers.user_level.catalogue import INTENDED
from mechanisms.papers.user_level.constants import printed_release
from mechanisms.papers.user_level.entries import LIPSCHITZ, LOSS, RADIUS, SMOOTHNESS
from mechanisms.papers.user_level.every_size import MOST, EverySize
from mechanisms.papers.user_level.problem import USERS
from mechanisms.papers.user_level.problem import Problem as UserProblem

REPLACE_ONE, ZERO_OUT = central("replace_one"), central("zero_out")
LETTERS = {"proved": "P", "refuted": "R"}
SHADES = {"P": 0.9, "o": 0.6, "-": 1.0, "R": 0.15}
CLOSE = 1e-6  # of a ratio of two floats that are right to 1e-12: nearer ones are open
EPSILONS = tuple(map(Fraction, ("0.001", "0.01", "0.1", "1", "3", "10", "100")))
SMALL_EPSILONS = tuple(map(Fraction, ("0.001", "0.01", "0.1", "1", "3", "10")))  # "epsilon <= 10"
DELTAS = tuple(Fraction(1, 10**k) for k in (2, 6, 10, 20))
Value: TypeAlias = Fraction | int | str
Axis: TypeAlias = tuple[str, tuple[Value, ...]]


@dataclass(frozen=True)
class Region:
    """A printed guarantee of a paper over a panel, a row and a column of values.

    ``name`` of the plot's file; ``says``: the reading, and what is held fixed.  ``decide(panel,
    row, column)``: the letter of a cell.
    """

    paper: str
    name: str
    statement: str
    says: str
    panels: Axis
    rows: Axis
    columns: Axis
    decide: Callable[..., str]

    @cache  # noqa: B019  (regions are constants; both the table and the plot read a cell)
    def letters(self, panel: Value) -> list[list[str]]:
        """The cells of a panel, row by row."""
        return [[self.decide(panel, row, c) for c in self.columns[1]] for row in self.rows[1]]


def checked(node: Node, scope: Scope, guarantee: Node) -> str:
    """What the accountant says of a claim: P, R, or o for open."""
    outcome = Claim(guarantee, by="a cell of a region").check(node, scope).outcome
    return LETTERS.get(str(outcome), "o")


def shown(value: Value) -> str:
    """A value of an axis for people."""
    if isinstance(value, int):
        return f"1e{len(str(value)) - 1}" if value > 10**9 else f"{value:,}"
    if isinstance(value, str):
        return value
    return short(value) if value < Fraction(1, 1000) else f"{float(value):g}"


def _numbers(at: str) -> list[Fraction]:
    """The numbers of a row: 1000, 10 and 3/2 of "1,000, d = 10, kappa = 1.5"."""
    return [Fraction(word.split("= ")[-1].replace(",", "")) for word in at.split(", ")]


# --- Choquette-Choo, Ganesh and Thakurta 2024 -----------------------------------------------------


def corollary_5_7(delta: Fraction, rounds: int, epsilon: Fraction) -> str:
    """A record moves floor(log2 T) + 1 nodes of the tree by one clip each: mu is exact."""
    levels = Fraction(rounds.bit_length())
    noise = enclose(Reading.AS_PRINTED.multiplier(Fraction(rounds), epsilon, delta))
    spent = float((enclose(levels).sqrt() / noise).mid())
    most = float(enclose(gaussian_mu(epsilon, delta)).mid())
    if abs(spent / most - 1) < CLOSE:
        return "o"
    return "P" if spent < most else "R"


def theorem_5_8_cell(dimension: int, size: int, epsilon: Fraction) -> str:
    """Delta = 1 / n, L = M = R = 1, by Lemma 5.9 in place of the theorem's own argument."""
    delta = Fraction(1, size)
    try:
        constants = theorem_5_8(size, dimension, epsilon, delta)
    except InvalidParameter:
        return "-"
    return _unclipped(constants, size, dimension, Fraction(1, 2), (epsilon, delta))


def theorem_5_12_cell(delta: Fraction, at: str, epsilon: Fraction) -> str:
    """L = M = R = 1 and p = 10; ``at`` is "n, B"."""
    size, batch = map(int, _numbers(at))
    constants = theorem_5_12(size, batch, epsilon, delta)
    return _unclipped(constants, size, 10, Fraction(3), (epsilon, delta), constants.clip)


def _unclipped(
    constants: Constants,
    size: int,
    dimension: int,
    noise_bound: Fraction,
    budget: tuple[Fraction, Fraction],
    norm: object = None,
) -> str:
    """Nothing is clipped: a noise event is paid for, as in the certificates of either theorem."""
    one = Fraction(1)
    conditions = Conditions(one, one, 2 * one, constants.beta, constants.rounds, dimension)
    try:
        bound = srg_sensitivity_of(conditions, sigma=constants.sigma, noise_bound=noise_bound)
        rows = WorstCase.of(bound) if norm is None else WorstCase.of(bound, norm=norm)
    except InvalidParameter:
        return "o"  # the bound of the sensitivity does not close
    gradient = of_constants(constants, BoundedLogistic(norm=1.0), dimension, size, rows=rows)
    node = AcceleratedDPSRGD(gradient, radius=1.0).declaration(ZERO_OUT)
    return checked(node, ZERO_OUT, ApproxDP(*budget))


# --- Lowy, Liu and Asi 2024 -----------------------------------------------------------------------


def theorem_2_1(delta: Fraction, users: int, epsilon: Fraction) -> str:
    """Ten items a user; the phases are on disjoint users, so that one of them decides."""
    constants = printed_release(users, 10, epsilon, delta)
    if constants.groups > users:
        return "-"  # fewer users than groups: n^(1 - o(1)) >~ log(n / delta) / epsilon fails
    return checked(constants.node("phase"), USERS, ApproxDP(epsilon, delta))


def every_size(smoothness: float | None, delta: Fraction, at: str, epsilon: Fraction) -> str:
    """Theorem 3.1, or 4.1 where ``smoothness`` is None: proved for every n from the row's to MOST.

    ``at`` is "n, d"; ten items a user.  Either number of flips of the proof will do.
    """
    size, dimension = map(int, _numbers(at))
    items = 10
    if smoothness is None and delta * items * size >= 1:
        return "-"  # Theorem 4.1 asks for delta < 1 / (m n)
    problem = UserProblem(LOSS, size, items, dimension, RADIUS, LIPSCHITZ)
    ways = [EverySize(problem, epsilon, delta, smoothness, coins=coins) for coins in (60, 120)]
    if size < ways[0].hypothesis():
        return "-"
    return "P" if any(way.proved(size) for way in ways) else "o"


# --- Murata and Suzuki 2023 -----------------------------------------------------------------------


def proposition_4_1(delta: Fraction, schedule: str, epsilon: Fraction) -> str:
    """``schedule`` is "R, T"; u = 5/4; n and P cancel out of every release's noise multiplier."""
    rounds, every = map(int, _numbers(schedule))
    restarts = -(-rounds // every)
    share = Fraction(5, 4) if rounds > restarts else Fraction(1)
    made = diff2_noise_paper(epsilon, delta, 1000, restarts, rounds - restarts, share)
    program = Diff2(
        loss=BoundedLogistic(norm=1.0),
        features=10,
        client_sizes=(1000,),
        rounds=rounds,
        restart_every=every,
        gradient_radius=1.0,
        difference_radius=1.0,
        step_size=1.0,
        noise=made,
    )
    return checked(program.declaration(REPLACE_ONE), REPLACE_ONE, ApproxDP(epsilon, delta))


def proposition_5_1(delta: Fraction, size: int, epsilon: Fraction) -> str:
    """R = 20, T = K = 5, one client, the largest batch that the printed condition admits."""
    plan = Plan(size, 1, 20, 5, 5, 1)
    most = largest_batch(epsilon, delta, plan)
    if most < 1:
        return "-"
    plan = replace(plan, batch_size=most)
    made, sigma = diff2_bvr_noise_paper(epsilon, delta, plan)
    of: Any = diff2_bvr_local_sgd.program  # its rounds, periods and local steps are the plan's
    routine = replace(of.routine, batch_size=most, sigma=sigma)
    program: Any = replace(of, client_sizes=(size,), noise=made, routine=routine)
    return checked(program.declaration(REPLACE_ONE), REPLACE_ONE, ApproxDP(epsilon, delta))


# --- Menart et al. 2023 ---------------------------------------------------------------------------

READINGS: dict[str, tuple[PrintedAdaptiveNoisyGD, Scope]] = {
    "signed norms": (adaptive_readings.SIGNED, REPLACE_ONE),
    "norms cut at 0": (adaptive_readings.CLIPPED, REPLACE_ONE),
    "norms cut at 0, w_0..w_T alone": (adaptive_readings.ITERATES, REPLACE_ONE),
    "norms cut at 0, zero_out": (adaptive_readings.CLIPPED, ZERO_OUT),
}


def theorem_3(reading: str, size: int, rho: Fraction) -> str:
    """The printed charges of Algorithm 3, in one reading of its listing."""
    program, scope = READINGS[reading]
    problem = replace(program.problem, size=size)
    try:
        made = replace(program, problem=problem, rho=rho)
    except InvalidParameter:
        return "-"  # n sqrt(rho) <= 4: no round fits
    return checked(made.declaration(scope), scope, ZCDP(rho))


def theorem_5(reading: str, size: int, rho: Fraction) -> str:
    """A reading of Algorithm 3, then the exponential mechanism with its printed weights: 2 rho."""
    program, scope = READINGS[reading]
    problem = replace(program.problem, size=size)
    try:
        made = SelectStationaryIterate(replace(program, problem=problem, rho=rho))
    except InvalidParameter:
        return "-"
    return checked(made.declaration(scope), scope, ZCDP(2 * rho))


# What is claimed, in multiples of rho, and the neighbours.
SPIDER = {
    "Theorem 1, replace_one": (1, REPLACE_ONE),
    "Lemma 8, replace_one": (2, REPLACE_ONE),
    "Theorem 1, zero_out": (1, ZERO_OUT),
    "Lemma 8, zero_out": (2, ZERO_OUT),
}
NEIGHBOURS = {"replace_one": REPLACE_ONE, "zero_out": ZERO_OUT}


def theorem_1(claim: str, at: str, rho: Fraction) -> str:
    """Gamma = L0 = F0 = 1, L1 = .01; ``at`` is "n, d, kappa"; noisy gradients are released."""
    multiple, scope = SPIDER[claim]
    condition, problem, gap = _kl(at)
    size, dimension = problem.size, problem.dimension
    made = KLSpiderSchedule(condition, dimension, size, rho, BETA, gap, 1.0, 0.01)
    program = PrintedKLSpider(problem, made)
    if not program.levels:
        return "-"  # K = 0: F0 is below phi0
    return checked(program.declaration(scope), scope, ZCDP(multiple * rho))


def theorem_2(neighbours: str, at: str, rho: Fraction) -> str:
    """Gamma = L0 = Lw = F0 = 1; ``at`` is "n, d, kappa"."""
    scope = NEIGHBOURS[neighbours]
    condition, problem, gap = _kl(at)
    beta, steps = BETA, LARGEST_STEPS
    program = ProximalPointMethod(problem, condition, rho, beta, gap, 1.0, steps, "paper")
    if program.calls < 1 or program.solver.steps < 2:
        return "-"
    return checked(program.declaration(scope), scope, ZCDP(rho))


def theorem_9(neighbours: str, at: str, rho: Fraction) -> str:
    """L0 = Lw = 1; ``at`` is "n, d"."""
    scope = NEIGHBOURS[neighbours]
    _, problem, _ = _kl(f"{at}, kappa = 2")
    beta, steps = BETA, LARGEST_STEPS
    program = RegularizedNoisyGD(problem, rho, beta, 1.0, steps, "paper")
    return "-" if program.steps < 2 else checked(program.declaration(scope), scope, ZCDP(rho))


def _kl(at: str) -> tuple[KLCondition, KLProblem, float]:
    """The condition, the problem and F0 of "n, d, kappa"."""
    size, dimension, kappa = _numbers(at)
    problem = KLProblem(Logistic(), int(dimension), int(size), 1.0)
    return KLCondition(1.0, float(kappa)), problem, 1.0


# --- Ghazi et al. 2023 ----------------------------------------------------------------------------

STABLE_ITEMS = 10
# Of a release alone, on which no loss depends; the others are Algorithms 3 to 6 in order.
STABLE: dict[str, Callable[[int, Fraction, Fraction], Any]] = {
    "Theorems 3.1 and 3.3": lambda users, *budget: DeletionStableOutputPerturbation(
        users, 1.0, del_output_pert_paper(*budget)
    ),
    "Theorem 4.1": lambda users, *budget: build.phased_erm(
        _stable_problem(users), *budget, constants="paper"
    ),
    "Theorem 4.3": lambda users, *budget: build.strongly_convex_erm(
        _stable_problem(users, convex=False), *budget, constants="paper"
    ),
    "Theorem 5.1": lambda users, *budget: build.phased_sco(
        _stable_problem(users), *budget, constants="paper"
    ),
    "Theorem 5.3": lambda users, *budget: build.strongly_convex_sco(
        _stable_problem(users, convex=False), *budget, constants="paper"
    ),
}


def _stable_problem(users: int, *, convex: bool = True) -> StableProblem:
    """One dimension: a convex loss in [-1, 1], or a strongly convex one in the ball."""
    if convex:
        return StableProblem(Absolute(), Box(1.0, 1), users, STABLE_ITEMS, 1, 1.0)
    return StableProblem(Quadratic(), Ball(1.0), users, STABLE_ITEMS, 1, 2.0)


def stable(theorem: str, delta: Fraction, users: int, epsilon: Fraction) -> str:
    """A theorem's program with its printed constants, which hold for any data and score."""
    try:
        program = STABLE[theorem](users, epsilon, delta)
        node = program.declaration(USERS)
    except InvalidParameter:
        return "-"  # epsilon above 1 a release, too few users for kappa, or kappa above 10^6
    if getattr(program, "count", 1) < 1:
        return "-"  # no phase: nothing is released
    return checked(node, USERS, ApproxDP(epsilon, delta))


def _stable_region(theorem: str, says: str) -> Region:
    name = theorem.lower().replace(" and ", "_").replace(" ", "_").replace(".", "_")
    return Region(
        "Ghazi, Kamath, Kumar, Manurangsi, Meka, Zhang 2023",
        f"stable_{name}",
        theorem,
        f"constants as printed, replace_one of a user, {says}",
        ("delta", (Fraction(1, 2), Fraction(1, 10**6), Fraction(1, 10**20))),
        ("n", STABLE_SIZES),
        ("epsilon", STABLE_EPSILONS),
        partial(stable, theorem),
    )


PHASED = (
    f"m = {STABLE_ITEMS}, the paper's number of phases; - where there are fewer users than kappa "
    "needs, a release's epsilon is above the 1 of Theorem 3.3, or its kappa above the 10^6 that "
    "are accounted for"
)
RHOS = tuple(map(Fraction, ("0.0001", "0.01", "1", "10000")))


def _rows(*at: tuple[Any, ...]) -> Axis:
    """An axis of rows, each n, d and perhaps kappa."""

    def row(numbers: tuple[Any, ...]) -> str:
        named = zip(("d", "kappa"), numbers[1:], strict=False)
        return ", ".join([shown(numbers[0]), *(f"{name} = {number:,}" for name, number in named)])

    return "n", tuple(map(row, at))


def _every_size(
    theorem: str, smoothness: float | None, powers: Sequence[int], why: str = ""
) -> Region:
    return Region(
        "Lowy, Liu and Asi 2024",
        theorem.lower().replace(" ", "_").replace(".", "_"),
        theorem,
        f"{INTENDED}{why}; q = 1/10, m = 10 and T_i, whose constant the paper leaves open, as "
        "`user_level_phased_erm_paper` has it. P says proved at every n from the row's to "
        f"1e{len(str(MOST)) - 1}, by the closed bound of `mechanisms/papers/user_level/"
        "every_size.py`, in balls over all of them; o that this bound is too large, where an "
        "instance may be proved all the same; - where the hypothesis on n or delta fails",
        ("delta", tuple(Fraction(1, 10**power) for power in powers)),
        _rows(*USER_SIZES),
        ("epsilon", SMALL_EPSILONS),
        partial(every_size, smoothness),
    )


# n and d.  At d = 10 and delta = 1e-8 the first two and two more are the least n of Theorem 3.1's
# hypothesis at epsilon 10, of the closed bound there, and of the hypothesis at epsilon 1 and 0.1.
USER_SIZES = (
    (18_259, 10),
    (28_999, 10),
    (198_325, 10),
    (10**6, 1),
    (2_685_534, 10),
    (10**9, 1),
    (10**9, 10**6),
    (10**29, 10),
)
STABLE_SIZES = (100, 1000, 10**4, 10**6, 10**15)
STABLE_EPSILONS = tuple(map(Fraction, ("0.001", "0.1", "1", "3", "10")))
SIZES = tuple(10**k for k in (2, 3, 4, 6, 8, 10))
# n and d of the paper on the KL condition, corners included.
KL_SIZES = ((2, 1), (2, 10**6), (100, 10), (10**4, 10**4), (10**6, 10), (10**9, 1), (10**9, 10**6))
REGIONS = (
    _stable_region(
        "Theorems 3.1 and 3.3",
        "one release; no m and no loss changes a cell; - above the theorems' epsilon of 1, and "
        "where there are fewer users than kappa needs",
    ),
    *(_stable_region(theorem, PHASED) for theorem in list(STABLE)[1:]),
    Region(
        "Murata and Suzuki 2023",
        "proposition_4_1",
        "Proposition 4.1",
        "constants as printed, replace_one, u = 5/4. Neither n nor P changes a cell: N cancels "
        "out of every noise multiplier. The last columns are beyond the paper's epsilon",
        ("delta", DELTAS),
        ("R", ("1, T = 1", "2, T = 1", "7, T = 3", "100, T = 10", "1,000,000, T = 3,000")),
        ("epsilon", EPSILONS),
        proposition_4_1,
    ),
    Region(
        "Murata and Suzuki 2023",
        "propositions_5_1_e_2",
        "Propositions 5.1 and E.2",
        "constants as printed, replace_one, R = 20, T = K = 5, P = 1, u_1 = u_2 = 3, the "
        "largest batch that their condition on b admits; - where it admits none",
        ("delta", (DELTAS[0], DELTAS[1], DELTAS[3])),
        ("n", (100, 1000, 10**6, 10**9)),
        ("epsilon", tuple(map(Fraction, ("0.01", "0.1", "1", "10")))),
        proposition_5_1,
    ),
    Region(
        "Choquette-Choo, Ganesh and Thakurta 2024",
        "corollary_5_7",
        "Corollary 5.7",
        f"{Reading.AS_PRINTED}, a clip, any losses, zero_out. Neither n nor d changes a cell. "
        "T rounds on the tree are mu-GDP, and some data and losses attain it, so that the "
        "exact curve decides. At T = 1 the printed noise is 0",
        ("delta", DELTAS),
        ("T", (2, 3, 4, 31, 32, 1024, 10**6)),
        (
            "epsilon",
            tuple(map(Fraction, ("0.001", "0.01", "0.05", "0.1", "0.5", "1", "3", "10", "100"))),
        ),
        corollary_5_7,
    ),
    Region(
        "Choquette-Choo, Ganesh and Thakurta 2024",
        "theorem_5_8",
        "Theorem 5.8",
        "constants as printed, delta = 1/n, L = M = R = 1, zero_out, L-Lipschitz M-smooth "
        "losses and any data, by Lemma 5.9 in place of its own argument, which speaks of "
        "i.i.d. data; - where Equation 19 asks for more rounds than records",
        ("p", (1, 100, 10**4, 10**6)),
        ("n", tuple(10**k for k in (6, 7, 8, 10, 15, 20, 24, 25, 26, 36))),
        ("epsilon", EPSILONS),
        theorem_5_8_cell,
    ),
    Region(
        "Choquette-Choo, Ganesh and Thakurta 2024",
        "theorem_5_12",
        "Theorem 5.12",
        "constants as printed, L = M = R = 1, p = 10, zero_out, nothing clipped, a noise event "
        "that is paid for; B from 1 to sqrt n",
        ("delta", DELTAS),
        (
            "n",
            tuple(
                f"{n:,}, B = {b:,}"
                for n in (10**2, 10**4, 10**8, 10**12)
                for b in (1, math.isqrt(n))
            ),
        ),
        ("epsilon", EPSILONS),
        theorem_5_12_cell,
    ),
    Region(
        "Menart et al. 2023",
        "theorem_3",
        "Theorem 3",
        "Algorithm 3 with its printed charges; the last round's gradient is visible unless "
        "only w_0..w_T are. Signed norms are refuted at n = 100,000 and rho = 1, by the attack "
        "of `adaptive_noisy_gd_paper` (its most, which the account has, need not be attained); "
        "- where n sqrt(rho) is 4 or less, for which no round fits",
        ("reading", tuple(READINGS)),
        ("n", (2, 10, 100, 10**4, 10**6, 10**9)),
        ("rho", tuple(map(Fraction, ("0.0001", "0.01", "0.1", "1", "10", "100", "10000")))),
        theorem_3,
    ),
    Region(
        "Menart et al. 2023",
        "theorem_1",
        "Theorem 1 and Lemma 8",
        "Algorithm 1 as printed, gamma = L0 = F0 = 1, L1 = 0.01, beta = 0.05, every noisy gradient "
        "released: anchors alone cost 2 rho under replace_one. Of the output alone Theorem 1 is "
        "refuted at n = 100 (`kl_spider_paper_replace_one`), Lemma 8 is open; - where F0 is "
        "below phi_0, so that there is no phase",
        ("claim", tuple(SPIDER)),
        _rows(*((n, d, k) for k in (1, 1.5, 2) for n, d in KL_SIZES)),
        ("rho", RHOS),
        theorem_1,
    ),
    Region(
        "Menart et al. 2023",
        "theorem_2",
        "Theorem 2",
        "Algorithm 2 with Algorithm 4 in it, noise as printed, gamma = L0 = F0 = 1, weak "
        f"convexity 1, beta = 0.05, steps of a call capped at {LARGEST_STEPS:,}: rho (T - 1) / "
        "(2 T), T the steps of a call; - where there is no call, or none with a step",
        ("neighbours", tuple(NEIGHBOURS)),
        _rows(*((n, d, k) for k in (2, 4, 20) for n, d in KL_SIZES)),
        ("rho", RHOS),
        theorem_2,
    ),
    Region(
        "Menart et al. 2023",
        "theorem_9",
        "Theorem 9",
        "Algorithm 4, noise as printed, L0 = 1, weak convexity 1, beta = 0.05, steps capped at "
        f"{LARGEST_STEPS:,}: rho (T - 1) / (2 T), T the steps; - where T = 1, so that nothing is "
        "released",
        ("neighbours", tuple(NEIGHBOURS)),
        _rows((1, 1), *KL_SIZES),
        ("rho", RHOS),
        theorem_9,
    ),
    Region(
        "Menart et al. 2023",
        "theorem_5",
        "Theorem 5",
        "2 rho for Algorithm 3 with its printed charges, then the exponential mechanism with its "
        "printed weights, which costs rho / 2 by its range; what is visible, - and signed norms "
        "as under Theorem 3",
        ("reading", tuple(READINGS)),
        ("n", (2, 10, 100, 10**4, 10**6, 10**9)),
        ("rho", tuple(map(Fraction, ("0.0001", "0.01", "0.1", "1", "10", "100", "10000")))),
        theorem_5,
    ),
    _every_size("Theorem 3.1", float(SMOOTHNESS), (2, 8, 20, 32)),
    _every_size(
        "Theorem 4.1",
        None,
        (8, 20, 32),
        ", of the smoothed loss with K_i = n_i (secret sets of K_i < n_i, as in Appendix D, are "
        "open at every n)",
    ),
    Region(
        "Lowy, Liu and Asi 2024",
        "theorem_2_1",
        "Theorem 2.1",
        "constants as printed, m = 10, replace_one of a user; - where Algorithm 1 wants more "
        "groups than there are users",
        ("delta", DELTAS),
        ("n", SIZES),
        ("epsilon", SMALL_EPSILONS),
        theorem_2_1,
    ),
)


def section(region: Region) -> list[str]:
    """A region on a page: its plot and its cells."""
    columns = [f"{region.columns[0]} = {shown(value)}" for value in region.columns[1]]
    lines = [
        "",
        f"### {region.statement} ({region.paper}) over ({region.panels[0]}, {region.rows[0]}, "
        f"{region.columns[0]})",
        "",
        f"{region.says[0].upper()}{region.says[1:]}. *P* proved, *R* refuted, *o* open, *-* no "
        "such program.",
        "",
        f"![{region.statement}: proved, refuted and open]({region.name}.svg)",
        "",
        f"| {region.panels[0]} | {region.rows[0]} | {' | '.join(columns)} |",
        "|---|---|" + "---|" * len(columns),
    ]
    for panel in region.panels[1]:
        for row, letters in zip(region.rows[1], region.letters(panel), strict=True):
            lines.append(f"| {shown(panel)} | {shown(row)} | {' | '.join(letters)} |")
    return lines


def drawn(region: Region) -> str:
    """The cells as a plot, a panel each: SVG."""
    x_labels, y_labels = (list(map(shown, axis[1])) for axis in (region.columns, region.rows))
    with drawing() as (figure, _):
        figure.clear()
        figure.set_size_inches(11.0, 1.0 + 0.3 * len(y_labels))
        panels = figure.subplots(1, len(region.panels[1]), sharey=True)
        for axes, panel in zip(panels, region.panels[1], strict=True):
            letters = region.letters(panel)
            shaded = [[SHADES[letter] for letter in row] for row in letters]
            axes.grid(visible=False)
            axes.imshow(shaded, cmap="gray", vmin=0.0, vmax=1.0, aspect="auto")
            _label(axes, letters)
            axes.set_xticks(range(len(x_labels)), x_labels, fontsize=6)
            axes.set_yticks(range(len(y_labels)), y_labels, fontsize=7)
            axes.set_title(f"{region.panels[0]} = {shown(panel)}", fontsize=8)
            axes.set_xlabel(region.columns[0], fontsize=7)
        panels[0].set_ylabel(region.rows[0], fontsize=7)
        target = io.StringIO()
        undated = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(target, format="svg", metadata=undated, facecolor="white")
    return target.getvalue()


def _label(axes: Any, letters: Sequence[Sequence[str]]) -> None:
    for y, row in enumerate(letters):
        for x, letter in enumerate(row):
            colour = "white" if letter == "R" else "black"
            axes.text(x, y, letter, ha="center", va="center", color=colour)
