"""The baselines on the RAND data, logistic regression, with their claims.

Source: Choquette-Choo, Ganesh, Thakurta 2024, Sections 2, 5.5 and Table 1.
"""

from __future__ import annotations

import math
from fractions import Fraction

from dpaudit.accountant.claim import Claim
from dpaudit.curator.curator import Program
from dpaudit.curator.mechanism import Mechanism, Metric
from dpaudit.exact import Number, log, sqrt
from dpaudit.families.opaque import GDP, ApproxDP
from dpaudit.measures.convert import gaussian_mu
from dpaudit.scope import Scope, central
from mechanisms.papers.common.rand_entries import holdout_losses, rand_setting, records
from mechanisms.papers.srgd.baselines import AcceleratedDPSGD, DPSGDOnePass, DPSGDPoisson
from mechanisms.papers.srgd.localized import LocalizedAcceleratedDPSGD
from mechanisms.papers.srgd.online import DPFTRL, DPOnlineToBatch, online_to_batch_clip
from mechanisms.papers.srgd.phased_erm import PhasedERM
from mechanisms.papers.srgd.phased_sgd import PhasedSGD
from mechanisms.papers.srgd.phases import cited_multiplier, cited_step_size
from mechanisms.papers.srgd.problem import BoundedLogistic, Problem, Solution

PAPER = "Choquette-Choo, Ganesh and Thakurta 2024"
EPSILON, DELTA = 1, Fraction(1, 10**6)
MU = gaussian_mu(EPSILON, DELTA)
FEATURES, SIZE = 10, 16_150
LIPSCHITZ, SMOOTHNESS = math.sqrt(10), 2.5
ZERO_OUT, REPLACE_ONE, ADD_REMOVE = map(central, ("zero_out", "replace_one", "add_remove"))
BOUNDED = "logistic loss; the query scales every row to norm sqrt(10) and cuts its target to [0, 1]"
PROBLEM = Problem(BoundedLogistic(norm=LIPSCHITZ), FEATURES, SIZE, radius=2.0, clip=LIPSCHITZ)
PLAIN = "every gradient is clipped, so that privacy assumes nothing of the loss"
# The least, to six digits, that the accountant proves (1, 1e-6) for.
POISSON_NOISE, LOCALIZED_NOISE = Fraction("2.00055"), Fraction("2.60046")


def evaluate(solution: Solution) -> tuple[Metric, ...]:
    """Loss of the released model on the hold-out rows, which are treated as public."""
    start, output = PROBLEM.start(1), solution.output
    return holdout_losses(PROBLEM.loss, {"at the start": start, "of the output": output})


def entry(
    name: str,
    title: str,
    source: str,
    program: Program,
    scope: Scope,
    claims: tuple[Claim, ...],
    covered: str,
    *notes: str,
) -> Mechanism:
    """One baseline on the RAND data."""
    chosen = "step size, radii and rounds were chosen without the data"
    invariants = () if scope == ADD_REMOVE else ("the number and the order of the records",)
    return Mechanism(
        name=name,
        title=f"{title}, logistic regression",
        source=source,
        program=program,
        scope=scope,
        claims=claims,
        setting=rand_setting(covered, invariants, chosen, *notes),
        records=records,
        evaluate=evaluate,
    )


def stated(by: str) -> Claim:
    """(1, 1e-6)."""
    return Claim(ApproxDP(EPSILON, DELTA), by=by)


TIGHT = (
    stated("calibrated here to the exact curve; the paper states no noise"),
    Claim(GDP(MU), by="the largest mu that is (1, 1e-6)-DP (Balle and Wang 2018, Theorem 8)"),
)
ACCOUNTED = (stated("calibrated here by the accountant"),)


def tree_noise(steps: int) -> Number:
    """sqrt(floor(log2 T) + 1) / mu: what makes the tree over T steps exactly mu-GDP.

    Source: Choquette-Choo, Ganesh, Thakurta 2024, Lemma 5.6, with the exact number of levels.
    """
    return sqrt(Fraction(steps.bit_length())) / MU


# --- fresh noise ---------------------------------------------------------------------------------

