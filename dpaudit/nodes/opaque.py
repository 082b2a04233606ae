"""Leaves for what somebody else proved, which are also the claims; and for no privacy at all."""

from __future__ import annotations

from dataclasses import dataclass

from dpaudit.arithmetic import Number
from dpaudit.domains import non_negative, number, probability
from dpaudit.errors import InvalidParameter
from dpaudit.nodes.core import Leaf


@dataclass(frozen=True, eq=False, repr=False)
class PureDP(Leaf):
    """An opaque ``epsilon``-DP mechanism; also the claim of pure differential privacy.

    ``source`` says who proved it; a guarantee that rests on it is certified under that assumption.
    """

    epsilon: Number = number(non_negative)
    label: str = ""
    source: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class ApproxDP(Leaf):
    """An opaque (``epsilon``, ``delta``)-DP mechanism; also the claim of it."""

    epsilon: Number = number(non_negative)
    delta: Number = number(probability)
    label: str = ""
    source: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class ZCDP(Leaf):
    """An opaque ``rho``-zCDP mechanism (Renyi divergence <= rho * order); also the claim of it."""

    rho: Number = number(non_negative)
    label: str = ""
    source: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class GDP(Leaf):
    """An opaque ``mu``-GDP mechanism (trade-off curve above G_mu); also the claim of it."""

    mu: Number = number(non_negative)
    label: str = ""
    source: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class NonPrivate(Leaf):
    """An access to the data that carries no noise; no calculus gives it a finite guarantee."""

    reason: str

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.reason:
            raise InvalidParameter("NonPrivate: expected the reason, in words")
