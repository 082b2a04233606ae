"""The unit of privacy: one record of a client, or all that a client holds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import FEW_KINDS, Array, ClippedMean, Records, clip_rows
from dpaudit.scope import Adjacency, Scope, Trust, Unit


def radii_moved(scope: Scope) -> int:
    """How many clipping radii one changed unit moves a clipped row by: 2 replaced, 1 zeroed out.

    A row is a record, or the mean over one client's clipped records, which is no longer.
    Errors: InvalidParameter under add_remove, where a mean over n units has no sensitivity; for
    users, who may be spread over clients; where no curator is trusted.
    """
    if scope.adjacency is Adjacency.ADD_REMOVE:
        raise InvalidParameter("DIFF2 divides by the number of records: use zero_out, replace_one")
    if scope.unit is Unit.USER or scope.trust is not Trust.CENTRAL:
        raise InvalidParameter(
            f"DIFF2 declares its noise for a record or a client and a trusted curator: {scope}"
        )
    return 2 if scope.adjacency is Adjacency.REPLACE_ONE else 1


def by_client(scope: Scope) -> bool:
    """Whether the unit is a client with all its records."""
    return scope.unit is Unit.CLIENT


def client_query(query: ClippedMean, client_sizes: tuple[int, ...]) -> ClippedMean:
    """The same mean over clients of means over clipped records, as a query whose rows are clients.

    A curator of this unit holds records of shape (clients, n, columns): one row is one client.  The
    row's vector is the mean over its n clipped records, of norm at most the radius; so replacing
    a client moves the result by 2 radius / P, which is what the query states.
    Errors: InvalidParameter for clients of different sizes, before data is touched.
    Source: Murata and Suzuki 2023, footnote 6, worked out.
    """
    size = equal_size(client_sizes)
    rows = partial(_client_means, query.per_record, query.radius, size)
    clients = len(client_sizes)
    return ClippedMean(rows, query.radius, np.full(clients, 1 / clients), norm=query.norm)


def equal_size(client_sizes: tuple[int, ...]) -> int:
    """The number of records of every client; errors: InvalidParameter where they differ."""
    if len(set(client_sizes)) != 1:
        raise InvalidParameter(
            "Diff2.client_sizes: a run with clients as units needs clients of one size"
        )
    return client_sizes[0]


def client_rows(values: Array, size: int) -> Array:
    """The rows as (clients, size, columns); errors: InvalidParameter for another shape."""
    if values.ndim != 3 or values.shape[1] != size:
        raise InvalidParameter(
            f"records of shape {values.shape[1:]} a row: with clients as units a row is one "
            f"client, ({size}, columns)"
        )
    return values


def _client_means(
    per_record: Callable[[Array], Array], radius: Any, size: int, values: Array
) -> Array:
    clients = client_rows(values, size)
    rows, origin = Records(clients.reshape(-1, clients.shape[2])).distinct()
    if len(rows) <= FEW_KINDS:
        kinds = (origin.reshape(len(clients), size, 1) == np.arange(len(rows))).mean(axis=1)
        vectors = clip_rows(per_record(rows), radius)
        return np.asarray(np.einsum("pk,tkd->tpd", kinds, vectors))
    vectors = clip_rows(per_record(clients.reshape(-1, clients.shape[2])), radius)
    trials, _, dimension = vectors.shape
    return np.asarray(vectors.reshape(trials, len(clients), size, dimension).mean(axis=2))


def public_batch_query(
    per_record: Callable[[Array], Array],
    radius: Array,
    batch: Array,
    size: int,
) -> ClippedMean:
    """The mean of clipped vectors over a *public* batch of one client's records, one row a client.

    ``batch`` (trials, b) are indices made of public coins.  Every record in it may change with the
    client, so that the mean moves by 2 radius however secret the batch: nothing is amplified.
    ``per_record`` takes (trials, b, columns).
    """
    rows = partial(_batch_means, per_record, radius, batch, size)
    return ClippedMean(rows, radius, divisor=1.0)


def _batch_means(
    per_record: Callable[[Array], Array], radius: Array, batch: Array, size: int, values: Array
) -> Array:
    means = [
        clip_rows(per_record(client[batch]), radius).mean(axis=1)
        for client in client_rows(values, size)
    ]
    return np.stack(means, axis=1)
