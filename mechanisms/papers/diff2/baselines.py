"""DP-SGD and DP-SRM on secret batches without replacement, SRN-SGD on a tree: baselines of DIFF2.

All are *reconstructions*: Murata and Suzuki 2023 compare with them by their rates alone, and print
no pseudo-code of any.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from dpaudit.accountant.claim import Claim
from dpaudit.curator.curator import Curator
from dpaudit.curator.mechanism import Mechanism, Setting
from dpaudit.errors import InvalidParameter
from dpaudit.exact import Number, exact, sqrt
from dpaudit.exact.domains import positive
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Repeat
from dpaudit.families.opaque import ApproxDP
from dpaudit.families.sampling import SampledWithoutReplacement
from dpaudit.kernels.query import Array, ClippedMean, clip_rows
from dpaudit.measures.convert import gaussian_mu
from dpaudit.nodes import Node
from dpaudit.scope import Adjacency, Scope, Trust, Unit, central
from mechanisms.papers.common import randhie
from mechanisms.papers.common.losses import Logistic, Loss
from mechanisms.papers.diff2 import catalogue as diff2
from mechanisms.papers.diff2.framework import Trained
from mechanisms.papers.diff2.srn import SrnSgd


@dataclass(frozen=True)
class DpSrm:
    """Stochastic recursive momentum with clipped, noised batches; ``momentum`` 1 is DP-SGD.

    v_t = mean over a fresh batch of beta clip(g_t, C1) + (1 - beta) clip(g_t - g_{t-1}, C2 ||x_t -
    x_{t-1}||), plus (1 - beta) v_{t-1}, plus Gaussian noise; g the gradients of one record at x_t
    and x_{t-1}; the first step has beta = 1.  With C_t = beta C1 + (1 - beta) C2 ||x_t - x_{t-1}||
    the noise has standard deviation ``noise_multiplier`` times 2 C_t / b per coordinate, b the
    ``batch_size``: the sensitivity under replace_one, so that every step has the same mu.
    The output is a uniformly random iterate.
    Errors: InvalidParameter for counts, radii or a momentum outside their domains.
    Source: a reconstruction of DP-SRM (Wang et al. 2019), of which Murata and Suzuki 2023, Table 1,
    gives rates only; Abadi et al. 2016, Algorithm 1, for DP-SGD (there with Poisson batches).
    """

    loss: Loss
    features: int
    size: int
    batch_size: int
    rounds: int
    gradient_radius: float
    difference_radius: float
    step_size: float
    noise_multiplier: Number
    momentum: float = 1.0

    def __post_init__(self) -> None:
        for name in ("size", "batch_size", "rounds"):
            value = getattr(self, name)
            if not (hasattr(value, "__index__") and value > 0):
                raise InvalidParameter(f"DpSrm.{name} = {value}: expected a positive whole number")
        if self.batch_size > self.size:
            raise InvalidParameter(f"DpSrm.batch_size = {self.batch_size} of {self.size} records")
        for name in ("gradient_radius", "difference_radius", "step_size"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise InvalidParameter(f"DpSrm.{name} = {value}: expected a positive number")
        if not 0 < self.momentum <= 1:
            raise InvalidParameter(f"DpSrm.momentum = {self.momentum}: expected in (0, 1]")
        multiplier = exact(self.noise_multiplier, "DpSrm.noise_multiplier")
        positive(multiplier, "DpSrm.noise_multiplier")
        object.__setattr__(self, "noise_multiplier", multiplier)

    def declaration(self, scope: Scope) -> Node:
        """A fresh batch without replacement in every round.

        Errors: InvalidParameter for any scope but one record, replaced, and a trusted curator.
        """
        if (scope.adjacency, scope.unit, scope.trust) != (
            Adjacency.REPLACE_ONE,
            Unit.RECORD,
            Trust.CENTRAL,
        ):
            raise InvalidParameter(f"DpSrm declares its noise for replace_one of a record: {scope}")
        noise = Gaussian("gradient", self.noise_multiplier)
        sampled = SampledWithoutReplacement(noise, self.batch_size, self.size)
        return Repeat(sampled, self.rounds)

    def run(self, curator: Curator) -> Trained:
        """Run on a curator; iterates are (trials, dimension)."""
        x = previous = self.loss.initial(self.features, curator.trials, 0)
        chosen = curator.coin(lambda rng: rng.integers(0, self.rounds, size=curator.trials))
        output = estimate = np.zeros_like(x)
        for r in range(self.rounds):
            beta = 1.0 if r == 0 else self.momentum
            with curator.batch("gradient") as batch:
                query = self.query(x, previous, beta)
                released = curator.release("gradient", query, rows=batch)
            estimate = released + (1 - beta) * estimate
            output = np.where((chosen == r)[:, None], x, output)
            previous, x = x, x - self.step_size * estimate
        return Trained(output, x)

    def query(self, x: Array, previous: Array, beta: float) -> ClippedMean:
        """The batch's mean, of rows of norm at most C_t by the triangle inequality."""
        moved = self.difference_radius * np.linalg.norm(x - previous, axis=-1)
        rows = partial(self._rows, x, previous, beta, moved)
        radius = beta * self.gradient_radius + (1 - beta) * moved
        return ClippedMean(rows, radius, divisor=float(self.batch_size))

    def _rows(self, x: Array, previous: Array, beta: float, moved: Array, records: Array) -> Array:
        gradients = self.loss.gradients(x, records)
        full = np.broadcast_to(self.gradient_radius, (len(x),))
        rows = beta * clip_rows(gradients, full)
        if beta == 1:
            return rows
        differences = gradients - self.loss.gradients(previous, records)
        return rows + (1 - beta) * clip_rows(differences, moved)


