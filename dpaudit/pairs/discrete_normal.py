"""Discrete Gaussian noise on the integers."""

from __future__ import annotations

from dataclasses import dataclass

from dpaudit.exact import Number
from dpaudit.pairs.core import Symmetric


@dataclass(frozen=True)
class DiscreteNormal(Symmetric):
    """Discrete Gaussian noise on the integers, sigma^2 = ``variance``, moved by ``shift``."""

    variance: Number
    shift: Number
