"""DIFF2: private optimisation by noised gradients and gradient differences, with any routine.

Source: Murata and Suzuki 2023, Algorithms 1 to 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from dpaudit.arithmetic import Number, exact
from dpaudit.curator import Curator
from dpaudit.domains import non_negative
from dpaudit.errors import InvalidParameter
from dpaudit.nodes import (
    Compose,
    Gaussian,
    Node,
    NonPrivate,
    Parallel,
    Repeat,
    SampledWithoutReplacement,
)
from dpaudit.query import Array, ClippedMean, client_weights, clipped_difference_mean
from dpaudit.scope import Adjacency, Scope, Trust, Unit
from mechanisms.diff2.noise import Noise
from mechanisms.losses import Loss


@dataclass(frozen=True)
class Trained:
    """What a run gives: the paper's output (a uniformly random iterate), and the last iterate."""

    output: Array
    last: Array


class Routine(Protocol):
    """How one round uses the released estimate; what it reads of the data, it declares."""

    def declaration(self, program: Diff2, scope: Scope) -> list[Node]:
        """The noise of the routine's own releases over all rounds; empty for post-processing."""

    def step(
        self, curator: Curator, program: Diff2, x: Array, estimate: Array, turn: int
    ) -> tuple[Array, Array]:
        """The next iterate, and the point visited before the round's last update."""


@dataclass(frozen=True)
class GradientDescent:
    """One step along the estimate: post-processing.

    Source: Murata and Suzuki 2023, Algorithm 3, with x_{r-1} as the output of round r.
    """

    def declaration(self, program: Diff2, scope: Scope) -> list[Node]:
        return []

    def step(
        self, curator: Curator, program: Diff2, x: Array, estimate: Array, turn: int
    ) -> tuple[Array, Array]:
        return x - program.step_size * estimate, x


@dataclass(frozen=True)
class LocalDescent:
    """One client's noisy variance-reduced steps on secret batches: BVR-L-SGD's routine.

    In round r client 1 + (r mod P) makes ``steps`` steps.  The first uses the released estimate;
    each later one adds the mean of clipped gradient differences over a fresh batch of
    ``batch_size`` of the client's records, drawn without replacement, with radius C_k =
    ``radius`` ||x_{k-1} - x_{k-2}|| and noise ``sigma`` C_k per coordinate.
    ``sigma`` is a multiple of the radius, not of the sensitivity 2 C_k / batch_size.
    Errors: InvalidParameter for counts that are not positive, a radius that is negative.
    Source: Murata and Suzuki 2023, Algorithm 4, with x_{k_hat - 1} as the output: the point of
    line 12 and of the proof (line 13 prints x_{k_hat}).
    """

    steps: int
    batch_size: int
    sigma: Number
    radius: float

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size"):
            value = getattr(self, name)
            if not (hasattr(value, "__index__") and value > 0):
                raise InvalidParameter(f"LocalDescent.{name} = {value}: expected a positive count")
        if not (math.isfinite(self.radius) and self.radius >= 0):
            raise InvalidParameter(f"LocalDescent.radius = {self.radius}: expected a finite number")
        sigma = exact(self.sigma, "LocalDescent.sigma")
        non_negative(sigma, "LocalDescent.sigma")
        object.__setattr__(self, "sigma", sigma)

    def declaration(self, program: Diff2, scope: Scope) -> list[Node]:
        """One ledger a client: its own steps alone read its records."""
        if self.steps == 1:
            return []
        self._check(program)
        return [Parallel(*(self.ledger(program, scope, k) for k in range(program.clients)))]

    def ledger(self, program: Diff2, scope: Scope, client: int) -> Node:
        """The local releases of one client: (steps - 1) for each of its turns."""
        noise = Gaussian(f"local {client}", self.sigma * self.batch_size / _factor(scope))
        size = program.client_sizes[client]
        sampled = SampledWithoutReplacement(noise, self.batch_size, size)
        return Repeat(sampled, (self.steps - 1) * turns(program.rounds, program.clients, client))

    def step(
        self, curator: Curator, program: Diff2, x: Array, estimate: Array, turn: int
    ) -> tuple[Array, Array]:
        client = (turn + 1) % program.clients
        chosen = curator.coin(lambda rng: rng.integers(0, self.steps, size=curator.trials))
        out, previous, x = x, x, x - program.step_size * estimate
        for k in range(1, self.steps):
            out = np.where((chosen >= k)[:, None], x, out)
            rows = curator.part(client, program.client_sizes)
            with curator.batch(f"local {client}", rows) as batch:
                difference = self.query(program, x, previous)
                released = curator.release(f"local {client}", difference, rows=batch)
            estimate = estimate + released
            previous, x = x, x - program.step_size * estimate
        return x, out

    def query(self, program: Diff2, x: Array, previous: Array) -> ClippedMean:
        """The mean over the batch of clipped gradient differences, radius C3 ||x - previous||."""
        return ClippedMean(
            partial(_differences, program.loss, x, previous),
            self.radius * np.linalg.norm(x - previous, axis=-1),
            divisor=float(self.batch_size),
        )

    def _check(self, program: Diff2) -> None:
        if self.batch_size > min(program.client_sizes):
            raise InvalidParameter(
                f"LocalDescent.batch_size = {self.batch_size}: the smallest client has "
                f"{min(program.client_sizes)} records"
            )


