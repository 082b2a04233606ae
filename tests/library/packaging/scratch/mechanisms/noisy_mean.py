"""A clipped mean with Gaussian noise."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dpaudit.accountant.claim import Claim
from dpaudit.curator.curator import Curator
from dpaudit.curator.mechanism import Mechanism, Setting
from dpaudit.families.additive import Gaussian
from dpaudit.families.opaque import GDP
from dpaudit.kernels.query import Array, ClippedMean
from dpaudit.nodes import Node
from dpaudit.scope import Scope


@dataclass(frozen=True)
class NoisyMean:
    """The mean of rows clipped to norm 1, with noise of twice its sensitivity: 1/2-GDP."""

    noise_multiplier: int = 2

    def declaration(self, scope: Scope) -> Node:
        return Gaussian("mean", self.noise_multiplier)

    def run(self, curator: Curator) -> Array:
        return curator.release("mean", ClippedMean(lambda rows: rows[None], radius=1.0))


noisy_mean = Mechanism(
    name="noisy_mean",
    title="A noisy mean",
    source="dpaudit's tests",
    program=NoisyMean(),
    scope=Scope("replace_one", "record", "central", "transcript"),
    claims=(Claim(GDP(Fraction(1, 2)), by="dpaudit's tests"),),
    setting=Setting("dpaudit's tests", "one row", "one row", ("one noisy mean",)),
)
