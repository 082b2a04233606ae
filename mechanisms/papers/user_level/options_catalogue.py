"""Options of Algorithms 1 to 4 besides the paper's own, on simulated users of RAND rows.

Source: Lowy, Liu, Asi 2024, and what each entry names.
"""

from __future__ import annotations

from fractions import Fraction
from functools import wraps
from typing import Any

from dpaudit.accountant.claim import Claim
from dpaudit.curator.mechanism import Metric
from dpaudit.families.opaque import PureDP
from mechanisms.papers.user_level.above import AboveThresholdCounts
from mechanisms.papers.user_level.acsa import one_stage
from mechanisms.papers.user_level.baselines import UserLevelPhasedSGDBaseline
from mechanisms.papers.user_level.baselines_catalogue import FKT, KAPPA, REGULAR
from mechanisms.papers.user_level.catalogue import INERT, WEIGHTED, of_groups
from mechanisms.papers.user_level.constants import ReleaseConstants
from mechanisms.papers.user_level.entries import (
    DELTA,
    HIDDEN_TEST,
    ITEMS,
    LIPSCHITZ,
    LOSS,
    OURS,
    PAPER,
    PROBLEM,
    RADIUS,
    SMOOTHNESS,
    UNREACHED,
    entry,
    ours,
    stated,
)
from mechanisms.papers.user_level.order import InPublicOrder
from mechanisms.papers.user_level.phased_sampled import sampled_phased_erm
from mechanisms.papers.user_level.phased_sgd import phased_sgd_of
from mechanisms.papers.user_level.problem import Problem
from mechanisms.papers.user_level.readings import appendix_d_phases
from mechanisms.papers.user_level.sampled import SampledTestSGD

# By sampled_constants(1, 1, 1e-6, 5), which the tests repeat.
ROUNDS = 5
SAMPLED = ReleaseConstants(
    238,
    Fraction(2),
    Fraction("222.249896941"),
    Fraction(4, 5),
    Fraction("0.314531971"),
)
user_level_accelerated_sgd_sampled_tests = entry(
    "user_level_accelerated_sgd_sampled_tests",
    "Accelerated SGD on secret batches, each tested with noise of its own",
    f"{PAPER}, Algorithm 2 with another test; {OURS}",
    SampledTestSGD(PROBLEM, SAMPLED, ROUNDS, 4.0, 0.3, one_stage(ROUNDS, SMOOTHNESS + 0.3)),
    (ours(Fraction("0.76")),),
    f"{ROUNDS} noisy mean gradients of batches of a fourteenth of the users, or bottom",
    columns="logistic",
    unexamined=UNREACHED,
)
user_level_phased_erm_sampled_tests = entry(
    "user_level_phased_erm_sampled_tests",
    "Phases of accelerated SGD on secret batches, each tested with noise of its own",
    f"{PAPER}, Algorithm 3 with another test; {OURS}",
    sampled_phased_erm(PROBLEM, 1, 1, DELTA, SMOOTHNESS, most_rounds=3),
    (ours(Fraction("3.23")),),
    "3 noisy mean gradients a phase, of batches of more than half of its users, or bottom",
    "a batch's test and its release have epsilon 1 each before amplification; at most 3 rounds a "
    "phase, in three phases on disjoint users: the paper's own would cost more",
    "attacks on phases 1 and 2 see a move of their means alone: across the thresholds of their "
    "tests a batch falls in too many ways to average over; that of phase 3 sees both",
    columns="logistic",
    unexamined=UNREACHED,
)
user_level_phased_erm_appendix_d = entry(
    "user_level_phased_erm_appendix_d",
    "Phases of accelerated SGD on a smoothed loss, batches as Appendix D prints them",
    f"{PAPER}, Appendix D",
    appendix_d_phases(
        Problem(LOSS, 10**6, 10, 10, RADIUS, LIPSCHITZ), 1, Fraction(1, 10**8), count=3
    ),
    (stated(1, Fraction(1, 10**8), "Theorem 4.1", "secret sets of K_i < n_i users"),),
    "answers of the test, and noisy mean gradients, in three phases on disjoint users",
    "its proof amplifies by subsampling after conditioning on answers about the same batch",
    "of so few users a batch that is not concentrated passes too often",
    expected=("unproved",),
    unexamined=HIDDEN_TEST,
)


def first_level(output: Any) -> tuple[Metric, ...]:
    """At which level the stream halted."""
    return (Metric("first level, counted from 0", float(output.index.mean()), True),)


above_threshold = entry(
    "above_threshold",
    "The first level of visits that a quarter of the users reach on average",
    f"{PAPER}, Algorithm 4, its scales repaired; Dwork and Roth 2014, Theorem 3.24",
    AboveThresholdCounts(ITEMS, (0.5, 0.4, 0.3, 0.2, 0.1, 0.05), 800, Fraction(1)),
    (Claim(PureDP(1), by=f"{OURS}: {PAPER}, Theorem A.9, with its scales repaired"),),
    "an answer a level, to the first yes",
    "Algorithm 4 prints one scale for threshold and queries: that is none of its theorem's",
    columns="visits",
    evaluate=first_level,
)


@wraps(of_groups)
def _shuffled(*problem: Any, **values: Any) -> tuple[InPublicOrder, tuple[Claim, ...]]:
    program, claims = of_groups(*problem, **values)
    return InPublicOrder(program), claims


SHUFFLED = "users are put in a public random order, which is released, before parts are taken"
user_level_phased_sgd_public_order = entry(
    "user_level_phased_sgd_public_order",
    "Phased SGD whose outlier iterates are removed, on users in a public random order",
    f"{PAPER}, Algorithm 1; calibrated: {OURS}",
    InPublicOrder(phased_sgd_of(PROBLEM, WEIGHTED, SMOOTHNESS)),
    (ours(1),),
    "the order of the users, and a noisy mean of iterates a phase, on disjoint users",
    INERT,
    SHUFFLED,
    columns="logistic",
    build=_shuffled,
    unexamined=UNREACHED,
)
user_level_phased_sgd_plain = entry(
    "user_level_phased_sgd_plain",
    "Phased SGD by groups of users, their plain mean: no test, nothing removed",
    f"{FKT}, Algorithm 2, on the groups of {PAPER}, Algorithm 1; {OURS}",
    UserLevelPhasedSGDBaseline(PROBLEM, KAPPA, 2, 0.5, SMOOTHNESS, REGULAR, groups=200),
    (ours(1),),
    "a noisy mean of 200 average iterates a phase, on disjoint users",
    "less noise than outlier removal has, unless users have many more items than there are groups",
    columns="logistic",
)
