"""What DIFF2 is compared with where privacy is no object: plain functions of the records.

They are outside the catalogue: their claim is infinite (:data:`NOT_PRIVATE`), no curator runs them,
and whatever they return counts as private data.
"""

from __future__ import annotations

import operator

import numpy as np
from numpy.typing import NDArray

from dpaudit.curator.coins import Generator, draw_batch
from dpaudit.errors import InvalidParameter
from dpaudit.families.additive import Gaussian
from dpaudit.families.opaque import NonPrivate
from dpaudit.families.sampling import SampledWithoutReplacement
from dpaudit.kernels.query import Array
from mechanisms.papers.common.losses import Loss

NOT_PRIVATE = NonPrivate("a reference run without clipping or noise: no guarantee")


def gradient_descent(
    loss: Loss,
    records: Array,
    client_sizes: tuple[int, ...],
    rounds: int,
    step_size: float,
    start_seed: int = 0,
) -> Array:
    """x_0 .. x_R of gradient descent on the unweighted mean over clients: (rounds + 1, dimension).

    ``records`` (n, columns), client by client.  Not private.
    Errors: InvalidParameter for counts or a step that are not positive, or sizes that do not sum to
    n.  Source: Murata and Suzuki 2023, Section 6, "GD".
    """
    clients = _clients(records, client_sizes)
    _check(rounds=rounds)
    _check_step(step_size)
    x = loss.initial(records.shape[1] - 1, 1, start_seed)
    path = [x[0]]
    for _ in range(rounds):
        x = x - step_size * _mean_gradient(loss, x, clients)
        path.append(x[0])
    return np.array(path)


def bvr_local_sgd(
    loss: Loss,
    records: Array,
    client_sizes: tuple[int, ...],
    rounds: int,
    step_size: float,
    *,
    steps: int,
    batch_size: int,
    rng: Generator,
    start_seed: int = 0,
) -> Array:
    """x_0 .. x_R of BVR-L-SGD: (rounds + 1, dimension).

    In round r client 1 + (r mod P) makes ``steps`` steps: the first along the full gradient, each
    later one after adding the mean gradient difference over a fresh batch of its records, drawn
    without replacement.  Not private.
    Errors: as :func:`gradient_descent`; a batch above the smallest client.
    Source: Murata and Suzuki 2021; here Murata and Suzuki 2023, Algorithm 4 with T = 1, no noise
    and no clipping.
    """
    clients = _clients(records, client_sizes)
    _check(rounds=rounds, steps=steps, batch_size=batch_size)
    _check_step(step_size)
    if batch_size > min(client_sizes):
        raise InvalidParameter(f"batch_size = {batch_size}: a client has {min(client_sizes)} rows")
    x = loss.initial(records.shape[1] - 1, 1, start_seed)
    path = [x[0]]
    for r in range(1, rounds + 1):
        own = clients[r % len(clients)]
        estimate = _mean_gradient(loss, x, clients)
        previous, x = x, x - step_size * estimate
        for _ in range(1, steps):
            batch = own[_members(len(own), batch_size, rng)]
            difference = loss.gradients(x, batch) - loss.gradients(previous, batch)
            estimate = estimate + difference.mean(axis=1)
            previous, x = x, x - step_size * estimate
        path.append(x[0])
    return np.array(path)


def _members(size: int, batch_size: int, rng: Generator) -> NDArray[np.intp]:
    """The draw a curator makes, so that equal generators give equal batches."""
    sampling = SampledWithoutReplacement(Gaussian("batch", 1), batch_size, size)
    return np.flatnonzero(draw_batch(sampling, 1, size, rng)[0])


def _mean_gradient(loss: Loss, x: Array, clients: list[Array]) -> Array:
    gradients = [loss.gradients(x, rows).mean(axis=1) for rows in clients]
    return np.asarray(np.mean(gradients, axis=0))


def _clients(records: Array, client_sizes: tuple[int, ...]) -> list[Array]:
    if not client_sizes or min(client_sizes) < 1 or sum(client_sizes) != len(records):
        raise InvalidParameter(
            f"client_sizes: expected positive sizes that sum to the {len(records)} records"
        )
    return np.split(records, np.cumsum(client_sizes)[:-1])


def _check(**counts: int) -> None:
    for name, value in counts.items():
        try:
            fits = operator.index(value) >= 1 and not isinstance(value, bool)
        except TypeError:
            fits = False
        if not fits:
            raise InvalidParameter(f"{name} = {value!r}: expected a positive whole number")


def _check_step(step_size: float) -> None:
    if not 0 < step_size < np.inf:
        raise InvalidParameter(f"step_size = {step_size}: expected a positive, finite number")
