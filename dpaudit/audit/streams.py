"""Streams: batches of trials that are copies of one another, noticed before anything is counted."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from dpaudit.errors import InvalidParameter
from dpaudit.storage.batches import Key

FALSE_ALARM = 1e-12  # of the search for repeated noise, over all comparisons
# Trials of two batches that are compared; the short prefix also finds copies among batches of
# different lengths.
PREFIX_LENGTHS = (64, 4096)


@dataclass
class Streams:
    """The draws seen so far in a run of ``batches`` batches; a copy of an earlier batch is refused.

    Two batches coincide if an array of numbers starts with the same rows, byte for byte, in both.
    If the m rows of one batch are x and the rows of another are independent draws of any law p,
    then P(they equal x) = prod p(x_i) <= exp(-m H(x)), H the entropy in nats of the frequencies in
    x (the likelihood is largest there).  A coincidence counts only if that bound, times the pairs
    of batches and the prefixes, is below 10^-12: constants, rare events and a handful of trials
    never do.

    Errors: InvalidParameter, naming both keys and the array.
    Source: Cover and Thomas (2006), Theorem 11.1.2.
    """

    batches: int
    _seen: dict[tuple[str, bytes], Key] = field(default_factory=dict, repr=False)

    def add(self, key: Key, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take in a batch; every numeric array leads with the trials and holds draws."""
        # Each array has at most two prefixes, each pair of batches is compared once.
        pairs = max(1, self.batches * (self.batches - 1) // 2)
        tests = pairs * max(1, len(arrays)) * len(PREFIX_LENGTHS)
        for name, array in arrays.items():
            if array.dtype.kind in "biufc":
                for print_of_rows in _fingerprints(array, math.log(FALSE_ALARM / tests)):
                    other = self._seen.setdefault((name, print_of_rows), key)
                    if other != key:
                        first, second = sorted((other, key))
                        raise InvalidParameter(
                            f"batches {first} and {second}: the same draws of {name!r}; draw from "
                            "the generator that each call is given, and share none between calls"
                        )


def _fingerprints(array: npt.NDArray[Any], log_chance: float) -> list[bytes]:
    """Digests of the prefixes whose rows do not coincide by chance."""
    lengths = {min(len(array), length) for length in PREFIX_LENGTHS}
    prefixes = (np.ascontiguousarray(array[:length]) for length in sorted(lengths))
    return [
        hashlib.blake2b(prefix.tobytes(), digest_size=16, key=str(prefix.shape).encode()).digest()
        for prefix in prefixes
        if -_total_entropy(prefix) < log_chance
    ]


def _total_entropy(rows: npt.NDArray[Any]) -> float:
    """m H(x): the number of rows times the entropy of their frequencies, in nats."""
    width = rows.nbytes // len(rows)
    if width == 0:
        return 0.0
    counts = Counter(np.frombuffer(rows.tobytes(), f"V{width}").tolist()).values()
    return math.fsum(count * math.log(len(rows) / count) for count in counts)
