"""What stable releases are held against, on the RAND rows: per simulated user, and per row.

Gaussian noise is calibrated exactly: the transcript is mu-GDP with the largest mu that is
(1, 1e-6)-DP.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial

from dpaudit.accountant.claim import Claim
from dpaudit.curator.curator import Program
from dpaudit.curator.mechanism import Mechanism, Setting
from dpaudit.exact import sqrt
from dpaudit.families.opaque import GDP, ApproxDP
from dpaudit.kernels.query import Records
from dpaudit.measures.convert import gaussian_mu
from dpaudit.scope import Scope, central
from mechanisms.papers.common import randhie
from mechanisms.papers.common.free import at
from mechanisms.papers.stable_erm.baselines import (
    ItemPhasedERM,
    NoisyGradientDescent,
    OutputPerturbation,
)
from mechanisms.papers.stable_erm.calibration import USERS
from mechanisms.papers.stable_erm.catalogue import DELTA, EPSILON, released_share
from mechanisms.papers.stable_erm.data import SIMULATED, item_records, records_of
from mechanisms.papers.stable_erm.domains import Ball
from mechanisms.papers.stable_erm.problem import Problem
from mechanisms.papers.stable_erm.proposed import ProposedMedian
from mechanisms.papers.stable_erm.shaped import on_users, perturbed
from mechanisms.papers.stable_erm.solver import RidgeLogistic

ROWS = 4_000
USER_COUNT, USER_ITEMS = 400, 10
ROUNDS = 16
MEDIAN_USERS = 1_615
ITEM = central("replace_one")
MU = gaussian_mu(EPSILON, DELTA)
LOGISTIC = RidgeLogistic(modulus=0.5, feature_norm=math.sqrt(10))
BY_USER = Problem(LOGISTIC, Ball(2.0), USER_COUNT, USER_ITEMS, 11, LOGISTIC.lipschitz)
BY_ITEM = Problem(LOGISTIC, Ball(2.0), ROWS, 1, 11, LOGISTIC.lipschitz)


def tight(epsilon: Fraction, delta: Fraction) -> tuple[Claim, ...]:
    """(epsilon, delta), and the mu that it is."""
    return (
        Claim(
            ApproxDP(epsilon, delta), by="the same mu, converted (Balle and Wang 2018, Theorem 8)"
        ),
        Claim(
            GDP(gaussian_mu(epsilon, delta)), by=f"the largest mu that is {at(epsilon, delta)}-DP"
        ),
    )


CLAIMS = tight(EPSILON, DELTA)


def entry(
    name: str,
    title: str,
    source: str,
    program: Program,
    scope: Scope,
    covered: str,
    *notes: str,
    claims: tuple[Claim, ...] = CLAIMS,
    records: Callable[[], Records] | None = None,
    build: Callable[..., Program] | None = None,
) -> Mechanism:
    """A mechanism per user (blocks of rows) or per row; ``build`` makes it for other users."""
    per_user = scope == USERS
    made: Callable[[], Records] = records or (
        partial(records_of, USER_COUNT, USER_ITEMS, "logistic")
        if per_user
        else partial(item_records, ROWS)
    )
    setting = Setting(
        controller="the person who runs this command",
        unit_entity="user (10 rows)" if per_user else "row of the data (a person-year)",
        unit_bound="all rows of a simulated user" if per_user else "one row",
        covered=(covered,),
        invariants=("the number of records",),
        notes=(SIMULATED, *notes) if per_user else (*randhie.CAVEATS, *notes),
        data="RAND Health Insurance Experiment",
    )
    return Mechanism(
        name, title, source, program, scope, claims, setting, made, released_share,
        for_shape=None if build is None else on_users(build, name, title, source, tight),
    )  # fmt: skip


output_perturbation_user = entry(
    "output_perturbation_user",
    "Ridge logistic regression by output perturbation, per user",
    "Chaudhuri, Monteleoni, Sarwate 2011, Algorithm 1, with Gaussian noise",
    OutputPerturbation(BY_USER, 1 / MU),
    USERS,
    "one noisy minimiser; its noise does not fall with the number of items a user",
    build=perturbed,
)
output_perturbation_item = entry(
    "output_perturbation_item",
    "Ridge logistic regression by output perturbation, per row",
    "Chaudhuri, Monteleoni, Sarwate 2011, Algorithm 1, with Gaussian noise",
    OutputPerturbation(BY_ITEM, 1 / MU),
    ITEM,
    "one noisy minimiser",
)
item_phased_erm = entry(
    "item_phased_erm",
    "Localised output perturbation on disjoint rows",
    "Feldman, Koren, Talwar 2020, Algorithm 3; reconstructed, halves as in Ghazi et al. 2023",
    ItemPhasedERM(BY_ITEM, 1 / MU, 5, 0.02),
    ITEM,
    "5 noisy minimisers of disjoint rows",
)
noisy_gradient_descent = entry(
    "noisy_gradient_descent",
    "Projected noisy gradient descent, per row",
    "Bassily, Smith, Thakurta 2014; full batches, reconstructed",
    NoisyGradientDescent(BY_ITEM, sqrt(Fraction(ROUNDS)) / MU, ROUNDS, 0.3, 2.0),
    ITEM,
    f"{ROUNDS} noisy mean gradients",
)
user_level_dp_gd = entry(
    "user_level_dp_gd",
    "Projected noisy gradient descent, per user",
    "Levy et al. 2021, with clipped user means in place of their estimator: a reconstruction",
    NoisyGradientDescent(BY_USER, sqrt(Fraction(ROUNDS)) / MU, ROUNDS, 0.3, 2.0),
    USERS,
    f"{ROUNDS} noisy means of users' clipped mean gradients",
)
propose_test_release = entry(
    "propose_test_release",
    "A median of user means by propose-test-release",
    "Dwork, Lei 2009, Section 3; reconstructed, distance as in Nissim et al. 2007",
    ProposedMedian(0.006, 1.0, 2, 2, DELTA),
    USERS,
    "one noisy median, or bottom",
    "a bottom outcome is released as such; its probability depends on the data",
    claims=(Claim(ApproxDP(EPSILON, DELTA), by="propose-test-release: (1/2 + 1/2, false pass)"),),
    records=partial(records_of, MEDIAN_USERS, USER_ITEMS, "visits"),
)
