"""A record in one of several slots, chosen uniformly."""

from __future__ import annotations

from dataclasses import dataclass

from dpaudit.exact import Number
from dpaudit.pairs.core import Pair


@dataclass(frozen=True)
class Allocated(Pair):
    """The mixture over i of N(e_i / z, I) against N(0, I) in ``slots`` dimensions.

    z = ``noise_multiplier``: one record takes part in one of the slots, chosen uniformly.
    """

    noise_multiplier: Number
    slots: Number


@dataclass(frozen=True)
class Reshuffled(Pair):
    """The mixture over i of N(2 e_i / z, I) against that of N(e_i / z, I), in ``slots`` dimensions.

    z = ``noise_multiplier``: one record is in one of the slots, chosen uniformly, and all others
    contribute the opposite of what it does.  Its upper bounds are those of Normal(1 / z).
    """

    noise_multiplier: Number
    slots: Number
