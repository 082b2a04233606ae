"""Users made of the RAND rows: blocks of a fixed permutation, since the file names no person.

A simulated user is a block of rows; a guarantee per user is one for such a block.  Rows go to users
at random, which is what the bounds of utility ask for.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from dpaudit.errors import InvalidParameter
from dpaudit.kernels.query import Array, Records
from mechanisms.papers.common import randhie
from mechanisms.papers.stable_erm.release import EQUAL_ITEMS

TARGETS: dict[str, randhie.Target] = {"visits": "visits", "logistic": "any_visit"}
SIMULATED = "users are simulated: blocks of rows of a fixed permutation; no person is one user"


@lru_cache(maxsize=8)
def users_of(users: int, items: int, columns: str) -> Array:
    """(users, items, features): "visits" (one number in [0, 1]) or "logistic" (10 and a label).

    Errors: InvalidParameter for more rows than there are, or other columns.
    """
    if columns not in TARGETS:
        raise InvalidParameter(f"columns = {columns!r}: expected {' or '.join(TARGETS)}")
    rows = randhie.load(target=TARGETS[columns], clients=1).train
    if users * items > len(rows):
        raise InvalidParameter(f"{users} users of {items} rows: there are {len(rows)} rows")
    chosen = rows[: users * items]
    wanted = chosen[:, -1:] if columns == "visits" else chosen
    return np.asarray(wanted.reshape(users, items, -1))


def records_of(users: int, items: int, columns: str) -> Records:
    """The same as records, one a user."""
    return Records(users_of(users, items, columns))


def records_of_lists(users: Sequence[Array]) -> Records:
    """Each user's own items, (items, features), as records, one a user.

    Errors: InvalidParameter for no user, a user without items, unequal numbers of items.
    """
    arrays = [_numbers(items) for items in users]
    if not arrays or any(a.ndim != 2 or a.size == 0 for a in arrays):
        raise InvalidParameter(
            "users: expected at least one, and (items, features) of each, not empty; put a null "
            "user, known without the data, in the place of an empty one"
        )
    if len({a.shape for a in arrays}) > 1:
        raise InvalidParameter(f"users: unequal numbers of items or features: {EQUAL_ITEMS}")
    return Records(np.stack(arrays))


def _numbers(items: Array) -> Array:
    """As floats; empty where they are none, since what NumPy says quotes a record."""
    try:
        return np.asarray(items, dtype=np.float64)
    except (TypeError, ValueError):
        return np.empty(0)


def item_records(count: int) -> Records:
    """Single rows, one a record: (count, 1, 11)."""
    return Records(users_of(count, 1, "logistic"))
