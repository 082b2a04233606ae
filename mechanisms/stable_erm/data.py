"""Users made of the RAND rows: blocks of a fixed permutation, since the file names no person.

A simulated user is a block of rows; a guarantee per user is one for such a block.  Rows go to users
at random, which is what the bounds of utility ask for.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from dpaudit.errors import InvalidParameter
from dpaudit.query import Array, Records
from mechanisms import randhie

SIMULATED = "users are simulated: blocks of rows of a fixed permutation; no person is one user"


@lru_cache(maxsize=8)
def users_of(users: int, items: int, columns: str) -> Array:
    """(users, items, features): "visits" (one number in [0, 1]) or "logistic" (10 and a label).

    Errors: InvalidParameter for more rows than there are, or other columns.
    """
    if columns not in ("visits", "logistic"):
        raise InvalidParameter(f"columns = {columns!r}: expected visits or logistic")
    target = "visits" if columns == "visits" else "any_visit"
    rows = randhie.load(target=target, clients=1).train  # type: ignore[arg-type]
    if users * items > len(rows):
        raise InvalidParameter(f"{users} users of {items} rows: there are {len(rows)} rows")
    chosen = rows[: users * items]
    wanted = chosen[:, -1:] if columns == "visits" else chosen
    return np.asarray(wanted.reshape(users, items, -1))


def records_of(users: int, items: int, columns: str) -> Records:
    """The same as records, one a user."""
    return Records(users_of(users, items, columns))


def item_records(count: int) -> Records:
    """Single rows, one a record: (count, 1, 11)."""
    return Records(users_of(count, 1, "logistic"))