def _differences(loss: Loss, x: Array, previous: Array, records: Array) -> Array:
    return loss.gradients(x, records) - loss.gradients(previous, records)


def turns(rounds: int, clients: int, client: int) -> int:
    """In how many of the rounds 1..R it is this client's turn: #{r : r mod P = client}."""
    return sum(1 for r in range(1, rounds + 1) if r % clients == client)


@dataclass(frozen=True)
class Diff2:
    """DIFF2 with a routine; ``restart_every`` = 1 and gradient descent is DP-GD.

    Every ``restart_every`` rounds the clipped mean gradient is released with noise
    ``noise.sigma_1`` C1 per coordinate; in between, the mean of clipped per-record gradient
    differences, with radius C_r = C2 ||x_{r-1} - x_{r-2}|| and noise ``noise.sigma_2`` C_r.
    The estimate adds up *released* values.  Records are laid out client by client; the objective
    is the unweighted mean over clients.  ``gradient_radius`` (C1) has the units of a gradient,
    ``difference_radius`` (C2) those of a gradient over a parameter.
    ``non_private``: reasons for accesses to the data that carry no noise (preprocessing).
    Errors: InvalidParameter for counts or radii that are not positive, before data is touched.
    Source: Murata and Suzuki 2023, Algorithms 1 (with the point visited before the last update of
    round r as its output, the point that the utility proof averages over; the printed index needs
    an x_0^out) and 2.
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
    routine: Routine = GradientDescent()

    def __post_init__(self) -> None:
        schedule(self.rounds, self.restart_every)
        smallest_total(self.client_sizes)
        for name in ("gradient_radius", "step_size"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise InvalidParameter(f"Diff2.{name} = {value}: expected a positive number")
        if not (math.isfinite(self.difference_radius) and self.difference_radius >= 0):
            raise InvalidParameter(
                f"Diff2.difference_radius = {self.difference_radius}: expected a finite number, "
                "not negative"
            )

    @property
    def clients(self) -> int:
        """The number of clients, P."""
        return len(self.client_sizes)

    @property
    def restarts(self) -> int:
        """Rounds that release a full gradient: ceil(rounds / restart_every)."""
        return schedule(self.rounds, self.restart_every)[0]

    def declaration(self, scope: Scope) -> Node:
        """Gaussian leaves: sigma_i over the sensitivity per unit of radius, N_i times each.

        One record moves a release by at most factor * C / (n_min P): factor 2 under replace_one,
        1 under zero_out.  (Murata and Suzuki 2023, Lemma C.1.)  The routine's own come after.
        """
        parts: list[Node] = [NonPrivate(reason) for reason in self.non_private]
        parts += self.server(scope, smallest_total(self.client_sizes))
        return Compose(*parts, *self.routine.declaration(self, scope))

    def server(self, scope: Scope, total: int) -> list[Node]:
        """The full-batch releases, where one record's weight is 1 / ``total``."""
        factor = _factor(scope)
        first = Gaussian("gradient", self.noise.sigma_1 * total / factor)
        parts: list[Node] = [Repeat(first, self.restarts)]
        if self.rounds > self.restarts:
            second = Gaussian("difference", self.noise.sigma_2 * total / factor)
            parts.append(Repeat(second, self.rounds - self.restarts))
        return parts

    def client_declaration(self, scope: Scope, client: int) -> Node:
        """What the run tells of a record of one client; the guarantee is the largest of these.

        Larger clients weigh less in a mean, and some clients have a turn less.
        """
        server = self.server(scope, self.client_sizes[client] * self.clients)
        if isinstance(self.routine, LocalDescent) and self.routine.steps > 1:
            return Compose(*server, self.routine.ledger(self, scope, client))
        return Compose(*server)

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
            after, visited = self.routine.step(curator, self, x, estimate, r)
            output = np.where((chosen == r)[:, None], visited, output)
            previous, x = x, after
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


def schedule(rounds: int, restart_every: int) -> tuple[int, int]:
    """Numbers of restart rounds, ceil(rounds / restart_every), and of difference rounds."""
    for name, value in (("rounds", rounds), ("restart_every", restart_every)):
        if not (hasattr(value, "__index__") and value > 0):
            raise InvalidParameter(f"Diff2.{name} = {value}: expected a positive whole number")
    restarts = -(-rounds // restart_every)
    return restarts, rounds - restarts


def smallest_total(client_sizes: tuple[int, ...]) -> int:
    """n_min P: one over the largest weight of a record in the mean over clients.

    Errors: InvalidParameter where there is no client, or one without a record.
    """
    if not client_sizes or min(client_sizes) < 1:
        raise InvalidParameter("Diff2.client_sizes: every client needs at least one record")
    return min(client_sizes) * len(client_sizes)


def _factor(scope: Scope) -> int:
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
