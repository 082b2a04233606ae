"""Neighbouring data sets, checked to be neighbours."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpaudit.errors import InvalidParameter
from dpaudit.exact.wire import digest
from dpaudit.kernels.query import Records
from dpaudit.scope import Adjacency, choose


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Two data sets that differ in one unit under ``adjacency``; ``text`` says how.

    ``size``: in how many units at most, where the guarantee is one for groups
    (:class:`dpaudit.Group`).  Records are compared bit by bit.  Under add_remove the extra records
    are the last ones.
    Errors: InvalidParameter where they differ in none, in more than ``size`` records, or in shape.

    >>> import dpaudit as dp
    >>> one, none = dp.Records([[0.0], [1.0]]), dp.Records([[0.0], [0.0]])
    >>> dp.Neighbours(one, none, "replace_one", "one record is 1 or 0").adjacency.value
    'replace_one'
    """

    first: Records
    second: Records
    adjacency: Adjacency
    text: str
    size: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "adjacency", choose(Adjacency, self.adjacency, "Neighbours"))
        if self.first.values.shape[1:] != self.second.values.shape[1:]:
            raise InvalidParameter(f"Neighbours ({self.text}): rows of different shapes")
        check = _add_remove if self.adjacency is Adjacency.ADD_REMOVE else _same_size
        changed = check(self.first, self.second, self.adjacency, self.size)
        if not 1 <= changed <= self.size:
            expected = "exactly 1" if self.size == 1 else f"1 to {self.size}"
            raise InvalidParameter(
                f"Neighbours ({self.text}): {changed} records differ under {self.adjacency}; "
                f"expected {expected}"
            )

    @property
    def pair(self) -> tuple[Records, Records]:
        """Both data sets."""
        return self.first, self.second

    @property
    def digests(self) -> tuple[str, str]:
        """SHA-256 of each data set's shape, values and presence."""
        return digest_of(self.first), digest_of(self.second)


def differing(a: Records, b: Records) -> int:
    """The number of records that differ, in value or presence, between data sets of one size."""
    rows = (_bits(a) != _bits(b)).any(axis=1)
    return int(np.count_nonzero((rows & (a.present | b.present)) | (a.present != b.present)))


def extra_last(a: Records, b: Records) -> tuple[Records, Records] | None:
    """Two data sets of which one has a record more, with that record moved to the end.

    The longer one is first.  None where no single record makes the difference.
    """
    longer, shorter = (a, b) if len(a) > len(b) else (b, a)
    if len(longer) != len(shorter) + 1 or not (longer.present.all() and shorter.present.all()):
        return None
    same = (_bits(longer)[:-1] == _bits(shorter)).all(axis=1)
    place = len(shorter) if same.all() else int(same.argmin())
    if (np.delete(_bits(longer), place, axis=0) != _bits(shorter)).any():
        return None
    extra = longer.values[place : place + 1]
    return Records(np.concatenate([shorter.values, extra])), shorter


def alone(a: Records, b: Records, fill: float) -> tuple[Records, Records]:
    """Two data sets that differ in one record, with that record last; all others hold ``fill``."""
    longest = max(len(a), len(b))
    place = longest - 1
    if len(a) == len(b):
        same = (_bits(a) == _bits(b)).all(axis=1) & (a.present == b.present)
        place = int(same.argmin())

    def silenced(records: Records) -> Records:
        values, present = np.full_like(records.values, fill), np.ones(len(records), dtype=bool)
        if len(records) == longest:
            values[-1], present[-1] = records.values[place], records.present[place]
        return Records(values, present)

    return silenced(a), silenced(b)


def _bits(records: Records) -> NDArray[np.int64]:
    return np.ascontiguousarray(records.values).view(np.int64).reshape(len(records), -1)


def _same_size(a: Records, b: Records, adjacency: Adjacency, size: int) -> int:
    if a.values.shape != b.values.shape:
        raise InvalidParameter(f"Neighbours: sizes {len(a)} and {len(b)} differ under {adjacency}")
    if adjacency is Adjacency.ZERO_OUT and (a.present == b.present).all():
        return 0
    if adjacency is Adjacency.REPLACE_ONE and (a.present != b.present).any():
        raise InvalidParameter("Neighbours: a record is zeroed out, which is not replace_one")
    return differing(a, b)


def _add_remove(a: Records, b: Records, adjacency: Adjacency, size: int) -> int:
    longer, shorter = (a, b) if len(a) > len(b) else (b, a)
    if not 1 <= len(longer) - len(shorter) <= size:
        raise InvalidParameter(f"Neighbours: sizes {len(a)} and {len(b)} under {adjacency}")
    if not (a.present.all() and b.present.all()):
        raise InvalidParameter(f"Neighbours: a record is zeroed out, which is not {adjacency}")
    more = len(longer) - len(shorter)
    return more + differing(longer.rows(0, len(shorter)), shorter)


def digest_of(records: Records) -> str:
    """SHA-256 of a data set's shape, values and presence."""
    content = {
        "shape": list(records.values.shape),
        "values": np.ascontiguousarray(records.values).tobytes().hex(),
        "present": np.packbits(records.present).tobytes().hex(),
    }
    return digest(content)
