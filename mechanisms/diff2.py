"""DIFF2-GD and DP-GD: private gradient descent by noised gradients and gradient differences.

Source: Murata and Suzuki 2023, Algorithms 1 to 3 and Proposition 4.1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from typing import Any

import numpy as np

from dpaudit.arithmetic import sqrt
from dpaudit.claim import Claim
from dpaudit.curator import Curator
from dpaudit.errors import InvalidParameter
from dpaudit.mechanism import Mechanism, Metric, Setting
from dpaudit.nodes import GDP, ApproxDP, Compose, Gaussian, Node, NonPrivate, Repeat
from dpaudit.query import Array, ClippedMean, Records, client_weights, clipped_difference_mean
from dpaudit.rules.convert import gaussian_mu
from dpaudit.scope import Adjacency, Scope, Trust, Unit, central
from mechanisms import randhie
from mechanisms.diff2_noise import CALIBRATIONS, Noise
from mechanisms.losses import Logistic, Loss, SoftplusNetwork, mean_value, squared_gradient_norm

PAPER = "Murata and Suzuki 2023"


@dataclass(frozen=True)
class Trained:
    """What a run gives: the paper's output (a uniformly random iterate), and the last iterate."""

    output: Array
    last: Array


@dataclass(frozen=True)
class Diff2GD:
    """DIFF2 with the gradient-descent routine; ``restart_every`` = 1 is DP-GD.

    Every ``restart_every`` rounds the clipped mean gradient is released with noise
    ``noise.sigma_1`` C1 per coordinate; in between, the mean of clipped per-record gradient
    differences, with radius C_r = C2 ||x_{r-1} - x_{r-2}|| and noise ``noise.sigma_2`` C_r.
    The estimate adds up *released* values.  Records are laid out client by client; the objective
    is the unweighted mean over clients.  ``gradient_radius`` (C1) has the units of a gradient,
    ``difference_radius`` (C2) those of a gradient over a parameter.
    ``non_private``: reasons for accesses to the data that carry no noise (preprocessing).
    Errors: InvalidParameter for counts or radii that are not positive, before data is touched.
    Source: Murata and Suzuki 2023, Algorithms 1 (with x_{r-1} as the output of round r, the point
    that the utility proof averages over; the printed index needs an x_0^out), 2 and 3.
    """

    loss: Loss
    features: int
    client_sizes: tuple[int, ...]
    rounds: int
    restart_every: int
    gradient_radius: float
    difference_radius: float
    step_size: float
    noise: Noise
    start_seed: int = 0
    non_private: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _schedule(self.rounds, self.restart_every)
        smallest_total(self.client_sizes)
        for name in ("gradient_radius", "step_size"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise InvalidParameter(f"Diff2GD.{name} = {value}: expected a positive number")
        if not (math.isfinite(self.difference_radius) and self.difference_radius >= 0):
            raise InvalidParameter(
                f"Diff2GD.difference_radius = {self.difference_radius}: expected a finite number, "
                "not negative"
            )

    @property
    def restarts(self) -> int:
        """Rounds that release a full gradient: ceil(rounds / restart_every)."""
        return _schedule(self.rounds, self.restart_every)[0]

    def declaration(self, scope: Scope) -> Node:
        """Gaussian leaves: sigma_i over the sensitivity per unit of radius, N_i times each.

        One record moves a release by at most factor * C / (n_min P): factor 2 under replace_one,
        1 under zero_out.  (Murata and Suzuki 2023, Lemma C.1.)
        """
        total = smallest_total(self.client_sizes)
        factor = sensitivity_factor(scope)
        parts: list[Node] = [NonPrivate(reason) for reason in self.non_private]
        first = Gaussian("gradient", self.noise.sigma_1 * total / factor)
        parts.append(Repeat(first, self.restarts))
        if self.rounds > self.restarts:
            second = Gaussian("difference", self.noise.sigma_2 * total / factor)
            parts.append(Repeat(second, self.rounds - self.restarts))
        return Compose(*parts)

    def run(self, curator: Curator) -> Trained:
        """Run on a curator; iterates are (trials, dimension)."""
        x = previous = self.loss.initial(self.features, curator.trials, self.start_seed)
        chosen = curator.coin(lambda rng: rng.integers(0, self.rounds, size=curator.trials))
        output = estimate = np.zeros_like(x)
        for r in range(self.rounds):
            if r % self.restart_every == 0:
                estimate = curator.release("gradient", self.gradient_query(x))
            else:
                difference = self.difference_query(x, previous)
                estimate = estimate + curator.release("difference", difference)
            output = np.where((chosen == r)[:, None], x, output)
            previous, x = x, x - self.step_size * estimate
        return Trained(output, x)

    def gradient_query(self, x: Array) -> ClippedMean:
        """The mean over clients of clipped gradients at x, radius C1."""
        weights = client_weights(self.client_sizes)
        return ClippedMean(partial(self.loss.gradients, x), self.gradient_radius, weights)

    def difference_query(self, x: Array, previous: Array) -> ClippedMean:
        """The mean over clients of clipped gradient differences, radius C2 ||x - previous||."""
        return clipped_difference_mean(
            partial(self.loss.gradients, x),
            partial(self.loss.gradients, previous),
            self.difference_radius * np.linalg.norm(x - previous, axis=-1),
            client_weights(self.client_sizes),
        )


def _schedule(rounds: int, restart_every: int) -> tuple[int, int]:
    """Numbers of restart rounds, ceil(rounds / restart_every), and of difference rounds."""
    for name, value in (("rounds", rounds), ("restart_every", restart_every)):
        if not (hasattr(value, "__index__") and value > 0):
            raise InvalidParameter(f"Diff2GD.{name} = {value}: expected a positive whole number")
    restarts = -(-rounds // restart_every)
    return restarts, rounds - restarts


def smallest_total(client_sizes: tuple[int, ...]) -> int:
    """n_min P: one over the largest weight of a record in the mean over clients.

    Errors: InvalidParameter where there is no client, or one without a record.
    """
    if not client_sizes or min(client_sizes) < 1:
        raise InvalidParameter("Diff2GD.client_sizes: every client needs at least one record")
    return min(client_sizes) * len(client_sizes)


def sensitivity_factor(scope: Scope) -> int:
    """How many clipping radii one changed record can move a clipped row by.

    Errors: InvalidParameter under add_remove, where a mean over n records has no sensitivity; for
    another unit than a record, which moves more than one row; where no curator is trusted.
    """
    if scope.adjacency is Adjacency.ADD_REMOVE:
        raise InvalidParameter("DIFF2 divides by the number of records: use zero_out, replace_one")
    if (scope.unit, scope.trust) != (Unit.RECORD, Trust.CENTRAL):
        raise InvalidParameter(
            f"DIFF2 declares its noise for a record and a trusted curator: {scope}"
        )
    return 2 if scope.adjacency is Adjacency.REPLACE_ONE else 1


def diff2_gd_program(
    loss: Loss,
    features: int,
    client_sizes: tuple[int, ...],
    *,
    rounds: int,
    restart_every: int,
    epsilon: object,
    delta: object,
    calibration: str = "paper",
    u: object = Fraction(5, 4),
    gradient_radius: float,
    difference_radius: float,
    step_size: float,
    non_private: tuple[str, ...] = (),
) -> Diff2GD:
    """DIFF2-GD calibrated to (epsilon, delta) with the ``paper`` or the ``tight`` constants."""
    if calibration not in CALIBRATIONS:
        raise InvalidParameter(f"calibration = {calibration!r}: expected paper or tight")
    counts = _schedule(rounds, restart_every)
    noise = CALIBRATIONS[calibration](epsilon, delta, smallest_total(client_sizes), *counts, u)
    return Diff2GD(
        loss=loss,
        features=features,
        client_sizes=client_sizes,
        rounds=rounds,
        restart_every=restart_every,
        gradient_radius=gradient_radius,
        difference_radius=difference_radius,
        step_size=step_size,
        noise=noise,
        non_private=non_private,
    )


# --- the catalogue: RAND Health Insurance Experiment data ----------------------------------------

EPSILON, DELTA = 3, Fraction(1, 10**5)
CLIENTS = 10
BLOCK = 1615
REPLACE_ONE = central("replace_one")


def load(target: Any, intercept: Any) -> Any:
    """The RAND data with public preprocessing, in equal blocks, one a client."""
    return randhie.load(target=target, preprocessing="public", clients=CLIENTS, intercept=intercept)


def _records(target: str, intercept: str) -> Records:
    return Records(load(target, intercept).train)


@cache
def _holdout(target: str, intercept: str) -> Array:
    return np.asarray(load(target, intercept).holdout)


def _evaluate(loss: Loss, target: str, intercept: str, trained: Trained) -> tuple[Metric, ...]:
    """Loss of the released models on the hold-out rows, which are treated as public."""
    rows = _holdout(target, intercept)
    start = loss.initial(rows.shape[1] - 1, 1, 0)
    note = "on hold-out rows, which the guarantee does not cover"
    shown = {"at the start": start, "of the output": trained.output, "of the last": trained.last}
    metrics = [
        Metric(f"mean loss {name}", float(mean_value(loss, x, rows)[0]), False, note)
        for name, x in shown.items()
    ]
    gradient = float(squared_gradient_norm(loss, trained.output, rows)[0])
    return (*metrics, Metric("squared gradient norm of the output", gradient, False, note))


def _mechanism(
    name: str, title: str, program: Diff2GD, claims: tuple[Claim, ...], target: str, intercept: str
) -> Mechanism:
    setting = Setting(
        controller="the person who runs this command",
        unit_entity="row of the data (a person-year)",
        data="RAND Health Insurance Experiment",
        unit_bound=f"one row; a person contributes up to {randhie.ROWS_PER_PERSON_AT_MOST} rows",
        covered=(f"{program.rounds} noisy gradient or gradient-difference releases",),
        uncovered=("evaluation on 4,038 hold-out rows, treated as public",),
        invariants=("the number of records and each client's number of records",),
        notes=(*randhie.CAVEATS, "step size, radii and rounds were chosen without the data"),
    )
    return Mechanism(
        name=name,
        title=title,
        source=f"{PAPER}, Algorithms 1 to 3",
        program=program,
        scope=REPLACE_ONE,
        claims=claims,
        setting=setting,
        records=partial(_records, target, intercept),
        evaluate=partial(_evaluate, program.loss, target, intercept),
    )


def _logistic(restart_every: int, calibration: str, u: object) -> Diff2GD:
    """Logistic regression: ||x|| <= sqrt(10), so C1 never clips, and smoothness <= 10/4 = C2."""
    return diff2_gd_program(
        Logistic(),
        10,
        (BLOCK,) * CLIENTS,
        rounds=100,
        restart_every=restart_every,
        epsilon=EPSILON,
        delta=DELTA,
        calibration=calibration,
        u=u,
        gradient_radius=math.sqrt(10),
        difference_radius=2.5,
        step_size=0.4,
    )


def _network() -> Diff2GD:
    """Softplus network: no smoothness constant exists, so C1 and C2 do clip."""
    return diff2_gd_program(
        SoftplusNetwork(hidden=10),
        9,
        (BLOCK,) * CLIENTS,
        rounds=100,
        restart_every=10,
        epsilon=EPSILON,
        delta=DELTA,
        gradient_radius=3.0,
        difference_radius=10.0,
        step_size=0.05,
    )


STATED = Claim(ApproxDP(EPSILON, DELTA), by=f"{PAPER}, Proposition 4.1")
PAPER_MU = Claim(
    GDP(sqrt(Fraction(EPSILON, 9))),
    by="the same constants, exactly composed: mu = sqrt(epsilon / alpha), alpha = 9",
)
TIGHT_MU = Claim(
    GDP(gaussian_mu(Fraction(EPSILON), DELTA)),
    by="the largest mu that is (3, 1e-5)-DP (Balle and Wang 2018, Theorem 8)",
)

diff2_gd = _mechanism(
    "diff2_gd",
    "DIFF2-GD, logistic regression, constants as printed",
    _logistic(10, "paper", Fraction(5, 4)),
    (STATED, PAPER_MU),
    "any_visit",
    "ones",
)
diff2_gd_tight = _mechanism(
    "diff2_gd_tight",
    "DIFF2-GD, logistic regression, tight constants",
    _logistic(10, "tight", Fraction(5, 4)),
    (STATED, TIGHT_MU),
    "any_visit",
    "ones",
)
dp_gd = _mechanism(
    "dp_gd",
    "DP-GD (DIFF2 with T = 1), logistic regression, constants as printed",
    _logistic(1, "paper", 1),
    (STATED, PAPER_MU),
    "any_visit",
    "ones",
)
dp_gd_tight = _mechanism(
    "dp_gd_tight",
    "DP-GD (DIFF2 with T = 1), logistic regression, tight constants",
    _logistic(1, "tight", 1),
    (STATED, TIGHT_MU),
    "any_visit",
    "ones",
)
diff2_gd_network = _mechanism(
    "diff2_gd_network",
    "DIFF2-GD, one-hidden-layer softplus network, constants as printed",
    _network(),
    (STATED, PAPER_MU),
    "visits",
    "none",
)

__all__ = [
    "Diff2GD",
    "diff2_gd",
    "diff2_gd_network",
    "diff2_gd_program",
    "diff2_gd_tight",
    "dp_gd",
    "dp_gd_tight",
]
