"""Pairs of which Renyi divergences are known, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dpaudit.exact import Number
from dpaudit.pairs.core import Comparisons, Symmetric, at_least


@dataclass(frozen=True)
class Concentrated(Symmetric):
    """Whatever pair has all Renyi divergences at most rho times the order (rho-zCDP)."""

    rho: Number

    grows: ClassVar[Comparisons] = {"rho": at_least}


@dataclass(frozen=True)
class Renyi(Symmetric):
    """Whatever pair has Renyi divergence at most ``epsilon`` at ``order``, in both directions."""

    order: Number
    epsilon: Number

    grows: ClassVar[Comparisons] = {"epsilon": at_least}
