"""DIFF2: private optimisation by noised gradients and gradient differences, with any routine.

Source: Murata and Suzuki 2023, Algorithms 1 to 4.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from dpaudit.curator.curator import Curator
from dpaudit.errors import InvalidParameter
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Compose, Repeat
from dpaudit.families.opaque import NonPrivate
from dpaudit.kernels.linear import LinearClippedMean, SlopedRows
from dpaudit.kernels.query import Array, ClippedMean, client_weights, clipped_difference_mean
from dpaudit.nodes import Node
from dpaudit.scope import Scope
from mechanisms.papers.common.losses import Loss
from mechanisms.papers.diff2.ghost import (
    GhostClippedMean,
    is_ghost,
    is_linear,
)
from mechanisms.papers.diff2.noise import Noise
from mechanisms.papers.diff2.routines import (
    GradientDescent,
    HeavyBall,
    LocalDescent,
    NormalizedDescent,
    Routine,
    turns,
)
from mechanisms.papers.diff2.units import by_client, client_query, radii_moved

__all__ = [
    "Diff2",
    "GradientDescent",
    "HeavyBall",
    "LocalDescent",
    "NormalizedDescent",
    "Routine",
    "Trained",
    "schedule",
    "smallest_total",
    "turns",
]


@dataclass(frozen=True)
class Trained:
    """What a run gives: the paper's output (a uniformly random iterate), and the last iterate."""

    output: Array
    last: Array


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

        One record moves a release by at most factor * C / (n_min P), one client by factor * C / P:
        factor 2 under replace_one, 1 under zero_out.  (Murata and Suzuki 2023, Lemma C.1 and
        footnote 6.)  The routine's own come after.
        """
        parts: list[Node] = [NonPrivate(reason) for reason in self.non_private]
        total = self.clients if by_client(scope) else smallest_total(self.client_sizes)
        parts += self.server(scope, total)
        return Compose(*parts, *self.routine.declaration(self, scope))

    def server(self, scope: Scope, total: int) -> list[Node]:
        """The full-batch releases, where one unit's weight is 1 / ``total``."""
        factor = radii_moved(scope)
        first = Gaussian("gradient", self.noise.sigma_1 * total / factor)
        parts: list[Node] = [Repeat(first, self.restarts)]
        if self.rounds > self.restarts:
            second = Gaussian("difference", self.noise.sigma_2 * total / factor)
            parts.append(Repeat(second, self.rounds - self.restarts))
        return parts

    def client_declaration(self, scope: Scope, client: int) -> Node:
        """What the run tells of one client, or of its records; the guarantee is the largest.

        Records of larger clients weigh less in a mean, and some clients have a turn less.
        """
        held = 1 if by_client(scope) else self.client_sizes[client]
        server = self.server(scope, held * self.clients)
        if isinstance(self.routine, LocalDescent) and self.routine.steps > 1:
            return Compose(*server, self.routine.ledger(self, scope, client))
        return Compose(*server)

    def run(self, curator: Curator) -> Trained:
        """Run on a curator; iterates are (trials, dimension).

        With clients as units its records are (clients, n, columns), one row a client.
        """
        chosen = curator.coin(lambda rng: rng.integers(0, self.rounds, size=curator.trials))
        output = x = np.zeros((curator.trials, 1))
        for r, (visited, after) in enumerate(self.iterates(curator)):
            output = np.where((chosen == r)[:, None], visited, output)
            x = after
        return Trained(output, x)

    def iterates(self, curator: Curator) -> Iterator[tuple[Array, Array]]:
        """Round by round, the point visited before its last update, and the iterate after it."""
        x = previous = self.loss.initial(self.features, curator.trials, self.start_seed)
        estimate = np.zeros_like(x)
        for r in range(self.rounds):
            restart = r % self.restart_every == 0
            query = self.gradient_query(x) if restart else self.difference_query(x, previous)
            if by_client(curator.scope):
                query = client_query(query, self.client_sizes)
            released = self.asked(curator, "gradient" if restart else "difference", query, r)
            estimate = released if restart else estimate + released
            after, visited = self.routine.step(curator, self, x, previous, estimate, r)
            previous, x = x, after
            yield visited, x

    def asked(self, curator: Curator, label: str, query: ClippedMean, turn: int) -> Array:
        """The query's noisy value in round ``turn``."""
        return curator.release(label, query)

    def gradient_query(self, x: Array) -> ClippedMean:
        """The mean over clients of clipped gradients at x, radius C1."""
        weights = client_weights(self.client_sizes)
        rows = partial(self.loss.gradients, x)
        if is_ghost(self.loss):
            return GhostClippedMean(
                rows,
                self.gradient_radius,
                weights,
                factors=partial(self.loss.factors, x),
                pack=self.loss.pack,
            )
        if is_linear(self.loss):
            sloped = SlopedRows(partial(self.loss.slopes, x))
            return LinearClippedMean(sloped, self.gradient_radius, weights)
        return ClippedMean(rows, self.gradient_radius, weights)

    def difference_query(self, x: Array, previous: Array) -> ClippedMean:
        """The mean over clients of clipped gradient differences, radius C2 ||x - previous||."""
        radius = self.difference_radius * np.linalg.norm(x - previous, axis=-1)
        plain = clipped_difference_mean(
            partial(self.loss.gradients, x),
            partial(self.loss.gradients, previous),
            radius,
            client_weights(self.client_sizes),
        )
        if is_linear(self.loss):
            slope, earlier = partial(self.loss.slopes, x), partial(self.loss.slopes, previous)
            sloped = SlopedRows(lambda rows: slope(rows) - earlier(rows))
            return LinearClippedMean(sloped, radius, plain.weights)
        if not is_ghost(self.loss):
            return plain
        now, before = partial(self.loss.factors, x), partial(self.loss.factors, previous)
        return GhostClippedMean(
            plain.per_record,
            radius,
            plain.weights,
            factors=lambda rows: now(rows) - before(rows),
            pack=self.loss.pack,
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