BATCH = 500
ROUNDS = 50
# The least, to five digits, that the accountant proves (3, 1e-5) for: batches of 500 of 16,150.
NOISE_MULTIPLIER = Fraction("0.80711")


def _program(momentum: float, step_size: float) -> DpSrm:
    return DpSrm(
        loss=Logistic(),
        features=10,
        size=diff2.BLOCK * diff2.CLIENTS,
        batch_size=BATCH,
        rounds=ROUNDS,
        gradient_radius=math.sqrt(10),
        difference_radius=2.5,
        step_size=step_size,
        noise_multiplier=NOISE_MULTIPLIER,
        momentum=momentum,
    )


def _mechanism(
    name: str, title: str, program: DpSrm | SrnSgd, covered: str, claims: tuple[Claim, ...]
) -> Mechanism:
    setting = Setting(
        controller="the person who runs this command",
        unit_entity="row of the data (a person-year)",
        data="RAND Health Insurance Experiment",
        unit_bound=f"one row; a person contributes up to {randhie.ROWS_PER_PERSON_AT_MOST} rows",
        covered=(covered,),
        uncovered=("evaluation on 4,038 hold-out rows, treated as public",),
        invariants=("the number of records",),
        notes=(*randhie.CAVEATS, "step size, radii and rounds were chosen without the data"),
    )
    return Mechanism(
        name=name,
        title=title,
        source=f"reconstructed from the rates in {diff2.PAPER}, Table 1",
        program=program,
        scope=central("replace_one"),
        claims=claims,
        setting=setting,
        records=partial(diff2.records, "any_visit", "ones"),
        evaluate=partial(_evaluate, program.loss),
    )


def _evaluate(loss: Loss, trained: Trained) -> Any:
    return diff2.evaluate(loss, "any_visit", "ones", trained)


SGD = _program(momentum=1.0, step_size=0.2)
SRM = _program(momentum=0.2, step_size=0.2)
SRN = SrnSgd(
    loss=Logistic(),
    features=10,
    size=diff2.BLOCK * diff2.CLIENTS,
    blocks=25,
    passes=4,
    gradient_radius=math.sqrt(10),
    difference_radius=2.5,
    step_size=0.05,
    # Four passes of five levels, at the largest mu that is (3, 1e-5)-DP.
    noise_multiplier=sqrt(20) / gaussian_mu(Fraction(diff2.EPSILON), diff2.DELTA),
)
STATED = Claim(ApproxDP(diff2.EPSILON, diff2.DELTA), by="calibrated by the accountant")
BATCHES = f"{ROUNDS} noisy means over secret batches of {BATCH} rows"

dp_sgd = _mechanism(
    "dp_sgd",
    "DP-SGD, logistic regression, batches without replacement (reconstruction)",
    SGD,
    BATCHES,
    (STATED,),
)
dp_srm = _mechanism(
    "dp_srm",
    "DP-SRM, logistic regression, batches without replacement (reconstruction)",
    SRM,
    BATCHES,
    (STATED,),
)
srn_sgd = _mechanism(
    "srn_sgd",
    "SRN-SGD, logistic regression, tree noise (reconstruction)",
    SRN,
    f"{SRN.passes} passes of {SRN.blocks} noisy prefix sums over blocks of {SRN.sizes[0]} rows",
    (STATED, diff2.TIGHT_MU),
)

__all__ = ["DpSrm", "SrnSgd", "dp_sgd", "dp_srm", "srn_sgd"]
