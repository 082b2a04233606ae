"""What a round of DIFF2 does with the released estimate.

Source: Murata and Suzuki 2023, Algorithms 3 and 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

import numpy as np

from dpaudit.curator.curator import Curator
from dpaudit.errors import InvalidParameter
from dpaudit.exact import Number, exact
from dpaudit.exact.domains import non_negative
from dpaudit.families.additive import Gaussian
from dpaudit.families.composition import Parallel, Repeat
from dpaudit.families.sampling import SampledWithoutReplacement
from dpaudit.kernels.query import Array, ClippedMean
from dpaudit.nodes import Node
from dpaudit.scope import Scope
from mechanisms.papers.common.losses import Loss
from mechanisms.papers.diff2.units import by_client, equal_size, public_batch_query, radii_moved

if TYPE_CHECKING:
    from mechanisms.papers.diff2.framework import Diff2


class Routine(Protocol):
    """How one round uses the released estimate; what it reads of the data, it declares.

    A routine that reads data without a declaration is refused by the curator.
    """

    def declaration(self, program: Diff2, scope: Scope) -> list[Node]:
        """The noise of the routine's own releases over all rounds; empty for post-processing."""

    def step(
        self,
        curator: Curator,
        program: Diff2,
        x: Array,
        previous: Array,
        estimate: Array,
        turn: int,
    ) -> tuple[Array, Array]:
        """The next iterate, and the point visited before the round's last update.

        ``previous``: the iterate before x, x itself in the first round; all are released values.
        """


class OfTheEstimate:
    """A routine of the estimate alone, hence post-processing: nothing of the data is asked."""

    def declaration(self, program: Diff2, scope: Scope) -> list[Node]:
        return []

    def step(
        self,
        curator: Curator,
        program: Diff2,
        x: Array,
        previous: Array,
        estimate: Array,
        turn: int,
    ) -> tuple[Array, Array]:
        return self.moved(program, x, previous, estimate), x

    def moved(self, program: Diff2, x: Array, previous: Array, estimate: Array) -> Array:
        """The next point."""
        raise NotImplementedError


@dataclass(frozen=True)
class GradientDescent(OfTheEstimate):
    """One step along the estimate: post-processing.

    Source: Murata and Suzuki 2023, Algorithm 3, with x_{r-1} as the output of round r.
    """

    def moved(self, program: Diff2, x: Array, previous: Array, estimate: Array) -> Array:
        return x - program.step_size * estimate


@dataclass(frozen=True)
class HeavyBall(OfTheEstimate):
    """One step along the estimate, and ``momentum`` times the last one: post-processing too.

    x_r = x_{r-1} - ``step_size`` v_r + momentum (x_{r-1} - x_{r-2}).
    The same guarantee as gradient descent; no utility is claimed.
    Errors: InvalidParameter for a momentum outside [0, 1).
    Source: Polyak 1964; Murata and Suzuki 2023, Section 7, names other routines.
    """

    momentum: float = 0.9

    def __post_init__(self) -> None:
        if not 0 <= self.momentum < 1:
            raise InvalidParameter(f"HeavyBall.momentum = {self.momentum}: expected in [0, 1)")

    def moved(self, program: Diff2, x: Array, previous: Array, estimate: Array) -> Array:
        return x - program.step_size * estimate + self.momentum * (x - previous)


@dataclass(frozen=True)
class NormalizedDescent(OfTheEstimate):
    """One step of length ``step_size`` along the estimate: post-processing too.

    The same guarantee as gradient descent; no utility is claimed.
    Source: Murata and Suzuki 2023, Section 7, names other routines; this one is ours.
    """

    def moved(self, program: Diff2, x: Array, previous: Array, estimate: Array) -> Array:
        length = np.linalg.norm(estimate, axis=-1, keepdims=True)
        return x - program.step_size * estimate / np.where(length > 0, length, 1.0)


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
        """The local releases of one client: (steps - 1) for each of its turns.

        For a client as the unit every record of a batch may change: noise over sensitivity is
        ``sigma`` over 2 (replace_one), and nothing is amplified.
        """
        times = (self.steps - 1) * turns(program.rounds, program.clients, client)
        factor, label = radii_moved(scope), f"local {client}"
        if by_client(scope):
            return Repeat(Gaussian(label, self.sigma / factor), times)
        noise = Gaussian(label, self.sigma * self.batch_size / factor)
        size = program.client_sizes[client]
        return Repeat(SampledWithoutReplacement(noise, self.batch_size, size), times)

    def step(
        self,
        curator: Curator,
        program: Diff2,
        x: Array,
        previous: Array,
        estimate: Array,
        turn: int,
    ) -> tuple[Array, Array]:
        client = (turn + 1) % program.clients
        chosen = curator.coin(lambda rng: rng.integers(0, self.steps, size=curator.trials))
        release = self._on_public_batch if by_client(curator.scope) else self._on_secret_batch
        out, previous, x = x, x, x - program.step_size * estimate
        for k in range(1, self.steps):
            out = np.where((chosen >= k)[:, None], x, out)
            estimate = estimate + release(curator, program, client, x, previous)
            previous, x = x, x - program.step_size * estimate
        return x, out

    def _on_secret_batch(
        self, curator: Curator, program: Diff2, client: int, x: Array, previous: Array
    ) -> Array:
        rows = curator.part(client, program.client_sizes)
        label, query = f"local {client}", self.query(program, x, previous)
        with curator.batch(label, rows) as batch:
            return curator.release(label, query, rows=batch)

    def _on_public_batch(
        self, curator: Curator, program: Diff2, client: int, x: Array, previous: Array
    ) -> Array:
        """With clients as units secrecy of the batch buys nothing: its indices are public coins."""
        size = equal_size(program.client_sizes)
        shape = curator.trials, size
        batch = curator.coin(lambda rng: rng.random(shape).argsort(axis=1)[:, : self.batch_size])
        secret = self.query(program, x, previous)
        query = public_batch_query(secret.per_record, secret.radius, batch, size)
        return curator.release(
            f"local {client}", query, rows=curator.part(client, (1,) * program.clients)
        )

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