accelerated_dp_sgd = entry(
    "accelerated_dp_sgd",
    "Accelerated DP-SGD with independent batch gradients",
    f"{PAPER}, Section 5.5 (noise calibrated here)",
    AcceleratedDPSGD(PROBLEM, steps=20, beta=SMOOTHNESS, noise_multiplier=1 / MU),
    ZERO_OUT,
    TIGHT,
    "20 noisy batch gradients, each row in one batch",
    PLAIN,
)
dp_sgd_one_pass = entry(
    "dp_sgd_one_pass",
    "DP-SGD in one pass over disjoint batches",
    f"{PAPER}, Section 2.1",
    DPSGDOnePass(PROBLEM, steps=20, step_size=0.4, noise_multiplier=1 / MU),
    ZERO_OUT,
    TIGHT,
    "20 noisy batch gradients, each row in one batch",
    PLAIN,
)
dp_sgd_poisson = entry(
    "dp_sgd_poisson",
    "DP-SGD on Poisson batches, three passes in expectation",
    f"{PAPER}, Section 2.1 (Abadi et al. 2016, Algorithm 1)",
    DPSGDPoisson(PROBLEM, 60, Fraction(1, 20), 0.4, POISSON_NOISE),
    ADD_REMOVE,
    ACCOUNTED,
    "60 noisy gradients on secret batches, each row with probability 1/20",
    PLAIN,
    "gradients are divided by 807.5, a public number, whatever the number of records",
)

# --- correlated noise ----------------------------------------------------------------------------

ONLINE_CLIP = online_to_batch_clip(32, LIPSCHITZ, SMOOTHNESS, 2 * PROBLEM.radius)

dp_ftrl = entry(
    "dp_ftrl",
    "DP-FTRL with binary-tree noise",
    f"{PAPER}, Section 2.2",
    DPFTRL(PROBLEM, steps=32, step_size=0.4, noise_multiplier=tree_noise(32)),
    ZERO_OUT,
    TIGHT,
    "32 noisy prefix sums of batch gradients, each row in one batch",
    PLAIN,
)
dp_online_to_batch = entry(
    "dp_online_to_batch",
    "Private online-to-batch conversion with binary-tree noise",
    f"reconstructed; {PAPER} cite Zhang, Tran and Cutkosky 2022 in Table 1",
    DPOnlineToBatch(PROBLEM, 32, 0.05, tree_noise(32), clip=ONLINE_CLIP),
    ZERO_OUT,
    TIGHT,
    "32 noisy prefix sums of weighted gradient differences, each row in one batch",
    PLAIN,
    "the cited algorithm reads one row a round; batches of 504 rows are ours",
)

# --- phases --------------------------------------------------------------------------------------

STEP_SIZE = cited_step_size(PROBLEM, FEATURES, float(EPSILON), float(DELTA))
CITED = cited_multiplier(EPSILON, DELTA)
ROOT = sqrt(log(1 / DELTA))
LEFT_OVER = "6 phases of the 13 that have rows; the last 255 rows are never read"

phased_sgd = entry(
    "phased_sgd",
    "Phased SGD, constants as cited",
    f"reconstructed; {PAPER} cite Feldman, Koren and Talwar 2020 in Table 1",
    PhasedSGD(PROBLEM, 6, STEP_SIZE, SMOOTHNESS, CITED, evidence=BOUNDED),
    REPLACE_ONE,
    (
        stated("Feldman, Koren and Talwar 2020, as cited"),
        Claim(
            GDP(EPSILON / (2 * ROOT)),
            by="the same constants, exactly composed: mu = epsilon / (2 sqrt(log(1/delta)))",
        ),
    ),
    "6 noisy mean iterates of passes over disjoint rows",
    LEFT_OVER,
)
phased_erm = entry(
    "phased_erm",
    "Phased regularised minimisation, constants as cited",
    f"reconstructed; {PAPER} cite Zhang, Thekumparampil, Oh and He 2022 in Table 1",
    PhasedERM(PROBLEM, 6, STEP_SIZE, SMOOTHNESS, CITED, evidence=BOUNDED),
    REPLACE_ONE,
    (
        stated("Feldman, Koren and Talwar 2020, Algorithm 3, as cited"),
        Claim(
            GDP(Fraction(201, 100) * EPSILON / (4 * ROOT)),
            by="the same constants, with one percent for the solver, exactly composed",
        ),
    ),
    "6 noisy approximate minima over disjoint rows",
    LEFT_OVER,
    "every solver takes a public number of steps that certifies its accuracy for any data",
)
localized_accelerated_dp_sgd = entry(
    "localized_accelerated_dp_sgd",
    "Localised accelerated DP-SGD on Poisson batches",
    f"reconstructed; {PAPER} cite Gao, Lowy, Zhou and Wright 2024 in Table 1",
    LocalizedAcceleratedDPSGD(
        PROBLEM, 3, 16, Fraction(1, 8), 0.05, SMOOTHNESS, noise_multiplier=LOCALIZED_NOISE
    ),
    ZERO_OUT,
    ACCOUNTED,
    "3 phases of 16 noisy gradients on secret batches of the phase's own rows",
    PLAIN,
)
