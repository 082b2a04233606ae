"""DP-SGD and DP-SRM on secret batches without replacement, SRN-SGD on a tree: baselines of DIFF2.

All are *reconstructions*: Murata and Suzuki 2023 compare with them by their rates alone, and print
no pseudo-code of any.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import Annotated, Any

import numpy as np
from sympy import Symbol

from dpaudit.accountant.calibrate import calibrate
from dpaudit.accountant.claim import Claim
from dpaudit.curator.curator import Curator
from dpaudit.curator.mechanism import Mechanism, Setting
from dpaudit.curator.parameters import Cost, Free
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
from mechanisms.papers.common.free import Build, Clip, Delta, Epsilon, Rounds, StepAt, on_rows
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
SHARE = 32  # of the rows of somebody's data, one in a batch
# The least, to five digits, that the accountant proves (3, 1e-5) for: batches of 500 of 16,150.
NOISE_MULTIPLIER = Fraction("0.80711")


def _program(
    momentum: float,
    step_size: float,
    features: int = 10,
    size: int = diff2.BLOCK * diff2.CLIENTS,
    batch: int = BATCH,
    rounds: int = ROUNDS,
    clip: float | None = None,
    difference_clip: float | None = None,
    noise: Number = NOISE_MULTIPLIER,
) -> DpSrm:
    return DpSrm(
        loss=Logistic(),
        features=features,
        size=size,
        batch_size=batch,
        rounds=rounds,
        gradient_radius=math.sqrt(features) if clip is None else clip,
        difference_radius=features / 4 if difference_clip is None else difference_clip,
        step_size=step_size,
        noise_multiplier=noise,
        momentum=momentum,
    )


@lru_cache(maxsize=256)
def least_noise(epsilon: Fraction, delta: Fraction, batch: int, size: int, rounds: int) -> Number:
    """The least multiplier, to three digits, that the accountant proves (epsilon, delta) for."""
    noise = Gaussian("gradient", Symbol("noise_multiplier", positive=True))
    declared = Repeat(SampledWithoutReplacement(noise, batch, size), rounds)
    return calibrate(declared, central("replace_one"), ApproxDP(epsilon, delta), digits=3).value


BatchRows = Annotated[
    int | None,
    Free(
        "rows of a batch",
        Cost.NOISE,
        default="a 32nd of the rows",
        start=lambda of: max(1, of["count"] // SHARE),
    ),
]


def sgd_rows(
    features: int,
    count: int,
    *,
    epsilon: Epsilon = diff2.EPSILON,
    delta: Delta = diff2.DELTA,
    rounds: Rounds = ROUNDS,
    batch_rows: BatchRows = None,
    clip: Clip = None,
    step_size: StepAt = 0.2,
) -> tuple[DpSrm, tuple[Claim, ...], Setting]:
    """DP-SGD on secret batches without replacement, with the least noise."""
    batch = max(1, count // SHARE) if batch_rows is None else batch_rows
    noise = least_noise(epsilon, delta, batch, count, rounds)
    program = _program(1.0, step_size, features, count, batch, rounds, clip, None, noise)
    return program, (_calibrated(epsilon, delta),), diff2.rows_setting((_batches(program),), 1)


def srm_rows(
    features: int,
    count: int,
    *,
    epsilon: Epsilon = diff2.EPSILON,
    delta: Delta = diff2.DELTA,
    rounds: Rounds = ROUNDS,
    batch_rows: BatchRows = None,
    momentum: Annotated[float, Free("weight of a fresh gradient, at most 1", Cost.NOTHING)] = 0.2,
    clip: Clip = None,
    difference_clip: diff2.DifferenceClip = None,
    step_size: StepAt = 0.2,
) -> tuple[DpSrm, tuple[Claim, ...], Setting]:
    """DP-SRM on secret batches without replacement, with the least noise."""
    batch = max(1, count // SHARE) if batch_rows is None else batch_rows
    noise = least_noise(epsilon, delta, batch, count, rounds)
    program = _program(
        momentum, step_size, features, count, batch, rounds, clip, difference_clip, noise
    )
    return program, (_calibrated(epsilon, delta),), diff2.rows_setting((_batches(program),), 1)


def srn_rows(
    features: int,
    count: int,
    *,
    epsilon: Epsilon = diff2.EPSILON,
    delta: Delta = diff2.DELTA,
    passes: Annotated[int, Free("passes over the rows", Cost.NOISE)] = 4,
    blocks: Annotated[int, Free("blocks of rows, a step each", Cost.NOISE)] = 25,
    clip: Clip = None,
    difference_clip: diff2.DifferenceClip = None,
    step_size: StepAt = 0.05,
) -> tuple[SrnSgd, tuple[Claim, ...], Setting]:
    """SRN-SGD with the noise of its trees for exactly this budget."""
    program = SrnSgd(
        loss=Logistic(),
        features=features,
        size=count,
        blocks=blocks,
        passes=passes,
        gradient_radius=math.sqrt(features) if clip is None else clip,
        difference_radius=features / 4 if difference_clip is None else difference_clip,
        step_size=step_size,
        noise_multiplier=sqrt(passes * blocks.bit_length()) / gaussian_mu(epsilon, delta),
    )
    _, mu = diff2.claims_of("tight", epsilon, delta)
    return program, (_calibrated(epsilon, delta), mu), diff2.rows_setting((_trees(program),), 1)


def _calibrated(epsilon: Fraction, delta: Fraction) -> Claim:
    return Claim(ApproxDP(epsilon, delta), by="calibrated by the accountant")


def _batches(program: DpSrm) -> str:
    return f"{program.rounds} noisy means over secret batches of {program.batch_size} rows"


def _trees(program: SrnSgd) -> str:
    passes, blocks = program.passes, program.blocks
    return f"{passes} passes of {blocks} noisy prefix sums over blocks of {program.sizes[0]} rows"


def _mechanism(
    name: str,
    title: str,
    program: DpSrm | SrnSgd,
    covered: str,
    claims: tuple[Claim, ...],
    build: Build,
) -> Mechanism:
    source = f"reconstructed from the rates in {diff2.PAPER}, Table 1"
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
        source=source,
        program=program,
        scope=central("replace_one"),
        claims=claims,
        setting=setting,
        records=partial(diff2.records, "any_visit", "ones"),
        evaluate=partial(_evaluate, program.loss),
        for_shape=on_rows(build, name, title, source, central("replace_one")),
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
STATED = _calibrated(diff2.EPSILON, diff2.DELTA)

dp_sgd = _mechanism(
    "dp_sgd",
    "DP-SGD, logistic regression, batches without replacement (reconstruction)",
    SGD,
    _batches(SGD),
    (STATED,),
    sgd_rows,
)
dp_srm = _mechanism(
    "dp_srm",
    "DP-SRM, logistic regression, batches without replacement (reconstruction)",
    SRM,
    _batches(SRM),
    (STATED,),
    srm_rows,
)
srn_sgd = _mechanism(
    "srn_sgd",
    "SRN-SGD, logistic regression, tree noise (reconstruction)",
    SRN,
    _trees(SRN),
    (STATED, diff2.TIGHT_MU),
    srn_rows,
)

__all__ = ["DpSrm", "SrnSgd", "dp_sgd", "dp_srm", "srn_sgd"]
